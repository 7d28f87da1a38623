"""Serving: one process, or several over a shared store."""

import os
import tempfile

import uvicorn

from nearkin.errors import NearkinError
from nearkin.server.app import SHARED, create_app, prepare_process, require_tokens
from nearkin.server.connections import BoundedConnection
from nearkin.server.opening import Parts, require_protection
from nearkin.server.settings import ServerSettings

GRACE = 30
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
    tokens, _ = require_tokens(settings)
    # here, so that what is wrong is one sentence; and before workers start, so that one process makes key and header
    parts = Parts.opened(settings)
    try:
        require_protection(parts.index, tokens, settings)
    except NearkinError:
        parts.close()
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
        "timeout_graceful_shutdown": GRACE,
        "http": BoundedConnection,
        "ws": "none",
        "ssl_certfile": settings.tls_cert,
        "ssl_keyfile": settings.tls_key,
    }
    if settings.workers == 1:
        uvicorn.run(create_app(settings, parts), **options)  # type: ignore[arg-type]
        return
    parts.close()
    with tempfile.TemporaryDirectory(prefix="nearkin-") as shared:
        os.environ.update({**settings.as_environment(), SHARED: shared})
        uvicorn.run("nearkin.server.app:from_environment", factory=True, workers=settings.workers, **options)  # type: ignore[arg-type]
