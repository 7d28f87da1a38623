"""Compares the pipeline of every measure with brute force in plain Python."""

import math
from collections import Counter
from itertools import combinations
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import nearkin as nk
from nearkin.errors import UsageError
from nearkin.settings.spec import MEASURES, SLOT_BITS, Spec

THRESHOLD = 0.8


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
        if not counted[a].keys().isdisjoint(counted[b])
        and (s := similarity(counted[a], counted[b])) >= THRESHOLD
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


def test_every_measure_processes_single_document() -> None:
    parameters: dict[str, dict[str, Any]] = {
        "cosine": {"data": {"v": np.ones((1, 4))}, "vector": "v"},
        "hamming": {"data": {"f": [bytes(8)]}, "fingerprint": "f", "distance": 3},
    }
    for name in MEASURES:
        given = {"data": ["alone in the world"], **parameters.get(name, {})}
        assert nk.dedup(**given, measure=name).kept.tolist() == [True]


def test_every_measure_processes_empty_documents() -> None:
    for name in ("jaccard", "weighted-jaccard", "idf-jaccard", "simhash"):
        result = nk.dedup(["", " \n", "a b c"], measure=name)
        assert result.kept.tolist() == [True, True, True]
        assert result.statistics["empty"] == 2
