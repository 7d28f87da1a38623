"""The delimiter and the encoding of CSV files: options, and their detection from a sample.

Detection reads a bounded beginning of the file. What cannot be decided from it keeps the default:
UTF-8, and the delimiter of the suffix.
"""

import codecs
import csv
import io
import re
from typing import NamedTuple

from nearkin.errors import UsageError
from nearkin.runtime.setting_names import name_setting

SAMPLE_BYTES = 1 << 20
"""The number of bytes at the beginning of a file from which its encoding is detected."""
SAMPLE_CHARACTERS = 1 << 16
"""The number of characters at the beginning of a file from which its delimiter is detected."""
SAMPLE_ROWS = 100
"""The number of rows from which the delimiter is detected."""
DELIMITERS = (",", ";", "\t", "|")
"""The delimiters that are detected, in the order in which they are preferred."""
DELIMITER_NAMES = {"comma": ",", "semicolon": ";", "tab": "\t", "\\t": "\t", "pipe": "|"}
"""The names by which an option may give a delimiter."""
SEPARATOR_LINE = re.compile(r'"?sep=([^"\r\n])"?[\r\n]', re.IGNORECASE)
"""A pattern of the line by which a file tells Excel its delimiter. It precedes the header."""
UTF8 = "utf-8"
UTF16_LITTLE = "utf-16-le"
UTF16_BIG = "utf-16-be"
UTF32_LITTLE = "utf-32-le"
UTF32_BIG = "utf-32-be"
WINDOWS = "cp1252"
MIXED = "utf-8,windows-1252"
"""The value of the option for rows of UTF-8 among which some are Windows-1252."""
LABELS = {
    UTF8: "UTF-8",
    UTF16_LITTLE: "UTF-16",
    UTF16_BIG: "UTF-16",
    UTF32_LITTLE: "UTF-32",
    UTF32_BIG: "UTF-32",
    WINDOWS: "Windows-1252",
}
"""The names of encodings in messages."""
WIDE = ("utf-16", "utf-32")
"""The beginnings of the names of encodings whose characters are not bytes."""
UTF8_CHARACTER = re.compile(
    rb"[\xc2-\xdf][\x80-\xbf]|[\xe0-\xef][\x80-\xbf]{2}|[\xf0-\xf4][\x80-\xbf]{3}"
)
"""A character of UTF-8 that is not ASCII."""
NON_ASCII = re.compile(rb"[\x80-\xff]+")
UNLIKELY = re.compile(rb"[\x81\x8d\x8f\x90\x9d\xfe\xff]|[\x80-\xff]{4,}")
"""Bytes that Windows-1252 does not define, or that are more often damage than letters; and runs of
letters with accents that are too long for a language of Western Europe."""


class Dialect(NamedTuple):
    """The delimiter and the encoding of a CSV file."""

    delimiter: str
    encoding: str
    """The name of a codec of Python."""
    row_encoding: str | None = None
    """The codec of rows that are not valid in the encoding, or None to reject them."""

    @property
    def errors(self) -> str:
        """The error handler with which each row is read, and written as the same bytes.

        Bytes that are not valid are read as lone surrogates, so that only their row is rejected.
        """
        return "surrogatepass" if self.encoding.startswith(WIDE) else "surrogateescape"

    @property
    def encoding_label(self) -> str:
        """The name of the encoding in messages."""
        return LABELS.get(self.encoding, self.encoding)

    @property
    def delimiter_label(self) -> str:
        """The delimiter in messages."""
        return "a tab" if self.delimiter == "\t" else f"{self.delimiter!r}"


def parse_delimiter(text: str | None) -> str | None:
    r"""Returns the delimiter that an option gives.

    Examples:
        >>> parse_delimiter("tab"), parse_delimiter(";"), parse_delimiter(None)
        ('\t', ';', None)
    """
    if text is None:
        return None
    delimiter = DELIMITER_NAMES.get(text.lower(), text)
    if len(delimiter) != 1 or delimiter in '"\r\n\0 ' or not delimiter.isascii():
        raise UsageError(
            f"{name_setting('delimiter', text)} is not one character that can delimit values; use "
            f"{', '.join(name for name in DELIMITER_NAMES if name.isalpha())}, or another ASCII "
            "character that is not a quote, a space or a line end"
        )
    return delimiter


