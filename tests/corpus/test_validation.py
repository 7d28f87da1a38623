"""Tests of the checks of documents, ids and tokens."""

import uuid
from pathlib import Path

import pyarrow as pa
import pyarrow.ipc
import pyarrow.parquet as pq
import pytest

import nearkin as nk
from nearkin.corpus import Columns, FileCorpus, TableCorpus
from nearkin.corpus.validation import check_tokens
from nearkin.errors import UsageError
from tests.corpus.samples import NEAR_TEXTS, SAMPLE_TABLE, read_corpus, to_ipc, write_table


def test_nulls_and_invalid_utf8_are_rejected(tmp_path: Path) -> None:
    raw = pa.array([b"fine", None, b"\xff\xfe", "é".encode()], pa.binary())
    broken = pa.Array.from_buffers(pa.string(), 4, raw.buffers(), raw.null_count)
    for name, column in (
        ("binary", raw),
        ("string", broken),
        ("dictionary", raw.dictionary_encode()),
    ):
        path = tmp_path / f"{name}.arrow"
        path.write_bytes(to_ipc(pa.ipc.new_file, pa.table({"text": column})))
        rows, rejected = read_corpus(FileCorpus.open([str(path)]), Columns())
        assert [row["text"] for row in rows] == ["fine", "é"], name
        assert [(entry.row, entry.reason) for entry in rejected] == [
            (1, "text is null"),
            (2, "text is not valid UTF-8"),
        ]


def test_null_id_is_rejected(tmp_path: Path) -> None:
    table = pa.table({"text": ["a", "b"], "id": pa.array([7, None])})
    pq.write_table(table, tmp_path / "a.parquet")
    rows, rejected = read_corpus(FileCorpus.open([str(tmp_path / "a.parquet")]), Columns(id="id"))
    assert [row["id"] for row in rows] == ["7"]
    assert [(entry.row, entry.reason) for entry in rejected] == [(1, "the id in id is null")]


def test_null_tokens_are_rejected() -> None:
    column = pa.array([["a", "b"], [], None, ["c", None]], pa.list_(pa.string()))
    rows, rejected = read_corpus(
        TableCorpus(pa.table({"words": column})), Columns(text=None, tokens="words")
    )
    assert [row["tokens"] for row in rows] == [["a", "b"], []]
    assert [entry.reason for entry in rejected] == [
        "words is null",
        "words has a token that is null or not valid UTF-8",
    ]


def test_column_of_another_type_is_a_usage_error() -> None:
    with pytest.raises(UsageError, match="column 'score' is double, not text"):
        read_corpus(TableCorpus(SAMPLE_TABLE), Columns(text="score"))
    with pytest.raises(UsageError, match="column 'text' is string, not lists"):
        read_corpus(TableCorpus(SAMPLE_TABLE), Columns(text=None, tokens="text"))


def test_uuids_become_ids_in_their_text_form(tmp_path: Path) -> None:
    names = [uuid.UUID(int=number) for number in range(4)]
    for number, kind in enumerate((pa.uuid(), pa.binary(16))):
        values = [name.bytes for name in names]
        column = (
            pa.array(values, pa.binary(16))
            if number
            else pa.array(values, pa.binary(16)).cast(kind)
        )
        write_table(pa.table({"text": NEAR_TEXTS, "key": column}), tmp_path / f"{number}.parquet")
        run = nk.dedup(tmp_path / f"{number}.parquet", id="key")
        assert run.clusters["id"].to_pylist() == [str(name) for name in names]
        assert run.statistics["rejected"] == 0


@pytest.mark.parametrize("kind", [pa.int64(), pa.int32(), pa.uint16()])
def test_token_ids_are_the_tokens_of_their_decimal_texts(kind: pa.DataType) -> None:
    ids = pa.array([[1, 22, 333], [], None, [4, None]], pa.list_(kind))
    checked = check_tokens(ids, "tokens")
    assert checked.values.to_pylist()[:2] == [["1", "22", "333"], []]
    assert sorted(checked.reasons) == [2, 3]
    rows = [list(range(start, start + 60)) for start in (0, 1000)]
    rows.append([*rows[0][:-1], 7])
    texts = [[str(token) for token in row] for row in rows]
    of_ids = nk.dedup({"tokens": rows}, tokens="tokens", threshold=0.8)
    of_texts = nk.dedup({"tokens": texts}, tokens="tokens", threshold=0.8)
    assert of_ids.kept.tolist() == of_texts.kept.tolist()
    assert of_ids.kept.sum() == 2


def test_lists_of_numbers_that_are_not_integers_are_not_tokens() -> None:
    with pytest.raises(UsageError, match="not lists of text or of integers"):
        check_tokens(pa.array([[1.5]]), "tokens")
