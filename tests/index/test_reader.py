"""Tests of reads of an index: scopes, clusters in parts, explanations."""

import itertools
from pathlib import Path
from typing import Any

import pytest

import nearkin as nk
from nearkin.errors import UsageError
from nearkin.index.migration.state import MOVED, MigrationState
from nearkin.index.stores.base import FIRST_PORTION
from tests.index.conftest import (
    NEAR,
    TEXT,
    Opener,
    ReadMeter,
    assert_integrity,
    count_shards,
    family,
    fill,
    has_indexes,
    jaccard,
)


def test_documents_of_other_scopes_are_not_found(opened: Opener) -> None:
    index = opened()
    index.upsert("a", TEXT, id="one")
    assert index.upsert("b", NEAR).kind == "new"
    assert index.query("c", TEXT) == []
    assert index.get("b", "one") is None
    assert index.cluster("b", "one") is None
    assert not index.remove("b", "one")
    assert [match.id for match in index.query("a", NEAR)] == ["one"]
    assert_integrity(index)


def test_equally_similar_documents_are_ordered_by_age(opened: Opener) -> None:
    """Every call prefers the same one, whatever its id is."""
    words = [f"w{number}" for number in range(60)]
    texts = {
        id: " ".join([*words[:part], *(f"{id}{k}" for k in range(2)), *words[part:]])
        for id, part in (("z", 15), ("a", 30), ("m", 45))
    }
    index = opened(threshold=0.85, bands=40, rows=2)
    for id, text in texts.items():
        index.upsert("a", text, id=id)
    query = " ".join(words)
    found = index.query("a", query, members=True)
    assert [match.id for match in found] == ["z", "a", "m"]
    assert len({match.similarity for match in found}) == 1
    (match,) = index.match_many("a", [query])
    assert match is not None
    assert match.id == "z"
    distant = " ".join([*words, *(f"x{number}" for number in range(6))])
    assert [match.id for match in index.near_misses("a", distant)][:1] == ["z"]
    assert index.upsert("a", query, id="q").representative == "z"


def test_explain_returns_similarity_verdict_and_bands(opened: Opener) -> None:
    index = opened()
    index.upsert("a", TEXT, "x")
    index.upsert("a", NEAR, "y")
    explanation = index.explain("a", "x", "y")
    assert explanation.similarity == pytest.approx(jaccard(TEXT, NEAR))
    assert (explanation.verdict, explanation.bands) == ("match", index.banding.bands)
    with pytest.raises(UsageError, match="no document 'z'"):
        index.explain("a", "x", "z")


def test_invalid_arguments_and_settings_are_usage_errors(opened: Opener) -> None:
    index = opened()
    index.upsert("a", TEXT, "one")
    for top in (0, -1):
        with pytest.raises(UsageError, match=f"top={top}"):
            index.query("a", TEXT, top)
    for fields, message in (
        ({"probes": -1}, "probes"),
        ({"record_ttl": float("nan")}, "record_ttl"),
        ({"window": -1.0}, "window"),
    ):
        with pytest.raises(UsageError, match=message):
            opened(**fields)


