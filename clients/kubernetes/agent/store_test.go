package agent

import (
	"fmt"
	"testing"
	"time"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	v1 "github.com/setpoint-dev/setpoint/clients/kubernetes/autoscaling/v1"
	"github.com/setpoint-dev/setpoint/internal/fatal"
)

// autoscaler scales the Deployment target; more minutes make it older.
func autoscaler(name, target string, minutes int) *v1.Autoscaler {
	a := &v1.Autoscaler{ObjectMeta: metav1.ObjectMeta{
		Namespace: "shop", Name: name, UID: types.UID(name),
		CreationTimestamp: metav1.NewTime(time.Unix(1_700_000_000, 0).Add(-time.Duration(minutes) * time.Minute)),
	}}
	a.Spec.HorizontalPodAutoscalerSpec = newHPA("shop", target).Spec
	return a
}

func TestRivals(t *testing.T) {
	t.Parallel()
	hpa := func(name, target string) *autoscalingv2.HorizontalPodAutoscaler {
		hpa := newHPA("shop", name)
		hpa.Spec.ScaleTargetRef.Name = target
		return hpa
	}
	otherNamespace := hpa("web", "web")
	otherNamespace.Namespace = "bank"
	otherKind := hpa("set", "web")
	otherKind.Spec.ScaleTargetRef.Kind = "StatefulSet"
	otherVersion := hpa("old", "web")
	otherVersion.Spec.ScaleTargetRef.APIVersion = "apps/v1beta1"
	shadowing := autoscaler("older", "web", 9)
	shadowing.Spec.Shadow = true
	for _, tt := range []struct {
		name   string
		others []client.Object
		want   string
	}{
		{"none", nil, ""},
		{"an HPA of the same workload", []client.Object{hpa("hpa", "web")}, "HorizontalPodAutoscaler shop/hpa scales Deployment shop/web"},
		{"by another version of its API", []client.Object{otherVersion}, "HorizontalPodAutoscaler shop/old scales Deployment shop/web"},
		{"an HPA of the same name", []client.Object{hpa("mine", "api")}, "HorizontalPodAutoscaler shop/mine has its name"},
		{"an HPA of another workload", []client.Object{hpa("hpa", "api")}, ""},
		{"of another namespace", []client.Object{otherNamespace}, ""},
		{"of another kind", []client.Object{otherKind}, ""},
		{"an older Autoscaler", []client.Object{autoscaler("older", "web", 9)}, "Autoscaler shop/older, which is older, scales Deployment shop/web"},
		{"of the same second and an earlier name", []client.Object{autoscaler("ab", "web", 5)}, "Autoscaler shop/ab, which is older, scales Deployment shop/web"},
		{"a younger Autoscaler", []client.Object{autoscaler("younger", "web", 1)}, ""},
		{"an older one that is a shadow", []client.Object{shadowing}, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			scheme, err := newScheme()
			fatal.If(t, err)
			mine := autoscaler("mine", "web", 5)
			cluster := fake.NewClientBuilder().WithScheme(scheme).WithObjects(append(tt.others, mine)...).
				WithIndex(&autoscalingv2.HorizontalPodAutoscaler{}, targetIndex, indexHPA).
				WithIndex(&v1.Autoscaler{}, targetIndex, indexAutoscaler).Build()
			s := &store{client: cluster, settings: settings{period: period}}
			o, err := s.get(t.Context(), Autoscaler.Key("shop", "mine"))
			fatal.If(t, err)
			got, err := s.rival(t.Context(), o)
			fatal.If(t, err)
			want(t, "rival", got, tt.want)
		})
	}
}

