"""Renders the report of a decontamination as one HTML page, which loads nothing."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from markupsafe import Markup

from nearkin.reports.page import make_environment, page_style
from nearkin.texts.decontamination.quotes import QuotedHit
from nearkin.texts.decontamination.request import DecontaminationRequest


@dataclass(frozen=True, kw_only=True)
class DecontaminationReport:
    """The content of a report of a decontamination. All texts are those of strangers.

    Attributes:
        title: Names of the inputs.
        request: What counts as found, and what happens to contaminated documents.
        counts: Counts of the run.
        suites: Rows of the table of suites.
        quotes: Excerpts of contaminated documents, ordered by suite.
    """

    title: str
    request: DecontaminationRequest
    counts: Mapping[str, int]
    suites: Sequence[Mapping[str, object]]
    quotes: Sequence[QuotedHit]

    @property
    def sections(self) -> Iterator[tuple[Mapping[str, object], list[QuotedHit]]]:
        """The suites with excerpts, each with its excerpts."""
        for suite in self.suites:
            quotes = [quote for quote in self.quotes if quote.suite == suite["suite"]]
            if quotes:
                yield suite, quotes


def render_decontamination_page(report: DecontaminationReport) -> str:
    """Renders the page of a report."""
    return (
        make_environment()
        .get_template("decontamination.html")
        .render(report=report, style=Markup(page_style()))
    )
