"""Tests of the promises about outputs in docs/reference/files.md."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import nearkin as nk
from nearkin.corpus import Columns
from nearkin.engine.options import RunOptions
from nearkin.errors import NearkinError, UsageError
from nearkin.quality.lab.synth import SynthSettings, synth
from nearkin.reports.files import read_report
from nearkin.runs.dedup import run_dedup
from nearkin.runs.job import Job, SpecJob
from nearkin.runs.pairs import run_pairs
from nearkin.runs.reopen import audit_run
from nearkin.runs.saved import read_run_record
from nearkin.runs.sketch import run_sketch
from nearkin.runtime.files import Readers
from nearkin.runtime.outputs import (
    LOCK,
    MARKER,
    Claim,
    claimed,
    is_output,
    is_work_folder,
    require_apart,
    require_replaceable_folder,
    work_folder_of,
)
from nearkin.runtime.progress import Silent
from nearkin.settings.spec import Spec
from tests.prepared_process import prepared_line

TEXTS = [
    "one two three four five",
    "one two three four five",
    "six seven eight nine ten",
    "eleven twelve thirteen fourteen",
]


@pytest.fixture
def docs(tmp_path: Path) -> Path:
    path = tmp_path / "in" / "docs.parquet"
    path.parent.mkdir()
    pq.write_table(pa.table({"id": list("abcd"), "text": TEXTS}), path)
    return path


def everything_below(folder: Path) -> dict[str, bytes | None]:
    """Every file below a folder with its content, and every folder."""
    return {
        str(path.relative_to(folder)): path.read_bytes() if path.is_file() else None
        for path in sorted(folder.rglob("*"))
    }


def job(inputs: Path, out: Path, **other: Any) -> Job:
    settings = {
        name: other.pop(name) for name in list(other) if name in RunOptions.__dataclass_fields__
    }
    return Job(
        (str(inputs),), out, other.pop("columns", Columns()), RunOptions(**settings), **other
    )


def dedup(inputs: Path, out: Path, **other: Any) -> dict[str, Any]:
    return run_dedup(job(inputs, out, **other), Silent()).to_json()


def pairs(inputs: Path, out: Path, **other: Any) -> dict[str, Any]:
    return run_pairs(job(inputs, out, **other), Silent()).to_json()


def sketch(inputs: Path, out: Path, **other: Any) -> dict[str, Any]:
    return run_sketch(SpecJob((str(inputs),), out, Columns(), {}, **other), Silent()).to_json()


COMMANDS: list[Callable[..., dict[str, Any]]] = [dedup, pairs, sketch]


@pytest.mark.parametrize("run", COMMANDS)
@pytest.mark.parametrize("out", ["in", "in/docs.parquet", ".", "..", "/", "link", "in/../in"])
def test_an_output_never_replaces_or_contains_an_input(
    run: Callable[..., dict[str, Any]],
    out: str,
    docs: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "link").symlink_to("in")
    before = everything_below(tmp_path)
    for overwrite in (False, True):
        with pytest.raises(UsageError):
            run(Path("in"), Path(out), overwrite=overwrite)
        assert everything_below(tmp_path) == before


@pytest.mark.parametrize("run", [pairs, sketch])
def test_a_file_inside_an_input_folder_is_refused(
    run: Callable[..., dict[str, Any]], docs: Path, tmp_path: Path
) -> None:
    """The next run would read it."""
    with pytest.raises(UsageError, match="inside the input folder"):
        run(docs.parent, docs.parent / "out")
    with pytest.raises(UsageError, match="inside the input folder"):
        require_apart(docs.parent / "out", [f"file://{docs.parent}"], marked=False)
    assert sorted(everything_below(tmp_path)) == ["in", "in/docs.parquet"]


def test_an_output_inside_an_input_folder_is_not_read(docs: Path) -> None:
    out = docs.parent / "out"
    first = dedup(docs.parent, out)
    assert dedup(docs.parent, out, resume=True)["counts"] == first["counts"]
    assert dedup(docs.parent, out, overwrite=True)["counts"] == first["counts"]
    Claim.take(docs.parent / "other", "killed").release()
    assert dedup(docs.parent, docs.parent / "third")["counts"] == first["counts"]


def test_an_output_inside_a_result_is_refused(docs: Path, tmp_path: Path) -> None:
    dedup(docs, tmp_path / "saved", save_signatures=True)
    with pytest.raises(UsageError, match="which is the result of a run"):
        dedup(tmp_path / "saved", tmp_path / "saved" / "again")


def test_an_input_in_the_work_folder_is_not_deleted(docs: Path, tmp_path: Path) -> None:
    inside = tmp_path / "out.partial" / "docs.parquet"
    inside.parent.mkdir()
    shutil.copy(docs, inside)
    with pytest.raises(UsageError, match="not the work folder of a nearkin run"):
        dedup(inside, tmp_path / "out", overwrite=True)
    (inside.parent / LOCK).touch()
    with pytest.raises(UsageError, match="contains the input"):
        dedup(inside, tmp_path / "out", overwrite=True)
    assert inside.exists()


def test_an_output_that_is_an_input_under_another_name_is_refused(
    docs: Path, tmp_path: Path
) -> None:
    """A hard link has another path and the same inode."""
    other = tmp_path / "other.parquet"
    os.link(docs, other)
    with pytest.raises(UsageError, match="is or contains an input"):
        pairs(docs, other, overwrite=True)


@pytest.mark.parametrize("run", COMMANDS)
def test_overwrite_keeps_files_that_no_run_wrote(
    run: Callable[..., dict[str, Any]], docs: Path, tmp_path: Path
) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "thesis.txt").write_text("years of work")
    (tmp_path / "file").write_text("more of it")
    pq.write_table(
        pa.table({"id_a": ["a"], "id_b": ["b"], "label": [1]}), tmp_path / "labels.parquet"
    )
    (tmp_path / "work.partial").mkdir()
    (tmp_path / "work.partial" / "draft").touch()
    before = everything_below(tmp_path)
    for name in ("folder", "file", "labels.parquet", "work"):
        with pytest.raises(UsageError, match="out"):
            run(docs, tmp_path / name, overwrite=True)
        assert everything_below(tmp_path) == before


@pytest.mark.parametrize("stranger", ["notes.txt", "kept/notes.txt", "link"])
def test_overwrite_leaves_a_result_that_holds_something_else(
    stranger: str, docs: Path, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    dedup(docs, out)
    if stranger == "link":
        (out / stranger).symlink_to(docs)
    else:
        (out / stranger).write_text("mine")
    before = everything_below(tmp_path)
    with pytest.raises(UsageError, match=f"contains '{stranger}', which no nearkin run wrote"):
        dedup(docs, out, overwrite=True)
    assert everything_below(tmp_path) == before
    (out / stranger).unlink()
    dedup(docs, out, overwrite=True)


def test_overwrite_replaces_a_result(docs: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    dedup(docs, out, save_signatures=True)
    assert is_output(out)
    dedup(docs, out, overwrite=True, annotate=True)
    assert len(pq.read_table(out / "kept")) == 4
    assert not (out / "signatures").exists()
    nk.report(out)
    dedup(docs, out, overwrite=True)
    assert [path.name for path in tmp_path.iterdir() if path.name != "in"] == ["out"]


def test_the_old_result_stays_until_the_new_one_is_complete(docs: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    dedup(docs, out)
    before = everything_below(out)
    bad = tmp_path / "in" / "bad.jsonl"
    bad.write_text('{"text": 1\n')
    with pytest.raises(NearkinError):
        dedup(docs.parent, out, overwrite=True, on_error="fail")
    assert everything_below(out) == before
    assert not work_folder_of(out).exists()


@pytest.mark.parametrize("run", [pairs, sketch])
def test_overwrite_replaces_the_file_that_the_command_wrote(
    run: Callable[..., dict[str, Any]], docs: Path, tmp_path: Path
) -> None:
    out = tmp_path / "file"
    run(docs, out)
    with pytest.raises(UsageError, match="file exists"):
        run(docs, out)
    run(docs, out, overwrite=True)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["file", "in"]


def test_a_failure_before_the_first_stage_leaves_nothing(docs: Path, tmp_path: Path) -> None:
    before = everything_below(tmp_path)
    requests: list[dict[str, Any]] = [
        {"columns": Columns(text="body")},
        {"columns": Columns(id="number")},
        {"columns": Columns(carried_columns=("quality",)), "keep": "quality desc"},
        {"second_measure": "cosine:embedding:0.9"},
        {"spec": Spec(base_hash="siphash", key_id="0123456789abcdef")},
    ]
    for request in requests:
        for run in (dedup, pairs):
            with pytest.raises(UsageError):
                run(docs, tmp_path / "deep/er/out", **request)
            assert everything_below(tmp_path) == before
    with pytest.raises(UsageError, match="measure jaccard"):
        run_pairs(
            job(docs, tmp_path / "deep/out", spec=Spec(measure="simhash")), Silent(), "containment"
        )
    with pytest.raises(UsageError, match="leave out expand_exact=True"):
        run_pairs(job(docs, tmp_path / "deep/out"), Silent(), "containment", expand_exact=True)
    assert everything_below(tmp_path) == before


def test_a_failure_in_the_first_stage_leaves_nothing_when_nothing_was_done(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text('{"text": 1\n')
    with pytest.raises(NearkinError):
        dedup(path, tmp_path / "deep/er/out", on_error="fail")
    assert sorted(everything_below(tmp_path)) == ["a.jsonl"]
    path.write_text('{"text": "one"}\n')
    dedup(path, tmp_path / "deep/er/out")


def test_a_failed_count_of_shingles_leaves_nothing(docs: Path, tmp_path: Path) -> None:
    before = everything_below(tmp_path)
    commands = (
        ["dedup", "--threshold", "1.5"],
        ["pairs", "--relation", "nearness"],
        ["lab", "sketch", "--k", "0"],
    )
    for name, *wrong in commands:
        line = [name, str(docs), "--max-df", "0.5", "--out", str(tmp_path / "deep/out"), *wrong]
        ended = subprocess.run(
            prepared_line("nearkin", *line), capture_output=True, text=True, check=False
        )
        assert (ended.returncode, "Traceback" in ended.stderr) == (2, False), ended.stderr
        assert everything_below(tmp_path) == before


def test_resume_of_a_finished_output_compares_the_request(docs: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    first = dedup(docs, out)
    assert dedup(docs, out, resume=True) == json.loads(json.dumps(first))
    assert dedup(docs, out, resume=True, workers=1, memory=1 << 30)["counts"] == first["counts"]
    requests: list[tuple[dict[str, Any], str]] = [
        ({"threshold": 0.5}, r"threshold=0\.8, and this run has threshold=0\.5"),
        (
            {"spec": Spec(measure="simhash")},
            "measure='jaccard', and this run has measure='simhash'",
        ),
        ({"columns": Columns(id="id")}, "no `id`, and this run has id='id'"),
        ({"annotate": True}, "no `annotate`, and this run has annotate=True"),
        ({"save_signatures": True}, "no `save_signatures`, and this run has save_signatures=True"),
    ]
    for request, message in requests:
        with pytest.raises(UsageError, match=message):
            dedup(docs, out, resume=True, **request)
    other = tmp_path / "in" / "other.jsonl"
    other.write_text('{"text": "one"}\n')
    with pytest.raises(UsageError, match=r"other\.jsonl was not there before"):
        dedup(other, out, resume=True)
    pq.write_table(pa.table({"id": ["a"], "text": ["changed"]}), docs)
    with pytest.raises(UsageError, match=r"docs\.parquet has changed"):
        dedup(docs, out, resume=True)


def test_resume_of_finished_pairs_compares_the_request(docs: Path, tmp_path: Path) -> None:
    out = tmp_path / "pairs.parquet"
    assert (
        pairs(docs, out, threshold=0.5)["pairs"]
        == pairs(docs, out, threshold=0.5, resume=True)["pairs"]
    )
    with pytest.raises(UsageError, match=r"threshold=0\.5, and this run has threshold=0\.8"):
        pairs(docs, out, resume=True)
    with pytest.raises(UsageError, match="no `expand_exact`, and this run has expand_exact=True"):
        run_pairs(job(docs, out, threshold=0.5, resume=True), Silent(), expand_exact=True)
    pq.write_table(pa.table({"text": ["changed"]}), docs)
    with pytest.raises(UsageError, match=r"docs\.parquet has changed"):
        pairs(docs, out, threshold=0.5, resume=True)


def test_equal_pairs_are_equal_files(docs: Path, tmp_path: Path) -> None:
    pairs(docs, tmp_path / "a.parquet")
    shutil.copytree(docs.parent, tmp_path / "copy")
    pairs(tmp_path / "copy" / "docs.parquet", tmp_path / "b.parquet")
    assert (tmp_path / "a.parquet").read_bytes() == (tmp_path / "b.parquet").read_bytes()


@pytest.fixture
def held(tmp_path: Path) -> Iterator[Path]:
    """An output that another process is writing."""
    out = tmp_path / "out"
    code = (
        "import sys; from pathlib import Path; from nearkin.runtime.outputs import Claim;"
        "Claim.take(Path(sys.argv[1]), 'nearkin dedup'); print('held', flush=True); "
        "sys.stdin.read()"
    )
    line = [sys.executable, "-c", code, str(out)]
    with subprocess.Popen(line, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"held\n"
        yield out
        holder.kill()


def write(inputs: Path, out: Path, **_: Any) -> Path:
    return nk.dedup([inputs]).write(out)


@pytest.mark.parametrize("run", [*COMMANDS, write])
def test_a_second_run_into_the_same_output_fails_at_once(run: Any, held: Path, docs: Path) -> None:
    """The message names the holder; --overwrite and --resume do not wait for it either."""
    before = everything_below(held.parent)
    for option in ({}, {"overwrite": True}):
        with pytest.raises(
            UsageError, match=r"is being written by nearkin dedup \(pid \d+ on .+, since \d{4}-.+\)"
        ):
            run(docs, held, **option)
    assert everything_below(held.parent) == before


def test_a_killed_holder_frees_the_output(held: Path, docs: Path) -> None:
    holder = json.loads((work_folder_of(held) / LOCK).read_bytes())
    os.kill(holder["pid"], 9)
    os.waitpid(holder["pid"], 0)
    assert is_work_folder(work_folder_of(held))
    dedup(docs, held)
    assert not work_folder_of(held).exists()


def test_a_lock_is_not_shared_inside_a_process(tmp_path: Path) -> None:
    first = Claim.take(tmp_path / "out", "first")
    with pytest.raises(UsageError, match="is being written by first"):
        Claim.take(tmp_path / "out", "second")
    first.remove()
    Claim.take(tmp_path / "out", "second").remove()
    assert list(tmp_path.iterdir()) == []


def test_written_results_leave_foreign_folders_alone(tmp_path: Path) -> None:
    foreign = tmp_path / "out.partial"
    foreign.mkdir()
    (foreign / "mine").touch()
    with pytest.raises(UsageError, match="not the work folder of a nearkin run"):
        nk.dedup(TEXTS).write(tmp_path / "out")
    assert (foreign / "mine").exists()
    nk.dedup(TEXTS).write(tmp_path / "other")
    assert (tmp_path / "other" / MARKER).is_file()


def test_an_old_result_that_was_moved_aside_comes_back(docs: Path, tmp_path: Path) -> None:
    """Leaves the state of a kill between the two renames."""
    out = tmp_path / "out"
    dedup(docs, out)
    before = everything_below(out)
    claim = Claim.take(out, "killed")
    out.rename(claim.path / "previous")
    claim.release()
    Claim.take(out, "another").remove()
    assert everything_below(out) == before
    claim = Claim.take(out, "killed")
    out.rename(claim.path / "previous")
    claim.release()
    with (
        pytest.raises(UsageError, match="out exists; replace it with overwrite=True"),
        claimed(out, "another", replaces=False),
    ):
        pytest.fail("the old result is there again, so a run would fail at its end")
    assert everything_below(out) == before
    assert not work_folder_of(out).exists()


@pytest.fixture
def saved(docs: Path, tmp_path: Path) -> Path:
    dedup(docs, tmp_path / "saved", save_signatures=True)
    return tmp_path / "saved"


@pytest.mark.parametrize(
    "option",
    [
        ["--text", "body"],
        ["--tokens", "words"],
        ["--vector", "embedding"],
        ["--id", "id"],
        ["--measure", "simhash"],
        ["--shingle", "chars:5"],
        ["--k", "64"],
        ["--seed", "3"],
        ["--slot-bits", "8"],
        ["--scheme", "classic"],
        ["--base-hash", "murmur3"],
        ["--stem", "english"],
        ["--normalise", "nfkc"],
        ["--key-file", "env:NEARKIN_TEST_KEY"],
    ],
    ids=lambda option: option[0],
)
@pytest.mark.parametrize("command", ["dedup", "pairs"])
def test_options_that_contradict_a_saved_run_are_refused(
    command: str,
    option: list[str],
    saved: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    from nearkin.cli.app import run

    monkeypatch.setenv("NEARKIN_TEST_KEY", "00112233445566778899aabbccddeeff")
    assert run([command, str(saved), "--out", str(saved.with_name("out")), *option]) == 2
    assert f"{option[0]}" in capsys.readouterr().err
    assert not saved.with_name("out").exists()


def test_options_that_agree_with_a_saved_run_are_accepted(saved: Path) -> None:
    from nearkin.cli.app import run

    line = [
        "--text",
        "text",
        "--shingle",
        "words:3",
        "--measure",
        "jaccard",
        "--normalise",
        "lower, nfkc",
        "--threshold",
        "0.5",
    ]
    assert run(["dedup", str(saved), "--out", str(saved.with_name("out")), *line]) == 0


def test_a_saved_run_may_keep_its_signatures_again(saved: Path) -> None:
    again = saved.with_name("again")
    dedup(saved, again, save_signatures=True, bands=20, rows=4)
    dedup(again, saved.with_name("third"), save_signatures=True, bands=10, rows=4)
    assert (saved.with_name("third") / "signatures" / "signatures").stat().st_size > 0


def command(*line: object) -> int:
    """Runs a command line in this process; returns the exit code."""
    from nearkin.cli.app import run

    return run([str(word) for word in line])


def test_plans_pictures_and_pages_replace_only_files_of_their_kind(
    docs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    mine = tmp_path / "mine.svg"
    mine.write_text("my words")
    my_plan = tmp_path / "mine.json"
    my_plan.write_text('{"plan": "mine"}')
    (tmp_path / "a.html").write_text("<p>one two three four five six</p>")
    (tmp_path / "b.html").write_text(
        "<!doctype html><title>my page</title> one two three four five"
    )
    before = everything_below(tmp_path)
    labels = tmp_path / "in" / "labels.csv"
    lines: list[list[object]] = [
        ["plan", "--docs", "1M", "--out", my_plan],
        ["plan", "--docs", "1M", "--out", docs],
        ["tune", "--plot", mine],
        ["explain", tmp_path / "a.html", tmp_path / "b.html", "--html", tmp_path / "a.html"],
        ["explain", "one two three", "one two three four", "--html", tmp_path / "b.html"],
        ["eval", tmp_path, "--golden", labels, "--plot", mine],
    ]
    for line in lines:
        assert command(*line) == 2, line
        assert everything_below(tmp_path) == before
    for line in (
        ["plan", "--docs", "1M", "--out", tmp_path / "new.json"],
        ["explain", "one two three", "one two three four", "--html", tmp_path / "new.html"],
    ):
        for _ in range(2):
            assert command(*line) == 0
    for _ in range(2):
        assert command("tune", "--plot", tmp_path / "new.svg") == 0
    capsys.readouterr()


def test_exports_and_backups_replace_only_files_of_their_kind(
    docs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    store = f"sqlite:///{tmp_path / 'kin.db'}"
    assert command("index", "build", docs, "--store", store) == 0
    before = docs.read_bytes()
    for line in (["index", "export", "--store", store], ["index", "backup", "--store", store]):
        assert command(*line, "--out", docs, "--overwrite") == 2
        assert docs.read_bytes() == before
        for flags in ([], ["--overwrite"]):
            assert command(*line, "--out", tmp_path / "deep" / line[1], *flags) == 0
    capsys.readouterr()


def test_merged_signatures_never_replace_an_input(
    docs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    sketch(docs, tmp_path / "a.arrow")
    before = everything_below(tmp_path)
    assert (
        command("lab", "merge", tmp_path / "a.arrow", "--out", tmp_path / "a.arrow", "--overwrite")
        == 2
    )
    assert "is an input" in capsys.readouterr().err
    assert everything_below(tmp_path) == before


def test_options_that_a_finished_run_would_ignore_are_refused(
    saved: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    labels = saved.with_name("labels.csv")
    labels.write_text("id_a,id_b,label\na,b,1\n")
    assert command("explain", "a", "b", "--run", saved, "--threshold", "0.5") == 2
    assert "--threshold has no effect with --run" in capsys.readouterr().err
    assert command("eval", saved, "--golden", labels, "--text", "body") == 2
    assert "--text has no effect without --grid" in capsys.readouterr().err
    assert (
        command(
            "index",
            "build",
            saved,
            "--store",
            f"sqlite:///{saved.with_name('kin.db')}",
            "--shingle",
            "chars:5",
        )
        == 2
    )
    assert "--shingle chars:5 contradicts the saved run" in capsys.readouterr().err


class KilledError(BaseException):
    """Stands for the end of the process: nothing is cleaned up."""


def test_a_replacement_that_was_killed_half_way_is_finished_by_resume(
    docs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between the two renames: the old result was moved aside and the new one has not taken its
    name."""
    out = tmp_path / "out"
    dedup(docs, out)
    old = everything_below(out)
    renamed: list[Path] = []
    rename = Path.replace

    def killed(self: Path, target: Path) -> Path:
        if self.name == "result" and target == out:
            raise KilledError
        renamed.append(target)
        return rename(self, target)

    monkeypatch.setattr(Path, "replace", killed)
    with pytest.raises(KilledError):
        dedup(docs, out, overwrite=True, annotate=True)
    assert renamed[-1].name == "previous"
    assert not out.exists()
    assert everything_below(renamed[-1]) == old
    monkeypatch.undo()
    with pytest.raises(UsageError, match=r"out\.partial holds an interrupted run .*annotate=True"):
        dedup(docs, out)
    assert everything_below(out) == old
    dedup(docs, out, resume=True, annotate=True)
    assert len(pq.read_table(out / "kept")) == 4
    assert sorted(path.name for path in tmp_path.iterdir()) == ["in", "out"]


