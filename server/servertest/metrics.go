package servertest

import (
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"github.com/setpoint-dev/setpoint/internal/fatal"
)

// Measured starts a service whose metrics can be read.
func Measured(tb testing.TB, changes ...func(*Setup)) (*Service, *prometheus.Registry) {
	tb.Helper()
	r := prometheus.NewRegistry()
	return Start(tb, append(changes, func(su *Setup) { su.Options.Registerer = r })...), r
}

// Reading is the values of series, by name and labels: of histograms how often they
// were observed.
type Reading map[string]float64

// Read reads the values of all series.
func Read(tb testing.TB, r *prometheus.Registry) Reading {
	tb.Helper()
	families, err := r.Gather()
	fatal.If(tb, err)
	values := Reading{}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			values[seriesName(f, m)] = value(m)
		}
	}
	return values
}

// seriesName is as in PromQL, without the prefix and quotes.
func seriesName(f *dto.MetricFamily, m *dto.Metric) string {
	labels := make([]string, 0, len(m.GetLabel()))
	for _, l := range m.GetLabel() {
		labels = append(labels, l.GetName()+"="+l.GetValue())
	}
	name := strings.TrimPrefix(f.GetName(), "setpoint_")
	if len(labels) == 0 {
		return name
	}
	return name + "{" + strings.Join(labels, ",") + "}"
}

func value(m *dto.Metric) float64 {
	switch {
	case m.GetCounter() != nil:
		return m.GetCounter().GetValue()
	case m.GetHistogram() != nil:
		return float64(m.GetHistogram().GetSampleCount())
	}
	return m.GetGauge().GetValue()
}

// Since is what changed, of series whose names begin so.
func (after Reading) Since(before Reading, prefixes ...string) Reading {
	changed := Reading{}
	for name, v := range after {
		if v != before[name] && slices.ContainsFunc(prefixes, func(p string) bool { return strings.HasPrefix(name, p) }) {
			changed[name] = v - before[name]
		}
	}
	return changed
}

// Expect fails the test unless these are all series, with those values.
func (after Reading) Expect(tb testing.TB, want Reading) {
	tb.Helper()
	for _, name := range slices.Sorted(maps.Keys(want)) {
		if after[name] != want[name] {
			tb.Errorf("%s: %v, want %v", name, after[name], want[name])
		}
	}
	for _, name := range slices.Sorted(maps.Keys(after)) {
		if _, wanted := want[name]; !wanted {
			tb.Errorf("%s: %v, want none", name, after[name])
		}
	}
}

// Methods as metrics, log lines and traces name them.
const (
	RecommendMethod = "setpoint.v1.RecommendationService/Recommend"
	BatchMethod     = "setpoint.v1.RecommendationService/BatchRecommend"
	StreamMethod    = "setpoint.v1.RecommendationService/StreamRecommend"
)

// Eventually waits for what follows an answer a little later.
func Eventually(tb testing.TB, done func() bool) {
	tb.Helper()
	for deadline := time.Now().Add(2 * time.Minute); !done(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			tb.Fatal("it does not come")
		}
	}
}
