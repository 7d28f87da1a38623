"""Tests of the search for inputs, of the names of their copies, and of changes during a run."""

import gzip
import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import fsspec
import numpy as np
import pyarrow as pa
import pyarrow.ipc
import pyarrow.parquet as pq
import pytest
from fsspec.implementations.memory import MemoryFile, MemoryFileSystem

from nearkin.cli import app
from nearkin.corpus import Columns, FileCorpus, describe_inputs, write_kept
from nearkin.corpus.input_file import InputFile
from nearkin.corpus.inputs import Selection, find_inputs
from nearkin.engine.options import RunOptions
from nearkin.errors import RunError, UsageError
from nearkin.runs.dedup import run_dedup
from nearkin.runs.job import Job
from nearkin.runs.pairs import run_pairs
from nearkin.runs.spec_request import SpecRequest, resolve_inputs
from nearkin.runtime.progress import Silent


def words(number: int) -> str:
    return " ".join(f"word{number}x{i}" for i in range(12))


def lines(*numbers: int) -> str:
    return "".join(json.dumps({"text": words(number)}) + "\n" for number in numbers)


def names_of(*inputs: str | Path, **selection: bool) -> list[str]:
    return [file.name for file in find_inputs(list(map(str, inputs)), Selection(**selection)).files]


def skipped_in(*inputs: str | Path, **selection: bool) -> dict[str, str]:
    return {
        Path(path).name: reason
        for path, reason in find_inputs(list(map(str, inputs)), Selection(**selection)).skipped
    }


class At(Silent):
    """Runs a function when a stage begins."""

    def __init__(self, stage: str, act: Callable[[], Any]) -> None:
        self.when, self.act = stage, act

    def stage(self, name: str, total: int | None) -> None:
        if name == self.when:
            self.act()


def dedup(
    inputs: list[str], out: Path, progress: Silent | None = None, **other: Any
) -> dict[str, Any]:
    return run_dedup(
        Job(tuple(inputs), out, Columns(), RunOptions(workers=1), **other), progress or Silent()
    )


def kept_texts(out: Path) -> list[str]:
    files = sorted(path for path in (out / "kept").rglob("*") if path.is_file())
    return sorted(
        json.loads(line)["text"] for path in files for line in path.read_text().splitlines()
    )


# names, and where copies go


def test_two_spellings_of_a_path_are_one_input(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "a.jsonl").write_text(lines(1, 2, 3, 4, 5))
    monkeypatch.chdir(tmp_path)
    summary = dedup(
        ["a.jsonl", "sub/../a.jsonl", ".//a.jsonl", f"file://{tmp_path}/./a.jsonl"],
        tmp_path / "out",
    )
    assert summary["counts"]["read"] == summary["counts"]["kept"] == 5
    assert kept_texts(tmp_path / "out") == [words(i) for i in range(1, 6)]
    assert [entry["path"] for entry in summary["inputs"]] == [str(tmp_path / "a.jsonl")]


def test_dots_after_a_link_lead_where_the_system_takes_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "far" / "away").mkdir(parents=True)
    (tmp_path / "far" / "a.jsonl").write_text(lines(1))
    (tmp_path / "link").symlink_to(tmp_path / "far" / "away")
    monkeypatch.chdir(tmp_path)
    assert [file.path for file in find_inputs(["link/../a.jsonl"]).files] == [
        str(tmp_path / "far" / "a.jsonl")
    ]


