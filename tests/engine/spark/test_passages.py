"""Spark finds the same passages as the local engine, row for row."""

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

import nearkin as nk
from nearkin import spark as nks
from nearkin.errors import UsageError
from tests.texts.passages.oracle import generate_texts

SCHEMA = "name string, body string"


def make_rows() -> list[dict[str, Any]]:
    """Returns texts with passages in common, long runs of one word, and a null, in any order."""
    rng = np.random.default_rng(3)
    texts: list[str | None] = [text for _ in range(4) for text in generate_texts(rng)]
    texts += ["a b " * 40, "c " * 30 + "a b " * 25, "", None, "Ça a b a b a b — naïve a b"]
    names = rng.permutation(len(texts)).tolist()
    return [{"name": f"n{name}", "body": text} for name, text in zip(names, texts, strict=True)]


def test_passages_are_those_of_the_local_engine(spark: SparkSession) -> None:
    rows = make_rows()
    ordered = pa.Table.from_pylist(sorted(rows, key=lambda row: row["name"]))
    local = nk.passages(ordered, id="name", text="body", min_tokens=4)
    assert len(local) > 20
    frame = spark.createDataFrame(rows, SCHEMA).repartition(3)
    with nks.passages(frame, id="name", text="body", min_tokens=4) as result:
        assert [row.asDict() for row in result.passages.collect()] == local.passages.to_pylist()
        assert (result.documents, result.rejected) == (len(rows) - 1, 1)


def test_contradictory_arguments_are_refused(spark: SparkSession) -> None:
    with pytest.raises(UsageError, match=r"not a Spark DataFrame; nearkin\.passages takes"):
        nks.passages(pa.table({"id": ["x"]}), id="id")
    frame = spark.createDataFrame([{"name": "x", "body": "a"}] * 2, SCHEMA)
    with pytest.raises(UsageError, match="has no column 'text'"):
        nks.passages(frame, id="name")
    with pytest.raises(UsageError, match="min_tokens=1 is out of range"):
        nks.passages(frame, id="name", text="body", min_tokens=1)
    with pytest.raises(UsageError, match="the id 'x' of the column 'name' is repeated"):
        nks.passages(frame, id="name", text="body")
