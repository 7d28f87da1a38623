"""Tests of the review queue of an index."""

import itertools

import pytest

import nearkin as nk
from nearkin.errors import UsageError
from nearkin.index.review_queue import collect_index_review_queue
from nearkin.settings.decisions import Decision, Verdict

WORDS = [f"w{number}" for number in range(10)]
TEXTS = {
    "a": " ".join(WORDS),
    "b": " ".join(WORDS[:9]),
    "c": " ".join([*WORDS[:7], "x", "y", "z"]),
    "d": " ".join([*WORDS[:6], "p", "q", "r", "s"]),
    "e": "nothing like the others",
}


def similarity(first: str, second: str) -> float:
    one, other = set(TEXTS[first].split()), set(TEXTS[second].split())
    return len(one & other) / len(one | other)


@pytest.fixture
def index() -> nk.Index:
    opened = nk.Index.open("memory://", nk.Spec(n=1), 0.8, related=0.4, bands=64, rows=1)
    opened.upsert_many("s", list(TEXTS.values()), list(TEXTS))
    return opened


def test_pairs_near_the_threshold_come_first(index: nk.Index) -> None:
    leaders = {entry.id: entry.leader for entry in index.scan("s")}
    assert leaders["b"] == "a"
    expected = sorted(
        (round(abs(similarity(*pair) - 0.8), 12), *pair)
        for pair in itertools.combinations(TEXTS, 2)
        if similarity(*pair) >= 0.4 and (pair == ("a", "b") or "b" not in pair)
    )
    assert len(expected) > 2
    queue = collect_index_review_queue(index, "s", 50, 60)
    assert [pair[:3] for pair in queue.pairs] == expected
    assert (queue.documents, queue.is_complete) == (5, True)
    assert collect_index_review_queue(index, "s", 1, 60).pairs == queue.pairs[:1]
    assert collect_index_review_queue(index, "other", 1, 60).pairs == []


def test_pairs_that_decisions_settle_are_left_out(index: nk.Index) -> None:
    before = {pair[1:3] for pair in collect_index_review_queue(index, "s", 50, 60).pairs}
    assert {("a", "b"), ("a", "c"), ("c", "d")} <= before
    index.decide("s", [Decision("c", "d", Verdict.DIFFERENT), Decision("a", "d", Verdict.SAME)])
    after = {pair[1:3] for pair in collect_index_review_queue(index, "s", 50, 60).pairs}
    # a and c are different, because d is the same as a
    assert not after & {("a", "c"), ("c", "d"), ("a", "d")}
    assert ("a", "b") in after


def test_the_search_ends_when_its_time_is_over(index: nk.Index) -> None:
    queue = collect_index_review_queue(index, "s", 50, -1)
    assert (queue.pairs, queue.is_complete) == ([], False)


def test_vectors_have_no_review_queue() -> None:
    vectors = nk.Index.open("memory://", nk.Spec(measure="cosine", unit="vector", n=2))
    with pytest.raises(UsageError, match="side by side"):
        collect_index_review_queue(vectors, "s", 1, 1)
