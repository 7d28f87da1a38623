"""Tests of JSON lines: invalid lines, types, limits and large numbers."""

import json
from pathlib import Path

import numpy as np
import orjson
import pyarrow as pa
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import nearkin as nk
from nearkin.corpus import Columns, FileCorpus
from nearkin.corpus.formats.json_lines import LineWriter
from tests.corpus.formats.test_delimited import MIXED_REMEDY
from tests.corpus.samples import NEAR_TEXTS, copy_all_rows, read_corpus, read_file, read_rows

BAD_LINES = [
    (b'{"text": "fine"}', None),
    (b'{"text": ', "the row is not valid JSON"),
    (b'{"text": "\xff"}', f"the row is not valid UTF-8: byte 11 is 0xFF; {MIXED_REMEDY}"),
    (b'{"text": null}', "text is null"),
    (b'{"body": "x"}', "the field text is missing"),
    (b'{"text": 7}', "text is not a string"),
    (b"[1]", "the row is not a JSON object"),
    (b"   ", None),
    (b'{"text": "\\ud800"}', "the row has a lone surrogate, which UTF-8 cannot represent"),
    (b'{"text": "last, without an end of line"}', None),
]


def test_invalid_lines_are_rejected_with_row_and_reason(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_bytes(b"\n".join(line for line, _ in BAD_LINES))
    rows, rejected = read_corpus(FileCorpus.open([str(tmp_path / "a.jsonl")]), Columns())
    assert [row["at"][1] for row in rows] == [0, 9]
    want = [(at, reason) for at, (_, reason) in enumerate(BAD_LINES) if reason]
    assert [(entry.row, entry.reason) for entry in rejected] == want
    assert rejected[0].raw == '{"text": '


def test_byte_order_mark_is_ignored(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_bytes(b'\xef\xbb\xbf{"text": "x"}\n')
    (tmp_path / "b.csv").write_bytes(b"\xef\xbb\xbftext\ny\n")
    assert [row["text"] for row in read_corpus(FileCorpus.open([str(tmp_path)]), Columns())[0]] == [
        "x",
        "y",
    ]


def test_fields_can_have_different_types_in_different_files(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text(
        '{"text": "x", "rank": 1}\n{"text": "y", "rank": {"deep": [1]}}\n'
    )
    (tmp_path / "b.jsonl").write_text('{"text": "z", "rank": 2.5}\n{"text": "w"}\n')
    rows, _ = read_corpus(FileCorpus.open([str(tmp_path)]), Columns(carried_columns=("rank",)))
    assert [row["rank"] for row in rows] == ["1", '{"deep":[1]}', "2.5", None]


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (
            b'{"text": "x", "deep": ' + b"[" * 100_000 + b"]" * 100_000 + b"}",
            "longer than 200,000 bytes",
        ),
        (b'{"text": "x", "deep": ' + b"[" * 2000 + b"]" * 2000 + b"}", "not valid JSON"),
        (b'{"text": "x", "wide": [' + b"{}," * 60_000 + b"{}]}", "too many values"),
        (b'{"text": "' + b"," * 90_000 + b'"}', ""),
        (b'{"text": "' + b"x" * 100_001 + b'"}', "longer than 100,000 bytes"),
    ],
)
def test_line_is_not_parsed_beyond_the_limit(line: bytes, reason: str, tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_bytes(b'{"text": "first"}\n' + line + b'\n{"text": "last"}\n')
    texts, rejected = read_rows(tmp_path / "a.jsonl")
    assert [texts[0], texts[-1]] == [(0, "first"), (2, "last")]
    assert len(texts) + len(rejected) == 3
    assert [reason in entry.reason for entry in rejected] == [True] * bool(reason)


def test_large_numbers_are_ids_with_all_their_digits(tmp_path: Path) -> None:
    numbers = [str(2**64), str(2**64 + 1), str(10**40), "1.0", "1.00", "0.1000000000000000055", "7"]
    lines = [f'{{"text": "{NEAR_TEXTS[2]} {number}", "n": {number}}}' for number in numbers]
    (tmp_path / "a.jsonl").write_text("\n".join(lines))
    assert nk.dedup(tmp_path / "a.jsonl", id="n").clusters["id"].to_pylist() == numbers
    blocks = nk.dedup(tmp_path / "a.jsonl", block_by="n", threshold=0.1)
    assert blocks.kept.tolist()[:2] == [True, True]


@settings(max_examples=60)
@given(
    st.lists(
        st.one_of(
            st.binary(max_size=20), st.sampled_from([b'{"text": "x"}', b'{"text": 1}', b"[[", b" "])
        ),
        max_size=8,
    )
)
def test_every_line_is_a_document_or_rejected(
    tmp_path_factory: pytest.TempPathFactory, lines: list[bytes]
) -> None:
    """Kept lines equal those of the input, byte for byte."""
    folder = tmp_path_factory.mktemp("case")
    data = b"\n".join(lines)
    # a file that begins with a bracket is read as one JSON array
    assume(not data.removeprefix(b"\xef\xbb\xbf").lstrip().startswith(b"["))
    (folder / "a.jsonl").write_bytes(data)
    texts, rejected = read_file(folder / "a.jsonl")
    filled = [line for line in data.removeprefix(b"\xef\xbb\xbf").split(b"\n") if line.strip()]
    assert len(texts) + len(rejected) == len(filled)
    kept = copy_all_rows(folder / "a.jsonl", Columns(), folder / "out")
    assert kept.split(b"\n")[:-1] == [line for line in data.split(b"\n") if b'"x"' in line]


@pytest.mark.parametrize(
    ("columns", "line", "document"),
    [
        (
            Columns(text=None, tokens="t", carried_columns=("t",)),
            b'{"t": ["ab", "c"]}',
            ["ab", "c"],
        ),
        (
            Columns(text=None, vector="t", dimensions=2, id="t"),
            b'{"t": [1, 2]}',
            [1.0, 2.0],
        ),
    ],
)
def test_documents_can_be_carried_columns(
    columns: Columns, line: bytes, document: list[object], tmp_path: Path
) -> None:
    (tmp_path / "a.jsonl").write_bytes(line)
    corpus = FileCorpus.open([str(tmp_path / "a.jsonl")])
    (batch,) = corpus.batches(columns)
    assert batch.documents[0].to_pylist() == [document]
    assert list(map(json.loads, batch.documents[1].to_pylist())) == [document]


@pytest.mark.parametrize("line", [b"{}\n", b"\xef\xbb\xbf{ }\r\n"])
def test_fields_are_added_to_an_object_without_fields(line: bytes) -> None:
    writer = LineWriter(None)
    added = pa.record_batch([pa.array(["c"])], ["cluster"])
    written = writer.select([line], np.ones(1, bool), added)
    assert orjson.loads(written.removeprefix(b"\xef\xbb\xbf")) == {"cluster": "c"}


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        (b'{"a": 1.50, "n": [1, {"n": 2}]}\n', b'{"a": 1.50, "n": "x"}\n'),
        (b'\xef\xbb\xbf{ "n" :null }\r\n', b'\xef\xbb\xbf{ "n" :"x" }\r\n'),
        (b'{"n": 1, "n": "}"}\n', b'{"n": "x", "n": "x"}\n'),
        (b'{"a": "\\"n\\": 1"}\n', b'{"a": "\\"n\\": 1","n":"x"}\n'),
        (b"{ }\n", b'{"n":"x"}\n'),
    ],
)
def test_value_of_a_field_is_replaced_and_the_rest_of_a_line_stays(
    line: bytes, expected: bytes
) -> None:
    values = pa.array(['"x"', None], pa.large_string())
    replaced = LineWriter(None).replace_values([line, line], "n", values)
    assert replaced == [expected, line]
