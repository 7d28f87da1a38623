"""Shows the explanation of one pair on a terminal or as an HTML page."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from rich.console import Console
from rich.rule import Rule
from rich.table import Table
from rich.text import Text

from nearkin.quality.evaluate.explain_fields import FieldRelation, FieldsExplanation
from nearkin.reports.diff import DocumentRole
from nearkin.reports.model import ClusterExcerpt, RemovedExample
from nearkin.reports.page import compare_cluster, describe_equal_texts
from nearkin.reports.terminal.clusters import mark_differences, side_by_side_table
from nearkin.runtime.number_format import format_fraction, format_similarity
from nearkin.runtime.visible_text import make_visible
from nearkin.stages.measures.explanation import Explanation
from nearkin.stages.verify.shared_passages import find_shared_passages

SHOWN_PASSAGES = 3
"""The number of shared passages that are shown."""
SHOWN_CHARACTERS = 160
"""The number of characters that are shown of a shared passage."""
SHOWN_EXAMPLES = 6
"""The number of example shingles that are shown of each kind."""
WIDEST_NAME = 16
"""The number of characters of a line of the name of a field."""
RELATION_STYLES = {
    FieldRelation.EQUAL: "green",
    FieldRelation.SIMILAR: "yellow",
    FieldRelation.DIFFERENT: "red",
}
FATES = {
    "unique": "kept, without near-duplicates",
    "kept": "kept",
    "exact": "removed as an exact duplicate",
    "near": "removed as a near-duplicate",
    "empty": "without shingles",
    "vector": "removed by the second measure",
    "same": "removed because of an equal value",
    "further": "kept as a further copy",
    "blocked": "removed because of an entry of the blocklist",
}
"""What happened to a document in a run, by its kind (see `nearkin.engine.result_schema.KINDS`)."""


def describe_explanation(explanation: Explanation) -> list[tuple[str, str]]:
    """Returns the names and values of everything that an explanation contains, safe to show."""
    shingles = explanation.shingles
    first_size, second_size = shingles.sizes
    in_second, in_first = shingles.containment
    rows = [
        ("verdict", f"{explanation.verdict}: {explanation.why}"),
        (
            "similarity",
            f"{format_similarity(explanation.similarity, digits=4)} ({explanation.measure}), "
            f"{explanation.limit}",
        ),
        *_describe_counts(explanation),
        (
            "shingles",
            f"{first_size:,} and {second_size:,}, {shingles.shared:,} of them shared; Jaccard "
            f"similarity {format_similarity(shingles.jaccard, digits=4)}",
        ),
        (
            "containment",
            f"{format_similarity(in_second, digits=4)} of the first is in the second, "
            f"{format_similarity(in_first, digits=4)} of the second is in the first",
        ),
    ]
    if explanation.vectors is not None:
        vectors = explanation.vectors
        value = vectors.describe()
        if vectors.shared_bands is not None:
            value += f"; {vectors.shared_bands} bands agree"
        rows.append(("vectors", value))
    labels = ("shared", "only in the first", "only in the second")
    for label, examples in zip(labels, shingles.examples, strict=True):
        if examples:
            shown = " · ".join(examples[:SHOWN_EXAMPLES])
            rows.append((label, f"{shown} …" if len(examples) > SHOWN_EXAMPLES else shown))
    rows += _describe_fates(explanation.run or ())
    return [(name, make_visible(value)) for name, value in rows]


def _describe_counts(explanation: Explanation) -> Iterator[tuple[str, str]]:
    """Yields the agreement of the signatures, unless it is hidden."""
    if explanation.estimate is not None:
        yield (
            "estimate",
            f"{format_fraction(explanation.estimate, digits=4)}: {explanation.agreeing} of "
            f"{explanation.slots} slots agree, margin {explanation.margin}",
        )
    if explanation.shared_bands is not None:
        yield (
            "bands",
            f"{explanation.shared_bands} of {explanation.bands} bands of {explanation.rows} rows "
            f"agree; candidate probability {format_fraction(explanation.probability, digits=4)}",
        )


def describe_fields(explanation: FieldsExplanation) -> list[tuple[str, str]]:
    """Returns the names and values of what an explanation of fields contains beside the fields."""
    rows = [
        ("verdict", f"{explanation.verdict}: {explanation.why}"),
        ("condition", explanation.accept),
        *_describe_fates(explanation.run),
    ]
    return [(make_visible(name), make_visible(value)) for name, value in rows]


def make_fields_table(explanation: FieldsExplanation, *, styled: bool) -> Table:
    """Returns a table with a row for each field: both values, and how they relate."""
    table = Table(box=None, expand=True, padding=(0, 2, 0, 0), header_style="")
    table.add_column(Text("field", style="dim"), max_width=WIDEST_NAME, overflow="fold")
    for name in explanation.names:
        table.add_column(Text(make_visible(name), style="bold"), ratio=1, overflow="fold")
    table.add_column(Text("comparison", style="dim"), ratio=1, overflow="fold")
    roles = find_roles(explanation)
    for field in explanation.fields:
        first, second = mark_differences(*field.values, styled=styled, roles=roles)
        comparison = Text(field.relation.value, style=RELATION_STYLES[field.relation])
        comparison.append(f"\n{make_visible(field.describe_similarity())}", "dim")
        table.add_row(Text(make_visible(field.column)), first, second, comparison)
    return table


def _describe_fates(rows: Sequence[Mapping[str, Any]]) -> list[tuple[str, str]]:
    return [
        (f"in the run, {row['id']}", f"{FATES[row['kind']]}, cluster of {row['cluster']}")
        for row in rows
    ]


def describe_passages(explanation: Explanation) -> list[tuple[str, str, str]]:
    """Returns the longest passages that both texts share, safe to show."""
    return [
        (f"{passage.tokens:,} words", _shorten(passage.first), _shorten(passage.second))
        for passage in find_shared_passages(*explanation.texts, SHOWN_PASSAGES)
    ]


def _shorten(passage: str) -> str:
    """Returns the beginning and the end of a passage in one line."""
    text = make_visible(" ".join(passage.split()))
    if len(text) <= SHOWN_CHARACTERS:
        return text
    half = SHOWN_CHARACTERS // 2
    return f"{text[:half].rstrip()} … {text[-half:].lstrip()}"


def _as_cluster(explanation: Explanation) -> ClusterExcerpt:
    """Returns the pair as a cluster, which is what side-by-side views are made from."""
    example = RemovedExample(
        id=explanation.names[1], similarity=explanation.similarity, text=explanation.texts[1]
    )
    return ClusterExcerpt(
        id=explanation.names[0], text=explanation.texts[0], members=2, examples=(example,)
    )


def print_explanation(explanation: Explanation | FieldsExplanation, console: Console) -> None:
    """Prints an explanation, and the texts of documents of one column side by side."""
    if isinstance(explanation, FieldsExplanation):
        _print_rows(describe_fields(explanation), console)
        console.print()
        console.print(make_fields_table(explanation, styled=console.is_terminal))
        return
    _print_rows(describe_explanation(explanation), console)
    passages = describe_passages(explanation)
    if passages:
        shared = Table(box=None, padding=(0, 2, 0, 0), header_style="dim")
        shared.add_column("longest shared", justify="right")
        shared.add_column("passage of the first", ratio=1)
        shared.add_column("passage of the second", ratio=1)
        for size, first, second in passages:
            shared.add_row(Text(size), Text(first), Text(second))
        console.print(shared)
    # an empty rule of rich does not follow the encoding of the console
    characters = "─" if console.encoding.lower().startswith("utf") else "-"
    console.print(Rule(style="dim", characters=characters))
    cluster = _as_cluster(explanation)
    roles = find_roles(explanation)
    console.print(
        side_by_side_table(
            cluster, styled=console.is_terminal, labels=_label_documents(roles), roles=roles
        )
    )


def _print_rows(rows: Sequence[tuple[str, str]], console: Console) -> None:
    table = Table(box=None, show_header=False, padding=(0, 2, 0, 0))
    for name, value in rows:
        table.add_row(Text(name, style="dim"), Text(value))
    console.print(table)


def _label_documents(roles: tuple[DocumentRole, DocumentRole]) -> tuple[str, str]:
    first, second = (
        "" if role is DocumentRole.COMPARED else f", {role.value} by the run" for role in roles
    )
    return f"first{first}", f"second{second}"


def find_roles(explanation: Explanation | FieldsExplanation) -> tuple[DocumentRole, DocumentRole]:
    """Returns the roles of both documents, which decide how their own words are marked.

    If a run kept one of them in the place of the other, the words of the other are lost. In all
    other cases nothing is lost beside the other document, and both are marked alike.
    """
    compared = (DocumentRole.COMPARED, DocumentRole.COMPARED)
    if explanation.run is None:
        return compared
    first, second = explanation.run
    if first["cluster"] != second["cluster"] or first["kept"] == second["kept"]:
        return compared
    if first["kept"]:
        return DocumentRole.KEPT, DocumentRole.REMOVED
    return DocumentRole.REMOVED, DocumentRole.KEPT


def render_explanation(explanation: Explanation) -> str:
    """Returns an explanation as a self-contained HTML page."""
    folder = Path(__file__).parent
    environment = Environment(
        loader=FileSystemLoader(folder), autoescape=True, undefined=StrictUndefined
    )
    return environment.get_template("explanation.html").render(
        names=[make_visible(name) for name in explanation.names],
        rows=describe_explanation(explanation),
        passages=describe_passages(explanation),
        pair=compare_cluster(_as_cluster(explanation), *find_roles(explanation)),
        equal=describe_equal_texts(*explanation.texts),
        labels=_label_documents(find_roles(explanation)),
        style=(folder / "page.css").read_text("utf-8"),
    )
