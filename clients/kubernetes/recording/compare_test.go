package recording_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"
	autoscalingv2 "k8s.io/api/autoscaling/v2"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/clients/kubernetes"
	"github.com/setpoint-dev/setpoint/clients/kubernetes/recording"
	"github.com/setpoint-dev/setpoint/internal/fatal"
	"github.com/setpoint-dev/setpoint/internal/testlength"
)

// meets returns an outcome that satisfies an expectation.
func meets(e *recording.Expect) recording.Outcome {
	text := func(t recording.Text) string {
		if t.Undetermined {
			return "whatever"
		}
		return t.Value
	}
	out := recording.Outcome{
		Status: kubernetes.StatusToProto(&autoscalingv2.HorizontalPodAutoscalerStatus{
			DesiredReplicas: e.DesiredReplicas, CurrentReplicas: e.CurrentReplicas, CurrentMetrics: e.CurrentMetrics,
		}),
		Scaled: e.Scaled, ScaledTo: e.ScaledTo, Error: text(e.Error),
	}
	for _, c := range e.Conditions {
		out.Status.Conditions = append(out.Status.Conditions, &setpointv1.HorizontalPodAutoscalerCondition{
			Type: c.Type, Status: c.Status, Reason: c.Reason, Message: text(c.Message),
		})
	}
	for _, event := range e.Events {
		out.Events = append(out.Events, &setpointv1.Event{Type: event.Type, Reason: event.Reason, Message: text(event.Message)})
	}
	return out
}

func TestEveryExpectedOutcomeMeetsItself(t *testing.T) {
	testlength.SkipUnderRace(t)
	for _, file := range []string{"curated.jsonl.gz", "fuzz.jsonl.gz"} {
		t.Run(file, func(t *testing.T) {
			t.Parallel()
			for _, scenario := range readRecordings(t, file) {
				for i := range scenario.Steps {
					step := &scenario.Steps[i]
					if differences := step.Differences(meets(step.Expect)); len(differences) > 0 {
						t.Errorf("%s step %d: %v", scenario.Name, i, differences)
					}
				}
			}
		})
	}
}

const expected = `{"desiredReplicas":4,"currentReplicas":3,"scaled":true,"scaledTo":4,
	"conditions":[{"type":"AbleToScale","status":"True","reason":"SucceededRescale","message":"to 4"},
		{"type":"ScalingActive","status":"False","reason":"AmbiguousSelector","message":null}],
	"currentMetrics":[{"type":""},{"type":"Resource","resource":{"name":"cpu","current":{"averageUtilization":90,"averageValue":"450m"}}},
		{"type":"External","external":{"metric":{"name":"depth"},"current":{"value":"20"}}}],
	"events":[{"type":"Normal","reason":"SuccessfulRescale","message":"New size: 4"},{"type":"Warning","reason":"AmbiguousSelector","message":null}],
	"error":null}`

