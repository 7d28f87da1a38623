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
from benchmarks.peers import Peer
from benchmarks.quality.labelled_set import LabelledSet
from benchmarks.quality.measurement import (
    Halves,
    MethodResult,
    Search,
    measure_asked,
    measure_cautious,
    measure_default,
    measure_fitted,
    measure_method,
    measure_preset,
    search_halves,
)
from benchmarks.quality.nearkin_runs import Clustering, count_found_pairs, run_dedup
from benchmarks.quality.sets import SETS, Places, make_set
from benchmarks.quality.tables import RECORD, QualityRecord, SearchRecord, SetRecord
from benchmarks.quality.tools import FOLDER, find_febrl, run_tool, tools_for
from nearkin.errors import RunError
from nearkin.quality.lab.measurements import describe_machine

METHODS = {
    "default": measure_default,
    "preset": measure_preset,
    "fitted": measure_fitted,
    "asked": measure_asked,
}
"""The methods of nearkin."""
CAUTIOUS = "cautious"
"""Methods for texts of which none may be lost. They are measured over the licence texts."""
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
    if CAUTIOUS in methods and halves.first.name == LICENCES:
        yield from measure_cautious(halves)
    if TOOLS not in methods:
        return
    for peer in tools_for(halves.first):
        yield measure_tool(peer, halves)


def measure_tool(peer: Peer, halves: Halves) -> MethodResult:
    """Measures another tool, which may learn from the labels of the other half."""

    def run(half: LabelledSet, other: LabelledSet) -> tuple[Clustering, str]:
        return run_tool(peer, half, other), ""

    try:
        return measure_method(peer.name, halves, run)
    except RunError as error:
        return MethodResult(peer.name, None, failed=str(error).strip().splitlines()[-1])


def measure_set(labelled: LabelledSet, methods: list[str]) -> SetRecord:
    """Measures a set.

    Args:
        labelled: The set.
        methods: Names of methods, `search` and `tools` included.
    """
    run_dedup(labelled.select(labelled.clusters.argsort()[:20]), {})  # compiles the kernels
    halves = Halves.of(labelled)
    record: SetRecord = {
        "name": labelled.name,
        "kind": labelled.kind,
        "documents": len(labelled.clusters),
        "clusters": len(set(labelled.clusters.tolist())),
        "methods": {},
        "search": None,
        "search_with_containment": None,
        "found_pairs": None,
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
        record["search"] = to_search_record(own)
        record["search_with_containment"] = to_search_record(every)
        print(f"{labelled.name:22} {'search':14} {own} {every}", flush=True)
    if labelled.name == LICENCES and "default" in methods:
        record["found_pairs"] = count_found_pairs(labelled)
    return record


def write_record(measured: SetRecord) -> None:
    """Writes a set into the file of all sets. What was not measured stays as it was.

    Args:
        measured: Record of the set.
    """
    sets: dict[str, SetRecord] = {}
    if RECORD.exists():
        stored: QualityRecord = json.loads(RECORD.read_text("utf-8"))
        sets = {one["name"]: one for one in stored["sets"]}
    previous = sets.get(measured["name"])
    if previous:
        measured["methods"] = {**previous["methods"], **measured["methods"]}
        measured["search"] = measured["search"] or previous["search"]
        measured["search_with_containment"] = (
            measured["search_with_containment"] or previous["search_with_containment"]
        )
        measured["found_pairs"] = measured["found_pairs"] or previous["found_pairs"]
    sets[measured["name"]] = measured
    record: QualityRecord = {
        "machine": describe_machine(),
        "sets": [sets[name] for name in SETS if name in sets],
    }
    RECORD.write_text(json.dumps(record, indent=1, ensure_ascii=False) + "\n", "utf-8")


def to_search_record(search: Search) -> SearchRecord:
    """Returns a search as a part of the record of a set."""
    return {
        "transferred": search.transferred,
        "best": search.best,
        "settings": list(search.settings),
    }


def main() -> None:
    """Runs the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    names = [*METHODS, CAUTIOUS, SEARCH, TOOLS]
    parser.add_argument("--sets", nargs="*", choices=list(SETS), default=list(SETS))
    parser.add_argument("--methods", nargs="*", choices=names, default=names)
    parser.add_argument("--scale", type=float, default=1.0, help="share of the full sizes")
    parser.add_argument("--repositories", nargs="*", type=Path, default=[])
    parser.add_argument("--licences", nargs="*", type=Path, default=[])
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    places = Places(tuple(options.repositories), find_febrl(), tuple(options.licences))
    for name in options.sets:
        labelled = make_set(name, places, options.scale)
        if labelled is None:
            print(f"{name}: this machine lacks what it is made from", file=sys.stderr)
            continue
        measured = measure_set(labelled, options.methods)
        if options.write:
            write_record(measured)
    if options.write:
        write_pages()


if __name__ == "__main__":
    main()
