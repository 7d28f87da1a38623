"""Facts of column chunks that contradict each other reject their rows, and end no process."""

import json
import struct
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from nearkin.corpus.formats.parquet_chunks import (
    BYTES,
    CHUNK_METADATA,
    CHUNKS,
    CODEC,
    DEFINITION_LEVELS,
    ENCRYPTION,
    ROW_GROUPS,
    SIZE_STATISTICS,
    ColumnChunks,
)
from nearkin.corpus.formats.parquet_footers import (
    MAGIC,
    STRUCT,
    Field,
    Struct,
    encode_struct,
    read_footer,
)

NUMBER, TEXT = 0, 1
"""The columns of the file."""


def change_sizes(chunk: Struct, field: int, value: Field | None) -> None:
    sizes = chunk[CHUNK_METADATA].value[SIZE_STATISTICS].value
    if value is not None:
        sizes[field] = value
    else:
        sizes[field].value.value.pop()


def write_damaged(path: Path, group: int, damage: str) -> None:
    """Writes a file with three row groups, and damages the footer of one of them."""
    texts = [" ".join(f"w{row}x{place}" for place in range(12)) for row in range(6)]
    pq.write_table(pa.table({"id": range(6), "text": texts}), path, row_group_size=2)
    with path.open("rb") as file:
        end, footer = read_footer(file)
    chunks = footer[ROW_GROUPS].value.value[group][CHUNKS].value.value
    if damage == "levels":
        change_sizes(chunks[TEXT], DEFINITION_LEVELS, None)
    elif damage == "bytes":
        change_sizes(chunks[NUMBER], BYTES, Field(6, 12))
    elif damage == "codec":
        chunks[TEXT][CHUNK_METADATA].value[CODEC] = Field(5, -7)
    else:
        with_column_key = {2: Field(STRUCT, {1: Field(9, Field(8, [b"text"]))})}
        chunks[TEXT][ENCRYPTION] = Field(STRUCT, with_column_key)
    content = encode_struct(footer)
    tail = content + struct.pack("<I", len(content)) + MAGIC
    path.write_bytes(path.read_bytes()[:end] + tail)


REASONS = {
    "levels": "wrong statistics of the sizes",
    "bytes": "wrong statistics of the sizes",
    "codec": "an unknown codec of 'text'",
    "encryption": "is encrypted",
}


@pytest.mark.parametrize("damage", REASONS)
@pytest.mark.parametrize("group", [0, 1])
def test_chunks_that_pyarrow_cannot_read_reject_their_row_group(
    group: int, damage: str, tmp_path: Path
) -> None:
    """The run is a process of its own, because pyarrow would end it."""
    path = tmp_path / "a.parquet"
    write_damaged(path, group, damage)
    out = tmp_path / "out"
    command = ["dedup", str(path), "--id", "id", "--out", str(out)]
    done = subprocess.run(
        [sys.executable, "-m", "nearkin", *command], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    counts = json.loads((out / "run.json").read_text())["counts"]
    assert (counts["kept"], counts["rejected"]) == (4, 2)
    assert REASONS[damage] in (out / "rejected.jsonl").read_text()
    assert pq.read_table(out / "kept" / "a.parquet").num_rows == 4


def test_chunks_of_nested_columns_are_sound(tmp_path: Path) -> None:
    rows = [{"a": [1, 2], "b": {"c": "x", "d": None}}, {"a": [], "b": None}]
    pq.write_table(pa.Table.from_pylist(rows), tmp_path / "a.parquet")
    metadata = pq.read_metadata(tmp_path / "a.parquet")
    count, chunks = ColumnChunks(metadata).of_first_group()
    assert count == 2
    assert [chunk.path_in_schema for chunk in chunks] == ["a.list.element", "b.c", "b.d"]
