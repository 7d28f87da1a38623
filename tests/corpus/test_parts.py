"""Tests of parts of a corpus: together they are what is read in order."""

import json
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.feather as feather
import pyarrow.parquet as pq
import pytest

from nearkin.corpus import Batch, Columns, FileCorpus, TableCorpus
from nearkin.corpus.formats.parquet_footers import ROW_GROUPS, ROWS, encode_struct, read_footer
from nearkin.corpus.parts import are_files_parts, divide_file, split_corpus, split_files
from nearkin.corpus.places import RowRange
from nearkin.corpus.writer import NO_DOCUMENTS, KnownDocuments, write_kept

COLUMNS = Columns(id="id")


@pytest.fixture(params=["in memory", "from files"])
def part_bytes(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Makes each row group a part, or joins a few."""
    size = 1 if request.param == "in memory" else 6_000
    monkeypatch.setattr("nearkin.corpus.parts.PART_BYTES", size)


@pytest.fixture
def corpus(tmp_path: Path) -> FileCorpus:
    """Files with and without row groups, of which one is damaged and one is empty."""
    rows = [
        {"id": f"{number}", "text": None if number % 17 == 3 else f"text {number} " * 20}
        for number in range(700)
    ]
    files = {"a": rows[:300], "c": [], "d": rows[300:320], "g": rows[320:600]}
    for name, part in files.items():
        table = pa.Table.from_pylist(part, pa.schema([("id", pa.string()), ("text", pa.string())]))
        pq.write_table(table, tmp_path / f"{name}.parquet", row_group_size=13)
    damaged = (tmp_path / "d.parquet").read_bytes()
    (tmp_path / "b.parquet").write_bytes(damaged[:-30])
    for name, part in {"e": rows[600:650], "f": rows[650:]}.items():
        (tmp_path / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in part))
    return FileCorpus.open([str(tmp_path)])


def contents_of(batches: Iterator[Batch]) -> tuple[list[object], list[object], list[object]]:
    """Returns the places, the documents and the rejected rows of batches."""
    read = list(batches)
    places = [(batch.files.tolist(), batch.rows.tolist()) for batch in read]
    documents = [row for batch in read for row in batch.documents.to_pylist()]
    joined = [place for files, rows in places for place in zip(files, rows, strict=True)]
    return list(joined), documents, [entry for batch in read for entry in batch.rejected]


def read_parts(
    corpus: FileCorpus | TableCorpus, workers: int, start: tuple[int, int] = (0, 0)
) -> Iterator[Batch]:
    slot = 7
    for part in split_corpus(corpus, COLUMNS, workers, start, slot):
        assert part.slot == slot
        slot += part.rows
        batches = list(part.read(corpus, COLUMNS))
        assert batches[0].first == 0
        for batch, following in pairwise(batches):
            assert following.first == batch.first + len(batch.rows)
        assert sum(len(batch.rows) for batch in batches) <= part.rows
        yield from batches


@pytest.mark.usefixtures("part_bytes")
@pytest.mark.parametrize("workers", [1, 3])
def test_parts_hold_what_is_read_in_order(corpus: FileCorpus, workers: int) -> None:
    expected = contents_of(corpus.batches(COLUMNS))
    assert len(expected[0]) > 600
    assert contents_of(read_parts(corpus, workers)) == expected


@pytest.mark.usefixtures("part_bytes")
def test_parts_continue_where_another_one_ended(corpus: FileCorpus) -> None:
    parts = [list(part.read(corpus, COLUMNS)) for part in split_corpus(corpus, COLUMNS, 1)]
    assert len(parts) > 15
    for done in range(0, len(parts), 7):
        following = (batch for part in parts[done + 1 :] for batch in part)
        start = parts[done][-1].next
        assert contents_of(read_parts(corpus, 1, start)) == contents_of(following)


def test_parts_may_begin_inside_a_row_group(corpus: FileCorpus) -> None:
    for row in (5, 12, 13):
        expected = contents_of(corpus.batches(COLUMNS, (0, row)))
        assert contents_of(read_parts(corpus, 1, (0, row))) == expected


@pytest.mark.usefixtures("corpus", "part_bytes")
def test_a_file_that_states_more_rows_than_it_has_bytes_is_read_from_its_beginning(
    tmp_path: Path,
) -> None:
    path = tmp_path / "a.parquet"
    with path.open("rb") as source:
        end, footer = read_footer(source)
    groups = footer[ROW_GROUPS].value.value
    groups[2][ROWS] = groups[2][ROWS]._replace(value=1 << 45)
    stated = footer[ROWS].value - 13 + (1 << 45)
    encoded = encode_struct(footer | {ROWS: footer[ROWS]._replace(value=stated)})
    size = len(encoded).to_bytes(4, "little")
    path.write_bytes(path.read_bytes()[:end] + encoded + size + b"PAR1")
    corpus = FileCorpus.open([str(path)])
    parts = list(split_corpus(corpus, COLUMNS, 1))
    expected = contents_of(corpus.batches(COLUMNS))
    assert sum(part.rows for part in parts) == len(expected[0]) > 250
    read = (batch for part in parts for batch in part.read(corpus, COLUMNS))
    assert contents_of(read) == expected
    assert divide_file(corpus, COLUMNS, 0) == [RowRange(0, 0)]


def test_files_with_few_row_groups_are_handed_out_in_batches(tmp_path: Path) -> None:
    path = tmp_path / "one.parquet"
    pq.write_table(pa.table({"id": ["a"], "text": ["b"]}), path)
    corpus = FileCorpus.open([str(path)])
    (part,) = split_corpus(corpus, COLUMNS, 2)
    assert part.rows == 1
    assert part.batch is not None


def are_parts(folder: Path, workers: int = 2) -> bool:
    return are_files_parts(FileCorpus.open([str(folder)]), COLUMNS, workers)


def test_files_are_parts_if_the_largest_is_at_most_half_of_all(tmp_path: Path) -> None:
    (tmp_path / "lines.jsonl").write_text('{"id": "a", "text": "b"}\n')
    assert not are_parts(tmp_path)
    for number in range(2):
        (tmp_path / f"{number}.csv").write_text("id,text\n" + f"{number},a\n" * 100)
    assert are_parts(tmp_path)
    # one worker reads no faster than the thread that hands batches to it
    assert not are_parts(tmp_path, workers=1)
    (tmp_path / "2.csv").write_text("id,text\n" + "2,a\n" * 300)
    assert not are_parts(tmp_path)


@pytest.mark.parametrize("name", ["0.arrow", "0.jsonl.zst", "0.txt"])
def test_files_that_do_not_suit_threads_are_read_by_one(name: str, tmp_path: Path) -> None:
    for number in range(2):
        (tmp_path / f"{number}.csv").write_text("id,text\n" + f"{number},a\n" * 100)
    if name.endswith(".arrow"):
        feather.write_feather(pa.table({"id": ["a"], "text": ["b"]}), tmp_path / name)
    elif name.endswith(".txt"):
        (tmp_path / name).write_text("a text")
    else:
        # a frame with a window of 16 MiB, and without content
        (tmp_path / name).write_bytes(bytes.fromhex("28b52ffd 00 70 010000"))
    assert not are_parts(tmp_path)


def test_small_files_are_several_parts_for_each_worker(tmp_path: Path) -> None:
    for number in range(40):
        (tmp_path / f"{number:02d}.csv").write_text("id,text\n" + f"{number},a\n" * 100)
    corpus = FileCorpus.open([str(tmp_path)])
    assert [len(part.ranges) for part in split_files(corpus, COLUMNS)] == [40]
    assert [len(part.ranges) for part in split_files(corpus, COLUMNS, workers=2)] == [3] * 13 + [1]


def test_a_table_is_handed_out_in_batches() -> None:
    numbers = np.arange(20_000).astype(str)
    corpus = TableCorpus(pa.table({"id": numbers, "text": numbers}))
    parts = list(split_corpus(corpus, COLUMNS, 2))
    assert [part.rows for part in parts] == [8192, 8192, 3616]
    assert contents_of(read_parts(corpus, 2)) == contents_of(corpus.batches(COLUMNS))


LINES = {
    "usual": b"".join(b'{"id": "%d", "text": "text %d"}\n' % (n, n) for n in range(40)),
    "blank lines": b'\n\n{"id": "1", "text": "a"}\n\n \n\n\n{"id": "2", "text": "b"}\n\n\n',
    "windows": b'{"id": "1", "text": "a"}\r\n{"id": "2", "text": "b"}\r\n' * 9,
    "no last end": b'{"id": "1", "text": "a"}\n' * 7 + b'{"id": "2", "text": "b"}',
    "one line": b'{"id": "1", "text": "a"}',
    "a mark": b'\xef\xbb\xbf{"id": "1", "text": "a"}\n{"id": "2", "text": "b"}\n',
    "rejected": b'{"id": "1", "text": "a"}\n{"id": 3, "te\n[1]\n{"id": "2"}\n\xff\n' * 5,
    "a long line": b'{"id": "1", "text": "a"}\n{"id": "2", "text": "%s"}\n' % (b"b " * 900) * 3,
    "too long": b'{"id": "1", "text": "a"}\n{"id": "2", "text": "%s"}\n' % (b"b" * 9_000) * 3,
    "empty": b"",
}


@pytest.mark.parametrize("name", LINES)
@pytest.mark.parametrize("suffix", [".jsonl", ".log"])
@pytest.mark.parametrize("least", [1, 100])
def test_lines_are_read_in_parts(
    name: str, suffix: str, least: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("nearkin.corpus.formats.json_lines.BLOCK", 64)
    monkeypatch.setattr("nearkin.corpus.parts.PART_BYTES", least)
    (tmp_path / "in").mkdir()
    for number in range(2):
        (tmp_path / "in" / f"{number}{suffix}").write_bytes(LINES[name])
    corpus = FileCorpus.open([str(tmp_path / "in")])
    columns = Columns(id="id", document_limit=4_000)
    if suffix == ".log":
        columns = Columns(lines=True, document_limit=4_000)
    expected = contents_of(corpus.batches(columns))
    parts = list(split_corpus(corpus, columns, 1))
    assert len(parts) > 15 or name != "usual"
    read = [list(part.read(corpus, columns)) for part in parts]
    assert contents_of(batch for batches in read for batch in batches) == expected
    rows = [sum(len(batch.rows) for batch in batches) for batches in read]
    assert all(count <= part.rows for count, part in zip(rows, parts, strict=True))
    for batches, done in zip(read, range(len(read)), strict=True):
        following = (batch for later in read[done + 1 :] for batch in later)
        if batches:
            rest = split_corpus(corpus, columns, 1, batches[-1].next)
            again = (batch for part in rest for batch in part.read(corpus, columns))
            assert contents_of(again) == contents_of(following)
    kept = np.arange(len(expected[0])) % 3 > 0
    files, numbers = zip(*expected[0], strict=True) if expected[0] else ((), ())
    known = KnownDocuments(np.array(files, np.int32), np.array(numbers, np.int64), NO_DOCUMENTS)
    copies = []
    for workers, places in ((1, None), (1, known), (3, known)):
        out = tmp_path / f"{workers}-{places is None}"
        write_kept(corpus, columns, kept, out, known=places, workers=workers)
        copies.append({path.name: path.read_bytes() for path in sorted(out.iterdir())})
    assert copies[1] == copies[0]
    assert copies[2] == copies[0]
