"""A finished run measured on its own corpus: precision of what was removed, recall of what should have been found.

Precision: removed documents are compared with the kept one again. Recall: a sample of documents is compared with the whole
corpus by a prefilter that misses nothing at the threshold. If |A∩B| ≥ t·|A∪B|, B has at least ⌈t·|A|⌉ of A's shingles, so at
least one of any |A| − ⌈t·|A|⌉ + 1 of them (prefix filtering: Chaudhuri, Ganti, Kaushik, ICDE 2006; Bayardo, Ma, Srikant, WWW
2007). Intervals are Wilson's (1927), 95 %.
"""

import math
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from nearkin.engine.options import RunOptions
from nearkin.errors import UsageError
from nearkin.evaluate.scan import Finished, Found, scan_of
from nearkin.lsh.curve import pass_probability
from nearkin.lsh.slot_bands import Banding
from nearkin.measures import measure_of
from nearkin.packed_pairs import pack_pairs, unpack_pairs
from nearkin.runtime.progress import Progress
from nearkin.sketch.minhash import splitmix64

QUANTILE = 1.959963984540054
BIN = 0.05


@dataclass(frozen=True)
class Share:
    """A share and its Wilson 95 % interval.

    Attributes:
        hits: Of …
        total: … so many.
        low: Lower end.
        high: Upper end.

    Examples:
        >>> share = Share.of(95, 100)
        >>> share.value, round(share.low, 3), round(share.high, 3)
        (0.95, 0.888, 0.978)
    """

    hits: int
    total: int
    low: float
    high: float

    @classmethod
    def of(cls, hits: int, total: int) -> "Share":
        """From counts; nothing is known of none."""
        if total == 0:
            return cls(0, 0, 0.0, 1.0)
        p, z = hits / total, QUANTILE
        centre, width = (
            p + z * z / (2 * total),
            z * math.sqrt(p * (1 - p) / total + z * z / (4 * total * total)),
        )
        scale = 1 + z * z / total
        return cls(
            hits,
            total,
            max(0.0, min(p, (centre - width) / scale)),
            min(1.0, max(p, (centre + width) / scale)),
        )

    @property
    def value(self) -> float:
        """hits / total; 1 of none."""
        return self.hits / self.total if self.total else 1.0


@dataclass(frozen=True)
class Bin:
    """Pairs of similarities in [low, high), the last one closed.

    Attributes:
        low: Left end.
        high: Right end.
        recall: Found among those that there are.
        predicted: By the S-curve and the margin.
    """

    low: float
    high: float
    recall: Share
    predicted: float


@dataclass(frozen=True)
class Audit:
    """What was measured.

    Attributes:
        precision: Removed documents that resemble the kept one at least as much as the threshold.
        recall: Pairs at or above the threshold that the run found.
        asked: The recall that was asked for, at the threshold.
        bins: By similarity.
        sampled: Documents compared with the whole corpus.
        exact: Pairs among them that are exact duplicates, which are found another way and not counted.
        seconds: Taken.
        seed: Of the samples.
        advice: What to change, or that nothing needs it.
    """

    precision: Share
    recall: Share
    asked: float
    bins: tuple[Bin, ...]
    sampled: int
    exact: int
    seconds: float
    seed: int
    advice: str

    def to_dict(self) -> dict[str, Any]:
        """JSON-able."""
        return asdict(self)


def audit(
    run: Finished,
    progress: Progress,
    sample: int = 1000,
    removed: int = 5000,
    budget: float | None = None,
    seed: int = 1,
) -> Audit:
    """Measures a run.

    Args:
        run: Without a second measure.
        progress: Who is told.
        sample: Documents compared with the whole corpus.
        removed: Removed documents compared with the kept one.
        budget: Seconds after which no further part of the sample is begun.
        seed: Of the samples.

    Raises:
        UsageError: The run has a second measure.
    """
    if run.settings.second_measure is not None:
        raise UsageError(
            f"an audit is of one measure; this run has a second one (second_measure={run.settings.second_measure!r})"
        )
    began = time.monotonic()
    clusters = pq.read_table(run.folder / "clusters.parquet")
    chosen = sample_by_kind(clusters, sample, seed)
    scan = scan_of(run, len(clusters), progress)
    precision = Share.of(*scan.precision(clusters, removed, seed))
    parts, done = [], 0
    for start in range(0, len(chosen), scan.at_once):
        spent = time.monotonic() - began
        if done and budget is not None and spent * (1 + scan.at_once / done) > budget:
            break
        parts.append(scan.similar_to(np.sort(chosen[start : start + scan.at_once])))
        done += min(scan.at_once, len(chosen) - start)
    found = _united(parts)
    same = scan.groups[found.a] == scan.groups[found.b]
    blocks = scan.blocks[found.a] == scan.blocks[found.b]
    counted = np.flatnonzero(~same & blocks)
    hits = scan.known_pairs(clusters["id"])(found.a[counted], found.b[counted])
    similarity = found.similarity[counted]
    recall = Share.of(int(hits.sum()), len(hits))
    return Audit(
        precision,
        recall,
        run.settings.recall,
        tuple(bins_of(similarity, hits, run)),
        done,
        int(same.sum()),
        round(time.monotonic() - began, 3),
        seed,
        advice(precision, recall, run),
    )


