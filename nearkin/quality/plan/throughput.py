"""The time that sketching takes, and the cores that a rate of new documents needs."""

import math

from nearkin.quality.plan.plan_lines import PlanLines
from nearkin.quality.plan.rates import Rates
from nearkin.quality.plan.workload import Workload
from nearkin.settings.spec import Spec
from nearkin.stages.sketch.minhash import ROUNDS


def binned_updates(shingles: float, k: int, rounds: int) -> float:
    """Returns the expected number of slot updates of a document's binned sketch.

    There are R·n updates, and n more for each of the k·(1 − 1/k)^(R·n) slots that are still empty
    (Dahlgaard, Knudsen, Thorup, FOCS 2017).

    Examples:
        >>> round(binned_updates(300, 128, 4)), round(binned_updates(20, 128, 4))
        (1203, 1447)
    """
    return rounds * shingles + k * (1 - 1 / k) ** (rounds * shingles) * shingles


def sketching_seconds(work: Workload, spec: Spec, rates: Rates) -> float:
    """Returns the time of a core for shingling and sketching a document, in seconds."""
    shingling = work.document_bytes / rates.text
    if not spec.has_slots:
        return shingling
    if spec.scheme == "classic":
        return shingling + work.shingles * spec.k / rates.classic
    return shingling + binned_updates(work.shingles, spec.k, ROUNDS) / rates.binned


def add_throughput(lines: PlanLines, work: Workload, spec: Spec, rates: Rates) -> None:
    """Adds the cores that the requested ingest needs."""
    if work.ingest is None or not spec.has_slots:
        return
    n = work.shingles
    updates = binned_updates(n, spec.k, ROUNDS)
    formula = f"ingest · shingles · k = {work.ingest:g} · {n} · {spec.k}"
    classic = lines.add("throughput", "classic updates", work.ingest * n * spec.k, "/s", formula)
    empty = updates / n - ROUNDS
    formula = f"ingest · (R·n + empty slots·n) = {work.ingest:g} · ({ROUNDS}·{n} + {empty:.2g}·{n})"
    lines.add("throughput", "binned updates", work.ingest * updates, "/s", formula)
    formula = f"ingest · bytes = {work.ingest:g} · {work.document_bytes:g}"
    text = lines.add("throughput", "text", work.ingest * work.document_bytes, "B/s", formula)
    is_classic = spec.scheme == "classic"
    rate = rates.classic if is_classic else rates.binned
    cores = work.ingest * sketching_seconds(work, spec, rates)
    formula = f"text / {rates.text / 1e6:,.0f} MB/s + {spec.scheme} updates / {rate / 1e6:,.0f} M/s"
    lines.add("throughput", "cores", cores, "", formula)
    classic_cores = text / rates.text + classic / rates.classic
    formula = f"… + classic updates / {rates.classic / 1e6:,.0f} M/s"
    lines.add("throughput", "cores with scheme classic", classic_cores, "", formula)
    other_scheme = ""
    if is_classic:
        other_scheme = "scheme binned"
    elif classic_cores < cores:
        other_scheme = "scheme classic"
    lines.add_limit(
        "cores for the ingest",
        work.cores,
        cores,
        "",
        f"{math.ceil(cores)} cores",
        f"{work.ingest * work.cores / cores:,.0f} documents/s at {work.cores} cores",
        other_scheme,
    )
