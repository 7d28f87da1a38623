"""Tests of the table of packed entries, against a plain dictionary."""

import tracemalloc
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from nearkin.index.entry import Entry
from nearkin.index.stores import entry_table
from nearkin.index.stores.entry_table import EntryTable
from nearkin.index.stores.packing import pack_entry

NAMES = st.sampled_from(["", "a", "ab", "b", "ünicode €", "x" * 1024, "a b", "\x1fheirs:a", "0"])


def row_of(scope: str, id: str, number: int) -> bytes:
    entry = Entry(scope, id, number, bytes(16), id, id, 1.0, 3, 1.0, 2.0, True, b"s", "text", b"")
    return pack_entry(entry)


class EntryTableMachine(RuleBasedStateMachine):
    """Adds, finds and deletes entries in a table and in a dictionary."""

    @initialize(hashes=st.sampled_from(["all equal", "two values", "own"]))
    def create(self, hashes: str) -> None:
        self.table = EntryTable()
        self.numbers: dict[tuple[str, str], int] = {}
        self.used: set[int] = set()
        self.patch = pytest.MonkeyPatch()
        self.patch.setattr(entry_table, "LEAST_DELETED", 3)
        functions: dict[str, Callable[[object], int]] = {
            "all equal": lambda _: -1,
            "two values": lambda names: hash(names) % 2,
            "own": hash,
        }
        self.patch.setattr(entry_table, "hash", functions[hashes], raising=False)

    def teardown(self) -> None:
        if hasattr(self, "patch"):
            self.patch.undo()

    @rule(
        scope=NAMES, ids=st.lists(NAMES, min_size=1, max_size=4, unique=True), gap=st.integers(1, 9)
    )
    def add_behind(self, scope: str, ids: list[str], gap: int) -> None:
        """Numbers of a store without shards ascend."""
        ids = [id for id in ids if (scope, id) not in self.numbers]
        first = max(self.used, default=0) + gap
        self.add(scope, {id: first + i * gap for i, id in enumerate(ids)})

    @rule(scope=NAMES, id=NAMES, number=st.integers(1, 60))
    def add_anywhere(self, scope: str, id: str, number: int) -> None:
        """A changed entry comes again under its number; shards name numbers of any order."""
        if (scope, id) not in self.numbers and number not in self.numbers.values():
            self.add(scope, {id: number})

    def add(self, scope: str, numbers: dict[str, int]) -> None:
        if numbers:
            rows = [row_of(scope, id, number) for id, number in numbers.items()]
            self.table.add(list(numbers.values()), scope, list(numbers), rows)
            self.used |= set(numbers.values())
            self.numbers |= {(scope, id): number for id, number in numbers.items()}

    @precondition(lambda self: self.numbers)
    @rule(choice=st.data())
    def discard(self, choice: st.DataObject) -> None:
        scope, id = choice.draw(st.sampled_from(sorted(self.numbers)))
        number = self.numbers.pop((scope, id))
        assert self.table.get(number) == row_of(scope, id, number)
        for _ in range(2):
            self.table.discard(number, scope, id)
            assert self.table.get(number) is None

    @rule(scope=NAMES, ids=st.lists(NAMES, max_size=5))
    def find(self, scope: str, ids: list[str]) -> None:
        expected = [self.numbers.get((scope, id), 0) for id in ids]
        assert self.table.find(scope, ids) == expected

    @invariant()
    def holds_what_the_dictionary_holds(self) -> None:
        if not hasattr(self, "table"):
            return
        assert len(self.table) == len(self.numbers)
        assert self.table.numbers().tolist() == sorted(self.numbers.values())
        for (scope, id), number in self.numbers.items():
            assert self.table.get(number) == row_of(scope, id, number)
        for number in self.used - set(self.numbers.values()):
            assert self.table.get(number) is None


TestEntryTable = EntryTableMachine.TestCase
TestEntryTable.settings = settings(max_examples=25, stateful_step_count=25, deadline=None)


def test_names_are_told_apart_by_the_bound_between_scope_and_id() -> None:
    table = EntryTable()
    table.add([1], "ab", ["c"], [row_of("ab", "c", 1)])
    assert table.find("a", ["bc"]) == [0]
    assert table.find("ab", ["c"]) == [1]


def test_memory_is_not_larger_than_the_table_says() -> None:
    numbers = list(range(1, 20_001))
    ids = [f"document {number}" for number in numbers]
    table = EntryTable()
    empty = table.nbytes
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        for start in range(0, len(numbers), 500):
            part = slice(start, start + 500)
            rows = [row_of("a", id, 1) for id in ids[part]]
            table.add(numbers[part], "a", ids[part], rows)
        del rows
        grown = tracemalloc.get_traced_memory()[0] - before
    finally:
        tracemalloc.stop()
    assert grown <= table.nbytes - empty
    packed = sum(len(row_of("a", id, 1)) for id in ids)
    # the number, the place in the list and the hash of the id, beside the object of the bytes
    assert table.nbytes - empty <= packed + 140 * len(ids)


@given(st.integers(0, 3000))
@settings(max_examples=10, deadline=None)
def test_bound_of_the_added_memory_holds(count: int) -> None:
    table = EntryTable()
    before = table.nbytes
    ids = [str(i) for i in range(count)]
    rows = [row_of("a", id, 1) for id in ids]
    bound = table.added_bytes(count, sum(map(len, rows)))
    if count:
        table.add(list(range(1, count + 1)), "a", ids, rows)
    assert table.nbytes - before <= bound
