"""Yesterday's signatures extended by today's rows, beside one run over all.

An index fed by a stream that is broken off.
"""

import os
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

import nearkin as nk
from nearkin import spark as nks
from nearkin.errors import IncompatibleError, UsageError
from tests.engine.spark.conftest import rows_of
from tests.engine.test_value_groups import table_with_values

BANDED: dict[str, Any] = {
    "text": "text",
    "threshold": 0.6,
    "bands": 20,
    "rows": 4,
    "hot_bucket_size": 10,
    "keep": "score desc, length asc",
}


@pytest.fixture(scope="module")
def halves(
    spark: SparkSession, code: pa.Table, tmp_path_factory: pytest.TempPathFactory
) -> tuple[DataFrame, DataFrame]:
    """Rows of yesterday and of today; copies of one are in the other."""
    folder = tmp_path_factory.mktemp("halves")
    for name, part in (("old", code.slice(0, 800)), ("new", code.slice(800))):
        pq.write_table(part, folder / f"{name}.parquet")
    old, new = (spark.read.parquet(str(folder / f"{name}.parquet")) for name in ("old", "new"))
    return old, new


@pytest.fixture(scope="module")
def saved(halves: tuple[DataFrame, DataFrame], tmp_path_factory: pytest.TempPathFactory) -> str:
    """Returns the result of a run over the rows of the previous day."""
    folder = str(tmp_path_factory.mktemp("saved") / "tables")
    with nks.dedup(halves[0], id="id", **BANDED) as result:
        nks.save(result, folder)
    return folder


@pytest.mark.full
def test_run_that_extends_a_saved_one_equals_a_run_over_all_documents(
    code: pa.Table, halves: tuple[DataFrame, DataFrame], saved: str
) -> None:
    assert len(list(Path(saved).glob("keys-20x4/band=*"))) == 20
    local = nk.dedup(code, id="id", **BANDED)
    with nks.dedup(halves[1], id="id", extend=saved, before=halves[0], **BANDED) as result:
        assert rows_of(result.clusters.toArrow()) == rows_of(local.clusters.arrow)
        # Only today's rows were sketched.
        assert result._run.document_tables.table.where("id is not null").count() == len(code) - 800
        assert result.kept.count() == int(local.kept.sum())


@pytest.mark.full
def test_saved_run_between_sources_grows_to_a_run_over_all_documents(
    code: pa.Table, halves: tuple[DataFrame, DataFrame], saved: str, tmp_path: Path
) -> None:
    options = {**BANDED, "across": "stamp"}
    folder = str(tmp_path / "tables")
    with nks.dedup(halves[0], id="id", **options) as result:
        nks.save(result, folder)
    local = nk.dedup(code, id="id", **options)
    with nks.dedup(halves[1], id="id", extend=folder, before=halves[0], **options) as result:
        assert rows_of(result.clusters.toArrow()) == rows_of(local.clusters.arrow)
    with pytest.raises(IncompatibleError, match="was made with no `across`"):
        nks.dedup(halves[1], id="id", extend=saved, before=halves[0], **options)


@pytest.mark.full
def test_saved_run_with_equal_values_grows_to_a_run_over_all_documents(
    spark: SparkSession, tmp_path: Path
) -> None:
    table = table_with_values(9, documents=200)
    for name, part in (("old", table.slice(0, 120)), ("new", table.slice(120))):
        pq.write_table(part, tmp_path / f"{name}.parquet")
    old, new = (spark.read.parquet(str(tmp_path / f"{name}.parquet")) for name in ("old", "new"))
    options = {"shingle": "words:1", "threshold": 0.5, "bands": 64, "rows": 1, "k": 64}
    options |= {"same": "doi,isbn", "url": "link"}
    folder = str(tmp_path / "tables")
    with nks.dedup(old, id="id", **options) as result:
        nks.save(result, folder)
    local = nk.dedup(table, id="id", **options)
    with nks.dedup(new, id="id", extend=folder, before=old, **options) as result:
        assert rows_of(result.clusters.toArrow()) == rows_of(local.clusters.arrow)


@pytest.mark.full
def test_other_bands_from_stored_signatures(
    spark: SparkSession, code: pa.Table, halves: tuple[DataFrame, DataFrame], saved: str
) -> None:
    nks.backfill(spark, saved, 16, 6)
    options = {**BANDED, "bands": 16, "rows": 6}
    local = nk.dedup(code, id="id", **options)
    with nks.dedup(halves[1], id="id", extend=saved, before=halves[0], **options) as result:
        assert rows_of(result.clusters.toArrow()) == rows_of(local.clusters.arrow)


