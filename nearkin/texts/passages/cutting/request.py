"""Requests to cut repeated passages: what is removed with a passage, and what must be left."""

from dataclasses import dataclass
from enum import StrEnum

from nearkin.errors import UsageError
from nearkin.runtime.number_range import COUNT_OR_NONE
from nearkin.runtime.setting_names import name_setting
from nearkin.runtime.suggestions import did_you_mean
from nearkin.stages.cluster.keep import DEFAULT_ORDER
from nearkin.stages.winnowing import TOKEN_NAMES

CUT_SPANS = "cut_spans"
"""The column of the bytes that were cut from a document."""


class CutUnit(StrEnum):
    """The smallest part of a text that is cut."""

    PASSAGE = "passage"
    SENTENCE = "sentence"
    LINE = "line"
    PARAGRAPH = "paragraph"
    DOCUMENT = "document"


@dataclass(frozen=True)
class CutRequest:
    """A request to cut repeated passages.

    Attributes:
        unit: The smallest part that is cut: the words of a passage themselves; or sentences, lines
            or paragraphs of which every word is to be cut; or whole documents.
        share: Share of the bytes of a document from which it is removed, in (0, 1], for documents.
            0 for any other unit.
        min_left: Number of words below which the rest of a cut document is removed, too.
        keep: Keep policy, whose order of documents decides where a passage stays.
    """

    unit: CutUnit
    share: float = 0.0
    min_left: int = 0
    keep: str = DEFAULT_ORDER

    @classmethod
    def parse(cls, cut: str, min_left: int = 0, keep: str = DEFAULT_ORDER) -> "CutRequest":
        """Parses a unit as it is written on the command line.

        Examples:
            >>> CutRequest.parse("document:0.5").share
            0.5
        """
        name, colon, written_share = cut.partition(":")
        units = list(CutUnit)
        if name not in units:
            raise UsageError(
                f"{name_setting('cut_unit', cut)} is not one of passage, sentence, line, "
                f"paragraph, document:SHARE{did_you_mean(name, units)}"
            )
        unit = CutUnit(name)
        share = 0.0
        if unit == CutUnit.DOCUMENT:
            share = _parse_share(cut, written_share)
        elif colon:
            raise UsageError(
                f"{name_setting('cut_unit', cut)} is not valid: only document has a share; "
                f"write {name}"
            )
        COUNT_OR_NONE.require("min_left", min_left)
        if min_left and unit == CutUnit.DOCUMENT:
            raise UsageError(
                f"{name_setting('min_left', min_left)} has no effect with "
                f"{name_setting('cut_unit', cut)}, which keeps documents whole; leave it out"
            )
        return cls(unit, share, min_left, keep)

    @classmethod
    def parse_options(
        cls, cut: str | None, min_left: int = 0, keep: str | None = None
    ) -> "CutRequest | None":
        """Returns the request that options make, or None if nothing is cut."""
        if cut is not None:
            return cls.parse(cut, min_left, keep or DEFAULT_ORDER)
        if min_left:
            raise UsageError(_describe_missing_cut(name_setting("min_left", min_left)))
        if keep is not None:
            raise UsageError(_describe_missing_cut(name_setting("keep", keep)))
        return None

    def to_record(self) -> dict[str, object]:
        """Returns the request as JSON values, to record and to resume a run."""
        name = str(self.unit)
        if self.unit == CutUnit.DOCUMENT:
            name = f"{name}:{self.share}"
        return {"cut": name, "min_left": self.min_left, "keep": self.keep}


@dataclass(frozen=True)
class CutCounts:
    """The counts of a cut.

    Attributes:
        cuts: Number of parts that were cut from kept documents.
        cut_bytes: Number of their bytes.
        documents_cut: Number of kept documents from which something was cut.
        documents_removed: Number of documents that were removed as a whole.
        removed_bytes: Number of bytes of these documents.
    """

    cuts: int
    cut_bytes: int
    documents_cut: int
    documents_removed: int
    removed_bytes: int


@dataclass(frozen=True)
class PassageRequest:
    """A request to cut the passages of the documents that a deduplication keeps.

    Attributes:
        least: Smallest number of words of a passage, or of characters.
        cut: What is cut. The keep order is that of the deduplication.
        unit: Unit of a passage: `words` or `chars`.
    """

    least: int
    cut: CutRequest
    unit: str = "words"

    @classmethod
    def parse(
        cls, passages: str | int | None, cut: str | None, min_left: int = 0
    ) -> "PassageRequest | None":
        """Returns the request that options make, or None if no passages are cut.

        Examples:
            >>> PassageRequest.parse("50:words", "line").to_record()
            {'min_tokens': 50, 'cut': 'line', 'min_left': 0}
        """
        if passages is None:
            for name, value in (("cut_unit", cut), ("min_left", min_left)):
                if value:
                    raise UsageError(
                        f"{name_setting(name, value)} has no effect without "
                        f"{name_setting('passages')}; add {name_setting('passages', '50')}, or "
                        "leave it out"
                    )
            return None
        number, colon, unit = str(passages).partition(":")
        unit = unit if colon else "words"
        if not number.isdecimal() or unit not in TOKEN_NAMES:
            raise UsageError(
                f"{name_setting('passages', passages)} is not of the form 50, 50:words or 50:chars"
            )
        return cls(int(number), CutRequest.parse(cut or str(CutUnit.PASSAGE), min_left), unit)

    def to_record(self) -> dict[str, object]:
        """Returns the request as JSON values, to record and to resume a run."""
        cut = self.cut.to_record()
        record: dict[str, object] = {
            "min_tokens": self.least,
            "cut": cut["cut"],
            "min_left": cut["min_left"],
        }
        if self.unit != "words":
            record["unit"] = self.unit
        return record


def _describe_missing_cut(setting: str) -> str:
    cut = name_setting("cut_unit", str(CutUnit.PASSAGE))
    return f"{setting} has no effect, because nothing is cut; add {cut}, or leave it out"


def _parse_share(cut: str, written: str) -> float:
    try:
        share = float(written)
    except ValueError:
        share = 0.0
    if not 0 < share <= 1:
        raise UsageError(
            f"{name_setting('cut_unit', cut)} is not valid; write document:SHARE with a share "
            "above 0 and at most 1, for example document:0.5"
        )
    return share
