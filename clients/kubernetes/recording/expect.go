package recording

import (
	"bytes"
	"encoding/json"
	"slices"
	"strconv"
	"strings"
	"time"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
)

// Expect is the outcome of a step.
type Expect struct {
	// DesiredReplicas is status.desiredReplicas afterwards.
	DesiredReplicas int32 `json:"desiredReplicas"`
	// CurrentReplicas is status.currentReplicas afterwards.
	CurrentReplicas int32 `json:"currentReplicas"`
	// Scaled reports whether the scale was written.
	Scaled bool `json:"scaled"`
	// ScaledTo is the count written, when Scaled.
	ScaledTo int32 `json:"scaledTo,omitempty"`
	// LastScaleTime is status.lastScaleTime afterwards; the zero value: unknown.
	LastScaleTime Instant `json:"lastScaleTime,omitzero"`
	// ObservedGeneration is status.observedGeneration afterwards; the zero value: unknown.
	ObservedGeneration Generation `json:"observedGeneration,omitzero"`
	// Conditions of the status afterwards, in their order.
	Conditions []Condition `json:"conditions"`
	// CurrentMetrics is status.currentMetrics afterwards. A metric that failed has
	// an entry with an empty type.
	CurrentMetrics []autoscalingv2.MetricStatus `json:"currentMetrics"`
	// Events sent, in order.
	Events []Event `json:"events"`
	// Error that the reconcile returned; the zero value: none.
	Error Text `json:"error,omitzero"`
}

// Condition is a condition of the status.
type Condition struct {
	Type    string `json:"type"`
	Status  string `json:"status"`
	Reason  string `json:"reason"`
	Message Text   `json:"message"`
	// LastTransitionTime is when the status last changed; the zero value: unknown.
	LastTransitionTime Instant `json:"lastTransitionTime,omitzero"`
}

// Event is an event that the controller sends.
type Event struct {
	Type    string `json:"type"`
	Reason  string `json:"reason"`
	Message Text   `json:"message"`
}

// Text is a text of the outcome: a known one; the zero value: none; or, null in JSON, one that
// exists but whose content depends on an undetermined order.
type Text struct {
	Value string
	// Undetermined matches any text but none. Value is empty then.
	Undetermined bool
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

// MarshalJSON writes a string or null.
func (t Text) MarshalJSON() ([]byte, error) {
	if t.Undetermined {
		return []byte("null"), nil
	}
	return json.Marshal(t.Value)
}

// matches reports whether got is the text. The autoscalers that a text about an ambiguous
// selector lists are a set: the controller lists them in the order of a map.
func (t Text) matches(got string) bool {
	if t.Undetermined {
		return got != ""
	}
	return got == t.Value || sortNames(got) == sortNames(t.Value)
}

// namesBegin precedes the names of autoscalers that select the same pods.
const namesBegin = " are controlled by multiple HPAs: ["

// sortNames sorts the names in a text about an ambiguous selector; it returns other texts
// unchanged.
func sortNames(text string) string {
	before, rest, found := strings.Cut(text, namesBegin)
	names, after, closed := strings.Cut(rest, "]")
	if !found || !closed {
		return text
	}
	sorted := strings.Split(names, " ")
	slices.Sort(sorted)
	return before + namesBegin + strings.Join(sorted, " ") + "]" + after
}

// String returns the text in quotes, or a placeholder.
func (t Text) String() string {
	if t.Undetermined {
		return "some text"
	}
	return quote(t.Value)
}

// Instant is a time of the outcome: a known one; null in JSON: known to be unset; the zero
// value: unknown. Instants are compared to the second, the API server's precision.
type Instant struct {
	// Known reports whether to compare the time.
	Known bool
	// Time is zero if unset.
	Time time.Time
}

// UnmarshalJSON reads an instant in RFC 3339, or null.
func (i *Instant) UnmarshalJSON(data []byte) error {
	*i = Instant{Known: true}
	if bytes.Equal(data, []byte("null")) {
		return nil
	}
	return json.Unmarshal(data, &i.Time)
}

// MarshalJSON writes an instant in RFC 3339, or null.
func (i Instant) MarshalJSON() ([]byte, error) {
	if i.Time.IsZero() {
		return []byte("null"), nil
	}
	return json.Marshal(i.Time)
}

// Generation is a generation of the outcome: a known one; null in JSON: known to be unset; the
// zero value: unknown.
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

// generationOf formats a generation.
func generationOf(generation *int64) string {
	if generation == nil {
		return "none"
	}
	return strconv.FormatInt(*generation, 10)
}

// secondsOf formats an instant to the second.
func secondsOf(at time.Time) string {
	if at.IsZero() {
		return "none"
	}
	return at.UTC().Truncate(time.Second).Format(time.RFC3339)
}
