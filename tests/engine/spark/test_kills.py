"""A driver of Spark that is killed leaves no incomplete output, and the command can be repeated."""

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from nearkin.cli.app import run
from tests.engine.spark.conftest import CONF
from tests.killing import KILLED

BANDED = ["--threshold", "0.7", "--bands", "20", "--rows", "5"]
SESSION = [
    part
    for name, value in CONF.items()
    if name != "spark.master"
    for part in ("--conf", f"{name}={value}")
]
WHILE_SPARK_WORKS = {
    "a table is written": "*.partial/*/tables/*/_temporary",
    "the fourth table is there": "*.partial/*/tables/003-*",
    "kept documents are written": "*.partial/*/result/kept/*",
    "pairs are written": "*.partial/*/result/pairs.parquet",
}
NO_POINT = str(1 << 40)
"""More file operations than a driver has."""
POINTS = 4
"""The number of points among all file operations of the driver, and of those among the last
ones."""
LAST = 16
"""The number of file operations that publish a result in place of an old one, and a few more."""


def read_result(out: Path) -> dict[str, Any]:
    """Returns the tables, and the bytes of the kept documents."""
    assert json.loads((out / ".nearkin-output.json").read_bytes())["files"] == sorted(
        path.relative_to(out).as_posix()
        for path in out.rglob("*")
        if path.is_file() and path.name != ".nearkin-output.json"
    )
    kept = {path.name: path.read_bytes() for path in (out / "kept").iterdir()}
    names = ("clusters.parquet", "pairs.parquet")
    return {"kept": kept, **{name: pq.read_table(out / name).to_pylist() for name in names}}


def end_driver(folder: Path, point: str, command: list[str]) -> int:
    """Runs a command over Spark in a process that ends at a point, and returns its exit code."""
    program = [sys.executable, "-m", "tests.engine.spark.killed_driver"]
    arguments = [str(folder), str(folder.with_name("log")), point, *command]
    done = subprocess.run(
        [*program, *arguments, "--master", "local[2]", *SESSION],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        check=False,
    )
    assert done.returncode in (0, KILLED), done.stderr
    return done.returncode


def spread_points(total: int) -> list[int]:
    """Returns numbers of operations at which the driver is killed."""
    first = np.linspace(0, total - LAST, POINTS, endpoint=False)
    last = np.linspace(total - LAST, total - 1, POINTS)
    return [round(number) for number in (*first.tolist(), *last.tolist())]


@pytest.mark.full
@pytest.mark.usefixtures("spark")
def test_a_killed_driver_leaves_no_part_of_an_output(code: pa.Table, tmp_path: Path) -> None:
    table = code.select(["id", "text", "package"]).slice(0, 600)
    docs = tmp_path / "docs"
    docs.mkdir()
    pq.write_table(table.slice(0, 300), docs / "one.parquet")
    pq.write_table(table.slice(300), docs / "two.parquet")
    folder = tmp_path / "folder"
    folder.mkdir()
    command = ["dedup", str(docs), "--engine", "spark", "--id", "id", "--quiet"]
    command += ["--out", str(folder / "out")]
    assert run([*command, "--threshold", "0.9"]) == 0
    old = read_result(folder / "out")
    shutil.copytree(folder / "out", tmp_path / "old")
    again = [*command, *BANDED, "--overwrite"]
    assert end_driver(folder, NO_POINT, again) == 0
    new = read_result(folder / "out")
    assert old["clusters.parquet"] != new["clusters.parquet"]
    total = json.loads((tmp_path / "log").read_text())["operations"]
    for point in (*WHILE_SPARK_WORKS.values(), *map(str, spread_points(total))):
        shutil.rmtree(folder / "out")
        is_replaced = point.isdigit()
        if is_replaced:
            shutil.copytree(tmp_path / "old", folder / "out")
        assert end_driver(folder, point, again) == KILLED, point
        if (folder / "out").exists():
            assert read_result(folder / "out") in ((old, new) if is_replaced else (new,)), point
        assert run(again) == 0
        assert read_result(folder / "out") == new, point
        assert [path.name for path in folder.iterdir()] == ["out"], point
