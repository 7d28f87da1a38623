"""Users who may read what commands and the library write."""

import os
from pathlib import Path

import pytest

import nearkin as nk
from nearkin.cli import app
from nearkin.corpus import Columns
from nearkin.engine.options import RunOptions
from nearkin.runs.dedup import run_dedup
from nearkin.runs.job import Job
from nearkin.runtime.progress import Silent
from tests.cli.conftest import modes, run

pytestmark = pytest.mark.usefixtures("shared_umask")


def test_only_the_owner_can_read_outputs(documents: Path, tmp_path: Path) -> None:
    out = tmp_path / "new" / "out"
    assert run("dedup", documents, "--save-signatures", "--audit", "--out", out) == 0
    assert run("pairs", documents, "--out", tmp_path / "new" / "pairs.parquet") == 0
    assert run("lab", "sketch", documents, "--out", tmp_path / "new" / "s.arrow") == 0
    assert (
        run(
            "lab", "merge", tmp_path / "new" / "s.arrow", "--out", tmp_path / "new" / "merged.arrow"
        )
        == 0
    )
    permissions = modes(tmp_path / "new")
    assert str(out / "rejected.jsonl") in permissions
    assert {path: mode for path, mode in permissions.items() if mode & 0o077} == {}
    assert os.umask(0o022) == 0o022, "the umask of the process is unchanged"


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
    permissions = modes(tmp_path / "new")
    del permissions[str(tmp_path / "new")]
    permissions.pop(str(out / ".nearkin-output.json"), None)
    assert set(permissions.values()) == {file, folder}


def test_environment_variable_sets_readers(
    documents: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NEARKIN_READABLE_BY", "everyone")
    assert run("dedup", documents, "--out", tmp_path / "out") == 0
    assert modes(tmp_path / "out")[str(tmp_path / "out" / "kept")] == 0o755


def test_unknown_readers_are_rejected(
    documents: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert run("dedup", documents, "--out", tmp_path / "out", "--readable-by", "world") == app.USAGE
    assert "is not one of owner, group, everyone" in capsys.readouterr().err
    monkeypatch.setenv("NEARKIN_READABLE_BY", "world")
    assert run("info", tmp_path) == app.USAGE
    assert not (tmp_path / "out").exists()


def test_only_the_owner_can_read_work_files_of_the_library(documents: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    recorded: list[int] = []

    class RecordingProgress(Silent):
        def stage(self, name: str, total: int | None = None) -> None:
            recorded.append(modes(tmp_path)[f"{out}.partial"])

    run_dedup(Job((str(documents),), out, Columns(), RunOptions(workers=1)), RecordingProgress())
    assert len(recorded) > 2
    assert set(recorded) == {0o700}
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
