"""Weights of columns that are found without labels."""

import numpy as np
import pytest

from nearkin.quality.fit.match_weights import LEAST, MISSING, level_of, propose_weights

COLUMNS = ("name", "birthday", "city", "shop")
"""The last one says nothing."""
ALIKE = (0.02, 0.02, 0.03, 0.05, 0.18, 0.7)
UNLIKE = (0.6, 0.2, 0.1, 0.05, 0.03, 0.02)
"""The share of each level."""


def draw_levels(duplicates: int, others: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Returns the levels of pairs, and which of them are duplicates.

    Distinct pairs agree in the city, because they were found to be similar.
    """
    rng = np.random.default_rng(seed)
    top = len(LEAST) - 1
    parts = []
    for count, shares in ((duplicates, (ALIKE, ALIKE, ALIKE)), (others, (UNLIKE, UNLIKE, ALIKE))):
        columns = [rng.choice(top + 1, count, p=share) for share in shares]
        columns.append(rng.choice(top + 1, count))
        parts.append(np.column_stack(columns))
    levels = np.concatenate(parts)
    levels[rng.random(levels.shape) < 0.05] = MISSING
    return levels, np.arange(len(levels)) < duplicates


@pytest.mark.parametrize(("duplicates", "others"), [(300, 300), (100, 900), (500, 200)])
def test_a_proposal_tells_duplicates_from_pairs_that_agree_in_one_column(
    duplicates: int, others: int
) -> None:
    levels, is_duplicate = draw_levels(duplicates, others, 5)
    errors = []
    for proposal in propose_weights(COLUMNS, levels, np.ones(len(levels), bool)):
        found = proposal.totals >= proposal.least(0.5)
        errors.append(np.mean(found != is_duplicate))
    known = np.log(np.array(ALIKE) / np.array(UNLIKE))[levels[:, :2]]
    odds = np.log(duplicates / others) + np.where(levels[:, :2] == MISSING, 0, known).sum(axis=1)
    least_possible = np.mean((odds >= 0) != is_duplicate)
    assert min(errors) <= least_possible + 0.025


def test_more_similar_values_never_speak_less_for_duplicates() -> None:
    levels, _ = draw_levels(200, 600, 6)
    proposals = list(propose_weights(COLUMNS, levels, np.ones(len(levels), bool)))
    assert len(proposals) >= 3
    for proposal in proposals:
        for column in proposal.columns:
            weights = [level.weight for level in column.levels]
            assert weights == sorted(weights, reverse=True)
            least = [level.least for level in column.levels]
            assert least == sorted(set(least), reverse=True)


def test_weights_are_learned_from_the_pairs_that_are_named() -> None:
    levels, is_duplicate = draw_levels(200, 600, 7)
    noise = np.random.default_rng(1).choice(len(LEAST), (5000, len(COLUMNS)))
    is_learned = np.arange(len(levels) + len(noise)) < len(levels)
    alone = list(propose_weights(COLUMNS, levels, np.ones(len(levels), bool)))
    among = list(propose_weights(COLUMNS, np.concatenate([levels, noise]), is_learned))
    assert [one.columns for one in alone] == [other.columns for other in among]
    assert [one.even for one in alone] == [other.even for other in among]
    for one, other in zip(alone, among, strict=True):
        assert np.array_equal(one.totals, other.totals[: len(is_duplicate)])


def test_higher_probabilities_need_more_weight() -> None:
    levels, _ = draw_levels(200, 600, 8)
    proposal = next(propose_weights(COLUMNS, levels, np.ones(len(levels), bool)))
    assert proposal.least(0.5) < proposal.least(0.95) < proposal.least(0.999)


def test_levels_include_their_smallest_similarity() -> None:
    similarities = np.array([0.0, 0.19, 0.2, 0.79, 0.8, 0.9999, 1.0, np.nan])
    assert level_of(similarities).tolist() == [0, 0, 1, 3, 4, 4, 5, MISSING]
