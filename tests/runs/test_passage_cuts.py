"""Cuts of passages in the documents that a deduplication keeps."""

import json
import pickle
from pathlib import Path

import pyarrow.parquet as pq
import pytest

import nearkin as nk
from nearkin.corpus.writer import write_kept
from nearkin.errors import UsageError
from nearkin.runs import document_output
from nearkin.texts.passages.cutting.run import CutRun
from tests.cli.conftest import run

SHARED = "all visitors leave their bags at the desk before they enter"
OTHER = " ".join(f"word{number}" for number in range(40))
ROWS = [
    {"id": "a", "text": f"one two three {SHARED} and go home now quickly"},
    {"id": "b", "text": f"ONE two three {SHARED} and go home now quickly"},
    {"id": "c", "text": f"something else entirely: {SHARED}. {OTHER}"},
    {"id": "d", "text": f"{SHARED} alone"},
]
LEFT = {"a": "one two three and go home now quickly", "c": ROWS[2]["text"]}
OPTIONS = {"passages": 6, "min_left": 3, "id": "id"}


@pytest.fixture
def texts(tmp_path: Path) -> Path:
    path = tmp_path / "texts.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in ROWS))
    return path


def line_of(texts: Path, out: Path, *options: object) -> tuple[object, ...]:
    passages = ("--passages", "6:words", "--cut", "passage", "--min-left", "3")
    return ("dedup", texts, "--id", "id", *passages, "--out", out, *options)


@pytest.mark.parametrize("options", [{"passages": 6, "min_left": 3}, {"repeated_lines": 2}])
def test_result_over_files_writes_what_the_command_writes(
    options: dict[str, int], texts: Path, tmp_path: Path
) -> None:
    flags = [f"--{name.replace('_', '-')}={value}" for name, value in options.items()]
    assert run("dedup", texts, "--id", "id", *flags, "--out", tmp_path / "out", "-q") == 0
    result = nk.dedup(texts, id="id", **options)  # type: ignore[arg-type]
    result.write(tmp_path / "written")
    names = ["kept/texts.jsonl", "clusters.parquet", "cuts.parquet"]
    names += ["repeated_lines.parquet"] if "repeated_lines" in options else []
    for name in names:
        written = (tmp_path / "written" / name).read_bytes()
        assert written == (tmp_path / "out" / name).read_bytes()
    with pytest.raises(UsageError, match="leave out `output` and `document_weights`"):
        result.write(tmp_path / "ids", output="ids")


