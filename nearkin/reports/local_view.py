"""The report's view of a run."""

from collections.abc import Iterable, Mapping, Sequence, Set
from typing import Any

import numpy as np
import pyarrow as pa

from nearkin.corpus.text_forms import format_content
from nearkin.engine.clustering import Clustering, are_removed
from nearkin.engine.result_schema import EXACT, FURTHER, NEAR, SAME
from nearkin.engine.run import Run
from nearkin.errors import NearkinError
from nearkin.quality.evaluate.boilerplate import Boilerplate, TextSample, find_boilerplate
from nearkin.quality.evaluate.information_lost import LostInformation, measure_lost_information
from nearkin.quality.evaluate.labels import most_frequent_labels
from nearkin.quality.evaluate.overlap import Overlap, compute_overlap
from nearkin.quality.evaluate.template_families import (
    TemplateFamilies,
    draw_documents,
    find_template_families,
)
from nearkin.reports.collect import (
    EXAMPLES_PER_CLUSTER,
    EXCERPT_CHARACTERS,
    QUOTED_CLUSTERS,
    SAMPLE_SEED,
    SAMPLED_CLUSTERS,
    ClosestPair,
    QuotedCluster,
    RemovedMember,
    RunView,
    hottest_buckets,
)
from nearkin.reports.model import (
    BORDERLINE_CHARACTERS,
    BetterCopies,
    BorderlinePair,
    Histogram,
    SizeCount,
    SourceCount,
    ThresholdStep,
)
from nearkin.reports.run_warnings import warn_of_inputs
from nearkin.reports.whatif import borderline_pairs, evaluate_thresholds
from nearkin.runtime.arrow_portions import iterate_portions
from nearkin.stages.cluster.dates import read_dates
from nearkin.stages.packed_pairs import PAIRS_PER_BATCH

NO_DATE = np.iinfo(np.int64).min
"""The date of a document without one, which is older than all others."""
MAX_SOURCES = 1000
"""The largest number of sources that are counted separately. The others, which have the fewest
documents, are counted together."""


class ExcerptCollector:
    """Collects excerpts of the documents that a report quotes, while the corpus is read once.

    The caller passes every batch of the corpus to `observe`, in any order.
    """

    def __init__(self, run: Run, result: Clustering, clusters: int = QUOTED_CLUSTERS) -> None:
        """Decides which documents are quoted."""
        self.clusters = largest_clusters(result, clusters)
        self.sampled = sample_clusters(result, {cluster.kept for cluster in self.clusters})
        self.borderline = borderline_pairs(run)
        clusters_to_quote = (*self.clusters, *self.sampled)
        quoted = {ordinal for cluster in clusters_to_quote for ordinal in cluster.ordinals}
        quoted |= {first for _, _, first in hottest_buckets(run)}
        self.lost = measure_lost_information(run, result)
        if self.lost is not None:
            quoted |= {entry.removed for entry in self.lost.worst}
            quoted |= {entry.kept for entry in self.lost.worst if entry.kept is not None}
        self.reference_texts = self._read_reference_texts(run, result)
        quoted |= {ordinal for pair in self.borderline for ordinal in (pair.a, pair.b)}
        self.texts: dict[int, str] = {}
        self.has_texts = run.options.spec.has_shingles and not run.options.fields
        self._ordinals = np.array(sorted(quoted), np.int64)
        lengths = np.asarray(run.documents().lengths)
        self.sample = TextSample(
            np.flatnonzero(np.asarray(result.kept)), float(lengths.mean()) if len(lengths) else 0.0
        )
        self.examined = draw_documents(lengths)

    def _read_reference_texts(self, run: Run, result: Clustering) -> dict[int, str]:
        """Returns excerpts of documents of a reference by the numbers of those that they removed.

        They are those of the removed documents that lost most.
        """
        lossy = [] if self.lost is None else self.lost.worst
        removed = sorted(entry.removed for entry in lossy if entry.reference_id is not None)
        if not removed or result.matches is None or run.matcher is None:
            return {}
        matches = result.matches.select(np.searchsorted(result.matches.documents, removed))
        try:
            contents = run.matcher.read_contents(run, matches)
        except NearkinError:
            # The run is complete. A reference that has changed since it was compared is not quoted.
            return {}
        return {
            document: format_content(value, EXCERPT_CHARACTERS)
            for document, value in contents.items()
        }

    @property
    def ordinals(self) -> np.ndarray:
        """The numbers of the documents that must be observed, ascending, int64 (n,)."""
        if not self.has_texts:
            return self._ordinals
        sampled = np.union1d(self.sample.ordinals, self.examined.ordinals)
        return np.union1d(self._ordinals, sampled)

    def observe(self, first: int, documents: pa.Array) -> None:
        """Takes the excerpts of the quoted documents of a batch."""
        if self.has_texts:
            self.sample.observe(first, documents)
            self.examined.observe(first, documents)
        low, high = np.searchsorted(self._ordinals, [first, first + len(documents)])
        for ordinal in self._ordinals[low:high].tolist():
            self.texts[ordinal] = format_content(
                documents[ordinal - first].as_py(), EXCERPT_CHARACTERS
            )


