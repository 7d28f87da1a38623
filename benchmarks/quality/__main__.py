"""Measures the quality of clusters over labelled sets, beside other tools.

python -m benchmarks.quality                     all sets, to the terminal
python -m benchmarks.quality --write             also writes quality.json and the page of benchmarks
python -m benchmarks.quality --sets "FEBRL 3" --methods default fitted
python -m benchmarks.quality --repositories PATH...   further code, for the set of C and C++

The search over all settings takes minutes. Its results are kept in benchmarks/work.
"""

import argparse
import json
import sys
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path

from benchmarks.pages import write_pages
from benchmarks.quality.labelled_set import LabelledSet
from benchmarks.quality.measurement import (
    Halves,
    MethodResult,
    measure_default,
    measure_fitted,
    measure_method,
    measure_preset,
    search_halves,
)
from benchmarks.quality.nearkin_runs import count_found_pairs, run_dedup
from benchmarks.quality.sets import SETS, Places, make_set
from benchmarks.quality.tables import RECORD, QualityRecord, SetRecord
from benchmarks.quality.tools import FOLDER, find_febrl, run_tool, tools_for
from nearkin.errors import RunError
from nearkin.lab.bench import describe_machine

METHODS = {
    "default": measure_default,
    "preset": measure_preset,
    "fitted": measure_fitted,
}
"""The methods of nearkin."""
SEARCH = "search"
TOOLS = "tools"
LICENCES = "licence texts"


def measure_methods(halves: Halves, methods: list[str]) -> Iterator[MethodResult]:
    """Measures methods of nearkin, and other tools, over a set.

    Args:
        halves: The halves of the set.
        methods: Names of methods. `tools` stands for all other tools.
    """
    for method in methods:
        if method in METHODS:
            yield METHODS[method](halves)
    if TOOLS not in methods:
        return
    for peer in tools_for(halves.first):
        try:
            yield measure_method(
                peer.name, halves, lambda half, other, p=peer: (run_tool(p, half, other), "")
            )
        except RunError as error:
            yield MethodResult(peer.name, None, failed=str(error).strip().splitlines()[-1])


def measure_set(labelled: LabelledSet, methods: list[str], previous: SetRecord | None) -> SetRecord:
    """Measures a set. What is not measured is taken from an earlier record.

    Args:
        labelled: The set.
        methods: Names of methods, `search` and `tools` included.
        previous: Record of the set from an earlier run, or None.
    """
    run_dedup(labelled.select(labelled.clusters.argsort()[:20]), {})  # compiles the kernels
    halves = Halves.of(labelled)
    record: SetRecord = {
        "name": labelled.name,
        "kind": labelled.kind,
        "documents": len(labelled.clusters),
        "clusters": len(set(labelled.clusters.tolist())),
        "methods": dict(previous["methods"]) if previous else {},
        "search": previous["search"] if previous else None,
        "search_with_containment": previous["search_with_containment"] if previous else None,
        "found_pairs": previous["found_pairs"] if previous else None,
    }
    for measured in measure_methods(halves, methods):
        record["methods"][measured.method] = {
            "scores": asdict(measured.scores) if measured.scores else None,
            "settings": list(measured.settings),
            "levels": list(measured.levels),
            "failed": measured.failed,
        }
        f1 = measured.failed or f"F1 {measured.scores.f1:.3f}" if measured.scores else "failed"
        print(f"{labelled.name:22} {measured.method:14} {f1} {measured.settings}", flush=True)
    if SEARCH in methods:
        folder = FOLDER / "searches"
        own = search_halves(halves, folder, has_containment=False)
        every = search_halves(halves, folder, has_containment=True)
        record["search"] = own._asdict()
        record["search_with_containment"] = every._asdict()
        print(f"{labelled.name:22} {'search':14} {own} {every}", flush=True)
    if labelled.name == LICENCES:
        record["found_pairs"] = count_found_pairs(labelled)
    return record


def main() -> None:
    """Runs the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    names = [*METHODS, SEARCH, TOOLS]
    parser.add_argument("--sets", nargs="*", choices=list(SETS), default=list(SETS))
    parser.add_argument("--methods", nargs="*", choices=names, default=names)
    parser.add_argument("--scale", type=float, default=1.0, help="share of the full sizes")
    parser.add_argument("--repositories", nargs="*", type=Path, default=[])
    parser.add_argument("--licences", nargs="*", type=Path, default=[])
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    places = Places(tuple(options.repositories), find_febrl(), tuple(options.licences))
    previous: dict[str, SetRecord] = {}
    if RECORD.exists():
        stored: QualityRecord = json.loads(RECORD.read_text("utf-8"))
        previous = {one["name"]: one for one in stored["sets"]}
    measured = dict(previous)
    for name in options.sets:
        labelled = make_set(name, places, options.scale)
        if labelled is None:
            print(f"{name}: this machine lacks what it is made from", file=sys.stderr)
            continue
        measured[name] = measure_set(labelled, options.methods, previous.get(name))
        if options.write:
            ordered = [measured[one] for one in SETS if one in measured]
            record: QualityRecord = {"machine": describe_machine(), "sets": ordered}
            text = json.dumps(record, indent=1, ensure_ascii=False) + "\n"
            RECORD.write_text(text, "utf-8")
    if options.write:
        write_pages()


if __name__ == "__main__":
    main()
