"""The form in which notebooks show results: a title, numbers, tables and bars, as HTML.

The texts may come from strangers: markup in them is escaped, and invisible characters are shown.
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from nearkin.runtime.visible_text import make_visible

if TYPE_CHECKING:
    from xml.etree.ElementTree import Element

SHOWN_ROWS = 20
"""The largest number of rows that are shown of a table."""
SHOWN_CHARACTERS = 60
"""The number of characters of a value in a table."""


LEFT = "text-align: left"
BAR_STYLE = "background: currentColor; height: 0.8em; opacity: 0.5"


class TableView(NamedTuple):
    """The first rows of a table."""

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[object]]
    total: int | None = None
    """The number of rows of the table, or None if these are all."""


class BarView(NamedTuple):
    """A chart of horizontal bars, such as a histogram."""

    title: str
    labels: Sequence[str]
    values: Sequence[int]


def render_view(
    title: str,
    numbers: Mapping[str, object],
    bars: Sequence[BarView] = (),
    tables: Sequence[TableView] = (),
) -> str:
    """Returns the HTML of a result.

    Examples:
        >>> render_view("Pairs <1>", {"pairs": 2})
        '<div><strong>Pairs &lt;1&gt;</strong><div>pairs: 2</div></div>'
    """
    # Loaded by notebooks alone, because every command imports this module.
    from xml.etree import ElementTree

    root = ElementTree.Element("div")
    _add(root, "strong", make_visible(title))
    _add(root, "div", " · ".join(f"{name}: {_shorten(value)}" for name, value in numbers.items()))
    for chart in bars:
        _add_bars(root, chart)
    for table in tables:
        _add_table(root, table)
    return ElementTree.tostring(root, encoding="unicode", method="html")


def render_progress(stage: str, done: int, total: int | None) -> str:
    """Returns the HTML of the progress of a stage.

    Examples:
        >>> render_progress("sketch", 1000, 4000)
        '<div>sketch <progress value="1000" max="4000"></progress> 1,000 of 4,000</div>'
        >>> render_progress("verify", 0, None)
        '<div>verify <progress></progress></div>'
    """
    if not total:
        return f"<div>{stage} <progress></progress></div>"
    bar = f'<progress value="{done}" max="{total}"></progress>'
    return f"<div>{stage} {bar} {done:,} of {total:,}</div>"


def _add_bars(root: "Element", chart: BarView) -> None:
    largest = max(chart.values, default=0)
    table = _add_titled_table(root, chart.title)
    for label, value in zip(chart.labels, chart.values, strict=True):
        row = _add(table, "tr")
        _add(row, "td", label)
        width = 100 * value / largest if largest else 0
        cell = _add(row, "td", style="width: 20em")
        _add(cell, "div", style=f"{BAR_STYLE}; width: {width:.1f}%")
        _add(row, "td", f"{value:,}")


def _add_table(root: "Element", view: TableView) -> None:
    rows = view.rows[:SHOWN_ROWS]
    total = len(view.rows) if view.total is None else view.total
    title = view.title if len(rows) == total else f"{view.title} ({len(rows)} of {total:,})"
    table = _add_titled_table(root, title)
    header = _add(table, "tr")
    for name in view.columns:
        _add(header, "th", make_visible(name), LEFT)
    for values in rows:
        row = _add(table, "tr")
        for value in values:
            _add(row, "td", _shorten(value), LEFT)


def _add_titled_table(root: "Element", title: str) -> "Element":
    table = _add(root, "table")
    _add(table, "caption", make_visible(title), LEFT)
    return table


def _add(parent: "Element", tag: str, text: str = "", style: str | None = None) -> "Element":
    """Adds an element at the end of another one, and returns it."""
    child = parent.makeelement(tag, {} if style is None else {"style": style})
    child.text = text
    parent.append(child)
    return child


def _shorten(value: object) -> str:
    """Returns a value on one line, cut to the width of a cell."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, float):
        return f"{value:.4g}"
    text = " ".join(make_visible(str(value)).split())
    return text if len(text) <= SHOWN_CHARACTERS else f"{text[: SHOWN_CHARACTERS - 1]}…"
