"""Tests of the report in a browser: printed, on a phone, dark, by keyboard, and with its slider."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page

from nearkin.cli.app import run as command
from tests.conftest import PATIENCE

PHONE, DESK = {"width": 360, "height": 800}, {"width": 1200, "height": 900}
OVERLAPPING = """() => {
  const texts = [...document.querySelectorAll("svg text")].filter(t => t.textContent.trim());
  const boxes = texts.map(t => [t, t.getBoundingClientRect()]);
  const found = [];
  for (let i = 0; i < boxes.length; i++) for (let j = i + 1; j < boxes.length; j++) {
    const [t, a] = boxes[i], [u, b] = boxes[j];
    if (t.ownerSVGElement !== u.ownerSVGElement) continue;
    const wide = Math.min(a.right, b.right) - Math.max(a.left, b.left);
    const high = Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top);
    if (wide > 1 && high > 3) found.push(t.textContent + " / " + u.textContent);
  }
  return found;
}"""


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Returns a run with every section: sources, splits, an audit, pairs of many similarities."""
    folder = tmp_path_factory.mktemp("browser")
    command(
        [
            "lab",
            "synth",
            "--out",
            str(folder / "s"),
            "--documents",
            "6000",
            "--length",
            "fixed:400",
            "--boilerplate",
            "0.3",
        ]
    )
    line = [
        "dedup",
        str(folder / "s" / "documents"),
        "--id",
        "id",
        "--source",
        "source",
        "--split",
        "source",
        "--audit",
    ]
    assert command([*line, "--out", str(folder / "d")]) == 0
    return folder / "d"


@pytest.fixture
def page(browser: Browser, run: Path, request: pytest.FixtureRequest) -> Iterator[Page]:
    """Yields the opened report. A message on the browser's console is a failure."""
    options = getattr(request, "param", {"viewport": DESK})
    context = browser.new_context(**options)
    context.set_default_timeout(PATIENCE)
    page = context.new_page()
    messages: list[str] = []
    page.on("console", lambda message: messages.append(message.text))
    page.on("pageerror", lambda error: messages.append(str(error)))
    page.on(
        "request",
        lambda request: (
            messages.append(request.url) if not request.url.startswith("file:") else None
        ),
    )
    page.goto(f"file://{run / 'report.html'}")
    yield page
    assert messages == []
    context.close()


FORMS = [
    {"viewport": DESK},
    {"viewport": PHONE},
    {"viewport": DESK, "color_scheme": "dark"},
    {"viewport": PHONE, "color_scheme": "dark"},
]


@pytest.mark.parametrize(
    "page", FORMS, indirect=True, ids=["desk", "phone", "desk-dark", "phone-dark"]
)
def test_page_has_no_overflow_and_no_overlapping_labels(page: Page) -> None:
    assert (
        page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
        <= 0
    )
    assert page.evaluate(OVERLAPPING) == []
    for chart in page.locator("svg").all():
        box = chart.bounding_box()
        assert box is not None
        assert box["width"] > 280
    size = page.evaluate(
        "Math.min(...[...document.querySelectorAll('svg text')]"
        ".map(t => t.getBoundingClientRect().height))"
    )
    assert size >= 9


@pytest.mark.parametrize("page", [{"viewport": DESK, "color_scheme": "dark"}], indirect=True)
def test_dark_scheme_is_dark_and_marks_are_visible(page: Page) -> None:
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(20, 23, 28)"
    for mark in ("svg rect.verified", "svg .point circle"):
        assert (
            page.locator(mark).first.evaluate("e => getComputedStyle(e).fill")
            == "rgb(91, 151, 238)"
        )


def test_slider_shows_the_result_at_a_higher_threshold(page: Page, run: Path) -> None:
    steps = json.loads((run / "report.json").read_bytes())["what_if"]
    slider, kept = page.get_by_label("Threshold", exact=True), page.locator("#what-if-kept")
    assert kept.text_content() == f"{steps[0][1]:,}"
    assert page.locator("#what-if-more").text_content() == "as in this run"
    slider.focus()
    for _ in range(5):
        page.keyboard.press("ArrowRight")
    threshold, count, pairs = steps[5]
    assert page.locator("#what-if-value").text_content() == f"{threshold:.3f}"
    assert kept.text_content() == f"{count:,}"
    assert page.locator("#what-if-pairs").text_content() == f"{pairs:,}"
    assert (
        page.locator("#what-if-more").text_content()
        == f"{count - steps[0][1]:,} more than in this run"
    )
    shown = page.locator("#what-if-panel > section:visible")
    assert shown.count() == 1
    assert f"Just above {threshold:.3f}" in (shown.text_content() or "")
    similarity = float((shown.locator(".similarity").first.text_content() or "").split()[-1])
    assert threshold - 0.001 <= similarity
    assert page.locator("#what-if-marker").evaluate("e => getComputedStyle(e).display") == "inline"
    assert float(page.locator("#what-if-marker").get_attribute("x1") or 0) > 300


