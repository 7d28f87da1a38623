"""Draws S-curves of operating points, as text for a terminal or as SVG or PNG for a file."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from nearkin.errors import MissingExtraError, UsageError
from nearkin.quality.evaluate.golden import Scores
from nearkin.quality.plan.tune import OperatingPoint, Tuning
from nearkin.runtime.files import disk_errors, replacing_durably

TEXT_WIDTH = 64
TEXT_HEIGHT = 16
MARKS = "●○◆◇▲△"
SUFFIXES = (".svg", ".png")


def draw_text(tuning: Tuning, points: Sequence[OperatingPoint]) -> str:
    """Draws S-curves as text, with one mark for each point and a line at the threshold."""
    grid = [[" "] * (TEXT_WIDTH + 1) for _ in range(TEXT_HEIGHT + 1)]
    threshold_column = round(tuning.threshold * TEXT_WIDTH)
    for row in grid:
        row[threshold_column] = "┊"
    similarities = np.arange(TEXT_WIDTH + 1) / TEXT_WIDTH
    for mark, point in zip(MARKS, points, strict=False):
        for x, probability in enumerate(tuning.curve(point, similarities)):
            grid[TEXT_HEIGHT - round(float(probability) * TEXT_HEIGHT)][x] = mark
    labels = {0: "100 %", TEXT_HEIGHT // 2: " 50 %", TEXT_HEIGHT: "  0 %"}
    lines = [f"{labels.get(i, ''):>6} │{''.join(row).rstrip()}" for i, row in enumerate(grid)]
    axis = " " * 7 + "└" + "─" * (TEXT_WIDTH + 1)
    scale = [" "] * (TEXT_WIDTH + 4)
    for share in (0.0, 0.25, 0.5, 0.75, 1.0):
        text = f"{share:g}"
        start = round(share * TEXT_WIDTH)
        scale[start : start + len(text)] = text
    legend = [f"{mark} {point.banding}" for mark, point in zip(MARKS, points, strict=False)]
    return "\n".join([*lines, axis, " " * 8 + "".join(scale).rstrip(), "   ".join(legend)])


def draw_file(tuning: Tuning, points: Sequence[OperatingPoint], path: Path) -> None:
    """Draws S-curves to an SVG or PNG file, by its suffix."""
    figure, axes = _create_figure(path)
    tuning.plot(axes, points)
    _save_figure(figure, path)


def draw_scores(scored: Sequence[tuple[Mapping[str, Any], Scores]], path: Path) -> None:
    """Draws precision over recall with intervals, one point for each combination of settings."""
    figure, axes = _create_figure(path)
    for settings, scores in scored:
        recall = scores.recall
        precision = scores.precision
        if precision is None:
            continue
        axes.errorbar(
            [recall.value],
            [precision.value],
            xerr=[[recall.value - recall.low], [recall.high - recall.value]],
            yerr=[[precision.value - precision.low], [precision.high - precision.value]],
            marker="o",
            linestyle="none",
            label=", ".join(f"{name}={value}" for name, value in settings.items()),
        )
    axes.set(xlabel="recall", ylabel="precision", xlim=(0, 1.02), ylim=(0, 1.02))
    axes.legend()
    _save_figure(figure, path)


def require_plotting(path: Path) -> None:
    """Requires that a plot can be drawn, before the work whose result it shows."""
    if path.suffix not in SUFFIXES:
        raise UsageError(f"cannot plot to {path}; name the file *.svg or *.png")
    try:
        import matplotlib  # noqa: F401
    except ImportError as error:
        raise MissingExtraError.for_extra("plots require matplotlib", "plot") from error


def _create_figure(path: Path) -> tuple[Any, Any]:
    require_plotting(path)
    import matplotlib

    matplotlib.use("Agg")
    # text as text and a fixed salt: the same plot has the same bytes
    matplotlib.rcParams.update({"svg.fonttype": "none", "svg.hashsalt": "nearkin"})
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7, 4.5), layout="constrained")
    return figure, figure.add_subplot()


def _save_figure(figure: Any, path: Path) -> None:
    """Writes a picture. A previous one is unchanged if that fails."""
    # without dates and versions, so that the same plot has the same bytes
    metadata = {"Date": None} if path.suffix == ".svg" else {"Software": None}
    with disk_errors(path.parent), replacing_durably(path) as file:
        figure.savefig(file, format=path.suffix.removeprefix("."), metadata=metadata)
