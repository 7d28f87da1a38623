"""Tests of chart geometry: inside the plot, in order, and true to the counts."""

from itertools import pairwise

import pytest

from nearkin.reports import charts
from nearkin.reports.charts import draw_similarities, draw_sizes, group_sizes
from nearkin.reports.model import Parameters, ReportData, SizeCount
from nearkin.reports.similarity_bins import BINS, Histogram


def test_size_classes_count_each_cluster_once() -> None:
    sizes = [SizeCount(size, size % 7 + 1) for size in range(2, 3000)] + [SizeCount(123_456_789, 1)]
    classes = group_sizes(sizes)
    assert sum(entry.clusters for entry in classes) == sum(entry.clusters for entry in sizes) - 1
    assert group_sizes(sizes[:-1])[-1].label == "1,000–9,999"
    assert group_sizes([]) == []


@pytest.mark.parametrize("counts", [(0,) * 49 + (1,), (3,) * BINS, (10**9,) + (0,) * 48 + (1,)])
def test_bars_are_inside_the_plot_and_grow_with_the_count(
    counts: tuple[int, ...], parameters: Parameters
) -> None:
    chart = draw_similarities(Histogram(counts), Histogram(), parameters)
    for bar in chart.bars:
        assert bar.x >= charts.LEFT
        assert bar.x + bar.width <= charts.WIDTH - charts.RIGHT
        assert charts.TOP - 0.01 <= bar.y < charts.HEIGHT - charts.BOTTOM
    by_count = sorted(chart.bars, key=lambda bar: bar.value)
    assert [bar.height for bar in by_count] == sorted(bar.height for bar in chart.bars)
    assert 2 <= len(chart.y_ticks) <= 8


def test_curve_rises_from_0_to_1(data: ReportData) -> None:
    chart = draw_similarities(data.verified, data.estimated, data.parameters)
    points = [tuple(map(float, point.split(","))) for point in chart.curve.split()]
    assert points[0] == (charts.LEFT, charts.HEIGHT - charts.BOTTOM)
    assert points[-1] == (charts.WIDTH - charts.RIGHT, charts.TOP)
    assert all(a[1] >= b[1] for a, b in pairwise(points))


def test_size_bars_are_labelled_by_their_smallest_size(data: ReportData) -> None:
    chart = draw_sizes(group_sizes(data.cluster_sizes))
    assert [tick.label for tick in chart.x_ticks] == [
        "2",
        "3",
        "4",
        "5+",
        "10+",
        "20+",
        "50+",
        "100+",
    ]
    assert [bar.value for bar in chart.bars] == [100, 45, 0, 0, 0, 0, 0, 1]
