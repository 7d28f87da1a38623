"""Programs that some tests need besides Python: found, or their tests are skipped, or failed where they are required."""

import os
import pwd
import shutil
import signal
import socket
import ssl
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

REQUIRE = "NEARKIN_REQUIRE_SERVICES"
KEY = "00112233445566778899aabbccddeeff\n"
"""Of servers: with a key of chance, a pair at the threshold is found by chance."""


def program(*names: str, folders: str = "") -> str:
    """The path of the first of some programs that is installed; without one the test is skipped, or fails."""
    path = found(*names, folders=folders)
    if path is None:
        reason = f"{names[0]} is not installed (scripts/services.sh does that)"
        if os.environ.get(REQUIRE) == "1":
            pytest.fail(f"{reason}, and {REQUIRE}=1")
        pytest.skip(reason)
    return path


def found(*names: str, folders: str = "") -> str | None:
    """The path of the first of some programs that is installed, in the usual folders or some others (a glob)."""
    others = [str(path) for path in sorted(Path("/").glob(folders))] if folders else []
    where = os.pathsep.join([os.environ["PATH"], *others])
    return next((path for name in names if (path := shutil.which(name, path=where))), None)


def free_port() -> int:
    """A port of the loopback that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def wait_for(port: int, process: "subprocess.Popen[bytes]", seconds: float = 30.0) -> None:
    """Until something listens; an error if the process ends before."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        if process.poll() is not None:
            raise RuntimeError(f"{process.args} ended with {process.returncode}")
        time.sleep(0.05)
    raise TimeoutError(f"nothing listens on port {port}")


def start_redis(folder: Path, port: int, *options: str) -> "subprocess.Popen[bytes]":
    """A Redis that listens."""
    line = [program("redis-server"), "--port", str(port), "--bind", "127.0.0.1", "--dir", str(folder), "--save", "", *options]
    process = subprocess.Popen(line, stdout=subprocess.DEVNULL)
    wait_for(port, process)
    return process


@contextmanager
def redis_server(folder: Path, *options: str) -> Iterator[int]:
    """A Redis of its own on a free port; yields the port."""
    port = free_port()
    process = start_redis(folder, port, *options)
    try:
        yield port
    finally:
        process.terminate()
        process.wait()


def start_serving(
    folder: Path, port: int, *options: str, seconds: float = 120.0, scheme: str = "http"
) -> "subprocess.Popen[bytes]":
    """`nearkin serve` in a folder, ready; its log is the file `log` there."""
    if not (key := folder / "nearkin.key").exists():
        key.touch(0o600)
        key.write_text(KEY)
    line = [sys.executable, "-m", "nearkin", "serve", "--port", str(port), "--log-level", "warning", *options]
    with (folder / "log").open("ab") as log:
        process = subprocess.Popen(line, cwd=folder, stdout=log, stderr=log)
    try:
        wait_for(port, process, seconds)
        until = time.monotonic() + seconds
        while not _is_ready(f"{scheme}://127.0.0.1:{port}"):
            if time.monotonic() > until or process.poll() is not None:
                raise TimeoutError(f"{process.args} is not ready")
            time.sleep(0.05)
    except BaseException:
        process.kill()
        process.wait()
        raise
    return process


def _is_ready(url: str) -> bool:
    # a certificate of a test's own making
    trusting = ssl._create_unverified_context()
    try:
        with urllib.request.urlopen(f"{url}/readyz", timeout=5, context=trusting) as answer:
            return bool(answer.status == 200)
    except urllib.error.URLError:
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
    """A PostgreSQL of its own on a free port, as a user who is not root; yields the port."""
    initdb = program("initdb", folders="usr/lib/postgresql/*/bin")
    data, port = folder / "pg", free_port()
    owner: dict[str, int] = {}
    if os.getuid() == 0:
        user = pwd.getpwnam("nobody")
        owner = {"user": user.pw_uid, "group": user.pw_gid}
        data.mkdir()
        os.chown(data, user.pw_uid, user.pw_gid)
        for parent in folder.parents[:3]:
            parent.chmod(parent.stat().st_mode | 0o055)
        folder.chmod(0o755)
    made = [initdb, "-D", str(data), "-U", "nearkin", "--auth=trust", "-E", "UTF8", "--locale=C", "-N"]
    subprocess.run(made, check=True, capture_output=True, cwd="/", **owner)
    line = [str(Path(initdb).parent / "postgres"), "-D", str(data), "-p", str(port), "-h", "127.0.0.1", "-k", str(data)]
    process = subprocess.Popen(line, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, cwd="/", **owner)
    try:
        wait_for(port, process)
        yield port
    finally:
        process.send_signal(signal.SIGINT)
        process.wait()
