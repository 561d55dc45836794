package simulation

import (
	"time"

	"github.com/setpoint-dev/setpoint/recommender"
	"github.com/setpoint-dev/setpoint/stages"
)

// Engine decides, and receives the outcomes of changes.
type Engine interface {
	Recommend(now time.Time, in *recommender.Input) (recommender.Decision, error)
	Settle(id recommender.ID, outcome recommender.Outcome, message string) error
}

// production is the recommender with the history of one target.
type production struct {
	history   recommender.History
	namespace string
	// plan is nil without stages, and kept what they keep.
	plan *stages.Plan
	kept stages.Kept
	// overrides are those of the whole run.
	overrides []stages.Override
}

// NewEngine returns the production engine for a new target.
func NewEngine(namespace string) Engine { return &production{namespace: namespace} }

// EngineOf returns the production engine for a new target of an autoscaler, with its stages.
func EngineOf(a *Autoscaler) Engine { return &production{namespace: a.Namespace, plan: a.Stages} }

// engineIn is EngineOf in a scenario, with its overrides.
func engineIn(s *Scenario, a *Autoscaler) Engine {
	e := &production{namespace: a.Namespace, plan: a.Stages}
	for i := range s.Events {
		if of := &s.Events[i]; of.Kind == Override && of.Override != nil {
			one := *of.Override
			one.Start, one.Expires = s.Start.Add(of.At), s.Start.Add(of.At+of.For)
			one.Created = one.Start
			e.overrides = append(e.overrides, one)
		}
	}
	return e
}

// Recommend implements Engine.
func (e *production) Recommend(now time.Time, in *recommender.Input) (recommender.Decision, error) {
	decision, next := e.kept.Recommend(stages.Around{Plan: e.plan, Overrides: stages.InForce(e.overrides, now)}, now, in, &e.history)
	e.history = next
	return decision, nil
}

// Settle implements Engine.
func (e *production) Settle(id recommender.ID, outcome recommender.Outcome, message string) error {
	_, next, err := e.kept.Settle(e.history, e.namespace, id, outcome, message)
	e.history = next
	return err
}
