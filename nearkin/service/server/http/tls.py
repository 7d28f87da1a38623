"""TLS handshakes within the limits on connections."""

import asyncio
import os
import socket
import ssl
from asyncio import Transport
from typing import Any

import uvicorn

from nearkin.service.server.http.connections import LimitedConnection


class TlsConfig(uvicorn.Config):
    """A uvicorn configuration whose connections start TLS themselves (`TlsHandshake`).

    The event loop would allow a minute for each handshake, and would not count it.

    Attributes:
        tls: SSL context with the certificate and the key, or None without TLS.
    """

    tls: ssl.SSLContext | None = None

    def load(self) -> None:
        """Loads the configuration, and takes the SSL context away from the event loop."""
        super().load()
        self.tls = self.ssl
        self.ssl = None


class TlsHandshake(asyncio.Protocol):
    """A connection whose TLS handshake is under way.

    A TlsConnection replaces it when the handshake is complete.

    uvicorn creates it in place of its own protocol class.
    """

    def __init__(
        self,
        config: TlsConfig,
        server_state: Any,
        app_state: dict[str, object],
        _loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        self._config = config
        self._loop = _loop or asyncio.get_running_loop()
        self._state = server_state
        self._app_state = app_state
        self._limits = LimitedConnection.limits
        self._origin: str | None = None
        self._handshake: asyncio.Task[None] | None = None

    def connection_made(self, transport: Transport) -> None:  # type: ignore[override]
        """Starts the handshake, or closes the connection if there are too many."""
        origin = self._limits.counted_origin(transport.get_extra_info("peername"))
        if not self._limits.has_room(origin, len(self._state.connections)):
            transport.close()
            return
        try:
            # `start_tls` would lose bytes that uvloop has read already. A new transport, which
            # starts with TLS, takes over the socket.
            connection = socket.socket(fileno=os.dup(transport.get_extra_info("socket").fileno()))
        except OSError:
            # the process has too many open files
            transport.close()
            return
        connection.settimeout(0.0)
        transport.abort()
        self._origin = origin
        self._limits.count(origin)
        self._limits.handshakes.add(self)
        self._handshake = self._loop.create_task(self._run_handshake(connection))

    def uncount(self) -> None:
        """Stops counting this connection as a handshake."""
        if self in self._limits.handshakes:
            self._limits.handshakes.remove(self)
            self._limits.uncount(self._origin)

    async def _run_handshake(self, connection: socket.socket) -> None:
        try:
            await self._loop.connect_accepted_socket(
                self._create_connection,
                connection,
                ssl=self._config.tls,
                ssl_handshake_timeout=self._limits.head_timeout,
                ssl_shutdown_timeout=self._limits.head_timeout,
            )
        except OSError:
            # the client does not use TLS, rejects the certificate, was too slow, or disconnected
            connection.close()
        finally:
            self.uncount()

    def _create_connection(self) -> "TlsConnection":
        return TlsConnection(self, self._config, self._state, self._app_state, self._loop)


class TlsConnection(LimitedConnection):
    """A connection over TLS whose handshake is complete."""

    def __init__(self, handshake: TlsHandshake, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._handshake = handshake

    def connection_made(self, transport: Transport) -> None:  # type: ignore[override]
        """Counts the connection instead of its handshake."""
        self._handshake.uncount()
        super().connection_made(transport)
