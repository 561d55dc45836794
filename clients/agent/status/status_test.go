package status

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"
	"google.golang.org/protobuf/types/known/timestamppb"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/clients/agent"
	"github.com/setpoint-dev/setpoint/internal/fatal"
)

// A file of another cluster's agent, or a broken one, does no harm.
func TestInvalidState(t *testing.T) {
	t.Parallel()
	for name, text := range map[string]string{
		"broken": "{", "of another cluster": `{"version":1,"cluster":"other","objects":[{"name":"web"}]}`,
		"of another version": `{"version":2,"cluster":"demo","objects":[{"name":"web"}]}`, "null": `{"version":1,"cluster":"demo","objects":[null]}`,
	} {
		folder := t.TempDir()
		fatal.If(t, os.WriteFile(filepath.Join(folder, keptName), []byte(text), 0o600))
		if b, err := Open(folder, "demo", zap.NewNop()); err != nil || len(b.before) > 0 {
			t.Errorf("%s: %v, %v", name, b, err)
		}
	}
}

// What a person reads of a decision: the cause without the controller's words, what limits the
// count, what does not run; each line at most as wide as a terminal.
func TestTheStatusSaysFirstWhatToDo(t *testing.T) {
	t.Parallel()
	condition := func(kind, status, reason string) *setpointv1.HorizontalPodAutoscalerCondition {
		return &setpointv1.HorizontalPodAutoscalerCondition{Type: kind, Status: status, Reason: reason}
	}
	const external = "failed to compute desired number of replicas based on listed metrics for Service/default/web: invalid metrics (1 invalid out of 1), " +
		"first error is: failed to get q external metric value: failed to get q external metric: unable to get external metric default/q/nil: " +
		"unable to fetch metrics from external metrics API: "
	const usage = "failed to compute desired number of replicas based on listed metrics for Service/default/web: invalid metrics (1 invalid out of 1), " +
		"first error is: failed to get cpu resource metric value: failed to get cpu utilization: "
	spec := &setpointv1.HorizontalPodAutoscalerSpec{MaxReplicas: 4, Metrics: []*setpointv1.MetricSpec{{Type: "Resource", Resource: &setpointv1.ResourceMetricSource{
		Name: "cpu", Target: &setpointv1.MetricTarget{Type: "Utilization", AverageUtilization: new(int32(50))},
	}}}}
	now := time.Unix(1_700_000_000, 0)
	pod := func(age time.Duration) []*setpointv1.Pod {
		return []*setpointv1.Pod{{StartTime: timestamppb.New(now.Add(-age))}}
	}
	failed := func(metric, message string) []*setpointv1.MetricError {
		return []*setpointv1.MetricError{{Metric: metric, Message: message}}
	}
	inFleet := func(status, reason, message string) *setpointv1.RecommendResponse {
		active := condition("ScalingActive", status, reason)
		active.Message = message
		return &setpointv1.RecommendResponse{
			CurrentReplicas: 3, DesiredReplicas: 3, Fleet: &setpointv1.FleetShare{ShareTotal: 9, DecisionTime: timestamppb.New(now)},
			Status: &setpointv1.HorizontalPodAutoscalerStatus{Conditions: []*setpointv1.HorizontalPodAutoscalerCondition{active}},
		}
	}
	for _, tt := range []struct {
		name       string
		request    *setpointv1.RecommendRequest
		answer     *setpointv1.RecommendResponse
		notice     string
		state, why string
	}{
		{
			"a source", &setpointv1.RecommendRequest{MetricErrors: failed("External:q", `source "api": it answered 401 Unauthorized: check the source's credentials`)},
			&setpointv1.RecommendResponse{Error: external + `source "api": it answered 401 Unauthorized: check the source's credentials`},
			"", "error", `metric q: source "api": it answered 401 Unauthorized: check the source's credentials`,
		},
		{
			"a whole metrics API", &setpointv1.RecommendRequest{MetricErrors: failed("metrics.k8s.io", "connection refused")}, &setpointv1.RecommendResponse{Error: usage + "connection refused"},
			"", "error", "metrics.k8s.io: connection refused",
		},
		{
			"one of its metrics", &setpointv1.RecommendRequest{MetricErrors: failed("custom.metrics.k8s.io/a:b", "no such metric")}, &setpointv1.RecommendResponse{Error: usage + "no such metric"},
			"", "error", "custom.metrics.k8s.io/a:b: no such metric",
		},
		{
			"no request", &setpointv1.RecommendRequest{Pods: pod(time.Second)}, &setpointv1.RecommendResponse{Error: usage + "missing request for cpu in container task of Pod abc"},
			"", "error", "missing request for cpu in task abc",
		},
		{
			"a new task", &setpointv1.RecommendRequest{Pods: pod(time.Second), MetricErrors: failed("Resource:cpu", "there is no usage of the 1 running tasks yet")},
			&setpointv1.RecommendResponse{Error: usage + "unable to get metrics for resource cpu: unable to fetch metrics from resource metrics API: there is no usage of the 1 running tasks yet"},
			"", "waiting", "metric cpu: there is no usage of the 1 running tasks yet",
		},
		{
			"an old task", &setpointv1.RecommendRequest{Pods: pod(time.Hour)},
			&setpointv1.RecommendResponse{Error: usage + "unable to get metrics for resource cpu: no metrics returned from resource metrics API"},
			"", "error", "no metrics returned from resource metrics API",
		},
		{
			"a crash loop", &setpointv1.RecommendRequest{Pods: pod(time.Second), MetricErrors: failed("Resource:cpu", "no task runs")},
			&setpointv1.RecommendResponse{Error: usage + "unable to get metrics for resource cpu: unable to fetch metrics from resource metrics API: no task runs"},
			"0 of 1 tasks run: task: non-zero exit (3) (4 failed)", "error", "0 of 1 tasks run: task: non-zero exit (3) (4 failed); metric cpu: no task runs",
		},
		{
			"the maximum", &setpointv1.RecommendRequest{Spec: spec},
			&setpointv1.RecommendResponse{CurrentReplicas: 4, DesiredReplicas: 4, Status: &setpointv1.HorizontalPodAutoscalerStatus{
				CurrentMetrics: []*setpointv1.MetricStatus{{Type: "Resource", Resource: &setpointv1.ResourceMetricStatus{
					Name: "cpu", Current: &setpointv1.MetricValueStatus{AverageUtilization: new(int32(215))},
				}}},
				Conditions: []*setpointv1.HorizontalPodAutoscalerCondition{condition("AbleToScale", "True", "ReadyForNewScale"), condition("ScalingLimited", "True", "TooManyReplicas")},
			}}, "", "ok", "cpu 215% (target 50%); at its maximum of 4",
		},
		{
			"to the maximum, with a condition of before", &setpointv1.RecommendRequest{Spec: spec},
			&setpointv1.RecommendResponse{CurrentReplicas: 12, DesiredReplicas: 4, Reason: "Current number of replicas above Spec.MaxReplicas", Status: &setpointv1.HorizontalPodAutoscalerStatus{
				Conditions: []*setpointv1.HorizontalPodAutoscalerCondition{condition("ScalingActive", "False", "ScalingDisabled")},
			}}, "", "ok", "Current number of replicas above Spec.MaxReplicas",
		},
		{
			"a window", &setpointv1.RecommendRequest{Spec: spec},
			&setpointv1.RecommendResponse{CurrentReplicas: 4, DesiredReplicas: 4, Status: &setpointv1.HorizontalPodAutoscalerStatus{
				CurrentMetrics: []*setpointv1.MetricStatus{{Type: "External", External: &setpointv1.ExternalMetricStatus{
					Metric: &setpointv1.MetricIdentifier{Name: "q"}, Current: &setpointv1.MetricValueStatus{AverageValue: new("1500m")},
				}}},
				Conditions: []*setpointv1.HorizontalPodAutoscalerCondition{condition("AbleToScale", "True", "ScaleDownStabilized")},
			}}, "1 of 4 tasks run: no suitable node", "ok", "1 of 4 tasks run: no suitable node; q 1.5; held by the stabilization window",
		},
		{
			"an override", &setpointv1.RecommendRequest{Spec: spec},
			&setpointv1.RecommendResponse{CurrentReplicas: 4, DesiredReplicas: 4, PlainDesiredReplicas: new(int32(6)), Adjustments: []*setpointv1.Adjustment{
				{Stage: "OVERRIDE", Message: "held at 4 by alice until 14:00:00Z"},
			}, Status: &setpointv1.HorizontalPodAutoscalerStatus{
				Conditions: []*setpointv1.HorizontalPodAutoscalerCondition{{Type: "Overridden", Status: "True", Message: "held at 4 by alice until 14:00:00Z"}},
			}}, "", "ok", "held at 4 by alice until 14:00:00Z; without stages and overrides, this step: 6",
		},
		{
			"an override that agrees", &setpointv1.RecommendRequest{Spec: spec},
			&setpointv1.RecommendResponse{CurrentReplicas: 4, DesiredReplicas: 4, Status: &setpointv1.HorizontalPodAutoscalerStatus{
				Conditions: []*setpointv1.HorizontalPodAutoscalerCondition{{Type: "Overridden", Status: "True", Message: "held at 4 by alice until 14:00:00Z; as is the recommendation"}},
			}}, "", "ok", "held at 4 by alice until 14:00:00Z; as is the recommendation",
		},
		{
			"an override and a schedule", &setpointv1.RecommendRequest{Spec: spec},
			&setpointv1.RecommendResponse{CurrentReplicas: 4, DesiredReplicas: 4, PlainDesiredReplicas: new(int32(3)), Adjustments: []*setpointv1.Adjustment{
				{Stage: "BOUNDS", Message: "schedule raises minReplicas to 4"},
			}, Status: &setpointv1.HorizontalPodAutoscalerStatus{
				Conditions: []*setpointv1.HorizontalPodAutoscalerCondition{{Type: "Overridden", Status: "True", Message: "held at 4 by alice"}},
			}}, "", "ok", "schedule raises minReplicas to 4; held at 4 by alice; without stages and overrides, this step: 3",
		},
		{
			"a suspicion", &setpointv1.RecommendRequest{MetricErrors: failed("External:q", "it is 0")},
			&setpointv1.RecommendResponse{Error: external + "it is 0", PlainDesiredReplicas: new(int32(0)), Adjustments: []*setpointv1.Adjustment{
				{Stage: "ZERO_GUARD", Message: "External:q fell from 120 to 0"},
			}}, "", "error", "metric q: it is 0; External:q fell from 120 to 0",
		},
		{
			"a fleet without a count", &setpointv1.RecommendRequest{Fleet: "all/n/t", MetricErrors: failed("External:q", "the provider is away")}, inFleet("False", "FailedGetExternalMetric", "the fleet could not compute its count: FailedGetExternalMetric"),
			"", "error", "metric q: the provider is away; share 3 of 9 of fleet all/n/t",
		},
		{
			"of new tasks", &setpointv1.RecommendRequest{Fleet: "all/n/t", Pods: pod(time.Second)}, inFleet("False", "FailedGetResourceMetric", "the fleet could not compute its count: FailedGetResourceMetric"),
			"", "waiting", "the fleet could not compute its count: FailedGetResourceMetric; share 3 of 9 of fleet all/n/t",
		},
		{
			"a member without a metric", &setpointv1.RecommendRequest{Fleet: "all/n/t", MetricErrors: failed("External:q", "the provider is away")}, inFleet("True", "ValidMetricFound", ""),
			"", "error", "metric q: the provider is away; share 3 of 9 of fleet all/n/t",
		},
		{
			"a member that is off", &setpointv1.RecommendRequest{Fleet: "all/n/t"}, inFleet("False", "ScalingDisabled", "at 0"),
			"", "ok", "ScalingDisabled: at 0; share 3 of 9 of fleet all/n/t",
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			b, err := Open("", "demo", zap.NewNop())
			fatal.If(t, err)
			b.began = time.Now().Add(-time.Hour)
			key := agent.Key{Namespace: "shop", Name: "web"}
			b.note(&agent.Telling{Object: &agent.Object{Key: key, LastChange: &now}, Decision: &agent.Decision{
				At: now, Observation: &agent.Observation{Notice: tt.notice}, Request: tt.request, Answer: tt.answer,
			}})
			o := b.objects[key]
			if o.state() != tt.state || o.Why(now) != tt.why {
				t.Errorf("got %s, %q, want %s, %q", o.state(), o.Why(now), tt.state, tt.why)
			}
			if o.LastChange == nil || !o.LastChange.Equal(now) {
				t.Errorf("last changed %v, want %v", o.LastChange, now)
			}
			var text strings.Builder
			fatal.If(t, (&Status{At: now, Objects: []*Object{o}}).WriteText(&text))
			for line := range strings.Lines(text.String()) {
				if len([]rune(line)) > 81 {
					t.Errorf("a line is longer than a terminal: %q", line)
				}
			}
		})
	}
}

