"""The client of `nearkin serve`, for threads and for coroutines.

Every request may be sent again: an upsert under its id, or under its content's, is the same document. So what fails on the way,
and what a server puts off (429, 503), is tried again after a growing, random time, and not before the server's own Retry-After.
"""

import asyncio
import os
from collections.abc import AsyncIterable, AsyncIterator, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self, TypeVar

from nearkin.client import requests as calls
from nearkin.client.requests import (
    Batches,
    Call,
    ClusterPage,
    IndexFacts,
    Line,
    NewDocument,
    ReadingCluster,
    StoredDocument,
    Tuned,
)
from nearkin.errors import MissingExtraError, ServiceError, UsageError
from nearkin.index.entry import Cluster, Match, Outcome

try:
    import httpx
    import tenacity
except ImportError as error:
    raise MissingExtraError(f"the client needs httpx and tenacity: pip install 'nearkin[client]' ({error.name})") from error

if TYPE_CHECKING:
    import ssl

    from nearkin.index.preparation import Document
    from nearkin.measures.explanation import Explanation

T = TypeVar("T")
R = TypeVar("R")

TOKEN = "NEARKIN_TOKEN"
URL = "http://127.0.0.1:8080"
LIMITS = httpx.Limits(max_connections=100, max_keepalive_connections=100, keepalive_expiry=20.0)
"""All are kept (httpx would close all but twenty after each request), but none for as long as a server does."""


@dataclass(frozen=True)
class Retries:
    """How often a request is sent, and when.

    Attributes:
        attempts: Times it is sent, at most.
        first: Seconds within which it is sent for the second time; doubled from then on, each a random share of it.
        longest: Seconds between two attempts, at most; a server that asks for more (Retry-After) is not asked again.
    """

    attempts: int = 8
    first: float = 0.2
    longest: float = 60.0

    def __post_init__(self) -> None:
        if self.attempts < 1 or self.first < 0 or self.longest < 0:
            raise UsageError(f"{self}: there must be an attempt, and no time below 0")

    @property
    def options(self) -> dict[str, Any]:
        """For tenacity; what the last attempt returned or raised is what the caller gets."""
        return {
            "stop": tenacity.stop_after_attempt(self.attempts),
            "wait": self.wait,
            "retry": tenacity.retry_if_exception(self.is_worth_it) | tenacity.retry_if_result(_has_transient),
            "retry_error_callback": lambda state: state.outcome.result(),
        }

    def is_worth_it(self, error: BaseException) -> bool:
        """Whether a failed request is sent again."""
        return isinstance(error, ServiceError) and error.transient and (error.retry_after or 0) <= self.longest

    def wait(self, state: tenacity.RetryCallState) -> float:
        """Seconds before the next attempt."""
        failed = None if state.outcome is None else state.outcome.exception()
        asked = failed.retry_after if isinstance(failed, ServiceError) else None
        return (asked or 0.0) + tenacity.wait_random_exponential(self.first, self.longest)(state)


USUAL = Retries()


def _has_transient(answer: object) -> bool:
    """Whether lines of a batch should be sent again: then all of them are, which keeps their order."""
    return isinstance(answer, list) and any(isinstance(one, ServiceError) and one.transient for one in answer)


def _connection(url: str, token: str | None, timeout: float, verify: "ssl.SSLContext | bool") -> dict[str, Any]:
    """What both of httpx' clients are made with."""
    try:
        found = httpx.URL(url)
    except httpx.InvalidURL:
        # its reason may repeat a part of a password
        raise UsageError(f"{url!r} is not a valid URL; give the address of a server, as https://kin.example:8080") from None
    if found.scheme not in ("http", "https") or not found.host:
        raise UsageError(f"{url.rpartition('@')[2]!r} is no address of a server, as https://kin.example:8080")
    if found.userinfo:
        raise UsageError(f"the address of {found.host} holds a password; give a token with token=, or in {TOKEN}")
    secret = token if token is not None else os.environ.get(TOKEN)
    if secret is not None and not (secret.isascii() and secret.isprintable() and secret == secret.strip()):
        raise UsageError(f"the token (token=, or {TOKEN}) has spaces or characters that no token has")
    headers = {"Accept": "*/*", **({"Authorization": f"Bearer {secret}"} if secret else {})}
    return {"base_url": found, "headers": headers, "timeout": timeout, "verify": verify, "limits": LIMITS}


@contextmanager
def _reaching(url: httpx.URL) -> Iterator[None]:
    """What fails on the way, as one kind of error."""
    try:
        yield
    except (httpx.ConnectError, httpx.ConnectTimeout) as error:
        raise ServiceError("unreachable", f"{url} cannot be reached: {error}") from error
    except httpx.TimeoutException as error:
        raise ServiceError("no-answer", f"{url} gave no answer in time") from error
    except httpx.RequestError as error:
        raise ServiceError("no-answer", f"{url}: the connection broke: {error or type(error).__name__}") from error


