"""Rows with planted copies: originals of a population, and changed copies of some of them."""

import random
from collections.abc import Callable, Iterator, Mapping
from typing import TypeVar

from benchmarks.quality.corruption import add_character_error
from benchmarks.quality.labelled_set import LabelledRow

Original = TypeVar("Original")
Fields = Mapping[str, str | None]
Change = Callable[[random.Random, dict[str, str | None]], None]
"""Changes the fields of a copy."""

COPIED_SHARE = 0.0926
"""The share of the originals that have copies, so that a tenth of the rows are copies. Lists of
customers have 1 to 10 % of them, and a smaller share would leave more of the removals wrong."""
SECOND_COPY_SHARE = 0.2
"""The share of the copied originals that have two copies. The others have one."""
CHANGES = ((1, 0.6), (2, 0.3), (3, 0.1))
"""The number of changes of a copy, with their shares."""


def plant_copies(
    rng: random.Random,
    originals: Iterator[Original],
    rows: int,
    write: Callable[[random.Random, Original], Fields],
    copy: Callable[[random.Random, Original], Fields],
    copied_share: float = COPIED_SHARE,
) -> Iterator[LabelledRow]:
    """Yields originals and their copies.

    Args:
        rng: Source of random numbers.
        originals: Endless originals, no two of which are duplicates.
        rows: Number of rows.
        write: Returns the row of an original.
        copy: Returns the row of a changed copy of an original.
        copied_share: Share of the originals that have copies.
    """
    left = rows
    for number, original in enumerate(originals):
        copies = 0
        if rng.random() < copied_share:
            copies = 2 if rng.random() < SECOND_COPY_SHARE else 1
        records = [write(rng, original), *(copy(rng, original) for _ in range(copies))]
        for record in records[:left]:
            yield LabelledRow(str(number), record)
        left -= len(records)
        if left <= 0:
            return


def copy_fields(rng: random.Random, fields: Fields) -> Fields:
    """Returns the fields of an original, which is written as it is."""
    return fields


def apply_changes(
    rng: random.Random, fields: Fields, changes: Mapping[Change, float]
) -> dict[str, str | None]:
    """Returns fields after one to three changes, with the shares of `CHANGES`.

    Args:
        rng: Source of random numbers.
        fields: The fields of the original.
        changes: The changes, with their relative frequencies.
    """
    copied = dict(fields)
    counts, shares = zip(*CHANGES, strict=True)
    for _ in range(rng.choices(counts, shares)[0]):
        change = rng.choices(list(changes), list(changes.values()))[0]
        change(rng, copied)
    return copied


def add_typo(rng: random.Random, fields: dict[str, str | None]) -> None:
    """Adds an error of a character to one field."""
    name = rng.choice([name for name, value in fields.items() if value])
    fields[name] = add_character_error(rng, str(fields[name]))


def change_case(rng: random.Random, fields: dict[str, str | None]) -> None:
    """Writes all fields in capital or in small letters."""
    write = rng.choice((str.upper, str.lower))
    for name, value in fields.items():
        if value is not None:
            fields[name] = write(value)
