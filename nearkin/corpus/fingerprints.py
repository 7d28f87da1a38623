"""The values of a column of fingerprints, as bytes of which the first has the highest bits.

A fingerprint is a hexadecimal number (text), a number of bytes, or an integer of 64 bits, with or
without a sign. Equal bits are equal fingerprints, whatever form they have.
"""

from collections.abc import Collection, Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from nearkin.corpus.checked_column import CheckedColumn, null_reason, reasons_of_rows
from nearkin.corpus.encoded_columns import remove_encoding
from nearkin.errors import UsageError
from nearkin.runtime.arrow_types import is_binary, is_text, view_as_binary
from nearkin.runtime.setting_names import name_setting

HEX_PREFIX = "0x"
BITS_OF_DIGIT = 4
INTEGER_BITS = 64
LEAST_INTEGER = -(1 << (INTEGER_BITS - 1))
NO_DIGIT = 255
"""The value of a character that is not a hexadecimal digit."""


def _table_of_digits() -> np.ndarray:
    """Returns the value of each character as a hexadecimal digit, uint8 (256,)."""
    values = np.full(256, NO_DIGIT, np.uint8)
    for character in "0123456789abcdefABCDEF":
        values[ord(character)] = int(character, 16)
    return values


DIGIT_VALUES = _table_of_digits()


