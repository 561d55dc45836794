package agent_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/clients/agent"
	"github.com/setpoint-dev/setpoint/clients/agent/agenttest"
)

const fleetName = "clusters/f/namespaces/shop/targets/web"

// ofFleet makes every object a member of a fleet, and keeps the last change.
type ofFleet struct {
	told
	mu      sync.Mutex
	changes []agent.Change // guarded by mu, as is all that follows
	refuses bool
	scales  []string // events of changes
	wait    *agent.Hold
	shadow  bool
	held    *agent.Hold // as it was shown last
}

func (p *ofFleet) hold(wait *agent.Hold, shadow bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.wait, p.shadow = wait, shadow
}

func (p *ofFleet) lastHold() *agent.Hold {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.held
}

func (p *ofFleet) Tell(ctx context.Context, t *agent.Telling) {
	p.mu.Lock()
	p.held = t.Hold
	for _, e := range t.Events {
		if strings.HasSuffix(e.GetReason(), "Rescale") {
			p.scales = append(p.scales, e.GetType()+" "+e.GetReason()+" "+e.GetMessage())
		}
	}
	p.mu.Unlock()
	p.told.Tell(ctx, t)
}

func (p *ofFleet) Object(ctx context.Context, key agent.Key, before *agent.Object) (*agent.Object, error) {
	o, err := p.told.Object(ctx, key, before)
	if o != nil {
		p.mu.Lock()
		o.Fleet, o.Hold, o.Shadow = fleetName, p.wait, p.shadow
		p.mu.Unlock()
	}
	return o, err
}

func (p *ofFleet) Apply(ctx context.Context, o *agent.Object, seen *agent.Observation, change agent.Change) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.refuses {
		return errors.New("not now")
	}
	p.changes = append(p.changes, change)
	return p.told.Apply(ctx, o, seen, change)
}

// A member that is held for a while calls as always, applies nothing, and shows why; afterwards it does what it is told. As a
// shadow, or invalid, it does not call.
func TestAHeldMemberOfAFleetCalls(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		service := &shares{}
		p, s := &ofFleet{told: told{Fake: &agenttest.Fake{}}}, agenttest.NewService(service)
		p.Create(agenttest.Workload{Name: "web", Replicas: 4})
		fresh := &setpointv1.FleetShare{State: "FRESH", ShareTotal: 12, DesiredReplicas: 12, DecisionTime: timestamppb.Now(), Members: &setpointv1.FleetMemberCounts{Fresh: 3}}
		service.give(4, fresh, nil)
		d, _ := drive(t, p, s, agent.Options{Period: agenttest.Period}, agent.DriverOptions{})
		step := func(what string, replicas int32, calls bool, shown string) {
			t.Helper()
			before := len(s.Asked())
			time.Sleep(3 * agenttest.Period)
			synctest.Wait()
			if got := p.Replicas("web"); got != replicas {
				t.Errorf("%s: %d replicas, want %d", what, got, replicas)
			}
			if asked := len(s.Asked()) > before; asked != calls {
				t.Errorf("%s: it calls: %v", what, asked)
			}
			hold := p.lastHold()
			if (hold == nil) != (shown == "") || hold != nil && !strings.Contains(hold.Message, shown) {
				t.Errorf("%s: it shows %+v, want %q", what, hold, shown)
			}
		}
		wait := &agent.Hold{Outcome: agent.OutcomeWaiting, Reason: "Deploying", Message: "it deploys"}
		p.hold(wait, false)
		step("held", 4, true, "it deploys")
		service.give(6, fresh, nil)
		step("held, its share is larger", 4, true, "it would be scaled from 4 to 6")
		p.hold(&agent.Hold{Reason: agent.ReasonInvalidObject, Message: "it is wrong"}, false)
		step("invalid", 4, false, "it is wrong")
		for _, hold := range []*agent.Hold{nil, wait} {
			p.hold(hold, true)
			step("a shadow", 4, false, "can't be a shadow")
			var report strings.Builder
			if err := d.Shadows().WriteText(&report); err != nil || !strings.Contains(report.String(), "can't be a shadow") || !strings.Contains(report.String(), " -  ") {
				t.Errorf("the report of shadows is %s", report.String())
			}
		}
		p.hold(nil, false)
		step("no longer", 6, true, "")
	})
}

// shares is a service that gives members of a fleet a share, by the contract.
type shares struct {
	setpointv1.UnimplementedRecommendationServiceServer

	mu    sync.Mutex
	share int32                  // guarded by mu, as is all that follows
	fleet *setpointv1.FleetShare // nil: the service knows no fleets
	err   error
}

