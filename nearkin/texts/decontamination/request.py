"""Requests to decontaminate a corpus: when an item counts as found, and what happens then."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple

from nearkin.errors import UsageError
from nearkin.runtime.setting_names import name_setting
from nearkin.runtime.suggestions import did_you_mean, require_choice
from nearkin.texts.passages.cutting.request import CUT_SPANS, CutRequest, CutUnit

SUITE_FIELDS = ("question", "answer", "context", "options")
"""The fields of an item by default. A suite needs only some of them."""
DEFAULT_THRESHOLD = 0.7
DEFAULT_THRESHOLDS = {"context": 0.9}
"""Fields that have another threshold by default. A context is often a public text, of which a
suite uses a part."""
GAP_WORDS = 8
"""The largest number of words between two passages of a chain, in the document and in the item."""


CONTAMINATION = "contamination"
"""The column of the items that a document holds, which annotated documents get."""


class OperatingPoint(NamedTuple):
    """The rules of a chain of passages."""

    name: str
    least: int
    """The smallest number of words of a passage."""
    has_gap: bool
    """True if a chain may consist of two passages with a gap between them."""


OPERATING_POINTS = {
    "exact": OperatingPoint("exact", 13, has_gap=False),
    "longest": OperatingPoint("longest", 8, has_gap=True),
}
DEFAULT_POINT = "longest"


class ContaminationAction(StrEnum):
    """The action on contaminated documents."""

    ANNOTATE = "annotate"
    CUT = "cut"
    DROP = "drop"


@dataclass(frozen=True)
class DecontaminationRequest:
    """A request to find the items of suites in documents.

    Attributes:
        point: What counts as a chain of passages.
        thresholds: Smallest score of a field that counts as found, in (0, 1], by the names of the
            fields that do not have the default threshold.
        action: What happens to contaminated documents, or None to list them only.
        cut: What is cut with a passage, if contaminated documents are cut.
    """

    point: OperatingPoint = OPERATING_POINTS[DEFAULT_POINT]
    thresholds: Mapping[str, float] = field(default_factory=dict)
    action: ContaminationAction | None = None
    cut: CutRequest | None = None

    @classmethod
    def parse(
        cls,
        operating_point: str = DEFAULT_POINT,
        field_thresholds: Mapping[str, float] | None = None,
        action: str | None = None,
        cut_unit: str | None = None,
    ) -> "DecontaminationRequest":
        """Returns the request that options make.

        Examples:
            >>> DecontaminationRequest.parse("exact", {"answer": 0.9}).threshold_of("question")
            0.7
        """
        require_choice("operating_point", operating_point, OPERATING_POINTS)
        for name, threshold in (field_thresholds or {}).items():
            if not 0 < threshold <= 1:
                raise UsageError(
                    f"{name_setting('field_thresholds')} for {name!r} is {threshold:g}, which is "
                    "out of range; a threshold is above 0 and at most 1"
                )
        if action is not None:
            require_choice("action", action, ContaminationAction)
        cut = None
        if action == ContaminationAction.CUT:
            cut = CutRequest.parse(cut_unit or str(CutUnit.PASSAGE))
            if cut.unit == CutUnit.DOCUMENT:
                raise UsageError(
                    f"{name_setting('cut_unit', cut_unit)} removes documents, and "
                    f"{name_setting('action', 'cut')} cuts parts of them; give "
                    f"{name_setting('action', 'drop')} instead"
                )
        elif cut_unit is not None:
            raise UsageError(
                f"{name_setting('cut_unit', cut_unit)} has no effect without "
                f"{name_setting('action', 'cut')}; add it, or leave it out"
            )
        return cls(
            point=OPERATING_POINTS[operating_point],
            thresholds=dict(field_thresholds or {}),
            action=None if action is None else ContaminationAction(action),
            cut=cut,
        )

    @property
    def added_columns(self) -> tuple[str, ...]:
        """The columns that the written documents get."""
        match self.action:
            case ContaminationAction.ANNOTATE:
                return (CONTAMINATION,)
            case ContaminationAction.CUT:
                return (CUT_SPANS,)
            case _:
                return ()

    def threshold_of(self, name: str) -> float:
        """Returns the smallest score at which a field counts as found."""
        default = DEFAULT_THRESHOLDS.get(name, DEFAULT_THRESHOLD)
        return float(self.thresholds.get(name, default))

    def require_fields(self, names: tuple[str, ...]) -> None:
        """Requires that every field with a threshold is one of the suites."""
        for name in self.thresholds:
            if name not in names:
                raise UsageError(
                    f"{name_setting('field_thresholds', name)} names no field of the suites, which "
                    f"have {', '.join(names)}{did_you_mean(name, names)}"
                )

    def to_record(self) -> dict[str, object]:
        """Returns the request as JSON values, to record and to resume a run."""
        return {
            "operating_point": self.point.name,
            "field_thresholds": dict(sorted(self.thresholds.items())),
            "action": None if self.action is None else str(self.action),
            "cut": None if self.cut is None else str(self.cut.unit),
        }
