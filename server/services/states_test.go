package services_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/server/record"
	"github.com/setpoint-dev/setpoint/server/servertest"
)

// thirdAndAnHour is until when a count with these turns is flapping; nil: it is not.
func thirdAndAnHour(turns []time.Time) *timestamppb.Timestamp {
	if len(turns) < 3 {
		return nil
	}
	return timestamppb.New(turns[2].Add(time.Hour))
}

// What is the matter with a target, how often it is asked for, and when it turned: in the API and in its
// metrics.
func TestStatesIntervalAndTurnsOfATarget(t *testing.T) {
	t.Parallel()
	s, registry := servertest.Measured(t, func(su *servertest.Setup) { su.Options.TargetMetrics = 10 })
	const web = servertest.Web
	labels := "cluster=demo,namespace=shop,target=web"
	ask := func(replicas, length int32, outcome string, change ...func(*setpointv1.RecommendRequest)) *setpointv1.Target {
		t.Helper()
		s.Clock.Advance(servertest.Period)
		answer := s.Recommend(t, servertest.With(servertest.Queue(web, replicas, length), change...))
		if outcome != "" {
			s.Report(t, web, answer.GetRecommendationId(), outcome, "exceeded quota")
		}
		return s.Target(t, web)
	}
	check := func(what string, target *setpointv1.Target, states string, turns ...time.Time) {
		t.Helper()
		if got := strings.Join(target.GetLastDecision().GetStates(), " "); got != states {
			t.Errorf("%s: the states are %q, want %q", what, got, states)
		}
		var at []time.Time
		for _, turn := range target.GetTurnTimes() {
			at = append(at, turn.AsTime())
		}
		if !slices.Equal(at, turns) {
			t.Errorf("%s: it turned at %v, want %v", what, at, turns)
		}
		for what, pair := range map[string][2]*timestamppb.Timestamp{
			"not asked":      {target.GetNotAskedTime(), timestamppb.New(s.Clock.Now().Add(3 * servertest.Period))},
			"flapping until": {target.GetFlappingUntilTime(), thirdAndAnHour(turns)},
		} {
			if !pair[0].AsTime().Equal(pair[1].AsTime()) {
				t.Errorf("%s: %v, want %v", what, pair[0].AsTime(), pair[1].AsTime())
			}
		}
		metrics := servertest.Read(t, registry)
		if got := metrics["target_turns{"+labels+"}"]; got != float64(len(turns)) {
			t.Errorf("%s: %v turns in metrics", what, got)
		}
		for _, state := range strings.Fields(states) {
			if metrics["target_state{cluster=demo,namespace=shop,state="+state+",target=web}"] != 1 {
				t.Errorf("%s: no metric has %s", what, state)
			}
		}
	}
	if first := ask(5, 50, ""); first.GetInterval() != nil || !first.GetNotAskedTime().AsTime().Equal(s.Clock.Now().Add(15*time.Minute)) {
		t.Errorf("after one call the interval is %v, and it is not asked for from %v on", first.GetInterval(), first.GetNotAskedTime().AsTime())
	}
	steady := ask(5, 50, "")
	check("steady", steady, "")
	if got := steady.GetInterval().AsDuration(); got != servertest.Period {
		t.Errorf("the interval is %v", got)
	}
	check("up", ask(5, 80, "APPLIED"), "")
	check("down, refused", ask(8, 40, "FAILED"), "UPDATE_FAILED")
	check("down", ask(8, 40, "APPLIED"), "", s.Clock.Now())
	first := s.Clock.Now()
	check("up, pending", ask(4, 90, ""), "", s.Clock.Now(), first)
	second := s.Clock.Now()
	check("up, seen", ask(9, 90, ""), "", second, first)
	check("more than it may", ask(9, 300, "", func(r *setpointv1.RecommendRequest) { r.Spec.MaxReplicas = 9 }), "AT_MAXIMUM", second, first)
	if proposal := s.Target(t, web).GetLastDecision().GetBasis().GetProposal(); proposal != 30 {
		t.Errorf("the proposal is %d", proposal)
	}
	if newest := s.Decisions(t, web)[0]; strings.Join(newest.GetStates(), " ") != "AT_MAXIMUM" {
		t.Errorf("in the log the states are %q", newest.GetStates())
	}
	servertest.Read(t, registry).Since(nil, "target_").Expect(t, servertest.Reading{
		"target_current_replicas{" + labels + "}": 9, "target_desired_replicas{" + labels + "}": 9,
		"target_min_replicas{" + labels + "}": 1, "target_max_replicas{" + labels + "}": 9, "target_proposed_replicas{" + labels + "}": 30,
		"target_turns{" + labels + "}": 2, "target_interval_seconds{" + labels + "}": servertest.Period.Seconds(),
		"target_state{cluster=demo,namespace=shop,state=AT_MAXIMUM,target=web}":                                1,
		"target_status_condition{cluster=demo,condition=AbleToScale,namespace=shop,status=true,target=web}":    1,
		"target_status_condition{cluster=demo,condition=ScalingActive,namespace=shop,status=true,target=web}":  1,
		"target_status_condition{cluster=demo,condition=ScalingLimited,namespace=shop,status=true,target=web}": 1,
		"target_last_decision_timestamp_seconds{" + labels + "}":                                               float64(s.Clock.Now().Unix()),
		"target_not_asked_timestamp_seconds{" + labels + "}":                                                   float64(s.Clock.Now().Add(3 * servertest.Period).Unix()),
	})
	check("no metric", ask(9, 0, "", func(r *setpointv1.RecommendRequest) { r.ExternalMetrics = nil }), "METRICS_FAILING", second, first)
	flaps := "target_state{cluster=demo,namespace=shop,state=FLAPPING,target=web}"
	if servertest.Read(t, registry)[flaps] != 0 {
		t.Error("two turns are flapping")
	}
	check("down again", ask(9, 30, "APPLIED"), "", s.Clock.Now(), second, first)
	if servertest.Read(t, registry)[flaps] != 1 {
		t.Error("three turns are not flapping")
	}
	s.Clock.Advance(time.Hour - s.Clock.Now().Sub(first) - time.Second)
	if servertest.Read(t, registry)[flaps] != 1 {
		t.Error("it is not flapping within the hour")
	}
	s.Clock.Advance(time.Second)
	if servertest.Read(t, registry)[flaps] != 0 {
		t.Error("it is flapping an hour after the third last turn")
	}
	s.Clock.Advance(time.Hour)
	if turns := servertest.Read(t, registry)["target_turns{"+labels+"}"]; turns != 0 {
		t.Errorf("after an hour there are %v turns", turns)
	}
}

