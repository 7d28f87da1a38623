"""The behaviour of an index, over every store."""

import dataclasses
import threading
from pathlib import Path

import numpy as np
import pytest

import nearkin as nk
from nearkin.errors import IncompatibleError, StoreError, UsageError
from nearkin.index.changes import Changes, KeyedEntry
from nearkin.index.index import Index
from nearkin.index.migration.cutover import fill_copy
from nearkin.sketch.resources import SpecResources
from tests.index.conftest import Clock, Opener, corpus, near, words

TEXT = "the quick brown fox jumps over the lazy dog and then it runs away from it all the way home"
NEAR = "the quick brown fox jumps over the lazy dog and then it runs away from it all the way back"


def jaccard(a: str, b: str) -> float:
    x, y = ({tuple(t.split()[i : i + 3]) for i in range(len(t.split()) - 2)} for t in (a, b))
    return len(x & y) / len(x | y)


def integrity(index: Index) -> None:
    """Every document is resolved to one that is there and resembles it.

    Buckets hold what they should and nothing else.
    """
    entries = list(index._session.store.scan())
    held = {(entry.scope, entry.id): entry for entry in entries}
    expected: set[tuple[int, int]] = set()
    for entry in entries:
        leader = held[entry.scope, entry.leader]
        assert leader.is_leader
        assert entry.cluster == leader.cluster
        if entry.posted:
            expected |= {
                (int(key), entry.ref)
                for key in index._session.preparer.keys_of(entry.scope, [entry])[0]
            }
    keys = np.array(sorted({key for key, _ in expected}), np.uint64)
    found = index._session.store.postings(keys)
    listed = {
        (int(key), int(word) >> 24)
        for at, key in enumerate(keys)
        for word in found.words[found.offsets[at] : found.offsets[at + 1]]
    }
    assert listed == expected
    assert index.stats()["postings"] == len(expected)


def test_what_an_acknowledged_step_survives_is_said(opened: Opener, url: "str | list[str]") -> None:
    said = opened()._session.store.durability
    if str(url).startswith("sqlite"):
        assert said == "synced before it is acknowledged: survives a power cut"
    elif str(url).startswith(("memory", "redis")):
        assert "memory" in said
    elif str(url).startswith("postgres"):
        assert "fsync is off" in said
    else:
        assert said


def test_new_exact_match_resolved(opened: Opener) -> None:
    index = opened()
    first = index.upsert("a", TEXT)
    assert (first.kind, first.layer, first.similarity) == ("new", "search", 1.0)
    assert first.id == first.representative == first.cluster
    assert not first.duplicate
    again = index.upsert("a", TEXT)
    assert (again.kind, again.layer, again.id) == ("exact", "memory", first.id)
    match = index.upsert("a", NEAR, id="near")
    assert (match.kind, match.representative, match.cluster) == ("match", first.id, first.cluster)
    assert match.similarity == pytest.approx(jaccard(TEXT, NEAR))
    assert match.candidates == 1
    resolved = index.upsert("a", NEAR, id="near")
    assert (resolved.kind, resolved.layer, resolved.similarity) == (
        "resolved",
        "memory",
        match.similarity,
    )
    integrity(index)


def test_what_is_known_survives_another_opening(opened: Opener, url: str) -> None:
    if url == "memory://":
        pytest.skip("memory ends with its index")
    index = opened()
    first = index.upsert("a", TEXT)
    index.upsert("a", NEAR, id="near")
    index.close()
    other = opened(threshold=None)
    assert other.threshold == 0.7
    assert other.upsert("a", TEXT).layer == "record"
    resolved = other.upsert("a", NEAR, id="near")
    assert (resolved.kind, resolved.layer, resolved.cluster) == ("resolved", "store", first.cluster)
    assert other.upsert("a", TEXT + " again").kind == "match"
    integrity(other)


def test_scopes_do_not_see_each_other(opened: Opener) -> None:
    index = opened()
    index.upsert("a", TEXT, id="one")
    assert index.upsert("b", NEAR).kind == "new"
    assert index.query("c", TEXT) == []
    assert index.get("b", "one") is None
    assert index.cluster("b", "one") is None
    assert not index.remove("b", "one")
    assert [match.id for match in index.query("a", NEAR)] == ["one"]
    integrity(index)


