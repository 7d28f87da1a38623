"""The command line as a whole: help, messages, exit codes and what is loaded."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from nearkin.cli import app
from nearkin.cli.app import with_clean_ending
from nearkin.corpus import FileCorpus
from nearkin.errors import RunError
from tests.cli.conftest import nearkin, run
from tests.services import free_port

COMMANDS = ("dedup", "pairs", "lab sketch", "lab merge", "info", "lab synth", "demo")
LAZY_MODULES = ("numpy", "pyarrow", "numba", "concurrent.futures", "socket", "tempfile", "json")
LOADED_BY_NEARKIN = f"""
import sys
import typer.rich_utils

before = set(sys.modules)
from nearkin.cli.app import run

run(["--help"])
print(*sorted((set(sys.modules) - before).intersection({LAZY_MODULES})))
"""
FAULTS = [
    (["dedup", "nowhere.parquet", "--out", "x"], "no such file or folder: nowhere.parquet"),
    (
        ["dedup", "DOCS", "--out", "x", "--text", "body"],
        "has no column 'body' (it has 'id', 'text', 'source')",
    ),
    (
        ["dedup", "DOCS", "--out", "x", "--threshold", "1.2"],
        "threshold 1.2 is out of range; it must be above 0 and at most 1",
    ),
    (["dedup", "DOCS", "--out", "x", "--bands", "4"], "bands and rows go together"),
    (["dedup", "DOCS", "--out", "x", "--bands", "40", "--rows", "4"], "--k 128"),
    (["dedup", "DOCS", "--out", "x", "--k", "0"], "--k 0 is out of range; it must be at least 1"),
    (
        ["dedup", "DOCS", "--out", "x", "--shingle", "lines:3"],
        "invalid shingle 'lines:3'; write it as words:3",
    ),
    (
        ["dedup", "DOCS", "--out", "x", "--keep", "quality up"],
        "invalid keep criterion 'quality up'",
    ),
    (["dedup", "DOCS", "--out", "x", "--keep", "quality desc"], "has no column 'quality'"),
    (["dedup", "DOCS", "--out", "x", "--memory", "lots"], "memory 'lots' is not a size"),
    (
        ["dedup", "DOCS", "--out", "x", "--memory", "10MB"],
        "a run needs at least 512MiB",
    ),
    (
        ["dedup", "DOCS", "--out", "x", "--verify", "maybe"],
        "--verify maybe is not one of exact, estimate, none",
    ),
    (["dedup", "DOCS", "--out", "x", "--normalise", "upper"], "normalise step 'upper'"),
    (["dedup", "DOCS", "--out", "x", "--stem", "klingon"], "--stem klingon is not one of"),
    (
        ["dedup", "DOCS", "--out", "x", "--on-error", "ignore"],
        "--on-error ignore is not one of quarantine, fail",
    ),
    (
        ["dedup", "DOCS", "--out", "x", "--measure", "nearest"],
        "--measure nearest is not one of jaccard",
    ),
    (["dedup", "DOCS", "--out", "x", "--text", "text", "--tokens", "text"], "exclude each other"),
    (["dedup", "DOCS"], "missing option --out PATH; see nearkin dedup --help"),
    (["dedup", "--no-such-option"], "no such option '--no-such-option'"),
    (["no-such-command"], "unknown command 'no-such-command'; see nearkin --help"),
    (["dedup", "--treshold", "0.7"], "no such option '--treshold'; did you mean '--threshold'?"),
    (
        ["pairs", "--max-lost", "0"],
        "--max-lost is not an option of nearkin pairs: it decides which",
    ),
    (["dedupe"], "unknown command 'dedupe'; did you mean 'dedup'?"),
    (["compact", "sqlite:///x"], "unknown command 'compact'; use: nearkin index compact"),
    (["dedup", "DOCS", "-o", "x", "-t", "high"], "--threshold 'high' is not a number"),
    (["dedup", "DOCS", "-o", "x", "--k", "1.5"], "--k '1.5' is not a whole number"),
    (["info", "a", "b"], "unexpected argument 'b'; see nearkin info --help"),
    (["dedup", "--out"], "option '--out' requires an argument"),
    (["pairs", "DOCS", "--out", "DOCS"], "is a folder"),
    (["info", "nowhere"], "no such file"),
    (["audit", "nowhere"], "no such folder: nowhere"),
    (["explain", "a", "b", "--run", "nowhere"], "no such folder: nowhere"),
    (["lab", "band"], "unknown command 'band'; did you mean 'bands'?"),
    (
        ["index", "query", "nowhere", "--store", "sqlite:///no.db"],
        "cannot read nowhere as text: No such file or directory; give a text file",
    ),
    (["index", "rebuild", "--store", "sqlite:///no.db"], "missing option --to URL"),
    (["lab", "synth", "--out", "DOCS"], "exists; choose another folder"),
    (
        ["lab", "synth", "--out", "x", "--losses", "forms", "--files", "2"],
        "--files has no effect with --losses forms",
    ),
    (
        ["lab", "synth", "--out", "x", "--losses", "forms", "--contaminated", "5"],
        "--contaminated has no effect with --losses forms",
    ),
    (["lab", "synth", "--out", "x", "--length", "gamma:3"], "length 'gamma:3' is not of the form"),
    (["lab", "synth", "--out", "x", "--edits", "paint=3"], "unknown operation 'paint'"),
    (["lab", "synth", "--out", "x", "--similarity", "a:b"], "similarity 'a:b' is not of the form"),
    (
        ["lab", "synth", "--out", "x", "--similarity", "nan:1"],
        "similarity 'nan:1' is not of the form",
    ),
]


def test_help_does_not_load_what_only_commands_need() -> None:
    loaded = subprocess.run(
        [sys.executable, "-c", LOADED_BY_NEARKIN], capture_output=True, text=True, check=True
    )
    assert loaded.stdout.splitlines()[-1] == ""


@pytest.mark.parametrize("command", COMMANDS)
def test_help_shows_examples(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(*command.split(), "--help") == 0
    shown = capsys.readouterr().out
    assert "Examples" in shown
    assert f"nearkin {command}" in shown


@pytest.mark.parametrize("command", ["dedup", "serve", "index build", "server token create"])
def test_help_leaves_out_sections_for_readers_of_the_code(
    command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(*command.split(), "--help") == 0
    text = capsys.readouterr().out
    assert "Usage:" in text
    assert not any(section in text for section in ("Args:", "Returns:", "Raises:"))


def test_help_lists_every_command() -> None:
    shown = nearkin("help", "all").stdout
    assert all(command in shown for command in COMMANDS)
    assert nearkin("--version").stdout.startswith("nearkin ")


@pytest.mark.parametrize(
    ("arguments", "message"), FAULTS, ids=lambda value: value if isinstance(value, str) else None
)
def test_wrong_usage_is_one_clear_message(
    arguments: list[str],
    message: str,
    corpus: Path,
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
) -> None:
    paths = {"DOCS": corpus / "documents", "x": tmp_path / "x"}
    assert run(*(paths.get(word, word) for word in arguments)) == app.USAGE
    shown = capfd.readouterr().err
    assert shown.startswith("nearkin: ")
    assert shown.count("\n") == 1
    assert message in shown
    assert list(tmp_path.iterdir()) == []


def test_wrong_usage_ends_the_process_with_its_exit_code(tmp_path: Path) -> None:
    ended = nearkin("dedup", "nowhere.parquet", "--out", tmp_path / "x", code=2)
    assert ended.stderr == "nearkin: no such file or folder: nowhere.parquet\n"


@pytest.mark.parametrize(
    ("variable", "value"), [("NUMBA_DISABLE_JIT", "1"), ("NUMBA_NUM_THREADS", "0")]
)
def test_unusable_numba_setting_is_reported_in_one_line(
    variable: str, value: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv(variable, value)
    assert run("info", "nothing") == app.USAGE
    message = capsys.readouterr().err
    assert message.startswith("nearkin: ")
    assert f"{variable}={value}:" in message
    assert message.count("\n") == 1


def test_unreadable_numba_setting_is_a_warning_of_one_line(documents: Path, tmp_path: Path) -> None:
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
    # a command that compiles kernels also announces that, and shows its progress
    lines = ended.stderr.splitlines()
    assert all(line.startswith("nearkin: ") for line in lines)
    assert ["NUMBA_OPT" in line for line in lines].count(True) == 1


def test_interrupted_command_ends_with_its_exit_code(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    def interrupt(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("nearkin.quality.lab.synth.synth", interrupt)
    assert app.run(["lab", "synth", "--out", str(tmp_path / "x")]) == app.INTERRUPTED
    assert "interrupted" in capsys.readouterr().err


@pytest.mark.parametrize("is_resumable", [True, False])
def test_interrupted_command_advises_to_resume_only_if_a_run_can_be_resumed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], is_resumable: bool
) -> None:
    def command(out: Path, resume: bool = False) -> None:
        if is_resumable:
            out.with_name("out.partial").mkdir()
            (out.with_name("out.partial") / "manifest.json").write_text(
                '{"stages": {"sketch": {}}}'
            )
        raise KeyboardInterrupt

    with pytest.raises(SystemExit):
        with_clean_ending(command)(out=tmp_path / "out")
    assert ("--resume" in capsys.readouterr().err) == is_resumable


def test_input_that_vanishes_is_an_error_without_advice_to_resume(tmp_path: Path) -> None:
    path = tmp_path / "docs.jsonl"
    path.write_text('{"text": "the cat sat on the mat"}\n')
    corpus = FileCorpus.open([str(path)])
    path.unlink()
    with pytest.raises(RunError) as raised:
        corpus.require_unchanged(0)
    assert "cannot read" in str(raised.value)
    assert "--resume" not in str(raised.value)


@pytest.mark.parametrize(
    ("out_name", "folder", "is_resumable"),
    [
        ("out", "out.partial", True),
        ("kept.jsonl", "kept.jsonl.run.partial", True),
        ("out", "other.partial", False),
    ],
)
def test_failed_command_advises_to_resume_only_if_a_run_can_be_resumed(
    out_name: str, folder: str, is_resumable: bool, tmp_path: Path
) -> None:
    out = tmp_path / out_name
    (tmp_path / folder).mkdir()
    (tmp_path / folder / "manifest.json").write_text('{"stages": {"sketch": {}}}')

    def fail(out: Path, resume: bool = False) -> None:
        raise RunError("cannot read docs.jsonl: gone; restore it, then run again")

    with pytest.raises(RunError) as raised:
        with_clean_ending(fail)(out=out)
    assert ("--resume" in str(raised.value)) == is_resumable


def test_sketch_over_an_unreachable_url_does_not_advise_to_resume(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("aiohttp")
    url = f"http://127.0.0.1:{free_port()}/docs.jsonl"
    assert app.run(["lab", "sketch", url, "--out", str(tmp_path / "s.arrow")]) in (1, 2)
    printed = capfd.readouterr().err
    assert "--resume" not in printed
    assert printed.count("\n") == 1
