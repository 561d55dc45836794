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
	"go.uber.org/zap/zaptest/observer"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/setpoint-dev/setpoint/clients/agent"
	"github.com/setpoint-dev/setpoint/internal/fatal"
)

// Two clusters with one name have an object of one name: the first one keeps working, the
// second one holds and says why.
func TestTwoClustersOfOneName(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		first, second := newWorld(t, period), newWorld(t, period)
		second.service = first.service
		core, logged := observer.New(zapcore.WarnLevel)
		first.start(func(o *agent.Options) { o.ClusterUID = "first" })
		second.start(func(o *agent.Options) { o.Log, o.ClusterUID = zap.New(core), "second" })
		first.workload("shop/web", 3, 30)
		second.workload("shop/web", 3, 90)
		mine := first.add(evaluatedHPA("shop", "web"))
		time.Sleep(2 * period)
		theirs := second.add(evaluatedHPA("shop", "web"))
		time.Sleep(5 * period)
		first.workload("shop/web", 3, 50)
		time.Sleep(5 * period)

		want(t, "condition of the first", first.able(mine), "True ReadyForNewScale")
		want(t, "replicas of the first", first.count("shop/web"), 5)
		want(t, "condition of the second", second.able(theirs), "False "+agent.ReasonRecommendationRefused)
		want(t, "replicas of the second", second.count("shop/web"), 3)
		want(t, "changes of the second", fmt.Sprint(second.calls()), "[]")
		want(t, "events of the second", fmt.Sprint(second.ofRecommender()), "[Warning "+agent.ReasonRecommendationRefused+"]")
		message := conditionOf(&second.hpa(theirs).Status, autoscalingv2.AbleToScale).Message
		for _, told := range []string{"another cluster", "clusters/demo/namespaces/shop/targets/web", "delete the target"} {
			if !strings.Contains(message, told) {
				t.Errorf("the condition does not say %q: %s", told, message)
			}
		}
		want(t, "lines in the second's log", logged.Len(), 1) // in many reconciles
		_, requests := second.questions()
		want(t, "UID that is asked with", requests[0].GetClusterUid(), "second")
	})
}

// An agent does not delete another cluster's target: for a deleted object it does not retry for
// ever, and for a new one it asks and is refused.
func TestAnotherClustersTargetIsNotForgotten(t *testing.T) {
	t.Parallel()
	other, err := status.New(codes.FailedPrecondition, "of another cluster").WithDetails(&errdetails.ErrorInfo{Domain: "setpoint.dev", Reason: "OTHER_CLUSTER"})
	fatal.If(t, err)
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, period)
		core, logged := observer.New(zapcore.WarnLevel)
		w.start(func(o *agent.Options) { o.Log, o.ClusterUID = zap.New(core), "mine" })
		w.fault = func(call string, _ int) error {
			if call == "delete" {
				return other.Err()
			}
			return nil
		}
		w.workload("shop/web", 3, 50)
		key := w.add(newHPA("shop", "web"))
		time.Sleep(3 * period)
		want(t, "replicas", w.count("shop/web"), 5) // in this case no other cluster has it
		w.remove(key)
		time.Sleep(20 * period)
		deletes := func() []string {
			var all []string
			w.with(func() {
				for _, d := range w.deletes {
					all = append(all, d.GetTargetUid()+" of "+d.GetClusterUid())
				}
			})
			return all
		}()
		want(t, "deletes", strings.Join(deletes, ", "), " of mine, uid-1 of mine")
		want(t, "lines in the log", logged.Len(), 0)
		if slices.Contains(w.loop.Objects(), key) {
			t.Error("the object is not forgotten")
		}
	})
}

func TestTheClustersUIDIsAskedForAtTheStart(t *testing.T) {
	t.Parallel()
	namespaces := schema.GroupResource{Resource: "namespaces"}
	forbidden := apierrors.NewForbidden(namespaces, "kube-system", errors.New("no right"))
	away := errors.New("it does not answer")
	for _, tt := range []struct {
		name string
		errs []error // of the first questions
		uid  string
		want string
		asks int
		logs int
	}{
		{name: "it is told", uid: "6f3f7e0e-6f0f-4f0e-9d4e-2f1a0b9c8d7e", want: "6f3f7e0e-6f0f-4f0e-9d4e-2f1a0b9c8d7e", asks: 1},
		{name: "the agent may not know", errs: slices.Repeat([]error{forbidden}, 9), asks: 1, logs: 1},
		{name: "there is no such namespace", errs: slices.Repeat([]error{error(apierrors.NewNotFound(namespaces, "kube-system"))}, 9), asks: 1, logs: 1},
		{name: "it is told in the end", errs: []error{away, away}, uid: "u", want: "u", asks: 3, logs: 2},
		{name: "it is never told", errs: slices.Repeat([]error{away}, 9), asks: 3, logs: 3},
		{name: "none is told", uid: "", asks: 3, logs: 3},
		{name: "one that no service takes", uid: "a b", asks: 3, logs: 3},
		{name: "one that is too long", uid: strings.Repeat("u", 65), asks: 3, logs: 3},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				core, logged := observer.New(zapcore.InfoLevel)
				a := &Agent{options: Options{Cluster: "demo", RequestTimeout: time.Second, Log: zap.New(core)}}
				asks := 0
				got := a.identify(t.Context(), func(context.Context) (string, error) {
					if asks++; asks <= len(tt.errs) {
						return "", tt.errs[asks-1]
					}
					return tt.uid, nil
				})
				want(t, "uid", got, tt.want)
				want(t, "questions", asks, tt.asks)
				want(t, "lines in the log", logged.Len(), tt.logs)
			})
		})
	}
	t.Run("it ends meanwhile", func(t *testing.T) {
		t.Parallel()
		core, logged := observer.New(zapcore.InfoLevel)
		a := &Agent{options: Options{RequestTimeout: time.Second, Log: zap.New(core)}}
		ctx, cancel := context.WithCancel(t.Context())
		uid := a.identify(ctx, func(context.Context) (string, error) {
			cancel()
			return "", away
		})
		want(t, "uid", uid, "")
		want(t, "lines in the log", logged.Len(), 0)
	})
}

// A complete agent reads its cluster's UID and sends it with requests.
func TestAnAgentAsksWithItsClustersUID(t *testing.T) {
	s, service := newAPIServer(t, 1), newDirect(t)
	runAgent(t, s, service, nil)
	await(t, "the object is asked about", func() bool { return service.asked.Load() > 0 })
	want(t, "UID that is asked with", service.cluster.Load(), any("uid-of-the-cluster"))
}
