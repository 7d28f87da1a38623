"""Tests of the text form of values of every type, in every format and role."""

import datetime
import decimal
import itertools
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.ipc
import pyarrow.parquet as pq
import pytest

from nearkin.corpus import Columns
from nearkin.corpus.text_forms import format_as_readable_text
from nearkin.corpus.validation import check_ids
from nearkin.engine.options import RunOptions
from nearkin.runs.dedup import run_dedup
from nearkin.runs.job import Job
from nearkin.runtime.progress import Silent
from tests.corpus.samples import NEAR_TEXTS, write_table


def arrow_maker(values: list[Any], kind: pa.DataType) -> Callable[[], pa.Array]:
    return lambda: pa.array(values, kind)


DAY = datetime.date(2024, 1, 2)


MOMENT = datetime.datetime(2024, 1, 2, 3, 4, 5, 120_000)


TYPED_COLUMNS: dict[str, tuple[Callable[[], pa.Array], list[str | None]]] = {
    "string": (arrow_maker(["b", None, "a", "b"], pa.string()), ["b", None, "a", "b"]),
    "large_string": (arrow_maker(["b", None, "a", "b"], pa.large_string()), ["b", None, "a", "b"]),
    "string_view": (arrow_maker(["b", None, "a", "b"], pa.string_view()), ["b", None, "a", "b"]),
    "binary": (arrow_maker([b"b", None, b"\xff", b"b"], pa.binary()), ["b", None, "\\xff", "b"]),
    "binary_view": (
        arrow_maker([b"b", None, b"\xff", b"b"], pa.binary_view()),
        ["b", None, "\\xff", "b"],
    ),
    "fixed_binary": (
        arrow_maker([b"ab", None, b"\xff\x00", b"ab"], pa.binary(2)),
        ["6162", None, "ff00", "6162"],
    ),
    "uuid_bytes": (
        arrow_maker(
            [uuid.UUID(int=7).bytes, None, uuid.UUID(int=8).bytes, uuid.UUID(int=9).bytes],
            pa.binary(16),
        ),
        [str(uuid.UUID(int=7)), None, str(uuid.UUID(int=8)), str(uuid.UUID(int=9))],
    ),
    "uuid": (
        arrow_maker([uuid.UUID(int=7), None, uuid.UUID(int=8), uuid.UUID(int=9)], pa.uuid()),
        [str(uuid.UUID(int=7)), None, str(uuid.UUID(int=8)), str(uuid.UUID(int=9))],
    ),
    "int8": (arrow_maker([10, None, -9, 10], pa.int8()), ["10", None, "-9", "10"]),
    "int64": (
        arrow_maker([10, None, -(2**63), 2**63 - 1], pa.int64()),
        ["10", None, str(-(2**63)), str(2**63 - 1)],
    ),
    "uint64": (
        arrow_maker([10, None, 9, 2**64 - 1], pa.uint64()),
        ["10", None, "9", str(2**64 - 1)],
    ),
    "half": (arrow_maker([1.5, None, 2, 1.5], pa.float16()), ["1.5", None, "2", "1.5"]),
    "float": (arrow_maker([1.5, None, 2, float("nan")], pa.float32()), ["1.5", None, "2", "nan"]),
    "double": (
        arrow_maker([0.1, None, 1e300, float("inf")], pa.float64()),
        ["0.1", None, "1e+300", "inf"],
    ),
    "bool": (arrow_maker([True, None, False, True], pa.bool_()), ["true", None, "false", "true"]),
    "null": (arrow_maker([None] * 4, pa.null()), [None] * 4),
    "decimal": (
        arrow_maker([decimal.Decimal("1.10"), None] * 2, pa.decimal128(38, 2)),
        ["1.10", None, "1.10", None],
    ),
    "decimal256": (
        arrow_maker([decimal.Decimal("1.10"), None] * 2, pa.decimal256(60, 2)),
        ["1.10", None, "1.10", None],
    ),
    "date32": (
        arrow_maker([DAY, None, DAY, DAY], pa.date32()),
        ["2024-01-02", None, "2024-01-02", "2024-01-02"],
    ),
    "date64": (
        arrow_maker([DAY, None, DAY, DAY], pa.date64()),
        ["2024-01-02", None, "2024-01-02", "2024-01-02"],
    ),
    "time32": (
        arrow_maker([datetime.time(1, 2, 3), None] * 2, pa.time32("ms")),
        ["01:02:03", None] * 2,
    ),
    "time64": (
        arrow_maker([datetime.time(1, 2, 3, 500_000), None] * 2, pa.time64("us")),
        ["01:02:03.5", None] * 2,
    ),
    "timestamp": (
        arrow_maker([MOMENT, None] * 2, pa.timestamp("us")),
        ["2024-01-02 03:04:05.12", None] * 2,
    ),
    "timestamp_ns": (
        arrow_maker([MOMENT, None] * 2, pa.timestamp("ns")),
        ["2024-01-02 03:04:05.12", None] * 2,
    ),
    "timestamp_zone": (
        arrow_maker([MOMENT, None] * 2, pa.timestamp("ms", "Europe/Paris")),
        ["2024-01-02 03:04:05.12+00:00", None] * 2,
    ),
    "duration": (
        arrow_maker([datetime.timedelta(seconds=2), None] * 2, pa.duration("ms")),
        ["2000000000", None] * 2,
    ),
    "list": (
        arrow_maker([["a", "b"], None, [], ["a", None]], pa.list_(pa.string())),
        ['["a","b"]', None, "[]", '["a",null]'],
    ),
    "large_list": (
        arrow_maker([[1, 2], None, [], [3]], pa.large_list(pa.int16())),
        ["[1,2]", None, "[]", "[3]"],
    ),
    "fixed_list": (
        arrow_maker([[1, 2], None, [3, 4], [5, 6]], pa.list_(pa.int8(), 2)),
        ["[1,2]", None, "[3,4]", "[5,6]"],
    ),
    "list_of_views": (
        arrow_maker([["a"], None, [], ["b"]], pa.list_(pa.string_view())),
        ['["a"]', None, "[]", '["b"]'],
    ),
    "list_view": (
        arrow_maker([["a"], None, [], ["b"]], pa.list_view(pa.string())),
        ['["a"]', None, "[]", '["b"]'],
    ),
    "struct": (
        arrow_maker(
            [{"a": 1, "b": [DAY]}, None, {"a": None, "b": []}, {"a": 2, "b": None}],
            pa.struct({"a": pa.int8(), "b": pa.list_(pa.date32())}),
        ),
        ['{"a":1,"b":["2024-01-02"]}', None, '{"a":null,"b":[]}', '{"a":2,"b":null}'],
    ),
    "map": (
        arrow_maker([[("k", 1)], None, [], [("k", 2)]], pa.map_(pa.string(), pa.int8())),
        ['[{"key":"k","value":1}]', None, "[]", '[{"key":"k","value":2}]'],
    ),
    "dictionary": (
        lambda: pa.array(["b", None, "a", "b"]).dictionary_encode(),
        ["b", None, "a", "b"],
    ),
    "dictionary_of_views": (
        lambda: pa.DictionaryArray.from_arrays(
            pa.array([1, None, 0, 1], pa.uint32()), pa.array(["a", "b"], pa.string_view())
        ),
        ["b", None, "a", "b"],
    ),
    "run_ends": (lambda: pc.run_end_encode(pa.array(["b", None, "a", "b"])), ["b", None, "a", "b"]),
    "list_of_dictionary": (
        lambda: pa.ListArray.from_arrays(
            pa.array([0, 1, 2, 2, 3]), pa.array(["a", "b", "a"]).dictionary_encode()
        ),
        ['["a"]', '["b"]', "[]", '["a"]'],
    ),
}
"""The column of each type, with the text form of its values."""


