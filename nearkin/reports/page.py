"""Renders a report as one HTML page.

The page loads nothing, runs one known script, and cannot be changed by the texts that it quotes.
"""

import base64
import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup, escape

from nearkin.quality.evaluate.boilerplate import MIN_SHARE
from nearkin.quality.evaluate.doubtful_removals import DESCRIPTIONS, FEW_DOUBTFUL
from nearkin.reports import charts
from nearkin.reports.diff import (
    MAX_CHARACTERS,
    DocumentRole,
    Piece,
    SpanKind,
    diff_sides,
    may_be_cut,
)
from nearkin.reports.formatting import describe_match, format_bytes, format_compact
from nearkin.reports.model import (
    BORDERLINE_CHARACTERS,
    NOTABLE_LOSS,
    BorderlinePair,
    ClusterExcerpt,
    LossyExample,
    RemovedExample,
    ReportData,
)
from nearkin.reports.row_categories import categorize_rows
from nearkin.reports.similarity_bins import name_bin
from nearkin.reports.template_cache import open_template_cache
from nearkin.runtime.number_format import format_percent, format_similarity
from nearkin.runtime.progress import describe_stage
from nearkin.runtime.visible_text import make_visible

MAX_CLUSTERS = 20
"""The largest number of clusters on a page."""
MAX_EXAMPLES = 3
"""The number of clusters that a page shows first. The others are folded."""
MAX_SOURCES = 100
"""The largest number of sources in the table of sources."""
CHANGE_ELEMENTS = {
    DocumentRole.KEPT: Markup("<ins>{}</ins>"),
    DocumentRole.REMOVED: Markup("<del>{}</del>"),
    DocumentRole.COMPARED: Markup("<mark>{}</mark>"),
}
"""The elements around the words that only one of two documents has, by its role."""
_FOLDER = Path(__file__).parent


@dataclass(frozen=True)
class ClusterComparison:
    """A cluster as the page shows it: the kept document beside a removed one.

    Attributes:
        cluster: The cluster.
        example: The removed document that is shown, or None.
        left: Excerpt of the kept document as markup.
        right: Excerpt of the removed document as markup. Empty if both read the same.
        note: A remark on a removed document that reads the same.
        others: Further removed documents.
    """

    cluster: ClusterExcerpt
    example: RemovedExample | None
    left: Markup
    right: Markup
    note: str
    others: tuple[RemovedExample, ...]


class PairComparison(NamedTuple):
    """Two documents side by side with marked differences.

    `right` is empty if both read the same.
    """

    names: tuple[str, str]
    similarity: float
    left: Markup
    right: Markup


class LossyPair(NamedTuple):
    """A removed document that lost much, side by side with the kept one."""

    example: LossyExample
    left: Markup
    right: Markup


class BorderlineGroup(NamedTuple):
    """The pairs just above the threshold of one step."""

    number: int
    threshold: float
    pairs: list[PairComparison]


class _SizeFigure(NamedTuple):
    """The chart of cluster sizes, and the classes of sizes that it shows."""

    classes: Sequence[charts.SizeClass]
    chart: charts.Chart


class _SimilarityRow(NamedTuple):
    """The numbers of candidate and verified pairs in one bin of the similarity."""

    label: str
    candidates: int
    verified: int


class _SimilarityFigure(NamedTuple):
    """The chart of pairs by similarity, and the numbers that it shows."""

    chart: charts.Chart
    rows: list[_SimilarityRow]
    scored: str
    """The heading of the column of pairs with a score."""


class _ThresholdSlider(NamedTuple):
    """The slider of the threshold."""

    steps: str
    """The counts at each step, as JSON for the script."""
    groups: list[BorderlineGroup]
    """The pairs just above each step."""


