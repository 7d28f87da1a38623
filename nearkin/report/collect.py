"""From a finished local run to what its report shows."""

from collections.abc import Mapping
from typing import Any, Protocol

import numpy as np
import pyarrow as pa

from nearkin.corpus import Corpus, FileCorpus
from nearkin.corpus.inputs import skipped_sentences
from nearkin.engine.local.clustering import EXACT, NEAR, VECTOR, Clustering
from nearkin.engine.local.documents import Documents
from nearkin.engine.local.run import LocalRun
from nearkin.engine.options import RunOptions
from nearkin.evaluate.boilerplate import Boilerplate, TextSample, boilerplate
from nearkin.evaluate.labels import most_frequent
from nearkin.evaluate.overlap import Overlap, overlap
from nearkin.lsh.sign_bands import SignBanding
from nearkin.lsh.slot_bands import Banding
from nearkin.measures import Measure
from nearkin.packed_pairs import PAIRS_PER_BATCH
from nearkin.report.model import (
    BINS,
    EDGES,
    Borderline,
    Cluster,
    Counts,
    Example,
    Histogram,
    HotBucket,
    Parameters,
    ReasonCount,
    ReportData,
    SizeCount,
    SourceCount,
    StageSeconds,
)
from nearkin.report.whatif import NextToPart, next_to_part, what_if
from nearkin.shingle import text_buffers
from nearkin.shingle.readable import shingle_texts
from nearkin.sketch.minhash import slot_sources
from nearkin.sketch.resources import NO_RESOURCES, SpecResources
from nearkin.spec import Spec

EXCERPT, BORDERLINE = 4000, 600
CLUSTERS = 20
EXAMPLES = 3
HOT_BUCKETS = 20
MOST_SOURCES = 1000
"""Sources that are counted one by one; the others, which have the fewest documents, are counted together."""
NOTABLE_HOT_SHARE = 0.01
"""Share of the pairs with a common bucket that are in hot buckets, from which the run warns about its recall."""
INDEPENDENT_SIGNS = 0.8
"""Cosine below which the bits of SimHash signatures of texts agree less evenly than independent ones."""
CURVE_POINTS = 200


class Ran(Protocol):
    """A run of any engine, as far as a report speaks of what was asked and recorded."""

    @property
    def options(self) -> RunOptions:
        """The request."""

    @property
    def resources(self) -> SpecResources:
        """What the Spec names but does not hold."""

    @property
    def measure(self) -> Measure:
        """How documents were compared."""

    @property
    def banding(self) -> Banding:
        """Bands and rows."""

    @property
    def brute_force(self) -> bool:
        """Whether everything was compared."""

    def recorded(self, stage: str) -> dict[str, Any]:
        """The facts of a stage; none if it did not run."""


class Wanted:
    """The documents whose text the report quotes, collected while the corpus is read for another purpose anyway."""

    def __init__(self, run: LocalRun, result: Clustering, clusters: int = CLUSTERS) -> None:
        self.members = largest_clusters(result, clusters)
        self.hottest: list[list[int]] = run.recorded("candidates").get("hottest", [])[:HOT_BUCKETS]
        self.next_to_part = next_to_part(run)
        quoted = {x for kept, shown in self.members for x in (kept, *shown)} | {
            bucket[2] for bucket in self.hottest
        }
        quoted |= {x for pair in self.next_to_part for x in (pair.a, pair.b)}
        self.ordinals = np.array(sorted(quoted), np.int64)
        self.texts: dict[int, str] = {}
        self.vectors = run.options.spec.unit == "vector"
        lengths = np.asarray(run.documents().lengths)
        self.sample = TextSample(
            np.flatnonzero(np.asarray(result.kept)), float(lengths.mean()) if len(lengths) else 0.0
        )

    def observe(self, first: int, documents: pa.Array) -> None:
        """Takes the excerpts of wanted documents among a batch's."""
        if not self.vectors:
            self.sample.observe(first, documents)
        low, high = np.searchsorted(self.ordinals, [first, first + len(documents)])
        for ordinal in self.ordinals[low:high].tolist():
            value = documents[ordinal - first].as_py()
            self.texts[ordinal] = (
                value if isinstance(value, str) else " ".join(map(str, value[:EXCERPT]))
            )


