"""Functions that fill an online index from files, from a finished run or from another index."""

import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from heapq import merge
from itertools import groupby
from pathlib import Path
from typing import Any, NamedTuple, TypedDict

import numpy as np
import pyarrow as pa

from nearkin.corpus import Batch, Columns, FileCorpus, detect_dimensions, make_ids
from nearkin.corpus.batches import WHOLE_FILE, Rejection
from nearkin.corpus.inputs import Selection
from nearkin.corpus.rejects import count_rejections
from nearkin.engine.blocklist.blocklist import Blocklist
from nearkin.engine.documents import Documents
from nearkin.engine.keywords import RunParameters
from nearkin.engine.parameters import spec_of
from nearkin.errors import UsageError
from nearkin.index.bulk_load import BulkLoad, ClusterRow
from nearkin.index.documents import TextAndVector, documents_of
from nearkin.index.entry import Entry, Outcome, require_id, require_unreserved_scope
from nearkin.index.exports import is_protected, read_entries, read_header
from nearkin.index.history import HistoryCopy
from nearkin.index.index import Index
from nearkin.index.opening import (
    FIXED_SETTINGS,
    OPTIONAL_SETTINGS,
    IndexHeader,
    read_vector_evidence,
)
from nearkin.index.settings import SettingsFields, VectorEvidence
from nearkin.reports.run_warnings import warn_of_inputs, warn_of_rejections
from nearkin.runs.saved import SIGNATURES, SavedRun
from nearkin.runtime.setting_names import name_setting
from nearkin.settings.keys import HashKey
from nearkin.settings.spec import Spec
from nearkin.stages.sketch.resources import SpecResources

PORTION_DOCUMENTS = 1000
"""The number of documents that are upserted in one step. While another process writes the same
documents one by one, a much larger step would fail."""
PORTION_BYTES = 32 << 20
"""The size of documents, in bytes, from which they are upserted."""


@dataclass(frozen=True)
class AddedDocuments:
    """The result of an upsert of the documents of files.

    Attributes:
        outcomes: Number of documents of each kind of outcome, in the order of the kinds' names.
        rejected: Number of rejected rows.
        records: Number of documents in the index.
        warnings: Warnings about the files.
        partial: Number of documents that were stored with their text or their vector alone, because
            the other value is not valid.
    """

    outcomes: Mapping[str, int]
    rejected: int
    records: int
    warnings: Sequence[str]
    partial: int = 0

    @property
    def documents(self) -> int:
        """The number of documents that were upserted."""
        return sum(self.outcomes.values())

    def to_dict(self) -> dict[str, int]:
        """Returns the counts by name, without the warnings."""
        return {
            "documents": self.documents,
            **self.outcomes,
            **({"partial": self.partial} if self.partial else {}),
            "rejected": self.rejected,
            "records": self.records,
        }


class LoadedRun(TypedDict):
    """The result of building an index from a run."""

    documents: int
    clusters: int
    spec_fingerprint: str
    store: str
    """The URL of the store, without a password."""


class BothColumns(NamedTuple):
    """The columns of files whose documents have a text, a vector, or both."""

    texts: Columns
    """The columns for texts."""
    vectors: Columns
    """The columns for vectors of the same rows."""


class NewIndex(NamedTuple):
    """The settings of an index that is created."""

    parameters: RunParameters
    """The options of the Spec of texts, or of the documents of one column."""
    threshold: float | None
    """The threshold, or None for the default."""
    fields: SettingsFields
    vector_threshold: float | None = None
    """The threshold of the vectors of an index of texts and vectors, or None for the default."""


def add_files(
    inputs: tuple[str, ...],
    columns: Columns | BothColumns,
    url: str,
    scope: str,
    secret: HashKey | None = None,
    new: NewIndex | None = None,
    *,
    spec_resources: Path | None = None,
    selection: Selection | None = None,
    observe: Callable[[Outcome], None] = lambda _: None,
    decisions: Path | None = None,
    blocklist: Path | None = None,
) -> AddedDocuments:
    """Upserts the documents of files.

    If texts and vectors are named, a row is a document if it has one of them. In an index with
    `combine="both"` it must have both.
    """
    require_unreserved_scope(scope)
    files = DocumentFiles.open(inputs, columns, selection)
    spec: Spec | None = None
    fields: SettingsFields = {}
    if new is not None:
        spec = spec_of(new.parameters, files.columns)
        fields = new.fields
        if files.vectors is not None:
            dimensions = files.vectors.dimensions or 1
            vector_spec = Spec(measure="cosine", unit="vector", n=dimensions)
            evidence = VectorEvidence(vector_spec, new.vector_threshold)
            evidence = evidence if secret is None else evidence.keyed_with(secret)
            fields = {**fields, "vector": evidence}
    with Index.open(
        url,
        spec,
        None if new is None else new.threshold,
        resources=SpecResources(secret),
        spec_resources=spec_resources,
        decisions={} if decisions is None else {scope: decisions},
        blocklist=None if blocklist is None else Blocklist.open(blocklist),
        warm_up=False,
        **fields,
    ) as index:
        reader = files.read_for(index)
        kinds: Counter[str] = Counter()
        for portion in reader.portions(portion_size(index)):
            documents = [row.document for row in portion if row.document is not None]
            for outcome in index.upsert_many(scope, documents, [row.id for row in portion]):
                kinds[str(outcome.kind)] += 1
                observe(outcome)
        return AddedDocuments(
            outcomes=dict(sorted(kinds.items())),
            rejected=reader.rejected(),
            records=index.counts()["records"],
            warnings=[*files.warnings, *reader.warnings()],
            partial=reader.partial,
        )


