"""The page that searches for a text, a vector or both, and shows its matches beside it."""

import json
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from markupsafe import Markup

from nearkin.errors import UsageError
from nearkin.index.documents import Document, TextAndVector
from nearkin.index.entry import Entry, Evidence, Match
from nearkin.index.index import Index
from nearkin.reports.diff import DocumentRole
from nearkin.runtime.number_format import format_similarity
from nearkin.service.server.console.markup import (
    ShownText,
    cluster_link,
    equality_remark,
    render,
    side_by_side,
    similarity_label,
)
from nearkin.service.server.console.visitor import Page, Visit
from nearkin.service.server.http.parsing import check_json_shape, parse_json
from nearkin.service.server.routes.models import QueryRequest, TextOrVector

MAX_NEAR_MISSES = 3
"""Maximum number of documents below the threshold that are shown."""
MAX_MATCHES = 10
"""Maximum number of matches that are shown."""


async def build(visit: Visit, query: Mapping[str, str]) -> Markup:
    """Builds the page."""
    menu = await visit.scope_menu(query)
    index = visit.service.index
    name = "Text"
    if index.holds_vectors:
        name = "A vector, as JSON"
    elif index.holds_both:
        name = 'Text, or JSON such as {"text": "…", "vector": [0.5, 1, -2.25]}'
    return render("search.html", menu=menu, kind=_kind_of_documents(index), name=name)


async def find_matches(visit: Visit, values: Mapping[str, str]) -> Markup:
    """Returns the matches of what was entered."""
    text = values.get("text", "")
    scope = values.get("scope", "")
    visit.require_scope(scope)
    if not text.strip():
        return render("matches.html", note="Enter a text to search for.")
    await visit.admit()
    service = visit.service
    document = parse_document(text, visit)
    matches = await service.query(scope, document, min(MAX_MATCHES, service.settings.max_top))
    misses = await service.run_overview(service.index.near_misses, scope, document, MAX_NEAR_MISSES)
    threshold = _describe_thresholds(service.index)
    kind = "document" if service.index.settings.postings == "all" else "representative"
    subject = f"{len(matches)} {kind}s are" if len(matches) > 1 else f"1 {kind} is"
    remark = " (more are not shown)" if len(matches) == MAX_MATCHES else ""
    return await service.run_overview(
        render,
        "matches.html",
        heading=f"{subject} {threshold} similar or more{remark}" if matches else "No match",
        threshold=threshold,
        matches=await _describe_matches(visit, scope, matches, document),
        misses=await _describe_matches(visit, scope, misses, document, is_match=False),
    )


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


class ShownMatch(NamedTuple):
    """A match, or a near miss, as it is shown."""

    title: list[Markup]
    texts: Markup


async def _describe_matches(
    visit: Visit,
    scope: str,
    matches: Sequence[Match],
    document: Document,
    *,
    is_match: bool = True,
) -> list[ShownMatch]:
    """Returns each match, or near miss, beside the input."""
    service = visit.service
    entries = await service.run_in_thread(
        service.index.get_many, scope, [match.id for match in matches]
    )
    bands = _shown_band_count(visit)
    shown: list[ShownMatch] = []
    for match, entry in zip(matches, entries, strict=True):
        title = [cluster_link(scope, match.id), similarity_label(match.similarity)]
        if bands is not None:
            title.append(_label(f"{match.shared} of {bands} bands shared"))
        title += _evidence_labels(match.evidence)
        texts = await service.run_overview(_beside_input, match, entry, document, is_match=is_match)
        shown.append(ShownMatch(title, texts))
    return shown


def _beside_input(
    match: Match, entry: Entry | None, document: Document, *, is_match: bool
) -> Markup:
    """Returns the text of a match beside that of the input, or nothing if one has no text."""
    text = document.text if isinstance(document, TextAndVector) else document
    if entry is None or entry.text is None or not isinstance(text, str):
        return Markup("")
    similarity = match.similarity if match.evidence is None else match.evidence.text or 0.0
    # the words of an input without a match are not lost
    return side_by_side(
        ShownText("Stored", entry.text, DocumentRole.KEPT if is_match else DocumentRole.COMPARED),
        ShownText("Input", text, DocumentRole.REMOVED if is_match else DocumentRole.COMPARED),
        equality_remark(similarity),
    )


def _label(text: str) -> Markup:
    return Markup('<span class="size">{}</span>').format(text)


def _evidence_labels(evidence: Evidence | None) -> list[Markup]:
    """Returns both similarities of a match of an index of texts and vectors."""
    if evidence is None:
        return []
    labels: list[Markup] = []
    kinds = (
        ("text", evidence.text, evidence.text_reached),
        ("vector", evidence.vector, evidence.vector_reached),
    )
    for name, similarity, is_reached in kinds:
        value = "none" if similarity is None else format_similarity(similarity)
        remark = "" if is_reached or similarity is None else ", below its threshold"
        labels.append(_label(f"{name} {value}{remark}"))
    return labels


PAGE = Page("try", "Search", "read", build, find_matches)
