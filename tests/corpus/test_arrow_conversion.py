"""Tests of the conversion of rows, frames and datasets to Arrow."""

import itertools
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import duckdb
import nanoarrow
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.dataset
import pyarrow.parquet as pq
import pytest
from datasets import Dataset, DatasetDict

import nearkin as nk
from nearkin.corpus.arrow_conversion import ITERATOR_BLOCK, replace_views, to_table
from nearkin.errors import UsageError
from tests.corpus.samples import NEAR_TEXTS

ROWS = [{"id": 1, "text": "one"}, {"id": 2, "text": "two", "more": 0.5}]
TABLE = pa.Table.from_pylist([{**ROWS[0], "more": None}, ROWS[1]])
FRAME_OF_SPARK = type("DataFrame", (), {"__module__": "pyspark.sql.classic.dataframe"})()


class StreamOnly:
    """An object that has nothing but the Arrow interface for streams."""

    def __init__(self, values: Any) -> None:
        self.values = values

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        return self.values.__arrow_c_stream__(requested_schema)


class ArrayOnly:
    """An object that has nothing but the Arrow interface for one batch."""

    def __init__(self, values: Any) -> None:
        self.values = values

    def __arrow_c_array__(self, requested_schema: object | None = None) -> object:
        return self.values.__arrow_c_array__(requested_schema)


@pytest.mark.parametrize(
    "data",
    [
        ROWS,
        tuple(ROWS),
        iter(ROWS),
        (row for row in ROWS),
        TABLE.to_reader(),
        pl.from_arrow(TABLE).lazy(),
        Dataset.from_dict(TABLE.to_pydict()).to_iterable_dataset(),
        duckdb.from_arrow(TABLE),
        nanoarrow.ArrayStream(TABLE),
        nanoarrow.Array(TABLE.to_batches()[0]),
        pyarrow.dataset.dataset(TABLE),
        pyarrow.dataset.dataset(TABLE).scanner(),
        StreamOnly(TABLE),
        StreamOnly(TABLE.to_reader()),
        ArrayOnly(TABLE.to_batches()[0]),
        pl.DataFrame(TABLE).to_struct("rows"),
    ],
    ids=[
        "list",
        "tuple",
        "iterator",
        "generator",
        "reader",
        "lazy frame",
        "iterable dataset",
        "DuckDB relation",
        "nanoarrow stream",
        "nanoarrow array",
        "pyarrow dataset",
        "pyarrow scanner",
        "stream interface",
        "stream interface, once",
        "array interface",
        "column of structs",
    ],
)
def test_rows_of_every_kind_become_a_table(data: Any) -> None:
    table = to_table(data)
    assert table.select(["id", "text", "more"]).to_pylist() == TABLE.to_pylist()


@pytest.mark.parametrize("name", ["dedup", "pairs", "sketch", "passages"])
def test_functions_take_relations_of_duckdb_and_other_streams(name: str) -> None:
    texts = pa.table({"text": [*NEAR_TEXTS, *NEAR_TEXTS]})
    function = getattr(nk, name)
    expected = _content(function(texts["text"]))
    sources = (
        duckdb.from_arrow(texts),
        texts.to_reader(max_chunksize=1),
        StreamOnly(texts),
        StreamOnly(texts["text"]),
    )
    for data in sources:
        assert _content(function(data)) == expected


def test_source_that_fails_is_named_with_the_reason(tmp_path: Path) -> None:
    def read_batches() -> Iterator[pa.RecordBatch]:
        yield TABLE.to_batches()[0]
        raise OSError("the disk is gone")

    reader = pa.RecordBatchReader.from_batches(TABLE.schema, read_batches())
    with pytest.raises(UsageError, match=r"rows of pyarrow.*Reader: .*the disk is gone; c"):
        nk.dedup(reader)
    path = tmp_path / "a.parquet"
    pq.write_table(TABLE, path)
    dataset = pyarrow.dataset.dataset(path)
    path.write_bytes(b"PAR1" + bytes(9) + b"PAR1")
    with pytest.raises(UsageError, match=r"rows of .*FileSystemDataset: .*a\.parquet.*; correct"):
        nk.dedup(dataset)
    path.unlink()
    with pytest.raises(UsageError, match=r"a\.parquet"):
        nk.dedup(dataset)


