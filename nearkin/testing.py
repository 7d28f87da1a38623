"""The tests that a store of your own must pass. They need no test runner.

Derive a class from `StoreContract`, and return an empty store from `open_store`. pytest runs its
methods if the name of the class begins with `Test`, and `run_contract` runs them without pytest.
"""

from abc import ABC, abstractmethod

import numpy as np

from nearkin.errors import MovedError, RacedError
from nearkin.index.changes import Changes, Event, KeyedEntry
from nearkin.index.entry import Entry
from nearkin.index.index import Index
from nearkin.index.maintenance import check_index
from nearkin.index.migration.state import MOVED, OPEN, MigrationState
from nearkin.index.stores.base import Store

KEYS = np.array([3, 2**40, 2**63 + 1], np.uint64)
"""The band keys of the documents that the tests store."""


def make_entry(id: str, leader: str | None = None, *, scope: str = "scope") -> Entry:
    """Returns a document that has no number yet, for tests of stores.

    Args:
        id: Id of the document.
        leader: Id of its representative. By default the document is a representative.
        scope: Scope of the document.
    """
    return Entry(
        scope=scope,
        id=id,
        ref=0,
        digest=b"0123456789abcdef",
        leader=leader or id,
        cluster=leader or id,
        similarity=1.0 if leader is None else 0.875,
        size=5,
        created=1_000.0,
        seen=1_000.0,
        posted=leader is None,
        signature=b"\x01\x02\x03\x04" if leader is None else b"",
        text=f"text of {id}",
        payload=b"",
    )


