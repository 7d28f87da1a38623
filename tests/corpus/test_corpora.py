"""Tests of reading and copying files of every format."""

import bz2
import gzip
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.ipc
import pyarrow.parquet as pq
import pytest

from nearkin.corpus import Columns, FileCorpus, TableCorpus, make_ids, write_kept
from nearkin.corpus.columns import CARRIED_PREFIX
from nearkin.errors import MissingExtraError, RunError, UsageError

TEXTS = [
    f'Text {i}: naïve café, "quoted", 日本\nand, a line' if i % 3 else f"plain {i}"
    for i in range(50)
]
TABLE = pa.table(
    {
        "id": [f"id{i}" for i in range(50)],
        "text": TEXTS,
        "score": pa.array([i / 7 for i in range(50)]),
        "tags": pa.array([["a", "b"]] * 50, pa.list_(pa.string())),
    }
)
FLAT = TABLE.drop_columns(["tags"])


def as_bytes(write: Callable[[Any], None]) -> bytes:
    sink = pa.BufferOutputStream()
    write(sink)
    return sink.getvalue().to_pybytes()


def jsonl(table: pa.Table = TABLE) -> bytes:
    return "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in table.to_pylist()).encode()


def ipc(opener: Callable[..., Any], table: pa.Table = TABLE) -> bytes:
    def write(sink: Any) -> None:
        with opener(sink, table.schema) as writer:
            writer.write_table(table, max_chunksize=7)

    return as_bytes(write)


def compress(codec: str, data: bytes) -> bytes:
    if codec == "gzip":
        return gzip.compress(data[:100]) + gzip.compress(data[100:])
    if codec == "bz2":
        return bz2.compress(data)
    sink = pa.BufferOutputStream()
    with pa.CompressedOutputStream(sink, codec) as stream:
        stream.write(data)
    return sink.getvalue().to_pybytes()


FILES = {
    "a.parquet": lambda: as_bytes(lambda sink: pq.write_table(TABLE, sink, row_group_size=8)),
    "a.arrow": lambda: ipc(pa.ipc.new_file),
    "a.arrows": lambda: ipc(pa.ipc.new_stream),
    "a.arrow.lz4": lambda: compress("lz4", ipc(pa.ipc.new_stream)),
    "a.jsonl": jsonl,
    "a.ndjson.gz": lambda: compress("gzip", jsonl()),
    "a.json.zst": lambda: compress("zstd", jsonl()),
    "a.jsonl.bz2": lambda: compress("bz2", jsonl()),
    "a.csv": lambda: as_bytes(lambda sink: pacsv.write_csv(FLAT, sink)),
    "a.csv.gz": lambda: compress("gzip", as_bytes(lambda sink: pacsv.write_csv(FLAT, sink))),
    "a.tsv": lambda: as_bytes(
        lambda sink: pacsv.write_csv(FLAT, sink, pacsv.WriteOptions(delimiter="\t"))
    ),
}


def read(
    corpus: FileCorpus | TableCorpus, columns: Columns, **start: Any
) -> tuple[list[dict[str, Any]], list[Any]]:
    rows: list[dict[str, Any]] = []
    rejected: list[Any] = []
    for batch in corpus.batches(columns, **start):
        assert len(batch.files) == len(batch.rows) == len(batch.documents)
        ids = make_ids(batch, columns, corpus.names).to_pylist()
        places = zip(batch.files.tolist(), batch.rows.tolist(), strict=True)
        plain = batch.documents.rename_columns(
            [name.removeprefix(CARRIED_PREFIX) for name in batch.documents.schema.names]
        )
        rows += [
            {**row, "id": i, "at": at}
            for row, i, at in zip(plain.to_pylist(), ids, places, strict=True)
        ]
        rejected += batch.rejected
    return rows, rejected


