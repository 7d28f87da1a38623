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

from nearkin.quality.lab.demo_corpus import write_source_corpus
from tests.services import program

CONF = {
    # A task that is killed is tried again, which Spark on one machine does only if told so.
    "spark.master": "local[2,4]",
    # A small first heap would be collected a hundred times.
    "spark.driver.extraJavaOptions": (
        # In the 48 MB that one tier of compilation reserves, compiled code is dropped, and made
        # again.
        "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=256m -XX:+UseSerialGC "
        "-Xms512m -Xmn220m -XX:MetaspaceSize=256m "
        # Classes of Spark itself need no verification.
        "-XX:+UnlockDiagnosticVMOptions -XX:-BytecodeVerificationRemote"
    ),
    # The heap of driver and workers: data that is collected to the driver would not fit.
    "spark.driver.memory": "512m",
    "spark.sql.shuffle.partitions": "2",
    # Plans are small here: compiling them takes longer than interpreting them.
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.session.timeZone": "UTC",
    "spark.log.level": "OFF",
}
QUICK = {
    # One worker, which imports nearkin and loads kernels once.
    "spark.master": "local[1,4]",
    "spark.sql.shuffle.partitions": "1",
    # Without native libraries, Hadoop starts chmod for each file, those of checksums included.
    "spark.hadoop.fs.file.impl": "org.apache.hadoop.fs.RawLocalFileSystem",
    "spark.hadoop.mapreduce.fileoutputcommitter.marksuccessfuljobs": "false",
    # Reads columns in the thread of the task, not in one thread for each.
    "spark.hadoop.parquet.hadoop.vectored.io.enabled": "false",
    # Each change of a plan is described for the web interface, which is off.
    "spark.sql.ui.explainMode": "simple",
    "spark.sql.maxPlanStringLength": "100",
}
"""Settings of the quick form of the suite, which spends its time on many small tasks and files."""


@pytest.fixture(scope="session")
def spark(full: bool) -> Iterator[SparkSession]:
    program("java")
    os.environ["PYSPARK_PYTHON"] = sys.executable
    builder = SparkSession.builder.appName("nearkin tests")
    for name, value in (CONF if full else CONF | QUICK).items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    yield session
    session.stop()


@pytest.fixture
def three_partitions(spark: SparkSession) -> Iterator[None]:
    """Distributes the rows over three tasks after each shuffle, however few they are."""
    settings = {
        "spark.sql.shuffle.partitions": "3",
        "spark.sql.adaptive.coalescePartitions.enabled": "false",
    }
    previous = {name: spark.conf.get(name) for name in settings}
    for name, value in settings.items():
        spark.conf.set(name, value)
    yield
    for name, previous_value in previous.items():
        spark.conf.set(name, str(previous_value))


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
    # Every third pair of fingerprints is related only.
    hashes[n // 2 :: 3] ^= np.uint64(0b1111 << 20)
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
def code(tmp_path_factory: pytest.TempPathFactory, full: bool) -> pa.Table:
    return make_code(tmp_path_factory.mktemp("code"), 1200 if full else 400)


@pytest.fixture(scope="session")
def frame(
    spark: SparkSession, code: pa.Table, tmp_path_factory: pytest.TempPathFactory
) -> DataFrame:
    """The same as a DataFrame."""
    path = tmp_path_factory.mktemp("frame") / "code.parquet"
    pq.write_table(code, path)
    return spark.read.parquet(str(path))


def ordered_pairs(related: pa.Table) -> list[tuple[object, ...]]:
    """Returns the related pairs, each with the smaller id first."""
    pairs = []
    for row in related.to_pylist():
        first, second = sorted("ab", key=lambda side: str(row[f"id_{side}"]))
        sides = [row[f"{name}_{side}"] for side in (first, second) for name in ("id", "kept")]
        clusters = [row[f"cluster_{side}"] for side in (first, second)]
        pairs.append((*sides, *clusters, row["similarity"]))
    return sorted(pairs)


def rows_of(clusters: pa.Table) -> list[dict[str, Any]]:
    """Returns the rows by id."""
    return sorted(clusters.to_pylist(), key=lambda row: str(row["id"]))
