package fleets_test

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/internal/fatal"
	"github.com/setpoint-dev/setpoint/server"
	"github.com/setpoint-dev/setpoint/server/servertest"
	"github.com/setpoint-dev/setpoint/store"
	"github.com/setpoint-dev/setpoint/store/memory"
)

func onMemory() func() store.Engine {
	engine := memory.New(memory.Options{})
	return func() store.Engine { return engine }
}

// want fails the test unless a call is refused so.
func want(t *testing.T, what string, err error, code codes.Code, reason string) {
	t.Helper()
	if got := servertest.RPCProblem(err); got.Code != code || got.Reason != reason {
		t.Errorf("%s: %v, want %s %s", what, err, code, reason)
	}
}

func (s *service) try(t *testing.T, req *setpointv1.RecommendRequest) error {
	t.Helper()
	_, err := s.Recommendations.Recommend(t.Context(), req)
	return err
}

func (s *service) trySet(t *testing.T, name string, spec *setpointv1.TargetSpec) error {
	t.Helper()
	_, err := s.Targets.SetTargetSpec(t.Context(), &setpointv1.SetTargetSpecRequest{Name: name, TargetSpec: spec})
	return err
}

// What is wrong with the spec of a fleet is told by path, and nothing is stored.
func TestSpecsOfFleetsAreChecked(t *testing.T) {
	t.Parallel()
	s := start(t, onMemory())
	for what, tt := range map[string]struct {
		change func(*setpointv1.TargetSpec)
		fields []string
	}{
		"one member":     {func(x *setpointv1.TargetSpec) { x.Fleet.Members = x.Fleet.GetMembers()[:1] }, []string{"targetSpec.fleet.members"}},
		"a member twice": {func(x *setpointv1.TargetSpec) { x.Fleet.Members[1].Target = west }, []string{"targetSpec.fleet.members[1].target"}},
		"a shadow":       {func(x *setpointv1.TargetSpec) { x.Fleet.Members[1].Target = east + ".-shadow" }, []string{"targetSpec.fleet.members[1].target"}},
		"itself":         {func(x *setpointv1.TargetSpec) { x.Fleet.Members[1].Target = fleetName }, []string{"targetSpec.fleet.members[1].target"}},
		"bounds": {func(x *setpointv1.TargetSpec) {
			x.Fleet.Members[1].MinReplicas, x.Fleet.Members[1].MaxReplicas = 2, proto.Int32(1)
		}, []string{"targetSpec.fleet.members[1].minReplicas"}},
		"minimums":    {func(x *setpointv1.TargetSpec) { x.Fleet.Members[1].MinReplicas = 3 }, []string{"targetSpec.fleet.members"}},
		"all drained": {func(x *setpointv1.TargetSpec) { x.Fleet.Members[0].Drained, x.Fleet.Members[1].Drained = true, true }, []string{"targetSpec.fleet.members"}},
		"weights": {func(x *setpointv1.TargetSpec) {
			x.Fleet.Members[0].Weight, x.Fleet.Members[1].Weight = proto.Int32(-1), proto.Int32(1001)
		}, []string{"targetSpec.fleet.members[0].weight", "targetSpec.fleet.members[1].weight"}},
		"no scope":          {func(x *setpointv1.TargetSpec) { x.Fleet.Scopes = nil }, []string{"targetSpec.fleet.scopes"}},
		"an unknown metric": {func(x *setpointv1.TargetSpec) { x.Fleet.Scopes["External:other"] = "GLOBAL" }, []string{`targetSpec.fleet.scopes["External:other"]`}},
		"an unknown scope":  {func(x *setpointv1.TargetSpec) { x.Fleet.Scopes["External:queue"] = "SOME" }, []string{`targetSpec.fleet.scopes["External:queue"]`}},
		"out of range": {func(x *setpointv1.TargetSpec) {
			x.Fleet.MaxMoves, x.Fleet.Members[0].MinReplicas, x.Fleet.OnLost = -1, -1, "shift"
			x.Fleet.StaleAfter, x.Fleet.LostAfter = durationpb.New(-time.Second), durationpb.New(0)
		}, []string{"targetSpec.fleet.lostAfter", "targetSpec.fleet.maxMoves", "targetSpec.fleet.members[0].minReplicas", "targetSpec.fleet.onLost", "targetSpec.fleet.staleAfter"}},
		"stale too soon":    {func(x *setpointv1.TargetSpec) { x.Fleet.StaleAfter = durationpb.New(14 * time.Second) }, []string{"targetSpec.fleet.staleAfter"}},
		"lost before stale": {func(x *setpointv1.TargetSpec) { x.Fleet.LostAfter = durationpb.New(44 * time.Second) }, []string{"targetSpec.fleet.lostAfter"}},
		"queries": {func(x *setpointv1.TargetSpec) {
			x.Queries = []*setpointv1.MetricQuery{{Metric: "External:queue", Query: "q"}}
		}, []string{"targetSpec.queries", "targetSpec.queries[0].source"}},
		"an old profile": {func(x *setpointv1.TargetSpec) { x.Options = &setpointv1.RecommendOptions{Profile: "v1.15"} }, []string{"targetSpec.options.profile"}},
		"for polls": {func(x *setpointv1.TargetSpec) {
			x.AssumeApplied, x.ObservationMaxAge = true, durationpb.New(time.Minute)
		}, []string{"targetSpec.assumeApplied", "targetSpec.observationMaxAge"}},
		"several": {func(x *setpointv1.TargetSpec) {
			x.Fleet.Members[0].Target, x.Fleet.Members[1].MinReplicas, x.Fleet.Scopes = fleetName, 3, nil
		}, []string{"targetSpec.fleet.members[0].target", "targetSpec.fleet.members", "targetSpec.fleet.scopes"}},
	} {
		spec := queueFleet(2, 100, west, east)
		tt.change(spec)
		err := s.trySet(t, fleetName, spec)
		fields := servertest.RPCProblem(err).Fields
		if slices.Sort(fields); !slices.Equal(fields, slices.Sorted(slices.Values(tt.fields))) {
			t.Errorf("%s: violations of %q, want those of %q", what, fields, tt.fields)
		}
	}
	if _, err := s.Targets.GetTargetSpec(t.Context(), &setpointv1.GetTargetSpecRequest{Name: fleetName}); status.Code(err) != codes.NotFound {
		t.Errorf("stored all the same: %v", err)
	}
	s.set(t, queueFleet(2, 100, west, east)) // and none of these members was claimed for another one
}

