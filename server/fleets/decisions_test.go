package fleets_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/internal/fatal"
	"github.com/setpoint-dev/setpoint/server/servertest"
	"github.com/setpoint-dev/setpoint/store"
	"github.com/setpoint-dev/setpoint/store/memory"
)

// The decisions of a fleet are in its log, and those of a member whenever its share changes, though neither has a record of its
// own. Of another target without a record nothing is known, as before.
func TestDecisionsOfFleetsAreListed(t *testing.T) {
	t.Parallel()
	engines(t, func(t *testing.T, open func() store.Engine) {
		s := start(t, open)
		list := func(name string, size int32) ([]*setpointv1.Decision, error) {
			resp, err := s.Targets.ListDecisions(t.Context(), &setpointv1.ListDecisionsRequest{Parent: name, PageSize: size})
			return resp.GetDecisions(), err
		}
		for _, name := range []string{fleetName, west, north} {
			if got, err := list(name, 10); status.Code(err) != codes.NotFound {
				t.Errorf("before there is a fleet, %s: %v, %v", name, got, err)
			}
		}
		s.set(t, queueFleet(2, 100, west, east))
		for _, name := range []string{fleetName, west} {
			if got, err := list(name, 10); err != nil || len(got) != 0 {
				t.Errorf("before any call, %s: %v, %v", name, got, err)
			}
		}
		s.call(t, member(west, 3, 60))
		s.call(t, member(east, 3, 60))
		s.call(t, member(west, 3, 60))
		for name, want := range map[string][2]int32{fleetName: {6, 12}, west: {3, 6}, east: {3, 6}} {
			for _, size := range []int32{1, 10} {
				got, err := list(name, size)
				if err != nil || len(got) == 0 || [2]int32{got[0].GetCurrentReplicas(), got[0].GetDesiredReplicas()} != want {
					t.Errorf("%s, %d a page: %v, %v, want %v", name, size, got, err, want)
				}
			}
		}
		if got, err := list(north, 10); status.Code(err) != codes.NotFound {
			t.Errorf("no member: %v, %v", got, err)
		}
		// A fleet that is deleted leaves none to the next one of its name.
		if _, err := s.Targets.DeleteTargetSpec(t.Context(), &setpointv1.DeleteTargetSpecRequest{Name: fleetName}); err != nil {
			t.Fatal(err)
		}
		s.set(t, queueFleet(2, 100, west, east))
		if got, err := list(fleetName, 10); err != nil || len(got) != 0 {
			t.Errorf("after it was deleted: %v, %v", got, err)
		}
	})
}

// An override that keeps a member from a change is in its log, once, and so is that it does no more.
func TestTheLogOfAMemberTellsOfAHold(t *testing.T) {
	t.Parallel()
	engines(t, func(t *testing.T, open func() store.Engine) {
		s := start(t, open)
		s.set(t, queueFleet(2, 100, west, east))
		call := func(entries int, status, message string) {
			t.Helper()
			for _, name := range []string{east, west} {
				s.Clock.Advance(8 * time.Second)
				if got := s.call(t, member(name, 3, 30)).GetDesiredReplicas(); got != 3 {
					t.Errorf("%s is told %d, want 3", name, got)
				}
			}
			resp, err := s.Targets.ListDecisions(t.Context(), &setpointv1.ListDecisionsRequest{Parent: west, PageSize: 100})
			fatal.If(t, err)
			last := resp.GetDecisions()[0]
			overridden := condition(&setpointv1.RecommendResponse{Status: &setpointv1.HorizontalPodAutoscalerStatus{Conditions: last.GetConditions()}}, "Overridden")
			if len(resp.GetDecisions()) != entries || overridden.GetStatus() != status || !strings.Contains(overridden.GetMessage(), message) {
				t.Errorf("the log of west has %d entries, want %d; the last one %v", len(resp.GetDecisions()), entries, last)
			}
		}
		call(1, "", "")
		call(1, "", "")
		overrides := setpointv1.NewOverrideServiceClient(s.Conn)
		hold := &setpointv1.Override{Hold: true, Reason: "migration", ExpireTime: timestamppb.New(s.Clock.Now().Add(time.Hour))}
		created, err := overrides.CreateOverride(t.Context(), &setpointv1.CreateOverrideRequest{Parent: west, Override: hold})
		fatal.If(t, err)
		call(2, "True", `"migration"`)
		call(2, "True", `"migration"`)
		if _, err := overrides.DeleteOverride(t.Context(), &setpointv1.DeleteOverrideRequest{Name: created.GetOverride().GetName()}); err != nil {
			t.Fatal(err)
		}
		call(3, "", "")
		call(3, "", "")
	})
}

