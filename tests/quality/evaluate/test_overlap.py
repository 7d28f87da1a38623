"""Tests of the duplicates between sources and splits, which agree with counting."""

import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import nearkin as nk
from nearkin.quality.evaluate.labels import OTHERS_LABEL
from nearkin.quality.evaluate.overlap import MAX_LABELS, compute_overlap
from nearkin.stages.packed_pairs import pack_pairs


@pytest.mark.parametrize("seed", range(5))
def test_counts_agree_with_a_loop_over_documents(seed: int) -> None:
    rng = np.random.Generator(np.random.PCG64(seed))
    n = 60
    labels = rng.choice(["a", "b", "c"], n).tolist()
    representative = np.arange(n, dtype=np.uint32)
    for _ in range(15):
        x, y = sorted(rng.integers(0, n, 2).tolist())
        representative[representative == representative[y]] = representative[x]
    heads = np.unique(representative)
    ends = rng.choice(heads, (20, 2))
    ends = ends[ends[:, 0] != ends[:, 1]]
    pairs = np.unique(pack_pairs(ends[:, 0], ends[:, 1]))
    overlap = compute_overlap("label", pa.chunked_array([labels]), representative, pairs)

    known = {tuple(pair) for pair in ends.tolist()} | {tuple(pair[::-1]) for pair in ends.tolist()}
    for i, a in enumerate(overlap.labels):
        for j, b in enumerate(overlap.labels):
            exact, similar = 0, 0
            for d in (d for d in range(n) if labels[d] == a):
                others = [e for e in range(n) if e != d and labels[e] == b]
                same = any(representative[e] == representative[d] for e in others)
                near = any(
                    (int(representative[d]), int(representative[e])) in known for e in others
                )
                exact, similar = exact + same, similar + (same or near)
            assert (overlap.exact[i][j], overlap.similar[i][j]) == (exact, similar)
    assert sum(overlap.documents) == n


def test_small_labels_are_counted_together() -> None:
    labels = [f"s{i:02d}" for i in range(20) for _ in range(30 - i)]
    overlap = compute_overlap(
        "s",
        pa.chunked_array([[*labels, None]]),
        np.arange(len(labels) + 1, dtype=np.uint32),
        np.empty(0, np.uint64),
    )
    assert len(overlap.labels) == MAX_LABELS
    assert overlap.labels[-1] == OTHERS_LABEL
    assert overlap.labels[0] == "s00"
    assert sum(overlap.documents) == len(labels) + 1
    assert (
        compute_overlap(
            "s",
            pa.chunked_array([pa.array([], pa.string())]),
            np.empty(0, np.uint32),
            np.empty(0, np.uint64),
        ).labels
        == ()
    )


def test_splits_of_one_size_leak_into_each_other() -> None:
    labels = pa.chunked_array([["test", "train", "test", "train"]])
    overlap = compute_overlap(
        "split", labels, np.array([0, 0, 2, 3], np.uint32), np.empty(0, np.uint64)
    )
    assert overlap.leaks == ((0, 1), (1, 0))


def test_leaking_split_causes_a_warning(tmp_path: Path) -> None:
    words = [" ".join(f"w{i}x{j}" for j in range(30)) for i in range(50)]
    rows = [{"text": text, "split": "train"} for text in words]
    rows += [
        {"text": words[0], "split": "test"},
        {"text": words[1] + " more", "split": "test"},
        {"text": "new", "split": "test"},
    ]
    result = nk.dedup(pa.Table.from_pylist(rows), split="split")
    leakage = result.report_data.leakage
    assert leakage is not None
    test, train = leakage.labels.index("test"), leakage.labels.index("train")
    assert (leakage.similar[test][train], leakage.exact[test][train]) == (2, 1)
    assert leakage.leaks == ((test, train),)
    warned = "66.7% of the documents of split test have a duplicate in train (2 of 3)"
    assert warned in result.report_data.all_warnings
    result.write(tmp_path / "out")
    assert (
        json.loads((tmp_path / "out" / "report.json").read_bytes())["leakage"]["column"] == "split"
    )
