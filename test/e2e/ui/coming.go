//go:build linux

package ui

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/clients/kubernetes/recording"
	"github.com/setpoint-dev/setpoint/internal/fatal"
	"github.com/setpoint-dev/setpoint/internal/process"
	"github.com/setpoint-dev/setpoint/replay"
	"github.com/setpoint-dev/setpoint/test/e2e/kit"
)

// engine makes the decisions that follow a target's answer, in this process: from the history, the spec and the proposal that
// the service gave, one after the other, as somebody would ask for them. Neither the service nor the engine's outlook has a part
// in it, so that what the page says is compared with what is decided.
type engine struct {
	*replay.Engine
	ask *setpointv1.RecommendRequest
}

// engineOf returns the engine of an answer; nil: what decides is not all in the answer, as stages and metrics that fail are not.
func engineOf(target *setpointv1.Target) *engine {
	o, use, last := target.GetOutlook(), target.GetSpecInUse(), target.GetLastDecision()
	if o.GetProblem() != "" || o == nil || o.Proposal == nil || use == nil || proto.Size(use.GetStages()) > 0 || len(o.GetBounds()) > 0 || len(last.GetAdjustments()) > 0 ||
		slices.Contains(last.GetStates(), "METRICS_FAILING") {
		return nil
	}
	// One metric of which each replica is to have 1, and all ask for the proposal, whatever the count is.
	asked := &setpointv1.MetricIdentifier{Name: "asked"}
	e := &engine{Engine: replay.NewEngine(), ask: &setpointv1.RecommendRequest{
		Target: target.GetName(), Spec: proto.CloneOf(use.GetSpec()), Options: proto.CloneOf(use.GetOptions()),
		Scale:           &setpointv1.Scale{SpecReplicas: o.GetReplicas(), StatusReplicas: new(o.GetReplicas())},
		ExternalMetrics: []*setpointv1.ExternalMetric{{Metric: asked, Value: fmt.Sprint(o.GetProposal())}},
	}}
	e.ask.Spec.Metrics = []*setpointv1.MetricSpec{{Type: "External", External: &setpointv1.ExternalMetricSource{
		Metric: asked, Target: &setpointv1.MetricTarget{Type: "AverageValue", AverageValue: new("1")},
	}}}
	if e.ask.Options == nil {
		e.ask.Options = &setpointv1.RecommendOptions{}
	}
	e.ask.Options.Tolerance = new("0")
	if b := e.ask.GetSpec().GetBehavior(); b != nil {
		for _, rules := range []*setpointv1.HPAScalingRules{b.GetScaleUp(), b.GetScaleDown()} {
			if rules != nil {
				rules.Tolerance = nil
			}
		}
	}
	history := recording.HistoryOf(target.GetHistory())
	if p := target.GetHistory().GetPending(); p != nil { // which is applied by the next call
		event := recording.ScaleEvent{Change: p.GetDesiredReplicas() - p.GetCurrentReplicas(), Time: p.GetTime().AsTime()}
		if event.Change > 0 {
			history.ScaleUps = append(history.ScaleUps, event)
		} else {
			event.Change = -event.Change
			history.ScaleDowns = append(history.ScaleDowns, event)
		}
	}
	e.Begin(target.GetName(), history)
	return e
}

// decide returns the replicas that are decided at an instant, and applies them.
func (e *engine) decide(ctx context.Context, at time.Time) (int32, error) {
	e.ask.EvaluationTime = timestamppb.New(at)
	answer, err := e.Recommend(ctx, e.ask)
	if err != nil {
		return 0, err
	}
	if n := answer.GetDesiredReplicas(); n != e.ask.GetScale().GetSpecReplicas() {
		e.ask.Scale = &setpointv1.Scale{SpecReplicas: n, StatusReplicas: &n}
		if _, err := e.ReportScale(ctx, &setpointv1.ReportScaleRequest{Target: e.ask.GetTarget(), RecommendationId: answer.GetRecommendationId(), Outcome: "APPLIED"}); err != nil {
			return 0, err
		}
	}
	return e.ask.GetScale().GetSpecReplicas(), nil
}

// foresees compares what an answer says will come with what the engine decides: at each instant at which a call is expected,
// the same count. false: it has no say.
func foresees(t *testing.T, target *setpointv1.Target) bool {
	t.Helper()
	e, o := engineOf(target), target.GetOutlook()
	if e == nil {
		return false
	}
	const most = 1000 // decisions
	told, count := o.GetChanges(), o.GetReplicas()
	for n := range most {
		at := o.GetStartTime().AsTime().Add(time.Duration(n) * o.GetInterval().AsDuration())
		if o.GetUntilTime() != nil && !at.Before(o.GetUntilTime().AsTime()) {
			break
		}
		got, err := e.decide(t.Context(), at)
		fatal.If(t, err)
		if len(told) > 0 && !at.Before(told[0].GetTime().AsTime()) {
			if !told[0].GetTime().AsTime().Equal(at) {
				t.Errorf("%s: the page says %d for %s, which is no instant of a call: these are %s and whole intervals later", target.GetName(), told[0].GetReplicas(), told[0].GetTime().AsTime(), o.GetStartTime().AsTime())
			}
			told, count = told[1:], told[0].GetReplicas()
		}
		if got != count {
			t.Errorf("%s: the page says %d for %s, the engine decides %d; of the outlook %v", target.GetName(), count, at, got, o)
			break
		}
	}
	return true
}

