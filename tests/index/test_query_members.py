"""Tests of queries that return the members of matching representatives."""

import pytest

import nearkin as nk
from tests.index.conftest import Clock, Opener, family, fill, jaccard, store_of


def similar_texts(texts: dict[str, str], text: str, threshold: float) -> dict[str, float]:
    """Returns the similarity of each text to another one, if it reaches the threshold."""
    similarities = {name: jaccard(other, text) for name, other in texts.items()}
    return {name: value for name, value in similarities.items() if value >= threshold}


def test_query_returns_representatives_alone_by_default(opened: Opener) -> None:
    index = opened(threshold=0.6)
    texts = family(30)
    fill(index, texts)
    matches = index.query("a", texts["m0003"], top=100)
    assert [(match.id, match.representative) for match in matches] == [("base", "base")]


def test_query_with_members_returns_those_at_or_above_the_threshold(opened: Opener) -> None:
    index = opened(threshold=0.7)
    texts = family(30)
    fill(index, texts)
    expected = similar_texts(texts, texts["m0003"], 0.7)
    cluster = index.cluster("a", "base")
    assert cluster is not None
    assert {id for id, _ in cluster.members} == set(texts)
    assert 2 < len(expected) < len(texts)
    matches = index.query("a", texts["m0003"], top=100, members=True)
    assert {match.id: match.similarity for match in matches} == pytest.approx(expected)
    assert [match.similarity for match in matches] == sorted(expected.values(), reverse=True)
    assert {match.representative for match in matches} == {"base"}
    assert all(match.shared == 0 for match in matches if match.id != "base")
    assert index.query("a", texts["m0003"], top=2, members=True) == matches[:2]


def test_a_member_of_a_representative_below_the_threshold_is_not_returned(opened: Opener) -> None:
    index = opened(threshold=0.7)
    words = [f"w{number}" for number in range(40)]
    index.upsert("a", " ".join(words), "base")
    member = " ".join(words[4:])
    assert index.upsert("a", member, "member").representative == "base"
    query = " ".join(words[13:])
    assert jaccard(query, member) > 0.7 > jaccard(query, " ".join(words))
    assert index.query("a", query, members=True) == []


def test_at_most_max_candidates_members_are_compared(
    opened: Opener, monkeypatch: pytest.MonkeyPatch
) -> None:
    index = opened(threshold=0.6, max_candidates=7)
    fill(index, family(30))
    store = store_of(index)
    limits: list[int | None] = []
    read_members = store.members

    def members(scope: str, leader: str, limit: int | None = None) -> list[nk.index_types.Entry]:
        limits.append(limit)
        return read_members(scope, leader, limit)

    monkeypatch.setattr(store, "members", members)
    matches = index.query("a", family(0)["base"], top=100, members=True)
    assert limits == [7]
    assert len(matches) == 8


def test_members_without_content_are_left_out() -> None:
    index = nk.Index.open("memory://", threshold=0.6)
    texts = family(6)
    fill(index, texts)
    store = store_of(index)
    read_members = store.members

    def members(scope: str, leader: str, limit: int | None = None) -> list[nk.index_types.Entry]:
        first, *others = read_members(scope, leader, limit)
        return [first._replace(text=None, payload=b""), *others]

    store.members = members  # type: ignore[method-assign]
    matching_ids = {match.id for match in index.query("a", texts["base"], members=True)}
    assert matching_ids == set(texts) - {"m0000"}


def test_expired_members_are_not_returned(opened: Opener, clock: Clock) -> None:
    index = opened(threshold=0.6, record_ttl=100.0)
    texts = family(2)
    index.upsert("a", texts["base"], "base")
    index.upsert("a", texts["m0000"], "m0000")
    clock.now += 90
    index.upsert("a", texts["m0001"], "m0001")
    clock.now += 20
    matches = index.query("a", texts["base"], members=True)
    assert [match.id for match in matches] == ["base", "m0001"]


def test_members_of_vectors_are_compared_by_their_vectors() -> None:
    spec = nk.Spec(measure="cosine", unit="vector", n=4)
    index = nk.Index.open("memory://", spec, 0.9, member_content=True)
    index.upsert("a", [1.0, 0.0, 0.0, 0.0], "one")
    assert index.upsert("a", [1.0, 0.1, 0.0, 0.0], "two").representative == "one"
    matches = index.query("a", [1.0, 0.1, 0.0, 0.0], members=True)
    assert [match.id for match in matches] == ["two", "one"]
    assert matches[0].similarity == pytest.approx(1.0)


def test_members_of_vectors_are_left_out_if_they_have_no_content() -> None:
    spec = nk.Spec(measure="cosine", unit="vector", n=4)
    index = nk.Index.open("memory://", spec, 0.9)
    index.upsert("a", [1.0, 0.0, 0.0, 0.0], "one")
    assert index.upsert("a", [1.0, 0.1, 0.0, 0.0], "two").representative == "one"
    matches = index.query("a", [1.0, 0.1, 0.0, 0.0], members=True)
    assert [match.id for match in matches] == ["one"]


def test_postings_of_all_documents_find_members_without_the_option(opened: Opener) -> None:
    index = opened(threshold=0.7, postings="all", recall=0.99)
    texts = family(12)
    fill(index, texts)
    expected = set(similar_texts(texts, texts["m0003"], 0.7))
    for members in (False, True):
        matches = index.query("a", texts["m0003"], top=100, members=members)
        assert len(matches) == len({match.id for match in matches})
        assert {match.id for match in matches} <= expected
