"""Repeated ids: `#<path>:<row>` is appended to each id that occurs more than once."""

import shutil
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.ipc

from nearkin.corpus import make_position_ids
from nearkin.engine.document_facts import id_hashes
from nearkin.engine.documents import UNIQUE, Documents
from nearkin.stages.packed_pairs import isin_sorted, sorted_unique


def separate_repeated_ids(documents: Documents, names: Sequence[str]) -> int:
    """Rewrites the columns with unique ids, if ids are repeated.

    Ids are compared by their hashes first, so memory is 8 bytes for each document. Ids with equal
    hashes are compared as text.
    """
    repeated = find_repeated_ids(documents.ids)
    if len(repeated):
        _rewrite_columns(documents, repeated, names)
    return len(repeated)


def find_repeated_ids(ids: pa.ChunkedArray) -> np.ndarray:
    """Returns the positions of ids that occur more than once, sorted, int64."""
    hashes = np.concatenate([id_hashes(chunk) for chunk in ids.chunks] or [np.empty(0, np.uint64)])
    ordered = np.sort(hashes)
    repeated_hashes = sorted_unique(ordered[1:][ordered[1:] == ordered[:-1]])
    if not len(repeated_hashes):
        return np.empty(0, np.int64)
    suspects = np.flatnonzero(isin_sorted(hashes, repeated_hashes))
    suspect_ids = ids.take(pa.array(suspects))
    counts = pc.value_counts(suspect_ids)
    repeated_ids = counts.field("values").filter(pc.greater(counts.field("counts"), 1))
    return suspects[pc.is_in(suspect_ids, repeated_ids).to_numpy()]


def _rewrite_columns(documents: Documents, repeated: np.ndarray, names: Sequence[str]) -> None:
    """Writes all segments to a new folder, which one rename moves to its place."""
    target = documents.folder / UNIQUE
    staged = documents.folder / f"{UNIQUE}.tmp"
    shutil.rmtree(staged, ignore_errors=True)
    staged.mkdir()
    first = 0
    for path in sorted((documents.folder / "columns").glob("*.arrow")):
        with pa.memory_map(str(path)) as source:
            table = pa.ipc.open_file(source).read_all()
            low, high = np.searchsorted(repeated, [first, first + len(table)])
            unique = _with_unique_ids(table, repeated[low:high], first, documents, names)
            _write_segment(staged / path.name, unique)
            first += len(table)
    staged.rename(target)


def _with_unique_ids(
    table: pa.Table, repeated: np.ndarray, first: int, documents: Documents, names: Sequence[str]
) -> pa.Table:
    if not len(repeated):
        return table
    files = np.asarray(documents.files[repeated])
    rows = np.asarray(documents.rows[repeated])
    places = make_position_ids(files, rows, names)
    is_repeated = np.zeros(len(table), bool)
    is_repeated[repeated - first] = True
    mask = pa.array(is_repeated)
    ids = pa.concat_arrays(table["id"].chunks)
    separator = pa.scalar("#", pa.large_string())
    unique = pc.binary_join_element_wise(ids.filter(mask), places, separator)
    column = table.schema.get_field_index("id")
    return table.set_column(column, "id", pc.replace_with_mask(ids, mask, unique))


def _write_segment(path: Path, table: pa.Table) -> None:
    with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table)
