"""Tests of the signatures of signs: SimHash, hyperplanes, weights and keys."""

from collections import Counter
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import nearkin as nk
from nearkin.engine.local.second_measure import second_run
from nearkin.errors import IncompatibleError, KeyRequiredError, UsageError
from nearkin.hashing.families import hash_values, key_of
from nearkin.keys import HashKey
from nearkin.shingle import Shingles
from nearkin.sketch.hyperplanes import VectorSketcher, fingerprints, hyperplanes, keyed_words
from nearkin.sketch.minhash import splitmix64
from nearkin.sketch.resources import DocumentFrequencies, SpecResources, shingle_facts
from nearkin.sketch.simhash import Signs
from nearkin.sketch.sketcher import Sketcher, occurrences
from nearkin.spec import Spec

hashes = st.lists(st.integers(0, 2**64 - 1), max_size=40)


def mix_hash(h: int, stream: int) -> int:
    """Returns 64 bits that follow from a hash and the number of a stream (splitmix64)."""
    x = (h + stream) % 2**64
    x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) % 2**64
    x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) % 2**64
    return x ^ (x >> 31)


def reference_signature(values: list[int], weights: list[int], stream: int) -> int:
    """Returns the SimHash of weighted hashes, computed bit by bit."""
    words = np.array([mix_hash(h, stream) for h in values], np.uint64)
    return signature_of(words, weights, 64)


def signature_of(words: np.ndarray, weights: list[int], bits: int) -> int:
    """Returns the number whose bit j is 1 if words with bit j have more than half the weight."""
    signature = 0
    for j in range(bits):
        total = 0
        for word, weight in zip(words.tolist(), weights, strict=True):
            total += weight if word >> j & 1 else -weight
        signature |= (total > 0) << j
    return signature


def test_signature_is_the_majority_of_each_bit() -> None:
    cat = 0b1010
    sat = 0b1100
    mat = 0b0110
    rat = 0b1001
    assert signature_of(np.array([cat, sat, mat], np.uint64), [3, 2, 2], 4) == 0b1110
    assert signature_of(np.array([cat, sat, rat], np.uint64), [3, 2, 2], 4) == 0b1000


