"""Tests of the removal of documents, and of representatives in portions."""

from typing import Any

import numpy as np
import pytest

import nearkin as nk
from nearkin.index import removal
from nearkin.index.changes import Changes, KeyedEntry
from nearkin.index.entry import Entry
from nearkin.index.maintenance import check_index
from nearkin.stages.measures.base import as_stored
from tests.index.conftest import (
    KilledError,
    Opener,
    StepRecorder,
    assert_integrity,
    cluster_ids,
    corpus,
    family,
    fill,
    jaccard,
    near,
    preparer_of,
    store_of,
    words,
)


def test_removing_a_representative_elects_another_one(opened: Opener) -> None:
    rng = np.random.Generator(np.random.PCG64(5))
    base = words(rng)
    texts = {
        "base": base,
        "one": near(base, rng),
        "two": near(base, rng),
        "far": near(base, rng, 2),
    }
    index = opened()
    for name, text in texts.items():
        index.upsert("a", " ".join(text), name)
    cluster = index.cluster("a", "two")
    assert cluster is not None
    assert cluster.representative == "base"
    assert index.remove("a", "base")
    assert not index.remove("a", "base")
    after = index.cluster("a", "two")
    assert after is not None
    assert (after.id, after.representative) == ("base", "one")
    for name, similarity in after.members:
        assert similarity == pytest.approx(jaccard(" ".join(texts[name]), " ".join(texts["one"])))
        assert similarity >= 0.7
    assert index.upsert("a", " ".join(texts["two"]), "two").cluster == "base"
    assert [(event.kind, event.id) for event in store_of(index).events()] == [("erased", "base")]
    assert_integrity(index)
    for name in ("one", "two", "far"):
        assert index.remove("a", name)
    assert index.stats()["records"] == index.stats()["postings"] == 0


def test_many_removals_leave_a_sound_index(opened: Opener) -> None:
    texts = corpus(150, seed=3, share=0.6)
    index = opened()
    index.upsert_many("a", texts, [f"d{i}" for i in range(150)])
    for at in np.random.default_rng(2).permutation(150)[:90]:
        index.remove("a", f"d{at}")
    assert_integrity(index)
    assert index.stats()["records"] == 60


