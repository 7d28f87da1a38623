"""A corpus and the command line for tests of commands."""

import json
import os
import stat
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from nearkin.cli import app
from tests.prepared_process import prepared_line

SECRET = "xylophone"
"""A word of every text of `documents`."""


def nearkin(*arguments: object, code: int = 0) -> subprocess.CompletedProcess[str]:
    """Runs a command as a process of its own, and checks its exit code.

    Args:
        *arguments: The arguments after the name of the program.
        code: The expected exit code.

    Returns:
        The process that has ended, with its output.
    """
    line = prepared_line("nearkin", *map(str, arguments))
    ended = subprocess.run(line, capture_output=True, text=True, check=False)
    assert ended.returncode == code, ended.stderr
    assert "Traceback" not in ended.stderr
    return ended


def run(*arguments: object) -> int:
    """Runs a command in this process, and returns its exit code."""
    return app.run(list(map(str, arguments)))


def modes(*paths: Path) -> dict[str, int]:
    """Returns the permissions of folders and of everything below them, by path."""
    below = (path for folder in paths for path in folder.rglob("*"))
    return {str(path): stat.S_IMODE(path.stat().st_mode) for path in (*paths, *below)}


@pytest.fixture(scope="session")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A generated corpus in two files, with 12 hostile documents."""
    folder = tmp_path_factory.mktemp("cli") / "corpus"
    options = ("--documents", 6000, "--length", "fixed:400", "--files", 2, "--hostile", 12)
    nearkin("lab", "synth", *options, "--out", folder)
    return folder


@pytest.fixture
def documents(tmp_path: Path) -> Path:
    """Documents in near-duplicate pairs, and a row that is not valid JSON.

    Each text contains SECRET, which must not occur in records of a run.
    """
    path = tmp_path / "in" / "documents.jsonl"
    path.parent.mkdir()
    words = [" ".join(f"{SECRET}{i // 2}x{j}" for j in range(60)) + f" {i}" for i in range(40)]
    rows = [{"id": f"d{i}", "text": text, "source": f"s{i % 3}"} for i, text in enumerate(words)]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows) + f'{{"text": "{SECRET}\n')
    return path


@pytest.fixture
def shared_umask() -> Iterator[None]:
    """Sets the usual umask of users, with which everyone can read new files."""
    previous = os.umask(0o022)
    yield
    os.umask(previous)
