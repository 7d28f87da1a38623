"""Tests that damaged compressed files are read up to the damage."""

import hashlib
import io
import json
import random
import threading
import zlib
from collections.abc import Callable
from dataclasses import replace
from functools import cache, partial
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from nearkin.corpus import Columns, decompression
from nearkin.corpus.decompression import DecompressedStream, is_change
from nearkin.corpus.foreign_errors import DamageError, decoding
from nearkin.engine.options import RunOptions
from nearkin.errors import RunError
from nearkin.runs.dedup import run_dedup
from nearkin.runs.job import Job
from nearkin.runtime.progress import Silent
from tests.corpus.formats.record_files import write_avro, write_tar
from tests.corpus.mutations import damage
from tests.corpus.samples import read_file, to_ipc

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


@pytest.fixture(params=[decompression.AHEAD_FROM, 0], ids=["at once", "ahead"])
def ahead(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Lets files be decompressed by the reader, or by a thread from the first byte on."""
    monkeypatch.setattr(decompression, "AHEAD_FROM", request.param)


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


@cache  # for streams that are decompressed at once and ahead
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


@pytest.mark.usefixtures("ahead")
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


@pytest.mark.usefixtures("ahead")
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
    if rejected and "content was changed" in rejected[0].reason:
        rows = 0
    assert len(texts) + sum(entry.row >= 0 for entry in rejected) == max(rows, 0)
    assert len(texts) < 3000 or not rejected


def change_checksum(codec: str, data: bytes) -> bytes:
    """Returns compressed bytes whose last checksum does not match the content."""
    changed = bytearray(data)
    if codec == "zstd":
        # The frame of one segment says that a checksum follows, which is wrong.
        changed[4] |= 4
        return bytes(changed) + b"\0\0\0\0"
    changed[-8 if codec == "gzip" else -3] ^= 1
    return bytes(changed)


SHORT_FILES: dict[str, Callable[[Path], object]] = {
    "a.jsonl": lambda path: path.write_bytes(take_lines("jsonl")),
    "a.json": lambda path: path.write_text(json.dumps([{"text": text} for text in SHORT_TEXTS])),
    "a.csv": lambda path: path.write_bytes(take_lines("csv")),
    "a.txt": lambda path: path.write_text("\n".join(SHORT_TEXTS)),
    "a.log": lambda path: path.write_text("\n".join([*SHORT_TEXTS, ""])),
    "a.tar": lambda path: write_tar(path, SHORT_TEXTS),
    "a.arrows": lambda path: path.write_bytes(to_ipc(pa.ipc.new_stream)),
    "a.avro": lambda path: write_avro(path, SHORT_TEXTS),
}
SHORT_TEXTS = RANDOM_TEXTS[:300]


def take_lines(form: str) -> bytes:
    """Returns a file of the first random texts."""
    return b"".join(RANDOM_FILES[form].splitlines(keepends=True)[: 300 + (form == "csv")])


def write_changed(name: str, codec: str, folder: Path) -> tuple[Path, Columns]:
    """Writes a compressed file whose checksum does not match. Returns it and its columns."""
    plain = folder / name
    SHORT_FILES[name](plain)
    content = plain.read_bytes()
    plain.unlink()
    suffix = next(suffix for suffix, known in CODEC_OF_SUFFIX.items() if known == codec)
    path = folder / f"{name}{suffix}"
    columns = Columns(lines=name == "a.log")
    path.write_bytes(compress_with(codec, content))
    assert len(read_file(path, columns)[0]) > 0
    path.write_bytes(change_checksum(codec, compress_with(codec, content)))
    return path, columns


@pytest.mark.parametrize("codec", ["gzip", "zstd", "bz2"])
@pytest.mark.parametrize("name", SHORT_FILES)
def test_rows_of_a_small_file_whose_checksum_fails_are_rejected(
    name: str, codec: str, tmp_path: Path
) -> None:
    """The checksum is verified before the first row, because any row may be changed."""
    path, columns = write_changed(name, codec, tmp_path)
    texts, rejected = read_file(path, columns)
    assert texts == []
    (rejection,) = rejected
    assert rejection.reason.startswith("the file cannot be read, because its content was changed: ")


@pytest.mark.parametrize("name", ["a.jsonl", "a.csv", "a.log"])
def test_rows_of_a_large_file_whose_checksum_fails_are_named(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rows that were read before the checksum are kept, and the summary names them."""
    monkeypatch.setattr("nearkin.corpus.decompression.VERIFIED_BYTES", 1 << 10)
    path, columns = write_changed(name, "gzip", tmp_path)
    rows = len(SHORT_TEXTS)
    for count in range(4):
        # More frequent reasons do not hide the file.
        (tmp_path / f"{count}.jsonl").write_text(f'{{"text": {count}}}\n[]\n"a"\n' * 9)
    job = Job((str(tmp_path),), tmp_path / "out", columns, RunOptions(bands=10, rows=5))
    record = run_dedup(job, Silent())
    assert record.counts["kept"] == rows
    named = f"rows 0 to {rows - 1} of {path.name} may be changed"
    warnings = json.loads((tmp_path / "out" / "run.json").read_text())["warnings"]
    assert any(named in warning for warning in warnings)
    quarantine = (tmp_path / "out" / "rejected.jsonl").read_text().splitlines()
    (entry,) = [entry for entry in map(json.loads, quarantine) if "changed_rows" in entry]
    assert entry["file"] == path.name
    assert entry["changed_rows"] == rows
    assert entry["reason"].startswith(named)
    failing = replace(job, inputs=(str(path),), out=tmp_path / "other", on_error="fail")
    with pytest.raises(RunError, match=named):
        run_dedup(failing, Silent())


def read_damaged(content: bytes, codec: str) -> tuple[bytes, DamageError | None]:
    """Returns what can be read of a compressed content, and the damage that ends it."""
    stream = DecompressedStream(partial(pa.BufferReader, content), codec)
    parts = []
    try:
        with decoding():
            while part := stream.read(1 << 16):
                parts.append(part)
    except DamageError as damage:
        return b"".join(parts), damage
    return b"".join(parts), None


@pytest.mark.parametrize("codec", ["gzip", "zstd"])
def test_content_that_was_changed_before_an_error_counts_as_changed(codec: str, full: bool) -> None:
    """A decoder finds damage long after it, in other blocks. A cut file is not complete anyway."""
    words = (hashlib.sha256(b"%d" % number).hexdigest().encode() for number in range(2000))
    content = b"\n".join(b" ".join([word] * 4) for word in words)
    compressed = compress_with(codec, content)
    changes = []
    # three of four damaged files of gzip are such ones, and one of twenty of zstd
    for seed in range(100 if full or codec == "zstd" else 15):
        read, failure = read_damaged(damage(compressed, random.Random(seed)), codec)
        if failure is not None and not content.startswith(read):
            changes.append(failure)
    changes = [failure for failure in changes if "Truncated" not in str(failure)]
    assert len(changes) > 3
    assert all(map(is_change, changes))


@pytest.mark.parametrize("suffix", CODEC_OF_SUFFIX)
def test_damaged_text_file_is_rejected(suffix: str, tmp_path: Path) -> None:
    """A part of a text is not read as a document."""
    data = compress_with(CODEC_OF_SUFFIX[suffix], "\n".join(RANDOM_TEXTS[:3000]).encode())
    (tmp_path / f"a.txt{suffix}").write_bytes(data[:-9])
    texts, rejected = read_file(tmp_path / f"a.txt{suffix}")
    assert texts == []
    assert [entry.reason.startswith("the file cannot be read") for entry in rejected] == [True]


@pytest.mark.usefixtures("ahead")
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


def open_ahead(monkeypatch: pytest.MonkeyPatch, content: bytes) -> DecompressedStream:
    """Returns a stream that a thread decompresses from the first byte on."""
    monkeypatch.setattr(decompression, "AHEAD_FROM", 0)
    compressed = compress_with("gzip", content)
    return DecompressedStream(lambda: pa.BufferReader(compressed), "gzip")


def test_reads_are_complete_whatever_their_size_is(monkeypatch: pytest.MonkeyPatch) -> None:
    content = np.random.default_rng(1).bytes(3 << 20)
    for size in (700_001, 2 << 20, 5 << 20):
        with open_ahead(monkeypatch, content) as stream:
            parts = [content[begin : begin + size] for begin in range(0, len(content), size)]
            assert [stream.read(size) for _ in parts] == parts
            assert stream.read(size) == b""
            assert stream.read(size) == b""


@pytest.mark.parametrize("size", [0, 1])
def test_a_stream_that_is_closed_early_ends_its_thread(
    size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = threading.active_count()
    with open_ahead(monkeypatch, bytes(20 << 20)) as stream:
        assert stream.read(size) == bytes(size)
        assert threading.active_count() == before + 1
    assert threading.active_count() == before


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
