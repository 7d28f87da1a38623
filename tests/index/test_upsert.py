"""Tests of upserts, over every store: their outcomes, and what is stored after them."""

import contextlib
import dataclasses
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import nearkin as nk
from nearkin.errors import UsageError
from nearkin.index.maintenance import check_index, merge_clusters
from nearkin.service.client.batches import upsert_requests
from nearkin.stages.sketch.resources import SpecResources
from tests.index.conftest import (
    NEAR,
    TEXT,
    Clock,
    Opener,
    ReadMeter,
    StepRecorder,
    assert_integrity,
    cluster_ids,
    corpus,
    empty_store,
    jaccard,
    words,
)
from tests.index.processes import start_process, upsert_texts


def test_outcomes_are_new_exact_match_and_resolved(opened: Opener) -> None:
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
    assert_integrity(index)


def test_texts_of_symbols_alone_match_the_same_symbols(opened: Opener) -> None:
    index = opened()
    outcomes = [
        index.upsert("a", text, id=str(number))
        for number, text in enumerate(
            ["\U0001f600", "\U0001f621", " \U0001f600\n", "!!!", "!!!", "", ""]
        )
    ]
    kinds = ["new", "new", "match", "new", "match", "new", "new"]
    assert [outcome.kind for outcome in outcomes] == kinds
    assert (outcomes[2].representative, outcomes[2].similarity) == ("0", 1.0)
    assert index.query("a", "\U0001f621")[0].id == "1"
    assert_integrity(index)


def test_other_symbols_are_a_match_and_other_content(opened: Opener) -> None:
    index = opened()
    first, second = "we learn C++ in ten days", "we learn C# in ten days"
    assert index.upsert("a", first, id="a").kind == "new"
    other = index.upsert("a", second, id="b")
    assert (other.kind, other.similarity) == ("match", 1.0)
    assert index.upsert("a", first, id="a").kind == "exact"
    assert index.upsert("a", second, id="a").kind == "updated"


def test_a_reopened_index_knows_its_documents(opened: Opener, url: str) -> None:
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
    assert_integrity(other)


def test_the_default_id_depends_on_the_content_only(opened: Opener) -> None:
    index = opened()
    name = index.upsert("a", TEXT).id
    assert len(name) == 22
    assert index.upsert("b", TEXT).id == name
    assert index.upsert("a", NEAR).id != name


def test_another_text_under_a_known_id_is_an_update(opened: Opener) -> None:
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
    # the previous resolution of y is not returned any more
    again = index.upsert("a", NEAR, id="y")
    assert (again.kind, again.representative, again.cluster) == ("exact", "y", "y")
    back = index.upsert("a", TEXT, id="x")
    assert (back.kind, back.representative) == ("updated", "y")
    assert index.upsert("a", TEXT, id="x").kind == "resolved"
    assert_integrity(index)


