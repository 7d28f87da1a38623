"""Tests of intervals: published values, and how often they contain the truth."""

import itertools
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nearkin.quality.evaluate.golden import (
    golden_set_from_clusters,
    golden_set_from_pairs,
    score_clusters,
)
from nearkin.quality.evaluate.intervals import (
    Proportion,
    estimate_ratio,
    estimate_score,
    gamma_interval,
)
from nearkin.quality.evaluate.sampling import SamplingFrame


@given(st.integers(0, 500), st.integers(1, 500))
def test_interval_contains_the_proportion(hits: int, more: int) -> None:
    share = Proportion.from_counts(hits, hits + more)
    assert 0 <= share.low <= share.value <= share.high <= 1


def test_interval_agrees_with_published_values() -> None:
    # Newcombe (1998), table I: 81/263 and 15/148.
    assert [
        round(x, 4)
        for x in (Proportion.from_counts(81, 263).low, Proportion.from_counts(81, 263).high)
    ] == [
        0.2553,
        0.3662,
    ]
    assert [
        round(x, 4)
        for x in (Proportion.from_counts(15, 148).low, Proportion.from_counts(15, 148).high)
    ] == [
        0.0624,
        0.1605,
    ]
    assert Proportion.from_counts(0, 0).value == 1


def test_interval_of_rare_events_agrees_with_that_of_poisson() -> None:
    """Events of equal weight: the exact interval of a Poisson mean (Garwood 1936), to 1 %."""
    for events, (low, high) in {0: (0, 3.69), 1: (0.0253, 5.57), 5: (1.62, 11.67)}.items():
        interval = gamma_interval(events, events, 1.0)
        assert interval.low == pytest.approx(low, rel=0.01, abs=0.03)
        assert interval.high == pytest.approx(high, rel=0.01)


def test_ratio_of_all_units_is_exact_and_of_none_is_unknown() -> None:
    found, true = np.array([1.0, 0.0, 5.0]), np.array([2.0, 0.0, 6.0])
    estimate = estimate_ratio(found, true, np.ones(3))
    assert (estimate.value, estimate.low, estimate.high) == (0.75, 0.75, 0.75)
    unknown = estimate_ratio(np.zeros(3), np.zeros(3), np.full(3, 0.5))
    assert (unknown.value, unknown.low, unknown.high) == (1.0, 0.0, 1.0)


def test_sample_without_an_error_does_not_exclude_errors() -> None:
    true = np.array([100.0, 1, 1, 1, 1])
    estimate = estimate_ratio(true, true, np.full(5, 0.5))
    assert (estimate.value, estimate.high) == (1.0, 1.0)
    assert estimate.low < 0.5
    scored = estimate_score(1.0, np.ones(5), true)
    assert (scored.value, scored.high) == (1.0, 1.0)
    assert scored.low < 0.5


def test_units_with_items_that_were_drawn_for_certain_do_not_exclude_errors_of_the_others() -> None:
    """Ten units have all found items and are drawn for certain; the others had none."""
    true = np.repeat([1.0, 0.0], [10, 90])
    inclusion = np.repeat([1.0, 0.5], [10, 90])
    estimate = estimate_ratio(true, true, inclusion)
    assert (estimate.value, estimate.high) == (1.0, 1.0)
    # no error was seen, so there may be 3.69 of them, each with a weight of 2 of 10 items
    assert estimate.low == pytest.approx(1 - 3.69 * 2 / 10, abs=0.01)


@given(
    st.lists(st.tuples(st.integers(0, 50), st.integers(0, 50)), min_size=1, max_size=20),
    st.floats(0.01, 1),
)
def test_ratio_is_in_its_interval(counts: list[tuple[int, int]], inclusion: float) -> None:
    found = np.array([float(min(pair)) for pair in counts])
    true = np.array([float(max(pair)) for pair in counts])
    estimate = estimate_ratio(found, true, np.full(len(counts), inclusion))
    assert 0 <= estimate.low <= estimate.value <= estimate.high <= 1


# -- how often intervals contain the truth

