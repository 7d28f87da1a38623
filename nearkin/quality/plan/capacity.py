"""Plans the capacity for a number of documents: memory, disk, time and accuracy.

Each number of a plan has its formula. Disk, time and price follow from the candidates that the plan
shows (see `nearkin.quality.plan.candidates`).

Sources: Broder, *On the resemblance and containment of documents* (1997) for the error of MinHash;
Li, König, *b-Bit Minwise Hashing* (WWW 2010).
"""

import math
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from typing import NotRequired, TypedDict, Unpack

import numpy as np
import pyarrow as pa

from nearkin.errors import UsageError
from nearkin.quality.plan.candidates import CandidateModel, ExpectedCandidates
from nearkin.quality.plan.distribution import Distribution
from nearkin.quality.plan.index_plan import add_index
from nearkin.quality.plan.plan_lines import LimitVerdict, Line, PlanLines
from nearkin.quality.plan.rates import Rates, known_rates
from nearkin.quality.plan.run_plan import RunRequest, add_local
from nearkin.quality.plan.throughput import add_throughput
from nearkin.quality.plan.workload import Workload, WorkloadKeywords
from nearkin.runtime.argument_types import check_arguments
from nearkin.runtime.notebook_view import TableView, render_view
from nearkin.runtime.setting_names import name_setting
from nearkin.runtime.table_forms import TableForms
from nearkin.settings.choices import Verify
from nearkin.settings.spec import IDF_JACCARD, Spec
from nearkin.stages.lsh.slot_bands import Banding
from nearkin.stages.measures import BandingRequest, Measure, measure_of

HOURS_PER_MONTH = 730


class PlannedSettings(TypedDict):
    """The settings of a plan, as `nearkin dedup --plan` reads them. The memory is a text.

    Shingle and verification are left out if they are the defaults.
    """

    measure: str
    k: int
    scheme: str | None
    slot_bits: int
    threshold: float
    recall: float
    bands: int
    rows: int
    memory: str
    shingle: NotRequired[str]
    verify: NotRequired[str]


