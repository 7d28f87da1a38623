"""Tests that damaged compressed files are read up to the damage."""

import io
import json
import zlib
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from nearkin.corpus import Columns
from nearkin.corpus.decompression import DecompressedStream
from nearkin.engine.options import RunOptions
from nearkin.runs.dedup import run_dedup
from nearkin.runs.job import Job
from nearkin.runtime.progress import Silent
from tests.corpus.samples import read_file

CODEC_OF_SUFFIX = {".gz": "gzip", ".zst": "zstd", ".bz2": "bz2", ".lz4": "lz4"}


RANDOM_ROWS = 20_000


RNG = np.random.default_rng(3)


RANDOM_WORDS = RNG.integers(0, 1 << 40, (RANDOM_ROWS, 3))


RANDOM_TEXTS = [" ".join(f"w{word:x}" for word in row) for row in RANDOM_WORDS.tolist()]


RANDOM_FILES = {
    "jsonl": "".join(json.dumps({"text": text}) + "\n" for text in RANDOM_TEXTS).encode(),
    "csv": ("text\n" + "".join(f"{text}\n" for text in RANDOM_TEXTS)).encode(),
}

FORMS_AND_SUFFIXES = [
    *(("jsonl", suffix) for suffix in CODEC_OF_SUFFIX),
    ("csv", ".zst"),
    *(pytest.param("csv", suffix, marks=pytest.mark.full) for suffix in (".gz", ".bz2", ".lz4")),
]


def compress_with(codec: str, data: bytes) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.CompressedOutputStream(sink, codec) as stream:
        stream.write(data)
    return sink.getvalue().to_pybytes()


class OneByteFile:
    """A file that returns one byte at a time, so that a codec loses no decompressed bytes."""

    closed = False

    def __init__(self, data: bytes) -> None:
        self._file = io.BytesIO(data)

    def read(self, size: int) -> bytes:
        return self._file.read(min(size, 1))

    def close(self) -> None:
        pass


def decode_until_damage(codec: str, data: bytes) -> bytes:
    """Returns the content before the damage, decompressed by Python's library if it has one."""
    parts = []
    if codec == "gzip":
        tool = zlib.decompressobj(31)
        try:
            for at in range(len(data)):
                parts.append(tool.decompress(data[at : at + 1]))
        except zlib.error:
            pass
        return b"".join(parts)
    stream = pa.CompressedInputStream(pa.PythonFile(OneByteFile(data), "r"), codec)
    try:
        while part := stream.read(1):
            parts.append(part)
    except OSError:
        pass
    return b"".join(parts)


@pytest.mark.parametrize(("form", "suffix"), FORMS_AND_SUFFIXES)
def test_rows_before_a_missing_end_are_read(
    form: str, suffix: str, tmp_path: Path, full: bool
) -> None:
    """If one byte or half of the file is missing, every row that can be decompressed is read."""
    rows = RANDOM_ROWS if full else 3000
    plain = b"".join(RANDOM_FILES[form].splitlines(keepends=True)[: rows + (form == "csv")])
    data = compress_with(CODEC_OF_SUFFIX[suffix], plain)
    path = tmp_path / f"a.{form}{suffix}"
    for end in (len(data) - 1, len(data) // 2):
        path.write_bytes(data[:end])
        decoded = decode_until_damage(CODEC_OF_SUFFIX[suffix], data[:end])
        assert plain.startswith(decoded)
        whole = decoded[: decoded.rfind(b"\n") + 1].count(b"\n") - (form == "csv" and bool(decoded))
        texts, rejected = read_file(path)
        assert texts == RANDOM_TEXTS[: len(texts)]
        if len(decoded) < len(plain):
            assert len(texts) == max(whole, 0)
        assert len(rejected) == (0 if len(texts) == rows and not rejected else 1)
        if rejected:
            assert rejected[0].row == -1
            assert rejected[0].reason.startswith(
                f"the file cannot be read from row {len(texts)}"
                if texts
                else "the file cannot be read"
            )


@pytest.mark.parametrize(("form", "suffix"), FORMS_AND_SUFFIXES)
def test_rows_before_a_changed_byte_are_read(form: str, suffix: str, tmp_path: Path) -> None:
    plain = b"".join(RANDOM_FILES[form].splitlines(keepends=True)[:3000])
    data = bytearray(compress_with(CODEC_OF_SUFFIX[suffix], plain))
    data[len(data) * 3 // 4] ^= 0xFF
    path = tmp_path / f"a.{form}{suffix}"
    path.write_bytes(data)
    decoded = decode_until_damage(CODEC_OF_SUFFIX[suffix], bytes(data))
    texts, rejected = read_file(path)
    rows = decoded[: decoded.rfind(b"\n") + 1].count(b"\n") - (form == "csv" and bool(decoded))
    assert len(texts) + sum(entry.row >= 0 for entry in rejected) == max(rows, 0)
    assert len(texts) < 3000 or not rejected


@pytest.mark.parametrize("suffix", CODEC_OF_SUFFIX)
def test_damaged_text_file_is_rejected(suffix: str, tmp_path: Path) -> None:
    """A part of a text is not read as a document."""
    data = compress_with(CODEC_OF_SUFFIX[suffix], "\n".join(RANDOM_TEXTS[:3000]).encode())
    (tmp_path / f"a.txt{suffix}").write_bytes(data[:-9])
    texts, rejected = read_file(tmp_path / f"a.txt{suffix}")
    assert texts == []
    assert [entry.reason.startswith("the file cannot be read") for entry in rejected] == [True]


@pytest.mark.parametrize("suffix", [".gz", ".zst", ".bz2", ".lz4"])
def test_concatenated_compressed_parts_are_read(suffix: str, tmp_path: Path) -> None:
    plain = RANDOM_FILES["jsonl"][:200_001]
    plain = plain[: plain.rfind(b"\n") + 1]
    for cut in (1, 65_536, 100_003):
        path = tmp_path / f"a.jsonl{suffix}"
        path.write_bytes(
            compress_with(CODEC_OF_SUFFIX[suffix], plain[:cut])
            + compress_with(CODEC_OF_SUFFIX[suffix], plain[cut:])
        )
        texts, rejected = read_file(path)
        assert texts == RANDOM_TEXTS[: plain.count(b"\n")]
        assert not rejected


def test_damaged_file_completes_a_run(tmp_path: Path) -> None:
    lines = RANDOM_FILES["jsonl"].splitlines(keepends=True)
    (tmp_path / "a.jsonl.gz").write_bytes(compress_with("gzip", b"".join(lines[:3000]))[:-1])
    record = run_dedup(
        Job((str(tmp_path),), tmp_path / "out", Columns(), RunOptions(bands=10, rows=5)), Silent()
    )
    counts = record.counts
    assert counts["kept"] > 2990
    assert counts["rejected"] == 1
    kept = decode_until_damage("gzip", (tmp_path / "out" / "kept" / "a.jsonl.gz").read_bytes())
    assert kept == b"".join(lines[: counts["kept"]])


def test_file_that_becomes_empty_while_it_is_read_is_damaged() -> None:
    plain = np.random.default_rng(1).bytes(200_000)
    content = bytearray(compress_with("gzip", plain))
    content[-5] ^= 1
    contents = [bytes(content)]
    stream = DecompressedStream(
        lambda: pa.BufferReader(contents.pop() if contents else b""), "gzip"
    )
    assert stream.read(4) == plain[:4]
    with pytest.raises(OSError, match="incorrect data check"):
        stream.read(len(plain))
