package agent

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest"
	"go.uber.org/zap/zaptest/observer"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/clients/agent"
	v1 "github.com/setpoint-dev/setpoint/clients/kubernetes/autoscaling/v1"
	"github.com/setpoint-dev/setpoint/internal/fatal"
)

func testLog(t *testing.T) *zap.Logger { return zaptest.NewLogger(t, zaptest.Level(zap.ErrorLevel)) }

const period = 10 * time.Second

var errAway = status.Error(codes.Unavailable, "away")

// settle waits until the reconciles that are due are done.
func settle() {
	time.Sleep(time.Millisecond)
	synctest.Wait()
}

func want[T comparable](t *testing.T, what string, got, want T) {
	t.Helper()
	if got != want {
		t.Errorf("%s: got %v, want %v", what, got, want)
	}
}

func TestARoundAppliesReportsAndTells(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, period)
		w.workload("shop/web", 3, 50)
		key := w.add(newHPA("shop", "web"))
		settle()
		want(t, "replicas", w.count("shop/web"), 5)
		want(t, "calls", fmt.Sprint(w.calls()), "[delete clusters/demo/namespaces/shop/targets/web scale shop/web 5 report APPLIED]")
		want(t, "events", fmt.Sprint(w.events()), "[Normal SuccessfulRescale New size: 5; reason: external metric queue(nil) above target]")
		s := w.hpa(key).Status
		want(t, "condition", w.able(key), "True SucceededRescale")
		want(t, "desired replicas", s.DesiredReplicas, 5)
		want(t, "whole seconds", s.LastScaleTime.Nanosecond(), 0)
		time.Sleep(2 * period)
		want(t, "condition", w.able(key), "True ReadyForNewScale")
		written := w.written()
		time.Sleep(5 * period)
		want(t, "statuses written while nothing changes", w.written(), written)
		want(t, "calls while nothing changes", len(w.calls()), 0)
	})
}

// A failing object does not delay the others.
func TestTheRecommenderIsAwayForOne(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, period)
		w.service = &onlyGood{RecommendationServiceServer: w.service}
		// The bank's requests come at other instants than the shop's.
		for _, key := range []Key{HPA.Key("shop", "good"), HPA.Key("shop", "bad"), HPA.Key("bank", "bad")} {
			w.workload(key.Namespace+"/"+key.Name, 3, 30)
			w.add(evaluatedHPA(key.Namespace, key.Name))
		}
		time.Sleep(10 * period)
		began, written := time.Now(), w.written()
		time.Sleep(10 * period)
		want(t, "statuses written", w.written()-written, 0)
		good := 0
		times, requests := w.questions()
		for i, at := range times {
			if !at.Before(began) && strings.HasSuffix(requests[i].GetTarget(), "/good") {
				good++
			}
		}
		if good < 10 {
			t.Errorf("%d reconciles of the good one in ten periods", good)
		}
		want(t, "condition of the good one", w.able(HPA.Key("shop", "good")), "True ReadyForNewScale")
		want(t, "condition of the bad one", w.able(HPA.Key("shop", "bad")), "False "+agent.ReasonRecommenderUnavailable)
		c := conditionOf(&w.hpa(HPA.Key("shop", "bad")).Status, autoscalingv2.AbleToScale)
		if since := "the recommender has been unavailable since " + c.LastTransitionTime.UTC().Format(time.RFC3339) + ": "; !strings.HasPrefix(c.Message, since) {
			t.Errorf("message %q, want %q", c.Message, since)
		}
	})
}

