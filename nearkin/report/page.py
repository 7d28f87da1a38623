"""The report as one HTML page that loads nothing, runs its one known script, and cannot be changed by what documents say."""

import base64
import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup, escape

from nearkin.evaluate.boilerplate import LEAST_SHARE
from nearkin.report import charts
from nearkin.report.charts import compact
from nearkin.report.diff import MAX_CHARACTERS, Kind, Piece, diff_sides
from nearkin.report.escaping import visible
from nearkin.report.model import EDGES, NOTABLE_LOSS, Borderline, Cluster, Example, ReportData

MAX_CLUSTERS = 20
MAX_SOURCES = 100
_FOLDER = Path(__file__).parent


class Fate(NamedTuple):
    """Rows with one outcome."""

    key: str
    name: str
    why: str
    rows: int
    share: float


@dataclass(frozen=True)
class Pair:
    """A cluster as the page shows it: the kept document beside a removed one.

    Attributes:
        cluster: The cluster.
        example: The removed document shown, or None.
        left: The kept document's excerpt as markup.
        right: The removed one's; empty where it reads the same.
        note: What the reader could wonder about.
        others: Further removed members.
    """

    cluster: Cluster
    example: Example | None
    left: Markup
    right: Markup
    note: str
    others: tuple[Example, ...]


class Compared(NamedTuple):
    """Two documents side by side, differences marked; `right` is empty where it reads the same."""

    names: tuple[str, str]
    similarity: float
    left: Markup
    right: Markup


class Parting(NamedTuple):
    """The pairs just above a threshold."""

    number: int
    threshold: float
    pairs: list[Compared]


class _SimilarityRow(NamedTuple):
    label: str
    candidates: int
    verified: int


def render(data: ReportData) -> str:
    """The whole page: HTML with style and charts inline, to be written as UTF-8."""
    leaks = data.leakage.leaks if data.leakage else ()
    shown = sorted(data.sources, key=lambda source: (-source.read, source.source))
    return (
        _environment()
        .get_template("page.html")
        .render(
            data=data,
            style=Markup(_style()),
            fates=fates(data),
            sections=_sections(data),
            sizes=_sizes(data),
            similarity=_similarity(data),
            what_if=_what_if(data),
            script=Markup(_script()),
            script_hash=script_hash(),
            recall_chart=charts.recall_chart(data.audit)
            if data.audit and data.audit.recall.total
            else None,
            leaks=leaks,
            boilerplate=data.boilerplate,
            least_share=LEAST_SHARE,
            sources=shown[:MAX_SOURCES],
            more_sources=len(shown[MAX_SOURCES:]),
            notable=NOTABLE_LOSS,
            pairs=[side_by_side(cluster) for cluster in data.clusters[:MAX_CLUSTERS]],
            settings=_settings(data),
            stages=[(*stage, stage.seconds / (data.total_seconds or 1)) for stage in data.seconds],
            width=charts.WIDTH,
            height=charts.HEIGHT,
            left=charts.LEFT,
            right=charts.RIGHT,
            top=charts.TOP,
            bottom=charts.BOTTOM,
        )
    )


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=FileSystemLoader(_FOLDER),
        autoescape=True,
        finalize=_shown,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {
        "compact": compact,
        "number": "{:,}".format,
        "px": "{:.1f}".format,
        "percent": percent,
        "seconds": "{:,.2f}".format,
        "similarity": similarity_text,
    }
    return environment


def _shown(value: Any) -> Any:
    """Every text that the template puts out passes here before it is escaped; markup was made of such text."""
    return visible(value) if isinstance(value, str) and not isinstance(value, Markup) else value


@cache
def _style() -> str:
    return (_FOLDER / "page.css").read_text("utf-8")


@cache
def _script() -> str:
    return (_FOLDER / "page.js").read_text("utf-8")


@cache
def script_hash() -> str:
    """Of the page's one script, as a content security policy names it: nothing else may run."""
    digest = hashlib.sha256(_script().encode()).digest()
    return f"sha256-{base64.b64encode(digest).decode()}"