// The decision before a hold or a failed read is of a count that was applied, or was not, and has an age. A long name
// keeps the other rows as they are.
func TestTheRowsOfHeldAndOfLongNames(t *testing.T) {
	t.Parallel()
	now, long := time.Unix(1_700_000_000, 0), strings.Repeat("n", 250)
	held := &Held{"Deploying", "it deploys", now.Add(-time.Minute)}
	decided := &Decided{At: now.Add(-2 * time.Minute), Current: 1, Desired: 2}
	s := &Status{At: now, Version: "v1", Platform: "fake", Cluster: "demo", Objects: []*Object{
		{Key: agent.Key{Namespace: "shop", Name: "done"}, Hold: held, At: now, Decision: decided, Scaled: &Scaled{At: decided.At.Add(time.Second), From: 1, To: 2}},
		{Key: agent.Key{Namespace: "shop", Name: "failed"}, Hold: held, At: now, Decision: decided, Next: []string{"09:00:00 → 1"}},
		{Key: agent.Key{Namespace: "shop", Name: "unread"}, Outcome: agent.OutcomeReadError, Error: "e", At: now, Decision: decided, Next: []string{"09:00:15 → 2"}},
		{Key: agent.Key{Namespace: "shop", Name: long}, At: now},
	}}
	var text strings.Builder
	fatal.If(t, s.WriteText(&text))
	pad := func(name string) string { return fmt.Sprintf("%-50s", name) }
	for _, want := range []string{
		"\n" + pad("shop/done") + "held   2, 2m ago  0s ago     1 → 2, 119s ago\n", "\n" + pad("shop/failed") + "held   1, 2m ago  0s ago     -\n",
		"\n" + pad("shop/unread") + "error  1, 2m ago  0s ago     -\n", "\nshop/" + long + "  ok     -          0s ago     -\n",
		"    next, if the hold has ended by then: 09:00:00 → 1\n", "    next: 09:00:15 → 2\n",
	} {
		if !strings.Contains(text.String(), want) {
			t.Errorf("no %q in\n%s", want, text.String())
		}
	}
}

