import numpy as np
import pytest

import nearkin as nk
from nearkin.quality.fit.objective import Curve, Objective

THRESHOLDS = np.array([0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7])
CURVE = Curve(
    THRESHOLDS,
    duplicates=10.0,
    together=np.array([10.0, 10, 9, 9, 9, 5, 0]),
    wrong=np.array([90.0, 10, 1, 1, 1, 0, 0]),
)


def choose(objective: str) -> float:
    return float(THRESHOLDS[Objective.parse(objective).choose(CURVE)])


def test_threshold_is_the_middle_of_the_range_with_equal_results() -> None:
    assert CURVE.plateau(2) == (2, 4)
    assert choose("f1") == 0.4


def test_a_peak_of_f1_at_one_threshold_is_left_for_a_range_in_which_f1_is_high() -> None:
    thresholds = np.arange(10, 31) / 100
    together = np.full(21, 90.0)
    wrong = np.full(21, 40.0)
    wrong[10:18] = 10.0
    wrong[2] = 8.0
    curve = Curve(thresholds, 100.0, together, wrong)
    assert curve.f1.argmax() == 2
    assert Objective.parse("f1").choose(curve) == 2
    assert Objective.parse("f1").choose_stable(curve) == 13
    precise = Objective.parse("precision>=0.9")
    assert precise.choose_stable(curve) == precise.choose(curve)
    # The mean of a neighbourhood, in plain Python.
    for place, value in enumerate(curve.nearby_f1.tolist()):
        near = [curve.f1[other] for other in range(21) if abs(other - place) <= 2]
        assert value == pytest.approx(sum(near) / len(near))


def test_a_peak_of_f1_is_kept_if_other_thresholds_are_much_worse() -> None:
    thresholds = np.arange(10, 31) / 100
    together = np.full(21, 80.0)
    together[2] = 95.0
    together[10:18] = 83.0
    curve = Curve(thresholds, 100.0, together, np.zeros(21))
    assert Objective.parse("f1").choose_stable(curve) == 2


def test_minimum_of_precision_maximizes_recall_under_it() -> None:
    assert choose("precision>=0.9") == 0.4
    assert choose("precision>=0.95") == 0.6
    assert choose("precision >= 0.5") == 0.2


def test_minimum_of_recall_maximizes_precision_under_it() -> None:
    assert choose("recall>=0.9") == 0.4
    assert choose("recall>=0.95") == 0.2
    assert choose("recall>=0.5") == 0.6


def test_minimum_that_cannot_be_met_takes_the_nearest_score() -> None:
    wrong_everywhere = Curve(THRESHOLDS, 10.0, CURVE.together, np.array([90.0, 10, 3, 3, 3, 5, 0]))
    objective = Objective.parse("precision>=0.9")
    position = objective.choose(wrong_everywhere)
    assert THRESHOLDS[position] == 0.4
    assert not objective.rank_at(wrong_everywhere, position)[0]


def test_nothing_found_is_not_a_perfect_precision() -> None:
    assert choose("precision>=1") == 0.6
    nothing = Curve(THRESHOLDS, 10.0, np.zeros(7), np.zeros(7))
    assert Objective.parse("f1").choose(nothing) == 6


def test_share_of_lost_clusters_limits_the_removed_documents() -> None:
    """A cluster that is lost at a high threshold counts at each lower one, too."""
    lost = np.array([0.4, 0.0, 0.2, 0.05, 0.0, 0.0, 0.0])
    removed = np.array([1.0, 0.9, 0.8, 0.7, 0.5, 0.3, 0.0])
    curve = Curve(THRESHOLDS, 10.0, CURVE.together, CURVE.wrong, lost, removed)
    for text, threshold in (("lost<=0", 0.5), ("lost <= 0.05", 0.4), ("lost<=0.2", 0.2)):
        objective = Objective.parse(text)
        position = objective.choose(curve)
        assert objective.rank_at(curve, position)[0]
        assert THRESHOLDS[position] == threshold
        assert objective.choose_stable(curve) == position


@pytest.mark.parametrize(
    "text",
    [
        *["", "F1", "f2", "precision", "precision>0.9", "recall>=1.5", "recall>=0", "f1>=0.9"],
        *["lost", "lost>=0.1", "lost<=1", "lost<=1.2", "lost<=x", "lost<=0.1.2", "precision<=0.1"],
    ],
)
def test_other_objectives_are_refused(text: str) -> None:
    with pytest.raises(nk.UsageError, match=r"is not valid; choose f1, or a minimum"):
        Objective.parse(text)
