"""Tests of zstd frames with windows of more than 128 MiB, which `zstd --long` writes."""

import io
import json
import sys
import tarfile
from pathlib import Path

import pyarrow as pa
import pyarrow.ipc
import pytest
import zstandard

import nearkin as nk
from nearkin.cli import app
from nearkin.corpus import Columns, FileCorpus
from nearkin.corpus.decompression import DecompressedStream
from nearkin.corpus.long_windows import HEADER_BYTES, parse_window
from nearkin.errors import MissingExtraError, UsageError
from tests.cli.conftest import run
from tests.corpus.samples import read_file

TEXTS = [f"the text of row {number}, which is a document" for number in range(5)]
BLOCK_BYTES = 1 << 16


def make_frame(data: bytes, window_log: int = 31) -> bytes:
    """Returns data as a frame with a window of 2 ** `window_log` bytes, in blocks that are raw.

    A real compressor would need as much memory as the window is large.
    """
    parts = [bytes.fromhex("28b52ffd00"), bytes([(window_log - 10) << 3])]
    for at in range(0, max(len(data), 1), BLOCK_BYTES):
        block = data[at : at + BLOCK_BYTES]
        is_last = at + BLOCK_BYTES >= len(data)
        parts += [(len(block) << 3 | is_last).to_bytes(3, "little"), block]
    return b"".join(parts)


def encode_rows(suffix: str) -> bytes:
    rows = [{"text": text} for text in TEXTS]
    sink = io.BytesIO()
    match suffix:
        case ".jsonl":
            return "".join(json.dumps(row) + "\n" for row in rows).encode()
        case ".json":
            return json.dumps(rows).encode()
        case ".csv":
            return "\n".join(["text", *(f'"{text}"' for text in TEXTS)]).encode()
        case ".arrow":
            table = pa.Table.from_pylist(rows)
            with pa.ipc.new_stream(sink, table.schema) as writer:
                writer.write_table(table)
        case ".tar":
            with tarfile.open(fileobj=sink, mode="w") as archive:
                for number, text in enumerate(TEXTS):
                    member = tarfile.TarInfo(f"{number}.txt")
                    member.size = len(text)
                    archive.addfile(member, io.BytesIO(text.encode()))
        case _:
            return "\n".join(TEXTS).encode()
    return sink.getvalue()


@pytest.mark.parametrize("suffix", [".jsonl", ".json", ".csv", ".arrow", ".tar", ".log"])
def test_every_format_is_read_from_long_windows(suffix: str, tmp_path: Path) -> None:
    path = tmp_path / f"rows{suffix}.zst"
    path.write_bytes(make_frame(encode_rows(suffix)))
    columns = Columns(lines=True)
    FileCorpus.open([str(path)]).check(columns)
    assert read_file(path, columns) == (TEXTS, [])


def test_window_is_that_of_the_first_frame() -> None:
    data = b"some content " * 100_000
    for level, window_log in ((1, 20), (3, 24), (19, 27)):
        parameters = zstandard.ZstdCompressionParameters.from_level(level, window_log=window_log)
        compressor = zstandard.ZstdCompressor(compression_params=parameters)
        pieces = compressor.compressobj()
        for frame in (
            compressor.compress(data),
            compressor.compress(data[:100]),
            compressor.compress(data[:1000]),
            pieces.compress(data) + pieces.flush(),
        ):
            header = frame[:HEADER_BYTES]
            expected = zstandard.get_frame_parameters(header).window_size
            assert parse_window(header) == expected
            skippable = bytes.fromhex("502a4d1803000000") + b"abc"
            assert parse_window((skippable + header)[:HEADER_BYTES]) == expected
    assert parse_window(make_frame(b"x", 28)) == 1 << 28
    assert [parse_window(b""), parse_window(b"\x28\xb5"), parse_window(b"text" * 9)] == [0, 0, 0]


def test_frames_follow_each_other_with_blocks_of_any_size() -> None:
    data = b"".join(b"line %d\n" % number for number in range(30_000))
    stored = make_frame(data[:100_000]) + make_frame(b"") + make_frame(data[100_000:], 30)
    for size in (7_000, 1 << 20):
        stream = DecompressedStream(lambda: pa.BufferReader(stored), "zstd")
        assert b"".join(iter(lambda: stream.read(size), b"")) == data  # noqa: B023


@pytest.mark.parametrize("cut", [1, 3, 40_000])
def test_content_before_a_missing_end_is_read(cut: int) -> None:
    data = bytes(range(256)) * 1000
    stored = make_frame(data)[:-cut]
    stream = DecompressedStream(lambda: pa.BufferReader(stored), "zstd")
    parts: list[bytes] = []
    with pytest.raises(OSError, match="Truncated"):
        parts.extend(iter(lambda: stream.read(50_000), b""))
    found = b"".join(parts)
    assert data.startswith(found)
    # A block is lost as a whole.
    assert len(found) >= len(data) - BLOCK_BYTES - cut


def test_larger_window_of_a_later_frame_is_an_error_with_a_remedy(tmp_path: Path) -> None:
    lines = encode_rows(".jsonl")
    for first in (20, 28):
        path = tmp_path / "rows.jsonl.zst"
        path.write_bytes(make_frame(lines, first) + make_frame(lines, 31))
        texts, rejected = read_file(path)
        assert texts == TEXTS
        assert "larger window than the first one; compress the file again" in rejected[0].reason


def test_window_must_fit_into_the_memory_of_a_run(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "rows.jsonl.zst"
    path.write_bytes(make_frame(encode_rows(".jsonl")))
    # The default of 4 GB suffices for the largest window.
    assert run("dedup", path, "--out", tmp_path / "out", "--quiet") == app.DONE
    capsys.readouterr()
    code = run("dedup", path, "--memory", "2GB", "--out", tmp_path / "b", "--quiet")
    assert code == app.USAGE
    error = capsys.readouterr().err
    assert "a window of 2,048 MiB, which must fit into memory; run with --memory 3.6GB" in error
    assert run("dedup", path, "--memory", "3.6GB", "--out", tmp_path / "b", "--quiet") == app.DONE
    with pytest.raises(UsageError, match=r"memory='3\.6GB'"):
        nk.dedup(path, memory=2_000_000_000)


def test_missing_library_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "rows.jsonl.zst"
    path.write_bytes(make_frame(encode_rows(".jsonl")))
    monkeypatch.setitem(sys.modules, "zstandard", None)
    with pytest.raises(MissingExtraError, match=r"require zstandard.*\[zstd\]"):
        nk.dedup(path)


@pytest.mark.parametrize("suffix", [".parquet", ".orc"])
def test_compressed_files_of_compressed_parts_are_one_error(suffix: str, tmp_path: Path) -> None:
    path = tmp_path / f"rows{suffix}.zst"
    path.write_bytes(make_frame(b"PAR1", 20))
    with pytest.raises(UsageError, match="decompress it first"):
        nk.dedup(path)
