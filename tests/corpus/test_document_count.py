"""Tests of the estimated number of documents, against the number that is read."""

import bz2
import gzip
import json
from collections.abc import Callable, Iterator
from pathlib import Path

import fsspec
import pyarrow as pa
import pytest
from pyarrow import parquet

from nearkin.corpus import Columns
from nearkin.corpus.corpus import FileCorpus, TableCorpus
from nearkin.corpus.decompression import DecompressedStream
from nearkin.corpus.document_count import (
    SAMPLED_BYTES,
    SAMPLED_CONTENT,
    estimate_documents,
    list_empty_files,
)
from nearkin.corpus.input_file import InputFile
from tests.corpus.formats.record_files import TEXTS as RECORDS
from tests.corpus.formats.record_files import write_avro, write_orc

ROWS = 30_000
TEXTS = [
    f"document {row:05d} has some words, and a few more in row {row % 7}" for row in range(ROWS)
]
TABLE = pa.table({"text": TEXTS})


def as_csv() -> bytes:
    lines = [f'{row},"{text}\nsecond line"' for row, text in enumerate(TEXTS)]
    return ("id,text\n" + "\n".join(lines) + "\n").encode()


def as_json_lines() -> bytes:
    return "".join(json.dumps({"text": text}) + "\n" for text in TEXTS).encode()


def as_json_array() -> bytes:
    return json.dumps([{"text": text} for text in TEXTS]).encode()


def as_arrow(*, stream: bool) -> bytes:
    sink = pa.BufferOutputStream()
    create_writer = pa.ipc.new_stream if stream else pa.ipc.new_file
    with create_writer(sink, TABLE.schema) as writer:
        writer.write_table(TABLE, max_chunksize=1000)
    return bytes(sink.getvalue())


def as_parquet() -> bytes:
    sink = pa.BufferOutputStream()
    parquet.write_table(TABLE, sink)
    return bytes(sink.getvalue())


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.csv", as_csv),
        ("a.csv.gz", lambda: gzip.compress(as_csv())),
        ("a.jsonl", as_json_lines),
        ("a.jsonl.bz2", lambda: bz2.compress(as_json_lines())),
        ("a.json", as_json_array),
        ("a.arrow", lambda: as_arrow(stream=False)),
        ("a.arrows", lambda: as_arrow(stream=True)),
        ("a.parquet", as_parquet),
    ],
    ids=lambda value: value if isinstance(value, str) else "content",
)
def test_estimate_is_within_two_percent_of_what_is_read(
    name: str, content: Callable[[], bytes], tmp_path: Path
) -> None:
    (tmp_path / name).write_bytes(content())
    corpus = FileCorpus.open([str(tmp_path / name)])
    read = sum(len(batch.rows) for batch in corpus.batches(Columns()))
    assert read == ROWS
    assert estimate_documents(corpus) == pytest.approx(read, rel=0.02)


def test_files_of_different_formats_add_up(tmp_path: Path) -> None:
    for number in range(20):
        (tmp_path / f"{number}.txt").write_text("one text")
        (tmp_path / f"{number}.jsonl").write_text('{"text": "a b c"}\n' * 10)
    assert estimate_documents(FileCorpus.open([str(tmp_path)])) == 20 + 200


def test_damaged_file_does_not_hide_the_rows_of_others(tmp_path: Path) -> None:
    (tmp_path / "a.parquet").write_bytes(as_parquet())
    (tmp_path / "b.parquet").write_bytes(b"damaged")
    (tmp_path / "c.csv").write_bytes(as_csv())
    estimate = estimate_documents(FileCorpus.open([str(tmp_path)]))
    assert estimate == pytest.approx(2 * ROWS, rel=0.02)


def test_table_in_memory_has_its_rows() -> None:
    assert estimate_documents(TableCorpus(TABLE)) == ROWS


@pytest.mark.parametrize("content", [b"", b"not parquet at all"])
def test_files_that_cannot_be_read_have_no_estimate(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "a.parquet").write_bytes(content)
    assert estimate_documents(FileCorpus.open([str(tmp_path / "a.parquet")])) is None


@pytest.mark.parametrize("name", ["a.csv", "a.jsonl", "a.jsonl.gz", "a.parquet", "a.arrow"])
def test_remote_files_are_estimated_from_the_beginnings_of_a_few(name: str) -> None:
    contents = {
        "a.csv": as_csv(),
        "a.jsonl": as_json_lines(),
        "a.jsonl.gz": gzip.compress(as_json_lines()),
        "a.parquet": as_parquet(),
        "a.arrow": as_arrow(stream=False),
    }
    storage = fsspec.filesystem("memory")
    for number in range(4):
        storage.pipe(f"/estimated/{number}/{name}", contents[name])
    try:
        corpus = FileCorpus.open(["memory://estimated"])
        assert estimate_documents(corpus) == pytest.approx(4 * ROWS, rel=0.02)
    finally:
        storage.rm("/estimated", recursive=True)


def test_unreachable_remote_files_have_no_estimate() -> None:
    corpus = FileCorpus([InputFile("memory://nowhere/a.jsonl", "a.jsonl")])
    assert estimate_documents(corpus) is None


def test_rows_of_orc_are_counted_and_records_are_not(tmp_path: Path) -> None:
    write_orc(tmp_path / "a.orc")
    assert estimate_documents(FileCorpus.open([str(tmp_path)])) == len(RECORDS)
    write_avro(tmp_path / "a.avro")
    assert list_empty_files(FileCorpus.open([str(tmp_path)])) == []
    (tmp_path / "a.orc").unlink()
    assert estimate_documents(FileCorpus.open([str(tmp_path)])) is None


def test_sample_of_a_file_is_decompressed_up_to_a_bound(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    size = 4 * SAMPLED_CONTENT
    path = tmp_path / "a.csv.gz"
    path.write_bytes(gzip.compress(b'id,text\n1,one\n2,"' + b"a" * size + b'"\n3,three\n'))
    read: list[int] = []
    read_roughly = DecompressedStream.read_roughly

    def count(stream: DecompressedStream, step: int) -> Iterator[bytes]:
        for part in read_roughly(stream, step):
            read.append(len(part))
            yield part

    monkeypatch.setattr(DecompressedStream, "read_roughly", count)
    estimate_documents(FileCorpus.open([str(path)]))
    assert SAMPLED_CONTENT <= sum(read) <= SAMPLED_CONTENT + SAMPLED_BYTES


def test_beginning_of_a_compressed_file_is_decompressed_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "a.jsonl.gz"
    path.write_bytes(gzip.compress(as_json_lines()))
    monkeypatch.setattr("nearkin.corpus.document_count.SAMPLED_BYTES", path.stat().st_size // 2)
    opened: list[None] = []
    open_stream = DecompressedStream._open_stream

    def count(stream: DecompressedStream, file: object) -> object:
        opened.append(None)
        return open_stream(stream, file)

    monkeypatch.setattr(DecompressedStream, "_open_stream", count)
    assert estimate_documents(FileCorpus.open([str(path)])) == pytest.approx(ROWS, rel=0.2)
    # once to look at the format, and once to count
    assert len(opened) == 2