// A request whose metrics are not the fleet's is refused, by the first that differs.
func TestRequestsMustHaveTheFleetsMetrics(t *testing.T) {
	t.Parallel()
	s := start(t, onMemory())
	s.set(t, queueFleet(2, 100, west, east))
	told := map[string]string{"target": "its target is averageValue 11, the fleet's is averageValue 10;", "kind": "its target is value 10, the fleet's is averageValue 10;"}
	for what, change := range map[string]func(*setpointv1.MetricSpec){
		"name":   func(m *setpointv1.MetricSpec) { m.External.Metric.Name = "other" },
		"target": func(m *setpointv1.MetricSpec) { m.External.Target.AverageValue = proto.String("11") },
		"kind": func(m *setpointv1.MetricSpec) {
			m.External.Target = &setpointv1.MetricTarget{Type: "Value", Value: proto.String("10")}
		},
		"selector": func(m *setpointv1.MetricSpec) {
			m.External.Metric.Selector = &setpointv1.LabelSelector{MatchLabels: map[string]string{"a": "b"}}
		},
	} {
		err := s.try(t, member(west, 3, 60, func(r *setpointv1.RecommendRequest) { change(r.Spec.Metrics[0]) }))
		if want(t, what, err, codes.FailedPrecondition, "FLEET_DIFFERS"); !strings.Contains(err.Error(), "External:") || !strings.Contains(err.Error(), told[what]) {
			t.Errorf("%s: %v does not name the metric, or not %q", what, err, told[what])
		}
	}
	if m := s.fleet(t).GetMembers()[1]; m.GetState() != "UNSEEN" || !strings.HasPrefix(m.GetError(), "it calls and is refused: the request's metrics are not those of its fleet: External:") {
		t.Errorf("who looks at the fleet does not see it: %v", m)
	}
	err := s.try(t, member(west, 3, 60, func(r *setpointv1.RecommendRequest) { r.Spec.Metrics = append(r.Spec.Metrics, r.Spec.Metrics[0]) }))
	want(t, "one more", err, codes.FailedPrecondition, "FLEET_DIFFERS")
	if err := s.try(t, member(west, 3, 60, func(r *setpointv1.RecommendRequest) {
		r.Spec.Metrics[0].External.Metric.Selector = &setpointv1.LabelSelector{}
	})); err != nil {
		t.Errorf("an empty selector, as none, selects all: %v", err)
	}
	if m := s.fleet(t).GetMembers()[1]; m.GetError() != "" {
		t.Errorf("it is not refused any more: %v", m)
	}
	s.Clock.Advance(time.Second)
	err = s.try(t, member(west, 3, 60, func(r *setpointv1.RecommendRequest) { r.Spec.Metrics = nil }))
	want(t, "no metrics", err, codes.FailedPrecondition, "FLEET_DIFFERS")
	if m := s.fleet(t).GetMembers()[1]; m.GetState() != "FRESH" || m.GetError() != "" {
		t.Errorf("while its last digest counts nobody is told: %v", m)
	}
}

// Until the next decision an answer tells nothing of metrics that the fleet has no more: agents refuse what they have not asked about.
func TestAnswersHaveNoReadingsOfFormerMetrics(t *testing.T) {
	t.Parallel()
	s := start(t, onMemory())
	spec := queueFleet(2, 100, west, east)
	s.set(t, spec)
	s.call(t, member(west, 3, 60))
	if got := s.call(t, member(east, 3, 60)).GetStatus().GetCurrentMetrics(); len(got) != 1 || got[0].GetExternal().GetMetric().GetName() != "queue" {
		t.Fatalf("at first: %v", got)
	}
	spec.Spec.Metrics[0].External.Metric.Name, spec.Fleet.Scopes = "mails", map[string]string{"External:mails": "PER_MEMBER"}
	s.set(t, spec)
	others := func(r *setpointv1.RecommendRequest) {
		r.Spec.Metrics[0].External.Metric.Name, r.ExternalMetrics[0].Metric.Name = "mails", "mails"
	}
	if got := s.call(t, member(west, 3, 60, others)).GetStatus().GetCurrentMetrics(); len(got) != 0 {
		t.Errorf("before the next decision: %v", got)
	}
	s.Clock.Advance(15 * time.Second)
	s.call(t, member(east, 6, 60, others))
	if got := s.call(t, member(west, 6, 60, others)).GetStatus().GetCurrentMetrics(); len(got) != 1 || got[0].GetExternal().GetMetric().GetName() != "mails" {
		t.Errorf("after it: %v", got)
	}
}

// Who is not a member learns the same of a fleet as of none.
func TestStrangersLearnNothingOfAFleet(t *testing.T) {
	t.Parallel()
	engines(t, func(t *testing.T, open func() store.Engine) {
		s := start(t, open)
		none := s.try(t, member(north, 3, 60))
		s.set(t, queueFleet(2, 100, west, east))
		stranger := s.try(t, member(north, 3, 60))
		want(t, "none", none, codes.FailedPrecondition, "FLEET_NOT_FOUND")
		if none.Error() != stranger.Error() {
			t.Errorf("a stranger is told %v, without the fleet %v", stranger, none)
		}
		other := s.try(t, member(north, 3, 60, func(r *setpointv1.RecommendRequest) { r.Spec.Metrics[0].External.Metric.Name = "other" }))
		want(t, "with other metrics", other, codes.FailedPrecondition, "FLEET_NOT_FOUND")
	})
}

