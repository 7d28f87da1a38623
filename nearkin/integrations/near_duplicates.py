"""The search for texts that repeat an earlier one, for the pipelines of other libraries."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar, Unpack

from nearkin.corpus.arrow_conversion import type_name
from nearkin.errors import UsageError
from nearkin.index.entry import require_scope
from nearkin.index.index import Index
from nearkin.index.settings import SettingsFields, merge_settings
from nearkin.runtime.argument_types import check_arguments
from nearkin.runtime.setting_names import name_setting
from nearkin.settings.spec import Spec

T = TypeVar("T")
BATCH = 1000
"""The number of texts that are sent to an index at a time."""
DROP = "drop"
MARK = "mark"
"""The actions for near-duplicates: leave them out, or keep them and name the text they repeat."""
NEAR_DUPLICATE_OF = "near_duplicate_of"
"""The entry of metadata that names the id of the text that a marked one repeats."""


class NearDuplicateFinder:
    """Finds texts that repeat an earlier one, of the same call or of an index.

    A text repeats another one if their similarity reaches the threshold. The first one counts. A
    finder can be pickled, and every process opens the index for itself.

    Args:
        store: URL of the index in which all texts are kept, so that later calls find them. None to
            compare the texts of each call alone.
        scope: Scope of the texts in the index.
        threshold: Smallest similarity of near-duplicates. By default that of the index, or 0.8.
        spec: Spec of the signatures. By default that of the index, or `Spec()`.
        **settings: Further parameters of `Index.open`.

    Raises:
        UsageError: If a parameter is unknown, of another type or out of range.

    Examples:
        >>> finder = NearDuplicateFinder(threshold=0.5)
        >>> finder.find(["one two three four", "five six", "One two three four!"], ["a", "b", "c"])
        [None, None, 'a']
    """

    @check_arguments
    def __init__(
        self,
        store: str | None = None,
        scope: str = "default",
        threshold: float | None = None,
        spec: Spec | None = None,
        **settings: Unpack[SettingsFields],
    ) -> None:
        # The first call opens the index, when a pipeline may have worked for hours.
        merge_settings(None, None, spec, threshold, settings)
        require_scope(scope)
        self.store = store
        self.scope = scope
        self._threshold = threshold
        self._spec = spec
        self._settings = settings
        self._index: Index | None = None

    def find(self, texts: Sequence[str], ids: Sequence[str]) -> list[str | None]:
        """Returns the id of the text that each one repeats, or None for a text to keep.

        A text that is already in the index under the same id does not repeat itself, so a call can
        be made again. A text without words repeats nothing.

        Args:
            texts: Texts.
            ids: Their ids, which must be the same if the texts come again.

        Raises:
            UsageError: If the numbers of texts and ids differ, or a value is not a text or is too
                large.
            StoreError: If the store fails.
        """
        if len(texts) != len(ids):
            raise UsageError(f"{len(texts)} texts have {len(ids)} ids; give one for each")
        for row, text in enumerate(texts):
            if not isinstance(text, str):
                raise UsageError(
                    f"text {row} is of the type {type_name(text)}; give texts, and an empty one "
                    "for a document without text"
                )
        rows = [row for row, text in enumerate(texts) if text.strip()]
        repeated: list[str | None] = [None] * len(texts)
        if not rows:
            return repeated
        if self.store is None:
            # The same id may come twice, from two searches. It is the same text then.
            with self._open("memory://") as index:
                names = [str(row) for row in rows]
                for row, name in zip(rows, self._resolve(index, texts, rows, names), strict=True):
                    repeated[row] = None if name is None else ids[int(name)]
            return repeated
        if self._index is None:
            self._index = self._open(self.store)
        names = [ids[row] for row in rows]
        for row, name in zip(rows, self._resolve(self._index, texts, rows, names), strict=True):
            repeated[row] = name
        return repeated

    def close(self) -> None:
        """Closes the index. A later call opens it again."""
        if self._index is not None:
            self._index.close()
            self._index = None

    def _open(self, url: str) -> Index:
        return Index.open(url, self._spec, self._threshold, **self._settings)

    def _resolve(
        self, index: Index, texts: Sequence[str], rows: Sequence[int], names: Sequence[str]
    ) -> list[str | None]:
        """Stores texts in order, and returns the name that each of them repeats, or None."""
        repeated: list[str | None] = []
        size = min(BATCH, index.settings.max_batch)
        for start in range(0, len(rows), size):
            block = [texts[row] for row in rows[start : start + size]]
            outcomes = index.upsert_many(self.scope, block, names[start : start + size])
            repeated += [
                outcome.representative if outcome.duplicate else None for outcome in outcomes
            ]
        return repeated

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_index": None}


def require_action(action: str) -> None:
    """Requires the name of an action for near-duplicates.

    Raises:
        UsageError: If it is unknown.
    """
    if action not in (DROP, MARK):
        raise UsageError(f"{name_setting('action', action)} is unknown; choose {DROP} or {MARK}")


def drop_or_mark(
    documents: Iterable[T],
    originals: Iterable[str | None],
    action: str,
    mark: Callable[[T, str], T],
) -> list[T]:
    """Returns the documents that stay, in the same order.

    Args:
        documents: The documents.
        originals: The id of the document that each one repeats, or None.
        action: `drop` or `mark`.
        mark: Function that returns a near-duplicate with the id of the document it repeats.
    """
    stay = []
    for document, original in zip(documents, originals, strict=True):
        if original is None:
            stay.append(document)
        elif action == MARK:
            stay.append(mark(document, original))
    return stay
