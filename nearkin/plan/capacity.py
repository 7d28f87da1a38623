"""Plans the capacity for a number of documents: memory, disk, time and accuracy.

Each number of a plan has its formula.

Sources: Broder, *On the resemblance and containment of documents* (1997) for the error of MinHash;
Li, König, *b-Bit Minwise Hashing* (WWW 2010); Dahlgaard, Knudsen, Thorup (FOCS 2017) for the
updates of binned sketches.
"""

import math
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from typing import NamedTuple, TypedDict, Unpack

import numpy as np

from nearkin.argument_types import check_arguments, check_fields
from nearkin.engine.local.kept_hashes import BYTES_PER_HASH, KeptHashes
from nearkin.engine.local.kept_hashes import MEMORY_SHARE as KEPT_HASHES_SHARE
from nearkin.engine.options import LEAST_MEMORY
from nearkin.errors import UsageError
from nearkin.lsh.slot_bands import Banding, require_bands_with_rows
from nearkin.measures import BandingRequest, Measure, measure_of
from nearkin.plan.index_sizes import (
    INDEX_SIZES,
    OWN_NAME_BYTES,
    PACKED_BYTES,
    SQLITE_PAGE_CACHE,
    IndexShape,
    IndexSize,
)
from nearkin.plan.rates import Rates, known_rates
from nearkin.plan.tune import Distribution, candidate_probabilities
from nearkin.runtime.notebook_view import TableView, render_view
from nearkin.setting_names import name_setting
from nearkin.sketch.minhash import ROUNDS
from nearkin.spec import IDF_JACCARD, MAX_DIMENSIONS, Spec
from nearkin.suggestions import did_you_mean
from nearkin.winnowing import LEAST_TOKENS, MOST_TOKENS

ENGINES = ("local", "spark", "index")
SECONDS_PER_YEAR = 365.25 * 86400
CACHE_ENTRY_BYTES = 225
"""The size of an entry of the resolution cache: ids of 20 bytes, and rows of dictionaries."""
CACHE_ENTRIES = 480_000
"""The number of entries that fit into the resolution cache by default (`cache_bytes`)."""
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
PARTITION_BYTES = 128e6
"""The size of a Spark partition."""
SHUFFLED_KEY_BYTES = 19
"""The size of a shuffled band key: key and document, which are sent as arrays (measured with
benchmarks/spark.json)."""
SPARK_SECONDS_PER_DOCUMENT = 80e-6
"""The time of a core for moving a document between Java and Python and through intermediate tables,
in seconds (measured with benchmarks/spark.json: 98 µs for documents of 500 bytes, between 10^5 and
10^6 of them, minus the time of the stages themselves)."""
SHINGLE_BYTES = 5
"""The size of text for each shingle of words, if the size of the text is not given."""
REFERENCE_BANDS = 13
"""The number of bands with which the rates were calibrated."""
HOURS_PER_MONTH = 730
QUERY_SECONDS = 200e-6
"""The CPU time of a query of an index in memory apart from text and comparisons, in seconds
(measured: 0.25 ms for texts of 100 words)."""
MAX_COMPARED = 100
"""The number of candidates that a query compares by default (`max_candidates`)."""
MAX_REPRESENTATIVES = 1000
"""The number of representatives of a bucket above which an index is slow."""

BYTES_PER_WORD = 6
"""The size of a word with a space, in bytes, approximately."""
FINGERPRINTS_PER_PASSAGE = 4
"""The number of fingerprints that are stored for as many words as the smallest passage has."""


class WorkloadKeywords(TypedDict, total=False):
    """The requirements that `plan` takes by keyword. `Workload` documents them."""

    threshold: float
    recall: float
    ingest: float | None
    signature_ram: float | None
    shingles: int
    clusters: int | None
    engine: str
    text_bytes: float | None
    input_bytes: float | None
    duplicates: float
    error: float | None
    bands: int | None
    rows: int | None
    memory: float
    disk: float | None
    seconds: float | None
    cores: int
    precision: float | None
    latency: float | None
    core_hour_price: float | None
    gb_month_price: float | None
    store: str
    store_text: bool
    passages: int | None
    vector_dimensions: int | None
    vector_threshold: float


