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

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/clients/agent"
	"github.com/setpoint-dev/setpoint/clients/agent/shadow"
	"github.com/setpoint-dev/setpoint/clients/kubernetes"
	v1 "github.com/setpoint-dev/setpoint/clients/kubernetes/autoscaling/v1"
)

// A shadow follows the controller in charge, which the test plays, and changes nothing.
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
		want(t, "target", requests[0].GetTarget(), "clusters/demo/namespaces/shop/targets/web.-shadow")
		w.with(func() { w.load["shop/web"] = 70 })
		time.Sleep(period + time.Second) // the shadow has had its reconcile, the other not
		inCharge(7)
		time.Sleep(5 * period)
		o := w.loop.Shadows().Objects[0]
		want(t, "diverged reconciles", o.Diverged, 0)
		if o.Agreed < 8 {
			t.Errorf("%d reconciles agreed", o.Agreed)
		}
		inCharge(12) // more than the load needs
		time.Sleep(6 * period)
		o = w.loop.Shadows().Objects[0]
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
		want(t, "divergent objects", w.counted("setpoint_agent_shadow_divergent_objects", "", ""), 1)
		w.change(key, func(hpa *autoscalingv2.HorizontalPodAutoscaler) {
			hpa.Annotations = map[string]string{ShadowAnnotation: "treu"}
		})
		time.Sleep(2 * period)
		want(t, "accounts while the annotation is misspelled", len(w.loop.Shadows().Objects), 1)
		w.change(key, func(hpa *autoscalingv2.HorizontalPodAutoscaler) { hpa.Annotations = map[string]string{} })
		settle()
		want(t, "divergent objects when it is no shadow any more", w.counted("setpoint_agent_shadow_divergent_objects", "", ""), 0)
		want(t, "replicas when it is no shadow any more", w.count("shop/web"), 7)
		want(t, "accounts", len(w.loop.Shadows().Objects), 0)
	})
}

// shadowReader is the world's reader for shadows.
type shadowReader struct {
	*world
	forgot bool // guarded by mu
}

func (r *shadowReader) Forget(string, string, types.UID) { r.with(func() { r.forgot = true }) }

// A reader that does not read an object forgets its selector, which would make that of another
// autoscaler of the same pods ambiguous.
func TestAReaderForgetsWhatItReadsNoMore(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, period)
		shadowing := &shadowReader{world: w}
		w.platform.shadowing = shadowing
		w.workload("shop/web", 3, 30)
		key := w.add(evaluatedHPA("shop", "web"))
		for _, tt := range []struct{ shadow, want string }{
			{"true", "acting true, shadowing false"}, {"false", "acting false, shadowing true"}, {"neither", "acting true, shadowing true"},
		} {
			w.change(key, func(hpa *autoscalingv2.HorizontalPodAutoscaler) { hpa.Annotations[ShadowAnnotation] = tt.shadow })
			w.with(func() { w.forgotten, shadowing.forgot = nil, false })
			time.Sleep(2 * period)
			w.with(func() {
				want(t, "forgotten with shadow="+tt.shadow, fmt.Sprintf("acting %v, shadowing %v", len(w.forgotten) > 0, shadowing.forgot), tt.want)
			})
		}
	})
}

// newAutoscaler is newHPA as an Autoscaler.
func newAutoscaler(namespace, name string) *v1.Autoscaler {
	return &v1.Autoscaler{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec:       v1.AutoscalerSpec{HorizontalPodAutoscalerSpec: newHPA(namespace, name).Spec},
	}
}

// A shadow that can't read its metric wants nothing, rather than 0 replicas; a divergence after
// that is reported, and again after the next such time.
func TestAShadowThatCannotReadHasNoOpinion(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, period)
		w.workload("shop/web", 3, 50)
		w.unread = true
		a := newAutoscaler("shop", "web")
		a.Spec.Shadow = true
		key := w.add(a)
		reconciles := func(n int) { time.Sleep(time.Duration(n)*period + time.Second) }
		report := func() shadow.Object { return w.loop.Shadows().Objects[0] }
		reconciles(8)
		o := report()
		want(t, "reconciles judged without the metric", o.Agreed+o.Diverged, 0)
		if o.Unjudged < 7 || !strings.HasPrefix(o.NoOpinion, "here: FailedGetExternalMetric: ") {
			t.Errorf("%d not judged: %s", o.Unjudged, o.NoOpinion)
		}
		want(t, "events without the metric", len(w.events()), 0)
		want(t, "explanation", strings.HasPrefix(w.autoscaler(key).Status.Explanation, "A shadow, which can't decide: FailedGetExternalMetric: "), true)
		w.with(func() { w.unread = false })
		reconciles(6)
		want(t, "events of the first difference", len(w.events()), 1)
		want(t, "agrees", report().Agrees, false)
		w.with(func() { w.unread = true })
		reconciles(3)
		want(t, "agrees while there is no opinion", report().Agrees, true)
		w.with(func() { w.unread = false })
		reconciles(6)
		want(t, "events of the first difference after that", len(w.events()), 2)
		for _, e := range w.events() {
			if !strings.HasPrefix(e, "Normal ShadowDiverged 5 here, 3 there; ") {
				t.Error(e)
			}
		}
		want(t, "the worst", report().Worst, 2)
	})
}

