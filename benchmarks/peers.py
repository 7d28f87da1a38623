"""Compares nearkin with other libraries on the same texts, with the same shingles and threshold.

Each library is installed in its own environment.

python -m benchmarks.peers                        writes peers.json and the page of benchmarks
python -m benchmarks.peers --documents 20000 --only gaoya    a small one, to the terminal
"""

import argparse
import json
import random
import shutil
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple, TypeVar

import pyarrow.parquet as pq

from benchmarks.pages import write_pages
from benchmarks.peer_runners.shared import CANDIDATES, SLOTS, THRESHOLD, shingles
from benchmarks.whole_runs import count_candidates
from nearkin.errors import RunError
from nearkin.quality.lab.measurements import (
    ProcessUsage,
    describe_machine,
    run_nearkin,
    run_process,
)
from nearkin.quality.lab.synth import SynthSettings, synth
from nearkin.runtime.version import VERSION
from nearkin.stages.lsh.slot_bands import solve_banding

Result = TypeVar("Result")

HERE = Path(__file__).parent
WORK = HERE / "work"
RELEASE = VERSION.partition("+")[0]
"""The version of nearkin in tables, without the commit."""
TOOL_COLUMNS = (
    "tool",
    "version",
    "wall s",
    "CPU s",
    "MB per CPU s",
    "memory",
    "recall",
    "precision",
)
"""The columns of tables that compare tools by the text that they read."""
CHECKED_PAIRS = 20_000
"""The number of reported pairs whose similarity is computed from the texts."""
ABOUT = (
    "Whole processes, from parquet files of {documents:,} raw texts of 1.5 kB (a quarter of them "
    "near-duplicates, similarities from 0.6 to 1) to pairs with shingles of three words and "
    "threshold 0.8. Recall is over the planted pairs at or above the threshold; precision is the "
    "share of reported pairs that reach it, computed from the texts of up to {checked:,} of them. "
    "Systems that end with clusters report the pairs inside them; those with an estimate filter "
    "by it. Memory is that of the largest process. `benchmarks/peer_runners/` has the code with "
    "which each was run."
)


class Peer(NamedTuple):
    """A library to install, and the script that uses it."""

    name: str
    requirements: tuple[str, ...]
    script: str
    runs: int = 1
    label: str = ""
    """Name in the table, if it is not that of the library."""
    arguments: tuple[str, ...] = ()
    """Further arguments of the script."""


OWN_BANDING = solve_banding(THRESHOLD, 0.95, SLOTS)
"""The bands that nearkin chooses for the threshold. With the same bands, libraries differ in speed
and not in what they look for."""
PEERS = (
    Peer("gaoya", ("gaoya", "pyarrow"), "run_gaoya.py", 3),
    Peer("rensa", ("rensa", "pyarrow"), "run_rensa.py", 3),
    Peer("datasketch", ("datasketch", "pyarrow"), "run_datasketch.py"),
    Peer(
        "datasketch",
        ("datasketch", "pyarrow"),
        "run_datasketch.py",
        label=f"datasketch, {OWN_BANDING.bands} × {OWN_BANDING.rows} as nearkin",
        arguments=(str(OWN_BANDING.bands), str(OWN_BANDING.rows)),
    ),
    Peer("datatrove", ("datatrove[io,processing]", "spacy"), "run_datatrove.py"),
    Peer("text-dedup", ("text-dedup",), "run_text_dedup.py"),
)


def environment(peer: Peer) -> Path:
    """Returns the interpreter of a library's environment, which is created if it does not exist.

    Raises:
        RunError: If the library cannot be installed.
    """
    folder = WORK / "environments" / peer.name
    python = folder / "bin" / "python"
    if not (folder / "installed").exists():
        subprocess.run([sys.executable, "-m", "venv", "--clear", folder], check=True)
        line = [
            python,
            "-m",
            "pip",
            "install",
            "--quiet",
            "--disable-pip-version-check",
            *peer.requirements,
        ]
        done = subprocess.run(line, capture_output=True, text=True)
        if done.returncode:
            raise RunError(f"cannot install {peer.name}: {done.stderr.strip().splitlines()[-1]}")
        (folder / "installed").touch()
    return python


def version(python: Path, name: str) -> str:
    """Returns the version of a library in an environment."""
    code = f"from importlib.metadata import version; print(version({name!r}))"
    return subprocess.run(
        [python, "-c", code], check=True, capture_output=True, text=True
    ).stdout.strip()


def run_peer(peer: Peer, python: Path, corpus: Path, out: Path) -> ProcessUsage:
    """Runs the script of a library once, in an empty work folder.

    Args:
        peer: The library.
        python: Interpreter of the environment in which the library is installed.
        corpus: Folder of Parquet files with the columns `id` and `text`.
        out: Path of the Parquet file of pairs.
    """
    work = WORK / "scratch"
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir(parents=True)
    done = run_process(
        [
            str(python),
            str(HERE / "peer_runners" / peer.script),
            str(corpus),
            str(out),
            str(work),
            *peer.arguments,
        ]
    )
    shutil.rmtree(work)
    return done


