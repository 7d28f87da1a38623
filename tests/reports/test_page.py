"""Tests of the page: it is complete, well formed, and cannot be changed by documents."""

import base64
import hashlib
import html
import json
import re
import subprocess
import sys
from dataclasses import replace
from html.parser import HTMLParser

import pytest

from nearkin.quality.evaluate.boilerplate import Boilerplate, Phrase, SourceShare
from nearkin.quality.evaluate.intervals import Proportion
from nearkin.reports import charts, page
from nearkin.reports.model import (
    BorderlinePair,
    ClusterExcerpt,
    Counts,
    LinesReport,
    PassageReport,
    Provenance,
    QuotedBucket,
    ReasonCount,
    RemovedExample,
    ReportData,
    SourceCount,
    StageSeconds,
    ThresholdStep,
)
from nearkin.reports.page import compare_cluster, render_page
from nearkin.texts.passages.cutting.request import CutCounts

VOID = {"meta", "link", "br", "img", "input", "hr"}
HOSTILE = (
    "</pre></style></title>--><script>alert(1)</script><img src=x onerror=alert(1)> "
    "\" ' {{ 7*7 }} {% raw %} \u202e\x00\x1b[2J"
)


class Structure(HTMLParser):
    """A parser that records tags and attributes, and checks that tags are nested."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.open: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.text: list[str] = []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += attrs
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += attrs

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text.append(data)


def test_page_has_every_section_and_is_well_formed(data: ReportData) -> None:
    text = render_page(data)
    structure = Structure(text)
    ids = [value for name, value in structure.attributes if name == "id"]
    assert len(set(ids)) == len(ids)
    for name, value in structure.attributes:
        if name in ("aria-labelledby",) or (name == "href" and value):
            assert str(value).removeprefix("#") in ids
    for words in (
        data.headline,
        "the source mirror lost 190 of 200 documents (95.0%)",
        "all rights reserved",
        "invalid UTF-8",
        "13 bands of 7 rows",
        "1.3 GB",
    ):
        assert words in text
    assert structure.tags.count("svg") == 3
    assert structure.tags.count("table") == structure.tags.count("caption")


def test_page_loads_nothing_and_runs_one_known_script(data: ReportData) -> None:
    text = render_page(data)
    assert not re.search(r"https?:|url\(|@import|<link|<iframe|\son\w+=", text)
    (script,) = re.findall(r"<script[^>]*>(.*?)</script>", text, re.DOTALL)
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    assert f"default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{digest}'" in text
    assert not re.search(
        r"innerHTML|insertAdjacent|document\.write|eval|Function|fetch|import", script
    )


def test_page_begins_with_three_clusters_that_differ(data: ReportData) -> None:
    same = ClusterExcerpt("same", "one two", 9, (RemovedExample("copy", 1.0, "one two"),))
    other = ClusterExcerpt("left", "one two", 2, (RemovedExample("right", 0.9, "one three"),))
    text = render_page(replace(data, clusters=(same, same, other, other, other)))
    before, folded = text.split("2 more of the largest clusters")
    assert before.count("<article") == 3
    assert '<bdi class="id">same</bdi>' not in before
    assert folded.count("<article") == 2
    assert before.index("<article") < text.index('<section id="removed"')


def test_page_names_its_date_version_command_and_inputs(data: ReportData) -> None:
    made = Provenance("2026-11-22T07:45:10Z", "1.2.3", ("crawl/*.jsonl",), "nearkin dedup 'a b'")
    text = html.unescape(" ".join(render_page(replace(data, provenance=made)).split()))
    assert "22 November 2026, 07:45 UTC, nearkin 1.2.3" in text
    assert "<code>nearkin dedup 'a b'</code>" in text
    assert '<th scope="row">Inputs</th><td dir="auto">crawl/*.jsonl</td>' in text


def test_sources_come_after_clusters(data: ReportData) -> None:
    text = render_page(data)
    assert text.index('<section id="clusters"') < text.index('<section id="sources"')
    assert text.index('href="#clusters"') < text.index('href="#sources"')


def test_navigation_lists_all_sections_in_their_order(data: ReportData) -> None:
    lines = LinesReport("line", 2, "documents", "keep", 1, 3, None)
    cuts = PassageReport(50, "words", "sentence", 3, CutCounts(1, 300, 1, 0, 0))
    text = render_page(replace(data, lines=lines, passages=cuts))
    sections = re.findall(r'<section id="([^"]+)"', text)
    assert {"lines", "passages"} <= set(sections)
    assert re.findall(r'<li><a href="#([^"]+)"', text) == sections


def test_random_clusters_are_shown_besides_the_largest(data: ReportData) -> None:
    drawn = ClusterExcerpt("drawn", "some words", 2, (RemovedExample("copy", 1.0, "some words"),))
    text = render_page(replace(data, sampled_clusters=(drawn,)))
    assert text.index("<article") < text.index("drawn at random from all others")
    assert text.index("drawn at random from all others") < text.index("drawn</bdi>")
    assert "drawn at random from all others" not in render_page(data)


def test_matrices_leaks_and_boilerplate_are_shown(data: ReportData) -> None:
    text = " ".join(render_page(data).split())
    assert "14.0% of the documents of split test have a duplicate in train (14 of 100)" in text
    assert re.search(
        r'<th scope="row" dir="auto">mirror</th><td class="n">200</td>'
        r'<td class="n heat"[^>]*>190<br><small>95.0%',
        text,
    )
    assert "we use cookies" in text
    assert "57 shingles were removed from all comparisons" in text
    clean = replace(
        data,
        leakage=replace(data.leakage, similar=((90, 12), (0, 0))),
        boilerplate=Boilerplate(700, ()),
    )
    assert "No document of a smaller split" in render_page(clean)
    assert "No shingle is in more than 1.0%" in render_page(clean)


def test_advice_begins_with_a_capital_and_keeps_others(data: ReportData) -> None:
    audit = replace(data.audit, advice="raise max_df. Clusters suffer less")
    assert "Raise max_df. Clusters suffer less." in render_page(replace(data, audit=audit))


def test_recall_chart_shows_measured_bins_only(data: ReportData) -> None:
    chart = charts.draw_recall(data.audit)
    assert len(chart.points) == 2
    first, second = chart.points
    assert first.x < second.x
    assert second.y == pytest.approx(charts.TOP)
    assert first.high < first.y < first.low
    assert all(
        charts.TOP - 1e-9 <= y <= charts.HEIGHT - charts.BOTTOM
        for p in chart.points
        for y in (p.y, p.low, p.high)
    )
    none = replace(data.audit, recall=Proportion.from_counts(0, 0), bins=())
    assert "Recall by similarity</figcaption>" not in render_page(replace(data, audit=none))


def hostile(data: ReportData) -> ReportData:
    """Returns data in which every text is an attack."""
    return replace(
        data,
        title=HOSTILE,
        parameters=replace(
            data.parameters,
            keep=HOSTILE,
            shingle=HOSTILE,
            verify=HOSTILE,
            scheme=HOSTILE,
            cluster=HOSTILE,
        ),
        seconds=(StageSeconds(HOSTILE, 1.0),),
        sources=(SourceCount(HOSTILE, 10, 10),),
        hot_buckets=(QuotedBucket(1, 10, (HOSTILE,)),),
        rejected=(ReasonCount(HOSTILE, 1),),
        clusters=(
            ClusterExcerpt(
                HOSTILE,
                HOSTILE + " old",
                3,
                (
                    RemovedExample(HOSTILE, 0.9, "new " + HOSTILE),
                    RemovedExample(HOSTILE, 1.0, HOSTILE),
                ),
            ),
            ClusterExcerpt(HOSTILE, HOSTILE, 2, (RemovedExample(HOSTILE, 1.0, HOSTILE),)),
            ClusterExcerpt(HOSTILE, HOSTILE, 2),
        ),
        warnings=(HOSTILE,),
        audit=replace(data.audit, advice=HOSTILE),
        boilerplate=Boilerplate(9, (Phrase(HOSTILE, 2, 0.5, (SourceShare(HOSTILE, 1.0),), False),)),
        overlap=replace(data.overlap, column=HOSTILE, labels=(HOSTILE, HOSTILE + "2")),
        leakage=replace(data.leakage, column=HOSTILE, labels=(HOSTILE, HOSTILE + "2")),
        borderline=(
            BorderlinePair(0.8, 0.81, HOSTILE, HOSTILE, HOSTILE + " old", "new " + HOSTILE),
        ),
    )


def test_hostile_text_adds_no_markup(data: ReportData) -> None:
    """Escaping is complete if hostile and harmless texts lead to the same elements."""
    attacked = render_page(hostile(data))
    structure = Structure(attacked)
    tame = Structure(
        render_page(
            ReportData.from_json(hostile(data).to_json().replace(json_of(HOSTILE), "tame words"))
        )
    )
    assert structure.tags == tame.tags
    assert structure.tags.count("script") == 1
    assert "img" not in structure.tags
    assert "".join(structure.text).count("<script>alert(1)</script>") > 10
    assert "{{ 7*7 }}" in attacked
    assert not re.search("[\x00-\x08\x1b\u202e]", attacked)
    attacked.encode()


def json_of(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)[1:-1]


def test_empty_run_has_a_page(data: ReportData) -> None:
    text = render_page(ReportData("nothing", data.parameters, Counts(0, 0)))
    structure = Structure(text)
    assert "0 of 0 documents kept" in text
    assert "svg" not in structure.tags


def test_run_without_banding_has_no_curve(data: ReportData) -> None:
    text = render_page(
        replace(data, audit=None, parameters=replace(data.parameters, bands=0, rows=0, curve=()))
    )
    assert "<polyline" not in text
    assert "every pair was compared" in text


def test_run_without_verification_is_labelled_as_not_verified(data: ReportData) -> None:
    text = render_page(replace(data, parameters=replace(data.parameters, verify="none")))
    assert "not verified" in text


def test_condition_takes_the_place_of_the_threshold(data: ReportData) -> None:
    parameters = replace(data.parameters, threshold=1e-09, accept="containment >= 0.98")
    text = render_page(replace(data, parameters=parameters, what_if=()))
    assert text.count(html.escape("containment >= 0.98")) >= 2
    assert "1e-09" not in text


def test_differences_are_marked_and_long_equal_passages_elided(data: ReportData) -> None:
    pair = compare_cluster(data.clusters[0])
    assert "<ins>old</ins> end" in pair.left
    assert "<del>new</del> end" in pair.right
    assert 'class="elided"' in pair.left
    assert len(pair.others) == 1


def test_only_text_that_is_lost_with_the_removed_document_is_struck_out(data: ReportData) -> None:
    example = RemovedExample("copy", 0.9, "one two lost three")
    clusters = (ClusterExcerpt("original", "one two remaining three", 2, (example,)),)
    borderline = (BorderlinePair(0.9, 0.9, "a", "b", "four five six", "four five seven"),)
    steps = (ThresholdStep(0.9, 5, 5),)
    text = render_page(replace(data, clusters=clusters, borderline=borderline, what_if=steps))
    assert set(re.findall("<del>(.*?)</del>", text)) == {"Struck out", "lost"}
    assert set(re.findall("<ins>(.*?)</ins>", text)) == {"Underlined", "remaining"}
    assert set(re.findall("<mark>(.*?)</mark>", text)) == {"six", "seven"}


@pytest.mark.parametrize(
    ("similarity", "words"),
    [(1.0, "with the same words"), (0.97, "with similarity 0.970 and the same text")],
)
def test_equal_excerpts_are_shown_once(similarity: float, words: str) -> None:
    pair = compare_cluster(
        ClusterExcerpt("a", "same text", 2, (RemovedExample("b", similarity, "same  text"),))
    )
    assert not pair.right
    assert words in pair.note


def test_page_shows_at_most_twenty_clusters_and_a_hundred_sources(data: ReportData) -> None:
    many = replace(
        data,
        clusters=data.clusters[:1] * 30,
        sources=tuple(SourceCount(f"s{i}", i, 0) for i in range(130)),
    )
    text = render_page(many)
    assert text.count("<article") == page.MAX_CLUSTERS
    assert "30 smaller sources are not shown" in text
    assert "s129" in text


def test_rendering_twice_gives_the_same_bytes(data: ReportData) -> None:
    assert render_page(data) == render_page(data)


def luminance(colour: str) -> float:
    channels = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(a: str, b: str) -> float:
    high, low = sorted((luminance(a), luminance(b)), reverse=True)
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("scheme", [0, 1], ids=["light", "dark"])
def test_colors_have_contrast(scheme: int, data: ReportData) -> None:
    """WCAG 2.2 requires 4.5 for text (1.4.3) and 3 for the parts of charts (1.4.11)."""
    blocks = re.findall(r":root \{(.*?)\}", render_page(data), re.DOTALL)
    colours = dict(re.findall(r"--([\w-]+): (#[0-9a-f]{6})", blocks[scheme]))
    text = (
        "ink ground, ink raised, muted ground, muted raised, link ground, ink alarm, "
        "ins-ink ins, del-ink del"
    )
    graphics = [
        "kept",
        "exact",
        "near",
        "rejected",
        "empty",
        "candidates",
        "verified",
        "curve",
        "marker",
        "alarm-line",
    ]
    for front, back in map(str.split, text.split(",")):
        assert contrast(colours[front], colours[back]) >= 4.5, (front, back)
    for front in graphics:
        assert contrast(colours[front], colours["ground"]) >= 3, front


def test_rendering_imports_no_plotting_library() -> None:
    code = "import sys, nearkin.reports.page; sys.exit('matplotlib' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