// A target can be a member of one fleet. What was claimed by a call that died is taken over, and repeating it repairs.
func TestATargetIsAMemberOfOneFleet(t *testing.T) {
	t.Parallel()
	const second = "clusters/all/namespaces/shop/targets/second"
	engines(t, func(t *testing.T, open func() store.Engine) {
		s := start(t, open)
		s.set(t, queueFleet(2, 100, west, east))
		err := s.trySet(t, second, queueFleet(2, 100, west, north))
		if want(t, "taken", err, codes.FailedPrecondition, "FLEET_MEMBER_TAKEN"); !strings.Contains(err.Error(), fleetName) || !strings.Contains(err.Error(), west) {
			t.Errorf("the error names not the other fleet, which this caller may read, or not the member: %v", err)
		}
		// north was perhaps claimed by that, and no spec names it: it is free.
		s.set(t, queueFleet(2, 100, west, east, north))
		// Taken out, it is free at once; and its calls are those of a stranger.
		s.set(t, queueFleet(2, 100, west, north))
		want(t, "taken out", s.try(t, member(east, 3, 60)), codes.FailedPrecondition, "FLEET_NOT_FOUND")
		if err := s.trySet(t, second, queueFleet(2, 100, east, "clusters/south/namespaces/shop/targets/web")); err != nil {
			t.Errorf("a member that was taken out: %v", err)
		}
		// A fleet is neither a member nor named by one.
		want(t, "nested", s.trySet(t, "clusters/all/namespaces/shop/targets/third", queueFleet(2, 100, second, "clusters/x/namespaces/shop/targets/web")), codes.FailedPrecondition, "IS_FLEET")
		want(t, "a member as a fleet", s.trySet(t, west, queueFleet(2, 100, "clusters/y/namespaces/shop/targets/web", "clusters/x/namespaces/shop/targets/web")), codes.FailedPrecondition, "FLEET_MEMBER_TAKEN")
		// Deleted, all are free.
		if _, err := s.Targets.DeleteTargetSpec(t.Context(), &setpointv1.DeleteTargetSpecRequest{Name: second}); err != nil {
			t.Fatal(err)
		}
		s.set(t, queueFleet(2, 100, west, east))
	})
}

// Once a spec is stored or deleted, no instance answers by the one before, although it has it in its cache.
func TestAnInstanceWithAnOldSpecReadsAgain(t *testing.T) {
	t.Parallel()
	engines(t, func(t *testing.T, open func() store.Engine) {
		a, b := start(t, open), start(t, open)
		a.set(t, queueFleet(2, 100, west, east))
		for range 2 {
			for _, s := range []*service{a, b} {
				s.call(t, member(west, 3, 60))
				s.call(t, member(east, 3, 60))
			}
		}
		spec := queueFleet(2, 8, west, east)
		a.set(t, spec)
		a.Clock.Advance(15 * time.Second)
		b.Clock.Advance(15 * time.Second)
		if got := b.call(t, member(west, 6, 60)).GetFleet(); got.GetDesiredReplicas() != 8 {
			t.Errorf("with a maximum of 8 the other instance decides %v", got)
		}
		a.set(t, queueFleet(2, 8, west, north))
		want(t, "taken out", b.try(t, member(east, 6, 60)), codes.FailedPrecondition, "FLEET_NOT_FOUND")
		if _, err := a.Targets.DeleteTargetSpec(t.Context(), &setpointv1.DeleteTargetSpecRequest{Name: fleetName}); err != nil {
			t.Fatal(err)
		}
		want(t, "deleted", b.try(t, member(west, 6, 60)), codes.FailedPrecondition, "FLEET_NOT_FOUND")
		// A new fleet of that name begins anew.
		a.set(t, queueFleet(2, 100, west, east))
		if got := b.call(t, member(west, 6, 60)).GetFleet(); got.GetDecisionTime() != nil || got.GetMembers().GetUnseen() != 1 {
			t.Errorf("a new fleet of the name knows %v", got)
		}
	})
}

// With --target-metrics fleets have metrics of their own, as many as there may be, always the same ones; else nothing
// names one.
func TestFleetsHaveMetricsOfTheirOwn(t *testing.T) {
	t.Parallel()
	const second, third, fourth = "clusters/all/namespaces/shop/targets/second", "clusters/c/namespaces/shop/targets/web", "clusters/d/namespaces/shop/targets/web"
	for limit, names := range map[int][]string{0: nil, 1: {"second"}, 2: {"second", "web"}, 5: {"second", "web"}} {
		measured, registry := servertest.Measured(t, func(su *servertest.Setup) { su.Options.TargetMetrics = limit })
		s := &service{measured}
		s.set(t, queueFleet(2, 100, west, east))
		fatal.If(t, s.trySet(t, second, queueFleet(2, 8, third, fourth)))
		s.call(t, member(west, 3, 60))
		s.Recommend(t, member(third, 3, 60, func(r *setpointv1.RecommendRequest) { r.Fleet = second }))
		s.Recommend(t, member(fourth, 3, 60, func(r *setpointv1.RecommendRequest) { r.Fleet = second }))
		want := servertest.Reading{}
		for _, name := range names {
			of := "cluster=all,namespace=shop"
			unseen := map[string]float64{"web": 1}[name]
			for state, n := range map[string]float64{"unseen": unseen, "fresh": 2 - unseen, "returning": 0, "stale": 0, "lost": 0, "drained": 0} {
				want["target_fleet_members{"+of+",state="+state+",target="+name+"}"] = n
			}
			want["target_fleet_unplaced_replicas{"+of+",target="+name+"}"] = 0
			want["target_fleet_missing_replicas{"+of+",target="+name+"}"] = 0
		}
		if limit > 0 { // the one that has decided has a target's metrics, too
			of := "{cluster=all,namespace=shop,target=second}"
			want["target_desired_replicas"+of], want["target_proposed_replicas"+of], want["target_max_replicas"+of] = 8, 12, 8
			want["target_state{cluster=all,namespace=shop,state=AT_MAXIMUM,target=second}"] = 1
		}
		for range 2 {
			got := servertest.Read(t, registry)
			maps.DeleteFunc(got, func(name string, _ float64) bool {
				_, wanted := want[name]
				return !wanted && !strings.HasPrefix(name, "target_fleet_")
			})
			if !maps.Equal(got, want) {
				t.Errorf("of %d: %v, want %v", limit, got, want)
			}
		}
		if _, err := s.Targets.DeleteTargetSpec(t.Context(), &setpointv1.DeleteTargetSpecRequest{Name: second}); err != nil {
			t.Fatal(err)
		}
		for name := range servertest.Read(t, registry) {
			if strings.Contains(name, "target=second") {
				t.Errorf("of a deleted fleet: %s", name)
			}
		}
	}
}

