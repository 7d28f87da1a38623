"""Documents in parts against the whole ones."""

import itertools
import json
import random
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
from nearkin.engine.spark.document_parts import unite_parts
from nearkin.errors import UsageError
from nearkin.settings.spec import Spec
from nearkin.spark.result import SparkResult
from nearkin.stages.measures import Payload, measure_of


def in_parts(code: pa.Table, seed: int = 3) -> pa.Table:
    """Each document's words in one to four rows, the rows in any order."""
    draw, rows = random.Random(seed), []
    for row in code.select(["id", "words"]).to_pylist():
        cuts = sorted(
            draw.sample(range(len(row["words"]) + 1), min(draw.randrange(4), len(row["words"])))
        )
        bounds = [0, *cuts, len(row["words"])]
        rows += [
            {"id": row["id"], "words": row["words"][a:b]} for a, b in itertools.pairwise(bounds)
        ]
    draw.shuffle(rows)
    return pa.Table.from_pylist(
        rows, pa.schema([("id", pa.string()), ("words", pa.list_(pa.string()))])
    )


def fates(rows: list[dict[str, Any]]) -> dict[str, tuple[Any, ...]]:
    """Without the kind: a copy in other parts is near, with similarity 1."""
    return {row["id"]: (row["cluster"], row["kept"], row["similarity"]) for row in rows}


def require_signatures_of_whole_documents(result: SparkResult, whole: pa.Table) -> None:
    merged = {
        row.id: bytes(row.signature)
        for row in result._run.documents.select("id", "signature").collect()
    }
    lists = whole["words"].combine_chunks().cast(pa.large_list(pa.large_string()))
    expected = measure_of(Spec(n=1)).sketcher().sketch(lists).signatures
    assert merged == {
        name: signature.tobytes()
        for name, signature in zip(whole["id"].to_pylist(), expected, strict=True)
    }


@pytest.mark.full
def test_merged_parts_equal_the_whole_document(
    spark: SparkSession, code: pa.Table, tmp_path: Path
) -> None:
    spec, some = Spec(n=1), code.slice(0, 300)
    options: dict[str, Any] = {"tokens": "words", "spec": spec, "threshold": 0.7}
    options |= {"bands": 20, "rows": 5, "hot_bucket_size": 10**6}
    whole = nk.dedup(some, id="id", **options)
    path = tmp_path / "parts.parquet"
    pq.write_table(in_parts(some), path)
    with nks.dedup(spark.read.parquet(str(path)), id="id", merge_parts=True, **options) as result:
        assert fates(result.clusters.toArrow().to_pylist()) == fates(
            whole.clusters.arrow.to_pylist()
        )
        require_signatures_of_whole_documents(result, some)


@pytest.mark.full
def test_files_in_parts_have_the_result_of_whole_documents(
    spark: SparkSession, code: pa.Table, tmp_path: Path
) -> None:
    some = code.slice(0, 400)
    parts = in_parts(some)
    (tmp_path / "in").mkdir()
    for number in range(3):
        pq.write_table(
            parts.take(pa.array(np.arange(number, len(parts), 3))),
            tmp_path / "in" / f"{number}.parquet",
        )
    options = [
        "--tokens",
        "words",
        "--shingle",
        "words:1",
        "--threshold",
        "0.7",
        "--cluster",
        "components",
        "--id",
        "id",
    ]
    pq.write_table(some, tmp_path / "whole.parquet")
    assert (
        run(["dedup", str(tmp_path / "whole.parquet"), *options, "--out", str(tmp_path / "a")]) == 0
    )
    spark_out = str(tmp_path / "b")
    assert (
        run(
            [
                "dedup",
                str(tmp_path / "in"),
                *options,
                "--engine",
                "spark",
                "--merge-parts",
                "--out",
                spark_out,
            ]
        )
        == 0
    )
    found = [
        fates(pq.read_table(tmp_path / name / "clusters.parquet").to_pylist()) for name in "ab"
    ]
    assert found[0] == found[1]
    kept = {name for name, fate in found[0].items() if fate[1]}
    rows = pq.read_table(tmp_path / "b" / "kept")["id"].to_pylist()
    assert sorted(rows) == sorted(name for name in parts["id"].to_pylist() if name in kept)


