"""Compares the scheme `darts` with plain Python, and with the probability of collisions."""

import math
import struct
from decimal import Decimal, localcontext
from importlib import import_module

import numpy as np
import pytest

from nearkin.stages.shingle import Shingles
from nearkin.stages.sketch import kernels
from nearkin.stages.sketch.darts import Darts
from nearkin.stages.sketch.minhash import EMPTY_SLOT, splitmix64
from nearkin.stages.sketch.resources import DocumentFrequencies, exact_idf, idf
from nearkin.stages.sketch.weight_table import WeightTable

MASK = 2**64 - 1
GOLDEN = 0x9E3779B97F4A7C15
RARE = 60_000


def table_of(weights: dict[int, int], rare: int = RARE) -> WeightTable:
    hashes = np.array(sorted(weights), np.uint64)
    return WeightTable.of(hashes, np.array([weights[h] for h in hashes.tolist()], np.int64), rare)


def random_weights(rng: np.random.Generator, size: int) -> dict[int, int]:
    hashes = rng.integers(1, 2**64, size, dtype=np.uint64).tolist()
    return {h: int(w) for h, w in zip(hashes, rng.integers(2_000, RARE + 1, size), strict=True)}


def sketch(scheme: Darts, elements: list[int], k: int) -> np.ndarray:
    out = np.empty((1, k), np.uint32)
    hashes = np.array(elements, np.uint64)
    scheme.sketch(Shingles(hashes, np.array([0, len(elements)])), out)
    return out[0]


def mix(x: int) -> int:
    x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) & MASK
    return x ^ (x >> 31)


def throw_darts(weights: dict[int, int], seed: int, k: int, until: float) -> list[float]:
    """Returns the first time of each slot, from all darts of all elements before a time."""
    salt = mix(seed + GOLDEN)
    thresholds = kernels.POISSON.tolist()
    times = [math.inf] * k
    for h, weight in weights.items():
        rate = weight / RARE
        for cell in range(math.ceil(until * rate)):
            word = mix((h + salt + cell * GOLDEN) & MASK)
            for dart in range(sum(word >= threshold for threshold in thresholds)):
                place = mix((word + (dart + 1) * 0xC2B2AE3D27D4EB4F) & MASK)
                slot = (place >> 32) * k >> 32
                time = (cell + ((place & 0xFFFFFFFF) + 1) / 2**32) / rate
                times[slot] = min(times[slot], time)
    return times


@pytest.mark.parametrize(("size", "k"), [(1, 8), (2, 16), (7, 32), (60, 64), (900, 24)])
def test_slots_match_plain_python(size: int, k: int) -> None:
    weights = random_weights(np.random.default_rng(size), size)
    signature = sketch(Darts(5, table_of(weights)), list(weights), k)
    until = 2.0
    expected = [math.inf]
    # Some darts after `until` are not thrown, so every first time must be before it.
    while max(expected) >= until:
        until *= 2
        expected = throw_darts(weights, 5, k, until)
    bits = [struct.unpack("<I", struct.pack("<f", time))[0] for time in expected]
    assert signature.tolist() == bits


def test_poisson_thresholds_are_exact() -> None:
    with localcontext() as context:
        context.prec = 60
        probabilities = [1 / (Decimal(1).exp() * math.factorial(n)) for n in range(21)]
        cumulated = [int(sum(probabilities[: n + 1]) * 2**64) for n in range(21)]
    assert kernels.POISSON.tolist() == cumulated[:-1]
    assert cumulated[-1] == 2**64 - 1


@pytest.mark.parametrize("similarity", [0.1, 0.5, 0.9])
@pytest.mark.parametrize("size", [6, 80])
def test_slots_agree_with_probability_of_weighted_similarity(similarity: float, size: int) -> None:
    """Slots are independent, so the share of agreements of all trials is binomial."""
    k = 64
    trials = 300
    rng = np.random.default_rng(size)
    agreements = []
    expected = []
    for trial in range(trials):
        weights = random_weights(rng, size)
        names = list(weights)
        shared = max(1, round(size * similarity))
        a = [h for i, h in enumerate(names) if i < shared or i % 2]
        b = [h for i, h in enumerate(names) if i < shared or i % 2 == 0]
        scheme = Darts(trial, table_of(weights))
        agreements.append(np.mean(sketch(scheme, a, k) == sketch(scheme, b, k)))
        expected.append(
            sum(weights[h] for h in set(a) & set(b)) / sum(weights[h] for h in set(a) | set(b))
        )
    p = np.array(expected)
    variance = p * (1 - p) / k
    deviation = np.array(agreements) - p
    assert abs(deviation.mean()) < 4 * math.sqrt(variance.sum()) / trials
    # The mean of `trials` squares of nearly normal numbers has the standard error √(2/trials).
    assert abs((deviation**2 / variance).mean() - 1) < 5 * math.sqrt(2 / trials)


