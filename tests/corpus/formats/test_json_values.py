"""Tests of JSON files with objects over several lines, with lists in an object, and with NaN."""

import gzip
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import nearkin as nk
from nearkin.cli import app
from nearkin.corpus import Columns, FileCorpus, write_kept
from nearkin.corpus.formats import json_array, json_forms
from nearkin.corpus.formats.json_lines import JsonLines
from nearkin.corpus.formats.json_rows import JsonRow
from nearkin.corpus.formats.json_values import JsonValues
from nearkin.corpus.input_file import InputFile
from nearkin.corpus.stream_format import detect_suffix
from nearkin.errors import UsageError
from tests.cli.conftest import run
from tests.corpus.samples import read_file, read_texts

ROWS: list[dict[str, Any]] = [
    {"id": "a", "text": 'quoted " \\ [ ] { } , text'},
    {"id": "b", "text": "plain", "deep": [[{"x": [2]}], {}]},
    {"id": "c", "text": "naïve 日本\n\ttext"},
]
TEXTS = [row["text"] for row in ROWS]


def write_objects(path: Path, rows: list[dict[str, Any]] = ROWS) -> Path:
    """Writes objects over several lines, one after another."""
    path.parent.mkdir(parents=True, exist_ok=True)
    content = "\n\n".join(json.dumps(row, indent=2, ensure_ascii=False) for row in rows).encode()
    path.write_bytes(gzip.compress(content) if path.suffix == ".gz" else content)
    return path


def write_list(path: Path, name: str = "data", indent: int | None = 1, **others: Any) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(
        json.dumps({"about": {"n": [1]}, name: ROWS, "end": [1, 2], **others}, indent=indent)
    )
    return path


def copy_first_and_last(path: Path) -> Path:
    out = path.parent / "out"
    out.mkdir()
    write_kept(FileCorpus.open([str(path)]), Columns(), np.array([True, False, True]), out)
    return out / path.name


@pytest.mark.parametrize("name", ["a.json", "a.jsonl", "a.json.gz"])
def test_objects_over_several_lines_are_rows(name: str, tmp_path: Path) -> None:
    path = write_objects(tmp_path / name)
    corpus = FileCorpus.open([str(path)])
    corpus.check(Columns(id="id"))
    assert read_texts(corpus) == (TEXTS, [])
    assert read_texts(corpus, start=(0, 1), first=1)[0] == TEXTS[1:]
    copy = copy_first_and_last(path)
    assert read_file(copy)[0] == [TEXTS[0], TEXTS[2]]
    raw = copy.read_bytes()
    text = (gzip.decompress(raw) if name.endswith(".gz") else raw).decode()
    # Each object is copied as it is.
    assert text == "".join(json.dumps(ROWS[i], indent=2, ensure_ascii=False) + "\n" for i in (0, 2))


def test_single_object_is_one_row_and_has_no_copy_if_it_is_removed(tmp_path: Path) -> None:
    words = " ".join(f"w{number}" for number in range(30))
    for name in ("a", "b"):
        write_objects(tmp_path / "in" / f"{name}.json", [{"text": words, "id": name}])
    out = tmp_path / "out"
    assert run("dedup", tmp_path / "in", "--out", out, "--quiet", "--keep", "id asc") == app.DONE
    assert [path.name for path in (out / "kept").iterdir()] == ["a.json"]
    assert json.loads((out / "kept" / "a.json").read_text()) == {"text": words, "id": "a"}


@pytest.mark.parametrize("indent", [None, 1])
@pytest.mark.parametrize("name", ["data", "rows", "articles"])
def test_list_in_an_object_holds_the_rows(name: str, indent: int | None, tmp_path: Path) -> None:
    path = write_list(tmp_path / "a.json", name, indent)
    corpus = FileCorpus.open([str(path)])
    corpus.check(Columns(id="id"))
    assert read_texts(corpus) == (TEXTS, [])
    copy = json.loads(copy_first_and_last(path).read_text())
    assert copy == {"about": {"n": [1]}, name: [ROWS[0], ROWS[2]], "end": [1, 2]}


