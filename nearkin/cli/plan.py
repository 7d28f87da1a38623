"""`nearkin plan`."""

import os
import re
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from nearkin.cli import options as o

COUNT = re.compile(r"(?P<number>\d+(?:\.\d+)?(?:e\d+)?)\s*(?P<unit>[KMBG]?)", re.IGNORECASE)
UNITS = {"": 1, "K": 10**3, "M": 10**6, "B": 10**9, "G": 10**9}


def plan(
    docs: Annotated[str | None, typer.Option(help="Documents, as 300M or 1B.")] = None,
    threshold: o.Threshold = 0.8,
    recall: o.Recall = 0.95,
    ingest: Annotated[str | None, typer.Option(help="Documents a second to be sketched, as 5000/s.")] = None,
    signature_ram: Annotated[str | None, typer.Option(help="For signatures in memory, at most, as 100GB.")] = None,
    shingles: Annotated[int, typer.Option(help="Of a document.")] = 300,
    clusters: Annotated[str | None, typer.Option(help="Kept documents; by default those that are no duplicates.")] = None,
    engine: Annotated[str, typer.Option(help="local, spark or index.")] = "local",
    measure: o.Measure = None,
    dimensions: Annotated[int, typer.Option(help="Of vectors, for measure cosine.")] = 384,
    k: o.K = None,
    slot_bits: o.SlotBits = None,
    scheme: o.Scheme = None,
    error: Annotated[float | None, typer.Option(help="Standard error wanted at the threshold; k follows.")] = None,
    bands: o.Bands = None,
    rows: o.Rows = None,
    text_bytes: Annotated[float | None, typer.Option(help="Of a document; five for each shingle by default.")] = None,
    input_bytes: Annotated[str | None, typer.Option(help="Of the files, as 2TB; as the text by default.")] = None,
    duplicates: Annotated[float, typer.Option(help="Share of documents that are near-duplicates of others.")] = 0.1,
    memory: o.Memory = o.MEMORY,
    disk: Annotated[str | None, typer.Option(help="Disk, at most, as 2TB.")] = None,
    time: Annotated[str | None, typer.Option(help="For a whole run, at most, as 8h.")] = None,
    cores: Annotated[int | None, typer.Option(help="To work with.  [default: this machine's]")] = None,
    calibrate: Annotated[
        bool, typer.Option("--calibrate", help="Measure this machine first (a minute); kept for later plans.")
    ] = False,
    out: Annotated[Path | None, typer.Option(help="Write the plan, for dedup --plan.", metavar="FILE")] = None,
    json: o.Json = False,
) -> None:
    """What a service level costs: one line for each number, with its formula, and whether the limits hold.

    Examples:

        nearkin plan --docs 300M --threshold 0.85 --recall 0.95 --ingest 5000/s --signature-ram 100GB

        nearkin plan --docs 10M --clusters 1M --engine index --measure cosine --bands 20 --rows 5

        nearkin plan --docs 20M --disk 200GB --time 1h --out plan.json
    """
    from nearkin.engine.options import parse_size
    from nearkin.errors import UsageError
    from nearkin.plan.capacity import Workload
    from nearkin.plan.capacity import plan as find

    if out is not None:
        from nearkin.runtime.outputs import require_outside_work_folders, require_replaceable_file

        require_outside_work_folders(out)
        if os.path.lexists(out):
            require_replaceable_file(out, is_plan, "a plan")
    if calibrate:
        found_rates = write_calibration()
        if docs is None:
            if json:
                o.print_json(found_rates)
            return
    if docs is None:
        raise UsageError("say how many documents: --docs 300M")
    work = Workload(
        count(docs, "--docs"),
        threshold,
        recall,
        None if ingest is None else count(ingest.removesuffix("/s"), "--ingest"),
        None if signature_ram is None else parse_size(signature_ram),
        shingles,
        None if clusters is None else count(clusters, "--clusters"),
        engine,
        text_bytes,
        None if input_bytes is None else parse_size(input_bytes),
        duplicates,
        error,
        bands,
        rows,
        parse_size(memory),
        None if disk is None else parse_size(disk),
        o.seconds(time, "--time"),
        o.workers_or_cores(cores),
    )
    found = find(work, asked_spec(measure, dimensions, k, slot_bits, scheme))
    if out is not None:
        import json as encoder

        from nearkin.runtime.files import disk_errors as writing
        from nearkin.runtime.files import write_durably

        with writing(out.parent):
            write_durably(out, (encoder.dumps(found.to_dict(), indent=1, ensure_ascii=False) + "\n").encode())
    if json:
        o.print_json(found.to_dict())
        return
    from rich.console import Console

    from nearkin.report.terminal.planning import print_plan

    print_plan(found, Console())


def is_plan(path: Path) -> bool:
    """Returns whether a file is a plan that nearkin wrote."""
    import json

    found = json.loads(path.read_bytes())
    return isinstance(found, dict) and isinstance(found.get("settings"), dict)


def asked_spec(measure: str | None, dimensions: int, k: int | None, slot_bits: int | None, scheme: str | None) -> Any:
    """The Spec, if anything of it was asked for; else the plan finds it."""
    from nearkin.spec import Spec

    named = {"measure": measure, "k": k, "slot_bits": slot_bits, "scheme": scheme}
    given: dict[str, Any] = {name: value for name, value in named.items() if value is not None}
    if measure == "cosine":
        given |= {"unit": "vector", "n": dimensions}
    return Spec(**given) if given else None


def count(text: str, option: str) -> int:
    """From `300M`, `1B`, `5000`.

    Examples:
        >>> count("300M", "--docs"), count("1.5k", "--docs")
        (300000000, 1500)
    """
    from nearkin.errors import UsageError

    if (found := COUNT.fullmatch(text.strip().replace("_", "").replace(",", ""))) is None:
        raise UsageError(f"{option} {text!r} is not a count like 5000, 300M or 1B")
    return round(float(found["number"]) * UNITS[found["unit"].upper()])


def write_calibration() -> dict[str, Any]:
    """Measures this machine and keeps what it finds for later plans."""
    from nearkin.lab.calibration import calibrate
    from nearkin.plan.rates import calibration_file

    path = calibration_file()

    def say(what: str) -> None:
        sys.stderr.write(f"measuring {what}\n")

    found = calibrate(say)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(found.to_json(), "utf-8")
    sys.stderr.write(f"calibration kept in {path}\n")
    return asdict(found)
