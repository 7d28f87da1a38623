"""Generates tables of the reference from the code of the server: settings, problems and bounds."""

import inspect
import re
from dataclasses import MISSING, fields
from typing import Any, NamedTuple

from nearkin.index.opening import DEFAULT_VECTOR_THRESHOLD
from nearkin.index.run_settings import OF_SPEC
from nearkin.index.settings import IndexSettings, VectorEvidence
from nearkin.service.server.console.mount import MAX_PAGE_VALUES
from nearkin.service.server.http.connections import (
    FREE_PIECES,
    MAX_FIELDS,
    MAX_PIPELINED_REQUESTS,
    MAX_URL,
)
from nearkin.service.server.http.parsing import MAX_JSON_DEPTH, MAX_JSON_MEMBERS, SMALL_BODY
from nearkin.service.server.http.problems import PROBLEM_KINDS
from nearkin.service.server.routes.models import DocumentPart, Model
from nearkin.service.server.service import OVERVIEW_THREADS
from nearkin.service.server.settings import PREFIX, ServerSettings
from nearkin.service.server.streams.format import MIN_BYTES_PER_SECOND
from nearkin.settings.table import SETTINGS

ATTRIBUTE = re.compile(r"^ {4}(\w+): (.*(?:\n {8}.*)*)", re.MULTILINE)
"""An entry of the section `Attributes` of a docstring."""
DIMENSIONS = "Number of dimensions of the vectors, with `--kind vector`."
"""The meaning of the setting that makes an index one of vectors."""
VECTOR_SPEC_SETTINGS = {
    "vector_dimensions": "Number of dimensions of the vectors that texts have besides. It makes an "
    "index of texts and vectors.",
    "vector_k": "Number of bits of a signature of these vectors.",
    "vector_seed": "Seed of the hyperplanes of these vectors.",
}
"""Settings of an index of texts and vectors that make the Spec of its vectors."""


def table(columns: tuple[str, ...], rows: list[tuple[str, ...]]) -> str:
    """Returns a table in Markdown.

    Args:
        columns: Headings of the columns.
        rows: Cells of the rows, one for each column.
    """
    escaped = [tuple(cell.replace("|", "\\|") for cell in row) for row in rows]
    lines = (columns, ("---",) * len(columns), *escaped)
    return "\n".join(f"| {' | '.join(row)} |" for row in lines) + "\n"


def shown_default(value: Any) -> str:
    """Returns a default as a reader would write it; an empty text for no default."""
    if value is None or value == {}:
        return ""
    return f"`{str(value).lower() if isinstance(value, bool) else value}`"


def server_settings() -> str:
    """Returns a table with a row for each setting of `nearkin serve`."""
    rows = []
    for name, field in ServerSettings.model_fields.items():
        flag = f"--{name.replace('_', '-')}"
        flags = f"`{flag}`, `--no-{flag[2:]}`" if field.annotation is bool else f"`{flag}`"
        names = f"{flags} `{PREFIX}{name.upper()}`"
        rows.append((names, shown_default(field.default), str(field.description)))
    return table(("flag and variable", "default", "meaning"), rows)


def index_settings() -> str:
    """Returns a table with a row for each setting of the index that a server opens."""
    attributes = ATTRIBUTE.findall(inspect.getdoc(IndexSettings) or "")
    meanings = {name: re.sub(r"\s+", " ", text) for name, text in attributes}
    rows = [(f"`{name}`", "", SETTINGS[name].setting.help) for name in OF_SPEC]
    rows.append(("`dimensions`", "", DIMENSIONS))
    for field in fields(IndexSettings):
        if field.name == "vector":
            rows += vector_settings()
        elif field.name != "spec":
            default = None if field.default is MISSING else field.default
            rows.append((f"`{field.name}`", shown_default(default), meanings[field.name]))
    return table(("name", "default", "meaning"), rows)


def vector_settings() -> list[tuple[str, str, str]]:
    """Returns a row for each setting of the vectors of an index of texts and vectors."""
    attributes = ATTRIBUTE.findall(inspect.getdoc(VectorEvidence) or "")
    meanings = {name: re.sub(r"\s+", " ", text) for name, text in attributes}
    rows = [(f"`{name}`", "", text) for name, text in VECTOR_SPEC_SETTINGS.items()]
    for field in fields(VectorEvidence):
        if field.name != "spec":
            default = DEFAULT_VECTOR_THRESHOLD if field.name == "threshold" else field.default
            rows.append((f"`vector_{field.name}`", shown_default(default), meanings[field.name]))
    return rows


