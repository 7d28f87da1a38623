"""Tests of indexes whose documents have a text, a vector, or both."""

import json
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

import nearkin as nk
from nearkin.index.backup import backup, restore
from nearkin.index.exports import read_entries, read_header
from nearkin.index.maintenance import check_index
from nearkin.index.migration.cutover import rebuild
from nearkin.index.migration.key_rotation import rotate_key
from nearkin.index.stores.sqlite import SqliteStore
from nearkin.runs.loading import migrate
from tests.index.conftest import Opener, assert_integrity, jaccard, near, store_of, words

DIMENSIONS = 24
VECTORS = nk.Spec(measure="cosine", unit="vector", n=DIMENSIONS)
TEXT_THRESHOLD = 0.6
VECTOR_THRESHOLD = 0.9
# nearly every pair at a threshold shares a bucket, so that the oracle needs no tolerance
VECTOR = nk.index_types.VectorEvidence(VECTORS, threshold=VECTOR_THRESHOLD, bands=64, rows=8)
SETTINGS: dict[str, Any] = {
    "threshold": TEXT_THRESHOLD,
    "bands": 64,
    "rows": 2,
    "vector": VECTOR,
}


class Sample(NamedTuple):
    """A document of the tests."""

    text: str | None
    vector: np.ndarray | None

    @property
    def document(self) -> nk.TextAndVector:
        """The document as an index takes it."""
        return nk.TextAndVector(self.text, self.vector)


class Scores(NamedTuple):
    """The similarities of two documents, computed independently of the index."""

    text: float | None
    vector: float | None


def cosine(a: np.ndarray, b: np.ndarray) -> float:
    """Returns the cosine of two vectors, in double precision."""
    first = a.astype(np.float64)
    second = b.astype(np.float64)
    return float(first @ second / np.sqrt((first @ first) * (second @ second)))


def scores_of(a: Sample, b: Sample) -> Scores:
    """Returns both similarities of two documents."""
    text = None if a.text is None or b.text is None else jaccard(a.text, b.text)
    vector = None if a.vector is None or b.vector is None else cosine(a.vector, b.vector)
    return Scores(text, vector)


def similarity_of(scores: Scores, combine: str) -> float | None:
    """Returns the similarity of two documents if they are similar, otherwise None."""
    reached = [
        value
        for value, threshold in zip(scores, (TEXT_THRESHOLD, VECTOR_THRESHOLD), strict=True)
        if value is not None and value >= threshold
    ]
    if combine == "both":
        return min(reached) if len(reached) == 2 else None
    return max(reached, default=None)


def make_samples(count: int, seed: int, *, complete: bool) -> list[Sample]:
    """Returns documents whose texts and vectors resemble those of earlier ones, independently.

    Args:
        count: Number of documents.
        seed: Seed of the random numbers.
        complete: True if each document has a text and a vector.
    """
    rng = np.random.Generator(np.random.PCG64(seed))
    texts: list[list[str]] = []
    vectors: list[np.ndarray] = []
    samples = []
    for _ in range(count):
        source = int(rng.integers(0, len(texts))) if texts else None
        text = words(rng)
        copies_text, copies_vector = rng.random(2) < (0.6 if complete else 0.5)
        if source is not None and copies_text:
            text = near(texts[source], rng, int(rng.integers(0, 5)))
        vector = rng.standard_normal(DIMENSIONS).astype(np.float32)
        if source is not None and (copies_vector or (complete and copies_text)):
            noise = rng.uniform(0, 0.7) * vector
            vector = (vectors[source] + noise).astype(np.float32)
        texts.append(text)
        vectors.append(vector)
        kinds = rng.random()
        samples.append(
            Sample(
                text=" ".join(text) if complete or kinds > 0.2 else None,
                vector=vector if complete or kinds < 0.8 else None,
            )
        )
    return samples


def expected_leaders(samples: list[Sample], combine: str) -> list[tuple[int, float]]:
    """Returns the representative of each document and their similarity, by brute force."""
    leaders: list[int] = []
    resolutions: list[tuple[int, float]] = []
    for i, sample in enumerate(samples):
        best = (i, 1.0)
        best_similarity = 0.0
        for leader in leaders:
            similarity = similarity_of(scores_of(sample, samples[leader]), combine)
            if similarity is not None and similarity > best_similarity:
                best = (leader, similarity)
                best_similarity = similarity
        if best[0] == i:
            leaders.append(i)
        resolutions.append(best)
    return resolutions


