"""Tests of the list of kernels that are compiled in advance."""

import inspect
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from nearkin.runtime.installed_code import describe_types
from nearkin.runtime.kernel_list import USES, ListedKernel, list_kernels

COMMON = """
import json, sys
from pathlib import Path
from scripts.list_kernels import record_calls

def run_common():
    import nearkin as nk
    from nearkin.cli.app import run
    from tests.index.conftest import corpus
    assert run(["demo", "--out", "demo", "--quiet"]) == 0
    texts = corpus(100)
    lines = "".join(json.dumps({"text": text}) + "\\n" for text in [*texts, *texts[:20]])
    Path("texts.jsonl").write_text(lines)
    assert run(["dedup", "texts.jsonl", "--out", "kept", "--quiet"]) == 0
    nk.dedup(texts)
    with nk.Index.open("memory://") as index:
        index.upsert("a", texts[0], "one")
        index.upsert("a", texts[0] + " more", "two")
        index.query("a", texts[0])

print(json.dumps(sorted(record_calls(run_common))))
"""
"""Code that prints the kernels that the first things call which a user does."""


def test_list_has_what_a_demo_a_run_and_an_upsert_call(tmp_path: Path) -> None:
    """Otherwise they would wait for the compiler although compiled kernels are installed."""
    command = [sys.executable, "-c", COMMON]
    root = str(Path(__file__).parents[2])
    ended = subprocess.run(
        command,
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": root},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
    called = {tuple(call) for call in json.loads(ended.stdout.splitlines()[-1])}
    assert called
    listed = {(kernel.name, kernel.types) for kernel in list_kernels()}
    missing = called - listed
    assert not missing, f"run python -m scripts.list_kernels: {missing}"


def test_listed_types_are_those_that_numba_sees() -> None:
    for kernel in list_kernels():
        assert describe_types(kernel.signature) == kernel.types, kernel.name


def test_listed_kernels_have_as_many_parameters() -> None:
    """After a change of parameters, the list must be written again."""
    for kernel in list_kernels():
        parameters = inspect.signature(kernel.dispatcher.py_func).parameters
        assert len(parameters) == len(kernel.signature), kernel.name


@pytest.mark.parametrize("use", USES)
def test_kernels_of_a_use_are_a_part_of_all(use: str) -> None:
    listed = {(kernel.name, kernel.types) for kernel in list_kernels(use)}
    assert listed
    assert listed <= {(kernel.name, kernel.types) for kernel in list_kernels()}


def test_kernel_is_compiled_after_it_was_loaded() -> None:
    kernel = ListedKernel("nearkin.quality.lab.kernels.start_stream", "uint64, uint64, uint64")
    kernel.load()
    assert kernel.is_compiled