def test_the_same_content_has_the_same_id(opened: Opener) -> None:
    index = opened()
    name = index.upsert("a", TEXT).id
    assert len(name) == 22
    assert index.upsert("b", TEXT).id == name
    assert index.upsert("a", NEAR).id != name


def test_another_text_under_an_id_is_an_update(opened: Opener) -> None:
    index = opened()
    index.upsert("a", TEXT, id="x")
    index.upsert("a", NEAR, id="y")
    other = " ".join(words(np.random.default_rng(1)))
    updated = index.upsert("a", other, id="x")
    assert (updated.kind, updated.representative) == ("updated", "x")
    assert index.query("a", TEXT)[0].id == "y"
    cluster = index.cluster("a", "y")
    assert cluster is not None
    assert (cluster.id, cluster.representative) == ("y", "y"), (
        "x is the cluster of the document x, as it is now"
    )
    assert updated.cluster == "x"
    # what was known of y before is not what is said now
    again = index.upsert("a", NEAR, id="y")
    assert (again.kind, again.representative, again.cluster) == ("exact", "y", "y")
    back = index.upsert("a", TEXT, id="x")
    assert (back.kind, back.representative) == ("updated", "y")
    assert index.upsert("a", TEXT, id="x").kind == "resolved"
    integrity(index)


def test_a_batch_is_as_one_by_one(opened: Opener, clock: Clock) -> None:
    texts = corpus(300)
    names = [f"d{i}" for i in range(len(texts))]
    # some come again within their batch, under the same id
    texts[40:50], names[40:50] = texts[20:30], names[20:30]
    index = opened()
    batch = [
        o
        for start in range(0, 300, 100)
        for o in index.upsert_many("batch", texts[start : start + 100], names[start : start + 100])
    ]
    single = [index.upsert("single", text, name) for text, name in zip(texts, names, strict=True)]
    assert [dataclasses.replace(o, seconds={}) for o in batch] == [
        dataclasses.replace(o, seconds={}) for o in single
    ]
    assert {o.kind for o in batch} == {"new", "match", "exact", "resolved"}
    by_name = dict(zip(names, texts, strict=True))
    for outcome in batch:
        if outcome.kind == "match":
            similarity = jaccard(by_name[outcome.id], by_name[outcome.representative])
            assert similarity >= 0.7
            assert outcome.similarity == pytest.approx(similarity)
    integrity(index)


def test_repeated_ids_and_updates_within_a_batch(opened: Opener) -> None:
    index = opened()
    kinds = [
        o.kind
        for o in index.upsert_many(
            "a", [TEXT, TEXT, NEAR, "something else altogether here"], ["x", "x", "y", "x"]
        )
    ]
    assert kinds == ["new", "exact", "match", "updated"]
    integrity(index)


def test_empty_documents_match_nothing(opened: Opener) -> None:
    index = opened()
    assert [index.upsert("a", text).kind for text in ("", "  ", "!!!")] == ["new"] * 3
    assert index.upsert("a", "").kind == "exact"
    assert index.query("a", "") == []
    integrity(index)


def test_bad_documents_are_said_and_nothing_is_written(opened: Opener) -> None:
    index = opened(max_document=1000, max_batch=3)
    for bad in (None, 7, b"bytes", "x" * 1001, "\ud800"):
        with pytest.raises(UsageError):
            index.upsert_many("a", [TEXT, bad])
    with pytest.raises(UsageError, match="max_batch=3"):
        index.upsert_many("a", [TEXT] * 4)
    with pytest.raises(UsageError, match="2 ids for 1"):
        index.upsert_many("a", [TEXT], ["x", "y"])
    for name in ("", "x" * 2000, "a\0b", "\ud800", 7):
        with pytest.raises(UsageError, match="id"):
            index.upsert("a", TEXT, id=name)
    for scope in ("a\0b", "\ud800", None, "x" * 2000):
        for work in (
            lambda s: index.upsert(s, TEXT),
            lambda s: index.query(s, TEXT),
            lambda s: index.get(s, "x"),
        ):
            with pytest.raises(UsageError, match="scope"):
                work(scope)
        with pytest.raises(UsageError, match="scope"):
            index.remove(scope, "x")
    assert index.stats()["records"] == 0
    assert index.upsert_many("a", []) == []


