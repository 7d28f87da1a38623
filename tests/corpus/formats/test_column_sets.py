"""Tests of columns that are decoded one set after another."""

import errno
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from nearkin.corpus.foreign_errors import DamageError
from nearkin.corpus.formats import column_sets
from nearkin.corpus.formats.base import ItemsBeforeDamage
from nearkin.corpus.formats.column_sets import decode_in_turn
from nearkin.errors import RunError

TABLE = pa.table({name: [f"{name}{at}" for at in range(20)] for name in "abcd"})


def batches_of(names: str, rows: int, log: list[str], damage: int = 20) -> Iterator[pa.RecordBatch]:
    """Yields batches of a number of rows with some columns, and is damaged from a row on."""
    for batch in TABLE.select(list(names)).slice(0, damage).to_batches(rows):
        log.append(names)
        yield batch
    log.append(f"end of {names}")
    if damage < 20:
        raise ValueError(f"{names} is damaged")


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The folder of the system, in which nothing is left."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    yield tmp_path
    assert list(tmp_path.iterdir()) == []


def test_sets_with_other_batches_follow_each_other() -> None:
    log: list[str] = []
    sets = [batches_of("db", 7, log), batches_of("c", 3, log), batches_of("a", 5, log)]
    joined = decode_in_turn(sets, "abcd")
    first = next(joined)
    # A set is decoded to its end before the next one begins, and the last one bit by bit.
    assert log == ["db"] * 3 + ["end of db"] + ["c"] * 7 + ["end of c", "a"]
    assert pa.Table.from_batches([first, *joined]).equals(TABLE)


@pytest.mark.parametrize("damaged", ["ab", "cd"])
def test_rows_before_damage_are_followed_by_the_error(damaged: str) -> None:
    sets = [batches_of(names, 4, [], 10 if names == damaged else 20) for names in ("ab", "cd")]
    until = ItemsBeforeDamage(decode_in_turn(sets, "abcd"))
    assert pa.Table.from_batches(until).equals(TABLE.slice(0, 10))
    assert str(until.damage) == f"{damaged} is damaged"


def test_damage_before_the_first_row_is_an_error() -> None:
    sets = [batches_of("ab", 4, [], 0), batches_of("cd", 4, [])]
    with pytest.raises(DamageError, match="ab is damaged"):
        list(decode_in_turn(sets, "abcd"))


def test_dictionaries_of_waiting_columns_are_not_in_memory_together() -> None:
    def long_values(at: int) -> Iterator[pa.RecordBatch]:
        values = pa.DictionaryArray.from_arrays(pa.array([0, 0]), pa.array([f"{at}" * (1 << 20)]))
        yield pa.record_batch({f"c{at}": values})

    before = pa.total_allocated_bytes()
    names = [f"c{at}" for at in range(10, 40)]
    (batch,) = decode_in_turn([long_values(at) for at in range(10, 40)], names)
    assert batch.schema.names == names
    assert pa.total_allocated_bytes() - before < 8 << 20


def test_full_disk_is_not_damage_of_the_file(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(column_sets, "_write", fail)
    with pytest.raises(RunError, match=r"cannot write in .*: No space left on device"):
        list(decode_in_turn([batches_of("ab", 4, []), batches_of("cd", 4, [])], "abcd"))
