"""The last minutes of all workers: each leaves its own for the others, so that any of them can show them all."""

import asyncio
import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from nearkin.server.service import Service
from nearkin.server.telemetry import is_worker_alive

SNAPSHOT_SECONDS = 2.0
SUFFIX = ".recent"


class RecentMetrics:
    """What the live page draws.

    Args:
        folder: Where workers leave notes for each other; None for a single one.
    """

    def __init__(self, folder: Path | None) -> None:
        self._folder = folder

    def leave(self, service: Service) -> None:
        """Notes this worker's for the others."""
        if self._folder is not None:
            staging = self._folder / f"{os.getpid()}{SUFFIX}.part"
            staging.write_text(json.dumps(self._own(service)))
            staging.replace(self._folder / f"{os.getpid()}{SUFFIX}")

    async def keep_writing_snapshots(self, service: Service) -> None:
        """Until it is cancelled."""
        while self._folder is not None:
            await asyncio.to_thread(self.leave, service)
            await asyncio.sleep(SNAPSHOT_SECONDS)

    def read(self, service: Service) -> tuple[list[dict[str, Any]], int, int]:
        """Seconds as `Recent.series` has them, documents that wait, and how many workers these are of."""
        own = self._own(service)
        if self._folder is None:
            return own["series"], own["waiting"], 1
        notes = [
            path
            for path in sorted(self._folder.glob(f"*{SUFFIX}"))
            if is_worker_alive(path) and path.stem != str(os.getpid())
        ]
        every = [own, *(json.loads(path.read_bytes()) for path in notes)]
        return (
            merged([one["series"] for one in every]),
            sum(one["waiting"] for one in every),
            len(every),
        )

    def _own(self, service: Service) -> dict[str, Any]:
        return {"series": service.instruments.recent.series(), "waiting": service.batcher.depth}


def merged(series: Sequence[Sequence[Mapping[str, Any]]]) -> list[dict[str, Any]]:
    """Seconds of several workers as one: counts are sums, percentiles those of the slowest, which no worker exceeds.

    Examples:
        >>> one = {"second": 5, "counts": {"new": 2}, "p50": 0.1, "p99": 0.4}
        >>> merged([[one], [{**one, "p99": None}, {**one, "second": 6}]])[0]
        {'second': 5, 'counts': {'new': 4}, 'p50': 0.1, 'p99': 0.4}
    """
    found: dict[int, dict[str, Any]] = {}
    for second in (second for one in series for second in one):
        into = found.setdefault(
            second["second"], {"second": second["second"], "counts": {}, "p50": None, "p99": None}
        )
        for result, count in second["counts"].items():
            into["counts"][result] = into["counts"].get(result, 0) + count
        for name in ("p50", "p99"):
            into[name] = max(
                (value for value in (into[name], second[name]) if value is not None), default=None
            )
    return [found[second] for second in sorted(found)]
