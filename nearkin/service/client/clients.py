"""The clients of `nearkin serve`, for threads and for coroutines.

Every request is idempotent: an upsert with the same id, or with an id made from the same content,
is the same document. Therefore failed connections and temporary refusals (429, 503) are retried
after a random time that grows, and not before the Retry-After of the server. A client that was
never connected does not retry: its address is probably wrong, or the server was not started.
"""

import os
import ssl
from collections.abc import (
    AsyncIterable,
    AsyncIterator,
    Awaitable,
    Callable,
    Coroutine,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)
from contextlib import contextmanager
from dataclasses import dataclass
from functools import wraps
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, Self, TypedDict, TypeVar, cast

import httpx2
import orjson
import tenacity
from tenacity.retry import RetryBaseT
from tenacity.stop import StopBaseT
from tenacity.wait import WaitBaseT

from nearkin.errors import ServiceError, UsageError
from nearkin.index.changes import ChangePage
from nearkin.index.documents import Document
from nearkin.index.entry import Cluster, Match, Outcome
from nearkin.index.index_facts import IndexFacts
from nearkin.index.passage_matches import PassageMatches
from nearkin.index.scope_settings import ScopeSettings, ScopeStatus
from nearkin.runtime.argument_types import check_arguments, check_fields
from nearkin.service.client.batches import Line, async_upsert_requests, upsert_requests
from nearkin.service.client.call import (
    Call,
    Exchange,
    ResponseBuffer,
    or_none,
    path_in_scope,
    read_json,
    read_outcome,
    reader_of,
    reader_of_number,
    to_json_line,
)
from nearkin.service.client.models import (
    ClusterPage,
    NewDocument,
    StoredDocument,
    TuningResult,
)
from nearkin.service.client.requests import (
    changes_request,
    clusters_request,
    part_to_json,
    read_cluster,
    read_decisions,
    read_document,
    read_explanation,
    read_readiness,
    read_removal,
    remove_documents,
    remove_scope,
    search_request,
    store_decisions,
    tune_request,
)
from nearkin.settings.decisions import Decision, Decisions

if TYPE_CHECKING:
    from nearkin.index.description import IndexStats
    from nearkin.stages.measures.explanation import Explanation

P = ParamSpec("P")
T = TypeVar("T")

TOKEN = "NEARKIN_TOKEN"
"""The environment variable that holds the token."""
URL = "http://127.0.0.1:8080"
CONNECT_SECONDS = 10.0
"""The maximum time in which a connection is opened, in seconds."""
LIMITS = httpx2.Limits(max_connections=100, max_keepalive_connections=100, keepalive_expiry=20.0)
"""The limits of connections.

All of them are reused, but they are closed before the server closes them. By default httpx2 would
close all but 20 after each request.
"""


class RetryArguments(TypedDict):
    """The arguments of `tenacity.Retrying`."""

    stop: StopBaseT
    wait: WaitBaseT
    retry: RetryBaseT
    retry_error_callback: Callable[[tenacity.RetryCallState], Any]


class HttpArguments(TypedDict):
    """The arguments that both clients of httpx2 take."""

    base_url: httpx2.URL
    headers: Mapping[str, str]
    timeout: httpx2.Timeout
    verify: ssl.SSLContext | bool
    limits: httpx2.Limits


@dataclass(frozen=True)
class Retries:
    """The rules for retries of a request.

    Attributes:
        attempts: The maximum number of attempts, at least 1.
        first: The maximum time before the second attempt, in seconds. It doubles with each
            attempt, and a random share of it is waited.
        longest: The maximum time between two attempts, in seconds. If the Retry-After of a server
            is longer, the request is not retried.
    """

    attempts: int = 8
    first: float = 0.2
    longest: float = 60.0

    def __post_init__(self) -> None:
        check_fields(self)
        if self.attempts < 1 or self.first < 0 or self.longest < 0:
            raise UsageError(
                f"{self} is not valid: attempts must be at least 1, and times at least 0"
            )

    def options(self, *, was_connected: Callable[[], bool]) -> RetryArguments:
        """Returns the arguments of `tenacity.Retrying`.

        The caller gets the result of the last attempt.

        Args:
            was_connected: Returns whether the client has reached its server before. If it has not,
                a failure to connect is not retried.
        """

        def should_retry(error: BaseException) -> bool:
            is_unreachable = isinstance(error, ServiceError) and error.code == "unreachable"
            return self.should_retry(error) and (was_connected() or not is_unreachable)

        return {
            "stop": tenacity.stop_after_attempt(self.attempts),
            "wait": self.wait,
            "retry": tenacity.retry_if_exception(should_retry)
            | tenacity.retry_if_result(_has_transient_error),
            "retry_error_callback": _result_of_attempt,
        }

    def should_retry(self, error: BaseException) -> bool:
        """Returns whether a failed request is retried."""
        if not isinstance(error, ServiceError) or not error.transient:
            return False
        return (error.retry_after or 0) <= self.longest

    def wait(self, state: tenacity.RetryCallState) -> float:
        """Returns the seconds before the next attempt."""
        error = None if state.outcome is None else state.outcome.exception()
        least = 0.0
        if isinstance(error, ServiceError) and error.retry_after is not None:
            least = error.retry_after
        return least + tenacity.wait_random_exponential(self.first, self.longest)(state)


