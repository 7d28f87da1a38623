"""Ids that the inputs do not have, and the ids from which a spreadsheet made them.

A spreadsheet that opens a CSV file changes values that look like numbers or dates: 007 becomes 7,
1E5 becomes 1.00E+05, 12345678901234567890 becomes 1.23457E+19, and 1-2 becomes 01.02.2026.
"""

import re
from collections.abc import Iterable, Mapping
from decimal import Decimal
from itertools import islice, permutations

import pyarrow as pa
import pyarrow.compute as pc

SEARCHED_IDS = 20
"""The number of unknown ids whose originals are searched."""
SHOWN_IDS = 3
LONGEST_ID = 60
"""The number of characters up to which a text can be a number or a date."""
NUMBER = re.compile(r"[+-]?\d+(?:[.,]\d+)?(?:[eE][+-]?0?\d{1,2})?")
MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
DATE_PART = rf"(\d{{1,4}}|{'|'.join(MONTHS)})"
DATE = re.compile(rf"{DATE_PART}[-/. ]+{DATE_PART}(?:[-/. ]+(\d{{2,4}}))?", re.IGNORECASE)
EXACT_DIGITS = 15
"""The number of digits that a spreadsheet keeps of a number."""
SHOWN_DIGITS = 11
"""The number of digits of a whole number that a spreadsheet shows without an exponent."""


def find_original_ids(unknown: Iterable[str], ids: Iterable[pa.Array]) -> dict[str, str]:
    """Returns some unknown ids, each with an id from which a spreadsheet makes it, or with "".

    Those with such an id are first.

    Examples:
        >>> ids = pa.array(["007", "12345678901234567890", "2/1", "MARCH1", "x"])
        >>> find_original_ids(["y", "7", "1.23457E+19", "01.02.2026", "1-Mar"], [ids])
        {'7': '007', '1.23457E+19': '12345678901234567890', '01.02.2026': '2/1'}
    """
    originals = dict.fromkeys(islice(unknown, SEARCHED_IDS), "")
    patterns = {id: _pattern_of_originals(id) for id in originals if len(id) <= LONGEST_ID}
    anything = f"^(?:{'|'.join(patterns.values())})$"
    for portion in ids:
        matches = portion.filter(pc.match_substring_regex(portion, anything)).to_pylist()
        for id, pattern in patterns.items():
            if not originals[id]:
                originals[id] = next(
                    (other for other in matches if re.fullmatch(pattern, other)), ""
                )
    shown = sorted(originals, key=lambda id: not originals[id])[:SHOWN_IDS]
    return {id: originals[id] for id in shown}


def describe_unknown_ids(originals: Mapping[str, str]) -> str:
    """Returns unknown ids for a message, and what to do about a spreadsheet that changed them.

    Examples:
        >>> describe_unknown_ids({"7": "007", "x": ""})[:52]
        "'7' (the inputs have '007'), 'x'; a spreadsheet chan"
    """
    shown = ", ".join(
        f"{id!r} (the inputs have {original!r})" if original else repr(id)
        for id, original in originals.items()
    )
    if not any(originals.values()):
        return shown
    return (
        f"{shown}; a spreadsheet changes such ids in a CSV file: use .xlsx, or format the columns "
        "of ids as text"
    )


def _pattern_of_originals(id: str) -> str:
    """Returns a pattern of the ids that a spreadsheet shows as an id, in the language of RE2."""
    text = id.strip()
    choices = [rf"\s*(?i:{re.escape(text)})\s*"]
    if NUMBER.fullmatch(text):
        choices += _list_numbers(Decimal(text.replace(",", ".")))
    if date := DATE.fullmatch(text):
        choices += _list_dates([part.lower() for part in date.groups() if part])
    return "|".join(choices)


def _list_numbers(number: Decimal) -> list[str]:
    """Returns patterns of a number, and of whole numbers whose last digits a spreadsheet drops."""
    sign = "-" if number < 0 else ""
    normal = abs(number).normalize()
    digits = "".join(map(str, normal.as_tuple().digits))
    length = normal.adjusted() + 1
    plain = f"{normal:f}"
    zeros = "0*" if "." in plain else r"(?:[.,]0*)?"
    choices = [f"0*{plain.replace('.', '[.,]')}{zeros}"]
    dropped = length - len(digits)
    if dropped >= 0:
        fraction = f"[.,]{digits[1:]}0*" if digits[1:] else r"(?:[.,]0*)?"
        choices.append(rf"0*{digits[0]}{fraction}[eE]\+?0*{length - 1}")
        choices.append(rf"0*{digits}[eE]\+?0*{dropped}")
    if dropped > 0 and length > (SHOWN_DIGITS if len(digits) < EXACT_DIGITS else EXACT_DIGITS):
        rounded = int(digits) - 1
        choices.append(rf"0*(?:{digits}\d|{rounded}[5-9])\d{{{dropped - 1}}}")
    return [f"[+]?{sign}{choice}" for choice in choices]


def _list_dates(parts: list[str]) -> list[str]:
    """Returns patterns of the texts that a spreadsheet takes for a date. It may add the year."""
    tokens = []
    for part in parts:
        number = MONTHS.index(part) + 1 if part in MONTHS else int(part) % 100
        name = MONTHS[number - 1] if 0 < number <= len(MONTHS) else "-"
        digits = f"(?:0?{number}|(?:19|20){number:02})"
        tokens.append(rf"(?:{digits}(?:[-/. ]+|$)|(?i:{name}[a-z]*)[-/. ]*)")
    orders = [*permutations(tokens, 2), *permutations(tokens, 3)]
    return ["".join(order) for order in orders]