// A name is found as a person types it, and as the service has it.
func TestAnObjectIsFoundByItsPlainName(t *testing.T) {
	t.Parallel()
	known := []*Object{{Key: agent.Key{Namespace: "shop", Name: "pay.-2fworker-v.-2e2.main.-2eq"}}, {Key: agent.Key{Namespace: "shop", Name: "web"}}}
	for _, name := range []string{"pay/worker-v.2.main.q", "shop/pay/worker-v.2.main.q", "shop/pay.-2fworker-v.-2e2.main.-2eq", "shop/pay.-2fworker-v.2.main.q"} {
		if s := (&Status{Objects: known}); s.Only([]string{name}) != nil || len(s.Objects) != 1 || s.Objects[0] != known[0] {
			t.Errorf("%s: %v", name, s.Objects)
		}
	}
	// Of others it is said which may be meant: in a stack web is called shop_web.
	known = append(known, &Object{Key: agent.Key{Namespace: "demo", Name: "demo_api"}}, &Object{Key: agent.Key{Namespace: "shop", Name: "shop_api"}})
	for name, meant := range map[string]string{
		"shop/api": "; did you mean shop/shop_api?", "api": "; did you mean demo/demo_api?", "demo_apj": "; did you mean demo_api?",
		"pay/web": "; did you mean shop/web?", "pay/worker": "", "shop/": "",
	} {
		err := (&Status{Objects: known}).Only([]string{name})
		if want := "the agent has no object " + name + ": it has not opted in, or was not reconciled yet" + meant; err == nil || err.Error() != want {
			t.Errorf("%v, not %s", err, want)
		}
	}
}

