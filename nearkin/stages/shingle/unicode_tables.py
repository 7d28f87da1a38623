"""The committed Unicode tables, changed for the normalization steps of a Spec.

Kernels take tables instead of options. There is a file for each version of the contract of texts,
which `scripts/make_unicode_tables.py` writes.
"""

from functools import cache
from importlib.resources import files

import numpy as np

from nearkin.runtime.threads import ARRAY_HEADERS
from nearkin.settings.spec import FORMAT_VERSION, UNICODE_VERSION
from nearkin.stages.shingle.normalization import kernels
from nearkin.stages.shingle.normalization.kernels import CodePointTables

VISIBLE = np.uint32(32)
SYMBOL = np.uint32(1 << 17)
CLASS = np.uint32(0xFF00)
ZERO = np.uint32(ord("0"))
HYPHEN = np.uint32(ord("-"))
TATWEEL = np.uint32(0x640)
YPOGEGRAMMENI = np.uint32(0x345)
"""A mark that a case fold makes a letter, so that it does not compose any more."""
JAMO = np.r_[0x1161:0x1176, 0x11A8:0x11C3].astype(np.uint32)
"""The vowels and final consonants of which Hangul syllables are composed."""
BLOCK = 128
"""The number of consecutive code points whose properties are stored together."""
MAX_STEP = 255
"""The largest distance to the lower case that an action has room for."""


@cache
def tables_for(steps: tuple[str, ...], version: int = FORMAT_VERSION) -> CodePointTables:
    """Returns tables with which the kernels perform exactly these normalization steps."""
    name = f"unicode-{UNICODE_VERSION}-v{version}.npz"
    path = files(__package__).joinpath(name)
    with path.open("rb") as file, ARRAY_HEADERS, np.load(file) as arrays:
        stored = {name: np.ascontiguousarray(arrays[name]) for name in arrays}
    folded = stored.pop("folded", None)
    tables = CodePointTables(
        **stored,
        actions=np.zeros(len(stored["properties"]), np.uint16),
        plane=np.empty(kernels.PLANE, np.uint16),
        composes="nfkc" in steps,
        covers_symbols=version > 1,
    )
    if version == 1:
        # all bases lose their marks
        tables.properties[:] |= kernels.BASE
    tables = _choose_compositions(tables, steps)
    _mark_unstable(tables, steps)
    if "lower" not in steps:
        tables.lower[:] = 0
    elif folded is not None:
        _fold_fully(tables, folded)
    if "digits" in steps:
        _fold_digits(tables)
    _choose_tokens(tables, steps)
    if "nfkc" in steps:
        _mark_seconds(tables)
    tables.actions[:] = _actions(tables)
    tables.plane[:] = tables.actions[_places(tables, np.arange(kernels.PLANE, dtype=np.uint32))]
    return tables


def _kind(tables: CodePointTables, kind: np.uint32) -> np.ndarray:
    return np.asarray((tables.properties & kernels.KIND) == kind)


def _flag(tables: CodePointTables, flag: np.uint32) -> np.ndarray:
    return np.asarray((tables.properties & flag) != 0)


def _places(tables: CodePointTables, points: np.ndarray) -> np.ndarray:
    blocks = tables.stage[points >> 7].astype(np.int64)
    return blocks << 7 | points & 127


def _points(tables: CodePointTables) -> np.ndarray:
    """Returns the first code point that has the properties at each position, uint32."""
    points = np.zeros(len(tables.properties), np.uint32)
    blocks, firsts = np.unique(tables.stage, return_index=True)
    points.reshape(-1, BLOCK)[blocks] = firsts[:, np.newaxis] * BLOCK + np.arange(BLOCK)
    return points


def _actions(tables: CodePointTables) -> np.ndarray:
    """Returns how each code point is treated in place, in the layout of `properties`, uint16."""
    unstable = _flag(tables, kernels.UNSTABLE)
    is_ordered = _flag(tables, CLASS)
    is_alone = _kind(tables, kernels.SINGLE)
    is_outside = _kind(tables, kernels.OTHER) | _kind(tables, kernels.SPACE)
    is_outside &= ~unstable & ~is_ordered & (tables.lower == 0)
    is_outside |= unstable & _stays_outside(tables, is_outside)
    joins = _joins_caseless(tables)
    unstable &= ~is_outside & ~joins
    is_cut = is_outside | (is_alone & ~unstable & ~is_ordered & ~joins & (tables.lower == 0))
    points = _points(tables).astype(np.int64)
    steps = tables.lower.astype(np.int32)
    keeps_size = _utf8_sizes(points) == _utf8_sizes(points + steps)
    is_slow = unstable | _kind(tables, kernels.SKIP) | (steps < 0) | (steps > MAX_STEP)
    is_slow |= ~keeps_size | (~is_outside & ~is_alone & ~_kind(tables, kernels.WORD))
    is_single = is_outside & _flag(tables, kernels.UNSTABLE) & ((tables.decomposed & 31) == 1)
    tables.lower[is_single] = tables.data[tables.decomposed[is_single] >> 5] - points[is_single]
    is_plain = is_outside & (is_single | ~_flag(tables, kernels.UNSTABLE))
    is_plain &= ~_kind(tables, kernels.SPACE)
    actions = np.where(is_slow, 0, steps) << int(kernels.STEP_SHIFT)
    for flag, has_flag in (
        (kernels.OUTSIDE, is_outside),
        (kernels.ALONE, is_alone),
        (kernels.CUT, is_cut),
        (kernels.PLAIN, is_plain),
        (kernels.ORDERED, is_ordered),
        (kernels.JOINS, joins),
        (kernels.SLOW, is_slow),
    ):
        actions |= np.where(has_flag, int(flag), 0)
    return actions.astype(np.uint16)


