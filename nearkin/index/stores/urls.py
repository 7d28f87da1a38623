"""The store behind a URL."""

from collections.abc import Callable, Sequence
from urllib.parse import urlsplit

from nearkin.errors import UsageError
from nearkin.index.settings import IndexSettings
from nearkin.index.store import Store
from nearkin.index.stores.aerospike import AerospikeStore
from nearkin.index.stores.aerospike_records import Records
from nearkin.index.stores.memory import MemoryStore
from nearkin.index.stores.postgres import PostgresStore
from nearkin.index.stores.redis import RedisStore
from nearkin.index.stores.sharded import ShardedStore
from nearkin.index.stores.sqlite import SqliteStore

USUAL_BANDS = 20


def _memory(url: str, settings: IndexSettings) -> Store:
    return MemoryStore(settings.max_bucket)


def _sqlite(url: str, settings: IndexSettings) -> Store:
    return SqliteStore.of_url(url, settings.max_bucket)


def _redis(url: str, settings: IndexSettings) -> Store:
    return RedisStore(url, settings.max_bucket, _expected(settings))


def _postgres(url: str, settings: IndexSettings) -> Store:
    return PostgresStore(url, settings.max_bucket)


def _aerospike(url: str, settings: IndexSettings) -> Store:
    times = (settings.record_ttl, settings.bucket_ttl)
    return AerospikeStore(Records.open(url), settings.max_bucket, _expected(settings), *times)


def _expected(settings: IndexSettings) -> int:
    """Postings, about."""
    return settings.documents * (settings.bands or USUAL_BANDS)


SCHEMES: dict[str, Callable[[str, IndexSettings], Store]] = {
    "memory": _memory,
    "sqlite": _sqlite,
    "redis": _redis,
    "rediss": _redis,
    "postgresql": _postgres,
    "postgres": _postgres,
    "aerospike": _aerospike,
}


def open_store(url: str | Sequence[str], settings: IndexSettings) -> Store:
    """The store that a URL, or a list of them, names.

    Raises:
        UsageError: There is no such kind of store.
        StoreError: It cannot be reached.
    """
    if not isinstance(url, str):
        return ShardedStore([open_store(one, settings) for one in url])
    scheme = urlsplit(url).scheme
    if scheme not in SCHEMES:
        known = ", ".join(f"{name}://" for name in SCHEMES)
        raise UsageError(f"{scheme or url[:40]!r} names no kind of store; there are {known}")
    if settings.max_memory is not None and scheme != "memory":
        raise UsageError(f"max_memory={settings.max_memory} bounds memory://; {scheme}:// keeps its documents elsewhere")
    return SCHEMES[scheme](url, settings)
