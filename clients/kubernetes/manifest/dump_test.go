package manifest_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	autoscalingv2 "k8s.io/api/autoscaling/v2"

	"github.com/setpoint-dev/setpoint/clients/kubernetes"
	"github.com/setpoint-dev/setpoint/clients/kubernetes/internal/kubernetestest"
	"github.com/setpoint-dev/setpoint/clients/kubernetes/manifest"
	"github.com/setpoint-dev/setpoint/internal/fatal"
)

// shop reads kubectl's dump of the shop, a file for each part.
func shop(t testing.TB) *manifest.Dump {
	t.Helper()
	dump := &manifest.Dump{}
	mustRead(t, dump, "shop/hpa.yaml", manifest.Autoscalers)
	mustRead(t, dump, "shop/deployment.json", manifest.Scales)
	mustRead(t, dump, "shop/pods.json", manifest.Pods)
	mustRead(t, dump, "shop/podmetrics.json", manifest.PodMetrics)
	mustRead(t, dump, "shop/custom.json", manifest.CustomMetrics)
	mustRead(t, dump, "shop/external.json", manifest.ExternalMetrics)
	return dump
}

// snapshotFrom returns the snapshot of the dump's autoscaler of that name.
func snapshotFrom(t testing.TB, dump *manifest.Dump, autoscaler string) *kubernetes.Snapshot {
	t.Helper()
	snapshot, err := dump.Snapshot(autoscaler)
	fatal.If(t, err)
	return snapshot
}

func TestFilesOfKubectlBecomeARequest(t *testing.T) {
	got := kubernetestest.Request(t, snapshotFrom(t, shop(t), ""))

	kubernetestest.CheckMessage(t, got.GetScale(), `{"specReplicas":3,"statusReplicas":4,"selector":"app=web,tier in (edge,front)"}`)
	kubernetestest.CheckMessages(t, got.GetPods(),
		`{"name":"web-7c9d5f6b8-2xk9d","phase":"Running","startTime":"2026-03-02T06:41:03Z",
		  "ready":{"status":"True","lastTransitionTime":"2026-03-02T06:41:19Z"},
		  "containers":[{"name":"app","requests":{"cpu":"500m","memory":"268435456"}}],
		  "initContainers":[{"name":"migrate","requests":{"cpu":"2"}},{"name":"proxy","restartable":true,"requests":{"cpu":"50m","memory":"64Mi"}}]}`,
		`{"name":"web-7c9d5f6b8-7h2lm","phase":"Running","startTime":"2026-03-01T11:02:40Z","deleting":true,
		  "ready":{"status":"False","lastTransitionTime":"2026-03-02T09:00:02Z"},
		  "resources":{"requests":{"cpu":"1","memory":"1Gi"}},"overhead":{"cpu":"250m","memory":"120Mi"},
		  "containers":[{"name":"app","requests":{"cpu":"500m"}}]}`,
		`{"name":"web-7c9d5f6b8-pw8zv","phase":"Pending","containers":[{"name":"app"}]}`)
	kubernetestest.CheckMessages(t, got.GetPodMetrics(),
		`{"pod":"web-7c9d5f6b8-2xk9d","timestamp":"2026-03-02T08:59:51Z","windowSeconds":15.417,"containers":[
			{"name":"app","usage":{"cpu":"291457123n","memory":"190128Ki"}},{"name":"proxy","usage":{"cpu":"4103920n","memory":"20Mi"}}]}`,
		`{"pod":"web-7c9d5f6b8-7h2lm","timestamp":"2026-03-02T08:59:47Z","windowSeconds":16,"containers":[{"name":"app","usage":{"cpu":"0","memory":"180Mi"}}]}`)
	kubernetestest.CheckMessages(t, got.GetCustomMetrics(),
		`{"metric":{"name":"requests_per_second"},"describedObject":{"kind":"Pod","name":"web-7c9d5f6b8-2xk9d","apiVersion":"v1"},"timestamp":"2026-03-02T08:59:58Z","value":"133300m"}`,
		`{"metric":{"name":"requests_per_second"},"describedObject":{"kind":"Pod","name":"web-7c9d5f6b8-gone1","apiVersion":"v1"},"timestamp":"2026-03-02T08:59:30Z","value":"80"}`,
		`{"metric":{"name":"quota_used"},"describedObject":{"kind":"Namespace","name":"shop","apiVersion":"v1"},"timestamp":"2026-03-02T08:59:58Z","windowSeconds":60,"value":"41"}`)
	kubernetestest.CheckMessages(t, got.GetExternalMetrics(),
		`{"metric":{"name":"queue_depth"},"labels":{"queue":"orders","shard":"a"},"timestamp":"2026-03-02T08:59:59Z","value":"61"}`,
		`{"metric":{"name":"queue_depth"},"labels":{"queue":"mails"},"timestamp":"2026-03-02T08:59:59Z","value":"1200"}`)
	if got.GetTarget() != "clusters/demo/namespaces/shop/targets/web" || got.GetPreviousStatus().GetDesiredReplicas() != 3 {
		t.Errorf("got target %s with previous status %v", got.GetTarget(), got.GetPreviousStatus())
	}
	if got.GetSelectorProblem() != nil || got.GetScaleError() != nil || got.GetMetricErrors() != nil {
		t.Errorf("got problems: %v, %v, %v", got.GetSelectorProblem(), got.GetScaleError(), got.GetMetricErrors())
	}
}

