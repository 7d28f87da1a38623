"""Compares nearkin passages with other tools that find or remove parts of texts that occur twice.

Each tool is installed in an environment of its own.

python -m benchmarks.passage_peers                  a small corpus, to the terminal
python -m benchmarks.passage_peers --full --write   60 MB of text, for the page of passages
"""

import os
import re
import shutil
import string
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.peers import (
    RELEASE,
    TOOL_COLUMNS,
    WORK,
    Peer,
    environment,
    run_apart,
    run_peer,
    version,
)
from benchmarks.rust_tools import LEAST, LEAST_BYTES, RUST_PEERS, build_tool, run_rust_peer
from benchmarks.tables import Table, main
from nearkin.errors import RunError
from nearkin.quality.lab.measurements import ProcessUsage, run_nearkin
from nearkin.quality.lab.synth import SynthSettings, synth

HERE = Path(__file__).parent
RECORD = HERE / "passage_peers.json"
PAGE = HERE.parent / "docs" / "explanation" / "passages.md"
WORD = re.compile(r"\w+")
PLANTED_SHARE = 0.05
PLANTED_WORDS = (60, 200)
FACTOR = np.uint64(0x9E3779B97F4A7C15)
PEERS = (
    Peer(
        "pydivsufsort",
        ("pydivsufsort", "pyarrow"),
        "run_suffix_array.py",
        label="suffix array, runs of 300 bytes",
        arguments=(str(LEAST_BYTES),),
    ),
    Peer(
        "rbloom",
        ("rbloom", "pyarrow"),
        "run_ngram_bloom.py",
        label="Bloom filter of runs of 50 words",
        arguments=(str(LEAST),),
    ),
    Peer(
        "datatrove",
        ("datatrove[io,processing]", "spacy"),
        "run_datatrove_sentences.py",
        label="datatrove, three equal sentences",
    ),
)
NOT_MEASURED = (
    "Not measured: the substring command of text-dedup 0.4.0, which calls the programs of "
    "deduplicate-text-datasets, and its line command, which compares whole lines, while these "
    "documents have one line."
)


def plant(folder: Path, documents: int) -> int:
    """Writes a corpus in which documents contain a passage of an earlier one.

    Args:
        folder: Folder that gets the folder `corpus`.
        documents: Number of documents.

    Returns:
        The size of the texts, in bytes.
    """
    settings = SynthSettings(documents=documents, length="fixed:1500", clustered=0.0, seed=1)
    synth(folder / "synth", settings)
    table = pq.read_table(folder / "synth" / "documents")
    shutil.rmtree(folder / "synth")
    texts = table["text"].to_pylist()
    rng = np.random.default_rng(7)
    targets = rng.choice(np.arange(1, documents), int(documents * PLANTED_SHARE), replace=False)
    for target in targets.tolist():
        words = texts[int(rng.integers(0, target))].split()
        length = min(int(rng.integers(*PLANTED_WORDS)), len(words))
        first = int(rng.integers(0, len(words) - length + 1))
        passage = " ".join(words[first : first + length]).strip(string.punctuation)
        before, _, after = texts[target].partition(" ")
        texts[target] = f"{before} {passage} {after}"
    (folder / "corpus").mkdir()
    half = documents // 2
    for part, rows in enumerate((slice(0, half), slice(half, documents))):
        columns = {"id": [f"{row:08}" for row in range(documents)][rows], "text": texts[rows]}
        pq.write_table(pa.table(columns), folder / "corpus" / f"part-{part}.parquet")
    return sum(len(text.encode()) for text in texts)


class Scores(NamedTuple):
    """The agreement of reported spans with the words that occur twice."""

    recall: float
    """The share of the words of later copies that are reported."""
    precision: float
    """The share of reported words that are in a run of LEAST words which occurs twice."""


def score(folder: Path, spans_file: Path) -> Scores:
    """Compares reported spans with all runs of LEAST words, which are found by their hashes.

    Args:
        folder: Folder of the corpus.
        spans_file: Parquet file of spans: id, start, end.
    """
    table = pa.concat_tables(
        pq.read_table(path) for path in sorted((folder / "corpus").glob("*.parquet"))
    )
    numbers: dict[str, int] = {}
    words = []
    starts = []
    ends = []
    counts = []
    for text in table["text"].to_pylist():
        found = [match.span() for match in WORD.finditer(text)]
        lower = text.lower()
        words += [numbers.setdefault(lower[start:end], len(numbers)) for start, end in found]
        starts += [start for start, _ in found]
        ends += [end for _, end in found]
        counts.append(len(found))
    firsts = np.concatenate([[0], np.cumsum(counts)])
    is_later, is_repeated = _mark_repeats(np.array(words, np.uint64), firsts)
    rows = {name: row for row, name in enumerate(table["id"].to_pylist())}
    begin = np.array(starts)
    finish = np.array(ends)
    is_reported = np.zeros(len(words), bool)
    spans = pq.read_table(spans_file, columns=["id", "start", "end"])
    for name, start, end in zip(*(column.to_pylist() for column in spans.columns), strict=True):
        low, high = firsts[rows[name]], firsts[rows[name] + 1]
        first = low + np.searchsorted(begin[low:high], start)
        last = low + np.searchsorted(finish[low:high], end, side="right")
        is_reported[first:last] = True
    return Scores(
        recall=float((is_reported & is_later).sum() / max(1, is_later.sum())),
        precision=float((is_reported & is_repeated).sum() / max(1, is_reported.sum())),
    )


