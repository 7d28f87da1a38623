"""The sets of shingle hashes that a finished run keeps, so that its texts need not be read again.

The sets are those that the run compared: sorted, without repetitions, and truncated to the bits
that runs compare. So a comparison with them has the same result as one with the texts. Of documents
with several fields, all words that are compared are kept: whole hashes, fingerprints and vectors. A
checksum of each document detects sets that were damaged, or belong to other documents.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import BinaryIO, NamedTuple, TypeVar

import numpy as np

from nearkin.engine.options import RunOptions
from nearkin.engine.payload_batches import PayloadBatch, PayloadSource, wanted_rows
from nearkin.engine.work_folder import map_file
from nearkin.errors import RunError
from nearkin.runtime.executor import Task
from nearkin.runtime.threads import ordered_map
from nearkin.stages.measures import Payload
from nearkin.stages.measures.compared_sets import compares_sets
from nearkin.stages.verify.kernels import DROPPED_BITS

Result = TypeVar("Result")

ENDS = "set-ends"
"""The file of the end of each document's set among all hashes, int64 (n,)."""
UPPER = "set-upper"
"""The file of the highest 32 bits of the hashes, uint32 (total,)."""
LOWER = "set-lower"
"""The file of the next 16 bits of the hashes, uint16 (total,)."""
WORDS = "set-words"
"""The file of the words of documents with several fields, in place of hashes, uint64 (total,)."""
CHECKSUMS = "set-checksums"
"""The file of the checksum of each document's set and fingerprint, uint64 (n,)."""
TYPES: dict[str, type[np.unsignedinteger]] = {
    UPPER: np.uint32,
    LOWER: np.uint16,
    WORDS: np.uint64,
}
"""The types of the files of hashes and words."""
SET_FILES = (ENDS, UPPER, LOWER, WORDS, CHECKSUMS)
FINGERPRINTS = "fingerprints"
"""The file of the fingerprint of each document, uint64 (n, 2), which is part of the signatures."""
HASHES_AT_ONCE = 1 << 21
"""The number of hashes of a batch, unless one document has more."""
UPPER_BITS = np.uint64(32)
MULTIPLIER = np.uint64(0x9E3779B97F4A7C15)
"""An odd number without a pattern: 2**64 divided by the golden ratio."""


def can_save_sets(options: RunOptions) -> bool:
    """Returns whether a run compares sets of hashes, or several fields, which can be saved."""
    return bool(options.fields) or compares_sets(options.spec.measure)


def write_sets(source: PayloadSource, folder: Path, *, has_fields: bool = False) -> None:
    """Writes the sets of all documents."""
    fingerprints = map_file(folder / FINGERPRINTS, np.uint64, 2)
    end = 0
    with ExitStack() as stack:

        def create(name: str) -> BinaryIO:
            return stack.enter_context((folder / name).open("wb"))

        ends = create(ENDS)
        checksums = create(CHECKSUMS)
        hash_files = [create(name) for name in _hash_files(has_fields=has_fields)]
        for batch in source.map_batches(lambda batch: batch):
            (hashes,) = batch.payload.columns
            own = fingerprints[batch.first : batch.first + batch.documents]
            checksums.write(_compute_checksums(batch.payload.sizes, hashes, own).data)
            ends.write((end + np.cumsum(batch.payload.sizes, dtype=np.int64)).data)
            for file, part in zip(hash_files, _divide(hashes, has_fields=has_fields), strict=True):
                file.write(np.ascontiguousarray(part).data)
            end += len(hashes)


def _hash_files(*, has_fields: bool) -> tuple[str, ...]:
    """Returns the names of the files of hashes or words."""
    return (WORDS,) if has_fields else (UPPER, LOWER)


def _divide(hashes: np.ndarray, *, has_fields: bool) -> tuple[np.ndarray, ...]:
    """Returns the content of each file of hashes or words.

    Args:
        hashes: Truncated hashes, or words, uint64 (total,).
    """
    if has_fields:
        return (hashes,)
    upper = (hashes >> UPPER_BITS).astype(np.uint32)
    return upper, (hashes >> DROPPED_BITS).astype(np.uint16)


def _unite(parts: Sequence[np.ndarray]) -> np.ndarray:
    """Returns the hashes or words that `_divide` divided, uint64."""
    if len(parts) == 1:
        return parts[0]
    upper, lower = (part.astype(np.uint64) for part in parts)
    return (upper << UPPER_BITS) | (lower << DROPPED_BITS)


def _compute_checksums(
    sizes: np.ndarray, hashes: np.ndarray, fingerprints: np.ndarray
) -> np.ndarray:
    """Returns the checksums of sets, uint64 (n,). Each changed bit of a set changes its checksum.

    Args:
        sizes: Number of hashes of each set, int64 (n,).
        hashes: Hashes of all sets, uint64 (total,).
        fingerprints: Fingerprints of the documents, uint64 (n, 2).
    """
    mixed = hashes * MULTIPLIER
    mixed ^= mixed >> UPPER_BITS
    sums = np.zeros(len(mixed) + 1, np.uint64)
    np.cumsum(mixed, out=sums[1:])
    ends = np.cumsum(sizes)
    checksums: np.ndarray = sums[ends] - sums[ends - sizes]
    checksums += fingerprints[:, 0] * MULTIPLIER + fingerprints[:, 1]
    return checksums


