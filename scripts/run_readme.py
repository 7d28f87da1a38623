"""Runs the examples of Markdown files: every ```bash and ```python block, in order, in one empty folder for each file.

A block after the comment `<!-- not run: why -->` is left out. A python block that shows results (>>>) is run as a doctest.
Run: python scripts/run_readme.py README.md docs/*.md
"""

import doctest
import os
import re
import subprocess
import sys
import tempfile
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

BLOCK = re.compile(
    r"(?P<skip><!-- not run:[^>]*-->\s*)?^```(?P<kind>bash|python)\n(?P<code>.*?)^```$", re.MULTILINE | re.DOTALL
)

QUIET = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}


def run_block(kind: str, code: str, folder: str, name: str, names: dict[str, object]) -> None:
    """Runs one; names carry over between the doctests of a file.

    Raises CalledProcessError (SystemExit for a doctest) where an example fails.
    """
    environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}
    if kind == "bash":
        subprocess.run(["bash", "-euo", "pipefail", "-c", code], cwd=folder, env=environment, check=True, **QUIET)
    elif ">>>" in code:
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
    else:
        subprocess.run([sys.executable, "-c", code], cwd=folder, env=environment, check=True, **QUIET)


def run_file(path: str) -> str:
    """Runs every block of a file; what to say of it.

    Raises SystemExit where an example fails.
    """
    with tempfile.TemporaryDirectory(prefix="nearkin-readme-") as folder:
        blocks = [found for found in BLOCK.finditer(Path(path).read_text("utf-8")) if not found["skip"]]
        names: dict[str, object] = {}
        for number, found in enumerate(blocks, 1):
            name = f"{path}, block {number}"
            try:
                run_block(found["kind"], found["code"], folder, name, names)
            except subprocess.CalledProcessError as error:
                raise SystemExit(
                    f"{name} failed with exit code {error.returncode}:\n{found['code']}\n{error.stdout.decode()}"
                ) from error
    return f"{path}: {len(blocks)} examples run"


def main(paths: list[str]) -> None:
    """Runs files side by side, two at once; a process each, for examples change the working directory."""
    with ProcessPoolExecutor(2, max_tasks_per_child=1) as pool:
        for told in pool.map(run_file, paths):
            print(told, flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