def test_copies_of_inputs_above_the_current_folder_stay_inside_the_output(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    work = tmp_path / "work"
    work.mkdir()
    (tmp_path / "crawl").mkdir()
    (tmp_path / "crawl" / "a.jsonl").write_text(lines(1, 2))
    (work / "b.jsonl").write_text(lines(3))
    monkeypatch.chdir(work)
    before = {path: path.read_bytes() for path in tmp_path.rglob("*.jsonl")}
    dedup(["../crawl", "b.jsonl"], work / "out")
    assert sorted(
        str(path.relative_to(work / "out")) for path in (work / "out" / "kept").rglob("*.jsonl")
    ) == [
        "kept/crawl/a.jsonl",
        "kept/work/b.jsonl",
    ]
    assert {path: path.read_bytes() for path in before} == before
    outside = {
        path
        for path in tmp_path.rglob("*")
        if path.is_file() and (work / "out") not in path.parents
    }
    assert outside == set(before)


def test_copies_of_a_local_file_and_a_url_stay_inside_the_output(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text(lines(1))
    with fsspec.open("memory://bucket/b.jsonl", "w") as file:
        file.write(lines(2))
    dedup([str(tmp_path / "a.jsonl"), "memory://bucket/b.jsonl"], tmp_path / "out")
    assert (tmp_path / "a.jsonl").read_text() == lines(1)
    assert kept_texts(tmp_path / "out") == [words(1), words(2)]


def test_the_password_of_an_input_is_not_written_down(tmp_path: Path) -> None:
    """The run can be resumed, but it cannot be an input, and the error says why."""
    url = "memory://user:hunter2@bucket/data/b.jsonl"
    with fsspec.open(url, "w") as file:
        file.write(lines(2) * 2 + "broken")
    with fsspec.open("memory://user:hunter2@bucket/data/_hidden.jsonl", "w") as file:
        file.write(lines(2))
    (tmp_path / "a.jsonl").write_text(lines(1))
    inputs = [str(tmp_path / "a.jsonl"), "memory://user:hunter2@bucket/data"]
    out = tmp_path / "out"

    def everything() -> bytes:
        files = [path for path in tmp_path.rglob("*") if path.is_file()]
        return b"".join(str(path).encode() + path.read_bytes() for path in files)

    def interrupt() -> None:
        assert b"user:***@bucket" in everything()
        assert b"hunter2" not in everything()
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        dedup(inputs, out, At("collapse", interrupt), save_signatures=True)
    summary = dedup(inputs, out, resume=True, save_signatures=True)
    assert "memory://user:***@bucket/data/b.jsonl" in [entry["path"] for entry in summary["inputs"]]
    assert "hunter2" not in json.dumps(summary)
    assert b"hunter2" not in everything()
    assert dedup(inputs, out, resume=True, save_signatures=True)["counts"] == summary["counts"]
    with pytest.raises(UsageError, match="was given with a password, which is not recorded"):
        dedup([str(out)], tmp_path / "again")


def test_names_of_urls_do_not_lead_out_of_the_output(monkeypatch: pytest.MonkeyPatch) -> None:
    keys = ["/jail/../../up.jsonl", "/jail/__/__/up.jsonl", "/jail/x//y.jsonl", "/jail/x/y.jsonl"]
    monkeypatch.setattr(MemoryFileSystem, "isdir", lambda *_: True)
    monkeypatch.setattr(MemoryFileSystem, "find", lambda *_: keys)
    names = names_of("memory://jail", hidden=True)
    assert names == ["__/__/up-2.jsonl", "__/__/up.jsonl", "x/y-2.jsonl", "x/y.jsonl"]


def test_names_that_differ_by_case_or_normalisation_get_copies_of_their_own(tmp_path: Path) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    given = ("A.jsonl", "a.jsonl", "caf\u00e9.jsonl", "cafe\u0301.jsonl", "a-2.jsonl")
    for number, name in enumerate(given):
        (folder / name).write_text(lines(number))
    dedup([str(folder)], tmp_path / "out")
    copies = sorted(path.name for path in (tmp_path / "out" / "kept").iterdir())
    assert len({os.fsencode(name.lower()) for name in copies}) == len(given)
    assert kept_texts(tmp_path / "out") == sorted(words(i) for i in range(len(given)))


@pytest.mark.parametrize("name", ["../a.jsonl", "/tmp/a.jsonl", "x/../../a.jsonl", ""])
def test_a_target_outside_of_the_output_is_an_error(name: str, tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text(lines(1))
    (tmp_path / "out").mkdir()
    corpus = FileCorpus([InputFile(str(tmp_path / "a.jsonl"), name)])
    with pytest.raises(RunError, match="leads out of"):
        write_kept(corpus, Columns(), np.ones(1, bool), tmp_path / "out")
    assert (tmp_path / "a.jsonl").read_text() == lines(1)


def test_file_names_that_are_not_utf8(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    path = os.fsencode(folder) + b"/caf\xe9.jsonl"
    with open(path, "w") as file:  # noqa: PTH123 (a name in bytes)
        file.write(lines(1, 1, 2) + "no json\n")
    summary = dedup([os.fsdecode(path)], tmp_path / "out")
    assert summary["counts"]["kept"] == 2
    assert kept_texts(tmp_path / "out") == [words(1), words(2)]
    record = json.loads((tmp_path / "out" / "run.json").read_bytes())
    assert os.fsencode(record["inputs"][0]["path"]) == path
    assert (
        json.loads((tmp_path / "out" / "rejected.jsonl").read_bytes())["file"] == "caf\\xe9.jsonl"
    )
    ids = pq.read_table(tmp_path / "out" / "clusters.parquet")["id"].to_pylist()
    assert ids[0] == "caf\\xe9.jsonl:0000000000"
    assert "caf\\xe9" in (tmp_path / "out" / "report.html").read_text("utf-8")


@pytest.mark.parametrize("command", ["dedup", "pairs", "sketch"])
def test_an_output_whose_path_is_not_utf8_is_one_sentence(
    command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "a.jsonl").write_text(lines(1))
    out = os.fsdecode(os.fsencode(tmp_path) + b"/out\xff")
    assert app.run([command, str(tmp_path / "a.jsonl"), "--out", out]) == app.USAGE
    assert capsys.readouterr().err.endswith(
        "out\\xff cannot be an output: its path is not UTF-8; choose another --out\n"
    )


# what is read


def test_what_is_skipped_is_said_with_the_reason(tmp_path: Path) -> None:
    folder = tmp_path / "in"
    (folder / "_old").mkdir(parents=True)
    (tmp_path / "far").mkdir()
    for path in (
        folder / "a.jsonl",
        folder / ".b.jsonl",
        folder / "_old" / "c.jsonl",
        tmp_path / "far" / "d.jsonl",
    ):
        path.write_text(lines(len(str(path))))
    (folder / "link").symlink_to(tmp_path / "far")
    (folder / "gone").symlink_to(tmp_path / "nowhere")
    os.mkfifo(folder / "pipe")
    summary = dedup([str(folder)], tmp_path / "out")
    said = {Path(entry["path"]).name: entry["reason"] for entry in summary["skipped"]["first"]}
    assert said.keys() == {".b.jsonl", "_old", "link", "gone", "pipe"}
    assert "--hidden" in said[".b.jsonl"]
    assert "--hidden" in said["_old"]
    assert "--follow-links" in said["link"]
    assert summary["skipped"]["count"] == 5
    warnings = "\n".join(summary["warnings"])
    assert "--hidden" in warnings
    assert "--follow-links" in warnings
    assert names_of(folder, hidden=True, follow_links=True) == [
        ".b.jsonl",
        "_old/c.jsonl",
        "a.jsonl",
        "link/d.jsonl",
    ]


@pytest.mark.parametrize("command", ["pairs", "sketch"])
def test_every_command_over_files_says_what_it_skips(
    command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "in"
    (folder / ".hidden").mkdir(parents=True)
    (folder / "a.jsonl").write_text(lines(1, 2))
    assert app.run([command, str(folder), "--out", str(tmp_path / "out")]) == 0
    assert "warning: skipped" in capsys.readouterr().err
    assert app.run([command, str(folder), "--hidden", "--out", str(tmp_path / "all")]) == 0
    assert "warning" not in capsys.readouterr().err


def test_an_index_says_what_of_the_inputs_it_skips(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "in"
    (folder / ".hidden").mkdir(parents=True)
    (folder / "a.jsonl").write_text(lines(1, 2))
    store = f"sqlite:///{tmp_path}/kin.db"
    assert app.run(["index", "build", str(folder), "--store", store]) == 0
    assert "warning: skipped" in capsys.readouterr().err
    (folder / "a.jsonl").write_text("no json\n")
    assert app.run(["index", "add", str(folder), "--store", store]) == 3
    assert "no document could be read" in capsys.readouterr().err


def test_loops_of_links_end(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "a.jsonl").write_text(lines(1))
    (tmp_path / "sub" / "back").symlink_to(tmp_path)
    assert names_of(tmp_path, follow_links=True) == ["a.jsonl"]
    assert "already" in skipped_in(tmp_path, follow_links=True)["back"]
    assert names_of(f"{tmp_path}/**/*.jsonl") == ["a.jsonl"]


def test_folders_that_cannot_be_listed_are_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "closed").mkdir()
    (tmp_path / "a.jsonl").write_text(lines(1))
    listed = os.scandir

    def refuse(path: Any) -> Any:
        if str(path).endswith("closed"):
            raise PermissionError(13, "Permission denied", str(path))
        return listed(path)

    monkeypatch.setattr(os, "scandir", refuse)
    assert names_of(tmp_path) == ["a.jsonl"]
    assert "Permission denied" in skipped_in(tmp_path)["closed"]
    with pytest.raises(UsageError, match=r"cannot list .*closed: Permission denied"):
        find_inputs([str(tmp_path / "closed")])


def test_folders_that_a_pattern_matches_are_said(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "a.jsonl").write_text(lines(1))
    assert "without a pattern" in skipped_in(f"{tmp_path}/*")["sub"]


def test_outputs_of_nearkin_inside_an_input_folder_are_skipped(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text(lines(1))
    for name, mark in (("out", ".nearkin-output.json"), ("out.partial", ".nearkin-lock")):
        (tmp_path / name / "kept").mkdir(parents=True)
        (tmp_path / name / mark).write_text("{}")
        (tmp_path / name / "kept" / "a.jsonl").write_text(lines(1))
    assert names_of(tmp_path) == ["a.jsonl"]
    assert set(skipped_in(tmp_path)) == {"out", "out.partial"}
    assert names_of(tmp_path / "out" / "kept") == ["a.jsonl"]
    with pytest.raises(UsageError, match="output of a nearkin run"):
        find_inputs([str(tmp_path / "out"), str(tmp_path / "a.jsonl")])


def test_pipes_are_not_inputs(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(UsageError, match="not a regular file"):
        find_inputs([str(tmp_path / "pipe")])


# changes while a run reads


@pytest.mark.parametrize("stage", ["sketch", "verify", "write"])
def test_an_input_that_is_rewritten_during_a_run_is_an_error(stage: str, tmp_path: Path) -> None:
    source = tmp_path / "a.jsonl"
    source.write_text(lines(*range(50), *range(50)))

    def rewrite() -> None:
        source.write_text(lines(*range(50, 100), *range(50, 100)))
        os.utime(source, ns=(0, 10**18))

    with pytest.raises(RunError, match="has changed while the run was reading it"):
        dedup([str(source)], tmp_path / "out", At(stage, rewrite))
    assert not (tmp_path / "out").exists()


def test_an_input_that_is_replaced_by_another_of_the_same_size_and_time_is_an_error(
    tmp_path: Path,
) -> None:
    source, other = tmp_path / "a.jsonl", tmp_path / "other"
    source.write_text(lines(1, 2))
    other.write_text(lines(3, 4))
    times = source.stat()
    os.utime(other, ns=(times.st_atime_ns, times.st_mtime_ns))
    corpus = FileCorpus.open([str(source)])
    describe_inputs(corpus)
    other.replace(source)
    with pytest.raises(RunError, match="has changed"):
        list(corpus.batches(Columns()))


def test_pairs_notice_a_change_too(tmp_path: Path) -> None:
    source = tmp_path / "a.jsonl"
    source.write_text(lines(*range(20)))
    job = Job((str(source),), tmp_path / "pairs.parquet", Columns(), RunOptions(workers=1))
    with pytest.raises(RunError, match="has changed"):
        run_pairs(job, At("sketch", lambda: source.write_text(lines(*range(21)))))
    assert not (tmp_path / "pairs.parquet").exists()


def ipc_file(path: Path, table: pa.Table) -> None:
    with pa.ipc.new_file(path, table.schema) as writer:
        writer.write_table(table, max_chunksize=1000)


def ipc_stream(path: Path, table: pa.Table) -> None:
    with pa.ipc.new_stream(path, table.schema) as writer:
        writer.write_table(table, max_chunksize=1000)


WRITERS: dict[str, Callable[[Path, pa.Table], Any]] = {
    "a.parquet": lambda path, table: pq.write_table(
        table, path, row_group_size=1000, compression="none"
    ),
    "a.arrow": ipc_file,
    "a.arrows": ipc_stream,
    "a.jsonl": lambda path, table: path.write_text(lines(*range(len(table)))),
    "a.csv": lambda path, table: path.write_text(
        "text\n" + "".join(f"{words(i)}\n" for i in range(len(table)))
    ),
}


@pytest.mark.parametrize("name", WRITERS)
def test_an_input_that_is_truncated_while_it_is_read_is_an_error(name: str, tmp_path: Path) -> None:
    path = tmp_path / name
    WRITERS[name](path, pa.table({"text": [words(i) for i in range(20_000)]}))
    corpus = FileCorpus.open([str(path)])
    batches = corpus.batches(Columns())
    next(batches)
    os.truncate(path, 100)
    with pytest.raises(RunError, match="has changed while the run was reading it"):
        list(batches)


def test_what_is_counted_before_the_run_must_be_what_the_run_reads(tmp_path: Path) -> None:
    source = tmp_path / "a.jsonl"
    source.write_text(lines(1, 2, 3))
    corpus = FileCorpus.open([str(source)])
    list(corpus.batches(Columns()))
    source.write_text(lines(4, 5, 6, 7))
    with pytest.raises(RunError, match="has changed"):
        dedup([str(source)], tmp_path / "out", statuses=corpus.statuses)


# remote storage


class NoCredentialsError(Exception):
    """An error like those of botocore, which is neither an OSError nor a ValueError."""


class BucketError(Exception):
    """An error like those of other drivers."""


@pytest.mark.parametrize(
    ("raised", "said"),
    [
        (
            NoCredentialsError("Unable to locate credentials"),
            "no credentials for s3://bucket/a.jsonl; set AWS_ACCESS_KEY_ID",
        ),
        (
            BucketError("ClientError (InvalidRegion)"),
            r"cannot list s3://bucket/a.jsonl: ClientError \(InvalidRegion\)",
        ),
        (
            FileNotFoundError("The specified bucket does not exist"),
            r"s3://bucket/a.jsonl does not exist \(The specified bucket",
        ),
        (PermissionError("Forbidden"), r"no permission to list s3://bucket/a.jsonl \(Forbidden\)"),
        (TimeoutError(), "cannot list s3://bucket/a.jsonl: TimeoutError"),
    ],
)
def test_storage_that_cannot_be_reached_is_one_clear_error(
    raised: Exception, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Storage:
        def isdir(self, path: str) -> bool:
            raise raised

    driver = ModuleType("botocore.exceptions")
    driver.__dict__.update(BotoCoreError=NoCredentialsError, ClientError=BucketError)
    monkeypatch.setitem(sys.modules, "botocore.exceptions", driver)
    monkeypatch.setattr(
        "nearkin.corpus.inputs.open_filesystem", lambda url: (Storage(), "bucket/a.jsonl")
    )
    with pytest.raises(UsageError, match=said):
        find_inputs(["s3://bucket/a.jsonl"])


@pytest.mark.parametrize("name", ["a.jsonl", "a.jsonl.gz", "a.parquet", "a.arrow", "a.csv"])
def test_a_connection_that_breaks_is_an_error_and_no_damage(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a.jsonl.gz").write_bytes(gzip.compress(lines(*range(20_000)).encode()))
    if name in WRITERS:
        WRITERS[name](tmp_path / name, pa.table({"text": [words(i) for i in range(20_000)]}))
    data = (tmp_path / name).read_bytes()
    url = f"memory://broken/{name}"
    with fsspec.open(url, "wb") as file:
        file.write(data)
    corpus = FileCorpus.open([url])
    corpus.check(Columns())
    read = MemoryFile.read

    def breaking(self: MemoryFile, size: int = -1) -> bytes:
        if 0 < self.tell() < len(data) // 2 + 1 and size > 0:
            raise ConnectionResetError("the connection was reset")
        found: bytes = read(self, size)
        return found

    monkeypatch.setattr(MemoryFile, "read", breaking)
    with pytest.raises(
        RunError, match=r"cannot read memory://broken/.*: the connection was reset; run again"
    ):
        list(corpus.batches(Columns()))


def test_listing_remote_files_is_shown() -> None:
    stages: list[str] = []

    class Looking(Silent):
        def stage(self, name: str, total: int | None = None) -> None:
            stages.append(name)

    with fsspec.open("memory://listed/a.jsonl", "w") as file:
        file.write(lines(1))
    resolve_inputs(
        ("memory://listed/a.jsonl",), Columns(), SpecRequest(), "quarantine", 1, Path(), Looking()
    )
    assert stages == ["list inputs"]
