"""Tests of the limit of documents, and of columns with internal names."""

import json
from functools import cache
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import nearkin as nk
from nearkin.cli.app import run
from nearkin.corpus import Columns, TableCorpus
from nearkin.corpus.columns import document_limit
from nearkin.engine.options import RunOptions
from nearkin.engine.run import Run
from nearkin.engine.work_folder import WorkFolder
from nearkin.errors import UsageError
from nearkin.runs.dedup import run_dedup
from nearkin.runs.job import Job
from nearkin.runs.reopen import audit_run
from nearkin.runtime.process_limits import LEAST_MEMORY
from nearkin.runtime.progress import Silent
from tests.corpus.samples import NEAR_TEXTS, write_table


@pytest.mark.parametrize("command", ["lab sketch", "index build", "index add"])
def test_commands_without_a_memory_bound_limit_the_size_of_documents(
    command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    too_long = document_limit(LEAST_MEMORY) + 1
    table = pa.table({"text": ["a small document", "x" * too_long]})
    pq.write_table(table, tmp_path / "a.parquet")
    store = f"sqlite:///{tmp_path}/kin.db"
    if command == "index add":
        pq.write_table(table.slice(0, 1), tmp_path / "first.parquet")
        assert run(["index", "build", str(tmp_path / "first.parquet"), "--store", store]) == 0
        capsys.readouterr()
    target = (
        ["--out", str(tmp_path / "out.arrow")] if command == "lab sketch" else ["--store", store]
    )
    memory = ["--memory", f"{LEAST_MEMORY >> 20}MiB"]
    assert run([*command.split(), str(tmp_path / "a.parquet"), *target, *memory, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["rejected"] == 1


def test_saved_run_keeps_its_document_limit(tmp_path: Path) -> None:
    """A run over saved signatures has the limit with which they were made."""
    table = pa.table({"text": ["a b c d", "x" * 200, "a b c d", "e f g h"]})
    pq.write_table(table, tmp_path / "a.parquet")
    job = Job(
        (str(tmp_path / "a.parquet"),),
        tmp_path / "saved",
        Columns(document_limit=100),
        RunOptions(),
        save_signatures=True,
    )
    assert run_dedup(job, Silent()).counts["rejected"] == 1
    again = Job(
        (str(tmp_path / "saved"),), tmp_path / "out", Columns().with_memory(10**12), RunOptions()
    )
    assert run_dedup(again, Silent()).counts["kept"] == 2
    assert pq.read_table(tmp_path / "out" / "kept" / "a.parquet")["text"].to_pylist() == [
        "a b c d",
        "e f g h",
    ]
    assert audit_run(tmp_path / "saved", Silent()).audit.precision.value == 1


@pytest.mark.parametrize("finished", [False, True])
def test_resumed_run_keeps_its_document_limit(finished: bool, tmp_path: Path) -> None:
    """The limit is kept if the run was interrupted while sketching or after it."""
    table = pa.table({"text": ["a b c d", "x" * 200]})
    work = WorkFolder.create(tmp_path / "work", {})
    first = Run(TableCorpus(table), Columns(document_limit=100), RunOptions(), work, Silent())
    if finished:
        first.sketch()
    else:
        assert first._document_limit() == 100
    again = WorkFolder.resume(tmp_path / "work")
    resumed = Run(TableCorpus(table), Columns(document_limit=10**9), RunOptions(), again, Silent())
    resumed.sketch()
    assert resumed.columns.document_limit == 100
    assert resumed.recorded("sketch")["rejected"] == 1


def test_two_columns_of_one_name_are_an_error(tmp_path: Path) -> None:
    table = pa.table([pa.array(NEAR_TEXTS), pa.array(NEAR_TEXTS)], ["text", "text"])
    with pytest.raises(UsageError, match="2 columns named 'text'; rename all but one"):
        nk.dedup(table)
    pq.write_table(table, tmp_path / "a.parquet")
    (tmp_path / "b.csv").write_text("text,text\na,b\n")
    for name in ("a.parquet", "b.csv"):
        with pytest.raises(UsageError, match="2 columns named 'text'; rename all but one"):
            nk.dedup(tmp_path / name)


INTERNAL_NAMES = (
    "id",
    "text",
    "tokens",
    "vector",
    "cluster",
    "column text",
    "column id",
    "riding0",
    "doc",
    "sort",
)


@pytest.mark.parametrize("name", INTERNAL_NAMES)
@pytest.mark.parametrize("role", ["keep", "block_by", "source", "split"])
def test_carried_columns_can_have_internal_names(name: str, role: str) -> None:
    """The result is the same as with a column of an unused name."""
    if role == "keep" and " " in name:
        pytest.skip("a keep policy names no column with a blank")
    found = result_with_carried_column(name, role)
    assert found == result_with_carried_column("harmless", role)
    if role == "keep":
        assert found[0] == [False, True, True, False]


@cache  # for all names that are compared with one
def result_with_carried_column(name: str, role: str) -> tuple[object, ...]:
    """Returns the kept rows, the clusters, the sources, and the number of reported clusters."""
    data = {"body": NEAR_TEXTS, "key": ["k0", "k1", "k2", "k3"], name: ["3", "1", "2", "1"]}
    options = {"keep": f"{name} asc"} if role == "keep" else {role: name}
    result = nk.dedup(data, text="body", id="key", **options)  # type: ignore[arg-type]
    report = result.report_data
    return (
        result.kept.tolist(),
        result.clusters.to_pylist(),
        report.sources,
        len(report.clusters),
    )


def test_carried_column_named_text_is_not_compared() -> None:
    data = {"text": ["Title"] * 3, "id": ["x", "y", "z"], "body": NEAR_TEXTS[:3]}
    result = nk.dedup(data, text="body", id="id", source="text")
    assert result.kept.tolist() == [False, True, True]


def test_carried_column_named_id_does_not_replace_the_ids() -> None:
    data = {"id": ["web", "web", "book", "book"], "doc": ["a", "b", "c", "d"], "text": NEAR_TEXTS}
    assert nk.dedup(data, id="doc", source="id").clusters["id"].to_pylist() == ["a", "b", "c", "d"]


@pytest.mark.parametrize("form", ["jsonl", "csv", "parquet", "arrow"])
def test_column_named_id_is_not_read_as_ids_by_default(form: str, tmp_path: Path) -> None:
    table = pa.table({"text": NEAR_TEXTS, "id": ["4", "3", "2", "1"]})
    write_table(table, tmp_path / f"a.{form}")
    settings = RunOptions(keep="id asc")
    job = Job((str(tmp_path),), tmp_path / "out", Columns(carried_columns=("id",)), settings)
    run_dedup(job, Silent())
    clusters = pq.read_table(tmp_path / "out" / "clusters.parquet")
    assert clusters["kept"].to_pylist() == [False, False, True, True]
    assert clusters["id"].to_pylist()[0] == f"a.{form}:0000000000"


def test_internal_names_are_valid_with_tokens_vectors_and_a_second_measure() -> None:
    tokens = [text.lower().split() for text in NEAR_TEXTS]
    vectors = [[1.0, 0.0], [1.0, 0.01], [0.0, 1.0], [1.0, 0.0]]
    data = {
        "words": tokens,
        "tokens": ["1", "2", "3", "4"],
        "vector": ["1", "2", "3", "4"],
        "embedding": vectors,
    }
    plain = {
        "words": tokens,
        "a": ["1", "2", "3", "4"],
        "b": ["1", "2", "3", "4"],
        "embedding": vectors,
    }
    run = nk.dedup(
        data,
        tokens="words",
        keep="tokens desc",
        source="vector",
        threshold=0.7,
        second_measure="cosine:embedding:0.99",
    )
    want = nk.dedup(
        plain,
        tokens="words",
        keep="a desc",
        source="b",
        threshold=0.7,
        second_measure="cosine:embedding:0.99",
    )
    assert run.clusters.to_pylist() == want.clusters.to_pylist()
    by_vector = nk.dedup(data, vector="embedding", keep="vector desc", threshold=0.99)
    assert (
        by_vector.clusters.to_pylist()
        == nk.dedup(plain, vector="embedding", keep="b desc", threshold=0.99).clusters.to_pylist()
    )


def test_internal_names_are_valid_in_a_saved_run(tmp_path: Path) -> None:
    table = pa.table({"body": NEAR_TEXTS, "text": ["4", "3", "2", "1"], "id": ["a", "b", "c", "d"]})
    write_table(table, tmp_path / "a.parquet")
    columns, settings = (
        Columns(text="body", carried_columns=("text", "id")),
        RunOptions(keep="text asc", source="id"),
    )
    job = Job(
        (str(tmp_path / "a.parquet"),), tmp_path / "saved", columns, settings, save_signatures=True
    )
    run_dedup(job, Silent())
    run_dedup(Job((str(tmp_path / "saved"),), tmp_path / "out", columns, settings), Silent())
    first, second = (
        pq.read_table(tmp_path / name / "clusters.parquet") for name in ("saved", "out")
    )
    assert first.equals(second)
    assert first["kept"].to_pylist() == [False, False, True, True]
