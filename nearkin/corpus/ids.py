"""Ids of documents: those of the id column, or the positions of the rows."""

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from nearkin.corpus.batches import Batch
from nearkin.corpus.columns import ID, Columns


def make_ids(batch: Batch, columns: Columns, names: Sequence[str]) -> pa.Array:
    """Returns the ids of the documents of a batch, large_string (n,).

    Examples:
        >>> rows = pa.record_batch([pa.array(["x", "y"], pa.large_string())], ["text"])
        >>> batch = Batch(0, np.zeros(2, np.int32), np.array([0, 7]), rows, (), (0, 8))
        >>> make_ids(batch, Columns(), ["a/b.jsonl"]).to_pylist()
        ['a/b.jsonl:0000000000', 'a/b.jsonl:0000000007']
    """
    if columns.id is not None:
        return batch.documents[ID]
    return make_position_ids(batch.files, batch.rows, names)


def make_position_ids(files: np.ndarray, rows: np.ndarray, names: Sequence[str]) -> pa.Array:
    """Returns ids of the form `<path>:<row, 10 digits>`, or of the row alone if the path is empty.

    `files` are the numbers of the files, integers (n,), and `rows` the rows in them. The ids are
    large_string (n,).
    """
    digits = pc.utf8_lpad(pa.array(rows).cast(pa.large_string()), 10, "0")
    present, codes = np.unique(files, return_inverse=True)
    prefixes = pa.array(
        [f"{names[file]}:" if names[file] else "" for file in present.tolist()], pa.large_string()
    )
    return pc.binary_join_element_wise(
        prefixes.take(pa.array(codes)), digits, pa.scalar("", pa.large_string())
    )