// A drained member becomes empty as the others become larger, a silent one is stale, then lost, and returns; the log
// and the metrics tell.
func TestMembersAreDrainedLostAndReturn(t *testing.T) {
	t.Parallel()
	var logs *observer.ObservedLogs
	measured, registry := servertest.Measured(t, servertest.Logged(zapcore.InfoLevel, server.LogNoCalls, &logs))
	s := &service{measured}
	spec := queueFleet(2, 100, west, east)
	spec.Spec.MinReplicas = proto.Int32(2)
	s.set(t, spec)
	replicas := map[string]int32{west: 3, east: 3}
	round := func(members ...string) (last *setpointv1.RecommendResponse) {
		for _, m := range members {
			last = s.call(t, member(m, replicas[m], 60))
			replicas[m] = last.GetDesiredReplicas()
		}
		s.Clock.Advance(15 * time.Second)
		return last
	}
	for range 3 {
		round(west, east)
	}
	if replicas[west] != 6 || replicas[east] != 6 {
		t.Fatalf("at first %v", replicas)
	}
	// Silent for a while: its share stays, and its queue counts for no scale-down.
	for range 4 {
		round(west)
	}
	if got := round(west).GetFleet(); got.GetMembers().GetStale() != 1 || got.GetDesiredReplicas() != 12 {
		t.Errorf("with a stale member: %v", got)
	}
	for range 20 {
		round(west)
	}
	if got := round(west).GetFleet(); got.GetMembers().GetLost() != 1 || replicas[west] != 6 {
		t.Errorf("with a lost member: %v, west has %d", got, replicas[west])
	}
	if got := servertest.Lines(logs, "member of a fleet lost"); len(got) != 1 || got[0]["member"] != east {
		t.Errorf("lines about lost members: %v", got)
	}
	s.call(t, member(west, replicas[west], 60, servertest.DryRun)) // which is not the fleet's last call
	metrics := servertest.Read(t, registry)
	if metrics["fleet_members{state=lost}"] != 1 || metrics["fleet_members_lost_total"] != 1 || metrics["fleets"] != 1 {
		t.Errorf("metrics with a lost member: %v", metrics)
	}
	for range 4 {
		round(east, west)
	}
	if got := servertest.Lines(logs, "member of a fleet returned"); len(got) != 1 {
		t.Errorf("lines about returned members: %v", got)
	}
	spec.Fleet.Members[1].Drained = true
	s.set(t, spec)
	for range 10 {
		for _, m := range []string{west, east} {
			req := member(m, replicas[m], 60, func(r *setpointv1.RecommendRequest) {
				r.Spec.MinReplicas, r.Options = proto.Int32(0), &setpointv1.RecommendOptions{ScaleToZero: proto.Bool(true)}
				for i := range replicas[m] {
					r.Pods = append(r.Pods, &setpointv1.Pod{Name: fmt.Sprint(i), Phase: "Running", StartTime: timestamppb.New(s.Clock.Now().Add(-time.Hour)), Ready: &setpointv1.PodReadyCondition{Status: "True", LastTransitionTime: timestamppb.New(s.Clock.Now().Add(-time.Hour))}})
				}
			})
			last := s.call(t, req)
			if replicas[m] = last.GetDesiredReplicas(); last.GetFleet().GetDrained() != (m == east) {
				t.Errorf("%s is drained: %v", m, last.GetFleet())
			}
		}
		s.Clock.Advance(15 * time.Second)
	}
	if replicas[west] != 12 || replicas[east] != 0 {
		t.Errorf("after the drain %v", replicas)
	}
}

// The rights of fleets: who stores one may write each member; a member needs no right on its fleet, and who may not
// read that learns nothing of its decision but the share.
func TestRightsOnFleets(t *testing.T) {
	t.Parallel()
	tokens := map[string]string{}
	for _, who := range []string{"west", "owner", "half", "reader", "other"} {
		tokens["sp_"+who] = who
	}
	engine := onMemory()
	s := &service{servertest.NewTenancy(t, tokens, `
grants:
  - {identities: ["token:west"], clusters: [west], verbs: [recommend]}
  - {identities: ["token:reader"], clusters: [west, all], verbs: [recommend, read]}
  - {identities: ["token:owner"], clusters: [west, east, all, mine], verbs: [configure, read]}
  - {identities: ["token:other"], clusters: [west, east, mine], verbs: [configure, read]}
  - {identities: ["token:half"], clusters: [west, all], verbs: [configure]}
`, func(su *servertest.Setup) { su.Engine = engine(); su.Log = su.Engine.(store.Log) }).Service}
	as := func(who string) context.Context { return servertest.As(t.Context(), "sp_"+who) }
	set := &setpointv1.SetTargetSpecRequest{Name: fleetName, TargetSpec: queueFleet(2, 100, west, east)}
	_, err := s.Targets.SetTargetSpec(as("half"), set)
	want(t, "without the right to write a member", err, codes.PermissionDenied, "PERMISSION_DENIED")
	if _, err := s.Targets.SetTargetSpec(as("owner"), set); err != nil {
		t.Fatal(err)
	}
	// The fleet that has a member is named to who may read that fleet.
	for who, named := range map[string]bool{"other": false, "owner": true} {
		_, err = s.Targets.SetTargetSpec(as(who), &setpointv1.SetTargetSpecRequest{Name: "clusters/mine/namespaces/shop/targets/web", TargetSpec: queueFleet(2, 100, west, east)})
		if want(t, "a member of another fleet", err, codes.FailedPrecondition, "FLEET_MEMBER_TAKEN"); strings.Contains(err.Error(), fleetName) != named {
			t.Errorf("%s: the other fleet is named: %t, in %v", who, !named, err)
		}
		_, err = s.Targets.SetTargetSpec(as(who), &setpointv1.SetTargetSpecRequest{Name: west, TargetSpec: queueFleet(2, 100, "clusters/mine/namespaces/shop/targets/web", east)})
		if want(t, "a member as a fleet", err, codes.FailedPrecondition, "FLEET_MEMBER_TAKEN"); strings.Contains(err.Error(), fleetName) != named {
			t.Errorf("%s: the fleet of which it is a member is named: %t, in %v", who, !named, err)
		}
	}
	_, err = s.Fleets.GetFleet(as("west"), &setpointv1.GetFleetRequest{Name: fleetName})
	want(t, "GetFleet", err, codes.PermissionDenied, "PERMISSION_DENIED")
	_, err = s.Recommendations.Recommend(as("west"), member(east, 3, 60))
	want(t, "in another member's name", err, codes.PermissionDenied, "PERMISSION_DENIED")
	for who, explained := range map[string]bool{"west": false, "reader": true} {
		var last *setpointv1.RecommendResponse
		for range 5 { // until the fleet decides without the other member
			s.Clock.Advance(15 * time.Second)
			last, err = s.Recommendations.Recommend(as(who), member(west, 3, 60, servertest.Explained))
			fatal.If(t, err)
		}
		if last.GetFleet().GetDecisionTime().AsTime() != s.Clock.Now() || (last.GetExplanation() != nil) != explained {
			t.Errorf("%s: the explanation is there: %t, of %v", who, last.GetExplanation() != nil, last.GetFleet())
		}
		// A call that decides nothing is explained all the same, and changes nothing.
		decided := last.GetFleet().GetDecisionTime().AsTime()
		s.Clock.Advance(time.Second)
		last, err = s.Recommendations.Recommend(as(who), member(west, 3, 90, servertest.Explained))
		fatal.If(t, err)
		if !last.GetFleet().GetDecisionTime().AsTime().Equal(decided) || (last.GetExplanation() != nil) != explained || explained && len(last.GetExplanation().GetMetrics()) != 1 {
			t.Errorf("%s, within the period: %v of %v", who, last.GetExplanation(), last.GetFleet())
		}
	}
}

