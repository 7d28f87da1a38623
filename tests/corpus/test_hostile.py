"""Tests of small files that need much memory, and of damaged parquet files."""

import csv
import gzip
import json
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.ipc
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nearkin.cli.app import run
from nearkin.corpus import Columns, FileCorpus, TableCorpus, write_kept
from nearkin.corpus.columns import document_limit
from nearkin.corpus.formats.kernels import decompress_snappy
from nearkin.corpus.formats.parquet_byte_columns import parse_longest_value
from nearkin.corpus.formats.parquet_pages import decode_longest_value
from nearkin.engine.local.run import LocalRun
from nearkin.engine.local.work_folder import WorkFolder
from nearkin.engine.options import RunOptions
from nearkin.errors import RunError
from nearkin.runs.dedup import run_dedup
from nearkin.runs.job import Job
from nearkin.runs.reopen import audit_run
from nearkin.runtime.progress import Silent

LIMIT = 100_000
SMALL = Columns(document_limit=LIMIT)


def read(path: Path, columns: Columns = SMALL) -> tuple[list[tuple[int, str]], list[Any]]:
    texts, rejected = [], []
    for batch in FileCorpus.open([str(path)]).batches(columns):
        texts += list(zip(batch.rows.tolist(), batch.documents["text"].to_pylist(), strict=True))
        rejected += batch.rejected
    return texts, rejected


def write_parquet(path: Path, groups: int = 5, rows: int = 10, **options: Any) -> pa.Table:
    texts = [f"document {at} {'x' * 50}" for at in range(groups * rows)]
    table = pa.table({"text": texts, "other": [text[::-1] for text in texts]})
    pq.write_table(
        table, path, row_group_size=rows, use_dictionary=False, compression="none", **options
    )
    return table


def damage_column(path: Path, group: int, column: int) -> None:
    """Makes the header of the first page of a column of a row group unreadable."""
    chunk = pq.ParquetFile(path).metadata.row_group(group).column(column)
    data = bytearray(path.read_bytes())
    data[chunk.data_page_offset : chunk.data_page_offset + 4] = b"\xff\xff\xff\xff"
    path.write_bytes(data)


