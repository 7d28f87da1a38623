"""Visits of the console: the pages, and the requests for which they are built."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from heapq import nsmallest
from typing import NamedTuple
from urllib.parse import urlencode

from markupsafe import Markup

from nearkin.index.entry import RESERVED
from nearkin.service.server.console.recent_metrics import RecentMetrics
from nearkin.service.server.http.auth import Authenticator, require_every_scope, require_scope
from nearkin.service.server.http.problems import ProblemError
from nearkin.service.server.http.tokens import WILDCARD, Principal
from nearkin.service.server.service import Service
from nearkin.service.server.settings import ServerSettings

ROOT = "/console/"
MAX_SCOPES = 500
"""Maximum number of scopes that a page offers. Others can be typed.

A page of 36,000 elements takes 2 s and 4 MB.
"""


@dataclass(frozen=True)
class Visit:
    """An authorized request to the console.

    Attributes:
        service: The service of the server.
        authenticator: Authenticator of the server, which counts searches.
        recent_metrics: Activity of all workers in the last minutes.
        who: Principal of the token.
        source: Address of the client.
        request_id: Id of the request.
    """

    service: Service
    authenticator: Authenticator
    recent_metrics: RecentMetrics
    who: Principal
    source: str
    request_id: str

    def require(self, right: str) -> None:
        """Requires that the token has a right."""
        if not self.who.has_right(right):
            raise ProblemError("forbidden", f"the token needs the right {right!r}")

    def may_open(self, page: "Page") -> bool:
        """Returns True if the token has the rights and the scopes that a page needs."""
        has_rights = all(map(self.who.has_right, page.rights))
        return has_rights and (self.who.has_all_scopes or not page.every_scope)

    def offers(self, page: "Page") -> bool:
        """Returns True if the navigation shows a page."""
        return self.may_open(page) and page.is_offered(self.service.settings)

    def require_page(self, page: "Page") -> None:
        """Requires that the token may open a page."""
        for right in page.rights:
            self.require(right)
        if page.every_scope:
            require_every_scope(self.who)

    def require_scope(self, scope: str) -> None:
        """Requires that the server is ready and that the token may read a scope."""
        self.service.require_ready()
        self.require("read")
        require_scope(self.who, scope)

    async def admit(self) -> None:
        """Counts a search like a query of the API."""
        await self.authenticator.admit_documents(self.who, self.source, 1)

    async def scope_menu(self, query: Mapping[str, str]) -> "ScopeMenu":
        """Returns the scopes to choose from, with their numbers of documents.

        A page whose address names no scope shows the one with most documents.
        """
        scopes = await self.scopes()
        first = query.get("scope") or next(iter(scopes), "")
        if first:
            self.require_scope(first)
        listings = self.service.cluster_listings
        counted = list(dict.fromkeys([first, *scopes])) if first else scopes
        counts = await self.service.run_overview(listings.scope_counts, counted)
        documents = {scope: count.documents for scope, count in counts.items()}
        largest = max(scopes, key=lambda scope: documents.get(scope, 0), default="")
        return ScopeMenu(scopes, documents, query.get("scope") or largest)

    async def scopes(self) -> list[str]:
        """Returns scopes to choose from, the first MAX_SCOPES by name.

        They are those that the token names, and those with documents that its patterns match.
        """
        readable = {scope for scope in self.who.scopes if not scope.endswith(WILDCARD)}
        if len(readable) < len(self.who.scopes):
            stored = await self.service.run_overview(self.service.cluster_listings.scopes)
            readable.update(
                scope
                for scope in stored
                if self.who.can_access(scope) and not scope.startswith(RESERVED)
            )
        return nsmallest(MAX_SCOPES, readable)


class ScopeMenu(NamedTuple):
    """The scopes that a page offers, and the one that is shown."""

    scopes: list[str]
    """Names of the scopes, sorted."""
    counts: Mapping[str, int]
    """Numbers of documents by scope, as far as they are known."""
    selected: str
    """The scope of the page, or an empty text if the page is not of one scope."""

    @property
    def choices(self) -> list[str]:
        """The scopes to choose from: the selected one, also if it is unknown, then the largest."""

        def place(name: str) -> tuple[bool, int, str]:
            return name != self.selected, -self.counts.get(name, 0), name

        return sorted({*self.scopes, self.selected}, key=place)

    @property
    def has_documents(self) -> bool:
        """True if the page has a scope to show."""
        return bool(self.selected) and not self.is_unknown

    @property
    def is_complete(self) -> bool:
        """True if the menu offers every scope that the token may read."""
        return len(self.scopes) < MAX_SCOPES

    @property
    def is_unknown(self) -> bool:
        """True if the scope of the page was requested, and has no documents."""
        return bool(self.selected) and self.counts.get(self.selected) == 0


Build = Callable[[Visit, Mapping[str, str]], Awaitable[Markup]]
"""A function that returns content for a visit and values by name: the query, or what was sent."""


@dataclass(frozen=True)
class Page:
    """A page of the console.

    Attributes:
        path: Path of the page below the console.
        name: Name in the navigation and in the title.
        right: Right that the page needs.
        build: Function that returns the content for the query of the URL.
        answer: Function that returns the part of the page for values that the page sends.
        every_scope: Whether the page concerns all scopes, so that it needs access to all of them.
        writes: Whether visitors change the index on the page, which needs the right to write, too.
        is_offered: Function that returns whether the navigation of a server has the page.
    """

    path: str
    name: str
    right: str
    build: Build
    answer: Build | None = None
    every_scope: bool = False
    writes: bool = False
    is_offered: Callable[[ServerSettings], bool] = lambda _: True

    @property
    def rights(self) -> tuple[str, ...]:
        """The rights that the page needs."""
        return (self.right, "write") if self.writes else (self.right,)


def page_url(page: str, **query: str) -> str:
    """Returns the URL path of a page.

    Examples:
        >>> page_url("clusters", scope="a b", id="x&y")
        '/console/clusters?scope=a+b&id=x%26y'
    """
    return ROOT + page + (f"?{urlencode(query)}" if query else "")
