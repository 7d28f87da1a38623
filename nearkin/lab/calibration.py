"""Measures what `nearkin plan` reckons with: whole runs over three small corpora, and four kernels."""

import json
import time
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from nearkin.lab.bench import machine, nearkin_process, seconds_of, text_rates
from nearkin.lab.synth import SynthSettings, synth
from nearkin.packed_pairs import pack_pairs
from nearkin.plan.capacity import binned_updates
from nearkin.plan.rates import STAGES, Rates, StageRate
from nearkin.sketch import kernels as sketching
from nearkin.sketch.minhash import Binned, Classic, splitmix64
from nearkin.verify import kernels as verifying

CORPORA = ((2_000, 300), (100_000, 300), (10_000, 9_000))
"""Documents and bytes of each: next to nothing, many short ones, few long ones."""
RUNS = 2
SET, SETS = 250, 2_000


def calibrate(say: Callable[[str], None] = lambda _: None) -> Rates:
    """The figures of this machine; takes about a minute.

    Args:
        say: Told what is measured.
    """
    cores = int(machine()["cores"])
    with TemporaryDirectory(prefix="nearkin-calibrate-") as folder:
        measured = [
            _run(Path(folder), documents, length, cores, say) for documents, length in CORPORA
        ]
    say("kernels")
    text = next(iter(text_rates(runs=3))).value * 1e6
    return Rates(
        machine(), cores, _fit(measured), text, *kernel_rates(), "calibrated on this machine"
    )


def _run(
    folder: Path, documents: int, length: int, workers: int, say: Callable[[str], None]
) -> dict[str, Any]:
    """Documents, bytes of text, and the least seconds of each stage over some runs after a warm one."""
    corpus, out = folder / f"{documents}-{length}", folder / "out"
    say(f"{documents:,} documents of {length:,} bytes")
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
    found: list[dict[str, float]] = []
    for _ in range(RUNS + 1):
        began = time.perf_counter()
        nearkin_process("dedup", corpus / "documents", *options)
        wall = time.perf_counter() - began
        record = json.loads((out / "run.json").read_bytes())
        seconds = {name: record["stages"][name]["seconds"] for name in STAGES if name != "start"}
        found.append({"start": wall - sum(seconds.values()), **seconds})
    least = {name: min(run[name] for run in found[1:]) for name in STAGES}
    return {
        "documents": documents,
        "bytes": record["stages"]["sketch"]["text_bytes"],
        "seconds": least,
    }


def _fit(measured: list[dict[str, Any]]) -> dict[str, StageRate]:
    """Three corpora, three unknowns for each stage; none is negative."""
    tiny, many, large = measured
    system = np.array(
        [
            [one["documents"] - tiny["documents"], one["bytes"] - tiny["bytes"]]
            for one in (many, large)
        ],
        float,
    )
    # What a process does outside its stages (starting, the report's sample) does not grow with the text.
    out = {"start": StageRate(large["seconds"]["start"], 0.0, 0.0)}
    for name in STAGES[1:]:
        fixed = tiny["seconds"][name]
        more = np.array([max(one["seconds"][name] - fixed, 0.0) for one in (many, large)])
        document, byte = nonnegative(system, more)
        out[name] = StageRate(fixed, document, byte)
    return out


def nonnegative(system: np.ndarray, values: np.ndarray) -> tuple[float, float]:
    """Two nonnegative unknowns that fit two equations best: exactly where they can.

    Examples:
        >>> [round(x, 6) for x in nonnegative(np.array([[1.0, 1.0], [1.0, 3.0]]), np.array([3.0, 7.0]))]
        [1.0, 2.0]
        >>> [round(x, 6) for x in nonnegative(np.array([[1.0, 1.0], [1.0, 3.0]]), np.array([3.0, 1.0]))]
        [2.0, 0.0]
    """
    x, y = np.linalg.solve(system, values)
    if x >= 0 and y >= 0:
        return float(x), float(y)
    alone = [max(0.0, float(column @ values / (column @ column))) for column in system.T]
    errors = [
        float(((column * one - values) ** 2).sum())
        for column, one in zip(system.T, alone, strict=True)
    ]
    return (alone[0], 0.0) if errors[0] <= errors[1] else (0.0, alone[1])


def kernel_rates() -> tuple[float, float, float]:
    """Of one core, per second: classic updates, binned updates, exact comparisons of sets of SET hashes."""
    hashes, offsets = splitmix64(1, SET * SETS), np.arange(SETS + 1, dtype=np.int64) * SET
    slots = np.empty((SETS, 128), np.uint32)
    classical, bins = Classic(128, 1), Binned(128, 1)
    sets = np.sort(hashes.reshape(SETS, SET), axis=1).reshape(-1)
    place, pairs = np.arange(SETS, dtype=np.uint32), _pairs(200_000)
    shared, joint = np.empty(len(pairs), np.int64), np.empty(len(pairs), np.int64)
    classic = _least(
        lambda: sketching.classic_minhash(hashes, offsets, classical.a, classical.b, slots)
    )
    binned = _least(
        lambda: sketching.binned_minhash(hashes, offsets, bins.rounds, bins.completion, slots)
    )
    exact = _least(lambda: verifying.overlaps(pairs, place, offsets, sets, shared, joint))
    return (
        SET * SETS * 128 / classic,
        binned_updates(SET, 128, len(bins.rounds)) * SETS / binned,
        len(pairs) / exact,
    )


def _pairs(count: int) -> np.ndarray:
    a, b = (splitmix64(seed, count) % np.uint64(SETS) for seed in (2, 3))
    return pack_pairs(a, b)


def _least(work: Callable[[], Any]) -> float:
    work()
    return min(seconds_of(work, 3))
