"""The decision which rows are documents, and the reasons why others are rejected."""

from collections.abc import Callable, Mapping, Sequence
from functools import reduce
from types import MappingProxyType
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from nearkin.corpus.batches import RAW_PREFIX
from nearkin.corpus.checked_column import CheckedColumn, null_reason, reasons_of_rows
from nearkin.corpus.columns import (
    ID,
    MAX_DOCUMENT,
    TEXT_SEPARATOR,
    Columns,
    ContentField,
    FieldKind,
    carried_column_name,
)
from nearkin.corpus.encoded_columns import (
    cast_to_stored_type,
    remove_encoding,
    remove_encoding_within,
)
from nearkin.corpus.fingerprints import check_fingerprints, fingerprint_type
from nearkin.corpus.nested_columns import derive_columns
from nearkin.corpus.text_forms import (
    format_as_readable_text,
    format_as_text,
    is_utf8,
    validate_text,
)
from nearkin.errors import UsageError
from nearkin.runtime.arrow_types import is_binary, is_list, is_text, view_as_binary
from nearkin.runtime.setting_names import name_setting

NO_FAULTS: Mapping[int, str] = MappingProxyType({})
TOKENS = pa.large_list(pa.large_string())
"""The type of a column of tokens in a batch."""


class CheckedRows(NamedTuple):
    """Rows of one file, divided into documents and rejected rows."""

    documents: pa.RecordBatch
    kept: np.ndarray
    """The positions of the documents among the rows, int64."""
    rejected: list[tuple[int, str, str]]
    """The position, the reason and the first characters of each rejected row, in order."""
    mask: np.ndarray
    """True for each row that is a document, bool."""


def check_rows(
    rows: pa.RecordBatch, columns: Columns, faults: Mapping[int, str] = NO_FAULTS
) -> CheckedRows:
    """Divides rows into documents and rejected rows."""
    rows, too_long = derive_columns(rows, columns)
    content = rows[columns.source]
    if columns.fields:
        checked = check_fields(rows, columns)
    elif columns.joined:
        checked = check_joined_texts(rows, columns)
    else:
        checked = check_content(content, columns)
    limit = columns.document_limit
    reasons = {**faults, **checked.reasons}
    reasons.update({at: too_long_reason(path, limit) for at, path in too_long.items()})
    values = {columns.content: checked.values}
    if columns.id is not None:
        ids = check_ids(rows[columns.id], columns.id, limit)
        reasons = {**ids.reasons, **reasons}
        values[ID] = ids.values
    for name in columns.carried_columns:
        carried = _check_value(rows[name], name, limit)
        reasons.update(carried.reasons)
        values[carried_column_name(name)] = carried.values
    documents = pa.record_batch(list(values.values()), list(values))
    if not reasons:
        return CheckedRows(documents, np.arange(len(rows)), [], np.ones(len(rows), bool))
    fit = np.ones(len(rows), bool)
    fit[list(reasons)] = False
    rejected = [
        (at, reasons[at], format_raw_prefix(_python_value(content, at))) for at in sorted(reasons)
    ]
    return CheckedRows(documents.filter(pa.array(fit)), np.flatnonzero(fit), rejected, fit)


def _check_value(values: pa.Array, name: str, limit: int) -> CheckedColumn:
    """Returns a column of any type as texts, and the reasons for rejections.

    NaN is null, as pandas means it: two missing numbers are not equal values.
    """
    plain, large = remove_encoding_within(values, limit)
    if pa.types.is_floating(plain.type):
        plain = pc.if_else(pc.is_nan(plain), pa.scalar(None, plain.type), plain)
    text = format_as_readable_text(plain)
    large += _long_texts(text, limit)
    return CheckedColumn(text, dict.fromkeys(large, too_long_reason(name, limit)))


def check_content(values: pa.Array, columns: Columns) -> CheckedColumn:
    """Checks the column of documents."""
    if columns.vector:
        return check_vectors(values, columns.vector, columns.dimensions)
    if columns.fingerprint:
        return check_fingerprints(
            values, columns.fingerprint, columns.bits, columns.ignored_contents
        )
    if columns.tokens:
        return check_tokens(values, columns.source, columns.document_limit)
    return check_texts(values, columns.source, columns.document_limit)


