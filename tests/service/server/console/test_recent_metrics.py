"""Tests of the metrics that the workers of a server share."""

import os
from pathlib import Path

from nearkin.service.server.console.recent_metrics import SUFFIX, RecentMetrics, take_snapshot
from nearkin.service.server.worker_snapshots import WorkerSnapshots
from tests.service.server.conftest import Serve
from tests.service.server.console.documents import variant


def test_live_page_shows_all_workers(serve: Serve, tmp_path: Path) -> None:
    client = serve()
    client.post("/v1/scopes/a/documents", json={"text": variant()})
    service = client.app.state.service  # type: ignore[attr-defined]
    recent_metrics = RecentMetrics(tmp_path)
    WorkerSnapshots(tmp_path, SUFFIX).write(take_snapshot(service))
    own = tmp_path / f"{os.getpid()}{SUFFIX}"
    # another living process, and one that is gone
    own.rename(tmp_path / f"{os.getppid()}{SUFFIX}")
    (tmp_path / f"999999999{SUFFIX}").write_text("damaged, and of nobody")
    series, waiting, workers = recent_metrics.read(service)
    assert (sum(one.counts.get("new", 0) for one in series), waiting, workers) == (2, 0, 2)


def test_a_full_disk_does_not_end_the_exchange_of_metrics(serve: Serve, tmp_path: Path) -> None:
    service = serve().app.state.service  # type: ignore[attr-defined]
    WorkerSnapshots(tmp_path / "removed", SUFFIX).write(take_snapshot(service))
    assert RecentMetrics(tmp_path / "removed").read(service).workers == 1
