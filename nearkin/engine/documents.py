"""The documents that the sketch stage wrote: a row of facts for each document, mapped from disk."""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.ipc

from nearkin.corpus.columns import CARRIED_PREFIX, ID, carried_column_name
from nearkin.corpus.text_forms import format_as_readable_text
from nearkin.engine.document_facts import TextFact, compared_value_hashes, value_hashes
from nearkin.engine.work_folder import map_file
from nearkin.runtime.arrow_portions import iterate_portions
from nearkin.settings.spec import Spec
from nearkin.stages.cluster.id_order import rank_ids
from nearkin.stages.sketch.sketcher import EMPTY_STREAM

DOCUMENTS_PER_CHUNK = 1 << 16
UNIQUE = "columns-unique"
"""The folder of the columns with unique ids. It exists only if ids were repeated."""
ARRAYS: dict[str, tuple[type[np.generic], int | None]] = {
    "shingles": (np.uint32, None),
    "fingerprints": (np.uint64, 2),
    "lengths": (np.int64, None),
    "files": (np.int32, None),
    "rows": (np.int64, None),
}
"""The type and the width of the facts of fixed size, besides signatures."""
COLUMNS = "columns"
"""The folder of the ids and the carried columns."""
KEYS = "band-keys"
"""The file of the band keys that were built while sketching."""


def signatures_file(number: int) -> str:
    """Returns the name of the file with the signatures of one of several candidate fields."""
    return f"signatures-{number}" if number else "signatures"


def presence_file(number: int) -> str:
    """Returns the name of the file that says which documents have a candidate field."""
    return f"has-field-{number}"


def arrays_of(
    spec: Spec,
    key_count: int,
    *,
    text_facts: Sequence[TextFact] = (),
    further: Sequence[Spec] = (),
) -> dict[str, tuple[type[np.generic], int | None]]:
    """Returns the file name, the type and the width of all facts of fixed size."""
    arrays = {"signatures": (spec.signature_type, spec.signature_width), **ARRAYS}
    if key_count:
        arrays[KEYS] = (np.uint64, key_count)
    for fact in text_facts:
        arrays[fact] = (np.uint64, 2)
    if further:
        arrays[presence_file(0)] = (np.uint8, None)
    for number, field_spec in enumerate(further, start=1):
        arrays[signatures_file(number)] = (
            field_spec.signature_type,
            field_spec.signature_width,
        )
        arrays[presence_file(number)] = (np.uint8, None)
    return arrays


