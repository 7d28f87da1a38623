"""Measures what a saved reference adds to the deduplication of new documents, in CPU seconds.

python -m benchmarks.reference --work FOLDER                      50,000 against 500,000
python -m benchmarks.reference --work FOLDER --new 1000000 --length fixed:300    the large size

The documents are generated. A quarter of them is in clusters, which new documents share with the
reference. The reference is saved with signatures and shingle hashes; `--no-hashes` leaves these
hashes out, so that texts of the reference are read again. Everything is written below the folder,
and the corpus and the saved run are used again by the next call.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
from pathlib import Path

RUNS = 3


def run_nearkin(*arguments: object) -> float:
    """Runs a command, and returns the CPU time of its process in seconds.

    Args:
        *arguments: Arguments of nearkin.
    """
    command = [sys.executable, "-m", "nearkin", *map(str, arguments), "--quiet"]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise subprocess.CalledProcessError(process.returncode, command)
    return usage.ru_utime + usage.ru_stime


def make_documents(
    folder: Path, new: int, times: int, length: str, *, with_hashes: bool
) -> tuple[Path, Path]:
    """Generates the documents, and saves the run over the reference.

    Args:
        folder: Folder of the corpus.
        new: Number of new documents.
        times: Number of documents of the reference for each new one.
        length: Length of the documents, as `nearkin synth` takes it.
        with_hashes: Whether the shingle hashes of the reference are saved.

    Returns:
        The file of the new documents, and the saved run over the reference.
    """
    corpus = folder / "corpus"
    saved = folder / ("saved-with-hashes" if with_hashes else "saved")
    if not corpus.exists():
        size = ("--documents", new * (times + 1), "--files", times + 1, "--length", length)
        run_nearkin("synth", *size, "--out", corpus)
    files = sorted((corpus / "documents").glob("*.parquet"))
    if not saved.exists():
        options = ["--save-signatures", *(["--save-hashes"] if with_hashes else [])]
        # Copies of the kept documents would only take space.
        command = ("dedup", *files[1:], "--id", "id", "--output", "none", *options, "-o", saved)
        seconds = run_nearkin(*command)
        print(f"the reference alone: {seconds:.1f} CPU seconds", flush=True)
    print(f"documents: {count_bytes(corpus) / 1e9:.2f} GB", flush=True)
    print(f"saved signatures: {count_bytes(saved / 'signatures') / 1e9:.2f} GB", flush=True)
    return files[0], saved


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
    parser.add_argument("--runs", type=int, default=RUNS, help="number of runs of each kind")
    given = parser.parse_args()
    given.work.mkdir(parents=True, exist_ok=True)
    new, saved = make_documents(
        given.work, given.new, given.times, given.length, with_hashes=not given.no_hashes
    )
    command = ("dedup", new, "--id", "id", "--overwrite", "-o")
    alone = []
    against = []
    for _ in range(given.runs):
        alone.append(run_nearkin(*command, given.work / "alone"))
        against.append(run_nearkin(*command, given.work / "against", "--against", saved))
        print(f"alone {alone[-1]:.1f}, against the reference {against[-1]:.1f}", flush=True)
    stages = json.loads((given.work / "against" / "run.json").read_bytes())["stages"]
    ratio = statistics.median(against) / statistics.median(alone)
    print(f"medians: {statistics.median(alone):.1f} and {statistics.median(against):.1f} CPU s")
    print(f"ratio: {ratio:.2f}; stage: {json.dumps(stages['against'])}")


if __name__ == "__main__":
    main()