class LocalRunView(RunView):
    """The view of a run."""

    def __init__(
        self,
        run: Run,
        result: Clustering,
        excerpts: ExcerptCollector,
        rejected: Mapping[str, int],
    ) -> None:
        """Creates a view."""
        super().__init__(run)
        self._local = run
        self._result = result
        self._excerpts = excerpts
        self._rejected = rejected

    def input_warnings(self) -> list[str]:
        """Returns warnings about the input files. There are none about a table."""
        return warn_of_inputs(self._local.corpus, self._local.columns)

    def stage_statistics(self) -> Mapping[str, Mapping[str, Any]]:
        """Returns the statistics of all stages by name, in the order of execution."""
        return self._local.stages

    def cluster_counts(self) -> Mapping[str, int]:
        """Returns the numbers of documents by kind, and the number `documents_kept`."""
        return self._result.counts()

    def cluster_sizes(self) -> tuple[SizeCount, ...]:
        """Returns the number of clusters of each size above 1, in ascending order of the sizes."""
        joined = self._result.removed_in_run | (np.asarray(self._result.kind) == FURTHER)
        members = np.bincount(np.asarray(self._result.leader)[joined].astype(np.int64))
        sizes, clusters = np.unique(members[members > 0] + 1, return_counts=True)
        return tuple(map(SizeCount, sizes.tolist(), clusters.tolist()))

    def verified_histogram(self) -> Histogram:
        """Returns the histogram of the similarities of all scored pairs."""
        scored = self._local.scored()
        total = Histogram()
        for start in range(0, len(scored.pairs), PAIRS_PER_BATCH):
            batch = scored.select(slice(start, start + PAIRS_PER_BATCH))
            total += Histogram.from_similarities(batch.similarity)
        return total

    def source_counts(self) -> tuple[SourceCount, ...]:
        """Returns the numbers of rows by source, or nothing without a source column."""
        column = self._local.options.source
        if column is None:
            return ()
        labels = most_frequent_labels(self._local.documents().carried[column], MAX_SOURCES)
        size = len(labels.names)
        removed = labels.codes[~np.asarray(self._result.kept)]
        rows = np.bincount(labels.codes, minlength=size).tolist()
        removed_rows = np.bincount(removed, minlength=size).tolist()
        return tuple(sorted(map(SourceCount, labels.names, rows, removed_rows)))

    def rejected_reasons(self) -> Mapping[str, int]:
        """Returns the number of rejected rows for each reason."""
        return self._rejected

    def quoted_clusters(self) -> Sequence[QuotedCluster]:
        """Returns the clusters to quote, the largest first."""
        return self._excerpts.clusters

    def sampled_clusters(self) -> Sequence[QuotedCluster]:
        """Returns clusters that are drawn at random from those that are not quoted otherwise."""
        return self._excerpts.sampled

    def closest_call(self) -> ClosestPair | None:
        """Returns the removed near-duplicate that is least similar to its kept document."""
        is_near = np.asarray(self._result.kind) == NEAR
        near = np.flatnonzero(is_near & self._result.removed_in_run)
        if not len(near):
            return None
        removed = int(near[np.argmin(np.asarray(self._result.similarity)[near])])
        similarity = float(self._result.similarity[removed])
        return ClosestPair(int(self._result.leader[removed]), removed, similarity)

    def lost_information(self) -> LostInformation | None:
        """Returns the information that the run lost, or None if it was not measured."""
        return self._excerpts.lost

    def ids_of(self, ordinals: Iterable[int]) -> Mapping[int, str]:
        """Returns the ids of some documents by their numbers in the corpus."""
        ids = self._local.documents().ids
        return {ordinal: ids[ordinal].as_py() for ordinal in ordinals}

    def texts_of(self, ordinals: Iterable[int]) -> Mapping[int, str]:
        """Returns the collected excerpts. Documents may be missing."""
        return self._excerpts.texts

    def reference_texts_of(self, removed: Iterable[int]) -> Mapping[int, str]:
        """Returns the excerpts of documents of a reference. Documents may be missing."""
        return self._excerpts.reference_texts

    def empty_columns(self) -> Sequence[str]:
        """Returns the carried columns in which no document has a value."""
        columns = self._local.documents().carried
        if not len(columns):
            return ()
        return [
            name
            for name in self._local.columns.carried_columns
            if columns[name].null_count == len(columns)
        ]

    def boilerplate(self) -> Boilerplate | None:
        """Returns the phrases that many kept documents share, or None for vectors."""
        if not self._excerpts.has_texts:
            return None
        options = self._local.options
        sources = None
        if options.source is not None:
            sources = self._local.documents().carried[options.source]
        return find_boilerplate(self._excerpts.sample, options.spec, self._local.resources, sources)

    def template_families(self) -> TemplateFamilies | None:
        """Returns the documents that are equal but for values such as dates, or None."""
        if not self._excerpts.has_texts:
            return None
        examined = self._excerpts.examined
        leader = np.asarray(self._result.leader)
        return find_template_families(examined.documents, leader[examined.ordinals])

    def overlap_by(self, column: str | None) -> Overlap | None:
        """Returns the duplicates between the values of a column, or None without a column."""
        if column is None:
            return None
        return compute_overlap(
            column,
            self._local.documents().carried[column],
            self._local.work.load("representative"),
            self._local.scored().pairs,
        )

    def better_copies(self) -> tuple[BetterCopies, ...]:
        """Returns how often a removed document is better than the kept one by other measures.

        These are its length, its number of shingles and, if the keep policy has dates, its date.
        """
        if not self._local.options.spec.has_shingles:
            return ()
        documents = self._local.documents()
        removed = np.flatnonzero(self._result.removed_in_run)
        leader = np.asarray(self._result.leader)[removed]
        total = len(np.unique(leader))
        measures = {
            "longer": np.asarray(documents.lengths),
            "with more shingles": np.asarray(documents.shingles),
        }
        for name in self._local.options.keep_policy.date_columns:
            portions = [read_dates(part) for part in iterate_portions(documents.carried[name])]
            dates = pa.chunked_array(portions, pa.int64()).fill_null(NO_DATE)
            measures[f"newer by {name}"] = dates.to_numpy()
        return tuple(
            BetterCopies(measure, len(np.unique(leader[values[removed] > values[leader]])), total)
            for measure, values in measures.items()
        )

    def threshold_steps(self) -> tuple[ThresholdStep, ...]:
        """Returns the results at higher thresholds."""
        return evaluate_thresholds(self._local)

    def borderline_pairs(self) -> tuple[BorderlinePair, ...]:
        """Returns the pairs just above these thresholds."""
        ids = self._local.documents().ids
        texts = self._excerpts.texts
        return tuple(
            BorderlinePair(
                threshold=pair.threshold,
                similarity=pair.similarity,
                id_a=ids[pair.a].as_py(),
                id_b=ids[pair.b].as_py(),
                text_a=texts.get(pair.a, "")[:BORDERLINE_CHARACTERS],
                text_b=texts.get(pair.b, "")[:BORDERLINE_CHARACTERS],
            )
            for pair in self._excerpts.borderline
        )