def test_columns_decide_whether_an_object_is_a_row_or_holds_rows(tmp_path: Path) -> None:
    chat = {"id": 1, "messages": [{"content": "a b"}, {"content": "c"}]}
    path = tmp_path / "chat.json"
    for indent in (None, 1):
        path.write_text(json.dumps(chat, indent=indent))
        corpus = FileCorpus.open([str(path)])
        corpus.check(Columns(text="messages.content"))
        for columns, texts in (
            (Columns(text="messages.content"), ["a b\nc"]),
            (Columns(text="content"), ["a b", "c"]),
        ):
            batches = list(corpus.batches(columns))
            assert [t for batch in batches for t in batch.documents["text"].to_pylist()] == texts
    # The columns of documents may follow a list.
    path.write_text(json.dumps({"authors": [{"name": "x"}], "text": "a b c"}, indent=1))
    assert read_file(path)[0] == ["a b c"]


def test_several_lists_are_an_error_that_names_them(tmp_path: Path) -> None:
    path = write_list(tmp_path / "a.json", test=[{"text": "x"}])
    with pytest.raises(UsageError, match=r"several lists of rows \('data', 'test'\).*jq \.data"):
        nk.dedup(path)


def test_list_without_kept_rows_stays_valid(tmp_path: Path) -> None:
    path = write_list(tmp_path / "a.json")
    out = tmp_path / "out"
    out.mkdir()
    write_kept(FileCorpus.open([str(path)]), Columns(), np.zeros(3, bool), out)
    assert json.loads((out / "a.json").read_text())["data"] == []