def problem_codes() -> str:
    """Returns a table with a row for each kind of problem."""
    rows = [
        (f"`{code}`", str(kind.status), kind.title, kind.meaning)
        for code, kind in PROBLEM_KINDS.items()
    ]
    return table(("code", "status", "title", "meaning"), rows)


class Bound(NamedTuple):
    """A bound on what a caller or a stranger controls.

    Attributes:
        what: The quantity that is bounded.
        default: The name of a setting of the server, or a constant.
        beyond: What happens beyond the bound.
        test: The name of its test in tests/service/server.
        is_shared: Whether one caller may use only `token_share` of it.
    """

    what: str
    default: str | int
    beyond: str
    test: str
    is_shared: bool = False


BOUNDS = (
    Bound(
        what="connections of a process",
        default="connections",
        beyond="closed at once",
        test="test_number_of_connections_is_limited",
    ),
    Bound(
        what="connections of an address",
        default="source_connections",
        beyond="closed at once",
        test="test_connections_of_one_address_are_limited",
    ),
    Bound(
        what="bytes of the head of a request, and of its trailers",
        default="max_head",
        beyond="400, closed",
        test="test_large_head_is_rejected",
    ),
    Bound(
        what="bytes of a URL",
        default=MAX_URL,
        beyond="400, closed",
        test="test_long_url_is_refused_within_a_larger_head",
    ),
    Bound(
        what="headers, cookies, and query parameters of a request, each",
        default=MAX_FIELDS,
        beyond="400, closed",
        test="test_hostile_request_is_refused_with_a_problem",
    ),
    Bound(
        what="chunks of a body that have less than 8 bytes on average",
        default=FREE_PIECES,
        beyond="400, closed",
        test="test_hostile_request_is_refused_with_a_problem",
    ),
    Bound(
        what="seconds for a TLS handshake",
        default="head_timeout",
        beyond="closed",
        test="test_incomplete_handshakes_are_closed",
    ),
    Bound(
        what="seconds for the head of a request",
        default="head_timeout",
        beyond="closed",
        test="test_incomplete_heads_are_closed",
    ),
    Bound(
        what="requests that wait on one connection",
        default=MAX_PIPELINED_REQUESTS,
        beyond="400, closed",
        test="test_number_of_pipelined_requests_is_limited",
    ),
    Bound(
        what="requests at the same time",
        default="requests",
        beyond="429, 503",
        test="test_one_token_cannot_have_all_requests",
        is_shared=True,
    ),
    Bound(
        what="seconds for a request that is not a stream",
        default="timeout",
        beyond="503 `timeout`",
        test="test_slow_body_times_out",
    ),
    Bound(
        what="seconds for the rest of a body whose request was already answered",
        default="timeout",
        beyond="closed",
        test="test_slow_rest_of_rejected_body_is_closed",
    ),
    Bound(
        what="bytes of the rest of such a body",
        default="max_body",
        beyond="closed",
        test="test_endless_rest_of_rejected_body_is_closed",
    ),
    Bound(
        what="bytes of a body that is not a stream",
        default="max_body",
        beyond="413",
        test="test_endless_bodies_are_bounded",
    ),
    Bound(
        what="bytes of JSON that is parsed on the event loop",
        default=SMALL_BODY,
        beyond="parsed in a thread",
        test="test_large_requests_do_not_block_the_event_loop",
    ),
    Bound(
        what="values of JSON",
        default=Model.max_json_values,
        beyond="422",
        test="test_hostile_json_is_rejected_before_parsing",
    ),
    Bound(
        what="values of JSON that a page of the console sends",
        default=MAX_PAGE_VALUES,
        beyond="422",
        test="test_requests_of_pages_are_counted_and_bounded_like_those_of_the_api",
    ),
    Bound(
        what="values of a part of a document that is a list of tokens",
        default=DocumentPart.max_json_values,
        beyond="422",
        test="test_hostile_json_is_rejected_before_parsing",
    ),
    Bound(
        what="members of the objects of JSON",
        default=MAX_JSON_MEMBERS,
        beyond="422",
        test="test_hostile_json_is_rejected_before_parsing",
    ),
    Bound(
        what="nested brackets of JSON",
        default=MAX_JSON_DEPTH,
        beyond="422",
        test="test_hostile_json_is_rejected_before_parsing",
    ),
    Bound(
        what="bytes of bodies, unfinished parts of streams, waiting documents and answers with "
        "texts",
        default="max_inflight",
        beyond="429, 503; a stream waits",
        test="test_large_bodies_are_rejected_before_reading",
        is_shared=True,
    ),
    Bound(
        what="documents of an address in a period",
        default="source_rate",
        beyond="429; a stream waits",
        test="test_empty_lines_count_as_documents",
    ),
    Bound(
        what="bytes of a caller in a period",
        default="byte_rate",
        beyond="429; a stream waits",
        test="test_bytes_have_a_rate",
    ),
    Bound(
        what="documents that wait",
        default="queue",
        beyond="429, 503",
        test="test_one_token_cannot_fill_the_queue",
        is_shared=True,
    ),
    Bound(
        what="streams at the same time",
        default="streams",
        beyond="429, 503",
        test="test_many_streams_of_one_token_do_not_affect_others",
        is_shared=True,
    ),
    Bound(
        what="bytes of a stream",
        default="max_stream",
        beyond="the stream ends",
        test="test_endless_bodies_are_bounded",
    ),
    Bound(
        what="bytes of a line or a document",
        default="max_line",
        beyond="a problem of its line",
        test="test_huge_documents_are_bounded",
    ),
    Bound(
        what="bytes of a record batch",
        default="max_message",
        beyond="the stream ends",
        test="test_arrow_batch_size_is_limited",
    ),
    Bound(
        what="rows of a record batch",
        default="one for each of its bytes",
        beyond="the stream ends",
        test="test_arrow_stream_with_wrong_lengths_is_rejected",
    ),
    Bound(
        what="documents of a part of a stream",
        default="batch",
        beyond="the next part",
        test="test_each_line_has_its_answer",
    ),
    Bound(
        what="seconds without a byte in a stream",
        default="idle_timeout",
        beyond="the stream ends",
        test="test_pausing_stream_is_answered_until_idle_timeout",
    ),
    Bound(
        what="bytes a second of an unfinished line or record batch, at least",
        default=MIN_BYTES_PER_SECOND,
        beyond="the stream ends after `idle_timeout`",
        test="test_slow_line_ends_the_stream",
    ),
    Bound(
        what="bytes of answers that are not read",
        default="spill",
        beyond="nothing more is read; the stream ends after `idle_timeout`",
        test="test_server_stops_reading_from_client_that_does_not_read",
        is_shared=True,
    ),
    Bound(
        what="seconds without reading answers",
        default="idle_timeout",
        beyond="closed",
        test="test_connection_is_closed_if_client_does_not_read",
    ),
    Bound(
        what="threads of one caller",
        default="half of them",
        beyond="its requests wait",
        test="test_work_of_one_token_leaves_threads_to_others",
    ),
    Bound(
        what="listings and tunings of one caller at the same time",
        default=OVERVIEW_THREADS // 2,
        beyond="its requests wait",
        test="test_other_scopes_are_not_slowed_down",
    ),
    Bound(
        what="requests of one caller that wait for a thread",
        default="requests",
        beyond="429, 503",
        test="test_one_token_cannot_have_all_requests",
        is_shared=True,
    ),
)


def bounds() -> str:
    """Returns a table with a row for each bound."""
    rows = []
    for bound in BOUNDS:
        name = str(bound.default)
        if name in ServerSettings.model_fields:
            default = f"`{name}`: {with_separators(ServerSettings.model_fields[name].default)}"
        else:
            default = with_separators(bound.default)
        share = "`token_share`" if bound.is_shared else ""
        rows.append((bound.what, default, share, bound.beyond))
    return table(("bound", "setting and default", "share of one caller", "beyond it"), rows)


def with_separators(value: object) -> str:
    """Returns a value as text, a whole number with separators of thousands."""
    return f"{value:,}" if isinstance(value, int) else str(value)
