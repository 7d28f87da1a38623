"""The store behind a URL."""

from collections.abc import Callable, Sequence
from urllib.parse import urlsplit

from nearkin.errors import UsageError
from nearkin.index.settings import IndexSettings
from nearkin.index.store import Store
from nearkin.index.stores.memory import MemoryStore
from nearkin.index.stores.sqlite import SqliteStore


def _memory(url: str, settings: IndexSettings) -> Store:
    return MemoryStore(settings.max_bucket)


def _sqlite(url: str, settings: IndexSettings) -> Store:
    return SqliteStore.of_url(url, settings.max_bucket)


SCHEMES: dict[str, Callable[[str, IndexSettings], Store]] = {"memory": _memory, "sqlite": _sqlite}


def open_store(url: str | Sequence[str], settings: IndexSettings) -> Store:
    """The store that a URL, or a list of them, names.

    Raises:
        UsageError: There is no such kind of store.
        StoreError: It cannot be reached.
    """
    if not isinstance(url, str):
        raise UsageError("one URL, for now")
    scheme = urlsplit(url).scheme
    if scheme not in SCHEMES:
        raise UsageError(f"{url!r} is the URL of no store; there are {', '.join(f'{name}://' for name in SCHEMES)}")
    return SCHEMES[scheme](url, settings)
