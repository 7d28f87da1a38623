"""Calls of an index that can be repeated, the index before them, and what must hold after them."""

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import nearkin as nk
from nearkin.index.maintenance import check_index, merge_clusters
from nearkin.settings.decisions import Decision, Verdict
from tests.index.conftest import Clock, family

TEXTS = family(30)
"""Texts that are similar to `base`, and to each other in part."""
OTHERS = {f"o{number}": family(1, seed=100 + number)["base"] for number in range(12)}
"""Texts that are not similar to any other."""
STORED = {
    **dict(list(TEXTS.items())[:8]),
    **dict(list(OTHERS.items())[:5]),
}
LATER = dict(list(TEXTS.items())[8:12])
"""Texts that a window separates from those before them, so that they have a representative too."""
LIFETIME = 1000.0
THRESHOLD = 0.6
DECIDED_AT = datetime(2026, 1, 1, tzinfo=UTC)

REMOVED = ("base", "m0003", "m0004", "o1")
"""A representative that has to hand its cluster on, two of its members, and another document."""

CALLS: dict[str, Callable[[nk.Index], object]] = {
    "upsert of a copy": lambda index: index.upsert("a", TEXTS["m0020"], "m0020"),
    "upsert of a new text": lambda index: index.upsert("a", OTHERS["o7"], "o7"),
    "update": lambda index: index.upsert("a", OTHERS["o8"], "base"),
    "upsert_many": lambda index: index.upsert_many(
        "a",
        [TEXTS["m0021"], OTHERS["o9"], OTHERS["o10"], TEXTS["m0022"], OTHERS["o1"]],
        ["m0021", "o9", "o10", "m0022", "o1"],
    ),
    "remove": lambda index: index.remove("a", "base"),
    "remove_many": lambda index: index.remove_many("a", [*REMOVED, "none"]),
    "remove_scope": lambda index: index.remove_scope("a"),
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
    "compact": merge_clusters,
}
"""Calls that can be repeated."""


def settings_of(name: str, clock: Clock) -> dict[str, Any]:
    """Returns the settings of an index for a call."""
    settings = {"threshold": THRESHOLD, "clock": clock, "record_ttl": LIFETIME}
    return settings | ({"window": LIFETIME / 10} if name == "compact" else {})


def fill(index: nk.Index, name: str, clock: Clock) -> None:
    """Stores documents of which a call has something to do."""
    index.upsert_many("a", list(STORED.values()), list(STORED))
    if name == "expire":
        clock.now += LIFETIME / 2
        index.upsert_many("a", [OTHERS["o4"], OTHERS["o5"]], ["o4", "o5"])
        clock.now += LIFETIME / 2 + 10
    if name == "compact":
        clock.now += LIFETIME / 5
        index.upsert_many("a", list(LATER.values()), list(LATER))
        clock.now -= LIFETIME / 5
        assert leaders_of_texts(index) > 1


def leaders_of_texts(index: nk.Index) -> int:
    """Returns the number of representatives of the texts that are similar to `base`."""
    return sum(entry.is_leader and entry.id in TEXTS for entry in index.scan("a", content=False))


def verify(index: nk.Index, name: str) -> None:
    """Verifies that an index is sound, and that each document is found by its own text."""
    index.refresh()
    stored = {entry.id: entry for entry in index.scan("a")}
    removed = {
        "remove": {"base"},
        "remove_many": set(REMOVED),
        "remove_scope": set(STORED),
        "expire": set(STORED) - {"o4"},
    }.get(name, set())
    assert set(STORED) - removed <= set(stored), set(STORED) - removed - set(stored)
    assert not removed & set(stored)
    for id, entry in stored.items():
        # a document that people joined to another one need not be similar to it
        if entry.text is not None and (entry.is_leader or entry.similarity >= THRESHOLD):
            leaders = {match.id for match in index.query("a", entry.text)}
            assert leaders, f"{id} is not found by its own text"
    if name == "compact":
        assert set(LATER) <= set(stored)
        assert merge_clusters(index) == {"merged": 0, "moved": 0, "posted": 0}
    report = check_index(index)
    # a step over several shards can leave postings without a document, which sweeps delete
    assert not report.problems, report.problems
