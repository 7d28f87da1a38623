"""Components of pages. Texts of documents become text nodes, never markup."""

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from dash import dcc, html
from dash.development.base_component import Component

from nearkin.reports.diff import MAX_CHARACTERS, DocumentRole, Piece, SpanKind, diff_sides
from nearkin.runtime.number_format import format_similarity
from nearkin.runtime.visible_text import make_visible
from nearkin.service.server.console.visitor import ScopeMenu, page_url

EXCERPT_LENGTH = 140
"""Maximum number of characters of an excerpt."""
CHANGE_ELEMENTS: Mapping[DocumentRole, Callable[[str], Component]] = {
    DocumentRole.KEPT: html.Ins,
    DocumentRole.REMOVED: html.Del,
    DocumentRole.COMPARED: html.Mark,
}
"""The elements around the words that only one of two documents has, by its role."""
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
    """Returns the heading of a page, and a sentence that says what it shows."""
    if not note:
        return [html.H1(name)]
    return [html.H1(name), html.P(note, className="headline")]


def section(name: str, *content: Component, id: str) -> Component:
    """Returns a section with a heading."""
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
    line = make_visible(" ".join(text[: 4 * EXCERPT_LENGTH].split()))
    if len(line) <= EXCERPT_LENGTH:
        return line
    return line[:EXCERPT_LENGTH] + "…"


def truncate_text(text: str) -> str:
    """Returns the first MAX_CHARACTERS characters of a text, and the number of the others."""
    hidden = len(text) - MAX_CHARACTERS
    if hidden <= 0:
        return make_visible(text)
    return f"{make_visible(text[:MAX_CHARACTERS])}… ({hidden:,} characters more)"


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

    On narrow screens the table scrolls; rows with an excerpt are stacked instead.
    """

    def cell_class(column: int) -> str | None:
        return "n" if column in numbers else None

    head = html.Tr(
        [
            html.Th(name, scope="col", className=cell_class(column))
            for column, name in enumerate(columns)
        ]
    )
    body = []
    for row in rows:
        first, *rest = row
        cells = [
            html.Td(cell, className=cell_class(column), dir="auto")
            for column, cell in enumerate(rest, 1)
        ]
        body.append(html.Tr([html.Th(first, scope="row", dir="auto"), *cells]))
    content = html.Table([html.Caption(caption), html.Thead(head), html.Tbody(body)])
    if EXCERPT_COLUMN in columns:
        style = "wide cards"
    elif len(columns) > 3:
        style = "wide many"
    else:
        style = "wide"
    return html.Div(
        content, className=style, role="region", tabIndex="0", **aria_attributes(label=caption)
    )


class ShownText(NamedTuple):
    """A text that is shown beside another one, with its label and its role."""

    label: str
    text: str
    role: DocumentRole


def side_by_side(left: ShownText, right: ShownText, same: str) -> Component:
    """Returns two texts side by side, with their differences marked."""
    left_pieces, right_pieces = diff_sides(left.text, right.text)
    left_element = CHANGE_ELEMENTS[left.role]
    left_side = _labelled_text(left.label, _mark_changes(left_pieces, left_element))
    if not right_pieces:
        return html.Div([left_side, note(same)])
    right_element = CHANGE_ELEMENTS[right.role]
    right_side = _labelled_text(right.label, _mark_changes(right_pieces, right_element))
    return html.Div([left_side, right_side], className="sides")


def equality_remark(similarity: float) -> str:
    """Returns the remark beside two texts whose excerpts do not differ."""
    if similarity == 1:
        return "Both texts have the same words."
    return "The excerpts do not differ."


def _labelled_text(name: str, content: "list[str | Component]") -> Component:
    return html.Section(
        [html.H4(name), html.Pre(content, tabIndex="0", dir="auto")], **aria_attributes(label=name)
    )


def _mark_changes(
    pieces: Sequence[Piece], changed_element: Callable[[str], Component]
) -> "list[str | Component]":
    """Returns the pieces of a text. Changed ones become elements of the given kind."""
    content: list[str | Component] = []
    for kind, text in pieces:
        if kind is SpanKind.ELIDED:
            content.append(html.Span(f"{len(text):,} characters", className="elided"))
        elif kind is SpanKind.EQUAL:
            content.append(text)
        else:
            content.append(changed_element(text))
    return content


def cluster_link(scope: str, id: str, *more: "str | Component") -> Component:
    """Returns a link to the cluster of a document."""
    return html.A([id_label(id), *more], href=page_url("clusters", scope=scope, id=id))


def page_steps(page: str, start: int, page_size: int, total: int, **query: str) -> Component:
    """Returns links to the previous and the next part of a list, as far as there are such parts."""
    links = [
        html.A(label, href=page_url(page, **query, start=str(position)))
        for label, position in (("Previous", start - page_size), ("Next", start + page_size))
        if 0 <= position < total
    ]
    return html.P(links, className="steps")


def similarity_label(similarity: float) -> Component:
    """Returns a similarity as a label."""
    return html.Span(f"{format_similarity(similarity)} similar", className="similarity")


def format_time(seconds: float) -> str:
    """Returns a time in seconds since 1970 as local time of the server."""
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(seconds))


def time_label(seconds: float) -> Component:
    """Returns a time as a label that is not wrapped."""
    return html.Span(format_time(seconds), className="when")


def scope_field(menu: ScopeMenu) -> Component:
    """Returns a menu in which a scope is chosen, or a text field if there are too many scopes."""
    label = html.Label("Scope", htmlFor="scope")
    if not menu.is_complete:
        names = html.Datalist([html.Option(value=name) for name in menu.scopes], id="scope-known")
        # the name makes a form submit the value
        typed = dcc.Input(
            id="scope",
            name="scope",
            value=menu.selected,
            list="scope-known",
            required=True,
            autoComplete="off",
            spellCheck=False,
        )
        return html.Div([label, typed, names], className="field")
    names_in_order = sorted(
        dict.fromkeys([*menu.scopes, *filter(None, [menu.selected])]),
        key=lambda name: name != menu.selected,
    )
    options = [html.Option(_scope_label(name, menu), value=name) for name in names_in_order]
    choice = html.Select(options, id="scope", name="scope", required=True)
    return html.Div([label, choice], className="field")


def _scope_label(name: str, menu: ScopeMenu) -> str:
    """Returns a scope with its number of documents, if that is known."""
    count = menu.counts.get(name)
    if count is None:
        return make_visible(name)
    return f"{make_visible(name)} ({count:,} {'document' if count == 1 else 'documents'})"


def scope_note(menu: ScopeMenu) -> Component | None:
    """Returns a remark if a page has no scope to show, or an unknown one."""
    if not menu.selected:
        return note(
            "No document is stored yet. This page fills when documents arrive, for example by ",
            html.Code("POST /v1/scopes/news/documents"),
            " or ",
            html.Code("nearkin index add"),
            ".",
        )
    if not menu.is_unknown:
        return None
    return alert(
        f"Unknown scope {make_visible(menu.selected)}",
        "It has no documents. Choose another scope; scopes come into being with their first "
        "document.",
    )


def scope_form(page: str, menu: ScopeMenu) -> Component:
    """Returns a form that chooses the scope of a page."""
    button = html.Button("Show", type="submit")
    return html.Form(
        [scope_field(menu), button], action=page_url(page), method="get", className="bar"
    )
