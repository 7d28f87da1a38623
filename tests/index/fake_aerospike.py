"""A cluster of Aerospike in this process: what the store asks of the client, record by record as
the server does it.

It takes what the official client's helpers make (operations, batch records, compiled expressions)
and refuses what the client or the server would: unknown policies, operations, types of values and
keys, names too long, records over a megabyte. Batches run in an order of their own, and each of
their records alone is atomic. Time passes when the test says so.

What was seen of servers 8.1 and 6.4 is enforced: linearizable reads need a strongly consistent
namespace; the Community Edition has no durable deletes, and where data is kept in a file it brings
deleted records back at a cold start; a killed server loses the writes of the last second; records
have a largest size; times to live need a namespace that expires records.
"""

import copy
import hashlib
import random
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import aerospike
from aerospike import exception
from aerospike_helpers.batch.records import BatchRecord, BatchRecords, Read, Remove, Write

LIMIT = 1 << 20
NEVER = int(aerospike.TTL_NEVER_EXPIRE)
OK = 0
NOT_FOUND = 2
GENERATION = 3
INVALID = 4
EXISTS = 5
TOO_BIG = 13
FORBIDDEN = 22
ENTERPRISE_ONLY = 25
FILTERED = 27
MOST_INDEXES = 256
TIMES = {"total_timeout", "socket_timeout", "max_retries"}
BATCH_POLICY = TIMES | {"replica", "read_mode_sc"}
WRITE_POLICY = {"gen", "exists", "ttl", "expressions", "durable_delete"}
REMOVE_POLICY = {"gen", "generation", "durable_delete"}


class RefusedError(Exception):
    """A code for one record."""

    def __init__(self, code: int) -> None:
        super().__init__(code)
        self.code = code


@dataclass
class Record:
    bins: dict[str, Any]
    generation: int
    until: float
    updated: float


@dataclass
class Fault:
    """A fault at the n-th call: before, after or in the middle of it; once or repeatedly."""

    call: int
    where: str = "before"
    forever: bool = False


@dataclass
class Cluster:
    namespace: str = "test"
    edition: str = "Community"
    strong: bool = False
    persistent: bool = False
    record_size: int = LIMIT
    expires: bool = True
    restarts: bool = False
    """Whether the server is restarted before each client connects."""
    now: float = 0.0
    deleted: dict[tuple[str, Any], list[Record]] = field(default_factory=dict)
    """Versions of each record deleted without a tombstone.

    Any of them may be the newest that is still on the device.
    """
    history: list[tuple[float, tuple[str, Any], Record | None]] = field(default_factory=list)
    """Time, place and earlier version of each write, oldest first."""
    records: dict[tuple[str, Any], Record] = field(default_factory=dict)
    indexes: set[tuple[str, str]] = field(default_factory=set)
    fault: Fault | None = None
    calls: int = 0
    log: list[tuple[str, Any, Any]] = field(default_factory=list)
    """Every call, with its records and policy."""
    digests: dict[bytes, tuple[str, Any]] = field(default_factory=dict)
    """Places of the records that queries returned, by what the client names them."""
    during: Callable[[], None] | None = None
    """Run before each call: another process, say."""
    lock: Any = field(default_factory=threading.RLock)
    order: random.Random = field(default_factory=lambda: random.Random(5))

    def client(self, config: dict[str, Any]) -> "Client":
        """Returns a client, as `aerospike.client` does."""
        assert set(config) <= {"hosts", "connect_timeout", "user", "password"}
        assert ("user" in config) == ("password" in config)
        if self.restarts:
            self.cold_start()
        return Client(self)

    def live(self, place: tuple[str, Any]) -> Record | None:
        record = self.records.get(place)
        if record is not None and record.until <= self.now:
            del self.records[place]
            return None
        return record

    def clear(self) -> None:
        """Deletes all data, also the secondary indexes, of which a namespace has room for few."""
        for part in (
            self.records,
            self.indexes,
            self.deleted,
            self.history,
            self.log,
            self.digests,
        ):
            part.clear()

    def cold_start(self) -> None:
        """The server starts again and reads its device.

        One that keeps its data in memory has lost it.
        """
        if not self.persistent:
            self.records.clear()
            self.indexes.clear()
        for place, versions in self.deleted.items():
            self.records.setdefault(place, copy.deepcopy(self.order.choice(versions)))
        self.deleted.clear()

    def kill(self, flushed: float = 1.0) -> None:
        """The server is killed and starts again: the writes of the last second were not on the
        device yet."""
        while self.history and self.history[-1][0] > self.now - flushed:
            _, place, before = self.history.pop()
            self.records.pop(place, None)
            if before is not None:
                self.records[place] = before
        self.cold_start()

    def kind(self, kind: str) -> list[Record]:
        """All records of a set whose name ends so."""
        places = [place for place in list(self.records) if place[0].endswith(f"_{kind}")]
        return [record for place in places if (record := self.live(place)) is not None]

    def lost(self) -> exception.AerospikeError:
        error = exception.TimeoutError()
        error.msg = "connection lost"
        return error

    def fails(self) -> str | None:
        """Returns whether this call fails, and where."""
        self.calls += 1
        if self.fault is None:
            return None
        self.fault.call -= 1
        if self.fault.call > 0 or (self.fault.call < 0 and not self.fault.forever):
            return None
        return self.fault.where if self.fault.call == 0 else "before"


