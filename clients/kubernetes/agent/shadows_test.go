package agent

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// A shadow follows the controller in charge, which the test plays, and touches nothing.
func TestAShadow(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, period)
		w.workload("shop/web", 3, 30)
		hpa := evaluatedHPA("shop", "web")
		hpa.Annotations[ShadowAnnotation] = "true"
		hpa.UID, hpa.CreationTimestamp = "old", metav1.NewTime(time.Now().Add(-time.Hour))
		key := w.add(hpa)
		inCharge := func(replicas int32) {
			w.with(func() {
				w.replicas["shop/web"] = replicas
				changed := w.objects[key].(*autoscalingv2.HorizontalPodAutoscaler).DeepCopy()
				changed.Status.CurrentReplicas, changed.Status.DesiredReplicas = replicas, replicas
				w.objects[key] = changed
			})
		}
		time.Sleep(5 * period)
		_, requests := w.questions()
		want(t, "target", requests[0].GetTarget(), "clusters/demo/namespaces/shop/targets/web_shadow")
		w.with(func() { w.load["shop/web"] = 70 })
		time.Sleep(period + time.Second) // the shadow has had its round, the other not
		inCharge(7)
		time.Sleep(5 * period)
		o := w.loop.shadows.Report(time.Now()).Objects[0]
		want(t, "diverged rounds", o.Diverged, 0)
		if o.Agreed < 8 {
			t.Errorf("%d rounds agreed", o.Agreed)
		}
		inCharge(12) // more than there is work for
		time.Sleep(6 * period)
		o = w.loop.shadows.Report(time.Now()).Objects[0]
		want(t, "agrees", o.Agrees, false)
		want(t, "worst", o.Worst, 5)
		want(t, "against", o.Against, "the built-in controller")
		var told []string
		for _, e := range w.events() {
			if strings.HasPrefix(e, "Normal ShadowDiverged 7 here, 12 there; ") {
				told = append(told, e)
			}
		}
		want(t, "events of divergence", len(told), 1)
		want(t, "events", len(w.events()), 1)
		inCharge(7)
		time.Sleep(5 * period)
		inCharge(12)
		time.Sleep(6 * period)
		want(t, "events after a second divergence", len(w.events()), 1)
		want(t, "statuses written", w.written(), 0)
		for _, call := range w.calls() {
			t.Errorf("a shadow does: %s", call)
		}
		w.change(key, func(hpa *autoscalingv2.HorizontalPodAutoscaler) { hpa.Annotations = map[string]string{} })
		settle()
		want(t, "replicas when it is no shadow any more", w.count("shop/web"), 7)
		want(t, "accounts", len(w.loop.shadows.Report(time.Now()).Objects), 0)
	})
}

// While the recommender is away, or refuses, nothing is written to a shadow either.
func TestAShadowIsHeldInSilence(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, period)
		w.settings.shadow = true
		w.workload("shop/web", 3, 50)
		w.fault = func(string, int) error { return errAway }
		key := w.add(evaluatedHPA("shop", "web"))
		time.Sleep(5 * period)
		want(t, "condition", w.able(key), "True ReadyForNewScale")
		want(t, "statuses written", w.written(), 0)
		want(t, "events", len(w.events()), 0)
	})
}