func (s *shares) Recommend(_ context.Context, req *setpointv1.RecommendRequest) (*setpointv1.RecommendResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err != nil {
		return nil, s.err
	}
	has := req.GetScale().GetSpecReplicas()
	answer := &setpointv1.RecommendResponse{
		RequestId: new(req.GetRequestId()), CurrentReplicas: has, DesiredReplicas: s.share, Action: "NONE", EvaluationTime: timestamppb.Now(),
		Status: &setpointv1.HorizontalPodAutoscalerStatus{CurrentReplicas: has, DesiredReplicas: s.share}, Fleet: s.fleet,
	}
	switch {
	case s.share > has:
		answer.Action = "SCALE_UP"
	case s.share < has:
		answer.Action = "SCALE_DOWN"
	}
	if s.fleet != nil && s.share != has {
		answer.Reason = fmt.Sprintf("share of fleet: %d of %d", s.share, s.fleet.GetShareTotal())
	}
	if s.fleet == nil && s.share != has {
		answer.RecommendationId = req.GetRequestId()
	}
	return answer, nil
}

func (s *shares) give(share int32, fleet *setpointv1.FleetShare, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.share, s.fleet, s.err = share, fleet, err
}

// A member sends its fleet's name and does what the answer says, without a report: it has no recommendation
// to report on. It never decides alone: not while the service is away, does not know the fleet, or does not
// know fleets at all.
func TestAMemberOfAFleetGetsItsShareOnly(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		service := &shares{}
		p, s := &ofFleet{told: told{Fake: &agenttest.Fake{}}}, agenttest.NewService(service)
		p.Create(agenttest.Workload{Name: "web", Replicas: 4})
		fresh := func() *setpointv1.FleetShare {
			return &setpointv1.FleetShare{State: "FRESH", ShareTotal: 12, DesiredReplicas: 12, DecisionTime: timestamppb.Now(), Members: &setpointv1.FleetMemberCounts{Fresh: 3}}
		}
		service.give(6, fresh(), nil)
		drive(t, p, s, agent.Options{Period: agenttest.Period}, agent.DriverOptions{})
		step := func(name string, want int32) {
			t.Helper()
			time.Sleep(3 * agenttest.Period)
			synctest.Wait()
			if got := p.Replicas("web"); got != want {
				t.Errorf("%s: %d replicas, want %d", name, got, want)
			}
		}
		step("its share", 6)
		p.Want("web", 9)
		step("its share, whatever its own metrics say", 6)
		service.give(5, fresh(), nil)
		step("another share", 5)
		service.give(9, nil, nil)
		step("a service that decides for it alone", 5)
		if n := p.count(agent.ReasonAnswerRefused); n != 1 {
			t.Errorf("told %d times that it was decided alone, want once", n)
		}
		service.give(9, fresh(), status.Error(codes.FailedPrecondition, "no such fleet"))
		step("a service that does not know the fleet", 5)
		service.give(9, fresh(), nil)
		s.Away(true)
		step("no service", 5)
		s.Away(false)
		time.Sleep(time.Minute) // until it is looked for again
		step("the service again", 9)
		holds := fresh()
		holds.Holds = true
		service.give(9, holds, nil)
		step("a fleet that holds", 9)
		drained := fresh()
		drained.Drained = true
		service.give(0, drained, nil)
		time.Sleep(time.Minute) // since the last event about the fleet
		step("a drained member, below its own minimum", 0)
		if n := p.count(agent.EventFleet); n != 2 {
			t.Errorf("told %d times of the fleet, want twice: that it holds, and that the member is drained", n)
		}
		if n := len(s.Reports()); n != 0 {
			t.Errorf("%d reports, want none", n)
		}
		for _, q := range s.Asked() {
			if q.Request.GetFleet() != fleetName {
				t.Fatalf("asked about the fleet %q", q.Request.GetFleet())
			}
		}
		p.mu.Lock()
		defer p.mu.Unlock()
		seen := map[string]bool{}
		for _, c := range p.changes {
			if c.RecommendationID == "" || seen[c.RecommendationID] {
				t.Errorf("the change from %d to %d has the id %q, want one of its own", c.From, c.To, c.RecommendationID)
			}
			seen[c.RecommendationID] = true
		}
		if len(p.changes) != 4 {
			t.Fatalf("%d changes, want 4, so that this shows something", len(p.changes))
		}
		if last := p.changes[3].Figures.With(""); !strings.Contains(last, "share 0 of 12 of fleet "+fleetName+", drained") {
			t.Errorf("the last change says %q", last)
		}
	})
}

