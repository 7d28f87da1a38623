"""Access to Aerospike records through the official client, with its errors turned into ours."""

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from itertools import count, islice
from typing import Any, NamedTuple, Self, TypeAlias
from urllib.parse import parse_qs, unquote, urlsplit

from nearkin.errors import MissingExtraError, StoreError, UsageError
from nearkin.index.stores.addresses import require_known_options
from nearkin.index.stores.aerospike_namespace import Namespace
from nearkin.runtime.setting_names import name_setting
from nearkin.runtime.suggestions import did_you_mean

NOT_FOUND = 2
GENERATION = 3
EXISTS = 5
FILTERED = 27
"""Result codes of single records that a caller may expect."""
UNAVAILABLE = 11
"""The result code of a partition that no node owns, while the cluster migrates."""
TOO_BIG = 13
"""The result code of a record that is too large."""
SOME_FAILED = -16
"""The result code of a batch in which some records failed."""
PORT = 3000
TIMEOUT = 30.0
"""The maximum time of a call, in seconds."""
CONNECTING = 5.0
"""The maximum time to connect, in seconds."""
SCAN_TRIES = 6
"""The number of attempts of a query while partitions change their owner."""
SCAN_PAUSE = 0.25
"""The pause before the second attempt, in seconds. It doubles with each attempt."""
Bins: TypeAlias = dict[str, Any]
"""The values of a record by the names of their bins: numbers, texts, bytes, lists and maps."""
AT_ONCE = 250
"""The number of records in a batch. A request of the largest documents stays below 128 MiB."""
SMALL_AT_ONCE = 1000
"""The number of records in a batch of small operations, for example on groups of buckets."""
SERVER_EPOCH = 1_262_304_000.0
"""The start of 2010, from which servers count, in seconds since 1970."""
LONGEST_LIFE = 10 * 365 * 86400
"""The longest time to live that a server accepts, in seconds."""
Operation = Mapping[str, object]
"""An operation on a record, which the client makes and sends."""


class Library(NamedTuple):
    """The modules of the client, which is an optional dependency."""

    aerospike: Any
    errors: Any
    predicates: Any
    batch: Any
    operations: Any
    maps: Any
    expressions: Any

    @classmethod
    def load(cls) -> Self:
        """Imports the client."""
        try:
            import aerospike
            from aerospike import exception, predicates
            from aerospike_helpers import expressions
            from aerospike_helpers.batch import records
            from aerospike_helpers.operations import map_operations, operations
        except ImportError as error:
            raise MissingExtraError.for_extra(
                "aerospike:// requires the client of Aerospike", "aerospike"
            ) from error
        return cls(
            aerospike, exception, predicates, records, operations, map_operations, expressions
        )


class Found(NamedTuple):
    """A record that was read."""

    generation: int
    bins: Bins


class BatchAnswer(NamedTuple):
    """The result of one write of a batch."""

    code: int
    bins: Bins


