"""Records of Aerospike through the official client: batches of reads and writes, one query, and its errors as ours."""

import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from itertools import count, islice
from typing import Any, NamedTuple, Self
from urllib.parse import parse_qs, unquote, urlsplit

from nearkin.errors import MissingExtraError, StoreError, UsageError
from nearkin.index.stores.aerospike_namespace import Namespace

NOT_FOUND, GENERATION, EXISTS, FILTERED = 2, 3, 5, 27
"""Codes of single records that a caller may expect."""
UNAVAILABLE, TOO_BIG = 11, 13
"""Codes of a partition that no node owns at the moment (the cluster migrates), and of a record that is too large."""
SOME_FAILED = -16
"""Code of a batch some of whose records have another code than success."""
PORT, TIMEOUT, CONNECTING = 3000, 30.0, 5.0
SCAN_TRIES, SCAN_PAUSE = 6, 0.25
"""Attempts of a query while partitions change their owner, and seconds before the second one; the pause doubles."""
AT_ONCE = 250
"""Records of a batch. The client makes about eight objects for each record, which live until the batch is done. In larger
batches Python's garbage collector goes over them, and over everything else in the process, again and again: with 2,000
records that took half of the client's time."""
SERVER_EPOCH = 1_262_304_000.0
"""The start of 2010, from which servers count seconds."""
LONGEST_LIFE = 10 * 365 * 86400
"""Seconds: what a server takes for a time to live, at most."""


class Library(NamedTuple):
    """The modules of the client; it is an extra."""

    aerospike: Any
    errors: Any
    predicates: Any
    batch: Any
    operations: Any
    maps: Any
    expressions: Any

    @classmethod
    def load(cls) -> Self:
        """Raises MissingExtraError where it is not installed."""
        try:
            import aerospike
            from aerospike import exception, predicates
            from aerospike_helpers import expressions
            from aerospike_helpers.batch import records
            from aerospike_helpers.operations import map_operations, operations
        except ImportError as error:
            raise MissingExtraError("aerospike:// needs its client: pip install 'nearkin[aerospike]'") from error
        return cls(aerospike, exception, predicates, records, operations, map_operations, expressions)


class Found(NamedTuple):
    """A record that was read."""

    generation: int
    bins: dict[str, Any]


class Answer(NamedTuple):
    """What became of one write of a batch."""

    code: int
    bins: dict[str, Any]


