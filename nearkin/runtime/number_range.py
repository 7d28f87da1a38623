"""The ranges of numbers, and the one message about a number that is not in its range."""

import math
from dataclasses import dataclass

from nearkin.errors import UsageError
from nearkin.runtime.setting_names import name_setting


@dataclass(frozen=True)
class NumberRange:
    """The values that a number may have.

    Attributes:
        least: The minimum.
        most: The maximum, or infinity. Infinity itself is never a value.
        excludes_least: Whether the minimum is not a value.
        excludes_most: Whether the maximum is not a value.

    Examples:
        >>> share = NumberRange(0, 1, excludes_least=True)
        >>> [share.contains(value) for value in (0.0, 0.8, 1.0, float("nan"))]
        [False, True, True, False]
        >>> str(share), str(NumberRange(1)), str(NumberRange(0, 63))
        ('above 0 and at most 1', 'at least 1', 'from 0 to 63')
    """

    least: float
    most: float = math.inf
    excludes_least: bool = False
    excludes_most: bool = False

    def contains(self, value: float) -> bool:
        """Returns whether a number is in the range."""
        is_above = value > self.least if self.excludes_least else value >= self.least
        is_below = value < self.most if self.excludes_most else value <= self.most
        return is_above and is_below and value != math.inf

    def require(self, name: str, value: float) -> None:
        """Requires that a number is in the range.

        Args:
            name: Name of the setting or argument, for the message.
            value: The number.

        Raises:
            UsageError: If it is not.
        """
        if value == self.most == math.inf:
            raise UsageError(f"{name_setting(name, value)} is not a finite number")
        if not self.contains(value):
            raise UsageError(f"{name_setting(name, value)} is out of range; it must be {self}")

    def __str__(self) -> str:
        if not (self.excludes_least or self.excludes_most) and self.most < math.inf:
            return f"from {self.least:,} to {self.most:,}"
        least = f"above {self.least:,}" if self.excludes_least else f"at least {self.least:,}"
        if self.most == math.inf:
            return least
        most = f"below {self.most:,}" if self.excludes_most else f"at most {self.most:,}"
        return f"{least} and {most}"


SHARE = NumberRange(0, 1)
SHARE_ABOVE_0 = NumberRange(0, 1, excludes_least=True)
OPEN_SHARE = NumberRange(0, 1, excludes_least=True, excludes_most=True)
COUNT = NumberRange(1)
COUNT_OR_NONE = NumberRange(0)
ABOVE_ZERO = NumberRange(0, excludes_least=True)
UNSIGNED_64 = NumberRange(0, 2**64 - 1)