def portion_size(index: Index) -> int:
    """Returns the number of documents of files that are upserted in one step."""
    return min(index.settings.max_batch, PORTION_DOCUMENTS)


class DocumentFiles(NamedTuple):
    """Files with documents for an index."""

    corpus: FileCorpus
    columns: Columns
    """The columns for texts, or for the documents of one column."""
    vectors: Columns | None
    """The columns for the vectors of documents that have a text, a vector, or both."""
    warnings: Sequence[str]
    """Warnings about the files."""

    @classmethod
    def open(
        cls,
        inputs: Sequence[str],
        columns: Columns | BothColumns,
        selection: Selection | None = None,
    ) -> "DocumentFiles":
        """Opens files, and requires that they have the columns."""
        corpus = FileCorpus.open(inputs, selection=selection)
        vectors: Columns | None = None
        if isinstance(columns, BothColumns):
            columns, vectors = columns
            vectors = detect_dimensions(corpus, vectors)
            corpus.check(vectors)
        warnings = warn_of_inputs(corpus, columns)
        columns = detect_dimensions(corpus, columns)
        corpus.check(columns)
        return cls(corpus, columns, vectors, warnings)

    def read_for(self, index: Index) -> "FileReader | PairReader":
        """Returns a reader of the documents, which the index must be able to hold."""
        texts = FileReader(self.corpus, self.columns)
        if self.vectors is None:
            return texts
        return PairReader.open(index, texts, FileReader(self.corpus, self.vectors))


def is_null(rejection: Rejection) -> bool:
    """Returns whether a row was rejected because it has no value."""
    return rejection.reason.endswith(" is null")


class _Row(NamedTuple):
    """A document of a file."""

    place: tuple[int, int]
    """The number of the file, and the row in it."""
    id: str | None
    document: str | np.ndarray | TextAndVector | None
    """The text, the vector, or both. None for a value that is not valid."""


class FileReader:
    """A reader of the documents of one content column."""

    partial = 0

    def __init__(self, corpus: FileCorpus, columns: Columns) -> None:
        self._corpus = corpus
        self._columns = columns
        self._rejected_count = 0
        self._reasons: Counter[str] = Counter()
        self._invalid: str | None = None

    def rows_and_invalid_values(self) -> Iterator[_Row]:
        """Yields the documents in their order, and a row without one for each invalid value."""
        for batch in self._corpus.batches(self._columns):
            invalid = [
                _Row((rejection.file, rejection.row), None, None)
                for rejection in batch.rejected
                if rejection.row != WHOLE_FILE and rejection.rows == 1 and not is_null(rejection)
            ]
            yield from sorted([*self._read_batch(batch), *invalid], key=lambda row: row.place)

    def portions(self, most: int) -> Iterator[list[_Row]]:
        """Yields the documents in lists, which are parts of the batches of the corpus."""
        for batch in self._corpus.batches(self._columns):
            rows = self._read_batch(batch)
            for start in range(0, len(rows), most):
                yield rows[start : start + most]

    def _read_batch(self, batch: Batch) -> list[_Row]:
        """Returns the documents of a batch, and counts its rejected rows."""
        self._rejected_count += batch.rejected_rows
        self._reasons.update(count_rejections(batch.rejected))
        for rejection in batch.rejected:
            if self._invalid is None and not is_null(rejection):
                place = self._corpus.files[rejection.file].shown_path
                row = "" if rejection.row == WHOLE_FILE else f", row {rejection.row}"
                self._invalid = f"{place}{row}: {rejection.reason}"
        documents = documents_of(batch.documents[self._columns.content])
        ids: list[str | None] = [None] * len(documents)
        if self._columns.id:
            ids = make_ids(batch, self._columns, self._corpus.names).to_pylist()
        places = zip(batch.files.tolist(), batch.rows.tolist(), strict=True)
        return list(map(_Row, places, ids, documents))

    def rejected(self) -> int:
        """Returns the number of rows that were rejected so far."""
        return self._rejected_count

    def first_invalid(self) -> str | None:
        """Returns the place of the first row so far that has a value which is not valid, and why.

        Such a row may be a document that the index has. A row without a value is not one.
        """
        return self._invalid

    def warnings(self) -> list[str]:
        """Returns warnings about the rows that were read."""
        return warn_of_rejections(self._rejected_count, self._reasons)


