"""Tests of the cosine of vectors and of texts against brute force."""

import math
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import nearkin as nk


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


@pytest.mark.parametrize("settings", [{"threshold": 0.1}, {"distance": 20, "k": 64}], ids=str)
def test_low_similarities_of_signs_compare_all_pairs_of_a_small_corpus(
    settings: dict[str, object], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A corpus within the pair budget needs no banding, and the result says so."""
    monkeypatch.setattr("nearkin.engine.run.SMALL_CORPUS", 100)
    monkeypatch.setattr("nearkin.stages.lsh.sign_bands.MAX_BANDS", 4)
    monkeypatch.setattr("nearkin.stages.lsh.sign_bands.MAX_EXPECTED_BUCKET", 1)
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
