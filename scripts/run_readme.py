"""Runs the examples of Markdown files.

The ```bash and ```python blocks of a file run in order, in one empty folder. Except with --clone,
`nearkin` commands and ```python blocks run in processes that have imported nearkin before (see
prepared_commands.py).

A block after the comment `<!-- not run: why -->` is left out, and one after the comment
`<!-- slow: why -->` too, unless --slow is given. A python block that shows results
(>>>) is run as a doctest. A ```text block that directly follows a ```bash block shows what the
commands print: it is compared without regard to numbers and blanks, and a line `…` in it stands for
any lines. A folder stands for the Markdown files below it.

Run: python scripts/run_readme.py README.md docs            runs the examples and compares their
    output
     python scripts/run_readme.py --write docs/tutorials    runs them and writes the output that
     differs into the pages
     python scripts/run_readme.py --slow docs/tutorials     runs slow examples, too
     python scripts/run_readme.py --clone README.md         runs all blocks literally, those that
     are otherwise left out included: in one shell, in a clone of the repository, without the
     environment that runs this script. --then FILE runs a Python program of the repository at the
     end, in the environment that the page made
"""

import argparse
import contextlib
import doctest
import os
import re
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

BLOCK = re.compile(
    r"(?:<!-- (?P<mark>not run|slow):[^>]*-->\s*)?^```(?P<kind>bash|python)\n(?P<code>.*?)^```$"
    r"(?:\n+```text\n(?P<output>.*?)^```$)?",
    re.MULTILINE | re.DOTALL,
)
NUMBER = re.compile(r"\d[\d.,]*(?:dev\d+)?(?:\+(?:g[0-9a-f]|unknown)[\w.]*)?[.,]*")
"""A number or a version, also of a commit after a release."""
RULED = re.compile(r"[\s━─█]+")
ELISION = "…"
SLOW_LINES = re.compile(
    r"^((?:nearkin: )?Compiling kernels, |nearkin: [A-Z][a-z ]+: \d).*\n",
    re.MULTILINE,
)
"""Lines that only the first command on a machine prints, or only a slow machine."""

ROOT = Path(__file__).parents[1]
SERVER = Path(__file__).with_name("prepared_commands.py")
LONGEST = 600
"""Seconds that a block may take."""
WIDTH = 100
"""Columns of the terminal that the output is formatted for."""


class DifferentOutputError(Exception):
    """Commands print something else than their page shows."""


@dataclass
class PageRun:
    """The state of one page while its examples run.

    Attributes:
        folder: The folder in which the examples run.
        left: Ends what blocks leave running, when the page is done.
        commands: The folder of prepared commands. None runs the real ones.
        names: Names that carry over between the doctests of the page.
    """

    folder: str
    left: ExitStack
    commands: Path | None = None
    names: dict[str, object] = field(default_factory=dict)

    def run(self, kind: str, code: str, name: str) -> str:
        """Runs a block and returns what it printed; a doctest prints nothing.

        Args:
            kind: Language of the block: `bash` or `python`.
            code: Content of the block.
            name: Name of the block, for error messages.

        Raises:
            CalledProcessError: If a command fails or does not end.
            SystemExit: If a doctest shows another result.
        """
        if kind == "bash":
            return self.run_command(["bash", "-euo", "pipefail", "-c", code])
        if ">>>" in code:
            self._run_doctest(code, name)
            return ""
        python = str(self.commands / "python") if self.commands else sys.executable
        return self.run_command([python, "-c", code])

    def run_command(self, line: list[str], variables: dict[str, str] | None = None) -> str:
        """Runs a command in a process group, so that processes it leaves can be ended.

        Args:
            line: The command and its arguments.
            variables: The environment variables. By default those of this process, in which the
                commands of its environment are found.

        Raises:
            CalledProcessError: If the command fails or does not end.
        """
        path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        if self.commands is not None:
            path = f"{self.commands}{os.pathsep}{path}"
        given = {**os.environ, "PATH": path} if variables is None else variables
        environment = {**given, "COLUMNS": str(WIDTH)}
        # a pipe would be waited for as long as a process that is left running has it open
        with tempfile.TemporaryFile() as output:
            process = subprocess.Popen(
                line,
                cwd=self.folder,
                env=environment,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(LONGEST)
            if process.returncode != 0:
                end_group(process.pid)
                process.wait()
            else:
                self.left.callback(end_group, process.pid)
            output.seek(0)
            printed = output.read()
            if process.returncode:
                raise subprocess.CalledProcessError(process.returncode, line, printed)
        return printed.decode("utf-8", "replace")

    def _run_doctest(self, code: str, name: str) -> None:
        runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE)
        before = Path.cwd()
        os.chdir(self.folder)
        try:
            test = doctest.DocTestParser().get_doctest(code, self.names, name, name, 0)
            runner.run(test, clear_globs=False)
            self.names.update(test.globs)
        finally:
            os.chdir(before)
        if runner.failures:
            raise SystemExit(f"{name}: an example shows another result")


