"""`nearkin mcp`."""

from pathlib import Path

from nearkin.cli import options as o
from nearkin.cli.imports import file_imports
from nearkin.cli.option_groups import with_option_groups
from nearkin.runtime.number_range import NumberRange
from nearkin.settings.setting import INPUT, RUN, setting

LOOPBACK = ("127.0.0.1", "::1", "localhost")
"""The addresses at which the MCP SDK compares the headers Host and Origin of each request."""


@with_option_groups
def mcp(
    *,
    store: str | None = setting(None, "URL of the index that agents search.", INPUT, metavar="URL"),
    scope: str = setting("default", "Scope of the index that agents search.", INPUT),
    run: Path | None = setting(
        None, "Output folder of a run that agents read.", INPUT, metavar="DIR"
    ),
    allow_write: bool = setting(False, "Let agents store documents in the scope.", RUN),
    http: int | None = setting(
        None,
        "Serve HTTP on this port of the host, instead of standard input and output.",
        RUN,
        metavar="PORT",
        range=NumberRange(1, 65535),
    ),
    host: str = setting("127.0.0.1", "Loopback address for --http.", RUN),
    key_file: str | None = None,
) -> None:
    """Let agents search an index or read a finished run.

    They do so over the Model Context Protocol. They cannot change anything unless --allow-write is given. They see one scope of the index, and ids and similarities instead of texts.

    Examples:
        nearkin mcp --store sqlite:///kin.db --scope news

        nearkin mcp --run deduped/ --http 8081
    """  # noqa: E501
    with file_imports():
        from contextlib import ExitStack

        from nearkin.index.index import Index
        from nearkin.service.mcp_server import AgentAccess, make_server
        from nearkin.stages.sketch.resources import SpecResources

    _require_loopback(host)
    secret = o.read_key(key_file)
    with ExitStack() as stack:
        index = None
        if store is not None:
            index = stack.enter_context(
                Index.open(store, resources=SpecResources(secret), must_exist=True)
            )
        server = make_server(AgentAccess(index, scope, run, allow_write, secret))
        if http is None:
            server.run("stdio")
        else:
            _require_free_port(host, http)
            server.run("streamable-http", host=host, port=http)


def _require_loopback(host: str) -> None:
    """Requires an address of this machine, because the server has no tokens.

    Pages of other sites in a local browser are refused at these addresses alone.
    """
    from nearkin.errors import UsageError

    if host not in LOOPBACK:
        raise UsageError(
            f"--host {host} is not {', '.join(LOOPBACK[:-1])} or {LOOPBACK[-1]}, and this server "
            "asks nobody for a token; use 127.0.0.1, behind a proxy with authentication if other "
            "machines need it"
        )


def _require_free_port(host: str, port: int) -> None:
    """Requires a port that no other program uses and that this user may use."""
    import socket

    from nearkin.errors import UsageError

    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        socket.create_server((host, port), family=family).close()
    except OSError as error:
        raise UsageError(
            f"cannot listen on port {port} of {host}: {error.strerror}; choose another --http"
        ) from error
