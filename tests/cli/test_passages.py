"""`nearkin passages`: its output, its summary and its errors."""

import io
import json
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from rich.console import Console

from nearkin.errors import RunError
from nearkin.reports.terminal.passages import print_passages
from nearkin.runs import passages
from nearkin.texts.passages.run import PieceMapper
from tests.cli.conftest import run


@pytest.fixture
def texts(tmp_path: Path) -> Path:
    path = tmp_path / "texts.jsonl"
    rows = [
        {"id": "a", "text": "we read: all passengers must leave the train here", "site": "x"},
        {"id": "b", "text": "All passengers must leave the train here!\x1b[31m", "site": "y"},
        {"id": "c", "text": None, "site": "y"},
    ]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def test_output_lists_passages_with_their_bytes(
    texts: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    options = ("--id", "id", "--min", "5", "--source", "site", "--out", out)
    assert run("passages", texts, *options) == 0
    names = {path.name for path in out.iterdir()}
    assert names == {
        ".nearkin-output.json",
        "documents.parquet",
        "frequent.parquet",
        "passages.json",
        "passages.parquet",
        "rejected.jsonl",
        "report.html",
        "sources.parquet",
    }
    assert pq.read_table(out / "passages.parquet").to_pylist()[0] == {
        "id": "a",
        "start": 9,
        "end": 49,
        "tokens": 7,
        "repeats_id": "b",
        "repeats_start": 0,
        "repeats_end": 40,
        "places": 2,
        "document": 0,
        "repeats_document": 1,
    }
    printed = capsys.readouterr()
    headline = "2 passages of at least 5 words (1 different) in 2 of 2 documents"
    assert headline in " ".join(printed.err.split())
    assert "1 row was rejected" in printed.err
    assert "\x1b[31m" not in printed.err
    assert json.loads((out / "passages.json").read_text())["counts"]["passages"] == 2


def test_summary_is_json_without_texts(
    texts: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    options = ("--min", "5", "--out", tmp_path / "out", "--json", "-q")
    assert run("passages", texts, *options) == 0
    printed = capsys.readouterr().out
    assert json.loads(printed)["counts"]["documents_with_passages"] == 2
    assert "passengers" not in printed


def test_finished_output_is_neither_replaced_nor_taken_for_another(
    texts: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    assert run("passages", texts, "--min", "5", "--out", out, "-q") == 0
    assert run("passages", texts, "--min", "5", "--out", out, "-q") == 2
    assert "--overwrite" in capsys.readouterr().err
    assert run("passages", texts, "--min", "5", "--out", out, "-q", "--resume") == 0
    assert run("passages", texts, "--min", "6", "--out", out, "-q", "--resume") == 2
    assert "made with --min 5, and this run has --min 6" in capsys.readouterr().err
    assert run("dedup", texts, "--out", out, "-q", "--resume") == 2
    assert "made with command passages" in capsys.readouterr().err
    texts.write_text(texts.read_text() + '{"text": "new"}\n')
    assert run("passages", texts, "--min", "5", "--out", out, "-q", "--resume") == 2
    assert "has changed" in capsys.readouterr().err
    assert run("passages", texts, "--min", "6", "--out", out, "-q", "--overwrite") == 0


def test_resumed_run_does_not_read_again_what_finished_stages_have_read(
    texts: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    options = (texts, "--min", "5", "--out", tmp_path / "out", "-q")

    def fail(*_: object) -> None:
        raise RunError("the disk is gone")

    with monkeypatch.context() as broken:
        broken.setattr(passages, "PassageTables", fail)
        assert run("passages", *options) == 1
    monkeypatch.setattr(PieceMapper, "map", fail)
    assert run("passages", *options, "--resume") == 0
    assert pq.read_table(tmp_path / "out" / "passages.parquet").num_rows == 2


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--min", "1"), "--min 1 is out of range"),
        (("--tokens", "text"), "--tokens text names no texts"),
        (("--vector", "v"), "--vector v names no texts"),
        (("--normalise", "lower,digits"), "leave out the others"),
        (("--source", "nothing"), "nothing"),
        (("--memory", "1MB"), "too small"),
    ],
)
def test_invalid_option_is_one_sentence_and_nothing_is_written(
    texts: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    options: tuple[str, ...],
    message: str,
) -> None:
    assert run("passages", texts, *options, "--out", tmp_path / "out") == 2
    assert message in capsys.readouterr().err
    assert not (tmp_path / "out").exists()
    assert not (tmp_path / "out.partial").exists()


def test_inputs_without_a_document_end_with_their_own_code(tmp_path: Path) -> None:
    path = tmp_path / "bad.jsonl"
    path.write_text("not json\n")
    assert run("passages", path, "--out", tmp_path / "out", "-q") == 3


def test_no_documents_is_an_empty_result(tmp_path: Path) -> None:
    path = tmp_path / "empty.jsonl"
    path.write_text("")
    assert run("passages", path, "--out", tmp_path / "out", "-q") == 0
    assert pq.read_table(tmp_path / "out" / "passages.parquet").num_rows == 0


def test_summary_says_one_passage_and_one_document_in_the_singular(tmp_path: Path) -> None:
    names = ("documents", "rejected", "text_bytes", "passages", "repeated_bytes")
    counts = dict.fromkeys((*names, "different_passages", "documents_with_passages"), 1)
    (tmp_path / "rejected.jsonl").write_text('{"reason": "the text is empty"}\n')
    written = io.StringIO()
    (tmp_path / "rejected.jsonl").write_text('{"reason": "text is null"}\n')
    print_passages(counts, 5, "word", None, [], [], tmp_path, Console(file=written, width=200))
    assert "1 passage of at least 5 words (1 different) in 1 of 1 document\n" in written.getvalue()
    assert "1 row was rejected: text is null (1)" in written.getvalue()
