"""Tests of indexes of texts and vectors under removals, times to live, moves and killed processes.

The suite covers the index as a whole, over its stores, and not one module.
"""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import nearkin as nk
from nearkin.index.maintenance import check_index, merge_clusters
from nearkin.index.migration.cutover import cut_over, rebuild
from nearkin.index.migration.key_rotation import rotate_key
from tests.index.conftest import Clock, Opener, assert_integrity, empty_store
from tests.index.test_handovers import KilledError, WriteCounter
from tests.index.test_text_and_vector import (
    SETTINGS,
    VECTOR_THRESHOLD,
    VECTORS,
    Sample,
    make_samples,
    scores_of,
    similarity_of,
)

Model = dict[str, Sample]
IDS = 16


def assert_equals_model(index: nk.Index, model: Model, combine: str) -> None:
    """Asserts that an index has the documents of a model, each similar to its representative."""
    entries = {entry.id: entry for entry in index.scan("a")}
    assert set(entries) == set(model)
    for id, sample in model.items():
        entry = entries[id]
        vector = index.vector_of(entry)
        if index.settings.store_text:
            assert entry.text == sample.text
        if vector is not None or (entry.has_content and sample.vector is not None):
            assert vector is not None
            assert sample.vector is not None
            assert vector.tolist() == sample.vector.tolist()
        leader = entries[entry.leader]
        assert leader.is_leader
        expected = 1.0
        if not entry.is_leader:
            similarity = similarity_of(scores_of(sample, model[entry.leader]), combine)
            assert similarity is not None
            expected = similarity
        assert entry.similarity == pytest.approx(expected)
    assert_integrity(index)
    report = check_index(index)
    assert report.sound, report