// A fleet is neither polled nor observed, and tells where its state is.
func TestAFleetIsNotPolled(t *testing.T) {
	t.Parallel()
	engines(t, func(t *testing.T, open func() store.Engine) {
		s := start(t, open)
		s.set(t, queueFleet(2, 100, west, east))
		_, err := s.Recommendations.GetRecommendation(t.Context(), &setpointv1.GetRecommendationRequest{Target: fleetName})
		want(t, "a poll", err, codes.FailedPrecondition, "IS_FLEET")
		_, err = s.Recommendations.ReportObservation(t.Context(), &setpointv1.ReportObservationRequest{Target: fleetName, Scale: &setpointv1.Scale{SpecReplicas: 1}})
		want(t, "a report", err, codes.FailedPrecondition, "IS_FLEET")
		_, err = s.Targets.GetTarget(t.Context(), &setpointv1.GetTargetRequest{Name: fleetName})
		if want(t, "GetTarget", err, codes.NotFound, "TARGET_NOT_FOUND"); !strings.Contains(err.Error(), "GetFleet") {
			t.Errorf("GetTarget: %v", err)
		}
		has := map[string]int32{west: 3, east: 3}
		for range 3 {
			for _, m := range []string{west, east} {
				has[m] = s.call(t, member(m, has[m], 60)).GetDesiredReplicas()
			}
			s.Clock.Advance(15 * time.Second)
		}
		for name, what := range map[string]string{fleetName: "it is a fleet", west: "a fleet decides for it"} {
			decisions := func() int {
				resp, err := s.Targets.ListDecisions(t.Context(), &setpointv1.ListDecisionsRequest{Parent: name, PageSize: 100})
				if err != nil || len(resp.GetDecisions()) == 0 {
					t.Errorf("%s: %v, %v", name, resp, err)
				}
				return len(resp.GetDecisions())
			}
			before := decisions()
			_, err = s.Targets.DeleteTarget(t.Context(), &setpointv1.DeleteTargetRequest{Name: name})
			if want(t, "DeleteTarget", err, codes.NotFound, "TARGET_NOT_FOUND"); !strings.Contains(err.Error(), what) {
				t.Errorf("DeleteTarget: %v", err)
			}
			if after := decisions(); after != before {
				t.Errorf("%s: an error deletes decisions: %d of %d remain", name, after, before)
			}
		}
		_, err = s.Targets.GetTarget(t.Context(), &setpointv1.GetTargetRequest{Name: west})
		if want(t, "GetTarget of a member", err, codes.NotFound, "TARGET_NOT_FOUND"); !strings.Contains(err.Error(), "a fleet decides") || strings.Contains(err.Error(), fleetName) {
			t.Errorf("GetTarget of a member: %v", err)
		}
		_, err = s.Fleets.GetFleet(t.Context(), &setpointv1.GetFleetRequest{Name: west})
		want(t, "GetFleet of a member", err, codes.NotFound, "FLEET_NOT_FOUND")
	})
}

// While the store is away a fleet decides nothing, and nobody is answered from a cache.
func TestNoAnswerWithoutTheStore(t *testing.T) {
	t.Parallel()
	away := false
	s := &service{servertest.Start(t, servertest.HoldingDown, func(su *servertest.Setup) {
		su.Store.OnFleet = func(ctx context.Context, swap store.Swap, do servertest.SwapFunc) (store.SwapResult, error) {
			if away {
				return store.SwapResult{}, store.ErrUnavailable
			}
			return do(ctx, swap)
		}
	})}
	s.set(t, queueFleet(2, 100, west, east))
	s.call(t, member(west, 3, 60))
	s.call(t, member(east, 3, 60))
	away = true
	err := s.try(t, member(west, 3, 60))
	if want(t, "away", err, codes.Unavailable, "STORE_UNAVAILABLE"); strings.Contains(err.Error(), "requestId") {
		t.Errorf("nothing of a fleet is remembered by a requestId: %v", err)
	}
	away = false
	if got := s.call(t, member(west, 3, 60)); got.GetDesiredReplicas() != 6 {
		t.Errorf("back again: %v", got)
	}
}

