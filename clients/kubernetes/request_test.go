package kubernetes_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/setpoint-dev/setpoint/clients/kubernetes"
	"github.com/setpoint-dev/setpoint/clients/kubernetes/internal/kubernetestest"
)

const noMetrics = "[]"

func TestRequestNamesTheTarget(t *testing.T) {
	for _, test := range []struct {
		name, cluster, namespace, autoscaler, want, wantErr string
	}{
		{"cluster, namespace and name", "demo", "shop", "web", "clusters/demo/namespaces/shop/targets/web", ""},
		{"a subdomain", "eu.1", "shop", "web.v2", "clusters/eu.1/namespaces/shop/targets/web.v2", ""},
		{"no cluster", "", "shop", "web", "", `cluster "": must be 1 to 253 characters of [A-Za-z0-9._-]`},
		{"no namespace", "demo", "", "web", "", `namespace "": must be`},
		{"a wildcard", "-", "shop", "web", "", `cluster "-": may not be "-"`},
		{"the parent folder", "demo", "shop", "..", "", `name "..": may not be ".."`},
		{"a slash", "a/b", "shop", "web", "", `cluster "a/b": must be`},
		{"too long", "demo", "shop", strings.Repeat("w", 254), "", `name "www`},
	} {
		t.Run(test.name, func(t *testing.T) {
			snapshot := snapshotOf(t, noMetrics)
			snapshot.Autoscaler.Namespace, snapshot.Autoscaler.Name = test.namespace, test.autoscaler
			got, err := snapshot.Request(test.cluster)
			if test.wantErr != "" {
				kubernetestest.CheckError(t, err, test.wantErr)
				return
			}
			if err != nil || got.GetTarget() != test.want {
				t.Errorf("got %q, %v, want %q", got.GetTarget(), err, test.want)
			}
		})
	}
}

// The request has the object's generation, even if the scale can't be read.
func TestRequestCarriesTheGeneration(t *testing.T) {
	for _, failure := range []*kubernetes.ScaleError{nil, {Message: "away"}} {
		snapshot := snapshotOf(t, noMetrics)
		snapshot.Autoscaler.Generation, snapshot.ScaleError = 7, failure
		got, err := snapshot.Request("demo")
		if err != nil || got.Generation == nil || got.GetGeneration() != 7 {
			t.Errorf("got %v, %v, want 7", got.GetGeneration(), err)
		}
	}
}

func TestRequestNeedsAnAutoscalerAndItsScale(t *testing.T) {
	if _, err := (&kubernetes.Snapshot{}).Request("demo"); !errors.Is(err, kubernetes.ErrNoAutoscaler) {
		t.Errorf("got %v, want ErrNoAutoscaler", err)
	}
	snapshot := snapshotOf(t, noMetrics)
	snapshot.Scale = nil
	_, err := snapshot.Request("demo")
	if !errors.Is(err, kubernetes.ErrNoScale) {
		t.Errorf("got %v, want ErrNoScale", err)
	}
	kubernetestest.CheckError(t, err, "no scale of Deployment shop/web")
}

func TestScaleErrorsComeInTheOrderOfTheSteps(t *testing.T) {
	known := func(kind schema.GroupKind) error {
		if kind == (schema.GroupKind{Group: "apps", Kind: "Deployment"}) {
			return nil
		}
		return fmt.Errorf("no matches for kind %q in group %q", kind.Kind, kind.Group)
	}
	notFound := &kubernetes.ScaleError{Message: `deployments.apps "web" not found`}
	for _, test := range []struct {
		name, apiVersion, kind string
		kinds                  func(schema.GroupKind) error
		failure                *kubernetes.ScaleError
		// want is the scale error's JSON, empty for none.
		want string
	}{
		{"read", "apps/v1", "Deployment", known, nil, ""},
		{"the group decides, not the version", "apps/v1beta2", "Deployment", known, nil, ""},
		{"every kind is known by default", "acme.io/v1", "Widget", nil, nil, ""},
		{"an apiVersion that does not parse", "a/b/c", "Widget", known, notFound,
			`{"reason":"InvalidAPIVersion","message":"unexpected GroupVersion string: a/b/c"}`},
		{"a kind that the cluster does not know", "apps/v1", "Widget", known, notFound,
			`{"reason":"UnknownKind","message":"no matches for kind \"Widget\" in group \"apps\""}`},
		{"the kind of another group", "extensions/v1beta1", "Deployment", known, nil,
			`{"reason":"UnknownKind","message":"no matches for kind \"Deployment\" in group \"extensions\""}`},
		{"a scale that can't be read", "apps/v1", "Deployment", known, notFound,
			`{"reason":"FailedGet","message":"deployments.apps \"web\" not found"}`},
		{"a step that the caller took", "apps/v1", "Deployment", nil,
			&kubernetes.ScaleError{Step: kubernetes.UnknownKind, Message: "no matches"}, `{"reason":"UnknownKind","message":"no matches"}`},
		{"no message", "apps/v1", "Deployment", nil, &kubernetes.ScaleError{}, `{"reason":"FailedGet","message":"FailedGet"}`},
	} {
		t.Run(test.name, func(t *testing.T) {
			snapshot := snapshotOf(t, noMetrics)
			snapshot.Autoscaler.Spec.ScaleTargetRef = autoscalingv2.CrossVersionObjectReference{
				APIVersion: test.apiVersion, Kind: test.kind, Name: "web",
			}
			snapshot.Kinds, snapshot.ScaleError = test.kinds, test.failure
			snapshot.Pods = pods(t, `[{metadata: {name: web-a, labels: {app: web}}}]`)
			got := kubernetestest.Request(t, snapshot)
			if test.want == "" {
				kubernetestest.CheckMessage(t, got.GetScale(), `{"specReplicas":3,"statusReplicas":4,"selector":"app=web"}`)
				if got.GetScaleError() != nil || len(got.GetPods()) != 1 {
					t.Errorf("got scale error %v and %d pods, want none and 1", got.GetScaleError(), len(got.GetPods()))
				}
				return
			}
			kubernetestest.CheckMessage(t, got.GetScaleError(), test.want)
			if got.GetScale() != nil || got.GetPods() != nil {
				t.Errorf("got scale %v and pods %v beside the error", got.GetScale(), got.GetPods())
			}
		})
	}
}