func TestSettingsOfObjects(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name             string
		annotations      map[string]string
		shadowed         bool
		period           time.Duration
		shadow           bool
		warning, problem bool
	}{
		{"none", nil, false, period, false, false, false},
		{"a period", map[string]string{SyncPeriodAnnotation: "1s"}, false, time.Second, false, false, false},
		{"the longest period", map[string]string{SyncPeriodAnnotation: "1h"}, false, time.Hour, false, false, false},
		{"a period that is too short", map[string]string{SyncPeriodAnnotation: "999ms"}, false, period, false, true, false},
		{"a period that is too long", map[string]string{SyncPeriodAnnotation: "1h1s"}, false, period, false, true, false},
		{"no period", map[string]string{SyncPeriodAnnotation: "5"}, false, period, false, true, false},
		{"a shadow", map[string]string{ShadowAnnotation: "true"}, false, period, true, false, false},
		{"no shadow", map[string]string{ShadowAnnotation: "false"}, false, period, false, false, false},
		{"no shadow where all are", map[string]string{ShadowAnnotation: "false"}, true, period, true, false, false},
		{"who knows", map[string]string{ShadowAnnotation: ""}, false, period, false, false, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			hpa := newHPA("shop", "web")
			hpa.Annotations = tt.annotations
			o := objectOfHPA(hpa, settings{period: period, shadow: tt.shadowed})
			want(t, "period", o.period, tt.period)
			want(t, "shadow", o.shadow, tt.shadow)
			want(t, "warning", o.warning != nil, tt.warning)
			want(t, "problem", o.problem != nil, tt.problem)
		})
	}
	seconds := int32(5)
	a := autoscaler("mine", "web", 5)
	a.Spec.SyncPeriodSeconds = &seconds
	want(t, "period of an Autoscaler", objectOfAutoscaler(a, settings{period: period}).period, 5*time.Second)
	old := &v1.Autoscaler{Spec: v1.AutoscalerSpec{Options: &v1.Options{Profile: "cooldown"}}}
	byProfile := settings{period: period, periods: map[string]time.Duration{"cooldown": 30 * time.Second}}
	want(t, "period by its profile", objectOfAutoscaler(old, byProfile).period, 30*time.Second)
	want(t, "period where profiles have none", objectOfAutoscaler(old, settings{period: period}).period, period)
	old.Spec.Options.Profile = "v1.36"
	want(t, "period by another profile", objectOfAutoscaler(old, byProfile).period, period)
	old.Spec.Options.Profile, old.Spec.SyncPeriodSeconds = "cooldown", &seconds
	want(t, "period of its own although it has a profile", objectOfAutoscaler(old, byProfile).period, 5*time.Second)
	a.Spec.ScaleTargetRef.Kind = ""
	want(t, "problem of one without a kind", objectOfAutoscaler(a, settings{period: period}).problem != nil, true)
	// A write of the status must not count as a change.
	was, is := newHPA("shop", "web"), newHPA("shop", "web")
	is.Status.DesiredReplicas, is.ResourceVersion, is.Annotations = 7, "9", map[string]string{"x": "y"}
	want(t, "a status is a change", !objectOfHPA(is, settings{}).sameAs(objectOfHPA(was, settings{})), false)
	is.Spec.MaxReplicas++
	want(t, "a spec is a change", !objectOfHPA(is, settings{}).sameAs(objectOfHPA(was, settings{})), true)
	is = newHPA("shop", "web")
	is.Annotations[SyncPeriodAnnotation] = "1s"
	want(t, "a period is a change", !objectOfHPA(is, settings{}).sameAs(objectOfHPA(was, settings{})), true)
}

