"""What the sketch stage leaves: one row of fixed-width facts for each document, mapped from disk, and its columns."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.ipc

from nearkin.corpus.columns import CARRIED_PREFIX, ID
from nearkin.corpus.text_forms import format_as_readable_text
from nearkin.engine.document_facts import block_hashes
from nearkin.engine.local.work_folder import map_file
from nearkin.sketch.sketcher import EMPTY_STREAM
from nearkin.spec import Spec

CHUNK = 1 << 16
PORTION_BYTES = 8 << 20
UNIQUE = "columns-unique"
"""The columns once repeated ids have been told apart; only there if some were."""
ARRAYS: dict[str, tuple[type[np.generic], int | None]] = {
    "shingles": (np.uint32, None),
    "fingerprints": (np.uint64, 2),
    "lengths": (np.int64, None),
    "files": (np.int32, None),
    "rows": (np.int64, None),
}
"""Type and columns of the fixed-width facts beside signatures."""
KEYS = "band-keys"
"""Keys that were made while slots, or their runners-up, were at hand."""


def arrays_of(spec: Spec, keys: int) -> dict[str, tuple[type[np.generic], int | None]]:
    """File name, type and columns of all fixed-width facts of a Spec's documents."""
    arrays = {"signatures": (spec.signature_type, spec.signature_width), **ARRAYS}
    return {**arrays, KEYS: (np.uint64, keys)} if keys else arrays


class Documents:
    """Documents in corpus order (ordinals); arrays are mapped files, so they cost no anonymous memory."""

    def __init__(self, folder: Path, spec: Spec, key_count: int = 0) -> None:
        self.folder = folder
        found = {
            name: map_file(folder / name, *form)
            for name, form in arrays_of(spec, key_count).items()
        }
        self.signatures, self.shingles, self.fingerprints = (
            found["signatures"],
            found["shingles"],
            found["fingerprints"],
        )
        self.lengths, self.files, self.rows = found["lengths"], found["files"], found["rows"]
        self.keys = found.get(KEYS)
        unique = folder / UNIQUE
        self._columns = read_columns(unique if unique.exists() else folder / "columns")

    def __len__(self) -> int:
        return len(self.shingles)

    @property
    def ids(self) -> pa.ChunkedArray:
        """large_string (n,)."""
        return self._columns[ID]

    @property
    def riding(self) -> pa.Table:
        """The columns that ride along, large_string, under the names that they have in the inputs."""
        names = [name for name in self._columns.column_names if name != ID]
        return self._columns.select(names).rename_columns(
            [name.removeprefix(CARRIED_PREFIX) for name in names]
        )

    @property
    def empty(self) -> np.ndarray:
        """bool (n,): documents without a single shingle, whether or not it was cut."""
        out = self.matchless
        none = np.flatnonzero(out)
        out[none] = (self.fingerprints[none] == EMPTY_STREAM).all(axis=1)
        return out

    @property
    def matchless(self) -> np.ndarray:
        """bool (n,): documents without a shingle to compare: empty ones, and those that are nothing but cut shingles."""
        return np.asarray(self.shingles) == 0

    def id_ranks(self) -> np.ndarray:
        """The rank of each document's id as UTF-8 bytes, uint32 (n,)."""
        ids, n = self.ids, len(self)
        if n < 2 or pc.all(pc.less(ids[:-1], ids[1:])).as_py():
            return np.arange(n, dtype=np.uint32)
        ranks = np.empty(n, np.uint32)
        ranks[pc.sort_indices(ids).to_numpy()] = np.arange(n, dtype=np.uint32)
        return ranks

    def blocks(self, column: str | None) -> np.ndarray:
        """uint64 (n,): a hash of the block column's value as text; documents of different blocks are never compared."""
        if column is None:
            return np.zeros(len(self), np.uint64)
        return np.concatenate(
            [block_hashes(part) for part in portions(self.riding[column])]
            or [np.empty(0, np.uint64)]
        )

    def chunks(self) -> Iterator[tuple[int, int]]:
        """Ranges of ordinals small enough to work on at a time."""
        for start in range(0, len(self), CHUNK):
            yield start, min(start + CHUNK, len(self))


def portions(column: pa.ChunkedArray) -> Iterator[pa.Array]:
    """Yields slices of a column, mapped or not, of about PORTION_BYTES each."""
    for chunk in column.chunks:
        rows = max(1, len(chunk) * PORTION_BYTES // max(chunk.nbytes, 1))
        for start in range(0, len(chunk), rows):
            yield chunk.slice(start, rows)


def take(column: pa.ChunkedArray, ordinals: np.ndarray) -> pa.Array:
    """Returns some values of a mapped column; `ChunkedArray.take` would first bring all chunks together in memory.

    Examples:
        >>> take(pa.chunked_array([["a", "b"], ["c"]]), np.array([2, 0, 2])).to_pylist()
        ['c', 'a', 'c']
    """
    order = np.argsort(ordinals, kind="stable")
    ascending = ordinals[order]
    parts, first = [pa.array([], column.type)], 0
    for chunk in column.chunks:
        low, high = np.searchsorted(ascending, [first, first + len(chunk)])
        if high > low:
            parts.append(chunk.take(pa.array(ascending[low:high] - first)))
        first += len(chunk)
    place = np.empty(len(order), np.int64)
    place[order] = np.arange(len(order))
    return pa.concat_arrays(parts).take(pa.array(place))


def read_columns(folder: Path) -> pa.Table:
    """The id and the columns that ride along, mapped from the segments of the sketch stage."""
    tables = [
        pa.ipc.open_file(pa.memory_map(str(path))).read_all()
        for path in sorted(folder.glob("*.arrow"))
    ]
    if not tables:
        return pa.table({ID: pa.array([], pa.large_string())})
    return pa.concat_tables(map(_in_text, tables))


def _in_text(table: pa.Table) -> pa.Table:
    """Columns of runs that were saved before all of them were text."""
    if all(kind == pa.large_string() for kind in table.schema.types):
        return table
    columns = [
        pa.chunked_array(map(format_as_readable_text, column.chunks), pa.large_string())
        for column in table.columns
    ]
    return pa.table(columns, table.column_names)
