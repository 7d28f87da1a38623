"""Functions of all runners: the corpus, its shingles, and the output. They run in each environment.

A runner is a script called with the folder of parquet files, the file to write, and a folder for
its work files.
"""

import re
from collections.abc import Iterable, Iterator
from difflib import SequenceMatcher
from itertools import accumulate, combinations
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

THRESHOLD = 0.8
SLOTS = 128
WORDS = 3
WORD = re.compile(r"\w+")
CANDIDATES = b"candidates"
"""The entry of the metadata that holds the number of compared pairs, if a library tells it."""
LARGEST_CLUSTER = 1000
"""The largest cluster whose pairs are written. A cluster of n documents has n²/2 pairs."""


def files(corpus: str) -> list[Path]:
    """Returns the Parquet files of the corpus in order."""
    return sorted(Path(corpus).glob("*.parquet"))


def read(corpus: str) -> tuple[list[str], list[str]]:
    """Returns the ids and the texts of the corpus."""
    table = pa.concat_tables(
        [pq.read_table(path, columns=["id", "text"]) for path in files(corpus)]
    )
    return table["id"].to_pylist(), table["text"].to_pylist()


def shingles(text: str) -> set[str]:
    """Returns the sequences of three lower-case words, or that of all words if there are fewer."""
    words = WORD.findall(text.lower())
    return {" ".join(words[at : at + WORDS]) for at in range(max(len(words) - WORDS + 1, 1))}


def clustered(clusters: Iterable[list[str]]) -> Iterable[tuple[str, str]]:
    """Returns all pairs inside each cluster."""
    for members in clusters:
        if len(members) <= LARGEST_CLUSTER:
            yield from combinations(members, 2)


def write(path: str, pairs: Iterable[tuple[str, str]], candidates: int | None = None) -> None:
    """Writes pairs of ids, each once, with the smaller id first, and the number of candidates.

    Args:
        path: Path of the Parquet file.
        pairs: Pairs of ids, in any order.
        candidates: Number of compared pairs, or None if the library does not tell it.
    """
    ordered = sorted({(a, b) if a < b else (b, a) for a, b in pairs if a != b})
    columns = {"id_a": [a for a, _ in ordered], "id_b": [b for _, b in ordered]}
    schema = pa.schema([("id_a", pa.large_string()), ("id_b", pa.large_string())])
    if candidates is not None:
        schema = schema.with_metadata({CANDIDATES: str(candidates)})
    pq.write_table(pa.table(columns, schema=schema), path)


def write_spans(path: str, spans: Iterable[tuple[str, int, int]]) -> None:
    """Writes spans of bytes of documents.

    Args:
        path: Path of the Parquet file.
        spans: Id of the document, first byte, and byte after the last one, in any order.
    """
    rows = sorted(spans)
    columns = {
        "id": pa.array([row[0] for row in rows], pa.large_string()),
        "start": pa.array([row[1] for row in rows], pa.int64()),
        "end": pa.array([row[2] for row in rows], pa.int64()),
    }
    pq.write_table(pa.table(columns), path)


def find_removed(original: bytes, left: bytes) -> Iterator[tuple[int, int]]:
    """Yields the spans of a text that are not in what was left of it.

    Args:
        original: The text.
        left: The text without some parts, in the same order.
    """
    if original == left:
        return
    matcher = SequenceMatcher(None, original.split(b" "), left.split(b" "), autojunk=False)
    words = original.split(b" ")
    starts = [0, *accumulate(len(word) + 1 for word in words)]
    for kind, first, end, _, _ in matcher.get_opcodes():
        if kind != "equal" and end > first:
            yield starts[first], starts[end] - 1
