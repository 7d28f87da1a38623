"""Stage 4: candidates to scored pairs, by exact comparison of payloads recomputed for candidate documents only."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack

import numpy as np

from nearkin.corpus import Batch, Columns, Corpus
from nearkin.engine.local.documents import Documents
from nearkin.engine.local.pair_files import ScoredWriter
from nearkin.engine.local.work_folder import WorkFolder, map_file
from nearkin.engine.options import RunOptions
from nearkin.lsh import kernels
from nearkin.lsh.band_keys import BandLayout
from nearkin.measures import Measure, Payload
from nearkin.measures.base import StoredPayloads
from nearkin.packed_pairs import ScoredPairs, pack_pairs, unpack_pairs
from nearkin.runtime.progress import Progress
from nearkin.runtime.threads import ObjectPool, ordered_map
from nearkin.verify.prefix_filter import RarestShared

ABSENT = np.uint32(0xFFFFFFFF)
PAIRS_PER_TASK = 1 << 18
PAYLOADS = "payloads"
BYTES_PER_SHARED = 120
"""Anonymous bytes that one shingle of a document in a chain costs."""
MEMORY_SHARE = 4
"""Brute force has this part of the memory bound for its postings."""


class Payloads:
    """What exact comparison needs of some documents, in mapped files."""

    def __init__(self, measure: Measure, stored: StoredPayloads) -> None:
        self.measure = measure
        self.stored = stored

    @classmethod
    def build(
        cls, corpus: Corpus, columns: Columns, wanted: np.ndarray, measure: Measure, workers: int, work: WorkFolder,
        progress: Progress,
    ) -> "Payloads":  # fmt: skip
        """Reads the corpus again and keeps the payloads of the wanted ordinals (sorted)."""
        builders = ObjectPool(measure.payload_builder)

        def payload_of(batch: Batch) -> tuple[Payload, int]:
            low, high = np.searchsorted(wanted, [batch.first, batch.first + len(batch.rows)])
            rows = wanted[low:high] - batch.first
            documents = batch.documents[columns.content].take(rows)
            return builders.use(lambda builder: builder.build(documents)), len(batch.rows)

        sizes, types = [np.zeros(1, np.int64)], measure.column_types
        with ExitStack() as stack:
            files = [stack.enter_context((work.path / f"{PAYLOADS}-{i}").open("wb")) for i in range(len(types))]
            for payload, count in ordered_map(payload_of, corpus.batches(columns), workers):
                for file, column, (dtype, _) in zip(files, payload.columns, types, strict=True):
                    file.write(np.ascontiguousarray(column, dtype).data)
                sizes.append(payload.sizes)
                progress.advance(count)
        work.save("place", _places(wanted, int(wanted[-1]) + 1 if len(wanted) else 0))
        work.save("starts", np.cumsum(np.concatenate(sizes)))
        return cls.load(measure, work)

    @classmethod
    def load(cls, measure: Measure, work: WorkFolder) -> "Payloads":
        """As built."""
        columns = [map_file(work.path / f"{PAYLOADS}-{i}", *form) for i, form in enumerate(measure.column_types)]
        return cls(measure, StoredPayloads(np.asarray(work.load("place")), np.asarray(work.load("starts")), tuple(columns)))

    @staticmethod
    def exist(work: WorkFolder) -> bool:
        """Whether documents were compared exactly."""
        return (work.path / f"{PAYLOADS}-0").exists()

    def compare(self, pairs: np.ndarray) -> ScoredPairs:
        """Exact similarity of pairs of stored documents."""
        return self.measure.compare(pairs, self.stored)

    def sharing_among(self, ordinals: np.ndarray, floor: float, memory: int) -> RarestShared | None:
        """Returns what finds the documents that may reach a floor with one of some; None for vectors, or without the room."""
        places = self.stored.place[ordinals].astype(np.int64)
        sizes = np.diff(self.stored.starts)[places]
        hashes = self.stored.columns[0]
        if self.measure.spec.unit == "vector" or self.measure.estimator.hamming_distances(np.ones(1)) is not None or floor <= 0:
            return None
        if int(sizes.sum()) * BYTES_PER_SHARED > memory // MEMORY_SHARE:
            return None
        first = np.repeat(self.stored.starts[places] - np.concatenate([[0], np.cumsum(sizes)[:-1]]), sizes)
        rows = first + np.arange(len(first))
        weights = np.ones(len(rows)) if len(self.stored.columns) == 1 else np.asarray(self.stored.columns[1][rows])
        if self.measure.spec.measure == "simhash":
            return RarestShared(sizes, np.asarray(hashes[rows]), weights**2, floor**2)
        return RarestShared(sizes, np.asarray(hashes[rows]), weights, floor)

    def whole(self) -> Payload:
        """The payloads of all stored documents."""
        return Payload(np.diff(self.stored.starts), self.stored.columns)


def _places(wanted: np.ndarray, n: int) -> np.ndarray:
    place = np.full(n, ABSENT, np.uint32)
    place[wanted] = np.arange(len(wanted), dtype=np.uint32)
    return place


def documents_of(pairs: np.ndarray, n: int) -> np.ndarray:
    """Ordinals that occur in a pair, sorted, int64."""
    seen = np.zeros(n, bool)
    for portion in portions(pairs):
        first, second = unpack_pairs(portion)
        seen[first] = True
        seen[second] = True
    return np.flatnonzero(seen)


def portions(pairs: np.ndarray) -> Iterator[np.ndarray]:
    """Slices of packed pairs, mapped or not, small enough to score at a time."""
    for start in range(0, len(pairs), PAIRS_PER_TASK):
        yield np.asarray(pairs[start : start + PAIRS_PER_TASK])


def exactly(payloads: Payloads, options: RunOptions) -> Callable[[np.ndarray], ScoredPairs]:
    """Scores pairs by their exact similarity; those below the threshold fall away."""

    def score(pairs: np.ndarray) -> ScoredPairs:
        scored = payloads.compare(pairs)
        return scored.select(scored.meets_threshold(options.threshold))

    return score


class Estimates:
    """Scores pairs by their signatures alone."""

    def __init__(self, measure: Measure, documents: Documents, band_layout: BandLayout) -> None:
        self.measure = measure
        self.signatures = documents.signatures
        self.band_layout = band_layout

    def compare(self, pairs: np.ndarray) -> ScoredPairs:
        """Estimated similarity of packed pairs."""
        return self.measure.estimator.estimate(pairs, self.agreements(pairs))

    def sharing_among(self, ordinals: np.ndarray, floor: float, memory: int) -> None:
        """Returns None: signatures have no parts that few documents share."""
        return

    def agreements(self, pairs: np.ndarray) -> np.ndarray:
        """Slots (or bits) in which the signatures of packed pairs agree, int64 (m,)."""
        agreeing = np.empty(len(pairs), np.int64)
        kernels.pair_agreements(pairs, self.signatures, self.band_layout.layout, agreeing)
        return agreeing


def by_estimate(estimates: Estimates, options: RunOptions) -> Callable[[np.ndarray], ScoredPairs]:
    """Scores pairs by their estimate; those below the threshold fall away, but for `verify=none`."""

    def score(pairs: np.ndarray) -> ScoredPairs:
        scored = estimates.compare(pairs)
        return scored if options.verify == "none" else scored.select(scored.meets_threshold(options.threshold))

    return score


def verify(pairs: np.ndarray, score: Callable[[np.ndarray], ScoredPairs], workers: int, writer: ScoredWriter) -> None:
    """Writes the scored pairs, in order."""
    for scored in ordered_map(score, portions(pairs), workers):
        writer.add(scored)


def compare_everything(
    payloads: Payloads, wanted: np.ndarray, blocks: np.ndarray, options: RunOptions, writer: ScoredWriter
) -> None:
    """Small corpora: writes all pairs of the wanted documents (sorted), compared exactly."""
    inside = np.ascontiguousarray(blocks[wanted])
    memory = options.memory // MEMORY_SHARE
    for found in payloads.measure.compare_all(payloads.whole(), inside, options.threshold, options.workers, memory):
        a, b = unpack_pairs(found.pairs)
        writer.add(ScoredPairs(pack_pairs(wanted[a], wanted[b]), found.intersection, found.union))