func TestTheRecommenderRefuses(t *testing.T) {
	t.Parallel()
	violations, err := status.New(codes.InvalidArgument, "invalid").WithDetails(&errdetails.BadRequest{FieldViolations: []*errdetails.BadRequest_FieldViolation{
		{Field: "spec.maxReplicas", Description: "must be greater than 0"}, {Field: "spec.metrics", Description: "too many"},
	}})
	fatal.If(t, err)
	for _, tt := range []struct {
		name    string
		err     error
		message string
	}{
		{"all violations are named", violations.Err(), "the recommender refused to decide: spec.maxReplicas: must be greater than 0; spec.metrics: too many"},
		{"no permission", status.Error(codes.PermissionDenied, "not your cluster"), "the recommender refused to decide: not your cluster"},
		{"no credentials", status.Error(codes.Unauthenticated, "who are you"), "the recommender refused to decide: who are you"},
		{"too large, and waiting does not help", status.Error(codes.ResourceExhausted, "too many pods"), "the recommender refused to decide: too many pods"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, period)
				w.workload("shop/web", 3, 50)
				w.fault = func(call string, _ int) error {
					if call == "recommend" {
						return tt.err
					}
					return nil
				}
				key := w.add(newHPA("shop", "web"))
				settle()
				c := conditionOf(&w.hpa(key).Status, autoscalingv2.AbleToScale)
				want(t, "condition", w.able(key), "False "+agent.ReasonRecommendationRefused)
				want(t, "message", c.Message, tt.message)
				asked := w.askedSince(time.Time{})
				time.Sleep(5 * period)
				if n := w.askedSince(time.Time{}) - asked; n < 4 || n > 5 {
					t.Errorf("asked %d times in five periods", n)
				}
				want(t, "statuses written", w.written(), 1)
				w.with(func() { w.fault = nil })
				time.Sleep(2 * period)
				want(t, "replicas", w.count("shop/web"), 5)
			})
		})
	}
}

func TestARivalIsNotFought(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, period)
		w.workload("shop/web", 3, 50)
		hpa := newHPA("shop", "web")
		w.rivals[Autoscaler.Key("shop", "web")] = "HorizontalPodAutoscaler shop/other scales Deployment shop/web"
		a := &v1.Autoscaler{ObjectMeta: hpa.ObjectMeta, Spec: v1.AutoscalerSpec{HorizontalPodAutoscalerSpec: hpa.Spec}}
		key := w.add(a)
		time.Sleep(3 * period)
		want(t, "asked", w.askedSince(time.Time{}), 0)
		want(t, "replicas", w.count("shop/web"), 3)
		want(t, "condition", w.able(key), "False "+agent.ReasonConflictingAutoscaler)
		// Its selector is forgotten, and not that of the other one if that has its name.
		w.with(func() {
			if len(w.forgotten) == 0 || slices.ContainsFunc(w.forgotten, func(uid types.UID) bool { return uid != w.objects[key].GetUID() || uid == "" }) {
				t.Errorf("forgotten: %q", w.forgotten)
			}
		})
		stored := w.autoscaler(key)
		want(t, "explanation", stored.Status.Explanation, "Not scaled: HorizontalPodAutoscaler shop/other scales Deployment shop/web.")
		w.with(func() { delete(w.rivals, key) })
		time.Sleep(2 * period)
		want(t, "replicas", w.count("shop/web"), 5)
		stored = w.autoscaler(key)
		want(t, "explanation", stored.Status.Explanation, "Kept at 5: recommended size matches current size.")
		if stored.Status.RecommendationID == "" {
			t.Error("no recommendation id")
		}
	})
}

func TestObjectsComeAndGo(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, period)
		w.workload("shop/web", 3, 30)
		key := w.add(evaluatedHPA("shop", "web"))
		time.Sleep(period)
		want(t, "calls for one that was evaluated before", fmt.Sprint(w.calls()), "[]")
		w.remove(key)
		settle()
		const forgotten = "[delete clusters/demo/namespaces/shop/targets/web]"
		want(t, "calls for one that went", fmt.Sprint(w.calls()), forgotten)
		asked := w.askedSince(time.Time{})
		time.Sleep(5 * period)
		want(t, "asked for one that went", w.askedSince(time.Time{})-asked, 0)
		w.add(evaluatedHPA("shop", "web"))
		settle()
		w.calls()
		w.add(newHPA("shop", "web")) // recreated before the agent saw the deletion
		settle()
		want(t, "calls for a namesake", fmt.Sprint(w.calls()), "[delete clusters/demo/namespaces/shop/targets/web delete clusters/demo/namespaces/shop/targets/web]")
	})
}

