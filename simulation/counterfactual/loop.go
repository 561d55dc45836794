package counterfactual

import (
	"fmt"
	"time"

	"github.com/setpoint-dev/setpoint/recommender"
	"github.com/setpoint-dev/setpoint/simulation"
	"github.com/setpoint-dev/setpoint/stages"
)

// Step is one evaluation of a recording.
type Step struct {
	Time time.Time
	// Input is the observed input, with the readings of the tried spec. Nil: there was no
	// autoscaler. It is not changed.
	Input *recommender.Input
	// Around is what is around the decision.
	Around stages.Around
	// After is the recorded spec's count after the step, and Failed reports whether a write
	// at this step failed.
	After  int32
	Failed bool
	// CPULimit is that of a pod, in milli-cores. 0: unknown.
	CPULimit int64
}

// Options of a loop. With the zero value pods use nothing without load.
type Options struct {
	// Idle is what a pod uses without load, in milli-units; this usage does not move to
	// other pods.
	Idle []recommender.ResourceUsage
	// Modelled models all pods from the first step on, also while the count is the recorded one. The
	// recording's own spec then shows by how much the model misses.
	Modelled bool
}

// Source is where a step's observations come from.
type Source uint8

const (
	// None means that there is no autoscaler.
	None Source = iota
	// Recorded means that the count is the recorded one, and so is everything else.
	Recorded
	// Modelled means that the count is another one, and its pods share the recorded load.
	Modelled
	// Unknown means that the count is another one, and the load of the instant was not measured.
	Unknown
)

// Outcome is the result of a step.
type Outcome struct {
	// Decision is the engine's, with its explanation; zero for Source None.
	Decision recommender.Decision
	// Input is what the spec observed, valid until the next step; nil for Source None.
	Input *recommender.Input
	// Replicas is the count after the step, Ready the number of ready pods.
	Replicas, Ready int32
	Source          Source
	// LowerBound reports whether recorded pods were at their limit, so that the load may
	// have been higher.
	LowerBound bool
	// Short reports whether the measured load exceeds what the ready pods can serve.
	// Always false without a limit.
	Short bool
}

// ErrTooMuch is wrapped in the error of a run that would take too long.
var ErrTooMuch = simulation.ErrTooMuch

// mostWork limits the evaluations of a pod in a run: about a minute.
const mostWork = simulation.MaxWork / 10

// settledAfter is how long both counts must be equal, in addition to the start-up time of pods,
// until the recording counts again.
const settledAfter = time.Minute

// Loop is the closed loop of one spec. It is not safe for concurrent use.
type Loop struct {
	options  Options
	starts   Starts
	history  recommender.History
	kept     stages.Kept
	space    string
	counter  uint64
	work     int64
	begun    bool
	replicas int32
	// recorded is the recorded spec's count after the previous step.
	recorded int32
	// shared is how many replicas are the same pods in both worlds, own are the others, oldest
	// first. While both worlds are equal own is empty and apart false.
	shared int
	own    []replica
	apart  bool
	// sameSince is since when the counts are equal again.
	sameSince time.Time
	serial    int
	template  *recommender.Pod
	view      view
}

// replica is a pod that only this world has.
type replica struct {
	name string
	born time.Time
}

// New returns a loop at the beginning of a recording, whose pods start as measured.
func New(namespace string, starts Starts, options Options) *Loop {
	return &Loop{space: namespace, starts: starts, options: options}
}

// GoOn prepares for the next part of the recording, whose pods start as measured by then.
func (l *Loop) GoOn(starts Starts) { l.starts, l.work = starts, 0 }

// Begin sets the target's history before the first step, and what stages keep beside it; nil: that is not known.
func (l *Loop) Begin(history recommender.History, kept *stages.Kept) {
	if l.history = history; kept != nil {
		l.kept = *kept
	}
}

