"""The texts of the documents that may hold an item, in a file, so that few are read again."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa

from nearkin.stages.packed_pairs import isin_sorted

DOCUMENT = "document"
TEXT = "text"
CANDIDATE_TEXTS = pa.schema([(DOCUMENT, pa.int64()), (TEXT, pa.large_string())])


class CandidateTextWriter:
    """A writer of the texts of candidates, in the order of their numbers.

    The file has a bound, because a corpus can consist of candidates. The texts of candidates after
    the first batch that does not fit are left out.

    Args:
        limit: Largest size of all texts, in bytes.
    """

    def __init__(self, path: Path, limit: int) -> None:
        self._room = limit
        self._sink = pa.OSFile(str(path), "wb")
        self._writer = pa.ipc.new_file(self._sink, CANDIDATE_TEXTS)

    def __enter__(self) -> "CandidateTextWriter":
        return self

    def __exit__(self, *_: object) -> None:
        self._writer.close()
        self._sink.close()

    def add(self, texts: pa.Array, first: int, numbers: np.ndarray) -> None:
        """Appends the candidates, int64 (m,) ascending, among the texts of a batch."""
        if not self._room or not len(numbers):
            return
        chosen = texts.take(pa.array(numbers - first))
        if chosen.nbytes > self._room:
            self._room = 0
            return
        self._room -= chosen.nbytes
        columns = [pa.array(numbers), chosen]
        self._writer.write_batch(pa.record_batch(columns, schema=CANDIDATE_TEXTS))


def read_candidate_texts(path: Path, numbers: np.ndarray) -> Iterator[pa.Array]:
    """Yields the texts of those documents, int64 (m,) ascending, that are in a file, in batches."""
    with pa.memory_map(str(path)) as source:
        table = pa.ipc.open_file(source).read_all()
    for batch in table.to_batches():
        rows = np.flatnonzero(isin_sorted(batch[DOCUMENT].to_numpy(), numbers))
        if len(rows):
            yield batch[TEXT].take(pa.array(rows))