@dataclass(frozen=True)
class Workload:
    """The requirements of a deployment.

    Attributes:
        documents: Number of documents.
        threshold: Smallest similarity of near-duplicates.
        recall: Requested share of the near-duplicate pairs to find.
        ingest: Number of documents to sketch per second, or None if there is no requirement.
        signature_ram: Largest memory for signatures, in bytes.
        shingles: Number of shingles of a document.
        clusters: Number of kept documents, which are the representatives of an index. By default
            the documents that are not duplicates.
        engine: Engine: `local`, `spark` or `index`.
        text_bytes: Size of the text of a document. Five bytes for each shingle by default.
        input_bytes: Size of the input files. By default the size of the texts.
        duplicates: Share of the documents that are near-duplicates of others, in [0, 1).
        error: Requested standard error of an estimate at the threshold, from which k follows. The
            k of the Spec is used by default.
        bands: Number of bands. Solved by default.
        rows: Number of slots in a band. Solved by default.
        memory: Largest memory in bytes.
        disk: Largest disk space in bytes.
        seconds: Largest duration of a run in seconds.
        cores: Number of cores.
        precision: Requested share of the candidates that are near-duplicates. More slots are chosen
            for it, unless the Spec, the error or the bands are given.
        latency: Largest CPU time of a query in seconds (engine `index`).
        core_hour_price: Price of a core for an hour, in any currency.
        gb_month_price: Price of a GB for a month: of disk for runs, of memory and disk for an
            index.
        store: Store of an index: `memory`, `sqlite`, `redis`, `postgres` or `aerospike` (engine
            `index`).
        store_text: True if an index of texts stores them.
        passages: Smallest number of words of a passage that an index of texts finds, or None if it
            stores no fingerprints.
        vector_dimensions: Length of the vectors that texts have besides, or None (engine `index`).
        vector_threshold: Smallest cosine of these vectors at which documents are near-duplicates.
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
    precision: float | None = None
    latency: float | None = None
    core_hour_price: float | None = None
    gb_month_price: float | None = None
    store: str = "memory"
    store_text: bool = True
    passages: int | None = None
    vector_dimensions: int | None = None
    vector_threshold: float = 0.95

    def __post_init__(self) -> None:
        check_fields(self)
        if self.engine not in ENGINES:
            raise UsageError(
                f"unknown engine {self.engine!r}; valid engines are {', '.join(ENGINES)}"
                f"{did_you_mean(self.engine, ENGINES)}"
            )
        self._require_finite()
        if self.store not in INDEX_SIZES:
            raise UsageError(
                f"unknown store {self.store!r}; sizes are known of {', '.join(INDEX_SIZES)}"
                f"{did_you_mean(self.store, INDEX_SIZES)}"
            )
        if self.engine == "index" and self.kept > self.documents:
            raise UsageError(
                f"{name_setting('clusters', self.clusters)} is more than "
                f"the {self.documents:,} documents; give at "
                "most one for each document"
            )
        least = {"documents": 1, "shingles": 1, "cores": 1, "clusters": 0, "memory": LEAST_MEMORY}
        for name, low in least.items():
            value = getattr(self, name)
            if value is not None and value < low:
                raise UsageError(
                    f"{name_setting(name, value)} is less than {low}; give at least {low}"
                )
        if not 0 < self.threshold <= 1:
            raise UsageError(
                f"threshold {self.threshold} is out of range; it must be above 0 and at most 1"
            )
        if not 0 < self.recall < 1:
            raise UsageError(
                f"recall {self.recall} is out of range; it must be above 0 and below 1"
            )
        require_bands_with_rows(self.bands, self.rows)
        if not 0 <= self.duplicates < 1:
            raise UsageError(
                f"{name_setting('duplicates', self.duplicates)} is outside 0 to 1 (exclusive)"
            )
        if self.precision is not None and not 0 < self.precision < 1:
            raise UsageError(
                f"{name_setting('precision', self.precision)} is outside 0 to 1 (both exclusive)"
            )
        if self.latency is not None and self.engine != "index":
            raise UsageError(
                f"{name_setting('latency', self.latency)} limits the seconds of a query, and "
                f"{name_setting('engine', self.engine)} has no queries; set "
                f"{name_setting('engine', 'index')}"
            )
        self._check_vectors()
        self._check_passages()
        for name in ("core_hour_price", "gb_month_price"):
            value = getattr(self, name)
            if value is not None and value < 0:
                raise UsageError(f"{name_setting(name, value)} is negative; give 0 or more")
        for name in (
            "ingest",
            "signature_ram",
            "text_bytes",
            "error",
            "disk",
            "seconds",
            "latency",
        ):
            value = getattr(self, name)
            if value is not None and value <= 0:
                raise UsageError(
                    f"{name_setting(name, value)} is not above 0; give a positive number"
                )

    def _check_vectors(self) -> None:
        """Checks the vectors that texts have besides."""
        if self.vector_dimensions is None:
            return
        setting = name_setting("vector_dimensions", self.vector_dimensions)
        if self.engine != "index":
            second_plan = (
                f"{name_setting('engine', self.engine)} {name_setting('measure', 'cosine')} "
                f"{name_setting('dimensions', self.vector_dimensions)}"
            )
            raise UsageError(
                f"{setting} is for {name_setting('engine', 'index')}; the second measure of a run "
                "compares the vectors of the kept documents only, so plan it as a run of its own, "
                f"over their number: {second_plan}"
            )
        if not 1 <= self.vector_dimensions <= MAX_DIMENSIONS:
            raise UsageError(f"{setting} is out of range; it must be 1 to {MAX_DIMENSIONS:,}")
        if not 0 < self.vector_threshold <= 1:
            raise UsageError(
                f"{name_setting('vector_threshold', self.vector_threshold)} is out of range; it "
                "must be above 0 and at most 1"
            )

    def _check_passages(self) -> None:
        """Checks the smallest number of words of a passage."""
        if self.passages is None:
            return
        setting = name_setting("passages", self.passages)
        if self.engine != "index" or not self.store_text or self.vector_dimensions is not None:
            raise UsageError(
                f"{setting} is for an index that stores texts, without vectors; set "
                f"{name_setting('engine', 'index')}, or leave it out"
            )
        if not LEAST_TOKENS <= self.passages <= MOST_TOKENS:
            raise UsageError(
                f"{setting} is out of range; it must be {LEAST_TOKENS} to {MOST_TOKENS:,}"
            )

    def _require_finite(self) -> None:
        """Refuses numbers that are infinite or not a number, with which no plan has a meaning."""
        for name, value in vars(self).items():
            if isinstance(value, float) and not math.isfinite(value):
                raise UsageError(f"{name_setting(name, value)} is not a finite number")

    @property
    def document_bytes(self) -> float:
        """The size of a document's text in bytes."""
        return self.text_bytes or SHINGLE_BYTES * self.shingles

    @property
    def kept(self) -> int:
        """The number of kept documents."""
        if self.clusters is not None:
            return self.clusters
        return round(self.documents * (1 - self.duplicates))


@dataclass(frozen=True)
class Line:
    """One number of a plan.

    Attributes:
        part: Part of the plan: accuracy, memory, throughput, recall, brute force, or the name of an
            engine.
        name: Name of the number.
        value: The number.
        unit: Unit of the number. Empty for counts.
        formula: Formula of the number, with the values that it uses.
    """

    part: str
    name: str
    value: float
    unit: str
    formula: str


@dataclass(frozen=True)
class LimitVerdict:
    """The comparison of a limit with what the plan needs.

    Attributes:
        limit: Name of the limit.
        asked: Requested value.
        needed: Value that the plan needs or reaches.
        unit: Unit of both values. Empty for counts.
        holds: True if the limit is met.
        gives: Alternatives that would meet the limit, if it is not met.
    """

    limit: str
    asked: float
    needed: float
    unit: str
    holds: bool
    gives: tuple[str, ...] = ()


class PlannedSettings(TypedDict):
    """The settings of a plan, as `nearkin dedup --plan` reads them. The memory is a text."""

    measure: str
    k: int
    scheme: str | None
    slot_bits: int
    threshold: float
    recall: float
    bands: int
    rows: int
    memory: str


