package cluster_test

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"runtime"
	"testing"
	"time"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"sigs.k8s.io/randfill"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/clients/kubernetes"
	"github.com/setpoint-dev/setpoint/clients/kubernetes/cluster/podcache"
	"github.com/setpoint-dev/setpoint/clients/kubernetes/internal/kubernetestest"
	"github.com/setpoint-dev/setpoint/internal/fatal"
)

// randomPods returns pods with random contents in every field.
func randomPods(seed int64, count int) []*corev1.Pod {
	filler := randfill.NewWithSeed(seed).NilChance(0.3).NumElements(0, 3).MaxDepth(12).Funcs(
		func(q *resource.Quantity, c randfill.Continue) {
			*q = *resource.NewMilliQuantity(c.Int63n(1e6), resource.DecimalSI)
		},
		func(at *metav1.Time, c randfill.Continue) { at.Time = time.Unix(c.Int63n(2e9), 0) },
		func(s *corev1.PodConditionType, c randfill.Continue) {
			*s = []corev1.PodConditionType{corev1.PodReady, corev1.PodInitialized}[c.Intn(2)]
		},
		func(s *corev1.ConditionStatus, c randfill.Continue) {
			*s = []corev1.ConditionStatus{corev1.ConditionTrue, corev1.ConditionFalse, "Sometimes"}[c.Intn(3)]
		},
		func(s *corev1.PodPhase, c randfill.Continue) {
			*s = []corev1.PodPhase{corev1.PodPending, corev1.PodRunning, corev1.PodFailed, "Elsewhere"}[c.Intn(4)]
		},
		func(s *corev1.ContainerRestartPolicy, c randfill.Continue) {
			*s = []corev1.ContainerRestartPolicy{corev1.ContainerRestartPolicyAlways, corev1.ContainerRestartPolicyNever}[c.Intn(2)]
		},
		func(s *corev1.ResourceName, c randfill.Continue) {
			*s = []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory}[c.Intn(2)]
		},
	)
	pods := make([]*corev1.Pod, count)
	for i := range pods {
		pod := &corev1.Pod{}
		filler.Fill(pod)
		pod.Name, pod.Namespace = fmt.Sprintf("pod-%d", i), "shop"
		pod.Labels = map[string]string{}
		for _, key := range []string{"app", "tier", "canary"} {
			if value := rand.N(4); value > 0 {
				pod.Labels[key] = fmt.Sprint(value)
			}
		}
		pods[i] = pod
	}
	return pods
}

// selectors of all kinds, over the labels of the random pods.
var selectors = []string{
	"app=1", "app==2,tier=3", "app in (1)", "app in (1,2),!canary", "app!=1", "tier notin (1,2)", "canary", "!app", "app=1,app=2", "nobody=1",
}

// A namespace whose pods were never read, for want of the right, has unknown pods, not none.
func TestPodsThatWereNeverReadAreUnknown(t *testing.T) {
	all, err := podcache.NewNamespaces(&rest.Config{}, http.DefaultClient, []string{"shop", "billing"}, cache.NewSharedIndexInformer, cache.DefaultWatchErrorHandler)
	fatal.If(t, err)
	for namespace, want := range map[string]string{"shop": "pods of namespace shop have not been read yet", "other": "pods of namespace other are not watched"} {
		if pods, err := all.Pods(t.Context(), namespace, labels.Everything()); fmt.Sprint(err) != want {
			t.Errorf("%s: %d pods, error %v, want %s", namespace, len(pods), err, want)
		}
	}
}

// podsIn returns the pods of a request.
func podsIn(t *testing.T, pods []*corev1.Pod, selector string) []*setpointv1.Pod {
	t.Helper()
	snapshot := &kubernetes.Snapshot{
		Autoscaler: autoscalerOf(t, cpuMetric), Pods: pods,
		Scale: &autoscalingv1.Scale{Status: autoscalingv1.ScaleStatus{Selector: selector}},
	}
	request, err := snapshot.Request("demo")
	fatal.If(t, err)
	return request.GetPods()
}

func TestAStrippedPodIsTheSameInARequest(t *testing.T) {
	t.Parallel()
	whole := randomPods(1, 400)
	var stripped []*corev1.Pod
	for _, pod := range whole {
		out, err := podcache.Strip(pod.DeepCopy())
		fatal.If(t, err)
		stripped = append(stripped, out.(*corev1.Pod))
	}
	for _, selector := range selectors {
		got, want := podsIn(t, stripped, selector), podsIn(t, whole, selector)
		if len(got) != len(want) {
			t.Fatalf("%s selects %d stripped pods, %d whole ones", selector, len(got), len(want))
		}
		for i := range got {
			if !proto.Equal(got[i], want[i]) {
				t.Fatalf("got\n%s\nwant\n%s", protojson.Format(got[i]), protojson.Format(want[i]))
			}
		}
	}
	for i, pod := range stripped {
		if pod.ResourceVersion != whole[i].ResourceVersion || len(pod.Annotations)+len(pod.ManagedFields)+len(pod.Spec.Volumes) > 0 {
			t.Fatalf("got %+v", pod)
		}
	}
	if other, err := podcache.Strip("a tombstone"); other != "a tombstone" || err != nil {
		t.Errorf("got %v, %v", other, err)
	}
}

func newIndexer() cache.Indexer {
	return cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc})
}

