"""Hot buckets: near-copies among many variants of a text, and the estimate of what is missing."""

from itertools import combinations
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import nearkin as nk
from nearkin.engine.hot_bucket_loop import HotBucketLoop, MissingCounts
from nearkin.engine.hot_buckets import shuffle_keys, split_left_over
from nearkin.engine.stats import RunStats, Stage
from nearkin.errors import RunError
from nearkin.runs.run_record import RUN, read_run_record
from tests.cli.conftest import run
from tests.engine.variants import variants_of_a_text

HOT = {"id": "id", "hot_bucket_size": 20, "fanout": 10, "threshold": 0.8}
LINE = ("--id", "id", "--hot-bucket-size", 20, "--fanout", 10)
"""The options of HOT on the command line."""


@pytest.fixture(autouse=True)
def banded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Makes small corpora be banded, as large ones are."""
    monkeypatch.setattr("nearkin.engine.run.SMALL_CORPUS", 0)


def kept_copies(result: nk.results.DedupResult) -> int:
    rows = result.clusters.arrow.select(["id", "kept"]).to_pylist()
    return sum(row["kept"] for row in rows if row["id"].startswith("z"))


def count_similar_kept(result: nk.results.DedupResult, table: pa.Table, threshold: float) -> int:
    """Returns the number of pairs of kept documents that reach the threshold."""
    kept = result.clusters.arrow["kept"].to_numpy()
    shingles = [
        {tuple(words[i : i + 3]) for i in range(len(words) - 2)}
        for words in (text.split() for text in table["text"].filter(pa.array(kept)).to_pylist())
    ]
    numbers: dict[tuple[str, ...], int] = {}
    contains = np.zeros((len(shingles), sum(map(len, shingles))), np.float32)
    for document, own in enumerate(shingles):
        contains[document, [numbers.setdefault(shingle, len(numbers)) for shingle in own]] = 1
    contains = contains[:, : len(numbers)]
    shared = contains @ contains.T
    sizes = contains.sum(axis=1)
    union = sizes[:, None] + sizes[None, :] - shared
    return int(np.triu(shared >= threshold * union - 1e-9, 1).sum())


@pytest.mark.parametrize("seed", [1, 2])
def test_near_copies_are_removed_from_among_many_variants_of_a_text(seed: int) -> None:
    """The variants come first and take the places of leaders. The near-copies follow."""
    table = variants_of_a_text(variants=600, copies=60, changed_of_copies=5, seed=seed)
    complete = nk.dedup(table, **{**HOT, "hot_bucket_size": 10**6})  # type: ignore[arg-type]
    result = nk.dedup(table, **HOT)  # type: ignore[arg-type]
    verified = RunStats.from_stages(result.stages).verify
    assert verified is not None
    assert verified.hot_incomplete
    assert kept_copies(result) <= kept_copies(complete) + 3, "it was 32 and 35 with leaders alone"
    assert not any("may be missed" in warning for warning in result.warnings)


def test_missing_pairs_are_estimated_reported_and_recorded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("nearkin.engine.hot_bucket_loop.MOST_ROUNDS", 1)
    monkeypatch.setattr("nearkin.engine.candidates.GROUPING_LEVELS", 1)
    table = variants_of_a_text(variants=400, copies=60, changed_of_copies=6)
    result = nk.dedup(table, **HOT)  # type: ignore[arg-type]
    missing = RunStats.from_stages(result.stages).missing_pairs
    assert missing is not None
    truth = count_similar_kept(result, table, 0.8)
    assert truth > 100
    # Pairs without a common bucket are lost by the bands, as the recall of the run allows.
    assert missing.pairs == pytest.approx(truth, rel=0.1)
    assert missing.share > 0.05
    (warning,) = (text for text in result.warnings if "may be missed" in text)
    assert warning.startswith(f"about {missing.pairs:,} of {missing.total:,} pairs of near-dup")
    pq.write_table(table, tmp_path / "texts.parquet")
    line = (*LINE, "--max-removed", "1", "--out", tmp_path / "out", "-q")
    assert run("dedup", tmp_path / "texts.parquet", *line) == 0
    record = read_run_record(tmp_path / "out" / RUN)
    assert record.stages[Stage.MISSING_PAIRS]["pairs"] == missing.pairs
    assert warning[:40] in (tmp_path / "out" / "report.html").read_text()


def test_hot_buckets_without_a_loss_are_not_warned_of() -> None:
    """The documents share half of their words, and have no near-duplicates."""
    table = variants_of_a_text(variants=300, copies=0, changed=12)
    result = nk.dedup(table, **HOT)  # type: ignore[arg-type]
    stats = RunStats.from_stages(result.stages)
    assert stats.candidates is not None
    assert stats.candidates.hot_buckets > 0
    assert stats.missing_pairs is not None
    assert (stats.missing_pairs.pairs, stats.missing_pairs.total) == (0, 0)
    assert not any("bucket" in warning for warning in result.warnings)


def test_interrupted_estimate_is_resumed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(loop: HotBucketLoop) -> MissingCounts:
        raise RunError("interrupted")

    table = variants_of_a_text(variants=200, copies=20)
    whole = nk.dedup(table, **HOT)  # type: ignore[arg-type]
    pq.write_table(table, tmp_path / "texts.parquet")
    line = ("dedup", tmp_path / "texts.parquet", *LINE, "--out", tmp_path / "out", "-q")
    with monkeypatch.context() as patched:
        patched.setattr(HotBucketLoop, "count_missing", fail)
        assert run(*line) == 1
    assert run(*line, "--resume") == 0
    record = read_run_record(tmp_path / "out" / RUN)
    expected = RunStats.from_stages(whole.stages)
    assert expected.missing_pairs is not None
    assert RunStats.from_stages(record.stages).missing_pairs == expected.missing_pairs


def test_left_over_documents_are_grouped_by_the_nearest_leader() -> None:
    members = np.array([9, 8, 7, 6, 5, 4], np.uint64)
    nearest = np.array([-1, 2, 0, 2, -1, 1])
    assert [group.tolist() for group in split_left_over(members, nearest)] == [[8, 6]]
    assert list(split_left_over(members, np.full(6, -1))) == []


@pytest.mark.parametrize("kind", ["uint8", "uint32", "uint64"])
def test_every_round_has_an_order_of_its_own(kind: str) -> None:
    signatures = np.random.default_rng(1).integers(255, size=(1000, 9)).astype(kind)
    orders = [np.argsort(shuffle_keys(signatures, number)) for number in range(1, 5)]
    for first, second in combinations(orders, 2):
        in_both = len(np.intersect1d(first[:100], second[:100]))
        assert in_both < 30, "10 of 100 are expected"
    assert (shuffle_keys(signatures, 1) >= 0).all()
    assert shuffle_keys(signatures[5:6], 3) == shuffle_keys(signatures, 3)[5]
