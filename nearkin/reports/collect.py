"""Collects the data of a report from a finished run."""

from collections.abc import Iterable, Mapping
from pathlib import Path

import numpy as np
import pyarrow as pa

from nearkin.engine.clustering import Clustering
from nearkin.engine.options import RunOptions
from nearkin.engine.removal_limit import doubt_removals
from nearkin.engine.result_schema import FURTHER, NEAR
from nearkin.engine.run import Run
from nearkin.engine.stats import ReferenceStats, Stage
from nearkin.quality.evaluate.boilerplate import Boilerplate, find_boilerplate
from nearkin.quality.evaluate.doubtful_removals import DoubtfulRemovals, find_doubtful_removals
from nearkin.quality.evaluate.labels import most_frequent_labels
from nearkin.quality.evaluate.overlap import Overlap, compute_overlap
from nearkin.quality.evaluate.template_families import find_template_families
from nearkin.reports.excerpts import (
    EXCERPT_CHARACTERS,
    ExcerptCollector,
    QuotedCluster,
    cut_excerpt,
    hottest_buckets,
)
from nearkin.reports.model import (
    BORDERLINE_CHARACTERS,
    LOSSY_CHARACTERS,
    BetterCopies,
    BorderlinePair,
    ClosestCall,
    ClusterExcerpt,
    Counts,
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
)
from nearkin.reports.run_warnings import warn_of_run
from nearkin.reports.similarity_bins import Histogram
from nearkin.reports.whatif import evaluate_thresholds
from nearkin.runtime.arrow_portions import iterate_portions
from nearkin.settings.spec import Spec
from nearkin.stages.cluster.dates import read_dates
from nearkin.stages.lsh.sign_bands import SignBanding
from nearkin.stages.lsh.slot_bands import Banding
from nearkin.stages.measures import Measure
from nearkin.stages.packed_pairs import PAIRS_PER_BATCH
from nearkin.stages.shingle import text_buffers
from nearkin.stages.shingle.readable import shingle_texts
from nearkin.stages.sketch.minhash import slot_sources
from nearkin.stages.sketch.resources import NO_RESOURCES, SpecResources
from nearkin.stages.sketch.sketcher import scheme_for

CURVE_POINTS = 200
"""The number of intervals between the points of the S-curve."""
NO_DATE = np.iinfo(np.int64).min
"""The date of a document without one, which is older than all others."""
MAX_SOURCES = 1000
"""The largest number of sources that are counted separately. The others, which have the fewest
documents, are counted together."""


def collect_report(
    run: Run,
    result: Clustering,
    excerpts: ExcerptCollector,
    rejected: Mapping[str, int],
    title: str,
    provenance: Provenance,
) -> ReportData:
    """Collects the data that a report shows of a run, without its peak memory."""
    ids = run.documents().ids
    texts = excerpts.texts
    reasons = sorted(rejected.items(), key=lambda entry: (-entry[1], entry[0]))
    stages = run.stages.items()
    is_text = excerpts.has_texts
    doubtful = None
    if is_text:
        doubtful = find_doubtful_removals(
            excerpts.removals,
            result,
            run.options.spec,
            ids,
            has_sources=run.options.across is not None,
        )
    return ReportData(
        title=title,
        parameters=collect_parameters(run),
        counts=collect_counts(run, result.counts()),
        seconds=tuple(StageSeconds(name, record["seconds"]) for name, record in stages),
        compile_seconds=sum(record.get("compile_seconds", 0.0) for _, record in stages),
        cluster_sizes=_count_cluster_sizes(result),
        verified=_verified_histogram(run),
        estimated=estimated_histogram(run),
        sources=_count_sources(run, result),
        hot_buckets=tuple(
            _describe_hot_bucket(run, band, members, texts.get(first, ""))
            for band, members, first in hottest_buckets(run)
        ),
        rejected=tuple(ReasonCount(reason, rows) for reason, rows in reasons),
        clusters=_quote_clusters(excerpts.clusters, ids, texts),
        sampled_clusters=_quote_clusters(excerpts.sampled, ids, texts),
        lost=_describe_lost(excerpts, ids),
        better_copies=_count_better_copies(run, result),
        closest_call=_find_closest_call(result, ids),
        provenance=provenance,
        warnings=_list_warnings(run, doubtful),
        boilerplate=_find_boilerplate(run, excerpts) if is_text else None,
        templates=find_template_families(
            excerpts.examined.documents, np.asarray(result.leader)[excerpts.examined.ordinals]
        )
        if is_text
        else None,
        doubtful=doubtful,
        chosen="" if run.chosen is None or run.chosen.is_default else run.chosen.describe(),
        overlap=_overlap_by(run, run.options.source),
        leakage=_overlap_by(run, run.options.split),
        what_if=evaluate_thresholds(run),
        borderline=_quote_borderline_pairs(excerpts, ids),
    )


