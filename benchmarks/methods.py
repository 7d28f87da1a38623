"""Measures what each method finds, for the table of docs/explanation/which-method.md.

The corpus consists of invented press releases and their edited copies, with labels.

python -m benchmarks.methods                 quick size, to the terminal
python -m benchmarks.methods --full --write  full size; writes methods.json and the table
"""

import random
import re
import time
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

import nearkin as nk
from benchmarks.tables import Table, main
from scripts.make_demo_corpus import SEED, write_corpus

HERE = Path(__file__).parent
PAGE = HERE.parent / "docs" / "explanation" / "which-method.md"
QUICK_RELEASES = 1_000
FULL_RELEASES = 10_000
DIMENSIONS = 256
"""The number of components of the vectors that stand for embeddings."""
KINDS = ("capitals", "one number", "framed", "reworded", "cut in half")
"""The kinds of copies, from the most to the least similar one."""
KIND_OF_SOURCE = {"wire": "framed", "daily": "reworded", "portal": "cut in half"}
METHODS: tuple[tuple[str, dict[str, Any]], ...] = (
    ("exact duplicates", {"threshold": 1.0}),
    ("MinHash, Jaccard ≥ 0.8", {"threshold": 0.8}),
    ("MinHash, Jaccard ≥ 0.7", {"threshold": 0.7}),
    ("containment ≥ 0.8", {"threshold": 0.8, "relation": "containment"}),
    ("SimHash, distance ≤ 3", {"measure": "simhash", "distance": 3}),
    ("SimHash, distance ≤ 8", {"measure": "simhash", "distance": 8}),
    ("SimHash, distance ≤ 12", {"measure": "simhash", "distance": 12}),
    ("vectors, cosine ≥ 0.95", {"vector": "vector", "threshold": 0.95}),
    ("vectors, cosine ≥ 0.85", {"vector": "vector", "threshold": 0.85}),
)
"""The methods, with the arguments of `nk.pairs`."""


class Labels(NamedTuple):
    """The facts that are known about the documents.

    Attributes:
        release: Number of the release of each document, by its id.
        kind: Kind of copy of each document that is a copy, by its id.
        original: Id of the original of each release.
    """

    release: dict[str, int]
    kind: dict[str, str]
    original: dict[int, str]


def make_corpus(releases: int) -> tuple[pa.Table, Labels]:
    """Returns the documents with their vectors, and their labels.

    Args:
        releases: Number of different press releases.
    """
    documents = write_corpus(random.Random(SEED), releases)
    labels = Labels({}, {}, {})
    for document in documents:
        id, text = str(document["id"]), str(document["text"])
        release = int(document["release"])
        labels.release[id] = release
        if text.isupper():
            labels.kind[id] = "capitals"
        elif document["source"] in KIND_OF_SOURCE:
            labels.kind[id] = KIND_OF_SOURCE[str(document["source"])]
        elif text.startswith("CORRECT"):
            labels.kind[id] = "one number"
        else:
            labels.original[release] = id
    texts = [str(document["text"]) for document in documents]
    table = pa.table({"id": list(labels.release), "text": texts, "vector": embed(texts)})
    return table, labels


def embed(texts: list[str]) -> pa.Array:
    """Returns hashed and weighted word counts, shape (texts, 256), float32.

    They stand for an embedding: the order of the words has no influence, as little of it has in the
    vectors of a small model. Words get the weight of their inverse document frequency.
    """
    counts = np.zeros((len(texts), DIMENSIONS), np.float32)
    for row, text in enumerate(texts):
        for word in re.findall(r"\w+", text.lower()):
            counts[row, zlib.crc32(word.encode()) % DIMENSIONS] += 1
    rarity = np.log(len(texts) / (1 + (counts > 0).sum(axis=0)))
    flat = (counts * np.maximum(rarity, 0.1)).astype(np.float32).reshape(-1)
    return pa.FixedSizeListArray.from_arrays(pa.array(flat), DIMENSIONS)


def measure_method(
    table: pa.Table, labels: Labels, arguments: Mapping[str, Any]
) -> tuple[dict[str, float], float, float]:
    """Returns the recall for each kind of copy, the precision, and the seconds of one method.

    Args:
        table: Documents.
        labels: Labels of the documents.
        arguments: Arguments of `nk.pairs`.
    """
    began = time.perf_counter()
    has_groups = "relation" not in arguments
    found = nk.pairs(table, id="id", expand_exact=has_groups, **arguments).pairs.arrow
    seconds = time.perf_counter() - began
    pairs = {
        frozenset(pair)
        for pair in zip(found["id_a"].to_pylist(), found["id_b"].to_pylist(), strict=True)
    }
    right = sum(len({labels.release[id] for id in pair}) == 1 for pair in pairs)
    recall = {}
    for kind in KINDS:
        if kind == "capitals" and not has_groups:
            continue  # containment lists a group of exact duplicates by one member
        copies = [id for id, one in labels.kind.items() if one == kind]
        hits = sum(frozenset((id, labels.original[labels.release[id]])) in pairs for id in copies)
        recall[kind] = hits / len(copies)
    return recall, right / max(len(pairs), 1), seconds


def methods(full: bool) -> Table:
    """Measures all methods over one corpus."""
    small, small_labels = make_corpus(50)
    table, labels = make_corpus(FULL_RELEASES if full else QUICK_RELEASES)
    rows = []
    for name, arguments in METHODS:
        measure_method(small, small_labels, arguments)  # compiles the kernels
        recall, precision, seconds = measure_method(table, labels, arguments)
        shares = [f"{recall[kind]:.2f}" if kind in recall else "" for kind in KINDS]
        rows.append((name, *shares, f"{precision:.3f}", f"{seconds:.2f}"))
    note = (
        f"{len(table):,} documents: press releases of about 750 characters, "
        f"{len(labels.kind):,} of them copies. Share of the copies that were paired with their "
        "original, precision of all pairs, and seconds."
    )
    return Table("methods", note, ("method", *KINDS, "precision", "seconds"), rows)


if __name__ == "__main__":
    main(__doc__, (methods,), HERE / "methods.json", PAGE)
