"""The excerpts of documents, the clusters and the closest call that a report quotes."""

import json
from pathlib import Path

import pytest

import nearkin as nk
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


def test_random_clusters_are_drawn_from_the_others_and_the_closest_call_from_all() -> None:
    texts = []
    for group in range(40):
        words = [f"w{group}x{number}" for number in range(60)]
        texts += [" ".join(words), " ".join([*words[:50], "other", *words[51:]])]
    words = [f"closest{number}" for number in range(60)]
    texts += [" ".join(words), " ".join(["new", *words[1:30], "other", *words[31:59], "last"])]
    data = nk.dedup(texts, threshold=0.7).report_data
    largest = {cluster.id for cluster in data.clusters}
    drawn = {cluster.id for cluster in data.sampled_clusters}
    assert len(largest) == 20
    assert len(drawn) == 10
    assert not largest & drawn
    assert data.closest_call is not None
    assert {int(data.closest_call.kept), int(data.closest_call.removed)} == {80, 81}
    assert data.provenance is not None
    assert data.provenance.version == nk.__version__


def test_random_clusters_of_the_same_run_are_the_same() -> None:
    texts = [f"{' '.join(f'w{group}x{n}' for n in range(30))}" for group in range(50)] * 2
    first, second = (nk.dedup(texts).report_data.sampled_clusters for _ in range(2))
    assert first == second
    assert first
