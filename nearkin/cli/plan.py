"""`nearkin plan`."""

import os
import re
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from nearkin.cli import options as o
from nearkin.cli.given_options import GivenOptions
from nearkin.cli.observed_corpus import OF_A_CORPUS, SampleOptions, observe_inputs
from nearkin.cli.option_groups import with_option_groups
from nearkin.cli.plan_file import is_plan
from nearkin.cli.printing import print_json, print_warnings
from nearkin.cli.settings_option import warn_of_preset_size
from nearkin.cli.standard_streams import print_line
from nearkin.runtime.number_range import (
    ABOVE_ZERO,
    COUNT,
    COUNT_OR_NONE,
    SHARE_ABOVE_0,
    NumberRange,
)
from nearkin.runtime.process_limits import workers_or_cores
from nearkin.runtime.sizes import AUTOMATIC
from nearkin.settings.setting import (
    INPUT,
    MOST_DOCUMENTS,
    OUTPUT,
    RUN,
    SIMILARITY,
    VERIFICATION,
    Need,
    setting,
)
from nearkin.settings.table import DEFAULT_STEPS

if TYPE_CHECKING:
    from nearkin.quality.plan.distribution import Distribution
    from nearkin.quality.plan.rates import Rates
    from nearkin.quality.plan.workload import Workload
    from nearkin.settings.spec import Spec

NUMBER_WITH_UNIT = re.compile(
    r"(?P<number>\d+(?:\.\d+)?(?:e\d+)?)\s*(?P<unit>[KMBG]?)", re.IGNORECASE
)
OF_AN_INDEX = Need("engine", ("index",))
OF_A_RUN = Need("engine", ("local",))
PLAN_SUFFIX = ".json"
"""The suffix of the file of a plan."""
UNITS = {"": 1, "K": 10**3, "M": 10**6, "B": 10**9, "G": 10**9}


