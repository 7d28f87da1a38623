"""Tests that pairs exactly at a threshold reach it, for every measure and every code path."""

from fractions import Fraction
from math import isqrt

import numpy as np
import pyarrow as pa
import pytest

import nearkin as nk
from nearkin.engine.banding import AgreementLimits
from nearkin.engine.options import RunOptions
from nearkin.stages.measures import measure_of

PERCENTS = range(1, 100)
ROUNDED = {29, 55, 56, 57, 58, 81}
"""Percentages at which products in floating point are rounded past the threshold."""
SPEC = nk.Spec(unit="words", n=1)


@pytest.fixture
def percents(full: bool) -> list[int]:
    """Returns the thresholds: all in the full form, otherwise those that rounded, and others."""
    return [*PERCENTS] if full else sorted({*ROUNDED, *range(1, 100, 7), 99})


def words(name: str, first: int, last: int) -> list[str]:
    return [f"{name}x{i}" for i in range(first, last)]


def texts_at_jaccard(percent: int) -> tuple[str, str]:
    """Returns two texts whose sets of words have exactly this Jaccard similarity."""
    share = Fraction(percent, 100)
    times = max(1, 20 // share.denominator)
    common, joint = share.numerator * times, share.denominator * times
    middle = (common + joint) // 2
    everything = words(f"p{percent}", 0, joint)
    return " ".join(everything[:middle]), " ".join(everything[:common] + everything[middle:])


def sum_of_four_squares(total: int) -> tuple[int, int, int, int]:
    """Returns integers whose squares add up to a total (Lagrange)."""
    for a in range(isqrt(total), -1, -1):
        for b in range(isqrt(total - a * a), -1, -1):
            rest = total - a * a - b * b
            for c in range(isqrt(rest), -1, -1):
                d = isqrt(rest - c * c)
                if c * c + d * d == rest:
                    return a, b, c, d
    raise AssertionError(total)


def vectors_at_cosine(percent: int) -> tuple[list[int], list[int]]:
    """Returns two vectors of length 100 with exactly this cosine."""
    return [100, 0, 0, 0, 0], [percent, *sum_of_four_squares(100**2 - percent**2)]


def test_brute_force_finds_jaccard_pairs_at_threshold(percents: list[int]) -> None:
    texts = [text for percent in PERCENTS for text in texts_at_jaccard(percent)]
    for percent in percents:
        result_pairs = nk.pairs(texts, threshold=percent / 100, spec=SPEC, recall=0.01).pairs.arrow
        at_least = [
            (f"{2 * i:010}", f"{2 * i + 1:010}")
            for i, other in enumerate(PERCENTS)
            if other >= percent
        ]
        assert sorted(
            zip(result_pairs["id_a"].to_pylist(), result_pairs["id_b"].to_pylist(), strict=True)
        ) == sorted(at_least)


@pytest.mark.parametrize("percent", [55, 56, 81, 29, 57, 58])
def test_verification_accepts_jaccard_pairs_at_threshold(percent: int) -> None:
    texts = list(texts_at_jaccard(percent))
    result = nk.pairs(
        texts, threshold=percent / 100, spec=nk.Spec(unit="words", n=1, k=512), bands=512, rows=1
    )
    assert result.pairs.arrow["similarity"].to_pylist() == [percent / 100]


def test_weighted_jaccard_pairs_at_threshold_are_found(percents: list[int]) -> None:
    spec = nk.Spec(unit="words", n=1, measure="weighted-jaccard")
    for percent in percents:
        a, b = (f"{text} {text}" for text in texts_at_jaccard(percent))
        assert (
            nk.pairs([a, b], threshold=percent / 100, spec=spec, recall=0.01).pairs.arrow.num_rows
            == 1
        ), percent


@pytest.mark.parametrize("measure", ["simhash", "cosine"])
def test_cosine_pairs_at_threshold_are_found(measure: str, percents: list[int]) -> None:
    for percent in percents:
        vectors = vectors_at_cosine(percent)
        if measure == "cosine":
            table = pa.table({"v": pa.array(vectors, pa.list_(pa.float32()))})
            result_pairs = nk.pairs(
                table, vector="v", measure="cosine", threshold=percent / 100, recall=0.01
            ).pairs.arrow
        else:
            texts = [
                " ".join(f"w{i}" for i, count in enumerate(vector) for _ in range(count))
                for vector in vectors
            ]
            spec = nk.Spec(unit="words", n=1, measure="simhash")
            result_pairs = nk.pairs(
                texts, threshold=percent / 100, spec=spec, recall=0.01
            ).pairs.arrow
        assert result_pairs["similarity"].to_pylist() == [percent / 100], percent


def test_contained_documents_at_threshold_are_found(
    monkeypatch: pytest.MonkeyPatch, percents: list[int]
) -> None:
    """Looks up every hash of the small document, so that only the threshold decides."""
    monkeypatch.setattr("nearkin.engine.containment_search.SMALLEST", 128)
    for percent in percents:
        share = Fraction(percent, 100)
        small = words("s", 0, share.denominator)
        large = small[: share.numerator] + words("l", 0, 200)
        texts = [" ".join(small), " ".join(large)]
        settings = {"relation": "containment", "threshold": percent / 100}
        result_pairs = nk.pairs(
            texts, spec=nk.Spec(unit="words", n=1, k=1024), **settings
        ).pairs.arrow
        assert result_pairs["containment"].to_pylist() == [percent / 100], percent


@pytest.mark.parametrize("bits", [64, 128, 192, 320, 448])
def test_documents_at_hamming_distance_are_found(bits: int) -> None:
    spec = nk.Spec(unit="vector", n=3, measure="cosine", k=bits)
    for distance in range(bits):
        settings = RunOptions(spec=spec, distance=distance)
        measure = measure_of(spec, distance=distance)
        scored = measure.estimator.estimate(
            np.zeros(2, np.uint64), np.array([bits - distance, bits - distance - 1])
        )
        assert scored.meets_threshold(settings.threshold).tolist() == [True, False], (
            bits,
            distance,
        )


@pytest.mark.parametrize("slot_bits", [32, 8, 4, 2, 1])
def test_estimates_at_threshold_reach_it(slot_bits: int) -> None:
    """Checks numbers a of agreeing slots for which Ĵ = (a/k − 2^−b) / (1 − 2^−b) has two
    decimals."""
    spec = nk.Spec(k=600, slot_bits=slot_bits)
    measure = measure_of(spec)
    chance = Fraction(1, 2**slot_bits) if slot_bits < 32 else Fraction(0)
    agreeing = np.arange(601)
    for percent in PERCENTS:
        wanted = [
            (Fraction(int(a), 600) - chance) / (1 - chance) >= Fraction(percent, 100)
            for a in agreeing
        ]
        estimates = measure.estimator.estimate(np.zeros(601, np.uint64), agreeing)
        assert estimates.meets_threshold(percent / 100).tolist() == wanted


def test_estimate_of_signs_at_sixty_degrees_is_one_half() -> None:
    for k in (192, 384):
        measure = measure_of(nk.Spec(unit="vector", n=3, measure="cosine", k=k))
        assert (
            measure.estimator.estimate(np.zeros(1, np.uint64), np.array([2 * k // 3]))
            .meets_threshold(0.5)
            .all()
        )


def test_members_of_hot_bucket_join_leader_at_threshold() -> None:
    for percent in PERCENTS:
        settings = RunOptions(spec=nk.Spec(k=104), threshold=percent / 100, recall=0.01)
        measure = measure_of(settings.spec)
        joining = AgreementLimits.create(measure, settings.banding(measure, 0), settings).join
        assert joining == max(-(-104 * percent // 100), settings.banding(measure, 0).margin)


def test_higher_threshold_of_result_keeps_pairs_at_it() -> None:
    texts = [text for percent in PERCENTS for text in texts_at_jaccard(percent)]
    result = nk.dedup(texts, threshold=0.01, spec=SPEC, recall=0.01)
    for percent in PERCENTS:
        higher = result.rethreshold(percent / 100)
        assert sum(1 for row in higher.clusters.to_pylist() if not row["kept"]) == 100 - percent


@pytest.mark.parametrize("percent", [55, 56, 81, 29, 57, 58, 7, 14])
def test_index_finds_documents_at_threshold(percent: int) -> None:
    a, b = texts_at_jaccard(percent)
    spec = nk.Spec(unit="words", n=1, k=512)
    with nk.Index.open("memory://", spec, threshold=percent / 100, bands=512, rows=1) as index:
        index.upsert("scope", a, "a")
        matches = index.query("scope", b)
    assert [match.similarity for match in matches] == [percent / 100]


def test_components_keep_members_exactly_at_floor() -> None:
    """Clusters a chain whose ends are exactly at the floor."""
    for percent in (28, 29, 55, 56, 57, 58):
        a, b = texts_at_jaccard(percent)
        between = " ".join(dict.fromkeys(f"{a} {b}".split()))
        settings = {"threshold": 0.6, "cluster": "components", "floor": percent / 100}
        result = nk.dedup([a, b, between], spec=SPEC, keep="length asc", **settings)
        assert sum(row["kept"] for row in result.clusters.to_pylist()) == 1
