"""Measures what new documents cost that extend a finished run, in CPU seconds.

python -m benchmarks.extend --work FOLDER [--documents 500000] [--share 0.01] [--write]

The documents are generated; a quarter of them is in clusters, which old and new ones share. The
whole run is one over all documents with the same options. Everything is written below the folder,
and the corpus and the finished run are used again by the next call. `--write` records the figures
for docs/contributing/benchmarks.md.
"""

import argparse
import json
import os
import statistics
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.pages import EXTENSION, write_pages
from nearkin.quality.lab.measurements import describe_machine, run_nearkin

OPTIONS = ("--id", "id", "--save-signatures", "--save-hashes", "--quiet", "--overwrite", "-o")
FILES = 20


def make_documents(folder: Path, documents: int, share: float) -> tuple[Path, Path]:
    """Writes the old documents in files of JSON lines, and the new ones in another file."""
    old = folder / "old"
    new = folder / "new.jsonl"
    if new.exists():
        return old, new
    corpus = folder / "corpus"
    run_nearkin("lab", "synth", "--documents", documents, "--out", corpus, "--quiet")
    parts = sorted((corpus / "documents").glob("*.parquet"))
    table = pa.concat_tables([pq.read_table(part) for part in parts])
    first_new = documents - round(documents * share)
    old.mkdir()
    bounds = [first_new * number // FILES for number in range(FILES + 1)]
    for number, start in enumerate(bounds[:-1]):
        rows = table.slice(start, bounds[number + 1] - start)
        write_lines(old / f"part-{number:02}.jsonl", rows)
    write_lines(new, table.slice(first_new))
    return old, new


def write_lines(path: Path, rows: pa.Table) -> None:
    """Writes rows as JSON lines."""
    with path.open("w", encoding="utf-8") as file:
        file.writelines(json.dumps(row) + "\n" for row in rows.to_pylist())


def main() -> None:
    """Prints the CPU time of a whole run and of runs that extend one."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--work", type=Path, required=True, help="folder, which is not deleted")
    parser.add_argument("--documents", type=int, default=500_000, help="number of documents")
    parser.add_argument("--share", type=float, default=0.01, help="share of new documents")
    parser.add_argument("--runs", type=int, default=3, help="number of runs of each kind")
    parser.add_argument("--write", action="store_true", help="record the figures")
    given = parser.parse_args()
    given.work.mkdir(parents=True, exist_ok=True)
    old, new = make_documents(given.work, given.documents, given.share)
    finished = given.work / "finished"
    if not finished.exists():
        run_nearkin("dedup", old, *OPTIONS, finished)
    extend = ("dedup", new, "--extend", finished, "--quiet", "--overwrite", "-o")
    commands = {
        "whole": ("dedup", old, new, *OPTIONS, given.work / "whole"),
        "extended": (*extend, given.work / "extended"),
        "stable": (*extend, given.work / "stable", "--stable"),
    }
    seconds: dict[str, list[float]] = {name: [] for name in commands}
    for _ in range(given.runs):
        for name, command in commands.items():
            seconds[name].append(run_nearkin(*command).cpu)
        print(", ".join(f"{name} {runs[-1]:.1f}" for name, runs in seconds.items()), flush=True)
    medians = {name: statistics.median(runs) for name, runs in seconds.items()}
    for name in ("extended", "stable"):
        print(f"{name}: {medians[name] / medians['whole']:.1%} of the whole run")
    if given.write:
        figure = {
            "documents": given.documents,
            "share": given.share,
            **seconds,
            "load": os.getloadavg()[0],
            "machine": describe_machine(),
        }
        recorded = json.loads(EXTENSION.read_bytes())["figures"] if EXTENSION.exists() else []
        size = (given.documents, given.share)
        others = [each for each in recorded if (each["documents"], each["share"]) != size]
        EXTENSION.write_text(json.dumps({"figures": [figure, *others]}, indent=1) + "\n", "utf-8")
        write_pages()


if __name__ == "__main__":
    main()
