"""Tests that Arrow decodes blocks of CSV to what the csv module makes of them, for any file."""

import random
from pathlib import Path

import pytest

from nearkin.corpus import Columns
from nearkin.corpus.formats import delimited
from nearkin.corpus.formats.delimited import _RowReader
from tests.corpus.formats.generated_files import describe, read_slices

COLUMNS = [
    Columns(),
    Columns(id="id", carried_columns=("score",)),
    Columns(joined=("score",)),
    Columns(delimiter=";"),
    Columns(id="text"),
    Columns(encoding="cp1252"),
]
ORDINARY = ["words", "", "two words", "7", "NULL", "nan", "#N/A", "true", "2024-01-02", " padded "]
QUOTED = [
    '"words"',
    '""',
    '"a, b; c"',
    '"over\ntwo lines"',
    '"over\r\ntwo"',
    '"a\n\n\nb"',
    '"say ""x"""',
    '""""',
    '"caf\u00e9 \U0001f600"',
]
HOSTILE = [
    '"closed" then more',
    '"a" "b"',
    ' "space before"',
    '5" disk',
    'a""b',
    '""abc',
    '"a"""b"',
    '"never closed',
    "\\",
    '"back\\"slash"',
    "carriage\rreturn",
    '"in\rquotes"',
    "nul\x00l",
    "\ufeffmark",
    "line\u2028separator\x85\x0b\x0c\x1c",
    "'single, quotes'",
    "x,y",
    "a;b",
]


def make_row(random_: random.Random, values: int, delimiter: str) -> str:
    kinds = random_.choice([ORDINARY, ORDINARY, QUOTED, QUOTED, ORDINARY + QUOTED + HOSTILE])
    count = values if random_.random() < 0.97 else random_.randrange(5)
    return delimiter.join(random_.choice(kinds) for _ in range(count))


def make_file(random_: random.Random, columns: Columns) -> bytes:
    delimiter = columns.delimiter or ","
    names = random_.choice(
        [
            ["id", "text", "score"],
            ["text", "score", "id", "other"],
            ["score", "id", '"text"'],
            ["text"],
        ]
    )
    header = random_.choice(["", "", "\n", "\r\n\n"]) + delimiter.join(names)
    # Most files have rows of one kind, so that some blocks are decoded and others are not.
    rows = [make_row(random_, len(names), delimiter) for _ in range(random_.randrange(30))]
    line_end = random_.choice(["\n", "\n", "\n", "\r\n", "\r"])
    text = line_end.join([header, *rows])
    if random_.random() < 0.7:
        text += line_end
    raw = text.encode()
    if random_.random() < 0.1 and len(raw) > len(header):
        place = random_.randrange(len(header), len(raw))
        raw = raw[:place] + bytes([random_.randrange(256)]) + raw[place + random_.randrange(2) :]
    if random_.random() < 0.1:
        raw = b"\xef\xbb\xbf" + raw
    return raw


@pytest.mark.parametrize("columns", COLUMNS, ids=range(len(COLUMNS)))
def test_decoder_gives_what_the_csv_module_gives(
    columns: Columns, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, full: bool
) -> None:
    random_ = random.Random(f"csv {columns}")
    paths = []
    for number in range(3000 if full else 150):
        paths.append(tmp_path / f"{number}.csv")
        paths[-1].write_bytes(make_file(random_, columns))
    starts = [random_.choice([0, 0, random_.randrange(20)]) for _ in paths]
    # Borders of blocks fall anywhere, also within quotes.
    monkeypatch.setattr(delimited, "BLOCK", 100)
    decoded = [
        describe(read_slices(path, columns, start))
        for path, start in zip(paths, starts, strict=True)
    ]
    monkeypatch.setattr(_RowReader, "_decode", lambda *_: None)
    for path, start, got in zip(paths, starts, decoded, strict=True):
        assert got == describe(read_slices(path, columns, start)), path.read_bytes()


@pytest.mark.parametrize("line_end", ["\n", "\r\n"])
def test_ordinary_blocks_are_decoded_by_arrow(
    line_end: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_RowReader, "_parse", None)
    rows = ["id,text", '7,"a, ""quoted""\n文字"', "8,plain text", ',""', "9,last"]
    (tmp_path / "a.csv").write_bytes(line_end.join(rows).encode())
    got = describe(read_slices(tmp_path / "a.csv", Columns(id="id"), 0))
    assert got["documents"] == [
        {"text": 'a, "quoted"\n文字', "id": "7"},
        {"text": "plain text", "id": "8"},
        {"text": "", "id": ""},
        {"text": "last", "id": "9"},
    ]
    assert list(map(list, got["complete"])) == [
        ["7", 'a, "quoted"\n文字'],
        ["8", "plain text"],
        ["", ""],
        ["9", "last"],
    ]


def test_line_that_is_longer_than_a_block_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(delimited, "BLOCK", 50)
    texts = ["first", "long " * 100, "second", "third"]
    (tmp_path / "a.csv").write_text("id,text\n" + "".join(f"7,{text}\n" for text in texts))
    got = describe(read_slices(tmp_path / "a.csv", Columns(), 0))
    assert [row["text"] for row in got["documents"]] == texts
    assert got["rows"] == [0, 1, 2, 3]


def test_line_that_is_too_long_is_rejected_and_not_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(delimited, "BLOCK", 50)
    for line_end in ("\n", "\r"):
        rows = ["id,text", "1,first", f"2,{'é' * 10_000}", f'3,"{"x" * 10_000}', "4,last", ""]
        (tmp_path / "a.csv").write_text(line_end.join(rows), newline="")
        got = describe(read_slices(tmp_path / "a.csv", Columns(document_limit=1000), 0))
        assert [row["text"] for row in got["documents"]] == ["first", "last"]
        assert got["rows"] == [0, 3]
        assert [(entry.row, entry.line) for entry in got["rejected"]] == [(1, 3), (2, 4)]
        assert all("longer than 1,000 bytes" in entry.reason for entry in got["rejected"])


def test_rejected_rows_keep_their_lines_after_decoded_blocks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(delimited, "BLOCK", 50)
    good = '7,"over\ntwo lines"\n'
    (tmp_path / "a.csv").write_text("id,text\n" + 100 * good + "one value\n" + 100 * good)
    got = describe(read_slices(tmp_path / "a.csv", Columns(), 0))
    assert [(entry.row, entry.line) for entry in got["rejected"]] == [(100, 202)]
    assert len(got["rows"]) == 200


def test_row_that_ends_in_the_next_block_is_not_too_long(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A quote within a value hides where rows end, so blocks end anywhere."""
    monkeypatch.setattr(delimited, "BLOCK", 100)
    row = f'1,"{"a" * 40}\n{"b" * 40}"\n'
    (tmp_path / "a.csv").write_text('id,text\n0,5" pipe\n' + 50 * row)
    got = describe(read_slices(tmp_path / "a.csv", Columns(document_limit=90), 0))
    assert got["rejected"] == []
    assert len(got["rows"]) == 51
