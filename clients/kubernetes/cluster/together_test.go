package cluster_test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/clients/kubernetes/cluster"
)

// grouped is a server with deployments of two pods each, a reader with pods from an informer,
// and an autoscaler for each deployment.
func grouped(t testing.TB, apps int, metrics string) (*apiServer, *cluster.Reader, []*autoscalingv2.HorizontalPodAutoscaler) {
	t.Helper()
	server := newAPIServer(t)
	server.customLabels = true
	var autoscalers []*autoscalingv2.HorizontalPodAutoscaler
	for i := range apps {
		app := fmt.Sprintf("app-%02d", i)
		server.addScale("shop", "deployments", app, "app="+app)
		addPods(server, app, app+"-0", app+"-1")
		autoscalers = append(autoscalers, named(autoscalerOf(t, metrics), app))
	}
	return server, informed(t, server), autoscalers
}

// informed is a reader with pods from an informer. It shares readings for a minute, so that a
// slow machine makes no difference.
func informed(t testing.TB, server *apiServer) *cluster.Reader {
	t.Helper()
	clients := server.clients(t)
	return cluster.NewReader(cluster.Sources{
		Mapper: clients.Mapper(), Scales: clients, Pods: informerPods(t, server.pods), Metrics: clients,
	}, cluster.Options{MaxAge: time.Minute})
}

// readAll reads autoscalers one after the other and compares each request with that of a fresh
// reader.
func readAll(t *testing.T, server *apiServer, reader *cluster.Reader, autoscalers []*autoscalingv2.HorizontalPodAutoscaler) {
	t.Helper()
	var requests []*setpointv1.RecommendRequest
	for _, autoscaler := range autoscalers {
		requests = append(requests, requestOf(t, reader, autoscaler))
	}
	asked := server.asked("")
	for i, autoscaler := range autoscalers {
		alone := requestOf(t, readerOf(t, server), autoscaler)
		// An informer may not know the newest pod yet.
		alone.Pods = slices.DeleteFunc(alone.Pods, func(pod *setpointv1.Pod) bool { return pod.GetName() == "ghost" })
		if !proto.Equal(requests[i], alone) {
			t.Errorf("%s: together\n%v\nalone\n%v", autoscaler.Name, requests[i], alone)
		}
	}
	server.mu.Lock()
	server.requests = asked
	server.mu.Unlock()
}

func TestReadingsAreShared(t *testing.T) {
	t.Parallel()
	const usage, rps = "/apis/metrics.k8s.io/v1beta1/namespaces/shop/pods", "/apis/custom.metrics.k8s.io/v1beta2/namespaces/shop/pods/*/rps"
	for _, test := range []struct {
		name, metrics, path string
		apps                int
		before              func(*apiServer)
		// wide lists of the whole namespace, and lists by selector.
		wide, narrow int
	}{
		{"one autoscaler asks for its pods", cpuMetric, usage, 1, nil, 0, 1},
		{"of four the first asks for its own, the second for all", cpuMetric, usage, 4, nil, 1, 1},
		{"of ten the third asks for all, for then it is a quarter", cpuMetric, usage, 10, nil, 1, 2},
		{"two resources are one list", cpuMetric[:len(cpuMetric)-1] + ", " + strings.Replace(cpuMetric, "cpu", "memory", 1)[1:], usage, 1, nil, 0, 1},
		{"of many other pods nobody needs the usage", cpuMetric, usage, 3, func(s *apiServer) {
			for i := range 30 {
				addPods(s, "batch", fmt.Sprintf("batch-%d", i))
			}
		}, 0, 3},
		{"a metrics server that leaves labels out is asked by selector", cpuMetric, usage, 4, func(s *apiServer) {
			server := s
			s.answer(func(w http.ResponseWriter, r *http.Request) bool { return unlabeled(server, w, r) })
		}, 1, 4},
		{"a list of all that is too much is not asked for again", cpuMetric, usage, 4, func(s *apiServer) {
			s.answer(func(w http.ResponseWriter, r *http.Request) bool {
				if r.URL.Path != usage || r.URL.Query().Get("labelSelector") != "" {
					return false
				}
				writeStatus(w, http.StatusGatewayTimeout, metav1.StatusReasonTimeout, "too many pods")
				return true
			})
		}, 1, 4},
		{"values of pods are shared", podsMetric, rps, 4, nil, 1, 1},
		{"unless one is of a pod that is not known", podsMetric, rps, 4, func(s *apiServer) {
			addPods(s, "app-00", "ghost")
		}, 1, 4},
		{"values of too many pods are asked for by selector", podsMetric, rps, 130, nil, 0, 130},
		{"an adapter that refuses the list of all", podsMetric, rps, 4, func(s *apiServer) {
			s.answer(func(w http.ResponseWriter, r *http.Request) bool {
				if r.URL.Path != rps || r.URL.Query().Get("labelSelector") != "" {
					return false
				}
				writeStatus(w, http.StatusForbidden, metav1.StatusReasonForbidden, "not all")
				return true
			})
		}, 1, 4},
		{"an object's value is asked for once", objectMetric, "/front/hits", 5, nil, 0, 1},
		{"an external metric is asked for once", externalMetric, "/queue", 5, nil, 0, 1},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			server, reader, autoscalers := grouped(t, test.apps, test.metrics)
			if test.before != nil {
				test.before(server)
				if !strings.Contains(test.name, "not known") {
					reader = informed(t, server)
				}
			}
			readAll(t, server, reader, autoscalers)
			wide, narrow := 0, 0
			for _, request := range server.asked(test.path[strings.LastIndex(test.path, "/"):]) {
				if strings.Contains(request, "/api/v1/") {
					continue
				}
				if strings.Contains(request, "labelSelector=") || !strings.HasSuffix(test.path, "pods") && !strings.HasSuffix(test.path, "rps") {
					narrow++
				} else {
					wide++
				}
			}
			if wide != test.wide || narrow != test.narrow {
				t.Errorf("asked for all %d times and by selector %d times, want %d and %d", wide, narrow, test.wide, test.narrow)
			}
		})
	}
}

