"""Requests of `nearkin serve` and what its answers mean, each said once, as a `Call` that any client can send."""

import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
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

    from nearkin.index.preparation import Document
    from nearkin.measures.explanation import Explanation
    from nearkin.plan.tune import OperatingPoint

T = TypeVar("T")

JSON, NDJSON, ARROW = "application/json", "application/x-ndjson", "application/vnd.apache.arrow.stream"
AT_ONCE = 1000
"""Documents of a request of many: what is held in memory, and sent again if it fails."""
BYTES_AT_ONCE = 4 << 20
ANSWER_BYTES = 128 << 20
"""Bytes of an answer that are read; more than the longest document has in JSON."""
PAGE = 1000
COLUMNS = ("id", "text", "vector")


@dataclass(frozen=True)
class NewDocument:
    """A text or a vector with an id of its own."""

    document: "Document"
    id: str | None = None


@dataclass(frozen=True)
class StoredDocument:
    """A document as a server keeps it.

    Attributes:
        id: Of the document.
        cluster: Of its cluster.
        representative: Id of the document that stands for it.
        similarity: To that one, exact.
        shingles: Distinct ones; 0 for vectors.
        created: Seconds since 1970.
        seen: When it was last matched, where documents have a time to live.
        text: If texts are kept.
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
    """A cluster in a list: its size, and when its representative came (seconds since 1970)."""

    id: str
    representative: str
    size: int
    created: float


@dataclass(frozen=True)
class ClusterPage:
    """Some clusters of a scope, as they were counted at `as_of`; `next` is the next page's cursor, None at the end."""

    clusters: tuple[ClusterHead, ...]
    next: str | None
    as_of: float


@dataclass(frozen=True)
class IndexFacts:
    """What signatures of a server's index are (`spec`, as of `Spec.to_json`), and how they are banded."""

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
class Tuned:
    """Operating points for a server's signatures, cheapest first; `distribution` says what candidates were counted by."""

    measure: str
    k: int
    threshold: float
    recall: float
    documents: int
    distribution: str
    points: "tuple[OperatingPoint, ...]"


def _of(form: Callable[..., T], facts: Mapping[str, Any], **changed: Any) -> T:
    """A dataclass from an answer; members that a newer server adds are passed over."""
    known = {one.name for one in fields(form)}  # type: ignore[arg-type]
    return form(**{name: value for name, value in facts.items() if name in known}, **changed)


@dataclass(frozen=True)
class Call(Generic[T]):
    """A request, and how its answer is read."""

    method: str
    path: str
    read: Callable[[httpx.Response], T]
    body: bytes | None = None
    media_type: str = JSON
    params: Mapping[str, str] = field(default_factory=dict)

    @property
    def options(self) -> dict[str, Any]:
        """For httpx."""
        headers = {"Accept-Encoding": "identity"}
        if self.body is not None:
            headers["Content-Type"] = self.media_type
        return {"method": self.method, "url": self.path, "content": self.body, "params": self.params, "headers": headers}

    def parse(self, response: httpx.Response) -> T:
        """Reads an answer of any status and form.

        Raises:
            ServiceError: If the server refused, or the answer is not of the form that it should have.
        """
        try:
            return self.read(response)
        except NearkinError:
            raise
        except (KeyError, TypeError, AttributeError, IndexError, ValueError) as error:
            name = type(error).__name__
            raise ServiceError(
                "unexpected-answer", f"the answer has another form than expected ({name}: {error})", status=response.status_code
            ) from error


class Collecting:
    """The body of an answer, as it comes, up to ANSWER_BYTES.

    Args:
        response: An answer of which the head has come.

    Raises:
        ServiceError: If the body is compressed, which was not asked for: a few bytes could unfold into all of the memory.
    """

    def __init__(self, response: httpx.Response) -> None:
        encoding = response.headers.get("content-encoding", "identity")
        if encoding != "identity":
            raise ServiceError("unexpected-answer", f"the answer is encoded as {encoding[:40]}", status=response.status_code)
        self._response = response
        self._body = bytearray()

    def add(self, chunk: bytes) -> None:
        """Adds bytes.

        Raises:
            ServiceError: If there are too many.
        """
        self._body += chunk
        if len(self._body) > ANSWER_BYTES:
            raise ServiceError("unexpected-answer", f"the answer has more than {ANSWER_BYTES:,} bytes")

    def whole(self) -> httpx.Response:
        """Returns the answer with its body."""
        given = self._response
        return httpx.Response(given.status_code, headers=given.headers, content=bytes(self._body), request=given.request)


def _scoped(scope: str, *parts: str) -> str:
    return "/".join(("/v1/scopes", *map(_segment, (scope, *parts))))


