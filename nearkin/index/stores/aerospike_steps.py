"""Steps over many records of Aerospike, each of which alone is atomic: the protocol is described in `aerospike`."""

import random
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from nearkin.errors import OutcomeUnknownError, RacedError, StoreError
from nearkin.index.stores.aerospike_buckets import Buckets, Span
from nearkin.index.stores.aerospike_moves import FINISHED, META, Moves
from nearkin.index.stores.aerospike_records import EXISTS, FILTERED, GENERATION, NOT_FOUND, Records

DOCUMENTS, REFS, STEPS, EVENTS = "documents", "refs", "steps", "events"
PENDING, COMMITTED, ABORTED, DONE, VANISHED = 1, 2, 3, 4, 5
"""States of a plan. VANISHED is never written: another process has ended the step and deleted its plan.

One that is done says in `d` how it ended, where the server would bring a deleted plan back."""
LEASE = 20.0
"""Seconds of the server's clock without a sign of life after which a step is taken over."""
WAIT = 60.0
"""Seconds that a step waits for others in its way."""
PART = 0.38
"""Share of a record's limit that a part of a plan fills."""
PURGED = 500
"""Steps of this process after which plans that are done are deleted."""
ROUNDS = 50


Parts = list[list[list[Any]]]
"""A plan in pieces."""


class BusyError(RacedError):
    """Another step holds a document; it will be done soon, or taken over."""


class Version(NamedTuple):
    """A document as it is, or is to be."""

    ref: int
    """0 where there is none."""
    packed: bytes
    leader: int
    """Number that stands for the representative's id; 0 for a representative."""
    keys: bytes
    """Of its postings, where their groups have a time to live that a hit renews."""

    def bins(self, prefix: str = "") -> dict[str, Any]:
        """As a record has it; bins without a value are left out."""
        named = {"r": self.ref, "e": self.packed, "l": self.leader, "k": self.keys}
        return {prefix + name: value for name, value in named.items() if value or name == "r"}

    @classmethod
    def of(cls, bins: dict[str, Any], prefix: str = "") -> "Version":
        """Back."""
        packed, keys = bytes(bins.get(prefix + "e", b"")), bytes(bins.get(prefix + "k", b""))
        return cls(bins.get(prefix + "r", 0), packed, bins.get(prefix + "l", 0), keys)


class Held(NamedTuple):
    """A document's record: as it is, and as a step that holds it would have it."""

    generation: int
    """0 where there is no record."""
    step: int
    now: Version
    then: Version
    zone: int = 0
    """Number that stands for the scope; 0 if the record holds no document."""


NO_RESOURCES = Version(0, b"", 0, b"")
ABSENT = Held(0, 0, NO_RESOURCES, NO_RESOURCES)


@dataclass
class Plan:
    """The changes that a step makes.

    Attributes:
        documents: By field: as each is to be.
        held: The same, as they were read.
        zones: By field: the number that stands for the document's scope.
        entering: (word, keys, field of the document or "") of postings.
        leaving: Postings that go.
        numbered: (number, field) of documents that are new or renewed.
        fresh: Numbers among these that are new.
        gone: Numbers of documents that go.
        events: As JSON.
        renewed: (word, keys) of postings that are there, whose groups get their whole time to live again.
        resolves: Whether the generation rises.
        epoch: That the step was made under; None for any.
    """

    documents: dict[str, Version] = field(default_factory=dict)
    held: dict[str, Held] = field(default_factory=dict)
    zones: dict[str, int] = field(default_factory=dict)
    entering: list[tuple[int, np.ndarray, str]] = field(default_factory=list)
    leaving: list[Span] = field(default_factory=list)
    numbered: list[tuple[int, str]] = field(default_factory=list)
    fresh: list[int] = field(default_factory=list)
    gone: list[int] = field(default_factory=list)
    events: list[str] = field(default_factory=list)
    renewed: list[tuple[int, np.ndarray]] = field(default_factory=list)
    resolves: bool = False
    epoch: int | None = None

    def items(self) -> Iterable[list[Any]]:
        """What another process needs to complete the step or to take it back."""
        yield from (["document", name] for name in self.documents)
        yield from (["enter", word, keys.astype("<u8").tobytes(), name] for word, keys, name in self.entering)
        yield from (["leave", low, high, keys.astype("<u8").tobytes()] for keys, low, high in self.leaving)
        yield from (["fresh", ref] for ref in self.fresh)
        yield from (["gone", ref] for ref in self.gone)
        yield from (["event", text] for text in self.events)
        yield from (["resolves"] for _ in range(self.resolves))

    def parts(self, most: int) -> Parts:
        """Returns the items in pieces of at most so many bytes, about; at least one piece."""
        parts: Parts = [[]]
        size = 0
        for item in self.items():
            cost = sum(len(value) if isinstance(value, (bytes, str)) else 9 for value in item) + 8
            if size + cost > most and parts[-1]:
                parts.append([])
                size = 0
            parts[-1].append(item)
            size += cost
        return parts