def test_removing_a_representative_elects_another(opened: Opener) -> None:
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
    assert [(event.kind, event.id) for event in index._session.store.events()] == [
        ("erased", "base")
    ]
    integrity(index)
    for name in ("one", "two", "far"):
        assert index.remove("a", name)
    assert index.stats()["records"] == index.stats()["postings"] == 0


def test_many_removals_leave_nothing_dangling(opened: Opener) -> None:
    texts = corpus(150, seed=3, share=0.6)
    index = opened()
    index.upsert_many("a", texts, [f"d{i}" for i in range(150)])
    for at in np.random.default_rng(2).permutation(150)[:90]:
        index.remove("a", f"d{at}")
    integrity(index)
    assert index.stats()["records"] == 60


def test_all_postings_find_every_neighbour(opened: Opener) -> None:
    rng = np.random.Generator(np.random.PCG64(9))
    base = words(rng)
    texts = [" ".join(near(base, rng, i % 3)) for i in range(8)]
    index = opened(postings="all", threshold=0.6, recall=0.999)
    outcomes = index.upsert_many("a", texts, [f"d{i}" for i in range(8)])
    assert sum(o.kind == "new" for o in outcomes) == 1
    found = index.query("a", texts[0], top=20)
    wanted = {
        f"d{i}": jaccard(text, texts[0])
        for i, text in enumerate(texts)
        if jaccard(text, texts[0]) >= 0.6
    }
    assert {match.id: pytest.approx(match.similarity) for match in found} == wanted
    assert [match.similarity for match in found] == sorted(
        (match.similarity for match in found), reverse=True
    )
    assert len(index.query("a", texts[0], top=2)) == 2
    integrity(index)


@pytest.mark.parametrize("measure", ["jaccard", "weighted-jaccard", "simhash"])
def test_hashes_instead_of_texts(opened: Opener, measure: str) -> None:
    spec = nk.Spec(measure=measure, k=128)
    index = opened(store_text=False, spec=spec, threshold=0.8)
    texts = corpus(60)
    index.upsert_many("a", texts, [f"d{i}" for i in range(60)])
    assert all(entry.text is None and entry.payload for entry in index._session.store.scan())
    for name in ("d0", "d1", "d2", "d3"):
        index.remove("a", name)
    integrity(index)
    with pytest.raises(UsageError, match="is not stored"):
        index.explain("a", "d10", "d11")


def test_keyed_specs(opened: Opener) -> None:
    key = nk.HashKey(bytes(range(16)))
    spec = nk.Spec(base_hash="siphash", key_id=key.id)
    index = opened(spec=spec, resources=SpecResources(key), store_text=False)
    index.upsert("a", TEXT, "x")
    assert index.upsert("a", NEAR).representative == "x"
    integrity(index)


def test_other_settings_than_it_was_made_with(opened: Opener, url: str) -> None:
    if url == "memory://":
        pytest.skip("memory ends with its index")
    opened()
    for fields, named in (
        ({"threshold": 0.8}, "threshold=0.7"),
        ({"spec": nk.Spec(n=4)}, "n=3"),
        ({"postings": "all"}, "postings='leaders'"),
        ({"bands": 4, "rows": 4}, "bands=None"),
    ):
        with pytest.raises(IncompatibleError, match=named):
            opened(**fields)


def test_explain_two_documents(opened: Opener) -> None:
    index = opened()
    index.upsert("a", TEXT, "x")
    index.upsert("a", NEAR, "y")
    found = index.explain("a", "x", "y")
    assert found.similarity == pytest.approx(jaccard(TEXT, NEAR))
    assert (found.verdict, found.bands) == ("match", index.banding.bands)
    with pytest.raises(UsageError, match="no document 'z'"):
        index.explain("a", "x", "z")


