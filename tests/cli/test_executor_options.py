"""The options of the executor: what commands import for each."""

from pathlib import Path

import pytest

from nearkin.cli import imports
from nearkin.cli.command_line import OWNS_PROCESS
from tests.cli.conftest import run


@pytest.mark.parametrize("executor", ["threads", "spark"])
def test_libraries_are_not_hidden_from_spark(
    executor: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hidden: list[str] = []
    monkeypatch.setattr(imports, "hide_libraries_from_numba", lambda: hidden.append("scipy"))
    monkeypatch.setattr(imports, "load_arrow_without_pandas", lambda: hidden.append("pandas"))
    missing = tmp_path / "missing.jsonl"
    owner = OWNS_PROCESS.set(True)
    try:
        assert run("dedup", missing, "--executor", executor, "--out", tmp_path / "out") == 2
    finally:
        OWNS_PROCESS.reset(owner)
    assert hidden == (["scipy", "pandas"] if executor == "threads" else [])
