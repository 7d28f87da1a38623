"""What a corpus gives the pipeline: batches of documents in corpus order, and the rows that are none."""

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, NamedTuple, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

RAW_PREFIX = 200
BATCH_ROWS = 8192
BATCH_BYTES = 8 << 20
WHOLE_FILE = -1
"""Row of a rejection that concerns what could not be read of a file."""
MAX_DOCUMENT = 1 << 30
"""Maximum size of a document in bytes, however large the memory bound is."""
DOCUMENT_SHARE = 32
"""A document may have one part in so many of the memory bound: sketching takes a multiple of it, in several threads at once."""
UNFOLDED_SHARE = 8
"""What one row is unfolded into to be read, beside the document itself, may have so many times the bytes of a document."""
ID = "id"
"""The name of the ids' column in a batch."""
RIDING = "column "
"""Begins the name, in a batch, of each column that rides along. The names of the documents' and the ids' column do not begin
so: whatever the columns of the inputs are called, they collide with nothing."""


def document_limit(memory: int) -> int:
    """Returns the bytes of the largest document of a run with a bound of memory.

    Examples:
        >>> document_limit(1_000_000_000), document_limit(10**12) == MAX_DOCUMENT
        (31250000, True)
    """
    return min(MAX_DOCUMENT, memory // DOCUMENT_SHARE)


def riding(name: str) -> str:
    """Returns the name, in a batch, of an input's column that rides along.

    Examples:
        >>> riding("text")
        'column text'
    """
    return RIDING + name


@dataclass(frozen=True)
class Columns:
    """The parts of the inputs that are read.

    Attributes:
        text: Column with the text, or None where `tokens` or `vector` is given.
        tokens: Column with lists of tokens, or None.
        vector: Column with vectors, or None.
        dimensions: Numbers of a vector; None until they are known.
        id: Column with ids; without one an id is made of path and row.
        extra: Columns that ride along: of keep policy, block and source.
        document_limit: Bytes of the largest document. A larger one is rejected, and so is a row that would take a multiple of
            this to read. It is unchanged when a run is resumed or its signatures are used again, because it decides
            which rows are documents.
    """

    text: str | None = "text"
    tokens: str | None = None
    vector: str | None = None
    dimensions: int | None = None
    id: str | None = None
    extra: tuple[str, ...] = ()
    document_limit: int = MAX_DOCUMENT

    def within(self, memory: int) -> "Columns":
        """Returns these columns with the limit of documents that goes with a run's bound of memory."""
        return replace(self, document_limit=document_limit(memory))

    def identity(self) -> dict[str, Any]:
        """Returns what must be unchanged for a run to be resumed: all but the limit, which the run keeps."""
        return {name: value for name, value in asdict(self).items() if name != "document_limit"}

    @property
    def content(self) -> str:
        """The name of the documents' column in a batch: `text`, `tokens` or `vector`."""
        return "vector" if self.vector else "tokens" if self.tokens else "text"

    @property
    def source(self) -> str:
        """What it is called in the inputs."""
        return str(self.vector or self.tokens or self.text)

    @property
    def option(self) -> str:
        """The option that names it."""
        return f"--{self.content}"

    @property
    def all(self) -> tuple[str, ...]:
        """Every column that is read, each once."""
        return tuple(dict.fromkeys(name for name in (self.source, self.id, *self.extra) if name is not None))


class Rejected(NamedTuple):
    """A row that is no document."""

    file: int
    row: int
    """Its position in the file from 0, or WHOLE_FILE."""
    reason: str
    raw: str = ""
    """What stood there, its first characters."""


class Batch(NamedTuple):
    """Some documents in corpus order."""

    first: int
    """Ordinal of the first one."""
    files: np.ndarray
    """int32 (n,): number of each document's file."""
    rows: np.ndarray
    """int64 (n,): row in that file."""
    documents: pa.RecordBatch
    """`text` (large_string), `tokens` (large_list of large_string) or `vector` (fixed_size_list of float), `id` (large_string)
    if given, and the extra columns under their `riding` names, large_string: see `nearkin.corpus.column_values.text_form`."""
    rejected: tuple[Rejected, ...]
    next: tuple[int, int]
    """(file, row) where reading goes on after this batch."""


class Corpus(Protocol):
    """Documents that can be read again and again, always the same."""

    @property
    def names(self) -> Sequence[str]:
        """Of the files, relative to the inputs' common folder."""

    def check(self, columns: Columns) -> None:
        """Raises UsageError where a column is missing."""

    def batches(self, columns: Columns, start: tuple[int, int] = (0, 0), first: int = 0) -> Iterator[Batch]:
        """Documents from a position (file, row) on, the first one having the ordinal `first`."""


def make_ids(batch: Batch, columns: Columns, names: Sequence[str]) -> pa.Array:
    """Ids of a batch's documents, large_string: the given ones, or path and row.

    Examples:
        >>> rows = pa.record_batch([pa.array(["x", "y"], pa.large_string())], ["text"])
        >>> batch = Batch(0, np.zeros(2, np.int32), np.array([0, 7]), rows, (), (0, 8))
        >>> make_ids(batch, Columns(), ["a/b.jsonl"]).to_pylist()
        ['a/b.jsonl:0000000000', 'a/b.jsonl:0000000007']
    """
    if columns.id is not None:
        return batch.documents[ID]
    return positions(batch.files, batch.rows, names)


def positions(files: np.ndarray, rows: np.ndarray, names: Sequence[str]) -> pa.Array:
    """`<path>:<row, 10 digits>` of each document; the row alone where there is no path."""
    digits = pc.utf8_lpad(pa.array(rows).cast(pa.large_string()), 10, "0")
    present, codes = np.unique(files, return_inverse=True)
    prefixes = pa.array([f"{names[file]}:" if names[file] else "" for file in present.tolist()], pa.large_string())
    return pc.binary_join_element_wise(prefixes.take(pa.array(codes)), digits, pa.scalar("", pa.large_string()))
