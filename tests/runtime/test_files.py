"""Tests of the errors of files that cannot be written."""

import errno
import os
from pathlib import Path

import pytest

from nearkin.errors import RunError
from nearkin.runtime.files import disk_errors


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
