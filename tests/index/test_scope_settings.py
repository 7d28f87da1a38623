"""Tests of the settings of scopes, which an index stores, and of their quotas."""

import threading
from pathlib import Path
from typing import Any

import pytest

import nearkin as nk
from nearkin.errors import QuotaError
from nearkin.index import scope_settings
from nearkin.index.maintenance import check_index
from nearkin.index_types import ScopeSettings
from tests.index.conftest import Clock, Opener, assert_integrity, corpus, store_of

TEXT = "a plain text of some words that several tenants have stored in the same index"
NEAR = f"{TEXT} today"
"""A text whose similarity to TEXT is 0.93."""


def sizes(texts: dict[str, str]) -> int:
    return sum(len(id.encode()) + len(text.encode()) for id, text in texts.items())


def test_settings_of_a_scope_replace_those_of_the_index(opened: Opener, clock: Clock) -> None:
    index = opened(threshold=0.8, record_ttl=1000)
    assert index.scope_status("strict") == nk.index_types.ScopeStatus()
    index.configure_scope("strict", ScopeSettings(threshold=0.99))
    for scope in ("strict", "other"):
        index.upsert(scope, TEXT, "one")
    assert index.upsert("strict", NEAR, "two").kind == "new"
    assert index.upsert("other", NEAR, "two").kind == "match"
    assert [match.id for match in index.query("strict", NEAR)] == ["two"]
    assert {m.id for m in index.query(["strict", "other"], NEAR)} == {"one", "two"}
    assert [match.id for match in index.near_misses("strict", NEAR)] == ["one"]
    assert index.explain("strict", "one", "two").threshold == 0.99
    index.configure_scope("strict", ScopeSettings())
    assert index.upsert("strict", f"{TEXT} now", "three").kind == "match"
    assert check_index(index).sound


def test_documents_stay_where_an_earlier_threshold_resolved_them(opened: Opener) -> None:
    index = opened(threshold=0.8)
    index.upsert("a", TEXT, "one")
    assert index.upsert("a", NEAR, "two").representative == "one"
    index.configure_scope("a", ScopeSettings(threshold=1.0))
    assert index.upsert("a", NEAR, "two").representative == "one"
    assert check_index(index).sound
    assert index.upsert("a", f"{TEXT} now", "three").representative == "three"
    assert index.remove("a", "one")
    assert index.upsert("a", NEAR, "two").representative == "two"


def test_times_to_live_of_a_scope_apply_to_it_alone(opened: Opener, clock: Clock) -> None:
    index = opened(threshold=0.8, record_ttl=1000)
    for scope, ttl in (("short", 100.0), ("long", 5000.0), ("default", None)):
        index.configure_scope(scope, ScopeSettings(record_ttl=ttl))
        index.upsert_many(scope, [TEXT, NEAR], ["one", "two"])
    kept = []
    for seconds in (150, 1000, 4000):
        clock.now += seconds
        index.expire(trust_clock=True)
        kept.append([scope for scope in index.scopes() if not scope.startswith("\x1f")])
    assert kept == [["default", "long"], ["long"], []]
    assert index.scope_status("long").settings.record_ttl == 5000
    assert index.stats()["postings"] == 0


def test_buckets_of_a_scope_expire(opened: Opener, clock: Clock) -> None:
    index = opened(threshold=0.8)
    index.configure_scope("short", ScopeSettings(bucket_ttl=100))
    for scope in ("short", "other"):
        index.upsert(scope, TEXT, "one")
    clock.now += 200
    assert index.query("short", TEXT) == []
    assert index.expire(trust_clock=True)["postings"] == 1
    assert len(index.query("other", TEXT)) == 1
    assert index.get("short", "one") is not None


def test_another_process_follows_settings_and_quotas(opened: Opener, clock: Clock) -> None:
    first = opened(threshold=0.8)
    if store_of(first).url == "memory://":
        pytest.skip("no other process can open it")
    second = opened(threshold=0.8)
    second.upsert("a", TEXT, "one")
    assert len(second.query("a", NEAR)) == 1
    first.configure_scope("a", ScopeSettings(threshold=1.0, max_documents=2))
    assert second.upsert("a", NEAR, "two").kind == "new"
    with pytest.raises(QuotaError):
        second.upsert("a", "another text of other words", "three")
    third = opened(threshold=0.8)
    third.configure_scope("a", ScopeSettings())
    clock.now += 6
    assert len(second.query("a", NEAR)) == 2
    assert second.upsert("a", "another text of other words", "three").kind == "new"