@pytest.mark.parametrize("name", TYPED_COLUMNS)
def test_every_type_has_a_text_form(name: str) -> None:
    make, texts = TYPED_COLUMNS[name]
    assert format_as_readable_text(make()).to_pylist() == texts
    assert (
        format_as_readable_text(pa.concat_arrays([make(), make()]).slice(3, 4)).to_pylist()
        == (texts * 2)[3:7]
    )
    checked_ids = check_ids(make(), "value")
    assert [
        None if at in checked_ids.reasons else text
        for at, text in enumerate(checked_ids.values.to_pylist())
    ] == texts


TYPED_FORMATS = ("parquet", "arrow", "arrows", "jsonl", "csv")


ROLES = ("none", "id", "keep", "block_by", "source", "split", "all")


def sample_table(name: str) -> pa.Table:
    return pa.table({"text": NEAR_TEXTS, "value": TYPED_COLUMNS[name][0]()})


def read_table(path: Path) -> pa.Table:
    if path.suffix == ".parquet":
        return pq.read_table(path)
    with pa.memory_map(str(path)) as source:
        return (pa.ipc.open_file if path.suffix == ".arrow" else pa.ipc.open_stream)(
            source
        ).read_all()


def run_with_role(path: Path, out: Path, role: str, annotate: bool) -> dict[str, Any]:
    settings = RunOptions(threshold=0.8, keep="length desc")
    if role in ("keep", "all"):
        settings = RunOptions(keep="value desc, length desc")
    options = {name: "value" for name in ("block_by", "source", "split") if role in (name, "all")}
    settings = RunOptions(threshold=0.8, keep=settings.keep, **options)
    columns = Columns(
        id="value" if role == "id" else None, carried_columns=settings.carried_columns
    )
    job = Job((str(path),), out, columns, settings, annotate=annotate)
    return run_dedup(job, Silent()).to_json()