// What many objects can't tell the service at once is one line of the log.
func TestWhatTheServiceMissesIsLoggedOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, period)
		core, logged := observer.New(zapcore.WarnLevel)
		w.start(func(o *agent.Options) { o.Log = zap.New(core) })
		missed := ""
		w.fault = func(call string, _ int) error {
			if call == missed {
				return errAway
			}
			return nil
		}
		var keys []Key
		w.with(func() { missed = "report" })
		for i := range 20 {
			name := fmt.Sprint("web-", i)
			w.workload("shop/"+name, 3, 50)
			keys = append(keys, w.add(evaluatedHPA("shop", name)))
		}
		settle()
		want(t, "lines about reports", logged.FilterMessageSnippet("outcome not reported").Len(), 1)
		w.with(func() { missed = "delete" })
		for _, key := range keys {
			w.remove(key)
		}
		settle()
		want(t, "lines about deletions", logged.FilterMessageSnippet("not deleted at the recommender").Len(), 1)
	})
}

// An API server that is lost may have written the count that it did not answer for, or answer an error after it.
func TestACountWhoseAnswerIsLostIsLookedAt(t *testing.T) {
	t.Parallel()
	failed := apierrors.NewInternalError(errors.New("etcdserver: request timed out"))
	for name, tt := range map[string]struct {
		lost, apply, count error
		condition, calls   string
	}{
		"written without an answer": {context.DeadlineExceeded, nil, nil, "True SucceededRescale", "[scale shop/web 5 report APPLIED]"},
		"written before an error":   {failed, nil, nil, "True SucceededRescale", "[scale shop/web 5 report APPLIED]"},
		"not written":               {nil, failed, nil, "False FailedUpdateScale", "[report FAILED]"},
		// The next request has the count.
		"nobody can tell": {failed, nil, errors.New("connection refused"), "True ReadyForNewScale", "[scale shop/web 5]"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, period)
				w.workload("shop/web", 3, 50)
				w.lostErr, w.applyErr, w.countErr = tt.lost, tt.apply, tt.count
				key := w.add(evaluatedHPA("shop", "web"))
				settle()
				want(t, "condition", w.able(key), tt.condition)
				want(t, "calls", fmt.Sprint(w.calls()), tt.calls)
			})
		})
	}
}

// As upstream: an event, and the next reconcile. The log has a line a minute, however many objects there are.
func TestTheStatusCantBeWritten(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, period)
		core, logged := observer.New(zapcore.WarnLevel)
		w.platform.log = zap.New(core)
		w.start(func(o *agent.Options) { o.Log = w.platform.log })
		w.workload("shop/web", 3, 50)
		w.statusErr = apierrors.NewConflict(schema.GroupResource{Group: "autoscaling", Resource: "horizontalpodautoscalers"}, "web", errors.New("modified"))
		key := w.add(evaluatedHPA("shop", "web"))
		settle()
		want(t, "asked before the next reconcile", w.askedSince(time.Time{}), 1)
		if !slices.Contains(w.events(), "Warning FailedUpdateStatus "+w.statusErr.Error()) {
			t.Errorf("events: %q", w.events())
		}
		for i := range 20 {
			name := fmt.Sprint("web-", i)
			w.workload("shop/"+name, 3, 50)
			w.add(evaluatedHPA("shop", name))
		}
		time.Sleep(4 * period)
		want(t, "lines in the log", logged.FilterMessage("status not written").Len(), 1)
		w.with(func() { w.statusErr = nil })
		time.Sleep(2 * period)
		want(t, "condition", w.able(key), "True ReadyForNewScale")
	})
}

// The informers' cache lags behind the agent's own writes.
func TestTheCacheIsBehind(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, period)
		w.workload("shop/web", 3, 50)
		old := evaluatedHPA("shop", "web")
		key := w.add(old)
		w.with(func() { w.cached = map[Key]client.Object{key: old} })
		time.Sleep(3 * period)
		want(t, "condition", w.able(key), "True ReadyForNewScale")
		want(t, "statuses written", w.written(), 2)
		want(t, "events", len(w.events()), 1)
	})
}

// An object is new once, even while its status can't be written.
func TestANamesakesHistoryIsDeletedOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, period)
		w.workload("shop/web", 3, 30)
		w.statusErr = errors.New("no")
		w.add(newHPA("shop", "web"))
		time.Sleep(5 * period)
		want(t, "calls", fmt.Sprint(w.calls()), "[delete clusters/demo/namespaces/shop/targets/web]")
	})
}

