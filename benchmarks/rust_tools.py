"""Tools in Rust that comparisons build from their sources, which needs git and cargo."""

import gzip
import json
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np

from benchmarks.peer_runners.shared import read, write_spans
from benchmarks.peers import WORK, run_apart
from nearkin.errors import RunError
from nearkin.quality.lab.measurements import ProcessUsage, run_process

SEPARATOR = b"\xff\xff"
"""The bytes before the number of a document, between two documents. They do not occur in UTF-8."""
SEPARATOR_BYTES = 6
SUBSTRING_COMMANDS = (
    '"$0" make --data-file "$1" && '
    '"$0" self-similar --data-file "$1" --length-threshold "$3" --cache-dir "$2" --num-threads 2 '
    '&& "$0" collect --data-file "$1" --length-threshold "$3" --cache-dir "$2" > "$4"'
)
LEAST = 50
"""The smallest number of words of a passage."""
LEAST_BYTES = 300
"""The smallest number of bytes of a repeat of a suffix array: about LEAST words."""
BFF_SHARE = 0.1
"""The share of the runs of a paragraph from which bff reports it. It reports whole paragraphs."""


class RustTool(NamedTuple):
    """A tool whose program is built from a commit of its repository."""

    repository: str
    """Owner and name on GitHub."""
    commit: str
    program: str

    @property
    def name(self) -> str:
        """Name of the repository, without its owner."""
        return self.repository.partition("/")[2]

    @property
    def version(self) -> str:
        """The version that a table shows."""
        return f"{self.repository} {self.commit[:7]}"


SUBSTRINGS = RustTool(
    "google-research/deduplicate-text-datasets",
    "4e9888ac3f95dc4f6169867a04c4c19df02dafe3",
    "dedup_dataset",
)
BFF = RustTool("allenai/bff", "c89bb5e66faa56bde190c54c97c407ef07ecc03c", "bff")
DECON = RustTool("allenai/decon", "e1bcb80c752ab9bb014a24b182c547661f943ed1", "decon")


def build_tool(tool: RustTool) -> Path:
    """Returns the program of a tool, which is built if it does not exist.

    Args:
        tool: The tool.

    Raises:
        RunError: If git or cargo is missing, or fails.
    """
    folder = WORK / "environments" / tool.name
    program = folder / "target" / "release" / tool.program
    if program.exists():
        return program
    shutil.rmtree(folder, ignore_errors=True)
    for line in (
        ["git", "clone", "--quiet", f"https://github.com/{tool.repository}.git", str(folder)],
        ["git", "-C", str(folder), "checkout", "--quiet", tool.commit],
        ["cargo", "build", "--release", "--quiet", "--manifest-path", str(folder / "Cargo.toml")],
    ):
        if shutil.which(line[0]) is None:
            raise RunError(f"{tool.name} is built with {line[0]}, which is not installed")
        done = subprocess.run(line, capture_output=True, text=True)
        if done.returncode:
            raise RunError(f"cannot build {tool.name}: {done.stderr.strip().splitlines()[-1]}")
    return program


class RustPeer(NamedTuple):
    """A tool that finds parts of texts that occur twice.

    What converts the corpus and the result is not measured.
    """

    label: str
    tool: RustTool
    prepare: Callable[[Path, Path], None]
    """Writes the corpus (first argument) into the work folder (second) in the form of the tool."""
    line: Callable[[Path, Path], list[str]]
    """Returns the command for a program (first argument) and a work folder (second)."""
    collect: Callable[[Path, Path, Path], None]
    """Writes the spans (third argument) that are in the work folder (second) for a corpus."""


def run_rust_peer(peer: RustPeer, program: Path, corpus: Path, out: Path) -> ProcessUsage:
    """Runs a tool once, in an empty work folder.

    Args:
        peer: The tool.
        program: Its program.
        corpus: Folder of Parquet files with the columns `id` and `text`.
        out: Path of the Parquet file of spans: id, start, end.
    """
    work = WORK / "scratch"
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir(parents=True)
    run_apart(peer.prepare, corpus, work)
    usage = run_process(peer.line(program, work))
    run_apart(peer.collect, corpus, work, out)
    shutil.rmtree(work)
    return usage


