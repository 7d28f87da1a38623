"""The store behind `aerospike://host:port/namespace?set=name`, for Aerospike 6 or newer.

Buckets are maps in records (map CDTs). Reads and writes are batches of operations. Aerospike writes
one record atomically. Transactions over several records need a strongly consistent namespace of
server 8, and this store does without them. A step of an index becomes atomic by a plan:

1. The step writes a *plan* in the state pending. It names the documents that the step changes, the
   postings that it adds and removes, and the epoch of the migration state. The epoch is read after
   the plan was written, and a migration refuses the plans of other epochs; `aerospike_moves`
   explains why no step of an old epoch is committed after a migration.
2. It locks its documents: the record of a document keeps the present version, and gets the new
    version
   and the number of the step. The generation of the record must be the one that was read, or the
   record must be new. Otherwise another process was faster.
3. It writes the postings, which nobody sees before the document, and the records that lead from
    numbers
   to documents.
4. It checks its conditions while it holds its locks: the required representatives exist and no step
   removes them, and no document was resolved to a representative that it removes. If two steps
   conflict, at least one of them sees the other, because each locks first and reads afterwards.
5. One write changes the state of the plan from pending to committed. From then on readers see the
    whole
   step. Before, they see nothing of it, because a reader of a locked document reads the state of
   the plan.
6. The generation rises, postings are deleted, the change log is written, the documents are unlocked
    with
   their new versions, and the plan is deleted.

A step that fails before its commit is undone: its postings are deleted, and its documents are
unlocked with their old versions. An interrupted step is completed or undone by the next process
that changes one of its documents, opens the store or counts it, after the plan has not changed for
20 seconds of the *server's* clock (`SinceUpdateTime`); clocks of processes are not compared. A step
that was considered dead cannot commit any more, because its plan has another generation. Every
action may be executed twice. A step waits only for steps that change the same document. The
documents of one step become visible together, but two reads may see different states, as in every
store.

The *native time to live* protects an index that no process maintains. It does not replace `expire`,
which uses the clock of the index, keeps documents that others are resolved to, and counts. The
server deletes records without a trace: a representative after four times `record_ttl` without a
write, any other document after two times `record_ttl` (so that it never outlives its
representative), and a group of buckets after four times `bucket_ttl` without a write. A match
writes the document and renews the groups of its buckets. If neither setting is given, records never
expire, whatever the default of the namespace is. A namespace accepts times to live if its
`nsup-period` is above 0. The header, the counter and the change log never expire.

A bucket holds at most 20,000 postings, and a larger `bucket_capacity` is refused. At most
twenty times `max_candidates` documents are estimated, so a bucket in several records would only be
slower.
"""

import json
import time
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from nearkin.errors import MissingIndexError, RacedError, StoreError, UsageError
from nearkin.index.changes import Changes, Event, LeaderSnapshot, LogPortion
from nearkin.index.entry import REF_SHIFT, Entry, Postings, without_content
from nearkin.index.migration.state import MigrationState, StoreState
from nearkin.index.stores.aerospike_buckets import KIND, Buckets, Span, bits_for
from nearkin.index.stores.aerospike_moves import META, Moves
from nearkin.index.stores.aerospike_records import EXISTS, FILTERED, GENERATION, NOT_FOUND, Records
from nearkin.index.stores.aerospike_steps import (
    DOCUMENTS,
    EVENTS,
    NO_DOCUMENT,
    REFS,
    STEPS,
    WAIT,
    BusyError,
    ChangePlan,
    LockedRecord,
    Steps,
    Version,
    pause,
)
from nearkin.index.stores.base import Store
from nearkin.index.stores.packing import id_key, pack_entry, unpack_entry
from nearkin.runtime.setting_names import name_setting

POSTING_SHARE = 52
"""The size of a posting in a record, in bytes: a record of 1 MiB holds 20,000 postings."""
DOCUMENT_SHARE = 0.457
"""The share of the record size that a document may take. A locked record holds two versions."""
AT_ONCE = 1000
"""The number of documents that are read at once."""
SCOPES = "scopes"
"""The set of the names of scopes. They stay when a scope has no documents any more."""
MOST_KNOWN_SCOPES = 100_000
"""The maximum number of scopes that a process remembers as recorded."""
LEADER_LIVES = 4
MEMBER_LIVES = 2
"""The multiples of a time to live after which the server deletes a record."""


