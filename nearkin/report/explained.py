"""An explanation of one pair, on a terminal and as a page."""

from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from rich.console import Console
from rich.rule import Rule
from rich.table import Table
from rich.text import Text

from nearkin.measures.explanation import Explanation
from nearkin.report.escaping import visible
from nearkin.report.model import Cluster, Example
from nearkin.report.page import side_by_side
from nearkin.report.terminal import side_by_side_table

EXAMPLES = 6


def facts(found: Explanation) -> list[tuple[str, str]]:
    """Name and value of everything that was measured."""
    a, b = found.shingles.sizes
    into = found.shingles.containment
    rows = [
        ("verdict", f"{found.verdict}: {found.why}"),
        ("similarity", f"{found.similarity:.4f} {found.measure}, threshold {found.threshold:g}"),
        (
            "estimate",
            f"{found.estimate:.4f}: {found.agreeing} of {found.slots} agree, margin {found.margin}",
        ),
        (
            "bands",
            f"{found.shared_bands} of {found.bands} shared, {found.rows} rows each; P(candidate) {found.probability:.4f}",
        ),
        (
            "shingles",
            f"{a:,} and {b:,}, {found.shingles.shared:,} shared; Jaccard {found.shingles.jaccard:.4f}",
        ),
        (
            "containment",
            f"{into[0]:.4f} of the first in the second, {into[1]:.4f} of the second in the first",
        ),
    ]
    for name, some in zip(
        ("shared", "only in the first", "only in the second"), found.shingles.examples, strict=True
    ):
        if some:
            more = f" … ({len(some)} shown at most)" if len(some) > EXAMPLES else ""
            rows.append((name, " · ".join(some[:EXAMPLES]) + more))
    if found.run is not None:
        for row in found.run:
            rows.append((f"in the run, {row['id']}", f"{row['kind']}, cluster of {row['cluster']}"))
    return [(name, visible(value)) for name, value in rows]


def as_cluster(found: Explanation) -> Cluster:
    """The pair in the form that differences are shown from."""
    example = Example(found.names[1], found.similarity, found.texts[1])
    return Cluster(found.names[0], found.texts[0], 2, (example,))


def print_explanation(found: Explanation, console: Console) -> None:
    """Facts, then both texts side by side."""
    table = Table(box=None, show_header=False, padding=(0, 2, 0, 0))
    for name, value in facts(found):
        table.add_row(Text(name, style="dim"), Text(value))
    console.print(table)
    console.print(Rule(style="dim"))
    console.print(side_by_side_table(as_cluster(found), console.is_terminal, ("first", "second")))


def page(found: Explanation) -> str:
    """One self-contained page."""
    folder = Path(__file__).parent
    environment = Environment(
        loader=FileSystemLoader(folder), autoescape=True, undefined=StrictUndefined
    )
    style = (folder / "page.css").read_text("utf-8")
    return environment.get_template("explained.html").render(
        names=[visible(name) for name in found.names],
        facts=facts(found),
        pair=side_by_side(as_cluster(found)),
        style=style,
    )
