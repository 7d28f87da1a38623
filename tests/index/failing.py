"""A store that fails."""

from typing import Any

from nearkin.errors import StoreError
from nearkin.index.changes import Changes


class Failing:
    """A store whose n-th step fails in the middle."""

    def __init__(self, store: Any, when: int) -> None:
        self._store, self._left = store, when

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._store, name)
        if name != "apply":
            return method

        def apply(changes: Changes) -> list[int]:
            self._left -= 1
            if self._left == 0:
                raise StoreError("connection lost")
            numbers: list[int] = method(changes)
            return numbers

        return apply