@pytest.mark.parametrize("end", ["", "]", "]}{}", '], "x": ', "]]"])
def test_damaged_end_costs_no_rows_before_it(end: str, tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    path.write_text('{"data": [\n' + ",\n".join(map(json.dumps, ROWS)) + end)
    texts, rejected = read_file(path)
    # The last element is complete only if the list ends.
    assert texts == (TEXTS if end else TEXTS[:2])
    assert len(rejected) == 1
    copy = tmp_path / "out"
    copy.mkdir()
    corpus = FileCorpus.open([str(path)])
    write_kept(corpus, Columns(), np.ones(len(texts), bool), copy)
    assert [row["text"] for row in json.loads((copy / "a.json").read_text())["data"]] == texts


def test_incomplete_last_object_is_rejected(tmp_path: Path) -> None:
    path = write_objects(tmp_path / "a.json")
    path.write_text(path.read_text()[:-5])
    texts, rejected = read_file(path)
    assert texts == TEXTS[:2]
    assert "not complete after row 2" in rejected[0].reason


def test_damaged_first_line_of_json_lines_costs_one_row(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    for first in ('{"text": "cut', '{"text": "cut"', '{"text": "cut",', "{"):
        path.write_text("\n".join([first, *map(json.dumps, ROWS)]))
        texts, rejected = read_file(path)
        assert texts == TEXTS, first
        assert [entry.row for entry in rejected] == [0]


@pytest.mark.parametrize("size", [7, 64, 1 << 16])
def test_form_of_long_beginnings_is_detected(
    size: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The sample may end anywhere."""
    monkeypatch.setattr(json_forms, "SAMPLE", size)
    monkeypatch.setattr(json_array, "BLOCK", 11)
    lines = tmp_path / "lines.json"
    lines.write_text("\n".join(map(json.dumps, ROWS)))
    assert read_file(lines) == (TEXTS, [])
    assert read_file(write_objects(tmp_path / "objects.json")) == (TEXTS, [])
    for indent in (None, 2):
        assert read_file(write_list(tmp_path / "list.json", indent=indent)) == (TEXTS, [])
    single = tmp_path / "single.json"
    single.write_text(json.dumps(ROWS[1]))
    assert read_file(single) == (TEXTS[1:2], [])


def test_long_elements_of_a_list_are_rejected_alone() -> None:
    data = b'{"data": [{"text": "x"}, {"text": "' + b"y" * 2000 + b'"}, {"text": "z"}]}'
    rows = list(JsonValues().read_rows(_Chunks(data), 1000, Columns()))
    assert rows == [JsonRow(0, b'{"text": "x"}'), JsonRow(1, None), JsonRow(2, b'{"text": "z"}')]


class _Chunks:
    """A stream that returns few bytes at a time."""

    def __init__(self, data: bytes) -> None:
        self._data = data

    def read(self, size: int) -> bytes:
        part = self._data[: min(size, 100)]
        self._data = self._data[len(part) :]
        return part


def test_numbers_that_json_does_not_have_are_null_and_copied(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    rows = [{"text": f"NaN {name}", "n": value} for name, value in (("a", 1), ("b", 2))]
    lines = [
        json.dumps({**row, "score": score})
        for row, score in zip(rows, (float("nan"), float("-inf")), strict=True)
    ]
    path.write_text("\n".join(lines) + "\n")
    columns = Columns(carried_columns=("score",))
    corpus = FileCorpus.open([str(path)])
    corpus.check(columns)
    (batch,) = corpus.batches(columns)
    assert batch.documents.to_pylist() == [
        {"text": row["text"], "column score": None} for row in rows
    ]
    out = tmp_path / "out"
    assert run("dedup", path, "--out", out, "--quiet", "--annotate") == app.DONE
    copied = (out / "kept" / "a.jsonl").read_text().splitlines()
    assert [line.partition(',"cluster"')[0] for line in copied] == [line[:-1] for line in lines]
    table = tmp_path / "kept.parquet"
    assert run("dedup", path, "--out", table, "--quiet") == app.DONE
    path.write_text('{"text": NaN}\n{"text": "x", "y": NaNa}\n')
    assert [entry.reason for entry in read_file(path)[1]] == [
        "text is null",
        "the row is not valid JSON",
    ]


def test_json_lines_stay_json_lines(tmp_path: Path) -> None:
    """Lines of a `.json` file are counted and copied as before."""
    path = tmp_path / "a.json"
    path.write_text("\n".join(map(json.dumps, ROWS)) + "\n")
    form = FileCorpus.open([str(path)]).format_of(FileCorpus.open([str(path)]).files[0])
    assert type(form) is JsonLines


@pytest.mark.parametrize("name", ["a.json", "a.jsonl"])
@pytest.mark.parametrize("between", ["", " ", "\t"])
def test_objects_joined_in_a_line_are_rows(name: str, between: str, tmp_path: Path) -> None:
    path = tmp_path / name
    path.write_text(between.join(json.dumps({"text": f"text }}{{ {at}"}) for at in range(3)))
    texts, rejected = read_file(path)
    assert texts == [f"text }}{{ {at}" for at in range(3)]
    assert not rejected


MISFITS = {
    '[["a text", "x"], ["another text", "y"]]': "its rows are arrays",
    '["a text", "x"]\n["another text", "y"]\n': "its rows are arrays",
    '["a text", "another text"]': "its rows are texts",
    '"a text"\n"another text"\n': "its rows are texts",
    '{"id": {"0": 1, "1": 2}, "text": {"0": "a text", "1": "another"}}': "it is one object",
    '{"id": [1, 2], "text": ["a text", "another"]}': "it is one object",
}


@pytest.mark.parametrize("content", MISFITS)
def test_rows_without_names_are_refused_with_what_to_write(content: str, tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    path.write_text(content)
    with pytest.raises(UsageError, match=f"a.json: {MISFITS[content]}.*; write ") as raised:
        FileCorpus.open([str(path)]).check(Columns())
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be", "utf-32"])
@pytest.mark.parametrize("name", ["a.jsonl", "-"])
def test_json_in_a_wide_encoding_is_refused_with_what_to_do(
    encoding: str, name: str, tmp_path: Path
) -> None:
    path = tmp_path / name
    path.write_bytes('{"text": "a text"}\n{"text": "another"}\n'.encode(encoding))
    file = InputFile(str(path), name)
    examine = detect_suffix if name == "-" else FileCorpus([file]).check
    arguments = (file, Columns()) if name == "-" else (Columns(),)
    with pytest.raises(UsageError, match=r"UTF-\d\d.*convert it to UTF-8"):
        examine(*arguments)