def test_slider_agrees_with_a_run_at_the_higher_threshold(run: Path, tmp_path: Path) -> None:
    record = json.loads((run / "run.json").read_bytes())
    threshold, kept, pairs = json.loads((run / "report.json").read_bytes())["what_if"][10]
    line = [
        "dedup",
        str(run.parent / "s" / "documents"),
        "--id",
        "id",
        "--out",
        str(tmp_path / "d"),
    ]
    assert (
        command(
            [
                *line,
                "--threshold",
                str(threshold),
                "--bands",
                str(record["bands"]),
                "--rows",
                str(record["rows"]),
            ]
        )
        == 0
    )
    other = json.loads((tmp_path / "d" / "run.json").read_bytes())
    assert other["counts"]["kept"] == kept
    assert other["stages"]["verify"]["passed"] == pairs


def test_every_section_can_be_reached_by_keyboard(page: Page) -> None:
    names = [link.get_attribute("href") for link in page.locator("nav a").all()]
    assert {"#what-if", "#audit", "#leakage", "#boilerplate", "#sources"} <= set(names)
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.className") == "skip"
    reached = []
    for _ in names:
        page.keyboard.press("Tab")
        reached.append(page.evaluate("document.activeElement.getAttribute('href')"))
    assert reached == names
    page.keyboard.press("Enter")
    assert page.evaluate("location.hash") == names[-1]


def test_printed_page_is_white_and_complete(page: Page, tmp_path: Path) -> None:
    page.emulate_media(media="print", color_scheme="dark")
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    assert page.evaluate("getComputedStyle(document.body).color") == "rgb(0, 0, 0)"
    assert not page.locator("#what-if").is_visible()
    assert page.evaluate(OVERLAPPING) == []
    paper = tmp_path / "report.pdf"
    page.pdf(path=str(paper), format="A4")
    assert paper.stat().st_size > 20_000


def test_numbers_are_shown_without_scripts(browser: Browser, run: Path) -> None:
    context = browser.new_context(java_script_enabled=False)
    context.set_default_timeout(PATIENCE)
    page = context.new_page()
    page.goto(f"file://{run / 'report.html'}")
    assert not page.locator("#what-if-panel").is_visible()
    page.locator("#what-if details details > summary").click()
    assert page.locator("#what-if table").is_visible()
    context.close()


def test_sources_are_sorted_by_a_click_on_a_heading(page: Page) -> None:
    rows = page.locator("#sources .sortable tbody tr")
    cells = page.locator("#sources .sortable tbody td:nth-child(3)")
    removed = [int(cell.get_attribute("data-value") or "") for cell in cells.all()]
    page.locator("#sources").get_by_role("button", name="Removed", exact=True).click()
    shown = [int(cell.get_attribute("data-value") or "") for cell in cells.all()]
    assert shown == sorted(removed, reverse=True)
    page.locator("#sources").get_by_role("button", name="Source", exact=True).click()
    names = [row.locator("th").text_content() for row in rows.all()]
    assert names == sorted(names)
    assert page.locator("#sources [aria-sort]").count() == 1


@pytest.mark.parametrize("page", [{"viewport": {"width": 390, "height": 844}}], indirect=True)
def test_phone_shows_examples_and_folds_the_other_sections(page: Page) -> None:
    assert page.evaluate("document.documentElement.scrollHeight") <= 8000
    assert page.locator("#clusters article:visible").count() == 3
    folds = page.locator("details.fold")
    assert folds.count() > 5
    assert page.locator("details.fold[open]").count() == 0
    page.get_by_role("link", name="Run").click()
    assert page.locator("#run table").first.is_visible()


def test_clusters_are_found_by_id_and_text(page: Page) -> None:
    articles = page.locator("#clusters article")
    total = articles.count()
    id = articles.nth(4).locator(".id").first.text_content() or ""
    page.get_by_role("searchbox").fill(id.upper())
    shown = page.locator("#clusters article:visible")
    assert 1 <= shown.count() < total
    assert id in (shown.first.text_content() or "")
    assert f"{shown.count()} of {total} clusters" in (
        page.locator("#find-count").text_content() or ""
    )
    page.get_by_role("searchbox").fill("")
    assert page.locator("#clusters article:not([hidden])").count() == total
