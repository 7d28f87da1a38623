"""Passages of an index over every store, against a plain search of all texts."""

import random
from pathlib import Path

import numpy as np
import pytest

import nearkin as nk
from nearkin.cli.app import run
from nearkin.errors import IncompatibleError, UsageError
from nearkin.index import passage_search
from nearkin.index.backup import backup, restore
from nearkin.index.maintenance import check_index
from nearkin.index.migration.cutover import rebuild
from nearkin.index.opening import PASSAGES_FORMAT
from nearkin.runs.loading import migrate
from tests.index.conftest import Clock, Opener, count_shards, store_of
from tests.stages.winnowing.test_matching_runs import find_plainly

LEAST = 5
Found = dict[str, list[tuple[int, int, int, int, int]]]


def make_texts(seed: int, documents: int = 30) -> dict[str, str]:
    """Returns texts of random words, into many of which passages of others are copied."""
    rng = random.Random(seed)
    texts: dict[str, str] = {}
    for number in range(documents):
        words = [f"w{rng.randrange(400)}" for _ in range(rng.randrange(3, 40))]
        if texts and number % 2:
            source = texts[rng.choice(list(texts))].split()
            start = rng.randrange(len(source))
            words[4:4] = source[start : start + rng.randrange(2, 20)]
        if number % 7 == 0:
            words += ["again", "and"] * 8
        texts[f"d{number}"] = " ".join(words)
    return texts


def span_bytes(words: list[str], first: int, count: int) -> tuple[int, int]:
    """Returns the bytes of consecutive words, between which there is one space."""
    start = sum(len(word.encode()) + 1 for word in words[:first])
    return start, start + len(" ".join(words[first : first + count]).encode())


def search_plainly(texts: dict[str, str], text: str, least: int = LEAST) -> Found:
    """Returns the passages that a text shares with each of other texts."""
    words = text.split()
    vocabulary = {word for one in (text, *texts.values()) for word in one.split()}
    numbers = {word: number for number, word in enumerate(vocabulary)}
    found: Found = {}
    for name, other in texts.items():
        others = other.split()
        runs = find_plainly([numbers[w] for w in words], [numbers[w] for w in others], least)
        if runs:
            found[name] = [
                (*span_bytes(words, first, count), *span_bytes(others, start, count), count)
                for first, start, count in runs
            ]
    return found


def read_matches(matches: nk.index_types.PassageMatches) -> Found:
    assert matches.complete
    return {
        document.id: [
            (p.start, p.end, p.stored_start, p.stored_end, p.tokens) for p in document.passages
        ]
        for document in matches.documents
    }


def test_passages_are_those_of_the_plain_search(
    opened: Opener, url: "str | list[str]", monkeypatch: pytest.MonkeyPatch
) -> None:
    if count_shards(url) > 1:
        with pytest.raises(UsageError, match="passages=5 is not possible over the shards"):
            opened(passages=LEAST)
        return
    monkeypatch.setattr(passage_search, "KEYS_AT_ONCE", 3)
    index = opened(passages=LEAST)
    texts = make_texts(1)
    names = list(texts)
    index.upsert_many("a", [texts[name] for name in names[:20]], names[:20])
    for name in names[20:]:
        index.upsert("a", texts[name], name)
    other = make_texts(2, 4)
    index.upsert_many("b", list(other.values()), list(other))
    queries = [texts["d1"], " ".join(texts[name] for name in names[3:9]), "no such words at all"]
    for text in queries:
        assert read_matches(index.passages("a", text, 100)) == search_plainly(texts, text)
    assert read_matches(index.passages("b", queries[1], 100)) == search_plainly(other, queries[1])
    assert index.passages("c", queries[1]).documents == ()
    # removals, updates and members of clusters
    for name in names[:6]:
        assert index.remove("a", name)
        del texts[name]
    for name in names[6:10]:
        texts[name] += " and some more words that none has"
        index.upsert("a", texts[name], name)
    texts["copy"] = texts["d11"]
    assert index.upsert("a", texts["copy"], "copy").duplicate
    for text in queries:
        assert read_matches(index.passages("a", text, 100)) == search_plainly(texts, text)
    report = check_index(index)
    assert report.sound, report
    for name in list(texts):
        index.remove("a", name)
    for name in other:
        index.remove("b", name)
    assert store_of(index).counts()["postings"] == 0


def test_documents_with_most_shared_words_come_first() -> None:
    index = nk.Index.open("memory://", passages=4)
    index.upsert("s", "one two three four five and then", id="short")
    index.upsert("s", "before one two three four five six seven after", id="long")
    index.upsert("s", "One, two -- three, FOUR five six seven!", id="same")
    found = index.passages("s", "one two three four five six seven", 2)
    assert [(document.id, document.tokens) for document in found.documents] == [
        ("long", 7),
        ("same", 7),
    ]
    assert (found.candidates, found.compared, found.complete) == (3, 3, True)
    assert found.documents[1].passages == (nk.index_types.MatchedPassage(0, 33, 0, 38, 7),)
    assert found.to_dict()["candidates"] == 3


