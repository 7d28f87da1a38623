"""Tests of the compilation of kernels: it is announced, counted, and is not a part of the work."""

import json
import os
import pty
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from rich.console import Console

from nearkin.reports.progress import TerminalProgress
from nearkin.runtime.compilation import (
    ANNOUNCEMENT,
    COMPILATION,
    CompilationClock,
    CompilationStoppedError,
    Stopwatch,
)
from nearkin.runtime.deadline import Deadline

COMPILE = """
import numpy as np
from nearkin.runtime.compilation import COMPILATION
from nearkin.runtime.jit import kernel


@kernel
def double(values):
    return values * 2


@kernel
def quadruple(values):
    return double(double(values))


quadruple(np.arange(3))
print(COMPILATION.compiled, COMPILATION.seconds > 0)
"""


class Recorder:
    """A listener that records what it receives."""

    def __init__(self) -> None:
        self.started: list[str] = []
        self.finished: list[int] = []

    def start_kernel(self, name: str) -> None:
        self.started.append(name)

    def finish_kernel(self, compiled: int, seconds: float) -> None:
        self.finished.append(compiled)


def test_no_kernel_is_begun_after_a_deadline() -> None:
    now = [0.0]
    clock = CompilationClock()
    with clock.ends_at(Deadline(10.0, lambda: now[0])):
        clock.start("outer")
        now[0] = 10.0
        clock.start("inner")
        clock.finish()
        clock.finish()
        with pytest.raises(CompilationStoppedError):
            clock.start("next")
    clock.start("later")
    clock.finish()
    assert clock.compiled == 3


def test_inner_kernels_are_counted_and_only_outer_ones_are_announced() -> None:
    clock = CompilationClock()
    clock.listener = recorder = Recorder()
    clock.start("outer")
    clock.start("inner")
    clock.finish()
    clock.finish()
    assert recorder.started == ["outer"]
    assert recorder.finished == [1, 2]
    assert clock.seconds >= 0


