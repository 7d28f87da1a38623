"""Defaults of options in `nearkin.toml` and `pyproject.toml`."""

import json
import os
import stat
from pathlib import Path

import pytest

from nearkin.cli import app
from nearkin.cli.config_file import ConfigFile
from nearkin.errors import UsageError
from nearkin.settings.presets import Preset
from tests.cli.conftest import run


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository, with its folder `project/deep` as the working folder."""
    (tmp_path / ".git").mkdir()
    deep = tmp_path / "project" / "deep"
    deep.mkdir(parents=True)
    monkeypatch.chdir(deep)
    return tmp_path


def threshold_of(out: Path) -> float:
    return float(json.loads((out / "run.json").read_bytes())["parameters"]["threshold"])


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("nearkin.toml", "[dedup]\nthreshold = 0.6\nid = 'id'"),
        ("pyproject.toml", "[tool.nearkin.dedup]\nthreshold = 0.6\nid = 'id'\n[tool.other]\na = 1"),
    ],
)
def test_defaults_of_the_repository_hold_in_its_folders(
    name: str, content: str, project: Path, documents: Path
) -> None:
    (project / name).write_text(content)
    assert run("dedup", documents, "--out", project / "out", "--quiet") == app.DONE
    assert threshold_of(project / "out") == 0.6
    rows = (project / "out/kept/documents.jsonl").read_text().splitlines()
    assert json.loads(rows[0])["id"].startswith("d")


def test_command_line_and_settings_file_win_over_defaults(project: Path, documents: Path) -> None:
    (project / "nearkin.toml").write_text("[dedup]\nthreshold = 0.6")
    settings = project / "settings.toml"
    settings.write_text("threshold = 0.7")
    line = ("dedup", documents, "--quiet", "--out")
    assert run(*line, project / "a", "--settings", settings) == app.DONE
    assert run(*line, project / "b", "--settings", settings, "--threshold", 0.9) == app.DONE
    assert run("--no-config", *line, project / "c") == app.DONE
    assert [threshold_of(project / name) for name in "abc"] == [0.7, 0.9, 0.8]


def test_settings_file_can_be_a_default_that_a_given_preset_replaces(
    project: Path, documents: Path
) -> None:
    (project / "settings.toml").write_text("threshold = 0.65")
    (project / "nearkin.toml").write_text("[dedup]\nsettings = 'settings.toml'")
    line = ("dedup", documents, "--quiet", "--out")
    assert run(*line, project / "a") == app.DONE
    assert run(*line, project / "b", "--preset", "logs") == app.DONE
    preset = Preset.read("logs").values["threshold"]
    assert [threshold_of(project / name) for name in "ab"] == [0.65, preset]


def test_environment_wins_over_defaults(
    project: Path, documents: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (project / "nearkin.toml").write_text("[dedup]\nreadable-by = 'everyone'")
    line = ("dedup", documents, "--quiet", "--out")
    assert run(*line, project / "a") == app.DONE
    monkeypatch.setenv("NEARKIN_READABLE_BY", "owner")
    assert run(*line, project / "b") == app.DONE
    assert [(project / name).stat().st_mode & 0o777 for name in "ab"] == [0o755, 0o700]


@pytest.mark.parametrize(
    ("content", "options"),
    [
        ("threshold = 0.6", ["--measure", "simhash", "--distance", 3]),
        ("threshold = 0.6", ["--accept", "jaccard >= 0.9"]),
        ("codec = 'zstd'", ["--output", "ids"]),
    ],
)
def test_defaults_that_contradict_given_options_are_left_out(
    content: str,
    options: list[object],
    project: Path,
    documents: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    (project / "nearkin.toml").write_text(f"[dedup]\n{content}")
    code = run("dedup", documents, "--out", project / "out", "--quiet", *options)
    assert code == app.DONE, capsys.readouterr().err


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("[dedup]\ntreshold = 0.6", "'treshold' is not an option of nearkin dedup; did you mean"),
        ("[dedup]\nthreshold = 'high'", "[dedup]: threshold='high' is of type str; give a number"),
        ("[dedup]\nthreshold = 2.0", "it must be above 0 and at most 1 (threshold is set by"),
        ("[dedup]\nout = 'x'", "'out' belongs to one run"),
        ("[dedup]\nkeep-up-to = 1\nkeep_up_to = 1", "is given twice"),
        ('[dedup]\nkey-file = "\\u0000"', "has a null character"),
        ("[dedpu]\nthreshold = 0.6", "'dedpu' is not a command; did you mean 'dedup'?"),
        ("threshold = 0.6", "write it into the table of a command"),
        ("dedup = 1", "'dedup' is a value; write a table of options"),
        ("[dedup", "is not a TOML file"),
        ("[dedup]\nvector = 'v'\nshingle = 'words:2'", "exclude each other"),
    ],
)
def test_invalid_defaults_are_refused_before_anything_is_written(
    content: str,
    message: str,
    project: Path,
    documents: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    (project / "nearkin.toml").write_text(content)
    assert run("dedup", documents, "--out", project / "out") == app.USAGE
    error = " ".join(capsys.readouterr().err.split())
    assert message in error
    assert str(project / "nearkin.toml") in error
    assert not (project / "out").exists()


def test_paths_are_relative_to_the_folder_of_the_file(project: Path) -> None:
    (project / "nearkin.toml").write_text("[dedup]\nagainst = ['old/', 's3://bucket/old/']")
    config = ConfigFile.find(Path.cwd())
    assert config is not None
    against = config.defaults_of(_command("dedup"), "dedup")["against"]
    assert against == [str(project / "old"), "s3://bucket/old/"]


def test_environment_variables_and_settings_are_not_paths(project: Path) -> None:
    (project / "nearkin.toml").write_text(
        "[dedup]\nkey-file = 'env:KEY'\n[shadow]\nagainst = 'b=16,r=8'"
    )
    config = ConfigFile.find(Path.cwd())
    assert config is not None
    assert config.defaults_of(_command("dedup"), "dedup") == {"key_file": "env:KEY"}
    assert config.defaults_of(_command("shadow"), "shadow") == {"against": "b=16,r=8"}


def test_file_of_another_user_above_the_working_folder_is_refused(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = project / "nearkin.toml"
    path.write_text("[dedup]\nthreshold = 0.6")
    lstat = Path.lstat

    def lstat_of_stranger(self: Path) -> os.stat_result:
        status = list(lstat(self))
        status[stat.ST_UID] = 4711
        return os.stat_result(status)

    monkeypatch.setattr(Path, "lstat", lstat_of_stranger)
    with pytest.raises(UsageError, match=r"nearkin\.toml belongs to another user \(4711\)"):
        ConfigFile.find(Path.cwd())
    # Whoever works in the folder itself can see the file.
    config = ConfigFile.find(project)
    assert config is not None


def test_named_pipe_is_refused(project: Path) -> None:
    os.mkfifo(project / "nearkin.toml")
    with pytest.raises(UsageError, match="is not a regular file"):
        ConfigFile.find(Path.cwd())


def test_json_of_a_file_is_not_mixed_with_rows(
    project: Path, documents: Path, capsysbinary: pytest.CaptureFixture[bytes]
) -> None:
    (project / "nearkin.toml").write_text("[dedup]\njson = true")
    assert run("dedup", documents, "--out", "-") == app.DONE
    rows = capsysbinary.readouterr().out.splitlines()
    assert rows
    assert all("text" in json.loads(row) for row in rows)


def test_file_above_the_working_folder_counts_only_inside_a_repository(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    (tmp_path / "nearkin.toml").write_text("[dedup]\nthreshold = 0.6")
    assert ConfigFile.find(folder) is None
    (tmp_path / ".git").write_text("gitdir: elsewhere")
    config = ConfigFile.find(folder)
    assert config is not None
    assert config.path == tmp_path / "nearkin.toml"


def test_settings_of_a_server_are_not_defaults_of_commands(project: Path) -> None:
    (project / "nearkin.toml").write_text("port = 8080\n[index]\nthreshold = '0.8'")
    assert ConfigFile.find(Path.cwd()) is None


def _command(name: str) -> object:
    from typer.main import get_command

    root = get_command(app.app)
    return root.commands[name]  # type: ignore[attr-defined]
