"""Tests of the endings, outputs and records of commands."""

import json
import os
import signal
import stat
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import nearkin as nk
from nearkin.cli import app
from nearkin.cli.app import with_clean_ending
from nearkin.corpus import Columns
from nearkin.engine.local.run import LocalRun
from nearkin.engine.options import RunOptions
from nearkin.runs.dedup import run_dedup
from nearkin.runs.job import Job
from nearkin.runtime.progress import Silent

SECRET = "xylophone"


@pytest.fixture
def documents(tmp_path: Path) -> Path:
    """Documents in near-duplicate pairs, each with a word that no fact of a run holds, and a
    broken row."""
    path = tmp_path / "in" / "documents.jsonl"
    path.parent.mkdir()
    words = [" ".join(f"{SECRET}{i // 2}x{j}" for j in range(60)) + f" {i}" for i in range(40)]
    rows = [{"id": f"d{i}", "text": text, "source": f"s{i % 3}"} for i, text in enumerate(words)]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows) + f'{{"text": "{SECRET}\n')
    return path


@pytest.fixture(autouse=True)
def shared_umask() -> Iterator[None]:
    """The usual mask of users, under which new files are readable by everyone."""
    before = os.umask(0o022)
    yield
    os.umask(before)


def modes(*paths: Path) -> dict[str, int]:
    found = [*paths, *(path for folder in paths for path in folder.rglob("*"))]
    return {str(path): stat.S_IMODE(path.stat().st_mode) for path in found}


def run(*arguments: object) -> int:
    return app.run(list(map(str, arguments)))


# what records hold


