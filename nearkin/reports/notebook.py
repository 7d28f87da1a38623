"""Views of result tables for notebooks: their first rows, and the similarities of their pairs."""

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from nearkin.errors import MissingExtraError
from nearkin.runtime.notebook_view import SHOWN_ROWS, BarView, TableView

if TYPE_CHECKING:
    from matplotlib.axes import Axes

BARS = 20
"""The number of bars of a histogram of similarities from 0 to 1."""


def first_rows(title: str, table: pa.Table) -> TableView:
    """Returns the first rows of a table."""
    names = table.column_names
    rows = table.slice(0, SHOWN_ROWS).to_pylist()
    return TableView(title, names, [[row[name] for name in names] for row in rows], table.num_rows)


def bin_edges(bins: int, threshold: float | None) -> np.ndarray:
    """Returns the edges of bins of similarity from 0 to 1, float64. A bin contains its left edge.

    Examples:
        >>> bin_edges(4, 0.8).tolist()
        [0.0, 0.25, 0.5, 0.75, 0.8, 1.0]
    """
    # A quotient is rounded like a similarity. The edges of np.histogram are products, some of which
    # are larger than the similarity that they stand for.
    edges = np.arange(bins + 1) / bins
    return edges if threshold is None else np.union1d(edges, [threshold])


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
    names = [max(f"{edge:.2f}", f"{edge:g}", key=len) for edge in edges.tolist()]
    labels = [f"{names[bar]} to {names[bar + 1]}" for bar in shown]
    return [BarView(title, labels, [int(counts[bar]) for bar in shown])]


def plot_similarities(
    similarities: pa.ChunkedArray, threshold: float | None, axes: "Axes | None"
) -> "Axes":
    """Draws the histogram of similarities with Matplotlib."""
    try:
        from matplotlib import pyplot
    except ImportError as error:
        raise MissingExtraError.for_extra("plots require matplotlib", "plot") from error
    if axes is None:
        axes = pyplot.subplots(layout="constrained")[1]
    axes.hist(_numbers(similarities), bins=bin_edges(5 * BARS, threshold).tolist())
    if threshold is not None:
        axes.axvline(threshold, color="black", linestyle="--", label=f"threshold {threshold:g}")
        axes.legend()
    axes.set(xlabel="similarity", ylabel="pairs", xlim=(0, 1))
    return axes


def _numbers(similarities: Any) -> np.ndarray:
    return np.asarray(similarities.drop_null())