DEFAULT_RETRIES = Retries()


def _result_of_attempt(state: tenacity.RetryCallState) -> Any:
    """Returns the result of the last attempt, or raises its error."""
    return None if state.outcome is None else state.outcome.result()


def _has_transient_error(answer: object) -> bool:
    """Returns whether a batch is retried. All its documents are sent again, in the same order."""
    return isinstance(answer, list) and any(
        isinstance(line, ServiceError) and line.transient for line in answer
    )


def _http_arguments(
    url: str, token: str | None, timeout: float, *, verify: ssl.SSLContext | bool
) -> HttpArguments:
    """Returns the arguments of both clients of httpx2."""
    try:
        parsed = httpx2.URL(url)
    except httpx2.InvalidURL:
        # The reason may repeat a part of a password.
        raise UsageError(
            f"{url!r} is not a valid URL; give the address of a server, for example "
            "https://kin.example:8080"
        ) from None
    if parsed.scheme not in ("http", "https") or not parsed.host:
        raise UsageError(
            f"{url.rpartition('@')[2]!r} is not the address of a server; give one like "
            "https://kin.example:8080"
        )
    if parsed.userinfo:
        raise UsageError(
            f"the address of {parsed.host} contains a password; give a token with token=, or in "
            f"{TOKEN}"
        )
    secret = token if token is not None else os.environ.get(TOKEN)
    if secret is not None and not _is_valid_token(secret):
        raise UsageError(
            f"the token (token=, or {TOKEN}) contains spaces or characters that are not allowed"
        )
    headers = {"Accept": "*/*"}
    if secret:
        headers["Authorization"] = f"Bearer {secret}"
    return {
        "base_url": parsed,
        "headers": headers,
        "timeout": httpx2.Timeout(timeout, connect=min(timeout, CONNECT_SECONDS)),
        "verify": verify,
        "limits": LIMITS,
    }


def _is_valid_token(token: str) -> bool:
    return token.isascii() and token.isprintable() and token == token.strip()


@contextmanager
def _translate_http_errors(url: httpx2.URL) -> Iterator[None]:
    """Raises ServiceError for a failed connection."""
    try:
        yield
    except (httpx2.ConnectError, httpx2.ConnectTimeout) as error:
        raise ServiceError(
            "unreachable",
            f"{url} cannot be reached: {error or type(error).__name__}; start a server there with "
            "nearkin serve, or give the address of another one",
        ) from error
    except httpx2.TimeoutException as error:
        raise ServiceError("no-answer", f"{url} did not respond in time") from error
    except httpx2.RequestError as error:
        raise ServiceError(
            "no-answer", f"the connection to {url} failed: {error or type(error).__name__}"
        ) from error


def _pickling_error(client: "Client | AsyncClient") -> UsageError:
    """Returns the error for a client that is pickled or copied."""
    return UsageError(
        f"{client!r} cannot be pickled or copied, because it holds connections; create a client in "
        "each process"
    )


@contextmanager
def _ignore_silent_server() -> Iterator[None]:
    """Ends the block if nothing answers."""
    try:
        yield
    except ServiceError as error:
        if error.code not in ("unreachable", "no-answer"):
            raise


