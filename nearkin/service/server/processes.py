"""Running a server in one process, or in several processes that share a store."""

import errno
import logging
import os
import socket
import ssl
import sys
from contextlib import suppress
from functools import partial
from importlib.util import find_spec

import uvicorn
from uvicorn.config import STARTUP_FAILURE
from uvicorn.supervisors import Multiprocess

from nearkin.errors import NearkinError, UsageError
from nearkin.runtime.temporary_folder import TemporaryFolder
from nearkin.service.server.app import SHARED_FOLDER, create_app, prepare_process, read_tokens
from nearkin.service.server.banner import describe_server, format_banner
from nearkin.service.server.http.connections import LimitedConnection
from nearkin.service.server.http.tls import TlsConfig, TlsHandshake
from nearkin.service.server.http.tokens import TokenFile
from nearkin.service.server.resources import ServerResources, require_protection
from nearkin.service.server.settings import ServerSettings

log = logging.getLogger("nearkin.server")

SHUTDOWN_GRACE = 30
"""Seconds that accepted requests have to complete after the server received the signal to stop."""
KEEP_ALIVE = 30
"""Seconds after which an idle connection is closed."""


def serve(settings: ServerSettings) -> None:
    """Runs a server until a signal stops it."""
    # Only their owner can read the files that the server creates (store, key, tokens).
    os.umask(0o077)
    prepare_process(settings)
    require_certificate(settings)
    tokens, allow_anonymous = read_tokens(settings)
    sockets = bind_sockets(settings.host, settings.port)
    try:
        _serve(settings, tokens, sockets, allow_anonymous=allow_anonymous)
    finally:
        for listener in sockets:
            listener.close()


def _serve(
    settings: ServerSettings,
    tokens: TokenFile,
    sockets: list[socket.socket],
    *,
    allow_anonymous: bool,
) -> None:
    # Opened here, so that errors are reported as one sentence, and before workers start, so that
    # one process creates the key.
    resources = ServerResources.open(settings)
    try:
        require_protection(resources.index, tokens, settings)
    except NearkinError:
        resources.close()
        raise
    protocol = LimitedConnection if settings.tls_cert is None else TlsHandshake
    make_config = partial(
        TlsConfig,
        host=settings.host,
        port=settings.port,
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=True,
        forwarded_allow_ips=settings.trusted_proxies,
        timeout_keep_alive=KEEP_ALIVE,
        timeout_graceful_shutdown=SHUTDOWN_GRACE,
        http=protocol,
        ws="none",
        ssl_certfile=settings.tls_cert,
        ssl_keyfile=settings.tls_key,
    )
    facts = describe_server(
        settings,
        sockets[0].getsockname()[1],
        tokens,
        is_open=allow_anonymous and not tokens.is_protected,
        has_console=settings.console and find_spec("itsdangerous") is not None,
    )
    if sys.stdout.isatty():
        sys.stdout.write(f"{format_banner(facts)}\n")
        sys.stdout.flush()
    else:
        fields = {name.lower().replace(" ", "_"): value for name, value in facts.items()}
        log.info("listening", extra=fields)
    if settings.workers == 1:
        run_server(make_config(create_app(settings, resources)), sockets)
        return
    resources.close()
    with TemporaryFolder() as shared_folder:
        os.environ.update(settings.as_environment())
        os.environ[SHARED_FOLDER] = str(shared_folder)
        app = "nearkin.service.server.app:create_worker_app"
        run_server(make_config(app, factory=True, workers=settings.workers), sockets)


def bind_sockets(host: str, port: int) -> list[socket.socket]:
    """Returns sockets that are bound to all addresses of a host."""
    try:
        addresses = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except OSError as error:
        raise UsageError(
            f"cannot listen on {host!r}: {error.strerror or error}; pass an address of this "
            "machine with --host"
        ) from error
    sockets: list[socket.socket] = []
    failure: OSError | None = None
    for family, _, _, _, address in dict.fromkeys(addresses):
        listener = None
        try:
            listener = socket.socket(family, socket.SOCK_STREAM)
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if family == socket.AF_INET6:
                listener.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            listener.bind((address[0], port, *address[2:]))
        except OSError as error:
            if listener is not None:
                listener.close()
            failure = error
            if error.errno == errno.EADDRINUSE:
                break
            # a name can have an address that this machine does not use, such as ::1
            continue
        listener.set_inheritable(True)
        port = listener.getsockname()[1]
        sockets.append(listener)
    if sockets and (failure is None or failure.errno != errno.EADDRINUSE):
        return sockets
    for listener in sockets:
        listener.close()
    assert failure is not None
    if failure.errno == errno.EADDRINUSE:
        raise UsageError(
            f"port {port} of {host} is used by another program; stop it, or pass another --port "
            "(0 chooses a free one)"
        )
    raise UsageError(f"cannot listen on port {port} of {host}: {failure.strerror}")


def require_certificate(settings: ServerSettings) -> None:
    """Requires that the TLS certificate and key, if any, can be used."""
    if settings.tls_cert is None:
        return
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(settings.tls_cert, settings.tls_key)
    except OSError as error:
        raise UsageError(
            f"cannot use the certificate {settings.tls_cert} with the key {settings.tls_key}: "
            f"{error.strerror or error}; both "
            "must be readable PEM files that belong together, and the key must have no password"
        ) from error


def run_server(config: TlsConfig, sockets: list[socket.socket]) -> None:
    """Runs uvicorn until a signal stops it, like `uvicorn.run` but with a given configuration."""
    if config.workers > 1:
        Multiprocess(config, sockets=sockets).run()
        return
    server = uvicorn.Server(config)
    with suppress(KeyboardInterrupt):
        server.run(sockets=sockets)
    if not server.started:
        sys.exit(STARTUP_FAILURE)
