"""The repeated lines of a finished run, as a report lists them."""

from collections.abc import Mapping

import pyarrow as pa

from nearkin.reports.model import LineSource, LinesReport, ListedLine
from nearkin.texts.passages.cutting.run import CutTexts
from nearkin.texts.passages.documents import SOURCE
from nearkin.texts.passages.lines.request import LinesRequest
from nearkin.texts.passages.lines.run import REPEATED_LINES, LineRun

LINES_LISTED = 50
"""The number of lines in most documents that a report lists."""
SOURCES_LISTED = 3
"""The number of sources that a report lists for a line."""
TEXT_CHARACTERS = 300
"""The number of characters of a line that a report quotes."""


def describe_lines(run: LineRun, request: LinesRequest) -> LinesReport:
    """Returns the repeated lines of a run: their counts, and the lines in most documents."""
    counts = run.counts
    sizes = _count_sources(run)
    return LinesReport(
        unit=str(request.unit),
        least=request.least,
        counted=str(request.counted),
        action=str(request.action),
        repeated_lines=counts.repeated_lines,
        repeated_places=counts.repeated_places,
        counts=CutTexts(run).counts if request.is_cut else None,
        listed=tuple(list_line(row, sizes) for row in _most_frequent(run).to_pylist()),
    )


def _most_frequent(run: LineRun) -> pa.Table:
    listed = REPEATED_LINES.empty_table()
    for batch in run.line_batches():
        lines = pa.concat_tables([listed, pa.Table.from_batches([batch])])
        order = pa.compute.sort_indices(
            lines, [("documents", "descending"), ("places", "descending")]
        )
        listed = lines.take(order[:LINES_LISTED])
    return listed


def _count_sources(run: LineRun) -> dict[str | None, int]:
    """Returns the number of documents of each source, in which lines were looked for."""
    if run.options.source is None:
        return {}
    sources = run.documents[SOURCE]
    if run.wanted is not None:
        sources = sources.filter(pa.array(run.wanted))
    counted = pa.compute.value_counts(sources)
    return {row["values"]: row["counts"] for row in counted.to_pylist()}


def list_line(row: Mapping[str, object], sizes: Mapping[str | None, int]) -> ListedLine:
    """Returns a repeated line as a report lists it."""
    sources = [
        LineSource(
            source=each["source"],
            documents=each["documents"],
            share=each["documents"] / sizes[each["source"]],
        )
        for each in (row["sources"] or ())[:SOURCES_LISTED]  # type: ignore[index]
    ]
    return ListedLine(
        documents=int(str(row["documents"])),
        places=int(str(row["places"])),
        id=str(row["id"]),
        text=str(row["text"])[:TEXT_CHARACTERS],
        sources=tuple(sources),
    )
