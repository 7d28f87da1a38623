"""Stage 4 of a run: from candidate pairs to scored pairs.

For an exact comparison, the payloads of the documents in candidate pairs are stored in mapped
files. They are made from the shingle hashes of the first reading, or the corpus is read again.
"""

import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple, TypeAlias
from uuid import uuid4

import numpy as np

from nearkin.engine.documents import Documents
from nearkin.engine.options import RunOptions
from nearkin.engine.pair_files import ScoredWriter
from nearkin.engine.payload_batches import DividedSource, PayloadSource, SourcePart, group_parts
from nearkin.engine.work_folder import SPOOL, WorkFolder, map_file
from nearkin.runtime.executor import Executor, Task
from nearkin.runtime.progress import Progress
from nearkin.stages.lsh import kernels
from nearkin.stages.lsh.band_keys import BandLayout
from nearkin.stages.measures import Measure, Payload
from nearkin.stages.measures.base import StoredPayloads
from nearkin.stages.packed_pairs import ScoredPairs, isin_sorted, pack_pairs, unpack_pairs
from nearkin.stages.pair_scope import PairScope
from nearkin.stages.verify.prefix_filter import PrefixFilterIndex

ABSENT = np.uint32(0xFFFFFFFF)
"""The place of a document that has no stored payload."""
PAIRS_PER_TASK = 1 << 18
"""Number of pairs that a thread scores at a time."""
PAYLOADS = "payloads"
SCORED = "scored"
"""The folder of the scored pairs of duplicates."""
RELATED_PAIRS = "related-pairs"
"""The folder of the scored pairs of documents that are similar without being duplicates."""
BYTES_PER_SHINGLE = 120
"""Anonymous memory of a shingle while documents with shared shingles are looked up, in bytes."""
MEMORY_SHARE = 4
"""Postings of shingles take at most one part in so many of the memory bound."""

PairFilter: TypeAlias = Callable[[ScoredPairs], ScoredPairs]
"""A function that drops the scored pairs that are not accepted."""


class JudgedPairs(NamedTuple):
    """Scored pairs by what follows from them. Each is in the order of the packed pairs."""

    duplicates: ScoredPairs
    """The pairs that reach the threshold and are accepted."""
    related: ScoredPairs
    """The other pairs that reach the similarity of related documents, if the run links these."""


Scorer: TypeAlias = Callable[[np.ndarray], JudgedPairs]
"""A function that scores packed pairs, sorted, and drops those that nothing follows from."""


def judge_pairs(scored: ScoredPairs, options: RunOptions, accept: PairFilter) -> JudgedPairs:
    """Divides scored pairs into those of duplicates and those of related documents."""
    duplicates = accept(scored.select(scored.meets_threshold(options.threshold)))
    is_related = np.zeros(len(scored.pairs), bool)
    if options.related is not None:
        is_related = scored.meets_threshold(options.related)
        is_related &= ~isin_sorted(scored.pairs, np.asarray(duplicates.pairs))
    return JudgedPairs(duplicates, scored.select(is_related))


class JudgedWriter:
    """A writer of judged pairs."""

    def __init__(self, work: WorkFolder, options: RunOptions) -> None:
        self._duplicates = ScoredWriter(work.folder(SCORED))
        self._related = None
        if options.related is not None:
            self._related = ScoredWriter(work.folder(RELATED_PAIRS))

    def __enter__(self) -> "JudgedWriter":
        return self

    def __exit__(self, *error: object) -> None:
        self._duplicates.__exit__(*error)
        if self._related is not None:
            self._related.__exit__(*error)

    @property
    def pairs(self) -> int:
        """The number of pairs of duplicates that were written."""
        return self._duplicates.pairs

    def add(self, judged: JudgedPairs) -> None:
        """Appends judged pairs, which follow those that were written before."""
        self._duplicates.add(judged.duplicates)
        if self._related is not None:
            self._related.add(judged.related)