def _segment(part: str) -> str:
    """Of a path, as it is: `.` and `..` would be taken for ways."""
    return part.replace(".", "%2E") if part in (".", "..") else quote(part, safe="")


def _json(response: httpx.Response) -> Any:
    """An answer's JSON.

    Raises:
        ServiceError: It is a problem, or no JSON.
    """
    _require_success(response)
    try:
        return orjson.loads(response.content)
    except orjson.JSONDecodeError as error:
        raise ServiceError("unexpected-answer", f"no JSON: {error}", status=response.status_code) from error


def _or_none(read: Callable[[httpx.Response], T]) -> Callable[[httpx.Response], T | None]:
    """None for what is not there; another 404 is an error."""

    def found(response: httpx.Response) -> T | None:
        try:
            return read(response)
        except ServiceError as problem:
            if problem.code == "not-found":
                return None
            raise

    return found


def _require_success(response: httpx.Response) -> None:
    if response.is_success:
        return
    try:
        told = orjson.loads(response.content)
        problem = _problem(told, None, response.headers.get("x-request-id"))
    except (orjson.JSONDecodeError, TypeError, KeyError):
        where = f" to {response.headers['location']}" if response.has_redirect_location else ""
        answer = f"{response.status_code} {response.reason_phrase}{where}, which is none of nearkin serve's"
        problem = ServiceError("unexpected-answer", answer, status=response.status_code)
    problem.retry_after = _seconds(response.headers.get("retry-after"))
    raise problem


def _problem(told: Mapping[str, Any], line: int | None, request_id: str | None) -> ServiceError:
    status, where = told.get("status"), told.get("field")
    return ServiceError(told["code"], told["detail"], status=status, field=where, request_id=request_id, line=line)


def _seconds(header: str | None) -> float | None:
    """Of a Retry-After: a number, or a date (RFC 9110, section 10.2.3)."""
    if header is None:
        return None
    try:
        return float(header) if header.isdigit() else max(0.0, parsedate_to_datetime(header).timestamp() - time.time())
    except ValueError:
        return None


def _line_of(new: "NewDocument | Document") -> bytes:
    """A document as JSON."""
    given = new if isinstance(new, NewDocument) else NewDocument(new)
    document = given.document
    if isinstance(document, np.ndarray):
        document = np.ascontiguousarray(document)
    named = {} if given.id is None else {"id": given.id}
    facts = {"text" if isinstance(document, str) else "vector": document, **named}
    if not isinstance(document, (str, np.ndarray, list, tuple)):
        raise UsageError(f"a document is a text or a vector, not {type(document).__name__}; one with an id is a NewDocument")
    try:
        return orjson.dumps(facts, option=orjson.OPT_SERIALIZE_NUMPY)
    except TypeError as error:
        if not isinstance(document, str):
            raise UsageError(f"a vector holds what is no number: {error}") from error
        # half a character: the server says so of this line, and the others go on
        return json.dumps(facts).encode()


def upserting(scope: str, document: "Document", id: str | None) -> Call[Outcome]:
    """One document."""
    return Call(
        "POST", _scoped(scope, "documents"), lambda answer: _of(Outcome, _json(answer)), _line_of(NewDocument(document, id))
    )


def querying(scope: str, document: "Document", top: int) -> Call[list[Match]]:
    """What resembles a document."""

    def read(answer: httpx.Response) -> list[Match]:
        return [_of(Match, match, shared=match["shared_bands"]) for match in _json(answer)["matches"]]

    body = _line_of(document)[:-1] + b',"top":%d}' % top
    return Call("POST", _scoped(scope, "query"), read, body)


def getting(scope: str, id: str) -> Call[StoredDocument | None]:
    """A document."""
    return Call("GET", _scoped(scope, "documents", id), _or_none(lambda answer: _of(StoredDocument, _json(answer))))


def removing(scope: str, id: str) -> Call[bool]:
    """Whether there was such a document."""

    def read(answer: httpx.Response) -> bool:
        _require_success(answer)
        return True

    return Call("DELETE", _scoped(scope, "documents", id), lambda answer: bool(_or_none(read)(answer)))


def folding(scope: str, id: str, piece: "str | Sequence[str]") -> Call[int]:
    """More of a document."""
    try:
        body = orjson.dumps({"text": piece} if isinstance(piece, str) else {"tokens": list(piece)})
    except TypeError as error:
        raise UsageError(f"a piece is a valid Unicode text, or several: {error}") from error
    return Call("PATCH", _scoped(scope, "documents", id), lambda answer: int(_json(answer)["shingles"]), body)


def sealing(scope: str, id: str) -> Call[Outcome | None]:
    """A document that came in pieces."""
    path = _scoped(scope, "documents", id) + ":close"
    return Call("POST", path, _or_none(lambda answer: _of(Outcome, _json(answer))))