def _joins_caseless(tables: CodePointTables) -> np.ndarray:
    """Returns which unstable code points only compose, and only with code points without case."""
    firsts, seconds = _pairs(tables)
    has_case = np.zeros(len(tables.properties), bool)
    places = _places(tables, _points(tables) + tables.lower)
    has_case[places[tables.lower != 0]] = True
    has_case |= tables.lower != 0
    joins = _flag(tables, kernels.UNSTABLE) & _flag(tables, kernels.SECOND)
    joins &= ~_flag(tables, kernels.MARK) & (tables.decomposed == 0) & (tables.lower == 0)
    joins[_places(tables, JAMO)] = False
    joins[_places(tables, seconds[has_case[_places(tables, firsts)]])] = False
    return joins


def _pairs(tables: CodePointTables) -> tuple[np.ndarray, np.ndarray]:
    """Returns the first and the second code points of all canonical compositions, uint32 each."""
    return (tables.pair_keys >> 32).astype(np.uint32), tables.pair_keys.astype(np.uint32)


def _mark_seconds(tables: CodePointTables) -> None:
    """Flags the code points that can compose with one before them."""
    seconds = np.concatenate([_pairs(tables)[1], JAMO])
    tables.properties[_places(tables, seconds)] |= kernels.SECOND


def _stays_outside(tables: CodePointTables, is_outside: np.ndarray) -> np.ndarray:
    """Returns which code points decompose into stable ones that belong to no token."""
    outside_before = np.zeros(len(tables.data) + 1, np.int64)
    np.cumsum(is_outside[_places(tables, tables.data)], out=outside_before[1:])
    starts = (tables.decomposed >> 5).astype(np.int64)
    sizes = (tables.decomposed & 31).astype(np.int64)
    return (outside_before[starts + sizes] - outside_before[starts] == sizes) & (sizes > 0)


def _utf8_sizes(points: np.ndarray) -> np.ndarray:
    return 1 + np.searchsorted(np.array([0x80, 0x800, 0x10000]), points, "right")


def _fold_digits(tables: CodePointTables) -> None:
    """Maps every decimal digit to 0.

    Each block with digits occurs once, so the position of a property determines its code point.
    """
    digits = _flag(tables, kernels.DIGIT)
    tables.lower[digits] = ZERO - _points(tables)[digits]


def _choose_compositions(tables: CodePointTables, steps: tuple[str, ...]) -> CodePointTables:
    """Returns the tables with the decompositions and compositions of the normalization steps.

    From version 2 of the contract on, a case fold undoes the compositions with a ypogegrammeni, and
    drops the dot of i, which is the composite of both then. Version 1 has no case folds.
    """
    if "nfkc" not in steps:
        tables.decomposed[:] = 0
        remains = np.zeros(len(tables.pair_keys), bool)
    elif not tables.covers_symbols:
        return tables
    elif "lower" in steps:
        remains = _pairs(tables)[1] != YPOGEGRAMMENI
    else:
        remains = _pairs(tables)[0] != tables.pair_values
    return tables._replace(
        pair_keys=tables.pair_keys[remains], pair_values=tables.pair_values[remains]
    )


def _fold_fully(tables: CodePointTables, folded: np.ndarray) -> None:
    """Adds the case folds that are more than a change of single code points.

    A fold to several code points is a decomposition, unless the decomposition leads to it. Every
    place with such a fold belongs to one code point. `folded` has their places, like `decomposed`.
    """
    is_folded = folded != 0
    tables.properties[is_folded] |= kernels.UNSTABLE
    is_open = is_folded & (tables.decomposed == 0)
    tables.decomposed[is_open] = folded[is_open]
    tatweel = _places(tables, np.array([TATWEEL]))
    tables.properties[tatweel] &= ~kernels.KIND
    tables.properties[tatweel] |= kernels.SKIP


def _choose_tokens(tables: CodePointTables, steps: tuple[str, ...]) -> None:
    """Makes tokens of the code points that `punctuation` and `symbols` name."""
    is_other = _kind(tables, kernels.OTHER)
    if "punctuation" in steps:
        tables.properties[is_other & _flag(tables, VISIBLE)] |= kernels.SINGLE
    if "symbols" in steps:
        tables.properties[is_other & _flag(tables, SYMBOL)] |= kernels.SINGLE
        signs = _flag(tables, kernels.SIGN)
        tables.properties[signs] ^= kernels.SKIP ^ kernels.SINGLE
        hyphen = _places(tables, np.array([HYPHEN]))
        if "punctuation" not in steps:
            tables.properties[hyphen] |= kernels.MINUS


def _mark_unstable(tables: CodePointTables, steps: tuple[str, ...]) -> None:
    if "nfkc" not in steps:
        tables.properties[:] &= ~(kernels.UNSTABLE | CLASS)
    if "marks" in steps:
        tables.properties[_flag(tables, kernels.MARK) | (tables.decomposed != 0)] |= (
            kernels.UNSTABLE
        )
    else:
        tables.properties[:] &= ~kernels.MARK
