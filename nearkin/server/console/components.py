"""Components of pages. Texts of documents become text nodes, never markup."""

import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from dash import dcc, html
from dash.development.base_component import Component

from nearkin.report.diff import MAX_CHARACTERS, Piece, SpanKind, diff_sides
from nearkin.report.escaping import make_visible
from nearkin.report.formatting import format_similarity
from nearkin.server.console.visitor import page_url

EXCERPT_LENGTH = 140
"""Maximum number of characters of an excerpt."""
EXCERPT_COLUMN = "Text"
"""Name of a column of excerpts. Its rows are stacked on narrow screens."""


def aria_attributes(**values: str) -> dict[str, Any]:
    """Returns ARIA attributes for assistive technology.

    Examples:
        >>> aria_attributes(label="Pages")
        {'aria-label': 'Pages'}
    """
    return {f"aria-{name}": value for name, value in values.items()}


def page_heading(name: str, note: str = "") -> list[Component]:
    """Returns the heading of a page, and a sentence that says what it shows.

    Args:
        name: Name of the page.
        note: Sentence below the heading.
    """
    return [html.H1(name), *([html.P(note, className="headline")] if note else [])]


def section(name: str, *content: Component, id: str) -> Component:
    """Returns a section with a heading.

    Args:
        name: Heading.
        *content: Content of the section.
        id: Id of the element.
    """
    return html.Section(
        [html.H2(name, id=f"{id}-heading"), *content],
        id=id,
        **aria_attributes(labelledby=f"{id}-heading"),
    )


def note(*content: "str | Component") -> Component:
    """Returns a paragraph with a remark."""
    return html.P(list(content), className="note")


def alert(title: str, detail: str) -> Component:
    """Returns a message about an error."""
    return html.Div(
        [html.H2(title), html.P(make_visible(detail))], className="warnings", role="alert"
    )


def id_label(id: str) -> Component:
    """Returns an id as an element that isolates its writing direction."""
    return html.Bdi(make_visible(id), className="id")


def excerpt(text: str | None) -> str:
    """Returns the beginning of a text on one line."""
    if text is None:
        return "(text not stored)"
    shown = make_visible(" ".join(text[: 4 * EXCERPT_LENGTH].split()))
    return shown if len(shown) <= EXCERPT_LENGTH else shown[:EXCERPT_LENGTH] + "…"


def truncate_text(text: str) -> str:
    """Returns the first MAX_CHARACTERS characters of a text, and the number of the others."""
    more = len(text) - MAX_CHARACTERS
    return (
        make_visible(text)
        if more <= 0
        else f"{make_visible(text[:MAX_CHARACTERS])}… ({more:,} characters more)"
    )


def fact_tiles(*facts: tuple[str, str]) -> Component:
    """Returns tiles with names and values."""
    return html.Dl(
        [html.Div([html.Dt(name), html.Dd(value)]) for name, value in facts], className="tiles"
    )


def table(
    caption: str,
    columns: Sequence[str],
    rows: "Iterable[Sequence[str | Component]]",
    numbers: Sequence[int] = (),
) -> Component:
    """Returns a table. The first cell of each row is its heading.

    Args:
        caption: Description of the rows.
        columns: Names of the columns.
        rows: Cells of each row.
        numbers: Positions of the columns that contain numbers.

    On narrow screens the table scrolls; rows with an excerpt are stacked instead.
    """

    def cell_class(column: int) -> str | None:
        return "n" if column in numbers else None

    head = html.Tr(
        [html.Th(name, scope="col", className=cell_class(at)) for at, name in enumerate(columns)]
    )
    body = []
    for row in rows:
        first, *rest = row
        cells = [
            html.Td(cell, className=cell_class(at), dir="auto") for at, cell in enumerate(rest, 1)
        ]
        body.append(html.Tr([html.Th(first, scope="row", dir="auto"), *cells]))
    whole = html.Table([html.Caption(caption), html.Thead(head), html.Tbody(body)])
    many = (
        "wide cards" if EXCERPT_COLUMN in columns else "wide many" if len(columns) > 3 else "wide"
    )
    return html.Div(
        whole, className=many, role="region", tabIndex="0", **aria_attributes(label=caption)
    )


def side_by_side(left: tuple[str, str], right: tuple[str, str], same: str) -> Component:
    """Returns two texts side by side, with their differences marked.

    Args:
        left: Label and text on the left.
        right: Label and text on the right.
        same: Remark that is shown if the texts do not differ.
    """
    a, b = diff_sides(left[1], right[1])
    if not b:
        return html.Div([_side(left[0], _marked(a, html.Del)), note(same)])
    both = [_side(left[0], _marked(a, html.Del)), _side(right[0], _marked(b, html.Ins))]
    return html.Div(both, className="sides")


def _side(name: str, content: "list[str | Component]") -> Component:
    return html.Section(
        [html.H4(name), html.Pre(content, tabIndex="0", dir="auto")], **aria_attributes(label=name)
    )


def _marked(side: Sequence[Piece], changed: Callable[[str], Component]) -> "list[str | Component]":
    out: list[str | Component] = []
    for kind, text in side:
        if kind is SpanKind.ELIDED:
            out.append(html.Span(f"{len(text):,} characters", className="elided"))
        else:
            out.append(text if kind is SpanKind.EQUAL else changed(text))
    return out


def cluster_link(scope: str, id: str, *more: "str | Component") -> Component:
    """Returns a link to the cluster of a document.

    Args:
        scope: Scope of the document.
        id: Id of the document.
        *more: Further content of the link.
    """
    return html.A([id_label(id), *more], href=page_url("clusters", scope=scope, id=id))


def similarity_label(similarity: float) -> Component:
    """Returns a similarity as a label."""
    return html.Span(f"{format_similarity(similarity)} similar", className="similarity")


def format_time(seconds: float) -> str:
    """Returns a time in seconds since 1970 as local time of the server."""
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(seconds))


def time_label(seconds: float) -> Component:
    """Returns a time as a label that is not wrapped."""
    return html.Span(format_time(seconds), className="when")


def scope_field(scopes: Sequence[str], scope: str, id: str = "scope") -> Component:
    """Returns a field in which a scope is chosen or typed.

    Args:
        scopes: Scopes to choose from.
        scope: Initial value.
        id: Id of the element.
    """
    known = html.Datalist([html.Option(value=name) for name in scopes], id=f"{id}-known")
    # the name makes a form submit the value
    field = dcc.Input(
        id=id,
        name="scope",
        value=scope,
        list=f"{id}-known",
        required=True,
        autoComplete="off",
        spellCheck=False,
    )
    return html.Div([html.Label("Scope", htmlFor=id), field, known], className="field")


def scope_form(page: str, scopes: Sequence[str], scope: str) -> Component:
    """Returns a form that chooses the scope of a page.

    Args:
        page: Path of the page.
        scopes: Scopes to choose from.
        scope: Initial value.
    """
    button = html.Button("Show", type="submit")
    return html.Form(
        [scope_field(scopes, scope), button], action=page_url(page), method="get", className="bar"
    )
