"""The columns that a run reads, and the limits of its documents."""

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from enum import StrEnum
from typing import Any, NamedTuple

from nearkin.runtime.setting_names import name_setting
from nearkin.runtime.sizes import AutomaticMemory
from nearkin.settings.spec import FINGERPRINT

BATCH_ROWS = 8192
"""The maximum number of rows of a batch."""
BATCH_BYTES = 8 << 20
"""The number of bytes that a batch has approximately, if its rows are not larger."""
MAX_DOCUMENT = 1 << 30
"""The maximum size of a document in bytes, whatever the memory bound is."""
DOCUMENT_SHARE = 32
"""The memory bound divided by this is the document limit. Sketching needs a multiple of a
document, in several threads at once."""
DOCUMENT_MEMORY = 4_000_000_000
"""The memory bound from which the document limit follows by default, in bytes."""
UNFOLDED_SHARE = 8
"""Parsing one row may take this many times the document limit."""
FIELDS = "fields"
"""The name of the column of documents with several fields in a batch."""
DEFAULT_BITS = 64
"""The number of bits of a fingerprint if no other one is given."""
TEXT_SEPARATOR = "\n"
"""The text between the values of joined columns."""
ID = "id"
"""The name of the column of ids in a batch."""
CARRIED_PREFIX = "column "
"""The prefix of the names of carried columns in a batch. The columns of documents and ids have no
such prefix, so a carried column of any name cannot collide with them."""


