"""Tests of documents that are resolved to a representative and keep no content."""

from pathlib import Path

import numpy as np
import pytest

import nearkin as nk
from nearkin.index.backup import backup, restore
from nearkin.index.entry import Entry
from nearkin.index.maintenance import check_index, merge_clusters
from nearkin.index.migration.copy import Copier
from nearkin.index.migration.cutover import fill_copy
from tests.index.conftest import (
    Clock,
    Opener,
    assert_integrity,
    cluster_ids,
    family,
    fill,
    jaccard,
)


def _entry(index: nk.Index, id: str) -> Entry:
    entry = index.get("a", id)
    assert entry is not None
    return entry


def _assert_bounds_hold(index: nk.Index, texts: dict[str, str]) -> None:
    """Asserts that each stored similarity is at most the true one."""
    for entry in index.scan("a"):
        assert entry.similarity <= jaccard(texts[entry.id], texts[entry.leader]) + 1e-6


def test_members_keep_no_content_unless_texts_are_stored(opened: Opener) -> None:
    texts = family(6)
    index = opened(store_text=False)
    fill(index, texts)
    for entry in index.scan():
        assert entry.text is None
        assert bool(entry.payload) == entry.is_leader
        assert bool(entry.signature) == entry.is_leader
    assert index.stats()["leaders"] == 1
    assert index.upsert("a", texts["m0001"], "m0001").duplicate
    changed = index.upsert("a", "words of their own that are in no other text at all", "m0001")
    assert (changed.kind, changed.cluster) == ("updated", "m0001")
    assert index.upsert("a", texts["m0001"], "m0001").cluster == "base"
    assert index.remove("a", "m0002")
    assert index.get("a", "m0002") is None
    assert_integrity(index)
    assert check_index(index).sound


def test_member_content_is_kept_on_request(opened: Opener) -> None:
    index = opened(store_text=False, member_content=True)
    texts = family(3)
    fill(index, texts)
    assert all(entry.payload for entry in index.scan())
    assert index.remove("a", "base")
    assert _entry(index, "m0000").posted
    assert check_index(index).sound


def test_documents_that_are_all_posted_keep_their_content(opened: Opener) -> None:
    index = opened(store_text=False, postings="all")
    fill(index, family(3))
    assert all(entry.payload for entry in index.scan())
    assert check_index(index).sound


def test_a_cluster_without_content_keeps_its_id_and_members(opened: Opener) -> None:
    texts = family(6)
    index = opened(store_text=False)
    fill(index, texts)
    assert index.remove("a", "base")
    cluster = index.cluster("a", "m0004")
    assert cluster is not None
    assert (cluster.id, cluster.representative) == ("base", "m0000")
    assert sorted(id for id, _ in cluster.members) == sorted(set(texts) - {"base"})
    _assert_bounds_hold(index, texts)
    assert not _entry(index, "m0000").posted
    assert index.stats()["postings"] == 0
    assert index.upsert("a", texts["m0003"], "m0003").cluster == "base"
    # nothing can be compared with the cluster, so a similar document begins another one
    assert index.upsert("a", texts["base"], "new").kind == "new"
    assert_integrity(index)
    assert check_index(index).sound
    for name in texts:
        assert index.remove("a", name) == (name != "base")
    assert index.stats()["records"] == 1
    assert check_index(index).sound


