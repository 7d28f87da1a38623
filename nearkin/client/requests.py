"""The requests to `nearkin serve` and the parsing of its responses.

Each request is a `Call`, which the synchronous and the asynchronous client both send.
"""

import asyncio
import json
import time
from collections.abc import (
    AsyncIterable,
    AsyncIterator,
    Callable,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)
from dataclasses import dataclass, field, fields, replace
from email.utils import parsedate_to_datetime
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeVar
from urllib.parse import quote

import numpy as np
import orjson

from nearkin.errors import MissingExtraError, NearkinError, ServiceError, UsageError
from nearkin.index.entry import Cluster, Match, Outcome
from nearkin.runtime.arrow_metadata import RECORD_BATCH, read_facts

try:
    import httpx
except ImportError as error:
    raise MissingExtraError("the client needs httpx: pip install 'nearkin[client]'") from error

if TYPE_CHECKING:
    import pyarrow as pa

    from nearkin.index.description import IndexStats
    from nearkin.index.documents import Document
    from nearkin.measures.explanation import Explanation
    from nearkin.plan.tune import OperatingPoint

T = TypeVar("T")

JSON = "application/json"
NDJSON = "application/x-ndjson"
ARROW = "application/vnd.apache.arrow.stream"
REQUEST_DOCUMENTS = 1000
"""The maximum number of documents in a request. They stay in memory until it has succeeded."""
REQUEST_BYTES = 4 << 20
"""The size in bytes from which a request takes no further documents."""
RESPONSE_BYTES = 128 << 20
"""The maximum size of a response in bytes. It is more than the longest document has in JSON."""
CLUSTER_PART = 1000
"""The maximum number of members of a cluster in a response."""
COLUMNS = ("id", "text", "vector")


@dataclass(frozen=True)
class NewDocument:
    """A text or a vector with its id.

    Attributes:
        document: A text, or a vector of numbers.
        id: The id, or None for an id that is made from the content.
    """

    document: "Document"
    id: str | None = None


@dataclass(frozen=True)
class StoredDocument:
    """A document as a server stores it.

    Attributes:
        id: The id of the document.
        cluster: The id of its cluster.
        representative: The id of the representative of its cluster.
        similarity: The exact similarity to the representative.
        shingles: The number of distinct shingles. It is 0 for vectors.
        created: The time of its creation, in seconds since 1970.
        seen: The time of its last match in seconds since 1970, if documents have a time to live.
        text: The text, or None if the index does not store texts.
    """

    id: str
    cluster: str
    representative: str
    similarity: float
    shingles: int
    created: float
    seen: float
    text: str | None = None


@dataclass(frozen=True)
class ClusterHead:
    """A cluster in a list.

    Attributes:
        id: The id of the cluster.
        representative: The id of its representative.
        size: The number of its documents.
        created: The creation time of its representative, in seconds since 1970.
    """

    id: str
    representative: str
    size: int
    created: float


@dataclass(frozen=True)
class ClusterPage:
    """A page of the clusters of a scope.

    Attributes:
        clusters: The clusters of the page.
        next: The cursor of the next page, or None on the last page.
        as_of: The time at which clusters were counted, in seconds since 1970.
    """

    clusters: tuple[ClusterHead, ...]
    next: str | None
    as_of: float


@dataclass(frozen=True)
class IndexFacts:
    """The Spec and the banding of the index of a server.

    Attributes:
        spec: The Spec, as `Spec.to_json` writes it.
        fingerprint: The fingerprint of the Spec.
        threshold: The minimum similarity of a match.
        recall: The minimum share of the matches at the threshold that are found.
        bands: The number of bands.
        rows: The number of rows of a band.
        probes: The number of probes of a band.
        postings: `leaders` or `all`.
        version: The version of nearkin.
    """

    spec: Mapping[str, Any]
    fingerprint: str
    threshold: float
    recall: float
    bands: int
    rows: int
    probes: int
    postings: str
    version: str


@dataclass(frozen=True)
class TuningResult:
    """The operating points for the signatures of a server.

    Attributes:
        measure: The measure of the index.
        k: The number of slots or bits of a signature.
        threshold: The requested threshold.
        recall: The requested recall.
        documents: The number of documents for which candidates are expected.
        distribution: The distribution of similarities from which candidates are counted.
        points: The operating points, the cheapest first.
    """

    measure: str
    k: int
    threshold: float
    recall: float
    documents: int
    distribution: str
    points: "tuple[OperatingPoint, ...]"


