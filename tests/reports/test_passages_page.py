"""The report page of a run over passages, which quotes strangers' texts."""

import re
from html import unescape
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from nearkin.texts.passages import quotes
from tests.cli.conftest import run

SHARED = "alle <b>Gäste</b> lassen \x1b[31m ihre Taschen & Mäntel am Eingang"


@pytest.fixture
def texts(tmp_path: Path) -> Path:
    rows = {
        "id": ["<script>alert(1)</script>", "b", "c"],
        "site": ["x\u202ey", "<i>z</i>", None],
        "text": [f"Hier: {SHARED}. Ende.", f"{SHARED}, {SHARED}!", "nichts davon"],
    }
    path = tmp_path / "texts.parquet"
    pq.write_table(pa.table(rows), path)
    return path


def page_of(texts: Path, out: Path, *options: str) -> str:
    line = ("--id", "id", "--min", "5", "--source", "site", "--out", out, "-q")
    assert run("passages", texts, *line, *options) == 0
    return (out / "report.html").read_text("utf-8")


def test_passages_are_marked_in_their_documents_and_texts_are_escaped(
    texts: Path, tmp_path: Path
) -> None:
    page = page_of(texts, tmp_path / "out", "--cut", "passage")
    for markup in ("<script", "<b>Gäste", "<i>z", "\x1b", "\u202e"):
        assert markup not in page
    assert '<bdi class="id">&lt;script&gt;alert(1)&lt;/script&gt;</bdi>' in page
    excerpts = [unescape(found) for found in re.findall(r"<pre[^>]*>(.*?)</pre>", page, re.S)]
    visible = SHARED.replace("\x1b", "␛")
    assert excerpts == [
        f"<mark>{visible}</mark>, <mark>{visible}</mark>!",
        f"Hier: <mark>{visible}</mark>. Ende.",
    ]
    assert "2 parts were cut" in page
    assert "(empty)" in page
    assert "http" not in page.replace("http-equiv", "")


def test_page_of_a_corpus_without_passages_is_complete(tmp_path: Path) -> None:
    path = tmp_path / "one.txt"
    path.write_text("one text alone")
    assert run("passages", path, "--out", tmp_path / "out", "-q") == 0
    page = (tmp_path / "out" / "report.html").read_text("utf-8")
    assert "0% of the text (0 B of 14 B) occurs more than once, in 0 of 1 document." in page
    assert "<table" not in page


def test_long_documents_are_quoted_around_their_first_passage(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(quotes, "CONTEXT_BYTES", 9)
    monkeypatch.setattr(quotes, "EXCERPT_BYTES", 30)
    rows = [f"{'ä' * 50} one two three four five six seven eight", "one two three four five six"]
    path = tmp_path / "texts.parquet"
    pq.write_table(pa.table({"text": rows}), path)
    assert run("passages", path, "--min", "5", "--out", tmp_path / "out", "-q") == 0
    page = (tmp_path / "out" / "report.html").read_text("utf-8")
    assert "… ääää <mark>one two three four fi</mark> …" in page
