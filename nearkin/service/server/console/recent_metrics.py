"""The recent activity of all workers, which exchange snapshots through a shared folder."""

from collections.abc import Sequence
from itertools import chain
from pathlib import Path
from typing import NamedTuple

import msgspec

from nearkin.service.server.service import Service
from nearkin.service.server.telemetry import SecondOfActivity
from nearkin.service.server.worker_snapshots import WorkerSnapshots

SUFFIX = ".recent"


class WorkerActivity(msgspec.Struct):
    """The recent activity of one worker."""

    series: list[SecondOfActivity]
    waiting: int
    """The number of documents that wait."""


class FleetActivity(NamedTuple):
    """The recent activity of all workers."""

    series: list[SecondOfActivity]
    waiting: int
    workers: int


class RecentMetrics:
    """A reader and writer of snapshots of recent activity."""

    def __init__(self, folder: Path | None) -> None:
        self._snapshots = WorkerSnapshots(folder, SUFFIX)

    async def keep_writing_snapshots(self, service: Service) -> None:
        """Writes snapshots of this worker for the others until it is cancelled."""
        await self._snapshots.keep_writing(lambda: take_snapshot(service))

    def read(self, service: Service) -> FleetActivity:
        """Returns the recent activity of all workers."""
        contents = [take_snapshot(service), *self._snapshots.read_others().values()]
        decode = msgspec.json.Decoder(WorkerActivity).decode
        activities = [decode(content) for content in contents]
        return FleetActivity(
            merge_series([activity.series for activity in activities]),
            sum(activity.waiting for activity in activities),
            len(activities),
        )


def take_snapshot(service: Service) -> bytes:
    """Returns the recent activity of this worker in JSON."""
    series = service.instruments.recent.series()
    return msgspec.json.encode(WorkerActivity(series, service.batcher.depth))


def merge_series(series: Sequence[Sequence[SecondOfActivity]]) -> list[SecondOfActivity]:
    """Merges the seconds of several workers: the sum of counts, the maximum of percentiles.

    Examples:
        >>> first = SecondOfActivity(5, {"new": 2}, 0.1, 0.4)
        >>> others = [SecondOfActivity(5, {"new": 2}, 0.1, None), SecondOfActivity(6, {}, 0.1, 0.2)]
        >>> merge_series([[first], others])[0]
        SecondOfActivity(second=5, counts={'new': 4}, p50=0.1, p99=0.4)
    """
    merged: dict[int, SecondOfActivity] = {}
    for activity in chain.from_iterable(series):
        total = merged.setdefault(
            activity.second, SecondOfActivity(activity.second, {}, None, None)
        )
        for result, count in activity.counts.items():
            total.counts[result] = total.counts.get(result, 0) + count
        total.p50 = _larger_if_known(total.p50, activity.p50)
        total.p99 = _larger_if_known(total.p99, activity.p99)
    return [merged[second] for second in sorted(merged)]


def _larger_if_known(left: float | None, right: float | None) -> float | None:
    """Returns the larger of two values, of which None is unknown."""
    return max((value for value in (left, right) if value is not None), default=None)
