"""Tests of two processes over one store, each of which changes what the other one has just read.

The suite covers the index as a whole, over its stores, and not one module.
"""

import itertools
import threading
from collections.abc import Callable
from typing import Any

import pytest

import nearkin as nk
from nearkin.errors import RacedError, StoreError
from nearkin.index.index import Index
from nearkin.index.maintenance import check_index
from nearkin.index.stores.sharded import ShardedStore
from tests.index.conftest import Clock, Opener, corpus, replace_store, store_of
from tests.index.interleaving import Between, Countdown, beside

TEXT = "one two three four five six seven eight nine ten eleven twelve thirteen fourteen"
Work = Callable[[Index, str], Any]


def removed(index: Index, scope: str) -> None:
    index.remove(scope, "x")


def updated(index: Index, scope: str) -> None:
    index.upsert(scope, corpus(1, seed=9)[0], "x")


def updated_a_little(index: Index, scope: str) -> None:
    """Updates x with a text that its members still match."""
    index.upsert(scope, f"{TEXT} x fifteen", "x")


def merged(index: Index, scope: str) -> None:
    index.merge_into_older(scope, "x")


def expired(index: Index, scope: str) -> None:
    index._session.clock.now += 1000.0
    index.expire()


def member_removed(index: Index, scope: str) -> None:
    index.remove(scope, "y")


def refreshed(index: Index, scope: str) -> None:
    """Upserts a known document long after its last hit, which writes the entry that was read."""
    index.upsert_many(scope, [f"{TEXT} x y"], ["y"])


def joined(index: Index, scope: str) -> None:
    index.upsert(scope, f"{TEXT} x z", "z")


def removed_and_joined(index: Index, scope: str) -> None:
    removed(index, scope)
    joined(index, scope)


WORKS = (removed, updated, updated_a_little, merged, expired, member_removed, refreshed, joined)
MEANWHILE = (joined, removed, merged, updated, removed_and_joined, member_removed)


SHAPES = ("alone", "member", "older")


def prepared(index: Index, clock: Clock, scope: str, shape: str) -> None:
    """Stores the document x: alone, with the member y, or similar to an older document."""
    if shape == "older":
        store, other = store_of(index), beside(index)
        replace_store(
            index, Between(store, Countdown(1, lambda: other.upsert(scope, f"{TEXT} o", "o")))
        )
        index.upsert(scope, f"{TEXT} x", "x")
        replace_store(index, store)
    index.upsert(scope, f"{TEXT} x", "x")
    if shape != "alone":
        assert index.upsert(scope, f"{TEXT} x y", "y").representative == "x"
    clock.now += 100.0


def assert_sound(index: Index, about: str) -> None:
    check = check_index(index)
    assert check.sound, (about, check)


@pytest.mark.parametrize("work", WORKS)
def test_a_step_between_read_and_write_leaves_a_sound_index(
    work: Work, opened: Opener, clock: Clock, full: bool
) -> None:
    index = opened(record_ttl=900.0)
    # each check reads the whole index, whose scopes do not influence each other until they expire
    check_each_scope = full or work is expired
    # in the quick form, each step meets every other one, and each shape some of them
    steps = list(itertools.product(MEANWHILE, SHAPES))
    for meanwhile, shape in steps if full else steps[WORKS.index(work) % 2 :: 2]:
        scope = f"{meanwhile.__name__} {shape}"
        prepared(index, clock, scope, shape)
        other, store = beside(index), store_of(index)
        countdown = Countdown(
            1, lambda meanwhile=meanwhile, other=other, scope=scope: meanwhile(other, scope)
        )
        replace_store(index, Between(store, countdown))
        work(index, scope)
        replace_store(index, store)
        if check_each_scope:
            assert_sound(index, scope)
    assert_sound(index, "all scopes")


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("work", WORKS)
def test_a_step_between_the_writes_of_shards_leaves_a_sound_index(
    work: Work, shape: str, clock: Clock, full: bool
) -> None:
    """No transaction spans shards: another step happens before every step of a shard."""
    # each check reads the whole index, whose scopes do not influence each other until they expire
    check_each_scope = full or work is expired
    shards = ["memory://"] * (3 if full else 2)
    # in the quick form, each step meets every other one in some of the shapes
    others = MEANWHILE if full else MEANWHILE[(WORKS.index(work) + SHAPES.index(shape)) % 2 :: 2]
    with nk.Index.open(shards, threshold=0.7, clock=clock, record_ttl=900.0) as index:
        for meanwhile in others:
            for at in itertools.count(1):
                scope = f"{meanwhile.__name__} {at}"
                prepared(index, clock, scope, shape)
                other = beside(index)
                countdown = Countdown(
                    at,
                    lambda meanwhile=meanwhile, other=other, scope=scope: meanwhile(other, scope),
                )
                again = beside(
                    index,
                    ShardedStore([Between(shard, countdown) for shard in store_of(index).shards]),
                    900.0,
                )
                try:
                    work(again, scope)
                except RacedError:
                    work(other, scope)
                if countdown.left > 0:
                    break
            if check_each_scope:
                assert_sound(index, meanwhile.__name__)
        assert_sound(index, "all scopes")


def test_a_representative_is_removed_while_documents_match_it(opened: Opener) -> None:
    """Threads with indexes of their own replace processes."""
    index, failed = opened(), list[Exception]()

    def join(name: str) -> None:
        with_own(lambda own, at: own.upsert("a", f"{TEXT} {name}{at}", f"{name}{at}"))

    def leave(name: str) -> None:
        with_own(
            lambda own, at: (
                own.remove("a", name) if at % 2 else own.upsert("a", f"{TEXT} {name}{at}", name)
            )
        )

    def with_own(work: Callable[[Index, int], object]) -> None:
        own = beside(index)
        for at in range(25):
            try:
                work(own, at)
            except RacedError:
                # with so many conflicts, an error is raised and nothing is half done
                continue
            except StoreError as error:
                failed.append(error)

    names = [(join, "p"), (join, "q"), (leave, "x"), (leave, "y"), (leave, "p3")]
    threads = [threading.Thread(target=work, args=(name,)) for work, name in names]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failed == []
    check = check_index(index)
    assert not check.problems, check
    assert check.sound or isinstance(store_of(index), ShardedStore)