def largest_clusters(result: Clustering, clusters: int = QUOTED_CLUSTERS) -> list[QuotedCluster]:
    """Returns the largest clusters with some of their removed documents."""
    removed = np.flatnonzero(result.removed_in_run)
    if not len(removed):
        return []
    leaders = np.asarray(result.leader[removed]).astype(np.int64)
    removed_counts = np.bincount(leaders)
    largest = np.argsort(-removed_counts, kind="stable")[:clusters]
    return _quote(result, largest[removed_counts[largest] > 0])


def sample_clusters(
    result: Clustering, excluded: Set[int], clusters: int = SAMPLED_CLUSTERS
) -> list[QuotedCluster]:
    """Returns clusters that are drawn at random, with some of their removed documents.

    The same run has the same sample.
    """
    removed = result.removed_in_run
    kept = np.unique(np.asarray(result.leader)[removed].astype(np.int64))
    further_leaders = np.setdiff1d(kept, np.array(sorted(excluded), np.int64))
    generator = np.random.default_rng(SAMPLE_SEED)
    return _quote(result, generator.permutation(further_leaders)[:clusters])


def _quote(result: Clustering, chosen: np.ndarray) -> list[QuotedCluster]:
    """Returns the clusters of chosen kept documents with some of their removed ones."""
    leader = np.asarray(result.leader)
    kind = np.asarray(result.kind)
    members = np.flatnonzero(np.isin(leader, chosen))
    removed = members[are_removed(kind[members])]
    leaders = leader[removed].astype(np.int64)
    is_exact = kind[removed] == EXACT
    order = np.lexsort((removed, result.similarity[removed], is_exact))
    quoted = []
    for kept in chosen.tolist():
        size = int(np.count_nonzero(leader[members] == kept))
        shown = removed[order[leaders[order] == kept][:EXAMPLES_PER_CLUSTER]].tolist()
        examples = tuple(
            RemovedMember(
                member, None if kind[member] == SAME else float(result.similarity[member])
            )
            for member in shown
        )
        quoted.append(QuotedCluster(kept, size, examples))
    return quoted
