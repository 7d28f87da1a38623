"""Spark finds the same pairs between two corpora as the local engine."""

from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

import nearkin as nk
from nearkin import spark as nks
from nearkin.errors import UsageError
from tests.engine.reference_oracle import make_texts, share_texts


def make_table(texts: list[str]) -> pa.Table:
    """Returns texts, one of which is null, with ids that are in both corpora."""
    names = ["n1", "r1", "#", *(f"d{number}" for number in range(len(texts)))]
    return pa.table({"id": names[: len(texts) + 1], "text": [*texts, None]})


@pytest.fixture(scope="module")
def tables() -> tuple[pa.Table, pa.Table]:
    second = make_texts(37, 50)
    return make_table(share_texts(37, second, 40)), make_table(second)


@pytest.mark.parametrize(
    "options",
    [{}, pytest.param({"bands": 16, "rows": 3}, marks=pytest.mark.full)],
    ids=str,
)
def test_pairs_between_frames_are_those_of_the_local_engine(
    options: dict[str, Any], tables: tuple[pa.Table, pa.Table], spark: SparkSession
) -> None:
    local = nk.check(*tables, id="id", threshold=0.6, **options)
    assert len(local) > 10
    frames = [
        spark.createDataFrame(table.to_pylist(), "id string, text string") for table in tables
    ]
    with nks.check(*frames, id="id", threshold=0.6, **options) as result:
        rows = [row.asDict() for row in result.pairs.collect()]
        assert result.documents == local.documents
        assert result.affected == local.affected
    order = ("id_a", "id_b", "similarity")
    expected = local.pairs.arrow.to_pylist()
    assert sorted([row[name] for name in order] for row in rows) == (
        sorted([row[name] for name in order] for row in expected)
    )


def test_contradictory_checks_are_refused(
    tables: tuple[pa.Table, pa.Table], spark: SparkSession
) -> None:
    frame = spark.createDataFrame(tables[0].to_pylist(), "id string, text string")
    with pytest.raises(UsageError, match=r"not a Spark DataFrame; nearkin\.check takes"):
        nks.check(frame, tables[1], id="id")
    with pytest.raises(UsageError, match="has no effect on a check"):
        nks.check(frame, frame, id="id", across="text")
    with pytest.raises(UsageError, match="has no column 'text'"):
        nks.check(frame, frame.drop("text"), id="id")
