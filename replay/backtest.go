package replay

import (
	"context"
	"slices"
	"time"

	autoscalingv2 "k8s.io/api/autoscaling/v2"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/clients/kubernetes/recording"
	"github.com/setpoint-dev/setpoint/internal/adjusted"
	"github.com/setpoint-dev/setpoint/simulation/counterfactual"
)

// Backtest is what another spec would have done with a scenario: in a closed loop, and what it
// decides at each step with the readings and counts as they were recorded.
type Backtest struct {
	Scenario string `json:"scenario"`
	Steps    int    `json:"steps"`
	// Compared are the steps that the recording has an outcome of, Mismatched those of them
	// at which its own spec decides otherwise now. Unless that is 0 nothing can be said of
	// another spec.
	Compared   int `json:"compared"`
	Mismatched int `json:"mismatched"`
	// Different steps are those at which the other spec decides another count.
	Different int `json:"different"`
	// CoveredSeconds is the time that steps stand for, each up to the next one and at most
	// MaxGap; SpanSeconds that from the first to the last.
	CoveredSeconds float64 `json:"coveredSeconds"`
	SpanSeconds    float64 `json:"spanSeconds"`
	// ClosedLoop is nil if the recording's own spec decides otherwise.
	ClosedLoop *ClosedLoop `json:"closedLoop,omitempty"`
	// Recorded is what came of the recording's own spec, Other of the other: at each step with
	// the readings and counts that were recorded, whatever it decided before.
	Recorded Side `json:"recorded"`
	Other    Side `json:"other"`
	// Differences are the first few.
	Differences []Change `json:"differences"`
	// Continued reports whether the scenario goes on where the one before ended, and the other spec with it.
	Continued bool `json:"continued,omitempty"`
	// Instants are the steps that the closed loop covers, in order.
	Instants []Instant `json:"-"`
}

// Instant is a step: the counts after it, for as long as it stands for.
type Instant struct {
	Time   time.Time
	Length time.Duration
	// Recorded is the recording's count, Open what the other spec decides from that, Closed the other
	// spec's count in the closed loop.
	Recorded, Open, Closed int32
	// From is what Closed was before the step.
	From int32
	// RecordedShort and Short are ClosedSide.ShortSeconds of the two, false where no limit is known. Modelled and
	// Unknown are ClosedLoop.ModelledSeconds and UnknownSeconds.
	RecordedShort, Short, Modelled, Unknown bool
}

// Side is what one spec decided in the time that is covered.
type Side struct {
	ReplicaHours float64 `json:"replicaHours"`
	Least        int32   `json:"least"`
	Most         int32   `json:"most"`
	// Ups and Downs are the steps that decided a change of the count as it was recorded.
	Ups   int `json:"ups"`
	Downs int `json:"downs"`
}

// Change is a step at which two specs decide differently.
type Change struct {
	Step     int       `json:"step"`
	Time     time.Time `json:"time"`
	Current  int32     `json:"current"`
	Recorded int32     `json:"recorded"`
	Other    int32     `json:"other"`
	// Reasons in upstream's words, and what stages say.
	RecordedReason string `json:"recordedReason,omitempty"`
	OtherReason    string `json:"otherReason,omitempty"`
}

// MaxGap is how long a step stands for at most: beyond it nothing was recorded.
const MaxGap = 5 * time.Minute

// MaxDifferences bounds the differences that a back-test tells of.
const MaxDifferences = 10

// Question is what a back-test is about. The zero value is about the recording's own spec.
type Question struct {
	Spec   *autoscalingv2.HorizontalPodAutoscalerSpec
	Stages *setpointv1.Stages
	// Options are those that the spec brings: what they set replaces what was recorded.
	Options *setpointv1.RecommendOptions
	Assumed Assumed
	// Modelled models all pods of the closed loop, also while the count is the recorded one. Of the recording's
	// own spec that shows by how much the model misses.
	Modelled bool
	// After is where the spec was after the scenario before, and is after this one. Nil: each scenario is by itself.
	After *Continuation
}

// Continuation is where a spec is after a scenario. The next one of the same target, if it begins within MaxGap, goes on
// there: agents write ten minutes at a time, and a spec would else begin with the recorded count every ten minutes. The
// zero value is at the beginning of a recording. It is not safe for concurrent use.
type Continuation struct {
	object string
	last   time.Time
	// same reports whether all was decided as recorded: then the next scenario's own history is that of the spec, too.
	same bool
	// engine has the open loop, loop is the closed one; meter has seen all pods so far.
	engine *Engine
	loop   *counterfactual.Loop
	meter  counterfactual.Meter
}

// goesOn reports whether a scenario continues.
func (c *Continuation) goesOn(scenario *recording.Scenario) bool {
	if c == nil || c.loop == nil || len(scenario.Steps) == 0 || scenario.History == nil && scenario.State == nil {
		return false
	}
	apart := scenario.Steps[0].Time.Sub(c.last)
	return c.object == ObjectOf(scenario) && apart > 0 && apart <= MaxGap
}

// ObjectOf names what a scenario is about, empty: it does not say.
func ObjectOf(scenario *recording.Scenario) string {
	switch {
	case scenario.HPA != nil:
		return scenario.HPA.Namespace + "/" + scenario.HPA.Name
	case len(scenario.Steps) > 0:
		return scenario.Steps[0].Request.GetTarget()
	}
	return ""
}

