"""Limits on the shares of the documents that a run may remove.

A wrong setting removes unique documents, and the run still ends well. So a run is doubted if it
removes most documents as near-duplicates, or if most of the removed documents are about as similar
to another kept document as to their own.
"""

from collections.abc import Callable, Sequence
from math import ceil
from typing import NamedTuple

from nearkin.engine.stats import RunStats
from nearkin.errors import RunError, UsageError
from nearkin.runtime.number_format import format_percent, format_similarity
from nearkin.runtime.setting_names import SettingForm, current_form, name_flag, name_setting
from nearkin.runtime.suggestions import MAX_NAME_LENGTH
from nearkin.runtime.visible_text import make_visible

DEFAULT_SHARE = 0.5
"""The largest share of the documents that a run may remove as near-duplicates by default."""
ADVISED_SHARE = 0.9
"""The share that the message of a doubted run advises if the run removes fewer documents."""
LEAST_DOUBTED = 10
"""The number of removed near-duplicates from which a run can be doubted. Fewer are seen at a
glance."""
SHORT_TEXT = 24
"""The largest size in bytes of a text that unique documents are expected to share, for example the
name of a city. Exact copies of such texts count as near-duplicates do."""
NEARLY_AS_CLOSE = 1.25
"""The largest ratio of two distances (1 minus the similarity) that count as about the same."""
QUOTED_PAIRS = 3
"""The number of pairs that the message of a doubted run quotes."""
QUOTED_CHARACTERS = 100
"""The number of characters that it quotes of a document."""
MOST_BLAMED = 3
"""The number of documents that the message of an exceeded limit of a column names."""
WITHOUT_VALUE = "(none)"


class WrongShare(NamedTuple):
    """The share of removals that are expected to be wrong, and 90 % of the runs around it."""

    low: float
    mean: float
    high: float


WRONG_SHARES = (
    (0.01, WrongShare(0.00, 0.03, 0.18)),
    (0.05, WrongShare(0.00, 0.06, 0.25)),
    (0.1, WrongShare(0.00, 0.04, 0.28)),
    (0.2, WrongShare(0.00, 0.09, 0.33)),
    (0.35, WrongShare(0.00, 0.20, 0.45)),
    (0.5, WrongShare(0.00, 0.26, 0.47)),
    (0.75, WrongShare(0.00, 0.25, 0.62)),
    (1.0, WrongShare(0.00, 0.34, 0.99)),
)
"""The shares of wrong removals up to shares of doubtful ones. benchmarks/doubtful.py measures them.
"""
LARGEST_PRECISION = 1 - WRONG_SHARES[0][1].mean
"""The largest precision that a run is expected to have."""


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


class ColumnLimit(NamedTuple):
    """The largest share of the documents of each value of a column that a run may remove."""

    column: str
    share: float

    def is_exceeded(self, removed: int, documents: int) -> bool:
        """Returns whether more documents of a value are removed than the limit allows."""
        return removed / documents > self.share

    def refuse(
        self, excess: RemovedShare, blamed: Sequence[BlamedDocument], *, can_resume: bool
    ) -> None:
        """Raises the error of a run that removes too much."""
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
            remedy = f"repeat the command with a higher limit{_with_resume(can_resume=can_resume)}"
        raise RunError(
            f"the run would remove {excess.removed:,} of {excess.documents:,} documents "
            f"({format_percent(excess.removed / excess.documents)}) with {self.column} {value}, "
            f"more than {name_setting('max_removed', f'{self.column}:{self.share:g}')} allows; "
            f"nothing was written.{cause}{look} {name_setting('accept')}, or {remedy}"
        )


class RemovalLimits(NamedTuple):
    """The limits of a run."""

    share: float = DEFAULT_SHARE
    """The largest share of the documents that may be removed as near-duplicates. Exact copies do
    not count, except those of short texts, and those whose values may differ because they are
    masked."""
    is_given: bool = False
    """True if the user chose this share."""
    column: ColumnLimit | None = None

    @classmethod
    def parse(cls, limits: float | str | None) -> "RemovalLimits":
        """Parses a share, `COLUMN:SHARE`, or both with a comma between them.

        Examples:
            >>> RemovalLimits.parse("source:0.8")
            RemovalLimits(share=0.5, is_given=False, column=ColumnLimit(column='source', share=0.8))
            >>> RemovalLimits.parse("0.9,source:0.8").share, RemovalLimits.parse(1).share
            (0.9, 1.0)
        """
        share: float | None = None
        column: ColumnLimit | None = None
        for part in [] if limits is None else str(limits).split(","):
            name, separator, number = part.strip().rpartition(":")
            value = _parse_share(number)
            is_column = bool(separator)
            is_repeated = (column if is_column else share) is not None
            if value is None or is_repeated or is_column != bool(name):
                raise UsageError(
                    f"{name_setting('max_removed', limits)} is not valid; write it as SHARE, for "
                    "example 0.9, as COLUMN:SHARE, for example source:0.5, or as both, for example "
                    "0.9,source:0.5, with shares from 0 to 1"
                )
            if is_column:
                column = ColumnLimit(name, value)
            else:
                share = value
        return cls(DEFAULT_SHARE if share is None else share, share is not None, column)


