"""Prints measures of the code of the package: names, lengths, documentation, imports and calls.

The measures are symptoms, not targets. docs/contributing/design.md compares them with earlier ones.
Run it as `python scripts/code_measures.py [ROOT]`, where ROOT is a checkout (default: this one).
"""

import ast
import collections
import json
import os
import subprocess
import sys
import tempfile
import textwrap
from collections.abc import Iterator
from pathlib import Path

FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
SHORT_BODY = 3
"""The number of lines of a short body."""
IMPORTS = """
    import sys
    import nearkin.index.index
    print(sum(
        name.startswith("nearkin.") and not hasattr(module, "__path__")
        for name, module in sys.modules.items()
    ))
"""
CALLS = """
    import inspect, json, sys, threading
    from pathlib import Path
    import nearkin
    from nearkin.cli import app
    package = str(Path(nearkin.__file__).parent)
    files = set()
    counts = {"Settings": 0, "RunOptions": 0, "Documents": 0, "FileCorpus": 0}
    BUILT = {
        "Settings.__post_init__",
        "RunOptions.__post_init__",
        "Documents.__init__",
        "FileCorpus.__init__",
    }

    def record(frame, event, argument):
        code = frame.f_code
        # The bodies of modules and classes, which run at import, have no optimized locals.
        is_function = code.co_flags & inspect.CO_OPTIMIZED
        if event != "call" or not is_function or not code.co_filename.startswith(package):
            return
        files.add(code.co_filename)
        if code.co_qualname in BUILT:
            counts[code.co_qualname.partition(".")[0]] += 1

    threading.setprofile(record)
    sys.setprofile(record)
    app.run(["dedup", "in.jsonl", "--out", "out"])
    sys.setprofile(None)
    print(json.dumps({"files": len(files), **counts}))
"""


def iterate_trees(root: Path) -> Iterator[tuple[str, ast.Module]]:
    """Yields the source and the syntax tree of every module of the package."""
    for path in sorted((root / "nearkin").rglob("*.py")):
        source = path.read_text("utf-8")
        yield source, ast.parse(source)


def has_short_body(function: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    """Returns True if the body without its docstring has at most SHORT_BODY lines."""
    body = function.body
    if ast.get_docstring(function) is not None:
        body = body[1:]
    if not body:
        return False
    return (body[-1].end_lineno or 0) - body[0].lineno < SHORT_BODY


def measure_source(root: Path) -> dict[str, str]:
    """Returns the measures of the source, by name."""
    counts: collections.Counter[str] = collections.Counter()
    class_names: collections.Counter[str] = collections.Counter()
    for source, tree in iterate_trees(root):
        counts["lines"] += source.count("\n")
        counts["dictionaries"] += source.count("dict[str, Any]")
        for node in ast.walk(tree):
            if isinstance(node, FUNCTIONS):
                counts["functions"] += 1
                counts["one word"] += "_" not in node.name.strip("_")
                counts["short"] += has_short_body(node)
            elif isinstance(node, ast.ClassDef):
                class_names[node.name] += 1
            elif isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Tuple):
                counts["parallel"] += len(node.targets[0].elts) > 2
            elif isinstance(node, ast.IfExp):
                counts["conditional"] += 1
    thousands = counts["lines"] / 1000
    functions = counts["functions"]
    return {
        "lines": f"{counts['lines']:,}",
        "functions per 1,000 lines": f"{functions / thousands:.0f}",
        "function names of one word": f"{counts['one word'] / functions:.0%}",
        "bodies of three lines or fewer": f"{counts['short'] / functions:.0%}",
        "assignments of more than two targets per 1,000 lines": (
            f"{counts['parallel'] / thousands:.1f}"
        ),
        "conditional expressions per 1,000 lines": f"{counts['conditional'] / thousands:.1f}",
        "class names used twice": f"{sum(count > 1 for count in class_names.values())}",
        "`dict[str, Any]`": f"{counts['dictionaries']}",
    }


def run_code(code: str, root: Path, folder: Path) -> str:
    """Runs Python code with the package of a checkout. Returns what it prints.

    Args:
        code: Python code, indented as a whole or not.
        root: Checkout whose package is imported.
        folder: Current folder of the process.
    """
    environment = {**os.environ, "PYTHONPATH": str(root)}
    command = [sys.executable, "-c", textwrap.dedent(code)]
    done = subprocess.run(
        command, cwd=folder, env=environment, check=True, capture_output=True, text=True
    )
    return done.stdout.splitlines()[-1]


def measure_runs(root: Path, folder: Path) -> dict[str, str]:
    """Returns the measures of importing the index and of a small run, by name.

    Args:
        root: Checkout whose package is imported.
        folder: Empty folder for the run.
    """
    rows = [{"text": f"one two three four {i // 2}"} for i in range(4)]
    (folder / "in.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    calls = json.loads(run_code(CALLS, root, folder))
    return {
        "modules reached by importing `nearkin.index.index`": run_code(IMPORTS, root, folder),
        "files entered by a dedup of four rows": str(calls["files"]),
        "`RunOptions` (once `Settings`) built by it": str(calls["RunOptions"] + calls["Settings"]),
        "`Documents` opened by it": str(calls["Documents"]),
        "`FileCorpus` opened by it": str(calls["FileCorpus"]),
    }


def main() -> None:
    """Prints all measures as rows of a Markdown table."""
    root = Path(sys.argv[1] if len(sys.argv) > 1 else Path(__file__).parents[1]).resolve()
    with tempfile.TemporaryDirectory() as folder:
        measures = {**measure_source(root), **measure_runs(root, Path(folder))}
    for name, value in measures.items():
        print(f"| {name} | {value} |")


if __name__ == "__main__":
    main()
