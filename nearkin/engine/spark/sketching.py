"""Stage 1 inside tasks: from batches of a corpus to rows of documents.

One table holds three kinds of rows, so that the inputs are read once. A row with a reason is a
rejected row. A row with facts describes its task. Every other row is a document.
"""

import json
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any, NamedTuple, TypedDict

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from nearkin.corpus import Batch, Columns
from nearkin.corpus.arrow_conversion import replace_views
from nearkin.corpus.columns import ID, carried_column_name
from nearkin.corpus.corpus import FileCorpus
from nearkin.corpus.fingerprints import fingerprint_type
from nearkin.corpus.ids import make_ids
from nearkin.corpus.input_file import InputFile
from nearkin.corpus.rejects import describe_place
from nearkin.corpus.validation import check_rows, content_arrow_type, make_empty_documents
from nearkin.engine.acceptance import TEXT_FACTS, text_facts_of
from nearkin.engine.document_facts import (
    block_hashes,
    compared_value_hashes,
    hash_text_facts,
    id_hashes,
    text_lengths,
    value_hashes,
)
from nearkin.engine.options import SMALL_CORPUS, RunOptions
from nearkin.engine.pair_acceptance import divide_blocks, group_keys
from nearkin.engine.spark.arrow_columns import make_batch, to_binary_rows, to_signed
from nearkin.engine.spark.keep_order import keep_order, unfit_types
from nearkin.engine.value_keys import value_columns_of
from nearkin.errors import NearkinError, RunError, UsageError
from nearkin.runtime.arrow_types import view_as_binary
from nearkin.runtime.setting_names import SettingForm, current_form, name_setting, settings_named_as
from nearkin.settings.acceptance import Differ, Expression, Same
from nearkin.settings.acceptance.expression import Predicate, collect_predicates
from nearkin.settings.keys import HashKey
from nearkin.stages.cluster.dates import count_unreadable_dates
from nearkin.stages.cluster.keep import DEFAULT_ORDER
from nearkin.stages.lsh.band_keys import key_builder_for
from nearkin.stages.measures import Measure
from nearkin.stages.measures.base import DocumentSketcher
from nearkin.stages.pair_scope import NO_BLOCK
from nearkin.stages.sketch.minhash import fill_shares
from nearkin.stages.sketch.resources import SpecResources
from nearkin.stages.sketch.sketcher import Sketches

FILE_SHIFT = 40
"""A document of a file is identified by file << 40 | row, which ascends in corpus order."""
DOCUMENTS = (
    "doc long,id string,sort binary,fp0 long,fp1 long,block long,shingles int,length long,"
    "signature binary,keys binary,"
    "source string,split string,reason string,raw string,facts string"
)
"""The columns of the table. Those of the keep policy follow as `riding0`, `riding1`, and so on."""
VALUE = "value"
"""The columns of the keys of values are `value0`, `value1`, and so on, one for each column of the
options `same` and `url`. They are null where a document has no value."""
ACCEPTED_BY = "accepted_by"
"""The column of what an acceptance compares: words of 64 bits, one condition after the other."""
GROUP = "exact_group"
"""The column of hashes that are equal in exact duplicates which an acceptance surely accepts."""
LIMITED_BY = "limited_by"
"""The column of values of which a run may remove a share of the documents only."""
ACROSS = "across"
"""The column of the hashes of sources, which only the table of a run with `across` has."""
FILES = "number int,path string,name string,target string"
BYTES_AT_ONCE = 32 << 20
"""The approximate size of the rows of a DataFrame that are read together, in bytes. The shingles of
a batch of Spark, which has thousands of documents, may take more than 2 GiB."""
FIELD_SIGNATURE = "field_signature"
"""The columns of the signatures of several fields are `field_signature0` and so on."""
FAILURES = (
    ArithmeticError,
    LookupError,
    TypeError,
    ValueError,
    RuntimeError,
    MemoryError,
    pa.ArrowException,
)
"""The exceptions that kernels and libraries may raise for a document."""
SAMPLE = 16
"""The rate of empty bins is computed from one document in so many."""


