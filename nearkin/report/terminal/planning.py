"""Prints capacity plans and operating points on a terminal."""

from rich.console import Console
from rich.table import Table
from rich.text import Text

from nearkin.plan.capacity import LimitVerdict, Line, Plan, group_lines
from nearkin.plan.tune import Tuning
from nearkin.report.curves import format_banding
from nearkin.report.escaping import make_visible
from nearkin.report.terminal.tables import format_number, text_table
from nearkin.runtime.number_format import format_fraction

BYTE_UNITS = ((1e12, "TB"), (1e9, "GB"), (1e6, "MB"), (1e3, "kB"), (1.0, "B"))
COUNT_UNITS = ((1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M"))


def print_plan(plan: Plan, console: Console) -> None:
    """Prints every number of a plan with its formula, then the limits and the alternatives.

    Args:
        plan: Capacity plan.
        console: Console to print to.
    """
    workload = plan.workload
    title = (
        f"{workload.documents:,} documents, threshold {workload.threshold:g}, "
        f"recall {workload.recall:g}, engine {workload.engine}"
    )
    console.print(Text(title, style="bold"))
    console.print(Text(f"rates: {make_visible(plan.rates)}", style="dim"))
    for part, lines in group_lines(plan):
        table = Table(
            title=part, title_justify="left", box=None, show_header=False, padding=(0, 2, 0, 0)
        )
        table.add_column(min_width=26)
        table.add_column(justify="right", no_wrap=True)
        table.add_column(style="dim")
        for line in lines:
            table.add_row(Text(line.name), format_line(line), Text(line.formula))
        console.print(table)
    for verdict in plan.verdicts:
        console.print(_verdict_text(verdict))


def format_line(line: Line) -> str:
    """Formats the number of a line with its unit.

    Examples:
        >>> lines = [Line("", "", value, unit, "") for value, unit in ((307.2e9, "B"), (31.25, ""))]
        >>> [format_line(line) for line in lines]
        ['307.2 GB', '31.25']
    """
    return format_quantity(line.value, line.unit)


def format_quantity(amount: float, unit: str) -> str:
    """Formats a number with its unit, scaled so that it is easy to read.

    Args:
        amount: Number to format.
        unit: Unit of the number: `B`, `B/s`, `s`, `/s`, another name, or empty for counts.

    Returns:
        The number with its scaled unit.

    Examples:
        >>> format_quantity(307.2e9, "B"), format_quantity(192e6, "/s"), format_quantity(31.25, "")
        ('307.2 GB', '192 M/s', '31.25')
    """
    if unit in ("B", "B/s"):
        for scale, name in BYTE_UNITS:
            if amount >= scale:
                return f"{amount / scale:,.4g} {name}{unit[1:]}"
        return f"{amount:,.4g} {unit}"
    if unit == "s" and amount >= 7200:
        return f"{amount / 3600:,.1f} h"
    if unit == "s" and amount >= 120:
        return f"{amount / 60:,.1f} min"
    for scale, name in COUNT_UNITS:
        if amount >= scale:
            return f"{amount / scale:,.4g} {name}{unit}"
    digits = f"{amount:,.4g}" if amount < 1e4 else f"{amount:,.0f}"
    return f"{digits} {unit}".rstrip()


def _verdict_text(verdict: LimitVerdict) -> Text:
    relation = "at least" if verdict.limit in ("recall", "precision") else "at most"
    requested = format_quantity(verdict.asked, verdict.unit)
    needed = format_quantity(verdict.needed, verdict.unit)
    result = ("met    ", "green") if verdict.holds else ("not met ", "red")
    text = Text.assemble(result, f"{verdict.limit}: {needed}, requested {relation} {requested}")
    for alternative in verdict.gives:
        text.append(f"\n        alternative: {alternative}", "dim")
    return text


def tuning_table(tuning: Tuning, show: int) -> Table:
    """Returns a table of operating points, the cheapest first.

    Args:
        tuning: Operating points for a threshold and a recall.
        show: Largest number of points in the table.
    """
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
            format_banding(point),
            format_fraction(point.recall, digits=4),
            *(format_number(similarity) for similarity in point.similarities),
            format_number(point.classic_threshold),
            format_number(point.steepest),
            format_number(point.slope),
            f"{point.candidates:,.4g}",
            str(point.keys),
        )
        for point in tuning.points[:show]
    ]
    goal = "given bands and rows at" if tuning.is_given else f"recall {tuning.recall} at"
    title = (
        f"{tuning.spec.measure}, k = {tuning.spec.k}: {goal} "
        f"{tuning.threshold}, {tuning.distribution.documents:,} documents "
        f"({tuning.distribution.source})"
    )
    table = text_table(title, names, rows)
    # Without blanks at its edges, the table fits into 80 columns.
    table.pad_edge = False
    return table
