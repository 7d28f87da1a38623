"""Ids of documents: those of the id column, the positions of the rows, or those of a list."""

import csv
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from nearkin.corpus.batches import Batch
from nearkin.corpus.columns import ID, Columns
from nearkin.corpus.text_forms import format_as_text
from nearkin.errors import UsageError


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


def read_ids(path: Path, column: str) -> list[str]:
    """Returns the ids of a file in its order, without empty ones.

    CSV and Parquet files have them in a column, and other files one on each line.
    """
    suffix = path.suffix.lower()
    try:
        if suffix in (".parquet", ".pq"):
            stored = pq.read_table(path, columns=[column])[column].combine_chunks()
            ids = format_as_text(stored).to_pylist()
        elif suffix in (".csv", ".tsv"):
            ids = _read_csv_ids(path, column, "\t" if suffix == ".tsv" else ",")
        else:
            ids = path.read_text("utf-8-sig").split("\n")
    except (OSError, ValueError, pa.ArrowException, csv.Error) as error:
        raise UsageError(f"cannot read the ids in {path}: {error}") from error
    return [id for id in ids if id]


def _read_csv_ids(path: Path, column: str, delimiter: str) -> list[str]:
    """Returns the values of a column."""
    with path.open(encoding="utf-8-sig", newline="") as file:
        rows = csv.DictReader(file, delimiter=delimiter)
        names = list(rows.fieldnames or ())
        if column not in names:
            raise UsageError(f"{path} has no column {column!r}, the column of ids (it has {names})")
        return [row[column] for row in rows]
