"""Measures the precision and the recall of a finished run on its own corpus.

For the precision, removed documents are compared again with the kept document of their cluster. For
the recall, a sample of documents is compared with the whole corpus by a prefilter that misses no
pair at the threshold. If |A∩B| ≥ t·|A∪B|, B contains at least ⌈t·|A|⌉ shingles of A, so it contains
at least one of any |A| − ⌈t·|A|⌉ + 1 of them (prefix filtering: Chaudhuri, Ganti, Kaushik, ICDE
2006; Bayardo, Ma, Srikant, WWW 2007). Intervals are 95 % intervals of Wilson (1927).
"""

import math
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from nearkin.argument_types import check_arguments
from nearkin.engine.banding import AgreementLimits
from nearkin.engine.options import RunOptions, Verify
from nearkin.engine.wilson import wilson_interval
from nearkin.errors import UsageError
from nearkin.evaluate.scan import ReopenedRun, SimilarPairs, concatenate_pairs, create_scan
from nearkin.lsh.slot_bands import Banding
from nearkin.measures import measure_of
from nearkin.packed_pairs import pack_pairs
from nearkin.runtime.number_format import format_percent
from nearkin.runtime.progress import Progress
from nearkin.setting_names import name_setting
from nearkin.sketch.minhash import splitmix64

BIN_WIDTH = 0.05
"""The width of the bins of similarity in which recall is reported."""
SAMPLED_KINDS = ("unique", "kept", "exact", "near")
"""The kinds of documents that are sampled. Empty documents have no pairs."""


@dataclass(frozen=True)
class Proportion:
    """A proportion and its Wilson 95 % interval.

    Attributes:
        hits: Number of counted items with a property.
        total: Number of counted items.
        low: Lower end of the interval.
        high: Upper end of the interval.

    Examples:
        >>> proportion = Proportion.from_counts(95, 100)
        >>> proportion.value, round(proportion.low, 3), round(proportion.high, 3)
        (0.95, 0.888, 0.978)
    """

    hits: int
    total: int
    low: float
    high: float

    @classmethod
    def from_counts(cls, hits: int, total: int) -> "Proportion":
        """Computes a proportion from counts. The interval is [0, 1] if nothing was counted.

        Args:
            hits: Number of counted items with a property.
            total: Number of counted items.
        """
        if total == 0:
            return cls(0, 0, 0.0, 1.0)
        low, high = wilson_interval(hits / total, total)
        return cls(hits, total, low, high)

    @property
    def value(self) -> float:
        """The proportion, or 1 if nothing was counted."""
        return self.hits / self.total if self.total else 1.0


@dataclass(frozen=True)
class RecallBin:
    """The recall of the pairs with a similarity in [low, high).

    The last bin includes its upper end.

    Attributes:
        low: Lower end of the bin.
        high: Upper end of the bin.
        recall: Measured recall.
        predicted: Recall predicted by the S-curve and the margin.
    """

    low: float
    high: float
    recall: Proportion
    predicted: float


@dataclass(frozen=True)
class Audit:
    """The measured precision and recall of a run.

    Attributes:
        precision: Proportion of the removed documents that reach the threshold with the kept one.
        recall: Proportion of the pairs at or above the threshold that the run found.
        asked: Requested recall at the threshold.
        bins: Recall by similarity.
        sampled: Number of documents that were compared with the whole corpus.
        exact: Number of pairs of exact duplicates among them. They are found by their content hash
            and do not count for the recall.
        seconds: Duration of the audit in seconds.
        seed: Random seed for sampling.
        advice: What to change, or a statement that nothing needs to be changed.
    """

    precision: Proportion
    recall: Proportion
    asked: float
    bins: tuple[RecallBin, ...]
    sampled: int
    exact: int
    seconds: float
    seed: int
    advice: str

    def to_dict(self) -> dict[str, object]:
        """Returns the audit as a JSON object."""
        return asdict(self)


