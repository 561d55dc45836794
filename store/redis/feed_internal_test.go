package redis

import (
	"fmt"
	"slices"
	"strconv"
	"testing"

	"github.com/setpoint-dev/setpoint/internal/fatal"
	"github.com/setpoint-dev/setpoint/store"
	"github.com/setpoint-dev/setpoint/store/redis/redistest"
)

// The scripts of the feed before entries had tenants' shares: instances of that version may run
// beside ours during an upgrade.
var (
	oldFeedScript = newScript(`local t = redis.call('TIME')
local ms = t[1] * 1000 + math.floor(t[2] / 1000)
local number = ms * 1000
local last = redis.call('XREVRANGE', KEYS[1], '+', '-', 'COUNT', 1)[1]
if last then
  local at, n = string.match(last[1], '^(%d+)-(%d+)$')
  ms, number = math.max(ms, tonumber(at)), tonumber(n)
end
for i = 3, #ARGV, 2 do
  number = number + 1
  local name = (last or i > 3) and 't' or 'first'
  redis.call('XADD', KEYS[1], 'MAXLEN', '~', ARGV[1], string.format('%.0f-%.0f', ms, number), name, ARGV[i], 'v', ARGV[i + 1])
end
if ARGV[2] ~= '0' then redis.call('PEXPIRE', KEYS[1], ARGV[2]) end
return redis.status_reply('OK')`)

	oldReadFeedScript = newScript(`local last = redis.call('XREVRANGE', KEYS[1], '+', '-', 'COUNT', 1)[1]
local all, bytes = {last and last[1] or ''}, 0
if ARGV[2] == '0' or not last then return all end
for _, e in ipairs(redis.call('XRANGE', KEYS[1], '(' .. ARGV[1], '+', 'COUNT', ARGV[2])) do
  all[#all + 1], all[#all + 2], all[#all + 3], all[#all + 4] = e[1], e[2][1] or '', e[2][2] or '', e[2][4] or ''
  bytes = bytes + #all[#all]
  if bytes >= tonumber(ARGV[3]) then break end
end
return all`)
)

// Two versions share a feed: both read what both write, in one order, with numbers that are
// consecutive as long as nothing was dropped; the bound holds, and shares count once the older
// version is gone.
func TestTwoVersionsShareTheFeed(t *testing.T) {
	t.Parallel()
	const length = 400 // a part
	s := openOn(t, redistest.Shared(t).URL(), redistest.Prefix(t), func(o *Options) { o.FeedLength = feedParts * length })
	key := store.Key{Cluster: "c", Namespace: "n", Target: "t"}
	part := s.layout.bucket(key) / feedBuckets
	name := "c/n/t"
	neighbour := neighbourOf(s, key)
	older := func(values ...string) {
		args := []any{strconv.Itoa(length), "0"}
		for _, v := range values {
			args = append(args, name, v)
		}
		fatal.If(t, s.client.Do(t.Context(), oldFeedScript.args(true, []string{s.layout.feed(part)}, args...)...).Err())
	}
	ours := func(values ...string) {
		var entries []store.FeedEntry
		for _, v := range values {
			entries = append(entries, store.FeedEntry{Key: key, Value: []byte(v)})
		}
		fatal.If(t, s.AppendFeed(t.Context(), entries))
	}
	read := func(by func(after store.FeedPosition) store.FeedPage) (values []string, numbers []uint64) {
		var after store.FeedPosition
		for {
			page := by(after)
			if len(page.Items) == 0 {
				return values, numbers
			}
			for _, item := range page.Items {
				values, numbers = append(values, string(item.Value)), append(numbers, item.Position.Number)
				after = item.Position
			}
		}
	}
	byOurs := func(after store.FeedPosition) store.FeedPage {
		pages, err := s.ReadFeed(t.Context(), []store.FeedRead{{Part: part, After: after}}, 500)
		fatal.If(t, err)
		return pages[0]
	}
	byOlder := func(after store.FeedPosition) store.FeedPage {
		reply, err := s.client.Do(t.Context(), oldReadFeedScript.args(true, []string{s.layout.feed(part)}, feedID(after), 500, 32<<10)...).Result()
		fatal.If(t, err)
		page, err := feedPage(reply)
		fatal.If(t, err)
		return page
	}
	large := string(make([]byte, 8<<10)) // what the older version may write
	var want []string
	for i := range 40 {
		own := []string{fmt.Sprint(i, " ours"), fmt.Sprint(i, " ours too")}
		ours(own...)
		older(fmt.Sprint(i, " older"), large)
		want = append(append(want, own...), fmt.Sprint(i, " older"), large)
	}
	for who, by := range map[string]func(store.FeedPosition) store.FeedPage{"ours": byOurs, "older": byOlder} {
		values, numbers := read(by)
		if !slices.Equal(values, want) {
			t.Errorf("%s reads %d values, want %d in order", who, len(values), len(want))
		}
		for i := 1; i < len(numbers); i++ {
			if numbers[i] != numbers[i-1]+1 {
				t.Fatalf("%s: %d comes after %d", who, numbers[i], numbers[i-1])
			}
		}
	}
	// The older one trims what the index of ours still has.
	for range length / 10 {
		fatal.If(t, s.AppendFeed(t.Context(), []store.FeedEntry{{Key: neighbour, Value: []byte("neighbour")}}))
	}
	for range 10 * length {
		older("x")
	}
	ours("after")
	if values, _ := read(byOurs); len(values) < length || len(values) > length+101 || values[len(values)-1] != "after" {
		t.Errorf("%d values are left, the last is %q", len(values), values[len(values)-1])
	}
	for range 3 * length { // the older one is gone
		ours("ours")
	}
	values, _ := read(byOurs)
	indexed, err := s.client.ZCard(t.Context(), s.layout.feedIndex(part)).Result()
	if most := length + feedStep(length); err != nil || len(values) < length || len(values) > most || int(indexed) > len(values) {
		t.Errorf("%d values and %d in the index are left, %v, want %d to %d", len(values), indexed, err, length, most)
	}
}

