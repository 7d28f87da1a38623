"""Pages of the decisions about documents of a scope, which are read once for all pages."""

from bisect import bisect_right
from collections.abc import Callable
from threading import Lock
from typing import NamedTuple

from nearkin.index.index import Index
from nearkin.settings.decisions import Decision

MAX_LISTED = 200_000
"""The number of decisions that are kept for further pages, of all scopes together."""


class DecisionPage(NamedTuple):
    """A page of the decisions about the documents of a scope."""

    decisions: list[Decision]
    """The decisions, in the order of their pairs."""
    has_more: bool
    """True if others follow."""


class _Listing(NamedTuple):
    """The decisions about a scope at one time."""

    version: str
    """The version of the stored decisions."""
    pairs: list[tuple[str, str]]
    """The pairs in ascending order."""
    decisions: list[Decision]
    """The decision about each pair."""


class DecisionListings:
    """A cache of the decisions about scopes. It is current: a new decision is in the next page."""

    def __init__(self, index: Callable[[], Index]) -> None:
        self._index = index
        self._listings: dict[str, _Listing] = {}
        self._lock = Lock()

    def page(self, scope: str, after: tuple[str, str] | None, limit: int) -> DecisionPage:
        """Returns a page of the decisions about the documents of a scope.

        All decisions are read only if some were stored since the last page of the scope.
        """
        listing = self._current_listing(scope)
        start = 0 if after is None else bisect_right(listing.pairs, after)
        end = start + limit
        return DecisionPage(listing.decisions[start:end], end < len(listing.pairs))

    def _current_listing(self, scope: str) -> _Listing:
        index = self._index()
        version = index.decisions_version(scope)
        with self._lock:
            listing = self._listings.get(scope)
        if listing is not None and listing.version == version:
            return listing
        # decisions that are stored from now on change the version
        stored = index.decisions(scope).of_pairs
        pairs = sorted(stored)
        listing = _Listing(version, pairs, [stored[pair] for pair in pairs])
        with self._lock:
            self._listings.pop(scope, None)
            if pairs:
                self._listings[scope] = listing
            kept = sum(len(other.pairs) for other in self._listings.values())
            while kept > MAX_LISTED:
                oldest = next(iter(self._listings))
                kept -= len(self._listings.pop(oldest).pairs)
        return listing
