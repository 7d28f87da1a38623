"""The second measure, over the documents that the first one keeps: for example texts, then vectors.

The second measure can remove a document for which the first one removed others. These are compared
with the document that is kept instead. Those that are not similar to it are taken back, and a kept
document is elected among them. So a document is removed only for a kept one whose verified
similarity to it reaches the threshold of one of the measures.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from nearkin.cluster.election import leaders
from nearkin.corpus import Batch, Columns, Corpus, detect_dimensions
from nearkin.engine.leader_similarity import find_leader_similarities
from nearkin.engine.local.clustering import Clustering, ExactGroupOrder
from nearkin.engine.local.documents import Documents
from nearkin.engine.local.result_tables import pair_batches
from nearkin.engine.local.run import LocalRun
from nearkin.engine.local.work_folder import WorkFolder, map_file
from nearkin.engine.result_schema import EMPTY, EXACT, KEPT, NEAR, UNIQUE, VECTOR
from nearkin.measures.base import StoredPayloads
from nearkin.packed_pairs import pack_pairs, unpack_pairs
from nearkin.runtime.outputs import MANIFEST
from nearkin.sketch.hyperplanes import matrix_of
from nearkin.sketch.resources import SpecResources
from nearkin.spec import Spec

FILE_SHIFT = np.uint64(40)


def places_of(files: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """Returns a number for each place, file << 40 | row, in corpus order, uint64 (n,).

    Args:
        files: Numbers of the files, (n,).
        rows: Rows in the files, (n,).
    """
    return (np.asarray(files).astype(np.uint64) << FILE_SHIFT) | np.asarray(rows).astype(np.uint64)


class Subset:
    """A part of a corpus, whose documents are numbered on their own.

    Args:
        corpus: Whole corpus.
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
        """Checks that the columns exist.

        Raises:
            UsageError: If a column is missing.
        """
        self._corpus.check(columns)

    def batches(
        self, columns: Columns, start: tuple[int, int] = (0, 0), first: int = 0
    ) -> Iterator[Batch]:
        """Yields the documents at the places, as `Corpus.batches` does."""
        for batch in self._corpus.batches(columns, start):
            kept = self._among(places_of(batch.files, batch.rows))
            rejected = [entry for entry in batch.rejected if self._has(entry.file, entry.row)]
            documents = batch.documents.filter(pa.array(kept))
            yield Batch(
                first, batch.files[kept], batch.rows[kept], documents, tuple(rejected), batch.next
            )
            first += len(documents)

    def _among(self, places: np.ndarray) -> np.ndarray:
        at = np.minimum(np.searchsorted(self._places, places), max(len(self._places) - 1, 0))
        return (
            np.asarray(self._places[at] == places)
            if len(self._places)
            else np.zeros(len(places), bool)
        )

    def _has(self, file: int, row: int) -> bool:
        return row >= 0 and bool(self._among(places_of(np.array([file]), np.array([row])))[0])


class SecondRun(NamedTuple):
    """The run of the second measure."""

    run: LocalRun
    ordinals: np.ndarray
    """The number of each of its documents in the first run, int64 (n,)."""


FINAL_PREFIX = "then-"
"""The beginning of the names of the arrays with the clusters after both measures."""


def to_final_clusters(run: LocalRun) -> Clustering:
    """Runs all stages of a run, and those of its second measure if it has one.

    Args:
        run: Run.

    Returns:
        The clusters after both measures.
    """
    second = run.options.parsed_second_measure
    if second is not None:
        run.corpus.check(vector_columns(run.columns, second.column))
    run.to_clusters()
    if second is None:
        return run.clustering()
    if run.work.done("then") is None:
        with run.work.stage("then") as facts:
            final, counted = apply_second(run, run.clustering())
            final.save(run.work, FINAL_PREFIX)
            facts.update(counted)
    return Clustering.load(run.work, FINAL_PREFIX)


def second_run(run: LocalRun) -> LocalRun:
    """Returns the run of the second measure, after it has finished."""
    return _run_second(run, run.clustering()).run


