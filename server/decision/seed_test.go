package decision_test

import (
	"math"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/server/servertest"
)

// oddStatuses are statuses that may be written into an object, with the parts that are
// kept if a first evaluation keeps the status.
func oddStatuses() map[string]struct {
	sent, taken *setpointv1.HorizontalPodAutoscalerStatus
} {
	type status = setpointv1.HorizontalPodAutoscalerStatus
	type condition = setpointv1.HorizontalPodAutoscalerCondition
	limited := func(c *condition) *status { return &status{Conditions: []*condition{c}} }
	resource := func(value string) *setpointv1.MetricStatus {
		return &setpointv1.MetricStatus{Type: "Resource", Resource: &setpointv1.ResourceMetricStatus{
			Name: "cpu", Current: &setpointv1.MetricValueStatus{AverageValue: &value},
		}}
	}
	labelled := &setpointv1.LabelSelector{MatchLabels: map[string]string{}}
	for i := range 101 {
		labelled.MatchLabels[strings.Repeat("a", i+1)] = "b"
	}
	selected := &setpointv1.MetricStatus{Type: "External", External: &setpointv1.ExternalMetricStatus{
		Metric: &setpointv1.MetricIdentifier{Name: "q", Selector: labelled}, Current: &setpointv1.MetricValueStatus{Value: new("1")},
	}}
	conditions := func(n int) (all []*condition) {
		for range n {
			all = append(all, &condition{Type: "ScalingLimited", Status: "True", Reason: "R"})
		}
		return all
	}
	metrics := func(n int) []*setpointv1.MetricStatus { return make([]*setpointv1.MetricStatus, n) }
	full := func(n int) []*setpointv1.MetricStatus {
		all := metrics(n)
		for i := range all {
			all[i] = &setpointv1.MetricStatus{}
		}
		return all
	}
	const limitedType = "ScalingLimited"
	return map[string]struct{ sent, taken *status }{
		"a message that is too long": {
			limited(&condition{Type: limitedType, Status: "True", Reason: "R", Message: strings.Repeat("m", 100_000)}),
			limited(&condition{Type: limitedType, Status: "True", Reason: "R", Message: strings.Repeat("m", 32<<10)}),
		},
		"a reason that is too long": {
			limited(&condition{Type: limitedType, Status: "True", Reason: strings.Repeat("r", 3000)}),
			limited(&condition{Type: limitedType, Status: "True", Reason: strings.Repeat("r", 1024)}),
		},
		"a text that is cut within a character": {
			limited(&condition{Type: limitedType, Status: "True", Reason: strings.Repeat("r", 1023) + "é"}),
			limited(&condition{Type: limitedType, Status: "True", Reason: strings.Repeat("r", 1023)}),
		},
		"a type that is too long":    {limited(&condition{Type: strings.Repeat("t", 317), Status: "True"}), &status{}},
		"a status that is too long":  {limited(&condition{Type: limitedType, Status: strings.Repeat("s", 17)}), &status{}},
		"a type that nobody knows":   {limited(&condition{Type: "Other", Status: "True", Reason: "R"}), limited(&condition{Type: "Other", Status: "True", Reason: "R"})},
		"too many conditions":        {&status{Conditions: conditions(1000)}, &status{Conditions: conditions(16)}},
		"negative counts":            {&status{CurrentReplicas: -1, DesiredReplicas: math.MinInt32}, &status{}},
		"a negative generation":      {&status{ObservedGeneration: new(int64(-1))}, &status{}},
		"an instant that is none":    {&status{LastScaleTime: &timestamppb.Timestamp{Seconds: math.MinInt64}}, &status{}},
		"a transition at no instant": {limited(&condition{Type: limitedType, Status: "True", LastTransitionTime: &timestamppb.Timestamp{Nanos: -1}}), limited(&condition{Type: limitedType, Status: "True"})},
		"an instant to come":         {&status{LastScaleTime: timestamppb.New(servertest.T0.Add(1000 * time.Hour))}, &status{LastScaleTime: timestamppb.New(servertest.T0)}},
		"a transition to come": {
			limited(&condition{Type: limitedType, Status: "True", LastTransitionTime: timestamppb.New(servertest.T0.Add(time.Hour))}),
			limited(&condition{Type: limitedType, Status: "True", LastTransitionTime: timestamppb.New(servertest.T0)}),
		},
		"a quantity that is none": {
			&status{CurrentMetrics: []*setpointv1.MetricStatus{resource("much"), resource("1")}},
			&status{CurrentMetrics: []*setpointv1.MetricStatus{{}, resource("1")}},
		},
		"a metric's type that nobody knows": {&status{CurrentMetrics: []*setpointv1.MetricStatus{{Type: "Other"}}}, &status{CurrentMetrics: full(1)}},
		"a selector of too many labels":     {&status{CurrentMetrics: []*setpointv1.MetricStatus{selected}}, &status{CurrentMetrics: []*setpointv1.MetricStatus{selected}}},
		"the most readings":                 {&status{CurrentMetrics: full(1000)}, &status{CurrentMetrics: full(1000)}},
		"too many readings":                 {&status{CurrentMetrics: full(1001)}, &status{}},
		"readings that are too long": {
			&status{CurrentMetrics: []*setpointv1.MetricStatus{{Type: "Resource", Resource: &setpointv1.ResourceMetricStatus{Name: strings.Repeat("n", 64<<10)}}}}, &status{},
		},
	}
}

