"""Programs that some tests need besides Python: found, or their tests are skipped, or failed where
they are required.

Every server that a test starts writes a log file, and a test that fails prints the ends of these
files (tests/conftest.py). Tests wait for conditions with `wait_until`, whose time limits grow with
a measured factor on a slow or busy machine.
"""

import os
import pwd
import shutil
import signal
import socket
import ssl
import subprocess
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.prepared_process import PreparedProcess, start_nearkin

REQUIRE = "NEARKIN_REQUIRE_SERVICES"
Process = subprocess.Popen[Any] | PreparedProcess
KEY = "00112233445566778899aabbccddeeff\n"
"""Of servers: with a key of chance, a pair at the threshold is found by chance."""


def program(*names: str, folders: str = "") -> str:
    """The path of the first of some programs that is installed.

    Without one the test is skipped, or fails.
    """
    path = found(*names, folders=folders)
    if path is None:
        reason = f"{names[0]} is not installed (scripts/services.sh does that)"
        if os.environ.get(REQUIRE) == "1":
            pytest.fail(f"{reason}, and {REQUIRE}=1")
        pytest.skip(reason)
    return path


def found(*names: str, folders: str = "") -> str | None:
    """The path of the first of some programs that is installed, in the usual folders or some
    others (a glob)."""
    others = [str(path) for path in sorted(Path("/").glob(folders))] if folders else []
    where = os.pathsep.join([os.environ["PATH"], *others])
    return next((path for name in names if (path := shutil.which(name, path=where))), None)


def free_port() -> int:
    """A port of the loopback that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


WORK = 200_000
"""Rounds of the loop that `slowness` times."""
IDLE_SECONDS = 0.02
"""Time of that loop on an idle core of the slowest machine that the time limits were chosen for."""
LOG_TAIL = 4_000
"""Characters of a server's log that are shown when a test fails."""

LOGS: dict[Path, str] = {}
"""Log files of the servers started by this process, with what each server is."""


def slowness() -> float:
    """Measures how many times slower than an idle reference machine this one is at the moment.

    At least 1.
    """
    began = time.monotonic()
    total = 0
    for number in range(WORK):
        total += number & 3
    return max(1.0, (time.monotonic() - began) / IDLE_SECONDS)


def wait_until(
    condition: Callable[[], object],
    what: str,
    seconds: float = 60.0,
    process: Process | None = None,
) -> None:
    """Waits until a condition holds.

    Args:
        condition: Called again and again until it returns something true.
        what: The condition in words, for the error.
        seconds: Time limit on an idle machine. When it is over, it is multiplied by the measured
            `slowness`.
        process: A process that must stay alive meanwhile.

    Raises:
        RuntimeError: If the process ends first.
        TimeoutError: If the time is over. The logs of servers are printed with the test's failure.
    """
    began, limit = time.monotonic(), seconds
    while not condition():
        if process is not None and process.poll() is not None:
            raise RuntimeError(f"{process.args} ended with {process.returncode} before {what}")
        if time.monotonic() - began > limit:
            limit = max(limit, seconds * slowness())
            if time.monotonic() - began > limit:
                raise TimeoutError(f"not after {limit:.0f} s: {what}")
        time.sleep(0.02)


def log_tails() -> list[tuple[str, str]]:
    """Returns (server, end of its log) for the servers started by this process whose logs still
    exist."""
    tails = []
    for path, server in LOGS.items():
        if path.is_file():
            text = path.read_text("utf-8", "replace")
            tails.append((f"{server}, {path.name}", text[-LOG_TAIL:]))
    return tails


def start_process(
    line: list[str],
    log: Path,
    env: dict[str, str] | None = None,
    cwd: Path | None = None,
    owner: dict[str, int] | None = None,
) -> "subprocess.Popen[bytes]":
    """Starts a server whose output is appended to a log file."""
    LOGS[log] = " ".join(Path(part).name for part in line[:4])
    with log.open("ab") as out:
        return subprocess.Popen(line, stdout=out, stderr=out, cwd=cwd, env=env, **(owner or {}))


def wait_for(port: int, process: Process, seconds: float = 60.0) -> None:
    """Waits until something listens on a port; raises if the process ends before."""

    def listens() -> bool:
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", port)) == 0

    wait_until(listens, f"something listens on port {port}", seconds, process)


