package agent

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/metrics/pkg/apis/external_metrics/v1beta1"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/clients/agent"
	"github.com/setpoint-dev/setpoint/internal/fatal"
	"github.com/setpoint-dev/setpoint/test/testserver"
)

// apiServer serves HorizontalPodAutoscalers with their scales, no pods, and Leases, as an API
// server does.
type apiServer struct {
	*httptest.Server
	// away makes each request end without an answer.
	away atomic.Bool

	// storm is the status of each answer; 0: each its own.
	storm atomic.Int32
	// forbids makes it refuse to list and watch pods.
	forbids atomic.Bool

	mu       sync.Mutex
	hpas     []autoscalingv2.HorizontalPodAutoscaler
	leases   map[string]*coordinationv1.Lease
	version  int
	statuses int
}

func newAPIServer(t *testing.T, objects int) *apiServer {
	t.Helper()
	s := &apiServer{leases: map[string]*coordinationv1.Lease{}}
	for i := range objects {
		hpa := evaluatedHPA("shop", fmt.Sprintf("web-%02d", i))
		hpa.UID, hpa.ResourceVersion = "u", "1"
		s.hpas = append(s.hpas, *hpa)
	}
	s.Server = httptest.NewServer(s)
	t.Cleanup(func() {
		s.CloseClientConnections()
		s.Close()
	})
	return s
}

// vanish closes all connections and stops answering.
func (s *apiServer) vanish() {
	s.away.Store(true)
	s.CloseClientConnections()
}

// comeBack answers again. It closes no connections: some may have been answered already.
func (s *apiServer) comeBack() { s.away.Store(false) }

func (s *apiServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if s.away.Load() {
		panic(http.ErrAbortHandler)
	}
	if code := int(s.storm.Load()); code != 0 {
		http.Error(w, "storm", code)
		return
	}
	if s.forbids.Load() && strings.HasSuffix(r.URL.Path, "/pods") {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusForbidden)
		_ = json.NewEncoder(w).Encode(metav1.Status{TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: metav1.StatusFailure, Reason: metav1.StatusReasonForbidden, Message: "no right", Code: 403})
		return
	}
	if r.URL.Query().Get("sendInitialEvents") != "" { // as older servers do
		http.Error(w, "", http.StatusUnprocessableEntity)
		return
	}
	s.mu.Lock()
	answer, code := s.answer(r)
	s.mu.Unlock()
	if r.URL.Query().Get("watch") != "" {
		w.WriteHeader(http.StatusOK)
		w.(http.Flusher).Flush()
		<-r.Context().Done()
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(answer)
}

