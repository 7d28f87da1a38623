"""Running a server in one process, or in several processes that share a store."""

import os
import ssl
import sys
import tempfile
from contextlib import suppress
from functools import partial

import uvicorn
from uvicorn.config import STARTUP_FAILURE
from uvicorn.supervisors import Multiprocess

from nearkin.errors import NearkinError, UsageError
from nearkin.server.app import SHARED_FOLDER, create_app, prepare_process, read_tokens
from nearkin.server.http.connections import LimitedConnection
from nearkin.server.http.tls import TlsConfig, TlsHandshake
from nearkin.server.resources import ServerResources, require_protection
from nearkin.server.settings import ServerSettings

SHUTDOWN_GRACE = 30
"""Seconds that accepted requests have to complete after the server received the signal to stop."""
KEEP_ALIVE = 30
"""Seconds after which an idle connection is closed."""


def serve(settings: ServerSettings) -> None:
    """Runs a server until a signal stops it.

    Raises:
        UsageError: If other machines could reach the server without a token, or if it cannot listen
            on its address.
    """
    # Only their owner can read the files that the server creates (store, key, tokens).
    os.umask(0o077)
    prepare_process(settings)
    require_certificate(settings)
    tokens, _ = read_tokens(settings)
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
    if settings.workers == 1:
        run_server(make_config(create_app(settings, resources)))
        return
    resources.close()
    with tempfile.TemporaryDirectory(prefix="nearkin-") as shared_folder:
        os.environ.update(settings.as_environment())
        os.environ[SHARED_FOLDER] = shared_folder
        app = "nearkin.server.app:create_worker_app"
        run_server(make_config(app, factory=True, workers=settings.workers))


def require_certificate(settings: ServerSettings) -> None:
    """Requires that the TLS certificate and key, if any, can be used.

    Raises:
        UsageError: If they cannot be read or do not belong together.
    """
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


def run_server(config: TlsConfig) -> None:
    """Runs uvicorn until a signal stops it, like `uvicorn.run` but with a given configuration.

    Args:
        config: The application, and the options of uvicorn.
    """
    if config.workers > 1:
        Multiprocess(config, sockets=[config.bind_socket()]).run()
        return
    server = uvicorn.Server(config)
    with suppress(KeyboardInterrupt):
        server.run()
    if not server.started:
        sys.exit(STARTUP_FAILURE)