def start_redis(folder: Path, port: int, *options: str) -> "subprocess.Popen[bytes]":
    """A Redis that listens."""
    line = [
        program("redis-server"),
        "--port",
        str(port),
        "--bind",
        "127.0.0.1",
        "--dir",
        str(folder),
        "--save",
        "",
        *options,
    ]
    process = start_process(line, folder / "redis.log")
    wait_for(port, process)
    return process


@contextmanager
def redis_server(folder: Path, *options: str) -> Iterator[int]:
    """A Redis of its own on a free port; yields the port."""
    folder.mkdir(exist_ok=True)
    port = free_port()
    process = start_redis(folder, port, *options)
    try:
        yield port
    finally:
        process.terminate()
        process.wait()


def write_key(path: Path) -> None:
    """Writes the key of the servers of tests into a file, unless it exists."""
    if not path.exists():
        path.touch(0o600)
        path.write_text(KEY)


def start_serving(
    folder: Path, port: int, *options: str, seconds: float = 120.0, scheme: str = "http"
) -> Process:
    """`nearkin serve` in a folder, ready; its log is the file `log` there."""
    write_key(folder / "nearkin.key")
    arguments = ["serve", "--port", str(port), "--log-level", "warning", *options]
    log = folder / "log"
    LOGS[log] = "nearkin serve"
    with log.open("ab") as out:
        process = start_nearkin(arguments, out, cwd=folder)
    try:
        wait_for(port, process, seconds)
        wait_until(
            lambda: _is_ready(f"{scheme}://127.0.0.1:{port}"),
            "the server is ready",
            seconds,
            process,
        )
    except BaseException:
        process.kill()
        process.wait()
        raise
    return process


def _is_ready(url: str) -> bool:
    # a certificate of a test's own making
    trusting = ssl._create_unverified_context()
    try:
        with urllib.request.urlopen(f"{url}/readyz", timeout=60, context=trusting) as answer:
            return bool(answer.status == 200)
    except (urllib.error.URLError, TimeoutError, ConnectionError):
        return False


@contextmanager
def nearkin_server(folder: Path, *options: str) -> Iterator[str]:
    """A server of its own on a free port; yields its address."""
    port = free_port()
    process = start_serving(folder, port, *options)
    try:
        yield f"http://127.0.0.1:{port}"
    finally:
        process.terminate()
        process.wait()


@contextmanager
def postgres_server(folder: Path) -> Iterator[int]:
    """A PostgreSQL of its own on a free port, as a user who is not root; yields the port.

    Its data is not in pytest's folders: the next session of the same user makes those private
    again, and a server of another user that runs in one of them loses its files.
    """
    initdb = program("initdb", folders="usr/lib/postgresql/*/bin")
    port = free_port()
    home = Path(tempfile.mkdtemp(prefix="nearkin-postgres-", dir="/tmp"))
    data = home / "pg"
    owner: dict[str, int] = {}
    if os.getuid() == 0:
        user = pwd.getpwnam("nobody")
        owner = {"user": user.pw_uid, "group": user.pw_gid}
        os.chown(home, user.pw_uid, user.pw_gid)
    made = [
        initdb,
        "-D",
        str(data),
        "-U",
        "nearkin",
        "--auth=trust",
        "-E",
        "UTF8",
        "--locale=C",
        "-N",
    ]
    subprocess.run(made, check=True, capture_output=True, cwd="/", **owner)
    # -F: a killed server keeps what it wrote, only a power cut would not; stalls of a busy disk do
    # not stop the tests
    line = [
        str(Path(initdb).parent / "postgres"),
        "-F",
        "-D",
        str(data),
        "-p",
        str(port),
        "-h",
        "127.0.0.1",
        "-k",
        str(data),
    ]
    process = start_process(line, folder / "postgres.log", cwd=Path("/"), owner=owner)
    try:
        wait_for(port, process)
        wait_until(lambda: _accepts(port), "PostgreSQL accepts connections", process=process)
        yield port
    finally:
        process.send_signal(signal.SIGINT)
        process.wait()
        shutil.rmtree(home)


def _accepts(port: int) -> bool:
    """Returns whether PostgreSQL accepts queries; it listens earlier."""
    ready = [
        program("pg_isready", folders="usr/lib/postgresql/*/bin"),
        "-q",
        "-h",
        "127.0.0.1",
        "-p",
        str(port),
    ]
    return subprocess.run(ready, check=False).returncode == 0
