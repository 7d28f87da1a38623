"""The Lua scripts of the Redis store. Each script runs atomically in the server.

The first two arguments of most scripts are the prefix of the keys and the mask of the bucket
hashes. Keys are built in the scripts, so the store does not run on a Redis cluster of several
nodes.
"""

COMMON = """
local P = ARGV[1]
local mask = tonumber(ARGV[2])
local function bucket(key)
  local low = string.char(bit.band(string.byte(key, 3), mask))
  return P .. 'b:' .. string.sub(key, 1, 2) .. low
end
"""
"""A function that returns the name of the hash of a bucket."""
DOCUMENT_SETS = """
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
"""Functions that keep the sorted sets of documents by scope and by the time when they were seen.

They read fields of a packed entry at the offsets of `packing.HEAD`, counted from 1.
"""

READ_HEADS = (
    COMMON
    + DOCUMENT_SETS
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
"""Returns packed entries without their content."""
READ_DUE = """
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
"""Returns the documents behind a time and a number, in the order of both.

A temporary member of the sorted set finds the place.
"""

READ_BUCKETS = (
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
"""Returns the size of each bucket, and the postings of all buckets."""
FIND_IDS = """
local out, fields = {}, ARGV[2]
for at = 1, #fields, 16 do
  local field = string.sub(fields, at, at + 15)
  local held = redis.call('HGET', ARGV[1] .. 'i:' .. string.sub(field, 1, 2), field)
  out[#out + 1] = held and string.sub(held, 1, 8) or '\\0\\0\\0\\0\\0\\0\\0\\0'
end
return table.concat(out)
"""
"""Returns the number of the document of each id, 0 if it is not stored."""
APPLY = (
    COMMON
    + DOCUMENT_SETS
    + """
local most = tonumber(ARGV[3])
local note, step = P .. 'step:' .. ARGV[4], ARGV[5]
if redis.call('GET', note) == step then return '' end
local function cut(held, ref)
  local rest, gone = {}, 0
  for at = 1, #held, 8 do
    if string.sub(held, at + 3, at + 7) == ref then
      gone = gone + 1
    else
      rest[#rest + 1] = string.sub(held, at, at + 7)
    end
  end
  return table.concat(rest), gone
end
local function number(ref)
  local a, b, c, d, e = string.byte(ref, 1, 5)
  return a + 256 * (b + 256 * (c + 256 * (d + 256 * e)))
end
local function beyond(key) return P .. 'x:' .. key end
local function evict(key, count)
  if count == 0 then return end
  redis.call('HINCRBY', P .. 'counts', 'evicted', count)
end
local i = 7
while ARGV[i] ~= 'W' do
  local op, field = ARGV[i], ARGV[i + 1]
  if op == 'F' and (redis.call('HGET', P .. 'place', 'epoch') or '0') ~= field then
    return 'moved'
  end
  local held = redis.call('HGET', P .. 'i:' .. string.sub(field, 1, 2), field)
  if op == 'A' and held then return 'a document with this id exists already' end
  if op == 'R' and (not held or string.sub(held, 1, 8) ~= ARGV[i + 2]) then
    return 'a document was deleted by another process'
  end
  if op == 'L' and held ~= ARGV[i + 2] then
    return 'a representative was deleted by another process'
  end
  if op == 'B' and not redis.call('ZSCORE', P .. 'n:' .. field, ARGV[i + 2]) then
    return 'a document was resolved to another representative by another process'
  end
  if op == 'S' then
    local seen, count = {}, 0
    for ref in string.gmatch(ARGV[i + 2], '%d+') do seen[ref], count = true, count + 1 end
    local members = redis.call('ZRANGE', P .. 'n:' .. field, 0, count)
    if #members ~= count then return 'another process has changed the members of a cluster' end
    for _, ref in ipairs(members) do
      if not seen[ref] then return 'another process has changed the members of a cluster' end
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
      local was_full, gone = #held >= 8 * most, 0
      if c == 'again' or op == 'p' then
        held, gone = cut(held, ref)
        if was_full and gone == 0 then
          evict(key, -redis.call('ZREMRANGEBYSCORE', beyond(key), number(ref), number(ref)))
        end
      end
      delta = delta - gone
      if op == 'P' then
        held = held .. b
        delta = delta + 1
        if #held > 8 * most then
          local last = string.sub(held, -16, -9)
          if number(string.sub(last, 4, 8)) > number(ref) then
            held = string.sub(held, 1, -17) .. b
          else
            held, last = string.sub(held, 1, -9), b
          end
          redis.call('ZADD', beyond(key), number(string.sub(last, 4, 8)), last)
          delta = delta - 1
          evict(key, 1)
        end
      elseif was_full and gone > 0 then
        for _, word in ipairs(redis.call('ZRANGE', beyond(key), 0, gone - 1)) do
          redis.call('ZREM', beyond(key), word)
          held = held .. word
          delta = delta + 1
          evict(key, -1)
        end
      end
      if #held > 0 then
        redis.call('HSET', name, key, held)
      elseif gone > 0 then
        redis.call('HDEL', name, key)
      end
    end
    redis.call('HINCRBY', P .. 'counts', 'postings', delta)
  end
  i = i + 4
end
redis.call('SET', note, step, 'EX', ARGV[6])
return ''
"""
)
"""Checks the conditions of a step, then writes it. Returns the reason if it was refused."""
TAKE_TURN = """
local held = redis.call('GET', ARGV[1])
if held and held ~= ARGV[2] then return 0 end
redis.call('DEL', ARGV[1])
redis.call('SET', ARGV[1], ARGV[2], 'PX', ARGV[3])
return 1
"""
"""Takes a turn.

The script begins with a deletion, because Redis runs such a script even if its memory is full, and
a sweep must be able to free memory.
"""

READ_LOG = """
local dropped = tonumber(redis.call('GET', ARGV[1] .. 'log-dropped') or '0')
local start = math.max(tonumber(ARGV[2]), dropped)
local first = start - dropped
local lines = redis.call('LRANGE', ARGV[1] .. 'log', first, first + tonumber(ARGV[3]) - 1)
table.insert(lines, 1, start)
return lines
"""
"""Returns lines of the change log. The first value is the number of the first line."""

DROP_LINES = """
local over = tonumber(ARGV[2]) - tonumber(redis.call('GET', ARGV[1] .. 'log-dropped') or '0')
if over > 0 then
  redis.call('LTRIM', ARGV[1] .. 'log', over, -1)
  redis.call('INCRBY', ARGV[1] .. 'log-dropped', over)
end
"""
"""Deletes the first lines of the change log."""

REDIRECT = """
if redis.call('HGET', ARGV[1] .. 'place', 'writer') == ARGV[5] then return 1 end
if tonumber(redis.call('HGET', ARGV[1] .. 'place', 'epoch') or '0') >= tonumber(ARGV[2]) then
  return 0
end
local place = ARGV[1] .. 'place'
redis.call('HSET', place, 'epoch', ARGV[2], 'phase', ARGV[3], 'urls', ARGV[4], 'writer', ARGV[5])
return 1
"""
"""Writes the state of a migration, unless the store has reached its epoch."""
