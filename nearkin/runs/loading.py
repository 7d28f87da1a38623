"""Functions that fill an online index from files, from a finished run or from another index."""

import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from heapq import merge
from itertools import groupby
from pathlib import Path
from typing import NamedTuple, TypedDict

import numpy as np
import pyarrow as pa

from nearkin.corpus import Batch, Columns, FileCorpus, detect_dimensions, make_ids
from nearkin.corpus.batches import WHOLE_FILE
from nearkin.corpus.inputs import Selection
from nearkin.corpus.rejects import count_rejections
from nearkin.engine.blocklist.blocklist import Blocklist
from nearkin.engine.documents import Documents
from nearkin.errors import UsageError
from nearkin.index.bulk_load import BulkLoad, ClusterRow
from nearkin.index.documents import TextAndVector, documents_of
from nearkin.index.entry import Entry, Outcome, require_id, require_unreserved_scope
from nearkin.index.exports import is_protected, read_entries, read_header
from nearkin.index.index import Index
from nearkin.index.opening import IndexHeader, read_vector_evidence
from nearkin.index.settings import SettingsFields, VectorEvidence
from nearkin.reports.run_warnings import warn_of_inputs, warn_of_rejections
from nearkin.runs.saved import SIGNATURES, SavedRun
from nearkin.runs.spec_request import SpecRequest
from nearkin.runtime.setting_names import name_setting
from nearkin.settings.keys import HashKey
from nearkin.settings.spec import Spec
from nearkin.stages.sketch.resources import SpecResources

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


def add_files(
    inputs: tuple[str, ...],
    columns: Columns,
    request: SpecRequest,
    url: str,
    scope: str,
    threshold: float | None,
    postings: str | None,
    spec_resources: Path | None = None,
    selection: Selection | None = None,
    searching: SettingsFields | None = None,
    observe: Callable[[Outcome], None] | None = None,
    decisions: Path | None = None,
    blocklist: Path | None = None,
) -> AddedDocuments:
    """Upserts the documents of files. `searching` has further settings of a new index."""
    require_unreserved_scope(scope)
    corpus = FileCorpus.open(inputs, selection=selection)
    warnings = warn_of_inputs(corpus, columns)
    columns = detect_dimensions(corpus, columns)
    corpus.check(columns)
    spec: Spec | None = None
    fields: SettingsFields = {}
    if postings is not None:
        spec = request.to_spec(columns)
        fields = {"postings": postings, **(searching or {})}
    new_threshold = None if spec is None else threshold
    resources = SpecResources(request.secret)
    with Index.open(
        url,
        spec,
        new_threshold,
        resources=resources,
        spec_resources=spec_resources,
        decisions={} if decisions is None else {scope: decisions},
        blocklist=None if blocklist is None else Blocklist.open(blocklist),
        **fields,
    ) as index:
        reader = _FileReader(corpus, columns)
        portions = reader.portions(index.settings.max_batch)
        added = _upsert_rows(index, scope, portions, warnings, reader.rejected, observe)
        reasons = warn_of_rejections(added.rejected, reader.reasons)
        return replace(added, warnings=[*added.warnings, *reasons])


class BothColumns(NamedTuple):
    """The columns of files whose documents have a text, a vector, or both."""

    texts: Columns
    """The columns for texts."""
    vectors: Columns
    """The columns for vectors of the same rows."""


class NewEvidence(NamedTuple):
    """The settings of a new index of texts and vectors."""

    threshold: float | None
    """The threshold of the vectors, or None for the default."""
    combine: str
    """The value of the setting `combine`."""