@dataclass(frozen=True)
class TaskRequest:
    """The request of a run, which is sent to all tasks.

    Attributes:
        columns: Columns of the inputs that are read.
        options: Options of the run.
        resources: Data that the Spec refers to.
        on_error: `quarantine` or `fail`, for rows that are not valid documents.
        merge_parts: Whether rows of one id are parts of a document.
        setting_form: The form in which tasks name settings in messages.
    """

    columns: Columns
    options: RunOptions
    resources: SpecResources
    on_error: str = "quarantine"
    merge_parts: bool = False
    setting_form: SettingForm = field(default_factory=current_form)

    def __post_init__(self) -> None:
        require_no_key(self.resources.secret)

    @property
    def measure(self) -> Measure:
        """The measure of the run."""
        return self.options.create_measure(self.resources)

    def sketcher(self) -> DocumentSketcher:
        """Returns a sketcher. It builds band keys if they cannot be computed from signatures."""
        measure = self.measure
        if len(self.options.candidate_options) > 1:
            return measure.sketcher()
        banding = self.options.banding(measure, SMALL_CORPUS)
        return measure.sketcher(key_builder_for(banding, truncated=self.options.spec.truncated))

    @property
    def carried(self) -> tuple[str, ...]:
        """The columns of the keep policy."""
        return self.options.keep_policy.columns

    @property
    def schema(self) -> str:
        """The schema of the table that sketching makes."""
        riding = [f"riding{i} string" for i in range(len(self.carried))]
        across = [f"{name} long" for name in self.across_columns]
        values = [f"{name} binary" for name in self.value_keys]
        accepted = [] if self.options.acceptance is None else [f"{ACCEPTED_BY} binary"]
        if self.options.acceptance is not None:
            accepted.append(f"{GROUP} long")
        limited = [] if self.options.removal_limits.column is None else [f"{LIMITED_BY} string"]
        signatures = [f"{name} binary" for name in self.signature_columns]
        return ",".join([DOCUMENTS, *across, *accepted, *limited, *values, *signatures, *riding])

    @property
    def signature_columns(self) -> tuple[str, ...]:
        """The columns of the signatures of fields, if several fields find candidate pairs.

        They are null for documents without the field.
        """
        candidates = len(self.options.candidate_options)
        if candidates == 1:
            return ()
        return tuple(f"{FIELD_SIGNATURE}{number}" for number in range(candidates))

    def without_order(self) -> "TaskRequest":
        """Returns the request of a run over a reference, which has no order and no sources.

        Its columns are those that are compared.
        """
        options = replace(
            self.options,
            keep=DEFAULT_ORDER,
            source=None,
            split=None,
            max_removed=None,
        )
        columns = replace(self.columns, carried_columns=options.compared_columns)
        return replace(self, columns=columns, options=options, merge_parts=False)

    def of_candidate_field(self, number: int) -> "TaskRequest":
        """Returns the request of a run over one of the fields that find candidate pairs."""
        return replace(self, options=self.options.candidate_options[number])

    @property
    def value_keys(self) -> tuple[str, ...]:
        """The columns of the keys of values by which documents are duplicates at once."""
        return tuple(f"{VALUE}{number}" for number, _ in enumerate(value_columns_of(self.options)))

    @property
    def across_columns(self) -> tuple[str, ...]:
        """The column of the hashes of sources, if only documents of different ones are compared."""
        return () if self.options.across is None else (ACROSS,)


def require_no_key(key: HashKey | None) -> None:
    """Requires that no hash key is given, because it would be sent to tasks."""
    if key is not None:
        raise UsageError(
            f"a hash key is not sent to the tasks of Spark; leave out {name_setting('key')}, or "
            "use the local engine"
        )


