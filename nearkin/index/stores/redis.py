"""`redis://host:port/db?prefix=name`: Redis or Valkey. One script is one atomic step; buckets and ids in small hashes.

A key of its own for each bucket would cost a hundred bytes of Redis' bookkeeping for eight of content, twenty times a document.
So buckets are fields of hashes that hold about sixty of them, which Redis keeps as compact lists.
"""

import json
import re
import secrets
import struct
import time
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any
from urllib.parse import parse_qs, urlsplit, urlunsplit

import numpy as np

from nearkin.errors import (
    IncompatibleError,
    MissingExtraError,
    MovedError,
    OutcomeUnknownError,
    RacedError,
    StoreError,
    UsageError,
)
from nearkin.index.changes import Changes, Event
from nearkin.index.entry import REF_SHIFT, Entry, PostingPortion, Postings, content_size
from nearkin.index.migration.state import STOPPED, Move, StoreState
from nearkin.index.stores.addresses import without_password
from nearkin.index.stores.base import LOG_KEPT, LOG_PORTION, PORTION, Portions
from nearkin.index.stores.eviction import require_no_eviction
from nearkin.index.stores.packing import id_key, pack_entry, unpack_entry, unpack_head

GROUP = 64
"""Fields of a hash, about."""
ENTRIES = 64
WORD = struct.Struct("<q")
TIMEOUT = 30.0
RETRIES = 3
"""The number of times that a command is sent again after its connection was lost."""
NOTE_SECONDS = 3600
"""Seconds for which the store remembers the last step of a writer, so that one that is sent twice is done once."""
LAYOUT = 3
"""The layout of the keys. 2 has sorted sets of members, and of documents by scope and time. 3 keeps the header and the place of
the index under names that the first version does not know, and tells that version to stop. Older ones are converted."""
SORTED_SETS = 2
CONVERTING, WAIT = 60, 0.05
"""Seconds after which the conversion of a process that died is taken over, and between two looks at one that is under way."""
COMMON = """
local P = ARGV[1]
local mask = tonumber(ARGV[2])
local function bucket(key) return P .. 'b:' .. string.sub(key, 1, 2) .. string.char(bit.band(string.byte(key, 3), mask)) end
"""
KEEPING = """
local function words(held)
  local a, b, c, d = struct.unpack('<HHHH', held, 47)
  return a, 62 + a + b + c + d
end
local function enter(ref, packed)
  local a = words(packed)
  local member = string.format('%016d', ref)
  local scope, seen = string.sub(packed, 63, 62 + a), struct.unpack('<d', packed, 39)
  redis.call('ZADD', P .. 's:' .. scope, ref, member)
  redis.call('SADD', P .. 'scopes', scope)
  redis.call('ZADD', P .. 'seen', seen, member)
  if string.byte(packed, 2) % 2 == 1 then redis.call('ZADD', P .. 'posted', seen, member)
  else redis.call('ZREM', P .. 'posted', member) end
end
local function leave(ref, packed)
  local a = words(packed)
  local member, scope = string.format('%016d', ref), string.sub(packed, 63, 62 + a)
  redis.call('ZREM', P .. 's:' .. scope, member)
  if redis.call('EXISTS', P .. 's:' .. scope) == 0 then redis.call('SREM', P .. 'scopes', scope) end
  redis.call('ZREM', P .. 'seen', member)
  redis.call('ZREM', P .. 'posted', member)
end
"""
"""Keys that lead to a document beside its id: its scope, and when it was seen. Places are those of packing.HEAD, from 1."""
HEADS = (
    COMMON
    + KEEPING
    + """
local out = {}
for at = 3, #ARGV, 2 do
  local held = redis.call('HGET', P .. 'e:' .. ARGV[at], ARGV[at + 1])
  if held then
    local _, size = words(held)
    held = string.sub(held, 1, size)
  end
  out[#out + 1] = held or ''
end
return out
"""
)
DUE = """
local key, seen, member, most = ARGV[1] .. ARGV[2], ARGV[3], ARGV[4], tonumber(ARGV[5])
local rank = 0
if member ~= '' then
  local mark = member .. '!'
  redis.call('ZREM', key, mark)
  redis.call('ZADD', key, seen, mark)
  rank = redis.call('ZRANK', key, mark)
  redis.call('ZREM', key, mark)
end
return redis.call('ZRANGE', key, rank, rank + most - 1, 'WITHSCORES')
"""
"""Documents behind a time and a number, in the order of both; a mark that is set for a moment says where that is."""
STOP_FIRST_VERSION = """
local P, urls, header, epoch = ARGV[1], ARGV[2], ARGV[3], ARGV[4]
if redis.call('HGET', P .. 'move', 'epoch') == epoch then return end
local move = redis.call('HGETALL', P .. 'move')
for at = 1, #move, 2 do redis.call('HSET', P .. 'place', move[at], move[at + 1]) end
redis.call('DEL', P .. 'move')
redis.call('HSET', P .. 'move', 'epoch', epoch, 'phase', 'moved', 'urls', urls)
if redis.call('EXISTS', P .. 'header') == 1 then redis.call('RENAME', P .. 'header', P .. 'made') end
redis.call('SET', P .. 'header', header)
redis.call('SET', P .. 'stopped:header', header)
"""
"""Processes of the first version find that the index has moved to the prefix `…:stopped`, whether they have it open or are
started later. What is there has a format that they do not know, which they report. Their steps would leave out what this layout
keeps."""
CONVERT = (
    COMMON
    + KEEPING
    + """
local group = ARGV[3]
for at = 4, #ARGV, 2 do
  local held = redis.call('HGET', P .. 'e:' .. group, ARGV[at])
  if held then
    local ref = tonumber(group) * 64 + tonumber(ARGV[at])
    enter(ref, held)
    if ARGV[at + 1] ~= '' then redis.call('ZADD', P .. 'n:' .. ARGV[at + 1], ref, string.format('%016d', ref)) end
  end
end
"""
)
LOOK_UP = (
    COMMON
    + """
local sizes, words, keys = {}, {}, ARGV[3]
for at = 1, #keys, 8 do
  local key = string.sub(keys, at, at + 7)
  local held = redis.call('HGET', bucket(key), key)
  if held then
    sizes[#sizes + 1] = struct.pack('<I4', #held / 8)
    words[#words + 1] = held
  else
    sizes[#sizes + 1] = '\\0\\0\\0\\0'
  end
end
return {table.concat(sizes), table.concat(words)}
"""
)
FIND = """
local out, fields = {}, ARGV[2]
for at = 1, #fields, 16 do
  local field = string.sub(fields, at, at + 15)
  local held = redis.call('HGET', ARGV[1] .. 'i:' .. string.sub(field, 1, 2), field)
  out[#out + 1] = held and string.sub(held, 1, 8) or '\\0\\0\\0\\0\\0\\0\\0\\0'
end
return table.concat(out)
"""
APPLY = (
    COMMON
    + KEEPING
    + """
local most = tonumber(ARGV[3])
local note, step = P .. 'step:' .. ARGV[4], ARGV[5]
if redis.call('GET', note) == step then return '' end
local function cut(held, ref)
  local rest, gone = {}, 0
  for at = 1, #held, 8 do
    if string.sub(held, at + 3, at + 7) == ref then gone = gone + 1 else rest[#rest + 1] = string.sub(held, at, at + 7) end
  end
  return table.concat(rest), gone
end
local i = 7
while ARGV[i] ~= 'W' do
  local op, field = ARGV[i], ARGV[i + 1]
  if op == 'F' and (redis.call('HGET', P .. 'place', 'epoch') or '0') ~= field then return 'moved' end
  local held = redis.call('HGET', P .. 'i:' .. string.sub(field, 1, 2), field)
  if op == 'A' and held then return 'there already' end
  if op == 'R' and (not held or string.sub(held, 1, 8) ~= ARGV[i + 2]) then return 'not there any more' end
  if op == 'L' and held ~= ARGV[i + 2] then return 'a representative is not there any more' end
  if op == 'B' and not redis.call('ZSCORE', P .. 'n:' .. field, ARGV[i + 2]) then return 'resolved to another one meanwhile' end
  if op == 'S' then
    local seen, count = {}, 0
    for ref in string.gmatch(ARGV[i + 2], '%d+') do seen[ref], count = true, count + 1 end
    local members = redis.call('ZRANGE', P .. 'n:' .. field, 0, count)
    if #members ~= count then return 'what is resolved to a document has changed meanwhile' end
    for _, ref in ipairs(members) do
      if not seen[ref] then return 'what is resolved to a document has changed meanwhile' end
    end
  end
  i = i + 3
end
i = i + 1
while i <= #ARGV do
  local op, a, b, c = ARGV[i], ARGV[i + 1], ARGV[i + 2], ARGV[i + 3]
  if op == 'E' then
    redis.call('HSET', P .. 'e:' .. a, b, c)
    enter(tonumber(a) * 64 + tonumber(b), c)
  elseif op == 'e' then
    local held = redis.call('HGET', P .. 'e:' .. a, b)
    if held then leave(tonumber(a) * 64 + tonumber(b), held) end
    redis.call('HDEL', P .. 'e:' .. a, b)
  elseif op == 'I' then redis.call('HSET', P .. 'i:' .. string.sub(a, 1, 2), a, b)
  elseif op == 'i' then redis.call('HDEL', P .. 'i:' .. string.sub(a, 1, 2), a)
  elseif op == 'D' then redis.call('DEL', note)
  elseif op == 'M' then redis.call('ZADD', P .. 'n:' .. a, tonumber(b), b)
  elseif op == 'm' then redis.call('ZREM', P .. 'n:' .. a, b)
  elseif op == 'G' then
    local kept = tonumber(b)
    local phase = redis.call('HGET', P .. 'place', 'phase')
    local over = redis.call('RPUSH', P .. 'log', a) - kept
    if over >= tonumber(c) and phase ~= 'copying' and phase ~= 'closing' then
      over = math.min(over, 2 * tonumber(c))
      redis.call('LTRIM', P .. 'log', over, -1)
      redis.call('INCRBY', P .. 'log-dropped', over)
    end
  elseif op == 'V' then redis.call('HINCRBY', P .. 'place', 'generation', 1)
  elseif op == 'C' then redis.call('HINCRBY', P .. 'counts', a, b)
  elseif op == 'P' or op == 'p' then
    local ref, delta = string.sub(b, 4, 8), 0
    for at = 1, #a, 8 do
      local key = string.sub(a, at, at + 7)
      local name = bucket(key)
      local held = redis.call('HGET', name, key) or ''
      local gone = 0
      if c == 'again' or op == 'p' then held, gone = cut(held, ref) end
      delta = delta - gone
      if op == 'P' then
        held = held .. b
        delta = delta + 1
        if #held > 8 * most then
          held = string.sub(held, 9)
          delta = delta - 1
          redis.call('HINCRBY', P .. 'counts', 'evicted', 1)
        end
      end
      if #held > 0 then redis.call('HSET', name, key, held) elseif gone > 0 then redis.call('HDEL', name, key) end
    end
    redis.call('HINCRBY', P .. 'counts', 'postings', delta)
  end
  i = i + 4
end
redis.call('SET', note, step, 'EX', ARGV[6])
return ''
"""
)
TAKE_TURN = """
local held = redis.call('GET', ARGV[1])
if held and held ~= ARGV[2] then return 0 end
redis.call('DEL', ARGV[1])
redis.call('SET', ARGV[1], ARGV[2], 'PX', ARGV[3])
return 1
"""
"""The deletion comes first because a sweep makes room: a script that begins with one is done although the memory is full."""
LINES = """
local dropped = tonumber(redis.call('GET', ARGV[1] .. 'log-dropped') or '0')
local start = math.max(tonumber(ARGV[2]), dropped)
local lines = redis.call('LRANGE', ARGV[1] .. 'log', start - dropped, start - dropped + tonumber(ARGV[3]) - 1)
table.insert(lines, 1, start)
return lines
"""
"""Lines of the log by their number since the index was made; the first value is the number of the first line."""
REDIRECT = """
if redis.call('HGET', ARGV[1] .. 'place', 'writer') == ARGV[5] then return 1 end
if tonumber(redis.call('HGET', ARGV[1] .. 'place', 'epoch') or '0') >= tonumber(ARGV[2]) then return 0 end
redis.call('HSET', ARGV[1] .. 'place', 'epoch', ARGV[2], 'phase', ARGV[3], 'urls', ARGV[4], 'writer', ARGV[5])
return 1
"""


