"""The page on which people decide if two documents near the threshold are the same."""

from collections.abc import Mapping
from typing import NamedTuple

import orjson
from markupsafe import Markup

from nearkin.errors import UsageError
from nearkin.index.review_queue import IndexReviewQueue, collect_index_review_queue
from nearkin.reports.diff import DocumentRole
from nearkin.runtime.visible_text import make_visible
from nearkin.service.server.console.markup import (
    ShownText,
    render,
    side_by_side,
    similarity_label,
)
from nearkin.service.server.console.visitor import Page, Visit
from nearkin.service.server.http.auth import validate_name
from nearkin.service.server.http.parsing import check_json_shape
from nearkin.service.server.http.problems import ProblemError
from nearkin.settings.decisions import Decision, Verdict

MAX_PAIRS = 50
"""Maximum number of pairs that a page offers at a time."""
MAX_STATE_VALUES = 200
"""Maximum number of values of the state of a page: its pairs, and a few others."""
SEARCH_SECONDS = 2.0
"""Maximum number of seconds for which pairs are searched for."""


class Answer(NamedTuple):
    """An answer to the question if two documents are the same."""

    name: str
    label: str
    key: str
    verdict: Verdict | None
    """The decision, or None if the pair is left as it is."""


ANSWERS = (
    Answer("same", "Same", "s", Verdict.SAME),
    Answer("different", "Different", "d", Verdict.DIFFERENT),
    Answer("unsure", "Unsure", "u", None),
)


class ReviewState(NamedTuple):
    """The pairs of a page, and the one that is shown. Browsers send it back with each answer."""

    scope: str
    pairs: list[tuple[str, str]]
    position: int

    @classmethod
    def parse(cls, text: str) -> "ReviewState":
        """Returns the state that a browser sent."""
        content = text.encode("utf-8", "replace")
        check_json_shape(content, MAX_STATE_VALUES)
        try:
            data = orjson.loads(content)
            pairs = [(validate_name(a, "id"), validate_name(b, "id")) for a, b in data["pairs"]]
            state = cls(validate_name(data["scope"], "scope"), pairs, int(data["position"]))
        except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
            raise ProblemError(
                "invalid-request", "the answer names no pair of this page; load the page again"
            ) from error
        if len(pairs) > MAX_PAIRS or not 0 <= state.position <= len(pairs):
            raise ProblemError(
                "invalid-request", "the answer names no pair of this page; load the page again"
            )
        return state

    def to_json(self) -> str:
        """Returns the state as a part of the page."""
        return orjson.dumps(self._asdict()).decode()


async def build(visit: Visit, query: Mapping[str, str]) -> Markup:
    """Builds the page, with the pair that the query names first."""
    menu = await visit.scope_menu(query)
    if not menu.has_documents:
        return render("review.html", menu=menu)
    await visit.admit()
    index = visit.service.index
    queue = await visit.service.run_overview(
        collect_index_review_queue, index, menu.selected, MAX_PAIRS, SEARCH_SECONDS
    )
    pairs = [(pair.id_a, pair.id_b) for pair in queue.pairs]
    if "a" in query and "b" in query:
        named = (validate_name(query["a"], "id"), validate_name(query["b"], "id"))
        pairs = [named, *(pair for pair in pairs if pair != named)][:MAX_PAIRS]
    return render(
        "review.html",
        menu=menu,
        note=_describe_queue(queue, has_related=index.settings.related is not None),
        answers=ANSWERS,
        panel=await _show_pair(visit, ReviewState(menu.selected, pairs, 0)) if pairs else None,
    )


def _describe_queue(queue: IndexReviewQueue, *, has_related: bool) -> str:
    """Returns a sentence about the pairs of a page."""
    count = len(queue.pairs)
    pairs = "1 pair" if count == 1 else f"{count} pairs"
    documents = f"{queue.documents:,} documents"
    if not queue.is_complete:
        documents = f"the first {documents}, which were read within {SEARCH_SECONDS:g} seconds"
    text = f"{pairs} of {documents}."
    if count == MAX_PAIRS:
        text += " More follow when the page is loaded again."
    if not has_related:
        text += (
            " They are above the threshold: the index was created without the setting related, so "
            "that it does not search below it."
        )
    return text


async def _show_pair(visit: Visit, state: ReviewState, **message: object) -> Markup:
    """Returns the current pair side by side, with a message about the previous answer."""
    if state.position == len(state.pairs):
        return render("review_pair.html", state=state, **message)
    ids = state.pairs[state.position]
    service = visit.service
    entries = await service.run_in_thread(service.index.get_many, state.scope, list(ids))
    shown = [
        ShownText(
            make_visible(id),
            "(text not stored)" if entry is None or entry.text is None else entry.text,
            DocumentRole.COMPARED,
        )
        for id, entry in zip(ids, entries, strict=True)
    ]
    similarity = None
    if None not in entries:
        similarity = await service.run_overview(_similarity, visit, state.scope, ids)
    sides = await service.run_overview(
        side_by_side, shown[0], shown[1], "The excerpts do not differ."
    )
    return render(
        "review_pair.html",
        state=state,
        sides=sides,
        similarity=None if similarity is None else similarity_label(similarity),
        threshold=service.index.threshold,
        **message,
    )


def _similarity(visit: Visit, scope: str, ids: tuple[str, str]) -> float | None:
    """Returns the exact similarity of two stored documents, or None without their texts."""
    try:
        return visit.service.index.explain(scope, *ids).similarity
    except UsageError:
        return None


async def answer(visit: Visit, values: Mapping[str, str]) -> Markup:
    """Stores the answer whose button was pressed, and returns the next pair."""
    state = ReviewState.parse(values.get("state", ""))
    visit.require_scope(state.scope)
    await visit.admit()
    given = next((one for one in ANSWERS if one.name == values.get("answer")), None)
    if given is None:
        raise ProblemError("invalid-request", "unknown answer; load the page again")
    if state.position == len(state.pairs):
        return await _show_pair(visit, state)
    following = state._replace(position=state.position + 1)
    if given.verdict is None:
        return await _show_pair(visit, following)
    id_a, id_b = state.pairs[state.position]
    try:
        decision = Decision(id_a, id_b, given.verdict, visit.who.name)
        await visit.service.run_in_thread(visit.service.decide, state.scope, [decision])
    except UsageError as error:
        return await _show_pair(visit, state, refusal=str(error))
    return await _show_pair(visit, following, decision=decision)


PAGE = Page("review", "Review", "read", build, answer, writes=True)
