"""Clients of `nearkin serve`. They need the extra `client`."""

from importlib import import_module

from nearkin.errors import MissingExtraError

for library in ("httpx", "tenacity"):
    try:
        import_module(library)
    except ImportError as error:
        raise MissingExtraError(
            f"the client requires httpx and tenacity: pip install 'nearkin[client]' ({library})"
        ) from error
