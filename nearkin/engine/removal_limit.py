"""A limit on the share of the documents of one source that a run may remove."""

from collections.abc import Sequence
from typing import NamedTuple

from nearkin.errors import RunError, UsageError
from nearkin.runtime.number_format import format_percent
from nearkin.setting_names import SettingForm, current_form, name_flag, name_setting
from nearkin.suggestions import MAX_NAME_LENGTH

MOST_BLAMED = 3
"""The number of documents that a message names."""
WITHOUT_VALUE = "(none)"


class BlamedDocument(NamedTuple):
    """A document because of which a run removes many documents of one source."""

    id: str
    removed: int
    """The number of documents of the source that are removed because of it."""
    in_reference: bool = False
    """True if it is a document of the reference, and not a kept one of the run."""


class RemovedShare(NamedTuple):
    """The documents of one value of a column, and how many of them a run would remove."""

    value: str | None
    documents: int
    removed: int


class RemovalLimit(NamedTuple):
    """The largest share of the documents of each value of a column that a run may remove."""

    column: str
    share: float

    @classmethod
    def parse(cls, text: str) -> "RemovalLimit":
        """Parses the form `COLUMN:SHARE`.

        Raises:
            UsageError: If the text does not have this form, or the share is not from 0 to 1.

        Examples:
            >>> RemovalLimit.parse("source:0.5")
            RemovalLimit(column='source', share=0.5)
        """
        column, _, number = text.rpartition(":")
        try:
            share = float(number)
        except ValueError:
            share = -1.0
        if not column or not 0 <= share <= 1:
            raise UsageError(
                f"{name_setting('max_removed', text)} is not valid; write it as COLUMN:SHARE with "
                "a share from 0 to 1, for example source:0.5"
            )
        return cls(column, share)

    def is_exceeded(self, removed: int, documents: int) -> bool:
        """Returns whether more documents of a value are removed than the limit allows.

        Args:
            removed: Number of removed documents of the value.
            documents: Number of documents of the value, at least 1.
        """
        return removed / documents > self.share

    def refuse(self, excess: RemovedShare, blamed: Sequence[BlamedDocument]) -> None:
        """Raises the error of a run that removes too much.

        Args:
            excess: Value that loses too many of its documents.
            blamed: Documents because of which most of them are removed. A message names those that
                remove most. There are none if all are empty, or repeat blocked documents.

        Raises:
            RunError: If it is called. The message names the value and these documents.
        """
        value = WITHOUT_VALUE if excess.value is None else _quote(excess.value)
        named = sorted(blamed, key=lambda document: -document.removed)[:MOST_BLAMED]
        cause = "".join(
            f" Of the {name}, {_join_blamed(part)}."
            for name, part in (
                ("kept documents", [document for document in named if not document.in_reference]),
                ("reference", [document for document in named if document.in_reference]),
            )
            if part
        )
        look = " Look at them, then restrict" if named else " Restrict"
        remedy = "raise the limit"
        if current_form() is SettingForm.OPTION:
            remedy = f"repeat the command with a higher limit and {name_flag('resume')}"
        raise RunError(
            f"the run would remove {excess.removed:,} of {excess.documents:,} documents "
            f"({format_percent(excess.removed / excess.documents)}) with {self.column} {value}, "
            f"more than {name_setting('max_removed', f'{self.column}:{self.share:g}')} allows; "
            f"nothing was written.{cause}{look} {name_setting('accept')}, or {remedy}"
        )


def _join_blamed(documents: Sequence[BlamedDocument]) -> str:
    """Returns how many documents each of some documents removes, for a message."""
    return ", ".join(
        f"{_quote(document.id)} removes {document.removed:,}" for document in documents
    )


def _quote(text: str) -> str:
    """Returns a value or an id for a message. The end of a long one is left out."""
    if len(text) > MAX_NAME_LENGTH:
        return f"{text[:MAX_NAME_LENGTH]!r}…"
    return repr(text)