@pytest.mark.parametrize("name", FILES)
def test_every_format_gives_the_same_documents(name: str, tmp_path: Path) -> None:
    (tmp_path / name).write_bytes(FILES[name]())
    corpus = FileCorpus.open([str(tmp_path / name)])
    columns = Columns(id="id", carried_columns=("score",))
    corpus.check(columns)
    rows, rejected = read(corpus, columns)
    assert [row["text"] for row in rows] == TEXTS
    assert [row["id"] for row in rows] == TABLE["id"].to_pylist()
    assert [float(row["score"]) for row in rows] == pytest.approx(TABLE["score"].to_pylist())
    assert [row["at"] for row in rows] == [(0, i) for i in range(50)]
    assert not rejected


def test_views_of_text(tmp_path: Path) -> None:
    views = pa.table({"text": pa.array(TEXTS, pa.string_view())})
    (tmp_path / "a.arrow").write_bytes(ipc(pa.ipc.new_file, views))
    corpus = FileCorpus.open([str(tmp_path / "a.arrow")])
    assert [row["text"] for row in read(corpus, Columns())[0]] == TEXTS
    (tmp_path / "out").mkdir()
    write_kept(corpus, Columns(), np.arange(50) < 3, tmp_path / "out")
    with pa.ipc.open_file(tmp_path / "out/a.arrow") as written:
        assert written.read_all().equals(views.slice(0, 3))


@pytest.mark.parametrize("name", FILES)
def test_reading_goes_on_at_any_row(name: str, tmp_path: Path) -> None:
    (tmp_path / name).write_bytes(FILES[name]())
    corpus = FileCorpus.open([str(tmp_path / name)])
    for row in (0, 1, 7, 8, 49, 50):
        rows, _ = read(corpus, Columns(), start=(0, row), first=row)
        assert [found["text"] for found in rows] == TEXTS[row:]


@pytest.mark.parametrize("name", FILES)
def test_kept_rows_are_written_as_they_were(name: str, tmp_path: Path) -> None:
    source, out = tmp_path / "in", tmp_path / "out"
    source.mkdir()
    out.mkdir()
    (source / name).write_bytes(FILES[name]())
    kept = np.arange(50) % 4 != 1
    corpus = FileCorpus.open([str(source / name)])
    write_kept(corpus, Columns(), kept, out)
    again = FileCorpus.open([str(out / name)])
    rows, _ = read(again, Columns(id="id", carried_columns=("score",)))
    assert [row["text"] for row in rows] == [
        text for text, stays in zip(TEXTS, kept, strict=True) if stays
    ]
    if name.endswith(".parquet"):
        assert pq.read_schema(out / name).equals(pq.read_schema(source / name), check_metadata=True)
    if name == "a.jsonl":
        lines = (source / name).read_bytes().splitlines()
        assert (out / name).read_bytes().splitlines() == [
            line for line, stays in zip(lines, kept, strict=True) if stays
        ]


@pytest.mark.parametrize("name", FILES)
def test_annotated_rows(name: str, tmp_path: Path) -> None:
    source, out = tmp_path / "in", tmp_path / "out"
    source.mkdir()
    out.mkdir()
    (source / name).write_bytes(FILES[name]())

    def rows(start: int, end: int) -> pa.RecordBatch:
        return pa.record_batch(
            [pa.array([f"c{i}" for i in range(start, end)]), pa.array([0.5] * (end - start))],
            ["cluster", "score"],
        )

    write_kept(FileCorpus.open([str(source / name)]), Columns(), np.zeros(50, bool), out, rows)
    found, _ = read(
        FileCorpus.open([str(out / name)]),
        Columns(id="id", carried_columns=("cluster", "nearkin_score", "score")),
    )
    assert [row["cluster"] for row in found] == [f"c{i}" for i in range(50)]
    assert {float(row["nearkin_score"]) for row in found} == {0.5}