class Records:
    """Sets of one namespace; a record is named by its kind (the set) and a key, text or number.

    Args:
        client: A connected client of the library.
        library: The modules of the client.
        namespace: The namespace, which must exist.
        prefix: First part of the sets' names.
        url: The store's URL without a password.
        durable: Whether deletions are durable (Enterprise Edition).

    Attributes:
        keeps_deletions: Whether a deleted record stays deleted when the server starts again.
    """

    def __init__(self, client: Any, library: Library, namespace: Namespace, prefix: str, url: str, durable: bool) -> None:
        self.library = library
        self.url = url
        self.namespace = namespace
        self.keeps_deletions = durable or not namespace.persistent
        self._client = client
        self._prefix = prefix
        self._durable = durable
        api, milliseconds = library.aerospike, int(1000 * TIMEOUT)
        times = {"total_timeout": milliseconds, "socket_timeout": milliseconds}
        # what one process has written another one must see: from the master, and in order where the namespace keeps order
        self._reading = {
            **times,
            "max_retries": 2,
            "replica": api.POLICY_REPLICA_MASTER,
        }
        if namespace.strong:
            # other namespaces refuse the mode
            self._reading["read_mode_sc"] = api.POLICY_READ_MODE_SC_LINEARIZE
        # a write that is sent twice would find its own generation changed
        self._writing = {**times, "max_retries": 0}

    @classmethod
    def open(cls, url: str) -> Self:
        """Connects.

        Raises:
            UsageError: The URL has no host or namespace, or an unknown option.
            StoreError: Nothing answers there.
        """
        library = Library.load()
        parts = urlsplit(url)
        namespace = parts.path.strip("/")
        place = f"aerospike://{parts.netloc.rpartition('@')[2]}/{namespace}"
        if not parts.hostname or not namespace or "/" in namespace:
            raise UsageError(f"{place} names no namespace: aerospike://host:port/namespace")
        options = parse_qs(parts.query)
        if unknown := sorted(set(options) - {"set", "durable_delete"}):
            raise UsageError(f"{place} has the unknown option {unknown[0]!r}; there are set and durable_delete")
        prefix = options.get("set", ["nearkin"])[0]
        durable = options.get("durable_delete", ["auto"])[0]
        if not prefix.isidentifier() or len(prefix) > 40:
            raise UsageError(f"set={prefix!r} is no plain name of at most 40 letters")
        if durable not in ("auto", "true", "false"):
            raise UsageError(f"durable_delete={durable!r} is not one of auto, true, false")
        shown = f"{place}?set={prefix}"
        known = {"user": parts.username, "password": parts.password}
        config = {
            "hosts": [(parts.hostname, parts.port or PORT)],
            "connect_timeout": int(1000 * CONNECTING),
            **{name: unquote(value) for name, value in known.items() if value is not None},
        }
        with _failing(library, shown):
            client = library.aerospike.client(config)
            try:
                edition = _answers(client, "edition")
                if not edition:
                    raise StoreError(f"{shown}: no node of the cluster answers")
                described = Namespace.read(namespace, lambda command: _fields(_answers(client, command)), edition[0])
                return cls(client, library, described, prefix, shown, described.deletes_durably(durable))
            except BaseException:
                client.close()
                raise

    def _failing(self) -> AbstractContextManager[None]:
        return _failing(self.library, self.url)

    def key(self, kind: str, name: str | int) -> tuple[str, str, str | int]:
        """As the client names a record."""
        return self.namespace.name, f"{self._prefix}_{kind}", name

    def life(self, seconds: float | None) -> int:
        """A time to live as a record carries it: never the namespace's default, which would drop what should stay."""
        if seconds is None:
            return int(self.library.aerospike.TTL_NEVER_EXPIRE)
        return min(max(int(seconds), 1), LONGEST_LIFE)

    def put(self, bins: dict[str, Any]) -> list[dict[str, Any]]:
        """Operations that write bins."""
        return [self.library.operations.write(name, value) for name, value in bins.items()]

    def creation(self, kind: str, name: str | int, operations: list[dict[str, Any]], ttl: int) -> Any:
        """A write of a record that must not be there."""
        policy = {"exists": self.library.aerospike.POLICY_EXISTS_CREATE, "ttl": ttl}
        return self.library.batch.Write(self.key(kind, name), operations, policy=policy)

    def change(self, kind: str, name: str | int, operations: list[dict[str, Any]], ttl: int, there: bool = False) -> Any:
        """A write of a record, whatever it is; only of one that is there if it must be."""
        policy = {"ttl": ttl}
        if there:
            policy["exists"] = self.library.aerospike.POLICY_EXISTS_UPDATE
        return self.library.batch.Write(self.key(kind, name), operations, policy=policy)

    def changes(
        self, kind: str, operations: Iterable[tuple[str | int, list[dict[str, Any]]]], ttl: int, there: bool = False
    ) -> Iterator[Any]:
        """Yields writes as `change` makes them, of (key, operations), for large batches: they share one policy."""
        policy = {"ttl": ttl}
        if there:
            policy["exists"] = self.library.aerospike.POLICY_EXISTS_UPDATE
        namespace, named, _ = self.key(kind, 0)
        write = self.library.batch.Write
        for name, made in operations:
            yield write((namespace, named, name), made, None, policy)

    def readings(self, kind: str, operations: Iterable[tuple[str | int, list[dict[str, Any]]]]) -> Iterator[Any]:
        """Yields a read for each (key, operations)."""
        namespace, named, _ = self.key(kind, 0)
        read = self.library.batch.Read
        for name, made in operations:
            yield read((namespace, named, name), made)

    def readings_of(self, keys: Iterable[Any], operations: list[dict[str, Any]]) -> Iterator[Any]:
        """Yields a read with the same operations for each of the keys that `keys` returned."""
        for key in keys:
            yield self.library.batch.Read(key, operations)

    def exchange(
        self, kind: str, name: str | int, operations: list[dict[str, Any]], ttl: int, generation: int, **more: Any
    ) -> Any:
        """A write of a record that is as it was read."""
        api = self.library.aerospike
        policy = {"gen": api.POLICY_GEN_EQ, "exists": api.POLICY_EXISTS_UPDATE, "ttl": ttl, **more}
        return self.library.batch.Write(self.key(kind, name), operations, meta={"gen": generation}, policy=policy)

    def replacement(self, kind: str, name: str | int, bins: dict[str, Any], ttl: int, generation: int) -> Any:
        """As `exchange`, of all bins; those that are not named go."""
        replaces = self.library.aerospike.POLICY_EXISTS_REPLACE
        return self.exchange(kind, name, self.put(bins), ttl, generation, exists=replaces)

    def overwriting(self, kind: str, name: str | int, bins: dict[str, Any], ttl: int) -> Any:
        """Returns a write of all bins of a record that exists, whatever it is; other bins are deleted."""
        policy = {"exists": self.library.aerospike.POLICY_EXISTS_REPLACE, "ttl": ttl}
        return self.library.batch.Write(self.key(kind, name), self.put(bins), policy=policy)

    def removal(self, kind: str, name: str | int, generation: int | None = None) -> Any:
        """Of a record, or only of one that is as it was read."""
        policy: dict[str, Any] = {"durable_delete": self._durable}
        if generation is not None:
            policy |= {"gen": self.library.aerospike.POLICY_GEN_EQ, "generation": generation}
        return self.library.batch.Remove(self.key(kind, name), policy=policy)

    def run(self, writes: Iterable[Any], expected: Sequence[int] = ()) -> list[Answer]:
        """Batches of writes; each record's is atomic, the batch is not.

        Args:
            writes: Made by the methods above.
            expected: Codes beside success that are an answer, no failure.
        """
        return list(self.each(writes, expected))

    def each(self, writes: Iterable[Any], expected: Sequence[int] = ()) -> Iterator[Answer]:
        """As `run`, one answer after the other: the next batch is written when those of the one before were taken."""
        for batch in self._batches(writes, self._writing):
            for record in batch:
                if record.result:
                    self._judge(record, expected)
                yield Answer(record.result, record.record[2] if record.record else {})

    def pick(self, reads: Iterable[Any]) -> Iterator[dict[str, Any] | None]:
        """Yields what the operations of each read find; None if there is no record."""
        for batch in self._batches(reads, self._reading):
            for record in batch:
                if record.result:
                    self._judge(record, (NOT_FOUND,))
                    yield None
                else:
                    yield record.record[2]

    def _batches(self, made: Iterable[Any], policy: dict[str, Any]) -> Iterator[list[Any]]:
        rest = iter(made)
        while some := list(islice(rest, AT_ONCE)):
            with self._failing():
                done = self._client.batch_write(self.library.batch.BatchRecords(some), policy)
            self._judge_batch(done)
            yield done.batch_records

    def read(self, kind: str, names: Sequence[str | int]) -> list[Found | None]:
        """Records with all their bins."""
        found: list[Found | None] = []
        for start in range(0, len(names), AT_ONCE):
            keys = [self.key(kind, name) for name in names[start : start + AT_ONCE]]
            with self._failing():
                batch = self._client.batch_read(keys, policy=self._reading)
            self._judge_batch(batch)
            for record in batch.batch_records:
                self._judge(record, (NOT_FOUND,))
                found.append(Found(record.record[1]["gen"], record.record[2]) if record.result == 0 else None)
        return found

    def _judge_batch(self, batch: Any) -> None:
        """A batch that was lost raises nothing in the client, and its records look as if they had succeeded."""
        if batch.result not in (0, SOME_FAILED):
            raise _failed(self.url, f"a batch failed: {_named(self.library, batch.result)}")

    def _judge(self, record: Any, expected: Sequence[int]) -> None:
        if record.result != 0 and record.result not in expected:
            if record.result == TOO_BIG:
                raise UsageError(
                    f"{self.url}: a record of {record.key[1]} is larger than the {self.namespace.record_size:,} bytes that the "
                    "namespace takes; lower max_document or bucket_capacity, or keep no texts (store_text=False)"
                )
            about = record.message or f"a record of {record.key[1]} was refused"
            raise _failed(self.url, f"{about}: {_named(self.library, record.result)}")

    def scan(self, kind: str, *bins: str) -> list[dict[str, Any]]:
        """Returns bins of every record of a kind, in no order."""
        return self._queried(kind, bins, None, {})

    def keys(self, kind: str) -> list[Any]:
        """Returns the keys of all records of a kind, as the client names them."""
        return [key for key, *_ in self._results(kind, (), None, {}, {"nobins": True})]

    def scan_older(self, kind: str, seconds: float, *bins: str) -> list[dict[str, Any]]:
        """Returns bins of the records of a kind that were not written for so long, by the server's clock."""
        return self._queried(kind, bins, None, {"expressions": self.older(seconds)})

    def older(self, seconds: float) -> Any:
        """Returns a filter for records that were not written for so long, by the server's clock."""
        expressions = self.library.expressions
        return expressions.GE(expressions.SinceUpdateTime(), int(1000 * seconds)).compile()

    def where(self, kind: str, bin_: str, value: int, *bins: str) -> list[dict[str, Any]]:
        """Bins of the records of a kind that hold a number in an indexed bin."""
        return self._queried(kind, bins, self.library.predicates.equals(bin_, value), {})

    def has(self, kind: str, bin_: str, value: int) -> bool:
        """Returns whether a record of a kind holds a number in an indexed bin."""
        return bool(self._queried(kind, ("f",), self.library.predicates.equals(bin_, value), {}, most=1))

    def _queried(
        self, kind: str, bins: Sequence[str], predicate: Any, policy: dict[str, Any], most: int = 0
    ) -> list[dict[str, Any]]:
        return [record[2] for record in self._results(kind, bins, predicate, policy, {}, most)]

    def _results(
        self, kind: str, bins: Sequence[str], predicate: Any, policy: dict[str, Any], options: dict[str, Any], most: int = 0
    ) -> list[Any]:
        with self._failing():
            for attempt in count():
                query = self._client.query(*self.key(kind, 0)[:2])
                if bins:
                    query.select(*bins)
                if predicate is not None:
                    query.where(predicate)
                if most:
                    query.max_records = most
                try:
                    records: list[Any] = query.results(policy, options)
                    return records
                except self.library.errors.AerospikeError as error:
                    if error.code != UNAVAILABLE or attempt + 1 == SCAN_TRIES:
                        raise
                time.sleep(SCAN_PAUSE * 2**attempt)
        raise AssertionError("unreachable")

    def index(self, kind: str, bin_: str) -> None:
        """Makes a secondary index over a bin of numbers, unless it exists."""
        namespace, named, _ = self.key(kind, 0)
        name = f"{named}_{bin_}"
        with self._failing():
            # the client polls for seconds for an index that exists already, so look first
            if all(f"indexname={name}:" in f"{text}:" for text in _answers(self._client, f"sindex-list:namespace={namespace}")):
                return
            try:
                numbers = self.library.aerospike.INDEX_NUMERIC
                self._client.index_single_value_create(namespace, named, bin_, numbers, name)
            except self.library.errors.IndexFoundError:
                return
            except self.library.errors.IndexNameMaxCount as error:
                raise UsageError(
                    f"the namespace {namespace} has as many secondary indexes as it may have, and {self.url} needs three; "
                    "delete those of indexes that are not used any more (asadm: manage sindex delete), or use another namespace"
                ) from error

    def used(self, kind: str) -> int:
        """Bytes of a kind, as the nodes count them, replicas included."""
        namespace, named, _ = self.key(kind, 0)
        with self._failing():
            answers = _answers(self._client, f"sets/{namespace}/{named}")
        total = 0
        for text in answers:
            fields = _fields([text.replace(":", ";")])
            # servers before 7 count memory and device apart
            names = ("data_used_bytes",) if "data_used_bytes" in fields else ("memory_data_bytes", "device_data_bytes")
            total += sum(int(fields.get(name, 0)) for name in names)
        return total

    def times(self) -> list[float]:
        """Returns the time of each node, in seconds since 1970."""
        with self._failing():
            answers = _answers(self._client, f"namespace/{self.namespace.name}")
        return [SERVER_EPOCH + float(fields["current_time"]) for fields in (_fields([text]) for text in answers) if fields]

    def close(self) -> None:
        """The connection."""
        self._client.close()


def _answers(client: Any, command: str) -> list[str]:
    """Returns what the nodes answer to an info command, without the command."""
    answers = client.info_all(command).values()
    return [(text or "").removeprefix(command).strip() for _, text in answers]


def _fields(answers: list[str]) -> dict[str, str]:
    """Returns the fields name=value; of the first node's answer."""
    parts = answers[0].split(";") if answers else []
    return dict(part.split("=", 1) for part in parts if "=" in part)


@contextmanager
def _failing(library: Library, url: str) -> Iterator[None]:
    """The client's errors as StoreError."""
    try:
        yield
    except library.errors.AerospikeError as error:
        raise _failed(url, f"{error.msg or 'refused'}: {_named(library, error.code)}") from error


def _named(library: Library, code: int) -> str:
    """A code and what the client calls it."""
    names = (name for name, one in vars(library.errors).items() if getattr(one, "code", None) == code)
    return f"{next(names, 'error')} (code {code})"


def _failed(url: str, about: str) -> StoreError:
    return StoreError(f"{url}: {about}; nothing was written by this step, and it may be tried again")
