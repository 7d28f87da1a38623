"""The documents that a report quotes, and their excerpts, which are collected from the corpus."""

from collections.abc import Set
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from nearkin.corpus.batches import read_content
from nearkin.corpus.places import places_of
from nearkin.corpus.text_forms import format_content
from nearkin.engine.clustering import Clustering, are_removed
from nearkin.engine.result_schema import EXACT, SAME
from nearkin.engine.run import Run
from nearkin.errors import NearkinError
from nearkin.quality.evaluate.boilerplate import TextSample
from nearkin.quality.evaluate.doubtful_removals import RemovalSample
from nearkin.quality.evaluate.information_lost import measure_lost_information
from nearkin.quality.evaluate.template_families import draw_documents
from nearkin.reports.whatif import borderline_pairs

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


class RemovedMember(NamedTuple):
    """A removed document of a cluster."""

    ordinal: int
    """The number of the document in the corpus."""
    similarity: float | None
    """The similarity to the kept document. None for a duplicate by value."""


class QuotedCluster(NamedTuple):
    """A cluster that a report quotes."""

    kept: int
    """The number of the kept document in the corpus."""
    size: int
    """The number of documents in the cluster, the kept one included."""
    removed: tuple[RemovedMember, ...]
    """Some removed documents: near-duplicates first, the least similar of them first."""

    @property
    def ordinals(self) -> tuple[int, ...]:
        """The numbers of the quoted documents in the corpus."""
        return (self.kept, *(member.ordinal for member in self.removed))


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
        self.removals = RemovalSample(result, lengths)

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
        samples = (self.sample, self.examined, self.removals.texts)
        return np.unique(np.concatenate([self._ordinals, *(sample.ordinals for sample in samples)]))

    def read(self, run: Run) -> None:
        """Reads the documents that must be observed from the corpus of a run."""
        documents = run.documents()
        ordinals = self.ordinals
        places = places_of(documents.files[ordinals], documents.rows[ordinals])
        done = 0
        for batch in read_content(run.corpus, run.columns, places):
            contents = batch.documents[run.columns.content]
            for row in range(len(contents)):
                self.observe(int(ordinals[done]), contents.slice(row, 1))
                done += 1

    def observe(self, first: int, documents: pa.Array) -> None:
        """Takes the excerpts of the quoted documents of a batch."""
        if self.has_texts:
            self.sample.observe(first, documents)
            self.examined.observe(first, documents)
            self.removals.texts.observe(first, documents)
        low, high = np.searchsorted(self._ordinals, [first, first + len(documents)])
        for ordinal in self._ordinals[low:high].tolist():
            self.texts[ordinal] = format_content(
                documents[ordinal - first].as_py(), EXCERPT_CHARACTERS
            )


def hottest_buckets(run: Run) -> list[list[int]]:
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