class SketchFacts(TypedDict):
    """The facts that a task of the sketch stage records."""

    seconds: float
    rejected: int
    """The number of rejected rows."""
    skipped: dict[str, int]
    """The numbers of records that are not rows, by their kind."""
    warm: float
    """The seconds until the kernels were loaded."""
    latency: list[tuple[float, int]]
    """The seconds and the number of documents of each batch."""
    unfit: list[tuple[str, str]]
    """The columns of the keep policy, each with a type that a value does not fit."""
    unreadable_dates: dict[str, int]
    """The number of values that are not dates, for each column of dates of the keep policy."""
    values: list[str]
    """The columns of the options `same` and `url` in which a document has a value."""
    shares: list[float]
    """The sums of the shares of empty bins and of completed slots, and the number of sampled
    documents."""


class Read(NamedTuple):
    """Documents and rejected rows that a task read."""

    docs: np.ndarray
    """The number that identifies each document, int64 (n,)."""
    ids: pa.Array
    documents: pa.RecordBatch
    rejected: pa.RecordBatch
    rejected_rows: int
    """The number of rejected rows, of which a run is one row of `rejected`."""
    skipped: Mapping[str, int] = MappingProxyType({})
    """The numbers of records that are not rows, by their kind."""


@dataclass(frozen=True)
class Sketching:
    """The tasks that sketch documents.

    Attributes:
        request: Request of the run.
    """

    request: TaskRequest

    def files(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yields the table of a task's files."""
        return self._rows(read_files(batches, self.request))

    def rows(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yields the table of rows of a DataFrame."""
        return self._rows(read_rows(batches, self.request))

    @property
    def value_schema(self) -> str:
        """The schema of the ids and of the keys of values."""
        return ",".join(["id string", *(f"{name} binary" for name in self.request.value_keys)])

    def value_rows(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yields the ids and the keys of values of the rows of a DataFrame."""
        with settings_named_as(self.request.setting_form):
            for read in read_rows(batches, self.request):
                if len(read.docs):
                    keys = _value_columns(read, self.request)
                    yield make_batch(self.value_schema, id=read.ids, **keys)

    def _rows(self, reads: Iterator[Read]) -> Iterator[pa.RecordBatch]:
        with settings_named_as(self.request.setting_form):
            yield from self._sketched_rows(reads)

    def _sketched_rows(self, reads: Iterator[Read]) -> Iterator[pa.RecordBatch]:
        began = time.perf_counter()
        sketcher = self.request.sketcher()
        task = _Task(self.request, _warm(sketcher, self.request), began)
        for read in reads:
            if len(read.rejected):
                task.rejected += read.rejected_rows
                yield read.rejected
            task.skipped.update(read.skipped)
            if len(read.docs):
                yield self._sketched(read, sketcher, task)
        yield make_batch(self.request.schema, facts=[json.dumps(task.facts())])

    def _sketched(self, read: Read, sketcher: DocumentSketcher, task: "_Task") -> pa.RecordBatch:
        request, content = self.request, read.documents[self.request.columns.content]
        began = time.perf_counter()
        sketches = sketched(sketcher, content, read.ids)
        lengths = text_lengths(content)
        task.add(read.documents, sketches, time.perf_counter() - began)
        columns: dict[str, pa.Array | np.ndarray] = {
            "doc": read.docs,
            "id": read.ids,
            "fp0": to_signed(sketches.fingerprints[:, 0]),
            "fp1": to_signed(sketches.fingerprints[:, 1]),
            "block": to_signed(_hash_blocks(read.documents, request.options)),
            "shingles": sketches.shingles,
            "length": lengths,
            "signature": to_binary_rows(sketches.signatures),
        }
        if request.options.acceptance is not None:
            columns |= _acceptance_columns(read, request, request.options.acceptance, lengths)
        limit = request.options.removal_limits.column
        if limit is not None:
            limited_by = carried_column_name(limit.column)
            columns[LIMITED_BY] = read.documents[limited_by]
        if request.options.across is not None:
            columns[ACROSS] = to_signed(_hash_column(read.documents, request.options.across))
        columns.update(_value_columns(read, request))
        for name, field_sketches in zip(request.signature_columns, sketches.fields, strict=True):
            columns[name] = pc.if_else(
                pa.array(field_sketches.has_field),
                to_binary_rows(field_sketches.signatures),
                pa.scalar(None, pa.binary()),
            )
        if sketches.keys is not None:
            columns["keys"] = to_binary_rows(sketches.keys)
        for name in ("source", "split"):
            if (column := getattr(request.options, name)) is not None:
                columns[name] = read.documents[carried_column_name(column)]
        if not request.carried:
            columns["sort"] = keep_order(
                request.options.keep_policy, pa.table({}), lengths, read.ids
            )
        columns.update(
            {
                f"riding{i}": read.documents[carried_column_name(name)]
                for i, name in enumerate(request.carried)
            }
        )
        return make_batch(request.schema, **columns)


def _hash_column(documents: pa.RecordBatch, column: str | None) -> np.ndarray:
    """Returns a hash of each document's value of a column, or 0 without a column, uint64 (n,)."""
    if column is None:
        return np.zeros(len(documents), np.uint64)
    return value_hashes(documents[carried_column_name(column)])


def _hash_blocks(documents: pa.RecordBatch, options: RunOptions) -> np.ndarray:
    """Returns a hash of each document's block, uint64 (n,)."""
    if options.block_by is None:
        return np.zeros(len(documents), np.uint64)
    return block_hashes(documents[carried_column_name(options.block_by)], options.block_of_missing)


def _value_columns(read: Read, request: TaskRequest) -> dict[str, pa.Array]:
    """Returns the keys of the values by which documents are duplicates at once."""
    columns = {}
    for name, column in zip(request.value_keys, value_columns_of(request.options), strict=True):
        keys = column.build_keys(read.documents[carried_column_name(column.name)])
        columns[name] = pc.if_else(
            pa.array(keys.any(axis=1)), to_binary_rows(keys), pa.scalar(None, pa.binary())
        )
    return columns


def _acceptance_columns(
    read: Read, request: TaskRequest, acceptance: Expression, lengths: np.ndarray
) -> dict[str, pa.Array]:
    """Returns what an acceptance compares, the blocks that it divides, and the exact groups."""
    text_facts = hash_text_facts(read.documents[request.columns.content], text_facts_of(acceptance))

    def read_fact(predicate: Predicate) -> np.ndarray:
        if isinstance(predicate, Same | Differ):
            return compared_value_hashes(read.documents[carried_column_name(predicate.column)])
        return text_facts[TEXT_FACTS[predicate]]

    blocks = _hash_blocks(read.documents, request.options)
    if request.options.related is None:
        # Documents that are not accepted may be related.
        divided = divide_blocks(blocks, acceptance, read_fact)
        blocks = np.where(blocks == NO_BLOCK, NO_BLOCK, divided)
    facts = [read_fact(predicate) for predicate in collect_predicates(acceptance)]
    words = np.column_stack([np.zeros(len(blocks), np.uint64), *facts])
    return {
        "block": to_signed(blocks),
        ACCEPTED_BY: to_binary_rows(words),
        GROUP: to_signed(group_keys(blocks, acceptance, read_fact, lengths)),
    }


class _Task:
    """The facts of one task."""

    def __init__(self, request: TaskRequest, warm: float, began: float) -> None:
        self.rejected = 0
        self.skipped: Counter[str] = Counter()
        self._request = request
        self._warm, self._began = warm, began
        self._latency: list[tuple[float, int]] = []
        self._unfit: set[tuple[str, str]] = set()
        self._unreadable_dates: Counter[str] = Counter()
        self._with_values: set[str] = set()
        self._shares = np.zeros(3)

    def add(self, documents: pa.RecordBatch, sketches: Sketches, seconds: float) -> None:
        """Records a batch that was sketched.

        Args:
            seconds: Duration of the sketching, in seconds.
        """
        self._latency.append((round(seconds, 6), len(documents)))
        for name in self._request.carried:
            self._unfit.update(
                (name, kind) for kind in unfit_types(documents[carried_column_name(name)])
            )
        for name in self._request.options.keep_policy.date_columns:
            unreadable = count_unreadable_dates(documents[carried_column_name(name)])
            self._unreadable_dates[name] += unreadable
        for column in value_columns_of(self._request.options):
            values = documents[carried_column_name(column.name)]
            if column.name not in self._with_values and column.build_keys(values).any():
                self._with_values.add(column.name)
        spec = self._request.options.spec
        if spec.scheme == "binned" and not spec.truncated:
            sample = sketches.signatures[::SAMPLE]
            self._shares += [*(share * len(sample) for share in fill_shares(sample)), len(sample)]

    def facts(self) -> SketchFacts:
        return {
            "seconds": round(time.perf_counter() - self._began, 3),
            "rejected": self.rejected,
            "skipped": dict(self.skipped),
            "warm": round(self._warm, 3),
            "latency": self._latency,
            "unfit": sorted(self._unfit),
            "unreadable_dates": dict(self._unreadable_dates),
            "values": sorted(self._with_values),
            "shares": self._shares.tolist(),
        }


def _warm(sketcher: DocumentSketcher, request: TaskRequest) -> float:
    """Loads the kernels, and returns the seconds. Each worker machine compiles them once."""
    began = time.perf_counter()
    columns = request.columns
    if columns.fields:
        sample = pa.array([{}], content_arrow_type(columns))
    elif columns.vector:
        sample = pa.FixedSizeListArray.from_arrays(
            pa.array(np.ones(request.options.spec.n, np.float32)), request.options.spec.n
        )
    elif columns.fingerprint:
        sample = pa.array([bytes(columns.bits // 8)], fingerprint_type(columns.bits))
    elif columns.tokens:
        sample = pa.array([["a", "b", "c"]], pa.large_list(pa.large_string()))
    else:
        sample = pa.array(["one two three four", "\u00e9"], pa.large_string())
    sketcher.sketch(sample)
    return time.perf_counter() - began


def sketched(sketcher: DocumentSketcher, content: pa.Array, ids: pa.Array) -> Sketches:
    """Sketches documents."""
    try:
        return sketcher.sketch(content)
    except NearkinError:
        raise
    except FAILURES as error:
        raise RunError(
            f"document {_culprit(sketcher, content, ids)}: {type(error).__name__}: {error}"
        ) from error


def _culprit(sketcher: DocumentSketcher, content: pa.Array, ids: pa.Array) -> str:
    """Returns the id of the first document that cannot be sketched alone."""
    for at in range(len(content)):
        try:
            sketcher.sketch(content.slice(at, 1))
        except FAILURES:
            return repr(ids[at].as_py())
    return f"{ids[0].as_py()!r} or one of the {len(ids) - 1} after it"


def read_files(batches: Iterable[pa.RecordBatch], request: TaskRequest) -> Iterator[Read]:
    """Yields the documents of a task's files, through the readers of the local engine."""
    numbers, corpus = corpus_of(batches, request)
    counted: Counter[int] = Counter()
    for batch in corpus.batches(request.columns):
        yield _read(batch, numbers, corpus, request, counted)
    if corpus.skipped_records:
        no_rows = Batch(
            first=0,
            files=np.empty(0, np.int32),
            rows=np.empty(0, np.int64),
            documents=make_empty_documents(request.columns),
            rejected=(),
            next=(0, 0),
        )
        skipped = corpus.skipped_records
        yield _read(no_rows, numbers, corpus, request, counted)._replace(skipped=skipped)


def corpus_of(
    batches: Iterable[pa.RecordBatch], request: TaskRequest
) -> tuple[np.ndarray, FileCorpus]:
    """Returns the numbers of a task's files in the whole corpus, int64, and the files."""
    files = [row for batch in batches for row in batch.to_pylist()]
    corpus = FileCorpus([InputFile(row["path"], row["name"]) for row in files], request.on_error)
    return np.array([row["number"] for row in files], np.int64), corpus


def docs_of(numbers: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """Returns the numbers that identify documents of files, int64 (n,).

    Args:
        numbers: Number of each document's file, int64 (n,).
        rows: Row of each document in its file, (n,).
    """
    return (numbers << FILE_SHIFT) | rows


def _read(
    batch: Batch,
    numbers: np.ndarray,
    corpus: FileCorpus,
    request: TaskRequest,
    counted: Counter[int],
) -> Read:
    ids = make_ids(batch, request.columns, corpus.names)
    rejected = []
    for entry in batch.rejected:
        number = int(numbers[entry.file])
        place = json.dumps(describe_place(entry, corpus.names))
        rejected.append((number << FILE_SHIFT | counted[number], place, entry.reason, entry.raw))
        counted[number] += 1
    documents = (
        docs_of(numbers[batch.files], batch.rows) if len(batch.files) else np.empty(0, np.int64)
    )
    return Read(documents, ids, batch.documents, _rejected(rejected, request), batch.rejected_rows)


def _rejected(rows: list[tuple[Any, ...]], request: TaskRequest) -> pa.RecordBatch:
    docs, places, reasons, raws = zip(*rows, strict=True) if rows else ((), (), (), ())
    kinds = (pa.int64(), pa.string(), pa.string(), pa.string())
    columns = [
        pa.array(column, kind)
        for column, kind in zip((docs, places, reasons, raws), kinds, strict=True)
    ]
    return make_batch(
        request.schema, **dict(zip(("doc", "facts", "reason", "raw"), columns, strict=True))
    )


def read_rows(batches: Iterable[pa.RecordBatch], request: TaskRequest) -> Iterator[Read]:
    """Yields the documents of a DataFrame, with the checks of the local engine.

    A hash of its id identifies a document.
    """
    columns = request.columns
    for number, batch in enumerate(_divide(batches)):
        plain = replace_views(pa.Table.from_batches([batch])).combine_chunks().to_batches()
        for rows in plain:
            checked = check_rows(rows, columns)
            if checked.rejected and request.on_error == "fail":
                at, reason, raw = checked.rejected[0]
                shown = f" ({raw[:60]!r})" if raw else ""
                raise RunError(
                    f"document {_id_at(rows, at, columns)}: {reason}{shown}. Fix it, or set "
                    f"{name_setting('on_error', 'quarantine')}"
                )
            rejected = [
                (
                    number << FILE_SHIFT | at,
                    json.dumps({"id": _id_at(rows, at, columns)}),
                    reason,
                    raw,
                )
                for at, reason, raw in checked.rejected
            ]
            ids = checked.documents[ID]
            yield Read(
                id_hashes(ids).view(np.int64),
                ids,
                checked.documents,
                _rejected(rejected, request),
                len(rejected),
            )


def _divide(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yields the rows of batches in batches of about BYTES_AT_ONCE at most."""
    for batch in batches:
        parts = max(1, -(-batch.nbytes // BYTES_AT_ONCE))
        rows = max(1, -(-len(batch) // parts))
        for start in range(0, len(batch), rows):
            yield batch.slice(start, rows)


def _id_at(rows: pa.RecordBatch, at: int, columns: Columns) -> Any:
    ids = rows[str(columns.id)]
    try:
        value = ids[at].as_py()
    except UnicodeDecodeError:
        return view_as_binary(ids)[at].as_py().decode("utf-8", "backslashreplace")
    return value if value is None or isinstance(value, str | int) else str(value)
