"""The sets of shingle hashes that a finished run keeps, so that its texts need not be read again.

The sets are those that the run compared: sorted, without repetitions, and truncated to the bits
that runs compare. So a comparison with them has the same result as one with the texts.
"""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple, TypeVar

import numpy as np

from nearkin.engine.local.payload_batches import PayloadBatch, PayloadSource, wanted_rows
from nearkin.engine.local.work_folder import map_file
from nearkin.measures import Payload
from nearkin.measures.compared_sets import compares_sets
from nearkin.runtime.threads import ordered_map
from nearkin.spec import Spec
from nearkin.verify.kernels import DROPPED_BITS

Result = TypeVar("Result")

ENDS = "set-ends"
"""The file of the end of each document's set among all hashes, int64 (n,)."""
UPPER = "set-upper"
"""The file of the highest 32 bits of the hashes, uint32 (total,)."""
LOWER = "set-lower"
"""The file of the next 16 bits of the hashes, uint16 (total,)."""
SET_FILES = (ENDS, UPPER, LOWER)
HASHES_AT_ONCE = 1 << 21
"""The number of hashes of a batch, unless one document has more."""
UPPER_BITS = np.uint64(32)


def can_save_sets(spec: Spec) -> bool:
    """Returns whether runs of a Spec compare sets of hashes, which can be saved.

    Args:
        spec: Spec of the signatures.
    """
    return compares_sets(spec.measure)


def write_sets(source: PayloadSource, folder: Path) -> None:
    """Writes the sets of all documents.

    Args:
        source: Payloads of the documents, which are sets of truncated hashes.
        folder: Folder of the files. Existing ones are replaced.
    """
    end = 0
    with ExitStack() as stack:
        ends, upper, lower = (stack.enter_context((folder / name).open("wb")) for name in SET_FILES)
        for batch in source.map_batches(lambda batch: batch):
            (hashes,) = batch.payload.columns
            ends.write((end + np.cumsum(batch.payload.sizes, dtype=np.int64)).data)
            upper.write((hashes >> UPPER_BITS).astype(np.uint32).data)
            lower.write((hashes >> DROPPED_BITS).astype(np.uint16).data)
            end += len(hashes)


class _Range(NamedTuple):
    """Consecutive documents."""

    first: int
    end: int


class SavedSets:
    """A source of payloads that `write_sets` wrote, see `PayloadSource`.

    Args:
        ends: End of each document's set among all hashes, int64 (n,).
        upper: Highest 32 bits of the hashes, uint32 (total,).
        lower: Next 16 bits of the hashes, uint16 (total,).
        workers: Number of threads.
    """

    def __init__(
        self, ends: np.ndarray, upper: np.ndarray, lower: np.ndarray, workers: int
    ) -> None:
        self._ends = ends
        self._upper = upper
        self._lower = lower
        self._workers = workers

    @classmethod
    def open(cls, folder: Path, documents: int, workers: int) -> "SavedSets | None":
        """Opens the sets of a finished run.

        Args:
            folder: Folder of its signatures.
            documents: Number of its documents.
            workers: Number of threads.

        Returns:
            The sets, or None if the run did not save them, or a file is not as long as it was.
        """
        if not all((folder / name).is_file() for name in SET_FILES):
            return None
        if (folder / ENDS).stat().st_size != 8 * documents:
            return None
        ends = map_file(folder / ENDS, np.int64)
        total = int(ends[-1]) if documents else 0
        sizes = [(folder / name).stat().st_size for name in (UPPER, LOWER)]
        if sizes != [4 * total, 2 * total]:
            return None
        upper = map_file(folder / UPPER, np.uint32)
        lower = map_file(folder / LOWER, np.uint16)
        return cls(ends, upper, lower, workers)

    def map_batches(
        self, work: Callable[[PayloadBatch], Result], wanted: np.ndarray | None = None
    ) -> Iterator[Result]:
        """Yields work(batch), as described in `PayloadSource`.

        Args:
            work: Function that is called in a thread.
            wanted: Numbers of the documents whose payloads are needed. By default, all are.
        """

        def build(documents: _Range) -> Result:
            count = documents.end - documents.first
            rows = np.arange(count)
            if wanted is not None:
                rows = wanted_rows(wanted, documents.first, count)
            payload = self._build(documents.first + rows)
            return work(PayloadBatch(documents.first, count, payload))

        yield from ordered_map(build, self._split(), self._workers)

    def _split(self) -> Iterator[_Range]:
        """Yields ranges of documents with a bounded number of hashes."""
        first = 0
        while first < len(self._ends):
            most = self._start_of(first) + HASHES_AT_ONCE
            end = max(first + 1, int(np.searchsorted(self._ends, most, "right")))
            yield _Range(first, end)
            first = end

    def _start_of(self, document: int) -> int:
        return int(self._ends[document - 1]) if document else 0

    def _build(self, documents: np.ndarray) -> Payload:
        """Returns the sets of some documents.

        Args:
            documents: Numbers of the documents, ascending, int64 (m,).
        """
        ends = np.asarray(self._ends[documents])
        starts = np.where(documents > 0, self._ends[documents - 1], 0)
        sizes = ends - starts
        offsets = np.cumsum(sizes) - sizes
        places = np.repeat(starts - offsets, sizes) + np.arange(sizes.sum())
        upper = self._upper[places].astype(np.uint64) << UPPER_BITS
        lower = self._lower[places].astype(np.uint64) << DROPPED_BITS
        return Payload(sizes, (upper | lower,))