def test_times_to_live(opened: Opener, clock: Clock) -> None:
    index = opened(record_ttl=90.0, bucket_ttl=14.0)
    index.upsert("a", TEXT, "x")
    index.upsert("a", NEAR, "y")
    clock.now += 10
    assert index.upsert("a", TEXT, "x").kind == "exact"
    clock.now += 10
    # the hit kept the bucket alive
    assert index.upsert("a", TEXT + " once more", "z").representative == "x"
    clock.now += 15
    assert index.upsert("a", TEXT + " again", "u").representative == "u"
    assert index.expire() == {"records": 0, "postings": 1}
    # what was resolved before still says which cluster
    assert index.upsert("a", NEAR, "y").cluster == "x"
    integrity(index)
    clock.now += 80
    index.expire()
    clock.now += 91
    gone = index.expire()
    assert gone["records"] > 0
    assert index.stats()["records"] == index.stats()["postings"] == 0
    integrity(index)


def test_a_window_forgets_what_was_not_seen(opened: Opener, clock: Clock) -> None:
    index = opened(window=72 * 3600.0)
    index.upsert("a", TEXT, "x")
    clock.now += 71 * 3600
    assert index.upsert("a", NEAR, "y").representative == "x"
    clock.now += 73 * 3600
    assert index.upsert("a", TEXT + " again", "z").representative == "z"


def test_a_full_bucket_loses_its_oldest_and_says_so(opened: Opener) -> None:
    rng = np.random.Generator(np.random.PCG64(4))
    shared = words(rng, 30)
    index = opened(threshold=0.95, bands=20, rows=1, bucket_capacity=5)
    for i in range(12):
        index.upsert("a", " ".join([*shared, *words(rng, 12)]), f"d{i}")
    assert index.stats()["evicted"] > 0
    names = [f"d{i}" for i in range(12)]
    texts = [entry.text for entry in index._session.store.entries("a", names) if entry is not None]
    assert index.query("a", texts[-1])[0].id == "d11"
    batch = (
        opened(threshold=0.95, bands=20, rows=1, bucket_capacity=5)
        if index._session.store.url != "memory://"
        else index
    )
    single = [o.kind for o in batch.upsert_many("b", texts, names)]
    assert single == ["new"] * 12


def test_vectors(opened: Opener) -> None:
    rng = np.random.default_rng(3)
    vectors = rng.standard_normal((60, 32)).astype(np.float32)
    vectors[30:] = vectors[:30] + 0.1 * rng.standard_normal((30, 32)).astype(np.float32)
    index = opened(
        spec=nk.Spec(measure="cosine", unit="vector", n=32), threshold=0.9, documents=1000
    )
    outcomes = index.upsert_many("a", list(vectors), [f"v{i}" for i in range(60)])
    unit = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    for at, outcome in enumerate(outcomes):
        if outcome.kind == "match":
            other = int(outcome.representative.removeprefix("v"))
            assert outcome.similarity == pytest.approx(float(unit[at] @ unit[other]), abs=1e-5)
            assert outcome.similarity >= 0.9
    assert sum(o.kind == "match" for o in outcomes) >= 25
    assert index.remove("a", "v0")
    integrity(index)
    for bad in ([1.0] * 31, [0.0] * 32, [float("nan")] * 32, "text"):
        with pytest.raises((UsageError, ValueError)):
            index.upsert("a", bad)


@pytest.mark.parametrize(
    "fields",
    [
        {"spec": nk.Spec(slot_bits=8)},
        {"spec": nk.Spec(slot_bits=1, k=512)},
        {"probes": 1, "bands": 20, "rows": 6},
    ],
)
def test_truncated_slots_and_probes(opened: Opener, fields: dict) -> None:
    index, texts = opened(**fields), corpus(80)
    outcomes = index.upsert_many("a", texts, [f"d{i}" for i in range(80)])
    assert any(o.kind == "match" for o in outcomes)
    for name in ("d0", "d3", "d5"):
        index.remove("a", name)
    integrity(index)


def test_threads_end_with_one_cluster(opened: Opener) -> None:
    index, kinds = opened(), []

    def work() -> None:
        kinds.append(index.upsert("a", TEXT).kind)

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(kinds) == ["exact"] * 7 + ["new"]
    integrity(index)


def test_a_posting_of_a_document_that_left_its_buckets_is_passed_over(opened: Opener) -> None:
    """Another process changes the index between the reads of the buckets and the documents."""
    index = opened()
    index.upsert("a", TEXT, "x")
    entry = index.get("a", "x")
    assert entry is not None
    index._session.store.apply(Changes(changed=[entry._replace(posted=False, signature=b"")]))
    assert index.query("a", NEAR) == []
    assert index.upsert("a", NEAR, "y").kind == "new"