def test_text_files_are_one_document_each(tmp_path: Path) -> None:
    for name, text in (
        ("b.txt", "second"),
        ("a/x.md", "first"),
        ("a/y.txt.gz", None),
        (".hidden", "no"),
        ("_SUCCESS", ""),
    ):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(
            gzip.compress("zipped é".encode()) if text is None else text.encode()
        )
    (tmp_path / "bad.txt").write_bytes(b"\xff\xfe")
    corpus = FileCorpus.open([str(tmp_path)])
    rows, rejected = read(corpus, Columns())
    assert [(row["id"], row["text"]) for row in rows] == [
        ("a/x.md:0000000000", "first"),
        ("a/y.txt.gz:0000000000", "zipped é"),
        ("b.txt:0000000000", "second"),
    ]
    assert [(entry.file, entry.row, entry.reason) for entry in rejected] == [
        (3, 0, "the text is not valid UTF-8")
    ]
    (tmp_path / "out").mkdir()
    write_kept(corpus, Columns(), np.array([True, True, False]), tmp_path / "out")
    assert sorted(
        p.relative_to(tmp_path / "out").as_posix() for p in (tmp_path / "out").rglob("*.*")
    ) == [
        "a/x.md",
        "a/y.txt.gz",
    ]
    assert gzip.decompress((tmp_path / "out/a/y.txt.gz").read_bytes()).decode() == "zipped é"


BAD_LINES = [
    (b'{"text": "fine"}', None),
    (b'{"text": ', "the row is not valid JSON"),
    (b'{"text": "\xff"}', "the row is not valid UTF-8"),
    (b'{"text": null}', "text is null"),
    (b'{"body": "x"}', "the field text is missing"),
    (b'{"text": 7}', "text is not a string"),
    (b"[1]", "the row is not a JSON object"),
    (b"   ", None),
    (b'{"text": "\\ud800"}', "the row has a lone surrogate, which UTF-8 cannot represent"),
    (b'{"text": "last, without an end of line"}', None),
]


