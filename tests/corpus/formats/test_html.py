"""The main text of HTML pages."""

from pathlib import Path

import pytest

from nearkin.corpus import Columns
from nearkin.corpus.formats.html import extract_main_text
from tests.corpus.formats.kept_copies import deduplicate, read_reasons, read_texts
from tests.corpus.formats.record_files import PAGE, TEXTS


def test_navigation_and_footers_are_left_out() -> None:
    assert extract_main_text(PAGE.format(f"{TEXTS[0]}.").encode()) == f"{TEXTS[0]}."
    assert extract_main_text(b"") == ""


@pytest.mark.parametrize("charset", ["iso-8859-1", None])
def test_encoding_is_named_or_detected(charset: str | None) -> None:
    text = "Köln am Rhein. " * 9
    page = f"<meta charset='iso-8859-1'><p>{text}</p>".encode("latin-1")
    assert "Köln" in extract_main_text(page, charset)


def test_pages_in_a_folder_are_compared_by_their_main_text(tmp_path: Path) -> None:
    folder = tmp_path / "pages"
    folder.mkdir()
    for number, text in enumerate([TEXTS[0], TEXTS[1], TEXTS[2]]):
        menu = " ".join(f"menu{number}x{j}" for j in range(200))
        page = PAGE.format(f"{text}.").replace("Menu", menu)
        (folder / f"{number}.html").write_text(page)
    kept = deduplicate(folder, "--main-text").parent
    assert sorted(path.name for path in kept.rglob("*.html")) == ["0.html", "2.html"]
    assert (kept / "0.html").read_bytes() == (folder / "0.html").read_bytes()


def test_page_that_is_too_large_is_rejected(tmp_path: Path) -> None:
    path = tmp_path / "a.html"
    path.write_text(PAGE.format("x" * 2000))
    columns = Columns(main_text=True, document_limit=1000)
    assert read_texts(path, columns) == []
    assert len(read_reasons(path, columns)) == 1


@pytest.mark.parametrize("charset", ["nonsense", "raw_unicode_escape", "undefined", "zip"])
def test_encoding_that_browsers_do_not_know_is_detected(charset: str) -> None:
    assert extract_main_text(b"<p>words \\ud800</p>", charset) == "words \\ud800"


def test_page_that_is_nested_deeply_is_rejected(tmp_path: Path) -> None:
    path = tmp_path / "a.html"
    path.write_text("<div>" * 6000 + "words")
    columns = Columns(main_text=True)
    assert read_texts(path, columns) == []
    assert "nested" in read_reasons(path, columns)[0]
    path.write_text("<div>words</div>" * 6000)
    assert len(read_texts(path, columns)) == 1


def test_binary_with_the_suffix_of_a_page_is_rejected(tmp_path: Path) -> None:
    path = tmp_path / "a.html"
    path.write_bytes(b"\x89PNG\r\n\x1a\n")
    columns = Columns(main_text=True)
    assert read_texts(path, columns) == []
    assert read_reasons(path, columns) == ["the content is not a page: a PNG picture"]