def parse_expected(text: str) -> float:
    """Returns the least precision of an expectation.

    Examples:
        >>> parse_expected("precision>=0.9"), parse_expected("precision >= 0.85")
        (0.9, 0.85)
    """
    name, _, number = text.partition(">=")
    least = _parse_share(number)
    if name.strip() != "precision" or least is None:
        raise UsageError(
            f"{name_setting('expect', text)} is not valid; write it as precision>=SHARE, for "
            "example precision>=0.9, with a share from 0 to 1"
        )
    if least > LARGEST_PRECISION:
        raise UsageError(
            f"{name_setting('expect', text)} is never expected without labels: the mean precision "
            f"of the best runs over labelled sets is {LARGEST_PRECISION:g}; require less, or audit "
            "the run"
        )
    return least


class QuotedPair(NamedTuple):
    """A removed document and the kept one, as the message of a doubted run quotes them."""

    similarity: float
    removed: str
    """The id of the removed document."""
    removed_text: str
    kept: str
    """The id of the kept document."""
    kept_text: str
    """The text of the kept document, or an empty one for a document of a reference."""


class Doubt(NamedTuple):
    """The reason to doubt that the documents that a run removes are duplicates."""

    reason: str
    """A sentence without its end."""
    advised_share: float
    """The limit with which the run is not doubted."""

    def describe(
        self, pairs: Sequence[QuotedPair], ending: str, *, is_refused: bool = False
    ) -> str:
        """Returns the message of a doubted run."""
        outcome = "; nothing was written" if is_refused else ""
        lines = [f"{self.reason}{outcome}. The least similar of them:"]
        for pair in pairs:
            kept = f"kept     {_quote(pair.kept)}"
            if pair.kept_text:
                kept += f": {_quote_text(pair.kept_text)}"
            lines += [
                f"  {format_similarity(pair.similarity)}  removed  {_quote(pair.removed)}: "
                f"{_quote_text(pair.removed_text)}",
                f"         {kept}",
            ]
        return "\n".join([*lines, ending])

    def advise(self, *, can_resume: bool = False) -> str:
        """Returns what a user can do about a doubted run."""
        limit = name_setting("max_removed", self.advised_share)
        repetition = f"set {limit}"
        if current_form() is SettingForm.OPTION:
            repetition = f"repeat the command with {limit}{_with_resume(can_resume=can_resume)}"
        return (
            f"If they are not duplicates, raise {name_setting('threshold')} or compare other "
            f"columns. If the documents really are copies of each other, {repetition}"
        )


def doubt_removals(stats: RunStats, limits: RemovalLimits) -> Doubt | None:
    """Returns why the result of a run is doubted, or None if it is not."""
    clusters = stats.cluster
    if clusters is None or clusters.contents is None:
        return None
    removed = clusters.contents_removed or 0
    if stats.second_measure is not None:
        removed += stats.second_measure.removed - stats.second_measure.taken_back
    if removed < LEAST_DOUBTED:
        return None
    share = removed / clusters.contents
    counts = (
        f"the run removes {removed:,} of {clusters.contents:,} documents "
        f"({format_percent(share)}) as near-duplicates"
    )
    advised_share = max(ADVISED_SHARE, ceil(share * 100) / 100)
    if share > limits.share:
        exceeded = name_setting("max_removed", limits.share)
        return Doubt(
            f"{counts} or as copies of texts of at most {SHORT_TEXT} bytes or with masked values, "
            f"more than {exceeded} allows; other exact copies do not count",
            advised_share,
        )
    between = clusters.between or 0
    if limits.share <= DEFAULT_SHARE and between > removed / 2:
        return Doubt(
            f"{counts}, and {between:,} of them are about as similar to another kept "
            "document as to their own, as unique documents with common parts are",
            advised_share,
        )
    return None


def examine_removals(
    stats: RunStats,
    limits: RemovalLimits,
    quote: Callable[[], Sequence[QuotedPair]],
    *,
    strict: bool = False,
) -> str | None:
    """Returns the warning of a result of the library that is doubted, or None."""
    doubt = doubt_removals(stats, limits)
    if doubt is None:
        return None
    message = doubt.describe(quote(), doubt.advise())
    if strict or limits.is_given:
        raise RunError(message)
    return message


def _with_resume(*, can_resume: bool) -> str:
    """Returns how a command that stopped is resumed, if it can be."""
    return f" and {name_flag('resume')}" if can_resume else ""


def _parse_share(text: str) -> float | None:
    """Returns a share from 0 to 1, or None if the text is not one."""
    try:
        share = float(text)
    except ValueError:
        return None
    return share if 0 <= share <= 1 else None


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


def _quote_text(text: str) -> str:
    """Returns the beginning of a document on one line."""
    line = make_visible(" ".join(text[: 2 * QUOTED_CHARACTERS].split()))
    return f"{line[:QUOTED_CHARACTERS]}…" if len(line) > QUOTED_CHARACTERS else line
