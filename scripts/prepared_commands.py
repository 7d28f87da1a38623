"""Runs short commands of nearkin, which is imported once.

Importing nearkin takes most of the time of a command over a few documents. A server imports it, and
each command is a fork of the server. A fork has the arguments, the folder, the environment and the
standard streams of the program that asks for it, and that program ends as the fork does.

There are two programs: `nearkin`, and `python` with the option `-c CODE`. If a variable that has an
effect on imports differs between a program and the server, the program runs the real command.

Run: python scripts/prepared_commands.py SOCKET         the server; it prints a line when it listens
     python scripts/prepared_commands.py SOCKET NAME …  a program with its arguments
"""

import json
import os
import signal
import socket
import sys
from pathlib import Path
from typing import Any, NoReturn

MODULES = (
    "dateutil.relativedelta",
    "nearkin.cli.app",
    "nearkin.cli.options",
    "nearkin.quality.evaluate.audit",
    "nearkin.quality.evaluate.explain",
    "nearkin.index",
    "nearkin.index.stores.sqlite",
    "nearkin.quality.lab.synth",
    "nearkin.quality.plan",
    "nearkin.reports.page",
    "nearkin.reports.terminal.evaluation",
    "nearkin.runs.dedup",
    "nearkin.runs.document_output",
    "nearkin.runs.output",
    "nearkin.runs.pairs",
    "pyarrow.dataset",
    "pydantic.type_adapter",
    "pydantic.types",
)
"""The modules that many commands import and that take long to import."""
READ_AT_IMPORT = ("PYTHON", "NUMBA_", "NEARKIN_CACHE", "LANG", "LC_", "TZ")
"""How the names of environment variables begin that have an effect when modules are imported."""
LONGEST_MESSAGE = 1 << 20


def serve(path: str) -> None:
    """Runs commands until standard input ends. Returns at the end of each command, in its process.

    Args:
        path: The path of the socket.
    """
    from contextlib import suppress
    from importlib import import_module
    from select import select

    for name in MODULES:
        import_module(name)
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    listener.bind(path)
    listener.listen()
    print("ready", flush=True)
    # the end of standard input says that the program which started the server has ended
    while listener in select([listener, sys.stdin], [], [])[0]:
        connection, _ = listener.accept()
        if os.fork() == 0:
            listener.close()
            attend(connection)
            return
        connection.close()
        with suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass


def attend(connection: socket.socket) -> None:
    """Starts a command in a process of its own, and reports its id and its exit code.

    Args:
        connection: The connection to the program. If it is closed, the command is killed.
    """
    from select import select

    message, streams, *_ = socket.recv_fds(connection, LONGEST_MESSAGE, 3)
    request = json.loads(message)
    if variables_of_import(request["environment"]) != variables_of_import(dict(os.environ)):
        os._exit(0)
    command = os.fork()
    if command == 0:
        connection.close()
        become(request, streams)
        return
    for stream in streams:
        os.close(stream)
    connection.send(str(command).encode())
    ended = os.pidfd_open(command)
    if ended in select([ended, connection], [], [])[0]:
        _, status = os.waitpid(command, 0)
        connection.send(str(os.waitstatus_to_exitcode(status)).encode())
    else:
        os.kill(command, signal.SIGKILL)
    os._exit(0)


def variables_of_import(environment: dict[str, str]) -> dict[str, str]:
    """Returns the environment variables that have an effect when modules are imported."""
    return {name: value for name, value in environment.items() if name.startswith(READ_AT_IMPORT)}


def become(request: dict[str, Any], streams: list[int]) -> None:
    """Makes this process the requested command, and runs it.

    Args:
        request: The name of the program, its arguments, its folder and its environment.
        streams: The standard streams.
    """
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
        os.close(stream)
    os.chdir(request["folder"])
    os.environ.clear()
    os.environ.update(request["environment"])
    sys.stdin = os.fdopen(0, closefd=False)
    sys.stdout = os.fdopen(1, "w", closefd=False)
    sys.stderr = os.fdopen(2, "w", errors="backslashreplace", buffering=1, closefd=False)
    sys.argv = [request["name"], *request["arguments"]]
    if request["name"] == "nearkin":
        from nearkin.cli.app import main as run_nearkin

        run_nearkin()
    else:
        option, code, *arguments = request["arguments"]
        sys.argv = [option, *arguments]
        sys.path[0] = ""
        exec(compile(code, "<string>", "exec"), {"__name__": "__main__"})


def request_command(path: str, name: str, arguments: list[str]) -> NoReturn:
    """Lets the server run a command, and ends as it does.

    Args:
        path: The path of the socket of the server.
        name: The name of the program.
        arguments: Its arguments.
    """
    request = {
        "name": name,
        "arguments": arguments,
        "folder": str(Path.cwd()),
        "environment": dict(os.environ),
    }
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    connection.connect(path)
    socket.send_fds(connection, [json.dumps(request).encode()], [0, 1, 2])
    started = connection.recv(LONGEST_MESSAGE)
    if not started:
        real = Path(sys.executable).with_name(name)
        os.execv(real, [str(real), *arguments])
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda received, _: os.kill(int(started), received))
    code = int(connection.recv(LONGEST_MESSAGE))
    if code < 0:
        if -code != signal.SIGKILL:
            signal.signal(-code, signal.SIG_DFL)
        os.kill(os.getpid(), -code)
    sys.exit(code)


if __name__ == "__main__":
    if len(sys.argv) > 2:
        request_command(sys.argv[1], sys.argv[2], sys.argv[3:])
    serve(sys.argv[1])
