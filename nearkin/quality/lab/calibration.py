"""Measures the rates of `nearkin plan`: whole runs over three small corpora, and four kernels."""

import json
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple, TypedDict

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from nearkin.quality.lab.measurements import (
    describe_machine,
    measure_sketching,
    run_nearkin,
    time_runs,
)
from nearkin.quality.lab.synth import SynthSettings, synth
from nearkin.quality.plan.rates import STAGES, Rates, StageRate
from nearkin.quality.plan.throughput import binned_updates
from nearkin.runtime.temporary_folder import TemporaryFolder
from nearkin.stages.packed_pairs import pack_pairs
from nearkin.stages.sketch import kernels as sketching
from nearkin.stages.sketch.minhash import Binned, Classic, splitmix64
from nearkin.stages.verify import kernels as verifying

CORPORA = ((2_000, 300), (100_000, 300), (10_000, 9_000))
"""The number of documents and the size of each: almost nothing, many short ones, few long ones."""
RUNS = 2
SET_SIZE = 250
SETS = 2_000


class CorpusTimes(TypedDict):
    """The result of the runs over one corpus.

    Attributes:
        documents: Number of its documents.
        bytes: Size of their texts, in bytes.
        seconds: The shortest time of each stage, in seconds.
    """

    documents: int
    bytes: int
    seconds: dict[str, float]


def calibrate(report: Callable[[str], None] = lambda _: None) -> Rates:
    """Measures the rates of this machine, which takes about a minute."""
    cores = int(describe_machine()["cores"])
    with TemporaryFolder() as folder:
        measured = [
            _measure_corpus(folder, documents, length, cores, report)
            for documents, length in CORPORA
        ]
    report("kernels")
    text = statistics.median(measure_sketching(draw_sketched_texts(), runs=3)) * 1e6
    kernels = measure_kernels()
    return Rates(
        machine=describe_machine(),
        workers=cores,
        stages=fit_stage_rates(measured),
        text=text,
        classic=kernels.classic,
        binned=kernels.binned,
        exact=kernels.exact,
        source="calibrated on this machine",
    )


def draw_sketched_texts() -> pa.Array:
    """Returns the ASCII texts of 1.5 kB whose sketching is measured."""
    with TemporaryFolder() as folder:
        synth(folder / "synth", SynthSettings(documents=20_000, length="fixed:1500", clustered=0.0))
        return pa.concat_arrays(pq.read_table(folder / "synth/documents")["text"].chunks)


def _measure_corpus(
    folder: Path, documents: int, length: int, workers: int, report: Callable[[str], None]
) -> CorpusTimes:
    """Returns the documents, the size of their texts, and the shortest time of each stage.

    The first run warms up and does not count.
    """
    corpus, out = folder / f"{documents}-{length}", folder / "out"
    report(f"{documents:,} documents of {length:,} bytes")
    synth(corpus, SynthSettings(documents=documents, length=f"fixed:{length}"))
    options = (
        "--id",
        "id",
        "--bands",
        "13",
        "--rows",
        "7",
        "--workers",
        workers,
        "--out",
        out,
        "--overwrite",
    )
    stage_durations: list[dict[str, float]] = []
    for _ in range(RUNS + 1):
        began = time.perf_counter()
        run_nearkin("dedup", corpus / "documents", *options)
        wall = time.perf_counter() - began
        record = json.loads((out / "run.json").read_bytes())
        seconds = {name: record["stages"][name]["seconds"] for name in STAGES if name != "start"}
        stage_durations.append({"start": wall - sum(seconds.values()), **seconds})
    least = {name: min(run[name] for run in stage_durations[1:]) for name in STAGES}
    return {
        "documents": documents,
        "bytes": record["stages"]["sketch"]["text_bytes"],
        "seconds": least,
    }


def fit_stage_rates(measured: list[CorpusTimes]) -> dict[str, StageRate]:
    """Fits the rates of each stage to three corpora, so that no rate is negative."""
    tiny, many, large = measured
    system = np.array(
        [
            [corpus["documents"] - tiny["documents"], corpus["bytes"] - tiny["bytes"]]
            for corpus in (many, large)
        ],
        float,
    )
    # the time outside the stages (starting, the sample of the report) does not grow with the text
    out = {"start": StageRate(large["seconds"]["start"], 0.0, 0.0)}
    for name in STAGES[1:]:
        fixed = tiny["seconds"][name]
        extra_seconds = np.array(
            [max(corpus["seconds"][name] - fixed, 0.0) for corpus in (many, large)]
        )
        document, byte = solve_nonnegative(system, extra_seconds)
        out[name] = StageRate(fixed, document, byte)
    return out


def solve_nonnegative(system: np.ndarray, values: np.ndarray) -> tuple[float, float]:
    """Returns the two nonnegative unknowns that fit two equations best.

    `system` has their coefficients, float64 (2, 2), and `values` their right sides.

    Examples:
        >>> system = np.array([[1.0, 1.0], [1.0, 3.0]])
        >>> [round(x, 6) for x in solve_nonnegative(system, np.array([3.0, 7.0]))]
        [1.0, 2.0]
        >>> [round(x, 6) for x in solve_nonnegative(system, np.array([3.0, 1.0]))]
        [2.0, 0.0]
    """
    x, y = np.linalg.solve(system, values)
    if x >= 0 and y >= 0:
        return float(x), float(y)
    alone = [max(0.0, float(column @ values / (column @ column))) for column in system.T]
    errors = [
        float(((column * factor - values) ** 2).sum())
        for column, factor in zip(system.T, alone, strict=True)
    ]
    return (alone[0], 0.0) if errors[0] <= errors[1] else (0.0, alone[1])


class KernelRates(NamedTuple):
    """The number of updates and comparisons that a core makes per second."""

    classic: float
    binned: float
    exact: float


def measure_kernels() -> KernelRates:
    """Measures the kernels of MinHash and of the exact comparison on one core."""
    hashes, offsets = splitmix64(1, SET_SIZE * SETS), np.arange(SETS + 1, dtype=np.int64) * SET_SIZE
    slots = np.empty((SETS, 128), np.uint32)
    classical, bins = Classic(128, 1), Binned(128, 1)
    sets = np.sort(hashes.reshape(SETS, SET_SIZE), axis=1).reshape(-1)
    place, pairs = np.arange(SETS, dtype=np.uint32), _draw_pairs(200_000)
    shared, joint = np.empty(len(pairs), np.int64), np.empty(len(pairs), np.int64)
    classic = _shortest_run(
        lambda: sketching.classic_minhash(hashes, offsets, classical.a, classical.b, slots)
    )
    binned = _shortest_run(
        lambda: sketching.binned_minhash(hashes, offsets, bins.rounds, bins.completion, slots)
    )
    exact = _shortest_run(lambda: verifying.overlaps(pairs, place, offsets, sets, shared, joint))
    return KernelRates(
        classic=SET_SIZE * SETS * 128 / classic,
        binned=binned_updates(SET_SIZE, 128, len(bins.rounds)) * SETS / binned,
        exact=len(pairs) / exact,
    )


def _draw_pairs(count: int) -> np.ndarray:
    a, b = (splitmix64(seed, count) % np.uint64(SETS) for seed in (2, 3))
    return pack_pairs(a, b)


def _shortest_run(work: Callable[[], Any]) -> float:
    work()
    return min(time_runs(work, 3))