def advice(precision: Share, recall: Share, run: Finished) -> str:
    """What the intervals say, in words."""
    asked = run.settings.recall
    if (
        precision.total
        and precision.high < 1
        and precision.value < 1
        and run.settings.verify == "exact"
    ):
        return f"{precision.total - precision.hits} removed documents do not reach the threshold: a defect, please report it"
    if precision.value < 1 and run.settings.verify != "exact":
        return f"verify={run.settings.verify} removed {1 - precision.value:.1%} wrongly; use --verify exact"
    if recall.total == 0:
        return "no pair at the threshold among the sample: sample more, or the corpus has none"
    if recall.high < asked:
        more = (
            "leave out --bands and --rows to have them solved"
            if run.settings.bands
            else "raise --recall"
        )
        return (
            f"recall is below the asked {asked}: {more}, or raise --max-bucket if buckets were hot"
        )
    return (
        f"recall is what was asked for ({asked}) or better"
        if recall.low >= asked
        else "the interval holds the asked recall"
    )


def bins_of(similarity: np.ndarray, hits: np.ndarray, run: Finished) -> Iterator[Bin]:
    """Recall by similarity, from the threshold to 1."""
    low = run.settings.threshold
    while low < 1 - 1e-9:
        high = min(1.0, (math.floor(low / BIN + 1e-9) + 1) * BIN)
        inside_bin = ((similarity >= low) | (low == run.settings.threshold)) & (
            (similarity < high) | (high >= 1)
        )
        chances = [predicted(s, run) for s in similarity[inside_bin].tolist()] or [
            predicted((low + high) / 2, run)
        ]
        recall = Share.of(int(hits[inside_bin].sum()), int(inside_bin.sum()))
        yield Bin(round(low, 6), round(high, 6), recall, round(float(np.mean(chances)), 6))
        low = high


def predicted(similarity: float, run: Finished) -> float:
    """P(candidate) × P(the estimate passes the margin); 1 where all pairs are found."""
    banding = run.banding
    if banding is None or run.settings.distance is not None:
        return 1.0
    collision = float(run.measure.estimator.slot_collision_probability(np.array(similarity)))
    return banding.candidate_probability(collision) * pass_probability(
        banding.k, banding.margin, collision
    )


def sample_by_kind(clusters: pa.Table, size: int, seed: int) -> np.ndarray:
    """Ordinals, each kind of document in proportion, in a random order; empty documents have no pairs and are left out."""
    kinds = clusters["kind"].to_numpy(zero_copy_only=False)
    ranks = splitmix64(seed, len(kinds))
    present = [np.flatnonzero(kinds == kind) for kind in ("unique", "kept", "exact", "near")]
    total = sum(map(len, present))
    if total <= size:
        chosen = np.concatenate(present)
    else:
        wanted = [round(size * len(some) / total) for some in present]
        chosen = np.concatenate(
            [some[np.argsort(ranks[some])[:n]] for some, n in zip(present, wanted, strict=True)]
        )
    return chosen[np.argsort(ranks[chosen], kind="stable")]


def _united(parts: list[Found]) -> Found:
    pairs = np.concatenate(
        [np.empty(0, np.uint64), *(pack_pairs(part.a, part.b) for part in parts)]
    )
    similarity = np.concatenate([np.empty(0), *(part.similarity for part in parts)])
    _, first = np.unique(pairs, return_index=True)
    a, b = unpack_pairs(pairs[first])
    return Found(a, b, similarity[first])


def banding_of(settings: RunOptions, documents: int, compared_all: bool) -> Banding | None:
    """Of a run."""
    return (
        None
        if compared_all
        else settings.banding(measure_of(settings.spec, distance=settings.distance), documents)
    )
