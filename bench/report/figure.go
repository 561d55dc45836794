// Package report stores measurements and writes them, as JSON for programs and as
// Markdown for people.
package report

import (
	"encoding/json"
	"slices"
)

// Report is the result of one run of the tool.
type Report struct {
	Machine   Machine    `json:"machine"`
	Settings  Settings   `json:"settings"`
	Scenarios []Scenario `json:"scenarios"`
}

// Settings are the settings that affect figures.
type Settings struct {
	Runs            int     `json:"runs"`
	DurationSeconds float64 `json:"durationSeconds"`
	SliceSeconds    float64 `json:"sliceSeconds"`
	Callers         int     `json:"callers"`
	Connections     int     `json:"connections"`
	Targets         int     `json:"targets"`
	Stored          int     `json:"stored"`
	Command         string  `json:"command"`
}

// Scenario is one measured scenario.
type Scenario struct {
	Name  string `json:"name"`
	Title string `json:"title"`
	// Note says how it was measured, in a sentence or two.
	Note    string   `json:"note"`
	Figures []Figure `json:"figures"`
	// OthersPercent is how much of the machine's processor time other programs used
	// meanwhile, and StolenPercent how much the hypervisor took.
	OthersPercent float64 `json:"othersPercent"`
	StolenPercent float64 `json:"stolenPercent"`
	Seconds       float64 `json:"seconds"`
}

// Figure is one number, for each run.
type Figure struct {
	Name string `json:"name"`
	// Unit is its unit: "/s", "%", "×", "µs", "ms", "MiB", "" for plain numbers.
	Unit string    `json:"unit"`
	Runs []float64 `json:"runs"`
	Goal *Goal     `json:"goal,omitempty"`
}

// Goal is the goal of a figure. Exactly one bound is set.
type Goal struct {
	AtLeast *float64 `json:"atLeast,omitempty"`
	AtMost  *float64 `json:"atMost,omitempty"`
}

// AtLeast returns a lower bound as goal.
func AtLeast(x float64) *Goal { return &Goal{AtLeast: &x} }

// AtMost returns an upper bound as goal.
func AtMost(x float64) *Goal { return &Goal{AtMost: &x} }

// Reached reports whether a median reaches the goal.
func (g *Goal) Reached(median float64) bool {
	if g.AtLeast != nil {
		return median >= *g.AtLeast
	}
	return g.AtMost == nil || median <= *g.AtMost
}

// Median returns the median of the runs; for an even number the lower of the two in the
// middle, which was measured. 0 for none.
func (f *Figure) Median() float64 {
	if len(f.Runs) == 0 {
		return 0
	}
	return slices.Sorted(slices.Values(f.Runs))[(len(f.Runs)-1)/2]
}

// Spread returns the least and the greatest of the runs; 0 for none.
func (f *Figure) Spread() (least, most float64) {
	if len(f.Runs) == 0 {
		return 0, 0
	}
	return slices.Min(f.Runs), slices.Max(f.Runs)
}

// MarshalJSON adds the median to the measurements.
func (f Figure) MarshalJSON() ([]byte, error) {
	type plain Figure
	return json.Marshal(struct {
		plain
		Median float64 `json:"median"`
	}{plain(f), f.Median()})
}