// Lost races are decided again, and not for ever.
func TestLostRacesAreDecidedAgain(t *testing.T) {
	t.Parallel()
	lose := 0
	s := &service{servertest.Start(t, func(su *servertest.Setup) {
		su.Options.MaxAttempts = 5
		su.Store.OnFleet = func(ctx context.Context, swap store.Swap, do servertest.SwapFunc) (store.SwapResult, error) {
			if lose > 0 && swap.Old != "" {
				lose--
				swap.Old = "nobody's"
			}
			return do(ctx, swap)
		}
	})}
	s.set(t, queueFleet(2, 100, west, east))
	s.call(t, member(west, 3, 60))
	lose = 4
	if got := s.call(t, member(east, 3, 60)); got.GetDesiredReplicas() != 6 {
		t.Errorf("after four lost races: %v", got)
	}
	lose = 5
	want(t, "five", s.try(t, member(east, 3, 60)), codes.Aborted, "TARGET_CONTENDED")
}

// Each way of calling takes a fleet, with and without a request id; a dry run changes nothing.
func TestEveryWayOfCallingTakesAFleet(t *testing.T) {
	t.Parallel()
	s := start(t, onMemory())
	s.set(t, queueFleet(2, 100, west, east))
	s.call(t, member(west, 3, 60))
	dry := s.call(t, member(east, 3, 60, servertest.DryRun))
	if dry.GetDesiredReplicas() != 6 || s.fleet(t).GetMemberCounts().GetUnseen() != 1 {
		t.Errorf("a dry run: %v", dry)
	}
	s.call(t, member(east, 3, 60))
	id := servertest.WithID("one")
	expect := func(what string, got *setpointv1.RecommendResponse) {
		if got.GetDesiredReplicas() != 6 || got.GetFleet().GetShareTotal() != 12 || got.GetRequestId() != "one" {
			t.Errorf("%s: %v", what, got)
		}
	}
	expect("unary", s.call(t, member(west, 3, 60, id)))
	alone := servertest.Queue("clusters/west/namespaces/shop/targets/alone", 3, 60)
	results := s.Batch(t, member(west, 3, 60, id), alone, member(east, 3, 60, id), member(north, 3, 60))
	expect("batch", results[0].GetResponse())
	expect("batch", results[2].GetResponse())
	if results[1].GetResponse().GetDesiredReplicas() != 6 || results[1].GetResponse().GetFleet() != nil || results[3].GetError().GetCode() != int32(codes.FailedPrecondition) {
		t.Errorf("others of the batch: %v", results)
	}
	stream, err := s.Recommendations.StreamRecommend(t.Context())
	fatal.If(t, err)
	fatal.If(t, stream.Send(&setpointv1.StreamRecommendRequest{Id: "1", Request: member(west, 3, 60, id)}))
	answer, err := stream.Recv()
	fatal.If(t, err)
	expect("stream", answer.GetResponse())
	fatal.If(t, stream.CloseSend())
	if _, err := stream.Recv(); err == nil {
		t.Error("the stream does not end")
	}
	req := member(west, 3, 60, id)
	req.Target = ""
	var overREST setpointv1.RecommendResponse
	a := s.Ask(t, "POST", servertest.RecommendPath(west), req)
	a.Expect(t, 200)
	a.Into(t, &overREST)
	expect("REST", &overREST)
	// The instant is the request's, where it may be, and never before the record's.
	past := servertest.EvaluatedAt(s.Clock.Now().Add(-time.Second))
	want(t, "in the past", s.try(t, member(west, 3, 60, past)), codes.FailedPrecondition, "EVALUATION_TIME_PAST")
	at := s.Clock.Now().Add(15 * time.Second)
	if got := s.call(t, member(west, 6, 60, servertest.EvaluatedAt(at))); got.GetFleet().GetDecisionTime().AsTime() != at {
		t.Errorf("at %s: %v", at, got)
	}
}

// A share is within the bounds of the member's own spec, overrides of the member and of the fleet act, each on its
// own count, and so do the stages of the fleet's spec.
func TestBoundsOverridesAndStages(t *testing.T) {
	t.Parallel()
	s := start(t, onMemory())
	spec := queueFleet(2, 100, west, east)
	s.set(t, spec)
	s.call(t, member(west, 3, 60))
	s.call(t, member(east, 3, 60))
	capped := func(r *setpointv1.RecommendRequest) { r.Spec.MaxReplicas = 4 }
	got := s.call(t, member(west, 3, 60, capped))
	if limited := condition(got, "ScalingLimited"); got.GetDesiredReplicas() != 4 || limited.GetStatus() != "True" || limited.GetReason() != "TooManyReplicas" {
		t.Errorf("with an own maximum of 4: %v", got)
	}
	overrides := setpointv1.NewOverrideServiceClient(s.Conn)
	create := func(parent string, o *setpointv1.Override) {
		t.Helper()
		o.Reason, o.ExpireTime = "sale", timestamppb.New(s.Clock.Now().Add(time.Hour))
		if _, err := overrides.CreateOverride(t.Context(), &setpointv1.CreateOverrideRequest{Parent: parent, Override: o}); err != nil {
			t.Fatal(err)
		}
	}
	create(west, &setpointv1.Override{Pin: proto.Int32(5)})
	got = s.call(t, member(west, 3, 60))
	if got.GetDesiredReplicas() != 5 || got.GetPlainDesiredReplicas() != 6 || len(got.GetAdjustments()) != 1 || condition(got, "Overridden").GetStatus() != "True" {
		t.Errorf("with the member pinned: %v", got)
	}
	if own := s.Decisions(t, west)[0]; own.GetDesiredReplicas() != 5 || len(own.GetAdjustments()) != 1 || own.GetAdjustments()[0].GetStage() != "OVERRIDE" {
		t.Errorf("the log of the pinned member: %v", own)
	}
	create(fleetName, &setpointv1.Override{Floor: proto.Int32(16)})
	s.Clock.Advance(15 * time.Second)
	if got := s.call(t, member(east, 6, 60)).GetFleet().GetDesiredReplicas(); got != 16 {
		t.Errorf("with a floor of 16 of the fleet: %d", got)
	}
	spec.Stages = &setpointv1.Stages{Schedules: []*setpointv1.Schedule{{Name: "always", Cron: "* * * * *", TimeZone: "UTC", Duration: durationpb.New(2 * time.Minute), MinReplicas: proto.Int32(20)}}}
	s.set(t, spec)
	s.Clock.Advance(15 * time.Second)
	s.call(t, member(west, 5, 60))
	if got := s.call(t, member(east, 6, 60)).GetFleet().GetDesiredReplicas(); got != 20 {
		t.Errorf("with a schedule of 20: %d", got)
	}
	// Who reads the fleet has what changed its count, as its log has it.
	shown, err := setpointv1.NewFleetServiceClient(s.Conn).GetFleet(t.Context(), &setpointv1.GetFleetRequest{Name: fleetName})
	fatal.If(t, err)
	last, told := s.Decisions(t, fleetName)[0], shown.GetFleet().GetAdjustments()
	if !last.GetTime().AsTime().Equal(shown.GetFleet().GetDecisionTime().AsTime()) || shown.GetFleet().GetStatus().GetDesiredReplicas() != 20 ||
		len(told) != 1 || !strings.Contains(told[0].GetMessage(), `"always" raises minReplicas`) || shown.GetFleet().PlainDesiredReplicas == nil || //nolint:protogetter // absent is not 0
		shown.GetFleet().GetPlainDesiredReplicas() != last.GetPlainDesiredReplicas() || !slices.ContainsFunc(last.GetAdjustments(), func(a *setpointv1.Adjustment) bool { return proto.Equal(a, told[0]) }) {
		t.Errorf("the log of the fleet with a schedule: %v, beside %v", last, shown)
	}
	if off := s.call(t, member(west, 0, 60)); off.GetDesiredReplicas() != 0 || condition(off, "ScalingActive").GetReason() != "ScalingDisabled" {
		t.Errorf("switched off: %v", off)
	}
}

