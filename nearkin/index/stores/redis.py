"""The store behind `redis://host:port/db?prefix=name`, for Redis and Valkey.

Each step is one Lua script, which is atomic. A bucket with a key of its own would need about a
hundred bytes of memory for eight bytes of content, twenty times a document. Therefore buckets and
ids are fields of hashes with about sixty fields, which Redis stores as compact lists.
"""

import json
import re
import secrets
import struct
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any
from urllib.parse import parse_qs, urlsplit, urlunsplit

import numpy as np

from nearkin.errors import (
    MissingExtraError,
    MissingIndexError,
    MovedError,
    NearkinError,
    OutcomeUnknownError,
    RacedError,
    StoreError,
)
from nearkin.index.changes import Changes, Event, LogPortion, number_documents
from nearkin.index.entry import REF_SHIFT, Entry, PostingPortion, Postings, content_size
from nearkin.index.migration.state import MigrationState, StoreState
from nearkin.index.stores import redis_scripts as scripts
from nearkin.index.stores.addresses import require_known_options
from nearkin.index.stores.base import (
    HEADER,
    LOG_KEPT,
    LOG_PORTION,
    PORTION,
    SCAN_ROUNDS,
    Portions,
    Store,
    require_layout,
)
from nearkin.index.stores.eviction import require_no_eviction
from nearkin.index.stores.packing import id_key, pack_entry, unpack_entry, unpack_head

GROUP = 64
"""The approximate number of buckets in a hash."""
ENTRIES = 64
"""The number of entries in a hash."""
WORD = struct.Struct("<q")
TIMEOUT = 30.0
"""The maximum time to wait for the server, in seconds."""
RETRIES = 3
"""The number of times that a command is sent again after its connection was lost."""
UNLIMITED_LINES = 1 << 53
"""The number of lines of a history, which are deleted by their age."""
NOTE_SECONDS = 3600
"""The time for which the server remembers the last step of a writer, in seconds.

A step that is sent twice is executed once.
"""
LAYOUT = 3
"""The version of the layout of the keys."""
VALUE_KEYS = {HEADER: "made"}
"""The keys of values that are written once, if they differ from the names of the values."""
FIND_ATTEMPTS = 10
"""The number of times that a document is looked up that others replace at the same time."""