def _build(form: Callable[..., T], members: Mapping[str, Any], **changed: Any) -> T:
    """Returns a dataclass from the members of a response. Members of newer servers are ignored."""
    known = {item.name for item in fields(form)}  # type: ignore[arg-type]
    return form(**{name: value for name, value in members.items() if name in known}, **changed)


@dataclass(frozen=True)
class Call(Generic[T]):
    """A request, with the function that reads its response.

    Attributes:
        method: The HTTP method.
        path: The path, percent-encoded.
        read: Returns the result of a response.
        body: The body, or None.
        media_type: The media type of the body.
        params: The parameters of the query.
    """

    method: str
    path: str
    read: Callable[[httpx.Response], T]
    body: bytes | None = None
    media_type: str = JSON
    params: Mapping[str, str] = field(default_factory=dict)

    @property
    def options(self) -> dict[str, Any]:
        """The arguments of `httpx.Client.request`."""
        headers = {"Accept-Encoding": "identity"}
        if self.body is not None:
            headers["Content-Type"] = self.media_type
        return {
            "method": self.method,
            "url": self.path,
            "content": self.body,
            "params": self.params,
            "headers": headers,
        }

    def parse(self, response: httpx.Response) -> T:
        """Returns the result of a response of any status and form.

        Raises:
            ServiceError: If the server refused the request, or the response has an unexpected form.
        """
        try:
            return self.read(response)
        except NearkinError:
            raise
        except (KeyError, TypeError, AttributeError, IndexError, ValueError) as error:
            name = type(error).__name__
            raise ServiceError(
                "unexpected-answer",
                f"unexpected form of the response ({name}: {error})",
                status=response.status_code,
            ) from error


class ResponseBuffer:
    """A buffer for the body of a response, of at most RESPONSE_BYTES.

    Args:
        response: A response whose headers were received.

    Raises:
        ServiceError: If the body is compressed although no compression was accepted. A few bytes
            could expand to more than the available memory.
    """

    def __init__(self, response: httpx.Response) -> None:
        encoding = response.headers.get("content-encoding", "identity")
        if encoding != "identity":
            raise ServiceError(
                "unexpected-answer",
                f"unexpected encoding of the response: {encoding[:40]}",
                status=response.status_code,
            )
        self._response = response
        self._body = bytearray()

    def add(self, chunk: bytes) -> None:
        """Adds bytes of the body.

        Raises:
            ServiceError: If the body is too large.
        """
        self._body += chunk
        if len(self._body) > RESPONSE_BYTES:
            raise ServiceError(
                "unexpected-answer", f"response larger than {RESPONSE_BYTES:,} bytes"
            )

    def to_response(self) -> httpx.Response:
        """Returns the response with its body."""
        head = self._response
        return httpx.Response(
            head.status_code, headers=head.headers, content=bytes(self._body), request=head.request
        )


def _path_in_scope(scope: str, *parts: str) -> str:
    return "/".join(("/v1/scopes", *map(_encode_segment, (scope, *parts))))


def _encode_segment(part: str) -> str:
    """Returns a percent-encoded segment of a path. `.` and `..` would change the path."""
    if part in (".", ".."):
        return part.replace(".", "%2E")
    return quote(part, safe="")


def _read_json(response: httpx.Response) -> Any:
    """Returns the JSON of a successful response.

    Raises:
        ServiceError: If the server refused the request, or the body is not valid JSON.
    """
    _require_success(response)
    try:
        return orjson.loads(response.content)
    except orjson.JSONDecodeError as error:
        raise ServiceError(
            "unexpected-answer", f"invalid JSON: {error}", status=response.status_code
        ) from error


def _or_none(read: Callable[[httpx.Response], T]) -> Callable[[httpx.Response], T | None]:
    """Returns a reader that returns None for the problem `not-found`. Another 404 is an error."""

    def read_or_none(response: httpx.Response) -> T | None:
        try:
            return read(response)
        except ServiceError as problem:
            if problem.code == "not-found":
                return None
            raise

    return read_or_none


def _require_success(response: httpx.Response) -> None:
    if response.is_success:
        return
    try:
        members = orjson.loads(response.content)
        problem = _to_error(members, None, response.headers.get("x-request-id"))
    except (orjson.JSONDecodeError, TypeError, KeyError):
        target = f" to {response.headers['location']}" if response.has_redirect_location else ""
        detail = (
            f"unexpected response {response.status_code} {response.reason_phrase}{target}; is this "
            "the address of a nearkin server?"
        )
        problem = ServiceError("unexpected-answer", detail, status=response.status_code)
    problem.retry_after = _parse_retry_after(response.headers.get("retry-after"))
    raise problem


