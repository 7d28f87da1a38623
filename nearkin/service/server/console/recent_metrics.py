"""The recent activity of all workers, which exchange snapshots through a shared folder."""

import asyncio
import json
import logging
import os
from collections.abc import Sequence
from itertools import chain
from pathlib import Path
from typing import TypedDict

from nearkin.service.server.service import Service
from nearkin.service.server.telemetry import SecondOfActivity, is_worker_alive

log = logging.getLogger("nearkin.metrics")

SNAPSHOT_SECONDS = 2.0
SUFFIX = ".recent"


class WorkerSnapshot(TypedDict):
    """The recent activity of one worker, as it is written for the others.

    Attributes:
        series: The activity of each second.
        waiting: The number of documents that wait.
    """

    series: list[SecondOfActivity]
    waiting: int


class RecentMetrics:
    """A reader and writer of snapshots of recent activity."""

    def __init__(self, folder: Path | None) -> None:
        self._folder = folder

    def write_snapshot(self, service: Service) -> None:
        """Writes a snapshot of this worker for the others.

        While the disk is full, they read the previous snapshot.
        """
        if self._folder is None:
            return
        staging = self._folder / f"{os.getpid()}{SUFFIX}.part"
        try:
            staging.write_text(json.dumps(self._take_snapshot(service)))
            staging.replace(self._folder / f"{os.getpid()}{SUFFIX}")
        except OSError as error:
            log.warning("cannot write activity for other workers", extra={"error": str(error)})

    async def keep_writing_snapshots(self, service: Service) -> None:
        """Writes a snapshot at regular intervals until it is cancelled."""
        while self._folder is not None:
            await asyncio.to_thread(self.write_snapshot, service)
            await asyncio.sleep(SNAPSHOT_SECONDS)

    def read(self, service: Service) -> tuple[list[SecondOfActivity], int, int]:
        """Returns the recent activity, the waiting documents and the number of workers."""
        own_snapshot = self._take_snapshot(service)
        if self._folder is None:
            return own_snapshot["series"], own_snapshot["waiting"], 1
        paths = [
            path
            for path in sorted(self._folder.glob(f"*{SUFFIX}"))
            if is_worker_alive(path) and path.stem != str(os.getpid())
        ]
        snapshots: list[WorkerSnapshot] = [own_snapshot]
        snapshots.extend(json.loads(path.read_bytes()) for path in paths)
        return (
            merge_series([snapshot["series"] for snapshot in snapshots]),
            sum(snapshot["waiting"] for snapshot in snapshots),
            len(snapshots),
        )

    def _take_snapshot(self, service: Service) -> WorkerSnapshot:
        return {"series": service.instruments.recent.series(), "waiting": service.batcher.depth}


def merge_series(series: Sequence[Sequence[SecondOfActivity]]) -> list[SecondOfActivity]:
    """Merges the seconds of several workers: the sum of counts, the maximum of percentiles.

    Examples:
        >>> first = {"second": 5, "counts": {"new": 2}, "p50": 0.1, "p99": 0.4}
        >>> merge_series([[first], [{**first, "p99": None}, {**first, "second": 6}]])[0]
        {'second': 5, 'counts': {'new': 4}, 'p50': 0.1, 'p99': 0.4}
    """
    merged: dict[int, SecondOfActivity] = {}
    for activity in chain.from_iterable(series):
        second = activity["second"]
        if second not in merged:
            merged[second] = {**activity, "counts": dict(activity["counts"])}
            continue
        total = merged[second]
        for result, count in activity["counts"].items():
            total["counts"][result] = total["counts"].get(result, 0) + count
        total["p50"] = _larger_if_known(total["p50"], activity["p50"])
        total["p99"] = _larger_if_known(total["p99"], activity["p99"])
    return [merged[second] for second in sorted(merged)]


def _larger_if_known(left: float | None, right: float | None) -> float | None:
    """Returns the larger of two values, of which None is unknown."""
    return max((value for value in (left, right) if value is not None), default=None)
