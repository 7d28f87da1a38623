"""The second measure, over the documents that the first one keeps: for example texts, then vectors.

The second measure can remove a document for which the first one removed others. These are compared
with the document that is kept instead. Those that are not similar to it are taken back, and a kept
document is elected among them. So a document is removed only for a kept one whose verified
similarity to it reaches the threshold of one of the measures.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from nearkin.corpus import Batch, Columns, Corpus, detect_dimensions
from nearkin.corpus.places import places_of
from nearkin.engine.clustering import Clustering, ExactGroupOrder
from nearkin.engine.documents import Documents
from nearkin.engine.leader_similarity import find_leader_similarities
from nearkin.engine.related_documents import with_related_documents
from nearkin.engine.result_schema import EMPTY, EXACT, KEPT, NEAR, SAME, UNIQUE, VECTOR
from nearkin.engine.result_tables import pair_batches
from nearkin.engine.run import Run
from nearkin.engine.stats import SecondMeasureStats
from nearkin.engine.work_folder import WorkFolder, map_file
from nearkin.runtime.outputs import MANIFEST
from nearkin.settings.choices import ClusterMethod
from nearkin.settings.spec import Spec
from nearkin.stages.cluster.election import elect_leaders
from nearkin.stages.measures.base import StoredPayloads
from nearkin.stages.packed_pairs import isin_sorted, pack_pairs, unpack_pairs
from nearkin.stages.sketch.hyperplanes import matrix_of
from nearkin.stages.sketch.resources import SpecResources


class Subset:
    """A part of a corpus, whose documents are numbered on their own.

    Args:
        places: Places of the documents, sorted, uint64 (n,).
    """

    def __init__(self, corpus: Corpus, places: np.ndarray) -> None:
        self._corpus = corpus
        self._places = places

    @property
    def names(self) -> Sequence[str]:
        """The names of the inputs."""
        return self._corpus.names

    def check(self, columns: Columns) -> None:
        """Checks that the columns exist."""
        self._corpus.check(columns)

    def list_columns(self, columns: Columns) -> set[str]:
        """Returns the columns of lists, with paths."""
        return self._corpus.list_columns(columns)

    def batches(
        self, columns: Columns, start: tuple[int, int] = (0, 0), first: int = 0
    ) -> Iterator[Batch]:
        """Yields the documents at the places, as `Corpus.batches` does."""
        yield from self._corpus.batches_at(columns, self._places, start, first)

    def batches_at(
        self, columns: Columns, places: np.ndarray, start: tuple[int, int] = (0, 0), first: int = 0
    ) -> Iterator[Batch]:
        """Yields the documents of this part at some places, as `Corpus.batches_at` does.

        Args:
            places: The places, ascending, uint64 (n,).
        """
        places = places[isin_sorted(places, self._places)]
        yield from self._corpus.batches_at(columns, places, start, first)


class SecondRun(NamedTuple):
    """The run of the second measure."""

    run: Run
    ordinals: np.ndarray
    """The number of each of its documents in the first run, int64 (n,)."""


FINAL_PREFIX = "then-"
"""The beginning of the names of the arrays with the clusters after both measures."""


def to_final_clusters(run: Run) -> Clustering:
    """Runs all stages of a run, and those of its second measure if it has one."""
    second = run.options.parsed_second_measure
    if second is not None:
        run.corpus.check(vector_columns(run.columns, second.column))
    run.to_clusters()
    if second is None:
        return with_related_documents(run, run.clustering())
    if run.work.done("then") is None:
        with run.work.stage("then") as record:
            applied = apply_second_measure(run, run.clustering())
            applied.clustering.save(run.work, FINAL_PREFIX)
            record.update(applied.stats.to_dict())
    return with_related_documents(run, Clustering.load(run.work, FINAL_PREFIX))


def second_run(run: Run) -> Run:
    """Returns the run of the second measure, after it has finished."""
    return _run_second(run, run.clustering()).run


def second_pair_batches(run: Run) -> Iterator[pa.RecordBatch]:
    """Yields the pairs table of the second measure."""
    return pair_batches(second_run(run))


class AppliedSecondMeasure(NamedTuple):
    """The outcome of the second measure."""

    clustering: Clustering
    """The clusters after both measures."""
    stats: SecondMeasureStats


def apply_second_measure(run: Run, first: Clustering) -> AppliedSecondMeasure:
    """Applies the second measure."""
    second = _run_second(run, first)
    clustering = second.run.clustering()
    is_removed = ~np.asarray(clustering.kept)
    removed = second.ordinals[is_removed]
    leaders_of_removed = second.ordinals[np.asarray(clustering.leader)[is_removed]]
    final = Clustering(
        leader=np.array(first.leader),
        similarity=np.array(first.similarity),
        kind=np.array(first.kind),
        kept=np.array(first.kept),
    )
    _remove(final, removed, leaders_of_removed, np.asarray(clustering.similarity)[is_removed])
    leader_of = dict(zip(removed.tolist(), leaders_of_removed.tolist(), strict=True))
    moved, orphans = _move_members(run, second, final, first, leader_of)
    _elect_again(run, final, orphans)
    _name_kinds(final)
    sketched = second.run.sketch_stats
    stats = SecondMeasureStats(
        documents=sketched.documents,
        rejected=sketched.rejected,
        removed=len(removed),
        moved=moved,
        taken_back=len(orphans),
        stages={name: dict(record) for name, record in second.run.stages.items()},
    )
    return AppliedSecondMeasure(final, stats)


def _remove(
    final: Clustering, removed: np.ndarray, leader: np.ndarray, similarity: np.ndarray
) -> None:
    """Records documents as removed by the second measure."""
    final.leader[removed] = leader
    final.similarity[removed] = similarity
    final.kept[removed] = False
    final.kind[removed] = VECTOR


def _run_second(run: Run, first: Clustering) -> SecondRun:
    """Runs the second measure over the documents that the first one kept."""
    second_measure = run.options.parsed_second_measure
    assert second_measure is not None
    documents = run.documents()
    survivors = np.flatnonzero(np.asarray(first.kept) & (np.asarray(first.kind) != EMPTY))
    places = places_of(documents.files, documents.rows)
    corpus = Subset(run.corpus, places[survivors])
    columns = detect_dimensions(corpus, vector_columns(run.columns, second_measure.column))
    spec = Spec(measure="cosine", unit="vector", n=columns.dimensions or 1)
    secret = run.resources.secret
    if secret is not None:
        spec = spec.keyed_with(secret)
    # These options do not apply to the second measure.
    options = replace(
        run.options,
        spec=spec,
        threshold=second_measure.threshold,
        second_measure=None,
        distance=None,
        bands=None,
        rows=None,
        tables=1,
        probes=0,
        cluster=ClusterMethod.LEADERS,
        related=None,
        same=None,
        url=None,
    )
    folder = run.work.path / "then"
    if (folder / MANIFEST).exists():
        work = WorkFolder.resume(folder)
    else:
        work = WorkFolder.create(folder, {}, durable=run.work.durable)
    rank = np.asarray(run.work.load("rank"))

    def ordinals_of(kept: Documents) -> np.ndarray:
        return np.searchsorted(places, places_of(kept.files, kept.rows))

    def order_of(kept: Documents) -> np.ndarray:
        return np.argsort(rank[ordinals_of(kept)], kind="stable").astype(np.uint32)

    second = Run(
        corpus, columns, options, work, run.progress, SpecResources(secret), order_of=order_of
    )
    second.to_clusters()
    return SecondRun(second, ordinals_of(second.documents()))


def vector_columns(columns: Columns, column: str) -> Columns:
    """Returns the columns that the second measure reads."""
    return replace(
        columns,
        text=None,
        joined=(),
        tokens=None,
        fingerprint=None,
        vector=column,
        dimensions=None,
    )


def _move_members(
    run: Run,
    second: SecondRun,
    final: Clustering,
    first: Clustering,
    leader_of: dict[int, int],
) -> tuple[int, np.ndarray]:
    """Joins members of removed documents to the document that is kept instead.

    A duplicate by value goes where the document goes whose value it has.
    """
    leader = np.asarray(first.leader)
    kind = np.asarray(first.kind)
    is_removed = np.zeros(len(leader), bool)
    is_removed[list(leader_of)] = True
    members = np.flatnonzero(is_removed[leader] & np.isin(kind, (EXACT, NEAR, SAME)))
    if not len(members):
        return 0, members
    targets = np.array([leader_of[removed] for removed in leader[members].tolist()], np.int64)
    similarity = _compare_vectors(run, second, members, targets)
    is_near = similarity >= second.run.options.threshold
    is_near &= run.pair_scope.allows(members, targets)
    is_same = kind[members] == SAME
    if is_same.any():
        representative = np.asarray(run.work.load("representative"))[members[is_same]]
        place = np.minimum(np.searchsorted(members, representative), len(members) - 1)
        is_near[is_same] = is_removed[representative] | is_near[place]
    _remove(final, members[is_near], targets[is_near], similarity[is_near])
    following = members[is_near & is_same]
    final.kind[following] = SAME
    final.similarity[following] = np.nan
    return int(is_near.sum()), members[~is_near]


def _compare_vectors(
    run: Run, second: SecondRun, members: np.ndarray, targets: np.ndarray
) -> np.ndarray:
    """Returns the cosines of pairs of documents, float64 (n,). It is -1 if one has no vector.

    Args:
        members: First document of each pair, int64 (n,).
        targets: Second document of each pair, int64 (n,).
    """
    documents = run.documents()
    columns = second.run.columns
    places = places_of(documents.files, documents.rows)
    needed = np.unique(np.concatenate([members, targets]))
    path = run.work.path / "then-vectors"
    read = [np.empty(0, np.int64)]
    with path.open("wb") as file:
        for batch in Subset(run.corpus, places[needed]).batches(columns):
            file.write(matrix_of(batch.documents["vector"]).data)
            read.append(np.searchsorted(places, places_of(batch.files, batch.rows)))
    with_vectors = np.concatenate(read)
    row_of = np.full(len(documents), -1, np.int64)
    row_of[with_vectors] = np.arange(len(with_vectors))
    is_known = (row_of[members] >= 0) & (row_of[targets] >= 0)
    stored = StoredPayloads(
        row_of.astype(np.uint32),
        np.arange(len(with_vectors) + 1),
        (map_file(path, np.float32, columns.dimensions),),
    )
    pairs = pack_pairs(members[is_known], targets[is_known])
    similarity = np.full(len(members), -1.0)
    similarity[is_known] = second.run.measure.compare(pairs, stored).similarity
    path.unlink()
    return similarity


def _elect_again(run: Run, final: Clustering, orphans: np.ndarray) -> None:
    """Elects leaders among documents that were taken back, by the pairs of the first measure."""
    if not len(orphans):
        return
    grouped = ExactGroupOrder.load(run.documents(), run.work)
    is_orphan = np.zeros(len(final.leader), bool)
    is_orphan[orphans] = True
    scored = run.scored()
    first, second = unpack_pairs(np.asarray(scored.pairs))
    scored = scored.select(np.flatnonzero(is_orphan[first] & is_orphan[second]))
    leader = elect_leaders(scored, np.asarray(grouped.order), np.asarray(grouped.rank))
    similarity = find_leader_similarities(scored, leader)
    representative = _first_exact_duplicates(
        np.asarray(grouped.representative), np.asarray(grouped.rank), orphans
    )
    elected = leader[representative]
    kind_if_removed = grouped.name_kinds(orphans, elected)
    final.leader[orphans] = elected
    final.similarity[orphans] = similarity[representative]
    final.kept[orphans] = elected == orphans
    final.kind[orphans] = np.where(elected == orphans, UNIQUE, kind_if_removed)
    final.similarity[orphans[final.kind[orphans] == SAME]] = np.nan


def _first_exact_duplicates(
    representative: np.ndarray, rank: np.ndarray, orphans: np.ndarray
) -> np.ndarray:
    """Returns the first document in keep order of each orphan's exact group among the orphans."""
    groups = representative[orphans]
    order = np.lexsort((rank[orphans], groups))
    ordered = groups[order]
    starts = np.concatenate([[True], ordered[1:] != ordered[:-1]])
    start_of = np.maximum.accumulate(np.where(starts, np.arange(len(orphans)), 0))
    representatives = np.empty(len(orphans), np.int64)
    representatives[order] = orphans[order][start_of]
    return representatives


def _name_kinds(final: Clustering) -> None:
    """Sets the kind of kept documents: `kept` if others were removed for them, or `unique`."""
    own = np.arange(len(final.leader), dtype=np.uint32)
    has_members = np.zeros(len(own), bool)
    has_members[final.leader[final.leader != own]] = True
    is_kept = np.asarray(final.kept) & ((final.kind == UNIQUE) | (final.kind == KEPT))
    final.kind[is_kept] = np.where(has_members[is_kept], KEPT, UNIQUE)