def add_files_of_both(
    inputs: tuple[str, ...],
    columns: BothColumns,
    request: SpecRequest,
    url: str,
    scope: str,
    threshold: float | None,
    postings: str | None,
    evidence: NewEvidence | None = None,
    spec_resources: Path | None = None,
    selection: Selection | None = None,
    decisions: Path | None = None,
    blocklist: Path | None = None,
) -> AddedDocuments:
    """Upserts the documents of files into an index of texts and vectors.

    A row is a document if it has a text or a vector. With `combine="both"` it must have both.
    """
    require_unreserved_scope(scope)
    corpus = FileCorpus.open(inputs, selection=selection)
    warnings = warn_of_inputs(corpus, columns.texts)
    vector_columns = detect_dimensions(corpus, columns.vectors)
    corpus.check(columns.texts)
    corpus.check(vector_columns)
    spec: Spec | None = None
    fields: SettingsFields = {}
    if postings is not None and evidence is not None:
        vector_spec = Spec(measure="cosine", unit="vector", n=vector_columns.dimensions or 1)
        vector = VectorEvidence(vector_spec, evidence.threshold)
        spec = request.to_spec(columns.texts)
        fields = {
            "postings": postings,
            "vector": vector if request.secret is None else vector.keyed_with(request.secret),
            "combine": evidence.combine,
        }
    new_threshold = None if spec is None else threshold
    resources = SpecResources(request.secret)
    with Index.open(
        url,
        spec,
        new_threshold,
        resources=resources,
        spec_resources=spec_resources,
        decisions={} if decisions is None else {scope: decisions},
        blocklist=None if blocklist is None else Blocklist.open(blocklist),
        **fields,
    ) as index:
        if not index.holds_both:
            kind = "vectors" if index.holds_vectors else "texts"
            raise UsageError(
                f"the documents of the index {index.url} are {kind}; name one column, not both"
            )
        reader = _PairReader(
            _FileReader(corpus, columns.texts),
            _FileReader(corpus, vector_columns),
            requires_both=index.settings.combine == "both",
        )
        portions = _split_into_portions(reader.rows(), index.settings.max_batch)
        added = _upsert_rows(index, scope, portions, warnings, reader.rejected)
        return added if not reader.partial else _warn_of_partial_documents(added, reader.partial)


def _warn_of_partial_documents(added: AddedDocuments, partial: int) -> AddedDocuments:
    """Adds the number of documents that were stored without one of their values, as a warning."""
    documents_have = "document has" if partial == 1 else "documents have"
    warning = (
        f"{partial:,} {documents_have} a text or a vector that is not valid, and were stored with "
        "the other value alone; nearkin dedup lists the reasons"
    )
    return replace(added, partial=partial, warnings=[*added.warnings, warning])


class _Row(NamedTuple):
    """A document of a file."""

    place: tuple[int, int]
    """The number of the file, and the row in it."""
    id: str | None
    document: str | np.ndarray | TextAndVector | None
    """The text, the vector, or both. None for a value that is not valid."""


