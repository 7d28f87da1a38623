"""The fit of the similarities of unrelated texts."""

import numpy as np
import pytest

from benchmarks.background import SHARES, SHINGLES, collect_texts, fit_quantiles
from nearkin.quality.plan.background import Background, read_background, share_above


def test_quantiles_give_back_the_candidates_that_were_counted() -> None:
    """The similarities have an exponential tail, as those of unrelated texts."""
    rng = np.random.default_rng(1)
    similarities = np.minimum(rng.exponential(0.03, 100_000), 0.9)
    quantiles = fit_quantiles(similarities, 200_000)
    fitted = Background.from_quantiles(quantiles, "made up")
    assert fitted.shares.sum() == pytest.approx(1)
    assert (fitted.shares >= 0).all()
    for bands, rows in ((40, 2), (20, 5), (13, 7)):
        counted = (1 - (1 - similarities**rows) ** bands).sum() / 200_000
        expected = fitted.shares @ (1 - (1 - fitted.similarities**rows) ** bands)
        assert expected == pytest.approx(counted, rel=0.3)


def test_record_has_the_quantiles_of_each_kind_of_shingles() -> None:
    record = read_background()
    assert record["pairs"] > 50_000
    for measure in ("jaccard", "simhash"):
        for unit, n in SHINGLES:
            places, shares = np.array(record["kinds"][f"{measure} {unit}:{n}"]).T
            assert (np.diff(places) > 0).all()
            assert (np.diff(shares) < 0).all()
            assert set(shares[1:-1]) <= set(SHARES)
            assert share_above(places, np.column_stack([places, shares]).tolist())[-1] == 0


def test_texts_are_of_different_families() -> None:
    texts = collect_texts()
    assert len(texts) > 20
    assert all(1000 <= len(text) <= 50_000 for text in texts.values())