def largest_clusters(result: Clustering, clusters: int = CLUSTERS) -> list[tuple[int, list[int]]]:
    """(kept, some removed members) of the largest clusters; near duplicates first, the least similar of them."""
    removed = np.flatnonzero(np.isin(result.kind, (EXACT, NEAR, VECTOR)))
    if not len(removed):
        return []
    leaders = np.asarray(result.leader[removed]).astype(np.int64)
    sizes = np.bincount(leaders)
    largest = np.argsort(-sizes, kind="stable")[:clusters]
    near_first = np.lexsort((removed, result.similarity[removed], result.kind[removed] == EXACT))
    out = []
    for kept in largest[sizes[largest] > 0].tolist():
        members = removed[near_first[leaders[near_first] == kept][:EXAMPLES]]
        out.append((kept, members.tolist()))
    return out


def collect(
    run: LocalRun,
    result: Clustering,
    wanted: Wanted,
    rejected: Mapping[str, int],
    title: str,
    peak: int,
) -> ReportData:
    """Everything the report shows of a run."""
    documents = run.documents()
    return ReportData(
        title=title,
        parameters=parameters(run),
        counts=counts(run, result.counts()),
        seconds=tuple(
            StageSeconds(name, facts["seconds"])
            for name, facts in run.work.manifest["stages"].items()
        ),
        peak_memory=peak,
        cluster_sizes=_cluster_sizes(result),
        verified=_verified(run),
        estimated=estimated(run),
        sources=_sources(documents, result, run.options.source),
        hot_buckets=tuple(hot_bucket(bucket, wanted.texts, run) for bucket in wanted.hottest),
        rejected=tuple(
            ReasonCount(reason, rows)
            for reason, rows in sorted(rejected.items(), key=lambda x: (-x[1], x[0]))
        ),
        clusters=_clusters(documents, result, wanted),
        warnings=(*warnings(run), *empty_column_warnings(run), *skipped_warnings(run.corpus)),
        boilerplate=_boilerplate(run, wanted),
        overlap=_overlap(run, run.options.source),
        leakage=_overlap(run, run.options.split),
        what_if=what_if(run),
        borderline=_borderline(documents, wanted),
    )


def _boilerplate(run: LocalRun, wanted: Wanted) -> Boilerplate | None:
    if wanted.vectors:
        return None
    source = run.options.source
    sources = None if source is None else run.documents().riding[source]
    return boilerplate(wanted.sample, run.options.spec, run.resources, sources)


def _overlap(run: LocalRun, column: str | None) -> Overlap | None:
    if column is None:
        return None
    return overlap(
        column, run.documents().riding[column], run.work.load("representative"), run.scored().pairs
    )


def _borderline(documents: Documents, wanted: Wanted) -> tuple[Borderline, ...]:
    ids = documents.ids

    def sides(pair: NextToPart) -> tuple[str, str, str, str]:
        a, b = pair.a, pair.b
        return (
            ids[a].as_py(),
            ids[b].as_py(),
            *(wanted.texts.get(x, "")[:BORDERLINE] for x in (a, b)),
        )

    return tuple(
        Borderline(pair.threshold, pair.similarity, *sides(pair)) for pair in wanted.next_to_part
    )


def parameters(run: Ran) -> Parameters:
    """What was asked for, and what followed from it."""
    settings, spec = run.options, run.options.spec
    bands, rows = (0, 0) if run.brute_force else (run.banding.bands, run.banding.rows)
    verify = "exact" if run.brute_force else settings.verify
    return Parameters(
        settings.threshold,
        settings.recall,
        bands,
        rows,
        spec.k,
        spec.scheme,
        spec.shingle,
        verify,
        settings.cluster,
        settings.keep,
        spec.measure,
        settings.distance,
        settings.second_measure,
        round(run.banding.expected_bucket, 3)
        if isinstance(run.banding, SignBanding) and not run.brute_force
        else None,
        ()
        if run.brute_force or settings.distance is not None
        else s_curve(run.measure, run.banding),
    )


def s_curve(measure: Measure, banding: Banding) -> tuple[float, ...]:
    """P(candidate) at CURVE_POINTS + 1 similarities from 0 to 1."""
    collisions = measure.estimator.slot_collision_probability(np.linspace(0, 1, CURVE_POINTS + 1))
    return tuple(
        round(banding.candidate_probability(float(collision)), 6) for collision in collisions
    )


