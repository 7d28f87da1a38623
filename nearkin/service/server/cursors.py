"""Cursors of paginated listings.

A cursor contains the position at which a page ended in the order of the listing, not a row count. A
count would skip or repeat rows when earlier rows are inserted or deleted. A cursor also contains a
checksum of the listing that it was created for, so that a cursor of another scope, order or index
is rejected, as is a modified one. It grants no access; the token does.
"""

import binascii
from base64 import urlsafe_b64decode, urlsafe_b64encode
from hashlib import blake2b
from typing import Annotated, Any

import orjson
from fastapi import Query

from nearkin.service.server.http.problems import ProblemError

CHECKSUM_BYTES = 8
MAX_CURSOR_LENGTH = 1 << 15
"""Maximum number of characters of a cursor.

Two ids of 1,024 bytes result in up to 16,400 characters, because JSON escapes some of theirs.
"""
FIRST_PAGE = "0"
"""The cursor of the first page."""
PageCursor = Annotated[
    str | None,
    Query(min_length=1, max_length=MAX_CURSOR_LENGTH, description="`next` of the previous page."),
]
"""The parameter of a listing that says where its next page begins."""


def encode_cursor(listing: tuple[str, ...], position: list[Any]) -> str:
    """Returns the cursor of a position in a listing.

    Examples:
        >>> cursor = encode_cursor(("clusters", "a"), [3, "one"])
        >>> decode_cursor(cursor, ("clusters", "a"), (int, str))
        [3, 'one']
    """
    body = orjson.dumps(position)
    return _encode(_checksum(listing, body) + body)


def decode_cursor(
    cursor: str, listing: tuple[str, ...], kinds: tuple[type[str | int | float], ...]
) -> list[Any] | None:
    """Returns the position in a cursor, or None for the cursor of the first page."""
    if cursor == FIRST_PAGE:
        return None
    try:
        decoded = urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4))
    except (binascii.Error, ValueError):
        decoded = b""
    checksum = decoded[:CHECKSUM_BYTES]
    body = decoded[CHECKSUM_BYTES:]
    # the decoder skips characters that are not of the alphabet
    is_own = bool(body) and checksum == _checksum(listing, body) and _encode(decoded) == cursor
    position = _parse_position(body, kinds) if is_own else None
    if position is None:
        raise ProblemError(
            "invalid-request",
            "the cursor does not belong to this listing; pass the cursor of the previous page "
            "unchanged with the same scope, "
            "order and index, or start again without a cursor",
            field="/cursor",
        )
    return position


def _parse_position(body: bytes, kinds: tuple[type[str | int | float], ...]) -> list[Any] | None:
    """Returns the position in the body of a cursor, or None if it has other values."""
    try:
        position = orjson.loads(body)
    except orjson.JSONDecodeError:
        return None
    if not isinstance(position, list) or len(position) != len(kinds):
        return None
    for value, kind in zip(position, kinds, strict=True):
        if kind is float:
            is_valid = type(value) in (int, float)
        elif kind is int:
            is_valid = type(value) is int and 0 <= value < 1 << 63
        else:
            is_valid = isinstance(value, str)
        if not is_valid:
            return None
    return position


def _encode(content: bytes) -> str:
    return urlsafe_b64encode(content).decode().rstrip("=")


def _checksum(listing: tuple[str, ...], body: bytes) -> bytes:
    return blake2b(orjson.dumps(listing) + b"\0" + body, digest_size=CHECKSUM_BYTES).digest()
