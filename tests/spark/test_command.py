"""`nearkin dedup --executor spark` writes what it writes with threads."""

import gc
import os
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as sql

from nearkin.corpus import Columns, FileCorpus
from tests.cli.conftest import run
from tests.corpus.object_storage import CREDENTIALS, serve_storage
from tests.engine.test_executors import read_output
from tests.spark.conftest import DOCUMENTS


def test_output_is_that_of_threads(spark: SparkSession, tmp_path: Path) -> None:
    pq.write_table(pa.Table.from_pylist(DOCUMENTS), tmp_path / "docs.parquet")
    outputs = []
    for executor in ("threads", "spark"):
        out = tmp_path / executor
        line = ("dedup", tmp_path / "docs.parquet", "--id", "id", "--threshold", "0.6")
        options = ("--save-signatures", "--codec", "zstd", "--executor", executor, "--out", out)
        assert run(*line, *options, "-q") == 0
        assert run(*line, *options, "-q", "--resume") == 0
        files = ("clusters.parquet", "pairs.parquet", "kept/docs.parquet", "rejected.jsonl")
        outputs.append([(out / name).read_bytes() for name in files])
    assert outputs[0] == outputs[1]
    # the session that was open before the command stays open
    assert spark.range(3).count() == 3


def test_output_through_an_object_store_is_that_of_threads(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("nearkin.engine.run.SMALL_CORPUS", 0)
    pq.write_table(pa.Table.from_pylist(DOCUMENTS), tmp_path / "docs.parquet")
    line = ("dedup", tmp_path / "docs.parquet", "--id", "id", "--threshold", "0.6", "-q")
    assert run(*line, "--out", tmp_path / "threads") == 0
    with serve_storage(monkeypatch) as storage:
        # processes of Spark that run already have other variables
        for name in ("AWS_ENDPOINT_URL", *CREDENTIALS):
            monkeypatch.setitem(spark.sparkContext.environment, name, os.environ[name])
        (tmp_path / "copies").mkdir()
        monkeypatch.setitem(spark.sparkContext.environment, "TMPDIR", str(tmp_path / "copies"))
        options = ("--executor", "spark", "--exchange", "s3://bucket/tmp")
        assert run(*line, *options, "--out", tmp_path / "spark") == 0
        gc.collect()
        assert set(storage.objects) <= {"bucket/tmp/"}
        assert len(list((tmp_path / "copies").glob("nearkin-work-*"))) == 1
    assert read_output(tmp_path / "spark") == read_output(tmp_path / "threads")


def test_pages_of_differences_after_a_dictionary_with_a_long_text_are_read(
    spark: SparkSession, tmp_path: Path
) -> None:
    """Version 2 of the pages that Spark writes, for texts of which only the first are repeated."""
    number = sql.col("id")
    repeated = sql.concat(sql.lit("text "), number % 50, sql.repeat(sql.lit(" a"), 500))
    text = (
        sql.when(number % 1000 == 7, sql.repeat(sql.lit("word "), 120_000))
        .when(number < 2000, repeated)
        .otherwise(sql.concat(number, sql.repeat(sql.lit(" next"), 20_000)))
    )
    rows = spark.range(0, 2040, 1, 1).select(text.alias("text"))
    rows.write.option("parquet.writer.version", "PARQUET_2_0").parquet(str(tmp_path / "docs"))
    (path,) = (tmp_path / "docs").glob("*.parquet")
    encodings = pq.read_metadata(path).row_group(0).column(0).encodings
    assert {"RLE_DICTIONARY", "DELTA_BYTE_ARRAY"} <= set(encodings)
    batches = list(FileCorpus.open([str(path)]).batches(Columns()))
    assert [entry for batch in batches for entry in batch.rejected] == []
    texts = [text for batch in batches for text in batch.documents["text"].to_pylist()]
    assert texts == pq.read_table(path)["text"].to_pylist()
