"""Sample corpora, and functions that read and write them, for the tests of this folder."""

import bz2
import gzip
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.csv as pacsv
import pyarrow.ipc
import pyarrow.parquet as pq

from nearkin.cli import app
from nearkin.corpus import Columns, FileCorpus, TableCorpus, make_ids, write_kept
from nearkin.corpus.columns import CARRIED_PREFIX
from nearkin.corpus.inputs import Selection, find_inputs
from nearkin.engine.options import RunOptions
from nearkin.runs.dedup import run_dedup
from nearkin.runs.job import Job
from nearkin.runtime.progress import Silent

SAMPLE_TEXTS = [
    f'Text {i}: naïve café, "quoted", 日本\nand, a line' if i % 3 else f"plain {i}"
    for i in range(50)
]


SAMPLE_TABLE = pa.table(
    {
        "id": [f"id{i}" for i in range(50)],
        "text": SAMPLE_TEXTS,
        "score": pa.array([i / 7 for i in range(50)]),
        "tags": pa.array([["a", "b"]] * 50, pa.list_(pa.string())),
    }
)


FLAT_TABLE = SAMPLE_TABLE.drop_columns(["tags"])


def written_bytes(write: Callable[[Any], None]) -> bytes:
    """Returns the bytes that a function writes to a sink."""
    sink = pa.BufferOutputStream()
    write(sink)
    return sink.getvalue().to_pybytes()


def to_json_lines(table: pa.Table = SAMPLE_TABLE) -> bytes:
    """Returns a table as JSON lines."""
    return "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in table.to_pylist()).encode()


def to_ipc(opener: Callable[..., Any], table: pa.Table = SAMPLE_TABLE) -> bytes:
    """Returns a table as an Arrow file or stream, in batches of seven rows."""

    def write(sink: Any) -> None:
        with opener(sink, table.schema) as writer:
            writer.write_table(table, max_chunksize=7)

    return written_bytes(write)


def compress(codec: str, data: bytes) -> bytes:
    """Returns compressed bytes. With gzip, they consist of two members."""
    if codec == "gzip":
        return gzip.compress(data[:100]) + gzip.compress(data[100:])
    if codec == "bz2":
        return bz2.compress(data)
    sink = pa.BufferOutputStream()
    with pa.CompressedOutputStream(sink, codec) as stream:
        stream.write(data)
    return sink.getvalue().to_pybytes()


SAMPLE_FILES = {
    "a.parquet": lambda: written_bytes(
        lambda sink: pq.write_table(SAMPLE_TABLE, sink, row_group_size=8)
    ),
    "a.arrow": lambda: to_ipc(pa.ipc.new_file),
    "a.arrows": lambda: to_ipc(pa.ipc.new_stream),
    "a.arrow.lz4": lambda: compress("lz4", to_ipc(pa.ipc.new_stream)),
    "a.jsonl": to_json_lines,
    "a.ndjson.gz": lambda: compress("gzip", to_json_lines()),
    "a.json.zst": lambda: compress("zstd", to_json_lines()),
    "a.jsonl.bz2": lambda: compress("bz2", to_json_lines()),
    "a.csv": lambda: written_bytes(lambda sink: pacsv.write_csv(FLAT_TABLE, sink)),
    "a.csv.gz": lambda: compress(
        "gzip", written_bytes(lambda sink: pacsv.write_csv(FLAT_TABLE, sink))
    ),
    "a.tsv": lambda: written_bytes(
        lambda sink: pacsv.write_csv(FLAT_TABLE, sink, pacsv.WriteOptions(delimiter="\t"))
    ),
}


def read_corpus(
    corpus: FileCorpus | TableCorpus, columns: Columns, **start: Any
) -> tuple[list[dict[str, Any]], list[Any]]:
    """Returns the documents of a corpus with ids and places (file, row), and the rejections."""
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


def words_of(number: int) -> str:
    """Returns a text of twelve words that no other number has."""
    return " ".join(f"word{number}x{i}" for i in range(12))


def lines_of(*numbers: int) -> str:
    """Returns JSON lines with the texts of some numbers."""
    return "".join(json.dumps({"text": words_of(number)}) + "\n" for number in numbers)


def names_of(*inputs: str | Path, **selection: bool) -> list[str]:
    """Returns the relative names of the files that the inputs name."""
    return [file.name for file in find_inputs(list(map(str, inputs)), Selection(**selection)).files]


class ActAtStage(Silent):
    """A progress display that calls a function when a stage begins."""

    def __init__(self, stage: str, act: Callable[[], Any]) -> None:
        self.when, self.act = stage, act

    def stage(self, name: str, total: int | None) -> None:
        if name == self.when:
            self.act()


