"""Prints clusters on a terminal, the kept document beside a removed one."""

import math
from collections.abc import Sequence
from typing import NamedTuple

from rich.console import Console
from rich.rule import Rule
from rich.table import Table
from rich.text import Text

from nearkin.reports.diff import (
    DiffSpan,
    DocumentRole,
    SpanKind,
    diff_words,
    focus_changes,
    may_be_cut,
)
from nearkin.reports.formatting import describe_match
from nearkin.reports.model import ClusterExcerpt, ReportData
from nearkin.reports.page import choose_example
from nearkin.runtime.visible_text import make_visible

MAX_LINES = 14
"""The largest number of lines that are shown of a document."""
CONTEXT = 160
"""The number of equal characters that are shown before a change."""
INLINE_CONTEXT = 70
"""The number of equal characters that are shown next to a change in one column."""
MAX_INLINE_CHARACTERS = 1000
"""The largest number of characters that are shown in one column."""
SIDE_BY_SIDE_WIDTH = 110
"""The number of columns from which on two documents are shown side by side."""


class _ChangeMark(NamedTuple):
    """A style for changed words, and symbols around them for output without styles."""

    style: str
    opening: str = ""
    closing: str = ""


STYLED_MARKS = {
    DocumentRole.REMOVED: _ChangeMark("red strike"),
    DocumentRole.KEPT: _ChangeMark("green underline"),
    DocumentRole.COMPARED: _ChangeMark("bold yellow"),
}
"""The marks on a terminal."""
PLAIN_MARKS = {
    DocumentRole.REMOVED: _ChangeMark("", "[-", "-]"),
    DocumentRole.KEPT: _ChangeMark("", "{+", "+}"),
    DocumentRole.COMPARED: _ChangeMark("", "«", "»"),
}
"""The marks in a file or a pipe."""


def print_clusters(data: ReportData, console: Console, top: int = 10) -> None:
    """Prints the most interesting clusters with highlighted differences.

    On a wide console, the two documents stand side by side. On a narrow one, they are printed as
    one text. Text that is only in the removed document is lost: it is red and struck out on a
    terminal, and written as `[-lost-]` in a file or a pipe. Text that is only in the kept document
    is green and underlined, or written as `{+kept+}`.
    """
    for rank, cluster in enumerate(rank_clusters(data.clusters, top), 1):
        console.print()
        title = Text(f"Cluster {rank}: {cluster.members:,} documents")
        console.print(Rule(title, align="left", style="dim"))
        if console.width < SIDE_BY_SIDE_WIDTH:
            console.print(inline_difference(cluster, styled=console.is_terminal))
            continue
        console.print(
            side_by_side_table(
                cluster,
                styled=console.is_terminal,
                labels=("kept", "removed"),
                roles=(DocumentRole.KEPT, DocumentRole.REMOVED),
            )
        )


def inline_difference(cluster: ClusterExcerpt, *, styled: bool) -> Text:
    """Returns the kept document and a removed one as one text, for narrow terminals.

    Text that is only in the removed document is lost, and is red and struck out, or `[-lost-]`.
    Text that is only in the kept document is green and underlined, or `{+kept+}`.
    """
    example = choose_example(cluster)
    text = Text.assemble(("kept     ", "dim"), (make_visible(cluster.id), "bold"), "\n")
    if example is None:
        return text.append(make_visible(cluster.text))
    marks = STYLED_MARKS if styled else PLAIN_MARKS
    lost_mark = marks[DocumentRole.REMOVED]
    kept_mark = marks[DocumentRole.KEPT]
    text.append("removed  ", "dim").append(make_visible(example.id), "bold")
    text.append(f", {describe_match(example.similarity)}\n\n", "dim")
    spans = diff_words(
        _join_lines(example.text),
        _join_lines(cluster.text),
        is_cut=may_be_cut(example.text, cluster.text),
    )
    for span in focus_changes(spans, INLINE_CONTEXT):
        if span.kind is SpanKind.EQUAL:
            text.append(span.right)
        elif span.kind is SpanKind.ELIDED:
            text.append("… ", "dim")
        else:
            for side, mark in ((span.left, lost_mark), (span.right, kept_mark)):
                if side:
                    text.append(f"{mark.opening}{side.rstrip()}{mark.closing}", mark.style)
                    text.append(_ending_space(side))
    text.truncate(MAX_INLINE_CHARACTERS, overflow="ellipsis")
    return text


def _join_lines(document: str) -> str:
    """Returns a document as one paragraph, in which words are compared."""
    return " ".join(make_visible(document).split())


def _ending_space(words: str) -> str:
    return words[len(words.rstrip()) :]


def side_by_side_table(
    cluster: ClusterExcerpt,
    *,
    styled: bool,
    labels: tuple[str, str],
    roles: tuple[DocumentRole, DocumentRole],
) -> Table:
    """Returns a table with two documents side by side, with highlighted differences."""
    example = choose_example(cluster)
    left = DocumentView(labels[0], cluster.id, cluster.text)
    if example is None:
        table = _empty_table()
        table.add_column(left.heading, ratio=1, overflow="fold")
        mark = (STYLED_MARKS if styled else PLAIN_MARKS)[roles[0]]
        table.add_row(_mark_changes([(SpanKind.EQUAL, make_visible(cluster.text))], mark))
        return table
    label = f"{labels[1]}, {describe_match(example.similarity)}"
    right = DocumentView(label, example.id, example.text)
    return two_documents_table(left, right, styled=styled, roles=roles)


