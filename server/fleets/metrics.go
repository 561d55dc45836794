package fleets

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/setpoint-dev/setpoint/fleet"
	"github.com/setpoint-dev/setpoint/recommender"
	"github.com/setpoint-dev/setpoint/server/conversion"
)

// metrics are those of fleets. All series exist from the start; none has the name of a fleet.
type metrics struct {
	of             *Fleets
	decisions      *prometheus.CounterVec
	lost, returned prometheus.Counter
}

func newMetrics(f *Fleets) *metrics {
	m := &metrics{
		of: f,
		decisions: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "setpoint_fleet_decisions_total", Help: "Recorded decisions of fleets, by action.",
		}, []string{"action"}),
		lost: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "setpoint_fleet_members_lost_total", Help: "Members of fleets that became lost: they were silent for longer than lostAfter.",
		}),
		returned: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "setpoint_fleet_members_returned_total", Help: "Members of fleets that called again after they were lost.",
		}),
	}
	for _, action := range []string{conversion.NoAction, conversion.ScaleUp, conversion.ScaleDown} {
		m.decisions.WithLabelValues(action)
	}
	return m
}

func (m *metrics) decided(d *recommender.Decision) {
	m.decisions.WithLabelValues(conversion.Action(d.Current, d.Desired)).Inc()
}

// Collectors returns the metrics.
func (f *Fleets) Collectors() []prometheus.Collector {
	return []prometheus.Collector{f.metrics.decisions, f.metrics.lost, f.metrics.returned, gauges{f}}
}

var (
	fleetsDesc   = prometheus.NewDesc("setpoint_fleets", "Fleets whose members have called this instance lately.", nil, nil)
	membersDesc  = prometheus.NewDesc("setpoint_fleet_members", "Members of these fleets, by state; drained ones are counted in their state, too.", []string{"state"}, nil)
	unplacedDesc = prometheus.NewDesc("setpoint_fleet_unplaced_replicas", "Replicas of these fleets that no member could take.", nil, nil)
	missingDesc  = prometheus.NewDesc("setpoint_fleet_missing_replicas", "Replicas that these fleets would lack without their largest members (surviveOne).", nil, nil)
	scopesDesc   = prometheus.NewDesc("setpoint_fleet_scope_contradictions", "Object and External metrics of these fleets whose readings contradict their scope: of GLOBAL ones members read very different values, of PER_MEMBER ones all members read the same, and no small or round number.", nil, nil)
)

// gauges collects the state of the fleets that this instance knows.
type gauges struct{ *Fleets }

// Describe implements prometheus.Collector.
func (gauges) Describe(to chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{fleetsDesc, membersDesc, unplacedDesc, missingDesc, scopesDesc} {
		to <- d
	}
}

// Collect implements prometheus.Collector. What was not called for longer than its members may be silent is another
// instance's to show.
func (g gauges) Collect(to chan<- prometheus.Metric) {
	var count, unplaced, missing, contradictions int
	var members fleet.Counts
	now := time.Now()
	g.cache.Each(func(k *known) {
		of := &k.spec.fleet
		if now.Sub(k.called) > of.StaleAfter {
			return
		}
		count++
		unplaced += int(k.state.fleet.Unplaced)
		missing += int(k.state.fleet.Missing)
		states, records := of.States(&k.state.fleet, time.Unix(0, k.state.fleet.Updated))
		c := of.Count(states)
		members.Unseen, members.Fresh, members.Returning = members.Unseen+c.Unseen, members.Fresh+c.Fresh, members.Returning+c.Returning
		members.Stale, members.Lost, members.Drained = members.Stale+c.Stale, members.Lost+c.Lost, members.Drained+c.Drained
		contradictions += len(of.Contradictions(states, records))
	})
	gauge := func(d *prometheus.Desc, n int, labels ...string) {
		to <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, float64(n), labels...)
	}
	gauge(fleetsDesc, count)
	gauge(membersDesc, members.Unseen, "unseen")
	gauge(membersDesc, members.Fresh, "fresh")
	gauge(membersDesc, members.Returning, "returning")
	gauge(membersDesc, members.Stale, "stale")
	gauge(membersDesc, members.Lost, "lost")
	gauge(membersDesc, members.Drained, "drained")
	gauge(unplacedDesc, unplaced)
	gauge(missingDesc, missing)
	gauge(scopesDesc, contradictions)
}
