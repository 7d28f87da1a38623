"""Tests of probing: the order of perturbations, runner-ups, band keys and the recall gained."""

from itertools import combinations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import nearkin as nk
from nearkin.errors import UsageError
from nearkin.settings.spec import Spec
from nearkin.stages.lsh.band_keys import probing_band_keys
from nearkin.stages.lsh.curve import band_probability
from nearkin.stages.lsh.probing import perturbations
from nearkin.stages.lsh.slot_bands import fixed_banding, solve_banding
from nearkin.stages.shingle import Shingles
from nearkin.stages.sketch import kernels
from nearkin.stages.sketch.minhash import SCHEMES, multipliers, scheme_of, splitmix64
from nearkin.stages.sketch.sketcher import BandKeyBuilder, Sketcher


@given(st.lists(st.floats(0, 10), min_size=1, max_size=7), st.integers(0, 200))
def test_perturbations_are_ordered_by_score(margins: list[float], count: int) -> None:
    flips = perturbations(np.array(margins), count)
    everything = [
        s for n in range(1, len(margins) + 1) for s in combinations(range(len(margins)), n)
    ]
    assert len(flips) == min(count, len(everything))
    assert len(set(flips)) == len(flips)
    scores = [sum(margins[i] ** 2 for i in s) for s in flips]
    expected = sorted(sum(margins[i] ** 2 for i in s) for s in everything)[: len(flips)]
    assert scores == pytest.approx(expected)


def test_least_certain_bits_are_flipped_first() -> None:
    assert perturbations(np.array([2.0, 1.0]), 10) == [(1,), (0,), (0, 1)]
    assert perturbations(np.array([]), 3) == []


def test_negative_number_of_perturbations_is_refused() -> None:
    with pytest.raises(UsageError, match="is negative"):
        perturbations(np.array([1.0]), -1)