class Client:
    """A client of `nearkin serve` for threads. It is a context manager.

    Every method raises ServiceError if the server refuses the request or does not respond.

    Args:
        url: The address of the server.
        token: A token of `nearkin server token create`. The default is the value of NEARKIN_TOKEN.
        timeout: The maximum time of a single read or write, in seconds.
        retries: The rules for retries. `Retries(attempts=1)` turns them off.
        verify: Whether certificates are verified, or an SSL context for it.
        transport: A transport that replaces the one of httpx2.

    Examples:
        >>> Client("http://127.0.0.1:8080", token="nk_crawler_secret")
        Client('http://127.0.0.1:8080')
    """

    @check_arguments
    def __init__(
        self,
        url: str = URL,
        token: str | None = None,
        *,
        timeout: float = 60.0,
        retries: Retries = DEFAULT_RETRIES,
        verify: ssl.SSLContext | bool = True,
        transport: httpx2.BaseTransport | None = None,
    ) -> None:
        self._http = httpx2.Client(
            **_http_arguments(url, token, timeout, verify=verify), transport=transport
        )
        self._retries = retries
        self._was_connected = False

    def __repr__(self) -> str:
        return f"{type(self).__name__}({str(self._http.base_url)!r})"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __reduce__(self) -> str:
        raise _pickling_error(self)

    def close(self) -> None:
        """Closes the connections."""
        self._http.close()

    @check_arguments
    def upsert(self, scope: str, document: Document, id: str | None = None) -> Outcome:
        """Upserts a document, as `Index.upsert` does.

        Args:
            scope: Scope of the document.
            document: A text, a vector of numbers, or a `TextAndVector`.
            id: The id, or None for an id that is made from the content.

        Returns:
            The outcome. After a retry its `kind` is that of the last attempt.
        """
        path = path_in_scope(scope, "documents")
        line = to_json_line(NewDocument(document, id))
        return self._send_with_retries(Call("POST", path, read_outcome, line))

    def upsert_many(
        self, scope: str, documents: Iterable[NewDocument | Document] | Any
    ) -> Iterator[Line]:
        """Upserts documents in batches, and yields the outcome of each, in order.

        Args:
            scope: Scope of the documents.
            documents: Texts, vectors or NewDocuments; or a stream of Arrow batches (a pyarrow,
                polars or pandas table, a RecordBatchReader) with columns `text` or `vector`, and
                optionally `id`. They are read while outcomes are taken.

        Yields:
            An Outcome; or a ServiceError with its `line`, which is not raised, so that the
            following documents are still processed.
        """
        for call in upsert_requests(scope, documents):
            yield from self._send_with_retries(call)

    @check_arguments
    def query(
        self,
        scope: str | Sequence[str],
        document: Document,
        top: int = 10,
        *,
        members: bool = False,
    ) -> list[Match]:
        """Returns the representatives that resemble a document, the most similar first.

        Args:
            scope: Scope of the search, or a list of at most 100, to all of which the token has
                access.
            document: A text, a vector of numbers, or a `TextAndVector`.
            top: Maximum number of matches.
            members: True to compare the members of these representatives, too, as `Index.query`
                does.
        """
        options: dict[str, object] = {"top": top, "members": members}
        if not isinstance(scope, str):
            options["scopes"] = list(scope)
        line = to_json_line(document, options)
        return self._send_with_retries(search_request(scope, "query", line, "matches"))

    @check_arguments
    def related(self, scope: str, document: Document, top: int = 10) -> list[Match]:
        """Returns the representatives that are related to a document, as `Index.related_many` does.

        Args:
            scope: Scope of the search.
            document: A text or a vector of numbers.
            top: Maximum number of documents. A server returns at most 10.
        """
        line = to_json_line(document, {"top": top, "related": True})
        return self._send_with_retries(search_request(scope, "query", line, "related"))

    @check_arguments
    def passages(self, scope: str, text: str, top: int = 10) -> PassageMatches:
        """Returns the documents that share a passage with a text, as `Index.passages` does.

        Args:
            scope: Scope of the search.
            text: The text.
            top: Maximum number of documents.
        """
        path = path_in_scope(scope, "passages")
        line = to_json_line(text, {"top": top})
        return self._send_with_retries(Call("POST", path, reader_of(PassageMatches), line))

    @check_arguments
    def near_misses(self, scope: str, document: Document, top: int = 10) -> list[Match]:
        """Returns documents that share a bucket with a document but are below the threshold.

        They show how close a document is to a match, as those of `Index.near_misses`.

        Args:
            scope: Scope of the search.
            document: A text, or a vector of numbers.
            top: Maximum number of documents.
        """
        line = to_json_line(document, {"top": top})
        return self._send_with_retries(search_request(scope, "near-misses", line, "near_misses"))

    @check_arguments
    def get(self, scope: str, id: str) -> StoredDocument | None:
        """Returns a stored document, or None if it does not exist.

        Args:
            scope: Scope of the document.
            id: The id of the document.
        """
        path = path_in_scope(scope, "documents", id)
        return self._send_with_retries(Call("GET", path, or_none(read_document)))

    @check_arguments
    def remove(self, scope: str, id: str) -> bool:
        """Deletes a document.

        Args:
            scope: Scope of the document.
            id: The id of the document.

        Returns:
            False if the document did not exist. After a retry it is False too if the first attempt
            deleted it.
        """
        path = path_in_scope(scope, "documents", id)
        return self._send_with_retries(Call("DELETE", path, read_removal))

    @check_arguments
    def remove_many(self, scope: str, ids: Sequence[str]) -> int:
        """Deletes documents, in requests of at most 200.

        Args:
            scope: Scope of the documents.
            ids: Ids of the documents. Those that do not exist are passed over.

        Returns:
            The number of documents that existed. After a retry, those that the first attempt
            deleted are not counted.
        """
        return self._exchange(remove_documents(scope, ids))

    @check_arguments
    def remove_scope(self, scope: str) -> int:
        """Deletes all documents of a scope, in requests of at most 10,000.

        Args:
            scope: The scope.

        Returns:
            The number of deleted documents. After a retry, those that the first attempt deleted are
            not counted.
        """
        return self._exchange(remove_scope(scope))

    @check_arguments
    def add_part(self, scope: str, id: str, part: "str | Sequence[str]") -> int:
        """Adds a part to a document that is sent in parts. A part may be sent twice.

        Args:
            scope: Scope of the document.
            id: The id of the document.
            part: A text, or a list of tokens.

        Returns:
            The number of shingles so far. Those of several parts may count more than once.
        """
        path = path_in_scope(scope, "documents", id)
        line = part_to_json(part)
        return self._send_with_retries(Call("PATCH", path, reader_of_number("shingles"), line))

    @check_arguments
    def finish(self, scope: str, id: str) -> Outcome | None:
        """Finishes a document that was sent in parts. The outcome is that of an upsert.

        Args:
            scope: Scope of the document.
            id: The id of the document.

        Returns:
            The outcome, or None if the document has no parts. After a retry it is None too if the
            first attempt finished it.
        """
        path = path_in_scope(scope, "documents", id) + ":close"
        return self._send_with_retries(Call("POST", path, or_none(read_outcome)))

    @check_arguments
    def cluster(self, scope: str, id: str) -> Cluster | None:
        """Returns the cluster of a document with all members, or None if it does not exist.

        Args:
            scope: Scope of the document.
            id: The id of any document of the cluster.
        """
        return self._exchange(read_cluster(scope, id))

    def clusters(
        self, scope: str, order: str = "largest", limit: int = 100
    ) -> Iterator[ClusterPage]:
        """Yields the clusters of a scope in pages.

        Args:
            scope: Scope of the clusters.
            order: `largest` or `newest` first.
            limit: Maximum number of clusters of a page.
        """
        cursor: str | None = "0"
        while cursor is not None:
            page = self._send_with_retries(clusters_request(scope, order, limit, cursor))
            yield page
            cursor = page.next

    @check_arguments
    def decide(self, scope: str, decisions: Iterable[Decision]) -> int:
        """Stores decisions about documents, and follows them at once, as `Index.decide` does.

        The server adds the name of the token to who decided. Nothing is sent if the decisions
        contradict each other. They are sent in requests of at most 200. If one of them contradicts
        a stored decision, nothing of its request is stored, and nothing of the following ones;
        those of the requests before are. After a correction, all can be sent again.

        Args:
            scope: Scope of the documents.
            decisions: Decisions about pairs of ids, which need not be stored. Of two about a pair,
                the later one counts; one without a time is later than the stored one.

        Returns:
            The number of decisions that were not stored before. After a retry, those of the first
            attempt are not counted.

        Raises:
            UsageError: If an id or a name is not a valid text, or decisions contradict each other.
        """
        return self._exchange(store_decisions(scope, decisions))

    @check_arguments
    def decisions(self, scope: str) -> Decisions:
        """Returns the decisions about documents of a scope that the index stores.

        Args:
            scope: Scope of the documents.
        """
        return self._exchange(read_decisions(scope))

    @check_arguments
    def changes(
        self,
        after: str | None = None,
        scope: str | None = None,
        limit: int = 1000,
        *,
        id: str | None = None,
    ) -> ChangePage:
        """Returns what happened to documents since a cursor, as `Index.changes` does.

        Only changes of scopes that the token has access to are returned.

        Args:
            after: `next` of the previous page, or `"now"` for the end. By default, the oldest
                change that is kept.
            scope: Scope of the changes; None for all scopes of the token.
            limit: Maximum number of changes, at most 10,000.
            id: Id of the document whose changes are returned; None for all documents.

        Raises:
            ServiceError: If the request fails; with the code `gone`, if the changes after the
                cursor are not kept any more.
        """
        return self._send_with_retries(changes_request(after, scope, limit, id))

    @check_arguments
    def configure_scope(self, scope: str, settings: ScopeSettings) -> ScopeStatus:
        """Stores the settings of a scope, as `Index.configure_scope` does.

        It requires the right `admin` and the scope `*`.

        Args:
            scope: The scope.
            settings: Its settings, which replace the previous ones.
        """
        body = orjson.dumps(settings)
        return self._send_with_retries(
            Call("PUT", path_in_scope(scope), reader_of(ScopeStatus), body)
        )

    @check_arguments
    def scope_status(self, scope: str) -> ScopeStatus:
        """Returns the settings of a scope, and the use of its quotas.

        Args:
            scope: The scope.
        """
        return self._send_with_retries(Call("GET", path_in_scope(scope), reader_of(ScopeStatus)))

    @check_arguments
    def explain(self, scope: str, a: str, b: str) -> "Explanation":
        """Explains why two stored documents match or not.

        Args:
            scope: Scope of both documents.
            a: The id of a document.
            b: The id of another document.
        """
        body = orjson.dumps({"scope": scope, "a": a, "b": b})
        return self._send_with_retries(Call("POST", "/v1/explain", read_explanation, body))

    @check_arguments
    def tune(
        self,
        threshold: float = 0.8,
        recall: float = 0.95,
        *,
        k: int | None = None,
        documents: int = 1_000_000,
        points: int = 10,
    ) -> TuningResult:
        """Returns operating points for the signatures of the index.

        Args:
            threshold: Minimum similarity of a match, in (0, 1].
            recall: Minimum share of the matches at the threshold that are found, in (0, 1).
            k: Number of slots or bits of a signature. The default is that of the index.
            documents: Number of documents for which candidates are expected.
            points: Maximum number of operating points.
        """
        facts = {"threshold": threshold, "recall": recall, "documents": documents, "points": points}
        return self._send_with_retries(tune_request(facts if k is None else {**facts, "k": k}))

    def spec(self) -> IndexFacts:
        """Returns the Spec and the banding of the index."""
        return self._send_with_retries(Call("GET", "/v1/spec", reader_of(IndexFacts)))

    def stats(self) -> "IndexStats":
        """Returns the counts of the index. It requires the right `admin`."""
        return self._send_with_retries(Call("GET", "/v1/stats", read_json))

    def ready(self) -> bool:
        """Returns whether the server is ready. False if nothing answers. It is not retried."""
        with _ignore_silent_server():
            return self._send(Call("GET", "/readyz", read_readiness))
        return False

    def _exchange(self, exchange: Exchange[T]) -> T:
        """Sends requests, and returns their common result."""
        result: Any = None
        while True:
            try:
                call = exchange.send(result)
            except StopIteration as end:
                return cast(T, end.value)
            result = self._send_with_retries(call)

    def _send_with_retries(self, call: Call[T]) -> T:
        return tenacity.Retrying(
            **self._retries.options(was_connected=lambda: self._was_connected)
        )(self._send, call)

    def _send(self, call: Call[T]) -> T:
        with (
            _translate_http_errors(self._http.base_url),
            self._http.stream(**call.options) as answer,
        ):
            self._was_connected = True
            buffer = ResponseBuffer(answer)
            for chunk in answer.iter_bytes():
                buffer.add(chunk)
        return call.parse(buffer.to_response())