// A count of 0 that nobody decided, as Kubernetes has it until the first success, is told from one that
// was: the last decision has what is wanted.
func TestTheLastDecisionHasTheCountThatIsWanted(t *testing.T) {
	t.Parallel()
	s := servertest.Start(t)
	req := servertest.Queue(servertest.Web, 4, 0)
	req.ExternalMetrics = nil
	s.Recommend(t, req)
	target := s.Target(t, servertest.Web)
	if status, last := target.GetStatus().GetDesiredReplicas(), target.GetLastDecision().GetDesiredReplicas(); status != 0 || last != 4 {
		t.Errorf("desired are %d in the status and %d in the last decision, want 0 and 4", status, last)
	}
	if got := fmt.Sprint(target.GetLastDecision().GetStates(), target.GetLastDecision().GetBasis()); got != "[METRICS_FAILING] <nil>" {
		t.Errorf("its states and basis are %s", got)
	}
}

// The decisions of a batch share memory, and none shows the turns of another one's target.
func TestEachTargetOfABatchShowsItsOwnTurns(t *testing.T) {
	t.Parallel()
	s, registry := servertest.Measured(t, func(su *servertest.Setup) { su.Options.TargetMetrics = 10 })
	const prefix = "clusters/a/namespaces/n/targets/"
	now := s.Clock.Now()
	for name, ago := range map[string]time.Duration{"lately": time.Minute, "long": 2 * time.Hour} {
		s.Recommend(t, servertest.Queue(prefix+name, 3, 30))
		rewrite(t, s, prefix+name, func(r *record.Record) { r.Turns = []int64{now.Add(-ago).UnixMilli()} })
	}
	s.Clock.Advance(servertest.Period)
	s.Batch(t, servertest.Queue(prefix+"lately", 3, 30), servertest.Queue(prefix+"long", 3, 30))
	metrics := servertest.Read(t, registry)
	for name, want := range map[string]float64{"lately": 1, "long": 0} {
		if got := metrics["target_turns{cluster=a,namespace=n,target="+name+"}"]; got != want {
			t.Errorf("%s: %v turns within the hour, want %v", name, got, want)
		}
	}
}
