"""Tests of temporary folders, which belong to the process that creates them."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from nearkin.errors import UsageError
from nearkin.runtime.temporary_folder import TemporaryFolder

EXITS = """
import os, sys
from nearkin.runtime.temporary_folder import TemporaryFolder

folder = TemporaryFolder(sys.argv[1])
child = os.fork()
if child == 0:
    sys.exit()
os.waitpid(child, 0)
sys.exit(not folder.path.is_dir())
"""
"""Code of a process whose forked child exits, with 0 if the folder still exists."""


def test_folder_is_deleted_with_its_object_or_block(tmp_path: Path) -> None:
    folder = TemporaryFolder(tmp_path)
    assert list(tmp_path.iterdir()) == [folder.path]
    del folder
    assert not list(tmp_path.iterdir())
    with TemporaryFolder(tmp_path) as path:
        (path / "file").touch()
    assert not list(tmp_path.iterdir())


def test_folder_outlives_a_forked_process_that_exits(tmp_path: Path) -> None:
    subprocess.run([sys.executable, "-c", EXITS, str(tmp_path)], check=True)
    # It is deleted when its own process ends.
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("drop", ["remove", "leave", "forget"])
def test_folder_outlives_the_copy_of_a_forked_process(tmp_path: Path, drop: str) -> None:
    folder = TemporaryFolder(tmp_path)
    child = os.fork()
    if child == 0:
        try:
            if drop == "remove":
                folder.remove()
            elif drop == "leave":
                with folder:
                    pass
            del folder
        finally:
            os._exit(0)
    os.waitpid(child, 0)
    assert folder.path.is_dir()
    folder.remove()
    assert not list(tmp_path.iterdir())


def test_folder_that_cannot_be_created_is_refused_by_the_name_of_the_parameter() -> None:
    with pytest.raises(UsageError, match="no temporary folder can be created in work='/no/such'"):
        TemporaryFolder.open("/no/such")
