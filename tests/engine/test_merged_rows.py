"""Tests of kept rows with values of the rows of their clusters, in files of all formats."""

import csv
import json
import pickle
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa
import pyarrow.feather
import pyarrow.orc
import pyarrow.parquet as pq
import pytest

import nearkin as nk
from nearkin.errors import UsageError
from nearkin.executors.processes import Processes
from tests.cli.conftest import run
from tests.corpus.formats.excel_files import read_cells, write_workbook
from tests.engine.merge_oracle import NESTED, RULES, make_rows, merge_all_by_oracle

Rows = list[dict[str, Any]]
SCHEMA = pa.schema(
    [
        ("id", pa.string()),
        ("text", pa.string()),
        ("rank", pa.int32()),
        ("phone", pa.large_string()),
        ("email", pa.dictionary(pa.int8(), pa.string())),
        ("note", pa.string()),
        ("low", pa.int64()),
        ("high", pa.float32()),
        ("day", pa.timestamp("ns")),
        ("tags", pa.list_(pa.string())),
        ("words", pa.string()),
        ("flag", pa.bool_()),
        ("meta", pa.struct([("a", pa.int64()), ("b", pa.string())])),
    ]
)
FLAGS = ["--text", "text", "--id", "id", "--keep", "rank asc", "--max-removed", "1"]


def to_table(rows: Rows, schema: pa.Schema = SCHEMA) -> pa.Table:
    return pa.Table.from_pylist(rows, schema)


def from_table(table: pa.Table) -> Rows:
    rows: Rows = table.to_pylist()
    for row in rows:
        row["day"] = None if row["day"] is None else row["day"].to_pydatetime()
        if row.get("merged_from") is not None:
            row["merged_from"] = dict(row["merged_from"])
    return rows


def write_parquet(path: Path, rows: Rows) -> None:
    pq.write_table(to_table(rows), path, row_group_size=7)


def read_parquet(path: Path) -> Rows:
    table = pq.read_table(path)
    assert table.schema.types[: len(SCHEMA)] == SCHEMA.types
    return from_table(table)


def write_arrow(path: Path, rows: Rows) -> None:
    pyarrow.feather.write_feather(to_table(rows), path, chunksize=9)


def read_arrow(path: Path) -> Rows:
    return from_table(pyarrow.feather.read_table(path))


def write_orc(path: Path, rows: Rows) -> None:
    table = to_table(rows)
    email = table["email"].cast(pa.string())
    pyarrow.orc.write_table(table.set_column(4, "email", email), path)


def read_orc(path: Path) -> Rows:
    return from_table(pyarrow.orc.read_table(path))


def to_json_values(row: Mapping[str, Any]) -> dict[str, Any]:
    return {name: str(value) if name == "day" and value else value for name, value in row.items()}


def write_lines(path: Path, rows: Rows) -> None:
    """Writes rows without their missing values."""
    present = ({k: v for k, v in to_json_values(row).items() if v is not None} for row in rows)
    path.write_text("".join(json.dumps(row) + "\n" for row in present))


def read_lines(path: Path) -> Rows:
    return [dict.fromkeys(SCHEMA.names) | json.loads(line) for line in path.open()]


def write_array(path: Path, rows: Rows) -> None:
    path.write_text(json.dumps(list(map(to_json_values, rows)), indent=1, ensure_ascii=False))


def read_array(path: Path) -> Rows:
    rows: Rows = json.loads(path.read_text())
    return rows


def write_csv(path: Path, rows: Rows) -> None:
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(rows[0])
        writer.writerows([as_text(value) for value in row.values()] for row in rows)


def as_text(value: Any) -> str:
    return "" if value is None else str(value)


def read_csv(path: Path) -> Rows:
    with path.open(newline="") as file:
        rows: Rows = list(csv.DictReader(file))
    for row in rows:
        if "merged_from" in row:
            row["merged_from"] = json.loads(row["merged_from"] or "null")
    return rows


def write_excel(path: Path, rows: Rows) -> None:
    write_workbook(path, [list(rows[0]), *(list(row.values()) for row in rows)])


def read_excel(path: Path) -> Rows:
    header, *cells = read_cells(path)
    return [dict(zip(header, row, strict=True)) for row in cells]


AVRO = [
    ("id", "string"),
    ("text", "string"),
    ("rank", "int"),
    *((name, ["null", "string"]) for name in ("phone", "email", "note")),
    ("low", ["null", "long"]),
    ("high", ["null", "float"]),
    ("day", ["null", {"type": "long", "logicalType": "local-timestamp-micros"}]),
    ("tags", ["null", {"type": "array", "items": "string"}]),
    ("words", ["null", "string"]),
    ("flag", ["null", "boolean"]),
    ("meta", ["null", {"type": "map", "values": ["null", "string", "long"]}]),
]


