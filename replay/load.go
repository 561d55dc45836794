package replay

import (
	"cmp"
	"context"
	"math"
	"time"

	"github.com/setpoint-dev/setpoint/simulation"
	"github.com/setpoint-dev/setpoint/simulation/scenario"
)

// LoadBacktest is what another spec would have done with a load that was recorded without the
// readings of an autoscaler: all of it is modelled. Counts and times are those of the time that
// is covered.
type LoadBacktest struct {
	Scenario string `json:"scenario"`
	// Files are those of recorded load, NoNumbers how many of their samples had no value.
	Files     []string `json:"files"`
	NoNumbers int      `json:"noNumbers,omitempty"`
	// CoveredSeconds is the time that has samples, also of the recorded count if that is given, of SpanSeconds. All sides
	// are about it. LowerBoundSeconds is what of it is a lower bound: recorded pods were full. Nil: the count or the
	// capacity is not known.
	SpanSeconds       float64  `json:"spanSeconds"`
	CoveredSeconds    float64  `json:"coveredSeconds"`
	LowerBoundSeconds *float64 `json:"lowerBoundSeconds,omitempty"`
	// UncountedSeconds is the time that has samples of the load and none of the recorded count.
	UncountedSeconds float64 `json:"uncountedSeconds,omitempty"`
	// Same and Near are the shares of the covered time in which the own spec has the recorded
	// count, or one that is one off at most. Nil: either is not known.
	Same *float64 `json:"same,omitempty"`
	Near *float64 `json:"near,omitempty"`
	// Recorded and Own are nil where they are not known.
	Recorded *ClosedSide `json:"recorded,omitempty"`
	Own      *ClosedSide `json:"own,omitempty"`
	Other    *ClosedSide `json:"other"`
}

// LoadQuestion is what a back-test of a load is about. Own and Replicas may be nil.
type LoadQuestion struct {
	Name       string
	Scenario   *simulation.Scenario
	Recorded   *scenario.Recorded
	Own, Other *simulation.Autoscaler
	// Replicas is the count that was recorded.
	Replicas *scenario.Series
	// Progress is called after each evaluation; may be nil.
	Progress func()
}

// fullAt is the share of their capacity above which recorded pods hide load.
const fullAt = 0.95

// RunLoad runs the specs in closed loops on the recorded load.
func RunLoad(ctx context.Context, q *LoadQuestion) (*LoadBacktest, error) {
	s := *q.Scenario
	out := &LoadBacktest{
		Scenario: q.Name, Files: q.Recorded.Files, NoNumbers: q.Recorded.NoNumbers,
		SpanSeconds: s.Duration.Seconds(), CoveredSeconds: q.Recorded.Covered.Seconds(), Other: &ClosedSide{},
	}
	if q.Replicas != nil && s.Workload.Replicas == nil {
		// A count of 0 would turn a spec with a minimum off for all of the time, whatever the count was later.
		if count, ok := q.Replicas.At(s.Start); ok && count <= simulation.MaxPods && (count >= 0.5 || q.toZero()) {
			replicas := int32(math.Round(count))
			s.Workload.Replicas = &replicas
		}
	}
	if q.Own != nil {
		out.Own = &ClosedSide{}
		same := &agreement{}
		if _, err := q.run(ctx, &s, q.Own, out.Own, same.compare(q.Replicas)); err != nil {
			return nil, err
		}
		out.Same, out.Near = same.shares()
	}
	uncounted, err := q.run(ctx, &s, q.Other, out.Other, out.record(q.Replicas, s.Workload.PodCapacity()))
	out.UncountedSeconds = uncounted.Seconds()
	out.CoveredSeconds -= out.UncountedSeconds
	return out, err
}

// toZero reports whether 0 is a count of all specs.
func (q *LoadQuestion) toZero() bool {
	return q.Other.Spec.MinReplicas == 0 && (q.Own == nil || q.Own.Spec.MinReplicas == 0)
}

// run runs one spec; take is given the steps that are covered, and how long each stands for. uncounted is the time that
// the load covers, and the recorded count does not.
func (q *LoadQuestion) run(ctx context.Context, s *simulation.Scenario, a *simulation.Autoscaler, side *ClosedSide, take func(*simulation.Step, time.Duration)) (uncounted time.Duration, err error) {
	gaps, period := q.Recorded.Gaps, s.Loop.SyncPeriod
	period = cmp.Or(period, simulation.DefaultPeriod)
	// last takes the step before, once the next one shows whether its count was written.
	last := func(int32) {}
	_, err = simulation.Run(s, a, func(step *simulation.Step) error {
		if q.Progress != nil {
			q.Progress()
		}
		last(step.Replicas)
		last = func(int32) {}
		for len(gaps) > 0 && gaps[0].To <= step.At {
			gaps = gaps[1:]
		}
		if len(gaps) > 0 && gaps[0].From <= step.At {
			return ctx.Err()
		}
		length := min(period, s.Duration-step.At)
		if q.Replicas != nil {
			if count, ok := q.Replicas.At(step.Time); !ok || count > math.MaxInt32 {
				uncounted += length
				return ctx.Err()
			}
		}
		at, before, after := step.Time, step.Replicas, step.Decision.Desired
		last = func(is int32) {
			if is == before {
				after = before
			}
			side.take(at, before, after, length)
		}
		if !math.IsInf(step.Capacity, 1) {
			if side.ShortSeconds == nil {
				side.ShortSeconds = new(float64)
			}
			if step.Load > step.Capacity {
				*side.ShortSeconds += length.Seconds()
			}
		}
		take(step, length)
		return ctx.Err()
	})
	last(-1)
	return uncounted, err
}

// agreement compares the counts of the own spec with the recorded ones.
type agreement struct{ same, near, all float64 }

func (a *agreement) compare(replicas *scenario.Series) func(*simulation.Step, time.Duration) {
	return func(step *simulation.Step, length time.Duration) {
		if replicas == nil {
			return
		}
		count, _ := replicas.At(step.Time)
		seconds := length.Seconds()
		a.all += seconds
		off := math.Abs(count - float64(step.Replicas))
		if off < 0.5 {
			a.same += seconds
		}
		if off < 1.5 {
			a.near += seconds
		}
	}
}

func (a *agreement) shares() (same, near *float64) {
	if a.all == 0 {
		return nil, nil
	}
	x, y := a.same/a.all, a.near/a.all
	return &x, &y
}

// record takes the recorded counts, of pods that serve so much each.
func (b *LoadBacktest) record(replicas *scenario.Series, each float64) func(*simulation.Step, time.Duration) {
	last, seen := int32(0), false
	return func(step *simulation.Step, length time.Duration) {
		if replicas == nil {
			return
		}
		count, _ := replicas.At(step.Time)
		now := int32(math.Round(count))
		if !seen {
			last, seen, b.Recorded = now, true, &ClosedSide{}
		}
		b.Recorded.take(step.Time, last, now, length)
		last = now
		if !math.IsInf(each, 1) {
			if b.LowerBoundSeconds == nil {
				b.LowerBoundSeconds, b.Recorded.ShortSeconds = new(float64), new(float64)
			}
			if room := each * count; step.Load > 0 && step.Load >= fullAt*room {
				*b.LowerBoundSeconds += length.Seconds()
				if step.Load > room {
					*b.Recorded.ShortSeconds += length.Seconds()
				}
			}
		}
	}
}