def test_passages_are_cut_from_kept_documents_alone(
    texts: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Documents a and b are exact duplicates, so a is kept, and its passage stays in c."""
    out = tmp_path / "out"
    assert run(*line_of(texts, out)) == 0
    rows = [json.loads(line) for line in (out / "kept" / "texts.jsonl").read_text().splitlines()]
    assert {row["id"]: row["text"] for row in rows} == LEFT
    cuts = pq.read_table(out / "cuts.parquet").to_pylist()
    assert [(row["id"], row["text"].strip(), row["kept_id"]) for row in cuts] == [
        ("a", SHARED, "c"),
        ("d", f"{SHARED} alone", None),
    ]
    record = json.loads((out / "run.json").read_text())
    assert record["passages"] == {
        "min_tokens": 6,
        "unit": "words",
        "cut": "passage",
        "min_left": 3,
        "counts": {
            "cuts": 1,
            "cut_bytes": len(SHARED) + 1,
            "documents_cut": 1,
            "documents_removed": 1,
            "removed_bytes": len(ROWS[3]["text"]),
        },
    }
    printed = " ".join(capsys.readouterr().err.split())
    assert "1 part was cut from 1 document (60 B)" in printed
    assert "1 document with fewer than 3 words left was removed (65 B)" in printed
    assert "Repeated passages</h2>" in (out / "report.html").read_text()
    assert run(*line_of(texts, out, "--resume", "-q")) == 0
    assert run("dedup", texts, "--id", "id", "--out", out, "--resume", "-q") == 2


def test_library_gives_the_same_documents_and_cuts(texts: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    assert run(*line_of(texts, out, "-q")) == 0
    result = nk.dedup(ROWS, **OPTIONS)  # type: ignore[arg-type]
    assert result.cuts.arrow.equals(pq.read_table(out / "cuts.parquet"))
    kept = result.kept_documents.to_pylist()
    assert [row["id"] for row in kept] == ["a", "c"]
    assert pickle.loads(pickle.dumps(result)).kept_documents.to_pylist() == kept
    for refused in (
        lambda: result.filter(ROWS),
        lambda: result.write(tmp_path / "other"),
        lambda: result.rethreshold(0.9),
    ):
        with pytest.raises(UsageError, match=r"take result\.kept_documents"):
            refused()


def test_passages_of_characters_are_cut(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shared = "図書館は、月曜日に休みます。"
    rows = [f"お知らせ：{shared}", f"{shared}（町役場からの案内）"]
    source = tmp_path / "texts.jsonl"
    source.write_text("".join(json.dumps({"text": row}) + "\n" for row in rows))
    out = tmp_path / "out"
    options = ("--passages", "8:chars", "--keep", "length desc", "--min-left", "2")
    assert run("dedup", source, "--shingle", "chars:3", *options, "--out", out) == 0
    kept = [json.loads(line) for line in (out / "kept" / "texts.jsonl").read_text().splitlines()]
    assert [row["text"] for row in kept] == ["お知らせ：。", rows[1]]
    assert json.loads((out / "run.json").read_text())["passages"]["unit"] == "chars"
    assert "at least 8 characters" in (out / "report.html").read_text()
    result = nk.dedup(rows, shingle="chars:3", passages="8:chars", min_left=2)
    assert result.kept_documents["text"].to_pylist() == ["お知らせ：。", rows[1]]


def test_run_without_passages_has_no_trace_of_them(texts: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    assert run("dedup", texts, "--id", "id", "--out", out, "-q") == 0
    assert "passages" not in json.loads((out / "run.json").read_text())
    assert "passages" not in json.loads((out / "report.json").read_text())
    assert not (out / "cuts.parquet").exists()
    result = nk.dedup(ROWS, id="id")
    assert len(result.cuts) == len(result.kept_documents) == 0


def test_columns_of_sizes_and_cuts_are_both_added(texts: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    assert run(*line_of(texts, out, "--sizes", "-q")) == 0
    row = json.loads((out / "kept" / "texts.jsonl").read_text().splitlines()[0])
    assert row["cluster_size"] == 2
    assert row["cut_spans"] == [{"start": 14, "end": 74}]


@pytest.mark.parametrize("stage", ["_plan", "_cut", "write"])
def test_interrupted_cut_is_resumed_with_the_same_result(
    stage: str, texts: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = tmp_path / "expected"
    assert run(*line_of(texts, expected, "-q")) == 0

    def interrupt(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    out = tmp_path / "out"
    with monkeypatch.context() as patch:
        if stage == "write":
            patch.setattr(document_output, write_kept.__name__, interrupt)
        else:
            patch.setattr(CutRun, stage, interrupt)
        assert run(*line_of(texts, out, "-q")) != 0
    assert run(*line_of(texts, out, "--resume", "-q")) == 0
    for name in ("kept/texts.jsonl", "cuts.parquet"):
        assert (out / name).read_bytes() == (expected / name).read_bytes()


SITE = [
    {"id": "a", "site": "north", "text": "Home | News\nThe fair opens today, and many come."},
    {"id": "b", "site": "north", "text": "home |  news\nThe fair opens today, and many come!"},
    {"id": "c", "site": "north", "text": "HOME | News\nA ferry was late.\nbye\nbye\nbye"},
    {"id": "d", "site": "south", "text": "Weather of the week: sun\nHome | News"},
]
LINES_LEFT = {
    "b": "home |  news\nThe fair opens today, and many come!",
    "c": "A ferry was late.\nbye\nbye\nbye",
    "d": "Weather of the week: sun\n",
}


def test_repeated_lines_are_cut_from_kept_documents_alone(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Document a repeats b, so the menu is in three kept documents, and stays in the first."""
    source = tmp_path / "site.jsonl"
    source.write_text("".join(json.dumps(row) + "\n" for row in SITE))
    out = tmp_path / "out"
    line = ("dedup", source, "--id", "id", "--source", "site", "--out", out)
    options = ("--repeated-lines", "3", "--keep", "id desc")
    assert run(*line, "--repeated-lines", "3", "--lines-action", "report") == 2
    assert run(*line, *options) == 0
    kept = [json.loads(row) for row in (out / "kept" / "site.jsonl").read_text().splitlines()]
    left = {**LINES_LEFT, "b": "The fair opens today, and many come!", "d": SITE[3]["text"]}
    assert {row["id"]: row["text"] for row in kept} == left
    (row,) = pq.read_table(out / "repeated_lines.parquet").to_pylist()
    assert (row["id"], row["documents"], row["places"]) == ("d", 3, 3)
    record = json.loads((out / "run.json").read_text())["lines"]
    assert (record["repeated_lines"], record["counts"]["cuts"]) == (1, 2)
    assert "listed" not in record
    printed = " ".join(capsys.readouterr().err.split())
    assert "1 different line occurs in at least 3 of 3 documents, at 3 places" in printed
    assert "2 parts were cut from 2 documents" in printed
    page = (out / "report.html").read_text()
    assert "Repeated lines</h2>" in page
    assert "<bdi>north</bdi>: 2 (100%)" in page
    assert run(*line, *options, "--resume", "-q") == 0
    assert run(*line, "--repeated-lines", "2", "--resume", "-q") == 2
    result = nk.dedup(SITE, id="id", source="site", keep="id desc", repeated_lines=3)
    assert {row["id"]: row["text"] for row in result.kept_documents.to_pylist()} == left
    assert result.repeated_lines.to_pylist() == [row]
    assert pickle.loads(pickle.dumps(result)).repeated_lines.to_pylist() == [row]


def test_lines_can_be_counted_by_their_places() -> None:
    result = nk.dedup(SITE, id="id", repeated_lines="3:places", lines_action="remove")
    lines = sorted(row["text"].strip().lower() for row in result.repeated_lines.to_pylist())
    assert lines == ["bye", "home |  news"]
    texts = {row["id"]: row["text"] for row in result.kept_documents.to_pylist()}
    assert texts["c"] == "A ferry was late.\n"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--passages", "x"), "is not of the form 50, 50:words or 50:chars"),
        (("--passages", "50:lines"), "is not of the form 50, 50:words or 50:chars"),
        (("--passages", "50:"), "is not of the form 50, 50:words or 50:chars"),
        (("--passages", "1"), "--min 1 is out of range"),
        (("--cut", "line"), "--cut line has no effect without --passages"),
        (("--min-left", "3"), "--min-left 3 has no effect without --passages"),
        (("--passages", "6", "--cut", "word"), "--cut word is not one of"),
        (("--passages", "6", "--annotate"), "--annotate exclude each other"),
        (("--passages", "6", "--repeated-lines", "2"), "--passages 6 has no effect with"),
        (("--repeated-lines", "2", "--min-left", "2"), "--min-left 2 has no effect with"),
        (("--repeated-lines", "2", "--output", "none"), "--output none copies none"),
        (("--repeated-lines", "2", "--annotate"), "--annotate exclude each other"),
        (("--lines-action", "remove"), "has no effect without"),
        (("--passages", "6", "--output", "ids"), "--output ids copies none"),
        (("--passages", "6", "--document-weights", "sqrt"), "exclude each other"),
        (("--passages", "6", "--text", "text,id"), "rewrites one column of texts"),
        (("--passages", "6", "--tokens", "text"), "names no texts"),
    ],
)
def test_invalid_passages_are_an_error_before_anything_is_written(
    options: tuple[str, ...],
    message: str,
    texts: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    out = tmp_path / "out"
    assert run("dedup", texts, *options, "--out", out, "-q") == 2
    assert message in " ".join(capsys.readouterr().err.split())
    assert not out.exists()


def test_file_of_kept_documents_holds_cut_texts_if_it_can(
    texts: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(*line_of(texts, tmp_path / "kept.parquet", "-q")) == 0
    assert pq.read_table(tmp_path / "kept.parquet")["cut_spans"].to_pylist()[1] == []
    assert run(*line_of(texts, tmp_path / "kept.csv", "-q")) == 2
    assert "column 'cut_spans' is a list" in " ".join(capsys.readouterr().err.split())
