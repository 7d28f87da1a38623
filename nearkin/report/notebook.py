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
    """Returns the first rows of a table.

    Args:
        title: Title above them.
        table: The table.
    """
    names = table.column_names
    rows = table.slice(0, SHOWN_ROWS).to_pylist()
    return TableView(title, names, [[row[name] for name in names] for row in rows], table.num_rows)


def similarity_bars(title: str, similarities: pa.ChunkedArray) -> list[BarView]:
    """Returns the histogram of similarities, without the empty bars at both ends.

    Args:
        title: Title above it.
        similarities: Similarities from 0 to 1. Nulls are left out.

    Returns:
        One chart, or none without similarities.
    """
    counts, edges = np.histogram(_numbers(similarities), bins=BARS, range=(0, 1))
    occupied = np.flatnonzero(counts)
    if not len(occupied):
        return []
    shown = range(occupied[0], occupied[-1] + 1)
    labels = [f"{edges[bar]:.2f} to {edges[bar + 1]:.2f}" for bar in shown]
    return [BarView(title, labels, [int(counts[bar]) for bar in shown])]


def plot_similarities(
    similarities: pa.ChunkedArray, threshold: float | None, axes: "Axes | None"
) -> "Axes":
    """Draws the histogram of similarities with Matplotlib.

    Args:
        similarities: Similarities from 0 to 1. Nulls are left out.
        threshold: Similarity that is marked by a line, or None.
        axes: Axes to draw on. By default, those of a new figure.

    Raises:
        MissingExtraError: If matplotlib is not installed.
    """
    try:
        from matplotlib import pyplot
    except ImportError as error:
        raise MissingExtraError.for_extra("plots require matplotlib", "plot") from error
    if axes is None:
        axes = pyplot.subplots(layout="constrained")[1]
    axes.hist(_numbers(similarities), bins=5 * BARS, range=(0, 1))
    if threshold is not None:
        axes.axvline(threshold, color="black", linestyle="--", label=f"threshold {threshold:g}")
        axes.legend()
    axes.set(xlabel="similarity", ylabel="pairs", xlim=(0, 1))
    return axes


def _numbers(similarities: Any) -> np.ndarray:
    return np.asarray(similarities.drop_null())