class Documents:
    """The sketched documents, in corpus order.

    Arrays are mapped files, so they take no anonymous memory.
    """

    def __init__(
        self,
        folder: Path,
        spec: Spec,
        key_count: int = 0,
        carried: Sequence[str] = (),
        further: Sequence[Spec] = (),
    ) -> None:
        self.folder = folder
        self._opened_with = (folder, spec, key_count, carried, further)
        arrays = {
            name: map_file(folder / name, dtype, width)
            for name, (dtype, width) in arrays_of(spec, key_count, further=further).items()
        }
        self.signatures = arrays["signatures"]
        """The signatures, (n, width)."""
        self.shingles = arrays["shingles"]
        """The number of shingles of each document, uint32 (n,)."""
        self.fingerprints = arrays["fingerprints"]
        """The content hash of each document, uint64 (n, 2)."""
        self.lengths = arrays["lengths"]
        """The size of each text in bytes, int64 (n,)."""
        self.files = arrays["files"]
        """The number of each document's file, int32 (n,)."""
        self.rows = arrays["rows"]
        """The row of each document in its file, int64 (n,)."""
        self.keys = arrays.get(KEYS)
        """The band keys that were built while sketching, uint64 (n, key_count), or None."""
        self.text_facts = {
            fact: map_file(folder / fact, np.uint64, 2)
            for fact in TextFact
            if (folder / fact).exists()
        }
        """The hashes of what an acceptance compares of the wordings, uint64 (n, 2) each."""
        self.arrays = arrays
        """All facts of fixed size that a run needs, by the names of their files."""
        unique = folder / UNIQUE
        self._columns = read_columns(unique if unique.exists() else folder / COLUMNS, carried)

    def __reduce__(self) -> tuple[type["Documents"], tuple[object, ...]]:
        return Documents, self._opened_with

    def __len__(self) -> int:
        return len(self.shingles)

    def read_array(self, name: str) -> np.ndarray:
        """Returns a fact of fixed size of all documents, (n,) or (n, width)."""
        if name in self.text_facts:
            return self.text_facts[TextFact(name)]
        return self.arrays[name]

    def have_field(self, number: int) -> np.ndarray:
        """Returns which documents have one of the fields that find candidate pairs, bool (n,).

        All documents have it if there is only one.
        """
        presence = self.arrays.get(presence_file(number))
        if presence is None:
            return np.ones(len(self), bool)
        return np.asarray(presence, bool)

    @property
    def ids(self) -> pa.ChunkedArray:
        """The ids, large_string (n,)."""
        return self._columns[ID]

    @property
    def carried(self) -> pa.Table:
        """The carried columns, large_string, under the names that they have in the inputs."""
        names = [name for name in self._columns.column_names if name != ID]
        originals = [name.removeprefix(CARRIED_PREFIX) for name in names]
        return self._columns.select(names).rename_columns(originals)

    @property
    def empty(self) -> np.ndarray:
        """A mask of the documents without shingles before the frequency cut, bool of shape (n,)."""
        is_empty = self.matchless
        without_shingles = np.flatnonzero(is_empty)
        fingerprints = self.fingerprints[without_shingles]
        is_empty[without_shingles] = (fingerprints == EMPTY_STREAM).all(axis=1)
        return is_empty

    @property
    def matchless(self) -> np.ndarray:
        """A mask of the documents without shingles to compare, bool of shape (n,).

        Such a document is empty, or the frequency cut removed all its shingles.
        """
        return np.asarray(self.shingles) == 0

    def id_ranks(self) -> np.ndarray:
        """Returns the rank of each id, uint32 (n,)."""
        return rank_ids(self.ids)

    def hash_values(self, column: str | None) -> np.ndarray:
        """Returns a hash of each document's value of a carried column, uint64 (n,)."""
        return self._hash_column(column, value_hashes)

    def hash_compared_values(self, column: str) -> np.ndarray:
        """Returns a hash of each document's value of a column of an acceptance, uint64 (n,)."""
        return self._hash_column(column, compared_value_hashes)

    def _hash_column(
        self, column: str | None, hash_portion: Callable[[pa.Array], np.ndarray]
    ) -> np.ndarray:
        # Without documents, no segment says which columns there are.
        if column is None or not len(self):
            return np.zeros(len(self), np.uint64)
        parts = [hash_portion(part) for part in iterate_portions(self.carried[column])]
        return np.concatenate(parts or [np.empty(0, np.uint64)])

    def chunks(self) -> Iterator[tuple[int, int]]:
        """Yields ranges of documents that are small enough to process at a time."""
        for start in range(0, len(self), DOCUMENTS_PER_CHUNK):
            yield start, min(start + DOCUMENTS_PER_CHUNK, len(self))


def take_values(column: pa.ChunkedArray, ordinals: np.ndarray) -> pa.Array:
    """Returns some values of a mapped column.

    `ChunkedArray.take` would copy all chunks into memory first.

    Args:
        ordinals: Positions of the values, int64 (m,), in any order.

    Examples:
        >>> take_values(pa.chunked_array([["a", "b"], ["c"]]), np.array([2, 0, 2])).to_pylist()
        ['c', 'a', 'c']
    """
    order = np.argsort(ordinals, kind="stable")
    ascending = ordinals[order]
    parts = [pa.array([], column.type)]
    first = 0
    for chunk in column.chunks:
        low, high = np.searchsorted(ascending, [first, first + len(chunk)])
        if high > low:
            parts.append(chunk.take(pa.array(ascending[low:high] - first)))
        first += len(chunk)
    places = np.empty(len(order), np.int64)
    places[order] = np.arange(len(order))
    return pa.concat_arrays(parts).take(pa.array(places))


def read_columns(folder: Path, carried: Sequence[str]) -> pa.Table:
    """Returns the ids and the carried columns, mapped from the segments of the sketch stage."""
    tables = [
        pa.ipc.open_file(pa.memory_map(str(path))).read_all()
        for path in sorted(folder.glob("*.arrow"))
    ]
    if not tables:
        names = (ID, *map(carried_column_name, carried))
        return pa.table({name: pa.array([], pa.large_string()) for name in names})
    return pa.concat_tables(map(_as_text, tables))


def _as_text(table: pa.Table) -> pa.Table:
    """Converts columns of runs that were saved before all carried columns were text."""
    if all(kind == pa.large_string() for kind in table.schema.types):
        return table
    columns = [
        pa.chunked_array(map(format_as_readable_text, column.chunks), pa.large_string())
        for column in table.columns
    ]
    return pa.table(columns, table.column_names)