def cases(full: bool) -> list[tuple[str, str, str, bool]]:
    every = list(itertools.product(TYPED_COLUMNS, TYPED_FORMATS, ROLES, (False, True)))
    quick = [
        (name, form, role, annotate)
        for number, name in enumerate(TYPED_COLUMNS)
        for form, role, annotate in (
            (TYPED_FORMATS[number % 3], "all", number % 2 == 0),
            (TYPED_FORMATS[(number + 1) % 5], "id", number % 2 == 1),
        )
    ]
    return every if full else quick


def check_case(name: str, form: str, role: str, annotate: bool, folder: Path) -> None:
    """Checks that a run counts every row and that its kept files contain the column unchanged."""
    table, path = sample_table(name), folder / f"in.{form}"
    if not write_table(table, path):
        return
    record = run_with_role(path, folder / "out", role, annotate)
    counts = record["counts"]
    assert counts["read"] == counts["kept"] + counts["removed"] + counts["rejected"] == len(table)
    if role == "id" and form in TYPED_FORMATS[:3]:
        assert counts["rejected"] == TYPED_COLUMNS[name][1].count(None)
    if form not in TYPED_FORMATS[:3]:
        return
    stored, kept = read_table(path), read_table(folder / "out" / "kept" / path.name)
    assert kept.schema.field("value").equals(stored.schema.field("value"))
    texts = format_as_readable_text(
        stored["value"].combine_chunks()
        if stored["value"].num_chunks > 1
        else stored["value"].chunk(0)
    )
    rows = kept["text"].to_pylist()
    want = [
        value
        for text, value in zip(stored["text"].to_pylist(), texts.to_pylist(), strict=True)
        if text in rows
    ]
    assert [
        value
        for chunk in kept["value"].chunks
        for value in format_as_readable_text(chunk).to_pylist()
    ] == want
    if annotate and role != "id":
        assert rows == NEAR_TEXTS
        assert {"cluster", "kept"} <= set(kept.column_names)


@pytest.mark.parametrize("case", cases(False), ids=lambda case: "-".join(map(str, case)))
def test_column_of_any_type_can_have_any_role(
    case: tuple[str, str, str, bool], tmp_path: Path
) -> None:
    check_case(*case, tmp_path)


@pytest.mark.full
@pytest.mark.parametrize("name", TYPED_COLUMNS)
def test_every_type_works_in_every_format_and_role(name: str, tmp_path: Path) -> None:
    for number, case in enumerate(case for case in cases(True) if case[0] == name):
        folder = tmp_path / str(number)
        folder.mkdir()
        check_case(*case, folder)