@contextlib.contextmanager
def prepared_commands(folder: Path) -> Iterator[Path | None]:
    """Runs a server of commands, and yields the folder of the programs that use it.

    The server needs Linux. Elsewhere, None is yielded, and the real commands run.

    Args:
        folder: An empty folder for the programs and the socket of the server.

    Raises:
        ChildProcessError: If the server does not start.
    """
    if sys.platform != "linux":
        yield None
        return
    socket = folder / "socket"
    for name, condition in (("nearkin", "true"), ("python", '[ "${1-}" = -c ]')):
        program = folder / name
        real = Path(sys.executable).with_name(name)
        line = f"exec '{sys.executable}' -IS '{SERVER}' '{socket}' {name} \"$@\""
        program.write_text(f"#!/bin/sh\n{condition} && {line}\nexec '{real}' \"$@\"\n", "utf-8")
        program.chmod(0o755)
    with subprocess.Popen(
        [sys.executable, SERVER, socket], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as server:
        try:
            if server.stdout is None or not server.stdout.readline():
                raise ChildProcessError("the server of prepared commands does not start")
            yield folder
        finally:
            server.kill()


def end_group(group: int) -> None:
    """Ends the processes that a block left running, for example a server."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(group, signal.SIGKILL)


def comparable(text: str) -> list[str]:
    """Returns the lines of an output without numbers, bars, repeated blanks and empty lines."""
    lines = (RULED.sub(" ", NUMBER.sub("0", line)).strip() for line in text.splitlines())
    return [line for line in lines if line]


def require_same_output(shown: str, printed: str) -> None:
    """Compares an output with the one that a page shows.

    Args:
        shown: The block of the page. A line that is only `…` stands for any lines.
        printed: What the commands printed.

    Raises:
        DifferentOutputError: If they differ in more than numbers and blanks.
    """
    pattern = "".join(
        "(?:.*\n)*?" if line == ELISION else re.escape(line) + "\n" for line in comparable(shown)
    )
    if re.fullmatch(pattern, "".join(line + "\n" for line in comparable(printed))) is None:
        raise DifferentOutputError(f"the page shows\n{shown}\nbut the commands print\n{printed}")


def keep_elisions(shown: str, printed: str) -> str:
    """Returns a new output for a page, shortened where the page shortened the previous one.

    Args:
        shown: The block of the page.
        printed: What the commands printed.
    """
    lines = [line.rstrip() for line in printed.strip("\n").splitlines()]
    if ELISION not in (line.strip() for line in shown.splitlines()):
        return "\n".join(lines) + "\n"
    head: list[str] = []
    tail: list[str] = []
    for line in shown.splitlines():
        (tail if ELISION in tail or line.strip() == ELISION else head).append(line.strip())
    rest = len(tail) - 1
    return (
        "\n".join([*lines[: len(head)], ELISION, *(lines[len(lines) - rest :] if rest else [])])
        + "\n"
    )


def run_file(path: str, *, write: bool, slow: bool = False, commands: Path | None = None) -> str:
    """Runs every block of a file and returns a line that says so.

    Args:
        path: The Markdown file.
        write: Whether an output that differs from the one that the page shows replaces it.
        slow: Whether blocks that are marked as slow run.
        commands: The folder of prepared commands. None runs the real ones.

    Raises:
        SystemExit: If an example fails or prints something else.
    """
    page = Path(path).read_text("utf-8")
    parts: list[str] = []
    end = 0
    count = 0
    with tempfile.TemporaryDirectory(prefix="nearkin-readme-") as folder, ExitStack() as left:
        run = PageRun(folder, left, commands)
        for block in BLOCK.finditer(page):
            if block["mark"] == "not run" or (block["mark"] == "slow" and not slow):
                continue
            count += 1
            name = f"{path}, block {count}"
            try:
                printed = SLOW_LINES.sub("", run.run(block["kind"], block["code"], name))
                if block["output"] is None:
                    continue
                try:
                    require_same_output(block["output"], printed)
                except DifferentOutputError:
                    if not write:
                        raise
                    parts += [
                        page[end : block.start("output")],
                        keep_elisions(block["output"], printed),
                    ]
                    end = block.end("output")
            except subprocess.CalledProcessError as error:
                message = (
                    f"{name} failed with exit code "
                    f"{error.returncode}:\n{block['code']}\n{error.stdout.decode()}"
                )
                raise SystemExit(message) from error
            except DifferentOutputError as error:
                message = (
                    f"{name}: {error}\nif this is right: python scripts/run_readme.py "
                    f"--write {path}"
                )
                raise SystemExit(message) from error
    if parts:
        Path(path).write_text("".join([*parts, page[end:]]), "utf-8")
    return f"{path}: {count} {'example' if count == 1 else 'examples'} run"


def run_from_clone(page: str, repository: Path = ROOT, then: str | None = None) -> str:
    """Runs every block of a page as a reader would who has nothing but a clone.

    The blocks run in order, in one shell in the folder of the clone, so that a virtual environment
    that a block activates stays active. Packages have the versions of constraints.txt.

    Args:
        page: Path of the Markdown file in the repository.
        repository: A Git repository. Its last commit is cloned.
        then: Path of a Python program in the repository that runs at the end, in the virtual
            environment that the page activated, or None.

    Raises:
        SystemExit: If a block fails.
    """
    with tempfile.TemporaryDirectory(prefix="nearkin-clone-") as folder, ExitStack() as left:
        clone = Path(folder) / "clone"
        source = repository.resolve().as_uri()
        subprocess.run(["git", "clone", "--quiet", "--depth", "1", source, clone], check=True)
        blocks = list(BLOCK.finditer((clone / page).read_text("utf-8")))
        commands = [
            _literal_command(block["kind"], block["code"], Path(folder) / f"block-{number}")
            for number, block in enumerate(blocks, 1)
        ]
        if then is not None:
            commands.append(f"python '{clone / then}'")
        script = "\n".join(["set -eo pipefail", *commands])
        run = PageRun(str(clone), left)
        try:
            run.run_command(["bash", "-c", script], _environment_of_reader(clone))
        except subprocess.CalledProcessError as error:
            raise SystemExit(f"{page} from a clone failed:\n{error.stdout.decode()}") from error
    return f"{page}: {len(blocks)} blocks run from a clone"


def _literal_command(kind: str, code: str, file: Path) -> str:
    """Returns the shell command that runs a block. A Python block is written to a file."""
    if kind == "bash":
        return code
    file.write_text(code, "utf-8")
    if ">>>" not in code:
        return f"python '{file}'"
    return f"python -m doctest -o ELLIPSIS -o NORMALIZE_WHITESPACE '{file}'"


def _environment_of_reader(clone: Path) -> dict[str, str]:
    """Returns the environment variables without the virtual environment of this process."""
    hidden = {"PYTHONPATH", "VIRTUAL_ENV", "PYTHONHOME"}
    own_folder = str(Path(sys.executable).parent)
    folders = [one for one in os.environ["PATH"].split(os.pathsep) if one != own_folder]
    return {
        **{name: value for name, value in os.environ.items() if name not in hidden},
        "PATH": os.pathsep.join(folders),
        "PIP_CONSTRAINT": str(clone / "constraints.txt"),
        "PIP_DISABLE_PIP_VERSION_CHECK": "1",
        # Python compiles a module when it is first imported; most modules never are. pip takes the
        # value as that of --compile.
        "PIP_NO_COMPILE": "0",
    }


def find_pages(paths: list[str]) -> Iterator[str]:
    """Yields the Markdown files among the paths and below them, in order."""
    for path in map(Path, paths):
        for page in sorted(path.rglob("*.md")) if path.is_dir() else [path]:
            if "_build" not in page.parts and "_generated" not in page.parts:
                yield str(page)


def main() -> None:
    """Runs two files at once, in a process each.

    Examples change the working directory, so they cannot share a process.
    """
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--write", action="store_true", help="write the output into the pages")
    parser.add_argument("--slow", action="store_true", help="run the slow examples, too")
    parser.add_argument("--clone", action="store_true", help="run the pages literally, in a clone")
    parser.add_argument("--then", help="with --clone, a Python program that runs at the end")
    parser.add_argument("paths", nargs="+", help="Markdown files and folders")
    request = parser.parse_args()
    if request.clone:
        for page in request.paths:
            print(run_from_clone(page, then=request.then))
        return
    failed = 0
    with (
        tempfile.TemporaryDirectory(prefix="nearkin-commands-") as folder,
        prepared_commands(Path(folder)) as commands,
        ProcessPoolExecutor(2, max_tasks_per_child=1) as pool,
    ):
        for future in [
            pool.submit(run_file, page, write=request.write, slow=request.slow, commands=commands)
            for page in find_pages(request.paths)
        ]:
            try:
                print(future.result(), flush=True)
            except SystemExit as error:
                print(error, flush=True)
                failed += 1
    if failed:
        raise SystemExit(f"{failed} pages failed")


if __name__ == "__main__":
    main()