class Steps:
    """Runs steps, takes over those that were cut off, and reads documents as the steps' states have them.

    Args:
        records: Of the store.
        buckets: Of the store.
        moves: Of the store.
        lives: (of a representative's record, of another document's), as records carry it.
        stands: Whether a document stands in buckets as this word.
    """

    def __init__(
        self,
        records: Records,
        buckets: Buckets,
        moves: Moves,
        lives: tuple[int, int],
        stands: Callable[[Version, int], bool],
    ) -> None:
        self._records, self._buckets, self._moves, self._lives, self._stands = records, buckets, moves, lives, stands
        self._never = records.life(None)
        self._left: set[int] = set()
        """Steps of this process that it could not end."""
        self._part_bytes = int(PART * records.namespace.record_size)
        self._flushed = max(LEASE, 2 * records.namespace.flush_seconds)
        self._until_purge = PURGED

    # -- reading

    def held(self, fields: Sequence[str]) -> dict[str, Held]:
        """Documents' records."""
        names = list(dict.fromkeys(fields))
        return {name: _held(found) for name, found in zip(names, self._records.read(DOCUMENTS, names), strict=True)}

    def visible(self, fields: Sequence[str]) -> dict[str, Version]:
        """Documents as they are now: of one that a step holds, the step's state says which version that is."""
        seen: dict[str, Version] = {}
        lost: set[tuple[str, int]] = set()
        asked = list(dict.fromkeys(fields))
        for _ in range(ROUNDS):
            held = self.held(asked)
            states = self._states({one.step for one in held.values() if one.step})
            asked = []
            for name, one in held.items():
                if one.step and states[one.step] is None and (name, one.step) not in lost:
                    # ended between the two looks: the next one finds the document settled
                    lost.add((name, one.step))
                    asked.append(name)
                else:
                    seen[name] = one.then if one.step and states[one.step] == COMMITTED else one.now
            if not asked:
                return seen
        raise StoreError(f"{self._records.url}: a document changes faster than it can be read; try again")

    def _states(self, steps: Iterable[int]) -> dict[int, int | None]:
        names = sorted(steps)
        found = self._records.read(STEPS, names) if names else []
        return {name: None if one is None else _state(one.bins) for name, one in zip(names, found, strict=True)}

    def free(self, fields: Sequence[str]) -> dict[str, Held]:
        """Documents' records that no step holds; those that were cut off are ended.

        Raises:
            BusyError: A step that is under way holds one.
        """
        held = self.held(fields)
        for step in {one.step for one in held.values() if one.step}:
            state = self.end(step, step in self._left)
            if not state:
                raise BusyError(f"{self._records.url}: a document is being changed by another step; try again")
            # a lock that came after its step had been taken back, or whose release a killed server lost
            locked = [name for name, one in held.items() if one.step == step]
            self._settle(step, locked, committed=state == COMMITTED)
        return self.held(fields) if any(one.step for one in held.values()) else held

    # -- running

    def run(self, step: int, plan: Plan, sure: Callable[[], None]) -> None:
        """Does a step: everything becomes visible with one write, or nothing does.

        Args:
            step: Its number, used by no other.
            plan: What it does.
            sure: Raises RacedError if what the step relies on does not hold, now that it holds its documents.
        """
        parts = plan.parts(self._part_bytes)
        crowded: list[int] = []
        may_be_committed = False
        try:
            self._begin(step, parts, plan.epoch)
            self._moves.look(plan.epoch, step)
            if plan.documents:
                self._lock(step, plan)
                crowded = self._enter(plan)
                sure()
                may_be_committed = True
                self._commit(step)
            else:
                # postings of documents that are elsewhere have no moment at which they become visible: the plan is the promise
                may_be_committed = True
                self._commit(step)
                crowded = self._enter(plan)
        except StoreError as error:
            state = self._try_to_end(step, parts)
            if may_be_committed and state in (0, VANISHED) and not isinstance(error, RacedError):
                raise OutcomeUnknownError(
                    f"{self._records.url}: the answer to the write that commits a step was lost, and whether it was done "
                    f"cannot be found out ({error}); the call may be repeated safely"
                ) from error
            if state != COMMITTED:
                raise
        else:
            self._try_to_complete(step, parts)
        try:
            self._buckets.trim(crowded)
            self._purge_if_due()
        except StoreError:
            # the step is done; what is too full, or done, is looked at again with the next one
            return

    def _begin(self, step: int, parts: Parts, epoch: int | None) -> None:
        bins = {"q": step, "t": PENDING, "c": len(parts), "p": parts[0], **({} if epoch is None else {"m": epoch})}
        self._records.run([self._records.creation(STEPS, step, self._records.put(bins), self._never)])
        self._records.run(
            self._records.creation(STEPS, _part_name(step, at), self._records.put({"p": part, "w": step, "a": at}), self._never)
            for at, part in enumerate(parts[1:], 1)
        )

    def _lock(self, step: int, plan: Plan) -> None:
        writes = []
        for name, version in plan.documents.items():
            bins = self._records.put({"f": name, "z": plan.zones[name], "s": step, **version.bins("n")})
            held, ttl = plan.held[name], self._life(version)
            if held.generation:
                writes.append(self._records.exchange(DOCUMENTS, name, bins, ttl, held.generation))
            else:
                writes.append(self._records.creation(DOCUMENTS, name, bins, ttl))
        answers = self._records.run(writes, (EXISTS, GENERATION, NOT_FOUND))
        if any(answer.code for answer in answers):
            raise BusyError(f"{self._records.url}: a document was changed by another step meanwhile; try again")

    def _life(self, version: Version) -> int:
        return self._lives[bool(version.leader)]

    def _enter(self, plan: Plan) -> list[int]:
        """What nobody sees before the documents it is of; returns groups that may be too full."""
        life, put = self._lives[0], self._records.put
        self._records.run(self._records.change(REFS, ref, put({"f": name}), life) for ref, name in plan.numbered)
        # a group may have expired while a document in it was alive, so its postings are put again, which renews the group
        return self._buckets.put([*plan.renewed, *((word, keys) for word, keys, _ in plan.entering)])

    def _commit(self, step: int) -> None:
        operations = self._records.put({"t": COMMITTED})
        (answer,) = self._records.run(
            [self._records.exchange(STEPS, step, operations, self._never, 1)], (GENERATION, NOT_FOUND)
        )
        if answer.code:
            why = f"it took longer than {LEASE:g} s, or the index moved"
            raise BusyError(f"{self._records.url}: the step was taken back by another process: {why}")

    # -- ending

    def _try_to_end(self, step: int, parts: Parts) -> int:
        """After a failure: takes the step back, unless its last write went through although it was reported lost."""
        try:
            return self.end(step, mine=True, parts=parts)
        except StoreError:
            self._left.add(step)
            return 0

    def _try_to_complete(self, step: int, parts: Parts) -> None:
        """A step that is committed is done, whoever tidies up behind it."""
        try:
            self._carry_out(step, parts, COMMITTED)
        except StoreError:
            self._left.add(step)

    def end(self, step: int, mine: bool, parts: Parts | None = None) -> int:
        """Completes a step that is committed, and undoes one that is not.

        Args:
            step: Its number.
            mine: Of this process; another one's must have shown no sign of life for LEASE.
            parts: Its plan, where that is known.

        Returns:
            How it ended; 0 if it is under way; VANISHED if nothing is known of it any more.
        """
        while (found := self._records.read(STEPS, [step])[0]) is not None:
            if found.bins["t"] == DONE:
                self._left.discard(step)
                return _state(found.bins)
            state = COMMITTED if found.bins["t"] == COMMITTED else ABORTED
            more: dict[str, Any] = {} if mine else {"expressions": self._records.older(LEASE)}
            operations = self._records.put({"t": state})
            claim = self._records.exchange(STEPS, step, operations, self._never, found.generation, **more)
            (answer,) = self._records.run([claim], (GENERATION, NOT_FOUND, FILTERED))
            if answer.code == FILTERED:
                return 0
            if answer.code == 0:
                self._carry_out(step, parts or self._parts(step, found.bins), state)
                return state
        if parts is not None:
            # taken back by another process, which cannot know what was done after that
            self._carry_out(step, parts, ABORTED)
        self._left.discard(step)
        return VANISHED

    def _parts(self, step: int, header: dict[str, Any]) -> Parts:
        """Of a step that was cut off: before the last one was written nothing else was."""
        others = self._records.read(STEPS, _part_names(step, header["c"]))
        return [header["p"], *(found.bins["p"] if found is not None else [] for found in others)]

    def _carry_out(self, step: int, parts: Parts, state: int) -> None:
        """All of it can be done twice; the documents come last, for nobody else changes them before, and then the plan."""
        items: dict[str, list[list[Any]]] = {}
        for kind, *values in (item for part in parts for item in part):
            items.setdefault(kind, []).append(values)
        fields = [name for (name,) in items.get("document", [])]
        if state == COMMITTED:
            if "resolves" in items:
                # not before: who heard of it earlier would remember again what is about to become untrue
                self._records.run([self._moves.count()])
            self._complete(step, items, again=not fields)
        elif fields:
            self._take_back(items)
        self._settle(step, fields, state == COMMITTED)
        self._finish(step, len(parts), state)
        self._left.discard(step)

    def _finish(self, step: int, parts: int, state: int) -> None:
        """Deletes a plan, or where the server would bring it back marks it as done, until `purge`."""
        removals = (self._records.removal(STEPS, name) for name in _part_names(step, parts))
        self._records.run(removals, (NOT_FOUND,))
        if self._records.keeps_deletions:
            self._records.run([self._records.removal(STEPS, step)], (NOT_FOUND,))
        else:
            done = {"q": step, "t": DONE, "d": state}
            self._records.run([self._records.overwriting(STEPS, step, done, self._never)], (NOT_FOUND,))

    def _complete(self, step: int, items: dict[str, list[list[Any]]], again: bool) -> None:
        if again:
            self._buckets.put((word, _keys(packed)) for word, packed, _ in items.get("enter", []))
        self._buckets.remove(Span(_keys(packed), low, high) for low, high, packed in items.get("leave", []))
        self._records.run((self._records.removal(REFS, ref) for (ref,) in items.get("gone", [])), (NOT_FOUND,))
        events = (
            self._records.creation(EVENTS, f"{step}/{at}", self._records.put({"o": step, "i": at, "j": text}), self._never)
            for at, (text,) in enumerate(items.get("event", []))
        )
        self._records.run(events, (EXISTS,))

    def _take_back(self, items: dict[str, list[list[Any]]]) -> None:
        entered = items.get("enter", [])
        held = self.held([name for _, _, name in entered if name])
        spans = [
            Span(_keys(packed), word, word + 1)
            for word, packed, name in entered
            if not name or not self._stands(held[name].now, word)
        ]
        self._buckets.remove(spans)
        self._records.run((self._records.removal(REFS, ref) for (ref,) in items.get("fresh", [])), (NOT_FOUND,))

    def _settle(self, step: int, fields: Sequence[str], committed: bool) -> None:
        """Documents that a step holds are what they are to be, or what they were."""
        writes = []
        for name, one in self.held(fields).items():
            if one.step != step:
                continue
            version = one.then if committed else one.now
            if version.ref:
                life = self._life(version)
                bins = {"f": name, "z": one.zone, **version.bins()}
                writes.append(self._records.replacement(DOCUMENTS, name, bins, life, one.generation))
            elif not self._records.keeps_deletions:
                # a deleted record would come back with the document in it; this one says that there is none
                bins = {"f": name, "r": 0}
                writes.append(self._records.replacement(DOCUMENTS, name, bins, self._never, one.generation))
            else:
                writes.append(self._records.removal(DOCUMENTS, name, one.generation))
        self._records.run(writes, (GENERATION, NOT_FOUND))

    # -- plans that are done

    def _purge_if_due(self) -> None:
        self._until_purge -= 1
        if self._until_purge <= 0:
            self._until_purge = PURGED
            self.purge()

    def purge(self) -> None:
        """Deletes the plans that are done, where they had to be kept.

        A deleted plan comes back when the server starts again, and must not be carried out then. So before plans are deleted, a
        record says below which number every step has ended. That number is first announced: a step whose plan is written later
        finds the announcement and takes a new number, and a plan that was written before is found by the second look.
        """
        if self._records.keeps_deletions:
            return
        old = {bins["q"] for bins in self._records.scan_older(STEPS, self._flushed, "q", "t") if bins.get("t") == DONE}
        if not old:
            return
        wanted = min([max(old) + 1, *(number for number in self._numbers() if number not in old)])
        self._raise_finished({"n": wanted})
        reached = min([wanted, *(number for number in self._numbers() if number not in old)])
        self._raise_finished({"v": reached})
        self._records.run((self._records.removal(STEPS, step) for step in sorted(old) if step < reached), (NOT_FOUND,))

    def _numbers(self) -> list[int]:
        return [bins["q"] for bins in self._records.scan(STEPS, "q") if "q" in bins]

    def _raise_finished(self, bins: dict[str, int]) -> None:
        """Writes a number, unless a larger one is there."""
        while True:
            (held,) = self._records.read(META, [FINISHED])
            if held is None:
                write = self._records.creation(META, FINISHED, self._records.put(bins), self._never)
            elif any(held.bins.get(name, 0) < value for name, value in bins.items()):
                write = self._records.exchange(META, FINISHED, self._records.put(bins), self._never, held.generation)
            else:
                return
            (answer,) = self._records.run([write], (EXISTS, GENERATION, NOT_FOUND))
            if answer.code == 0:
                return

    def _finished(self) -> int:
        """The number below which every step has ended; 0 where plans that are done are deleted at once."""
        (held,) = [None] if self._records.keeps_deletions else self._records.read(META, [FINISHED])
        return 0 if held is None else int(held.bins.get("v", 0))

    def refuse(self, epoch: int) -> None:
        """No step that is under way, and was made under another epoch, can commit any more; who runs it takes it back."""
        for bins in self._records.scan(STEPS, "q", "m"):
            if "q" in bins and bins.get("m", epoch) != epoch:
                self._refuse(bins["q"])

    def _refuse(self, step: int) -> None:
        while (found := self._records.read(STEPS, [step])[0]) is not None and found.bins["t"] == PENDING:
            claim = self._records.exchange(STEPS, step, self._records.put({"t": ABORTED}), self._never, found.generation)
            self._records.run([claim], (GENERATION, NOT_FOUND))

    def promised(self) -> list[dict[str, Any]]:
        """Lines for the log of steps that are committed and may not have written them yet, as their records will be."""
        lines: list[dict[str, Any]] = []
        finished = self._finished()
        for bins in self._records.scan(STEPS, "q", "t", "c", "p"):
            if bins.get("t") == COMMITTED and bins["q"] >= finished:
                items = [item for part in self._parts(bins["q"], bins) for item in part]
                texts = [text for kind, *rest in items if kind == "event" for text in rest]
                lines += [{"o": bins["q"], "i": at, "j": text} for at, text in enumerate(texts)]
        return lines

    def repair(self) -> None:
        """Ends every step that was cut off, and deletes plans of finished steps that a restart of the server brought back."""
        finished = self._finished()
        ghosts: list[int | str] = []
        for bins in self._records.scan(STEPS, "t", "q", "w", "a"):
            if "w" in bins and bins["w"] < finished:
                ghosts.append(_part_name(bins["w"], bins["a"]))
            elif "q" in bins and bins["q"] < finished:
                ghosts.append(bins["q"])
            elif "q" in bins and bins["t"] != DONE:
                self.end(bins["q"], bins["q"] in self._left)
        self._records.run((self._records.removal(STEPS, name) for name in ghosts), (NOT_FOUND,))


def pause(attempt: int) -> None:
    """Longer with every attempt, and never the same, so that two that are in each other's way do not meet again."""
    time.sleep(random.uniform(0.0, min(0.002 * 2**attempt, 0.5)))


def _held(found: Any) -> Held:
    if found is None:
        return ABSENT
    step = found.bins.get("s", 0)
    return Held(found.generation, step, Version.of(found.bins), Version.of(found.bins, "n"), found.bins.get("z", 0))


def _state(bins: dict[str, Any]) -> int:
    """Returns the state of a plan; of one that is done, how it ended."""
    return int(bins["d"] if bins["t"] == DONE else bins["t"])


def _keys(packed: bytes) -> np.ndarray:
    return np.frombuffer(bytes(packed), "<u8")


def _part_names(step: int, parts: int) -> list[str]:
    """Of the records of a plan after the first, which is in the step's own."""
    return [_part_name(step, at) for at in range(1, parts)]


def _part_name(step: int, at: int) -> str:
    return f"{step}/{at}"
