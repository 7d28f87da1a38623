"""Tests of files that are compressed while they are written."""

import gzip
from pathlib import Path

import pyarrow as pa
import pytest

from nearkin.runtime.compressed_files import create_file


@pytest.mark.parametrize("compression", [None, "gzip", "zstd", "bz2", "lz4"])
def test_file_holds_what_was_written(compression: str | None, tmp_path: Path) -> None:
    path = tmp_path / "file"
    parts = [b"", b"line\n", bytes(3 << 20), b"end"]
    with create_file(str(path), compression) as file:
        for part in parts:
            file.write(part)
    with pa.OSFile(str(path)) as raw:
        stream = raw if compression is None else pa.CompressedInputStream(raw, compression)
        assert stream.read() == b"".join(parts)


def test_gzip_is_one_member_that_names_no_time(tmp_path: Path) -> None:
    contents = []
    for name in ("a", "b"):
        with create_file(str(tmp_path / name), "gzip") as file:
            file.write(b"text")
        contents.append((tmp_path / name).read_bytes())
    assert contents[0] == contents[1]
    assert gzip.decompress(contents[0]) == b"text"
    assert contents[0].count(b"\x1f\x8b\x08") == 1