class ReadingCluster:
    """A cluster that comes in parts, for its members may be many.

    Attributes:
        found: What came so far; None if there is no such cluster.
        call: What to send next; None at the end.
    """

    def __init__(self, scope: str, id: str) -> None:
        self._path = _scoped(scope, "clusters", id)
        self.found: Cluster | None = None
        self.call: Call[ClusterPart | None] | None = self._part(0)

    def take(self, part: "ClusterPart | None") -> None:
        """Adds what was answered; a cluster that another document came to represent meanwhile is left as it was read."""
        before, self.call = self.found, None
        if part is None or (before is not None and before.representative != part.cluster.representative):
            return
        members = dict((*(before.members if before else ()), *part.cluster.members))
        self.found = replace(part.cluster, members=tuple(members.items()))
        if part.next is not None:
            self.call = self._part(part.end, cursor=part.next)
        elif not part.has_cursors and part.cluster.members and part.end < part.size:
            self.call = self._part(part.end, part.cluster.members[-1][0])

    def _part(self, start: int, after: str | None = None, cursor: str | None = None) -> "Call[ClusterPart | None]":
        def read(answer: httpx.Response) -> ClusterPart:
            told = _json(answer)
            members = tuple((member["id"], member["similarity"]) for member in told["members"])
            cluster = Cluster(told["id"], told["representative"], members)
            return ClusterPart(cluster, start + len(members), told["size"], told.get("next"), "next" in told)

        # a server of an older version has no cursors. If it does not know `after`, or the document has gone, it goes by `start`
        known = {name: value for name, value in (("after", after), ("cursor", cursor)) if value is not None}
        return Call("GET", self._path, _or_none(read), params={"start": str(start), "limit": str(PAGE), **known})


class ClusterPart(NamedTuple):
    """A cluster with some of its members, up to `end` of `size`; and the cursor of what follows, if the server has cursors."""

    cluster: Cluster
    end: int
    size: int
    next: str | None
    has_cursors: bool


def listing(scope: str, order: str, limit: int, cursor: str) -> Call[ClusterPage]:
    """A page of clusters."""

    def read(answer: httpx.Response) -> ClusterPage:
        told = _json(answer)
        return ClusterPage(tuple(_of(ClusterHead, one) for one in told["clusters"]), told["next"], told["as_of"])

    params = {"order": order, "limit": str(limit), "cursor": cursor}
    return Call("GET", _scoped(scope, "clusters"), read, params=params)


def explaining(scope: str, a: str, b: str) -> "Call[Explanation]":
    """Why two documents match, or do not."""

    def read(answer: httpx.Response) -> "Explanation":
        from nearkin.measures.explanation import Explanation, ShingleOverlap

        told = _json(answer)
        shingles = told.pop("shingles")
        sizes = shingles["sizes"]
        both, first, second = map(tuple, shingles["examples"])
        pairs = {name: tuple(told.pop(name)) for name in ("names", "texts")}
        return _of(
            Explanation, told, **pairs, shingles=ShingleOverlap((sizes[0], sizes[1]), shingles["shared"], (both, first, second))
        )

    return Call("POST", "/v1/explain", read, orjson.dumps({"scope": scope, "a": a, "b": b}))


def tuning(threshold: float, recall: float, k: int | None, documents: int, points: int) -> Call[Tuned]:
    """Bands and rows for a threshold and a recall."""
    asked = {"threshold": threshold, "recall": recall, "documents": documents, "points": points}

    def read(answer: httpx.Response) -> Tuned:
        told = _json(answer)
        return _of(Tuned, {**told, "points": tuple(map(_point, told["points"]))})

    return Call("POST", "/v1/tune", read, orjson.dumps(asked if k is None else {**asked, "k": k}))


def _point(told: dict[str, Any]) -> "OperatingPoint":
    from nearkin.plan.tune import OperatingPoint

    places = tuple(float("nan") if value is None else value for value in told.pop("similarities").values())
    return _of(OperatingPoint, told, similarities=places)


def describing() -> Call[IndexFacts]:
    """What the index is."""
    return Call("GET", "/v1/spec", lambda answer: _of(IndexFacts, _json(answer)))


def counting() -> Call[dict[str, Any]]:
    """Counts of the index."""
    return Call("GET", "/v1/stats", _json)


def asking_ready() -> Call[bool]:
    """Whether requests can be served."""

    def read(answer: httpx.Response) -> bool:
        if answer.status_code != HTTPStatus.SERVICE_UNAVAILABLE:
            _require_success(answer)
        return answer.is_success

    return Call("GET", "/readyz", read)


Line = Outcome | ServiceError
"""What became of a document of a batch, or why nothing did."""


