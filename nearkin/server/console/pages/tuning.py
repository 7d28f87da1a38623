"""The tuning page: the S-curve of a banding over the similarities of a scope."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
from dash import Dash, Input, Output, State, dcc, html
from dash.development.base_component import Component

from nearkin.index.index import Index
from nearkin.plan.tune import (
    Distribution,
    OperatingPoint,
    Tuning,
    candidate_probabilities,
    evaluate_point,
    tune,
)
from nearkin.report.curves import format_banding
from nearkin.server.cluster_listings import SIMILARITY_BINS
from nearkin.server.console import charts
from nearkin.server.console import components as ui
from nearkin.server.console.visitor import Page, Visit, current_visit
from nearkin.server.http.parsing import parse_json
from nearkin.server.routes.models import TuneRequest
from nearkin.spec import Spec

POINTS = 101
CHOICES = 8
MOST_K = 512


async def build(visit: Visit, query: Mapping[str, str]) -> list[Component]:
    """Builds the page.

    Args:
        visit: The current visit.
        query: Query parameters.
    """
    scopes = await visit.scopes()
    scope = query.get("scope") or (scopes[0] if scopes else "")
    page = [
        *ui.page_heading(
            "Tuning",
            (
                "Bands and rows for a threshold and a recall, and their cost. The index is not "
                "changed."
            ),
        ),
        ui.scope_form("tuning", scopes, scope),
    ]
    if not scope:
        return [*page, ui.note("No scope with documents was found. Enter the name of a scope.")]
    visit.require_scope(scope)
    index = visit.service.index
    step = index.spec.signature_limits.k_step
    most = min(MOST_K, index.spec.signature_limits.largest_k)
    return [
        *page,
        html.Div(
            [
                _slider("threshold", "Threshold", 0.3, 0.99, 0.01, round(index.threshold, 2)),
                _slider(
                    "recall", "Recall", 0.5, 0.99, 0.01, min(round(index.settings.recall, 2), 0.99)
                ),
                _slider(
                    "k", "k, length of the signatures", step, most, step, min(index.spec.k, most)
                ),
            ],
            className="sliders",
        ),
        dcc.Store(id="tune-scope", data=scope),
        html.Div(
            await _drawn(visit, scope, index.threshold, index.settings.recall, index.spec.k),
            id="tune-result",
        ),
    ]


def _slider(id: str, name: str, low: float, high: float, step: float, value: float) -> Component:
    field = dcc.Input(id=f"tune-{id}", type="range", min=low, max=high, step=step, value=value)
    label = html.Output(f"{value:g}", id=f"tune-{id}-value")
    return html.Div([html.Label(name, htmlFor=f"tune-{id}"), label, field], className="slider")


async def _tell(value: object) -> str:
    return str(value)


async def _move(threshold: float, recall: float, k: int, scope: str | None) -> list[Component]:
    visit = current_visit()
    visit.require_scope(scope or "")
    await visit.admit()
    # the same limits as in the API, because every token with the right to read can use the page
    asked = parse_json(
        json.dumps({"threshold": threshold, "recall": recall, "k": k}).encode(), TuneRequest
    )
    return await _drawn(
        visit, scope or "", asked.threshold, asked.recall, asked.k or visit.service.index.spec.k
    )


async def _drawn(
    visit: Visit, scope: str, threshold: float, recall: float, k: int
) -> list[Component]:
    service = visit.service
    listing = await service.run_overview(service.cluster_listings.listing, scope)
    sampled = await service.run_overview(service.cluster_listings.pairs, scope)
    pairs = sampled or Distribution.assumed(max(listing.documents, 2))
    tuning = await service.run_overview(
        _tuned, replace(service.index.spec, k=k), threshold, recall, pairs
    )
    live = await service.run_overview(point_of_index, service.index, pairs, threshold)
    chart = _chart(tuning, service.index, sampled, listing.resolved)
    return [_numbers(tuning), chart, _choices(tuning, live, k == service.index.spec.k)]


def _tuned(spec: Spec, threshold: float, recall: float, pairs: Distribution) -> Tuning:
    return tune(threshold, recall, spec=spec, distribution=pairs)


def point_of_index(index: Index, pairs: Distribution, threshold: float) -> OperatingPoint:
    """Returns the operating point of the index at a threshold.

    Args:
        index: The index.
        pairs: Similarities of the pairs of a scope.
        threshold: Threshold, which may differ from that of the index.
    """
    banding = index.banding
    return evaluate_point(
        index.measure,
        threshold,
        banding.bands,
        banding.rows,
        probes=banding.probes,
        distribution=pairs,
    )


def _numbers(tuning: Tuning) -> Component:
    best = tuning.best
    middle = best.similarities[1]
    return html.Div(
        ui.fact_tiles(
            ("Bands × rows", format_banding(best)),
            (f"Found at {tuning.threshold:.2f}", f"{best.recall:.1%}"),
            ("Half are found at", "–" if np.isnan(middle) else f"{middle:.3f}"),
            ("Candidates per document", f"{best.candidates:,.3g}"),
            ("Bytes per signature", f"{tuning.spec.k * tuning.spec.slot_bits // 8:,}"),
        ),
        role="status",
    )


def _chart(
    tuning: Tuning, index: Index, sampled: Distribution | None, resolved: Sequence[int]
) -> Component:
    x = np.linspace(0, 1, POINTS)
    best = tuning.best
    live = candidate_probabilities(index.measure, index.banding, x)
    centres = ((np.arange(SIMILARITY_BINS) + 0.5) / SIMILARITY_BINS).tolist()
    traces = []
    if sampled is not None:
        every = pairs_by_similarity(sampled)
        traces.append(
            charts.bar_trace(
                "Pairs, from a sample",
                centres,
                _positive(every),
                charts.GREY,
                width=1 / SIMILARITY_BINS,
            )
        )
    traces.append(
        charts.bar_trace(
            "Documents, to their representative",
            centres,
            _positive(resolved),
            charts.BLUE,
            width=1 / SIMILARITY_BINS,
        )
    )
    percents = {"yaxis": "y2", "hovertemplate": "%{y:.1%}"}
    traces.append(
        charts.line_trace(
            f"Candidate probability, {format_banding(best)}",
            x.tolist(),
            tuning.curve(best, x).tolist(),
            charts.ORANGE,
            **percents,
        )
    )
    dotted = {"color": charts.PURPLE, "width": 1.5, "dash": "dot"}
    now = f"Candidate probability, this index: {index.banding.bands} × {index.banding.rows}"
    traces.append(
        charts.line_trace(now, x.tolist(), live.tolist(), charts.PURPLE, **percents)
        | {"line": dotted}
    )
    label = (
        f"{format_banding(best)}: {best.recall:.1%} of the pairs at {tuning.threshold:.2f} "
        f"become candidates"
    )
    figure = charts.make_chart(
        "tune-curve",
        "Candidate probability and similarities of this scope",
        label,
        traces,
        height=400,
        barmode="overlay",
        xaxis=charts.make_axis("similarity", range=[0, 1]),
        yaxis=charts.make_axis("count (logarithmic)", type="log", exponentformat="power", dtick=1),
        yaxis2=charts.make_axis(
            "",
            overlaying="y",
            side="right",
            range=[0, 1.02],
            tickformat=".0%",
            showgrid=False,
            tickmode="array",
            tickvals=[0, 0.25, 0.5, 0.75, 1],
        ),
        **charts.vertical_line(tuning.threshold, f"threshold {tuning.threshold:.2f}"),
    )
    return html.Div([figure, _shows(sampled, resolved)])


def pairs_by_similarity(pairs: Distribution) -> list[float]:
    """Returns the number of pairs in each of SIMILARITY_BINS bins of similarity."""
    places = np.minimum(
        (pairs.similarities * SIMILARITY_BINS).astype(np.int64), SIMILARITY_BINS - 1
    )
    each: list[float] = (
        np.bincount(places, pairs.pairs, SIMILARITY_BINS) * pairs.documents / 2
    ).tolist()
    return each


def _positive(values: Sequence[float]) -> list[float | None]:
    """Replaces zeros by None, because a logarithmic axis cannot show them."""
    return [value if value > 0 else None for value in values]


def _shows(sampled: Distribution | None, resolved: Sequence[int]) -> Component:
    if sampled is None:
        return ui.note(
            "The scope has fewer than two documents. The number of candidates assumes unrelated "
            "documents."
        )
    return ui.note(
        f"Grey: pairs of the scope by similarity, estimated from {sampled.source}; a rare "
        f"similarity may have no pair "
        f"in the sample. Blue: the {sum(resolved):,} documents that were resolved, by their exact "
        f"similarity to their "
        "representative; below the index's threshold there are none. Candidates per document "
        "follow "
        "from the grey ones, as if all documents were in buckets; where only representatives are, "
        "there are fewer."
    )


def _choices(tuning: Tuning, live: OperatingPoint, comparable: bool) -> Component:
    points = [*tuning.points[:CHOICES], *([live] if comparable else [])]
    rows = []
    for at, point in enumerate(points):
        name = (
            "Current: " + format_banding(point)
            if at == min(CHOICES, len(tuning.points))
            else format_banding(point)
        )
        low, _, high = (
            f"{value:.3f}" if not np.isnan(value) else "–" for value in point.similarities
        )
        rows.append(
            (name, f"{point.recall:.1%}", low, high, f"{point.candidates:,.3g}", f"{point.keys:,}")
        )
    columns = (
        "Bands × rows",
        f"Found at {tuning.threshold:.2f}",
        "0.1% found at",
        "99% found at",
        "Candidates",
        "Keys",
    )
    return ui.table(
        "Cheapest first. Candidates and keys are those of one document.",
        columns,
        rows,
        numbers=(1, 2, 3, 4, 5),
    )


def connect(app: Dash) -> None:
    """Registers the callbacks of the sliders."""
    moved = [Input(f"tune-{id}", "value") for id in ("threshold", "recall", "k")]
    app.callback(
        Output("tune-result", "children"),
        *moved,
        State("tune-scope", "data"),
        prevent_initial_call=True,
    )(_move)
    for slider in moved:
        label = Output(f"{slider.component_id}-value", "children")
        app.callback(label, slider, prevent_initial_call=True)(_tell)


PAGE = Page("tuning", "Tuning", "read", build, connect)
