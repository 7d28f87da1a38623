"""Tests of integers of any size, which Arrow does not take as they are."""

import io
import json
import tarfile
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import nearkin as nk
from nearkin.cli.app import run
from nearkin.corpus.arrow_conversion import ITERATOR_BLOCK, to_chunked, to_table
from nearkin.corpus.formats.json_rows import parse_exact_json
from nearkin.corpus.integers import concat_tables, convert_values
from nearkin.errors import UsageError

HALF = 1 << 63
COLUMNS: dict[str, tuple[list[Any], pa.DataType]] = {
    "signed": ([-HALF, HALF - 1, None], pa.int64()),
    "unsigned": ([0, HALF, None, 2 * HALF - 1], pa.uint64()),
    "both": ([-1, HALF], pa.decimal128(38)),
    "long": ([2 * HALF, None], pa.decimal128(38)),
    "38 digits": ([10**38 - 1, -(10**38) + 1], pa.decimal128(38)),
    "76 digits": ([10**38, -(10**76) + 1], pa.decimal256(76)),
    "numpy": ([np.uint64(HALF), 1], pa.uint64()),
    "floats": ([0.5, HALF, 1 << 54 | 1], pa.float64()),
    "lists": ([[HALF], None, [], [1, None]], pa.list_(pa.uint64())),
    "structs": ([{"a": {"b": HALF}}, {"a": None}, {}, None], None),
    "lists of structs": ([[{"a": -1}, {"a": HALF}], [None]], None),
}
FORMS: dict[str, Callable[[list[Any]], Any]] = {
    "mapping": lambda values: {"n": values},
    "rows": lambda values: [{"n": value} for value in values],
    "iterator": lambda values: ({"n": value} for value in values),
    "array of objects": lambda values: {"n": np.array(values, object)},
    "pandas": lambda values: pd.DataFrame({"m": 1, "n": pd.Series(values, dtype=object)}),
    "pandas alone": lambda values: pd.DataFrame({"n": pd.Series(values, dtype=object)}),
    "pandas series": lambda values: {"n": pd.Series(values, dtype=object)},
}


def plain(value: Any) -> Any:
    """Returns a value with whole numbers in place of decimals, and without absent fields."""
    if isinstance(value, Decimal):
        return int(value)
    if isinstance(value, dict):
        return {name: plain(item) for name, item in value.items() if item is not None}
    return [plain(item) for item in value] if isinstance(value, list) else value


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", [name for name in COLUMNS if "s" not in name or name == "both"])
def test_columns_of_every_form_hold_all_integers(name: str, form: str) -> None:
    values, kind = COLUMNS[name]
    column = to_table(FORMS[form](values))["n"]
    assert column.type == kind
    assert plain(column.to_pylist()) == values


@pytest.mark.parametrize("name", COLUMNS)
def test_integers_of_lists_and_structs_keep_their_digits(name: str) -> None:
    values, kind = COLUMNS[name]
    column = convert_values(values)
    assert kind in (None, column.type)
    expected = [float(value) for value in values] if name == "floats" else plain(values)
    assert plain(column.to_pylist()) == expected


def test_number_with_too_many_digits_is_refused_with_what_to_do() -> None:
    with pytest.raises(UsageError, match="more than 76 digits; pass such numbers as texts"):
        to_chunked([10**76])
    with pytest.raises(UsageError, match="not of one Arrow type"):
        to_chunked([HALF, "text"])
    with pytest.raises(UsageError, match=r"column .n. has values of types that have no common"):
        to_table(pd.DataFrame({"text": ["a", "b"], "n": [HALF, "x"]}))


@pytest.mark.parametrize(("first", "kind"), [(1, pa.uint64()), (-1, pa.decimal128(38))])
def test_blocks_of_an_iterator_are_combined(first: int, kind: pa.DataType) -> None:
    numbers = [first] * ITERATOR_BLOCK + [HALF]
    column = to_table({"n": number} for number in numbers)["n"]
    assert column.type == kind
    assert plain(column.to_pylist()) == numbers


def test_tables_with_other_columns_are_combined() -> None:
    tables = [
        pa.table({"n": [1]}),
        pa.table({"m": ["a"]}),
        pa.table({"n": pa.array([HALF], pa.uint64())}),
    ]
    assert concat_tables(tables)["n"].to_pylist() == [1, None, HALF]


