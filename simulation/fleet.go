package simulation

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/setpoint-dev/setpoint/fleet"
	"github.com/setpoint-dev/setpoint/recommender"
)

// Fleet makes a scenario one of several clusters, which are alike but for what Members say. The scenario's
// load is spread by the pods that are ready, wherever they are.
type Fleet struct {
	// Members are sorted by name.
	Members []FleetMember
	// StaleAfter and LostAfter are ages of a member's last call. 0: three periods, and five minutes or
	// StaleAfter, if that is longer.
	StaleAfter, LostAfter time.Duration
	// MaxMoves is how many replicas a decision moves to rebalance.
	MaxMoves int32
	// Global are the names of the Object and External metrics of which each member reads the whole: the sum of all
	// members' parts, and the largest age of a queue. Of the others it reads its own part.
	Global []string
	// Rules are those to compare; none: all.
	Rules []FleetRule
}

// FleetMember is one cluster.
type FleetMember struct {
	Name string
	// Weight is 1 to 1000. Min and Max bound the share; Max below 0: there is none.
	Weight   int32
	Min, Max int32
	// OwnMin and OwnMax are the bounds of its own spec; OwnMax 0: there is none. Drained: it is to become empty.
	OwnMin, OwnMax int32
	Drained        bool
	// Replicas at the start; nil: its part of the scenario's.
	Replicas *int32
	// Own is load that arrives in this cluster only, besides its part of the scenario's; nil: none.
	Own *Trace
	// Startup and Slots, nil: those of the scenario's workload.
	Startup *Startup
	Slots   *int32
}

// FleetRule is how a fleet is scaled.
type FleetRule uint8

// The rules. Hold, Shift and SurviveOne are Setpoint's (package fleet): a lost member keeps its share, or the
// others get it; SurviveOne is Hold, with replicas in case a member is lost. Karmada is a model of what Karmada
// documents, see federated.go. Independent has an autoscaler in each cluster which knows of no other. Stages are around
// the decisions of all but Karmada, overrides around Setpoint's.
const (
	Hold FleetRule = iota
	Shift
	SurviveOne
	Karmada
	Independent
	fleetRules
)

var fleetRuleNames = [...]string{Hold: "hold", Shift: "shift", SurviveOne: "surviveOne", Karmada: "karmada", Independent: "independent"}

// String returns the rule's name.
func (r FleetRule) String() string { return fleetRuleNames[r] }

// FleetRuleNames returns the names of all rules, by their values.
func FleetRuleNames() []string { return slices.Clone(fleetRuleNames[:]) }

// Compared are the rules of a scenario with a fleet.
func (f *Fleet) Compared() []FleetRule {
	if len(f.Rules) > 0 {
		return f.Rules
	}
	return []FleetRule{Hold, Shift, SurviveOne, Karmada, Independent}
}

// spec is the fleet's in Setpoint's terms.
func (f *Fleet) spec(s *Scenario, a *Autoscaler, rule FleetRule) *fleet.Spec {
	period := defaulted(s.Loop.SyncPeriod)
	spec := &fleet.Spec{
		Version: 1, Engine: a.Spec, Options: a.Options, Namespace: a.Namespace,
		Scopes: make([]fleet.Scope, len(a.Spec.Metrics)),
		Period: period, StaleAfter: f.StaleAfter, LostAfter: f.LostAfter,
		SurviveOne: rule == SurviveOne, MaxMoves: f.MaxMoves,
	}
	if rule == Shift {
		spec.OnLost = fleet.Shift
	}
	if spec.StaleAfter == 0 {
		spec.StaleAfter = 3 * period
	}
	if spec.LostAfter == 0 {
		spec.LostAfter = max(5*time.Minute, spec.StaleAfter)
	}
	for i := range spec.Scopes {
		if f.global(&a.Spec.Metrics[i]) {
			spec.Scopes[i] = fleet.Global
		}
	}
	for i := range f.Members {
		m := &f.Members[i]
		one := fleet.Member{Name: m.Name, Weight: m.Weight, Min: m.Min, Max: m.Max}
		if m.Drained {
			one.Weight = 0
		}
		spec.Members = append(spec.Members, one)
	}
	return spec
}

// global reports whether each member reads the whole of a metric.
func (f *Fleet) global(m *recommender.MetricSpec) bool {
	return fleet.IsTotal(m) && slices.Contains(f.Global, MetricName(m))
}

