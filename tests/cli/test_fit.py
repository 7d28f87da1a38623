"""The command `nearkin fit`."""

import csv
import json
import shlex
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from nearkin.cli import app
from nearkin.engine.settings_file import Settings
from nearkin.runtime.outputs import GENERATOR
from tests.cli.conftest import run
from tests.quality.fit.corpora import LabelledCorpus, records

CORPUS = records([2] * 8 + [1] * 6)


def write_table(path: Path, columns: dict[str, list[str]]) -> Path:
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(columns)
        writer.writerows(zip(*columns.values(), strict=True))
    return path


def write_labels(path: Path, corpus: LabelledCorpus) -> Path:
    clusters = {"id": list(corpus.clusters), "cluster": list(corpus.clusters.values())}
    return write_table(path, clusters)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("fit")
    table = {"id": list(CORPUS.texts), "body": list(CORPUS.texts.values())}
    write_table(folder / "people.csv", table)
    write_labels(folder / "labels.csv", CORPUS)
    return folder


@pytest.fixture
def line(folder: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    monkeypatch.chdir(folder)
    monkeypatch.setenv("COLUMNS", "80")
    return ["fit", "people.csv", "--id", "id", "--text", "body", "--labels", "labels.csv", "-q"]


def test_printed_command_removes_the_duplicates(
    line: list[str], folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(*line, "--out", "settings.toml") == 0
    printed = capsys.readouterr()
    assert max(map(len, printed.out.splitlines()[:-1])) <= 80
    assert "22 labelled documents: 8 pairs of duplicates in 14 clusters" in printed.out
    assert "Expected on other documents" in printed.out
    assert "only 8 groups of documents have labelled duplicates" in printed.err
    command = printed.out.splitlines()[-1]
    expected = "nearkin dedup people.csv --text body --id id --settings settings.toml"
    assert command == f"{expected} --out deduped/"
    assert run(*shlex.split(command)[1:]) == 0
    record = json.loads((folder / "deduped" / "run.json").read_text())
    settings = Settings.read(folder / "settings.toml").values
    assert record["parameters"]["threshold"] == settings["threshold"]
    assert record["counts"]["kept"] == 14


def test_printed_command_compares_different_sources(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(folder)
    shops = ["ab"[int(id.partition("-")[2])] for id in CORPUS.texts]
    table = {"id": list(CORPUS.texts), "body": list(CORPUS.texts.values()), "shop": shops}
    write_table(folder / "products.csv", table)
    line = ["fit", "products.csv", "--id", "id", "--text", "body", "--labels", "labels.csv", "-q"]
    assert run(*line, "--across", "shop", "--out", "linked.toml", "--json") == 0
    fitted = json.loads(capsys.readouterr().out)
    assert fitted["settings"]["across"] == "shop"
    assert fitted["labels"]["duplicates_of_one_source"] == 0
    assert Settings.read(folder / "linked.toml").values["across"] == "shop"
    assert run(*line, "--across", "shop", "--out", "linked.toml") == 0
    command = capsys.readouterr().out.splitlines()[-1]
    assert "--settings linked.toml --across shop --out" in command
    assert run(*shlex.split(command)[1:], "--overwrite") == 0
    assert run("eval", "deduped/", "--golden", "labels.csv", "--json") == 0
    (scores,) = json.loads(capsys.readouterr().out)["results"]
    expected = fitted["choices"][0]
    for name in ("precision", "recall", "f1"):
        assert scores[name]["value"] == expected[name]["value"]
    without_file = shlex.split(command.replace("--settings linked.toml --across shop", ""))
    assert run(*without_file[1:], "--settings", "linked.toml", "--overwrite") == 0
    record = json.loads((folder / "deduped" / "run.json").read_text())
    assert record["parameters"]["across"] == "shop"


def test_command_without_a_settings_file_has_the_settings_as_options(
    line: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(*line, "--include", "*.csv", "--exclude", "*.bak", "--exclude", "a", "--hidden") == 0
    command = capsys.readouterr().out.splitlines()[-1]
    assert "--hidden --include '*.csv' --exclude '*.bak' --exclude a --shingle" in command
    assert "--normalise nfkc,lower" in command
    assert run(*shlex.split(command)[1:], "--overwrite") == 0


def test_json_has_scores_and_no_texts(line: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert run(*line, "--json") == 0
    text = capsys.readouterr().out
    printed = json.loads(text)
    assert printed["settings"] == printed["choices"][0]["settings"]
    assert printed["labels"]["duplicates"] == 8
    assert not [one for one in CORPUS.texts.values() if one[:15] in text]


def test_wrong_pairs_are_shown_side_by_side_without_control_characters(
    folder: Path, line: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    texts = {**CORPUS.texts, "evil": "blue\x1b[2J sky", "other": "green grass"}
    clusters = {**CORPUS.clusters, "evil": "z", "other": "z"}
    table = {"id": list(texts), "body": list(texts.values())}
    write_table(folder / "hostile.csv", table)
    write_labels(folder / "hostile-labels.csv", LabelledCorpus(texts, clusters))
    line[1] = "hostile.csv"
    line[line.index("labels.csv")] = "hostile-labels.csv"
    assert run(*line) == 0
    out = capsys.readouterr().out
    assert "1 pair of duplicates is not found, for example" in out
    assert "blue␛[2J sky" in out
    assert "green grass" in out
    assert "\x1b" not in out


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--objective", "f2"], "--objective f2 is not valid"),
        (["--labelled", "pairs"], "--labelled pairs is not one of"),
        (["--out", "labels.csv"], "labels.csv"),
        (["--out", "people.csv"], "people.csv"),
        (["--out", "absent/settings.toml"], "no such folder: absent"),
        (["--sample", "0"], "--sample 0 is out of range"),
        (["--labels", "absent.csv"], "no such file: absent.csv"),
        (["--text", "bdy"], "--text is given 2 times"),
        (["--across", "shop"], "no column 'shop'"),
    ],
)
def test_invalid_requests_are_refused(
    line: list[str], options: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(*line, *options) == app.USAGE
    assert message in " ".join(capsys.readouterr().err.split())


def test_misspelt_column_is_refused(line: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    line[line.index("body")] = "bdy"
    assert run(*line) == app.USAGE
    assert "did you mean 'body'" in capsys.readouterr().err


def test_only_settings_files_of_a_fit_are_replaced(
    line: list[str], folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    own = folder / "own.toml"
    own.write_text("threshold = 0.9\n")
    assert run(*line, "--out", own) == app.USAGE
    assert "not a settings file that nearkin wrote" in " ".join(capsys.readouterr().err.split())
    assert own.read_text() == "threshold = 0.9\n"
    own.write_text("# Chosen by nearkin fit 0.1.0\nthreshold = 0.9\n")
    assert run(*line, "--out", own) == 0
    assert "cluster = " in own.read_text()


def test_trial_of_labelled_pairs_is_told(
    line: list[str], folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pairs: dict[str, list[str]] = {"id_a": [], "id_b": [], "label": []}
    for number in range(8):
        for other, label in ((f"{number}-1", "1"), (f"{(number + 1) % 8}-0", "0")):
            pairs["id_a"].append(f"{number}-0")
            pairs["id_b"].append(other)
            pairs["label"].append(label)
    write_table(folder / "some-pairs.csv", pairs)
    line[line.index("labels.csv")] = "some-pairs.csv"
    assert run(*line) == 0
    printed = " ".join(capsys.readouterr().out.split())
    assert "and a trial over the inputs, with 95 % intervals" in printed
    assert "In the trial, " in printed
    assert "of 8 labelled duplicates are in one cluster" in printed


def test_options_of_clusters_are_refused_for_labelled_pairs(
    line: list[str], folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pairs = folder / "pairs.csv"
    pairs.write_text("id_a,id_b,label\n0-0,0-1,1\n1-0,1-1,1\n0-0,1-0,0\n")
    line[line.index("labels.csv")] = "pairs.csv"
    assert run(*line, "--labelled", "documents") == app.USAGE
    assert "has labelled pairs" in " ".join(capsys.readouterr().err.split())
    assert run(*line) == 0
    printed = " ".join(capsys.readouterr().out.split())
    assert "2 pairs of duplicates, 1 distinct pair; each pair is judged by itself" in printed


@pytest.mark.parametrize(
    ("option", "remedy"),
    [
        (["--across", "shop"], "asks about pairs of all sources; for pairs of different sources"),
        (["--page", "fit.html"], "answer them, then run nearkin fit --page with the file of"),
        (["--sample", "100"], "chooses its documents itself"),
    ],
)
def test_options_that_questions_do_not_follow_are_refused_with_what_to_do(
    line: list[str], option: list[str], remedy: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(*line, "--ask", "10", *option) == app.USAGE
    printed = " ".join(capsys.readouterr().err.split())
    assert f"{option[0]} has no effect with --ask" in printed
    assert remedy in printed


@pytest.mark.parametrize("stage", ["read samples", "fit"])
def test_killed_fit_leaves_earlier_files_and_nothing_half_written(
    stage: str, line: list[str], folder: Path
) -> None:
    """The process kills itself when a stage begins, which no handler can see."""
    earlier = {
        folder / "killed.toml": "# Chosen by nearkin fit 0.1.0\nthreshold = 0.9\n",
        folder / "killed.html": "",
    }
    page = f"<!doctype html>{GENERATOR.decode()}"
    earlier[folder / "killed.html"] = page
    for path, content in earlier.items():
        path.write_text(content)
    before = sorted(folder.iterdir())
    script = (
        "import os, signal, sys\n"
        "from nearkin.runtime import progress\n"
        "def stage(self, name, total, **others):\n"
        f"    if name == {stage!r}:\n"
        "        os.kill(os.getpid(), signal.SIGKILL)\n"
        "progress.Silent.stage = stage\n"
        "from nearkin.cli import options\n"
        "options.open_progress = lambda quiet: progress.Silent()\n"
        "from nearkin.cli.app import run\n"
        "sys.exit(run(sys.argv[1:]))\n"
    )
    outputs = ["--out", "killed.toml", "--page", "killed.html"]
    killed = subprocess.run(
        [sys.executable, "-c", script, *line, *outputs],
        cwd=folder,
        capture_output=True,
        timeout=300,
        check=False,
    )
    assert killed.returncode == -signal.SIGKILL, killed.stderr.decode()
    assert sorted(folder.iterdir()) == before
    assert {path: path.read_text() for path in earlier} == earlier


def test_chosen_columns_are_in_the_settings_and_the_command_names_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    notes = [f"{number % 3} note" for number in range(len(CORPUS.texts))]
    table = {"id": list(CORPUS.texts), "body": list(CORPUS.texts.values()), "note": notes}
    write_table(tmp_path / "people.csv", table)
    write_labels(tmp_path / "labels.csv", CORPUS)
    command = ["fit", "people.csv", "--id", "id", "--text", "note,body", "--labels", "labels.csv"]
    assert run(*command, "--out", "settings.toml", "-q") == 0
    text = Settings.read("settings.toml").values["text"]
    assert isinstance(text, list)
    assert "body" in text
    printed = shlex.split(capsys.readouterr().out.splitlines()[-1])
    assert "--text" not in printed
    assert run(*printed[1:], "-q") == 0
    recorded = json.loads((tmp_path / "deduped" / "run.json").read_text())["columns"]
    assert [recorded["text"], *recorded.get("joined", [])] == text


def test_columns_of_settings_that_have_a_comma_are_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "settings.toml").write_text('text = ["a,b", "c"]')
    write_table(tmp_path / "a.csv", {"a,b": ["x"], "c": ["y"]})
    settings = str(tmp_path / "settings.toml")
    assert run("dedup", str(tmp_path / "a.csv"), "--settings", settings, "-o", "x") == 2
    assert "a name with a comma would be two names" in " ".join(capsys.readouterr().err.split())