def _list_warnings(run: Run, doubtful: DoubtfulRemovals | None) -> tuple[str, ...]:
    doubt = doubt_removals(run.stats, run.options.removal_limits)
    warnings = [] if doubt is None else [f"{doubt.reason}. {doubt.advise()}"]
    if doubtful is not None and (warning := doubtful.warn()):
        warnings.append(warning)
    columns = run.documents().carried
    warnings += [
        f"no document has a value in column {name!r}, which the settings refer to; check its name"
        for name in run.columns.carried_columns
        if len(columns) and columns[name].null_count == len(columns)
    ]
    return (*warnings, *warn_of_run(run))


def _count_cluster_sizes(result: Clustering) -> tuple[SizeCount, ...]:
    joined = result.removed_in_run | (np.asarray(result.kind) == FURTHER)
    members = np.bincount(np.asarray(result.leader)[joined].astype(np.int64))
    sizes, clusters = np.unique(members[members > 0] + 1, return_counts=True)
    return tuple(map(SizeCount, sizes.tolist(), clusters.tolist()))


def _verified_histogram(run: Run) -> Histogram:
    scored = run.scored()
    threshold = _threshold_of_bins(run.options)
    total = Histogram.from_similarities(np.empty(0), threshold)
    for start in range(0, len(scored.pairs), PAIRS_PER_BATCH):
        batch = scored.select(slice(start, start + PAIRS_PER_BATCH))
        total += Histogram.from_similarities(batch.similarity, threshold)
    return total


def _count_sources(run: Run, result: Clustering) -> tuple[SourceCount, ...]:
    """Returns the numbers of rows by source, or nothing without a source column."""
    column = run.options.source
    if column is None:
        return ()
    labels = most_frequent_labels(run.documents().carried[column], MAX_SOURCES)
    size = len(labels.names)
    removed = labels.codes[~np.asarray(result.kept)]
    rows = np.bincount(labels.codes, minlength=size).tolist()
    removed_rows = np.bincount(removed, minlength=size).tolist()
    return tuple(sorted(map(SourceCount, labels.names, rows, removed_rows)))


def _find_closest_call(result: Clustering, ids: pa.ChunkedArray) -> ClosestCall | None:
    """Returns the removed near-duplicate that is least similar to its kept document."""
    is_near = np.asarray(result.kind) == NEAR
    near = np.flatnonzero(is_near & result.removed_in_run)
    if not len(near):
        return None
    removed = int(near[np.argmin(np.asarray(result.similarity)[near])])
    kept = int(result.leader[removed])
    return ClosestCall(ids[kept].as_py(), ids[removed].as_py(), float(result.similarity[removed]))


def _find_boilerplate(run: Run, excerpts: ExcerptCollector) -> Boilerplate:
    source = run.options.source
    sources = None if source is None else run.documents().carried[source]
    return find_boilerplate(excerpts.sample, run.options.spec, run.resources, sources)


def _overlap_by(run: Run, column: str | None) -> Overlap | None:
    """Returns the duplicates between the values of a column, or None without a column."""
    if column is None:
        return None
    values = run.documents().carried[column]
    return compute_overlap(column, values, run.work.load("representative"), run.scored().pairs)


def _count_better_copies(run: Run, result: Clustering) -> tuple[BetterCopies, ...]:
    """Returns how often a removed document is better than the kept one by other measures.

    These are its length, its number of shingles and, if the keep policy has dates, its date.
    """
    if not run.options.spec.has_shingles:
        return ()
    documents = run.documents()
    removed = np.flatnonzero(result.removed_in_run)
    leader = np.asarray(result.leader)[removed]
    total = len(np.unique(leader))
    measures = {
        "longer": np.asarray(documents.lengths),
        "with more shingles": np.asarray(documents.shingles),
    }
    for name in run.options.keep_policy.date_columns:
        portions = [read_dates(part) for part in iterate_portions(documents.carried[name])]
        dates = pa.chunked_array(portions, pa.int64()).fill_null(NO_DATE)
        measures[f"newer by {name}"] = dates.to_numpy()
    return tuple(
        BetterCopies(measure, len(np.unique(leader[values[removed] > values[leader]])), total)
        for measure, values in measures.items()
    )


