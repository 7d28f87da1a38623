"""Appends the row groups of parquet files to one file, without encoding them again.

The footer of a parquet file is a struct in the compact protocol of Thrift. It is decoded into
numbered fields, whatever they mean, so that fields of later versions of the format are kept.
"""

import struct
from collections.abc import Iterator
from concurrent.futures import Executor
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple, TypeAlias

from nearkin.runtime.joined_file import JoinedFile

MAGIC = b"PAR1"
TRUE = 1
FALSE = 2
BYTE = 3
INTEGERS = (4, 5, 6)
DOUBLE = 7
BINARY = 8
LISTS = (9, 10)
STRUCT = 12
LONG_LIST = 15
"""The size of a list or the step between fields that does not fit into half a byte."""
LARGEST_SHIFT = 63
"""The position of the last bits of an integer of 64 bits, which has seven in each byte."""
SCHEMA = 2
ROWS = 3
ROW_GROUPS = 4
"""Fields of the footer."""
CHUNKS = 1
GROUP_OFFSET = 5
GROUP_ORDINAL = 7
"""Fields of a row group: its column chunks, its first byte, and its number."""
CHUNK_METADATA = 3
OFFSETS_OF_CHUNK = (2, 4, 6)
"""Fields of a column chunk: its first byte, and those of its two indexes."""
OFFSETS_OF_METADATA = (9, 10, 11, 14)
"""Fields of the metadata of a column chunk: the first bytes of pages, indexes and filters."""


class Field(NamedTuple):
    """A value with its type in the compact protocol."""

    type: int
    value: Any


Struct: TypeAlias = dict[int, Field]
"""The fields of a struct, by their numbers."""


class StructReader:
    """A reader of values in the compact protocol.

    Attributes:
        at: The number of bytes that were read. Content that ends too early raises IndexError.
    """

    def __init__(self, content: bytes) -> None:
        self._content = content
        self.at = 0

    def _byte(self) -> int:
        self.at += 1
        return self._content[self.at - 1]

    def _bytes(self, count: int) -> bytes:
        self.at += count
        return self._content[self.at - count : self.at]

    def _varint(self) -> int:
        byte = self._content[self.at]
        if byte < 0x80:
            self.at += 1
            return byte
        value = 0
        shift = 0
        while True:
            byte = self._byte()
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return value
            if shift > LARGEST_SHIFT:
                raise ValueError("an integer of a struct has more than 64 bits")

    def _integer(self) -> int:
        value = self._varint()
        return (value >> 1) ^ -(value & 1)

    def read_struct(self) -> Struct:
        """Reads the fields of a struct."""
        fields: Struct = {}
        number = 0
        while header := self._byte():
            kind = header & 0x0F
            step = header >> 4
            number = number + step if step else self._integer()
            fields[number] = Field(kind, self._value(kind))
        return fields

    def _value(self, kind: int) -> Any:
        if kind in (TRUE, FALSE):
            return None
        if kind == BYTE:
            return self._byte()
        if kind in INTEGERS:
            return self._integer()
        if kind == DOUBLE:
            return self._bytes(8)
        if kind == BINARY:
            return self._bytes(self._varint())
        if kind in LISTS:
            header = self._byte()
            size = header >> 4
            count = self._varint() if size == LONG_LIST else size
            element = header & 0x0F
            if element in (TRUE, FALSE):
                return Field(element, list(self._bytes(count)))
            return Field(element, [self._value(element) for _ in range(count)])
        if kind == STRUCT:
            return self.read_struct()
        raise ValueError(f"the footer has a value of the unknown type {kind}")


def _encode_varint(value: int) -> bytes:
    parts = bytearray()
    while value >= 0x80:
        parts.append(value & 0x7F | 0x80)
        value >>= 7
    parts.append(value)
    return bytes(parts)


def _encode_integer(value: int) -> bytes:
    return _encode_varint(value << 1 if value >= 0 else (-value << 1) - 1)