@pytest.mark.parametrize("values", [[HALF, -1], [1, None], [[4 * HALF], []], [{"a": HALF}, None]])
def test_columns_of_polars_hold_all_integers(values: list[Any]) -> None:
    shapes = {list: pl.List(pl.Int128), dict: pl.Struct({"a": pl.UInt128}), int: pl.Int128}
    for kind in (pl.Object, shapes[type(values[0])]):
        # The values of Python objects were their addresses in memory.
        frame = pl.DataFrame({"m": ["x", None], "n": pl.Series(values, dtype=kind)})
        for table in (to_table(frame), to_table(frame.lazy()), to_table({"n": frame["n"]})):
            assert plain(table["n"].to_pylist()) == plain(values)
        assert to_table(frame).column_names == ["m", "n"]
        assert nk.dedup(frame, text="m", on_error="quarantine").filter(frame)["n"][0] is not None


def test_integers_of_polars_have_the_types_of_those_of_python() -> None:
    frame = pl.DataFrame({"n": [2**127 - 1]})
    assert frame.schema["n"] == pl.Int128
    assert to_table(frame).schema.field("n").type == pa.decimal256(76)
    with pytest.raises(UsageError, match=r"a type that Arrow does not have .*; cast or drop it"):
        to_table(pl.DataFrame({"n": pl.Series([object()], dtype=pl.Object)}))


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(
    "values", [[2 * HALF - 1, 2 * HALF - 2, 0], [-1, 2 * HALF - 2, 0], [-1, HALF, None, 1 << 65]]
)
def test_fingerprints_of_python_integers_are_compared(form: str, values: list[Any]) -> None:
    result = nk.dedup(FORMS[form](values), fingerprint="n", distance=1)
    assert result.statistics["removed"] == (values[-1] == 0)
    assert result.rejected["reason"].to_pylist() == (
        [] if values[-1] == 0 else ["n is null", "n is not an integer of 64 bits"]
    )


def test_ids_and_other_columns_keep_their_digits() -> None:
    ids = [HALF + 1, 2**64, -1, 3]
    data = {"id": ids, "text": ["a b c", "a b c", "d e f", "g h i"], "n": [-(2**70)] * 4}
    result = nk.dedup(data, id="id", same="n")
    assert result.clusters["id"].to_pylist() == list(map(str, ids))
    assert result.statistics["kept"] == 1
    checked = nk.check({"id": [5], "text": ["a b c"]}, {"id": [HALF], "text": ["a b c"]}, id="id")
    assert checked.pairs["id_b"].to_pylist() == [str(HALF)]


@pytest.mark.parametrize("suffix", [".jsonl", ".json"])
def test_kept_rows_of_json_keep_their_digits_in_other_formats(tmp_path: Path, suffix: str) -> None:
    numbers = [HALF, -1, 2**64 + 1]
    rows = [{"text": f"text {number}", "n": number, "m": [number]} for number in numbers]
    lines = [json.dumps(row) for row in rows]
    source = tmp_path / f"rows{suffix}"
    source.write_text("\n".join(lines) if suffix == ".jsonl" else f"[{','.join(lines)}]")
    out = tmp_path / "kept.parquet"
    assert run(["dedup", str(source), "--text", "text", "--out", str(out), "--quiet"]) == 0
    assert [plain(row) for row in pq.read_table(out).to_pylist()] == rows


def test_numbers_of_tar_samples_keep_their_digits(tmp_path: Path) -> None:
    path = tmp_path / "samples.tar"
    with tarfile.open(path, "w") as archive:
        for number in (HALF, 2**64 + 1):
            for name, content in (("txt", f"text {number}"), ("json", json.dumps({"n": number}))):
                member = tarfile.TarInfo(f"{number}.{name}")
                member.size = len(content)
                archive.addfile(member, io.BytesIO(content.encode()))
    result = nk.dedup(str(path), id="json.n")
    assert result.clusters["id"].to_pylist() == [str(HALF), str(2**64 + 1)]


def test_json_with_long_digits_in_texts_is_parsed() -> None:
    for text in ('{"a": "' + "9" * 30 + '"}', "9" * 300, "[" * 3 + "9" * 19 + "]" * 3):
        assert parse_exact_json(text.encode()) is not None
    with pytest.raises(ValueError, match="line 1 column"):
        parse_exact_json(b"9" * 30 + b"{")