def document_limit(memory: int) -> int:
    """Returns the size of the largest document of a run with a memory bound, both in bytes.

    It decides which rows are rejected, so it does not depend on the machine: a bound that follows
    from the machine has the limit of `DOCUMENT_MEMORY`.

    Examples:
        >>> document_limit(1_000_000_000), document_limit(10**12) == MAX_DOCUMENT
        (31250000, True)
        >>> document_limit(AutomaticMemory(10**12))
        125000000
    """
    if isinstance(memory, AutomaticMemory):
        memory = DOCUMENT_MEMORY
    return min(MAX_DOCUMENT, memory // DOCUMENT_SHARE)


def carried_column_name(name: str) -> str:
    """Returns the name that a carried column has in a batch.

    Examples:
        >>> carried_column_name("text")
        'column text'
    """
    return CARRIED_PREFIX + name


class FieldKind(StrEnum):
    """The kinds of values of a field."""

    TEXT = "text"
    TOKENS = "tokens"
    FINGERPRINT = FINGERPRINT
    VECTOR = "vector"
    VALUE = "value"
    """A value of any type as text, in the form of carried columns. Such fields are not compared."""


class ContentField(NamedTuple):
    """One of several columns of documents that are compared each on its own."""

    name: str
    """The name of the column."""
    kind: FieldKind = FieldKind.TEXT
    """The kind of its values."""
    size: int = 0
    """The number of bits of a fingerprint, or of numbers of a vector; 0 for texts and tokens, and
    for vectors whose length is not known yet."""


RECORDED = {"carried_columns": "extra"}
"""The names in a record of those columns that have another name there."""
ALWAYS_RECORDED = ("text", "tokens", "vector", "dimensions", "id", "carried_columns")
"""The columns that a record has even if there are none."""
NEVER_RECORDED = ("partitions", "document_limit")
"""The values that a resumed run finds in its inputs, or keeps from its beginning."""


@dataclass(frozen=True)
class Columns:
    """The columns that a run reads from its inputs.

    Attributes:
        text: The column of texts, or None if another column of documents is given.
        tokens: The column of lists of tokens, or None.
        vector: The column of vectors, or None.
        dimensions: The number of dimensions of a vector, or None if it is not known yet.
        id: The column of ids, or None to make ids from path and row.
        carried_columns: The columns that are not compared but are needed later: by the keep policy,
            for blocks, for sources and for splits.
        joined: Further columns of texts, which are appended to the first in this order. Values that
            are null are left out.
        fingerprint: The column of fingerprints, or None.
        bits: The number of bits of a fingerprint.
        ignored_fingerprints: Fingerprints that are not compared, as hexadecimal digits. Documents
            with one have no content, and fields with one are absent.
        fields: Several columns that are compared each on its own, in place of one column of
            documents. A null is a field that the document lacks.
        delimiter: The character between the values of CSV files, or None to detect it.
        encoding: The codec of CSV files, or None to detect it. After a comma, the codec of rows
            that are not valid in it, as `nearkin.runtime.dialect.parse_encoding` returns them.
        main_text: Whether pages of HTML are read without navigation, headers and footers.
        lines: Whether each line of a text file is a document, and not the whole file.
        partitions: The columns among these that the folders of a file give, with their values. The
            corpus sets them for each file.
        document_limit: The maximum size of a document in bytes. Larger documents are rejected, and
            so are rows that need a multiple of this to be read. A resumed run and a run over saved
            signatures keep the limit, because it decides which rows are documents.
    """

    text: str | None = "text"
    tokens: str | None = None
    vector: str | None = None
    dimensions: int | None = None
    id: str | None = None
    carried_columns: tuple[str, ...] = ()
    joined: tuple[str, ...] = ()
    fingerprint: str | None = None
    bits: int = DEFAULT_BITS
    ignored_fingerprints: tuple[str, ...] = ()
    fields: tuple[ContentField, ...] = ()
    delimiter: str | None = None
    encoding: str | None = None
    main_text: bool = False
    lines: bool = False
    partitions: tuple[tuple[str, str | None], ...] = ()
    document_limit: int = MAX_DOCUMENT

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> "Columns":
        """Returns the columns that `to_record` described, with the default document limit."""
        values: dict[str, Any] = {}
        for field in fields(cls):
            name = RECORDED.get(field.name, field.name)
            if name in record:
                value = record[name]
                values[field.name] = tuple(value) if isinstance(value, list) else value
        values["fields"] = tuple(
            ContentField(name, FieldKind(kind), size)
            for name, kind, size in values.get("fields", ())
        )
        return cls(**values)

    def to_record(self) -> dict[str, Any]:
        """Returns what must be unchanged for a run to be resumed, in the form of run.json."""
        record: dict[str, Any] = {}
        for field in fields(self):
            value = getattr(self, field.name)
            if field.name in ALWAYS_RECORDED or (value and field.name not in NEVER_RECORDED):
                record[RECORDED.get(field.name, field.name)] = value
        if self.fingerprint is None:
            del record["bits"]
        if self.fields:
            record["fields"] = [(field.name, str(field.kind), field.size) for field in self.fields]
        return record

    def with_memory(self, memory: int) -> "Columns":
        """Returns these columns with the document limit of a run of a memory bound, in bytes."""
        return replace(self, document_limit=document_limit(memory))

    @property
    def ignored_contents(self) -> frozenset[bytes]:
        """The fingerprints that are not compared, as bytes."""
        return frozenset(map(bytes.fromhex, self.ignored_fingerprints))

    @property
    def content(self) -> str:
        """The name of the column of documents in a batch.

        It is `text`, `tokens`, `vector`, `fingerprint`, or `fields` if there are several.
        """
        if self.fields:
            return FIELDS
        if self.vector:
            return "vector"
        if self.fingerprint:
            return FINGERPRINT
        return "tokens" if self.tokens else "text"

    @property
    def source(self) -> str:
        """The name of the column of documents in the inputs, or of the first one."""
        if self.fields:
            return self.fields[0].name
        return str(self.vector or self.fingerprint or self.tokens or self.text)

    @property
    def sources(self) -> tuple[str, ...]:
        """The names of the columns of documents in the inputs.

        The texts of several ones are joined, unless they are fields.
        """
        if self.fields:
            return tuple(field.name for field in self.fields)
        return (self.source, *self.joined)

    @property
    def content_fields(self) -> tuple[ContentField, ...]:
        """The columns of documents that are read from the content of a file, with their kinds."""
        fields = self.fields
        if not fields:
            kind, size = FieldKind.TEXT, 0
            if self.vector:
                kind, size = FieldKind.VECTOR, self.dimensions or 0
            elif self.fingerprint:
                kind, size = FieldKind.FINGERPRINT, self.bits
            elif self.tokens:
                kind = FieldKind.TOKENS
            fields = tuple(ContentField(name, kind, size) for name in self.sources)
        return tuple(field for field in fields if field.name in self.stored)

    @property
    def option(self) -> str:
        """The setting that names the column of documents, for a message."""
        return name_setting(self.content)

    @property
    def all(self) -> tuple[str, ...]:
        """All columns that are read, without repetitions."""
        return tuple(
            dict.fromkeys(
                name for name in (*self.sources, self.id, *self.carried_columns) if name is not None
            )
        )

    @property
    def stored(self) -> tuple[str, ...]:
        """The columns that are read from the content of a file, without repetitions."""
        partitions = dict(self.partitions)
        return tuple(name for name in self.all if name not in partitions)

    def with_partitions(self, partitions: Mapping[str, str | None]) -> "Columns":
        """Returns these columns for a file whose folders give the values of some columns."""
        used = {name: partitions[name] for name in self.all if name in partitions}
        known = {**dict(self.partitions), **used}
        return replace(self, partitions=tuple(known.items())) if used else self
