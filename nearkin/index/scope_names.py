"""The rule for names of new scopes: no two may differ only in ways that people, shells and forms do not see.

A name with a blank at its end, or with an accent that is written as two characters, looks like another one. Whoever reads a
list of scopes with a shell, or types a name, reaches the other tenant's documents.
"""

import unicodedata
from threading import Lock

from nearkin.errors import UsageError
from nearkin.index.entry import RESERVED
from nearkin.index.stores.base import Store


def canonical(name: str) -> str:
    r"""Returns the form in which a new scope must be named: without surrounding blanks, in Unicode normal form C.

    Examples:
        >>> canonical(" acme\n"), canonical("cafe\u0301") == "caf\xe9", canonical("a b")
        ('acme', True, 'a b')
    """
    stripped = name.strip()
    return stripped if stripped.isascii() else unicodedata.normalize("NFC", stripped).strip()


class ScopeNames:
    """Decides whether documents may be written to a scope. Scopes that exist keep working, whatever their names are.

    Args:
        store: The store of the index.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self._lock = Lock()
        self._others: dict[str, set[str]] | None = None
        """Existing scopes whose names are not canonical, by their canonical names. No new ones are made."""
        self._last: str | None = None
        """The scope that was accepted last, since an entry of `_others` was added."""

    def require(self, scope: str) -> None:
        """Refuses a new scope whose name is not canonical, or is that of an existing one but for blanks or normalization.

        Raises:
            UsageError: If the scope is refused.
            StoreError: If the store does not answer.
        """
        if scope == self._last or scope.startswith(RESERVED):
            return
        name = canonical(scope)
        known = self._existing_others().get(name, set())
        if scope in known or (scope == name and not known):
            self._last = scope
            return
        if self._exists(scope):
            with self._lock:
                self._existing_others().setdefault(name, set()).add(scope)
                self._last = None
            return
        if scope != name:
            raise UsageError(
                f"the scope {scope!r} is new, and its name has surrounding blanks or is not in Unicode normal form C; name it "
                f"{name!r}"
            )
        raise UsageError(
            f"the scope {scope!r} is new, and differs from one that exists only by surrounding blanks or by Unicode "
            "normalization; use the name that exists, or another one"
        )

    def _existing_others(self) -> dict[str, set[str]]:
        """Returns the existing scopes whose names are not canonical; the store is asked once."""
        if self._others is None:
            others: dict[str, set[str]] = {}
            for scope in self._store.scopes():
                if not scope.startswith(RESERVED) and scope != canonical(scope):
                    others.setdefault(canonical(scope), set()).add(scope)
            self._others = others
        return self._others

    def _exists(self, scope: str) -> bool:
        return next(iter(self._store.scan(scope)), None) is not None