func TestOneFileMayHoldEverything(t *testing.T) {
	var dump manifest.Dump
	mustRead(t, &dump, "shop/dump.yaml")
	want := []string{
		"dump.yaml: document 1: items[4]: Service (v1) shop/web",
		"dump.yaml: document 3: Node (v1) node-3",
	}
	if !slices.Equal(dump.Ignored, want) {
		t.Errorf("ignored %q, want %q", dump.Ignored, want)
	}
	got := kubernetestest.Request(t, snapshotFrom(t, &dump, "shop/web"))
	kubernetestest.CheckMessage(t, got.GetScale(), `{"specReplicas":1,"statusReplicas":0,"selector":"app=web"}`)
	kubernetestest.CheckMessages(t, got.GetPods(), `{"name":"web-0","phase":"Running","startTime":"2026-03-02T08:00:00Z",
		"containers":[{"name":"app","requests":{"memory":"256Mi"}}]}`)
	kubernetestest.CheckMessage(t, got.GetSelectorProblem(), `{"reason":"AmbiguousSelector","autoscalers":["shop/rival","shop/web"]}`)
}

func TestTheAutoscalerIsChosenByName(t *testing.T) {
	var dump manifest.Dump
	mustRead(t, &dump, "shop/dump.yaml")
	for _, test := range []struct{ name, reference, want, wantErr string }{
		{"namespace and name", "shop/rival", "rival", ""},
		{"name", "rival", "rival", ""},
		{"none of several", "", "", "several HorizontalPodAutoscalers to choose from: shop/web, shop/rival"},
		{"one that is not there", "shop/api", "", `no HorizontalPodAutoscaler "shop/api"`},
	} {
		t.Run(test.name, func(t *testing.T) {
			got, err := dump.Snapshot(test.reference)
			if test.wantErr != "" {
				kubernetestest.CheckError(t, err, test.wantErr)
				return
			}
			if err != nil || got.Autoscaler.Name != test.want {
				t.Errorf("got %v, %v, want %s", got, err, test.want)
			}
		})
	}
	for range 20 {
		dump.Autoscalers = append(dump.Autoscalers, dump.Autoscalers[0])
	}
	_, err := dump.Snapshot("")
	if !errors.Is(err, manifest.ErrSeveralAutoscalers) || !strings.HasSuffix(err.Error(), "shop/web and 12 more") {
		t.Errorf("of 22 got %v", err)
	}
	if _, err := (&manifest.Dump{}).Snapshot(""); !errors.Is(err, kubernetes.ErrNoAutoscaler) {
		t.Errorf("of an empty dump got %v, want ErrNoAutoscaler", err)
	}
}