def _mark_repeats(words: np.ndarray, firsts: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Returns which words are in a run that occurred before, and in one that occurs twice.

    Args:
        words: Numbers of all words, uint64 (n,).
        firsts: First word of each document, and the end, int64 (documents + 1,).
    """
    hashes = np.zeros(len(words) - LEAST + 1, np.uint64)
    for place in range(LEAST):
        hashes = hashes * FACTOR + words[place : place + len(hashes)] + np.uint64(1)
    documents = np.searchsorted(firsts, np.arange(len(words)), side="right")
    inside = np.flatnonzero(documents[: len(hashes)] == documents[LEAST - 1 :])
    _, first, number, times = np.unique(
        hashes[inside], return_index=True, return_inverse=True, return_counts=True
    )
    is_twice = times[number] > 1
    is_later = is_twice & (first[number] != np.arange(len(inside)))
    marks = []
    for chosen in (inside[is_later], inside[is_twice]):
        steps = np.zeros(len(words) + 1, np.int64)
        np.add.at(steps, chosen, 1)
        np.add.at(steps, chosen + LEAST, -1)
        marks.append(np.cumsum(steps)[:-1] > 0)
    return marks[0], marks[1]


def find_passages(folder: Path, out: Path) -> ProcessUsage:
    """Runs `nearkin passages`.

    Args:
        folder: Folder of the corpus.
        out: Path of the Parquet file of spans.
    """
    target = folder / "out"
    options = ("--id", "id", "--min", LEAST, "--memory", "2GB", "--overwrite", "--out", target)
    usage = run_nearkin("passages", folder / "corpus", *options)
    shutil.copy(target / "passages.parquet", out)
    return usage


def passage_peers_table(full: bool) -> Table:
    """Measures all tools on one corpus, once each."""
    documents = 40_000 if full else 1_000
    folder = WORK / "passages"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    size = run_apart(plant, folder, documents)
    out = WORK / "spans.parquet"
    find_passages(folder, out)
    rows = [_measure("nearkin", RELEASE, folder, size, lambda: find_passages(folder, out))]
    for peer in PEERS:
        try:
            python = environment(peer)
            release = version(python, peer.name)
            rows.append(
                _measure(
                    peer.label,
                    f"{peer.name} {release}",
                    folder,
                    size,
                    lambda p=peer, i=python: run_peer(p, i, folder / "corpus", out),
                )
            )
        except RunError as error:
            rows.append(_failed(peer.label, peer.name, error))
    for rust_peer in RUST_PEERS:
        try:
            program = build_tool(rust_peer.tool)
            rows.append(
                _measure(
                    rust_peer.label,
                    rust_peer.tool.version,
                    folder,
                    size,
                    lambda p=rust_peer, b=program: run_rust_peer(p, b, folder / "corpus", out),
                )
            )
        except RunError as error:
            rows.append(_failed(rust_peer.label, rust_peer.tool.version, error))
    shutil.rmtree(folder)
    load = os.getloadavg()[1]
    note = (
        f"Generated documents of 1.5 kB ({size / 1e6:,.0f} MB of text), {PLANTED_SHARE:.0%} of "
        f"them with a passage of {PLANTED_WORDS[0]} to {PLANTED_WORDS[1]} words of an earlier one; "
        "whole processes, one run each, one after the other. Recall is the share of the words of "
        f"later copies (runs of {LEAST} words that occurred before) that are reported; precision "
        f"is the share of reported words that are in a run of {LEAST} words which occurs twice. "
        f"The load of the machine was {load:.0f} at the end. Tools in Rust get the corpus in their "
        f"own form; the conversion is not measured. {NOT_MEASURED}"
    )
    return Table("passage_peers", note, TOOL_COLUMNS, rows)


def _failed(name: str, release: str, error: RunError) -> tuple[str, ...]:
    """Returns the row of a tool that could not be installed or run."""
    return (name, release, f"failed: {str(error).strip().splitlines()[-1]}", "", "", "", "", "")


def _measure(
    name: str, release: str, folder: Path, size: int, run: Callable[[], ProcessUsage]
) -> tuple[str, ...]:
    """Runs a tool once, and returns its row of the table."""
    usage = run()
    scores = run_apart(score, folder, WORK / "spans.parquet")
    row = (
        name,
        release,
        f"{usage.seconds:.0f}",
        f"{usage.cpu:.1f}",
        f"{size / 1e6 / usage.cpu:.1f}",
        f"{usage.memory / 1e9:.2f} GB",
        f"{scores.recall:.4f}",
        f"{scores.precision:.4f}",
    )
    print(" | ".join(row), flush=True)
    return row


if __name__ == "__main__":
    main(__doc__, [passage_peers_table], RECORD, PAGE, machine_mark="passage_peers_machine")