def render_page(data: ReportData) -> str:
    """Renders the page of a report, with style and charts inline."""
    sources = sorted(data.sources, key=lambda source: (-source.read, source.source))
    clusters = [compare_cluster(cluster) for cluster in data.clusters[:MAX_CLUSTERS]]
    # A page begins with clusters that have differences to look at.
    order = sorted(range(len(clusters)), key=lambda position: not clusters[position].right)
    examples = [clusters[position] for position in order[:MAX_EXAMPLES]]
    folded = [clusters[position] for position in sorted(order[MAX_EXAMPLES:])]
    total_seconds = data.total_seconds or 1
    return (
        make_environment()
        .get_template("page.html")
        .render(
            data=data,
            style=Markup(page_style()),
            categories=categorize_rows(data),
            sections=_list_sections(data),
            sizes=_size_figure(data),
            similarity=_similarity_figure(data),
            what_if=_threshold_slider(data),
            script=Markup(_read_script()),
            script_hash=hash_script(),
            recall_chart=_recall_figure(data),
            lossy_pairs=[_compare_lossy(example) for example in data.lost.worst]
            if data.lost
            else [],
            doubtful_reasons=DESCRIPTIONS,
            few_doubtful=FEW_DOUBTFUL,
            max_sources=MAX_SOURCES,
            leaks=data.leakage.leaks if data.leakage else (),
            boilerplate=data.boilerplate,
            min_share=MIN_SHARE,
            sources=sources[:MAX_SOURCES],
            more_sources=len(sources[MAX_SOURCES:]),
            notable=NOTABLE_LOSS,
            examples=examples,
            pairs=folded,
            random_pairs=[compare_cluster(cluster) for cluster in data.sampled_clusters],
            settings=_list_settings(data),
            stages=[
                (stage.stage, stage.seconds, stage.seconds / total_seconds)
                for stage in data.seconds
            ],
            width=charts.WIDTH,
            height=charts.HEIGHT,
            left=charts.LEFT,
            right=charts.RIGHT,
            top=charts.TOP,
            bottom=charts.BOTTOM,
        )
    )


