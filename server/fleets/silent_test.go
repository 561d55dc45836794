package fleets_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/types/known/timestamppb"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
)

// blind makes a request one of a caller that can't read its scale.
func blind(r *setpointv1.RecommendRequest) {
	r.Scale, r.ScaleError = nil, &setpointv1.ScaleError{Message: "the API server is down"}
}

// Two members may ask about one instant, and one may twice: only what is before that is past.
func TestMembersMayAskAboutOneInstant(t *testing.T) {
	t.Parallel()
	s := start(t, onMemory())
	s.set(t, queueFleet(2, 100, west, east))
	at := s.Clock.Now().Add(time.Second)
	timed := func(at time.Time) func(*setpointv1.RecommendRequest) {
		return func(r *setpointv1.RecommendRequest) { r.EvaluationTime = timestamppb.New(at) }
	}
	for range 2 {
		for _, name := range []string{west, east} {
			if err := s.try(t, member(name, 3, 60, timed(at))); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
	if got := s.call(t, member(west, 3, 60, timed(at))); got.GetDesiredReplicas() != 6 || got.GetFleet().GetMembers().GetFresh() != 2 {
		t.Errorf("both have called: %v", got)
	}
	want(t, "before", s.try(t, member(west, 3, 60, timed(at.Add(-time.Nanosecond)))), codes.FailedPrecondition, "EVALUATION_TIME_PAST")
}

// A member that calls and can't see its replicas is never lost, so its share is not shifted; one that is silent is.
func TestWhoCallsBlindlyIsNotLost(t *testing.T) {
	t.Parallel()
	s := start(t, onMemory())
	spec := queueFleet(2, 100, west, east, north)
	spec.Fleet.OnLost = "SHIFT"
	s.set(t, spec)
	for _, name := range []string{west, east, north, west, east, north} {
		s.call(t, member(name, 4, 40))
	}
	for range 40 {
		s.Clock.Advance(15 * time.Second)
		s.call(t, member(west, 4, 40))
		if got := s.call(t, member(east, 0, 0, blind)); got.GetDesiredReplicas() != 4 || got.GetFleet().GetState() != "STALE" {
			t.Fatalf("the blind one: %v", got)
		}
	}
	for _, m := range s.fleet(t).GetMembers() {
		if state := map[string]string{west: "FRESH", east: "STALE", north: "LOST"}[m.GetTarget()]; m.GetState() != state {
			t.Errorf("%s is %s, want %s", m.GetTarget(), m.GetState(), state)
		}
	}
}

// Calls without the fleet's name are told of while they are the last ones of a silent member, and as young as a call of one that
// is not.
func TestCallsInVainAreToldWhileTheyAreTheLast(t *testing.T) {
	t.Parallel()
	s := start(t, onMemory())
	s.set(t, queueFleet(2, 100, west, east))
	alone := func(r *setpointv1.RecommendRequest) { r.Fleet = "" }
	told := func(after time.Duration) (of []string) {
		s.Clock.Advance(after)
		for _, m := range s.fleet(t).GetMembers() {
			if strings.Contains(m.GetError(), "without naming the fleet") {
				of = append(of, m.GetTarget())
			}
		}
		return of
	}
	s.call(t, member(west, 3, 60))
	s.call(t, member(east, 3, 60, alone))
	s.Clock.Advance(time.Second)
	s.call(t, member(east, 0, 0, blind))
	if got := told(0); got != nil {
		t.Errorf("since then it has called, if blindly: %v", got)
	}
	s.Clock.Advance(time.Second)
	s.call(t, member(east, 3, 60, alone))
	if got := told(45 * time.Second); !slices.Equal(got, []string{east}) {
		t.Errorf("after just staleAfter: %v", got)
	}
	if got := told(time.Second); got != nil {
		t.Errorf("later: %v", got)
	}
}

// A fleet at 0 is off, as any target: that is no failure.
func TestMembersOfAFleetAtZeroLearnThatItIsOff(t *testing.T) {
	t.Parallel()
	s := start(t, onMemory())
	s.set(t, queueFleet(2, 100, west, east))
	mayBeEmpty := func(r *setpointv1.RecommendRequest) {
		r.Spec.MinReplicas, r.Options = new(int32), &setpointv1.RecommendOptions{ScaleToZero: new(true)}
	}
	for _, name := range []string{west, east, west} {
		got := s.call(t, member(name, 0, 60, mayBeEmpty))
		active := condition(got, "ScalingActive")
		if name == west && active.GetReason() == "FleetUndecided" {
			continue
		}
		if active.GetReason() != "ScalingDisabled" || active.GetMessage() != "scaling is disabled since the replica count of the target is zero" || got.GetError() != "" {
			t.Errorf("%s: %v", name, got)
		}
	}
}

// A member falls silent when it is told other than it was before, while the replicas of that still come or go: it counts with
// what it was told, so that the other one gets what is needed beyond that, and nothing more.
func TestWhatASilentMemberShowedOnItsWayIsOver(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		told  [3]int32 // each of the two
		queue int32    // of the one that calls, once the other one is silent
		wants [2]int32 // of the one that calls: while the other one is silent, and once it is lost
	}{
		"down and up": {[3]int32{5, 3, 5}, 120, [2]int32{7, 12}},
		"up and down": {[3]int32{3, 5, 3}, 64, [2]int32{3, 7}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := start(t, onMemory())
			spec := queueFleet(2, 20, east, west)
			spec.Stages, spec.Fleet.OnLost = &setpointv1.Stages{Guards: &setpointv1.Guards{IgnoreSurge: true}}, "SHIFT"
			s.set(t, spec)
			has := map[string]int32{east: test.told[0], west: test.told[0]}
			call := func(name string, queue, observed int32) {
				has[name] = s.call(t, member(name, has[name], queue, func(r *setpointv1.RecommendRequest) { r.Scale.StatusReplicas = &observed })).GetDesiredReplicas()
			}
			call(east, 10*test.told[0], test.told[0])
			call(west, 10*test.told[0], test.told[0]) // decides
			for i := range 2 {
				for _, wait := range []time.Duration{14 * time.Second, time.Second} { // they tell their queues, and learn what is decided
					s.Clock.Advance(wait)
					call(east, 10*test.told[i+1], has[east])
					call(west, 10*test.told[i+1], test.told[0])
				}
			}
			if m := s.fleet(t).GetMembers()[1]; m.GetShare() != test.told[2] || m.GetSpecReplicas() != test.told[1] || m.GetStatusReplicas() != test.told[0] {
				t.Fatalf("the last call of the member: %v", m)
			}
			for period := range 22 {
				queue, want := test.queue, test.wants[0]
				switch {
				case period < 3:
					queue, want = 10*test.told[2], test.told[2]
				case period >= 20:
					want = test.wants[1]
				}
				s.Clock.Advance(15 * time.Second)
				if call(east, queue, has[east]); has[east] != want {
					t.Fatalf("after %d periods: %d, want %d; %v", period+1, has[east], want, s.fleet(t))
				}
			}
		})
	}
}
