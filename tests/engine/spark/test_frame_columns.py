"""Columns of a DataFrame by their paths, in the roles and with the values of the local engine."""

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

import nearkin as nk
from nearkin import spark as nks
from nearkin.engine.spark.frame_columns import read_column
from nearkin.errors import UsageError
from tests.corpus.test_nested_columns import CHATS, TABLE
from tests.engine.spark.conftest import rows_of


def test_paths_into_columns_are_those_of_the_local_engine(
    spark: SparkSession, tmp_path: Path
) -> None:
    path = tmp_path / "chats.parquet"
    pq.write_table(TABLE, path)
    frame = spark.read.parquet(str(path))
    paths = ("meta.lang", "meta.score", "messages.role", "messages.content", "messages.ids")
    rows = frame.orderBy("id").select(*(read_column(frame, name) for name in paths)).collect()
    assert [tuple(row) for row in rows][::2] == [
        ("en", 0.0, "user\nbot", f"{CHATS[0]['messages'][0]['content']}\nan answer", [0, 1, 2]),
        ("de", 3.0, "user\nbot", f"{CHATS[2]['messages'][0]['content']}\nan answer", [2, 1, 2]),
    ]
    assert tuple(rows[3]) == (None, None, None, None, None)
    options = {
        "text": "messages.content",
        "id": "meta.key",
        "keep": "meta.score desc",
        "block_by": "meta.lang",
    }
    local = nk.dedup(TABLE, **options)
    with nks.dedup(frame, **options) as result:
        assert rows_of(result.clusters.toArrow()) == rows_of(local.clusters.arrow)
        kept = pa.Table.from_pylist([row.asDict(recursive=True) for row in result.kept.collect()])
    assert sorted(kept["id"].to_pylist()) == [1, 2]
    assert kept["messages"].to_pylist()[0] == CHATS[kept["id"].to_pylist()[0]]["messages"]
    with pytest.raises(UsageError, match=r"did you mean 'messages\.content'"):
        nks.dedup(frame, text="messages.contents", id="id")
    with pytest.raises(UsageError, match="inside another column"):
        nks.dedup(frame, text="messages.content", id="meta.key", passages=5, cut_unit="passage")
