"""The numbers of a plan with their formulas, and the verdicts on limits."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Line:
    """One number of a plan.

    Attributes:
        part: Part of the plan: accuracy, memory, throughput, recall, brute force, or the name of an
            engine.
        name: Name of the number.
        value: The number.
        unit: Unit of the number. Empty for counts.
        formula: Formula of the number, with the values that it uses.
    """

    part: str
    name: str
    value: float
    unit: str
    formula: str


@dataclass(frozen=True)
class LimitVerdict:
    """The comparison of a limit with what the plan needs.

    Attributes:
        limit: Name of the limit.
        asked: Requested value.
        needed: Value that the plan needs or reaches.
        unit: Unit of both values. Empty for counts.
        holds: True if the limit is met.
        gives: Alternatives that would meet the limit, if it is not met.
    """

    limit: str
    asked: float
    needed: float
    unit: str
    holds: bool
    gives: tuple[str, ...] = ()


class PlanLines:
    """Collects the lines and verdicts of a plan while they are computed."""

    def __init__(self) -> None:
        self.lines: list[Line] = []
        self.verdicts: list[LimitVerdict] = []

    def add(self, part: str, name: str, value: float, unit: str, formula: str) -> float:
        """Adds a line to the plan. Returns its value."""
        self.lines.append(Line(part, name, float(value), unit, formula))
        return float(value)

    def add_limit(
        self, limit: str, asked: float | None, needed: float, unit: str, *alternatives: str
    ) -> None:
        """Adds the verdict on an upper limit, if there is one."""
        if asked is not None:
            gives = () if needed <= asked else tuple(filter(None, alternatives))
            self.verdicts.append(LimitVerdict(limit, asked, needed, unit, needed <= asked, gives))

    def add_goal(self, goal: str, asked: float | None, reached: float, *alternatives: str) -> None:
        """Adds the verdict on a share that is to be reached, if there is one."""
        if asked is not None:
            holds = reached >= asked - 1e-12
            gives = () if holds else tuple(filter(None, alternatives))
            self.verdicts.append(LimitVerdict(goal, asked, reached, "", holds, gives))
