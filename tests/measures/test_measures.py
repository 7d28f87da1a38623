"""Compares the pipeline of every measure with brute force in plain Python."""

import math
from collections import Counter
from itertools import combinations
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import nearkin as nk
from nearkin.errors import UsageError
from nearkin.measures import BandingRequest, measure_of
from nearkin.measures.base import band_layout_of
from nearkin.measures.jaccard import Jaccard
from nearkin.packed_pairs import pack_pairs
from nearkin.sketch.sketcher import Sketcher
from nearkin.spec import MEASURES, SLOT_BITS, Spec

THRESHOLD = 0.8


@pytest.fixture(scope="module")
def texts() -> list[str]:
    """Returns distinct documents and edited copies of some. Words repeat within a document."""
    rng = np.random.default_rng(11)
    vocabulary = np.array([f"word{i}" for i in range(400)])
    documents = [list(rng.choice(vocabulary, rng.integers(60, 160))) for _ in range(260)]
    for i in range(120):
        copy = list(documents[i])
        for at in rng.choice(len(copy), i % 5, replace=False):
            copy[at] = f"edit{i}-{at}"
        documents.append(copy + copy[: i % 4])
    return [" ".join(document) for document in documents]


def grams(text: str) -> Counter[tuple[str, ...]]:
    words = text.replace("-", " ").split()
    return Counter(tuple(words[i : i + 3]) for i in range(len(words) - 2))


def cosine(a: Counter[tuple[str, ...]], b: Counter[tuple[str, ...]]) -> float:
    dot = sum(a[x] * b[x] for x in a)
    return dot / math.sqrt(sum(v * v for v in a.values()) * sum(v * v for v in b.values()))


def weighted_jaccard(a: Counter[tuple[str, ...]], b: Counter[tuple[str, ...]]) -> float:
    return (a & b).total() / (a | b).total()


def jaccard(a: Counter[tuple[str, ...]], b: Counter[tuple[str, ...]]) -> float:
    return len(a.keys() & b.keys()) / len(a.keys() | b.keys())


ORACLES = {"jaccard": jaccard, "weighted-jaccard": weighted_jaccard, "simhash": cosine}


@pytest.mark.parametrize("measure", sorted(ORACLES))
def test_small_corpora_are_compared_by_brute_force(measure: str, texts: list[str]) -> None:
    result_pairs = nk.pairs(
        texts, measure=measure, threshold=THRESHOLD, expand_exact=True
    ).pairs.arrow.to_pylist()
    counted = [grams(text) for text in texts]
    similarity = ORACLES[measure]
    want = {
        (f"{a:010}", f"{b:010}"): s
        for a, b in combinations(range(len(texts)), 2)
        if (s := similarity(counted[a], counted[b])) >= THRESHOLD
    }
    assert {(row["id_a"], row["id_b"]) for row in result_pairs} == set(want)
    for row in result_pairs:
        assert math.isclose(row["similarity"], want[row["id_a"], row["id_b"]], rel_tol=1e-12)
        assert abs(row["estimate"] - row["similarity"]) < 0.4
    assert len(result_pairs) > 50


BANDED = {
    "jaccard": Spec(),
    "weighted-jaccard": Spec(measure="weighted-jaccard"),
    "idf-jaccard": Spec(measure="idf-jaccard"),
    "8-bit idf-jaccard": Spec(measure="idf-jaccard", slot_bits=8),
    "simhash": Spec(measure="simhash", k=128),
    **{f"{bits}-bit": Spec(slot_bits=bits) for bits in SLOT_BITS[1:]},
}


@pytest.mark.parametrize("name", sorted(BANDED))
def test_banding_finds_pairs_of_brute_force(name: str, texts: list[str]) -> None:
    spec = BANDED[name]
    whole = nk.pairs(texts, spec=spec, threshold=THRESHOLD)
    bands = {"bands": 60, "rows": 12} if spec.measure == "simhash" else {"bands": 21, "rows": 6}
    banded = nk.pairs(texts, spec=spec, threshold=THRESHOLD, recall=0.99, **bands)
    assert not banded.stages["verify"]["brute_force"]
    a, b = (
        {(r["id_a"], r["id_b"], r["similarity"]) for r in found.pairs.arrow.to_pylist()}
        for found in (whole, banded)
    )
    assert b <= a
    assert len(b) >= 0.95 * len(a)


@pytest.mark.parametrize("name", sorted(BANDED))
@pytest.mark.parametrize("verify", ["estimate", "none"])
def test_pairs_are_found_by_estimates_alone(name: str, verify: str, texts: list[str]) -> None:
    bands = (
        {"bands": 60, "rows": 12} if BANDED[name].measure == "simhash" else {"bands": 21, "rows": 6}
    )
    result = nk.dedup(
        texts, spec=BANDED[name], threshold=THRESHOLD, verify=verify, cluster="components", **bands
    )
    assert 250 < int(result.kept.sum()) < 350


