"""Tests of JSON arrays, which are read one element at a time."""

import gzip
import io
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nearkin.corpus import Columns, FileCorpus, write_kept
from nearkin.corpus.formats.json_array import JsonArray
from nearkin.corpus.formats.json_rows import JsonRow
from tests.corpus.samples import read_texts, run_command

DOCUMENTS: list[dict[str, Any]] = [
    {"text": 'quoted " \\ [ ] { } , \\" text', "id": "a"},
    {"text": "", "deep": [[1, {"x": [2]}], {}], "id": "b"},
    {"text": "naïve 日本\n\ttext", "id": "c"},
    {"text": "plain words", "id": "d"},
]


@pytest.mark.parametrize("indent", [None, 2])
@pytest.mark.parametrize("name", ["a.json", "a.json.gz", "a.jsonl"])
def test_array_is_read_and_written_as_an_array(
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
    assert read_texts(corpus) == ([document["text"] for document in DOCUMENTS], [])
    assert read_texts(corpus, start=(0, 2), first=2)[0] == [
        document["text"] for document in DOCUMENTS[2:]
    ]
    write_kept(corpus, Columns(), np.array([True, False, True, True]), out)
    raw = (out / name).read_bytes()
    assert json.loads(gzip.decompress(raw) if name.endswith(".gz") else raw) == [
        DOCUMENTS[i] for i in (0, 2, 3)
    ]
    assert read_texts(FileCorpus.open([str(out / name)]))[0] == [
        DOCUMENTS[i]["text"] for i in (0, 2, 3)
    ]


def test_added_fields_are_written_to_each_element(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text(
        json.dumps([{"text": "one two three"}, {"text": "one two three"}], indent=1)
    )
    assert run_command("dedup", tmp_path / "a.json", "--annotate", "--out", tmp_path / "out") == 0
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
def test_block_ends_do_not_change_the_elements(
    values: list[Any], block: int, indent: int | None
) -> None:
    class Slow(io.BytesIO):
        def read(self, size: int | None = -1) -> bytes:
            return super().read(block)

    data = json.dumps(values, indent=indent, ensure_ascii=False).encode("utf-8", "surrogatepass")
    rows_read = list(JsonArray().read_rows(Slow(data), 1 << 20))
    assert [line.row for line in rows_read] == list(range(len(values)))
    assert [json.loads(line.raw or b"") for line in rows_read] == values


def test_invalid_elements_are_rejected_and_others_read(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text(
        '[{"text": "a"}, 7, {"text": nonsense}, , {"text": "b"}, {"no": 1},]'
    )
    found, rejected = read_texts(FileCorpus.open([str(tmp_path / "a.json")]))
    assert found == ["a", "b"]
    assert [entry.row for entry in rejected] == [1, 2, 3, 5]


@pytest.mark.parametrize("end", [', {"text": "c', ",", '] {"text": "c"}', "}"])
def test_damaged_array_is_read_up_to_the_damage(end: str, tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text('[{"text": "a"}, {"text": "b"}' + end)
    found, rejected = read_texts(FileCorpus.open([str(tmp_path / "a.json")]))
    assert found == ["a", "b"]
    assert len(rejected) == 1
    assert "array" in rejected[0].reason


def test_one_element_at_a_time_is_in_memory() -> None:
    class Endless:
        def read(self, size: int) -> bytes:
            return (
                b'[{"text": "a"},'
                if not hasattr(self, "begun") and not setattr(self, "begun", 1)
                else b'{"text": "a"},' * 99
            )

    lines = JsonArray().read_rows(Endless(), 1 << 20)
    assert [next(lines).row for _ in range(1000)] == list(range(1000))


def test_element_that_is_too_long_is_not_in_memory() -> None:
    data = b'[1,"' + b"x" * 5000 + b'",2]'
    rows_read = list(JsonArray().read_rows(io.BytesIO(data), 1000))
    assert rows_read == [JsonRow(0, b"1"), JsonRow(1, None), JsonRow(2, b"2")]
