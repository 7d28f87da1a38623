"""Tests of JSON arrays, of files with foreign content, and of missing columns."""

import gzip
import io
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nearkin.cli import app
from nearkin.corpus import Columns, FileCorpus, write_kept
from nearkin.corpus.formats.json_array import JsonArray
from nearkin.corpus.formats.json_lines import JsonRow
from nearkin.errors import UsageError

DOCUMENTS: list[dict[str, Any]] = [
    {"text": 'quoted " \\ [ ] { } , \\" text', "id": "a"},
    {"text": "", "deep": [[1, {"x": [2]}], {}], "id": "b"},
    {"text": "naïve 日本\n\ttext", "id": "c"},
    {"text": "plain words", "id": "d"},
]


def run(*arguments: object) -> int:
    return app.run(list(map(str, arguments)))


def texts(corpus: FileCorpus, **start: Any) -> tuple[list[str], list[Any]]:
    found: list[str] = []
    rejected: list[Any] = []
    for batch in corpus.batches(Columns(), **start):
        found += batch.documents["text"].to_pylist()
        rejected += batch.rejected
    return found, rejected


# arrays


@pytest.mark.parametrize("indent", [None, 2])
@pytest.mark.parametrize("name", ["a.json", "a.json.gz", "a.jsonl"])
def test_a_json_array_is_read_and_written_as_an_array(
    name: str, indent: int | None, tmp_path: Path
) -> None:
    source, out = tmp_path / "in" / name, tmp_path / "out"
    source.parent.mkdir()
    out.mkdir()
    if name == "a.jsonl" and indent is None:
        pytest.skip("an array in one line is a line")
    data = json.dumps(DOCUMENTS, indent=indent, ensure_ascii=False).encode()
    source.write_bytes(gzip.compress(data) if name.endswith(".gz") else data)
    corpus = FileCorpus.open([str(source)])
    corpus.check(Columns(id="id"))
    assert texts(corpus) == ([document["text"] for document in DOCUMENTS], [])
    assert texts(corpus, start=(0, 2), first=2)[0] == [
        document["text"] for document in DOCUMENTS[2:]
    ]
    write_kept(corpus, Columns(), np.array([True, False, True, True]), out)
    raw = (out / name).read_bytes()
    assert json.loads(gzip.decompress(raw) if name.endswith(".gz") else raw) == [
        DOCUMENTS[i] for i in (0, 2, 3)
    ]
    assert texts(FileCorpus.open([str(out / name)]))[0] == [DOCUMENTS[i]["text"] for i in (0, 2, 3)]


