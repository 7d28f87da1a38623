"""Tests of events and of the documents that they contain."""

import pytest

import nearkin as nk
from nearkin.index.entry import require_public_name
from nearkin.service.consumer.events import StreamEvent, StreamSettings, parse_event
from nearkin.service.server.http.auth import validate_name
from nearkin.service.server.http.problems import ProblemError

WRONG = [
    ({}, "an event must have one of the fields text and vector"),
    ({"text": b"\xff\xfe"}, "text is not UTF-8"),
    ({"text": b"a", "id": b"\xff"}, "id is not UTF-8"),
    ({"vector": b"[1, 2"}, "vector is not a JSON array of numbers"),
    ({"vector": b'["a"]'}, "vector is not a JSON array of numbers"),
    ({"vector": b"[true]"}, "vector is not a JSON array of numbers"),
    ({"text": b"a", "op": b"upserts"}, "op is 'upserts', which is not a known operation"),
    ({"op": b"delete"}, "a deletion must have the field id"),
    ({"op": b"insert", "id": b"a"}, "an event must have one of the fields text and vector"),
    ({"vector": b"3"}, "vector is not a JSON array of numbers"),
]


@pytest.mark.parametrize(
    ("fields", "message"), WRONG, ids=lambda value: value if isinstance(value, str) else None
)
def test_event_without_valid_document_is_rejected(fields: dict[str, bytes], message: str) -> None:
    with pytest.raises(nk.UsageError, match=message):
        parse_event(StreamEvent("1-0", fields), StreamSettings())


def test_tombstone_may_have_no_version() -> None:
    settings = StreamSettings(version="v")
    tombstone = StreamEvent("1", {"id": b"a"}, is_tombstone=True)
    assert parse_event(tombstone, settings).version is None
    tombstone = tombstone._replace(headers={"v": b"7"})
    assert parse_event(tombstone, settings).version == 7
    with pytest.raises(nk.UsageError, match="must have the field v"):
        parse_event(StreamEvent("1", {"id": b"a", "op": b"delete"}), settings)


def test_operation_and_scope_may_be_headers_and_fields_come_first() -> None:
    settings = StreamSettings(op="__deleted")
    headers = {"__deleted": b"true", "scope": b"news", "id": b"of-a-header"}
    parsed = parse_event(StreamEvent("1", {"id": b"a"}, headers=headers), settings)
    assert (parsed.scope, parsed.id, parsed.is_deletion) == ("news", "a", True)
    fields = {"text": b"a", "__deleted": b"false", "scope": b"web"}
    parsed = parse_event(StreamEvent("1", fields, headers=headers), settings)
    assert (parsed.scope, parsed.id, parsed.is_deletion) == ("web", None, False)


def test_events_and_requests_accept_the_same_names() -> None:
    for name in ("a", "a b", "é", "", "\x1fopen:x", "\0", "\x7f", "x" * 1024, "x" * 1025):
        try:
            validate_name(name, "scope")
        except ProblemError:
            with pytest.raises(nk.UsageError, match="control characters"):
                require_public_name(name, "scope")
        else:
            assert require_public_name(name, "scope") == name


def test_settings_out_of_range_are_rejected() -> None:
    for fields in ({"batch": 0}, {"wait": 0}, {"idle": 0}, {"deliveries": 1}):
        with pytest.raises(nk.UsageError, match="is out of range"):
            StreamSettings(**fields)
