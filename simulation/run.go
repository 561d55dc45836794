package simulation

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/setpoint-dev/setpoint/recommender"
)

// Step is one evaluation.
type Step struct {
	// At is the time since the start, and Time the instant.
	At   time.Duration
	Time time.Time
	// Load is the rate now, units a second; Capacity what the ready pods can serve
	// (+Inf: any load).
	Load, Capacity float64
	// Queued is the waiting volume; Served, Lost and Late are volumes since the start.
	Queued, Served, Lost, Late float64
	// Replicas is the desired count before this step, Ready and Running are numbers of pods,
	// Needed is the least count that would keep every metric at its target.
	Replicas, Ready, Running, Needed int32
	// Proposal is the metrics' proposal, before windows, policies and bounds; -1: none.
	Proposal int32
	// Cause is what determined the count.
	Cause Cause
	// Decision is the engine's, with its explanation. It is valid until the next step.
	Decision *recommender.Decision
	// Input is the decision's input, valid until the next step.
	Input *recommender.Input
	// Members are those of a fleet; their order is that of their names. The fields above are of all then,
	// Replicas is the sum of their shares after this step, and Input is nil.
	Members []MemberStep
}

// MemberStep is a member of a fleet at a step.
type MemberStep struct {
	Name string
	// Share is the count that it is to have, Replicas the one asked for in its cluster.
	Share, Replicas, Ready int32
}

// Result is the result of a run.
type Result struct {
	Steps int
	// Work is the cost of the run, in the unit of MaxWork.
	Work    int64
	Figures Figures
	// Actions are the changes of the count that were written; none unless Limits ask for them.
	Actions []Action
}

// Action is a change of the count by the autoscaler.
type Action struct {
	At       time.Duration
	From, To int32
	// Load at that instant, Reason as ReasonOf has it, and Cause as in Step.
	Load   float64
	Reason string
	Cause  Cause
}

// ErrTooMuch is wrapped in the error of a run that would take too long.
var ErrTooMuch = errors.New("the simulation is too large")

// Run runs an autoscaler in a scenario. It calls observe, which may be nil, after each
// evaluation; an error of observe ends the run and is returned.
func Run(s *Scenario, a *Autoscaler, observe func(*Step) error) (*Result, error) {
	return RunWith(s, a, engineIn(s, a), observe)
}

// RunWith is Run with another engine instead of the production engine. The engine must
// not keep its input.
func RunWith(s *Scenario, a *Autoscaler, engine Engine, observe func(*Step) error) (*Result, error) {
	return run(context.Background(), s, a, Limits{Actions: true}, engine, observe)
}

// Limits limit a run on a shared machine.
type Limits struct {
	// Work is in the unit of MaxWork, and Kept in that of MaxKept. These are the
	// defaults for zero, and the upper bounds.
	Work, Kept int64
	// Actions reports whether the result has the actions, of which there may be one at each step.
	Actions bool
}

// RunWithin is Run with limits, and with a context that ends it at any instant, with its cause.
func RunWithin(ctx context.Context, s *Scenario, a *Autoscaler, limits Limits, observe func(*Step) error) (*Result, error) {
	return run(ctx, s, a, limits, engineIn(s, a), observe)
}

func run(ctx context.Context, s *Scenario, a *Autoscaler, limits Limits, engine Engine, observe func(*Step) error) (*Result, error) {
	if err := Check(s, a); err != nil {
		return nil, err
	}
	w := newWorld(s, a, engine)
	w.limit(ctx, limits)
	if err := w.certainlyTooMuch(); err != nil {
		return nil, err
	}
	result := &Result{}
	for {
		if err := w.settle(); err != nil {
			return nil, err
		}
		if w.now >= s.Duration {
			break
		}
		if w.nextSync <= w.now {
			if err := w.evaluate(result, observe); err != nil {
				return nil, err
			}
			w.nextSync += w.syncPeriod
		}
		if err := w.tooMuch(); err != nil {
			return nil, err
		}
		if next := w.next(); next > w.now {
			w.advance(next)
		}
	}
	result.Figures, result.Work, result.Actions = w.figures.result(w), w.work, w.actions
	return result, nil
}

// evaluate takes a step of the autoscaler's loop.
func (w *world) evaluate(result *Result, observe func(*Step) error) error {
	// One step of the largest world takes a minute: it is paid for before it is taken.
	w.looked(w.looksAtAStep)
	w.work += w.metricsAtAStep + looksOfAStep
	if err := w.tooMuch(); err != nil {
		return err
	}
	in := w.observe()
	now := w.scenario.Start.Add(w.now)
	decision, err := w.engine.Recommend(now, in)
	if err != nil {
		return fmt.Errorf("at %s: %w", w.now, err)
	}
	w.remembered(&decision)
	load := w.loadAt(w.now)
	cause := causeOf(&decision)
	w.figures.decided(w, &decision, cause)
	result.Steps++
	if observe != nil {
		step := Step{
			At: w.now, Time: now, Load: load, Capacity: w.capacity,
			Queued: w.service.queued, Served: w.service.served, Lost: w.service.lost, Late: w.service.late,
			Replicas: w.replicas, Ready: int32(w.ready), Running: int32(w.runningPods),
			Needed: needed(w.needs, &w.autoscaler.Spec, load, false), Proposal: proposalOf(&decision),
			Cause: cause, Decision: &decision, Input: in,
		}
		if err := observe(&step); err != nil {
			return err
		}
	}
	if !decision.Changes() {
		return nil
	}
	if w.keepsActions {
		w.action = Action{At: w.now, From: decision.Current, To: decision.Desired, Load: load, Reason: ReasonOf(&decision), Cause: cause}
	}
	return w.ask(decision.ID, decision.Desired)
}

// ask asks the platform for a count.
func (w *world) ask(id recommender.ID, replicas int32) error {
	delay := w.scenario.Loop.ApplyDelay + w.writesLate.now(w.now)
	w.pendingWrite = write{at: w.now + delay, id: id, replicas: replicas}
	w.pending = &w.pendingWrite
	if delay == 0 {
		return w.write()
	}
	return nil
}

func proposalOf(d *recommender.Decision) int32 {
	if d.Explanation == nil || !d.Explanation.Decided {
		return -1
	}
	return d.Explanation.Proposal
}
