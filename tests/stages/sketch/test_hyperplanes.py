"""Tests of the signatures of vectors: hyperplanes, their signs and their keys."""

import numpy as np
import pytest

import nearkin as nk
from nearkin.engine.second_measure import second_run
from nearkin.errors import KeyRequiredError, UsageError
from nearkin.settings.keys import HashKey
from nearkin.settings.spec import Spec
from nearkin.stages.hashing.families import hash_values, key_of
from nearkin.stages.sketch.hyperplanes import VectorSketcher, fingerprints, hyperplanes, keyed_words


@pytest.mark.parametrize("similarity", [0.3, 0.8, 0.95])
def test_share_of_agreeing_signs_matches_angle(similarity: float) -> None:
    d = 50
    n = 400
    k = 512
    rng = np.random.default_rng(1)
    a = rng.normal(size=(n, d))
    across = rng.normal(size=(n, d))
    across -= a * (np.vecdot(a, across) / np.vecdot(a, a))[:, None]
    unit = [x / np.linalg.norm(x, axis=1)[:, None] for x in (a, across)]
    b = similarity * unit[0] + np.sqrt(1 - similarity**2) * unit[1]
    sketcher = VectorSketcher(Spec(measure="cosine", unit="vector", n=d, k=k))
    x, y = (sketcher.sketch_matrix(v.astype(np.float32)).signatures for v in (a, b))
    agreeing = k - np.bitwise_count(x ^ y).sum(axis=1)
    p = 1 - np.arccos(similarity) / np.pi
    assert abs(agreeing.mean() / k - p) < 5 * np.sqrt(p * (1 - p) / (n * k))


def test_signs_depend_only_on_vector() -> None:
    """Compares signs of batches with sums in double precision, term by term."""
    d = 77
    rng = np.random.default_rng(2)
    vectors = rng.normal(size=(300, d)).astype(np.float32)
    planes = hyperplanes(d, 64, 1).astype(np.float64)
    # Vectors almost in one of the planes: the projections that rounding could turn over.
    for i in range(60):
        plane = planes[:, i]
        vectors[i] -= (plane * (vectors[i] @ plane) / (plane @ plane)).astype(np.float32)
    sketcher = VectorSketcher(Spec(measure="cosine", unit="vector", n=d, k=64))
    whole = sketcher.sketch_matrix(vectors).signatures[:, 0].tolist()
    alone = [int(sketcher.sketch_matrix(vectors[i : i + 1]).signatures[0, 0]) for i in range(300)]
    exact = []
    for vector in vectors:
        sums = np.zeros(64)
        for i in range(d):
            sums += np.float64(vector[i]) * planes[i]
        exact.append(sum(1 << j for j in range(64) if sums[j] > 0))
    assert whole == alone == exact


def test_equal_vectors_have_equal_fingerprints() -> None:
    rows = np.array([[0.0, 1.0], [-0.0, 1.0], [1.0, 0.0]], np.float32)
    prints = fingerprints(rows).tolist()
    assert prints[0] == prints[1] != prints[2]


def test_hyperplanes_are_integers_with_nearly_normal_distribution() -> None:
    planes = hyperplanes(64, 256, 7)
    assert (planes == np.rint(planes)).all()
    assert np.abs(planes).max() < 2**24
    scaled = planes / planes.std()
    assert abs(scaled.mean()) < 0.05
    assert abs((scaled**4).mean() - 2.85) < 0.1


def test_vectors_of_wrong_shape_are_rejected() -> None:
    with pytest.raises(UsageError, match=r"float32 \(n, 3\), not float64 \(2, 3\)"):
        VectorSketcher(Spec(measure="cosine", unit="vector", n=3)).sketch_matrix(np.ones((2, 3)))


KEYS = [HashKey(bytes(range(16))), HashKey(bytes(range(1, 17)))]
PLAIN = Spec(measure="cosine", unit="vector", n=16, k=256)


