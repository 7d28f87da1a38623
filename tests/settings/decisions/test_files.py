"""Tests of files of decisions."""

import errno
import json
import os
import threading
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from nearkin.errors import UsageError
from nearkin.runtime import appended_lines
from nearkin.runtime.file_locks import lock_exclusively
from nearkin.settings.decisions import Decision, Verdict, files, read_decisions
from nearkin.settings.decisions.files import COLUMNS, DecisionFile
from tests.corpus.formats.excel_files import write_workbook

AT = datetime(2026, 5, 1, 10, 30, tzinfo=UTC)
HOSTILE_IDS = ["a\rb", "a\nb", 'a"\n,b', "a\x1b[31m", " a ", "", "\x00", "ä\u2028", "=1+1"]


@pytest.mark.parametrize("name", ["decisions.jsonl", "decisions.csv"])
@pytest.mark.parametrize("id", HOSTILE_IDS)
def test_appended_decisions_with_hostile_ids_are_read_again(
    tmp_path: Path, name: str, id: str
) -> None:
    path = tmp_path / name
    decisions = [
        Decision(id, "z", Verdict.SAME, by=id or None, at=AT),
        Decision(id, "y", Verdict.DIFFERENT, at=AT),
    ]
    file = DecisionFile.open(path)
    assert not path.exists()
    for decision in decisions:
        file.append(decision)
    assert list(read_decisions(path)) == decisions
    assert list(DecisionFile.open(path).decisions) == decisions


def test_parquet_files_are_read(tmp_path: Path) -> None:
    path = tmp_path / "decisions.parquet"
    rows = {
        "id_a": [1, 2],
        "id_b": [2, 3],
        "decision": ["same", "different"],
        "at": pa.array([AT, None], pa.timestamp("us", "UTC")),
    }
    pq.write_table(pa.table(rows), path)
    decisions = read_decisions(path)
    assert decisions.same == [("1", "2")]
    assert decisions.of_pairs["1", "2"].at == AT
    assert decisions.different == [("2", "3")]


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        (
            '{"id_a": "a", "id_b": "b", "decision": "sane"}',
            "unknown decision 'sane'; write same",
        ),
        ('{"id_a": "a", "id_b": "b"}', "has no value in decision"),
        ('{"id_a": null, "id_b": "b", "decision": "same"}', "has no value in id_a"),
        ('{"id_a": true, "id_b": "b", "decision": "same"}', "True, which is not a text"),
        ('{"id_a": 1.5, "id_b": "b", "decision": "same"}', "1.5, which is not a text"),
        ('{"id_a": "b", "id_b": "b", "decision": "same"}', "a document and itself"),
        ('{"id_a": "\\ud800", "id_b": "b", "decision": "same"}', "not valid Unicode"),
        (
            '{"id_a": "a", "id_b": "b", "decision": "same", "at": "May"}',
            "'May' in at, which is",
        ),
        ('{"id_a": "a", "id_b": "b", "decision": "same", "at": 5}', "5 in at, which is not a time"),
        ('{"id_a": "a", "id_b": "b", "decision": "same", "at": "2026-05-01"}', "no time zone"),
        ('{"id_a": "a", "id_b": "b", "decision": "same", "by": 5}', "5 in by, which is not a text"),
        ('{"id_a": "a", "id_b"', "is not JSON"),
        ("[" * 100_000, "is not JSON"),
        ("[1]", "is not a JSON object"),
    ],
)
def test_rows_that_are_not_valid_are_named(tmp_path: Path, line: str, problem: str) -> None:
    path = tmp_path / "decisions.jsonl"
    path.write_text('\n{"id_a": "a", "id_b": "c", "decision": "same"}\n' + line)
    with pytest.raises(UsageError, match="line 3 of") as raised:
        read_decisions(path)
    assert problem in str(raised.value)


