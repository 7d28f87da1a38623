"""Tests of the Python API: dedup, pairs, sketch and report over data in memory."""

import errno
import os
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from datasets import Dataset

import nearkin as nk
from nearkin.integrations.text_columns import TextColumns
from tests.counted_stages import CountedStages

BASE = [
    f"the text number {i} has some words of its own like w{i} x{i * 7} y{i * 11} and z{i * 13} at "
    f"the end"
    for i in range(40)
]
TEXTS = [*BASE, *(text.upper() for text in BASE[:5]), *(text + " today" for text in BASE[5:10]), ""]
BANDED = {"bands": 20, "rows": 5}
COLUMNS: dict[str, Any] = {
    "list": TEXTS,
    "tuple": tuple(TEXTS),
    "arrow": pa.array(TEXTS),
    "arrow large": pa.array(TEXTS, pa.large_string()),
    "arrow view": pa.array(TEXTS, pa.string_view()),
    "arrow dictionary": pa.array(TEXTS).dictionary_encode(),
    "arrow binary": pa.array([text.encode() for text in TEXTS], pa.binary()),
    "arrow slice": pa.array(["before", *TEXTS, "after"])[1:-1],
    "chunked": pa.chunked_array([TEXTS[:7], [], TEXTS[7:]]),
    "numpy": np.array(TEXTS, object),
    "numpy texts": np.array(TEXTS, np.dtypes.StringDType()),
    "pandas": pd.Series(TEXTS),
    "pandas arrow": pd.Series(TEXTS, dtype="string[pyarrow]"),
    "polars": pl.Series(TEXTS),
    "datasets": Dataset.from_dict({"text": TEXTS})["text"],
}
TABLE = pa.table({"key": [f"k{i}" for i in range(len(TEXTS))], "text": TEXTS})
TABLES: dict[str, Any] = {
    "arrow": TABLE,
    "batch": TABLE.to_batches()[0],
    "pandas": TABLE.to_pandas(),
    "polars": pl.from_arrow(TABLE),
    "datasets": Dataset.from_dict(TABLE.to_pydict()),
    "datasets shuffled": Dataset.from_dict(
        TABLE.take(list(range(len(TEXTS)))[::-1]).to_pydict()
    ).select(range(len(TEXTS))[::-1]),
    "mapping": TABLE.to_pydict(),
}


@pytest.mark.parametrize("column", COLUMNS.values(), ids=COLUMNS)
def test_every_kind_of_column_has_the_same_signatures(column: Any) -> None:
    want = nk.sketch(pa.array(TEXTS, pa.large_string()), nk.Spec(k=32))
    np.testing.assert_array_equal(nk.sketch(column, nk.Spec(k=32)), want)
    assert want.dtype == np.uint32
    assert want.shape == (len(TEXTS), 32)


def test_sketch_of_arrow_creates_no_python_strings(monkeypatch: pytest.MonkeyPatch) -> None:
    from nearkin.corpus import arrow_conversion as convert
    from nearkin.corpus import validation as accept

    def fail(*_: object) -> None:
        raise AssertionError("Python objects were made")

    monkeypatch.setattr(accept, "is_utf8", fail)
    monkeypatch.setattr(convert.pa, "array", fail)
    assert len(nk.sketch(COLUMNS["arrow large"])) == len(TEXTS)


@pytest.mark.parametrize("workers", [1, 3])
def test_sketch_does_not_depend_on_workers(workers: int) -> None:
    many = pa.array(TEXTS * 500)
    np.testing.assert_array_equal(nk.sketch(many, workers=workers)[: len(TEXTS)], nk.sketch(TEXTS))


@pytest.mark.parametrize(
    ("column", "message"),
    [
        (["a", None], "row 1: text is null"),
        (pa.array([b"a", b"\xff"]), "row 1: text is not valid UTF-8"),
        ([1, 2], "int64, not text"),
        ("one text", "str is not a column of texts"),
        (["a", 1], "not of one Arrow type"),
    ],
)
def test_column_that_is_not_text_cannot_be_sketched(column: Any, message: str) -> None:
    with pytest.raises(nk.UsageError, match=message):
        nk.sketch(column)


def test_empty_column_has_no_signatures() -> None:
    assert nk.sketch([]).shape == (0, 128)


@pytest.mark.parametrize("table", TABLES.values(), ids=TABLES)
def test_every_kind_of_table_has_the_same_result(table: Any) -> None:
    result = nk.dedup(table, id="key")
    kinds = result.clusters["kind"].to_pylist()
    assert [kinds.count(kind) for kind in ("unique", "kept", "exact", "near", "empty")] == [
        30,
        10,
        5,
        5,
        1,
    ]
    assert result.kept.sum() == 41
    filtered = result.filter(table)
    assert type(filtered) is type(table)
    assert len(filtered["text"]) == 41
    assert result.statistics["removed_near"] == 5
    assert "51 documents, 41 kept" in repr(result)