def _to_error(problem: Mapping[str, Any], line: int | None, request_id: str | None) -> ServiceError:
    return ServiceError(
        problem["code"],
        problem["detail"],
        status=problem.get("status"),
        field=problem.get("field"),
        request_id=request_id,
        line=line,
    )


def _parse_retry_after(header: str | None) -> float | None:
    """Returns the seconds of a Retry-After header: a number, or a date (RFC 9110, 10.2.3)."""
    if header is None:
        return None
    try:
        if header.isdigit():
            return float(header)
        return max(0.0, parsedate_to_datetime(header).timestamp() - time.time())
    except ValueError:
        return None


def _to_json_line(new: "NewDocument | Document") -> bytes:
    """Returns a document as JSON.

    Raises:
        UsageError: If it is neither a text nor a vector of numbers.
    """
    given = new if isinstance(new, NewDocument) else NewDocument(new)
    document = given.document
    if not isinstance(document, (str, np.ndarray, list, tuple)):
        raise UsageError(
            f"a document must be a text or a vector, not {type(document).__name__}; use "
            "NewDocument for a document with an id"
        )
    if isinstance(document, np.ndarray):
        document = np.ascontiguousarray(document)
    members = {"text" if isinstance(document, str) else "vector": document}
    if given.id is not None:
        members["id"] = given.id
    try:
        return orjson.dumps(members, option=orjson.OPT_SERIALIZE_NUMPY)
    except TypeError as error:
        if not isinstance(document, str):
            raise UsageError(f"a vector has an element that is not a number: {error}") from error
        # The text has half of a surrogate pair. The server refuses this line only.
        return json.dumps(members).encode()


def upsert_request(scope: str, document: "Document", id: str | None) -> Call[Outcome]:
    """Returns the request that upserts a document.

    Args:
        scope: Scope of the document.
        document: A text, or a vector of numbers.
        id: Id of the document, or None for an id that is made from the content.

    Raises:
        UsageError: If the document is neither a text nor a vector of numbers.
    """
    return Call(
        "POST",
        _path_in_scope(scope, "documents"),
        lambda answer: _build(Outcome, _read_json(answer)),
        _to_json_line(NewDocument(document, id)),
    )


def query_request(scope: str, document: "Document", top: int) -> Call[list[Match]]:
    """Returns the request for the stored documents that resemble a document.

    Args:
        scope: Scope of the search.
        document: A text, or a vector of numbers.
        top: Maximum number of matches.

    Raises:
        UsageError: If the document is neither a text nor a vector of numbers.
    """

    def read(answer: httpx.Response) -> list[Match]:
        return [
            _build(Match, match, shared=match["shared_bands"])
            for match in _read_json(answer)["matches"]
        ]

    body = _to_json_line(document)[:-1] + b',"top":%d}' % top
    return Call("POST", _path_in_scope(scope, "query"), read, body)


def get_request(scope: str, id: str) -> Call[StoredDocument | None]:
    """Returns the request for a stored document. Its result is None if it does not exist.

    Args:
        scope: Scope of the document.
        id: Id of the document.
    """
    return Call(
        "GET",
        _path_in_scope(scope, "documents", id),
        _or_none(lambda answer: _build(StoredDocument, _read_json(answer))),
    )


def remove_request(scope: str, id: str) -> Call[bool]:
    """Returns the request that deletes a document. Its result is False if it did not exist.

    Args:
        scope: Scope of the document.
        id: Id of the document.
    """

    def read(answer: httpx.Response) -> bool:
        _require_success(answer)
        return True

    return Call(
        "DELETE",
        _path_in_scope(scope, "documents", id),
        lambda answer: bool(_or_none(read)(answer)),
    )


def add_part_request(scope: str, id: str, part: "str | Sequence[str]") -> Call[int]:
    """Returns the request that adds a part to a document.

    Args:
        scope: Scope of the document.
        id: Id of the document.
        part: A text, or a list of tokens.

    Raises:
        UsageError: If the part is not valid Unicode, or neither a text nor a list of texts.
    """
    try:
        body = orjson.dumps({"text": part} if isinstance(part, str) else {"tokens": list(part)})
    except TypeError as error:
        raise UsageError(
            f"a part of a document must be a valid Unicode text or a list of them: {error}"
        ) from error
    return Call(
        "PATCH",
        _path_in_scope(scope, "documents", id),
        lambda answer: int(_read_json(answer)["shingles"]),
        body,
    )


