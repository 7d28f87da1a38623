"""Row for row what the local engine finds."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame, SparkSession

import nearkin as nk
from nearkin import spark as nks
from nearkin.engine.spark import cluster_tables, exact_groups, pair_bins, pair_scoring
from nearkin.engine.spark.rereading import to_excerpts
from nearkin.engine.stats import RunStats
from nearkin.errors import IncompatibleError
from nearkin.reports.collect import cut_excerpt
from nearkin.settings import presets
from nearkin.settings.spec import Spec
from nearkin.stages.sketch.resources import weighted_by
from tests.engine.spark.conftest import ordered_pairs, rows_of
from tests.engine.symbol_texts import SAME_SHINGLES, SYMBOL_TEXTS
from tests.engine.test_value_groups import table_with_values
from tests.engine.variants import variants_of_a_text

BANDED = {"bands": 20, "rows": 5, "threshold": 0.7}
MEASURES: dict[str, dict[str, Any]] = {
    "jaccard": {"text": "text", **BANDED},
    "everything compared": {"text": "text", "threshold": 0.7},
    "hot buckets": {
        "text": "text",
        "hot_bucket_size": 3,
        "fanout": 3,
        "threshold": 0.5,
        "bands": 30,
        "rows": 3,
    },
    "pair budget": {
        "text": "text",
        "hot_bucket_size": 3,
        "pair_budget": 9,
        "fanout": 3,
        "threshold": 0.5,
        "bands": 30,
        "rows": 3,
    },
    "across": {"text": "text", "across": "stamp", **BANDED},
    "across, everything compared": {"text": "text", "across": "stamp", "threshold": 0.7},
    "across, pair budget": {
        "text": "text",
        "across": "stamp",
        "hot_bucket_size": 3,
        "pair_budget": 9,
        "fanout": 3,
        "threshold": 0.5,
        "bands": 30,
        "rows": 3,
    },
    "tokens": {"tokens": "words", **BANDED},
    "options of the Spec": {
        "shingle": "words:2",
        "k": 192,
        "seed": 9,
        "stem": "english",
        "normalise": "nfkc,lower,digits,punctuation",
        "scheme": "classic",
        "base_hash": "murmur3",
        "memory": "2GB",
        **BANDED,
    },
    "across, pair budget, options of the Spec": {
        "text": "text",
        "across": "stamp",
        "hot_bucket_size": 3,
        "pair_budget": 9,
        "fanout": 3,
        "shingle": "words:2",
        "k": 192,
        "seed": 9,
        "stem": "english",
        "normalise": "nfkc,lower,digits,punctuation",
        "scheme": "classic",
        "base_hash": "murmur3",
        "memory": "2GB",
        "threshold": 0.5,
        "bands": 30,
        "rows": 3,
    },
    "characters": {"text": "text", "spec": Spec(unit="chars", n=5), **BANDED},
    "blocks": {"text": "text", "block_by": "package", **BANDED},
    "probes": {"text": "text", "probes": 2, "bands": 12, "rows": 6, "threshold": 0.7},
    "truncated": {"text": "text", "spec": Spec(slot_bits=2), **BANDED},
    "weighted": {"text": "text", "measure": "weighted-jaccard", **BANDED},
    "idf": {"text": "text", "measure": "idf-jaccard", **BANDED},
    "simhash": {"text": "text", "measure": "simhash", "threshold": 0.9, "bands": 8, "rows": 8},
    "distance": {"text": "text", "measure": "simhash", "distance": 6},
    "cosine": {"vector": "vector", "threshold": 0.98, "bands": 24, "rows": 10},
    "vectors by distance": {"vector": "vector", "distance": 60},
    "fingerprints": {"fingerprint": "hash", "distance": 2},
    "related fingerprints": {"fingerprint": "hash", "distance": 2, "related": 0.9},
    "estimates": {"text": "text", "verify": "estimate", **BANDED},
    "candidates": {"text": "text", "verify": "none", **BANDED},
}
KEEPS = (
    "length desc",
    "score desc, length asc",
    "package:re>json>email, stamp asc",
    "stamp desc, score asc",
)
QUICK = [
    ("across, pair budget, options of the Spec", "leaders", KEEPS[2], 4),
    ("weighted", "components", KEEPS[1], 5),
    ("cosine", "leaders", KEEPS[3], 1),
    ("related fingerprints", "leaders", KEEPS[0], 2),
]
FULL = [
    (measure, cluster, keep, partitions)
    for measure in MEASURES
    for cluster in ("leaders", "components")
    for keep in KEEPS
    for partitions in (1, 4, 13)
]
"""All combinations."""
FULL.append(("weighted", "components", KEEPS[1], 37))


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Makes the tests of all combinations in the full form only: hundreds would be skipped."""
    if metafunc.function is test_clusters_are_those_of_the_local_engine_in_all_combinations:
        is_full = metafunc.config.getoption("--full")
        names = ("measure", "cluster", "keep", "partitions")
        metafunc.parametrize(names, FULL if is_full else FULL[:1])