@dataclass(frozen=True)
class WorkloadOptions:
    """The options that describe the documents, the limits and the machine of a plan."""

    docs: str | None = setting(
        None,
        "Number of documents, for example 300M or 1B.",
        INPUT,
        common=True,
        shown_default="that of the inputs",
    )
    shingles: int | None = setting(
        None,
        "Mean number of shingles of a document.",
        INPUT,
        shown_default="that of the inputs, or 300",
        range=COUNT,
    )
    text_bytes: float | None = setting(
        None,
        "Mean size of a document in bytes.",
        INPUT,
        shown_default="that of the inputs, or 5 for each shingle",
        range=ABOVE_ZERO,
    )
    input_bytes: str | None = setting(
        None,
        "Size of the input files, for example 2TB.",
        INPUT,
        metavar="SIZE",
        shown_default="the size of the texts",
        need=Need("engine", ("local",)),
    )
    duplicates: float | None = setting(
        None,
        "Share of documents that are near-duplicates of others, in [0, 1).",
        INPUT,
        shown_default="that of the inputs, or 0.1",
        range=NumberRange(0, 1, excludes_most=True),
    )
    clusters: str | None = setting(
        None,
        "Number of kept documents.",
        INPUT,
        shown_default="the documents without near-duplicates",
        need=OF_AN_INDEX,
    )
    ingest: str | None = setting(
        None, "Rate at which documents are sketched, for example 5000/s.", RUN
    )
    signature_ram: str | None = setting(
        None, "Maximum memory for signatures, for example 100GB.", RUN, metavar="SIZE"
    )
    disk: str | None = setting(
        None, "Maximum disk space, for example 2TB.", RUN, common=True, metavar="SIZE"
    )
    time: str | None = setting(
        None,
        "Maximum duration of a run, for example 8h.",
        RUN,
        common=True,
        metavar="TIME",
        need=OF_A_RUN,
    )
    cores: int | None = setting(
        None,
        "Number of cores.",
        RUN,
        shown_default="the cores of this machine",
        range=COUNT,
        need=OF_A_RUN,
    )
    engine: str = setting(
        "local", "Engine: local (a run) or index.", RUN, common=True, values=("local", "index")
    )
    store: str = setting(
        "memory",
        "Store of an index: memory, sqlite, redis, postgres or aerospike (engine index).",
        RUN,
        need=OF_AN_INDEX,
    )
    store_text: bool = setting(
        True, "Store the texts of an index (engine index).", RUN, negatable=True, need=OF_AN_INDEX
    )
    passages: int | None = setting(
        None,
        "Smallest number of words of a passage that an index finds (engine index).",
        RUN,
        metavar="N",
        range=NumberRange(2, 1048576),
    )
    vector_dimensions: int | None = setting(
        None,
        "Length of the vectors that texts have besides (engine index).",
        SIMILARITY,
        range=NumberRange(1, 65536),
    )
    vector_threshold: float = setting(
        0.95,
        "Minimum cosine of these vectors, in (0, 1].",
        SIMILARITY,
        metavar="SHARE",
        range=SHARE_ABOVE_0,
    )
    latency: float | None = setting(
        None,
        "Maximum CPU time of a query in milliseconds (engine index).",
        RUN,
        metavar="MS",
        range=ABOVE_ZERO,
        need=OF_AN_INDEX,
    )
    core_hour_price: float | None = setting(
        None, "Price of a core for an hour, for the price.", RUN, range=COUNT_OR_NONE
    )
    gb_month_price: float | None = setting(
        None,
        "Price of a GB for a month, for the price: disk of runs, memory of an index.",
        RUN,
        range=COUNT_OR_NONE,
    )
    memory: str = AUTOMATIC
    threshold: float = 0.8
    recall: float = 0.95
    bands: int | None = None
    rows: int | None = None
    precision: float | None = setting(
        None,
        "Minimum share of the reported pairs that reach the threshold, from which k follows. It "
        "is 1 with exact verification.",
        VERIFICATION,
        range=SHARE_ABOVE_0,
    )
    verify: str = "exact"
    error: float | None = setting(
        None,
        "Maximum standard error of an estimate at the threshold, from which k follows.",
        SIMILARITY,
        range=SHARE_ABOVE_0,
    )

    def to_workload(self, distribution: "Distribution | None" = None) -> "Workload":
        """Returns the workload."""
        from nearkin.errors import UsageError
        from nearkin.quality.plan.workload import Workload
        from nearkin.runtime.sizes import parse_memory, parse_size

        shingles = self.shingles
        text_bytes = self.text_bytes
        if distribution is not None:
            shingles = shingles or distribution.mean_shingles
            text_bytes = text_bytes or distribution.text_bytes
        if self.docs is not None:
            documents = parse_count(self.docs, "--docs")
        elif distribution is not None:
            documents = distribution.documents
        else:
            raise UsageError("give the number of documents, for example --docs 300M, or a corpus")
        ingest = None
        if self.ingest is not None:
            ingest = parse_count(self.ingest.removesuffix("/s"), "--ingest")
        clusters = None
        if self.clusters is not None:
            clusters = parse_count(self.clusters, "--clusters")

        def size(text: str | None) -> int | None:
            return None if text is None else parse_size(text)

        values = {**vars(self)}
        del values["docs"], values["time"]
        return Workload(
            **{
                **values,
                "documents": documents,
                "ingest": ingest,
                "signature_ram": size(self.signature_ram),
                "clusters": clusters,
                "input_bytes": size(self.input_bytes),
                "memory": parse_memory(self.memory),
                "disk": size(self.disk),
                "seconds": o.parse_seconds(self.time, "--time"),
                "cores": workers_or_cores(self.cores),
                "latency": None if self.latency is None else self.latency / 1000,
                "shingles": shingles or Workload.shingles,
                "text_bytes": text_bytes,
            }
        )


@dataclass(frozen=True)
class PlannedSpecOptions:
    """The options that make the Spec of a plan, as far as it is not derived."""

    measure: str | None = None
    dimensions: int = setting(
        384,
        "Length of a vector (measure cosine only).",
        SIMILARITY,
        range=NumberRange(1, 65_536),
        need=Need("measure", ("cosine",)),
    )
    shingle: str = "words:3"
    normalise: str = DEFAULT_STEPS
    k: int | None = None
    slot_bits: int | None = None
    scheme: str | None = None

    def to_spec(self) -> "Spec | None":
        """Returns the Spec without a corpus, or None if no option decides it.

        The plan derives k and the slot bits then.
        """
        from nearkin.corpus import Columns
        from nearkin.engine.parameters import spec_of

        has_defaults = (
            replace(self, dimensions=384, normalise=DEFAULT_STEPS) == PlannedSpecOptions()
        )
        if has_defaults:
            return None
        columns = Columns()
        if self.measure == "cosine":
            columns = Columns(text=None, vector="vector", dimensions=self.dimensions)
        return spec_of(o.parameters_of(self), columns)


