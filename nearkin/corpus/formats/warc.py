"""WARC files of web crawls: responses, extracted texts (WET) and resources.

The library warcio parses records and decodes what HTTP encoded.
"""

import codecs
import zlib
from collections.abc import Iterator
from typing import Any

import pyarrow as pa

from nearkin.corpus.bounded_stream import read_up_to
from nearkin.corpus.columns import Columns
from nearkin.corpus.formats.html import extract_main_text
from nearkin.corpus.formats.record_rows import Record, RecordCopier, RecordFormat
from nearkin.corpus.input_file import InputFile
from nearkin.corpus.validation import too_long_reason
from nearkin.errors import MissingExtraError

DOCUMENT_TYPES = ("response", "resource", "conversion")
"""The types of the records that are rows. Records of other types are about these."""
HEADERS = {
    "url": "WARC-Target-URI",
    "date": "WARC-Date",
    "record_id": "WARC-Record-ID",
    "languages": "WARC-Identified-Content-Language",
}
"""The columns from headers of a record."""
COLUMNS = ["text", *HEADERS, "status", "content_type"]
TEXT_TYPES = ("text/", "application/xhtml", "application/xml", "application/json")
"""The beginnings of content types that are texts."""
HTML_TYPES = ("text/html", "application/xhtml")
BROTLI = "br"
"""The name of the encoding Brotli in HTTP."""
NO_ENCODINGS = ("idna", "mbcs", "oem", "palmos", "punycode", "raw-unicode-escape", "unicode-escape")
"""The names of codecs of Python that are not encodings of documents. Some take quadratic time."""
SEPARATOR = b"\r\n\r\n"
"""The bytes after a record, which its length does not include if the file is not compressed."""
COPIED = 1 << 20
"""The number of bytes that are copied at a time."""


class Warc(RecordFormat):
    """The format of WARC files, plain or with one gzip member for each record."""

    def columns(self, file: InputFile, requested: Columns) -> list[str] | None:
        """Returns the names of the columns, which all WARC files have.

        Args:
            file: The file.
            requested: Not used, because all files have the same columns.
        """
        return list(COLUMNS)

    def records(self, file: InputFile, columns: Columns, *, whole: bool) -> Iterator[Record]:
        """Yields the documents of a file, as described in `RecordFormat`.

        Args:
            file: The file.
            columns: The columns to read.
            whole: Whether records are to be copied.

        Raises:
            ValueError: If the file is damaged.
        """
        for record, iterator in iterate_records(file):
            if record.rec_type not in DOCUMENT_TYPES:
                if not _has_length(record):
                    raise ValueError("the next record has no valid Content-Length")
                continue
            parsed = _parse_record(record, columns)
            stored = None
            if whole:
                # Reading the rest of the record makes its length known.
                iterator.read_to_end(record)
                stored = (iterator.get_record_offset(), iterator.get_record_length())
            yield parsed._replace(stored=stored)

    def writer(self, file: InputFile, columns: Columns, target: str) -> "WarcWriter":
        """Returns a writer that copies the bytes of kept records.

        Args:
            file: The input file.
            columns: Not used, because records are copied as they are.
            target: The path of the file to write.
        """
        return WarcWriter(file, target)


def iterate_records(file: InputFile) -> Iterator[tuple[Any, Any]]:
    """Yields the records of a WARC file, each with the iterator that reads it.

    Args:
        file: The file.

    Raises:
        MissingExtraError: If warcio is not installed.
        ValueError: If the file is damaged.
    """
    try:
        from warcio.archiveiterator import ArchiveIterator
        from warcio.exceptions import ArchiveLoadFailed
        from warcio.statusandheaders import StatusAndHeadersParserException
    except ImportError as error:
        raise MissingExtraError.for_extra("WARC files require warcio", "warc") from error
    if file.compression not in (None, "gzip"):
        raise ValueError("WARC files are compressed by gzip only; decompress the file")
    with file.open() as stream:
        iterator = ArchiveIterator(stream)
        try:
            for record in iterator:
                yield record, iterator
        except (ArchiveLoadFailed, StatusAndHeadersParserException, zlib.error) as error:
            raise ValueError(f"the next record is damaged: {error}") from error
        # warcio takes a record without a first line for the end of the file.
        if not file.remote and iterator.offset < stream.size():
            raise ValueError("the next record is damaged: it is cut")