def percent(share: float) -> str:
    """A share that is neither nothing nor everything never reads as 0 % or 100 %.

    Examples:
        >>> [percent(share) for share in (0, 0.00001, 0.256, 0.99999, 1)]
        ['0%', '<0.1%', '25.6%', '>99.9%', '100%']
    """
    if share in (0, 1):
        return f"{share:.0%}"
    if share < 0.0005:
        return "<0.1%"
    return ">99.9%" if share > 0.9995 else f"{share:.1%}"


def similarity_text(similarity: float) -> str:
    """Three digits, rounded down: only equal sets read as 1.

    Examples:
        >>> similarity_text(0.99996), similarity_text(0.8), similarity_text(1.0)
        ('0.999', '0.800', '1.000')
    """
    return f"{int(similarity * 1000 + 1e-9) / 1000:.3f}"


def bytes_text(size: int) -> str:
    """Bytes in decimal units.

    Examples:
        >>> bytes_text(812), bytes_text(1_340_000_000)
        ('812 B', '1.3 GB')
    """
    for unit, name in ((10**9, "GB"), (10**6, "MB"), (10**3, "kB")):
        if size >= unit:
            return f"{size / unit:.1f} {name}"
    return f"{size} B"


def fates(data: ReportData) -> list[Fate]:
    """Rows by outcome; those that did not occur are left out but for the three that always interest."""
    counts = data.counts
    similar = f"similar to a kept document, at least {data.parameters.threshold} by {data.parameters.verify} comparison"
    if data.parameters.verify == "none":
        similar = "shares a band with a kept document (not verified)"
    same = "vector" if data.parameters.measure == "cosine" else "words in the same order"
    rows = [
        ("kept", "Kept", "unique, or chosen from its cluster", counts.kept),
        ("exact", "Exact duplicates", f"the same {same} as a kept document", counts.removed_exact),
        ("near", "Near duplicates", similar, counts.removed_near),
        (
            "vector",
            "Near by vector",
            f"similar to a kept document by {data.parameters.then}",
            counts.removed_vector,
        ),
        ("empty", "Empty", "no words; dropped as asked", counts.removed_empty),
        ("rejected", "Quarantined", "could not be read", counts.rejected),
    ]
    always = ("kept", "exact", "near")
    return [Fate(*row, row[3] / (counts.read or 1)) for row in rows if row[3] or row[0] in always]


def _sections(data: ReportData) -> list[tuple[str, str]]:
    """(anchor, name) of the sections the page has."""
    candidates = (
        ("warnings", "Warnings", data.all_warnings),
        ("removed", "Removed", True),
        (
            "charts",
            "Similarities",
            data.cluster_sizes or data.estimated.total or data.verified.total,
        ),
        ("what-if", "Another threshold", data.what_if),
        ("audit", "Audit", data.audit),
        ("sources", "Sources", data.sources),
        ("leakage", "Leakage", data.leakage),
        ("boilerplate", "Boilerplate", data.boilerplate),
        ("clusters", "Clusters", data.clusters),
        ("hot", "Hot buckets", data.hot_buckets),
        ("rejected", "Quarantine", data.rejected),
        ("run", "The run", True),
    )
    return [(anchor, name) for anchor, name, present in candidates if present]


def _sizes(data: ReportData) -> dict[str, Any] | None:
    classes = charts.size_classes(data.cluster_sizes)
    return {"classes": classes, "chart": charts.size_chart(classes)} if classes else None


def _similarity(data: ReportData) -> dict[str, Any] | None:
    if not data.estimated.total and not data.verified.total:
        return None
    rows = [
        _SimilarityRow(f"{EDGES[i]:.2f} to {EDGES[i + 1]:.2f}", candidates, verified)
        for i, (candidates, verified) in enumerate(
            zip(data.estimated.counts, data.verified.counts, strict=True)
        )
        if candidates or verified
    ]
    scored = {"exact": "Verified pairs", "estimate": "Pairs, by estimate"}.get(
        data.parameters.verify, "Pairs, not verified"
    )
    chart = charts.similarity_chart(data.verified, data.estimated, data.parameters)
    return {"chart": chart, "rows": rows, "scored": scored}