// A caller that may write a status must not be able to make anything fail: neither the
// first request nor one with a history, on any path.
func TestAnOddPreviousStatusIsClipped(t *testing.T) {
	t.Parallel()
	for name, tt := range oddStatuses() {
		for way, ask := range ways {
			// A scale that can't be read leaves all as it is but AbleToScale.
			unread := servertest.WebRequest(t, func(r *setpointv1.RecommendRequest) {
				r.Scale, r.ScaleError, r.PreviousStatus = nil, &setpointv1.ScaleError{Message: "gone"}, tt.sent
			})
			_, err := protojson.Marshal(unread)
			if none := name == "an instant that is none" || name == "a transition at no instant"; (err != nil) != none {
				t.Errorf("%s: JSON can spell it: %t (%v)", name, err == nil, err)
			} else if none && way == "REST" {
				continue // what protojson refuses to write it refuses to read
			}
			t.Run(name+"/"+way, func(t *testing.T) {
				t.Parallel()
				s := servertest.Start(t)
				resp, _ := ask(t, s, unread)
				got := resp.GetStatus()
				kept := got.GetConditions()
				if len(kept) == 0 || kept[len(kept)-1].GetType() != "AbleToScale" {
					t.Fatalf("no AbleToScale at the end: %v", kept)
				}
				got.Conditions = kept[:len(kept)-1]
				if got.CurrentReplicas = tt.taken.GetCurrentReplicas(); !proto.Equal(got, tt.taken) {
					t.Errorf("got %.2000s\nwant %.2000s", protojson.Format(got), protojson.Format(tt.taken))
				}
				// It decides as if there had been none, and the record is readable.
				read := servertest.WebRequest(t, func(r *setpointv1.RecommendRequest) { r.PreviousStatus = tt.sent })
				resp, problem := ask(t, s, read)
				if want := servertest.Start(t).Recommend(t, servertest.WebRequest(t)).GetDesiredReplicas(); resp.GetDesiredReplicas() != want {
					t.Errorf("desired %d (%v), want %d as without", resp.GetDesiredReplicas(), problem, want)
				}
			})
		}
	}
}

// A last change that is to come would keep a profile that waits after each change from
// scaling until then.
func TestASeedIsNotOfTheFuture(t *testing.T) {
	t.Parallel()
	s := servertest.Start(t)
	ask := func() int32 {
		return s.Recommend(t, servertest.With(servertest.Queue(servertest.Web, 3, 90), func(r *setpointv1.RecommendRequest) {
			r.Spec.Behavior = nil
			r.Options = &setpointv1.RecommendOptions{Profile: "cooldown"}
			r.PreviousStatus = &setpointv1.HorizontalPodAutoscalerStatus{LastScaleTime: timestamppb.New(servertest.T0.Add(1000 * time.Hour))}
		})).GetDesiredReplicas()
	}
	if got := ask(); got != 3 {
		t.Errorf("desired %d right after the last change, want 3", got)
	}
	s.Clock.Advance(4 * time.Minute)
	if got := ask(); got <= 3 {
		t.Errorf("desired %d after the delay, want more than 3", got)
	}
}
