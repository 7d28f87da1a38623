"""The history of an index: what happened to each document, and by whom.

It is the change log of the store, of which each step writes more lines if the index keeps a
history. So a line is written with its step or not at all. The history is read as a feed, which a
search engine or a cache follows, and as an audit trail. It contains no content of documents.
"""

import hashlib
import heapq
import json
import operator
import secrets
import struct
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Callable, Iterator, Sequence
from itertools import takewhile

from nearkin.errors import ChangesGoneError, UsageError
from nearkin.index.changes import (
    ERASED,
    TOUCHED,
    Change,
    ChangePage,
    Changes,
    Event,
    KeyedEntry,
)
from nearkin.index.decision_records import is_decisions_scope, parse_entry
from nearkin.index.entry import RESERVED, SCOPES_PLACE, Entry, internal_entry
from nearkin.index.migration.state import OPEN
from nearkin.index.stores.base import LOG_PORTION, Store
from nearkin.index.stores.sharded import ShardedStore
from nearkin.runtime.actor import ACTOR
from nearkin.runtime.setting_names import name_setting

HISTORY_SCOPE = f"{RESERVED}history"
"""The scope of the document that stores the setting. It is stored, so it does not change."""
SECRET = "history"
"""The name of the secret of cursors, by which the log of a store differs from that of another."""
TAG_BYTES = 16
MAX_CURSOR = 1000
"""The maximum length of a cursor, in characters."""
NOW = "now"
"""The cursor of the end of the history."""
MAX_PORTIONS = 10
"""The number of portions of lines that are read for one page, however few of them are in it."""
MAX_CHANGES = 10_000
"""The maximum number of changes of a page."""


def is_kept_forever(scope: str) -> bool:
    """Returns True if the documents of a scope have no time to live: decisions and settings."""
    return is_decisions_scope(scope) or scope in (HISTORY_SCOPE, SCOPES_PLACE)


def read_setting(store: Store) -> float:
    """Returns how long the lines of an index are kept, in seconds; 0 if it keeps no history."""
    entry = store.entries(HISTORY_SCOPE, ["history"])[0]
    return 0.0 if entry is None else float(json.loads(entry.text or "0"))


def stage_setting(store: Store, seconds: float, now: float) -> Changes:
    """Returns the changes that store how long lines are kept."""
    for part in _parts_of(store):
        # a store of another package may have no order of lines, and refuses this
        part.log_lines(0, 0)
    text = json.dumps(seconds)
    digest = hashlib.sha256(text.encode()).digest()[:16]
    entry = internal_entry(HISTORY_SCOPE, "history", digest, now, text)
    old = store.entries(HISTORY_SCOPE, ["history"])[0]
    dropped = [] if old is None else [KeyedEntry(old, None)]
    return Changes(dropped=dropped, new=[KeyedEntry(entry, None)])


def lines_of(changes: Changes, now: float) -> list[Event]:
    """Returns the lines of a step. A document has the lines of its steps in their order."""
    actor = ACTOR.get()
    dropped = {(entry.scope, entry.id): entry for entry, _ in changes.dropped}
    lines: list[Event] = []
    for line in changes.events:
        if line.kind == TOUCHED:
            lines.append(line)
            continue
        entry = dropped.pop((line.scope, line.id), None) if line.kind == ERASED else None
        kind = "purged" if line.kind == ERASED and actor.purges else line.kind
        cluster = "" if entry is None else entry.cluster
        lines.append(line._replace(kind=kind, cluster=cluster, actor=actor.name))
    described = list(_described(changes, dropped))
    lines += [
        Event(kind, entry.scope, entry.id, _leader_of(entry), now, entry.cluster, actor.name)
        for kind, entry in described
        if not entry.scope.startswith(RESERVED)
    ]
    for entry, _ in changes.new:
        if is_decisions_scope(entry.scope):
            lines += _lines_of_decision(entry, now, actor.name)
    return lines