@pytest.mark.full
def test_run_that_cannot_be_continued_is_refused(
    spark: SparkSession, halves: tuple[DataFrame, DataFrame], saved: str
) -> None:
    old, new = halves
    with pytest.raises(UsageError, match="give the rows of the documents"):
        nks.dedup(new, id="id", extend=saved, **BANDED)
    with pytest.raises(UsageError, match="holds no signatures of a run"):
        nks.dedup(new, id="id", extend=f"{saved}/nowhere", before=old, **BANDED)
    with pytest.raises(
        IncompatibleError, match=r"was made with threshold=0\.6, but the request has threshold=0\.7"
    ):
        nks.dedup(new, id="id", extend=saved, before=old, **{**BANDED, "threshold": 0.7})
    with pytest.raises(UsageError, match="no column 'text'"):
        nks.dedup(new, id="id", extend=saved, before=old.drop("text"), **BANDED)


def test_interrupted_stream_continues_without_repetitions(
    spark: SparkSession, code: pa.Table, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second micro-batch is done, but unknown to Spark.

    After the restart the index is as if nothing had been.
    """
    url, some = f"sqlite:///{tmp_path / 'kin.db'}", code.slice(0, 90).select(["id", "text"])
    (tmp_path / "in").mkdir()
    for number in range(3):
        file = tmp_path / "in" / f"{number}.parquet"
        pq.write_table(some.slice(30 * number, 30), file)
        # Spark reads files in the order of their times, which can be equal otherwise.
        os.utime(file, (1_700_000_000 + number, 1_700_000_000 + number))
    nk.Index.open(url, threshold=0.7).close()
    real, calls = nk.Index.upsert_many, []

    def failing(self: Any, *arguments: Any) -> Any:
        calls.append(arguments)
        done = real(self, *arguments)
        if len(calls) == 2:
            raise ConnectionError("the connection went away")
        return done

    monkeypatch.setattr(nk.Index, "upsert_many", failing)
    upserts = nks.StreamUpserts(url, scope="code", rejected=str(tmp_path / "rejected"))

    def run_stream() -> None:
        stream = (
            spark.readStream.schema("id string, text string")
            .option("maxFilesPerTrigger", 1)
            .parquet(str(tmp_path / "in"))
        )
        writing = stream.writeStream.foreachBatch(upserts).option(
            "checkpointLocation", str(tmp_path / "checkpoint")
        )
        writing.trigger(availableNow=True).start().awaitTermination()

    with pytest.raises(PySparkException, match="the connection went away"):
        run_stream()
    run_stream()
    assert [len(texts) for _, texts, _ in calls] == [30, 30, 30, 30]
    assert calls[1] == calls[2]
    with nk.Index.open(url) as index, nk.Index.open("memory://", threshold=0.7) as straight:
        order = [
            sorted(some.slice(30 * number, 30).to_pylist(), key=lambda row: str(row["id"]))
            for number in range(3)
        ]
        rows = [row for part in order for row in part]
        for row in rows:
            straight.upsert("code", row["text"], id=row["id"])
        for row in rows:
            mine, theirs = index.get("code", row["id"]), straight.get("code", row["id"])
            assert mine is not None
            assert theirs is not None
            assert (mine.leader, mine.cluster, mine.similarity) == (
                theirs.leader,
                theirs.cluster,
                theirs.similarity,
            )
        assert index.counts()["records"] == 90


def test_a_stream_needs_texts(spark: SparkSession, tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'kin.db'}"
    nk.Index.open(url, threshold=0.7).close()
    batch = spark.createDataFrame([("a", None), ("b", "x y z")], "id string, text string")
    with pytest.raises(UsageError, match="document 'a' of micro-batch 7 has no text"):
        nks.StreamUpserts(url)(batch, 7)
    nks.StreamUpserts(url, rejected=str(tmp_path / "rejected"))(batch, 7)
    assert pq.read_table(tmp_path / "rejected").to_pylist()[0]["reason"] == "text is null"
    dotted = spark.createDataFrame([("", None)], "`my.id` string, `my.text` string")
    with pytest.raises(UsageError, match="document '' of micro-batch 8 has no text"):
        nks.StreamUpserts(url, id="my.id", text="my.text")(dotted, 8)
