package telemetry_test

import (
	"slices"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil/promlint"
	"google.golang.org/grpc/codes"

	"github.com/setpoint-dev/setpoint/internal/fatal"
	"github.com/setpoint-dev/setpoint/recommender"
	"github.com/setpoint-dev/setpoint/server/telemetry"
)

var methods = []telemetry.MethodInfo{{FullMethod: "/p.S/Ask"}, {FullMethod: "/p.S/Talk", Stream: true}}

func registered(t *testing.T) (*telemetry.Calls, *telemetry.Decisions, *prometheus.Registry) {
	t.Helper()
	calls, decisions := telemetry.NewCalls(methods...), telemetry.NewDecisions()
	r := prometheus.NewRegistry()
	r.MustRegister(append(calls.Collectors(), decisions.Collectors()...)...)
	return calls, decisions, r
}

// No call and no decision may add a series.
func TestAllSeriesAreThereFromTheStart(t *testing.T) {
	t.Parallel()
	calls, decisions, r := registered(t)
	before := series(t, r)
	for _, method := range []string{"/p.S/Ask", "/p.S/Talk", "/p.S/Unknown", "", "/x\xff"} {
		for code := codes.Code(0); code < 40; code++ {
			m := calls.Of(method)
			m.Begin()
			m.Received()
			m.Sent()
			m.End(code, time.Second)
			m.Refused(code)
			decisions.Refused(code)
		}
	}
	for code := -1; code < 1000; code += 7 {
		calls.REST(code)
	}
	for path := recommender.PathMetrics; path <= recommender.PathBelowMin; path++ {
		decisions.Recorded(&recommender.Decision{Path: path, Events: []recommender.Event{{Reason: "new"}}, Status: recommender.Status{
			Conditions: []recommender.Condition{{Type: recommender.AbleToScale, Reason: "new"}, {Type: recommender.ScalingLimited, Status: "True", Reason: "new"}},
		}})
	}
	if after := series(t, r); after != before {
		t.Errorf("%d series became %d", before, after)
	}
}

// series counts the series of those names, or of all.
func series(t *testing.T, r *prometheus.Registry, names ...string) int {
	t.Helper()
	families, err := r.Gather()
	fatal.If(t, err)
	n := 0
	for _, f := range families {
		if len(names) == 0 || slices.Contains(names, f.GetName()) {
			n += len(f.GetMetric())
		}
	}
	return n
}

func TestNamesAndHelpAreInOrder(t *testing.T) {
	t.Parallel()
	_, _, r := registered(t)
	targets := telemetry.NewTargets(1, time.Now)
	targets.Decided(key(1), &recommender.Decision{
		Basis:  recommender.Basis{Bounded: true, Decided: true},
		Status: recommender.Status{Conditions: []recommender.Condition{{Type: recommender.AbleToScale, Status: "False", Reason: recommender.FailedGetScale}}},
	}, 15_000, nil, []telemetry.Shadow{{Name: "next", Desired: 2}})
	r.MustRegister(targets.Collectors()...)
	families, err := r.Gather()
	fatal.If(t, err)
	problems, err := promlint.NewWithMetricFamilies(families).Lint()
	fatal.If(t, err)
	for _, p := range problems {
		t.Errorf("%s: %s", p.Metric, p.Text)
	}
}

func TestCountingAllocatesNothing(t *testing.T) {
	calls, decisions, _ := registered(t)
	d := &recommender.Decision{Current: 3, Desired: 5, Status: recommender.Status{Conditions: []recommender.Condition{
		{Type: recommender.AbleToScale, Status: "True", Reason: "ScaleUpStabilized"},
		{Type: recommender.ScalingLimited, Status: "True", Reason: "ScaleUpLimit"},
	}}}
	if n := testing.AllocsPerRun(100, func() {
		m := calls.Of("/p.S/Ask")
		m.Begin()
		m.End(codes.OK, time.Millisecond)
		decisions.Recorded(d)
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
