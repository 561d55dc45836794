package server_test

import (
	"fmt"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/internal/fatal"
	"github.com/setpoint-dev/setpoint/server/servertest"
)

// empties appends a field of a RecommendRequest without content so often.
func empties(data []byte, field protowire.Number, n int) []byte {
	one := protowire.AppendTag(nil, field, protowire.BytesType)
	one = append(one, 0)
	for range n {
		data = append(data, one...)
	}
	return data
}

// attack is a request that makes much of few bytes. ok says that it is answered, not
// refused.
type attack struct {
	name string
	data []byte
	ok   bool
}

// attacks are the requests of a hostile review, and their siblings.
func attacks(tb testing.TB) []attack {
	base := servertest.Encoded(tb, servertest.WebRequest(tb))
	status := protowire.AppendTag(append([]byte(nil), base...), 16, protowire.BytesType)
	status = protowire.AppendBytes(status, empties(nil, 5, 1<<20))
	containers := protowire.AppendTag(append([]byte(nil), base...), 6, protowire.BytesType)
	containers = protowire.AppendBytes(containers, empties(append([]byte("\x0a\x01p"), 0x10, 0), 7, 1<<20))
	var podsOfContainers []byte
	podsOfContainers = append(podsOfContainers, base...)
	for i := range 16000 {
		pod := append([]byte{0x0a, 6}, fmt.Sprintf("q%05d", i)...)
		podsOfContainers = protowire.AppendTag(podsOfContainers, 6, protowire.BytesType)
		podsOfContainers = protowire.AppendBytes(podsOfContainers, empties(pod, 7, 500-i%7))
	}
	maps := append([]byte(nil), base...)
	for i := range 100_000 {
		metrics := append([]byte{0x0a, 6}, fmt.Sprintf("q%05d", i)...)
		metrics = append(metrics, "\x22\x02\x12\x00"...) // a container with an empty usage
		maps = protowire.AppendTag(maps, 7, protowire.BytesType)
		maps = protowire.AppendBytes(maps, metrics)
	}
	return []attack{
		{"600 kB of empty metricErrors", empties(append([]byte(nil), base...), 10, 300_000), false},
		{"1 MB of empty podMetrics", empties(append([]byte(nil), base...), 7, 500_000), false},
		{"80 kB of empty podMetrics", empties(append([]byte(nil), base...), 7, 40_000), true},
		{"2 MB of previousStatus.currentMetrics", status, false},
		{"8 MB of empty pods", empties(append([]byte(nil), base...), 6, 4<<20), false},
		{"2 MB of empty containers of a pod", containers, false},
		{"16 MB of empty containers of many pods", podsOfContainers, false},
		{"empty maps of usage", maps, false},
		{"20,000 pods and 100 metrics, explained", servertest.Encoded(tb, crowd(20_000, 100)), true},
		{"series that differ in a label", servertest.Encoded(tb, differingSeries(3000)), true},
		{"many series that differ in a label", servertest.Encoded(tb, differingSeries(50_000)), true},
		{"selectors and series", servertest.Encoded(tb, selectorsAndSeries(100, 100, 2000, false)), false},
		{"selectors of series", servertest.Encoded(tb, selectorsAndSeries(1, 100, 2000, true)), false},
		{"long names", servertest.Encoded(tb, longNames(100, 20_000)), false},
		{"readings of many metrics", servertest.Encoded(tb, sharedReadings(100, 20_000)), false},
		{"unmatched readings, explained", servertest.Encoded(tb, unmatched(15_000)), true},
	}
}

// crowd is a valid request of few bytes with an explanation of many pods.
func crowd(pods, metrics int) *setpointv1.RecommendRequest {
	req := &setpointv1.RecommendRequest{
		Target: servertest.Web, Explain: true, RequestId: "once", Scale: &setpointv1.Scale{SpecReplicas: 10},
		Spec: &setpointv1.HorizontalPodAutoscalerSpec{MaxReplicas: 100},
	}
	for range metrics {
		req.Spec.Metrics = append(req.Spec.Metrics, &setpointv1.MetricSpec{Type: "Resource", Resource: &setpointv1.ResourceMetricSource{
			Name: "cpu", Target: &setpointv1.MetricTarget{Type: "AverageValue", AverageValue: new("1")},
		}})
	}
	for i := range pods {
		req.Pods = append(req.Pods, &setpointv1.Pod{Name: fmt.Sprintf("%x", i+0x10000)})
	}
	req.PodMetrics = []*setpointv1.PodMetrics{{Pod: req.Pods[0].Name, Containers: []*setpointv1.ContainerMetrics{{Usage: map[string]string{"cpu": "1"}}}}}
	return req
}

// differingSeries has series of one metric that differ in a label.
func differingSeries(n int) *setpointv1.RecommendRequest {
	req := servertest.Queue(servertest.Web, 3, 50)
	req.ExternalMetrics = nil
	for i := range n {
		req.ExternalMetrics = append(req.ExternalMetrics, &setpointv1.ExternalMetric{
			Metric: &setpointv1.MetricIdentifier{Name: "queue-depth"}, Labels: map[string]string{"a": fmt.Sprint(i)}, Value: "1",
		})
	}
	return req
}

