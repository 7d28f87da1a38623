"""Steps over several Aerospike records, by the protocol that `aerospike` describes."""

import random
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from nearkin.errors import OutcomeUnknownError, RacedError, StoreError, UsageError
from nearkin.index.stores.aerospike_buckets import Buckets, Span
from nearkin.index.stores.aerospike_moves import FINISHED, META, Moves
from nearkin.index.stores.aerospike_records import (
    EXISTS,
    FILTERED,
    GENERATION,
    NOT_FOUND,
    Bins,
    Records,
)

DOCUMENTS = "documents"
REFS = "refs"
STEPS = "steps"
EVENTS = "events"
LINES = "lines"
NUMBERED = "numbered"
"""The names of the counter of steps that wrote lines, and of the record about their numbers."""
LINES_AT_ONCE = 1000
"""The number of lines that get their numbers at once."""
"""The sets of the store."""
PENDING = 1
COMMITTED = 2
ABORTED = 3
DONE = 4
VANISHED = 5
"""The states of a plan.

VANISHED is never written: another process has ended the step and deleted its plan. A plan that is
done is kept if the server would restore a deleted one; its bin `d` says how the step ended.
"""
LEASE = 20.0
"""The time without a write after which another process ends a step, in seconds of the server."""
WAIT = 60.0
"""The maximum time that a step waits for conflicting steps, in seconds."""
PART = 0.38
"""The share of the record size that a part of a plan takes."""
PURGED = 500
"""The number of steps of this process after which finished plans are deleted."""
ROUNDS = 50
"""The maximum number of attempts to read a document that changes."""


Parts = list[list[list[Any]]]
"""The items of a plan, in parts."""


class BusyError(RacedError):
    """A conflict with a step that holds a document."""


class Version(NamedTuple):
    """A version of a document: the present one, or the one that a step writes."""

    ref: int
    """The number of the document; 0 if the record holds no document."""
    packed: bytes
    leader: int
    """The number that stands for the representative's id; 0 for a representative."""
    keys: bytes
    """The band keys of its postings, if their groups have a time to live that a match renews."""

    def bins(self, prefix: str = "") -> dict[str, object]:
        """Returns the bins of the version; bins without a value are left out."""
        named = {"r": self.ref, "e": self.packed, "l": self.leader, "k": self.keys}
        return {prefix + name: value for name, value in named.items() if value or name == "r"}

    @classmethod
    def of(cls, bins: Bins, prefix: str = "") -> "Version":
        """Returns the version in the bins of a record."""
        return cls(
            ref=bins.get(prefix + "r", 0),
            packed=bytes(bins.get(prefix + "e", b"")),
            leader=bins.get(prefix + "l", 0),
            keys=bytes(bins.get(prefix + "k", b"")),
        )


class LockedRecord(NamedTuple):
    """The record of a document: the present version, and the one of the step that locks it."""

    generation: int
    """The generation of the record; 0 if there is no record."""
    step: int
    now: Version
    then: Version
    zone: int = 0
    """The number that stands for the scope; 0 if the record holds no document."""


NO_DOCUMENT = Version(0, b"", 0, b"")
ABSENT = LockedRecord(0, 0, NO_DOCUMENT, NO_DOCUMENT)


