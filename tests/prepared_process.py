"""Commands of nearkin as processes that are forked from one that has imported it.

Importing nearkin and loading its kernels takes more than a second of processor time. A command that
is started here differs from `python -m nearkin` in that only: it has arguments, a folder, an
environment and standard streams of its own. See scripts/prepared_commands.py.

Run: python -m tests.prepared_process SOCKET        the server that the commands are forked from
"""

import atexit
import json
import os
import select
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import IO

from scripts import prepared_commands
from scripts.prepared_commands import LONGEST_MESSAGE, serve

ROOT = Path(__file__).parents[1]
MODULES = (
    "nearkin.service.server.console.mount",
    "nearkin.service.server.processes",
    "tests.index.loaded_kernels",
)
"""The modules that the server imports in addition to those of all prepared commands."""


class PreparedProcess:
    """A running command, with the attributes and methods of `subprocess.Popen` that tests use.

    Args:
        connection: The connection to the server. The first message is the id of the process, the
            second one its exit code.
        pid: The id of the process.
        args: The command line.
    """

    def __init__(self, connection: socket.socket, pid: int, args: list[str]) -> None:
        self._connection = connection
        self.pid = pid
        self.args = args
        self.returncode: int | None = None

    def poll(self) -> int | None:
        """Returns the exit code, or None while the process is running."""
        if self.returncode is None and self._has_ended(0):
            self.wait()
        return self.returncode

    def _has_ended(self, seconds: float | None) -> bool:
        """Waits some seconds for the end of the process, or for ever, and returns whether it came.

        `select.select` fails in a process that has opened a thousand files.
        """
        poll = select.poll()
        poll.register(self._connection, select.POLLIN)
        return bool(poll.poll(None if seconds is None else seconds * 1000))

    def wait(self, timeout: float | None = None) -> int:
        """Waits until the process has ended, and returns its exit code.

        Raises:
            TimeoutExpired: If the process is still running after some seconds.
        """
        if self.returncode is None:
            if not self._has_ended(timeout):
                raise subprocess.TimeoutExpired(self.args, timeout or 0.0)
            self.returncode = int(self._connection.recv(LONGEST_MESSAGE))
            self._connection.close()
        return self.returncode

    def send_signal(self, number: int) -> None:
        """Sends a signal to the process, unless it has ended."""
        if self.poll() is None:
            os.kill(self.pid, number)

    def terminate(self) -> None:
        """Asks the process to end."""
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        """Ends the process at once."""
        self.send_signal(signal.SIGKILL)


@cache
def prepared_socket() -> str:
    """Returns the path of the socket of a server, which ends with this process."""
    folder = tempfile.mkdtemp(prefix="nearkin-prepared-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    path = f"{folder}/socket"
    line = [sys.executable, "-m", __spec__.name, path]
    server = subprocess.Popen(line, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    SERVERS.append(server)
    if server.stdout is None or not server.stdout.readline():
        raise ChildProcessError("the server of prepared commands does not start")
    return path


SERVERS: list["subprocess.Popen[bytes]"] = []
"""The server of this process. It runs as long as its standard input is open."""


def prepared_line(program: str, *arguments: str) -> list[str]:
    """Returns the command line of a program that a prepared process runs.

    Args:
        program: `nearkin`, or `python` with the option `-c CODE`.
        *arguments: The arguments of the program.
    """
    server = Path(prepared_commands.__file__)
    return [sys.executable, "-IS", str(server), prepared_socket(), program, *arguments]


def start_nearkin(
    arguments: list[str],
    output: IO[bytes],
    env: dict[str, str] | None = None,
    cwd: Path | None = None,
) -> "PreparedProcess | subprocess.Popen[bytes]":
    """Starts a command of nearkin.

    Args:
        arguments: The arguments after the name of the program.
        output: A file to which standard output and standard error are written.
        env: The environment variables. By default those of this process.
        cwd: The current folder. By default that of this process.

    Returns:
        The process. It is one of its own if the environment changes what is imported.
    """
    line = [sys.executable, "-m", "nearkin", *arguments]
    request = {
        "name": "nearkin",
        "arguments": arguments,
        "folder": str((cwd or Path()).absolute()),
        "environment": dict(os.environ if env is None else env),
    }
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    connection.connect(prepared_socket())
    streams = [0, output.fileno(), output.fileno()]
    socket.send_fds(connection, [json.dumps(request).encode()], streams)
    started = connection.recv(LONGEST_MESSAGE)
    if not started:
        connection.close()
        return subprocess.Popen(line, stdout=output, stderr=output, env=env, cwd=cwd)
    return PreparedProcess(connection, int(started), line)


if __name__ == "__main__":
    for name in MODULES:
        import_module(name)
    serve(sys.argv[1])
