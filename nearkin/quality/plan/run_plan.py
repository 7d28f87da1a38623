"""Plans the disk, the memory and the time of a run."""

import math
from typing import NamedTuple

import numpy as np

from nearkin.engine.kept_hashes import BYTES_PER_HASH, KeptHashes
from nearkin.engine.kept_hashes import MEMORY_SHARE as KEPT_HASHES_SHARE
from nearkin.quality.plan.candidates import ExpectedCandidates
from nearkin.quality.plan.plan_lines import PlanLines
from nearkin.quality.plan.rates import Rates
from nearkin.quality.plan.workload import Workload
from nearkin.runtime.setting_names import name_setting
from nearkin.settings.spec import Spec
from nearkin.stages.lsh.slot_bands import Banding

DOCUMENT_FACTS_BYTES = 40
"""The size of what a run stores of a document: lengths, counts, fingerprints and positions."""
DOCUMENT_RESULT_BYTES = 29
"""The size of the results of a document: orders, groups, blocks and clusters."""
ID_BYTES = 20
PROCESS_BYTES = 200e6
"""The anonymous memory of Python, Numba and Arrow in a local run."""
TEXT_BUFFER_FACTOR = 2.2
"""The memory for texts that are being read, relative to the size of the corpus."""
MAX_TEXT_BUFFER_BYTES = 250e6
"""The largest memory for texts that are being read."""
MEMORY_PER_DOCUMENT = 30
"""The anonymous memory of a local run for each document, in bytes."""
REFERENCE_BANDS = 13
"""The number of bands with which the rates were calibrated."""
REFERENCE_VERIFIED_PAIRS = 0.1
"""The number of verified pairs for each document in the runs with which the rates were calibrated.
"""
SECONDS_PER_ESTIMATE = 100e-9
"""The time of a core for a candidate pair: grouping, and comparing two signatures of 128 slots
(measured: 50 to 75 ns with 40,000 documents, whose signatures fit into the caches)."""


class RunRequest(NamedTuple):
    """A run that is planned: its requirements, bands and expected candidates."""

    workload: Workload
    spec: Spec
    banding: Banding
    candidates: ExpectedCandidates
    rates: Rates

    @property
    def text(self) -> float:
        """The size of all texts in bytes."""
        return self.workload.documents * self.workload.document_bytes

    @property
    def keys(self) -> int:
        """The number of band keys of a document."""
        return self.banding.bands * (1 + self.banding.probes)

    @property
    def signature_bytes(self) -> int:
        """The size of a signature in bytes."""
        return int(self.spec.signature_width * np.dtype(self.spec.signature_type).itemsize)

    @property
    def verified_documents(self) -> float:
        """The number of documents that are in a verified pair."""
        return self.candidates.verified_share * self.workload.documents

    def stage_seconds(self, cores: int) -> dict[str, float]:
        """Returns the time of each stage in seconds."""
        documents = self.workload.documents
        durations = self.rates.seconds(
            documents,
            self.text,
            cores,
            keys=self.keys / REFERENCE_BANDS,
            verified=self.candidates.verified.total / 2 / REFERENCE_VERIFIED_PAIRS,
        )
        estimates = self.candidates.candidates.of_documents(documents)
        durations["candidates"] += estimates * SECONDS_PER_ESTIMATE / cores
        return durations


class _HashSizes(NamedTuple):
    """The sizes of the shingle hashes that a local run keeps, in bytes."""

    in_memory: float
    on_disk: float