// A shadow that gets no decision is in the report, with the reason, which an Autoscaler's status shows, too.
func TestAShadowWithoutDecisionsSaysWhy(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name, why string
		begin     func(w *world, a *v1.Autoscaler)
	}{
		{"a member of a fleet", "InvalidObject: a member of a fleet can't be a shadow", func(_ *world, a *v1.Autoscaler) { a.Spec.Fleet = fleetName }},
		{"invalid", "InvalidObject: spec: it is broken", func(_ *world, a *v1.Autoscaler) { a.Spec.Unreadable = "it is broken" }},
		{"the service is away", "RecommenderUnavailable: the recommender has been unavailable since ", func(w *world, _ *v1.Autoscaler) {
			w.fault = func(string, int) error { return errAway }
		}},
		{"the service refuses", "RecommendationRefused: the recommender refused to decide: no right", func(w *world, _ *v1.Autoscaler) {
			w.fault = func(string, int) error { return status.Error(codes.PermissionDenied, "no right") }
		}},
		{"the cluster is not read", "no pods", func(w *world, _ *v1.Autoscaler) { w.readErr = errors.New("no pods") }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, period)
				w.workload("shop/web", 3, 50)
				a := newAutoscaler("shop", "web")
				a.Spec.Shadow = true
				tt.begin(w, a)
				key := w.add(a)
				time.Sleep(6 * period)
				report := w.loop.Shadows().Objects
				if len(report) != 1 || report[0].Unjudged < 3 || !strings.HasPrefix(report[0].NoOpinion, "here: "+tt.why) {
					t.Errorf("the report is %+v, want that it says %q", report, tt.why)
				}
				if shown := w.autoscaler(key).Status.Explanation; w.readErr == nil && !strings.HasPrefix(shown, "A shadow, which can't decide: "+tt.why) {
					t.Errorf("explanation %q, want that it says %q", shown, tt.why)
				}
				if n := w.written(); n > 2 { // the service refuses to answer at first, then to decide
					t.Errorf("%d statuses are written", n)
				}
			})
		})
	}
}

