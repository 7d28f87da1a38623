"""Event streams over a Redis server of the tests, and consumers that are killed."""

import contextlib
import io
import itertools
import json
import signal
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import redis

import nearkin as nk
from nearkin.cli import app
from nearkin.errors import StoreError
from nearkin.index.entry import RESERVED
from nearkin.index.maintenance import check_index
from nearkin.index.parts import parts_scope
from nearkin.service.consumer.consumer import Consumer, ConsumerCounts
from nearkin.service.consumer.events import EventSource, StreamEvent, StreamSettings
from nearkin.service.consumer.redis_source import RedisSource
from nearkin.service.consumer.sinks import IndexSink, ServerSink
from tests.index.conftest import corpus
from tests.service.consumer.listed_source import ListedSource
from tests.services import free_port, nearkin_server, redis_server, start_serving, wait_until

NUMBERS = itertools.count()


@pytest.fixture(scope="module")
def port(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    with redis_server(tmp_path_factory.mktemp("redis")) as found:
        yield found


class Stream:
    """A stream of the test, and its content."""

    def __init__(self, port: int) -> None:
        self.name = f"documents{next(NUMBERS)}"
        self.url = f"redis://127.0.0.1:{port}/0?stream={self.name}"
        self.redis: Any = redis.Redis(port=port, protocol=2)

    def add(self, **fields: "str | bytes") -> str:
        return str(self.redis.xadd(self.name, fields).decode())

    def fill(self, texts: Sequence[str], first: int = 0, **fields: str) -> None:
        """Adds an event for each text; the ids of the documents count from a first number."""
        pipe = self.redis.pipeline(transaction=False)
        for number, text in enumerate(texts, first):
            pipe.xadd(self.name, {"id": f"n{number:05d}", "text": text, **fields})
        pipe.execute()

    def make_idle(self) -> None:
        """Sets the idle time of unacknowledged events to an hour, without another delivery."""
        for event in self.redis.xpending_range(self.name, "nearkin", "-", "+", 10_000):
            self.redis.xclaim(
                self.name,
                "nearkin",
                event["consumer"],
                min_idle_time=0,
                message_ids=[event["message_id"]],
                idle=3_600_000,
                justid=True,
            )

    @property
    def pending(self) -> int:
        return int(self.redis.xpending(self.name, "nearkin")["pending"])

    @property
    def letters(self) -> list[dict[str, str]]:
        rows = self.redis.xrange(f"{self.name}:dead")
        return [
            {name.decode(): value.decode("utf-8", "replace") for name, value in fields.items()}
            for _, fields in rows
        ]


@pytest.fixture
def stream(port: int) -> Stream:
    return Stream(port)


@pytest.fixture
def index() -> Iterator[nk.Index]:
    with nk.Index.open("memory://") as found:
        yield found


def consume(stream: Stream, sink: Any, consumer: str = "one", **fields: Any) -> ConsumerCounts:
    settings = StreamSettings(**{"wait": 0.05, "idle": 0.2, **fields})
    with RedisSource(stream.url, consumer=consumer, idle=settings.idle) as source:
        return Consumer(source, sink, settings).run(until_empty=True)


def ids(index: nk.Index) -> list[str]:
    entries = index._session.store.scan()
    return sorted(entry.id for entry in entries if not entry.scope.startswith(RESERVED))


def test_events_are_upserted_once(stream: Stream, index: nk.Index) -> None:
    stream.add(id="one", text="the cat sat on the mat and looked")
    stream.add(id="two", text="the cat sat on the mat and looked", scope="other")
    stream.add(text="no id of its own")
    stream.add(text="no id of its own")
    done = consume(stream, IndexSink(index))
    assert done.to_dict() == {
        "documents": 4,
        "new": 3,
        "exact": 1,
        "removed": 0,
        "old": 0,
        "repeated": 0,
        "dead": 0,
        "dropped": 0,
    }
    assert index.get("other", "two") is not None
    assert len(ids(index)) == 3
    assert stream.pending == 0
    assert consume(stream, IndexSink(index)).to_dict()["documents"] == 0


def test_vectors_and_renamed_fields_are_read(stream: Stream) -> None:
    stream.add(embedding="[1, 0.5, 0]", key="a", tenant="t")
    with nk.Index.open("memory://", nk.Spec(measure="cosine", unit="vector", n=3)) as index:
        consume(stream, IndexSink(index), vector="embedding", id="key", scope_field="tenant")
        assert index.get("t", "a") is not None


def test_events_with_a_text_and_a_vector_are_read(stream: Stream) -> None:
    stream.add(text=corpus(1)[0], vector="[1, 0.5, 0]", id="both")
    stream.add(text=corpus(1)[0], id="text")
    stream.add(vector="[1, 0.5, 0]", id="vector")
    vectors = nk.index_types.VectorEvidence(nk.Spec(measure="cosine", unit="vector", n=3))
    with nk.Index.open("memory://", vector=vectors) as index:
        consume(stream, IndexSink(index))
        cluster = index.cluster("default", "both")
        assert cluster is not None
        assert {id for id, _ in cluster.members} == {"both", "text", "vector"}


def test_an_event_with_both_is_a_dead_letter_for_an_index_of_texts(
    stream: Stream, index: nk.Index
) -> None:
    stream.add(text=corpus(1)[0], vector="[1, 0.5, 0]", id="both")
    assert consume(stream, IndexSink(index)).dead == 1
    assert "the documents of this index are texts" in stream.letters[0]["nearkin:reason"]


def test_invalid_events_become_dead_letters(stream: Stream, index: nk.Index) -> None:
    wrong = [
        stream.add(body="none"),
        stream.add(text="x", id=""),
        stream.add(vector="[1.0]"),
        stream.add(text=b"\xff", b="é"),
    ]
    stream.fill(corpus(20))
    done = consume(stream, IndexSink(index))
    assert (done.dead, done.kinds.total()) == (4, 20)
    assert [letter["nearkin:key"] for letter in stream.letters] == wrong
    assert stream.letters[0]["body"] == "none"
    assert (
        stream.letters[0]["nearkin:reason"]
        == "an event must have one of the fields text and vector"
    )
    assert stream.pending == 0


def test_dead_letter_is_written_once_after_a_broken_connection(stream: Stream) -> None:
    """The step is repeated if the connection breaks after it."""
    stream.add(body="none")
    with RedisSource(stream.url) as source:
        (event,) = source.read(10, 0.05)
        source.move_to_dead_letters(event, "first")
        source.move_to_dead_letters(event, "second")
    assert [letter["nearkin:reason"] for letter in stream.letters] == ["first"]


def test_events_of_a_dead_consumer_are_taken_over(stream: Stream, index: nk.Index) -> None:
    stream.fill(corpus(30))
    for name in ("dead", "one"):
        with RedisSource(stream.url, consumer=name) as source:
            assert len(source.read(10, 0.05)) == 10
    stream.make_idle()
    done = consume(stream, IndexSink(index), idle=60)
    assert done.kinds.total() == 30
    assert stream.pending == 0


def test_events_of_a_live_consumer_are_not_taken_over(stream: Stream) -> None:
    stream.fill(corpus(3))
    with (
        RedisSource(stream.url, consumer="busy", idle=60) as busy,
        RedisSource(stream.url, consumer="one", idle=60) as other,
    ):
        assert len(busy.read(10, 0.05)) == 3
        assert other.reclaim(10) == []


def test_many_unacknowledged_events_are_reclaimed_in_parts(stream: Stream) -> None:
    stream.fill(corpus(25))
    with RedisSource(stream.url, consumer="dead") as dead:
        keys = [event.key for _ in range(2) for event in dead.read(25, 0.05)]
    assert len(keys) == 25
    for deliveries, name in enumerate(("dead", "other"), 2):
        with RedisSource(stream.url, consumer=name, idle=1_800) as source:
            taken: list[StreamEvent] = []
            while events := source.reclaim(7):
                assert len(events) <= 7
                taken += events
        assert [event.key for event in taken] == keys
        assert {event.deliveries for event in taken} == {deliveries}
        stream.make_idle()


def test_events_of_a_lost_answer_are_read_again(
    stream: Stream, index: nk.Index, monkeypatch: pytest.MonkeyPatch
) -> None:
    stream.fill(corpus(3))
    with RedisSource(stream.url, idle=60) as source:
        read = source._redis.xreadgroup

        def lose_answer(group: str, name: str, places: dict[str, str], **options: Any) -> Any:
            answer = read(group, name, places, **options)
            if ">" in places.values():
                monkeypatch.setattr(source._redis, "xreadgroup", read)
                raise redis.exceptions.TimeoutError("no answer")
            return answer

        monkeypatch.setattr(source._redis, "xreadgroup", lose_answer)
        settings = StreamSettings(wait=0.05, idle=60)
        done = Consumer(source, IndexSink(index), settings).run(until_empty=True)
    assert (done.kinds.total(), stream.pending) == (3, 0)


def test_trimmed_events_are_counted_as_dropped(stream: Stream, index: nk.Index) -> None:
    stream.fill(corpus(5))
    with RedisSource(stream.url, consumer="one") as source:
        source.read(2, 0.05)
    with RedisSource(stream.url, consumer="dead") as source:
        source.read(2, 0.05)
    stream.make_idle()
    stream.redis.xtrim(stream.name, maxlen=1, approximate=False)
    done = consume(stream, IndexSink(index), idle=60)
    assert (done.dropped, done.kinds.total(), stream.pending) == (4, 1, 0)


def test_event_that_kills_its_consumer_becomes_a_dead_letter(stream: Stream) -> None:
    """The event goes to the dead letters, and the other events do not."""
    stream.fill(corpus(6))
    poison = corpus(6)[3]

    class Killed(BaseException):
        pass

    class Dying(IndexSink):
        def upsert(self, scope: str, documents: Any, given: Any) -> Any:
            if poison in documents:
                raise Killed
            return super().upsert(scope, documents, given)

    with nk.Index.open("memory://") as index:
        for _ in range(10):
            try:
                consume(stream, Dying(index), deliveries=5)
            except Killed:
                continue
            break
        assert ids(index) == [f"n{number:05d}" for number in (0, 1, 2, 4, 5)]
    assert [letter["id"] for letter in stream.letters] == ["n00003"]
    assert "never acknowledged" in stream.letters[0]["nearkin:reason"]
    assert stream.pending == 0


class Failing:
    """A sink whose first calls fail."""

    def __init__(self, inner: Any, *errors: nk.NearkinError) -> None:
        self.inner, self.errors = inner, list(errors)

    def upsert(self, scope: str, documents: Any, given: Any) -> Any:
        if self.errors:
            raise self.errors.pop(0)
        return self.inner.upsert(scope, documents, given)


def test_transient_failures_are_retried(
    stream: Stream, index: nk.Index, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("nearkin.service.consumer.consumer.LONGEST_WAIT", 0.01)
    stream.fill(corpus(10))
    failing = Failing(
        IndexSink(index), StoreError("gone"), nk.ServiceError("busy", "later", status=503)
    )
    assert consume(stream, failing).kinds.total() == 10


def test_error_that_no_document_causes_ends_the_consumer(stream: Stream, index: nk.Index) -> None:
    stream.fill(corpus(10))
    for error in (
        nk.ServiceError("unauthenticated", "no", status=401),
        nk.errors.IncompatibleError("another Spec"),
    ):
        with pytest.raises(type(error)):
            consume(stream, Failing(IndexSink(index), error))
    assert stream.letters == []
    assert consume(stream, IndexSink(index)).kinds.total() == 10


def test_consumer_stops_while_it_waits_for_a_retry(stream: Stream, index: nk.Index) -> None:
    stream.fill(corpus(10))
    stop = threading.Event()
    failing = Failing(IndexSink(index), *[StoreError("gone")] * 1000)

    def stop_after_failures() -> None:
        wait_until(lambda: len(failing.errors) < 998, "the consumer retries")
        stop.set()

    with RedisSource(stream.url) as source, ThreadPoolExecutor() as pool:
        stopping = pool.submit(stop_after_failures)
        consumer = Consumer(source, failing, StreamSettings(wait=0.05), stop)
        assert consumer.run().kinds.total() == 0
        stopping.result()
    assert stream.pending == 10


def test_any_event_source_can_be_consumed(index: nk.Index) -> None:
    """A source needs only four methods."""

    texts = enumerate(corpus(5))
    source = ListedSource(
        StreamEvent(str(number), {"text": text.encode()}) for number, text in texts
    )
    checked: EventSource = source
    Consumer(checked, IndexSink(index), StreamSettings(batch=2)).run(until_empty=True)
    assert source.acknowledged == ["0", "1", "2", "3", "4"]


def test_deletions_remove_documents_in_the_order_of_their_events(
    stream: Stream, index: nk.Index
) -> None:
    for id, text in zip(("one", "two"), corpus(2), strict=True):
        stream.add(id=id, text=text)
    stream.add(id="one", op="delete")
    stream.add(id="two", op="DELETE", text="a deletion may have a text")
    stream.add(id="two", op="update", text="inserted again after its deletion")
    stream.add(id="none", op="d")
    stream.add(id="one", op="remove", scope="other")
    done = consume(stream, IndexSink(index))
    assert (done.removed, done.kinds.total(), stream.pending) == (4, 3, 0)
    assert done.to_dict()["documents"] == 3
    assert ids(index) == ["two"]


def test_older_versions_are_passed_over(stream: Stream, index: nk.Index) -> None:
    first, second, third = corpus(3)
    stream.add(id="one", text=first, at="2026-12-01T10:00:00Z")
    stream.add(id="one", text=second, at="2026-12-01T12:00:00+01:00")
    stream.add(id="one", text=third, at="2026-12-01T10:30:00Z")
    stream.add(id="two", text=first, at="2026-12-01T10:00:00Z")
    stream.add(id="two", op="delete", at="2026-12-01T11:00:00Z")
    stream.add(id="two", text=second, at="2026-12-01T10:59:59Z")
    stream.add(text=third, at="2026-12-01T10:30:00Z")
    done = consume(stream, IndexSink(index), version="at")
    assert (done.kinds.total(), done.removed, done.old, done.dead) == (4, 1, 2, 0)
    entry = index.get("default", "one")
    assert entry is not None
    assert entry.text == second
    assert index.get("default", "two") is None


def test_versions_that_cannot_be_compared_become_dead_letters(
    stream: Stream, index: nk.Index
) -> None:
    stream.add(id="one", text=corpus(1)[0], v="1")
    stream.add(id="one", text="without a version")
    stream.add(id="one", text="not a version", v="1.2.3")
    stream.add(id="one", text="a time", v="2026-12-01")
    stream.add(id="one", op="delete")
    done = consume(stream, IndexSink(index), version="v")
    assert (done.kinds.total(), done.dead, stream.pending) == (1, 4, 0)
    reasons = [letter["nearkin:reason"] for letter in stream.letters]
    # those that are refused by the index come after those that are not valid
    assert sorted(reason[:40] for reason in reasons) == [
        "an event must have the field v, which ho",
        "an event must have the field v, which ho",
        "the version 2026-12-01T00:00:00+00:00 of",
        "v is '1.2.3', which is neither a number ",
    ]


def test_operations_that_are_unknown_or_incomplete_become_dead_letters(
    stream: Stream, index: nk.Index
) -> None:
    stream.add(id="one", text=corpus(1)[0])
    stream.add(id="one", op="truncate")
    stream.add(op="delete", text="a deletion without an id")
    stream.add(id="", op="delete")
    stream.add(id="one", op=b"\xff")
    done = consume(stream, IndexSink(index))
    assert (done.dead, done.removed, stream.pending) == (4, 0, 0)
    assert ids(index) == ["one"]
    assert [letter["nearkin:reason"] for letter in stream.letters] == [
        "op is 'truncate', which is not a known operation; write upsert or delete",
        "a deletion must have the field id, which holds the id of the document; if it is the key "
        "of the message, read ids from the field key",
        "id must be 1 to 1024 bytes without control characters",
        "op is not UTF-8",
    ]


# -- promises of docs/how-to/run-the-service.md


def test_events_cannot_name_reserved_scopes(stream: Stream, index: nk.Index) -> None:
    """Reserved scopes contain unfinished documents of other tenants."""
    index.add_part("victim", "open", "a piece of another tenant")
    reserved = parts_scope("victim")
    part = index.get(reserved, "open")
    stream.add(text="overwritten", id="open", scope=reserved)
    stream.add(text="a name of control characters", id="a\x1fb")
    stream.add(text="fine", id="fine")
    done = consume(stream, IndexSink(index))
    assert (done.dead, done.kinds.total(), stream.pending) == (2, 1, 0)
    assert index.get(reserved, "open") == part
    assert [letter["nearkin:reason"] for letter in stream.letters] == [
        "scope must be 1 to 1024 bytes without control characters",
        "id must be 1 to 1024 bytes without control characters",
    ]


def test_event_stays_unacknowledged_if_its_dead_letter_cannot_be_written(stream: Stream) -> None:
    """The key of the dead-letter stream has another type by mistake."""
    stream.redis.set(f"{stream.name}:dead", "not a stream")
    stream.add(body="none")
    with RedisSource(stream.url) as source:
        (event,) = source.read(10, 0.05)
        for _ in range(2):
            with pytest.raises(StoreError):
                source.move_to_dead_letters(event, "reason")
        assert stream.pending == 1
        stream.redis.delete(f"{stream.name}:dead")
        source.move_to_dead_letters(event, "reason")
    assert ([letter["body"] for letter in stream.letters], stream.pending) == (["none"], 0)


@pytest.mark.parametrize("fields", [3_000, 20_000])
def test_event_with_very_many_fields_becomes_a_dead_letter(
    stream: Stream, index: nk.Index, fields: int
) -> None:
    wide = {f"f{number}": "x" for number in range(fields)}
    stream.redis.xadd(stream.name, wide)
    stream.fill(corpus(3))
    done = consume(stream, IndexSink(index))
    assert (done.dead, done.kinds.total(), stream.pending) == (1, 3, 0)
    buried_fields = [
        name for letter in stream.letters for name in letter if not name.startswith("nearkin:")
    ]
    assert sorted(buried_fields) == sorted(wide)
    assert {letter["nearkin:reason"] for letter in stream.letters} == {
        "an event must have one of the fields text and vector"
    }


def test_too_large_event_becomes_a_dead_letter(stream: Stream, index: nk.Index) -> None:
    stream.add(text="x" * 2_000, id="large")
    stream.add(text="small", id="small", other="y" * 2_000)
    stream.fill(corpus(3))
    done = consume(stream, IndexSink(index), max_event=1_500)
    assert (done.dead, done.kinds.total(), stream.pending) == (2, 3, 0)
    assert all(
        "is larger than max_event=1500" in letter["nearkin:reason"] for letter in stream.letters
    )


def test_size_of_reads_follows_the_size_of_events(
    stream: Stream, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("nearkin.service.consumer.redis_source.READ_BYTES", 100_000)
    stream.fill(["x" * 20_000] * 60)
    with RedisSource(stream.url) as source:
        sizes = [len(source.read(500, 0.05)) for _ in range(10)]
    assert sizes[0] <= 16
    assert max(sizes[1:]) <= 4


POISON = [
    {"vector": b"[1e400]"},
    {"vector": b"[" * 100_000},
    {"vector": b"[" + b"9" * 5_000 + b"]"},
    {"vector": b"[]"},
    {"text": b""},
    {"text": b"\x00"},
    {"text": "\ufeff\u202e".encode()},
    {"text": b"a", "id": b"\xed\xa0\x80"},
    {"text": b"a", "id": b"x" * 5_000},
    {"text": b"a", "scope": b"x" * 5_000},
    {"text": b"a", "scope": b"\xff"},
    {b"\xff": b"a"},
    {"": b""},
    {"text": b"a " * 3_000_000},
]


@pytest.mark.parametrize("vectors", [False, True])
def test_hostile_events_do_not_stop_the_others(stream: Stream, vectors: bool) -> None:
    for fields in POISON:
        stream.redis.xadd(stream.name, fields)
    spec = nk.Spec(measure="cosine", unit="vector", n=3) if vectors else None
    with nk.Index.open("memory://", spec, max_document=1_000_000) as index:
        stream.add(
            id="fine", **({"vector": "[1, 2, 3]"} if vectors else {"text": "a text like any other"})
        )
        done = consume(stream, IndexSink(index))
        assert index.get("default", "fine") is not None
    assert (done.kinds.total() + done.dead, stream.pending) == (len(POISON) + 1, 0)


class Refusing:
    """A server that rejects some scopes and texts."""

    def __init__(
        self,
        inner: Any,
        scopes: Mapping[str, nk.ServiceError],
        texts: Mapping[str, nk.ServiceError],
    ) -> None:
        self.inner = inner
        self.scopes = scopes
        self.texts = texts
        self.calls = 0

    def upsert(self, scope: str, documents: Any, given: Any) -> Any:
        self.calls += 1
        if scope in self.scopes:
            raise self.scopes[scope]
        for document in documents:
            if document in self.texts:
                raise self.texts[document]
        return self.inner.upsert(scope, documents, given)


def test_events_that_a_server_rejects_become_dead_letters(
    stream: Stream, index: nk.Index, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("nearkin.service.consumer.consumer.LONGEST_WAIT", 0.01)
    stream.fill(corpus(40))
    stream.add(text="one", id="foreign", scope="foreign")
    stream.add(text="two", id="nowhere", scope="no/where")
    for text in ("invalid", "huge", "broken"):
        stream.add(text=text, id=text)
    scopes = {
        "foreign": nk.ServiceError("forbidden", "not that scope", status=403, field="/scope"),
        "no/where": nk.ServiceError("no-such-path", "no path", status=404),
    }
    texts = {
        "invalid": nk.ServiceError("invalid-request", "no", status=422),
        "huge": nk.ServiceError("too-large", "no", status=413),
        "broken": nk.ServiceError("internal", "a fault", status=500),
    }
    refusing = Refusing(IndexSink(index), scopes, texts)
    done = consume(stream, refusing)
    assert (done.dead, done.kinds.total(), stream.pending) == (5, 40, 0)
    reasons = {letter["id"]: letter["nearkin:reason"].split(":")[0] for letter in stream.letters}
    assert reasons == {
        "foreign": "forbidden (403)",
        "nowhere": "no-such-path (404)",
        "invalid": "invalid-request (422)",
        "huge": "too-large (413)",
        "broken": "internal (500)",
    }
    assert refusing.calls < 80


@pytest.mark.parametrize(
    "error",
    [
        nk.ServiceError("forbidden", "this needs the right write", status=403),
        nk.ServiceError("no-such-path", "another address", status=404),
        nk.ServiceError("unexpected-answer", "none of nearkin serve's", status=404),
        nk.ServiceError("unexpected-answer", "none of nearkin serve's", status=500),
    ],
    ids=str,
)
def test_server_that_rejects_the_consumer_ends_it(
    stream: Stream, index: nk.Index, error: nk.ServiceError
) -> None:
    stream.fill(corpus(10))
    with pytest.raises(nk.ServiceError):
        consume(stream, Failing(IndexSink(index), error))
    assert stream.letters == []
    assert consume(stream, IndexSink(index)).kinds.total() == 10


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, str]]:
    """The address of a server, and a token that may write to the scope default."""
    folder = tmp_path_factory.mktemp("served")
    made = io.StringIO()
    with contextlib.chdir(folder), contextlib.redirect_stdout(made):
        assert (
            app.run(
                ["server", "token", "create", "feed", "--scopes", "default", "--rights", "write"]
            )
            == 0
        )
    with nearkin_server(folder, "--store", "memory://") as address:
        yield address, made.getvalue().split()[-1]


def test_events_outside_the_scope_of_the_token_become_dead_letters(
    stream: Stream, server: tuple[str, str]
) -> None:
    stream.fill(corpus(10))
    stream.add(text="of somebody else", id="x", scope="other")
    with nk.Client(*server) as client:
        done = consume(stream, ServerSink(client))
    assert (done.kinds.total(), done.dead, stream.pending) == (10, 1, 0)
    assert "no access to this scope" in stream.letters[0]["nearkin:reason"]


def test_versions_need_an_index(stream: Stream, server: tuple[str, str]) -> None:
    with (
        nk.Client(*server) as client,
        pytest.raises(nk.UsageError, match="versions need an index that the consumer writes to"),
    ):
        consume(stream, ServerSink(client), version="v")


def test_deletions_reach_a_server(stream: Stream, server: tuple[str, str]) -> None:
    stream.fill(corpus(3, seed=8), 500)
    stream.fill(["", ""], 500, op="delete")
    stream.add(id="n00502", op="delete", scope="other")
    with nk.Client(*server) as client:
        done = consume(stream, ServerSink(client))
        assert [client.remove("default", f"n0050{i}") for i in range(3)] == [False, False, True]
    assert (done.kinds.total(), done.removed, done.dead) == (3, 2, 1)
    assert "no access to this scope" in stream.letters[0]["nearkin:reason"]


def test_server_that_rejects_one_document_gets_the_others(
    stream: Stream, server: tuple[str, str]
) -> None:
    stream.fill(corpus(10))
    stream.add(text="an invalid id", id="a\x01b")
    with nk.Client(*server) as client:
        done = consume(stream, ServerSink(client))
    assert (done.kinds.total(), done.dead) == (10, 1)
    assert "control characters" in stream.letters[0]["nearkin:reason"]


# -- the command


Start = Callable[..., "subprocess.Popen[str]"]


@pytest.fixture
def start() -> Iterator[Start]:
    """Starts consumers that end with the test."""
    started: list[subprocess.Popen[str]] = []

    def run(stream: Stream, *options: str) -> "subprocess.Popen[str]":
        line = [
            sys.executable,
            "-m",
            "nearkin",
            "stream",
            stream.url,
            "--consumer",
            "one",
            "--batch",
            "20",
            "--json",
            *options,
        ]
        started.append(
            subprocess.Popen(line, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        )
        return started[-1]

    yield run
    for process in started:
        process.kill()
        process.wait()


def is_worker_alive(process: "subprocess.Popen[str]") -> bool:
    assert process.poll() is None, process.stderr.read() if process.stderr else ""
    return True


def documents_in(path: Path) -> int:
    if not path.exists():
        return 0
    with sqlite3.connect(path) as db:
        try:
            return int(
                db.execute("SELECT COUNT(*) FROM entries WHERE scope = 'default'").fetchone()[0]
            )
        except sqlite3.OperationalError:
            return 0


def reached(path: Path, documents: int) -> bool:
    return documents_in(path) > documents


@pytest.mark.parametrize(
    ("documents", "kills"), [pytest.param(100_000, 3, marks=pytest.mark.full), (3_000, 1)]
)
def test_killed_and_restarted_consumers_lose_nothing(
    stream: Stream, start: Start, tmp_path: Path, documents: int, kills: int
) -> None:
    texts = corpus(documents, seed=3)
    path = tmp_path / "kin.db"
    outcomes = f"{stream.name}-outcomes"
    options = ("--store", f"sqlite:///{path}", "--to", stream.url.replace(stream.name, outcomes))
    filled = 0
    for part in range(1, kills + 1):
        # the consumer has not seen all documents when it is killed, however late that is
        end = documents * (2 * part + 1) // 8
        stream.fill(texts[filled:end], filled)
        filled = end
        process = start(stream, *options)
        wait_until(
            lambda process=process, part=part: (
                is_worker_alive(process) and reached(path, documents * part // 4)
            ),
            f"part {part} of 4 is done",
            600,
        )
        process.kill()
        process.communicate()
        assert 0 < documents_in(path) < documents
    stream.fill(texts[filled:], filled)
    process = start(stream, *options, "--until-empty")
    out, _ = process.communicate(timeout=600)
    assert process.returncode == 0
    assert json.loads(out)["dead"] == 0
    assert stream.pending == 0
    published = {fields[b"id"].decode() for _, fields in stream.redis.xrange(outcomes)}
    assert published == {f"n{number:05d}" for number in range(documents)}
    with nk.Index.open(f"sqlite:///{path}") as index:
        assert ids(index) == [f"n{number:05d}" for number in range(documents)]
        assert check_index(index).sound


def test_documents_survive_a_kill_of_the_server(stream: Stream, tmp_path: Path) -> None:
    documents, port = 2_000, free_port()
    stream.fill(corpus(documents, seed=4))
    serving = start_serving(tmp_path, port)
    with (
        nk.Client(f"http://127.0.0.1:{port}") as client,
        RedisSource(stream.url, consumer="one") as source,
        ThreadPoolExecutor() as pool,
    ):
        consumer = Consumer(source, ServerSink(client), StreamSettings(batch=20, wait=0.05))
        counts = pool.submit(consumer.run, until_empty=True)
        try:
            wait_until(
                lambda: documents_in(tmp_path / "nearkin.db") > documents // 4,
                "a quarter is stored",
            )
            serving.kill()
            serving.wait()
            serving = start_serving(tmp_path, port)
            assert counts.result(timeout=300).kinds.total() == documents
        finally:
            consumer.stop.set()
            serving.terminate()
            serving.wait()
    assert stream.pending == 0
    secret = nk.HashKey.read(str(tmp_path / "nearkin.key"))
    with nk.Index.open(
        f"sqlite:///{tmp_path}/nearkin.db", resources=nk.SpecResources(secret)
    ) as index:
        assert ids(index) == [f"n{number:05d}" for number in range(documents)]


def test_sigterm_ends_the_command_after_the_batch(
    stream: Stream, start: Start, tmp_path: Path
) -> None:
    stream.fill(corpus(100))
    process = start(stream, "--store", f"sqlite:///{tmp_path}/kin.db")
    wait_until(lambda: documents_in(tmp_path / "kin.db") == 100, "100 documents are stored")
    process.send_signal(signal.SIGTERM)
    out, _ = process.communicate(timeout=300)
    assert process.returncode == 0
    assert json.loads(out)["documents"] == 100
    assert stream.pending == 0


def test_command_refuses_missing_and_invalid_options(
    stream: Stream, capsys: pytest.CaptureFixture[str]
) -> None:
    assert app.run(["stream", stream.url]) == app.USAGE
    assert "--store URL, or --server URL" in capsys.readouterr().err
    assert app.run(["stream", "redis://x/0", "--store", "memory://"]) == app.USAGE
    assert app.run(["stream", stream.url, "--store", "memory://", "--idle", "soon"]) == app.USAGE
