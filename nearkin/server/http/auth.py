"""Who asks, and whether they may."""

import re
from typing import Annotated
from urllib.parse import urlsplit

from fastapi import Depends, Path, Request, Security
from fastapi.security import HTTPBearer

from nearkin.server.http.problems import ProblemError
from nearkin.server.http.rates import RateLimiter, parse_rate
from nearkin.server.http.shares import client_network
from nearkin.server.http.tokens import LOCAL_PRINCIPAL, Principal, TokenFile
from nearkin.server.settings import ServerSettings

BEARER = HTTPBearer(auto_error=False, description="A token of nearkin token create.")
LOOPBACK = ("localhost", "127.0.0.1", "::1")
CONTROL = re.compile(r"[\x00-\x1f\x7f]")


class Authenticator:
    """Tokens and rates of a server.

    Args:
        tokens: The known tokens.
        rates: Counts.
        source_rate: Documents of one address.
        failures: Failed authentications of one address.
        strangers: Requests of one address that need no token, except for health probes.
        anonymous: Whether a server for which no token was ever made answers everybody.
    """

    def __init__(
        self, tokens: TokenFile, rates: RateLimiter, source_rate: str, failures: str, strangers: str, anonymous: bool
    ) -> None:
        self.tokens, self.rates = tokens, rates
        self.source_rate, self.failures, self.anonymous = source_rate, failures, anonymous
        self.strangers = strangers
        # always in this process: a stranger's request must not cost one to another server
        self._own_rates = RateLimiter("memory://")

    @property
    def is_open(self) -> bool:
        """Whether it answers everybody: no token was ever made, and there need not be one."""
        return self.anonymous and not self.tokens.is_protected

    async def authenticate(self, authorization: str | None, source: str) -> Principal:
        """Whose token it is.

        Raises:
            ProblemError: Nobody's, or too many such were tried from there.
        """
        if self.is_open:
            return LOCAL_PRINCIPAL
        kind, _, token = (authorization or "").partition(" ")
        found = self.tokens.find(token.strip()) if kind.lower() == "bearer" else None
        if found is None:
            # 256 random bits are not guessed; this keeps whoever tries from being work, and never who has a valid token
            if authorization is not None and (wait := await self.rates.take(self.failures, "failures", client_network(source))):
                raise ProblemError("rate-limited", "too many tokens were wrong", retry_after=wait)
            raise ProblemError("unauthenticated", "send Authorization: Bearer and a token made with nearkin token create")
        return found

    async def admit_unauthenticated(self, source: str) -> None:
        """Counts a request that needs no token.

        Raises:
            ProblemError: If the address sends more of them than its rate allows.
        """
        if wait := await self._own_rates.take(self.strangers, "strangers", client_network(source)):
            raise ProblemError("rate-limited", "more requests without a token than the rate allows", retry_after=wait)

    async def admit_documents(self, principal: Principal, source: str, cost: int) -> None:
        """Counts documents.

        Raises:
            ProblemError: More than the token's, or the address', rate.
        """
        if wait := await self.reserve_documents(principal, source, cost):
            raise ProblemError(
                "rate-limited", f"more documents than the rate allows; in {wait:.1f} s there is room", retry_after=wait
            )

    def admission_step(self, principal: Principal) -> int:
        """How many documents to ask room for at once, where there are many: a tenth of what a rate allows."""
        rates = [self.source_rate, *([] if principal.rate is None else [principal.rate])]
        return max(1, min(parse_rate(rate).amount for rate in rates) // 10)

    async def reserve_documents(self, principal: Principal, source: str, cost: int) -> float:
        """Counts documents if there is room; else returns the seconds until there is, and nothing is counted.

        A token that is over its own rate uses up nothing of its address' rate, which others behind the same proxy share; nor
        does an address that is over its rate use up anything of a token's.
        """
        own = ("token", principal.name)
        if principal.rate is not None and (wait := await self.rates.seconds_until_room(principal.rate, *own, cost=cost)):
            return wait
        if wait := await self.rates.take(self.source_rate, "source", source, cost=cost):
            return wait
        return 0.0 if principal.rate is None else await self.rates.take(principal.rate, *own, cost=cost)


def source_address(request: Request) -> str:
    """The address that a request came from; behind a trusted proxy, the one that it names."""
    return request.client.host if request.client is not None else "local"


class RequireRight:
    """A dependency: the asker must have a right, and, where the path names a scope, see it.

    A scope that a token does not see answers alike, whether it has documents or not.

    Args:
        right: The right that the token must have.
        cost: The number of documents that a request counts as.
        every_scope: Whether the answer is about all scopes together, so that a token of some scopes is refused.
    """

    def __init__(self, right: str, cost: int = 1, *, every_scope: bool = False) -> None:
        self.right, self.cost, self.every_scope = right, cost, every_scope

    async def __call__(self, request: Request, _: Annotated[object, Security(BEARER)] = None) -> Principal:
        authenticator: Authenticator = request.app.state.authenticator
        source = source_address(request)
        who = await authenticator.authenticate(request.headers.get("authorization"), source)
        if who is LOCAL_PRINCIPAL:
            reject_cross_origin(request)
        request.state.principal = who
        scope = request.path_params.get("scope")
        if not who.has_right(self.right):
            raise ProblemError("forbidden", f"this needs the right {self.right}")
        if self.every_scope:
            require_every_scope(who)
        if scope is not None:
            require_scope(who, scope)
        request.app.state.service.register_request(who, source, request.state.reservations)
        if self.cost:
            await authenticator.admit_documents(who, source, self.cost)
        return who


def reject_cross_origin(request: Request) -> None:
    """That no page of another site asks, through a browser of this machine, a server that asks for no token.

    The Host must be one that such a server has (against names that are made to point here, DNS rebinding), and an Origin, which
    browsers send, the same.

    Raises:
        ProblemError: One does.
    """
    host = request.headers.get("host", "")
    settings: ServerSettings = request.app.state.settings
    if settings.is_local and _name_of(host) not in (*LOOPBACK, settings.host):
        raise ProblemError(
            "forbidden", "without tokens this server answers to localhost alone; make one with nearkin token create"
        )
    origin = request.headers.get("origin")
    if origin is not None and origin_host(origin) != host:
        raise ProblemError("forbidden", "a page of another site asks; make a token with nearkin token create")


def origin_host(origin: str) -> str:
    """Host and port of an origin; nothing of one that is none."""
    try:
        return urlsplit(origin).netloc
    except ValueError:
        return ""


def _name_of(host: str) -> str | None:
    try:
        return urlsplit(f"//{host}").hostname
    except ValueError:
        return None


def require_scope(who: Principal, scope: str) -> None:
    """That a scope is one of the asker's.

    Raises:
        ProblemError: It is not, or is no name of a scope.
    """
    named(scope, "scope")
    if not who.can_access(scope):
        raise ProblemError("forbidden", "this token does not see that scope", field="/scope")


def require_every_scope(who: Principal) -> None:
    """Requires a token of all scopes, for answers that count over scopes or change all of them.

    Raises:
        ProblemError: If the token sees some scopes only.
    """
    if not who.has_all_scopes:
        raise ProblemError("forbidden", "this request concerns all scopes; it needs a token with the scope *")


def named(name: str, what: str) -> str:
    """A scope or an id as it came in a path or body.

    Raises:
        ProblemError: It has control characters, which are the server's own, or is too long.
    """
    if not name or CONTROL.search(name) or len(name.encode("utf-8", "surrogatepass")) > 1024:
        raise ProblemError("invalid-request", f"{what} must be 1 to 1024 bytes without control characters", field=f"/{what}")
    return name


Reader = Annotated[Principal, Depends(RequireRight("read"))]
Writer = Annotated[Principal, Depends(RequireRight("write"))]
StreamWriter = Annotated[Principal, Depends(RequireRight("write", cost=0))]
Scraper = Annotated[Principal, Depends(RequireRight("metrics", cost=0, every_scope=True))]
Admin = Annotated[Principal, Depends(RequireRight("admin", every_scope=True))]
ScopeName = Annotated[str, Path(min_length=1, max_length=1024, description="Tenant or group.")]
DocumentId = Annotated[str, Path(min_length=1, max_length=1024, description="Of a document.")]
