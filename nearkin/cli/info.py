"""`nearkin info`."""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

import typer

from nearkin.cli.imports import file_imports
from nearkin.cli.option_groups import with_option_groups
from nearkin.cli.printing import print_json
from nearkin.runtime.outputs import MANIFEST

RUN_FACTS = (
    "nearkin",
    "spec",
    "spec_fingerprint",
    "parameters",
    "counts",
    "peak_memory",
    "seconds",
    "warnings",
)
"""The entries of run.json that are shown."""


@with_option_groups
def info(
    *,
    path: Annotated[
        Path, typer.Argument(help="Signature file, output folder of a run, or its work folder.")
    ],
    json: bool = False,
) -> None:
    """Show the facts of a finished run or of a signature file.

    These are the Spec, its fingerprint and the counts. Of a work folder, show the finished stages,
    the documents that were read, and the tasks.

    Examples:
        nearkin info docs.signatures.arrow

        nearkin info deduped/ --json

        nearkin info deduped.partial
    """
    if (path / MANIFEST).exists():
        facts = _unfinished_facts(path)
    else:
        facts = _run_facts(path) if path.is_dir() else _signature_file_facts(path)
    if json:
        print_json(facts)
        return
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, show_header=False, padding=(0, 2, 0, 0))
    for name, value in _flatten(facts):
        table.add_row(Text(name, style="dim"), Text(str(value)))
    Console().print(table)


def _signature_file_facts(path: Path) -> dict[str, object]:
    import json

    with file_imports():
        from nearkin.stages.sketch.minhash import fill_shares
        from nearkin.stages.sketch.signature_file import read_signatures

    signatures = read_signatures(path)
    spec = signatures.spec
    facts = {
        "kind": "signatures",
        "documents": len(signatures.ids),
        "empty_documents": int((signatures.shingles == 0).sum()),
        "spec": json.loads(spec.to_json()),
        "spec_fingerprint": spec.fingerprint,
    }
    if spec.scheme == "binned" and not spec.truncated:
        shares = fill_shares(signatures.signatures)
        facts["empty_bin_rate"] = round(shares.later_round, 6)
        facts["completed_slot_rate"] = round(shares.completed, 6)
    return facts


def _run_facts(path: Path) -> dict[str, object]:
    with file_imports():
        from nearkin.runs.run_record import RUN, read_run_record
        from nearkin.runs.saved import SIGNATURES

    record = read_run_record(path / RUN).to_json()
    return {
        "kind": "run",
        **{name: record[name] for name in RUN_FACTS if name in record},
        "signatures": (path / SIGNATURES).is_dir(),
    }


def _unfinished_facts(path: Path) -> dict[str, object]:
    with file_imports():
        from nearkin.engine.sketching import read_checkpoint
        from nearkin.engine.work_folder import read_manifest
        from nearkin.executors.jobs import count_items

    manifest = read_manifest(path)
    stages = {name: {"seconds": record["seconds"]} for name, record in manifest["stages"].items()}
    return {
        "kind": "run that has not finished",
        "nearkin": manifest["nearkin"],
        "stages": stages,
        "documents_read": read_checkpoint(path / "sketch").documents,
        "tasks": count_items(path),
    }


def _flatten(facts: Mapping[str, object], prefix: str = "") -> list[tuple[str, object]]:
    """Returns nested facts as a list, with names such as `counts.kept`."""
    flat: list[tuple[str, object]] = []
    for name, value in facts.items():
        if isinstance(value, dict):
            flat += _flatten(value, f"{prefix}{name}.")
        else:
            flat.append((prefix + name, value))
    return flat
