"""The selection of files of input folders, in the commands that read files beside dedup."""

import json
from pathlib import Path

import pytest

from tests.cli.conftest import run

PAIR = "the quick brown fox jumps over the lazy dog near the old river bank"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with two documents in a JSON file, three in a CSV file, and labels beside it."""
    documents = tmp_path / "in"
    documents.mkdir()
    rows = [{"id": f"j{i}", "text": f"{PAIR} {i}"} for i in range(2)]
    (documents / "a.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    lines = ["id;text", *(f"c{i};{PAIR} {i}" for i in range(3))]
    (documents / "b.csv").write_text("\n".join(lines) + "\n")
    (tmp_path / "labels.csv").write_text("id_a,id_b,label\nj0,j1,1\n")
    return documents


@pytest.mark.parametrize(("option", "documents"), [("--include", 2), ("--exclude", 3)])
@pytest.mark.parametrize("is_added", [False, True], ids=["build", "add"])
def test_index_reads_the_files_that_the_patterns_select(
    option: str,
    documents: int,
    is_added: bool,
    folder: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    store = f"sqlite:///{tmp_path / 'kin.db'}"
    if is_added:
        empty = tmp_path / "empty.jsonl"
        empty.write_text("")
        assert run("index", "build", empty, "--id", "id", "--store", store) == 0
        capsys.readouterr()
    command = "add" if is_added else "build"
    line = ["index", command, folder, "--id", "id", "--store", store, option, "*.jsonl"]
    assert run(*line, "--json") == 0
    assert json.loads(capsys.readouterr().out)["documents"] == documents


def test_index_add_reads_csv_files_as_the_options_say(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    store = f"sqlite:///{tmp_path / 'kin.db'}"
    assert run("index", "build", folder / "a.jsonl", "--id", "id", "--store", store) == 0
    line = ["index", "add", folder / "b.csv", "--id", "id", "--store", store]
    assert run(*line, "--delimiter", "comma") == 2
    assert "'text'" in capsys.readouterr().err
    assert run(*line, "--delimiter", "semicolon") == 0


@pytest.mark.parametrize(("option", "documents"), [("--include", 2), ("--exclude", 3)])
def test_tune_reads_the_files_that_the_patterns_select(
    option: str, documents: int, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("tune", folder, option, "*.jsonl", "--json") == 0
    assert json.loads(capsys.readouterr().out)["documents"] == documents


def test_eval_reads_the_files_that_the_patterns_select(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    labels = tmp_path / "labels.csv"
    line = ["eval", folder, "--id", "id", "--golden", labels, "--grid", "threshold=0.5"]
    assert run(*line, "--include", "*.jsonl") == 0
    assert "recall  1.000" in capsys.readouterr().out
    assert run(*line, "--exclude", "*.jsonl") == 2
    assert "2 of 2 labelled documents are not in the inputs" in capsys.readouterr().err


def test_eval_reads_csv_files_as_the_options_say(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    labels = tmp_path / "labels.csv"
    labels.write_text("id_a,id_b,label\nc0,c1,1\n")
    line = ["eval", folder / "b.csv", "--id", "id", "--golden", labels, "--grid", "threshold=0.5"]
    assert run(*line, "--delimiter", "comma") == 2
    assert "no column 'text'" in capsys.readouterr().err
    assert run(*line, "--delimiter", "semicolon") == 0
