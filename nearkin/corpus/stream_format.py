"""The suffix of a stream without a name, such as standard input, which decides its format."""

import codecs
import csv
import io
import re

from nearkin.corpus.columns import Columns
from nearkin.corpus.foreign_errors import DamageError, decoding
from nearkin.corpus.formats.foreign_content import SAMPLE, describe_foreign_content
from nearkin.corpus.formats.json_values import has_list_of_objects
from nearkin.corpus.input_file import InputFile
from nearkin.corpus.nested_columns import find_root
from nearkin.errors import UsageError
from nearkin.runtime.dialect import WIDE, detect_dialect, detect_encoding, find_named_delimiter
from nearkin.runtime.setting_names import name_flag

CODECS = {
    b"\x1f\x8b": ".gz",
    b"\x28\xb5\x2f\xfd": ".zst",
    b"BZh": ".bz2",
    b"\x04\x22\x4d\x18": ".lz4",
}
"""The suffixes of compressed files, by their first bytes."""
MAGIC_WORDS = {
    b"PAR1": ".parquet",
    b"ARROW1": ".arrow",
    b"\xff\xff\xff\xff": ".arrows",
    b"ORC": ".orc",
    b"Obj\x01": ".avro",
    b"WARC/": ".warc",
}
"""The suffixes of files of rows, by their first bytes."""
TAR_MAGIC = slice(257, 262)
"""The place of the word `ustar` in a tar archive."""
JSON_LINES = ".jsonl"
JSON_START = re.compile(rb'\s*(?:\{\s*(?:["}]|$)|\[\s*(?:[\[{"\]]|[-.\de+]+\s*[,\]]|$))')
"""A pattern of the beginning of a line of JSON, which a line of a log such as `[12:00] …` lacks."""
LEAST_FIT = 0.9
"""The smallest share of rows with as many values as the header that makes text CSV."""


def detect_suffix(file: InputFile, columns: Columns) -> str:
    """Returns the suffix of the format of a file without one, with that of its compression.

    Text is JSON if a line begins with a bracket. It is CSV if its first line has a column of the
    documents, or if most rows have as many values as it has.
    """
    try:
        with decoding(), file.open_decompressed() as stream:
            sample = bytes(stream.read(SAMPLE))
    except DamageError:
        # Reading the file as rows says why it cannot be read.
        sample = b""
    for start, suffix in CODECS.items():
        if sample.startswith(start) and file.compression is None:
            compressed = InputFile(file.path, f"{file.name}{suffix}")
            return detect_suffix(compressed, columns) + suffix
    if sample[TAR_MAGIC] == b"ustar":
        return ".tar"
    for start, suffix in MAGIC_WORDS.items():
        if sample.startswith(start):
            return suffix
    return _detect_text(sample, columns)


def _detect_text(sample: bytes, columns: Columns) -> str:
    foreign = describe_foreign_content(sample)
    is_wide = detect_encoding(sample).startswith(WIDE)
    if foreign and not is_wide:
        raise UsageError(f"standard input holds {foreign}; give rows of JSON or CSV instead")
    if is_wide and JSON_START.match(sample.replace(b"\0", b"").lstrip(b"\xff\xfe")):
        raise UsageError(
            "standard input holds JSON in UTF-16 or UTF-32; convert it to UTF-8, for example with "
            "iconv -f utf-16 -t utf-8"
        )
    content = sample.removeprefix(codecs.BOM_UTF8).strip()
    if not content or any(JSON_START.match(line) for line in content.splitlines()):
        holds_rows = content.startswith(b"[") or has_list_of_objects(content)
        return ".json" if holds_rows and b"\n" not in content else JSON_LINES
    if columns.lines:
        return ".txt"
    if _is_delimited(sample, columns):
        return ".csv"
    raise UsageError(
        "standard input is neither JSON nor CSV with the column "
        f"{columns.source!r}; name its column with {columns.option}, or read its lines as "
        f"documents with {name_flag('lines')}"
    )


def _is_delimited(sample: bytes, columns: Columns) -> bool:
    dialect = detect_dialect(sample, ",", columns.delimiter, columns.encoding)
    text = sample.decode(dialect.encoding, "replace").removeprefix("\ufeff")
    try:
        rows = list(csv.reader(io.StringIO(text, newline=""), delimiter=dialect.delimiter))
    except csv.Error:
        return False
    if find_named_delimiter(text):
        del rows[0]
    rows = [row for row in rows if row]
    if not rows:
        return False
    names = rows[0]
    if any(find_root(source, names) for source in columns.sources):
        return True
    # The sample may end within the last row.
    complete = rows[:-1] if len(rows) > 2 else rows
    fitting = sum(len(row) == len(names) for row in complete)
    return len(names) > 1 and fitting >= LEAST_FIT * len(complete)
