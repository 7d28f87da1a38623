"""Records that become slices."""

from collections.abc import Iterator
from datetime import date

import numpy as np
import pytest

from nearkin.corpus import Columns
from nearkin.corpus.formats import record_rows
from nearkin.corpus.formats.base import Reading, Writer
from nearkin.corpus.formats.record_rows import Record, RecordFormat
from nearkin.corpus.input_file import InputFile


class Numbers(RecordFormat):
    """Five records, of which the one with the number 1 is faulty, and damage behind them."""

    def records(self, file: InputFile, columns: Columns, *, whole: bool) -> Iterator[Record]:
        for number in range(5):
            fault = "it is 1" if number == 1 else None
            text = None if number == 3 else f"text {number}"
            yield Record({"text": text}, 10, fault, number if whole else None)
        raise ValueError("damage")

    def writer(self, file: InputFile, columns: Columns, target: str) -> Writer:
        raise NotImplementedError


FILE = InputFile("/numbers", "numbers")


def test_slices_divide_records_into_documents_and_rejected_rows(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(record_rows, "BATCH_ROWS", 2)
    slices = []
    with pytest.raises(ValueError, match="damage"):
        slices.extend(Numbers().read(FILE, Reading(Columns(), whole=True)))
    parts = Numbers().read(FILE, Reading(Columns(), whole=True))
    first, second, third = (next(parts) for _ in range(3))
    assert [part.rows.tolist() for part in (first, second, third)] == [[0], [2], [4]]
    assert [[entry.row for entry in part.rejected] for part in (first, second)] == [[1], [3]]
    assert [record.stored for record in second.complete_rows] == [2]
    assert third.next_row == 5


def test_reading_starts_at_a_row_and_takes_only_needed_ones() -> None:
    part = next(Numbers().read(FILE, Reading(Columns(), 2)))
    assert part.rows.tolist() == [2, 4]
    part = next(Numbers().read(FILE, Reading(Columns(), rows=np.array([0, 4]))))
    assert part.rows.tolist() == [0, 4]
    assert part.complete_rows is None


class Metadata(RecordFormat):
    """Records with dictionaries of different keys, and with values of different types."""

    def records(self, file: InputFile, columns: Columns, *, whole: bool) -> Iterator[Record]:
        for value in ({"a": 1}, {"b": [1, "x"]}, [{"a": 2}], date(2020, 1, 2), b"by", None):
            yield Record({"text": "some text", "value": value}, 10)

    def writer(self, file: InputFile, columns: Columns, target: str) -> Writer:
        raise NotImplementedError


@pytest.mark.parametrize("rows", [1, 2, 100])
def test_text_of_a_value_does_not_depend_on_other_values(
    rows: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(record_rows, "BATCH_ROWS", rows)
    parts = Metadata().read(FILE, Reading(Columns(carried_columns=("value",))))
    texts = [text for part in parts for text in part.documents[1].to_pylist()]
    assert texts == ['{"a":1}', '{"b":[1,"x"]}', '[{"a":2}]', "2020-01-02", "by", None]


class Mixed(RecordFormat):
    """Records with values of several types, of which some are not those of documents."""

    def records(self, file: InputFile, columns: Columns, *, whole: bool) -> Iterator[Record]:
        for value in (["a", "b"], 5, "text", None, [1.5, 2.5], ["c"]):
            yield Record({"text": value, "vector": value}, 10)

    def writer(self, file: InputFile, columns: Columns, target: str) -> Writer:
        raise NotImplementedError


@pytest.mark.parametrize("rows", [1, 2, 100])
@pytest.mark.parametrize(
    ("columns", "documents"),
    [
        (Columns(), [2]),
        (Columns(text=None, tokens="text"), [0, 5]),
        (Columns(text=None, vector="vector", dimensions=2), [4]),
        (Columns(text="text", joined=("vector",)), [2]),
    ],
)
def test_record_of_another_type_costs_itself(
    columns: Columns, documents: list[int], rows: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(record_rows, "BATCH_ROWS", rows)
    parts = list(Mixed().read(FILE, Reading(columns)))
    assert [row for part in parts for row in part.rows.tolist()] == documents
    rejected = [entry.row for part in parts for entry in part.rejected]
    assert rejected == sorted({*range(6)} - {*documents})
