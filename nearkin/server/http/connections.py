"""Bounds on connections: how many there are, how long and how large the head of a request is, how long answers stay unread.

Requests have bounds of their own (see guard.py). These concern what a client can send before a request is complete, including
the handshake of TLS.
"""

import asyncio
import ipaddress
import os
import socket
import ssl
from asyncio import Transport
from asyncio.events import TimerHandle
from collections import Counter
from dataclasses import dataclass, field
from functools import partial
from typing import Any, ClassVar

import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

from nearkin.server.http.shares import client_network
from nearkin.server.settings import ServerSettings

MAX_PIPELINED_REQUESTS = 8
"""Requests that a connection may send before earlier ones are answered."""


@dataclass(frozen=True)
class ConnectionLimits:
    """The bounds of a connection.

    Attributes:
        head_timeout: Seconds in which the head of a request must be complete, and before it the handshake of TLS.
        max_head: Bytes of the head of a request, and of trailers after its body.
        connections: Maximum number of connections of this process.
        source_connections: Maximum number of connections of one address or /64 network.
        unread_timeout: Seconds after which a connection is closed that does not read its answers.
        refused_timeout: Seconds in which the rest of a body must come whose request was answered before it was complete.
        max_refused: Maximum bytes of such a rest. They are not kept.
        trusted: Addresses of proxies, whose connections are not counted by address.
        counts: Open connections by address, handshakes of TLS included.
        handshakes: Connections whose handshake of TLS is not complete.
    """

    head_timeout: float = 10.0
    max_head: int = 65_536
    connections: int = 4096
    source_connections: int = 256
    unread_timeout: float = 60.0
    refused_timeout: float = 30.0
    max_refused: int = 16_000_000
    trusted: str = "127.0.0.1"
    counts: Counter[str] = field(default_factory=Counter)
    handshakes: "set[TlsHandshake]" = field(default_factory=set)

    @classmethod
    def of(cls, settings: ServerSettings) -> "ConnectionLimits":
        """Returns the bounds that the settings of a server say."""
        return cls(
            head_timeout=settings.head_timeout,
            max_head=settings.max_head,
            connections=settings.connections,
            source_connections=settings.source_connections,
            unread_timeout=settings.idle_timeout,
            refused_timeout=settings.timeout,
            max_refused=settings.max_body,
            trusted=settings.trusted_proxies,
        )

    def trusts(self, address: str) -> bool:
        """Returns whether an address is that of a proxy, behind which there are many clients."""
        for known in self.trusted.split(","):
            if known.strip() in ("*", address):
                return True
            try:
                if ipaddress.ip_address(address) in ipaddress.ip_network(known.strip(), strict=False):
                    return True
            except ValueError:
                continue
        return False

    def origin_of(self, client: tuple[Any, ...] | None) -> str | None:
        """Returns the address or network by which a connection is counted; None for proxies and sockets without an address.

        Args:
            client: The address of the other side as a socket has it: the host comes first.
        """
        if not client or self.trusts(str(client[0])):
            return None
        return client_network(str(client[0]))

    def has_room(self, origin: str | None, others: int) -> bool:
        """Returns whether one more connection may be opened.

        Args:
            origin: The result of `origin_of`.
            others: Number of other connections whose handshake, if any, is complete.
        """
        if others + len(self.handshakes) >= self.connections:
            return False
        return origin is None or self.counts[origin] < self.source_connections

    def count(self, origin: str | None) -> None:
        """Counts a connection that was opened."""
        if origin is not None:
            self.counts[origin] += 1

    def discount(self, origin: str | None) -> None:
        """Takes back `count` for a connection that is closed."""
        if origin is not None:
            self.counts[origin] -= 1
            if not self.counts[origin]:
                del self.counts[origin]


