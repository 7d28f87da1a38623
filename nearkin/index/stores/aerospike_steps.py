"""Steps over many records of Aerospike, each of which alone is atomic: the protocol is described in `aerospike`."""

import random
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from nearkin.errors import RacedError, StoreError
from nearkin.index.stores.aerospike_buckets import Buckets, Span
from nearkin.index.stores.aerospike_moves import Moves
from nearkin.index.stores.aerospike_records import EXISTS, FILTERED, GENERATION, NOT_FOUND, Records

DOCUMENTS, REFS, STEPS, EVENTS = "documents", "refs", "steps", "events"
PENDING, COMMITTED, ABORTED = 1, 2, 3
LEASE = 20.0
"""Seconds of the server's clock without a sign of life after which a step is taken over."""
WAIT = 60.0
"""Seconds that a step waits for others in its way."""
PART = 400_000
"""Bytes of a plan that go into one record."""
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


NOTHING = Version(0, b"", 0, b"")
ABSENT = Held(0, 0, NOTHING, NOTHING)


@dataclass
class Plan:
    """What a step does.

    Attributes:
        documents: By field: as each is to be.
        held: The same, as they were read.
        entering: (word, keys, field of the document or "") of postings.
        leaving: Postings that go.
        numbered: (number, field) of documents that are new or renewed.
        fresh: Numbers among these that are new.
        gone: Numbers of documents that go.
        touched: Keys whose groups are renewed.
        events: As JSON.
        resolves: Whether the generation rises.
        epoch: That the step was made under; None for any.
    """

    documents: dict[str, Version] = field(default_factory=dict)
    held: dict[str, Held] = field(default_factory=dict)
    entering: list[tuple[int, np.ndarray, str]] = field(default_factory=list)
    leaving: list[Span] = field(default_factory=list)
    numbered: list[tuple[int, str]] = field(default_factory=list)
    fresh: list[int] = field(default_factory=list)
    gone: list[int] = field(default_factory=list)
    touched: list[np.ndarray] = field(default_factory=list)
    events: list[str] = field(default_factory=list)
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

    def parts(self) -> Parts:
        """In pieces that records have room for; at least one."""
        parts: Parts = [[]]
        size = 0
        for item in self.items():
            cost = sum(len(value) if isinstance(value, (bytes, str)) else 9 for value in item) + 8
            if size + cost > PART and parts[-1]:
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
        raise StoreError(f"{self._records.url}: {asked[0]} changes faster than it can be read; try again")

    def _states(self, steps: Iterable[int]) -> dict[int, int | None]:
        names = sorted(steps)
        found = self._records.read(STEPS, names) if names else []
        return {name: None if one is None else one.bins["t"] for name, one in zip(names, found, strict=True)}

    def free(self, fields: Sequence[str]) -> dict[str, Held]:
        """Documents' records that no step holds; those that were cut off are ended.

        Raises:
            BusyError: A step that is under way holds one.
        """
        held = self.held(fields)
        for step in {one.step for one in held.values() if one.step}:
            if not self.end(step, step in self._left):
                raise BusyError(f"{self._records.url}: a document is being changed by another step; try again")
            # a lock that came after its step had been taken back: nobody else knows of it
            self._settle(step, [name for name, one in held.items() if one.step == step], committed=False)
        return self.held(fields) if any(one.step for one in held.values()) else held

    # -- running

    def run(self, step: int, plan: Plan, sure: Callable[[], None]) -> None:
        """Does a step: everything becomes visible with one write, or nothing does.

        Args:
            step: Its number, used by no other.
            plan: What it does.
            sure: Raises RacedError if what the step relies on does not hold, now that it holds its documents.
        """
        parts, crowded = plan.parts(), list[int]()
        try:
            self._begin(step, parts, plan.epoch)
            self._moves.look(plan.epoch)
            if plan.documents:
                self._lock(step, plan)
                crowded = self._enter(plan)
                sure()
                self._commit(step)
            else:
                # postings of documents that are elsewhere have no moment at which they become visible: the plan is the promise
                self._commit(step)
                crowded = self._enter(plan)
        except StoreError:
            if self._try_to_end(step, parts) != COMMITTED:
                raise
        else:
            self._try_to_complete(step, parts)
        try:
            self._buckets.trim(crowded)
        except StoreError:
            # the step is done; what is too full is looked at again with the next posting
            return

    def _begin(self, step: int, parts: Parts, epoch: int | None) -> None:
        bins = {"q": step, "t": PENDING, "c": len(parts), "p": parts[0], **({} if epoch is None else {"m": epoch})}
        self._records.run([self._records.creation(STEPS, step, self._records.put(bins), self._never)])
        others = zip(_part_names(step, len(parts)), parts[1:], strict=True)
        self._records.run(
            self._records.creation(STEPS, name, self._records.put({"p": part}), self._never) for name, part in others
        )

    def _lock(self, step: int, plan: Plan) -> None:
        writes = []
        for name, version in plan.documents.items():
            bins = self._records.put({"f": name, "s": step, **version.bins("n")})
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
        if plan.touched:
            self._buckets.touch(np.concatenate(plan.touched))
        return self._buckets.put((word, keys) for word, keys, _ in plan.entering)

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
        """Completes a step that is committed, takes back one that is not.

        Args:
            step: Its number.
            mine: Of this process; another one's must have shown no sign of life for LEASE.
            parts: Its plan, where that is known.

        Returns:
            How it ended; 0 if it is under way; ABORTED, too, if nothing is known of it any more.
        """
        while (found := self._records.read(STEPS, [step])[0]) is not None:
            state = COMMITTED if found.bins["t"] == COMMITTED else ABORTED
            more: dict[str, Any] = {} if mine else {"expressions": self._old()}
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
        return ABORTED

    def _parts(self, step: int, header: dict[str, Any]) -> Parts:
        """Of a step that was cut off: before the last one was written nothing else was."""
        others = self._records.read(STEPS, _part_names(step, header["c"]))
        return [header["p"], *(found.bins["p"] if found is not None else [] for found in others)]

    def _old(self) -> Any:
        expressions = self._records.library.expressions
        return expressions.GE(expressions.SinceUpdateTime(), int(1000 * LEASE)).compile()

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
        removals = (self._records.removal(STEPS, name) for name in _part_names(step, len(parts)))
        self._records.run(removals, (NOT_FOUND,))
        self._records.run([self._records.removal(STEPS, step)], (NOT_FOUND,))
        self._left.discard(step)

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
                bins = {"f": name, **version.bins()}
                writes.append(self._records.replacement(DOCUMENTS, name, bins, life, one.generation))
            else:
                writes.append(self._records.removal(DOCUMENTS, name, one.generation))
        self._records.run(writes, (GENERATION, NOT_FOUND))

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
        for bins in self._records.scan(STEPS, "q", "t", "c", "p"):
            if bins.get("t") == COMMITTED:
                items = [item for part in self._parts(bins["q"], bins) for item in part]
                texts = [text for kind, *rest in items if kind == "event" for text in rest]
                lines += [{"o": bins["q"], "i": at, "j": text} for at, text in enumerate(texts)]
        return lines

    def repair(self) -> None:
        """Ends every step that was cut off."""
        for bins in self._records.scan(STEPS, "t", "q"):
            if "q" in bins:
                self.end(bins["q"], bins["q"] in self._left)


def pause(attempt: int) -> None:
    """Longer with every attempt, and never the same, so that two that are in each other's way do not meet again."""
    time.sleep(random.uniform(0.0, min(0.002 * 2**attempt, 0.5)))


def _held(found: Any) -> Held:
    if found is None:
        return ABSENT
    return Held(found.generation, found.bins.get("s", 0), Version.of(found.bins), Version.of(found.bins, "n"))


def _keys(packed: bytes) -> np.ndarray:
    return np.frombuffer(bytes(packed), "<u8")


def _part_names(step: int, parts: int) -> list[str]:
    """Of the records of a plan after the first, which is in the step's own."""
    return [f"{step}/{at}" for at in range(1, parts)]
