// Package oracle makes the test binary of one Kubernetes version return the outcomes of
// scenarios on its real HorizontalController.
//
// Each version is a separate Go module, because two versions can't be linked into one
// program. Its test binary calls ServeProcess, and the harness runs that binary as a
// process with one Request per line as input and one Answer per line as output. Nothing
// here depends on Kubernetes or on Setpoint, so that the outcomes are the version's
// own.
package oracle

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"runtime/debug"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// Request requests the outcome of a scenario.
type Request struct {
	// Runs is how often to run it. Texts that differ between runs depend on the order
	// of a map, and are null in the answer. At least 1.
	Runs int `json:"runs"`
	// Scenario in the format of recordings.
	Scenario json.RawMessage `json:"scenario"`
}

// Answer is the outcome of a scenario.
type Answer struct {
	// Steps has one outcome per step; empty if Error is set.
	Steps []Outcome `json:"steps,omitempty"`
	// Error is why there is no outcome, including a panic of the controller.
	Error string `json:"error,omitempty"`
}

// Outcome is the outcome of a step, in the form of "expect" in recordings.
type Outcome struct {
	DesiredReplicas int32   `json:"desiredReplicas"`
	CurrentReplicas int32   `json:"currentReplicas"`
	Scaled          bool    `json:"scaled"`
	ScaledTo        int32   `json:"scaledTo,omitempty"`
	LastScaleTime   Instant `json:"lastScaleTime,omitzero"`
	// ObservedGeneration that the status shows.
	ObservedGeneration Generation        `json:"observedGeneration,omitzero"`
	Conditions         []Condition       `json:"conditions"`
	CurrentMetrics     []json.RawMessage `json:"currentMetrics"`
	Events             []Event           `json:"events"`
	// Error of the reconcile, nil for none.
	Error *Text `json:"error,omitempty"`
}

// UnmarshalJSON reads what MarshalJSON writes; a null error is an undetermined one,
// which a pointer alone would read as none.
func (o *Outcome) UnmarshalJSON(data []byte) error {
	type plain Outcome
	outcome := struct {
		*plain
		Error json.RawMessage `json:"error"`
	}{plain: (*plain)(o)}
	*o = Outcome{}
	if err := json.Unmarshal(data, &outcome); err != nil {
		return err
	}
	if outcome.Error == nil {
		return nil
	}
	o.Error = &Text{}
	return o.Error.UnmarshalJSON(outcome.Error)
}

// Undetermine marks undetermined texts.
func (o *Outcome) Undetermine(undetermined func(text string) bool) {
	mark := func(t *Text) {
		if undetermined(t.Value) {
			*t = Text{Undetermined: true}
		}
	}
	for i := range o.Conditions {
		mark(&o.Conditions[i].Message)
	}
	for i := range o.Events {
		mark(&o.Events[i].Message)
	}
	if o.Error != nil {
		mark(o.Error)
	}
}

// Condition is a condition of the status.
type Condition struct {
	Type    string `json:"type"`
	Status  string `json:"status"`
	Reason  string `json:"reason"`
	Message Text   `json:"message"`

	LastTransitionTime Instant `json:"lastTransitionTime,omitzero"`
}

// Event is an event that was sent.
type Event struct {
	Type    string `json:"type"`
	Reason  string `json:"reason"`
	Message Text   `json:"message"`
}

// Text is a text, or an undetermined one: null in JSON.
type Text struct {
	Value        string
	Undetermined bool
}

// MarshalJSON writes a string or null.
func (t Text) MarshalJSON() ([]byte, error) {
	if t.Undetermined {
		return []byte("null"), nil
	}
	return json.Marshal(t.Value)
}

// UnmarshalJSON reads a string or null.
func (t *Text) UnmarshalJSON(data []byte) error {
	*t = Text{}
	if bytes.Equal(data, []byte("null")) {
		t.Undetermined = true
		return nil
	}
	return json.Unmarshal(data, &t.Value)
}

// Instant is a time of a status: known, null in JSON if known to be unset, or, the zero
// value, unknown.
type Instant struct {
	Known bool
	Time  time.Time
}

// MarshalJSON writes an instant in RFC 3339, or null.
func (i Instant) MarshalJSON() ([]byte, error) {
	if i.Time.IsZero() {
		return []byte("null"), nil
	}
	return json.Marshal(i.Time)
}

// UnmarshalJSON reads an instant in RFC 3339, or null.
func (i *Instant) UnmarshalJSON(data []byte) error {
	*i = Instant{Known: true}
	if bytes.Equal(data, []byte("null")) {
		return nil
	}
	return json.Unmarshal(data, &i.Time)
}

// Generation is a generation of the outcome: known, null in JSON if known to be unset,
// or, the zero value, unknown.
type Generation struct {
	// Known reports whether to compare the generation.
	Known bool
	// Value is nil if unset.
	Value *int64
}

// UnmarshalJSON reads a number or null.
func (g *Generation) UnmarshalJSON(data []byte) error {
	*g = Generation{Known: true}
	return json.Unmarshal(data, &g.Value)
}

// MarshalJSON writes a number or null.
func (g Generation) MarshalJSON() ([]byte, error) { return json.Marshal(g.Value) }

// equal compares generations that are known.
func (g Generation) equal(other Generation) bool {
	if g.Value == nil || other.Value == nil {
		return g.Value == other.Value
	}
	return *g.Value == *other.Value
}

// KnowAll marks all times and the generation of the outcome as known.
func (o *Outcome) KnowAll() {
	o.LastScaleTime.Known, o.ObservedGeneration.Known = true, true
	for i := range o.Conditions {
		o.Conditions[i].LastTransitionTime.Known = true
	}
}

