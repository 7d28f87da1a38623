"""Tests of bins of similarity: no bin with reported pairs begins below the threshold."""

import re
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import nearkin as nk
from nearkin.errors import UsageError
from nearkin.reports.charts import draw_similarities
from nearkin.reports.page import render_page
from nearkin.reports.similarity_bins import BINS, Histogram

WORDS = [f"w{number}" for number in range(100)]


@given(st.integers(0, BINS))
def test_a_bin_contains_its_left_edge(step: int) -> None:
    counts = Histogram.from_similarities(np.array([step / BINS])).counts
    assert counts.index(1) == min(step, BINS - 1)


@given(st.lists(st.floats(0, 1)), st.lists(st.floats(0, 1)), st.none() | st.floats(0.01, 1))
def test_histograms_of_parts_add_up(
    a: list[float], b: list[float], threshold: float | None
) -> None:
    parts = [Histogram.from_similarities(np.array(part), threshold) for part in (a, b)]
    assert parts[0] + parts[1] == Histogram.from_similarities(np.array(a + b), threshold)


@pytest.mark.parametrize(("threshold", "bins"), [(None, 50), (0.8, 50), (0.85, 51)])
def test_histogram_with_other_bins_is_rejected(threshold: float | None, bins: int) -> None:
    with pytest.raises(UsageError, match=f"{bins} bins, not 3"):
        Histogram((1, 2, 3), threshold)


@given(st.floats(0.001, 1), st.lists(st.floats(0, 1)))
def test_no_bin_of_pairs_above_a_threshold_begins_below_it(
    threshold: float, more: list[float]
) -> None:
    similarities = np.array([threshold, *(max(threshold, similarity) for similarity in more)])
    histogram = Histogram.from_similarities(similarities, threshold)
    assert histogram.total == len(similarities)
    first = next(
        low for (low, _), count in zip(histogram.bins, histogram.counts, strict=True) if count
    )
    assert first >= threshold


def texts_at(threshold: float) -> list[str]:
    """Returns three texts: two have the Jaccard similarity of the threshold, two a greater one."""
    return [" ".join(WORDS), " ".join(WORDS[: round(100 * threshold)]), " ".join(WORDS[:-1])]


def lowest_end(html: str) -> float:
    """Returns the lower end of the first of the bins that a page shows."""
    return min(float(low) for low in re.findall(r">([\d.]+) to [\d.]+<", html))


@pytest.mark.parametrize("threshold", [0.33, 0.58, 0.8, 0.85, 0.9])
@pytest.mark.parametrize("measure", ["jaccard", "weighted-jaccard"])
def test_reports_and_notebooks_show_no_pairs_below_the_threshold(
    threshold: float, measure: str
) -> None:
    settings: dict[str, Any] = {"threshold": threshold, "shingle": "words:1", "measure": measure}
    texts = texts_at(threshold)
    pairs = nk.pairs(texts, **settings)
    assert min(pairs.pairs.arrow["similarity"].to_pylist()) == pytest.approx(threshold)
    assert lowest_end(pairs._repr_html_()) == threshold
    with nk.dedup(texts, max_removed=1, **settings) as result:
        report = result.report_data
        assert lowest_end(result._repr_html_()) >= threshold
        assert lowest_end(render_page(report)) == threshold
    chart = draw_similarities(report.verified, report.estimated, report.parameters)
    verified = [bar for bar in chart.bars if bar.series == "verified"]
    assert verified[0].label.startswith(f"{threshold:.2f} to")
    assert chart.marker is not None
    assert verified[0].x >= chart.marker


@pytest.mark.parametrize("threshold", [0.33, 0.58, 0.85])
def test_containment_is_shown_from_the_threshold_on(threshold: float) -> None:
    shared = round(100 * threshold)
    texts = [
        " ".join(WORDS),
        " ".join(WORDS[:shared] + [f"v{number}" for number in range(100 - shared)]),
    ]
    pairs = nk.pairs(texts, relation="containment", shingle="words:1", threshold=threshold)
    assert max(pairs.pairs.arrow["containment"].to_pylist()) == threshold
    assert lowest_end(pairs._repr_html_()) == threshold


def test_a_threshold_of_1_has_a_bin_of_its_own() -> None:
    texts = [" ".join(WORDS), " ".join(reversed(WORDS))]
    with nk.dedup(texts, threshold=1, shingle="words:1", max_removed=1) as result:
        verified = result.report_data.verified
        assert '<th scope="row">1.00</th>' in render_page(result.report_data)
    assert (verified.bins[-1], verified.counts[-1], verified.total) == ((1.0, 1.0), 1, 1)


def test_bins_of_distances_begin_at_the_similarity_of_the_distance() -> None:
    """Fingerprints of 64 bits may differ in 3: their similarity 61/64 is inside a bin of 0.02."""
    fingerprints = pa.table({"f": pa.array([0, 0b111, 0b11], pa.uint64()), "id": [1, 2, 3]})
    settings: dict[str, Any] = {"fingerprint": "f", "id": "id", "distance": 3}
    with nk.dedup(fingerprints, max_removed=1, **settings) as result:
        report = result.report_data
        first = next(i for i, count in enumerate(report.verified.counts) if count)
        assert report.verified.bins[first][0] == 61 / 64
        assert report.verified.total == 3
        assert "0.953125 to 0.96" in render_page(report)
        assert "0.953125 to 1.00" in result._repr_html_()
    assert "0.94 to" not in nk.pairs(fingerprints, **settings)._repr_html_()


def test_a_condition_divides_no_bin() -> None:
    texts = texts_at(0.85)
    with nk.dedup(texts, accept="jaccard >= 0.85", shingle="words:1", max_removed=1) as result:
        assert result.report_data.verified.threshold is None
        assert len(result.report_data.estimated.counts) == BINS
