"""Runs that list pairs: complete up to the pair budget, with an estimate of the rest beyond it."""

import json
from dataclasses import replace
from itertools import combinations
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import nearkin as nk
from nearkin.cli.app import run
from nearkin.engine import containment, missing_pairs
from nearkin.engine.pair_files import PairSpool, write_pairs
from nearkin.engine.run import Run
from nearkin.engine.stats import Stage
from nearkin.engine.wilson import total_interval
from nearkin.engine.work_folder import WorkFolder
from nearkin.stages.packed_pairs import pack_pairs, unpack_pairs

CLUSTERS = (260, 170, 60, 20, 8, 3)
"""The numbers of variants of the licence-like texts: few, and some of them huge."""
BUDGET = 5500
"""A pair budget that buckets of the largest clusters exceed: 105 documents."""


def variants_of_texts(seed: int = 1) -> list[str]:
    """Returns texts with up to three changed words of 120, and texts without near-duplicates."""
    random = np.random.default_rng(seed)
    texts = []
    for number, size in enumerate(CLUSTERS):
        words = [f"w{number}x{i}" for i in range(120)]
        for _ in range(size):
            variant = list(words)
            for place in random.choice(120, size=random.integers(4), replace=False):
                variant[place] = f"holder{random.integers(10**6)}"
            texts.append(" ".join(variant[random.integers(5) :]))
    texts += [" ".join(f"own{i}x{j}" for j in range(60)) for i in range(100)]
    return [texts[i] for i in random.permutation(len(texts))]


@pytest.fixture(scope="module")
def texts() -> list[str]:
    return variants_of_texts()


