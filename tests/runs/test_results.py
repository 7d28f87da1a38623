import copy
import os
import pickle
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.csv
import pyarrow.json
import pyarrow.parquet as pq
import pytest
from datasets import ClassLabel, Dataset, Features, Value
from typer.testing import CliRunner

import nearkin as nk
from nearkin.cli.app import app
from nearkin.corpus import TableCorpus
from nearkin.errors import MissingExtraError, UsageError
from nearkin.runs.pairs import is_pairs_file

BASE = "the text number one has some words of its own and then a few more words at the end"
TEXTS = [BASE, BASE.upper(), f"{BASE} today", "something else altogether in words of its own", ""]
KEPT = [False, False, True, True, True]
LISTS = {"key": list("abcde"), "text": TEXTS}
TABLE = pa.table(LISTS)
FRAME = pd.DataFrame(LISTS, index=[10, 20, 30, 40, 50])
KINDS: dict[str, Any] = {
    "arrow": TABLE,
    "batch": TABLE.to_batches()[0],
    "pandas": FRAME,
    "polars": pl.from_arrow(TABLE),
    "lazy": pl.from_arrow(TABLE).lazy(),
    "datasets": Dataset.from_dict(LISTS),
    "mapping": LISTS,
    "dictionaries": TABLE.to_pylist(),
    "tuple of dictionaries": tuple(TABLE.to_pylist()),
}
COLUMNS: dict[str, Any] = {
    "list": TEXTS,
    "tuple": tuple(TEXTS),
    "array": pa.array(TEXTS),
    "chunked": pa.chunked_array([TEXTS]),
    "numpy": np.array(TEXTS, object),
    "series": pd.Series(TEXTS),
    "polars": pl.Series(TEXTS),
}


def keys_of(table: Any) -> list[str]:
    if isinstance(table, pl.LazyFrame):
        table = table.collect()
    if isinstance(table, list | tuple):
        return [row["key"] for row in table]
    column = table["key"]
    return list(column.to_pylist() if hasattr(column, "to_pylist") else column)


@pytest.fixture
def result() -> nk.results.DedupResult:
    return nk.dedup(TABLE, id="key")


@pytest.mark.parametrize("table", KINDS.values(), ids=KINDS)
def test_filter_returns_the_type_of_the_caller(table: Any) -> None:
    result = nk.dedup(table, id="key")
    assert result.kept.tolist() == KEPT
    filtered = result.filter(table)
    assert type(filtered) is type(table)
    assert keys_of(filtered) == ["c", "d", "e"]


@pytest.mark.parametrize("column", COLUMNS.values(), ids=COLUMNS)
def test_filter_returns_columns_of_the_type_of_the_caller(column: Any) -> None:
    result = nk.dedup(column)
    filtered = result.filter(column)
    assert type(filtered) is type(column)
    assert (
        list(
            pa.array(filtered, from_pandas=True).to_pylist()
            if not isinstance(filtered, pa.ChunkedArray)
            else filtered.to_pylist()
        )
        == TEXTS[2:]
    )


def test_filter_of_a_reader_is_a_reader(result: nk.results.DedupResult) -> None:
    reader = result.filter(TABLE.to_reader(max_chunksize=2))
    assert isinstance(reader, pa.RecordBatchReader)
    assert reader.read_all()["key"].to_pylist() == ["c", "d", "e"]


def test_filter_keeps_the_index_of_pandas(result: nk.results.DedupResult) -> None:
    assert result.filter(FRAME).index.tolist() == [30, 40, 50]


@pytest.mark.parametrize("table", [TABLE[:3], FRAME[:3], TEXTS[:3], {"key": ["a", "b", "c"]}])
def test_filter_refuses_another_number_of_rows(table: Any, result: nk.results.DedupResult) -> None:
    with pytest.raises(nk.UsageError, match="the table has 3 rows, but the result has 5"):
        result.filter(table)


def test_filter_refuses_a_consumed_iterator(result: nk.results.DedupResult) -> None:
    with pytest.raises(nk.UsageError, match="generator can be read only once; pass the rows as a"):
        result.filter(text for text in TEXTS)


def test_removed_and_rejected_rows_are_tables() -> None:
    result = nk.dedup({"text": [BASE, None, f"{BASE} today"]})
    assert len(result) == 2
    assert result.removed.to_pandas()["id"].tolist() == ["0000000000"]
    assert result.removed["kind"].to_pylist() == ["near"]
    assert result.rejected.arrow.to_pylist() == [
        {"file": "", "row": 1, "rows": 1, "line": None, "reason": "text is null", "raw": ""}
    ]
    assert result.statistics["rejected"] == 1


