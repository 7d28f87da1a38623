"""Tests of the similarities of unrelated texts."""

import pytest

from nearkin.quality.plan.background import background_of
from nearkin.settings.spec import Spec
from tests.quality.plan.unrelated_texts import measured_share


def test_nearest_shingles_are_taken() -> None:
    assert background_of(Spec(n=4)).source == "unrelated texts, jaccard words:5"
    assert background_of(Spec(unit="chars", n=20)).source == "unrelated texts, jaccard chars:9"
    assert (
        background_of(Spec(measure="weighted-jaccard")).source == "unrelated texts, jaccard words:3"
    )
    assert background_of(Spec(measure="simhash", n=1)).source == "unrelated texts, simhash words:1"
    vectors = background_of(Spec(measure="cosine", unit="vector", n=8))
    assert vectors.source == "unrelated documents, Beta(1, 20)"
    assert vectors.shares @ vectors.similarities == pytest.approx(1 / 21, rel=0.01)


def test_background_is_that_of_real_text() -> None:
    """Beta(1, 20) would make 1.5e-05 of the pairs candidates, 129 times as many as were counted."""
    assert measured_share(13, 7) == pytest.approx(1.13e-7, rel=0.2)
