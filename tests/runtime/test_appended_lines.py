"""Tests of files to which lines are appended."""

import errno
import os
from pathlib import Path

import pytest

from nearkin.runtime.appended_lines import append_line


def test_lines_never_run_into_each_other(tmp_path: Path) -> None:
    path = tmp_path / "lines"
    assert append_line(path, b"one\n", b"header\n") == 7
    assert append_line(path, b"two\n", b"header\n") == 11
    path.write_bytes(path.read_bytes() + b"torn")
    assert append_line(path, b"three\n", b"header\n") == 20
    assert path.read_bytes() == b"header\none\ntwo\ntorn\nthree\n"


def test_failed_append_leaves_the_file_unchanged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "lines"
    append_line(path, b"one\n")

    def fail(handle: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(OSError, match="No space left"):
        append_line(path, b"two\n")
    assert path.read_bytes() == b"one\n"