def parse_encoding(text: str | None) -> str | None:
    """Returns the names of the codecs that an option gives, with a comma between them.

    The option is the name of an encoding, or `utf-8,NAME` for rows of UTF-8 among which some have
    another encoding. None leaves it to detection.

    Examples:
        >>> parse_encoding("Windows-1252"), parse_encoding("utf8"), parse_encoding(None)
        ('cp1252', 'utf-8', None)
        >>> parse_encoding("utf-8, latin1")
        'utf-8,iso8859-1'
    """
    if text is None:
        return None
    names = [_parse_one_encoding(name.strip(), text) for name in text.split(",")]
    if len(names) > 2 or (len(names) == 2 and (names[0] != UTF8 or names[1].startswith(WIDE))):
        raise UsageError(
            f"{name_setting('encoding', text)} is not valid; a second encoding is that of rows "
            f"that are not UTF-8, for example {name_setting('encoding', MIXED)}"
        )
    return ",".join(names)


def _parse_one_encoding(name: str, text: str) -> str:
    try:
        name = codecs.lookup(name).name
        "a".encode(name)
    except (LookupError, UnicodeError, ValueError) as error:
        raise UsageError(
            f"{name_setting('encoding', text)} is not a known text encoding; use, for example, "
            f"utf-8, utf-16, "
            "windows-1252, iso8859-15, shift_jis or gb18030"
        ) from error
    return UTF8 if name == "utf-8-sig" else name


def row_encoding_of(encoding: str | None) -> str | None:
    """Returns the codec of rows of JSON and of texts that are not valid UTF-8, or None.

    Examples:
        >>> row_encoding_of("utf-8,cp1252"), row_encoding_of("cp1252"), row_encoding_of("utf-8")
        ('cp1252', 'cp1252', None)
    """
    last = (encoding or UTF8).rpartition(",")[2]
    return None if last == UTF8 or last.startswith(WIDE) else last


def describe_invalid_byte(content: bytes, encoding: str = UTF8) -> str:
    """Returns which byte of a row is not valid, and what can be done about it.

    Examples:
        >>> describe_invalid_byte("Größe".encode("cp1252"))
        "byte 3 is 0xF6; encoding='utf-8,windows-1252' reads such rows"
    """
    place = ""
    try:
        content.decode(encoding)
    except UnicodeDecodeError as error:
        place = f"byte {error.start + 1} is 0x{content[error.start]:02X}; "
    if encoding == UTF8:
        return f"{place}{name_setting('encoding', MIXED)} reads such rows"
    return f"{place}{name_setting('encoding')} names another encoding"


def decode_text(raw: bytes, encoding: str | None, name: str) -> str:
    """Returns a text of a file."""
    try:
        return raw.decode()
    except UnicodeDecodeError:
        other = row_encoding_of(encoding)
    try:
        if other is not None:
            return raw.decode(other)
    except UnicodeDecodeError:
        # The text is not valid in any of the encodings.
        pass
    raise ValueError(f"{name} is not valid UTF-8: {describe_invalid_byte(raw)}")


def detect_dialect(
    sample: bytes, default_delimiter: str, delimiter: str | None, encoding: str | None
) -> Dialect:
    """Returns the dialect of a file with a sample of its first bytes, up to SAMPLE_BYTES."""
    first, _, second = (encoding or "").partition(",")
    chosen = _order_bytes(sample, first) if first else detect_encoding(sample)
    if delimiter is None:
        complete = len(sample) < SAMPLE_BYTES
        text = sample.decode(chosen, "replace").removeprefix("\ufeff")
        complete = complete and len(text) <= SAMPLE_CHARACTERS
        delimiter = find_named_delimiter(text) or detect_delimiter(
            text[:SAMPLE_CHARACTERS], default_delimiter, complete=complete
        )
    return Dialect(delimiter, chosen, second or None)


