package decision_test

import (
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"
	"google.golang.org/grpc/codes"
	healthv1 "google.golang.org/grpc/health/grpc_health_v1"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/recommender"
	"github.com/setpoint-dev/setpoint/recommender/encoding"
	"github.com/setpoint-dev/setpoint/server/servertest"
	"github.com/setpoint-dev/setpoint/stages"
)

// storeTime makes the store's clock differ from the service's by ahead, and forbids
// requests to set their instants.
func storeTime(ahead *atomic.Int64) func(*servertest.Setup) {
	return func(su *servertest.Setup) {
		su.Options.AllowEvaluationTime = false
		clock := su.Options.Clock
		su.Store.OnTime = func() time.Time { return clock().Add(time.Duration(ahead.Load())) }
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
		s := servertest.Start(t, storeTime(&ahead))
		_, err := s.Recommendations.Recommend(t.Context(), servertest.Queue(servertest.Web, 3, 50))
		item := s.Batch(t, servertest.Queue(servertest.Web, 3, 50))[0]
		health, healthErr := healthv1.NewHealthClient(s.Conn).Check(t.Context(), &healthv1.HealthCheckRequest{})
		if healthErr != nil || (health.GetStatus() == healthv1.HealthCheckResponse_NOT_SERVING) != tt.wrong {
			t.Errorf("%s off: health is %v, %v", tt.ahead, health, healthErr)
		}
		if !tt.wrong {
			if err != nil || item.GetError() != nil {
				t.Errorf("%s off: %v, %v", tt.ahead, err, item.GetError())
			}
			continue
		}
		for _, got := range []servertest.Problem{servertest.RPCProblem(err), servertest.ProblemOf(item.GetError())} {
			servertest.WantProblem(t, got, codes.Unavailable, "CLOCK_SKEWED")
			if !strings.Contains(got.Message, "clock") {
				t.Errorf("%s off: %s", tt.ahead, got.Message)
			}
		}
		if s.Stored(t, servertest.Web) != nil {
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
			s := servertest.Start(t, storeTime(&ahead), func(su *servertest.Setup) {
				su.Options.AllowEvaluationTime, su.Options.Log = tt.anyTime, zap.New(core)
			})
			newest := servertest.T0.Add(tt.off)
			s.Put(t, servertest.Web, encoding.AppendHistory(nil, &recommender.History{
				Seen: true, Initialized: true, Since: newest.UnixNano(), Updated: newest,
				Recommendations: []recommender.TimedRecommendation{{Replicas: 3, At: newest.UnixNano()}},
			}))
			if got := s.Recommend(t, servertest.Queue(servertest.Web, 3, 50)).GetEvaluationTime().AsTime(); !got.Equal(servertest.T0.Add(tt.want)) {
				t.Errorf("decided for %s, want %s", got, servertest.T0.Add(tt.want))
			}
			if got := history(t, s, servertest.Web).Updated; !got.Equal(servertest.T0.Add(tt.want)) {
				t.Errorf("the newest record is of %s", got)
			}
			if got := logs.FilterMessageSnippet("records from the future").Len() == 1; got != tt.reported {
				t.Errorf("it was reported: %v", got)
			}
		})
	}
}

// So are what stages remember and since when a spec is in use: else a fallback would wait for as long as the clock was ahead.
func TestWhatStagesRememberOfTheFutureIsCorrected(t *testing.T) {
	t.Parallel()
	var ahead atomic.Int64
	s := servertest.Start(t, storeTime(&ahead))
	failing := servertest.Queue(servertest.Web, 3, 50)
	failing.ExternalMetrics = nil
	failing.MetricErrors = []*setpointv1.MetricError{{Metric: "External:queue-depth", Message: "no answer"}}
	failing.Stages = &setpointv1.Stages{Fallbacks: []*setpointv1.MetricFallback{{Metric: "External:queue-depth", Replicas: new(int32(7))}}}
	const off = 24 * time.Hour
	s.Clock.Advance(off)
	s.Recommend(t, failing)
	s.Clock.Advance(-off)
	now := s.Clock.Now()
	s.Recommend(t, failing)
	if since := s.Target(t, servertest.Web).GetSpecInUse().GetSinceTime().AsTime(); since.After(now) {
		t.Errorf("the spec is in use since %s, and it is %s", since, now)
	}
	s.Clock.Advance(stages.DefaultFailureDuration)
	if got := s.Recommend(t, failing).GetDesiredReplicas(); got != 7 {
		t.Errorf("%s later there are %d replicas, want those of the fallback", stages.DefaultFailureDuration, got)
	}
}

// An instance that falls behind between two looks at the store's clock does not take
// the others' records for those of a wrong clock.
func TestAClockThatIsBehindCorrectsNothing(t *testing.T) {
	t.Parallel()
	var ahead atomic.Int64
	s := servertest.Start(t, storeTime(&ahead))
	s.Recommend(t, servertest.Queue(servertest.Web, 3, 50))
	ahead.Store(int64(time.Hour))
	others := encoding.AppendHistory(nil, &recommender.History{Seen: true, Updated: servertest.T0.Add(time.Hour)})
	s.Put(t, servertest.Web, others)
	_, err := s.Recommendations.Recommend(t.Context(), servertest.Queue(servertest.Web, 3, 50))
	servertest.WantProblem(t, servertest.RPCProblem(err), codes.Unavailable, "CLOCK_SKEWED")
	if string(s.Stored(t, servertest.Web)) != string(others) {
		t.Error("the others' records were changed")
	}
}
