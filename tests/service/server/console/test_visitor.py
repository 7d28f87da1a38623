"""Tests of what a visitor of the console may see."""

import asyncio
from collections.abc import Callable
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
