"""Measures what a saved reference adds to the deduplication of new documents, in CPU seconds.

python -m benchmarks.reference --work FOLDER                      50,000 against 500,000
python -m benchmarks.reference --work FOLDER --new 1000000 --length fixed:300    the large size

The documents are generated. A quarter of them is in clusters, which new documents share with the
reference. The reference is saved with signatures and shingle hashes; `--no-hashes` leaves these
hashes out, so that texts of the reference are read again. The pass over the keys of the reference
is what it costs to compare a few documents with it that resemble none of it. Everything is written
below the folder, and the corpus and the saved run are used again by the next call. `--write`
records the figures for docs/contributing/benchmarks.md.
"""

import argparse
import json
import os
import statistics
from pathlib import Path
from typing import TypedDict

import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.pages import REFERENCE, write_pages
from nearkin.quality.lab.measurements import describe_machine, run_nearkin

RUNS = 3
FEW = 100
"""The number of documents with which the pass over the keys of the reference is measured."""


class ReferenceFigure(TypedDict):
    """The cost of a reference beside the deduplication of new documents, in CPU seconds."""

    new: int
    times: int
    """The number of documents of the reference for each new one."""
    length: str
    hashes: bool
    """True if the shingle hashes of the reference were saved."""
    compared: int
    """The number of documents of the reference that were compared."""
    saved_bytes: int
    """The size of the saved signatures and hashes."""
    alone_runs: list[float]
    against_runs: list[float]
    pass_runs: list[float]
    """The pass over the keys of the reference."""
    load: float
    """The load average of the machine at the end."""
    machine: dict[str, object]


def make_documents(
    folder: Path, new: int, times: int, length: str, *, with_hashes: bool
) -> tuple[Path, Path]:
    """Generates the documents, and saves the run over the reference.

    Args:
        folder: Folder of the corpus.
        new: Number of new documents.
        times: Number of documents of the reference for each new one.
        length: Length of the documents, as `nearkin lab synth` takes it.
        with_hashes: Whether the shingle hashes of the reference are saved.

    Returns:
        The file of the new documents, and the saved run over the reference.
    """
    corpus = folder / "corpus"
    saved = folder / ("saved-with-hashes" if with_hashes else "saved")
    if not corpus.exists():
        size = ("--documents", new * (times + 1), "--files", times + 1, "--length", length)
        run_nearkin("lab", "synth", *size, "--out", corpus, "--quiet")
    files = sorted((corpus / "documents").glob("*.parquet"))
    if not saved.exists():
        options = ["--save-signatures", *(["--save-hashes"] if with_hashes else [])]
        # Copies of the kept documents would only take space.
        options += ["--id", "id", "--output", "none", "--quiet"]
        usage = run_nearkin("dedup", *files[1:], *options, "-o", saved)
        print(f"the reference alone: {usage.cpu:.1f} CPU seconds", flush=True)
    print(f"documents: {count_bytes(corpus) / 1e9:.2f} GB", flush=True)
    print(f"saved signatures: {count_bytes(saved / 'signatures') / 1e9:.2f} GB", flush=True)
    return files[0], saved


def compare_files(new: Path, saved: Path, folder: Path) -> tuple[float, float]:
    """Returns the CPU seconds of new documents alone, and against the reference.

    Args:
        new: File of the new documents.
        saved: Saved run over the reference.
        folder: Folder of the results.
    """
    command = ("dedup", new, "--id", "id", "--overwrite", "--quiet", "-o")
    alone = run_nearkin(*command, folder / "alone")
    against = run_nearkin(*command, folder / "against", "--against", saved)
    return alone.cpu, against.cpu


def count_bytes(folder: Path) -> int:
    """Returns the size of all files below a folder, in bytes."""
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def main() -> None:
    """Prints the CPU time of the new documents alone and against the reference."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--work", type=Path, required=True, help="folder, which is not deleted")
    parser.add_argument("--new", type=int, default=50_000, help="number of new documents")
    parser.add_argument("--times", type=int, default=10, help="documents of the reference for each")
    parser.add_argument("--length", default="fixed:1500", help="length of the documents")
    parser.add_argument("--no-hashes", action="store_true", help="save no shingle hashes")
    parser.add_argument("--write", action="store_true", help="record the figures")
    parser.add_argument("--runs", type=int, default=RUNS, help="number of runs of each kind")
    given = parser.parse_args()
    given.work.mkdir(parents=True, exist_ok=True)
    new, saved = make_documents(
        given.work, given.new, given.times, given.length, with_hashes=not given.no_hashes
    )
    few = given.work / "few.parquet"
    texts = [" ".join(f"q{number}x{word}" for word in range(50)) for number in range(FEW)]
    pq.write_table(pa.table({"id": [f"q{number}" for number in range(FEW)], "text": texts}), few)
    alone = []
    against = []
    passes = []
    for _ in range(given.runs):
        few_alone, few_against = compare_files(few, saved, given.work)
        passes.append(few_against - few_alone)
        of_new = compare_files(new, saved, given.work)
        alone.append(of_new[0])
        against.append(of_new[1])
        print(
            f"alone {alone[-1]:.1f}, against the reference {against[-1]:.1f}, pass over its keys "
            f"{passes[-1]:.1f}",
            flush=True,
        )
    stages = json.loads((given.work / "against" / "run.json").read_bytes())["stages"]
    own, both, key_pass = (statistics.median(runs) for runs in (alone, against, passes))
    print(f"medians: {own:.1f}, {both:.1f} and {key_pass:.1f} CPU seconds")
    print(f"ratio: {both / own:.2f}, without the pass over the keys {(both - key_pass) / own:.2f}")
    print(f"stage: {json.dumps(stages['against'])}")
    if given.write:
        figure: ReferenceFigure = {
            "new": given.new,
            "times": given.times,
            "length": given.length,
            "hashes": not given.no_hashes,
            "compared": stages["against"]["compared"],
            "saved_bytes": count_bytes(saved / "signatures"),
            "alone_runs": alone,
            "against_runs": against,
            "pass_runs": passes,
            "load": os.getloadavg()[0],
            "machine": describe_machine(),
        }
        record_figure(figure)


def record_figure(figure: ReferenceFigure) -> None:
    """Records a figure in place of one of the same sizes, and writes the page of benchmarks."""
    recorded = json.loads(REFERENCE.read_bytes())["figures"] if REFERENCE.exists() else []
    names = ("new", "times", "length", "hashes")
    others = [each for each in recorded if any(each[name] != figure[name] for name in names)]
    text = json.dumps({"figures": [figure, *others]}, indent=1)
    REFERENCE.write_text(text + "\n", "utf-8")
    write_pages()


if __name__ == "__main__":
    main()
