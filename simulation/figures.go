package simulation

import (
	"math"
	"slices"
	"sort"
	"time"

	"github.com/setpoint-dev/setpoint/recommender"
)

// Figures are a run in numbers.
type Figures struct {
	// Offered is the volume of the load, divided into Served, Lost (for good), Queued (still
	// waiting) and Returning (lost, and about to be retried). Late is the volume that had to
	// wait at some time.
	Offered, Served, Lost, Queued, Returning, Late float64
	// ShortTime is how long the load exceeded what the ready pods could serve.
	ShortTime time.Duration
	// OverTarget is how long a metric was above its target by more than its tolerance, as
	// the engine read it.
	OverTarget time.Duration
	// ReplicaHours is the integral of the desired count, RunningHours that of the running
	// pods, and Cost the latter times the price.
	ReplicaHours, RunningHours, Cost float64
	// Efficiency is the integral of the least count that keeps every metric at its target,
	// divided by that of the desired count. NaN: no metric has such a count.
	Efficiency float64
	// Ups and Downs are the written changes; Reversals those against the direction of the
	// previous one within ReversalTime; FailedWrites those that failed.
	Ups, Downs, Reversals, FailedWrites int
	// Most and Least are the highest and lowest desired count.
	Most, Least int32
	// Causes is how long each cause determined the count, longest first.
	Causes []CauseTime
	// Rises are the times from too few ready pods for the metrics to stay within tolerance
	// until there are enough.
	Rises Reactions
	// Moved is how many replicas of a fleet members lost while others gained them, and Members are
	// its members; neither, if there is no fleet.
	Moved   int
	Members []MemberFigures
}

// MemberFigures are those of a member of a fleet.
type MemberFigures struct {
	Name    string
	Figures Figures
}

// ReversalTime is the time within which a change against the direction of the previous
// one is a reversal.
const ReversalTime = 10 * time.Minute

// CauseTime is how long a cause determined the count.
type CauseTime struct {
	Cause Cause
	Time  time.Duration
}

// Reactions are reaction times.
type Reactions struct {
	Count              int
	Median, P95, Worst time.Duration
	// Unfinished reports whether the last one was not finished at the end; it counts up to
	// there.
	Unfinished bool
}

// figures computes Figures.
type figures struct {
	short                      time.Duration
	replicaSeconds, runSeconds float64
	neededSeconds              float64
	overTarget                 time.Duration
	causes                     []CauseTime
	ups, downs, reversals      int
	failedWrites               int
	lastWrite                  time.Duration
	lastUp, wroteBefore        bool
	most, least                int32
	seen                       bool
	rising                     bool
	risingSince                time.Duration
	rises                      []time.Duration
	moved                      int
}

// pass adds a stretch of time; the world is at its beginning.
func (f *figures) pass(w *world, from, to float64, length time.Duration) {
	w.work += int64(len(w.needs) / needsOfALook)
	seconds := length.Seconds()
	middle := half(from + to)
	if middle > w.capacity {
		f.short += length
	}
	replicas := w.asked()
	f.replicaSeconds += mul(float64(replicas), seconds)
	f.runSeconds += mul(float64(w.runningPods), seconds)
	f.neededSeconds += mul(float64(needed(w.needs, &w.autoscaler.Spec, middle, false)), seconds)
	if !f.seen {
		f.most, f.least, f.seen = replicas, replicas, true
	}
	f.most, f.least = max(f.most, replicas), min(f.least, replicas)
	switch rising := int32(w.ready) < needed(w.needs, &w.autoscaler.Spec, middle, true); {
	case rising && !f.rising:
		f.rising, f.risingSince = true, w.now
	case !rising && f.rising:
		f.rising = false
		f.rises = append(f.rises, w.now-f.risingSince)
	}
}

// decided adds a decision, which counts for one period.
func (f *figures) decided(w *world, d *recommender.Decision, cause Cause) {
	length := min(w.syncPeriod, w.scenario.Duration-w.now)
	i := slices.IndexFunc(f.causes, func(c CauseTime) bool { return c.Cause == cause })
	if i < 0 {
		i = len(f.causes)
		f.causes = append(f.causes, CauseTime{Cause: cause})
	}
	f.causes[i].Time += length
	if d.Explanation == nil {
		return
	}
	for i := range d.Explanation.Metrics {
		m := &d.Explanation.Metrics[i]
		if m.Compared && m.UsageRatio > 1+d.Explanation.Tolerances.ScaleUp {
			f.overTarget += length
			return
		}
	}
}

// wrote adds a change of the count.
func (f *figures) wrote(at time.Duration, from, to int32) {
	if from == to {
		return
	}
	up := to > from
	if up {
		f.ups++
	} else {
		f.downs++
	}
	if f.wroteBefore && f.lastUp != up && at-f.lastWrite <= ReversalTime {
		f.reversals++
	}
	f.lastWrite, f.lastUp, f.wroteBefore = at, up, true
}

func (f *figures) result(w *world) Figures {
	s := &w.service
	out := Figures{
		Offered: s.offered, Served: s.served, Lost: s.lost, Queued: s.queued, Returning: s.inFlight, Late: s.late,
		ShortTime: f.short, OverTarget: f.overTarget,
		ReplicaHours: f.replicaSeconds / 3600, RunningHours: f.runSeconds / 3600,
		Cost: mul(f.runSeconds/3600, w.scenario.Price), Efficiency: math.NaN(),
		Ups: f.ups, Downs: f.downs, Reversals: f.reversals, FailedWrites: f.failedWrites,
		Most: f.most, Least: f.least, Causes: slices.Clone(f.causes),
	}
	if len(w.needs) > 0 && f.replicaSeconds > 0 {
		out.Efficiency = f.neededSeconds / f.replicaSeconds
	}
	sort.SliceStable(out.Causes, func(i, j int) bool { return out.Causes[i].Time > out.Causes[j].Time })
	if f.rising {
		f.rises = append(f.rises, w.now-f.risingSince)
		out.Rises.Unfinished = true
	}
	slices.Sort(f.rises)
	if n := len(f.rises); n > 0 {
		out.Rises.Count = n
		out.Rises.Median, out.Rises.P95, out.Rises.Worst = f.rises[(n-1)/2], f.rises[(n*95+99)/100-1], f.rises[n-1]
	}
	return out
}
