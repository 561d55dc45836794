package server_test

import (
	"fmt"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/internal/fatal"
	"github.com/setpoint-dev/setpoint/server/servertest"
)

// podsMetrics adds metrics of custom.metrics.k8s.io with a value of each pod.
func podsMetrics(metrics int) func(*setpointv1.RecommendRequest) {
	return func(req *setpointv1.RecommendRequest) {
		for i := range metrics {
			id := &setpointv1.MetricIdentifier{Name: fmt.Sprintf("requests_per_second_%d", i)}
			req.Spec.Metrics = append(req.Spec.Metrics, &setpointv1.MetricSpec{Type: "Pods", Pods: &setpointv1.PodsMetricSource{
				Metric: id, Target: &setpointv1.MetricTarget{Type: "AverageValue", AverageValue: new("100")},
			}})
			for _, p := range req.Pods {
				req.CustomMetrics = append(req.CustomMetrics, &setpointv1.CustomMetric{
					Metric: id, DescribedObject: &setpointv1.CrossVersionObjectReference{Kind: "Pod", Name: p.Name, ApiVersion: "v1"},
					Timestamp: timestamppb.New(servertest.T0), Value: "99500m",
				})
			}
		}
	}
}

// resourceMetrics makes it so many metrics of resources.
func resourceMetrics(metrics int) func(*setpointv1.RecommendRequest) {
	return func(req *setpointv1.RecommendRequest) {
		cpu := req.Spec.Metrics[0]
		memory := &setpointv1.MetricSpec{Type: "Resource", Resource: &setpointv1.ResourceMetricSource{
			Name: "memory", Target: &setpointv1.MetricTarget{Type: "AverageValue", AverageValue: new("300Mi")},
		}}
		req.Spec.Metrics = nil
		for len(req.Spec.Metrics) < metrics {
			req.Spec.Metrics = append(req.Spec.Metrics, []*setpointv1.MetricSpec{cpu, memory}[len(req.Spec.Metrics)%2])
		}
	}
}

// series gives a request so many series of its external metric, as they come from a
// monitoring system.
func series(n int) func(*setpointv1.RecommendRequest) {
	return func(req *setpointv1.RecommendRequest) {
		req.ExternalMetrics = nil
		for i := range n {
			req.ExternalMetrics = append(req.ExternalMetrics, &setpointv1.ExternalMetric{
				Metric:    &setpointv1.MetricIdentifier{Name: "queue-depth"},
				Labels:    map[string]string{"queue": fmt.Sprintf("orders-%06d", i), "region": "eu-central-1", "tenant": "shop"},
				Timestamp: timestamppb.New(servertest.T0), Value: "1",
			})
		}
	}
}

// What honest callers ask for is served, however much it is: by every transport, on the fast
// path and on the slow one, with the same answer.
func TestHonestRequestsAreServed(t *testing.T) {
	measures(t)
	s := servertest.Start(t)
	for name, c := range map[string]struct {
		req *setpointv1.RecommendRequest
		// listed is how many pods an explanation lists at least, of each metric.
		listed int
	}{
		"20,000 pods":                                {req: servertest.PodsRequest(20_000)},
		"20,000 pods, explained":                     {req: servertest.With(servertest.PodsRequest(20_000), servertest.Explained), listed: 1000},
		"20,000 pods with 100 metrics":               {req: servertest.With(servertest.PodsRequest(20_000), resourceMetrics(100))},
		"20,000 pods with 3 metrics of their own":    {req: servertest.With(servertest.PodsRequest(20_000), podsMetrics(3))},
		"1,000 pods, explained whole":                {req: servertest.With(servertest.PodsRequest(1000), servertest.Explained), listed: 1000},
		"1,000 pods with 10 of their own, explained": {req: servertest.With(servertest.PodsRequest(1000), podsMetrics(10), servertest.Explained), listed: 1000},
		"50,000 series":                              {req: servertest.With(servertest.Queue(servertest.Web, 3, 50), series(50_000))},
	} {
		t.Run(name, func(t *testing.T) {
			c.req.DryRun = true
			c.req.Spec.MaxReplicas = 30_000 // else it has too many, and its metrics don't matter
			data := servertest.Encoded(t, c.req)
			var first *setpointv1.RecommendResponse
			// How many pods an explanation lists differs with what reading takes.
			plain := func(resp *setpointv1.RecommendResponse) *setpointv1.RecommendResponse {
				resp = servertest.WithoutID(resp)
				resp.Explanation = nil
				return resp
			}
			check := func(t *testing.T, resp *setpointv1.RecommendResponse) {
				t.Helper()
				if resp.GetStatus() == nil {
					t.Fatal("there is no answer")
				}
				if first == nil {
					first = resp
				}
				if !proto.Equal(plain(first), plain(resp)) {
					t.Error("the answer differs from that of the first way")
				}
				for _, m := range resp.GetExplanation().GetMetrics() {
					if len(m.GetPods()) < c.listed || len(m.GetPods())+int(m.GetLeftOutPods()) != len(c.req.GetPods()) {
						t.Errorf("%d pods are listed and %d left out of %d", len(m.GetPods()), m.GetLeftOutPods(), len(c.req.GetPods()))
					}
				}
			}
			decode := func(t *testing.T, answer []byte, into proto.Message) {
				t.Helper()
				fatal.If(t, proto.Unmarshal(answer, into))
			}
			for way, data := range map[string][]byte{"short": data, "long": servertest.Unusual(data)} {
				t.Run("unary, "+way, func(t *testing.T) {
					answer, err := s.SendRaw(t.Context(), servertest.UnaryMethod, data)
					if err != nil {
						t.Fatalf("%d bytes: %v", len(data), err)
					}
					resp := &setpointv1.RecommendResponse{}
					decode(t, answer, resp)
					check(t, resp)
				})
				t.Run("stream, "+way, func(t *testing.T) {
					message := protowire.AppendString(protowire.AppendTag(nil, 1, protowire.BytesType), "1")
					message = protowire.AppendBytes(protowire.AppendTag(message, 2, protowire.BytesType), data)
					answer, err := s.StreamRaw(t.Context(), message)
					fatal.If(t, err)
					resp := &setpointv1.StreamRecommendResponse{}
					decode(t, answer, resp)
					if resp.GetError() != nil {
						t.Fatal(resp.GetError().GetMessage())
					}
					check(t, resp.GetResponse())
				})
				t.Run("batch, "+way, func(t *testing.T) {
					batch := protowire.AppendBytes(protowire.AppendTag(nil, 1, protowire.BytesType), data)
					answer, err := s.SendRaw(t.Context(), servertest.BatchedMethod, batch)
					fatal.If(t, err)
					resp := &setpointv1.BatchRecommendResponse{}
					decode(t, answer, resp)
					if failed := resp.GetResults()[0].GetError(); failed != nil {
						t.Fatal(failed.GetMessage())
					}
					check(t, resp.GetResults()[0].GetResponse())
				})
			}
			rest := servertest.With(c.req, servertest.WithTarget(""))
			body, err := protojson.Marshal(rest)
			fatal.If(t, err)
			for way, path := range map[string]string{"short": servertest.RecommendPath(servertest.Web), "gateway": servertest.RecommendPath(servertest.Web) + "?"} {
				t.Run("REST, "+way, func(t *testing.T) {
					body := body
					if len(body) > 16<<20 {
						t.Skip("too large as JSON")
					}
					if way == "gateway" { // which numbers that are texts go to as well
						body = []byte(strings.Replace(string(body), `"dryRun":true`, `"dry_run":true`, 1))
					}
					if code := postRaw(t, s, path, body); code != 200 {
						t.Errorf("HTTP %d for %d bytes", code, len(body))
					}
				})
			}
		})
	}
}