def test_rejected_rows_of_files_name_the_file(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text('{"text": "one two three"}\n{"text": 5}\n')
    rejected = nk.dedup(tmp_path / "a.jsonl").rejected
    assert rejected["file"].to_pylist() == ["a.jsonl"]
    assert len(nk.dedup(["one two three"]).rejected) == 0


def test_on_error_fail_names_the_row_of_a_table() -> None:
    with pytest.raises(nk.RunError, match=r"row 1 \(counted from 0\): text is null"):
        nk.dedup([BASE, None], on_error="fail")


def equal(a: nk.results.DedupResult, b: nk.results.DedupResult) -> None:
    assert a.clusters.arrow.equals(b.clusters.arrow)
    assert a.pairs.arrow.equals(b.pairs.arrow)
    assert a.rejected.arrow.equals(b.rejected.arrow)
    assert a.kept.tolist() == b.kept.tolist()
    assert a.statistics == b.statistics
    assert a.report_data == b.report_data
    assert a.warnings == b.warnings
    assert repr(a) == repr(b)


def test_pickled_result_has_the_same_tables(result: nk.results.DedupResult, tmp_path: Path) -> None:
    again = pickle.loads(pickle.dumps(result))
    equal(again, result)
    equal(pickle.loads(pickle.dumps(again)), result)
    assert again.filter(TABLE).equals(result.filter(TABLE))
    assert nk.report(again, tmp_path / "page.html").exists()
    with pytest.raises(nk.UsageError, match="closed or unpickled"):
        again.write(tmp_path / "out")
    with pytest.raises(nk.UsageError, match="closed or unpickled"):
        again.rethreshold(0.9)


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy])
def test_copied_result_has_the_same_tables(
    copied: Any, result: nk.results.DedupResult, tmp_path: Path
) -> None:
    again = copied(result)
    equal(again, result)
    result.close()
    # a copy is as complete as the result
    assert again.rethreshold(1.0).kept.tolist() == [True, False, True, True, True]
    assert again.write(tmp_path / "out").exists()


def test_a_closed_result_has_a_representation() -> None:
    result = nk.dedup(TABLE, id="key")
    result.close()
    assert repr(result) == "<DedupResult: closed>"


def test_deep_copies_do_not_share_arrays(result: nk.results.DedupResult) -> None:
    again = copy.deepcopy(result)
    again.kept[:] = False
    assert result.kept.tolist() == KEPT


def test_tables_and_pairs_pickle_and_copy() -> None:
    result = nk.pairs(TABLE, id="key")
    for again in (pickle.loads(pickle.dumps(result)), copy.copy(result), copy.deepcopy(result)):
        assert again.pairs.arrow.equals(result.pairs.arrow)
        assert again.statistics == result.statistics
        assert len(again) == len(result) == 1


@pytest.mark.parametrize("suffix", [".parquet", ".csv", ".tsv", ".jsonl", ".arrow", ".csv.gz", ""])
def test_pairs_are_written_in_the_format_of_the_suffix(suffix: str, tmp_path: Path) -> None:
    result = nk.pairs(TABLE, id="key")
    path = result.write(tmp_path / f"pairs{suffix}")
    assert path == tmp_path / f"pairs{suffix}"
    assert is_pairs_file(path)
    assert path.stat().st_mode & 0o077 == 0
    assert [entry.name for entry in tmp_path.iterdir()] == [path.name]
    if suffix in ("", ".parquet"):
        written = pq.read_table(path)
    elif suffix == ".arrow":
        written = pa.ipc.open_file(path.read_bytes()).read_all()
    elif suffix == ".jsonl":
        written = pa.json.read_json(path)
    else:
        options = pa.csv.ParseOptions(delimiter="\t" if suffix == ".tsv" else ",")
        written = pa.csv.read_csv(path, parse_options=options)
    assert written.column_names == result.pairs.column_names
    assert written["id_a"].to_pylist() == result.pairs["id_a"].to_pylist()


def run_command(arguments: list[str]) -> None:
    result = CliRunner().invoke(app, [*arguments, "--quiet"])
    assert result.exit_code == 0, result.output


