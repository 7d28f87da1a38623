"""Documents that are contained in larger documents.

The smallest shingle hashes of each document are looked up among all shingles of the others. If a
share c of document A's shingles is in B, each of A's m smallest shingle hashes is in B with
probability c, however large B is. So the number of A's hits in B is binomial, and a margin at the
quantile of the recall decides which pairs are compared exactly. MinHash cannot be used here,
because the Jaccard similarity approaches 0 as B grows.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from nearkin.corpus import Batch
from nearkin.engine.local.run import LocalRun
from nearkin.engine.local.verification import Payloads
from nearkin.engine.local.work_folder import map_file
from nearkin.engine.stats import ContainmentStats
from nearkin.errors import UsageError
from nearkin.hashing.sorted_lookup import PrefixIndex
from nearkin.lsh.solve import MAX_PASS_RATE, largest_margin
from nearkin.measures.base import Payload
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
        with run.work.stage("containment") as record:
            run.work.folder("contained")
            contained, stats = _ContainmentSearch(run).search()
            for name, column in zip(Contained._fields, contained, strict=True):
                column.astype(FIELDS[name]).tofile(folder / name)
            record.update(stats.to_dict())
    return Contained._make(map_file(folder / name, dtype) for name, dtype in FIELDS.items())


@dataclass(frozen=True)
class _ContainmentSearch:
    """The search for contained documents.

    Attributes:
        local_run: Run, after the stage collapse.
    """

    local_run: LocalRun

    def search(self) -> tuple[Contained, ContainmentStats]:
        """Returns the contained documents, and the statistics of the search."""
        run = self.local_run
        active = np.flatnonzero(run.active())
        sizes, smallest = self._read_smallest_hashes(active)
        documents_at_once = max(1, run.options.memory // 3 // BYTES_PER_HASH // SMALLEST)
        hot_shingles = 0
        parts = [np.empty((2, 0), np.int64)]
        for start in range(0, len(active), documents_at_once):
            portion = slice(start, start + documents_at_once)
            pairs, skipped = self._look_up(active[portion], smallest[portion], sizes, active)
            hot_shingles += skipped
            parts.append(pairs)
        candidates = np.concatenate(parts, axis=1)
        verified = self._verify(candidates)
        stats = ContainmentStats(
            candidates=candidates.shape[1], pairs=len(verified.a), hot_shingles=hot_shingles
        )
        return verified, stats

    def _shingle_sets(self) -> Iterator[tuple[Batch, Payload]]:
        """Yields the batches of the corpus, with the sets of shingle hashes of their documents."""
        run = self.local_run
        builders = ObjectPool(run.measure.payload_builder)

        def build(batch: Batch) -> tuple[Batch, Payload]:
            documents = batch.documents[run.columns.content]
            return batch, builders.use(lambda builder: builder.build(documents))

        return ordered_map(build, run.corpus.batches(run.columns), run.options.workers)

    def _read_smallest_hashes(self, active: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Returns the sizes and the smallest hashes of documents.

        Sizes are int64 (documents,). Hashes are uint64 (active, m), filled up with all ones.
        """
        run = self.local_run
        sizes = np.zeros(len(run.documents()), np.int64)
        smallest = np.full((len(active), SMALLEST), np.uint64(2**64 - 1))
        run.progress.stage("smallest hashes", len(sizes))
        for batch, payload in self._shingle_sets():
            last = batch.first + len(payload.sizes)
            sizes[batch.first : last] = payload.sizes
            low, high = np.searchsorted(active, [batch.first, last])
            starts = np.concatenate([[0], np.cumsum(payload.sizes)])
            kernels.smallest_hashes(
                payload.columns[0], starts, active[low:high] - batch.first, smallest[low:high]
            )
            run.progress.advance(len(payload.sizes))
        return sizes, smallest

    def _look_up(
        self, searched: np.ndarray, smallest: np.ndarray, sizes: np.ndarray, active: np.ndarray
    ) -> tuple[np.ndarray, int]:
        """Returns the candidate pairs of some documents with all, int64 (2, m).

        Also returns the number of hashes that are skipped because too many documents share them.
        """
        run = self.local_run
        looked_up = np.minimum(sizes[searched], SMALLEST)
        rows = np.repeat(np.arange(len(searched)), looked_up)
        hashes = smallest[np.arange(SMALLEST) < looked_up[:, None]]
        order = np.argsort(hashes, kind="stable")
        keys = sorted_unique(hashes)
        prefixes = PrefixIndex.of(keys)
        firsts = np.append(np.searchsorted(hashes[order], keys), len(hashes)).astype(np.int64)
        posted = rows[order]
        counts = np.diff(firsts)
        crowded = counts > run.options.hot_bucket_size
        skipped = np.bincount(posted[np.repeat(crowded, counts)], minlength=len(searched))
        margins = self._margins(looked_up - skipped)
        blocks = np.asarray(run.work.load("blocks"))
        is_active = np.zeros(len(sizes), bool)
        is_active[active] = True
        run.progress.stage("look up", len(sizes))

        builders = ObjectPool(run.measure.payload_builder)

        def find_pairs(batch: Batch) -> tuple[np.ndarray, int]:
            documents = batch.documents[run.columns.content]
            payload = builders.use(lambda builder: builder.build(documents))
            starts = np.concatenate([[0], np.cumsum(payload.sizes)])
            pairs = kernels.contained_pairs(
                batch.first,
                payload.columns[0],
                starts,
                is_active,
                keys,
                prefixes.first,
                prefixes.shift,
                firsts,
                posted,
                crowded,
                searched,
                margins,
                sizes,
                blocks,
            )
            return pairs, len(batch.rows)

        parts = [np.empty((2, 0), np.int64)]
        batches = run.corpus.batches(run.columns)
        for pairs, documents in ordered_map(find_pairs, batches, run.options.workers):
            parts.append(pairs)
            run.progress.advance(documents)
        return np.concatenate(parts, axis=1), int(crowded.sum())

    def _margins(self, looked_up: np.ndarray) -> np.ndarray:
        """Returns the number of hits that a candidate pair needs, int64, by the looked-up hashes.

        It cannot be reached by a document of which no hash is looked up.
        """
        options = self.local_run.options
        pass_rate = min(options.recall, MAX_PASS_RATE)
        margin_of = [
            largest_margin(hashes, options.threshold, pass_rate) for hashes in range(SMALLEST + 1)
        ]
        margin_of[0] = SMALLEST + 1
        return np.maximum(np.array(margin_of, np.int64)[looked_up], 1)

    def _verify(self, candidates: np.ndarray) -> Contained:
        """Returns the candidate pairs, int64 (2, m), that reach the threshold."""
        run = self.local_run
        a, b = candidates
        payloads = Payloads.build(
            run.corpus,
            run.columns,
            sorted_unique(np.concatenate([a, b])),
            run.measure,
            run.options.workers,
            run.work,
            run.progress,
        )
        scored = payloads.compare(pack_pairs(a, b))
        sizes = np.diff(payloads.stored.starts)
        size = np.empty(0, np.int64)
        if len(a):
            size = sizes[payloads.stored.place[a]]
        shared = scored.intersection.astype(np.int64)
        union = scored.union.astype(np.int64)
        enough = np.flatnonzero(meets_threshold(shared, size, run.options.threshold))
        order = enough[np.lexsort((b[enough], a[enough]))]
        return Contained(
            a=a[order], b=b[order], shared=shared[order], size=size[order], union=union[order]
        )
