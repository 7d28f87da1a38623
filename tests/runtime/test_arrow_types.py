"""Tests of the predicates of Arrow types, and of the types and bytes that they stand for."""

import pyarrow as pa
import pytest

from nearkin.errors import UsageError
from nearkin.runtime import arrow_types
from nearkin.runtime.arrow_types import replace_views_in_type, view_as_binary

TYPES = {
    "is_text": [pa.string(), pa.large_string(), pa.string_view()],
    "is_binary": [pa.binary(), pa.large_binary(), pa.binary_view()],
    "is_list": [
        pa.list_(pa.int8()),
        pa.large_list(pa.int8()),
        pa.list_(pa.int8(), 3),
        pa.list_view(pa.int8()),
        pa.large_list_view(pa.int8()),
    ],
    "is_nested": [
        pa.struct([("x", pa.int8())]),
        pa.map_(pa.string(), pa.int8()),
        pa.dense_union([pa.field("x", pa.int8())]),
    ],
    "is_encoded": [
        pa.dictionary(pa.int8(), pa.string()),
        pa.run_end_encoded(pa.int32(), pa.string()),
    ],
    "": [pa.int8(), pa.float64(), pa.bool_(), pa.null(), pa.binary(4), pa.date32()],
}


@pytest.mark.parametrize("predicate", [name for name in TYPES if name])
def test_predicate_is_true_for_its_types_alone(predicate: str) -> None:
    """Lists are nested too."""
    groups = {predicate, "is_list"} if predicate == "is_nested" else {predicate}
    for group, kinds in TYPES.items():
        for kind in kinds:
            assert getattr(arrow_types, predicate)(kind) == (group in groups), kind


@pytest.mark.parametrize(
    ("kind", "plain"),
    [
        (pa.string_view(), pa.large_string()),
        (pa.binary_view(), pa.large_binary()),
        (pa.list_(pa.string_view()), pa.list_(pa.large_string())),
        (pa.large_list(pa.string_view()), pa.large_list(pa.large_string())),
        (pa.list_(pa.string_view(), 2), pa.list_(pa.large_string(), 2)),
        (
            pa.dictionary(pa.int8(), pa.string_view(), ordered=True),
            pa.dictionary(pa.int8(), pa.large_string(), ordered=True),
        ),
        (
            pa.struct([pa.field("x", pa.list_(pa.binary_view()), nullable=False)]),
            pa.struct([pa.field("x", pa.list_(pa.large_binary()), nullable=False)]),
        ),
        (pa.string(), pa.string()),
        (pa.list_(pa.int64(), 2), pa.list_(pa.int64(), 2)),
    ],
    ids=str,
)
def test_views_inside_of_a_type_become_large_text_or_bytes(
    kind: pa.DataType, plain: pa.DataType
) -> None:
    assert replace_views_in_type(kind) == plain


BYTES = [b"a", None, b"", b"\xc3\xa9", b"\xff invalid"]


@pytest.mark.parametrize(
    "kind", [pa.string(), pa.large_string(), pa.binary(), pa.large_binary()], ids=str
)
def test_text_is_read_as_bytes_even_if_it_is_not_utf_8(kind: pa.DataType) -> None:
    large = kind in (pa.large_string(), pa.large_binary())
    stored = pa.array(BYTES, pa.large_binary() if large else pa.binary()).view(kind)
    for values in (stored, stored.slice(1, 3), stored.slice(0, 0)):
        as_bytes = view_as_binary(values)
        assert as_bytes.type == pa.large_binary()
        first = values.offset
        assert as_bytes.to_pylist() == BYTES[first : first + len(values)]


def test_texts_without_a_utf8_form_are_refused() -> None:
    assert arrow_types.to_text_array(("a", "b")).to_pylist() == ["a", "b"]
    with pytest.raises(UsageError, match=r"'a\\ud800' is not valid Unicode \(character 1"):
        arrow_types.to_text_array(["a\ud800"])