class AerospikeStore(Store):
    """A store in an Aerospike namespace.

    Args:
        record_ttl: Time to live of a document after it was last seen, in seconds; None for no
            limit.
        bucket_ttl: Time to live of a posting after it was last used, in seconds; None for no limit.
    """

    def __init__(
        self,
        records: Records,
        most: int,
        expected: int,
        record_ttl: float | None = None,
        bucket_ttl: float | None = None,
        *,
        must_exist: bool = False,
    ) -> None:
        self._records = records
        if must_exist and self.read_header() is None:
            raise MissingIndexError(f"there is no index at {records.url}: no record of one")
        largest = records.namespace.record_size // POSTING_SHARE
        if most > largest:
            raise UsageError(
                f"{name_setting('bucket_capacity', most)} is larger than a record of "
                f"{records.url}; the maximum "
                f"is {largest:,}"
            )
        if record_ttl is not None or bucket_ttl is not None:
            records.namespace.require_expiry()
        self._most_bytes = int(DOCUMENT_SHARE * records.namespace.record_size)
        self._keeps_keys = record_ttl is not None or bucket_ttl is not None
        lives = [
            None if record_ttl is None else times * record_ttl
            for times in (LEADER_LIVES, MEMBER_LIVES)
        ]
        grouped = bucket_ttl or record_ttl
        self._never = records.life(None)
        bits = self.write_once("bits", bits_for(expected))
        self._buckets = Buckets(
            records, bits, most, records.life(grouped and LEADER_LIVES * grouped)
        )
        self._moves = Moves(records)
        self._steps = Steps(
            records,
            self._buckets,
            self._moves,
            (records.life(lives[0]), records.life(lives[1])),
            _has_posting,
        )
        self._known_scopes: set[str] = set()
        for bin_ in ("l", "nl", "z"):
            records.index(DOCUMENTS, bin_)
        self._steps.repair()

    @property
    def url(self) -> str:
        """The address of the namespace, without a password."""
        return self._records.url

    def write_once(self, name: str, value: object) -> Any:
        if value is not None:
            # numbers are stored as they are
            stored = value if isinstance(value, int) else json.dumps(value, sort_keys=True)
            write = self._records.creation(
                META, name, self._records.put({"v": stored}), self._never
            )
            self._records.run([write], (EXISTS,))
        (record,) = self._records.read(META, [name])
        if record is not None:
            stored = record.bins["v"]
            return json.loads(stored) if isinstance(stored, str) else stored
        if value is not None:
            raise StoreError(
                f"{self.url}: a record that was just written is missing; repeat the call"
            )
        return None

    def state(self) -> StoreState:
        return self._moves.state(self._steps.refuse)

    def redirect(self, migration: MigrationState) -> None:
        self._moves.redirect(migration, self._steps.refuse)

    def entries(self, scope: str, ids: Sequence[str]) -> list[Entry | None]:
        fields = [_field(scope, name) for name in ids]
        seen = self._steps.visible(fields)
        return [_entry(seen[name]) for name in fields]

    def by_refs(self, refs: Sequence[int]) -> list[Entry | None]:
        pointers = self._records.read(REFS, list(refs))
        fields = ["" if pointer is None else pointer.bins["f"] for pointer in pointers]
        seen = {"": NO_DOCUMENT, **self._steps.visible([name for name in fields if name])}
        versions = [seen[name] for name in fields]
        return [
            _entry(version) if version.ref == ref else None
            for ref, version in zip(refs, versions, strict=True)
        ]

    def postings(self, keys: np.ndarray) -> Postings:
        return self._buckets.look_up(keys)

    def overflowed(self, keys: np.ndarray) -> np.ndarray:
        return self._buckets.overflowed(keys)

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
        # pages are read without content, and each one goes on where the previous one ended
        most = limit if content and not skip else None
        later = [entry for entry in self._members(scope, leader, most) if entry.ref > after]
        listed = later[skip:][:limit]
        return listed if content else [without_content(entry) for entry in listed]

    def _members(self, scope: str, leader: str, limit: int | None = None) -> list[Entry]:
        """Returns members in the order of their numbers.

        With a limit, reading stops after the first batch that reaches it, whichever members it has.
        """
        fields = list(dict.fromkeys(self._member_fields(scope, leader)))
        members: list[Entry] = []
        for start in range(0, len(fields), AT_ONCE):
            seen = (
                _entry(version)
                for version in self._steps.visible(fields[start : start + AT_ONCE]).values()
            )
            there = (entry for entry in seen if entry is not None and not entry.is_leader)
            members += [entry for entry in there if (entry.scope, entry.leader) == (scope, leader)]
            if limit is not None and len(members) >= limit:
                break
        return sorted(members, key=lambda entry: entry.ref)

    def _member_fields(self, scope: str, leader: str) -> list[str]:
        """Returns the keys of documents that are resolved to a representative, now or by a step."""
        number = _number(scope, leader)
        # new versions are read first, because they may become present versions between the reads
        return [
            bins["f"]
            for bin_ in ("nl", "l")
            for bins in self._records.where(DOCUMENTS, bin_, number, "f")
        ]

    def scopes(self) -> Iterator[str]:
        for bins in self._records.scan(SCOPES, "n"):
            if self._records.has(DOCUMENTS, "z", _scope_number(bins["n"])):
                yield bins["n"]

    def _note_scopes(self, scopes: set[str]) -> None:
        """Records scopes that are new to this process, before their first document is written."""
        new = sorted(scopes - self._known_scopes)
        creations = (
            self._records.creation(
                SCOPES, _field(scope, ""), self._records.put({"n": scope}), self._never
            )
            for scope in new
        )
        self._records.run(creations, (EXISTS,))
        if len(self._known_scopes) > MOST_KNOWN_SCOPES:
            self._known_scopes.clear()
        self._known_scopes.update(new)

    def scan(self, scope: str | None = None, *, content: bool = True) -> Iterator[Entry]:
        if scope is None:
            records = self._records.scan(DOCUMENTS, "f", "r", "nr")
        else:
            records = self._records.where(DOCUMENTS, "z", _scope_number(scope), "f", "r", "nr")
        fields = {
            bins[name]: bins["f"] for bins in records for name in ("r", "nr") if bins.get(name)
        }
        del records
        for version in self._versions_in_order(fields):
            entry = _entry(version)
            if entry is not None and scope in (None, entry.scope):
                yield entry if content else without_content(entry)

    def _versions_in_order(self, fields: dict[int, str]) -> Iterator[Version]:
        """Yields the present versions of documents in the order of their numbers.

        Documents that are replaced meanwhile have got larger numbers, and come last.
        """
        refs = sorted(fields)
        replaced: list[str] = []
        for start in range(0, len(refs), AT_ONCE):
            portion = refs[start : start + AT_ONCE]
            seen = self._steps.visible([fields[ref] for ref in portion])
            for ref in portion:
                version = seen[fields[ref]]
                if version.ref == ref:
                    yield version
                elif version.ref not in fields:
                    replaced.append(fields[ref])
        yield from sorted(self._steps.visible(replaced).values())

    def times(self) -> list[float]:
        return self._records.times()

    def take_turn(self, work: str, holder: str, seconds: float) -> bool:
        name, operations = f"turn {work}", self._records.put({"h": holder})
        (turn,) = self._records.read(META, [name])
        if turn is None:
            write = self._records.creation(META, name, operations, self._never)
        elif turn.bins["h"] == holder:
            write = self._records.exchange(META, name, operations, self._never, turn.generation)
        else:
            older = self._records.older(seconds)
            write = self._records.exchange(
                META, name, operations, self._never, turn.generation, expressions=older
            )
        (answer,) = self._records.run([write], (EXISTS, GENERATION, NOT_FOUND, FILTERED))
        return answer.code == 0

    def events(self, after: None = None) -> Iterator[Event]:
        self._steps.repair()
        # lines of plans are read first, because they may be written to the log between the reads
        log_records = [*self._steps.promised(), *self._records.scan(EVENTS, "o", "i", "j")]
        lines = {(bins["o"], bins["i"]): bins["j"] for bins in log_records}
        yield from (Event.of_row(*json.loads(lines[place])) for place in sorted(lines))

    def log_lines(self, after: int, limit: int) -> LogPortion:
        self._steps.repair()
        log = self._steps.number_lines()
        first = max(after, log["d"])
        numbered = self._records.scan(EVENTS, "j", "n")
        texts = {bins["n"]: bins["j"] for bins in numbered if first < bins.get("n", 0) <= log["n"]}
        lines = [(n, Event.of_row(*json.loads(texts[n]))) for n in sorted(texts)[:limit]]
        return LogPortion(lines, log["d"], log["n"])

    def drop_lines(self, until: int) -> None:
        self._steps.drop_lines(until)

    def counts(self) -> dict[str, int]:
        self._steps.repair()
        records = self._records.scan(DOCUMENTS, "r", "l")
        there = [bins for bins in records if bins.get("r")]
        used = sum(self._records.used(kind) for kind in (DOCUMENTS, REFS, KIND, STEPS, EVENTS))
        counted = {"records": len(there), "leaders": sum(not bins.get("l") for bins in there)}
        return {**counted, **self._buckets.counts(), "bytes": used}

    def reserve(self, count: int) -> list[int]:
        if not count:
            return []
        last = self._records.count(META, "numbers", count)
        return list(range(last - count + 1, last + 1))

    def last_number(self) -> int:
        (numbers,) = self._records.read(META, ["numbers"])
        return 0 if numbers is None else int(numbers.bins["v"])

    def apply(self, changes: Changes) -> list[int]:
        until, attempt = time.monotonic() + WAIT, 0
        while True:
            try:
                return self._try_step(changes)
            except BusyError:
                if time.monotonic() > until:
                    raise
                pause(attempt)
                attempt += 1

    def _try_step(self, changes: Changes) -> list[int]:
        """Tries a step once.

        Each attempt has new numbers, because a previous one may still be undone.
        """
        *fresh, step = self.reserve(sum(not entry.ref for entry, _ in changes.new) + 1)
        rest = iter(fresh)
        numbers = [entry.ref or next(rest) for entry, _ in changes.new]
        touched = [*changes.present, *(entry for entry, _ in changes.new)]
        self._note_scopes({entry.scope for entry, _ in changes.new})
        held = self._steps.free([_field(entry.scope, entry.id) for entry in touched])
        self._check(changes, held)
        plan = self._plan_step(changes, numbers, held)
        self._steps.run(step, plan, lambda: self._check_conditions(changes, plan))
        return numbers

    def _check(self, changes: Changes, held: dict[str, LockedRecord]) -> None:
        going = {(entry.scope, entry.id) for entry, _ in changes.dropped}
        for entry, _ in changes.new:
            if held[_field(entry.scope, entry.id)].now.ref and (entry.scope, entry.id) not in going:
                raise RacedError("a document with this id exists already")
        for entry in changes.expected:
            if held[_field(entry.scope, entry.id)].now.leader != _leader_number(entry):
                raise RacedError(
                    "a document was resolved to another representative by another process"
                )
        for entry in changes.present:
            if held[_field(entry.scope, entry.id)].now.ref != entry.ref:
                raise RacedError("a document was deleted by another process")

    def _plan_step(
        self, changes: Changes, numbers: list[int], held: dict[str, LockedRecord]
    ) -> ChangePlan:
        """Returns the plan of a step."""
        plan = ChangePlan(held=held)
        for entry in (*changes.present, *(entry for entry, _ in changes.new)):
            plan.zones[_field(entry.scope, entry.id)] = _scope_number(entry.scope)
        # the order matters: a dropped id may be new again, and a changed document may move its
        # postings
        for entry in changes.present:
            plan.documents[_field(entry.scope, entry.id)] = held[_field(entry.scope, entry.id)].now
        for entry, _ in changes.dropped:
            plan.documents[_field(entry.scope, entry.id)] = NO_DOCUMENT
            plan.gone.append(entry.ref)
        for entry in changes.changed:
            self._keep(plan, entry, None)
        for entry, keys in (*changes.dropped, *changes.unposted):
            if keys is not None:
                plan.leaving.append(_span_of(keys, entry.ref))
        for (entry, keys), number in zip(changes.new, numbers, strict=True):
            stored = entry._replace(ref=number)
            self._keep(plan, stored, keys)
            plan.fresh.append(number)
            if keys is not None:
                plan.entering.append((stored.posting, keys, _field(entry.scope, entry.id)))
        for entry, keys in changes.posted:
            if keys is not None:
                self._keep(plan, entry, keys)
                plan.entering.append((entry.posting, keys, _field(entry.scope, entry.id)))
                plan.leaving += _others(keys, entry.posting)
        entering = [(word, keys) for word, keys in changes.postings_added]
        for ref, keys in changes.postings_removed:
            plan.leaving += _leaving_postings(ref, keys, entering)
        plan.entering += [(word, keys, "") for word, keys in entering]
        plan.events += [json.dumps(event.row) for event in changes.events]
        plan.resolves, plan.epoch = changes.invalidates_caches, changes.epoch
        return plan

    def _keep(self, plan: ChangePlan, entry: Entry, keys: np.ndarray | None) -> None:
        """Adds the new version of a document to a plan.

        A document that keeps its postings keeps its band keys, and their groups are renewed.
        """
        packed, name = pack_entry(entry), _field(entry.scope, entry.id)
        if len(packed) > self._most_bytes:
            raise UsageError(
                f"the document {entry.id[:60]!r} has {len(packed):,} bytes, and a record of "
                f"{self.url} holds "
                f"{self._most_bytes:,}; lower {name_setting('max_document')}, or "
                f"store no texts ({name_setting('store_text', value=False)})"
            )
        known = b""
        if self._keeps_keys and entry.posted:
            known = plan.held[name].now.keys if keys is None else keys.astype("<u8").tobytes()
            if keys is None:
                plan.renewed.append((entry.posting, np.frombuffer(known, "<u8")))
        if self._keeps_keys or not plan.held[name].now.ref or plan.held[name].now.ref != entry.ref:
            plan.numbered.append((entry.ref, name))
        plan.documents[name] = Version(entry.ref, packed, _leader_number(entry), known)

    def _check_conditions(self, changes: Changes, plan: ChangePlan) -> None:
        """Checks the conditions of a step while it holds its locks."""
        needed = {_field(entry.scope, entry.id): entry for entry in changes.required_leaders}
        records = self._steps.read_documents(list(needed))
        seen = self._steps.visible([name for name in needed if name not in plan.documents])
        for name, entry in needed.items():
            now = plan.held[name].now if name in plan.documents else seen[name]
            if now.ref != entry.ref or now.leader:
                raise RacedError("a representative was deleted by another process")
            then = records[name].then
            if (
                name not in plan.documents
                and records[name].step
                and (then.ref != entry.ref or then.leader)
            ):
                self._steps.free([name])
                raise BusyError("another step removes a representative; repeat the call")
        for standing in changes.leader_snapshots:
            self._check_members(standing, plan)

    def _check_members(self, standing: LeaderSnapshot, plan: ChangePlan) -> None:
        """Checks that the members of a representative are the ones that were read."""
        entry = standing.entry
        number, joined = _number(entry.scope, entry.id), self._member_fields(entry.scope, entry.id)
        records = self._steps.read_documents(
            [name for name in joined if name not in plan.documents]
        )
        seen = self._steps.visible(joined).values()
        now = _entry(plan.held[_field(entry.scope, entry.id)].now)
        standing.require_unchanged(
            now and now.leader,
            (version.ref for version in seen if version.ref and version.leader == number),
        )
        joining = [
            name for name, record in records.items() if record.step and record.then.leader == number
        ]
        if joining:
            self._steps.free(joining)
            raise BusyError(
                "a document is being resolved to a representative that this step removes; repeat "
                "the call"
            )

    @property
    def durability(self) -> str:
        return self._records.namespace.durability

    def close(self) -> None:
        self._records.close()


