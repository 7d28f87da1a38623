"""Tests of what notebooks show of results."""

import pickle

import matplotlib
import pyarrow as pa
import pytest

import nearkin as nk
from nearkin.reports.notebook import first_rows, similarity_bars

matplotlib.use("Agg")

TEXTS = [
    "the cat sat on the mat <b>",
    "the cat sat on the mat now",
    "a dog",
    "The cat sat on the mat <b>!",
]


def test_bars_leave_out_the_empty_ends() -> None:
    chart = similarity_bars("pairs", pa.chunked_array([[0.5, 0.52, 0.61, None]]), None)[0]
    assert chart.labels == ["0.50 to 0.55", "0.55 to 0.60", "0.60 to 0.65"]
    assert chart.values == [2, 0, 1]
    assert similarity_bars("pairs", pa.chunked_array([[None]], pa.float64()), None) == []


@pytest.mark.parametrize("percent", range(1, 101))
def test_no_bar_begins_below_the_threshold(percent: int) -> None:
    """A pair exactly at the threshold is in the bar that begins there."""
    threshold = percent / 100
    chart = similarity_bars("pairs", pa.chunked_array([[threshold, 1.0]]), threshold)[0]
    assert chart.labels[0].startswith(f"{threshold:.2f}")
    assert sum(chart.values) == 2


def test_bars_of_results_begin_at_the_threshold() -> None:
    """The pairs have a similarity of 2/3."""
    deduplicated = nk.dedup(TEXTS, threshold=0.66)
    results = (
        deduplicated,
        pickle.loads(pickle.dumps(deduplicated)),
        nk.pairs(TEXTS, threshold=0.66),
        nk.check(TEXTS[:1], TEXTS[1:], threshold=0.66),
    )
    for result in results:
        html = result._repr_html_()
        assert "0.66 to 0.70" in html
        assert "0.65 to" not in html
    short = similarity_bars("pairs", pa.chunked_array([[0.726]]), 0.725)[0]
    assert short.labels == ["0.725 to 0.75"]


@pytest.mark.parametrize("name", ["dedup", "pairs"])
def test_plots_have_an_edge_at_the_threshold(name: str) -> None:
    from matplotlib import pyplot

    axes = getattr(nk, name)(TEXTS, threshold=0.573).plot()
    assert 0.573 in [bar.get_x() for bar in axes.patches]
    pyplot.close(axes.figure)


def test_first_rows_know_the_number_of_all_rows() -> None:
    view = first_rows("rows", pa.table({"n": range(100)}))
    assert (len(view.rows), view.total, list(view.columns)) == (20, 100, ["n"])


def test_every_result_has_a_view_for_notebooks() -> None:
    deduplicated = nk.dedup(TEXTS, threshold=0.5)
    index = nk.Index.open("memory://")
    outcome = index.upsert("a", TEXTS[0], id="<i>")
    results = {
        "removed documents by similarity": deduplicated,
        "pairs by similarity": nk.pairs(TEXTS, threshold=0.5),
        "only in a": nk.explain(TEXTS[0], TEXTS[1]),
        "limits": nk.plan(1_000_000),
        "operating points": nk.tune(threshold=0.8),
        "groups": nk.split(TEXTS),
        "documents affected": nk.check(TEXTS[:1], TEXTS[1:]),
        "passages": nk.passages(TEXTS, min_tokens=3),
        "first rows": deduplicated.clusters,
        "members": index.cluster("a", outcome.cluster),
    }
    for shown, result in results.items():
        html = result._repr_html_()  # type: ignore[attr-defined]
        assert shown in html
        assert "<b>" not in html
        assert "<i>" not in html
    deduplicated.close()
    assert "kept" in deduplicated._repr_html_()


def test_a_closed_result_without_counts_is_shown_as_closed() -> None:
    deduplicated = nk.dedup(TEXTS)
    deduplicated.close()
    assert "closed" in deduplicated._repr_html_()


@pytest.mark.parametrize("name", ["dedup", "pairs"])
def test_plot_draws_all_pairs_on_axes_of_matplotlib(name: str) -> None:
    from matplotlib import pyplot

    result = getattr(nk, name)(TEXTS, threshold=0.5)
    axes = result.plot()
    assert sum(bar.get_height() for bar in axes.patches) == len(result.pairs)
    assert result.plot(axes) is axes
    pyplot.close(axes.figure)


def test_plot_has_no_threshold_where_a_condition_decides() -> None:
    from matplotlib import pyplot

    for options, lines in (({"threshold": 0.5}, 1), ({"accept": "jaccard >= 0.5"}, 0)):
        axes = nk.dedup(TEXTS, **options).plot()
        assert len(axes.lines) == lines
        pyplot.close(axes.figure)


def test_tunings_fits_splits_and_checks_are_drawn() -> None:
    from matplotlib import pyplot

    table = {"id": ["a", "b", "c"], "text": ["john smith london", "jon smith london", "mary jones"]}
    drawn = {
        "candidate probability": nk.tune(threshold=0.8),
        "precision": nk.fit(table, {"a": "1", "b": "1", "c": "2"}, id="id"),
        "documents": nk.split(TEXTS),
        "pairs": nk.check(TEXTS[:1], TEXTS[1:]),
    }
    for label, result in drawn.items():
        axes = result.plot()
        assert axes.get_ylabel() == label
        assert axes.lines or axes.patches
        assert result.plot(axes) is axes
        pyplot.close(axes.figure)
    heights = [bar.get_height() for bar in drawn["documents"].plot().patches]
    assert sum(heights) == len(TEXTS)