def name_of(position: int) -> str:
    return f"d{position:03d}"


def fill(index: nk.Index, samples: list[Sample], batch: int = 16) -> list[nk.index_types.Outcome]:
    """Upserts documents in batches."""
    outcomes: list[nk.index_types.Outcome] = []
    for start in range(0, len(samples), batch):
        part = samples[start : start + batch]
        names = [name_of(start + i) for i in range(len(part))]
        outcomes += index.upsert_many("a", [sample.document for sample in part], names)
    return outcomes


@pytest.fixture
def memory() -> Iterator[nk.Index]:
    with nk.Index.open("memory://", **SETTINGS) as index:
        yield index


# -- The decisions against brute force


@pytest.mark.parametrize("combine", ["either", "both"])
def test_outcomes_are_those_of_brute_force_over_both_similarities(
    opened: Opener, combine: str
) -> None:
    samples = make_samples(48, seed=7, complete=combine == "both")
    index = opened(**SETTINGS, combine=combine)
    outcomes = fill(index, samples)
    expected = expected_leaders(samples, combine)
    assert [outcome.representative for outcome in outcomes] == [name_of(at) for at, _ in expected]
    similarities = [similarity for _, similarity in expected]
    assert [outcome.similarity for outcome in outcomes] == pytest.approx(similarities)
    assert 10 < sum(outcome.duplicate for outcome in outcomes) < 40
    for i, outcome in enumerate(outcomes):
        if not outcome.duplicate:
            assert outcome.evidence is None
            continue
        assert outcome.evidence is not None
        scores = scores_of(samples[i], samples[expected[i][0]])
        assert (outcome.evidence.text, outcome.evidence.vector) == pytest.approx(scores)
    assert_integrity(index)
    assert check_index(index).sound
    # the same documents again change nothing
    before = list(index.scan())
    again = fill(index, samples)
    assert [outcome.representative for outcome in again] == [name_of(at) for at, _ in expected]
    assert list(index.scan()) == before


@pytest.mark.parametrize("combine", ["either", "both"])
def test_queries_find_what_brute_force_finds(combine: str) -> None:
    samples = make_samples(150, seed=11, complete=combine == "both")
    stored = samples[:120]
    with nk.Index.open("memory://", **SETTINGS, combine=combine, postings="all") as index:
        fill(index, stored)
        total = 0
        for sample in samples[120:]:
            expected = {}
            for i, other in enumerate(stored):
                similarity = similarity_of(scores_of(sample, other), combine)
                if similarity is not None:
                    expected[name_of(i)] = similarity
            matches = index.query("a", sample.document, top=200)
            assert {match.id: match.similarity for match in matches} == pytest.approx(expected)
            for match in matches:
                scores = scores_of(sample, stored[int(match.id[1:])])
                assert match.evidence is not None
                assert (match.evidence.text, match.evidence.vector) == pytest.approx(scores)
                assert match.evidence.text_reached == ((scores.text or 0) >= TEXT_THRESHOLD)
                assert match.evidence.vector_reached == ((scores.vector or 0) >= VECTOR_THRESHOLD)
            total += len(matches)
        assert total > 10


def test_one_by_one_and_in_batches_have_the_same_outcomes() -> None:
    samples = make_samples(80, seed=3, complete=False)
    outcomes_by_batch = []
    for batch in (1, 80):
        with nk.Index.open("memory://", **SETTINGS) as index:
            outcomes = fill(index, samples, batch)
            outcomes_by_batch.append(
                [(outcome.representative, outcome.similarity) for outcome in outcomes]
            )
    assert outcomes_by_batch[0] == outcomes_by_batch[1]


def test_members_are_found_by_either_kind_of_evidence() -> None:
    samples = make_samples(120, seed=5, complete=False)
    with nk.Index.open("memory://", **SETTINGS) as index:
        outcomes = fill(index, samples)
        members = [i for i, outcome in enumerate(outcomes) if outcome.duplicate]
        assert len(members) > 20
        for i in members:
            matches = index.query("a", samples[i].document, top=200, members=True)
            matches_by_id = {match.id: match for match in matches}
            assert matches_by_id[name_of(i)].similarity == pytest.approx(1)
            for id, match in matches_by_id.items():
                scores = scores_of(samples[i], samples[int(id[1:])])
                assert match.similarity == pytest.approx(similarity_of(scores, "either"))