def write_avro(path: Path, rows: Rows) -> None:
    fields = [{"name": name, "type": kind} for name, kind in AVRO]
    schema = {"type": "record", "name": "Row", "fields": fields}
    with path.open("wb") as file:
        fastavro.writer(file, fastavro.parse_schema(schema), rows)


def read_avro(path: Path) -> Rows:
    with path.open("rb") as file:
        rows: Rows = list(fastavro.reader(file))
    return rows


FORMATS: dict[str, tuple[Callable[[Path, Rows], None], Callable[[Path], Rows]]] = {
    "a.parquet": (write_parquet, read_parquet),
    "a.arrow": (write_arrow, read_arrow),
    "a.orc": (write_orc, read_orc),
    "a.jsonl": (write_lines, read_lines),
    "a.json": (write_array, read_array),
    "a.csv": (write_csv, read_csv),
    "a.xlsx": (write_excel, read_excel),
    "a.avro": (write_avro, read_avro),
}


def to_values_of(name: str, rows: Rows) -> Rows:
    """Returns rows as a reader of a format returns them."""
    if name in ("a.json", "a.jsonl"):
        return list(map(to_json_values, rows))
    if name == "a.csv":
        return [{key: as_text(value) for key, value in row.items()} for row in rows]
    return rows


def rules_of(name: str) -> dict[str, str]:
    """Returns the rules for the columns that a format can hold."""
    flat = name in ("a.csv", "a.xlsx")
    return {column: rule for column, rule in RULES.items() if not (flat and column in NESTED)}


def rows_of(name: str, seed: int) -> Rows:
    rows = make_rows(seed)
    if name in ("a.csv", "a.xlsx"):
        rows = [{key: row[key] for key in row if key not in NESTED} for row in rows]
    return rows


def list_rules(rules: Mapping[str, str]) -> str:
    return ", ".join(f"{column}:{rule}" for column, rule in rules.items())


def is_equal(name: str, found: Any, expected: Any) -> bool:
    if name == "a.xlsx":
        return (found or "") == ("" if expected is None else expected) or found == expected
    return bool(found == expected)


@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize("seed", range(2))
def test_kept_rows_of_files_are_those_of_the_oracle(name: str, seed: int, tmp_path: Path) -> None:
    write, read = FORMATS[name]
    rules = rules_of(name)
    rows = rows_of(name, seed)
    write(tmp_path / name, rows)
    arguments = [*FLAGS, "--merge-fields", list_rules(rules), "--out", tmp_path / "out"]
    assert run("dedup", tmp_path / name, *arguments) == 0
    found = sorted(read(tmp_path / "out" / "kept" / name), key=lambda row: row["id"])
    merged, sources = merge_all_by_oracle(rows, rules)
    expected = to_values_of(name, merged)
    assert [row["id"] for row in found] == [row["id"] for row in expected]
    for row, other in zip(found, expected, strict=True):
        for column in other:
            assert is_equal(name, row[column], other[column]), (row["id"], column)
    report = json.loads((tmp_path / "out" / "report.json").read_text())["merged"]
    counts = {column["column"]: column["count"] for column in report["columns"]}
    assert report["rows"] == len(sources)
    assert counts == {
        column: sum(column in those for those in sources.values()) for column in rules
    }
    recorded = json.loads((tmp_path / "out" / "run.json").read_text())["merged"]
    assert recorded["columns"] == counts
    for column in report["columns"]:
        for example in column["examples"]:
            listed = sources[example["id"]][column["column"]]
            assert example["sources"] == listed[:5]
            assert example["source_count"] == len(listed)


@pytest.mark.parametrize("name", ["a.parquet", "a.jsonl", "a.csv", "a.json", "a.avro"])
def test_sources_are_in_a_column_if_asked(name: str, tmp_path: Path) -> None:
    write, read = FORMATS[name]
    rules = rules_of(name)
    rows = rows_of(name, 7)
    write(tmp_path / name, rows)
    arguments = ["--merge-fields", list_rules(rules), "--merge-sources"]
    assert run("dedup", tmp_path / name, *FLAGS, *arguments, "--out", tmp_path / "out") == 0
    _, sources = merge_all_by_oracle(rows, rules)
    for row in read(tmp_path / "out" / "kept" / name):
        assert row["merged_from"] == sources.get(row["id"])