def test_a_part_of_a_cluster_reads_only_that_part(
    opened: Opener, url: Any, meter: ReadMeter
) -> None:
    index = opened(threshold=0.6)
    fill(index, family(60))
    whole = index.cluster("a", "base")
    assert whole is not None
    assert len(whole.members) > 40
    meter.reset()
    part = index.cluster_part("a", "m0003", limit=1)
    assert part is not None
    assert (part.id, part.representative, part.size, part.members) == (
        "base",
        "base",
        len(whole.members),
        whole.members[:1],
    )
    if has_indexes(url):
        assert meter.entries <= 2
    meter.reset()
    for start in (0, 1, 5, len(whole.members) - 2, len(whole.members)):
        page = index.cluster_part("a", "base", start, 4)
        assert page is not None
        assert page.members == whole.members[start : start + 4]
    meter.reset()
    last, pages = None, [*whole.members[:1]]
    while True:
        page = index.cluster_part("a", "base", 1, 9, last if last is not None else "base")
        assert page is not None
        if not page.members:
            break
        pages += page.members
        last = page.members[-1][0]
    assert tuple(pages) == whole.members
    if has_indexes(url):
        # members come without content; only the documents that are named by the request have theirs
        # read
        size = len(family(60)["base"]) + 600
        assert meter.content <= 2 * size * (len(whole.members) // 9 + 2)
        assert (
            meter.entries
            <= len(whole.members) + 2 * (len(whole.members) // 9 + 3) + 9 * count_shards(url) * 9
        )
    meter.reset()
    part = index.cluster_part("a", "base", limit=9)
    assert part is not None
    rows = [*part.members]
    while part.end is not None:
        part = index.cluster_part_after("a", "base", part.end, 9)
        assert part is not None
        rows += part.members
    assert tuple(rows) == whole.members
    if has_indexes(url):
        assert meter.content <= 2 * size * (len(whole.members) // 9 + 2)
    gone = index.cluster_part("a", "base", 3, 2, "not there")
    assert gone is not None
    assert gone.members == whole.members[3:5]
    assert index.cluster_part("a", "unknown") is None


@pytest.mark.parametrize("limit", [1, 2, 5])
def test_parts_of_a_cluster_list_each_lasting_member_once(opened: Opener, limit: int) -> None:
    """Between two parts documents are inserted and deleted, and finally the representative."""
    index, texts = opened(threshold=0.6), family(24)
    fill(index, texts)
    whole = index.cluster("a", "base")
    assert whole is not None
    names = [name for name, _ in whole.members]
    part = index.cluster_part("a", names[-1], limit=limit)
    assert part is not None
    pages = [part]
    gone = set[str]()
    for at in itertools.count():
        if part.end is None:
            break
        listed = [name for page in pages for name, _ in page.members]
        # the last listed document and an earlier one are removed, and another one is inserted
        for name in {listed[-1], listed[len(listed) // 2]} - {names[-1], "base"}:
            gone.add(name)
            index.remove("a", name)
        index.upsert("a", texts["base"], f"late{at}")
        if at == 3:
            gone.add("base")
            index.remove("a", "base")
        part = index.cluster_part_after("a", names[-1], part.end, limit)
        assert part is not None
        pages.append(part)
    left = index.cluster("a", names[-1])
    assert left is not None
    listed = [name for page in pages for name, _ in page.members]
    assert len(listed) == len(set(listed))
    stayed = {name for name, _ in left.members} & set(names) - gone
    assert stayed
    assert stayed <= set(listed)


def test_a_part_of_a_cluster_does_not_begin_before_its_representative() -> None:
    with nk.Index.open("memory://") as index:
        index.upsert("a", "one two three four", id="first")
        with pytest.raises(nk.UsageError, match="start=-1 is negative"):
            index.cluster_part("a", "first", -1)


@pytest.mark.parametrize("limit", [0, -1])
def test_a_part_of_a_cluster_has_room_for_a_document(limit: int) -> None:
    with nk.Index.open("memory://") as index:
        index.upsert("a", "one two three four", id="first")
        part = index.cluster_part("a", "first", limit=1)
        assert part is not None
        assert part.end is not None
        with pytest.raises(nk.UsageError, match=f"limit={limit} is out of range"):
            index.cluster_part("a", "first", limit=limit)
        with pytest.raises(nk.UsageError, match=f"limit={limit} is out of range"):
            index.cluster_part_after("a", "first", part.end, limit)


def test_listings_that_are_under_way_end_in_the_store_that_the_index_has_left(
    tmp_path: Path,
) -> None:
    old, new = (f"sqlite:///{tmp_path}/{name}.db" for name in ("old", "new"))
    with nk.Index.open(old) as index, nk.Index.open(new) as target:
        # more documents than are read at a time
        for number in range(FIRST_PORTION + 2):
            index.upsert("a", f"text {number} of a document", id=f"d{number}")
        index.upsert("b", "another text", id="other")
        target.upsert("c", "a text of the new store", id="new")
        entries, scopes = index.scan("a"), index.iterate_scopes()
        assert (next(entries).id, next(scopes)) == ("d0", "a")
        index._session.store.redirect(MigrationState(1, MOVED, (new,)))
        index.refresh()
        assert index.scopes() == ["c"]
        assert len(list(entries)) == FIRST_PORTION + 1
        assert list(scopes) == ["b"]