def test_documents_are_removed_in_few_steps(
    opened: Opener, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A representative whose members are removed, too, has nobody to elect."""
    monkeypatch.setattr(removal, "MAX_REMOVED", 30)
    texts = corpus(150, seed=3, share=0.6)
    index = opened()
    index.upsert_many("a", texts, [f"d{i}" for i in range(150)])
    index.upsert("b", texts[0], "d0")
    order = [f"d{at}" for at in np.random.default_rng(2).permutation(150)]
    with StepRecorder(index) as steps:
        assert index.remove_many("a", [*order[:90], "none", order[0]]) == 90
    assert max(steps.sizes) <= max(30, removal.MAX_REASSIGNED)
    assert_integrity(index)
    assert {entry.id for entry in index.scan("a")} == set(order[90:])
    with StepRecorder(index) as steps:
        assert index.remove_scope("a") == 60
    # two passes over 60 documents
    assert len(steps.sizes) <= 2 * 60 // 30 + 1
    assert index.remove_scope("a") == 0
    assert [entry.scope for entry in index.scan()] == ["b"]
    assert index.stats()["postings"] > 0
    assert index.remove_many("b", ["d0"]) == 1
    assert index.stats()["records"] == index.stats()["postings"] == 0


def test_unfinished_documents_are_removed_with_others(opened: Opener) -> None:
    index = opened()
    for name in ("one", "two", "three"):
        index.add_part("a", name, f"some words of the first part of {name}")
    index.upsert("a", "a text that is stored whole, with enough words", "whole")
    assert index.remove_many("a", ["one", "whole", "none"]) == 2
    assert index.finish("a", "one") is None
    assert index.remove_scope("a") == 0
    assert index.finish("a", "two") is None
    assert index.finish("a", "three") is None


@pytest.mark.parametrize("what", ["remove", "update"])
def test_the_members_of_a_large_cluster_are_reassigned_in_portions(
    opened: Opener, small_removals: int, what: str
) -> None:
    """Each step has a bounded size, and leaves a sound index."""
    index = opened(threshold=0.6)
    texts = family(40)
    fill(index, texts)
    members = store_of(index).member_count("a", "base")
    assert members > 3 * small_removals
    with StepRecorder(index) as steps:
        if what == "remove":
            assert index.remove("a", "base")
        else:
            assert (
                index.upsert("a", " ".join(words(np.random.default_rng(1))), "base").kind
                == "updated"
            )
    assert len(steps.sizes) > members // small_removals - 1
    # a portion, the postings of new representatives, and the removed representative
    assert max(steps.sizes) <= 3 * small_removals + 2
    assert index.stats()["records"] == len(texts) - (what == "remove")
    if what == "remove":
        assert cluster_ids(index).count("base") == 1
    assert check_index(index).sound


def test_a_large_cluster_is_merged_in_portions(opened: Opener, small_removals: int) -> None:
    index = opened(threshold=0.6)
    texts = family(40)
    fill(index, texts)
    older = index.get("a", "base")
    assert older is not None
    # what two processes that did not see each other leave: a younger representative with most of
    # the members
    some = [entry for entry in index.scan("a") if entry.leader == "base" and entry.id != "base"]
    head, rest = some[0], some[1:]
    keys = preparer_of(index).prepare_stored("a", [head])
    led = head._replace(
        leader=head.id,
        cluster=head.id,
        similarity=1.0,
        posted=True,
        signature=keys.signatures[0].tobytes(),
    )
    stored = preparer_of(index).payload_of([head, *rest])
    assert stored.sizes.size == len(some)
    near_head = [entry for entry in rest if similarity_of(index, head, entry) >= 0.6]
    changed = [
        entry._replace(
            leader=head.id, cluster=head.id, similarity=similarity_of(index, head, entry)
        )
        for entry in near_head
    ]
    store_of(index).apply(
        Changes(
            changed=[led, *changed], posted=[KeyedEntry(led, keys.keys[0])], invalidates_caches=True
        )
    )
    assert check_index(index).sound
    assert store_of(index).member_count("a", head.id) > 2 * small_removals
    with StepRecorder(index) as steps:
        assert index.merge_into_older("a", head.id) == 1 + len(near_head)
    assert max(steps.sizes) <= 3 * small_removals + 2
    assert store_of(index).member_count("a", head.id) == 0
    assert check_index(index).sound


def similarity_of(index: nk.Index, a: Entry, b: Entry) -> float:
    scored = index.measure.compare(np.array([1], np.uint64), as_stored(index.payload_of([a, b])))
    return float(scored.similarity[0])


@pytest.mark.parametrize("steps", [1, 2, 4])
def test_a_killed_removal_is_completed_by_a_repetition(
    opened: Opener, url: Any, small_removals: int, steps: int
) -> None:
    index = opened(threshold=0.6)
    texts = family(40)
    fill(index, texts)
    with StepRecorder(index, die_after=steps), pytest.raises(KilledError):
        index.remove("a", "base")
    assert index.get("a", "base") is not None
    assert check_index(index).sound
    again = index if url == "memory://" else opened(threshold=0.6)
    assert again.remove("a", "base")
    assert check_index(again).sound
    assert again.stats()["records"] == len(texts) - 1
    assert cluster_ids(again).count("base") == 1


def test_a_cluster_id_has_one_heir_after_a_killed_removal(
    opened: Opener, url: Any, small_removals: int
) -> None:
    """The members of later portions are similar to the removed document, but not to the heir."""
    index = opened(threshold=0.5)
    rng = np.random.default_rng(4)
    base = words(rng, 100)
    fill(
        index,
        {"base": " ".join(base), **{f"m{i}": " ".join(near(base, rng, 10)) for i in range(40)}},
    )
    assert store_of(index).member_count("a", "base") > 3 * small_removals
    with StepRecorder(index, die_after=2), pytest.raises(KilledError):
        index.remove("a", "base")
    again = index if url == "memory://" else opened(threshold=0.5)
    assert again.remove("a", "base")
    assert len(cluster_ids(again)) > small_removals
    assert cluster_ids(again).count("base") == 1


def test_a_scope_is_removed_up_to_a_limit(opened: Opener, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(removal, "MAX_REMOVED", 20)
    index = opened()
    index.upsert_many("a", corpus(100, seed=3, share=0.6), [f"d{i}" for i in range(100)])
    index.upsert("b", "a document of another scope stays as it is", "d0")
    assert [index.remove_scope("a", limit) for limit in (1, 30, 50, 50)] == [1, 30, 50, 19]
    assert_integrity(index)
    assert index.remove_scope("a", 1) == 0
    assert [entry.scope for entry in index.scan()] == ["b"]
    with pytest.raises(nk.UsageError, match="limit"):
        index.remove_scope("a", 0)