class LimitedConnection(HttpToolsProtocol):
    """A connection of uvicorn that keeps to the bounds of the process."""

    bounds: ClassVar[ConnectionLimits] = ConnectionLimits()

    def connection_made(self, transport: Transport) -> None:  # type: ignore[override]
        """Closes the connection at once if there are too many."""
        super().connection_made(transport)
        self._head_timer: TimerHandle | None = None
        self._unread_timer: TimerHandle | None = None
        self._refused_timer: TimerHandle | None = None
        self._refused_size = 0
        self._awaits_head = True
        self._only_head = True
        self._head_size = 0
        self._named_size = 0
        self._origin: str | None = None
        bounds = self.bounds
        origin = bounds.origin_of(self.client)
        # this connection is among the open ones already
        if not bounds.has_room(origin, len(self.connections) - 1):
            transport.close()
            return
        bounds.count(origin)
        self._origin = origin
        self._start_head()

    def connection_lost(self, exc: Exception | None) -> None:
        """Forgets the connection."""
        for timer in (self._head_timer, self._unread_timer, self._refused_timer):
            if timer is not None:
                timer.cancel()
        self._head_timer = None
        self._unread_timer = None
        self._refused_timer = None
        self.bounds.discount(self._origin)
        self._origin = None
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Counts the bytes of a head until it is complete, whatever they are."""
        # nothing is counted of a chunk in which a head ends: how much of it belongs to the next head is not known
        self._only_head = self._awaits_head
        super().data_received(data)
        if not self._only_head or self.transport.is_closing():
            return
        self._start_head()
        self._head_size += len(data)
        if self._head_size > self.bounds.max_head:
            self.send_400_response(f"The head of the request has more than {self.bounds.max_head} bytes.")

    def on_message_begin(self) -> None:
        """A head has begun."""
        super().on_message_begin()
        self._named_size = 0

    def on_url(self, url: bytes) -> None:
        """Counts the bytes of the address."""
        self._count(len(url))
        super().on_url(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        """Counts the bytes of a header or a trailer."""
        self._count(len(name) + len(value))
        super().on_header(name, value)

    def on_headers_complete(self) -> None:
        """Ends the time of the head."""
        self._awaits_head = False
        self._only_head = False
        self._head_size = 0
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None
        if len(self.pipeline) >= MAX_PIPELINED_REQUESTS:
            raise ValueError(f"more than {MAX_PIPELINED_REQUESTS} requests wait on one connection")
        super().on_headers_complete()
        self.cycle.scope["state"]["is_lost"] = partial(self._is_lost, self.cycle)

    def on_body(self, body: bytes) -> None:
        """Counts the bytes of a body that nobody reads any more."""
        if self.cycle.response_complete:
            self._refused_size += len(body)
            if self._refused_size > self.bounds.max_refused:
                self.transport.close()
        super().on_body(body)

    def on_response_complete(self) -> None:
        """Starts the time of the rest of a body, if the answer did not wait for it, for example a refusal."""
        super().on_response_complete()
        if self.cycle.response_complete and not self._awaits_head and self._refused_timer is None:
            self._refused_size = 0
            self._refused_timer = self.loop.call_later(self.bounds.refused_timeout, self.transport.close)

    def on_message_complete(self) -> None:
        """Starts the time of the head of the next request."""
        super().on_message_complete()
        self._awaits_head = True
        if self._refused_timer is not None:
            self._refused_timer.cancel()
            self._refused_timer = None

    def pause_writing(self) -> None:
        """Starts the time in which the client must read."""
        super().pause_writing()
        if self._unread_timer is None:
            self._unread_timer = self.loop.call_later(self.bounds.unread_timeout, self.transport.abort)

    def resume_writing(self) -> None:
        """Ends that time."""
        super().resume_writing()
        if self._unread_timer is not None:
            self._unread_timer.cancel()
            self._unread_timer = None

    def _unsupported_upgrade_warning(self) -> None:
        # there is nothing to upgrade to; a stranger must not be able to fill the log with it
        pass

    def _is_lost(self, cycle: RequestResponseCycle) -> bool:
        """Returns whether nothing can be sent any more.

        uvloop closes a connection that the client has reset before it says so, and an answer sent meanwhile is an error.
        """
        if self.transport.is_closing():
            cycle.disconnected = True
        return cycle.disconnected

    def _count(self, size: int) -> None:
        self._named_size += size
        if self._named_size > self.bounds.max_head:
            raise ValueError(f"the head of the request has more than {self.bounds.max_head} bytes")

    def _start_head(self) -> None:
        if self._head_timer is None:
            self._head_timer = self.loop.call_later(self.bounds.head_timeout, self._head_timed_out)

    def _head_timed_out(self) -> None:
        self._head_timer = None
        if self.transport.is_closing():
            return
        if self.flow.read_paused or (self.cycle is not None and not self.cycle.response_complete):
            # the rest of the head may wait behind a request that is being answered
            self._start_head()
        else:
            self.transport.close()


class TlsConfig(uvicorn.Config):
    """A configuration of uvicorn whose connections begin TLS themselves (`TlsHandshake`), so that handshakes have bounds.

    The event loop would give each handshake a minute, and count it nowhere.

    Attributes:
        tls: The certificate and the key.
    """

    tls: ssl.SSLContext | None = None

    def load(self) -> None:
        """Loads the configuration and keeps the event loop from beginning TLS."""
        super().load()
        self.tls = self.ssl
        self.ssl = None


class TlsHandshake(asyncio.Protocol):
    """A connection whose handshake of TLS is under way; a BoundedConnection takes its place when that is complete."""

    def __init__(
        self,
        config: TlsConfig,
        server_state: Any,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        self._config = config
        self._loop = _loop or asyncio.get_running_loop()
        self._state = server_state
        self._app_state = app_state
        self._bounds = LimitedConnection.bounds
        self._origin: str | None = None
        self._handshake: asyncio.Task[None] | None = None

    def connection_made(self, transport: Transport) -> None:  # type: ignore[override]
        """Begins the handshake, unless there are too many connections."""
        origin = self._bounds.origin_of(transport.get_extra_info("peername"))
        if not self._bounds.has_room(origin, len(self._state.connections)):
            transport.close()
            return
        try:
            # `start_tls` would lose what uvloop reads before it: the connection goes on in a transport that begins with TLS
            connection = socket.socket(fileno=os.dup(transport.get_extra_info("socket").fileno()))
        except OSError:
            # there are too many open files
            transport.close()
            return
        connection.setblocking(False)
        transport.abort()
        self._origin = origin
        self._bounds.count(origin)
        self._bounds.handshakes.add(self)
        self._handshake = self._loop.create_task(self._begin(connection))

    def leave(self) -> None:
        """Counts this no longer as a handshake."""
        if self in self._bounds.handshakes:
            self._bounds.handshakes.remove(self)
            self._bounds.discount(self._origin)

    async def _begin(self, connection: socket.socket) -> None:
        try:
            await self._loop.connect_accepted_socket(
                self._secure,
                connection,
                ssl=self._config.tls,
                ssl_handshake_timeout=self._bounds.head_timeout,
                ssl_shutdown_timeout=self._bounds.head_timeout,
            )
        except OSError:
            # the client speaks no TLS, does not accept the certificate, was too slow or has gone
            connection.close()
        finally:
            self.leave()

    def _secure(self) -> "TlsConnection":
        return TlsConnection(self, self._config, self._state, self._app_state, self._loop)


class TlsConnection(LimitedConnection):
    """A connection over TLS."""

    def __init__(self, handshake: TlsHandshake, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._handshake = handshake

    def connection_made(self, transport: Transport) -> None:  # type: ignore[override]
        """Counts the connection in place of its handshake, which is complete."""
        self._handshake.leave()
        super().connection_made(transport)