func (s *apiServer) answer(r *http.Request) (any, int) {
	path := r.URL.Path
	last := path[strings.LastIndexByte(path, '/')+1:]
	resources := func(version string, all ...metav1.APIResource) (any, int) {
		return metav1.APIResourceList{TypeMeta: metav1.TypeMeta{Kind: "APIResourceList", APIVersion: "v1"}, GroupVersion: version, APIResources: all}, 200
	}
	switch {
	case path == "/api":
		return metav1.APIVersions{TypeMeta: metav1.TypeMeta{Kind: "APIVersions"}, Versions: []string{"v1"}}, 200
	case path == "/apis":
		list := metav1.APIGroupList{TypeMeta: metav1.TypeMeta{Kind: "APIGroupList", APIVersion: "v1"}}
		for _, version := range []string{"apps/v1", "autoscaling/v2"} {
			v := metav1.GroupVersionForDiscovery{GroupVersion: version, Version: version[strings.IndexByte(version, '/')+1:]}
			list.Groups = append(list.Groups, metav1.APIGroup{Name: version[:strings.IndexByte(version, '/')], Versions: []metav1.GroupVersionForDiscovery{v}, PreferredVersion: v})
		}
		return list, 200
	case path == "/api/v1":
		return resources("v1", metav1.APIResource{Name: "pods", Kind: "Pod", Namespaced: true, Verbs: metav1.Verbs{"list", "watch"}})
	case path == "/apis/apps/v1":
		return resources("apps/v1", metav1.APIResource{Name: "deployments", Kind: "Deployment", Namespaced: true, Verbs: metav1.Verbs{"get", "list", "watch"}},
			metav1.APIResource{Name: "deployments/scale", Group: "autoscaling", Version: "v1", Kind: "Scale", Namespaced: true, Verbs: metav1.Verbs{"get", "update"}})
	case path == "/apis/autoscaling/v2":
		return resources("autoscaling/v2", metav1.APIResource{Name: "horizontalpodautoscalers", Kind: "HorizontalPodAutoscaler", Namespaced: true, Verbs: metav1.Verbs{"get", "list", "watch"}})
	case path == "/api/v1/namespaces/kube-system":
		return metav1.PartialObjectMetadata{TypeMeta: metav1.TypeMeta{Kind: "PartialObjectMetadata", APIVersion: "meta.k8s.io/v1"},
			ObjectMeta: metav1.ObjectMeta{Name: last, UID: "uid-of-the-cluster"}}, 200
	case last == "pods":
		return map[string]any{"kind": "PodList", "apiVersion": "v1", "metadata": map[string]string{"resourceVersion": "1"}, "items": []any{}}, 200
	case last == "horizontalpodautoscalers":
		return autoscalingv2.HorizontalPodAutoscalerList{TypeMeta: metav1.TypeMeta{Kind: "HorizontalPodAutoscalerList", APIVersion: "autoscaling/v2"}, ListMeta: metav1.ListMeta{ResourceVersion: "1"}, Items: s.hpas}, 200
	case last == "scale":
		return autoscalingv1.Scale{
			TypeMeta: metav1.TypeMeta{Kind: "Scale", APIVersion: "autoscaling/v1"}, ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: strings.Split(path, "/")[6], ResourceVersion: "1"},
			Spec: autoscalingv1.ScaleSpec{Replicas: 3}, Status: autoscalingv1.ScaleStatus{Replicas: 3, Selector: "app=web"},
		}, 200
	case last == "status":
		s.statuses++
		for _, hpa := range s.hpas {
			if strings.Contains(path, "/"+hpa.Name+"/") {
				hpa.TypeMeta = metav1.TypeMeta{Kind: "HorizontalPodAutoscaler", APIVersion: "autoscaling/v2"}
				return hpa, 200
			}
		}
	case last == "events":
		return corev1.Event{TypeMeta: metav1.TypeMeta{Kind: "Event", APIVersion: "v1"}}, 201
	case strings.HasPrefix(path, "/apis/external.metrics.k8s.io/"):
		return v1beta1.ExternalMetricValueList{TypeMeta: metav1.TypeMeta{Kind: "ExternalMetricValueList", APIVersion: "external.metrics.k8s.io/v1beta1"},
			Items: []v1beta1.ExternalMetricValue{{MetricName: "queue", Value: resource.MustParse("30")}}}, 200
	case strings.Contains(path, "/leases"):
		return s.lease(r, last)
	}
	return metav1.Status{TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: metav1.StatusFailure, Reason: metav1.StatusReasonNotFound, Message: "not found", Code: 404}, 404
}

func (s *apiServer) lease(r *http.Request, name string) (any, int) {
	s.version++
	lease := &coordinationv1.Lease{}
	switch r.Method {
	case http.MethodGet:
		if lease = s.leases[name]; lease == nil {
			return metav1.Status{TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: metav1.StatusFailure, Reason: metav1.StatusReasonNotFound, Code: 404}, 404
		}
	case http.MethodPost, http.MethodPut:
		_ = json.NewDecoder(r.Body).Decode(lease)
		lease.ResourceVersion = fmt.Sprint(s.version)
		lease.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "agent", Operation: metav1.ManagedFieldsOperationUpdate, Time: &metav1.Time{Time: time.Now()}}}
		s.leases[lease.Name] = lease
	}
	lease.TypeMeta = metav1.TypeMeta{Kind: "Lease", APIVersion: "coordination.k8s.io/v1"}
	return lease, 200
}

