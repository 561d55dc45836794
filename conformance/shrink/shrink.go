package shrink

import (
	"time"

	"github.com/setpoint-dev/setpoint/clients/kubernetes/recording"
)

// Budget limits the search. 0 means unlimited: the search ends anyway, when nothing can
// be removed or simplified any more.
type Budget struct {
	// Calls of the test, including the first one.
	Calls int
	// Time since the beginning. A test that is running at its end is finished.
	Time time.Duration
}

// Scenario returns a scenario that still fails, as small as possible within the budget.
// It does not change the given one; if that does not fail, it returns a copy. fails
// must not change its argument, and must be deterministic; then the result is
// deterministic, too, unless time runs out.
func Scenario(s *recording.Scenario, fails func(*recording.Scenario) bool, budget Budget) *recording.Scenario {
	h := &search{best: clone(s), fails: fails, calls: budget.Calls}
	if budget.Calls == 0 {
		h.calls = -1
	}
	if budget.Time > 0 {
		h.deadline = time.Now().Add(budget.Time)
	}
	if !h.spend() || !fails(h.best) {
		return h.best
	}
	for range maxRounds {
		changed := false
		for _, rule := range rules {
			changed = h.everywhere(rule) || changed
		}
		if changed = h.lowerNumbers() || changed; !changed || h.over() {
			break
		}
	}
	return h.best
}

// maxRounds is far more than any search takes: with a test that is not deterministic it
// might never end.
const maxRounds = 100

// search is one search for a smaller scenario.
type search struct {
	// best is the smallest failing scenario so far.
	best  *recording.Scenario
	fails func(*recording.Scenario) bool
	// calls left, negative: unlimited.
	calls int
	// deadline, zero: none.
	deadline time.Time
}

// over reports whether the budget is spent.
func (h *search) over() bool {
	return h.calls == 0 || !h.deadline.IsZero() && !time.Now().Before(h.deadline)
}

// spend takes one call from the budget, if there is one.
func (h *search) spend() bool {
	if h.over() {
		return false
	}
	if h.calls > 0 {
		h.calls--
	}
	return true
}

// rule returns the places of a scenario that it can simplify, in their order, each with
// its change. A change does not move the places before it, and removes its own place,
// so that a rule terminates.
type rule func(*recording.Scenario) []func()

// everywhere applies the rule at as many places as possible, and reports whether at
// any. It tries all places at once, then halves, down to single ones.
func (h *search) everywhere(r rule) bool {
	return h.within(r, 0, len(r(clone(h.best))))
}

// within applies the rule at places from low up to high, the last ones first, because a
// change does not move the places before it.
func (h *search) within(r rule, low, high int) bool {
	switch {
	case low >= high || h.over():
		return false
	case h.try(r, low, high):
		return true
	case high-low == 1:
		return false
	}
	middle := (low + high) / 2
	later := h.within(r, middle, high)
	return h.within(r, low, middle) || later
}

// try makes the changes and keeps them if the scenario still fails.
func (h *search) try(r rule, low, high int) bool {
	candidate := clone(h.best)
	places := r(candidate)
	for i := min(high, len(places)) - 1; i >= low; i-- {
		places[i]()
	}
	return h.keep(candidate)
}

// keep tests a candidate and keeps it as the best one if it fails.
func (h *search) keep(candidate *recording.Scenario) bool {
	if !ordered(candidate) || !h.spend() || !h.fails(candidate) {
		return false
	}
	h.best = candidate
	return true
}

// ordered reports whether there is a step, and the steps are in order.
func ordered(s *recording.Scenario) bool {
	for i := 1; i < len(s.Steps); i++ {
		if s.Steps[i].Time.Before(s.Steps[i-1].Time) {
			return false
		}
	}
	return len(s.Steps) > 0
}

// rules in this order: those that remove most first.
var rules = []rule{
	dropSteps, dropStepsKeepingEdits, beginWithEdit,
	dropExpectations, dropOtherHPAs, dropTags,
	dropMetricEverywhere, dropEdits, dropMetrics,
	dropPodEverywhere, dropPods, dropSamples, dropCustomMetrics, dropExternalMetrics,
	dropErrors, dropScaleErrors, dropScaleSelectors,
	dropBehavior, dropPolicies, dropTolerances, dropWindows,
	dropStatus, dropConditions, dropCurrentMetrics, dropStatusFields,
	defaultSettings, commonTarget,
	dropMetricSelectors, dropSelectorParts,
	dropContainers, dropInitContainers, dropRequests, dropPodParts, dropPodConditions, dropLabels, plainPods,
	dropSampleContainers, dropUsages, dropSampleParts, dropReadingParts,
	wholeSeconds, evenGaps, earlyStart, plainInstants,
	plainQuantities, zeroQuantities, oneQuantities, roundQuantities,
	shortPodNames, shortMetricNames, shortContainerNames, shortTexts,
}
