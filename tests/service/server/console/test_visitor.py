"""Tests of what a visitor of the console may see."""

import asyncio
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace
from typing import Any

from nearkin.service.server.console.visitor import MAX_SCOPES, Visit
from nearkin.service.server.http.tokens import Principal


def test_page_offers_limited_number_of_scopes() -> None:
    async def run_overview(scopes: Callable[[], object]) -> object:
        return scopes()

    names = tuple(f"scope-{number:06d}" for number in range(50_000))
    service: Any = SimpleNamespace(
        run_overview=run_overview, cluster_listings=SimpleNamespace(scopes=lambda: names)
    )
    who = Principal("everybody", ("scope-04*", "other"), ("read",))
    nothing: Any = None
    visit = Visit(service, nothing, nothing, who, "192.0.2.1", "one")
    with ThreadPoolExecutor(1) as pool:
        # the thread of a browser test has a running event loop
        found = pool.submit(asyncio.run, visit.scopes()).result()
    assert found[:2] == ["other", "scope-040000"]
    assert len(found) == MAX_SCOPES


def test_page_shows_the_largest_scope_first() -> None:
    async def run_overview(function: Callable[..., object], *arguments: object) -> object:
        return function(*arguments)

    sizes = {"a": 2, "b": 30, "c": 30, "d": 5}

    def count(scopes: Iterable[str]) -> dict[str, SimpleNamespace]:
        return {scope: SimpleNamespace(documents=sizes[scope]) for scope in scopes}

    service: Any = SimpleNamespace(
        run_overview=run_overview,
        require_ready=lambda: None,
        cluster_listings=SimpleNamespace(scopes=lambda: tuple(sizes), scope_counts=count),
    )
    who = Principal("everybody", ("*",), ("read",))
    nothing: Any = None
    visit = Visit(service, nothing, nothing, who, "192.0.2.1", "one")
    with ThreadPoolExecutor(1) as pool:
        menu = pool.submit(asyncio.run, visit.scope_menu({})).result()
        chosen = pool.submit(asyncio.run, visit.scope_menu({"scope": "a"})).result()
    assert menu.choices == ["b", "c", "d", "a"]
    assert chosen.choices == ["a", "b", "c", "d"]
