"""Serving: one process, or several over a shared store."""

import os
import ssl
import sys
import tempfile
from contextlib import suppress

import uvicorn
from uvicorn.config import STARTUP_FAILURE
from uvicorn.supervisors import Multiprocess

from nearkin.errors import NearkinError, UsageError
from nearkin.server.app import SHARED, create_app, prepare_process, require_tokens
from nearkin.server.http.connections import LimitedConnection, TlsConfig, TlsHandshake
from nearkin.server.resources import ServerResources, require_protection
from nearkin.server.settings import ServerSettings

SHUTDOWN_GRACE = 30
"""Seconds that accepted work has when the server is told to end."""
KEEP_ALIVE = 30


def serve(settings: ServerSettings) -> None:
    """Until a signal ends it.

    Raises:
        UsageError: It would listen beyond this machine without tokens, or cannot listen there.
    """
    # what it writes (the store, the key, tokens) is its owner's alone
    os.umask(0o077)
    prepare_process(settings)
    require_certificate(settings)
    tokens, _ = require_tokens(settings)
    # here, so that what is wrong is one sentence; and before workers start, so that one process makes key and header
    resources = ServerResources.open(settings)
    try:
        require_protection(resources.index, tokens, settings)
    except NearkinError:
        resources.close()
        raise
    options = {
        "host": settings.host,
        "port": settings.port,
        "log_config": None,
        "access_log": False,
        "server_header": False,
        "proxy_headers": True,
        "forwarded_allow_ips": settings.trusted_proxies,
        "timeout_keep_alive": KEEP_ALIVE,
        "timeout_graceful_shutdown": SHUTDOWN_GRACE,
        "http": LimitedConnection if settings.tls_cert is None else TlsHandshake,
        "ws": "none",
        "ssl_certfile": settings.tls_cert,
        "ssl_keyfile": settings.tls_key,
    }
    if settings.workers == 1:
        run_server(TlsConfig(create_app(settings, resources), **options))  # type: ignore[arg-type]
        return
    resources.close()
    with tempfile.TemporaryDirectory(prefix="nearkin-") as shared:
        os.environ.update({**settings.as_environment(), SHARED: shared})
        run_server(TlsConfig("nearkin.server.app:from_environment", factory=True, workers=settings.workers, **options))  # type: ignore[arg-type]


def require_certificate(settings: ServerSettings) -> None:
    """Requires that the certificate and the key of TLS, if any, can be used.

    Raises:
        UsageError: If they cannot be read or do not belong together.
    """
    if settings.tls_cert is None:
        return
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(settings.tls_cert, settings.tls_key)
    except OSError as error:
        raise UsageError(
            f"cannot use the certificate {settings.tls_cert} with the key {settings.tls_key}: {error.strerror or error}; both "
            "must be readable PEM files that belong together, and the key must have no password"
        ) from error


def run_server(config: TlsConfig) -> None:
    """Serves until a signal ends it, as `uvicorn.run` does with a configuration of its own.

    Args:
        config: The application, and how it is served.
    """
    if config.workers > 1:
        Multiprocess(config, sockets=[config.bind_socket()]).run()
        return
    server = uvicorn.Server(config)
    with suppress(KeyboardInterrupt):
        server.run()
    if not server.started:
        sys.exit(STARTUP_FAILURE)
