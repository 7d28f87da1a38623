"""Tests of the connection to a stream of Redis."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import redis

import nearkin as nk
from nearkin.service.consumer.redis_source import RedisSource
from tests.services import free_port, redis_server


@pytest.mark.parametrize("policy", ["allkeys-lru", "allkeys-lfu", "allkeys-random"])
def test_redis_that_evicts_documents_is_rejected(evicting: "Any", policy: str) -> None:
    evicting.config_set("maxmemory-policy", policy)
    port = evicting.connection_pool.connection_kwargs["port"]
    for work in (
        lambda: RedisSource(f"redis://127.0.0.1:{port}/0?stream=x"),
        lambda: nk.Index.open(f"redis://127.0.0.1:{port}/0?prefix=x"),
    ):
        with pytest.raises(
            nk.UsageError, match=f"maxmemory-policy is {policy}.*set it to noeviction"
        ):
            work()
    assert evicting.keys() == []


def test_uncertain_eviction_policy_is_a_warning(
    evicting: "Any", caplog: pytest.LogCaptureFixture
) -> None:
    port = evicting.connection_pool.connection_kwargs["port"]
    evicting.config_set("maxmemory-policy", "volatile-lru")
    RedisSource(f"redis://127.0.0.1:{port}/0?stream=x")
    evicting.config_set("maxmemory-policy", "noeviction")
    assert "maxmemory-policy is volatile-lru" in caplog.text
    caplog.clear()
    RedisSource(f"redis://127.0.0.1:{port}/0?stream=x")
    assert caplog.text == ""
    evicting.execute_command(
        "ACL", "SETUSER", "blind", "on", "nopass", "~*", "&*", "+@all", "-info"
    )
    RedisSource(f"redis://blind:x@127.0.0.1:{port}/0?stream=x")
    assert "cannot read maxmemory-policy" in caplog.text


@pytest.fixture
def evicting(tmp_path: Path) -> "Iterator[Any]":
    """A Redis server of the test with a memory limit."""
    with redis_server(tmp_path, "--maxmemory", "50mb") as port:
        yield redis.Redis(port=port)


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("redis://:secret@127.0.0.1/0", "is not of the form redis://host:6379/0.stream=documents"),
        ("kafka://127.0.0.1/?stream=x", "is not of the form"),
        ("redis://:secret@127.0.0.1/0?stream=a&topic=b", "unknown option 'topic'"),
    ],
)
def test_invalid_url_of_a_stream_is_rejected(url: str, message: str) -> None:
    with pytest.raises(nk.UsageError, match=message) as refused:
        RedisSource(url)
    assert "secret" not in str(refused.value)


def test_unreachable_redis_is_a_store_error() -> None:
    with pytest.raises(nk.RunError, match="stream=x"):
        RedisSource(f"redis://127.0.0.1:{free_port()}/0?stream=x")