def test_two_openings_of_one_store_see_each_other(opened: Opener, url: str, tmp_path: Path) -> None:
    if url == "memory://":
        pytest.skip("memory ends with its index")
    one, two = opened(), opened()
    one.upsert("a", TEXT, "x")
    assert two.upsert("a", NEAR, "y").representative == "x"
    assert one.upsert("a", NEAR, "y").kind == "resolved"
    two.remove("a", "x")
    assert one.query("a", TEXT)[0].id == "y"
    texts = corpus(120, seed=8)
    for start in range(0, 120, 20):
        (one, two)[start // 20 % 2].upsert_many(
            "b", texts[start : start + 20], [f"d{i}" for i in range(start, start + 20)]
        )
    integrity(one)
    integrity(two)


def test_what_comes_again_lives_on_wherever_it_is_known_from(opened: Opener, clock: Clock) -> None:
    """A member that the cache knows is no less alive than one that is looked up."""
    index = opened(record_ttl=100.0)
    index.upsert("a", TEXT, "leader")
    assert index.upsert("a", NEAR, "member").kind == "match"
    clock.now += 60
    assert index.upsert("a", NEAR, "member").layer == "memory"
    clock.now += 60
    index.expire()
    assert index.get("a", "member") is not None
    assert index.get("a", "leader") is not None


def test_any_character_is_kept(opened: Opener) -> None:
    """U+0000, which not every database takes, and what stands for it there."""
    index = opened()
    texts = {
        "nul": f"{TEXT} \0 and \0",
        "sub": f"{TEXT} \x1a0\x1aS\x1a",
        "plane": f"{TEXT} \U0001f600\u202e",
    }
    index.upsert_many("a", list(texts.values()), list(texts))
    for name, text in texts.items():
        entry = index.get("a", name)
        assert entry is not None
        assert entry.text == text
        assert index.upsert("a", text, name).kind in ("exact", "resolved")


def test_what_is_asked_for_wrongly(opened: Opener) -> None:
    index = opened()
    index.upsert("a", TEXT, "one")
    for top in (0, -1):
        with pytest.raises(UsageError, match=f"top={top}"):
            index.query("a", TEXT, top)
    for fields, said in (
        ({"probes": -1}, "probes"),
        ({"record_ttl": float("nan")}, "record_ttl"),
        ({"window": -1.0}, "window"),
    ):
        with pytest.raises(UsageError, match=said):
            opened(**fields)


def test_protection_is_kept_and_carried(
    opened: Opener, url: "str | list[str]", tmp_path: Path
) -> None:
    """The mark of an index that was served with tokens survives a reopening, and a copy of the
    index has it too."""
    index = opened()
    assert not index._session.store.is_protected()
    index.upsert("a", TEXT, "x")
    for _ in range(2):
        index._session.store.protect()
    assert index._session.store.is_protected()
    if url != "memory://":
        index.close()
        index = opened()
        assert index._session.store.is_protected()
        assert index.get("a", "x") is not None
        assert index.stats()["records"] == 1
    with Index.open(f"sqlite:///{tmp_path}/copy.db", threshold=0.7, follow=False) as copy:
        assert not copy._session.store.is_protected()
        fill_copy(index, copy)
        assert copy._session.store.is_protected()


def test_errors_of_a_race_name_no_document(opened: Opener) -> None:
    """They are logged by servers, whose logs hold no ids, scopes or texts."""
    index = opened()
    index.upsert("marked-scope", TEXT, "marked-id")
    entry = index.get("marked-scope", "marked-id")
    assert entry is not None
    (ref,) = index._session.store.reserve(1)
    again, gone = Changes(), Changes()
    again.new.append(KeyedEntry(entry._replace(ref=ref), None))
    gone.changed.append(entry._replace(id="marked-other", ref=ref))
    for changes in (again, gone):
        with pytest.raises(StoreError) as raised:
            index._session.apply(changes)
        assert not [word for word in ("marked", "quick", "brown") if word in str(raised.value)]
