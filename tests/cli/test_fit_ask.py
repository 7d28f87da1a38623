"""The command `nearkin fit --ask`: questions through a pipe, and the page of a fit."""

import csv
import io
import json
import subprocess
import sys
from pathlib import Path

import pytest

from nearkin.engine.settings_file import Settings
from nearkin.quality.evaluate.golden import read_golden_set
from tests.cli.conftest import run
from tests.cli.test_fit import write_labels, write_table
from tests.quality.fit.corpora import records

CORPUS = records([2] * 12 + [1] * 20)


@pytest.fixture
def line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    write_table(tmp_path / "people.csv", CORPUS.table)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")
    return ["fit", "people.csv", "--id", "id", "-q"]


def type_lines(monkeypatch: pytest.MonkeyPatch, *lines: str) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO("".join(f"{line}\n" for line in lines)))


def read_rows(path: Path) -> list[list[str]]:
    with path.open(newline="") as file:
        return list(csv.reader(file))[1:]


class TruthfulUser(io.StringIO):
    """A user who reads the ids of the last question, and knows the true clusters."""

    def __init__(self, capsys: pytest.CaptureFixture[str]) -> None:
        super().__init__()
        self.capsys = capsys
        self.shown = ""

    def readline(self, size: int | None = -1, /) -> str:
        question = self.capsys.readouterr().out
        self.shown += question
        heading = question.rpartition("first ")[2].splitlines()[1]
        first, second = (CORPUS.clusters[id] for id in heading.split())
        return "y\n" if first == second else "n\n"


def test_answers_of_a_user_choose_settings(
    line: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    user = TruthfulUser(capsys)
    monkeypatch.setattr("sys.stdin", user)
    assert run(*line, "--ask", "30", "--out", "settings.toml") == 0
    shown = user.shown + capsys.readouterr().out
    assert "30 answers: " in shown
    assert "definitions may be the best" in shown
    assert "«" in shown
    command = shown.splitlines()[-1]
    assert command.startswith("nearkin dedup people.csv --id id --settings settings.toml")
    assert max(map(len, shown.splitlines()[:-1])) <= 80
    assert len(read_rows(Path("labels.csv"))) == 30
    golden = read_golden_set(Path("labels.csv"))
    assert golden.duplicates is not None
    assert len(golden.duplicates) >= 5
    assert Settings.read(Path("settings.toml")).values["cluster"] == "leaders"
    assert (
        run("dedup", "people.csv", "--id", "id", "--settings", "settings.toml", "--out", "d") == 0
    )
    counts = json.loads(Path("d/run.json").read_text())["counts"]
    assert abs(counts["kept"] - 32) <= 2


def test_a_second_run_continues_with_the_answers(
    line: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    type_lines(monkeypatch, "y", "n", "stop")
    assert run(*line, "--ask", "4", "--labels", "mine.csv", "--json") == 0
    printed = capsys.readouterr()
    assert json.loads(printed.out)["answers"] == {"duplicates": 1, "distinct": 1}
    assert "Pair 3 of 4" in printed.err
    before = read_rows(Path("mine.csv"))
    type_lines(monkeypatch, "n", "n", "y")
    assert run(*line, "--ask", "4", "--labels", "mine.csv") == 0
    shown = capsys.readouterr().out
    assert "Pair 3 of 4" in shown
    assert "Pair 1 of 4" not in shown
    rows = read_rows(Path("mine.csv"))
    assert rows[:2] == before
    assert len({tuple(row[:2]) for row in rows}) == len(rows) == 4


def test_skipped_and_undone_answers_are_not_kept(
    line: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    type_lines(monkeypatch, "undo", "y", "what", "skip", "y", "u", "n", "q")
    assert run(*line, "--ask", "5") == 0
    shown = capsys.readouterr().out
    assert "There is nothing to undo." in shown
    assert "Type y if both are the same" in shown
    assert [row[2] for row in read_rows(Path("labels.csv"))] == ["1", "0"]


def test_answers_of_one_kind_are_an_error_and_are_kept(
    line: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    type_lines(monkeypatch, "n", "n")
    assert run(*line, "--ask", "5", "--out", "settings.toml") == 2
    assert "0 pairs are labelled as duplicates and 2 as distinct" in capsys.readouterr().err
    assert len(read_rows(Path("labels.csv"))) == 2
    assert not Path("settings.toml").exists()


def test_an_interrupt_keeps_the_answers(line: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    replies = iter(["y\n", "n\n"])

    class Interrupted(io.StringIO):
        def readline(self, size: int | None = -1, /) -> str:
            reply = next(replies, None)
            if reply is None:
                raise KeyboardInterrupt
            return reply

    monkeypatch.setattr("sys.stdin", Interrupted())
    assert run(*line, "--ask", "5") == 130
    assert [row[2] for row in read_rows(Path("labels.csv"))] == ["1", "0"]


def test_a_program_that_reads_lines_can_answer(line: list[str]) -> None:
    """Each question ends with a line break before the answer is read from a pipe."""
    command = [sys.executable, "-m", "nearkin", *line, "--ask", "3"]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        replies = iter(["y\n", "n\n", "n\n"])
        for shown in process.stdout:
            if shown.startswith("Same?"):
                process.stdin.write(next(replies))
        assert process.wait() == 0
    assert [row[2] for row in read_rows(Path("labels.csv"))] == ["1", "0", "0"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--ask", "0"], "--ask"),
        (["--ask", "5", "--page", "a.html"], "--page"),
        (["--ask", "5", "--labels", "people.csv"], "is an input; choose another --labels"),
        (["--ask", "5", "--tokens", "text"], "--ask shows texts"),
    ],
)
def test_options_that_do_not_suffice_or_contradict_are_refused(
    line: list[str], options: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    content = Path("people.csv").read_bytes()
    assert run(*line, *options) == 2
    assert message in " ".join(capsys.readouterr().err.split())
    assert Path("people.csv").read_bytes() == content
    assert not Path("labels.csv").exists()


def test_page_is_written_beside_the_settings(
    line: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    write_labels(Path("labels.csv"), CORPUS)
    labelled = [*line, "--labels", "labels.csv"]
    assert run(*labelled, "--page", "fit.html", "--out", "settings.toml") == 0
    page = Path("fit.html").read_text()
    assert "<polyline" in page
    assert "nearkin dedup people.csv --id id --settings settings.toml" in page
    assert run(*labelled, "--page", "people.csv") == 2
    assert run(*labelled, "--page", "settings.toml") == 2
    assert "settings.toml" in capsys.readouterr().err


def test_answers_are_not_kept_among_the_inputs(
    line: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    Path("folder").mkdir()
    Path("people.csv").rename("folder/people.csv")
    assert run("fit", "folder", "--id", "id", "--ask", "5", "--labels", "folder/labels.csv") == 2
    message = " ".join(capsys.readouterr().err.split())
    assert "it is inside the input folder folder" in message
    assert "--labels" in message
    assert not Path("folder/labels.csv").exists()
