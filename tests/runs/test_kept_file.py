"""Tests of outputs of dedup that are one file."""

import csv
import gzip
import io
import json
from collections.abc import Sequence
from datetime import date
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.feather
import pyarrow.ipc
import pyarrow.orc
import pyarrow.parquet as pq
import pytest

import nearkin as nk
from nearkin.cli import app
from tests.corpus.samples import run_command

TEXT = "one two three four five six seven eight nine ten"
ROWS = [
    {"id": "a", "text": TEXT, "n": 1},
    {"id": "b", "text": TEXT.upper(), "n": 2},
    {"id": "c", "text": 'a text, "of its own"; with other words', "n": 3},
]
KEPT = [ROWS[0], ROWS[2]]


def write_rows(path: Path, rows: list[dict[str, Any]]) -> Path:
    """Writes rows in the format of the suffix."""
    table = pa.Table.from_pylist(rows)
    if path.suffix == ".parquet":
        pq.write_table(table, path)
    elif path.suffix == ".arrow":
        with pa.ipc.new_file(path, table.schema) as writer:
            writer.write_table(table)
    elif path.suffix == ".jsonl":
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    elif path.suffix == ".json":
        path.write_text(json.dumps(rows))
    else:
        delimiter = "\t" if path.suffix == ".tsv" else ","
        with path.open("w", newline="") as file:
            writer_of_rows = csv.DictWriter(file, list(rows[0]), delimiter=delimiter)
            writer_of_rows.writeheader()
            writer_of_rows.writerows(rows)
    return path


def read_rows(path: Path) -> list[dict[str, Any]]:
    """Returns the rows of a file. Numbers of CSV are read as numbers."""
    data = path.read_bytes()
    if path.suffix == ".gz":
        data = gzip.decompress(data)
    if ".csv" in path.suffixes or ".tsv" in path.suffixes:
        delimiter = "\t" if ".tsv" in path.suffixes else ","
        rows = csv.DictReader(io.StringIO(data.decode(), newline=""), delimiter=delimiter)
        return [{**row, "n": int(row["n"])} for row in rows]
    if ".jsonl" in path.suffixes:
        return [json.loads(line) for line in data.splitlines()]
    if path.suffix == ".arrow":
        return pa.ipc.open_file(data).read_all().to_pylist()
    return pq.read_table(io.BytesIO(data)).to_pylist()


OUTPUTS = ["out.csv", "out.tsv", "out.jsonl", "out.parquet", "out.arrow", "out.csv.gz"]


@pytest.mark.parametrize("out", OUTPUTS)
@pytest.mark.parametrize("name", ["a.csv", "a.tsv", "a.jsonl", "a.json", "a.parquet", "a.arrow"])
def test_suffix_decides_the_format_of_kept_documents(name: str, out: str, tmp_path: Path) -> None:
    source = write_rows(tmp_path / name, ROWS)
    target = nk.dedup(source, id="id").write(tmp_path / out)
    rows = [{**row, "n": int(row["n"])} for row in read_rows(target)]
    assert rows == KEPT
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted([name, out])


@pytest.mark.parametrize("out", OUTPUTS)
def test_kept_rows_of_a_table_are_written_as_the_suffix_says(out: str, tmp_path: Path) -> None:
    result = nk.dedup(pa.Table.from_pylist(ROWS), id="id")
    assert read_rows(result.write(tmp_path / out)) == KEPT
    with pytest.raises(nk.UsageError, match="exists; choose another file"):
        result.write(tmp_path / out)


def test_rows_of_the_same_format_are_copied(tmp_path: Path) -> None:
    """Values, delimiter, encoding and line ends are those of the inputs."""
    header = "id;text;n\r\n"
    first = f'1;"{TEXT}";1\r\n2;{TEXT};2\r\n'
    second = "3;Größe und Farbe;3\r\n"
    (tmp_path / "a.csv").write_bytes((header + first).encode("cp1252"))
    (tmp_path / "b.csv").write_bytes((header + second).encode("cp1252"))
    options = ("--encoding", "cp1252", "--out", tmp_path / "out.csv")
    assert run_command("dedup", tmp_path / "a.csv", tmp_path / "b.csv", *options) == 0
    expected = header + f"1;{TEXT};1\r\n" + second
    assert (tmp_path / "out.csv").read_bytes() == expected.encode("cp1252")