@pytest.fixture(autouse=True)
def banded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Makes small corpora be banded, as large ones are."""
    monkeypatch.setattr("nearkin.engine.run.SMALL_CORPUS", 0)


class SharedShingles(NamedTuple):
    """The sizes of all intersections of shingle sets, computed as one matrix product."""

    shared: np.ndarray
    sizes: np.ndarray

    @classmethod
    def count(cls, texts: list[str]) -> "SharedShingles":
        sets = [
            {tuple(words[i : i + 3]) for i in range(len(words) - 2)}
            for words in (text.split() for text in texts)
        ]
        numbers = {shingle: i for i, shingle in enumerate(sorted(set().union(*sets)))}
        contains = np.zeros((len(sets), len(numbers)), np.float32)
        for row, shingles in enumerate(sets):
            contains[row, [numbers[shingle] for shingle in shingles]] = 1
        return cls(contains @ contains.T, np.array([len(shingles) for shingles in sets]))


def pairs_where(reached: np.ndarray, texts: list[str]) -> set[tuple[int, int]]:
    """Returns the pairs (a < b) of a matrix whose documents have a text that occurs once."""
    once = np.array([texts.count(text) == 1 for text in texts])
    a, b = np.nonzero(np.triu(reached & once & once[:, None], 1))
    return set(zip(a.tolist(), b.tolist(), strict=True))


def listed(result: nk.results.PairsResult) -> set[tuple[int, int]]:
    rows = result.pairs.arrow.select(["id_a", "id_b"]).to_pylist()
    numbers = [(int(row["id_a"]), int(row["id_b"])) for row in rows]
    return {(min(pair), max(pair)) for pair in numbers}


def test_pairs_are_complete_without_options(texts: list[str]) -> None:
    shared, sizes = SharedShingles.count(texts)
    union = sizes + sizes[:, None] - shared
    truth = pairs_where(shared >= 0.8 * union - 1e-9, texts)
    result = nk.pairs(texts)
    sizes = result.stages["candidates"]["bucket_sizes"]
    assert max(size for size, _ in sizes) > 100, "buckets are larger than those of a deduplication"
    assert len(listed(result) & truth) >= 0.95 * len(truth)
    assert result.missing is None
    incomplete = nk.pairs(texts, pair_budget=0)
    assert len(listed(incomplete) & truth) < 0.95 * len(truth)


def test_contained_pairs_are_complete_without_options(texts: list[str]) -> None:
    shared, sizes = SharedShingles.count(texts)
    smaller = np.minimum(sizes, sizes[:, None])
    truth = pairs_where(shared >= 0.8 * smaller - 1e-9, texts)
    result = nk.pairs(texts, relation="containment")
    assert len(listed(result) & truth) >= 0.95 * len(truth)
    assert result.missing is None
    limited = nk.pairs(texts, relation="containment", pair_budget=BUDGET)
    assert limited.missing is not None
    missing = len(result) - len(limited)
    assert missing > 1000
    assert limited.missing.low <= missing <= limited.missing.high
    assert limited.missing.share == pytest.approx(missing / len(result), abs=0.1)


@pytest.mark.parametrize(
    "settings",
    [
        {"measure": "simhash", "threshold": 0.9},
        {"measure": "simhash", "distance": 6, "k": 64},
        {"measure": "weighted-jaccard"},
        {"verify": "estimate"},
        {"probes": 1, "bands": 12, "rows": 9},
        {"slot_bits": 8},
        {"expand_exact": True},
    ],
    ids=str,
)
def test_every_measure_lists_the_pairs_of_huge_buckets(
    settings: dict[str, object], texts: list[str]
) -> None:
    texts = [*texts, *texts[:20]]
    default = nk.pairs(texts, **settings)  # type: ignore[arg-type]
    unlimited = nk.pairs(texts, hot_bucket_size=10**6, **settings)  # type: ignore[arg-type]
    assert default.pairs.arrow.equals(unlimited.pairs.arrow)
    limited = nk.pairs(texts, pair_budget=BUDGET, **settings)  # type: ignore[arg-type]
    assert limited.missing is not None
    missing = len(unlimited) - len(limited)
    # The interval covers 95 %, so a wider one avoids chance: six standard errors are three of it.
    deviation = 3 * (limited.missing.high - limited.missing.low) / 2
    assert abs(limited.missing.pairs - missing) <= deviation


def test_vectors_list_the_pairs_of_huge_buckets() -> None:
    random = np.random.default_rng(2)
    centers = random.normal(size=(3, 16))
    vectors = np.concatenate(
        [center + random.normal(scale=0.08, size=(150, 16)) for center in centers]
    )
    table = pa.table({"v": pa.array(vectors.astype(np.float32).tolist())})
    default = nk.pairs(table, vector="v", threshold=0.95)
    unlimited = nk.pairs(table, vector="v", threshold=0.95, hot_bucket_size=10**6)
    assert default.pairs.arrow.equals(unlimited.pairs.arrow)
    assert len(default) > len(nk.pairs(table, vector="v", threshold=0.95, pair_budget=0))


def finished_run(texts: list[str], folder: Path) -> Run:
    """Returns a run whose buckets exceed the pair budget, before the estimate."""
    from nearkin.corpus import Columns, TableCorpus
    from nearkin.engine.options import RunOptions
    from nearkin.runtime.progress import Silent

    corpus = TableCorpus(pa.table({"text": texts}))
    options = RunOptions(pair_budget=BUDGET)
    work = WorkFolder.create(folder, {}, durable=False)
    local = Run(corpus, Columns(text="text"), options, work, Silent())
    local.to_pairs()
    return local


def test_pairs_are_drawn_by_the_products_of_their_weights() -> None:
    """Each count is binomial: six standard deviations are a chance of 1 in 500 million."""
    members = np.array([2, 3, 5, 7], np.uint32)
    weights = np.zeros(8, np.int64)
    weights[members] = [10**9, 1, 2, 3]
    draws = 60_000
    drawn = missing_pairs._draw_pairs(members, weights, draws, np.random.default_rng(3))
    first, second = unpack_pairs(drawn)
    assert (first < second).all()
    for other, share in ((3, 1 / 6), (5, 2 / 6), (7, 3 / 6)):
        count = int(((first == 2) & (second == other)).sum())
        assert abs(count - draws * share) <= 6 * (draws * share * (1 - share)) ** 0.5
    even = missing_pairs._draw_pairs(members, np.ones(8, np.int64), draws, np.random.default_rng(3))
    _, counts = np.unique(even, return_counts=True)
    assert len(counts) == 6
    assert np.abs(counts - draws / 6).max() <= 6 * (draws / 6 * 5 / 6) ** 0.5


def test_estimates_are_unbiased_and_their_intervals_cover(
    texts: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """200 samples of one run: the mean is the truth, and at least 93 % of the intervals cover."""
    local = finished_run(texts, tmp_path / "work")
    missing = len(nk.pairs(texts)) - len(local.scored().pairs)
    monkeypatch.setattr(missing_pairs, "SAMPLED_PAIRS", 500)
    estimates = []
    for seed in range(200):
        monkeypatch.setattr(missing_pairs, "SEED", seed)
        estimates.append(missing_pairs.estimate_missing_pairs(local, expand_exact=False))
        local.work.manifest["stages"].pop(Stage.MISSING_PAIRS)
    values = np.array([estimate.pairs for estimate in estimates if estimate is not None])
    standard_error = values.std(ddof=1) / np.sqrt(len(values))
    assert abs(values.mean() - missing) < 4 * standard_error
    covering = [e for e in estimates if e is not None and e.low <= missing <= e.high]
    assert len(covering) >= 0.93 * 200


def test_multiplicity_counts_the_buckets_of_a_pair(tmp_path: Path) -> None:
    from nearkin.engine.pair_files import BucketWriter, StoredBuckets

    random = np.random.default_rng(3)
    buckets = [np.sort(random.choice(40, size=12, replace=False)) for _ in range(9)]
    with BucketWriter(tmp_path) as writer:
        for members in buckets:
            writer.add(members.astype(np.uint64))
    pairs = list(combinations(range(40), 2))
    packed = pack_pairs(*(np.array(column) for column in zip(*pairs, strict=True)))
    counted = missing_pairs._count_common_buckets(packed, StoredBuckets.read(tmp_path))
    assert counted.tolist() == [
        sum(a in members and b in members for members in buckets) for a, b in pairs
    ]


def test_interval_of_contained_pairs_covers_totals() -> None:
    """Totals of 2,000 skewed counts, estimated from 256 of them, 400 times."""
    random = np.random.default_rng(4)
    counts = random.geometric(0.02, size=2000) * (random.random(2000) < 0.5)
    covered = 0
    for _ in range(400):
        drawn = random.permutation(counts)[: containment.SAMPLED_DOCUMENTS]
        low, high = total_interval(drawn, len(counts))
        covered += low <= counts.sum() <= high
    assert covered >= 0.93 * 400
    assert total_interval(counts, len(counts)) == (counts.sum(), counts.sum())
    zeros = np.zeros(256, np.int64)
    assert total_interval(zeros, 2000)[1] > 0, "a sample of zeros proves nothing"


@pytest.mark.parametrize("relation", ["similarity", "containment"])
def test_threads_memory_and_files_do_not_change_pairs_or_estimate(
    relation: str, texts: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(4):
        part = pa.table({"text": texts[number * 200 : (number + 1) * 200]})
        if len(part):
            pq.write_table(part, tmp_path / f"{number}.parquet")
    common = {"relation": relation, "pair_budget": BUDGET}
    one = nk.pairs(texts, workers=1, **common)  # type: ignore[arg-type]
    monkeypatch.setattr("nearkin.engine.run.BYTES_PER_PAIR", 2**23)
    monkeypatch.setattr("nearkin.engine.candidates.BYTES_PER_KEY", 2**21)
    monkeypatch.setattr("nearkin.engine.candidates.PAIRS_PER_BATCH", 50)
    monkeypatch.setattr("nearkin.engine.containment_search.BYTES_PER_HASH", 10**6)
    monkeypatch.setattr("nearkin.engine.containment_search.ROWS_AT_ONCE", 64)
    other = nk.pairs(sorted(tmp_path.glob("*.parquet")), workers=3, memory="512MiB", **common)  # type: ignore[call-overload]
    assert one.missing == other.missing
    assert one.missing is not None
    score = one.pairs.arrow.column_names[2]
    assert sorted(one.pairs[score].to_pylist()) == sorted(other.pairs[score].to_pylist())


def test_candidates_of_missing_contained_pairs_are_held_on_disk(
    texts: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A sampled document can be contained in almost every document of a corpus."""
    on_disk: dict[str, bool] = {}

    def write(path: Path, spool: PairSpool) -> np.ndarray:
        on_disk[path.name] = any(spool._folder.iterdir())
        return write_pairs(path, spool)

    monkeypatch.setattr(containment, "write_pairs", write)
    monkeypatch.setattr("nearkin.engine.run.BYTES_PER_PAIR", 2**23)
    assert nk.pairs(texts, relation="containment", pair_budget=BUDGET, memory="512MiB").missing
    assert on_disk[containment.MISSING_CANDIDATES]


