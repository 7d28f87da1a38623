"""Kernels of decontamination."""

import numpy as np
import pyarrow as pa
import pytest

from nearkin.settings.keys import HashKey
from nearkin.stages.shingle.shingler import Shingler
from nearkin.stages.winnowing.tokens import TokenReader
from nearkin.texts.decontamination.index import SuiteIndex
from nearkin.texts.decontamination.kernels import count_items, number_words
from nearkin.texts.decontamination.run import WordCounter
from nearkin.texts.decontamination.suites import ItemTexts, build_suite


def test_numbers_of_words_are_their_positions() -> None:
    rng = np.random.default_rng(5)
    # Hashes of equal first bits have one first row. The hash 0 is like a row of zeros.
    close = np.arange(300, dtype=np.uint64)
    spread = rng.integers(0, 1 << 63, 300).astype(np.uint64) * np.uint64(2) + np.uint64(1)
    words = np.unique(np.concatenate([close, spread, [np.uint64((1 << 64) - 1)]]))
    tokens = rng.choice(words, 5000)
    np.testing.assert_array_equal(number_words(tokens, words), np.searchsorted(words, tokens))
    assert len(number_words(words[:0], words[:0])) == 0


def test_items_with_a_word_are_counted_once_each() -> None:
    rng = np.random.default_rng(2)
    words = rng.integers(0, 9, 400)
    items = np.sort(rng.integers(0, 60, 400))
    counts = np.zeros(10, np.int64)
    count_items(words, items, np.full(10, -1, np.int64), counts)
    assert counts.tolist() == [len(set(items[words == word].tolist())) for word in range(10)]


def draw_words(rng: np.random.Generator, least: int, most: int) -> list[str]:
    """Returns some of three words, so that most short runs of words occur several times."""
    return rng.choice(["a", "b", "c"], int(rng.integers(least, most))).tolist()


@pytest.mark.parametrize("keyed", [False, True])
@pytest.mark.parametrize("least", [2, 3, 8, 13])
def test_documents_with_a_run_of_words_of_an_item_are_candidates(least: int, keyed: bool) -> None:
    rng = np.random.default_rng(least)
    key = HashKey(bytes(16)) if keyed else None
    items = [draw_words(rng, least, 2 * least) for _ in range(5)]
    names = [str(number) for number in range(len(items))]
    questions = {"question": [" ".join(item) for item in items]}
    suites = build_suite("s", ["question"], [ItemTexts(names, questions)], key)
    index = SuiteIndex(suites.without_words(least) if keyed else suites, least)
    index.prepare()
    texts = ["", "x"]
    for _ in range(300):
        item = items[int(rng.integers(0, len(items)))]
        start = int(rng.integers(0, len(item)))
        copied = item[start : start + int(rng.integers(0, 2 * least))]
        texts.append(" ".join([*draw_words(rng, 0, least), *copied, *draw_words(rng, 0, least)]))
    known = set.union(*(runs_of(" ".join(item), least) for item in items))
    counter = WordCounter(index)
    reader = TokenReader(Shingler(suites.spec, key), least)
    pieces = reader.read_pieces(pa.array(texts, pa.large_string()), 0)
    found = [number for piece in pieces for number in counter.scan(piece).tolist()]
    assert found == [number for number, text in enumerate(texts) if known & runs_of(text, least)]
    assert 0 < len(found) < len(texts)
    if not keyed:
        documents = [sum(word in text for text in texts) for word in "abc"]
        assert sorted(counter.frequencies.tolist()) == sorted(documents)


def runs_of(text: str, least: int) -> set[tuple[str, ...]]:
    words = text.split()
    return {tuple(words[start : start + least]) for start in range(len(words) - least + 1)}
