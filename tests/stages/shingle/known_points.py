"""The code points by which Python can serve as an oracle: those that it and the contract know."""

import json
import unicodedata
from pathlib import Path

TABLE = Path(__file__).parents[3] / "conformance" / "unicode-15.1.0.json"
"""The ranges `frozen` of this table are unassigned, private, surrogates or controls."""


def list_known_points() -> list[str]:
    """Returns the code points that are assigned in the contract's Unicode and in that of Python."""
    frozen = bytearray(0x110000)
    for first, last in json.loads(TABLE.read_text("utf-8"))["frozen"]:
        frozen[first : last + 1] = b"\1" * (last + 1 - first)
    return [
        char
        for char in map(chr, range(0x110000))
        if unicodedata.category(char) not in ("Cn", "Cs", "Co")
        and (not frozen[ord(char)] or unicodedata.category(char) == "Cc")
    ]


KNOWN_POINTS = list_known_points()
