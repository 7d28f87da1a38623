"""Tables of the reference that follow from the code of the server: its settings, those of its index, problems, bounds."""

import inspect
import re
from dataclasses import MISSING, fields
from typing import Any, NamedTuple

from nearkin.index.settings import SERVER_TIMES, IndexSettings
from nearkin.server.console.mount import MAX_PAGE_VALUES
from nearkin.server.http.connections import MAX_PIPELINED_REQUESTS
from nearkin.server.http.parsing import MAX_JSON_DEPTH, MAX_JSON_MEMBERS, SMALL
from nearkin.server.http.problems import CODES
from nearkin.server.routes.models import DocumentPart, Model
from nearkin.server.service import OVERVIEW_THREADS
from nearkin.server.settings import PREFIX, ServerSettings
from nearkin.server.streams.arrow import MIN_BYTES_PER_SECOND

ATTRIBUTE = re.compile(r"^ {4}(\w+): (.*(?:\n {8}.*)*)", re.MULTILINE)
SPECIAL = {
    "shingle": "`words:3` or `chars:5`, and so on.",
    "k": "Slots of a signature.",
    "seed": "Of the signatures.",
    "dimensions": "Of vectors; with `--kind vector`.",
}


def table(columns: tuple[str, ...], rows: list[tuple[str, ...]]) -> str:
    """As Markdown."""
    escaped = [tuple(cell.replace("|", "\\|") for cell in row) for row in rows]
    return "\n".join(f"| {' | '.join(row)} |" for row in (columns, ("---",) * len(columns), *escaped)) + "\n"


def default_of(value: Any) -> str:
    """As a reader would write it."""
    if value is None or value == {}:
        return ""
    return f"`{str(value).lower() if isinstance(value, bool) else value}`"


def server_settings() -> str:
    """A row for each setting of `nearkin serve`."""
    rows = []
    for name, field in ServerSettings.model_fields.items():
        flag = f"--{name.replace('_', '-')}"
        both = f"`{flag}`, `--no-{flag[2:]}`" if field.annotation is bool else f"`{flag}`"
        names = f"{both} `{PREFIX}{name.upper()}`"
        rows.append((names, default_of(field.default), str(field.description)))
    return table(("flag and variable", "default", "meaning"), rows)


def index_settings() -> str:
    """A row for each setting of the index that a server opens."""
    about = {name: re.sub(r"\s+", " ", text) for name, text in ATTRIBUTE.findall(inspect.getdoc(IndexSettings) or "")}
    rows = [(f"`{name}`", "", text) for name, text in SPECIAL.items()]
    for field in fields(IndexSettings):
        if field.name != "spec":
            value = SERVER_TIMES.get(field.name, None if field.default is MISSING else field.default)
            rows.append((f"`{field.name}`", default_of(value), about[field.name]))
    return table(("name", "default", "what it is"), rows)


def problem_codes() -> str:
    """A row for each kind of problem."""
    return table(("code", "status", "meaning"), [(f"`{code}`", str(status), title) for code, (status, title) in CODES.items()])


class Bound(NamedTuple):
    """A bound on what a caller or a stranger controls.

    Attributes:
        what: What is bounded.
        default: A setting of the server by its name, or a constant.
        share: Whether one caller may hold `token_share` of it.
        beyond: What happens beyond it.
        test: The test that holds it, beneath tests/server.
    """

    what: str
    default: str | int
    share: bool
    beyond: str
    test: str


