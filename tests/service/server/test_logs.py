"""Logs contain no texts, ids, scopes, tokens or passwords."""

import json
import logging
from collections.abc import Iterator

import pytest
from starlette.testclient import TestClient

from nearkin.errors import MovedError, RacedError, StoreError
from nearkin.service.server.http.problems import ProblemError
from nearkin.service.server.logs import JsonFormatter, LogFormat, TextFormatter, choose_formatter
from tests.service.server.console.pages import SAME_ORIGIN
from tests.service.server.two_scopes import (
    OTHER,
    OTHER_ID,
    OTHER_WORD,
    OWN,
    OWN_ID,
    OWN_WORD,
    client,
    every_form,
    every_route,
    folder,
    tokens,
)

__all__ = ["client", "folder", "tokens"]
NOT_THE_SERVERS = ("httpx2", "httpcore2", "asyncio")
"""Loggers of the test client, which runs in this process."""


class Lines(logging.Handler):
    """Log lines as a server writes them."""

    def __init__(self) -> None:
        super().__init__(logging.DEBUG)
        self.setFormatter(JsonFormatter())
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        if not record.name.startswith(NOT_THE_SERVERS):
            self.lines.append(self.format(record))


@pytest.fixture
def lines() -> Iterator[Lines]:
    """Everything that is logged, at every level."""
    handler, root = Lines(), logging.getLogger()
    before = root.level
    root.addHandler(handler)
    root.setLevel(logging.DEBUG)
    yield handler
    root.setLevel(before)
    root.removeHandler(handler)


@pytest.mark.promise("Logs contain no text, id, scope or token.")
def test_log_lines_contain_no_document_scope_or_token(
    client: TestClient, tokens: dict[str, str], lines: Lines
) -> None:
    """Every route and every form of the console, with right and wrong values, at the level
    debug."""
    requests = [
        *every_route(client, tokens["boss"]),
        *every_form(client, tokens["boss"]),
        *every_route(client, tokens["own"]),
    ]
    wrong = f"nk_boss_{'z' * 43}"
    client.get(
        f"/v1/scopes/{OTHER}/documents/{OTHER_ID}", headers={"authorization": f"Bearer {wrong}"}
    )
    client.post("/console/login", data={"token": wrong}, headers=SAME_ORIGIN)
    client.get(f"/{OTHER}/{OTHER_ID}?q={OTHER_WORD}", headers={"x-request-id": OTHER_ID})
    assert len(lines.lines) > len(requests) / 2
    secrets = [token.split("_", 2)[2] for token in (*tokens.values(), wrong)]
    for line in lines.lines:
        assert not [
            needle
            for needle in (OWN, OTHER, OWN_ID, OTHER_ID, OWN_WORD, OTHER_WORD, *secrets)
            if needle in line
        ]
        json.loads(line)


@pytest.mark.promise("Logs of failures contain nothing of the request.")
def test_failure_logs_contain_no_request_content(
    client: TestClient, tokens: dict[str, str], lines: Lines, monkeypatch: pytest.MonkeyPatch
) -> None:
    errors: list[Exception] = [
        StoreError("the store is down"),
        RacedError("a document is not there any more"),
        MovedError("the index is being moved"),
        ProblemError("busy", "much is waiting"),
    ]
    index = client.app.state.service.index  # type: ignore[attr-defined]

    def fail(*_: object, **__: object) -> None:
        raise errors[0]

    for name in ("upsert_many", "query", "get", "remove", "cluster", "explain", "stats"):
        monkeypatch.setattr(index, name, fail)
    while errors:
        lines.lines.clear()
        answers = [answer for _, answer in every_route(client, tokens["boss"])]
        assert sum(answer.startswith("503") for answer in answers) > 5
        found = "\n".join(lines.lines)
        assert not [
            needle
            for needle in (OWN, OTHER, OWN_ID, OTHER_ID, OWN_WORD, OTHER_WORD)
            if needle in found
        ], errors[0]
        del errors[0]


@pytest.mark.parametrize(
    ("log_format", "is_terminal", "is_json"),
    [
        ("auto", True, False),
        ("auto", False, True),
        ("json", True, True),
        ("text", False, False),
    ],
)
def test_log_is_text_on_a_terminal_and_json_elsewhere(
    log_format: LogFormat, is_terminal: bool, is_json: bool
) -> None:
    formatter = choose_formatter(log_format, is_terminal=is_terminal)
    assert isinstance(formatter, JsonFormatter) == is_json


def test_levels_have_colors_on_a_terminal_only_without_no_color(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    record = logging.makeLogRecord({"levelname": "WARNING", "msg": "slow"})
    monkeypatch.delenv("NO_COLOR", raising=False)
    assert "\x1b[33mwarning\x1b[0m slow" in choose_formatter("auto", is_terminal=True).format(
        record
    )
    assert "\x1b" not in choose_formatter("text", is_terminal=False).format(record)
    monkeypatch.setenv("NO_COLOR", "1")
    assert "\x1b" not in choose_formatter("auto", is_terminal=True).format(record)


def test_text_of_a_record_is_one_line_without_passwords() -> None:
    fields = {
        "levelname": "ERROR",
        "msg": "store\nfailed\x1b[2J",
        "url": "redis://me:secret@db:6379/0",
        "detail": "a=b\x9bc\nd",
        "status": 503,
        "rates": {"read": "\x9b1"},
    }
    line = TextFormatter(has_color=False).format(logging.makeLogRecord(fields))
    assert line[9:].split(maxsplit=3) == [
        "error",
        "store",
        "failed␛[2J",
        'url=redis://me:***@db:6379/0 detail="a=b‹U+009B›c\\nd" status=503 '
        'rates={"read":"‹U+009B›1"}',
    ]