@pytest.mark.parametrize("scheme", sorted(SCHEMES))
@pytest.mark.parametrize("size", [0, 1, 2, 5, 60, 300])
def test_runner_up_is_second_smallest_element_of_slot(scheme: str, size: int) -> None:
    spec = Spec(k=16, scheme=scheme)
    hashes = np.concatenate([splitmix64(size, size), splitmix64(size, size // 2)])
    first, second = np.empty((1, 16), np.uint32), np.empty((1, 16), np.uint32)
    kernels.two_smallest(hashes, np.array([0, len(hashes)]), *multipliers(spec), first, second)
    whole = np.full((1, 16), 0xFFFFFFFF, np.uint32)
    scheme_of(spec).sketch(Shingles(hashes, np.array([0, len(hashes)])), whole)
    assert (first == whole).all()
    alone = np.full((size, 16), 0xFFFFFFFF, np.uint32)
    for i in range(size):
        scheme_of(spec).update(hashes[i : i + 1], alone[i])
    ordered = np.sort(np.vstack([alone, np.full((2, 16), 0xFFFFFFFF, np.uint32)]), axis=0)
    assert (second[0] == ordered[1]).all()


@pytest.mark.parametrize(
    ("rows", "probes", "one_sided"),
    [(7, 0, False), (7, 7, False), (7, 7, True), (5, 2, False), (1, 1, False)],
)
@pytest.mark.parametrize("similarity", [0.6, 0.8])
def test_band_probability_matches_simulation(
    rows: int, probes: int, one_sided: bool, similarity: float
) -> None:
    trials = 600
    size = 300
    bands = 128 // rows
    shared = round(2 * size * similarity / (1 + similarity))
    jaccard = shared / (2 * size - shared)
    spec, functions = Spec(scheme="classic"), multipliers(Spec(scheme="classic"))
    met = 0
    for trial in range(trials // bands + 20):
        pool = splitmix64(1000 + trial, 2 * size - shared)
        keys = []
        for hashes in (pool[:size], pool[size - shared :]):
            slots, runner_ups = np.empty((1, spec.k), np.uint32), np.empty((1, spec.k), np.uint32)
            kernels.two_smallest(hashes, np.array([0, size]), *functions, slots, runner_ups)
            keys.append(
                probing_band_keys(slots, runner_ups, bands, rows, probes).reshape(bands, 1 + probes)
            )
        for x, y in zip(*keys, strict=True):
            met += bool(set(x.tolist()) & set(y[:1].tolist() if one_sided else y.tolist()))
    total = (trials // bands + 20) * bands
    expected = float(band_probability(jaccard, rows, probes, one_sided=one_sided))
    assert abs(met / total - expected) < 4 * np.sqrt(expected * (1 - expected) / total) + 0.01


def test_two_sided_probing_reaches_recall_of_two_tables() -> None:
    for threshold in (0.7, 0.8, 0.9):
        single = solve_banding(threshold, 0.9, 128)
        probed = fixed_banding(threshold, 0.9, 128, single.bands, single.rows, single.rows)
        assert probed.candidate_recall >= 1 - (1 - single.candidate_recall) ** 2


@pytest.fixture(scope="module")
def texts() -> list[str]:
    rng = np.random.default_rng(4)
    documents = [" ".join(f"w{x}" for x in rng.integers(0, 4000, 150)) for _ in range(600)]
    for i in range(500):
        words = documents[i].split()
        for at in rng.choice(150, 5, replace=False):
            words[at] = f"e{i}"
        documents.append(" ".join(words))
    return documents


def test_probing_finds_more_pairs_and_all_of_them_are_true(texts: list[str]) -> None:
    """The same holds for one worker and hot buckets."""
    common = {"threshold": 0.8, "bands": 4, "rows": 9, "recall": 0.9999}
    plain, probed = (nk.pairs(texts, probes=probes, **common) for probes in (0, 9))
    true = {
        (r["id_a"], r["id_b"], r["similarity"])
        for r in nk.pairs(texts, threshold=0.8).pairs.arrow.to_pylist()
    }
    a, b = (
        {(r["id_a"], r["id_b"], r["similarity"]) for r in found.pairs.arrow.to_pylist()}
        for found in (plain, probed)
    )
    assert a < b <= true
    assert len(b) / len(true) > 1 - (1 - len(a) / len(true)) ** 2
    with_hot_buckets = nk.pairs(
        texts, probes=9, workers=1, hot_bucket_size=5, **common
    ).pairs.arrow.to_pylist()
    assert {(r["id_a"], r["id_b"], r["similarity"]) for r in with_hot_buckets} <= true


def test_probing_works_with_exact_groups_and_hot_buckets(texts: list[str]) -> None:
    copies = [texts[0]] * 30 + [f"{texts[1]} tail{i}" for i in range(150)] + texts[2:50]
    result = nk.dedup(copies, threshold=0.8, probes=3, bands=10, rows=6, hot_bucket_size=20)
    assert result.statistics["removed_exact"] == 29
    assert result.kept.sum() <= 52


def test_probes_of_unsupported_measures_are_rejected() -> None:
    with pytest.raises(UsageError, match="b-bit signatures cannot be probed"):
        nk.dedup(["a"], spec=Spec(slot_bits=8), probes=2)
    with pytest.raises(UsageError, match="probes=-1"):
        nk.dedup(["a"], probes=-1)
    with pytest.raises(UsageError, match="are only for MinHash"):
        nk.dedup(["a"], measure="simhash", bands=2, rows=3, probes=1)


def test_sketcher_builds_keys_of_batches() -> None:
    key_builder = BandKeyBuilder(
        8,
        lambda slots, runner_ups: probing_band_keys(slots, runner_ups, 4, 4, 1),
        uses_runner_ups=True,
    )
    documents = pa.array(["one two three four five", "", "six"], pa.large_string())
    sketches = Sketcher(Spec(k=16), key_builder=key_builder).sketch(documents)
    assert sketches.keys is not None
    assert sketches.keys.shape == (3, 8)
    assert (sketches.signatures == Sketcher(Spec(k=16)).sketch(documents).signatures).all()
    empty = Sketcher(Spec(k=16), key_builder=key_builder).sketch(documents[:0])
    assert empty.keys is not None
    assert empty.keys.shape == (0, 8)