def _quote_borderline_pairs(
    excerpts: ExcerptCollector, ids: pa.ChunkedArray
) -> tuple[BorderlinePair, ...]:
    texts = excerpts.texts
    return tuple(
        BorderlinePair(
            threshold=pair.threshold,
            similarity=pair.similarity,
            id_a=ids[pair.a].as_py(),
            id_b=ids[pair.b].as_py(),
            text_a=texts.get(pair.a, "")[:BORDERLINE_CHARACTERS],
            text_b=texts.get(pair.b, "")[:BORDERLINE_CHARACTERS],
        )
        for pair in excerpts.borderline
    )


def _describe_lost(excerpts: ExcerptCollector, ids: pa.ChunkedArray) -> LostReport | None:
    """Returns the information that a run lost, with excerpts of the documents that lost most."""
    lost = excerpts.lost
    if lost is None:
        return None
    examples = []
    for entry in lost.worst:
        if entry.kept is None:
            kept = str(entry.reference_id)
            text_kept = excerpts.reference_texts.get(entry.removed, "")
        else:
            kept = ids[entry.kept].as_py()
            text_kept = excerpts.texts.get(entry.kept, "")
        example = LossyExample(
            kept=kept,
            removed=ids[entry.removed].as_py(),
            lost=entry.lost,
            text_kept=cut_excerpt(text_kept, LOSSY_CHARACTERS),
            text_removed=cut_excerpt(excerpts.texts.get(entry.removed, ""), LOSSY_CHARACTERS),
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


def _quote_clusters(
    clusters: Iterable[QuotedCluster], ids: pa.ChunkedArray, texts: Mapping[int, str]
) -> tuple[ClusterExcerpt, ...]:
    return tuple(
        ClusterExcerpt(
            id=ids[cluster.kept].as_py(),
            text=cut_excerpt(texts.get(cluster.kept, "")),
            members=cluster.size,
            examples=tuple(
                RemovedExample(
                    id=ids[member.ordinal].as_py(),
                    similarity=member.similarity,
                    text=cut_excerpt(texts.get(member.ordinal, "")),
                )
                for member in cluster.removed
            ),
        )
        for cluster in clusters
    )


def collect_parameters(run: Run) -> Parameters:
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


def collect_counts(run: Run, clusters: Mapping[str, int]) -> Counts:
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


def estimated_histogram(run: Run) -> Histogram:
    """Returns the histogram of the candidate pairs by estimated similarity."""
    counts = np.array(run.recorded("candidates").get("histogram", []), np.int64)
    slots = np.arange(len(counts))
    estimates = run.measure.estimator.estimate(np.zeros(len(slots), np.uint64), slots).similarity
    return Histogram.from_similarities(
        np.clip(estimates, 0, 1), _threshold_of_bins(run.options), counts
    )


def _threshold_of_bins(options: RunOptions) -> float | None:
    """Returns the threshold of a run, or None if a condition decides about its pairs."""
    return options.threshold if options.condition is None else None


def _describe_hot_bucket(run: Run, band: int, members: int, text: str) -> QuotedBucket:
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


SUMMARY_COUNTS = (
    "read",
    "kept",
    "removed",
    "rejected",
    "removed_exact",
    "removed_near",
    "same_shingles",
    "removed_vector",
    "removed_same",
    "empty",
    "clusters",
    "repeated_ids",
    "removed_reference",
    "removed_reference_same",
    "removed_blocked",
    "related",
    "related_pairs",
)
"""The counts of a summary, in order. Those that a run does not have are left out."""


def summary_counts(counts: Counts) -> dict[str, int]:
    """Returns counts as run.json and `DedupResult.statistics` contain them."""
    values = {name: getattr(counts, name) for name in SUMMARY_COUNTS}
    return {name: value for name, value in values.items() if value is not None}
