"""The statistics of a run's stages, as run.json and the manifest of a work folder record them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from enum import StrEnum
from typing import Any, NamedTuple, Self, TypeAlias, TypeVar

import numpy as np

from nearkin.corpus.columns import MAX_DOCUMENT

NOTABLE_HOT_SHARE = 0.01
"""The share of pairs in hot buckets, among all pairs with a common bucket, from which a run warns
that its recall is lower than requested."""
HOTTEST_LISTED = 100
"""Number of hot buckets that the statistics list one by one."""


StageRecord: TypeAlias = Mapping[str, Any]
"""The recorded statistics of a stage as JSON values. `RunStats` and `StageStats` declare them."""
StageRecords: TypeAlias = Mapping[str, StageRecord]
"""The records of the finished stages, by the names of the stages."""


class Stage(StrEnum):
    """The stages of a run, by the names under which they are recorded."""

    SKETCH = "sketch"
    COLLAPSE = "collapse"
    BLOCKLIST = "blocklist"
    AGAINST = "against"
    CANDIDATES = "candidates"
    VERIFY = "verify"
    CLUSTER = "cluster"
    SECOND_MEASURE = "then"
    CONTAINMENT = "containment"
    MISSING_PAIRS = "missing_pairs"
    CUT = "cut"
    WRITE = "write"


def _optional() -> Any:
    """Declares a statistic that is not recorded if it is None."""
    return field(default=None, metadata={"optional": True})


@dataclass(frozen=True, kw_only=True)
class StageStats:
    """The statistics of one stage. The names of the fields are the keys in run.json."""

    def to_dict(self) -> dict[str, object]:
        """Returns the statistics as JSON values."""
        values = {item.name: getattr(self, item.name) for item in fields(self)}
        optional = {item.name for item in fields(self) if item.metadata.get("optional")}
        return {
            name: value
            for name, value in values.items()
            if value is not None or name not in optional
        }

    @classmethod
    def from_dict(cls, record: StageRecord) -> Self:
        """Returns the statistics of a recorded stage. Unknown keys are ignored."""
        names = {item.name for item in fields(cls)}
        return cls(**{name: value for name, value in record.items() if name in names})


@dataclass(frozen=True, kw_only=True)
class SketchStats(StageStats):
    """The statistics of reading and sketching a corpus.

    Attributes:
        documents: Number of documents.
        rejected: Number of rejected rows.
        shingles: Number of shingles of all documents.
        text_bytes: Size of all texts, in bytes.
        signature_bytes: Size of all signatures, in bytes.
        empty_bin_rate: Share of the bins of one-permutation MinHash that no shingle reached.
        completed_slot_rate: Share of the slots that were filled from other bins.
        repeated_ids: Number of documents whose id occurs more than once.
        rejected_reasons: Numbers of rejected rows for the most frequent reasons.
        build_latency: Median and 99th percentile of the seconds to sketch a document.
        document_limit: Size of the largest document that is not rejected, in bytes.
        workers_limited: Requested and used number of threads, if memory allowed fewer.
        keyed: Bands, rows and probes of the band keys that were made while sketching.
    """

    documents: int
    rejected: int
    shingles: int
    text_bytes: int
    signature_bytes: int
    empty_bin_rate: float
    completed_slot_rate: float
    repeated_ids: int = 0
    rejected_reasons: Mapping[str, int] | None = _optional()
    build_latency: Sequence[float] | None = None
    document_limit: int = MAX_DOCUMENT
    workers_limited: Sequence[int] | None = _optional()
    keyed: Sequence[int] | None = _optional()


@dataclass(frozen=True, kw_only=True)
class CollapseStats(StageStats):
    """The statistics of grouping exact duplicates.

    Attributes:
        exact: Number of exact duplicates of another document.
        empty: Number of documents without any shingle.
        all_cut: Number of documents whose shingles were all removed by the frequency cut.
        single: Number of documents with one shingle, whose edited copies are never similar.
        fragile: Number of documents of which a copy with one changed word is below the threshold.
        without_source: Number of documents without a value of the column of the option `across`.
        without_block: Number of documents without a value of the column of the option `block_by`.
        unreadable_dates: Number of values that are not dates, for each column of dates of the keep
            policy.
        same: Number of further documents that are in the group of another one because of an equal
            value of a column, with the options `same` and `url`, or because of a decision.
        without_values: Columns of the options `same` and `url` in which no document has a value.
        decisions: Number of decided pairs by verdict, `same` and `different`, and of those whose
            documents are not both in the inputs, `absent`.
        unknown_ids: Some ids of decisions that the inputs do not have, each with the id of the
            inputs that a spreadsheet changed to it, or "".
        constant_fingerprints: Number of documents with each fingerprint of equal bits that several
            documents have.
    """

    exact: int
    empty: int
    all_cut: int = 0
    single: int = 0
    fragile: int = 0
    without_source: int | None = _optional()
    without_block: int | None = _optional()
    unreadable_dates: Mapping[str, int] | None = _optional()
    same: int | None = _optional()
    without_values: Sequence[str] | None = _optional()
    decisions: Mapping[str, int] | None = _optional()
    unknown_ids: Mapping[str, str] | None = _optional()
    constant_fingerprints: Mapping[str, int] | None = _optional()


class ClusteredBucket(NamedTuple):
    """A hot bucket, which was clustered internally."""

    band: int
    members: int
    first: int
    """The number of its first document in keep order."""


@dataclass(frozen=True, kw_only=True)
class CandidateStats(StageStats):
    """The statistics of finding candidate pairs.

    Attributes:
        candidates: Number of candidate pairs whose signatures were compared. A pair counts for each
            of several fields that find it.
        histogram: Number of candidate pairs by the number of agreeing slots, from 0 to k. Those of
            the first one of several fields are counted.
        bucket_sizes: Pairs of a bucket size and the number of buckets of this size, ascending.
        hot_buckets: Number of hot buckets.
        hot_members: Number of documents in hot buckets. A document counts once for each bucket.
        hottest: The largest hot buckets, each as band, members and first member.
        survivors: Number of candidate pairs that passed the prefilter.
        key_bytes: Size of the band keys, in bytes.
        hot_shingles: Number of shingle hashes that too many documents share to be looked up. Only
            recorded if pairs are found by containment.
        known: Number of scored pairs that were taken from the run that this one extends, instead of
            comparing all documents again.
    """

    candidates: int
    histogram: Sequence[int]
    bucket_sizes: Sequence[Sequence[int]]
    hot_buckets: int
    hot_members: int
    hottest: Sequence[Sequence[int]]
    survivors: int = 0
    key_bytes: int = 0
    hot_shingles: int | None = _optional()
    known: int | None = _optional()

    @classmethod
    def summarize(
        cls,
        *,
        histogram: np.ndarray,
        bucket_sizes: Mapping[int, int],
        hot: Sequence[ClusteredBucket],
        hot_buckets: int,
        hot_members: int,
        survivors: int,
        key_bytes: int,
        hot_shingles: int | None = None,
        further_candidates: int = 0,
    ) -> "CandidateStats":
        """Returns the statistics of a banding.

        Args:
            histogram: Candidate pairs by the number of agreeing slots, int64 (k + 1,).
            key_bytes: Size of the band keys, in bytes.
        """
        hottest = sorted(hot, key=lambda bucket: (-bucket.members, bucket.band, bucket.first))
        return cls(
            candidates=int(histogram.sum()) + further_candidates,
            histogram=histogram.tolist(),
            bucket_sizes=sorted([size, count] for size, count in bucket_sizes.items() if count),
            hot_buckets=hot_buckets,
            hot_members=hot_members,
            hottest=[list(bucket) for bucket in hottest[:HOTTEST_LISTED]],
            survivors=survivors,
            key_bytes=key_bytes,
            hot_shingles=hot_shingles,
        )

    def count_hot_pairs(self, complete_bucket_size: int) -> int:
        """Returns the number of pairs in hot buckets. A pair counts once for each bucket."""
        return sum(
            size * (size - 1) // 2 * buckets
            for size, buckets in self.bucket_sizes
            if size > complete_bucket_size
        )

    def share_of_hot_pairs(self, complete_bucket_size: int) -> float:
        """Returns the share of hot buckets in the pairs with a common bucket, in [0, 1]."""
        return self.count_hot_pairs(complete_bucket_size) / max(self.count_hot_pairs(1), 1)


@dataclass(frozen=True, kw_only=True)
class VerifyStats(StageStats):
    """The statistics of verifying candidate pairs.

    Attributes:
        brute_force: Whether all pairs were compared.
        threshold: Smallest similarity of a scored pair.
        compared: Number of candidate pairs that were compared.
        passed: Number of compared pairs that reach the threshold.
        hot_kept: Number of kept documents of hot buckets before each round of the hot-bucket loop.
        hot_incomplete: Number of buckets of the last round whose documents were not all compared
            with each other. Only recorded if there are hot buckets.
    """

    brute_force: bool
    threshold: float
    compared: int | None = _optional()
    passed: int | None = _optional()
    hot_kept: Sequence[int] | None = _optional()
    hot_incomplete: int | None = _optional()


@dataclass(frozen=True, kw_only=True)
class ClusterStats(StageStats):
    """The number of documents of each kind, and of kept and removed documents.

    `same` is recorded by runs with decisions or the options `same` and `url` only, and `further` by
    those with `keep_up_to`, and `blocked` by those with a blocklist. `same_shingles` is the number
    of near-duplicates with the shingles of the document that they repeat, if there are any.

    Attributes:
        contents: Number of documents without exact copies of others. Copies of texts that are so
            short that unique documents share them count, and all copies if values are masked. It is
            not recorded, as the next two numbers are not, if too few documents are removed to doubt
            the run.
        contents_removed: Number of these that are removed as duplicates of documents of the run or
            of a reference.
        between: Number of these that are about as similar to a document that is kept for another
            cluster as to the one of their own.
    """

    unique: int
    kept: int
    exact: int
    near: int
    empty: int
    vector: int
    documents: int
    documents_kept: int
    documents_removed: int
    same: int | None = _optional()
    further: int | None = _optional()
    blocked: int | None = _optional()
    contents: int | None = _optional()
    contents_removed: int | None = _optional()
    between: int | None = _optional()
    same_shingles: int | None = _optional()


@dataclass(frozen=True, kw_only=True)
class SecondMeasureStats(StageStats):
    """The statistics of the second measure.

    Attributes:
        documents: Number of kept documents that it compared.
        rejected: Number of kept documents without a valid vector.
        removed: Number of documents that it removed.
        moved: Number of documents whose kept document was removed and that joined another one.
        taken_back: Number of documents whose kept document was removed and that joined none.
        stages: Statistics of its own stages.
    """

    documents: int
    rejected: int
    removed: int
    moved: int
    taken_back: int
    stages: StageRecords


@dataclass(frozen=True, kw_only=True)
class ReferenceStats(StageStats):
    """The statistics of comparing the documents of a run with those of references.

    Attributes:
        references: Number of references.
        documents: Number of documents of the references.
        rejected: Number of rejected rows of the references.
        compared: Number of documents of the references whose signatures were compared.
        exact: Number of documents that are exact duplicates of one of a reference.
        near: Number of further documents that are near-duplicates of one of a reference.
        same: Number of further documents that have an equal value of a column.
        hot_buckets: Number of hot buckets with documents of both sides.
        hot_shingles: Number of shingles that too many documents have to be looked up, if documents
            were looked up by their shingles.
    """

    references: int = 0
    documents: int = 0
    rejected: int = 0
    compared: int = 0
    exact: int = 0
    near: int = 0
    same: int = 0
    hot_buckets: int = 0
    hot_shingles: int | None = _optional()

    @property
    def removed(self) -> int:
        """The number of documents that repeat a document of a reference."""
        return self.exact + self.near + self.same

    def add(self, other: "ReferenceStats") -> "ReferenceStats":
        """Returns the statistics of two comparisons of different references together."""
        sums = {
            item.name: getattr(self, item.name) + getattr(other, item.name)
            for item in fields(self)
            if item.name != "hot_shingles"
        }
        counts = [stats.hot_shingles for stats in (self, other) if stats.hot_shingles is not None]
        return ReferenceStats(**sums, hot_shingles=sum(counts) if counts else None)


@dataclass(frozen=True, kw_only=True)
class BlocklistStats(StageStats):
    """The statistics of comparing the documents of a run with a blocklist.

    Attributes:
        entries: Number of entries of the blocklist.
        blocked: Number of documents that are like an entry.
    """

    entries: int
    blocked: int


@dataclass(frozen=True, kw_only=True)
class ContainmentStats(StageStats):
    """The statistics of the search for contained documents.

    Attributes:
        candidates: Number of candidate pairs that were compared.
        pairs: Number of pairs that reach the threshold.
        hot_shingles: Number of hashes that were skipped because too many documents share them.
    """

    candidates: int
    pairs: int
    hot_shingles: int


@dataclass(frozen=True, kw_only=True)
class MissingPairsStats(StageStats):
    """An estimate of the pairs that a run did not find, because buckets have too many documents.

    A run that lists pairs misses those beyond the pair budget. A run that removes duplicates misses
    pairs of which both documents are kept.

    Attributes:
        truncated: Number of buckets that were not compared completely. For containment, the number
            of shingle hashes that are in too many documents.
        sampled: Number of pairs of these buckets that were compared for the estimate. For
            containment, and for a run that removes duplicates, the number of documents.
        pairs: Estimated number of pairs that are missing.
        low: Lower end of the 95 % interval of this number.
        high: Upper end of this interval.
        share: Estimated share of the missing pairs in all pairs, in [0, 1].
        share_low: Lower end of the 95 % interval of this share.
        share_high: Upper end of this interval.
    """

    truncated: int
    sampled: int
    pairs: int
    low: int
    high: int
    share: float
    share_low: float
    share_high: float

    @property
    def total(self) -> int:
        """The estimated number of all pairs, found and missing."""
        return round(self.pairs / self.share) if self.share else self.pairs

    @classmethod
    def from_estimate(
        cls, *, truncated: int, sampled: int, pairs: float, low: float, high: float, listed: int
    ) -> "MissingPairsStats":
        """Returns the estimate with its shares."""

        def share_of(missing: float) -> float:
            return round(missing / max(missing + listed, 1), 6)

        return cls(
            truncated=truncated,
            sampled=sampled,
            pairs=round(pairs),
            low=round(low),
            high=round(high),
            share=share_of(pairs),
            share_low=share_of(low),
            share_high=share_of(high),
        )


S = TypeVar("S", bound=StageStats)


@dataclass(frozen=True)
class RunStats:
    """The statistics of the stages that a run has finished. A stage that did not run is None."""

    sketch: SketchStats | None = None
    collapse: CollapseStats | None = None
    candidates: CandidateStats | None = None
    verify: VerifyStats | None = None
    cluster: ClusterStats | None = None
    second_measure: SecondMeasureStats | None = None
    containment: ContainmentStats | None = None
    missing_pairs: MissingPairsStats | None = None
    blocklist: BlocklistStats | None = None
    against: ReferenceStats | None = None

    @classmethod
    def from_stages(cls, stages: StageRecords) -> "RunStats":
        """Returns the statistics from the entry `stages` of run.json or of a manifest."""

        def read(stage: Stage, kind: type[S]) -> S | None:
            record = stages.get(stage)
            return None if record is None else kind.from_dict(record)

        return cls(
            sketch=read(Stage.SKETCH, SketchStats),
            collapse=read(Stage.COLLAPSE, CollapseStats),
            candidates=read(Stage.CANDIDATES, CandidateStats),
            verify=read(Stage.VERIFY, VerifyStats),
            cluster=read(Stage.CLUSTER, ClusterStats),
            second_measure=read(Stage.SECOND_MEASURE, SecondMeasureStats),
            containment=read(Stage.CONTAINMENT, ContainmentStats),
            missing_pairs=read(Stage.MISSING_PAIRS, MissingPairsStats),
            blocklist=read(Stage.BLOCKLIST, BlocklistStats),
            against=read(Stage.AGAINST, ReferenceStats),
        )


def latency_percentiles(batches: Sequence[tuple[float, int]]) -> list[float] | None:
    """Returns the median and the 99th percentile of the seconds to sketch a document.

    Examples:
        >>> latency_percentiles([(1.0, 10), (2.0, 10), (9.0, 1)])
        [0.2, 9.0]
    """
    latencies = sorted((seconds / count, count) for seconds, count in batches if count)
    if not latencies:
        return None
    reached = np.cumsum([count for _, count in latencies])
    places = [int(np.searchsorted(reached, share * reached[-1])) for share in (0.5, 0.99)]
    return [round(latencies[place][0], 9) for place in places]