def require_seed(seed: int) -> None:
    """Requires a seed of a random sample.

    Args:
        seed: The seed.

    Raises:
        UsageError: If it is not an unsigned 64-bit number.
    """
    if not 0 <= seed < 2**64:
        raise UsageError(f"seed={seed} is not an unsigned 64-bit number; give 0 to {2**64 - 1}")


@check_arguments
def measure_run(
    run: ReopenedRun,
    progress: Progress,
    *,
    sample: int = 1000,
    removed: int = 5000,
    budget: float | None = None,
    seed: int = 1,
) -> Audit:
    """Measures the precision and the recall of a finished run.

    Args:
        run: The finished run.
        progress: Receives stage and document-count updates.
        sample: Number of documents to compare with the whole corpus.
        removed: Largest number of removed documents to compare with the kept one.
        budget: Time in seconds after which no further part of the sample is compared. Unlimited by
            default.
        seed: Random seed for sampling.

    Raises:
        UsageError: If the run has a second measure, or a number is negative.
    """
    if run.settings.second_measure is not None:
        raise UsageError(
            f"cannot audit a run with the second measure {run.settings.second_measure!r}; run it "
            "again with one measure"
        )
    for name, value, least in (("sample", sample, 1), ("removed", removed, 0)):
        if value < least:
            raise UsageError(f"{name}={value} is out of range; it must be at least {least}")
    require_seed(seed)
    began = time.monotonic()
    clusters = pq.read_table(run.folder / "clusters.parquet")
    chosen = sample_by_kind(clusters, sample, seed)
    scan = create_scan(run, len(clusters), progress)
    precision = Proportion.from_counts(*scan.measure_precision(clusters, removed, seed))
    parts = []
    compared = 0
    for start in range(0, len(chosen), scan.sample_per_scan):
        elapsed = time.monotonic() - began
        if compared and budget is not None:
            expected = elapsed * (1 + scan.sample_per_scan / compared)
            if expected > budget:
                break
        part = np.sort(chosen[start : start + scan.sample_per_scan])
        parts.append(scan.find_similar(part))
        compared += len(part)
    pairs = _unique_pairs(parts)
    is_exact = scan.groups[pairs.a] == scan.groups[pairs.b]
    is_same_block = scan.blocks[pairs.a] == scan.blocks[pairs.b]
    counted = np.flatnonzero(~is_exact & is_same_block)
    is_found = scan.verified_pairs(clusters["id"])(pairs.a[counted], pairs.b[counted])
    recall = Proportion.from_counts(int(is_found.sum()), len(is_found))
    return Audit(
        precision=precision,
        recall=recall,
        asked=run.settings.recall,
        bins=tuple(recall_by_similarity(pairs.similarity[counted], is_found, run)),
        sampled=compared,
        exact=int(is_exact.sum()),
        seconds=round(time.monotonic() - began, 3),
        seed=seed,
        advice=give_advice(precision, recall, run),
    )


def give_advice(precision: Proportion, recall: Proportion, run: ReopenedRun) -> str:
    """Returns what the measured intervals mean for the settings of the run.

    Args:
        precision: Measured precision.
        recall: Measured recall.
        run: The finished run.
    """
    settings = run.settings
    requested = settings.recall
    has_errors = precision.value < 1
    if has_errors and settings.verify == "exact" and precision.total and precision.high < 1:
        wrong = precision.total - precision.hits
        return (
            f"{wrong} removed documents do not reach the threshold; this is a defect of nearkin, "
            "please report it"
        )
    if has_errors and settings.verify != "exact":
        return (
            f"verify={settings.verify} removed {format_percent(1 - precision.value)} of the "
            "documents wrongly; use {name_setting('verify', 'exact')}"
        )
    if recall.total == 0:
        return (
            "the sample contains no pair at the threshold: use a larger sample, unless the corpus "
            "has no near-duplicates"
        )
    if recall.high < requested:
        change = f"omit {name_setting('bands')} and {name_setting('rows')} to have them solved"
        if not settings.bands:
            change = f"raise {name_setting('recall')}"
        return (
            f"the recall is below the requested {requested}: {change}, or raise "
            f"{name_setting('hot_bucket_size')} if buckets were hot"
        )
    if recall.low >= requested:
        return f"the recall is at least the requested {requested}"
    return f"the interval of the recall contains the requested {requested}"


