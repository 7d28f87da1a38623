"""Tests of the review of a finished run: the queue, the terminal and the table."""

import io
import itertools
import json
import sys
from collections.abc import Iterator
from pathlib import Path

import pyarrow.csv
import pyarrow.parquet as pq
import pytest
from rich.console import Console

from nearkin.cli.app import run as run_command
from nearkin.corpus import Columns
from nearkin.engine.options import RunOptions
from nearkin.errors import UsageError
from nearkin.runs.dedup import run_dedup
from nearkin.runs.job import Job
from nearkin.runs.review_queue import ReviewQueue, collect_review_queue, write_review_table
from nearkin.runs.review_terminal import ReviewSession
from nearkin.runtime.progress import Silent
from nearkin.settings.decisions import Decision, Decisions, Verdict, read_decisions
from nearkin.settings.decisions.files import DecisionFile
from nearkin.settings.spec import Spec
from tests.corpus.formats.excel_files import read_cells, write_workbook

THRESHOLD = 0.5
WORDS = [f"word{number}" for number in range(20)]
TEXTS = {f"d{count:02}": " ".join(WORDS[count:]) for count in range(0, 15, 2)}
TEXTS["hostile\x1b[2J"] = TEXTS["d00"] + " end\x1b[31m of \u202eit"


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The output folder of a run with related pairs."""
    folder = tmp_path_factory.mktemp("review")
    rows = [{"id": id, "text": text} for id, text in TEXTS.items()]
    (folder / "in.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    options = RunOptions(spec=Spec(n=1), threshold=THRESHOLD, related=0.3)
    run_dedup(Job((str(folder / "in.jsonl"),), folder / "out", Columns(id="id"), options), Silent())
    return folder / "out"


def jaccard(a: str, b: str) -> float:
    first, second = (set(TEXTS[id].lower().split()) for id in (a, b))
    return len(first & second) / len(first | second)


def expected_pairs() -> list[tuple[str, str]]:
    """All pairs that are compared, the nearest to the threshold first."""
    plain = [id for id in TEXTS if id.startswith("d")]
    similar = [pair for pair in itertools.combinations(plain, 2) if jaccard(*pair) >= 0.3]
    return sorted(similar, key=lambda pair: (round(abs(jaccard(*pair) - THRESHOLD), 12), pair))


def test_queue_lists_the_pairs_nearest_to_the_threshold_of_both_tables(finished: Path) -> None:
    queue = collect_review_queue(finished, Decisions(), 1000)
    plain = [(pair.id_a, pair.id_b) for pair in queue.pairs if "hostile" not in pair.id_b]
    expected = expected_pairs()
    assert plain == expected
    assert min(jaccard(*pair) for pair in expected) < THRESHOLD
    assert len({(pair.id_a, pair.id_b) for pair in queue.pairs}) == len(queue.pairs)
    for pair in queue.pairs:
        assert (pair.text_a, pair.text_b) == (TEXTS[pair.id_a], TEXTS[pair.id_b])
    first = collect_review_queue(finished, Decisions(), 5)
    assert first.pairs == queue.pairs[:5]


def test_decided_pairs_are_not_in_the_queue(finished: Path) -> None:
    before = collect_review_queue(finished, Decisions(), 1000)
    chosen = before.pairs[::2]
    decisions = Decisions.resolve(
        [Decision(pair.id_b, pair.id_a, Verdict.DIFFERENT) for pair in chosen]
    )
    after = collect_review_queue(finished, decisions, 1000)
    assert after.pairs == before.pairs[1::2]
    assert after.decided == len(chosen)


def ask(queue: ReviewQueue, path: Path, keys: str, width: int = 80) -> tuple[int, str]:
    """Answers with some keys. Returns the number of decisions and what was printed."""
    pressed: Iterator[str] = iter(keys)
    output = io.StringIO()
    console = Console(file=output, width=width)
    file = DecisionFile.open(path)
    session = ReviewSession(queue, file, "ada", console, lambda: next(pressed, ""))
    return session.ask_all(), output.getvalue()


@pytest.mark.parametrize("name", ["decisions.jsonl", "decisions.csv"])
def test_each_key_is_kept_at_once_and_the_review_can_be_resumed(
    finished: Path, tmp_path: Path, name: str
) -> None:
    path = tmp_path / name
    queue = collect_review_queue(finished, Decisions(), 1000)
    # The input ends after the fourth key, as if the process were killed.
    decided, _ = ask(queue, path, "dudx")
    assert decided == 2
    decisions = read_decisions(path)
    keys = [(pair.id_a, pair.id_b) for pair in queue.pairs]
    assert set(decisions.of_pairs) == {keys[0], keys[2]}
    assert {decision.by for decision in decisions} == {"ada"}
    assert all(decision.at is not None for decision in decisions)
    resumed = collect_review_queue(finished, decisions, 1000)
    assert [(pair.id_a, pair.id_b) for pair in resumed.pairs] == [keys[1], *keys[3:]]
    assert ask(resumed, path, "S")[0] == 1
    assert read_decisions(path).same == [keys[1]]


def test_contradiction_is_said_and_the_pair_is_asked_again(tmp_path: Path, finished: Path) -> None:
    path = tmp_path / "decisions.jsonl"
    queue = collect_review_queue(finished, Decisions(), 1)
    (pair,) = queue.pairs
    file = DecisionFile.open(path)
    file.append(Decision(pair.id_a, "other", Verdict.SAME))
    file.append(Decision("other", pair.id_b, Verdict.SAME))
    decided, printed = ask(queue, path, "ds")
    assert decided == 1
    assert "correct one of these" in " ".join(printed.split())
    assert (pair.id_a, pair.id_b) in read_decisions(path).same


def test_texts_are_side_by_side_in_80_columns_without_control_characters(
    finished: Path, tmp_path: Path
) -> None:
    queue = collect_review_queue(finished, Decisions(), 1000)
    _, printed = ask(queue, tmp_path / "decisions.jsonl", "u" * 1000)
    assert max(map(len, printed.splitlines())) <= 80
    assert "hostile␛[2J" in printed
    assert "\x1b" not in printed
    assert "\u202e" not in printed
    line = next(line for line in printed.splitlines() if "first" in line)
    assert "second" in line


def test_queue_is_written_as_a_table(
    finished: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    decisions = tmp_path / "decisions.jsonl"
    for name in ("queue.parquet", "queue.csv"):
        path = tmp_path / name
        of_others = tmp_path / f".{name}.tmp"
        of_others.write_text("not a file of nearkin")
        arguments = ["review", str(finished), "--table", str(path), "--limit", "3"]
        assert run_command([*arguments, "--decisions", str(decisions)]) == 0
        assert f"3 pairs (0 decided before) in {path}" in capsys.readouterr().err
        table = pq.read_table(path) if path.suffix == ".parquet" else pyarrow.csv.read_csv(path)
        queue = collect_review_queue(finished, Decisions(), 3)
        assert table["id_a"].to_pylist() == [pair.id_a for pair in queue.pairs]
        assert table["text_b"].to_pylist() == [pair.text_b for pair in queue.pairs]
        assert table.column_names[:3] == ["id_a", "id_b", "decision"]
        assert set(map(str, table["decision"].to_pylist())) <= {"", "None"}
        with pytest.raises(UsageError, match="exists; delete it"):
            write_review_table(queue, path)
        # texts of documents are for their owner alone
        assert path.stat().st_mode & 0o777 == 0o600
        assert of_others.read_text() == "not a file of nearkin"
    assert not decisions.exists()


def test_joined_columns_have_a_column_for_each_side(tmp_path: Path) -> None:
    inputs = tmp_path / "in.csv"
    out = tmp_path / "out"
    inputs.write_text("id,first,last,year\n1,Ada,Lovelace,1815\n2,,Ada Lovelaces,1815\n")
    settings = ["--id", "id", "--text", "first,last", "--keep", "year desc"]
    arguments = ["dedup", str(inputs), *settings, "--shingle", "chars:2", "--threshold", "0.5"]
    assert run_command([*arguments, "--out", str(out), "--quiet"]) == 0
    queue = collect_review_queue(out, Decisions(), 3)
    write_review_table(queue, tmp_path / "table.csv")
    header, row = (tmp_path / "table.csv").read_text().splitlines()
    assert header.split(",")[5:] == ["first_a", "first_b", "last_a", "last_b"]
    assert row.split(",")[5:] == ["Ada", "", "Lovelace", "Ada Lovelaces"]
    assert queue.pairs[0].text_a == "first: Ada\nlast: Lovelace"


@pytest.mark.parametrize(
    ("encoding", "delimiter", "begin"),
    [
        ("utf-8", ",", b"id_a,id_b,"),
        ("utf-8-sig", ",", b"\xef\xbb\xbfid_a,id_b,"),
        ("utf-8", ";", b"\xef\xbb\xbfid_a;id_b;"),
        ("cp1252", ";", b"\xef\xbb\xbfid_a;id_b;"),
        ("utf-16", "\t", b"\xef\xbb\xbfid_a\tid_b\t"),
    ],
)
def test_tables_have_the_dialect_of_the_inputs(
    encoding: str, delimiter: str, begin: bytes, tmp_path: Path
) -> None:
    rows = [["id", "text"], ["1", "Größe und Maß, ganz neu"], ["2", "Größe und Maß, ganz alt"]]
    inputs = tmp_path / "in.csv"
    quoted = [[f'"{value}"' if "," in value else value for value in row] for row in rows]
    content = "".join(f"{delimiter.join(row)}\r\n" for row in quoted)
    inputs.write_bytes(content.encode(encoding))
    settings = ["--id", "id", "--shingle", "words:1", "--threshold", "0.5"]
    out = tmp_path / "out"
    assert run_command(["dedup", str(inputs), *settings, "--out", str(out), "--quiet"]) == 0
    table = tmp_path / "table.csv"
    tabs = tmp_path / "table.tsv"
    pairs = tmp_path / "pairs.csv"
    write_review_table(collect_review_queue(out, Decisions(), 3), table)
    write_review_table(collect_review_queue(out, Decisions(), 3), tabs)
    assert table.read_bytes().startswith(begin)
    assert "Größe und Maß, ganz neu" in table.read_text("utf-8")
    assert tabs.read_bytes().startswith(b"id_a\tid_b\t")
    for _ in range(2):
        arguments = ["pairs", str(inputs), *settings, "--out", str(pairs), "--overwrite"]
        assert run_command(arguments) == 0
        assert pairs.read_bytes().startswith(begin)
    filled = table.read_bytes().replace(f"2{delimiter}".encode(), f"2{delimiter}no".encode(), 1)
    table.write_bytes(filled)
    assert read_decisions(table).different == [("1", "2")]


def test_filled_in_workbook_is_a_file_of_decisions(finished: Path, tmp_path: Path) -> None:
    path = tmp_path / "queue.xlsx"
    queue = collect_review_queue(finished, Decisions(), 3)
    write_review_table(queue, path)
    assert len(read_decisions(path)) == 0
    header, *rows = read_cells(path)
    for row, word in zip(rows, ("yes", "No", None), strict=True):
        row[header.index("decision")] = word or ""
    write_workbook(tmp_path / "filled.xlsx", [header, *rows])
    decisions = read_decisions(tmp_path / "filled.xlsx")
    first, second, _ = queue.pairs
    assert decisions.same == [(first.id_a, first.id_b)]
    assert decisions.different == [(second.id_a, second.id_b)]


@pytest.fixture(scope="module")
def records(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The output folder of a run over several fields."""
    folder = tmp_path_factory.mktemp("records")
    rows = [
        {"id": "p1", "name": "Ada Lovelace", "city": "London"},
        {"id": "p2", "name": "Ada K. Lovelace", "city": "London"},
        {"id": "p3", "name": "=Alan Turing", "city": "Wilmslow"},
    ]
    (folder / "in.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    arguments = ["dedup", str(folder / "in.jsonl"), "--id", "id", "--out", str(folder / "out")]
    arguments += ["--field", "name:jaccard>=0.5", "--field", "city:jaccard>=0.9"]
    assert run_command([*arguments, "--shingle", "words:1", "--quiet"]) == 0
    return folder / "out"


def test_records_have_a_column_for_each_field(records: Path, tmp_path: Path) -> None:
    queue = collect_review_queue(records, Decisions(), 10)
    write_review_table(queue, tmp_path / "queue.xlsx")
    header, row = read_cells(tmp_path / "queue.xlsx")
    assert header[5:] == ["name_a", "name_b", "city_a", "city_b"]
    assert row[5:] == ["Ada Lovelace", "Ada K. Lovelace", "London", "London"]
    (pair,) = queue.pairs
    assert pair.text_b == "name: Ada K. Lovelace\ncity: London"


def test_review_without_a_terminal_is_refused(
    finished: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    decisions = tmp_path / "decisions.jsonl"
    assert run_command(["review", str(finished), "--decisions", str(decisions)]) == 2
    message = " ".join(capsys.readouterr().err.split())
    assert "asks on a terminal" in message
    assert "--table FILE" in message
    assert not decisions.exists()


def test_command_asks_on_a_terminal(
    finished: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    for stream in (sys.stdin, sys.stdout):
        monkeypatch.setattr(stream, "isatty", lambda: True)
    keys = iter("sd")

    def read_key() -> str:
        try:
            return next(keys)
        except StopIteration:
            raise EOFError from None

    monkeypatch.setattr("typer.getchar", read_key)
    path = tmp_path / "decisions.csv"
    arguments = ["review", str(finished), "--by", "ada", "--decisions", str(path)]
    assert run_command(arguments) == 0
    shown = capsys.readouterr()
    assert f"2 decisions appended to {path}" in " ".join(shown.err.split())
    assert len(read_decisions(path)) == 2


@pytest.mark.parametrize("rows", [[], [{"id": "a", "text": "one document alone"}]])
def test_runs_without_pairs_have_an_empty_queue(tmp_path: Path, rows: list[dict[str, str]]) -> None:
    (tmp_path / "in.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    job = Job((str(tmp_path / "in.jsonl"),), tmp_path / "out", Columns(id="id"), RunOptions())
    run_dedup(job, Silent())
    queue = collect_review_queue(tmp_path / "out", Decisions(), 10)
    assert list(queue.pairs) == []
    assert ask(queue, tmp_path / "d.jsonl", "")[0] == 0


def test_folders_that_are_no_runs_and_changed_inputs_are_refused(
    tmp_path: Path, finished: Path
) -> None:
    with pytest.raises(UsageError, match="is not the output"):
        collect_review_queue(tmp_path, Decisions(), 10)
    inputs = finished.parent / "in.jsonl"
    before = inputs.read_text()
    try:
        inputs.write_text(before + before)
        with pytest.raises(UsageError, match="changed"):
            collect_review_queue(finished, Decisions(), 10)
    finally:
        inputs.write_text(before)
