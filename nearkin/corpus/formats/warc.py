"""WARC files of web crawls: responses, extracted texts (WET) and resources.

The library warcio parses records and decodes what HTTP encoded.
"""

import codecs
import re
from collections.abc import Iterable, Iterator
from typing import Any

import pyarrow as pa

from nearkin.corpus.bounded_stream import BoundedStream, read_up_to
from nearkin.corpus.columns import Columns
from nearkin.corpus.foreign_errors import DamageError, decoding
from nearkin.corpus.formats.foreign_content import find_binary_content
from nearkin.corpus.formats.html import extract_main_text
from nearkin.corpus.formats.record_rows import Record, RecordCopier, RecordFormat
from nearkin.corpus.input_file import InputFile
from nearkin.corpus.validation import too_long_reason
from nearkin.errors import MissingExtraError

DOCUMENT_TYPES = ("response", "resource", "conversion")
"""The types of the records that are rows."""
DESCRIBING_TYPES = ("warcinfo", "request", "metadata")
"""The types of the records that are about other ones."""
REVISIT = "revisit"
CONTINUATION = "continuation"
UNKNOWN = "unknown"
"""The kinds of records that are counted and not read. The last one stands for other types."""
HTTP = "application/http"
"""The content type of a record that begins with the headers of HTTP."""
MAX_HEADERS = 1 << 20
"""The maximum size of the headers of a record, in bytes."""
PRESCAN = 4096
"""The number of bytes of a page in which the name of its encoding is searched."""
COMMENT = re.compile(rb"<!--.*?(-->|$)", re.DOTALL)
META_CHARSET = re.compile(rb"""<meta\s[^>]*?charset\s*=\s*["']?\s*([\w.:-]+)""", re.IGNORECASE)
XML_CHARSET = re.compile(rb"""^\s*<\?xml\s[^>]*?encoding\s*=\s*["']([\w.:-]+)""")
SUPERSETS = {
    "ascii": "cp1252",
    "iso8859-1": "cp1252",
    "iso8859-9": "cp1254",
    "gb2312": "gb18030",
    "gbk": "gb18030",
    "shift_jis": "cp932",
    "euc_kr": "cp949",
    "big5": "big5hkscs",
}
"""The encoding that browsers use in place of one that is named, by the names of the codecs."""
BYTE_ORDER_MARKS = {
    codecs.BOM_UTF32_LE: "utf-32",
    codecs.BOM_UTF32_BE: "utf-32",
    codecs.BOM_UTF16_LE: "utf-16",
    codecs.BOM_UTF16_BE: "utf-16",
}
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
FIRST_LINE = b"WARC/"
"""The beginning of each record."""
SEPARATOR = b"\r\n\r\n"
"""The bytes after a record, which its length does not include if the file is not compressed."""
COPIED = 1 << 20
"""The number of bytes that are copied at a time."""


class Warc(RecordFormat):
    """The format of WARC files, plain or with one gzip member for each record."""

    def columns(self, file: InputFile, requested: Columns) -> list[str] | None:
        """Returns the names of the columns, which all WARC files have."""
        return list(COLUMNS)

    def records(self, file: InputFile, columns: Columns, *, whole: bool) -> Iterator[Record]:
        """Yields the documents of a file, as described in `RecordFormat`."""
        for record, iterator in iterate_records(file):
            kind = record.rec_type
            if kind not in DOCUMENT_TYPES:
                if not _has_length(record):
                    raise ValueError("the next record has no valid Content-Length")
                if kind not in DESCRIBING_TYPES:
                    is_known = kind in (REVISIT, CONTINUATION)
                    yield Record({}, 0, skipped=kind if is_known else UNKNOWN)
                continue
            errors = iterator.err_count
            try:
                with decoding("the record cannot be read"):
                    parsed = _parse_record(record, columns, iterator.loader)
            except DamageError as error:
                parsed = Record({}, 0, str(error))
            # Reading the rest of the record makes its length known.
            iterator.read_to_end(record)
            if iterator.reader.decompressor and (iterator.next_line or b"").startswith(FIRST_LINE):
                raise ValueError(
                    "several records are in one gzip member, but WARC files have one member for "
                    "each record; decompress the file, for example with gunzip"
                )
            if parsed.fault is None and iterator.err_count > errors:
                parsed = parsed._replace(fault="the record is longer than its Content-Length")
            stored = (iterator.get_record_offset(), iterator.get_record_length())
            yield parsed._replace(stored=stored if whole else None)

    def writer(self, file: InputFile, columns: Columns, target: str) -> "WarcWriter":
        """Returns a writer that copies the bytes of kept records."""
        return WarcWriter(file, target)


def iterate_records(file: InputFile) -> Iterator[tuple[Any, Any]]:
    """Yields the records of a WARC file, each with the iterator that reads it."""
    try:
        from warcio.archiveiterator import ArchiveIterator
    except ImportError as error:
        raise MissingExtraError.for_extra("WARC files require warcio", "warc") from error
    if file.compression not in (None, "gzip"):
        raise ValueError("WARC files are compressed by gzip only; decompress the file")
    with file.open() as stream, decoding("the next record is damaged"):
        # The headers of HTTP of a single record are parsed where a fault costs this record.
        iterator = ArchiveIterator(BoundedStream(stream), no_record_parse=True)
        # warcio writes it to standard error.
        iterator.INC_RECORD = ""
        iterator.reader = reader = _make_bounded_reader(iterator.fh)
        for record in iterator:
            yield record, iterator
            reader.header_bytes = 0
        # warcio takes a record without a first line for the end of the file.
        if not file.remote and iterator.offset < stream.size():
            raise ValueError("it is cut")


