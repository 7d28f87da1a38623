"""The end of a run on a terminal: a compact summary, and clusters worth looking at."""

import math
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from rich.console import Console
from rich.rule import Rule
from rich.table import Table
from rich.text import Text

from nearkin.evaluate.audit import Audit, Share
from nearkin.evaluate.golden import Scores
from nearkin.evaluate.shadow import Shadow, Side
from nearkin.plan.capacity import Line, Plan, Verdict, by_part
from nearkin.plan.tune import Tuning
from nearkin.report.curves import name_of
from nearkin.report.diff import Kind, Span, diff_words, focus
from nearkin.report.escaping import visible
from nearkin.report.model import Cluster, ReportData
from nearkin.report.page import bytes_text, fates, percent, similarity_text, telling_example

EXCERPT_LINES = 14
CONTEXT = 160
"""Characters in common shown before a change."""
OUTPUTS = (
    ("kept documents", "kept"),
    ("clusters", "clusters.parquet"),
    ("pairs", "pairs.parquet"),
    ("rejected rows", "rejected.jsonl"),
    ("report", "report.html"),
    ("facts of the run", "run.json"),
)


class _Mark(NamedTuple):
    """How changed words are shown: a style, and signs around them where styles are lost."""

    style: str
    opening: str = ""
    closing: str = ""


STYLED = (_Mark("red strike"), _Mark("green underline"))
PLAIN = (_Mark("", "[-", "-]"), _Mark("", "{+", "+}"))


def print_summary(data: ReportData, console: Console, out: Path | None = None) -> None:
    """The headline, numbers by outcome, warnings, and where things are.

    Args:
        data: Of the run.
        console: Of standard error, usually.
        out: The run's output folder; those of its files that exist are listed.
    """
    console.print()
    console.print(Text(data.headline, style="bold"))
    console.print(_fates_table(data))
    if data.total_seconds:
        console.print(Text(_speed(data), style="dim"))
    for warning in data.all_warnings:
        console.print(Text.assemble(("warning ", "yellow"), visible(warning)))
    if out is not None:
        console.print(_places(out))


def _fates_table(data: ReportData) -> Table:
    table = Table(box=None, show_header=False, padding=(0, 2, 0, 0))
    table.add_column()
    table.add_column(justify="right")
    table.add_column(justify="right", style="dim")
    for fate in fates(data):
        table.add_row(fate.name, f"{fate.rows:,}", percent(fate.share))
    return table


def _speed(data: ReportData) -> str:
    speed = f"{data.total_seconds:,.2f} s, {data.counts.read / data.total_seconds:,.0f} documents/s"
    return f"{speed}, peak memory {bytes_text(data.peak_memory)}" if data.peak_memory else speed


def _places(out: Path) -> Table:
    table = Table(box=None, show_header=False, padding=(0, 2, 0, 0))
    for name, file in OUTPUTS:
        if (out / file).exists():
            table.add_row(
                Text(name),
                Text(
                    visible(str(out / file)),
                    style="bold" if name == "report" else "",
                    overflow="fold",
                ),
            )
    return table


def print_clusters(data: ReportData, console: Console, top: int = 10) -> None:
    """The most interesting clusters, the kept document beside a removed one, differences highlighted: by colour and line, or as
    `[-kept-]` and `{+removed+}` where the console is a file or a pipe.

    Args:
        data: Its `clusters` are what is chosen from; give more than the report's twenty for a wider choice.
        console: Where to print.
        top: How many.
    """
    for rank, cluster in enumerate(most_interesting(data.clusters, top), 1):
        console.print()
        console.print(
            Rule(Text(f"{rank}  {cluster.members:,} documents"), align="left", style="dim")
        )
        console.print(side_by_side_table(cluster, console.is_terminal, ("kept", "removed")))


