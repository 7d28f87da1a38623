"""The tuning page: the S-curve of a banding over the similarities of a scope."""

from collections.abc import Mapping
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import orjson
from markupsafe import Markup

from nearkin.index.index import Index
from nearkin.quality.plan.distribution import Distribution
from nearkin.quality.plan.tune import (
    OperatingPoint,
    Tuning,
    candidate_probabilities,
    evaluate_point,
    tune,
)
from nearkin.reports.charts import Tick
from nearkin.reports.similarity_bins import Histogram, name_bin
from nearkin.runtime.number_format import format_percent, format_similarity
from nearkin.service.server.console import charts
from nearkin.service.server.console.markup import render
from nearkin.service.server.console.pages.clusters import parse_number
from nearkin.service.server.console.visitor import Page, Visit
from nearkin.service.server.http.parsing import parse_json
from nearkin.service.server.routes.models import TuneRequest

NARROWEST_BAR = 0.5
"""Width of the bar of a bin that is narrower, in units of the view box."""
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


class Slider(NamedTuple):
    """A slider of a setting."""

    id: str
    name: str
    low: float
    high: float
    step: float
    value: float


async def build(visit: Visit, query: Mapping[str, str]) -> Markup:
    """Builds the page."""
    menu = await visit.scope_menu(query)
    if not menu.has_documents:
        return render("tuning.html", menu=menu)
    scope = menu.selected
    index = visit.service.index
    threshold = round(index.threshold, 2)
    recall = min(round(index.settings.recall, 2), 0.99)
    limits = index.spec.signature_limits
    max_k = min(MAX_SLIDER_K, limits.largest_k)
    k = min(index.spec.k, max_k)
    sliders = (
        Slider("threshold", "Threshold", 0.3, 0.99, 0.01, threshold),
        Slider("recall", "Recall", 0.5, 0.99, 0.01, recall),
        Slider("k", "k, length of the signatures", limits.k_step, max_k, limits.k_step, k),
    )
    return render(
        "tuning.html",
        menu=menu,
        sliders=sliders,
        max_documents=MAX_EXPECTED_DOCUMENTS,
        documents=max(menu.counts.get(scope, 0), 2),
        content=await _tuning_content(
            visit, scope, index.threshold, index.settings.recall, index.spec.k
        ),
    )


async def show_tuning(visit: Visit, values: Mapping[str, str]) -> Markup:
    """Returns the operating points of what the sliders say."""
    scope = values.get("scope", "")
    visit.require_scope(scope)
    await visit.admit()
    given = {name: values.get(name) for name in ("threshold", "recall", "k")}
    # the same limits as in the API, because every token with the right to read can use the page
    request = parse_json(orjson.dumps(given), TuneRequest)
    size = parse_number(values.get("size"), digits=12)
    # an empty or invalid field has no number
    expected = size if 2 <= size <= MAX_EXPECTED_DOCUMENTS else None
    return await _tuning_content(
        visit,
        scope,
        request.threshold,
        request.recall,
        request.k or visit.service.index.spec.k,
        expected,
    )


async def _tuning_content(
    visit: Visit,
    scope: str,
    threshold: float,
    recall: float,
    k: int,
    expected: int | None = None,
) -> Markup:
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
    return render(
        "tuned.html",
        facts=_best_point_facts(tuning),
        curve=_curve_chart(tuning, index, sampled, listing.resolved),
        source=None if sampled is None else sampled.source,
        resolved=listing.resolved.total,
        threshold=f"{tuning.threshold:.2f}",
        points=_point_rows(tuning, current_point),
        command=_command(index, threshold, k),
        other_recall=recall if abs(recall - index.settings.recall) > SLIDER_PRECISION else None,
    )


def _command(index: Index, threshold: float, k: int) -> str:
    """Returns the command that applies the settings, or an empty text if the index has them."""
    changed = []
    if abs(threshold - index.threshold) > SLIDER_PRECISION:
        changed.append(f"--threshold {threshold:g}")
    if k != index.spec.k:
        changed.append(f"--k {k}")
    if not changed:
        return ""
    return " ".join(["nearkin index rebuild --store URL --to NEW_URL", *changed, "--cut-over"])


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


