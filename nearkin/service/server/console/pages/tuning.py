"""The tuning page: the S-curve of a banding over the similarities of a scope."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
from dash import Dash, Input, Output, State, dcc, html
from dash.development.base_component import Component

from nearkin.index.index import Index
from nearkin.quality.plan.distribution import Distribution
from nearkin.quality.plan.tune import (
    OperatingPoint,
    Tuning,
    candidate_probabilities,
    evaluate_point,
    tune,
)
from nearkin.reports.curves import format_banding
from nearkin.runtime.number_format import format_percent, format_similarity
from nearkin.service.server.cluster_listings import SIMILARITY_BINS
from nearkin.service.server.console import charts
from nearkin.service.server.console import components as ui
from nearkin.service.server.console.visitor import Page, Visit, current_visit
from nearkin.service.server.http.parsing import parse_json
from nearkin.service.server.routes.models import TuneRequest

SLIDER_PRECISION = 0.005
"""Half the step of the sliders of shares."""
CURVE_POINTS = 101
"""Number of similarities at which curves are drawn."""
MAX_LISTED_POINTS = 8
"""Maximum number of operating points that are listed."""
MAX_EXPECTED_DOCUMENTS = 10**12
"""Largest size of a scope for which costs are computed."""
MAX_SLIDER_K = 512
"""Largest length of signatures that the slider offers."""


async def build(visit: Visit, query: Mapping[str, str]) -> list[Component]:
    """Builds the page."""
    menu = await visit.scope_menu(query)
    scope = menu.selected
    page = [
        *ui.page_heading(
            "Tuning",
            "Bands and rows for a threshold and a recall, and their cost. The index is not "
            "changed.",
        ),
        ui.scope_form("tuning", menu),
    ]
    remark = ui.scope_note(menu)
    if remark is not None:
        return [*page, remark]
    index = visit.service.index
    threshold = round(index.threshold, 2)
    recall = min(round(index.settings.recall, 2), 0.99)
    k_step = index.spec.signature_limits.k_step
    max_k = min(MAX_SLIDER_K, index.spec.signature_limits.largest_k)
    return [
        *page,
        html.Div(
            [
                _make_slider("threshold", "Threshold", 0.3, 0.99, 0.01, threshold),
                _make_slider("recall", "Recall", 0.5, 0.99, 0.01, recall),
                _make_slider(
                    "k",
                    "k, length of the signatures",
                    k_step,
                    max_k,
                    k_step,
                    min(index.spec.k, max_k),
                ),
            ],
            className="sliders",
        ),
        html.Div(
            [
                html.Label("Expected documents in the scope", htmlFor="tune-size"),
                dcc.Input(
                    id="tune-size",
                    type="number",
                    min=2,
                    max=MAX_EXPECTED_DOCUMENTS,
                    step=1,
                    value=max(menu.counts.get(scope, 0), 2),
                    debounce=True,
                ),
            ],
            className="field expected",
        ),
        dcc.Store(id="tune-scope", data=scope),
        html.Div(
            await _tuning_content(
                visit, scope, index.threshold, index.settings.recall, index.spec.k
            ),
            id="tune-result",
        ),
    ]


def _make_slider(
    id: str, name: str, low: float, high: float, step: float, value: float
) -> Component:
    field = dcc.Input(id=f"tune-{id}", type="range", min=low, max=high, step=step, value=value)
    label = html.Output(f"{value:g}", id=f"tune-{id}-value")
    return html.Div([html.Label(name, htmlFor=f"tune-{id}"), label, field], className="slider")


async def _show_value(value: object) -> str:
    return str(value)


async def _show_tuning(
    threshold: float, recall: float, k: int, size: int | None, scope: str | None
) -> list[Component]:
    visit = current_visit()
    scope = scope or ""
    visit.require_scope(scope)
    await visit.admit()
    # the same limits as in the API, because every token with the right to read can use the page
    request = parse_json(
        json.dumps({"threshold": threshold, "recall": recall, "k": k}).encode(), TuneRequest
    )
    k_or_default = request.k or visit.service.index.spec.k
    # an empty or invalid field has no number
    expected = size if size is not None and 2 <= size <= MAX_EXPECTED_DOCUMENTS else None
    return await _tuning_content(
        visit, scope, request.threshold, request.recall, k_or_default, expected
    )


async def _tuning_content(
    visit: Visit,
    scope: str,
    threshold: float,
    recall: float,
    k: int,
    expected: int | None = None,
) -> list[Component]:
    service = visit.service
    index = service.index
    listing = await service.run_overview(service.cluster_listings.listing, scope)
    sampled = await service.run_overview(service.cluster_listings.pairs, scope)
    pairs = sampled or Distribution.assumed(max(listing.documents, 2), index.spec)
    if expected is not None:
        pairs = pairs.scale_to(expected)
    tuning = await service.run_overview(
        tune, threshold, recall, spec=replace(index.spec, k=k), distribution=pairs
    )
    current_point = None
    if k == index.spec.k:
        current_point = await service.run_overview(point_of_index, index, pairs, threshold)
    return [
        _best_point_tiles(tuning),
        _curve_chart(tuning, index, sampled, listing.resolved),
        _points_table(tuning, current_point),
        _command_section(index, threshold, recall, k),
    ]


def _command_section(index: Index, threshold: float, recall: float, k: int) -> Component:
    """Returns the command that applies the settings, or a remark if the index has them."""
    settings = index.settings
    changed = []
    if abs(threshold - index.threshold) > SLIDER_PRECISION:
        changed.append(f"--threshold {threshold:g}")
    if k != index.spec.k:
        changed.append(f"--k {k}")
    content: list[Component] = []
    if changed:
        command = " ".join(
            ["nearkin index rebuild --store URL --to NEW_URL", *changed, "--cut-over"]
        )
        content += [
            html.Pre(command),
            ui.note(
                "NEW_URL is an empty store. The server follows the index there, and answers "
                "requests meanwhile."
            ),
        ]
    if abs(recall - settings.recall) > SLIDER_PRECISION:
        content.append(
            ui.note(
                "The recall of an index is fixed when it is made; a new one takes "
                f"recall={recall:g} among its settings."
            )
        )
    if not content:
        content.append(ui.note("These are the settings of the index."))
    return ui.section("Apply", *content, id="tune-apply")


def point_of_index(index: Index, pairs: Distribution, threshold: float) -> OperatingPoint:
    """Returns the operating point of the index at a threshold."""
    banding = index.banding
    return evaluate_point(
        index.measure,
        threshold,
        banding.bands,
        banding.rows,
        probes=banding.probes,
        distribution=pairs,
    )


def _best_point_tiles(tuning: Tuning) -> Component:
    best = tuning.best
    half_found_at = best.similarities[1]
    return html.Div(
        ui.fact_tiles(
            ("Bands × rows", format_banding(best)),
            (f"Found at {tuning.threshold:.2f}", format_percent(best.recall)),
            ("Half are found at", format_similarity_or_dash(half_found_at)),
            ("Candidates per document", f"{best.candidates:,.3g}"),
            ("Bytes per signature", f"{tuning.spec.k * tuning.spec.slot_bits // 8:,}"),
        ),
        role="status",
    )


def _curve_chart(
    tuning: Tuning, index: Index, sampled: Distribution | None, resolved: Sequence[int]
) -> Component:
    """Returns the S-curves of two bandings over the similarities of a scope."""
    best = tuning.best
    traces = _similarity_traces(sampled, resolved) + _candidate_traces(tuning, index)
    description = (
        f"{format_banding(best)}: {format_percent(best.recall)} of the pairs at "
        f"{tuning.threshold:.2f} become candidates"
    )
    figure = charts.make_chart(
        "tune-curve",
        "Candidate probability and similarities of this scope",
        description,
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
    return html.Div([figure, _chart_note(sampled, resolved)])


def _similarity_traces(
    sampled: Distribution | None, resolved: Sequence[int]
) -> list[charts.PlotlyProperties]:
    """Returns the bars of pairs and documents by similarity."""
    centres = ((np.arange(SIMILARITY_BINS) + 0.5) / SIMILARITY_BINS).tolist()
    traces = []
    if sampled is not None:
        traces.append(
            charts.bar_trace(
                "Pairs, from a sample",
                centres,
                _zeros_as_none(pairs_by_similarity(sampled)),
                charts.GREY,
                width=1 / SIMILARITY_BINS,
            )
        )
    traces.append(
        charts.bar_trace(
            "Documents, to their representative",
            centres,
            _zeros_as_none(resolved),
            charts.BLUE,
            width=1 / SIMILARITY_BINS,
        )
    )
    return traces


def _candidate_traces(tuning: Tuning, index: Index) -> list[charts.PlotlyProperties]:
    """Returns the S-curves of the best operating point and of the banding of an index."""
    similarities = np.linspace(0, 1, CURVE_POINTS)
    best = tuning.best
    current = candidate_probabilities(index.measure, index.banding, similarities)
    percents = {"yaxis": "y2", "hovertemplate": "%{y:.1%}"}
    return [
        charts.line_trace(
            f"Candidate probability, {format_banding(best)}",
            similarities.tolist(),
            tuning.curve(best, similarities).tolist(),
            charts.ORANGE,
            **percents,
        ),
        charts.line_trace(
            f"Candidate probability, this index: {index.banding.bands} × {index.banding.rows}",
            similarities.tolist(),
            current.tolist(),
            charts.PURPLE,
            line={"color": charts.PURPLE, "width": 1.5, "dash": "dot"},
            **percents,
        ),
    ]


def pairs_by_similarity(pairs: Distribution) -> list[float]:
    """Returns the number of pairs in each of SIMILARITY_BINS bins of similarity."""
    bins = np.minimum((pairs.similarities * SIMILARITY_BINS).astype(np.int64), SIMILARITY_BINS - 1)
    counts = np.bincount(bins, pairs.pairs, SIMILARITY_BINS) * pairs.documents / 2
    return [float(count) for count in counts]


def _zeros_as_none(values: Sequence[float]) -> list[float | None]:
    """Replaces zeros by None, because a logarithmic axis cannot show them."""
    return [value if value > 0 else None for value in values]


def _chart_note(sampled: Distribution | None, resolved: Sequence[int]) -> Component:
    if sampled is None:
        return ui.note(
            "The scope has fewer than two documents. The number of candidates assumes unrelated "
            "documents."
        )
    return ui.note(
        f"Grey: pairs of the scope by similarity, estimated from {sampled.source}. A rare "
        "similarity may have no pair in the sample. "
        f"Blue: the {sum(resolved):,} documents that were resolved, by their exact similarity to "
        "their representative. There are none below the threshold of the index. The number of "
        "candidates per document follows from the grey pairs, as if all documents were in "
        "buckets. It is lower if only representatives are."
    )


def _points_table(tuning: Tuning, current_point: OperatingPoint | None) -> Component:
    """Returns the cheapest operating points, followed by that of the index if it is comparable."""
    labelled_points = [
        (format_banding(point), point) for point in tuning.points[:MAX_LISTED_POINTS]
    ]
    if current_point is not None:
        labelled_points.append((f"Current: {format_banding(current_point)}", current_point))
    rows = []
    for label, point in labelled_points:
        low, _, high = point.similarities
        rows.append(
            (
                label,
                format_percent(point.recall),
                format_similarity_or_dash(low),
                format_similarity_or_dash(high),
                f"{point.candidates:,.3g}",
                f"{point.keys:,}",
            )
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


def format_similarity_or_dash(similarity: float) -> str:
    """Returns a similarity with three digits, or a dash if no similarity is found that often.

    Examples:
        >>> format_similarity_or_dash(0.51234), format_similarity_or_dash(float("nan"))
        ('0.512', '–')
    """
    if np.isnan(similarity):
        return "–"
    return format_similarity(similarity)


def connect(app: Dash) -> None:
    """Registers the callbacks of the sliders."""
    sliders = [Input(f"tune-{id}", "value") for id in ("threshold", "recall", "k")]
    app.callback(
        Output("tune-result", "children"),
        *sliders,
        Input("tune-size", "value"),
        State("tune-scope", "data"),
        prevent_initial_call=True,
    )(_show_tuning)
    for slider in sliders:
        label = Output(f"{slider.component_id}-value", "children")
        app.callback(label, slider, prevent_initial_call=True)(_show_value)


PAGE = Page("tuning", "Tuning", "read", build, connect)