class Client:
    """Speaks with `nearkin serve`; safe for threads; a context manager.

    Args:
        url: Of the server.
        token: Of `nearkin token create`; by default what NEARKIN_TOKEN holds.
        timeout: Seconds in which a server must take or send something.
        retries: When requests are sent again; `Retries(attempts=1)` for never.
        verify: Certificates: as usual, or a context of your own.
        transport: In place of httpx' own.

    Every method may raise ServiceError: the server refused, or did not answer.

    Examples:
        >>> Client("http://127.0.0.1:8080", token="nk_crawler_secret")
        Client('http://127.0.0.1:8080')
    """

    def __init__(
        self,
        url: str = URL,
        token: str | None = None,
        *,
        timeout: float = 60.0,
        retries: Retries = USUAL,
        verify: "ssl.SSLContext | bool" = True,
        transport: httpx.BaseTransport | None = None,
    ) -> None:
        self._http = httpx.Client(**_connection(url, token, timeout, verify), transport=transport)
        self._retries = retries

    def __repr__(self) -> str:
        return f"{type(self).__name__}({str(self._http.base_url)!r})"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Closes its connections."""
        self._http.close()

    def upsert(self, scope: str, document: "Document", id: str | None = None) -> Outcome:
        """Puts a document where it belongs, as `Index.upsert`; of a request that was sent again, `kind` is the last one's."""
        return self._do(calls.upserting(scope, document, id))

    def upsert_many(self, scope: str, documents: "Iterable[NewDocument | Document] | Any") -> Iterator[Line]:
        """Upserts a stream, some documents at a time, and yields what became of each, in order.

        Args:
            scope: Tenant or group.
            documents: Texts, vectors or NewDocuments; or a stream of Arrow batches (a pyarrow, polars or pandas table, a
                RecordBatchReader) with columns `text` or `vector`, and `id` if it has one. Read as answers are taken.

        Yields:
            An Outcome, or a ServiceError with its `line`: it is not raised, and the next documents go on.
        """
        if calls.is_table(documents):
            for call in calls.batches_of_table(scope, documents):
                yield from self._do(call)
            return
        batches = Batches(scope)
        for document in documents:
            if (full := batches.add(document)) is not None:
                yield from self._do(full)
        if (rest := batches.rest()) is not None:
            yield from self._do(rest)

    def query(self, scope: str, document: "Document", top: int = 10) -> list[Match]:
        """Stored documents at or above the threshold, most similar first."""
        return self._do(calls.querying(scope, document, top))

    def get(self, scope: str, id: str) -> StoredDocument | None:
        """A document; None if there is none."""
        return self._do(calls.getting(scope, id))

    def remove(self, scope: str, id: str) -> bool:
        """Erases a document; whether there was one. Of a request that was sent again, the first may have erased it already."""
        return self._do(calls.removing(scope, id))

    def add_piece(self, scope: str, id: str, piece: "str | Sequence[str]") -> int:
        """Adds to a document that arrives in pieces; returns its distinct shingles so far. A piece may come twice."""
        return self._do(calls.folding(scope, id, piece))

    def seal(self, scope: str, id: str) -> Outcome | None:
        """Resolves a document that came in pieces, as an upsert of the whole; None if no such document is open.

        Of a request that was sent again, the first may have resolved it already.
        """
        return self._do(calls.sealing(scope, id))

    def cluster(self, scope: str, id: str) -> Cluster | None:
        """The cluster of a document, with all its members; None if there is no such document."""
        reading = ReadingCluster(scope, id)
        while reading.call is not None:
            reading.take(self._do(reading.call))
        return reading.found

    def clusters(self, scope: str, order: str = "largest", limit: int = 100) -> Iterator[ClusterPage]:
        """Pages of `limit` clusters, `largest` or `newest` first."""
        cursor: str | None = "0"
        while cursor is not None:
            page = self._do(calls.listing(scope, order, limit, cursor))
            yield page
            cursor = page.next

    def explain(self, scope: str, a: str, b: str) -> "Explanation":
        """Why two stored documents match, or do not."""
        return self._do(calls.explaining(scope, a, b))

    def tune(
        self,
        threshold: float = 0.8,
        recall: float = 0.95,
        *,
        k: int | None = None,
        documents: int = 1_000_000,
        points: int = 10,
    ) -> Tuned:
        """Bands and rows that reach a recall at a threshold, for the index' signatures."""
        return self._do(calls.tuning(threshold, recall, k, documents, points))

    def spec(self) -> IndexFacts:
        """What the index is."""
        return self._do(calls.describing())

    def stats(self) -> dict[str, Any]:
        """Counts of the index; for admins."""
        return self._do(calls.counting())

    def ready(self) -> bool:
        """Whether requests can be served; asked once, and an error where nothing listens."""
        return self._send(calls.asking_ready())

    def _do(self, call: Call[T]) -> T:
        return tenacity.Retrying(**self._retries.options)(self._send, call)

    def _send(self, call: Call[T]) -> T:
        with _reaching(self._http.base_url), self._http.stream(**call.options) as answer:
            collecting = calls.Collecting(answer)
            for chunk in answer.iter_bytes():
                collecting.add(chunk)
        return call.parse(collecting.whole())


