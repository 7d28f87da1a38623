"""Corpora of few documents are compared completely, however long the documents are."""

import random
from itertools import combinations

import pytest

import nearkin as nk
from nearkin.stages.verify import all_pairs

DRAW = random.Random(3)
LETTERS = "abcdefghijklmnopqrstuvwxyz "


def edited_copies(pairs: int) -> list[str]:
    """Returns pairs of texts whose similarity is a little above or below 0.8."""
    texts = []
    for _ in range(pairs):
        text = "".join(DRAW.choices(LETTERS, k=200))
        place = DRAW.randrange(20, 160)
        edited = "".join(DRAW.choices(LETTERS, k=DRAW.choice([12, 16, 20])))
        texts += [text, text[:place] + edited + text[place + len(edited) :]]
    return texts


def similarity(a: str, b: str) -> float:
    """Returns the Jaccard similarity of the 5-grams of characters of normalized texts."""
    sets = [{text[i : i + 5] for i in range(len(text) - 4)} for text in (a, b)]
    return len(sets[0] & sets[1]) / len(sets[0] | sets[1])


def test_fewer_than_5000_documents_are_compared_completely_however_long_they_are(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """No pair is missed, even if shingles are more than fit into the memory of the comparison."""
    monkeypatch.setattr("nearkin.engine.options.MOST_FIELD_SHINGLES", 100)
    monkeypatch.setattr(all_pairs, "MIN_ROWS", 300)
    monkeypatch.setattr(all_pairs, "BYTES_PER_POSTING", 1 << 40)
    monkeypatch.setattr(all_pairs, "COUNTS_SHARE", 1 << 20)
    texts = [" ".join(text.split()) for text in edited_copies(60)]
    expected = {
        (a, b)
        for a, b in combinations(range(len(texts)), 2)
        if similarity(texts[a], texts[b]) >= 0.8
    }
    result = nk.pairs(texts, shingle="chars:5", threshold=0.8)
    table = result.pairs.arrow
    ids = zip(table["id_a"].to_pylist(), table["id_b"].to_pylist(), strict=True)
    assert {tuple(sorted((int(a), int(b)))) for a, b in ids} == expected
    assert 10 < len(expected) < 60
    assert not result.warnings


def test_reference_and_documents_are_compared_completely(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("nearkin.engine.options.MOST_FIELD_SHINGLES", 100)
    texts = edited_copies(20)
    close = [a for a in range(0, 40, 2) if similarity(texts[a], texts[a + 1]) >= 0.82]
    result = nk.dedup(texts[::2], against=texts[1::2], shingle="chars:5", threshold=0.8)
    assert all(not result.kept[a // 2] for a in close)
    assert len(close) > 2