// A whole batch is served, on the fast path and on the slow one.
func TestHonestBatchesAreServed(t *testing.T) {
	s := servertest.Start(t)
	for name, change := range map[string]func(*setpointv1.RecommendRequest){
		"plain":                   func(*setpointv1.RecommendRequest) {},
		"with metrics of its own": podsMetrics(3),
		"explained":               servertest.Explained,
	} {
		t.Run(name, func(t *testing.T) {
			for way, encode := range map[string]func([]byte) []byte{"short": func(b []byte) []byte { return b }, "long": servertest.Unusual} {
				t.Run(way, func(t *testing.T) {
					var batch []byte
					for i := range 1000 {
						req := servertest.With(servertest.PodsRequest(10), servertest.WithTarget(fmt.Sprintf("clusters/c/namespaces/n/targets/t%d", i)), change, servertest.DryRun)
						batch = protowire.AppendTag(batch, 1, protowire.BytesType)
						batch = protowire.AppendBytes(batch, encode(servertest.Encoded(t, req)))
					}
					answer, err := s.SendRaw(t.Context(), servertest.BatchedMethod, batch)
					fatal.If(t, err)
					resp := &setpointv1.BatchRecommendResponse{}
					fatal.If(t, proto.Unmarshal(answer, resp))
					if len(resp.GetResults()) != 1000 {
						t.Errorf("%d results", len(resp.GetResults()))
					}
					for i, r := range resp.GetResults() {
						if r.GetError() != nil {
							t.Fatalf("item %d: %s", i, r.GetError().GetMessage())
						}
						if e := r.GetResponse().GetExplanation(); e != nil && len(e.GetMetrics()[0].GetPods()) != 10 {
							t.Fatalf("item %d: %d pods are listed", i, len(e.GetMetrics()[0].GetPods()))
						}
					}
				})
			}
		})
	}
}

// 64 messages of a stream are in flight at once, each of a thousand pods.
func TestHonestStreamsAreServed(t *testing.T) {
	s := servertest.Start(t)
	const n = 64
	stream := s.Stream(t)
	sent := make(chan error, 1)
	go func() {
		for i := range n {
			req := servertest.With(servertest.PodsRequest(1000), servertest.WithTarget(fmt.Sprintf("clusters/c/namespaces/n/targets/t%d", i)), servertest.Explained)
			if err := stream.Send(&setpointv1.StreamRecommendRequest{Id: fmt.Sprint(i), Request: req}); err != nil {
				sent <- err
				return
			}
		}
		sent <- stream.CloseSend()
	}()
	all, _ := servertest.ReceiveAll(t, stream)
	fatal.If(t, <-sent)
	for i := range n {
		r := all[fmt.Sprint(i)]
		if r.GetError() != nil || len(r.GetResponse().GetExplanation().GetMetrics()) != 1 || len(r.GetResponse().GetExplanation().GetMetrics()[0].GetPods()) != 1000 {
			t.Errorf("message %d: %.200v", i, r)
		}
	}
}