// Each change of a share has the controller's event, which no report brings; one that failed says so.
func TestAChangedShareHasAnEvent(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		service := &shares{}
		p, s := &ofFleet{told: told{Fake: &agenttest.Fake{}}}, agenttest.NewService(service)
		p.Create(agenttest.Workload{Name: "web", Replicas: 4})
		fresh := &setpointv1.FleetShare{State: "FRESH", ShareTotal: 12, DesiredReplicas: 12, DecisionTime: timestamppb.Now(), Members: &setpointv1.FleetMemberCounts{Fresh: 3}}
		service.give(4, fresh, nil)
		drive(t, p, s, agent.Options{Period: agenttest.Period}, agent.DriverOptions{})
		for _, tt := range []struct {
			share   int32
			refuses bool
			want    string // the first event of the step; empty: none
		}{
			{share: 4},
			{share: 6, want: "Normal SuccessfulRescale New size: 6; reason: share of fleet: 6 of 12"},
			{share: 6},
			{share: 3, refuses: true, want: "Warning FailedRescale New size: 3; reason: share of fleet: 3 of 12; error: not now"},
		} {
			p.mu.Lock()
			p.refuses, p.scales = tt.refuses, nil
			p.mu.Unlock()
			service.give(tt.share, fresh, nil)
			time.Sleep(3 * agenttest.Period)
			synctest.Wait()
			p.mu.Lock()
			if got := strings.Join(p.scales[:min(1, len(p.scales))], ""); got != tt.want || !tt.refuses && len(p.scales) > 1 {
				t.Errorf("share %d: events %q, want %q", tt.share, p.scales, tt.want)
			}
			p.mu.Unlock()
		}
	})
}

func TestFleetOf(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		fleet *setpointv1.FleetShare
		want  string
	}{
		{nil, ""},
		{&setpointv1.FleetShare{State: "FRESH", ShareTotal: 12}, "share 4 of 12 of fleet f"},
		{&setpointv1.FleetShare{State: "RETURNING", ShareTotal: 12}, "share 4 of 12 of fleet f, returning"},
		{&setpointv1.FleetShare{State: "UNSEEN", Holds: true, DecisionTime: timestamppb.Now(), Members: &setpointv1.FleetMemberCounts{Unseen: 2}}, "the fleet holds: f knows too little to give a share, unseen; members that never called: 2"},
		{
			&setpointv1.FleetShare{State: "FRESH", ShareTotal: 12, Drained: true, UnplacedReplicas: 3, MissingReplicas: 1, Members: &setpointv1.FleetMemberCounts{Lost: 1, Stale: 2}},
			"share 4 of 12 of fleet f, drained; 3 replicas that no member can take; 1 replicas too few if the largest member is lost; lost members: 1; stale members: 2",
		},
	} {
		if undecided := proto.CloneOf(tt.fleet); tt.fleet != nil && !tt.fleet.GetHolds() {
			if got := agent.FleetOf(&setpointv1.RecommendResponse{DesiredReplicas: 4, Fleet: undecided}, "f"); !strings.HasPrefix(got, "the fleet f has not decided yet") {
				t.Errorf("before a decision: %q", got)
			}
		}
		if tt.fleet != nil && !tt.fleet.GetHolds() {
			tt.fleet.DecisionTime = timestamppb.Now()
		}
		if got := agent.FleetOf(&setpointv1.RecommendResponse{DesiredReplicas: 4, Fleet: tt.fleet}, "f"); got != tt.want {
			t.Errorf("got  %q\nwant %q", got, tt.want)
		}
	}
	own := &setpointv1.RecommendResponse{DesiredReplicas: 25, Fleet: &setpointv1.FleetShare{State: "FRESH", ShareTotal: 40, DecisionTime: timestamppb.Now()}}
	own.Status = &setpointv1.HorizontalPodAutoscalerStatus{Conditions: []*setpointv1.HorizontalPodAutoscalerCondition{{Type: "ScalingLimited", Status: "True", Reason: "TooFewReplicas"}}}
	if got := agent.FleetOf(own, "f"); got != "its own bounds or an override limit its share of 40 of fleet f" {
		t.Errorf("a share that is less than the member's own minimum: %q", got)
	}
}

// A member whose settings are read and whose state is not is told of from the start: an agent may start while what it scales does not answer.
func TestAMemberThatWasNeverSeenIsToldOf(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p, s := &ofFleet{told: told{Fake: &agenttest.Fake{}}}, agenttest.NewService(&shares{})
		p.Create(agenttest.Workload{Name: "web", Replicas: 4})
		p.FailReads(errors.New("it does not answer"))
		drive(t, p, s, agent.Options{Period: agenttest.Period}, agent.DriverOptions{})
		time.Sleep(5 * agenttest.Period)
		synctest.Wait()
		for _, q := range s.Asked() {
			if q.Request.GetScaleError().GetMessage() != "it does not answer" || q.Request.GetFleet() != fleetName || len(q.Request.GetSpec().GetMetrics()) != 1 {
				t.Errorf("it told %v", q.Request)
			}
		}
		if n := len(s.Asked()); n < 3 || n > 5 {
			t.Errorf("it told %d times in 5 periods", n)
		}
	})
}
