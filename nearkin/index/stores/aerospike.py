"""`aerospike://host:port/namespace?set=name`: buckets in map CDTs, batches of operations, and steps that are atomic by a plan.

Aerospike writes one record atomically, and no more (transactions over several need a strongly consistent namespace of server 8;
this store does without). So a step of an index is made atomic like this:

1. A *plan* is written, in state pending: which documents the step changes, which postings come and go, and under which epoch
   of a move. That is looked at when the plan is there, and a move refuses the plans of other epochs: `aerospike_moves` says why
   no step is committed after a move that it does not know of.
2. Each of its documents is locked: beside what it is now, its record gets what it is to be and the number of the step. The
   generation must be the one that was read, or the record must be new; else somebody else was faster.
3. Postings go in (nobody sees those of a document that is not there), and number → document records.
4. What the step relies on is looked at *now*, behind its locks: needed representatives stand and nobody is removing them;
   nobody has joined a representative that goes. Of two steps in each other's way at least one sees the other, for each locks
   first and looks then.
5. One write turns the plan from pending to committed: from here on readers see all of it. Before it they see nothing, for a
   reader of a locked document asks for the state of its plan.
6. The generation rises, postings go out, the log is written, documents are unlocked as they are to be, the plan is deleted.

A step that fails before 5 is taken back: its postings leave, its documents are unlocked as they were. Whatever was cut off is
ended by the next process that changes one of its documents, opens the store or counts it, once the plan has not changed for 20
seconds of the *server's* clock (`SinceUpdateTime`), so no clocks are compared; a step that was thought dead cannot commit any
more, for its plan has another generation. What is done twice is as if it were done once. Only a step that changes the same
document waits for another. Documents of one step become visible together, but two look-ups are two, as everywhere.

*Native time to live* is a safety net for an index that nobody looks after, and no substitute for `expire`, which goes by the
index' clock, keeps what others are resolved to, and counts. The server drops records unseen and uncounted: a representative
four `record_ttl` after it was last written, another document two after (so it never outlives what it is resolved to), and a
group of buckets four `bucket_ttl` after a document in it was written. A hit writes the document and renews the groups of its
buckets. Where neither is set, records never expire, whatever the namespace's default is. A namespace takes times to live if its
`nsup-period` is above 0. The header, the counter and the log stay.

Buckets hold at most 20,000 postings, and a larger `bucket_capacity` is refused: of a bucket at most `max_candidates` documents
are compared, so splitting one over several records would only make it slower to read.
"""

import json
import time
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from nearkin.errors import RacedError, StoreError, UsageError
from nearkin.index.changes import Changes, Event, LeaderSnapshot
from nearkin.index.entry import REF_SHIFT, Entry, PostingPortion, Postings, without_content
from nearkin.index.migration.state import Move, StoreState
from nearkin.index.stores.aerospike_buckets import KIND, Buckets, Span, bits_for
from nearkin.index.stores.aerospike_moves import META, Moves
from nearkin.index.stores.aerospike_records import EXISTS, FILTERED, GENERATION, NOT_FOUND, Records
from nearkin.index.stores.aerospike_steps import (
    DOCUMENTS,
    EVENTS,
    NO_RESOURCES,
    REFS,
    STEPS,
    WAIT,
    BusyError,
    Held,
    Plan,
    Steps,
    Version,
    pause,
)
from nearkin.index.stores.packing import id_key, pack_entry, unpack_entry

POSTING_SHARE = 52
"""Bytes of a record's limit for each posting that a bucket may hold: 20,000 in a record of 1 MiB."""
DOCUMENT_SHARE = 0.457
"""Share of a record's limit that a document may take: while it is changed, its record holds it twice."""
AT_ONCE = 1000
SCOPES = "scopes"
"""Records of the names of scopes; they stay when a scope has no documents any more."""
MOST_KNOWN_SCOPES = 100_000
"""Scopes that a process remembers to have written down."""
LEADER_LIVES, MEMBER_LIVES = 4, 2
"""Times to live after which the server drops what `expire` did not."""


