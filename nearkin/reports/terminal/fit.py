"""Prints the result of a fit on a terminal of 80 columns."""

from collections.abc import Sequence

from rich.console import Console
from rich.table import Table
from rich.text import Text

from nearkin.engine.chosen_settings import ChosenSettings
from nearkin.quality.evaluate.intervals import Estimate
from nearkin.quality.fit.result import FitResult, FittedSettings, LabelCounts, WrongPair
from nearkin.reports.terminal.tables import text_table
from nearkin.runtime.number_format import format_count, format_fraction, format_similarity
from nearkin.runtime.setting_names import name_setting
from nearkin.runtime.visible_text import make_visible
from nearkin.settings.choices import ClusterMethod

EXCERPT_LENGTH = 160
"""The number of characters of a text that are shown."""
SHOWN_EXAMPLES = 10
"""The number of wrong pairs of each kind that are shown."""


def print_fit(fitted: FitResult, console: Console) -> None:
    """Prints what was labelled, the best settings, what to expect, and wrong pairs with texts."""
    console.print(Text(_describe_labels(fitted.labels), style="italic"))
    rows = [_choice_row(choice, "") for choice in fitted.choices]
    if fitted.default is not None:
        rows.append(_choice_row(fitted.default, "defaults: "))
    names = ("settings", "threshold", "precision", "recall", "F1")
    console.print(text_table(None, names, rows))
    console.print()
    pairs = None if fitted.best.removals is None else fitted.best.removals.pairs
    if fitted.held_out is not None:
        has_trial = "" if pairs is None else " and a trial over the inputs"
        console.print(
            f"Expected on other documents (cross-validation over {len(fitted.held_out.folds)} "
            f"parts{has_trial}, with 95 % intervals):",
            highlight=False,
        )
        scores = Table(box=None, show_header=False, padding=(0, 2, 0, 0))
        for name, score in (
            ("precision", fitted.held_out.precision),
            ("recall", fitted.held_out.recall),
            ("F1", fitted.held_out.f1),
        ):
            scores.add_row(Text(name, style="dim"), format_interval(score))
        kept = fitted.held_out.kept
        if kept is not None:
            scores.add_row(Text("clusters lost", style="dim"), format_fraction(kept.lost_share))
            scores.add_row(Text("copies removed", style="dim"), format_fraction(kept.removed_share))
        console.print(scores)
    if pairs is not None:
        console.print(Text(f"In the trial, {pairs.describe()}"))
    false_count = format_count(fitted.false_count, "distinct pair")
    missed_count = format_count(fitted.missed_count, "pair")
    found_phrase = "is found" if fitted.false_count == 1 else "are found"
    missed_phrase = "is not found" if fitted.missed_count == 1 else "are not found"
    _print_wrong(f"{false_count} {found_phrase}", fitted.false_pairs, console)
    _print_wrong(f"{missed_count} of duplicates {missed_phrase}", fitted.missed_pairs, console)


def print_chosen(chosen: ChosenSettings, console: Console) -> None:
    """Prints what was tried without labels, and the settings that were chosen."""
    documents = format_count(chosen.documents, "document")
    console.print(Text(f"{chosen.sampled:,} of {documents} were compared", style="italic"))
    rows = []
    for tried in chosen.tried:
        threshold = "–" if tried.threshold is None else f"{tried.threshold:g}"
        undoubted = "–" if tried.threshold is None else f"{tried.undoubted:,.0f}"
        name = f"{tried.shingle} {tried.measure}"
        if tried.accept is not None:
            name = "weights of columns"
        rows.append((name, threshold, f"{tried.removed:,}", undoubted))
    if rows:
        names = ("settings", "threshold", "near-duplicates", "without doubt")
        console.print(text_table(None, names, rows))
        console.print()
    console.print(Text(f"chosen: {chosen.describe()}", style="bold"))


def format_interval(score: Estimate) -> str:
    """Returns a score with its interval.

    Examples:
        >>> format_interval(Estimate(0.9, 0.85, 0.95))
        '0.900 (0.850 to 0.950)'
    """
    low = format_fraction(score.low)
    return f"{format_fraction(score.value)} ({low} to {format_fraction(score.high)})"


def _describe_labels(labels: LabelCounts) -> str:
    duplicates = format_count(labels.duplicates, "pair")
    text = f"{format_count(labels.documents, 'labelled document')}: {duplicates} of duplicates"
    if labels.clusters is not None:
        text += f" in {labels.clusters:,} clusters"
    if labels.distinct is not None:
        distinct = format_count(labels.distinct, "distinct pair")
        text += f", {distinct}; each pair is judged by itself"
    if labels.left_out:
        text += f" ({labels.left_out:,} more were left out; see {name_setting('sample')})"
    return text


def _choice_row(fitted: FittedSettings, prefix: str) -> tuple[str, ...]:
    definition = fitted.definition
    name = f"{prefix}{definition.measure}"
    if definition.unit != "vector":
        name = f"{prefix}{definition.unit}:{definition.n} {definition.measure}"
    if definition.added:
        name += f"\n  +{', '.join(definition.added)}"
    if definition.conditions:
        name += f"\n  and {' and '.join(definition.conditions)}"
    if definition.columns:
        name += f"\n  of {make_visible(', '.join(definition.columns))}"
    if definition.cluster == ClusterMethod.COMPONENTS:
        name += "\n  components"
    if definition.floor is not None:
        name += f", floor {definition.floor:g}"
    scores = (fitted.precision, fitted.recall, fitted.f1)
    return (name, f"{fitted.threshold:g}", *(format_fraction(score.value) for score in scores))


def _print_wrong(title: str, pairs: Sequence[WrongPair], console: Console) -> None:
    if not pairs:
        return
    console.print()
    console.print(Text(f"{title}, for example:", style="bold"))
    table = Table(box=None, padding=(0, 2, 1, 0), show_header=False, expand=True)
    table.add_column(width=5)
    table.add_column(ratio=1)
    table.add_column(ratio=1)
    for pair in pairs[:SHOWN_EXAMPLES]:
        table.add_row(
            format_similarity(pair.similarity),
            _format_document(pair.id_a, pair.text_a),
            _format_document(pair.id_b, pair.text_b),
        )
    console.print(table)


def _format_document(id: str, text: str) -> Text:
    """Returns the id and the beginning of a text, which may be hostile."""
    excerpt = " ".join(text[: 4 * EXCERPT_LENGTH].split())
    if len(excerpt) > EXCERPT_LENGTH:
        excerpt = f"{excerpt[:EXCERPT_LENGTH]}…"
    quoted = Text(make_visible(id), style="dim")
    quoted.append(f"\n{make_visible(excerpt)}", style="not dim")
    return quoted