// A decision that the controller in charge could not make is no divergence.
func TestTheOpinionOfAStatus(t *testing.T) {
	t.Parallel()
	status := func(able, active string) *autoscalingv2.HorizontalPodAutoscalerStatus {
		s := &autoscalingv2.HorizontalPodAutoscalerStatus{}
		for kind, text := range map[autoscalingv2.HorizontalPodAutoscalerConditionType]string{autoscalingv2.AbleToScale: able, autoscalingv2.ScalingActive: active} {
			if is, reason, ok := strings.Cut(text, " "); ok {
				s.Conditions = append(s.Conditions, autoscalingv2.HorizontalPodAutoscalerCondition{Type: kind, Status: corev1.ConditionStatus(is), Reason: reason, Message: "m"})
			}
		}
		return s
	}
	for _, tt := range []struct{ name, able, active, want string }{
		{"a decision", "True ReadyForNewScale", "True ValidMetricFound", ""},
		{"a metric that can't be read", "True SucceededGetScale", "False FailedGetResourceMetric", "FailedGetResourceMetric: m"},
		{"no scale", "False FailedGetScale", "True ValidMetricFound", "FailedGetScale: m"},
		{"a count that could not be written is not in the status", "False FailedUpdateScale", "True ValidMetricFound", "FailedUpdateScale: m"},
		{"held by an agent", "False RecommenderUnavailable", "True ValidMetricFound", "RecommenderUnavailable: m"},
		{"a forbidden window is a decision", "False BackoffBoth", "True ValidMetricFound", ""},
		{"switched off is a decision", "True SucceededGetScale", "False ScalingDisabled", ""},
		{"to a bound it goes without metrics", "True SucceededRescale", "False FailedGetResourceMetric", ""},
		{"nothing is known", "", "", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			want(t, "no opinion", agent.SideOf(kubernetes.StatusToProto(status(tt.able, tt.active))).NoOpinion, tt.want)
		})
	}
	o := &object{autoscaler: newHPA("shop", "web")}
	_, side := sideInCharge(o.autoscaler, &kubernetes.Snapshot{}, o)
	want(t, "a controller that has not decided", side.NoOpinion, "it has not decided yet")
	count := func(current, desired, now int32) string {
		decided := status("True ReadyForNewScale", "True ValidMetricFound")
		decided.CurrentReplicas, decided.DesiredReplicas = current, desired
		_, side := sideInCharge(&autoscalingv2.HorizontalPodAutoscaler{Status: *decided}, &kubernetes.Snapshot{Scale: &autoscalingv1.Scale{Spec: autoscalingv1.ScaleSpec{Replicas: now}}}, o)
		return side.NoOpinion
	}
	native := &autoscalingv2.HorizontalPodAutoscaler{Status: *status("True ReadyForNewScale", "True ValidMetricFound")}
	native.ManagedFields = append(wroteStatus(nil, BuiltInManager), statusEntry(fieldManager, time.Now().Add(time.Hour)))
	against, _ := sideInCharge(native, &kubernetes.Snapshot{}, o)
	want(t, "against an agent", against, "the agent that scaled it last")
	native.ManagedFields = []metav1.ManagedFieldsEntry{statusEntry(fieldManager, time.Now().Add(-time.Hour)), statusEntry(BuiltInManager, time.Now())}
	against, _ = sideInCharge(native, &kubernetes.Snapshot{}, o)
	want(t, "against the controller that took over from it", against, "the built-in controller")
	want(t, "a status from before others changed the count", count(40, 40, 4), "it has not decided on the present count yet")
	want(t, "a scale that the workload has", count(4, 6, 6), "")
	want(t, "a scale that was just read", count(4, 6, 4), "")
	_, side = sideInCharge(nil, &kubernetes.Snapshot{}, o)
	want(t, "a count that is not known", side.NoOpinion, "the count is not known")
}

// kubectl shows an Autoscaler with spec.shadow; one that another agent may act for is not
// changed.
func TestAShadowIsShown(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name           string
		shadow, all    bool
		shown, targets string
	}{
		{"a shadow by its spec", true, false, "Deployment/web, A shadow, which would have 5 replicas.", "16667m/10 (avg)"},
		{"all are shadows", false, true, ", ", ""},
		{"one of its own under an agent of shadows", true, true, ", ", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, period)
				w.settings.shadow = tt.all
				w.workload("shop/web", 3, 50)
				a := newAutoscaler("shop", "web")
				a.Spec.Shadow = tt.shadow
				key := w.add(a)
				settle()
				s := w.autoscaler(key).Status
				want(t, "shown", s.Reference+", "+s.Explanation, tt.shown)
				want(t, "targets", s.Targets, tt.targets)
				want(t, "conditions", len(s.Conditions), 0)
				want(t, "desired replicas", s.DesiredReplicas, 0)
				want(t, "replicas", w.count("shop/web"), 3)
				written := w.written()
				time.Sleep(3 * period)
				want(t, "statuses written while nothing changes", w.written(), written)
				if tt.targets == "" {
					want(t, "statuses written", written, 0)
					return
				}
				w.with(func() { w.load["shop/web"] = 45 })
				time.Sleep(2 * period)
				want(t, "targets of another load", w.autoscaler(key).Status.Targets, "15/10 (avg)")
			})
		})
	}
}

// An object that becomes a shadow is handed back: the conditions that only this service has go, and nothing else
// changes. An agent of shadows alone has no right to that.
func TestAnObjectThatIsHandedBackLosesTheConditionsOfTheService(t *testing.T) {
	t.Parallel()
	for _, dry := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, period)
			w.start(func(o *agent.Options) { o.Shadow = dry })
			w.workload("shop/web", 3, 30)
			hpa := evaluatedHPA("shop", "web")
			hpa.Annotations[ShadowAnnotation] = "true"
			before := hpa.Status.DeepCopy()
			for _, kind := range []autoscalingv2.HorizontalPodAutoscalerConditionType{"Overridden", "MetricFallbackActive", "MetricSuspect", ConflictingController} {
				hpa.Status.Conditions = append(hpa.Status.Conditions, autoscalingv2.HorizontalPodAutoscalerCondition{Type: kind, Status: "True", Reason: "Held"})
			}
			kept := hpa.Status.DeepCopy()
			key := w.add(hpa)
			time.Sleep(3 * period)
			if dry {
				before = kept
			}
			if got := w.hpa(key).Status; !equality.Semantic.DeepEqual(&got, before) {
				t.Errorf("dry %t: the status is %+v, want %+v", dry, got, before)
			}
			want(t, "statuses written", w.written(), map[bool]int{false: 1}[dry])
		})
	}
}

