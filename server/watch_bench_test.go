package server_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
)

// BenchmarkRecommendBesideWatchers measures the processor time of a call while others watch: its own
// and, as all is in one process, that of both ends of the watchers. Idle ones watch what nobody
// decides on.
func BenchmarkRecommendBesideWatchers(b *testing.B) {
	for _, bench := range []struct {
		name     string
		watchers int
		parent   string
		entries  int32
	}{
		{"none", 0, "", 20},
		{"none/changing", 0, "", 60},
		{"100 idle", 100, targetNamed("idle"), 20},
		{"1000 idle", 1000, targetNamed("idle"), 20},
		{"100 of all/changing", 100, everything, 60},
	} {
		b.Run(bench.name, func(b *testing.B) {
			s := start(b, func(su *setup) {
				su.options.MaxWatchers, su.options.MaxWatchersPerCaller, su.options.WatchHeartbeat = 0, 0, time.Hour
				su.options.LoggedRepeats = 0
			})
			ctx, cancel := context.WithCancel(b.Context())
			var watching sync.WaitGroup
			defer watching.Wait()
			defer cancel()
			var targets setpointv1.TargetServiceClient
			for i := range bench.watchers {
				if i%100 == 0 {
					targets = setpointv1.NewTargetServiceClient(s.dial(b))
				}
				stream, err := targets.WatchDecisions(ctx, &setpointv1.WatchDecisionsRequest{Parent: bench.parent})
				if err != nil {
					b.Fatal(err)
				}
				if _, err := stream.Recv(); err != nil {
					b.Fatal(err)
				}
				watching.Go(func() {
					for {
						if _, err := stream.Recv(); err != nil {
							return
						}
					}
				})
			}
			const callers = 16
			var requests [callers]*setpointv1.RecommendRequest
			for i := range requests {
				requests[i] = podsRequest(10)
				requests[i].Target = targetNamed(fmt.Sprint("t", i))
				if bench.entries > 20 && i == 0 {
					requests[i] = queue(requests[i].GetTarget(), 2, bench.entries)
				}
			}
			b.ResetTimer()
			before := processorTime()
			var calling sync.WaitGroup
			for i := range callers {
				calling.Go(func() {
					for n := i; n < b.N; n += callers {
						if i == 0 {
							s.clock.Advance(period)
						}
						if _, err := s.recommendations.Recommend(b.Context(), requests[i]); err != nil {
							b.Error(err)
							return
						}
					}
				})
			}
			calling.Wait()
			b.ReportMetric(float64((processorTime()-before).Nanoseconds())/1e3/float64(b.N), "processor-µs/op")
		})
	}
}
