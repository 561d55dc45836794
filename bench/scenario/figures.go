package scenario

import (
	"maps"
	"slices"
	"time"

	"github.com/setpoint-dev/setpoint/bench/report"
)

// figure creates a figure from each run.
func figure(name, unit string, runs []run, goal *report.Goal, value func(*run) float64) report.Figure {
	f := report.Figure{Name: name, Unit: unit, Goal: goal}
	for i := range runs {
		f.Runs = append(f.Runs, value(&runs[i]))
	}
	return f
}

func rates(name string, runs []run, goal *report.Goal) report.Figure {
	return figure(name, "/s", runs, goal, func(r *run) float64 { return r.rate })
}

// ratio is the ratio of rates measured in turns, in percent.
func ratio(name string, runs, of []run, goal *report.Goal) report.Figure {
	f := report.Figure{Name: name, Unit: "%", Goal: goal}
	for i := range runs {
		f.Runs = append(f.Runs, 100*runs[i].rate/of[i].rate)
	}
	return f
}

// costs are the processor times of a recommendation by part, and refused calls.
func costs(name string, runs []run) (all []report.Figure) {
	for _, part := range slices.Sorted(maps.Keys(runs[0].micros)) {
		all = append(all, figure(name+", processor time a recommendation: "+part, "µs", runs, nil, func(r *run) float64 { return r.micros[part] }))
	}
	return append(all, figure(name+", calls refused", "%", runs, nil, func(r *run) float64 { return 100 * float64(r.Failed) / float64(r.Done) }))
}

// garbageFigures are those of a service's allocations.
func garbageFigures(name string, runs []run) []report.Figure {
	return []report.Figure{
		figure(name+", allocations a pod", "", runs, nil, func(r *run) float64 { return r.mallocs / usualPods }),
		figure(name+", garbage collection's share of its processor time", "%", runs, nil, func(r *run) float64 { return 100 * r.collecting }),
	}
}

// latencies are percentiles; those without a goal may be nil.
func latencies(name string, runs []run, p50, p99, p999 *report.Goal) []report.Figure {
	at := func(label string, q float64, goal *report.Goal) report.Figure {
		return figure(name+", "+label, "ms", runs, goal, func(r *run) float64 { return millis(r.Quantile(q)) })
	}
	return []report.Figure{at("p50", .5, p50), at("p99", .99, p99), at("p99.9", .999, p999)}
}

func millis(d time.Duration) float64 { return float64(d.Nanoseconds()) / 1e6 }
