package redis

import (
	"crypto/sha1" //nolint:gosec // Redis names scripts by it.
	"encoding/hex"
)

// script is a Lua script. It is sent by its hash, and whole only to a server that does
// not have it. Scripts name all their keys and contain no scaling rule. All but
// appendScript, keepScript and feedScript are idempotent.
type script struct {
	source string
	// hash is a string, boxed once.
	hash any
}

func newScript(source string) *script {
	sum := sha1.Sum([]byte(source)) //nolint:gosec // as above
	return &script{source, hex.EncodeToString(sum[:])}
}

// args returns the command's arguments, with the hash or the whole script.
func (s *script) args(whole bool, keys []string, argv ...any) []any {
	args := s.appendHead(make([]any, 0, 3+len(keys)+len(argv)), whole, len(keys))
	for _, key := range keys {
		args = append(args, key)
	}
	return append(args, argv...)
}

// appendHead appends the arguments before the keys, including the number of keys.
func (s *script) appendHead(args []any, whole bool, keys int) []any {
	if whole {
		return append(args, "eval", s.source, keys)
	}
	return append(args, "evalsha", s.hash, keys)
}

// Scripts. The version is the first 9 bytes of a record.
//
// Those that change records and the index write once, for Redis propagates a script that wrote
// more often as MULTI … EXEC, and a Redis whose user default has no rights refuses each such EXEC
// when it loads its append-only file, without a word: it has lost those writes then
// (https://github.com/redis/redis/issues/14541). What belongs to a write is a command beside it in the
// same round trip. Between them others may act, so each must be right alone.
var (
	// swapScript replaces a record whose version is ARGV[1] by ARGV[2], which lives for
	// ARGV[3] milliseconds (0: for ever). It returns 1 if it did, now or in an earlier
	// attempt, else the conflicting record, nil for none. With ARGV[4] it does so on a full server
	// too, which takes what a script writes after its DEL.
	swapScript = newScript(`local v = redis.call('GETRANGE', KEYS[1], 0, 8)
if v ~= ARGV[1] then
  if v == string.sub(ARGV[2], 1, 9) then return 1 end
  return redis.call('GET', KEYS[1])
end
if ARGV[4] then
  local set = {'SET', KEYS[1], ARGV[2]}
  if ARGV[3] ~= '0' then set[4], set[5] = 'PX', ARGV[3] end
  local reply = redis.pcall(unpack(set))
  if not reply.err then return 1 end
  if not string.find(reply.err, 'OOM ', 1, true) then return reply end
  redis.call('DEL', KEYS[1])
  redis.call(unpack(set))
elseif ARGV[3] == '0' then redis.call('SET', KEYS[1], ARGV[2]) else redis.call('SET', KEYS[1], ARGV[2], 'PX', ARGV[3]) end
return 1`)

	// createScript is swapScript for a key that does not exist. ARGV[4] is in the index
	// KEYS[2] by a ZADD ahead of it, which makes the one here no write, unless that
	// failed or a purge came between them.
	createScript = newScript(`local v = redis.call('GET', KEYS[1])
if v then
  if string.sub(v, 1, 9) == string.sub(ARGV[2], 1, 9) then return 1 end
  return v
end
if ARGV[3] == '0' then redis.call('SET', KEYS[1], ARGV[2]) else redis.call('SET', KEYS[1], ARGV[2], 'PX', ARGV[3]) end
redis.call('ZADD', KEYS[2], 0, ARGV[4])
return 1`)

	// deleteVersionScript removes the record KEYS[1] if its version is ARGV[1]. It returns 1
	// if it did, else the conflicting record, nil for none.
	deleteVersionScript = newScript(`if redis.call('GETRANGE', KEYS[1], 0, 8) ~= ARGV[1] then return redis.call('GET', KEYS[1]) end
return redis.call('DEL', KEYS[1])`)

	// deleteScript removes the record KEYS[1] and the log, KEYS[2] and KEYS[3]. It returns 1 if there
	// was a record, else 0. With ARGV[1] it marks the deletion as well, as markDeletionScript
	// does: a full server takes no mark alone, and one with what it frees.
	deleteScript = newScript(`local n = redis.call('EXISTS', KEYS[1])
redis.call('DEL', KEYS[1], KEYS[2], KEYS[3])
if n == 1 and ARGV[1] then
  local t = redis.call('TIME')
  redis.call('SET', KEYS[4], string.format('%d%06d000', t[1], t[2]), 'PX', ARGV[1])
end
return n`)

	// markDeletionScript stores the server's time in KEYS[2], in nanoseconds, for ARGV[1]
	// milliseconds, if there is a record KEYS[1].
	markDeletionScript = newScript(`if redis.call('EXISTS', KEYS[1]) == 1 then
  local t = redis.call('TIME')
  redis.call('SET', KEYS[2], string.format('%d%06d000', t[1], t[2]), 'PX', ARGV[1])
end
return 0`)

	// appendScript appends ARGV[1] to the list KEYS[1] of a log, which keeps ARGV[2] entries. It
	// begins with the number ARGV[3], or with one that follows what the entries in KEYS[2], that are
	// kept longer, came after. With ARGV[4] '1' it appends to an empty log only. It
	// returns OK, or 0 if a key's value is not a log. An LTRIM before those of a round trip makes
	// the one here no write, unless they are more than the list keeps; a PEXPIRE after them says how
	// long the list lives.
	appendScript = newScript(`local last, number = redis.call('LINDEX', KEYS[1], -1), tonumber(ARGV[3])
if last then
  if #last < 8 or string.byte(last) ~= 1 then return 0 end
  if ARGV[4] == '1' then return redis.status_reply('OK') end
  number = struct.unpack('>I7', last, 2) + 1
else
  local kept = redis.call('LINDEX', KEYS[2], -1)
  if kept then
    if #kept < 15 or string.byte(kept) ~= 2 then return 0 end
    if ARGV[4] == '1' then return redis.status_reply('OK') end
    number = math.max(number, struct.unpack('>I7', kept, 9) + 1)
  end
end
local length = redis.call('RPUSH', KEYS[1], string.char(1) .. struct.pack('>I7', number) .. ARGV[1])
if length > tonumber(ARGV[2]) then redis.call('LTRIM', KEYS[1], '-' .. ARGV[2], -1) end
return redis.status_reply('OK')`)

	// keepScript is appendScript for an entry that is kept longer, in the list KEYS[1], beside the
	// others in KEYS[2]. The entry has the number of the last of these, which it comes after.
	keepScript = newScript(`local last, other = redis.call('LINDEX', KEYS[1], -1), redis.call('LINDEX', KEYS[2], -1)
if last and (#last < 15 or string.byte(last) ~= 2) or other and (#other < 8 or string.byte(other) ~= 1) then return 0 end
if ARGV[4] == '1' and (last or other) then return redis.status_reply('OK') end
local number, after = ARGV[3] - 1, 0
if last then number, after = struct.unpack('>I7I7', last, 2) end
if other then after = math.max(after, (struct.unpack('>I7', other, 2))) end
local length = redis.call('RPUSH', KEYS[1], string.char(2) .. struct.pack('>I7I7', number + 1, after) .. ARGV[1])
if length > tonumber(ARGV[2]) then redis.call('LTRIM', KEYS[1], '-' .. ARGV[2], -1) end
return redis.status_reply('OK')`)

	// readScript returns up to ARGV[3] elements of a log, newest first: of the list KEYS[1] those before
	// the number ARGV[1], and of KEYS[2], where the entries are that are kept longer, those before
	// ARGV[2]; all if a number is empty. The two numbers that the next page is before precede them, and
	// how many elements it has at most. It returns 0 if a key's value is not a log.
	readScript = newScript(`local function list(key, before, header, format)
  local first = redis.call('LINDEX', key, 0)
  if not first then return 0, 0 end
  if #first < header or string.byte(first) ~= format then return end
  local number, n = struct.unpack('>I7', first, 2), redis.call('LLEN', key)
  if before ~= '' then n = math.max(0, math.min(tonumber(before) - number, n)) end
  return number, n
end
local first, n = list(KEYS[1], ARGV[1], 8, 1)
local firstKept, kept = list(KEYS[2], ARGV[2], 15, 2)
if not first or not firstKept then return 0 end
local page, left, head = {0, 0, 0}, tonumber(ARGV[3]), nil
local function take(key, to, some)
  local elements = redis.call('LRANGE', key, to - some, to - 1)
  for i = #elements, 1, -1 do page[#page + 1] = elements[i] end
  left = left - some
end
while left > 0 and n + kept > 0 do
  local newer = n -- than the newest of those kept longer
  if n > 0 and kept > 0 then
    head = head or redis.call('LINDEX', KEYS[2], kept - 1)
    if #head < 15 or string.byte(head) ~= 2 then return 0 end
    newer = math.max(0, math.min(n, first + n - 1 - struct.unpack('>I7', head, 9)))
  end
  if newer > 0 then
    local some = math.min(newer, left)
    take(KEYS[1], n, some)
    n = n - some
  elseif n > 0 then
    page[#page + 1], head, kept, left = head, nil, kept - 1, left - 1
  else
    local some = math.min(kept, left)
    take(KEYS[2], kept, some)
    kept = kept - some
  end
end
page[1], page[2], page[3] = first + n, firstKept + kept, n + kept
return page`)

	// feedScript appends to the stream KEYS[1], which keeps ARGV[1] entries, up to ARGV[5] more, and
	// lives for ARGV[2] milliseconds from now on (0: for ever), names and values in turn. The first
	// number of a stream is the time in microseconds, which is larger than those of a lost stream. The
	// name of its first entry has a field of its own.
	//
	// Each ARGV[5]-th entry settles those since the last one, with some commands for all of them and
	// two for a tenant: it enters them into the sorted set KEYS[2] by cluster, namespace and id, and
	// removes an entry in place of each that is too many, see store.Feed; a namespace's share is
	// ARGV[3] entries, a cluster's ARGV[4]. Entries of an earlier version, which are not in the set, go
	// first; if that version has trimmed the stream, the set has more entries, and starts again.
	// Without the right to xlen or xdel the oldest entries go.
	feedScript = newScript(`local t = redis.call('TIME')
local ms = t[1] * 1000 + math.floor(t[2] / 1000)
local number = ms * 1000
local last = redis.call('XREVRANGE', KEYS[1], '+', '-', 'COUNT', 1)[1]
if last then
  local at, n = string.match(last[1], '^(%d+)-(%d+)$')
  ms, number = math.max(ms, tonumber(at)), tonumber(n)
end
local most, step = tonumber(ARGV[1]), tonumber(ARGV[5])

-- tenant returns the cluster and the namespace of an entry.
local function tenant(entry)
  local both, cluster = string.match(entry[2][2] or '', '^(([^/]*)/[^/]*)/')
  return cluster or '', both or ''
end

-- settle returns whether it had the right to.
local function settle()
  local length = redis.pcall('XLEN', KEYS[1])
  if type(length) ~= 'number' then return false end
  local indexed, excess = redis.call('ZLEXCOUNT', KEYS[2], '-', '+'), math.min(length - most, 2 * step)
  if indexed > length then
    redis.call('DEL', KEYS[2])
    indexed = 0
  end
  local newest = redis.call('XREVRANGE', KEYS[1], '+', '-', 'COUNT', math.min(math.max(length - indexed, excess, step), 2 * step))
  local adds, clusters, namespaces = {}, {}, {}
  for i, e in ipairs(newest) do
    clusters[i], namespaces[i] = tenant(e)
    adds[2 * i - 1], adds[2 * i] = 0, namespaces[i] .. '/' .. e[1]
  end
  if #adds > 0 then indexed = indexed + redis.call('ZADD', KEYS[2], unpack(adds)) end
  if ARGV[2] ~= '0' then redis.call('PEXPIRE', KEYS[2], ARGV[2]) end
  if excess <= 0 or #adds == 0 then return true end
  local oldest, at = redis.call('XRANGE', KEYS[1], '-', '+', 'COUNT', excess), 0
  local gone, members, ids = {}, {}, {}
  local left, own = {}, {} -- by tenant: how many entries it has, and its first ones
  local function range(of) return '[' .. of .. '/', '(' .. of .. '0' end -- 0 follows /
  local function over(of, share)
    if not left[of] then
      local from, to = range(of)
      left[of] = redis.call('ZLEXCOUNT', KEYS[2], from, to)
    end
    return left[of] > share
  end
  local function first(of)
    if not own[of] then
      local from, to = range(of)
      own[of] = {at = 1, members = redis.call('ZRANGE', KEYS[2], from, to, 'BYLEX', 'LIMIT', 0, excess)}
    end
    local o = own[of]
    while gone[o.members[o.at] or ''] do o.at = o.at + 1 end
    return o.members[o.at]
  end
  for i = math.min(excess, #newest), 1, -1 do
    local its, theirs, victim
    repeat
      at = at + 1
      its, theirs = tenant(oldest[at])
      victim = theirs .. '/' .. oldest[at][1]
    until not gone[victim]
    local replaced
    if theirs == namespaces[i] or indexed < length and redis.call('ZLEXCOUNT', KEYS[2], '[' .. victim, '[' .. victim) == 0 then
      -- its own, or an earlier version's: it goes
    elseif over(namespaces[i], tonumber(ARGV[3])) then
      replaced = first(namespaces[i])
    elseif its ~= clusters[i] and over(clusters[i], tonumber(ARGV[4])) then
      replaced = first(clusters[i])
    end
    if replaced then
      victim, at = replaced, at - 1
      its, theirs = clusters[i], string.match(victim, '^[^/]*/[^/]*')
    end
    gone[victim] = true
    members[#members + 1], ids[#ids + 1] = victim, string.sub(victim, #theirs + 2)
    if left[its] then left[its] = left[its] - 1 end
    if left[theirs] then left[theirs] = left[theirs] - 1 end
  end
  if type(redis.pcall('XDEL', KEYS[1], unpack(ids))) ~= 'number' then return false end
  redis.call('ZREM', KEYS[2], unpack(members))
  return true
end

for i = 6, #ARGV, 2 do
  number = number + 1
  local id = string.format('%.0f-%.0f', ms, number)
  local field = (last or i > 6) and 't' or 'first'
  if number % step ~= 0 or settle() then
    redis.call('XADD', KEYS[1], id, field, ARGV[i], 'v', ARGV[i + 1])
  else
    redis.call('XADD', KEYS[1], 'MAXLEN', '~', ARGV[1], id, field, ARGV[i], 'v', ARGV[i + 1])
  end
end
if ARGV[2] ~= '0' then redis.call('PEXPIRE', KEYS[1], ARGV[2]) end
return redis.status_reply('OK')`)

	// readFeedScript returns the id of the newest entry of the stream KEYS[1], '' if there is none,
	// then id, the name's field, name and value of up to ARGV[2] entries after the id ARGV[1], as
	// long as one of ARGV[4] bytes of name and value fits into ARGV[3]. It reads as many at a time as
	// fit at worst, so that it reads none that it does not return.
	readFeedScript = newScript(`local last = redis.call('XREVRANGE', KEYS[1], '+', '-', 'COUNT', 1)[1]
local all = {last and last[1] or ''}
if not last or last[1] == ARGV[1] then return all end
local after, count, room, largest = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4])
while count > 0 and room >= largest do
  local step = math.min(count, math.floor(room / largest))
  local some = redis.call('XRANGE', KEYS[1], '(' .. after, '+', 'COUNT', step)
  for _, e in ipairs(some) do
    all[#all + 1], all[#all + 2], all[#all + 3], all[#all + 4] = e[1], e[2][1] or '', e[2][2] or '', e[2][4] or ''
    room = room - #all[#all - 1] - #all[#all]
    after = e[1]
  end
  if #some < step then break end
  count = count - step
end
return all`)

	// pingScript writes KEYS[1], which lives for a minute, and tries all commands without which records can't be kept, with
	// no effect: on the record KEYS[2], which no target has, and the index KEYS[3]. It returns those that the user may
	// not run, or 0: that differs from the reply of a successful swap, so that tests can tell them apart on the
	// wire. One that the server does not have is an error. It is a script because a server that cannot run scripts is of no use.
	pingScript = newScript(`local refused, unknown = {}, nil
local function try(...)
  local reply = redis.pcall(...)
  local why = type(reply) == 'table' and reply.err
  if not why then return end
  if string.find(why, 'nknown.* called from') then unknown = unknown or (...) end
  if not string.find(why, 'NOPERM', 1, true) and not string.find(why, 'ACL failure', 1, true) and
    not string.find(why, 'The user executing the script', 1, true) then return reply end
  refused[#refused + 1] = (...)
end
local failed = try('SET', KEYS[1], '', 'PX', 60000)
if failed then return failed end
try('GET', KEYS[1])
try('GETRANGE', KEYS[1], 0, 8)
try('STRLEN', KEYS[1])
try('EXISTS', KEYS[2])
try('DEL', KEYS[2])
try('PEXPIRE', KEYS[2], 1)
try('ZADD', KEYS[3], 'XX', 0, '')
try('ZRANGE', KEYS[3], '-', '+', 'BYLEX', 'LIMIT', 0, 0)
try('ZLEXCOUNT', KEYS[3], '-', '+')
try('ZREM', KEYS[3], '')
try('TIME')
if unknown then return redis.error_reply('ERR unknown command ' .. unknown .. ', which records need: is it renamed?') end
if #refused > 0 then return refused end
return 0`)

	// purgeScript removes ARGV[1] from the index KEYS[2] if the record KEYS[1] does not
	// exist.
	purgeScript = newScript(`if redis.call('EXISTS', KEYS[1]) == 0 then return redis.call('ZREM', KEYS[2], ARGV[1]) end
return 0`)

	// announceScript replaces the announcement ARGV[1] by ARGV[2] in KEYS[1], for ARGV[3]
	// milliseconds; either may be empty, for none. It removes expired ones, a hundred at a
	// time; the list ends with the last one. It returns OK.
	announceScript = newScript(`local t = redis.call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)
local ended = redis.call('ZRANGE', KEYS[1], '-inf', '(' .. now, 'BYSCORE', 'LIMIT', 0, 100)
if #ended > 0 then redis.call('ZREM', KEYS[1], unpack(ended)) end
if ARGV[1] ~= '' then redis.call('ZREM', KEYS[1], ARGV[1]) end
if ARGV[2] ~= '' then
  redis.call('ZADD', KEYS[1], now + ARGV[3], ARGV[2])
  redis.call('PEXPIRE', KEYS[1], redis.call('ZRANGE', KEYS[1], -1, -1, 'WITHSCORES')[2] - now)
end
return redis.status_reply('OK')`)

	// announcedScript returns up to ARGV[1] announcements of KEYS[1] that have not expired.
	announcedScript = newScript(`local t = redis.call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)
return redis.call('ZRANGE', KEYS[1], now, '+inf', 'BYSCORE', 'LIMIT', 0, ARGV[1])`)
)
