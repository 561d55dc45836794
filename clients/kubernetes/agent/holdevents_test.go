package agent

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/setpoint-dev/setpoint/clients/agent"
)

// ofRecommender returns the kinds and reasons of the events about whether the recommender
// decides.
func (w *world) ofRecommender() []string {
	var told []string
	for _, event := range w.events() {
		words := strings.SplitN(event, " ", 3)
		if strings.HasPrefix(words[1], "Recommend") {
			told = append(told, words[0]+" "+words[1])
		}
	}
	return told
}

// failing makes the recommender fail with that code, with another text each time; OK: it
// decides.
func (w *world) failing(code codes.Code) {
	w.with(func() {
		n := 0
		w.fault = func(call string, _ int) error {
			if code == codes.OK || call != "recommend" {
				return nil
			}
			n++
			return status.Errorf(code, "for the %dth time", n)
		}
	})
}

// An event reports once that the recommender does not decide, and once that it does again.
func TestEventsTellWhetherTheRecommenderDecides(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name         string
		code         codes.Code
		begins, ends string
	}{
		{"it is away", codes.Unavailable, "Warning RecommenderUnavailable", "Normal RecommenderAvailable"},
		{"it refuses", codes.InvalidArgument, "Warning RecommendationRefused", "Normal RecommendationAccepted"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, period)
				w.workload("shop/web", 3, 30)
				key := w.add(evaluatedHPA("shop", "web"))
				time.Sleep(3 * period)
				want(t, "events before", fmt.Sprint(w.ofRecommender()), "[]")
				w.failing(tt.code)
				time.Sleep(20 * period)
				want(t, "events meanwhile", fmt.Sprint(w.ofRecommender()), "["+tt.begins+"]")
				event := w.events()[slices.IndexFunc(w.events(), func(e string) bool { return strings.HasPrefix(e, tt.begins) })]
				if !strings.Contains(event, "for the 1th time") {
					t.Errorf("event %q does not say why", event)
				}
				w.failing(codes.OK)
				time.Sleep(5 * period)
				want(t, "events after", fmt.Sprint(w.ofRecommender()), "["+tt.begins+" "+tt.ends+"]")
				want(t, "condition", w.able(key), "True ReadyForNewScale")
			})
		})
	}
}

// If the recommender comes and goes, there is one event a minute, not one each time.
func TestEventsOfARecommenderThatComesAndGoes(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, period)
		w.workload("shop/web", 3, 30)
		w.add(evaluatedHPA("shop", "web"))
		time.Sleep(2 * period)
		for range 60 {
			w.failing(codes.InvalidArgument)
			time.Sleep(period)
			w.failing(codes.OK)
			time.Sleep(period)
		}
		// It was away 60 times in 20 minutes.
		begins, ends := 0, 0
		for _, event := range w.ofRecommender() {
			if event == "Warning RecommendationRefused" {
				begins++
			} else {
				ends++
			}
		}
		if begins < 10 || begins > 20 || ends != begins {
			t.Errorf("%d events that it refuses and %d that it does not, want one a minute and as many ends", begins, ends)
		}
	})
}

// A status that can't be written does not cause an event in each reconcile, on either side.
func TestEventsAreNotRepeatedWhereTheStatusCantBeWritten(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, period)
		w.workload("shop/web", 3, 30)
		w.add(evaluatedHPA("shop", "web"))
		time.Sleep(2 * period)
		w.with(func() { w.statusErr = fmt.Errorf("no") })
		w.failing(codes.Unavailable)
		time.Sleep(20 * period)
		w.failing(codes.OK)
		time.Sleep(20 * period)
		want(t, "events", fmt.Sprint(w.ofRecommender()), "[Warning RecommenderUnavailable Normal RecommenderAvailable]")
	})
}

// A new agent continues from what its predecessor wrote: it does not repeat events, and it
// reports the end of a hold.
func TestEventsAreNotRepeatedByAnAgentThatStarts(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, period)
		w.workload("shop/web", 3, 30)
		hpa := evaluatedHPA("shop", "web")
		hpa.Status.Conditions[0] = autoscalingv2.HorizontalPodAutoscalerCondition{
			Type: autoscalingv2.AbleToScale, Status: "False", Reason: agent.ReasonRecommenderUnavailable, LastTransitionTime: metav1.Now(),
		}
		w.failing(codes.Unavailable)
		w.add(hpa)
		time.Sleep(10 * period)
		want(t, "events meanwhile", fmt.Sprint(w.ofRecommender()), "[]")
		w.failing(codes.OK)
		time.Sleep(3 * period)
		want(t, "events after", fmt.Sprint(w.ofRecommender()), "[Normal RecommenderAvailable]")
	})
}