// Users' texts break neither lines nor the terminal.
func TestTheStatusIsText(t *testing.T) {
	t.Parallel()
	now := time.Unix(1_700_000_000, 0)
	s := &Status{At: now, Version: "v1", Platform: "fake", Cluster: "demo", Shadow: true, Problem: "a\nb", Objects: []*Object{
		{Key: agent.Key{Namespace: "shop", Name: "web"}, Hold: &Held{"InvalidLabel", "setpoint.\x1b[31mmin: no", now.Add(-3 * time.Hour)}, Warning: "w"},
		{Key: agent.Key{Namespace: "shop", Name: "api"}, Decision: &Decided{Current: 2, Desired: 3, Reason: "cpu above target", Metrics: []string{"cpu 90%", "queue 12"}}, Shadow: true, At: now.Add(-4 * time.Second), Scaled: &Scaled{At: now.Add(-3 * 24 * time.Hour), From: 1, To: 2}},
		{Key: agent.Key{Namespace: "shop", Name: "db"}, Error: "no usage", LastChange: new(now.Add(-3 * time.Hour))},
		{Key: agent.Key{Namespace: "shop", Name: "max"}, Hold: &Held{"InvalidObject", "max: is x", now.Add(-3 * time.Hour)}, Warning: "max: is x"},
		{Key: agent.Key{Namespace: "shop", Name: "new"}, Error: "failed to get no usage yet", Cause: "no usage yet", Waiting: true, Decision: &Decided{}},
		{Key: agent.Key{Namespace: "shop", Name: "out"}, Error: "failed to get the value fell from 50 to 0", Cause: "the value fell from 50 to 0", Decision: &Decided{Adjusted: "External:q fell from 50 to 0"}},
	}}
	var text strings.Builder
	fatal.If(t, s.WriteText(&text))
	const want = "fake demo: 6 objects, 2 held, 2 with errors; setpoint v1; shadow: nothing is applied\n" +
		"PROBLEM: a b\n" +
		"OBJECT    STATE    REPLICAS  EVALUATED  LAST SCALED\n" +
		"shop/web  held     -         -          -\n    InvalidLabel, for 3h: setpoint. [31mmin: no; warning: w\n" +
		"shop/api  shadow   2 → 3     4s ago     1 → 2, 3d ago\n    cpu 90%, queue 12; cpu above target\n" +
		"shop/db   error    -         -          3h ago\n    no usage\n" +
		"shop/max  held     -         -          -\n    InvalidObject, for 3h: max: is x\n" +
		"shop/new  waiting  0         -          -\n    no usage yet\n" +
		"shop/out  error    0         -          -\n    External:q fell from 50 to 0\n"
	if text.String() != want {
		t.Errorf("got\n%swant\n%s", text.String(), want)
	}
}