class Batches:
    """Documents to requests of some of them; holds one request's documents."""

    def __init__(self, scope: str) -> None:
        self._path = _scoped(scope, "documents")
        self._lines: list[bytes] = []
        self._size = self._sent = 0

    def add(self, new: "NewDocument | Document") -> Call[list[Line]] | None:
        """A request when there is enough for one."""
        line = _line_of(new)
        self._lines.append(line)
        self._size += len(line)
        return self.rest() if len(self._lines) >= AT_ONCE or self._size >= BYTES_AT_ONCE else None

    def rest(self) -> Call[list[Line]] | None:
        """A request of what there is, if anything."""
        if not self._lines:
            return None
        call = _batch(self._path, b"\n".join(self._lines), NDJSON, _of_lines, self._sent, len(self._lines))
        self._sent += len(self._lines)
        self._lines, self._size = [], 0
        return call


def batches_of_table(scope: str, table: Any) -> Iterator[Call[list[Line]]]:
    """Requests in the Arrow form; of anything that is a stream of Arrow batches."""
    import pyarrow as pa

    reader, sent = pa.RecordBatchReader.from_stream(table), 0
    names = [name for name in COLUMNS if name in reader.schema.names]
    for batch in reader:
        some = batch.select(names)
        step = max(1, min(AT_ONCE, len(some) * BYTES_AT_ONCE // max(some.nbytes, 1)))
        for start in range(0, len(some), step):
            rows = some.slice(start, step)
            yield _batch(_scoped(scope, "documents"), _as_stream(rows), ARROW, _of_columns, sent, len(rows))
            sent += len(rows)


def _as_stream(rows: "pa.RecordBatch") -> bytes:
    import pyarrow as pa

    out = pa.BufferOutputStream()
    with pa.ipc.new_stream(out, rows.schema) as writer:
        writer.write_batch(rows)
    return out.getvalue().to_pybytes()


def is_table(documents: object) -> bool:
    return hasattr(documents, "__arrow_c_stream__")


Decode = Callable[[bytes, int], list[dict[str, Any]]]


def _batch(path: str, body: bytes, media_type: str, decode: Decode, before: int, count: int) -> Call[list[Line]]:
    """A request of `count` documents, of which `before` others were sent."""

    def read(answer: httpx.Response) -> list[Line]:
        _require_success(answer)
        rows = decode(answer.content, count)
        request_id = answer.headers.get("x-request-id")
        if rows and rows[-1]["line"] == 0:
            raise _problem(rows[-1]["problem"], None, request_id)
        if len(rows) != count:
            raise ServiceError("no-answer", f"the answer ended after {len(rows)} of {count} lines", request_id=request_id)
        return [
            _problem(row["problem"], before + row["line"], request_id) if row.get("problem") else _of(Outcome, row)
            for row in rows
        ]

    return Call("POST", path, read, body, media_type)


def _of_lines(content: bytes, count: int) -> list[dict[str, Any]]:
    """Reads an answer in lines to a number of documents."""
    lines = content.splitlines()
    _require_rows(len(lines), count)
    try:
        return [orjson.loads(line) for line in lines]
    except orjson.JSONDecodeError as error:
        raise ServiceError("no-answer", f"a line of the answer is no JSON: {error}") from error


def _of_columns(content: bytes, count: int) -> list[dict[str, Any]]:
    """Reads an answer in Arrow's form to a number of documents; nothing that it says of itself is believed."""
    import pyarrow as pa

    try:
        messages = pa.ipc.MessageReader.open_stream(content)
        schema = pa.ipc.read_schema(messages.read_next_message())
        if any(pa.types.is_nested(field.type) or pa.types.is_dictionary(field.type) for field in schema):
            raise ServiceError("unexpected-answer", "the answer has nested or encoded columns")
        rows = list[dict[str, Any]]()
        for message in messages:
            facts = read_facts(message.metadata.to_pybytes())
            if facts.kind != RECORD_BATCH or facts.compressed:
                raise ServiceError("unexpected-answer", "the answer has something else than plain record batches")
            _require_rows(len(rows) + facts.rows, count)
            batch = pa.ipc.read_record_batch(message, schema)
            batch.validate(full=True)
            rows += batch.to_pylist()
    except (pa.ArrowException, OSError, StopIteration) as error:
        raise ServiceError("no-answer", f"the answer is no whole Arrow stream: {error}") from error
    return [{**row, "problem": row["problem"] and orjson.loads(row["problem"])} for row in rows]


def _require_rows(given: int, count: int) -> None:
    """Checks that an answer has no more lines than documents were sent, and the one that says why it ended."""
    if given > count + 1:
        raise ServiceError("unexpected-answer", f"the answer has {given:,} lines for {count:,} documents")