def _join_texts(corpus: Path, work: Path) -> None:
    """Writes all texts into one file, with a different separator after each."""
    _, texts = read(str(corpus))
    with (work / "texts").open("wb") as file:
        for number, text in enumerate(texts):
            file.write(text.encode() + SEPARATOR + number.to_bytes(4, "little"))
    (work / "cache").mkdir()


def _substring_line(program: Path, work: Path) -> list[str]:
    paths = [program, work / "texts", work / "cache"]
    line = ["sh", "-c", SUBSTRING_COMMANDS, *map(str, paths), str(LEAST_BYTES)]
    return [*line, str(work / "ranges")]


def _collect_ranges(corpus: Path, work: Path, out: Path) -> None:
    """Writes the ranges of bytes that `collect` has printed after a line `out`."""
    ids, texts = read(str(corpus))
    sizes = np.array([len(text.encode()) for text in texts])
    firsts = np.cumsum(sizes + SEPARATOR_BYTES) - sizes - SEPARATOR_BYTES
    _, _, ranges = (work / "ranges").read_text().partition("out\n")
    spans = []
    for line in ranges.splitlines():
        start, end = map(int, line.split())
        document = int(np.searchsorted(firsts, start, side="right")) - 1
        last = min(end - int(firsts[document]), int(sizes[document]))
        spans.append((ids[document], start - int(firsts[document]), last))
    write_spans(str(out), spans)


def _write_gzip_lines(corpus: Path, work: Path) -> None:
    """Writes the documents as JSON lines, a file for each file of the corpus."""
    (work / "in").mkdir()
    (work / "out").mkdir()
    ids, texts = read(str(corpus))
    half = len(ids) // 2
    for part, rows in enumerate((slice(0, half), slice(half, None))):
        with gzip.open(work / "in" / f"{part}.json.gz", "wt", compresslevel=1) as file:
            for name, text in zip(ids[rows], texts[rows], strict=True):
                file.write(json.dumps({"id": name, "text": text}) + "\n")


def _bff_line(program: Path, work: Path) -> list[str]:
    inputs = sorted((work / "in").iterdir())
    # a compressed text has more bytes than words, and the filter has 32 bits for each byte
    runs = sum(path.stat().st_size for path in inputs)
    options = {
        "--bloom-filter-file": work / "filter",
        "--bloom-filter-size": 4 * runs,
        "--expected-ngram-count": runs,
        "--min-ngram-size": LEAST,
        "--max-ngram-size": LEAST,
        "--filtering-threshold": BFF_SHARE,
        "--output-directory": work / "out",
        "--threads": 1,
    }
    words = [str(word) for option in options.items() for word in option]
    return [str(program), *words, "--annotate-attribute-only", *map(str, inputs)]


def _collect_paragraphs(corpus: Path, work: Path, out: Path) -> None:
    """Writes the spans of the paragraphs that were marked."""
    spans = []
    for path in sorted((work / "out").iterdir()):
        with gzip.open(path, "rt") as file:
            for line in file:
                row = json.loads(line)
                spans += [(row["id"], start, end) for start, end in row["bff_duplicate_spans"]]
    write_spans(str(out), spans)


RUST_PEERS = (
    RustPeer(
        f"suffix array of deduplicate-text-datasets, {LEAST_BYTES} bytes",
        SUBSTRINGS,
        _join_texts,
        _substring_line,
        _collect_ranges,
    ),
    RustPeer(
        f"bff, paragraphs with more than {BFF_SHARE:.0%} of their runs of {LEAST} words seen",
        BFF,
        _write_gzip_lines,
        _bff_line,
        _collect_paragraphs,
    ),
)