func TestStatusReplicasOfZeroAreSent(t *testing.T) {
	snapshot := snapshotOf(t, noMetrics)
	snapshot.Scale.Status.Replicas = 0
	kubernetestest.CheckMessage(t, kubernetestest.Request(t, snapshot).GetScale(), `{"specReplicas":3,"statusReplicas":0,"selector":"app=web"}`)
}

func TestSelectorProblems(t *testing.T) {
	other := func(namespace, name, selector string) kubernetes.OtherAutoscaler {
		return kubernetes.OtherAutoscaler{Namespace: namespace, Name: name, Selector: selector}
	}
	for _, test := range []struct {
		name, selector string
		others         []kubernetes.OtherAutoscaler
		// want is the problem's JSON, empty for none.
		want     string
		wantPods int
	}{
		{"none", "app=web", nil, "", 2},
		{"a set", "app in (web,api),!canary", nil, "", 2},
		{"no selector", "", nil, `{"reason":"SelectorRequired"}`, 0},
		{"one that does not parse", "cheddar cheese", nil,
			`{"reason":"InvalidSelector","message":"unable to parse requirement: found 'cheese', expected: in, notin, =, ==, !=, gt, lt"}`, 0},
		{"another autoscaler selects all pods", "app=web", []kubernetes.OtherAutoscaler{other("shop", "rival", "app=web")},
			`{"reason":"AmbiguousSelector","autoscalers":["shop/rival","shop/web"]}`, 2},
		{"another selects one pod; its namespace is left out", "app=web", []kubernetes.OtherAutoscaler{other("", "zeta", "tier=front")},
			`{"reason":"AmbiguousSelector","autoscalers":["shop/web","shop/zeta"]}`, 2},
		{"several select pods", "app=web", []kubernetes.OtherAutoscaler{other("", "b", "app"), other("", "a", "tier")},
			`{"reason":"AmbiguousSelector","autoscalers":["shop/a","shop/b","shop/web"]}`, 2},
		{"another selects other pods", "app=web", []kubernetes.OtherAutoscaler{other("", "rival", "app=other")}, "", 2},
		{"another of another namespace", "app=web", []kubernetes.OtherAutoscaler{other("staging", "rival", "app=web")}, "", 2},
		{"the autoscaler itself", "app=web", []kubernetes.OtherAutoscaler{other("shop", "web", "app=web")}, "", 2},
		{"another whose scale was never read", "app=web", []kubernetes.OtherAutoscaler{other("", "rival", "")}, "", 2},
		{"another whose selector does not parse", "app=web", []kubernetes.OtherAutoscaler{other("", "rival", "a b")}, "", 2},
		{"no pods", "app=nothing", []kubernetes.OtherAutoscaler{other("", "rival", "app")}, "", 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			snapshot := snapshotOf(t, noMetrics)
			snapshot.Scale.Status.Selector = test.selector
			snapshot.Others = test.others
			snapshot.Pods = pods(t, `
- metadata: {name: web-a, labels: {app: web}}
- metadata: {name: web-b, labels: {app: web, tier: front}}
- metadata: {name: other, labels: {app: other, tier: back}}`)
			got := kubernetestest.Request(t, snapshot)
			if test.want == "" && got.GetSelectorProblem() != nil {
				t.Errorf("got %v, want no problem", got.GetSelectorProblem())
			}
			if test.want != "" {
				kubernetestest.CheckMessage(t, got.GetSelectorProblem(), test.want)
			}
			if len(got.GetPods()) != test.wantPods {
				t.Errorf("got %d pods, want %d", len(got.GetPods()), test.wantPods)
			}
			if got.GetScale().GetSelector() != test.selector {
				t.Errorf("got selector %q, want %q", got.GetScale().GetSelector(), test.selector)
			}
		})
	}
}