class AerospikeStore:
    """An index in Aerospike 6 or newer.

    Args:
        records: Of the namespace.
        most: Postings of a bucket.
        expected: Postings that there will be, about: into how many groups they are dealt out.
        record_ttl: Seconds that a document is kept after it was last seen; None for ever.
        bucket_ttl: Seconds that a posting is kept after it was last used; None for ever.
    """

    def __init__(
        self, records: Records, most: int, expected: int, record_ttl: float | None = None, bucket_ttl: float | None = None
    ) -> None:
        largest = records.namespace.record_size // POSTING_SHARE
        if most > largest:
            raise UsageError(
                f"bucket_capacity={most:,} is more than a record of {records.url} has room for; give at most {largest:,}"
            )
        if record_ttl is not None or bucket_ttl is not None:
            records.namespace.require_expiry()
        self._most_bytes = int(DOCUMENT_SHARE * records.namespace.record_size)
        self._records = records
        self._keeps_keys = record_ttl is not None or bucket_ttl is not None
        lives = [None if record_ttl is None else times * record_ttl for times in (LEADER_LIVES, MEMBER_LIVES)]
        grouped = bucket_ttl or record_ttl
        self._never = records.life(None)
        bits = self._agreed("bits", bits_for(expected))
        self._buckets = Buckets(records, bits, most, records.life(grouped and LEADER_LIVES * grouped))
        self._moves = Moves(records)
        self._steps = Steps(records, self._buckets, self._moves, (records.life(lives[0]), records.life(lives[1])), _stands)
        self._known_scopes: set[str] = set()
        for bin_ in ("l", "nl", "z"):
            records.index(DOCUMENTS, bin_)
        self._steps.repair()

    @property
    def url(self) -> str:
        """Where it is, without a password."""
        return self._records.url

    def _agreed(self, name: str, value: Any) -> Any:
        """KeyedEntry down if nobody did before; what is written down."""
        self._records.run([self._records.creation(META, name, self._records.put({"v": value}), self._never)], (EXISTS,))
        found = self._records.read(META, [name])[0]
        if found is None:
            raise StoreError(f"{self.url}: what was written a moment ago is not there; try again")
        return found.bins["v"]

    def claim(self, header: dict[str, Any]) -> dict[str, Any]:
        held: dict[str, Any] = json.loads(self._agreed("header", json.dumps(header, sort_keys=True)))
        return held

    def protect(self) -> None:
        self._agreed("protected", 1)

    def is_protected(self) -> bool:
        return self._records.read(META, ["protected"])[0] is not None

    def state(self) -> StoreState:
        return self._moves.state(self._steps.refuse)

    def redirect(self, move: Move) -> None:
        self._moves.redirect(move, self._steps.refuse)

    # -- reading

    def entries(self, scope: str, ids: Sequence[str]) -> list[Entry | None]:
        fields = [_field(scope, name) for name in ids]
        seen = self._steps.visible(fields)
        return [_entry(seen[name]) for name in fields]

    def by_refs(self, refs: Sequence[int]) -> list[Entry | None]:
        pointers = self._records.read(REFS, list(refs))
        fields = ["" if found is None else found.bins["f"] for found in pointers]
        seen = {"": NO_RESOURCES, **self._steps.visible([name for name in fields if name])}
        versions = [seen[name] for name in fields]
        return [_entry(version) if version.ref == ref else None for ref, version in zip(refs, versions, strict=True)]

    def postings(self, keys: np.ndarray) -> Postings:
        return self._buckets.look_up(keys)

    def members(self, scope: str, leader: str, limit: int | None = None) -> list[Entry]:
        return self._members(scope, leader, limit)[:limit]

    def member_page(self, scope: str, leader: str, after: int, skip: int, limit: int) -> list[Entry]:
        found = [without_content(entry) for entry in self._members(scope, leader) if entry.ref > after]
        return found[skip : skip + limit]

    def member_count(self, scope: str, leader: str) -> int:
        return len(self._members(scope, leader))

    def _members(self, scope: str, leader: str, limit: int | None = None) -> list[Entry]:
        """Returns members by number. Of more than AT_ONCE, no more records than a limit needs are read, whichever they are."""
        fields = list(dict.fromkeys(self._joined(scope, leader)))
        found: list[Entry] = []
        for start in range(0, len(fields), AT_ONCE):
            seen = (_entry(version) for version in self._steps.visible(fields[start : start + AT_ONCE]).values())
            there = (entry for entry in seen if entry is not None and not entry.is_leader)
            found += [entry for entry in there if (entry.scope, entry.leader) == (scope, leader)]
            if limit is not None and len(found) >= limit:
                break
        return sorted(found, key=lambda entry: entry.ref)

    def _joined(self, scope: str, leader: str) -> list[str]:
        """Documents that are resolved to a representative, or are about to be or not to be."""
        number = _number(scope, leader)
        # those that are about to be come first: by the second look they may have become so
        return [bins["f"] for bin_ in ("nl", "l") for bins in self._records.where(DOCUMENTS, bin_, number, "f")]

    def scopes(self) -> Iterator[str]:
        for bins in self._records.scan(SCOPES, "n"):
            if self._records.has(DOCUMENTS, "z", _zone(bins["n"])):
                yield bins["n"]

    def _note_scopes(self, scopes: set[str]) -> None:
        """Writes down scopes that this process has not seen yet, before their first document is there."""
        new = sorted(scopes - self._known_scopes)
        creations = (
            self._records.creation(SCOPES, _field(scope, ""), self._records.put({"n": scope}), self._never) for scope in new
        )
        self._records.run(creations, (EXISTS,))
        if len(self._known_scopes) > MOST_KNOWN_SCOPES:
            self._known_scopes.clear()
        self._known_scopes.update(new)

    def scan(self, scope: str | None = None, *, content: bool = True) -> Iterator[Entry]:
        if scope is None:
            held = self._records.scan(DOCUMENTS, "r", "nr")
        else:
            held = self._records.where(DOCUMENTS, "z", _zone(scope), "r", "nr")
        refs = sorted({bins[name] for bins in held for name in ("r", "nr") if bins.get(name)})
        for start in range(0, len(refs), AT_ONCE):
            for entry in self.by_refs(refs[start : start + AT_ONCE]):
                if entry is not None and scope in (None, entry.scope):
                    yield entry if content else without_content(entry)

    def due(self, before: float, posted: bool) -> Iterator[Entry]:
        there = self.scan(content=False)
        found = [entry for entry in there if entry.seen < before and (entry.posted or not posted)]
        yield from sorted(found, key=lambda entry: (entry.seen, entry.ref))

    def posting_portion(self, place: Any, most: int) -> PostingPortion:
        # a step is a plan that any process ends, so it leaves no strays
        return PostingPortion(np.empty(0, np.uint64), np.empty(0, np.int64), None)

    def times(self) -> list[float]:
        return self._records.times()

    def median_seen(self) -> float | None:
        return None

    def take_turn(self, work: str, holder: str, seconds: float) -> bool:
        name, operations = f"turn {work}", self._records.put({"h": holder})
        (held,) = self._records.read(META, [name])
        if held is None:
            write = self._records.creation(META, name, operations, self._never)
        elif held.bins["h"] == holder:
            write = self._records.exchange(META, name, operations, self._never, held.generation)
        else:
            older = self._records.older(seconds)
            write = self._records.exchange(META, name, operations, self._never, held.generation, expressions=older)
        (answer,) = self._records.run([write], (EXISTS, GENERATION, NOT_FOUND, FILTERED))
        return answer.code == 0

    def log_end(self) -> None:
        """The log is read as a whole."""

    def events(self, after: None = None) -> Iterator[Event]:
        self._steps.repair()
        # those of steps that are just being completed first: by the second look they may be in the log
        found = [*self._steps.promised(), *self._records.scan(EVENTS, "o", "i", "j")]
        lines = {(bins["o"], bins["i"]): bins["j"] for bins in found}
        yield from (Event(*json.loads(lines[place])) for place in sorted(lines))

    def counts(self) -> dict[str, int]:
        self._steps.repair()
        held = self._records.scan(DOCUMENTS, "r", "l")
        there = [bins for bins in held if bins.get("r")]
        used = sum(self._records.used(kind) for kind in (DOCUMENTS, REFS, KIND, STEPS, EVENTS))
        counted = {"records": len(there), "leaders": sum(not bins.get("l") for bins in there)}
        return {**counted, **self._buckets.counts(), "bytes": used}

    # -- writing

    def reserve(self, count: int) -> list[int]:
        if not count:
            return []
        operations = self._records.library.operations
        adding = [operations.increment("v", count), operations.read("v")]
        (answer,) = self._records.run([self._records.change(META, "numbers", adding, self._never)])
        last = answer.bins["v"]
        return list(range(last - count + 1, last + 1))

    def apply(self, changes: Changes) -> list[int]:
        until, attempt = time.monotonic() + WAIT, 0
        while True:
            try:
                return self._try(changes)
            except BusyError:
                if time.monotonic() > until:
                    raise
                pause(attempt)
                attempt += 1

    def _try(self, changes: Changes) -> list[int]:
        """With numbers of its own each time: somebody may still be busy taking back what the last try left."""
        *fresh, step = self.reserve(sum(not entry.ref for entry, _ in changes.new) + 1)
        rest = iter(fresh)
        numbers = [entry.ref or next(rest) for entry, _ in changes.new]
        touched = [*changes.present, *(entry for entry, _ in changes.new)]
        self._note_scopes({entry.scope for entry, _ in changes.new})
        held = self._steps.free([_field(entry.scope, entry.id) for entry in touched])
        self._check(changes, held)
        plan = self._planned(changes, numbers, held)
        self._steps.run(step, plan, lambda: self._make_sure(changes, plan))
        return numbers

    def _check(self, changes: Changes, held: dict[str, Held]) -> None:
        going = {(entry.scope, entry.id) for entry, _ in changes.dropped}
        for entry, _ in changes.new:
            if held[_field(entry.scope, entry.id)].now.ref and (entry.scope, entry.id) not in going:
                raise RacedError("a document is there already")
        for entry in changes.expected:
            if held[_field(entry.scope, entry.id)].now.leader != _number(entry.scope, entry.leader):
                raise RacedError("a document has been resolved to another one meanwhile")
        for entry in changes.present:
            if held[_field(entry.scope, entry.id)].now.ref != entry.ref:
                raise RacedError("a document is not there any more")

    def _planned(self, changes: Changes, numbers: list[int], held: dict[str, Held]) -> Plan:
        """What every record is to be; postings only by what they change."""
        plan = Plan(held=held)
        for entry in (*changes.present, *(entry for entry, _ in changes.new)):
            plan.zones[_field(entry.scope, entry.id)] = _zone(entry.scope)
        # in this order: a document that goes may come again, one that changes may change its buckets, too
        for entry in changes.present:
            plan.documents[_field(entry.scope, entry.id)] = held[_field(entry.scope, entry.id)].now
        for entry, _ in changes.dropped:
            plan.documents[_field(entry.scope, entry.id)] = NO_RESOURCES
            plan.gone.append(entry.ref)
        for entry in changes.changed:
            self._keep(plan, entry, None)
        for entry, keys in (*changes.dropped, *changes.unposted):
            if keys is not None:
                plan.leaving.append(Span(keys, *_words_of(entry.ref)))
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
            plan.leaving += _leaving(ref, keys, entering)
        plan.entering += [(word, keys, "") for word, keys in entering]
        plan.events += [json.dumps(event) for event in changes.events]
        plan.resolves, plan.epoch = changes.invalidates_caches, changes.epoch
        return plan

    def _keep(self, plan: Plan, entry: Entry, keys: np.ndarray | None) -> None:
        """A document as it is to be; one that stays where it stands keeps its keys, whose groups are renewed."""
        packed, name = pack_entry(entry), _field(entry.scope, entry.id)
        if len(packed) > self._most_bytes:
            raise UsageError(
                f"the document {entry.id[:60]!r} takes {len(packed):,} bytes, more than the {self._most_bytes:,} that a record "
                f"of {self.url} has room for; lower max_document, or keep no texts (store_text=False)"
            )
        known = b""
        if self._keeps_keys and entry.posted:
            known = plan.held[name].now.keys if keys is None else keys.astype("<u8").tobytes()
            if keys is None:
                plan.renewed.append((entry.posting, np.frombuffer(known, "<u8")))
        if self._keeps_keys or not plan.held[name].now.ref or plan.held[name].now.ref != entry.ref:
            plan.numbered.append((entry.ref, name))
        leader = 0 if entry.is_leader else _number(entry.scope, entry.leader)
        plan.documents[name] = Version(entry.ref, packed, leader, known)

    def _make_sure(self, changes: Changes, plan: Plan) -> None:
        """What a step relies on, looked at behind its locks."""
        needed = {_field(entry.scope, entry.id): entry for entry in changes.required_leaders}
        held = self._steps.held(list(needed))
        seen = self._steps.visible([name for name in needed if name not in plan.documents])
        for name, entry in needed.items():
            now = plan.held[name].now if name in plan.documents else seen[name]
            if now.ref != entry.ref or now.leader:
                raise RacedError("a representative is not there any more")
            then = held[name].then
            if name not in plan.documents and held[name].step and (then.ref != entry.ref or then.leader):
                self._steps.free([name])
                raise BusyError("another step removes a representative; try again")
        for standing in changes.leader_snapshots:
            self._make_sure_it_stands(standing, plan)

    def _make_sure_it_stands(self, standing: LeaderSnapshot, plan: Plan) -> None:
        entry = standing.entry
        number, joined = _number(entry.scope, entry.id), self._joined(entry.scope, entry.id)
        held = self._steps.held([name for name in joined if name not in plan.documents])
        seen = self._steps.visible(joined).values()
        now = _entry(plan.held[_field(entry.scope, entry.id)].now)
        standing.require_unchanged(
            now and now.leader, (version.ref for version in seen if version.ref and version.leader == number)
        )
        joining = [name for name, one in held.items() if one.step and one.then.leader == number]
        if joining:
            self._steps.free(joining)
            raise BusyError("another document is being resolved to a representative that is removed; try again")

    @property
    def durability(self) -> str:
        return self._records.namespace.durability

    def close(self) -> None:
        self._records.close()