def test_pairs_are_written_as_the_command_writes_them(tmp_path: Path) -> None:
    pq.write_table(TABLE, tmp_path / "in.parquet")
    command = ["pairs", str(tmp_path / "in.parquet"), "--id", "key", "-o", str(tmp_path / "a.csv")]
    run_command(command)
    nk.pairs(TABLE, id="key").write(tmp_path / "b.csv")
    assert (tmp_path / "b.csv").read_bytes() == (tmp_path / "a.csv").read_bytes()
    # the command replaces what the library wrote
    nk.pairs(TABLE, id="key").write(tmp_path / "c.parquet")
    run_command([*command[:-1], str(tmp_path / "c.parquet"), "--overwrite"])


@pytest.mark.parametrize(
    ("name", "readable_by", "message"),
    [
        ("pairs.xls", "owner", "does not write files with the suffix .xls"),
        ("there.csv", "owner", "there.csv exists; choose another file"),
        ("folder", "owner", "folder is a folder"),
        ("none/pairs.csv", "owner", "no such folder"),
        ("ftp://host/pairs.csv", "owner", "outputs are local, and this is a URL"),
        ("pairs.csv", "nobody", "nobody"),
    ],
)
def test_pairs_are_not_written_where_they_must_not(
    name: str, readable_by: str, message: str, tmp_path: Path
) -> None:
    (tmp_path / "there.csv").write_text("mine")
    (tmp_path / "folder").mkdir()
    with pytest.raises(nk.UsageError, match=message):
        nk.pairs(TABLE, id="key").write(name if "://" in name else tmp_path / name, readable_by)
    assert (tmp_path / "there.csv").read_text() == "mine"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["folder", "there.csv"]


def test_both_results_have_the_same_parts() -> None:
    texts = [BASE, None, f"{BASE} today", 5 * "another text "]
    deduped = nk.dedup({"text": texts})
    pairs = nk.pairs({"text": texts})
    assert pairs.rejected.arrow.equals(deduped.rejected.arrow)
    assert len(pairs.rejected) == 1
    for name in ("read", "rejected"):
        assert pairs.statistics[name] == deduped.statistics[name]
    assert (pairs.statistics["read"], pairs.statistics["pairs"]) == (4, len(pairs))
    assert pairs.stages.keys() <= deduped.stages.keys()
    rejected = "1 row was rejected: text is null (1)"
    assert repr(pairs) == f"<PairsResult: 1 pairs of 3 documents; {rejected}>"
    for result, table in ((deduped, deduped.clusters), (pairs, pairs.pairs)):
        assert result.to_arrow().equals(table.arrow)
        assert result.to_pandas().equals(table.to_pandas())
        assert result.to_polars().equals(table.to_polars())