def second_pair_batches(run: LocalRun) -> Iterator[pa.RecordBatch]:
    """Yields the pairs table of the second measure."""
    return pair_batches(second_run(run))


def apply_second(run: LocalRun, first: Clustering) -> tuple[Clustering, dict[str, Any]]:
    """Applies the second measure.

    Args:
        run: Run of the first measure.
        first: Its clusters.

    Returns:
        The clusters after both measures, and the statistics of the second one.
    """
    second = _run_second(run, first)
    found = second.run.clustering()
    removed = np.flatnonzero(~np.asarray(found.kept))
    losers, winners = second.ordinals[removed], second.ordinals[np.asarray(found.leader)[removed]]
    final = Clustering(
        leader=np.array(first.leader),
        similarity=np.array(first.similarity),
        kind=np.array(first.kind),
        kept=np.array(first.kept),
    )
    _remove(final, losers, winners, np.asarray(found.similarity)[removed])
    moved, orphans = _follow(
        run, second, final, first, dict(zip(losers.tolist(), winners.tolist(), strict=True))
    )
    _elect_again(run, final, orphans)
    _name_kinds(final)
    facts = {name: dict(stage) for name, stage in second.run.work.manifest["stages"].items()}
    sketch = facts["sketch"]
    return final, {
        "documents": sketch["documents"],
        "rejected": sketch["rejected"],
        "removed": len(losers),
        "moved": moved,
        "taken_back": len(orphans),
        "stages": facts,
    }


def _remove(
    final: Clustering, losers: np.ndarray, winners: np.ndarray, similarity: np.ndarray
) -> None:
    final.leader[losers], final.similarity[losers] = winners, similarity
    final.kept[losers], final.kind[losers] = False, VECTOR


def _run_second(run: LocalRun, first: Clustering) -> SecondRun:
    then = run.options.parsed_second_measure
    assert then is not None
    documents = run.documents()
    survivors = np.flatnonzero(np.asarray(first.kept) & (np.asarray(first.kind) != EMPTY))
    places = places_of(documents.files, documents.rows)
    corpus = Subset(run.corpus, places[survivors])
    columns = detect_dimensions(corpus, vector_columns(run.columns, then.column))
    spec = Spec(measure="cosine", unit="vector", n=columns.dimensions or 1)
    secret = run.resources.secret
    if secret is not None:
        spec = spec.keyed_with(secret)
    options = replace(run.options, **SECOND_MEASURE_OPTIONS, spec=spec, threshold=then.threshold)
    folder = run.work.path / "then"
    if (folder / MANIFEST).exists():
        work = WorkFolder.resume(folder, {})
    else:
        work = WorkFolder.create(folder, {}, durable=run.work.durable)
    rank = np.asarray(run.work.load("rank"))

    def order_of(own: Documents) -> np.ndarray:
        return np.argsort(
            rank[np.searchsorted(places, places_of(own.files, own.rows))], kind="stable"
        ).astype(np.uint32)

    second = LocalRun(
        corpus, columns, options, work, run.progress, SpecResources(secret), order_of=order_of
    )
    second.to_clusters()
    own = second.documents()
    return SecondRun(second, np.searchsorted(places, places_of(own.files, own.rows)))


SECOND_MEASURE_OPTIONS: dict[str, Any] = {
    "second_measure": None,
    "distance": None,
    "bands": None,
    "rows": None,
    "tables": 1,
    "probes": 0,
} | {"cluster": "leaders"}
"""Options that the second measure does not take from the first one."""


def vector_columns(columns: Columns, column: str) -> Columns:
    """Returns the columns that the second measure reads.

    Args:
        columns: Columns of the first measure.
        column: Column of vectors.
    """
    return replace(columns, text=None, tokens=None, vector=column, dimensions=None)


