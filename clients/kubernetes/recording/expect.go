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
	// LastScaleTime is status.lastScaleTime afterwards; the zero value: not known.
	LastScaleTime Instant `json:"lastScaleTime,omitzero"`
	// ObservedGeneration is status.observedGeneration afterwards; the zero value: not
	// known.
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
	// LastTransitionTime is when the status last changed; the zero value: not known.
	LastTransitionTime Instant `json:"lastTransitionTime,omitzero"`
}

// Event is an event that the controller sends.
type Event struct {
	Type    string `json:"type"`
	Reason  string `json:"reason"`
	Message Text   `json:"message"`
}

// Text is a text of the outcome: one that is known, the zero value, which is no
// text, or, null in JSON, one that is there but depends on an order that nothing
// determines.
type Text struct {
	Value string
	// Undetermined: any text but none will do. Value is empty then.
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
// selector names are a set: the controller lists them in the order of a map.
func (t Text) matches(got string) bool {
	if t.Undetermined {
		return got != ""
	}
	return got == t.Value || sortNames(got) == sortNames(t.Value)
}

// namesBegin is what stands before the names of autoscalers that select the same pods.
const namesBegin = " are controlled by multiple HPAs: ["

// sortNames sorts the names in a text about an ambiguous selector, and leaves others as
// they are.
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

// String returns the text in quotes, or what stands for it.
func (t Text) String() string {
	if t.Undetermined {
		return "some text"
	}
	return quote(t.Value)
}

// Instant is a time of the outcome: one that is known, null in JSON for one that is
// known not to be set, or, the zero value, one that nothing is known of. Instants are
// compared to the second, as the API server keeps them.
type Instant struct {
	// Known reports whether the time is to be compared.
	Known bool
	// Time is zero where there is none.
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

// Generation is a generation of the outcome: one that is known, null in JSON for one that
// is known not to be set, or, the zero value, one that nothing is known of.
type Generation struct {
	// Known reports whether the generation is to be compared.
	Known bool
	// Value is nil where there is none.
	Value *int64
}

// UnmarshalJSON reads a number or null.
func (g *Generation) UnmarshalJSON(data []byte) error {
	*g = Generation{Known: true}
	return json.Unmarshal(data, &g.Value)
}

// MarshalJSON writes a number or null.
func (g Generation) MarshalJSON() ([]byte, error) { return json.Marshal(g.Value) }

// generationOf is a generation in words.
func generationOf(generation *int64) string {
	if generation == nil {
		return "none"
	}
	return strconv.FormatInt(*generation, 10)
}

// secondsOf is an instant to the second, in words.
func secondsOf(at time.Time) string {
	if at.IsZero() {
		return "none"
	}
	return at.UTC().Truncate(time.Second).Format(time.RFC3339)
}
