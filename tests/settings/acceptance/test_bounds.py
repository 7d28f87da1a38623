import pytest
from hypothesis import given
from hypothesis import strategies as st

from nearkin.settings.acceptance import Differ, Expression, parse_expression
from nearkin.settings.acceptance.bounds import compute_bounds, holds_for_copies
from nearkin.settings.acceptance.expression import Number, collect_predicates
from tests.settings.acceptance.strategies import EXPRESSIONS, holds

FREE_NUMBERS = st.sampled_from([0.0, 0.3, 0.5, 0.98, 1.0, 60.0])


@given(
    EXPRESSIONS,
    st.integers(1, 12),
    st.integers(1, 12),
    st.integers(0, 12),
    st.tuples(FREE_NUMBERS, FREE_NUMBERS, FREE_NUMBERS),
    st.booleans(),
)
def test_no_accepted_pair_of_sets_is_below_the_bounds(
    expression: Expression,
    removed: int,
    kept: int,
    shared: int,
    others: tuple[float, float, float],
    is_true: bool,
) -> None:
    shared = min(shared, removed, kept)
    length_ratio, witness, idf_jaccard = others
    pair: dict[object, float | bool] = {
        Number.JACCARD: shared / (removed + kept - shared),
        Number.CONTAINMENT: shared / removed,
        Number.CONTAINMENT_OF_KEPT: shared / kept,
        Number.LENGTH_RATIO: length_ratio,
        Number.WITNESS: witness,
        Number.IDF_JACCARD: min(idf_jaccard, 1.0),
    }
    pair |= dict.fromkeys(collect_predicates(expression), is_true)
    if holds(expression, pair):
        bounds = compute_bounds(expression)
        assert pair[Number.JACCARD] >= bounds.jaccard
        assert pair[Number.CONTAINMENT] >= bounds.containment
        assert pair[Number.CONTAINMENT_OF_KEPT] >= bounds.containment_of_kept
        assert pair[Number.IDF_JACCARD] >= bounds.idf_jaccard


@given(EXPRESSIONS, FREE_NUMBERS)
def test_copies_with_equal_facts_are_accepted_if_that_is_said(
    expression: Expression, witness: float
) -> None:
    pair: dict[object, float | bool] = dict.fromkeys(Number, 1.0)
    pair[Number.WITNESS] = witness
    for predicate in collect_predicates(expression):
        pair[predicate] = not isinstance(predicate, Differ)
    if holds_for_copies(expression):
        assert holds(expression, pair)


@pytest.mark.parametrize(
    ("text", "jaccard", "overlap"),
    [
        ("jaccard >= 0.8", 0.8, 0.8),
        ("safe", 0.0, 0.9),
        ("contained", 0.0, 0.98),
        ("containment >= 0.9 and containment_of_kept >= 0.9", 1 / (2 / 0.9 - 1), 0.9),
        ("jaccard >= 0.8 or containment >= 0.9", 0.0, 0.8),
        ("not jaccard < 0.8", 0.8, 0.8),
        ("not (jaccard < 0.8 or containment < 0.9)", 0.8, 0.9),
        ("jaccard <= 0.8", 0.0, 0.0),
        ("not jaccard == 0.8", 0.0, 0.0),
        ("numbers_equal", 0.0, 0.0),
        ("says_all", 0.0, 0.0),
        ("jaccard >= 0.8 and not differ(doi)", 0.8, 0.8),
    ],
)
def test_bounds_of_an_expression(text: str, jaccard: float, overlap: float) -> None:
    bounds = compute_bounds(parse_expression(text))
    assert (bounds.jaccard, bounds.overlap) == pytest.approx((jaccard, overlap))