// namesBegin is the text before the names of HPAs that select the same pods.
const namesBegin = " are controlled by multiple HPAs: ["

// SortNames sorts the names of the HPAs that select the same pods, in all texts. The
// controller lists them in the order of a map, so they are a set.
func (o *Outcome) SortNames() {
	sorted := func(t *Text) {
		before, rest, found := strings.Cut(t.Value, namesBegin)
		list, after, closed := strings.Cut(rest, "]")
		if !found || !closed {
			return
		}
		names := strings.Split(list, " ")
		slices.Sort(names)
		t.Value = before + namesBegin + strings.Join(names, " ") + "]" + after
	}
	for i := range o.Conditions {
		sorted(&o.Conditions[i].Message)
	}
	for i := range o.Events {
		sorted(&o.Events[i].Message)
	}
	if o.Error != nil {
		sorted(o.Error)
	}
}

// Driver runs scenarios on a real controller.
type Driver interface {
	// Prepare prepares a controller for the scenario. It is called outside the bubble
	// of time, so its goroutines may continue.
	Prepare(scenario []byte) (Run, error)
}

// Run is a prepared scenario.
type Run interface {
	// Steps runs all steps, starting with an empty history, and drops it. It is called
	// in a bubble of time: it starts no goroutine that outlives it, and calls
	// SleepUntil before each step.
	Steps() ([]Outcome, error)
}

// SleepUntil sets the clock of the bubble. It can't go back.
func SleepUntil(instant time.Time) error {
	if d := time.Until(instant); d >= 0 {
		time.Sleep(d)
		return nil
	}
	return fmt.Errorf("%s is before %s, the instant of the clock", instant, time.Now().UTC())
}

// Serve serves requests, one per line, until in ends.
func Serve(t *testing.T, driver Driver, in io.Reader, out io.Writer) error {
	requests := bufio.NewReaderSize(in, 1<<20)
	answers := json.NewEncoder(out)
	answers.SetEscapeHTML(false)
	for {
		line, err := requests.ReadBytes('\n')
		if len(bytes.TrimSpace(line)) > 0 {
			if err := answers.Encode(answer(t, driver, line)); err != nil {
				return fmt.Errorf("write the answer: %w", err)
			}
		}
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return fmt.Errorf("read a request: %w", err)
		}
	}
}

func answer(t *testing.T, driver Driver, line []byte) Answer {
	var request Request
	if err := json.Unmarshal(line, &request); err != nil {
		return Answer{Error: "malformed request: " + err.Error()}
	}
	var merged []Outcome
	for i := range max(request.Runs, 1) {
		steps, err := once(t, driver, request.Scenario)
		if err != nil {
			return Answer{Error: err.Error()}
		}
		if i == 0 {
			merged = steps
		} else if err := merge(merged, steps); err != nil {
			return Answer{Error: err.Error()}
		}
	}
	return Answer{Steps: merged}
}

// once runs the scenario one time in its own bubble.
func once(t *testing.T, driver Driver, scenario []byte) (steps []Outcome, err error) {
	run, err := driver.Prepare(scenario)
	if err != nil {
		return nil, fmt.Errorf("prepare: %w", err)
	}
	synctest.Test(t, func(*testing.T) {
		defer func() {
			if r := recover(); r != nil {
				err = fmt.Errorf("panic: %v\n%s", r, debug.Stack())
			}
		}()
		steps, err = run.Steps()
	})
	return steps, err
}

// merge marks the texts of into that differ in other. Nothing else may differ.
func merge(into, other []Outcome) error {
	if len(into) != len(other) {
		return fmt.Errorf("two runs have %d and %d steps", len(into), len(other))
	}
	for i := range into {
		if err := into[i].merge(&other[i]); err != nil {
			return fmt.Errorf("step %d: %w", i, err)
		}
	}
	return nil
}

func (o *Outcome) merge(other *Outcome) error {
	switch {
	case o.DesiredReplicas != other.DesiredReplicas, o.CurrentReplicas != other.CurrentReplicas,
		o.Scaled != other.Scaled, o.ScaledTo != other.ScaledTo:
		return errors.New("two runs come to different counts")
	case len(o.Conditions) != len(other.Conditions), len(o.Events) != len(other.Events),
		len(o.CurrentMetrics) != len(other.CurrentMetrics), (o.Error == nil) != (other.Error == nil):
		return errors.New("two runs have different numbers of conditions, events, metrics or errors")
	case !o.LastScaleTime.Time.Equal(other.LastScaleTime.Time):
		return errors.New("two runs scale at different times")
	case !o.ObservedGeneration.equal(other.ObservedGeneration):
		return errors.New("two runs observe different generations")
	}
	for i := range o.CurrentMetrics {
		if !bytes.Equal(o.CurrentMetrics[i], other.CurrentMetrics[i]) {
			return fmt.Errorf("two runs read metric %d differently", i)
		}
	}
	for i := range o.Conditions {
		a, b := &o.Conditions[i], &other.Conditions[i]
		if a.Type != b.Type || a.Status != b.Status || a.Reason != b.Reason || !a.LastTransitionTime.Time.Equal(b.LastTransitionTime.Time) {
			return fmt.Errorf("two runs set condition %d differently", i)
		}
		a.Message.merge(b.Message)
	}
	for i := range o.Events {
		a, b := &o.Events[i], &other.Events[i]
		if a.Type != b.Type || a.Reason != b.Reason {
			return fmt.Errorf("two runs send different events at %d", i)
		}
		a.Message.merge(b.Message)
	}
	if o.Error != nil {
		o.Error.merge(*other.Error)
	}
	return nil
}

func (t *Text) merge(other Text) {
	if t.Undetermined || other.Undetermined || t.Value != other.Value {
		*t = Text{Undetermined: true}
	}
}
