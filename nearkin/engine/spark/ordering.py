"""Keep order as bytes: of two documents the one with the smaller string of bytes is kept, so Spark sorts and compares by it.

A criterion becomes a flag (0 a value, 1 not a number, 2 null) and its value: numbers as eight bytes, most significant first,
text as its bytes, ended by two zeros; all bits turned where the order is descending. The id comes last, so no two are equal.
"""

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from nearkin.cluster.keep import KeepPolicy, is_text, numbers_if_all_are
from nearkin.errors import UsageError

VALUE, NOT_A_NUMBER, NULL = range(3)
SIGN = np.uint64(1 << 63)
ZERO, ESCAPED, END = b"\x00", b"\x00\xff", b"\x00\x00"


@dataclass(frozen=True)
class Resolved:
    """What a keep policy's columns are, over all of the corpus.

    Attributes:
        schema: Their types.
        numeric: Text columns of which every value is a number, and which are sorted as such.
    """

    schema: pa.Schema
    numeric: frozenset[str]

    @classmethod
    def of(cls, schemas: list[pa.Schema], not_numeric: frozenset[str]) -> "Resolved":
        """From the types in each batch of the corpus; a number here and text there is text everywhere."""
        try:
            schema = pa.unify_schemas(schemas, promote_options="permissive")
        except (pa.ArrowInvalid, pa.ArrowTypeError):
            schema = pa.schema([(name, pa.large_string()) for name in schemas[0].names])
        return cls(schema, frozenset(name for name in schema.names if name not in not_numeric))

    def columns(self, texts: dict[str, pa.Array]) -> pa.Table:
        """Columns in their types, from their values as text."""
        return pa.table({field.name: _typed(texts[field.name].cast(pa.large_string()), field) for field in self.schema})


def _typed(text: pa.Array, field: pa.Field) -> pa.Array:
    if is_text(field.type):
        return text
    try:
        return pa.nulls(len(text)) if pa.types.is_null(field.type) else text.cast(field.type)
    except pa.ArrowNotImplementedError as error:
        raise UsageError(
            f"a keep policy over Spark cannot sort the column {field.name!r} of {field.type}; choose another one with --keep"
        ) from error


def is_numeric(values: pa.Array) -> bool:
    """Whether a text column would be sorted as numbers if it were all there is."""
    return pa.types.is_floating(numbers_if_all_are(values).type)


def keep_order(
    policy: KeepPolicy, columns: pa.Table, lengths: np.ndarray, ids: pa.Array, numeric: frozenset[str] = frozenset()
) -> pa.Array:
    """binary (n,): what documents are compared by, ascending.

    Args:
        policy: The criteria.
        columns: Those that it names.
        lengths: int64 (n,), bytes of text.
        ids: Text.
        numeric: Names of text columns that are sorted as numbers.

    Examples:
        >>> policy = KeepPolicy.parse("length desc")
        >>> order = keep_order(policy, pa.table({}), np.array([5, 9, 9]), pa.array(["c", "b", "a"]))
        >>> np.argsort(order.to_pylist()).tolist()
        [2, 1, 0]
    """
    plain = {term.column for term in policy.terms if not term.values}
    for name in plain & set(columns.column_names):
        at = columns.column_names.index(name)
        if is_text(columns.field(at).type) and name not in numeric:
            columns = columns.set_column(at, name, columns[name].cast(pa.large_binary()))
    keys = policy.keys(columns, lengths)
    parts = [_part(key, term.descending and not term.values) for key, term in zip(keys, policy.terms, strict=True)]
    return pc.binary_join_element_wise(*parts, ids.cast(pa.large_binary()), pa.scalar(b"", pa.large_binary()))


def _part(key: pa.Array | pa.ChunkedArray, descending: bool) -> pa.Array:
    if isinstance(key, pa.ChunkedArray):
        key = pa.concat_arrays(key.chunks) if key.num_chunks else pa.array([], key.type)
    flags = np.where(key.is_null().to_numpy(zero_copy_only=False), NULL, VALUE).astype(np.uint8)
    if pa.types.is_null(key.type):
        return _rows(flags[:, None])
    if pa.types.is_large_binary(key.type) or is_text(key.type):
        return _text_part(key.cast(pa.large_binary()), flags, descending)
    if pa.types.is_floating(key.type):
        values = key.cast(pa.float64()).fill_null(0.0).to_numpy()
        flags[np.isnan(values)] = NOT_A_NUMBER
        words = _ordered_floats(np.where(np.isnan(values), 0.0, values))
    else:
        words = _ordered_integers(key)
    words = np.where(flags == VALUE, ~words if descending else words, np.uint64(0))
    return _rows(np.concatenate([flags[:, None], words.astype(">u8").view(np.uint8).reshape(-1, 8)], axis=1))


def _rows(matrix: np.ndarray) -> pa.Array:
    n, width = matrix.shape
    offsets = np.arange(n + 1, dtype=np.int64) * width
    data = pa.py_buffer(np.ascontiguousarray(matrix))
    return pa.Array.from_buffers(pa.large_binary(), n, [None, pa.py_buffer(offsets), data])


def _ordered_floats(values: np.ndarray) -> np.ndarray:
    """uint64 that compare as the numbers do; both zeros alike."""
    bits = (values + 0.0).view(np.uint64)
    return np.where(bits >> np.uint64(63) == 1, ~bits, bits | SIGN)


def _ordered_integers(key: pa.Array) -> np.ndarray:
    """uint64 that compare as whole numbers, truth values, dates or times do."""
    kind = key.type
    if pa.types.is_uint64(kind):
        return np.asarray(key.fill_null(0).to_numpy())
    if pa.types.is_boolean(kind) or pa.types.is_integer(kind):
        whole = key.cast(pa.int64())
    elif pa.types.is_date32(kind) or pa.types.is_time32(kind):
        whole = key.cast(pa.int32()).cast(pa.int64())
    elif pa.types.is_temporal(kind):
        whole = key.cast(pa.int64())
    elif pa.types.is_decimal(kind):
        whole = _unscaled(key)
    else:
        raise UsageError(f"a keep policy cannot sort a column of {kind}; choose another column with --keep")
    return whole.fill_null(0).to_numpy().view(np.uint64) ^ SIGN


def _unscaled(key: pa.Array) -> pa.Array:
    try:
        return pa.array([None if value is None else int(value.scaleb(key.type.scale)) for value in key.to_pylist()], pa.int64())
    except OverflowError as error:
        raise UsageError(f"a keep policy sorts decimals of up to 18 digits, not {key.type}; make it a double") from error


def _text_part(values: pa.Array, flags: np.ndarray, descending: bool) -> pa.Array:
    escaped = pc.replace_substring(values.fill_null(b""), ZERO, ESCAPED)
    empty = pa.scalar(b"", pa.large_binary())
    ended = pc.binary_join_element_wise(escaped, pa.scalar(END, pa.large_binary()), empty)
    if descending:
        offsets, data = ended.buffers()[1:]
        turned = ~np.frombuffer(data, np.uint8)
        ended = pa.Array.from_buffers(pa.large_binary(), len(ended), [None, offsets, pa.py_buffer(turned)])
    return pc.binary_join_element_wise(_rows(flags[:, None]), ended, empty)
