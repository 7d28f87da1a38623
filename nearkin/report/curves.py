"""S-curves of operating points: as text for a terminal, as SVG or PNG for a file."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from nearkin.errors import UsageError
from nearkin.evaluate.golden import Scores
from nearkin.plan.tune import OperatingPoint, Tuning

WIDTH, HEIGHT = 64, 16
MARKS = "●○◆◇▲△"
POINTS = 201
SUFFIXES = (".svg", ".png")


def name_of(point: OperatingPoint) -> str:
    """As `13 × 7`, with tables and probes where there are any.

    Examples:
        >>> name_of(OperatingPoint(26, 7, 2, 3, 0.99, (), 0.6, 0.6, 3.0, 1.0, 104))
        '26 × 7, 2 tables, 3 probes'
    """
    more = [f"{point.tables} tables"] if point.tables > 1 else []
    more += [f"{point.probes} probes"] if point.probes else []
    return ", ".join([f"{point.bands} × {point.rows}", *more])


def draw_text(tuning: Tuning, points: Sequence[OperatingPoint]) -> str:
    """P(candidate) over similarity, one mark for each point, the threshold as a line."""
    grid = [[" "] * (WIDTH + 1) for _ in range(HEIGHT + 1)]
    at = round(tuning.threshold * WIDTH)
    for row in grid:
        row[at] = "┊"
    columns = np.arange(WIDTH + 1) / WIDTH
    for mark, point in zip(MARKS, points, strict=False):
        for x, chance in enumerate(tuning.curve(point, columns)):
            grid[HEIGHT - round(float(chance) * HEIGHT)][x] = mark
    labels = {0: "100 %", HEIGHT // 2: " 50 %", HEIGHT: "  0 %"}
    lines = [f"{labels.get(i, ''):>6} │{''.join(row).rstrip()}" for i, row in enumerate(grid)]
    axis = " " * 7 + "└" + "─" * (WIDTH + 1)
    scale = [" "] * (WIDTH + 4)
    for share in (0.0, 0.25, 0.5, 0.75, 1.0):
        text = f"{share:g}"
        start = round(share * WIDTH)
        scale[start : start + len(text)] = text
    legend = [f"{mark} {name_of(point)}" for mark, point in zip(MARKS, points, strict=False)]
    return "\n".join([*lines, axis, " " * 8 + "".join(scale).rstrip(), "   ".join(legend)])


def draw_file(tuning: Tuning, points: Sequence[OperatingPoint], path: Path) -> None:
    """The same as SVG or PNG, by the file's suffix.

    Raises:
        UsageError: It is another one.
    """
    similarities = np.linspace(0, 1, POINTS)
    figure, axes = _figure(path)
    for point in points:
        axes.plot(similarities, tuning.curve(point, similarities), label=name_of(point))
    axes.axvline(
        tuning.threshold, linestyle=":", color="black", label=f"threshold {tuning.threshold:g}"
    )
    axes.set(xlabel="similarity", ylabel="P(candidate)", xlim=(0, 1), ylim=(0, 1.02))
    axes.legend()
    _save(figure, path)


def draw_scores(found: Sequence[tuple[Mapping[str, Any], Scores]], path: Path) -> None:
    """Precision over recall, a point with its intervals for each setting, as SVG or PNG.

    Raises:
        UsageError: The file has another suffix.
    """
    figure, axes = _figure(path)
    for settings, scores in found:
        x, y = scores.recall, scores.precision
        across, up = (
            [[x.value - x.low], [x.high - x.value]],
            [[y.value - y.low], [y.high - y.value]],
        )
        label = ", ".join(f"{name}={value}" for name, value in settings.items())
        axes.errorbar(
            [x.value], [y.value], xerr=across, yerr=up, marker="o", linestyle="none", label=label
        )
    axes.set(xlabel="recall", ylabel="precision", xlim=(0, 1.02), ylim=(0, 1.02))
    axes.legend()
    _save(figure, path)


def _figure(path: Path) -> tuple[Any, Any]:
    if path.suffix not in SUFFIXES:
        raise UsageError(
            f"plot {path} is not named {' or '.join('*' + suffix for suffix in SUFFIXES)}"
        )
    import matplotlib

    matplotlib.use("Agg")
    # Text as text and a fixed salt: the same plot is the same bytes.
    matplotlib.rcParams.update({"svg.fonttype": "none", "svg.hashsalt": "nearkin"})
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7, 4.5), layout="constrained")
    return figure, figure.add_subplot()


def _save(figure: Any, path: Path) -> None:
    figure.savefig(path, metadata={"Date": None} if path.suffix == ".svg" else {"Software": None})
