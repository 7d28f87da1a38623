"""Pieces of pages. Texts of documents become text nodes here, and nothing else."""

import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from dash import dcc, html
from dash.development.base_component import Component

from nearkin.report.diff import MAX_CHARACTERS, Piece, SpanKind, diff_sides
from nearkin.report.escaping import make_visible
from nearkin.report.formatting import format_similarity
from nearkin.server.console.visitor import address

EXCERPT = 140
EXCERPTS = "It begins"
"""Name of a column of excerpts."""


def aria(**named: str) -> dict[str, Any]:
    """Attributes for those who do not see the page.

    Examples:
        >>> aria(label="Pages")
        {'aria-label': 'Pages'}
    """
    return {f"aria-{name}": value for name, value in named.items()}


def heading(name: str, note: str = "") -> list[Component]:
    """Of a page, and a sentence on what it shows."""
    return [html.H1(name), *([html.P(note, className="headline")] if note else [])]


def section(name: str, *content: Component, id: str) -> Component:
    """With a heading of its own."""
    return html.Section(
        [html.H2(name, id=f"{id}-heading"), *content], id=id, **aria(labelledby=f"{id}-heading")
    )


def note(*content: "str | Component") -> Component:
    """A remark."""
    return html.P(list(content), className="note")


def alert(title: str, detail: str) -> Component:
    """Something that went wrong."""
    return html.Div(
        [html.H2(title), html.P(make_visible(detail))], className="warnings", role="alert"
    )


def name_of(id: str) -> Component:
    """An id, which may be written in any direction."""
    return html.Bdi(make_visible(id), className="id")


def excerpt(text: str | None) -> str:
    """The beginning of a text, on one line."""
    if text is None:
        return "(its text is not kept)"
    shown = make_visible(" ".join(text[: 4 * EXCERPT].split()))
    return shown if len(shown) <= EXCERPT else shown[:EXCERPT] + "…"


def beginning(text: str) -> str:
    """Returns the first `MAX_CHARACTERS` of a text, and how many more there are."""
    more = len(text) - MAX_CHARACTERS
    return (
        make_visible(text)
        if more <= 0
        else f"{make_visible(text[:MAX_CHARACTERS])}… ({more:,} characters more)"
    )


def tiles(*facts: tuple[str, str]) -> Component:
    """Names and values."""
    return html.Dl(
        [html.Div([html.Dt(name), html.Dd(value)]) for name, value in facts], className="tiles"
    )


def table(
    caption: str,
    columns: Sequence[str],
    rows: "Iterable[Sequence[str | Component]]",
    numbers: Sequence[int] = (),
) -> Component:
    """The first cell of a row is its heading.

    Args:
        caption: What it holds.
        columns: Their names.
        rows: Cells.
        numbers: Columns of numbers.

    Where there is little room it scrolls by itself; rows with an excerpt are stacked instead.
    """

    def kind(at: int) -> str | None:
        return "n" if at in numbers else None

    head = html.Tr(
        [html.Th(name, scope="col", className=kind(at)) for at, name in enumerate(columns)]
    )
    body = []
    for row in rows:
        first, *rest = row
        cells = [html.Td(cell, className=kind(at), dir="auto") for at, cell in enumerate(rest, 1)]
        body.append(html.Tr([html.Th(first, scope="row", dir="auto"), *cells]))
    whole = html.Table([html.Caption(caption), html.Thead(head), html.Tbody(body)])
    many = "wide cards" if EXCERPTS in columns else "wide many" if len(columns) > 3 else "wide"
    return html.Div(whole, className=many, role="region", tabIndex="0", **aria(label=caption))


def sides(left: tuple[str, str], right: tuple[str, str], same: str) -> Component:
    """Two texts side by side, their differences marked.

    Args:
        left: What it is, and the text.
        right: What it is, and the text.
        same: What is said where they read the same.
    """
    a, b = diff_sides(left[1], right[1])
    if not b:
        return html.Div([_side(left[0], _marked(a, html.Del)), note(same)])
    both = [_side(left[0], _marked(a, html.Del)), _side(right[0], _marked(b, html.Ins))]
    return html.Div(both, className="sides")


def _side(name: str, content: "list[str | Component]") -> Component:
    return html.Section(
        [html.H4(name), html.Pre(content, tabIndex="0", dir="auto")], **aria(label=name)
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
    """To the cluster of a document."""
    return html.A([name_of(id), *more], href=address("clusters", scope=scope, id=id))


def similar(similarity: float) -> Component:
    """How similar something is."""
    return html.Span(f"{format_similarity(similarity)} similar", className="similarity")


def at(seconds: float) -> str:
    """A time, as the server's clock has it."""
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(seconds))


def moment(seconds: float) -> Component:
    """A time, on one line."""
    return html.Span(at(seconds), className="when")


def scope_field(scopes: Sequence[str], scope: str, id: str = "scope") -> Component:
    """Where a scope is chosen, or typed."""
    known = html.Datalist([html.Option(value=name) for name in scopes], id=f"{id}-known")
    # a name: as part of a form it is sent with it
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
    """Chooses the scope that a page is about."""
    button = html.Button("Show", type="submit")
    return html.Form(
        [scope_field(scopes, scope), button], action=address(page), method="get", className="bar"
    )
