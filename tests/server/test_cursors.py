"""Tests of the cursors of listings in pages."""

import pytest

from nearkin.server.cursors import FIRST_PAGE, MAX_CURSOR_LENGTH, decode_cursor, encode_cursor
from nearkin.server.http.problems import ProblemError

LISTING = ("clusters", "shop", "size")
LONGEST = ["\x01" * 1024, '"' * 1024]
POSITIONS = [[3, "one"], [], ['é\x00\\"'], [None, 2.5, True], ["x" * 1024], LONGEST]


@pytest.mark.parametrize("position", POSITIONS, ids=lambda position: repr(position)[:20])
def test_position_is_read_from_its_cursor(position: list[object]) -> None:
    cursor = encode_cursor(LISTING, position)
    assert decode_cursor(cursor, LISTING) == position
    assert len(cursor) <= MAX_CURSOR_LENGTH


def test_cursor_needs_no_quoting_in_a_url() -> None:
    for number in range(200):
        cursor = encode_cursor(LISTING, [number, "é"])
        assert cursor.isascii()
        assert cursor.replace("-", "").replace("_", "").isalnum()


def test_first_page_has_no_position() -> None:
    assert decode_cursor(FIRST_PAGE, LISTING) is None


@pytest.mark.parametrize(
    "other",
    [
        ("clusters", "shop"),
        ("clusters", "shop", "id"),
        ("clusters", "sho", "psize"),
        ("members", "shop", "size"),
        ("clusters", "shop", "size", ""),
    ],
)
def test_cursor_of_another_listing_is_rejected(other: tuple[str, ...]) -> None:
    with pytest.raises(ProblemError, match="does not belong to this listing") as rejected:
        decode_cursor(encode_cursor(other, [1]), LISTING)
    assert (rejected.value.code, rejected.value.field) == ("invalid-request", "/cursor")


def test_changed_cursor_is_rejected() -> None:
    cursor = encode_cursor(LISTING, [3, "one"])
    for place in range(len(cursor)):
        for character in set("Ab9-_") - {cursor[place]}:
            with pytest.raises(ProblemError):
                decode_cursor(cursor[:place] + character + cursor[place + 1 :], LISTING)


@pytest.mark.parametrize(
    "cursor", ["", "1", "é", "\ud800", "=", "====", "AAAAAAAAAAA", "A" * 4096, "%00", " ", "\x00"]
)
def test_text_that_is_not_a_cursor_is_rejected(cursor: str) -> None:
    with pytest.raises(ProblemError, match="start again without a cursor"):
        decode_cursor(cursor, LISTING)


@pytest.mark.parametrize("added", ["!", "!!!!", "\n", " ", "="])
def test_cursor_with_other_characters_is_rejected(added: str) -> None:
    cursor = encode_cursor(LISTING, [3])
    for changed in (cursor + added, added + cursor, cursor[:5] + added + cursor[5:]):
        with pytest.raises(ProblemError):
            decode_cursor(changed, LISTING)
