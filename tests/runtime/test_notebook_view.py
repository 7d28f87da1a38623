"""Tests of the HTML that notebooks show."""

from html.parser import HTMLParser

from nearkin.runtime.notebook_view import BarView, TableView, render_progress, render_view


class Collected(HTMLParser):
    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.texts: list[str] = []
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: object) -> None:
        self.tags.append(tag)

    def handle_data(self, data: str) -> None:
        self.texts.append(data)


def test_markup_and_control_characters_of_values_are_shown_as_text() -> None:
    hostile = "<script>alert(1)</script>\x1b[2J\u202e"
    html = render_view(hostile, {"name": hostile}, [], [TableView(hostile, [hostile], [[hostile]])])
    collected = Collected(html)
    assert "script" not in collected.tags
    assert "<script>alert(1)</script>␛[2J‹U+202E›" in collected.texts
    assert "\x1b" not in html


def test_tables_show_their_first_rows_and_the_number_of_all() -> None:
    rows = [[row, row / 3, row % 2 == 0, None] for row in range(50)]
    texts = Collected(render_view("", {}, [], [TableView("rows", list("abcd"), rows)])).texts
    assert "rows (20 of 50)" in texts
    assert texts.count("None") == 20
    texts = Collected(render_view("", {}, [], [TableView("all", ["a"], [[1]], 1)])).texts
    assert texts == ["", "all", "a", "1"][1:]


def test_long_values_are_cut_and_numbers_have_separators() -> None:
    texts = Collected(render_view("", {}, [], [TableView("", ["a"], [["x" * 99], [12345]])])).texts
    assert "x" * 59 + "…" in texts
    assert "12,345" in texts


def test_bars_are_as_wide_as_their_share_of_the_largest() -> None:
    html = render_view("", {}, [BarView("pairs", ["low", "high"], [5, 20])])
    assert "width: 25.0%" in html
    assert "width: 100.0%" in html
    assert "width: 0.0%" in render_view("", {}, [BarView("pairs", ["low"], [0])])


def test_progress_without_a_total_has_no_numbers() -> None:
    assert Collected(render_progress("verify", 3, None)).texts == ["verify "]
    assert Collected(render_progress("verify", 3, 4)).texts == ["verify ", " 3 of 4"]
