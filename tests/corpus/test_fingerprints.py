"""Tests of the forms of fingerprints, through every format of inputs."""

import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from nearkin.corpus import Columns, FileCorpus, TableCorpus
from nearkin.corpus.columns import ContentField
from nearkin.corpus.fingerprints import (
    check_fingerprints,
    to_fingerprint_bytes,
)
from nearkin.errors import UsageError
from tests.corpus.samples import read_corpus

WORDS = [0, 1, 255, 2**63, 2**64 - 1, 0x0123456789ABCDEF]
COLUMNS = Columns(text=None, fingerprint="hash")


def as_bytes(words: list[int]) -> list[bytes]:
    return [word.to_bytes(8, "big") for word in words]


@pytest.mark.parametrize(
    "column",
    [
        pa.array(WORDS, pa.uint64()),
        pa.array(np.array(WORDS, np.uint64).view(np.int64)),
        pa.array([f"{word:016x}" for word in WORDS]),
        pa.array([f"{word:016X}" for word in WORDS], pa.large_string()),
        pa.array([f"0x{word:016x}" for word in WORDS], pa.string_view()),
        pa.array(as_bytes(WORDS), pa.binary()),
        pa.array(as_bytes(WORDS), pa.binary(8)),
        pa.array([f"{word:016x}" for word in WORDS]).dictionary_encode(),
    ],
    ids=lambda column: str(column.type),
)
def test_integers_texts_and_bytes_are_the_same_fingerprints(column: pa.Array) -> None:
    for start in (0, 2):
        checked = check_fingerprints(column.slice(start), "hash", 64)
        assert checked.values.to_pylist() == as_bytes(WORDS[start:])
        assert not checked.reasons


def test_long_fingerprints_are_bytes_or_texts() -> None:
    content = [bytes(range(32)), bytes(reversed(range(32)))]
    for column in (pa.array(content), pa.array([value.hex() for value in content])):
        assert check_fingerprints(column, "hash", 256).values.to_pylist() == content


def test_values_that_are_no_fingerprints_are_rejected_with_the_reason() -> None:
    texts = pa.array(["0" * 16, None, "0" * 15, "g" * 16, "é" * 8, " " * 16, "", "0x" + "f" * 16])
    assert check_fingerprints(texts, "hash", 64).reasons == {
        1: "hash is null",
        2: "hash has 15 hexadecimal digits instead of 16",
        3: "hash has a character that is not a hexadecimal digit",
        4: "hash has a character that is not a hexadecimal digit",
        5: "hash has a character that is not a hexadecimal digit",
        6: "hash has 0 hexadecimal digits instead of 16",
    }
    raw = pa.array([bytes(8), bytes(9), None, b""])
    assert check_fingerprints(raw, "hash", 64).reasons == {
        1: "hash has 9 bytes instead of 8",
        2: "hash is null",
        3: "hash has 0 bytes instead of 8",
    }
    assert check_fingerprints(pa.nulls(2), "hash", 64).reasons == {
        0: "hash is null",
        1: "hash is null",
    }


@pytest.mark.parametrize(
    "column", [pa.array([1.5]), pa.array([[1]]), pa.array([True]), pa.array([1], pa.int32())]
)
def test_a_column_of_another_type_is_an_error(column: pa.Array) -> None:
    with pytest.raises(UsageError, match="column 'hash' is"):
        check_fingerprints(column, "hash", 64)


def test_integers_have_64_bits() -> None:
    with pytest.raises(UsageError, match="does not hold fingerprints of 128 bits"):
        check_fingerprints(pa.array([1]), "hash", 128)


@pytest.mark.parametrize("value", [2**64, -(2**63) - 1, 1.0, True, None, [1], "1", "x" * 16])
def test_values_of_python_that_are_no_fingerprints(value: object) -> None:
    assert to_fingerprint_bytes(value, 64) is None


def test_every_format_has_the_same_fingerprints_and_rejected_rows(tmp_path: Path) -> None:
    texts = [f"{word:016x}" for word in WORDS]
    rows = [*texts[:3], "xyz", *texts[3:], "g" * 16]
    table = pa.table({"hash": rows})
    pq.write_table(table, tmp_path / "a.parquet")
    lines = [json.dumps({"hash": row}) for row in rows]
    (tmp_path / "a.jsonl").write_text("\n".join(lines))
    (tmp_path / "a.json").write_text(f"[{','.join(lines)}]")
    (tmp_path / "a.csv").write_text("\n".join(["hash", *rows]))
    expected, expected_rejected = read_corpus(TableCorpus(table), COLUMNS)
    assert [row["fingerprint"] for row in expected] == as_bytes(WORDS)
    for name in ("a.parquet", "a.jsonl", "a.json", "a.csv"):
        found, rejected = read_corpus(FileCorpus.open([str(tmp_path / name)]), COLUMNS)
        assert [(row["fingerprint"], row["at"]) for row in found] == [
            (row["fingerprint"], row["at"]) for row in expected
        ], name
        assert [(entry.row, entry.reason) for entry in rejected] == [
            (entry.row, entry.reason) for entry in expected_rejected
        ], name


@pytest.mark.parametrize(
    "columns",
    [
        Columns(text=None, fingerprint="text"),
        Columns(text=None, fields=(ContentField("text"),)),
    ],
)
def test_texts_without_columns_hold_neither_fingerprints_nor_fields(
    columns: Columns, tmp_path: Path
) -> None:
    (tmp_path / "a.txt").write_text("00000000000000ff")
    with pytest.raises(UsageError, match="is one text without columns"):
        FileCorpus.open([str(tmp_path)]).check(columns)


def test_json_integers_are_fingerprints_with_and_without_a_sign(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text('{"hash": -1}\n{"hash": 18446744073709551615}\n{"hash": 18446744073709551616}')
    rows, rejected = read_corpus(FileCorpus.open([str(path)]), COLUMNS)
    assert [row["fingerprint"] for row in rows] == [b"\xff" * 8] * 2
    assert [entry.row for entry in rejected] == [2]
