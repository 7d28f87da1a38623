"""Tables of text on a terminal."""

import math
from collections.abc import Iterable, Sequence

from rich.table import Table
from rich.text import Text

from nearkin.quality.evaluate.intervals import Proportion
from nearkin.runtime.number_format import format_fraction


def text_table(title: str | None, names: Sequence[str], rows: Iterable[Sequence[str]]) -> Table:
    """Returns a table of text. All columns but the first are aligned to the right."""
    table = Table(title=title, title_justify="left", box=None)
    for i, name in enumerate(names):
        table.add_column(name, justify="right" if i else "left")
    for row in rows:
        table.add_row(*map(Text, row))
    return table


def format_number(value: float) -> str:
    """Formats a number with three decimals, or as an empty text if it is not a number."""
    return "" if math.isnan(value) else format_fraction(value)


def format_proportion(proportion: Proportion) -> str:
    """Formats a proportion with its interval, for example `0.953 (0.941 to 0.963 of 1,204)`."""
    if not proportion.total:
        return "none"
    return (
        f"{format_fraction(proportion.value)} ({format_fraction(proportion.low)} to "
        f"{format_fraction(proportion.high)} of "
        f"{proportion.total:,})"
    )
