"""Spark accepts the same pairs as the local engine, row for row."""

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

import nearkin as nk
from nearkin import spark as nks
from nearkin.engine.options import RunOptions
from nearkin.errors import RunError, UsageError
from nearkin.spark.frames import require_whole_documents
from tests.engine.local.test_acceptance import make_texts
from tests.engine.spark.conftest import ordered_pairs, rows_of

BANDED = {"bands": 30, "rows": 3}
CASES: dict[str, dict[str, Any]] = {
    "all terms": {
        "accept": "jaccard >= 0.5 and containment >= 0.9 and containment_of_kept >= 0.5 and "
        "(length_ratio < 1 and witness >= 4 or witness < 9 or numbers_equal and same(lang)) and "
        "(says_all or not differ(lang))",
        **BANDED,
    },
    "required equalities, every pair compared": {
        "accept": "jaccard >= 0.6 and numbers_equal and same(lang)"
    },
    "no exact groups": {"accept": "jaccard >= 0.6 and jaccard < 1", **BANDED},
    "a shared run, every pair compared": {"accept": "jaccard >= 0.4 and witness >= 6"},
    "a bound on the loss": {"threshold": 0.5, "max_lost": 0.05, **BANDED},
}
CASES["related documents"] = {**CASES["all terms"], "related": 0.4}
CASES["related documents, every pair compared"] = {
    "accept": "jaccard >= 0.6 and numbers_equal and same(lang)",
    "related": 0.7,
}
CASES["related documents of contained ones"] = {
    "accept": "containment >= 0.9 and same(lang)",
    "related": 0.3,
    "hot_bucket_size": 5,
    "pair_budget": 20,
    **BANDED,
}
QUICK = "related documents"


@pytest.fixture(scope="module")
def table() -> pa.Table:
    texts = make_texts(80, seed=11)
    languages = [("10.1/a", None, "DOI 10.1/A", "de")[number % 4] for number in range(len(texts))]
    ids = [f"d{number:03d}" for number in range(len(texts))]
    return pa.table({"id": ids, "text": texts, "lang": languages})


@pytest.mark.parametrize(
    "case",
    [pytest.param(name, marks=() if name == QUICK else pytest.mark.full) for name in CASES],
)
def test_the_same_documents_are_removed_as_by_the_local_engine(
    case: str, table: pa.Table, spark: SparkSession
) -> None:
    options: dict[str, Any] = {"shingle": "words:2", "id": "id", **CASES[case]}
    local = nk.dedup(table, **options)
    assert 0 < local.kept.sum() < len(table)
    frame = spark.createDataFrame(table.to_pylist(), "id string, text string, lang string")
    with nks.dedup(frame.repartition(3), **options) as result:
        assert rows_of(result.clusters.toArrow()) == rows_of(local.clusters.arrow)
        assert result.pairs.count() == len(local.pairs)
        if "related" in options:
            assert result.statistics == local.statistics
            assert ordered_pairs(result.related.toArrow()) == ordered_pairs(local.related.arrow)
            assert len(local.related) > 20


def test_the_same_run_is_refused_as_by_the_local_engine(
    table: pa.Table, spark: SparkSession
) -> None:
    options: dict[str, Any] = {"shingle": "words:2", "id": "id", "max_removed": "lang:0.1"}
    with pytest.raises(RunError) as local:
        nk.dedup(table, **options)
    frame = spark.createDataFrame(table.to_pylist(), "id string, text string, lang string")
    with pytest.raises(RunError) as distributed:
        nks.dedup(frame, **options)
    assert str(distributed.value) == str(local.value)
    with pytest.raises(UsageError, match="`threshold` and accept='safe' exclude each other"):
        nks.dedup(frame, shingle="words:2", id="id", accept="safe", threshold=0.8)


def test_the_same_run_is_doubted_as_by_the_local_engine(spark: SparkSession) -> None:
    words = [f"w{number}" for number in range(400)]
    rows = [{"id": f"c{number:02}", "text": ("York", "Bath")[number % 2]} for number in range(12)]
    for number in range(0, 240, 20):
        first, second = (" ".join(words[start : start + 10]) for start in (number, number + 10))
        texts = {"a": first, "b": second, "c": f"{first} {second}", "d": f"{first} {second}"}
        rows += [{"id": f"{name}{number:03}", "text": text} for name, text in texts.items()]
    options: dict[str, Any] = {"shingle": "words:1", "threshold": 0.45, "id": "id"}
    options |= {"keep": "length asc", "strict": True}
    frame = spark.createDataFrame(rows, "id string, text string")
    # 10 of 12 short texts, and 12 of 36 longer ones, are removed; the last 12 are long copies
    for doubted, counts in ((rows, "22 of 48 documents"), (rows[12:], "12 of 36 documents")):
        with pytest.raises(RunError, match=f"{counts} .* 12 of them are about as similar") as local:
            nk.dedup(pa.Table.from_pylist(doubted), **options)
        part = frame if doubted is rows else frame.where("id NOT LIKE 'c__'")
        with pytest.raises(RunError) as distributed:
            nks.dedup(part, **options)
        assert str(distributed.value) == str(local.value)


