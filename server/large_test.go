package server_test

import (
	"context"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/store"
)

// large is a request that takes much to explain: of 2,000 pods by ten metrics.
func large(tb testing.TB, target string) *setpointv1.RecommendRequest {
	tb.Helper()
	req := webRequest(tb, withTarget(target), explained)
	metric := req.GetSpec().GetMetrics()[0]
	for len(req.GetSpec().GetMetrics()) < 10 {
		req.Spec.Metrics = append(req.Spec.Metrics, metric)
	}
	pod := req.GetPods()[0]
	req.Pods = nil
	for i := range 2000 {
		p := &setpointv1.Pod{Name: "p" + strconv.Itoa(i), Phase: pod.GetPhase()}
		req.Pods = append(req.Pods, p)
	}
	return req
}

// heldBytes is the service's metric of the memory of large requests.
func heldBytes(tb testing.TB, metrics *prometheus.Registry) float64 {
	tb.Helper()
	families, err := metrics.Gather()
	if err != nil {
		tb.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() == "setpoint_large_requests_bytes" {
			return f.GetMetric()[0].GetGauge().GetValue()
		}
	}
	tb.Fatal("there is no such metric")
	return 0
}

// Large requests wait for one another, small ones and those of others pass, and nothing is
// held in the end, whatever way they came.
func TestLargeRequestsWaitForRoom(t *testing.T) {
	t.Parallel()
	const slow = "clusters/c/namespaces/slow/targets/t"
	release := make(chan struct{})
	metrics := prometheus.NewRegistry()
	s := start(t, func(su *setup) {
		su.options.Registerer = metrics
		su.store.load = func(ctx context.Context, key store.Key, load loadFunc) (store.Record, error) {
			if key.Namespace == "slow" {
				select {
				case <-release:
				case <-ctx.Done():
				}
			}
			return load(ctx, key)
		}
	})
	fills := 16 * runtime.GOMAXPROCS(0) // more than fits
	var callers sync.WaitGroup
	for range fills {
		callers.Go(func() {
			resp, err := s.recommendations.Recommend(t.Context(), large(t, slow))
			if err != nil {
				t.Errorf("who waited is answered: %v", err)
			} else if resp.GetExplanation() == nil {
				t.Error("not explained")
			}
		})
	}
	most := float64(64 << 20 * runtime.GOMAXPROCS(0))
	for began := time.Now(); heldBytes(t, metrics) < 16<<20 && time.Since(began) < 2*time.Minute; {
		time.Sleep(time.Millisecond)
	}
	if got := heldBytes(t, metrics); got < 16<<20 || got > most {
		t.Errorf("%.0f bytes are held, want much, and at most %.0f", got, most)
	}
	// While the memory is in use, a large one waits until its deadline. Those that use it
	// are still arriving, so that one may be admitted before.
	waits := func() bool {
		ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
		defer cancel()
		_, err := s.recommendations.Recommend(ctx, large(t, web))
		if err != nil && status.Code(err) != codes.DeadlineExceeded {
			t.Errorf("a large one while there is no room: %v", err)
		}
		return err != nil
	}
	for began := time.Now(); !waits(); {
		if time.Since(began) > 2*time.Minute {
			t.Fatal("large ones find room, however many are held")
		}
	}
	s.recommend(t, webRequest(t)) // a small one passes
	if got := s.ask(t, "POST", "/v1/"+web+":recommend", webRequest(t, withTarget(""))); got.code != 200 {
		t.Errorf("a small one over REST: %d %s", got.code, got.raw)
	}
	close(release)
	callers.Wait()

	// Now each way, refused ones, too.
	s.recommend(t, large(t, web))
	if _, err := s.recommendations.BatchRecommend(t.Context(), &setpointv1.BatchRecommendRequest{
		Requests: []*setpointv1.RecommendRequest{large(t, web), large(t, "no target"), queue(web, 3, 30)},
	}); err != nil {
		t.Error(err)
	}
	stream := s.stream(t)
	send(t, stream, "1", large(t, web))
	send(t, stream, "2", large(t, "no target"))
	for range 2 {
		receive(t, stream)
	}
	if err := stream.CloseSend(); err != nil {
		t.Error(err)
	}
	for path, name := range map[string]string{":recommend": "", ":recommend?": "", ":recommend?x=1": ""} {
		if got := s.ask(t, "POST", "/v1/"+web+path, large(t, name)); got.code != 200 && !strings.Contains(path, "x=") {
			t.Errorf("%s: %d %.300s", path, got.code, got.raw)
		}
	}
	for began := time.Now(); heldBytes(t, metrics) != 0; time.Sleep(time.Millisecond) {
		if time.Since(began) > 2*time.Minute {
			t.Fatalf("%.0f bytes are held of nothing", heldBytes(t, metrics))
		}
	}
}

// Records are loaded for a list a few at a time.
func TestListsLoadAFewRecordsAtOnce(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	most, loads := 0, 0
	s := start(t, func(su *setup) {
		su.engine = &countingLoads{faultyStore: su.store, loaded: func(n int) {
			mu.Lock()
			defer mu.Unlock()
			most, loads = max(most, n), loads+1
		}}
	})
	for i := range 120 {
		s.recommend(t, queue("clusters/c/namespaces/n/targets/t"+strconv.Itoa(i), 3, 30))
	}
	mu.Lock()
	most, loads = 0, 0
	mu.Unlock()
	resp, err := s.targets.ListTargets(t.Context(), &setpointv1.ListTargetsRequest{Parent: "clusters/c/namespaces/n", PageSize: 1000})
	if err != nil || len(resp.GetTargets()) != 120 {
		t.Fatalf("%d targets, %v", len(resp.GetTargets()), err)
	}
	if most != 50 || loads != 3 {
		t.Errorf("%d loads of at most %d records, want 3 of 50", loads, most)
	}
}

// So they are for a batch, and each of its requests is answered on its own target.
func TestBatchesLoadSomeRecordsAtOnce(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	most := 0
	s := start(t, func(su *setup) {
		su.engine = &countingLoads{faultyStore: su.store, loaded: func(n int) {
			mu.Lock()
			defer mu.Unlock()
			most = max(most, n)
		}}
	})
	batch := &setpointv1.BatchRecommendRequest{}
	for i := range 900 {
		// Each target twice, far apart.
		batch.Requests = append(batch.Requests, queue("clusters/c/namespaces/n/targets/t"+strconv.Itoa(i%450), 3, int32(10*(i%450+1))))
	}
	resp, err := s.recommendations.BatchRecommend(t.Context(), batch)
	if err != nil {
		t.Fatal(err)
	}
	for i, result := range resp.GetResults() {
		single := s.recommend(t, with(batch.GetRequests()[i], dryRun))
		if got, want := result.GetResponse().GetDesiredReplicas(), single.GetDesiredReplicas(); result.GetError() != nil || got != want {
			t.Fatalf("request %d: %d replicas (%v), want %d", i, got, result.GetError(), want)
		}
	}
	if most != 225 { // 250 at most, in parts alike
		t.Errorf("%d records were loaded at once, want 225 of 450", most)
	}
}

// countingLoads records how many records were loaded at once.
type countingLoads struct {
	*faultyStore
	loaded func(int)
}

func (c *countingLoads) LoadBatch(ctx context.Context, keys []store.Key) ([]store.Record, error) {
	c.loaded(len(keys))
	return c.faultyStore.LoadBatch(ctx, keys)
}
