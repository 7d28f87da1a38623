"""Tests of the errors of files that cannot be written."""

import errno
import os
from pathlib import Path

import pytest

from nearkin.errors import RunError
from nearkin.runtime.files import copy_bytes, disk_errors, write_at


@pytest.mark.parametrize(
    ("number", "remedy"),
    [
        (errno.ENOSPC, "Free some space, then"),
        (errno.EMFILE, r"Raise the limit of open files \(ulimit -n\), then"),
        (errno.EACCES, "Fix the permissions, then"),
        (errno.EIO, "Free some space or fix the permissions, then"),
    ],
)
def test_remedy_of_a_failure_to_write_follows_from_its_cause(number: int, remedy: str) -> None:
    with pytest.raises(RunError, match=remedy), disk_errors(Path("out")):
        raise OSError(number, os.strerror(number))


def test_bytes_are_copied_from_and_to_the_positions_of_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("nearkin.runtime.files.COPIED_AT_ONCE", 3)
    (tmp_path / "source").write_bytes(b"0123456789")
    with (tmp_path / "source").open("rb") as source, (tmp_path / "target").open("wb") as target:
        target.write(b"ab")
        source.seek(1)
        copy_bytes(source, target, 7)
        with pytest.raises(OSError, match="source ended 1 bytes too early"):
            copy_bytes(source, target, 3)
    assert (tmp_path / "target").read_bytes() == b"ab123456789"


def test_bytes_are_written_at_a_position(tmp_path: Path) -> None:
    with (tmp_path / "file").open("w+b") as file:
        write_at(file, memoryview(b"late"), 4)
        write_at(file, memoryview(b""), 0)
        write_at(file, memoryview(b"soon"), 0)
    assert (tmp_path / "file").read_bytes() == b"soonlate"