@cache
def make_environment(folder: Path = _FOLDER) -> Environment:
    """Returns the environment of page templates, which escapes texts and makes them visible."""
    environment = Environment(
        loader=FileSystemLoader([folder, _FOLDER]),
        autoescape=True,
        finalize=_make_value_visible,
        undefined=StrictUndefined,
        bytecode_cache=open_template_cache(),
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {
        "compact": format_compact,
        "number": "{:,}".format,
        "px": "{:.1f}".format,
        "percent": format_percent,
        "seconds": "{:,.2f}".format,
        "match": describe_match,
        "similarity": format_similarity,
        "range_to": name_bin,
        "stage": describe_stage,
        "date": _format_date,
    }
    return environment


def _make_value_visible(value: Any) -> Any:
    """Makes a text of the template visible before it is escaped. Markup consists of such text."""
    if isinstance(value, str) and not isinstance(value, Markup):
        return make_visible(value)
    return value


def _format_date(time: str) -> str:
    return f"{datetime.fromisoformat(time):%d %B %Y, %H:%M} UTC"


@cache
def page_style() -> str:
    """Returns the style sheet of all pages."""
    return (_FOLDER / "page.css").read_text("utf-8")


@cache
def _read_script() -> str:
    return (_FOLDER / "page.js").read_text("utf-8")


@cache
def hash_script() -> str:
    """Returns the hash of the page's script for its content security policy. No other may run."""
    digest = hashlib.sha256(_read_script().encode()).digest()
    return f"sha256-{base64.b64encode(digest).decode()}"


def _list_sections(data: ReportData) -> list[tuple[str, str]]:
    has_similarities = data.cluster_sizes or data.estimated.total or data.verified.total
    sections = (
        ("clusters", "Clusters", data.clusters),
        ("warnings", "Warnings", data.all_warnings),
        ("removed", "Removed", True),
        ("charts", "Similarities", has_similarities),
        ("what-if", "Other thresholds", data.what_if),
        ("audit", "Audit", data.audit),
        ("lines", "Repeated lines", data.lines and data.lines.unit == "line"),
        ("lines", "Repeated paragraphs", data.lines and data.lines.unit == "paragraph"),
        ("passages", "Repeated passages", data.passages),
        ("merged", "Merged rows", data.merged),
        ("doubtful", "Doubtful removals", data.doubtful and data.doubtful.doubtful),
        ("lost", "Information lost", data.lost and data.lost.total.removed),
        ("leakage", "Leakage", data.leakage),
        ("boilerplate", "Boilerplate", data.boilerplate),
        ("templates", "Templates", data.templates),
        ("sources", "Sources", data.sources),
        ("hot", "Hot buckets", data.hot_buckets),
        ("rejected", "Rejected rows", data.rejected),
        ("run", "Run", True),
    )
    return [(anchor, name) for anchor, name, is_present in sections if is_present]


def _size_figure(data: ReportData) -> _SizeFigure | None:
    classes = charts.group_sizes(data.cluster_sizes)
    if not classes:
        return None
    return _SizeFigure(classes, charts.draw_sizes(classes))


def _similarity_figure(data: ReportData) -> _SimilarityFigure | None:
    if not data.estimated.total and not data.verified.total:
        return None
    counts = zip(data.verified.bins, data.estimated.counts, data.verified.counts, strict=True)
    rows = [
        _SimilarityRow(name_bin(*ends), candidates, verified)
        for ends, candidates, verified in counts
        if candidates or verified
    ]
    labels = {"exact": "Verified pairs", "estimate": "Pairs, by estimate"}
    label = labels.get(data.parameters.verify, "Pairs, not verified")
    chart = charts.draw_similarities(data.verified, data.estimated, data.parameters)
    return _SimilarityFigure(chart, rows, label)


def _threshold_slider(data: ReportData) -> _ThresholdSlider | None:
    """Returns the steps of the threshold as JSON for the script, and the pairs just above each."""
    if not data.what_if:
        return None
    groups = []
    for number, step in enumerate(data.what_if):
        pairs = [
            _compare_pair(pair) for pair in data.borderline if pair.threshold == step.threshold
        ]
        groups.append(BorderlineGroup(number, step.threshold, pairs))
    return _ThresholdSlider(json.dumps([list(step) for step in data.what_if]), groups)


def _recall_figure(data: ReportData) -> charts.Chart | None:
    if data.audit is None or not data.audit.recall.total:
        return None
    return charts.draw_recall(data.audit)


def _compare_pair(pair: BorderlinePair) -> PairComparison:
    neutral = DocumentRole.COMPARED
    is_cut = max(len(pair.text_a), len(pair.text_b)) >= BORDERLINE_CHARACTERS
    left, right = diff_markup(pair.text_a, pair.text_b, neutral, neutral, is_cut=is_cut)
    return PairComparison((pair.id_a, pair.id_b), pair.similarity, left, right)


def _compare_lossy(example: LossyExample) -> LossyPair:
    if example.in_reference and not example.text_kept:
        note = Markup("<i>The text of this document was not read.</i>")
        return LossyPair(example, note, Markup(escape(make_visible(example.text_removed))))
    left, right = diff_markup(
        example.text_kept, example.text_removed, DocumentRole.KEPT, DocumentRole.REMOVED
    )
    return LossyPair(example, left, right)


def _list_settings(data: ReportData) -> list[tuple[str, str]]:
    parameters = data.parameters
    banding = "none: every pair was compared"
    if parameters.expected_bucket is not None:
        banding = (
            f"{parameters.bands} bands of {parameters.rows} bits; "
            f"{parameters.expected_bucket:.3g} documents expected in a bucket"
        )
    elif parameters.bands:
        banding = f"{parameters.bands} bands of {parameters.rows} rows"
    threshold = f"{parameters.threshold}"
    if parameters.distance is not None:
        threshold = f"Hamming distance {parameters.distance}"
    decision = ("Threshold", threshold)
    if parameters.accept is not None:
        decision = ("Removed if", parameters.accept)
    provenance = data.provenance
    rows = []
    if provenance is not None and provenance.inputs:
        rows.append(("Inputs", ", ".join(provenance.inputs)))
    rows += [
        ("Measure", parameters.measure),
        decision,
        ("Requested recall", f"{parameters.recall}"),
        ("Shingle", parameters.shingle),
        ("Signature", f"{parameters.scheme}, {parameters.k} slots"),
        ("Banding", banding),
        ("Verification", parameters.verify),
        ("Clustering", parameters.cluster),
        ("Keep policy", parameters.keep),
    ]
    if data.peak_memory:
        rows.append(("Peak memory", format_bytes(data.peak_memory)))
    if data.total_seconds:
        rows.append(("Documents per second", f"{data.counts.read / data.total_seconds:,.0f}"))
    if data.compile_seconds:
        rows.append(("Seconds to compile kernels, once", f"{data.compile_seconds:,.1f}"))
    return rows


def choose_example(cluster: ClusterExcerpt) -> RemovedExample | None:
    """Returns the first removed document that differs from the kept one, or else the first."""
    for example in cluster.examples:
        if example.similarity is None or example.similarity < 1:
            return example
    return cluster.examples[0] if cluster.examples else None


def compare_cluster(
    cluster: ClusterExcerpt,
    left_role: DocumentRole = DocumentRole.KEPT,
    right_role: DocumentRole = DocumentRole.REMOVED,
) -> ClusterComparison:
    """Returns the kept document of a cluster beside a removed one, with marked differences."""
    example = choose_example(cluster)
    if example is None:
        text = escape(make_visible(cluster.text[:MAX_CHARACTERS]))
        return ClusterComparison(
            cluster=cluster, example=None, left=text, right=Markup(""), note="", others=()
        )
    left, right = diff_markup(cluster.text, example.text, left_role, right_role)
    return ClusterComparison(
        cluster=cluster,
        example=example,
        left=left,
        right=right,
        note="" if right else _describe_same_text(example),
        others=tuple(other for other in cluster.examples if other is not example),
    )


def diff_markup(
    left: str,
    right: str,
    left_role: DocumentRole,
    right_role: DocumentRole,
    *,
    is_cut: bool | None = None,
) -> tuple[Markup, Markup]:
    """Returns two texts as markup, with their differences marked.

    Examples:
        >>> kept, removed = diff_markup("a cat", "a dog", DocumentRole.KEPT, DocumentRole.REMOVED)
        >>> print(kept, removed)
        a <ins>cat</ins> a <del>dog</del>
    """
    left_pieces, right_pieces = diff_sides(left, right, is_cut=is_cut)
    return (
        _mark_changes(left_pieces, CHANGE_ELEMENTS[left_role]),
        _mark_changes(right_pieces, CHANGE_ELEMENTS[right_role]),
    )


def describe_equal_texts(left: str, right: str) -> str:
    """Returns a remark on two texts that read the same, of which `diff_markup` shows one."""
    if may_be_cut(left, right):
        return "Both documents begin with the same words. Only the beginnings are compared here."
    return "Both documents have the same words."


def _describe_same_text(example: RemovedExample) -> str:
    name = make_visible(example.id)
    if example.similarity == 1:
        return f"Removed, with the same words: {name}"
    match = describe_match(example.similarity)
    return f"Removed, with {match} and the same text in this excerpt: {name}"


def _mark_changes(side: Sequence[Piece], changed: Markup) -> Markup:
    parts = []
    for kind, text in side:
        if kind is SpanKind.ELIDED:
            parts.append(Markup('<span class="elided">{:,} characters</span>').format(len(text)))
        elif kind is SpanKind.EQUAL:
            parts.append(escape(text))
        else:
            parts.append(changed.format(text))
    return Markup("").join(parts)
