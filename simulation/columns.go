package simulation

import (
	"cmp"
	"context"
	"fmt"
)

// Column is one of the runs of a scenario that are compared: an autoscaler with its name, and in a fleet a rule.
type Column struct {
	Name       string
	Autoscaler *Autoscaler
	// Rule counts if the scenario has a fleet.
	Rule FleetRule
}

// PacedBy gives a scenario without a period that of the version of the controller that the autoscalers name. It is an error
// if they name versions with different ones, as the runs are compared step by step. A nil autoscaler counts for none.
func (s *Scenario) PacedBy(all ...*Autoscaler) error {
	if s.Loop.SyncPeriod != 0 {
		return nil
	}
	var first *Autoscaler
	for _, a := range all {
		if a == nil {
			continue
		}
		period := DefaultPeriod
		if profile := a.Options.Profile; profile != nil {
			period = profile.SyncPeriod()
		}
		switch {
		case first == nil:
			first, s.Loop.SyncPeriod = a, period
		case period != s.Loop.SyncPeriod:
			return fmt.Errorf("the specs' profiles %s and %s evaluate every %s and every %s: give one period for all",
				first.Options.Profile.Name(), a.Options.Profile.Name(), s.Loop.SyncPeriod, period)
		}
	}
	s.Loop.SyncPeriod = cmp.Or(s.Loop.SyncPeriod, DefaultPeriod)
	return nil
}

// Columns are the runs of a scenario: one for each spec, or, with a fleet, one of the first spec for each rule.
func (s *Scenario) Columns(specs []Column) []Column {
	if s.Fleet == nil || len(specs) == 0 {
		return specs
	}
	var rules []Column
	for _, rule := range s.Fleet.Compared() {
		rules = append(rules, Column{rule.String(), specs[0].Autoscaler, rule})
	}
	return rules
}

// Check is CheckFleet for a scenario with a fleet, and else the function Check.
func (c *Column) Check(s *Scenario) error {
	if s.Fleet != nil {
		return CheckFleet(s, c.Autoscaler)
	}
	return Check(s, c.Autoscaler)
}

// Run is RunWithin, or for a scenario with a fleet RunFleet within the limits.
func (c *Column) Run(ctx context.Context, s *Scenario, limits Limits, observe func(*Step) error) (*Result, error) {
	if s.Fleet != nil {
		return runFleet(ctx, s, c.Autoscaler, c.Rule, limits, observe)
	}
	return RunWithin(ctx, s, c.Autoscaler, limits, observe)
}