func TestWhatStandsInForTheScale(t *testing.T) {
	const named = `{"apiVersion":"autoscaling/v1","kind":"Scale","metadata":{"name":"web","namespace":"shop"},"spec":{"replicas":5},"status":{"replicas":5,"selector":"named=1"}}`
	const other = `{"apiVersion":"autoscaling/v1","kind":"Scale","metadata":{"name":"api","namespace":"shop"},"status":{"replicas":1,"selector":"other=1"}}`
	const nameless = `{"apiVersion":"autoscaling/v1","kind":"Scale","spec":{"replicas":6},"status":{"replicas":6,"selector":"nameless=1"}}`
	const workload = `{"apiVersion":"%s","kind":"%s","metadata":{"name":"web","namespace":"%s"},"spec":{"selector":{"matchLabels":{"workload":"1"}}}}`
	deployment := strings.NewReplacer("%s\",\"kind", "apps/v1\",\"kind", "%s\",\"metadata", "Deployment\",\"metadata", "\"%s\"}", "\"shop\"}").Replace(workload)
	for _, test := range []struct {
		name string
		dump []string
		// want is the selector of the scale, "none" for no scale.
		want, wantErr string
	}{
		{"a Scale of its name", []string{other, named}, "named=1", ""},
		{"the workload", []string{deployment}, "workload=1", ""},
		{"a Scale wins over the workload", []string{deployment, named}, "named=1", ""},
		{"so does one without a name", []string{deployment, nameless}, "nameless=1", ""},
		{"a Scale of its name wins over one without", []string{nameless, named}, "named=1", ""},
		{"not a workload of another kind", []string{strings.Replace(deployment, "Deployment", "StatefulSet", 1)}, "none", ""},
		{"not a workload of another namespace", []string{strings.Replace(deployment, "shop", "staging", 1)}, "none", ""},
		{"not a Scale of another name", []string{other}, "none", ""},
		{"a workload without a selector", []string{`{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"web"}}`}, "", ""},
		{"several Scales of its name", []string{named, named}, "", "2 Scales could be that of shop/web"},
	} {
		t.Run(test.name, func(t *testing.T) {
			var dump manifest.Dump
			mustRead(t, &dump, "shop/hpa.yaml")
			fatal.If(t, dump.Read("dump.json", strings.NewReader(strings.Join(test.dump, "\n")), manifest.Scales))
			snapshot, err := dump.Snapshot("web")
			if test.wantErr != "" {
				kubernetestest.CheckError(t, err, test.wantErr)
				return
			}
			got := "none"
			if err == nil && snapshot.Scale != nil {
				got = snapshot.Scale.Status.Selector
			}
			if err != nil || got != test.want {
				t.Errorf("got %q, %v, want %q", got, err, test.want)
			}
		})
	}
}

func TestReplicationControllersSelectByEquality(t *testing.T) {
	var dump manifest.Dump
	err := dump.Read("dump.yaml", strings.NewReader(`
apiVersion: v1
kind: ReplicationController
metadata: {name: web, namespace: shop}
spec: {replicas: 0, selector: {b: "2", a: "1"}}
status: {replicas: 2}
---
`+autoscalerYAML("autoscaling/v2", "")))
	fatal.If(t, err)
	dump.Autoscalers[0].Spec.ScaleTargetRef.Kind = "ReplicationController"
	dump.Autoscalers[0].Spec.ScaleTargetRef.APIVersion = "v1"
	got := kubernetestest.Request(t, snapshotFrom(t, &dump, ""))
	kubernetestest.CheckMessage(t, got.GetScale(), `{"specReplicas":0,"statusReplicas":2,"selector":"a=1,b=2"}`)
}

func TestNamelessScalesAreNotThoseOfOtherAutoscalers(t *testing.T) {
	var dump manifest.Dump
	mustRead(t, &dump, "shop/hpa.yaml")
	mustRead(t, &dump, "shop/pods.json")
	err := dump.Read("more.yaml", strings.NewReader(strings.ReplaceAll(autoscalerYAML("autoscaling/v2", ""), "name: web", "name: api")+
		"\n---\n{apiVersion: autoscaling/v1, kind: Scale, spec: {replicas: 3}, status: {replicas: 3, selector: app=web}}"))
	fatal.If(t, err)
	if got := kubernetestest.Request(t, snapshotFrom(t, &dump, "web")); got.GetSelectorProblem() != nil {
		t.Errorf("got %v, want no problem", got.GetSelectorProblem())
	}
}