def test_a_batch_has_the_outcomes_of_single_upserts(opened: Opener, clock: Clock) -> None:
    texts = corpus(150)
    names = [f"d{i}" for i in range(len(texts))]
    # some documents are repeated within their batch, under the same id
    texts[40:50], names[40:50] = texts[20:30], names[20:30]
    index = opened()
    batch = [
        o
        for start in range(0, 150, 75)
        for o in index.upsert_many("batch", texts[start : start + 75], names[start : start + 75])
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
    assert_integrity(index)


def _random_steps(seed: int) -> list[tuple[str, str, list[str], list[str | None] | None]]:
    """Returns steps of two scopes: batches with repeated documents and ids, and removals."""
    rng = np.random.default_rng(seed)
    texts = ["", "short", "ein Straßenbahnübergang", *corpus(90, seed=seed, share=0.5)]
    steps: list[tuple[str, str, list[str], list[str | None] | None]] = []
    for number in range(14):
        scope = "ab"[int(rng.integers(2))]
        chosen = [texts[i] for i in rng.integers(0, len(texts), int(rng.integers(1, 30)))]
        ids: list[str | None] | None = None
        if number % 3:
            # few ids, so that some are updated, and some occur twice in a batch
            names = rng.integers(0, 60, len(chosen)).tolist()
            ids = [f"é{name}" if name % 4 else None for name in names]
        steps.append(("upsert", scope, chosen, ids))
        steps.append(("remove", scope, [f"é{name}" for name in rng.integers(0, 60, 6)], None))
    return steps


@pytest.mark.parametrize("url", ["memory://", "sqlite"])
@pytest.mark.parametrize("seed", [1, pytest.param(2, marks=pytest.mark.full)])
@pytest.mark.parametrize(
    "fields",
    [{"max_candidates": 2}, {"store_text": False, "postings": "all"}, {"related": 0.3}],
)
def test_random_batches_equal_upserts_one_at_a_time(
    url: str, seed: int, fields: Any, tmp_path: Path
) -> None:
    """Outcomes and stored documents are equal, with removals and times to live in between."""
    outcomes: list[list[tuple[object, ...]]] = []
    stored: list[list[object]] = []
    for name in ("batches", "singles"):
        clock = Clock()
        store_url = f"sqlite:///{tmp_path}/{name}.db" if url == "sqlite" else url
        with nk.Index.open(
            store_url, threshold=0.7, clock=clock, record_ttl=100.0, bucket_ttl=60.0, **fields
        ) as index:
            made = []
            for kind, scope, texts, ids in _random_steps(seed):
                clock.now += 7
                if kind == "remove":
                    for id in texts:
                        index.remove(scope, id)
                    index.expire(trust_clock=True)
                elif name == "batches":
                    made += index.upsert_many(scope, texts, ids)
                else:
                    given = ids or [None] * len(texts)
                    made += [
                        index.upsert(scope, text, id) for text, id in zip(texts, given, strict=True)
                    ]
            assert check_index(index).sound
            outcomes.append(
                [
                    (
                        o.kind,
                        o.id,
                        o.cluster,
                        o.representative,
                        o.similarity,
                        o.candidates,
                        o.related,
                    )
                    for o in made
                ]
            )
            stored.append([entry._replace(ref=0) for entry in index.scan()])
    assert outcomes[0] == outcomes[1]
    # without a blocklist, no document is blocked
    unused = {nk.index_types.OutcomeKind.BLOCKED}
    if "related" not in fields:
        unused.add(nk.index_types.OutcomeKind.RELATED)
    assert {kind for kind, *_ in outcomes[0]} == set(nk.index_types.OutcomeKind) - unused
    assert stored[0] == stored[1]


def test_an_id_may_occur_several_times_in_a_batch(opened: Opener) -> None:
    index = opened()
    kinds = [
        o.kind
        for o in index.upsert_many(
            "a", [TEXT, TEXT, NEAR, "something else altogether here"], ["x", "x", "y", "x"]
        )
    ]
    assert kinds == ["new", "exact", "match", "updated"]
    assert_integrity(index)


def test_empty_documents_match_nothing(opened: Opener) -> None:
    index = opened()
    assert [index.upsert("a", text).kind for text in ("", "  ", "!!!")] == ["new"] * 3
    assert index.upsert("a", "").kind == "exact"
    assert index.query("a", "") == []
    assert_integrity(index)


def test_a_batch_with_an_invalid_document_or_name_writes_nothing(opened: Opener) -> None:
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


@pytest.mark.parametrize("measure", ["jaccard", "weighted-jaccard", "simhash"])
def test_an_index_without_texts_keeps_hashes_and_refuses_explanations(
    opened: Opener, measure: str
) -> None:
    spec = nk.Spec(measure=measure, k=128)
    index = opened(store_text=False, member_content=True, spec=spec, threshold=0.8)
    texts = corpus(60)
    index.upsert_many("a", texts, [f"d{i}" for i in range(60)])
    assert all(entry.text is None and entry.payload for entry in index.scan())
    for name in ("d0", "d1", "d2", "d3"):
        index.remove("a", name)
    assert_integrity(index)
    with pytest.raises(UsageError, match="is not stored"):
        index.explain("a", "d10", "d11")


def test_an_index_with_a_secret_key_matches_documents(opened: Opener) -> None:
    key = nk.HashKey(bytes(range(16)))
    spec = nk.Spec(base_hash="siphash", key_id=key.id)
    index = opened(spec=spec, resources=SpecResources(key), store_text=False)
    index.upsert("a", TEXT, "x")
    assert index.upsert("a", NEAR).representative == "x"
    assert_integrity(index)


def test_vectors_match_by_exact_cosine_similarity(opened: Opener) -> None:
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
    assert_integrity(index)
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
def test_truncated_slots_and_probes_find_matches(opened: Opener, fields: dict) -> None:
    index, texts = opened(**fields), corpus(80)
    outcomes = index.upsert_many("a", texts, [f"d{i}" for i in range(80)])
    assert any(o.kind == "match" for o in outcomes)
    for name in ("d0", "d3", "d5"):
        index.remove("a", name)
    assert_integrity(index)


def test_threads_that_upsert_one_text_make_one_cluster(opened: Opener) -> None:
    index, kinds = opened(), []

    def work() -> None:
        kinds.append(index.upsert("a", TEXT).kind)

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(kinds) == ["exact"] * 7 + ["new"]
    assert_integrity(index)


def test_threads_that_upsert_batches_store_each_document_once() -> None:
    """Batches of several threads share documents, in two scopes, while others are removed."""
    texts = corpus(150, share=0.4)
    with nk.Index.open("memory://", threshold=0.7) as index:

        def upsert_batches(seed: int) -> None:
            rng = np.random.default_rng(seed)
            for _ in range(8):
                chosen = rng.integers(0, len(texts), 40).tolist()
                index.upsert_many("ab"[seed % 2], [texts[i] for i in chosen])

        def remove_some() -> None:
            for text in texts[:30]:
                index.remove("a", index.upsert("a", text).id)

        threads = [threading.Thread(target=upsert_batches, args=(seed,)) for seed in range(4)]
        threads.append(threading.Thread(target=remove_some))
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        for scope in "ab":
            index.upsert_many(scope, texts)
        assert check_index(index).sound
        assert index.stats()["records"] == 2 * len(set(texts))
        assert_integrity(index)


def test_two_openings_of_one_store_see_each_others_documents(
    opened: Opener, url: str, tmp_path: Path
) -> None:
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
    assert_integrity(one)
    assert_integrity(two)


def test_a_hit_in_the_cache_renews_the_time_to_live(opened: Opener, clock: Clock) -> None:
    """A document that the cache knows stays alive like one that is looked up."""
    index = opened(record_ttl=100.0)
    index.upsert("a", TEXT, "leader")
    assert index.upsert("a", NEAR, "member").kind == "match"
    clock.now += 60
    assert index.upsert("a", NEAR, "member").layer == "memory"
    clock.now += 60
    index.expire()
    assert index.get("a", "member") is not None
    assert index.get("a", "leader") is not None


def test_texts_with_any_character_are_stored_unchanged(opened: Opener) -> None:
    """PostgreSQL cannot store U+0000, and texts may contain the characters that replace it."""
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


@pytest.mark.parametrize("copies", [pytest.param(40_000, marks=pytest.mark.full), 600])
def test_many_copies_of_a_text_use_one_posting_per_band(
    tmp_path: Path, meter: ReadMeter, small_removals: int, copies: int
) -> None:
    """Copies without ids are one record.

    Copies with ids are one cluster, of which only the representative is posted.
    """
    text = " ".join(words(np.random.default_rng(3), 80))
    with nk.Index.open(f"sqlite:///{tmp_path}/kin.db", threshold=0.7) as index:
        index.upsert_many("a", [text] * 100)
        assert index.stats()["records"] == 1
        before = index.stats()["postings"]
        for start in range(0, copies, 1000):
            some = range(start, min(start + 1000, copies))
            index.upsert_many("b", [text] * len(some), [f"c{at}" for at in some])
        assert index.stats()["postings"] == 2 * before
        meter.reset()
        part = index.cluster_part("b", f"c{copies - 1}", limit=5)
        assert part is not None
        assert (part.size, len(part.members)) == (copies, 5)
        assert meter.entries <= 6
        meter.reset()
        assert index.upsert("b", text, "one more").representative == "c0"
        assert meter.entries <= 4
        looked = StepRecorder(index)
        looked.checks = False
        with looked as steps:
            assert index.remove("b", "c0")
        assert max(steps.sizes) <= 3 * small_removals + 2
        assert index.stats()["postings"] == 2 * before
        assert index.counts()["records"] == copies + 1
        assert cluster_ids(index, "b") == ["c0"]


def test_every_match_reaches_the_threshold(full: bool) -> None:
    documents = 100_000 if full else 10_000
    texts = corpus(documents, seed=21)
    with nk.Index.open("memory://", threshold=0.7, bands=16, rows=5) as index:
        kinds = [
            o.kind
            for start in range(0, documents, 1000)
            for o in index.upsert_many("a", texts[start : start + 1000])
        ]
        assert kinds.count("match") > documents / 10
        check = check_index(index)
        assert check.sound, check.problems[:5]
        assert check.records == len({entry.id for entry in index.scan()})


def test_a_killed_process_loses_no_acknowledged_document(tmp_path: Path, full: bool) -> None:
    rng = np.random.default_rng(8)
    for attempt in range(50 if full else 5):
        url = f"sqlite:///{tmp_path}/kill{attempt}.db"
        writer = start_process(upsert_texts, url, attempt, 1, 4000)
        acknowledged = [writer.pipe.recv() for _ in range(rng.integers(1, 150))]
        writer.kill()
        with contextlib.suppress(EOFError, OSError):
            while True:
                acknowledged.append(writer.pipe.recv())
        with nk.Index.open(url) as index:
            stored_ids = {entry.id for entry in index.scan()}
            assert {id for ids in acknowledged for id in ids} <= stored_ids
            assert check_index(index).sound


@pytest.mark.all_stores
@pytest.mark.parametrize("kind", ["sqlite", "redis", "postgres", "sharded", "aerospike-server"])
def test_several_processes_store_each_document_once(
    kind: str, request: pytest.FixtureRequest, tmp_path: Path, full: bool
) -> None:
    """Two of four processes upsert the same documents.

    Each document is stored once, and every match is verified, before and after a merge.
    """
    url, documents = empty_store(kind, request, tmp_path), 5000 if full else 120
    writers = [start_process(upsert_texts, url, seed, 10, documents) for seed in (1, 1, 2, 3)]
    for writer in writers:
        for _ in range(0, documents, 10):
            writer.pipe.recv()
        writer.end()
    with nk.Index.open(url) as index:
        wanted = {text for seed in (1, 2, 3) for text in corpus(documents, seed=seed)}
        entries = list(index.scan())
        assert len(entries) == len({entry.id for entry in entries}) == len(wanted)
        assert check_index(index).sound
        merge_clusters(index)
        check = check_index(index)
        assert check.sound, check.problems[:3]


@pytest.mark.parametrize(
    "documents", ["one text", {"text": "one text"}, {"one text"}, pd.DataFrame({"text": ["one"]})]
)
def test_batches_that_are_no_lists_are_refused(documents: Any) -> None:
    with nk.Index.open("memory://") as index:
        with pytest.raises(nk.UsageError, match=r"give a list of (documents: )?texts"):
            index.upsert_many("a", documents)
        assert list(index.scan("a")) == []


@pytest.mark.parametrize("documents", ["one text", {"text": "one text"}, {"one text"}])
def test_the_client_refuses_batches_that_are_no_lists(documents: Any) -> None:
    with pytest.raises(nk.UsageError, match="is not a list of documents"):
        next(upsert_requests("a", documents))


def test_narrow_slots_miss_no_candidate_of_few_shingles() -> None:
    """All slots of two short documents can differ in one bit: no chance agreement is assumed."""
    sources = [f"s{number}" for number in range(300)]
    edited = [f"{source} o{number}" for number, source in enumerate(sources)]
    found = []
    for slot_bits in (32, 1):
        spec = nk.Spec(n=1, slot_bits=slot_bits)
        with nk.Index.open("memory://", spec=spec, threshold=0.5) as index:
            index.upsert_many("a", sources, sources)
            outcomes = index.upsert_many("a", edited, edited)
        found.append(sum(outcome.kind == "match" for outcome in outcomes))
    assert found[1] >= found[0] > 250