def test_a_damaged_row_group_costs_its_own_rows(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    table = write_parquet(path)
    damage_column(path, 2, 0)
    texts, rejected = read(path)
    want = [at for at in range(50) if not 20 <= at < 30]
    assert texts == [(at, table["text"][at].as_py()) for at in want]
    assert [
        entry.reason.startswith("the file cannot be read: rows 20 to 29 (row group 2): ")
        for entry in rejected
    ] == [True]
    corpus = FileCorpus.open([str(path)])
    (tmp_path / "out").mkdir()
    write_kept(corpus, SMALL, np.ones(40, bool), tmp_path / "out")
    assert pq.read_table(tmp_path / "out" / "a.parquet").equals(table.take(want))


def test_a_changed_byte_of_a_page_with_a_checksum_is_noticed(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    write_parquet(path, write_page_checksum=True)
    data = path.read_bytes()
    path.write_bytes(data.replace(b"document 25 ", b"document 99 "))
    texts, rejected = read(path)
    assert [at for at, _ in texts] == [at for at in range(50) if not 20 <= at < 30]
    assert "CRC checksum" in rejected[0].reason


def test_a_damaged_column_that_is_only_copied_is_an_error_with_the_rows(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    write_parquet(path, write_page_checksum=True)
    data = path.read_bytes()
    path.write_bytes(data.replace(b" 52 tnemucod"[::1], b" 99 tnemucod"))
    with pytest.raises(
        RunError, match=r"cannot copy rows 20 to 29 of .*a\.parquet: .*drop that column"
    ):
        run_dedup(Job((str(path),), tmp_path / "out", SMALL, RunOptions()), Silent())


def test_reading_goes_on_behind_a_damaged_row_group(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    write_parquet(path)
    damage_column(path, 2, 0)
    for start in (0, 19, 20, 30, 45):
        rows = [
            row
            for batch in FileCorpus.open([str(path)]).batches(SMALL, start=(0, start))
            for row in batch.rows.tolist()
        ]
        assert rows == [at for at in range(start, 50) if not 20 <= at < 30]


@pytest.mark.parametrize("form", ["parquet", "arrow", "table"])
@pytest.mark.parametrize("role", ["text", "id", "source"])
def test_a_dictionary_is_not_unfolded_beyond_the_limit(
    form: str, role: str, tmp_path: Path
) -> None:
    """Rows that stand for more than a document may have are rejected, the others are read."""
    values = pa.DictionaryArray.from_arrays(
        pa.array([0, 1, 0, 2], pa.int32()), pa.array(["fine", "x" * (LIMIT + 1), "also"])
    )
    plain = pa.array(["a", "b", "c", "d"])
    table = pa.table(
        {"text": values if role == "text" else plain, "other": plain if role == "text" else values}
    )
    columns = Columns(
        id="other" if role == "id" else None,
        carried_columns=("other",) if role == "source" else (),
        document_limit=LIMIT,
    )
    if form == "table":
        corpus: Any = TableCorpus(table)
    else:
        path = tmp_path / f"a.{form}"
        if form == "parquet":
            pq.write_table(table, path)
        else:
            with pa.ipc.new_file(path, table.schema) as writer:
                writer.write_table(table)
        corpus = FileCorpus.open([str(path)])
    batches = list(corpus.batches(columns))
    assert [row for batch in batches for row in batch.rows.tolist()] == [0, 2, 3]
    rejected = [entry for batch in batches for entry in batch.rejected]
    assert [entry.row for entry in rejected] == [1]
    assert "longer than 100,000 bytes" in rejected[0].reason


@pytest.mark.parametrize("encode", [pa.Array.dictionary_encode, pc.run_end_encode])
def test_an_encoded_column_of_more_than_two_gigabytes_is_read(encode: Any) -> None:
    """Its rows stand for 2.4 GB, of which never more than some megabytes are unfolded at a time."""
    values = encode(pa.array(["x" * 1_000_000] * 2))
    places = np.zeros(2400, np.int32)
    if pa.types.is_dictionary(values.type):
        column = pa.DictionaryArray.from_arrays(places, values.dictionary)
    else:
        column = pa.RunEndEncodedArray.from_arrays(
            pa.array([2400], pa.int32()), values.values.slice(0, 1)
        )
    rows = 0
    for batch in TableCorpus(pa.table({"text": column})).batches(Columns()):
        assert batch.documents.nbytes <= 32 << 20
        rows += len(batch.rows)
    assert rows == 2400


def write_repeated(path: Path, length: int, rows: int) -> None:
    """Writes a dictionary with one text for every row, without a dictionary type in the schema."""
    places = pa.array(np.zeros(rows, np.int32))
    column = pa.DictionaryArray.from_arrays(places, pa.array(["x" * length]))
    pq.write_table(pa.table({"text": column}), path, compression="zstd", store_schema=False)


def test_a_parquet_dictionary_is_not_repeated_in_memory(tmp_path: Path) -> None:
    write_repeated(tmp_path / "a.parquet", 600_000, 3000)
    largest = rows = 0
    corpus = FileCorpus.open([str(tmp_path / "a.parquet")])
    before = pa.total_allocated_bytes()
    for batch in corpus.batches(Columns()):
        largest = max(largest, pa.total_allocated_bytes() - before)
        rows += len(batch.rows)
    assert rows == 3000
    assert largest < 200 << 20
    (tmp_path / "out").mkdir()
    write_kept(corpus, Columns(), np.arange(3000) < 5, tmp_path / "out")
    assert pq.read_schema(tmp_path / "out" / "a.parquet").field("text").type == pa.string()


def test_a_page_that_unfolds_too_far_is_rejected_unread(tmp_path: Path) -> None:
    """The row group is lost if its codec cannot be decompressed in parts. Others are read."""
    table = pa.table({"text": ["first", "x" * (17 * LIMIT), "neighbour", "last"]})
    options: dict[str, Any] = {
        "use_dictionary": False,
        "write_statistics": False,
        "row_group_size": 3,
    }
    pq.write_table(table, tmp_path / "a.parquet", compression="lz4", **options)
    texts, rejected = read(tmp_path / "a.parquet")
    assert texts == [(3, "last")]
    reason = rejected[0].reason
    assert "rows 0 to 2 (row group 0): a page of column 'text' unfolds into 1,700," in reason
    assert "lz4 can only be decompressed in memory; run with more --memory" in reason


@pytest.mark.parametrize("compression", ["none", "snappy", "gzip", "zstd", "brotli"])
@pytest.mark.parametrize("version", ["1.0", "2.0"])
@pytest.mark.parametrize(
    "encoding", ["PLAIN", "DELTA_LENGTH_BYTE_ARRAY", "DELTA_BYTE_ARRAY", "RLE_DICTIONARY"]
)
@pytest.mark.parametrize("times", [10, 40])
def test_a_text_of_any_length_costs_its_own_row(
    compression: str, version: str, encoding: str, times: int, tmp_path: Path
) -> None:
    """Its page is decompressed in memory or in a file, whatever the encoding."""
    rng = np.random.default_rng(1)
    texts: list[str | None] = [f"small text number {at % 30} {'é' * (at % 7)}" for at in range(200)]
    texts[::9] = [None] * len(texts[::9])
    texts[50] = "small text number 30 " + "é" * (times * LIMIT // 2)
    texts[51] = rng.integers(32, 127, LIMIT - 10, np.uint8).tobytes().decode()
    texts[120] = "x" * (times * LIMIT)
    dictionary = encoding == "RLE_DICTIONARY"
    options: dict[str, Any] = (
        {"use_dictionary": True}
        if dictionary
        else {"use_dictionary": False, "column_encoding": encoding}
    )
    path = tmp_path / "a.parquet"
    checksum = {
        "write_page_checksum": True,
        "data_page_version": version,
        "compression": compression,
    }
    pq.write_table(
        pa.table({"text": texts}), path, dictionary_pagesize_limit=1 << 30, **options, **checksum
    )
    found, rejected = read(path)
    assert found == [
        (at, text) for at, text in enumerate(texts) if text is not None and at not in (50, 120)
    ]
    reasons = {entry.row: entry.reason for entry in rejected}
    assert "text is longer than 100,000 bytes" in reasons.pop(50)
    assert "text is longer than 100,000 bytes" in reasons.pop(120)
    assert set(reasons.values()) == {"text is null"}


def test_a_large_page_of_very_many_values_is_rejected_unread(tmp_path: Path) -> None:
    """Each value takes memory for its place and length."""
    path = tmp_path / "a.parquet"
    texts = ["ab"] * 180_000
    pq.write_table(
        pa.table({"text": texts}),
        path,
        use_dictionary=False,
        data_page_size=1 << 30,
        max_rows_per_page=1 << 30,
    )
    found, rejected = read(path)
    assert found == []
    assert (
        "has 180,000 values, more than the 25,000 of such a page that --memory leaves room for"
        in rejected[0].reason
    )


@pytest.mark.parametrize("seed", range(20))
def test_snappy_is_decompressed_as_arrow_does(seed: int) -> None:
    rng = np.random.default_rng(seed)
    words = [rng.integers(0, 256, rng.integers(1, 300), np.uint8).tobytes() for _ in range(20)]
    data = b"".join(words[at] for at in rng.integers(0, 20, rng.integers(0, 3000)))
    stored = np.frombuffer(pa.Codec("snappy").compress(data), np.uint8)
    unfolded = np.zeros(len(data), np.uint8)
    assert decompress_snappy(stored, unfolded)
    assert unfolded.tobytes() == data
    assert not decompress_snappy(stored, np.zeros(len(data) + 1, np.uint8))
    for _ in range(50):
        damaged = stored.copy()
        damaged[rng.integers(0, len(damaged))] ^= np.uint8(rng.integers(1, 256))
        decompress_snappy(
            damaged[: rng.integers(0, len(damaged) + 1)], np.zeros(len(data), np.uint8)
        )


HUGE_FORMS = [
    {
        "compression": codec,
        "use_dictionary": dictionary,
        "data_page_version": version,
        "write_page_checksum": checksum,
    }
    for codec, dictionary, version, checksum in [
        ("snappy", True, "1.0", False),
        ("snappy", False, "1.0", True),
        ("none", False, "2.0", True),
        ("none", True, "2.0", False),
        ("zstd", False, "2.0", False),
        ("gzip", True, "2.0", True),
        ("lz4", False, "1.0", False),
        ("brotli", True, "1.0", True),
    ]
]


@pytest.mark.parametrize(
    "options", HUGE_FORMS, ids=lambda options: "-".join(map(str, options.values()))
)
@pytest.mark.parametrize(
    "kind", [pa.string(), pa.large_binary(), pa.dictionary(pa.int32(), pa.string())], ids=str
)
@pytest.mark.parametrize("nullable", [True, False])
def test_a_huge_text_costs_its_own_row(
    options: dict[str, Any], kind: pa.DataType, nullable: bool, tmp_path: Path
) -> None:
    """Not the rows that share a page, a dictionary or a row group with it; kept rows are copied."""
    texts: list[str | None] = [f"small text number {at % 30}" for at in range(100)]
    texts[7] = "\u00e9" * (5 * LIMIT)
    texts[8] = "\u00e9" * (LIMIT // 2)
    if nullable:
        texts[::9] = [None] * len(texts[::9])
    path = tmp_path / "a.parquet"
    fields = [
        pa.field("n", pa.int64()),
        pa.field("text", kind, nullable),
        pa.field("id", pa.string()),
    ]
    encoded = [
        text.encode() if text is not None and kind == pa.large_binary() else text for text in texts
    ]
    columns = [
        pa.array(range(100)),
        pa.array(encoded, kind),
        pa.array([f"d{at}" for at in range(100)]),
    ]
    pq.write_table(pa.table(columns, schema=pa.schema(fields)), path, row_group_size=50, **options)
    found, rejected = read(path, Columns(id="id", document_limit=LIMIT))
    expected = [(at, text) for at, text in enumerate(texts) if text is not None and at != 7]
    assert found == expected
    assert [entry.row for entry in rejected] == [
        at for at, text in enumerate(texts) if text is None or at == 7
    ]
    huge = next(entry for entry in rejected if entry.row == 7)
    assert "text is longer than 100,000 bytes" in huge.reason
    assert huge.raw in ("\u00e9" * 200, "\u00e9" * 100)
    (tmp_path / "out").mkdir()
    corpus = FileCorpus.open([str(path)])
    write_kept(
        corpus,
        Columns(id="id", document_limit=LIMIT),
        np.arange(len(expected)) % 2 == 0,
        tmp_path / "out",
    )
    kept = pq.read_table(tmp_path / "out" / "a.parquet")
    assert kept["n"].to_pylist() == [at for at, _ in expected][::2]
    assert read(tmp_path / "out" / "a.parquet")[0] == [
        (number, text) for number, (_, text) in enumerate(expected[::2])
    ]


def test_a_huge_page_that_is_damaged_costs_its_row_group(tmp_path: Path) -> None:
    table = pa.table({"text": ["first", "x" * (9 * LIMIT), "last"]})
    options: dict[str, Any] = {
        "use_dictionary": False,
        "compression": "none",
        "write_page_checksum": True,
    }
    pq.write_table(table, tmp_path / "a.parquet", write_statistics=False, **options)
    data = bytearray((tmp_path / "a.parquet").read_bytes())
    data[5 * LIMIT] ^= 1
    (tmp_path / "a.parquet").write_bytes(data)
    texts, rejected = read(tmp_path / "a.parquet")
    assert texts == []
    assert "rows 0 to 2 (row group 0): the checksum of the page at byte " in rejected[0].reason


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
def test_a_json_line_is_not_unfolded_beyond_the_limit(
    line: bytes, reason: str, tmp_path: Path
) -> None:
    (tmp_path / "a.jsonl").write_bytes(b'{"text": "first"}\n' + line + b'\n{"text": "last"}\n')
    texts, rejected = read(tmp_path / "a.jsonl")
    assert [texts[0], texts[-1]] == [(0, "first"), (2, "last")]
    assert len(texts) + len(rejected) == 3
    assert [reason in entry.reason for entry in rejected] == [True] * bool(reason)


@pytest.mark.parametrize("name", ["a.txt", "a.jsonl", "a.csv", "a.parquet", "a.arrow"])
def test_documents_larger_than_a_share_of_the_memory_are_rejected(
    name: str, tmp_path: Path
) -> None:
    """And stay so when the run is continued with more memory."""
    limit = document_limit(512 << 20)
    assert limit == 16 << 20
    table = pa.table({"text": ["x" * (limit + 1), "small"]})
    path = tmp_path / name
    if name == "a.txt":
        path.write_text(table["text"][0].as_py())
    elif name == "a.jsonl":
        path.write_text("".join(f'{{"text": "{text}"}}\n' for text in table["text"].to_pylist()))
    elif name == "a.csv":
        path.write_text("\n".join(["text", *table["text"].to_pylist()]))
    elif name == "a.parquet":
        pq.write_table(table, path)
    else:
        with pa.ipc.new_file(path, table.schema) as writer:
            writer.write_table(table)
    texts, rejected = read(path, Columns().with_memory(512 << 20))
    assert [text for _, text in texts] == ([] if name == "a.txt" else ["small"])
    assert [entry.row for entry in rejected] == [0]
    assert "longer than 16,777,216 " in rejected[0].reason


@pytest.mark.parametrize("command", ["sketch", "index build", "index add"])
def test_commands_without_a_bound_of_memory_have_one_for_reading(
    command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    table = pa.table({"text": ["a small document", "x" * 40_000]})
    pq.write_table(table, tmp_path / "a.parquet")
    store = f"sqlite:///{tmp_path}/kin.db"
    if command == "index add":
        pq.write_table(table.slice(0, 1), tmp_path / "first.parquet")
        assert run(["index", "build", str(tmp_path / "first.parquet"), "--store", store]) == 0
        capsys.readouterr()
    target = ["--out", str(tmp_path / "out.arrow")] if command == "sketch" else ["--store", store]
    assert (
        run([*command.split(), str(tmp_path / "a.parquet"), *target, "--memory", "1MB", "--json"])
        == 0
    )
    assert json.loads(capsys.readouterr().out)["rejected"] == 1


@pytest.mark.parametrize("opener", [pa.ipc.new_file, pa.ipc.new_stream])
def test_a_record_batch_that_unfolds_too_far_is_rejected_unread(
    opener: Any, tmp_path: Path
) -> None:
    """The batches in front of it are read."""
    schema = pa.schema([("text", pa.large_string())])
    options = pa.ipc.IpcWriteOptions(compression="zstd")
    with opener(str(tmp_path / "a.arrow"), schema, options=options) as writer:
        for texts in (["first"], ["second"], ["x" * (17 * LIMIT)], ["behind"]):
            writer.write_batch(pa.record_batch([pa.array(texts, pa.large_string())], schema=schema))
    texts, rejected = read(tmp_path / "a.arrow")
    assert texts == [(0, "first"), (1, "second")]
    assert [
        entry.reason.startswith(
            "the file cannot be read from row 2: a record batch unfolds into 1,700,"
        )
        for entry in rejected
    ] == [True]


def test_an_arrow_file_without_its_end_is_read_up_to_there(tmp_path: Path) -> None:
    path = tmp_path / "a.arrow"
    table = pa.table({"text": [f"document {at}" for at in range(100)]})
    with pa.ipc.new_file(str(path), table.schema) as writer:
        writer.write_table(table, max_chunksize=10)
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    texts, rejected = read(path)
    assert len(texts) >= 20
    assert [text for _, text in texts] == table["text"].to_pylist()[: len(texts)]
    assert [
        entry.reason.startswith(f"the file cannot be read from row {len(texts)}")
        for entry in rejected
    ] == [True]
    (tmp_path / "out").mkdir()
    write_kept(FileCorpus.open([str(path)]), SMALL, np.ones(len(texts), bool), tmp_path / "out")
    assert read(tmp_path / "out" / "a.arrow") == (texts, [])


def test_a_run_keeps_the_limit_that_it_began_with(tmp_path: Path) -> None:
    """Rejected rows would become documents under another limit."""
    table = pa.table({"text": ["a b c d", "x" * 200, "a b c d", "e f g h"]})
    pq.write_table(table, tmp_path / "a.parquet")
    job = Job(
        (str(tmp_path / "a.parquet"),),
        tmp_path / "saved",
        Columns(document_limit=100),
        RunOptions(),
        save_signatures=True,
    )
    assert run_dedup(job, Silent())["counts"]["rejected"] == 1
    again = Job(
        (str(tmp_path / "saved"),), tmp_path / "out", Columns().with_memory(10**12), RunOptions()
    )
    assert run_dedup(again, Silent())["counts"]["kept"] == 2
    assert pq.read_table(tmp_path / "out" / "kept" / "a.parquet")["text"].to_pylist() == [
        "a b c d",
        "e f g h",
    ]
    assert audit_run(tmp_path / "saved", Silent()).audit.precision.value == 1


@pytest.mark.parametrize("finished", [False, True])
def test_a_resumed_run_keeps_its_limit(finished: bool, tmp_path: Path) -> None:
    """The run was interrupted while it read the row, or afterwards."""
    table = pa.table({"text": ["a b c d", "x" * 200]})
    work = WorkFolder.create(tmp_path / "work", {})
    first = LocalRun(TableCorpus(table), Columns(document_limit=100), RunOptions(), work, Silent())
    if finished:
        first.sketch()
    else:
        assert first._document_limit() == 100
    again = WorkFolder.resume(tmp_path / "work", {})
    resumed = LocalRun(
        TableCorpus(table), Columns(document_limit=10**9), RunOptions(), again, Silent()
    )
    resumed.sketch()
    assert resumed.columns.document_limit == 100
    assert resumed.recorded("sketch")["rejected"] == 1


ROWS = st.lists(
    st.one_of(st.none(), st.text(max_size=8), st.just("x" * 200), st.just("same words here")),
    max_size=12,
)


@settings(max_examples=20)
@given(ROWS, st.sampled_from(["a.jsonl", "a.json", "a.csv", "a.parquet", "a.arrow", "a.jsonl.gz"]))
def test_every_row_is_kept_removed_or_rejected(
    tmp_path_factory: pytest.TempPathFactory, texts: list[str | None], name: str
) -> None:
    """All formats reject the row, and kept rows equal those of the input."""
    folder = tmp_path_factory.mktemp("case")
    table = pa.table({"text": pa.array(texts, pa.string()), "n": list(range(len(texts)))})
    rows = [json.dumps(row) for row in table.to_pylist()]
    if ".jsonl" in name:
        data = "".join(f"{row}\n" for row in rows).encode()
        (folder / name).write_bytes(gzip.compress(data) if name.endswith("gz") else data)
    elif name == "a.json":
        (folder / name).write_text(f"[{','.join(rows)}]")
    elif name == "a.csv":
        with (folder / name).open("w", newline="") as file:
            csv.writer(file, quoting=csv.QUOTE_ALL).writerows(
                [["text", "n"], *map(list, table.to_pandas().to_numpy())]
            )
    elif name == "a.parquet":
        pq.write_table(table, folder / name)
    else:
        with pa.ipc.new_file(str(folder / name), table.schema) as writer:
            writer.write_table(table)
    columns = Columns(document_limit=100)
    record = run_dedup(Job((str(folder / name),), folder / "out", columns, RunOptions()), Silent())
    counts = record["counts"]
    assert counts["read"] == counts["kept"] + counts["removed"] + counts["rejected"]
    assert counts["read"] == len(texts)
    kept = folder / "out" / "kept" / name
    if ".jsonl" in name:
        written = gzip.decompress(kept.read_bytes()) if name.endswith("gz") else kept.read_bytes()
        assert set(written.decode().split("\n")[:-1]) <= set(rows)
        assert written.count(b"\n") == counts["kept"]
    elif name == "a.parquet":
        found = pq.read_table(kept)
        assert found.equals(table.take(found["n"].combine_chunks()))
        assert len(found) == counts["kept"]


MEASURED = """
    import resource, sys
    from nearkin.corpus import Columns, FileCorpus
    rows = rejected = 0
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    corpus = FileCorpus.open([sys.argv[1]], ahead=(512 << 20) // 32)
    for batch in corpus.batches(Columns().with_memory(512 << 20)):
        rows += len(batch.rows)
        rejected += len(batch.rejected)
    print(rows, rejected, (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) >> 10)
"""


def line_of_gigabytes(path: Path) -> None:
    block = b'{"text": "' + b"x" * (1 << 20)
    with pa.CompressedOutputStream(str(path), "zstd") as sink:
        sink.write(b'{"text": "first"}\n' + block)
        for _ in range(800):
            sink.write(block[10:])
        sink.write(b'"}\n{"text": "last"}\n')


def values_of_gigabytes(path: Path) -> None:
    with pa.CompressedOutputStream(str(path), "zstd") as sink:
        sink.write(
            b'{"text": "first"}\n{"text": "x", "wide": ['
            + b"{}," * 10_000_000
            + b'{}]}\n{"text": "last"}\n'
        )


def dictionary_of_gigabytes(path: Path) -> None:
    write_repeated(path, 900_000, 3000)


def page_of_megabytes(path: Path) -> None:
    table = pa.table({"text": ["x" * 200_000_000]})
    pq.write_table(table, path, compression="zstd", use_dictionary=False, write_statistics=False)


@pytest.mark.parametrize(
    ("make", "name", "rows"),
    [
        (line_of_gigabytes, "a.jsonl.zst", "2 1"),
        (values_of_gigabytes, "a.jsonl.zst", "2 1"),
        (dictionary_of_gigabytes, "a.parquet", "3000 0"),
        (page_of_megabytes, "a.parquet", "0 1"),
    ],
)
def test_a_small_hostile_file_takes_no_more_than_the_memory_bound(
    make: Any, name: str, rows: str, tmp_path: Path
) -> None:
    make(tmp_path / name)
    assert (tmp_path / name).stat().st_size < 200_000
    command = [sys.executable, "-c", textwrap.dedent(MEASURED), str(tmp_path / name)]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=300)
    *counted, megabytes = done.stdout.split()
    assert " ".join(counted) == rows
    assert int(megabytes) < 300


@pytest.mark.parametrize("codec", ["none", "snappy", "gzip", "zstd", "lz4", "brotli"])
@pytest.mark.parametrize("version", ["1.0", "2.0"])
def test_the_longest_value_of_a_parquet_dictionary_is_told_without_decoding_rows(
    codec: str, version: str, tmp_path: Path
) -> None:
    path = tmp_path / "a.parquet"
    texts = ["a", None, "é" * 700, "bc" * 300, "a", ""] * 5
    pq.write_table(pa.table({"text": texts}), path, compression=codec, data_page_version=version)
    with pa.OSFile(str(path)) as source:
        metadata = pq.ParquetFile(source).metadata
        found = parse_longest_value(source, metadata.row_group(0).column(0))
        assert decode_longest_value(source, metadata, 0, "text") == 1400
    assert found == (1400 if codec in ("none", "snappy", "gzip", "zstd") else None)


def test_a_column_without_a_dictionary_has_no_longest_value_in_one(tmp_path: Path) -> None:
    pq.write_table(pa.table({"text": ["a", "b"]}), tmp_path / "a.parquet", use_dictionary=False)
    with pa.OSFile(str(tmp_path / "a.parquet")) as source:
        assert (
            parse_longest_value(source, pq.ParquetFile(source).metadata.row_group(0).column(0))
            is None
        )
