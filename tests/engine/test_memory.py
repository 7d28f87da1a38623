"""The memory bound of a run, measured from outside."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import nearkin as nk
from nearkin.corpus import Columns, TableCorpus
from nearkin.engine.local.documents import iterate_portions, take_values
from nearkin.engine.local.result_tables import expanded_pair_batches
from nearkin.engine.local.run import BYTES_PER_WORKER, LocalRun
from nearkin.engine.local.work_folder import WorkFolder
from nearkin.engine.options import RunOptions
from nearkin.evaluate.labels import MAX_LABEL_CHARACTERS, most_frequent_labels
from nearkin.runtime.memory import PeakMemory
from nearkin.runtime.progress import Silent

BOUND = 512 << 20
OVERHEAD = 250 << 20
"""Interpreter, libraries and compiled kernels: what docs/reference/files.md says comes on top of
the bound."""
WORDS = np.array([f"w{i:05d}" for i in range(50_000)])


def text_of(words: int, rng: np.random.Generator) -> str:
    return " ".join(WORDS[rng.integers(0, len(WORDS), words)])


def sampled_peak(command: list[str]) -> int:
    """Runs a command to a good end.

    Returns the largest RssAnon of its process tree, read by this process.
    """
    peak = 0
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as process:
        tree = psutil.Process(process.pid)
        while process.poll() is None:
            peak = max(peak, sum(anonymous(one.pid) for one in [tree, *children(tree)]))
            try:
                process.wait(0.02)
            except subprocess.TimeoutExpired:
                continue
        output = process.stdout.read() if process.stdout else ""
    assert process.returncode == 0, output
    return peak


def children(process: psutil.Process) -> list[psutil.Process]:
    try:
        return process.children(recursive=True)
    except psutil.NoSuchProcess:
        return []


def anonymous(process: int) -> int:
    try:
        lines = Path(f"/proc/{process}/status").read_text().splitlines()
    except OSError:
        return 0
    return sum(int(line.split()[1]) * 1024 for line in lines if line.startswith("RssAnon"))


pytestmark = pytest.mark.skipif(
    not Path("/proc/self/status").exists(), reason="anonymous memory is read from /proc"
)

USE_MEMORY = """
import json, sys
import numpy as np
from nearkin.runtime.memory import PeakMemory
from nearkin.runtime.progress import Silent
with PeakMemory() as memory:
    values = np.arange(40_000_000)
    before = memory.peak
    for repetition in range(50):
        copied = np.sort(values)[::-1].copy()
        del copied
        if repetition >= 2 and memory.peak >= 950_000_000:
            break
