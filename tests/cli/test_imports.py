"""Tests of the modules that the process of a command loads, and of its garbage collector."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from nearkin.runtime.loading import PANDAS
from tests.cli.conftest import run

LOADED = """
import sys
from nearkin.cli.app import main

try:
    main()
except SystemExit as ended:
    assert not ended.code, ended.code
finally:
    print("LOADED", *sys.modules)
"""
"""A command line as `nearkin` runs it. It prints the names of the loaded modules last."""
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
REPORT = {"jinja2", "nearkin.report.page", "rapidfuzz"}
TERMINAL = {"rich", "rich.table", "rich.progress"}
SERVICE = {"nearkin.index.index", "nearkin.server", "nearkin.client", "nearkin.spark"}
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
    return folder


def run_python(code: str, *arguments: object) -> subprocess.CompletedProcess[str]:
    """Runs code with arguments in a process of its own, which must succeed."""
    line = [sys.executable, "-c", code, *map(str, arguments)]
    ended = subprocess.run(line, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr
    return ended


def loaded_modules(*arguments: object) -> set[str]:
    """Returns the names of the modules that the process of a command has loaded at its end."""
    output = run_python(LOADED, *arguments).stdout
    return set(output.rpartition("LOADED")[2].split())


@pytest.mark.parametrize(
    ("line", "unused"),
    [
        ("pairs DOCS --out F/pairs.parquet", REPORT | TERMINAL | SERVICE | COMPILER),
        ("dedup DOCS --id id --out F/out", SERVICE | COMPILER),
        ("sketch DOCS --out F/new.arrow", REPORT | TERMINAL | SERVICE),
        ("info F/run", REPORT | SERVICE | COMPILER),
        ("explain d0 d1 --run F/run", SERVICE - {"nearkin.index.index"}),
        ("audit F/run", SERVICE),
        ("index build DOCS --id id --store sqlite:///F/new.db", REPORT | {"nearkin.server"}),
    ],
    ids=lambda value: " ".join(value.split()[:2]) if isinstance(value, str) else "",
)
def test_command_loads_no_library_that_it_does_not_use(
    folder: Path, line: str, unused: set[str]
) -> None:
    words = line.replace("DOCS", str(folder / "docs.jsonl")).replace("F/", f"{folder}/").split()
    loaded = loaded_modules(*words)
    assert "nearkin.cli.app" in loaded
    assert loaded & (NEVER | unused) == set()


def test_arrow_makes_data_frames_after_a_command_of_a_library(folder: Path) -> None:
    """A caller of the command line inside a process may use pandas afterwards."""
    words = ["pairs", str(folder / "docs.jsonl"), "--out", str(folder / "called.parquet")]
    assert run_python(FRAME.format(run=f"app.run({words!r})")).stdout == "(2, 1)\n"


def test_arrow_makes_data_frames_in_the_process_of_a_run_on_spark(folder: Path) -> None:
    run = "try:\n    app.main()\nexcept SystemExit as ended:\n    assert ended.code == 2"
    line = ("dedup", folder / "docs.jsonl", "--engine", "spark", "--conf", "wrong", "--out", "x")
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