def test_table_in_memory_keeps_its_types() -> None:
    rows = make_rows(3)
    table = to_table(rows)
    with nk.dedup(
        table,
        id="id",
        keep="rank asc",
        max_removed=1.0,
        merge_fields=list_rules(RULES),
        merge_sources=True,
    ) as result:
        merged = result.merged_rows.arrow
    expected, sources = merge_all_by_oracle(rows, RULES)
    assert merged.schema.types[:-1] == table.schema.types
    found = sorted(from_table(merged), key=lambda row: row["id"])
    assert found == [{**row, "merged_from": sources.get(row["id"])} for row in expected]


@pytest.mark.parametrize("parts", [1, 3, 8])
@pytest.mark.parametrize("ending", ["parquet", "jsonl"])
def test_result_does_not_depend_on_files_and_workers(
    parts: int, ending: str, tmp_path: Path
) -> None:
    rows = make_rows(11, 200)
    write, read = FORMATS[f"a.{ending}"]
    (tmp_path / "in").mkdir()
    size = -(-len(rows) // parts)
    for number in range(parts):
        write(tmp_path / "in" / f"{number}.{ending}", rows[number * size :][:size])
    arguments = ["--merge-fields", list_rules(RULES), "--workers", parts, "--merge-sources"]
    assert run("dedup", tmp_path / "in", *FLAGS, *arguments, "--out", tmp_path / "out") == 0
    files = sorted((tmp_path / "out" / "kept").iterdir())
    found = sorted((row for file in files for row in read(file)), key=lambda row: row["id"])
    merged, sources = merge_all_by_oracle(rows, RULES)
    expected = to_values_of(f"a.{ending}", merged)
    assert found == [{**row, "merged_from": sources.get(row["id"])} for row in expected]


def test_result_does_not_depend_on_the_rows_that_are_merged_at_a_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = make_rows(13, 200)
    write_parquet(tmp_path / "a.parquet", rows)
    expected, _ = merge_all_by_oracle(rows, RULES)
    for limit in (1, 5, 50):
        monkeypatch.setattr("nearkin.engine.merged_rows.BATCH_ROWS", limit)
        out = tmp_path / f"out{limit}"
        rules = ["--merge-fields", list_rules(RULES)]
        assert run("dedup", tmp_path / "a.parquet", *FLAGS, *rules, "--out", out) == 0
        found = read_parquet(out / "kept" / "a.parquet")
        assert sorted(found, key=lambda row: row["id"]) == expected


def test_parts_of_a_file_are_read_by_other_processes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("nearkin.corpus.parts.PART_BYTES", 1000)
    rows = make_rows(17, 200)
    rules = ["--merge-fields", list_rules(RULES), "--merge-sources"]
    write_lines(tmp_path / "a.jsonl", rows)
    kept = Path("kept") / "a.jsonl"
    assert run("dedup", tmp_path / "a.jsonl", *FLAGS, *rules, "--out", tmp_path / "threads") == 0
    with Processes.start(2) as executor:
        result = nk.dedup(
            tmp_path / "a.jsonl",
            id="id",
            keep="rank asc",
            max_removed=1.0,
            merge_fields=list_rules(RULES),
            merge_sources=True,
            work=tmp_path,
            executor=executor,
        )
        result.write(tmp_path / "processes")
    expected = (tmp_path / "threads" / kept).read_bytes()
    assert (tmp_path / "processes" / kept).read_bytes() == expected


@pytest.mark.parametrize("name", ["out.parquet", "out.csv", "out.jsonl"])
def test_one_file_of_kept_rows_has_their_new_values(name: str, tmp_path: Path) -> None:
    rules = {"phone": "first-non-empty", "words": "union"}
    rows = [
        {key: row[key] or "" for key in ("id", "text", "rank", *rules)} for row in make_rows(19)
    ]
    table = pa.Table.from_pylist(rows)
    pq.write_table(table, tmp_path / "a.parquet")
    arguments = [*FLAGS, "--merge-fields", list_rules(rules), "--out", tmp_path / name]
    assert run("dedup", tmp_path / "a.parquet", *arguments) == 0
    with nk.dedup(
        table, id="id", keep="rank asc", max_removed=1.0, merge_fields=list_rules(rules)
    ) as result:
        result.write(tmp_path / f"library-{name}")
        merged = result.merged_rows.to_pylist()
    expected, _ = merge_all_by_oracle(rows, rules)
    assert sorted(merged, key=lambda row: row["id"]) == expected
    first = (tmp_path / name).read_bytes()
    if not name.endswith(".parquet"):
        assert first == (tmp_path / f"library-{name}").read_bytes()
        return
    for path in (tmp_path / name, tmp_path / f"library-{name}"):
        written = sorted(pq.read_table(path).to_pylist(), key=lambda row: row["id"])
        assert written == expected


def test_all_rows_stay_and_the_kept_one_is_filled_with_annotations(tmp_path: Path) -> None:
    rows = make_rows(23)
    write_lines(tmp_path / "a.jsonl", rows)
    rules = ["--merge-fields", "phone:first-non-empty"]
    out = tmp_path / "out"
    assert run("dedup", tmp_path / "a.jsonl", *FLAGS, *rules, "--annotate", "--out", out) == 0
    kept, _ = merge_all_by_oracle(rows, {"phone": "first-non-empty"})
    expected = {row["id"]: row["phone"] for row in [*rows, *kept]}
    found = {row["id"]: row["phone"] for row in read_lines(out / "kept" / "a.jsonl")}
    assert found == expected


def test_first_of_several_kept_rows_is_filled(tmp_path: Path) -> None:
    rows = [
        {"id": str(at), "text": "one text of several words", "n": n}
        for at, n in enumerate(["", "5", "", "7"])
    ]
    result = nk.dedup(rows, id="id", keep="id asc", keep_up_to=3, merge_fields="n:max")
    assert [row["n"] for row in result.merged_rows.to_pylist()] == ["7", "5", ""]


def test_purged_rows_leave_no_values(tmp_path: Path) -> None:
    text = " ".join(f"word{at}" for at in range(20))
    rows = [
        {"id": "a", "text": text, "phone": "", "rank": 1},
        {"id": "b", "text": f"{text} end", "phone": "555", "rank": 2},
        {"id": "c", "text": text, "phone": "777", "rank": 3},
    ]
    write_lines(tmp_path / "a.jsonl", rows)
    (tmp_path / "erase.jsonl").write_text(json.dumps({"text": f"{text} end"}) + "\n")
    rules = ["--merge-fields", "phone:first-non-empty", "--merge-sources"]
    out = tmp_path / "out"
    assert run("dedup", tmp_path / "a.jsonl", *FLAGS, *rules, "--out", out) == 0
    (row,) = read_lines(out / "kept" / "a.jsonl")
    assert (row["phone"], row["merged_from"]) == ("555", {"phone": ["b"]})
    purged = tmp_path / "purged"
    like = ["--like", tmp_path / "erase.jsonl", "--accept", "jaccard >= 0.99"]
    assert run("purge", out, *like[:2], "--out", purged) == 0
    rows = read_lines(purged / "kept" / "a.jsonl")
    assert all("555" not in json.dumps(row) for row in rows)


@pytest.mark.parametrize("name", ["a.parquet", "a.jsonl"])
@pytest.mark.parametrize(
    ("rules", "reason"),
    [
        ("phnoe:longest", "has (no column|the field) 'phnoe'.*did you mean 'phone'"),
        ("id:longest", "cannot change the column of ids 'id'"),
        ("phone:longer", "the rule 'longer' of 'phone' is not one of.*did you mean 'longest'"),
    ],
)
def test_unknown_columns_and_rules_are_refused(
    rules: str, reason: str, name: str, tmp_path: Path
) -> None:
    rows = rows_of(name, 1)
    FORMATS[name][0](tmp_path / name, rows)
    with pytest.raises(UsageError, match=reason):
        nk.dedup(tmp_path / name, id="id", merge_fields=rules)


@pytest.mark.parametrize("name", ["a.parquet", "a.jsonl", "a.avro"])
@pytest.mark.parametrize(
    ("rules", "reason"),
    [
        ("low:longest", "of the type number; give one of first-non-empty, most-frequent, min, max"),
        ("tags:max", "of the type list; give one of first-non-empty, most-frequent, longest"),
        ("flag:union", "of the type boolean; give one of first-non-empty, most-frequent"),
        ("meta:min", "of the type other; give one of first-non-empty, most-frequent"),
    ],
)
def test_rule_that_does_not_fit_the_type_is_refused_before_anything_is_written(
    rules: str, reason: str, name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    FORMATS[name][0](tmp_path / name, make_rows(1))
    out = tmp_path / "out"
    assert run("dedup", tmp_path / name, *FLAGS, "--merge-fields", rules, "--out", out) == 2
    message = " ".join(capsys.readouterr().err.split())
    column = rules.partition(":")[0]
    assert f"does not fit the column {column!r} of" in message
    assert reason in message
    assert not out.exists()
    assert [path.name for path in tmp_path.iterdir()] == [name]


def test_values_of_json_that_appear_late_are_refused_before_anything_is_written(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = [{"id": str(at), "text": f"some text {at // 2}", "n": "1"} for at in range(40_000)]
    rows[-1]["n"] = 5  # type: ignore[assignment]
    (tmp_path / "a.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    out = tmp_path / "out"
    rules = ["--merge-fields", "n:union", "--id", "id", "--max-removed", "1", "--threshold", "0.8"]
    assert run("dedup", tmp_path / "a.jsonl", *rules, "--out", out) == 2
    message = " ".join(capsys.readouterr().err.split())
    assert "the column 'n' of the cluster of '39998'" in message
    assert "of the type number; give one of" in message
    assert not out.exists()


def test_columns_of_several_types_are_refused(tmp_path: Path) -> None:
    text = "the same words in both of the rows"
    for name, value in (("a", 1), ("b", "1")):
        table = pa.Table.from_pylist([{"id": name, "text": text, "n": value}])
        pq.write_table(table, tmp_path / f"{name}.parquet")
    with pytest.raises(UsageError, match=r"int64 in .*a.parquet and string in .*b.parquet") as one:
        nk.dedup(tmp_path, id="id", merge_fields="n:max", out=tmp_path / "out")
    assert "merge_fields" in str(one.value)


def test_texts_without_columns_are_refused(tmp_path: Path) -> None:
    for name in ("a.txt", "b.txt"):
        (tmp_path / name).write_text("one text without columns")
    with pytest.raises(UsageError, match=r"has no column 'phone'|rows have no columns"):
        nk.dedup(tmp_path, merge_fields="phone:longest")


def test_part_of_another_column_is_refused(tmp_path: Path) -> None:
    write_parquet(tmp_path / "a.parquet", make_rows(1))
    with pytest.raises(UsageError, match=r"'meta.b' is inside another column"):
        nk.dedup(tmp_path / "a.parquet", id="id", merge_fields="meta.b:longest")
    with pytest.raises(UsageError, match=r"'meta.b' is inside another column"):
        nk.dedup(to_table(make_rows(1)), id="id", merge_fields="meta.b:longest")


def test_column_of_the_folders_is_refused(tmp_path: Path) -> None:
    for lang in ("de", "en"):
        folder = tmp_path / "in" / f"lang={lang}"
        folder.mkdir(parents=True)
        write_parquet(folder / "a.parquet", make_rows(1))
    with pytest.raises(UsageError, match="cannot change 'lang', which is part of the path"):
        nk.dedup(tmp_path / "in", id="id", merge_fields="lang:longest")


def test_merge_needs_copies_and_rules(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_parquet(tmp_path / "a.parquet", make_rows(1))
    line = ["dedup", tmp_path / "a.parquet", *FLAGS, "--out", tmp_path / "out"]
    assert run(*line, "--merge-fields", "phone:longest", "--output", "ids") == 2
    assert run(*line, "--merge-sources") == 2
    assert "--merge-fields" in capsys.readouterr().err
    with pytest.raises(UsageError, match="`merge_sources` has no effect without"):
        nk.dedup(["a"], merge_sources=True)


def test_rows_of_files_are_written_and_not_held(tmp_path: Path) -> None:
    write_parquet(tmp_path / "a.parquet", make_rows(1))
    with (
        nk.dedup(tmp_path / "a.parquet", id="id", merge_fields="phone:longest") as result,
        pytest.raises(UsageError, match="which merged_rows does not read"),
    ):
        _ = result.merged_rows


@pytest.mark.parametrize("is_pickled", [False, True])
def test_rows_without_their_new_values_are_not_returned(is_pickled: bool) -> None:
    rows = [{"id": "a", "text": "a text"}, {"id": "b", "text": "a text"}]
    result = nk.dedup(rows, id="id", merge_fields="text:longest")
    result = pickle.loads(pickle.dumps(result)) if is_pickled else result
    with pytest.raises(UsageError, match=r"take result.merged_rows"):
        result.filter(rows)
    with pytest.raises(UsageError, match=r"take result.merged_rows"):
        _ = result.kept_rows
    if not is_pickled:
        assert result.merged_rows.to_pylist() == rows[:1]
        assert result.rethreshold(0.9).merged_rows.to_pylist() == rows[:1]


def test_page_escapes_values(tmp_path: Path) -> None:
    rows = [
        {"id": "a", "text": "one text of several words", "n": ""},
        {"id": "b", "text": "one text of several words", "n": "<script>alert(1)</script>"},
    ]
    write_lines(tmp_path / "a.jsonl", rows)
    nk.dedup(tmp_path / "a.jsonl", id="id", merge_fields="n:longest", out=tmp_path / "out")
    page = (tmp_path / "out" / "report.html").read_text()
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in page
    assert "<script>alert(1)" not in page
