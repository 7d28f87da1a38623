"""Tests of the modules that the process of a command loads, and of its garbage collector."""

import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from nearkin.runtime.loading import PANDAS
from tests.cli.conftest import run

LOADED = """
import shlex
import sys

for line in sys.argv[1:]:
    from nearkin.cli.app import main

    sys.argv = ["nearkin", *shlex.split(line)]
    try:
        main()
    except SystemExit as ended:
        assert not ended.code, ended.code
    print()
    print("LOADED", *sys.modules)
"""
"""Command lines as `nearkin` runs them. After each, it prints the names of the loaded modules."""
NEVER = {
    "IPython",
    "aiohttp",
    "asyncio",
    "datasets",
    "fastapi",
    "fsspec",
    "httpx",
    "matplotlib",
    "opentelemetry",
    "pandas",
    "plotly",
    "polars",
    "psutil",
    "pyspark",
    "redis",
    "scipy",
    "sklearn",
    "tqdm",
}
"""Libraries that no command over local files uses."""
REPORT = {"jinja2", "nearkin.reports.page", "rapidfuzz"}
TERMINAL = {"rich", "rich.table", "rich.progress"}
SERVICE = {
    "nearkin.index.index",
    "nearkin.service.server",
    "nearkin.service.client",
    "nearkin.spark",
}
COMPILER = {"numba.core.typing.cffi_utils"}
"""A module that Numba imports before it compiles. It is not needed to load machine code."""

FRAME = """
import sys
import pyarrow as pa
from nearkin.cli import app

{run}
print(pa.table({{"a": [1, 2]}}).to_pandas().shape)
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Documents and the output of a run over them. The kernels of the commands are compiled."""
    folder = tmp_path_factory.mktemp("imports")
    rows = [
        {"id": f"d{i}", "text": " ".join(f"w{i // 2}x{j}" for j in range(60)) + f" {i}"}
        for i in range(40)
    ]
    (folder / "docs.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert run("dedup", folder / "docs.jsonl", "--id", "id", "--out", folder / "run", "-q") == 0
    assert run("pairs", folder / "docs.jsonl", "--out", folder / "first.parquet", "-q") == 0
    assert run("lab", "sketch", folder / "docs.jsonl", "--out", folder / "first.arrow", "-q") == 0
    return folder


def run_python(code: str, *arguments: object) -> subprocess.CompletedProcess[str]:
    """Runs code with arguments in a process of its own, which must succeed."""
    line = [sys.executable, "-c", code, *map(str, arguments)]
    ended = subprocess.run(line, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr
    return ended


def loaded_modules(lines: Sequence[str]) -> list[set[str]]:
    """Returns the names of the modules that a process has loaded at the end of each command."""
    output = run_python(LOADED, *lines).stdout.splitlines()
    return [set(line.split()[1:]) for line in output if line.startswith("LOADED ")]


# A process runs several commands. Each may load what those before it have loaded, and more.
@pytest.mark.parametrize(
    "commands",
    [
        {
            "pairs DOCS --out F/pairs.parquet": REPORT | TERMINAL | SERVICE | COMPILER,
            "lab sketch DOCS --out F/new.arrow": REPORT | TERMINAL | SERVICE | COMPILER,
            "info F/run": REPORT | SERVICE | COMPILER,
            "dedup DOCS --id id --out F/out": SERVICE | COMPILER,
            "audit F/run": SERVICE,
            "explain d0 d1 --run F/run": SERVICE - {"nearkin.index.index"},
        },
        {
            "index build DOCS --id id --store sqlite:///F/new.db": REPORT
            | {"nearkin.service.server"}
        },
    ],
    ids=["runs", "index"],
)
def test_commands_load_no_library_that_they_do_not_use(
    folder: Path, commands: dict[str, set[str]]
) -> None:
    lines = [
        line.replace("DOCS", str(folder / "docs.jsonl")).replace("F/", f"{folder}/")
        for line in commands
    ]
    loaded = loaded_modules(lines)
    for line, unused, modules in zip(lines, commands.values(), loaded, strict=True):
        assert "nearkin.cli.app" in modules
        assert (line, modules & (NEVER | unused)) == (line, set())


def test_arrow_makes_data_frames_after_a_command_of_a_library(folder: Path) -> None:
    """A caller of the command line inside a process may use pandas afterwards."""
    words = ["pairs", str(folder / "docs.jsonl"), "--out", str(folder / "called.parquet")]
    assert run_python(FRAME.format(run=f"app.run({words!r})")).stdout == "(2, 1)\n"


def test_arrow_makes_data_frames_in_the_process_of_a_run_on_spark(folder: Path) -> None:
    run = "try:\n    app.main()\nexcept SystemExit as ended:\n    assert ended.code == 2"
    line = ("dedup", folder / "docs.jsonl", "--executor", "spark", "--conf", "wrong", "--out", "x")
    assert run_python(FRAME.format(run=run), *line).stdout == "(2, 1)\n"


def test_process_of_a_command_seldom_collects_garbage_and_not_at_its_end() -> None:
    code = (
        "import gc, sys; from nearkin.cli import app\n"
        "before = gc.get_threshold(); app.run(['--version'])\n"
        "assert (gc.get_threshold(), gc.get_freeze_count()) == (before, 0)\n"
        "try:\n    app.main()\n"
        "except SystemExit: print(gc.get_threshold()[0], gc.get_freeze_count() > 0)"
    )
    lines = run_python(code, "--version").stdout.splitlines()
    assert lines[-1] == "50000 True"


def test_pandas_can_be_imported_after_it_was_hidden_from_arrow() -> None:
    code = (
        "from nearkin.runtime.loading import load_arrow_without_pandas\n"
        "load_arrow_without_pandas()\n"
        f"import sys; print({PANDAS!r} in sys.modules); import pandas; print(pandas.__name__)"
    )
    assert run_python(code).stdout == "False\npandas\n"


def test_arrow_recognizes_frames_if_pandas_was_loaded_before() -> None:
    code = (
        "import pandas; from nearkin.runtime.loading import load_arrow_without_pandas\n"
        "load_arrow_without_pandas(); import pyarrow as pa\n"
        "print(pa.Table.from_pandas(pandas.DataFrame({'a': [1]})).shape)"
    )
    assert run_python(code).stdout == "(1, 1)\n"
