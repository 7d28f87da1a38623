"""Authentication of requests, and the rights and scopes that routes require."""

import re
from typing import Annotated
from urllib.parse import urlsplit

from fastapi import Depends, Path, Request, Security
from fastapi.security import HTTPBearer

from nearkin.service.server.http.callers import client_network
from nearkin.service.server.http.problems import ProblemError
from nearkin.service.server.http.rates import RateLimiter, parse_rate
from nearkin.service.server.http.tokens import LOCAL_PRINCIPAL, Principal, TokenFile
from nearkin.service.server.settings import ServerSettings

BEARER = HTTPBearer(
    auto_error=False, description="A token created with `nearkin server token create`."
)
LOOPBACK_NAMES = ("localhost", "127.0.0.1", "::1")
CONTROL_CHARACTER = re.compile(r"[\x00-\x1f\x7f]")
MAX_NAME_BYTES = 1024
"""Maximum number of bytes of a scope or an id."""


class Authenticator:
    """The tokens of a server, and the rates of tokens and client addresses."""

    def __init__(
        self,
        tokens: TokenFile,
        rates: RateLimiter,
        source_rate: str,
        failures: str,
        unauthenticated_rate: str,
        *,
        allow_anonymous: bool,
    ) -> None:
        self.tokens = tokens
        self.rates = rates
        self.source_rate = source_rate
        self.failures = failures
        self.unauthenticated_rate = unauthenticated_rate
        self.allow_anonymous = allow_anonymous
        # counted in this process, because an unauthenticated request must not cause a request to
        # another server
        self._local_rates = RateLimiter("memory://")

    @property
    def is_open(self) -> bool:
        """True if requests need no token: none was ever created, and none is required."""
        return self.allow_anonymous and not self.tokens.is_protected

    async def authenticate(self, authorization: str | None, source: str) -> Principal:
        """Returns the principal of a request."""
        if self.is_open:
            return LOCAL_PRINCIPAL
        kind, _, token = (authorization or "").partition(" ")
        principal = self.tokens.find(token.strip()) if kind.lower() == "bearer" else None
        if principal is not None:
            return principal
        await self.admit_unauthenticated(source)
        # 256 random bits cannot be guessed. The rate limits the work that guessing causes, and
        # never affects valid tokens.
        if authorization is not None:
            wait = await self.rates.take(self.failures, "failures", client_network(source))
            if wait:
                raise ProblemError(
                    "rate-limited",
                    "too many invalid tokens were sent from this address",
                    retry_after=wait,
                )
            raise ProblemError(
                "unauthenticated",
                "the token is unknown, revoked or expired; create another one with nearkin server "
                "token create",
            )
        raise ProblemError(
            "unauthenticated",
            "send the header Authorization: Bearer TOKEN; create a token with nearkin server token "
            "create",
        )

    async def admit_unauthenticated(self, source: str) -> None:
        """Counts a request without a token."""
        if wait := await self._local_rates.take(
            self.unauthenticated_rate, "strangers", client_network(source)
        ):
            raise ProblemError(
                "rate-limited",
                "too many requests without a token from this address",
                retry_after=wait,
            )

    async def admit_documents(self, principal: Principal, source: str, count: int) -> None:
        """Counts documents for a token, or for an address without a token."""
        if wait := await self.take_documents(principal, source, count):
            raise ProblemError(
                "rate-limited",
                f"the rate of documents is exceeded; retry after {wait:.1f} s",
                retry_after=wait,
            )

    def admission_step(self, principal: Principal) -> int:
        """Returns how many documents of a stream are counted at once: a tenth of the rate."""
        return max(1, self.max_admitted(principal) // 10)

    def max_admitted(self, principal: Principal) -> int:
        """Returns the largest number of documents that can be counted at once: the whole rate."""
        return parse_rate(principal.rate or self.source_rate).amount

    async def take_documents(self, principal: Principal, source: str, count: int) -> float:
        """Counts documents for a token, or for an address without a token, if the rate has room.

        Documents of a token do not count for its address, which others behind the same proxy share.

        Returns:
            0 if the documents were counted; otherwise the seconds until there is room.
        """
        if principal is LOCAL_PRINCIPAL:
            network = client_network(source)
            return await self.rates.take(self.source_rate, "source", network, cost=count)
        rate = principal.rate or self.source_rate
        return await self.rates.take(rate, "token", principal.name, cost=count)


def source_address(request: Request) -> str:
    """Returns the address of the client, as a trusted proxy or the connection says."""
    return request.client.host if request.client is not None else "local"


class RequireRight:
    """A FastAPI dependency that requires a right, and access to the scope in the path.

    The response for a scope without access is the same whether the scope has documents or not.
    """

    def __init__(self, right: str, cost: int = 1, *, every_scope: bool = False) -> None:
        self.right = right
        self.cost = cost
        self.every_scope = every_scope

    async def __call__(
        self, request: Request, _: Annotated[object, Security(BEARER)] = None
    ) -> Principal:
        """Returns the principal of a request, which the gate has authenticated, or refuses it."""
        authenticator: Authenticator = request.app.state.authenticator
        source = source_address(request)
        principal: Principal = request.state.principal
        if principal is LOCAL_PRINCIPAL:
            reject_cross_origin(request)
        if not principal.has_right(self.right):
            raise ProblemError("forbidden", f"the token needs the right {self.right!r}")
        if self.every_scope:
            require_every_scope(principal)
        scope = request.path_params.get("scope")
        if scope is not None:
            require_scope(principal, scope)
        request.app.state.service.register_request(principal, source, request.state.reservations)
        if self.cost:
            await authenticator.admit_documents(principal, source, self.cost)
        return principal


def reject_cross_origin(request: Request) -> None:
    """Rejects requests of other sites to a server without tokens.

    The Host header must be a name of such a server, which prevents DNS rebinding. The Origin
    header, which browsers send, must name the same host.
    """
    host = request.headers.get("host", "")
    settings: ServerSettings = request.app.state.settings
    if settings.is_local and _host_name(host) not in (*LOOPBACK_NAMES, settings.host):
        raise ProblemError(
            "forbidden",
            (
                "a server without tokens accepts only requests to localhost; create a token with "
                "nearkin server token create"
            ),
        )
    origin = request.headers.get("origin")
    if origin is not None and origin_host(origin) != host:
        raise ProblemError(
            "forbidden",
            "cross-origin request rejected; create a token with nearkin server token create",
        )


def origin_host(origin: str) -> str:
    """Returns the host and port of an origin, or an empty string if the origin is not valid."""
    try:
        return urlsplit(origin).netloc
    except ValueError:
        return ""


def _host_name(host: str) -> str | None:
    """Returns the name in a Host header, without the port."""
    try:
        return urlsplit(f"//{host}").hostname
    except ValueError:
        return None


def require_scope(principal: Principal, scope: str) -> None:
    """Requires that a token has access to a scope."""
    validate_name(scope, "scope")
    if not principal.can_access(scope):
        raise ProblemError("forbidden", "the token has no access to this scope", field="/scope")


def require_every_scope(principal: Principal) -> None:
    """Requires that a token has access to all scopes."""
    if not principal.has_all_scopes:
        raise ProblemError(
            "forbidden", "this request concerns all scopes; it needs a token with the scope *"
        )


def validate_name(name: str, member: str) -> str:
    """Returns a scope or an id unchanged if it is valid."""
    if (
        not name
        or CONTROL_CHARACTER.search(name)
        or len(name.encode("utf-8", "surrogatepass")) > MAX_NAME_BYTES
    ):
        raise ProblemError(
            "invalid-request",
            f"{member} must be 1 to {MAX_NAME_BYTES} bytes without control characters",
            field=f"/{member}",
        )
    return name


Reader = Annotated[Principal, Depends(RequireRight("read"))]
Writer = Annotated[Principal, Depends(RequireRight("write"))]
StreamWriter = Annotated[Principal, Depends(RequireRight("write", cost=0))]
Scraper = Annotated[Principal, Depends(RequireRight("metrics", cost=0, every_scope=True))]
Admin = Annotated[Principal, Depends(RequireRight("admin", every_scope=True))]
ScopeName = Annotated[
    str,
    Path(
        min_length=1,
        max_length=1024,
        description="Scope: the name of a tenant or group, of at most 1,024 bytes in UTF-8.",
    ),
]
DocumentId = Annotated[
    str,
    Path(
        min_length=1,
        max_length=1024,
        description="Id of a document, of at most 1,024 bytes in UTF-8.",
    ),
]