def counts(run: Ran, counts: Mapping[str, int]) -> Counts:
    """What became of the documents, from what `Clustering.counts` says."""
    facts = run.recorded("sketch")
    return Counts(
        read=facts["documents"] + facts["rejected"],
        kept=counts["documents_kept"],
        removed_exact=counts["exact"],
        removed_near=counts["near"],
        empty=counts["empty"],
        rejected=facts["rejected"],
        repeated_ids=facts.get("repeated_ids", 0),
        clusters=counts["kept"],
        removed_vector=counts["vector"],
    )


def _cluster_sizes(result: Clustering) -> tuple[SizeCount, ...]:
    removed = np.isin(result.kind, (EXACT, NEAR, VECTOR))
    members = np.bincount(np.asarray(result.leader)[removed].astype(np.int64))
    sizes, clusters = np.unique(members[members > 0] + 1, return_counts=True)
    return tuple(SizeCount(*pair) for pair in zip(sizes.tolist(), clusters.tolist(), strict=True))


def _verified(run: LocalRun) -> Histogram:
    scored, total = run.scored(), Histogram()
    for start in range(0, len(scored.pairs), PAIRS_PER_BATCH):
        total += Histogram.of(scored.select(slice(start, start + PAIRS_PER_BATCH)).similarity)
    return total


def estimated(run: Ran) -> Histogram:
    """Candidates by estimated similarity."""
    agreements = run.recorded("candidates").get("histogram")
    if agreements is None:
        return Histogram()
    counts = np.array(agreements)
    slots = np.arange(len(counts))
    shares = run.measure.estimator.estimate(np.zeros(len(slots), np.uint64), slots).similarity
    bins = np.clip(np.searchsorted(EDGES, shares, side="right") - 1, 0, BINS - 1)
    return Histogram(tuple(np.bincount(bins, counts, BINS).astype(int).tolist()))


def _sources(
    documents: Documents, result: Clustering, column: str | None
) -> tuple[SourceCount, ...]:
    if column is None:
        return ()
    labels = most_frequent(documents.riding[column], MOST_SOURCES)
    read = np.bincount(labels.codes, minlength=len(labels.names)).tolist()
    removed = np.bincount(
        labels.codes[~np.asarray(result.kept)], minlength=len(labels.names)
    ).tolist()
    return tuple(SourceCount(*row) for row in sorted(zip(labels.names, read, removed, strict=True)))


def _clusters(documents: Documents, result: Clustering, wanted: Wanted) -> tuple[Cluster, ...]:
    sizes = (
        np.bincount(np.asarray(result.leader).astype(np.int64))
        if len(result.leader)
        else np.zeros(0, np.int64)
    )
    ids = documents.ids

    def example(member: int) -> Example:
        return Example(
            ids[member].as_py(),
            float(result.similarity[member]),
            wanted.texts.get(member, "")[:EXCERPT],
        )

    return tuple(
        Cluster(
            ids[kept].as_py(),
            wanted.texts.get(kept, "")[:EXCERPT],
            int(sizes[kept]),
            tuple(map(example, members)),
        )
        for kept, members in wanted.members
    )


def hot_bucket(bucket: list[int], texts: Mapping[int, str], run: Ran) -> HotBucket:
    """Of (band, members, first member) and the text of the first member."""
    band, members, first = bucket
    if run.options.spec.measure not in ("jaccard", "weighted-jaccard"):
        return HotBucket(band, members, ())
    rows = run.banding.rows
    slots = np.arange(band * rows, (band + 1) * rows)
    return HotBucket(
        band,
        members,
        shingles_of_slots(texts.get(first, ""), slots, run.options.spec, run.resources),
    )


def shingles_of_slots(
    text: str, slots: np.ndarray, spec: Spec, resources: SpecResources = NO_RESOURCES
) -> tuple[str, ...]:
    """The shingles, as text, whose hashes are the minima of these slots: what a bucket's members have in common."""
    windows = list(dict.fromkeys(shingle_texts(text[: 4 * EXCERPT], spec)))
    if not windows:
        return ()
    data, offsets = text_buffers(pa.array(windows, pa.large_string()))
    shingles = resources.shingler(spec).texts(data, offsets)
    alone = np.flatnonzero(np.diff(shingles.offsets) == 1)
    hashes = shingles.hashes[shingles.offsets[alone]]
    if not len(hashes):
        return ()
    found = slot_sources(hashes, slots, spec)
    return tuple(dict.fromkeys(windows[alone[i]] for i in found.tolist()))