class _SavedPart(NamedTuple):
    """Consecutive documents, of which some are wanted."""

    first: int
    documents: int
    """The number of documents, whether they are wanted or not."""
    wanted: np.ndarray
    """The numbers of the wanted documents, ascending, int64 (m,)."""


@dataclass(frozen=True)
class BuildSaved(Task):
    """A task that reads the sets of a part.

    Attributes:
        documents: Number of documents of the finished run.
    """

    folder: Path
    documents: int
    has_fields: bool

    @cached_property
    def _sets(self) -> "SavedSets":
        sets = SavedSets.open(self.folder, self.documents, 1, has_fields=self.has_fields)
        if sets is None:
            raise RunError(f"the shingle hashes in {self.folder} were replaced; run again")
        return sets

    def __call__(self, part: _SavedPart) -> Iterator[Payload]:
        """Yields the sets of the wanted documents of a part."""
        yield self._sets.build(part.wanted)


class SavedSets:
    """A source of payloads that `write_sets` wrote, see `PayloadSource`.

    Args:
        ends: End of each document's set among all hashes, int64 (n,).
        checksums: Checksum of each document, uint64 (n,).
        fingerprints: Fingerprint of each document, uint64 (n, 2).
    """

    def __init__(
        self,
        ends: np.ndarray,
        parts: dict[str, np.ndarray],
        *,
        checksums: np.ndarray,
        fingerprints: np.ndarray,
        folder: Path,
        workers: int,
    ) -> None:
        self.task = BuildSaved(folder, len(ends), WORDS in parts)
        self._checksums = checksums
        self._fingerprints = fingerprints
        self._folder = folder
        self._ends = ends
        self._hash_file = next(iter(parts))
        self._parts = tuple(parts.values())
        self._workers = workers

    @classmethod
    def open(
        cls, folder: Path, documents: int, workers: int, *, has_fields: bool = False
    ) -> "SavedSets | None":
        """Opens the sets of a finished run."""
        hash_files = _hash_files(has_fields=has_fields)
        names = (ENDS, CHECKSUMS, FINGERPRINTS, *hash_files)
        if not all((folder / name).is_file() for name in names):
            return None
        sizes = {name: (folder / name).stat().st_size for name in names}
        if (sizes[ENDS], sizes[CHECKSUMS], sizes[FINGERPRINTS]) != (
            8 * documents,
            8 * documents,
            16 * documents,
        ):
            return None
        ends = map_file(folder / ENDS, np.int64)
        total = int(ends[-1]) if documents else 0
        if any(sizes[name] != np.dtype(TYPES[name]).itemsize * total for name in hash_files):
            return None
        if np.any(np.diff(ends, prepend=0) < 0):
            return None
        return cls(
            ends,
            {name: map_file(folder / name, TYPES[name]) for name in hash_files},
            checksums=map_file(folder / CHECKSUMS, np.uint64),
            fingerprints=map_file(folder / FINGERPRINTS, np.uint64, 2),
            folder=folder,
            workers=workers,
        )

    def map_batches(
        self, work: Callable[[PayloadBatch], Result], wanted: np.ndarray | None = None
    ) -> Iterator[Result]:
        """Yields work(batch), as described in `PayloadSource`."""

        def build(part: _SavedPart) -> Result:
            return work(PayloadBatch(part.first, part.documents, self.build(part.wanted)))

        yield from ordered_map(build, self.parts(wanted), self._workers)

    def parts(self, wanted: np.ndarray | None) -> Iterator[_SavedPart]:
        """Yields parts with a bounded number of hashes, as described in `DividedSource`."""
        first = 0
        while first < len(self._ends):
            most = self._start_of(first) + HASHES_AT_ONCE
            end = max(first + 1, int(np.searchsorted(self._ends, most, "right")))
            rows = np.arange(end - first)
            if wanted is not None:
                rows = wanted_rows(wanted, first, end - first)
            yield _SavedPart(first, end - first, first + rows)
            first = end

    def _start_of(self, document: int) -> int:
        return int(self._ends[document - 1]) if document else 0

    def build(self, documents: np.ndarray) -> Payload:
        """Returns the sets of some documents.

        Args:
            documents: Numbers of the documents, ascending, int64 (m,).
        """
        ends = np.asarray(self._ends[documents])
        starts = np.where(documents > 0, self._ends[documents - 1], 0)
        sizes = ends - starts
        offsets = np.cumsum(sizes) - sizes
        places = np.repeat(starts - offsets, sizes) + np.arange(sizes.sum())
        hashes = _unite([np.asarray(part[places]) for part in self._parts])
        checksums = _compute_checksums(sizes, hashes, self._fingerprints[documents])
        changed = documents[checksums != self._checksums[documents]]
        if len(changed):
            folder = self._folder.resolve()
            raise RunError(
                f"the shingle hashes in {folder} are damaged or were replaced: those of "
                f"document {changed[0]:,} are not the ones that its run saved; delete "
                f"{folder / self._hash_file}, so that the texts are read instead"
            )
        return Payload(sizes, (hashes,))