def _field(scope: str, name: str) -> str:
    """Returns the key of the record of a document."""
    return id_key(scope, name).hex()


def _number(scope: str, leader: str) -> int:
    """Returns a number that stands for a representative in a secondary index; never 0."""
    return int.from_bytes(id_key(scope, leader)[:8], "little") >> 1 | 1


def _leader_number(entry: Entry) -> int:
    """Returns the number that stands for a document's representative; 0 for a representative."""
    return 0 if entry.is_leader else _number(entry.scope, entry.leader)


def _scope_number(scope: str) -> int:
    """Returns a number that stands for a scope in a secondary index; never 0."""
    return _number(scope, "")


def _entry(version: Version) -> Entry | None:
    """Returns the entry of a version; None if it holds no document."""
    return unpack_entry(version.ref, version.packed) if version.ref else None


def _has_posting(version: Version, word: int) -> bool:
    """Returns whether a document has a posting of this form."""
    entry = _entry(version)
    return entry is not None and entry.posted and entry.posting == word


def _posting_range(ref: int) -> tuple[int, int]:
    """Returns the range of the possible postings of a document, without its end."""
    return ref << REF_SHIFT, (ref + 1) << REF_SHIFT


def _span_of(keys: np.ndarray, ref: int) -> Span:
    """Returns all possible postings of a document in the buckets of keys."""
    low, high = _posting_range(ref)
    return Span(keys, low, high)


def _others(keys: np.ndarray, word: int) -> list[Span]:
    """Returns the other possible postings of a document."""
    low, high = _posting_range(word >> REF_SHIFT)
    return [Span(keys, low, word), Span(keys, word + 1, high)]


def _leaving_postings(
    ref: int, keys: np.ndarray, entering: list[tuple[int, np.ndarray]]
) -> list[Span]:
    """Returns the postings of a document that a step removes, without those that it adds."""
    for word, come in entering:
        if word >> REF_SHIFT == ref:
            stays = np.isin(keys, come)
            return [_span_of(keys[~stays], ref), *_others(keys[stays], word)]
    return [_span_of(keys, ref)]
