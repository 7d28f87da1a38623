"""An exception of a signal, such as Ctrl-C, in the middle of a call leaves a right index.

It comes before any line that a call executes. Afterwards the same index is used on, the call is
repeated, and the documents are looked for there and by another open index.
"""

from collections.abc import Callable
from contextlib import ExitStack
from datetime import UTC, datetime

import pytest

import nearkin as nk
from nearkin.index.maintenance import check_index
from nearkin.settings.decisions import Decision, Verdict
from tests.index.conftest import Clock, empty_store, family
from tests.index.interruptions import Interruption, SoftTimeLimit, call_interrupted
from tests.index.store_kinds import SERVERS

TEXTS = family(30)
"""Texts that are similar to `base`, and to each other in part."""
OTHERS = {f"o{number}": family(1, seed=100 + number)["base"] for number in range(12)}
"""Texts that are not similar to any other."""
STORED = {
    **dict(list(TEXTS.items())[:8]),
    **dict(list(OTHERS.items())[:5]),
}
LIFETIME = 1000.0
THRESHOLD = 0.6
DECIDED_AT = datetime(2026, 1, 1, tzinfo=UTC)
INTERRUPTIONS = {False: 4, True: 130}
"""The number of interruptions of each call in the quick and in the full form."""

CALLS: dict[str, Callable[[nk.Index], object]] = {
    "upsert of a copy": lambda index: index.upsert("a", TEXTS["m0020"], "m0020"),
    "upsert of a new text": lambda index: index.upsert("a", OTHERS["o7"], "o7"),
    "replacement": lambda index: index.upsert("a", OTHERS["o8"], "base"),
    "upsert_many": lambda index: index.upsert_many(
        "a",
        [TEXTS["m0021"], OTHERS["o9"], OTHERS["o10"], TEXTS["m0022"], OTHERS["o1"]],
        ["m0021", "o9", "o10", "m0022", "o1"],
    ),
    "remove": lambda index: index.remove("a", "base"),
    "decide": lambda index: index.decide(
        "a",
        [
            Decision("base", "m0003", Verdict.DIFFERENT, at=DECIDED_AT),
            Decision("o1", "o2", Verdict.SAME, at=DECIDED_AT),
        ],
    ),
    "parts": lambda index: (
        index.add_part("a", "whole", OTHERS["o11"]),
        index.finish("a", "whole"),
    ),
    "expire": lambda index: index.expire(trust_clock=True),
}
"""Calls that can be repeated."""


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
        settings = {"threshold": THRESHOLD, "clock": clock, "record_ttl": LIFETIME}
        url = self.new_url()
        with ExitStack() as stack:
            index = stack.enter_context(nk.Index.open(url, **settings))
            index.upsert_many("a", list(STORED.values()), list(STORED))
            if name == "expire":
                clock.now += LIFETIME / 2
                index.upsert_many("a", [OTHERS["o4"], OTHERS["o5"]], ["o4", "o5"])
                clock.now += LIFETIME / 2 + 10
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


def verify(index: nk.Index, name: str) -> None:
    """Verifies that an index is sound, and that each document is found by its own text."""
    index.refresh()
    stored = {entry.id: entry for entry in index.scan("a")}
    removed = {"remove": {"base"}, "expire": set(STORED) - {"o4"}}.get(name, set())
    assert set(STORED) - removed <= set(stored), set(STORED) - removed - set(stored)
    assert not removed & set(stored)
    for id, entry in stored.items():
        # a document that people joined to another one need not be similar to it
        if entry.text is not None and (entry.is_leader or entry.similarity >= THRESHOLD):
            leaders = {match.id for match in index.query("a", entry.text)}
            assert leaders, f"{id} is not found by its own text"
    report = check_index(index)
    # a step over several shards can leave postings without a document, which sweeps delete
    assert not report.problems, report.problems


@pytest.fixture(params=["memory", "sqlite", *SERVERS, "aerospike"])
def interrupted(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Interrupted:
    def new_url() -> "str | list[str]":
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