def test_an_array_is_annotated(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text(
        json.dumps([{"text": "one two three"}, {"text": "one two three"}], indent=1)
    )
    assert run("dedup", tmp_path / "a.json", "--annotate", "--out", tmp_path / "out") == 0
    rows = json.loads((tmp_path / "out" / "kept" / "a.json").read_bytes())
    assert [row["kept"] for row in rows] == [True, False]


@given(
    st.lists(
        st.recursive(
            st.text() | st.integers() | st.none(),
            lambda x: st.lists(x) | st.dictionaries(st.text(), x),
        )
    ),
    st.integers(1, 9),
    st.sampled_from([None, 1]),
)
@settings(max_examples=40)
def test_elements_are_those_of_the_array_wherever_blocks_end(
    values: list[Any], block: int, indent: int | None
) -> None:
    class Slow(io.BytesIO):
        def read(self, size: int | None = -1) -> bytes:
            return super().read(block)

    data = json.dumps(values, indent=indent, ensure_ascii=False).encode("utf-8", "surrogatepass")
    found = list(JsonArray().read_rows(Slow(data), 1 << 20))
    assert [line.row for line in found] == list(range(len(values)))
    assert [json.loads(line.raw or b"") for line in found] == values


def test_elements_that_are_not_documents_leave_the_others(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text(
        '[{"text": "a"}, 7, {"text": nonsense}, , {"text": "b"}, {"no": 1},]'
    )
    found, rejected = texts(FileCorpus.open([str(tmp_path / "a.json")]))
    assert found == ["a", "b"]
    assert [entry.row for entry in rejected] == [1, 2, 3, 5]


@pytest.mark.parametrize("end", [', {"text": "c', ",", '] {"text": "c"}', "}"])
def test_the_elements_of_a_damaged_array_are_read_up_to_the_damage(
    end: str, tmp_path: Path
) -> None:
    (tmp_path / "a.json").write_text('[{"text": "a"}, {"text": "b"}' + end)
    found, rejected = texts(FileCorpus.open([str(tmp_path / "a.json")]))
    assert found == ["a", "b"]
    assert len(rejected) == 1
    assert "array" in rejected[0].reason


def test_an_array_is_read_an_element_at_a_time() -> None:
    class Endless:
        def read(self, size: int) -> bytes:
            return (
                b'[{"text": "a"},'
                if not hasattr(self, "begun") and not setattr(self, "begun", 1)
                else b'{"text": "a"},' * 99
            )

    lines = JsonArray().read_rows(Endless(), 1 << 20)
    assert [next(lines).row for _ in range(1000)] == list(range(1000))


def test_an_element_that_is_too_long_is_not_held() -> None:
    data = b'[1,"' + b"x" * 5000 + b'",2]'
    found = list(JsonArray().read_rows(io.BytesIO(data), 1000))
    assert found == [JsonRow(0, b"1"), JsonRow(1, None), JsonRow(2, b"2")]


# content that no reader understands


FOREIGN = {
    "sheet.xlsx": b"PK\x03\x04" + bytes(100),
    "scan.pdf": b"%PDF-1.7\n%\xe2\xe3\xcf\xd3\n",
    "image.bin": b"abc\0def",
    "lines.jsonl": gzip.compress(b'{"text": "a"}\n'),
    "table.csv": "text\na\n".encode("utf-16"),
    "data.txt": b"PAR1" + bytes(50),
}


@pytest.mark.parametrize("name", FOREIGN)
def test_a_file_that_no_reader_understands_is_an_error(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / name).write_bytes(FOREIGN[name])
    for command in ("dedup", "pairs", "sketch"):
        assert run(command, tmp_path / name, "--out", tmp_path / "out") == app.USAGE
        said = capsys.readouterr().err
        assert f"cannot read {tmp_path / name}: it holds " in said
        assert "nearkin reads .parquet" in said
    assert [path.name for path in tmp_path.iterdir()] == [name]


def test_text_that_begins_like_another_format_is_text(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("PAR1,text\n1,a\n")
    (tmp_path / "b.txt").write_text("%PDF is a prefix")
    corpus = FileCorpus.open([str(tmp_path)])
    corpus.check(Columns())
    assert texts(corpus)[0] == ["a", "%PDF is a prefix"]


def test_inputs_of_which_everything_is_rejected_have_an_exit_code_of_their_own(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "a.jsonl").write_text("one\ntwo\n")
    (tmp_path / "a.parquet").write_text("not parquet")
    for name in ("a.jsonl", "a.parquet"):
        for command in ("dedup", "pairs", "sketch"):
            assert run(command, tmp_path / name, "--out", tmp_path / f"{command}-{name}") == 3, (
                command
            )
            assert "no document could be read" in capsys.readouterr().err
        assert (tmp_path / f"dedup-{name}" / "rejected.jsonl").read_text()
    (tmp_path / "empty.jsonl").write_text("")
    assert run("dedup", tmp_path / "empty.jsonl", "--out", tmp_path / "empty") == 0
    (tmp_path / "b.jsonl").write_text('one\n{"text": "two"}\n')
    assert run("dedup", tmp_path / "b.jsonl", "--out", tmp_path / "b") == 0


# columns


def sparse(path: Path, rows: int, at: int) -> Path:
    """Objects of which one, late in the file, has the field `quality`."""
    lines = [
        json.dumps({"text": f"t{i}", **({"quality": 1} if i == at else {})}) for i in range(rows)
    ]
    path.write_text("\n".join(lines) + "\n")
    return path


@pytest.mark.parametrize(
    "option",
    [
        ("--keep", "qualty desc"),
        ("--block-by", "qualty"),
        ("--source", "qualty"),
        ("--split", "qualty"),
    ],
)
def test_a_misspelt_column_of_json_lines_is_an_error(
    option: tuple[str, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = sparse(tmp_path / "a.jsonl", 5, 3)
    assert run("dedup", path, *option, "--out", tmp_path / "out") == app.USAGE
    assert (
        "no object of the inputs has the field 'qualty' (they have 'text', 'quality')"
        in capsys.readouterr().err
    )
    assert [path.name for path in tmp_path.iterdir()] == ["a.jsonl"]


def test_a_field_that_only_a_late_object_has_is_no_error(tmp_path: Path) -> None:
    path = sparse(tmp_path / "a.jsonl", 3000, 2999)
    FileCorpus.open([str(path)]).check(Columns(carried_columns=("quality",)))
    with pytest.raises(UsageError, match="has the field 'qualty'"):
        FileCorpus.open([str(path)]).check(Columns(carried_columns=("qualty",)))


def test_a_field_need_not_be_in_the_first_object(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text('{"other": 1}\n{"text": "a"}\n')
    FileCorpus.open([str(tmp_path / "a.jsonl")]).check(Columns())


def test_a_column_without_a_value_is_warned_about(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text(
        '{"text": "a", "quality": null}\n{"text": "b", "quality": null}\n'
    )
    assert (
        run("dedup", tmp_path / "a.jsonl", "--keep", "quality desc", "--out", tmp_path / "out") == 0
    )
    warnings = json.loads((tmp_path / "out" / "run.json").read_bytes())["warnings"]
    assert warnings == [
        "no document has a value in column 'quality', which the settings refer to; check its name"
    ]