def test_hyperplanes_depend_on_key() -> None:
    """Checks that hyperplanes of different keys are unrelated."""
    first, second = (hyperplanes(64, 512, 1, key).astype(np.float64) for key in KEYS)
    plain = hyperplanes(64, 512, 1).astype(np.float64)
    for a, b in ((first, second), (first, plain), (second, plain)):
        assert abs(np.corrcoef(a.ravel(), b.ravel())[0, 1]) < 0.05
    for planes in (first, second):
        assert abs(planes.mean()) < 5 * planes.std() / np.sqrt(planes.size)
        assert abs(planes.std() / plain.std() - 1) < 0.05


def test_keyed_words_are_siphash_of_seed_and_position() -> None:
    messages = [(7).to_bytes(8, "little") + i.to_bytes(8, "little") for i in range(5, 9)]
    expected = hash_values(messages, key_of("siphash", 0, KEYS[0]))
    assert keyed_words(KEYS[0], 7, 4, 5).tolist() == expected.tolist()


def test_keyed_spec_of_vectors_requires_key() -> None:
    spec = PLAIN.keyed_with(KEYS[0])
    assert spec.scheme == "keyed-hyperplanes"
    assert spec.fingerprint != PLAIN.keyed_with(KEYS[1]).fingerprint
    for wrong in (None, KEYS[1]):
        with pytest.raises(KeyRequiredError):
            VectorSketcher(spec, wrong)
    with pytest.raises(UsageError, match="needs a key"):
        Spec(measure="cosine", unit="vector", n=16, scheme="keyed-hyperplanes")


def test_keyed_signs_estimate_angles() -> None:
    rng = np.random.default_rng(1)
    a = rng.normal(size=(400, 16)).astype(np.float32)
    b = (a + rng.normal(scale=0.5, size=a.shape)).astype(np.float32)
    angles = np.arccos(np.vecdot(a, b) / np.linalg.norm(a, axis=1) / np.linalg.norm(b, axis=1))
    sketcher = VectorSketcher(PLAIN.keyed_with(KEYS[0]), KEYS[0])
    words = sketcher.sketch_matrix(a).signatures ^ sketcher.sketch_matrix(b).signatures
    different = np.bitwise_count(words).sum(axis=1) / 256
    assert abs(float(np.mean(different - angles / np.pi))) < 0.01


@pytest.mark.parametrize("command", ["dedup", "index"])
def test_runs_and_indexes_of_vectors_use_given_key(command: str) -> None:
    vectors = np.random.default_rng(2).normal(size=(20, 16)).astype(np.float32)
    vectors[10:] = vectors[:10] * 2
    if command == "dedup":
        result = nk.dedup(
            {"v": vectors}, vector="v", key=KEYS[0], threshold=0.95, spec=PLAIN.keyed_with(KEYS[0])
        )
        assert result.statistics["kept"] == 10
        return
    with nk.Index.open(
        "memory://", PLAIN.keyed_with(KEYS[0]), 0.95, resources=nk.SpecResources(KEYS[0])
    ) as index:
        for i, vector in enumerate(vectors):
            index.upsert("scope", vector, f"{i}")
        assert index.query("scope", vectors[12])[0].similarity > 0.999
    with (
        pytest.raises(KeyRequiredError),
        nk.Index.open("memory://", PLAIN.keyed_with(KEYS[0]), 0.95) as index,
    ):
        index.upsert("scope", vectors[0], "0")


def test_second_measure_uses_key() -> None:
    rng = np.random.default_rng(4)
    vectors = rng.normal(size=(40, 16)).astype(np.float32)
    vectors[20:] = vectors[:20]
    data = {"text": [f"text number {i} with own words {i * i}" for i in range(40)], "v": vectors}
    spec = Spec(base_hash="siphash", key_id=KEYS[0].id)
    result = nk.dedup(data, spec=spec, key=KEYS[0], second_measure="cosine:v:0.99")
    assert result.statistics["kept"] == 20
    second = second_run(result._open[0].run)
    assert second.options.spec.scheme == "keyed-hyperplanes"
    assert second.options.spec.key_id == KEYS[0].id
