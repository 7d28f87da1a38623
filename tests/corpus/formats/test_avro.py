"""Avro files."""

import io
from pathlib import Path
from typing import Any

import fastavro
import pytest

from nearkin.cli import app
from nearkin.corpus import Columns, FileCorpus
from nearkin.errors import UsageError
from tests.cli.conftest import run
from tests.corpus.formats.kept_copies import (
    deduplicate,
    deduplicate_to_lines,
    read_reasons,
    read_texts,
)
from tests.corpus.formats.record_files import TEXTS, write_avro


def test_kept_copies_have_the_schema_and_the_codec_of_the_input(tmp_path: Path) -> None:
    path = write_avro(tmp_path / "a.avro")
    copy = deduplicate(path, "--id", "id")
    with path.open("rb") as before, copy.open("rb") as after:
        given, written = fastavro.reader(before), fastavro.reader(after)
        assert written.writer_schema == given.writer_schema
        assert written.codec == given.codec == "deflate"
        assert list(written) == list(given)[::2]


def test_columns_are_added_as_fields(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # Each slice of rows has the same fields.
    monkeypatch.setattr("nearkin.corpus.formats.record_rows.BATCH_ROWS", 2)
    copy = deduplicate(write_avro(tmp_path / "a.avro"), "--id", "id", "--annotate")
    with copy.open("rb") as file:
        rows = list(fastavro.reader(file))
    assert [row["cluster"] for row in rows] == ["d0", "d0", "d2", "d2", "d4", "d4"]
    assert [row["kept"] for row in rows] == [True, False] * 3


def test_kept_documents_become_json_lines(tmp_path: Path) -> None:
    rows = deduplicate_to_lines(write_avro(tmp_path / "a.avro"))
    assert rows[1] == {"id": "d2", "text": TEXTS[2], "rank": 2}


def test_records_before_damage_are_read(tmp_path: Path) -> None:
    path = write_avro(tmp_path / "a.avro", codec="null")
    content = path.read_bytes()
    path.write_bytes(content[:-50])
    assert read_texts(path) == TEXTS[: len(read_texts(path))]
    assert 2 <= len(read_texts(path)) < 6
    assert "cannot be read from row" in read_reasons(path)[0]
    path.write_bytes(b"Obj\x01 no header")
    assert "header is damaged" in read_reasons(path)[0]
    path.write_bytes(content.replace(b'"name"', b'"nope"', 2))
    assert "header is damaged" in read_reasons(path)[0]


def test_missing_text_is_rejected(tmp_path: Path) -> None:
    path = write_avro(tmp_path / "a.avro", [TEXTS[0], None])  # type: ignore[list-item]
    assert read_texts(path) == TEXTS[:1]
    assert len(read_reasons(path)) == 1


def test_unknown_column_is_an_error_before_reading(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = write_avro(tmp_path / "a.avro")
    assert run("dedup", path, "--text", "txt", "--out", tmp_path / "out") == app.USAGE
    assert "did you mean 'text'?" in capsys.readouterr().err
    assert read_texts(path, Columns(id="rank")) == TEXTS


def add_block(path: Path, body: bytes) -> Path:
    """Appends a block of one record to a file."""
    content = path.read_bytes()
    length = io.BytesIO()
    fastavro.schemaless_writer(length, "long", len(body))
    path.write_bytes(content + b"\x02" + length.getvalue() + body + content[-16:])
    return path


def write_field(path: Path, kind: Any, value: Any, codec: str = "null") -> Path:
    """Writes one record with a text and another field."""
    fields = [{"name": "text", "type": "string"}, {"name": "other", "type": kind}]
    schema = {"type": "record", "name": "Row", "fields": fields}
    with path.open("wb") as file:
        fastavro.writer(file, schema, [{"text": "a b c", "other": value}], codec=codec)
    return path


@pytest.mark.parametrize(
    ("kind", "value", "codec", "body"),
    [
        ("null", None, "xz", b"\xff\xfe\xfd"),
        ({"type": "int", "logicalType": "date"}, 0, "null", b"\x02x\xfe\xff\xff\xff\x0f"),
    ],
)
def test_block_that_fastavro_cannot_read_is_damage(
    kind: Any, value: Any, codec: str, body: bytes, tmp_path: Path
) -> None:
    path = add_block(write_field(tmp_path / "a.avro", kind, value, codec), body)
    assert read_texts(path) == ["a b c"]
    assert "the next block is damaged" in read_reasons(path)[0]


@pytest.mark.parametrize(
    ("kind", "value", "reason"),
    [
        (["null", "Row"], None, "contains itself"),
        ({"type": "array", "items": "null"}, [None], "take no bytes"),
        (
            {
                "type": "array",
                "items": {"type": "record", "name": "Empty", "fields": []},
            },
            [],
            "take no bytes",
        ),
    ],
)
def test_schema_of_values_without_a_bound_is_refused(
    kind: Any, value: Any, reason: str, tmp_path: Path
) -> None:
    path = write_field(tmp_path / "a.avro", kind, value)
    assert read_texts(path) == []
    assert reason in read_reasons(path)[0]


def test_records_that_take_no_bytes_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.avro"
    schema = {"type": "record", "name": "Row", "fields": [{"name": "text", "type": "null"}]}
    with path.open("wb") as file:
        fastavro.writer(file, schema, [{"text": None}])
    assert "take no bytes" in read_reasons(path)[0]


@pytest.mark.parametrize("name", ["meta.n", "meta.turns.n", "meta.turns"])
def test_field_inside_another_one_that_cannot_be_a_text_is_an_error(
    name: str, tmp_path: Path
) -> None:
    members = [{"name": "n", "type": "int"}, {"name": "t", "type": ["null", "string"]}]
    turn = {"type": "record", "name": "Turn", "fields": members}
    turns = {"name": "turns", "type": {"type": "array", "items": turn}}
    meta = {"type": "record", "name": "Meta", "fields": [*members, turns]}
    schema = {"type": "record", "name": "Row", "fields": [{"name": "meta", "type": meta}]}
    path = tmp_path / "a.avro"
    content = {"n": 1, "t": "one text"}
    with path.open("wb") as file:
        fastavro.writer(file, schema, [{"meta": {**content, "turns": [content]}}])
    corpus = FileCorpus.open([str(path)])
    with pytest.raises(UsageError, match=f"column '{name}' is .*, not text"):
        corpus.check(Columns(text=name))
    for column in ("meta.t", "meta.turns.t"):
        corpus.check(Columns(text=column))
        assert read_texts(path, Columns(text=column)) == ["one text"]


def test_field_that_cannot_be_a_text_is_an_error_before_reading(tmp_path: Path) -> None:
    write_field(tmp_path / "a.avro", ["null", "string"], "x")
    write_field(tmp_path / "b.avro", ["null", {"type": "array", "items": "long"}], [1])
    corpus = FileCorpus.open([str(tmp_path)])
    with pytest.raises(UsageError, match=r"b\.avro: column 'other' is .*array.*, not text"):
        corpus.check(Columns(text="other"))


def test_cut_spans_are_added_to_records(tmp_path: Path) -> None:
    shared = " ".join(f"c{number}" for number in range(60))
    texts = [f"{shared} {text}" for text in TEXTS]
    path = write_avro(tmp_path / "a.avro", texts)
    options = ("--id", "id", "--min", "20", "--cut", "passage", "--out", tmp_path / "out", "-q")
    assert run("passages", path, *options) == app.DONE
    with (tmp_path / "out" / "kept" / "a.avro").open("rb") as file:
        spans = [row["cut_spans"] for row in fastavro.reader(file)]
    assert spans[0] == []
    assert set(spans[1][0]) >= {"start", "end"}
