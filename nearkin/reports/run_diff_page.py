"""Renders the differences between two runs as one HTML page, which loads nothing."""

from collections.abc import Sequence

import pyarrow as pa
from markupsafe import Markup

from nearkin.reports.page import make_environment, page_style

LISTED = 100
"""The number of documents and of clusters that the page lists."""


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
    template = make_environment().get_template("run_diff.html")
    return template.render(
        names=names,
        sentences=sentences,
        counts={"documents": len(documents), "clusters": len(clusters)},
        documents=documents.slice(0, LISTED).to_pylist(),
        clusters=clusters.slice(0, LISTED).to_pylist(),
        style=Markup(page_style()),
    )