class RedisStore:
    """An index in Redis.

    Args:
        url: Of the server, with `?prefix=` for the keys' names (`nearkin` by default).
        most: Postings of a bucket.
        expected: Postings that there will be, about: how many hashes they are dealt out to.
    """

    def __init__(self, url: str, most: int, expected: int) -> None:
        try:
            import redis
            import redis.backoff
            import redis.retry
        except ImportError as error:
            raise MissingExtraError("redis:// needs redis-py: pip install 'nearkin[redis]'") from error
        parts = urlsplit(url)
        options = parse_qs(parts.query)
        if unknown := sorted(set(options) - {"prefix"}):
            raise UsageError(f"{_shown(url)} has the unknown option {unknown[0]!r}; there is prefix")
        self._prefix = f"{options.get('prefix', ['nearkin'])[0]}:".encode()
        self._url, self._most = _shown(url), most
        self._stopped_url = without_password(url, prefix=self._key("stopped").decode())
        self._errors = redis.exceptions.RedisError
        self._lost = (redis.exceptions.ConnectionError, redis.exceptions.TimeoutError)
        self._writers: deque[bytes] = deque()
        """Names of writers that have no step under way. A thread takes one for each step, so there are as many as writing
        threads."""
        self._client: Any = redis.Redis.from_url(
            urlunsplit(parts._replace(query="")),
            socket_timeout=TIMEOUT,
            socket_connect_timeout=TIMEOUT,
            # every command may be sent twice: a step is done once. One that timed out is not sent again, so that a server that
            # hangs costs TIMEOUT once
            retry=redis.retry.Retry(
                redis.backoff.ExponentialWithJitterBackoff(base=0.05, cap=1.0),
                RETRIES,
                supported_errors=(redis.exceptions.ConnectionError,),
            ),
        )
        with self._failing():
            require_no_eviction(self._client, self._url)
            bits = max(0, min(8, (expected // GROUP >> 16).bit_length()))
            asked = str((1 << bits) - 1)
            self._client.set(self._key("mask"), asked, nx=True)
            mask: Any = self._client.get(self._key("mask"))
            self._mask: bytes = mask
            self._look_up = self._client.register_script(LOOK_UP)
            self._find = self._client.register_script(FIND)
            self._apply = self._client.register_script(APPLY)
            self._redirect = self._client.register_script(REDIRECT)
            self._heads_script = self._client.register_script(HEADS)
            self._due_script = self._client.register_script(DUE)
            self._turn_script = self._client.register_script(TAKE_TURN)
            self._lines_script = self._client.register_script(LINES)
            self._convert()

    @property
    def url(self) -> str:
        """Where it is, without a password."""
        return self._url

    def _key(self, name: str) -> bytes:
        return self._prefix + name.encode()

    @contextmanager
    def _failing(self) -> Iterator[None]:
        try:
            yield
        except self._errors as error:
            raise StoreError(f"{self._url}: {error}; nothing was written by this step, and it may be tried again") from error

    def _convert(self) -> None:
        """Brings an index of an older layout to this one, once, a portion at a time; other processes that open it wait."""
        layout = self._key("layout")
        while (held := int(self._client.get(layout) or 0)) < LAYOUT:
            if self._client.set(self._key("converting"), b"1", nx=True, ex=CONVERTING):
                # first, so that what is converted stays as it is
                self._stop_first_version()
                if held < SORTED_SETS and self._client.exists(self._key("made")):
                    self._convert_all()
                self._client.set(layout, LAYOUT)
                self._client.delete(self._key("converting"))
            else:
                time.sleep(WAIT)
        if held > LAYOUT:
            raise IncompatibleError(f"{self._url} has layout {held}, this nearkin knows {LAYOUT}: upgrade nearkin")

    def _stop_first_version(self) -> None:
        stop = self._client.register_script(STOP_FIRST_VERSION)
        stop(args=[self._prefix, json.dumps([self._stopped_url]), json.dumps({"format": f"of Redis layout {LAYOUT}"}), STOPPED])

    def _convert_all(self) -> None:
        convert = self._client.register_script(CONVERT)
        for group in self._groups():
            self._client.expire(self._key("converting"), CONVERTING)
            fields = sorted(map(int, self._client.hkeys(self._key("e:") + b"%d" % group)))
            refs = [group * ENTRIES + field for field in fields]
            pairs: list[bytes] = []
            for entry in self._heads(refs):
                leader = b"" if entry.is_leader else id_key(entry.scope, entry.leader)
                pairs += [_place(entry.ref)[1], leader]
            convert(args=[self._prefix, self._mask, b"%d" % group, *pairs])
        for key in self._client.scan_iter(_literal(self._key("m:")) + b"*", count=1_000):
            self._client.unlink(key)

    def _groups(self) -> list[int]:
        start = len(self._key("e:"))
        keys = self._client.scan_iter(_literal(self._key("e:")) + b"*", count=10_000)
        return sorted({int(key[start:]) for key in keys})

    def _heads(self, refs: Sequence[int]) -> list[Entry]:
        """Returns the entries that are there, without their content, which does not leave the server."""
        places = [part for ref in refs for part in _place(ref)]
        with self._failing():
            packed = self._heads_script(args=[self._prefix, self._mask, *places]) if refs else []
        return [unpack_head(ref, held) for ref, held in zip(refs, packed, strict=True) if held]

    def claim(self, header: dict[str, Any]) -> dict[str, Any]:
        with self._failing():
            self._client.set(self._key("made"), json.dumps(header, sort_keys=True), nx=True)
            found: Any = self._client.get(self._key("made"))
        header_there: dict[str, Any] = json.loads(found)
        return header_there

    def protect(self) -> None:
        with self._failing():
            self._client.set(self._key("protected"), "1", nx=True)

    def is_protected(self) -> bool:
        with self._failing():
            return self._client.get(self._key("protected")) is not None

    def state(self) -> StoreState:
        with self._failing():
            epoch, phase, urls, generation = self._client.hmget(self._key("place"), "epoch", "phase", "urls", "generation")
        move = Move() if epoch is None else Move(int(epoch), phase.decode(), tuple(json.loads(urls)))
        return StoreState(move, int(generation or 0))

    def redirect(self, move: Move) -> None:
        writer = secrets.token_hex(8)
        with self._failing(), self._answering():
            done = self._redirect(args=[self._prefix, move.epoch, move.phase, json.dumps(move.urls), writer])
        if not done:
            raise RacedError(f"{self._url} is in epoch {move.epoch} already, or beyond it")

    def entries(self, scope: str, ids: Sequence[str]) -> list[Entry | None]:
        if not ids:
            return []
        with self._failing():
            held = self._find(args=[self._prefix, b"".join(id_key(scope, name) for name in ids)])
        refs = np.frombuffer(held, "<i8").tolist()
        there = [ref for ref in refs if ref]
        found = dict(zip(there, self.by_refs(there), strict=True))
        return [found.get(ref) for ref in refs]

    def by_refs(self, refs: Sequence[int]) -> list[Entry | None]:
        if not refs:
            return []
        with self._failing():
            pipe = self._client.pipeline(transaction=False)
            for ref in refs:
                pipe.hget(*self._place(ref))
            packed = pipe.execute()
        return [None if held is None else unpack_entry(ref, held) for ref, held in zip(refs, packed, strict=True)]

    def _place(self, ref: int) -> tuple[bytes, bytes]:
        group, field = _place(ref)
        return self._key("e:") + group, field

    def postings(self, keys: np.ndarray) -> Postings:
        with self._failing():
            sizes, words = self._look_up(args=[self._prefix, self._mask, keys.astype("<u8").tobytes()])
        ends = np.cumsum(np.frombuffer(sizes, "<u4"), dtype=np.int64)
        return Postings(np.frombuffer(words, "<i8"), np.concatenate([[0], ends]))

    def reserve(self, count: int) -> list[int]:
        if not count:
            return []
        with self._failing():
            last = self._client.incrby(self._key("ref"), count)
        return list(range(last - count + 1, last + 1))

    def apply(self, changes: Changes) -> list[int]:
        with self._failing():
            fresh = iter(self.reserve(sum(not entry.ref for entry, _ in changes.new)))
            numbers = [entry.ref or next(fresh) for entry, _ in changes.new]
            before = self.by_refs([entry.ref for entry in changes.changed])
            refused = self._once([*self._checks(changes), b"W", *self._steps(changes, numbers, before)])
        if refused == b"moved":
            raise MovedError(f"{self._url} is being moved")
        if refused:
            raise RacedError(refused.decode())
        return numbers

    def _once(self, steps: list[bytes | int]) -> bytes:
        """Runs a step. The client sends it again if the connection is lost; the script does it once.

        Returns:
            Why it was refused, or nothing.

        Raises:
            OutcomeUnknownError: If no attempt was answered.
        """
        try:
            writer = self._writers.pop()
        except IndexError:
            writer = secrets.token_bytes(8)
        with self._answering():
            args = [self._prefix, self._mask, self._most, writer, secrets.token_bytes(8), NOTE_SECONDS, *steps]
            refused: bytes = self._apply(args=args)
        # the name of a writer whose answer was lost is not used again: a late copy of its step must find its own note
        self._writers.append(writer)
        return refused

    @contextmanager
    def _answering(self) -> Iterator[None]:
        """Raises a lost answer as an error that says that the step may have been done."""
        try:
            yield
        except self._lost as error:
            raise OutcomeUnknownError(
                f"{self._url}: {error}; the answer was lost, so the step may have been done; the call may be repeated safely"
            ) from error

    def _checks(self, changes: Changes) -> Iterator[bytes]:
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
            if entry.is_leader:
                yield from (b"L", id_key(entry.scope, entry.id), WORD.pack(entry.ref) + b"L")
            else:
                yield from (b"B", id_key(entry.scope, entry.leader), b"%016d" % entry.ref)
            yield from (b"S", id_key(entry.scope, entry.id), b" ".join(b"%016d" % ref for ref in members))
        for entry in changes.expected:
            yield from (b"B", id_key(entry.scope, entry.leader), b"%016d" % entry.ref)

    def _steps(self, changes: Changes, numbers: list[int], before: list[Entry | None]) -> Iterator[bytes | int]:
        """Four arguments a step."""
        counted = {"records": len(changes.new) - len(changes.dropped), "leaders": 0}
        if not (changes.new or changes.postings_added) and (changes.dropped or changes.unposted or changes.postings_removed):
            # a script that begins with a deletion is done although the server's memory is full: it makes room
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
            yield from self._kept(entry)
        for (entry, keys), number in zip(changes.new, numbers, strict=True):
            stored = entry._replace(ref=number)
            counted["leaders"] += stored.is_leader
            yield from self._kept(stored)
            if keys is not None:
                yield from (b"P", keys.astype("<u8").tobytes(), WORD.pack(stored.posting), b"")
        for entry, keys in changes.posted:
            if keys is not None:
                yield from (b"P", keys.astype("<u8").tobytes(), WORD.pack(entry.posting), b"again")
        for event in changes.events:
            yield from (b"G", json.dumps(event).encode(), LOG_KEPT, LOG_PORTION)
        if changes.invalidates_caches:
            yield from (b"V", b"", b"", b"")
        for name, value in counted.items():
            yield from (b"C", name.encode(), value, b"")

    def _kept(self, entry: Entry) -> Iterator[bytes]:
        yield from (b"E", *_place(entry.ref), pack_entry(entry))
        yield from (b"I", id_key(entry.scope, entry.id), WORD.pack(entry.ref) + (b"L" if entry.is_leader else b"M"), b"")
        if not entry.is_leader:
            yield from (b"M", id_key(entry.scope, entry.leader), b"%016d" % entry.ref, b"")

    def members(self, scope: str, leader: str, limit: int | None = None) -> list[Entry]:
        refs = self._member_refs(scope, leader, 0, 0, -1 if limit is None else limit)
        return [entry for entry in self.by_refs(refs) if entry is not None]

    def member_page(self, scope: str, leader: str, after: int, skip: int, limit: int) -> list[Entry]:
        return self._heads(self._member_refs(scope, leader, after, skip, limit))

    def _member_refs(self, scope: str, leader: str, after: int, skip: int, limit: int) -> list[int]:
        return self._refs_behind(self._key("n:") + id_key(scope, leader), after, skip, limit)

    def _refs_behind(self, key: bytes, after: int, skip: int, limit: int) -> list[int]:
        """Returns numbers of a sorted set, ascending; a limit of -1 is none."""
        with self._failing():
            return list(map(int, self._client.zrangebyscore(key, f"({after}", "+inf", start=skip, num=limit)))

    def member_count(self, scope: str, leader: str) -> int:
        with self._failing():
            return int(self._client.zcard(self._key("n:") + id_key(scope, leader)))

    def scan(self, scope: str | None = None, *, content: bool = True) -> Iterator[Entry]:
        portions = self._all_refs() if scope is None else self._refs_of_scope(scope)
        sizes = Portions(PORTION)
        for refs in portions:
            if not content:
                yield from self._heads(refs)
                continue
            while refs:
                some, refs = refs[: sizes.size], refs[sizes.size :]
                entries = [entry for entry in self.by_refs(some) if entry is not None]
                sizes.read(len(some), content_size(entries))
                yield from entries

    def _refs_of_scope(self, scope: str) -> Iterator[list[int]]:
        key, last = self._key("s:") + scope.encode(), 0
        while refs := self._refs_behind(key, last, 0, PORTION):
            last = refs[-1]
            yield refs

    def _all_refs(self) -> Iterator[list[int]]:
        with self._failing():
            groups = self._groups()
        for group in groups:
            with self._failing():
                fields = self._client.hkeys(self._key("e:") + b"%d" % group)
            yield sorted(group * ENTRIES + int(field) for field in fields)

    def scopes(self) -> Iterator[str]:
        seen: set[bytes] = set()
        with self._failing():
            for name in self._client.sscan_iter(self._key("scopes"), count=PORTION):
                if name not in seen:
                    seen.add(name)
                    yield name.decode()

    def due(self, before: float, posted: bool) -> Iterator[Entry]:
        seen, member = b"", b""
        name = b"posted" if posted else b"seen"
        while True:
            with self._failing():
                rows = self._due_script(args=[self._prefix, name, seen, member, PORTION])
            if not rows:
                return
            due = [(int(ref), float(at)) for ref, at in zip(rows[::2], rows[1::2], strict=True) if float(at) < before]
            member, seen = rows[-2:]
            yield from self._heads([ref for ref, _ in due])
            if 2 * len(due) < len(rows):
                return

    def posting_portion(self, place: Any, most: int) -> PostingPortion:
        with self._failing():
            cursor, names = self._client.scan(place or 0, match=_literal(self._key("b:")) + b"*", count=max(1, most // GROUP))
            pipe = self._client.pipeline(transaction=False)
            for name in names:
                pipe.hgetall(name)
            held: dict[bytes, bytes] = {}
            for some in pipe.execute():
                held |= some
        sizes = [len(words) // WORD.size for words in held.values()]
        keys = np.repeat(np.frombuffer(b"".join(held), "<u8"), sizes)
        return PostingPortion(keys, np.frombuffer(b"".join(held.values()), "<i8"), cursor or None)

    def times(self) -> list[float]:
        with self._failing():
            seconds, microseconds = self._client.time()
        return [seconds + microseconds / 1e6]

    def median_seen(self) -> float | None:
        return None

    def take_turn(self, work: str, holder: str, seconds: float) -> bool:
        milliseconds = max(1, round(seconds * 1000))
        with self._failing():
            return bool(self._turn_script(args=[self._key(f"turn:{work}"), holder, milliseconds]))

    def log_end(self) -> int:
        with self._failing():
            pipe = self._client.pipeline(transaction=True)
            pipe.get(self._key("log-dropped"))
            pipe.llen(self._key("log"))
            dropped, there = pipe.execute()
        return int(dropped or 0) + int(there)

    def events(self, after: int | None = None) -> Iterator[Event]:
        last = after or 0
        while True:
            with self._failing():
                lines = self._lines_script(args=[self._prefix, last, LOG_PORTION])
            start, *rows = lines
            if not rows:
                return
            last = int(start) + len(rows)
            yield from (Event(*json.loads(line)) for line in rows)

    def counts(self) -> dict[str, int]:
        with self._failing():
            counted = {name.decode(): int(value) for name, value in self._client.hgetall(self._key("counts")).items()}
            used = int(self._client.info("memory")["used_memory"])
        return {"records": 0, "leaders": 0, "postings": 0, "evicted": 0, **counted, "bytes": used}

    @property
    def durability(self) -> str:
        try:
            facts: dict[str, str] = self._client.config_get("appendonly", "appendfsync", "save")
        except self._errors:
            return "unknown: the server does not tell its configuration (CONFIG GET)"
        if facts.get("appendonly") == "yes":
            synced = {"always": "before it is acknowledged", "everysec": "within a second"}
            when = synced.get(facts.get("appendfsync", ""), "when the operating system decides")
            return f"appended to a file and synced {when}: a power cut loses what was not synced"
        if facts.get("save"):
            return f"in snapshots (save {facts['save']}): a killed server loses what came after the last one"
        return "kept in the server's memory: a restart of the server loses the index"

    def close(self) -> None:
        self._client.close()


def _literal(prefix: bytes) -> bytes:
    """As a pattern that matches nothing else.

    Examples:
        >>> print(_literal(b"kin[1]*:").decode())
        kin\\[1\\]\\*:
    """
    return re.sub(rb"([\\*?\[\]^-])", rb"\\\1", prefix)


def _place(ref: int) -> tuple[bytes, bytes]:
    return b"%d" % (ref // ENTRIES), b"%d" % (ref % ENTRIES)


def _shown(url: str) -> str:
    """Without a password."""
    parts = urlsplit(url)
    host = parts.netloc.rpartition("@")[2]
    return urlunsplit(parts._replace(netloc=host, query=""))