// unlabeled answers with usage without labels, as some metrics servers do.
func unlabeled(s *apiServer, w http.ResponseWriter, r *http.Request) bool {
	if !strings.HasPrefix(r.URL.Path, "/apis/metrics.k8s.io/v1beta1/namespaces/") {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	list := map[string]any{"apiVersion": "metrics.k8s.io/v1beta1", "kind": "PodMetricsList"}
	items := []any{}
	for _, item := range s.usage {
		if selectorOf(r, "labelSelector").Matches(labelsOf(item.Labels)) {
			item.Labels = nil
			items = append(items, item)
		}
	}
	list["items"] = items
	writeJSON(w, list)
	return true
}

// A failing API gets one request, and all autoscalers see its error.
func TestAFailureIsShared(t *testing.T) {
	t.Parallel()
	server, reader, autoscalers := grouped(t, 5, cpuMetric)
	readAll(t, server, reader, autoscalers[:2])
	reader = informed(t, server)
	requestOf(t, reader, autoscalers[0])
	server.refuse("/apis/metrics.k8s.io/", http.StatusServiceUnavailable, metav1.StatusReasonServiceUnavailable, "away")
	server.asked("")
	for _, autoscaler := range autoscalers[1:] {
		if errors := requestOf(t, reader, autoscaler).GetMetricErrors(); len(errors) != 1 || errors[0].GetMessage() != "away" {
			t.Errorf("got %v", errors)
		}
	}
	if got := server.asked("/apis/metrics.k8s.io/"); len(got) != 1 {
		t.Errorf("asked %q", got)
	}
	if count := reader.Counts()[cluster.PodMetricsList]; count != (cluster.Count{Requests: 2, Failed: 1, Saved: 3}) {
		t.Errorf("counted %+v", count)
	}
}

// Many workers read autoscalers concurrently.
func TestReadersAtOnce(t *testing.T) {
	t.Parallel()
	server, reader, autoscalers := grouped(t, 20, cpuMetric)
	var all sync.WaitGroup
	for _, autoscaler := range autoscalers {
		all.Go(func() {
			for range 3 {
				got, err := reader.Snapshot(t.Context(), autoscaler, nil)
				if err != nil || len(got.PodMetrics) != 2 || len(got.Pods) != 2 {
					t.Errorf("%s: got %v, %v", autoscaler.Name, got, err)
				}
			}
		})
	}
	all.Wait()
	// Four request lists of their own before the fifth makes their pods a quarter of all.
	if got := server.asked("/apis/metrics.k8s.io/v1beta1/namespaces"); len(got) > 5 {
		t.Errorf("asked %d times: %q", len(got), got)
	}
}

func TestSelectorsThatOverlap(t *testing.T) {
	t.Parallel()
	server := shop(t)
	addPods(server, "canary", "canary-0")
	server.pods[1].Labels = map[string]string{"app": "web", "track": "x"}
	server.addScale("shop", "deployments", "rival", "track")
	server.addScale("shop", "deployments", "other", "app=canary")
	server.addScale("elsewhere", "deployments", "rival", "app=web")
	reader := readerOf(t, server)
	web, rival := autoscalerOf(t, cpuMetric), named(autoscalerOf(t, cpuMetric), "rival")
	rival.UID = "1"
	elsewhere := named(web, "rival")
	elsewhere.Namespace = "elsewhere"
	problem := func() string {
		return strings.Join(requestOf(t, reader, web).GetSelectorProblem().GetAutoscalers(), " ")
	}
	requestOf(t, reader, named(web, "other"))
	requestOf(t, reader, elsewhere)
	if got := problem(); got != "" {
		t.Errorf("others share nothing, but got %s", got)
	}
	requestOf(t, reader, rival)
	reader.SetMaxAge(time.Nanosecond)
	server.asked("")
	if got := problem(); got != "shop/rival shop/web" {
		t.Errorf("got %s", got)
	}
	if got := server.asked("metrics.k8s.io/v1beta1/namespaces"); len(got) > 0 {
		t.Errorf("upstream reads no metrics then; asked %q", got)
	}
	// As upstream, the selector stays while the scale can't be read.
	server.refuse("/deployments/rival/scale", http.StatusNotFound, metav1.StatusReasonNotFound, "gone")
	requestOf(t, reader, rival)
	if got := problem(); got == "" {
		t.Error("the selector was forgotten with a failure")
	}
	reader.Forget("shop", "rival", "that of an object of another kind")
	if got := problem(); got == "" {
		t.Error("the selector was forgotten with a namesake")
	}
	reader.Forget("shop", "rival", rival.UID)
	if got := problem(); got != "" {
		t.Errorf("the selector was kept: %s", got)
	}
	reader.NoteSelector("shop", "noted", "app in (web)")
	if got := problem(); got != "shop/noted shop/web" {
		t.Errorf("got %s", got)
	}
	reader.NoteSelector("shop", "noted", "app in (")
	reader.NoteSelector("shop", "noted", "")
	if got := problem(); got != "shop/noted shop/web" {
		t.Errorf("a selector that does not parse replaced one: %s", got)
	}
	reader.NoteSelector("shop", "noted", "app=nobody")
	if got := problem(); got != "" {
		t.Errorf("the new selector does not hold: %s", got)
	}
}