def test_close_deletes_the_work_folder(tmp_path: Path) -> None:
    with nk.dedup(TEXTS, work=tmp_path) as result:
        kept = result.kept
        stricter = result.rethreshold(1.0)
    assert len(list(tmp_path.iterdir())) == 1  # of the other result
    assert result.kept is kept
    with pytest.raises(nk.UsageError, match="closed or unpickled"):
        _ = result.pairs
    stricter.close()
    assert list(tmp_path.iterdir()) == []
    nk.pairs(TEXTS, work=tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_a_failed_run_leaves_no_work_folder(tmp_path: Path) -> None:
    with pytest.raises(nk.UsageError, match="has no column 'body'"):
        nk.dedup(TABLE, text="body", work=tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_nothing_warns_of_resources() -> None:
    program = """
import gc
import nearkin as nk
texts = ["one two three four", "one two three four", "five six seven"]
result = nk.dedup(texts)
result.clusters, result.pairs, result.report_data
nk.pairs(texts)
nk.sketch(texts)
nk.frequencies(texts)
del result
gc.collect()
held = nk.dedup(texts)
index = nk.Index.open("memory://")
index.upsert("a", "one two three four")
"""
    command = [sys.executable, "-X", "dev", "-W", "error::ResourceWarning", "-c", program]
    completed = subprocess.run(command, capture_output=True, text=True, check=False)
    assert completed.returncode == 0, completed.stderr
    assert "ResourceWarning" not in completed.stderr


def test_statistics_read_nothing_again(
    result: nk.results.DedupResult, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> Iterator[None]:
        raise AssertionError("the texts are read again")

    monkeypatch.setattr(TableCorpus, "batches", fail)
    assert result.statistics["removed_near"] == 2
    assert repr(result) == "<DedupResult: 5 documents, 3 kept>"
    stricter = result.rethreshold(1.0)
    assert stricter.statistics["removed_near"] == 0


def test_statistics_are_those_of_the_report(result: nk.results.DedupResult) -> None:
    counts = result.report_data.counts
    assert result.statistics["read"] == counts.read == 5
    assert result.statistics["removed"] == counts.removed == 2


def test_representations_fit_a_screen() -> None:
    texts = [f"{'long ' * 100} text number {i} of its own {i * 7} {i * 11}" for i in range(500)]
    result = nk.dedup({"id": [f"{'i' * 100}{i}" for i in range(500)], "text": texts}, id="id")
    found = nk.pairs(texts, threshold=0.5)
    for shown in (result, result.clusters, result.pairs, result.rejected, found, found.pairs):
        lines = repr(shown).splitlines()
        assert len(lines) <= 24
        assert max(map(len, lines)) <= 120
    assert "... and 490 more rows" in repr(result.clusters)


def public_values() -> dict[str, Any]:
    texts = ["one two three four", "one two three four five", "six seven eight nine"]
    values: dict[str, Any] = {
        "plan": nk.plan(1000),
        "tuning": nk.tune(),
        "spec": nk.Spec(),
        "builder": nk.MinHashBuilder(nk.Spec(k=16)).update("one two three"),
        "counting": nk.signatures.CountingMinHash(nk.Spec(k=16)).add("one two three"),
        "hamming index": nk.HammingIndex(64, 3),
        "bottom k": nk.BottomK.of(np.arange(5, dtype=np.uint64), 4),
        "frequencies": nk.frequencies(texts),
        "resources": nk.SpecResources(),
    }
    with nk.Index.open("memory://", threshold=0.5) as index:
        values["outcome"] = index.upsert("a", texts[0], "x")
        index.upsert("a", texts[1], "y")
        values["matches"] = index.query("a", texts[0])
        values["entry"] = index.get("a", "x")
        values["cluster"] = index.cluster("a", "x")
        values["explanation"] = index.explain("a", "x", "y")
        values["stats"] = index.stats()
        values["settings"] = index.settings
    return values


@pytest.mark.parametrize(
    "duplicate", [lambda value: pickle.loads(pickle.dumps(value)), copy.copy, copy.deepcopy]
)
def test_everything_that_the_library_returns_pickles_and_copies(duplicate: Any) -> None:
    for name, value in public_values().items():
        again = duplicate(value)
        assert type(again) is type(value), name
        if hasattr(value, "snapshot"):
            assert (again.snapshot() == value.snapshot()).all()
            again.merge(value) if name == "builder" else again.add("four five six")


def test_every_error_pickles_with_its_attributes() -> None:
    service = nk.ServiceError("unreachable", "no answer", status=503, retry_after=2.0)
    large = nk.errors.LargeClusterError("a", None, inherits=True)
    plain = [nk.UsageError("not valid"), nk.StoreError("gone"), nk.RunError("failed")]
    for error in (service, large, *plain):
        for again in (pickle.loads(pickle.dumps(error)), copy.copy(error), copy.deepcopy(error)):
            assert type(again) is type(error)
            assert str(again) == str(error)
            assert vars(again) == vars(error)


def test_representations_of_all_results_fit_a_screen() -> None:
    with nk.Index.open("memory://", threshold=0.5) as index:
        index.upsert("a", f"{BASE} " * 500, "x")
        index.upsert("a", f"{BASE} today " * 500, "y")
        values = [index.get("a", "x"), index.explain("a", "x", "y")]
    values += [nk.plan(1000), nk.tune(), nk.dedup(TABLE).report_data]
    for value in values:
        assert len(repr(value)) < 200
        assert type(value).__name__ in repr(value)


def test_results_become_datasets(tmp_path: Path) -> None:
    text = "one two three four five six seven"
    features = Features({"text": Value("string"), "kind": ClassLabel(names=["a", "b"])})
    rows = Dataset.from_dict({"text": [text, text, "other"], "kind": [0, 0, 1]}, features)
    for data in (rows, rows.to_iterable_dataset()):
        result = nk.dedup(data)
        kept = result.to_dataset()
        assert kept.features == features
        assert kept["text"][:] == [text, "other"]
        assert result.clusters.to_dataset().column_names == result.clusters.arrow.column_names
    assert nk.pairs(rows).to_dataset().column_names[:2] == ["id_a", "id_b"]
    (tmp_path / "a.txt").write_text(text)
    with pytest.raises(UsageError, match=r"in files, which to_dataset does not read"):
        nk.dedup(tmp_path / "a.txt").to_dataset()


def test_a_missing_datasets_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    result = nk.dedup(["one two three"])
    monkeypatch.setitem(sys.modules, "datasets", None)
    with pytest.raises(MissingExtraError, match=r'pip install "\.\[datasets\]"'):
        result.to_dataset()


def test_what_was_cut_and_related_is_known_after_pickling_and_closing() -> None:
    texts = [BASE, f"before it {BASE}", "another one"]
    result = nk.dedup(texts, passages=5, related=0.2, threshold=0.99)
    again = pickle.loads(pickle.dumps(pickle.loads(pickle.dumps(result))))
    assert again.related.arrow.equals(result.related.arrow)
    assert again.cluster_ids.equals(result.cluster_ids)
    assert again.cuts.arrow.equals(result.cuts.arrow)
    kept, cuts = result.kept, len(result.cuts)
    assert cuts == 1
    closed = nk.dedup(texts, passages=5, threshold=0.99)
    assert closed.kept.tolist() == kept.tolist()
    closed.close()
    for changed in (again, closed):
        with pytest.raises(nk.UsageError, match="passages were cut from them"):
            changed.filter(texts)
    for table in ("cuts", "repeated_lines"):
        with pytest.raises(nk.UsageError, match="closed or unpickled"):
            getattr(closed, table)


def test_texts_cannot_rewrite_the_terminal_that_shows_a_table() -> None:
    shown = repr(nk.dedup({"text": ["a b c"], "id": ["x\x1b[2Jy"]}, id="id").clusters)
    assert "\x1b" not in shown
    assert "x␛[2Jy" in shown


def test_forked_process_leaves_the_work_folder_of_a_result() -> None:
    result = nk.dedup(["a b c d", "a b c d e"], threshold=0.5)
    child = os.fork()
    if child == 0:
        try:
            result.close()
        finally:
            os._exit(0)
    os.waitpid(child, 0)
    assert len(result.pairs) == 1


def test_result_of_pairs_counts_the_copies_that_it_leaves_out() -> None:
    texts = [BASE, BASE.upper(), BASE, 5 * "another text "]
    pairs = nk.pairs(texts)
    assert (len(pairs), pairs.statistics["copies_left_out"]) == (0, 2)
    assert repr(pairs) == (
        "<PairsResult: 0 pairs of 4 documents; 2 exact copies are left out; list them with "
        "expand_exact=True>"
    )
    listed = nk.pairs(texts, expand_exact=True)
    assert (len(listed), listed.statistics["copies_left_out"]) == (3, 0)
    contained = nk.pairs(texts, relation="containment")
    assert repr(contained) == ("<PairsResult: 0 pairs of 4 documents; 2 exact copies are left out>")


def test_kept_rows_have_all_columns_and_the_share_of_removed_documents() -> None:
    frame = pd.DataFrame({"text": ["a b c d", "A b c d!", "x", None], "page": [1, 2, 3, 4]})
    result = nk.dedup(frame)
    assert result.kept_rows["page"].tolist() == [2, 3]
    assert result.duplicate_ratio == pytest.approx(1 / 3)
    assert nk.dedup(frame, passages=2).duplicate_ratio == pytest.approx(1 / 3)
    with pytest.raises(UsageError, match="kept_rows does not change texts"):
        nk.dedup(frame, passages=2).kept_rows  # noqa: B018


@pytest.mark.parametrize("data", [*KINDS.values(), *COLUMNS.values()], ids=[*KINDS, *COLUMNS])
def test_kept_rows_have_the_type_of_the_data(data: Any) -> None:
    kept = nk.dedup(data).kept_rows
    assert type(kept) is type(data)
    if not isinstance(data, dict | pl.LazyFrame):
        assert len(kept) == len(data) - 2
    if isinstance(data, pd.DataFrame | pd.Series):
        assert list(kept.index) == list(data.index[2:])


def test_a_lazy_frame_is_not_executed_again(monkeypatch: pytest.MonkeyPatch) -> None:
    frame = pl.LazyFrame(LISTS)
    result = nk.dedup(frame)
    with monkeypatch.context() as patch:
        patch.setattr(pl.LazyFrame, "collect", None)
        kept = [result.kept_rows, result.filter(frame)]
    for lazy in kept:
        assert isinstance(lazy, pl.LazyFrame)
        assert keys_of(lazy) == ["c", "d", "e"]


def test_kept_rows_of_an_iterator_are_an_arrow_table() -> None:
    assert nk.dedup(iter(TEXTS)).kept_rows["text"].to_pylist() == TEXTS[2:]


def test_kept_rows_of_files_are_refused(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text('{"text": "one two three"}\n')
    with pytest.raises(UsageError, match=r"in files, which kept_rows does not read"):
        nk.dedup(tmp_path).kept_rows  # noqa: B018


def test_a_result_is_written_where_the_call_says(tmp_path: Path) -> None:
    rows = ["the cat sat on the mat", "The cat sat on the mat", "a dog"]
    nk.dedup(rows, out=tmp_path / "kept.jsonl")
    assert len((tmp_path / "kept.jsonl").read_text().splitlines()) == 2
    nk.pairs(["a b c d e", "a b c d e f"], threshold=0.5, out=tmp_path / "pairs.csv")
    assert len((tmp_path / "pairs.csv").read_text().splitlines()) == 2


RESULTS: dict[str, tuple[Callable[[], Any], list[str]]] = {
    "dedup": (lambda: nk.dedup(TEXTS), ["id", "cluster", "kept"]),
    "pairs": (lambda: nk.pairs(TEXTS), ["id_a", "id_b", "similarity"]),
    "check": (lambda: nk.check(TEXTS, TEXTS), ["id_a", "id_b", "similarity"]),
    "split": (lambda: nk.split(TEXTS, (0.5, 0.5)), ["id", "group", "cluster"]),
    "passages": (lambda: nk.passages(TEXTS, min_tokens=5), ["id", "start", "end"]),
    "decontaminate": (
        lambda: nk.decontaminate(TEXTS, {"suite": [{"question": BASE}]}),
        ["suite", "item", "field"],
    ),
    "fit": (
        lambda: nk.fit({"id": list(LABELS), "text": list(LABELS)}, LABELS, id="id"),
        ["settings", "threshold", "precision.value", "precision.low", "precision.high"],
    ),
    "choose": (
        lambda: nk.choose({"id": list(LABELS), "text": list(LABELS)}, id="id"),
        ["shingle", "measure", "threshold", "removed", "undoubted"],
    ),
    "tune": (nk.tune, ["bands", "rows", "tables", "probes", "recall", "similarities.0.001"]),
    "plan": (lambda: nk.plan(1000), ["part", "name", "value", "unit", "formula"]),
}
LABELS = {
    f"{word} is a page about {word} and other things{end}": word
    for word in ("granite", "herring", "juniper", "lantern", "meadow", "nutmeg")
    for end in ("", " today")
}
"""Texts with their clusters."""


@pytest.mark.parametrize("name", RESULTS)
def test_every_result_has_each_form_of_its_table(name: str) -> None:
    make, columns = RESULTS[name]
    result = make()
    table = result.to_arrow()
    assert table.num_rows > 0
    assert table.column_names[: len(columns)] == columns
    assert list(result.to_pandas().columns) == table.column_names
    assert len(result.to_pandas()) == table.num_rows
    assert result.to_polars().equals(pl.from_arrow(table))
    # the header and the rows, between three lines and the two of the environment
    assert len(result.to_latex().splitlines()) == 5 + 1 + table.num_rows


def test_the_table_of_a_plan_has_its_lines() -> None:
    planned = nk.plan(1000)
    assert planned.to_arrow().to_pylist() == [asdict(line) for line in planned.lines]


def test_the_table_of_a_tuning_has_its_operating_points() -> None:
    tuning = nk.tune(0.5)
    table = tuning.to_arrow()
    for name in ("bands", "rows", "recall", "candidates", "keys"):
        assert table[name].to_pylist() == [getattr(point, name) for point in tuning.points]
    halves = [point.similarities[1] for point in tuning.points]
    assert table["similarities.0.5"].to_pylist() == halves


def test_a_result_in_a_folder_is_replaced_if_asked(tmp_path: Path) -> None:
    texts = ["a b c d e", "a b c d e"]
    for _ in range(2):
        nk.dedup(texts, out=tmp_path / "run", overwrite=True)
    with pytest.raises(nk.UsageError, match="overwrite"):
        nk.dedup(texts, out=tmp_path / "run")
    (tmp_path / "run" / "own.txt").write_text("mine")
    with pytest.raises(nk.UsageError, match=r"own\.txt"):
        nk.dedup(texts, out=tmp_path / "run", overwrite=True)
    for _ in range(2):
        nk.pairs(texts, out=tmp_path / "pairs.parquet", overwrite=True)
    (tmp_path / "other.parquet").write_bytes(b"other")
    with pytest.raises(nk.UsageError, match="never replaced"):
        nk.pairs(texts, out=tmp_path / "other.parquet", overwrite=True)