// A member whose share stays is told of in its log once more whenever the fleet begins to compute its count, or can't any more:
// what it was told at its first call, before the fleet had decided, does not stand there for ever.
func TestTheLogOfAMemberTellsWhetherItsFleetDecides(t *testing.T) {
	t.Parallel()
	engines(t, func(t *testing.T, open func() store.Engine) {
		s := start(t, open)
		s.set(t, queueFleet(2, 100, west, east))
		call := func(fails bool) {
			t.Helper()
			for _, name := range []string{east, west} {
				r := member(name, 3, 30)
				if fails {
					r.ExternalMetrics = nil
				}
				s.Clock.Advance(5 * time.Second)
				if got := s.call(t, r).GetDesiredReplicas(); got != 3 {
					t.Errorf("%s is told %d, want 3", name, got)
				}
			}
		}
		for _, step := range []struct {
			what         string
			fails        bool
			status       string
			east, west   int // entries of the logs
			reasonOfEast string
		}{
			{"the fleet decides with the second call", false, "Unknown", 1, 1, "FleetUndecided"},
			{"the first member learns it", false, "True", 2, 1, "ValidMetricFound"},
			{"nothing is new", false, "True", 2, 1, "ValidMetricFound"},
			{"no metric is read by the second any more", true, "True", 2, 2, "ValidMetricFound"},
			{"the first member learns that, too", true, "False", 3, 2, "FailedGetExternalMetric"},
			{"nothing is new again", true, "False", 3, 2, "FailedGetExternalMetric"},
		} {
			call(step.fails)
			for name, want := range map[string]int{east: step.east, west: step.west} {
				resp, err := s.Targets.ListDecisions(t.Context(), &setpointv1.ListDecisionsRequest{Parent: name, PageSize: 100})
				fatal.If(t, err)
				if got := len(resp.GetDecisions()); got != want {
					t.Errorf("%s: the log of %s has %d entries, want %d", step.what, name, got, want)
				}
				for _, c := range resp.GetDecisions()[0].GetConditions() {
					if name == east && c.GetType() == "ScalingActive" && (c.GetStatus() != step.status || c.GetReason() != step.reasonOfEast) {
						t.Errorf("%s: the log of %s has %v", step.what, name, c)
					}
				}
			}
		}
	})
}

// A fleet above its maximum has decided, though it looked at no metric: no member is told that it is undecided.
func TestAFleetAboveItsMaximumHasDecided(t *testing.T) {
	t.Parallel()
	engine := memory.New(memory.Options{})
	s := start(t, func() store.Engine { return engine })
	s.set(t, queueFleet(2, 4, west, east))
	for i, want := range []string{"FleetUndecided", "", ""} {
		got := s.Recommend(t, member([]string{west, east, west}[i], 4, 40))
		if active := condition(got, "ScalingActive"); active.GetReason() != want {
			t.Errorf("call %d: %v, want the reason %q", i+1, active, want)
		}
		if i > 0 && got.GetDesiredReplicas() != 2 {
			t.Errorf("call %d: %d of the fleet's 4, want 2", i+1, got.GetDesiredReplicas())
		}
		s.Clock.Advance(8 * time.Second)
	}
}

// After a pause of all members the fleet's window begins anew with the replicas that they have together.
func TestAFleetsWindowBeginsAnewAfterAPause(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		restart bool
		want    int32
	}{"as upstream": {false, 1}, "restarted": {true, 10}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			engine := memory.New(memory.Options{})
			s := start(t, func() store.Engine { return engine })
			spec := queueFleet(1, 40, west, east)
			spec.Spec.Behavior.ScaleDown.StabilizationWindowSeconds = proto.Int32(300)
			s.set(t, spec)
			ask := func(queue int32) (share int32) {
				for range 2 {
					for _, m := range []string{west, east} {
						share = s.Recommend(t, member(m, 10, queue, func(r *setpointv1.RecommendRequest) { r.RestartAfterPause = tt.restart })).GetDesiredReplicas()
					}
					s.Clock.Advance(servertest.Period)
				}
				return share
			}
			if got := ask(100); got != 10 {
				t.Fatalf("before the pause: %d, want 10", got)
			}
			s.Clock.Advance(10 * time.Minute)
			if got := ask(10); got != tt.want {
				t.Errorf("after the pause: %d, want %d", got, tt.want)
			}
		})
	}
}

