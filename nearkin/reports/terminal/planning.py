"""Prints capacity plans and operating points on a terminal."""

from rich.console import Console
from rich.table import Table
from rich.text import Text

from nearkin.quality.plan.capacity import Plan, group_lines
from nearkin.quality.plan.data_kind import PROFILE_CHARACTERS, DataProfile, find_kind
from nearkin.quality.plan.distribution import GAP_WIDTH
from nearkin.quality.plan.plan_lines import LimitVerdict, Line
from nearkin.quality.plan.tune import REPETITION_SIMILARITIES, Tuning
from nearkin.reports.terminal.tables import format_number, text_table
from nearkin.runtime.number_format import format_fraction, format_percent
from nearkin.runtime.visible_text import make_visible

BYTE_UNITS = ((1e12, "TB"), (1e9, "GB"), (1e6, "MB"), (1e3, "kB"), (1.0, "B"))
TIME_UNITS = (
    (2 * 365.25 * 86400, 365.25 * 86400, "years"),
    (2 * 86400, 86400, "days"),
    (7200, 3600, "h"),
    (120, 60, "min"),
    (0.1, 1, "s"),
    (1e-3, 1e-3, "ms"),
    (0, 1e-6, "µs"),
)
"""The smallest time in seconds that is shown in a unit, the unit in seconds, and its name."""
SHOWN_SCRIPTS = 4
"""The number of scripts that are shown, the largest first."""
COUNT_UNITS = ((1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M"))


def print_plan(plan: Plan, console: Console) -> None:
    """Prints every number of a plan with its formula, then the limits and the alternatives."""
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

    Examples:
        >>> format_quantity(307.2e9, "B"), format_quantity(192e6, "/s"), format_quantity(31.25, "")
        ('307.2 GB', '192 M/s', '31.25')
        >>> [format_quantity(seconds, "s") for seconds in (0, 7e-5, 90, 5400, 1e5, 1e6, 1e9)]
        ['0 s', '70 µs', '90 s', '90 min', '27.78 h', '11.57 days', '31.69 years']
        >>> format_quantity(6e11, "s"), format_quantity(0.0000456, ""), format_quantity(2e-8, "")
        ('19,013 years', '0.000046', 'less than 0.000001')
    """
    if unit in ("B", "B/s"):
        for scale, name in BYTE_UNITS:
            if amount >= scale:
                return f"{amount / scale:,.4g} {name}{unit[1:]}"
        return f"{amount:,.4g} {unit}"
    if unit == "s" and amount:
        for least, scale, name in TIME_UNITS:
            if amount >= least:
                return f"{_format_digits(amount / scale)} {name}"
    for scale, name in COUNT_UNITS:
        if amount >= scale:
            return f"{amount / scale:,.4g} {name}{unit}"
    return f"{_format_digits(amount)} {unit}".rstrip()


def _format_digits(amount: float) -> str:
    """Formats a number with four digits, and all digits before the point."""
    if amount >= 1e4:
        return f"{amount:,.0f}"
    if amount and amount < 1e-4:
        return f"{amount:.6f}".rstrip("0") if amount >= 1e-6 else "less than 0.000001"
    return f"{amount:,.4g}"


def _verdict_text(verdict: LimitVerdict) -> Text:
    relation = "at least" if verdict.limit in ("recall", "precision") else "at most"
    requested = format_quantity(verdict.asked, verdict.unit)
    needed = format_quantity(verdict.needed, verdict.unit)
    verdict_word = ("met    ", "green") if verdict.holds else ("not met ", "red")
    text = Text.assemble(
        verdict_word, f"{verdict.limit}: {needed}, requested {relation} {requested}"
    )
    for alternative in verdict.gives:
        text.append(f"\n        alternative: {alternative}", "dim")
    return text


def tuning_table(tuning: Tuning, show: int) -> Table:
    """Returns a table of operating points, the cheapest first."""
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
            point.banding,
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


def describe_data(tuning: Tuning) -> list[tuple[str, str]]:
    """Returns the names and values of what is known about the sampled texts of a tuning."""
    distribution = tuning.distribution
    profile = distribution.profile
    if profile is None:
        return []
    pairs = ", ".join(
        f"{similarity:g}: {distribution.count_pairs(similarity):,.3g}"
        for similarity in REPETITION_SIMILARITIES
    )
    crowding = distribution.crowding(tuning.threshold)
    gap = "too few compared pairs to tell"
    if crowding is not None:
        gap = (
            f"pairs within {GAP_WIDTH:g} of the threshold {tuning.threshold:g} are {crowding:.2g} "
            "times as dense as on average from there up"
        )
    scripts = ", ".join(
        f"{script} {format_percent(share)}" for script, share in profile.scripts[:SHOWN_SCRIPTS]
    )
    rows = [
        ("texts", f"{profile.sampled:,} sampled of {distribution.documents:,} documents"),
        ("length", _describe_lengths(profile, tuning.spec.shingle)),
        (
            "repetition",
            f"{format_percent(profile.exact_copies)} of the documents are exact copies; "
            f"near-duplicates per document at a threshold of {pairs}",
        ),
        ("gap", gap),
        (
            "templates",
            f"{format_percent(profile.digit_tokens)} of the tokens contain a digit; "
            f"{profile.distinct:,} distinct texts are {profile.templates:,} without these tokens",
        ),
        ("scripts", scripts or "no letters"),
        (
            "lines",
            f"{profile.lines:.3g} a text in the first {PROFILE_CHARACTERS:,} characters, "
            f"{format_percent(profile.code_lines)} of them look like code",
        ),
        ("years", f"{format_percent(profile.years)} of the texts contain a year"),
    ]
    kind = find_kind(profile)
    if kind is None:
        return [*rows, ("kind", "not a known kind of data")]
    return [*rows, ("nearest kind", f"{kind.name}: {kind.description}")]


def _describe_lengths(profile: DataProfile, shingle: str) -> str:
    lengths = [
        f"{median:,.0f} {unit} ({low:,.0f} to {high:,.0f} for 80% of the texts)"
        for unit, (low, median, high) in (
            ("characters", profile.characters),
            ("shingles", profile.shingles),
        )
    ]
    return (
        f"{lengths[0]}, {lengths[1]}; {format_percent(profile.single_shingle)} are not longer than "
        f"a shingle {shingle}"
    )


def data_table(tuning: Tuning) -> Table:
    """Returns a table of what is known about the sampled texts of a tuning."""
    table = Table(box=None, show_header=False, padding=(0, 2, 0, 0))
    for name, value in describe_data(tuning):
        table.add_row(Text(name, style="dim"), Text(value))
    return table
