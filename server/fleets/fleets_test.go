package fleets_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/server/servertest"
	"github.com/setpoint-dev/setpoint/store"
	"github.com/setpoint-dev/setpoint/store/memory"
)

func TestMain(m *testing.M) { servertest.Main(m) }

// The fleet of the tests, and its members.
const (
	fleetName = "clusters/all/namespaces/shop/targets/web"
	west      = "clusters/west/namespaces/shop/targets/web"
	east      = "clusters/east/namespaces/shop/targets/web"
	north     = "clusters/north/namespaces/shop/targets/web"
)

// engines are the stores that all rules hold on. Each call of an opened one is an instance of its own.
func engines(t *testing.T, test func(t *testing.T, open func() store.Engine)) {
	t.Run("memory", func(t *testing.T) {
		t.Parallel()
		engine := memory.New(memory.Options{})
		test(t, func() store.Engine { return engine })
	})
	t.Run("redis", func(t *testing.T) {
		t.Parallel()
		test(t, servertest.OnRedis(t))
	})
}

func start(t *testing.T, open func() store.Engine, changes ...func(*servertest.Setup)) *service {
	t.Helper()
	return &service{servertest.Start(t, append([]func(*servertest.Setup){func(su *servertest.Setup) {
		engine := open()
		su.Engine = engine
		su.Log, _ = engine.(store.Log)
		su.Options.MaxClockSkew = 0 // the clock stands still
	}}, changes...)...)}
}

type service struct{ *servertest.Service }

// queueFleet is a fleet that wants a replica for each 10 of the members' queues together.
func queueFleet(least, most int32, members ...string) *setpointv1.TargetSpec {
	spec := servertest.QueueSpec(least, most)
	spec.Spec.Behavior = &setpointv1.HorizontalPodAutoscalerBehavior{ScaleDown: &setpointv1.HPAScalingRules{StabilizationWindowSeconds: proto.Int32(0)}}
	spec.Fleet = &setpointv1.FleetSpec{Scopes: map[string]string{"External:queue": "PER_MEMBER"}}
	for _, m := range members {
		spec.Fleet.Members = append(spec.Fleet.Members, &setpointv1.FleetMember{Target: m})
	}
	return spec
}

func (s *service) set(t *testing.T, spec *setpointv1.TargetSpec) *setpointv1.TargetSpec {
	t.Helper()
	resp, err := s.Targets.SetTargetSpec(t.Context(), &setpointv1.SetTargetSpecRequest{Name: fleetName, TargetSpec: spec})
	if err != nil {
		t.Fatalf("SetTargetSpec: %v", err)
	}
	return resp.GetTargetSpec()
}

// member is a request of a member of queueFleet that has so many replicas and reads such a queue.
func member(name string, replicas, queue int32, changes ...func(*setpointv1.RecommendRequest)) *setpointv1.RecommendRequest {
	return servertest.With(&setpointv1.RecommendRequest{
		Target: name, Fleet: fleetName, Spec: servertest.QueueSpec(1, 100).GetSpec(), Scale: &setpointv1.Scale{SpecReplicas: replicas},
		ExternalMetrics: []*setpointv1.ExternalMetric{{Metric: &setpointv1.MetricIdentifier{Name: "queue"}, Value: fmt.Sprint(queue)}},
	}, changes...)
}

// call calls and fails the test on an error; it never tells a member of others.
func (s *service) call(t *testing.T, req *setpointv1.RecommendRequest) *setpointv1.RecommendResponse {
	t.Helper()
	resp := s.Recommend(t, req)
	text := protojson.Format(resp)
	for _, other := range []string{"west", "east", "north"} {
		if !strings.Contains(req.GetTarget(), other) && strings.Contains(text, other) {
			t.Errorf("the answer to %s names %s: %s", req.GetTarget(), other, text)
		}
	}
	return resp
}

func (s *service) fleet(t *testing.T) *setpointv1.Fleet {
	t.Helper()
	resp, err := s.Fleets.GetFleet(t.Context(), &setpointv1.GetFleetRequest{Name: fleetName})
	if err != nil {
		t.Fatalf("GetFleet: %v", err)
	}
	return resp.GetFleet()
}

// Members learn shares of what their readings add up to, in one decision a period.
func TestMembersLearnTheirShares(t *testing.T) {
	t.Parallel()
	engines(t, func(t *testing.T, open func() store.Engine) {
		s := start(t, open)
		s.set(t, queueFleet(2, 100, west, east))
		first := s.call(t, member(west, 3, 60))
		if first.GetDesiredReplicas() != 3 || !first.GetFleet().GetHolds() || first.GetFleet().GetDecisionTime() != nil || !strings.Contains(condition(first, "ScalingLimited").GetMessage(), "the fleet has not decided yet") {
			t.Errorf("before all members called: %v", first)
		}
		last := s.call(t, member(east, 3, 60))
		if f := last.GetFleet(); f.GetDesiredReplicas() != 12 || f.GetShareTotal() != 12 || last.GetDesiredReplicas() != 6 || f.GetMembers().GetFresh() != 2 || f.GetHolds() {
			t.Errorf("of 120 in two queues: %v", last)
		}
		if got := s.call(t, member(west, 3, 60)); got.GetDesiredReplicas() != 6 || got.GetReason() != "share of fleet: 6 of 12" || got.GetAction() != "SCALE_UP" || got.GetRecommendationId() != "" ||
			condition(got, "AbleToScale").GetReason() != "SucceededRescale" || !got.GetStatus().GetLastScaleTime().AsTime().Equal(s.Clock.Now()) {
			t.Errorf("the other member: %v", got)
		}
		// A call within the period decides nothing; one after it does.
		s.Clock.Advance(10 * time.Second)
		if got := s.call(t, member(west, 6, 300)).GetFleet().GetDesiredReplicas(); got != 12 {
			t.Errorf("within the period the fleet decided %d", got)
		}
		s.Clock.Advance(5 * time.Second)
		s.call(t, member(east, 6, 60))
		if got := s.call(t, member(west, 6, 300)); got.GetFleet().GetDesiredReplicas() != 24 { // at most twice as many
			t.Errorf("a period later: %v", got)
		}
		f := s.fleet(t)
		if f.GetDesiredReplicas() != 24 || len(f.GetMembers()) != 2 || f.GetMembers()[0].GetTarget() != east || f.GetMembers()[0].GetShare() != 12 {
			t.Errorf("GetFleet: %v", f)
		}
	})
}
