"""Tests of what an index says about documents of similarity 1: exact duplicates or near ones."""

import numpy as np
import pytest

from nearkin.index.documents import TextAndVector
from nearkin.index.entry import Match, Outcome
from nearkin.index.index import Index
from nearkin.index.settings import VectorEvidence
from nearkin.settings.spec import Spec

VECTORS = Spec(measure="cosine", unit="vector", n=8)
SKILL = "ten years of experience in {} and a wish for a job"
BASE = SKILL.format("C++")
COPIES = [BASE, BASE.upper(), BASE.replace(" ", "\n")]
OTHERS = [SKILL.format("C#"), SKILL.format("C"), SKILL.format("😀 C"), f"{BASE} 😀", f"{BASE}."]


@pytest.mark.parametrize("text", COPIES)
def test_texts_with_equal_words_and_symbols_are_exact_duplicates(text: str) -> None:
    with Index.open("memory://") as index:
        first = index.upsert("s", BASE, id="a")
        assert first.exact is None
        assert "exact" not in first.to_dict()
        assert [match.exact for match in index.query("s", text)] == [True]
        matched = index.match_many("s", [text])[0]
        assert matched is not None
        assert matched.exact is True
        outcome = index.upsert("s", text, id="b")
        assert (outcome.similarity, outcome.exact) == (1.0, True)
        assert outcome.to_dict()["exact"] is True


@pytest.mark.parametrize("text", OTHERS)
def test_texts_that_differ_in_symbols_are_not_exact_duplicates(text: str) -> None:
    with Index.open("memory://") as index:
        index.upsert("s", BASE, id="a")
        assert [match.exact for match in index.query("s", text)] == [False]
        matched = index.match_many("s", [text])[0]
        assert matched is not None
        assert matched.exact is False
        assert matched.to_dict()["exact"] is False
        outcome = index.upsert("s", text, id="b")
        assert (outcome.similarity, outcome.exact) == (1.0, False)
        members = index.query("s", text, members=True)
        assert {match.id: match.exact for match in members} == {"a": False, "b": True}


def test_documents_of_one_batch_are_compared_as_stored_ones() -> None:
    with Index.open("memory://") as index:
        outcomes = index.upsert_many("s", [BASE, BASE.upper(), OTHERS[0]], ids=["a", "b", "c"])
        assert [outcome.exact for outcome in outcomes] == [None, True, False]


def test_only_a_similarity_of_1_leaves_the_question_open() -> None:
    with Index.open("memory://", threshold=0.5) as index:
        index.upsert("s", BASE, id="a")
        outcome = index.upsert("s", BASE.replace("a job", "work"), id="b")
        assert outcome.similarity < 1
        assert outcome.exact is None
        assert index.upsert("s", BASE.replace("a job", "work"), id="b").exact is None


def test_without_stored_texts_only_equal_bytes_are_known_to_be_exact() -> None:
    with Index.open("memory://", store_text=False) as index:
        index.upsert("s", BASE, id="a")
        assert index.upsert("s", BASE, id="b").exact is True
        assert index.upsert("s", BASE.upper(), id="c").exact is False


def test_vectors_are_exact_duplicates_if_their_numbers_are_equal() -> None:
    vector = np.arange(1, 9, dtype=np.float32)
    with Index.open("memory://", spec=VECTORS, threshold=0.9) as index:
        index.upsert("s", vector, id="a")
        assert index.upsert("s", vector, id="b").exact is True


def test_answers_of_servers_without_the_member_have_no_value() -> None:
    assert Match(id="a", cluster="a", similarity=1.0, shared=None).exact is None
    assert Outcome.__dataclass_fields__["exact"].default is None


def test_two_kinds_must_both_be_equal() -> None:
    vector = np.arange(1, 9, dtype=np.float32)
    with Index.open("memory://", vector=VectorEvidence(VECTORS, threshold=0.9)) as index:
        index.upsert("s", TextAndVector(text=BASE, vector=vector), id="a")
        same = index.upsert("s", TextAndVector(text=BASE, vector=vector), id="b")
        assert same.exact is True
        other = index.upsert("s", TextAndVector(text=OTHERS[0], vector=vector), id="c")
        assert other.exact is False
