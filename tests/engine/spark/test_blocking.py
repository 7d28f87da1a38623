"""Tests of blocklists over Spark: row for row what the local engine makes of them."""

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

import nearkin as nk
from nearkin import spark as nks
from nearkin.cli.app import run
from nearkin.errors import IncompatibleError, UsageError
from tests.engine.reference_oracle import make_texts, share_texts
from tests.engine.spark.conftest import rows_of


def make_blocked(spec: nk.Spec | None = None) -> tuple[pa.Table, nk.Blocklist]:
    """Returns texts with copies, of which some are like entries of the list."""
    first = make_texts(3, 60)
    texts = [*first, *share_texts(3, first, 40), first[0], first[0], "", first[5]]
    blocklist = nk.Blocklist(spec)
    blocklist.add([first[0], first[7], first[8]], ["req-1", "req-2", "req-3"])
    ids = [f"d{number:03}" for number in range(len(texts))]
    return pa.table({"id": ids, "text": texts}), blocklist


@pytest.mark.parametrize(
    "options",
    [
        pytest.param({"threshold": 0.5, "bands": 20, "rows": 2}, marks=pytest.mark.full),
        pytest.param({"threshold": 0.5, "related": 0.3}, marks=pytest.mark.full),
        pytest.param({"threshold": 0.5, "max_lost": 0.2, "related": 0.3}, marks=pytest.mark.full),
        pytest.param({"distance": 8, "spec": nk.Spec(measure="simhash")}, marks=pytest.mark.full),
        pytest.param(
            {"threshold": 0.6, "spec": nk.Spec(measure="weighted-jaccard")}, marks=pytest.mark.full
        ),
    ],
)
def test_blocked_frames_are_those_of_the_local_engine(
    options: dict[str, Any], spark: SparkSession
) -> None:
    table, blocklist = make_blocked(options.get("spec"))
    local = nk.dedup(table, id="id", blocklist=blocklist, **options)
    frame = spark.createDataFrame(table.to_pandas()).repartition(3)
    with nks.dedup(frame, id="id", blocklist=blocklist, **options) as result:
        assert rows_of(result.clusters.toArrow()) == rows_of(local.clusters.arrow)
        assert result.clusters.columns == local.clusters.arrow.column_names
        counts = result.stages["blocklist"]
        assert counts["blocked"] == local.stages["blocklist"]["blocked"] > 3
        assert counts["entries"] == len(blocklist)
        assert result.statistics == local.statistics
        kept = {row["id"] for row in result.kept.select("id").collect()}
    assert kept == {row["id"] for row in local.clusters.to_pylist() if row["kept"]}


def test_a_reference_and_a_blocklist_are_followed_together(spark: SparkSession) -> None:
    table, blocklist = make_blocked()
    blocks = pa.array([f"b{number % 3}" for number in range(len(table))])
    table = table.append_column("block", blocks)
    reference = table.slice(0, 10)
    new = table.slice(10)
    options: dict[str, Any] = {"id": "id", "threshold": 0.5, "block_by": "block"}
    local = nk.dedup(new, against=reference, blocklist=blocklist, **options)
    frames = [spark.createDataFrame(part.to_pandas()) for part in (new, reference)]
    frames[0] = frames[0].repartition(3)
    with nks.dedup(frames[0], against=frames[1], blocklist=blocklist, **options) as result:
        assert rows_of(result.clusters.toArrow()) == rows_of(local.clusters.arrow)
        assert result.clusters.columns == local.clusters.arrow.column_names
        assert result.statistics == local.statistics
        for name in ("exact", "near"):
            assert result.stages["against"][name] == local.stages["against"][name]
        assert result.stages["against"]["documents"] == len(reference)
        counts = result.stages["blocklist"]
        assert counts["blocked"] == local.stages["blocklist"]["blocked"] > 3
        assert counts["entries"] == len(blocklist)
        kept = {row["id"] for row in result.kept.select("id").collect()}
        with pytest.raises(UsageError, match="ids of clusters can be those of the reference"):
            result.cluster_columns()
    rows = local.clusters.to_pylist()
    assert kept == {row["id"] for row in rows if row["kept"]}
    assert {row["matched_in"] for row in rows} == {"reference", "this run", None}


# the quick form blocks documents in the files of test_reference.py
@pytest.mark.full
def test_blocked_files_are_written_as_by_the_local_engine(
    spark: SparkSession, tmp_path: Path
) -> None:
    table, blocklist = make_blocked()
    (tmp_path / "in").mkdir()
    pq.write_table(table, tmp_path / "in" / "a.parquet")
    blocklist.save(tmp_path / "blocked.list")
    command = ["dedup", str(tmp_path / "in"), "--id", "id", "--threshold", "0.5", "--quiet"]
    command += ["--annotate", "--blocklist", str(tmp_path / "blocked.list")]
    for engine in ("local", "spark"):
        assert run([*command, "--engine", engine, "--out", str(tmp_path / engine)]) == 0
    outputs = [
        [
            pq.read_table(tmp_path / engine / name).to_pylist()
            for name in ("clusters.parquet", "kept/a.parquet")
        ]
        for engine in ("local", "spark")
    ]
    assert outputs[0] == outputs[1]
    counts = [
        json.loads((tmp_path / engine / "run.json").read_text())["counts"]["removed_blocked"]
        for engine in ("local", "spark")
    ]
    assert counts[0] == counts[1] > 3


def test_lists_that_do_not_fit_the_run_are_refused(spark: SparkSession) -> None:
    frame = spark.createDataFrame([("a", "one", "x")], "id string, text string, key string")
    with pytest.raises(IncompatibleError, match="whose n is 5"):
        nks.dedup(frame, id="id", blocklist=nk.Blocklist(nk.Spec(n=5)))
    with pytest.raises(UsageError, match="blocklist"):
        nks.dedup(frame, id="id", blocklist=nk.Blocklist(), fields=["text:jaccard>=0.9"])