def find_pairs(corpus: Path, out: Path) -> ProcessUsage:
    """Runs `nearkin pairs` with expanded exact duplicates, as the other tools list them."""
    return run_nearkin(
        "pairs",
        corpus,
        "--id",
        "id",
        "--threshold",
        THRESHOLD,
        "--expand-exact",
        "--out",
        out,
        "--overwrite",
    )


def recall_and_precision(corpus: Path, pairs_file: Path) -> tuple[float, float]:
    """Returns the recall of planted pairs, and the precision of a sample of reported pairs."""
    table = pq.read_table(corpus / "documents", columns=["id", "text"])
    texts = table["text"].combine_chunks()
    rows = {name: row for row, name in enumerate(table["id"].to_pylist())}
    planted = {
        (one["id_a"], one["id_b"])
        for one in pq.read_table(corpus / "truth.parquet").to_pylist()
        if one["similarity"] >= THRESHOLD
    }
    reported = pq.read_table(pairs_file, columns=["id_a", "id_b"])
    pairs = list(zip(reported["id_a"].to_pylist(), reported["id_b"].to_pylist(), strict=True))
    sample = random.Random(1).sample(pairs, min(CHECKED_PAIRS, len(pairs)))
    right = 0
    for names in sample:
        one, other = (shingles(texts[rows[name]].as_py()) for name in names)
        right += len(one & other) >= THRESHOLD * len(one | other)
    return len(planted.intersection(pairs)) / len(planted), right / max(len(sample), 1)


def run_apart(function: Callable[..., Result], *arguments: object) -> Result:
    """Calls a function in another process.

    A measured child process starts with the memory of this process, which must stay small.

    Args:
        function: The function.
        *arguments: Its arguments.
    """
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as other:
        return other.submit(function, *arguments).result()


def read_candidates(pairs_file: Path) -> int | None:
    """Returns the number of candidates that a library wrote with its pairs, if it tells it."""
    metadata = pq.read_schema(pairs_file).metadata or {}
    return int(metadata[CANDIDATES]) if CANDIDATES in metadata else None


def measure_tool(
    name: str, release: str, corpus: Path, runs: int, run: Callable[[Path], ProcessUsage]
) -> dict[str, Any]:
    """Measures a tool and returns its row of the table.

    Args:
        name: Name of the tool.
        release: Version of the tool.
        corpus: Folder of the corpus and its planted pairs.
        runs: Number of runs.
        run: Runs the tool once, and writes the pairs to a path.
    """
    out = WORK / "pairs.parquet"
    done = [run(out) for _ in range(runs)]
    recall, precision = run_apart(recall_and_precision, corpus, out)
    row = {
        "name": name,
        "version": release,
        "seconds": median(one.seconds for one in done),
        "cpu": median(one.cpu for one in done),
        "memory": max(one.memory for one in done),
        "recall": recall,
        "precision": precision,
        "candidates": read_candidates(out),
    }
    print(json.dumps(row), flush=True)
    return row


def main() -> None:
    """Runs the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--documents", type=int, default=400_000)
    parser.add_argument("--only", nargs="*", default=sorted({peer.name for peer in PEERS}))
    options = parser.parse_args()
    corpus = WORK / "corpus"
    shutil.rmtree(corpus, ignore_errors=True)
    synth(corpus, SynthSettings(documents=options.documents, length="lognormal:1500:0.3", files=2))
    documents = corpus / "documents"
    find_pairs(documents, WORK / "pairs.parquet")
    systems = [measure_tool("nearkin", RELEASE, corpus, 3, lambda out: find_pairs(documents, out))]
    systems[0]["candidates"] = count_candidates(documents, "--threshold", str(THRESHOLD))
    for peer in PEERS:
        if peer.name not in options.only:
            continue
        try:
            python = environment(peer)
            release = version(python, peer.name)
            systems.append(
                measure_tool(
                    peer.label or peer.name,
                    release,
                    corpus,
                    peer.runs,
                    lambda out, p=peer, i=python: run_peer(p, i, documents, out),
                )
            )
        except RunError as error:
            print(error, file=sys.stderr)
            systems.append(
                {"name": peer.label or peer.name, "failed": str(error).strip().splitlines()[-1]}
            )
    if options.documents == 400_000 and len(systems) == len(PEERS) + 1:
        about = ABOUT.format(documents=options.documents, checked=CHECKED_PAIRS)
        record = {"about": about, "machine": describe_machine(), "systems": systems}
        (HERE / "peers.json").write_text(
            json.dumps(record, indent=1, ensure_ascii=False) + "\n", "utf-8"
        )
        write_pages()
    shutil.rmtree(corpus)


if __name__ == "__main__":
    main()
