"""Tests that a result does not depend on where the tasks of a run are done."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv as pc
import pyarrow.parquet as pq
import pytest

import nearkin as nk
from nearkin.corpus import Columns
from nearkin.engine.local.sketching import SketchTask
from nearkin.engine.options import RunOptions
from nearkin.runs.dedup import run_dedup
from nearkin.runs.job import Job
from nearkin.runtime.progress import Silent
from tests.processes import Processes


@pytest.fixture(scope="module")
def processes() -> Iterator[Processes]:
    """Returns an executor of two processes."""
    executor = Processes(2)
    yield executor
    executor.close()


def documents() -> pa.Table:
    """Returns 6,000 documents, of which many are copies or near-copies, and some are rejected."""
    rng = np.random.default_rng(3)
    words = np.array([f"word{number}" for number in range(800)])
    texts: list[str | None] = []
    for number in range(6_000):
        text = " ".join(rng.choice(words, 30))
        if number % 3 == 1:
            text = f"{texts[-1] or text} {number % 4}"
        texts.append(None if number % 97 == 5 else text)
    sources = [f"site {number % 7}" for number in range(len(texts))]
    return pa.table(
        {"id": [f"d{number}" for number in range(len(texts))], "text": texts, "site": sources}
    )


def write_parquet(folder: Path, table: pa.Table) -> None:
    for number in range(3):
        part = table.slice(2_000 * number, 2_000)
        pq.write_table(part, folder / f"{number}.parquet", row_group_size=300)


def write_lines(folder: Path, table: pa.Table) -> None:
    for number in range(3):
        part = table.slice(2_000 * number, 2_000).to_pandas()
        part.to_json(folder / f"{number}.jsonl.gz", orient="records", lines=True)


def write_csv(folder: Path, table: pa.Table) -> None:
    pc.write_csv(table, folder / "all.csv")


WRITERS = {"parquet": write_parquet, "JSON lines": write_lines, "CSV": write_csv}


def read_output(out: Path) -> dict[str, bytes]:
    """Returns the files of an output that do not depend on times."""
    paths = [path for path in out.rglob("*") if path.is_file() and path.parent.name != "columns"]
    timed = {
        "run.json",
        "report.html",
        "report.json",
        "card.md",
        ".nearkin-output.json",
        "checkpoint.json",
    }
    return {
        str(path.relative_to(out)): path.read_bytes() for path in paths if path.name not in timed
    }


@pytest.mark.parametrize("format_name", WRITERS)
def test_output_does_not_depend_on_the_executor(
    format_name: str, processes: Processes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("nearkin.corpus.parts.PART_BYTES", 1 << 16)
    (tmp_path / "in").mkdir()
    WRITERS[format_name](tmp_path / "in", documents())
    job = Job(
        (str(tmp_path / "in"),),
        tmp_path / "threads",
        Columns(id="id", carried_columns=("site",)),
        RunOptions(spec=nk.Spec(), workers=2),
        save_signatures=True,
    )
    run_dedup(job, Silent())
    processes.maps.clear()
    elsewhere = replace(job, out=tmp_path / "processes", executor=processes)
    run_dedup(elsewhere, Silent())
    assert SketchTask in processes.maps
    expected = read_output(job.out)
    assert {"clusters.parquet", "pairs.parquet", "rejected.jsonl"} <= expected.keys()
    assert read_output(elsewhere.out) == expected