@pytest.mark.parametrize(
    ("name", "content", "problem"),
    [
        ("d.csv", b"", "has the columns ; decisions have"),
        ("d.csv", b"id_a,id_b,label\n", "has the columns id_a, id_b, label"),
        ("d.csv", b"id_a,id_b,decision,id_a\n", "two columns 'id_a'"),
        ("d.csv", b"id_a,id_b,decision\na,b\n", "line 2 of .* has 2 values and the header 3"),
        ("d.csv", b'id_a,id_b,decision\n"a,b,same\n', "is not CSV"),
        ("d.csv", b"id_a,id_b,decision\na,b,maybe\n", "line 2 of .* unknown decision 'maybe'"),
        ("d.csv", b"id_a,id_b,decision\n\xff,b,same\n", "is not UTF-8"),
        ("d.jsonl", b"\xff\n", "line 1 of .* is not JSON"),
        ("d.parquet", b"PAR1", "is not a parquet file"),
        ("d.txt", b"a", "the format of .* is unknown"),
    ],
)
def test_files_that_are_not_decisions_are_refused(
    tmp_path: Path, name: str, content: bytes, problem: str
) -> None:
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(UsageError, match=problem):
        read_decisions(path)


@pytest.mark.parametrize(
    "at",
    [
        pa.array([1 << 62], pa.timestamp("us", "UTC")),
        pa.array([-(10**14)], pa.timestamp("s", "UTC")),
        pa.array([10**15], pa.timestamp("us", "Mars/Olympus")),
    ],
    ids=["late", "early", "zone"],
)
def test_times_that_python_cannot_express_are_refused(tmp_path: Path, at: pa.Array) -> None:
    path = tmp_path / "d.parquet"
    pq.write_table(pa.table({"id_a": ["a"], "id_b": ["b"], "decision": ["same"], "at": at}), path)
    with pytest.raises(UsageError, match="has a value that cannot be read"):
        read_decisions(path)


def test_missing_files_and_folders_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no such file"):
        read_decisions(tmp_path / "absent.jsonl")
    (tmp_path / "folder.jsonl").mkdir()
    with pytest.raises(UsageError, match="cannot read"):
        read_decisions(tmp_path / "folder.jsonl")
    with pytest.raises(UsageError, match="is a folder"):
        DecisionFile.open(tmp_path / "folder.jsonl")
    with pytest.raises(UsageError, match="no such folder"):
        DecisionFile.open(tmp_path / "absent" / "decisions.jsonl")
    with pytest.raises(UsageError, match="cannot be appended"):
        DecisionFile.open(tmp_path / "decisions.parquet")
    other = tmp_path / "other.csv"
    other.write_text("id_b,id_a,decision,by,at\n")
    with pytest.raises(UsageError, match="does not begin with id_a,id_b,decision,by,at"):
        DecisionFile.open(other)
    assert COLUMNS == ("id_a", "id_b", "decision", "by", "at")


def test_columns_of_spreadsheets_are_read(tmp_path: Path) -> None:
    path = tmp_path / "decisions.csv"
    path.write_bytes(b"\xef\xbb\xbfnote,id_b,decision,id_a\r\nx,b,same,a\r\n\r\n")
    assert read_decisions(path).same == [("a", "b")]


WORDS = {
    Verdict.SAME: ["same", "Duplicate", "YES", "true", "1", " yes "],
    Verdict.DIFFERENT: ["different", "Distinct", "NO", "false", "0"],
}


@pytest.mark.parametrize("suffix", ["csv", "semicolons", "tabs", "xlsx", "jsonl", "parquet"])
def test_tables_that_a_person_has_filled_in_are_read(suffix: str, tmp_path: Path) -> None:
    rows = [
        {"id_a": f"a{number}", "id_b": "b", "decision": word, "text_a": "x"}
        for number, word in enumerate([*WORDS[Verdict.SAME], *WORDS[Verdict.DIFFERENT], "", "  "])
    ]
    path = _write_table(tmp_path, suffix, rows)
    decided = read_decisions(path)
    same, different = (len(words) for words in WORDS.values())
    assert len(decided.same) == same
    assert len(decided.different) == different
    assert len(decided) == same + different


@pytest.mark.parametrize(
    ("suffix", "place"), [("csv", "line 3"), ("xlsx", "row 3"), ("parquet", "row 2")]
)
def test_unknown_words_are_named_with_their_row(suffix: str, place: str, tmp_path: Path) -> None:
    rows = [{"id_a": "a", "id_b": other, "decision": "maybe"} for other in ("b", "c")]
    rows[0]["decision"] = ""
    path = _write_table(tmp_path, suffix, rows)
    with pytest.raises(UsageError, match=rf"{place} of .* has the unknown decision 'maybe'; write"):
        read_decisions(path)