def test_request_whose_parts_cannot_be_merged_is_refused(spark: SparkSession) -> None:
    some = spark.createDataFrame([("a", "x")], "id string, text string")
    for options in (
        {"measure": "weighted-jaccard"},
        {"measure": "simhash"},
        {"probes": 2},
        {"spec": Spec(slot_bits=8)},
    ):
        with pytest.raises(UsageError, match="merge_parts needs measure jaccard with whole slots"):
            nks.dedup(some, id="id", merge_parts=True, **options)


def test_payloads_of_parts_are_united_without_repetitions() -> None:
    docs = np.array([7, 3, 7])
    payload = Payload(np.array([2, 1, 2]), (np.array([4, 9, 5, 2, 9], np.uint64),))
    merged = unite_parts(docs, payload)
    assert merged.sizes.tolist() == [1, 3]
    assert merged.columns[0].tolist() == [5, 2, 4, 9]


def test_merged_parts_are_compared_across_sources_like_whole_documents(
    spark: SparkSession, code: pa.Table, tmp_path: Path
) -> None:
    some = code.slice(0, 150)
    shops = {id: "ab"[number % 2] for number, id in enumerate(some["id"].to_pylist())}
    whole = some.append_column("shop", pa.array([shops[id] for id in some["id"].to_pylist()]))
    parts = in_parts(some)
    parts = parts.append_column("shop", pa.array([shops[id] for id in parts["id"].to_pylist()]))
    path = tmp_path / "parts.parquet"
    pq.write_table(parts, path)
    options: dict[str, Any] = {
        "tokens": "words",
        "spec": Spec(n=1),
        "threshold": 0.5,
        "across": "shop",
    }
    expected = nk.dedup(whole, id="id", **options).clusters.arrow.to_pylist()
    frame = spark.read.parquet(str(path))
    with nks.dedup(frame, id="id", merge_parts=True, **options) as result:
        assert fates(result.clusters.toArrow().to_pylist()) == fates(expected)
        require_signatures_of_whole_documents(result, some)
    removed = [row for row in expected if not row["kept"]]
    assert removed
    assert all(shops[row["id"]] != shops[row["cluster"]] for row in removed)


@pytest.mark.full
def test_parts_of_blocked_documents_are_purged_like_whole_documents(
    spark: SparkSession,
    code: pa.Table,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    some = code.slice(0, 60).select(["id", "words"])
    given = some.take([3, 17, 40])
    pq.write_table(some, "whole.parquet")
    pq.write_table(in_parts(some), "parts.parquet")
    pq.write_table(given, "given.parquet")
    columns = ["--tokens", "words", "--id", "id"]
    options = [*columns, "--shingle", "words:1", "--threshold", "0.6", "--quiet", "--annotate"]
    parts = ["--engine", "spark", "--merge-parts"]
    assert run(["dedup", "whole.parquet", *options, "--out", "a"]) == 0
    assert run(["dedup", "parts.parquet", *options, *parts, "--out", "b"]) == 0
    capsys.readouterr()
    purged = []
    for name in "ab":
        purge = ["purge", name, "--like", "given.parquet", *columns, "--out", f"purged-{name}"]
        assert run([*purge, "--quiet", "--json"]) == 0
        facts = json.loads(capsys.readouterr().out)
        assert facts["compared"] == len(some)
        purged.append({row["id"]: (row["like"], row["similarity"]) for row in facts["purged"]})
        copied = pq.read_table(f"purged-{name}/kept")["id"].to_pylist()
        assert set(copied) == set(some["id"].to_pylist()) - set(purged[-1])
    assert purged[0] == purged[1]
    assert len(purged[0]) >= len(given)
    found = [fates(pq.read_table(f"purged-{name}/clusters.parquet").to_pylist()) for name in "ab"]
    assert found[0] == found[1]
    # a part of a given document would be compared alone
    pq.write_table(in_parts(given), "given.parquet")
    purge = ["purge", "b", "--like", "given.parquet", *columns, "--out", "again", "--quiet"]
    assert run(purge) == 2
    assert "has several rows, and each row must be a whole document" in (
        " ".join(capsys.readouterr().err.split())
    )
    assert not Path("again").exists()
