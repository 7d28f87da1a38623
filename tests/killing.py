"""Runs commands again and again, ended at another file operation each time, then resumed; prints
what went wrong.

A program of its own, so that the forked children start from a process that has loaded everything
and has no other threads: `python -m tests.killing`, with a case as JSON in each line of standard
input. It answers each with a line, so that many cases share what it has loaded.
Operations are seen through Python audit hooks: files opened for writing, renamed, linked, truncated
and deleted, folders made and deleted. Calls of fsync are seen by replacing it. Ending a process by
`os._exit` also drops what it had not flushed.

In a power cut, files also lose what was not synced: they are cut, or zeroed, or gone, by turns.
"""

import contextlib
import hashlib
import io
import json
import os
import select
import shutil
import signal
import sys
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

KILLED = 9
CHANGES = frozenset(
    {"os.rename", "os.remove", "os.mkdir", "os.rmdir", "os.truncate", "os.link", "os.symlink"}
)
WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
UNCOMPARED = frozenset(
    {
        "run.json",
        "passages.json",
        "split.json",
        "report.html",
        "report.json",
        ".nearkin-output.json",
        "checkpoint.json",
        "copies.json",
    }
)
"""Files of a result that hold times and ids of the run, or how often it was checkpointed."""


def absolute(path: str | bytes | os.PathLike[Any]) -> str:
    """Returns the absolute path, as text."""
    return os.fspath(Path(os.fsdecode(path)).absolute())


class Struck:
    """Counts the file operations of this process below a folder, and ends it before one of them.

    Args:
        folder: The folder.
        at: The number of the operation before which the process ends, from 0.
        log: File for the number of operations, and for the files that were synced.
    """

    def __init__(self, folder: Path, at: int, log: Path) -> None:
        self.folder = os.fspath(folder)
        self.at = at
        self.log = log
        self.done = 0
        self.synced: dict[str, int] = {}
        self.active = True

    def install(self) -> None:
        """Starts to count."""
        sys.addaudithook(self._hear)

        def counted(handle: Any) -> None:
            number = handle if isinstance(handle, int) else handle.fileno()
            path = str(Path(f"/proc/self/fd/{number}").readlink())
            self._count(path)
            # the power cut is played, so the disk need not be waited for
            self.synced[path] = os.fstat(number).st_size

        os.fsync = counted

    def _hear(self, event: str, arguments: tuple[Any, ...]) -> None:
        if not self.active:
            return
        if event == "open":
            path, _, flags = arguments
            if isinstance(path, str | bytes | os.PathLike) and (flags or 0) & WRITES:
                self._count(path)
                if (flags or 0) & os.O_TRUNC:
                    self.synced.pop(absolute(path), None)
        elif event in CHANGES:
            self._count(arguments[0])
            if event in ("os.rename", "os.link"):
                self._move(absolute(arguments[0]), absolute(arguments[1]))

    def _move(self, source: str, target: str) -> None:
        for path, size in list(self.synced.items()):
            if path == source or path.startswith(source + "/"):
                self.synced[target + path[len(source) :]] = size

    def _count(self, path: Any) -> None:
        if isinstance(path, int):
            path = Path(f"/proc/self/fd/{path}").readlink()
        if not self.active or not absolute(path).startswith(self.folder):
            return
        if self.done == self.at:
            self.finish(KILLED)
        self.done += 1

    def finish(self, code: int) -> NoReturn:
        """Ends the process and leaves the log."""
        self.active = False
        self.log.write_text(json.dumps({"operations": self.done, "synced": self.synced}))
        os._exit(code)


def in_child(body: Callable[[], int]) -> int:
    """Runs something in a forked child; returns its exit code, or minus a signal.

    A child that hangs is killed. One that does not begin is forked again: Python 3.11 can wait
    inside of a fork for a lock that a thread of a library held in the parent.
    """
    while True:
        began, begins = os.pipe()
        child = os.fork()
        if child == 0:
            code = 70
            try:
                signal.alarm(120)
                os.write(begins, b"begun")
                code = body()
            finally:
                sys.stderr.flush()
                os._exit(code)
        os.close(begins)
        poll = select.poll()
        poll.register(began, select.POLLIN)
        has_begun = poll.poll(30_000)
        os.close(began)
        if has_begun:
            return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)


