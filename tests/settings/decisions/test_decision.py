"""Tests of decisions and of the ones that count."""

import itertools
from datetime import UTC, datetime, timedelta

import pytest

from nearkin.errors import UsageError
from nearkin.settings.decisions import Decision, Decisions, Verdict
from nearkin.settings.decisions.decision import LATEST_TIME

NOON = datetime(2026, 5, 1, 12, tzinfo=UTC)


def decide(first: str, second: str, verdict: str, hours: int | None = None) -> Decision:
    at = None if hours is None else NOON + timedelta(hours=hours)
    return Decision(first, second, Verdict(verdict), by="ada", at=at)


def test_later_decision_wins_in_any_order() -> None:
    decisions = [
        decide("a", "b", "same", 0),
        decide("b", "a", "different", 2),
        decide("a", "b", "same", 1),
        decide("a", "b", "different", 2),
    ]
    for ordered in itertools.permutations(decisions):
        assert Decisions.resolve(ordered).different == [("a", "b")]


@pytest.mark.parametrize("hours", [(0, 0), (None, None), (None, 3), (3, None)])
def test_contradiction_without_a_later_decision_is_refused_in_any_order(
    hours: tuple[int | None, int | None],
) -> None:
    decisions = [
        decide("a", "b", "same", hours[0]),
        decide("b", "a", "different", hours[1]),
        decide("a", "b", "same", -1),
    ]
    for ordered in itertools.permutations(decisions):
        with pytest.raises(UsageError, match="as same and as different, and neither is later"):
            Decisions.resolve(ordered)


def test_times_of_different_zones_are_compared_as_instants() -> None:
    earlier = Decision("a", "b", Verdict.SAME, at=datetime.fromisoformat("2026-05-01T23:00+09:00"))
    later = Decision("a", "b", Verdict.DIFFERENT, at=datetime.fromisoformat("2026-05-01T15:00Z"))
    assert Decisions.resolve([later, earlier]).different == [("a", "b")]


@pytest.mark.parametrize(
    "at",
    [
        "9999-12-31T23:59:59.999999Z",
        "9999-12-30T00:00:00-14:00",
        "0001-01-01T00:00:00+14:00",
    ],
)
def test_times_beyond_those_of_all_zones_are_refused(at: str) -> None:
    with pytest.raises(UsageError, match="is out of range"):
        Decision("a", "b", Verdict.SAME, at=datetime.fromisoformat(at))
    latest = Decisions.resolve([Decision("a", "b", Verdict.SAME, at=LATEST_TIME)])
    with pytest.raises(UsageError, match="is out of range"):
        latest.with_time(Decision("a", "b", Verdict.DIFFERENT))


def test_chain_of_same_pairs_that_joins_a_different_pair_is_named() -> None:
    chain = [decide("a", "b", "same"), decide("c", "b", "same"), decide("a", "c", "different")]
    with pytest.raises(UsageError, match="'a' = 'b' = 'c'; correct one of these decisions"):
        Decisions.resolve(chain)
    ids = [f"{number:02}" for number in range(40)]
    long = [decide(a, b, "same") for a, b in itertools.pairwise(ids)]
    with pytest.raises(UsageError, match=r"'08' = \.\.\. = '39'"):
        Decisions.resolve([*long, decide("00", "39", "different")])


def test_further_decision_replaces_an_earlier_one_unless_it_contradicts_others() -> None:
    decisions = Decisions.resolve([decide("a", "b", "same"), decide("b", "c", "same")])
    with pytest.raises(UsageError, match="join the two"):
        decisions.with_decision(decide("a", "c", "different", 1))
    changed = decisions.with_decision(decide("c", "b", "different", 1))
    assert changed.same == [("a", "b")]
    assert changed.different == [("b", "c")]
    assert len(decisions) == len(changed) == 2
    assert ("a", "b") in changed


def test_decision_about_one_document_or_without_time_zone_is_refused() -> None:
    with pytest.raises(UsageError, match="a document and itself"):
        decide("a", "a", "same")
    with pytest.raises(UsageError, match="has no time zone"):
        Decision("a", "b", Verdict.SAME, at=datetime(2026, 5, 1))


def test_fingerprint_depends_on_pairs_and_verdicts_alone() -> None:
    first = Decisions.resolve([decide("a", "b", "same", 0), decide("c", "d", "different", 0)])
    second = Decisions.resolve([decide("d", "c", "different", 5), decide("b", "a", "same", 9)])
    assert first.fingerprint == second.fingerprint
    assert first.fingerprint != Decisions.resolve([decide("a", "b", "same")]).fingerprint
