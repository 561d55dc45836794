package recording

import (
	"bytes"
	"encoding/json"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
)

// Expect is the outcome of a step.
type Expect struct {
	// DesiredReplicas is status.desiredReplicas afterwards.
	DesiredReplicas int32 `json:"desiredReplicas"`
	// CurrentReplicas is status.currentReplicas afterwards.
	CurrentReplicas int32 `json:"currentReplicas"`
	// Scaled tells whether the scale was written.
	Scaled bool `json:"scaled"`
	// ScaledTo is the count written, when Scaled.
	ScaledTo int32 `json:"scaledTo,omitempty"`
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

// Condition is a condition of the status, without its time.
type Condition struct {
	Type    string `json:"type"`
	Status  string `json:"status"`
	Reason  string `json:"reason"`
	Message Text   `json:"message"`
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

// matches tells whether got is the text.
func (t Text) matches(got string) bool {
	if t.Undetermined {
		return got != ""
	}
	return got == t.Value
}

// String returns the text in quotes, or what stands for it.
func (t Text) String() string {
	if t.Undetermined {
		return "some text"
	}
	return quote(t.Value)
}
