"""Tests of the snapshots that the workers of a server exchange."""

import os
import threading
from pathlib import Path

import pytest

from nearkin.service.server.worker_snapshots import WorkerSnapshots


def test_threads_that_write_metrics_do_not_share_a_temporary_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    snapshots = WorkerSnapshots(tmp_path, ".prom")
    other = threading.Thread(target=snapshots.write, args=(b"second",))
    replace = Path.replace

    def start_other(path: Path, target: Path) -> Path:
        monkeypatch.setattr(Path, "replace", replace)
        other.start()
        other.join(0.05)
        return replace(path, target)

    monkeypatch.setattr(Path, "replace", start_other)
    snapshots.write(b"first")
    assert (tmp_path / f"{os.getpid()}.prom").read_bytes() in (b"first", b"second")
    other.join()
    assert (tmp_path / f"{os.getpid()}.prom").read_bytes() == b"second"
    assert caplog.messages == []