def test_order_and_repetitions_do_not_matter() -> None:
    rng = np.random.default_rng(2)
    weights = random_weights(rng, 40)
    scheme = Darts(1, table_of(weights))
    names = list(weights)
    repeated = [*names[::-1], *names[3:9]]
    assert (sketch(scheme, names, 128) == sketch(scheme, repeated, 128)).all()


def test_minimum_of_signatures_is_signature_of_union() -> None:
    weights = random_weights(np.random.default_rng(3), 50)
    scheme = Darts(1, table_of(weights))
    names = list(weights)
    parts = [sketch(scheme, names[:20], 128), sketch(scheme, names[10:], 128)]
    assert (np.minimum(*parts) == sketch(scheme, names, 128)).all()


def test_document_without_shingles_is_all_ones() -> None:
    scheme = Darts(1, table_of({}))
    out = np.empty((3, 16), np.uint32)
    scheme.sketch(Shingles(np.array([7], np.uint64), np.array([0, 0, 1, 1])), out)
    assert (out[[0, 2]] == EMPTY_SLOT).all()
    assert (out[1] < EMPTY_SLOT).all()


@pytest.mark.parametrize("size", [1, 2, 3, 30, 400])
def test_runner_ups_are_minima_of_another_element(size: int) -> None:
    k = 32
    weights = random_weights(np.random.default_rng(size), size)
    scheme = Darts(9, table_of(weights))
    names = list(weights)
    hashes = np.array([*names, names[0]], np.uint64)
    first, second = np.empty((1, k), np.uint32), np.empty((1, k), np.uint32)
    scheme.two_smallest(Shingles(hashes, np.array([0, len(hashes)])), first, second)
    assert (first[0] == sketch(scheme, names, k)).all()
    alone = np.array([sketch(scheme, [h], k) for h in names])
    ordered = np.sort(alone, axis=0)
    expected = ordered[1] if size > 1 else np.full(k, EMPTY_SLOT)
    assert (second[0] == expected).all()


def test_signature_of_single_frequent_shingle_is_complete() -> None:
    """A frequent shingle throws darts at a twentieth of the largest rate."""
    scheme = Darts(1, table_of({5: RARE // 20}))
    signature = sketch(scheme, [5], 1024)
    assert (signature < EMPTY_SLOT).all()
    assert len(np.unique(signature)) > 1000


def test_unlisted_shingles_have_largest_weight() -> None:
    hashes = splitmix64(3, 100)
    table = table_of({int(h): 10 for h in np.sort(hashes[:50])})
    assert table.look_up(hashes).tolist() == [10] * 50 + [RARE] * 50


def test_weights_do_not_depend_on_logarithms_of_platform(monkeypatch: pytest.MonkeyPatch) -> None:
    """Doubtful weights are computed with decimals; here, these are all."""
    rng = np.random.default_rng(4)
    counts = rng.integers(1, 10**6, 200)
    usual = idf(10**6, counts)
    assert usual.tolist() == [exact_idf(10**6, count) for count in counts.tolist()]
    module = import_module("nearkin.stages.sketch.resources")
    monkeypatch.setattr(module, "DOUBTFUL", 1.0)
    monkeypatch.setattr(module, "exact_idf", lambda documents, count: count)
    assert (idf(10**6, counts) == counts).all()


def test_weights_are_positive() -> None:
    assert idf(10, np.array([1, 10, 10_000])).min() == 1
    assert DocumentFrequencies(0, np.empty(0, np.uint64), np.empty(0, np.uint32)).rare > 0
