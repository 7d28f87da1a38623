"""Two processes over one store, each of which changes what the other one has just read."""

import itertools
import threading
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

import nearkin as nk
from nearkin.errors import RacedError, StoreError
from nearkin.index.changes import Changes
from nearkin.index.index import Index
from nearkin.index.maintenance import check_index
from nearkin.index.opening import Opened
from nearkin.index.session import Session
from nearkin.index.stores.sharded import ShardedStore
from nearkin.sketch.resources import NO_RESOURCES
from tests.index.conftest import Clock, Opener, corpus

TEXT = "one two three four five six seven eight nine ten eleven twelve thirteen fourteen"
Work = Callable[[Index, str], Any]


class Countdown:
    """Something happens at the n-th step, once."""

    def __init__(self, steps: int, what: Callable[[], object]) -> None:
        self.left = steps
        self._what = what
        self._lock = threading.Lock()

    def step(self) -> None:
        with self._lock:
            self.left -= 1
            now = self.left == 0
        if now:
            self._what()


class Between:
    """A store, or one of several shards, before a step of which something else happens."""

    def __init__(self, store: Any, countdown: Countdown) -> None:
        self._store, self._countdown = store, countdown

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    def apply(self, changes: Changes) -> list[int]:
        self._countdown.step()
        numbers: list[int] = self._store.apply(changes)
        return numbers


def beside(index: Index, store: Any = None, record_ttl: float | None = None) -> Index:
    """Opens the index as another process has it, with locks and a cache of its own."""
    store = store or index._session.store
    # one that knows no times to live still finds what the other one takes out
    settings = replace(index.settings, record_ttl=record_ttl)
    opened = Opened(store, settings, store.state(), index._session.urls)
    return Index(Session(opened, NO_RESOURCES, index._session.clock, None, follow=True))


def removed(index: Index, scope: str) -> None:
    index.remove(scope, "x")


def updated(index: Index, scope: str) -> None:
    index.upsert(scope, corpus(1, seed=9)[0], "x")


def updated_a_little(index: Index, scope: str) -> None:
    """Its own members find it again."""
    index.upsert(scope, f"{TEXT} x fifteen", "x")


def merged(index: Index, scope: str) -> None:
    index.merge_into_older(scope, "x")


def expired(index: Index, scope: str) -> None:
    index._session.clock.now += 1000.0
    index.expire()


def member_removed(index: Index, scope: str) -> None:
    index.remove(scope, "y")


def refreshed(index: Index, scope: str) -> None:
    """A hit that is remembered long after the last one writes what it read."""
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
    """x, which y is resolved to; or nobody.

    Or both beside an older representative that they resemble, too.
    """
    if shape == "older":
        store, other = index._session.store, beside(index)
        index._session.store = Between(
            store, Countdown(1, lambda: other.upsert(scope, f"{TEXT} o", "o"))
        )
        index.upsert(scope, f"{TEXT} x", "x")
        index._session.store = store
    index.upsert(scope, f"{TEXT} x", "x")
    if shape != "alone":
        assert index.upsert(scope, f"{TEXT} x y", "y").representative == "x"
    clock.now += 100.0


def assert_sound(index: Index, about: str) -> None:
    found = check_index(index)
    assert found.sound, (about, found)


@pytest.mark.parametrize("work", WORKS)
def test_what_was_read_is_no_longer_so(work: Work, opened: Opener, clock: Clock) -> None:
    index = opened(record_ttl=900.0)
    for meanwhile, shape in itertools.product(MEANWHILE, SHAPES):
        scope = f"{meanwhile.__name__} {shape}"
        prepared(index, clock, scope, shape)
        other, store = beside(index), index._session.store
        countdown = Countdown(
            1, lambda meanwhile=meanwhile, other=other, scope=scope: meanwhile(other, scope)
        )
        index._session.store = Between(store, countdown)
        work(index, scope)
        index._session.store = store
        assert_sound(index, scope)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("work", WORKS)
def test_between_the_steps_of_shards(work: Work, shape: str, clock: Clock) -> None:
    """No transaction spans them: something else happens before every step of a shard."""
    with nk.Index.open(["memory://"] * 3, threshold=0.7, clock=clock, record_ttl=900.0) as index:
        for meanwhile in MEANWHILE:
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
                    ShardedStore(
                        [Between(shard, countdown) for shard in index._session.store.shards]
                    ),
                    900.0,
                )
                try:
                    work(again, scope)
                except RacedError:
                    work(other, scope)
                if countdown.left > 0:
                    break
            assert_sound(index, meanwhile.__name__)


def test_a_representative_that_comes_and_goes_while_others_join(opened: Opener) -> None:
    """Threads with openings of their own stand for processes."""
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
                # so many at once: it is said, and nothing is half done
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
    found = check_index(index)
    assert not found.problems, found
    assert found.sound or isinstance(index._session.store, ShardedStore)
