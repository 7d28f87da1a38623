"""Prints audits, scores on golden pairs and shadow comparisons on a terminal."""

from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from nearkin.quality.evaluate.audit import Audit
from nearkin.quality.evaluate.golden import Scores
from nearkin.quality.evaluate.shadow import ShadowComparison, ShadowSide
from nearkin.reports.similarity_bins import name_bin
from nearkin.reports.terminal.tables import format_proportion, text_table
from nearkin.runtime.number_format import (
    format_count,
    format_fraction,
    format_percent,
    format_similarity,
)
from nearkin.runtime.setting_names import name_flag
from nearkin.runtime.visible_text import make_visible


def print_audit(audit: Audit, golden_recall: float | None, console: Console) -> None:
    """Prints the precision and the recall of an audit, recall by similarity, and the advice."""
    table = Table(box=None, show_header=False, padding=(0, 2, 0, 0))
    table.add_row(Text("precision of removals", style="dim"), format_proportion(audit.precision))
    recall = f"{format_proportion(audit.recall)}, requested {audit.asked:g} at the threshold"
    table.add_row(Text("recall of pairs", style="dim"), recall)
    if golden_recall is not None:
        table.add_row(Text("recall of labelled pairs", style="dim"), format_fraction(golden_recall))
    if audit.residual is not None:
        residual = f"{format_proportion(audit.residual)} of the kept documents"
        table.add_row(Text("near-duplicates left", style="dim"), residual)
    exact_pairs = "1 pair" if audit.exact == 1 else f"{audit.exact:,} pairs"
    sample = (
        f"{audit.sampled:,} documents in {audit.seconds:.1f} s; {exact_pairs} of exact "
        "duplicates not counted"
    )
    table.add_row(Text("sample", style="dim"), sample)
    console.print(table)
    rows = [
        (
            name_bin(entry.low, entry.high),
            format_proportion(entry.recall),
            format_fraction(entry.predicted),
        )
        for entry in audit.bins
    ]
    names = ("similarity", "recall", "predicted")
    console.print(text_table("Recall by similarity, with 95 % intervals", names, rows))
    console.print(Text(audit.advice, style="bold"))


def print_scores(scored: Sequence[tuple[Mapping[str, Any], Scores]], console: Console) -> None:
    """Prints what is labelled, then the scores that are known for each combination of settings."""
    rows = []
    for settings, scores in scored:
        label = ", ".join(f"{name}={value}" for name, value in settings.items())
        estimates = (
            ("precision", scores.precision),
            ("recall", scores.recall),
            ("F1", scores.f1),
            ("Rand index, adjusted", scores.rand),
            ("B-cubed precision", scores.bcubed_precision),
            ("B-cubed recall", scores.bcubed_recall),
        )
        for name, score in estimates:
            if score is None:
                continue
            interval = f"{format_fraction(score.low)} to {format_fraction(score.high)}"
            rows.append((label, name, format_fraction(score.value), interval))
            label = ""
        if scores.unlabelled:
            rows.append((label, "unlabelled pairs in a cluster", f"{scores.unlabelled:,}", ""))
        if scores.outside and scores.rand is not None:
            outside = f"{scores.outside:,}"
            rows.append((label, "unlabelled documents in their clusters", outside, ""))
    # A title of the table would be wrapped to its width.
    console.print(Text(_describe_labels(scored[0][1]), style="italic"))
    console.print(text_table(None, ("settings", "score", "value", "95 % interval"), rows))


def _describe_labels(scores: Scores) -> str:
    closed = ", duplicates of duplicates included" if scores.is_closed else ""
    text = (
        f"{scores.documents:,} labelled documents: {scores.duplicates:,} pairs of duplicates"
        f"{closed}, {scores.distinct:,} pairs of distinct documents"
    )
    if scores.precision is None:
        closing = name_flag("closure")
        text += f"; precision needs pairs of distinct documents (label 0, or {closing})"
    return text


def print_shadow(comparison: ShadowComparison, console: Console) -> None:
    """Prints two settings side by side, then the pairs that only one of them found."""
    live = _side_column(comparison.live)
    shadow = _side_column(comparison.shadow)
    rows = [(name, live[name], shadow[name]) for name in live]
    title = "Two settings over the same signatures"
    console.print(text_table(title, ("", "run", "shadow"), rows))
    console.print(
        Text(
            f"{format_percent(comparison.agreement)} of all pairs were found by both; "
            f"{comparison.only_live:,} only by the run, {comparison.only_shadow:,} only by the "
            f"shadow. Kept by one and removed by the other: "
            f"{format_count(comparison.moved, 'document')}"
        )
    )
    if comparison.disagreements:
        pairs = [
            (
                make_visible(pair.id_a),
                make_visible(pair.id_b),
                format_similarity(pair.similarity),
                "run" if pair.found_by == "live" else pair.found_by,
                pair.why,
            )
            for pair in comparison.disagreements
        ]
        names = ("document", "document", "similarity", "found by", "missed because")
        console.print(text_table("Pairs found by one of them", names, pairs))


def _side_column(side: ShadowSide) -> dict[str, str]:
    metrics = side.metrics
    compared_all = "every pair compared"
    banding = f"{side.bands} × {side.rows}" if side.bands else compared_all
    candidates = compared_all if side.candidates is None else f"{side.candidates:,}"
    dropped = ""
    if metrics.verify_drop_rate is not None:
        dropped = format_percent(metrics.verify_drop_rate)
    largest_bucket = ""
    if metrics.bucket_size_max is not None:
        largest_bucket = f"{metrics.bucket_size_max:,}"
    column = {
        "threshold": f"{side.threshold:g}",
        "bands × rows": banding,
        "candidates": candidates,
        "verified pairs": f"{side.pairs:,}",
        "documents kept": f"{side.kept:,}",
        "share of the pairs found by either": format_fraction(side.recall, digits=4),
        "dropped by verification": dropped,
        "largest bucket": largest_bucket,
        "seconds": ", ".join(f"{stage} {seconds:.2f}" for stage, seconds in side.seconds.items()),
    }
    if side.scores is not None:
        if side.scores.precision is not None:
            column["precision, labelled"] = format_proportion(side.scores.precision)
        column["recall, labelled"] = format_proportion(side.scores.recall)
    return column