class PairReader:
    """A reader of rows with a column of texts and a column of vectors."""

    def __init__(self, texts: FileReader, vectors: FileReader, *, requires_both: bool) -> None:
        self._texts = texts
        self._vectors = vectors
        self._requires_both = requires_both
        self._incomplete = 0
        self._vector_only = 0
        self.partial = 0
        """The number of documents so far of which one value was not valid."""

    @classmethod
    def open(cls, index: Index, texts: FileReader, vectors: FileReader) -> "PairReader":
        """Returns a reader for an index of texts and vectors."""
        if not index.holds_both:
            kind = "vectors" if index.holds_vectors else "texts"
            raise UsageError(
                f"the documents of the index {index.url} are {kind}; name one column, not both"
            )
        return cls(texts, vectors, requires_both=index.settings.combine == "both")

    def portions(self, most: int) -> Iterator[list[_Row]]:
        """Yields the documents in lists of bounded length and size."""
        return _split_into_portions(self._rows(), most)

    def _rows(self) -> Iterator[_Row]:
        """Yields the documents in their order."""
        parts = merge(
            self._texts.rows_and_invalid_values(),
            self._vectors.rows_and_invalid_values(),
            key=lambda row: row.place,
        )
        for place, group in groupby(parts, key=lambda row: row.place):
            pair_rows = list(group)
            rows = [row for row in pair_rows if row.document is not None]
            if not rows:
                continue
            texts = [row.document for row in rows if isinstance(row.document, str)]
            vectors = [row.document for row in rows if isinstance(row.document, np.ndarray)]
            self._vector_only += not texts
            if self._requires_both and not (texts and vectors):
                self._incomplete += 1
                continue
            self.partial += len(rows) < len(pair_rows)
            document = TextAndVector(
                text=texts[0] if texts else None, vector=vectors[0] if vectors else None
            )
            yield _Row(place, rows[0].id, document)

    def rejected(self) -> int:
        """Returns the number of rows that have no document."""
        # The reader of texts also rejects rows that have a vector but no text.
        return self._incomplete + self._texts.rejected() - self._vector_only

    def first_invalid(self) -> str | None:
        """Returns the place of the first row so far with a value that is not valid, and why."""
        return self._texts.first_invalid() or self._vectors.first_invalid()

    def warnings(self) -> list[str]:
        """Returns a warning about documents that were stored without one of their values."""
        if not self.partial:
            return []
        documents_have = "document has" if self.partial == 1 else "documents have"
        return [
            f"{self.partial:,} {documents_have} a text or a vector that is not valid, and were "
            "stored with the other value alone; nearkin dedup lists the reasons"
        ]


def _split_into_portions(rows: Iterator[_Row], most: int) -> Iterator[list[_Row]]:
    """Yields documents in lists of bounded length and size."""
    portion: list[_Row] = []
    size = 0
    for row in rows:
        portion.append(row)
        size += _size_of(row.document)
        if len(portion) == most or size >= PORTION_BYTES:
            yield portion
            portion = []
            size = 0
    if portion:
        yield portion


def _size_of(document: str | np.ndarray | TextAndVector | None) -> int:
    """Returns the approximate size of a document in bytes."""
    if document is None:
        return 0
    if isinstance(document, TextAndVector):
        parts = (document.text, document.vector)
        return sum(_size_of(part) for part in parts if isinstance(part, str | np.ndarray))
    return len(document) if isinstance(document, str) else document.nbytes