class Records:
    """The sets of one namespace.

    A record has a kind (its set) and a key, which is a string or a number.

    Attributes:
        keeps_deletions: Whether a deleted record stays deleted when the server starts again.
    """

    def __init__(
        self,
        client: Any,
        library: Library,
        namespace: Namespace,
        prefix: str,
        url: str,
        *,
        durable: bool,
    ) -> None:
        self.library = library
        self.url = url
        self.namespace = namespace
        self.keeps_deletions = durable or not namespace.persistent
        self._client = client
        self._prefix = prefix
        self._durable = durable
        api, milliseconds = library.aerospike, int(1000 * TIMEOUT)
        times = {"total_timeout": milliseconds, "socket_timeout": milliseconds}
        # reads go to the master, so that a process sees what another one has written
        self._reading = {
            **times,
            "max_retries": 2,
            "replica": api.POLICY_REPLICA_MASTER,
        }
        if namespace.strong:
            # other namespaces refuse this mode
            self._reading["read_mode_sc"] = api.POLICY_READ_MODE_SC_LINEARIZE
        # a write that is sent twice would conflict with itself
        self._writing = {**times, "max_retries": 0}

    @classmethod
    def open(cls, url: str) -> Self:
        """Connects to a cluster."""
        library = Library.load()
        parts = urlsplit(url)
        namespace = parts.path.strip("/")
        place = f"aerospike://{parts.netloc.rpartition('@')[2]}/{namespace}"
        if not parts.hostname or not namespace or "/" in namespace:
            raise UsageError(f"{place} has no namespace; write aerospike://host:port/namespace")
        options = parse_qs(parts.query)
        require_known_options(options, ["set", "durable_delete"], place)
        prefix = options.get("set", ["nearkin"])[0]
        durable = options.get("durable_delete", ["auto"])[0]
        if not prefix.isidentifier() or len(prefix) > 40:
            raise UsageError(
                f"invalid set={prefix!r}; use at most 40 letters, digits and underscores, not a "
                f"digit first"
            )
        if durable not in ("auto", "true", "false"):
            raise UsageError(
                f"unknown durable_delete={durable!r}; valid values are auto, true and false"
                f"{did_you_mean(durable, ('auto', 'true', 'false'))}"
            )
        shown = f"{place}?set={prefix}"
        known = {"user": parts.username, "password": parts.password}
        config = {
            "hosts": [(parts.hostname, parts.port or PORT)],
            "connect_timeout": int(1000 * CONNECTING),
            **{name: unquote(value) for name, value in known.items() if value is not None},
        }
        with _client_errors(library, shown):
            client = library.aerospike.client(config)
            try:
                edition = _answers(client, "edition")
                if not edition:
                    raise StoreError(f"{shown}: no node of the cluster answers")
                described = Namespace.read(
                    namespace, lambda command: _fields(_answers(client, command)), edition[0]
                )
                return cls(
                    client,
                    library,
                    described,
                    prefix,
                    shown,
                    durable=described.deletes_durably(durable),
                )
            except BaseException:
                client.close()
                raise

    def _converted_errors(self) -> AbstractContextManager[None]:
        return _client_errors(self.library, self.url)

    def key(self, kind: str, name: str | int) -> tuple[str, str, str | int]:
        """Returns the key of a record in the form of the client."""
        return self.namespace.name, f"{self._prefix}_{kind}", name

    def life(self, seconds: float | None) -> int:
        """Returns a time to live in the form of the client.

        The default of the namespace is never used.
        """
        if seconds is None:
            return int(self.library.aerospike.TTL_NEVER_EXPIRE)
        return min(max(int(seconds), 1), LONGEST_LIFE)

    def put(self, bins: Mapping[str, object]) -> list[Operation]:
        """Returns operations that write bins."""
        return [self.library.operations.write(name, value) for name, value in bins.items()]

    def creation(self, kind: str, name: str | int, operations: list[Operation], ttl: int) -> Any:
        """Returns a write that creates a record, and fails if it exists."""
        policy = {"exists": self.library.aerospike.POLICY_EXISTS_CREATE, "ttl": ttl}
        return self.library.batch.Write(self.key(kind, name), operations, policy=policy)

    def change(
        self,
        kind: str,
        name: str | int,
        operations: list[Operation],
        ttl: int,
        *,
        there: bool = False,
    ) -> Any:
        """Returns a write that changes a record."""
        policy = {"ttl": ttl}
        if there:
            policy["exists"] = self.library.aerospike.POLICY_EXISTS_UPDATE
        return self.library.batch.Write(self.key(kind, name), operations, policy=policy)

    def count(self, kind: str, name: str, added: int = 1) -> int:
        """Adds to a counter, and returns its value."""
        operations = self.library.operations
        adding = [operations.increment("v", added), operations.read("v")]
        (answer,) = self.run([self.change(kind, name, adding, self.life(None))])
        return int(answer.bins["v"])

    def changes(
        self,
        kind: str,
        operations: Iterable[tuple[str | int, list[Operation]]],
        ttl: int,
        *,
        there: bool = False,
    ) -> Iterator[Any]:
        """Yields the writes that `change` returns for pairs of a key and operations.

        The writes share one policy object, which makes large batches faster.
        """
        policy = {"ttl": ttl}
        if there:
            policy["exists"] = self.library.aerospike.POLICY_EXISTS_UPDATE
        namespace, named, _ = self.key(kind, 0)
        write = self.library.batch.Write
        for name, record_operations in operations:
            yield write((namespace, named, name), record_operations, None, policy)

    def readings(
        self, kind: str, operations: Iterable[tuple[str | int, list[Operation]]]
    ) -> Iterator[Any]:
        """Yields a read for each pair of a key and operations."""
        namespace, named, _ = self.key(kind, 0)
        read = self.library.batch.Read
        for name, record_operations in operations:
            yield read((namespace, named, name), record_operations)

    def readings_of(self, keys: Iterable[Any], operations: list[Operation]) -> Iterator[Any]:
        """Yields a read with the same operations for each of the keys that `keys` returned."""
        for key in keys:
            yield self.library.batch.Read(key, operations)

    def exchange(
        self,
        kind: str,
        name: str | int,
        operations: list[Operation],
        ttl: int,
        generation: int,
        **more: Any,
    ) -> Any:
        """Returns a write that changes a record, and fails if its generation is another one."""
        api = self.library.aerospike
        policy = {"gen": api.POLICY_GEN_EQ, "exists": api.POLICY_EXISTS_UPDATE, "ttl": ttl, **more}
        return self.library.batch.Write(
            self.key(kind, name), operations, meta={"gen": generation}, policy=policy
        )

    def replacement(
        self, kind: str, name: str | int, bins: Mapping[str, object], ttl: int, generation: int
    ) -> Any:
        """Returns a write that replaces all bins, and fails if the generation is another one."""
        replaces = self.library.aerospike.POLICY_EXISTS_REPLACE
        return self.exchange(kind, name, self.put(bins), ttl, generation, exists=replaces)

    def overwriting(self, kind: str, name: str | int, bins: Mapping[str, object], ttl: int) -> Any:
        """Returns a write that replaces all bins of an existing record of any generation."""
        policy = {"exists": self.library.aerospike.POLICY_EXISTS_REPLACE, "ttl": ttl}
        return self.library.batch.Write(self.key(kind, name), self.put(bins), policy=policy)

    def removal(self, kind: str, name: str | int, generation: int | None = None) -> Any:
        """Returns the deletion of a record."""
        policy: dict[str, object] = {"durable_delete": self._durable}
        if generation is not None:
            policy |= {"gen": self.library.aerospike.POLICY_GEN_EQ, "generation": generation}
        return self.library.batch.Remove(self.key(kind, name), policy=policy)

    def run(self, writes: Iterable[Any], expected: Sequence[int] = ()) -> list[BatchAnswer]:
        """Executes writes in batches. Each write is atomic, a batch is not."""
        return list(self.each(writes, expected))

    def each(
        self, writes: Iterable[Any], expected: Sequence[int] = (), at_once: int = AT_ONCE
    ) -> Iterator[BatchAnswer]:
        """Yields the answers of `run`.

        The next batch is written after the previous answers were taken.
        """
        for batch in self._batches(writes, self._writing, at_once):
            for record in batch:
                if record.result:
                    self._check_record(record, expected)
                yield BatchAnswer(record.result, record.record[2] if record.record else {})

    def pick(self, reads: Iterable[Any]) -> Iterator[Bins | None]:
        """Yields the bins that each read of a small result returns; None if there is no record."""
        for batch in self._batches(reads, self._reading, SMALL_AT_ONCE):
            for record in batch:
                if record.result:
                    self._check_record(record, (NOT_FOUND,))
                    yield None
                else:
                    yield record.record[2]

    def _batches(
        self, made: Iterable[Any], policy: Mapping[str, object], at_once: int
    ) -> Iterator[list[Any]]:
        rest = iter(made)
        while True:
            with self._converted_errors():
                batch = list(islice(rest, at_once))
                if not batch:
                    return
                written = self._client.batch_write(self.library.batch.BatchRecords(batch), policy)
            self._check_batch(written)
            yield written.batch_records

    def read(self, kind: str, names: Sequence[str | int]) -> list[Found | None]:
        """Returns records with all their bins; None if there is no record."""
        records: list[Found | None] = []
        for start in range(0, len(names), AT_ONCE):
            keys = [self.key(kind, name) for name in names[start : start + AT_ONCE]]
            with self._converted_errors():
                batch = self._client.batch_read(keys, policy=self._reading)
            self._check_batch(batch)
            for record in batch.batch_records:
                self._check_record(record, (NOT_FOUND,))
                records.append(
                    Found(record.record[1]["gen"], record.record[2]) if record.result == 0 else None
                )
        return records

    def _check_batch(self, batch: Any) -> None:
        """Raises StoreError if a batch was lost. The client reports its records as successful."""
        if batch.result not in (0, SOME_FAILED):
            raise _failed(self.url, f"a batch failed: {_code_name(self.library, batch.result)}")

    def _check_record(self, record: Any, expected: Sequence[int]) -> None:
        if record.result != 0 and record.result not in expected:
            if record.result == TOO_BIG:
                raise UsageError(
                    f"{self.url}: a record of {record.key[1]} is larger than "
                    f"{self.namespace.record_size:,} bytes, the "
                    "limit of the namespace; lower max_document or bucket_capacity, or store no "
                    "texts "
                    f"({name_setting('store_text', value=False)})"
                )
            reason = record.message or f"a record of {record.key[1]} was refused"
            raise _failed(self.url, f"{reason}: {_code_name(self.library, record.result)}")

    def scan(self, kind: str, *bins: str) -> list[Bins]:
        """Returns bins of all records of a kind, in no particular order."""
        return self._queried(kind, bins, None, {})

    def keys(self, kind: str) -> list[Any]:
        """Returns the keys of all records of a kind, in the form of the client."""
        return [key for key, *_ in self._results(kind, (), None, {}, {"nobins": True})]

    def scan_older(self, kind: str, seconds: float, *bins: str) -> list[Bins]:
        """Returns bins of the records of a kind that were not written for some seconds."""
        return self._queried(kind, bins, None, {"expressions": self.older(seconds)})

    def older(self, seconds: float) -> Any:
        """Returns a filter for records that were not written for some seconds of the server."""
        expressions = self.library.expressions
        return expressions.GE(expressions.SinceUpdateTime(), int(1000 * seconds)).compile()

    def where(self, kind: str, bin_: str, value: int, *bins: str) -> list[Bins]:
        """Returns bins of the records of a kind that hold a number in an indexed bin."""
        return self._queried(kind, bins, self.library.predicates.equals(bin_, value), {})

    def has(self, kind: str, bin_: str, value: int) -> bool:
        """Returns whether a record of a kind holds a number in an indexed bin."""
        return bool(
            self._queried(kind, ("f",), self.library.predicates.equals(bin_, value), {}, most=1)
        )

    def _queried(
        self,
        kind: str,
        bins: Sequence[str],
        predicate: Any,
        policy: Mapping[str, object],
        most: int = 0,
    ) -> list[Bins]:
        return [record[2] for record in self._results(kind, bins, predicate, policy, {}, most)]

    def _results(
        self,
        kind: str,
        bins: Sequence[str],
        predicate: Any,
        policy: Mapping[str, object],
        options: Mapping[str, object],
        most: int = 0,
    ) -> list[Any]:
        with self._converted_errors():
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
        """Creates a secondary index over a bin of numbers, unless it exists."""
        namespace, named, _ = self.key(kind, 0)
        name = f"{named}_{bin_}"
        with self._converted_errors():
            # the client polls for seconds if the index exists, so this is checked first
            if all(
                f"indexname={name}:" in f"{text}:"
                for text in _answers(self._client, f"sindex-list:namespace={namespace}")
            ):
                return
            try:
                numbers = self.library.aerospike.INDEX_NUMERIC
                self._client.index_single_value_create(namespace, named, bin_, numbers, name)
            except self.library.errors.IndexFoundError:
                return
            except self.library.errors.IndexNameMaxCount as error:
                raise UsageError(
                    f"the namespace {namespace} has reached its limit of secondary indexes, and "
                    f"{self.url} needs three; "
                    "delete unused ones (asadm: manage sindex delete), or use another namespace"
                ) from error

    def used(self, kind: str) -> int:
        """Returns the size of the records of a kind on all nodes, replicas included, in bytes."""
        namespace, named, _ = self.key(kind, 0)
        with self._converted_errors():
            answers = _answers(self._client, f"sets/{namespace}/{named}")
        total = 0
        for text in answers:
            fields = _fields([text.replace(":", ";")])
            # servers before 7 count memory and device separately
            names = (
                ("data_used_bytes",)
                if "data_used_bytes" in fields
                else ("memory_data_bytes", "device_data_bytes")
            )
            total += sum(int(fields.get(name, 0)) for name in names)
        return total

    def times(self) -> list[float]:
        """Returns the time of each node, in seconds since 1970."""
        with self._converted_errors():
            answers = _answers(self._client, f"namespace/{self.namespace.name}")
        return [
            SERVER_EPOCH + float(fields["current_time"])
            for fields in (_fields([text]) for text in answers)
            if fields
        ]

    def close(self) -> None:
        """Closes the connection."""
        self._client.close()


def _answers(client: Any, command: str) -> list[str]:
    """Returns the answers of all nodes to an info command, without the command."""
    answers = client.info_all(command).values()
    return [(text or "").removeprefix(command).strip() for _, text in answers]


def _fields(answers: list[str]) -> dict[str, str]:
    """Returns the fields `name=value` of the first answer."""
    parts = answers[0].split(";") if answers else []
    return dict(part.split("=", 1) for part in parts if "=" in part)


@contextmanager
def _client_errors(library: Library, url: str) -> Iterator[None]:
    """Turns errors of the client into StoreError."""
    try:
        yield
    except library.errors.AerospikeError as error:
        raise _failed(
            url, f"{error.msg or 'refused'}: {_code_name(library, error.code)}"
        ) from error


def _code_name(library: Library, code: int) -> str:
    """Returns a result code with the name that the client gives it."""
    errors = vars(library.errors).items()
    names = (name for name, error in errors if getattr(error, "code", None) == code)
    return f"{next(names, 'error')} (code {code})"


def _failed(url: str, reason: str) -> StoreError:
    return StoreError(f"{url}: {reason}; nothing was written; the call may be repeated")
