"""The keep order as bytes, by which Spark sorts documents.

Of two documents, the one with the smaller bytes is kept. Each criterion becomes a flag (0 for a
value, 1 for not a number, 2 for null) and a value. Numbers are eight bytes, most significant first.
Texts are their bytes, ended by two zeros. All bits are inverted for a descending order. The id
comes last, as `encode_ids` encodes it, so no two documents are equal.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from nearkin.runtime.arrow_types import is_text
from nearkin.stages.cluster.id_order import encode_ids
from nearkin.stages.cluster.keep import NUMBERS, KeepPolicy, holds_numbers

VALUE, NOT_A_NUMBER, NULL = range(3)
SIGN = np.uint64(1 << 63)
ZERO = b"\x00"
ESCAPED = b"\x00\xff"
END = b"\x00\x00"


@dataclass(frozen=True)
class Resolved:
    """The types by which the columns of a keep policy are sorted.

    Attributes:
        kinds: Type of numbers that represents every value of a column, or None for text.
    """

    kinds: dict[str, pa.DataType | None]

    @classmethod
    def of(cls, names: Sequence[str], unfit: frozenset[tuple[str, str]]) -> "Resolved":
        """Returns the types of all columns."""
        return cls(
            {
                name: next((kind for kind in NUMBERS if (name, str(kind)) not in unfit), None)
                for name in names
            }
        )


def unfit_types(column: pa.Array) -> list[str]:
    """Returns the types of numbers that do not hold every value of a text column."""
    return [str(kind) for kind in NUMBERS if not holds_numbers(column, kind)]


def keep_order(
    policy: KeepPolicy,
    columns: pa.Table,
    lengths: np.ndarray,
    ids: pa.Array,
    kinds: Mapping[str, pa.DataType | None] = MappingProxyType({}),
) -> pa.Array:
    """Returns the bytes by which documents are sorted, ascending, binary (n,).

    Args:
        lengths: Size of each text in bytes, int64 (n,).
        ids: Ids, text (n,).

    Examples:
        >>> policy = KeepPolicy.parse("length desc")
        >>> order = keep_order(policy, pa.table({}), np.array([5, 9, 9]), pa.array(["c", "b", "a"]))
        >>> np.argsort(order.to_pylist()).tolist()
        [2, 1, 0]
    """
    keys = policy.keys(columns, lengths, kinds)
    parts = [
        _part(key, descending=term.descending and not term.values)
        for key, term in zip(keys, policy.terms, strict=True)
    ]
    return pc.binary_join_element_wise(*parts, encode_ids(ids), pa.scalar(b"", pa.large_binary()))


def _part(key: pa.Array | pa.ChunkedArray, *, descending: bool) -> pa.Array:
    if isinstance(key, pa.ChunkedArray):
        key = pa.concat_arrays(key.chunks) if key.num_chunks else pa.array([], key.type)
    flags = np.where(key.is_null().to_numpy(zero_copy_only=False), NULL, VALUE).astype(np.uint8)
    if pa.types.is_large_binary(key.type) or is_text(key.type):
        return _text_part(key.cast(pa.large_binary()), flags, descending=descending)
    if pa.types.is_floating(key.type):
        values = key.cast(pa.float64()).fill_null(0.0).to_numpy()
        flags[np.isnan(values)] = NOT_A_NUMBER
        words = _ordered_floats(np.where(np.isnan(values), 0.0, values))
    else:
        words = _ordered_integers(key)
    words = np.where(flags == VALUE, ~words if descending else words, np.uint64(0))
    return _rows(
        np.concatenate([flags[:, None], words.astype(">u8").view(np.uint8).reshape(-1, 8)], axis=1)
    )


def _rows(matrix: np.ndarray) -> pa.Array:
    rows, width = matrix.shape
    offsets = np.arange(rows + 1, dtype=np.int64) * width
    data = pa.py_buffer(np.ascontiguousarray(matrix))
    return pa.Array.from_buffers(pa.large_binary(), rows, [None, pa.py_buffer(offsets), data])


def _ordered_floats(values: np.ndarray) -> np.ndarray:
    """Returns uint64 that compare as the numbers do. Both zeros are equal."""
    bits = (values + 0.0).view(np.uint64)
    return np.where(bits >> np.uint64(63) == 1, ~bits, bits | SIGN)


def _ordered_integers(key: pa.Array) -> np.ndarray:
    """Returns uint64 that compare as the whole numbers do."""
    if pa.types.is_uint64(key.type):
        return np.asarray(key.fill_null(0).to_numpy())
    return np.asarray(key.cast(pa.int64()).fill_null(0).to_numpy().view(np.uint64) ^ SIGN)


def _text_part(values: pa.Array, flags: np.ndarray, *, descending: bool) -> pa.Array:
    escaped = pc.replace_substring(values.fill_null(b""), ZERO, ESCAPED)
    empty = pa.scalar(b"", pa.large_binary())
    ended = pc.binary_join_element_wise(escaped, pa.scalar(END, pa.large_binary()), empty)
    if descending:
        offsets, data = ended.buffers()[1:]
        inverted = ~np.frombuffer(data, np.uint8)
        ended = pa.Array.from_buffers(
            pa.large_binary(), len(ended), [None, offsets, pa.py_buffer(inverted)]
        )
    return pc.binary_join_element_wise(_rows(flags[:, None]), ended, empty)