def lose_unsynced(folder: Path, synced: dict[str, int], way: int) -> None:
    """Does to the files below a folder what a power cut may do to what was not synced."""
    for path in sorted(folder.rglob("*")):
        if not path.is_file() or path.is_symlink():
            continue
        safe, size = synced.get(os.fspath(path), 0), path.stat().st_size
        if safe >= size and os.fspath(path) in synced:
            continue
        if way == 0:
            os.truncate(path, safe)
        elif way == 1:
            content = path.read_bytes()
            path.write_bytes(content[:safe] + bytes(size - safe))
        elif safe == 0:
            path.unlink()
        else:
            os.truncate(path, safe)


def digest_of(out: Path) -> dict[str, str]:
    """Returns the hash of each file of a result."""
    files = [out] if out.is_file() else sorted(path for path in out.rglob("*") if path.is_file())
    return {
        path.relative_to(out.parent).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in files
        if path.name not in UNCOMPARED
    }


@dataclass(frozen=True)
class Expected:
    """The hashes of the files that a command must leave.

    Attributes:
        old: The files of the output before the command.
        new: The files of the output after it.
        everything: All files that the command writes.
    """

    old: dict[str, str]
    new: dict[str, str]
    everything: dict[str, str]


class Trial:
    """One command, to be killed.

    Args:
        case: `line` (OUT stands for the output), `again` (what is added to resume), `before` (a
            command that makes OUT first), `out` (the name of OUT), `made` (the names of all that
            the command writes).
        folder: A folder of its own.
    """

    def __init__(self, case: dict[str, Any], folder: Path) -> None:
        self.case = case
        self.folder = folder
        self.log = folder.with_name(folder.name + ".log")
        self.output = folder.with_name(folder.name + ".output")

    def prepare(self) -> Path:
        """Empties the folder, and makes the old result if there is one; returns the output."""
        shutil.rmtree(self.folder, ignore_errors=True)
        self.folder.mkdir()
        if self.case.get("before"):
            shutil.copytree(self.folder.with_name("old"), self.out)
        return self.out

    @property
    def out(self) -> Path:
        return self.folder / self.case["out"]

    def digest(self) -> dict[str, str]:
        """Returns the hash of each file that the command has written."""
        files: dict[str, str] = {}
        for name in self.case["made"]:
            if (self.folder / name).exists():
                files.update(digest_of(self.folder / name))
        return files

    def run(self, line: list[str], strike: int | None) -> int:
        """Runs a command line in a child, ended before an operation if one is given.

        Returns the exit code.
        """

        def body() -> int:
            from nearkin.cli.app import run

            handle = os.open(self.output, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
            os.dup2(handle, 2)
            os.dup2(handle, 1)
            struck = None
            if strike is not None:
                struck = Struck(self.folder, strike, self.log)
                struck.synced.update(
                    {str(self.out / name): 1 << 40 for name in self.case.get("before_files", [])}
                )
                struck.install()
            try:
                code = run([str(self.out) if word == "OUT" else word for word in line])
            except Exception:  # noqa: BLE001 (a traceback is what the test looks for)
                traceback.print_exc()
                code = 71
            if struck is not None:
                struck.finish(code)
            return code

        return in_child(body)

    def killed_at(self, at: int, power: bool, again: list[str], expected: Expected) -> str | None:
        """Kills the command before an operation, resumes it, and returns what is wrong, or None."""
        out = self.prepare()
        code = self.run(self.case["line"], at)
        if code not in (0, KILLED):
            return f"ended with {code}: {self.output.read_text()[-800:]}"
        log = json.loads(self.log.read_text())
        if power:
            lose_unsynced(self.folder, log["synced"], at % 3)
        if out.exists() and not power and digest_of(out) not in (expected.old, expected.new):
            return "there is neither the old nor the new result"
        if code == 0 and self.digest() != expected.everything:
            return "a finished result did not survive the power cut"
        line = [*self.case["line"], *again]
        if "--overwrite" in line and "--resume" in line:
            # one of the two: there is nothing to resume before the work folder has a manifest
            begun = (out.with_name("out.partial") / "manifest.json").exists()
            line.remove("--overwrite" if begun else "--resume")
        code = self.run(line, None)
        if code != 0:
            return f"resuming ended with {code}: {self.output.read_text()[-1500:]}"
        if self.digest() != expected.everything:
            difference = set(self.digest().items()) ^ set(expected.everything.items())
            return f"another result: {sorted(difference)}"
        left = sorted(path.name for path in self.folder.iterdir())
        return None if left == self.case["made"] else f"left behind: {left}"


def main() -> None:
    """Reads cases and prints their failures as JSON."""
    import nearkin.corpus.corpus as corpora
    from nearkin.engine import sketching

    corpora.BATCH_ROWS = 256
    sketching.SEGMENT_SECONDS = 0.0
    for line in sys.stdin:
        sys.stdout.write(json.dumps(try_points(json.loads(line))) + "\n")
        sys.stdout.flush()


def try_points(case: dict[str, Any]) -> dict[str, Any]:
    """Kills the command of a case at its points.

    Returns how many operations it has, how often it was killed, and what went wrong.
    """
    folder = Path(case["folder"]).resolve()
    case.setdefault("out", "out")
    case.setdefault("made", [case["out"]])
    old: dict[str, str] = {}
    trial = Trial(case, folder / "work")
    if case.get("before"):
        first = Trial({**case, "line": case["before"], "before": None}, folder / "first")
        first.prepare()
        assert first.run(case["before"], None) == 0, first.output.read_text()
        shutil.copytree(first.out, folder / "old")
        case["before_files"] = [
            path.relative_to(first.out).as_posix()
            for path in first.out.rglob("*")
            if path.is_file()
        ]
        old = digest_of_old(folder / "old")
    failure = warm(case["line"], trial.prepare())
    assert not failure, failure
    trial.prepare()
    assert trial.run(case["line"], 1 << 40) == 0, trial.output.read_text()
    total = json.loads(trial.log.read_text())["operations"]
    expected = Expected(old, digest_of(trial.out), trial.digest())
    points = case["points"] or total + 1
    spread = {round(i * total / max(points - 1, 1)) for i in range(points)}
    chosen = sorted(spread | set(range(max(0, total - case["last"]), total)))
    failures = []
    tried = 0
    for number, at in enumerate(chosen):
        for power in (False, True) if case["points"] is None else (number % 2 == 1,):
            for again in (
                case["again"]
                if case["points"] is None
                else [case["again"][number % len(case["again"])]]
            ):
                tried += 1
                if (wrong := trial.killed_at(at, power, again, expected)) is not None:
                    failures.append(
                        {"at": at, "of": total, "power": power, "again": again, "wrong": wrong}
                    )
    return {"operations": total, "tried": tried, "failures": failures}


def warm(line: list[str], out: Path) -> str:
    """Runs a command in this process, so that its children have loaded what it needs.

    Returns what the command says if it fails.
    """
    from nearkin.cli.app import run

    said = io.StringIO()
    with contextlib.redirect_stderr(said), contextlib.redirect_stdout(said):
        code = run([str(out) if word == "OUT" else word for word in line])
    return said.getvalue() if code else ""


def digest_of_old(folder: Path) -> dict[str, str]:
    """Returns the digest of the old result under the name that it will have."""
    return {f"out/{name.partition('/')[2]}": value for name, value in digest_of(folder).items()}


if __name__ == "__main__":
    main()