@pytest.mark.full
def test_refused_run_names_the_same_documents_of_a_reference(
    table: pa.Table, spark: SparkSession
) -> None:
    options: dict[str, Any] = {"shingle": "words:2", "id": "id", "max_removed": "lang:0.1"}
    reference = table.slice(5, 1)
    text = reference["text"][0].as_py()
    copies = [{"id": f"e{number}", "text": text, "lang": "xx"} for number in range(4)]
    new = pa.concat_tables([table, pa.Table.from_pylist(copies, table.schema)])
    with pytest.raises(RunError, match=r"Of the reference, ") as local:
        nk.dedup(new, against=reference, **options)
    frames = [
        spark.createDataFrame(part.to_pylist(), "id string, text string, lang string")
        for part in (new, reference)
    ]
    with pytest.raises(RunError) as distributed:
        nks.dedup(frames[0], against=frames[1], **options)
    assert str(distributed.value) == str(local.value)


def make_additions(texts: int) -> list[str]:
    """Returns texts, each followed by a copy with long additions, and texts of frequent words."""
    rng = np.random.default_rng(23)
    syllables = [first + second for first in "bdfg" for second in "aeiou"]
    vocabulary = [first + second for first in syllables for second in syllables]
    made = []
    for number in range(texts):
        words = rng.choice(vocabulary, 30).tolist()
        added = rng.choice(vocabulary, 60 * (number % 3)).tolist()
        made += [" ".join(words), " ".join([*added, *words, *added])]
        made += [" ".join(["all of them begin like this"] * 2 + words[:4])]
    return made


@pytest.mark.parametrize(
    "options",
    [
        {"accept": "safe"},
        pytest.param(
            {"accept": "contained", "across": "lang", "pair_budget": 190}, marks=pytest.mark.full
        ),
        pytest.param(
            {"accept": "containment >= 0.7", "block_by": "lang", "pair_budget": 190},
            marks=pytest.mark.full,
        ),
    ],
    ids=str,
)
def test_contained_documents_are_found_as_by_the_local_engine(
    options: dict[str, Any], spark: SparkSession
) -> None:
    """Hashes that too many documents have are not looked up in either engine."""
    texts = make_additions(40)
    languages = ["de" if number % 4 else "en" for number in range(len(texts))]
    ids = [f"d{number:03d}" for number in range(len(texts))]
    table = pa.table({"id": ids, "text": texts, "lang": languages})
    options = {"shingle": "words:2", "id": "id", "hot_bucket_size": 20, **BANDED, **options}
    local = nk.dedup(table, **options)
    assert 0 < local.kept.sum() < len(table)
    frame = spark.createDataFrame(table.to_pylist(), "id string, text string, lang string")
    with nks.dedup(frame.repartition(3), **options) as result:
        assert rows_of(result.clusters.toArrow()) == rows_of(local.clusters.arrow)
        pairs = [tuple(row) for row in result.pairs.collect()]
        candidates = result.stages["candidates"]
    assert sorted(pair[:3] for pair in pairs) == sorted(
        (row["id_a"], row["id_b"], row["similarity"]) for row in local.pairs.arrow.to_pylist()
    )
    assert min(pair[2] for pair in pairs) < 0.4
    hot_shingles = candidates["hot_shingles"]
    assert hot_shingles == local.stages["candidates"]["hot_shingles"]
    assert (hot_shingles > 0) == ("pair_budget" in options)


def test_a_saved_run_is_not_extended_by_containment(table: pa.Table, spark: SparkSession) -> None:
    frame = spark.createDataFrame(table.to_pylist(), "id string, text string, lang string")
    with pytest.raises(UsageError, match="extend= cannot be combined with the condition"):
        nks.dedup(frame, id="id", accept="safe", extend="saved", before=frame)


def test_a_condition_on_merged_documents_is_refused() -> None:
    with pytest.raises(UsageError, match="lengths and wordings are those of rows"):
        require_whole_documents(RunOptions(max_lost=0.1))