def finish_request(scope: str, id: str) -> Call[Outcome | None]:
    """Returns the request that finishes a document which was sent in parts.

    Args:
        scope: Scope of the document.
        id: Id of the document.
    """
    path = _path_in_scope(scope, "documents", id) + ":close"
    return Call("POST", path, _or_none(lambda answer: _build(Outcome, _read_json(answer))))


class ClusterReader:
    """A reader of a cluster, whose members are sent in parts.

    Args:
        scope: Scope of the cluster.
        id: Id of any document of the cluster.

    Attributes:
        found: The cluster with the members that were received, or None if it does not exist.
        call: The next request, or None if the cluster is complete.
    """

    def __init__(self, scope: str, id: str) -> None:
        self._path = _path_in_scope(scope, "clusters", id)
        self.found: Cluster | None = None
        self.call: Call[ReceivedPart | None] | None = self._part(0)

    def take(self, part: "ReceivedPart | None") -> None:
        """Adds a part. Reading ends if the representative has changed since the first part."""
        before = self.found
        self.call = None
        if part is None or (
            before is not None and before.representative != part.cluster.representative
        ):
            return
        members = dict((*(before.members if before else ()), *part.cluster.members))
        self.found = replace(part.cluster, members=tuple(members.items()))
        if part.next is not None:
            self.call = self._part(part.end, cursor=part.next)
        elif not part.has_cursors and part.cluster.members and part.end < part.size:
            self.call = self._part(part.end, part.cluster.members[-1][0])

    def _part(
        self, start: int, after: str | None = None, cursor: str | None = None
    ) -> "Call[ReceivedPart | None]":
        def read(answer: httpx.Response) -> ReceivedPart:
            response = _read_json(answer)
            members = tuple((member["id"], member["similarity"]) for member in response["members"])
            cluster = Cluster(response["id"], response["representative"], members)
            return ReceivedPart(
                cluster=cluster,
                end=start + len(members),
                size=response["size"],
                next=response.get("next"),
                has_cursors="next" in response,
            )

        # Servers of older versions have no cursors. They use `start` if they do not know
        # `after`, or if that document was deleted.
        known = {
            name: value
            for name, value in (("after", after), ("cursor", cursor))
            if value is not None
        }
        return Call(
            "GET",
            self._path,
            _or_none(read),
            params={"start": str(start), "limit": str(CLUSTER_PART), **known},
        )


class ReceivedPart(NamedTuple):
    """A part of a cluster.

    Attributes:
        cluster: The cluster, with some of its members.
        end: The number of members up to the end of this part.
        size: The number of all members.
        next: The cursor of the next part, or None.
        has_cursors: Whether the server sends cursors.
    """

    cluster: Cluster
    end: int
    size: int
    next: str | None
    has_cursors: bool


def clusters_request(scope: str, order: str, limit: int, cursor: str) -> Call[ClusterPage]:
    """Returns the request for a page of clusters.

    Args:
        scope: Scope of the clusters.
        order: `largest` or `newest` first.
        limit: Maximum number of clusters of the page.
        cursor: Cursor of the page, `0` for the first one.
    """

    def read(answer: httpx.Response) -> ClusterPage:
        response = _read_json(answer)
        clusters = tuple(_build(ClusterHead, cluster) for cluster in response["clusters"])
        return ClusterPage(clusters, response["next"], response["as_of"])

    params = {"order": order, "limit": str(limit), "cursor": cursor}
    return Call("GET", _path_in_scope(scope, "clusters"), read, params=params)


def explain_request(scope: str, a: str, b: str) -> "Call[Explanation]":
    """Returns the request that explains why two stored documents match or not.

    Args:
        scope: Scope of both documents.
        a: Id of the first document.
        b: Id of the second document.
    """

    def read(answer: httpx.Response) -> "Explanation":
        from nearkin.measures.explanation import Explanation, ShingleOverlap

        response = _read_json(answer)
        shingles = response.pop("shingles")
        sizes = shingles["sizes"]
        both, first, second = map(tuple, shingles["examples"])
        pairs = {name: tuple(response.pop(name)) for name in ("names", "texts")}
        return _build(
            Explanation,
            response,
            **pairs,
            shingles=ShingleOverlap(
                (sizes[0], sizes[1]), shingles["shared"], (both, first, second)
            ),
        )

    return Call("POST", "/v1/explain", read, orjson.dumps({"scope": scope, "a": a, "b": b}))