def test_near_misses_are_below_both_thresholds(memory: nk.Index) -> None:
    rng = np.random.Generator(np.random.PCG64(1))
    text = words(rng)
    vector = rng.standard_normal(DIMENSIONS)
    memory.upsert("a", nk.TextAndVector(" ".join(text), vector), "stored")
    changed = near(text, rng, 10)
    other = vector + 0.9 * rng.standard_normal(DIMENSIONS)
    query = nk.TextAndVector(" ".join(changed), other)
    scores = (jaccard(" ".join(text), " ".join(changed)), cosine(vector, other))
    assert scores[0] < TEXT_THRESHOLD
    assert scores[1] < VECTOR_THRESHOLD
    assert memory.query("a", query) == []
    (miss,) = memory.near_misses("a", query)
    assert miss.evidence is not None
    assert (miss.evidence.text, miss.evidence.vector) == pytest.approx(scores)
    assert (miss.evidence.text_reached, miss.evidence.vector_reached) == (False, False)
    assert miss.similarity == pytest.approx(max(scores))


# -- Documents that lack a kind


def test_a_document_that_lacks_a_kind_is_compared_by_the_other_one(memory: nk.Index) -> None:
    rng = np.random.Generator(np.random.PCG64(2))
    text = " ".join(words(rng))
    vector = rng.standard_normal(DIMENSIONS)
    memory.upsert("a", nk.TextAndVector(text, vector), "both")
    by_text = memory.upsert("a", text, "text")
    assert by_text.representative == "both"
    assert by_text.evidence == nk.index_types.Evidence(
        text=1.0, vector=None, text_reached=True, vector_reached=False
    )
    by_vector = memory.upsert("a", vector, "vector")
    assert by_vector.representative == "both"
    assert by_vector.evidence is not None
    assert by_vector.evidence.text is None
    assert by_vector.evidence.vector == pytest.approx(1)
    assert_integrity(memory)


def test_documents_without_a_kind_in_common_are_not_similar(memory: nk.Index) -> None:
    rng = np.random.Generator(np.random.PCG64(3))
    assert not memory.upsert("a", " ".join(words(rng)), "text").duplicate
    # nothing of the placeholder of a missing kind is found
    placeholder = np.zeros(DIMENSIONS)
    placeholder[0] = 1
    assert not memory.upsert("a", placeholder, "vector").duplicate
    assert not memory.upsert("a", "", "empty").duplicate
    assert not memory.upsert("a", " ".join(words(rng)), "another").duplicate
    assert_integrity(memory)
    assert check_index(memory).sound


def test_with_both_a_document_must_have_a_text_and_a_vector() -> None:
    vector = np.ones(DIMENSIONS)
    with nk.Index.open("memory://", **SETTINGS, combine="both") as index:
        with pytest.raises(nk.UsageError, match=r"combine='both'.*has no vector"):
            index.upsert("a", "a text of five words")
        with pytest.raises(nk.UsageError, match=r"combine='both'.*has no text"):
            index.query("a", nk.TextAndVector(vector=vector))
        with pytest.raises(nk.UsageError, match=r"in parts have no vector"):
            index.add_part("a", "one", "a text of five words")
        with pytest.raises(nk.UsageError, match="no vector"):
            index.upsert_many("a", [nk.TextAndVector("a b c d", vector), "a b c d"])
        assert index.stats()["records"] == 0
        # a text without shingles reaches no threshold
        index.upsert("a", nk.TextAndVector("", vector), "one")
        assert not index.upsert("a", nk.TextAndVector("", 2 * vector), "two").duplicate
        assert_integrity(index)


def test_a_document_in_parts_is_a_text_without_a_vector(memory: nk.Index) -> None:
    rng = np.random.Generator(np.random.PCG64(4))
    text = words(rng)
    memory.upsert("a", nk.TextAndVector(" ".join(text), np.ones(DIMENSIONS)), "whole")
    memory.add_part("a", "parts", " ".join(text[:22]))
    memory.add_part("a", "parts", " ".join(text[20:]))
    outcome = memory.finish("a", "parts")
    assert outcome is not None
    assert outcome.representative == "whole"
    assert outcome.evidence is not None
    assert outcome.evidence.vector is None


# -- Changes of documents