def test_a_result_that_appeared_meanwhile_is_not_replaced(docs: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"

    class Appearing(Silent):
        def stage(self, name: str, total: int | None = None) -> None:
            if name == "write":
                out.mkdir()
                (out / "mine").touch()

    with pytest.raises(UsageError, match="has appeared while the run was working"):
        run_dedup(job(docs, out), Appearing())
    assert (out / "mine").exists()
    (out / "mine").unlink()
    out.rmdir()
    dedup(docs, out, resume=True)


def test_a_killed_synth_leaves_nothing_at_the_name_of_its_corpus(tmp_path: Path) -> None:
    """And what it left is not in the way of the next one."""
    out = tmp_path / "synth"
    program = (
        "import os, sys\n"
        "import nearkin.quality.lab.synth as synth\n"
        "def kill(*_):\n    os._exit(9)\n"
        "synth._write_truth = kill\n"
        f"synth.synth({str(out)!r}, synth.SynthSettings(documents=50))\n"
    )
    line = prepared_line("python", "-c", program)
    assert subprocess.run(line, check=False).returncode == 9
    assert sorted(path.name for path in tmp_path.iterdir()) == ["synth.partial"]
    synth(out, SynthSettings(documents=50))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["synth"]
    assert sorted(path.name for path in out.iterdir()) == [
        "documents",
        "synth.json",
        "truth.parquet",
    ]


def test_an_audit_holds_the_lock_of_the_output(saved: Path) -> None:
    claim = Claim.take(saved, "nearkin dedup")
    with pytest.raises(UsageError, match="is being written by nearkin dedup"):
        audit_run(saved, Silent())
    claim.remove()
    audit_run(saved, Silent())
    assert not Path(f"{saved}.partial").exists()


def test_an_audit_leaves_what_a_killed_run_can_resume(saved: Path) -> None:
    work = Path(f"{saved}.partial")
    claim = Claim.take(saved, "nearkin dedup")
    (work / "manifest.json").write_text("{}")
    claim.release()
    audit_run(saved, Silent())
    assert (work / "manifest.json").read_text() == "{}"


@pytest.mark.parametrize("renames", [0, 1, 2])
def test_an_audit_that_is_killed_between_its_files_does_no_harm(renames: int, saved: Path) -> None:
    program = (
        "import os\n"
        "from pathlib import Path\n"
        "from nearkin.runtime.progress import Silent\n"
        "from nearkin.runs.reopen import audit_run\n"
        "rename, done = Path.replace, []\n"
        "def replace(source, target):\n"
        f"    if len(done) == {renames}:\n        os._exit(9)\n"
        "    done.append(target)\n"
        "    return rename(source, target)\n"
        "Path.replace = replace\n"
        f"audit_run(Path({str(saved)!r}), Silent())\n"
    )
    line = prepared_line("python", "-c", program)
    assert subprocess.run(line, check=False).returncode == 9
    assert read_run_record(saved / "run.json").counts["read"] > 0
    assert (read_report(saved).audit is None) == (renames == 0)
    require_replaceable_folder(saved)
    audit_run(saved, Silent())
    assert read_report(saved).audit is not None
    assert read_run_record(saved / "run.json").audit is not None
    assert [path.name for path in saved.iterdir() if path.name.endswith(".tmp")] == []
    assert not Path(f"{saved}.partial").exists()


def test_new_parent_folders_are_synced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[int] = []
    sync = os.fsync

    def fsync(handle: int) -> None:
        synced.append(os.fstat(handle).st_ino)
        sync(handle)

    monkeypatch.setattr(os, "fsync", fsync)
    claim = Claim.take(tmp_path / "a" / "b" / "out", "test")
    names = [tmp_path, tmp_path / "a", tmp_path / "a" / "b", claim.path]
    assert {path.stat().st_ino for path in names} <= set(synced)
    claim.remove()
    assert list(tmp_path.iterdir()) == []
    synced.clear()
    with nk.Index.open(f"sqlite:///{tmp_path}/c/d/kin.db"):
        assert {path.stat().st_ino for path in (tmp_path, tmp_path / "c")} <= set(synced)


@pytest.mark.parametrize("readers", list(Readers))
def test_the_marker_of_a_result_that_the_library_writes_has_its_readers(
    readers: Readers, tmp_path: Path
) -> None:
    """Whatever the umask is."""
    umask = os.umask(0o077 if readers is not Readers.OWNER else 0)
    try:
        nk.dedup(pa.table({"text": ["a b c d", "a b c d"]})).write(
            tmp_path / "out", readable_by=readers.value
        )
    finally:
        os.umask(umask)
    assert (tmp_path / "out" / MARKER).stat().st_mode & 0o777 == readers.file_mode


def test_a_run_that_can_be_resumed_is_not_deleted_by_another_command(
    docs: Path, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    claim = Claim.take(out, "test")
    (claim.path / "manifest.json").write_text('{"stages": {"sketch": {}}}')
    claim.release()
    before = everything_below(claim.path)
    with pytest.raises(UsageError, match="holds a run that was killed"):
        sketch(docs, out)
    with pytest.raises(UsageError, match="holds a run that was killed"):
        nk.dedup(pq.read_table(docs)).write(out)
    assert everything_below(claim.path).keys() == before.keys()
    sketch(docs, out, overwrite=True)
    assert not claim.path.exists()


@pytest.mark.parametrize("run", COMMANDS)
def test_url_as_output_is_refused(
    run: Any, docs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No local folder `s3:` is created."""
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UsageError, match="this is a URL"):
        run(docs, Path("s3://bucket/out"))
    assert not (tmp_path / "s3:").exists()


@pytest.mark.parametrize("name", ["n" * 250, "in/docs.parquet/out"])
def test_an_output_path_that_cannot_be_made_is_wrong_usage(
    name: str, docs: Path, tmp_path: Path
) -> None:
    with pytest.raises(UsageError, match="choose another `out`"):
        dedup(docs, tmp_path / name)
    assert [path.name for path in tmp_path.iterdir()] == ["in"]


@pytest.mark.parametrize("late_files", [1, 3])
def test_files_of_late_workers_leave_no_folder_that_no_run_takes(
    late_files: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    claim = Claim.take(tmp_path / "out", "test")
    clear = Claim.clear
    written: list[Path] = []

    def clear_while_a_worker_writes(claim: Claim) -> None:
        clear(claim)
        if len(written) < late_files:
            written.append(claim.path / f"late {len(written)}")
            written[-1].touch()

    monkeypatch.setattr(Claim, "clear", clear_while_a_worker_writes)
    claim.remove()
    assert claim.path.exists() == (late_files > 1)
    monkeypatch.undo()
    Claim.take(tmp_path / "out", "test").remove()
    assert not claim.path.exists()
