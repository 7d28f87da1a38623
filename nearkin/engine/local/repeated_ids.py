"""Ids that occur more than once are told apart: `#<path>:<row>` is appended to every occurrence."""

import shutil
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.ipc

from nearkin.corpus import make_position_ids
from nearkin.engine.document_facts import id_hashes
from nearkin.engine.local.documents import UNIQUE, Documents
from nearkin.packed_pairs import isin_sorted, sorted_unique


def separate_repeated_ids(documents: Documents, names: Sequence[str]) -> int:
    """Writes the columns anew where ids are repeated; returns how many documents had one that is.

    Ids are compared by their hashes first, so memory is 8 bytes a document; equal hashes are confirmed on the ids.
    """
    repeated = repeated_ids(documents.ids)
    if len(repeated):
        _rewrite(documents, repeated, names)
    return len(repeated)


def repeated_ids(ids: pa.ChunkedArray) -> np.ndarray:
    """Positions of ids that occur more than once, int64, sorted."""
    hashes = np.concatenate([id_hashes(chunk) for chunk in ids.chunks] or [np.empty(0, np.uint64)])
    ordered = np.sort(hashes)
    twice = sorted_unique(ordered[1:][ordered[1:] == ordered[:-1]])
    if not len(twice):
        return np.empty(0, np.int64)
    suspects = np.flatnonzero(isin_sorted(hashes, twice))
    counts = pc.value_counts(ids.take(pa.array(suspects)))
    often = counts.field("values").filter(pc.greater(counts.field("counts"), 1))
    return suspects[pc.is_in(ids.take(pa.array(suspects)), often).to_numpy()]


def _rewrite(documents: Documents, repeated: np.ndarray, names: Sequence[str]) -> None:
    """All segments into a new folder, put in place by one rename."""
    target = documents.folder / UNIQUE
    staged = documents.folder / f"{UNIQUE}.tmp"
    shutil.rmtree(staged, ignore_errors=True)
    staged.mkdir()
    first = 0
    for path in sorted((documents.folder / "columns").glob("*.arrow")):
        with pa.memory_map(str(path)) as source:
            table = pa.ipc.open_file(source).read_all()
            low, high = np.searchsorted(repeated, [first, first + len(table)])
            _write(staged / path.name, _renamed(table, repeated[low:high], first, documents, names))
            first += len(table)
    staged.rename(target)


def _renamed(
    table: pa.Table, repeated: np.ndarray, first: int, documents: Documents, names: Sequence[str]
) -> pa.Table:
    if not len(repeated):
        return table
    places = make_position_ids(
        np.asarray(documents.files[repeated]), np.asarray(documents.rows[repeated]), names
    )
    mask = np.zeros(len(table), bool)
    mask[repeated - first] = True
    ids = pa.concat_arrays(table["id"].chunks)
    told_apart = pc.binary_join_element_wise(
        ids.filter(pa.array(mask)), places, pa.scalar("#", pa.large_string())
    )
    return table.set_column(
        table.schema.get_field_index("id"),
        "id",
        pc.replace_with_mask(ids, pa.array(mask), told_apart),
    )


def _write(path: Path, table: pa.Table) -> None:
    with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table)