class RedisStore(Store):
    """A store in Redis."""

    def __init__(self, url: str, most: int, expected: int, *, must_exist: bool = False) -> None:
        try:
            import redis
            import redis.backoff
            import redis.retry
        except ImportError as error:
            raise MissingExtraError.for_extra("redis:// requires redis-py", "redis") from error
        parts = urlsplit(url)
        options = parse_qs(parts.query)
        require_known_options(options, ["prefix"], _shown_url(url))
        self._prefix = f"{options.get('prefix', ['nearkin'])[0]}:".encode()
        self._url = _shown_url(url)
        self._most = most
        self._errors = redis.exceptions.RedisError
        self._lost = (redis.exceptions.ConnectionError, redis.exceptions.TimeoutError)
        self._writers: deque[bytes] = deque()
        """The names of writers without a running step. A thread takes one name for each step."""
        self._client: Any = redis.Redis.from_url(
            urlunsplit(parts._replace(query="")),
            socket_timeout=TIMEOUT,
            socket_connect_timeout=TIMEOUT,
            # Commands may be sent twice, because a step is executed once. A command that timed out
            # is not sent again, so that a server that hangs costs TIMEOUT once.
            retry=redis.retry.Retry(
                redis.backoff.ExponentialWithJitterBackoff(base=0.05, cap=1.0),
                RETRIES,
                supported_errors=(redis.exceptions.ConnectionError,),
            ),
        )
        try:
            with self._redis_errors():
                self._prepare(expected, must_exist=must_exist)
        except BaseException:
            self._client.close()
            raise

    def _prepare(self, expected: int, *, must_exist: bool) -> None:
        """Reads what steps need to know of the server."""
        if must_exist:
            self._require_index()
        require_no_eviction(self._client, self._url)
        self._require_layout()
        bits = max(0, min(8, (expected // GROUP >> 16).bit_length()))
        self._client.set(self._key("mask"), str((1 << bits) - 1), nx=True)
        mask: Any = self._client.get(self._key("mask"))
        self._mask: bytes = mask
        self._look_up = self._client.register_script(scripts.READ_BUCKETS)
        self._find = self._client.register_script(scripts.FIND_IDS)
        self._apply = self._client.register_script(scripts.APPLY)
        self._redirect = self._client.register_script(scripts.REDIRECT)
        self._heads_script = self._client.register_script(scripts.READ_HEADS)
        self._due_script = self._client.register_script(scripts.READ_DUE)
        self._turn_script = self._client.register_script(scripts.TAKE_TURN)
        self._lines_script = self._client.register_script(scripts.READ_LOG)
        self._drop_lines_script = self._client.register_script(scripts.DROP_LINES)

    @property
    def url(self) -> str:
        """The address of the server, without a password."""
        return self._url

    def _key(self, name: str) -> bytes:
        return self._prefix + name.encode()

    @contextmanager
    def _redis_errors(self) -> Iterator[None]:
        """Turns errors of redis-py into StoreError.

        Any other exception, such as KeyboardInterrupt, may have come before an answer was read. The
        connection would give it to the next command, so that all free connections are closed.
        """
        try:
            yield
        except self._errors as error:
            raise StoreError(
                f"{self._url}: {error}; nothing was written; the call may be repeated"
            ) from error
        except (NearkinError, GeneratorExit):
            raise
        except BaseException:
            self._client.connection_pool.disconnect(inuse_connections=False)
            raise

    def _require_index(self) -> None:
        """Verifies that there is an index, of this layout or another one."""
        if not self._client.exists(self._key("made"), self._key("header")):
            raise MissingIndexError(
                f"there is no index at {self._url}: no keys with the prefix "
                f"{self._prefix.decode()!r}"
            )

    def _require_layout(self) -> None:
        """Records the layout of a new index, and refuses any other layout."""
        stored = self._client.get(self._key("layout"))
        if stored is None and not self._client.exists(self._key("header")):
            self._client.set(self._key("layout"), LAYOUT, nx=True)
            return
        require_layout(self._url, "layout", int(stored or 1), LAYOUT)

    def _groups(self) -> list[int]:
        start = len(self._key("e:"))
        keys = self._client.scan_iter(_escape_pattern(self._key("e:")) + b"*", count=10_000)
        return sorted({int(key[start:]) for key in keys})

    def _heads(self, refs: Sequence[int]) -> list[Entry]:
        """Returns the entries that exist, without their content, which is not transferred."""
        places = [part for ref in refs for part in _place(ref)]
        with self._redis_errors():
            packed = self._heads_script(args=[self._prefix, self._mask, *places]) if refs else []
        return [
            unpack_head(ref, packed_head)
            for ref, packed_head in zip(refs, packed, strict=True)
            if packed_head
        ]

    def write_once(self, name: str, value: object) -> Any:
        key = self._key(VALUE_KEYS.get(name, name))
        with self._redis_errors():
            if value is not None:
                self._client.set(key, json.dumps(value, sort_keys=True), nx=True)
            stored: Any = self._client.get(key)
        return None if stored is None else json.loads(stored)

    def state(self) -> StoreState:
        with self._redis_errors():
            epoch, phase, urls, generation = self._client.hmget(
                self._key("place"), "epoch", "phase", "urls", "generation"
            )
        migration = (
            MigrationState()
            if epoch is None
            else MigrationState(int(epoch), phase.decode(), tuple(json.loads(urls)))
        )
        return StoreState(migration, int(generation or 0))

    def redirect(self, migration: MigrationState) -> None:
        writer = secrets.token_hex(8)
        with self._redis_errors(), self._lost_answers():
            was_written = self._redirect(
                args=[
                    self._prefix,
                    migration.epoch,
                    migration.phase,
                    json.dumps(migration.urls),
                    writer,
                ]
            )
        if not was_written:
            raise RacedError(f"{self._url} has reached epoch {migration.epoch} already")

    def entries(self, scope: str, ids: Sequence[str]) -> list[Entry | None]:
        entries_by_id: dict[str, Entry] = {}
        missing = list(dict.fromkeys(ids))
        for _ in range(FIND_ATTEMPTS):
            refs = self._find_refs(scope, missing)
            entries = self.by_refs(list(refs.values()))
            found = dict(zip(refs, entries, strict=True))
            entries_by_id |= {name: entry for name, entry in found.items() if entry is not None}
            # a step that replaced a document between the two reads gave it another number
            missing = [name for name, entry in found.items() if entry is None]
            if not missing:
                break
        return [entries_by_id.get(name) for name in ids]

    def _find_refs(self, scope: str, ids: Sequence[str]) -> dict[str, int]:
        """Returns the numbers of the documents that exist, by id."""
        if not ids:
            return {}
        with self._redis_errors():
            packed_refs = self._find(
                args=[self._prefix, b"".join(id_key(scope, name) for name in ids)]
            )
        refs = np.frombuffer(packed_refs, "<i8").tolist()
        return {name: ref for name, ref in zip(ids, refs, strict=True) if ref}

    def by_refs(self, refs: Sequence[int]) -> list[Entry | None]:
        if not refs:
            return []
        with self._redis_errors():
            pipe = self._client.pipeline(transaction=False)
            for ref in refs:
                pipe.hget(*self._place(ref))
            packed = pipe.execute()
        return [
            None if packed_entry is None else unpack_entry(ref, packed_entry)
            for ref, packed_entry in zip(refs, packed, strict=True)
        ]

    def _place(self, ref: int) -> tuple[bytes, bytes]:
        group, field = _place(ref)
        return self._key("e:") + group, field

    def postings(self, keys: np.ndarray) -> Postings:
        with self._redis_errors():
            sizes, words = self._look_up(
                args=[self._prefix, self._mask, keys.astype("<u8").tobytes()]
            )
        ends = np.cumsum(np.frombuffer(sizes, "<u4"), dtype=np.int64)
        return Postings(np.frombuffer(words, "<i8"), np.concatenate([[0], ends]))

    def overflowed(self, keys: np.ndarray) -> np.ndarray:
        with self._redis_errors(), self._client.pipeline(transaction=False) as pipeline:
            for key in keys.astype("<u8"):
                pipeline.exists(self._key("x:") + key.tobytes())
            return np.array(pipeline.execute(), bool)

    def reserve(self, count: int) -> list[int]:
        if not count:
            return []
        with self._redis_errors():
            last = self._client.incrby(self._key("ref"), count)
        return list(range(last - count + 1, last + 1))

    def last_number(self) -> int:
        with self._redis_errors():
            return int(self._client.get(self._key("ref")) or 0)

    def apply(self, changes: Changes) -> list[int]:
        with self._redis_errors():
            numbers = number_documents(changes.new, self.reserve)
            before = self.by_refs([entry.ref for entry in changes.changed])
            refused = self._run_step(
                [
                    *self._step_conditions(changes),
                    b"W",
                    *self._step_writes(changes, numbers, before),
                ]
            )
        if refused == b"moved":
            raise MovedError(f"{self._url} is being moved")
        if refused:
            raise RacedError(refused.decode())
        return numbers

    def _run_step(self, steps: list[bytes | int]) -> bytes:
        """Runs a step. The client may send it several times; the script executes it once."""
        try:
            writer = self._writers.pop()
        except IndexError:
            writer = secrets.token_bytes(8)
        with self._lost_answers():
            args = [
                self._prefix,
                self._mask,
                self._most,
                writer,
                secrets.token_bytes(8),
                NOTE_SECONDS,
                *steps,
            ]
            refused: bytes = self._apply(args=args)
        # A writer whose answer was lost is not used again, because a late copy of its step must be
        # recognized by its name.
        self._writers.append(writer)
        return refused

    @contextmanager
    def _lost_answers(self) -> Iterator[None]:
        """Turns a lost connection into OutcomeUnknownError."""
        try:
            yield
        except self._lost as error:
            raise OutcomeUnknownError(
                f"{self._url}: {error}; the answer was lost, so that the outcome is unknown; the "
                f"call may be repeated safely"
            ) from error

    def _step_conditions(self, changes: Changes) -> Iterator[bytes]:
        """Yields the conditions of a step, three arguments each."""
        if changes.epoch is not None:
            yield from (b"F", b"%d" % changes.epoch, b"")
        going = {(entry.scope, entry.id) for entry, _ in changes.dropped}
        for entry, _ in changes.new:
            if (entry.scope, entry.id) not in going:
                yield from (b"A", id_key(entry.scope, entry.id), b"")
        for entry in changes.present:
            yield from (b"R", id_key(entry.scope, entry.id), WORD.pack(entry.ref))
        for entry in changes.required_leaders:
            yield from (b"L", id_key(entry.scope, entry.id), WORD.pack(entry.ref) + b"L")
        for entry, members in changes.leader_snapshots:
            yield from _unchanged_leader(entry)
            yield from (
                b"S",
                id_key(entry.scope, entry.id),
                b" ".join(b"%016d" % ref for ref in members),
            )
        for entry in changes.expected:
            yield from _unchanged_leader(entry)

    def _step_writes(
        self, changes: Changes, numbers: list[int], before: list[Entry | None]
    ) -> Iterator[bytes | int]:
        """Yields the writes of a step, four arguments each."""
        counted = {"records": len(changes.new) - len(changes.dropped), "leaders": 0}
        if not (changes.new or changes.postings_added) and (
            changes.dropped or changes.unposted or changes.postings_removed
        ):
            # Redis runs a script that begins with a deletion even if its memory is full
            yield from (b"D", b"", b"", b"")
        for entry, keys in (*changes.dropped, *changes.unposted):
            if keys is not None:
                yield from (b"p", keys.astype("<u8").tobytes(), WORD.pack(entry.posting), b"")
        for ref, gone in changes.postings_removed:
            yield from (b"p", gone.astype("<u8").tobytes(), WORD.pack(ref << REF_SHIFT), b"")
        for word, come in changes.postings_added:
            yield from (b"P", come.astype("<u8").tobytes(), WORD.pack(word), b"")
        for entry, _ in changes.dropped:
            yield from (b"e", *_place(entry.ref), b"")
            yield from (b"i", id_key(entry.scope, entry.id), b"", b"")
            counted["leaders"] -= entry.is_leader
            if not entry.is_leader:
                yield from (b"m", id_key(entry.scope, entry.leader), b"%016d" % entry.ref, b"")
        for entry, old in zip(changes.changed, before, strict=True):
            if old is not None and old.leader != entry.leader:
                counted["leaders"] += entry.is_leader - old.is_leader
                yield from (b"m", id_key(old.scope, old.leader), b"%016d" % old.ref, b"")
            yield from self._entry_writes(entry)
        for (entry, keys), number in zip(changes.new, numbers, strict=True):
            stored = entry._replace(ref=number)
            counted["leaders"] += stored.is_leader
            yield from self._entry_writes(stored)
            if keys is not None:
                yield from (b"P", keys.astype("<u8").tobytes(), WORD.pack(stored.posting), b"")
        for entry, keys in changes.posted:
            if keys is not None:
                yield from (b"P", keys.astype("<u8").tobytes(), WORD.pack(entry.posting), b"again")
        kept = UNLIMITED_LINES if changes.keeps_log else LOG_KEPT
        for event in changes.events:
            yield from (b"G", json.dumps(event.row).encode(), kept, LOG_PORTION)
        if changes.invalidates_caches:
            yield from (b"V", b"", b"", b"")
        for name, value in counted.items():
            yield from (b"C", name.encode(), value, b"")

    def _entry_writes(self, entry: Entry) -> Iterator[bytes]:
        """Yields the writes that store an entry."""
        yield from (b"E", *_place(entry.ref), pack_entry(entry))
        yield from (
            b"I",
            id_key(entry.scope, entry.id),
            WORD.pack(entry.ref) + (b"L" if entry.is_leader else b"M"),
            b"",
        )
        if not entry.is_leader:
            yield from (b"M", id_key(entry.scope, entry.leader), b"%016d" % entry.ref, b"")

    def members(
        self,
        scope: str,
        leader: str,
        limit: int | None = None,
        *,
        after: int = 0,
        skip: int = 0,
        content: bool = True,
    ) -> list[Entry]:
        most = -1 if limit is None else limit
        refs = self._refs_behind(self._key("n:") + id_key(scope, leader), after, skip, most)
        if not content:
            return self._heads(refs)
        return [entry for entry in self.by_refs(refs) if entry is not None]

    def _refs_behind(self, key: bytes, after: int, skip: int, limit: int) -> list[int]:
        """Returns numbers of a sorted set in ascending order. A limit of -1 means no limit."""
        with self._redis_errors():
            return list(
                map(
                    int, self._client.zrangebyscore(key, f"({after}", "+inf", start=skip, num=limit)
                )
            )

    def member_count(self, scope: str, leader: str) -> int:
        with self._redis_errors():
            return int(self._client.zcard(self._key("n:") + id_key(scope, leader)))

    def scan(self, scope: str | None = None, *, content: bool = True) -> Iterator[Entry]:
        portions = self._all_refs() if scope is None else self._refs_of_scope(scope)
        sizes = Portions(PORTION)
        for refs in portions:
            if not content:
                yield from self._heads(refs)
                continue
            while refs:
                portion = refs[: sizes.size]
                refs = refs[sizes.size :]
                entries = [entry for entry in self.by_refs(portion) if entry is not None]
                sizes.read(len(portion), content_size(entries))
                yield from entries

    def _refs_of_scope(self, scope: str) -> Iterator[list[int]]:
        key, last = self._key("s:") + scope.encode(), 0
        while refs := self._refs_behind(key, last, 0, PORTION):
            last = refs[-1]
            yield refs

    def _all_refs(self) -> Iterator[list[int]]:
        last = 0
        # documents that are replaced while others are read get larger numbers
        for _ in range(SCAN_ROUNDS):
            previous = last
            with self._redis_errors():
                groups = [group for group in self._groups() if group >= last // ENTRIES]
            for group in groups:
                with self._redis_errors():
                    fields = self._client.hkeys(self._key("e:") + b"%d" % group)
                refs = sorted(group * ENTRIES + int(field) for field in fields)
                later = [ref for ref in refs if ref > last]
                if later:
                    last = later[-1]
                    yield later
            if last == previous:
                return

    def scopes(self) -> Iterator[str]:
        seen: set[bytes] = set()
        with self._redis_errors():
            for name in self._client.sscan_iter(self._key("scopes"), count=PORTION):
                if name not in seen:
                    seen.add(name)
                    yield name.decode()

    def due(self, before: float, *, posted: bool) -> Iterator[Entry]:
        seen, member = b"", b""
        name = b"posted" if posted else b"seen"
        while True:
            with self._redis_errors():
                rows = self._due_script(args=[self._prefix, name, seen, member, PORTION])
            if not rows:
                return
            due = [
                (int(ref), float(at))
                for ref, at in zip(rows[::2], rows[1::2], strict=True)
                if float(at) < before
            ]
            member, seen = rows[-2:]
            yield from self._heads([ref for ref, _ in due])
            if 2 * len(due) < len(rows):
                return

    def posting_portion(self, place: Any, most: int) -> PostingPortion:
        with self._redis_errors():
            cursor, names = self._client.scan(
                place or 0,
                match=_escape_pattern(self._key("")) + b"[bx]:*",
                count=max(1, most // GROUP),
            )
            hidden = self._key("x:")
            pipe = self._client.pipeline(transaction=False)
            for name in names:
                if name.startswith(hidden):
                    pipe.zrange(name, 0, -1)
                else:
                    pipe.hgetall(name)
            buckets: list[tuple[bytes, bytes]] = []
            for name, held in zip(names, pipe.execute(), strict=True):
                if name.startswith(hidden):
                    buckets.append((name[len(hidden) :], b"".join(held)))
                else:
                    buckets += held.items()
        sizes = [len(words) // WORD.size for _, words in buckets]
        keys = np.repeat(np.frombuffer(b"".join(key for key, _ in buckets), "<u8"), sizes)
        words = np.frombuffer(b"".join(words for _, words in buckets), "<i8")
        return PostingPortion(keys, words, cursor or None)

    def times(self) -> list[float]:
        with self._redis_errors():
            seconds, microseconds = self._client.time()
        return [seconds + microseconds / 1e6]

    def take_turn(self, work: str, holder: str, seconds: float) -> bool:
        milliseconds = max(1, round(seconds * 1000))
        with self._redis_errors():
            return bool(self._turn_script(args=[self._key(f"turn:{work}"), holder, milliseconds]))

    def log_end(self) -> int:
        with self._redis_errors():
            pipe = self._client.pipeline(transaction=True)
            pipe.get(self._key("log-dropped"))
            pipe.llen(self._key("log"))
            dropped, there = pipe.execute()
        return int(dropped or 0) + int(there)

    def events(self, after: int | None = None) -> Iterator[Event]:
        last = after or 0
        while True:
            with self._redis_errors():
                lines = self._lines_script(args=[self._prefix, last, LOG_PORTION])
            start, *rows = lines
            if not rows:
                return
            last = int(start) + len(rows)
            yield from (Event.of_row(*json.loads(line)) for line in rows)

    def log_lines(self, after: int, limit: int) -> LogPortion:
        end = self.log_end()
        with self._redis_errors():
            start, *rows = self._lines_script(args=[self._prefix, after, limit])
            dropped = int(self._client.get(self._key("log-dropped")) or 0)
        events = (Event.of_row(*json.loads(line)) for line in rows)
        lines = list(enumerate(events, int(start) + 1))
        return LogPortion(lines, dropped, max(end, int(start) + len(rows)))

    def drop_lines(self, until: int) -> None:
        with self._redis_errors():
            self._drop_lines_script(args=[self._prefix, until])

    def counts(self) -> dict[str, int]:
        with self._redis_errors():
            counted = {
                name.decode(): int(value)
                for name, value in self._client.hgetall(self._key("counts")).items()
            }
            used = int(self._client.info("memory")["used_memory"])
        return {"records": 0, "leaders": 0, "postings": 0, "evicted": 0, **counted, "bytes": used}

    @property
    def durability(self) -> str:
        try:
            with self._redis_errors():
                facts: dict[str, str] = self._client.config_get("appendonly", "appendfsync", "save")
        except StoreError:
            return "unknown: the server does not allow CONFIG GET"
        if facts.get("appendonly") == "yes":
            synced = {"always": "before it is acknowledged", "everysec": "within a second"}
            when = synced.get(facts.get("appendfsync", ""), "when the operating system decides")
            return f"appended to a file and synced {when}: a power cut loses what was not synced"
        if facts.get("save"):
            return (
                f"in snapshots (save {facts['save']}): a killed server loses what came after "
                f"the last one"
            )
        return "kept in the server's memory: a restart of the server loses the index"

    def close(self) -> None:
        self._client.close()


def _unchanged_leader(entry: Entry) -> tuple[bytes, bytes, bytes]:
    """Returns the condition that a document is resolved to the representative that was read."""
    if entry.is_leader:
        return b"L", id_key(entry.scope, entry.id), WORD.pack(entry.ref) + b"L"
    return b"B", id_key(entry.scope, entry.leader), b"%016d" % entry.ref


def _escape_pattern(prefix: bytes) -> bytes:
    r"""Returns a pattern that matches a prefix literally.

    Examples:
        >>> print(_escape_pattern(b"kin[1]*:").decode())
        kin\[1\]\*:
    """
    return re.sub(rb"([\\*?\[\]^-])", rb"\\\1", prefix)


def _place(ref: int) -> tuple[bytes, bytes]:
    """Returns the hash and the field of an entry."""
    return b"%d" % (ref // ENTRIES), b"%d" % (ref % ENTRIES)


def _shown_url(url: str) -> str:
    """Returns a URL without its password and options, for messages."""
    parts = urlsplit(url)
    host = parts.netloc.rpartition("@")[2]
    return urlunsplit(parts._replace(netloc=host, query=""))