// One function decides whose pods count, for the agent and for setpoint explain.
// test/e2e/kubernetes tests the agent's use of it.
func TestStandings(t *testing.T) {
	t.Parallel()
	hpa := func(name, target string, annotations ...string) autoscalingv2.HorizontalPodAutoscaler {
		hpa := newHPA("shop", name)
		hpa.Spec.ScaleTargetRef.Name = target
		if len(annotations) > 0 {
			hpa.Annotations[ShadowAnnotation] = annotations[0]
		}
		return *hpa
	}
	own := func(name, target string, minutes int) v1.Autoscaler { return *autoscaler(name, target, minutes) }
	shadow := own("shadow", "web", 7)
	shadow.Spec.Shadow = true
	shadowOfOther := own("other", "api", 7)
	shadowOfOther.Spec.Shadow = true
	broken := own("broken", "api", 1)
	broken.Spec.Unreadable = "metrics: what is this"
	for _, tt := range []struct {
		name        string
		of          client.Object
		hpas        []autoscalingv2.HorizontalPodAutoscaler
		autoscalers []v1.Autoscaler
		waits       string
		counted     string
	}{
		{"an HPA beside an Autoscaler that waits", new(hpa("web", "web")), []autoscalingv2.HorizontalPodAutoscaler{hpa("web", "web")}, []v1.Autoscaler{own("mine", "web", 5)}, "", ""},
		{"that Autoscaler", new(own("mine", "web", 5)), []autoscalingv2.HorizontalPodAutoscaler{hpa("web", "web")}, []v1.Autoscaler{own("mine", "web", 5)}, "HorizontalPodAutoscaler shop/web scales Deployment shop/web", ""},
		{"one of the HPA's name", new(own("web", "web", 5)), []autoscalingv2.HorizontalPodAutoscaler{hpa("web", "web")}, []v1.Autoscaler{own("web", "web", 5)}, "HorizontalPodAutoscaler shop/web has its name", ""},
		{"an HPA beside a shadow", new(hpa("web", "web")), []autoscalingv2.HorizontalPodAutoscaler{hpa("web", "web")}, []v1.Autoscaler{shadow}, "", ""},
		{"that shadow", &shadow, []autoscalingv2.HorizontalPodAutoscaler{hpa("web", "web")}, []v1.Autoscaler{shadow}, "", ""},
		{"a shadow beside shadows", &shadow, []autoscalingv2.HorizontalPodAutoscaler{hpa("web", "web"), hpa("annotated", "api", "true")}, []v1.Autoscaler{shadow, shadowOfOther}, "", "[annotated other]"},
		{"an HPA beside one that is a shadow", new(hpa("web", "web")), []autoscalingv2.HorizontalPodAutoscaler{hpa("web", "web"), hpa("annotated", "web", "true")}, nil, "", ""},
		{"an HPA beside another one", new(hpa("web", "web")), []autoscalingv2.HorizontalPodAutoscaler{hpa("web", "web"), hpa("two", "web")}, nil, "", "[two]"},
		{"an HPA beside Autoscalers that act", new(hpa("web", "web")), []autoscalingv2.HorizontalPodAutoscaler{hpa("web", "web")}, []v1.Autoscaler{own("api", "api", 5), own("younger", "api", 2), broken}, "", "[api]"},
		{"an Autoscaler beside a younger one", new(own("mine", "web", 5)), nil, []v1.Autoscaler{own("mine", "web", 5), own("younger", "web", 2)}, "", ""},
		{"the younger one", new(own("younger", "web", 2)), []autoscalingv2.HorizontalPodAutoscaler{hpa("api", "api")}, []v1.Autoscaler{own("mine", "web", 5), own("younger", "web", 2)}, "Autoscaler shop/mine, which is older, scales Deployment shop/web", "[api]"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			got := StandingOf(tt.of, tt.hpas, tt.autoscalers)
			want(t, "waits", got.Waits, tt.waits)
			var names []string
			for _, other := range got.Counted {
				names = append(names, other.Name)
			}
			counted := ""
			if len(names) > 0 {
				counted = fmt.Sprint(names)
			}
			want(t, "counted", counted, tt.counted)
		})
	}
}

// A status of an agent that did not know the field ready is rewritten once.
func TestAStatusWithoutReadyIsWrittenAnew(t *testing.T) {
	t.Parallel()
	over := autoscaler("mine", "web", 5)
	over.Status.Conditions = []autoscalingv2.HorizontalPodAutoscalerCondition{
		{Type: autoscalingv2.AbleToScale, Status: corev1.ConditionTrue}, {Type: autoscalingv2.ScalingActive, Status: corev1.ConditionTrue},
	}
	update := &statusUpdate{status: statusOf(over).DeepCopy()}
	want(t, "unchanged without ready", unchanged(over, update), false)
	written := withStatus(over, update)
	want(t, "unchanged once it is written", unchanged(written, update), true)
}
