"""An exception of a signal, such as Ctrl-C, in the middle of a call leaves a right index.

It comes before any line that a call executes. Afterwards the same index is used on, the call is
repeated, and the documents are looked for there and by another open index.
"""

from collections.abc import Callable
from contextlib import ExitStack

import pytest

import nearkin as nk
from tests.index.conftest import Clock, empty_store
from tests.index.fake_aerospike import Cluster
from tests.index.interruptions import Interruption, SoftTimeLimit, call_interrupted
from tests.index.repeatable_calls import CALLS, OTHERS, fill, settings_of, verify
from tests.index.store_kinds import SERVERS

INTERRUPTIONS = {False: 2, True: 130}
"""The number of interruptions of each call in the quick and in the full form."""


class Interrupted:
    """Indexes over stores of one kind, whose calls are interrupted."""

    def __init__(self, store: str, new_url: Callable[[], "str | list[str]"]) -> None:
        self.store = store
        self.new_url = new_url
        self.is_shared = store != "memory"

    def try_line(self, name: str, line: int, error: type[BaseException]) -> int | None:
        """Interrupts a call of a new index at a line, and verifies the index.

        Returns:
            The number of lines of the call if it has fewer, else None.
        """
        call = CALLS[name]
        clock = Clock()
        settings = settings_of(name, clock)
        url = self.new_url()
        with ExitStack() as stack:
            index = stack.enter_context(nk.Index.open(url, **settings))
            fill(index, name, clock)
            others = [index]
            if self.is_shared:
                others.append(stack.enter_context(nk.Index.open(url, **settings)))
            lines = call_interrupted(lambda: call(index), line, error)
            # another process goes on before the call is repeated
            others[-1].query("a", OTHERS["o3"])
            others[-1].upsert("a", OTHERS["o6"], "o6")
            call(index)
            for one in others:
                verify(one, name)
        return lines


@pytest.fixture(params=["memory", "sqlite", *SERVERS, "aerospike"])
def interrupted(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Interrupted:
    def new_url() -> "str | list[str]":
        if request.param == "aerospike":
            cluster: Cluster = request.getfixturevalue("aerospike_cluster")
            cluster.clear()
        return empty_store(request.param, request, tmp_path_factory.mktemp("store"))

    return Interrupted(request.param, new_url)


@pytest.mark.all_stores
@pytest.mark.parametrize("name", CALLS)
def test_interrupted_call_leaves_an_index_that_finds_every_document(
    name: str,
    interrupted: Interrupted,
    full: bool,
    record_property: Callable[[str, object], None],
) -> None:
    lines = interrupted.try_line(name, 10**9, Interruption)
    assert lines is not None
    step = max(1, lines // INTERRUPTIONS[full])
    chosen = range(lines // 3 % step, lines, step)
    record_property("subject", interrupted.store)
    record_property("attempts", len(chosen))
    for line in chosen:
        error = (Interruption, SoftTimeLimit)[line % 2]
        try:
            interrupted.try_line(name, line, error)
        except Exception as fault:
            fault.add_note(f"interrupted by {error.__name__} at line {line} of {lines}")
            raise