def run_dedup_on(
    inputs: list[str], out: Path, progress: Silent | None = None, **other: Any
) -> dict[str, Any]:
    """Runs dedup over files with one worker. Returns the content of run.json."""
    return run_dedup(
        Job(tuple(inputs), out, Columns(), RunOptions(workers=1), **other), progress or Silent()
    ).to_json()


def kept_texts(out: Path) -> list[str]:
    """Returns the kept texts of an output, sorted."""
    files = sorted(path for path in (out / "kept").rglob("*") if path.is_file())
    return sorted(
        json.loads(line)["text"] for path in files for line in path.read_text().splitlines()
    )


def ipc_file(path: Path, table: pa.Table) -> None:
    """Writes an Arrow file in batches of 1,000 rows."""
    with pa.ipc.new_file(path, table.schema) as writer:
        writer.write_table(table, max_chunksize=1000)


def ipc_stream(path: Path, table: pa.Table) -> None:
    """Writes an Arrow stream in batches of 1,000 rows."""
    with pa.ipc.new_stream(path, table.schema) as writer:
        writer.write_table(table, max_chunksize=1000)


FILE_WRITERS: dict[str, Callable[[Path, pa.Table], Any]] = {
    "a.parquet": lambda path, table: pq.write_table(
        table, path, row_group_size=1000, compression="none"
    ),
    "a.arrow": ipc_file,
    "a.arrows": ipc_stream,
    "a.jsonl": lambda path, table: path.write_text(lines_of(*range(len(table)))),
    "a.csv": lambda path, table: path.write_text(
        "text\n" + "".join(f"{words_of(i)}\n" for i in range(len(table)))
    ),
}


LIMIT = 100_000


SMALL = Columns(document_limit=LIMIT)


def read_rows(path: Path, columns: Columns = SMALL) -> tuple[list[tuple[int, str]], list[Any]]:
    """Returns the row and the text of each document of a file, and the rejections."""
    texts, rejected = [], []
    for batch in FileCorpus.open([str(path)]).batches(columns):
        texts += list(zip(batch.rows.tolist(), batch.documents["text"].to_pylist(), strict=True))
        rejected += batch.rejected
    return texts, rejected


def write_parquet(path: Path, groups: int = 5, rows: int = 10, **options: Any) -> pa.Table:
    """Writes and returns a table with the columns `text` and `other`, in row groups."""
    texts = [f"document {at} {'x' * 50}" for at in range(groups * rows)]
    table = pa.table({"text": texts, "other": [text[::-1] for text in texts]})
    pq.write_table(
        table, path, row_group_size=rows, use_dictionary=False, compression="none", **options
    )
    return table


def write_repeated(path: Path, length: int, rows: int) -> None:
    """Writes a column of one repeated text, without a dictionary type in the schema."""
    places = pa.array(np.zeros(rows, np.int32))
    column = pa.DictionaryArray.from_arrays(places, pa.array(["x" * length]))
    pq.write_table(pa.table({"text": column}), path, compression="zstd", store_schema=False)


NEAR_TEXTS = [
    "the quick brown fox jumps over the lazy dog",
    "the quick brown fox jumps over the lazy dog!",
    "an entirely different sentence about the weather",
    "The quick brown fox jumps over the lazy dog",
]
"""Rows 0, 1 and 3 are duplicates."""


def write_table(table: pa.Table, path: Path) -> bool:
    """Writes a table. Returns False if the format does not support the types of the table."""
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


def run_command(*arguments: object) -> int:
    """Runs a command line in this process. Returns the exit code."""
    return app.run(list(map(str, arguments)))


def read_texts(corpus: FileCorpus, **start: Any) -> tuple[list[str], list[Any]]:
    """Returns the texts of a corpus and the rejections."""
    texts: list[str] = []
    rejected: list[Any] = []
    for batch in corpus.batches(Columns(), **start):
        texts += batch.documents["text"].to_pylist()
        rejected += batch.rejected
    return texts, rejected


def read_file(path: Path, columns: Columns = Columns()) -> tuple[list[str], list[Any]]:  # noqa: B008
    """Returns the texts of a file and the rejections."""
    texts, rejected = [], []
    for batch in FileCorpus.open([str(path)]).batches(columns):
        texts += batch.documents["text"].to_pylist()
        rejected += batch.rejected
    return texts, rejected


def copy_all_rows(path: Path, columns: Columns, out: Path) -> bytes:
    """Returns the copy of a file of which every document is kept."""
    corpus = FileCorpus.open([str(path)])
    documents = sum(len(batch.rows) for batch in corpus.batches(columns))
    out.mkdir(exist_ok=True)
    write_kept(corpus, columns, np.ones(documents, bool), out)
    return (out / path.name).read_bytes()