def _parse_record(record: Any, columns: Columns) -> Record:
    """Returns a record as a row."""
    headers = record.rec_headers
    values = {name: headers.get_header(header) for name, header in HEADERS.items()}
    content_type = headers.get_header("Content-Type")
    status = None
    if record.http_headers is not None:
        content_type = record.http_headers.get_header("Content-Type")
        status = record.http_headers.get_statuscode()
    values["content_type"] = content_type
    values["status"] = status
    size = sum(len(value) for value in values.values() if value)
    if status is not None and not status.startswith("2"):
        return Record(values, size, f"the status of the response is not 2xx: {status}")
    kind = (content_type or "text/").strip().lower()
    if not kind.startswith(TEXT_TYPES) and "+xml" not in kind:
        return Record(values, size, f"the content type is not that of a text: {kind[:80]}")
    if not _has_length(record):
        return Record(values, size, "the record has no valid Content-Length")
    content = _read_content(record, columns.document_limit + 1)
    if len(content) > columns.document_limit:
        return Record(values, size, too_long_reason("text", columns.document_limit))
    if record.raw_stream.limit > 0 and not record.raw_stream.read(1):
        return Record(values, size, "the record is truncated")
    if columns.main_text and kind.startswith(HTML_TYPES):
        try:
            text: str | None = extract_main_text(content, _charset_of(kind))
        except ValueError as error:
            return Record(values, size, str(error))
    else:
        text = _decode(content, _charset_of(kind))
    if text is None:
        return Record(values, size, "the text is not in the encoding that its content type names")
    values["text"] = text
    return Record(values, size + len(content))


def _has_length(record: Any) -> bool:
    """Returns whether the length of a record is known. Others would take all that follows."""
    length = record.rec_headers.get_header("Content-Length")
    is_valid = length is None or length.strip().isdecimal()
    # Only a record of known length has a stream with a limit.
    return is_valid and hasattr(record.raw_stream, "limit")


def _read_content(record: Any, most: int) -> bytes:
    """Returns the content of a record without the encoding of HTTP, or its first bytes.

    Args:
        record: The record.
        most: The maximum number of bytes.
    """
    headers = record.http_headers
    encoding = None if headers is None else headers.get_header("Content-Encoding")
    if encoding is None or encoding.strip().lower() != BROTLI:
        return bytes(record.content_stream().read(most))
    # warcio (1.8) fails with the current library of this encoding.
    headers.remove_header("Content-Encoding")
    stored = bytes(record.content_stream().read(most))
    if len(stored) == most:
        return stored
    try:
        with pa.CompressedInputStream(pa.BufferReader(stored), "brotli") as stream:
            return read_up_to(stream, most)
    except OSError:
        # Some crawlers decode the content and keep the header, which warcio expects as well.
        return stored


def _charset_of(content_type: str) -> str | None:
    """Returns the encoding that a content type names, or None.

    Examples:
        >>> _charset_of('text/html; charset="iso-8859-1"')
        'iso-8859-1'
    """
    _, _, charset = content_type.partition("charset=")
    return charset.partition(";")[0].strip(" \"'") or None


def _decode(content: bytes, charset: str | None) -> str | None:
    """Returns the text of bytes in UTF-8 or in a given encoding, or None if they are in neither."""
    for name in ("utf-8", charset):
        try:
            # Python also has codecs that are not encodings of text, such as zip.
            if name is not None and _is_encoding(codecs.lookup(name)):
                return content.decode(name)
        except (LookupError, ValueError):
            continue
    return None


def _is_encoding(codec: codecs.CodecInfo) -> bool:
    return codec._is_text_encoding and codec.name not in NO_ENCODINGS


class WarcWriter(RecordCopier):
    """A writer that copies the bytes of records, after those of the `warcinfo` of the input.

    Args:
        file: The input file.
        target: The path of the file to write.
    """

    def __init__(self, file: InputFile, target: str) -> None:
        self._source = file.open()
        self._sink = pa.OSFile(target, "wb")
        self._separator = SEPARATOR if file.compression is None else b""
        for record, iterator in iterate_records(file):
            if record.rec_type != "warcinfo":
                break
            iterator.read_to_end(record)
            self._copy(iterator.get_record_offset(), iterator.get_record_length())

    def write(self, rows: list[Record]) -> None:
        """Copies the bytes of records that `select` returned."""
        for record in rows:
            offset, length = record.stored
            self._copy(offset, length)

    def close(self) -> None:
        """Completes the file."""
        self._sink.close()
        self._source.close()

    def _copy(self, offset: int, length: int) -> None:
        self._source.seek(offset)
        left = length
        while left and (block := self._source.read(min(COPIED, left))):
            self._sink.write(block)
            left -= len(block)
        if self._separator:
            self._sink.write(self._separator)
