"""Limits on connections: their number, request heads, and unread responses.

The head of a request consists of its request line and headers. These limits concern what a client
can send before a request is complete. `middleware` has the limits on requests, and `tls` applies
these limits to TLS handshakes.
"""

import ipaddress
from asyncio import Transport
from asyncio.events import TimerHandle
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import lru_cache, partial
from typing import Any, ClassVar, NoReturn

from uvicorn.protocols.http.httptools_impl import (
    STATUS_LINE,
    HttpToolsProtocol,
    RequestResponseCycle,
)

from nearkin.service.server.http.callers import client_network
from nearkin.service.server.http.middleware import MAX_LENGTH_DIGITS
from nearkin.service.server.http.problems import SECURITY_HEADERS, ProblemError
from nearkin.service.server.settings import ServerSettings

MAX_PIPELINED_REQUESTS = 8
"""Maximum number of requests that a connection may send before earlier ones are answered."""
MAX_URL = 8192
"""Maximum size of a URL, in bytes."""
MAX_FIELDS = 100
"""Maximum number of headers, of cookies, and of query parameters of a request."""
MIN_PIECE = 8
"""Minimum average size of the pieces of a body, in bytes. A shorter piece costs more than what it
carries."""
FREE_PIECES = 1000
"""Number of pieces of a body before their average size counts."""
SHUTDOWN_DRAIN = 2.0
"""Seconds within which the rest of a body must arrive while the server stops."""
DROPPED_BODIES = 2
"""Number of times the largest body that may be dropped after its request was answered. A client
that sends all of a body before it reads gets the refusal of one that is somewhat too large."""
DROPPED_PIECE = 2048
"""Number of bytes as which each piece counts at least, if it belongs to the rest of a body whose
request was answered already."""


@dataclass(frozen=True)
class ConnectionLimits:
    """The limits of a process's connections, and their current counts.

    Attributes:
        head_timeout: Seconds within which the head of a request, and before it the TLS handshake,
            must be complete.
        max_head: Maximum size of the head of a request, and of trailers after its body, in bytes.
        connections: Maximum number of connections of this process.
        source_connections: Maximum number of connections of one client address or /64 network.
        unread_timeout: Seconds after which a connection is closed if the client does not read its
            responses.
        rejected_timeout: Seconds within which the rest of a body must arrive if its request was
            answered early.
        max_rejected: Maximum size of the rest of such a body, in bytes. It is not stored.
        stream_grace: Seconds that streams have to end after the server received the signal to stop.
            Then they end with a problem, before uvicorn cancels what is left.
        trusted: Addresses of proxies, separated by commas. Their connections are not counted by
            address.
        counts: Number of open connections by client address, including TLS handshakes.
        handshakes: Connections whose TLS handshake is not complete.
    """

    head_timeout: float = 10.0
    max_head: int = 65_536
    connections: int = 4096
    source_connections: int = 256
    unread_timeout: float = 60.0
    rejected_timeout: float = 30.0
    max_rejected: int = DROPPED_BODIES * 16_000_000
    stream_grace: float = 20.0
    trusted: str = "127.0.0.1"
    counts: Counter[str] = field(default_factory=Counter)
    handshakes: set[object] = field(default_factory=set)

    @classmethod
    def from_settings(cls, settings: ServerSettings) -> "ConnectionLimits":
        """Returns the limits that a server's settings define."""
        return cls(
            head_timeout=settings.head_timeout,
            max_head=settings.max_head,
            connections=settings.connections,
            source_connections=settings.source_connections,
            unread_timeout=settings.idle_timeout,
            rejected_timeout=settings.timeout,
            max_rejected=DROPPED_BODIES * settings.max_body,
            trusted=settings.trusted_proxies,
        )

    def is_trusted_proxy(self, address: str) -> bool:
        """Returns True if an address belongs to a trusted proxy."""
        for known in self.trusted.split(","):
            if known.strip() in ("*", address):
                return True
            try:
                if ipaddress.ip_address(address) in ipaddress.ip_network(
                    known.strip(), strict=False
                ):
                    return True
            except ValueError:
                continue
        return False

    def counted_origin(self, client: tuple[Any, ...] | None) -> str | None:
        """Returns the network for which a connection is counted, or None for proxies."""
        if not client or self.is_trusted_proxy(str(client[0])):
            return None
        return client_network(str(client[0]))

    def has_room(self, origin: str | None, others: int) -> bool:
        """Returns True if one more connection may be opened."""
        if others + len(self.handshakes) >= self.connections:
            return False
        return origin is None or self.counts[origin] < self.source_connections

    def count(self, origin: str | None) -> None:
        """Counts an opened connection."""
        if origin is not None:
            self.counts[origin] += 1

    def uncount(self, origin: str | None) -> None:
        """Reverses `count` for a closed connection."""
        if origin is not None:
            self.counts[origin] -= 1
            if not self.counts[origin]:
                del self.counts[origin]


