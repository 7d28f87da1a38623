"""The values that kept rows got from their clusters, as a report lists them."""

from nearkin.engine.merged_rows import MergedColumn, MergedRows
from nearkin.reports.model import MergedColumnReport, MergedValue, MergeReport

CHARACTERS = 200
"""The number of characters of a value that a report quotes."""
SOURCES_LISTED = 5
"""The number of rows that a report names as the sources of a value."""


def describe_merged(merged: MergedRows) -> MergeReport:
    """Returns how many values kept rows got, and the first of each column."""
    return MergeReport(
        rows=merged.filled,
        clusters=len(merged.documents),
        columns=tuple(_describe_column(merged, column) for column in merged.columns),
    )


def _describe_column(merged: MergedRows, column: MergedColumn) -> MergedColumnReport:
    examples = []
    for example in column.examples:
        listed = example.sources[:SOURCES_LISTED]
        name, *sources = merged.name_documents([example.document, *listed])
        value = MergedValue(
            id=name,
            before=None if example.before is None else example.before[:CHARACTERS],
            after=None if example.after is None else example.after[:CHARACTERS],
            sources=tuple(sources),
            source_count=len(example.sources),
        )
        examples.append(value)
    return MergedColumnReport(
        column.field.column, str(column.field.rule), column.changed, tuple(examples)
    )