class StoreContract(ABC):
    """The promises of a store, as tests.

    A store keeps what is applied, applies a step whole or not at all, refuses steps that rely on
    what has changed meanwhile, and answers reads in the documented order.
    """

    @abstractmethod
    def open_store(self) -> Store:
        """Returns a new, empty store."""

    def add(self, store: Store, *entries: Entry) -> list[Entry]:
        """Stores documents, and puts the representatives among them into the buckets of `KEYS`.

        Args:
            store: The store.
            *entries: Documents.

        Returns:
            The documents with their numbers.
        """
        new = [KeyedEntry(entry, KEYS if entry.posted else None) for entry in entries]
        numbers = store.apply(Changes(new=new, epoch=store.state().migration.epoch))
        return [entry._replace(ref=number) for entry, number in zip(entries, numbers, strict=True)]

    def test_the_first_header_stays(self) -> None:
        """A second header does not replace the first one."""
        store = self.open_store()
        assert store.read_header() is None
        assert store.claim({"format": 1, "name": "first"})["name"] == "first"
        assert store.read_header() == {"format": 1, "name": "first"}
        assert store.claim({"format": 1, "name": "second"})["name"] == "first"
        store.close()

    def test_documents_are_read_as_they_were_stored(self) -> None:
        """Entries are equal by id and by number; unknown ones are None."""
        store = self.open_store()
        one, two = self.add(store, make_entry("one"), make_entry("two", "one"))
        assert 0 < one.ref < two.ref
        assert store.entries("scope", ["two", "none", "one"]) == [two, None, one]
        assert store.entries("other", ["one"]) == [None]
        assert store.by_refs([two.ref, two.ref + 1, one.ref]) == [two, None, one]
        store.close()

    def test_a_text_and_a_payload_are_kept_side_by_side(self) -> None:
        """An entry of an index of texts and vectors has both, and keeps them when it changes."""
        store = self.open_store()
        (one,) = self.add(store, make_entry("öne")._replace(payload=b"\x00\x01vector"))
        assert store.entries("scope", ["öne"]) == [one]
        changed = one._replace(seen=2_000.0)
        store.apply(Changes(changed=[changed], epoch=store.state().migration.epoch))
        assert store.by_refs([one.ref]) == [changed]
        assert list(store.scan()) == [changed]
        heads = list(store.scan(content=False))
        assert [(head.text, head.payload) for head in heads] == [(None, b"")]
        store.close()

    def test_documents_have_different_numbers_of_keys(self) -> None:
        """Documents of one step may be in different numbers of buckets."""
        store = self.open_store()
        keys = {"one": KEYS, "two": KEYS[:1], "three": KEYS[1:]}
        new = [KeyedEntry(make_entry(id), own_keys) for id, own_keys in keys.items()]
        numbers = store.apply(Changes(new=new, epoch=store.state().migration.epoch))
        words = [
            keyed.entry._replace(ref=number).posting
            for keyed, number in zip(new, numbers, strict=True)
        ]
        postings = store.postings(KEYS)
        assert postings.words.tolist() == [words[0], words[1], *(words[0], words[2]) * 2]
        assert store.counts()["postings"] == 6
        store.close()

    def test_reserved_numbers_are_given_once(self) -> None:
        """No number is given twice, later ones are larger, and none exceeds the last number."""
        store = self.open_store()
        first = store.reserve(3)
        assert store.last_number() >= first[-1]
        stored = self.add(store, make_entry("one"), make_entry("two", "one"))
        second = store.reserve(2)
        assert store.last_number() >= second[-1]
        (last,) = self.add(store, make_entry("three"))
        last_number = store.last_number()
        assert last.ref <= last_number <= store.last_number()
        numbers = [*first, *(entry.ref for entry in stored), *second, last.ref]
        assert numbers == sorted(set(numbers))
        store.close()

    def test_buckets_hold_postings_in_order(self) -> None:
        """A bucket returns its postings, oldest first, and an unknown bucket nothing."""
        store = self.open_store()
        one, two = self.add(store, make_entry("one"), make_entry("two"))
        keys = np.array([KEYS[2], 77, KEYS[0]], np.uint64)
        postings = store.postings(keys)
        assert postings.offsets.tolist() == [0, 2, 2, 4]
        assert postings.words.tolist() == [one.posting, two.posting] * 2
        epoch = store.state().migration.epoch
        store.apply(Changes(dropped=[KeyedEntry(one, KEYS)], epoch=epoch))
        assert store.postings(KEYS).words.tolist() == [two.posting] * len(KEYS)
        assert store.entries("scope", ["one", "two"]) == [None, two]
        store.close()

    def test_members_are_listed_in_the_order_of_their_numbers(self) -> None:
        """Members, pages and counts follow each change of a resolution."""
        store = self.open_store()
        ids = [f"m{number}" for number in range(5)]
        leader, *members = self.add(
            store, make_entry("base"), *(make_entry(id, "base") for id in ids)
        )
        assert store.members("scope", "base") == members
        assert store.members("scope", "base", 2) == members[:2]
        page = store.members("scope", "base", 2, after=members[0].ref, skip=1, content=False)
        assert [member.id for member in page] == ["m2", "m3"]
        assert all(member.text is None and not member.payload for member in page)
        assert store.member_count("scope", "base") == 5
        moved = members[1]._replace(leader="m1", cluster="m1")
        epoch = store.state().migration.epoch
        store.apply(Changes(changed=[moved], expected=[members[1]], epoch=epoch))
        assert store.member_count("scope", "base") == 4
        assert store.by_refs([moved.ref]) == [moved]
        assert leader.is_leader
        store.close()

    def test_scans_are_in_the_order_of_numbers(self) -> None:
        """A scan yields a scope or all, with or without content."""
        store = self.open_store()
        entries = self.add(
            store, make_entry("b"), make_entry("a", scope="other"), make_entry("c", "b")
        )
        assert list(store.scan()) == entries
        assert list(store.scan("other")) == [entries[1]]
        heads = list(store.scan("scope", content=False))
        assert [head.id for head in heads] == ["b", "c"]
        assert all(head.text is None and not head.signature for head in heads)
        assert sorted(store.scopes()) == ["other", "scope"]
        assert [entry.id for entry in store.due(2_000.0, posted=False)] == ["b", "a", "c"]
        assert [entry.id for entry in store.due(2_000.0, posted=True)] == ["b", "a"]
        assert list(store.due(1_000.0, posted=False)) == []
        store.close()

    def test_scans_find_documents_that_are_replaced(self) -> None:
        """A document that gets another number during a scan is yielded with one of them."""
        store = self.open_store()
        entries = self.add(store, make_entry("a"), make_entry("b"), make_entry("c"))
        scan = store.scan()
        assert next(scan).id == "a"
        changes = Changes(
            dropped=[KeyedEntry(entries[1], KEYS)],
            new=[KeyedEntry(make_entry("b"), KEYS)],
            epoch=store.state().migration.epoch,
        )
        store.apply(changes)
        assert {entry.id for entry in scan} == {"b", "c"}
        store.close()

    def test_a_refused_step_writes_nothing(self) -> None:
        """A step that relies on what has changed raises RacedError, and changes nothing."""
        store = self.open_store()
        one, member = self.add(store, make_entry("one"), make_entry("two", "one"))
        epoch = store.state().migration.epoch
        before = list(store.scan())
        new = KeyedEntry(make_entry("new"), KEYS)
        refused = [
            Changes(new=[new, KeyedEntry(make_entry("one"), KEYS)]),
            Changes(new=[new], required_leaders=[member]),
            Changes(new=[new], required_leaders=[one._replace(ref=member.ref + 9, id="gone")]),
            Changes(new=[new], changed=[one._replace(ref=member.ref + 9, id="gone")]),
            Changes(new=[new], changed=[member], expected=[member._replace(leader="x")]),
        ]
        for changes in refused:
            changes.epoch = epoch
            try:
                store.apply(changes)
            except RacedError:
                pass
            else:
                raise AssertionError(f"a step was applied that must be refused: {changes}")
            assert list(store.scan()) == before
            assert store.postings(KEYS).words.tolist() == [one.posting] * len(KEYS)
        store.close()

    def test_a_step_of_another_epoch_is_refused(self) -> None:
        """A migration ends the steps that began before it."""
        store = self.open_store()
        state = store.state().migration
        assert (state.phase, state.urls) == (OPEN, ())
        moved = MigrationState(state.epoch + 1, MOVED, ("sqlite:///other.db",))
        store.redirect(moved)
        assert store.state().migration == moved
        changes = Changes(new=[KeyedEntry(make_entry("one"), KEYS)], epoch=state.epoch)
        try:
            store.apply(changes)
        except MovedError:
            pass
        else:
            raise AssertionError("a step of an older epoch was applied")
        try:
            store.redirect(moved)
        except RacedError:
            pass
        else:
            raise AssertionError("a state of a migration was written twice")
        assert list(store.scan()) == []
        store.close()

    def test_generation_and_log_follow_steps(self) -> None:
        """Steps that make caches wrong raise the generation, and events are kept in order."""
        store = self.open_store()
        before = store.state()
        end = store.log_end()
        events = [Event("erased", "scope", id, "", 1.0) for id in ("one", "two")]
        epoch = before.migration.epoch
        store.apply(Changes(events=events, invalidates_caches=True, epoch=epoch))
        assert store.state().generation > before.generation
        assert list(store.events(end))[-2:] == events
        store.close()

    def test_counts_follow_steps(self) -> None:
        """Counts are kept up to date by every step."""
        store = self.open_store()
        one, _ = self.add(store, make_entry("one"), make_entry("two", "one"))
        counts = store.counts()
        names = ("records", "leaders", "postings", "evicted")
        assert [counts[name] for name in names] == [2, 1, len(KEYS), 0]
        epoch = store.state().migration.epoch
        store.apply(Changes(unposted=[KeyedEntry(one, KEYS)], epoch=epoch))
        assert store.counts()["postings"] == 0
        store.close()

    def test_protection_stays(self) -> None:
        """The mark of an index that requires tokens cannot be removed."""
        store = self.open_store()
        assert not store.is_protected()
        store.protect()
        store.protect()
        assert store.is_protected()
        store.close()

    def test_an_index_over_the_store_answers_like_one_in_memory(self) -> None:
        """Upserts, queries and removals over the store have the outcomes of `memory://`."""
        words = [f"w{number}" for number in range(30)]
        texts = {f"d{start}": " ".join(words[start:]) for start in range(6)}
        texts["far"] = "quite another text of a few words"
        with (
            Index.open(store=self.open_store(), threshold=0.7) as index,
            Index.open("memory://", threshold=0.7) as reference,
        ):
            for id, text in texts.items():
                outcome = index.upsert("a", text, id)
                expected = reference.upsert("a", text, id)
                assert (outcome.kind, outcome.representative, outcome.similarity) == (
                    expected.kind,
                    expected.representative,
                    expected.similarity,
                )
            assert index.remove("a", "d0")
            assert reference.remove("a", "d0")
            for text in texts.values():
                matches = index.query("a", text, members=True)
                assert matches == reference.query("a", text, members=True)
            assert check_index(index).sound


def run_contract(contract: StoreContract) -> list[str]:
    """Runs all tests of a contract.

    Args:
        contract: The contract of a store.

    Returns:
        The names of the tests, all of which have passed.

    Raises:
        AssertionError: If the store breaks a promise.
    """
    names = [name for name in dir(contract) if name.startswith("test_")]
    for name in names:
        getattr(contract, name)()
    return names
