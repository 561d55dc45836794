package conversion

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/recommender"
	"github.com/setpoint-dev/setpoint/server/validation"
	"github.com/setpoint-dev/setpoint/stages"
)

// Around reads the stages and the proposals of a request whose input was read, for a decision at that
// instant. The violations list everything that is wrong, beside what validation.Structure finds.
func Around(req *setpointv1.RecommendRequest, in *recommender.Input, now time.Time) (stages.Around, []validation.Violation) {
	r := &stagesReader{in: in, now: now}
	beside := ""
	switch {
	case req.GetStages() != nil:
		beside = "stages"
	case len(req.GetProposals()) > 0:
		beside = "proposals"
	}
	if !r.mayHaveStages(req.GetSpec(), beside) {
		return stages.Around{}, r.violations
	}
	around := stages.Around{Proposals: r.proposals(req.GetProposals())}
	if req.GetStages() != nil || HasFallback(req.GetSpec()) {
		around.Plan = r.plan(req.GetSpec(), req.GetStages())
	}
	return around, r.violations
}

// Staged reports whether something of a request is read by Around.
func Staged(req *setpointv1.RecommendRequest) bool {
	return req.GetStages() != nil || len(req.GetProposals()) > 0 || HasFallback(req.GetSpec())
}

// Stages reads the stages of a stored spec: s, and what the spec itself has of them. Nil: it has neither.
func Stages(spec *setpointv1.HorizontalPodAutoscalerSpec, s *setpointv1.Stages, in *recommender.Input) (*stages.Plan, []validation.Violation) {
	if s == nil && !HasFallback(spec) {
		return nil, nil
	}
	r := &stagesReader{in: in, stored: true}
	beside := ""
	if s != nil {
		beside = "stages"
	}
	if !r.mayHaveStages(spec, beside) {
		return nil, r.violations
	}
	plan := r.plan(spec, s)
	return plan, r.violations
}

// mayHaveStages refuses them with profiles that have none; beside is the field that has some beside the spec, empty: none has.
func (r *stagesReader) mayHaveStages(spec *setpointv1.HorizontalPodAutoscalerSpec, beside string) bool {
	p := r.in.Options.Profile
	if p == nil || p.FollowsController() {
		return true
	}
	field := beside
	for i, m := range spec.GetMetrics() {
		if field == "" && m.GetExternal().GetFallback() != nil {
			field = fallbackField(i)
		}
	}
	r.refuse(field, "Forbidden: the profile %q has none: choose one of the controller's, such as %q", p.Name(), recommender.DefaultProfile)
	return false
}

// As many of a list are read as there may be: validation.Structure tells that there are more, and a request of some
// megabytes has millions, each of which costs more than its bytes do.
const mostSchedules, mostPairs, mostOfMetrics, mostProposals = 64, 64, 16, 8

func upTo[T any](most int, list []T) []T { return list[:min(most, len(list))] }

// pairs returns a map's keys in order; none, if there are more than there may be.
func pairs(of map[string]string) []string {
	if len(of) > mostPairs {
		return nil
	}
	return slices.Sorted(maps.Keys(of))
}

// stagesReader reads stages.
type stagesReader struct {
	in *recommender.Input
	// now is the instant of the decision.
	now time.Time
	// stored reports whether bounds outside the spec's are violations: in a request they are limited.
	stored bool
	// unknownZones counts the schedules whose zone does not exist.
	unknownZones int
	violations   []validation.Violation
}

func (r *stagesReader) refuse(field, format string, a ...any) {
	r.violations = append(r.violations, validation.Violation{Field: field, Description: fmt.Sprintf(format, a...)})
}

func (r *stagesReader) plan(spec *setpointv1.HorizontalPodAutoscalerSpec, s *setpointv1.Stages) *stages.Plan {
	p := &stages.Plan{WindowThroughFailures: s.GetWindowThroughFailures(), IgnoreSurge: s.GetGuards().GetIgnoreSurge()}
	for i := range r.in.Spec.Metrics {
		p.Metrics = append(p.Metrics, MetricName(&r.in.Spec.Metrics[i]))
	}
	r.combine(s.GetCombine(), p)
	r.reversals(s.GetGuards().GetReversals(), p)
	p.Schedules = r.schedules(s.GetSchedules())
	p.Forecast = r.forecast(s.GetForecast(), p)
	p.Idle = r.idle(s.GetIdle(), p)
	r.failures(p, s)
	r.ofSpec(p, spec)
	return p
}

// metric returns the index of the one metric of that name; below 0: a violation was added.
func (r *stagesReader) metric(p *stages.Plan, name, field string) int {
	index := -1
	for i, n := range p.Metrics {
		switch {
		case n != name:
		case index >= 0:
			r.refuse(field, "Invalid value: %q: the spec has several metrics of that name", clip(name))
			return -1
		default:
			index = i
		}
	}
	if index < 0 {
		r.refuse(field, "Invalid value: %q: the spec has no such metric: it has %s", clip(name), clip(strings.Join(clippedEach(upTo(mostTold, p.Metrics)), ", ")))
	}
	return index
}

// mostTold is how many names of metrics a violation tells, at most.
const mostTold = 64

func clippedEach(names []string) []string {
	clipped := make([]string, len(names))
	for i, name := range names {
		clipped[i] = clip(name)
	}
	return clipped
}

// MetricName is stages.MetricName.
func MetricName(m *recommender.MetricSpec) string { return stages.MetricName(m) }
