"""Documents that are contained in larger documents.

The smallest shingle hashes of each document are looked up among all shingles of the others. If a
share c of document A's shingles is in B, each of A's m smallest shingle hashes is in B with
probability c, however large B is. So the number of A's hits in B is binomial, and a margin at the
quantile of the recall decides which pairs are compared exactly. MinHash cannot be used here,
because the Jaccard similarity approaches 0 as B grows.
"""

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from nearkin.corpus import Batch
from nearkin.engine.local.run import LocalRun
from nearkin.engine.local.verification import Payloads
from nearkin.engine.local.work_folder import map_file
from nearkin.errors import UsageError
from nearkin.hashing.sorted_lookup import PrefixIndex
from nearkin.lsh.solve import MAX_PASS_RATE, largest_margin
from nearkin.measures.base import PayloadBuilder
from nearkin.packed_pairs import meets_threshold, pack_pairs, sorted_unique
from nearkin.runtime.threads import ObjectPool, ordered_map
from nearkin.spec import Spec
from nearkin.verify import kernels

SMALLEST = 64
"""Number of hashes of a document that are looked up (m)."""
BYTES_PER_HASH = 64
"""Anonymous memory of a hash while it is looked up, in bytes."""
FIELDS = {"a": np.int64, "b": np.int64, "shared": np.int64, "size": np.int64, "union": np.int64}


class Contained(NamedTuple):
    """The verified pairs, ordered by (a, b). Document a is contained in document b."""

    a: np.ndarray
    """The numbers of the contained documents, int64 (m,)."""
    b: np.ndarray
    """The numbers of the documents that contain them, int64 (m,). They are not smaller."""
    shared: np.ndarray
    """The sizes |A ∩ B|, int64 (m,)."""
    size: np.ndarray
    """The sizes |A|, int64 (m,)."""
    union: np.ndarray
    """The sizes |A ∪ B|, int64 (m,)."""

    @property
    def containment(self) -> np.ndarray:
        """The containments |A ∩ B| / |A|, float64 (m,)."""
        return np.asarray(self.shared / self.size)

    @property
    def jaccard(self) -> np.ndarray:
        """The Jaccard similarities |A ∩ B| / |A ∪ B|, float64 (m,)."""
        return np.asarray(self.shared / self.union)


def require_containable(spec: Spec) -> None:
    """Checks that a Spec describes sets of shingles.

    Raises:
        UsageError: If the Spec has another measure.
    """
    if spec.measure != "jaccard":
        raise UsageError(
            f"relation containment compares shingle sets: measure jaccard, not {spec.measure}"
        )


def find_contained(run: LocalRun) -> Contained:
    """Returns the contained documents of a run, and records them in its work folder.

    Only the first document of each exact group is compared.

    Args:
        run: Run, after the stage collapse.

    Raises:
        UsageError: If the Spec has another measure than jaccard.
    """
    require_containable(run.options.spec)
    folder = run.work.path / "contained"
    if run.work.done("containment") is None:
        with run.work.stage("containment") as facts:
            run.work.folder("contained")
            found, counted = _Search(run).run()
            for name, column in zip(Contained._fields, found, strict=True):
                column.astype(FIELDS[name]).tofile(folder / name)
            facts.update(counted)
    return Contained._make(map_file(folder / name, dtype) for name, dtype in FIELDS.items())