def _make_bounded_reader(stream: Any) -> Any:
    """Returns a reader for warcio, which reads header lines of any length and number."""
    from warcio.bufferedreaders import DecompressingBufferedReader

    class BoundedReader(DecompressingBufferedReader):  # type: ignore[misc]
        """A reader that refuses more bytes of headers than `MAX_HEADERS`."""

        header_bytes = 0

        def readline(self, length: int | None = None) -> bytes:
            most = MAX_HEADERS if length is None else min(length, MAX_HEADERS)
            line: bytes = super().readline(most)
            self.header_bytes += len(line)
            if self.header_bytes >= MAX_HEADERS:
                raise ValueError(f"its headers have more than {MAX_HEADERS:,} bytes")
            return line

    return BoundedReader(stream)


def _parse_record(record: Any, columns: Columns, loader: Any) -> Record:
    headers = record.rec_headers
    values = {name: headers.get_header(header) for name, header in HEADERS.items()}
    if not _has_length(record):
        return Record(values, 0, "the record has no valid Content-Length")
    if headers.get_header("WARC-Segment-Number"):
        return Record(values, 0, "the record is a segment of a larger one")
    content_type = headers.get_header("Content-Type")
    # The record of a response must have a URL, whose protocol says if it begins with headers.
    is_http = (content_type or "").strip().lower().startswith(HTTP)
    url = values["url"] or ("http:" if is_http else "")
    record.http_headers = loader.load_http_headers(
        record.rec_type, url, record.raw_stream, record.length
    )
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
    content = _read_content(record, columns.document_limit + 1)
    if len(content) > columns.document_limit:
        return Record(values, size, too_long_reason("text", columns.document_limit))
    if record.raw_stream.limit > 0 and not record.raw_stream.read(1):
        return Record(values, size, "the record is truncated")
    binary = find_binary_content(content)
    if binary is not None:
        return Record(values, size, f"the content is not the text that its type says: {binary}")
    is_page = kind.startswith(HTML_TYPES)
    charset = _charset_of(kind)
    if columns.main_text and is_page:
        try:
            text: str | None = extract_main_text(content, charset)
        except ValueError as error:
            return Record(values, size, str(error))
    else:
        named = _find_charset(content) if is_page or "xml" in kind else None
        text = _decode(content, (charset, named))
        if text is None:
            return Record(values, size, _describe_encoding_fault(charset, named))
    values["text"] = text
    return Record(values, size + len(content))


def _describe_encoding_fault(charset: str | None, named: str | None) -> str:
    if charset is not None:
        return "the text is not in the encoding that its content type names"
    if named is not None:
        return "the text is not in the encoding that it names"
    return "the text is not valid UTF-8, and no other encoding is named"


def _has_length(record: Any) -> bool:
    """Returns whether the length of a record is known. Others would take all that follows."""
    length = record.rec_headers.get_header("Content-Length")
    is_valid = length is None or length.strip().isdecimal()
    # Only a record of known length has a stream with a limit.
    return is_valid and hasattr(record.raw_stream, "limit")


def _read_content(record: Any, most: int) -> bytes:
    """Returns the content of a record without the encoding of HTTP, or its first `most` bytes."""
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


def _find_charset(content: bytes) -> str | None:
    """Returns the encoding that a page names at its beginning, or None.

    Examples:
        >>> _find_charset(b'<html><head><meta charset="windows-1251"></head>')
        'windows-1251'
    """
    for mark, name in BYTE_ORDER_MARKS.items():
        if content.startswith(mark):
            return name
    beginning = COMMENT.sub(b"", content[:PRESCAN])
    match = META_CHARSET.search(beginning) or XML_CHARSET.search(beginning)
    return None if match is None else match[1].decode()


def _decode(content: bytes, charsets: Iterable[str | None]) -> str | None:
    """Returns the text of bytes in UTF-8 or in a named encoding, or None if they are in none."""
    for name in ("utf-8", *charsets):
        try:
            # Python also has codecs that are not encodings of text, such as zip.
            if name is None or not _is_encoding(codec := codecs.lookup(name)):
                continue
        except (LookupError, ValueError):
            continue
        for known in (SUPERSETS.get(codec.name), codec.name):
            try:
                if known is not None:
                    return content.decode(known)
            except ValueError:
                continue
    return None


def _is_encoding(codec: codecs.CodecInfo) -> bool:
    return codec._is_text_encoding and codec.name not in NO_ENCODINGS


class WarcWriter(RecordCopier):
    """A writer that copies the bytes of records, after those of the `warcinfo` of the input."""

    def __init__(self, file: InputFile, target: str) -> None:
        self._source = file.open()
        self._sink = pa.OSFile(target, "wb")
        self._separator = SEPARATOR if file.compression is None else b""
        for record, iterator in iterate_records(file):
            if record.rec_type != "warcinfo":
                break
            iterator.read_to_end(record)
            if not _has_length(record) or record.raw_stream.limit or iterator.err_count:
                break
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
