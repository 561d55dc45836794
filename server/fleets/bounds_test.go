package fleets_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/internal/fatal"
	"github.com/setpoint-dev/setpoint/server/servertest"
)

// ownBounds are those of a caller's own spec.
func ownBounds(least, most int32) func(*setpointv1.RecommendRequest) {
	return func(req *setpointv1.RecommendRequest) {
		spec := proto.CloneOf(req.GetSpec())
		spec.MinReplicas, spec.MaxReplicas, req.Spec = proto.Int32(least), most, spec
	}
}

func atMostFour(m *setpointv1.FleetMember) { m.MaxReplicas = proto.Int32(4) }

func drained(m *setpointv1.FleetMember) { m.Drained = true }

// What a caller's own spec, or an override of the member, does not let it have goes to the others at once.
func TestBoundsOfAMemberAreKnownToItsFleet(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		own          func(*setpointv1.RecommendRequest)
		override     *setpointv1.Override
		ofFleet      func(*setpointv1.FleetMember)
		wests, easts int32
		beyond       int32 // of wests, what does not count
	}{
		"its own maximum":     {own: ownBounds(1, 4), wests: 4, easts: 16},
		"its own minimum":     {own: ownBounds(14, 100), wests: 14, easts: 6},
		"pinned":              {own: ownBounds(1, 100), override: &setpointv1.Override{Pin: proto.Int32(3)}, wests: 3, easts: 17},
		"pinned above itself": {own: ownBounds(1, 4), override: &setpointv1.Override{Pin: proto.Int32(9)}, wests: 4, easts: 16},
		"held":                {own: ownBounds(1, 100), override: &setpointv1.Override{Hold: true}, wests: 6, easts: 14},
		"a floor":             {own: ownBounds(1, 100), override: &setpointv1.Override{Floor: proto.Int32(12)}, wests: 12, easts: 8},
		"a ceiling":           {own: ownBounds(1, 100), override: &setpointv1.Override{Ceiling: proto.Int32(5)}, wests: 5, easts: 15},

		"its own minimum above the fleet's bound for it": {own: ownBounds(10, 100), ofFleet: atMostFour, wests: 10, easts: 16, beyond: 6},
		"pinned above that bound":                        {own: ownBounds(1, 100), ofFleet: atMostFour, override: &setpointv1.Override{Pin: proto.Int32(9)}, wests: 9, easts: 11},
		"a floor above it, and a minimum":                {own: ownBounds(6, 100), ofFleet: atMostFour, override: &setpointv1.Override{Floor: proto.Int32(9)}, wests: 9, easts: 11},
		"a floor, and drained":                           {own: ownBounds(2, 100), ofFleet: drained, override: &setpointv1.Override{Floor: proto.Int32(9)}, wests: 9, easts: 11},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := start(t, onMemory())
			spec := queueFleet(2, 100, west, east)
			if tt.ofFleet != nil {
				tt.ofFleet(spec.Fleet.Members[0])
			}
			s.set(t, spec)
			if o := tt.override; o != nil {
				o = proto.CloneOf(o)
				o.Reason, o.ExpireTime = "test", timestamppb.New(s.Clock.Now().Add(time.Hour))
				if _, err := setpointv1.NewOverrideServiceClient(s.Conn).CreateOverride(t.Context(), &setpointv1.CreateOverrideRequest{Parent: west, Override: o}); err != nil {
					t.Fatal(err)
				}
			}
			has := map[string]int32{west: 6, east: 6}
			for range 8 {
				for _, m := range []string{west, east} {
					req := member(m, has[m], 100)
					if m == west {
						tt.own(req)
					}
					got := s.call(t, req)
					if has[m] = got.GetDesiredReplicas(); got.GetFleet().GetUnplacedReplicas() != 0 {
						t.Errorf("%d are unplaced", got.GetFleet().GetUnplacedReplicas())
					}
					if told := condition(got, "Overridden") != nil; told != (m == west && tt.override != nil) {
						t.Errorf("%s: told of overrides: %v", m, told)
					}
					if said := condition(got, "Overridden").GetMessage(); strings.Contains(said, "as is the recommendation") {
						t.Errorf("%s: the share has the override in it, and yet %q", m, said)
					}
				}
				s.Clock.Advance(15 * time.Second)
			}
			if has[west] != tt.wests || has[east] != tt.easts {
				t.Errorf("%v, want %d and %d", has, tt.wests, tt.easts)
			}
			if f := s.fleet(t); f.GetShareTotal() != 20 || !f.GetMembers()[0].GetApplied() || !f.GetMembers()[1].GetApplied() {
				t.Errorf("%v", f)
			} else if m := f.GetMembers()[slices.IndexFunc(f.GetMembers(), func(m *setpointv1.FleetMemberStatus) bool { return m.GetTarget() == west })]; m.GetShare() != tt.wests-tt.beyond || m.GetOwnMinReplicas() != m.GetShare() && m.GetOwnMaxReplicas() != m.GetShare() {
				t.Errorf("the share and bounds that are told: %v", m)
			}
		})
	}
}

