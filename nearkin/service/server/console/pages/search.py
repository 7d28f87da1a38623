"""The page that searches for a text, a vector or both, and shows its matches beside it."""

import json
from collections.abc import Mapping, Sequence

from dash import Dash, Input, Output, State, dcc, html
from dash.development.base_component import Component

from nearkin.errors import UsageError
from nearkin.index.documents import Document, TextAndVector
from nearkin.index.entry import Entry, Evidence, Match
from nearkin.index.index import Index
from nearkin.reports.diff import DocumentRole
from nearkin.runtime.number_format import format_similarity
from nearkin.service.server.console import components as ui
from nearkin.service.server.console.visitor import Page, Visit, current_visit
from nearkin.service.server.http.parsing import check_json_shape, parse_json
from nearkin.service.server.routes.models import QueryRequest, TextOrVector

MAX_NEAR_MISSES = 3
"""Maximum number of documents below the threshold that are shown."""
MAX_MATCHES = 10
"""Maximum number of matches that are shown."""


async def build(visit: Visit, query: Mapping[str, str]) -> list[Component]:
    """Builds the page."""
    menu = await visit.scope_menu(query)
    page = [
        *ui.page_heading(
            f"Search for a {_kind_of_documents(visit.service.index)}",
            "Finds stored near-duplicates. Nothing is stored.",
        ),
        ui.scope_form("try", menu),
    ]
    remark = ui.scope_note(menu)
    if remark is not None:
        return [*page, remark]
    name = "Text"
    if visit.service.index.holds_vectors:
        name = "A vector, as JSON"
    elif visit.service.index.holds_both:
        name = 'Text, or JSON such as {"text": "…", "vector": [0.5, 1, -2.25]}'
    text = dcc.Textarea(id="try-text", rows=9, spellCheck=False, required=True)
    button = html.Button("Search", id="try-button", type="button")
    return [
        *page,
        dcc.Store(id="try-scope", data=menu.selected),
        html.Div(
            [
                html.Div([html.Label(name, htmlFor="try-text"), text], className="field"),
                html.Div(button),
            ],
            className="form",
        ),
        # the live region announces the matches, so that no spinner is needed
        html.Div(
            id="try-found", role="region", **ui.aria_attributes(live="polite", label="Matches")
        ),
    ]


async def _show_matches(_: int | None, text: str | None, scope: str | None) -> list[Component]:
    """Returns the matches of the input. Dash passes None for an empty field."""
    visit = current_visit()
    text = text or ""
    scope = scope or ""
    visit.require_scope(scope)
    if not text.strip():
        return [ui.note("Enter a text to search for.")]
    await visit.admit()
    service = visit.service
    document = parse_document(text, visit)
    matches = await service.query(scope, document, min(MAX_MATCHES, service.settings.max_top))
    entries = await service.run_in_thread(
        service.index.get_many, scope, [match.id for match in matches]
    )
    threshold = _describe_thresholds(service.index)
    if not matches:
        note = (
            f"No document of this scope has a similarity of {threshold} or more. The document "
            "would be new."
        )
        misses = await _near_miss_articles(visit, scope, document)
        return [html.H2("No match"), ui.note(note), *misses]
    kind = "document" if service.index.settings.postings == "all" else "representative"
    subject = f"{len(matches)} {kind}s are" if len(matches) > 1 else f"1 {kind} is"
    remark = " (more are not shown)" if len(matches) == MAX_MATCHES else ""
    articles = await service.run_overview(
        _match_articles, scope, matches, entries, document, _shown_band_count(visit)
    )
    misses = await _near_miss_articles(visit, scope, document)
    return [html.H2(f"{subject} {threshold} similar or more{remark}"), *articles, *misses]


async def _near_miss_articles(visit: Visit, scope: str, document: Document) -> list[Component]:
    """Returns documents below the threshold beside the input, or nothing if there are none."""
    service = visit.service
    index = service.index
    misses = await service.run_overview(index.near_misses, scope, document, MAX_NEAR_MISSES)
    if not misses:
        return []
    entries = await service.run_in_thread(index.get_many, scope, [miss.id for miss in misses])
    articles = await service.run_overview(
        _match_articles, scope, misses, entries, document, _shown_band_count(visit), is_match=False
    )
    note = (
        "They share a bucket with the input, but are less similar than the threshold "
        f"{_describe_thresholds(index)}."
    )
    return [html.H2("Near misses"), ui.note(note), *articles]


