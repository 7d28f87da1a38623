"""Requests to list, cut or remove lines that occur in several documents."""

from dataclasses import dataclass
from enum import StrEnum

from nearkin.errors import UsageError
from nearkin.runtime.setting_names import name_setting
from nearkin.runtime.suggestions import require_choice
from nearkin.stages.cluster.keep import DEFAULT_ORDER
from nearkin.texts.passages.cutting.request import CutUnit

LEAST_DOCUMENTS = 2


class LinesAction(StrEnum):
    """The action on repeated lines."""

    KEEP_ONE = "keep-one"
    REMOVE = "remove"
    REPORT = "report"


class Counted(StrEnum):
    """The things that are counted to decide whether a line is repeated."""

    DOCUMENTS = "documents"
    PLACES = "places"


@dataclass(frozen=True)
class LinesRequest:
    """A request to find the lines or paragraphs that occur several times.

    Attributes:
        unit: Lines or paragraphs.
        least: Number of documents, or of places, from which a line is repeated, at least 2.
        action: What is done with repeated lines.
        keep: Keep policy, whose order of documents decides where a line stays.
    """

    unit: CutUnit
    least: int
    action: LinesAction = LinesAction.KEEP_ONE
    keep: str = DEFAULT_ORDER
    counted: Counted = Counted.DOCUMENTS

    @classmethod
    def parse_options(
        cls,
        lines: int | str | None,
        paragraphs: int | str | None,
        action: str | None,
        keep: str | None,
    ) -> "LinesRequest | None":
        """Returns the request that options make, or None if neither unit is named.

        Examples:
            >>> LinesRequest.parse_options(3, None, "remove", None).action
            <LinesAction.REMOVE: 'remove'>
            >>> LinesRequest.parse_options("3:places", None, None, None).counted
            <Counted.PLACES: 'places'>
        """
        if lines is not None and paragraphs is not None:
            raise UsageError(
                f"{name_setting('repeated_lines', lines)} and "
                f"{name_setting('repeated_paragraphs', paragraphs)} exclude each other; run one "
                "after the other, with the documents that the first run keeps"
            )
        if lines is not None:
            return cls._parse_unit(CutUnit.LINE, "repeated_lines", lines, action, keep)
        if paragraphs is not None:
            name = "repeated_paragraphs"
            return cls._parse_unit(CutUnit.PARAGRAPH, name, paragraphs, action, keep)
        if action is not None:
            raise UsageError(
                f"{name_setting('lines_action', action)} has no effect without "
                f"{name_setting('repeated_lines')} or {name_setting('repeated_paragraphs')}; add "
                "one of them, or leave it out"
            )
        return None

    @classmethod
    def _parse_unit(
        cls, unit: CutUnit, name: str, written: int | str, action: str | None, keep: str | None
    ) -> "LinesRequest":
        number, colon, what = str(written).partition(":")
        counted = what if colon else str(Counted.DOCUMENTS)
        if not number.isdecimal() or counted not in list(Counted):
            raise UsageError(
                f"{name_setting(name, written)} is not of the form 3, 3:documents or 3:places"
            )
        least = int(number)
        if least < LEAST_DOCUMENTS:
            raise UsageError(
                f"{name_setting(name, written)} is out of range; it must be at least "
                f"{LEAST_DOCUMENTS}"
            )
        chosen = LinesAction.KEEP_ONE if action is None else action
        require_choice("lines_action", chosen, LinesAction)
        return cls(
            unit, least, LinesAction(chosen), keep or DEFAULT_ORDER, counted=Counted(counted)
        )

    @property
    def setting(self) -> str:
        """The name of the setting that makes the request."""
        return f"repeated_{self.unit}s"

    @property
    def is_cut(self) -> bool:
        """True if documents are rewritten."""
        return self.action != LinesAction.REPORT

    def require_alone(self, **others: str | float | None) -> None:
        """Requires that no settings of passages are given for the same run."""
        for other, value in others.items():
            if value:
                raise UsageError(
                    f"{name_setting(other, value)} has no effect with "
                    f"{name_setting(self.setting, self.least)}, which finds {self.unit}s instead "
                    "of passages; leave one out"
                )

    def to_record(self) -> dict[str, object]:
        """Returns the request as JSON values, to record and to resume a run."""
        return {
            "unit": str(self.unit),
            str(self.counted): self.least,
            "action": str(self.action),
            "keep": self.keep,
        }