def test_spool_yields_large_partitions_in_portions(tmp_path: Path) -> None:
    """All pairs of one huge bucket have few first documents, and so are in one partition."""
    random = np.random.default_rng(5)
    pairs = pack_pairs(random.integers(50, size=40_000), 50 + random.integers(5000, size=40_000))
    spool = PairSpool(tmp_path, 10**6, limit=1000)
    for part in np.array_split(pairs, 100):
        spool.add(part)
    portions = list(spool.sorted())
    assert spool.partitions > 1
    assert max(map(len, portions)) <= 2000
    assert np.concatenate(portions).tolist() == np.unique(pairs).tolist()


def test_dedup_is_unaffected_by_the_budget_of_pairs(texts: list[str]) -> None:
    """Leaders suffice for clusters, so a deduplication compares no more pairs than before."""
    result = nk.dedup(texts)
    assert result._finished is not None
    candidates = result._finished.run.stats.candidates
    assert candidates is not None
    assert candidates.hot_buckets > 0
    assert result._finished.run.options.pair_budget is None
    assert not result._finished.run.recorded(Stage.MISSING_PAIRS)


def test_command_line_says_what_is_missing(
    texts: list[str], tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    source, out = tmp_path / "texts.parquet", tmp_path / "pairs.parquet"
    pq.write_table(pa.table({"text": texts}), source)
    line = ["pairs", str(source), "--out", str(out)]
    assert run([*line, "--json"]) == 0
    complete = json.loads(capfd.readouterr().out)
    assert (complete["missing_pairs"], complete["missing_share"]) == (0, 0.0)
    assert complete["parameters"]["pair_budget"] == 50_000_000
    limited = [*line, "--pair-budget", str(BUDGET), "--overwrite"]
    assert run([*limited, "--json"]) == 0
    summary = json.loads(capfd.readouterr().out)
    estimate = summary["stages"]["missing_pairs"]
    assert summary["missing_pairs"] == estimate["pairs"] > 0
    assert summary["missing_share"] == estimate["share"] > 0
    assert run([*limited]) == 0
    printed = " ".join(capfd.readouterr().err.split())
    assert f"; an estimated {estimate['pairs']:,} more are missing" in printed
    assert "raise --pair-budget" in printed
    # A finished file says again what is missing.
    assert run([*line, "--pair-budget", str(BUDGET), "--resume", "--json"]) == 0
    again = json.loads(capfd.readouterr().out)
    assert again["missing_pairs"] == estimate["pairs"]
    assert run([*line, "--pair-budget", "-1", "--overwrite"]) == 2
    assert "--pair-budget -1 is out of range" in capfd.readouterr().err


def test_estimate_of_a_copied_result_is_kept(texts: list[str]) -> None:
    import pickle

    result = nk.pairs(texts, pair_budget=BUDGET)
    again = pickle.loads(pickle.dumps(result))
    assert again.missing == result.missing
    assert replace(result).missing == result.missing