def test_a_large_cluster_without_content_has_one_heir(
    opened: Opener, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("nearkin.index.removal.MAX_REASSIGNED", 8)
    texts = family(30)
    index = opened(store_text=False)
    fill(index, texts)
    assert index.remove("a", "base")
    assert cluster_ids(index) == ["base"]
    cluster = index.cluster("a", "m0029")
    assert cluster is not None
    assert len(cluster.members) == 30
    _assert_bounds_hold(index, texts)
    assert check_index(index).sound


def test_an_updated_representative_leaves_its_members_together(opened: Opener) -> None:
    texts = family(5)
    index = opened(store_text=False)
    fill(index, texts)
    changed = index.upsert("a", "words of their own that are in no other text at all", "base")
    assert changed.kind == "updated"
    assert cluster_ids(index) == ["base", "m0000"]
    cluster = index.cluster("a", "m0003")
    assert cluster is not None
    assert (cluster.representative, len(cluster.members)) == ("m0000", 5)
    assert check_index(index).sound


def test_members_without_content_follow_an_heir_that_has_content(opened: Opener) -> None:
    texts = family(8)
    before = opened(store_text=False, member_content=True)
    if before.url == "memory://":
        pytest.skip("an index in memory is opened once")
    fill(before, dict(list(texts.items())[:2]))
    index = opened(store_text=False)
    fill(index, texts)
    assert index.remove("a", "base")
    heir = _entry(index, "m0000")
    assert (heir.leader, heir.cluster, heir.posted) == ("m0000", "base", True)
    assert all(_entry(index, name).cluster == "base" for name in texts if name != "base")
    _assert_bounds_hold(index, texts)
    assert index.upsert("a", texts["base"], "again").cluster == "base"
    assert_integrity(index)
    assert check_index(index).sound


def test_members_without_content_follow_a_merged_representative(
    opened: Opener, clock: Clock
) -> None:
    texts = family(6)
    first = opened(store_text=False, window=10.0)
    if first.url == "memory://":
        pytest.skip("an index in memory is opened once")
    first.upsert("a", texts["base"], "base")
    clock.now += 20
    # the representative is too old for the window, so that a similar one begins a cluster
    names = ["m0000", "m0003", "m0004"]
    first.upsert_many("a", [texts[name] for name in names], names)
    assert cluster_ids(first) == ["base", "m0000"]
    assert not _entry(first, "m0003").has_content
    index = opened(store_text=False)
    assert merge_clusters(index) == {"merged": 1, "moved": 3, "posted": 0}
    assert cluster_ids(index) == ["base"]
    _assert_bounds_hold(index, texts)
    assert_integrity(index)
    assert check_index(index).sound


def test_vectors_of_members_are_not_stored(opened: Opener) -> None:
    rng = np.random.default_rng(3)
    center = rng.standard_normal(32)
    vectors = (center + 0.05 * rng.standard_normal((6, 32))).astype(np.float32)
    spec = nk.Spec(measure="cosine", unit="vector", n=32)
    index = opened(spec=spec, threshold=0.8, documents=1000)
    for number, vector in enumerate(vectors):
        index.upsert("a", vector, f"v{number}")
    assert [entry.has_content for entry in index.scan()] == [True] + 5 * [False]
    assert index.remove("a", "v0")
    unit = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    for number in range(1, 6):
        entry = _entry(index, f"v{number}")
        assert (entry.leader, entry.cluster) == ("v1", "v0")
        assert entry.similarity <= float(unit[number] @ unit[1]) + 1e-6
    assert index.query("a", vectors[0]) == []
    assert_integrity(index)
    assert check_index(index).sound


@pytest.mark.parametrize("removes", [False, True])
def test_a_copy_keeps_the_resolutions_of_members_without_content(
    tmp_path: Path, removes: bool
) -> None:
    texts = family(6)
    with nk.Index.open(f"sqlite:///{tmp_path}/a.db", threshold=0.7, store_text=False) as index:
        fill(index, texts)
        if removes:
            index.remove("a", "base")
        with nk.Index.open(
            f"sqlite:///{tmp_path}/b.db", threshold=0.6, store_text=False, follow=False
        ) as copy:
            fill_copy(index, copy)
            assert cluster_ids(copy) == ["base"]
            for entry in index.scan("a"):
                stored = _entry(copy, entry.id)
                assert (stored.leader, stored.digest) == (entry.leader, entry.digest)
                assert stored.similarity == pytest.approx(entry.similarity)
            # an update and a removal are copied, too
            index.upsert("a", "words of their own that are in no other text at all", "m0001")
            index.remove("a", "m0002")
            Copier.between(index, copy).copy_missing()
            assert _entry(copy, "m0001").is_leader
            assert copy.get("a", "m0002") is None
            assert check_index(copy).sound


def test_a_copy_with_a_higher_threshold_separates_dissimilar_members(tmp_path: Path) -> None:
    texts = family(6)
    with nk.Index.open(f"sqlite:///{tmp_path}/a.db", threshold=0.7, store_text=False) as index:
        fill(index, texts)
        similarities = {entry.id: entry.similarity for entry in index.scan("a")}
        threshold = sorted(similarities.values())[2] + 1e-4
        with nk.Index.open(
            f"sqlite:///{tmp_path}/b.db", threshold=threshold, store_text=False, follow=False
        ) as copy:
            fill_copy(index, copy)
            for id, similarity in similarities.items():
                assert _entry(copy, id).is_leader == (id == "base" or similarity < threshold)
            assert check_index(copy).sound


def test_a_copy_of_vectors_takes_members_before_their_representative(tmp_path: Path) -> None:
    rng = np.random.default_rng(4)
    center = rng.standard_normal(16)
    vectors = (center + 0.05 * rng.standard_normal((4, 16))).astype(np.float32)
    spec = nk.Spec(measure="cosine", unit="vector", n=16)
    with nk.Index.open(f"sqlite:///{tmp_path}/a.db", spec=spec, threshold=0.8) as index:
        for number, vector in enumerate(vectors):
            index.upsert("a", vector, f"v{number}")
        # the representative comes again, with a higher number than its members
        first = _entry(index, "v0")
        index.remove("a", "v0")
        assert first.ref < _entry(index, "v1").ref
        again = index.upsert("a", vectors[0], "v0")
        assert again.kind == "new"
        with nk.Index.open(
            f"sqlite:///{tmp_path}/b.db", spec=spec, threshold=0.8, follow=False
        ) as copy:
            fill_copy(index, copy)
            for entry in index.scan("a", content=False):
                assert _entry(copy, entry.id).leader == entry.leader
            assert check_index(copy).sound


def test_members_without_content_outlive_a_backup_and_their_representative(tmp_path: Path) -> None:
    texts = family(6)
    source = f"sqlite:///{tmp_path}/source.db"
    with nk.Index.open(source, threshold=0.6, store_text=False) as index:
        fill(index, texts)
        clusters = {entry.id: entry.cluster for entry in index.scan("a")}
    backup(source, tmp_path / "copy.db")
    restored = f"sqlite:///{tmp_path}/restored.db"
    restore(tmp_path / "copy.db", restored)
    with nk.Index.open(restored, store_text=False) as index:
        assert {entry.id: entry.cluster for entry in index.scan("a")} == clusters
        assert index.remove("a", "base")
        del clusters["base"]
        assert {entry.id: entry.cluster for entry in index.scan("a")} == clusters
        assert check_index(index).sound