def side_by_side_table(cluster: Cluster, styled: bool, labels: tuple[str, str]) -> Table:
    """The kept document beside a removed one, differences highlighted.

    Args:
        cluster: Its telling example is shown.
        styled: By colour and line, else as `[-left-]` and `{+right+}`.
        labels: What the two are.
    """
    marks = STYLED if styled else PLAIN
    example = telling_example(cluster)
    table = Table(box=None, expand=True, padding=(0, 2, 0, 0), header_style="")
    table.add_column(
        Text.assemble((f"{labels[0]}\n", "dim"), (visible(cluster.id), "bold")),
        ratio=1,
        overflow="fold",
    )
    if example is None:
        table.add_row(_excerpt([(Kind.EQUAL, visible(cluster.text))], marks[0]))
        return table
    similar = similarity_text(example.similarity)
    removed = Text.assemble(
        (f"{labels[1]}, {similar} similar\n", "dim"), (visible(example.id), "bold")
    )
    table.add_column(removed, ratio=1, overflow="fold")
    spans = _from_first_change(
        focus(diff_words(visible(cluster.text), visible(example.text)), CONTEXT)
    )
    left = _excerpt([(span.kind, span.left) for span in spans], marks[0])
    right = _excerpt([(span.kind, span.right) for span in spans], marks[1])
    table.add_row(left, right)
    return table


def _from_first_change(spans: Sequence[Span]) -> Sequence[Span]:
    """Without a long beginning in common, which `focus` has made one elided span."""
    return spans[1:] if len(spans) > 1 and spans[0].kind is Kind.ELIDED else spans


def _excerpt(side: Sequence[tuple[Kind, str]], mark: _Mark) -> Text:
    """The first lines of one side, changes marked."""
    text = Text()
    for kind, part in side:
        core = part.rstrip()
        if kind is Kind.ELIDED:
            text.append("⋯\n", "dim")
        elif kind is Kind.EQUAL:
            text.append(part)
        else:
            text.append(f"{mark.opening}{core}{mark.closing}" if core else "", mark.style)
            text.append(part[len(core) :])
    text.expand_tabs(4)
    return Text("\n").join(text.split("\n")[:EXCERPT_LINES])


def most_interesting(clusters: Sequence[Cluster], top: int = 10) -> list[Cluster]:
    """The clusters that say most about copied text, best first; ties in the given order.

    The points of a cluster:

    - 3 where its documents come from different packages (the first folder of their ids): code that travelled.
    - 2 where an example is a near duplicate: there is a difference to look at.
    - up to 2 for length: one per thousand characters of the kept excerpt.
    - up to 1 for members: a third for each doubling up to eight; beyond, size speaks of boilerplate.
    - 1 less for each better cluster of the same packages, so that one vendored package does not fill the list.

    Examples:
        >>> from nearkin.report.model import Example
        >>> near = Cluster("left/a.py:f:1", "x" * 900, 2, (Example("right/b.py:f:1", 0.9, "y"),))
        >>> exact = Cluster("left/a.py:g:1", "x" * 900, 9, (Example("left/b.py:g:1", 1.0, "x"),))
        >>> [cluster.id for cluster in most_interesting([exact, near], top=1)]
        ['left/a.py:f:1']
    """
    seen: dict[frozenset[str], int] = {}
    scored = []
    for cluster in sorted(clusters, key=_points, reverse=True):
        packages = _packages(cluster)
        scored.append((_points(cluster) - seen.get(packages, 0), cluster))
        seen[packages] = seen.get(packages, 0) + 1
    return [cluster for _, cluster in sorted(scored, key=lambda entry: -entry[0])[:top]]


def _points(cluster: Cluster) -> float:
    points = 3.0 * (len(_packages(cluster)) > 1) + 2.0 * any(
        example.similarity < 1 for example in cluster.examples
    )
    return (
        points
        + min(len(cluster.text) / 1000, 2.0)
        + min(math.log2(max(cluster.members, 1)), 3.0) / 3
    )


def _packages(cluster: Cluster) -> frozenset[str]:
    """First folders of the ids of the kept document and the examples."""
    ids = (cluster.id, *(example.id for example in cluster.examples))
    return frozenset(name.partition(":")[0].partition("/")[0] for name in ids)