@pytest.mark.parametrize("extra", [0, 6000])
@pytest.mark.parametrize("distance", [3, 8, 11])
def test_all_pairs_within_hamming_distance_are_found(
    distance: int, extra: int, texts: list[str]
) -> None:
    """Compares both brute force and the block scheme with the expected pairs."""
    rng = np.random.default_rng(1)
    documents = [*texts, *(" ".join(map(str, rng.integers(0, 10**6, 30))) for _ in range(extra))]
    spec = Spec(measure="simhash")
    result_pairs = nk.pairs(
        documents, measure="simhash", distance=distance, expand_exact=True
    ).pairs.arrow.to_pylist()
    words = nk.sketch(documents, spec)[:, 0]
    far = np.bitwise_count(words[:, None] ^ words[None, :])
    a, b = np.nonzero(np.triu(far <= distance, 1))
    want = {
        (f"{x:010}", f"{y:010}", int(far[x, y]))
        for x, y in zip(a.tolist(), b.tolist(), strict=True)
    }
    assert {(r["id_a"], r["id_b"], r["distance"]) for r in result_pairs} == want
    assert all(r["similarity"] == r["estimate"] == 1 - r["distance"] / 64 for r in result_pairs)
    assert len(want) > 20


def test_distance_with_hot_buckets_gives_warning(texts: list[str]) -> None:
    rng = np.random.default_rng(1)
    documents = [*texts, *(" ".join(map(str, rng.integers(0, 10**6, 30))) for _ in range(6000))]
    for most, expected in ((5, True), (100, False)):
        warnings = nk.dedup(
            documents, measure="simhash", distance=8, hot_bucket_size=most
        ).report_data.all_warnings
        assert (
            any("may be missing; raise `hot_bucket_size`" in warning for warning in warnings)
            == expected
        )


@pytest.fixture(scope="module")
def vectors() -> np.ndarray:
    rng = np.random.default_rng(5)
    base = rng.normal(size=(5600, 24)).astype(np.float32)
    near = base[:400] + rng.normal(scale=0.25, size=(400, 24)).astype(np.float32)
    return np.concatenate([base, near, base[:10]])


def true_pairs(vectors: np.ndarray, threshold: float) -> set[tuple[int, int]]:
    unit = vectors.astype(np.float64)
    unit /= np.linalg.norm(unit, axis=1)[:, None]
    a, b = np.nonzero(np.triu(unit @ unit.T >= threshold, 1))
    return set(zip(a.tolist(), b.tolist(), strict=True))


@pytest.mark.parametrize("count", [1000, 6010])
def test_pairs_of_vectors_match_brute_force(count: int, vectors: np.ndarray) -> None:
    some = vectors[-count:]
    result_pairs = nk.pairs(
        {"v": some}, vector="v", threshold=0.95, expand_exact=True
    ).pairs.arrow.to_pylist()
    got = {(int(r["id_a"]), int(r["id_b"])) for r in result_pairs}
    want = true_pairs(some, 0.95)
    assert got <= want
    assert len(got) >= (0.95 if count > 5000 else 1.0) * len(want) > 0
    for row in result_pairs:
        a, b = some[int(row["id_a"])].astype(np.float64), some[int(row["id_b"])].astype(np.float64)
        exact = a @ b / math.sqrt((a @ a) * (b @ b))
        assert math.isclose(row["similarity"], min(exact, 1.0), rel_tol=1e-12)


def test_batches_without_candidates_are_processed() -> None:
    rng = np.random.default_rng(2)
    many = rng.normal(size=(20_000, 8)).astype(np.float32)
    many[1::1000] = many[::1000]
    many[1] += np.float32(0.01)
    column = pa.FixedSizeListArray.from_arrays(pa.array(many.reshape(-1)), 8)
    result = nk.dedup({"v": column}, vector="v", threshold=0.999, recall=0.9)
    assert result.statistics["removed_exact"] == 19
    assert result.statistics["removed_near"] >= 1
    texts = [f"{i} {i * 7} {i * 13} {i * 31}" for i in range(20_000)]
    texts[9001] = texts[9000] + " more"
    for measure in ("jaccard", "weighted-jaccard", "idf-jaccard", "simhash"):
        spec = nk.Spec(measure=measure, n=1, **({"k": 128} if measure == "simhash" else {}))
        assert (
            nk.dedup(texts, spec=spec, threshold=0.75, recall=0.9).statistics["removed_near"] >= 1
        )


