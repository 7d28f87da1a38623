"""`nearkin dedup --executor spark` writes what it writes with threads."""

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import SparkSession

from tests.cli.conftest import run
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
