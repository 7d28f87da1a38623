"""Requests for repeated lines."""

import pyarrow as pa
import pytest

import nearkin
from nearkin.errors import UsageError

ROWS = pa.table({"id": ["x"], "text": ["a"]})


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"repeated_lines": 1}, "at least 2"),
        ({"repeated_lines": 2, "repeated_paragraphs": 2}, "exclude each other"),
        ({"repeated_lines": 2, "lines_action": "keep"}, "not one of keep-one, remove, report"),
        ({"lines_action": "remove"}, "has no effect without"),
        ({"repeated_lines": 2, "cut_unit": "line"}, "leave one out"),
        ({"repeated_lines": 2, "min_left": 3}, "leave one out"),
        ({"repeated_lines": 2, "min_tokens": 50}, "min_tokens=50 has no effect"),
        ({"repeated_lines": "2:bytes"}, "not of the form 3, 3:documents or 3:places"),
        ({"repeated_lines": "x"}, "not of the form"),
        ({"repeated_paragraphs": "1:places"}, "repeated_paragraphs='1:places' is out of range"),
        ({"repeated_lines": 2, "text": ["id", "text"]}, "name one"),
        ({"repeated_lines": 2, "keep": "central"}, "chooses documents of clusters"),
    ],
)
def test_invalid_request_is_refused(options: dict[str, object], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        nearkin.passages(ROWS, **options)  # type: ignore[call-overload]