def test_quotas_count_what_is_stored(opened: Opener) -> None:
    index = opened(threshold=0.8)
    texts = {"one": TEXT, "two": "quite another text, with a few words", "three": "à part"}
    index.upsert_many("a", [TEXT, texts["two"]], ["one", "two"])
    status = index.configure_scope("a", ScopeSettings(max_documents=3, max_bytes="1MB"))
    assert (status.used_documents, status.used_bytes, status.settings.max_bytes) == (
        2,
        sizes(texts) - 12,
        1000000,
    )
    index.upsert("a", texts["three"], "three")
    with pytest.raises(QuotaError, match="max_documents=3, 3 are stored, and 1 more exceed it"):
        index.upsert("a", "one text too much", "four")
    index.upsert("other", "one text too much", "four")
    # known documents, replacements, searches and removals need no room
    assert index.upsert("a", TEXT, "one").kind == "exact"
    texts["two"] = "shorter"
    assert index.upsert("a", "shorter", "two").kind == "updated"
    assert len(index.query("a", TEXT)) == 1
    status = index.scope_status("a")
    assert (status.used_documents, status.used_bytes) == (3, sizes(texts))
    index.remove("a", "one")
    assert index.upsert("a", "one text too much", "four").kind == "new"
    index.remove_scope("a")
    assert (index.scope_status("a").used_documents, index.scope_status("a").used_bytes) == (0, 0)
    assert_integrity(index)


def test_a_batch_beyond_the_quota_is_refused_as_a_whole(opened: Opener) -> None:
    index = opened()
    limit = sizes({"d0": "a text 0", "d1": "a text 1"})
    index.configure_scope("a", ScopeSettings(max_bytes=limit))
    with pytest.raises(QuotaError, match="max_bytes"):
        index.upsert_many("a", [f"a text {i}" for i in range(3)], [f"d{i}" for i in range(3)])
    assert list(index.scan("a")) == []
    index.upsert_many("a", ["a text 0", "a text 1"], ["d0", "d1"])
    assert index.scope_status("a").used_bytes == limit