@given(hashes, st.sampled_from([64, 128]), st.integers(0, 2**64 - 1))
def test_signs_weight_terms_by_count(values: list[int], bits: int, seed: int) -> None:
    scheme = Signs(bits, seed)
    out = np.empty((1, bits // 64), np.uint64)
    scheme.sketch(Shingles(np.array(values, np.uint64), np.array([0, len(values)])), out)
    assert out[0].tolist() == [
        reference_signature(values, [1] * len(values), s)
        for s in splitmix64(seed, bits // 64).tolist()
    ]


@given(st.lists(st.tuples(st.integers(0, 2**64 - 1), st.integers(0, 10**9)), max_size=30))
def test_weighted_signs_match_sums(features: list[tuple[int, int]]) -> None:
    values, weights = [h for h, _ in features], [w for _, w in features]
    out = np.empty((1, 1), np.uint64)
    offsets = np.array([0, len(values)])
    Signs(64, 1).weighted(np.array(values, np.uint64), np.array(weights, np.int64), offsets, out)
    assert out[0, 0] == reference_signature(values, weights, splitmix64(1, 1).tolist()[0])
    Signs(64, 1).weighted(np.array(values, np.uint64), np.array(weights, np.float64), offsets, out)
    assert out[0, 0] == reference_signature(values, weights, splitmix64(1, 1).tolist()[0])


def test_tie_gives_zero_bit() -> None:
    stream = splitmix64(1, 1).tolist()[0]
    a, b = 1, 2
    out = np.empty((1, 1), np.uint64)
    Signs(64, 1).sketch(Shingles(np.array([a, b], np.uint64), np.array([0, 2])), out)
    assert out[0, 0] == mix_hash(a, stream) & mix_hash(b, stream)


def make_frequencies() -> DocumentFrequencies:
    rng = np.random.default_rng(3)
    values = np.unique(rng.integers(0, 2**63, 500, np.uint64))
    return DocumentFrequencies(1000, values, rng.integers(2, 900, len(values)).astype(np.uint32))


def test_tfidf_weights_match_formula() -> None:
    counted = make_frequencies()
    table = counted.table
    assert np.count_nonzero(table.keys) == len(counted.hashes)
    queried = np.concatenate([counted.hashes[::3], np.array([0, 12345], np.uint64)])
    out = np.empty((1, 1), np.uint64)
    Signs(64, 1, table).sketch(Shingles(queried, np.array([0, len(queried)])), out)
    stream = splitmix64(1, 1).tolist()[0]
    assert out[0, 0] == reference_signature(
        queried.tolist(), counted.weights_of(queried).tolist(), stream
    )
    assert (counted.weights_of(counted.hashes) <= counted.rare).all()


def test_frequencies_must_match_fingerprint_of_spec(tmp_path: Path) -> None:
    counted = make_frequencies()
    spec = Spec(measure="simhash", weights="tfidf", frequencies=counted.fingerprint)
    counted.write(tmp_path / "df.arrow", spec)
    again = DocumentFrequencies.read(tmp_path / "df.arrow", spec)
    assert again.fingerprint == counted.fingerprint
    assert (again.counts == counted.counts).all()
    texts = pa.array(["one two three four"], pa.large_string())
    assert Sketcher(spec, SpecResources(frequencies=again)).sketch(texts).signatures.shape == (1, 1)
    with pytest.raises(IncompatibleError, match="but none was given"):
        Sketcher(spec)
    other = DocumentFrequencies(1001, counted.hashes, counted.counts)
    with pytest.raises(IncompatibleError, match=other.fingerprint):
        Sketcher(spec, SpecResources(frequencies=other))
    with pytest.raises(IncompatibleError, match="frequencies of other shingles"):
        DocumentFrequencies.read(tmp_path / "df.arrow", Spec(n=2))
    with pytest.raises(UsageError, match="no such file"):
        DocumentFrequencies.read(tmp_path / "none.arrow", spec)
    (tmp_path / "bad.arrow").write_bytes(b"nothing")
    with pytest.raises(UsageError, match="damaged"):
        DocumentFrequencies.read(tmp_path / "bad.arrow", spec)


@pytest.mark.parametrize(
    ("changed_columns", "changed_facts"),
    [
        ({"documents": None}, {}),
        ({"hash": None}, {}),
        ({"hash": pa.array(["a", "b"])}, {}),
        ({"hash": pa.array([5.5, 9.0])}, {}),
        ({"hash": pa.array([5, None], pa.uint64())}, {}),
        ({"hash": pa.array([9, 5], pa.uint64())}, {}),
        ({"hash": pa.array([5, 5], pa.uint64())}, {}),
        ({}, {"nearkin.documents": "-5"}),
        ({}, {"nearkin.documents": str(2**70)}),
        ({}, {"nearkin.base": b"\xff"}),
        ({}, {"nearkin.version": b"\xff"}),
    ],
    ids=[
        "no documents",
        "no hashes",
        "texts",
        "fractions",
        "a null",
        "not sorted",
        "equal hashes",
        "a negative number",
        "a number of 70 bits",
        "a base that is not a text",
        "a version that is not a text",
    ],
)
def test_files_with_other_columns_or_numbers_are_damaged_files_of_frequencies(
    changed_columns: dict[str, pa.Array | None],
    changed_facts: dict[str, str | bytes],
    tmp_path: Path,
) -> None:
    spec = Spec(measure="simhash")
    columns = {"hash": pa.array([5, 9], pa.uint64()), "documents": pa.array([2, 3], pa.uint32())}
    stored_columns = {
        name: column
        for name, column in {**columns, **changed_columns}.items()
        if column is not None
    }
    facts = {"nearkin.documents": "3", "nearkin.base": shingle_facts(spec), **changed_facts}
    table = pa.table(stored_columns).replace_schema_metadata(facts)
    path = tmp_path / "df.arrow"
    with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table)
    with pytest.raises(UsageError, match="damaged or not a file of document frequencies"):
        DocumentFrequencies.read(path, spec)


def test_changed_and_newer_files_of_frequencies_are_refused(tmp_path: Path) -> None:
    counted = make_frequencies()
    spec = Spec(measure="simhash")
    path = tmp_path / "df.arrow"
    counted.write(path, spec)
    content = path.read_bytes()
    at = content.index(counted.hashes.tobytes()) + 8 * (len(counted.hashes) // 2)
    path.write_bytes(content[:at] + bytes([content[at] ^ 1]) + content[at + 1 :])
    with pytest.raises(UsageError, match="its content was changed"):
        DocumentFrequencies.read(path, spec)
    table = pa.table({"hash": counted.hashes, "documents": counted.counts})
    facts = {"nearkin.documents": "1000", "nearkin.base": shingle_facts(spec)}
    for version, expected in (("2", "has version 2 of the file"), (None, None)):
        stored_facts = facts if version is None else {**facts, "nearkin.version": version}
        with pa.OSFile(str(path), "wb") as sink:
            described = table.replace_schema_metadata(stored_facts)
            with pa.ipc.new_file(sink, described.schema) as writer:
                writer.write_table(described)
        if expected is None:
            assert (DocumentFrequencies.read(path, spec).counts == counted.counts).all()
        else:
            with pytest.raises(UsageError, match=expected):
                DocumentFrequencies.read(path, spec)


def test_files_of_equal_frequencies_are_equal(tmp_path: Path) -> None:
    for name in "ab":
        make_frequencies().write(tmp_path / name, Spec())
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


def test_occurrences_are_separate_elements() -> None:
    values = np.array([5, 7, 5, 5, 9, 7], np.uint64)
    out = occurrences(Shingles(values, np.array([0, 4, 6]))).hashes
    assert len(set(out[:4].tolist())) == 4
    assert {5, 7} <= set(out[:4].tolist())
    assert set(out[4:].tolist()) == {9, 7}
    again = occurrences(Shingles(values[::-1].copy(), np.array([0, 2, 6])))
    assert Counter(again.hashes[2:].tolist()) == Counter(out[:4].tolist())


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