def test_lists_and_files_have_the_same_result(tmp_path: Path) -> None:
    pq.write_table(TABLE, tmp_path / "a.parquet")
    for data in (
        TEXTS,
        str(tmp_path / "a.parquet"),
        tmp_path / "a.parquet",
        [tmp_path / "a.parquet"],
    ):
        assert nk.dedup(data).kept.sum() == 41


def test_rejected_rows_are_not_kept() -> None:
    result = nk.dedup(pa.table({"text": ["one two three four", None, "One two three four."]}))
    assert result.kept.tolist() == [False, False, True]
    assert result.statistics["rejected"] == 1


def test_result_tables_convert_to_pandas_and_polars() -> None:
    result = nk.dedup(TABLE, id="key")
    assert result.clusters.to_pandas().shape == result.clusters.to_polars().shape == (51, 5)
    assert pl.DataFrame(result.pairs).height == len(result.pairs) == 5
    assert result.clusters.num_rows == 51


def test_missing_polars_error_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    result = nk.dedup(TEXTS)
    monkeypatch.setitem(sys.modules, "polars", None)
    with pytest.raises(nk.NearkinError, match=r'pip install "\.\[polars\]"'):
        result.clusters.to_polars()


@pytest.mark.parametrize(
    "settings", [{}, BANDED, {"cluster": "components"}, {"verify": "none", **BANDED}]
)
def test_rethreshold_equals_a_run_at_that_threshold(settings: dict[str, Any]) -> None:
    rng = np.random.default_rng(4)
    texts = []
    for i in range(300):
        words = np.arange(40) + i // 7 * 40
        changed = np.where(rng.random(40) < i % 7 / 50, rng.integers(1000, 9000, 40), words)
        texts.append(" ".join(f"w{word}" for word in changed))
    result = nk.dedup(texts, threshold=0.5, **settings)
    again = result.rethreshold(0.8)
    assert 0 < again.statistics["removed"] < result.statistics["removed"]
    if not settings or "cluster" in settings:
        direct = nk.dedup(texts, threshold=0.8, **settings)
        assert again.clusters.arrow.equals(direct.clusters.arrow)
        assert again.pairs.arrow.equals(direct.pairs.arrow)
    assert min(again.pairs["similarity"].to_pylist()) >= 0.8
    with pytest.raises(
        nk.UsageError,
        match=r"threshold 0\.4 is out of range; it must be 0\.5 \(that of the run\) to 1",
    ):
        result.rethreshold(0.4)


def test_rethreshold_after_hot_buckets_is_refused_with_the_reason() -> None:
    """Leaders of hot buckets belong to the threshold of the run."""
    texts = []
    rng = np.random.default_rng(6)
    for _ in range(60):
        words = np.arange(60)
        changed = np.where(rng.random(60) < 0.02, rng.integers(1000, 9000, 60), words)
        texts.append(" ".join(f"w{word}" for word in changed))
    settings: dict[str, Any] = {"threshold": 0.6, "bands": 30, "rows": 4}
    hot = nk.dedup(texts, hot_bucket_size=10, fanout=3, **settings)
    with pytest.raises(nk.UsageError, match="buckets have more than 10 documents, which were"):
        hot.rethreshold(0.8)
    assert hot.rethreshold(0.6).clusters.arrow.equals(hot.clusters.arrow)
    assert not hot.report_data.what_if
    complete = nk.dedup(texts, hot_bucket_size=10, pair_budget=10**6, **settings)
    direct = nk.dedup(texts, **{**settings, "threshold": 0.8}, hot_bucket_size=100)
    assert complete.rethreshold(0.8).clusters.arrow.equals(direct.clusters.arrow)
    assert complete.report_data.what_if


def test_written_result_has_the_files_of_a_run(tmp_path: Path) -> None:
    result = nk.dedup(TABLE, id="key")
    out = result.write(tmp_path / "out")
    assert pq.read_table(out / "kept/documents.parquet").num_rows == 41
    assert pq.read_table(out / "clusters.parquet").equals(result.clusters.arrow)
    with pytest.raises(nk.UsageError, match="exists"):
        result.write(tmp_path / "out")
    pq.write_table(TABLE, tmp_path / "in.parquet")
    from_files = nk.dedup(tmp_path / "in.parquet").write(tmp_path / "files")
    assert pq.read_table(from_files / "kept/in.parquet").num_rows == 41