REPETITIONS = 300
DOCUMENTS = 6000


@dataclass(frozen=True)
class Population:
    """A run over documents whose true pairs are known.

    Attributes:
        clusters: Name of the true cluster of each document, int64 (n,).
        pairs: Found pairs of documents, int64 (p, 2).
        predicted: Cluster of each document in the run, int64 (n,).
    """

    clusters: np.ndarray
    pairs: np.ndarray
    predicted: np.ndarray

    def frame(self) -> SamplingFrame:
        names = [str(i) for i in range(len(self.clusters))]
        clusters = {"id": names, "cluster": [str(i) for i in self.predicted.tolist()]}
        table = pa.table({**clusters, "kind": ["kept"] * len(names)})
        first, second = ([names[i] for i in column] for column in self.pairs.T.tolist())
        return SamplingFrame.create(table, pa.table({"id_a": first, "id_b": second}))


def cluster_sizes(rng: np.random.Generator, largest: int) -> np.ndarray:
    sizes = np.minimum(rng.zipf(2.0, DOCUMENTS), largest)
    return sizes[np.cumsum(sizes) <= DOCUMENTS]


def population(kind: str) -> Population:
    """Returns one of the populations: what is missed depends on the kind.

    Args:
        kind: `hot`: of clusters above 64 documents, only the pairs with the first one are found.
            `giant`: the same for a cluster of 30 % of the documents. `misses`: 5 % of all pairs.
            `whole clusters`: all pairs of 3 % of the clusters. `satellites`: 40 % of the pairs of
            30 % of the documents.
    """
    rng = np.random.default_rng(7)
    sizes = cluster_sizes(rng, 300)
    if kind == "giant":
        sizes = np.concatenate([[DOCUMENTS * 3 // 10], cluster_sizes(rng, 30)])
    found = []
    predicted = []
    start = 0
    for size in sizes.tolist():
        members = start + np.arange(size)
        a, b = np.triu_indices(size, 1)
        is_satellite = rng.random(size) < 0.3
        chance = rng.random(len(a))
        is_found = {
            "hot": np.full(len(a), size <= 64) | (a == 0),
            "giant": np.full(len(a), size <= 64) | (a == 0),
            "misses": chance > 0.05,
            "whole clusters": np.full(len(a), rng.random() > 0.03),
            "satellites": ~(is_satellite[a] | is_satellite[b]) | (chance > 0.4),
        }[kind]
        found.append(np.stack([members[a[is_found]], members[b[is_found]]], axis=1))
        predicted.append(np.full(size, start) if is_found.any() else members)
        start += size
    clusters = np.repeat(np.arange(len(sizes)), sizes)
    return Population(clusters, np.concatenate(found), np.concatenate(predicted))


KINDS = ("hot", "giant", "misses", "whole clusters", "satellites")


@pytest.mark.parametrize("size", [300, pytest.param(1000, marks=pytest.mark.full)])
@pytest.mark.parametrize("kind", KINDS)
def test_interval_of_an_audit_contains_the_recall_of_all_pairs(kind: str, size: int) -> None:
    run = population(kind)
    frame = run.frame()
    true = np.bincount(run.clusters)[run.clusters] - 1.0
    found = np.bincount(run.pairs.ravel(), minlength=len(true)).astype(np.float64)
    recall = found.sum() / true.sum()
    covered = 0
    for seed in range(REPETITIONS):
        drawn = frame.draw(size, seed)
        estimate = estimate_ratio(found[drawn], true[drawn], frame.inclusion(drawn))
        covered += estimate.low <= recall <= estimate.high
    assert covered >= 0.93 * REPETITIONS


def merged(kind: str) -> tuple[np.ndarray, np.ndarray]:
    """Returns true and predicted clusters, int64 (n,) each.

    Args:
        kind: `split`: a fifth of the clusters is cut into two. `large split`: clusters above 20
            documents are cut into threes. `merged`: a fifth of the clusters is merged by twos.
            `hot bucket`: 200 clusters are merged into one. `both`: small clusters, cut and merged.
    """
    rng = np.random.default_rng(11)
    sizes = np.minimum(rng.zipf(2.2, 3 * DOCUMENTS), 5 if kind == "both" else 60)
    sizes = sizes[np.cumsum(sizes) <= 2 * DOCUMENTS]
    true = np.repeat(np.arange(len(sizes)), sizes)
    predicted = true.copy()
    ends = np.cumsum(sizes)
    for cluster in np.flatnonzero(sizes > 1).tolist():
        rows = np.arange(ends[cluster] - sizes[cluster], ends[cluster])
        if kind in ("split", "both") and rng.random() < 0.2:
            predicted[rows[: rng.integers(1, len(rows))]] += len(sizes)
        if kind == "large split" and len(rows) > 20:
            predicted[rows] = (2 + cluster) * len(sizes) + np.arange(len(rows)) // 3
    chosen = rng.permutation(len(sizes))
    if kind in ("merged", "both"):
        for a, b in chosen[: len(sizes) // 5 // 2 * 2].reshape(-1, 2).tolist():
            predicted[predicted == b] = a
    if kind == "hot bucket":
        predicted[np.isin(predicted, chosen[:200])] = chosen[0]
    return true, predicted


SCORES = ("precision", "recall", "f1", "rand", "bcubed_precision", "bcubed_recall")


@pytest.mark.parametrize("kind", ["split", "large split", "merged", "hot bucket", "both"])
def test_intervals_of_sampled_clusters_contain_the_scores_of_all(kind: str, full: bool) -> None:
    """300 of all clusters are labelled; the scores of the whole result are in the intervals."""
    true, predicted = merged(kind)
    names = [f"d{i:05d}" for i in range(len(true))]
    result = dict(zip(names, map(str, predicted.tolist()), strict=True))
    labels = list(zip(names, true.tolist(), strict=True))
    whole = score_clusters(golden_set_from_clusters({i: str(t) for i, t in labels}), result)
    rng = np.random.default_rng(5)
    covered = dict.fromkeys(SCORES, 0)
    repetitions = REPETITIONS if full else REPETITIONS // 6
    for _ in range(repetitions):
        chosen = set(rng.choice(int(true.max()) + 1, 300, replace=False).tolist())
        golden = golden_set_from_clusters({i: str(t) for i, t in labels if t in chosen})
        scores = score_clusters(golden, result)
        for name in SCORES:
            estimate = getattr(scores, name)
            covered[name] += (
                estimate.low <= getattr(whole, name).value + 1e-12 <= estimate.high + 2e-12
            )
    assert min(covered.values()) >= 0.93 * repetitions, covered


@pytest.mark.parametrize("kind", [pytest.param("split", marks=pytest.mark.full), "large split"])
def test_interval_of_labelled_pairs_contains_the_recall_of_all(kind: str, full: bool) -> None:
    """The pairs of 300 clusters are labelled one by one."""
    true, predicted = merged(kind)
    names = [f"d{i:05d}" for i in range(len(true))]
    result = dict(zip(names, map(str, predicted.tolist()), strict=True))
    pairs_of: dict[int, list[tuple[str, str]]] = {}
    sizes = np.bincount(true)
    ends = np.cumsum(sizes)
    for cluster in np.flatnonzero(sizes > 1).tolist():
        members = names[ends[cluster] - sizes[cluster] : ends[cluster]]
        pairs_of[cluster] = list(itertools.combinations(members, 2))
    everything = list(itertools.chain.from_iterable(pairs_of.values()))
    recall = score_clusters(golden_set_from_pairs(everything, None), result).recall
    rng = np.random.default_rng(6)
    repetitions = REPETITIONS if full else REPETITIONS // 6
    covered = 0
    for _ in range(repetitions):
        chosen = rng.choice(list(pairs_of), 300, replace=False).tolist()
        labelled = [pair for cluster in chosen for pair in pairs_of[cluster]]
        sampled = score_clusters(golden_set_from_pairs(labelled, None), result).recall
        covered += sampled.low <= recall.value <= sampled.high
    assert covered >= 0.93 * repetitions