def plain_table(title: str, names: Sequence[str], rows: Iterable[Sequence[str]]) -> Table:
    """A table of text, all columns but the first to the right."""
    table = Table(title=title, title_justify="left", box=None)
    for i, name in enumerate(names):
        table.add_column(name, justify="right" if i else "left")
    for row in rows:
        table.add_row(*map(Text, row))
    return table


def tuning_table(tuning: Tuning, show: int) -> Table:
    """Operating points, cheapest first."""
    names = (
        "b × r",
        "recall",
        "0.1 %",
        "50 %",
        "99 %",
        "(1/b)^1/r",
        "steepest",
        "slope",
        "cand./doc",
        "keys",
    )
    rows = [
        (
            name_of(point),
            f"{point.recall:.4f}",
            *(number(similarity) for similarity in point.similarities),
            number(point.classic_threshold),
            number(point.steepest),
            number(point.slope),
            f"{point.candidates:,.4g}",
            str(point.keys),
        )
        for point in tuning.points[:show]
    ]
    about = (
        f"{tuning.spec.measure}, k = {tuning.spec.k}: recall {tuning.recall} at {tuning.threshold}, "
        f"{tuning.distribution.documents:,} documents ({tuning.distribution.source})"
    )
    return plain_table(about, names, rows)


def number(value: float) -> str:
    """Three decimals; nothing where there is none."""
    return "" if math.isnan(value) else f"{value:.3f}"


def share_text(share: Share) -> str:
    """As `0.953 (0.941 to 0.963 of 1,204)`."""
    return (
        f"{share.value:.3f} ({share.low:.3f} to {share.high:.3f} of {share.total:,})"
        if share.total
        else "none"
    )


def print_audit(found: Audit, console: Console) -> None:
    """Both measures, recall by similarity, and what follows."""
    table = Table(box=None, show_header=False, padding=(0, 2, 0, 0))
    table.add_row(Text("precision of removals", style="dim"), share_text(found.precision))
    table.add_row(
        Text("recall of pairs", style="dim"),
        f"{share_text(found.recall)}, asked {found.asked:g} at the threshold",
    )
    table.add_row(
        Text("sample", style="dim"),
        f"{found.sampled:,} documents, {found.exact:,} exact pairs apart, {found.seconds:.1f} s",
    )
    console.print(table)
    rows = [
        (f"{b.low:.2f} to {b.high:.2f}", share_text(b.recall), f"{b.predicted:.3f}")
        for b in found.bins
    ]
    console.print(
        plain_table(
            "Recall by similarity, 95 % interval", ("similarity", "recall", "predicted"), rows
        )
    )
    console.print(Text(found.advice, style="bold"))


def scores_table(found: Sequence[tuple[Mapping[str, Any], Scores]]) -> Table:
    """Six figures of each setting."""
    rows = []
    for settings, scores in found:
        name = ", ".join(f"{name}={value}" for name, value in settings.items())
        for figure, one in (
            ("precision", scores.precision),
            ("recall", scores.recall),
            ("F1", scores.f1),
            ("Rand index, adjusted", scores.rand),
            ("B-cubed precision", scores.bcubed_precision),
            ("B-cubed recall", scores.bcubed_recall),
        ):
            value = one if isinstance(one, float) else one.value
            interval = "" if isinstance(one, float) else f"{one.low:.3f} to {one.high:.3f}"
            rows.append((name, figure, f"{value:.3f}", interval))
            name = ""
    about = f"{found[0][1].documents:,} labelled documents"
    return plain_table(about, ("settings", "figure", "value", "95 % interval"), rows)


def print_shadow(found: Shadow, console: Console) -> None:
    """Two settings side by side, then the pairs that only one of them found."""
    columns = [_side_column(side) for side in (found.live, found.shadow)]
    rows = [(name, columns[0][name], columns[1][name]) for name in columns[0]]
    console.print(plain_table("Two settings over the same signatures", ("", "run", "shadow"), rows))
    console.print(
        Text(
            f"{found.agreement:.1%} of the pairs of either are of both; {found.only_live:,} only of the run, "
            f"{found.only_shadow:,} only of the shadow; {found.moved:,} documents kept by one and removed by the other"
        )
    )
    if found.disagreements:
        listed = [
            (visible(d.id_a), visible(d.id_b), f"{d.similarity:.3f}", d.found_by, d.why)
            for d in found.disagreements
        ]
        table = plain_table(
            "Found by one of them",
            ("document", "document", "similarity", "found by", "missed because"),
            listed,
        )
        console.print(table)