def warnings(run: Ran) -> list[str]:
    """What the reader of a report should know, in sentences."""
    out = []
    facts, settings = run.recorded("sketch"), run.options
    if (then := run.recorded("then")) and then["rejected"]:
        out.append(
            f"{then['rejected']:,} kept documents have no vector to compare by {settings.second_measure}; they stay"
        )
    if all_cut := run.recorded("collapse").get("all_cut"):
        out.append(
            f"{all_cut:,} documents are nothing but shingles that the cut leaves out; only their exact copies go"
        )
    if repeated := facts.get("repeated_ids"):
        out.append(
            f"{repeated:,} rows share an id with another; #<path>:<row> was appended to each of them"
        )
    if not run.brute_force and settings.verify != "exact":
        out.append(
            f"similarities are estimates (verify={settings.verify}); use --verify exact for verified ones"
        )
    if not run.brute_force and run.banding.recall < settings.recall:
        out.append(
            f"bands × rows = {run.banding.bands} × {run.banding.rows} reach recall {run.banding.recall:.3f} at "
            f"the threshold, less than the asked {settings.recall}; leave them out to have them solved"
        )
    hot = run.recorded("candidates").get("hot_buckets", 0)
    if settings.distance is not None and hot:
        out.append(
            f"{hot:,} buckets held more than {settings.hot_bucket_size} documents and were clustered inside themselves, so pairs "
            f"within distance {settings.distance} may be missing; raise --max-bucket for every one of them"
        )
    out += recall_warnings(run)
    if limited := facts.get("workers_limited"):
        asked, used = limited
        out.append(
            f"{used} of the asked {asked} workers ran, as many as --memory ({settings.memory:,} bytes) leaves room for; raise "
            "it to use more"
        )
    return out


def empty_column_warnings(run: LocalRun) -> list[str]:
    """Returns a sentence for each column that rides along in which no document has a value."""
    columns = run.documents().riding
    return [
        f"no document has a value in column {name!r}, which the request names; is its name correct?"
        for name in run.columns.extra
        if len(columns) and columns[name].null_count == len(columns)
    ]


def recall_warnings(run: Ran) -> list[str]:
    """Returns a sentence for each reason for which fewer pairs are found than the asked recall says."""
    out: list[str] = []
    settings = run.options
    if settings.distance is not None or run.brute_force:
        return out
    if (share := hot_share(run)) >= NOTABLE_HOT_SHARE:
        hot = run.recorded("candidates")["hot_buckets"]
        out.append(
            f"{hot:,} buckets held more than {settings.hot_bucket_size} documents, which were compared with at most "
            f"{settings.fanout} leaders each: {share:.0%} of the pairs that share a bucket. The recall at the threshold "
            f"{settings.threshold:g} is lower than the asked {settings.recall:g}; measure it with "
            "nearkin audit, or raise --max-bucket or the threshold"
        )
    if settings.spec.measure == "simhash" and settings.threshold < INDEPENDENT_SIGNS:
        out.append(
            f"at cosine {settings.threshold:g} the bits of SimHash signatures are not independent, so the recall is lower than "
            f"the asked {settings.recall:g} (0.68 was found on revised texts at 0.6); measure it with nearkin audit"
        )
    return out


def hot_share(run: Ran) -> float:
    """Returns the part of the pairs sharing a bucket that are in hot buckets, in [0, 1]."""
    pairs = [
        (size, size * (size - 1) // 2 * buckets)
        for size, buckets in run.recorded("candidates").get("bucket_sizes", ())
    ]
    hot = sum(count for size, count in pairs if size > run.options.hot_bucket_size)
    return hot / max(sum(count for _, count in pairs), 1)


def skipped_warnings(corpus: Corpus) -> list[str]:
    """Returns a sentence for each reason for which something among the inputs was not read."""
    return skipped_sentences(corpus.skipped) if isinstance(corpus, FileCorpus) else []


def statistics(data: ReportData) -> dict[str, Any]:
    """The counts as run.json and `DedupResult.statistics` have them."""
    counts = data.counts
    return {
        "read": counts.read,
        "kept": counts.kept,
        "removed": counts.removed,
        "rejected": counts.rejected,
        "removed_exact": counts.removed_exact,
        "removed_near": counts.removed_near,
        "removed_vector": counts.removed_vector,
        "empty": counts.empty,
        "clusters": counts.clusters,
        "repeated_ids": counts.repeated_ids,
    }