@dataclass(frozen=True, repr=False)
class Plan:
    """The capacity that a workload needs.

    Attributes:
        workload: Requirements.
        spec: Spec of the signatures.
        bands: Number of bands.
        rows: Number of slots in a band.
        rates: Origin of the machine's speed, in words.
        lines: Numbers of the plan, in order.
        verdicts: One verdict for each limit.
    """

    workload: Workload
    spec: Spec
    bands: int
    rows: int
    rates: str
    lines: tuple[Line, ...]
    verdicts: tuple[LimitVerdict, ...]

    def __repr__(self) -> str:
        missed = sum(not verdict.holds for verdict in self.verdicts)
        return (
            f"<Plan: {self.workload.documents:,} documents, {self.bands} bands of {self.rows} "
            f"rows, k={self.spec.k}, {missed} of {len(self.verdicts)} limits not met>"
        )

    def _repr_html_(self) -> str:
        numbers = {
            "documents": self.workload.documents,
            "bands": f"{self.bands} of {self.rows} rows",
            "signature": f"k={self.spec.k}",
        }
        limits = [
            (verdict.limit, verdict.asked, verdict.needed, verdict.unit, verdict.holds)
            for verdict in self.verdicts
        ]
        lines = [(line.part, line.name, line.value, line.unit, line.formula) for line in self.lines]
        return render_view(
            "Plan",
            numbers,
            [],
            [
                TableView("limits", ("limit", "requested", "needed", "unit", "met"), limits),
                TableView("numbers", ("part", "name", "value", "unit", "formula"), lines),
            ],
        )

    @property
    def fits(self) -> bool:
        """True if all limits are met."""
        return all(verdict.holds for verdict in self.verdicts)

    def value(self, name: str) -> float:
        """Returns the value of a line.

        Args:
            name: Name of the line.

        Raises:
            UsageError: If there is no line with this name.
        """
        for line in self.lines:
            if line.name == name:
                return line.value
        names = ", ".join(line.name for line in self.lines)
        raise UsageError(f"unknown line {name!r} of a plan; its lines are {names}")

    def settings(self) -> PlannedSettings:
        """Returns the settings that `nearkin dedup --plan` uses."""
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

    def to_dict(self) -> dict[str, object]:
        """Returns the plan as a JSON object."""
        return {
            "workload": asdict(self.workload),
            "settings": self.settings(),
            "rates": self.rates,
            "lines": [asdict(line) for line in self.lines],
            "verdicts": [asdict(verdict) for verdict in self.verdicts],
            "fits": self.fits,
        }


def binned_updates(shingles: float, k: int, rounds: int) -> float:
    """Returns the expected number of slot updates of a document's binned sketch.

    There are R·n updates, and n more for each of the k·(1 − 1/k)^(R·n) slots that are still empty.

    Args:
        shingles: Number of shingles n of the document.
        k: Number of slots.
        rounds: Number of rounds R.

    Examples:
        >>> round(binned_updates(300, 128, 4)), round(binned_updates(20, 128, 4))
        (1203, 1447)
    """
    return rounds * shingles + k * (1 - 1 / k) ** (rounds * shingles) * shingles


def candidate_precision(duplicates: float, recall: float, by_chance: float) -> float:
    """Returns the expected share of candidate pairs that are near-duplicates.

    Each duplicate has at least one pair. A candidate by chance is counted at both documents.

    Args:
        duplicates: Share of the documents that are near-duplicates of others, in [0, 1).
        recall: Candidate probability of near-duplicates, in [0, 1].
        by_chance: Expected number of unrelated candidates of a document.

    Examples:
        >>> candidate_precision(0.1, 1.0, 0.2)
        0.5
    """
    true = duplicates * recall
    total = true + by_chance / 2
    return true / total if total else 1.0


def smallest_precise_k(workload: Workload) -> int:
    """Returns the smallest doubled k whose solved bands reach the requested precision.

    Args:
        workload: Requirements of a deployment, with a precision.

    Returns:
        The default k, or two, four or eight times as many slots. The largest k if none suffices.
    """
    assert workload.precision is not None
    spec = Spec()
    unrelated = Distribution.assumed(workload.documents)
    k = spec.k
    while k < spec.signature_limits.largest_k:
        measure = measure_of(replace(spec, k=k))
        request = BandingRequest(workload.threshold, workload.recall, documents=workload.documents)
        banding = measure.banding(request)
        probabilities = candidate_probabilities(measure, banding, unrelated.similarities)
        by_chance = float((probabilities * unrelated.pairs).sum())
        recall = banding.candidate_recall
        if candidate_precision(workload.duplicates, recall, by_chance) >= workload.precision:
            break
        k *= 2
    return k