def _leader_of(entry: Entry) -> str:
    return "" if entry.is_leader else entry.leader


def _described(
    changes: Changes, dropped: dict[tuple[str, str], Entry]
) -> Iterator[tuple[str, Entry]]:
    """Yields what happens to documents of a step, apart from those that are deleted by request."""
    names = {(entry.scope, entry.id) for entry, _ in changes.new}
    for name, entry in dropped.items():
        if name not in names:
            yield "expired", entry._replace(leader=entry.id)
    promoted = {promotion.entry.ref for promotion in changes.promoted}
    before = {entry.ref: entry for entry in changes.expected}
    moved = {*before, *(snapshot.entry.ref for snapshot in changes.leader_snapshots)}
    moved.update(*(snapshot.members for snapshot in changes.leader_snapshots))
    # the last version of a document that is changed twice is the one that is written
    for entry in {entry.ref: entry for entry in changes.changed}.values():
        was_member = entry.ref in before and not before[entry.ref].is_leader
        if entry.ref not in moved:
            continue
        if not entry.is_leader:
            yield "resolved", entry
        elif entry.ref in promoted or was_member:
            yield "promoted", entry
        else:
            yield "renamed", entry
    for entry, _ in changes.new:
        if (entry.scope, entry.id) in dropped:
            yield "replaced", entry
        else:
            yield "inserted" if entry.is_leader else "resolved", entry


def _lines_of_decision(entry: Entry, now: float, actor: str) -> Iterator[Event]:
    """Yields the lines of a decision, one for each document."""
    stored = parse_entry(entry)
    if stored is None:
        return
    decision = stored.decision
    kind = f"decided-{decision.verdict}"
    first, second = decision.pair
    for id, other in ((first, second), (second, first)):
        yield Event(kind, stored.scope, id, other, now, "", decision.by or actor)


def _parts_of(store: Store) -> list[Store]:
    return store.shards if isinstance(store, ShardedStore) else [store]


def _secret_of(store: Store) -> bytes:
    """Returns the secret of the cursors of a log, which no other store has."""
    stored = store.write_once(SECRET, None) or store.write_once(SECRET, secrets.token_hex(16))
    return bytes.fromhex(stored)


def _encode_cursor(numbers: Sequence[int], secret: bytes) -> str:
    """Returns the cursor of a line in each shard.

    It hides the numbers, because they tell how much happens in scopes that a token cannot see.
    """
    return urlsafe_b64encode(_mask(struct.pack(f"<{len(numbers)}q", *numbers), secret)).decode()


def _mask(numbers: bytes, secret: bytes) -> bytes:
    """Returns the checksum of numbers and the numbers, which are encrypted with the checksum."""
    tag = hashlib.shake_256(secret + numbers).digest(TAG_BYTES)
    stream = hashlib.shake_256(tag + secret).digest(len(numbers))
    return tag + bytes(map(operator.xor, numbers, stream))


def _decode_cursor(cursor: str, parts: list[Store], secret: bytes) -> list[int]:
    try:
        masked = urlsafe_b64decode(cursor[:MAX_CURSOR])
    except ValueError:
        masked = b""
    if len(masked) % 8 or len(masked) <= TAG_BYTES:
        raise UsageError(
            f"the cursor {cursor[:60]!r} is not valid; give `next` of a page of changes, or "
            f"{NOW!r} for the end"
        )
    tag, body = masked[:TAG_BYTES], masked[TAG_BYTES:]
    stream = hashlib.shake_256(tag + secret).digest(len(body))
    numbers = bytes(map(operator.xor, body, stream))
    if _mask(numbers, secret) != masked or len(numbers) != 8 * len(parts):
        raise ChangesGoneError(
            "the cursor belongs to another store: the index has moved, or was restored from a "
            f"backup; start again from an export, with the cursor {NOW!r} from before it"
        )
    return list(struct.unpack(f"<{len(parts)}q", numbers))