class DocumentView(NamedTuple):
    """A document beside another one."""

    label: str
    id: str
    text: str

    @property
    def heading(self) -> Text:
        """The label above the id."""
        return Text.assemble((f"{self.label}\n", "dim"), (make_visible(self.id), "bold"))


def two_documents_table(
    left: DocumentView,
    right: DocumentView,
    *,
    styled: bool,
    roles: tuple[DocumentRole, DocumentRole],
) -> Table:
    """Returns a table with two documents side by side, with highlighted differences."""
    table = _empty_table()
    table.add_column(left.heading, ratio=1, overflow="fold")
    table.add_column(right.heading, ratio=1, overflow="fold")
    table.add_row(*mark_differences(left.text, right.text, styled=styled, roles=roles))
    return table


def mark_differences(
    left: str, right: str, *, styled: bool, roles: tuple[DocumentRole, DocumentRole]
) -> tuple[Text, Text]:
    """Returns two texts with their differences marked, safe to show."""
    marks = STYLED_MARKS if styled else PLAIN_MARKS
    is_cut = may_be_cut(left, right)
    spans = diff_words(make_visible(left), make_visible(right), is_cut=is_cut)
    spans = _skip_elided_beginning(focus_changes(spans, CONTEXT))
    return (
        _mark_changes([(span.kind, span.left) for span in spans], marks[roles[0]]),
        _mark_changes([(span.kind, span.right) for span in spans], marks[roles[1]]),
    )


def print_question(console: Console, title: str, ids: Sequence[str], texts: Sequence[str]) -> None:
    """Prints the ids and texts of a pair side by side, with their differences marked."""
    console.print(Rule(Text(title), align="left", style="dim"))
    console.print(
        two_documents_table(
            DocumentView("first", ids[0], texts[0]),
            DocumentView("second", ids[1], texts[1]),
            styled=console.is_terminal,
            roles=(DocumentRole.COMPARED, DocumentRole.COMPARED),
        )
    )


def _empty_table() -> Table:
    return Table(box=None, expand=True, padding=(0, 2, 0, 0), header_style="")


def _skip_elided_beginning(spans: list[DiffSpan]) -> list[DiffSpan]:
    is_elided = len(spans) > 1 and spans[0].kind is SpanKind.ELIDED
    return spans[1:] if is_elided else spans


def _mark_changes(side: Sequence[tuple[SpanKind, str]], mark: _ChangeMark) -> Text:
    text = Text()
    for kind, part in side:
        core = part.rstrip()
        if kind is SpanKind.ELIDED:
            text.append("⋯\n", "dim")
        elif kind is SpanKind.EQUAL:
            text.append(part)
        else:
            if core:
                text.append(f"{mark.opening}{core}{mark.closing}", mark.style)
            text.append(part[len(core) :])
    text.expand_tabs(4)
    return Text("\n").join(text.split("\n")[:MAX_LINES])


def rank_clusters(clusters: Sequence[ClusterExcerpt], top: int = 10) -> list[ClusterExcerpt]:
    """Returns the clusters that say most about copied text, the best first.

    The score of a cluster is the sum of:

    - 3 if its documents come from different packages (the first folder of their ids).
    - 2 if an example is a near-duplicate, so that there is a difference to look at.
    - up to 2 for its length: 1 for each thousand characters of the kept excerpt.
    - up to 1 for its size: a third for each doubling up to eight documents.
    - minus 1 for each better cluster of the same packages, so that one package does not fill the
      list.

    Examples:
        >>> from nearkin.reports.model import RemovedExample
        >>> near_example = RemovedExample("right/b.py:f:1", 0.9, "y")
        >>> near = ClusterExcerpt("left/a.py:f:1", "x" * 900, 2, (near_example,))
        >>> exact_example = RemovedExample("left/b.py:g:1", 1.0, "x")
        >>> exact = ClusterExcerpt("left/a.py:g:1", "x" * 900, 9, (exact_example,))
        >>> [cluster.id for cluster in rank_clusters([exact, near], top=1)]
        ['left/a.py:f:1']
    """
    better: dict[frozenset[str], int] = {}
    scored = []
    for cluster in sorted(clusters, key=_score_cluster, reverse=True):
        packages = _packages_of(cluster)
        scored.append((_score_cluster(cluster) - better.get(packages, 0), cluster))
        better[packages] = better.get(packages, 0) + 1
    ranked = sorted(scored, key=lambda entry: -entry[0])
    return [cluster for _, cluster in ranked[:top]]


def _score_cluster(cluster: ClusterExcerpt) -> float:
    score = 0.0
    if len(_packages_of(cluster)) > 1:
        score += 3.0
    similarities = [example.similarity for example in cluster.examples]
    if any(similarity is not None and similarity < 1 for similarity in similarities):
        score += 2.0
    score += min(len(cluster.text) / 1000, 2.0)
    return score + min(math.log2(max(cluster.members, 1)), 3.0) / 3


def _packages_of(cluster: ClusterExcerpt) -> frozenset[str]:
    """Returns the first folders of the ids of the kept document and of the examples."""
    ids = (cluster.id, *(example.id for example in cluster.examples))
    return frozenset(name.partition(":")[0].partition("/")[0] for name in ids)
