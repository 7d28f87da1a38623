"""Tests of the listings of clusters."""

import pytest

from tests.server.conftest import Serve
from tests.server.console.documents import variant


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