def _what_if(data: ReportData) -> dict[str, Any] | None:
    """Steps as numbers for the script, and the pairs just above each."""
    if not data.what_if:
        return None
    parting = [
        Parting(
            number,
            step.threshold,
            [_compared(pair) for pair in data.borderline if pair.threshold == step.threshold],
        )
        for number, step in enumerate(data.what_if)
    ]
    return {"steps": json.dumps([list(step) for step in data.what_if]), "parting": parting}


def _compared(pair: Borderline) -> Compared:
    left, right = diff_markup(pair.text_a, pair.text_b)
    return Compared((pair.id_a, pair.id_b), pair.similarity, left, right)


def _settings(data: ReportData) -> list[tuple[str, str]]:
    chosen = data.parameters
    banding = (
        f"{chosen.bands} bands of {chosen.rows} rows"
        if chosen.bands
        else "none: every pair was compared"
    )
    if chosen.expected_bucket is not None:
        banding = f"{chosen.bands} bands of {chosen.rows} bits; {chosen.expected_bucket:.3g} documents expected in a bucket"
    rows = [
        ("Measure", chosen.measure),
        (
            "Threshold",
            f"{chosen.threshold}"
            if chosen.distance is None
            else f"Hamming distance {chosen.distance}",
        ),
        ("Recall asked for", f"{chosen.recall}"),
        ("Shingle", chosen.shingle),
        ("Signature", f"{chosen.scheme}, {chosen.k} slots"),
        ("Banding", banding),
        ("Verification", chosen.verify),
        ("Clusters", chosen.cluster),
        ("Keep", chosen.keep),
    ]
    if data.peak_memory:
        rows.append(("Peak memory", bytes_text(data.peak_memory)))
    if data.total_seconds:
        rows.append(("Documents per second", f"{data.counts.read / data.total_seconds:,.0f}"))
    return rows


def telling_example(cluster: Cluster) -> Example | None:
    """The first removed member that is not equal to the kept one, else the first."""
    near = (example for example in cluster.examples if example.similarity < 1)
    return next(near, cluster.examples[0] if cluster.examples else None)


def side_by_side(cluster: Cluster) -> Pair:
    """A cluster's kept document and its telling example, differences marked."""
    example = telling_example(cluster)
    if example is None:
        return Pair(
            cluster, None, escape(visible(cluster.text[:MAX_CHARACTERS])), Markup(""), "", ()
        )
    others = tuple(other for other in cluster.examples if other is not example)
    left, right = diff_markup(cluster.text, example.text)
    return Pair(cluster, example, left, right, "" if right else _same_note(example), others)


def diff_markup(a: str, b: str) -> tuple[Markup, Markup]:
    """Both texts with their differences marked; the second is empty where they read the same."""
    left, right = diff_sides(a, b)
    return _marked(left, Markup("<del>{}</del>")), _marked(right, Markup("<ins>{}</ins>"))


def _same_note(example: Example) -> str:
    if example.similarity == 1:
        return f"Removed, with the same words: {visible(example.id)}"
    similar = similarity_text(example.similarity)
    return (
        f"Removed, {similar} similar and the same as far as the excerpt goes: {visible(example.id)}"
    )


def _marked(side: Sequence[Piece], changed: Markup) -> Markup:
    """One side's text, changes wrapped."""
    parts = []
    for kind, text in side:
        if kind is Kind.ELIDED:
            parts.append(Markup('<span class="elided">{:,} characters</span>').format(len(text)))
        else:
            parts.append(escape(text) if kind is Kind.EQUAL else changed.format(text))
    return Markup("").join(parts)
