package server_test

import (
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"
	"google.golang.org/grpc/codes"
	healthv1 "google.golang.org/grpc/health/grpc_health_v1"

	"github.com/setpoint-dev/setpoint/recommender"
	"github.com/setpoint-dev/setpoint/recommender/encoding"
)

// storeTime makes the store's clock differ from the service's by ahead, and forbids
// requests to set their instants.
func storeTime(ahead *atomic.Int64) func(*setup) {
	return func(su *setup) {
		su.options.AllowEvaluationTime = false
		clock := su.options.Clock
		su.store.time = func() time.Time { return clock().Add(time.Duration(ahead.Load())) }
	}
}

// An instance whose clock is wrong decides nothing and is not ready.
func TestAnInstanceWithAWrongClockDecidesNothing(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		ahead time.Duration
		wrong bool
	}{{0, false}, {29 * time.Second, false}, {-29 * time.Second, false}, {time.Hour, true}, {-time.Hour, true}, {time.Minute, true}} {
		var ahead atomic.Int64
		ahead.Store(int64(tt.ahead))
		s := start(t, storeTime(&ahead))
		_, err := s.recommendations.Recommend(t.Context(), queue(web, 3, 50))
		item := s.batch(t, queue(web, 3, 50))[0]
		health, healthErr := healthv1.NewHealthClient(s.conn).Check(t.Context(), &healthv1.HealthCheckRequest{})
		if healthErr != nil || (health.GetStatus() == healthv1.HealthCheckResponse_NOT_SERVING) != tt.wrong {
			t.Errorf("%s off: health is %v, %v", tt.ahead, health, healthErr)
		}
		if !tt.wrong {
			if err != nil || item.GetError() != nil {
				t.Errorf("%s off: %v, %v", tt.ahead, err, item.GetError())
			}
			continue
		}
		for _, got := range []problem{rpcProblem(err), problemOf(item.GetError())} {
			wantProblem(t, got, codes.Unavailable, "CLOCK_SKEWED")
			if !strings.Contains(got.message, "clock") {
				t.Errorf("%s off: %s", tt.ahead, got.message)
			}
		}
		if s.stored(t, web) != nil {
			t.Errorf("%s off: something was recorded", tt.ahead)
		}
	}
}

func TestRecordsOfTheFutureAreCorrected(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name     string
		off      time.Duration // of the newest record
		want     time.Duration // of the decision
		anyTime  bool
		reported bool
	}{
		{"a little ahead, as instances may be", 50 * time.Second, 50 * time.Second, false, false},
		{"years ahead", 3 * 365 * 24 * time.Hour, 0, false, true},
		{"years ahead where requests choose their instants", 3 * 365 * 24 * time.Hour, 3 * 365 * 24 * time.Hour, true, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			var ahead atomic.Int64
			core, logs := observer.New(zap.WarnLevel)
			s := start(t, storeTime(&ahead), func(su *setup) {
				su.options.AllowEvaluationTime, su.options.Log = tt.anyTime, zap.New(core)
			})
			newest := t0.Add(tt.off)
			s.put(t, web, encoding.AppendHistory(nil, &recommender.History{
				Seen: true, Initialized: true, Since: newest.UnixNano(), Updated: newest,
				Recommendations: []recommender.TimedRecommendation{{Replicas: 3, At: newest.UnixNano()}},
			}))
			if got := s.recommend(t, queue(web, 3, 50)).GetEvaluationTime().AsTime(); !got.Equal(t0.Add(tt.want)) {
				t.Errorf("decided for %s, want %s", got, t0.Add(tt.want))
			}
			if got := s.history(t, web).Updated; !got.Equal(t0.Add(tt.want)) {
				t.Errorf("the newest record is of %s", got)
			}
			if got := logs.FilterMessageSnippet("records from the future").Len() == 1; got != tt.reported {
				t.Errorf("it was reported: %v", got)
			}
		})
	}
}

// An instance that falls behind between two looks at the store's clock does not take
// the others' records for those of a wrong clock.
func TestAClockThatIsBehindCorrectsNothing(t *testing.T) {
	t.Parallel()
	var ahead atomic.Int64
	s := start(t, storeTime(&ahead))
	s.recommend(t, queue(web, 3, 50))
	ahead.Store(int64(time.Hour))
	others := encoding.AppendHistory(nil, &recommender.History{Seen: true, Updated: t0.Add(time.Hour)})
	s.put(t, web, others)
	_, err := s.recommendations.Recommend(t.Context(), queue(web, 3, 50))
	wantProblem(t, rpcProblem(err), codes.Unavailable, "CLOCK_SKEWED")
	if string(s.stored(t, web)) != string(others) {
		t.Error("the others' records were changed")
	}
}