BOUNDS = (
    Bound("connections", "connections", False, "closed at once", "test_a_server_has_so_many_connections"),
    Bound(
        "connections of an address", "source_connections", False, "closed at once", "test_an_address_has_so_many_connections"
    ),
    Bound(
        "bytes of the head of a request, and of trailers",
        "max_head",
        False,
        "400, closed",
        "test_a_head_that_is_too_large_is_refused",
    ),
    Bound("seconds for a TLS handshake", "head_timeout", False, "closed", "test_a_handshake_that_never_completes_is_closed"),
    Bound("seconds for the head of a request", "head_timeout", False, "closed", "test_a_head_that_does_not_end_is_closed"),
    Bound(
        "requests that wait on one connection",
        MAX_PIPELINED_REQUESTS,
        False,
        "400, closed",
        "test_many_requests_on_one_connection_are_not_kept_waiting",
    ),
    Bound("requests at once", "requests", True, "429, 503", "test_one_token_cannot_have_all_requests"),
    Bound(
        "seconds for a request that is not a stream",
        "timeout",
        False,
        "503 `timeout`",
        "test_a_body_that_comes_slowly_has_a_time_limit",
    ),
    Bound(
        "seconds for the rest of a body whose request was answered before",
        "timeout",
        False,
        "closed",
        "test_a_refused_body_that_comes_byte_by_byte_is_closed",
    ),
    Bound("bytes of such a rest", "max_body", False, "closed", "test_a_refused_body_without_end_is_closed"),
    Bound("bytes of a body that is not a stream", "max_body", False, "413", "test_endless_bodies_are_bounded"),
    Bound(
        "bytes of JSON that is parsed without counting its values first",
        SMALL,
        False,
        "its values are counted",
        "test_hostile_json_is_refused_before_it_is_parsed",
    ),
    Bound("values of JSON", Model.max_json_values, False, "422", "test_hostile_json_is_refused_before_it_is_parsed"),
    Bound(
        "values of JSON that a page of the console sends",
        MAX_PAGE_VALUES,
        False,
        "422",
        "test_requests_of_pages_are_counted_and_bounded_as_those_of_the_api",
    ),
    Bound(
        "values of a piece of tokens",
        DocumentPart.max_json_values,
        False,
        "422",
        "test_hostile_json_is_refused_before_it_is_parsed",
    ),
    Bound("members of the objects of JSON", MAX_JSON_MEMBERS, False, "422", "test_hostile_json_is_refused_before_it_is_parsed"),
    Bound("nested brackets of JSON", MAX_JSON_DEPTH, False, "422", "test_hostile_json_is_refused_before_it_is_parsed"),
    Bound(
        "bytes of bodies, unfinished parts of streams, waiting documents and answers with texts",
        "max_inflight",
        True,
        "429, 503; a stream waits",
        "test_large_bodies_of_one_token_are_refused_before_they_are_read",
    ),
    Bound(
        "documents of an address for a time", "source_rate", False, "429; a stream waits", "test_empty_lines_count_as_documents"
    ),
    Bound("bytes of a caller for a time", "byte_rate", False, "429; a stream waits", "test_bytes_have_a_rate"),
    Bound("documents that wait", "queue", True, "429, 503", "test_one_token_cannot_fill_the_queue"),
    Bound("streams at once", "streams", True, "429, 503", "test_many_streams_of_one_token_turn_nobody_else_away"),
    Bound("bytes of a stream", "max_stream", False, "the stream ends", "test_endless_bodies_are_bounded"),
    Bound("bytes of a line or a document", "max_line", False, "a problem of its line", "test_huge_documents_are_bounded"),
    Bound("bytes of a record batch", "max_message", False, "the stream ends", "test_a_batch_of_arrow_is_bounded"),
    Bound(
        "rows of a record batch",
        "one for each of its bytes",
        False,
        "the stream ends",
        "test_an_arrow_stream_whose_lengths_lie_is_refused",
    ),
    Bound("documents of a part of a stream", "batch", False, "the next part", "test_each_line_has_its_answer"),
    Bound(
        "seconds without a byte in a stream",
        "idle_timeout",
        False,
        "the stream ends",
        "test_a_stream_is_answered_while_it_pauses_and_ended_when_it_pauses_for_too_long",
    ),
    Bound(
        "bytes a second of an unfinished line or record batch, at least",
        MIN_BYTES_PER_SECOND,
        False,
        "the stream ends after `idle_timeout`",
        "test_a_line_that_takes_for_ever_ends_the_stream",
    ),
    Bound(
        "bytes of answers that are not read",
        "spill",
        True,
        "nothing more is read; the stream ends after `idle_timeout`",
        "test_a_client_that_does_not_read_is_not_read_from",
    ),
    Bound("seconds without reading answers", "idle_timeout", False, "closed", "test_a_client_that_does_not_read_is_closed"),
    Bound(
        "threads of one caller", "half of them", False, "its requests wait", "test_work_of_one_token_leaves_threads_to_others"
    ),
    Bound(
        "listings and tunings of one caller at once",
        OVERVIEW_THREADS // 2,
        False,
        "its requests wait",
        "test_other_scopes_are_not_slowed_down",
    ),
    Bound(
        "requests of one caller that wait for a thread", "requests", True, "429, 503", "test_one_token_cannot_have_all_requests"
    ),
)


def bounds() -> str:
    """A row for each bound."""
    rows = []
    for bound in BOUNDS:
        name = str(bound.default)
        if name in ServerSettings.model_fields:
            default = f"`{name}`: {_spaced(ServerSettings.model_fields[name].default)}"
        else:
            default = _spaced(bound.default)
        rows.append((bound.what, default, "`token_share`" if bound.share else "", bound.beyond))
    return table(("bound", "setting and default", "share of one caller", "beyond it"), rows)


def _spaced(value: object) -> str:
    return f"{value:,}" if isinstance(value, int) else str(value)
