"""Tests of files to which lines are appended."""

import errno
import os
from pathlib import Path

import pytest

from nearkin.runtime import appended_lines
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


def test_name_of_a_new_file_is_synced_with_its_first_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[Path] = []
    monkeypatch.setattr(appended_lines, "sync_folder", synced.append)
    for line in (b"one\n", b"two\n"):
        append_line(tmp_path / "lines", line)
    assert synced == [tmp_path]
