package fleets

import (
	"slices"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/setpoint-dev/setpoint/fleet"
	"github.com/setpoint-dev/setpoint/recommender"
	"github.com/setpoint-dev/setpoint/server/conversion"
)

// metrics are those of fleets. Those without names exist from the start.
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

// Collectors returns the metrics; those of single fleets, which have names, of so many at most.
func (f *Fleets) Collectors(single int) []prometheus.Collector {
	return []prometheus.Collector{f.metrics.decisions, f.metrics.lost, f.metrics.returned, gauges{f, single}}
}

var (
	fleetsDesc   = prometheus.NewDesc("setpoint_fleets", "Fleets whose members have called this instance lately.", nil, nil)
	membersDesc  = prometheus.NewDesc("setpoint_fleet_members", "Members of these fleets, by state; drained ones are counted in their state, too.", []string{"state"}, nil)
	unplacedDesc = prometheus.NewDesc("setpoint_fleet_unplaced_replicas", "Replicas of these fleets that no member could take.", nil, nil)
	missingDesc  = prometheus.NewDesc("setpoint_fleet_missing_replicas", "Replicas that these fleets would lack without their largest members (surviveOne).", nil, nil)
	scopesDesc   = prometheus.NewDesc("setpoint_fleet_scope_contradictions", "Object and External metrics of these fleets whose readings contradict their scope: of GLOBAL ones members read very different values, of PER_MEMBER ones all members read the same, and no small or round number.", nil, nil)

	// The same of single fleets, with the labels of a target's metrics.
	ofTarget  = []string{"cluster", "namespace", "target"}
	members1  = prometheus.NewDesc("setpoint_target_fleet_members", "Members of a fleet, by state; drained ones are counted in their state, too (--target-metrics).", append(ofTarget, "state"), nil)
	unplaced1 = prometheus.NewDesc("setpoint_target_fleet_unplaced_replicas", "Replicas of a fleet that no member could take (--target-metrics).", ofTarget, nil)
	missing1  = prometheus.NewDesc("setpoint_target_fleet_missing_replicas", "Replicas that a fleet would lack without its largest member (surviveOne; --target-metrics).", ofTarget, nil)
)

// gauges collects the state of the fleets that this instance knows.
type gauges struct {
	*Fleets
	// single is how many fleets have metrics of their own.
	single int
}

// Describe implements prometheus.Collector.
func (gauges) Describe(to chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{fleetsDesc, membersDesc, unplacedDesc, missingDesc, scopesDesc, members1, unplaced1, missing1} {
		to <- d
	}
}

// Collect implements prometheus.Collector. What was not called for longer than its members may be silent is another
// instance's to show.
func (g gauges) Collect(to chan<- prometheus.Metric) {
	var all []*known
	now := time.Now()
	g.cache.Each(func(k *known) {
		if now.Sub(k.called) <= k.spec.fleet.StaleAfter {
			all = append(all, k)
		}
	})
	if len(all) > g.single { // always the same ones have metrics of their own
		slices.SortFunc(all, func(a, b *known) int { return strings.Compare(a.spec.key.String(), b.spec.key.String()) })
	}
	gauge := func(d *prometheus.Desc, n int, labels ...string) {
		to <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, float64(n), labels...)
	}
	var unplaced, missing, contradictions int
	var members fleet.Counts
	for i, k := range all {
		of := &k.spec.fleet
		states, records := of.States(&k.state.fleet, time.Unix(0, k.state.fleet.Updated))
		c := of.Count(states)
		members.Unseen, members.Fresh, members.Returning = members.Unseen+c.Unseen, members.Fresh+c.Fresh, members.Returning+c.Returning
		members.Stale, members.Lost, members.Drained = members.Stale+c.Stale, members.Lost+c.Lost, members.Drained+c.Drained
		unplaced += int(k.state.fleet.Unplaced)
		missing += int(k.state.fleet.Missing)
		contradictions += len(of.Contradictions(states, records))
		if i < g.single {
			name := []string{k.spec.key.Cluster, k.spec.key.Namespace, k.spec.key.Target}
			each(c, func(n int, state string) { gauge(members1, n, append(name, state)...) })
			gauge(unplaced1, int(k.state.fleet.Unplaced), name...)
			gauge(missing1, int(k.state.fleet.Missing), name...)
		}
	}
	gauge(fleetsDesc, len(all))
	each(members, func(n int, state string) { gauge(membersDesc, n, state) })
	gauge(unplacedDesc, unplaced)
	gauge(missingDesc, missing)
	gauge(scopesDesc, contradictions)
}

// each calls do with each count, and its word.
func each(c fleet.Counts, do func(n int, state string)) {
	do(c.Unseen, "unseen")
	do(c.Fresh, "fresh")
	do(c.Returning, "returning")
	do(c.Stale, "stale")
	do(c.Lost, "lost")
	do(c.Drained, "drained")
}