// A member is drained to 0 below its caller's minimum, and promoted from there.
func TestADrainedMemberBecomesEmptyAndComesBack(t *testing.T) {
	t.Parallel()
	s := start(t, onMemory())
	spec := s.set(t, queueFleet(2, 100, west, east))
	has := map[string]int32{west: 3, east: 3}
	periods := func(n int) (last *setpointv1.RecommendResponse) {
		for range n {
			for _, m := range []string{west, east} {
				last = s.call(t, member(m, has[m], 30, func(req *setpointv1.RecommendRequest) {
					for i := range has[m] {
						since := timestamppb.New(s.Clock.Now().Add(-time.Hour))
						req.Pods = append(req.Pods, &setpointv1.Pod{Name: fmt.Sprint(i), Phase: "Running", StartTime: since, Ready: &setpointv1.PodReadyCondition{Status: "True", LastTransitionTime: since}})
					}
				}))
				has[m] = last.GetDesiredReplicas()
			}
			s.Clock.Advance(15 * time.Second)
		}
		return last
	}
	periods(2)
	for _, drained := range []bool{true, false} {
		spec.Fleet.Members[1].Drained = drained
		spec = s.set(t, spec)
		last := periods(20)
		if empty := has[east] == 0; empty != drained || has[west]+has[east] != 6 || last.GetFleet().GetDrained() != drained {
			t.Errorf("drained %v: %v, %v", drained, has, last)
		}
	}
}

// A caller that can't read its scale is answered what it last had, never 0, and is stale.
func TestACallerThatSeesNothingKeepsItsCount(t *testing.T) {
	t.Parallel()
	s := start(t, onMemory())
	s.set(t, queueFleet(2, 100, west, east))
	s.call(t, member(west, 3, 60))
	s.call(t, member(east, 3, 60))
	s.call(t, member(west, 3, 60)) // learns 6
	for range 3 {
		got := s.call(t, member(west, 0, 0, func(req *setpointv1.RecommendRequest) {
			req.Scale, req.ScaleError = nil, &setpointv1.ScaleError{Message: "the API server is down"}
		}))
		if got.GetDesiredReplicas() != 6 || got.GetCurrentReplicas() != 6 || got.GetStatus().GetDesiredReplicas() != 6 || got.GetAction() != "NONE" || got.GetFleet().GetState() != "STALE" {
			t.Errorf("%v", got)
		}
		s.Clock.Advance(15 * time.Second)
		s.call(t, member(east, 6, 300))
	}
}

// Readings of members that are too old for the fleet's stages count for nothing.
func TestReadingsOfMembersBecomeStale(t *testing.T) {
	t.Parallel()
	s := start(t, onMemory())
	spec := queueFleet(2, 100, west, east)
	spec.Stages = &setpointv1.Stages{Freshness: &setpointv1.Freshness{MaxSampleAge: durationpb.New(time.Minute)}}
	s.set(t, spec)
	old := func(r *setpointv1.RecommendRequest) {
		r.ExternalMetrics[0].Timestamp = timestamppb.New(s.Clock.Now().Add(-2 * time.Minute))
	}
	s.call(t, member(west, 3, 60, old))
	if got := s.call(t, member(east, 3, 60, old)); got.GetFleet().GetDesiredReplicas() != 6 || condition(got, "ScalingActive").GetStatus() != "False" {
		t.Errorf("%v", got)
	}
}

