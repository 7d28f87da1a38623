"""One Spark session for all tests of the folder, in a small heap, and real text to deduplicate."""

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame, SparkSession

from nearkin.lab.demo_corpus import write_source_corpus
from tests.services import program

CONF = {
    # A task that is killed is tried again, which Spark on one machine does only if told so.
    "spark.master": "local[2,4]",
    # The heap of driver and workers: data that is collected to the driver would not fit.
    "spark.driver.memory": "512m",
    # In the 48 MB that one tier of compilation reserves, compiled code is dropped and made again.
    "spark.driver.extraJavaOptions": (
        "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=256m -XX:+UseSerialGC"
    ),
    "spark.sql.shuffle.partitions": "2",
    # Plans are small here: compiling them takes longer than interpreting them.
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.session.timeZone": "UTC",
    "spark.log.level": "OFF",
}


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    program("java")
    os.environ["PYSPARK_PYTHON"] = sys.executable
    builder = SparkSession.builder.appName("nearkin tests")
    for name, value in CONF.items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    yield session
    session.stop()


def make_code(folder: Path, documents: int) -> pa.Table:
    """Returns functions and classes of this Python, with copies, an empty one, and columns to sort,
    block and compare by."""
    path = folder / "code.parquet"
    write_source_corpus(path, limit=documents)
    table = pq.read_table(path)
    rng = np.random.default_rng(5)
    copied = rng.permutation(len(table))[:100]
    rows = table.to_pylist()
    for number, at in enumerate(copied.tolist()):
        text = rows[at]["text"]
        edited = text.upper() if number % 2 else f"{text}\n# edited {number}"
        rows.append({**rows[at], "id": f"copy/{number}", "text": edited})
    rows.append({**rows[0], "id": "empty", "text": " \n"})
    n = len(rows)
    vectors = rng.normal(size=(n, 24))
    vectors[n // 2 :] = vectors[: n - n // 2] + rng.normal(scale=0.05, size=(n - n // 2, 24))
    hashes = np.random.default_rng(6).integers(0, 2**63, n, dtype=np.uint64)
    hashes[n // 2 :] = hashes[: n - n // 2] ^ (np.uint64(1) << (hashes[n // 2 :] % np.uint64(9)))
    scores = [
        None if i % 7 == 0 else float("nan") if i % 11 == 0 else float(i % 5) for i in range(n)
    ]
    more = {
        "words": [row["text"].split() for row in rows],
        "vector": pa.array(list(vectors.astype(np.float32)), pa.list_(pa.float32())),
        "hash": [None if i % 50 == 3 else f"{value:016x}" for i, value in enumerate(hashes)],
        "score": pa.array(scores, pa.float64()),
        "stamp": [None if i % 13 == 0 else str(i % 9 + 5) for i in range(n)],
    }
    whole = pa.Table.from_pylist(rows)
    for name, values in more.items():
        whole = whole.append_column(name, pa.array(values) if isinstance(values, list) else values)
    return whole.take(rng.permutation(n))


@pytest.fixture(scope="session")
def code(tmp_path_factory: pytest.TempPathFactory) -> pa.Table:
    return make_code(tmp_path_factory.mktemp("code"), 1200)


@pytest.fixture(scope="session")
def frame(
    spark: SparkSession, code: pa.Table, tmp_path_factory: pytest.TempPathFactory
) -> DataFrame:
    """The same as a DataFrame."""
    path = tmp_path_factory.mktemp("frame") / "code.parquet"
    pq.write_table(code, path)
    return spark.read.parquet(str(path))


def rows_of(clusters: pa.Table) -> list[dict[str, Any]]:
    """Returns the rows by id."""
    return sorted(clusters.to_pylist(), key=lambda row: str(row["id"]))
