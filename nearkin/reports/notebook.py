"""Views of result tables for notebooks: their first rows, and the similarities of their pairs."""

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from nearkin.reports.similarity_bins import bin_edges, name_bin
from nearkin.runtime.notebook_view import SHOWN_ROWS, BarView, TableView
from nearkin.runtime.plots import open_axes

if TYPE_CHECKING:
    from matplotlib.axes import Axes

BARS = 20
"""The number of bars of a histogram of similarities from 0 to 1."""


def first_rows(title: str, table: pa.Table) -> TableView:
    """Returns the first rows of a table."""
    names = table.column_names
    rows = table.slice(0, SHOWN_ROWS).to_pylist()
    return TableView(title, names, [[row[name] for name in names] for row in rows], table.num_rows)


def similarity_bars(
    title: str, similarities: pa.ChunkedArray, threshold: float | None
) -> list[BarView]:
    """Returns the histogram of similarities, without the empty bars at both ends."""
    edges = bin_edges(BARS, threshold)
    counts, _ = np.histogram(_numbers(similarities), edges)
    occupied = np.flatnonzero(counts)
    if not len(occupied):
        return []
    shown = range(occupied[0], occupied[-1] + 1)
    labels = [name_bin(*edges[bar : bar + 2].tolist()) for bar in shown]
    return [BarView(title, labels, [int(counts[bar]) for bar in shown])]


def plot_similarities(
    similarities: pa.ChunkedArray, threshold: float | None, axes: "Axes | None"
) -> "Axes":
    """Draws the histogram of similarities with Matplotlib."""
    axes = open_axes(axes)
    # a bar needs a width, also that of a threshold of 1
    edges = np.unique(bin_edges(5 * BARS, threshold))
    axes.hist(_numbers(similarities), bins=edges.tolist())
    if threshold is not None:
        axes.axvline(threshold, color="black", linestyle="--", label=f"threshold {threshold:g}")
        axes.legend()
    axes.set(xlabel="similarity", ylabel="pairs", xlim=(0, 1))
    return axes


def _numbers(similarities: Any) -> np.ndarray:
    return np.asarray(similarities.drop_null())
