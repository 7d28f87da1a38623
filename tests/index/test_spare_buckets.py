"""Tests of floods: variants of a text that fill all of its buckets."""

import numpy as np
import pytest

import nearkin as nk
from nearkin.index.bulk_load import BulkLoad
from nearkin.index.maintenance import check_index, merge_clusters
from nearkin.index.spare_buckets import with_spare_keys
from tests.index.conftest import Opener, store_of, words

CAPACITY = 2
SETTINGS = {"threshold": 0.8, "bands": 12, "rows": 2, "bucket_capacity": CAPACITY}


def edited(base: list[str], rng: np.random.Generator, count: int) -> str:
    """Returns a text of which some words at random positions are replaced by random ones."""
    made = list(base)
    for place, word in zip(rng.permutation(len(base))[:count], words(rng, count), strict=True):
        made[place] = word
    return " ".join(made)


def assert_sound(index: nk.Index) -> None:
    """Asserts that a check finds no problems, and no postings without their documents."""
    report = check_index(index)
    assert (report.problems, report.stray) == ((), 0)


def flood(index: nk.Index, base: list[str], rng: np.random.Generator) -> list[str]:
    """Stores variants until most buckets of a text have overflowed, and returns their ids."""
    ids = [f"v{i}" for i in range(50)]
    for id in ids:
        index.upsert("a", edited(base, rng, 12), id)
    return ids


@pytest.mark.promise("A flood of variants does not hide a text, before or after it comes.")
@pytest.mark.all_stores
@pytest.mark.parametrize("comes_first", [True, False])
def test_a_flood_of_variants_does_not_hide_a_text(opened: Opener, *, comes_first: bool) -> None:
    rng = np.random.Generator(np.random.PCG64(20))
    base = words(rng, 60)
    text = " ".join(base)
    index = opened(**SETTINGS)
    ids: list[str] = []
    if not comes_first:
        ids = flood(index, base, rng)
    assert index.upsert("a", text, "text").kind == "new"
    if comes_first:
        ids = flood(index, base, rng)
    keys = index._session.documents.keys_of("a", [e for e in [index.get("a", "text")] if e])[0]
    assert store_of(index).overflowed(keys).mean() > 0.75
    assert index.stats()["evicted"] > 0
    copies = [text, *(edited(base, rng, 2) for _ in range(5))]
    readers = [index]
    if index.url != "memory://":
        readers.append(opened(**SETTINGS))
    for reader in readers:
        matches = reader.match_many("a", copies)
        assert [match and match.id for match in matches] == ["text"] * len(copies)
    assert index.upsert("a", text, "exact").representative == "text"
    assert_sound(index)
    for id in ids:
        index.remove("a", id)
    if index.url.startswith("aerospike:"):
        # its records have no room for postings beyond the capacity
        assert (merge_clusters(index)["posted"] > 0) != comes_first
        assert merge_clusters(index)["posted"] == 0
    for reader in readers:
        matches = reader.match_many("a", copies)
        assert [match and match.id for match in matches] == ["text"] * len(copies)
    if not index.url.startswith("aerospike:"):
        assert index.stats()["evicted"] == 0
    assert_sound(index)
    index.remove("a", "text")
    index.remove("a", "exact")
    assert index.stats()["postings"] == 0


@pytest.mark.all_stores
def test_postings_beyond_the_capacity_are_read_when_there_is_room(opened: Opener) -> None:
    rng = np.random.Generator(np.random.PCG64(21))
    base = words(rng, 30)
    index = opened(threshold=0.95, bands=20, rows=1, bucket_capacity=2)
    if index.url.startswith("aerospike:"):
        pytest.skip("its records have no room for postings beyond the capacity")
    texts = [" ".join([*base, *words(rng, 12)]) for _ in range(8)]
    for i, text in enumerate(texts):
        index.upsert("a", text, f"d{i}")
    assert index.stats()["evicted"] > 0
    keys = index._session.documents.keys_of("a", [e for e in [index.get("a", "d7")] if e])[0]
    hidden = np.diff(store_of(index).postings(keys).offsets)
    for i in range(6):
        index.remove("a", f"d{i}")
    refs = [e.ref for e in index.get_many("a", ["d6", "d7"]) if e]
    postings = store_of(index).postings(keys)
    assert hidden.max() == 2
    for start, end in zip(postings.offsets[:-1], postings.offsets[1:], strict=True):
        assert set((postings.words[start:end] >> 24).tolist()) <= set(refs)
        assert refs[1] in (postings.words[start:end] >> 24).tolist()
    assert index.stats()["evicted"] == 0
    assert_sound(index)


def test_a_text_is_found_in_a_copy_of_a_flooded_index() -> None:
    rng = np.random.Generator(np.random.PCG64(22))
    base = words(rng, 60)
    with nk.Index.open("memory://", **SETTINGS) as index:
        flood(index, base, rng)
        index.upsert("a", " ".join(base), "text")
        with nk.Index.open("memory://", **SETTINGS) as copy:
            BulkLoad(copy).add_entries(index.scan())
            (match,) = copy.match_many("a", [" ".join(base)])
            assert match is not None
            assert match.id == "text"
            assert_sound(copy)


def test_keys_of_spare_buckets_differ_by_scope_and_content() -> None:
    keys = np.arange(4, dtype=np.uint64)
    made = [
        with_spare_keys(scope, digest, keys).tolist()
        for scope, digest in (("a", b"x"), ("b", b"x"), ("a", b"y"))
    ]
    assert [len(one) for one in made] == [9] * 3
    assert len({one[-1] for one in made}) == 3