// counted is a platform of which only the count can be seen.
type counted struct {
	agent.Platform
	count *int32
}

func (c counted) Observe(context.Context, *agent.Object) (*agent.Observation, error) {
	return &agent.Observation{Request: &setpointv1.RecommendRequest{Scale: &setpointv1.Scale{SpecReplicas: *c.count}}}, nil
}

// A service that has lost its histories learns who set a count to 0 from the agent, which also knows it after a restart.
func TestWhoScaledToZeroIsNotForgotten(t *testing.T) {
	t.Parallel()
	folder, count := t.TempDir(), int32(3)
	object := &agent.Object{Key: agent.Key{Namespace: "shop", Name: "web"}, UID: "u1"}
	open := func() (*Book, agent.Watched) {
		t.Helper()
		b, err := Open(folder, "demo", zap.NewNop())
		fatal.If(t, err)
		return b, b.Note(counted{count: &count})
	}
	book, p := open()
	for i, step := range []struct {
		count, desired int32
		applied        bool
		uid            string
		restarted      bool
		idle           bool // as the service is told before the step
	}{
		{count: 3, desired: 0, applied: true},
		{count: 0, desired: 0, idle: true},
		{count: 0, desired: 0, restarted: true, idle: true},
		{count: 0, desired: 2, applied: true, idle: true},
		{count: 2, desired: 2},
		{count: 0, desired: 0}, // set by somebody
		{count: 0, desired: 0},
		{count: 4, desired: 0, applied: true},
		{count: 0, desired: 0, uid: "u2"}, // another one of the name
		{count: 0, desired: 0, uid: "u2"},
	} {
		if step.restarted {
			fatal.If(t, book.write(false))
			book, p = open()
		}
		if count = step.count; step.uid != "" {
			object.UID = step.uid
		}
		seen, err := p.Observe(t.Context(), object)
		fatal.If(t, err)
		if conditions := seen.Request.GetPreviousStatus().GetConditions(); (len(conditions) == 1 && conditions[0].GetType() == "ScaledToZero") != step.idle {
			t.Errorf("step %d: tells %v, want that it is idle: %t", i, seen.Request.GetPreviousStatus(), step.idle)
		}
		p.(agent.Teller).Tell(t.Context(), &agent.Telling{Object: object, Outcome: agent.OutcomeUnchanged, Decision: &agent.Decision{
			Request: seen.Request, Observation: seen, Applied: step.applied,
			Answer: &setpointv1.RecommendResponse{CurrentReplicas: step.count, DesiredReplicas: step.desired},
		}})
	}
}

