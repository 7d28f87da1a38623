"""Who looks at what: what a page is made for."""

from collections.abc import Awaitable, Callable, Mapping
from contextvars import ContextVar
from dataclasses import dataclass
from heapq import nsmallest
from urllib.parse import urlencode

from dash import Dash
from dash.development.base_component import Component

from nearkin.index.entry import RESERVED
from nearkin.server.console.recent_metrics import RecentMetrics
from nearkin.server.http.auth import Authenticator, require_every_scope, require_scope
from nearkin.server.http.problems import ProblemError
from nearkin.server.http.tokens import WILDCARD, Principal
from nearkin.server.service import Service

ROOT = "/console/"
MAX_SCOPES = 500
"""Scopes to choose from on a page; any other one is typed. 36,000 elements of a page take 2 s and 4
MB."""


@dataclass(frozen=True)
class Visit:
    """A request to the console, by somebody who may look.

    Attributes:
        service: What is looked at.
        authenticator: Counts what is asked for.
        recents: The last minutes, of all workers.
        who: Whose token it is.
        source: The address that it came from.
        path: Of the page, beneath the console.
        request_id: Of the request.
    """

    service: Service
    authenticator: Authenticator
    recent_metrics: RecentMetrics
    who: Principal
    source: str
    path: str
    request_id: str

    def require(self, right: str) -> None:
        """That the token has a right.

        Raises:
            ProblemError: It has not.
        """
        if not self.who.has_right(right):
            raise ProblemError("forbidden", f"this needs a token with the right {right}")

    def may_open(self, page: "Page") -> bool:
        """Returns whether the token has the right that a page needs, and all scopes where the page is about all of them."""
        return self.who.has_right(page.right) and (self.who.has_all_scopes or not page.every_scope)

    def require_page(self, page: "Page") -> None:
        """Requires that the token may open a page.

        Raises:
            ProblemError: If it may not.
        """
        self.require(page.right)
        if page.every_scope:
            require_every_scope(self.who)

    def require_scope(self, scope: str) -> None:
        """That documents of a scope may be shown.

        Raises:
            ProblemError: They may not, or the server is not ready.
        """
        self.service.require_ready()
        self.require("read")
        require_scope(self.who, scope)

    async def admit(self) -> None:
        """Counts a search as the API does.

        Raises:
            ProblemError: There were too many.
        """
        await self.authenticator.admit_documents(self.who, self.source, 1)

    async def scopes(self) -> list[str]:
        """Returns scopes to choose from, the first MOST_SCOPES by name.

        They are those that the token names, and those with documents that its patterns match.
        """
        validate_name = {scope for scope in self.who.scopes if not scope.endswith(WILDCARD)}
        if len(validate_name) < len(self.who.scopes):
            found = await self.service.run_overview(self.service.cluster_listings.scopes)
            validate_name.update(
                scope
                for scope in found
                if self.who.can_access(scope) and not scope.startswith(RESERVED)
            )
        return nsmallest(MAX_SCOPES, validate_name)


CURRENT: ContextVar[Visit] = ContextVar("console visit")
"""Set around every request that reaches the pages."""


def current() -> Visit:
    """The visit that is being answered."""
    return CURRENT.get()


Build = Callable[[Visit, Mapping[str, str]], Awaitable[list[Component]]]


@dataclass(frozen=True)
class Page:
    """One page.

    Attributes:
        path: Beneath the console.
        name: In the navigation, and its heading.
        right: That it needs.
        build: Its content, from the visit and the query of its address.
        connect: Registers what happens on it.
        every_scope: Whether it shows facts of all scopes together, so that a token of some scopes
            may not open it.
    """

    path: str
    name: str
    right: str
    build: Build
    connect: Callable[[Dash], None] = lambda app: None
    every_scope: bool = False


def address(page: str, **query: str) -> str:
    """Of a page.

    Examples:
        >>> address("clusters", scope="a b", id="x&y")
        '/console/clusters?scope=a+b&id=x%26y'
    """
    return ROOT + page + (f"?{urlencode(query)}" if query else "")