func TestDifferencesAreNamedByField(t *testing.T) {
	quantity := func(text string) *string { return &text }
	for _, test := range []struct {
		name   string
		change func(*recording.Outcome)
		except []string
		want   []string
	}{
		{"none", func(*recording.Outcome) {}, nil, nil},
		{"counts", func(o *recording.Outcome) { o.Status.DesiredReplicas, o.Status.CurrentReplicas, o.ScaledTo = 5, 4, 5 }, nil,
			[]string{"desiredReplicas: want 4, got 5", "currentReplicas: want 3, got 4", "scaledTo: want 4, got 5"}},
		{"not scaled", func(o *recording.Outcome) { o.Scaled, o.ScaledTo = false, 0 }, nil, []string{"scaled: want true, got false"}},
		{"a condition", func(o *recording.Outcome) {
			c := o.Status.Conditions[0]
			c.Type, c.Status, c.Reason, c.Message = "ScalingLimited", "False", "Other", "to 5"
		}, nil, []string{
			`conditions[0].type: want "AbleToScale", got "ScalingLimited"`, `conditions[0].status: want "True", got "False"`,
			`conditions[0].reason: want "SucceededRescale", got "Other"`, `conditions[0].message: want "to 4", got "to 5"`,
		}},
		{"an undetermined text that is missing", func(o *recording.Outcome) { o.Status.Conditions[1].Message, o.Events[1].Message, o.Error = "", "", "" }, nil,
			[]string{"conditions[1].message: want some text, got none", "events[1].message: want some text, got none", "error: want some text, got none"}},
		{"fewer conditions", func(o *recording.Outcome) { o.Status.Conditions = o.Status.Conditions[:1] }, nil,
			[]string{"conditions: want [AbleToScale=True SucceededRescale, ScalingActive=False AmbiguousSelector], got [AbleToScale=True SucceededRescale]"}},
		{"the order of events", func(o *recording.Outcome) { o.Events[0], o.Events[1] = o.Events[1], o.Events[0] }, nil, []string{
			`events[0].type: want "Normal", got "Warning"`, `events[0].reason: want "SuccessfulRescale", got "AmbiguousSelector"`,
			`events[0].message: want "New size: 4", got "whatever"`,
			`events[1].type: want "Warning", got "Normal"`, `events[1].reason: want "AmbiguousSelector", got "SuccessfulRescale"`,
		}},
		{"no events", func(o *recording.Outcome) { o.Events = nil }, nil,
			[]string{"events: want [Normal SuccessfulRescale, Warning AmbiguousSelector], got []"}},
		{"quantities are compared in their canonical form", func(o *recording.Outcome) {
			o.Status.CurrentMetrics[1].Resource.Current.AverageValue = quantity("0.45")
		}, nil, nil},
		{"a quantity", func(o *recording.Outcome) {
			o.Status.CurrentMetrics[1].Resource.Current.AverageValue = quantity("451m")
		}, nil, []string{`currentMetrics[1]: want {"type":"Resource","resource":{"name":"cpu","current":{"averageValue":"450m","averageUtilization":90}}}, ` +
			`got {"type":"Resource","resource":{"name":"cpu","current":{"averageValue":"451m","averageUtilization":90}}}`}},
		{"no quantity", func(o *recording.Outcome) {
			o.Status.CurrentMetrics[2].External.Current.Value = quantity("many")
		}, nil, []string{`currentMetrics: want quantities, got currentMetrics[2].external.current.value: "many" is not a quantity`}},
		{"an empty selector is not none", func(o *recording.Outcome) {
			o.Status.CurrentMetrics[2].External.Metric.Selector = &setpointv1.LabelSelector{}
		}, nil, []string{`currentMetrics[2]: want {"type":"External","external":{"metric":{"name":"depth"},`}},
		{"a failed metric has an entry", func(o *recording.Outcome) { o.Status.CurrentMetrics = o.Status.CurrentMetrics[1:] }, nil,
			[]string{`currentMetrics: want [{"type":""}, {"type":"Resource"`}},
		{"fields of the platform are passed over", func(o *recording.Outcome) { *o = recording.Outcome{} },
			[]string{"desiredReplicas", "scaled", "scaledTo", "conditions", "currentMetrics", "events"},
			[]string{"currentReplicas: want 3, got 0", "error: want some text, got none"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			var expect recording.Expect
			fatal.If(t, json.Unmarshal([]byte(expected), &expect))
			outcome := meets(&expect)
			test.change(&outcome)
			got := expect.Differences(outcome, test.except)
			if len(got) != len(test.want) {
				t.Fatalf("got %v, want %q", got, test.want)
			}
			for i := range got {
				if !strings.HasPrefix(got[i].String(), test.want[i]) {
					t.Errorf("got  %s\nwant %s", got[i], test.want[i])
				}
			}
		})
	}
}

func TestAnErrorThatIsNotExpected(t *testing.T) {
	got := (&recording.Expect{}).Differences(recording.Outcome{Error: "down"}, nil)
	if len(got) != 1 || got[0].String() != `error: want none, got "down"` {
		t.Errorf("got %v", got)
	}
}

func TestAStepThatExpectsNothingHasNoDifferences(t *testing.T) {
	if got := (&recording.Step{}).Differences(recording.Outcome{Scaled: true}); got != nil {
		t.Errorf("got %v", got)
	}
}

func TestOutcomeOf(t *testing.T) {
	answer := &setpointv1.RecommendResponse{
		DesiredReplicas: 5, Error: "one metric is down",
		Status: &setpointv1.HorizontalPodAutoscalerStatus{DesiredReplicas: 3},
		Events: []*setpointv1.Event{{Reason: "FailedGetResourceMetric"}},
	}
	applied := &setpointv1.ReportScaleResponse{
		Status: &setpointv1.HorizontalPodAutoscalerStatus{DesiredReplicas: 5},
		Events: []*setpointv1.Event{{Reason: "SuccessfulRescale"}},
	}
	failed := &setpointv1.ReportScaleResponse{Error: "failed to rescale", Events: []*setpointv1.Event{{Reason: "FailedRescale"}}}
	for _, test := range []struct {
		name    string
		report  *setpointv1.ReportScaleResponse
		applied bool
		// desired is the status' count.
		scaled        bool
		scaledTo      int32
		desired       int32
		events, error string
	}{
		{"nothing to apply", nil, false, false, 0, 3, "FailedGetResourceMetric", "one metric is down"},
		{"applied: the error of the metrics stays", applied, true, true, 5, 5, "FailedGetResourceMetric SuccessfulRescale", "one metric is down"},
		{"failed: its error replaces that of the metrics", failed, false, false, 0, 0, "FailedGetResourceMetric FailedRescale", "failed to rescale"},
	} {
		t.Run(test.name, func(t *testing.T) {
			got := recording.OutcomeOf(answer, test.report, test.applied)
			var events []string
			for _, event := range got.Events {
				events = append(events, event.GetReason())
			}
			if got.Scaled != test.scaled || got.ScaledTo != test.scaledTo || got.Error != test.error ||
				got.Status.GetDesiredReplicas() != test.desired || strings.Join(events, " ") != test.events {
				t.Errorf("got %+v", got)
			}
		})
	}
	if len(answer.Events) != 1 {
		t.Error("the answer was changed")
	}
}

