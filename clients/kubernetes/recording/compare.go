package recording

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"
	autoscalingv2 "k8s.io/api/autoscaling/v2"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/clients/kubernetes"
)

// Difference is an unexpected value of an outcome.
type Difference struct {
	// Field of Expect, for example "conditions[1].message".
	Field string
	// Want and Got are the values as text, strings quoted.
	Want, Got string
}

// String formats the difference in one line.
func (d Difference) String() string {
	return fmt.Sprintf("%s: want %s, got %s", d.Field, d.Want, d.Got)
}

// fields are the fields of Expect, which PlatformDependent may name.
var fields = []string{
	"desiredReplicas", "currentReplicas", "scaled", "scaledTo", "lastScaleTime", "observedGeneration",
	"conditions", "currentMetrics", "events", "error",
}

// Compares reports whether the step expects anything that Differences compares.
func (s *Step) Compares() bool {
	return s.Expect != nil && slices.ContainsFunc(fields, func(field string) bool {
		return !slices.Contains(s.PlatformDependent, field) && (field != "lastScaleTime" || s.Expect.LastScaleTime.Known) &&
			(field != "observedGeneration" || s.Expect.ObservedGeneration.Known) && (field != "scaledTo" || s.Expect.Scaled)
	})
}

// Differences compares the outcome with the step's expectation, in the order of the fields of
// Expect. Undetermined texts only have to be present. Fields marked as platform-dependent are
// skipped. A step without an expectation has no differences.
func (s *Step) Differences(got Outcome) []Difference {
	if s.Expect == nil {
		return nil
	}
	return s.Expect.Differences(got, s.PlatformDependent)
}

// Differences compares the outcome with the expected one, except for the named fields.
func (e *Expect) Differences(got Outcome, except []string) []Difference {
	c := &comparison{except: except}
	c.number("desiredReplicas", e.DesiredReplicas, got.Status.GetDesiredReplicas())
	c.number("currentReplicas", e.CurrentReplicas, got.Status.GetCurrentReplicas())
	c.text("scaled", strconv.FormatBool(e.Scaled), strconv.FormatBool(got.Scaled))
	if e.Scaled && got.Scaled {
		c.number("scaledTo", e.ScaledTo, got.ScaledTo)
	}
	c.instant("lastScaleTime", e.LastScaleTime, got.Status.GetLastScaleTime())
	if e.ObservedGeneration.Known {
		var generation *int64
		if got.Status != nil {
			generation = got.Status.ObservedGeneration
		}
		c.text("observedGeneration", generationOf(e.ObservedGeneration.Value), generationOf(generation))
	}
	if c.wanted("conditions") {
		c.conditions(e.Conditions, got.Status.GetConditions())
	}
	if c.wanted("currentMetrics") {
		c.currentMetrics(e.CurrentMetrics, got.Status)
	}
	if c.wanted("events") {
		c.events(e.Events, got.Events)
	}
	if c.wanted("error") && !e.Error.matches(got.Error) {
		c.add("error", e.Error.String(), quote(got.Error))
	}
	return c.found
}

// comparison collects differences.
type comparison struct {
	except []string
	found  []Difference
}

func (c *comparison) wanted(field string) bool { return !slices.Contains(c.except, field) }

func (c *comparison) add(field, want, got string) {
	c.found = append(c.found, Difference{Field: field, Want: want, Got: got})
}

func (c *comparison) text(field, want, got string) {
	if want != got && c.wanted(field) {
		c.add(field, want, got)
	}
}

func (c *comparison) number(field string, want, got int32) {
	c.text(field, strconv.Itoa(int(want)), strconv.Itoa(int(got)))
}

// instant compares a time if it is known.
func (c *comparison) instant(field string, want Instant, got *timestamppb.Timestamp) {
	if !want.Known {
		return
	}
	var at time.Time
	if got != nil {
		at = got.AsTime()
	}
	c.text(field, secondsOf(want.Time), secondsOf(at))
}

// conditions compares by position: the order of conditions is that of their first appearance,
// and so part of the outcome.
func (c *comparison) conditions(want []Condition, got []*setpointv1.HorizontalPodAutoscalerCondition) {
	if len(want) != len(got) {
		c.add("conditions", list(want, conditionName), list(got, func(g *setpointv1.HorizontalPodAutoscalerCondition) string {
			return g.GetType() + "=" + g.GetStatus() + " " + g.GetReason()
		}))
		return
	}
	for i, w := range want {
		at := fmt.Sprintf("conditions[%d]", i)
		c.text(at+".type", quote(w.Type), quote(got[i].GetType()))
		c.text(at+".status", quote(w.Status), quote(got[i].GetStatus()))
		c.text(at+".reason", quote(w.Reason), quote(got[i].GetReason()))
		if !w.Message.matches(got[i].GetMessage()) {
			c.add(at+".message", w.Message.String(), quote(got[i].GetMessage()))
		}
		c.instant(at+".lastTransitionTime", w.LastTransitionTime, got[i].GetLastTransitionTime())
	}
}

func (c *comparison) events(want []Event, got []*setpointv1.Event) {
	if len(want) != len(got) {
		c.add("events", list(want, eventName), list(got, func(g *setpointv1.Event) string {
			return g.GetType() + " " + g.GetReason()
		}))
		return
	}
	for i, w := range want {
		at := fmt.Sprintf("events[%d]", i)
		c.text(at+".type", quote(w.Type), quote(got[i].GetType()))
		c.text(at+".reason", quote(w.Reason), quote(got[i].GetReason()))
		if !w.Message.matches(got[i].GetMessage()) {
			c.add(at+".message", w.Message.String(), quote(got[i].GetMessage()))
		}
	}
}

// currentMetrics compares the JSON of the entries, with quantities in canonical form.
func (c *comparison) currentMetrics(want []autoscalingv2.MetricStatus, status *setpointv1.HorizontalPodAutoscalerStatus) {
	converted, err := kubernetes.StatusFromProto(status)
	if err != nil {
		c.add("currentMetrics", "quantities", err.Error())
		return
	}
	got := converted.CurrentMetrics
	if len(want) != len(got) {
		c.add("currentMetrics", list(want, metricJSON), list(got, metricJSON))
		return
	}
	for i := range want {
		c.text(fmt.Sprintf("currentMetrics[%d]", i), metricJSON(want[i]), metricJSON(got[i]))
	}
}

func conditionName(c Condition) string { return c.Type + "=" + c.Status + " " + c.Reason }

func eventName(e Event) string { return e.Type + " " + e.Reason }

func metricJSON(status autoscalingv2.MetricStatus) string {
	text, err := json.Marshal(status)
	if err != nil {
		return err.Error()
	}
	return string(text)
}

// list names items in brackets.
func list[T any](items []T, name func(T) string) string {
	names := make([]string, len(items))
	for i, item := range items {
		names[i] = name(item)
	}
	return "[" + strings.Join(names, ", ") + "]"
}

// quote returns text in quotes, "none" for an empty one.
func quote(text string) string {
	if text == "" {
		return "none"
	}
	return strconv.Quote(text)
}
