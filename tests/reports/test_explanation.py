"""The explanation of one pair in words."""

import io
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from rich.console import Console

from nearkin.cli.app import run
from nearkin.engine.result_schema import KINDS
from nearkin.errors import UsageError
from nearkin.quality.evaluate.explain import explain
from nearkin.reports.explanation import FATES, print_explanation, render_explanation


def test_every_kind_of_document_has_words() -> None:
    assert list(FATES) == list(KINDS)


def test_documents_of_a_run_are_described_in_words(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    table = pa.table({"id": ["first", "second"], "text": ["one two three four"] * 2})
    changed = pa.table({"id": ["third"], "text": ["one two three four five"]})
    pq.write_table(pa.concat_tables([table, changed]), tmp_path / "documents.parquet")
    source, out = str(tmp_path / "documents.parquet"), str(tmp_path / "out")
    assert run(["dedup", source, "--id", "id", "--threshold", "0.5", "--out", out]) == 0
    capsys.readouterr()
    assert run(["explain", "first", "third", "--run", out]) == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert "in the run, third kept, cluster of third" in shown
    assert "in the run, first removed as a near-duplicate, cluster of third" in shown


def test_longest_shared_passages_are_side_by_side_and_escaped() -> None:
    shared = "all visitors leave their bags at the desk before they enter"
    pair = explain(f"First <b>: {shared}.", f"{shared.upper()} \x1b[31m now")
    written = io.StringIO()
    print_explanation(pair, Console(file=written, width=200))
    printed = written.getvalue()
    assert f"11 words  {shared}" in printed
    assert shared.upper() in printed
    page = render_explanation(pair)
    assert f'<th scope="row">11 words</th><td dir="auto">{shared}</td>' in page
    assert "<b>" not in page
    assert "Longest shared" not in render_explanation(explain("one two", "one two"))


def test_equal_beginnings_are_not_taken_for_equal_texts() -> None:
    beginning = " ".join(f"word{number}" for number in range(1000))
    page = render_explanation(explain(beginning, f"{beginning} and another end"))
    assert "Only the beginnings are compared here." in page
    with pytest.raises(UsageError, match="not valid Unicode"):
        explain("one", "\ud800")
    assert "Both documents have the same words." in render_explanation(explain("one", "one"))