def test_compilation_is_not_work(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [100.0]
    monkeypatch.setattr("nearkin.runtime.compilation.time.perf_counter", lambda: now[0])
    watch = Stopwatch()
    now[0] += 2.0
    monkeypatch.setattr(COMPILATION, "listener", Recorder())
    before = COMPILATION.compiled
    COMPILATION.start("kernel")
    now[0] += 30.0
    COMPILATION.finish()
    now[0] += 1.0
    assert watch.to_record() == {"seconds": 3.0, "compile_seconds": 30.0}
    assert Stopwatch().to_record() == {"seconds": 0.0}
    assert COMPILATION.compiled == before + 1


def test_kernels_are_counted_once_and_not_when_they_come_from_the_cache(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(COMPILE)
    environment = {**os.environ, "NEARKIN_CACHE_DIR": str(tmp_path / "cache")}
    shown = [
        subprocess.run(
            [sys.executable, script], env=environment, capture_output=True, text=True, check=True
        ).stdout
        for _ in range(2)
    ]
    # Numba compiles functions of its own for the two kernels
    assert int(shown[0].split()[0]) >= 2
    assert shown[0].endswith("True\n")
    assert shown[1] == "0 False\n"


def cut(content: bytes) -> bytes:
    return content[: len(content) // 2]


def flip(content: bytes) -> bytes:
    return content[:40] + bytes([content[40] ^ 1]) + content[41:]


@pytest.fixture(scope="module")
def cached_script(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Returns a script, beside which is the cache that its first run has filled."""
    script = tmp_path_factory.mktemp("cached") / "script.py"
    script.write_text(COMPILE + "print(quadruple(np.arange(3)))")
    run_script(script, script.parent / "cache")
    return script


def run_script(script: Path, cache: Path) -> list[str]:
    """Runs a script with a cache of kernels, and returns the lines that it prints."""
    environment = {**os.environ, "NEARKIN_CACHE_DIR": str(cache)}
    command = [sys.executable, script]
    ended = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    return ended.stdout.splitlines()


def zero(content: bytes) -> bytes:
    return bytes(len(content))


@pytest.mark.parametrize(
    ("damage", "suffix"),
    [
        (cut, ".nbi"),
        (flip, ".nbc"),
        *(
            pytest.param(damage, suffix, marks=pytest.mark.full)
            for damage, suffix in [(cut, ".nbc"), (flip, ".nbi"), (zero, ".nbi"), (zero, ".nbc")]
        ),
    ],
)
def test_damaged_files_of_the_cache_are_compiled_again(
    suffix: str, damage: Callable[[bytes], bytes], cached_script: Path, tmp_path: Path
) -> None:
    cache = tmp_path / "cache"
    shutil.copytree(cached_script.parent / "cache", cache)
    damaged = list(cache.rglob(f"*{suffix}"))
    assert damaged
    for path in damaged:
        path.write_bytes(damage(path.read_bytes()))
    again = run_script(cached_script, cache)
    assert int(again[0].split()[0]) >= 2
    assert again[1] == "[0 4 8]"
    assert run_script(cached_script, cache) == ["0 False", "[0 4 8]"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Returns a folder with a corpus, and an empty cache of kernels."""
    folder = tmp_path_factory.mktemp("compilation")
    # Vectors need a third of the kernels that texts need.
    lines = "".join(f'{{"vector": [{row}, {row % 7}, {row % 5}, 1]}}\n' for row in range(50))
    (folder / "many.jsonl").write_text(lines)
    return folder


def dedup(folder: Path, *options: str) -> subprocess.CompletedProcess[str]:
    line = [sys.executable, "-m", "nearkin", "dedup", "many.jsonl", "--vector", "vector"]
    line += ["--out", "out", "--max-removed", "1", *options]
    variables = {**os.environ, "NEARKIN_CACHE_DIR": str(folder / "cache"), "COLUMNS": "200"}
    return subprocess.run(
        line, cwd=folder, env=variables, capture_output=True, text=True, check=True
    )


@pytest.fixture(scope="module")
def first_run(folder: Path) -> subprocess.CompletedProcess[str]:
    """Returns the first command on a machine, whose run record is kept as first.json."""
    ended = dedup(folder)
    (folder / "first.json").write_bytes((folder / "out" / "run.json").read_bytes())
    return ended


def test_first_command_announces_the_compilation_without_a_terminal(
    folder: Path, first_run: subprocess.CompletedProcess[str]
) -> None:
    assert re.search(f"^nearkin: {ANNOUNCEMENT}: \\w+ ...$", first_run.stderr, re.MULTILINE)
    assert ANNOUNCEMENT not in dedup(folder, "--overwrite").stderr


def read_to_end(terminal: int) -> str:
    """Returns what a closed terminal has shown. One call of read returns at most a page of it."""
    shown = b""
    try:
        while chunk := os.read(terminal, 100_000):
            shown += chunk
    except OSError:  # Linux reports the end of a terminal as an error of input.
        pass
    os.close(terminal)
    return shown.decode()


def test_terminal_shows_the_compilation_as_a_line_with_a_count(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    recorder = Recorder()
    monkeypatch.setattr(COMPILATION, "listener", recorder)
    ours, theirs = pty.openpty()
    with os.fdopen(theirs, "w") as terminal:
        progress = TerminalProgress(Console(file=terminal, force_terminal=True, width=100))
        progress.stage("sketch", total=2)
        COMPILATION.start("kernel")
        COMPILATION.finish()
        progress.advance(2)
        progress.close()
    shown = read_to_end(ours)
    assert ANNOUNCEMENT in shown
    assert f" {COMPILATION.compiled:,} " in shown[shown.rindex(ANNOUNCEMENT) :]
    assert COMPILATION.listener is recorder
    assert recorder.started == []


def test_documents_per_second_leave_the_compilation_out(
    folder: Path, first_run: subprocess.CompletedProcess[str]
) -> None:
    """The stages of a first run record both times, and the summary shows only the work."""
    run = json.loads((folder / "first.json").read_bytes())
    ended = first_run
    compiling = sum(stage.get("compile_seconds", 0.0) for stage in run["stages"].values())
    working = sum(stage["seconds"] for stage in run["stages"].values())
    assert compiling > 0
    assert run["seconds"] == pytest.approx(working, abs=0.001)
    shown = re.search(r"([\d.]+) s, ([\d,]+) documents/s", ended.stderr)
    assert shown is not None, ended.stderr
    assert float(shown[1]) == pytest.approx(working, abs=0.006)
    assert int(shown[2].replace(",", "")) == pytest.approx(50 / working, abs=1)


def test_server_logs_the_compilation_as_json() -> None:
    """A line of the command line among the logs of a server could not be parsed."""
    code = (
        "from nearkin.cli.compilation import CompilationLines; "
        "from nearkin.runtime.compilation import COMPILATION; "
        "from nearkin.service.server.logs import configure_logging; "
        "COMPILATION.listener = CompilationLines(); configure_logging('info'); "
        "COMPILATION.start('kernel'); COMPILATION.finish()"
    )
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    (line,) = ended.stderr.splitlines()
    assert json.loads(line)["message"] == ANNOUNCEMENT
