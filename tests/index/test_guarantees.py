"""Guarantees of an index: verified matches, recall, durability, several processes."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

import nearkin as nk
from nearkin.index.maintenance import check_index, merge_clusters
from tests.index.conftest import corpus, empty_store

WRITER = """
import sys
import nearkin as nk
from tests.index.conftest import corpus
url, seed, documents, size, confirm = sys.argv[1].split(), *map(int, sys.argv[2:6])
texts = corpus(documents, seed=seed)
with nk.Index.open(url if len(url) > 1 else url[0], threshold=0.7, bands=16, rows=5) as index:
    print("ready", flush=True)
    for start in range(0, documents, size):
        outcomes = index.upsert_many("a", texts[start : start + size])
        if confirm:
            print(*(outcome.id for outcome in outcomes), flush=True)
"""


def writer(
    url: "str | list[str]", seed: int, documents: int, size: int, confirm: bool
) -> "subprocess.Popen[str]":
    line = [
        sys.executable,
        "-c",
        WRITER,
        url if isinstance(url, str) else " ".join(url),
        str(seed),
        str(documents),
        str(size),
        str(int(confirm)),
    ]
    return subprocess.Popen(line, stdout=subprocess.PIPE, text=True, cwd=Path(__file__).parents[2])


def test_every_match_is_verified(full: bool) -> None:
    documents = 100_000 if full else 10_000
    texts = corpus(documents, seed=21)
    with nk.Index.open("memory://", threshold=0.7, bands=16, rows=5) as index:
        kinds = [
            o.kind
            for start in range(0, documents, 1000)
            for o in index.upsert_many("a", texts[start : start + 1000])
        ]
        assert kinds.count("match") > documents / 10
        found = check_index(index)
        assert found.sound, found.problems[:5]
        assert found.records == len({entry.id for entry in index._session.store.scan()})


def vectors_of_clusters(clusters: int, each: int, seed: int = 5) -> np.ndarray:
    """Vectors around directions: cosine about 0.86 to the centre, about 0.74 to each other."""
    rng = np.random.default_rng(seed)
    centres = rng.standard_normal((clusters, 64))
    centres /= np.linalg.norm(centres, axis=1, keepdims=True)
    noise = rng.standard_normal((clusters, each, 64))
    noise /= np.linalg.norm(noise, axis=2, keepdims=True)
    return np.asarray(centres[:, None] + 0.6 * noise, np.float32)


@pytest.mark.parametrize(
    ("clusters", "most", "least"), [(20, 100, 1.00), (100, 50, 0.97), (200, 20, 0.97)]
)
def test_ranking_keeps_recall_when_buckets_overflow(clusters: int, most: int, least: float) -> None:
    """Vectors at cosine 0.5, 40 bands of 5: each of 32 buckets holds several representatives."""
    made = vectors_of_clusters(clusters, 6)
    spec = nk.Spec(measure="cosine", unit="vector", n=64)
    settings = {"threshold": 0.5, "bands": 40, "rows": 5, "max_candidates": most}
    with nk.Index.open("memory://", spec, **settings) as index:
        index.upsert_many("a", list(made[:, 0]), [f"c{i}" for i in range(clusters)])
        unit = made / np.linalg.norm(made, axis=2, keepdims=True)
        heads = [index.get("a", f"c{i}") for i in range(clusters)]
        leaders = [i for i, head in enumerate(heads) if head is not None and head.is_leader]
        found, wanted = 0, 0
        for i in range(clusters):
            for j in range(1, 6):
                near = bool((unit[leaders, 0] @ unit[i, j] >= 0.5).any())
                wanted += near
                found += near and bool(index.query("a", made[i, j]))
        assert wanted > 3 * clusters
        assert found / wanted >= least


def test_full_buckets_of_texts_keep_recall() -> None:
    """A banner that all texts have fills one bucket with everybody.

    Shared bands still put the right one first.
    """
    banner = " ".join(f"b{i}" for i in range(14))
    own = [" ".join(f"w{i}x{j}" for j in range(30)) for i in range(400)]
    settings = {"threshold": 0.8, "bands": 60, "rows": 2}
    recall = {}
    for most in (100, 10_000):
        with nk.Index.open("memory://", max_candidates=most, **settings) as index:
            index.upsert_many(
                "a", [f"{banner} {text}" for text in own], [f"d{i}" for i in range(400)]
            )
            sizes = index._session.store.table.sizes()
            assert sizes.max() > 100
            matches = [index.query("a", f"{banner} {text} more") for text in own]
            recall[most] = sum(bool(m) and m[0].id == f"d{i}" for i, m in enumerate(matches)) / 400
    assert recall[10_000] == 1.0
    assert recall[100] >= recall[10_000] - 0.01


def test_a_killed_process_loses_nothing_it_acknowledged(tmp_path: Path, full: bool) -> None:
    rng = np.random.default_rng(8)
    for attempt in range(50 if full else 5):
        url = f"sqlite:///{tmp_path}/kill{attempt}.db"
        process = writer(url, attempt, 4000, 1, confirm=True)
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        time.sleep(float(rng.uniform(0.02, 0.6)))
        os.kill(process.pid, signal.SIGKILL)
        acknowledged = process.stdout.read().splitlines()
        process.wait()
        with nk.Index.open(url) as index:
            held = {entry.id for entry in index._session.store.scan()}
            # the last line may have been cut off by the kill
            assert {line for line in acknowledged if len(line) == 22} <= held
            assert check_index(index).sound


@pytest.mark.parametrize("kind", ["sqlite", "redis", "postgres", "sharded", "aerospike-server"])
def test_processes_at_once(
    kind: str, request: pytest.FixtureRequest, tmp_path: Path, full: bool
) -> None:
    """Four processes, two of them with the same documents: each document once, every match
    verified, then merged."""
    url, documents = empty_store(kind, request, tmp_path), 5000 if full else 500
    processes = [writer(url, seed, documents, 10, confirm=False) for seed in (1, 1, 2, 3)]
    assert [process.wait() for process in processes] == [0] * 4
    with nk.Index.open(url) as index:
        wanted = {text for seed in (1, 2, 3) for text in corpus(documents, seed=seed)}
        entries = list(index._session.store.scan())
        assert len(entries) == len({entry.id for entry in entries}) == len(wanted)
        assert check_index(index).sound
        merge_clusters(index)
        found = check_index(index)
        assert found.sound, found.problems[:3]
