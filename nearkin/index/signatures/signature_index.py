"""An index of signatures in memory, for sets, tokens, texts, vectors or signatures."""

import json
from collections.abc import Iterable, Mapping, Set
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple, Self, TypedDict

import numpy as np
import pyarrow as pa

from nearkin.corpus.arrow_conversion import refuse_paths, to_documents, type_name
from nearkin.errors import UsageError, WireError
from nearkin.index.signatures.chain_table import ChainTable, enlarge
from nearkin.index.signatures.signature import Signature, tokens_of_set
from nearkin.index.signatures.sketching import SketchedDocuments, sketch_documents, sketcher_pool
from nearkin.runtime.argument_types import check_arguments
from nearkin.runtime.files import require_file_path
from nearkin.runtime.number_range import COUNT, COUNT_OR_NONE, SHARE_ABOVE_0, NumberRange
from nearkin.runtime.process_limits import workers_or_cores
from nearkin.runtime.threads import require_workers
from nearkin.settings.spec import FINGERPRINT, Spec
from nearkin.stages.lsh.band_keys import write_band_keys
from nearkin.stages.lsh.kernels import pair_agreements
from nearkin.stages.lsh.slot_bands import Banding, require_bands_with_rows
from nearkin.stages.measures import BandingRequest, measure_of
from nearkin.stages.measures.base import band_layout_of
from nearkin.stages.packed_pairs import PAIRS_PER_BATCH, pack_pairs
from nearkin.stages.sketch.resources import NO_RESOURCES, SpecResources
from nearkin.stages.sketch.signature_file import SignatureWriter, read_metadata, read_signatures

Id = str | int
"""The id of a signature: a text or a whole number."""
EMPTY_SLOT = 0xFFFFFFFF
QUERIES = 8192
"""The number of queries whose candidates are in memory at a time."""
LEAST_ROWS = 1024
"""The number of rows that a new index has space for."""
MAX_POSTINGS = 2**32 - 1
"""The largest number of postings. Chains consist of 32-bit numbers."""
METADATA = b"nearkin.signature_index"
"""The entry of a signature file that holds the settings of the index that was saved."""
ROWS_PER_BATCH = 1 << 14
"""The number of signatures of a batch of a saved index."""


class _SearchSettings(TypedDict, total=False):
    """The settings that a saved file holds. `SignatureIndex` documents them."""

    threshold: float
    recall: float
    bands: int | None
    rows: int | None
    documents: int


def _read_settings(path: Path) -> tuple[_SearchSettings, bool]:
    """Returns the settings of a saved index, and whether its ids are numbers.

    A file of `nearkin lab sketch` has no settings. No checksum covers them.
    """
    metadata = read_metadata(path).get(METADATA)
    saved: Any = json.loads(metadata) if metadata else {}
    kind = saved.pop("ids", "str")
    if unknown := set(saved) - set(_SearchSettings.__annotations__):
        raise ValueError(f"unknown setting {min(unknown)!r}")
    return saved, kind == "int"


class _PickledIndex(TypedDict):
    """The state of an index in a pickle: its settings and its stored signatures."""

    spec: Spec
    threshold: float
    recall: float
    documents: int
    workers: int
    resources: SpecResources
    _given_bands: tuple[int | None, int | None]
    stored: tuple[list[Id], np.ndarray, np.ndarray]


class SignatureMatch(NamedTuple):
    """A stored signature that resembles a query."""

    id: Id
    """The id of the stored signature."""
    estimate: float
    """The estimated similarity to the query."""


@dataclass(frozen=True)
class SignatureMatches:
    """The matches of several queries, in arrays.

    Attributes:
        starts: Place of the first match of each query, and the end, int64 (q + 1,).
        ids: Ids of the matches, object (m,). The most similar ones of a query come first.
        estimates: Estimated similarities, float64 (m,).
    """

    starts: np.ndarray
    ids: np.ndarray
    estimates: np.ndarray

    def of(self, query: int) -> list[SignatureMatch]:
        """Returns the matches of one query, the most similar ones first.

        Args:
            query: Number of the query, from 0.

        Raises:
            IndexError: If there are not so many queries.
        """
        if not 0 <= query < len(self):
            raise IndexError(f"query {query} is outside 0 to {len(self) - 1}")
        part = slice(int(self.starts[query]), int(self.starts[query + 1]))
        pairs = zip(self.ids[part].tolist(), self.estimates[part].tolist(), strict=True)
        return [SignatureMatch(id, estimate) for id, estimate in pairs]

    def __len__(self) -> int:
        return len(self.starts) - 1


