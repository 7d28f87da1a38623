"""The sets of shingle hashes that a finished run keeps, so that its texts need not be read again.

The sets are those that the run compared: sorted, without repetitions, and truncated to the bits
that runs compare. So a comparison with them has the same result as one with the texts. Of documents
with several fields, all words that are compared are kept: whole hashes, fingerprints and vectors. A
checksum of each document detects sets that were damaged, or belong to other documents.

The hashes are in pieces, files of whole documents, which never change. So a run that extends
another one links the pieces whose documents are all left.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import BinaryIO, NamedTuple, Self, TypeVar

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
"""The name of files of the highest 32 bits of the hashes, uint32."""
LOWER = "set-lower"
"""The name of files of the next 16 bits of the hashes, uint16."""
WORDS = "set-words"
"""The name of files of the words of documents with several fields, in place of hashes, uint64."""
HASHES_PER_PIECE = 1 << 24
"""The number of hashes or words from which a piece is complete."""
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


class PieceWriter:
    """A writer of the pieces of hashes, which replaces those that a folder has.

    Files of that name may be linked to pieces of another run, so they are deleted, and never
    written again.

    Args:
        names: Names of the files of a piece.
    """

    def __init__(self, folder: Path, names: Sequence[str]) -> None:
        self._folder = folder
        self._names = names
        self._pieces = 0
        self._files: list[BinaryIO] = []
        """The files of the open piece, or none."""
        self._hashes = 0
        """The number of hashes of the open piece."""
        for name in names:
            for path in list(folder.glob(f"{name}*")):
                path.unlink()

    def write(self, parts: Sequence[np.ndarray]) -> None:
        """Writes the hashes of whole documents, as `_divide` returns them."""
        if not self._files:
            self._files = [path.open("wb") for path in self.take_paths()]
        for file, part in zip(self._files, parts, strict=True):
            file.write(np.ascontiguousarray(part).data)
        self._hashes += len(parts[0])
        if self._hashes >= HASHES_PER_PIECE:
            self._end_piece()

    def take_paths(self) -> list[Path]:
        """Returns the paths of a further piece, whose files do not exist."""
        self._pieces += 1
        return [self._folder / name_piece(name, self._pieces - 1) for name in self._names]

    def _end_piece(self) -> None:
        for file in self._files:
            file.close()
        self._files = []
        self._hashes = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._end_piece()
        if not self._pieces:
            for path in self.take_paths():
                path.touch()


def name_piece(name: str, piece: int) -> str:
    """Returns the name of a file of a piece, whose number is counted from 0."""
    return f"{name}.{piece}" if piece else name


def list_pieces(folder: Path, names: Sequence[str]) -> list[list[Path]]:
    """Returns the files of each piece that a folder has."""
    pieces: list[list[Path]] = []
    while True:
        paths = [folder / name_piece(name, len(pieces)) for name in names]
        if not all(path.is_file() for path in paths):
            return pieces
        pieces.append(paths)


def write_sets(source: PayloadSource, folder: Path, *, has_fields: bool = False) -> None:
    """Writes the sets of all documents."""
    fingerprints = map_file(folder / FINGERPRINTS, np.uint64, 2)
    end = 0
    with (
        (folder / ENDS).open("wb") as ends,
        (folder / CHECKSUMS).open("wb") as checksums,
        PieceWriter(folder, hash_files(has_fields=has_fields)) as pieces,
    ):
        for batch in source.map_batches(lambda batch: batch):
            (hashes,) = batch.payload.columns
            own = fingerprints[batch.first : batch.first + batch.documents]
            checksums.write(_compute_checksums(batch.payload.sizes, hashes, own).data)
            ends.write((end + np.cumsum(batch.payload.sizes, dtype=np.int64)).data)
            pieces.write(_divide(hashes, has_fields=has_fields))
            end += len(hashes)


def hash_files(*, has_fields: bool) -> tuple[str, ...]:
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
        pieces: Sequence[tuple[np.ndarray, ...]],
        *,
        checksums: np.ndarray,
        fingerprints: np.ndarray,
        folder: Path,
        workers: int,
        has_fields: bool,
    ) -> None:
        self.task = BuildSaved(folder, len(ends), has_fields)
        self._checksums = checksums
        self._fingerprints = fingerprints
        self._folder = folder
        self._ends = ends
        self._hash_file = hash_files(has_fields=has_fields)[0]
        self._pieces = pieces
        self._bounds = np.cumsum([0, *(len(piece[0]) for piece in pieces)])
        """The number of hashes before each piece, and that of all, int64."""
        self._workers = workers

    @classmethod
    def open(
        cls, folder: Path, documents: int, workers: int, *, has_fields: bool = False
    ) -> "SavedSets | None":
        """Opens the sets of a finished run."""
        names = hash_files(has_fields=has_fields)
        facts = ((ENDS, 8), (CHECKSUMS, 8), (FINGERPRINTS, 16))
        if not all((folder / name).is_file() for name, _ in facts):
            return None
        if any((folder / name).stat().st_size != width * documents for name, width in facts):
            return None
        ends = map_file(folder / ENDS, np.int64)
        total = int(ends[-1]) if documents else 0
        files = list_pieces(folder, names)
        for place, name in enumerate(names):
            size = sum(paths[place].stat().st_size for paths in files)
            if size != np.dtype(TYPES[name]).itemsize * total:
                return None
        if not files or np.any(np.diff(ends, prepend=0) < 0):
            return None
        pieces = [tuple(map(map_file, paths, map(TYPES.__getitem__, names))) for paths in files]
        if any(len(set(map(len, piece))) > 1 for piece in pieces):
            return None
        return cls(
            ends,
            pieces,
            checksums=map_file(folder / CHECKSUMS, np.uint64),
            fingerprints=map_file(folder / FINGERPRINTS, np.uint64, 2),
            folder=folder,
            workers=workers,
            has_fields=has_fields,
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
        cuts = np.searchsorted(ends, self._bounds[1:-1], "right")
        hashes = np.concatenate(
            [
                _read_spans(piece, starts_of_piece - first, sizes_of_piece)
                for piece, first, starts_of_piece, sizes_of_piece in zip(
                    self._pieces,
                    self._bounds[:-1],
                    np.split(starts, cuts),
                    np.split(sizes, cuts),
                    strict=True,
                )
            ]
        )
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


def _read_spans(piece: Sequence[np.ndarray], starts: np.ndarray, sizes: np.ndarray) -> np.ndarray:
    """Returns the hashes of documents of a piece, uint64.

    Args:
        piece: Parts of the hashes, as `_divide` returns them.
        starts: Place of the first hash of each document in the piece, int64 (m,).
    """
    offsets = np.cumsum(sizes) - sizes
    places = np.repeat(starts - offsets, sizes) + np.arange(sizes.sum())
    return _unite([np.asarray(part[places]) for part in piece])