def encode_struct(fields: Struct) -> bytes:
    """Returns the fields of a struct in the compact protocol."""
    parts = []
    before = 0
    for number in sorted(fields):
        field = fields[number]
        step = number - before
        if 0 < step <= LONG_LIST:
            parts.append(bytes([step << 4 | field.type]))
        else:
            parts.append(bytes([field.type]) + _encode_integer(number))
        parts.append(_encode_value(field))
        before = number
    return b"".join([*parts, b"\0"])


def _encode_value(field: Field) -> bytes:
    kind, value = field
    if kind in (TRUE, FALSE):
        return b""
    if kind == BYTE:
        return bytes([value])
    if kind in INTEGERS:
        return _encode_integer(value)
    if kind == DOUBLE:
        return bytes(value)
    if kind == BINARY:
        return _encode_varint(len(value)) + value
    if kind == STRUCT:
        return encode_struct(value)
    element, values = value
    count = len(values)
    header = bytes([min(count, LONG_LIST) << 4 | element])
    if count >= LONG_LIST:
        header += _encode_varint(count)
    if element in (TRUE, FALSE):
        return header + bytes(values)
    return header + b"".join(_encode_value(Field(element, entry)) for entry in values)


class RowGroupAppender:
    """A parquet file that receives the row groups of other files with the same schema."""

    def __init__(self, target: Path, pool: Executor) -> None:
        self._name = target.name
        self._file = JoinedFile(target, pool)
        self._footer: Struct = {}

    def append(self, part: Path) -> None:
        """Moves the row groups of a file behind those that were appended before."""
        with part.open("rb") as source:
            end, footer = read_footer(source)
        if not self._footer or not self._footer[ROWS].value:
            # A file without rows may lack columns that the others have.
            self._file.begin(part, end)
            self._footer = footer
        elif footer[ROWS].value:
            self._append(part, end, footer)
        else:
            part.unlink()

    def _append(self, part: Path, end: int, footer: Struct) -> None:
        if footer[SCHEMA] != self._footer[SCHEMA]:
            raise ValueError(f"the row groups of {self._name} have different columns")
        distance = self._file.end - len(MAGIC)
        self._file.append(part, len(MAGIC), end)
        groups = self._footer[ROW_GROUPS].value.value
        for number, group in enumerate(footer[ROW_GROUPS].value.value, len(groups)):
            _move(group, number, distance)
            groups.append(group)
        rows = self._footer[ROWS].value + footer[ROWS].value
        self._footer[ROWS] = self._footer[ROWS]._replace(value=rows)

    def close(self) -> None:
        """Writes the footer."""
        if self._footer:
            footer = encode_struct(self._footer)
            self._file.finish(footer + struct.pack("<I", len(footer)) + MAGIC)


def read_footer(source: BinaryIO) -> tuple[int, Struct]:
    """Returns the position of the footer of a file, and its fields."""
    tail = len(MAGIC) + 4
    end = source.seek(-tail, 2)
    (size,) = struct.unpack("<I", source.read(4))
    source.seek(end - size)
    return end - size, StructReader(source.read(size)).read_struct()


def _move(group: Struct, number: int, distance: int) -> None:
    """Changes the description of a row group that moves by a number of bytes."""
    if GROUP_ORDINAL in group:
        group[GROUP_ORDINAL] = group[GROUP_ORDINAL]._replace(value=number)
    for fields, offsets in _list_offsets(group):
        for offset in offsets:
            # A first byte of 0 says that it is not known.
            if offset in fields and fields[offset].value:
                moved = fields[offset].value + distance
                fields[offset] = fields[offset]._replace(value=moved)


def _list_offsets(group: Struct) -> Iterator[tuple[Struct, tuple[int, ...]]]:
    """Yields the structs of a row group that hold positions, with the numbers of these fields."""
    yield group, (GROUP_OFFSET,)
    for chunk in group[CHUNKS].value.value:
        yield chunk, OFFSETS_OF_CHUNK
        if CHUNK_METADATA in chunk:
            yield chunk[CHUNK_METADATA].value, OFFSETS_OF_METADATA
