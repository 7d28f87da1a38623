"""The option `--settings` of `nearkin dedup` and `nearkin pairs`."""

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from nearkin.cli import app

TEXTS = ["the cat sat on the mat", "the cat sat on a mat", "a dog lay on a rug"]


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    path = tmp_path / "corpus.parquet"
    pq.write_table(pa.table({"text": TEXTS}), path)
    return path


@pytest.fixture
def settings(tmp_path: Path) -> Path:
    path = tmp_path / "settings.toml"
    path.write_text(
        'shingle = "words:1"\nnormalise = ["nfkc", "lower", "digits"]\nthreshold = 0.7\n'
        'cluster = "leaders"\n'
    )
    return path


def test_dedup_records_the_settings_of_a_file(corpus: Path, settings: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    assert app.run(["dedup", str(corpus), "--settings", str(settings), "--out", str(out)]) == 0
    record = json.loads((out / "run.json").read_text())
    assert record["parameters"]["threshold"] == 0.7
    assert record["spec"]["normalise"] == ["nfkc", "lower", "digits"]
    assert record["counts"]["kept"] == 2


def test_given_options_win_over_the_file(corpus: Path, settings: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    arguments = ["dedup", str(corpus), "--settings", str(settings), "--out", str(out)]
    assert app.run([*arguments, "--threshold", "0.9", "--shingle", "words:2"]) == 0
    record = json.loads((out / "run.json").read_text())
    assert (record["parameters"]["threshold"], record["spec"]["n"]) == (0.9, 2)


def test_pairs_take_the_settings_and_ignore_those_of_clusters(
    corpus: Path, settings: Path, tmp_path: Path
) -> None:
    out = tmp_path / "pairs.parquet"
    assert app.run(["pairs", str(corpus), "--settings", str(settings), "--out", str(out)]) == 0
    assert pq.read_table(out).num_rows == 1


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--floor", "0.5"], "(cluster is set by"),
        (["--vector", "text"], "(shingle is set by"),
        (["--distance", "70", "--measure", "simhash"], "distance 70 is out of range"),
        (["--out", "settings.toml"], "settings.toml"),
    ],
)
def test_options_that_contradict_the_file_are_refused(
    corpus: Path,
    settings: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    options: list[str],
    message: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    arguments = ["dedup", str(corpus), "--settings", str(settings), "--out", "out", *options]
    assert app.run(arguments) == app.USAGE
    assert message in " ".join(capsys.readouterr().err.split())
    assert not (tmp_path / "out").exists()
    assert "threshold = 0.7" in settings.read_text()


def test_invalid_file_is_refused_before_anything_is_written(
    corpus: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "wrong.toml"
    path.write_text("tresh = 0.7")
    out = tmp_path / "out"
    arguments = ["--settings", str(path), "--out", str(out)]
    assert app.run(["dedup", str(corpus), *arguments]) == app.USAGE
    assert "wrong.toml: unknown setting 'tresh'" in " ".join(capsys.readouterr().err.split())
    assert not out.exists()


def test_settings_that_contradict_a_saved_run_are_refused(
    corpus: Path, settings: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    saved = tmp_path / "saved"
    assert app.run(["dedup", str(corpus), "--save-signatures", "--out", str(saved)]) == 0
    arguments = ["--settings", str(settings), "--out", str(tmp_path / "again")]
    assert app.run(["dedup", str(saved), *arguments]) == app.USAGE
    assert "contradicts the saved run" in " ".join(capsys.readouterr().err.split())