def test_vectors_are_read_from_every_kind_of_column(vectors: np.ndarray, tmp_path: Path) -> None:
    some = vectors[:100]
    lists = some.astype(np.float64).tolist()
    columns = {
        "matrix": some,
        "lists": pa.array(lists, pa.list_(pa.float64())),
        "fixed": pa.FixedSizeListArray.from_arrays(pa.array(some.reshape(-1)), 24),
    }
    kept = [
        nk.dedup({"v": column}, vector="v", threshold=0.95).kept.tolist()
        for column in columns.values()
    ]
    pq.write_table(pa.table({"v": columns["fixed"]}), tmp_path / "v.parquet")
    kept.append(nk.dedup(tmp_path / "v.parquet", vector="v", threshold=0.95).kept.tolist())
    assert all(other == kept[0] for other in kept)


def test_invalid_vectors_are_quarantined() -> None:
    rows = [
        [1.0, 2.0],
        None,
        [float("nan"), 1.0],
        [float("inf"), 1.0],
        [0.0, 0.0],
        [1.0],
        [2.0, 4.0],
        [1e39, 1.0],
    ]
    result = nk.dedup({"v": pa.array(rows, pa.list_(pa.float64()))}, vector="v", threshold=0.9)
    assert result.kept.tolist() == [True] + [False] * 7
    assert result.statistics["rejected"] == 6
    reasons = {entry.reason: entry.rows for entry in result.report_data.rejected}
    assert reasons == {
        "v has a number that is NaN or infinite": 3,
        "v is null": 1,
        "v has 1 numbers instead of 2": 1,
        "v is a zero vector, which has no direction": 1,
    }


def test_contradictory_settings_are_rejected() -> None:
    with pytest.raises(UsageError, match="exclude each other"):
        nk.dedup({"v": np.ones((3, 2))}, vector="v", text="v")
    with pytest.raises(UsageError, match="not lists of numbers"):
        nk.dedup({"v": ["a"]}, vector="v")
    with pytest.raises(UsageError, match="holds no vector"):
        nk.dedup({"v": pa.array([[]], pa.list_(pa.float32()))}, vector="v")
    with pytest.raises(UsageError, match="name their column"):
        nk.dedup(["a"], measure="cosine", spec=Spec(measure="cosine", unit="vector", n=3))
    with pytest.raises(UsageError, match="the vectors have 2 numbers, but the Spec requires 3"):
        nk.dedup(
            {"v": np.ones((3, 2))}, vector="v", spec=Spec(measure="cosine", unit="vector", n=3)
        )
    with pytest.raises(UsageError, match="distance 3 is only for measures simhash and cosine"):
        nk.dedup(["a"], distance=3)
    with pytest.raises(UsageError, match="contradicts"):
        nk.dedup(["a"], measure="simhash", spec=Spec())
    with pytest.raises(UsageError, match="distance 64 is out of range"):
        nk.dedup(["a"], measure="simhash", distance=64)
    with pytest.raises(UsageError, match="chooses its own tables"):
        nk.dedup(["a"], measure="simhash", distance=3, bands=2, rows=3)


@pytest.mark.parametrize("bits", SLOT_BITS)
@pytest.mark.parametrize("similarity", [0.2, 0.5, 0.8])
def test_estimate_of_truncated_slots_is_unbiased_with_stated_error(
    bits: int, similarity: float
) -> None:
    spec = Spec(slot_bits=bits, scheme="classic")
    trials = 400
    size = 300
    measure = Jaccard(spec)
    shared = round(2 * size * similarity / (1 + similarity))
    true = shared / (2 * size - shared)
    rng = np.random.default_rng(bits)
    names = rng.integers(0, 2**40, (trials, 2 * size - shared))
    tokens = [list(map(str, row)) for a in names for row in (a[:size], a[size - shared :])]
    signatures = (
        Sketcher(spec_of_tokens(spec))
        .sketch(pa.array(tokens, pa.large_list(pa.large_string())))
        .signatures
    )
    band_layout = band_layout_of(
        measure.spec, measure.banding(BandingRequest(0.8, 0.95)), np.empty((0, 0), np.uint64)
    )
    from nearkin.lsh.kernels import pair_agreements

    a = np.arange(0, 2 * trials, 2, dtype=np.uint64)
    agreeing = np.empty(trials, np.int64)
    pairs = pack_pairs(a, a + np.uint64(1))
    pair_agreements(pairs, signatures, band_layout.layout, agreeing)
    chance = 0.0 if bits == 32 else 2.0**-bits
    estimates = (agreeing / spec.k - chance) / (1 - chance)
    error = measure.estimator.standard_error(true)
    assert abs(estimates.mean() - true) < 4 * error / math.sqrt(trials)
    assert 0.85 < estimates.std() / error < 1.15
    assert np.allclose(
        measure.estimator.estimate(pairs, agreeing).similarity, np.maximum(estimates, 0)
    )