func TestBareManifestsAreInTheNamespaceGiven(t *testing.T) {
	bare := strings.Replace(autoscalerYAML("autoscaling/v2", ""), ", namespace: shop", "", 1)
	for _, test := range []struct{ namespace, want string }{{"", "default"}, {"shop", "shop"}} {
		dump := manifest.Dump{Namespace: test.namespace}
		fatal.If(t, dump.Read("hpa.yaml", strings.NewReader(bare)))
		if got := dump.Autoscalers[0].Namespace; got != test.want {
			t.Errorf("with %q got %s, want %s", test.namespace, got, test.want)
		}
	}
}

func TestFilesOfTheWrongKindAreRefused(t *testing.T) {
	for _, test := range []struct {
		name, file string
		part       manifest.Part
		want       []string
	}{
		{"services for pods", "shop/services.json", manifest.Pods,
			[]string{"services.json: items[0]: expected Pod (v1), found Service (v1)", "services.json: items[1]: expected Pod (v1), found Service (v1)"}},
		{"pods for pod metrics", "shop/pods.json", manifest.PodMetrics,
			slices.Repeat([]string{"pods.json: items["}, 5)},
		{"pod metrics for pods", "shop/podmetrics.json", manifest.Pods,
			slices.Repeat([]string{"podmetrics.json: items["}, 3)},
		{"external for custom metrics", "shop/external.json", manifest.CustomMetrics,
			slices.Repeat([]string{"external.json: items["}, 3)},
		{"a deployment for an autoscaler", "shop/deployment.json", manifest.Autoscalers,
			[]string{"deployment.json: expected HorizontalPodAutoscaler (autoscaling/v2), found Deployment (apps/v1)"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			var dump manifest.Dump
			kubernetestest.CheckError(t, readFile(t, &dump, test.file, test.part), test.want...)
		})
	}
}