class _FileReader:
    """A reader of the documents of one content column.

    Attributes:
        reasons: Numbers of rows that were rejected so far, by reason.
    """

    def __init__(self, corpus: FileCorpus, columns: Columns) -> None:
        self._corpus = corpus
        self._columns = columns
        self._rejected_count = 0
        self.reasons: Counter[str] = Counter()

    def rows_and_invalid_values(self) -> Iterator[_Row]:
        """Yields the documents in their order, and a row without one for each invalid value."""
        for batch in self._corpus.batches(self._columns):
            invalid = [
                _Row((rejection.file, rejection.row), None, None)
                for rejection in batch.rejected
                if rejection.row != WHOLE_FILE
                and rejection.rows == 1
                and not rejection.reason.endswith(" is null")
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
        self.reasons.update(count_rejections(batch.rejected))
        documents = documents_of(batch.documents[self._columns.content])
        ids: list[str | None] = [None] * len(documents)
        if self._columns.id:
            ids = make_ids(batch, self._columns, self._corpus.names).to_pylist()
        places = zip(batch.files.tolist(), batch.rows.tolist(), strict=True)
        return [
            _Row(place, id, document)
            for place, id, document in zip(places, ids, documents, strict=True)
        ]

    def rejected(self) -> int:
        """Returns the number of rows that were rejected so far."""
        return self._rejected_count


class _PairReader:
    """A reader of rows with a column of texts and a column of vectors."""

    def __init__(self, texts: _FileReader, vectors: _FileReader, *, requires_both: bool) -> None:
        self._texts = texts
        self._vectors = vectors
        self._requires_both = requires_both
        self._incomplete = 0
        self._vector_only = 0
        self.partial = 0
        """The number of documents so far of which one value was not valid."""

    def rows(self) -> Iterator[_Row]:
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


def _upsert_rows(
    index: Index,
    scope: str,
    portions: Iterator[list[_Row]],
    warnings: list[str],
    count_rejected: Callable[[], int],
    observe: Callable[[Outcome], None] | None = None,
) -> AddedDocuments:
    """Upserts documents in batches."""
    kinds: dict[str, int] = {}
    for portion in portions:
        documents = [row.document for row in portion if row.document is not None]
        ids = [row.id for row in portion]
        for outcome in index.upsert_many(scope, documents, ids):
            kind = str(outcome.kind)
            kinds[kind] = kinds.get(kind, 0) + 1
            if observe is not None:
                observe(outcome)
    return AddedDocuments(
        outcomes=dict(sorted(kinds.items())),
        rejected=count_rejected(),
        records=index.counts()["records"],
        warnings=warnings,
    )


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
    if parameters["block_by"] is not None:
        raise UsageError(
            f"{saved.folder} cannot become an index: it compared within blocks "
            f"({parameters['block_by']}); build a scope for each block from its inputs"
        )
    if parameters.get("across") is not None:
        raise UsageError(
            f"{saved.folder} cannot become an index: it compared only documents of different "
            f"sources ({parameters['across']}); build the index from its inputs instead"
        )
    for name in ("accept", "max_lost"):
        if parameters.get(name) is not None:
            raise UsageError(
                f"{saved.folder} cannot become an index: it removed documents under a condition "
                f"({name_setting(name, parameters[name])}), which an index does not check; build "
                "the index from its inputs instead"
            )
    if parameters.get("fields"):
        raise UsageError(
            f"{saved.folder} cannot become an index: it compared several fields, and an index "
            "compares one; build the index from its inputs instead"
        )
    if parameters.get("same") is not None or parameters.get("url") is not None:
        raise UsageError(
            f"{saved.folder} cannot become an index: it joined documents with equal values of a "
            "column, whose texts it did not compare; build the index from its inputs instead"
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
            source, resources=resources, spec_resources=spec_resources, must_exist=True
        ) as index,
        _open_copy(target_url, index.header(), resources, spec_resources) as target,
    ):
        return _load_entries(target, index.scan(), protects=index.is_protected())


def _open_copy(
    url: str, header: IndexHeader, resources: SpecResources, spec_resources: Path | None
) -> Index:
    """Opens an index with the header of another one."""
    spec = Spec.from_json(json.dumps(header["spec"]))
    fields: SettingsFields = {
        "recall": header["recall"],
        "bands": header["bands"],
        "rows": header["rows"],
        "probes": header["probes"],
        "documents": header["documents"],
        "postings": header["postings"],
        "store_text": header["store_text"],
    }
    if "distance" in header:
        fields["distance"] = header["distance"]
    if "related" in header:
        fields["related"] = header["related"]
    if "passages" in header:
        fields["passages"] = header["passages"]
    if "vector" in header:
        fields["vector"] = read_vector_evidence(header["vector"])
    if "combine" in header:
        fields["combine"] = header["combine"]
    return Index.open(
        url, spec, header["threshold"], resources=resources, spec_resources=spec_resources, **fields
    )


def _load_entries(index: Index, entries: Iterator[Entry], *, protects: bool) -> int:
    """Adds documents to an empty index as they are."""
    load = BulkLoad(index)
    total = load.add_entries(entries, protects=protects)
    load.finish()
    return total