class SignatureIndex:
    """An index of signatures in memory that finds similar ones by locality-sensitive hashing.

    It answers with estimates: nothing is verified, because no texts are stored. `nearkin.Index` is
    the index for documents, with stores, verification and clusters. Documents without shingles
    never match. Several threads may query at the same time, but not while the index is changed.

    Args:
        threshold: Similarity that a search is made for, in (0, 1].
        spec: Spec of the signatures. The default is `Spec()`.
        recall: Share of the pairs at the threshold that must be found, in (0, 1).
        bands: Number of bands, or None to derive it from the recall.
        rows: Number of rows of a band, or None to derive it from the recall.
        documents: Approximate number of signatures. Bands of signs are derived from it.
        resources: The hash key and the data that the Spec refers to.
        workers: Number of threads that sketch. By default, the cores that the process may use.

    Raises:
        UsageError: If an argument is out of range, or the Spec keeps fewer than 32 bits of slots,
            from which bands cannot be computed, or is of fingerprints.

    Examples:
        >>> index = SignatureIndex(0.5, Spec(n=1, k=256))
        >>> index.add_many(["a", "b"], [{"cat", "dog", "cow"}, {"car", "bus", "train"}])
        >>> [match.id for match in index.query({"cat", "dog", "cow", "hen"})]
        ['a']
        >>> index.remove("a"), len(index)
        (True, 1)
    """

    @check_arguments
    def __init__(
        self,
        threshold: float = 0.8,
        spec: Spec | None = None,
        *,
        recall: float = 0.95,
        bands: int | None = None,
        rows: int | None = None,
        documents: int = 1_000_000,
        resources: SpecResources = NO_RESOURCES,
        workers: int | None = None,
    ) -> None:
        self.spec = spec or Spec()
        if self.spec.unit == FINGERPRINT:
            raise UsageError(
                "fingerprints are compared by their Hamming distance, and not by a threshold; "
                "store them in a nearkin.HammingIndex"
            )
        if self.spec.truncated:
            raise UsageError(
                f"slot_bits={self.spec.slot_bits} keeps too little of a slot to compute bands; use "
                "slot_bits=32"
            )
        require_bands_with_rows(bands, rows)
        SHARE_ABOVE_0.require("threshold", threshold)
        COUNT.require("documents", documents)
        workers = workers_or_cores(workers)
        require_workers(workers)
        self.threshold = threshold
        self.recall = recall
        self.documents = documents
        self.resources = resources
        self.workers = workers
        self._given_bands = (bands, rows)
        self._prepare()
        self._reserve_nothing()

    def _prepare(self) -> None:
        """Makes what follows from the settings and is not stored."""
        bands, rows = self._given_bands
        measure = measure_of(self.spec, self.resources)
        request = BandingRequest(
            self.threshold, self.recall, bands=bands, rows=rows, documents=self.documents
        )
        self._measure = measure
        self._banding: Banding = measure.banding(request)
        self._layout = band_layout_of(self.spec, self._banding, None)
        self._sketchers = sketcher_pool(measure)

    def _reserve_nothing(self) -> None:
        """Makes the arrays of an empty index."""
        self._size = 0
        self._rows: dict[Id, int] = {}
        self._ids = np.empty(LEAST_ROWS, object)
        self._signatures = np.empty(
            (LEAST_ROWS, self.spec.signature_width), self.spec.signature_type
        )
        self._shingles = np.zeros(LEAST_ROWS, np.uint32)
        self._alive = np.zeros(LEAST_ROWS, bool)
        self._chains = ChainTable(self._banding.bands, LEAST_ROWS, heads_per_posting=2)

    @property
    def bands(self) -> int:
        """The number of bands."""
        return self._banding.bands

    @property
    def rows(self) -> int:
        """The number of rows of a band."""
        return self._banding.rows

    @property
    def ids(self) -> list[Id]:
        """The ids of the stored signatures, in the order of their addition."""
        return list(self._rows)

    def __len__(self) -> int:
        return len(self._rows)

    def __contains__(self, id: object) -> bool:
        return id in self._rows

    def __getitem__(self, id: Id) -> Signature:
        """Returns the signature of an id. It is a view of the array of the index."""
        return Signature(self._signatures[self._rows[id]], self.spec)

    @check_arguments
    def add(self, id: Id, document: Any) -> None:
        """Adds one document. `add_many` is faster for many.

        Args:
            id: Id that the caller chooses.
            document: A text, a list of tokens, a set of texts or numbers, a vector, or a signature
                (`Signature` or an array), as the Spec requires it.

        Raises:
            UsageError: If the id is stored already, or the document is not valid.
        """
        self.add_many([id], _as_column(document))

    def add_many(self, ids: Iterable[Id] | pa.Array | pa.ChunkedArray, documents: Any) -> None:
        """Adds documents. Either all are added, or none.

        Args:
            ids: Ids that the caller chooses, texts or whole numbers, each once: a list, a numpy
                array, an Arrow array or a series.
            documents: The documents, one for each id: a column of texts or of token lists, a list
                of sets, a matrix of vectors, a list of `Signature`s, or an array of signatures,
                (n, w).

        Raises:
            UsageError: If an id is stored already, or the documents are not valid.
            IncompatibleError: If a signature has another Spec.
        """
        names = _list_ids(ids)
        self._require_new(names)
        sketched = self._signatures_of(documents)
        if len(sketched.signatures) != len(names):
            raise UsageError(
                f"there are {len(names)} ids and {len(sketched.signatures)} documents; give as "
                "many ids as documents"
            )
        self._append(names, sketched)

    @check_arguments
    def query(
        self, document: Any, *, at_least: float | None = None, top: int | None = None
    ) -> list[SignatureMatch]:
        """Returns the stored signatures that resemble a document, the most similar ones first.

        Args:
            document: A document of a kind that `add` takes.
            at_least: Minimum estimate. By default, the estimate may be several standard errors
                below the threshold, so that the recall at the threshold is kept.
            top: Maximum number of matches.

        Raises:
            UsageError: If the document is not valid, or a limit is out of range.
        """
        return self.query_many(_as_column(document), at_least=at_least, top=top).of(0)

    @check_arguments
    def query_many(
        self, documents: Any, *, at_least: float | None = None, top: int | None = None
    ) -> SignatureMatches:
        """Returns the stored signatures that resemble each document, in one call.

        Args:
            documents: Documents, as for `add_many`.
            at_least: Minimum estimate. By default, the estimate may be several standard errors
                below the threshold, so that the recall at the threshold is kept.
            top: Maximum number of matches of a document.

        Raises:
            UsageError: If a document is not valid, or a limit is out of range.
        """
        _check_limits(at_least, top)
        sketched = self._signatures_of(documents)
        keys = self._keys_of(sketched.signatures)
        parts = [
            self._search(
                sketched.signatures[start : start + QUERIES],
                keys[start : start + QUERIES],
                sketched.shingles[start : start + QUERIES] > 0,
                at_least,
                top,
            )
            for start in range(0, len(keys), QUERIES)
        ]
        counts = np.concatenate([np.zeros(1, np.int64), *(np.diff(part.starts) for part in parts)])
        return SignatureMatches(
            np.cumsum(counts),
            np.concatenate([np.empty(0, object), *(part.ids for part in parts)]),
            np.concatenate([np.empty(0), *(part.estimates for part in parts)]),
        )

    @check_arguments
    def remove(self, id: Id) -> bool:
        """Deletes the signature of an id. Returns False if there was none."""
        return self.remove_many([id]) == 1

    def remove_many(self, ids: Iterable[Id] | pa.Array | pa.ChunkedArray) -> int:
        """Deletes signatures. Unknown ids are ignored.

        Args:
            ids: Ids of signatures, as for `add_many`.

        Returns:
            The number of deleted signatures.

        Raises:
            UsageError: If the ids are one text instead of a list.
        """
        # Nothing is removed if one of them cannot be an id.
        known = [id for id in dict.fromkeys(_list_ids(ids)) if id in self._rows]
        rows = np.array([self._rows.pop(id) for id in known], np.int64)
        self._alive[rows] = False
        self._ids[rows] = None
        removed = self._size - len(self._rows)
        if removed > max(LEAST_ROWS, len(self._rows)):
            self._rebuild()
        return len(rows)

    @check_arguments
    def merge(self, other: "SignatureIndex") -> None:
        """Adds all signatures of another index of the same Spec.

        Args:
            other: The other index. It may have other bands and another threshold.

        Raises:
            IncompatibleError: If the Specs differ. The message names the difference.
            UsageError: If an id is stored in both.
        """
        self.spec.require(other.spec, "the index to merge")
        names, rows = other._list_stored()
        self._require_new(names)
        self._append(names, SketchedDocuments(other._signatures[rows], other._shingles[rows]))

    @check_arguments
    def save(self, path: str | Path) -> None:
        """Writes the index as a signature file, which `nearkin.SignatureIndex.load` reads.

        Args:
            path: File, which is replaced when the new one is complete.

        Raises:
            UsageError: If the ids are of both types, texts and numbers, an id is not valid Unicode,
                or the path is a folder or in a folder that does not exist.
        """
        names, rows = self._list_stored()
        kinds = {type(name) for name in names} or {str}
        if len(kinds) > 1:
            raise UsageError(
                "the ids are texts and numbers, and a file holds one type; convert them to texts"
            )
        bands, rows_of_band = self._given_bands
        settings: _SearchSettings = {
            "threshold": self.threshold,
            "recall": self.recall,
            "bands": bands,
            "rows": rows_of_band,
            "documents": self.documents,
        }
        saved = {**settings, "ids": kinds.pop().__name__}
        metadata = {METADATA: json.dumps(saved).encode()}
        [texts] = to_documents(list(map(str, names))) or [pa.array([], pa.large_string())]
        require_file_path(Path(path))
        with SignatureWriter(Path(path), self.spec, metadata) as writer:
            for start in range(0, len(rows), ROWS_PER_BATCH):
                part = rows[start : start + ROWS_PER_BATCH]
                writer.add(
                    texts.slice(start, len(part)), self._signatures[part], self._shingles[part]
                )

    @classmethod
    @check_arguments
    def load(
        cls,
        path: str | Path,
        threshold: float | None = None,
        *,
        resources: SpecResources = NO_RESOURCES,
        workers: int | None = None,
    ) -> Self:
        """Returns the index of a file that `save` or `nearkin lab sketch` wrote.

        Args:
            path: File.
            threshold: Another threshold, from which the bands are derived again. The default is the
                saved one, or 0.8 for a file of `nearkin lab sketch`.
            resources: The hash key and the data that the Spec refers to. They are in no file.
            workers: Number of threads that sketch. By default, the cores that the process may use.

        Raises:
            UsageError: If the file does not exist, is not a signature file, or repeats an id.
            WireError: If the file is damaged.
        """
        stored = read_signatures(Path(path))
        names: list[Id] = stored.ids.to_pylist()
        try:
            settings, has_numbers = _read_settings(Path(path))
            if has_numbers:
                names = list(map(int, names))
        except (ValueError, TypeError, AttributeError, RecursionError) as error:
            raise WireError(
                f"cannot read the settings of the index {str(path)!r}: {error}; take the copy of a "
                "backup, or build the index again"
            ) from error
        if threshold is not None:
            settings = {**settings, "threshold": threshold, "bands": None, "rows": None}
        index = cls(spec=stored.spec, resources=resources, workers=workers, **settings)
        index._require_new(names)
        index._append(names, SketchedDocuments(stored.signatures, stored.shingles))
        return index

    def __getstate__(self) -> _PickledIndex:
        """Returns the settings and the signatures. A hash key is left out."""
        names, rows = self._list_stored()
        return {
            "spec": self.spec,
            "threshold": self.threshold,
            "recall": self.recall,
            "documents": self.documents,
            "workers": self.workers,
            "resources": replace(self.resources, secret=None),
            "_given_bands": self._given_bands,
            "stored": (names, self._signatures[rows], self._shingles[rows]),
        }

    def __setstate__(self, state: _PickledIndex) -> None:
        self.spec = state["spec"]
        self.threshold = state["threshold"]
        self.recall = state["recall"]
        self.documents = state["documents"]
        self.workers = state["workers"]
        self.resources = state["resources"]
        self._given_bands = state["_given_bands"]
        self._prepare()
        self._reserve_nothing()
        names, signatures, shingles = state["stored"]
        self._append(names, SketchedDocuments(signatures, shingles))

    def __repr__(self) -> str:
        return (
            f"<SignatureIndex: {len(self):,} signatures, {self.spec.measure}, threshold "
            f"{self.threshold:g}, {self.bands} bands of {self.rows} rows>"
        )

    # -- Inside

    def _require_new(self, names: list[Id]) -> None:
        """Requires that ids are texts or numbers, are not repeated, and are not stored."""
        wrong = [name for name in names if type(name) is not str and type(name) is not int]
        if wrong:
            raise UsageError(
                f"the id {wrong[0]!r} is a {type_name(wrong[0])}; give texts or whole numbers"
            )
        if len(set(names)) < len(names):
            raise UsageError("an id is given more than once; give each document an id of its own")
        if not self._rows.keys().isdisjoint(names):
            known = next(name for name in names if name in self._rows)
            raise UsageError(f"a signature is stored under the id {known!r} already; remove it")

    def _signatures_of(self, documents: Any) -> SketchedDocuments:
        """Returns the signatures of documents, which may be signatures already."""
        if isinstance(documents, list | tuple) and documents:
            if all(isinstance(document, Signature) for document in documents):
                for document in documents:
                    if document.spec is not self.spec:
                        self.spec.require(document.spec, "a signature")
                return self._with_unknown_sizes(
                    np.stack([document.values for document in documents])
                )
            if all(isinstance(document, Set) for document in documents):
                documents = pa.array(
                    [tokens_of_set(document, self.spec) for document in documents],
                    pa.large_list(pa.large_string()),
                )
            # one text may be the name of a file by chance
            elif len(documents) > 1:
                refuse_paths(documents, reads_files=False)
        elif self._is_signature_matrix(documents):
            return self._with_unknown_sizes(documents)
        return sketch_documents(documents, self._measure, self._sketchers, self.workers)

    def _is_signature_matrix(self, documents: Any) -> bool:
        if not isinstance(documents, np.ndarray) or documents.dtype.kind != "u":
            return False
        expected = (len(documents), self.spec.signature_width)
        if documents.shape != expected or documents.dtype != self.spec.signature_type:
            raise UsageError(
                f"signatures of this Spec are {np.dtype(self.spec.signature_type)} (n, "
                f"{self.spec.signature_width}), not {documents.dtype} {documents.shape}"
            )
        return True

    def _with_unknown_sizes(self, signatures: np.ndarray) -> SketchedDocuments:
        """Returns signatures of documents whose number of shingles is not known: 1, or 0 if empty.

        Only MinHash signatures show that a document has no shingles.
        """
        comparable = np.ones(len(signatures), bool)
        if signatures.dtype == np.uint32:
            comparable = (signatures != EMPTY_SLOT).any(axis=1)
        return SketchedDocuments(signatures, comparable.astype(np.uint32))

    def _keys_of(self, signatures: np.ndarray) -> np.ndarray:
        """Returns band keys, uint64 (n, b)."""
        keys = np.empty((self.bands, len(signatures)), np.uint64)
        salts = np.zeros(len(signatures), np.uint64)
        write_band_keys(self._layout, np.ascontiguousarray(signatures), salts, keys)
        return np.ascontiguousarray(keys.T)

    def _append(self, names: list[Id], sketched: SketchedDocuments) -> None:
        """Adds signatures whose ids are new."""
        first = self._size
        end = first + len(names)
        self._reserve(end)
        self._signatures[first:end] = sketched.signatures
        self._shingles[first:end] = sketched.shingles
        self._alive[first:end] = True
        self._ids[first:end] = names
        self._rows.update(zip(names, range(first, end), strict=True))
        self._size = end
        linked = self._alive[:end] & (self._shingles[:end] > 0)
        self._chains.append(self._keys_of(sketched.signatures), linked)

    def _reserve(self, size: int) -> None:
        """Makes the arrays large enough for so many rows. Their capacity doubles."""
        if size * self.bands > MAX_POSTINGS:
            raise UsageError(
                f"{size:,} signatures of {self.bands} bands are too many for one index "
                f"({MAX_POSTINGS:,} postings); divide them, or use fewer bands"
            )
        capacity = len(self._alive)
        if size <= capacity:
            return
        capacity = max(size, 2 * capacity)
        for name in ("_ids", "_signatures", "_shingles", "_alive"):
            setattr(self, name, enlarge(getattr(self, name), capacity))
        self._chains.reserve(capacity)

    def _list_stored(self) -> tuple[list[Id], np.ndarray]:
        """Returns the ids and the rows of the stored signatures."""
        rows = np.fromiter(self._rows.values(), np.int64, len(self._rows))
        return list(self._rows), rows

    def _rebuild(self) -> None:
        """Drops the rows of removed signatures."""
        names, rows = self._list_stored()
        kept = SketchedDocuments(self._signatures[rows], self._shingles[rows])
        self._reserve_nothing()
        self._append(names, kept)

    def _search(
        self,
        signatures: np.ndarray,
        keys: np.ndarray,
        comparable: np.ndarray,
        at_least: float | None,
        top: int | None,
    ) -> SignatureMatches:
        """Returns the matches of a portion of queries."""
        row_starts, rows = self._chains.find(keys, self._alive[: self._size], comparable)
        queries = np.repeat(np.arange(len(keys)), np.diff(row_starts))
        estimates = np.empty(len(rows))
        agreeing = np.empty(len(rows), np.int64)
        for start in range(0, len(rows), PAIRS_PER_BATCH):
            part = slice(start, start + PAIRS_PER_BATCH)
            agreeing[part], estimates[part] = self._compare(
                signatures[queries[part]], self._signatures[rows[part]]
            )
        fit = agreeing >= self._banding.margin if at_least is None else estimates >= at_least
        order = np.flatnonzero(fit)
        order = order[np.lexsort((rows[order], -estimates[order], queries[order]))]
        if top is not None:
            order = order[_rank_in_groups(queries[order]) < top]
        counts = np.bincount(queries[order], minlength=len(keys))
        starts = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
        return SignatureMatches(starts, self._ids[rows[order]], estimates[order])

    def _compare(self, first: np.ndarray, second: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Returns the agreeing slots and the estimated similarity of signatures, row by row."""
        numbers = np.arange(len(first))
        pairs = pack_pairs(numbers, numbers + len(first))
        agreeing = np.empty(len(first), np.int64)
        rows = np.concatenate([first, second])
        pair_agreements(pairs, rows, self._layout.layout, agreeing)
        return agreeing, self._measure.estimator.estimate(pairs, agreeing).similarity


def _list_ids(ids: Iterable[Any] | pa.Array | pa.ChunkedArray) -> list[Any]:
    """Returns ids of any library as a list of Python values."""
    if isinstance(ids, str | bytes | Mapping) or not isinstance(ids, Iterable):
        raise UsageError(f"{type_name(ids)} is not a list of ids; give a list, also for one id")
    if isinstance(ids, np.ndarray):
        return list(ids.tolist())
    if isinstance(ids, pa.Array | pa.ChunkedArray):
        return list(ids.to_pylist())
    # numbers of numpy in a list are ids like those in an array
    return [id.item() if isinstance(id, np.integer | np.str_) else id for id in ids]


def _check_limits(at_least: float | None, top: int | None) -> None:
    """Requires that a minimum estimate and a maximum number of matches are in their ranges."""
    if at_least is not None:
        NumberRange(-1, 1).require("at_least", at_least)
    if top is not None:
        COUNT_OR_NONE.require("top", top)


def _as_column(document: Any) -> Any:
    """Returns one document as a column."""
    if isinstance(document, np.ndarray):
        return document[np.newaxis]
    return [document]


def _rank_in_groups(groups: np.ndarray) -> np.ndarray:
    """Returns the position of each entry in its group. Groups are ascending, int64 (m,)."""
    positions = np.arange(len(groups))
    return positions - np.searchsorted(groups, groups, side="left")
