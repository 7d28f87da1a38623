"""The kinds of stores that tests run over, and those that a test takes in the quick form."""

import os
import zlib
from collections import defaultdict
from collections.abc import Collection, Sequence

import pytest

AEROSPIKE = "NEARKIN_AEROSPIKE"
"""The environment variable that names a real Aerospike server."""

SERVERS = ["redis", "postgres", "sharded"]
"""Stores with servers, which tests start. `sharded` is an index over SQLite and both of them."""

SIMULATED = ["aerospike", "aerospike-file", "aerospike-strong"]
"""Aerospike clusters that are simulated in this process.

They are the Community Edition with data in memory, the same with data in a file and a cold start
before each opening, and the Enterprise Edition with a strongly consistent namespace.
"""

STORES = ["memory", "sqlite", *SERVERS, *SIMULATED, "aerospike-server"]
"""All kinds. The last one is a real server, if `NEARKIN_AEROSPIKE` names one."""


def quick_kinds(test: str, kinds: Collection[str]) -> set[str]:
    """Returns the kinds of stores that a test runs over in the quick form.

    They are memory, SQLite, the real Aerospike server if there is one, one of the stores with
    servers, and one of the simulated clusters. A checksum of the name of the test chooses the
    latter two, so the choice is the same in every run, and all kinds occur equally often.

    Args:
        test: Name of the test.
        kinds: Kinds that the test can run over.
    """
    number = zlib.crc32(test.encode())
    chosen = set(kinds) - set(SERVERS) - set(SIMULATED)
    if AEROSPIKE not in os.environ:
        chosen.discard("aerospike-server")
    for group in (SERVERS, SIMULATED):
        possible = [kind for kind in group if kind in kinds]
        if possible:
            number, at = divmod(number, len(possible))
            chosen.add(possible[at])
    return chosen


def left_out(items: Sequence[pytest.Item]) -> set[pytest.Item]:
    """Returns the tests whose kind of store is left out in the quick form.

    A test with the marker `all_stores` runs over all kinds. A variant that is named on the command
    line is alone, and therefore runs.
    """
    variants: dict[str, dict[str, pytest.Function]] = defaultdict(dict)
    for item in items:
        if not isinstance(item, pytest.Function) or item.get_closest_marker("all_stores"):
            continue
        parameter = store_parameter(item)
        if parameter is not None:
            kind = item.callspec.params[parameter]
            variants[_name_without(kind, item)][kind] = item
    return {
        item
        for test, by_kind in variants.items()
        for kind, item in by_kind.items()
        if kind not in quick_kinds(test, by_kind)
    }


def store_parameter(item: pytest.Function) -> str | None:
    """Returns the name of the parameter of a test that is a kind of store, or None."""
    callspec = getattr(item, "callspec", None)
    if callspec is not None:
        for name, value in callspec.params.items():
            if isinstance(value, str) and value in STORES:
                return str(name)
    return None


def _name_without(kind: str, item: pytest.Function) -> str:
    """Returns the name of a test and its other parameters."""
    others = f"-{item.callspec.id}-".replace(f"-{kind}-", "-", 1)
    return item.nodeid.partition("[")[0] + others