def _best_point_facts(tuning: Tuning) -> list[tuple[str, str]]:
    best = tuning.best
    return [
        ("Bands × rows", best.banding),
        (f"Found at {tuning.threshold:.2f}", format_percent(best.recall)),
        ("Half are found at", format_similarity_or_dash(best.similarities[1])),
        ("Candidates per document", f"{best.candidates:,.3g}"),
        ("Bytes per signature", f"{tuning.spec.k * tuning.spec.slot_bits // 8:,}"),
    ]


def _curve_chart(
    tuning: Tuning, index: Index, sampled: Distribution | None, resolved: Histogram
) -> charts.Plot:
    """Returns the S-curves of two bandings over the similarities of a scope."""
    best = tuning.best
    x = charts.horizontal(0, 1)
    series = [("Documents, to their representative", "blue", list(map(float, resolved.counts)))]
    if sampled is not None:
        series.insert(0, ("Pairs, from a sample", "grey", pairs_by_similarity(sampled, resolved)))
    scale = charts.LogScale(max(max(counts) for _, _, counts in series))
    bars = [
        scale.bar(
            x.place(low),
            max(x.place(high) - x.place(low), NARROWEST_BAR),
            count,
            colour,
            f"{name_bin(low, high)}: {count:,.0f} ({name})",
        )
        for name, colour, counts in series
        for (low, high), count in zip(resolved.bins, counts, strict=True)
        if count > 0
    ]
    similarities = np.linspace(0, 1, CURVE_POINTS)
    current = candidate_probabilities(index.measure, index.banding, similarities)
    curves = {"orange": tuning.curve(best, similarities), "purple": current}
    banding = f"{index.banding.bands} × {index.banding.rows}"
    return charts.Plot(
        id="tune-curve",
        caption="Candidate probability and similarities of this scope",
        description=f"{best.banding}: {format_percent(best.recall)} of the pairs at "
        f"{tuning.threshold:.2f} become candidates",
        x_title="similarity",
        y_title="count (logarithmic)",
        x_ticks=[Tick(x.place(share), f"{share:g}") for share in (0, 0.2, 0.4, 0.6, 0.8, 1)],
        y_ticks=scale.ticks(),
        right_ticks=charts.SHARE_TICKS,
        bars=bars,
        lines=[
            charts.draw_line(
                colour,
                x,
                charts.SHARES,
                list(zip(similarities.tolist(), curve.tolist(), strict=True)),
            )
            for colour, curve in curves.items()
        ],
        marker=Tick(x.place(tuning.threshold), f"threshold {tuning.threshold:.2f}"),
        legend=[
            *((name, colour) for name, colour, _ in series),
            (f"Candidate probability, {best.banding}", "orange"),
            (f"Candidate probability, this index: {banding}", "purple"),
        ],
    )


def pairs_by_similarity(pairs: Distribution, bins: Histogram) -> list[float]:
    """Returns the number of pairs of a scope in each bin of a histogram."""
    counts, _ = np.histogram(pairs.similarities, bins.edges, weights=pairs.pairs)
    return [float(count) for count in counts * pairs.documents / 2]


def _point_rows(
    tuning: Tuning, current_point: OperatingPoint | None
) -> list[tuple[str, str, str, str, str, str]]:
    """Returns the cheapest operating points, followed by that of the index if it is comparable."""
    labelled_points = [(point.banding, point) for point in tuning.points[:MAX_LISTED_POINTS]]
    if current_point is not None:
        labelled_points.append((f"Current: {current_point.banding}", current_point))
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
    return rows


def format_similarity_or_dash(similarity: float) -> str:
    """Returns a similarity with three digits, or a dash if no similarity is found that often.

    Examples:
        >>> format_similarity_or_dash(0.51234), format_similarity_or_dash(float("nan"))
        ('0.512', '–')
    """
    if np.isnan(similarity):
        return "–"
    return format_similarity(similarity)


PAGE = Page("tuning", "Tuning", "read", build, show_tuning)