// While the recommender is away, or refuses, nothing is written to a shadow.
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

// The policies of a shadow count the scales of the controller in charge, whichever of the two sees
// the load first.
func TestAShadowCountsTheScalesOfTheControllerInCharge(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name string
		// late: its status shows the scale a reconcile later; other: somebody else changes the count.
		late, other bool
		want        int32
	}{
		{"at once", false, false, 6},
		{"its status is late", true, false, 6},
		{"somebody else changes the count", false, true, 9},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, period)
				w.settings.shadow = true
				w.workload("shop/web", 4, 40)
				hpa := evaluatedHPA("shop", "web")
				least := autoscalingv2.MinChangePolicySelect
				hpa.Spec.Behavior.ScaleUp.SelectPolicy = &least
				hpa.Spec.Behavior.ScaleUp.Policies = []autoscalingv2.HPAScalingPolicy{
					{Type: autoscalingv2.PodsScalingPolicy, Value: 3, PeriodSeconds: 30}, {Type: autoscalingv2.PercentScalingPolicy, Value: 50, PeriodSeconds: 60},
				}
				status := func(hpa *autoscalingv2.HorizontalPodAutoscaler, replicas int32, scaled time.Time) {
					at := metav1.NewTime(scaled)
					hpa.Status.CurrentReplicas, hpa.Status.DesiredReplicas, hpa.Status.LastScaleTime = replicas, replicas, &at
				}
				status(hpa, 4, time.Now().Add(-time.Hour))
				hpa.CreationTimestamp = metav1.NewTime(time.Now().Add(-time.Hour))
				key := w.add(hpa)
				shows := func(replicas int32) {
					w.with(func() {
						changed := w.objects[key].(*autoscalingv2.HorizontalPodAutoscaler).DeepCopy()
						status(changed, replicas, time.Now())
						w.objects[key] = changed
					})
				}
				time.Sleep(3*period + period/2)
				w.with(func() { w.load["shop/web"], w.replicas["shop/web"] = 400, 6 })
				if !tt.late && !tt.other {
					shows(6)
				}
				time.Sleep(period)
				if tt.late {
					shows(6)
				}
				time.Sleep(period)
				o := w.loop.Shadows().Objects[0]
				want(t, "count within the period of the policies", o.Ours.Replicas, tt.want)
				want(t, "differences that were judged", o.Diverged, 0)
				time.Sleep(60 * time.Second)
				want(t, "count after it", w.loop.Shadows().Objects[0].Ours.Replicas, 9)
			})
		})
	}
}

// Where the history of a shadow is younger than the scale, the report says so.
func TestAShadowTellsOfAScaleBeforeItsHistory(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, period)
		w.settings.shadow = true
		w.workload("shop/web", 6, 400)
		hpa := evaluatedHPA("shop", "web")
		hpa.Spec.Behavior.ScaleUp.Policies = []autoscalingv2.HPAScalingPolicy{{Type: autoscalingv2.PercentScalingPolicy, Value: 50, PeriodSeconds: 600}}
		at := metav1.Now()
		hpa.Status.CurrentReplicas, hpa.Status.DesiredReplicas, hpa.Status.LastScaleTime = 6, 6, &at
		hpa.CreationTimestamp = metav1.NewTime(time.Now().Add(-time.Hour))
		w.add(hpa)
		time.Sleep(6 * period)
		d := w.loop.Shadows().Objects[0].Divergences
		if len(d) != 1 || !strings.Contains(d[0].Explanation, "9 here, 6 there") || !strings.Contains(d[0].Explanation, "the scale there of "+at.UTC().Format(time.RFC3339)+" is older than the history here") {
			t.Errorf("%+v", d)
		}
	})
}

