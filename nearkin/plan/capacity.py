"""Capacity from a service level: what a number of documents costs at a threshold, one line a number, each with its formula.

Sources: Broder, *On the resemblance and containment of documents* (1997) for the error of MinHash; Li, König, *b-Bit Minwise
Hashing* (WWW 2010); Dahlgaard, Knudsen, Thorup (FOCS 2017) for the updates of binned sketches.
"""

import math
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import numpy as np

from nearkin.engine.options import LEAST_MEMORY
from nearkin.errors import UsageError
from nearkin.lsh.slot_bands import Banding
from nearkin.measures import BandingRequest, Measure, measure_of
from nearkin.plan.rates import Rates, known_rates
from nearkin.plan.tune import Distribution, probabilities
from nearkin.sketch.minhash import ROUNDS
from nearkin.spec import Spec

ENGINES = ("local", "spark", "index")
YEAR = 365.25 * 86400
RESOLVED = 93
"""Bytes of an entry of the resolved cache: two ids of 22 characters and what a hash map keeps of them."""
RECORD = 64
"""Bytes of an index record beside signature and payload: ids, counts, times."""
FACTS, ORDERS = 40, 29
"""Bytes a document on disk: lengths, counts, fingerprints, places; orders, groups, blocks, clusters."""
ID = 20
PROCESS, BUFFERED, IN_FLIGHT = 200e6, 2.2, 250e6
"""Anonymous bytes of a local run: of Python, Numba and Arrow; of text being read, at most."""
IN_MEMORY = 30
"""Anonymous bytes a document of a local run."""
PARTITION = 128e6
"""Bytes of a Spark partition."""
SHUFFLED = 19
"""Bytes of a shuffled band key: key and document, which travel as arrays (measured: benchmarks/spark.json)."""
BETWEEN = 80e-6
"""Seconds of a core for a document's way between Java and Python and through intermediate tables (measured there: 98 µs of a
document of 500 bytes between 10^5 and 10^6 of them, less what the stages themselves take)."""
SHINGLE_BYTES = 5
"""Bytes of text for each shingle of words, where the text's length is not given."""


@dataclass(frozen=True)
class Workload:
    """What is asked of the system.

    Attributes:
        documents: How many.
        threshold: Similarity from which documents are near-duplicates.
        recall: Asked share of such pairs.
        ingest: Documents a second to be sketched; None where there is no hurry.
        signature_ram: Bytes for signatures in memory, at most.
        shingles: Of a document.
        clusters: Kept documents; of an index, those with postings. By default those that are no duplicates.
        engine: `local`, `spark` or `index`.
        text_bytes: Of a document; five for each shingle by default.
        input_bytes: Of the files; as much as the text by default.
        duplicates: Share of documents that are near-duplicates of others.
        error: Asked standard error of an estimate at the threshold, from which k follows; the Spec's k otherwise.
        bands: b, or solved for.
        rows: r, or solved for.
        memory: Bytes of memory, at most.
        disk: Bytes of disk, at most.
        seconds: Of a whole run, at most.
        cores: To work with.
    """

    documents: int
    threshold: float = 0.8
    recall: float = 0.95
    ingest: float | None = None
    signature_ram: float | None = None
    shingles: int = 300
    clusters: int | None = None
    engine: str = "local"
    text_bytes: float | None = None
    input_bytes: float | None = None
    duplicates: float = 0.1
    error: float | None = None
    bands: int | None = None
    rows: int | None = None
    memory: float = 4e9
    disk: float | None = None
    seconds: float | None = None
    cores: int = 2

    def __post_init__(self) -> None:
        if self.engine not in ENGINES:
            raise UsageError(f"engine {self.engine!r} is not one of {', '.join(ENGINES)}")
        least = {"documents": 1, "shingles": 1, "cores": 1, "clusters": 0, "memory": LEAST_MEMORY}
        for name, low in least.items():
            value = getattr(self, name)
            if value is not None and value < low:
                raise UsageError(f"{name}={value:g} is less than {low}")
        if not 0 <= self.duplicates < 1:
            raise UsageError(f"duplicates={self.duplicates} is not a share below 1")
        for name in ("ingest", "signature_ram", "text_bytes", "error", "disk", "seconds"):
            value = getattr(self, name)
            if value is not None and value <= 0:
                raise UsageError(f"{name}={value:g} is not more than 0")

    @property
    def size(self) -> float:
        """Bytes of a document's text."""
        return self.text_bytes or SHINGLE_BYTES * self.shingles

    @property
    def kept(self) -> int:
        """Clusters."""
        return (
            round(self.documents * (1 - self.duplicates))
            if self.clusters is None
            else self.clusters
        )