// moving has loads change, and looks at the pages of what they move before that has come: answers by name.
func (l *Live) moving(p *page, s *siteOf) map[string]*setpointv1.Target {
	p.t.Helper()
	seen := make(map[string]*setpointv1.Target)
	get := func(name string) *setpointv1.Target {
		got, err := s.Targets().GetTarget(p.t.Context(), &setpointv1.GetTargetRequest{Name: name})
		fatal.If(p.t, err)
		return got.GetTarget()
	}
	for name, begin := range l.Comes {
		// The page is there before anything comes, and draws what comes as it is decided: loading it may take as long as that.
		p.goTo("/ui/" + name)
		p.agrees()
		begin() // no sooner than its page is read, or all has come by then
		var shown *setpointv1.Target
		kit.Eventually(p.t, process.Patience, "a change of "+name+" that comes", func() error {
			if shown, _ = p.agrees(); shown.GetName() != name || len(shown.GetOutlook().GetChanges()) == 0 {
				return fmt.Errorf("the page was drawn from %v", shown.GetOutlook())
			}
			return nil
		})
		if !foresees(p.t, shown) {
			p.t.Errorf("%s: the engine can't be asked about %v", name, shown)
		}
		seen[name] = shown
	}
	for name, shown := range seen {
		if all := shown.GetOutlook().GetChanges(); len(all) > 0 {
			due := all[min(2, len(all)-1)].GetTime().AsTime()
			kit.Eventually(p.t, time.Until(due)+process.Patience, "what comes of "+name, func() error {
				if at := get(name).GetUpdateTime().AsTime(); at.Before(due.Add(2 * shown.GetInterval().AsDuration())) {
					return fmt.Errorf("it was decided at %s", at)
				}
				return nil
			})
		}
	}
	return seen
}

// since are the decisions about a target after an answer, the oldest first, as long as what the answer says of them holds: the
// spec and what the metrics ask for stay.
func (s *siteOf) since(t *testing.T, target *setpointv1.Target) (all []*setpointv1.Decision) {
	t.Helper()
	o := target.GetOutlook()
	log, err := s.Targets().ListDecisions(t.Context(), &setpointv1.ListDecisionsRequest{Parent: target.GetName(), PageSize: 1000})
	fatal.If(t, err)
	got, err := s.Targets().GetTarget(t.Context(), &setpointv1.GetTargetRequest{Name: target.GetName()})
	fatal.If(t, err)
	known := append([]*setpointv1.Decision{got.GetTarget().GetLastDecision()}, log.GetDecisions()...)
	slices.SortStableFunc(known, func(a, b *setpointv1.Decision) int { return a.GetTime().AsTime().Compare(b.GetTime().AsTime()) })
	known = slices.CompactFunc(known, func(a, b *setpointv1.Decision) bool { return a.GetTime().AsTime().Equal(b.GetTime().AsTime()) })
	for _, d := range known {
		at := d.GetTime().AsTime()
		switch {
		case !at.After(target.GetLastDecision().GetTime().AsTime()):
			continue
		case o.GetUntilTime() != nil && !at.Before(o.GetUntilTime().AsTime()), d.GetSpecHash() != target.GetSpecInUse().GetHash(),
			o.Proposal != nil && d.GetBasis() != nil && d.GetBasis().GetProposal() != o.GetProposal():
			return all
		}
		all = append(all, d)
	}
	return all
}

// came compares what came with what the pages said would come: the engine decides the same at the very instants at which agents
// asked, and the counts come in the order that the page says, at its instants. An agent asks some time sooner or later than its
// interval says, so a change may come a call sooner or later than said, and each further one a call more.
func (l *Live) came(t *testing.T, s *siteOf, seen map[string]*setpointv1.Target) {
	t.Helper()
	decisions, changes, off := 0, 0, time.Duration(0)
	for name, target := range seen {
		o := target.GetOutlook()
		if o == nil || o.GetProblem() != "" || l.Moves != nil && l.Moves(short(name)) {
			continue
		}
		e, told, count := engineOf(target), o.GetChanges(), o.GetReplicas()
		last, call, allowed := target.GetLastDecision().GetTime().AsTime(), o.GetInterval().AsDuration(), time.Duration(0)
		for _, d := range s.since(t, target) {
			at, got := d.GetTime().AsTime(), d.GetDesiredReplicas()
			call, last = max(call, at.Sub(last)), at
			if len(told) > 0 && told[0].GetDoubtful() {
				break
			}
			if e != nil {
				want, err := e.decide(t.Context(), at)
				fatal.If(t, err)
				if got != want {
					t.Errorf("%s: %d was decided at %s, and the engine decides %d; the outlook was %v, the decision %v", name, got, at, want, o, d)
					break
				}
			}
			if got != count {
				allowed += call
				if len(told) == 0 || got != told[0].GetReplicas() || at.Sub(told[0].GetTime().AsTime()).Abs() > allowed {
					t.Errorf("%s: %d was decided at %s after %d; the page said %v", name, got, at, count, o.GetChanges())
					break
				}
				off = max(off, at.Sub(told[0].GetTime().AsTime()).Abs())
				told, count = told[1:], got
				changes++
			}
			if len(told) > 0 && at.Sub(told[0].GetTime().AsTime()) > allowed+call {
				t.Errorf("%s: the page said %v, and %d was decided at %s", name, o.GetChanges(), got, at)
				break
			}
			decisions++
		}
	}
	t.Logf("%d decisions and %d changes came as the pages had said, at most %s from the instants that they said", decisions, changes, off.Round(time.Millisecond))
	if decisions == 0 || changes < len(l.Comes) {
		t.Errorf("%d decisions and %d changes came that a page had said would come", decisions, changes)
	}
}