def find_named_delimiter(text: str) -> str | None:
    r"""Returns the delimiter that the first line of a file names for Excel, or None.

    Examples:
        >>> find_named_delimiter("sep=;\nid;text\n"), find_named_delimiter("id;text\n")
        (';', None)
    """
    named = SEPARATOR_LINE.match(text)
    return None if named is None else named[1]


def detect_encoding(sample: bytes) -> str:
    """Returns the encoding of a text by its first bytes: UTF-8, UTF-16, UTF-32 or Windows-1252.

    A text with characters of UTF-8 is UTF-8, even if other bytes of it are damaged.

    Examples:
        >>> detect_encoding("Größe".encode()), detect_encoding("Größe".encode("cp1252"))
        ('utf-8', 'cp1252')
    """
    if sample.startswith(codecs.BOM_UTF8):
        return UTF8
    # One of the two marks of UTF-32 begins with one of UTF-16.
    if sample.startswith((codecs.BOM_UTF32_LE, codecs.BOM_UTF32_BE)):
        return _order_bytes(sample, "utf-32")
    if sample.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)) or _has_wide_ascii(sample):
        return _order_bytes(sample, "utf-16")
    try:
        # The last character of the sample may be incomplete.
        codecs.getincrementaldecoder(UTF8)().decode(sample)
    except UnicodeDecodeError:
        return WINDOWS if _is_windows_text(sample) else UTF8
    return UTF8


def _has_wide_ascii(sample: bytes) -> bool:
    """Returns True if every second byte of ASCII text in UTF-16 is null."""
    least = 0.8 * (len(sample) // 2)
    low, high = sample[::2].count(0), sample[1::2].count(0)
    return len(sample) >= 4 and min(low, high) == 0 and max(low, high) >= least


def _order_bytes(sample: bytes, encoding: str) -> str:
    """Returns the encoding with its byte order, so that a copy can be written in the same order."""
    if encoding == "utf-32":
        return UTF32_BIG if sample.startswith(codecs.BOM_UTF32_BE) else UTF32_LITTLE
    if encoding != "utf-16":
        return encoding
    if sample.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return UTF16_LITTLE if sample.startswith(codecs.BOM_UTF16_LE) else UTF16_BIG
    return UTF16_BIG if sample[::2].count(0) > sample[1::2].count(0) else UTF16_LITTLE


def _is_windows_text(sample: bytes) -> bool:
    """Returns True if the bytes that are not ASCII look like letters and signs of Windows-1252.

    Bytes that happen to form a character of UTF-8 are rare in Windows-1252: they would be a letter
    with an accent before a sign.
    """
    characters = len(UTF8_CHARACTER.findall(sample))
    stray = sum(map(len, NON_ASCII.findall(UTF8_CHARACTER.sub(b"", sample))))
    unlikely = sum(map(len, UNLIKELY.findall(sample)))
    return 4 * characters <= stray and 4 * unlikely < stray


def detect_delimiter(text: str, default: str, *, complete: bool = True) -> str:
    r"""Returns the delimiter under which the rows have as many values as the header.

    Examples:
        >>> detect_delimiter("id;text\n1;one, two\n2;three\n", ",")
        ';'
    """
    candidates = [default, *(mark for mark in DELIMITERS if mark != default)]
    best, best_fit = default, (0.0, 0)
    for candidate in candidates:
        fit = _measure_fit(text, candidate, complete=complete)
        if fit[0] > best_fit[0]:
            best, best_fit = candidate, fit
    return best


def _measure_fit(text: str, delimiter: str, *, complete: bool) -> tuple[float, int]:
    """Returns the share of rows with as many values as the header, and their number of values.

    Both are zero if the header has one column.
    """
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter)
    lengths = []
    try:
        for row in reader:
            if row:
                lengths.append(len(row))
            if len(lengths) > SAMPLE_ROWS:
                break
    except csv.Error:
        return 0.0, 0
    if not complete and 1 < len(lengths) <= SAMPLE_ROWS:
        lengths.pop()
    if not lengths or lengths[0] < 2:
        return 0.0, 0
    rows = lengths[1:]
    share = sum(length == lengths[0] for length in rows) / len(rows) if rows else 1.0
    # A header that fits no row is still better than a single column.
    return max(share, 1e-9), lengths[0]
