"""Clients of `nearkin serve`. They need the extra `client`."""

from importlib import import_module

from nearkin.errors import MissingExtraError

for library in ("httpx2", "tenacity"):
    try:
        import_module(library)
    except ImportError as error:
        raise MissingExtraError.for_extra(f"the client requires {library}", "client") from error