@pytest.mark.parametrize("store_text", [True, False])
@pytest.mark.parametrize("combine", ["either", "both"])
def test_members_of_a_removed_representative_are_compared_by_both_kinds(
    combine: str, store_text: bool
) -> None:
    samples = make_samples(80, seed=9, complete=combine == "both")
    with nk.Index.open("memory://", **SETTINGS, combine=combine, store_text=store_text) as index:
        fill(index, samples)
        removed = [entry.id for entry in index.scan("a") if entry.is_leader]
        removed = [id for id in removed if len(index.cluster("a", id).members) > 1]  # type: ignore[union-attr]
        assert len(removed) > 5
        for id in removed:
            assert index.remove("a", id)
        left = [sample for i, sample in enumerate(samples) if name_of(i) not in removed]
        entries = list(index.scan("a"))
        assert len(entries) == len(left)
        for entry in entries:
            scores = scores_of(samples[int(entry.id[1:])], samples[int(entry.leader[1:])])
            expected = 1.0 if entry.is_leader else similarity_of(scores, combine)
            assert entry.similarity == pytest.approx(expected)
        assert_integrity(index)
        assert check_index(index).sound


def test_another_vector_under_a_known_id_is_an_update(memory: nk.Index) -> None:
    rng = np.random.Generator(np.random.PCG64(6))
    text = " ".join(words(rng))
    vector = rng.standard_normal(DIMENSIONS)
    memory.upsert("a", nk.TextAndVector(text, vector), "one")
    same = memory.upsert("a", nk.TextAndVector(text, vector), "one")
    assert same.kind == nk.index_types.OutcomeKind.EXACT
    updated = memory.upsert("a", nk.TextAndVector(text, -vector), "one")
    assert updated.kind == nk.index_types.OutcomeKind.UPDATED
    assert memory.query("a", vector) == []
    assert [match.id for match in memory.query("a", -vector)] == ["one"]
    assert memory.upsert("a", text, "one").kind == nk.index_types.OutcomeKind.UPDATED
    assert memory.query("a", -vector) == []
    assert_integrity(memory)


def test_clusters_that_an_older_representative_resembles_are_merged(memory: nk.Index) -> None:
    rng = np.random.Generator(np.random.PCG64(8))
    text = words(rng)
    vector = rng.standard_normal(DIMENSIONS)
    memory.upsert("a", " ".join(text), "text")
    memory.upsert("a", vector, "vector")
    # resembles both, and is resolved to the one whose similarity is larger
    both = nk.TextAndVector(" ".join(near(text, rng, 1)), vector)
    assert memory.upsert("a", both, "both").representative == "vector"
    assert memory.merge_into_older("a", "vector") == 0
    memory.remove("a", "vector")
    cluster = memory.cluster("a", "both")
    assert cluster is not None
    assert cluster.representative == "text"
    assert check_index(memory).sound


# -- The store, restarts and copies


