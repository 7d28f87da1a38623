"""Spark compares documents without a block as the local engine does."""

from typing import Any

import pytest
from pyspark.sql import SparkSession

import nearkin as nk
import nearkin.spark as nks
from tests.engine.test_missing_blocks import BANDED, OPTIONS, make_rows

SCHEMA = "id string, text string, block string"
CONTAINED = {**BANDED, "max_lost": 0.2}


@pytest.mark.parametrize("missing", ["none", "all"])
@pytest.mark.parametrize(
    "banding", [{}, {**BANDED, "hot_bucket_size": 3, "fanout": 4}, CONTAINED], ids=str
)
def test_clusters_are_those_of_the_local_engine(
    spark: SparkSession,
    banding: dict[str, Any],
    missing: str,
    monkeypatch: pytest.MonkeyPatch,
    full: bool,
) -> None:
    if banding and missing == "none" and not full:
        pytest.skip("full-size form")
    if banding:
        monkeypatch.setattr("nearkin.engine.run.SMALL_CORPUS", 1)
    rows = make_rows(11)
    reference = [{**row, "id": f"r{row['id']}"} for row in make_rows(12, 20)]
    options = {**OPTIONS, **banding, "missing_block": missing, "max_removed": 1.0}
    local = nk.dedup(rows, against=reference, **options)
    frame, others = (spark.createDataFrame(data, SCHEMA) for data in (rows, reference))
    with nks.dedup(frame, against=others, **options) as result:
        clusters = {row["id"]: row.asDict() for row in result.clusters.collect()}
        assert set(result.warnings) == set(local.warnings)
    for row in local.clusters.to_pylist():
        assert clusters[row["id"]] == row
