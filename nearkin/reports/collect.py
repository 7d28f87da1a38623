"""Collects the data of a report from a finished run.

A `RunView` answers the questions that depend on where the engine keeps its rows:
`local_view.LocalRunView`.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from nearkin.engine.removal_limit import doubt_removals
from nearkin.engine.stats import ReferenceStats, Stage
from nearkin.quality.evaluate.boilerplate import Boilerplate
from nearkin.quality.evaluate.information_lost import LostInformation
from nearkin.quality.evaluate.overlap import Overlap
from nearkin.quality.evaluate.template_families import TemplateFamilies
from nearkin.reports.model import (
    BINS,
    EDGES,
    LOSSY_CHARACTERS,
    BetterCopies,
    BorderlinePair,
    ClosestCall,
    ClusterExcerpt,
    Counts,
    Histogram,
    LossyExample,
    LostReport,
    Parameters,
    Provenance,
    QuotedBucket,
    ReasonCount,
    RemovedExample,
    ReportData,
    SizeCount,
    SourceCount,
    StageSeconds,
    ThresholdStep,
)
from nearkin.reports.run_warnings import FinishedStages, warn_of_run
from nearkin.settings.spec import Spec
from nearkin.stages.lsh.sign_bands import SignBanding
from nearkin.stages.lsh.slot_bands import Banding
from nearkin.stages.measures import Measure
from nearkin.stages.shingle import text_buffers
from nearkin.stages.shingle.readable import shingle_texts
from nearkin.stages.sketch.minhash import slot_sources
from nearkin.stages.sketch.resources import NO_RESOURCES, SpecResources
from nearkin.stages.sketch.sketcher import scheme_for

EXCERPT_CHARACTERS = 4000
"""The largest number of characters that a report quotes of a document of a cluster."""
QUOTED_CLUSTERS = 20
"""The number of clusters that a report quotes by default."""
SAMPLED_CLUSTERS = 10
"""The number of further clusters that a report quotes, drawn at random."""
SAMPLE_SEED = 1
"""The seed of the sample, so that the same run has the same report."""
EXAMPLES_PER_CLUSTER = 3
"""The number of removed documents that a report quotes of a cluster."""
MAX_HOT_BUCKETS = 20
"""The largest number of hot buckets that a report lists."""
CURVE_POINTS = 200
"""The number of intervals between the points of the S-curve."""


@dataclass(frozen=True)
class RemovedMember:
    """A removed document of a cluster.

    Attributes:
        ordinal: Number of the document in the corpus.
        similarity: Similarity to the kept document. None for a duplicate by value.
    """

    ordinal: int
    similarity: float | None


@dataclass(frozen=True)
class QuotedCluster:
    """A cluster that a report quotes.

    Attributes:
        kept: Number of the kept document in the corpus.
        size: Number of documents in the cluster, the kept one included.
        removed: Some removed documents: near-duplicates first, the least similar of them first.
    """

    kept: int
    size: int
    removed: tuple[RemovedMember, ...]

    @property
    def ordinals(self) -> tuple[int, ...]:
        """The numbers of the quoted documents in the corpus."""
        return (self.kept, *(member.ordinal for member in self.removed))


class ClosestPair(NamedTuple):
    """A kept and a removed document by their numbers in the corpus, and their similarity."""

    kept: int
    removed: int
    similarity: float


class RunView(ABC):
    """A finished run as its report sees it, whichever engine executed it.

    Subclasses implement the abstract methods. The optional ones return nothing by default: an
    engine overrides them if it has all texts or all pairs in one place.
    """

    def __init__(self, run: FinishedStages) -> None:
        """Creates a view."""
        self.run = run

    @abstractmethod
    def input_warnings(self) -> list[str]:
        """Returns warnings about the input files. There are none about a table."""

    @abstractmethod
    def stage_statistics(self) -> Mapping[str, Mapping[str, Any]]:
        """Returns the statistics of all stages by name, in the order of execution."""

    @abstractmethod
    def cluster_counts(self) -> Mapping[str, int]:
        """Returns the numbers of documents by kind, and the number `documents_kept`."""

    @abstractmethod
    def cluster_sizes(self) -> tuple[SizeCount, ...]:
        """Returns the number of clusters of each size above 1, in ascending order of the sizes."""

    @abstractmethod
    def verified_histogram(self) -> Histogram:
        """Returns the histogram of the similarities of all scored pairs."""

    @abstractmethod
    def source_counts(self) -> tuple[SourceCount, ...]:
        """Returns the numbers of rows by source, or nothing without a source column."""

    @abstractmethod
    def rejected_reasons(self) -> Mapping[str, int]:
        """Returns the number of rejected rows for each reason."""

    @abstractmethod
    def quoted_clusters(self) -> Sequence[QuotedCluster]:
        """Returns the clusters to quote, the largest first."""

    @abstractmethod
    def sampled_clusters(self) -> Sequence[QuotedCluster]:
        """Returns clusters that are drawn at random from those that are not quoted otherwise."""

    @abstractmethod
    def closest_call(self) -> ClosestPair | None:
        """Returns the removed near-duplicate that is least similar to its kept document."""

    @abstractmethod
    def ids_of(self, ordinals: Iterable[int]) -> Mapping[int, str]:
        """Returns the ids of some documents by their numbers in the corpus."""

    @abstractmethod
    def texts_of(self, ordinals: Iterable[int]) -> Mapping[int, str]:
        """Returns excerpts of some documents by their numbers. Documents may be missing."""

    def reference_texts_of(self, removed: Iterable[int]) -> Mapping[int, str]:
        """Returns excerpts of documents of a reference by the numbers of those that they removed.

        Documents may be missing.
        """
        return {}

    def empty_columns(self) -> Sequence[str]:
        """Returns the carried columns in which no document has a value."""
        return ()

    def boilerplate(self) -> Boilerplate | None:
        """Returns the phrases that many kept documents share."""
        return None

    def template_families(self) -> TemplateFamilies | None:
        """Returns the documents that are equal but for values such as dates."""
        return None

    def overlap_by(self, column: str | None) -> Overlap | None:
        """Returns the duplicates between the values of a column."""
        return None

    def lost_information(self) -> LostInformation | None:
        """Returns the information that the run lost, or None if it was not measured."""
        return None

    def better_copies(self) -> tuple[BetterCopies, ...]:
        """Returns how often a removed document is better than the kept one by other measures."""
        return ()

    def threshold_steps(self) -> tuple[ThresholdStep, ...]:
        """Returns the results at higher thresholds."""
        return ()

    def borderline_pairs(self) -> tuple[BorderlinePair, ...]:
        """Returns the pairs just above these thresholds."""
        return ()


def collect_report(
    view: RunView, title: str, peak_memory: int, provenance: Provenance
) -> ReportData:
    """Collects the data that a report shows of a run. A peak memory of 0 is unknown."""
    run = view.run
    clusters = view.quoted_clusters()
    hottest = hottest_buckets(run)
    sampled = view.sampled_clusters()
    closest = view.closest_call()
    quoted = {ordinal for cluster in (*clusters, *sampled) for ordinal in cluster.ordinals}
    lost = view.lost_information()
    if lost is not None:
        quoted |= {entry.removed for entry in lost.worst}
        quoted |= {entry.kept for entry in lost.worst if entry.kept is not None}
    texts = view.texts_of(quoted | {first for _, _, first in hottest})
    ids = view.ids_of(quoted if closest is None else quoted | {closest.kept, closest.removed})
    reasons = sorted(view.rejected_reasons().items(), key=lambda entry: (-entry[1], entry[0]))
    doubt = doubt_removals(run.stats, run.options.removal_limits)
    warnings = [] if doubt is None else [f"{doubt.reason}. {doubt.advise()}"]
    warnings += warn_of_run(run)
    warnings += [
        f"no document has a value in column {name!r}, which the settings refer to; check its name"
        for name in view.empty_columns()
    ]
    warnings += view.input_warnings()
    return ReportData(
        title=title,
        parameters=collect_parameters(run),
        counts=collect_counts(run, view.cluster_counts()),
        seconds=tuple(
            StageSeconds(name, statistics["seconds"])
            for name, statistics in view.stage_statistics().items()
        ),
        compile_seconds=sum(
            statistics.get("compile_seconds", 0.0)
            for statistics in view.stage_statistics().values()
        ),
        peak_memory=peak_memory,
        cluster_sizes=view.cluster_sizes(),
        verified=view.verified_histogram(),
        estimated=estimated_histogram(run),
        sources=view.source_counts(),
        hot_buckets=tuple(
            _describe_hot_bucket(run, band, members, texts.get(first, ""))
            for band, members, first in hottest
        ),
        rejected=tuple(ReasonCount(reason, rows) for reason, rows in reasons),
        clusters=_quote_clusters(clusters, ids, texts),
        sampled_clusters=_quote_clusters(sampled, ids, texts),
        lost=None if lost is None else _describe_lost(view, lost, ids, texts),
        better_copies=view.better_copies(),
        closest_call=None
        if closest is None
        else ClosestCall(ids[closest.kept], ids[closest.removed], closest.similarity),
        provenance=provenance,
        warnings=tuple(warnings),
        boilerplate=view.boilerplate(),
        templates=view.template_families(),
        overlap=view.overlap_by(run.options.source),
        leakage=view.overlap_by(run.options.split),
        what_if=view.threshold_steps(),
        borderline=view.borderline_pairs(),
    )


def _describe_lost(
    view: RunView, lost: LostInformation, ids: Mapping[int, str], texts: Mapping[int, str]
) -> LostReport:
    """Returns the information that a run lost, with excerpts of the documents that lost most."""
    in_reference = [entry.removed for entry in lost.worst if entry.kept is None]
    reference_texts = view.reference_texts_of(in_reference)
    examples = []
    for entry in lost.worst:
        if entry.kept is None:
            kept = str(entry.reference_id)
            text_kept = reference_texts.get(entry.removed, "")
        else:
            kept = ids[entry.kept]
            text_kept = texts.get(entry.kept, "")
        example = LossyExample(
            kept=kept,
            removed=ids[entry.removed],
            lost=entry.lost,
            text_kept=cut_excerpt(text_kept, LOSSY_CHARACTERS),
            text_removed=cut_excerpt(texts.get(entry.removed, ""), LOSSY_CHARACTERS),
            in_reference=entry.kept is None,
        )
        examples.append(example)
    return LostReport(lost.total, lost.sources, lost.unmeasured, tuple(examples))


def title_of(inputs: Iterable[str]) -> str:
    """Returns the title of a report: its inputs, absolute paths without their folders.

    Examples:
        >>> title_of(["/home/ada/docs.csv", "crawl/*.jsonl"])
        'docs.csv, crawl/*.jsonl'
    """
    return ", ".join(Path(path).name if Path(path).is_absolute() else path for path in inputs)


def hottest_buckets(run: FinishedStages) -> list[list[int]]:
    """Returns the largest hot buckets, each as its band, its size and its first document."""
    hottest: list[list[int]] = run.recorded("candidates").get("hottest", [])
    return hottest[:MAX_HOT_BUCKETS]


def cut_excerpt(text: str, most: int = EXCERPT_CHARACTERS) -> str:
    """Returns the beginning of a text, which ends between two words if it has spaces.

    Half of a word would be shown as a difference from the whole word in the other document.

    Examples:
        >>> cut_excerpt("one two three", 9), cut_excerpt("one two", 7), cut_excerpt("onetwo", 4)
        ('one two', 'one two', 'onet')
    """
    if len(text) <= most:
        return text
    words = text[: most + 1].rsplit(maxsplit=1)
    if len(words) < 2:
        return text[:most]
    return text[:most].rstrip() if text[most].isspace() else words[0]


def _quote_clusters(
    clusters: Iterable[QuotedCluster], ids: Mapping[int, str], texts: Mapping[int, str]
) -> tuple[ClusterExcerpt, ...]:
    return tuple(
        ClusterExcerpt(
            id=ids[cluster.kept],
            text=cut_excerpt(texts.get(cluster.kept, "")),
            members=cluster.size,
            examples=tuple(
                RemovedExample(
                    id=ids[member.ordinal],
                    similarity=member.similarity,
                    text=cut_excerpt(texts.get(member.ordinal, "")),
                )
                for member in cluster.removed
            ),
        )
        for cluster in clusters
    )


def collect_parameters(run: FinishedStages) -> Parameters:
    """Returns the settings of a run and the values that were derived from them."""
    options = run.options
    spec = options.spec
    banding = None if run.brute_force else run.banding
    expected_bucket = None
    if isinstance(banding, SignBanding):
        expected_bucket = round(banding.expected_bucket, 3)
    curve: tuple[float, ...] = ()
    if banding is not None and options.distance is None:
        curve = compute_s_curve(run.measure, banding)
    return Parameters(
        threshold=options.threshold,
        recall=options.recall,
        bands=0 if banding is None else banding.bands,
        rows=0 if banding is None else banding.rows,
        k=spec.k,
        scheme=spec.scheme,
        shingle=spec.shingle,
        verify="exact" if run.brute_force else options.verify,
        cluster=options.cluster,
        keep=options.keep,
        measure=spec.measure,
        distance=options.distance,
        then=options.second_measure,
        expected_bucket=expected_bucket,
        curve=curve,
        accept=options.condition,
    )


def compute_s_curve(measure: Measure, banding: Banding) -> tuple[float, ...]:
    """Returns the candidate probabilities at `CURVE_POINTS` + 1 similarities from 0 to 1."""
    slot_probabilities = measure.estimator.slot_collision_probability(
        np.linspace(0, 1, CURVE_POINTS + 1)
    )
    return tuple(
        round(banding.candidate_probability(float(probability)), 6)
        for probability in slot_probabilities
    )


def collect_counts(run: FinishedStages, clusters: Mapping[str, int]) -> Counts:
    """Returns the numbers of documents by what became of them, from the records of the stages."""
    sketch = run.recorded("sketch")
    recorded = run.recorded(Stage.AGAINST)
    against = ReferenceStats.from_dict(recorded)
    has_decisions = "decisions" in run.recorded(Stage.COLLAPSE)
    has_mixed_groups = run.options.groups_by_value or has_decisions
    return Counts(
        read=sketch["documents"] + sketch["rejected"],
        kept=clusters["documents_kept"],
        removed_exact=clusters["exact"] - against.exact,
        removed_near=clusters["near"] - against.near,
        empty=clusters["empty"],
        rejected=sketch["rejected"],
        repeated_ids=sketch.get("repeated_ids", 0),
        clusters=clusters["kept"],
        removed_vector=clusters["vector"],
        removed_reference=against.removed if recorded else None,
        removed_reference_same=against.same if recorded and has_mixed_groups else None,
        removed_same=clusters["same"] - against.same if has_mixed_groups else None,
        removed_blocked=clusters["blocked"] if run.recorded(Stage.BLOCKLIST) else None,
        related=clusters["related"] if run.options.related is not None else None,
        related_pairs=clusters["related_pairs"] if run.options.related is not None else None,
        same_shingles=(clusters.get("same_shingles") or None)
        if run.options.compares_sets
        else None,
    )


def estimated_histogram(run: FinishedStages) -> Histogram:
    """Returns the histogram of the candidate pairs by estimated similarity."""
    agreements = run.recorded("candidates").get("histogram")
    if agreements is None:
        return Histogram()
    counts = np.array(agreements)
    slots = np.arange(len(counts))
    similarities = run.measure.estimator.estimate(np.zeros(len(slots), np.uint64), slots).similarity
    bins = np.clip(np.searchsorted(EDGES, similarities, side="right") - 1, 0, BINS - 1)
    return Histogram(tuple(np.bincount(bins, counts, BINS).astype(int).tolist()))


def _describe_hot_bucket(run: FinishedStages, band: int, members: int, text: str) -> QuotedBucket:
    """Returns a hot bucket with the shingles that its documents share."""
    spec = run.options.spec
    if not spec.has_slots:
        return QuotedBucket(band, members, ())
    rows = run.banding.rows
    slots = np.arange(band * rows, (band + 1) * rows)
    return QuotedBucket(band, members, shingles_of_slots(text, slots, spec, run.resources))


def shingles_of_slots(
    text: str, slots: np.ndarray, spec: Spec, resources: SpecResources = NO_RESOURCES
) -> tuple[str, ...]:
    """Returns the shingles of a text whose hashes are the minima of some slots, as text.

    The documents of a bucket share these shingles.
    """
    candidates = list(dict.fromkeys(shingle_texts(text[: 4 * EXCERPT_CHARACTERS], spec)))
    if not candidates:
        return ()
    data, offsets = text_buffers(pa.array(candidates, pa.large_string()))
    shingles = resources.shingler(spec).texts(data, offsets)
    single = np.flatnonzero(np.diff(shingles.offsets) == 1)
    hashes = shingles.hashes[shingles.offsets[single]]
    if not len(hashes):
        return ()
    sources = slot_sources(hashes, slots, scheme_for(spec, resources), spec.k)
    return tuple(dict.fromkeys(candidates[single[i]] for i in sources.tolist()))


def summary_counts(counts: Counts) -> dict[str, int]:
    """Returns counts as run.json and `DedupResult.statistics` contain them."""
    reference = {}
    if counts.removed_reference is not None:
        reference["removed_reference"] = counts.removed_reference
    if counts.removed_reference_same is not None:
        reference["removed_reference_same"] = counts.removed_reference_same
    same = {}
    if counts.removed_same is not None:
        same["removed_same"] = counts.removed_same
    blocked = {}
    if counts.removed_blocked is not None:
        blocked["removed_blocked"] = counts.removed_blocked
    related = {}
    if counts.related is not None and counts.related_pairs is not None:
        related = {"related": counts.related, "related_pairs": counts.related_pairs}
    same_shingles = {}
    if counts.same_shingles:
        same_shingles["same_shingles"] = counts.same_shingles
    return {
        "read": counts.read,
        "kept": counts.kept,
        "removed": counts.removed,
        "rejected": counts.rejected,
        "removed_exact": counts.removed_exact,
        "removed_near": counts.removed_near,
        **same_shingles,
        "removed_vector": counts.removed_vector,
        **same,
        "empty": counts.empty,
        "clusters": counts.clusters,
        "repeated_ids": counts.repeated_ids,
        **reference,
        **blocked,
        **related,
    }