def _field(scope: str, name: str) -> str:
    """The key of a document's record."""
    return id_key(scope, name).hex()


def _number(scope: str, leader: str) -> int:
    """Stands for a representative's id where an index of numbers is asked for it; never 0."""
    return int.from_bytes(id_key(scope, leader)[:8], "little") >> 1 | 1


def _zone(scope: str) -> int:
    """Returns a number that stands for a scope where an index of numbers is asked for it; never 0."""
    return _number(scope, "")


def _entry(version: Version) -> Entry | None:
    return unpack_entry(version.ref, version.packed) if version.ref else None


def _stands(version: Version, word: int) -> bool:
    entry = _entry(version)
    return entry is not None and entry.posted and entry.posting == word


def _words_of(ref: int) -> tuple[int, int]:
    """Whatever a document stands in buckets as: from, to before."""
    return ref << REF_SHIFT, (ref + 1) << REF_SHIFT


def _others(keys: np.ndarray, word: int) -> list[Span]:
    """What else a document may stand in buckets as."""
    low, high = _words_of(word >> REF_SHIFT)
    return [Span(keys, low, word), Span(keys, word + 1, high)]


def _leaving(ref: int, keys: np.ndarray, entering: list[tuple[int, np.ndarray]]) -> list[Span]:
    """A document leaves, but for what it enters as by the same step."""
    for word, come in entering:
        if word >> REF_SHIFT == ref:
            stays = np.isin(keys, come)
            return [Span(keys[~stays], *_words_of(ref)), *_others(keys[stays], word)]
    return [Span(keys, *_words_of(ref))]
