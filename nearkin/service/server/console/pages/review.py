"""The page on which people decide if two documents near the threshold are the same."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from dash import Dash, Input, Output, State, ctx, dcc, html
from dash.development.base_component import Component

from nearkin.errors import UsageError
from nearkin.index.review_queue import IndexReviewQueue, collect_index_review_queue
from nearkin.reports.diff import DocumentRole
from nearkin.runtime.visible_text import make_visible
from nearkin.service.server.console import components as ui
from nearkin.service.server.console.visitor import Page, Visit, current_visit, page_url
from nearkin.service.server.http.auth import validate_name
from nearkin.service.server.http.problems import ProblemError
from nearkin.settings.decisions import Decision, Verdict

MAX_PAIRS = 50
"""Maximum number of pairs that a page offers at a time."""
SEARCH_SECONDS = 2.0
"""Maximum number of seconds for which pairs are searched for."""


class Answer(NamedTuple):
    """An answer to the question if two documents are the same."""

    button: str
    """Id of the button."""
    label: str
    key: str
    verdict: Verdict | None
    """The decision, or None if the pair is left as it is."""


ANSWERS = (
    Answer("review-same", "Same", "s", Verdict.SAME),
    Answer("review-different", "Different", "d", Verdict.DIFFERENT),
    Answer("review-unsure", "Unsure", "u", None),
)


class ReviewState(NamedTuple):
    """The pairs of a page, and the one that is shown. Browsers send it back with each answer."""

    scope: str
    pairs: list[tuple[str, str]]
    position: int

    @classmethod
    def parse(cls, data: Any) -> "ReviewState":
        """Returns the state that a browser sent."""
        try:
            pairs = [(_parse_id(a), _parse_id(b)) for a, b in data["pairs"]]
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

    def store(self) -> Component:
        """Returns the state as a part of the page."""
        return dcc.Store(id="review-state", data=self._asdict())


def _parse_id(value: Any) -> str:
    """Returns an id that a browser sent."""
    value.encode("utf-8")
    return validate_name(value, "id")


async def build(visit: Visit, query: Mapping[str, str]) -> list[Component]:
    """Builds the page, with the pair that the query names first."""
    menu = await visit.scope_menu(query)
    page = [
        *ui.page_heading(
            "Review",
            "Pairs of documents near the threshold, the most uncertain ones first. A decision is "
            "stored in the index, which follows it at once and from then on.",
        ),
        ui.scope_form("review", menu),
    ]
    remark = ui.scope_note(menu)
    if remark is not None:
        return [*page, remark]
    await visit.admit()
    index = visit.service.index
    queue = await visit.service.run_overview(
        collect_index_review_queue, index, menu.selected, MAX_PAIRS, SEARCH_SECONDS
    )
    pairs = [(pair.id_a, pair.id_b) for pair in queue.pairs]
    if "a" in query and "b" in query:
        named = (validate_name(query["a"], "id"), validate_name(query["b"], "id"))
        pairs = [named, *(pair for pair in pairs if pair != named)][:MAX_PAIRS]
    note = ui.note(_describe_queue(queue, has_related=index.settings.related is not None))
    if not pairs:
        return [*page, note]
    state = ReviewState(menu.selected, pairs, 0)
    panel = html.Div(
        await _show_pair(visit, state, []),
        id="review-panel",
        role="region",
        **ui.aria_attributes(label="Pair"),
    )
    keys = dcc.Checklist(
        id="review-keys",
        options=[{"label": "Use the keys s, d and u", "value": "on"}],
        value=["on"],
    )
    return [*page, note, html.Div([*map(_button, ANSWERS), keys], className="bar answers"), panel]


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


def _button(answer: Answer) -> Component:
    return html.Button(
        [f"{answer.label} ", html.Kbd(answer.key)],
        id=answer.button,
        type="button",
        **ui.aria_attributes(keyshortcuts=answer.key),
    )


async def _show_pair(
    visit: Visit, state: ReviewState, message: Sequence[Component]
) -> list[Component]:
    """Returns the current pair side by side, with a message about the previous answer."""
    ids = state.pairs[state.position]
    service = visit.service
    entries = await service.run_in_thread(service.index.get_many, state.scope, list(ids))
    shown = [
        ui.ShownText(
            make_visible(id),
            "(text not stored)" if entry is None or entry.text is None else entry.text,
            DocumentRole.COMPARED,
        )
        for id, entry in zip(ids, entries, strict=True)
    ]
    title = html.H2(f"Pair {state.position + 1} of {len(state.pairs)}")
    facts: list[Component] = []
    if None not in entries:
        explanation = await service.run_overview(_similarity, visit, state.scope, ids)
        if explanation is not None:
            facts.append(ui.note(ui.similarity_label(explanation), f", {_threshold(visit)}"))
    sides = await service.run_overview(
        ui.side_by_side, shown[0], shown[1], "The excerpts do not differ."
    )
    return [html.Div(list(message), role="status"), title, *facts, sides, state.store()]


def _threshold(visit: Visit) -> str:
    return f"threshold {visit.service.index.threshold:g}"


def _similarity(visit: Visit, scope: str, ids: tuple[str, str]) -> float | None:
    """Returns the exact similarity of two stored documents, or None without their texts."""
    try:
        return visit.service.index.explain(scope, *ids).similarity
    except UsageError:
        return None


async def _answer(
    _same: int | None, _different: int | None, _unsure: int | None, data: Any
) -> list[Component]:
    """Stores the answer whose button was pressed, and returns the next pair."""
    visit = current_visit()
    visit.require_page(PAGE)
    state = ReviewState.parse(data)
    visit.require_scope(state.scope)
    await visit.admit()
    answer = next((answer for answer in ANSWERS if answer.button == ctx.triggered_id), None)
    if answer is None:
        raise ProblemError("invalid-request", "unknown answer; load the page again")
    if state.position == len(state.pairs):
        return _show_end(state, [])
    id_a, id_b = state.pairs[state.position]
    message: list[Component] = []
    if answer.verdict is not None:
        try:
            decision = Decision(id_a, id_b, answer.verdict, visit.who.name)
            await visit.service.run_in_thread(visit.service.decide, state.scope, [decision])
        except UsageError as error:
            message = [ui.alert("The decision was not stored", str(error))]
            return await _show_pair(visit, state, message)
        again = page_url("review", scope=state.scope, a=id_a, b=id_b)
        message = [
            ui.note(
                ui.id_label(id_a),
                f" and {make_visible(id_b)}: {answer.verdict}. ",
                html.A("Decide again", href=again),
            )
        ]
    following = state._replace(position=state.position + 1)
    if following.position == len(state.pairs):
        return _show_end(following, message)
    return await _show_pair(visit, following, message)


def _show_end(state: ReviewState, message: Sequence[Component]) -> list[Component]:
    """Returns what is shown after the last pair. Further answers are about no pair."""
    more = html.A("Search for more pairs", href=page_url("review", scope=state.scope))
    done = ui.note("These were all pairs of this page. ", more)
    return [html.Div([*message, done], role="status"), state.store()]


def connect(app: Dash) -> None:
    """Registers the callback of the answers."""
    app.callback(
        Output("review-panel", "children"),
        *[Input(answer.button, "n_clicks") for answer in ANSWERS],
        State("review-state", "data"),
        prevent_initial_call=True,
    )(_answer)


PAGE = Page("review", "Review", "read", build, connect, writes=True)
