"""Tests of runs over files with decisions."""

import json
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from nearkin.cli.app import run as run_command
from nearkin.corpus import Columns
from nearkin.engine.options import RunOptions
from nearkin.errors import UsageError
from nearkin.runs.dedup import run_dedup
from nearkin.runs.job import Job
from nearkin.runs.loading import load_run
from nearkin.runs.reopen import explain_in_run, shadow_run
from nearkin.runs.run_record import FileRun, RunRecord, read_run_record
from nearkin.runs.saved import SavedRun
from nearkin.runtime.progress import Silent

TEXTS = {
    "a": "the river rose two metres overnight and flooded the old mill",
    "b": "the river rose two metres overnight and flooded the old mill",
    "c": "a tram line from the station to the harbour was approved",
}


@pytest.fixture
def inputs(tmp_path: Path) -> Path:
    path = tmp_path / "in.jsonl"
    rows = [{"id": id, "text": text} for id, text in TEXTS.items()]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


@pytest.fixture
def decisions(tmp_path: Path) -> Path:
    return write_decisions(tmp_path / "decisions.jsonl", ("a", "b", "different"))


def write_decisions(path: Path, *rows: tuple[str, str, str]) -> Path:
    lines = [json.dumps({"id_a": a, "id_b": b, "decision": decision}) for a, b, decision in rows]
    path.write_text("".join(line + "\n" for line in lines))
    return path


def dedup(inputs: Path, out: Path, decisions: Path | None, **other: Any) -> RunRecord:
    options = RunOptions(threshold=0.6)
    job = Job((str(inputs),), out, Columns(id="id"), options, decisions=decisions, **other)
    return run_dedup(job, Silent())


def test_run_record_names_the_decisions_and_has_no_entry_without(
    tmp_path: Path, inputs: Path, decisions: Path
) -> None:
    record = dedup(inputs, tmp_path / "out", decisions, save_signatures=True)
    assert record.counts["kept"] == 3
    assert isinstance(record, FileRun)
    assert record.decisions is not None
    assert record.decisions.path == str(decisions)
    read = read_run_record(tmp_path / "out" / "run.json")
    assert isinstance(read, FileRun)
    assert read.decisions == record.decisions
    assert record.stages["collapse"]["decisions"] == {"same": 0, "different": 1, "absent": 0}
    plain = dedup(inputs, tmp_path / "plain", None)
    assert plain.counts["removed_exact"] == 1
    assert "decisions" not in (tmp_path / "plain" / "run.json").read_text()
    why = explain_in_run(tmp_path / "out", "a", "b").why
    assert f"the run followed the decisions in {decisions}" in why
    with pytest.raises(UsageError, match="cannot be compared with other settings: it was made"):
        shadow_run(tmp_path / "out", {"threshold": 0.7}, Silent())
    with pytest.raises(UsageError, match="cannot become an index: it was made with"):
        load_run(SavedRun(tmp_path / "out", record), "memory://", "s", None, "buckets")


def test_saved_run_is_clustered_again_with_decisions(
    tmp_path: Path, inputs: Path, decisions: Path
) -> None:
    dedup(inputs, tmp_path / "saved", None, save_signatures=True)
    record = dedup(tmp_path / "saved", tmp_path / "out", decisions)
    assert record.counts["kept"] == 3
    write_decisions(decisions, ("a", "c", "same"))
    record = dedup(tmp_path / "saved", tmp_path / "joined", decisions)
    assert record.counts["kept"] == 1
    rows = pq.read_table(tmp_path / "joined" / "clusters.parquet").to_pylist()
    assert {row["id"]: row["kind"] for row in rows} == {"a": "kept", "b": "exact", "c": "same"}


def test_finished_run_is_not_resumed_with_other_decisions(
    tmp_path: Path, inputs: Path, decisions: Path
) -> None:
    dedup(inputs, tmp_path / "out", decisions)
    same_facts = write_decisions(
        tmp_path / "copy.jsonl", ("b", "a", "different"), ("a", "b", "different")
    )
    dedup(inputs, tmp_path / "out", same_facts, resume=True)
    write_decisions(decisions, ("a", "b", "same"))
    with pytest.raises(UsageError, match="was made with "):
        dedup(inputs, tmp_path / "out", decisions, resume=True)
    with pytest.raises(UsageError, match="was made with "):
        dedup(inputs, tmp_path / "out", None, resume=True)


def test_contradictions_are_reported_before_anything_is_written(
    tmp_path: Path, inputs: Path
) -> None:
    decisions = write_decisions(
        tmp_path / "d.jsonl", ("a", "b", "same"), ("b", "c", "same"), ("a", "c", "different")
    )
    before = sorted(tmp_path.iterdir())
    with pytest.raises(UsageError, match="'a' = 'b' = 'c'"):
        dedup(inputs, tmp_path / "out", decisions)
    assert sorted(tmp_path.iterdir()) == before


def test_nothing_is_left_of_a_run_without_a_known_decision(tmp_path: Path, inputs: Path) -> None:
    decisions = write_decisions(tmp_path / "d.jsonl", ("x", "y", "same"))
    before = sorted(tmp_path.iterdir())
    arguments = ["dedup", str(inputs), "--id", "id", "--decisions", str(decisions), "--out"]
    assert run_command([*arguments, str(tmp_path / "out")]) == 2
    assert sorted(tmp_path.iterdir()) == before


def test_output_that_would_replace_the_decisions_is_refused(tmp_path: Path, inputs: Path) -> None:
    dedup(inputs, tmp_path / "out", None)
    decisions = write_decisions(tmp_path / "out" / "decisions.jsonl", ("a", "b", "same"))
    with pytest.raises(UsageError, match=r"decisions\.jsonl"):
        dedup(inputs, tmp_path / "out", decisions, overwrite=True)
    assert decisions.exists()


def test_command_takes_decisions(
    tmp_path: Path, inputs: Path, decisions: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["dedup", str(inputs), "--id", "id", "--decisions", str(decisions), "--out"]
    assert run_command([*arguments, str(tmp_path / "out")]) == 0
    assert "3 of 3 documents kept" in " ".join(capsys.readouterr().err.split())
