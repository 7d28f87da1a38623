"""Checks of programs that use nearkin, by type checkers."""

import json
import os
import subprocess
import sys
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

import nearkin as nk
from nearkin.index.settings import IndexSettings, SettingsFields
from nearkin.quality.plan.workload import Workload, WorkloadKeywords
from nearkin.settings.spec import Spec, SpecKeywords

ROOT = Path(nk.__file__).parents[1]
CORRECT = """
import nearkin as nk

result: nk.results.DedupResult = nk.dedup(["one two three", "One two three"], threshold=0.7)
table: nk.results.ResultTable = result.clusters
found: nk.results.PairsResult = nk.pairs(["one two three"], threshold=0.7)
spec: nk.Spec = nk.Spec.for_shingle("words:2", k=64)
rows: int = len(nk.sketch(["one two three"], spec))
plan: nk.results.Plan = nk.plan(1_000_000, threshold=0.8)
try:
    with nk.Index.open("memory://", spec, threshold=0.5, bucket_capacity=100) as index:
        outcome: nk.index_types.Outcome = index.upsert("scope", "one two three")
        if outcome.kind == nk.index_types.OutcomeKind.NEW:
            print(outcome.representative)
        matches: list[nk.index_types.Match] = index.query("scope", "one two three")
        cluster: nk.index_types.Cluster | None = index.cluster("scope", "a")
        entry: nk.index_types.Entry | None = index.get("scope", "a")
except nk.StoreError as error:
    print(error)


async def upsert(url: str) -> nk.index_types.Outcome:
    async with await nk.AsyncIndex.open(url, threshold=0.5, probes=1) as index:
        return await index.upsert("scope", "one two three")
"""
WRONG = """
import nearkin as nk

nk.dedup(["a"], tresh=0.7)
nk.pairs(["a"], mesure="jaccard")
nk.Index.open("memory://", bucket_size=3)
nk.AsyncIndex.open("memory://", bucket_size=3)
nk.Spec.for_shingle("words:3", seeds=3)
nk.plan(100, treshold=0.8)
nk.dedupe(["a"])
nk.dedup(["a"], threshold="0.7")
"""
WRONG_LINES = list(range(4, 12))


@pytest.fixture
def programs(tmp_path: Path) -> Path:
    (tmp_path / "correct.py").write_text(CORRECT)
    (tmp_path / "wrong.py").write_text(WRONG)
    return tmp_path


def run_checker(command: list[str], folder: Path) -> str:
    environment = os.environ | {"MYPYPATH": str(ROOT), "PYRIGHT_PYTHON_IGNORE_WARNINGS": "1"}
    completed = subprocess.run(
        [sys.executable, "-m", *command],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert completed.returncode in (0, 1), completed.stderr
    return completed.stdout


def test_mypy_strict_accepts_public_names_and_rejects_misspelt_keywords(programs: Path) -> None:
    command = ["mypy", "--no-error-summary", "--no-pretty"]
    # with the settings (strict) and the cache of `make types`, the package is not checked again;
    # `--strict` beside them would switch on what they switch off, in the package too
    command += ["--config-file", str(ROOT / "pyproject.toml")]
    command += ["--cache-dir", str(ROOT / ".mypy_cache")]
    lines = run_checker([*command, "correct.py", "wrong.py"], programs).splitlines()
    errors = [line for line in lines if ": error: " in line]
    assert [line for line in errors if not line.startswith("wrong.py")] == []
    assert sorted({int(line.split(":")[1]) for line in errors}) == WRONG_LINES


def test_pyright_strict_accepts_public_names_and_rejects_misspelt_keywords(
    programs: Path,
) -> None:
    pytest.importorskip("pyright", reason="pyright is not installed")
    settings = {"typeCheckingMode": "strict", "extraPaths": [str(ROOT)]}
    (programs / "pyrightconfig.json").write_text(json.dumps(settings))
    command = ["pyright", "--outputjson", "--pythonpath", sys.executable]
    shown = json.loads(run_checker([*command, "correct.py", "wrong.py"], programs))
    errors = [
        (Path(error["file"]).name, error["range"]["start"]["line"] + 1)
        for error in shown["generalDiagnostics"]
        if error["severity"] == "error"
    ]
    assert [error for error in errors if error[0] != "wrong.py"] == []
    assert sorted({line for _, line in errors}) == WRONG_LINES


def test_typed_marker_is_part_of_the_package() -> None:
    assert (ROOT / "nearkin" / "py.typed").exists()
    assert '"py.typed"' in (ROOT / "pyproject.toml").read_text()


@pytest.mark.parametrize(
    ("keywords", "fields_of", "apart"),
    [
        (SettingsFields, IndexSettings, {"spec", "threshold"}),
        (WorkloadKeywords, Workload, {"documents"}),
        (SpecKeywords, Spec, {"unit", "n"}),
    ],
)
def test_typed_keywords_are_the_fields_of_their_class(
    keywords: Any, fields_of: Any, apart: set[str]
) -> None:
    assert set(keywords.__annotations__) == {field.name for field in fields(fields_of)} - apart