def tune_request(
    threshold: float, recall: float, k: int | None, documents: int, points: int
) -> Call[TuningResult]:
    """Returns the request for operating points.

    Args:
        threshold: Minimum similarity of a match, in (0, 1].
        recall: Minimum share of the matches at the threshold that are found, in (0, 1).
        k: Number of slots or bits of a signature, or None for that of the index.
        documents: Number of documents for which candidates are expected.
        points: Maximum number of operating points.
    """
    members = {"threshold": threshold, "recall": recall, "documents": documents, "points": points}
    if k is not None:
        members["k"] = k

    def read(answer: httpx.Response) -> TuningResult:
        response = _read_json(answer)
        return _build(
            TuningResult,
            {**response, "points": tuple(map(_to_operating_point, response["points"]))},
        )

    return Call("POST", "/v1/tune", read, orjson.dumps(members))


def _to_operating_point(response: dict[str, Any]) -> "OperatingPoint":
    from nearkin.plan.tune import OperatingPoint

    similarities = tuple(
        float("nan") if value is None else value for value in response.pop("similarities").values()
    )
    return _build(OperatingPoint, response, similarities=similarities)


def spec_request() -> Call[IndexFacts]:
    """Returns the request for the Spec and the banding of the index."""
    return Call("GET", "/v1/spec", lambda answer: _build(IndexFacts, _read_json(answer)))


def stats_request() -> "Call[IndexStats]":
    """Returns the request for the counts of the index."""
    return Call("GET", "/v1/stats", _read_json)


def ready_request() -> Call[bool]:
    """Returns the request that asks if the server is ready."""

    def read(answer: httpx.Response) -> bool:
        if answer.status_code != HTTPStatus.SERVICE_UNAVAILABLE:
            _require_success(answer)
        return answer.is_success

    return Call("GET", "/readyz", read)


Line = Outcome | ServiceError
"""The outcome of a document of a batch, or the error that refused it."""


class BatchBuilder:
    """A builder of requests with many documents. It holds the documents of one request."""

    def __init__(self, scope: str) -> None:
        self._path = _path_in_scope(scope, "documents")
        self._lines: list[bytes] = []
        self._size = 0
        self._sent = 0

    def add(self, new: "NewDocument | Document") -> Call[list[Line]] | None:
        """Adds a document. Returns a request if there are enough documents for one."""
        line = _to_json_line(new)
        self._lines.append(line)
        self._size += len(line)
        if len(self._lines) >= REQUEST_DOCUMENTS or self._size >= REQUEST_BYTES:
            return self.take_rest()
        return None

    def take_rest(self) -> Call[list[Line]] | None:
        """Returns a request with the remaining documents, or None if there are none."""
        if not self._lines:
            return None
        call = _batch_call(
            self._path, b"\n".join(self._lines), NDJSON, _decode_lines, self._sent, len(self._lines)
        )
        self._sent += len(self._lines)
        self._lines = []
        self._size = 0
        return call


def upsert_requests(
    scope: str, documents: "Iterable[NewDocument | Document] | Any"
) -> Iterator[Call[list[Line]]]:
    """Returns the requests that upsert documents in batches. Documents are read as they are taken.

    Args:
        scope: Scope of the documents.
        documents: Texts, vectors or NewDocuments, or a stream of Arrow batches.

    Raises:
        UsageError: If a document is neither a text nor a vector of numbers.
    """
    if is_table(documents):
        yield from table_requests(scope, documents)
        return
    batches = BatchBuilder(scope)
    for document in documents:
        if (full := batches.add(document)) is not None:
            yield full
    if (rest := batches.take_rest()) is not None:
        yield rest


async def async_upsert_requests(
    scope: str,
    documents: "AsyncIterable[NewDocument | Document] | Iterable[NewDocument | Document] | Any",
) -> AsyncIterator[Call[list[Line]]]:
    """Does the same as `upsert_requests`. Documents may be an asynchronous iterable.

    Tables are read in a thread.
    """
    if is_table(documents):
        calls = table_requests(scope, documents)
        while (call := await asyncio.to_thread(next, calls, None)) is not None:
            yield call
    elif isinstance(documents, AsyncIterable):
        batches = BatchBuilder(scope)
        async for document in documents:
            if (full := batches.add(document)) is not None:
                yield full
        if (rest := batches.take_rest()) is not None:
            yield rest
    else:
        for call in upsert_requests(scope, documents):
            yield call