def _content(result: Any) -> Any:
    if isinstance(result, np.ndarray):
        return result.tolist()
    table = getattr(result, type(result).__name__.removesuffix("Result").lower(), None)
    return (result.clusters if table is None else table).to_pydict()


def test_iterator_is_read_in_blocks_whose_columns_are_united() -> None:
    rows = ITERATOR_BLOCK + 1
    last = {"text": "last", "late": 1}
    table = to_table(itertools.chain(({"text": "x"} for _ in range(rows - 1)), [last]))
    assert table.num_rows == rows
    assert table["late"].null_count == rows - 1
    with pytest.raises(UsageError, match="the values are not of one Arrow type"):
        to_table({"text": str(n) if n < rows - 1 else n} for n in range(rows))


def test_last_block_of_an_iterator_may_hold_the_name_of_a_file(tmp_path: Path) -> None:
    texts = [f"text {number}" for number in range(ITERATOR_BLOCK)] + [str(tmp_path)]
    assert to_table(iter(texts))["text"].to_pylist() == texts
    with pytest.raises(UsageError, match="paths of existing files"):
        to_table(iter([str(tmp_path)]))


@pytest.mark.parametrize("other", ["a text", None], ids=str)
@pytest.mark.parametrize("is_reversed", [False, True])
def test_iterator_does_not_mix_dictionaries_with_other_values(
    other: str | None, is_reversed: bool
) -> None:
    """The values of two blocks were united as columns."""
    blocks: list[list[Any]] = [[{"id": "a", "text": "one"}] * ITERATOR_BLOCK, [other]]
    if is_reversed:
        blocks = [[other] * ITERATOR_BLOCK, blocks[0][:1]]
    with pytest.raises(UsageError, match="some are dictionaries and others are not"):
        to_table(itertools.chain(*blocks))


def test_iterator_of_paths_is_read_as_files(tmp_path: Path) -> None:
    for name in ("a.jsonl", "b.jsonl"):
        (tmp_path / name).write_text('{"text": "one two three four"}\n')
    assert nk.dedup(tmp_path.glob("*.jsonl")).kept.sum() == 1
    assert len(nk.dedup(iter(()))) == 0


def test_iterators_of_texts_become_a_table() -> None:
    assert to_table(text for text in ("one", "two")).to_pydict() == {"text": ["one", "two"]}
    assert nk.dedup(text for text in ("one two three", "one two three")).kept.sum() == 1


@pytest.mark.parametrize(
    ("data", "name"),
    [
        (5, "int"),
        (None, "NoneType"),
        (b"one", "bytes"),
        ({"one", "two"}, "set"),
        (SimpleNamespace(), "types.SimpleNamespace"),
    ],
)
def test_error_for_a_bad_type_names_it_and_the_valid_ones(data: Any, name: str) -> None:
    for call in (nk.dedup, nk.pairs, nk.frequencies):
        with pytest.raises(nk.UsageError, match=rf"^{name} is not a table; give an Arrow table"):
            call(data)
    with pytest.raises(nk.UsageError, match=rf"^{name} is not a column of texts; give a list"):
        nk.sketch(data)


def test_lists_of_existing_paths_are_not_taken_as_texts(tmp_path: Path) -> None:
    paths = [tmp_path / "a.txt", tmp_path / "b.txt"]
    for path in paths:
        path.write_text("one two three")
    names = [str(path) for path in paths]
    for call in (nk.dedup, nk.pairs, nk.frequencies):
        for data in (names, tuple(names)):
            with pytest.raises(nk.UsageError, match=r"are paths of existing files.*\[Path\(path\)"):
                call(data)
    with pytest.raises(nk.UsageError, match="are paths of existing files"):
        nk.dedup(name for name in names)
    # what the message advises works
    assert nk.dedup([Path(path) for path in names]).kept.tolist() == [True, False]
    assert nk.dedup({"text": names}).kept.tolist() == [True, True]
    # a function that reads no files advises something else
    with pytest.raises(nk.UsageError, match=r"existing files.*pass pyarrow.array\(paths\)"):
        nk.sketch(tuple(names))
    assert len(nk.sketch(pa.array(names))) == 2
    # a list with any other text holds texts
    assert nk.dedup([*names, "one two three"]).kept.sum() == 3
    assert nk.dedup([names[0], paths[1]]).kept.sum() == 1


