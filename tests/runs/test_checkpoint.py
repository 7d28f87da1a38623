"""Tests of commands whose output has the work folder of an interrupted run."""

import json
from pathlib import Path

import pytest

from nearkin.cli.app import run
from nearkin.engine.work_folder import WorkFolder
from nearkin.errors import RunError
from nearkin.runtime.outputs import LOCK, Claim

COMMANDS = {
    "dedup": ("out", []),
    "kept": ("kept.jsonl", []),
    "pairs": ("out.parquet", []),
    "split": ("out", ["--groups", "0.5,0.5"]),
    "passages": ("out", []),
}


@pytest.fixture(params=COMMANDS)
def command(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[list[str], Path]:
    """A command, and the work folder of its run."""
    rows = [{"title": f"title {number}", "text": f"text {number} of some"} for number in range(40)]
    (tmp_path / "in.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    name, options = COMMANDS[request.param]
    out = tmp_path / name
    verb = "dedup" if request.param == "kept" else request.param
    work = tmp_path / f"{name}{'.run' if request.param == 'kept' else ''}.partial"
    return [verb, str(tmp_path / "in.jsonl"), "--out", str(out), *options], work


def test_a_run_that_completed_nothing_does_not_block_another_one(
    command: tuple[list[str], Path],
) -> None:
    arguments, work = command
    WorkFolder.create(work, {"command": "other"})
    (work / LOCK).touch()
    assert run([*arguments, "--text", "title"]) == 0
    assert not work.exists()


def test_work_of_other_settings_is_named_with_the_option_and_the_remedy(
    command: tuple[list[str], Path],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    arguments, work = command

    def fail(*values: object, **others: object) -> None:
        raise RunError("the disk is full")

    with monkeypatch.context() as patch:
        patch.setattr(Claim, "publish_folder", fail)
        patch.setattr(Claim, "publish_file", fail)
        assert run([*arguments, "--text", "title"]) == 1
    files = sorted(work.rglob("*"))
    capsys.readouterr()
    assert run([*arguments, "--text", "title"]) == 2
    assert "with these settings; continue it with --resume, or" in capsys.readouterr().err
    corrected = [*arguments, "--text", "title,text"]
    for options, remedy in (
        ([], "start again with --overwrite, or choose another --out"),
        (["--resume"], "start again with --overwrite instead of --resume, or"),
    ):
        assert run([*corrected, *options]) == 2
        message = capsys.readouterr().err
        assert "begun with --text title, and this run has --text title,text;" in message
        assert remedy in message
    assert sorted(work.rglob("*")) == files
    assert run([*corrected, "--overwrite"]) == 0
    assert not work.exists()
