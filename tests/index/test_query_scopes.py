"""Tests of searches in several scopes."""

import pytest

import nearkin as nk
from nearkin.index.reader import MAX_SCOPES
from tests.index.conftest import Opener

TEXT = "a plain text of some words that several tenants have stored in the same index"
SCOPES = ("one", "two", "three")


def filled(opened: Opener) -> nk.Index:
    index = opened(threshold=0.5)
    index.upsert("three", f"{TEXT} today", "near")
    for scope in SCOPES[:2]:
        index.upsert(scope, TEXT, "same")
    index.upsert("two", f"{TEXT} with more words at its end", "member")
    index.upsert("secret", TEXT, "hidden")
    return index


def test_the_best_of_all_scopes_come_first_and_name_their_scopes(opened: Opener) -> None:
    index = filled(opened)
    matches = index.query(SCOPES, TEXT)
    assert [(match.scope, match.id) for match in matches] == [
        ("one", "same"),
        ("two", "same"),
        ("three", "near"),
    ]
    assert matches[0].to_dict()["scope"] == "one"
    assert index.query(["two", "two", "empty"], TEXT) == [matches[1]]
    assert index.query([*reversed(SCOPES)], TEXT, top=2)[0].similarity == 1
    members = index.query(SCOPES, TEXT, members=True)
    assert [match.id for match in members].count("member") == 1
    single = index.query("one", TEXT)
    assert single[0].scope is None
    assert "scope" not in single[0].to_dict()


def test_many_documents_are_searched_in_several_scopes(opened: Opener) -> None:
    index = filled(opened)
    first, second, none = index.match_many(SCOPES, [TEXT, f"{TEXT} today", "nothing like it"])
    assert first is not None
    assert second is not None
    assert (first.scope, second.scope, second.id, none) == ("one", "three", "near", None)


@pytest.mark.parametrize("count", [0, MAX_SCOPES + 1])
def test_the_number_of_scopes_is_bounded(opened: Opener, count: int) -> None:
    index = opened()
    with pytest.raises(nk.UsageError, match=f"1 to {MAX_SCOPES} scopes"):
        index.query([f"s{number}" for number in range(count)], TEXT)