def test_report_of_a_result_equals_that_of_its_folder(tmp_path: Path) -> None:
    result = nk.dedup(TABLE, id="key")
    page = nk.report(result, tmp_path / "page.html").read_text("utf-8")
    assert "41" in page
    out = result.write(tmp_path / "out")
    (out / "report.html").unlink()
    assert nk.report(out).read_text("utf-8") == page
    with pytest.raises(nk.UsageError, match="does not contain a report"):
        nk.report(tmp_path)
    before = (out / "report.html").read_bytes()
    with pytest.raises(nk.UsageError, match=r"report\.html is a page of .*, the result of a run"):
        nk.report(result, out / "report.html")
    assert (out / "report.html").read_bytes() == before


def test_report_is_private_and_replaced_as_a_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    result = nk.dedup(TABLE, id="key")
    page = nk.report(result, tmp_path / "page.html")
    assert page.stat().st_mode & 0o777 == 0o600
    page.chmod(0o640)
    previous = os.umask(0o077)
    try:
        before = nk.report(result, page).read_bytes()
    finally:
        os.umask(previous)
    assert page.stat().st_mode & 0o777 == 0o640
    with pytest.raises(nk.UsageError, match="no such folder"):
        nk.report(result, tmp_path / "missing" / "page.html")

    def fail(handle: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(nk.RunError, match="No space left"):
        nk.report(result, page)
    assert page.read_bytes() == before
    assert [path.name for path in tmp_path.iterdir()] == ["page.html"]


def test_pairs_convert_and_expand_exact_duplicates() -> None:
    result = nk.pairs(TABLE, id="key", threshold=0.8)
    assert result.to_pandas().shape == (5, 4)
    assert result.to_polars().height == 5
    assert nk.pairs(TABLE, id="key", threshold=0.8, expand_exact=True).pairs.num_rows == 10


def test_token_lists_are_compared_without_normalization() -> None:
    table = pa.table({"words": [["A", "b", "c"], ["A", "b", "c"], ["a", "b", "c"]]})
    assert nk.dedup(table, tokens="words").kept.tolist() == [True, False, True]
    with pytest.raises(nk.UsageError, match="exclude each other"):
        nk.dedup(table, text="words", tokens="words")


def test_usage_errors_name_the_invalid_value() -> None:
    with pytest.raises(
        nk.UsageError,
        match=r"unknown setting 'treshold'; did you mean 'threshold'\?; valid settings",
    ):
        nk.dedup(TEXTS, treshold=0.5)
    with pytest.raises(
        nk.UsageError, match=r"the table has no column 'body' \(it has 'key', 'text'\)"
    ):
        nk.dedup(TABLE, text="body")
    with pytest.raises(nk.UsageError, match="the table has 3 rows, but the result has 51"):
        nk.dedup(TABLE).filter(["a", "b", "c"])


@pytest.mark.parametrize("threshold", [0.1, 0.3, 0.5])
def test_simhash_at_a_low_threshold_compares_all_documents_of_a_small_corpus(
    threshold: float,
) -> None:
    """No bands of signs reach such a threshold, and a small corpus needs none."""
    rng = np.random.default_rng(4)
    texts = [" ".join(rng.choice(list("abcdefgh"), 12)) for _ in range(40)]
    spec = nk.Spec(measure="simhash", n=1)
    first, second = np.triu_indices(len(texts), 1)
    similarities = TextColumns(spec).compare(
        [texts[row] for row in first], [texts[row] for row in second]
    )
    near = np.asarray(similarities) >= threshold
    expected = {(f"{a:010d}", f"{b:010d}") for a, b in zip(first[near], second[near], strict=True)}
    pairs = nk.pairs(texts, spec=spec, threshold=threshold).pairs.arrow
    assert set(zip(pairs["id_a"].to_pylist(), pairs["id_b"].to_pylist(), strict=True)) == expected


def test_groups_of_a_split_are_those_of_arrays_too() -> None:
    shares = np.array([0.5, 0.5], np.float32)
    result = nk.split(BASE[:4], shares, names=np.array(["a", "b"]))  # type: ignore[arg-type]
    assert result.names == ("a", "b")
    assert [type(group["share"]) for group in result.facts["groups"]] == [float, float]


@pytest.mark.parametrize(
    "call",
    [
        lambda **options: nk.pairs(BASE, relation="same", **options),
        lambda **options: nk.split(BASE, [0.5, 0.5], across="text", **options),
        lambda **options: nk.check(BASE, BASE, same="text", **options),
        lambda **options: nk.dedup({"a": BASE, "b": BASE}, text=["a", "b"], passages=5, **options),
    ],
)
def test_options_are_refused_before_shingles_are_counted(call: Any) -> None:
    stages = CountedStages()
    with pytest.raises(nk.UsageError):
        call(max_df=0.5, progress=stages)
    assert not stages.counted