@pytest.mark.parametrize(
    "table",
    [
        {"tokens": [["a"]], "id": [1]},
        pa.table({"tokens": [["a"]], "id": [1]}),
        pd.DataFrame({"tokens": [["a"]], "id": [1]}),
        pl.DataFrame({"tokens": [["a"]], "id": [1]}),
        Dataset.from_dict({"tokens": [["a"]], "id": [1]}),
    ],
    ids=["mapping", "arrow", "pandas", "polars", "datasets"],
)
def test_sketch_of_a_table_names_its_columns(table: Any) -> None:
    with pytest.raises(
        nk.UsageError, match=r"is a table, not a column \(it has 'tokens', 'id'\); pass one"
    ):
        nk.sketch(table)


def test_sketch_of_token_lists_is_that_of_their_shingles() -> None:
    spec = nk.Spec(n=1, k=64)
    tokens = [["one", "two"], ["three"]]
    np.testing.assert_array_equal(nk.sketch(tokens, spec), nk.sketch(["one two", "three"], spec))
    with pytest.raises(nk.UsageError, match="row 1: tokens has a token that is null"):
        nk.sketch([["one"], ["two", None]])


def test_frames_of_spark_are_refused_with_the_right_function() -> None:
    for call in (nk.dedup, nk.pairs, nk.frequencies, nk.sketch):
        with pytest.raises(nk.UsageError, match=r"call nearkin\.spark\.dedup\(frame, id=\.\.\.\)"):
            call(FRAME_OF_SPARK)


def test_spark_refuses_tables_in_memory() -> None:
    pytest.importorskip("pyspark")
    with pytest.raises(nk.UsageError, match="is not a Spark DataFrame; nearkin"):
        nk.spark.dedup(pd.DataFrame({"id": ["a"], "text": ["one"]}), id="id")  # type: ignore[arg-type]


@pytest.mark.parametrize("depth", [100, 2_000, 100_000])
@pytest.mark.parametrize("wrap", [lambda value: [value], lambda value: {"a": value}])
def test_deeply_nested_values_are_refused(depth: int, wrap: Callable[[Any], Any]) -> None:
    nested: Any = "one two three"
    for _ in range(depth):
        nested = wrap(nested)
    with pytest.raises(nk.UsageError, match="nested more than 64 times"):
        nk.dedup(["one two three", nested])
    with pytest.raises(nk.UsageError, match="nested more than 64 times"):
        nk.dedup({"text": ["one two three", nested]})


def test_several_datasets_are_refused_by_name() -> None:
    data = DatasetDict(train=Dataset.from_list(ROWS), test=Dataset.from_list(ROWS))
    with pytest.raises(nk.UsageError, match=r"\('train', 'test'\); pass one of them.*'train'"):
        nk.dedup(data)


def test_columns_of_different_lengths_are_refused() -> None:
    with pytest.raises(nk.UsageError, match=r"different numbers of rows \('id': 1, 'text': 2\)"):
        nk.dedup({"id": [1], "text": ["one", "two"]})


def test_lists_of_paths_hold_nothing_else(tmp_path: Path) -> None:
    with pytest.raises(nk.UsageError, match="int is not a path, and other entries"):
        nk.dedup([tmp_path, 5])


def test_polars_categories_and_nested_strings_are_converted(tmp_path: Path) -> None:
    frame = pl.DataFrame(
        {
            "text": NEAR_TEXTS,
            "category": pl.Series(["b", None, "a", "b"], dtype=pl.Categorical),
            "tags": [["x", "y"], None, [], ["x", None]],
            "facts": [{"deep": ["p"]}, None, {"deep": []}, {"deep": None}],
        }
    )
    result = nk.dedup(
        frame, keep="category asc, tags desc", block_by="category", source="tags", split="facts"
    )
    assert result.kept.tolist() == [False, True, True, True]
    assert result.filter(frame)["tags"].to_list() == [None, [], ["x", None]]
    kept = pq.read_table(result.write(tmp_path / "out") / "kept" / "documents.parquet")
    assert kept["facts"].to_pylist() == [None, {"deep": []}, {"deep": None}]