@dataclass(frozen=True)
class Line:
    """One number.

    Attributes:
        part: Of the plan: accuracy, memory, throughput, recall, brute force, or an engine's name.
        name: Of the number.
        value: In the unit.
        unit: Empty for counts.
        formula: How it comes about, with the numbers in it.
    """

    part: str
    name: str
    value: float
    unit: str
    formula: str


@dataclass(frozen=True)
class Verdict:
    """Whether a limit holds, and what would have to give where it does not."""

    limit: str
    asked: float
    needed: float
    unit: str
    holds: bool
    gives: tuple[str, ...] = ()


@dataclass(frozen=True)
class Plan:
    """Everything that follows from a workload.

    Attributes:
        workload: What was asked.
        spec: Of the signatures.
        bands: b.
        rows: r.
        rates: What the machine does, in words.
        lines: The numbers, in order.
        verdicts: One for each limit.
    """

    workload: Workload
    spec: Spec
    bands: int
    rows: int
    rates: str
    lines: tuple[Line, ...]
    verdicts: tuple[Verdict, ...]

    @property
    def fits(self) -> bool:
        """Whether every limit holds."""
        return all(verdict.holds for verdict in self.verdicts)

    def value(self, name: str) -> float:
        """Of a line, by its name.

        Raises:
            UsageError: There is no such line.
        """
        for line in self.lines:
            if line.name == name:
                return line.value
        raise UsageError(
            f"this plan has no line {name!r}; there are {', '.join(line.name for line in self.lines)}"
        )

    def settings(self) -> dict[str, Any]:
        """What `nearkin dedup --plan` runs with."""
        return {
            "measure": self.spec.measure,
            "k": self.spec.k,
            "scheme": self.spec.scheme,
            "slot_bits": self.spec.slot_bits,
            "threshold": self.workload.threshold,
            "recall": self.workload.recall,
            "bands": self.bands,
            "rows": self.rows,
            "memory": f"{self.workload.memory:.0f}",
        }

    def to_dict(self) -> dict[str, Any]:
        """JSON-able."""
        return {
            "workload": asdict(self.workload),
            "settings": self.settings(),
            "rates": self.rates,
            "lines": [asdict(line) for line in self.lines],
            "verdicts": [asdict(verdict) for verdict in self.verdicts],
            "fits": self.fits,
        }


def binned_updates(shingles: float, k: int, rounds: int) -> float:
    """Element updates of a document's binned sketch: R·n, and n for each of the k·(1 − 1/k)^(R·n) slots still empty.

    Examples:
        >>> round(binned_updates(300, 128, 4)), round(binned_updates(20, 128, 4))
        (1203, 1447)
    """
    return rounds * shingles + k * (1 - 1 / k) ** (rounds * shingles) * shingles


@dataclass
class _Book:
    """Lines and verdicts as they are reckoned."""

    lines: list[Line] = field(default_factory=list)
    verdicts: list[Verdict] = field(default_factory=list)

    def line(self, part: str, name: str, value: float, unit: str, formula: str) -> float:
        self.lines.append(Line(part, name, float(value), unit, formula))
        return float(value)

    def at_most(
        self, limit: str, asked: float | None, needed: float, unit: str, *gives: str
    ) -> None:
        if asked is not None:
            holds = needed <= asked
            self.verdicts.append(
                Verdict(
                    limit, asked, needed, unit, holds, () if holds else tuple(g for g in gives if g)
                )
            )