// CheckFleet is Check for a scenario with a fleet.
func CheckFleet(s *Scenario, a *Autoscaler) error {
	c := &checker{}
	if s.Fleet == nil {
		return errors.New("fleet: is missing")
	}
	c.fleet(s, a)
	return c.check(s, a)
}

func (c *checker) fleet(s *Scenario, a *Autoscaler) {
	f := s.Fleet
	if err := f.spec(s, a, Hold).Validate(); err != nil {
		c.refuse(true, "fleet: %w", err)
	}
	drained, bounded := false, false
	for i := range f.Members {
		m := &f.Members[i]
		at := fmt.Sprintf("fleet.members: %q", m.Name)
		c.refuse(m.Weight == 0 || m.Max == 0, "%s: its weight and its maxReplicas must be above 0: a member with drained takes no part", at)
		c.refuse(m.OwnMin < 0 || m.OwnMax < 0 || m.OwnMax > 0 && m.OwnMin > m.OwnMax, "%s: own: its minReplicas is %d and its maxReplicas %d: they must be at least 0, and the first at most the second", at, m.OwnMin, m.OwnMax)
		drained, bounded = drained || m.Drained, bounded || m.OwnMin > 0 || m.OwnMax > 0
		if m.Replicas != nil {
			c.refuse(*m.Replicas < 0 || *m.Replicas > MaxPods, "%s: replicas is %d, must be between 0 and %d", at, *m.Replicas, MaxPods)
		}
		if m.Startup != nil {
			w := Workload{Startup: *m.Startup}
			own := checker{}
			own.workload(&w)
			for _, problem := range own.problems {
				c.refuse(true, "%s: %w", at, problem)
			}
		}
		if m.Slots != nil {
			c.refuse(*m.Slots < 0, "%s: slots is %d, must be at least 0", at, *m.Slots)
		}
	}
	if len(c.problems) == 0 {
		all := int64(0)
		for _, n := range f.replicas(s, a) {
			all += int64(n)
		}
		c.refuse(all > MaxPods, "fleet: the members have %d replicas, more than the %d pods of a simulation", all, MaxPods)
	}
	members := time.Duration(max(1, len(f.Members)))
	if sync := defaulted(s.Loop.SyncPeriod); sync >= time.Second {
		c.refuse(members*(s.Duration/sync) > MaxSteps, "fleet: %d members in %d steps are %d calls, more than %d", members, s.Duration/sync, members*(s.Duration/sync), MaxSteps)
	}
	for i, rule := range f.Rules {
		c.refuse(rule >= fleetRules, "fleet.rules[%d]: unknown rule %d", i, rule)
	}
	for _, name := range f.Global {
		known := slices.ContainsFunc(a.Spec.Metrics, func(m recommender.MetricSpec) bool { return fleet.IsTotal(&m) && MetricName(&m) == name })
		c.refuse(!known, "fleet.scopes: the spec has no Object or External metric %q", name)
	}
	if a.Stages != nil && a.Stages.Forecast != nil {
		c.refuse(slices.ContainsFunc(f.Compared(), func(rule FleetRule) bool { return rule < Karmada }), "stages.forecast: a fleet has none")
	}
	for _, rule := range []FleetRule{Karmada, Independent} {
		c.refuse(slices.Contains(f.Compared(), rule) && drained, "fleet.rules: %s knows no drained members: name the other rules", rule)
		c.refuse(slices.Contains(f.Compared(), rule) && bounded, "fleet.rules: %s knows no own bounds of members: name the other rules", rule)
	}
	if slices.Contains(f.Compared(), Karmada) {
		for i := range a.Spec.Metrics {
			m := &a.Spec.Metrics[i]
			c.refuse(fleet.IsTotal(m), "fleet.rules: spec.metrics[%d] is %s, and karmada is modelled for metrics of pods only: name the other rules", i, m.Type)
		}
	}
	for i := range s.Events {
		e := &s.Events[i]
		at := fmt.Sprintf("events[%d]", i)
		c.refuse(e.Kind == Override && e.Member != "", "%s.member: overrides of a member are not simulated, only those of the fleet", at)
		c.refuse(e.Kind > Override && e.Member == "", "%s.member: is missing", at)
		if e.Member != "" {
			known := slices.ContainsFunc(f.Members, func(m FleetMember) bool { return m.Name == e.Member })
			c.refuse(!known, "%s.member: the fleet has no %q", at, e.Member)
		}
	}
}
