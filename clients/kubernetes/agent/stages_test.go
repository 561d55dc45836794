package agent

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/clients/agent"
	v1 "github.com/setpoint-dev/setpoint/clients/kubernetes/autoscaling/v1"
)

func TestStagesOfObjects(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		annotation, text, want, problem string
	}{
		"none":            {"other", "x", "", ""},
		"some":            {v1.StagesAnnotation, `{"windowThroughFailures": true}`, "window_through_failures:true", ""},
		"hours":           {v1.StagesAnnotation, `{"schedules": [{"duration": "2d12h"}]}`, "schedules:{duration:{seconds:216000}}", ""},
		"an unknown key":  {v1.StagesAnnotation, `{"schedule": []}`, "", "annotation setpoint.dev/stages: schedule: there is no such key; did you mean schedules?"},
		"a wrong value":   {v1.StagesAnnotation, `{"fallbacks": [{"metric": "a", "replicas": "x"}]}`, "", "annotation setpoint.dev/stages: fallbacks[0].replicas: must be a whole number"},
		"no JSON":         {v1.StagesAnnotation, `{"fallbacks": [`, "", "annotation setpoint.dev/stages: "},
		"an empty text":   {v1.StagesAnnotation, ``, "", "annotation setpoint.dev/stages: "},
		"no document":     {v1.StagesAnnotation, `on`, "", "annotation setpoint.dev/stages: must be a mapping"},
		"too long":        {v1.StagesAnnotation, `{"windowThroughFailures": true}` + strings.Repeat(" ", 64<<10), "", "annotation setpoint.dev/stages: is longer than 65536 bytes"},
		"another's name":  {"autoscaling.setpoint.dev/stages", `{}`, "", "annotation autoscaling.setpoint.dev/stages: is not read; did you mean setpoint.dev/stages?"},
		"a singular name": {"setpoint.dev/stage", `{}`, "", "annotation setpoint.dev/stage: is not read; did you mean setpoint.dev/stages?"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			hpa := newHPA("shop", "web")
			hpa.Annotations = map[string]string{tt.annotation: tt.text}
			o := objectOfHPA(hpa, settings{period: period})
			got := strings.ReplaceAll(o.stages.String(), " ", "")
			if o.stages == nil {
				got = ""
			}
			want(t, "stages", got, tt.want)
			if problem := fmt.Sprint(o.problem); (o.problem != nil) != (tt.problem != "") || o.problem != nil && !strings.HasPrefix(problem, tt.problem) {
				t.Errorf("problem: got %s, want %s", problem, tt.problem)
			}
		})
	}
}

// An annotation that is wrong holds the count and says why; one that is mended counts.
func TestStagesThatAreWrongHoldTheCount(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, period)
		w.workload("shop/web", 3, 50)
		hpa := newHPA("shop", "web")
		hpa.Annotations = map[string]string{v1.StagesAnnotation: `{"windowTroughFailures": true}`}
		key := w.add(hpa)
		time.Sleep(2 * period)
		want(t, "replicas", w.count("shop/web"), 3)
		want(t, "condition", w.able(key), "False "+agent.ReasonInvalidObject)
		want(t, "requests", w.askedSince(time.Time{}), 0)
		message := conditionOf(&w.hpa(key).Status, autoscalingv2.AbleToScale).Message
		want(t, "message", message, "annotation setpoint.dev/stages: windowTroughFailures: there is no such key; did you mean windowThroughFailures?")
		// What can be read but not followed the service refuses in its own words.
		w.change(key, func(hpa *autoscalingv2.HorizontalPodAutoscaler) {
			hpa.Annotations[v1.StagesAnnotation] = `{"combine": {"method": "AVERAGE"}}`
		})
		settle()
		want(t, "replicas", w.count("shop/web"), 3)
		want(t, "condition", w.able(key), "False "+agent.ReasonRecommendationRefused)
		message = conditionOf(&w.hpa(key).Status, autoscalingv2.AbleToScale).Message
		if !strings.HasPrefix(message, "the recommender refused to decide: stages.combine.method: ") {
			t.Errorf("message: %s", message)
		}
		if told := fmt.Sprint(w.events()); !strings.Contains(told, message) {
			t.Errorf("events: %s", told)
		}
		w.change(key, func(hpa *autoscalingv2.HorizontalPodAutoscaler) {
			hpa.Annotations[v1.StagesAnnotation] = `{"windowThroughFailures": true}`
		})
		time.Sleep(2 * period)
		want(t, "replicas", w.count("shop/web"), 5)
		_, requests := w.questions()
		want(t, "stages of the request", requests[len(requests)-1].GetStages().GetWindowThroughFailures(), true)
	})
}

