"""`nearkin info`."""

from pathlib import Path
from typing import Annotated, Any

import typer

from nearkin.cli import options as o


def info(
    path: Annotated[Path, typer.Argument(help="A signature file, or the folder of a run.")],
    json: o.Json = False,
) -> None:
    """What a signature file or a finished run holds: Spec, fingerprint, counts, drift metrics.

    Examples:

        nearkin info docs.signatures.arrow

        nearkin info deduped/ --json
    """
    facts = _run_facts(path) if path.is_dir() else _file_facts(path)
    if json:
        o.print_json(facts)
        return
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, show_header=False, padding=(0, 2, 0, 0))
    for name, value in _flat(facts):
        table.add_row(Text(name, style="dim"), Text(str(value)))
    Console().print(table)


def _file_facts(path: Path) -> dict[str, Any]:
    import json

    from nearkin.sketch.minhash import fill_shares
    from nearkin.sketch.signature_file import read_signatures

    found = read_signatures(path)
    facts = {
        "kind": "signatures",
        "documents": len(found.ids),
        "empty_documents": int((found.shingles == 0).sum()),
        "spec": json.loads(found.spec.to_json()),
        "spec_fingerprint": found.spec.fingerprint,
    }
    if found.spec.scheme == "binned" and not found.spec.truncated:
        shares = fill_shares(found.signatures)
        facts["empty_bin_rate"], facts["completed_slot_rate"] = round(shares.later_round, 6), round(shares.completed, 6)
    return facts


def _run_facts(path: Path) -> dict[str, Any]:
    from nearkin.runs.saved import RUN, SIGNATURES, read_run_record

    record = read_run_record(path / RUN)
    wanted = ("nearkin", "spec", "spec_fingerprint", "parameters", "counts", "peak_memory", "seconds", "warnings")
    return {
        "kind": "run",
        **{name: record[name] for name in wanted if name in record},
        "signatures": (path / SIGNATURES).is_dir(),
    }


def _flat(facts: dict[str, Any], before: str = "") -> list[tuple[str, Any]]:
    rows: list[tuple[str, Any]] = []
    for name, value in facts.items():
        rows += _flat(value, f"{before}{name}.") if isinstance(value, dict) else [(before + name, value)]
    return rows
