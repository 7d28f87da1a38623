"""Renders the differences between two runs as one HTML page, which loads nothing."""

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa
from markupsafe import Markup

from nearkin.reports.page import make_environment, page_style

LISTED = 100
"""The number of documents and of clusters that the page lists."""
DOCUMENT_COLUMNS = {
    "id": "Document",
    "change": "Change",
    "reason": "Reason",
    "cluster_before": "Cluster before",
    "cluster_after": "Cluster after",
}
"""The columns of the table of documents, with their names on the page."""
CLUSTER_COLUMNS = {
    "change": "Change",
    "cluster_before": "Cluster before",
    "cluster_after": "Cluster after",
    "documents_before": "Documents before",
    "documents_after": "Documents after",
    "documents_shared": "Documents in both",
}
"""The columns of the table of clusters, with their names on the page."""


def render_diff_page(
    names: Sequence[str], sentences: Sequence[str], documents: pa.Table, clusters: pa.Table
) -> str:
    """Renders the page of the differences between two runs.

    Args:
        names: Names of the two runs.
        sentences: Summary of the changes.
        documents: Documents that changed, with a reason if they became kept or removed.
        clusters: Clusters that changed.
    """
    # those with a reason first, before new and withdrawn ones
    documents = documents.sort_by([("reason", "ascending"), ("id", "ascending")])
    sections = [
        _make_section("Documents", DOCUMENT_COLUMNS, documents),
        _make_section("Clusters", CLUSTER_COLUMNS, clusters),
    ]
    template = make_environment().get_template("run_diff.html")
    return template.render(
        names=names, sentences=sentences, sections=sections, style=Markup(page_style())
    )


def _make_section(title: str, columns: Mapping[str, str], table: pa.Table) -> dict[str, Any]:
    """Returns the first rows of a table, as the template shows them."""
    rows = table.slice(0, LISTED).to_pylist()
    return {"title": title, "columns": columns, "rows": rows, "total": len(table)}