def check_fields(rows: pa.RecordBatch, columns: Columns) -> CheckedColumn:
    """Checks several columns that are the fields of documents.

    A null is a field that the document lacks, and so is an empty text in place of a fingerprint. A
    row is rejected if another value is not of the kind of the field.
    """
    parts: list[pa.Array] = []
    reasons: dict[int, str] = {}
    for field in columns.fields:
        checked = _check_field(rows[field.name], field, columns)
        nulls = null_reason(field.name)
        reasons.update({at: why for at, why in checked.reasons.items() if why != nulls})
        parts.append(checked.values)
    documents = pa.StructArray.from_arrays(parts, fields=list(content_arrow_type(columns)))
    return CheckedColumn(documents, reasons)


def _check_field(values: pa.Array, field: ContentField, columns: Columns) -> CheckedColumn:
    """Checks the column of one field. The values of fields that documents lack are null."""
    name = field.name
    limit = columns.document_limit
    if field.kind == FieldKind.VALUE:
        return _check_value(values, name, limit)
    if field.kind == FieldKind.TEXT:
        if is_list(values.type):
            raise UsageError(
                f"column {name!r} is {values.type}, and {name_setting('fields')} compares it as a "
                f"text; write the field of a list as {name}:jaccard/tokens, with its limit"
            )
        return check_texts(values, name, limit)
    if field.kind == FieldKind.TOKENS:
        if pa.types.is_null(values.type):
            values = values.cast(TOKENS)
        return check_tokens(values, name, limit)
    stored = remove_encoding(values)
    if field.kind == FieldKind.VECTOR:
        if pa.types.is_null(stored.type):
            stored = stored.cast(pa.list_(pa.float32()))
        checked = check_vectors(stored, name, field.size)
    else:
        if is_text(stored.type):
            empty = pa.scalar(None, stored.type)
            stored = pc.if_else(pc.equal(pc.binary_length(stored), 0), empty, stored)
        checked = check_fingerprints(stored, name, field.size, columns.ignored_contents)
    null = pa.scalar(None, checked.values.type)
    return checked._replace(values=pc.if_else(stored.is_null(), null, checked.values))


def field_arrow_type(field: ContentField) -> pa.DataType:
    """Returns the type of the values of one of several fields in a batch."""
    if field.kind == FieldKind.TOKENS:
        return TOKENS
    if field.kind == FieldKind.VECTOR:
        return pa.list_(pa.float32(), field.size)
    if field.kind == FieldKind.FINGERPRINT:
        return fingerprint_type(field.size)
    return pa.large_string()


def check_joined_texts(rows: pa.RecordBatch, columns: Columns) -> CheckedColumn:
    """Joins the columns of texts, and checks the result.

    A row is rejected if a value is not valid UTF-8, the joined text is too long, or every value is
    null.
    """
    parts: list[pa.Array] = []
    reasons: dict[int, str] = {}
    nulls = np.zeros(len(rows), np.int64)
    for name in columns.sources:
        checked = check_texts(rows[name], name, columns.document_limit)
        for at, reason in checked.reasons.items():
            if reason == null_reason(name):
                nulls[at] += 1
            else:
                reasons[at] = reason
        parts.append(checked.values)
    joined = join_columns(parts)
    shown = " and ".join(columns.sources)
    too_long = too_long_reason(shown, columns.document_limit)
    reasons.update(dict.fromkeys(_long_texts(joined, columns.document_limit), too_long))
    empty = np.flatnonzero(nulls == len(columns.sources))
    reasons.update(dict.fromkeys(empty.tolist(), f"{shown} are null"))
    return CheckedColumn(joined, reasons)


def join_columns(parts: Sequence[pa.Array]) -> pa.Array:
    """Joins columns of texts to one text for each row, large_string (n,). Nulls are left out."""
    return reduce(_join_pairwise, parts)


def _join_pairwise(first: pa.Array, second: pa.Array) -> pa.Array:
    """Joins two columns of texts. A null in one of them is left out."""
    # Arrow's null_handling="skip" loses rows in which every value is null.
    both = pc.binary_join_element_wise(first, second, pa.scalar(TEXT_SEPARATOR, pa.large_string()))
    return pc.coalesce(both, first, second)


def content_arrow_type(columns: Columns) -> pa.DataType:
    """Returns the type of the column of documents in a batch."""
    if columns.fields:
        return pa.struct([(field.name, field_arrow_type(field)) for field in columns.fields])
    if columns.vector:
        return pa.list_(pa.float32(), columns.dimensions or 1)
    if columns.fingerprint:
        return fingerprint_type(columns.bits)
    return TOKENS if columns.tokens else pa.large_string()