@dataclass
class ChangePlan:
    """The changes of a step.

    Attributes:
        documents: The new version of each document, by the key of its record.
        held: The records of the same documents, as they were read.
        zones: The number that stands for the scope of each document, by the key of its record.
        entering: Added postings, as (posting, band keys, key of the document's record or "").
        leaving: Removed postings.
        numbered: New and renewed documents, as (number, key of the record).
        fresh: Numbers of new documents.
        gone: Numbers of deleted documents.
        events: Lines of the change log, as JSON.
        renewed: Present postings whose groups are renewed, as (posting, band keys).
        resolves: Whether the generation rises.
        epoch: Epoch under which the step was made; None for any.
    """

    documents: dict[str, Version] = field(default_factory=dict)
    held: dict[str, LockedRecord] = field(default_factory=dict)
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
        """Yields what another process needs to complete or to undo the step."""
        yield from (["document", name] for name in self.documents)
        yield from (
            ["enter", word, keys.astype("<u8").tobytes(), name]
            for word, keys, name in self.entering
        )
        yield from (
            ["leave", low, high, keys.astype("<u8").tobytes()] for keys, low, high in self.leaving
        )
        yield from (["fresh", ref] for ref in self.fresh)
        yield from (["gone", ref] for ref in self.gone)
        yield from (["event", text] for text in self.events)
        yield from (["resolves"] for _ in range(self.resolves))

    def parts(self, most: int) -> Parts:
        """Returns the items in parts of about `most` bytes; at least one part."""
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
    """The steps of a store. It runs them, ends interrupted ones, and reads documents."""

    def __init__(
        self,
        records: Records,
        buckets: Buckets,
        moves: Moves,
        lives: tuple[int, int],
        stands: Callable[[Version, int], bool],
    ) -> None:
        self._records = records
        self._buckets = buckets
        self._moves = moves
        self._lives = lives
        self._stands = stands
        self._never = records.life(None)
        self._left: set[int] = set()
        """The steps of this process that it could not end."""
        self._part_bytes = int(PART * records.namespace.record_size)
        self._flushed = max(LEASE, 2 * records.namespace.flush_seconds)
        self._until_purge = PURGED

    def read_documents(self, fields: Sequence[str]) -> dict[str, LockedRecord]:
        """Returns the records of documents by their keys."""
        names = list(dict.fromkeys(fields))
        return {
            name: _locked_record(record)
            for name, record in zip(names, self._records.read(DOCUMENTS, names), strict=True)
        }

    def visible(self, fields: Sequence[str]) -> dict[str, Version]:
        """Returns the present versions of documents.

        The state of a step decides which version of a locked document is the present one.
        """
        seen: dict[str, Version] = {}
        lost: set[tuple[str, int]] = set()
        unread = list(dict.fromkeys(fields))
        for _ in range(ROUNDS):
            records = self.read_documents(unread)
            states = self._states({record.step for record in records.values() if record.step})
            unread = []
            for name, record in records.items():
                if record.step and states[record.step] is None and (name, record.step) not in lost:
                    # the step ended between the two reads; the next read finds the document
                    # unlocked
                    lost.add((name, record.step))
                    unread.append(name)
                else:
                    seen[name] = (
                        record.then
                        if record.step and states[record.step] == COMMITTED
                        else record.now
                    )
            if not unread:
                return seen
        raise StoreError(
            f"{self._records.url}: a document changes faster than it can be read; repeat the call"
        )

    def _states(self, steps: Iterable[int]) -> dict[int, int | None]:
        names = sorted(steps)
        plans = self._records.read(STEPS, names) if names else []
        return {
            name: None if plan is None else _state(plan.bins)
            for name, plan in zip(names, plans, strict=True)
        }

    def free(self, fields: Sequence[str]) -> dict[str, LockedRecord]:
        """Returns the records of documents after interrupted steps that lock them were ended."""
        records = self.read_documents(fields)
        for step in {record.step for record in records.values() if record.step}:
            state = self.end(step, mine=step in self._left)
            if not state:
                raise BusyError(
                    f"{self._records.url}: a document is being changed by another step; repeat the "
                    f"call"
                )
            # a lock that was written after its step was undone, or whose release a server lost
            locked = [name for name, record in records.items() if record.step == step]
            self._settle_plan(step, self.read_documents(locked), committed=state == COMMITTED)
        return (
            self.read_documents(fields)
            if any(record.step for record in records.values())
            else records
        )

    def run(self, step: int, plan: ChangePlan, sure: Callable[[], None]) -> None:
        """Runs a step. Either all of it becomes visible with one write, or nothing."""
        try:
            self._run(step, plan, sure)
        except (StoreError, UsageError):
            raise
        except BaseException:
            # it may have come anywhere, for example Ctrl-C; the next step that needs one of the
            # documents ends this one
            self._left.add(step)
            raise

    def _run(self, step: int, plan: ChangePlan, sure: Callable[[], None]) -> None:
        parts = plan.parts(self._part_bytes)
        crowded: list[int] = []
        may_be_committed = False
        try:
            self._begin(step, parts, plan.epoch)
            self._moves.check_step(plan.epoch, step)
            if plan.documents:
                self._lock(step, plan)
                crowded = self._enter(plan)
                sure()
                may_be_committed = True
                self._commit(step)
            else:
                # postings without documents are visible at once; the plan makes sure that all are
                # written
                may_be_committed = True
                self._commit(step)
                crowded = self._enter(plan)
        except (StoreError, UsageError) as error:
            if isinstance(error, (RacedError, UsageError)):
                # the store has refused a write, so that no answer was lost
                may_be_committed = False
            state = self._try_to_end(step, None if may_be_committed else parts)
            if may_be_committed and state in (0, VANISHED):
                raise OutcomeUnknownError(
                    f"{self._records.url}: the answer to the commit of a step was lost, so that "
                    f"the outcome is "
                    f"unknown ({error}); the call may be repeated safely"
                ) from error
            if state != COMMITTED:
                raise
        else:
            self._try_to_complete(step, parts, _locked_records(step, plan))
        try:
            self._buckets.trim(crowded)
            self._purge_if_due()
        except StoreError:
            # the step is complete; the next one trims buckets and deletes plans
            return

    def _begin(self, step: int, parts: Parts, epoch: int | None) -> None:
        bins = {
            "q": step,
            "t": PENDING,
            "c": len(parts),
            "p": parts[0],
            **({} if epoch is None else {"m": epoch}),
        }
        self._records.run(
            [self._records.creation(STEPS, step, self._records.put(bins), self._never)]
        )
        self._records.run(
            self._records.creation(
                STEPS,
                _part_name(step, at),
                self._records.put({"p": part, "w": step, "a": at}),
                self._never,
            )
            for at, part in enumerate(parts[1:], 1)
        )

    def _lock(self, step: int, plan: ChangePlan) -> None:
        writes = []
        for name, version in plan.documents.items():
            bins = self._records.put(
                {"f": name, "z": plan.zones[name], "s": step, **version.bins("n")}
            )
            record, ttl = plan.held[name], self._seconds_to_live(version)
            if record.generation:
                writes.append(self._records.exchange(DOCUMENTS, name, bins, ttl, record.generation))
            else:
                writes.append(self._records.creation(DOCUMENTS, name, bins, ttl))
        answers = self._records.run(writes, (EXISTS, GENERATION, NOT_FOUND))
        if any(answer.code for answer in answers):
            raise BusyError(
                f"{self._records.url}: a document was changed by another step; repeat the call"
            )

    def _seconds_to_live(self, version: Version) -> int:
        return self._lives[bool(version.leader)]

    def _enter(self, plan: ChangePlan) -> list[int]:
        """Writes postings, which are not visible before their documents."""
        life, put = self._lives[0], self._records.put
        self._records.run(
            self._records.change(REFS, ref, put({"f": name}), life) for ref, name in plan.numbered
        )
        # a group may have expired before its documents, so present postings are written again
        return self._buckets.put(
            [*plan.renewed, *((word, keys) for word, keys, _ in plan.entering)]
        )

    def _commit(self, step: int) -> None:
        operations = self._records.put({"t": COMMITTED})
        (answer,) = self._records.run(
            [self._records.exchange(STEPS, step, operations, self._never, 1)],
            (GENERATION, NOT_FOUND),
        )
        if answer.code:
            raise BusyError(
                f"{self._records.url}: another process has undone the step, because it took longer "
                f"than "
                f"{LEASE:g} s or the index was migrated"
            )

    def _try_to_end(self, step: int, parts: Parts | None) -> int:
        """Undoes a step after a failure, unless it was committed although the answer was lost."""
        try:
            return self.end(step, mine=True, parts=parts)
        except StoreError:
            self._left.add(step)
            return 0

    def _try_to_complete(self, step: int, parts: Parts, locked: dict[str, LockedRecord]) -> None:
        """Completes a committed step. If that fails, the next process completes it."""
        try:
            self._carry_out(step, parts, COMMITTED, locked)
        except StoreError:
            self._left.add(step)

    def end(self, step: int, parts: Parts | None = None, *, mine: bool) -> int:
        """Completes a step that is committed, and undoes one that is not.

        Args:
            mine: Whether the step is one of this process. The plan of another process must not have
                been written for LEASE seconds.
        """
        outcome = VANISHED
        while (header := self._records.read(STEPS, [step])[0]) is not None:
            if header.bins["t"] == DONE:
                outcome = _state(header.bins)
                break
            state = COMMITTED if header.bins["t"] == COMMITTED else ABORTED
            conditions: dict[str, object] = (
                {} if mine else {"expressions": self._records.older(LEASE)}
            )
            operations = self._records.put({"t": state})
            claim = self._records.exchange(
                STEPS, step, operations, self._never, header.generation, **conditions
            )
            (answer,) = self._records.run([claim], (GENERATION, NOT_FOUND, FILTERED))
            if answer.code == FILTERED:
                return 0
            if answer.code == 0:
                self._carry_out(step, parts or self._parts(step, header.bins), state)
                return state
        if parts is not None:
            # another process has undone the step, and does not know what was written afterwards
            self._carry_out(step, parts, ABORTED)
        self._left.discard(step)
        return outcome

    def _parts(self, step: int, header: Bins) -> Parts:
        """Reads the parts of a plan. A step writes nothing else before all parts are written."""
        further_parts = self._records.read(STEPS, _part_names(step, header["c"]))
        return [
            header["p"],
            *(record.bins["p"] if record is not None else [] for record in further_parts),
        ]

    def _carry_out(
        self,
        step: int,
        parts: Parts,
        state: int,
        locked: dict[str, LockedRecord] | None = None,
    ) -> None:
        """Completes or undoes a step. Every action may be executed twice.

        Documents are unlocked last, because nobody else changes them before, and then the plan is
        deleted.
        """
        values_by_kind: dict[str, list[list[Any]]] = {}
        for kind, *values in (item for part in parts for item in part):
            values_by_kind.setdefault(kind, []).append(values)
        fields = [name for (name,) in values_by_kind.get("document", [])]
        if state == COMMITTED:
            if "resolves" in values_by_kind:
                # only after the commit: a process that reads the generation earlier would cache old
                # data
                self._records.run([self._moves.count()])
            self._complete(step, values_by_kind, again=not fields)
        elif fields:
            self._take_back(values_by_kind)
        if locked is None:
            locked = self.read_documents(fields)
        if not self._settle_plan(step, locked, committed=state == COMMITTED):
            # the tombstone of a durably deleted record keeps its generation for the next record
            locked = self.read_documents(fields)
            self._settle_plan(step, locked, committed=state == COMMITTED)
        self._finish(step, len(parts), state)
        self._left.discard(step)

    def _finish(self, step: int, parts: int, state: int) -> None:
        """Deletes a plan, or marks it as done if the server would restore a deleted one."""
        removals = (self._records.removal(STEPS, name) for name in _part_names(step, parts))
        self._records.run(removals, (NOT_FOUND,))
        if self._records.keeps_deletions:
            self._records.run([self._records.removal(STEPS, step)], (NOT_FOUND,))
        else:
            finished_plan = {"q": step, "t": DONE, "d": state}
            self._records.run(
                [self._records.overwriting(STEPS, step, finished_plan, self._never)], (NOT_FOUND,)
            )

    def _complete(self, step: int, items: dict[str, list[list[Any]]], *, again: bool) -> None:
        if again:
            self._buckets.put((word, _keys(packed)) for word, packed, _ in items.get("enter", []))
        self._buckets.remove(
            Span(_keys(packed), low, high) for low, high, packed in items.get("leave", [])
        )
        self._records.run(
            (self._records.removal(REFS, ref) for (ref,) in items.get("gone", [])), (NOT_FOUND,)
        )
        texts = items.get("event", [])
        # taken while the documents are locked, so that it grows with each step of a document
        place = self._records.count(META, LINES) if texts else 0
        events = (
            self._records.creation(
                EVENTS,
                _part_name(step, at),
                self._records.put({"o": step, "i": at, "j": text, "w": place}),
                self._never,
            )
            for at, (text,) in enumerate(texts)
        )
        self._records.run(events, (EXISTS,))

    def _take_back(self, items: dict[str, list[list[Any]]]) -> None:
        entered = items.get("enter", [])
        records = self.read_documents([name for _, _, name in entered if name])
        spans = [
            Span(_keys(packed), word, word + 1)
            for word, packed, name in entered
            if not name or not self._stands(records[name].now, word)
        ]
        self._buckets.remove(spans)
        self._records.run(
            (self._records.removal(REFS, ref) for (ref,) in items.get("fresh", [])), (NOT_FOUND,)
        )

    def _settle_plan(self, step: int, locked: dict[str, LockedRecord], *, committed: bool) -> bool:
        """Unlocks the documents of a step with their new or their old versions."""
        writes = []
        for name, record in locked.items():
            if record.step != step:
                continue
            version = record.then if committed else record.now
            if version.ref:
                bins = {"f": name, "z": record.zone, **version.bins()}
                ttl = self._seconds_to_live(version)
            elif not self._records.keeps_deletions:
                # the server would restore a deleted record with its document, so an empty one is
                # written
                bins = {"f": name, "r": 0}
                ttl = self._never
            else:
                writes.append(self._records.removal(DOCUMENTS, name, record.generation))
                continue
            writes.append(self._records.replacement(DOCUMENTS, name, bins, ttl, record.generation))
        answers = self._records.run(writes, (GENERATION, NOT_FOUND))
        return all(answer.code != GENERATION for answer in answers)

    def _purge_if_due(self) -> None:
        self._until_purge -= 1
        if self._until_purge <= 0:
            self._until_purge = PURGED
            self.purge()

    def purge(self) -> None:
        """Deletes finished plans that had to be kept.

        A server restores deleted plans when it starts again, and they must not be carried out then.
        Therefore a record says below which number all steps have ended, before plans are deleted.
        That number is announced first. A step whose plan is written later finds the announcement
        and takes a new number, and the second read finds a plan that was written before.
        """
        if self._records.keeps_deletions:
            return
        old = {
            bins["q"]
            for bins in self._records.scan_older(STEPS, self._flushed, "q", "t")
            if bins.get("t") == DONE
        }
        if not old:
            return
        last_finished = min(
            [max(old) + 1, *(number for number in self._numbers() if number not in old)]
        )
        self._raise_finished({"n": last_finished})
        reached = min([last_finished, *(number for number in self._numbers() if number not in old)])
        self._raise_finished({"v": reached})
        self._records.run(
            (self._records.removal(STEPS, step) for step in sorted(old) if step < reached),
            (NOT_FOUND,),
        )

    def _numbers(self) -> list[int]:
        return [bins["q"] for bins in self._records.scan(STEPS, "q") if "q" in bins]

    def _raise_finished(self, bins: dict[str, int]) -> None:
        """Writes a number, unless a larger one is stored."""
        while True:
            (record,) = self._records.read(META, [FINISHED])
            if record is None:
                write = self._records.creation(META, FINISHED, self._records.put(bins), self._never)
            elif any(record.bins.get(name, 0) < value for name, value in bins.items()):
                write = self._records.exchange(
                    META, FINISHED, self._records.put(bins), self._never, record.generation
                )
            else:
                return
            (answer,) = self._records.run([write], (EXISTS, GENERATION, NOT_FOUND))
            if answer.code == 0:
                return

    def _finished(self) -> int:
        """Returns the number below which all steps have ended; 0 if finished plans are not kept."""
        (record,) = (
            [None] if self._records.keeps_deletions else self._records.read(META, [FINISHED])
        )
        return 0 if record is None else int(record.bins.get("v", 0))

    def number_lines(self) -> Bins:
        """Gives numbers to the lines of the log that have none, in the order of their steps.

        One record holds the last number and the lines that are getting theirs. Whoever finds such
        lines completes them, so that a line that comes later has a larger number.

        Returns:
            The last number as `n`, and that of the last deleted line as `d`.
        """
        records = self._records
        while True:
            (record,) = records.read(META, [NUMBERED])
            if record is None:
                bins = {"n": 0, "d": 0, "b": []}
                create = records.creation(META, NUMBERED, records.put(bins), self._never)
                records.run([create], (EXISTS,))
                continue
            names: list[str] = record.bins["b"]
            first = record.bins["n"] - len(names) + 1
            numbers = ((name, records.put({"n": n})) for n, name in enumerate(names, first))
            records.run(records.changes(EVENTS, numbers, self._never, there=True), (NOT_FOUND,))
            # lines that are being written while the log is read wait for the next call
            last = records.count(META, LINES, 0)
            waiting = sorted(
                (bins.get("w", 0), bins["o"], bins["i"])
                for bins in records.scan(EVENTS, "o", "i", "w", "n")
                if "n" not in bins and bins.get("w", 0) <= last
            )
            if not waiting:
                return record.bins
            names = [_part_name(step, at) for _, step, at in waiting[:LINES_AT_ONCE]]
            bins = {"n": record.bins["n"] + len(names), "b": names}
            write = records.exchange(
                META, NUMBERED, records.put(bins), self._never, record.generation
            )
            records.run([write], (GENERATION,))

    def drop_lines(self, until: int) -> None:
        """Deletes the lines of the log up to a number."""
        records = self._records
        dropped = records.put({"d": until})
        records.run([records.change(META, NUMBERED, dropped, self._never, there=True)])
        old = [b for b in records.scan(EVENTS, "o", "i", "n") if b.get("n", until + 1) <= until]
        removals = (records.removal(EVENTS, _part_name(bins["o"], bins["i"])) for bins in old)
        records.run(removals, (NOT_FOUND,))

    def refuse(self, epoch: int) -> None:
        """Prevents the commit of running steps of other epochs. Their processes undo them."""
        for bins in self._records.scan(STEPS, "q", "m"):
            if "q" in bins and bins.get("m", epoch) != epoch:
                self._refuse(bins["q"])

    def _refuse(self, step: int) -> None:
        while (header := self._records.read(STEPS, [step])[0]) is not None and header.bins[
            "t"
        ] == PENDING:
            claim = self._records.exchange(
                STEPS, step, self._records.put({"t": ABORTED}), self._never, header.generation
            )
            self._records.run([claim], (GENERATION, NOT_FOUND))

    def promised(self) -> list[Bins]:
        """Returns the log lines of committed steps that may not have written them yet."""
        lines: list[Bins] = []
        finished = self._finished()
        for bins in self._records.scan(STEPS, "q", "t", "c", "p"):
            if bins.get("t") == COMMITTED and bins["q"] >= finished:
                items = [item for part in self._parts(bins["q"], bins) for item in part]
                texts = [text for kind, *rest in items if kind == "event" for text in rest]
                lines += [{"o": bins["q"], "i": at, "j": text} for at, text in enumerate(texts)]
        return lines

    def repair(self) -> None:
        """Ends interrupted steps, and deletes finished plans that a server has restored."""
        finished = self._finished()
        ghosts: list[int | str] = []
        for bins in self._records.scan(STEPS, "t", "q", "w", "a"):
            if "w" in bins and bins["w"] < finished:
                ghosts.append(_part_name(bins["w"], bins["a"]))
            elif "q" in bins and bins["q"] < finished:
                ghosts.append(bins["q"])
            elif "q" in bins and bins["t"] != DONE:
                self.end(bins["q"], mine=bins["q"] in self._left)
        self._records.run((self._records.removal(STEPS, name) for name in ghosts), (NOT_FOUND,))


