"""A consumer whose index is on a disk that is full: it waits, and no event is lost."""

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
import redis

import nearkin as nk
from nearkin.service.consumer.consumer import Consumer
from nearkin.service.consumer.events import StreamSettings
from nearkin.service.consumer.redis_source import RedisSource
from nearkin.service.consumer.sinks import IndexSink
from tests.disks import enlarge, fill, small_disk
from tests.services import redis_server, wait_until

EVENTS = 300


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    with small_disk(tmp_path / "disk", "4m") as folder:
        yield folder


def count_documents(index: nk.Index) -> int:
    return sum(1 for _ in index._session.store.scan("default", content=False))


def test_events_wait_while_the_disk_of_the_index_is_full(
    disk: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr("nearkin.service.consumer.consumer.LONGEST_WAIT", 0.05)
    (tmp_path / "redis").mkdir()
    with (
        redis_server(tmp_path / "redis") as port,
        nk.Index.open(f"sqlite:///{disk / 'index.db'}") as index,
    ):
        server = redis.Redis(port=port, protocol=2)
        for number in range(EVENTS):
            text = f"document {number} " + " ".join(str(number * 7919 + i) for i in range(100))
            server.xadd("documents", {"id": f"n{number}", "text": text})
        filling = fill(disk)
        url = f"redis://127.0.0.1:{port}/0?stream=documents"
        settings = StreamSettings(wait=0.05, idle=60)
        with RedisSource(url, idle=settings.idle) as source:
            consumer = Consumer(source, IndexSink(index), settings)
            thread = threading.Thread(target=consumer.run, kwargs={"until_empty": True})
            thread.start()
            wait_until(lambda: "full" in caplog.text, "a warning that the disk is full")
            assert count_documents(index) < EVENTS
            assert server.xpending("documents", "nearkin")["pending"] > 0
            filling.unlink()
            enlarge(disk, "60m")
            thread.join(timeout=300)
            assert not thread.is_alive()
        assert consumer.counts.dead == 0
        assert count_documents(index) == EVENTS
        assert server.xpending("documents", "nearkin")["pending"] == 0