def make_empty_documents(columns: Columns) -> pa.RecordBatch:
    """Returns a batch of documents without rows."""
    kinds = {columns.content: content_arrow_type(columns)}
    if columns.id is not None:
        kinds[ID] = pa.large_string()
    kinds.update(
        dict.fromkeys(map(carried_column_name, columns.carried_columns), pa.large_string())
    )
    return pa.record_batch([pa.array([], kind) for kind in kinds.values()], list(kinds))


def format_raw_prefix(value: object) -> str:
    """Returns the first characters of a rejected value, as text."""
    if isinstance(value, bytes | bytearray | memoryview):
        return bytes(value[:RAW_PREFIX]).decode("utf-8", "backslashreplace")
    if isinstance(value, list):
        value = value[:RAW_PREFIX]
    return "" if value is None else str(value)[:RAW_PREFIX]


def _python_value(values: pa.Array, at: int) -> object:
    """Returns one value, or its bytes if it is not valid UTF-8."""
    single = remove_encoding_within(values.slice(at, 1), MAX_DOCUMENT >> 8)[0]
    try:
        return single[0].as_py()
    except UnicodeDecodeError:
        return view_as_binary(single)[0].as_py() if is_text(single.type) else "(invalid UTF-8)"


def too_long_reason(name: str, limit: int) -> str:
    """Returns the reason for the rejection of a value that has more bytes than the limit."""
    return (
        f"{name} is longer than {limit:,} bytes, the largest size of a document with this "
        f"{name_setting('memory')}"
    )


def check_texts(values: pa.Array, name: str, limit: int = MAX_DOCUMENT) -> CheckedColumn:
    """Checks a column of texts of at most `limit` bytes. Bytes are taken as UTF-8."""
    values, large = remove_encoding_within(values, limit)
    if pa.types.is_null(values.type):
        return CheckedColumn(
            values.cast(pa.large_string()), reasons_of_rows(values.is_null(), null_reason(name))
        )
    if not (is_text(values.type) or is_binary(values.type)):
        raise UsageError(
            f"column {name!r} is {values.type}, not text; choose another column "
            f"with {name_setting('text')}, or use {name_setting('tokens')} for lists"
        )
    reasons = reasons_of_rows(values.is_null(), null_reason(name)) if values.null_count else {}
    values, broken = validate_text(values)
    reasons.update(dict.fromkeys(broken, f"{name} is not valid UTF-8"))
    reasons.update(
        dict.fromkeys([*_long_texts(values, limit), *large], too_long_reason(name, limit))
    )
    return CheckedColumn(values, reasons)


def _long_texts(values: pa.Array, limit: int) -> list[int]:
    """Returns the positions of texts with more bytes than the limit."""
    if values.nbytes <= limit:
        return []
    long = pc.fill_null(pc.greater(pc.binary_length(values), limit), False)
    return list(np.flatnonzero(long.to_numpy(zero_copy_only=False)).tolist())


def check_tokens(values: pa.Array, name: str, limit: int = MAX_DOCUMENT) -> CheckedColumn:
    """Checks a column of lists of tokens, which together have at most `limit` bytes.

    Token ids are integers. An id is the same token as its decimal text, for example 42 and "42".
    """
    values, large = remove_encoding_within(values, limit)
    if not _is_list_of(
        values.type, _is_text_or_its_dictionary, pa.types.is_integer, pa.types.is_null
    ):
        raise UsageError(
            f"column {name!r} is {values.type}, not lists of text or of integers; choose another "
            f"column with {name_setting('tokens')}, or use {name_setting('text')}"
        )
    reasons = reasons_of_rows(values.is_null(), f"{name} is null")
    lists = cast_to_stored_type(values, TOKENS)
    try:
        lists.validate(full=True)
        bad = pc.any(pc.is_null(lists.flatten())).as_py()
    except pa.ArrowInvalid:
        bad = True
    if bad:
        lists, broken = _without_bad_lists(lists)
        reasons.update(dict.fromkeys(broken, f"{name} has a token that is null or not valid UTF-8"))
    reasons.update(
        dict.fromkeys([*_long_lists(lists, limit), *large], too_long_reason(name, limit))
    )
    return CheckedColumn(lists, reasons)


def _is_text_or_its_dictionary(kind: pa.DataType) -> bool:
    return is_text(kind.value_type if pa.types.is_dictionary(kind) else kind)