def plan(
    workload: Workload | int, spec: Spec | None = None, rates: Rates | None = None, **asked: Any
) -> Plan:
    """Capacity from a service level.

    Args:
        workload: What is asked; or a number of documents, with its other fields as `asked`.
        spec: Of the signatures; k and slot bits follow from the limits where it is not given.
        rates: Of a machine; this one's calibration, else the shipped one.
        **asked: Fields of Workload.

    Examples:
        >>> found = plan(300_000_000, threshold=0.85, ingest=5000, signature_ram=100e9)
        >>> round(found.value("standard error"), 3), found.value("signatures of 64-bit slots") / 1e9
        (0.032, 307.2)
        >>> found.value("classic updates") / 1e6, found.spec.slot_bits
        (192.0, 16)
    """
    work = workload if isinstance(workload, Workload) else Workload(workload, **asked)
    rates, book, given = rates or known_rates(), _Book(), spec is not None
    chosen = _accuracy(book, work, spec or Spec(), given)
    chosen = _memory(book, work, chosen, given)
    _throughput(book, work, chosen, rates)
    measure = measure_of(chosen)
    banding = _recall(book, work, measure)
    _brute_force(book, work, rates)
    {"local": _local, "index": _index, "spark": _spark}[work.engine](
        book, work, chosen, banding, rates
    )
    return Plan(
        work,
        chosen,
        banding.bands,
        banding.rows,
        rates.source,
        tuple(book.lines),
        tuple(book.verdicts),
    )