// selectorsAndSeries has metrics with one name and selectors of that many requirements,
// and series that must be compared with all of them, or have selectors themselves.
func selectorsAndSeries(metrics, requirements, series int, selected bool) *setpointv1.RecommendRequest {
	req := differingSeries(series)
	selector := func(seed int) *setpointv1.LabelSelector {
		s := &setpointv1.LabelSelector{}
		for i := range requirements {
			s.MatchExpressions = append(s.MatchExpressions, &setpointv1.LabelSelectorRequirement{Key: fmt.Sprintf("k%d.%d", seed, i), Operator: "DoesNotExist"})
		}
		return s
	}
	metric := req.Spec.Metrics[0]
	req.Spec.Metrics = nil
	for i := range metrics {
		m := proto.CloneOf(metric)
		m.External.Metric.Selector = selector(i)
		req.Spec.Metrics = append(req.Spec.Metrics, m)
	}
	for i, series := range req.ExternalMetrics {
		if selected {
			series.Metric.Selector = selector(i)
		}
	}
	return req
}

// longNames has metrics with long names that can't be computed: each is quoted often.
func longNames(metrics, length int) *setpointv1.RecommendRequest {
	req := servertest.Queue(servertest.Web, 3, 50)
	metric := req.Spec.Metrics[0]
	req.Spec.Metrics, req.ExternalMetrics, req.Explain, req.RequestId = nil, nil, true, "once"
	for i := range metrics {
		m := proto.CloneOf(metric)
		m.External.Metric.Name = strings.Repeat("x", length) + fmt.Sprint(i)
		req.Spec.Metrics = append(req.Spec.Metrics, m)
	}
	return req
}

// sharedReadings has readings that belong to many metrics each.
func sharedReadings(metrics, readings int) *setpointv1.RecommendRequest {
	req := differingSeries(readings)
	for len(req.Spec.Metrics) < metrics {
		req.Spec.Metrics = append(req.Spec.Metrics, req.Spec.Metrics[0])
	}
	return req
}

// unmatched has readings of no metric of the spec.
func unmatched(n int) *setpointv1.RecommendRequest {
	req := differingSeries(n)
	req.Explain = true
	for _, series := range req.ExternalMetrics {
		series.Metric.Name = "other"
	}
	return req
}

// Whatever is sent, it costs no more than its bytes allow: alone, in a batch, on a
// stream, and as JSON.
func TestCostOfAttacks(t *testing.T) {
	measures(t)
	s := servertest.Start(t)
	for _, a := range attacks(t) {
		t.Run(a.name, func(t *testing.T) {
			judge := func(t *testing.T, err error) {
				switch code := status.Code(err); {
				case a.ok && err != nil:
					t.Errorf("refused: %v", err)
				case !a.ok && code != codes.InvalidArgument && code != codes.ResourceExhausted:
					t.Errorf("got %v, want a refusal", err)
				}
			}
			t.Run("unary", func(t *testing.T) {
				checkCost(t, len(a.data), func() bool {
					_, err := s.SendRaw(t.Context(), servertest.UnaryMethod, a.data)
					judge(t, err)
					return a.ok
				})
			})
			t.Run("stream", func(t *testing.T) {
				message := protowire.AppendTag(nil, 1, protowire.BytesType)
				message = protowire.AppendString(message, "1")
				message = protowire.AppendTag(message, 2, protowire.BytesType)
				message = protowire.AppendBytes(message, a.data)
				checkCost(t, len(message), func() bool {
					if _, err := s.StreamRaw(t.Context(), message); err != nil {
						t.Error(err)
					}
					return a.ok
				})
			})
			t.Run("batch", func(t *testing.T) {
				var batch []byte
				for len(batch)+len(a.data) < 2<<20 || len(batch) == 0 {
					batch = protowire.AppendTag(batch, 1, protowire.BytesType)
					batch = protowire.AppendBytes(batch, a.data)
				}
				checkCost(t, len(batch), func() bool {
					if _, err := s.SendRaw(t.Context(), servertest.BatchedMethod, batch); err != nil {
						judge(t, err)
					}
					return a.ok
				})
			})
			t.Run("REST", func(t *testing.T) {
				req := &setpointv1.RecommendRequest{}
				fatal.If(t, proto.Unmarshal(a.data, req))
				req.Target = ""
				body, err := protojson.Marshal(req)
				fatal.If(t, err)
				if len(body) > 16<<20 {
					t.Skip("too large as JSON")
				}
				checkCost(t, len(body), func() bool {
					if code := postRaw(t, s, servertest.RecommendPath(servertest.Web), body); (code == 200) != a.ok {
						t.Errorf("HTTP %d", code)
					}
					return a.ok
				})
			})
		})
	}
}
