package record

import (
	"bytes"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/setpoint-dev/setpoint/internal/codec"
	"github.com/setpoint-dev/setpoint/recommender"
)

// Stored texts are limited and marked; storing them again leaves them unchanged.
func TestStoredTextsAreBounded(t *testing.T) {
	long := strings.Repeat("é", codec.MaxText)
	labels := make([]recommender.Label, 1000)
	requirements := make([]recommender.LabelRequirement, 1000)
	for i := range labels {
		labels[i] = recommender.Label{Key: "key", Value: "value"}
		requirements[i] = recommender.LabelRequirement{Key: "key", Operator: "In", Values: []string{"a", "b"}}
	}
	h := Record{History: recommender.History{
		Seen: true, Updated: t0,
		Status: recommender.Status{
			Conditions: []recommender.Condition{
				{Type: recommender.AbleToScale, Status: recommender.ConditionFalse, Reason: "FailedGetScale", Message: "the HPA controller was unable to get the target's current scale: " + long, LastTransitionTime: t0},
				{Type: recommender.ScalingActive, Status: recommender.ConditionTrue, Reason: "Other", Message: long, LastTransitionTime: t0},
			},
			CurrentMetrics: []recommender.MetricStatus{
				{Type: recommender.ExternalMetric, Metric: recommender.MetricIdentifier{Name: long, Selector: &recommender.LabelSelector{MatchLabels: labels, MatchExpressions: requirements}}},
				{Type: recommender.ExternalMetric, Metric: recommender.MetricIdentifier{Name: "q", Selector: &recommender.LabelSelector{MatchExpressions: requirements}}},
				{Type: recommender.ExternalMetric, Metric: recommender.MetricIdentifier{Name: "q", Selector: &recommender.LabelSelector{MatchExpressions: []recommender.LabelRequirement{{Key: "key", Operator: "In", Values: make([]string, 100_000)}}}}},
			},
		},
		Last:    recommender.LastDecision{Reason: long, Error: long},
		Pending: &recommender.Pending{Reason: long, Error: long},
	}}
	encoded := Append(nil, &h)
	if max := 12 * codec.MaxText; len(encoded) > max {
		t.Errorf("it takes %d bytes, want %d at most", len(encoded), max)
	}
	got := decode(t, encoded)
	for name, text := range map[string]string{"a condition's": got.Status.Conditions[1].Message, "a name": got.Status.CurrentMetrics[0].Metric.Name, "a reason": got.Last.Reason} {
		if !strings.HasPrefix(text, "éééé") || !strings.HasSuffix(text, " bytes more)") || !utf8.ValidString(text) || len(text) > codec.MaxText {
			t.Errorf("%s text is %d bytes, %q", name, len(text), text[max(0, len(text)-40):])
		}
	}
	equal(t, "what is known of the first condition", got.Status.Conditions[0].Reason, "FailedGetScale")
	for i, m := range got.Status.CurrentMetrics {
		s := m.Metric.Selector
		if mark := s.MatchExpressions[len(s.MatchExpressions)-1]; !strings.HasSuffix(mark.Key, " more)") {
			t.Errorf("the selector of metric %d is cut without a mark: %+v", i, mark)
		}
	}
	equal(t, "stored again it is the same", bytes.Equal(Append(nil, &got), encoded), true)
}

// What is of a usual length is stored as it is.
func TestUsualTextsAreStoredInFull(t *testing.T) {
	text := strings.Repeat("x", codec.MaxText)
	h := Record{History: recommender.History{Status: recommender.Status{Conditions: []recommender.Condition{{Type: recommender.AbleToScale, Status: recommender.ConditionTrue, Reason: "R", Message: text, LastTransitionTime: t0}}}}}
	got := decode(t, Append(nil, &h))
	equal(t, "the message", got.Status.Conditions[0].Message, text)
}
