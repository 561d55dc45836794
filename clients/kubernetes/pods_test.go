package kubernetes_test

import (
	"testing"

	"github.com/setpoint-dev/setpoint/clients/kubernetes/internal/kubernetestest"

	corev1 "k8s.io/api/core/v1"
	metricsv1beta1 "k8s.io/metrics/pkg/apis/metrics/v1beta1"
)

// pods reads a list of pods.
func pods(t testing.TB, text string) []*corev1.Pod {
	t.Helper()
	return kubernetestest.FromYAML[[]*corev1.Pod](t, text)
}

func TestPodsAreThoseOfNamespaceAndSelector(t *testing.T) {
	snapshot := snapshotOf(t, noMetrics)
	snapshot.Pods = pods(t, `
- metadata: {name: web-b, namespace: shop, labels: {app: web}}
- metadata: {name: web-a, labels: {app: web, tier: front}}
- metadata: {name: web-c, namespace: staging, labels: {app: web}}
- metadata: {name: api-a, namespace: shop, labels: {app: api}}
- metadata: {name: bare, namespace: shop}`)
	kubernetestest.CheckMessages(t, kubernetestest.Request(t, snapshot).GetPods(), `{"name":"web-b"}`, `{"name":"web-a"}`)
}

func TestPodFacts(t *testing.T) {
	for _, test := range []struct{ name, pod, want string }{
		{"nothing but a name", ``, `{}`},
		{"a phase", `status: {phase: Succeeded}`, `{"phase":"Succeeded"}`},
		{"a phase that nobody knows counts as none", `status: {phase: Dreaming}`, `{}`},
		{"a start", `status: {startTime: "2026-03-02T10:00:00+02:00"}`, `{"startTime":"2026-03-02T08:00:00Z"}`},
		{"a start in the year 1 is one", `status: {startTime: "0001-01-01T00:00:00Z"}`, `{"startTime":"0001-01-01T00:00:00Z"}`},
		{"a start before the year 1 is moved there", `status: {startTime: "0001-01-01T00:00:00+10:00"}`, `{"startTime":"0001-01-01T00:00:00Z"}`},
		{"being deleted", `{metadata: {deletionTimestamp: "2026-03-02T08:00:00Z"}}`, `{"deleting":true}`},
		{"the first Ready condition counts", `status: {conditions: [
			{type: Initialized, status: "True", lastTransitionTime: "2026-03-02T08:00:01Z"},
			{type: Ready, status: "False", lastTransitionTime: "2026-03-02T08:00:02Z"},
			{type: Ready, status: "True", lastTransitionTime: "2026-03-02T08:00:03Z"}]}`,
			`{"ready":{"status":"False","lastTransitionTime":"2026-03-02T08:00:02Z"}}`},
		{"no transition time stays absent", `status: {conditions: [{type: Ready, status: "True"}]}`, `{"ready":{"status":"True"}}`},
		{"a status that is neither True nor False is Unknown", `status: {conditions: [{type: Ready, status: Perhaps}]}`, `{"ready":{"status":"Unknown"}}`},
		{"containers in order, canonical requests, no limits",
			`spec: {containers: [
				{name: b, resources: {requests: {cpu: "0.5", memory: "1024Mi"}, limits: {cpu: "9"}}},
				{name: a, image: x, resources: {limits: {cpu: "9"}}}]}`,
			`{"containers":[{"name":"b","requests":{"cpu":"500m","memory":"1Gi"}},{"name":"a"}]}`},
		{"a request of zero is one", `spec: {containers: [{name: a, resources: {requests: {cpu: "0"}}}]}`,
			`{"containers":[{"name":"a","requests":{"cpu":"0"}}]}`},
		{"init containers that restart are marked",
			`spec: {initContainers: [{name: i, resources: {requests: {cpu: "4"}}}, {name: s, restartPolicy: Always, resources: {requests: {cpu: 50m}}}, {name: once, restartPolicy: OnFailure}], containers: []}`,
			`{"initContainers":[{"name":"i","requests":{"cpu":"4"}},{"name":"s","restartable":true,"requests":{"cpu":"50m"}},{"name":"once"}]}`},
		{"pod-level requests and overhead", `spec: {containers: [], overhead: {cpu: 250m}, resources: {requests: {memory: 1Gi}, limits: {cpu: "4"}}}`,
			`{"resources":{"requests":{"memory":"1Gi"}},"overhead":{"cpu":"250m"}}`},
		{"pod-level limits are no requests", `spec: {containers: [], resources: {limits: {cpu: "4"}}}`, `{}`},
	} {
		t.Run(test.name, func(t *testing.T) {
			pod := kubernetestest.FromYAML[corev1.Pod](t, test.pod)
			pod.Labels = map[string]string{"app": "web"}
			snapshot := snapshotOf(t, noMetrics)
			snapshot.Pods = []*corev1.Pod{&pod, nil}
			kubernetestest.CheckMessages(t, kubernetestest.Request(t, snapshot).GetPods(), test.want)
		})
	}
}

func TestPodMetricsAreChosenByTheirOwnLabels(t *testing.T) {
	snapshot := snapshotOf(t, noMetrics)
	snapshot.Pods = pods(t, `[{metadata: {name: unlabelled, labels: {app: web}}}]`)
	snapshot.PodMetrics = kubernetestest.FromYAML[[]metricsv1beta1.PodMetrics](t, `
- metadata: {name: web-b, namespace: shop, labels: {app: web}}
  timestamp: "2026-03-02T08:59:51Z"
  window: 15.5s
  containers:
  - {name: app, usage: {cpu: 291457123n, memory: 190128Ki}}
  - {name: proxy, usage: {}}
- {metadata: {name: other, labels: {app: other}}, timestamp: null, window: 1s, containers: []}
- {metadata: {name: web-c, namespace: staging, labels: {app: web}}, timestamp: null, window: 1s, containers: []}
- {metadata: {name: unlabelled}, timestamp: null, window: 1s, containers: []}
- {metadata: {name: ghost, labels: {app: web}}, timestamp: null, window: 0s, containers: []}`)
	kubernetestest.CheckMessages(t, kubernetestest.Request(t, snapshot).GetPodMetrics(),
		`{"pod":"web-b","timestamp":"2026-03-02T08:59:51Z","windowSeconds":15.5,"containers":[
			{"name":"app","usage":{"cpu":"291457123n","memory":"190128Ki"}},{"name":"proxy"}]}`,
		`{"pod":"ghost"}`)
}

func TestPodMetricsThatTheAPISelectedAreSentAsTheyAre(t *testing.T) {
	snapshot := snapshotOf(t, noMetrics)
	snapshot.PodMetricsSelected = true
	snapshot.PodMetrics = kubernetestest.FromYAML[[]metricsv1beta1.PodMetrics](t, `
- {metadata: {name: unlabelled, namespace: shop}, timestamp: null, window: 1s, containers: []}
- {metadata: {name: elsewhere, namespace: staging}, timestamp: null, window: 1s, containers: []}`)
	kubernetestest.CheckMessages(t, kubernetestest.Request(t, snapshot).GetPodMetrics(), `{"pod":"unlabelled","windowSeconds":1}`)
}
