"""The functions over DataFrames have the results of the functions of the library."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

import nearkin as nk
from nearkin import spark as nks
from nearkin.errors import RunError, UsageError
from nearkin.stages.cluster.id_order import list_in_order
from tests.corpus.test_nested_columns import TABLE
from tests.spark.conftest import DOCUMENTS, pairs_of, rows_of

BANDED: dict[str, Any] = {"threshold": 0.6, "bands": 20, "rows": 4, "keep": "score desc"}


def by_id(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return sorted(rows, key=lambda row: str(row["id"]))


def test_result_is_that_of_the_library_for_any_partitions_and_order(frame: DataFrame) -> None:
    local = nk.dedup(DOCUMENTS, id="id", related=0.3, source="site", **BANDED)
    assert {"unique", "kept", "near", "exact"} <= set(local.clusters["kind"].to_pylist())
    for rows in (frame, frame.repartition(3).orderBy(f.desc("text"))):
        with nks.dedup(rows, id="id", related=0.3, source="site", **BANDED) as result:
            assert rows_of(result.clusters) == rows_of(local.clusters.arrow)
            assert pairs_of(result.pairs) == pairs_of(local.pairs.arrow)
            assert all(row["id_a"] < row["id_b"] for row in rows_of(result.pairs))
            assert result.related.count() == len(local.related) > 5
            assert all(row["id_a"] < row["id_b"] for row in rows_of(result.related))
            kept = [row for row in DOCUMENTS if row["id"] in kept_ids(local)]
            assert by_id(rows_of(result.kept)) == by_id(kept)
            assert result.statistics == local.statistics
            assert result.warnings == local.warnings
            assert result.stages.keys() == local.stages.keys()
            assert result.report_data.title == "a DataFrame"
            weighted = local.cluster_columns("sqrt").arrow.drop(["cluster_sources"])
            columns = result.cluster_columns("sqrt").drop("cluster_sources")
            assert rows_of(columns) == rows_of(weighted)
            assert repr(result).startswith("<SparkResult: 120 documents, ")


def kept_ids(result: nk.results.DedupResult) -> set[str]:
    clusters = result.clusters.arrow
    return set(clusters.filter(clusters["kept"])["id"].to_pylist())


def test_files_of_a_scan_are_read_where_they_are(spark: SparkSession, tmp_path: Path) -> None:
    folder = tmp_path / "a b%20c"
    folder.mkdir()
    for number in range(2):
        part = pa.Table.from_pylist(DOCUMENTS[number::2])
        pq.write_table(part, folder / f"part{number}.parquet")
    frame = spark.read.parquet(str(folder))
    frame.createOrReplaceTempView("documents")
    expected = rows_of(nk.dedup(DOCUMENTS, id="id", **BANDED).clusters.arrow)
    partitioned = tmp_path / "partitioned"
    frame.write.partitionBy("site").parquet(f"file://{partitioned}")
    for rows, is_read in (
        (frame, True),
        (frame.select("*"), False),
        (spark.table("documents"), False),
        (spark.read.option("mergeSchema", "true").parquet(str(folder)), False),
        (spark.read.schema("id string, text string, score long").parquet(str(folder)), False),
        (spark.read.parquet(f"file://{partitioned}"), False),
    ):
        work = tmp_path / "work"
        with nks.dedup(rows, id="id", work=work, **BANDED) as result:
            (of_run,) = work.iterdir()
            assert (of_run / "rows").exists() != is_read
            assert rows_of(result.clusters) == expected
            assert result.kept.columns == rows.columns
    assert sorted(path.name for path in folder.iterdir()) == ["part0.parquet", "part1.parquet"]


def test_rows_of_many_types_are_kept_as_they_are(spark: SparkSession, tmp_path: Path) -> None:
    rows = [(7, "one two three four"), (10, "one two three four"), (9, None), (8, "five six")]
    frame = spark.createDataFrame(rows, "`the.id` long, `my text` string").select(
        "*",
        f.lit("1500-01-02 03:04:05.123456").cast("timestamp").alias("seen"),
        f.lit("2020-01-02").cast("date").alias("day"),
        f.lit("1.50").cast("decimal(20,2)").alias("price"),
        f.create_map(f.lit("a"), f.array(f.col("`the.id`"))).alias("map"),
        f.struct(f.lit("x").alias("wanted"), f.lit(None).cast("string").alias("b")).alias("id"),
    )
    folder = tmp_path / "old"
    spark.conf.set("spark.sql.parquet.outputTimestampType", "INT96")
    frame.write.parquet(f"file://{folder}")
    scan = spark.read.parquet(f"file://{folder}")
    names: dict[str, Any] = {"id": "the.id", "text": "my text", "max_removed": 1.0}
    expected = [row for row in rows_of(frame) if row["the.id"] in (7, 8)]
    for given in (frame, scan):
        with nks.dedup(given, **names) as result:
            assert rows_of(result.kept) == expected
            assert [row["cluster"] for row in rows_of(result.clusters)] == ["7", "7", "8"]
            assert rows_of(result.rejected) == [{"id": "9", "reason": "my text is null", "raw": ""}]
            with pytest.raises(UsageError, match="related documents were not searched for"):
                _ = result.related
            with pytest.raises(UsageError, match="nothing was cut"):
                _ = result.cuts
            with pytest.raises(UsageError, match="repeated lines were not searched for"):
                _ = result.repeated_lines
    assert spark.conf.get("spark.sql.parquet.outputTimestampType") == "INT96"
    with nks.dedup(frame.limit(0), **names) as result:
        assert result.kept.count() == 0


def test_paths_into_columns_are_those_of_the_library(spark: SparkSession, tmp_path: Path) -> None:
    pq.write_table(TABLE, tmp_path / "chats.parquet")
    frame = spark.read.parquet(str(tmp_path / "chats.parquet")).repartition(2)
    options: dict[str, Any] = {
        "text": "messages.content",
        "id": "meta.key",
        "keep": "meta.score desc",
        "block_by": "meta.lang",
    }
    local = nk.dedup(TABLE, **options)
    with nks.dedup(frame, **options) as result:
        assert rows_of(result.clusters) == rows_of(local.clusters.arrow)
        assert sorted(row["id"] for row in result.kept.collect()) == [1, 2]
    with pytest.raises(UsageError, match=r"did you mean 'messages\.content'"):
        nks.dedup(frame, text="messages.contents", id="id")
    with pytest.raises(UsageError, match="inside another column"):
        nks.dedup(frame, text="messages.content", id="meta.key", passages=5)


def test_cuts_are_those_of_the_library_over_rows_in_the_order_of_ids(
    spark: SparkSession, frame: DataFrame
) -> None:
    notice = "all visitors leave their bags at the desk before they enter the reading room"
    rows = {row["id"]: {**row, "text": f"{row['text']}\n{notice}."} for row in DOCUMENTS[:30]}
    frame = spark.createDataFrame(list(rows.values()), frame.schema).repartition(3)
    ordered = [rows[name] for name in list_in_order(list(rows))]
    for request in ({"passages": 8, "min_left": 2}, {"repeated_lines": 2, "source": "site"}):
        local = nk.dedup(ordered, id="id", **request, **BANDED)
        with nks.dedup(frame, id="id", **request, **BANDED) as result:
            expected = local.kept_documents.arrow.rename_columns(["id", "text", "cut_spans"])
            kept = result.kept.select("id", "text", "cut_spans")
            assert rows_of(kept) == rows_of(expected)
            assert rows_of(result.cuts) == rows_of(local.cuts.arrow.drop(["document"]))
            assert len(local.cuts) > 5
            if "passages" not in request:
                assert rows_of(result.repeated_lines) == rows_of(local.repeated_lines.arrow)
    named = frame.withColumnRenamed("site", "Cut_Spans")
    with pytest.raises(UsageError, match="column 'cut_spans' cannot be added"):
        nks.dedup(named, id="id", passages=5)


def test_reference_is_a_frame_a_run_or_what_the_library_takes(
    spark: SparkSession, frame: DataFrame, tmp_path: Path
) -> None:
    old, new = DOCUMENTS[:50], DOCUMENTS[50:]
    local = nk.dedup(new, id="id", against=old, threshold=0.6)
    expected = rows_of(local.clusters.arrow)
    assert "reference" in local.clusters["matched_in"].to_pylist()
    frames = [spark.createDataFrame(rows, frame.schema) for rows in (old, new)]
    nk.dedup(old, id="id", threshold=0.6).write(tmp_path / "run")
    for against in (frames[0], old):
        with nks.dedup(frames[1], id="id", against=against, threshold=0.6) as result:
            assert rows_of(result.clusters) == expected
    with nks.dedup(frames[1], id="id", against=str(tmp_path / "run"), threshold=0.6) as result:
        assert {row["duplicate_of"] for row in result.clusters.collect()} > {None}


def test_check_is_that_of_the_library(spark: SparkSession, frame: DataFrame) -> None:
    parts = (DOCUMENTS[:60], DOCUMENTS[60:])
    local = nk.check(*parts, id="id", threshold=0.6)
    first, second = (spark.createDataFrame(rows, frame.schema) for rows in parts)
    with nks.check(first, second, id="id", threshold=0.6) as result:
        assert rows_of(result.pairs) == rows_of(local.pairs.arrow)
        assert (result.documents, result.affected) == (local.documents, local.affected)
        assert result.warnings == local.warnings
        assert repr(result).startswith("<SparkCheckResult: ")


def test_split_is_that_of_the_library(frame: DataFrame) -> None:
    local = nk.split(DOCUMENTS, (0.5, 0.5), id="id", threshold=0.6)
    with nks.split(frame.repartition(2), (0.5, 0.5), id="id", threshold=0.6) as result:
        assert rows_of(result.groups) == rows_of(local.groups.arrow)
        assert result.names == local.names
        assert by_id(rows_of(result.select("test"))) == by_id(local.select(DOCUMENTS, "test"))
        assert repr(result).startswith("<SparkSplitResult: train ")
        with pytest.raises(UsageError, match="'tset'"):
            result.select("tset")


def test_passages_are_those_of_the_library_in_the_order_of_ids(spark: SparkSession) -> None:
    rows = [(number, row["text"]) for number, row in enumerate(DOCUMENTS[:40])] + [(99, None)]
    frame = spark.createDataFrame(rows[::-1], "id long, text string").repartition(3)
    table = {"id": [number for number, _ in rows], "text": [text for _, text in rows]}
    local = nk.passages(table, id="id", min_tokens=10)
    with nks.passages(frame, id="id", min_tokens=10) as result:
        assert rows_of(result.passages) == rows_of(local.passages.arrow)
        assert (result.documents, result.rejected) == (40, 1)
    assert len(local.passages) > 5


def test_decontamination_is_that_of_the_library(frame: DataFrame) -> None:
    suite = {"quiz": [{"question": DOCUMENTS[3]["text"]}, {"question": "one two three four five"}]}
    for action in (None, "annotate", "cut", "drop"):
        local = nk.decontaminate(DOCUMENTS, suite, id="id", action=action)
        with nks.decontaminate(frame.repartition(2), suite, id="id", action=action) as result:
            hits = local.hits.arrow.drop(["document"])
            assert rows_of(result.hits) == rows_of(hits)
            assert rows_of(result.items) == rows_of(local.items.arrow)
            assert rows_of(result.suites) == rows_of(local.suites.arrow)
            assert rows_of(result.documents) == rows_of(local.documents.arrow.drop(["document"]))
            assert result.rejected.count() == 0
            assert repr(result).startswith("<SparkDecontamination: 1 of 2 items in ")
            if action is None:
                with pytest.raises(UsageError, match="documents were only listed"):
                    _ = result.kept
                continue
            assert set(result.kept.columns) >= set(frame.columns)
            kept = result.kept.select(local.kept_documents.column_names)
            assert rows_of(kept) == rows_of(local.kept_documents.arrow)
            if action == "cut":
                assert rows_of(result.cuts) == rows_of(local.cuts.arrow.drop(["document"]))


def test_closing_deletes_the_files_of_a_run(frame: DataFrame, tmp_path: Path) -> None:
    with nks.dedup(frame, id="id", work=tmp_path / "new" / "work") as result:
        assert len(list((tmp_path / "new" / "work").iterdir())) == 1
    assert list((tmp_path / "new" / "work").iterdir()) == []
    with pytest.raises(UsageError, match="because the result is closed; use its DataFrames before"):
        _ = result.clusters


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"keep": "socre desc"}, "has no column 'socre'"),
        ({"text": "txet"}, r"the DataFrame has no column 'txet' .* did you mean 'text'"),
        ({"tresh": 0.8}, "unknown setting 'tresh'; did you mean 'threshold'"),
        ({"hidden": True}, r"hidden. has no effect on a DataFrame, which has no files"),
        ({"id": "site"}, "120 rows have an id of the column 'site' that occurs more than once"),
    ],
)
def test_failed_run_says_why_and_leaves_no_files(
    options: dict[str, Any], message: str, frame: DataFrame, tmp_path: Path
) -> None:
    with pytest.raises(UsageError, match=message):
        nks.dedup(frame, **{"id": "id", "work": tmp_path, "max_removed": 1.0, **options})
    assert list(tmp_path.iterdir()) == []


def test_error_of_a_task_is_one_sentence(frame: DataFrame, tmp_path: Path) -> None:
    broken = frame.withColumn("text", f.raise_error(f.lit("the text is lost")))
    with pytest.raises(RunError, match=r"a Spark task failed: .*the text is lost"):
        nks.dedup(broken, id="id", work=tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_workers_of_a_cluster_do_the_tasks(
    frame: DataFrame, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tasks: list[str] = []
    real = nks.SparkExecutor.map

    def noting(self: nks.SparkExecutor, task: Any, items: Any) -> Any:
        tasks.append(type(task).__name__)
        return real(self, task, items)

    monkeypatch.setattr(nks.SparkExecutor, "map", noting)
    monkeypatch.setattr(frame.sparkSession.sparkContext, "master", "spark://head:7077")
    with nks.dedup(frame, id="id", work=tmp_path, threshold=0.6) as result:
        assert "SketchTask" in tasks
        local = nk.dedup(DOCUMENTS, id="id", threshold=0.6)
        assert rows_of(result.clusters) == rows_of(local.clusters.arrow)
        assert result.kept.count() == local.statistics["kept"]


def test_work_folder_is_one_that_all_machines_see(
    frame: DataFrame, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(UsageError, match=r"work='hdfs://x/y' is not a folder .* NFS, Lustre"):
        nks.dedup(frame, id="id", work="hdfs://x/y")
    with pytest.raises(UsageError, match="no folder can be created in work="):
        nks.dedup(frame, id="id", work=f"{__file__}/x")
    context = frame.sparkSession.sparkContext
    monkeypatch.setattr(context, "master", "yarn")
    with pytest.raises(UsageError, match="the workers of master yarn are on other machines"):
        nks.dedup(frame, id="id")
    with pytest.raises(UsageError, match=r"list is not a Spark DataFrame; nearkin.dedup takes"):
        nks.dedup([], id="id")
