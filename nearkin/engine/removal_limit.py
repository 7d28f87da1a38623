"""A limit on the share of the documents of one source that a run may remove."""

from collections.abc import Sequence
from typing import NamedTuple

from nearkin.errors import RunError, UsageError
from nearkin.runtime.number_format import format_percent
from nearkin.setting_names import SettingForm, current_form, name_flag, name_setting
from nearkin.suggestions import MAX_NAME_LENGTH

BLAMED_CLUSTERS = 3
"""The number of clusters that a message names."""
WITHOUT_VALUE = "(none)"


class BlamedCluster(NamedTuple):
    """A cluster that removes many documents of one source."""

    kept: str
    """The id of the kept document."""
    removed: int
    """The number of documents of the source that the cluster removes."""


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

    def refuse(self, excess: RemovedShare, clusters: Sequence[BlamedCluster]) -> None:
        """Raises the error of a run that removes too much.

        Args:
            excess: Value that loses too many of its documents.
            clusters: Clusters that remove most of them.

        Raises:
            RunError: If it is called. The message names the value and the clusters.
        """
        value = WITHOUT_VALUE if excess.value is None else _quote(excess.value)
        blamed = ", ".join(
            f"{_quote(cluster.kept)} removes {cluster.removed:,}" for cluster in clusters
        )
        remedy = "raise the limit"
        if current_form() is SettingForm.OPTION:
            remedy = f"repeat the command with a higher limit and {name_flag('resume')}"
        raise RunError(
            f"the run would remove {excess.removed:,} of {excess.documents:,} documents "
            f"({format_percent(excess.removed / excess.documents)}) with {self.column} {value}, "
            f"more than {name_setting('max_removed', f'{self.column}:{self.share:g}')} allows; "
            f"nothing was written. Of the kept documents, {blamed}. Look at them, then restrict "
            f"{name_setting('accept')}, or {remedy}"
        )


def _quote(text: str) -> str:
    """Returns a value or an id for a message. The end of a long one is left out."""
    if len(text) > MAX_NAME_LENGTH:
        return f"{text[:MAX_NAME_LENGTH]!r}…"
    return repr(text)