class AsyncClient:
    """`Client` for coroutines; see there. An asynchronous context manager.

    Examples:
        >>> async def main() -> int:
        ...     async with AsyncClient("http://127.0.0.1:8080") as client:
        ...         found = [client.upsert("tenant-a", text) for text in ("the cat sat on the mat", "another text")]
        ...         return len(await asyncio.gather(*found))
    """

    def __init__(
        self,
        url: str = URL,
        token: str | None = None,
        *,
        timeout: float = 60.0,
        retries: Retries = USUAL,
        verify: "ssl.SSLContext | bool" = True,
        transport: httpx.AsyncBaseTransport | None = None,
    ) -> None:
        self._http = httpx.AsyncClient(**_connection(url, token, timeout, verify), transport=transport)
        self._retries = retries

    def __repr__(self) -> str:
        return f"{type(self).__name__}({str(self._http.base_url)!r})"

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Closes its connections."""
        await self._http.aclose()

    async def upsert(self, scope: str, document: "Document", id: str | None = None) -> Outcome:
        """As `Client.upsert`."""
        return await self._do(calls.upserting(scope, document, id))

    async def upsert_many(
        self, scope: str, documents: "AsyncIterable[NewDocument | Document] | Iterable[NewDocument | Document] | Any"
    ) -> AsyncIterator[Line]:
        """As `Client.upsert_many`; documents may come from an asynchronous iterable."""
        if calls.is_table(documents):
            requests = calls.batches_of_table(scope, documents)
            while (call := await asyncio.to_thread(next, requests, None)) is not None:
                for line in await self._do(call):
                    yield line
            return
        batches = Batches(scope)
        async for document in _each(documents):
            if (full := batches.add(document)) is not None:
                for line in await self._do(full):
                    yield line
        if (rest := batches.rest()) is not None:
            for line in await self._do(rest):
                yield line

    async def query(self, scope: str, document: "Document", top: int = 10) -> list[Match]:
        """As `Client.query`."""
        return await self._do(calls.querying(scope, document, top))

    async def get(self, scope: str, id: str) -> StoredDocument | None:
        """As `Client.get`."""
        return await self._do(calls.getting(scope, id))

    async def remove(self, scope: str, id: str) -> bool:
        """As `Client.remove`."""
        return await self._do(calls.removing(scope, id))

    async def add_piece(self, scope: str, id: str, piece: "str | Sequence[str]") -> int:
        """As `Client.add_piece`."""
        return await self._do(calls.folding(scope, id, piece))

    async def seal(self, scope: str, id: str) -> Outcome | None:
        """As `Client.seal`."""
        return await self._do(calls.sealing(scope, id))

    async def cluster(self, scope: str, id: str) -> Cluster | None:
        """As `Client.cluster`."""
        reading = ReadingCluster(scope, id)
        while reading.call is not None:
            reading.take(await self._do(reading.call))
        return reading.found

    async def clusters(self, scope: str, order: str = "largest", limit: int = 100) -> AsyncIterator[ClusterPage]:
        """As `Client.clusters`."""
        cursor: str | None = "0"
        while cursor is not None:
            page = await self._do(calls.listing(scope, order, limit, cursor))
            yield page
            cursor = page.next

    async def explain(self, scope: str, a: str, b: str) -> "Explanation":
        """As `Client.explain`."""
        return await self._do(calls.explaining(scope, a, b))

    async def tune(
        self,
        threshold: float = 0.8,
        recall: float = 0.95,
        *,
        k: int | None = None,
        documents: int = 1_000_000,
        points: int = 10,
    ) -> Tuned:
        """As `Client.tune`."""
        return await self._do(calls.tuning(threshold, recall, k, documents, points))

    async def spec(self) -> IndexFacts:
        """As `Client.spec`."""
        return await self._do(calls.describing())

    async def stats(self) -> dict[str, Any]:
        """As `Client.stats`."""
        return await self._do(calls.counting())

    async def ready(self) -> bool:
        """As `Client.ready`."""
        return await self._send(calls.asking_ready())

    async def _do(self, call: Call[T]) -> T:
        return await tenacity.AsyncRetrying(**self._retries.options)(self._send, call)

    async def _send(self, call: Call[T]) -> T:
        with _reaching(self._http.base_url):
            async with self._http.stream(**call.options) as answer:
                collecting = calls.Collecting(answer)
                async for chunk in answer.aiter_bytes():
                    collecting.add(chunk)
        return call.parse(collecting.whole())


async def _each(values: AsyncIterable[R] | Iterable[R]) -> AsyncIterator[R]:
    if isinstance(values, AsyncIterable):
        async for value in values:
            yield value
    else:
        for value in values:
            yield value