// neighbourOf is a key of another cluster in the same part of the feed.
func neighbourOf(s *Store, key store.Key) store.Key {
	neighbour := store.Key{Cluster: "c2", Namespace: "n"}
	for i := 0; neighbour.Target == "" || s.layout.bucket(neighbour)/feedBuckets != s.layout.bucket(key)/feedBuckets; i++ {
		neighbour.Target = fmt.Sprint(i)
	}
	return neighbour
}

// A user who was given the rights of an earlier version keeps a feed, with the oldest dropped. One with those of today
// keeps it also where its index is lost, as by a Redis that evicts keys.
func TestTheFeedWithoutTheRightsForShares(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.Config{})
	admin := server.Client(t)
	for user, without := range map[string][]any{"neither": {"-xlen", "-xdel"}, "nodelete": {"-xdel"}, "nolength": {"-xlen"}, "documented": {"-zscore"}} {
		rules := append([]any{"acl", "setuser", user, "on", ">secret", "~*", "+@all"}, without...)
		fatal.If(t, admin.Do(t.Context(), rules...).Err())
		s := openOn(t, fmt.Sprintf("redis://%s:secret@%s", user, server.Addr()), redistest.Prefix(t), func(o *Options) { o.FeedLength = feedParts * 200 })
		part, other := s.layout.bucket(swapped)/feedBuckets, swapped
		for i := range 3000 {
			if i == 1500 {
				other = neighbourOf(s, swapped)
				fatal.If(t, admin.Del(t.Context(), s.layout.feedIndex(part)).Err())
			}
			if err := s.AppendFeed(t.Context(), []store.FeedEntry{{Key: swapped, Value: []byte(fmt.Sprint(i))}}); err != nil {
				t.Fatalf("%s: %v", user, err)
			}
			if err := s.AppendFeed(t.Context(), []store.FeedEntry{{Key: other}}); err != nil {
				t.Fatalf("%s: %v", user, err)
			}
		}
		length, err := admin.XLen(t.Context(), s.layout.feed(part)).Result()
		if err != nil || length < 200 || length > 310 {
			t.Errorf("%s: the feed has %d entries, %v", user, length, err)
		}
	}
}