def test_spans_are_bytes_of_texts_in_any_script() -> None:
    index = nk.Index.open("memory://", passages=3)
    stored = "Ça alors: ÉTÉ comme hiver, déjà"
    index.upsert("s", stored, id="x")
    text = "— été comme hiver … déjà vu"
    (passage,) = index.passages("s", text).documents[0].passages
    assert text.encode()[passage.start : passage.end].decode() == "été comme hiver … déjà"
    shared = stored.encode()[passage.stored_start : passage.stored_end].decode()
    assert shared == "ÉTÉ comme hiver, déjà"


@pytest.mark.parametrize("least", [2, 50])
def test_hostile_texts_take_bounded_work(least: int, monkeypatch: pytest.MonkeyPatch) -> None:
    index = nk.Index.open("memory://", passages=least, bucket_capacity=20, max_candidates=10)
    common = " ".join(f"c{number}" for number in range(60))
    periodic = "a " * 3_000
    index.upsert_many("s", [f"{common} e{number} f{number}" for number in range(50)])
    index.upsert("s", periodic, id="p")
    found = index.passages("s", common, 100)
    assert (len(found.documents), found.compared, found.complete) == (10, 10, False)
    assert found.candidates == 20
    (document,) = index.passages("s", "a " * 2_000).documents
    assert (document.id, document.tokens, document.found) == ("p", 2_000, 1)
    parts = " ".join(f"{'a ' * least} b{number}" for number in range(300))
    assert len(index.passages("s", parts).documents[0].passages) == passage_search.MOST_PASSAGES
    assert index.passages("s", parts).documents[0].found == 300
    monkeypatch.setattr(passage_search, "MOST_COMPARED_TOKENS", 1)
    assert index.passages("s", common).compared == 1
    monkeypatch.setattr(passage_search, "MOST_POSTINGS", 0)
    monkeypatch.setattr(passage_search, "KEYS_AT_ONCE", 1)
    assert not index.passages("s", f"{common} {common[::-1]}").complete


def test_the_setting_is_fixed_when_an_index_is_created(opened: Opener, url: str) -> None:
    if count_shards(url) > 1:
        pytest.skip("an index of passages has one store")
    index = opened(passages=LEAST)
    assert index.header()["format"] == PASSAGES_FORMAT
    assert index.stats()["passages"] == LEAST
    if index.url.startswith("memory:"):
        return
    text = "one two three four five six"
    index.upsert("a", text, id="x")
    again = opened()
    assert again.settings.passages == LEAST
    assert [document.id for document in again.passages("a", text).documents] == ["x"]
    with pytest.raises(IncompatibleError, match=r"created with passages=5.*the request has 6"):
        opened(passages=6)


def test_an_index_without_the_setting_refuses_the_search() -> None:
    index = nk.Index.open("memory://")
    with pytest.raises(UsageError, match="created without `passages`"):
        index.passages("a", "one two")
    assert index.header()["format"] == 1
    index.upsert("a", "one two three four five", id="x")
    assert store_of(index).counts()["postings"] == index.banding.bands


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"passages": 1}, "passages=1 is out of range; it must be from 2 to 1,048,576"),
        ({"passages": 5, "store_text": False}, "passages=5 needs the texts"),
        (
            {"passages": 5, "spec": nk.Spec(measure="cosine", unit="vector", n=4)},
            "passages=5 is for an index of texts",
        ),
        (
            {"passages": 5, "spec": nk.Spec(normalise=("nfkc", "lower", "digits"))},
            "the bytes of passages are known only after",
        ),
    ],
)
def test_contradictory_settings_are_refused(
    fields: dict[str, object], message: str, tmp_path: Path
) -> None:
    with pytest.raises(UsageError) as raised:
        nk.Index.open(f"sqlite:///{tmp_path / 'kin.db'}", **fields)  # type: ignore[arg-type]
    assert message in str(raised.value)
    assert not (tmp_path / "kin.db").exists()


def test_copies_of_an_index_have_its_passages(tmp_path: Path) -> None:
    texts = make_texts(3, 12)
    text = " ".join(list(texts.values())[2:6])
    expected = search_plainly(texts, text)
    url = f"sqlite:///{tmp_path / 'kin.db'}"
    with nk.Index.open(url, passages=LEAST) as index:
        index.upsert_many("a", list(texts.values()), list(texts))
        index.export(tmp_path / "export.parquet")
    backup(url, tmp_path / "copy.db")
    copies = {name: f"sqlite:///{tmp_path / name}.db" for name in ("restored", "loaded", "rebuilt")}
    restore(tmp_path / "copy.db", copies["restored"])
    migrate(str(tmp_path / "export.parquet"), copies["loaded"], None)
    rebuild(url, copies["rebuilt"], {"n": 2}, None, None)
    for copy in copies.values():
        with nk.Index.open(copy) as index:
            assert read_matches(index.passages("a", text, 100)) == expected
            assert check_index(index).sound
            index.remove("a", "d2")
            assert "d2" not in read_matches(index.passages("a", text, 100))


