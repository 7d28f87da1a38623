"""`nearkin config show`."""

import json
from pathlib import Path

import pytest

from nearkin.cli import app
from tests.cli.conftest import run


@pytest.fixture(autouse=True)
def in_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def test_show_prints_the_file_and_its_tables(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    content = '[dedup]\nthreshold = 0.6\nfield = ["title>=0.9"]\n\n[index.add]\nscope = "web"\n'
    (tmp_path / "nearkin.toml").write_text(content)
    assert run("config", "show") == app.DONE
    assert capsys.readouterr().out == f"# {tmp_path}/nearkin.toml\n\n{content}"
    assert run("config", "show", "--json") == app.DONE
    shown = json.loads(capsys.readouterr().out)
    assert shown["defaults"]["index add"] == {"scope": "web"}


def test_show_checks_the_tables_of_all_commands(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "nearkin.toml").write_text("[index.add]\nscopes = 'web'")
    assert run("config", "show") == app.USAGE
    assert "did you mean 'scope'?" in capsys.readouterr().err
    (tmp_path / "nearkin.toml").write_text("[index.ad]\nscope = 'web'")
    assert run("config", "show") == app.USAGE
    assert "'index.ad' is not a command" in capsys.readouterr().err


def test_show_says_where_it_looked(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("config", "show") == app.DONE
    assert str(tmp_path) in capsys.readouterr().out
    assert run("config", "show", "--json") == app.DONE
    assert json.loads(capsys.readouterr().out) == {"file": None, "searched": [str(tmp_path)]}