// Stages of an Autoscaler and of an annotation are the same, and a change of them is one of the spec.
func TestStagesOfAnAutoscaler(t *testing.T) {
	t.Parallel()
	a := autoscaler("mine", "web", 5)
	a.Spec.Stages = &v1.Stages{Schedules: []v1.Schedule{{Name: "office", TimeZone: "UTC", Cron: "0 8 * * *", Duration: new(v1.Duration("3600s")), MinReplicas: new(int32(8))}}}
	o := objectOfAutoscaler(a, settings{period: period})
	want(t, "problem", o.problem, nil)
	hpa := newHPA("shop", "web")
	hpa.Annotations = map[string]string{v1.StagesAnnotation: `{"schedules": [{"name": "office", "timeZone": "UTC", "cron": "0 8 * * *", "duration": "3600s", "minReplicas": 8}]}`}
	want(t, "stages", o.stages.String(), objectOfHPA(hpa, settings{}).stages.String())
	other := a.DeepCopy()
	want(t, "the same", o.sameAs(objectOfAutoscaler(other, settings{period: period})), true)
	other.Spec.Stages.Schedules[0].Suspended = true
	want(t, "the same after a change", o.sameAs(objectOfAutoscaler(other, settings{period: period})), false)
	other.Spec.Stages.Schedules[0].Duration = new(v1.Duration("an hour"))
	other.Spec.ScaleTargetRef.Kind = ""
	problem := fmt.Sprint(objectOfAutoscaler(other, settings{period: period}).problem)
	if !strings.HasSuffix(problem, `; spec.stages.schedules[0].duration: must be a number of seconds, such as "300s", is "an hour"`) || !strings.HasPrefix(problem, "spec.scaleTargetRef.kind: ") {
		t.Errorf("problem: %s", problem)
	}
}

// An Autoscaler says what stages changed, and what would be without. A text that differs in how long
// something has lasted is not worth a write.
func TestTheExplanationTellsAdjustments(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, period)
		w.workload("shop/web", 3, 30)
		hpa := newHPA("shop", "web")
		began := time.Now()
		w.tamper = func(a *setpointv1.RecommendResponse) {
			a.PlainDesiredReplicas = new(int32(2))
			a.Adjustments = []*setpointv1.Adjustment{{Stage: "FALLBACK", Rule: "External:queue", Message: "External:queue has failed for " + time.Since(began).Round(time.Second).String()}}
		}
		key := w.add(&v1.Autoscaler{ObjectMeta: hpa.ObjectMeta, Spec: v1.AutoscalerSpec{HorizontalPodAutoscalerSpec: hpa.Spec}})
		settle()
		want(t, "explanation", w.autoscaler(key).Status.Explanation, "Kept at 3: recommended size matches current size. Adjusted: External:queue has failed for 0s. Without stages and overrides, this step: 2.")
		want(t, "events", fmt.Sprint(w.events()), "[Normal Adjusted External:queue has failed for 0s]")
		time.Sleep(period)
		written := w.written()
		time.Sleep(20 * period)
		want(t, "statuses written while only a duration changes", w.written(), written)
		w.with(func() { w.tamper = nil })
		time.Sleep(2 * period)
		want(t, "explanation", w.autoscaler(key).Status.Explanation, "Kept at 3: recommended size matches current size.")
	})
}

// A schedule of an Autoscaler moves its minimum, and its status says so.
func TestAScheduleMovesTheMinimum(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, period)
		w.workload("shop/web", 3, 30)
		hpa := newHPA("shop", "web")
		start := time.Now().UTC().Add(5 * period)
		office := v1.Schedule{Name: "office", TimeZone: "UTC", At: &metav1.Time{Time: start}, Duration: new(v1.Duration("3600s")), MinReplicas: new(int32(8))}
		key := w.add(&v1.Autoscaler{ObjectMeta: hpa.ObjectMeta, Spec: v1.AutoscalerSpec{
			HorizontalPodAutoscalerSpec: hpa.Spec, Stages: &v1.Stages{Schedules: []v1.Schedule{office}},
		}})
		time.Sleep(4 * period)
		want(t, "replicas before", w.count("shop/web"), 3)
		want(t, "events before", fmt.Sprint(w.events()), "[]")
		time.Sleep(4 * period)
		want(t, "replicas", w.count("shop/web"), 8)
		want(t, "explanation", w.autoscaler(key).Status.Explanation,
			`Kept at 8: recommended size matches current size. Adjusted: schedule "office" raises minReplicas from 1 to 8. Without stages and overrides, this step: 3.`)
		want(t, "events", fmt.Sprint(w.events()),
			`[Normal Adjusted schedule "office" raises minReplicas from 1 to 8 Normal SuccessfulRescale New size: 8; reason: Current number of replicas below Spec.MinReplicas; schedule "office" raises minReplicas from 1 to 8]`)
	})
}
