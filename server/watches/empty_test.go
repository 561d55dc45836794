package watches_test

import (
	"testing"

	"google.golang.org/grpc/codes"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/server/servertest"
	"github.com/setpoint-dev/setpoint/store/memory"
	"github.com/setpoint-dev/setpoint/store/redis"
	"github.com/setpoint-dev/setpoint/store/redis/redistest"
)

// Who found nothing to read, and stays away until what came then is dropped, is told that
// something is missing; who comes back in time misses nothing. On both stores.
func TestWatchersOfAnEmptyFeedLearnOfMissedDecisions(t *testing.T) {
	t.Parallel()
	for name, use := range map[string]func(*testing.T, *servertest.Setup){
		"memory": func(_ *testing.T, su *servertest.Setup) { su.Log = memory.New(memory.Options{FeedLength: 8}) },
		"redis": func(t *testing.T, su *servertest.Setup) {
			su.Log = servertest.Redis(t, redistest.Start(t, redistest.Config{}).URL(), servertest.Unhurried, func(o *redis.Options) { o.FeedLength = 8 })
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := servertest.Start(t, func(su *servertest.Setup) { use(t, su) })
			req := &setpointv1.WatchDecisionsRequest{Parent: targetNamed("a")}
			w := watch(t, s, req)
			w.cancel()
			w.wantEnd(codes.Canceled)
			decide(t, s, "a", 20)
			req.ResumeToken = w.token
			early := watch(t, s, req)
			early.want("a 2→2 NONE")
			last := ""
			for range 250 { // Redis drops them by the hundred
				s.Clock.Advance(servertest.Period)
				last = decide(t, s, "a", 60).GetRecommendationId()
			}
			for early.decision().GetDecision().GetRecommendationId() != last {
				// What comes to those who watch is no answer to who was away.
			}
			late := watch(t, s, req)
			if r := late.decision(); !r.GetMissedUncounted() {
				t.Errorf("the first decision that is left is %v, and nothing says that some are missing", r)
			}
		})
	}
}
