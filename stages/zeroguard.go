package stages

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/setpoint-dev/setpoint/recommender"
)

// ZeroGuard does not believe a fall of a metric at once.
type ZeroGuard struct {
	// Metric is the index of the metric.
	Metric int
	// DropPercent is by how much at least it falls, inclusive; Confirm how long that must last.
	DropPercent int32
	Confirm     time.Duration
}

// zeroGuards makes metrics fail whose fall is not believed yet.
func (r *run) zeroGuards() {
	for i := range r.plan.ZeroGuards {
		g := &r.plan.ZeroGuards[i]
		if g.Metric >= len(r.state.Metrics) || g.Metric >= len(r.in.Spec.Metrics) {
			continue
		}
		r.guard(g)
	}
	for i := range r.state.Metrics {
		if !slices.ContainsFunc(r.plan.ZeroGuards, func(g ZeroGuard) bool { return g.Metric == i }) {
			m := &r.state.Metrics[i]
			m.Believed, m.HasBelieved, m.SuspectSince = 0, false, 0
		}
	}
}

func (r *run) guard(g *ZeroGuard) {
	m := &r.state.Metrics[g.Metric]
	if g.Metric >= len(r.in.Readings) {
		m.SuspectSince = 0
		return
	}
	value, ok := r.in.Readings[g.Metric].Total(&r.in.Spec.Metrics[g.Metric], &r.in.Options)
	if !ok {
		// Nobody saw that the fall lasted: a provider may answer zeros before it fails and after.
		m.SuspectSince = 0
		return
	}
	now := r.now.UnixMilli()
	if !m.HasBelieved || m.Believed <= 0 || value > part(m.Believed, 100-g.DropPercent) {
		m.Believed, m.HasBelieved, m.SuspectSince = value, true, 0
		return
	}
	if m.SuspectSince == 0 {
		m.SuspectSince = now
	}
	if now-m.SuspectSince >= g.Confirm.Milliseconds() {
		m.Believed, m.SuspectSince = value, 0
		return
	}
	since := time.UnixMilli(m.SuspectSince).UTC()
	until := since.Add(g.Confirm)
	problem := fmt.Sprintf("fell from %s to %s at %s; not believed until it has lasted %s (%s)",
		milliText(m.Believed), milliText(value), since.Format(timeOfDay), g.Confirm, until.Format(timeOfDay))
	if r.suspects == nil {
		r.suspects = make([]bool, len(r.state.Metrics))
	}
	r.suspects[g.Metric] = true
	r.setReadings(g.Metric, recommender.Readings{Error: "the value " + problem})
	a := r.ofMetric(recommender.StageZeroGuard, g.Metric)
	a.Message, a.Until = a.Metric+" "+problem, until
	if r.suspicion == "" {
		r.suspicion = a.Message
	}
	r.tell(a)
}

// timeOfDay is how sentences name instants of the last hours.
const timeOfDay = "15:04:05Z"

// part returns that percentage of a value above 0, rounded down, which is exact for comparisons with
// whole numbers.
func part(value int64, percent int32) int64 {
	p := int64(percent)
	return value/100*p + value%100*p/100
}

// milliText prints a value in milli-units exactly: 120, 0.5.
func milliText(v int64) string {
	sign, u := "", uint64(v)
	if v < 0 {
		sign, u = "-", -u
	}
	text := fmt.Sprintf("%s%d.%03d", sign, u/1000, u%1000)
	return strings.TrimSuffix(strings.TrimRight(text, "0"), ".")
}
