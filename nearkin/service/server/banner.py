"""The facts that a server prints or logs when it starts: where it is, and who may enter."""

from collections.abc import Mapping

from nearkin.index.stores.urls import recorded_url
from nearkin.service.server.http.tokens import TokenFile
from nearkin.service.server.settings import ServerSettings


def describe_server(
    settings: ServerSettings, port: int, tokens: TokenFile, *, is_open: bool, has_console: bool
) -> dict[str, str]:
    """Returns the addresses, the store, the retention and the access rules of a server."""
    scheme = "http" if settings.tls_cert is None else "https"
    host = f"[{settings.host}]" if ":" in settings.host else settings.host
    address = f"{scheme}://{host}:{port}"
    stores = ", ".join(recorded_url(url) for url in settings.urls)
    if is_open and settings.is_local:
        access = "everybody on this machine; create a token with nearkin server token create NAME"
    elif is_open:
        access = "everybody who reaches the address, because of --allow-anonymous"
    else:
        access = f"holders of one of {len(tokens)} tokens in {tokens.path}"
    if settings.is_in_memory:
        stores += " (documents are lost when the server stops)"
    return {
        "address": address,
        "console": f"{address}/console/" if has_console else "not served",
        "API docs": f"{address}/docs",
        "store": stores,
        "retention": settings.index_settings().retention,
        "access": access,
    }


def format_banner(facts: Mapping[str, str]) -> str:
    """Returns the facts of a server as the text that it prints on a terminal."""
    lines = [f"  {name:<9} {value}" for name, value in facts.items()]
    return "\n".join(["nearkin serves until Ctrl+C", *lines])