// The log of a fleet names the members that a decision lost or counts again, where its count is another one for that.
func TestTheLogOfAFleetNamesWhoIsLostAndBack(t *testing.T) {
	t.Parallel()
	s := start(t, onMemory())
	spec := queueFleet(2, 100, west, east)
	spec.Fleet.OnLost = "SHIFT"
	s.set(t, spec)
	rounds := func(n int, members ...string) {
		for range n {
			for _, m := range members {
				s.call(t, member(m, 6, 60))
			}
			s.Clock.Advance(15 * time.Second)
		}
	}
	rounds(3, west, east)
	rounds(25, west)
	rounds(4, east, west)
	resp, err := s.Targets.ListDecisions(t.Context(), &setpointv1.ListDecisionsRequest{Parent: fleetName, PageSize: 100})
	fatal.If(t, err)
	var told []string
	for _, d := range resp.GetDecisions() {
		if d.GetReason() != "" {
			told = append(told, d.GetReason())
		}
	}
	if !slices.Equal(told, []string{"member back, or new: " + east, "member lost: " + east}) {
		t.Errorf("the log tells %q", told)
	}
}

// Turns that a clock noted that was ahead hold no scale-down once it is set, as with targets: not until it is that late again.
func TestTurnsOfAClockThatWasAheadHoldNothing(t *testing.T) {
	t.Parallel()
	s := start(t, func() store.Engine { return memory.New(memory.Options{}) })
	spec := queueFleet(2, 100, west, east)
	spec.Stages = &setpointv1.Stages{Guards: &setpointv1.Guards{Reversals: &setpointv1.ReversalBudget{
		Count: 1, Period: durationpb.New(time.Hour), Hold: durationpb.New(10 * time.Minute),
	}}}
	s.set(t, spec)
	count := int32(3)
	rounds := func(queue int32) {
		t.Helper()
		for range 3 {
			share := count
			for _, name := range []string{east, west} {
				s.Clock.Advance(8 * time.Second)
				share = s.call(t, member(name, count, queue)).GetDesiredReplicas()
			}
			count = share
		}
	}
	s.Clock.Advance(2 * time.Hour)
	for _, queue := range []int32{60, 30, 60} { // up, down and up again
		rounds(queue)
	}
	if rounds(30); count != 6 {
		t.Fatalf("after two turns %d, want 6, which the budget holds", count)
	}
	s.Clock.Advance(-2 * time.Hour)
	if rounds(30); count != 3 {
		t.Errorf("once the clock is set %d, want 3", count)
	}
}

// What members did of a change turns the count at once, as the whole of it would.
func TestAPartOfAChangeIsATurn(t *testing.T) {
	t.Parallel()
	s := start(t, onMemory())
	spec := queueFleet(2, 100, west, east)
	spec.Stages = &setpointv1.Stages{Guards: &setpointv1.Guards{Reversals: &setpointv1.ReversalBudget{
		Count: 1, Period: durationpb.New(time.Hour), Hold: durationpb.New(10 * time.Minute),
	}}}
	s.set(t, spec)
	has := map[string]int32{east: 3, west: 3}
	round := func(queue int32, does ...string) {
		t.Helper()
		for _, name := range []string{east, west} { // who finds that a decision is due
			s.Clock.Advance(8 * time.Second)
			share := s.call(t, member(name, has[name], queue)).GetDesiredReplicas()
			if slices.Contains(does, name) {
				has[name] = share
			}
		}
	}
	for _, queue := range []int32{60, 60, 60, 30, 30, 30} { // up and down again
		round(queue, east, west)
	}
	round(60, east)
	round(30, east) // which learns what was decided, and decides for less
	round(30, east, west)
	if has[east] != 6 {
		t.Errorf("there are %v, want 6 of those that the budget holds", has)
	}
}

// A call that learns its share is explained by the fleet as it is: what it is told is on its way.
func TestACallThatLearnsItsShareExplainsTheCount(t *testing.T) {
	t.Parallel()
	s := start(t, onMemory())
	s.set(t, queueFleet(2, 100, west, east))
	s.call(t, member(west, 5, 50))
	s.call(t, member(east, 5, 50))
	s.Clock.Advance(15 * time.Second)
	s.call(t, member(west, 5, 70))
	got := s.Recommend(t, member(east, 5, 50, servertest.Explained))
	if ratio := got.GetExplanation().GetMetrics()[0].GetUsageRatio(); got.GetDesiredReplicas() != 6 || ratio != 1 {
		t.Errorf("its share is %d, and the usage is explained as %v times the target, want 6 and once", got.GetDesiredReplicas(), ratio)
	}
}