def test_documents_survive_a_restart(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/index.db"
    samples = make_samples(60, seed=13, complete=False)
    with nk.Index.open(url, **SETTINGS) as index:
        first = fill(index, samples)
    with nk.Index.open(url) as index:
        assert index.holds_both
        assert not index.holds_vectors
        assert index.settings.vector == VECTOR
        again = fill(index, samples)
        expected = [outcome.representative for outcome in first]
        assert [outcome.representative for outcome in again] == expected
        for i, sample in enumerate(samples):
            entry = index.get("a", name_of(i))
            assert entry is not None
            assert entry.text == sample.text
            vector = index.vector_of(entry)
            assert (vector is None) == (sample.vector is None)
            if vector is not None:
                assert vector.tolist() == sample.vector.tolist()  # type: ignore[union-attr]
        assert check_index(index).sound


def test_an_export_a_backup_and_a_copy_hold_both_kinds(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/index.db"
    samples = make_samples(60, seed=17, complete=False)
    with nk.Index.open(url, **SETTINGS, combine="either") as index:
        fill(index, samples)
        entries = list(index.scan())
        assert index.export(tmp_path / "export.parquet") == 60
    assert read_header(tmp_path / "export.parquet")["format"] == 3
    assert [entry._replace(ref=0) for entry in entries] == list(
        read_entries(tmp_path / "export.parquet")
    )
    backup(url, tmp_path / "backup.db")
    restored = f"sqlite:///{tmp_path}/restored.db"
    restore(tmp_path / "backup.db", restored)
    with nk.Index.open(restored) as index:
        assert list(index.scan()) == entries
        assert check_index(index).sound
    for number, source in enumerate((str(tmp_path / "export.parquet"), url)):
        copy = f"sqlite:///{tmp_path}/copy{number}.db"
        assert migrate(source, copy, None) == 60
        with nk.Index.open(copy) as index:
            assert [entry._replace(ref=0) for entry in index.scan()] == [
                entry._replace(ref=0) for entry in entries
            ]
            assert index.settings.vector == VECTOR
            assert check_index(index).sound


@pytest.mark.parametrize("store_text", [True, False])
def test_a_rebuild_keeps_texts_and_vectors(tmp_path: Path, store_text: bool) -> None:
    source = f"sqlite:///{tmp_path}/source.db"
    target = f"sqlite:///{tmp_path}/target.db"
    samples = make_samples(60, seed=19, complete=False)
    with nk.Index.open(source, **SETTINGS, store_text=store_text) as index:
        fill(index, samples)
        before = {entry.id: entry.leader for entry in index.scan()}
    comparison = rebuild(source, target, {"k": 256}, None, None)
    assert comparison["documents"] == 60
    with nk.Index.open(target) as index:
        assert index.spec.k == 256
        # the bands follow from the threshold again
        assert index.settings.vector == nk.index_types.VectorEvidence(VECTORS, VECTOR_THRESHOLD)
        assert {entry.id: entry.leader for entry in index.scan()} == before
        assert_integrity(index)
        assert check_index(index).sound


def test_a_rebuild_changes_the_threshold_of_vectors_and_the_combination(tmp_path: Path) -> None:
    source = f"sqlite:///{tmp_path}/source.db"
    samples = make_samples(40, seed=31, complete=True)
    with nk.Index.open(source, **SETTINGS) as index:
        fill(index, samples)
    strict = f"sqlite:///{tmp_path}/strict.db"
    moved = rebuild(source, strict, {}, 0.95, None, vector_threshold=0.999, combine="both")
    assert moved["clusters_before"] < moved["clusters_after"] <= 40
    with nk.Index.open(strict) as index:
        assert index.settings.combine == "both"
        assert index.settings.vector == nk.index_types.VectorEvidence(VECTORS, 0.999)
        assert check_index(index).sound


def test_a_rebuild_to_both_is_refused_before_anything_is_written(tmp_path: Path) -> None:
    source = f"sqlite:///{tmp_path}/source.db"
    target = tmp_path / "target.db"
    with nk.Index.open(source, **SETTINGS) as index:
        index.upsert("a", "a text without a vector", "alone")
    with pytest.raises(nk.UsageError, match=r"'alone' of scope 'a' has no vector"):
        rebuild(source, f"sqlite:///{target}", {}, None, None, combine="both")
    assert not target.exists()
    texts = f"sqlite:///{tmp_path}/texts.db"
    with nk.Index.open(texts):
        pass
    with pytest.raises(nk.UsageError, match="have one kind of content"):
        rebuild(texts, f"sqlite:///{target}", {}, None, None, vector_threshold=0.9)
    assert not target.exists()


def test_settings_of_vectors_are_read_from_variables() -> None:
    variables = {
        "NEARKIN_TEXT_THRESHOLD": "0.7",
        "NEARKIN_TEXT_COMBINE": "both",
        "NEARKIN_TEXT_VECTOR_DIMENSIONS": "8",
        "NEARKIN_TEXT_VECTOR_K": "256",
        "NEARKIN_TEXT_VECTOR_THRESHOLD": "0.9",
        "NEARKIN_TEXT_VECTOR_BANDS": "10",
        "NEARKIN_TEXT_VECTOR_ROWS": "12",
        "NEARKIN_TEXT_VECTOR_LOOKUP_PROBES": "2",
    }
    settings = nk.index_types.IndexSettings.from_env(environment=variables)
    spec = nk.Spec(measure="cosine", unit="vector", n=8, k=256)
    assert settings == nk.index_types.IndexSettings(
        threshold=0.7,
        combine="both",
        vector=nk.index_types.VectorEvidence(
            spec, threshold=0.9, bands=10, rows=12, lookup_probes=2
        ),
    )
    del variables["NEARKIN_TEXT_VECTOR_DIMENSIONS"]
    with pytest.raises(nk.UsageError, match="set NEARKIN_TEXT_VECTOR_DIMENSIONS, too"):
        nk.index_types.IndexSettings.from_env(environment=variables)
    with pytest.raises(nk.UsageError, match="did you mean"):
        nk.index_types.IndexSettings.from_env(environment={"NEARKIN_TEXT_VECTOR_DIMENSION": "8"})


def test_a_rotation_of_the_key_covers_texts_and_vectors(tmp_path: Path) -> None:
    old = nk.HashKey(bytes(range(16)))
    new = nk.HashKey(bytes(range(1, 17)))
    source = f"sqlite:///{tmp_path}/source.db"
    target = f"sqlite:///{tmp_path}/target.db"
    samples = make_samples(40, seed=23, complete=False)
    keyed = nk.index_types.VectorEvidence(VECTORS.keyed_with(old), threshold=VECTOR_THRESHOLD)
    with nk.Index.open(
        source,
        nk.Spec().keyed_with(old),
        TEXT_THRESHOLD,
        vector=keyed,
        resources=nk.SpecResources(old),
    ) as index:
        fill(index, samples)
    with nk.Index.open(source) as index, pytest.raises(nk.errors.KeyRequiredError):
        index.query("a", samples[0].document)
    rotation = rotate_key(source, target, new)
    assert (rotation["documents"], rotation["left_out"]) == (40, 0)
    with nk.Index.open(target, resources=nk.SpecResources(new)) as index:
        assert index.settings.vector is not None
        assert index.settings.vector.spec == VECTORS.keyed_with(new)
        assert check_index(index).sound
        match = index.query("a", samples[0].document)[0]
        assert match.similarity == pytest.approx(1)


def test_look_ups_probe_each_kind_by_itself() -> None:
    samples = make_samples(120, seed=29, complete=False)
    vector = nk.index_types.VectorEvidence(VECTORS, threshold=VECTOR_THRESHOLD, bands=4, rows=16)
    member_counts = []
    for probes in (0, 8):
        probing = nk.index_types.VectorEvidence(
            VECTORS, threshold=VECTOR_THRESHOLD, bands=4, rows=16, lookup_probes=probes
        )
        with nk.Index.open("memory://", threshold=0.6, vector=probing) as index:
            fill(index, samples)
            member_counts.append(sum(not entry.is_leader for entry in index.scan()))
            postings = index.stats()["postings"]
            posted = [entry for entry in index.scan() if entry.posted]
            bands = index.banding.bands
            texts = sum(bool(entry.size) for entry in posted)
            vectors = sum(index.vector_of(entry) is not None for entry in posted)
            assert postings == bands * texts + vector.bands * vectors  # type: ignore[operator]
    assert member_counts[1] > member_counts[0]


# -- Requests that are refused


def test_an_index_of_one_kind_keeps_its_format(tmp_path: Path) -> None:
    with nk.Index.open("memory://", threshold=0.7) as index:
        header = index.header()
        assert header["format"] == 1
        assert not {"vector", "combine"} & set(header)
        assert index.upsert("a", "one two three four").evidence is None
        (match,) = index.query("a", "one two three four")
        assert "evidence" not in match.to_dict()
        with pytest.raises(nk.UsageError, match="documents of this index are texts"):
            index.upsert("a", nk.TextAndVector("one two three four"))
    url = f"sqlite:///{tmp_path}/texts.db"
    with nk.Index.open(url):
        pass
    with pytest.raises(nk.errors.IncompatibleError, match="have no vectors besides their texts"):
        nk.Index.open(url, vector=VECTOR)


def test_an_index_of_both_kinds_has_a_format_that_older_versions_refuse(tmp_path: Path) -> None:
    path = tmp_path / "index.db"
    with nk.Index.open(
        f"sqlite:///{path}", vector=nk.index_types.VectorEvidence(VECTORS), combine="both"
    ):
        pass
    with closing(SqliteStore(path, 100)) as store:
        header = store.read_header()
    assert header is not None
    assert header["format"] == 3
    assert header["combine"] == "both"
    assert header["vector"] == {
        "spec": json.loads(VECTORS.to_json()),
        "threshold": 0.95,
        "recall": 0.95,
        "bands": None,
        "rows": None,
    }
    with nk.Index.open(
        f"sqlite:///{path}", combine="both", vector=nk.index_types.VectorEvidence(VECTORS)
    ) as index:
        assert index.settings.combine == "both"


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"combine": "both"}, "pass `vector`"),
        (
            {"combine": "bot", "vector": VECTOR},
            "is not one of either, both; did you mean",
        ),
        ({"spec": VECTORS, "vector": VECTOR}, "the Spec of this index is of vectors"),
        ({"distance": 3, "vector": VECTOR}, "distance=3 cannot be combined with `vector`"),
    ],
)
def test_wrong_combinations_of_settings_are_refused(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(nk.UsageError, match=message):
        nk.Index.open("memory://", **settings)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"spec": nk.Spec()}, "unit='words'"),
        ({"threshold": 1.5}, "threshold=1.5 is out of range"),
        ({"bands": 5}, "bands and rows must be given together"),
        ({"lookup_probes": -1}, "lookup_probes=-1 is out of range"),
    ],
)
def test_wrong_settings_of_vectors_are_refused(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(nk.UsageError, match=message):
        nk.index_types.VectorEvidence(**{"spec": VECTORS, **fields})


@pytest.mark.parametrize(
    ("request_", "message"),
    [
        ({"combine": "both", "vector": VECTOR}, "created with combine='either'"),
        (
            {"vector": nk.index_types.VectorEvidence(VECTORS, threshold=0.5)},
            "created with threshold=0.9",
        ),
        (
            {
                "vector": nk.index_types.VectorEvidence(
                    nk.Spec(measure="cosine", unit="vector", n=9)
                )
            },
            "the vectors of the index",
        ),
    ],
)
def test_an_index_is_not_opened_with_other_evidence(
    tmp_path: Path, request_: dict[str, Any], message: str
) -> None:
    url = f"sqlite:///{tmp_path}/index.db"
    with nk.Index.open(url, **SETTINGS):
        pass
    with pytest.raises(nk.errors.IncompatibleError, match=message):
        nk.Index.open(url, **request_)


@pytest.mark.parametrize(
    ("document", "message"),
    [
        (nk.TextAndVector(), "this one has neither"),
        (nk.TextAndVector("text", [1.0]), f"must have {DIMENSIONS} numbers"),
        (nk.TextAndVector("text", np.zeros(DIMENSIONS)), "vector of zeros"),
        (nk.TextAndVector("text", np.full(DIMENSIONS, np.nan)), "not finite"),
        (nk.TextAndVector("\ud800", np.ones(DIMENSIONS)), "not valid Unicode"),
        (nk.TextAndVector("x" * 2_000), "larger than max_document=1000"),
        ({"text": "a"}, "TextAndVector"),
    ],
)
def test_both_parts_of_a_document_are_verified(document: Any, message: str) -> None:
    with nk.Index.open("memory://", **SETTINGS, max_document=1_000) as index:
        with pytest.raises(nk.UsageError, match=message):
            index.upsert_many("a", [nk.TextAndVector("a b c d"), document])
        assert store_of(index).counts()["records"] == 0


@pytest.mark.parametrize("combine", ["either", "both"])
def test_explanation_agrees_with_a_query_about_texts_and_vectors(combine: str) -> None:
    rng = np.random.default_rng(5)
    base = words(rng, 60)
    vector = rng.normal(size=VECTORS.n).astype(np.float32)
    with nk.Index.open("memory://", combine=combine, postings="all", **SETTINGS) as index:
        stored = {
            "original": (base, vector),
            "both": (near(base, rng), vector * np.float32(2)),
            "text": (near(base, rng), -vector),
            "vector": (words(rng, 60), vector * np.float32(3)),
            "neither": (words(rng, 60), rng.normal(size=VECTORS.n).astype(np.float32)),
        }
        for id, (text, numbers) in stored.items():
            index.upsert("a", nk.TextAndVector(" ".join(text), numbers), id=id)
        expected = {"both"} if combine == "both" else {"both", "text", "vector"}
        for id, (text, numbers) in stored.items():
            if id == "original":
                continue
            explained = index.explain("a", "original", id)
            assert (explained.verdict in ("match", "exact")) == (id in expected), explained.why
            assert explained.vectors is not None
            assert explained.vectors.similarity == pytest.approx(cosine(vector, numbers), abs=1e-6)
            assert explained.similarity == pytest.approx(jaccard(" ".join(base), " ".join(text)))