class Payloads:
    """The payloads of some documents, in mapped files, for exact comparison."""

    def __init__(self, measure: Measure, stored: StoredPayloads) -> None:
        self.measure = measure
        self.stored = stored

    @classmethod
    def build(
        cls,
        source: PayloadSource,
        wanted: np.ndarray,
        measure: Measure,
        work: WorkFolder,
        progress: Progress,
        executor: Executor,
    ) -> "Payloads":
        """Stores the payloads of some documents.

        Args:
            wanted: Numbers of the documents, sorted, int64 (m,).
        """
        sizes = [np.zeros(1, np.int64)]
        types = measure.column_types
        with ExitStack() as stack:
            files = [
                stack.enter_context((work.path / f"{PAYLOADS}-{number}").open("wb"))
                for number in range(len(types))
            ]
            if executor.shares_memory or not isinstance(source, DividedSource):
                for batch in source.map_batches(lambda batch: batch, wanted):
                    _write_columns(batch.payload, measure, files)
                    sizes.append(batch.payload.sizes)
                    progress.advance(batch.documents)
            else:
                task = WritePayloads(source.task, measure, work.path / SPOOL)
                for written in executor.map(task, group_parts(source.parts(wanted))):
                    for file, path in zip(files, written.paths, strict=True):
                        _append_file(file, path)
                    sizes.append(written.sizes)
                    progress.advance(written.documents)
        work.save("place", _places_of(wanted))
        work.save("starts", np.cumsum(np.concatenate(sizes)))
        return cls.load(measure, work)

    @classmethod
    def load(cls, measure: Measure, work: WorkFolder) -> "Payloads":
        """Returns the payloads that `build` stored."""
        columns = [
            map_file(work.path / f"{PAYLOADS}-{number}", dtype, width)
            for number, (dtype, width) in enumerate(measure.column_types)
        ]
        place = np.asarray(work.load("place"))
        starts = np.asarray(work.load("starts"))
        return cls(measure, StoredPayloads(place, starts, tuple(columns)))

    @staticmethod
    def exist(work: WorkFolder) -> bool:
        """Returns whether a work folder has payloads, because documents were compared exactly."""
        return (work.path / f"{PAYLOADS}-0").exists()

    def compare(self, pairs: np.ndarray) -> ScoredPairs:
        """Computes the exact similarity of packed pairs of stored documents, uint64 (m,)."""
        return self.measure.compare(pairs, self.stored)

    def sharing_among(
        self, ordinals: np.ndarray, floor: float, memory: int
    ) -> PrefixFilterIndex | None:
        """Returns a lookup of the documents that may reach a similarity with others.

        Args:
            ordinals: Numbers of the documents, int64 (m,).
            memory: Memory bound of the run, in bytes.
        """
        measure = self.measure
        is_hamming = measure.estimator.hamming_distances(np.ones(1)) is not None
        if measure.spec.unit == "vector" or is_hamming or floor <= 0:
            return None
        places = self.stored.place[ordinals].astype(np.int64)
        sizes = np.diff(self.stored.starts)[places]
        if int(sizes.sum()) * BYTES_PER_SHINGLE > memory // MEMORY_SHARE:
            return None
        skipped = np.concatenate([[0], np.cumsum(sizes)[:-1]])
        first = np.repeat(self.stored.starts[places] - skipped, sizes)
        rows = first + np.arange(len(first))
        hashes = np.asarray(self.stored.columns[0][rows])
        weights = np.ones(len(rows))
        if len(self.stored.columns) > 1:
            weights = np.asarray(self.stored.columns[1][rows])
        if measure.spec.measure == "simhash":
            return PrefixFilterIndex(sizes, hashes, weights**2, floor**2)
        return PrefixFilterIndex(sizes, hashes, weights, floor)

    def contains(self, documents: np.ndarray) -> np.ndarray:
        """Returns which documents are stored, bool (m,).

        Args:
            documents: Numbers of the documents, int64 (m,).
        """
        is_within = documents < len(self.stored.place)
        is_stored = np.zeros(len(documents), bool)
        is_stored[is_within] = self.stored.place[documents[is_within]] != ABSENT
        return is_stored

    def count_shingles(self, documents: np.ndarray) -> np.ndarray:
        """Returns the number of different shingles of stored documents, int64 (m,).

        Args:
            documents: Numbers of the documents, int64 (m,).
        """
        return self.stored.count_rows(documents)

    def whole(self) -> Payload:
        """Returns the payloads of all stored documents."""
        return Payload(np.diff(self.stored.starts), self.stored.columns)


class _WrittenPayloads(NamedTuple):
    """The payloads of a part, which a task wrote."""

    sizes: np.ndarray
    paths: Sequence[Path]
    """The file of each column."""
    documents: int
    """The number of documents of the part."""


