"""Tests of pages of decisions, which are read once for all pages."""

import pytest

from nearkin.service.server import decision_listings
from nearkin.service.server.decision_listings import DecisionListings
from nearkin.settings.decisions import Decision, Decisions, Verdict


class CountingIndex:
    """An index that counts how often all decisions of a scope are read."""

    def __init__(self) -> None:
        self.stored: dict[str, Decisions] = {}
        self.reads = 0

    def decisions_version(self, scope: str) -> str:
        stored = self.stored.get(scope)
        return "" if stored is None else stored.fingerprint

    def decisions(self, scope: str) -> Decisions:
        self.reads += 1
        return self.stored.get(scope, Decisions())

    def store(self, scope: str, number: int) -> None:
        decisions = [Decision(f"n{n}", "x", Verdict.DIFFERENT) for n in reversed(range(number))]
        self.stored[scope] = Decisions({decision.pair: decision for decision in decisions})


def list_pages(listings: DecisionListings, scope: str, limit: int) -> list[str]:
    """The first ids of all decisions, page by page."""
    found: list[str] = []
    after = None
    has_more = True
    while has_more:
        decisions, has_more = listings.page(scope, after, limit)
        assert len(decisions) <= limit
        found += [decision.id_a for decision in decisions]
        after = decisions[-1].pair if decisions else None
    return found


def test_a_page_reads_the_decisions_only_if_some_were_stored_since_the_last_one() -> None:
    index = CountingIndex()
    listings = DecisionListings(lambda: index)  # type: ignore[arg-type,return-value]
    assert list_pages(listings, "a", 3) == []
    index.store("a", 7)
    reads = index.reads
    assert list_pages(listings, "a", 1) == [f"n{n}" for n in range(7)]
    assert list_pages(listings, "a", 7) == [f"n{n}" for n in range(7)]
    assert index.reads == reads + 1
    page = listings.page("a", None, 4)
    index.store("a", 8)
    rest = listings.page("a", page.decisions[-1].pair, 4)
    assert [decision.id_a for decision in rest.decisions] == ["n4", "n5", "n6", "n7"]
    assert (index.reads, rest.has_more) == (reads + 2, False)


def test_the_decisions_of_few_scopes_are_kept(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    index = CountingIndex()
    for scope in "abc":
        index.store(scope, 4)
    listings = DecisionListings(lambda: index)  # type: ignore[arg-type,return-value]
    monkeypatch.setattr(decision_listings, "MAX_LISTED", 9)
    for scope in "abcbc":
        assert len(list_pages(listings, scope, 2)) == 4
    assert index.reads == 3
    list_pages(listings, "a", 2)
    assert index.reads == 4
    # more than are kept are listed all the same
    index.store("b", 10)
    assert len(list_pages(listings, "b", 3)) == 10