@lru_cache(64)
def _refusal_bytes(detail: str) -> bytes:
    """Returns the whole response to a request that was refused while it was parsed."""
    response = ProblemError("malformed-request", detail).response()
    headers = [*response.raw_headers, *SECURITY_HEADERS, (b"connection", b"close")]
    lines = [b"%s: %s\r\n" % header for header in headers]
    return b"".join([STATUS_LINE[response.status_code], *lines, b"\r\n", response.body])


class _ResponseTransport:
    """The transport of one response, which closes the connection after the rest of the body.

    If a socket is closed while bytes are unread, the client may lose a response that it has not
    read yet.
    """

    def __init__(self, connection: "LimitedConnection", cycle: RequestResponseCycle) -> None:
        self._connection = connection
        self._cycle = cycle

    def write(self, data: bytes) -> None:
        """Sends bytes, unless a later request on the connection was refused."""
        if not self.is_closing():
            self._connection.transport.write(data)

    def is_closing(self) -> bool:
        """Returns True if nothing can be sent any more."""
        return self._connection.is_refusing or self._connection.transport.is_closing()

    def close(self) -> None:
        """Closes the connection, after the body of the request if the response is complete."""
        self._connection.close_after_body(self._cycle)


class LimitedConnection(HttpToolsProtocol):
    """A uvicorn connection that enforces the limits of the process.

    Attributes:
        is_refusing: Whether a request was refused while it was parsed. Then nothing more is sent,
            and what arrives is dropped.
    """

    limits: ClassVar[ConnectionLimits] = ConnectionLimits()

    def connection_made(self, transport: Transport) -> None:  # type: ignore[override]
        """Closes the connection at once if there are too many connections."""
        super().connection_made(transport)
        self._head_timer: TimerHandle | None = None
        self._unread_timer: TimerHandle | None = None
        self._rejected_timer: TimerHandle | None = None
        self._rejected_size = 0
        self._rejected_timeout = self.limits.rejected_timeout
        self._closes_after_body = False
        self.is_refusing = False
        self._at_shutdown: Callable[[], None] | None = None
        self._awaits_head = True
        self._chunk_is_head = True
        self._unparsed_size = 0
        self._parsed_head_size = 0
        self._refusal = "the request is not valid HTTP"
        self._body_pieces = 0
        self._body_size = 0
        self._origin: str | None = None
        limits = self.limits
        origin = limits.counted_origin(self.client)
        # uvicorn has already added this connection to `connections`
        if not limits.has_room(origin, len(self.connections) - 1):
            transport.close()
            return
        limits.count(origin)
        self._origin = origin
        self._start_head_timer()

    def connection_lost(self, exc: Exception | None) -> None:
        """Cancels the timers, and stops counting the connection."""
        for timer in (self._head_timer, self._unread_timer, self._rejected_timer):
            if timer is not None:
                timer.cancel()
        self._head_timer = None
        self._unread_timer = None
        self._rejected_timer = None
        self.limits.uncount(self._origin)
        self._origin = None
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Counts all bytes that arrive until a head is complete, or a part of a body comes."""
        if self.is_refusing:
            # what is not valid HTTP may have no end
            self._count_rejected(DROPPED_BODIES * len(data))
            return
        # A chunk in which a head ends is not counted: it is unknown how much of it belongs to the
        # next head.
        self._chunk_is_head = self._awaits_head
        self._unparsed_size += len(data)
        super().data_received(data)
        if self.is_refusing or self.transport.is_closing():
            return
        if self._chunk_is_head:
            self._start_head_timer()
        # the parser collects a line of a head, of trailers or between the parts of a body
        if self._unparsed_size > self.limits.max_head:
            self._refusal = self._head_size_refusal
            self.send_400_response(self._refusal)

    def send_400_response(self, msg: str) -> None:
        """Answers a request that was refused while it was parsed, and closes the connection."""
        if self.is_refusing or self.transport.is_closing():
            return
        self.transport.write(_refusal_bytes(self._refusal))
        if not self.transport.can_write_eof():
            self.transport.close()
            return
        # the client reads the end of the response, and what it still sends is dropped
        self.transport.write_eof()
        self.is_refusing = True
        self.flow.resume_reading()
        self._start_rejected_timer()
        if self.cycle is not None:
            self.cycle.disconnected = True
            self.cycle.message_event.set()

    def on_message_begin(self) -> None:
        """Resets the sizes of the head and of the body."""
        super().on_message_begin()
        self._parsed_head_size = 0
        self._body_pieces = 0
        self._body_size = 0

    def on_url(self, url: bytes) -> None:
        """Counts the bytes and the parameters of the URL."""
        self._count_head_bytes(len(url))
        super().on_url(url)
        if len(self.url) > MAX_URL:
            self._refuse(f"the URL has more than {MAX_URL:,} bytes")
        self._require_few(self.url.count(b"&") + 1, "query parameters")

    def on_header(self, name: bytes, value: bytes) -> None:
        """Counts a header or a trailer, its bytes and its cookies."""
        self._count_head_bytes(len(name) + len(value))
        super().on_header(name, value)
        self._require_few(len(self.headers), "headers")
        name = name.lower()
        if name == b"cookie":
            self._require_few(value.count(b";"), "cookies")
        elif name == b"content-length" and len(value) > MAX_LENGTH_DIGITS:
            self._refuse(f"Content-Length has more than {MAX_LENGTH_DIGITS} digits")

    def on_headers_complete(self) -> None:
        """Stops the timer of the head."""
        self._awaits_head = False
        self._chunk_is_head = False
        self._unparsed_size = 0
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None
        if len(self.pipeline) >= MAX_PIPELINED_REQUESTS:
            self._refuse(
                f"a connection may have at most {MAX_PIPELINED_REQUESTS} unanswered requests",
            )
        super().on_headers_complete()
        self.cycle.transport = _ResponseTransport(self, self.cycle)  # type: ignore[assignment]
        self.cycle.scope["state"]["is_lost"] = partial(self._is_lost, self.cycle)
        self._at_shutdown = None
        self.cycle.scope["state"]["call_at_shutdown"] = self._call_at_shutdown

    def on_body(self, body: bytes) -> None:
        """Limits the pieces of a body, and the bytes if its request was answered already."""
        self._unparsed_size = 0
        self._body_pieces += 1
        self._body_size += len(body)
        if self._body_pieces > FREE_PIECES and self._body_size < self._body_pieces * MIN_PIECE:
            self._refuse(f"the chunks of the body have less than {MIN_PIECE} bytes on average")
        if self.cycle.response_complete:
            self._count_rejected(max(len(body), DROPPED_PIECE))
        super().on_body(body)

    def close_after_body(self, cycle: RequestResponseCycle) -> None:
        """Closes the connection when the body of a request was received and dropped."""
        if cycle is self.cycle and cycle.response_complete and not self._awaits_head:
            self._closes_after_body = True
        else:
            self.transport.close()

    def shutdown(self) -> None:
        """Lets the current request end, and a stream within `stream_grace` seconds."""
        super().shutdown()
        self._rejected_timeout = min(self.limits.rejected_timeout, SHUTDOWN_DRAIN)
        if self._at_shutdown is not None:
            self.loop.call_later(self.limits.stream_grace, self._at_shutdown)

    def on_response_complete(self) -> None:
        """Starts a timer for the rest of a body if the response did not wait for it."""
        super().on_response_complete()
        if self.cycle.response_complete and not self._awaits_head and self._rejected_timer is None:
            self._start_rejected_timer()

    def on_message_complete(self) -> None:
        """Stops that timer. The head of the next request may follow."""
        super().on_message_complete()
        self._unparsed_size = 0
        self._awaits_head = True
        if self._rejected_timer is not None:
            self._rejected_timer.cancel()
            self._rejected_timer = None
        if self._closes_after_body:
            self.transport.close()

    def pause_writing(self) -> None:
        """Starts a timer within which the client must read."""
        super().pause_writing()
        if self._unread_timer is None:
            self._unread_timer = self.loop.call_later(
                self.limits.unread_timeout, self.transport.abort
            )

    def resume_writing(self) -> None:
        """Stops that timer."""
        super().resume_writing()
        if self._unread_timer is not None:
            self._unread_timer.cancel()
            self._unread_timer = None

    def _unsupported_upgrade_warning(self) -> None:
        # The server offers no upgrades. Clients must not be able to fill the log with this warning.
        pass

    def _is_lost(self, cycle: RequestResponseCycle) -> bool:
        """Returns True if nothing can be sent any more.

        uvloop closes a connection that the client has reset before it reports so. Sending a
        response meanwhile is an error.
        """
        if self.is_refusing or self.transport.is_closing():
            cycle.disconnected = True
        return cycle.disconnected

    def _call_at_shutdown(self, callback: Callable[[], None]) -> None:
        """Calls a function if the server stops before the current request ends."""
        self._at_shutdown = callback

    def _start_rejected_timer(self) -> None:
        self._rejected_size = 0
        self._rejected_timer = self.loop.call_later(self._rejected_timeout, self.transport.close)

    def _count_rejected(self, size: int) -> None:
        self._rejected_size += size
        if self._rejected_size > self.limits.max_rejected:
            self.transport.close()

    def _count_head_bytes(self, size: int) -> None:
        self._parsed_head_size += size
        if self._parsed_head_size > self.limits.max_head:
            self._refuse(self._head_size_refusal)

    @property
    def _head_size_refusal(self) -> str:
        return f"the request line and headers exceed {self.limits.max_head:,} bytes"

    def _require_few(self, count: int, unit: str) -> None:
        if count > MAX_FIELDS:
            self._refuse(f"the request has more than {MAX_FIELDS} {unit}")

    def _refuse(self, reason: str) -> NoReturn:
        """Ends the parsing of a request, which `send_400_response` answers then."""
        self._refusal = reason
        raise ValueError(reason)

    def _start_head_timer(self) -> None:
        if self._head_timer is None:
            self._head_timer = self.loop.call_later(self.limits.head_timeout, self._head_timed_out)

    def _head_timed_out(self) -> None:
        self._head_timer = None
        if self.transport.is_closing():
            return
        if self.flow.read_paused or (self.cycle is not None and not self.cycle.response_complete):
            # the rest of the head may wait behind a request that is still being answered
            self._start_head_timer()
        else:
            self.transport.close()
