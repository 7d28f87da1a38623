"""The share of wrong pairs, from doubtful pairs and doubtful labelled duplicates."""

import pytest

from nearkin.quality.evaluate.pair_doubts import PairDoubts


@pytest.mark.parametrize(("doubtful", "low", "high"), [(0, 0.5, 0.7), (15, 0.3, 0.5), (35, 0, 0.2)])
def test_doubtful_duplicates_explain_doubtful_pairs(doubtful: int, low: float, high: float) -> None:
    """60 % of all pairs are doubtful. Fewer are wrong if duplicates are doubtful, too."""
    wrong = PairDoubts(300, 180, 50, doubtful, 50, 50).expect_wrong()
    assert low <= wrong.mean <= high
    assert wrong.low <= wrong.mean <= wrong.high


@pytest.mark.parametrize("share", [0.0, 0.3, 0.9])
def test_much_is_possible_without_labelled_duplicates(share: float) -> None:
    wrong = PairDoubts(300, round(300 * share), 0, 0, 0, 0).expect_wrong()
    assert wrong.low <= share / 2 + 0.01
    assert wrong.high >= share