def _long_lists(lists: pa.Array, limit: int) -> list[int]:
    if lists.nbytes <= limit:
        return []
    starts = lists.offsets.to_numpy() - lists.offsets[0].as_py()
    ends = np.concatenate(
        [[0], np.cumsum(pc.binary_length(lists.flatten()).fill_null(0).to_numpy())]
    )
    # A null list has no tokens, whatever its offsets are.
    if lists.null_count:
        lengths = pc.fill_null(pc.list_value_length(lists), 0).to_numpy(zero_copy_only=False)
        starts = np.concatenate([[0], np.cumsum(lengths)])
    return list(np.flatnonzero(np.diff(ends[starts]) > limit).tolist())


def _without_bad_lists(lists: pa.Array) -> tuple[pa.Array, list[int]]:
    stored = lists.cast(pa.large_list(pa.large_binary()))
    # Arrow does not check the offsets of values that it reads from a file.
    stored.validate(full=True)
    raw = stored.to_pylist()
    broken = [
        at
        for at, value in enumerate(raw)
        if value is not None and not all(t is not None and is_utf8(t) for t in value)
    ]
    wrong = set(broken)
    fit = [
        None if value is None or at in wrong else [t.decode() for t in value]
        for at, value in enumerate(raw)
    ]
    return pa.array(fit, TOKENS), broken


def check_vectors(values: pa.Array, name: str, dimensions: int | None = None) -> CheckedColumn:
    """Checks a column of vectors, as lists of float32. A vector must be finite and not zero."""
    values = remove_encoding(values)
    if not _is_list_of(values.type, pa.types.is_floating, pa.types.is_integer, pa.types.is_decimal):
        raise UsageError(
            f"column {name!r} is {values.type}, not lists of numbers; choose "
            f"another column with {name_setting('vector')}"
        )
    lengths = pc.fill_null(pc.list_value_length(values), -1).to_numpy(zero_copy_only=False)
    if dimensions is None:
        dimensions = max(1, most_common_length(lengths))
    reasons = dict.fromkeys(np.flatnonzero(lengths < 0).tolist(), f"{name} is null")
    wrong = np.flatnonzero((lengths >= 0) & (lengths != dimensions))
    reasons.update(
        {at: f"{name} has {lengths[at]} numbers instead of {dimensions}" for at in wrong.tolist()}
    )
    fit = np.flatnonzero(lengths == dimensions)
    numbers = np.zeros((len(values), dimensions), np.float32)
    with np.errstate(over="ignore", invalid="ignore"):
        flat = pc.list_flatten(values.take(pa.array(fit))).to_numpy(zero_copy_only=False)
        numbers[fit] = flat.astype(np.float32).reshape(len(fit), dimensions)
    reasons.update(_vector_faults(numbers, fit, name))
    return CheckedColumn(
        pa.FixedSizeListArray.from_arrays(pa.array(numbers.reshape(-1)), dimensions), reasons
    )


def most_common_length(lengths: "np.ndarray | list[int]") -> int:
    """Returns the positive length that occurs most, or 0 if there is none.

    If several lengths occur equally often, the smallest is returned.

    Examples:
        >>> most_common_length([3, 3, 2, 2, 3, -1]), most_common_length([])
        (3, 0)
    """
    counted = np.maximum(np.asarray(lengths, np.int64), 0)
    if not (counted > 0).any():
        return 0
    return int(np.bincount(counted[counted > 0]).argmax())


def _vector_faults(numbers: np.ndarray, which: np.ndarray, name: str) -> dict[int, str]:
    suspects = numbers[which]
    infinite, zero = ~np.isfinite(suspects).all(axis=1), ~suspects.any(axis=1)
    faults = dict.fromkeys(which[zero].tolist(), f"{name} is a zero vector, which has no direction")
    return {
        **faults,
        **dict.fromkeys(which[infinite].tolist(), f"{name} has a number that is NaN or infinite"),
    }


def check_ids(values: pa.Array, name: str, limit: int = MAX_DOCUMENT) -> CheckedColumn:
    """Checks a column of ids of any type, of which `format_as_text` makes at most `limit` bytes."""
    values, large = remove_encoding_within(values, limit)
    text, broken = validate_text(format_as_text(values))
    reasons = dict.fromkeys(broken, f"the id in {name} is not valid UTF-8")
    reasons.update(reasons_of_rows(values.is_null(), f"the id in {name} is null"))
    large += _long_texts(text, limit)
    return CheckedColumn(text, {**reasons, **dict.fromkeys(large, too_long_reason(name, limit))})


def _is_list_of(kind: pa.DataType, *values: Callable[[pa.DataType], bool]) -> bool:
    return is_list(kind) and any(test(kind.value_type) for test in values)