// An agent that has come from another machine, without what it kept there, learns from the service when the count was last changed, and whose a
// count of 0 is; what it knows itself says more, unless another agent has scaled since. A shadow's record says nothing of the count.
func TestTheServiceRemembersForAnAgentThatMoved(t *testing.T) {
	t.Parallel()
	now, count := time.Now(), int32(0)
	for _, tt := range []struct {
		name    string
		shadow  bool
		failed  error         // to apply
		applied time.Duration // before the answer: when this agent itself has scaled; 0: never
		want    string
	}{
		{"moved", false, nil, 0, "3h ago"},
		{"a shadow", true, nil, 0, "-"},
		{"not applied", false, errors.New("no leader"), 0, "-"},
		{"its own", false, nil, 3*time.Hour - time.Second, "2 → 0, 2h ago"},
		{"another one's since", false, nil, 5 * time.Hour, "3h ago"},
	} {
		b, err := Open("", "demo", zap.NewNop())
		fatal.If(t, err)
		p := b.Note(counted{count: &count})
		object := &agent.Object{Key: agent.Key{Namespace: "shop", Name: "web"}, Shadow: tt.shadow}
		if tt.applied != 0 {
			b.objects[object.Key] = &Object{Key: object.Key, Idle: true, Scaled: &Scaled{At: now.Add(-tt.applied), From: 2}}
		}
		answer := &setpointv1.RecommendResponse{Status: &setpointv1.HorizontalPodAutoscalerStatus{
			LastScaleTime: timestamppb.New(now.Add(-3 * time.Hour)), Conditions: []*setpointv1.HorizontalPodAutoscalerCondition{{Type: "ScaledToZero", Status: "True"}},
		}}
		for _, d := range []*agent.Decision{{Shadow: tt.shadow, ApplyError: tt.failed, Observation: &agent.Observation{}, Answer: answer}, nil} { // nil: it is held
			b.note(&agent.Telling{Object: object, Decision: d})
			if got := b.objects[object.Key].lastScaled(now); got != tt.want {
				t.Errorf("%s: last scaled %s, want %s", tt.name, got, tt.want)
			}
			seen, err := p.Observe(t.Context(), object)
			if err != nil || (seen.Request.GetPreviousStatus() == nil) != tt.shadow {
				t.Errorf("%s: the service is told %v, %v", tt.name, seen.Request.GetPreviousStatus(), err)
			}
		}
	}
}