def test_type_without_an_arrow_equivalent_is_an_error() -> None:
    wide = pl.Series([[1], [2], [3], [2**100]], dtype=pl.List(pl.Int128))
    frame = pl.DataFrame({"text": NEAR_TEXTS, "wide": wide})
    stream = SimpleNamespace(__arrow_c_stream__=frame.__arrow_c_stream__)
    with pytest.raises(UsageError, match=r"Namespace: .*; .* cast or drop a column of a type"):
        nk.dedup(stream)


@pytest.mark.parametrize(
    "data",
    [
        ["fine", "not \ud800"],
        {"text": ["not \ud800"]},
        [{"text": "not \ud800"}],
        pd.DataFrame({"text": pd.Series(["not \ud800"], dtype=object)}),
    ],
    ids=["list", "mapping", "dictionaries", "pandas"],
)
def test_lone_surrogates_are_a_usage_error(data: Any) -> None:
    with pytest.raises(UsageError, match="character 4 is a lone surrogate"):
        to_table(data)


def test_series_with_lone_surrogates_and_repeated_column_names_are_usage_errors() -> None:
    with pytest.raises(UsageError, match="lone surrogate"):
        nk.sketch(pd.Series(["\ud800"], dtype=object))
    repeated = pd.DataFrame([["one", "two"]], columns=["text", "text"])
    with pytest.raises(UsageError, match=r"cannot become an Arrow table: .*\['text', 'text'\]"):
        nk.dedup(repeated)


@pytest.mark.parametrize("start", [0, 1, 3, 6])
def test_slices_of_run_end_encoded_columns_have_their_own_rows(start: int) -> None:
    ends = pa.array([1, 2, 4, 6], pa.int32())
    runs = pa.RunEndEncodedArray.from_arrays(ends, ["a", None, "b", "c"])
    values = ["a", None, "b", "b", "c", "c"]
    table = pa.table({"text": runs}).slice(start)
    assert to_table(table)["text"].to_pylist() == values[start:]


def test_run_over_a_slice_with_run_end_encoded_ids_has_the_ids_of_its_rows() -> None:
    ids = pa.RunEndEncodedArray.from_arrays(pa.array([1, 2, 3, 4], pa.int32()), list("abcd"))
    table = pa.table({"id": ids, "text": NEAR_TEXTS[:4]}).slice(2)
    assert nk.dedup(table, id="id").clusters.arrow["id"].to_pylist() == ["c", "d"]


def test_replaced_views_keep_names_metadata_and_nullability() -> None:
    fields = [
        pa.field("x", pa.string_view(), metadata={"a": "b"}),
        pa.field("x", pa.int64(), nullable=False),
        pa.field("y", pa.list_(pa.field("z", pa.binary_view(), nullable=False))),
    ]
    columns = [["a", None], [1, 2], [[b"\xff"], []]]
    schema = pa.schema(fields, {"facts": "kept"})
    arrays = [pa.array(values, f.type) for values, f in zip(columns, fields, strict=True)]
    plain = replace_views(pa.table(arrays, schema=schema))
    assert plain.schema.equals(
        pa.schema(
            [
                pa.field("x", pa.large_string(), metadata={"a": "b"}),
                fields[1],
                pa.field("y", pa.list_(pa.field("z", pa.large_binary(), nullable=False))),
            ],
            {"facts": "kept"},
        ),
        check_metadata=True,
    )
    assert [column.to_pylist() for column in plain.columns] == columns


def test_an_iterable_dataset_is_read_in_batches_of_arrow() -> None:
    rows = Dataset.from_dict({"text": ["one", "two", "three"]})
    streamed = rows.to_iterable_dataset().filter(lambda row: row["text"] != "two")
    assert to_table(streamed)["text"].to_pylist() == ["one", "three"]
    assert to_table(streamed.filter(lambda _: False)).num_rows == 0
    stored = rows.data.table["text"].chunk(0).buffers()[2]
    assert to_table(rows)["text"].chunk(0).buffers()[2].address == stored.address


def test_matrices_of_another_byte_order_are_those_of_this_machine() -> None:
    matrix = np.arange(6.0).reshape(2, 3)
    assert to_table(matrix.astype(">f4")) == to_table(matrix.astype("<f4"))


def test_matrices_without_columns_are_refused() -> None:
    with pytest.raises(UsageError, match="the matrix have no columns"):
        to_table(np.zeros((3, 0)))
