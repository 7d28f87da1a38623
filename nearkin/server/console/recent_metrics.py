"""The recent activity of all workers, which exchange snapshots through a shared folder."""

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
    """A reader and writer of snapshots of recent activity.

    Args:
        folder: Folder through which workers exchange snapshots; None for a single process.
    """

    def __init__(self, folder: Path | None) -> None:
        self._folder = folder

    def write_snapshot(self, service: Service) -> None:
        """Writes a snapshot of this worker for the others."""
        if self._folder is not None:
            staging = self._folder / f"{os.getpid()}{SUFFIX}.part"
            staging.write_text(json.dumps(self._own(service)))
            staging.replace(self._folder / f"{os.getpid()}{SUFFIX}")

    async def keep_writing_snapshots(self, service: Service) -> None:
        """Writes a snapshot at regular intervals until it is cancelled."""
        while self._folder is not None:
            await asyncio.to_thread(self.write_snapshot, service)
            await asyncio.sleep(SNAPSHOT_SECONDS)

    def read(self, service: Service) -> tuple[list[dict[str, Any]], int, int]:
        """Returns the recent activity, the waiting documents and the number of workers.

        The activity has the form of `RecentActivity.series`.
        """
        own = self._own(service)
        if self._folder is None:
            return own["series"], own["waiting"], 1
        snapshots = [
            path
            for path in sorted(self._folder.glob(f"*{SUFFIX}"))
            if is_worker_alive(path) and path.stem != str(os.getpid())
        ]
        every = [own, *(json.loads(path.read_bytes()) for path in snapshots)]
        return (
            merge_series([one["series"] for one in every]),
            sum(one["waiting"] for one in every),
            len(every),
        )

    def _own(self, service: Service) -> dict[str, Any]:
        return {"series": service.instruments.recent.series(), "waiting": service.batcher.depth}


def merge_series(series: Sequence[Sequence[Mapping[str, Any]]]) -> list[dict[str, Any]]:
    """Merges the seconds of several workers: the sum of counts, the maximum of percentiles.

    Examples:
        >>> one = {"second": 5, "counts": {"new": 2}, "p50": 0.1, "p99": 0.4}
        >>> merge_series([[one], [{**one, "p99": None}, {**one, "second": 6}]])[0]
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
