"""Tests of the files that a run over Spark writes. They need no session."""

from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest

pytest.importorskip("pyspark")

from nearkin.engine.spark import output_files
from nearkin.engine.spark.output_files import copy_files
from nearkin.engine.spark.rereading import FileEdits, attempt_folder


def test_incomplete_copies_of_failed_tasks_are_not_published(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "docs"

    def run_tasks(*_: Any) -> list[dict[str, int]]:
        (folder / "part.jsonl").write_text("complete")
        attempt_folder(folder).mkdir()
        (attempt_folder(folder) / "part.jsonl").write_text("incomp")
        return [{"documents": 1}]

    monkeypatch.setattr(output_files, "collect_facts", run_tasks)
    edit: Callable[..., FileEdits] = Mock()
    copy_files(Mock(), Mock(), folder, edit, 1)
    assert [path.name for path in folder.iterdir()] == ["part.jsonl"]