def read_changes(
    store: Store,
    after: str | None,
    limit: int,
    accepts: Callable[[Event], bool],
) -> ChangePage:
    """Returns a page of the history of an index, as `Index.changes` does.

    Each shard has a log, and all lines about a document are in one of them.

    Args:
        after: Cursor; None for the oldest line that is kept.
        accepts: Returns whether a line is in the page.
    """
    parts = _parts_of(store)
    secret = _secret_of(store)
    if not read_setting(store):
        raise UsageError(
            f"the index {store.url} keeps no history; open it once with the setting "
            f"{name_setting('history')}, the time for which changes are kept"
        )
    if after == NOW:
        ends = [part.log_lines(0, 0).end for part in parts]
        return ChangePage((), _encode_cursor(ends, secret), has_more=False)
    if after is None:
        numbers = [part.log_lines(0, 0).dropped for part in parts]
    else:
        numbers = _decode_cursor(after, parts, secret)
    changes: list[Change] = []
    for _ in range(MAX_PORTIONS):
        portions = [
            part.log_lines(number, LOG_PORTION) for part, number in zip(parts, numbers, strict=True)
        ]
        for portion, number in zip(portions, numbers, strict=True):
            if not portion.dropped <= number <= portion.end:
                raise ChangesGoneError(
                    "the changes after the cursor are not kept any more; start again from an "
                    f"export, with the cursor {NOW!r} from before it"
                )
        lines = heapq.merge(
            *([(i, line) for line in portion.lines] for i, portion in enumerate(portions)),
            key=lambda line: line[1][1].at,
        )
        for i, (number, event) in lines:
            numbers[i] = number
            if event.kind == TOUCHED or not accepts(event):
                continue
            cursor = _encode_cursor(numbers, secret)
            changes.append(_change_of(event, cursor))
            if len(changes) == limit:
                return ChangePage(tuple(changes), cursor, has_more=True)
        if all(len(portion.lines) < LOG_PORTION for portion in portions):
            return ChangePage(tuple(changes), _encode_cursor(numbers, secret), has_more=False)
    return ChangePage(tuple(changes), _encode_cursor(numbers, secret), has_more=True)


def _change_of(event: Event, cursor: str) -> Change:
    return Change(
        kind=event.kind,
        scope=event.scope,
        id=event.id,
        into=event.into,
        cluster=event.cluster,
        at=event.at,
        actor=event.actor,
        cursor=cursor,
    )


def trim_history(store: Store, before: float) -> None:
    """Deletes the lines that are older than a time, in portions. A migration needs all of them."""
    if store.state().migration.phase != OPEN:
        return
    for part in _parts_of(store):
        is_full = True
        while is_full:
            lines = part.log_lines(0, LOG_PORTION).lines
            old = list(takewhile(lambda line: line[1].at < before, lines))
            if old:
                part.drop_lines(old[-1][0])
            is_full = len(old) == LOG_PORTION


class HistoryCopy:
    """The copy of a history into the store that an index is copied to.

    Args:
        source: Store of the index.
        target: Store of the copy, to whose log nobody else writes.
    """

    def __init__(self, source: Store, target: Store) -> None:
        self._source = source
        self._target = target
        self._numbers: list[int] = []

    def copy_new(self) -> None:
        """Copies the lines that were written since the last call.

        The first call begins again, because an interrupted copy may have some of the lines.
        """
        if not read_setting(self._source):
            return
        parts = _parts_of(self._source)
        if not self._numbers:
            for part in _parts_of(self._target):
                part.drop_lines(part.log_lines(0, 0).end)
            self._numbers = [0] * len(parts)
        for i, part in enumerate(parts):
            while lines := part.log_lines(self._numbers[i], LOG_PORTION).lines:
                events = [event for _, event in lines if event.kind != TOUCHED]
                self._target.apply(Changes(events=events, keeps_log=True))
                self._numbers[i] = lines[-1][0]
