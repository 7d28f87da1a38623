"""Tests of columns whose values are encoded as dictionaries or runs."""

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.ipc
import pyarrow.parquet as pq
import pytest

from nearkin.corpus import Columns, FileCorpus, TableCorpus
from tests.corpus.samples import LIMIT


@pytest.mark.parametrize("form", ["parquet", "arrow", "table"])
@pytest.mark.parametrize("role", ["text", "id", "source"])
def test_dictionary_is_not_decoded_beyond_the_limit(form: str, role: str, tmp_path: Path) -> None:
    """Rows with more bytes than a document can have are rejected, and the others are read."""
    values = pa.DictionaryArray.from_arrays(
        pa.array([0, 1, 0, 2], pa.int32()), pa.array(["fine", "x" * (LIMIT + 1), "also"])
    )
    plain = pa.array(["a", "b", "c", "d"])
    table = pa.table(
        {"text": values if role == "text" else plain, "other": plain if role == "text" else values}
    )
    columns = Columns(
        id="other" if role == "id" else None,
        carried_columns=("other",) if role == "source" else (),
        document_limit=LIMIT,
    )
    if form == "table":
        corpus: Any = TableCorpus(table)
    else:
        path = tmp_path / f"a.{form}"
        if form == "parquet":
            pq.write_table(table, path)
        else:
            with pa.ipc.new_file(path, table.schema) as writer:
                writer.write_table(table)
        corpus = FileCorpus.open([str(path)])
    batches = list(corpus.batches(columns))
    assert [row for batch in batches for row in batch.rows.tolist()] == [0, 2, 3]
    rejected = [entry for batch in batches for entry in batch.rejected]
    assert [entry.row for entry in rejected] == [1]
    assert "longer than 100,000 bytes" in rejected[0].reason


@pytest.mark.parametrize("encode", [pa.Array.dictionary_encode, pc.run_end_encode])
def test_encoded_column_of_more_than_two_gigabytes_is_read(encode: Any) -> None:
    """Only some megabytes of the 2.4 GB that the rows represent are decoded at a time."""
    values = encode(pa.array(["x" * 1_000_000] * 2))
    places = np.zeros(2400, np.int32)
    if pa.types.is_dictionary(values.type):
        column = pa.DictionaryArray.from_arrays(places, values.dictionary)
    else:
        column = pa.RunEndEncodedArray.from_arrays(
            pa.array([2400], pa.int32()), values.values.slice(0, 1)
        )
    rows = 0
    for batch in TableCorpus(pa.table({"text": column})).batches(Columns()):
        assert batch.documents.nbytes <= 32 << 20
        rows += len(batch.rows)
    assert rows == 2400
