package recommender

import (
	"bytes"
	"strings"
	"testing"
	"time"
	"unicode/utf8"
)

// What is stored of texts is bounded and marked; what is stored again stays as it is.
func TestStoredTextsAreBounded(t *testing.T) {
	long := strings.Repeat("é", MaxStoredText)
	labels := make([]Label, 1000)
	requirements := make([]LabelRequirement, 1000)
	for i := range labels {
		labels[i] = Label{"key", "value"}
		requirements[i] = LabelRequirement{"key", "In", []string{"a", "b"}}
	}
	h := History{
		Seen: true, Updated: t0,
		Status: Status{
			Conditions: []Condition{
				{AbleToScale, ConditionFalse, "FailedGetScale", "the HPA controller was unable to get the target's current scale: " + long, t0},
				{ScalingActive, ConditionTrue, "Other", long, t0},
			},
			CurrentMetrics: []MetricStatus{
				{Type: ExternalMetric, Metric: MetricIdentifier{Name: long, Selector: &LabelSelector{MatchLabels: labels, MatchExpressions: requirements}}},
				{Type: ExternalMetric, Metric: MetricIdentifier{Name: "q", Selector: &LabelSelector{MatchExpressions: requirements}}},
				{Type: ExternalMetric, Metric: MetricIdentifier{Name: "q", Selector: &LabelSelector{MatchExpressions: []LabelRequirement{{"key", "In", make([]string, 100_000)}}}}},
			},
		},
		Last:    LastDecision{Reason: long, Error: long},
		Pending: &Pending{Reason: long, Error: long},
	}
	encoded := h.AppendBinary(nil)
	if max := 12 * MaxStoredText; len(encoded) > max {
		t.Errorf("it takes %d bytes, want %d at most", len(encoded), max)
	}
	got, err := DecodeHistory(encoded)
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{"a condition's": got.Status.Conditions[1].Message, "a name": got.Status.CurrentMetrics[0].Metric.Name, "a reason": got.Last.Reason} {
		if !strings.HasPrefix(text, "éééé") || !strings.HasSuffix(text, " bytes more)") || !utf8.ValidString(text) || len(text) > MaxStoredText {
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
	equal(t, "stored again it is the same", bytes.Equal(got.AppendBinary(nil), encoded), true)
}

// What is of a usual length is stored as it is.
func TestUsualTextsAreStoredInFull(t *testing.T) {
	text := strings.Repeat("x", MaxStoredText)
	h := History{Status: Status{Conditions: []Condition{{AbleToScale, ConditionTrue, "R", text, t0}}}}
	got, err := DecodeHistory(h.AppendBinary(nil))
	if err != nil {
		t.Fatal(err)
	}
	equal(t, "the message", got.Status.Conditions[0].Message, text)
}

func TestAnswersAreBoundedInBytes(t *testing.T) {
	var h History
	limits := AnswerLimits{Retention: time.Hour, Count: 10, Bytes: 1000}
	answer := func(id string, explanation, text int) Answer {
		return Answer{RequestID: id, At: 1, Reason: strings.Repeat("r", text), Explanation: make([]byte, explanation)}
	}
	h = h.WithAnswer(answer("a", 600, 0), limits)
	before := h
	h = h.WithAnswer(answer("b", 600, 0), limits)
	equal(t, "both are remembered", len(h.Answers), 2)
	equal(t, "the older one's explanation", len(h.AnswerFor("a").Explanation), 0)
	equal(t, "the newer one's", len(h.AnswerFor("b").Explanation), 600)
	equal(t, "the history before", len(before.Answers[0].Explanation), 600)
	h = h.WithAnswer(answer("c", 0, 900), limits)
	equal(t, "what is left", len(h.Answers), 1)
	h = h.WithAnswer(answer("d", 0, 9000), limits)
	equal(t, "the newest stays in any case", h.Answers[0].RequestID, "d")
	h = h.WithinLimits(2+int64(time.Hour), limits)
	equal(t, "in the end", h.Answers, []Answer(nil))
}