@dataclass(frozen=True, repr=False)
class Plan(TableForms):
    """The capacity that a workload needs.

    Attributes:
        workload: Requirements, with the share of near-duplicates that was planned for.
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

    def to_arrow(self) -> pa.Table:
        """Returns the lines as an Arrow table: part, name, value, unit and formula."""
        return pa.Table.from_pylist([asdict(line) for line in self.lines])

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
        settings: PlannedSettings = {
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
        if self.spec.has_shingles and self.spec.shingle != Spec().shingle:
            settings["shingle"] = self.spec.shingle
        if self.workload.verify != Verify.EXACT:
            settings["verify"] = self.workload.verify
        return settings

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


def smallest_precise_k(workload: Workload, model: CandidateModel) -> int:
    """Returns the smallest doubled k with which estimates reach the requested precision."""
    assert workload.precision is not None
    spec = Spec()
    k = spec.k
    while k < spec.signature_limits.largest_k:
        measure = measure_of(replace(spec, k=k))
        banding = measure.banding(_banding_request(workload))
        expected = model.expect(measure, banding, workload.documents - 1)
        if expected.reported.precision >= workload.precision:
            break
        k *= 2
    return k


def _banding_request(work: Workload) -> BandingRequest:
    return BandingRequest(
        work.threshold, work.recall, work.bands, work.rows, documents=work.documents
    )


def choose_signature(workload: Workload, model: CandidateModel | None = None) -> Spec:
    """Returns the Spec with the widest slots whose signatures fit into the memory for them.

    Slots of fewer bits need more slots for the same standard error, so k and the slot bits are
    chosen together. If no choice fits, the smallest signature is returned, and the plan says that
    the limit is not met.

    Examples:
        >>> spec = choose_signature(Workload(300_000_000, 0.85, error=0.03, signature_ram=16e9))
        >>> spec.k, spec.slot_bits
        (200, 2)
    """
    default = Spec()
    decides_k = workload.error is None and workload.bands is None
    if workload.precision is not None and model is not None and decides_k:
        default = replace(default, k=smallest_precise_k(workload, model))
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
    return measure_of(spec).estimator.expected_agreements(similarity) / spec.k


def _slots_for_error(spec: Spec, workload: Workload) -> int:
    assert workload.error is not None
    single = measure_of(spec).estimator.standard_error(workload.threshold) * math.sqrt(spec.k)
    # The quotient of two rounded numbers must not add a slot.
    return math.ceil((single / workload.error) ** 2 * (1 - 1e-12))


class _PlanBuilder:
    """Adds the parts of a plan that all engines have.

    The methods that add a part are called in the order of the parts.
    """

    def __init__(self, workload: Workload, rates: Rates) -> None:
        self.workload = workload
        self.rates = rates
        self.lines = PlanLines()

    def add_accuracy(self, spec: Spec, *, is_given: bool) -> None:
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
        self.lines.add("accuracy", "k", spec.k, "slots", origin)
        whole = replace(spec, slot_bits=spec.signature_limits.slot_bits[0])
        error = measure_of(whole).estimator.standard_error(j)
        if spec.has_slots:
            formula = f"√(J(1−J)/k) = √({j:g}·{1 - j:.3g}/{spec.k})"
        else:
            formula = f"of the similarity estimated from {spec.k} bits"
        self.lines.add("accuracy", "standard error", error, "", formula)
        reached = measure_of(spec).estimator.standard_error(j)
        larger_k = ""
        if work.error and spec.has_slots:
            larger_k = f"k ≥ {_slots_for_error(spec, work)}"
        self.lines.add_limit("error", work.error, reached, "", larger_k)

    def add_signature_memory(self, spec: Spec) -> None:
        work = self.workload
        n = work.documents
        limit = work.signature_ram
        if not spec.has_slots:
            formula = f"documents · k / 8 = {n:,} · {spec.k} / 8"
            size = self.lines.add("memory", "signatures", n * spec.k / 8, "B", formula)
            fewer = f"at most {limit * 8 / spec.k:,.0f} documents" if limit else ""
            self.lines.add_limit("signature RAM", limit, size, "B", fewer)
            return
        for width in (64, *spec.signature_limits.slot_bits):
            formula = f"documents · k · bits / 8 = {n:,} · {spec.k} · {width} / 8"
            name = f"signatures of {width}-bit slots"
            self.lines.add("memory", name, n * spec.k * width / 8, "B", formula)
        size = n * spec.k * spec.slot_bits / 8
        if spec.slot_bits < 32:
            error = measure_of(spec).estimator.standard_error(work.threshold)
            formula = f"√(E(1−E)/k)/(1−2^−b), E = J + (1−J)/2^b, b = {spec.slot_bits}"
            name = f"standard error of {spec.slot_bits}-bit slots"
            self.lines.add("memory", name, error, "", formula)
        if limit is not None:
            self.lines.add_limit(
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

    def add_recall(self, banding: Banding, measure: Measure) -> None:
        work = self.workload
        origin = "solved: fewest candidates among the choices that reach the recall"
        if work.bands:
            origin = "given"
        self.lines.add("recall", "bands", banding.bands, "", origin)
        self.lines.add("recall", "rows", banding.rows, "", origin)
        p = float(measure.estimator.slot_collision_probability(np.array(work.threshold)))
        formula = f"1 − (1 − p^r)^b = 1 − (1 − {p:.3g}^{banding.rows})^{banding.bands}"
        probability = float(banding.candidate_recall)
        self.lines.add("recall", "P(candidate) at the threshold", probability, "", formula)
        formula = f"P(candidate) · P(at least {banding.margin} slots agree)"
        self.lines.add("recall", "recall, the margin included", banding.recall, "", formula)
        keys = banding.bands * (1 + banding.probes)
        self.lines.add("recall", "postings of a document", keys, "", "b · (1 + probes)")
        lower = f"recall {banding.recall:.3f}" if work.bands else ""
        self.lines.add_goal("recall", work.recall, banding.recall, lower, "solved bands and rows")

    def add_candidates(self, expected: ExpectedCandidates, spec: Spec) -> None:
        """Adds the candidates of a document, of a run or of a query, and their precision."""
        work = self.workload
        candidates = expected.candidates
        others = f"{work.documents:,} documents"
        if work.engine == "index":
            others = f"{work.kept:,} representatives"
        formula = f"Σ P(candidate) · pairs below the threshold, of {others} ({expected.source})"
        self.lines.add(
            "candidates", "candidates of a document by chance", candidates.by_chance, "", formula
        )
        formula = "near-duplicates of a document · P(candidate) at the threshold"
        if work.engine == "index":
            formula = "share of documents with a representative · P(candidate) at the threshold"
        self.lines.add("candidates", "near-duplicate candidates", candidates.near, "", formula)
        if work.engine != "index":
            n = work.documents
            formula = "documents · candidates of a document / 2"
            self.lines.add("candidates", "candidate pairs", candidates.of_documents(n), "", formula)
            formula = "those whose estimate passes the margin"
            self.lines.add(
                "candidates", "verified pairs", expected.verified.of_documents(n), "", formula
            )
        formula = "near-duplicates / candidates"
        self.lines.add("candidates", "precision of candidates", candidates.precision, "", formula)
        formula = "1: what does not reach the threshold is not reported"
        if work.verify == Verify.ESTIMATE:
            formula = "near-duplicates / pairs whose estimate reaches the threshold"
        if work.verify == Verify.NONE:
            formula = "near-duplicates / candidates, which are not verified"
        precision = expected.reported.precision
        self.lines.add("candidates", "precision of the result", precision, "", formula)
        larger_k = ""
        if work.verify == Verify.ESTIMATE and spec.k < spec.signature_limits.largest_k:
            larger_k = "more slots (k)"
        exact = name_setting("verify", "exact")
        self.lines.add_goal("precision", work.precision, precision, exact, larger_k)

    def add_price(self) -> None:
        work = self.workload
        if work.core_hour_price is None and work.gb_month_price is None:
            return
        per_hour = work.core_hour_price or 0.0
        per_month = work.gb_month_price or 0.0
        amounts = {line.name: line.value for line in self.lines.lines if line.part == work.engine}
        if work.engine == "index":
            size = (amounts["memory"] + amounts["disk"]) / 1e9
            hours = float(work.cores * HOURS_PER_MONTH)
            months = 1.0
            name = "price of a month"
        else:
            size = amounts["disk at the peak"] / 1e9
            duration = amounts["seconds"] / 3600
            hours = work.cores * duration
            months = duration / HOURS_PER_MONTH
            name = "price of a run"
        price = hours * per_hour + size * months * per_month
        formula = (
            f"core hours · {per_hour:g} + GB · months · {per_month:g} = {hours:,.4g} · "
            f"{per_hour:g} + {size:,.1f} · {months:.3g} · {per_month:g}"
        )
        self.lines.add("price", name, price, "", formula)

    def add_brute_force(self) -> None:
        n = self.workload.documents
        formula = f"n(n−1)/2 = {n:,}·{n - 1:,}/2"
        pairs = self.lines.add("brute force", "pairs", n * (n - 1) / 2, "", formula)
        rate = self.rates.exact * 250 / self.workload.shingles
        formula = f"pairs / {rate / 1e6:,.2f} M comparisons per second and core"
        self.lines.add("brute force", "core time", pairs / rate, "s", formula)


@check_arguments
def plan(
    workload: Workload | int,
    spec: Spec | None = None,
    rates: Rates | None = None,
    distribution: Distribution | None = None,
    **fields: Unpack[WorkloadKeywords],
) -> Plan:
    """Plans the capacity for a workload.

    Args:
        workload: Requirements, or a number of documents with the other requirements as `fields`.
        spec: Spec of the signatures. By default, k and slot bits follow from the limits.
        rates: Speed of a machine. By default the calibration of this machine, or else the shipped
            rates.
        distribution: Similarities of the pairs of a corpus of the same kind, as `nearkin.observe`
            returns them. By default, those of unrelated texts.
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
    given = workload.duplicates
    if distribution is None:
        given = workload.duplicate_share
        pairs = Distribution.assumed(max(workload.documents, 2), spec)
    else:
        pairs = distribution
        if given is None:
            removed = distribution.duplicate_share(workload.threshold)
            workload = replace(workload, duplicates=removed)
    model = CandidateModel.create(pairs, workload.threshold, given, workload.verify)
    rates = rates or known_rates()
    is_given = spec is not None
    spec = spec or choose_signature(workload, model)
    builder = _PlanBuilder(workload, rates)
    builder.add_accuracy(spec, is_given=is_given)
    builder.add_signature_memory(spec)
    add_throughput(builder.lines, workload, spec, rates)
    measure = measure_of(spec)
    banding = measure.banding(_banding_request(workload))
    builder.add_recall(banding, measure)
    expected = _expect_candidates(model, measure, banding, workload)
    builder.add_candidates(expected, spec)
    builder.add_brute_force()
    run = RunRequest(workload, spec, banding, expected, rates)
    engines = {"local": add_local, "index": add_index}
    engines[workload.engine](builder.lines, run)
    builder.add_price()
    return Plan(
        workload=workload,
        spec=spec,
        bands=banding.bands,
        rows=banding.rows,
        rates=rates.source,
        lines=tuple(builder.lines.lines),
        verdicts=tuple(builder.lines.verdicts),
    )


def _expect_candidates(
    model: CandidateModel, measure: Measure, banding: Banding, work: Workload
) -> ExpectedCandidates:
    """Returns the candidates of a document of a run, or of a query of an index.

    Only representatives are in buckets of an index, and at most one is near to a document.
    """
    if work.engine != "index":
        return model.expect(measure, banding, work.documents - 1)
    return model.expect(measure, banding, work.kept, near=1 - work.kept / work.documents)


def _require_known_speed(workload: Workload, spec: Spec) -> None:
    """Refuses limits on the speed of sketching for a measure whose speed is not calibrated."""
    if spec.measure != IDF_JACCARD:
        return
    for name, value in (("ingest", workload.ingest), ("latency", workload.latency)):
        if value is not None:
            raise UsageError(
                f"{name_setting(name, value)} cannot be planned for measure {IDF_JACCARD}, whose "
                "speed is not calibrated; leave it out, and measure the speed with nearkin lab "
                "sketch"
            )


def group_lines(plan: Plan) -> Iterator[tuple[str, list[Line]]]:
    """Yields the parts of a plan with their lines, in order."""
    parts = dict.fromkeys(line.part for line in plan.lines)
    for part in parts:
        yield part, [line for line in plan.lines if line.part == part]
