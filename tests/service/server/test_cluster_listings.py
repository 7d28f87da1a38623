"""Tests of the listings of clusters."""

import pytest

from nearkin.index.index import Index
from nearkin.service.server.cluster_listings import ClusterListings
from nearkin.settings.spec import Spec
from tests.service.server.conftest import Serve
from tests.service.server.console.documents import variant


def test_cluster_listings_have_scopes_and_similarities(serve: Serve) -> None:
    client = serve()
    for scope, text in (("b", variant()), ("b", variant(30)), ("a", "other words")):
        client.post(f"/v1/scopes/{scope}/documents", json={"text": text}).raise_for_status()
    catalogue = client.app.state.service.cluster_listings  # type: ignore[attr-defined]
    assert set(catalogue.scopes()) == {"a", "b"}
    listing = catalogue.listing("b")
    resolved = listing.resolved
    assert (resolved.total, resolved.counts[45], len(listing.sample)) == (1, 1, 2)
    pairs = catalogue.pairs("b")
    assert pairs is not None
    assert pairs.pairs.sum() == pytest.approx(1)
    assert catalogue.pairs("a") is None


@pytest.mark.parametrize("threshold", [0.58, 0.85])
def test_resolved_documents_are_shown_from_the_threshold_on(threshold: float) -> None:
    """0.58 · 50 is 28.999999999999996: the product is in a bin below the threshold."""
    words = [f"w{number}" for number in range(100)]
    spec = Spec(n=1)
    with Index.open("memory://", spec, threshold=threshold) as index:
        index.upsert("a", " ".join(words), "whole")
        outcome = index.upsert("a", " ".join(words[: round(100 * threshold)]), "part")
        assert (outcome.representative, outcome.similarity) == ("whole", threshold)
        resolved = ClusterListings(lambda: index).listing("a").resolved
        place = resolved.counts.index(1)
        assert resolved.bins[place][0] == threshold


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
