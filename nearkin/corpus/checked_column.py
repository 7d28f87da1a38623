"""The result of checking a column of the inputs: its values, and why some were rejected."""

from typing import NamedTuple

import numpy as np
import pyarrow as pa


class CheckedColumn(NamedTuple):
    """A column in the type of a batch, and the reasons for rejections by position.

    Rejected values are null or have no meaning.
    """

    values: pa.Array
    reasons: dict[int, str]


def null_reason(name: str) -> str:
    """Returns the reason for the rejection of a value that is null."""
    return f"{name} is null"


def reasons_of_rows(mask: pa.Array, reason: str) -> dict[int, str]:
    """Returns one reason for each row at which the mask, bool (n,), is true."""
    return dict.fromkeys(np.flatnonzero(mask.to_numpy(zero_copy_only=False)).tolist(), reason)
