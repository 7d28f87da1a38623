"""Standard streams that are closed, full or not read."""

import json
import os
import shlex
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from nearkin.cli import app
from nearkin.cli.standard_streams import StandardStream
from nearkin.runtime.compilation import ANNOUNCEMENT
from tests.cli.conftest import run
from tests.prepared_process import prepared_line


@pytest.mark.parametrize(
    "redirected",
    [
        pytest.param("2>&-", marks=pytest.mark.full),
        pytest.param(">&-", marks=pytest.mark.full),
        ">&- 2>&- <&-",
        "| head -c 0",
        "2>&1 >/dev/null | head -c 0",
    ],
)
def test_run_completes_if_its_output_is_not_read(
    redirected: str, documents: Path, tmp_path: Path
) -> None:
    line = f"{sys.executable} -m nearkin dedup {documents} --out {tmp_path}/out --json"
    if redirected.startswith(">&-") or "2>&1" in redirected:
        line = line.removesuffix("--json")
    script = f"set -o pipefail; {line} {redirected}"
    ended = subprocess.run(
        ["bash", "-c", script],
        capture_output=True,
        text=True,
        check=False,
        stdin=subprocess.DEVNULL,
    )
    assert ended.returncode == 0, ended.stderr
    assert "Traceback" not in ended.stderr
    assert "Exception" not in ended.stderr
    assert json.loads((tmp_path / "out" / "run.json").read_bytes())["counts"]["kept"] == 20


def test_full_standard_output_is_an_error(documents: Path, tmp_path: Path) -> None:
    line = prepared_line("nearkin", "dedup", str(documents), "--out", f"{tmp_path}/out", "--json")
    ended = subprocess.run(
        ["bash", "-c", f"{shlex.join(line)} > /dev/full"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == app.FAILED
    # a first command on a machine announces the compilation of kernels
    lines = [line for line in ended.stderr.splitlines() if ANNOUNCEMENT not in line]
    assert lines == ["nearkin: cannot write to standard output: No space left on device"]


def test_result_for_a_closed_standard_output_is_refused(documents: Path) -> None:
    line = f"{sys.executable} -m nearkin dedup {documents} --out - >&-"
    ended = subprocess.run(["bash", "-c", line], capture_output=True, text=True, check=False)
    assert ended.returncode == app.FAILED
    assert ended.stderr == (
        "nearkin: cannot write to standard output: it is closed; open it, or redirect it to a "
        "file\n"
    )


@contextmanager
def closed_stdout(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Replaces standard output as `prepare_streams` does if it is closed."""
    with (
        os.fdopen(os.open(os.devnull, os.O_RDONLY), "w") as stream,
        monkeypatch.context() as patched,
    ):
        patched.setattr(sys, "stdout", StandardStream(stream, needed=True, was_closed=True))
        yield


@pytest.mark.parametrize(
    "line",
    [
        "--version",
        "config show",
        "explain one two",
        "explain one two --json",
        "plan --docs 1M",
        "tune --json",
        "dedup {documents} --out {out} --json",
        "pairs {documents} --out {out} --json",
        "lab sketch {documents} --out {out} --json",
    ],
)
def test_command_fails_if_the_output_that_it_prints_on_is_closed(
    line: str,
    documents: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    out = tmp_path / "out"
    words = [word.format(documents=documents, out=out) for word in line.split()]
    with closed_stdout(monkeypatch):
        assert run(*words) == app.FAILED
    assert capsys.readouterr().err == (
        "nearkin: cannot write to standard output: it is closed; open it, or redirect it to a "
        "file\n"
    )
    assert not out.exists()


@pytest.mark.parametrize("words", ["--help", "explain one two"])
def test_closed_standard_output_of_a_process_is_an_error(words: str) -> None:
    line = f"{sys.executable} -m nearkin {words} >&-"
    ended = subprocess.run(["bash", "-c", line], capture_output=True, text=True, check=False)
    assert ended.returncode == app.FAILED
    assert "cannot write to standard output: it is closed" in ended.stderr