def fingerprint_type(bits: int) -> pa.DataType:
    """Returns the type of a column of fingerprints of some bits in a batch."""
    return pa.binary(bits // 8)


def parse_ignored(given: str | Sequence[str] | None, sizes: Collection[int]) -> tuple[str, ...]:
    """Returns the fingerprints that are not compared, sorted, as lower-case hexadecimal digits.

    Each has one of the sizes in bits.

    Examples:
        >>> parse_ignored(["0xFFFFFFFFFFFFFFFF", "0000000000000000"], [64])
        ('0000000000000000', 'ffffffffffffffff')
    """
    values = [given] if isinstance(given, str) else list(given or ())
    parsed = set()
    for value in values:
        option = name_setting("ignore_fingerprint", value)
        if not sizes:
            raise UsageError(
                f"{option} has no effect, because no fingerprints are compared; leave it out, or "
                f"give {name_setting('fingerprint')}"
            )
        contents = (to_fingerprint_bytes(value, bits) for bits in sizes)
        content = next((content for content in contents if content is not None), None)
        if content is None:
            digits = " or ".join(str(bits // BITS_OF_DIGIT) for bits in sorted(sizes))
            raise UsageError(f"{option} is not a fingerprint of {digits} hexadecimal digits")
        parsed.add(content.hex())
    return tuple(sorted(parsed))


def check_fingerprints(
    values: pa.Array, name: str, bits: int, ignored: Collection[bytes] = ()
) -> CheckedColumn:
    """Checks a column of fingerprints of some bits.

    Examples:
        >>> checked = check_fingerprints(pa.array(["00000000000000ff", "ff"]), "phash", 64)
        >>> checked.values[0].as_py().hex(), checked.reasons
        ('00000000000000ff', {1: 'phash has 2 hexadecimal digits instead of 16'})
    """
    values = remove_encoding(values)
    kind = values.type
    nulls = reasons_of_rows(values.is_null(), null_reason(name))
    rows = np.zeros((len(values), bits // 8), np.uint8)
    reasons: dict[int, str] = {}
    if pa.types.is_integer(kind):
        _require_integers_of_all_bits(kind, name, bits)
        rows = _bytes_of_integers(values)
    elif pa.types.is_decimal(kind) and kind.scale == 0:
        # Integers of Python with and without a sign do not fit one type of 64 bits.
        reasons = _read_integers(values.to_pylist(), name, rows)
    elif is_text(kind):
        reasons = _read_digits(values, name, rows)
    elif is_binary(kind) or pa.types.is_fixed_size_binary(kind):
        reasons = _read_bytes(values, name, rows)
    elif not pa.types.is_null(kind):
        raise UsageError(
            f"column {name!r} is {kind}, not fingerprints: hexadecimal text, bytes or integers; "
            f"choose another column with {name_setting('fingerprint')}"
        )
    content = pa.Array.from_buffers(
        fingerprint_type(bits), len(values), [None, pa.py_buffer(np.ascontiguousarray(rows))]
    )
    is_ignored = np.zeros(len(values), bool)
    for fingerprint in ignored:
        if 8 * len(fingerprint) == bits:
            is_ignored |= (rows == np.frombuffer(fingerprint, np.uint8)).all(axis=1)
    if is_ignored.any():
        content = pc.if_else(pa.array(is_ignored), pa.scalar(None, content.type), content)
    return CheckedColumn(content, {**reasons, **nulls})


def to_fingerprint_bytes(value: object, bits: int) -> bytes | None:
    """Returns a parsed JSON value as a fingerprint of some bits, or None if it is not one.

    Examples:
        >>> to_fingerprint_bytes(-1, 64).hex(), to_fingerprint_bytes("0xFF", 64)
        ('ffffffffffffffff', None)
    """
    if type(value) is int:
        if bits != INTEGER_BITS or not LEAST_INTEGER <= value < 1 << INTEGER_BITS:
            return None
        return (value % (1 << INTEGER_BITS)).to_bytes(bits // 8, "big")
    if not isinstance(value, str):
        return None
    rows = np.zeros((1, bits // 8), np.uint8)
    return None if _read_digits(pa.array([value]), "", rows) else rows.tobytes()


def _require_integers_of_all_bits(kind: pa.DataType, name: str, bits: int) -> None:
    """Requires that integers have as many bits as fingerprints."""
    if bits != INTEGER_BITS or kind.bit_width != INTEGER_BITS:
        raise UsageError(
            f"column {name!r} is {kind}, which does not hold fingerprints of {bits} bits; write "
            f"them as hexadecimal text or as bytes, or give another {name_setting('bits')}"
        )


def _bytes_of_integers(values: pa.Array) -> np.ndarray:
    """Returns integers of 64 bits as bytes, uint8 (n, 8). Nulls are zeros."""
    numbers = values.fill_null(0).to_numpy(zero_copy_only=False)
    unsigned = numbers.view(np.uint64) if numbers.dtype == np.int64 else numbers
    return np.ascontiguousarray(unsigned.astype(">u8")).view(np.uint8).reshape(-1, 8)


def _read_integers(values: list[Any], name: str, rows: np.ndarray) -> dict[int, str]:
    """Reads whole numbers into rows, uint8 (n, width). Returns the reasons for rejections."""
    bits = 8 * rows.shape[1]
    reasons = {}
    for at, value in enumerate(values):
        if value is not None:
            content = to_fingerprint_bytes(int(value), bits)
            if content is None:
                reasons[at] = f"{name} is not an integer of {INTEGER_BITS} bits"
            else:
                rows[at] = np.frombuffer(content, np.uint8)
    return reasons


def _read_bytes(values: pa.Array, name: str, rows: np.ndarray) -> dict[int, str]:
    """Reads bytes into rows, uint8 (n, width). Returns the reasons for rejections."""
    width = rows.shape[1]
    fitting = _select_values(values.cast(pa.large_binary()), width)
    rows[fitting.positions] = fitting.characters
    return {
        at: f"{name} has {length} bytes instead of {width}" for at, length in fitting.wrong_lengths
    }


def _read_digits(values: pa.Array, name: str, rows: np.ndarray) -> dict[int, str]:
    """Reads hexadecimal texts into rows, uint8 (n, width). Returns the reasons for rejections."""
    width = 8 // BITS_OF_DIGIT * rows.shape[1]
    raw = view_as_binary(values)
    has_prefix = pc.starts_with(raw, HEX_PREFIX)
    if pc.any(has_prefix).as_py():
        raw = pc.if_else(has_prefix, pc.binary_replace_slice(raw, 0, len(HEX_PREFIX), b""), raw)
    fitting = _select_values(raw, width)
    digits = DIGIT_VALUES[fitting.characters]
    rows[fitting.positions] = digits[:, ::2] << BITS_OF_DIGIT | digits[:, 1::2]
    reasons = {
        at: f"{name} has {length} hexadecimal digits instead of {width}"
        for at, length in fitting.wrong_lengths
    }
    has_other_character = (digits == NO_DIGIT).any(axis=1)
    reasons.update(
        dict.fromkeys(
            fitting.positions[has_other_character].tolist(),
            f"{name} has a character that is not a hexadecimal digit",
        )
    )
    return reasons


class _FittingValues(NamedTuple):
    """The values of a column that have the right number of bytes."""

    positions: np.ndarray
    """int64 (m,): The positions of the values in the column."""
    characters: np.ndarray
    """uint8 (m, width): The bytes of the values."""
    wrong_lengths: list[tuple[int, int]]
    """The position and the number of bytes of each other value that is not null."""


def _select_values(raw: pa.Array, width: int) -> _FittingValues:
    """Returns the values of a column of bytes (large_binary) that have `width` bytes."""
    lengths = pc.fill_null(pc.binary_length(raw), -1).to_numpy(zero_copy_only=False)
    positions = np.flatnonzero(lengths == width)
    selected = raw.take(pa.array(positions))
    characters = np.zeros((0, width), np.uint8)
    if len(positions):
        first = int(np.frombuffer(selected.buffers()[1], np.int64)[selected.offset])
        content = np.frombuffer(selected.buffers()[2], np.uint8)
        characters = content[first : first + width * len(positions)].reshape(-1, width)
    wrong = np.flatnonzero((lengths != width) & (lengths >= 0))
    return _FittingValues(
        positions, characters, list(zip(wrong.tolist(), lengths[wrong].tolist(), strict=True))
    )
