"""Callers: the tokens or addresses for which requests are counted."""

import ipaddress
from contextvars import ContextVar
from dataclasses import dataclass
from functools import lru_cache

IPV6_NETWORK = 64
"""Prefix length, in bits, of the IPv6 network of one customer, who controls all 2^64 addresses of
it."""


@dataclass(frozen=True)
class Caller:
    """The client for which a request is counted.

    Attributes:
        key: Name that is unique among callers.
        unshared: Whether the caller may use the whole of a resource. True for the server's
            background tasks, and for programs of this machine on a server without tokens that only
            this machine can reach.
    """

    key: str
    unshared: bool = False


SERVER_CALLER = Caller("server", unshared=True)
UNKNOWN_CALLER = Caller("unknown")
CURRENT_CALLER: ContextVar[Caller] = ContextVar("caller", default=UNKNOWN_CALLER)
"""The caller of the current request. Background tasks of the server set it to SERVER_CALLER."""


@lru_cache(4096)
def client_network(address: str) -> str:
    """Returns an IPv4 address itself, or the /64 network of an IPv6 address.

    Examples:
        >>> client_network("192.0.2.7"), client_network("2001:db8:1:2:3::4")
        ('192.0.2.7', '2001:db8:1:2::/64')
    """
    try:
        parsed = ipaddress.ip_address(address)
    except ValueError:
        return address
    if isinstance(parsed, ipaddress.IPv4Address):
        return address
    if parsed.ipv4_mapped is not None:
        return str(parsed.ipv4_mapped)
    return str(ipaddress.ip_network((int(parsed), IPV6_NETWORK), strict=False))
