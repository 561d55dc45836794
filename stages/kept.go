package stages

import (
	"time"

	"github.com/setpoint-dev/setpoint/recommender"
)

// Kept is what is kept of a target beside its history where there is no record: in simulations and
// replays. The zero value is that of a new target.
type Kept struct {
	state []byte
	// adjusted reports whether the last decision was not the engine's alone.
	adjusted bool
	// turns are as Around.Turns, and direction is that of the last applied change.
	turns     []int64
	direction int
	// past is that of a forecast.
	past pastOf
}

// KeptOf returns what a record keeps: what stages remember, whether the last decision was adjusted, and turns with
// the direction of the last change.
func KeptOf(state []byte, adjusted bool, turns []int64, direction int) *Kept {
	return &Kept{state: state, adjusted: adjusted, turns: turns, direction: direction}
}

// mostTurns is how many turns a record keeps.
const mostTurns = 16

// Recommend decides with these stages, or without any as the engine. The history is nil for a new target.
func (k *Kept) Recommend(a Around, now time.Time, in *recommender.Input, history *recommender.History) (recommender.Decision, recommender.History) {
	if history == nil {
		history = &recommender.History{}
	}
	if p := history.Pending; p != nil && in.ScaleError == nil && in.Scale.SpecReplicas == p.To {
		k.applied(p)
	}
	if a.Alone(in, history, k.state, k.adjusted) {
		return recommender.Recommend(now, in, history)
	}
	a.Turns = k.turns
	if a.Plan != nil && a.Plan.Forecast != nil && a.Past == nil {
		a.Past = k.past.before(a.Plan.Forecast, now)
		defer k.past.after()
	}
	decision, next, state := a.RecommendIn(nil, now, in, history, k.state)
	k.state, k.adjusted = state, decision.Adjusted != nil
	return decision, next
}

// Settle is recommender.Settle, and notes turns.
func (k *Kept) Settle(history recommender.History, namespace string, id recommender.ID, outcome recommender.Outcome, message string) (recommender.Settlement, recommender.History, error) {
	if p := history.Pending; p != nil && p.ID == id && outcome == recommender.Applied {
		k.applied(p)
	}
	return recommender.Settle(history, namespace, id, outcome, message)
}

// applied notes a change; those of overrides have no direction.
func (k *Kept) applied(p *recommender.Pending) {
	if p.Outside {
		return
	}
	direction := 1
	if p.To < p.From {
		direction = -1
	}
	if k.direction == -direction {
		k.turns = append([]int64{time.Unix(0, p.At).UnixMilli()}, k.turns[:min(len(k.turns), mostTurns-1)]...)
	}
	k.direction = direction
}
