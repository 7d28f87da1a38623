"""The committed Unicode tables, changed for the normalization steps of a Spec.

Kernels take tables instead of options.
"""

from functools import cache
from importlib.resources import files

import numpy as np

from nearkin.shingle.normalization import kernels
from nearkin.shingle.normalization.kernels import CodePointTables
from nearkin.spec import UNICODE_VERSION

DIGIT, VISIBLE = np.uint32(16), np.uint32(32)
CLASS = np.uint32(0xFF00)
ZERO = np.uint32(ord("0"))


@cache
def tables_for(steps: tuple[str, ...]) -> CodePointTables:
    """Returns tables with which the kernels perform exactly these normalization steps.

    Args:
        steps: Normalization steps.
    """
    with (
        files(__package__).joinpath(f"unicode-{UNICODE_VERSION}.npz").open("rb") as file,
        np.load(file) as arrays,
    ):
        tables = CodePointTables(
            **{name: np.ascontiguousarray(arrays[name]) for name in CodePointTables._fields}
        )
    if "lower" not in steps:
        tables.lower[:] = 0
    if "digits" in steps:
        _fold_digits(tables)
    if "punctuation" in steps:
        tables.properties[_kind(tables, kernels.OTHER) & _flag(tables, VISIBLE)] |= kernels.SINGLE
    _mark_unstable(tables, steps)
    return tables


def _kind(tables: CodePointTables, kind: np.uint32) -> np.ndarray:
    return np.asarray((tables.properties & kernels.KIND) == kind)


def _flag(tables: CodePointTables, flag: np.uint32) -> np.ndarray:
    return np.asarray((tables.properties & flag) != 0)


def _fold_digits(tables: CodePointTables) -> None:
    """Maps every decimal digit to 0.

    Each block with digits occurs once, so the position of a property determines its code point.
    """
    points = np.zeros(len(tables.properties), np.uint32)
    for number, block in enumerate(tables.stage):
        points[block * 128 : (block + 1) * 128] = np.arange(number * 128, (number + 1) * 128)
    digits = _flag(tables, DIGIT)
    tables.lower[digits] = ZERO - points[digits]


def _mark_unstable(tables: CodePointTables, steps: tuple[str, ...]) -> None:
    if "nfkc" not in steps:
        tables.properties[:] &= ~(kernels.UNSTABLE | CLASS)
    if "marks" in steps:
        tables.properties[_flag(tables, kernels.MARK) | (tables.decomposed != 0)] |= (
            kernels.UNSTABLE
        )
    else:
        tables.properties[:] &= ~kernels.MARK