def test_estimate_takes_signatures_of_every_measure() -> None:
    texts = ["one two three four five six seven eight", "one two three four five six seven nine"]
    for spec in (
        Spec(),
        Spec(slot_bits=4),
        Spec(measure="weighted-jaccard"),
        Spec(measure="simhash", k=128),
    ):
        a, b = nk.sketch(texts, spec)
        assert 0.4 < nk.estimate(a, b, spec) < 1
        assert nk.estimate(a, a, spec) == 1
    cosine = Spec(measure="cosine", unit="vector", n=4)
    x, y = nk.sketch(np.array([[1, 2, 3, 4], [-1, -2, -3, -4]], np.float32), cosine)
    assert nk.estimate(x, y, cosine) == -1
    with pytest.raises(UsageError, match="pass the Spec"):
        nk.estimate(x, y)
    with pytest.raises(UsageError, match=r"nk\.simhash"):
        nk.sketch(texts, Spec(measure="simhash", weights="given"))
    with pytest.raises(UsageError, match="weights='given', not 'simhash', 'tf'"):
        nk.simhash({"a": 1.0}, Spec(measure="simhash"))
    with pytest.raises(UsageError, match="weight of 'a' is nan"):
        nk.simhash({"a": float("nan")}, Spec(measure="simhash", weights="given"))


def spec_of_tokens(spec: Spec) -> Spec:
    return Spec(n=1, scheme=spec.scheme, slot_bits=spec.slot_bits)


@pytest.mark.parametrize("tables", [1, 2, 4])
def test_independent_tables_increase_recall(tables: int) -> None:
    """The recall of L tables of b bands is 1 − (1 − S)^L, which is that of L·b bands."""
    measure = measure_of(Spec(k=256))
    one = measure.banding(BandingRequest(0.8, 0.95, 4, 10, 1)).candidate_recall
    several = measure.banding(BandingRequest(0.8, 0.95, 4, 10, tables))
    assert several.bands == 4 * tables
    assert several.candidate_recall == pytest.approx(1 - (1 - one) ** tables)
    solved = measure.banding(BandingRequest(0.8, 0.95, tables=tables))
    assert solved.bands % tables == 0
    assert solved.recall >= 0.95


def test_tables_of_too_many_slots_are_rejected() -> None:
    with pytest.raises(UsageError, match="need 160 slots"):
        nk.dedup(["a"], bands=8, rows=10, tables=2)
    with pytest.raises(UsageError, match=r"tables=.* and probes=.* are only for MinHash"):
        nk.dedup(["a"] * 3, measure="simhash", bands=2, rows=3, tables=2)


def test_every_measure_processes_single_document() -> None:
    for name in MEASURES:
        data = {"v": np.ones((1, 4))} if name == "cosine" else ["alone in the world"]
        column = {"vector": "v"} if name == "cosine" else {}
        assert nk.dedup(data, measure=name, **column).kept.tolist() == [True]


def test_every_measure_processes_empty_documents() -> None:
    for name in ("jaccard", "weighted-jaccard", "idf-jaccard", "simhash"):
        result = nk.dedup(["", "...", "a b c"], measure=name)
        assert result.kept.tolist() == [True, True, True]
        assert result.statistics["empty"] == 2


@pytest.mark.parametrize("settings", [{"threshold": 0.1}, {"distance": 20, "k": 64}], ids=str)
def test_low_similarities_of_signs_compare_all_pairs_of_a_small_corpus(
    settings: dict[str, object], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A corpus within the pair budget needs no banding, and the result says so."""
    monkeypatch.setattr("nearkin.engine.run.SMALL_CORPUS", 100)
    monkeypatch.setattr("nearkin.lsh.sign_bands.MAX_BANDS", 4)
    monkeypatch.setattr("nearkin.lsh.sign_bands.MAX_EXPECTED_BUCKET", 1)
    rng = np.random.default_rng(8)
    common = {"measure": "simhash", "shingle": "words:1", **settings}
    documents = [" ".join(f"w{x}" for x in rng.integers(0, 30, 20)) for _ in range(150)]
    result = nk.pairs(documents, **common)  # type: ignore[arg-type]
    assert result.stages["verify"]["brute_force"]
    assert any("so all 11,175 pairs of 150 documents were compared" in w for w in result.warnings)
    monkeypatch.setattr("nearkin.engine.run.SMALL_CORPUS", 5000)
    small = nk.pairs(documents, **common)  # type: ignore[arg-type]
    assert small.pairs.arrow.equals(result.pairs.arrow)
    assert len(small) > 0
    monkeypatch.setattr("nearkin.engine.run.SMALL_CORPUS", 100)
    monkeypatch.setattr("nearkin.engine.run.DEFAULT_PAIR_BUDGET", 1000)
    with pytest.raises(nk.UsageError, match=r"raise|lower"):
        nk.pairs(documents, **common)  # type: ignore[arg-type]
