"""Tests of the store in PostgreSQL: interruptions that its driver does not survive."""

from contextlib import AbstractContextManager
from pathlib import Path
from threading import Thread
from typing import Any

import psycopg
import pytest

import nearkin as nk
from nearkin.index.maintenance import check_index
from tests.index.conftest import NEAR, TEXT, empty_store
from tests.index.interruptions import Interruption, SoftTimeLimit

PATIENCE = 120.0
"""Seconds for which a failing test waits."""


class InterruptedEnd:
    """A context manager of which an exception of a signal comes before its end is run."""

    def __init__(self, inner: AbstractContextManager[Any], error: type[BaseException]) -> None:
        self.inner = inner
        self.error = error

    def __enter__(self) -> Any:
        return self.inner.__enter__()

    def __exit__(self, *_: object) -> None:
        raise self.error


@pytest.mark.parametrize("error", [Interruption, SoftTimeLimit])
def test_an_interruption_at_the_end_of_a_copy_blocks_nothing(
    request: pytest.FixtureRequest,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    error: type[BaseException],
) -> None:
    """The block of a COPY holds the lock of its connection, which its transaction needs to end."""
    copy = psycopg.Cursor.copy
    raised: list[BaseException] = []

    def call(index: nk.Index) -> None:
        try:
            index.upsert("a", TEXT, "one")
        except BaseException as interruption:  # noqa: BLE001 (of any type)
            raised.append(interruption)

    with nk.Index.open(empty_store("postgres", request, tmp_path)) as index:
        with monkeypatch.context() as patched:
            patched.setattr(
                psycopg.Cursor,
                "copy",
                lambda cursor, *values: InterruptedEnd(copy(cursor, *values), error),
            )
            thread = Thread(target=call, args=(index,), daemon=True)
            thread.start()
            thread.join(PATIENCE)
            assert not thread.is_alive(), "the call waits for a lock that nobody releases"
        assert [type(interruption) for interruption in raised] == [error]
        assert index.get("a", "one") is None
        assert index.upsert("a", TEXT, "one").kind == "new"
        assert index.upsert("a", NEAR, "two").representative == "one"
        assert check_index(index).sound


def test_a_connection_on_which_an_error_came_in_place_of_an_interruption_is_closed(
    request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    """A connection that counts a transaction that has ended would refuse all others."""
    with nk.Index.open(empty_store("postgres", request, tmp_path)) as index:
        store: Any = index._session.store

        def interrupt(cursor: Any) -> None:
            cursor.connection._num_transactions += 1
            raise psycopg.OperationalError("another command is already in progress")

        for _ in range(3):
            with pytest.raises(nk.StoreError):
                store._read(interrupt)
        assert index.upsert("a", TEXT, "x").kind == "new"
        assert index.upsert("a", NEAR, "y").kind == "match"
