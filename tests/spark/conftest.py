"""One Spark session for all tests of the folder, in one worker, and documents to deduplicate."""

import os
import sys
from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession

from tests.services import program

CONF = {
    "spark.master": "local[1,4]",
    # A small first heap would be collected a hundred times, and Spark's own classes are verified.
    "spark.driver.extraJavaOptions": (
        "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=256m -XX:+UseSerialGC "
        "-Xms512m -Xmn220m -XX:MetaspaceSize=256m "
        "-XX:+UnlockDiagnosticVMOptions -XX:-BytecodeVerificationRemote"
    ),
    "spark.driver.memory": "512m",
    "spark.sql.shuffle.partitions": "1",
    # Plans are small here: compiling them takes longer than interpreting them.
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    # Without native libraries, Hadoop starts chmod for each file, those of checksums included.
    "spark.hadoop.fs.file.impl": "org.apache.hadoop.fs.RawLocalFileSystem",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.session.timeZone": "UTC",
    "spark.log.level": "OFF",
}
WORDS = [f"word{number}" for number in range(90)]


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


def make_documents(count: int = 120) -> list[dict[str, Any]]:
    """Returns documents with copies, near-copies and ids of both forms, in a random order."""
    rng = np.random.default_rng(4)
    rows: list[dict[str, Any]] = []
    for number in range(count):
        text = " ".join(rng.choice(WORDS, 40))
        if number % 3 == 1:
            text = rows[-1]["text"] if number % 2 else f"{rows[-1]['text']} {WORDS[number % 90]}"
        if number % 3 == 2:
            text = " ".join([*rows[-1]["text"].split()[:28], *rng.choice(WORDS, 12)])
        score = None if number % 7 == 0 else int(number % 5)
        name = f"{number}" if number % 2 else f"d{number}"
        rows.append({"id": name, "text": text, "score": score, "site": f"s{number % 3}"})
    return [rows[place] for place in rng.permutation(count)]


DOCUMENTS = make_documents()
SCHEMA = "id string, text string, score long, site string"


@pytest.fixture(scope="session")
def frame(spark: SparkSession) -> DataFrame:
    """The documents as a computed DataFrame."""
    return spark.createDataFrame(DOCUMENTS, SCHEMA)


def rows_of(table: DataFrame | pa.Table) -> list[dict[str, Any]]:
    """Returns the rows of a table in an order that follows from their values."""
    if isinstance(table, DataFrame):
        rows = [row.asDict(recursive=True) for row in table.collect()]
    else:
        rows = table.to_pylist()
    return sorted(rows, key=str)


def pairs_of(pairs: DataFrame | pa.Table) -> set[tuple[object, ...]]:
    """Returns pairs, whose ids can be in either order."""
    return {
        (frozenset((row["id_a"], row["id_b"])), row["similarity"], row["estimate"])
        for row in rows_of(pairs)
    }