func TestAnObjectThatCantBeRead(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, period)
		w.workload("shop/web", 3, 50)
		hpa := evaluatedHPA("shop", "web")
		hpa.Annotations[ShadowAnnotation] = "yes, please"
		key := w.add(hpa)
		time.Sleep(2 * period)
		want(t, "condition", w.able(key), "False "+agent.ReasonInvalidObject)
		want(t, "replicas", w.count("shop/web"), 3)
		w.change(key, func(hpa *autoscalingv2.HorizontalPodAutoscaler) {
			hpa.Annotations = map[string]string{SyncPeriodAnnotation: "1ms"}
		})
		time.Sleep(3 * period)
		want(t, "replicas", w.count("shop/web"), 5)
		warnings := 0
		want(t, "events of what stops it", strings.Count(strings.Join(w.events(), "\n"), `Warning InvalidObject annotation autoscaling.setpoint.dev/shadow: "yes, please" is neither`), 1)
		for _, e := range w.events() {
			if strings.HasPrefix(e, "Warning InvalidObject annotation autoscaling.setpoint.dev/sync-period") {
				warnings++
			}
		}
		want(t, "warnings", warnings, 1)
	})
}

// What is known of a namespace without the right to read it is out of date: nothing is read, asked or written, until the right
// is back.
func TestANamespaceThatCantBeReadIsHeld(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, period)
		w.workload("shop/web", 3, 30)
		key := w.add(newHPA("shop", "web"))
		settle()
		before := w.written()
		w.with(func() { w.unreadErr = errors.New("no right") })
		w.workload("shop/web", 3, 90)
		asked, read := w.askedSince(time.Time{}), w.readsSoFar()
		time.Sleep(3 * period)
		want(t, "replicas", w.count("shop/web"), 3)
		want(t, "asked", w.askedSince(time.Time{}), asked)
		want(t, "read", w.readsSoFar(), read)
		want(t, "statuses", w.written(), before)
		w.with(func() { w.unreadErr = nil })
		time.Sleep(period)
		settle()
		want(t, "replicas once it is back", w.count("shop/web"), 9)
		want(t, "able", w.able(key), "True SucceededRescale")
	})
}

func TestPrepareKeepsTransitionTimesGoingForward(t *testing.T) {
	t.Parallel()
	now := time.Now()
	at := func(ago time.Duration) metav1.Time { return metav1.NewTime(now.Add(-ago)).Rfc3339Copy() }
	for _, tt := range []struct {
		name         string
		stored, next autoscalingv2.HorizontalPodAutoscalerCondition
		want         metav1.Time
	}{
		{"the service's when it is later", able("True", at(time.Hour)), able("True", at(time.Minute)), at(time.Minute)},
		{"the stored one when that is later", able("True", at(time.Minute)), able("True", at(time.Hour)), at(time.Minute)},
		{"now when the status is another and the service's lies before", able("False", at(time.Minute)), able("True", at(time.Hour)), at(0)},
		{"the service's when the status is another", able("False", at(time.Hour)), able("True", at(time.Minute)), at(time.Minute)},
	} {
		t.Run(tt.name, func(t *testing.T) {
			stored := &autoscalingv2.HorizontalPodAutoscalerStatus{Conditions: []autoscalingv2.HorizontalPodAutoscalerCondition{tt.stored}}
			next := &autoscalingv2.HorizontalPodAutoscalerStatus{Conditions: []autoscalingv2.HorizontalPodAutoscalerCondition{tt.next}}
			prepare(next, stored)
			if got := next.Conditions[0].LastTransitionTime; got.Sub(tt.want.Time).Abs() > time.Second {
				t.Errorf("got %s, want %s", got, tt.want)
			}
		})
	}
}

func able(status string, at metav1.Time) autoscalingv2.HorizontalPodAutoscalerCondition {
	return autoscalingv2.HorizontalPodAutoscalerCondition{Type: autoscalingv2.AbleToScale, Status: corev1.ConditionStatus(status), LastTransitionTime: at}
}

// onlyGood answers for the target good only.
type onlyGood struct {
	setpointv1.RecommendationServiceServer
}

func (s *onlyGood) Recommend(ctx context.Context, req *setpointv1.RecommendRequest) (*setpointv1.RecommendResponse, error) {
	if !strings.HasSuffix(req.GetTarget(), "/good") {
		return nil, status.Error(codes.Unavailable, "not for you")
	}
	return s.RecommendationServiceServer.Recommend(ctx, req)
}
