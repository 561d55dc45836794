package server_test

import (
	"testing"
	"time"

	"google.golang.org/grpc/codes"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/store/memory"
	"github.com/setpoint-dev/setpoint/store/redis"
	"github.com/setpoint-dev/setpoint/store/redis/redistest"
)

// Who found nothing to read, and stays away until what came then is dropped, is told that
// something is missing; who comes back in time misses nothing. On both stores.
func TestWatchersOfAnEmptyFeedLearnOfMissedDecisions(t *testing.T) {
	t.Parallel()
	for name, use := range map[string]func(*testing.T, *setup){
		"memory": func(_ *testing.T, su *setup) { su.log = memory.New(memory.Options{FeedLength: 8}) },
		"redis": func(t *testing.T, su *setup) {
			options, err := redis.ParseURL(redistest.Start(t, redistest.Config{}).URL())
			if err != nil {
				t.Fatal(err)
			}
			options.FeedLength, options.Timeout = 8, time.Minute // other tests may keep the processors busy
			engine, err := redis.New(options)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = engine.Close() })
			su.log = engine
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := start(t, func(su *setup) { use(t, su) })
			req := &setpointv1.WatchDecisionsRequest{Parent: targetNamed("a")}
			w := s.watch(t, req)
			w.cancel()
			w.wantEnd(codes.Canceled)
			s.decide(t, "a", 20)
			req.ResumeToken = w.token
			early := s.watch(t, req)
			early.want("a 2→2 NONE")
			last := ""
			for range 250 { // Redis drops them by the hundred
				s.clock.Advance(period)
				last = s.decide(t, "a", 60).GetRecommendationId()
			}
			for early.decision().GetDecision().GetRecommendationId() != last {
				// What comes to those who watch is no answer to who was away.
			}
			late := s.watch(t, req)
			if r := late.decision(); !r.GetMissedUncounted() {
				t.Errorf("the first decision that is left is %v, and nothing says that some are missing", r)
			}
		})
	}
}