// Known times are compared, to the second; "no time" is also known.
func TestTimesAreComparedWhereTheyAreKnown(t *testing.T) {
	at := time.Date(2026, 3, 2, 9, 0, 0, 500, time.UTC)
	got := recording.Outcome{Status: &setpointv1.HorizontalPodAutoscalerStatus{
		LastScaleTime: timestamppb.New(at),
		Conditions:    []*setpointv1.HorizontalPodAutoscalerCondition{{Type: "AbleToScale", LastTransitionTime: timestamppb.New(at)}},
	}}
	for _, test := range []struct {
		name, scaled, changed string
		want                  []string
	}{
		{"not known", "", "", nil},
		{"the same to the second", `"lastScaleTime":"2026-03-02T09:00:00Z",`, `,"lastTransitionTime":"2026-03-02T09:00:00Z"`, nil},
		{"others", `"lastScaleTime":"2026-03-02T09:00:01Z",`, `,"lastTransitionTime":"2026-03-02T08:59:59Z"`, []string{
			"lastScaleTime: want 2026-03-02T09:00:01Z, got 2026-03-02T09:00:00Z",
			"conditions[0].lastTransitionTime: want 2026-03-02T08:59:59Z, got 2026-03-02T09:00:00Z",
		}},
		{"none", `"lastScaleTime":null,`, `,"lastTransitionTime":null`, []string{
			"lastScaleTime: want none, got 2026-03-02T09:00:00Z", "conditions[0].lastTransitionTime: want none, got 2026-03-02T09:00:00Z",
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			var e recording.Expect
			text := `{` + test.scaled + `"conditions":[{"type":"AbleToScale","status":"","reason":"","message":""` + test.changed + `}]}`
			fatal.If(t, json.Unmarshal([]byte(text), &e))
			var differences []string
			for _, d := range e.Differences(got, nil) {
				differences = append(differences, d.String())
			}
			if !slices.Equal(differences, test.want) {
				t.Errorf("got %q, want %q", differences, test.want)
			}
		})
	}
}

// A known observed generation is compared; "none" is also known.
func TestGenerationsAreComparedWhereTheyAreKnown(t *testing.T) {
	for _, test := range []struct {
		expect string
		got    *int64
		want   string
	}{
		{`{}`, new(int64(3)), ""}, {`{}`, nil, ""},
		{`{"observedGeneration":3}`, new(int64(3)), ""}, {`{"observedGeneration":0}`, new(int64(0)), ""}, {`{"observedGeneration":null}`, nil, ""},
		{`{"observedGeneration":3}`, new(int64(4)), "observedGeneration: want 3, got 4"},
		{`{"observedGeneration":0}`, nil, "observedGeneration: want 0, got none"},
		{`{"observedGeneration":null}`, new(int64(0)), "observedGeneration: want none, got 0"},
	} {
		var e recording.Expect
		fatal.If(t, json.Unmarshal([]byte(test.expect), &e))
		var differences []string
		for _, d := range e.Differences(recording.Outcome{Status: &setpointv1.HorizontalPodAutoscalerStatus{ObservedGeneration: test.got}}, nil) {
			differences = append(differences, d.String())
		}
		if strings.Join(differences, "; ") != test.want {
			t.Errorf("%s: got %q, want %q", test.expect, differences, test.want)
		}
		again, err := json.Marshal(e)
		if known := strings.Contains(string(again), test.expect[1:len(test.expect)-1]); err != nil || !known {
			t.Errorf("%s is written as %s, %v", test.expect, again, err)
		}
	}
	// Only an unknown generation leaves nothing to compare.
	if e := (recording.Expect{ObservedGeneration: recording.Generation{Known: true}}); len(e.Differences(recording.Outcome{}, nil)) != 0 {
		t.Error("no status has a generation")
	}
}

// The controller lists the autoscalers that select the same pods in the random order of a map.
func TestNamesOfAnAmbiguousSelectorAreASet(t *testing.T) {
	const text = "pods by selector app=web are controlled by multiple HPAs: "
	for _, test := range []struct {
		want, got string
		same      bool
	}{
		{text + "[ns/a ns/b ns/c]", text + "[ns/c ns/a ns/b]", true},
		{"failed: " + text + "[ns/a ns/b] and more", "failed: " + text + "[ns/b ns/a] and more", true},
		{text + "[ns/a ns/b]", text + "[ns/a ns/c]", false},
		{text + "[ns/a ns/b]", text + "[ns/a]", false},
		{text + "[ns/a ns/b", text + "[ns/b ns/a", false},
		{"these [b a]", "these [a b]", false},
	} {
		e := recording.Expect{Error: recording.Text{Value: test.want}}
		if differences := e.Differences(recording.Outcome{Error: test.got}, nil); (len(differences) == 0) != test.same {
			t.Errorf("%q and %q: got %v", test.want, test.got, differences)
		}
	}
}