def _kind_of_documents(index: Index) -> str:
    """Returns what the documents of an index are, for headings."""
    if index.holds_both:
        return "text and vector"
    return "vector" if index.holds_vectors else "text"


def _describe_thresholds(index: Index) -> str:
    """Returns the threshold of an index, or those of both kinds of evidence."""
    threshold = format_similarity(index.threshold)
    vector = index.settings.vector
    if vector is None:
        return threshold
    assert vector.threshold is not None
    combination = "and" if index.settings.combine == "both" else "or"
    return f"{threshold} (texts) {combination} {format_similarity(vector.threshold)} (vectors)"


def _shown_band_count(visit: Visit) -> int | None:
    """Returns the number of bands of all kinds of evidence; None without the right admin.

    The number of shared bands tells how to change a text so that it is not found.
    """
    if not visit.who.has_right("admin"):
        return None
    index = visit.service.index
    vectors = index.vector_banding
    return index.banding.bands + (0 if vectors is None else vectors.bands)


def parse_document(text: str, visit: Visit) -> Document:
    """Returns the input as a document of the index."""
    if visit.service.index.holds_both and text.lstrip().startswith("{"):
        return parse_json(text.encode("utf-8", "replace"), TextOrVector).document
    if not visit.service.index.holds_vectors:
        return text
    check_json_shape(text.encode("utf-8", "replace"), QueryRequest.max_json_values)
    try:
        numbers = json.loads(text)
        return [float(number) for number in numbers]
    except (ValueError, TypeError, OverflowError) as error:
        raise UsageError(
            "the input is not a list of numbers; enter a vector such as [0.5, 1, -2.25]"
        ) from error


def _match_articles(
    scope: str,
    matches: Sequence[Match],
    entries: Sequence[Entry | None],
    document: Document,
    bands: int | None,
    *,
    is_match: bool = True,
) -> list[Component]:
    """Returns each match, or near miss, beside the input."""
    return [
        _match_article(scope, match, entry, document, bands, is_match=is_match)
        for match, entry in zip(matches, entries, strict=True)
    ]


def _shared_bands_label(match: Match, bands: int | None) -> list[Component]:
    """Returns how many of the bands a match shares with the input, or nothing if it is hidden."""
    if bands is None:
        return []
    return [html.Span(f"{match.shared} of {bands} bands shared", className="size")]


def _match_article(
    scope: str,
    match: Match,
    entry: Entry | None,
    document: Document,
    bands: int | None,
    *,
    is_match: bool,
) -> Component:
    """Returns a match beside the input. `bands` is None if the number of shared ones is hidden."""
    title = html.H3(
        [
            ui.cluster_link(scope, match.id),
            ui.similarity_label(match.similarity),
            *_shared_bands_label(match, bands),
            *_evidence_labels(match.evidence),
        ]
    )
    text = document.text if isinstance(document, TextAndVector) else document
    if entry is None or entry.text is None or not isinstance(text, str):
        return html.Article([title])
    similarity = match.similarity if match.evidence is None else match.evidence.text or 0.0
    # the words of an input without a match are not lost
    texts = ui.side_by_side(
        ui.ShownText(
            "Stored", entry.text, DocumentRole.KEPT if is_match else DocumentRole.COMPARED
        ),
        ui.ShownText("Input", text, DocumentRole.REMOVED if is_match else DocumentRole.COMPARED),
        ui.equality_remark(similarity),
    )
    return html.Article([title, texts])


def _evidence_labels(evidence: Evidence | None) -> list[Component]:
    """Returns both similarities of a match of an index of texts and vectors."""
    if evidence is None:
        return []
    labels: list[Component] = []
    kinds = (
        ("text", evidence.text, evidence.text_reached),
        ("vector", evidence.vector, evidence.vector_reached),
    )
    for name, similarity, is_reached in kinds:
        value = "none" if similarity is None else format_similarity(similarity)
        remark = "" if is_reached or similarity is None else ", below its threshold"
        labels.append(html.Span(f"{name} {value}{remark}", className="size"))
    return labels


def connect(app: Dash) -> None:
    """Registers the callback of the button."""
    inputs = (
        Input("try-button", "n_clicks"),
        State("try-text", "value"),
        State("try-scope", "data"),
    )
    app.callback(Output("try-found", "children"), *inputs, prevent_initial_call=True)(_show_matches)


PAGE = Page("try", "Search", "read", build, connect)
