"""Tar archives of samples, as WebDataset has them.

A sample consists of consecutive members whose names are equal up to the first dot.
"""

import copy
import io
import tarfile
import zlib
from collections.abc import Iterator
from itertools import groupby
from typing import Any, Self

from nearkin.corpus.columns import UNFOLDED_SHARE, Columns
from nearkin.corpus.file_names import format_path
from nearkin.corpus.formats.base import open_compressed_sink
from nearkin.corpus.formats.json_rows import parse_exact_json
from nearkin.corpus.formats.record_rows import Record, RecordCopier, RecordFormat
from nearkin.corpus.input_file import InputFile
from nearkin.corpus.validation import too_long_reason

KEY = "key"
"""The column of the names of samples."""
TEXT_MEMBERS = {"text": "txt"}
"""The extensions of members whose columns have another name."""
JSON = "json"
MAX_HEADER = 1 << 20
"""The maximum size of a header that extends another one, for example by a long name, in bytes."""
EXTENDED = (
    tarfile.GNUTYPE_LONGNAME,
    tarfile.GNUTYPE_LONGLINK,
    tarfile.XHDTYPE,
    tarfile.XGLTYPE,
    tarfile.SOLARIS_XHDTYPE,
)


class TarSamples(RecordFormat):
    """The format of tar archives of samples."""

    def records(self, file: InputFile, columns: Columns, *, whole: bool) -> Iterator[Record]:
        """Yields the samples of an archive, as described in `RecordFormat`.

        Args:
            file: The file.
            columns: The columns to read. `text` is the member with the extension `txt`,
                `json.NAME` a field of the member with the extension `json`, `key` the name of the
                sample, and any other name an extension.
            whole: Whether the samples hold all their members.

        Raises:
            ValueError: If the archive is damaged.
        """
        needed = {_extension_of(name) for name in columns.stored}
        with file.open_decompressed() as stream:
            try:
                with tarfile.open(fileobj=stream, mode="r|", tarinfo=_BoundedHeader) as archive:
                    members = (member for member in archive if not member.isdir())
                    for key, sample in groupby(members, lambda member: split_name(member.name)[0]):
                        yield _read_sample(archive, key, sample, columns, needed, whole=whole)
                        # An open archive remembers the header of each member.
                        archive.members.clear()  # type: ignore[attr-defined]
            except (tarfile.TarError, zlib.error) as error:
                raise ValueError(f"the next member is damaged: {error}") from error

    def writer(self, file: InputFile, columns: Columns, target: str) -> "TarWriter":
        """Returns a writer of an archive with the compression of the input.

        Args:
            file: The input file.
            columns: Not used, because samples are copied as they are.
            target: The path of the file to write.
        """
        return TarWriter(file, target)


class _BoundedHeader(tarfile.TarInfo):
    """A header that is refused if reading it would take much memory.

    A missing end of the archive and a damaged header, which tarfile takes for the end, are errors
    as well. The end is a block of zeros.
    """

    @classmethod
    def frombuf(cls, buf: bytes | bytearray, encoding: str, errors: str) -> Self:
        if len(buf) < tarfile.BLOCKSIZE:
            raise tarfile.ReadError("the end of the archive is missing")
        try:
            header = super().frombuf(buf, encoding, errors)
        except tarfile.HeaderError as error:
            if not any(buf):
                raise
            raise tarfile.ReadError(str(error)) from error
        if header.type in EXTENDED and header.size > MAX_HEADER:
            raise tarfile.ReadError(f"a header of {header.size:,} bytes is larger than 1 MiB")
        return header


def split_name(path: str) -> tuple[str, str]:
    """Returns the name of the sample of a member, and the extension of the member.

    Args:
        path: The path of the member.

    Examples:
        >>> split_name("a.b/0001.seg.txt")
        ('a.b/0001', 'seg.txt')
    """
    folder, slash, name = path.rpartition("/")
    stem, _, extension = name.partition(".")
    return f"{folder}{slash}{stem}", extension.lower()


def _extension_of(column: str) -> str:
    return TEXT_MEMBERS.get(column, JSON if column.startswith(f"{JSON}.") else column)


def _read_sample(
    archive: tarfile.TarFile,
    key: str,
    members: Iterator[tarfile.TarInfo],
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
        size += member.size
        extension = split_name(member.name)[1]
        if not member.isfile():
            shown = format_path(extension)
            fault = fault or f"the member .{shown} is a link or a device; store its content"
        if size > UNFOLDED_SHARE * columns.document_limit:
            fault = fault or f"the sample is larger than {UNFOLDED_SHARE} documents may be"
            stored = []
        if extension in needed and member.size > columns.document_limit:
            fault = fault or too_long_reason(extension, columns.document_limit)
        if fault is not None or not (whole or extension in needed):
            continue
        content = _read_member(archive, member)
        if whole:
            stored.append((_make_plain(member), content))
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


def _read_member(archive: tarfile.TarFile, member: tarfile.TarInfo) -> bytes:
    source = archive.extractfile(member)
    content = b"" if source is None else source.read()
    if len(content) < member.size:
        raise tarfile.ReadError("the end of the archive is missing")
    return content


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
    """A writer that copies the members of kept samples.

    Args:
        file: The input file.
        target: The path of the file to write.
    """

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