def test_documents_are_counted_while_others_change(
    opened: Opener, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between two portions of the count, documents before and after its position are removed."""
    monkeypatch.setattr(scope_settings, "COUNTED_AT_ONCE", 10)
    index = opened(threshold=0.8)
    texts = corpus(45, share=0.2)
    index.upsert_many("a", texts, [f"d{i}" for i in range(45)])
    count_portion = scope_settings.ScopeConfiguration._count_portion
    numbers = iter(range(100))

    def change_and_count(
        self: scope_settings.ScopeConfiguration, *arguments: Any
    ) -> scope_settings.ScopeRecord:
        record = count_portion(self, *arguments)
        number = next(numbers)
        if number % 2:
            # this makes the step conflict with others, after which it is repeated
            index.remove_many("a", [f"d{number}", f"d{44 - number}"])
            index.upsert("a", f"a new text of the number {number}", f"n{number}")
            index.upsert("a", f"another text of the number {number}", f"d{20 + number}")
        return record

    monkeypatch.setattr(scope_settings.ScopeConfiguration, "_count_portion", change_and_count)
    status = index.configure_scope("a", ScopeSettings(max_documents=1000))
    stored = {entry.id: entry.text or "" for entry in index.scan("a")}
    assert (status.used_documents, status.used_bytes) == (len(stored), sizes(stored))


def test_an_interrupted_count_is_repeated(opened: Opener, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scope_settings, "COUNTED_AT_ONCE", 10)
    index = opened()
    index.upsert_many("a", [f"text {i}" for i in range(25)], [f"d{i}" for i in range(25)])
    for step in ("count", "_count_portion"):
        with monkeypatch.context() as patches:
            patches.setattr(scope_settings.ScopeConfiguration, step, _kill)
            with pytest.raises(KeyboardInterrupt):
                index.configure_scope("a", ScopeSettings(max_documents=26))
        index.remove("a", "d3")
        index.upsert("a", "text 3", "d3")
        assert index.configure_scope("a", ScopeSettings(max_documents=26)).used_documents == 25


def _kill(*_: object) -> None:
    raise KeyboardInterrupt


def test_two_writers_never_exceed_the_quota(opened: Opener) -> None:
    first = opened()
    indexes = [first, first if store_of(first).url == "memory://" else opened()]
    first.configure_scope("a", ScopeSettings(max_documents=15))
    written: list[str] = []

    def write(number: int) -> None:
        for i in range(20):
            try:
                id = f"w{number}-{i}"
                indexes[number].upsert("a", f"a text of writer {number} {i}", id)
                written.append(id)
            except QuotaError:
                pass

    threads = [threading.Thread(target=write, args=(number,)) for number in (0, 1)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert {entry.id for entry in first.scan("a")} == set(written)
    assert len(written) == 15
    assert first.scope_status("a").used_documents == 15


def test_a_threshold_that_the_bands_do_not_find_is_refused(opened: Opener) -> None:
    index = opened(threshold=0.8, recall=0.95)
    with pytest.raises(nk.UsageError, match=r"threshold=0\.5.* below that of the index, 0\.8"):
        index.configure_scope("a", ScopeSettings(threshold=0.5))
    assert index.scope_status("a") == nk.index_types.ScopeStatus()
    related = nk.Index.open("memory://", threshold=0.8, related=0.5)
    related.configure_scope("a", ScopeSettings(threshold=0.6))
    related.upsert("a", "one two three four five six seven", "one")
    found = related.upsert("a", "one two three four five six eight", "two")
    assert found.kind == "match"
    with pytest.raises(nk.UsageError, match=r"must be above related=0\.5"):
        related.configure_scope("a", ScopeSettings(threshold=0.5))
    distance = nk.Index.open("memory://", nk.Spec(measure="simhash", k=64), distance=3)
    with pytest.raises(nk.UsageError, match="this one has distance=3"):
        distance.configure_scope("a", ScopeSettings(threshold=0.99))


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("threshold", 0),
        ("threshold", float("nan")),
        ("record_ttl", -1),
        ("max_documents", -1),
        ("max_bytes", "many"),
        ("max_bytes", -5),
        ("max_documents", 1.5),
    ],
)
def test_invalid_settings_name_the_value(field: str, value: object) -> None:
    with pytest.raises(nk.UsageError, match=field):
        ScopeSettings(**{field: value})  # type: ignore[arg-type]


@pytest.mark.parametrize("scope", ["\x1fscopes", " acme", "\x1fgolden"])
def test_names_of_others_cannot_be_configured(opened: Opener, scope: str) -> None:
    index = opened()
    index.upsert("acme", TEXT)
    with pytest.raises(nk.UsageError):
        index.configure_scope(scope, ScopeSettings(max_documents=0))


def test_settings_and_counts_survive_copies(opened: Opener, tmp_path: Path) -> None:
    from nearkin.index.migration.cutover import rebuild
    from nearkin.runs.loading import migrate

    index = opened(threshold=0.8)
    index.configure_scope("a", ScopeSettings(threshold=1.0, max_documents=3, record_ttl=100))
    index.upsert_many("a", [TEXT, NEAR], ["one", "two"])
    index.export(tmp_path / "export.parquet")
    migrate(str(tmp_path / "export.parquet"), f"sqlite:///{tmp_path}/copy.db", None)
    urls = [f"sqlite:///{tmp_path}/copy.db", f"sqlite:///{tmp_path}/next.db"]
    rebuild(urls[0], urls[1], {"k": 256}, None, None, cuts_over=True)
    for url in urls[1:]:
        with nk.Index.open(url) as copied:
            assert copied.scope_status("a") == index.scope_status("a")
            assert copied.scope_status("a").used_documents == 2
            assert copied.upsert("a", f"{TEXT} now", "three").kind == "new"
            with pytest.raises(QuotaError):
                copied.upsert("a", f"{TEXT} again", "four")