def both(
    code: pa.Table, frame: DataFrame, **options: Any
) -> tuple[tuple[list[dict[str, Any]], set[Any]], tuple[list[dict[str, Any]], set[Any]]]:
    """Clusters by id, and pairs, of either engine, whose warnings are the same."""
    local = nk.dedup(code, id="id", **options)
    if "hot_bucket_size" in options:
        assert local.stages["candidates"]["hot_buckets"] > 5
    with nks.dedup(frame, id="id", **options) as result:
        theirs = rows_of(result.clusters.toArrow()), pair_set(result.pairs.toArrow())
        if "related" in options:
            assert ordered_pairs(result.related.toArrow()) == ordered_pairs(local.related.arrow)
            assert len(local.related) > 5
        assert result.warnings == local.warnings
    return (rows_of(local.clusters.arrow), pair_set(local.pairs.arrow)), theirs


def pair_set(pairs: pa.Table) -> set[Any]:
    return {
        (frozenset((a, b)), *rest)
        for a, b, *rest in zip(*(column.to_pylist() for column in pairs.columns), strict=True)
    }


def check(
    code: pa.Table, frame: DataFrame, measure: str, cluster: str, keep: str, partitions: int
) -> None:
    mine, theirs = both(
        code, frame.repartition(partitions), cluster=cluster, keep=keep, **MEASURES[measure]
    )
    assert theirs[0] == mine[0]
    assert theirs[1] == mine[1]
    assert {row["kind"] for row in mine[0]} >= {"unique", "kept", "near"}


@pytest.mark.usefixtures("three_partitions")
@pytest.mark.parametrize(("measure", "cluster", "keep", "partitions"), QUICK)
def test_clusters_are_those_of_the_local_engine(
    measure: str, cluster: str, keep: str, partitions: int, code: pa.Table, frame: DataFrame
) -> None:
    check(code, frame, measure, cluster, keep, partitions)


@pytest.mark.full
def test_clusters_are_those_of_the_local_engine_in_all_combinations(
    measure: str, cluster: str, keep: str, partitions: int, code: pa.Table, frame: DataFrame
) -> None:
    check(code, frame, measure, cluster, keep, partitions)