def test_bad_lines_are_set_aside_with_place_and_reason(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_bytes(b"\n".join(line for line, _ in BAD_LINES))
    rows, rejected = read(FileCorpus.open([str(tmp_path / "a.jsonl")]), Columns())
    assert [row["at"][1] for row in rows] == [0, 9]
    want = [(at, reason) for at, (_, reason) in enumerate(BAD_LINES) if reason]
    assert [(entry.row, entry.reason) for entry in rejected] == want
    assert rejected[0].raw == '{"text": '


def test_byte_order_marks(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_bytes(b'\xef\xbb\xbf{"text": "x"}\n')
    (tmp_path / "b.csv").write_bytes(b"\xef\xbb\xbftext\ny\n")
    assert [row["text"] for row in read(FileCorpus.open([str(tmp_path)]), Columns())[0]] == [
        "x",
        "y",
    ]


def test_bad_csv_rows(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_bytes(b'id,text\n1,fine\n2\n3,a,b\n4,\xff\n5,"two\nlines"\n6,\n')
    rows, rejected = read(FileCorpus.open([str(tmp_path / "a.csv")]), Columns(id="id"))
    assert [(row["id"], row["text"]) for row in rows] == [
        ("1", "fine"),
        ("5", "two\nlines"),
        ("6", ""),
    ]
    assert [(entry.row, entry.reason) for entry in rejected] == [
        (1, "the row has 1 values instead of 2"),
        (2, "the row has 3 values instead of 2"),
        (3, "the row is not valid UTF-8"),
    ]


def test_nulls_and_invalid_utf8_in_columns(tmp_path: Path) -> None:
    raw = pa.array([b"fine", None, b"\xff\xfe", "é".encode()], pa.binary())
    broken = pa.Array.from_buffers(pa.string(), 4, raw.buffers(), raw.null_count)
    for name, column in (
        ("binary", raw),
        ("string", broken),
        ("dictionary", raw.dictionary_encode()),
    ):
        path = tmp_path / f"{name}.arrow"
        path.write_bytes(ipc(pa.ipc.new_file, pa.table({"text": column})))
        rows, rejected = read(FileCorpus.open([str(path)]), Columns())
        assert [row["text"] for row in rows] == ["fine", "é"], name
        assert [(entry.row, entry.reason) for entry in rejected] == [
            (1, "text is null"),
            (2, "text is not valid UTF-8"),
        ]


def test_null_ids(tmp_path: Path) -> None:
    table = pa.table({"text": ["a", "b"], "id": pa.array([7, None])})
    pq.write_table(table, tmp_path / "a.parquet")
    rows, rejected = read(FileCorpus.open([str(tmp_path / "a.parquet")]), Columns(id="id"))
    assert [row["id"] for row in rows] == ["7"]
    assert [(entry.row, entry.reason) for entry in rejected] == [(1, "the id in id is null")]


def test_tokens() -> None:
    column = pa.array([["a", "b"], [], None, ["c", None]], pa.list_(pa.string()))
    rows, rejected = read(
        TableCorpus(pa.table({"words": column})), Columns(text=None, tokens="words")
    )
    assert [row["tokens"] for row in rows] == [["a", "b"], []]
    assert [entry.reason for entry in rejected] == [
        "words is null",
        "words has a token that is null or not valid UTF-8",
    ]


@pytest.mark.parametrize(
    ("name", "damage"),
    [
        ("a.parquet", lambda data: data[: len(data) // 2]),
        ("a.parquet", lambda data: b""),
        ("a.arrow", lambda data: data[:100]),
        ("a.ndjson.gz", lambda data: data[: len(data) // 2]),
        ("a.json.zst", lambda data: data[: len(data) // 2]),
        ("a.csv.gz", lambda data: b"no gzip"),
    ],
)
def test_unreadable_files(name: str, damage: Callable[[bytes], bytes], tmp_path: Path) -> None:
    (tmp_path / name).write_bytes(damage(FILES[name]()))
    (tmp_path / "z.jsonl").write_bytes(b'{"text": "still read"}\n')
    corpus = FileCorpus.open([str(tmp_path)])
    corpus.check(Columns())
    rows, rejected = read(corpus, Columns())
    assert rows[-1]["text"] == "still read"
    whole = [entry for entry in rejected if entry.row == -1]
    assert len(whole) == 1
    assert whole[0].reason.startswith("the file cannot be read")
    with pytest.raises(RunError, match=r"cannot be read.*--on-error quarantine"):
        read(FileCorpus.open([str(tmp_path)], on_error="fail"), Columns())


def test_fail_names_file_row_and_value(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_bytes(b'{"text": "x"}\n{"text": 5}\n')
    with pytest.raises(RunError, match=r"a\.jsonl, row 1: text is not a string .*\{"):
        read(FileCorpus.open([str(tmp_path)], on_error="fail"), Columns())


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        (
            Columns(text="body"),
            r"no column 'body' \(it has 'id', 'text', 'score', 'tags'\); choose one with --text",
        ),
        (Columns(id="key"), "no column 'key'.*--id"),
        (Columns(carried_columns=("source",)), "no column 'source'"),
        (Columns(text=None, tokens="words"), "no column 'words'.*--tokens"),
    ],
)
def test_missing_columns_are_told_before_anything_is_read(
    columns: Columns, message: str, tmp_path: Path
) -> None:
    (tmp_path / "a.parquet").write_bytes(FILES["a.parquet"]())
    with pytest.raises(UsageError, match=message):
        FileCorpus.open([str(tmp_path)]).check(columns)
    with pytest.raises(UsageError, match="no column"):
        TableCorpus(TABLE).check(columns)


def test_a_column_of_another_type_is_a_usage_error() -> None:
    with pytest.raises(UsageError, match="column 'score' is double, not text"):
        read(TableCorpus(TABLE), Columns(text="score"))
    with pytest.raises(UsageError, match="column 'text' is string, not lists"):
        read(TableCorpus(TABLE), Columns(text=None, tokens="text"))


def test_inputs_that_are_not_there(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    for given, message in (
        ("nowhere", "no such file"),
        ("*.nope", "no files match"),
        ("empty", "no files in the folder"),
    ):
        with pytest.raises(UsageError, match=message):
            FileCorpus.open([str(tmp_path / given)])
    with pytest.raises(UsageError, match="bogus"):
        FileCorpus.open(["bogus://bucket/key"])


def test_remote_needs_its_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    monkeypatch.setitem(sys.modules, "s3fs", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'nearkin\[remote\]'"):
        FileCorpus.open(["s3://bucket/key.jsonl"])


@pytest.mark.parametrize(
    "given",
    ["memory://bucket/data", "memory://bucket/data/*.jsonl", "memory://bucket/data/b.jsonl"],
)
def test_remote_files(given: str, tmp_path: Path) -> None:
    import fsspec

    storage = fsspec.filesystem("memory")
    storage.pipe("/bucket/data/b.jsonl", jsonl())
    corpus = FileCorpus.open([given])
    assert [row["text"] for row in read(corpus, Columns())[0]] == TEXTS
    assert corpus.files[0].status().size == len(jsonl())
    storage.rm("/bucket", recursive=True)


def test_order_and_names_do_not_depend_on_how_inputs_are_given(tmp_path: Path) -> None:
    for name in ("b/1.jsonl", "a/2.jsonl", "a/10.jsonl", "é.jsonl"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text('{"text": "x"}\n')
    names = ["a/10.jsonl", "a/2.jsonl", "b/1.jsonl", "é.jsonl"]
    each = [str(tmp_path / name) for name in reversed(names)]
    for given in ([str(tmp_path)], each, [f"{tmp_path}/**/*.jsonl"], [f"file://{tmp_path}", *each]):
        assert FileCorpus.open(given).names == names


def test_a_file_that_changes_between_readings_stops_the_run(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text('{"text": "x"}\n')
    corpus = FileCorpus.open([str(path)])
    read(corpus, Columns())
    path.write_text('{"text": "x"}\n{"text": "y"}\n')
    with pytest.raises(RunError, match="has changed while the run was reading it"):
        read(corpus, Columns())


def test_columns_of_different_types_in_different_files(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text(
        '{"text": "x", "rank": 1}\n{"text": "y", "rank": {"deep": [1]}}\n'
    )
    (tmp_path / "b.jsonl").write_text('{"text": "z", "rank": 2.5}\n{"text": "w"}\n')
    rows, _ = read(FileCorpus.open([str(tmp_path)]), Columns(carried_columns=("rank",)))
    assert [row["rank"] for row in rows] == ["1", '{"deep":[1]}', "2.5", None]


def test_empty_files(tmp_path: Path) -> None:
    for name in ("a.jsonl", "b.csv"):
        (tmp_path / name).write_bytes(b"")
    pq.write_table(TABLE.slice(0, 0), tmp_path / "c.parquet")
    corpus = FileCorpus.open([str(tmp_path)])
    corpus.check(Columns())
    assert read(corpus, Columns()) == ([], [])
    (tmp_path / "out").mkdir()
    write_kept(corpus, Columns(), np.zeros(0, bool), tmp_path / "out")
    assert pq.read_table(tmp_path / "out/c.parquet").schema == TABLE.schema


def test_a_document_of_fifty_megabytes(tmp_path: Path) -> None:
    large = "word " * (10 << 20)
    (tmp_path / "a.jsonl").write_text(json.dumps({"text": large}) + '\n{"text": "small"}\n')
    (tmp_path / "b.csv").write_text(f'text\n"{large}"\nsmall\n')
    rows, rejected = read(FileCorpus.open([str(tmp_path)]), Columns())
    assert [len(row["text"]) for row in rows] == [len(large), 5, len(large), 5]
    assert not rejected
