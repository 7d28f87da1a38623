"""Tests of the page of a fit: numbers, hostile texts, and a browser."""

import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from playwright.sync_api import Browser

import nearkin as nk
from nearkin.quality.evaluate.intervals import Estimate
from nearkin.quality.fit.result import FitResult, WrongPair
from nearkin.reports.charts import BOTTOM, HEIGHT, LEFT, TOP, WIDTH, plot_y
from nearkin.reports.fit_page import draw_precision_recall, recall_x, render_fit
from nearkin.settings.choices import ClusterMethod
from tests.conftest import PATIENCE
from tests.quality.fit.corpora import records
from tests.reports.test_browser import DESK, OVERLAPPING, PHONE
from tests.reports.test_page import HOSTILE, Structure

CORPUS = records([3] * 8 + [1] * 12)


@pytest.fixture(scope="module")
def fitted() -> FitResult:
    table = {"id": list(CORPUS.texts), "text": list(CORPUS.texts.values())}
    return nk.fit(table, CORPUS.clusters, id="id")


def with_wrong_pairs(fitted: FitResult, text: str) -> FitResult:
    """Returns a result with a wrong pair of each kind, whose ids and texts begin with a text."""
    pair = WrongPair(text + "a", text + "b", text + " one", text + " two", 0.5)
    return replace(
        fitted, false_pairs=(pair,), missed_pairs=(pair,), false_count=12, missed_count=1
    )


CUT_NOTES = """Array.from(document.querySelectorAll("p.note, caption"))
    .filter(note => note.getBoundingClientRect().right > innerWidth)
    .map(note => note.textContent)"""
"""Explanations of which a part is outside the window."""


def test_curves_are_the_scores_of_each_threshold(fitted: FitResult) -> None:
    chart = draw_precision_recall(fitted.choices, fitted.held_out)
    assert len(chart.curves) == len(fitted.choices) == 3
    for plotted, choice in zip(chart.curves, fitted.choices, strict=True):
        drawn = np.array([point.split(",") for point in plotted.points.split()], np.float64)
        has_found = choice.curve.together > 0
        # Positions are rounded to a tenth of a unit.
        recall = (drawn[:, 0] - LEFT) / (WIDTH - LEFT - 12)
        precision = (HEIGHT - BOTTOM - drawn[:, 1]) / (HEIGHT - BOTTOM - TOP)
        assert recall == pytest.approx(choice.curve.recall[has_found], abs=0.05 / 300)
        assert precision == pytest.approx(choice.curve.precision[has_found], abs=0.05 / 180)
        assert plotted.x == recall_x(choice.recall.value)
        assert plotted.y == plot_y(choice.precision.value)


def test_held_out_point_has_both_intervals(fitted: FitResult) -> None:
    assert fitted.held_out is not None
    held_out = replace(
        fitted.held_out, precision=Estimate(0.8, 0.7, 0.9), recall=Estimate(0.5, 0.25, 0.75)
    )
    point = draw_precision_recall(fitted.choices, held_out).held_out
    assert point is not None
    assert (point.left, point.x, point.right) == tuple(recall_x(r) for r in (0.25, 0.5, 0.75))
    assert (point.low, point.y, point.high) == tuple(plot_y(p) for p in (0.7, 0.8, 0.9))
    assert "precision 0.800 (0.700 to 0.900)" in point.label
    assert draw_precision_recall(fitted.choices, None).held_out is None


def test_page_has_the_scores_of_all_settings(fitted: FitResult) -> None:
    text = render_fit(fitted, "people.csv", "nearkin dedup people.csv")
    structure = Structure(text)
    shown = " ".join("".join(structure.text).split())
    assert "nearkin dedup people.csv" in shown
    for choice in fitted.choices:
        assert str(choice.definition) in shown
        for score in (choice.precision, choice.recall, choice.f1):
            assert f"{score.value:.3f}" in shown
    assert fitted.held_out is not None
    assert "to expect, in cross-validation" in shown
    assert structure.tags.count("polyline") == 3


def test_page_names_connected_components(fitted: FitResult) -> None:
    definition = replace(fitted.best.definition, cluster=ClusterMethod.COMPONENTS)
    best = replace(fitted.best, definition=definition)
    text = render_fit(replace(fitted, best=best, choices=(best,)), "people.csv")
    assert text.count("connected components") >= 3


def test_page_shows_wrong_pairs_side_by_side(fitted: FitResult) -> None:
    text = render_fit(with_wrong_pairs(fitted, "same "), "people.csv")
    assert text.count("<mark>one</mark>") == text.count("<mark>two</mark>") == 2
    shown = " ".join("".join(Structure(text).text).split())
    assert "12 of the compared pairs. These are 1 of them." in shown
    assert "1 of the compared pairs." in shown
    assert "Their own similarity may be above the threshold." in shown


def test_hostile_texts_are_escaped(fitted: FitResult) -> None:
    hostile = replace(with_wrong_pairs(fitted, HOSTILE), warnings=(HOSTILE,))
    text = render_fit(hostile, HOSTILE, HOSTILE)
    structure = Structure(text)
    assert not {"script", "img"} & set(structure.tags)
    assert not any(name.startswith("on") for name, _ in structure.attributes)
    assert not set("\x00\x1b\u202e") & set(text)
    assert "{{ 7*7 }}" in "".join(structure.text)


def test_page_loads_nothing(fitted: FitResult) -> None:
    text = render_fit(fitted, "people.csv")
    assert "default-src 'none'" in text
    assert not re.search(r"(?:src|href)=\"(?!#)", text)
    assert "@import" not in text
    assert "url(" not in text


@pytest.fixture(scope="module")
def page_file(fitted: FitResult, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("page") / "fit.html"
    path.write_text(render_fit(with_wrong_pairs(fitted, "one text "), "people.csv"), "utf-8")
    return path


@pytest.fixture(params=["light", "dark"])
def scheme(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.mark.parametrize("viewport", [DESK, PHONE], ids=["desk", "phone"])
def test_page_fits_a_phone_and_follows_the_dark_mode(
    browser: Browser, page_file: Path, viewport: dict[str, int], scheme: str
) -> None:
    context = browser.new_context(viewport=viewport, color_scheme=scheme)
    context.set_default_timeout(PATIENCE)
    page = context.new_page()
    messages: list[str] = []
    page.on("console", lambda message: messages.append(message.text))
    page.on("pageerror", lambda error: messages.append(str(error)))
    page.goto(f"file://{page_file}")
    width = page.evaluate("document.documentElement.scrollWidth")
    ground = page.evaluate("getComputedStyle(document.body).backgroundColor")
    overlapping = page.evaluate(OVERLAPPING)
    cut_notes = page.evaluate(CUT_NOTES)
    context.close()
    assert messages == []
    assert width <= viewport["width"]
    assert ground == ("rgb(255, 255, 255)" if scheme == "light" else "rgb(20, 23, 28)")
    assert overlapping == []
    assert cut_notes == []