print(json.dumps([before, memory.peak]))
"""


def test_the_reported_peak_is_what_is_measured_from_outside() -> None:
    """Sorting holds the interpreter lock.

    A thread of the same process would miss what is allocated and freed meanwhile. Memory is used
    several times, because on a busy machine neither process may run while it is held once.
    """
    line = [sys.executable, "-c", USE_MEMORY]
    with subprocess.Popen(line, stdout=subprocess.PIPE, text=True) as process:
        peak = 0
        while process.poll() is None:
            peak = max(peak, anonymous(process.pid))
        assert process.stdout is not None
        before, reported = json.loads(process.stdout.read())
    assert process.returncode == 0
    assert before >= 320_000_000
    assert reported >= 950_000_000
    assert abs(reported - peak) < 0.1 * peak


def test_the_reported_peak_counts_child_processes() -> None:
    hold = "import sys; held = bytearray(100_000_000); print('held', flush=True); sys.stdin.read()"
    with PeakMemory() as memory:
        child = subprocess.Popen(
            [sys.executable, "-c", hold], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        assert child.stdout is not None
        child.stdout.readline()
        while memory.peak < anonymous(os.getpid()) + 100_000_000:
            assert child.poll() is None
        child.communicate()


def test_the_sampler_ends_with_the_measurement() -> None:
    before = set(psutil.Process().children())
    with PeakMemory():
        assert set(psutil.Process().children()) - before
    assert not {
        child
        for child in set(psutil.Process().children()) - before
        if child.status() != psutil.STATUS_ZOMBIE
    }


def test_a_sampler_that_was_killed_is_no_fault() -> None:
    before = set(psutil.Process().children())
    with PeakMemory() as memory:
        for child in set(psutil.Process().children()) - before:
            child.kill()
            child.wait()
        assert memory.peak > 0
    assert memory.peak > 0


@dataclass(frozen=True)
class Case:
    """Inputs that once broke the bound.

    Attributes:
        name: Short name.
        columns: Columns of a batch of documents, from its first ordinal and a generator of random
            numbers.
        documents: Documents in the quick form.
        all_documents: Documents in the full form.
        options: Options of the command.
        batch: Documents of a batch.
    """

    name: str
    columns: Callable[[int, int, np.random.Generator], dict[str, Any]]
    documents: int
    all_documents: int
    options: tuple[str, ...] = ()
    batch: int = 10_000


def long_texts(first: int, count: int, rng: np.random.Generator) -> dict[str, list[str]]:
    return {"text": [text_of(6_500, rng) for _ in range(count)]}


def long_sources(first: int, count: int, rng: np.random.Generator) -> dict[str, list[str]]:
    sources = [f"{i:08d}" + "s" * 3_000 for i in range(first, first + count)]
    return {"text": [text_of(30, rng) for _ in range(count)], "source": sources}


def long_ids(first: int, count: int, rng: np.random.Generator) -> dict[str, list[str]]:
    texts = [" ".join(row) for row in WORDS[rng.integers(0, len(WORDS), (count, 8))]]
    return {
        "text": texts,
        "id": [f"{(i * 7919) % 3_000_000:020d}" + "i" * 120 for i in range(first, first + count)],
    }


def plain_texts(first: int, count: int, rng: np.random.Generator) -> dict[str, list[str]]:
    return {"text": [text_of(300, rng) for _ in range(count)]}


def many_columns(first: int, count: int, rng: np.random.Generator) -> dict[str, Any]:
    texts = [" ".join(row) for row in WORDS[rng.integers(0, len(WORDS), (count, 8))]]
    return {"text": texts, **{f"c{at}": rng.random(count) for at in range(1_500)}}


CASES = [
    Case("long documents by brute force", long_texts, 1_000, 4_900, batch=500),
    Case("long values of a source", long_sources, 30_000, 200_000, ("--source", "source")),
    Case("long ids", long_ids, 100_000, 3_000_000, ("--id", "id")),
    Case("many columns", many_columns, 4_000, 20_000, batch=20_000),
    Case("many workers", plain_texts, 20_000, 200_000, ("--workers", "64")),
]


@pytest.fixture(params=CASES, ids=lambda case: case.name)
def case(request: pytest.FixtureRequest, tmp_path: Path, full: bool) -> tuple[Path, Case]:
    found: Case = request.param
    path, rng = tmp_path / "input.parquet", np.random.default_rng(1)
    total = found.all_documents if full else found.documents
    writer = None
    for first in range(0, total, found.batch):
        table = pa.table(found.columns(first, min(found.batch, total - first), rng))
        writer = writer or pq.ParquetWriter(path, table.schema)
        writer.write_table(table)
    assert writer is not None
    writer.close()
    return path, found


def test_a_run_stays_within_its_bound_and_the_overhead(
    case: tuple[Path, Case], tmp_path: Path
) -> None:
    path, found = case
    out = tmp_path / "out"
    line = [
        sys.executable,
        "-m",
        "nearkin",
        "dedup",
        str(path),
        "--memory",
        "512MiB",
        "--out",
        str(out),
        *found.options,
    ]
    peak = sampled_peak(line)
    reported = json.loads((out / "run.json").read_bytes())["peak_memory"]
    assert peak <= BOUND + OVERHEAD
    assert reported >= 0.8 * peak


@pytest.mark.full
@pytest.mark.parametrize("compression", ["snappy", "none"])
def test_a_huge_text_is_set_aside_within_the_bound(compression: str, tmp_path: Path) -> None:
    """Its neighbours in the same page are documents.

    The text does not compress, so that its page is large in the file too.
    """
    rng = np.random.default_rng(1)
    huge = rng.integers(32, 127, 315_000_000, np.uint8).tobytes().decode("ascii")
    texts = [*(text_of(50, rng) for _ in range(10)), huge, *(text_of(50, rng) for _ in range(10))]
    path, out = tmp_path / "input.parquet", tmp_path / "out"
    pq.write_table(pa.table({"text": texts}), path, compression=compression)
    peak = sampled_peak(
        [sys.executable, "-m", "nearkin", "dedup", str(path), "--memory", "1GB", "--out", str(out)]
    )
    assert [json.loads(line)["row"] for line in (out / "rejected.jsonl").open()] == [10]
    assert pq.read_metadata(out / "kept" / "input.parquet").num_rows == 20
    assert peak <= 1_000_000_000 + OVERHEAD


def test_workers_are_limited_by_memory_with_a_warning(tmp_path: Path) -> None:
    texts = [f"some words of document {i} and others {i % 7}" for i in range(50)]
    few = BOUND // 2 // BYTES_PER_WORKER
    result = nk.dedup(texts, workers=64, memory=BOUND)
    warnings = [warning for warning in result.report_data.all_warnings if "workers" in warning]
    assert len(warnings) == 1
    assert f"{few} of the requested 64 workers" in warnings[0]
    assert not [
        warning
        for warning in nk.dedup(texts, workers=few, memory=BOUND).report_data.all_warnings
        if "workers" in warning
    ]


def test_long_values_are_cut_in_names_and_counted_apart() -> None:
    long = ["x" * 5_000 + end for end in "ab"]
    labels = most_frequent_labels(pa.chunked_array([[*long, long[0]], ["y"]]), 10)
    assert [len(name) for name in labels.names] == [
        MAX_LABEL_CHARACTERS + 1,
        MAX_LABEL_CHARACTERS + 1,
        1,
    ]
    assert labels.codes.tolist() == [0, 1, 0, 2]


@pytest.mark.parametrize("most", [1, 2, 5, 300])
def test_labels_are_the_most_frequent_values(most: int) -> None:
    rng = np.random.default_rng(most)
    values = [None if x == 7 else f"v{x}" for x in rng.integers(0, 200, 2_000).tolist()]
    labels = most_frequent_labels(
        pa.chunked_array([values[:700], [], values[700:]], pa.large_string()), most
    )
    texts = ["(none)" if value is None else value for value in values]
    ranked = sorted(set(texts), key=lambda value: (-texts.count(value), value))
    names = ranked if len(ranked) <= most else [*ranked[: most - 1], "(others)"]
    assert list(labels.names) == names
    assert [names[code] for code in labels.codes] == [
        text if text in names else "(others)" for text in texts
    ]


def test_values_of_a_chunked_column_are_taken_in_any_order() -> None:
    column = pa.chunked_array(
        [[f"{i}" for i in range(10)], [], [f"{i}" for i in range(10, 30)]], pa.large_string()
    )
    chosen = np.random.default_rng(1).integers(0, 30, 100)
    assert take_values(column, chosen).to_pylist() == [f"{i}" for i in chosen]
    assert take_values(column, np.empty(0, np.int64)).to_pylist() == []


def test_a_column_is_read_in_portions_of_bounded_size(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("nearkin.engine.local.documents.PORTION_BYTES", 1_000)
    column = pa.chunked_array([["x" * 90] * 100, ["y"] * 3], pa.large_string())
    parts = list(iterate_portions(column))
    assert pa.chunked_array(parts).to_pylist() == column.to_pylist()
    assert max(part.nbytes for part in parts) < 1_500


def test_expanded_pairs_of_long_ids_come_in_small_batches(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Pairs inside of exact groups and across them.

    The batches together are all pairs of the documents.
    """
    monkeypatch.setattr("nearkin.engine.local.result_tables.LEAST_ROWS", 10)
    monkeypatch.setattr("nearkin.engine.local.result_tables.BATCH_BYTES", 30_000)
    first = "some words of a text that is there many times over and over again"
    table = pa.table(
        {
            "text": [first, f"{first} more"] * 30,
            "id": [f"{at:02d}" + "i" * 1_000 for at in range(60)],
        }
    )
    run = LocalRun(
        TableCorpus(table),
        Columns(id="id"),
        RunOptions(),
        WorkFolder.create(tmp_path / "work", {}),
        Silent(),
    )
    run.to_pairs()
    batches = list(expanded_pair_batches(run))
    pairs = {(row["id_a"][:2], row["id_b"][:2]) for batch in batches for row in batch.to_pylist()}
    assert len(pairs) == sum(map(len, batches)) == 60 * 59 // 2
    assert max(map(len, batches)) <= 30
