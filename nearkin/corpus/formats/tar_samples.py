"""Tar archives of samples, as WebDataset has them.

A sample consists of consecutive members whose names are equal up to the first dot.
"""

import copy
import hashlib
import io
import tarfile
from array import array
from collections.abc import Iterator
from contextlib import suppress
from itertools import groupby
from typing import Any

import numpy as np

from nearkin.corpus.columns import UNFOLDED_SHARE, Columns
from nearkin.corpus.file_names import format_path
from nearkin.corpus.foreign_errors import DamageError, decoding
from nearkin.corpus.formats.base import open_compressed_sink
from nearkin.corpus.formats.json_rows import parse_exact_json
from nearkin.corpus.formats.record_rows import Record, RecordCopier, RecordFormat
from nearkin.corpus.formats.tar_members import TarMember, TarReader
from nearkin.corpus.input_file import InputFile
from nearkin.corpus.validation import too_long_reason

KEY = "key"
"""The column of the names of samples."""
TEXT_MEMBERS = {"text": "txt"}
"""The extensions of members whose columns have another name."""
JSON = "json"
SCATTERED = (
    "the members of the sample are not next to each other in the archive; write it again with its "
    "members sorted, for example by tar --sort=name"
)
"""Why a part of a sample is not a row."""


class TarSamples(RecordFormat):
    """The format of tar archives of samples."""

    def records(self, file: InputFile, columns: Columns, *, whole: bool) -> Iterator[Record]:
        """Yields the samples of an archive, as described in `RecordFormat`."""
        needed = {_extension_of(name) for name in columns.stored}
        scattered = _find_scattered(file)
        with file.open_decompressed() as stream, decoding("the next member is damaged"):
            reader = TarReader(stream)
            for key, members in _group_members(reader):
                record = _read_sample(reader, key, members, columns, needed, whole=whole)
                if _hash_key(key) in scattered:
                    record = record._replace(fault=SCATTERED, stored=None)
                yield record

    def writer(self, file: InputFile, columns: Columns, target: str) -> "TarWriter":
        """Returns a writer of an archive with the compression of the input."""
        return TarWriter(file, target)


def split_name(path: str) -> tuple[str, str]:
    """Returns the name of the sample of a member, and the extension of the member.

    Examples:
        >>> split_name("a.b/0001.seg.txt")
        ('a.b/0001', 'seg.txt')
    """
    folder, slash, name = path.rpartition("/")
    stem, _, extension = name.partition(".")
    return f"{folder}{slash}{stem}", extension.lower()


def _find_scattered(file: InputFile) -> frozenset[int]:
    """Returns the hashes of the samples of an archive whose members are not consecutive.

    Such a sample would lose members, so none of its parts is a row. That is known only at the end
    of an archive, so it is read twice.
    """
    digests = array("Q")
    with suppress(DamageError), decoding(), file.open_decompressed() as stream:
        digests.extend(_hash_key(key) for key, _ in _group_members(TarReader(stream)))
    values, counts = np.unique(np.array(digests, np.uint64), return_counts=True)
    return frozenset(values[counts > 1].tolist())


def _hash_key(key: str) -> int:
    """Returns the hash of the name of a sample, which may have bytes that are not UTF-8."""
    digest = hashlib.blake2b(key.encode("utf-8", "surrogateescape"), digest_size=8)
    return int.from_bytes(digest.digest(), "little")


def _extension_of(column: str) -> str:
    return TEXT_MEMBERS.get(column, JSON if column.startswith(f"{JSON}.") else column)


def _group_members(reader: TarReader) -> Iterator[tuple[str, Iterator[TarMember]]]:
    members = (member for member in reader if not member.info.isdir())
    return groupby(members, lambda member: split_name(member.info.name)[0])


def _read_sample(
    reader: TarReader,
    key: str,
    members: Iterator[TarMember],
    columns: Columns,
    needed: set[str],
    *,
    whole: bool,
) -> Record:
    """Returns a sample as a row. Members that are not needed are passed over."""
    values: dict[str, Any] = {KEY: key}
    stored: list[tuple[tarfile.TarInfo, bytes]] = []
    size = len(key)
    fault = None
    for member in members:
        info = member.info
        size += max(info.size, member.stored)
        extension = split_name(info.name)[1]
        if not info.isfile():
            shown = format_path(extension)
            fault = fault or f"the member .{shown} is a link or a device; store its content"
        if size > UNFOLDED_SHARE * columns.document_limit:
            fault = fault or f"the sample is larger than {UNFOLDED_SHARE} documents may be"
            stored = []
        if extension in needed and info.size > columns.document_limit:
            fault = fault or too_long_reason(extension, columns.document_limit)
        if fault is not None or not (whole or extension in needed):
            continue
        content = reader.read_content(member)
        if whole:
            stored.append((_make_plain(info), content))
        if extension in needed:
            try:
                _set_values(values, extension, content)
            except ValueError as error:
                fault = f"the member .{extension} cannot be read: {error}"
    return Record(values, size, fault, stored if whole else None)


def _make_plain(member: tarfile.TarInfo) -> tarfile.TarInfo:
    """Returns a member as one that is stored whole, without the headers of sparse files."""
    headers = {
        name: value
        for name, value in member.pax_headers.items()
        if name not in ("path", "size") and not name.startswith("GNU.sparse.")
    }
    plain = copy.copy(member)
    plain.pax_headers = headers
    if member.issparse():
        plain.type = tarfile.REGTYPE
    return plain


def _set_values(values: dict[str, Any], extension: str, content: bytes) -> None:
    """Sets the columns that a member has: those of its fields, or one text."""
    if extension == JSON:
        parsed = parse_exact_json(content)
        if isinstance(parsed, dict):
            values.update({f"{JSON}.{name}": value for name, value in parsed.items()})
    text = content.decode()
    values[extension] = text
    for name, member in TEXT_MEMBERS.items():
        if member == extension:
            values[name] = text


class TarWriter(RecordCopier):
    """A writer that copies the members of kept samples."""

    def __init__(self, file: InputFile, target: str) -> None:
        self._sink = open_compressed_sink(file, target)
        self._archive = tarfile.open(fileobj=self._sink, mode="w|")  # noqa: SIM115 (closed by close)

    def write(self, rows: list[Record]) -> None:
        """Writes the members of samples that `select` returned."""
        for record in rows:
            for member, content in record.stored:
                self._archive.addfile(member, io.BytesIO(content))
        # An open archive remembers the header of each member.
        self._archive.members.clear()  # type: ignore[attr-defined]

    def close(self) -> None:
        """Completes the archive."""
        self._archive.close()
        self._sink.close()