@pytest.mark.parametrize(
    "options",
    [
        {"block_by": "region"},
        pytest.param({"empty": "drop", "cluster": "components"}, marks=pytest.mark.full),
    ],
)
def test_same_groups_of_equal_values(
    spark: SparkSession,
    tmp_path: Path,
    options: dict[str, Any],
    full: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    if full:
        monkeypatch.setattr(exact_groups, "EDGES_IN_ONE_TASK", 0)
    table = table_with_values(5)
    table = table.append_column("void", pa.nulls(len(table), pa.string()))
    pq.write_table(table, tmp_path / "values.parquet")
    frame = spark.read.parquet(str(tmp_path / "values.parquet")).repartition(3)
    options |= {"same": "isbn,doi,void", "url": "link", "shingle": "words:1", "threshold": 0.5}
    local = nk.dedup(table, id="id", **options)
    with nks.dedup(frame, id="id", **options) as result:
        rows = rows_of(result.clusters.toArrow())
        assert rows == rows_of(local.clusters.arrow)
        assert {row["kind"] for row in rows} >= {"same", "near", "exact"}
        assert pair_set(result.pairs.toArrow()) == pair_set(local.pairs.arrow)
        assert result.statistics == local.statistics
        assert result.warnings == local.warnings
        assert sum("no document has a value" in warning for warning in result.warnings) == 1
        for stage in ("collapse", "cluster"):
            numbers = {name: result.stages[stage][name] for name in ("exact", "same")}
            assert numbers.items() <= local.stages[stage].items()


def test_same_documents_that_differ_in_symbols(spark: SparkSession) -> None:
    rows = [{"id": f"{i:02}", "text": text} for i, text in enumerate(SYMBOL_TEXTS)]
    local = nk.dedup(pa.Table.from_pylist(rows), id="id")
    with nks.dedup(spark.createDataFrame(rows), id="id") as result:
        assert rows_of(result.clusters.toArrow()) == rows_of(local.clusters.arrow)
        assert result.statistics == local.statistics
        assert result.statistics["same_shingles"] == SAME_SHINGLES


# the quick form compares the warnings of every run of this file
@pytest.mark.full
def test_short_texts_cause_the_same_warning(spark: SparkSession) -> None:
    titles = ["one two three", "one two four", "five six seven eight", "nine", ""]
    rows = [(f"d{number}", text) for number, text in enumerate(titles)]
    frame = spark.createDataFrame(rows, "id string, text string")
    table = pa.table({"id": [name for name, _ in rows], "text": titles})
    with nks.dedup(frame, id="id", text="text") as result:
        assert result.warnings == nk.dedup(table, id="id").warnings
        assert "4 of 4 documents (100%)" in result.warnings[0]
        assert result.stages["collapse"]["single"] == 3


# the local engine and Spark take their warnings from one function
@pytest.mark.full
def test_a_run_larger_than_its_preset_was_measured_on_causes_the_same_warning(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    read = presets._read
    monkeypatch.setattr(presets, "_read", lambda name: replace(read(name), rows=(1, 2, 3, 4)))
    texts = [f"Anna Miller, {number} Hill Road, Springfield" for number in range(5)]
    rows = [(f"d{number}", text) for number, text in enumerate(texts)]
    frame = spark.createDataFrame(rows, "id string, text string")
    table = pa.table({"id": [name for name, _ in rows], "text": texts})
    with nks.dedup(frame, id="id", text="text", preset="records") as result:
        assert result.warnings == nk.dedup(table, id="id", preset="records").warnings
        assert sum("was measured on 1 to 4 rows" in warning for warning in result.warnings) == 1


PRODUCTS = ["acme black camera mx1", "acme black camera mx2", "acme black camera mx3"]
PRODUCTS += ["camera mx1", "acme camera mx2 mx2", "acme black lens"]
IDF: dict[str, Any] = {"text": "text", "spec": Spec(n=1, measure="idf-jaccard"), "threshold": 0.5}


def products(spark: SparkSession) -> tuple[pa.Table, DataFrame]:
    rows = [(f"d{number}", name) for number, name in enumerate(PRODUCTS)]
    frame = spark.createDataFrame(rows, "id string, text string")
    return pa.table({"id": [name for name, _ in rows], "text": PRODUCTS}), frame


def test_spark_counts_frequencies_of_idf_jaccard(spark: SparkSession) -> None:
    mine, theirs = both(*products(spark), **IDF)
    assert theirs == mine
    assert {row["kind"] for row in mine[0]} == {"unique", "kept", "near"}


def test_spark_refuses_idf_jaccard_without_its_frequencies(spark: SparkSession) -> None:
    _, frame = products(spark)
    spec = weighted_by(nk.frequencies(PRODUCTS, spec=IDF["spec"]), IDF["spec"])
    with pytest.raises(IncompatibleError, match="but none was given"):
        nks.dedup(frame, id="id", **{**IDF, "spec": spec})


@pytest.mark.full
def test_spark_counts_frequencies_of_simhash(code: pa.Table, frame: DataFrame) -> None:
    options = {**MEASURES["simhash"], "weights": "tfidf"}
    mine, theirs = both(code, frame, **options)
    assert theirs == mine


@pytest.mark.full
def test_spark_takes_frequencies_of_idf_jaccard(spark: SparkSession) -> None:
    counted = nk.frequencies(PRODUCTS[:2], spec=IDF["spec"])
    options = {**IDF, "spec": weighted_by(counted, IDF["spec"]), "frequencies": counted}
    mine, theirs = both(*products(spark), **options)
    assert theirs == mine
    assert mine != both(*products(spark), **IDF)[0]


@pytest.mark.full
def test_frequent_shingles_are_cut_as_by_the_local_engine(code: pa.Table, frame: DataFrame) -> None:
    mine, theirs = both(code, frame.repartition(3), text="text", max_df=0.02, **BANDED)
    assert theirs == mine
    assert mine != both(code, frame, text="text", **BANDED)[0]


@pytest.mark.full
def test_components_across_tasks_and_crowded_bins_are_those_of_the_local_engine(
    code: pa.Table, frame: DataFrame, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cluster_tables, "PAIRS_IN_ONE_TASK", 0)
    monkeypatch.setattr(pair_bins, "BIN_BYTES", 20_000)
    options = {
        "text": "text",
        "threshold": 0.3,
        "bands": 40,
        "rows": 2,
        "cluster": "components",
        "empty": "drop",
    }
    mine, theirs = both(code, frame, **options)
    assert theirs == mine


def test_small_corpora_of_long_texts_are_compared_completely_in_several_tasks(
    code: pa.Table, frame: DataFrame, monkeypatch: pytest.MonkeyPatch
) -> None:
    mine, theirs = both(code, frame, text="text", threshold=0.5)
    monkeypatch.setattr(pair_scoring, "SHINGLES_PER_TASK", 30_000)
    portions, of_tasks = both(code, frame, text="text", threshold=0.5)
    assert portions == mine
    assert of_tasks == theirs == mine


def test_excerpts_of_long_texts_end_where_those_of_the_local_engine_do() -> None:
    for text in ("word " * 2000, "x" * 3999 + " word", "x" * 4000 + " word", "x" * 5000):
        assert cut_excerpt(to_excerpts(pa.array([text]))[0].as_py()) == cut_excerpt(text)


@pytest.mark.usefixtures("three_partitions")
def test_documents_of_hot_buckets_are_compared_as_in_the_local_engine(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Groups of documents that are left over, the rounds, and the estimate of what is missing."""
    table = variants_of_a_text(variants=150, copies=60, changed_of_copies=5)
    monkeypatch.setattr("nearkin.engine.run.SMALL_CORPUS", 0)
    monkeypatch.setattr("nearkin.engine.hot_buckets.MOST_ROUNDS", 2)
    options: dict[str, Any] = {"id": "id", "hot_bucket_size": 8, "fanout": 4, **BANDED}
    local = nk.dedup(table, **options)
    mine = RunStats.from_stages(local.stages)
    assert mine.verify is not None
    assert mine.verify.hot_incomplete
    assert mine.missing_pairs is not None
    assert mine.missing_pairs.pairs > 10
    with nks.dedup(spark.createDataFrame(table), **options) as result:
        assert rows_of(result.clusters.toArrow()) == rows_of(local.clusters.arrow)
        assert pair_set(result.pairs.toArrow()) == pair_set(local.pairs.arrow)
        assert result.warnings == local.warnings
        theirs = RunStats.from_stages(result.stages)
    assert theirs.verify == mine.verify
    assert theirs.missing_pairs == mine.missing_pairs
    assert theirs.candidates is not None
    assert mine.candidates is not None
    sizes = [[bucket[:2] for bucket in run.hottest] for run in (mine.candidates, theirs.candidates)]
    assert sizes[0] == sizes[1]