def choose_signature(workload: Workload) -> Spec:
    """Returns the Spec with the widest slots whose signatures fit into the memory for them.

    Slots of fewer bits need more slots for the same standard error, so k and the slot bits are
    chosen together. If no choice fits, the smallest signature is returned, and the plan says that
    the limit is not met.

    Args:
        workload: Requirements of a deployment.

    Examples:
        >>> spec = choose_signature(Workload(300_000_000, 0.85, error=0.03, signature_ram=16e9))
        >>> spec.k, spec.slot_bits
        (200, 2)
    """
    default = Spec()
    if workload.precision is not None and workload.error is None and workload.bands is None:
        default = replace(default, k=smallest_precise_k(workload))
    limits = default.signature_limits
    choices = []
    for width in limits.slot_bits:
        spec = replace(default, slot_bits=width)
        if workload.error is not None:
            slots = _slots_for_error(spec, workload)
            k = min(-(-slots // limits.k_step) * limits.k_step, limits.largest_k)
            spec = replace(spec, k=k)
        choices.append(spec)
    limit = workload.signature_ram
    for spec in choices:
        if limit is None or workload.documents * spec.k * spec.slot_bits / 8 <= limit:
            return spec
    return min(choices, key=lambda spec: spec.k * spec.slot_bits)


def _agreement(spec: Spec, similarity: float) -> float:
    """Returns the probability that one kept slot agrees."""
    return measure_of(spec).estimator.expected_agreements(similarity) / spec.k


def _slots_for_error(spec: Spec, workload: Workload) -> int:
    """Returns the number of slots with which an estimate has the requested standard error."""
    assert workload.error is not None
    single = measure_of(spec).estimator.standard_error(workload.threshold) * math.sqrt(spec.k)
    # The quotient of two rounded numbers must not add a slot.
    return math.ceil((single / workload.error) ** 2 * (1 - 1e-12))


class _IndexBuckets(NamedTuple):
    """The expected buckets of an online index."""

    occupied: float
    """The number of buckets with at least one posting."""
    representatives: float
    """The number of representatives of a bucket."""


class _HashSizes(NamedTuple):
    """The sizes of the shingle hashes that a local run keeps, in bytes."""

    in_memory: float
    on_disk: float


class _PlanBuilder:
    """Collects the lines and verdicts of a plan while they are computed.

    The methods that add a part of the plan are called in the order of its parts.
    """

    def __init__(self, workload: Workload, rates: Rates) -> None:
        self.workload = workload
        self.rates = rates
        self.lines: list[Line] = []
        self.verdicts: list[LimitVerdict] = []

    def add_line(self, part: str, name: str, value: float, unit: str, formula: str) -> float:
        """Adds a line to the plan. Returns its value.

        Args:
            part: Part of the plan, for example `memory`.
            name: What the line computes.
            value: The value.
            unit: Unit of the value.
            formula: How the value is computed.
        """
        self.lines.append(Line(part, name, float(value), unit, formula))
        return float(value)

    def add_limit(
        self, limit: str, asked: float | None, needed: float, unit: str, *alternatives: str
    ) -> None:
        """Adds the verdict on an upper limit, if there is one.

        Args:
            limit: Name of the limit.
            asked: The limit, or None if there is none.
            needed: What the workload needs.
            unit: Unit of both values.
            *alternatives: What helps if the limit is exceeded. Empty texts are dropped.
        """
        if asked is None:
            return
        holds = needed <= asked
        gives = () if holds else tuple(text for text in alternatives if text)
        self.verdicts.append(LimitVerdict(limit, asked, needed, unit, holds, gives))

    def add_accuracy(self, spec: Spec, *, is_given: bool) -> None:
        """Adds the number of slots and the standard error of an estimate."""
        work = self.workload
        j = work.threshold
        is_derived = work.error is not None and not is_given
        origin = "given" if is_given else "the default"
        if not is_given and spec.k != Spec().k:
            origin = f"the default of {Spec().k}, doubled up to the precision or to the maximum"
        if is_derived:
            needed = _slots_for_error(spec, work)
            step = spec.signature_limits.k_step
            scaling = f"/(1−2^−{spec.slot_bits})²" if spec.truncated else ""
            origin = (
                f"E(1−E){scaling}/SE², E = {_agreement(spec, j):.4g}, SE = {work.error:g}: "
                f"{needed}, a multiple of {step}"
            )
        self.add_line("accuracy", "k", spec.k, "slots", origin)
        whole = replace(spec, slot_bits=spec.signature_limits.slot_bits[0])
        error = measure_of(whole).estimator.standard_error(j)
        if spec.has_slots:
            formula = f"√(J(1−J)/k) = √({j:g}·{1 - j:.3g}/{spec.k})"
        else:
            formula = f"of the similarity estimated from {spec.k} bits"
        self.add_line("accuracy", "standard error", error, "", formula)
        reached = measure_of(spec).estimator.standard_error(j)
        larger_k = ""
        if work.error and spec.has_slots:
            larger_k = f"k ≥ {_slots_for_error(spec, work)}"
        self.add_limit("error", work.error, reached, "", larger_k)

    def add_signature_memory(self, spec: Spec) -> None:
        """Adds the size of the signatures, and the verdict on the memory for them."""
        work = self.workload
        n = work.documents
        limit = work.signature_ram
        if not spec.has_slots:
            formula = f"documents · k / 8 = {n:,} · {spec.k} / 8"
            size = self.add_line("memory", "signatures", n * spec.k / 8, "B", formula)
            fewer = f"at most {limit * 8 / spec.k:,.0f} documents" if limit else ""
            self.add_limit("signature RAM", limit, size, "B", fewer)
            return
        for width in (64, *spec.signature_limits.slot_bits):
            formula = f"documents · k · bits / 8 = {n:,} · {spec.k} · {width} / 8"
            name = f"signatures of {width}-bit slots"
            self.add_line("memory", name, n * spec.k * width / 8, "B", formula)
        size = n * spec.k * spec.slot_bits / 8
        if spec.slot_bits < 32:
            error = measure_of(spec).estimator.standard_error(work.threshold)
            formula = f"√(E(1−E)/k)/(1−2^−b), E = J + (1−J)/2^b, b = {spec.slot_bits}"
            name = f"standard error of {spec.slot_bits}-bit slots"
            self.add_line("memory", name, error, "", formula)
        if limit is not None:
            self.add_limit(
                "signature RAM", limit, size, "B", *self._signature_alternatives(spec, size, limit)
            )

    def _signature_alternatives(self, spec: Spec, size: float, limit: float) -> tuple[str, ...]:
        work = self.workload
        documents = limit * 8 / (spec.k * spec.slot_bits)
        step = spec.signature_limits.k_step
        fewer_slots = int(limit * 8 / (work.documents * spec.slot_bits) // step * step)
        smaller_k = ""
        if fewer_slots:
            smaller = replace(spec, k=min(fewer_slots, spec.signature_limits.largest_k))
            error = measure_of(smaller).estimator.standard_error(work.threshold)
            smaller_k = f"k = {smaller.k}, with a standard error of {error:.3f}"
        return (
            f"at most {documents:,.0f} documents at {spec.slot_bits}-bit slots",
            smaller_k,
            f"{size / 1e9:,.1f} GB of memory, as shards of {limit / 1e9:,.0f} GB on "
            f"{math.ceil(size / limit)} machines",
        )

    def add_throughput(self, spec: Spec) -> None:
        """Adds the cores that the requested ingest needs."""
        work = self.workload
        rates = self.rates
        if work.ingest is None or not spec.has_slots:
            return
        n = work.shingles
        updates = binned_updates(n, spec.k, ROUNDS)
        formula = f"ingest · shingles · k = {work.ingest:g} · {n} · {spec.k}"
        classic = self.add_line(
            "throughput", "classic updates", work.ingest * n * spec.k, "/s", formula
        )
        empty = updates / n - ROUNDS
        formula = (
            f"ingest · (R·n + empty slots·n) = {work.ingest:g} · ({ROUNDS}·{n} + {empty:.2g}·{n})"
        )
        binned = self.add_line("throughput", "binned updates", work.ingest * updates, "/s", formula)
        formula = f"ingest · bytes = {work.ingest:g} · {work.document_bytes:g}"
        text = self.add_line(
            "throughput", "text", work.ingest * work.document_bytes, "B/s", formula
        )
        shingling = text / rates.text
        is_classic = spec.scheme == "classic"
        rate = rates.classic if is_classic else rates.binned
        cores = shingling + (classic if is_classic else binned) / rate
        formula = (
            f"text / {rates.text / 1e6:,.0f} MB/s + {spec.scheme} updates / {rate / 1e6:,.0f} M/s"
        )
        self.add_line("throughput", "cores", cores, "", formula)
        classic_cores = shingling + classic / rates.classic
        formula = f"… + classic updates / {rates.classic / 1e6:,.0f} M/s"
        self.add_line("throughput", "cores with scheme classic", classic_cores, "", formula)
        other_scheme = ""
        if is_classic:
            other_scheme = "scheme binned"
        elif classic_cores < cores:
            other_scheme = "scheme classic"
        self.add_limit(
            "cores for the ingest",
            work.cores,
            cores,
            "",
            f"{math.ceil(cores)} cores",
            f"{work.ingest * work.cores / cores:,.0f} documents/s at {work.cores} cores",
            other_scheme,
        )

    def add_recall(self, measure: Measure) -> Banding:
        """Adds bands, rows and recall, and returns the banding."""
        work = self.workload
        request = BandingRequest(
            work.threshold, work.recall, work.bands, work.rows, documents=work.documents
        )
        banding = measure.banding(request)
        origin = "solved: fewest candidates among the choices that reach the recall"
        if work.bands:
            origin = "given"
        self.add_line("recall", "bands", banding.bands, "", origin)
        self.add_line("recall", "rows", banding.rows, "", origin)
        p = float(measure.estimator.slot_collision_probability(np.array(work.threshold)))
        formula = f"1 − (1 − p^r)^b = 1 − (1 − {p:.3g}^{banding.rows})^{banding.bands}"
        probability = float(banding.candidate_recall)
        self.add_line("recall", "P(candidate) at the threshold", probability, "", formula)
        formula = f"P(candidate) · P(at least {banding.margin} slots agree)"
        self.add_line("recall", "recall, the margin included", banding.recall, "", formula)
        unrelated = Distribution.assumed(work.documents)
        probabilities = candidate_probabilities(measure, banding, unrelated.similarities)
        expected = float((probabilities * unrelated.pairs).sum())
        formula = f"Σ P(candidate) · pairs, of {unrelated.source}"
        self.add_line("recall", "candidates of a document by chance", expected, "", formula)
        self._add_precision(measure.spec, banding, expected)
        postings = banding.bands * (1 + banding.probes)
        self.add_line("recall", "postings of a document", postings, "", "b · (1 + probes)")
        holds = banding.recall >= work.recall - 1e-12
        gives: tuple[str, ...] = ()
        if not holds:
            lower = f"recall {banding.recall:.3f}" if work.bands else ""
            gives = (lower, "solved bands and rows")
        self.verdicts.append(LimitVerdict("recall", work.recall, banding.recall, "", holds, gives))
        return banding

    def _add_precision(self, spec: Spec, banding: Banding, by_chance: float) -> None:
        """Adds the share of the candidates that are near-duplicates."""
        work = self.workload
        precision = candidate_precision(work.duplicates, banding.candidate_recall, by_chance)
        formula = (
            "duplicates · P(candidate) / (duplicates · P(candidate) + candidates by chance / 2)"
        )
        self.add_line("recall", "precision of candidates", precision, "", formula)
        if work.precision is None:
            return
        holds = precision >= work.precision
        gives: tuple[str, ...] = ()
        if not holds:
            larger_k = "more slots (k)" if spec.k < spec.signature_limits.largest_k else ""
            gives = tuple(text for text in (larger_k, "a higher threshold") if text)
        self.verdicts.append(LimitVerdict("precision", work.precision, precision, "", holds, gives))

    def add_latency(self, spec: Spec, banding: Banding) -> None:
        """Adds the CPU time of a query, without the network and the round trips of a store."""
        work = self.workload
        if work.engine != "index" or spec.measure == IDF_JACCARD:
            return
        rates = self.rates
        if spec.has_slots:
            updates = binned_updates(work.shingles, spec.k, ROUNDS)
            rate = rates.binned
            if spec.scheme == "classic":
                updates = work.shingles * spec.k
                rate = rates.classic
            sketching = work.document_bytes / rates.text + updates / rate
        else:
            sketching = work.document_bytes / rates.text
        # A comparison takes time in proportion to the shingles; the rate is that of 250.
        comparison = work.shingles / 250 / rates.exact
        seconds = QUERY_SECONDS + sketching + MAX_COMPARED * comparison
        formula = (
            f"{QUERY_SECONDS * 1e6:.0f} µs + sketching {sketching * 1e6:.0f} µs + at most "
            f"{MAX_COMPARED} comparisons of {comparison * 1e6:.2f} µs, in memory"
        )
        self.add_line("index", "CPU of a query", seconds, "s", formula)
        self.add_limit(
            "latency", work.latency, seconds, "s", "fewer slots (k)", "a lower max_candidates"
        )

    def add_price(self) -> None:
        """Adds the price of a run, or of an index for a month."""
        work = self.workload
        if work.core_hour_price is None and work.gb_month_price is None:
            return
        per_hour = work.core_hour_price or 0.0
        per_month = work.gb_month_price or 0.0
        amounts = {line.name: line.value for line in self.lines if line.part == work.engine}
        if work.engine == "index":
            size = (amounts["memory"] + amounts["disk"]) / 1e9
            hours = float(work.cores * HOURS_PER_MONTH)
            months = 1.0
            name = "price of a month"
        else:
            size = amounts.get("disk at the peak", amounts.get("shuffled band keys", 0.0)) / 1e9
            if work.engine == "spark":
                size += amounts["shuffled payloads"] / 1e9
            duration = amounts["seconds"] / 3600
            hours = work.cores * duration
            months = duration / HOURS_PER_MONTH
            name = "price of a run"
        price = hours * per_hour + size * months * per_month
        formula = (
            f"core hours · {per_hour:g} + GB · months · {per_month:g} = {hours:,.4g} · "
            f"{per_hour:g} + {size:,.4g} · {months:.3g} · {per_month:g}"
        )
        self.add_line("price", name, price, "", formula)

    def add_brute_force(self) -> None:
        """Adds the cost of comparing all pairs."""
        n = self.workload.documents
        formula = f"n(n−1)/2 = {n:,}·{n - 1:,}/2"
        pairs = self.add_line("brute force", "pairs", n * (n - 1) / 2, "", formula)
        rate = self.rates.exact * 250 / self.workload.shingles
        formula = f"pairs / {rate / 1e6:,.2f} M comparisons per second and core"
        years = pairs / rate / SECONDS_PER_YEAR
        self.add_line("brute force", "core-years", years, "years", formula)

    def add_local(self, spec: Spec, banding: Banding) -> None:
        """Adds disk, memory and time of a run of the local engine."""
        work = self.workload
        n = work.documents
        text = n * work.document_bytes
        keys = banding.bands * (1 + banding.probes)
        # keys that do not follow from the stored signature are also written while sketching
        key_copies = 2 if spec.truncated or banding.probes else 1
        per_document = (
            _signature_bytes(spec)
            + DOCUMENT_FACTS_BYTES
            + DOCUMENT_RESULT_BYTES
            + ID_BYTES
            + 8 * keys * key_copies
        )
        candidates = self._candidate_documents()
        formula = (
            f"documents · {per_document} + candidates · 8·shingles = {n:,} · {per_document} + "
            f"{candidates:,.0f} · {8 * work.shingles}"
        )
        scratch = n * per_document + candidates * 8 * work.shingles
        self.add_line("local", "work disk", scratch, "B", formula)
        hashes = self._add_kept_hashes(spec)
        source = work.input_bytes or text
        formula = f"inputs · kept share = {_megabytes(source)} · {1 - work.duplicates:g}"
        kept = self.add_line("local", "output", source * (1 - work.duplicates), "B", formula)
        # The hashes are deleted after the verification, before the output is written.
        formula = "work disk + max(hashes on disk, output)"
        peak = scratch + max(hashes.on_disk, kept)
        self.add_line("local", "disk at the peak", peak, "B", formula)
        buffers = min(TEXT_BUFFER_FACTOR * text, MAX_TEXT_BUFFER_BYTES)
        formula = (
            f"process + text in flight + documents · {MEMORY_PER_DOCUMENT} + hashes in memory = "
            f"{_megabytes(PROCESS_BYTES)} + {_megabytes(buffers)} + {n:,} · {MEMORY_PER_DOCUMENT} "
            f"+ {_megabytes(hashes.in_memory)}"
        )
        memory = PROCESS_BYTES + buffers + MEMORY_PER_DOCUMENT * n + hashes.in_memory
        self.add_line("local", "memory", memory, "B", formula)
        durations = self.rates.seconds(n, text, work.cores, keys / REFERENCE_BANDS)
        for name, duration in durations.items():
            rate = self.rates.stages[name]
            formula = (
                f"{rate.fixed:.2f} + {rate.document * 1e6:.2f} µs per document + "
                f"{rate.byte * 1e9:.2f} ns per byte, measured with {self.rates.workers} threads"
            )
            self.add_line("local", f"seconds: {name}", duration, "s", formula)
        seconds = self.add_line("local", "seconds", sum(durations.values()), "s", "Σ stages")
        more_memory = name_setting("memory", f"{math.ceil(memory / 1e9)}GB")
        self.add_limit("memory", work.memory, memory, "B", more_memory, "engine spark")
        self.add_limit(
            "disk",
            work.disk,
            peak,
            "B",
            f"{peak / 1e9:,.0f} GB of disk",
            "fewer slots or bands",
            "shards deduplicated one after the other, or engine spark",
        )
        more_cores = ""
        if work.seconds:
            more_cores = f"{math.ceil(work.cores * seconds / work.seconds)} cores"
        self.add_limit("time", work.seconds, seconds, "s", more_cores, "engine spark")

    def _add_kept_hashes(self, spec: Spec) -> _HashSizes:
        """Adds the sizes of the shingle hashes that a run keeps for the verification."""
        if not KeptHashes.serves(spec):
            return _HashSizes(0.0, 0.0)
        work = self.workload
        size = work.documents * work.shingles * BYTES_PER_HASH
        limit = work.memory / KEPT_HASHES_SHARE
        hashes = _HashSizes(min(size, limit), max(size - limit, 0.0))
        formula = (
            f"min(documents · {BYTES_PER_HASH}·shingles, bound / {KEPT_HASHES_SHARE}) = "
            f"min({_megabytes(size)}, {_megabytes(limit)})"
        )
        self.add_line("local", "hashes in memory", hashes.in_memory, "B", formula)
        formula = f"the rest of {_megabytes(size)}"
        self.add_line("local", "hashes on disk", hashes.on_disk, "B", formula)
        return hashes

    def add_index(self, spec: Spec, banding: Banding) -> None:
        """Adds memory, disk and network traffic of an online index."""
        work = self.workload
        keys = banding.bands * (1 + banding.probes)
        signature = _signature_bytes(spec)
        payload = self._payload_bytes(spec)
        has_texts = work.store_text and spec.unit != "vector"
        content = work.document_bytes if has_texts else payload
        buckets = self._add_index_counts(spec, banding, keys)
        shape = IndexShape(
            documents=work.documents,
            representatives=work.kept,
            content=signature + content,
            member_content=content if has_texts else 0,
            keys=keys,
            buckets=buckets.occupied,
        )
        if work.vector_dimensions is not None:
            shape = self._add_vectors(shape, content, work.vector_dimensions)
        if work.passages is not None:
            shape = self._add_passages(shape, spec, work.passages)
        size = INDEX_SIZES[work.store](shape)
        kept = "text" if has_texts else "payload"
        formula = (
            f"{work.kept:,} representatives with signature {signature} and {kept} {content:,.0f}"
            f"{_describe_vectors(work)}, {shape.members:,} others with "
            f"{shape.member_content:,.0f}, as {work.store} stores them"
        )
        self.add_line("index", "bytes of records", size.records, "B", formula)
        formula = f"as {work.store} stores them"
        if work.store == "sqlite":
            formula = "in the records"
        self.add_line("index", "bytes of postings", size.postings, "B", formula)
        formula = (
            f"min(documents, {CACHE_ENTRIES:,}) · {CACHE_ENTRY_BYTES}, with the default settings"
        )
        cached = min(work.documents, CACHE_ENTRIES)
        cache = self.add_line("index", "resolved cache", cached * CACHE_ENTRY_BYTES, "B", formula)
        read = banding.bands * buckets.representatives
        record = PACKED_BYTES + OWN_NAME_BYTES + shape.content
        network = banding.bands * 8 + read * 20 + min(read, MAX_COMPARED) * record + payload
        formula = (
            f"8·b + 20 per posting + records of at most {MAX_COMPARED} candidates + one payload, "
            f"{read:,.0f} postings"
        )
        self.add_line("index", "network of a query", network, "B", formula)
        disk = size.total if size.on_disk else 0.0
        formula = f"records + postings in {work.store}" if disk else f"none over {work.store}"
        self.add_line("index", "disk", disk, "B", formula)
        total, formula = self._index_memory(size, cache)
        self.add_line("index", "memory", total, "B", formula)
        self._add_index_limits(total, disk, buckets.representatives)

    def _add_index_counts(self, spec: Spec, banding: Banding, keys: int) -> _IndexBuckets:
        """Adds the numbers of documents, postings and buckets of an online index.

        Args:
            spec: Spec of the signatures.
            banding: Bands and rows of the index.
            keys: Number of band keys of a representative.

        Returns:
            The buckets.
        """
        work = self.workload
        clusters = work.kept
        bands = banding.bands
        rows = banding.rows
        self.add_line("index", "records", work.documents, "", "one for each document")
        formula = "clusters: documents that others are resolved to"
        self.add_line("index", "representatives", clusters, "", formula)
        formula = f"representatives · keys = {clusters:,} · {keys}"
        postings = self.add_line("index", "postings", clusters * keys, "", formula)
        if not spec.has_slots:
            formula = f"at most b · 2^r = {bands} · 2^{rows}"
            # Rows of a long signature have more buckets than a float can hold.
            buckets = self.add_line(
                "index", "buckets", float(min(bands * 2**rows, round(postings))), "", formula
            )
            formula = f"representatives / 2^r = {clusters:,} / 2^{rows}"
            per_bucket = clusters / 2**rows
            occupied = buckets * -math.expm1(-postings / buckets) if buckets else 0.0
        else:
            formula = "one for each posting: representatives seldom share a band"
            occupied = self.add_line("index", "buckets", postings, "", formula)
            formula = "postings / buckets"
            per_bucket = postings / max(postings, 1)
        self.add_line("index", "representatives of a bucket", per_bucket, "", formula)
        return _IndexBuckets(occupied, per_bucket)

    def _add_index_limits(self, memory: float, disk: float, representatives: float) -> None:
        """Adds what an online index needs beside the limits of the workload.

        Args:
            memory: Memory of the index, in bytes.
            disk: Disk space of the index, in bytes.
            representatives: Expected number of representatives of a bucket.
        """
        work = self.workload
        self.add_limit(
            "memory",
            work.memory,
            memory,
            "B",
            f"postings on {math.ceil(memory / work.memory)} shards",
            "store postgres" if disk else "a store on disk (sqlite, postgres)",
        )
        self.add_limit("disk", work.disk, disk, "B", f"{disk / 1e9:,.0f} GB of disk")
        if representatives > MAX_REPRESENTATIVES:
            more_rows = math.ceil(math.log2(max(work.kept, 2) / 100))
            self.add_limit(
                "representatives of a bucket",
                MAX_REPRESENTATIVES,
                representatives,
                "",
                f"r = {more_rows} rows, with 100 representatives in a bucket",
                "max_candidates",
            )

    def _add_vectors(self, shape: IndexShape, content: float, dimensions: int) -> IndexShape:
        """Returns the shape of an index whose texts have vectors besides.

        All documents of such an index keep their text or its shingles, and their vector.

        Args:
            shape: Shape with the texts alone.
            content: Size of the text or its shingles, in bytes.
            dimensions: Length of the vectors.
        """
        work = self.workload
        spec = Spec(measure="cosine", unit="vector", n=dimensions)
        request = BandingRequest(work.vector_threshold, work.recall, documents=work.documents)
        banding = measure_of(spec).banding(request)
        keys = banding.bands * (1 + banding.probes)
        formula = f"representatives · keys of vectors = {shape.representatives:,} · {keys}"
        postings = self.add_line(
            "index", "postings of vectors", shape.representatives * keys, "", formula
        )
        places = min(banding.bands * 2.0**banding.rows, max(postings, 1))
        vector = 4.0 * dimensions
        return IndexShape(
            documents=shape.documents,
            representatives=shape.representatives,
            content=shape.content + _signature_bytes(spec) + vector,
            member_content=content + vector,
            keys=shape.keys + keys,
            buckets=shape.buckets + places * -math.expm1(-postings / places),
        )

    def _add_passages(self, shape: IndexShape, spec: Spec, least: int) -> IndexShape:
        """Returns the shape of an index that has the fingerprints of all of its texts.

        Args:
            shape: Shape without them.
            spec: Spec of the signatures.
            least: Smallest number of words of a passage.

        Raises:
            UsageError: If the documents are vectors.
        """
        if spec.unit == "vector":
            raise UsageError(
                f"{name_setting('passages', least)} is for texts, and these documents are vectors; "
                "leave it out"
            )
        words = self.workload.document_bytes / BYTES_PER_WORD
        if words >= least:
            own = FINGERPRINTS_PER_PASSAGE * words / least
            formula = (
                f"documents · {FINGERPRINTS_PER_PASSAGE} · words / {least} = "
                f"{shape.documents:,} · {FINGERPRINTS_PER_PASSAGE} · {words:,.0f} / {least}, with "
                f"{BYTES_PER_WORD} bytes a word"
            )
        else:
            own = 0.0
            formula = f"none: a document of {words:,.0f} words has no passage of {least}"
        postings = self.add_line(
            "index", "postings of passages", shape.documents * own, "", formula
        )
        return replace(shape, fingerprints=postings, buckets=shape.buckets + postings)

    def _payload_bytes(self, spec: Spec) -> float:
        """Returns the size of what exact comparison needs of a document."""
        columns = measure_of(spec).column_types
        row_bytes = sum(np.dtype(kind).itemsize * (width or 1) for kind, width in columns)
        return row_bytes if spec.unit == "vector" else row_bytes * self.workload.shingles

    def _index_memory(self, size: IndexSize, cache: float) -> tuple[float, str]:
        """Returns the memory of an index: of the process, and of a server that keeps it in memory.

        Args:
            size: Size of the index in its store.
            cache: Size of the resolved cache.

        Returns:
            The memory in bytes, and its formula.
        """
        if not size.on_disk:
            return size.total + cache, "records + postings + resolved cache"
        if not size.bucket_memory:
            return cache, "resolved cache; the database has its own memory"
        pages = min(size.total, SQLITE_PAGE_CACHE)
        formula = (
            f"buckets in each process + page cache of at most {_megabytes(SQLITE_PAGE_CACHE)} + "
            f"resolved cache = {_megabytes(size.bucket_memory)} + {_megabytes(pages)} + "
            f"{_megabytes(cache)}"
        )
        return size.bucket_memory + pages + cache, formula

    def add_spark(self, spec: Spec, banding: Banding) -> None:
        """Adds shuffles, memory and time of a run over Spark."""
        work = self.workload
        n = work.documents
        keys_per_document = banding.bands * (1 + banding.probes)
        formula = (
            f"documents · b · {SHUFFLED_KEY_BYTES} = {n:,} · {keys_per_document} · "
            f"{SHUFFLED_KEY_BYTES}"
        )
        keys = self.add_line(
            "spark", "shuffled band keys", n * keys_per_document * SHUFFLED_KEY_BYTES, "B", formula
        )
        candidates = self._candidate_documents()
        formula = f"candidate documents · 8·shingles = {candidates:,.0f} · {8 * work.shingles}"
        payload = self.add_line(
            "spark", "shuffled payloads", candidates * 8 * work.shingles, "B", formula
        )
        shuffle = keys + payload
        formula = f"shuffle / {PARTITION_BYTES / 1e6:.0f} MB"
        self.add_line("spark", "partitions", math.ceil(shuffle / PARTITION_BYTES), "", formula)
        formula = "4 partitions, and Python beside the JVM"
        memory = 4 * PARTITION_BYTES + PROCESS_BYTES
        self.add_line("spark", "memory of a core", memory, "B", formula)
        text = n * work.document_bytes
        durations = self.rates.seconds(n, text, 1, keys_per_document / REFERENCE_BANDS)
        cpu = sum(seconds for name, seconds in durations.items() if name != "start")
        cpu += SPARK_SECONDS_PER_DOCUMENT * n
        formula = (
            "the stages of the local engine on one core, and "
            f"{SPARK_SECONDS_PER_DOCUMENT * 1e6:.0f} µs per document between Java and Python"
        )
        hours = self.add_line("spark", "core-hours", cpu / 3600, "h", formula)
        formula = f"core-hours / {work.cores} cores"
        seconds = self.add_line("spark", "seconds", hours * 3600 / work.cores, "s", formula)
        more_cores = f"{math.ceil(hours * 3600 / work.seconds)} cores" if work.seconds else ""
        self.add_limit("time", work.seconds, seconds, "s", more_cores)
        space = f"{shuffle / 1e9:,.0f} GB for the shuffle files of all executors"
        self.add_limit("disk", work.disk, shuffle, "B", space)

    def _candidate_documents(self) -> float:
        """Returns the number of documents that are in a candidate pair."""
        return min(2 * self.workload.duplicates, 1.0) * self.workload.documents


@check_arguments
def plan(
    workload: Workload | int,
    spec: Spec | None = None,
    rates: Rates | None = None,
    **fields: Unpack[WorkloadKeywords],
) -> Plan:
    """Plans the capacity for a workload.

    Args:
        workload: Requirements, or a number of documents with the other requirements as `fields`.
        spec: Spec of the signatures. By default, k and slot bits follow from the limits.
        rates: Speed of a machine. By default the calibration of this machine, or else the shipped
            rates.
        **fields: Fields of `Workload`.

    Raises:
        UsageError: If a requirement is out of range.

    Examples:
        >>> pages = plan(300_000_000, threshold=0.85, ingest=5000, signature_ram=100e9)
        >>> round(pages.value("standard error"), 3)
        0.032
        >>> pages.value("signatures of 64-bit slots") / 1e9, pages.spec.slot_bits
        (307.2, 16)
        >>> pages.value("classic updates") / 1e6
        192.0
    """
    if not isinstance(workload, Workload):
        workload = Workload(workload, **fields)
    if spec is not None:
        _require_known_speed(workload, spec)
    rates = rates or known_rates()
    is_given = spec is not None
    builder = _PlanBuilder(workload, rates)
    spec = spec or choose_signature(workload)
    builder.add_accuracy(spec, is_given=is_given)
    builder.add_signature_memory(spec)
    builder.add_throughput(spec)
    banding = builder.add_recall(measure_of(spec))
    builder.add_brute_force()
    if workload.engine == "local":
        builder.add_local(spec, banding)
    elif workload.engine == "index":
        builder.add_index(spec, banding)
    else:
        builder.add_spark(spec, banding)
    builder.add_latency(spec, banding)
    builder.add_price()
    return Plan(
        workload=workload,
        spec=spec,
        bands=banding.bands,
        rows=banding.rows,
        rates=rates.source,
        lines=tuple(builder.lines),
        verdicts=tuple(builder.verdicts),
    )


def _require_known_speed(workload: Workload, spec: Spec) -> None:
    """Refuses limits on the speed of sketching for a measure whose speed is not calibrated.

    Raises:
        UsageError: If such a limit is given.
    """
    if spec.measure != IDF_JACCARD:
        return
    for name, value in (("ingest", workload.ingest), ("latency", workload.latency)):
        if value is not None:
            raise UsageError(
                f"{name_setting(name, value)} cannot be planned for measure {IDF_JACCARD}, whose "
                "speed is not calibrated; leave it out, and measure the speed with nearkin sketch"
            )


def _signature_bytes(spec: Spec) -> int:
    return int(spec.signature_width * np.dtype(spec.signature_type).itemsize)


def _describe_vectors(workload: Workload) -> str:
    """Returns the part of a formula about the vectors that texts have besides."""
    if workload.vector_dimensions is None:
        return ""
    return f" and vectors with {4 * workload.vector_dimensions:,}"


def _megabytes(size: float) -> str:
    return f"{size / 1e6:,.0f} MB"


def group_lines(plan: Plan) -> Iterator[tuple[str, list[Line]]]:
    """Yields the parts of a plan with their lines, in order.

    Args:
        plan: Capacity plan.
    """
    parts = dict.fromkeys(line.part for line in plan.lines)
    for part in parts:
        yield part, [line for line in plan.lines if line.part == part]
