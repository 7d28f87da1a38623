"""The rule for names of new scopes: no two names may differ only in ways that people cannot see.

A name that ends with a blank, or has an accent that is written as two characters, looks like
another name. A person who types a name, or reads a list of scopes with a shell, would reach the
documents of the other tenant.
"""

import unicodedata
from threading import Lock
from typing import TYPE_CHECKING

from nearkin.errors import UsageError
from nearkin.index.entry import GOLDEN_SCOPE, RESERVED, require_unreserved_scope

if TYPE_CHECKING:
    from nearkin.index.search import Searcher


def canonical(name: str) -> str:
    r"""Returns a name without surrounding blanks and in Unicode normal form C.

    Examples:
        >>> canonical(" acme\n"), canonical("cafe\u0301") == "caf\xe9", canonical("a b")
        ('acme', True, 'a b')
    """
    stripped = name.strip()
    return stripped if stripped.isascii() else unicodedata.normalize("NFC", stripped).strip()


class ScopeNames:
    """Decides if documents may be written to a scope. Existing scopes stay writable."""

    def __init__(self, searcher: "Searcher") -> None:
        self._searcher = searcher
        self._lock = Lock()
        self._others: dict[str, set[str]] | None = None
        """The existing scopes whose names are not canonical, by their canonical names."""
        self._last: str | None = None
        """The scope that was accepted last. None if `_others` was changed since."""

    def require(self, scope: str) -> None:
        """Refuses a reserved scope, and a new one whose name is confusable with another one."""
        if scope in (self._last, GOLDEN_SCOPE):
            return
        name = canonical(require_unreserved_scope(scope))
        known = self._existing_others().get(name, set())
        if scope in known or (scope == name and not known):
            self._last = scope
            return
        if next(iter(self._searcher.store.scan(scope)), None) is not None:
            with self._lock:
                self._existing_others().setdefault(name, set()).add(scope)
                self._last = None
            return
        if scope != name:
            raise UsageError(
                f"the scope {scope!r} is new, and its name has surrounding blanks or is not in "
                f"Unicode normal form C; name it {name!r}"
            )
        raise UsageError(
            f"the scope {scope!r} is new, and differs from an existing one only by surrounding "
            "blanks or by Unicode normalization; use the existing name, or another one"
        )

    def _existing_others(self) -> dict[str, set[str]]:
        """Returns the existing scopes whose names are not canonical. The store is read once."""
        if self._others is None:
            others: dict[str, set[str]] = {}
            for scope in self._searcher.store.scopes():
                if not scope.startswith(RESERVED) and scope != canonical(scope):
                    others.setdefault(canonical(scope), set()).add(scope)
            self._others = others
        return self._others
