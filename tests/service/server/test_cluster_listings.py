"""Tests of the listings of clusters."""

import pytest

from nearkin.index.index import Index
from nearkin.service.server.cluster_listings import ClusterListings
from tests.service.server.conftest import Serve
from tests.service.server.console.documents import variant


def test_cluster_listings_have_scopes_and_similarities(serve: Serve) -> None:
    client = serve()
    for scope, text in (("b", variant()), ("b", variant(30)), ("a", "other words")):
        client.post(f"/v1/scopes/{scope}/documents", json={"text": text}).raise_for_status()
    catalogue = client.app.state.service.cluster_listings  # type: ignore[attr-defined]
    assert set(catalogue.scopes()) == {"a", "b"}
    listing = catalogue.listing("b")
    assert (sum(listing.resolved), listing.resolved[45], len(listing.sample)) == (1, 1, 2)
    pairs = catalogue.pairs("b")
    assert pairs is not None
    assert pairs.pairs.sum() == pytest.approx(1)
    assert catalogue.pairs("a") is None


def test_listings_are_computed_again_after_the_clock_was_set_back() -> None:
    now = [1_000_000.0]
    with Index.open("memory://") as index:
        listings = ClusterListings(lambda: index, lambda: now[0])

        def counts() -> list[int]:
            return [
                listings.listing("a").documents,
                listings.scope_counts(["a"])["a"].documents,
                listings.counts()["records"],
            ]

        index.upsert("a", "one text")
        assert counts() == [1, 1, 1]
        index.upsert("a", "another text")
        assert counts() == [1, 1, 1]
        now[0] -= 3600.0
        assert counts() == [2, 2, 2]
