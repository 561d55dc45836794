package stages

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/setpoint-dev/setpoint/recommender"
)

// Freshness is the limit of samples' ages.
type Freshness struct {
	// MaxAge is the greatest age, inclusive, and FutureTolerance how far ahead a sample may be.
	MaxAge, FutureTolerance time.Duration
}

// stale reports whether a sample of that instant does not count, and its age. One whose instant is
// unknown does not: the engine, too, takes that for the year 1.
func (f *Freshness) stale(now, taken time.Time) (age time.Duration, stale bool) {
	age = now.Sub(taken) // which saturates
	return age, taken.IsZero() || age > f.MaxAge || age < -f.FutureTolerance
}

// problem says why a sample of that age is stale; what is "the newest value".
func (f *Freshness) problem(what string, taken time.Time, age time.Duration) string {
	switch {
	case taken.IsZero():
		return what + " has no timestamp"
	case age < 0:
		return fmt.Sprintf("%s is %s ahead of the clock, more than %s", what, -age, f.FutureTolerance)
	}
	return fmt.Sprintf("%s is %s old, more than %s", what, age, f.MaxAge)
}

// freshness removes what is too old from the input.
func (r *run) freshness() {
	f := r.plan.Freshness
	if f == nil {
		return
	}
	r.freshPods(f)
	for i := range r.in.Spec.Metrics {
		if i >= len(r.in.Readings) || len(r.in.Readings[i].Values) == 0 {
			continue
		}
		switch r.in.Spec.Metrics[i].Type {
		case recommender.PodsMetric:
			r.freshValues(f, i)
		case recommender.ObjectMetric, recommender.ExternalMetric:
			r.freshTotal(f, i)
		}
	}
}

// Fresh returns an input without what is too old for the plan: that of a fleet's member, whose readings no
// decision sees, only their sums. A decision on the sums takes the plan without Freshness.
func (p *Plan) Fresh(now time.Time, in *recommender.Input) recommender.Input {
	r := &run{Around: &Around{}, plan: p, in: *in, original: in, now: now}
	r.freshness()
	return r.in
}

// freshPods removes samples of pods' resources. A pod without one is missing.
func (r *run) freshPods(f *Freshness) {
	reads := func(m recommender.MetricSpec) bool {
		return m.Type == recommender.ResourceMetric || m.Type == recommender.ContainerResourceMetric
	}
	first := slices.IndexFunc(r.in.PodMetrics, func(m recommender.PodMetrics) bool { _, stale := f.stale(r.now, m.Timestamp); return stale })
	if first < 0 || !slices.ContainsFunc(r.in.Spec.Metrics, reads) {
		return
	}
	all := r.in.PodMetrics
	kept := slices.Clone(all[:first])
	var w worst
	for i := first; i < len(all); i++ {
		if age, stale := f.stale(r.now, all[i].Timestamp); stale {
			w.add(all[i].Timestamp, age)
		} else {
			kept = append(kept, all[i])
		}
	}
	r.in.PodMetrics, r.edited = kept, true
	r.tell(recommender.Adjustment{
		Stage: recommender.StageFreshness, Rule: "Resource", Before: -1, After: -1,
		Message: w.message("Resource", len(all), f),
	})
}

// freshValues removes values of pods.
func (r *run) freshValues(f *Freshness, metric int) {
	all := &r.in.Readings[metric]
	var w worst
	kept := recommender.Readings{Error: all.Error, SelectorError: all.SelectorError}
	for i, v := range all.Values {
		taken := takenAt(all, i)
		if age, stale := f.stale(r.now, taken); stale {
			w.add(taken, age)
			continue
		}
		kept.Add(taken, v)
	}
	if w.count == 0 {
		return
	}
	r.setReadings(metric, kept)
	a := r.ofMetric(recommender.StageFreshness, metric)
	a.Message = w.message(a.Metric, len(all.Values), f)
	r.tell(a)
}

// freshTotal makes a metric fail of which a value is stale: all of them are one sum.
func (r *run) freshTotal(f *Freshness, metric int) {
	all := &r.in.Readings[metric]
	if _, ok := all.Total(&r.in.Spec.Metrics[metric], &r.in.Options); !ok { // an object with two values fails already
		return
	}
	stale, oldest, newest := 0, 0, 0
	for i := range all.Values {
		taken := takenAt(all, i)
		_, is := f.stale(r.now, taken)
		if !is {
			continue
		}
		if stale++; stale == 1 {
			oldest, newest = i, i
		}
		if taken.Before(takenAt(all, oldest)) {
			oldest = i
		}
		if taken.After(takenAt(all, newest)) {
			newest = i
		}
	}
	if stale == 0 {
		return
	}
	what, which := "the newest value", newest
	switch {
	case stale < len(all.Values):
		what, which = "a value", oldest
	case len(all.Values) == 1 && takenAt(all, newest).IsZero():
		what = "the value"
	}
	taken := takenAt(all, which)
	problem := f.problem(what, taken, r.now.Sub(taken))
	r.setReadings(metric, recommender.Readings{Error: problem})
	a := r.ofMetric(recommender.StageFreshness, metric)
	a.Message = a.Metric + ": " + problem + "; the metric counts as failed"
	r.tell(a)
}

// takenAt returns when a value was measured, the zero time if that is unknown.
func takenAt(r *recommender.Readings, i int) time.Time {
	if i < len(r.Taken) {
		return r.Taken[i]
	}
	return time.Time{}
}

// setReadings replaces the readings of a metric.
func (r *run) setReadings(metric int, to recommender.Readings) {
	if r.edited = true; !r.ownReadings {
		r.in.Readings, r.ownReadings = slices.Clone(r.in.Readings), true
	}
	for len(r.in.Readings) <= metric {
		r.in.Readings = append(r.in.Readings, recommender.Readings{})
	}
	r.in.Readings[metric] = to
}

// worst counts stale samples, and knows the one that is furthest off.
type worst struct {
	count int
	taken time.Time
	age   time.Duration
}

func (w *worst) add(taken time.Time, age time.Duration) {
	if w.count++; w.count == 1 || age.Abs() > w.age.Abs() {
		w.taken, w.age = taken, age
	}
}

func (w *worst) message(metric string, of int, f *Freshness) string {
	var b strings.Builder
	verb := "do"
	if w.count == 1 {
		verb = "does"
	}
	fmt.Fprintf(&b, "%s: %d of %d samples %s not count: %s", metric, w.count, of, verb, f.problem("one", w.taken, w.age))
	return b.String()
}