def test_command_writes_the_other_results_beside_the_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source = write_rows(tmp_path / "a.jsonl", ROWS)
    out = tmp_path / "cleaned.csv"
    assert run_command("dedup", source, "--id", "id", "--out", out) == 0
    assert read_rows(out) == KEPT
    assert (tmp_path / "cleaned.csv.run" / "report.html").is_file()
    assert str(out) in capsys.readouterr().err.replace("\n", "").replace(" ", "")
    assert run_command("dedup", source, "--id", "id", "--out", out) == app.USAGE
    assert "exists" in capsys.readouterr().err
    for option in ("--resume", "--overwrite"):
        assert run_command("dedup", source, "--id", "id", "--out", out, option) == 0
        assert read_rows(out) == KEPT


def test_file_that_no_run_wrote_is_never_replaced(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source = write_rows(tmp_path / "a.jsonl", ROWS)
    out = tmp_path / "mine.csv"
    out.write_text("precious")
    assert run_command("dedup", source, "--out", out, "--overwrite") == app.USAGE
    assert "never replaced" in capsys.readouterr().err
    assert out.read_text() == "precious"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.jsonl", "mine.csv"]


@pytest.mark.parametrize("out", ["cleaned.xls", "cleaned.json", "cleaned.parquet.gz"])
def test_format_that_cannot_be_written_is_an_error(
    out: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source = write_rows(tmp_path / "a.jsonl", ROWS)
    assert run_command("dedup", source, "--out", tmp_path / out) == app.USAGE
    assert ".parquet, .csv, .tsv, .jsonl, .xlsx and .arrow" in capsys.readouterr().err
    with pytest.raises(nk.UsageError, match=r"\.parquet, \.csv"):
        nk.dedup(source).write(tmp_path / out)
    assert [path.name for path in tmp_path.iterdir()] == ["a.jsonl"]


def test_nested_columns_are_an_error_before_the_run(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source = write_rows(tmp_path / "a.parquet", [{**row, "tags": ["x"]} for row in ROWS])
    assert run_command("dedup", source, "--out", tmp_path / "out.csv") == app.USAGE
    assert "column 'tags' has the type" in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["a.parquet"]


def test_inputs_of_several_formats_become_one_table(tmp_path: Path) -> None:
    write_rows(tmp_path / "in.parquet", ROWS[:1])
    write_rows(tmp_path / "in.jsonl", [{"id": "d", "text": "entirely different words here"}])
    result = nk.dedup([tmp_path / "in.parquet", tmp_path / "in.jsonl"], id="id")
    rows = pq.read_table(result.write(tmp_path / "out.parquet")).to_pylist()
    assert sorted(rows, key=lambda row: str(row["id"])) == [
        ROWS[0],
        {"id": "d", "text": "entirely different words here", "n": None},
    ]


def test_texts_become_rows_with_their_names(tmp_path: Path) -> None:
    for name, text in (("a.txt", TEXT), ("b.txt", TEXT), ("c.txt", "something else, in full")):
        (tmp_path / name).write_text(text)
    target = nk.dedup(sorted(tmp_path.iterdir())).write(tmp_path / "out.jsonl")
    assert read_rows(target) == [
        {"id": "a.txt", "text": TEXT},
        {"id": "c.txt", "text": "something else, in full"},
    ]


TWICE = pa.Table.from_arrays(
    [
        pa.array(list("abc")),
        pa.array([1, 2, 3]),
        pa.array([4, 5, 6]),
        pa.array([TEXT, TEXT, "x y"]),
    ],
    ["id", "n", "n", "text"],
)
"""A table with two columns of one name."""
WRITERS = {
    ".parquet": pq.write_table,
    ".arrow": pa.feather.write_feather,
    ".orc": pa.orc.write_table,
    ".csv": pa.csv.write_csv,
}


def read_parquet(path: str) -> pa.Table:
    """Returns a table whose columns may have one name, which `read_table` does not read."""
    return pq.ParquetFile(path).read()


COLUMN_NAMED_TWICE = "2 columns named 'n', and a file of kept documents has one column of each name"


@pytest.mark.parametrize("source", WRITERS)
@pytest.mark.parametrize("target", [".jsonl", ".csv", ".parquet", ".arrow"])
def test_columns_of_one_name_are_refused_before_the_run(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], source: str, target: str
) -> None:
    path = tmp_path / f"rows{source}"
    WRITERS[source](TWICE, str(path))
    out = tmp_path / f"kept{target}"
    command = ["dedup", str(path), "--id", "id", "--text", "text", "--quiet", "--out"]
    if source == target == ".csv":
        assert app.run([*command, str(out)]) == 0
        assert out.read_text().splitlines()[1] == f"a,1,4,{TEXT}"
        return
    assert app.run([*command, str(out)]) == 2
    assert COLUMN_NAMED_TWICE in capfd.readouterr().err
    assert [entry.name for entry in tmp_path.iterdir()] == [path.name]
    with pytest.raises(nk.UsageError, match=COLUMN_NAMED_TWICE):
        nk.dedup(str(path), id="id").write(out)


PAIR = pa.struct([("a", pa.int64()), ("a", pa.int64())])


@pytest.mark.parametrize("source", [".parquet", ".arrow", "table"])
@pytest.mark.parametrize("kind", [PAIR, pa.list_(PAIR), pa.struct([("b", PAIR)])])
def test_fields_of_one_name_in_a_struct_are_refused_before_the_run(
    source: str, kind: pa.DataType, tmp_path: Path
) -> None:
    table = pa.table({"text": [TEXT], "n": pa.nulls(1, kind)})
    path = tmp_path / f"rows{source}"
    if source != "table":
        WRITERS[source](table, str(path))
    result = nk.dedup(table if source == "table" else str(path))
    with pytest.raises(nk.UsageError, match=r"2 columns named 'n\.(b\.)?a', and a file of kept"):
        result.write(tmp_path / "kept.jsonl")


ROW_WITH_KEY_TWICE = [
    '{"text": "a text", "n": 1, "n": 2}',
    '{"text": "a text", "n": {"b": [{"n": 1, "\\u006e": 2}]}}',
]


@pytest.mark.parametrize("target", [".csv", ".parquet", ".arrow"])
@pytest.mark.parametrize("row", ROW_WITH_KEY_TWICE)
@pytest.mark.parametrize("form", ["lines", "array"])
def test_keys_of_one_name_in_json_are_refused_before_the_run(
    form: str, row: str, target: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = ['{"text": "another text"}', row]
    path = tmp_path / "rows.json"
    path.write_text("\n".join(rows) if form == "lines" else f"[{', '.join(rows)}]")
    assert app.run(["dedup", str(path), "--quiet", "--out", str(tmp_path / f"kept{target}")]) == 2
    message = capsys.readouterr().err
    assert f"{path} has a row with two keys named 'n', and a file of kept documents" in message
    assert [entry.name for entry in tmp_path.iterdir()] == [path.name]
    # Copies of rows keep both.
    out = tmp_path / "kept.jsonl"
    assert app.run(["dedup", str(path), "--quiet", "--out", str(out)]) == 0
    assert row in out.read_text()


def test_keys_of_one_name_behind_the_sample_are_an_error(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = [json.dumps({"text": text_of(at)}) for at in range(3)]
    path = tmp_path / "rows.jsonl"
    path.write_text("\n".join([*rows, ROW_WITH_KEY_TWICE[0]]))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("nearkin.corpus.formats.json_fields.SAMPLED_OBJECTS", 2)
        command = ["dedup", str(path), "--quiet", "--out", str(tmp_path / "kept.parquet")]
        assert app.run(command) == app.FAILED
    assert "has a row with two keys named 'n'" in capsys.readouterr().err
    assert not (tmp_path / "kept.parquet").exists()


@pytest.mark.parametrize("source", WRITERS)
def test_folders_keep_all_columns_of_one_name(tmp_path: Path, source: str) -> None:
    path = tmp_path / f"rows{source}"
    WRITERS[source](TWICE, str(path))
    saved = tmp_path / "saved"
    command = ["dedup", str(path), "--id", "id", "--text", "text", "--quiet", "--save-signatures"]
    assert app.run([*command, "--out", str(saved)]) == 0
    copy = saved / "kept" / path.name
    reader = {".parquet": read_parquet, ".orc": pa.orc.read_table, ".csv": pa.csv.read_csv}
    kept = reader.get(source, pa.feather.read_table)(str(copy))
    assert kept.column_names == TWICE.column_names
    assert [kept.column(at).to_pylist() for at in (1, 2)] == [[1, 3], [4, 6]]
    again = ["dedup", str(saved), "--quiet", "--out", str(tmp_path / "kept.jsonl")]
    assert app.run(again) == 2
    assert not list(tmp_path.glob("kept.jsonl*"))


def test_table_with_columns_of_one_name_loses_none(tmp_path: Path) -> None:
    result = nk.dedup(TWICE, id="id")
    for suffix in (".jsonl", ".csv", ".parquet", ".arrow"):
        with pytest.raises(nk.UsageError, match=COLUMN_NAMED_TWICE):
            result.write(tmp_path / f"kept{suffix}")
    with pytest.raises(nk.UsageError, match="2 columns named 'n', and a dataset has one column"):
        result.to_dataset()
    with pytest.raises(nk.UsageError, match="2 columns named 'n', and a function as `keep` gets"):
        nk.dedup(TWICE, id="id", keep=lambda rows: rows[0])
    folder = result.write(tmp_path / "folder")
    kept = read_parquet(str(folder / "kept" / "documents.parquet"))
    for table in (kept, result.filter(TWICE)):
        assert [table.column(at).to_pylist() for at in (1, 2)] == [[1, 3], [4, 6]]


def text_of(number: int) -> str:
    """Returns a text of twelve words that no other number has."""
    return " ".join(f"w{number}x{at}" for at in range(12))


def write_values(path: Path, values: Sequence[object], first: int = 0) -> Path:
    """Writes JSON lines of different texts, each with a value in the column n."""
    rows = [{"text": text_of(first + at), "n": value} for at, value in enumerate(values)]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def read_column(path: Path) -> list[Any]:
    """Returns the values of the column n of a file, read with other libraries."""
    data = path.read_bytes()
    if path.suffix == ".jsonl":
        return [json.loads(line)["n"] for line in data.decode("utf-8-sig").splitlines()]
    if path.suffix in (".csv", ".tsv"):
        delimiter = "\t" if path.suffix == ".tsv" else ","
        rows = list(csv.reader(io.StringIO(data.decode(), newline=""), delimiter=delimiter))
        assert {len(row) for row in rows} == {len(rows[0])}
        return [row[rows[0].index("n")] for row in rows[1:]]
    is_arrow = path.suffix == ".arrow"
    table = pa.ipc.open_file(data).read_all() if is_arrow else pq.read_table(io.BytesIO(data))
    return list(table["n"].to_pylist())


MIXED = [1, "x", [1], {"a": 1}, None, True, 1.5, 10**30, {}, (1 << 60) + 1]
TEXTS_OF_MIXED = [
    *("1", "x", "[1]", '{"a":1}', None, "true", "1.5"),
    *("1000000000000000000000000000000", "{}", "1152921504606846977"),
]


@pytest.mark.parametrize("out", ["out.parquet", "out.csv", "out.tsv", "out.arrow"])
def test_values_without_a_common_type_become_texts(
    out: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    nk.dedup(write_values(tmp_path / "a.jsonl", MIXED)).write(tmp_path / out)
    expected = [value or "" if "sv" in out else value for value in TEXTS_OF_MIXED]
    assert read_column(tmp_path / out) == expected
    assert f"'n' has values that .{out[4:]} cannot hold in one column" in caplog.text


def test_command_warns_of_columns_that_become_texts(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    first = write_values(tmp_path / "a.jsonl", [1, 2])
    second = write_values(tmp_path / "b.jsonl", ["x"], 7)
    assert run_command("dedup", first, second, "--out", tmp_path / "out.parquet") == app.DONE
    assert read_column(tmp_path / "out.parquet") == ["1", "2", "x"]
    assert "holds them as texts" in capsys.readouterr().err


ENCODED = pa.array(["a", "b"]).dictionary_encode()
OTHER = pa.array(["c", "d"]).dictionary_encode()
COLUMNS: dict[str, tuple[list[pa.Array], dict[str, list[Any]]]] = {
    "numbers and texts": (
        [pa.array([1, 2]), pa.array(["x", "y"])],
        {"parquet": ["1", "2", "x", "y"], "jsonl": [1, 2, "x", "y"], "csv": ["1", "2", "x", "y"]},
    ),
    "whole numbers that a float cannot hold": (
        [pa.array([(1 << 60) + 1]), pa.array([1.5])],
        {"parquet": ["1152921504606846977", "1.5"]},
    ),
    "numbers that a float holds": (
        [pa.array([1]), pa.array([1.5])],
        {"parquet": [1.0, 1.5], "csv": ["1.0", "1.5"]},
    ),
    "several dictionaries": (
        [ENCODED, OTHER],
        {"arrow": ["a", "b", "c", "d"], "parquet": ["a", "b", "c", "d"]},
    ),
    "runs": (
        [pc.run_end_encode(pa.array(["a", "a"]))],
        {"parquet": ["a", "a"], "csv": ["a", "a"], "arrow": ["a", "a"]},
    ),
    "unions": (
        [
            pa.UnionArray.from_sparse(
                pa.array([0, 1], pa.int8()), [pa.array([1, 2]), pa.array(["b", "c"])]
            )
        ],
        {"parquet": ["1", '"c"'], "jsonl": [1, "c"]},
    ),
    "intervals": (
        [pa.array([pa.MonthDayNano([1, 2, 3])])],
        {"parquet": ["[1,2,3]"]},
    ),
    "list views": (
        [pa.array([["x"], []], pa.list_view(pa.string_view()))],
        {"parquet": [["x"], []], "jsonl": [["x"], []]},
    ),
    "structs without fields": ([pa.array([{}, None], pa.struct([]))], {"parquet": ["{}", None]}),
    "dates out of range": (
        [pa.array([1 << 30], pa.int32()).view(pa.date32())],
        {"jsonl": ["<value out of range: 1073741824>"]},
    ),
    "bytes in lists": ([pa.array([[b"\xff", b"a"]])], {"jsonl": [["\\xff", "a"]]}),
    "dates and texts": (
        [pa.array([date(2024, 1, 2)]), pa.array(["x"])],
        {"parquet": ["2024-01-02", "x"]},
    ),
}


@pytest.mark.parametrize("name", COLUMNS)
def test_column_of_any_type_is_written_as_the_nearest_thing(name: str, tmp_path: Path) -> None:
    parts, expected = COLUMNS[name]
    paths = []
    for number, values in enumerate(parts):
        path = tmp_path / f"in{number}.arrow"
        texts = [text_of(10 * number + at) for at in range(len(values))]
        table = pa.table({"text": texts, "n": values})
        with pa.ipc.new_file(path, table.schema) as writer:
            writer.write_table(table)
        paths.append(path)
    result = nk.dedup(paths)
    for suffix, column in expected.items():
        assert read_column(result.write(tmp_path / f"out.{suffix}")) == column, suffix


def test_dictionary_that_a_stream_replaces_is_decoded(tmp_path: Path) -> None:
    schema = pa.schema([("text", pa.string()), ("n", ENCODED.type)])
    with pa.ipc.new_stream(tmp_path / "a.arrows", schema) as writer:
        for number, values in enumerate((ENCODED, OTHER)):
            texts = [text_of(10 * number + at) for at in range(len(values))]
            writer.write_table(pa.table([texts, values], schema=schema))
    result = nk.dedup(tmp_path / "a.arrows")
    assert read_column(result.write(tmp_path / "out.arrow")) == ["a", "b", "c", "d"]
    table = pa.table({"text": [text_of(at) for at in range(4)]})
    table = table.append_column("n", pa.chunked_array([ENCODED, OTHER]))
    assert read_column(nk.dedup(table).write(tmp_path / "table.arrow")) == ["a", "b", "c", "d"]


def test_text_that_is_not_utf8_is_escaped(tmp_path: Path) -> None:
    stored = pa.array([b"\xff", b"a"]).view(pa.string())
    table = pa.table({"text": [text_of(0), text_of(1)], "n": stored})
    pq.write_table(table, tmp_path / "a.parquet")
    result = nk.dedup(tmp_path / "a.parquet")
    for suffix in ("csv", "jsonl"):
        assert read_column(result.write(tmp_path / f"out.{suffix}")) == ["\\xff", "a"]


@pytest.mark.parametrize("suffix", ["csv", "tsv"])
def test_values_with_line_ends_are_quoted(suffix: str, tmp_path: Path) -> None:
    values = ["a\rb", "c\nd", "e\r\nf", "g\0h", '"i"', "", "j,k\tl"]
    result = nk.dedup(write_values(tmp_path / "a.jsonl", values))
    assert read_column(result.write(tmp_path / f"out.{suffix}")) == values


def test_numbers_of_an_array_keep_their_digits(tmp_path: Path) -> None:
    rows = [{"text": text_of(at), "n": value} for at, value in enumerate([10**25, 1])]
    (tmp_path / "a.json").write_text(json.dumps(rows, indent=1))
    assert read_column(nk.dedup(tmp_path / "a.json").write(tmp_path / "out.jsonl")) == [10**25, 1]


def test_byte_order_marks_of_later_files_are_left_out(tmp_path: Path) -> None:
    paths = [write_values(tmp_path / f"{name}.jsonl", [name], ord(name)) for name in "abc"]
    for path in paths:
        path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes())
    result = nk.dedup(paths)
    for out in ("out.jsonl", "out.parquet"):
        assert read_column(result.write(tmp_path / out)) == ["a", "b", "c"]


def test_rows_of_json_in_another_encoding_are_written_as_utf8(tmp_path: Path) -> None:
    rows = [json.dumps({"text": f"{text_of(at)} Größe"}, ensure_ascii=False) for at in range(2)]
    content = b"[" + rows[0].encode() + b",\n" + rows[1].encode("cp1252") + b"]"
    (tmp_path / "a.json").write_bytes(content)
    result = nk.dedup(tmp_path / "a.json", encoding="utf-8,windows-1252")
    expected = [json.loads(row) for row in rows]
    assert read_rows(result.write(tmp_path / "out.jsonl")) == expected
    assert pq.read_table(result.write(tmp_path / "out.parquet")).to_pylist() == expected


def test_numbers_that_json_lacks_are_null_and_long_ones_keep_their_digits(tmp_path: Path) -> None:
    folder = tmp_path / "in" / "lang=en"
    folder.mkdir(parents=True)
    (folder / "a.json").write_text(f'[{{"text": "{TEXT}", "n": {10**25}, "x": NaN}}]')
    for source, columns in ((folder / "a.json", {}), (tmp_path / "in", {"lang": "en"})):
        out = nk.dedup(source).write(tmp_path / f"{len(columns)}.jsonl")
        assert read_rows(out) == [{**columns, "text": TEXT, "n": 10**25, "x": None}]


def test_page_in_another_encoding_becomes_a_row(tmp_path: Path) -> None:
    page = "<meta charset=iso-8859-1><p>Köln am Rhein ist eine schöne und alte Stadt</p>"
    (tmp_path / "a.html").write_bytes(page.encode("latin-1"))
    out = tmp_path / "out.jsonl"
    assert run_command("dedup", tmp_path / "a.html", "--main-text", "--out", out) == app.DONE
    assert read_rows(out) == [{"id": "a.html", "text": page}]
