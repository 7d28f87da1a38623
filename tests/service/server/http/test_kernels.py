"""Tests of the kernel that measures JSON before it is parsed."""

import json
from typing import Any

import numpy as np
import pytest

from nearkin.service.server.http.kernels import json_shape


def shape_by_hand(text: str) -> tuple[int, int, int, int]:
    """An oracle of `json_shape` for valid JSON, from the parsed value."""

    def walk(value: Any) -> tuple[int, int, int, int]:
        if not isinstance(value, (dict, list)):
            return 0, 0, 0, 0
        inner = [walk(one) for one in (value.values() if isinstance(value, dict) else value)]
        values = 1 + max(len(inner) - 1, 0) + sum(one[0] for one in inner)
        own = len(inner) if isinstance(value, dict) else 0
        members = own + sum(one[1] for one in inner)
        widest = max([own, *(one[2] for one in inner)])
        return values, members, widest, 1 + max((one[3] for one in inner), default=0)

    return walk(json.loads(text))


@pytest.mark.parametrize(
    "text",
    [
        "{}",
        "[]",
        '{"text": "a, b: [c] {d}"}',
        r'{"text": "quotes \" and \\", "more": ["\\\"", 1]}',
        "[[[1, 2], [3]], {}]",
        '{"vector": [1, 2, 3], "id": "é\\u0022,"}',
        '"only, a: string"',
        '{"a": {"b": 1, "c": {"d": 2, "e": 3, "f": 4}}, "g": [{"h": 5}, {}], "i": 6, "j": 7}',
    ],
)
def test_shape_of_json_is_counted_outside_of_strings(text: str) -> None:
    shape = json_shape(np.frombuffer(text.encode(), np.uint8))
    assert tuple(shape) == shape_by_hand(text)


@pytest.mark.parametrize("text", ["]" * 50 + ":" * 9 + "[" * 99 + ":" * 9, "[" * 99 + ":" * 9])
def test_text_that_is_not_json_has_a_shape(text: str) -> None:
    assert json_shape(np.frombuffer(text.encode(), np.uint8)).members == text.count(":")
