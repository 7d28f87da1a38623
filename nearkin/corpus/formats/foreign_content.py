"""The detection of content that is not the text that a suffix or a label says."""

import codecs

from nearkin.corpus.input_file import InputFile
from nearkin.runtime.dialect import WIDE as WIDE_ENCODINGS
from nearkin.runtime.dialect import detect_encoding

SAMPLE = 1 << 16
"""The number of bytes at the beginning of a file that are examined."""
READABLE = (
    "nearkin reads .parquet, .jsonl, .ndjson, .json, .csv, .tsv, .xlsx, .arrow, "
    ".feather, .ipc, .avro, .orc, .tar, .warc and .wet, UTF-8 text with any other suffix, "
    "and these compressed as .gz, .zst, .bz2 and .lz4"
)
"""The sentence that lists the formats, for messages."""
CONTENTS = {
    b"PK\x03\x04": "a zip archive or an Office document",
    b"\xd0\xcf\x11\xe0": "an Office document",
    b"PAR1": "parquet; give it the suffix .parquet",
    b"ARROW1": "Arrow data; give it the suffix .arrow",
    b"\x1f\x8b": "gzip data; give it the suffix .gz",
    b"\x28\xb5\x2f\xfd": "zstd data; give it the suffix .zst",
    b"BZh": "bzip2 data; give it the suffix .bz2",
    b"\x04\x22\x4d\x18": "lz4 data; give it the suffix .lz4",
    b"\xfd7zXZ": "xz data; decompress it",
    b"%PDF": "a PDF document; extract its text",
    b"SQLite format 3": "an SQLite database; export its table",
    codecs.BOM_UTF32_LE: "UTF-32 text; convert it to UTF-8",
    codecs.BOM_UTF32_BE: "UTF-32 text; convert it to UTF-8",
    codecs.BOM_UTF16_LE: "UTF-16 text; convert it to UTF-8",
    codecs.BOM_UTF16_BE: "UTF-16 text; convert it to UTF-8",
}
"""The first bytes of files that are not UTF-8 text, with the name of the format and advice."""
BINARIES = {
    b"%PDF-": "a PDF document",
    b"PK\x03\x04": "a zip archive or an Office document",
    b"\xd0\xcf\x11\xe0": "an Office document",
    b"\x1f\x8b": "gzip data",
    b"\x28\xb5\x2f\xfd": "zstd data",
    b"\x89PNG": "a PNG picture",
    b"\xff\xd8\xff": "a JPEG picture",
    b"GIF87a": "a GIF picture",
    b"GIF89a": "a GIF picture",
}
"""The first bytes of contents that are never a text, with the name of the format."""
WIDE = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE, codecs.BOM_UTF32_LE, codecs.BOM_UTF32_BE)
"""The first bytes of text in UTF-16 and UTF-32, in which null bytes are usual."""


SPREADSHEET = "a spreadsheet; save it as .xlsx, or its sheet as CSV (UTF-8), and give that file"
"""The description of files of Excel, LibreOffice and others that are not read."""
SHEET_SUFFIXES = (".xlsm", ".xlsb", ".xls", ".ods", ".numbers")
SHEET_PARTS = (b"xl/workbook", b"opendocument.spreadsheet")
"""Names that occur near the beginning of the archive of a spreadsheet."""


def find_foreign_content(file: InputFile, *, whole_text: bool) -> str | None:
    """Returns a description of content that is not the text it should be, or None.

    Null bytes are not valid if the whole file is one text.
    """
    with file.open_decompressed() as stream:
        sample = bytes(stream.read(SAMPLE))
    content = describe_foreign_content(sample)
    if content is not None and file.suffix in SHEET_SUFFIXES:
        return SPREADSHEET
    if content is None and whole_text and b"\0" in sample:
        return "null bytes, so it is not UTF-8 text"
    return content


def describe_foreign_content(sample: bytes) -> str | None:
    """Returns a description of the content that begins with some bytes, or None if it is text."""
    if _is_text(sample):
        # The first bytes may be text, for example a column named PAR1.
        return None
    if any(part in sample for part in SHEET_PARTS):
        return SPREADSHEET
    for start, content in CONTENTS.items():
        if sample.startswith(start):
            return content
    is_wide = detect_encoding(sample).startswith(WIDE_ENCODINGS)
    return CONTENTS[codecs.BOM_UTF16_LE] if is_wide else None


def find_binary_content(content: bytes) -> str | None:
    """Returns what content is by its first bytes if it is not a text in any encoding, or None.

    Examples:
        >>> find_binary_content(b"%PDF-1.7 ..."), find_binary_content(b"<p>text</p>")
        ('a PDF document', None)
    """
    for start, kind in BINARIES.items():
        if content.startswith(start):
            return kind
    if b"\0" in content and not content.startswith(WIDE):
        return "data with null bytes"
    return None


def _is_text(sample: bytes) -> bool:
    """Returns True if bytes are UTF-8 without null bytes. The last character may be incomplete."""
    try:
        codecs.getincrementaldecoder("utf-8")().decode(sample)
    except UnicodeDecodeError:
        return False
    return b"\0" not in sample