// A member that joins a fleet that has decided keeps its count until the next decision. The caller's status tells since
// when its conditions are as they are, and when the count last changed.
func TestAMemberThatJoinsKeepsItsCount(t *testing.T) {
	t.Parallel()
	s := start(t, onMemory())
	s.set(t, queueFleet(2, 100, west, east))
	s.call(t, member(west, 3, 60))
	s.call(t, member(east, 3, 60))
	s.set(t, queueFleet(2, 100, west, east, north))
	began, scaled := timestamppb.New(servertest.T0.Add(-2*time.Hour)), timestamppb.New(servertest.T0.Add(-time.Hour))
	for _, status := range []string{"False", "True"} {
		got := s.call(t, member(north, 5, 0, func(r *setpointv1.RecommendRequest) {
			r.Generation, r.Options = proto.Int64(7), &setpointv1.RecommendOptions{Profile: "v1.37"}
			r.PreviousStatus = &setpointv1.HorizontalPodAutoscalerStatus{LastScaleTime: scaled, CurrentReplicas: 5, DesiredReplicas: 5,
				Conditions: []*setpointv1.HorizontalPodAutoscalerCondition{{Type: "ScalingLimited", Status: status, LastTransitionTime: began}}}
		}))
		if got.GetDesiredReplicas() != 5 || got.GetFleet().GetHolds() || got.GetFleet().GetState() != "RETURNING" {
			t.Errorf("it joined: %v", got)
		}
		since := condition(got, "ScalingLimited").GetLastTransitionTime().AsTime()
		if told := got.GetStatus(); since.Equal(began.AsTime()) != (status == "False") || !proto.Equal(told.GetLastScaleTime(), scaled) || told.GetObservedGeneration() != 7 {
			t.Errorf("after a status of %s: %v", status, told)
		}
	}
}

// The minimum of a caller's own spec is kept, but what is beyond the fleet's bound for it counts for its caller alone; an override
// is shared out.
func TestAnOverrideIsAboveTheFleetsMaximum(t *testing.T) {
	t.Parallel()
	s := start(t, onMemory())
	s.set(t, queueFleet(2, 8, west, east))
	has := map[string]int32{west: 3, east: 3}
	want := func(what, reason string, wests, easts, total int32) {
		t.Helper()
		for round := range 8 {
			for m, least := range map[string]int32{west: 12, east: 1} {
				got := s.call(t, member(m, has[m], 100, ownBounds(least, 100)))
				if has[m] = got.GetDesiredReplicas(); round == 7 && m == west && condition(got, "ScalingLimited").GetReason() != reason {
					t.Errorf("%s: %v", what, condition(got, "ScalingLimited"))
				}
			}
			s.Clock.Advance(15 * time.Second)
		}
		if f := s.fleet(t); has[west] != wests || has[east] != easts || f.GetShareTotal() != total || !f.GetMembers()[0].GetApplied() || !f.GetMembers()[1].GetApplied() {
			t.Errorf("%s: %v of %v", what, has, f)
		}
		resp, err := s.Targets.ListDecisions(t.Context(), &setpointv1.ListDecisionsRequest{Parent: fleetName, PageSize: 4})
		fatal.If(t, err)
		for _, d := range resp.GetDecisions() {
			if d.GetAction() != "NONE" || d.GetCurrentReplicas() != total || s.fleet(t).GetDesiredReplicas() != total {
				t.Errorf("%s: the count stays at %d, and its log has %v", what, total, d)
			}
		}
	}
	want("its own minimum", "TooFewReplicas", 12, 1, 9)
	pin := func(name string, count int32) {
		t.Helper()
		if _, err := setpointv1.NewOverrideServiceClient(s.Conn).CreateOverride(t.Context(), &setpointv1.CreateOverrideRequest{Parent: name, Override: &setpointv1.Override{
			Pin: &count, Reason: "test", ExpireTime: timestamppb.New(s.Clock.Now().Add(time.Hour)),
		}}); err != nil {
			t.Fatal(err)
		}
	}
	pin(west, 14)
	want("pinned", "DesiredWithinRange", 14, 1, 15)
	pin(fleetName, 5)
	want("pinned, and the fleet to fewer", "DesiredWithinRange", 14, 1, 15)
}