@partial(with_option_groups, needs=OF_A_CORPUS)
def plan(
    *,
    given: GivenOptions,
    workload: WorkloadOptions,
    spec: PlannedSpecOptions,
    sampling: SampleOptions,
    reading: o.SelectionOptions,
    inputs: Annotated[
        list[str] | None,
        typer.Argument(
            help="Corpus of the same kind, from which similarities, sizes and near-duplicates are "
            "learned."
        ),
    ] = None,
    preset: str | None = None,
    calibrate: bool = setting(
        False, "Measure this machine first, which takes a minute. Later plans use the result.", RUN
    ),
    out: Path | None = setting(
        None,
        "Write the plan into a JSON file, for dedup --plan.",
        OUTPUT,
        common=True,
        short="-o",
        metavar="FILE",
    ),
    json: bool = False,
) -> None:
    """Derive settings, memory, disk and time from a service level.

    Each number is listed with its formula, and with whether the limits hold.

    The candidates of a document decide about disk, time and price. They follow from the similarities of unrelated
    texts, or from those in a sample of a corpus of your own, which may be smaller than --docs.

    Examples:
        nearkin plan --docs 300M --threshold 0.85 --recall 0.95 --ingest 5000/s --signature-ram 100GB

        nearkin plan --docs 10M --clusters 1M --engine index --measure cosine --bands 20 --rows 5

        nearkin plan --docs 1M --engine index --store sqlite --vector-dimensions 384

        nearkin plan --docs 100K --preset records --shingles 60

        nearkin plan --docs 20M --disk 200GB --time 1h --out plan.json

        nearkin plan crawl-sample.parquet --docs 1B --cores 512
    """  # noqa: E501
    from nearkin.errors import UsageError
    from nearkin.quality.plan.capacity import plan as make_plan

    if "vector_threshold" in given and workload.vector_dimensions is None:
        raise UsageError(
            "--vector-threshold is for an index of texts and vectors; give --vector-dimensions too"
        )
    if out is not None:
        from nearkin.runtime.files import require_file_path
        from nearkin.runtime.outputs import require_outside_work_folders, require_replaceable_file

        require_outside_work_folders(out)
        require_file_path(out)
        if out.suffix.lower() != PLAN_SUFFIX:
            raise UsageError(
                f"--out {out} does not end in {PLAN_SUFFIX}, and a plan is a JSON file; name it "
                f"{out.with_suffix(PLAN_SUFFIX).name}"
            )
        if os.path.lexists(out):
            require_replaceable_file(out, is_plan, "a plan")
    if calibrate and workload.docs is None and not inputs:
        of_plan = tuple(sorted(given.names - {"calibrate", "json"}))
        given.require_unused(of_plan, "without --docs, with which a plan is made")
        rates = write_calibration()
        if json:
            print_json(asdict(rates))
        return
    # They are checked before a measurement, which takes a minute.
    distribution = None
    if inputs:
        observed = observe_inputs(inputs, sampling, reading, o.parameters_of(spec))
        distribution = observed.distribution
        planned_spec = None if spec.to_spec() is None else observed.spec
        if sampling.vector is not None:
            planned_spec = observed.spec
    else:
        planned_spec = spec.to_spec()
    planned_workload = workload.to_workload(distribution)
    if calibrate:
        write_calibration()
    capacity_plan = make_plan(planned_workload, planned_spec, distribution=distribution)
    print_warnings(warn_of_preset_size(preset, planned_workload.documents))
    if out is not None:
        from json import dumps

        from nearkin.runtime.files import disk_errors, write_durably

        text = dumps(capacity_plan.to_dict(), indent=1, ensure_ascii=False) + "\n"
        with disk_errors(out.parent):
            write_durably(out, text.encode())
    if json:
        print_json(capacity_plan.to_dict())
        return
    from rich.console import Console

    from nearkin.reports.terminal.planning import print_plan

    print_plan(capacity_plan, Console())


def parse_count(text: str, option: str) -> int:
    """Parses a count such as `300M`, `1B` or `5000`.

    Examples:
        >>> parse_count("300M", "--docs"), parse_count("1.5k", "--docs")
        (300000000, 1500)
    """
    from nearkin.errors import UsageError

    count = NUMBER_WITH_UNIT.fullmatch(text.strip().replace("_", "").replace(",", ""))
    if count is None:
        raise UsageError(f"{option} {text!r} is not a count like 5000, 300M or 1B")
    number = float(count["number"]) * UNITS[count["unit"].upper()]
    if number > MOST_DOCUMENTS:
        raise UsageError(f"{option} {text} is out of range; it must be at most {MOST_DOCUMENTS:,}")
    return round(number)


def write_calibration() -> "Rates":
    """Measures this machine and stores the result for later plans."""
    from nearkin.quality.lab.calibration import calibrate
    from nearkin.quality.plan.rates import calibration_file
    from nearkin.runtime.files import write_durably

    path = calibration_file()

    def show_step(name: str) -> None:
        print_line(f"measuring {name}")

    rates = calibrate(show_step)
    path.parent.mkdir(parents=True, exist_ok=True)
    write_durably(path, rates.to_json().encode())
    print_line(f"calibration stored in {path}")
    return rates