def load_run(
    saved: SavedRun, url: str, scope: str, secret: HashKey | None, postings: str
) -> LoadedRun:
    """Builds an index from the clusters of a finished run.

    The saved signatures and the verified similarities are used, so nothing is sketched again. A
    load that was interrupted continues when it is repeated.
    """
    _require_verified_clusters(saved)
    require_unreserved_scope(scope)
    corpus = saved.open_corpus("quarantine")
    sketched = saved.record.require_sketch_stats(saved.folder)
    columns = replace(saved.record.columns_of(saved.folder), carried_columns=())
    if columns.tokens is not None:
        raise UsageError("an index stores texts and vectors; this run was made from tokens")
    clusters = saved.read_clusters()
    keys_per_document = 0
    if sketched.keyed:
        bands, _, probes = sketched.keyed
        keys_per_document = bands * (1 + probes)
    documents = Documents(saved.folder / SIGNATURES, saved.spec, keys_per_document)
    with Index.open(
        url,
        saved.spec,
        saved.record.parameters["threshold"],
        resources=SpecResources.read(saved.folder, saved.spec, secret),
        recall=saved.record.parameters["recall"],
        postings=postings,
        documents=max(len(documents), 1),
        warm_up=False,
    ) as index:
        index.require_writable(scope)
        now = index.now()
        leaders = 0
        load = BulkLoad(index)
        for batch in corpus.batches(columns):
            last = batch.first + len(batch.rows)
            column = batch.documents[columns.content]
            leaders += load.add_documents(
                scope,
                column,
                documents_of(column),
                np.asarray(documents.signatures[batch.first : last]),
                _cluster_rows(clusters.slice(batch.first, len(batch.rows))),
                now,
            )
        load.finish()
        return {
            "documents": index.counts()["records"],
            "clusters": leaders,
            "spec_fingerprint": saved.spec.fingerprint,
            "store": index.url,
        }


def _require_verified_clusters(saved: SavedRun) -> None:
    """Verifies that each member of a run was compared with the kept document."""
    saved.record.require_no_reference(saved.folder, "become an index")
    saved.record.require_no_decisions(saved.folder, "become an index")
    parameters = saved.record.parameters
    verified = parameters["cluster"] == "leaders" and parameters["verify"] == "exact"
    if not verified or parameters["distance"] or parameters["then"]:
        raise UsageError(
            f"{saved.folder} cannot become an index: its members must be verified against the kept "
            f"document ({name_setting('cluster', 'leaders')}, {name_setting('verify', 'exact')}, a "
            "threshold, one measure); build the index from its inputs instead"
        )
    others = {
        "block_by": "it compared within blocks; build a scope for each block",
        "across": "it compared only documents of different sources; build the index",
        "accept": "it removed documents under a condition, which an index does not check; build "
        "the index",
        "max_lost": "it removed documents under a condition, which an index does not check; build "
        "the index",
        "fields": "it compared several fields, and an index compares one; build the index",
        "same": "it joined documents with equal values, whose texts it did not compare; build the "
        "index",
        "url": "it joined documents with equal values, whose texts it did not compare; build the "
        "index",
    }
    for name, reason in others.items():
        value = parameters.get(name)
        if value:
            raise UsageError(
                f"{saved.folder} cannot become an index, because it was made with "
                f"{name_setting(name, value)}: {reason} from its inputs instead"
            )


def _cluster_rows(clusters: pa.Table) -> list[ClusterRow]:
    """Returns the rows of a run's cluster table."""
    columns = [clusters[name].to_pylist() for name in ("id", "cluster", "similarity")]
    return [
        ClusterRow(require_id(id), representative, similarity)
        for id, representative, similarity in zip(*columns, strict=True)
    ]


def migrate(
    source: str, target_url: str, secret: HashKey | None, spec_resources: Path | None = None
) -> int:
    """Copies an index, or an export of one, unchanged into an empty store.

    A copy that was interrupted continues when it is repeated.
    """
    resources = SpecResources(secret)
    if "://" not in source:
        path = Path(source)
        with _open_copy(target_url, read_header(path), resources, spec_resources) as target:
            return _load_entries(target, read_entries(path), protects=is_protected(path))
    with (
        Index.open(
            source,
            resources=resources,
            spec_resources=spec_resources,
            must_exist=True,
            warm_up=False,
        ) as index,
        _open_copy(target_url, index.header(), resources, spec_resources) as target,
    ):
        total = _load_entries(target, index.scan(), protects=index.is_protected())
        HistoryCopy(index._session.store, target._session.store).copy_new()
        return total


def _open_copy(
    url: str, header: IndexHeader, resources: SpecResources, spec_resources: Path | None
) -> Index:
    """Opens an index with the header of another one."""
    spec = Spec.from_json(json.dumps(header["spec"]))
    fixed = (*FIXED_SETTINGS, *OPTIONAL_SETTINGS)
    fields: dict[str, Any] = {name: value for name, value in header.items() if name in fixed}
    if "vector" in header:
        fields["vector"] = read_vector_evidence(header["vector"])
    return Index.open(
        url, spec, resources=resources, spec_resources=spec_resources, warm_up=False, **fields
    )


def _load_entries(index: Index, entries: Iterator[Entry], *, protects: bool) -> int:
    """Adds documents to an empty index as they are."""
    load = BulkLoad(index)
    total = load.add_entries(entries, protects=protects)
    load.finish()
    return total
