"""Predicates of Arrow types and conversions of text, for inputs and keep policies."""

from collections.abc import Sequence

import pyarrow as pa

from nearkin.errors import UsageError

TEXT = pa.large_string()
"""The type of text inside nearkin."""


def to_text_array(texts: Sequence[str]) -> pa.Array:
    """Returns texts as an array, large_string (n,)."""
    try:
        return pa.array(texts, TEXT)
    except UnicodeEncodeError as error:
        raise invalid_text(error) from error


def invalid_text(error: UnicodeEncodeError) -> UsageError:
    """Returns the error about a text with half of a surrogate pair, which UTF-8 does not have."""
    return UsageError(
        f"the text {error.object[:40]!r} is not valid Unicode (character {error.start} is a lone "
        "surrogate); replace such characters, for example with text.encode('utf-8', "
        "'replace').decode()"
    )


def is_text(kind: pa.DataType) -> bool:
    """Returns True if the values of a type are text."""
    return (
        pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind)
    )


def is_binary(kind: pa.DataType) -> bool:
    """Returns True if the values of a type are bytes of any length."""
    return (
        pa.types.is_binary(kind) or pa.types.is_large_binary(kind) or pa.types.is_binary_view(kind)
    )


def is_list(kind: pa.DataType) -> bool:
    """Returns True if the values of a type are lists, in any layout."""
    return (
        pa.types.is_list(kind)
        or pa.types.is_large_list(kind)
        or pa.types.is_fixed_size_list(kind)
        or pa.types.is_list_view(kind)
        or pa.types.is_large_list_view(kind)
    )


def plain_type(kind: pa.DataType) -> pa.DataType:
    """Returns the type of the values of an encoded or extension type."""
    if isinstance(kind, pa.BaseExtensionType):
        return plain_type(kind.storage_type)
    return plain_type(kind.value_type) if is_encoded(kind) else kind


def is_nested(kind: pa.DataType) -> bool:
    """Returns True if the values of a type have parts."""
    return (
        is_list(kind)
        or pa.types.is_struct(kind)
        or pa.types.is_map(kind)
        or pa.types.is_union(kind)
    )


def is_encoded(kind: pa.DataType) -> bool:
    """Returns True if arrays of a type are encoded.

    Encoded arrays store each distinct value, or each run of equal values, once.
    """
    return bool(pa.types.is_dictionary(kind) or pa.types.is_run_end_encoded(kind))


def replace_views_in_type(kind: pa.DataType) -> pa.DataType:
    """Returns a type without views.

    Large text or bytes take their place, also inside lists and structs.
    """
    if pa.types.is_string_view(kind):
        return pa.large_string()
    if pa.types.is_binary_view(kind):
        return pa.large_binary()
    if pa.types.is_struct(kind):
        return pa.struct([field.with_type(replace_views_in_type(field.type)) for field in kind])
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        make = pa.large_list if pa.types.is_large_list(kind) else pa.list_
        return make(kind.value_field.with_type(replace_views_in_type(kind.value_type)))
    if pa.types.is_fixed_size_list(kind):
        return pa.list_(
            kind.value_field.with_type(replace_views_in_type(kind.value_type)), kind.list_size
        )
    if pa.types.is_dictionary(kind):
        return pa.dictionary(kind.index_type, replace_views_in_type(kind.value_type), kind.ordered)
    return kind


def view_as_binary(values: pa.Array) -> pa.Array:
    """Returns text or bytes as large_binary without validating them.

    A cast from text would refuse the whole array if one value is not valid UTF-8.
    """
    if pa.types.is_large_string(values.type):
        return values.view(pa.large_binary())
    if pa.types.is_string(values.type):
        values = values.view(pa.binary())
    return values.cast(pa.large_binary())
