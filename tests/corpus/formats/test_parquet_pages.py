"""Tests of parquet columns with long values, large pages and dictionaries."""

from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from nearkin.corpus import Columns, FileCorpus, write_kept
from nearkin.corpus.formats.parquet_footers import StructReader
from nearkin.corpus.formats.parquet_pages import decode_longest_value, find_longest_value
from tests.corpus.samples import LIMIT, read_rows


@pytest.mark.parametrize("compression", ["none", "snappy", "gzip", "zstd", "brotli", "lz4"])
@pytest.mark.parametrize("version", ["1.0", "2.0"])
@pytest.mark.parametrize("column", ["text", "copied"])
def test_page_that_decompresses_too_far_is_rejected_unread(
    compression: str, version: str, column: str, tmp_path: Path
) -> None:
    """The row group of the page is rejected, also if the column is only copied; others are read."""
    values = ["first", "x" * (17 * LIMIT), "neighbour", "last"]
    table = pa.table({"text": ["first", "second", "third", "last"]}).append_column(
        "copied", pa.array(values)
    )
    if column == "text":
        table = table.rename_columns(["copied", "text"])
    pq.write_table(
        table,
        tmp_path / "a.parquet",
        compression=compression,
        data_page_version=version,
        use_dictionary=False,
        write_statistics=False,
        row_group_size=3,
    )
    texts, rejected = read_rows(tmp_path / "a.parquet")
    assert texts == [(3, "last")]
    reason = rejected[0].reason
    assert "rows 0 to 2 (row group 0): decoding it takes up to " in reason
    assert f"of which column '{column}' takes " in reason
    assert "`memory` leaves room for 1,600,000; write the file with smaller pages" in reason


POOLS: list[pa.MemoryPool] = []
"""The pools whose peaks were measured. What was allocated from them may be freed later."""


@cache
def random_letters() -> np.ndarray:
    """Returns letters that do not compress, for all files."""
    return np.random.default_rng(1).integers(32, 127, 11 << 20, np.uint8)


def write_long_values(path: Path, column: str, values: int, size: int, **options: Any) -> None:
    """Writes rows of which some have long values in a column, and a row of another row group."""
    letters = random_letters()[: size // values * values]
    long = letters.reshape(values, size // values)
    small = [f"small text number {at}" for at in range(10 + values)]
    table = pa.table({"text": small, "copied": small})
    place = table.column_names.index(column)
    table = table.set_column(place, column, [small[:10] + [row.tobytes().decode() for row in long]])
    with pq.ParquetWriter(path, table.schema, **options) as writer:
        writer.write_table(table)
        writer.write_table(pa.table({"text": ["last"], "copied": ["last"]}))


@pytest.mark.parametrize("compression", ["none", "snappy"])
@pytest.mark.parametrize("use_dictionary", [True, False])
@pytest.mark.parametrize("values", [1, 5])
@pytest.mark.parametrize("column", ["text", "copied"])
def test_row_groups_that_are_read_are_decoded_within_the_limit(
    compression: str, use_dictionary: bool, values: int, column: str, tmp_path: Path
) -> None:
    """Values that do not compress are in memory as pages, in dictionaries and in batches."""
    limit = 16 << 20
    columns = Columns(document_limit=limit // 16)
    path = tmp_path / "a.parquet"
    pool = pa.default_memory_pool()
    are_read = []
    for size in range(1 << 20, 11 << 20, 3 << 19):
        write_long_values(
            path,
            column,
            values,
            size,
            compression=compression,
            use_dictionary=use_dictionary,
            dictionary_pagesize_limit=1 << 30,
        )
        watched = pa.proxy_memory_pool(pool)
        POOLS.append(watched)
        pa.set_memory_pool(watched)
        try:
            texts, rejected = read_rows(path, columns)
            is_read = all("cannot be read" not in entry.reason for entry in rejected)
            if is_read:
                list(FileCorpus.open([str(path)]).read_slices(0, columns, whole=True))
        finally:
            pa.set_memory_pool(pool)
        assert texts[-1][1] == "last"
        are_read.append(is_read)
        # a batch is copied without the rows that are rejected
        assert watched.max_memory() < 1.05 * limit + size
    assert are_read[0]
    assert not are_read[-1]


@pytest.mark.parametrize("compression", ["none", "snappy", "gzip", "zstd", "brotli", "lz4"])
@pytest.mark.parametrize("version", ["1.0", "2.0"])
@pytest.mark.parametrize(
    "encoding", ["PLAIN", "DELTA_LENGTH_BYTE_ARRAY", "DELTA_BYTE_ARRAY", "RLE_DICTIONARY"]
)
def test_text_that_is_too_long_rejects_only_its_row(
    compression: str, version: str, encoding: str, tmp_path: Path
) -> None:
    rng = np.random.default_rng(1)
    texts: list[str | None] = [f"small text number {at % 30} {'é' * (at % 7)}" for at in range(200)]
    texts[::9] = [None] * len(texts[::9])
    texts[50] = "small text number 30 " + "é" * LIMIT
    texts[51] = rng.integers(32, 127, LIMIT - 10, np.uint8).tobytes().decode()
    texts[120] = "x" * (2 * LIMIT)
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
    found, rejected = read_rows(path)
    assert found == [
        (at, text) for at, text in enumerate(texts) if text is not None and at not in (50, 120)
    ]
    reasons = {entry.row: entry.reason for entry in rejected}
    assert "text is longer than 100,000 bytes" in reasons.pop(50)
    assert "text is longer than 100,000 bytes" in reasons.pop(120)
    assert set(reasons.values()) == {"text is null"}


LONG_FORMS = [
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
    "options", LONG_FORMS, ids=lambda options: "-".join(map(str, options.values()))
)
@pytest.mark.parametrize(
    "kind", [pa.string(), pa.large_binary(), pa.dictionary(pa.int32(), pa.string())], ids=str
)
@pytest.mark.parametrize("nullable", [True, False])
def test_long_text_rejects_only_its_row(
    options: dict[str, Any], kind: pa.DataType, nullable: bool, tmp_path: Path
) -> None:
    """Rows in the same page, dictionary or row group are read, and kept rows are copied."""
    texts: list[str | None] = [f"small text number {at % 30}" for at in range(100)]
    texts[7] = "\u00e9" * LIMIT
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
    found, rejected = read_rows(path, Columns(id="id", document_limit=LIMIT))
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
    assert read_rows(tmp_path / "out" / "a.parquet")[0] == [
        (number, text) for number, (_, text) in enumerate(expected[::2])
    ]


@pytest.mark.parametrize("codec", ["none", "snappy", "gzip", "zstd", "lz4", "brotli"])
@pytest.mark.parametrize("version", ["1.0", "2.0"])
def test_longest_value_of_a_dictionary_is_found(codec: str, version: str, tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    texts = ["a", None, "é" * 700, "bc" * 300, "a", ""] * 5
    pq.write_table(pa.table({"text": texts}), path, compression=codec, data_page_version=version)
    with pa.OSFile(str(path)) as source:
        metadata = pq.ParquetFile(source).metadata
        assert decode_longest_value(source, metadata, 0, "text") == 1400
        assert find_longest_value(source, metadata, 0, 0) == 1400


def test_integers_of_page_headers_are_bounded() -> None:
    """Longer ones would take a time that is quadratic in the size of the header."""
    reader = StructReader(b"\x15" + b"\xff" * 20)
    with pytest.raises(ValueError, match="more than 64 bits"):
        reader.read_struct()
