"""Renders the report of a run over passages as one HTML page, which loads nothing."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from markupsafe import Markup

from nearkin.reports.formatting import format_bytes
from nearkin.reports.model import LinesReport
from nearkin.reports.page import MAX_SOURCES, make_environment, page_style
from nearkin.texts.passages.cutting.request import CutCounts
from nearkin.texts.passages.quotes import QuotedDocument


@dataclass(frozen=True, kw_only=True)
class PassagesReport:
    """The content of a report of a run over passages. All texts are those of strangers.

    Attributes:
        title: Names of the inputs.
        least: Smallest number of tokens of a passage.
        token: Name of a token: word or character.
        counts: Counts of the run.
        frequent: Rows of the table of the most frequent passages.
        sources: Rows of the table of sources. Empty without a column of sources.
        documents: Excerpts of the documents in which most text is repeated.
        cuts: Counts of the cut, or None if nothing was cut.
    """

    title: str
    least: int
    token: str
    counts: Mapping[str, int]
    frequent: Sequence[Mapping[str, object]]
    sources: Sequence[Mapping[str, object]]
    documents: Sequence[QuotedDocument]
    cuts: CutCounts | None = None

    @property
    def share(self) -> float:
        """The share of the bytes of all texts that is in at least one passage."""
        return self.counts["repeated_bytes"] / max(self.counts["text_bytes"], 1)


def render_lines_page(title: str, lines: LinesReport) -> str:
    """Renders the page of a run over repeated lines."""
    return (
        make_environment()
        .get_template("lines.html")
        .render(title=title, lines=lines, style=Markup(page_style()))
    )


def render_passages_page(report: PassagesReport) -> str:
    """Renders the page of a report."""
    environment = make_environment()
    environment.filters["bytes"] = format_bytes
    return environment.get_template("passages.html").render(
        report=report,
        sources=report.sources[:MAX_SOURCES],
        more_sources=len(report.sources[MAX_SOURCES:]),
        style=Markup(page_style()),
    )
