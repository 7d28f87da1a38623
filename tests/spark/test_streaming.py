"""Structured Streaming into an index: nothing happens twice after an interruption."""

import os
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

import nearkin as nk
from nearkin import spark as nks
from nearkin.errors import UsageError


def test_interrupted_stream_continues_without_repetitions(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second micro-batch is done, but unknown to Spark.

    After the restart the index is as if nothing had been.
    """
    url = f"sqlite:///{tmp_path / 'kin.db'}"
    words = [f"word{number % 17}" for number in range(300)]
    texts = [" ".join(words[number % 23 : number % 23 + 30 + number % 3]) for number in range(90)]
    some = pa.table({"id": [f"d{number}" for number in range(90)], "text": texts})
    (tmp_path / "in").mkdir()
    for number in range(3):
        file = tmp_path / "in" / f"{number}.parquet"
        pq.write_table(some.slice(30 * number, 30), file)
        # Spark reads files in the order of their times, which can be equal otherwise.
        os.utime(file, (1_700_000_000 + number, 1_700_000_000 + number))
    nk.Index.open(url, threshold=0.7).close()
    real, calls = nk.Index.upsert_many, []

    def failing(self: Any, *arguments: Any) -> Any:
        calls.append(arguments)
        done = real(self, *arguments)
        if len(calls) == 2:
            raise ConnectionError("the connection went away")
        return done

    monkeypatch.setattr(nk.Index, "upsert_many", failing)
    upserts = nks.StreamUpserts(url, scope="code", rejected=str(tmp_path / "rejected"))

    def run_stream() -> None:
        stream = (
            spark.readStream.schema("id string, text string")
            .option("maxFilesPerTrigger", 1)
            .parquet(str(tmp_path / "in"))
        )
        writing = stream.writeStream.foreachBatch(upserts).option(
            "checkpointLocation", str(tmp_path / "checkpoint")
        )
        writing.trigger(availableNow=True).start().awaitTermination()

    with pytest.raises(PySparkException, match="the connection went away"):
        run_stream()
    run_stream()
    assert [len(texts) for _, texts, _ in calls] == [30, 30, 30, 30]
    assert calls[1] == calls[2]
    with nk.Index.open(url) as index, nk.Index.open("memory://", threshold=0.7) as straight:
        order = [
            sorted(some.slice(30 * number, 30).to_pylist(), key=lambda row: str(row["id"]))
            for number in range(3)
        ]
        rows = [row for part in order for row in part]
        for row in rows:
            straight.upsert("code", row["text"], id=row["id"])
        for row in rows:
            mine, theirs = index.get("code", row["id"]), straight.get("code", row["id"])
            assert mine is not None
            assert theirs is not None
            assert (mine.leader, mine.cluster, mine.similarity) == (
                theirs.leader,
                theirs.cluster,
                theirs.similarity,
            )
        assert index.counts()["records"] == 90


def test_a_stream_needs_texts(spark: SparkSession, tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'kin.db'}"
    nk.Index.open(url, threshold=0.7).close()
    batch = spark.createDataFrame([("a", None), ("b", "x y z")], "id string, text string")
    with pytest.raises(UsageError, match="document 'a' of micro-batch 7 has no text"):
        nks.StreamUpserts(url)(batch, 7)
    nks.StreamUpserts(url, rejected=str(tmp_path / "rejected"))(batch, 7)
    assert pq.read_table(tmp_path / "rejected").to_pylist()[0]["reason"] == "text is null"
    dotted = spark.createDataFrame([("", None)], "`my.id` string, `my.text` string")
    with pytest.raises(UsageError, match="document '' of micro-batch 8 has no text"):
        nks.StreamUpserts(url, id="my.id", text="my.text")(dotted, 8)
