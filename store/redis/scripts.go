package redis

import (
	"crypto/sha1" //nolint:gosec // Redis names scripts by it.
	"encoding/hex"
)

// script is a Lua script. It is sent by its hash, and whole only to a server that does
// not have it. Scripts name all their keys and contain no scaling rule. All but
// appendScript and feedScript are idempotent.
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
	// attempt, else the conflicting record, nil for none.
	swapScript = newScript(`local v = redis.call('GETRANGE', KEYS[1], 0, 8)
if v ~= ARGV[1] then
  if v == string.sub(ARGV[2], 1, 9) then return 1 end
  return redis.call('GET', KEYS[1])
end
if ARGV[3] == '0' then redis.call('SET', KEYS[1], ARGV[2]) else redis.call('SET', KEYS[1], ARGV[2], 'PX', ARGV[3]) end
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

	// deleteScript removes the record KEYS[1] and the log KEYS[2]. It returns 1 if there
	// was a record, else 0. With ARGV[1] it marks the deletion as well, as markDeletionScript
	// does: a full server takes no mark alone, and one with what it frees.
	deleteScript = newScript(`local n = redis.call('EXISTS', KEYS[1])
redis.call('DEL', KEYS[1], KEYS[2])
if n == 1 and ARGV[1] then redis.call('SET', KEYS[3], ARGV[1], 'PX', ARGV[2]) end
return n`)

	// markDeletionScript stores the time of deletion ARGV[1] in KEYS[2], for ARGV[2]
	// milliseconds, if there is a record KEYS[1].
	markDeletionScript = newScript(`if redis.call('EXISTS', KEYS[1]) == 1 then redis.call('SET', KEYS[2], ARGV[1], 'PX', ARGV[2]) end
return 0`)

	// appendScript appends ARGV[1] to the log KEYS[1], which keeps ARGV[2] entries. A log
	// begins with the number ARGV[3]. With ARGV[4] '1' it appends to an empty log only. It
	// returns OK, or 0 if the key's value is not a log. An LTRIM before it makes the one here
	// no write, unless several entries of a log share a round trip; a PEXPIRE after it
	// says how long the log lives.
	appendScript = newScript(`local last, number = redis.call('LINDEX', KEYS[1], -1), tonumber(ARGV[3])
if last then
  if #last < 8 or string.byte(last) ~= 1 then return 0 end
  if ARGV[4] == '1' then return redis.status_reply('OK') end
  number = struct.unpack('>I7', last, 2) + 1
end
local length = redis.call('RPUSH', KEYS[1], string.char(1) .. struct.pack('>I7', number) .. ARGV[1])
if length > tonumber(ARGV[2]) then redis.call('LTRIM', KEYS[1], '-' .. ARGV[2], -1) end
return redis.status_reply('OK')`)

	// readScript returns up to ARGV[2] elements of the log KEYS[1], the last of those
	// before the number ARGV[1], or of all if that is empty, in their order. It returns 0
	// if the key's value is not a log.
	readScript = newScript(`local last = -1
if ARGV[1] ~= '' then
  local first = redis.call('LINDEX', KEYS[1], 0)
  if not first then return {} end
  if #first < 8 or string.byte(first) ~= 1 then return 0 end
  last = math.min(tonumber(ARGV[1]) - struct.unpack('>I7', first, 2), redis.call('LLEN', KEYS[1])) - 1
  if last < 0 then return {} end
end
local from = last - ARGV[2] + 1
if last >= 0 and from < 0 then from = 0 end
return redis.call('LRANGE', KEYS[1], from, last)`)

	// feedScript appends to the stream KEYS[1], which keeps ARGV[1] entries and lives for ARGV[2]
	// milliseconds from now on (0: for ever), names and values in turn. A namespace's share of it
	// is ARGV[3] entries, a cluster's ARGV[4]. The first number of a stream is the time in microseconds, which is larger than those of a lost stream. The name of
	// its first entry has a field of its own. The sorted set KEYS[2] has the entries by cluster,
	// namespace and id: by it the script finds whose entry goes, see store.Feed. Entries of an earlier
	// version, which are not in it, go first; if that version has trimmed the stream, the set has
	// more entries, and starts again. Without the right to xlen or xdel the oldest entries go.
	feedScript = newScript(`local t = redis.call('TIME')
local ms = t[1] * 1000 + math.floor(t[2] / 1000)
local number = ms * 1000
local last = redis.call('XREVRANGE', KEYS[1], '+', '-', 'COUNT', 1)[1]
if last then
  local at, n = string.match(last[1], '^(%d+)-(%d+)$')
  ms, number = math.max(ms, tonumber(at)), tonumber(n)
end
local most = tonumber(ARGV[1])
local function count(of) return redis.call('ZLEXCOUNT', KEYS[2], '[' .. of .. '\0', '(' .. of .. '\1') end
local function first(of, not_this)
  for _, m in ipairs(redis.call('ZRANGE', KEYS[2], '[' .. of .. '\0', '(' .. of .. '\1', 'BYLEX', 'LIMIT', 0, 2)) do
    if m ~= not_this then return m end
  end
end
local length = redis.pcall('XLEN', KEYS[1])
local fair = type(length) == 'number'
if fair and redis.call('ZLEXCOUNT', KEYS[2], '-', '+') > length then redis.call('DEL', KEYS[2]) end
for i = 5, #ARGV, 2 do
  number = number + 1
  local id = string.format('%.0f-%.0f', ms, number)
  local field = (last or i > 5) and 't' or 'first'
  if not fair then
    redis.call('XADD', KEYS[1], 'MAXLEN', '~', ARGV[1], id, field, ARGV[i], 'v', ARGV[i + 1])
  else
    local cluster, namespace = string.match(ARGV[i], '^([^/]*)/([^/]*)/')
    namespace = cluster .. '\0' .. namespace
    local mine = namespace .. '\0' .. id
    redis.call('XADD', KEYS[1], id, field, ARGV[i], 'v', ARGV[i + 1])
    redis.call('ZADD', KEYS[2], 0, mine)
    length = length + 1
    for excess = 1, math.min(2, length - most) do
      local oldest = redis.call('XRANGE', KEYS[1], '-', '+', 'COUNT', 1)[1]
      local its, ns = string.match(oldest[2][2] or '', '^([^/]*)/([^/]*)/')
      local victim = (its or '') .. '\0' .. (ns or '') .. '\0' .. oldest[1]
      if redis.call('ZLEXCOUNT', KEYS[2], '[' .. victim, '[' .. victim) == 0 then
        -- an earlier version's: it goes
      elseif count(namespace) > tonumber(ARGV[3]) then
        victim = first(namespace)
      elseif its ~= cluster and count(cluster) > tonumber(ARGV[4]) then
        victim = first(cluster, mine) or victim
      end
      local gone = redis.pcall('XDEL', KEYS[1], string.match(victim, '[%d-]+$'))
      if type(gone) ~= 'number' then
        fair = false
        break
      end
      length = length - gone
      redis.call('ZREM', KEYS[2], victim)
    end
  end
end
if ARGV[2] ~= '0' then
  redis.call('PEXPIRE', KEYS[1], ARGV[2])
  redis.call('PEXPIRE', KEYS[2], ARGV[2])
end
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

	// pingScript writes KEYS[1], which lives for a minute. It is a script because a
	// server that cannot run scripts is of no use. Its reply differs from that of a
	// successful swap, so that tests can tell them apart on the wire.
	pingScript = newScript(`redis.call('SET', KEYS[1], '', 'PX', 60000)
return 0`)

	// purgeScript removes ARGV[1] from the index KEYS[2] if the record KEYS[1] does not
	// exist.
	purgeScript = newScript(`if redis.call('EXISTS', KEYS[1]) == 0 then return redis.call('ZREM', KEYS[2], ARGV[1]) end
return 0`)

	// announceScript replaces the announcement ARGV[1] by ARGV[2] in KEYS[1], for ARGV[3]
	// milliseconds; either may be empty, for none. It removes expired ones, a hundred at a
	// time. It returns OK.
	announceScript = newScript(`local t = redis.call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)
local ended = redis.call('ZRANGE', KEYS[1], '-inf', '(' .. now, 'BYSCORE', 'LIMIT', 0, 100)
if #ended > 0 then redis.call('ZREM', KEYS[1], unpack(ended)) end
if ARGV[1] ~= '' then redis.call('ZREM', KEYS[1], ARGV[1]) end
if ARGV[2] ~= '' then
  redis.call('ZADD', KEYS[1], now + ARGV[3], ARGV[2])
  redis.call('PEXPIRE', KEYS[1], ARGV[3])
end
return redis.status_reply('OK')`)

	// announcedScript returns up to ARGV[1] announcements of KEYS[1] that have not expired.
	announcedScript = newScript(`local t = redis.call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)
return redis.call('ZRANGE', KEYS[1], now, '+inf', 'BYSCORE', 'LIMIT', 0, ARGV[1])`)
)