@dataclass
class _Search:
    run_: LocalRun

    def run(self) -> tuple[Contained, dict[str, Any]]:
        run = self.run_
        active = np.flatnonzero(run.active())
        sizes, smallest = self._smallest(active)
        room = max(1, run.options.memory // 3 // BYTES_PER_HASH // SMALLEST)
        hot, found = 0, [np.empty((2, 0), np.int64)]
        for start in range(0, len(active), room):
            searched = active[start : start + room]
            pairs, skipped = self._look_up(searched, smallest[start : start + room], sizes, active)
            hot += skipped
            found.append(pairs)
        candidates = np.concatenate(found, axis=1)
        verified = self._verify(candidates)
        return verified, {
            "candidates": candidates.shape[1],
            "pairs": len(verified.a),
            "hot_shingles": hot,
        }

    def _builders(self) -> "ObjectPool[PayloadBuilder]":
        return ObjectPool(self.run_.measure.payload_builder)

    def _smallest(self, active: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Returns the sizes and the smallest hashes of documents.

        Sizes are int64 (documents,). Hashes are uint64 (active, m), filled up with all ones.
        """
        run, builders = self.run_, self._builders()
        sizes = np.zeros(len(run.documents()), np.int64)
        smallest = np.full((len(active), SMALLEST), np.uint64(2**64 - 1))
        run.progress.stage("smallest hashes", len(sizes))

        def sets(batch: Batch) -> tuple[Batch, np.ndarray, np.ndarray]:
            payload = builders.use(lambda tool: tool.build(batch.documents[run.columns.content]))
            return batch, payload.sizes, payload.columns[0]

        for batch, counts, hashes in ordered_map(
            sets, run.corpus.batches(run.columns), run.options.workers
        ):
            sizes[batch.first : batch.first + len(counts)] = counts
            low, high = np.searchsorted(active, [batch.first, batch.first + len(counts)])
            starts = np.concatenate([[0], np.cumsum(counts)])
            kernels.smallest_hashes(
                hashes, starts, active[low:high] - batch.first, smallest[low:high]
            )
            run.progress.advance(len(counts))
        return sizes, smallest

    def _look_up(
        self, searched: np.ndarray, smallest: np.ndarray, sizes: np.ndarray, active: np.ndarray
    ) -> tuple[np.ndarray, int]:
        """Returns the candidate pairs of some documents with all, int64 (2, m).

        Also returns the number of hashes that are skipped because too many documents share them.
        """
        run, builders = self.run_, self._builders()
        used = np.minimum(sizes[searched], SMALLEST)
        rows = np.repeat(np.arange(len(searched)), used)
        hashes = smallest[np.arange(SMALLEST) < used[:, None]]
        order = np.argsort(hashes, kind="stable")
        keys = sorted_unique(hashes)
        prefixes = PrefixIndex.of(keys)
        firsts = np.append(np.searchsorted(hashes[order], keys), len(hashes)).astype(np.int64)
        posted = rows[order]
        crowded = np.diff(firsts) > run.options.hot_bucket_size
        lost = np.bincount(posted[np.repeat(crowded, np.diff(firsts))], minlength=len(searched))
        margins = self._margins(used - lost)
        blocks, inside = np.asarray(run.work.load("blocks")), np.zeros(len(sizes), bool)
        inside[active] = True
        run.progress.stage("look up", len(sizes))

        def hits(batch: Batch) -> tuple[np.ndarray, int]:
            payload = builders.use(lambda tool: tool.build(batch.documents[run.columns.content]))
            starts = np.concatenate([[0], np.cumsum(payload.sizes)])
            where = (
                batch.first,
                payload.columns[0],
                starts,
                inside,
                keys,
                *prefixes,
                firsts,
                posted,
                crowded,
            )
            found = kernels.contained_pairs(*where, searched, margins, sizes, blocks)
            return found, len(batch.rows)

        parts = [np.empty((2, 0), np.int64)]
        for found, count in ordered_map(hits, run.corpus.batches(run.columns), run.options.workers):
            parts.append(found)
            run.progress.advance(count)
        return np.concatenate(parts, axis=1), int(crowded.sum())

    def _margins(self, used: np.ndarray) -> np.ndarray:
        """Returns the number of hits that a candidate pair needs, int64.

        It cannot be reached by a document of which no hash is looked up.
        """
        options = self.run_.options
        table = [
            largest_margin(m, options.threshold, min(options.recall, MAX_PASS_RATE))
            for m in range(SMALLEST + 1)
        ]
        table[0] = SMALLEST + 1
        return np.maximum(np.array(table, np.int64)[used], 1)

    def _verify(self, candidates: np.ndarray) -> Contained:
        run = self.run_
        a, b = candidates
        wanted = sorted_unique(np.concatenate([a, b]))
        where = (
            run.corpus,
            run.columns,
            wanted,
            run.measure,
            run.options.workers,
            run.work,
            run.progress,
        )
        payloads = Payloads.build(*where)
        overlaps = payloads.compare(pack_pairs(a, b))
        place, starts = payloads.stored.place, payloads.stored.starts
        size = np.diff(starts)[place[a]] if len(a) else np.empty(0, np.int64)
        shared, union = overlaps.intersection.astype(np.int64), overlaps.union.astype(np.int64)
        enough = np.flatnonzero(meets_threshold(shared, size, run.options.threshold))
        order = enough[np.lexsort((b[enough], a[enough]))]
        return Contained._make(column[order] for column in (a, b, shared, size, union))