func condition(r *setpointv1.RecommendResponse, kind string) *setpointv1.HorizontalPodAutoscalerCondition {
	for _, c := range r.GetStatus().GetConditions() {
		if c.GetType() == kind {
			return c
		}
	}
	return nil
}

// Decisions of a fleet are listed as any target's, and a member's list has the shares that it was told. They are final as
// they are made: each is told once, to those who list and to those who watch, and none is left to be reported.
func TestDecisionsOfFleets(t *testing.T) {
	t.Parallel()
	engines(t, func(t *testing.T, open func() store.Engine) {
		s := start(t, open)
		s.set(t, queueFleet(2, 100, west, east))
		for range 3 {
			s.call(t, member(west, 3, 60))
			s.call(t, member(east, 3, 60))
		}
		of := s.Decisions(t, fleetName)
		if len(of) != 1 || of[0].GetDesiredReplicas() != 12 || of[0].GetCurrentReplicas() != 6 || of[0].GetOutcome() != "APPLIED" {
			t.Errorf("of the fleet: %v", of)
		}
		own := s.Decisions(t, west)
		if len(own) != 2 || own[0].GetDesiredReplicas() != 6 || own[0].GetReason() != "share of fleet: 6 of 12" || own[0].GetOutcome() != "APPLIED" || own[1].GetDesiredReplicas() != 3 {
			t.Errorf("of a member: %v", own)
		}
		// Nobody does it, and the fleet decides the same again; then somebody does.
		replicas := int32(3)
		for i := range 6 {
			s.Clock.Advance(15 * time.Second)
			if i == 3 {
				replicas = 6
			}
			s.call(t, member(west, replicas, 60))
			s.call(t, member(east, replicas, 60))
		}
		seen := make(map[string]bool)
		for _, d := range s.Decisions(t, fleetName) {
			if seen[d.GetRecommendationId()] || d.GetOutcome() != map[bool]string{true: "APPLIED", false: "NONE"}[d.GetDesiredReplicas() != d.GetCurrentReplicas()] {
				t.Errorf("told twice, or left open: %v", d)
			}
			seen[d.GetRecommendationId()] = true
		}
	})
}

// What finds no member is no change: the log of a fleet has what was shared out, once, while the fleet wants more, and so have
// its lines and counters.
func TestWhatFindsNoMemberIsNoChange(t *testing.T) {
	t.Parallel()
	var logs *observer.ObservedLogs
	measured, registry := servertest.Measured(t, servertest.Logged(zapcore.InfoLevel, server.LogNoCalls, &logs))
	s := &service{measured}
	spec := queueFleet(2, 100, west, east)
	spec.Fleet.Members[0].MaxReplicas, spec.Fleet.Members[1].MaxReplicas = proto.Int32(3), proto.Int32(4)
	s.set(t, spec)
	has := map[string]int32{west: 3, east: 3}
	for i := range 8 {
		for _, m := range []string{west, east} {
			has[m] = s.call(t, member(m, has[m], int32(60+i%2*5))).GetDesiredReplicas()
		}
		s.Clock.Advance(servertest.Period)
	}
	if f := s.fleet(t); f.GetDesiredReplicas() != 13 || f.GetShareTotal() != 7 || f.GetUnplacedReplicas() != 6 {
		t.Fatalf("%v", f)
	}
	changes := 0
	for _, d := range s.Decisions(t, fleetName) {
		if d.GetDesiredReplicas() != 7 || d.GetOutcome() == "APPLIED" != (d.GetCurrentReplicas() == 6) || d.GetReason() == "" != (d.GetCurrentReplicas() == 7) {
			t.Errorf("%v", d)
		}
		if d.GetOutcome() == "APPLIED" {
			changes++
		}
	}
	lines, counted := servertest.Lines(logs, "fleet scaled"), servertest.Read(t, registry)["fleet_decisions_total{action=SCALE_UP}"]
	if changes != 1 || len(lines) != 1 || counted != 1 {
		t.Errorf("%d changes, %v counted, lines %v", changes, counted, lines)
	}
}