def _coroutine(
    method: Callable[Concatenate[Client, P], T],
) -> "Callable[Concatenate[AsyncClient, P], Coroutine[Any, Any, T]]":
    """Returns a method of `Client` as a coroutine.

    The method returns what sends its requests, and that is a coroutine in an AsyncClient.
    """

    @wraps(method)
    async def send(self: "AsyncClient", /, *arguments: P.args, **fields: P.kwargs) -> T:
        sending = cast("Awaitable[T]", method(cast(Client, self), *arguments, **fields))
        return await sending

    return send


class AsyncClient:
    """A client of `nearkin serve` for coroutines. It is an asynchronous context manager.

    Its arguments and methods are those of `Client`.

    Examples:
        >>> async def main() -> int:
        ...     async with AsyncClient("http://127.0.0.1:8080") as client:
        ...         texts = ["the cat sat on the mat", "another text"]
        ...         upserts = [client.upsert("tenant-a", text) for text in texts]
        ...         return len(await asyncio.gather(*upserts))
    """

    @check_arguments
    def __init__(
        self,
        url: str = URL,
        token: str | None = None,
        *,
        timeout: float = 60.0,
        retries: Retries = DEFAULT_RETRIES,
        verify: ssl.SSLContext | bool = True,
        transport: httpx2.AsyncBaseTransport | None = None,
    ) -> None:
        self._http = httpx2.AsyncClient(
            **_http_arguments(url, token, timeout, verify=verify), transport=transport
        )
        self._retries = retries
        self._was_connected = False

    def __repr__(self) -> str:
        return f"{type(self).__name__}({str(self._http.base_url)!r})"

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    def __reduce__(self) -> str:
        raise _pickling_error(self)

    async def close(self) -> None:
        """Closes the connections."""
        await self._http.aclose()

    upsert = _coroutine(Client.upsert)

    async def upsert_many(
        self,
        scope: str,
        documents: "AsyncIterable[NewDocument | Document] | Iterable[NewDocument | Document] | Any",
    ) -> AsyncIterator[Line]:
        """Does the same as `Client.upsert_many`. Documents may be an asynchronous iterable."""
        async for call in async_upsert_requests(scope, documents):
            for line in await self._send_with_retries(call):
                yield line

    query = _coroutine(Client.query)

    related = _coroutine(Client.related)

    passages = _coroutine(Client.passages)

    near_misses = _coroutine(Client.near_misses)

    get = _coroutine(Client.get)

    remove = _coroutine(Client.remove)

    remove_many = _coroutine(Client.remove_many)

    remove_scope = _coroutine(Client.remove_scope)

    add_part = _coroutine(Client.add_part)

    finish = _coroutine(Client.finish)

    cluster = _coroutine(Client.cluster)

    async def clusters(
        self, scope: str, order: str = "largest", limit: int = 100
    ) -> AsyncIterator[ClusterPage]:
        """Does the same as `Client.clusters`.

        Args:
            scope: Scope of the clusters.
            order: `largest` or `newest` first.
            limit: Maximum number of clusters of a page.
        """
        cursor: str | None = "0"
        while cursor is not None:
            page = await self._send_with_retries(clusters_request(scope, order, limit, cursor))
            yield page
            cursor = page.next

    decide = _coroutine(Client.decide)

    decisions = _coroutine(Client.decisions)

    changes = _coroutine(Client.changes)

    configure_scope = _coroutine(Client.configure_scope)

    scope_status = _coroutine(Client.scope_status)

    explain = _coroutine(Client.explain)

    tune = _coroutine(Client.tune)

    spec = _coroutine(Client.spec)

    stats = _coroutine(Client.stats)

    async def ready(self) -> bool:
        """Does the same as `Client.ready`."""
        with _ignore_silent_server():
            return await self._send(Call("GET", "/readyz", read_readiness))
        return False

    async def _exchange(self, exchange: Exchange[T]) -> T:
        result: Any = None
        while True:
            try:
                call = exchange.send(result)
            except StopIteration as end:
                return cast(T, end.value)
            result = await self._send_with_retries(call)

    async def _send_with_retries(self, call: Call[T]) -> T:
        return await tenacity.AsyncRetrying(
            **self._retries.options(was_connected=lambda: self._was_connected)
        )(self._send, call)

    async def _send(self, call: Call[T]) -> T:
        with _translate_http_errors(self._http.base_url):
            async with self._http.stream(**call.options) as answer:
                self._was_connected = True
                buffer = ResponseBuffer(answer)
                async for chunk in answer.aiter_bytes():
                    buffer.add(chunk)
        return call.parse(buffer.to_response())