def pause(attempt: int) -> None:
    """Waits for a random time that grows with each attempt."""
    time.sleep(random.uniform(0.0, min(0.002 * 2**attempt, 0.5)))


def _locked_records(step: int, plan: ChangePlan) -> dict[str, LockedRecord]:
    """Returns the records of a step's documents after the step has locked them."""
    return {
        name: LockedRecord(
            # a lock is one write, and only the unlocking follows it
            generation=plan.held[name].generation + 1,
            step=step,
            now=plan.held[name].now,
            then=version,
            zone=plan.zones[name],
        )
        for name, version in plan.documents.items()
    }


def _locked_record(found: Any) -> LockedRecord:
    if found is None:
        return ABSENT
    step = found.bins.get("s", 0)
    return LockedRecord(
        found.generation,
        step,
        Version.of(found.bins),
        Version.of(found.bins, "n"),
        found.bins.get("z", 0),
    )


def _state(bins: Bins) -> int:
    """Returns the state of a plan; of one that is done, how it ended."""
    return int(bins["d"] if bins["t"] == DONE else bins["t"])


def _keys(packed: bytes) -> np.ndarray:
    return np.frombuffer(bytes(packed), "<u8")


def _part_names(step: int, parts: int) -> list[str]:
    """Returns the keys of the parts of a plan after the first part."""
    return [_part_name(step, at) for at in range(1, parts)]


def _part_name(step: int, at: int) -> str:
    return f"{step}/{at}"