// direct is an in-process service.
type direct struct {
	service setpointv1.RecommendationServiceServer
	asked   atomic.Int64
	// cluster is the UID of the last request.
	cluster atomic.Value
}

func (d *direct) Recommend(ctx context.Context, req *setpointv1.RecommendRequest) (*setpointv1.RecommendResponse, error) {
	d.cluster.Store(req.GetClusterUid())
	d.asked.Add(1)
	// A busy machine must not look like an outage.
	return d.service.Recommend(context.WithoutCancel(ctx), req)
}

func (d *direct) ReportScale(ctx context.Context, req *setpointv1.ReportScaleRequest) (*setpointv1.ReportScaleResponse, error) {
	return d.service.ReportScale(ctx, req)
}

func (d *direct) DeleteIncarnation(context.Context, *setpointv1.DeleteTargetRequest) error {
	return nil
}

func newDirect(t *testing.T) *direct {
	t.Helper()
	return &direct{service: testserver.Recommendations(t)}
}

// await waits for a condition in real time.
func await(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(2 * time.Minute); !ok(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("not within two minutes: %s", what)
		}
	}
}

// runAgent runs an agent with a log until the test ends, and returns its result.
func runAgent(t *testing.T, s *apiServer, service *direct, election *Election) (logged *observer.ObservedLogs, ended chan error) {
	t.Helper()
	logged, ended, _ = runTheAgent(t, s, service, election)
	return logged, ended
}