def add_local(lines: PlanLines, run: RunRequest) -> None:
    """Adds disk, memory and time of a run of the local engine."""
    work = run.workload
    n = work.documents
    # keys that do not follow from the stored signature are also written while sketching
    key_copies = 2 if run.spec.truncated or run.banding.probes else 1
    per_document = (
        run.signature_bytes
        + DOCUMENT_FACTS_BYTES
        + DOCUMENT_RESULT_BYTES
        + ID_BYTES
        + 8 * run.keys * key_copies
    )
    formula = (
        f"documents · {per_document} + verified documents · 8·shingles = {n:,} · {per_document} + "
        f"{run.verified_documents:,.0f} · {8 * work.shingles}"
    )
    scratch = n * per_document + run.verified_documents * 8 * work.shingles
    lines.add("local", "work disk", scratch, "B", formula)
    hashes = _add_kept_hashes(lines, run)
    source = work.input_bytes or run.text
    kept_share = 1 - work.duplicate_share
    formula = f"inputs · kept share = {format_megabytes(source)} · {kept_share:.3g}"
    kept = lines.add("local", "output", source * kept_share, "B", formula)
    # The hashes are deleted after the verification, before the output is written.
    formula = "work disk + max(hashes on disk, output)"
    peak = scratch + max(hashes.on_disk, kept)
    lines.add("local", "disk at the peak", peak, "B", formula)
    buffers = min(TEXT_BUFFER_FACTOR * run.text, MAX_TEXT_BUFFER_BYTES)
    formula = (
        f"process + text in flight + documents · {MEMORY_PER_DOCUMENT} + hashes in memory = "
        f"{format_megabytes(PROCESS_BYTES)} + {format_megabytes(buffers)} + {n:,} · "
        f"{MEMORY_PER_DOCUMENT} + {format_megabytes(hashes.in_memory)}"
    )
    memory = PROCESS_BYTES + buffers + MEMORY_PER_DOCUMENT * n + hashes.in_memory
    lines.add("local", "memory", memory, "B", formula)
    seconds = _add_stages(lines, run)
    more_memory = name_setting("memory", f"{math.ceil(memory / 1e9)}GB")
    lines.add_limit("memory", work.memory, memory, "B", more_memory)
    lines.add_limit(
        "disk",
        work.disk,
        peak,
        "B",
        f"{peak / 1e9:,.0f} GB of disk",
        "fewer slots or bands",
        "shards deduplicated one after the other",
    )
    more_cores = ""
    if work.seconds:
        more_cores = f"{math.ceil(work.cores * seconds / work.seconds)} cores"
    lines.add_limit("time", work.seconds, seconds, "s", more_cores)


def _add_kept_hashes(lines: PlanLines, run: RunRequest) -> _HashSizes:
    if not KeptHashes.serves(run.spec):
        return _HashSizes(0.0, 0.0)
    work = run.workload
    size = work.documents * work.shingles * BYTES_PER_HASH
    limit = work.memory / KEPT_HASHES_SHARE
    hashes = _HashSizes(min(size, limit), max(size - limit, 0.0))
    formula = (
        f"min(documents · {BYTES_PER_HASH}·shingles, bound / {KEPT_HASHES_SHARE}) = "
        f"min({format_megabytes(size)}, {format_megabytes(limit)})"
    )
    lines.add("local", "hashes in memory", hashes.in_memory, "B", formula)
    formula = f"the rest of {format_megabytes(size)}"
    lines.add("local", "hashes on disk", hashes.on_disk, "B", formula)
    return hashes


def _add_stages(lines: PlanLines, run: RunRequest) -> float:
    durations = run.stage_seconds(run.workload.cores)
    for name, duration in durations.items():
        rate = run.rates.stages[name]
        formula = (
            f"{rate.fixed:.2f} + {rate.document * 1e6:.2f} µs per document + "
            f"{rate.byte * 1e9:.2f} ns per byte, measured with {run.rates.workers} threads"
        )
        if name == "candidates":
            formula += f", + {SECONDS_PER_ESTIMATE * 1e9:.0f} ns of a core per candidate pair"
        if name == "verify":
            formula += f", for {REFERENCE_VERIFIED_PAIRS:g} verified pairs per document"
        lines.add("local", f"seconds: {name}", duration, "s", formula)
    return lines.add("local", "seconds", sum(durations.values()), "s", "Σ stages")


def format_megabytes(size: float) -> str:
    """Formats a size in bytes as megabytes."""
    return f"{size / 1e6:,.0f} MB"
