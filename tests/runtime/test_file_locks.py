"""Tests of locks between processes, and of the platform that they need."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

from nearkin.runtime.file_locks import lock_exclusively, lock_shared

PACKAGE = Path(__file__).parents[2] / "nearkin"
WINDOWS = (
    "import asyncio, multiprocessing, shutil, sys; "
    "sys.platform = 'win32'; sys.modules['fcntl'] = None; "
)
"""The beginning of a program that runs as on Windows.

Modules of Python that would import others of Windows are imported before.
"""


def test_exclusive_lock_keeps_others_out(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    path.write_text("")
    with path.open() as first, path.open() as second:
        lock_shared(first)
        lock_shared(second)
        with pytest.raises(BlockingIOError):
            lock_exclusively(first, wait=False)
    with path.open() as third:
        lock_exclusively(third)


def test_fcntl_is_imported_in_one_place() -> None:
    found = []
    for path in PACKAGE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Import) and any(one.name == "fcntl" for one in node.names):
                found.append(path.name)
    assert found == ["file_locks.py"]


@pytest.mark.parametrize("module", ["nearkin.cli.app", "nearkin.__main__"])
def test_command_on_windows_is_refused_in_one_sentence(module: str) -> None:
    code = f"{WINDOWS} import {module}"
    ended = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False
    )
    assert ended.returncode == 2
    assert ended.stderr.startswith("nearkin: nearkin does not run on Windows")
    assert ended.stderr.count("\n") == 1
    assert "WSL 2" in ended.stderr


def test_library_on_windows_is_refused_with_the_reason() -> None:
    code = f"{WINDOWS} import nearkin; import nearkin.runtime.outputs"
    ended = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False
    )
    last = ended.stderr.strip().splitlines()[-1]
    assert last.startswith("nearkin.errors.UsageError: nearkin does not run on Windows")
