"""Tests of decisions over Spark: row for row what the local engine makes of them."""

import itertools
import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

import nearkin as nk
from nearkin import spark as nks
from nearkin.cli.app import run
from nearkin.errors import UsageError
from nearkin.settings.decisions import Decisions
from tests.engine.local.test_decisions import decide, near_texts
from tests.engine.spark.conftest import rows_of

OPTIONS: dict[str, Any] = {"threshold": 0.5, "bands": 24, "rows": 2, "floor": 0.4}


def make_decided(seed: int, documents: int) -> tuple[pa.Table, Decisions]:
    """Returns texts with copies, equal values and empty documents, and decisions about many."""
    rng = np.random.default_rng(seed)
    texts = near_texts(rng, documents)
    ids = list(texts)
    texts[ids[3]] = texts[ids[4]] = " \n"
    for id in ids[10:20]:
        texts[id] = texts[ids[9]]
    pairs = list(itertools.combinations(ids, 2))
    copies = list(itertools.combinations(ids[9:20], 2))
    same = [pairs[number] for number in rng.choice(len(pairs), 6, replace=False)]
    same.append((ids[3], ids[0]))
    joined: list[set[str]] = [{id} for id in ids]
    for pair in same:
        touched = [group for group in joined if group & set(pair)]
        joined = [group for group in joined if not group & set(pair)] + [set().union(*touched)]
    chosen = [pairs[number] for number in rng.choice(len(pairs), 60, replace=False)]
    chosen += [copies[number] for number in rng.choice(len(copies), 8, replace=False)]
    different = [pair for pair in chosen if not any(set(pair) <= group for group in joined)]
    absent = [("nobody", ids[0])]
    table = pa.table(
        {
            "id": ids,
            "text": list(texts.values()),
            "key": [str(number % 29) if number % 3 else None for number in range(documents)],
        }
    )
    return table, decide(same, [*different, *absent])


# the quick form follows decisions in the test of files
@pytest.mark.parametrize(
    ("seed", "options"),
    [
        pytest.param(1, {"cluster": "leaders"}, marks=pytest.mark.full),
        pytest.param(2, {"cluster": "components", "same": "key"}, marks=pytest.mark.full),
        pytest.param(
            2, {"cluster": "components", "same": "key", "blocks": True}, marks=pytest.mark.full
        ),
        pytest.param(3, {"url": "key", "blocks": True}, marks=pytest.mark.full),
        pytest.param(
            3, {"cluster": "leaders", "same": "key", "empty": "drop"}, marks=pytest.mark.full
        ),
        pytest.param(4, {"cluster": "components", "related": 0.3}, marks=pytest.mark.full),
        pytest.param(5, {"keep": "most-complete"}, marks=pytest.mark.full),
    ],
)
def test_decided_frames_are_clustered_as_by_the_local_engine(
    seed: int, options: dict[str, Any], spark: SparkSession
) -> None:
    table, decisions = make_decided(seed, 90)
    parameters = {**OPTIONS, **options}
    blocks = parameters.pop("blocks", False)
    if blocks:
        parameters["blocklist"] = nk.Blocklist()
        parameters["blocklist"].add(table["text"].to_pylist()[6:20:3])
    if "related" in options:
        parameters["floor"] = None
    local = nk.dedup(table, id="id", decisions=decisions, **parameters)
    undecided = nk.dedup(table, id="id", **parameters)
    assert local.clusters.to_pylist() != undecided.clusters.to_pylist()
    frame = spark.createDataFrame(table.to_pandas()).repartition(3)
    with nks.dedup(frame, id="id", decisions=decisions, **parameters) as result:
        assert rows_of(result.clusters.toArrow()) == rows_of(local.clusters.arrow)
        counts = result.stages["collapse"]["decisions"]
        assert counts == local.stages["collapse"]["decisions"]
        assert counts["absent"] > 4 if blocks else counts["absent"] == 1
        for name in ("exact", "same"):
            assert result.stages["collapse"][name] == local.stages["collapse"][name]
        assert result.statistics == local.statistics
        if "related" not in options:
            with pytest.raises(UsageError, match="cannot be saved"):
                nks.save(result, "folder")
    rows = {row["id"]: row["cluster"] for row in local.clusters.to_pylist()}
    for a, b in decisions.different:
        assert {a, b} - rows.keys() or rows[a] != rows[b]


