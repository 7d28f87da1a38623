"""The columns that a run reads, and the limits of its documents."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

BATCH_ROWS = 8192
BATCH_BYTES = 8 << 20
MAX_DOCUMENT = 1 << 30
"""Maximum size of a document in bytes, however large the memory bound is."""
DOCUMENT_SHARE = 32
"""A document may have one part in so many of the memory bound: sketching takes a multiple of it, in several threads at once."""
UNFOLDED_SHARE = 8
"""What one row is unfolded into to be read, beside the document itself, may have so many times the bytes of a document."""
ID = "id"
"""The name of the ids' column in a batch."""
CARRIED_PREFIX = "column "
"""Begins the name, in a batch, of each column that rides along. The names of the documents' and the ids' column do not begin
so: whatever the columns of the inputs are called, they collide with nothing."""


def document_limit(memory: int) -> int:
    """Returns the bytes of the largest document of a run with a bound of memory.

    Examples:
        >>> document_limit(1_000_000_000), document_limit(10**12) == MAX_DOCUMENT
        (31250000, True)
    """
    return min(MAX_DOCUMENT, memory // DOCUMENT_SHARE)


def carried_column_name(name: str) -> str:
    """Returns the name, in a batch, of an input's column that rides along.

    Examples:
        >>> carried_column_name("text")
        'column text'
    """
    return CARRIED_PREFIX + name


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
    carried_columns: tuple[str, ...] = ()
    document_limit: int = MAX_DOCUMENT

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> "Columns":
        """Returns the columns that `to_record` described, with the default document limit."""
        values = {name: value for name, value in record.items() if name != "extra"}
        return cls(**values, carried_columns=tuple(record["extra"]))

    def to_record(self) -> dict[str, Any]:
        """Returns what must be unchanged for a run to be resumed, in the form of run.json.

        The document limit is not part of it, because a resumed run keeps its own.
        """
        return {
            "text": self.text,
            "tokens": self.tokens,
            "vector": self.vector,
            "dimensions": self.dimensions,
            "id": self.id,
            "extra": self.carried_columns,
        }

    def with_memory(self, memory: int) -> "Columns":
        """Returns these columns with the document limit of a run.

        Args:
            memory: The memory bound of the run, in bytes.
        """
        return replace(self, document_limit=document_limit(memory))

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
        return tuple(dict.fromkeys(name for name in (self.source, self.id, *self.carried_columns) if name is not None))