class Client:
    """A connection of one process."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.linearizes = False

    def close(self) -> None:
        """Does nothing, because there is nothing to release."""

    def _call(
        self, name: str, what: Any, policy: Any, work: Callable[[int], Any], size: int = 1
    ) -> Any:
        """Raises where the client does."""
        if self.cluster.during is not None:
            self.cluster.during()
        if threading.active_count() > 1:
            # so that threads take turns between calls, as processes do
            time.sleep(0)
        with self.cluster.lock:
            self.cluster.log.append((name, what, policy))
            where = self.cluster.fails()
            if where == "before":
                raise self.cluster.lost()
            done = work(size // 2 if where == "half" else size)
            if where is not None:
                raise self.cluster.lost()
            return done

    def batch_write(self, batch: BatchRecords, policy: dict[str, Any]) -> BatchRecords:
        self._require_mode(policy)
        assert isinstance(batch, BatchRecords)
        order = list(range(len(batch.batch_records)))

        def work(some: int) -> BatchRecords:
            self.cluster.order.shuffle(order)
            for at in order[:some]:
                self._one(batch.batch_records[at])
            return batch

        return self._batch("batch_write", batch, batch.batch_records, policy, work)

    def _require_mode(self, policy: dict[str, Any]) -> None:
        _known(policy, BATCH_POLICY)
        self.linearizes = policy.get("read_mode_sc") == aerospike.POLICY_READ_MODE_SC_LINEARIZE

    def _batch(
        self, name: str, batch: BatchRecords, what: Any, policy: Any, work: Callable[[int], Any]
    ) -> BatchRecords:
        """One that is lost raises nothing: it has a code, and its records look as if they had
        never been sent."""
        try:
            self._call(name, what, policy, work, len(batch.batch_records))
        except exception.AerospikeError as error:
            batch.result = error.code
            for record in batch.batch_records:
                record.result, record.record = OK, None
            if name == "batch_read":
                batch.batch_records = []
        else:
            failed = any(
                record.result not in (OK, NOT_FOUND, FILTERED) for record in batch.batch_records
            )
            batch.result = -16 if failed else 0
        return batch

    def batch_read(self, keys: list[tuple[str, str, Any]], policy: dict[str, Any]) -> BatchRecords:
        self._require_mode(policy)
        batch = BatchRecords([Read(key, None, read_all_bins=True) for key in keys])

        def work(_: int) -> BatchRecords:
            for record in batch.batch_records:
                self._one(record)
            return batch

        return self._batch("batch_read", batch, keys, policy, work)

    def _one(self, record: BatchRecord) -> None:
        place = self._place(record.key)
        try:
            if isinstance(record, Write):
                bins = self._write(place, record)
            elif isinstance(record, Remove):
                bins = self._remove(place, record)
            else:
                bins = self._read(place, record)
        except RefusedError as refused:
            record.result = refused.code
            return
        stored = self.cluster.live(place)
        record.result = OK
        record.record = (record.key, {"gen": stored.generation if stored else 0, "ttl": 0}, bins)

    def _place(self, key: tuple[Any, ...]) -> tuple[str, Any]:
        namespace, kind, name, *digest = key
        if digest and name is None:
            # a key as a query returns it
            return self.cluster.digests[bytes(digest[0])]
        if not isinstance(name, (str, int)) or "\0" in str(name) or len(kind) > 63:
            raise exception.ParamError()
        if namespace != self.cluster.namespace:
            error = exception.NamespaceNotFound()
            error.msg = f"no namespace {namespace}"
            raise error
        return kind, name

    def _read(self, place: tuple[str, Any], record: Any) -> dict[str, Any]:
        if self.linearizes and not self.cluster.strong:
            raise RefusedError(ENTERPRISE_ONLY)
        stored = self.cluster.live(place)
        if stored is None:
            raise RefusedError(NOT_FOUND)
        if record.read_all_bins:
            return dict(stored.bins)
        bins = dict(stored.bins)
        out: dict[str, Any] = {}
        for operation in record.ops:
            _operate(operation, bins, out)
        assert bins == stored.bins, "a read changed its record"
        return out

    def _write(self, place: tuple[str, Any], record: Any) -> dict[str, Any]:
        policy, stored = record.policy or {}, self.cluster.live(place)
        _known(policy, WRITE_POLICY)
        exists = policy.get("exists", aerospike.POLICY_EXISTS_IGNORE)
        if stored is None and exists in (
            aerospike.POLICY_EXISTS_UPDATE,
            aerospike.POLICY_EXISTS_REPLACE,
        ):
            raise RefusedError(NOT_FOUND)
        if stored is not None and exists == aerospike.POLICY_EXISTS_CREATE:
            raise RefusedError(EXISTS)
        if (
            policy.get("gen") == aerospike.POLICY_GEN_EQ
            and stored is not None
            and record.meta["gen"] != stored.generation
        ):
            raise RefusedError(GENERATION)
        if (
            stored is not None
            and policy.get("expressions") is not None
            and not self._evaluate(policy["expressions"], stored)
        ):
            raise RefusedError(FILTERED)
        bins = (
            {} if stored is None or exists == aerospike.POLICY_EXISTS_REPLACE else dict(stored.bins)
        )
        out: dict[str, Any] = {}
        for operation in record.ops:
            _operate(operation, bins, out)
        if sum(len(name) + _size(value) for name, value in bins.items()) > self.cluster.record_size:
            raise RefusedError(TOO_BIG)
        ttl = policy["ttl"]
        if ttl != NEVER and not self.cluster.expires:
            raise RefusedError(FORBIDDEN)
        until = float("inf") if ttl == NEVER else self.cluster.now + ttl
        assert ttl == NEVER or 0 < ttl <= 10 * 365 * 86400
        generation = 1 if stored is None else stored.generation + 1
        self.cluster.history.append((self.cluster.now, place, stored))
        self.cluster.deleted.pop(place, None)
        self.cluster.records[place] = Record(bins, generation, until, self.cluster.now)
        return out

    def _evaluate(self, compiled: list[tuple[int, Any, Any, int]], stored: Record) -> Any:
        """Evaluates an expression in prefix order: operator, type, constant, number of operands."""
        rest = iter(compiled)

        def value() -> Any:
            operator, _, constant, operands = next(rest)
            given = [value() for _ in range(operands)]
            if operator == 4:
                return given[0] >= given[1]
            if operator == 71:
                return int(1000 * (self.cluster.now - stored.updated))
            assert operator == 200, compiled
            return constant["val"]

        return value()

    def _remove(self, place: tuple[str, Any], record: Any) -> dict[str, Any]:
        policy, stored = record.policy or {}, self.cluster.live(place)
        _known(policy, REMOVE_POLICY)
        if stored is None:
            raise RefusedError(NOT_FOUND)
        if (
            policy.get("gen") == aerospike.POLICY_GEN_EQ
            and policy["generation"] != stored.generation
        ):
            raise RefusedError(GENERATION)
        if policy.get("durable_delete") and self.cluster.edition == "Community":
            raise RefusedError(ENTERPRISE_ONLY)
        if self.cluster.persistent and not policy.get("durable_delete"):
            earlier = [
                before
                for _, written, before in self.cluster.history
                if written == place and before is not None
            ]
            self.cluster.deleted[place] = [*earlier, stored]
        self.cluster.history.append((self.cluster.now, place, stored))
        del self.cluster.records[place]
        return {}

    def query(self, namespace: str, kind: str) -> "Query":
        self._place((namespace, kind, 0))
        return Query(self, kind)

    def index_single_value_create(
        self, namespace: str, kind: str, bin_: str, datatype: int, name: str
    ) -> None:
        self._place((namespace, kind, 0))
        assert len(name) < 64
        assert datatype == aerospike.INDEX_NUMERIC
        if (kind, bin_) in self.cluster.indexes:
            raise exception.IndexFoundError()
        if len(self.cluster.indexes) == MOST_INDEXES:
            raise exception.IndexNameMaxCount()
        self.cluster.indexes.add((kind, bin_))

    def info_all(self, command: str) -> dict[str, tuple[None, str]]:
        if not command.startswith("sets/"):
            return {"node": (None, f"{command}\t{self._described(command)}\n")}
        _, namespace, kind = command.split("/")
        with self.cluster.lock:
            stored = list(self.cluster.records.items())
        records = [record for place, record in stored if place[0] == kind]
        used = sum(_size(record.bins) for record in records)
        return {
            "node": (
                None,
                f"{command}\tns={namespace}:set={kind}:objects={len(records)}:data_used_bytes={used};\n",
            )
        }

    def _described(self, command: str) -> str:
        """Returns the answer of a node to an info command."""
        cluster = self.cluster
        if command == "edition":
            return f"Aerospike {cluster.edition} Edition"
        if command == f"sindex-list:namespace={cluster.namespace}":
            return "".join(
                f"ns={cluster.namespace}:indexname={kind}_{bin_}:set={kind};"
                for kind, bin_ in cluster.indexes
            )
        if command.startswith("get-config:") and "namespace=" in command.rpartition(";")[2]:
            period = 120 if cluster.expires else 0
            size = f"max-record-size={cluster.record_size}"
            return f"nsup-period={period};{size};strong-consistency={cluster.strong}".lower()
        if command.startswith("get-config:"):
            return "ERROR:4:bad parameter"
        if command != f"namespace/{cluster.namespace}":
            return "type=unknown"
        engine = "device" if cluster.persistent else "memory"
        now = int(time.clock_gettime(time.CLOCK_REALTIME) + cluster.now) - 1_262_304_000
        return f"objects={len(cluster.records)};current_time={now};storage-engine={engine}"


class Query:
    """A query over a set, or over the records with a number in an indexed bin."""

    def __init__(self, client: Client, kind: str) -> None:
        self._client, self._kind = client, kind
        self._bins: tuple[str, ...] = ()
        self._where: tuple[str, int] | None = None
        self.max_records = 0

    def select(self, *bins: str) -> None:
        self._bins = bins

    def where(self, predicate: tuple[Any, ...]) -> None:
        assert predicate == aerospike.predicates.equals(predicate[2], predicate[3])
        if (self._kind, predicate[2]) not in self._client.cluster.indexes:
            raise exception.IndexNotFound()
        self._where = predicate[2], predicate[3]

    def results(
        self, policy: dict[str, Any], options: dict[str, Any] | None = None
    ) -> list[tuple[Any, dict[str, int], dict[str, Any]]]:
        _known(policy, {"expressions"})
        _known(options or {}, {"nobins"})
        assert bool(self._bins) != bool(options), "a query that selects nothing reads everything"
        cluster, kind = self._client.cluster, self._kind

        def work(_: int) -> list[tuple[Any, dict[str, int], dict[str, Any]]]:
            rows = []
            for place in [place for place in cluster.records if place[0] == kind]:
                stored = cluster.live(place)
                if stored is None or (
                    self._where is not None and stored.bins.get(self._where[0]) != self._where[1]
                ):
                    continue
                if policy and not self._client._evaluate(policy["expressions"], stored):
                    continue
                bins = {name: stored.bins[name] for name in self._bins if name in stored.bins}
                digest = hashlib.sha1(repr(place).encode(), usedforsecurity=False).digest()
                cluster.digests[digest] = place
                rows.append(
                    (
                        (cluster.namespace, kind, None, bytearray(digest)),
                        {"gen": stored.generation, "ttl": 0},
                        bins,
                    )
                )
            cluster.order.shuffle(rows)
            return rows[: self.max_records or None]

        done: list[tuple[Any, dict[str, int], dict[str, Any]]] = self._client._call(
            "query", kind, self._where, work
        )
        return done


def _operate(operation: dict[str, Any], bins: dict[str, Any], out: dict[str, Any]) -> None:
    """One operation of a record."""
    code, name = operation["op"], operation.get("bin", "")
    assert len(name) <= 15
    if code == aerospike.OPERATOR_READ:
        if name in bins:
            out[name] = bins[name]
    elif code == aerospike.OPERATOR_WRITE:
        _check(operation["val"])
        bins[name] = operation["val"]
    elif code == aerospike.OPERATOR_INCR:
        bins[name] = bins.get(name, 0) + operation["val"]
    elif code == aerospike.OP_MAP_SIZE:
        if name in bins:
            out[name] = len(bins[name])
    elif code != aerospike.OPERATOR_TOUCH:
        _operate_on_map(code, operation, name, bins, out)


def _operate_on_map(
    code: int, operation: dict[str, Any], name: str, bins: dict[str, Any], out: dict[str, Any]
) -> None:
    entries = dict(bins.get(name, {}))
    if code == aerospike.OP_MAP_PUT_ITEMS:
        assert operation["map_policy"] == {"map_order": aerospike.MAP_KEY_ORDERED}
        _check(operation["val"])
        entries |= operation["val"]
        out[name] = len(entries)
    elif code == aerospike.OP_MAP_GET_BY_KEY_RANGE:
        assert operation["return_type"] == aerospike.MAP_RETURN_KEY
        assert name not in out, "the client gives one answer a bin"
        out[name] = [key for key in sorted(entries) if operation["key"] <= key < operation["range"]]
    elif code == aerospike.OP_MAP_REMOVE_BY_KEY_RANGE:
        assert operation["return_type"] == aerospike.MAP_RETURN_NONE
        entries = {
            key: value
            for key, value in entries.items()
            if not operation["key"] <= key < operation["val"]
        }
    else:
        assert code == aerospike.OP_MAP_REMOVE_BY_KEY_LIST, f"the fake has no operation {code}"
        assert operation["return_type"] == aerospike.MAP_RETURN_NONE
        entries = {key: value for key, value in entries.items() if key not in set(operation["val"])}
    bins[name] = dict(sorted(entries.items()))


def _known(policy: dict[str, Any], names: set[str]) -> None:
    """Refuses unknown values, which the real client does only with an option."""
    assert set(policy) <= names, sorted(set(policy) - names)


def _check(value: Any) -> None:
    """Types that the server has; numbers of 64 bits."""
    if isinstance(value, dict):
        for key, one in value.items():
            assert isinstance(key, (str, bytes, int))
            _check(one)
    elif isinstance(value, list):
        for one in value:
            _check(one)
    else:
        assert type(value) in (int, float, str, bytes), f"{type(value)} is not a type of a bin"
        assert not isinstance(value, int) or -(1 << 63) <= value < 1 << 63


def _size(value: Any) -> int:
    """Bytes, about, as the server packs them."""
    if isinstance(value, dict):
        return sum(_size(key) + _size(one) for key, one in value.items()) + 5
    if isinstance(value, list):
        return sum(map(_size, value)) + 5
    if isinstance(value, (str, bytes)):
        return len(value) + 6
    return 1 if isinstance(value, int) and 0 <= value < 128 else 9
