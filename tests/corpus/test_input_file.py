"""Tests of input files: their formats by suffix, their content and how a change is noticed."""

import gzip
import os
from pathlib import Path

import pytest

from nearkin.corpus.input_file import InputFile


@pytest.mark.parametrize(
    ("name", "suffix", "compression"),
    [
        ("a.jsonl", ".jsonl", None),
        ("a.JSONL.GZ", ".jsonl", "gzip"),
        ("a.b.csv.zst", ".csv", "zstd"),
        ("folder.parquet/a.txt.bz2", ".txt", "bz2"),
        ("a.gz", "", "gzip"),
        ("a", "", None),
        (".gz", "", None),
        ("a.gz.gz", ".gz", "gzip"),
        ("é\x01.json.lz4", ".json", "lz4"),
    ],
)
def test_suffixes_decide_the_format_and_the_compression(
    name: str, suffix: str, compression: str | None
) -> None:
    file = InputFile(f"/somewhere/{name}", name)
    assert (file.suffix, file.compression) == (suffix, compression)
    assert not file.remote
    assert InputFile(f"s3://bucket/{name}", name).remote


@pytest.mark.parametrize("name", ["a.txt", "a.txt.gz"])
@pytest.mark.parametrize("content", [b"", b"some bytes" * 1000])
def test_content_is_read_after_decompression(name: str, content: bytes, tmp_path: Path) -> None:
    stored = gzip.compress(content) if name.endswith(".gz") else content
    path = tmp_path / name
    path.write_bytes(stored)
    file = InputFile(str(path), name)
    with file.open() as opened:
        assert opened.read() == stored
    with file.open_decompressed() as opened:
        assert opened.read() == content


def test_name_that_is_not_unicode_is_opened(tmp_path: Path) -> None:
    path = os.fsencode(tmp_path) + b"/\xff.txt"
    Path(os.fsdecode(path)).write_bytes(b"content")
    with InputFile(os.fsdecode(path), "%FF.txt").open() as opened:
        assert opened.read() == b"content"


def test_status_differs_after_a_change_of_the_same_size_and_time(tmp_path: Path) -> None:
    """Another file in its place has another inode, even if size and time are equal."""
    path = tmp_path / "a.txt"
    path.write_bytes(b"one")
    before = InputFile(str(path), "a.txt").status()
    assert InputFile(str(path), "a.txt").status() == before
    assert before.size == 3
    times = path.stat()
    other = tmp_path / "other"
    other.write_bytes(b"two")
    os.utime(other, ns=(times.st_atime_ns, times.st_mtime_ns))
    other.rename(path)
    after = InputFile(str(path), "a.txt").status()
    assert (after.size, after.modified) == (before.size, before.modified)
    assert after != before


def test_status_of_a_missing_file_is_an_error_of_the_system(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        InputFile(str(tmp_path / "a"), "a").status()