// What another member's pods make of a decision does not name them, nor their cluster, whether or not the caller may
// read the fleet: only its state does, and the explanation.
func TestNamesOfMembersDoNotLeak(t *testing.T) {
	t.Parallel()
	s := &service{servertest.NewTenancy(t, map[string]string{"sp_admin": "admin", "sp_west": "west", "sp_east": "east", "sp_reader": "reader"}, `
grants:
  - {identities: ["token:admin"], clusters: ["*"], verbs: [configure, read]}
  - {identities: ["token:west"], clusters: [west], verbs: [recommend, read]}
  - {identities: ["token:reader"], clusters: [west, all], verbs: [recommend, read]}
  - {identities: ["token:east"], clusters: [east], verbs: [recommend, read]}
`).Service}
	as := func(who string) context.Context { return servertest.As(t.Context(), "sp_"+who) }
	spec := &setpointv1.TargetSpec{
		Spec:  servertest.WebRequest(t).GetSpec(),
		Fleet: &setpointv1.FleetSpec{Members: []*setpointv1.FleetMember{{Target: west}, {Target: east}}},
	}
	if _, err := s.Targets.SetTargetSpec(as("admin"), &setpointv1.SetTargetSpecRequest{Name: fleetName, TargetSpec: spec}); err != nil {
		t.Fatal(err)
	}
	request := func(name string, explain bool) *setpointv1.RecommendRequest {
		return servertest.WebRequest(t, func(r *setpointv1.RecommendRequest) {
			r.Target, r.Fleet, r.Explain, r.Options = name, fleetName, explain, nil
			if name == east { // the decision fails for its pods, by name
				for _, p := range r.GetPods() {
					p.Name = "east-" + p.GetName()
					p.Containers[0].Requests = nil
				}
				for _, m := range r.GetPodMetrics() {
					m.Pod = "east-" + m.GetPod()
				}
			}
		})
	}
	var last *setpointv1.RecommendResponse
	failed, explained := 0, 0
	for i, who := range []string{"west", "east", "west", "west", "reader", "reader", "reader", "reader"} {
		name := map[string]string{"east": east}[who]
		explain := who != "reader" || i > 5
		resp, err := s.Recommendations.Recommend(as(who), request(cmp.Or(name, west), explain))
		fatal.If(t, err)
		if resp.GetExplanation() != nil && who == "reader" && explain {
			explained, resp.Explanation = explained+1, nil
		}
		if text := resp.String(); who != "east" && strings.Contains(text, "east") {
			t.Errorf("the answer to %s names east: %s", who, text)
		}
		if resp.GetError() != "" {
			failed++
			if want := "the fleet could not compute its count: FailedGetResourceMetric; who may read the fleet sees why with GetFleet"; resp.GetError() != want {
				t.Errorf("the error is %q, want %q", resp.GetError(), want)
			}
		}
		last = resp
		s.Clock.Advance(5 * time.Second)
	}
	if condition(last, "ScalingActive").GetStatus() != "False" || failed == 0 || explained == 0 {
		t.Errorf("nothing failed (%d), or nothing was explained (%d): %v", failed, explained, last.GetStatus())
	}
	seen, err := s.Fleets.GetFleet(as("reader"), &setpointv1.GetFleetRequest{Name: fleetName})
	if err != nil || !strings.Contains(seen.String(), "east-") {
		t.Errorf("GetFleet does not say which pod it is: %v, %v", seen, err)
	}
	// What could not be computed keeps its name, and what the spec leaves out is told.
	if m := seen.GetFleet().GetStatus().GetCurrentMetrics(); len(m) != 1 || m[0].GetResource().GetName() != "cpu" || m[0].GetResource().GetCurrent().AverageUtilization != nil {
		t.Errorf("the metrics of the fleet are %v", m)
	}
	if got := seen.GetFleet().GetSpec(); got.GetStaleAfter().AsDuration() != 45*time.Second || got.GetLostAfter().AsDuration() != 5*time.Minute || got.GetOnLost() != "HOLD" {
		t.Errorf("with the defaults the fleet is %v", got)
	}
}

// A member whose calls do not name the fleet is decided for alone; who looks at the fleet sees why it is silent.
func TestMembersThatAreDecidedForAloneAreTold(t *testing.T) {
	t.Parallel()
	engines(t, func(t *testing.T, open func() store.Engine) {
		s := start(t, open)
		s.set(t, queueFleet(2, 100, west, east))
		s.call(t, member(west, 3, 60))
		alone := func(r *setpointv1.RecommendRequest) { r.Fleet = "" }
		told := func() (of []string) {
			for _, m := range s.fleet(t).GetMembers() {
				if strings.Contains(m.GetError(), "without naming the fleet") {
					of = append(of, m.GetTarget())
				}
			}
			return of
		}
		s.call(t, member(east, 3, 60, alone))
		if got := told(); !slices.Equal(got, []string{east}) {
			t.Errorf("of one that was never seen: %v", got)
		}
		s.call(t, member(east, 3, 60))
		if got := told(); got != nil {
			t.Errorf("of one that is fresh: %v", got)
		}
		s.Clock.Advance(5 * time.Minute)
		s.call(t, member(west, 3, 60))
		if got := told(); got != nil {
			t.Errorf("its history is old: %v", got)
		}
		s.call(t, member(east, 3, 60, alone))
		if got := told(); !slices.Equal(got, []string{east}) {
			t.Errorf("of one that is silent: %v", got)
		}
	})
}

// GetFleet names the metrics whose readings contradict their scope, as the spec's scopes do; members don't learn them.
func TestContradictionsAreNamed(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		scope              string
		queues, contradict [2]int32
	}{
		"very different":  {"GLOBAL", [2]int32{60, 30}, [2]int32{61, 20}},
		"the same":        {"PER_MEMBER", [2]int32{601, 602}, [2]int32{601, 601}},
		"none":            {"PER_MEMBER", [2]int32{0, 0}, [2]int32{1040, 1040}},
		"small by chance": {"PER_MEMBER", [2]int32{10, 10}, [2]int32{101, 101}},
		"two digits":      {"PER_MEMBER", [2]int32{99, 99}, [2]int32{999, 999}},
		"round by chance": {"PER_MEMBER", [2]int32{1500, 1500}, [2]int32{1510, 1510}},
	} {
		s := start(t, onMemory())
		spec := queueFleet(2, 100, west, east)
		spec.Fleet.Scopes["External:queue"] = tt.scope
		s.set(t, spec)
		for i, queues := range [][2]int32{tt.queues, tt.contradict} {
			s.call(t, member(west, 3, queues[0]))
			s.call(t, member(east, 3, queues[1]))
			var want []string
			if i == 1 {
				want = []string{"External:queue"}
			}
			if got := s.fleet(t).GetContradictions(); !slices.Equal(got, want) {
				t.Errorf("%s, %v: %q, want %q", name, queues, got, want)
			}
		}
	}
}