def table_requests(scope: str, table: Any) -> Iterator[Call[list[Line]]]:
    """Returns requests in the Arrow format.

    Args:
        scope: Scope of the documents.
        table: A stream of Arrow batches with columns `text` or `vector`, and optionally `id`.
    """
    import pyarrow as pa

    reader = pa.RecordBatchReader.from_stream(table)
    sent = 0
    names = [name for name in COLUMNS if name in reader.schema.names]
    for batch in reader:
        columns = batch.select(names)
        step = max(
            1, min(REQUEST_DOCUMENTS, len(columns) * REQUEST_BYTES // max(columns.nbytes, 1))
        )
        for start in range(0, len(columns), step):
            rows = columns.slice(start, step)
            yield _batch_call(
                _path_in_scope(scope, "documents"),
                _to_arrow_stream(rows),
                ARROW,
                _decode_columns,
                sent,
                len(rows),
            )
            sent += len(rows)


def _to_arrow_stream(rows: "pa.RecordBatch") -> bytes:
    import pyarrow as pa

    out = pa.BufferOutputStream()
    with pa.ipc.new_stream(out, rows.schema) as writer:
        writer.write_batch(rows)
    return out.getvalue().to_pybytes()


def is_table(documents: object) -> bool:
    """Returns whether documents are a stream of Arrow batches."""
    return hasattr(documents, "__arrow_c_stream__")


Decode = Callable[[bytes, int], list[dict[str, Any]]]


def _batch_call(
    path: str, body: bytes, media_type: str, decode: Decode, before: int, count: int
) -> Call[list[Line]]:
    """Returns a request with documents.

    Args:
        path: Path of the request.
        body: The documents.
        media_type: Media type of the body.
        decode: Returns the rows of a response to a number of documents.
        before: Number of documents of earlier requests, for the numbers of lines.
        count: Number of documents of this request.
    """

    def read(answer: httpx.Response) -> list[Line]:
        _require_success(answer)
        rows = decode(answer.content, count)
        request_id = answer.headers.get("x-request-id")
        if rows and rows[-1]["line"] == 0:
            raise _to_error(rows[-1]["problem"], None, request_id)
        if len(rows) != count:
            raise ServiceError(
                "no-answer",
                f"the response ended after {len(rows)} of {count} lines",
                request_id=request_id,
            )
        results: list[Line] = []
        for row in rows:
            if row.get("problem"):
                results.append(_to_error(row["problem"], before + row["line"], request_id))
            else:
                results.append(_build(Outcome, row))
        return results

    return Call("POST", path, read, body, media_type)


def _decode_lines(content: bytes, count: int) -> list[dict[str, Any]]:
    """Returns the rows of a response in JSON lines to a number of documents."""
    lines = content.splitlines()
    _require_rows(len(lines), count)
    try:
        return [orjson.loads(line) for line in lines]
    except orjson.JSONDecodeError as error:
        raise ServiceError(
            "no-answer", f"a line of the response is not valid JSON: {error}"
        ) from error


def _decode_columns(content: bytes, count: int) -> list[dict[str, Any]]:
    """Returns the rows of a response in the Arrow format to a number of documents.

    The response is not trusted: its types, sizes and values are checked before they are used.
    """
    import pyarrow as pa

    try:
        messages = pa.ipc.MessageReader.open_stream(content)
        schema = pa.ipc.read_schema(messages.read_next_message())
        if any(
            pa.types.is_nested(field.type) or pa.types.is_dictionary(field.type) for field in schema
        ):
            raise ServiceError("unexpected-answer", "the response has nested or encoded columns")
        rows = list[dict[str, Any]]()
        for message in messages:
            facts = read_facts(message.metadata.to_pybytes())
            if facts.kind != RECORD_BATCH or facts.compressed:
                raise ServiceError(
                    "unexpected-answer",
                    "the response has messages that are not plain record batches",
                )
            _require_rows(len(rows) + facts.rows, count)
            batch = pa.ipc.read_record_batch(message, schema)
            batch.validate(full=True)
            rows += batch.to_pylist()
    except (pa.ArrowException, OSError, StopIteration) as error:
        raise ServiceError(
            "no-answer", f"the response is not a complete Arrow stream: {error}"
        ) from error
    return [{**row, "problem": row["problem"] and orjson.loads(row["problem"])} for row in rows]


def _require_rows(given: int, count: int) -> None:
    """Requires that a response has at most one line for each document, and one for its end."""
    if given > count + 1:
        raise ServiceError(
            "unexpected-answer", f"the response has {given:,} lines for {count:,} documents"
        )