def _write_table(folder: Path, suffix: str, rows: list[dict[str, str]]) -> Path:
    path = folder / f"table.{'csv' if suffix in ('semicolons', 'tabs') else suffix}"
    names = list(rows[0])
    if suffix == "xlsx":
        return write_workbook(path, [names, *(list(row.values()) for row in rows)])
    if suffix == "parquet":
        pq.write_table(pa.Table.from_pylist(rows), path)
    elif suffix == "jsonl":
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    else:
        delimiter = {"csv": ",", "semicolons": ";", "tabs": "\t"}[suffix]
        lines = [names, *(list(row.values()) for row in rows)]
        path.write_text("".join(delimiter.join(line) + "\n" for line in lines))
    return path


@pytest.mark.parametrize(
    ("name", "delimiter", "encoding"),
    [
        ("d.csv", ";", "cp1252"),
        ("d.csv", ";", "utf-8-sig"),
        ("d.csv", "\t", "utf-16"),
        ("d.tsv", "\t", "utf-8"),
        ("d.csv", "|", "utf-8"),
    ],
)
@pytest.mark.parametrize("first", ["", "sep={}\r\n"])
def test_csv_is_read_in_the_dialects_of_inputs(
    name: str, delimiter: str, encoding: str, first: str, tmp_path: Path
) -> None:
    path = tmp_path / name
    rows = [["id_a", "id_b", "decision", "text_a"], ["Köln", "Düsseldorf", "yes", "Straße, 1"]]
    text = first.format(delimiter) + "".join(f"{delimiter.join(row)}\r\n" for row in rows)
    path.write_bytes(text.encode(encoding))
    assert read_decisions(path).same == [("Düsseldorf", "Köln")]
    path.write_bytes((text + f"a{delimiter}b\r\n").encode(encoding))
    with pytest.raises(UsageError, match=f"line {3 + bool(first)} of .* has 2 values"):
        read_decisions(path)


def test_values_of_other_types_are_decisions(tmp_path: Path) -> None:
    path = tmp_path / "d.parquet"
    rows = {"id_a": [1, 2, 3], "id_b": [4, 5, 6], "decision": [True, False, None]}
    pq.write_table(pa.table(rows), path)
    assert read_decisions(path).same == [("1", "4")]
    assert read_decisions(path).different == [("2", "5")]
    workbook = write_workbook(
        tmp_path / "d.xlsx", [["id_a", "id_b", "decision"], [1, 4, 1], [2, 5, 0], [3, 6, ""]]
    )
    assert list(read_decisions(workbook)) == list(read_decisions(path))


def test_workbooks_that_are_not_decisions_are_refused(tmp_path: Path) -> None:
    path = write_workbook(tmp_path / "d.xlsx", [["id_a", "label"], ["a", "b"]])
    with pytest.raises(UsageError, match="has the columns id_a, label; decisions have"):
        read_decisions(path)
    with pytest.raises(UsageError, match="has the columns ; decisions have"):
        read_decisions(write_workbook(tmp_path / "e.xlsx", []))
    path.write_bytes(path.read_bytes()[:-40])
    with pytest.raises(UsageError, match="is not a complete Excel workbook"):
        read_decisions(path)


def test_each_decision_is_synced_and_completes_the_last_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "decisions.jsonl"
    path.write_text('{"id_a": "a", "id_b": "b", "decision": "same"}')
    file = DecisionFile.open(path)
    synced: list[int] = []
    monkeypatch.setattr(os, "fsync", lambda handle: synced.append(handle))
    file.append(Decision("a", "c", Verdict.DIFFERENT))
    assert len(synced) == 1
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    assert rows[1]["decision"] == "different"
    assert datetime.fromisoformat(rows[1]["at"]).tzinfo is not None