def recall_by_similarity(
    similarity: np.ndarray, is_found: np.ndarray, run: ReopenedRun
) -> Iterator[RecallBin]:
    """Yields the recall in bins of the similarity, from the threshold to 1.

    Args:
        similarity: Similarities of the true pairs, float64 (n,).
        is_found: True for the pairs that the run found, bool (n,).
        run: The finished run.
    """
    threshold = run.settings.threshold
    low = threshold
    while low < 1 - 1e-9:
        high = min(1.0, (math.floor(low / BIN_WIDTH + 1e-9) + 1) * BIN_WIDTH)
        is_above = (similarity >= low) | (low == threshold)
        is_in_bin = is_above & ((similarity < high) | (high >= 1))
        similarities = similarity[is_in_bin].tolist() or [(low + high) / 2]
        predicted = float(np.mean([predict_recall(s, run) for s in similarities]))
        recall = Proportion.from_counts(int(is_found[is_in_bin].sum()), int(is_in_bin.sum()))
        yield RecallBin(round(low, 6), round(high, 6), recall, round(predicted, 6))
        low = high


def predict_recall(similarity: float, run: ReopenedRun) -> float:
    """Returns the probability that a run finds a pair: P(candidate) · P(its estimate passes).

    Args:
        similarity: Similarity of the pair, in [0, 1].
        run: The finished run. It finds every pair if it compared all of them.
    """
    banding = run.banding
    if banding is None or run.settings.distance is not None:
        return 1.0
    slot_probability = float(run.measure.estimator.slot_collision_probability(np.array(similarity)))
    limits = AgreementLimits.create(run.measure, banding, run.settings)
    is_exact = run.settings.verify != Verify.ESTIMATE
    margin = limits.margin if is_exact else limits.join
    return replace(banding, margin=margin).recall_at(slot_probability)


def sample_by_kind(clusters: pa.Table, size: int, seed: int) -> np.ndarray:
    """Draws documents at random, each kind of document in proportion to its frequency.

    Args:
        clusters: Clusters table of a run.
        size: Number of documents to draw.
        seed: Random seed for sampling.

    Returns:
        Numbers of the documents in random order, int64 (m,). Empty documents are not drawn.
    """
    kinds = clusters["kind"].to_numpy(zero_copy_only=False)
    ranks = splitmix64(seed, len(kinds))
    groups = [np.flatnonzero(kinds == kind) for kind in SAMPLED_KINDS]
    total = sum(map(len, groups))
    if total > size:
        groups = [
            group[np.argsort(ranks[group])[: round(size * len(group) / total)]] for group in groups
        ]
    chosen = np.concatenate(groups)
    return chosen[np.argsort(ranks[chosen], kind="stable")]


def _unique_pairs(parts: list[SimilarPairs]) -> SimilarPairs:
    """Returns the pairs of all parts, each pair once, in ascending order."""
    pairs = concatenate_pairs(parts)
    _, first = np.unique(pack_pairs(pairs.a, pairs.b), return_index=True)
    return SimilarPairs(pairs.a[first], pairs.b[first], pairs.similarity[first])


def solve_run_banding(settings: RunOptions, documents: int) -> Banding:
    """Returns the bands and rows of a finished run.

    Args:
        settings: RunOptions of the run.
        documents: Number of documents of the run.
    """
    return settings.banding(measure_of(settings.spec, distance=settings.distance), documents)
