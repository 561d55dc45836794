package redis

import (
	"fmt"
	"testing"

	"github.com/setpoint-dev/setpoint/internal/fatal"
	"github.com/setpoint-dev/setpoint/store"
	"github.com/setpoint-dev/setpoint/store/redis/redistest"
)

// neighbourOf is a key of another cluster in the same part of the feed.
func neighbourOf(s *Store, key store.Key) store.Key {
	neighbour := store.Key{Cluster: "c2", Namespace: "n"}
	for i := 0; neighbour.Target == "" || s.layout.bucket(neighbour)/feedBuckets != s.layout.bucket(key)/feedBuckets; i++ {
		neighbour.Target = fmt.Sprint(i)
	}
	return neighbour
}

// A user who lacks the rights for shares keeps a feed, with the oldest dropped. One who has them keeps it also where its
// index is lost, as by a Redis that evicts keys.
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