def test_contradiction_and_full_disk_leave_the_file_unchanged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "decisions.jsonl"
    file = DecisionFile.open(path)
    file.append(Decision("a", "b", Verdict.SAME))
    file.append(Decision("b", "c", Verdict.SAME))
    before = path.read_bytes()
    with pytest.raises(UsageError, match="join the two"):
        file.append(Decision("a", "c", Verdict.DIFFERENT))

    def fail(handle: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(OSError, match="No space left"):
        file.append(Decision("a", "d", Verdict.DIFFERENT))
    assert path.read_bytes() == before
    assert len(file.decisions) == 2


def test_two_processes_append_to_one_file(tmp_path: Path) -> None:
    path = tmp_path / "decisions.jsonl"
    first = DecisionFile.open(path)
    second = DecisionFile.open(path)
    first.append(Decision("a", "b", Verdict.SAME))
    second.append(Decision("b", "c", Verdict.SAME))
    # each one knows what the other one has appended, so that the file stays consistent
    with pytest.raises(UsageError, match="'a' = 'b' = 'c'"):
        first.append(Decision("a", "c", Verdict.DIFFERENT))
    first.append(Decision("a", "b", Verdict.DIFFERENT))
    second.append(Decision("a", "c", Verdict.DIFFERENT))
    assert read_decisions(path).different == [("a", "b"), ("a", "c")]
    # one without a time is later, whatever the clock of the other process is
    first.append(Decision("x", "y", Verdict.SAME, at=datetime(2090, 1, 1, tzinfo=UTC)))
    second.append(Decision("y", "x", Verdict.DIFFERENT))
    assert ("x", "y") in read_decisions(path).different


def test_an_append_does_not_remove_what_others_append(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "decisions.jsonl"
    file = DecisionFile.open(path)
    write = appended_lines._write_all
    other = threading.Thread(
        target=lambda: DecisionFile.open(path).append(Decision("x", "y", Verdict.SAME))
    )

    def fail(handle: object, content: bytes) -> None:
        monkeypatch.setattr(appended_lines, "_write_all", write)
        other.start()
        other.join(0.2)
        raise OSError(errno.ENOSPC, "full")

    monkeypatch.setattr(appended_lines, "_write_all", fail)
    with pytest.raises(OSError, match="full"):
        file.append(Decision("a", "b", Verdict.SAME))
    # the other one waited until the failed line was removed
    other.join(30)
    assert read_decisions(path).same == [("x", "y")]


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("d.jsonl", b'{"id_a": "a", "id_b": "b", "decision": "sa', "incomplete, as after a crash"),
        ("d.csv", b"id_a,id_b,decision,by,at\na,b,same,,\nc,d", "line 3 of .* has 2 values"),
        ("d.jsonl", b'"' + b"x" * 2_000, "more than 1,000 bytes"),
    ],
)
def test_half_written_and_endless_lines_are_named(
    tmp_path: Path, name: str, content: bytes, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("nearkin.settings.decisions.files.MAX_LINE_BYTES", 1_000)
    path = tmp_path / name
    path.write_bytes(content)
    for read in (read_decisions, DecisionFile.open):
        with pytest.raises(UsageError, match=message):
            read(path)
    assert path.read_bytes() == content


def test_a_table_with_too_many_bytes_is_not_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("nearkin.settings.decisions.files.MAX_TABLE_BYTES", 100)
    path = tmp_path / "d.parquet"
    ids = [f"{number}" * 20 for number in range(1000)]
    table = pa.table({"id_a": ids, "id_b": ids[::-1], "decision": ["same"] * 1000})
    pq.write_table(table, path)
    with pytest.raises(UsageError, match="bytes of values"):
        read_decisions(path)


def test_decisions_that_others_append_during_the_wait_for_the_lock_are_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "decisions.jsonl"
    file, other = DecisionFile.open(path), DecisionFile.open(path)

    def lock_late(handle: int) -> None:
        monkeypatch.setattr(files, "lock_exclusively", lock_exclusively)
        other.append(Decision("a", "b", Verdict.SAME))
        lock_exclusively(handle)

    monkeypatch.setattr(files, "lock_exclusively", lock_late)
    file.append(Decision("b", "c", Verdict.SAME))
    with pytest.raises(UsageError, match="as different, but decisions `same` join"):
        file.append(Decision("a", "c", Verdict.DIFFERENT))