def test_processes_see_the_passages_of_each_other(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'kin.db'}"
    text = "one two three four five six"
    with nk.Index.open(url, passages=LEAST) as first, nk.Index.open(url) as second:
        first.upsert("a", text, id="x")
        assert [document.id for document in second.passages("a", text).documents] == ["x"]
        second.remove("a", "x")
        assert first.passages("a", text).documents == ()


def test_keyed_indexes_have_keyed_fingerprints() -> None:
    key = nk.HashKey(b"0123456789abcdef")
    other = nk.HashKey(b"fedcba9876543210")
    text = "one two three four five six"
    postings = []
    for secret in (key, other):
        spec = nk.Spec().keyed_with(secret)
        index = nk.Index.open("memory://", spec, passages=LEAST, resources=nk.SpecResources(secret))
        index.upsert("a", text, id="x")
        assert len(index.passages("a", f"so {text}").documents) == 1
        portion = store_of(index).posting_portion(None, 10_000)
        postings.append(set(portion.keys.tolist()))
    assert not postings[0] & postings[1]


def test_index_build_makes_an_index_of_passages(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "in.csv").write_text("id,text\nx,one two three four five\ny,other things\n")
    url = f"sqlite:///{tmp_path / 'kin.db'}"
    command = ["index", "build", str(tmp_path / "in.csv"), "--id", "id", "--store", url]
    assert run([*command, "--passages", "1"]) == 2
    assert "--passages 1 is out of range" in " ".join(capsys.readouterr().err.split())
    assert not (tmp_path / "kin.db").exists()
    assert run([*command, "--passages", "4", "--json"]) == 0
    with nk.Index.open(url) as index:
        found = index.passages("default", "say one two three four")
        assert [document.id for document in found.documents] == ["x"]


def test_removed_documents_leave_no_fingerprints_of_others() -> None:
    index = nk.Index.open("memory://", passages=4)
    text = "one two three four five six seven"
    index.upsert_many("s", [text, text], ["a", "b"])
    assert index.remove("s", "a")
    assert [document.id for document in index.passages("s", text).documents] == ["b"]
    assert np.unique(store_of(index).posting_portion(None, 1_000_000).words).size > 0


def test_fingerprints_beyond_a_full_bucket_are_missing_and_no_damage(
    opened: Opener, url: str
) -> None:
    if count_shards(url) > 1:
        pytest.skip("an index of passages has one store")
    index = opened(passages=4, bucket_capacity=5, threshold=0.95)
    text = "one two three four five six seven eight"
    for number in range(8):
        index.upsert("s", f"{text} e{number} f{number}", f"d{number}")
    found = index.passages("s", text, 100)
    assert (len(found.documents), found.complete) == (5, False)
    for number in range(3):
        index.remove("s", f"d{number}")
    # There is room in the buckets again.
    found = index.passages("s", text, 100)
    if index.url.startswith("aerospike:"):
        # its records have no room for postings beyond the capacity
        assert (len(found.documents), found.complete) == (2, False)
    else:
        assert len(found.documents) == 5
        assert found.complete or index.url.startswith("postgresql:")
    if not index.url.startswith("aerospike:"):
        assert index.passages("s", "other words that no full bucket has").complete
    last_number = store_of(index).last_number()
    report = check_index(index)
    assert report.sound, report
    assert store_of(index).last_number() == last_number, "a check takes no number"


def test_a_lost_fingerprint_is_damage_although_others_were_evicted() -> None:
    index = nk.Index.open("memory://", passages=4, bucket_capacity=5, threshold=0.95)
    text = "one two three four five six seven eight"
    for number in range(8):
        index.upsert("s", f"{text} e{number} f{number}", f"d{number}")
    index.upsert("s", "nine ten eleven twelve thirteen fourteen", "rare")
    index.upsert("s", "nine ten eleven twelve thirteen fourteen fifteen sixteen", "other")
    index.remove("s", "d7")
    assert check_index(index).sound
    store = store_of(index)
    (entry,) = [entry for entry in store.scan() if entry.id == "rare"]
    postings = index._session.searcher.passages.postings  # type: ignore[union-attr]
    keys = postings.keys_of_entry(entry)
    store.table.remove(keys[:1], entry.ref)
    report = check_index(index)
    assert [(problem.id, problem.what) for problem in report.problems] == [
        ("rare", "a fingerprint of its passages is missing")
    ]


def test_expired_documents_leave_no_fingerprints(clock: Clock) -> None:
    fields = {"record_ttl": 100.0, "bucket_ttl": 50.0, "clock": clock}
    index = nk.Index.open("memory://", passages=4, **fields)  # type: ignore[arg-type]
    text = "one two three four five six seven"
    index.upsert("s", text, id="x")
    clock.now += 60
    assert index.expire(trust_clock=True) == {"records": 0, "postings": 1}
    # a document that has left its buckets is still stored, and its passages are found
    assert [document.id for document in index.passages("s", text).documents] == ["x"]
    clock.now += 60
    assert index.expire(trust_clock=True)["records"] == 1
    assert index.passages("s", text).documents == ()
    assert store_of(index).counts()["postings"] == 0
