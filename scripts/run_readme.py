"""Runs the examples of Markdown files: every ```bash and ```python block, in order, in one empty folder for each file.

A block after the comment `<!-- not run: why -->` is left out. A python block that shows results (>>>) is run as a doctest.
A folder stands for the Markdown files below it, without those of a built site.
Run: python scripts/run_readme.py README.md docs
"""

import contextlib
import doctest
import os
import re
import signal
import subprocess
import sys
import tempfile
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack
from pathlib import Path

BLOCK = re.compile(
    r"(?P<skip><!-- not run:[^>]*-->\s*)?^```(?P<kind>bash|python)\n(?P<code>.*?)^```$", re.MULTILINE | re.DOTALL
)

LONGEST = 600
"""Seconds that a block may take."""


def run_apart(line: list[str], folder: str) -> int:
    """Runs a command in a process group of its own, whose number it returns; what it leaves running is in that group.

    Raises CalledProcessError with what it wrote where it fails, or does not end.
    """
    environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}
    # a file, for a pipe would be waited for as long as what is left running has it open
    with tempfile.TemporaryFile() as told:
        process = subprocess.Popen(line, cwd=folder, env=environment, stdout=told, stderr=told, start_new_session=True)
        try:
            process.wait(LONGEST)
        except subprocess.TimeoutExpired:
            end_group(process.pid)
            process.wait()
        if process.returncode:
            end_group(process.pid)
            told.seek(0)
            raise subprocess.CalledProcessError(process.returncode, line, told.read())
    return process.pid


def end_group(group: int) -> None:
    """Ends what a block left running, a server say."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(group, signal.SIGKILL)


def run_block(kind: str, code: str, folder: str, name: str, names: dict[str, object]) -> int | None:
    """Runs one; names carry over between the doctests of a file. Returns the process group of one that was run apart.

    Raises CalledProcessError (SystemExit for a doctest) where an example fails.
    """
    if kind == "bash":
        return run_apart(["bash", "-euo", "pipefail", "-c", code], folder)
    if ">>>" in code:
        runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE)
        before = Path.cwd()
        os.chdir(folder)
        try:
            test = doctest.DocTestParser().get_doctest(code, names, name, name, 0)
            runner.run(test, clear_globs=False)
            names.update(test.globs)
        finally:
            os.chdir(before)
        if runner.failures:
            raise SystemExit(f"{name}: an example shows another result")
        return None
    return run_apart([sys.executable, "-c", code], folder)


def run_file(path: str) -> str:
    """Runs every block of a file; what to say of it.

    Raises SystemExit where an example fails.
    """
    with tempfile.TemporaryDirectory(prefix="nearkin-readme-") as folder, ExitStack() as left:
        blocks = [found for found in BLOCK.finditer(Path(path).read_text("utf-8")) if not found["skip"]]
        names: dict[str, object] = {}
        for number, found in enumerate(blocks, 1):
            name = f"{path}, block {number}"
            try:
                group = run_block(found["kind"], found["code"], folder, name, names)
                if group is not None:
                    left.callback(end_group, group)
            except subprocess.CalledProcessError as error:
                raise SystemExit(
                    f"{name} failed with exit code {error.returncode}:\n{found['code']}\n{error.stdout.decode()}"
                ) from error
    return f"{path}: {len(blocks)} examples run"


def find_pages(paths: list[str]) -> list[str]:
    """Returns the Markdown files that are named, and those below the folders that are named, in order."""
    pages = []
    for path in map(Path, paths):
        below = sorted(path.rglob("*.md")) if path.is_dir() else [path]
        pages += [str(page) for page in below if "_build" not in page.parts and "_generated" not in page.parts]
    return pages


def main(paths: list[str]) -> None:
    """Runs files side by side, two at once, in a process each, because examples change the working directory."""
    with ProcessPoolExecutor(2, max_tasks_per_child=1) as pool:
        for told in pool.map(run_file, find_pages(paths)):
            print(told, flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