// An answer that says that the fleet holds keeps the count: agents refuse any other. Before the fleet has decided the bounds of a
// member and its overrides count all the same, and then it does not hold.
func TestAFleetThatHoldsChangesNothing(t *testing.T) {
	t.Parallel()
	const undecided = "the fleet has not decided yet"
	for name, tt := range map[string]struct {
		has    int32
		own    func(*setpointv1.RecommendRequest)
		pin    *int32
		wanted int32
		reason string
	}{
		"within its bounds":          {has: 7, own: ownBounds(3, 100), wanted: 7},
		"below its own minimum":      {has: 1, own: ownBounds(3, 100), wanted: 3, reason: undecided},
		"above its own maximum":      {has: 9, own: ownBounds(1, 4), wanted: 4, reason: undecided},
		"above the fleet's maximum":  {has: 30, own: ownBounds(1, 100), wanted: 20, reason: undecided},
		"beside an override's count": {has: 3, own: ownBounds(1, 100), pin: proto.Int32(5), wanted: 5, reason: "Overridden (" + west + "/overrides/test): test"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := start(t, onMemory())
			spec := queueFleet(2, 100, east, west)
			spec.Fleet.Members[1].MaxReplicas = proto.Int32(20)
			s.set(t, spec)
			if tt.pin != nil {
				if _, err := setpointv1.NewOverrideServiceClient(s.Conn).CreateOverride(t.Context(), &setpointv1.CreateOverrideRequest{Parent: west, OverrideId: "test", Override: &setpointv1.Override{
					Pin: tt.pin, Reason: "test", ExpireTime: timestamppb.New(s.Clock.Now().Add(time.Hour)),
				}}); err != nil {
					t.Fatal(err)
				}
			}
			got := s.call(t, member(west, tt.has, 60, tt.own))
			if got.GetDesiredReplicas() != tt.wanted || got.GetReason() != tt.reason || got.GetFleet().GetHolds() != (tt.has == tt.wanted) || got.GetFleet().GetDecisionTime() != nil {
				t.Errorf("before it has decided: %v", got)
			}
			s.call(t, member(east, 3, 60))
			if got := s.call(t, member(west, tt.wanted, 60, tt.own)); got.GetFleet().GetHolds() {
				t.Errorf("it has decided: %v", got)
			}
			if f := s.fleet(t); !f.GetMembers()[1].GetApplied() {
				t.Errorf("it did what it was told: %v", f)
			}
		})
	}
}

// The fallback of a metric that one member can't read proposes no fewer replicas than the parts ask for that others read.
func TestAFallbackIsAtLeastWhatIsKnown(t *testing.T) {
	t.Parallel()
	s := start(t, onMemory())
	spec := queueFleet(2, 100, west, east, north)
	spec.Stages = &setpointv1.Stages{Fallbacks: []*setpointv1.MetricFallback{{
		Metric: "External:queue", FailureDuration: durationpb.New(time.Minute), Replicas: proto.Int32(10),
	}}}
	s.set(t, spec)
	has := map[string]int32{west: 30, east: 30, north: 30}
	away := func(r *setpointv1.RecommendRequest) {
		r.ExternalMetrics, r.MetricErrors = nil, []*setpointv1.MetricError{{Metric: "External:queue", Message: "the adapter is away"}}
	}
	lowest := int32(90)
	periods := func(n int, ofNorth func(*setpointv1.RecommendRequest)) {
		for range n {
			for _, name := range []string{west, east, north} {
				req := member(name, has[name], 300)
				if name == north {
					ofNorth(req)
				}
				got := s.call(t, req)
				has[name], lowest = got.GetDesiredReplicas(), min(lowest, got.GetFleet().GetDesiredReplicas())
			}
			s.Clock.Advance(15 * time.Second)
		}
	}
	s.call(t, member(west, 30, 300))
	s.call(t, member(east, 30, 300))
	s.call(t, member(north, 30, 300))
	periods(3, func(*setpointv1.RecommendRequest) {})
	periods(3, away)
	if f := s.fleet(t); f.GetDesiredReplicas() != 90 {
		t.Errorf("before the fallback: %v", f)
	}
	periods(10, away)
	f := s.fleet(t)
	if f.GetDesiredReplicas() != 60 || has[west]+has[east]+has[north] != 60 || lowest != 60 {
		t.Errorf("600 of the queue are known, %v run, and there were %d: %v", has, lowest, f)
	}
	if told := f.GetAdjustments(); len(told) != 1 || !strings.HasSuffix(told[0].GetMessage(), "; 10 replicas are proposed instead, but at least the 60 that its known part asks for") {
		t.Errorf("told %v", told)
	}
}