def _side_column(side: Side) -> dict[str, str]:
    metrics, nothing = side.metrics, "every pair compared"
    out = {
        "threshold": f"{side.threshold:g}",
        "bands × rows": f"{side.bands} × {side.rows}" if side.bands else nothing,
        "candidates": nothing if side.candidates is None else f"{side.candidates:,}",
        "verified pairs": f"{side.pairs:,}",
        "documents kept": f"{side.kept:,}",
        "recall of the pairs of either": f"{side.recall:.4f}",
        "dropped by verification": ""
        if metrics.verify_drop_rate is None
        else percent(metrics.verify_drop_rate),
        "largest bucket": "" if metrics.bucket_size_max is None else f"{metrics.bucket_size_max:,}",
        "seconds": ", ".join(f"{stage} {seconds:.2f}" for stage, seconds in side.seconds.items()),
    }
    if side.scores is not None:
        out["precision, labelled"] = share_text(side.scores.precision)
        out["recall, labelled"] = share_text(side.scores.recall)
    return out


def print_plan(found: Plan, console: Console) -> None:
    """Every number with its formula, then the limits and what would have to give."""
    work = found.workload
    about = f"{work.documents:,} documents, threshold {work.threshold:g}, recall {work.recall:g}, engine {work.engine}"
    console.print(Text(about, style="bold"))
    console.print(Text(f"rates: {visible(found.rates)}", style="dim"))
    for part, lines in by_part(found):
        table = Table(
            title=part, title_justify="left", box=None, show_header=False, padding=(0, 2, 0, 0)
        )
        table.add_column(min_width=26)
        table.add_column(justify="right", no_wrap=True)
        table.add_column(style="dim")
        for line in lines:
            table.add_row(Text(line.name), quantity(line), Text(line.formula))
        console.print(table)
    for verdict in found.verdicts:
        console.print(_verdict(verdict))


def quantity(line: Line | Verdict, value: float | None = None) -> str:
    """A number with its unit, as people write it.

    Examples:
        >>> [quantity(Line("", "", value, unit, "")) for value, unit in ((307.2e9, "B"), (192e6, "/s"), (31.25, ""))]
        ['307.2 GB', '192 M/s', '31.25']
    """
    amount = (line.value if isinstance(line, Line) else line.needed) if value is None else value
    if line.unit in ("B", "B/s"):
        units = ((1e12, "TB"), (1e9, "GB"), (1e6, "MB"), (1e3, "kB"), (1.0, "B"))
        scale, name = next(((scale, name) for scale, name in units if amount >= scale), units[-1])
        return f"{amount / scale:,.4g} {name}{line.unit[1:]}"
    if line.unit == "s" and amount >= 120:
        return f"{amount / 60:,.1f} min" if amount < 7200 else f"{amount / 3600:,.1f} h"
    for scale, name in ((1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M")):
        if amount >= scale:
            return f"{amount / scale:,.4g} {name}{line.unit}"
    return (
        f"{amount:,.4g} {line.unit}".rstrip()
        if amount < 1e4
        else f"{amount:,.0f} {line.unit}".rstrip()
    )


def _verdict(verdict: Verdict) -> Text:
    relation = "at least" if verdict.limit == "recall" else "at most"
    asked, needed = quantity(verdict, verdict.asked), quantity(verdict)
    head = ("holds ", "green") if verdict.holds else ("fails ", "red")
    text = Text.assemble(head, f"{verdict.limit}: {needed}, {relation} {asked} asked")
    for give in verdict.gives:
        text.append(f"\n        instead: {give}", "dim")
    return text
