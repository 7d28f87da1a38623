"""The stores by the scheme of their URL, and URLs that are recorded without passwords."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from importlib.metadata import entry_points
from pathlib import Path
from typing import Protocol, TypeAlias
from urllib.parse import SplitResult, parse_qsl, quote, unquote, urlencode, urlsplit

from nearkin.errors import MissingIndexError, UsageError
from nearkin.index.settings import IndexSettings
from nearkin.index.stores.addresses import (
    MEMORY_URL,
    SECRET,
    join_url,
    require_known_options,
    without_password,
)
from nearkin.index.stores.base import Store
from nearkin.runtime.setting_names import name_setting
from nearkin.runtime.suggestions import did_you_mean

USUAL_BANDS = 20
"""The number of bands that is assumed if the settings do not give it."""
BOUNDED = ("memory", "sqlite")
"""The schemes of stores that hold documents or buckets in the memory of the process."""
ONE_PORT = ("redis", "rediss", "aerospike")
"""The schemes whose URLs have one host. The driver of PostgreSQL parses its own URLs."""
SERVERS = (*ONE_PORT, "postgresql", "postgres")
"""The schemes whose URLs may have a password."""


# a store's module is imported when its scheme is opened


def _open_memory(url: str, settings: IndexSettings, *, must_exist: bool) -> Store:
    from nearkin.index.stores.memory import MemoryStore

    require_known_options(dict(parse_qsl(urlsplit(url).query)), [], MEMORY_URL)
    if must_exist:
        raise MissingIndexError(
            f"there is no index at {MEMORY_URL}: it ends with the process that has it"
        )
    return MemoryStore(settings.bucket_capacity, settings.max_store_memory)


def _open_sqlite(url: str, settings: IndexSettings, *, must_exist: bool) -> Store:
    from nearkin.index.stores.sqlite import SqliteStore

    return SqliteStore.of_url(
        url, settings.bucket_capacity, settings.max_store_memory, must_exist=must_exist
    )


def _open_redis(url: str, settings: IndexSettings, *, must_exist: bool) -> Store:
    from nearkin.index.stores.redis import RedisStore

    return RedisStore(
        url, settings.bucket_capacity, _expect_postings(settings), must_exist=must_exist
    )


def _open_postgres(url: str, settings: IndexSettings, *, must_exist: bool) -> Store:
    from nearkin.index.stores.postgres import PostgresStore

    return PostgresStore(url, settings.bucket_capacity, must_exist=must_exist)


def _open_aerospike(url: str, settings: IndexSettings, *, must_exist: bool) -> Store:
    from nearkin.index.stores.aerospike import AerospikeStore
    from nearkin.index.stores.aerospike_records import Records

    records = Records.open(url)
    try:
        return AerospikeStore(
            records,
            settings.bucket_capacity,
            _expect_postings(settings),
            record_ttl=settings.record_ttl,
            bucket_ttl=settings.bucket_ttl,
            must_exist=must_exist,
        )
    except BaseException:
        records.close()
        raise


def _expect_postings(settings: IndexSettings) -> int:
    """Returns the approximate number of postings of the index."""
    return settings.documents * (settings.bands or USUAL_BANDS)


StoreOpener: TypeAlias = Callable[[str, IndexSettings], Store]
"""A function of another package that opens a store by its URL and the settings of the index."""


class SchemeOpener(Protocol):
    """A function that opens the stores of a scheme of nearkin."""

    def __call__(self, url: str, settings: IndexSettings, *, must_exist: bool) -> Store:
        """Opens a store."""


STORE_GROUP = "nearkin.stores"
"""The group of entry points by which other packages add schemes. Own schemes come first."""
SCHEMES: dict[str, SchemeOpener] = {
    "memory": _open_memory,
    "sqlite": _open_sqlite,
    "redis": _open_redis,
    "rediss": _open_redis,
    "postgresql": _open_postgres,
    "postgres": _open_postgres,
    "aerospike": _open_aerospike,
}


def open_store(
    url: str | Sequence[str], settings: IndexSettings, *, must_exist: bool = False
) -> Store:
    """Opens a store."""
    if not isinstance(url, str):
        if settings.max_memory is not None and len(url) > 1:
            raise UsageError(
                f"{name_setting('max_memory', settings.max_memory)} applies to one store, not to "
                f"{len(url)} shards; "
                "remove the setting"
            )
        shards = _open_shards(url, settings, must_exist=must_exist)
        if len(shards) == 1:
            return shards[0]
        from nearkin.index.stores.sharded import ShardedStore

        return ShardedStore(shards)
    scheme = scheme_of(url)
    opener = SCHEMES.get(scheme)
    registered_opener = None if opener is not None else _registered_opener(scheme)
    if opener is None and registered_opener is None:
        registered = [entry_point.name for entry_point in entry_points(group=STORE_GROUP)]
        known = ", ".join(f"{name}://" for name in (*SCHEMES, *sorted(registered)))
        # the place of a password in a URL without a scheme is unknown
        named = repr(scheme or url[:40]) if "@" not in url or scheme else "a URL without a scheme"
        suggestion = did_you_mean(scheme, (*SCHEMES, *registered)) if scheme else ""
        raise UsageError(f"unknown kind of store {named}; valid kinds are {known}{suggestion}")
    if settings.max_memory is not None and scheme not in BOUNDED:
        raise UsageError(
            f"{name_setting('max_memory', settings.max_memory)} applies to memory:// and "
            f"sqlite:// only; a server "
            f"holds the index of {scheme}://; remove the setting, and bound the server"
        )
    if opener is not None:
        return opener(url, settings, must_exist=must_exist)
    assert registered_opener is not None
    return registered_opener(url, settings)


def _open_shards(urls: Sequence[str], settings: IndexSettings, *, must_exist: bool) -> list[Store]:
    """Opens the shards of an index. If one cannot be opened, those before it are closed."""
    shards: list[Store] = []
    try:
        for url in urls:
            shards.append(open_store(url, settings, must_exist=must_exist))
    except BaseException:
        for shard in shards:
            shard.close()
        raise
    return shards


def is_store_url(text: str) -> bool:
    """Returns whether a text is the URL of a kind of store, and not that of a file.

    Examples:
        >>> is_store_url("redis://db/0"), is_store_url("https://example.org/docs.parquet")
        (True, False)
    """
    scheme, separator, _ = text.partition("://")
    if not separator:
        return False
    return scheme in SCHEMES or bool(entry_points(group=STORE_GROUP, name=scheme))


def local_file_of(url: str) -> Path | None:
    """Returns the file on this machine that holds a store, or None if it is not a file."""
    if scheme_of(url) != "sqlite":
        return None
    from nearkin.index.stores.sqlite import file_of

    return file_of(url)


def without_inapplicable_bound(settings: IndexSettings, urls: Sequence[str]) -> IndexSettings:
    """Returns settings without `max_memory` if it does not apply to the store of some URLs."""
    if len(urls) == 1 and scheme_of(urls[0]) in BOUNDED:
        return settings
    return replace(settings, max_memory=None)


def _registered_opener(scheme: str) -> StoreOpener | None:
    """Returns the function that opens stores of a scheme of another package, or None."""
    for entry_point in entry_points(group=STORE_GROUP, name=scheme):
        try:
            opener: StoreOpener = entry_point.load()
        except (ImportError, AttributeError) as error:
            raise UsageError(
                f"the store {scheme}:// ({entry_point.value}) cannot be loaded: {error}; install "
                "or repair its package"
            ) from error
        return opener
    return None


def scheme_of(url: str) -> str:
    """Returns the scheme of a URL; an empty one if it has none."""
    try:
        parts = urlsplit(url)
        if parts.scheme in ONE_PORT:
            _ = parts.port
    except ValueError:
        raise _invalid_url(url) from None
    # a driver would take the password for another part of the URL, and name that part in errors
    behind_host = "".join(parts[2:])
    if parts.scheme in SERVERS and ("@" in behind_host or parts.netloc.count("@") > 1):
        raise _invalid_url(url)
    return parts.scheme


def _invalid_url(url: str) -> UsageError:
    """Returns the error for a URL of a store, without the URL: it may hold a password anywhere."""
    return UsageError(
        f"the URL of the store of kind {url.partition(':')[0]!r} is not valid: the port is not a "
        "number, brackets are missing, or a name or a password has special characters; write "
        "@ : / ? # [ ] % and blanks of a password as % and two hexadecimal digits"
    )


def recorded_url(url: str) -> str:
    """Returns a URL as it is recorded for other processes.

    The recorded URL has no password, and the absolute path of a file.

    Examples:
        >>> recorded_url("postgresql://nearkin:secret@db/kin?schema=next&password=secret")
        'postgresql://nearkin@db/kin?schema=next'
        >>> recorded_url("sqlite:////data/next.db?synchronous=normal")
        'sqlite:////data/next.db?synchronous=normal'
    """
    scheme_of(url)
    parts = urlsplit(url)
    if parts.scheme == "sqlite":
        path = quote(str(Path(unquote(parts.path.removeprefix("/"))).resolve()))
        return join_url(parts._replace(path=f"/{path}"))
    return without_password(url)


def with_passwords(urls: Sequence[str], known: Sequence[str]) -> tuple[str, ...]:
    """Adds passwords to recorded URLs.

    A URL without a known password is returned unchanged. Its driver may find the password itself,
    for example in PGPASSWORD or .pgpass.

    Examples:
        >>> with_passwords(["redis://db/1", "redis://other/1"], ["redis://:secret@db/0"])
        ('redis://:secret@db/1', 'redis://other/1')
    """
    by_server = {_server_of_url(parts): parts for parts in map(urlsplit, known)}
    return tuple(
        _with_password(urlsplit(url), by_server.get(_server_of_url(urlsplit(url)))) for url in urls
    )


def _server_of_url(parts: SplitResult) -> tuple[str, str, str]:
    """Returns the scheme, the hosts with their ports, and the user."""
    user, _, host = parts.netloc.rpartition("@")
    return parts.scheme, host, user.partition(":")[0]


def _with_password(parts: SplitResult, known: SplitResult | None) -> str:
    if known is None:
        return join_url(parts)
    secret = [(name, value) for name, value in parse_qsl(known.query) if name in SECRET]
    return join_url(
        parts._replace(netloc=known.netloc, query=urlencode([*parse_qsl(parts.query), *secret]))
    )
