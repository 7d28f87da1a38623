"""Tests of the cursors of listings in pages."""

import pytest

from nearkin.service.server.cursors import (
    FIRST_PAGE,
    MAX_CURSOR_LENGTH,
    decode_cursor,
    encode_cursor,
)
from nearkin.service.server.http.problems import ProblemError
from tests.service.server.conftest import Serve

LISTING = ("clusters", "shop", "size")
LONGEST = ["\x01" * 1024, '"' * 1024]
POSITIONS = [[3, "one"], [], ['é\x00\\"'], [2**63 - 1, 2.5], ["x" * 1024], LONGEST]


@pytest.mark.parametrize("position", POSITIONS, ids=lambda position: repr(position)[:20])
def test_position_is_read_from_its_cursor(position: list[object]) -> None:
    cursor = encode_cursor(LISTING, position)
    assert decode_cursor(cursor, LISTING, tuple(map(type, position))) == position
    assert len(cursor) <= MAX_CURSOR_LENGTH


def test_cursor_needs_no_quoting_in_a_url() -> None:
    for number in range(200):
        cursor = encode_cursor(LISTING, [number, "é"])
        assert cursor.isascii()
        assert cursor.replace("-", "").replace("_", "").isalnum()


def test_first_page_has_no_position() -> None:
    assert decode_cursor(FIRST_PAGE, LISTING, (int,)) is None


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
        decode_cursor(encode_cursor(other, [1]), LISTING, (int,))
    assert (rejected.value.code, rejected.value.field) == ("invalid-request", "/cursor")


def test_changed_cursor_is_rejected() -> None:
    cursor = encode_cursor(LISTING, [3, "one"])
    for place in range(len(cursor)):
        for character in set("Ab9-_") - {cursor[place]}:
            with pytest.raises(ProblemError):
                decode_cursor(cursor[:place] + character + cursor[place + 1 :], LISTING, (int, str))


@pytest.mark.parametrize(
    "cursor", ["", "1", "é", "\ud800", "=", "====", "AAAAAAAAAAA", "A" * 4096, "%00", " ", "\x00"]
)
def test_text_that_is_not_a_cursor_is_rejected(cursor: str) -> None:
    with pytest.raises(ProblemError, match="start again without a cursor"):
        decode_cursor(cursor, LISTING, (int,))


@pytest.mark.parametrize("added", ["!", "!!!!", "\n", " ", "="])
def test_cursor_with_other_characters_is_rejected(added: str) -> None:
    cursor = encode_cursor(LISTING, [3])
    for changed in (cursor + added, added + cursor, cursor[:5] + added + cursor[5:]):
        with pytest.raises(ProblemError):
            decode_cursor(changed, LISTING, (int,))


VALUES: list[object] = [None, True, -1, 2**63, 2.5, 1, "x", ["x"], {"x": 1}]


def test_forged_cursors_of_another_shape_are_rejected_by_each_route(serve: Serve) -> None:
    """A caller can compute the checksum, and so make a cursor of every position."""
    client = serve()
    client.post("/v1/scopes/shop/documents", json={"id": "a", "text": "x y z"}).raise_for_status()
    members = ("members", "shop", *client.app.state.service.index.public_urls)  # type: ignore[attr-defined]
    routes: dict[str, tuple[tuple[str, ...], tuple[type, ...]]] = {
        "/v1/scopes": (("scopes",), (str,)),
        "/v1/scopes/shop/decisions": (("decisions", "shop"), (str, str)),
        "/v1/scopes/shop/clusters": (("clusters", "largest", "shop"), (float, str)),
        "/v1/scopes/shop/clusters/a": (members, (str, int)),
    }
    for path, (listing, kinds) in routes.items():
        valid = [{str: "x", int: 1, float: 1}[kind] for kind in kinds]
        forged = [[], [*valid, 1], *([value] for value in VALUES), None, {"0": 1}, 7, "xx"]
        for place in range(len(kinds)):
            forged += [[*valid[:place], value, *valid[place + 1 :]] for value in VALUES]
        answers = set()
        for position in forged:
            cursor = encode_cursor(listing, position)  # type: ignore[arg-type]
            answer = client.get(path, params={"cursor": cursor})
            answers.add(answer.status_code)
            assert answer.status_code in (200, 422), (path, position, answer.text)
            if answer.status_code == 422:
                assert answer.json()["field"] == "/cursor"
        assert answers == {200, 422}