def _follow(
    run: LocalRun, second: SecondRun, final: Clustering, first: Clustering, winners: dict[int, int]
) -> tuple[int, np.ndarray]:
    """Joins members of removed documents to the document that is kept instead.

    Returns:
        The number of joined documents, and the numbers of those that are not similar to it.
    """
    leader, kind = np.asarray(first.leader), np.asarray(first.kind)
    lost = np.zeros(len(leader), bool)
    lost[list(winners)] = True
    members = np.flatnonzero(lost[leader] & ((kind == EXACT) | (kind == NEAR)))
    if not len(members):
        return 0, members
    targets = np.array([winners[b] for b in leader[members].tolist()], np.int64)
    scored = _cosines(run, second, members, targets)
    near = scored >= second.run.options.threshold
    _remove(final, members[near], targets[near], scored[near])
    return int(near.sum()), members[~near]


def _cosines(run: LocalRun, second: SecondRun, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Returns the cosine of pairs of documents, float64. It is -1 if one has no vector."""
    documents, columns = run.documents(), second.run.columns
    places = places_of(documents.files, documents.rows)
    wanted = np.unique(np.concatenate([a, b]))
    path, found = run.work.path / "then-vectors", [np.empty(0, np.int64)]
    with path.open("wb") as file:
        for batch in Subset(run.corpus, places[wanted]).batches(columns):
            file.write(matrix_of(batch.documents["vector"]).data)
            found.append(np.searchsorted(places, places_of(batch.files, batch.rows)))
    have = np.concatenate(found)
    at = np.full(len(documents), -1, np.int64)
    at[have] = np.arange(len(have))
    known = (at[a] >= 0) & (at[b] >= 0)
    stored = StoredPayloads(
        at.astype(np.uint32),
        np.arange(len(have) + 1),
        (map_file(path, np.float32, columns.dimensions),),
    )
    out = np.full(len(a), -1.0)
    out[known] = second.run.measure.compare(pack_pairs(a[known], b[known]), stored).similarity
    path.unlink()
    return out


def _elect_again(run: LocalRun, final: Clustering, orphans: np.ndarray) -> None:
    """Elects leaders among documents that were taken back, by the pairs of the first measure."""
    if not len(orphans):
        return
    grouped = ExactGroupOrder.load(run.documents(), run.work)
    back = np.zeros(len(final.leader), bool)
    back[orphans] = True
    scored = run.scored()
    first, second = unpack_pairs(np.asarray(scored.pairs))
    scored = scored.select(np.flatnonzero(back[first] & back[second]))
    leader = leaders(scored, np.asarray(grouped.order), np.asarray(grouped.rank))
    similarity = find_leader_similarities(scored, leader)
    representative = _representatives(
        np.asarray(grouped.representative), np.asarray(grouped.rank), orphans
    )
    chosen = leader[representative]
    final.leader[orphans], final.similarity[orphans] = chosen, similarity[representative]
    final.kept[orphans] = chosen == orphans
    final.kind[orphans] = np.where(
        chosen == orphans, UNIQUE, np.where(chosen == representative, EXACT, NEAR)
    )


def _representatives(
    representative: np.ndarray, rank: np.ndarray, orphans: np.ndarray
) -> np.ndarray:
    """Returns the first document in keep order of each orphan's exact group among the orphans."""
    groups = representative[orphans]
    order = np.lexsort((rank[orphans], groups))
    ordered = groups[order]
    starts = np.concatenate([[True], ordered[1:] != ordered[:-1]])
    first = orphans[order][np.maximum.accumulate(np.where(starts, np.arange(len(orphans)), 0))]
    out = np.empty(len(orphans), np.int64)
    out[order] = first
    return out


def _name_kinds(final: Clustering) -> None:
    """Sets the kind of kept documents: `kept` if others were removed for them, or `unique`."""
    own = np.arange(len(final.leader), dtype=np.uint32)
    has = np.zeros(len(own), bool)
    has[final.leader[final.leader != own]] = True
    kept = np.asarray(final.kept) & ((final.kind == UNIQUE) | (final.kind == KEPT))
    final.kind[kept] = np.where(has[kept], KEPT, UNIQUE)