func TestReadNamesTheItem(t *testing.T) {
	const pod = `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"web-a","namespace":"shop"}}`
	for _, test := range []struct {
		name, text string
		parts      []manifest.Part
		want       []string
	}{
		{"an empty list is fine", `{"apiVersion":"v1","kind":"List","items":[]}`, []manifest.Part{manifest.Pods}, nil},
		{"items of null are none", `{"apiVersion":"v1","kind":"PodList","items":null}`, []manifest.Part{manifest.Pods}, nil},
		{"items that are no list", `{"apiVersion":"v1","kind":"PodList","items":{}}`, nil,
			[]string{"dump.json: items: json: cannot unmarshal object"}},
		{"an item of null", `{"apiVersion":"v1","kind":"List","items":[null]}`, nil,
			[]string{"dump.json: items[0]: expected a Kubernetes object, found null"}},
		{"an item without kind in a List", `{"apiVersion":"v1","kind":"List","items":[{"metadata":{}}]}`, nil,
			[]string{"dump.json: items[0]: expected a Kubernetes object, found an object without apiVersion and kind"}},
		{"a malformed pod", `{"apiVersion":"v1","kind":"PodList","items":[{"spec":{"containers":[{"resources":{"requests":{"cpu":"lots"}}}]}}]}`, nil,
			[]string{`dump.json: items[0]: spec.containers[0].resources.requests.cpu: "lots" is not a quantity`}},
		{"a malformed time", `{"apiVersion":"v1","kind":"PodList","items":[{"status":{"startTime":"yesterday"}}]}`, nil,
			[]string{`dump.json: items[0]: parsing time "yesterday"`}},
		{"a pod listed twice", `{"apiVersion":"v1","kind":"List","items":[` + pod + `,` + pod + `]}`, nil,
			[]string{`dump.json: items[1]: the pod "shop/web-a" is listed before, at dump.json: items[0]`}},
		{"values one after the other", pod + "\n{\"apiVersion\":\"v1\",\"kind\":\"Pod\"}x", nil,
			[]string{"dump.json: document 3: line 2: invalid character 'x'"}},
		{"the second of two values", pod + "\n{\"apiVersion\":\"v1\"}", nil,
			[]string{"dump.json: document 2: expected a Kubernetes object, found an object of v1 without kind"}},
		{"an autoscaler of the future is missed", `{"apiVersion":"autoscaling/v3","kind":"HorizontalPodAutoscaler"}`, nil,
			[]string{"dump.json: expected HorizontalPodAutoscaler (autoscaling/v2), found HorizontalPodAutoscaler (autoscaling/v3)"}},
		{"an own autoscaler of the future, too", `{"apiVersion":"autoscaling.setpoint.dev/v2","kind":"Autoscaler"}`, nil,
			[]string{"dump.json: expected Autoscaler (autoscaling.setpoint.dev/v1), found Autoscaler (autoscaling.setpoint.dev/v2)"}},
		{"one in the group of the others", `{"apiVersion":"autoscaling/v2","kind":"Autoscaler"}`, nil,
			[]string{"dump.json: expected Autoscaler (autoscaling.setpoint.dev/v1), found Autoscaler (autoscaling/v2)"}},
		{"one in half its group", `{"apiVersion":"setpoint.dev/v1","kind":"Autoscaler"}`, nil,
			[]string{"dump.json: expected Autoscaler (autoscaling.setpoint.dev/v1), found Autoscaler (setpoint.dev/v1)"}},
		{"one of somebody else's", `{"apiVersion":"example.com/v1","kind":"Autoscaler"}`, nil, nil},
		{"one of several parts", pod, []manifest.Part{manifest.Scales, manifest.PodMetrics},
			[]string{"dump.json: expected Scale (autoscaling/v1) or PodMetrics (metrics.k8s.io/v1beta1), found Pod (v1)"}},
		{"a workload whose selector is malformed", `{"apiVersion":"apps/v1","kind":"Deployment","spec":{"selector":{"matchExpressions":[{"key":"a","operator":"Near"}]}}}`, nil,
			[]string{`dump.json: "Near" is not a valid label selector operator`}},
	} {
		t.Run(test.name, func(t *testing.T) {
			dump := manifest.Dump{Own: true}
			kubernetestest.CheckError(t, dump.Read("dump.json", strings.NewReader(test.text), test.parts...), test.want...)
		})
	}
}

func TestCustomMetricsOfADump(t *testing.T) {
	for _, test := range []struct {
		name, metrics string
		want          []string
	}{
		{"values of pods that are not selected are left out",
			`[{type: Pods, pods: {metric: {name: rps}, target: {type: AverageValue, averageValue: "1"}}}]`, []string{"web-7c9d5f6b8-pw8zv", "unlisted"}},
		{"unless an Object metric describes the pod",
			`[{type: Object, object: {describedObject: {kind: Pod, name: worker-0}, metric: {name: rps}, target: {type: Value, value: "1"}}}]`, []string{"worker-0"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			dump := shop(t)
			dump.Autoscalers[0].Spec.Metrics = kubernetestest.FromYAML[[]autoscalingv2.MetricSpec](t, test.metrics)
			err := dump.Read("rps.yaml", strings.NewReader(`
apiVersion: custom.metrics.k8s.io/v1beta2
kind: MetricValueList
items:
- {metric: {name: rps}, describedObject: {kind: Pod, name: worker-0, namespace: shop, apiVersion: v1}, value: "1"}
- {metric: {name: rps}, describedObject: {kind: Pod, name: web-7c9d5f6b8-pw8zv, namespace: shop, apiVersion: v1}, value: "1"}
- {metric: {name: rps}, describedObject: {kind: Pod, name: unlisted, namespace: shop, apiVersion: v1}, value: "1"}`))
			fatal.If(t, err)
			var got []string
			for _, value := range kubernetestest.Request(t, snapshotFrom(t, dump, "")).GetCustomMetrics() {
				got = append(got, value.GetDescribedObject().GetName())
			}
			if !slices.Equal(got, test.want) {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}