// inCharge plays the controller in charge, whose status shows the count and when it scaled to it.
func (w *world) inCharge(key Key, replicas int32) {
	w.with(func() {
		changed := w.objects[key].(*autoscalingv2.HorizontalPodAutoscaler).DeepCopy()
		at := metav1.Now()
		changed.Status.CurrentReplicas, changed.Status.DesiredReplicas, changed.Status.LastScaleTime = replicas, replicas, &at
		zero := autoscalingv2.HorizontalPodAutoscalerCondition{Type: "ScaledToZero", Status: "True", Reason: "ScaledToZero", LastTransitionTime: at}
		if replicas > 0 {
			zero.Status, zero.Reason = "False", "NotScaledToZero"
		}
		changed.Status.Conditions = append(slices.DeleteFunc(changed.Status.Conditions, func(c autoscalingv2.HorizontalPodAutoscalerCondition) bool { return c.Type == zero.Type }), zero)
		w.objects[key], w.replicas[key.Namespace+"/"+key.Name] = changed, replicas
	})
}

// The window of a shadow that was away begins anew with the present count, and not with the one before the
// scale of the controller in charge that it missed.
func TestAShadowThatWasAwayBeginsItsWindowWithThePresentCount(t *testing.T) {
	t.Parallel()
	const window = 300 * time.Second
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, period)
		w.settings.shadow = true
		w.workload("shop/web", 3, 30)
		hpa := evaluatedHPA("shop", "web")
		hpa.Spec.Behavior.ScaleDown.StabilizationWindowSeconds = new(int32(window.Seconds()))
		hpa.CreationTimestamp = metav1.NewTime(time.Now().Add(-time.Hour))
		key := w.add(hpa)
		ours := func() int32 {
			side := w.loop.Shadows().Objects[0].Ours
			if side.NoOpinion != "" {
				return -1
			}
			return side.Replicas
		}
		for _, step := range []struct {
			phase string
			do    func()
			lasts time.Duration
			want  int32
		}{
			{"both agree", func() {}, 5*period + period/2, 3},
			{"the service is away", func() { w.with(func() { w.fault = func(string, int) error { return errAway } }) }, window + 5*period, -1},
			{"it is back after a scale, and the load is gone", func() {
				w.inCharge(key, 9)
				w.with(func() { w.fault, w.load["shop/web"] = nil, 40 })
			}, 2 * period, 9},
			{"within the window", func() {}, window - 3*period, 9},
			{"after it", func() {}, 2 * period, 4},
		} {
			step.do()
			time.Sleep(step.lasts)
			want(t, step.phase, ours(), step.want)
		}
	})
}

// allowingZero is a service with --scale-to-zero.
type allowingZero struct {
	setpointv1.RecommendationServiceServer
}

func (s allowingZero) Recommend(ctx context.Context, req *setpointv1.RecommendRequest) (*setpointv1.RecommendResponse, error) {
	req = proto.CloneOf(req)
	if req.Options == nil {
		req.Options = &setpointv1.RecommendOptions{}
	}
	req.Options.ScaleToZero = new(true)
	return s.RecommendationServiceServer.Recommend(ctx, req)
}

// Where the controller in charge scaled to zero, a shadow knows that it may scale up again, and decides when;
// where somebody else switched scaling off, it does not.
func TestAShadowKnowsWhoScaledToZero(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name string
		// native reports whether the controller scaled to zero; restarted, whether the agent was restarted since.
		native, restarted bool
		want              int32
	}{
		{"the controller in charge", true, false, 3},
		{"the controller in charge, while the agent was away", true, true, 3},
		{"somebody else", false, false, 0},
		{"somebody else, while the agent was away", false, true, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, period)
				w.settings.shadow = true
				w.service = allowingZero{w.service}
				w.workload("shop/web", 3, 30)
				hpa := evaluatedHPA("shop", "web")
				hpa.Spec.MinReplicas = new(int32)
				hpa.Spec.Behavior.ScaleDown.StabilizationWindowSeconds = new(int32(600)) // the shadow's own window holds the count
				hpa.CreationTimestamp = metav1.NewTime(time.Now().Add(-time.Hour))
				key := w.add(hpa)
				time.Sleep(3*period + period/2)
				if tt.restarted {
					w.halt()
				}
				w.with(func() { w.load["shop/web"] = 0 })
				if tt.native {
					w.inCharge(key, 0)
				} else {
					w.with(func() { w.replicas["shop/web"] = 0 })
				}
				if tt.restarted {
					w.halt = nil
					w.start(func(*agent.Options) {})
					w.add(w.hpa(key))
				}
				time.Sleep(3 * period)
				want(t, "count without load", w.loop.Shadows().Objects[0].Ours.Replicas, 0)
				w.with(func() { w.load["shop/web"] = 30 })
				time.Sleep(2 * period)
				want(t, "count with load", w.loop.Shadows().Objects[0].Ours.Replicas, tt.want)
			})
		})
	}
}
