"""A text is looked for, and what resembles it is shown beside it."""

import json
from collections.abc import Mapping, Sequence

from dash import Dash, Input, Output, State, dcc, html
from dash.development.base_component import Component

from nearkin.errors import UsageError
from nearkin.index.entry import Entry, Match
from nearkin.index.preparation import Document
from nearkin.report.formatting import format_similarity
from nearkin.server.console import components as shown
from nearkin.server.console.visitor import Page, Visit, current
from nearkin.server.http.parsing import check_json_shape
from nearkin.server.routes.models import QueryRequest

TOP = 10


async def build(visit: Visit, query: Mapping[str, str]) -> list[Component]:
    """The page."""
    scopes = await visit.scopes()
    vectors = visit.service.index.holds_vectors
    name = "A vector, as JSON" if vectors else "Text"
    text = dcc.Textarea(id="try-text", rows=9, spellCheck=False, required=True)
    button = html.Button("Look for it", id="try-button", type="button")
    return [
        *shown.heading(
            "Try a document" if vectors else "Try a text",
            "Have we seen this before? Nothing is stored.",
        ),
        html.Div(
            [
                shown.scope_field(
                    scopes, query.get("scope", scopes[0] if scopes else ""), "try-scope"
                ),
                html.Div([html.Label(name, htmlFor="try-text"), text], className="field"),
                html.Div(button),
            ],
            className="form",
        ),
        # a spinner would be the only thing that moves; the region says when there is an answer
        html.Div(id="try-found", role="region", **shown.aria(live="polite", label="Matches")),
    ]


async def _look(_: int | None, text: str | None, scope: str | None) -> list[Component]:
    visit = current()
    visit.require_scope(scope or "")
    if not (text or "").strip():
        return [shown.note("There is nothing to look for: give a text.")]
    await visit.admit()
    service, asked = visit.service, document(text or "", visit)
    matches = await service.query(scope or "", asked, min(TOP, service.settings.max_top))
    entries = await service.run_in_thread(
        service.index.get_many, scope or "", [match.id for match in matches]
    )
    threshold = format_similarity(service.index.threshold)
    if not matches:
        return [
            html.H2("No match"),
            shown.note(
                f"Nothing in this scope is {threshold} similar to it or more: it would be new."
            ),
        ]
    what = "representatives are" if len(matches) > 1 else "representative is"
    if service.index.settings.postings == "all":
        what = "documents are" if len(matches) > 1 else "document is"
    most = " (more are not shown)" if len(matches) == TOP else ""
    articles = await service.run_overview(
        _matches, scope or "", matches, entries, asked, service.index.banding.bands
    )
    return [html.H2(f"{len(matches)} {what} {threshold} similar or more{most}"), *articles]


def document(text: str, visit: Visit) -> Document:
    """What was typed, as the index takes it.

    Raises:
        UsageError: It is to be a vector, and is none.
        ProblemError: If it has more numbers than any vector.
    """
    if not visit.service.index.holds_vectors:
        return text
    check_json_shape(text.encode("utf-8", "replace"), QueryRequest.max_json_values)
    try:
        numbers = json.loads(text)
        return [float(number) for number in numbers]
    except (ValueError, TypeError) as error:
        raise UsageError("a vector is a list of numbers, as [0.5, 1, -2.25]") from error


def _matches(
    scope: str,
    matches: Sequence[Match],
    entries: Sequence[Entry | None],
    asked: Document,
    bands: int,
) -> list[Component]:
    """Every match beside the text that was asked for."""
    return [
        _match(scope, match, entry, asked, bands)
        for match, entry in zip(matches, entries, strict=True)
    ]


def _match(scope: str, match: Match, entry: Entry | None, asked: Document, bands: int) -> Component:
    shared = html.Span(f"{match.shared} of {bands} bands shared", className="size")
    title = html.H3([shown.cluster_link(scope, match.id), shown.similar(match.similarity), shared])
    if entry is None or entry.text is None or not isinstance(asked, str):
        return html.Article([title])
    same = (
        "Yours has the same words."
        if match.similarity == 1
        else "Yours reads the same as far as the excerpt goes."
    )
    return html.Article([title, shown.sides(("Stored", entry.text), ("Yours", asked), same)])


def connect(app: Dash) -> None:
    """The button looks."""
    asked = Input("try-button", "n_clicks"), State("try-text", "value"), State("try-scope", "value")
    app.callback(Output("try-found", "children"), *asked, prevent_initial_call=True)(_look)


PAGE = Page("try", "Try", "read", build, connect)
