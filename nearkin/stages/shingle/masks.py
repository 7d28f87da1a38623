"""Masks: values such as dates and paths are replaced by the name of their kind.

Lines of logs, tickets and filled-in forms differ in such values and are otherwise equal. The
patterns are written for RE2, the regular expressions of Arrow: they need linear time on every text.
They know ASCII digits and English names of months only.
"""

from collections.abc import Sequence
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

START = r"(^|[^0-9A-Za-z])"
"""The pattern before a value: nothing, or any character but an ASCII letter or digit."""

MONTH = (
    "(?:Jan(?:uary)?|Feb(?:ruary)?|Mar(?:ch)?|Apr(?:il)?|May|June?|July?|Aug(?:ust)?|"
    "Sep(?:t(?:ember)?)?|Oct(?:ober)?|Nov(?:ember)?|Dec(?:ember)?|"
    "JAN|FEB|MAR|APR|MAY|JUN|JUL|AUG|SEP|OCT|NOV|DEC)"
)
WEEKDAY = "(?:(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun),? )?"
ZONE = "(?: ?(?:Z|UTC|GMT|[-+][0-9]{2}:?[0-9]{2}))?"
FRACTION = "(?:[.,][0-9]+)?"
SECONDS = f"[0-9]{{1,2}}:[0-9]{{2}}:[0-9]{{2}}{FRACTION}{ZONE}"
"""A time of day with seconds, which is also a value without a date."""
MINUTES = f"[0-9]{{1,2}}:[0-9]{{2}}(?::[0-9]{{2}}{FRACTION})?{ZONE}"
"""A time of day after a date."""
DAY = "|".join(
    [
        "[0-9]{4}[-/.][0-9]{1,2}[-/.][0-9]{1,2}",
        "[0-9]{1,2}[-/][0-9]{1,2}[-/](?:[0-9]{4}|[0-9]{2})",
        r"[0-9]{1,2}\.[0-9]{1,2}\.[0-9]{4}",
        f"[0-9]{{1,2}}[-/ ]{MONTH}[-/ ,]{{1,2}}[0-9]{{4}}",
        f"{MONTH} {{1,2}}[0-9]{{1,2}}(?:, [0-9]{{4}})?",
    ]
)
DATE = f"{WEEKDAY}(?:{DAY})(?:[T:, ]{{1,2}}{MINUTES})?(?: [0-9]{{4}})?|{SECONDS}"

IPV4 = r"(?:[0-9]{1,3}\.){3}[0-9]{1,3}(?::[0-9]{1,5})?"
GROUP = "[0-9A-Fa-f]{1,4}"
IPV6 = f"(?:{GROUP}:){{7}}{GROUP}|(?:{GROUP}:){{1,6}}(?::{GROUP}){{1,6}}"
UUID = "[0-9A-Fa-f]{8}(?:-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}"
NAME = "[A-Za-z0-9._~+@%-]"
UNIX_PATH = f"{NAME}*(?:/{NAME}+){{2,}}/?"
WINDOWS_PATH = rf"[A-Za-z]:(?:\\{NAME}+)+\\?"
URL = r"[A-Za-z][A-Za-z0-9+.-]*://[!-;=?-~]+"
"""A scheme and characters of ASCII that are visible, except for `<` and `>`."""
HEXADECIMAL_RUN = "|".join(
    f"[0-9]{{{digits}}}[A-Fa-f][0-9A-Fa-f]{{{7 - digits},}}" for digits in range(7)
)
"""A run of at least 8 hexadecimal digits whose first letter is one of its first 7 characters."""
HEX = f"0[xX][0-9A-Fa-f]+|{HEXADECIMAL_RUN}|[0-9]{{7,}}[A-Fa-f][0-9A-Fa-f]*"
NUMBER = "[-+]?[0-9]+(?:[.,][0-9]+)*(?:[eE][-+]?[0-9]+)?"


class Mask(NamedTuple):
    """A rule that replaces the values of one kind."""

    pattern: str
    """A regular expression of RE2, which matches a value."""
    replacement: str
    """The text that replaces a match. It is never longer than the match."""


MASKS = {
    "email": Mask(r"[A-Za-z0-9._%+-]+@[A-Za-z0-9-]+(?:\.[A-Za-z0-9-]+)+", "email"),
    "uuid": Mask(rf"{START}{UUID}\b", r"\1uuid"),
    "ip": Mask(rf"{START}(?:{IPV4}|{IPV6})\b", r"\1ip"),
    "date": Mask(rf"{START}(?:{DATE})\b", r"\1date"),
    "path": Mask(f"{URL}|{UNIX_PATH}|{WINDOWS_PATH}", "path"),
    "hex": Mask(rf"{START}(?:{HEX})\b", r"\1hex"),
    "number": Mask(f"{START}{NUMBER}", r"\10"),
}
"""The masks by the name of their step, in the order in which they are applied."""


def mask_texts(texts: pa.Array, steps: Sequence[str]) -> pa.Array:
    """Returns texts in which values are replaced by the name of their kind, and numbers by 0.

    Examples:
        >>> texts = pa.array(["2026-01-31 10:00:00 10.0.0.7 read /var/log/a in 35 ms"])
        >>> mask_texts(texts, ("ip", "date", "path", "number"))[0].as_py()
        'date ip read path in 0 ms'
    """
    for step, mask in MASKS.items():
        if step in steps:
            texts = pc.replace_substring_regex(texts, mask.pattern, mask.replacement)
    return texts


MARK_START = "‹"
MARK_END = "›"


def mark_values(text: str) -> str:
    """Returns a text in which each value is the name of its kind between two marks.

    Examples:
        >>> mark_values("2026-01-31 10:00:00 10.0.0.7 read /var/log/a in 35 ms")
        '‹date› ‹ip› read ‹path› in ‹number› ms'
    """
    texts = pa.array([text], pa.large_string())
    for step, mask in MASKS.items():
        before = r"\1" if mask.pattern.startswith(START) else ""
        replacement = f"{before}{MARK_START}{step}{MARK_END}"
        texts = pc.replace_substring_regex(texts, mask.pattern, replacement)
    marked: str = texts[0].as_py()
    return marked