def test_run_json_and_json_hold_facts_and_no_texts(
    documents: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    assert (
        run(
            "dedup",
            documents,
            "--source",
            "source",
            "--audit",
            "--save-signatures",
            "--out",
            out,
            "--json",
        )
        == 0
    )
    printed = capsys.readouterr().out
    record = (out / "run.json").read_text()
    for text in (printed, record):
        facts = json.loads(text)
        assert facts["counts"]["removed_near"] == 20
        assert SECRET not in text
    assert "audit" in json.loads(record)
    assert SECRET in (out / "report.json").read_text()
    assert json.loads((out / "report.json").read_bytes())["audit"] is not None
    for command in (("info", out), ("pairs", documents, "--out", tmp_path / "p.parquet")):
        assert run(*command, "--json") == 0
        assert SECRET not in capsys.readouterr().out, command


def test_a_report_is_written_anew_from_its_data(documents: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    assert run("dedup", documents, "--out", out) == 0
    page = (out / "report.html").read_bytes()
    (out / "report.html").unlink()
    nk.report(out)
    assert (out / "report.html").read_bytes() == page


# who may read


def test_outputs_are_their_owners_alone(documents: Path, tmp_path: Path) -> None:
    out = tmp_path / "new" / "out"
    assert run("dedup", documents, "--save-signatures", "--audit", "--out", out) == 0
    assert run("pairs", documents, "--out", tmp_path / "new" / "pairs.parquet") == 0
    assert run("sketch", documents, "--out", tmp_path / "new" / "s.arrow") == 0
    assert (
        run("merge", tmp_path / "new" / "s.arrow", "--out", tmp_path / "new" / "merged.arrow") == 0
    )
    found = modes(tmp_path / "new")
    assert str(out / "rejected.jsonl") in found
    assert {path: mode for path, mode in found.items() if mode & 0o077} == {}
    assert os.umask(0o022) == 0o022, "the process's own mask is as it was"


@pytest.mark.parametrize(
    ("readers", "file", "folder"), [("group", 0o640, 0o750), ("everyone", 0o644, 0o755)]
)
def test_readable_by_lets_others_read(
    readers: str, file: int, folder: int, documents: Path, tmp_path: Path
) -> None:
    out = tmp_path / "new" / "out"
    assert run("dedup", documents, "--out", out, "--readable-by", readers) == 0
    assert (
        run("pairs", documents, "--out", tmp_path / "new" / "p.parquet", "--readable-by", readers)
        == 0
    )
    found = modes(tmp_path / "new")
    del found[str(tmp_path / "new")]
    found.pop(str(out / ".nearkin-output.json"), None)
    assert set(found.values()) == {file, folder}


def test_readers_by_environment(
    documents: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NEARKIN_READABLE_BY", "everyone")
    assert run("dedup", documents, "--out", tmp_path / "out") == 0
    assert modes(tmp_path / "out")[str(tmp_path / "out" / "kept")] == 0o755


def test_unknown_readers_are_an_error(
    documents: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert run("dedup", documents, "--out", tmp_path / "out", "--readable-by", "world") == app.USAGE
    assert "choose owner, group or everyone" in capsys.readouterr().err
    monkeypatch.setenv("NEARKIN_READABLE_BY", "world")
    assert run("info", tmp_path) == app.USAGE
    assert not (tmp_path / "out").exists()


def test_work_files_of_the_library_are_their_owners_alone(documents: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    seen: list[int] = []

    class Looking(Silent):
        def stage(self, name: str, total: int | None = None) -> None:
            seen.append(modes(tmp_path)[f"{out}.partial"])

    run_dedup(Job((str(documents),), out, Columns(), RunOptions(workers=1)), Looking())
    assert len(seen) > 2
    assert set(seen) == {0o700}
    assert {
        mode & 0o077 for path, mode in modes(out).items() if not path.endswith("-output.json")
    } == {0}
    result = nk.dedup(["a b c", "a b c"])
    assert {
        mode & 0o077
        for path, mode in modes(result.write(tmp_path / "w")).items()
        if "-output" not in path
    } == {0}
    assert modes(result.write(tmp_path / "x", readable_by="group"))[str(tmp_path / "x")] == 0o750


# ends


@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGTERM, 143), (signal.SIGHUP, 129), (signal.SIGINT, 130)]
)
def test_a_signal_ends_a_run_with_a_word_on_resuming(
    number: signal.Signals,
    code: int,
    documents: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def end(*_: Any, **__: Any) -> None:
        os.kill(os.getpid(), number)
        threading.Event().wait(60)

    # after the first stages, so that there is a run to resume
    monkeypatch.setattr(LocalRun, "cluster", end)
    # background jobs have SIGINT ignored, and nohup ignores SIGHUP; this test may run in either
    default = signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL
    before = signal.signal(number, default)
    try:
        assert run("dedup", documents, "--out", tmp_path / "out") == code
    finally:
        signal.signal(number, before)
    said = capsys.readouterr().err
    assert "interrupted" in said
    assert "--resume" in said
    monkeypatch.undo()
    assert run("dedup", documents, "--out", tmp_path / "out", "--resume") == 0
    assert signal.getsignal(signal.SIGTERM) == signal.SIG_DFL


def test_a_hangup_that_is_ignored_stays_ignored(
    documents: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        monkeypatch.setattr(
            "nearkin.cli.options.open_progress",
            lambda: os.kill(os.getpid(), signal.SIGHUP) or Silent(),
        )
        assert run("dedup", documents, "--out", tmp_path / "out") == 0
    finally:
        signal.signal(signal.SIGHUP, before)


@pytest.mark.parametrize(
    "redirected", ["2>&-", ">&-", ">&- 2>&- <&-", "| head -c 0", "2>&1 >/dev/null | head -c 0"]
)
def test_runs_go_on_without_a_reader(redirected: str, documents: Path, tmp_path: Path) -> None:
    line = f"{sys.executable} -m nearkin dedup {documents} --out {tmp_path}/out --json"
    if "2>&1" in redirected:
        line = line.removesuffix("--json")
    script = f"set -o pipefail; {line} {redirected}"
    ended = subprocess.run(
        ["bash", "-c", script],
        capture_output=True,
        text=True,
        check=False,
        stdin=subprocess.DEVNULL,
    )
    assert ended.returncode == 0, ended.stderr
    assert "Traceback" not in ended.stderr
    assert "Exception" not in ended.stderr
    assert json.loads((tmp_path / "out" / "run.json").read_bytes())["counts"]["kept"] == 20


def test_a_full_standard_output_is_an_error(documents: Path, tmp_path: Path) -> None:
    line = f"{sys.executable} -m nearkin dedup {documents} --out {tmp_path}/out --json > /dev/full"
    ended = subprocess.run(["bash", "-c", line], capture_output=True, text=True, check=False)
    assert ended.returncode == app.FAILED
    assert ended.stderr == "nearkin: cannot write to standard output: No space left on device\n"


@pytest.mark.parametrize(
    ("variable", "value"), [("NUMBA_DISABLE_JIT", "1"), ("NUMBA_NUM_THREADS", "0")]
)
def test_settings_of_numba_that_cannot_work_are_one_sentence(
    variable: str, value: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv(variable, value)
    assert run("info", "nothing") == app.USAGE
    said = capsys.readouterr().err
    assert said.startswith("nearkin: ")
    assert f"{variable}={value}:" in said
    assert said.count("\n") == 1


def test_a_setting_that_numba_cannot_read_is_one_line(documents: Path, tmp_path: Path) -> None:
    line = [
        sys.executable,
        "-m",
        "nearkin",
        "dedup",
        str(documents),
        "--out",
        str(tmp_path / "out"),
        "--json",
    ]
    environment = {**os.environ, "NUMBA_OPT": "banana"}
    ended = subprocess.run(line, capture_output=True, text=True, check=False, env=environment)
    assert ended.returncode == 0
    assert "NUMBA_OPT" in ended.stderr
    assert ended.stderr.count("\n") == 1


@pytest.mark.parametrize("is_begun", [True, False])
def test_an_interruption_advises_resume_only_if_there_is_a_run(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], is_begun: bool
) -> None:
    def command(out: Path, resume: bool = False) -> None:
        if is_begun:
            out.with_name("out.partial").mkdir()
            (out.with_name("out.partial") / "manifest.json").write_text("{}")
        raise KeyboardInterrupt

    with pytest.raises(SystemExit):
        with_clean_ending(command)(out=tmp_path / "out")
    assert ("--resume" in capsys.readouterr().err) == is_begun
