"""An estimate of the pairs that are missing because buckets exceed the pair budget.

The documents of such a bucket are compared with a few leaders only. Pairs are drawn from these
buckets at random and compared. A pair can be in several of the buckets, so each drawn pair counts
for 1 / (the number of these buckets that contain it): the sum over all draws then counts each pair
once in expectation (multiplicity estimator: Birnbaum, Sirken, 1965; it is the estimator of Hansen
and Hurwitz, Annals of Mathematical Statistics 1943, for the draws). A pair that the run found, in
another bucket or as a member and its leader, counts for nothing.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from nearkin.engine.pair_files import StoredBuckets
from nearkin.engine.run import HOT_MEMBERS, Run
from nearkin.engine.stats import MissingPairsStats, Stage
from nearkin.engine.verification import split_pairs
from nearkin.engine.wilson import wilson_interval
from nearkin.stages.packed_pairs import isin_sorted, pack_pairs, sorted_unique, unpack_pairs

SAMPLED_PAIRS = 1 << 16
"""Number of pairs that are drawn. A share of 1 % of missing pairs then has a standard error of
0.04 %."""
SEED = 0x6D697373696E67
"""The seed of the draws."""


def estimate_missing_pairs(run: Run, *, expand_exact: bool) -> MissingPairsStats | None:
    """Estimates the missing pairs of a run with a pair budget, and records the estimate."""
    if not run.hot_buckets:
        return None
    recorded = run.work.done(Stage.MISSING_PAIRS)
    if recorded is not None:
        return MissingPairsStats.from_dict(recorded)
    weights = np.ones(run.sketch_stats.documents, np.int64)
    if expand_exact:
        weights = np.bincount(run.exact_representatives(), minlength=len(weights))
    run.progress.stage(str(Stage.MISSING_PAIRS), SAMPLED_PAIRS)
    with run.stage(Stage.MISSING_PAIRS) as record:
        sample = _PairSample.draw(StoredBuckets.read(run.work.path / HOT_MEMBERS), weights)
        missing = _is_missing(run, sample.pairs)
        mean = float((missing / sample.multiplicity).sum()) / max(len(missing), 1)
        low, high = wilson_interval(mean, len(missing))
        listed = _count_listed(run, weights)
        stats = MissingPairsStats.from_estimate(
            truncated=run.hot_buckets,
            sampled=len(missing),
            pairs=mean * sample.total,
            low=low * sample.total,
            high=high * sample.total,
            listed=listed,
        )
        record.update(stats.to_dict())
        run.progress.advance(len(missing))
    return stats


@dataclass(frozen=True)
class _PairSample:
    """Pairs that were drawn from buckets.

    Attributes:
        pairs: Packed pairs, uint64 (m,). A pair can be drawn more than once.
        multiplicity: Number of the buckets that contain each pair, int64 (m,).
        total: Number of pairs from which they were drawn, counted once for each bucket.
    """

    pairs: np.ndarray
    multiplicity: np.ndarray
    total: float

    @classmethod
    def draw(cls, buckets: StoredBuckets, weights: np.ndarray) -> "_PairSample":
        """Draws pairs of buckets with replacement.

        Args:
            weights: Number of documents for which each document stands, int64 (n,). A pair is
                drawn with a probability proportional to the product of its two weights.
        """
        counts = np.array([_count_pairs(weights[members]) for members in _iterate(buckets)])
        total = float(counts.sum())
        if not total:
            return cls(np.empty(0, np.uint64), np.ones(0, np.int64), 0.0)
        random = np.random.default_rng(SEED)
        drawn = random.multinomial(SAMPLED_PAIRS, counts / total)
        parts = [
            _draw_pairs(buckets.bucket(number), weights, int(drawn[number]), random)
            for number in np.flatnonzero(drawn).tolist()
        ]
        pairs = np.concatenate(parts)
        return cls(pairs, _count_common_buckets(pairs, buckets), total)


def _iterate(buckets: StoredBuckets) -> Iterator[np.ndarray]:
    for number in range(buckets.buckets):
        yield buckets.bucket(number)


def _count_pairs(weights: np.ndarray) -> float:
    """Returns the sum over all pairs of the products of their weights."""
    total = float(weights.sum())
    squares = float((weights.astype(np.float64) ** 2).sum())
    return (total * total - squares) / 2


def _draw_pairs(
    members: np.ndarray, weights: np.ndarray, count: int, random: np.random.Generator
) -> np.ndarray:
    """Draws pairs of different documents of one bucket, uint64 (count,).

    The second document is drawn from all but the first. To draw both from all, and again if they
    are equal, would hardly end if one document stands for a large group of exact duplicates.
    """
    own = weights[members]
    ends = np.cumsum(own)
    others = ends[-1] - own
    first_ends = np.cumsum(own.astype(np.float64) * others)
    drawn = random.random(count) * first_ends[-1]
    first = np.minimum(np.searchsorted(first_ends, drawn, "right"), len(members) - 1)
    # the weight of the first document is skipped
    places = random.integers(others[first])
    places += np.where(places >= ends[first] - own[first], own[first], 0)
    second = np.searchsorted(ends, places, "right")
    return pack_pairs(members[first], members[second])


def _count_common_buckets(pairs: np.ndarray, buckets: StoredBuckets) -> np.ndarray:
    """Returns the number of buckets that contain both documents of each pair, int64 (m,).

    Args:
        pairs: Packed pairs, uint64 (m,).
    """
    first, second = unpack_pairs(pairs)
    documents = sorted_unique(np.concatenate([first, second]))
    parts = []
    for number, members in enumerate(_iterate(buckets)):
        inside = members[isin_sorted(members, documents)]
        positions = np.searchsorted(documents, inside)
        parts.append(_pack_incidences(positions, number))
    incidences = np.sort(np.concatenate(parts))
    edges = np.arange(len(documents) + 1, dtype=np.uint64) << np.uint64(32)
    starts = np.searchsorted(incidences, edges)
    a = np.searchsorted(documents, first)
    b = np.searchsorted(documents, second)
    degrees = starts[a + 1] - starts[a]
    ends = np.cumsum(degrees)
    rows = np.repeat(np.arange(len(pairs)), degrees)
    places = np.repeat(starts[a] - (ends - degrees), degrees) + np.arange(len(rows))
    numbers = incidences[places] & np.uint64(0xFFFFFFFF)
    shared = isin_sorted(_pack_incidences(b[rows], numbers), incidences)
    return np.bincount(rows[shared], minlength=len(pairs))


def _pack_incidences(positions: np.ndarray, buckets: "np.ndarray | int") -> np.ndarray:
    """Returns positions of documents and numbers of their buckets in one integer, uint64 (m,)."""
    return (positions.astype(np.uint64) << np.uint64(32)) | np.asarray(buckets).astype(np.uint64)


def _is_missing(run: Run, pairs: np.ndarray) -> np.ndarray:
    """Returns which pairs a larger budget would list, and the run does not, bool (m,).

    Args:
        pairs: Packed pairs of documents of hot buckets, uint64 (m,).
    """
    unique = sorted_unique(pairs)
    unique = unique[run.pair_scope.allows_packed(unique)]
    passing = unique[run.agreements(unique) >= run.comparison.limits.margin]
    score = run.scorer()
    listed = [score(portion).duplicates.pairs for portion in split_pairs(passing)]
    similar = np.concatenate([np.empty(0, np.uint64), *listed])
    missing = similar[~isin_sorted(similar, run.scored().pairs)]
    return isin_sorted(pairs, missing)


def _count_listed(run: Run, weights: np.ndarray) -> int:
    """Returns the number of pairs that the run lists.

    Args:
        weights: Number of documents for which each document stands, int64 (n,).
    """
    scored = run.scored().pairs
    listed = 0
    for portion in split_pairs(scored):
        first, second = unpack_pairs(portion)
        listed += int((weights[first] * weights[second]).sum())
    return listed + int((weights * (weights - 1) // 2).sum())