@pytest.mark.full
def test_decided_fingerprints_are_clustered_as_by_the_local_engine(spark: SparkSession) -> None:
    rng = np.random.default_rng(9)
    codes = rng.integers(0, 2**62, 60)
    codes[30:] = codes[:30] ^ (1 << rng.integers(0, 60, 30))
    table = make_decided(9, 60)[0].append_column("code", pa.array(codes))
    ids = table["id"].to_pylist()
    different = [(ids[number], ids[number + 30]) for number in range(0, 30, 3)]
    decisions = decide([(ids[1], ids[2]), (ids[4], ids[50])], different)
    options: dict[str, Any] = {"id": "id", "fingerprint": "code", "distance": 2, "same": "key"}
    local = nk.dedup(table, decisions=decisions, **options)
    frame = spark.createDataFrame(table.to_pandas()).repartition(3)
    with nks.dedup(frame, decisions=decisions, **options) as result:
        assert rows_of(result.clusters.toArrow()) == rows_of(local.clusters.arrow)
        assert result.statistics == local.statistics
    rows = {row["id"]: row["cluster"] for row in local.clusters.to_pylist()}
    assert all(rows[a] != rows[b] for a, b in different)
    assert rows[ids[4]] == rows[ids[50]]


def test_decided_files_are_written_as_by_the_local_engine(
    spark: SparkSession, tmp_path: Path
) -> None:
    table, decisions = make_decided(7, 50)
    (tmp_path / "in").mkdir()
    pq.write_table(table.slice(0, 20), tmp_path / "in" / "a.parquet")
    pq.write_table(table.slice(20), tmp_path / "in" / "b.parquet")
    file = tmp_path / "decisions.jsonl"
    rows = [{"id_a": one.id_a, "id_b": one.id_b, "decision": str(one.verdict)} for one in decisions]
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    command = ["dedup", str(tmp_path / "in"), "--id", "id", "--threshold", "0.5", "--quiet"]
    command += ["--bands", "24", "--rows", "2", "--decisions", str(file)]
    blocklist = nk.Blocklist()
    blocklist.add([table["text"][30].as_py()])
    blocklist.save(tmp_path / "blocked.list")
    command += ["--cluster", "components", "--same", "key"]
    command += ["--blocklist", str(tmp_path / "blocked.list")]
    for engine in ("local", "spark"):
        assert run([*command, "--engine", engine, "--out", str(tmp_path / engine)]) == 0
    outputs = [
        [
            pq.read_table(tmp_path / engine / name).to_pylist()
            for name in ("clusters.parquet", "kept/a.parquet", "kept/b.parquet")
        ]
        for engine in ("local", "spark")
    ]
    assert outputs[0] == outputs[1]
    records = [
        json.loads((tmp_path / engine / "run.json").read_text()) for engine in ("local", "spark")
    ]
    for name in ("decisions", "counts"):
        assert records[0][name] == records[1][name], name
    steps = [record["stages"]["collapse"] for record in records]
    for name in ("decisions", "exact", "same"):
        assert steps[0][name] == steps[1][name], name
    assert steps[0]["decisions"]["absent"] > 4
    assert records[0]["counts"]["removed_blocked"] > 4
    clusters = {row["id"]: row["cluster"] for row in outputs[0][0]}
    for a, b in decisions.different:
        assert {a, b} - clusters.keys() or clusters[a] != clusters[b]


def test_options_that_exclude_decisions_are_refused(spark: SparkSession) -> None:
    frame = spark.createDataFrame([("a", "one", "x")], "id string, text string, source string")
    decisions = decide([("a", "b")], [])
    for options in ({"across": "source"}, {"against": frame}, {"merge_parts": True}):
        with pytest.raises(UsageError, match="decisions"):
            nks.dedup(frame, id="id", decisions=decisions, **options)  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="no such file"):
        nks.dedup(frame, id="id", decisions="nowhere.csv")
