"""The members of tar archives, read from a stream.

The library tarfile takes some damage for the end of an archive, which other versions of Python do
not, and reads as many bytes as a header claims. So the blocks are read here, and only the headers
of a member are given to the library.
"""

import io
import re
import tarfile
from collections.abc import Iterator
from typing import Any, NamedTuple

import pyarrow as pa

from nearkin.corpus.bounded_stream import BLOCK, read_up_to

MAX_HEADER = 1 << 20
"""The maximum size of the headers of a member, for example with a long name, in bytes."""
MOST_EXTENDED = 64
"""The maximum number of headers that extend that of a member, because the library recurses."""
EXTENDED = (
    tarfile.GNUTYPE_LONGNAME,
    tarfile.GNUTYPE_LONGLINK,
    tarfile.XHDTYPE,
    tarfile.XGLTYPE,
    tarfile.SOLARIS_XHDTYPE,
)
"""The types of headers that extend the next one."""
WITH_RECORDS = (tarfile.XHDTYPE, tarfile.XGLTYPE, tarfile.SOLARIS_XHDTYPE)
"""The types of those headers that consist of records of a key and a value."""
RECORD = re.compile(rb"(\d{1,20}) ([^=]+)=")
"""The beginning of a record: its length in bytes, and its key."""
FIRST_CONTINUES, NEXT_CONTINUES = 482, 504
"""The places of the bytes of a sparse member that say if another block with its map follows."""
SPARSE = b"GNU.sparse."
"""The beginning of the keys of a sparse member."""


MISSING_END = "the end of the archive is missing"


class TarMember(NamedTuple):
    """A member of an archive."""

    info: tarfile.TarInfo
    """The name, the type and other facts. The size is that of the content."""
    stored: int
    """The number of bytes that the content takes in the archive. That of a sparse one may be less
    than its size."""
    headers: bytes
    """The headers as they are stored."""


class TarReader:
    """Reads an archive from its beginning to its end."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream
        self._left = 0
        self._beginning = b""
        self._shared = b""
        self._shared_count = 0
        # Only a local file knows whether bytes that are passed over exist.
        self._size = stream.size() if isinstance(stream, pa.OSFile) else None

    def __iter__(self) -> Iterator[TarMember]:
        """Yields the members.

        The content of a member can be read until the next one is requested.
        """
        has_ended = False
        while True:
            self._skip_content()
            block = read_up_to(self._stream, tarfile.BLOCKSIZE)
            if has_ended and not any(block):
                if not block:
                    return
                continue
            if len(block) < tarfile.BLOCKSIZE:
                raise ValueError(MISSING_END)
            has_ended = not any(block)
            if not has_ended:
                yield self._parse_member(block)

    def read_content(self, member: TarMember) -> bytes:
        """Returns the content of the latest member."""
        content = self._beginning + self._take(member.stored - len(self._beginning))
        self._beginning = b""
        if not member.info.issparse():
            return content
        with _open_member(self._shared + member.headers + content) as archive:
            source = archive.extractfile(archive.next())  # type: ignore[arg-type]
            return b"" if source is None else source.read()

    def _parse_member(self, block: bytes) -> TarMember:
        """Returns the member whose first header is given, and reads its other headers."""
        extensions = b""
        count = self._shared_count
        header = _parse_header(block)
        while header.type in EXTENDED:
            count += 1
            if count > MOST_EXTENDED:
                raise ValueError(f"a member has more than {MOST_EXTENDED} headers")
            padded = self._read_header(_round_up(header.size), self._shared + extensions)
            # The library looks at the padding, too.
            content = padded[: header.size].ljust(len(padded), b"\0")
            if header.type in WITH_RECORDS:
                _require_records(content[: header.size])
            if header.type == tarfile.XGLTYPE:
                self._shared += block + content
                self._shared_count += 1
            else:
                extensions += block + content
            block = self._read_header(tarfile.BLOCKSIZE, extensions)
            header = _parse_header(block)
        headers = extensions + block
        if header.type == tarfile.GNUTYPE_SPARSE:
            has_more = block[FIRST_CONTINUES]
            while has_more:
                block = self._read_header(tarfile.BLOCKSIZE, headers)
                headers += block
                has_more = block[NEXT_CONTINUES]
        info = header
        is_plain = len(headers) == tarfile.BLOCKSIZE and not self._shared
        self._beginning = b""
        if not is_plain or header.type == tarfile.GNUTYPE_SPARSE:
            if SPARSE in headers:
                # The content begins with the map.
                self._left = _round_up(header.size)
                self._beginning = self._take(min(self._left, MAX_HEADER))
            with _open_member(self._shared + headers + self._beginning) as archive:
                parsed = archive.next()
            if parsed is None:
                raise ValueError("a header is not followed by a member")
            info = parsed
        has_content = info.isreg() or info.type not in tarfile.SUPPORTED_TYPES
        stored = int(info.pax_headers.get("size", header.size)) if has_content else 0
        if stored < 0 or info.size < 0:
            raise ValueError(f"the size of a member is negative: {min(stored, info.size)}")
        self._left = _round_up(stored) - len(self._beginning)
        self._beginning = self._beginning[:stored]
        return TarMember(info, stored, headers)

    def _read_header(self, size: int, before: bytes) -> bytes:
        """Returns the next bytes, which are headers, after others of the same member."""
        total = len(before) + size
        if total > MAX_HEADER:
            raise ValueError(f"the headers of a member have {total:,} bytes, more than 1 MiB")
        self._left = size
        return self._take(size)

    def _take(self, size: int) -> bytes:
        taken = read_up_to(self._stream, size)
        self._left -= len(taken)
        if len(taken) < size:
            raise ValueError(MISSING_END)
        return taken

    def _skip_content(self) -> None:
        if self._size is None:
            while self._left > 0:
                self._take(min(self._left, BLOCK))
            return
        end = self._stream.tell() + max(self._left, 0)
        if end > self._size:
            raise ValueError(MISSING_END)
        self._stream.seek(end)
        self._left = 0


def _parse_header(block: bytes) -> tarfile.TarInfo:
    header = tarfile.TarInfo.frombuf(block, "utf-8", "surrogateescape")
    if header.size < 0:
        raise ValueError(f"the size of a member is negative: {header.size}")
    return header


def _require_records(content: bytes) -> None:
    """Requires that records are valid. Versions of the library differ in what they do otherwise."""
    at = 0
    while at < len(content) and content[at]:
        match = RECORD.match(content, at)
        end = at + int(match[1]) if match else 0
        if match is None or end <= match.end() or content[end - 1 : end] != b"\n":
            raise ValueError("a record of a header is not valid")
        value = content[match.end() : end - 1]
        if match[2] == b"size" and value.startswith(b"-"):
            raise ValueError(
                f"the size of a member is negative: {value.decode('ascii', 'replace')}"
            )
        at = end


def _open_member(content: bytes) -> tarfile.TarFile:
    return tarfile.open(
        fileobj=io.BytesIO(content), mode="r:", encoding="utf-8", errors="surrogateescape"
    )


def _round_up(size: int) -> int:
    """Returns the number of bytes of whole blocks."""
    return -(-size // tarfile.BLOCKSIZE) * tarfile.BLOCKSIZE
