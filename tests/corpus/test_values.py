"""Tests of columns of every type, format and role, and of columns with internal names."""

import datetime
import decimal
import itertools
import json
import tempfile
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.ipc
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

import nearkin as nk
from nearkin.corpus import Columns
from nearkin.corpus.text_forms import format_as_readable_text
from nearkin.corpus.validation import check_ids
from nearkin.engine.options import RunOptions
from nearkin.errors import UsageError
from nearkin.runs.dedup import run_dedup
from nearkin.runs.job import Job
from nearkin.runtime.progress import Silent

TEXTS = [
    "the quick brown fox jumps over the lazy dog",
    "the quick brown fox jumps over the lazy dog!",
    "an entirely different sentence about the weather",
    "The quick brown fox jumps over the lazy dog",
]
"""Rows 0, 1 and 3 are duplicates."""


def arrow(values: list[Any], kind: pa.DataType) -> Callable[[], pa.Array]:
    return lambda: pa.array(values, kind)


DAY = datetime.date(2024, 1, 2)
MOMENT = datetime.datetime(2024, 1, 2, 3, 4, 5, 120_000)
COLUMNS: dict[str, tuple[Callable[[], pa.Array], list[str | None]]] = {
    "string": (arrow(["b", None, "a", "b"], pa.string()), ["b", None, "a", "b"]),
    "large_string": (arrow(["b", None, "a", "b"], pa.large_string()), ["b", None, "a", "b"]),
    "string_view": (arrow(["b", None, "a", "b"], pa.string_view()), ["b", None, "a", "b"]),
    "binary": (arrow([b"b", None, b"\xff", b"b"], pa.binary()), ["b", None, "\\xff", "b"]),
    "binary_view": (
        arrow([b"b", None, b"\xff", b"b"], pa.binary_view()),
        ["b", None, "\\xff", "b"],
    ),
    "fixed_binary": (
        arrow([b"ab", None, b"\xff\x00", b"ab"], pa.binary(2)),
        ["6162", None, "ff00", "6162"],
    ),
    "uuid_bytes": (
        arrow(
            [uuid.UUID(int=7).bytes, None, uuid.UUID(int=8).bytes, uuid.UUID(int=9).bytes],
            pa.binary(16),
        ),
        [str(uuid.UUID(int=7)), None, str(uuid.UUID(int=8)), str(uuid.UUID(int=9))],
    ),
    "uuid": (
        arrow([uuid.UUID(int=7), None, uuid.UUID(int=8), uuid.UUID(int=9)], pa.uuid()),
        [str(uuid.UUID(int=7)), None, str(uuid.UUID(int=8)), str(uuid.UUID(int=9))],
    ),
    "int8": (arrow([10, None, -9, 10], pa.int8()), ["10", None, "-9", "10"]),
    "int64": (
        arrow([10, None, -(2**63), 2**63 - 1], pa.int64()),
        ["10", None, str(-(2**63)), str(2**63 - 1)],
    ),
    "uint64": (arrow([10, None, 9, 2**64 - 1], pa.uint64()), ["10", None, "9", str(2**64 - 1)]),
    "half": (arrow([1.5, None, 2, 1.5], pa.float16()), ["1.5", None, "2", "1.5"]),
    "float": (arrow([1.5, None, 2, float("nan")], pa.float32()), ["1.5", None, "2", "nan"]),
    "double": (
        arrow([0.1, None, 1e300, float("inf")], pa.float64()),
        ["0.1", None, "1e+300", "inf"],
    ),
    "bool": (arrow([True, None, False, True], pa.bool_()), ["true", None, "false", "true"]),
    "null": (arrow([None] * 4, pa.null()), [None] * 4),
    "decimal": (
        arrow([decimal.Decimal("1.10"), None] * 2, pa.decimal128(38, 2)),
        ["1.10", None, "1.10", None],
    ),
    "decimal256": (
        arrow([decimal.Decimal("1.10"), None] * 2, pa.decimal256(60, 2)),
        ["1.10", None, "1.10", None],
    ),
    "date32": (
        arrow([DAY, None, DAY, DAY], pa.date32()),
        ["2024-01-02", None, "2024-01-02", "2024-01-02"],
    ),
    "date64": (
        arrow([DAY, None, DAY, DAY], pa.date64()),
        ["2024-01-02", None, "2024-01-02", "2024-01-02"],
    ),
    "time32": (arrow([datetime.time(1, 2, 3), None] * 2, pa.time32("ms")), ["01:02:03", None] * 2),
    "time64": (
        arrow([datetime.time(1, 2, 3, 500_000), None] * 2, pa.time64("us")),
        ["01:02:03.5", None] * 2,
    ),
    "timestamp": (
        arrow([MOMENT, None] * 2, pa.timestamp("us")),
        ["2024-01-02 03:04:05.12", None] * 2,
    ),
    "timestamp_ns": (
        arrow([MOMENT, None] * 2, pa.timestamp("ns")),
        ["2024-01-02 03:04:05.12", None] * 2,
    ),
    "timestamp_zone": (
        arrow([MOMENT, None] * 2, pa.timestamp("ms", "Europe/Paris")),
        ["2024-01-02 03:04:05.12+00:00", None] * 2,
    ),
    "duration": (
        arrow([datetime.timedelta(seconds=2), None] * 2, pa.duration("ms")),
        ["2000000000", None] * 2,
    ),
    "list": (
        arrow([["a", "b"], None, [], ["a", None]], pa.list_(pa.string())),
        ['["a","b"]', None, "[]", '["a",null]'],
    ),
    "large_list": (
        arrow([[1, 2], None, [], [3]], pa.large_list(pa.int16())),
        ["[1,2]", None, "[]", "[3]"],
    ),
    "fixed_list": (
        arrow([[1, 2], None, [3, 4], [5, 6]], pa.list_(pa.int8(), 2)),
        ["[1,2]", None, "[3,4]", "[5,6]"],
    ),
    "list_of_views": (
        arrow([["a"], None, [], ["b"]], pa.list_(pa.string_view())),
        ['["a"]', None, "[]", '["b"]'],
    ),
    "list_view": (
        arrow([["a"], None, [], ["b"]], pa.list_view(pa.string())),
        ['["a"]', None, "[]", '["b"]'],
    ),
    "struct": (
        arrow(
            [{"a": 1, "b": [DAY]}, None, {"a": None, "b": []}, {"a": 2, "b": None}],
            pa.struct({"a": pa.int8(), "b": pa.list_(pa.date32())}),
        ),
        ['{"a":1,"b":["2024-01-02"]}', None, '{"a":null,"b":[]}', '{"a":2,"b":null}'],
    ),
    "map": (
        arrow([[("k", 1)], None, [], [("k", 2)]], pa.map_(pa.string(), pa.int8())),
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
"""Each with the text form of its values."""
FORMATS = ("parquet", "arrow", "arrows", "jsonl", "csv")
ROLES = ("none", "id", "keep", "block_by", "source", "split", "all")


def sample_table(name: str) -> pa.Table:
    return pa.table({"text": TEXTS, "value": COLUMNS[name][0]()})


def write_table(table: pa.Table, path: Path) -> bool:
    """Returns False if the format has no form for the table's types."""
    try:
        if path.suffix == ".parquet":
            pq.write_table(table, path)
        elif path.suffix == ".arrow":
            with pa.ipc.new_file(path, table.schema) as writer:
                writer.write_table(table)
        elif path.suffix == ".arrows":
            with pa.ipc.new_stream(path, table.schema) as writer:
                writer.write_table(table)
        elif path.suffix == ".jsonl":
            path.write_text("".join(json.dumps(row) + "\n" for row in table.to_pylist()))
        else:
            pa.csv.write_csv(table, path)
    except (pa.ArrowNotImplementedError, pa.ArrowInvalid, pa.ArrowTypeError, TypeError):
        return False
    return True


def read_table(path: Path) -> pa.Table:
    if path.suffix == ".parquet":
        return pq.read_table(path)
    with pa.memory_map(str(path)) as source:
        return (pa.ipc.open_file if path.suffix == ".arrow" else pa.ipc.open_stream)(
            source
        ).read_all()


def run(path: Path, out: Path, role: str, annotate: bool) -> dict[str, Any]:
    settings = RunOptions(threshold=0.8, keep="length desc")
    if role in ("keep", "all"):
        settings = RunOptions(keep="value desc, length desc")
    options = {name: "value" for name in ("block_by", "source", "split") if role in (name, "all")}
    settings = RunOptions(threshold=0.8, keep=settings.keep, **options)
    columns = Columns(
        id="value" if role == "id" else None, carried_columns=settings.carried_columns
    )
    return run_dedup(Job((str(path),), out, columns, settings, annotate=annotate), Silent())


def cases(full: bool) -> list[tuple[str, str, str, bool]]:
    every = list(itertools.product(COLUMNS, FORMATS, ROLES, (False, True)))
    quick = [
        (name, form, role, annotate)
        for number, name in enumerate(COLUMNS)
        for form, role, annotate in (
            (FORMATS[number % 3], "all", number % 2 == 0),
            (FORMATS[(number + 1) % 5], "id", number % 2 == 1),
        )
    ]
    return every if full else quick


def check_case(name: str, form: str, role: str, annotate: bool, folder: Path) -> None:
    """The run works, counts every row, and its kept files hold the column unchanged."""
    table, path = sample_table(name), folder / f"in.{form}"
    if not write_table(table, path):
        return
    record = run(path, folder / "out", role, annotate)
    counts = record["counts"]
    assert counts["read"] == counts["kept"] + counts["removed"] + counts["rejected"] == len(table)
    if role == "id" and form in FORMATS[:3]:
        assert counts["rejected"] == COLUMNS[name][1].count(None)
    if form not in FORMATS[:3]:
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
        assert rows == TEXTS
        assert {"cluster", "kept"} <= set(kept.column_names)


@pytest.mark.parametrize("name", COLUMNS)
def test_every_type_has_a_text_form(name: str) -> None:
    make, texts = COLUMNS[name]
    assert format_as_readable_text(make()).to_pylist() == texts
    assert (
        format_as_readable_text(pa.concat_arrays([make(), make()]).slice(3, 4)).to_pylist()
        == (texts * 2)[3:7]
    )
    found = check_ids(make(), "value")
    assert [
        None if at in found.reasons else text for at, text in enumerate(found.values.to_pylist())
    ] == texts


@pytest.mark.parametrize("case", cases(False), ids=lambda case: "-".join(map(str, case)))
def test_a_column_of_any_type_may_have_any_role(
    case: tuple[str, str, str, bool], tmp_path: Path
) -> None:
    check_case(*case, tmp_path)


@pytest.mark.full
@pytest.mark.parametrize("name", COLUMNS)
def test_every_type_format_and_role(name: str, tmp_path: Path) -> None:
    for number, case in enumerate(case for case in cases(True) if case[0] == name):
        folder = tmp_path / str(number)
        folder.mkdir()
        check_case(*case, folder)


def test_polars_categoricals_and_nested_strings(tmp_path: Path) -> None:
    frame = polars.DataFrame(
        {
            "text": TEXTS,
            "category": polars.Series(["b", None, "a", "b"], dtype=polars.Categorical),
            "tags": [["x", "y"], None, [], ["x", None]],
            "facts": [{"deep": ["p"]}, None, {"deep": []}, {"deep": None}],
        }
    )
    result = nk.dedup(
        frame, keep="category asc, tags desc", block_by="category", source="tags", split="facts"
    )
    assert result.kept.tolist() == [False, True, True, True]
    assert result.filter(frame)["tags"].to_pylist() == [None, [], ["x", None]]
    kept = pq.read_table(result.write(tmp_path / "out") / "kept" / "documents.parquet")
    assert kept["facts"].to_pylist() == [None, {"deep": []}, {"deep": None}]


def test_a_type_that_arrow_does_not_have_is_a_clear_error() -> None:
    frame = polars.DataFrame(
        {"text": TEXTS, "wide": polars.Series([1, 2, 3, 2**100], dtype=polars.Int128)}
    )
    with pytest.raises(UsageError, match=r"a type that Arrow does not have .*; cast or drop it"):
        nk.dedup(frame)


def test_columns_of_one_name_are_a_clear_error(tmp_path: Path) -> None:
    table = pa.table([pa.array(TEXTS), pa.array(TEXTS)], ["text", "text"])
    with pytest.raises(UsageError, match="2 columns named 'text'; rename all but one"):
        nk.dedup(table)
    pq.write_table(table, tmp_path / "a.parquet")
    (tmp_path / "b.csv").write_text("text,text\na,b\n")
    for name in ("a.parquet", "b.csv"):
        with pytest.raises(UsageError, match="2 columns named 'text'; rename all but one"):
            nk.dedup(tmp_path / name)


INTERNAL = (
    "id",
    "text",
    "tokens",
    "vector",
    "cluster",
    "column text",
    "column id",
    "riding0",
    "doc",
    "sort",
)


@pytest.mark.parametrize("name", INTERNAL)
@pytest.mark.parametrize("role", ["keep", "block_by", "source", "split"])
def test_columns_that_ride_along_may_have_any_name(name: str, role: str) -> None:
    """The result is that of the same column under a name that nothing else has."""
    if role == "keep" and " " in name:
        pytest.skip("a keep policy names no column with a blank")
    values = ["3", "1", "2", "1"]
    results = []
    for called in (name, "harmless"):
        data = {"body": TEXTS, "key": ["k0", "k1", "k2", "k3"], called: values}
        options = {"keep": f"{called} asc"} if role == "keep" else {role: called}
        result = nk.dedup(data, text="body", id="key", **options)  # type: ignore[arg-type]
        report = result.report_data
        results.append(
            (
                result.kept.tolist(),
                result.clusters.to_pylist(),
                report.sources,
                len(report.clusters),
            )
        )
    assert results[0] == results[1]
    if role == "keep":
        assert results[0][0] == [False, True, True, False]


def test_titles_called_text_are_not_compared() -> None:
    data = {"text": ["Title"] * 3, "id": ["x", "y", "z"], "body": TEXTS[:3]}
    result = nk.dedup(data, text="body", id="id", source="text")
    assert result.kept.tolist() == [False, True, True]


def test_an_id_that_rides_along_does_not_replace_the_ids() -> None:
    data = {"id": ["web", "web", "book", "book"], "doc": ["a", "b", "c", "d"], "text": TEXTS}
    assert nk.dedup(data, id="doc", source="id").clusters["id"].to_pylist() == ["a", "b", "c", "d"]


@pytest.mark.parametrize("form", ["jsonl", "csv", "parquet", "arrow"])
def test_files_with_a_column_called_id_and_no_ids(form: str, tmp_path: Path) -> None:
    table = pa.table({"text": TEXTS, "id": ["4", "3", "2", "1"]})
    write_table(table, tmp_path / f"a.{form}")
    settings = RunOptions(keep="id asc")
    job = Job((str(tmp_path),), tmp_path / "out", Columns(carried_columns=("id",)), settings)
    run_dedup(job, Silent())
    clusters = pq.read_table(tmp_path / "out" / "clusters.parquet")
    assert clusters["kept"].to_pylist() == [False, False, True, True]
    assert clusters["id"].to_pylist()[0] == f"a.{form}:0000000000"


def test_internal_names_with_tokens_vectors_and_a_second_measure() -> None:
    tokens = [text.lower().split() for text in TEXTS]
    vectors = [[1.0, 0.0], [1.0, 0.01], [0.0, 1.0], [1.0, 0.0]]
    data = {
        "words": tokens,
        "tokens": ["1", "2", "3", "4"],
        "vector": ["1", "2", "3", "4"],
        "embedding": vectors,
    }
    plain = {
        "words": tokens,
        "a": ["1", "2", "3", "4"],
        "b": ["1", "2", "3", "4"],
        "embedding": vectors,
    }
    found = nk.dedup(
        data,
        tokens="words",
        keep="tokens desc",
        source="vector",
        threshold=0.7,
        second_measure="cosine:embedding:0.99",
    )
    want = nk.dedup(
        plain,
        tokens="words",
        keep="a desc",
        source="b",
        threshold=0.7,
        second_measure="cosine:embedding:0.99",
    )
    assert found.clusters.to_pylist() == want.clusters.to_pylist()
    by_vector = nk.dedup(data, vector="embedding", keep="vector desc", threshold=0.99)
    assert (
        by_vector.clusters.to_pylist()
        == nk.dedup(plain, vector="embedding", keep="b desc", threshold=0.99).clusters.to_pylist()
    )


def test_internal_names_in_a_saved_run(tmp_path: Path) -> None:
    table = pa.table({"body": TEXTS, "text": ["4", "3", "2", "1"], "id": ["a", "b", "c", "d"]})
    write_table(table, tmp_path / "a.parquet")
    columns, settings = (
        Columns(text="body", carried_columns=("text", "id")),
        RunOptions(keep="text asc", source="id"),
    )
    job = Job(
        (str(tmp_path / "a.parquet"),), tmp_path / "saved", columns, settings, save_signatures=True
    )
    run_dedup(job, Silent())
    run_dedup(Job((str(tmp_path / "saved"),), tmp_path / "out", columns, settings), Silent())
    first, second = (
        pq.read_table(tmp_path / name / "clusters.parquet") for name in ("saved", "out")
    )
    assert first.equals(second)
    assert first["kept"].to_pylist() == [False, False, True, True]


def test_a_uuid_column_holds_ids(tmp_path: Path) -> None:
    names = [uuid.UUID(int=number) for number in range(4)]
    for number, kind in enumerate((pa.uuid(), pa.binary(16))):
        values = [name.bytes for name in names]
        column = (
            pa.array(values, pa.binary(16))
            if number
            else pa.array(values, pa.binary(16)).cast(kind)
        )
        write_table(pa.table({"text": TEXTS, "key": column}), tmp_path / f"{number}.parquet")
        result = nk.dedup(tmp_path / f"{number}.parquet", id="key")
        assert result.clusters["id"].to_pylist() == [str(name) for name in names]
        assert result.statistics["rejected"] == 0


def test_large_json_numbers_are_ids_digit_by_digit(tmp_path: Path) -> None:
    numbers = [str(2**64), str(2**64 + 1), str(10**40), "1.0", "1.00", "0.1000000000000000055", "7"]
    lines = [f'{{"text": "{TEXTS[2]} {number}", "n": {number}}}' for number in numbers]
    (tmp_path / "a.jsonl").write_text("\n".join(lines))
    assert nk.dedup(tmp_path / "a.jsonl", id="n").clusters["id"].to_pylist() == numbers
    blocks = nk.dedup(tmp_path / "a.jsonl", block_by="n", threshold=0.1)
    assert blocks.kept.tolist()[:2] == [True, True]


VALUES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-3, 3),
    st.integers(2**62, 2**66),
    st.floats(-2, 2),
    st.sampled_from(["n/a", "2", "b", ""]),
    st.just([1]),
    st.just({"a": 1}),
)