// Step processes the next step, in order of time.
func (l *Loop) Step(s *Step) (Outcome, error) {
	if s.Input == nil {
		// The history is dropped; the replicas stay until another writer changes them.
		*l = Loop{options: l.options, starts: l.starts, space: l.space, counter: l.counter, work: l.work, serial: l.serial, replicas: l.replicas}
		return Outcome{}, nil
	}
	if err := l.follow(s); err != nil {
		return Outcome{}, err
	}
	out := Outcome{Source: Recorded}
	in := *s.Input
	l.view.measure(s)
	if out.LowerBound = l.view.saturated; l.apart {
		out.Source = Modelled
		if !l.view.model(l, s, &in) {
			out.Source = Unknown
		}
	}
	out.Ready, out.Short = l.view.ready, l.view.short(s.CPULimit)
	if l.work += int64(len(in.Pods)+len(s.Input.Pods)) * int64(4+len(in.Spec.Metrics)); l.work > mostWork {
		return Outcome{}, fmt.Errorf("%w: at %s it has evaluated pods %d times, the maximum is %d; take a shorter recording, or a lower maxReplicas",
			ErrTooMuch, s.Time.UTC().Format(time.RFC3339), l.work, int64(mostWork))
	}
	l.counter++
	for i := range 8 {
		in.ID[15-i] = byte(l.counter >> (8 * i))
	}
	in.Explain, in.ExplainLimit = true, recommender.ExplainNoPods
	out.Input = &in
	out.Decision, l.history = l.kept.Recommend(s.Around, s.Time, &in, &l.history)
	if err := l.write(s, &out.Decision); err != nil {
		return Outcome{}, err
	}
	if out.Replicas = l.replicas; s.Input.ScaleError == nil {
		l.recorded = s.After
	}
	return out, nil
}

// follow applies other writers' changes of the count since the previous step.
func (l *Loop) follow(s *Step) error {
	count := s.Input.Scale.SpecReplicas
	switch {
	case s.Input.ScaleError != nil:
		return nil
	case !l.begun:
		l.begun, l.replicas, l.recorded, l.shared = true, count, count, int(count)
		if l.options.Modelled {
			if err := fits(count, s.Time); err != nil {
				return err
			}
			l.apart = true
			l.resize(int(count), 0, s.Time)
		}
	case count != l.recorded && l.apart:
		// Neither spec wrote it: another writer did, in both worlds.
		if err := fits(count, s.Time); err != nil {
			return err
		}
		l.resize(int(count), int(count), s.Time)
		l.replicas = count
	}
	if !l.apart {
		l.shared, l.replicas = int(count), count
		return nil
	}
	if l.replicas != count {
		l.sameSince = time.Time{}
		return nil
	}
	if l.sameSince.IsZero() {
		l.sameSince = s.Time
	}
	if !l.options.Modelled && s.Time.Sub(l.sameSince) >= l.starts.Sampled+settledAfter {
		l.apart, l.own, l.shared = false, nil, int(count)
	}
	return nil
}

// fits refuses a count with more pods than can be modelled, before they are created.
func fits(count int32, at time.Time) error {
	if count <= simulation.MaxPods {
		return nil
	}
	return fmt.Errorf("%w: at %s the count would be %d, the maximum is %d pods", ErrTooMuch, at.UTC().Format(time.RFC3339), count, simulation.MaxPods)
}

// write writes a decision, unless writing failed.
func (l *Loop) write(s *Step, d *recommender.Decision) error {
	before := l.replicas
	if d.Changes() {
		outcome, message := recommender.Applied, ""
		if s.Failed {
			outcome, message = recommender.Failed, "writing the count failed at this step of the recording"
		}
		_, next, err := l.kept.Settle(l.history, l.space, d.ID, outcome, message)
		if err != nil {
			return err
		}
		l.history = next
		if outcome == recommender.Applied {
			l.replicas = d.Desired
		}
	}
	if s.Input.ScaleError != nil {
		return nil // the recorded count is not known
	}
	if !l.apart && l.replicas == s.After {
		return nil
	}
	l.apart = true
	if err := fits(l.replicas, s.Time); err != nil {
		return err
	}
	if l.replicas != before || int(s.After) < l.shared {
		l.resize(int(l.replicas), int(s.After), s.Time)
	}
	return nil
}

// resize creates as many replicas as wanted, of which at most recorded ones are shared.
func (l *Loop) resize(want, recorded int, now time.Time) {
	if lost := l.shared - recorded; lost > 0 {
		// The recording removes them, and this world keeps them: they have been ready
		// for long.
		l.shared = recorded
		old := make([]replica, max(0, min(lost, want-l.shared-len(l.own))), max(0, want-l.shared))
		for i := range old {
			old[len(old)-1-i] = l.newReplica(now.Add(-l.starts.Sampled - time.Hour))
		}
		l.own = append(old, l.own...)
	}
	for l.shared+len(l.own) < want {
		l.own = append(l.own, l.newReplica(now))
	}
	if excess := l.shared + len(l.own) - want; excess > 0 {
		// The youngest are removed first.
		drop := min(excess, len(l.own))
		l.own = l.own[:len(l.own)-drop]
		l.shared -= excess - drop
	}
}

func (l *Loop) newReplica(born time.Time) replica {
	l.serial++
	return replica{name: fmt.Sprintf("counterfactual-%d", l.serial), born: born}
}
