"""Tests that ordinary lines of JSON are read as the parser of all lines reads them."""

import io
import random
from pathlib import Path

import pytest

from nearkin.corpus import Columns
from nearkin.corpus.formats import json_lines
from nearkin.corpus.formats.json_rows import JsonSliceBuilder
from tests.corpus.formats.generated_files import describe, read_slices

COLUMNS = [
    Columns(),
    Columns(id="id", carried_columns=("score", "source")),
    Columns(joined=("title",), id="id"),
    Columns(text=None, tokens="tokens", carried_columns=("score",)),
    Columns(text=None, vector="vector", id="id"),
    Columns(text='a "name"'),
    Columns(id="text", carried_columns=("text",)),
]
TEXTS = [
    '"plain words"',
    '""',
    '"caf\\u00e9 \\ud83d\\ude00 \\n\\t\\"\\\\\\/"',
    '"grüße 文字 😀"',
    '"\\u0000"',
    '"lone \\ud800"',
    '"low \\udc00 alone"',
    '"\\ud83dx"',
    '"bad \\x escape"',
    '"\\u12g4"',
    '"line\u2028separator \x7f"',
    '"tab\there"',
    '"carriage\rreturn"',
    '"unclosed',
    '"3e400 -1e999 NaN {[{[ ]"',
    '"' + "long " * 400 + '"',
    "null",
    "7",
    "true",
    "[1]",
    '{"a": 1}',
    '["a", "b"]',
]
NUMBERS = [
    "0 -0 -0.0 1 7.5 1e5 1E+5 1e-400 -12 1.10 2.0 1e2 007 1. .5 +1 - 1e 0x1 NaN -Infinity Infinity",
    "9007199254740993 9223372036854775807 9223372036854775808 18446744073709551615",
    "18446744073709551616 123456789012345678901234567890 1e18 1e19 -1e19 1e22 9.3e18",
    "1e308 2e308 1e309 -1e400 1e+400 1E0400 0.00001e312 1e0003",
    "1" + "0" * 305 + " 1" + "0" * 320 + " 0." + "3" * 400 + " 9" + "1" * 250 + "e100",
]
VALUES = [
    *TEXTS,
    *" ".join(NUMBERS).split(),
    "false",
    "[]",
    "{}",
    '[1, [2, {"a": [null, 1e400]}]]',
    '["a", null]',
    "[1.5, 2]",
    "[1, NaN]",
    '{"a": "\\ud800"}',
    '{"a": 1, "a": 2}',
    "[" * 1100 + "]" * 1100,
    "[" * 900 + "]" * 900,
    '{"a":' * 1100 + "1" + "}" * 1100,
    "nul",
    "",
]
FIELDS = ["text", "id", "score", "source", "title", "tokens", "vector", "other", 'a \\"name\\"']
LINES = [
    "",
    "   ",
    "\r",
    "\x0b",
    "[1]",
    "null",
    '"text"',
    "{}",
    '{"text": "a"}{"text": "b"}',
    '{"text": "a"} {"text": "b"}',
    '{"text": "a"} x',
    '{"text": "a",}',
    '{"text": "a"',
    '"a"}',
    '\ufeff{"text": "mark"}',
    '{"te\\u0078t": "a"}',
    '{"text": "a", "text": "b"}',
    '{"text": "a", "text": null}',
    ' {"text" : "a" } \r',
    "{'text': 'a'}",
    '{"text": "a" /* comment */}',
    '{"text": "a"}\x00',
    "\x00",
]


def make_line(random_: random.Random) -> bytes:
    if random_.random() < 0.1:
        line = random_.choice(LINES)
    else:
        # Ordinary lines are frequent, so that blocks have both kinds.
        ordinary = random_.random() < 0.6
        fields = [("text", random_.choice(TEXTS[:4] if ordinary else TEXTS))]
        for name in random_.sample(FIELDS[1:], random_.randrange(6)):
            value = random_.choice(['"x"', "5", "1.5", "null"] if ordinary else VALUES)
            fields.append((name, value))
        if random_.random() < 0.2:
            fields = fields[1:]
        random_.shuffle(fields)
        line = "{" + ", ".join(f'"{name}": {value}' for name, value in fields) + "}"
    raw = line.encode("utf-8", "surrogatepass")
    if random_.random() < 0.02 and raw:
        place = random_.randrange(len(raw))
        raw = raw[:place] + bytes([random_.randrange(256)]) + raw[place + random_.randrange(2) :]
    return raw


def make_file(random_: random.Random) -> bytes:
    lines = [make_line(random_) for _ in range(random_.randrange(1, 40))]
    content = random_.choice([b"\n", b"\r\n"]).join(lines)
    if random_.random() < 0.5:
        content += b"\n"
    if random_.random() < 0.1:
        content = b"\xef\xbb\xbf" + content
    return content


@pytest.mark.parametrize("columns", COLUMNS, ids=range(len(COLUMNS)))
def test_ordinary_lines_give_what_the_parser_of_all_lines_gives(
    columns: Columns, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, full: bool
) -> None:
    random_ = random.Random(f"json {columns}")
    paths = []
    for number in range(3000 if full else 120):
        paths.append(tmp_path / f"{number}.jsonl")
        paths[-1].write_bytes(make_file(random_))
    starts = [random_.choice([0, 0, random_.randrange(30)]) for _ in paths]
    # Borders of blocks fall anywhere.
    monkeypatch.setattr(json_lines, "BLOCK", 1000)
    decoded = [
        describe(read_slices(path, columns, start))
        for path, start in zip(paths, starts, strict=True)
    ]
    monkeypatch.setattr(JsonSliceBuilder, "_read_ordinary", lambda *_: None)
    monkeypatch.setattr(json_lines, "BLOCK", 1 << 20)
    for path, start, got in zip(paths, starts, decoded, strict=True):
        assert got == describe(read_slices(path, columns, start)), path.read_bytes()


@pytest.mark.parametrize("columns", [COLUMNS[0], COLUMNS[1], COLUMNS[2], COLUMNS[3]], ids=range(4))
def test_ordinary_lines_are_not_read_twice(
    columns: Columns, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    line = (
        '{"text": "caf\\u00e9 \\ud83d\\ude00 文字", "id": 7, "score": 1.5, "source": null, '
        '"tokens": ["a", "b"], "other": {"deep": [1, 2.5e-7, {"x": "3e400"}]}}\n'
    )
    (tmp_path / "a.jsonl").write_text(3 * line)
    monkeypatch.setattr(JsonSliceBuilder, "add", None)
    assert describe(read_slices(tmp_path / "a.jsonl", columns, 0))["rows"] == [0, 1, 2]


def test_lines_of_any_length_are_divided_at_line_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    random_ = random.Random(5)
    for _ in range(300):
        monkeypatch.setattr(json_lines, "BLOCK", random_.randrange(1, 9))
        content = bytes(random_.choices(b"ab\r\n", k=random_.randrange(40)))
        limit = random_.randrange(1, 12)
        lines = content.split(b"\n")
        if not lines[-1]:
            lines.pop()
        expected = [line if len(line) <= limit else None for line in lines]
        rows = list(json_lines.read_lines(io.BytesIO(content), limit))
        assert rows == list(enumerate(expected))