// RunBacktest replays a scenario with its own spec, then with another, its stages, nil: without stages, and its options. A
// nil spec: its own again, also where it changes on the way. Overrides that were in force are so in each.
func RunBacktest(ctx context.Context, scenario *recording.Scenario, q *Question) (*Backtest, error) {
	out := &Backtest{Scenario: scenario.Name, Steps: len(scenario.Steps), Differences: []Change{}}
	own := make([]*setpointv1.RecommendResponse, len(scenario.Steps))
	err := NewRunner(NewEngine(), Options{}).Run(ctx, scenario, func(s *Step) error {
		own[s.Index] = s.Response
		if s.Compared {
			out.Compared++
		}
		if len(s.Differences) > 0 {
			out.Mismatched++
		}
		return ctx.Err()
	})
	if err != nil {
		return nil, err
	}
	seen := false
	open := make([]int32, len(scenario.Steps))
	var before Continuation
	if out.Continued = q.After.goesOn(scenario); out.Continued {
		before = *q.After
	}
	after := Continuation{object: ObjectOf(scenario), engine: NewEngine(), same: true, meter: before.meter}
	options := Options{Spec: q.Spec, Stages: q.Stages, SpecOptions: q.Options, keeps: true}
	if out.Continued && !before.same && q.Spec != nil {
		after.engine, options.goesOn = before.engine, true
	}
	err = NewRunner(after.engine, options).Run(ctx, scenario, func(s *Step) error {
		length, gap := standsFor(scenario, s.Index)
		out.SpanSeconds += (length + gap).Seconds()
		if was, is := own[s.Index], s.Response; was != nil && is != nil {
			open[s.Index] = is.GetDesiredReplicas()
			out.CoveredSeconds += length.Seconds()
			out.Recorded.add(was, length, !seen)
			out.Other.add(is, length, !seen)
			seen = true
			out.compare(s, was, is)
		}
		return ctx.Err()
	})
	if err == nil && out.Mismatched == 0 {
		if out.Continued && !before.same {
			after.loop = before.loop
		}
		out.ClosedLoop, err = closedLoop(ctx, scenario, q, own, &after, func(i int, s *counterfactual.Step, o *counterfactual.Outcome) {
			length, _ := standsFor(scenario, i)
			at := Instant{
				Time: s.Time, Length: length, Recorded: s.After, Open: open[i], Closed: o.Replicas, From: o.Decision.Current,
				RecordedShort: o.LowerBound, Short: o.Short, Modelled: o.Source == counterfactual.Modelled, Unknown: o.Source == counterfactual.Unknown,
			}
			if s.Input.ScaleError != nil {
				at.From = at.Closed // it stays as it was
			}
			out.Instants = append(out.Instants, at)
		})
	}
	if q.After != nil {
		*q.After = Continuation{}
		if n := len(scenario.Steps); n > 0 && err == nil && out.ClosedLoop != nil {
			after.last = scenario.Steps[n-1].Time
			after.same = (!out.Continued || before.same) && out.Different == 0 && out.ClosedLoop.ModelledSeconds+out.ClosedLoop.UnknownSeconds == 0
			*q.After = after
		}
	}
	return out, err
}

// standsFor is the time up to the next step, as much of it as a step stands for, and the rest.
func standsFor(scenario *recording.Scenario, i int) (length, gap time.Duration) {
	if i+1 == len(scenario.Steps) {
		return 0, 0
	}
	whole := max(0, scenario.Steps[i+1].Time.Sub(scenario.Steps[i].Time))
	return min(whole, MaxGap), max(0, whole-MaxGap)
}

func (s *Side) add(r *setpointv1.RecommendResponse, length time.Duration, first bool) {
	desired, current := r.GetDesiredReplicas(), r.GetCurrentReplicas()
	s.ReplicaHours += float64(desired) * length.Hours()
	if first {
		s.Least, s.Most = desired, desired
	}
	s.Least, s.Most = min(s.Least, desired), max(s.Most, desired)
	switch {
	case desired > current:
		s.Ups++
	case desired < current:
		s.Downs++
	}
}

func (b *Backtest) compare(s *Step, was, is *setpointv1.RecommendResponse) {
	if was.GetDesiredReplicas() == is.GetDesiredReplicas() {
		return
	}
	if b.Different++; len(b.Differences) == MaxDifferences {
		return
	}
	b.Differences = append(b.Differences, Change{
		Step: s.Index + 1, Time: s.Scenario.Steps[s.Index].Time, Current: is.GetCurrentReplicas(),
		Recorded: was.GetDesiredReplicas(), Other: is.GetDesiredReplicas(),
		RecordedReason: reasonOf(was), OtherReason: reasonOf(is),
	})
}

// reasonOf is why a count was decided: the reason of a change, else the limit or window that
// held it.
func reasonOf(r *setpointv1.RecommendResponse) string {
	return adjusted.Reason(plainReasonOf(r), adjusted.Messages(r.GetAdjustments())...)
}

func plainReasonOf(r *setpointv1.RecommendResponse) string {
	if r.GetReason() != "" {
		return r.GetReason()
	}
	conditions := r.GetStatus().GetConditions()
	for _, kind := range []string{"ScalingLimited", "AbleToScale"} {
		i := slices.IndexFunc(conditions, func(c *setpointv1.HorizontalPodAutoscalerCondition) bool { return c.GetType() == kind })
		if i >= 0 && (kind != "ScalingLimited" || conditions[i].GetStatus() == "True") {
			return conditions[i].GetMessage()
		}
	}
	return ""
}
