"""Outputs inside the work folder of a run: every command refuses them before it writes anything."""

from pathlib import Path

import pyarrow as pa
import pytest
from typer.testing import CliRunner

import nearkin as nk
from nearkin.cli.app import app
from nearkin.errors import UsageError
from nearkin.index.backup import backup
from nearkin.index.index import Index
from nearkin.runtime.outputs import MANIFEST, Claim

COMMANDS = {
    "dedup": "dedup rows.csv --text text",
    "dedup over Spark": "dedup rows.csv --text text --executor spark",
    "pairs": "pairs rows.csv --text text",
    "sketch": "lab sketch rows.csv --text text",
    "merge": "lab merge rows.nkin",
    "synth": "lab synth --documents 10",
    "demo": "demo",
    "index export": "index export --store sqlite:///index.db",
    "index backup": "index backup --store sqlite:///index.db",
    "plan": "plan --docs 1000",
}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with an input, an index, and the work folder of a run that is under way or was
    killed."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "rows.csv").write_text("id,text\n1,one two three\n2,one two three\n")
    with Index.open("sqlite:///index.db") as index:
        index.upsert("a", "one two three")
    return tmp_path


def state(folder: Path) -> set[str]:
    return {path.relative_to(folder).as_posix() for path in folder.rglob("*")}


@pytest.mark.parametrize("under_way", [True, False], ids=["under way", "resumable"])
@pytest.mark.parametrize("name", COMMANDS)
def test_no_command_writes_into_the_work_folder_of_a_run(
    folder: Path, name: str, under_way: bool
) -> None:
    claim = Claim.take(folder / "run", "nearkin dedup")
    (claim.path / MANIFEST).write_text("{}")
    if not under_way:
        claim.release()
    before = state(folder)
    for out in ("run.partial/x", "run.partial/deep/x", "link/x"):
        if out.startswith("link"):
            (folder / "link").symlink_to("run.partial")
            before = state(folder)
        ended = CliRunner().invoke(app, [*COMMANDS[name].split(), "--out", out])
        assert isinstance(ended.exception, UsageError), (out, ended.output, ended.exception)
        assert "the work folder of a run" in str(ended.exception)
        assert state(folder) == before
    claim.release()


def test_the_library_writes_nothing_into_the_work_folder_of_a_run(folder: Path) -> None:
    claim = Claim.take(folder / "run", "nearkin dedup")
    before = state(folder)
    result = nk.dedup(pa.table({"text": ["one two three", "one two three"]}), text="text")
    with pytest.raises(UsageError, match="the work folder of a run"):
        result.write(claim.path / "x")
    with pytest.raises(UsageError, match="the work folder of a run"):
        backup("sqlite:///index.db", claim.path / "x")
    with pytest.raises(UsageError, match="the work folder of a run"):
        Index.open(f"sqlite:///{claim.path / 'x.db'}")
    with (
        Index.open("sqlite:///index.db") as index,
        pytest.raises(UsageError, match="the work folder of a run"),
    ):
        index.export(claim.path / "x")
    assert {path for path in state(folder) if "index.db" not in path} == {
        path for path in before if "index.db" not in path
    }
    claim.release()