// informerPods stores pods as an informer does.
func informerPods(t testing.TB, pods []*corev1.Pod) *podcache.Pods {
	t.Helper()
	indexer := newIndexer()
	source, err := podcache.New(indexer)
	fatal.If(t, err)
	for _, pod := range pods {
		fatal.If(t, indexer.Add(pod))
	}
	return source
}

// The index must not change what a selector matches.
func TestInformerPodsAreThoseOfAList(t *testing.T) {
	t.Parallel()
	pods := randomPods(2, 300)
	elsewhere := pods[0].DeepCopy()
	elsewhere.Namespace = "elsewhere"
	source := informerPods(t, append(pods, elsewhere))
	for _, text := range append(selectors, "") {
		selector, err := labels.Parse(text)
		fatal.If(t, err)
		got, err := source.Pods(t.Context(), "shop", selector)
		fatal.If(t, err)
		want := map[string]bool{}
		for _, pod := range pods {
			if selector.Matches(labels.Set(pod.Labels)) {
				want[pod.Name] = true
			}
		}
		for i, pod := range got {
			if !want[pod.Name] || pod.Namespace != "shop" || i > 0 && got[i-1].Name >= pod.Name {
				t.Errorf("%s: %s/%s at %d", text, pod.Namespace, pod.Name, i)
			}
		}
		if len(got) != len(want) {
			t.Errorf("%s: got %d pods, want %d", text, len(got), len(want))
		}
	}
	if got := source.CountPods("shop"); got != 300 {
		t.Errorf("counted %d", got)
	}
}

func TestAnIndexerTakesOneInformerPods(t *testing.T) {
	t.Parallel()
	indexer := newIndexer()
	if _, err := podcache.New(indexer); err != nil {
		t.Fatal(err)
	}
	if _, err := podcache.New(indexer); err == nil {
		t.Error("no error for the second")
	}
}

// Live pods are listed in pages.
func TestLivePodsInPages(t *testing.T) {
	t.Parallel()
	server := newAPIServer(t)
	for i := range 1203 {
		addPods(server, "web", fmt.Sprintf("web-%d", i))
	}
	addPods(server, "other", "other-0")
	selector, _ := labels.Parse("app=web")
	got, err := server.clients(t).Pods(t.Context(), "shop", selector)
	if err != nil || len(got) != 1203 || got[1].Name != "web-1" || got[2].Name != "web-10" {
		t.Errorf("got %d pods, %v", len(got), err)
	}
	if requests := server.asked("/pods"); len(requests) != 3 {
		t.Errorf("asked %q", requests)
	}
}

// A stripped pod in the informer, with its indexes, must stay small: the agent stores ten
// thousand.
func TestMemoryOfAPod(t *testing.T) {
	const count = 10_000
	indexer := newIndexer()
	if _, err := podcache.New(indexer); err != nil {
		t.Fatal(err)
	}
	before := heap()
	for i := range count {
		stripped, _ := podcache.Strip(typicalPod(i))
		_ = indexer.Add(stripped)
	}
	perPod := (heap() - before) / count
	t.Logf("%d bytes a pod", perPod)
	if perPod > 3500 {
		t.Errorf("%d bytes a pod", perPod)
	}
	runtime.KeepAlive(indexer)
}

func heap() uint64 {
	runtime.GC()
	runtime.GC()
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return stats.HeapAlloc
}

// typicalPod is a pod of a deployment with ten pods.
func typicalPod(i int) *corev1.Pod {
	app := fmt.Sprintf("app-%d", i/10)
	now := metav1.Now()
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Name: fmt.Sprintf("%s-%d", app, i), Namespace: "shop",
		Labels: map[string]string{"app": app, "pod-template-hash": app, "tier": "web"},
	}}
	pod.Status.Phase, pod.Status.StartTime = corev1.PodRunning, &now
	pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
	for _, name := range []string{"app", "sidecar"} {
		pod.Spec.Containers = append(pod.Spec.Containers, corev1.Container{
			Name: name, Image: "registry.example/" + name,
			Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{
				corev1.ResourceCPU: resource.MustParse("100m"), corev1.ResourceMemory: resource.MustParse("64Mi"),
			}},
		})
	}
	return pod
}

// Pods share equal parts, and only those.
func TestStrippedPodsShareNothingThatDiffers(t *testing.T) {
	t.Parallel()
	const pod = `{metadata: {name: web, namespace: shop, labels: {app: "1"}}, spec: {initContainers: [{name: a, %s}], containers: [{name: b, resources: {requests: {%s}}}]}}`
	var whole, stripped []*corev1.Pod
	for _, first := range []string{"restartPolicy: Always", "restartPolicy: Never", "image: x", "resources: {requests: {cpu: 1}}"} {
		for _, second := range []string{"", "cpu: 100m", "cpu: 0.1", "cpu: 200m", "memory: 100m", "cpu: 100m, memory: 1Gi"} {
			one := kubernetestest.FromYAML[corev1.Pod](t, fmt.Sprintf(pod, first, second))
			out, err := podcache.Strip(&one)
			fatal.If(t, err)
			whole, stripped = append(whole, &one), append(stripped, out.(*corev1.Pod))
		}
	}
	got, want := podsIn(t, stripped, "app=1"), podsIn(t, whole, "app=1")
	for i := range want {
		if !proto.Equal(got[i], want[i]) {
			t.Errorf("got\n%s\nwant\n%s", protojson.Format(got[i]), protojson.Format(want[i]))
		}
	}
}