def _accuracy(book: _Book, work: Workload, spec: Spec, given: bool) -> Spec:
    j = work.threshold
    spread = j * (1 - j)
    if work.error is not None and not given:
        step, most = spec.signature_limits.k_step, spec.signature_limits.largest_k
        needed = math.ceil(spread / work.error**2)
        k = min(-(-needed // step) * step, most)
        book.line(
            "accuracy",
            "k",
            k,
            "slots",
            f"J(1−J)/SE² = {j:g}·{1 - j:.3g}/{work.error:g}² = {needed}, a multiple of {step}",
        )
        spec = replace(spec, k=k)
    else:
        book.line("accuracy", "k", spec.k, "slots", "given" if given else "the default")
    if spec.measure in ("jaccard", "weighted-jaccard"):
        formula = f"√(J(1−J)/k) = √({j:g}·{1 - j:.3g}/{spec.k})"
        error = book.line("accuracy", "standard error", math.sqrt(spread / spec.k), "", formula)
    else:
        error = measure_of(spec).estimator.standard_error(j)
        book.line(
            "accuracy",
            "standard error",
            error,
            "",
            f"of the similarity estimated from {spec.k} bits",
        )
    more = f"k ≥ {math.ceil(spread / work.error**2)}" if work.error else ""
    book.at_most("error", work.error, error, "", more)
    return spec


def _memory(book: _Book, work: Workload, spec: Spec, given: bool) -> Spec:
    n, minhash = work.documents, spec.measure in ("jaccard", "weighted-jaccard")
    if not minhash:
        size = book.line(
            "memory", "signatures", n * spec.k / 8, "B", f"documents · k / 8 = {n:,} · {spec.k} / 8"
        )
        most = (
            f"at most {work.signature_ram * 8 / spec.k:,.0f} documents"
            if work.signature_ram
            else ""
        )
        book.at_most("signature RAM", work.signature_ram, size, "B", most)
        return spec
    for width in (64, *spec.signature_limits.slot_bits):
        about = f"documents · k · bits / 8 = {n:,} · {spec.k} · {width} / 8"
        book.line("memory", f"signatures of {width}-bit slots", n * spec.k * width / 8, "B", about)
    if work.signature_ram is not None and not given:
        fitting = [
            width
            for width in spec.signature_limits.slot_bits
            if n * spec.k * width / 8 <= work.signature_ram
        ]
        spec = replace(
            spec, slot_bits=fitting[0] if fitting else spec.signature_limits.slot_bits[-1]
        )
    size = n * spec.k * spec.slot_bits / 8
    if spec.slot_bits < 32:
        error = measure_of(spec).estimator.standard_error(work.threshold)
        formula = f"√(E(1−E)/k)/(1−2^−b), E = J + (1−J)/2^b, b = {spec.slot_bits}"
        book.line("memory", f"standard error of {spec.slot_bits}-bit slots", error, "", formula)
    if work.signature_ram is not None:
        documents = work.signature_ram * 8 / (spec.k * spec.slot_bits)
        fewer = int(
            work.signature_ram
            * 8
            / (n * spec.slot_bits)
            // spec.signature_limits.k_step
            * spec.signature_limits.k_step
        )
        gives = (
            f"at most {documents:,.0f} documents at {spec.slot_bits}-bit slots",
            f"k = {fewer}, of standard error {math.sqrt(work.threshold * (1 - work.threshold) / fewer):.3f}"
            if fewer
            else "",
            f"{size / 1e9:,.1f} GB of memory, as shards of {work.signature_ram / 1e9:,.0f} GB: "
            f"{math.ceil(size / work.signature_ram)} machines",
        )
        book.at_most("signature RAM", work.signature_ram, size, "B", *gives)
    return spec


def _throughput(book: _Book, work: Workload, spec: Spec, rates: Rates) -> None:
    if work.ingest is None or spec.measure not in ("jaccard", "weighted-jaccard"):
        return
    n, each = work.shingles, binned_updates(work.shingles, spec.k, ROUNDS)
    classic = work.ingest * n * spec.k
    book.line(
        "throughput",
        "classic updates",
        classic,
        "/s",
        f"ingest · shingles · k = {work.ingest:g} · {n} · {spec.k}",
    )
    empty = each / n - ROUNDS
    formula = f"ingest · (R·n + empty slots·n) = {work.ingest:g} · ({ROUNDS}·{n} + {empty:.2g}·{n})"
    binned = book.line("throughput", "binned updates", work.ingest * each, "/s", formula)
    text = book.line(
        "throughput",
        "text",
        work.ingest * work.size,
        "B/s",
        f"ingest · bytes = {work.ingest:g} · {work.size:g}",
    )
    updates, rate = (classic, rates.classic) if spec.scheme == "classic" else (binned, rates.binned)
    shingling = text / rates.text
    formula = f"text / {rates.text / 1e6:,.0f} MB/s + {spec.scheme} updates / {rate / 1e6:,.0f} M/s"
    cores = shingling + updates / rate
    book.line("throughput", "cores", cores, "", formula)
    slower = shingling + classic / rates.classic
    book.line(
        "throughput",
        "cores, were the scheme classic",
        slower,
        "",
        f"… + classic updates / {rates.classic / 1e6:,.0f} M/s",
    )
    faster = (
        "scheme binned" if spec.scheme == "classic" else "scheme classic" if slower < cores else ""
    )
    gives = (
        f"{math.ceil(cores)} cores",
        f"{work.ingest * work.cores / cores:,.0f} documents/s at {work.cores} cores",
        faster,
    )
    book.at_most("cores for the ingest", work.cores, cores, "", *gives)


def _recall(book: _Book, work: Workload, measure: Measure) -> Banding:
    request = BandingRequest(
        work.threshold, work.recall, work.bands, work.rows, documents=work.documents
    )
    banding = measure.banding(request)
    chance = float(banding.candidate_recall)
    solved = (
        "given" if work.bands else "solved: fewest candidates among those that reach the recall"
    )
    book.line("recall", "bands", banding.bands, "", solved)
    book.line("recall", "rows", banding.rows, "", solved)
    p = float(measure.estimator.slot_collision_probability(np.array(work.threshold)))
    formula = f"1 − (1 − p^r)^b = 1 − (1 − {p:.3g}^{banding.rows})^{banding.bands}"
    book.line("recall", "P(candidate) at the threshold", chance, "", formula)
    book.line(
        "recall",
        "recall, the margin included",
        banding.recall,
        "",
        f"P(candidate) · P(at least {banding.margin} slots agree)",
    )
    unrelated = Distribution.assumed(work.documents)
    expected = float(
        (probabilities(measure, banding, unrelated.similarities) * unrelated.pairs).sum()
    )
    book.line(
        "recall",
        "candidates of a document by chance",
        expected,
        "",
        f"Σ P(candidate) · pairs, of {unrelated.source}",
    )
    book.line(
        "recall",
        "postings of a document",
        banding.bands * (1 + banding.probes),
        "",
        "b · (1 + probes)",
    )
    lower = f"recall {banding.recall:.3f}" if work.bands else ""
    holds = banding.recall >= work.recall - 1e-12
    book.verdicts.append(
        Verdict(
            "recall",
            work.recall,
            banding.recall,
            "",
            holds,
            () if holds else (lower, "bands and rows left to be solved"),
        )
    )
    return banding


def _brute_force(book: _Book, work: Workload, rates: Rates) -> None:
    n = work.documents
    pairs = book.line("brute force", "pairs", n * (n - 1) / 2, "", f"n(n−1)/2 = {n:,}·{n - 1:,}/2")
    rate = rates.exact * 250 / work.shingles
    years = pairs / rate / YEAR
    book.line(
        "brute force",
        "core-years",
        years,
        "years",
        f"pairs / {rate / 1e6:,.2f} M comparisons a second and core",
    )


def _local(book: _Book, work: Workload, spec: Spec, banding: Banding, rates: Rates) -> None:
    n, size = work.documents, work.documents * work.size
    # keys that do not follow from what is kept of a signature are written while sketching, too
    copies = 2 if spec.truncated or banding.probes else 1
    per = (
        spec.signature_width * _item(spec)
        + FACTS
        + ORDERS
        + ID
        + 8 * banding.bands * (1 + banding.probes) * copies
    )
    candidates = min(2 * work.duplicates, 1.0) * n
    payload = candidates * 8 * work.shingles
    formula = f"documents · {per} + candidates · 8·shingles = {n:,} · {per} + {candidates:,.0f} · {8 * work.shingles}"
    scratch = book.line("local", "work disk", n * per + payload, "B", formula)
    source = work.input_bytes or size
    formula = f"inputs · kept share = {_size(source)} · {1 - work.duplicates:g}"
    kept = book.line("local", "output", source * (1 - work.duplicates), "B", formula)
    peak = book.line("local", "disk at the peak", scratch + kept, "B", "work disk + output")
    buffers = min(BUFFERED * size, IN_FLIGHT)
    formula = f"process + text in flight + documents · {IN_MEMORY} = {_size(PROCESS)} + {_size(buffers)} + {n:,} · {IN_MEMORY}"
    memory = book.line("local", "memory", PROCESS + buffers + IN_MEMORY * n, "B", formula)
    stages = rates.seconds(n, size, work.cores, banding.bands * (1 + banding.probes) / 13)
    for name, seconds in stages.items():
        rate = rates.stages[name]
        variable = f"{rate.document * 1e6:.2f} µs a document + {rate.byte * 1e9:.2f} ns a byte"
        formula = f"{rate.fixed:.2f} + {variable}, measured with {rates.workers} threads"
        book.line("local", f"seconds: {name}", seconds, "s", formula)
    seconds = book.line("local", "seconds", sum(stages.values()), "s", "Σ stages")
    book.at_most(
        "memory", work.memory, memory, "B", f"--memory {math.ceil(memory / 1e9)}GB", "engine spark"
    )
    fewer = "shards deduplicated one by one, or engine spark"
    book.at_most(
        "disk", work.disk, peak, "B", f"{peak / 1e9:,.0f} GB of disk", "fewer slots or bands", fewer
    )
    faster = f"{math.ceil(work.cores * seconds / work.seconds)} cores" if work.seconds else ""
    book.at_most("time", work.seconds, seconds, "s", faster, "engine spark")


def _item(spec: Spec) -> int:
    """Bytes of a signature's word."""
    return int(np.dtype(spec.signature_type).itemsize)


def _index(book: _Book, work: Workload, spec: Spec, banding: Banding, rates: Rates) -> None:
    clusters, b, r = work.kept, banding.bands, banding.rows
    signature, payload = spec.signature_width * _item(spec), 8 * work.shingles
    vectors = spec.unit == "vector"
    payload = 4 * spec.n if vectors else payload
    what = "4·dimensions" if vectors else "8·shingles"
    book.line(
        "index",
        "records",
        clusters,
        "",
        "clusters: leaders are stored, others are resolved to them",
    )
    formula = f"records · ({RECORD} + signature + {what}) = {clusters:,} · ({RECORD} + {signature} + {payload})"
    records = book.line(
        "index", "bytes of records", clusters * (RECORD + signature + payload), "B", formula
    )
    postings = book.line("index", "postings", clusters * b, "", f"records · b = {clusters:,} · {b}")
    book.line("index", "bytes of postings", 16 * postings, "B", "16 a posting: key and record")
    signs = spec.measure in ("simhash", "cosine")
    if signs:
        buckets = book.line(
            "index", "buckets", min(b * 2.0**r, postings), "", f"at most b · 2^r = {b} · 2^{r}"
        )
        formula = f"records / 2^r = {clusters:,} / {2**r:,}"
        inside = book.line("index", "representatives of a bucket", clusters / 2**r, "", formula)
    else:
        buckets = book.line(
            "index", "buckets", postings, "", "one for each posting: leaders seldom share a band"
        )
        inside = book.line(
            "index",
            "representatives of a bucket",
            postings / max(buckets, 1),
            "",
            "postings / buckets",
        )
    formula = f"documents · {RESOLVED} = {work.documents:,} · {RESOLVED}"
    resolved = book.line("index", "resolved cache", work.documents * RESOLVED, "B", formula)
    looked = b * inside
    network = b * 8 + looked * 20 + min(looked, 100) * (RECORD + signature) + payload
    formula = f"8·b + 20 a posting + records of at most 100 candidates + one payload, {looked:,.0f} postings"
    book.line("index", "network of a query", network, "B", formula)
    total = records + 16 * postings + resolved
    book.line("index", "memory", total, "B", "records + postings + resolved cache")
    rather = (
        f"postings on {math.ceil(total / work.memory)} shards",
        "a store on disk (sqlite, postgres)",
    )
    book.at_most("memory", work.memory, total, "B", *rather)
    if inside > 1000:
        more = math.ceil(math.log2(max(clusters, 2) / 100))
        book.verdicts.append(
            Verdict(
                "representatives of a bucket",
                1000,
                inside,
                "",
                False,
                (f"r = {more} rows: 100 of them", "max_candidates"),
            )
        )


def _spark(book: _Book, work: Workload, spec: Spec, banding: Banding, rates: Rates) -> None:
    n, b = work.documents, banding.bands * (1 + banding.probes)
    formula = f"documents · b · {SHUFFLED} = {n:,} · {b} · {SHUFFLED}"
    keys = book.line("spark", "shuffled band keys", n * b * SHUFFLED, "B", formula)
    candidates = min(2 * work.duplicates, 1.0) * n
    formula = f"candidate documents · 8·shingles = {candidates:,.0f} · {8 * work.shingles}"
    payload = book.line("spark", "shuffled payloads", candidates * 8 * work.shingles, "B", formula)
    partitions = math.ceil((keys + payload) / PARTITION)
    book.line("spark", "partitions", partitions, "", f"shuffle / {PARTITION / 1e6:.0f} MB")
    book.line(
        "spark",
        "memory of a core",
        4 * PARTITION + PROCESS,
        "B",
        "4 partitions, and Python beside the JVM",
    )
    stages = rates.seconds(n, n * work.size, 1, b / 13)
    cpu = sum(seconds for name, seconds in stages.items() if name != "start") + BETWEEN * n
    formula = f"the local engine's stages on one core, and {BETWEEN * 1e6:.0f} µs a document between Java and Python"
    hours = book.line("spark", "core-hours", cpu / 3600, "h", formula)
    seconds = book.line(
        "spark", "seconds", hours * 3600 / work.cores, "s", f"core-hours / {work.cores} cores"
    )
    more = f"{math.ceil(hours * 3600 / work.seconds)} cores" if work.seconds else ""
    book.at_most("time", work.seconds, seconds, "s", more)
    book.at_most(
        "disk",
        work.disk,
        keys + payload,
        "B",
        f"{(keys + payload) / 1e9:,.0f} GB for shuffle files over all executors",
    )


def _size(size: float) -> str:
    return f"{size / 1e6:,.0f} MB"


def by_part(plan: Plan) -> Iterator[tuple[str, list[Line]]]:
    """The lines by their part, in order."""
    parts = dict.fromkeys(line.part for line in plan.lines)
    for part in parts:
        yield part, [line for line in plan.lines if line.part == part]