def sweep(index: nk.Index) -> None:
    """Deletes what killed steps have left in buckets.

    Over shards, it deletes postings of any age. Only here: the sweeps of a store itself, which come
    during steps, must leave the postings of steps that are not finished.
    """
    expected = sum(
        len(keys)
        for entry in index.scan()
        if entry.posted
        for keys in index._session.documents.keys_of(entry.scope, [entry])
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("nearkin.index.stray_postings.MIN_AGE", 0.0)
        # a sweep reads a portion of the keys of a Redis server, which has those of other tests too
        for _ in range(2000):
            index.expire(trust_clock=True)
            if index.stats()["postings"] == expected:
                return


def change(index: nk.Index, model: Model, samples: list[Sample], rng: np.random.Generator) -> None:
    """Upserts some documents, or removes one, in an index and in its model."""
    kind = rng.random()
    if kind < 0.35:
        id = f"d{rng.integers(0, IDS)}"
        assert index.remove("a", id) == (model.pop(id, None) is not None)
        return
    count = 1 if kind < 0.8 else 4
    chosen = [samples[at] for at in rng.integers(0, len(samples), count)]
    ids = [f"d{at}" for at in rng.choice(IDS, count, replace=False)]
    index.upsert_many("a", [sample.document for sample in chosen], ids)
    model.update(zip(ids, chosen, strict=True))


@pytest.mark.parametrize("combine", ["either", "both"])
def test_documents_that_come_and_go_are_those_of_a_model(
    opened: Opener, combine: str, full: bool
) -> None:
    samples = make_samples(40, seed=41, complete=combine == "both")
    index = opened(**SETTINGS, combine=combine)
    model: Model = {}
    rng = np.random.default_rng(3)
    for step in range(60 if full else 16):
        change(index, model, samples, rng)
        if full or step % 4 == 3:
            assert_equals_model(index, model, combine)
    merge_clusters(index)
    assert_equals_model(index, model, combine)


@pytest.mark.parametrize(
    "fields",
    [
        {"postings": "all"},
        {"store_text": False},
        {"store_text": False, "member_content": True, "combine": "both"},
    ],
)
def test_what_is_stored_of_texts_and_vectors_does_not_change_who_is_similar(
    fields: dict[str, Any],
) -> None:
    combine = fields.get("combine", "either")
    samples = make_samples(40, seed=43, complete=combine == "both")
    model: Model = {}
    rng = np.random.default_rng(4)
    with nk.Index.open("memory://", **SETTINGS, **fields) as index:
        for step in range(60):
            change(index, model, samples, rng)
            if step % 4 == 3:
                assert_equals_model(index, model, combine)


def test_a_killed_change_of_texts_and_vectors_is_completed_by_a_repetition(
    opened: Opener, url: "str | list[str]", full: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Over shards, the process ends between the writes of one step."""
    monkeypatch.setattr("nearkin.index.removal.MAX_REASSIGNED", 3)
    samples = make_samples(40, seed=47, complete=False)
    index = opened(**SETTINGS)
    model: Model = {}
    rng = np.random.default_rng(5)
    for _ in range(12):
        change(index, model, samples, rng)
    for _ in range(3 if full else 1):
        id = sorted(model)[rng.integers(0, len(model))]
        replacement = samples[rng.integers(0, len(samples))]
        for last in range(30):
            try:
                with WriteCounter(index, last):
                    index.remove("a", id)
                break
            except KilledError:
                # another process completes what this one began
                index = index if url == "memory://" else opened(**SETTINGS)
        assert index.get("a", id) is None
        del model[id]
        sweep(index)
        assert_equals_model(index, model, "either")
        for last in range(30):
            try:
                with WriteCounter(index, last):
                    index.upsert("a", replacement.document, id)
                break
            except KilledError:
                index = index if url == "memory://" else opened(**SETTINGS)
        model[id] = replacement
        sweep(index)
        assert_equals_model(index, model, "either")


def test_texts_and_vectors_expire_like_other_documents(opened: Opener, clock: Clock) -> None:
    samples = make_samples(40, seed=53, complete=False)
    index = opened(**SETTINGS, bucket_ttl=100, record_ttl=1000)
    model: Model = {}
    for at, sample in enumerate(samples[:16]):
        index.upsert("a", sample.document, f"d{at}")
        model[f"d{at}"] = sample
    clock.now += 200
    assert index.expire(trust_clock=True)["postings"] > 0
    assert index.stats()["postings"] == 0
    assert_equals_model(index, model, "either")
    # members of a representative that is in no bucket are searched for again
    for id in ("d0", "d3", "d5"):
        assert index.remove("a", id)
        del model[id]
    rng = np.random.default_rng(6)
    for _ in range(8):
        change(index, model, samples, rng)
    assert_equals_model(index, model, "either")
    clock.now += 5000
    for _ in range(2):
        index.expire(trust_clock=True)
    assert_equals_model(index, {}, "either")
    assert index.stats()["records"] == 0


@pytest.mark.parametrize("combine", ["either", "both"])
def test_an_index_of_texts_and_vectors_moves_and_rotates_its_key(
    combine: str, tmp_path: Path
) -> None:
    old = nk.HashKey(bytes(range(16)))
    new = nk.HashKey(bytes(range(1, 17)))
    vector = nk.index_types.VectorEvidence(
        VECTORS.keyed_with(old), threshold=VECTOR_THRESHOLD, bands=64, rows=8
    )
    settings = {**SETTINGS, "vector": vector, "combine": combine}
    urls = [f"sqlite:///{tmp_path}/{name}.db" for name in ("first", "second", "third")]
    samples = make_samples(40, seed=59, complete=combine == "both")
    model: Model = {}
    rng = np.random.default_rng(7)
    with nk.Index.open(
        urls[0], nk.Spec().keyed_with(old), resources=nk.SpecResources(old), **settings
    ) as index:
        for _ in range(20):
            change(index, model, samples, rng)
        copy = nk.Index.open(
            urls[1],
            nk.Spec().keyed_with(old),
            resources=nk.SpecResources(old),
            follow=False,
            **settings,
        )
        with copy:
            cut_over(index, copy, 0)
        # the process that had the index open writes to the new place
        for _ in range(10):
            change(index, model, samples, rng)
        assert_equals_model(index, model, combine)
        assert index.public_urls == (urls[1],)
    rotate_key(urls[1], urls[2], new)
    with nk.Index.open(urls[2], resources=nk.SpecResources(new)) as index:
        for _ in range(10):
            change(index, model, samples, rng)
        assert_equals_model(index, model, combine)


def test_an_interrupted_copy_of_texts_and_vectors_is_completed(
    request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    source = str(empty_store("sqlite", request, tmp_path))
    target = str(empty_store("redis", request, tmp_path))
    samples = make_samples(40, seed=61, complete=False)
    model: Model = {}
    rng = np.random.default_rng(8)
    with nk.Index.open(source, **SETTINGS) as index:
        for _ in range(20):
            change(index, model, samples, rng)
        for last in (0, 1):
            copy = nk.Index.open(target, follow=False, **SETTINGS)
            with copy, pytest.raises(KilledError), WriteCounter(copy, last):
                cut_over(index, copy, 0)
            change(index, model, samples, rng)
        with nk.Index.open(target, follow=False, **SETTINGS) as copy:
            cut_over(index, copy, 0)
        assert_equals_model(index, model, "either")
        assert index.public_urls[0].startswith("redis://")
    rebuilt = f"sqlite:///{tmp_path}/rebuilt.db"
    rebuild(target, rebuilt, {"k": 256}, None, None)
    with nk.Index.open(rebuilt) as index:
        assert {entry.id for entry in index.scan()} == set(model)
        assert check_index(index).sound