@hypothesis_settings(max_examples=8)
@given(
    st.lists(st.tuples(st.integers(0, 3), VALUES, VALUES), min_size=1, max_size=12),
    st.integers(1, 11),
)
def test_a_result_does_not_depend_on_how_rows_are_divided_into_files(
    rows: list[tuple[int, Any, Any]], cut: int
) -> None:
    """A riding column whose type varies, as JSON lines have them."""
    lines = [
        json.dumps({"text": TEXTS[which], "id": f"d{at}", "rank": rank, "block": block}) + "\n"
        for at, (which, rank, block) in enumerate(rows)
    ]
    results = []
    for parts in ([lines], [lines[:cut], lines[cut:]], [[line] for line in lines]):
        with tempfile.TemporaryDirectory() as folder:
            paths = []
            for number, part in enumerate(parts):
                paths.append(Path(folder, f"{number:02d}.jsonl"))
                paths[-1].write_text("".join(part))
            result = nk.dedup(paths, id="id", keep="rank desc", block_by="block", source="rank")
            results.append((result.clusters.to_pylist(), result.report_data.sources))
    assert results[0] == results[1] == results[2]


def test_a_word_in_a_column_of_numbers_sorts_all_of_it_as_text(tmp_path: Path) -> None:
    ranks: list[Any] = [9, 10, "n/a", 11]
    for name, rows in (("a.jsonl", (0, 1)), ("b.jsonl", (2, 3))):
        lines = [json.dumps({"text": TEXTS[0], "rank": ranks[row]}) for row in rows]
        (tmp_path / name).write_text("\n".join(lines) + "\n")
    assert nk.dedup(tmp_path, keep="rank asc").kept.tolist() == [False, True, False, False]
    (tmp_path / "b.jsonl").write_text(json.dumps({"text": TEXTS[0], "rank": 11}))
    assert nk.dedup(tmp_path, keep="rank asc").kept.tolist() == [True, False, False]


def test_whole_numbers_sort_by_all_of_their_digits() -> None:
    for first in (2**53, 2**63, -(2**63)):
        ranks = pa.array([first + 1, first], pa.uint64() if first > 2**62 else pa.int64())
        data = {"text": [TEXTS[0], TEXTS[0]], "rank": ranks}
        assert nk.dedup(data, keep="rank asc").kept.tolist() == [False, True]
        assert nk.dedup(data, keep="rank desc").kept.tolist() == [True, False]
