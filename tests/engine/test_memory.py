"""The memory bound of a run, measured from outside."""

import gzip
import json
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
from nearkin.engine.run import BYTES_PER_WORKER
from tests.process_memory import anonymous_bytes_of, descendants

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
            peak = max(peak, sum(anonymous_bytes_of(one.pid) for one in [tree, *descendants(tree)]))
            try:
                process.wait(0.02)
            except subprocess.TimeoutExpired:
                continue
        output = process.stdout.read() if process.stdout else ""
    assert process.returncode == 0, output
    return peak


pytestmark = pytest.mark.skipif(
    not Path("/proc/self/status").exists(), reason="anonymous memory is read from /proc"
)


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
        is_full: Whether the case is one of the full form only.
    """

    name: str
    columns: Callable[[int, int, np.random.Generator], dict[str, Any]]
    documents: int
    all_documents: int
    options: tuple[str, ...] = ()
    batch: int = 10_000
    is_full: bool = False


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
    Case("long documents by brute force", long_texts, 500, 4_900, batch=500, is_full=True),
    Case("long values of a source", long_sources, 15_000, 200_000, ("--source", "source")),
    Case("long ids", long_ids, 50_000, 3_000_000, ("--id", "id"), is_full=True),
    Case("many columns", many_columns, 2_000, 20_000, batch=20_000),
    Case("many workers", plain_texts, 10_000, 200_000, ("--workers", "64")),
]


@pytest.fixture(
    params=[
        pytest.param(case, id=case.name, marks=pytest.mark.full if case.is_full else ())
        for case in CASES
    ]
)
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


END_OF_ID = "i" * 3_000
COMPRESSED: dict[str, tuple[Callable[[int], str], tuple[str, ...]]] = {
    "rejected rows": (lambda row: f'{{"text": null, "source": "{row:030d}"}}\n', ()),
    "long ids": (
        lambda row: f'{{"text": "the text {row} of words", "id": "{row:08d}{END_OF_ID}"}}\n',
        ("--id", "id"),
    ),
}
"""The lines of the files, and the options of the command."""
LINES_AT_ONCE = 1_000


@pytest.mark.parametrize("name", COMPRESSED)
def test_compressed_files_are_read_by_several_workers_within_the_bound(
    name: str, tmp_path: Path, full: bool
) -> None:
    """Ids and rejected rows do not wait in memory until the turn of their file."""
    make_line, options = COMPRESSED[name]
    # ids that waited in memory would break the bound; rejected rows only in the full form
    rows = 60_000
    if name == "rejected rows":
        rows = 480_000 if full else 40_000
    (tmp_path / "in").mkdir()
    for file in range(4):
        with gzip.open(tmp_path / "in" / f"{file}.jsonl.gz", "wb", 1) as compressed:
            compressed.write(b'{"text": "a document of six words", "id": "%d"}\n' % file)
            for first in range(rows * file, rows * file + rows, LINES_AT_ONCE):
                lines = map(make_line, range(first, first + LINES_AT_ONCE))
                compressed.write("".join(lines).encode())
    line = [sys.executable, "-m", "nearkin", "dedup", str(tmp_path / "in"), *options]
    line += ["--workers", "4", "--memory", "512MiB", "--out", str(tmp_path / "out")]
    # given, so that no settings are chosen for short texts, which takes longer than the run
    line += ["--threshold", "0.8"]
    assert sampled_peak([*line, "--max-removed", "1"]) <= BOUND + OVERHEAD


@pytest.mark.full
@pytest.mark.parametrize(
    ("compression", "use_dictionary", "size"),
    [
        ("snappy", True, 71_000_000),
        ("none", True, 82_000_000),
        ("snappy", False, 165_000_000),
        ("none", False, 248_000_000),
    ],
)
def test_a_huge_text_is_set_aside_within_the_bound(
    compression: str, use_dictionary: bool, size: int, tmp_path: Path
) -> None:
    """Its neighbours in the same page are documents.

    The page is almost as large as the bound allows. The text does not compress, so that the page is
    large in the file too.
    """
    rng = np.random.default_rng(1)
    huge = rng.integers(32, 127, size, np.uint8).tobytes().decode("ascii")
    texts = [*(text_of(50, rng) for _ in range(10)), huge, *(text_of(50, rng) for _ in range(10))]
    path, out = tmp_path / "input.parquet", tmp_path / "out"
    table = pa.table({"text": texts})
    pq.write_table(table, path, compression=compression, use_dictionary=use_dictionary)
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


def test_many_workers_keep_the_bound_over_large_row_groups(tmp_path: Path) -> None:
    """Each of them decodes, filters and encodes a row group of its own."""
    rng = np.random.default_rng(3)
    path, out = tmp_path / "input.parquet", tmp_path / "out"
    schema = pa.schema([("text", pa.string())])
    with pq.ParquetWriter(path, schema) as writer:
        for _ in range(16):
            letters = rng.integers(97, 123, (9_000, 1_600), np.uint8)
            letters[:, ::6] = ord(" ")
            texts = [row.tobytes().decode("ascii") for row in letters]
            writer.write_table(pa.table({"text": texts}, schema))
    line = [sys.executable, "-m", "nearkin", "dedup", str(path), "--workers", "8"]
    peak = sampled_peak([*line, "--memory", "512MiB", "--out", str(out)])
    assert peak <= BOUND + OVERHEAD
    assert pq.read_metadata(out / "kept" / "input.parquet").num_row_groups == 8