func runTheAgent(t *testing.T, s *apiServer, service *direct, election *Election, namespaces ...string) (logged *observer.ObservedLogs, ended chan error, a *Agent) {
	t.Helper()
	core, logged := observer.New(zapcore.InfoLevel)
	log := zap.New(core)
	libraryLog.Store(log.Named("kubernetes"))
	a, err := New(&rest.Config{Host: s.URL, QPS: -1}, Options{
		Sources: []Source{HPA}, Workers: agent.DefaultWorkers, DrainTimeout: agent.DefaultDrainTimeout,
		Cluster: "demo", SyncPeriod: time.Second, RequestTimeout: time.Minute, Log: log, Election: election,
		Namespaces: namespaces,
	})
	fatal.If(t, err)
	loop, err := agent.New(a.Platform(), agent.Service{Calls: service}, agent.Options{
		Cluster: "demo", Sources: kinds, Period: time.Second, RequestTimeout: time.Minute, Log: log,
	}, a.Queue())
	fatal.If(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	ended, done := make(chan error, 1), make(chan struct{})
	go func() {
		defer close(done)
		ended <- a.Run(ctx, loop)
	}()
	t.Cleanup(func() {
		cancel()
		<-done
		if t.Failed() {
			for _, line := range logged.All() {
				t.Log(line.Level, line.Message, line.ContextMap())
			}
		}
		libraryLog.Store(nil)
	})
	return logged, ended, a
}

// linesOf returns the warnings, the errors and what is said about the API server, each as its
// level and its message.
func linesOf(logged *observer.ObservedLogs) (lines []string) {
	for _, line := range logged.All() {
		if line.Level >= zapcore.WarnLevel || strings.Contains(line.Message, "API server") {
			lines = append(lines, line.Level.String()+" "+line.Message)
		}
	}
	return lines
}

// quiet checks that the log has exactly those lines, in that order.
func quiet(t *testing.T, logged *observer.ObservedLogs, wanted ...string) {
	t.Helper()
	lines := linesOf(logged)
	if !slices.Equal(lines, wanted) {
		t.Errorf("the log has\n%s\nwant\n%s", strings.Join(lines, "\n"), strings.Join(wanted, "\n"))
	}
}

const (
	lineAway = "warn the API server does not answer; nothing is scaled until it does"
	lineBack = "info the API server answers again"
)

// While the API server is away a leader gives up its Lease and stops, and says so; its log is
// not full of errors of every component.
func TestTheAPIServerIsAwayLongerThanTheLease(t *testing.T) {
	s, service := newAPIServer(t, 20), newDirect(t)
	logged, ended := runAgent(t, s, service, &Election{
		Namespace: "shop", Name: "agents", LeaseDuration: 12 * time.Second, RenewDeadline: 8 * time.Second, RetryPeriod: 500 * time.Millisecond,
	})
	await(t, "all are asked about twice", func() bool { return service.asked.Load() > 40 })
	logged.TakeAll()
	s.vanish()
	err := <-ended
	want(t, "error", fmt.Sprint(err), "leadership lost: the Lease agents could not be renewed within 8s, and another agent may act; restart this one")
	quiet(t, logged, lineAway)
	// The manager stops its runnables after it has returned.
	await(t, "the manager has left what it leaves", func() bool { return !stopping() })
	leftBehind = append(leftBehind, goleak.IgnoreCurrent())
}

// stop matches the manager's function that stops its runnables, in traces of goroutines.
var stop = regexp.MustCompile(`(?m)^sigs\.k8s\.io/controller-runtime/pkg/manager\.\(\*controllerManager\)\.engageStopProcedure(\.func\d+)?\(`)

// stopping reports whether a manager is stopping.
func stopping() bool {
	traces := make([]byte, 16<<20)
	return stop.Match(traces[:runtime.Stack(traces, true)])
}

// An agent without an election continues when the API server is back; a starting agent waits
// for it.
func TestTheAPIServerComesBack(t *testing.T) {
	s, service := newAPIServer(t, 20), newDirect(t)
	s.vanish()
	logged, ended := runAgent(t, s, service, nil)
	told := func() bool { return slices.Contains(linesOf(logged), lineAway) }
	await(t, "told", told)
	s.comeBack()
	await(t, "all are asked about twice", func() bool { return service.asked.Load() > 40 })
	quiet(t, logged, lineAway, lineBack)
	logged.TakeAll()
	s.vanish()
	await(t, "told again", told)
	time.Sleep(3 * time.Second)
	s.comeBack()
	asked := service.asked.Load()
	await(t, "all are asked about again", func() bool { return service.asked.Load() > asked+40 })
	quiet(t, logged, lineAway, lineBack)
	select {
	case err := <-ended:
		t.Errorf("it ended: %v", err)
	default:
	}
}

// An API server, or a proxy before it, that answers only with errors of its own is away, too.
func TestAStormOfTheAPIServer(t *testing.T) {
	for _, code := range []int32{http.StatusInternalServerError, http.StatusServiceUnavailable, http.StatusTooManyRequests} {
		t.Run(fmt.Sprint(code), func(t *testing.T) {
			s, service := newAPIServer(t, 20), newDirect(t)
			logged, _ := runAgent(t, s, service, nil)
			await(t, "all are asked about", func() bool { return service.asked.Load() > 20 })
			s.storm.Store(code)
			s.CloseClientConnections()
			await(t, "told", func() bool { return slices.Contains(linesOf(logged), lineAway) })
			time.Sleep(5 * time.Second)
			s.storm.Store(0)
			await(t, "told of the end", func() bool { return slices.Contains(linesOf(logged), lineBack) })
			asked := service.asked.Load()
			await(t, "all are asked about again", func() bool { return service.asked.Load() > asked+40 })
			// Until the outage is known the first failure of each kind is told.
			lines := linesOf(logged)
			if told := slices.Index(lines, lineAway); told > 5 || !slices.Equal(lines[told:], []string{lineAway, lineBack}) {
				t.Errorf("the log has\n%s", strings.Join(lines, "\n"))
			}
		})
	}
}

// Rights that come later than the agent leave no errors in its log; until then it is not ready, and says why.
func TestTheRightsComeLater(t *testing.T) {
	s, service := newAPIServer(t, 5), newDirect(t)
	s.forbids.Store(true)
	logged, _, a := runTheAgent(t, s, service, nil)
	await(t, "told why it is not ready", func() bool {
		return strings.HasPrefix(fmt.Sprint(a.Ready()), "the API server has refused to list /api/v1/pods since ")
	})
	await(t, "told in the log", func() bool { return len(linesOf(logged)) > 0 })
	s.forbids.Store(false)
	await(t, "ready", func() bool { return a.Ready() == nil })
	await(t, "all are asked about", func() bool { return service.asked.Load() > 5 })
	quiet(t, logged, "warn the API server refuses what the agent must read; has it the right, and is the CustomResourceDefinition installed?",
		"info the API server refuses no more")
}

// An agent that may read none of its namespaces leaves the Lease to others.
func TestWithoutRightsInAnyNamespace(t *testing.T) {
	s := newAPIServer(t, 5)
	s.forbids.Store(true)
	_, _, a := runTheAgent(t, s, newDirect(t), &Election{
		Namespace: "shop", Name: "agents", LeaseDuration: 12 * time.Second, RenewDeadline: 8 * time.Second, RetryPeriod: 500 * time.Millisecond,
	}, "shop", "billing")
	await(t, "told why it is not ready", func() bool {
		return strings.HasPrefix(fmt.Sprint(a.Ready()), "the API server has refused to list /api/v1/namespaces/billing/pods since ")
	})
	await(t, "both are told", func() bool { return a.refusals.Namespaces() == 2 })
	time.Sleep(time.Second)
	s.mu.Lock()
	if len(s.leases) > 0 {
		t.Error("it takes the Lease")
	}
	s.mu.Unlock()
}

// A Lease that has expired by the API server's clock is taken over at once, whatever its holder's
// clock says; one that has not is waited for.
func TestAnExpiredLeaseIsTakenOverAtOnce(t *testing.T) {
	for _, tt := range []struct {
		name           string
		written, claim time.Duration // before now: the API server's stamp, and the holder's
		taken          bool
	}{
		{"expired", 20 * time.Second, 20 * time.Second, true},
		{"expired, by a clock that is ahead", 20 * time.Second, -time.Hour, true},
		{"held", 2 * time.Second, 2 * time.Second, false},
		{"held, by a clock that is behind", 2 * time.Second, time.Hour, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s, service := newAPIServer(t, 5), newDirect(t)
			now, holder, seconds := time.Now(), "another", int32(15)
			s.leases["agents"] = &coordinationv1.Lease{
				ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "agents", ResourceVersion: "1", ManagedFields: []metav1.ManagedFieldsEntry{
					{Manager: "agent", Operation: metav1.ManagedFieldsOperationUpdate, Time: &metav1.Time{Time: now.Add(-tt.written)}},
				}},
				Spec: coordinationv1.LeaseSpec{HolderIdentity: &holder, LeaseDurationSeconds: &seconds, RenewTime: &metav1.MicroTime{Time: now.Add(-tt.claim)}},
			}
			runAgent(t, s, service, &Election{Namespace: "shop", Name: "agents", LeaseDuration: 15 * time.Second, RenewDeadline: 10 * time.Second, RetryPeriod: 500 * time.Millisecond})
			if tt.taken {
				await(t, "asked", func() bool { return service.asked.Load() > 0 })
				if took := time.Since(now); took > 10*time.Second {
					t.Errorf("it acts after %s", took)
				}
				return
			}
			time.Sleep(3 * time.Second)
			if service.asked.Load() > 0 {
				t.Error("it acts although another one holds the Lease")
			}
		})
	}
}
