"""The excerpts of documents that a report quotes."""

import json
from pathlib import Path

import pytest

from nearkin.reports.excerpts import EXCERPT_CHARACTERS, cut_excerpt
from nearkin.reports.files import read_report
from tests.cli.conftest import run


@pytest.mark.parametrize("most", range(1, 24))
def test_excerpt_ends_between_two_words(most: int) -> None:
    text = "alpha beta  gamma delta epsilon"
    excerpt = cut_excerpt(text, most)
    assert text.startswith(excerpt)
    assert len(excerpt) <= most
    if most >= len("alpha"):
        assert set(excerpt.split()) <= set(text.split())


def test_report_quotes_whole_words_of_long_documents(tmp_path: Path) -> None:
    words = [f"word{number:03}" for number in range(1000)]
    texts = [" ".join(words), " ".join(["x", *words])]
    source = tmp_path / "long.jsonl"
    source.write_text("".join(json.dumps({"text": text}) + "\n" for text in texts))
    assert run("dedup", source, "--out", tmp_path / "out", "-q") == 0
    (cluster,) = read_report(tmp_path / "out").clusters
    for quoted in (cluster.text, cluster.examples[0].text):
        assert EXCERPT_CHARACTERS - 10 < len(quoted) <= EXCERPT_CHARACTERS
        assert set(quoted.split()) <= {"x", *words}