@dataclass(frozen=True)
class WritePayloads(Task):
    """A task that writes the payloads of a part of a source to files of its own."""

    build: Callable[[Any], Iterator[Payload]]
    measure: Measure
    folder: Path

    def __call__(self, parts: Sequence[SourcePart]) -> _WrittenPayloads:
        """Writes the payloads of consecutive parts."""
        name = uuid4().hex
        columns = range(len(self.measure.column_types))
        paths = [self.folder / f"{PAYLOADS}-{name}-{number}" for number in columns]
        sizes = [np.empty(0, np.int64)]
        with ExitStack() as stack:
            files = [stack.enter_context(path.open("wb")) for path in paths]
            for payload in chain.from_iterable(map(self.build, parts)):
                _write_columns(payload, self.measure, files)
                sizes.append(payload.sizes)
        documents = sum(part.documents for part in parts)
        return _WrittenPayloads(np.concatenate(sizes), paths, documents)


def _write_columns(payload: Payload, measure: Measure, files: Sequence[BinaryIO]) -> None:
    """Appends the columns of payloads to their files."""
    for file, column, (dtype, _) in zip(files, payload.columns, measure.column_types, strict=True):
        file.write(np.ascontiguousarray(column, dtype).data)


def _append_file(target: BinaryIO, path: Path) -> None:
    """Appends a file to an open one, and deletes it."""
    with path.open("rb") as source:
        shutil.copyfileobj(source, target, 1 << 20)
    path.unlink()


def _places_of(wanted: np.ndarray) -> np.ndarray:
    documents = int(wanted[-1]) + 1 if len(wanted) else 0
    places = np.full(documents, ABSENT, np.uint32)
    places[wanted] = np.arange(len(wanted), dtype=np.uint32)
    return places


class Estimates:
    """The comparison of documents by their signatures alone."""

    def __init__(self, measure: Measure, documents: Documents, band_layout: BandLayout) -> None:
        self._measure = measure
        self._signatures = documents.signatures
        self._band_layout = band_layout

    def compare(self, pairs: np.ndarray) -> ScoredPairs:
        """Estimates the similarity of packed pairs, uint64 (m,)."""
        return self._measure.estimator.estimate(pairs, self.agreements(pairs))

    def sharing_among(self, ordinals: np.ndarray, floor: float, memory: int) -> None:
        """Returns None: signatures have no parts that few documents share.

        Args:
            ordinals: Numbers of documents, int64 (n,).
            memory: Memory for the search, in bytes.
        """
        return

    def agreements(self, pairs: np.ndarray) -> np.ndarray:
        """Returns the number of slots or bits in which packed pairs agree, int64 (m,)."""
        agreeing = np.empty(len(pairs), np.int64)
        kernels.pair_agreements(pairs, self._signatures, self._band_layout.layout, agreeing)
        return agreeing


def documents_in_pairs(pairs: np.ndarray, documents: int) -> np.ndarray:
    """Returns the numbers of the documents in packed pairs, sorted, int64.

    Args:
        pairs: Packed pairs, uint64 (m,), mapped or not.
    """
    seen = np.zeros(documents, bool)
    for portion in split_pairs(pairs):
        first, second = unpack_pairs(portion)
        seen[first] = True
        seen[second] = True
    return np.flatnonzero(seen)


def split_pairs(pairs: np.ndarray) -> Iterator[np.ndarray]:
    """Yields packed pairs in portions that are small enough to score at a time."""
    for start in range(0, len(pairs), PAIRS_PER_TASK):
        yield np.asarray(pairs[start : start + PAIRS_PER_TASK])


def keep_all(scored: ScoredPairs) -> ScoredPairs:
    """Returns all scored pairs: without an acceptance, the threshold alone decides."""
    return scored


def compare_all_pairs(
    payloads: Payloads,
    wanted: np.ndarray,
    scope: PairScope,
    options: RunOptions,
    accept: PairFilter,
    writer: JudgedWriter,
) -> None:
    """Compares all pairs of a small corpus exactly.

    Args:
        wanted: Numbers of the documents, sorted, int64 (m,).
    """
    memory = options.memory // MEMORY_SHARE
    portions = payloads.measure.compare_all(
        payloads.whole(), scope.select(wanted), options.scored_threshold, options.workers, memory
    )
    for portion in portions:
        first, second = unpack_pairs(portion.pairs)
        pairs = pack_pairs(wanted[first], wanted[second])
        scored = ScoredPairs(pairs, portion.intersection, portion.union)
        writer.add(judge_pairs(scored, options, accept))
