"""Tests of pairs that are shown as examples."""

import json
import pickle
from pathlib import Path

import numpy as np
import pytest

import nearkin as nk
from nearkin.reports.examples import spread_over

WORDS = [f"word{number}" for number in range(40)]
TEXTS = [
    " ".join(WORDS),
    " ".join(WORDS).upper(),
    *(" ".join([*WORDS, *(f"<b>{i}{j}" for j in range(i))]) for i in range(1, 9)),
    "something else altogether",
]


def test_examples_are_spread_from_the_lowest_to_the_highest() -> None:
    similarity = np.array([0.8, 0.81, 0.82, 0.9, 0.95, 0.97, 0.99, 1.0])
    assert spread_over(similarity, 5).tolist() == [0, 2, 3, 4, 6]
    assert spread_over(similarity, 20).tolist() == [0, 1, 2, 3, 4, 5, 6]
    assert spread_over(np.array([1.0, 1.0]), 5).tolist() == [0, 1]
    assert spread_over(np.array([np.nan]), 5).tolist() == []


def test_removed_documents_are_shown_beside_the_kept_ones() -> None:
    result = nk.dedup(TEXTS, threshold=0.6)
    examples = result.examples(3)
    similarities = [pair.similarity for pair in examples]
    removed = {row["id"]: row for row in result.removed.arrow.to_pylist()}
    assert len(examples) == 3
    assert similarities == sorted(similarities)
    for pair in examples:
        row = removed[pair.id_b]
        assert (row["cluster"], row["similarity"]) == (pair.id_a, pair.similarity)
        assert pair.text_b == TEXTS[int(pair.id_b)]
        assert pair.text_a == TEXTS[int(pair.id_a)]
    assert min(row["similarity"] for row in removed.values()) == similarities[0]
    shown = repr(examples)
    assert shown.startswith("<PairExamples: 3 pairs>")
    assert "{+" in shown
    html = examples._repr_html_()
    assert "<ins>" in html
    assert "<b>" not in html


def test_pairs_of_files_are_read_again(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text("".join(f"{json.dumps({'text': text})}\n" for text in TEXTS))
    result = nk.pairs(path, threshold=0.6)
    examples = result.examples()
    assert len(examples) == 5
    assert examples[0].similarity == min(result.pairs["similarity"].to_pylist())
    assert {pair.text_a for pair in examples} < set(TEXTS)
    assert "«" in repr(examples)
    assert "<mark>" in examples._repr_html_()


def test_examples_that_cannot_be_read_are_refused() -> None:
    result = nk.pairs(TEXTS)
    for count in (0, 21):
        with pytest.raises(nk.UsageError, match="from 1 to 20"):
            result.examples(count)
    with pytest.raises(nk.UsageError, match="copied or unpickled"):
        pickle.loads(pickle.dumps(result)).examples()
    assert len(nk.dedup(["a b c", "d e f"]).examples()) == 0
    assert repr(nk.pairs(["a b c"]).examples()) == "<PairExamples: 0 pairs>"
