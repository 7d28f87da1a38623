"""`--dry-run`: what a run would do, which is what it then does."""

import json
from pathlib import Path
from typing import Any

import pytest

from nearkin.cli import app
from tests.cli.conftest import run

OUTPUTS = {"dedup": "out", "pairs": "pairs.csv", "split": "sets"}


@pytest.fixture
def rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A file of 20 documents in a folder of its own, which is the working folder."""
    folder = tmp_path / "work"
    folder.mkdir()
    monkeypatch.chdir(folder)
    path = folder / "rows.jsonl"
    lines = [
        {"key": f"d{i}", "body": f"the council of town {i // 2} voted on a new bridge today"}
        for i in range(20)
    ]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


def dry_run(capsys: pytest.CaptureFixture[str], *arguments: object) -> dict[str, Any]:
    """Returns the facts that a dry run prints as JSON."""
    capsys.readouterr()
    assert run(*arguments, "--dry-run", "--json") == app.DONE
    facts: dict[str, Any] = json.loads(capsys.readouterr().out)
    return facts


def settings_of(facts: dict[str, Any]) -> dict[str, tuple[object, str]]:
    """Returns the values and the sources of the settings of a dry run, by name."""
    return {one["name"]: (one["value"], one["source"]) for one in facts["settings"]}


def test_dry_run_predicts_what_the_run_reads_and_its_settings(
    rows: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    line = ("dedup", rows, "--id", "key", "--text", "body", "--threshold", "0.6", "--out", "out")
    facts = dry_run(capsys, *line, "--source", "key")
    assert [path.name for path in rows.parent.iterdir()] == [rows.name]
    assert run(*line, "--source", "key", "--quiet") == app.DONE
    record = json.loads(Path("out/run.json").read_text())
    assert facts["files"] == len(record["inputs"])
    assert facts["rows"] == record["counts"]["read"]
    assert facts["bytes"] == rows.stat().st_size
    assert facts["columns"] == {"id": "key", "content": "body", "others": ["key"]}
    settings = settings_of(facts)
    assert settings["threshold"] == (record["parameters"]["threshold"], "given")
    assert settings["source"] == ("key", "given")
    assert settings["recall"] == (record["parameters"]["recall"], "default")
    assert settings["measure"][0] == record["spec"]["measure"]
    assert facts["expected"].keys() == {"seconds", "memory", "disk"}


def test_settings_have_the_sources_of_their_values(
    rows: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("nearkin.toml").write_text('[dedup]\nkeep = "key"\n')
    Path("fitted.toml").write_text('shingle = "chars:4"\nthreshold = 0.75\n')
    line = ("dedup", rows, "--text", "body", "--out", "out", "--recall", "0.9")
    settings = settings_of(dry_run(capsys, *line, "--settings", "fitted.toml"))
    assert settings["keep"] == ("key", str(Path.cwd() / "nearkin.toml"))
    assert settings["shingle"] == ("chars:4", "fitted.toml")
    assert settings["recall"] == (0.9, "given")
    assert settings_of(dry_run(capsys, *line, "--preset", "web"))["shingle"][1] == "preset web"


@pytest.mark.parametrize("measure", ["jaccard", "idf-jaccard"])
@pytest.mark.parametrize("command", OUTPUTS)
def test_dry_run_writes_nothing_and_prints_lines(
    command: str, measure: str, rows: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    groups = ("--groups", "0.5,0.5") if command == "split" else ()
    line = (command, rows, "--text", "body", "--measure", measure, "--out", OUTPUTS[command])
    assert run(*line, *groups, "--dry-run") == app.DONE
    printed = capsys.readouterr()
    assert printed.out == ""
    assert "would read 1 file, 1.5" in printed.err
    assert "about 20 rows" in printed.err
    assert f"--measure {measure}  (given)" in printed.err
    assert [path.name for path in rows.parent.iterdir()] == [rows.name]


def test_dry_run_of_a_check_reads_both_inputs(
    rows: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    other = rows.with_name("other.jsonl")
    other.write_bytes(rows.read_bytes())
    facts = dry_run(capsys, "check", rows, other, "--text", "body")
    assert (facts["files"], facts["rows"]) == (2, 40)
    assert settings_of(facts)["recall"] == (0.99, "default")


def test_dry_run_of_a_saved_run_names_it(rows: Path, capsys: pytest.CaptureFixture[str]) -> None:
    line = ("dedup", rows, "--text", "body", "--out", "saved", "--save-signatures", "--quiet")
    assert run(*line) == app.DONE
    assert run("dedup", "saved", "--threshold", "0.9", "--out", "out", "--dry-run") == app.DONE
    assert "would read the signatures of a saved run" in capsys.readouterr().err
    assert not Path("out").exists()


def test_standard_input_has_no_dry_run(rows: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("dedup", "-", "--out", "out", "--dry-run") == app.USAGE
    assert "--dry-run has no effect with -, because" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--text", "text", "--out", "out"), "no column 'text'"),
        (("--text", "body", "--out", "rows.jsonl"), "rows.jsonl"),
        (("--text", "body", "--bands", "4", "--out", "out"), "bands and rows go together"),
    ],
)
def test_dry_run_has_the_refusal_of_the_run(
    options: tuple[str, ...], message: str, rows: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    codes = []
    messages = []
    for more in ((), ("--dry-run",)):
        codes.append(run("dedup", rows, *options, *more))
        messages.append(capsys.readouterr().err)
    assert codes == [app.USAGE, app.USAGE]
    assert messages[0] == messages[1]
    assert message in messages[0]
