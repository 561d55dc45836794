//go:build linux

package ui

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strconv"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
)

// living is a workload of a believable fleet: its spec, and its load over time.
type living struct {
	cluster, namespace, name, kind string
	spec                           *setpointv1.HorizontalPodAutoscalerSpec
	metric                         metric
	// load is the metric's total, by hour of the day and a random number.
	load func(hour, noise float64) float64
	// fails says from which of the last minutes on the metric can't be read; 0: it can.
	fails int
	// stored reports whether the service keeps the spec.
	stored bool

	replicas int32
	noise    float64
}

// metric is a workload's metric.
type metric struct {
	kind, name string
	perReplica float64 // the target
}

// night and day: a load between two values, highest at an hour of the day.
func daily(low, high, peak float64) func(hour, noise float64) float64 {
	return func(hour, noise float64) float64 {
		return (low + (high-low)*(1+math.Cos((hour-peak)/12*math.Pi))/2) * (1 + 0.06*noise)
	}
}

// square jumps between two values every so many minutes.
func square(low, high, minutes float64) func(hour, noise float64) float64 {
	return func(hour, noise float64) float64 {
		if math.Mod(hour*60, 2*minutes) < minutes {
			return low * (1 + 0.03*noise)
		}
		return high * (1 + 0.03*noise)
	}
}

// bursts are high for a few minutes of each hour.
func bursts(low, high, minute, lasts float64) func(hour, noise float64) float64 {
	return func(hour, noise float64) float64 {
		at := math.Mod(hour*60, 60) - minute
		if at < 0 {
			at += 60
		}
		if at < lasts {
			return high * (1 + 0.05*noise)
		}
		return (low + (high-low)*math.Exp(-(at-lasts)/6)) * (1 + 0.05*noise)
	}
}

// aFleet is some forty workloads of four clusters. now is the hour of the day that loads peak
// around, so that pictures look alike at any time.
func aFleet(now float64) []*living {
	requests := func(n float64) metric { return metric{"Pods", "http_requests_per_second", n} }
	queue := func(name string, n float64) metric { return metric{"External", name, n} }
	cpu := metric{"Resource", "cpu", 0.6}
	fleet := []*living{
		{cluster: "eu-west", namespace: "shop", name: "checkout", metric: requests(120), load: bursts(620, 1750, math.Mod(now*60-11, 60), 9), stored: true},
		{cluster: "eu-west", namespace: "shop", name: "cart", metric: requests(150), load: daily(300, 1900, now-1)},
		{cluster: "eu-west", namespace: "shop", name: "catalog", metric: cpu, load: daily(2, 11, now-0.5)},
		{cluster: "eu-west", namespace: "shop", name: "search", metric: cpu, load: bursts(4, 16, math.Mod(now*60-4, 60), 12)},
		{cluster: "eu-west", namespace: "shop", name: "storefront", metric: requests(200), load: daily(900, 5200, now-2)},
		{cluster: "eu-west", namespace: "payments", name: "authorize", metric: requests(60), load: daily(200, 700, now), stored: true},
		{cluster: "eu-west", namespace: "payments", name: "settlement", metric: queue("settlements_waiting", 400), load: bursts(300, 9000, math.Mod(now*60-3, 60), 14)},
		{cluster: "eu-west", namespace: "payments", name: "fraud-score", metric: cpu, load: daily(1, 6, now-3), fails: 9},
		{cluster: "eu-west", namespace: "media", name: "transcode", metric: queue("videos_waiting", 5), load: bursts(20, 260, math.Mod(now*60-2, 60), 20)},
		{cluster: "eu-west", namespace: "media", name: "thumbnails", metric: queue("images_waiting", 50), load: square(180, 420, 8)},
		{cluster: "us-east", namespace: "shop", name: "checkout", metric: requests(120), load: daily(200, 1500, now-6)},
		{cluster: "us-east", namespace: "shop", name: "cart", metric: requests(150), load: daily(300, 1500, now+5)},
		{cluster: "us-east", namespace: "shop", name: "catalog", metric: cpu, load: daily(2, 9, now+6)},
		{cluster: "us-east", namespace: "shop", name: "search", metric: cpu, load: daily(3, 12, now+4)},
		{cluster: "us-east", namespace: "shop", name: "storefront", metric: requests(200), load: daily(800, 4100, now+5)},
		{cluster: "us-east", namespace: "payments", name: "authorize", metric: requests(60), load: daily(150, 600, now+6)},
		{cluster: "us-east", namespace: "payments", name: "ledger", metric: cpu, load: square(2.2, 3.4, 9)},
		{cluster: "us-east", namespace: "mail", name: "newsletter", metric: queue("mails_waiting", 1000), load: bursts(800, 14000, math.Mod(now*60-16, 60), 7)},
		{cluster: "us-east", namespace: "mail", name: "transactional", metric: queue("mails_waiting", 200), load: daily(300, 900, now+3)},
		{cluster: "ap-south", namespace: "shop", name: "checkout", metric: requests(120), load: daily(150, 1300, now-9)},
		{cluster: "ap-south", namespace: "shop", name: "cart", metric: requests(150), load: daily(200, 1200, now-10)},
		{cluster: "ap-south", namespace: "shop", name: "storefront", metric: requests(200), load: daily(500, 3100, now-8)},
		{cluster: "ap-south", namespace: "payments", name: "authorize", metric: requests(60), load: daily(100, 420, now-9), fails: 25},
		{cluster: "edge", namespace: "ingest", name: "telemetry", metric: queue("kafka_consumer_lag", 2500), load: bursts(6000, 48000, math.Mod(now*60-6, 60), 8)},
		{cluster: "edge", namespace: "ingest", name: "clicks", metric: queue("kafka_consumer_lag", 2500), load: daily(3000, 22000, now-1)},
		{cluster: "edge", namespace: "ingest", name: "audit", metric: queue("kafka_consumer_lag", 1000), load: square(800, 900, 20)},
		{cluster: "edge", namespace: "dns", name: "resolver", metric: requests(900), load: daily(2000, 8000, now-2)},
	}
	for i, name := range []string{"accounts", "addresses", "coupons", "giftcards", "inventory", "loyalty", "pricing", "recommendations", "returns", "reviews", "shipping", "sitemap", "tax", "wishlist"} {
		fleet = append(fleet, &living{cluster: []string{"eu-west", "us-east"}[i%2], namespace: "services", name: name, metric: cpu, load: daily(0.8, 2.2+float64(i%5), now-float64(i))})
	}
	for i, w := range fleet {
		least, most := int32(2), int32(20)
		switch w.namespace + "/" + w.name {
		case "media/transcode":
			most = 24
		case "payments/settlement", "ingest/telemetry":
			most = 14
		case "shop/checkout":
			least, most = 3, 18
		case "shop/storefront":
			least, most = 4, 40
		}
		w.kind, w.replicas = "Deployment", least
		w.spec = &setpointv1.HorizontalPodAutoscalerSpec{
			ScaleTargetRef: &setpointv1.CrossVersionObjectReference{ApiVersion: "apps/v1", Kind: w.kind, Name: w.name},
			MinReplicas:    &least, MaxReplicas: most, Metrics: []*setpointv1.MetricSpec{w.metric.spec()},
		}
		if i == 0 || w.namespace == "ingest" || w.name == "newsletter" {
			w.spec.Behavior = &setpointv1.HorizontalPodAutoscalerBehavior{
				ScaleUp:   &setpointv1.HPAScalingRules{Policies: []*setpointv1.HPAScalingPolicy{{Type: "Pods", Value: 3, PeriodSeconds: 60}}},
				ScaleDown: &setpointv1.HPAScalingRules{Policies: []*setpointv1.HPAScalingPolicy{{Type: "Percent", Value: 25, PeriodSeconds: 60}}},
			}
		}
		if w.name == "thumbnails" || w.name == "ledger" { // whose windows are too short for their load
			none := int32(0)
			w.spec.Behavior = &setpointv1.HorizontalPodAutoscalerBehavior{ScaleDown: &setpointv1.HPAScalingRules{StabilizationWindowSeconds: &none}}
		}
	}
	return fleet
}

func (m metric) spec() *setpointv1.MetricSpec {
	id := &setpointv1.MetricIdentifier{Name: m.name}
	target := &setpointv1.MetricTarget{Type: "AverageValue"}
	text := strconv.FormatFloat(m.perReplica, 'f', -1, 64)
	target.AverageValue = &text
	switch m.kind {
	case "Resource":
		percent := int32(m.perReplica * 100)
		return &setpointv1.MetricSpec{Type: m.kind, Resource: &setpointv1.ResourceMetricSource{Name: m.name, Target: &setpointv1.MetricTarget{Type: "Utilization", AverageUtilization: &percent}}}
	case "Pods":
		return &setpointv1.MetricSpec{Type: m.kind, Pods: &setpointv1.PodsMetricSource{Metric: id, Target: target}}
	default:
		return &setpointv1.MetricSpec{Type: m.kind, External: &setpointv1.ExternalMetricSource{Metric: id, Target: target}}
	}
}

// asks is a request about the workload at an instant.
func (w *living) asks(at, now time.Time, random *rand.Rand) *setpointv1.RecommendRequest {
	w.noise += (random.Float64()*2 - 1 - w.noise) * 0.25 // it wanders, as noise of load does
	hour := float64(at.Unix()%86400) / 3600
	load := w.load(hour, w.noise*3)
	r := &setpointv1.RecommendRequest{
		Target: fmt.Sprintf("clusters/%s/namespaces/%s/targets/%s", w.cluster, w.namespace, w.name),
		Spec:   w.spec, Scale: &setpointv1.Scale{SpecReplicas: w.replicas, StatusReplicas: &w.replicas, Selector: "app=" + w.name},
		EvaluationTime: timestamppb.New(at),
	}
	if w.fails > 0 && at.After(now.Add(-time.Duration(w.fails)*time.Minute)) {
		r.MetricErrors = []*setpointv1.MetricError{{Metric: w.metric.name, Message: "unable to fetch metrics from resource metrics API: the server is currently unable to handle the request (get pods.metrics.k8s.io)"}}
	}
	each := load / float64(w.replicas)
	if w.metric.kind == "External" {
		r.ExternalMetrics = []*setpointv1.ExternalMetric{{Metric: &setpointv1.MetricIdentifier{Name: w.metric.name}, Value: strconv.Itoa(int(load))}}
		return r
	}
	for i := range w.replicas {
		name := fmt.Sprintf("%s-%d", w.name, i)
		value := each * (1 + 0.1*(random.Float64()-0.5))
		r.Pods = append(r.Pods, &setpointv1.Pod{
			Name: name, Phase: "Running", StartTime: timestamppb.New(at.Add(-48 * time.Hour)),
			Ready:      &setpointv1.PodReadyCondition{Status: "True", LastTransitionTime: timestamppb.New(at.Add(-47 * time.Hour))},
			Containers: []*setpointv1.Container{{Name: "app", Requests: map[string]string{"cpu": "1"}}},
		})
		switch w.metric.kind {
		case "Resource":
			r.PodMetrics = append(r.PodMetrics, &setpointv1.PodMetrics{
				Pod: name, Timestamp: timestamppb.New(at), WindowSeconds: 30,
				Containers: []*setpointv1.ContainerMetrics{{Name: "app", Usage: map[string]string{"cpu": fmt.Sprintf("%dm", int(value*1000))}}},
			})
		default:
			r.CustomMetrics = append(r.CustomMetrics, &setpointv1.CustomMetric{
				Metric: &setpointv1.MetricIdentifier{Name: w.metric.name}, Value: strconv.Itoa(int(value)),
				DescribedObject: &setpointv1.CrossVersionObjectReference{ApiVersion: "v1", Kind: "Pod", Name: name},
			})
		}
	}
	return r
}

// believable starts a service that has watched a fleet for an hour and a half, which goes on.
func believable(t *testing.T) *siteOf {
	t.Helper()
	s := site(t, "--allow-evaluation-time", "--decision-log-length=1000", "--decision-log-repeats=100000")
	now := time.Now()
	// Loads are by the hour of the day; pictures of any hour of it shall look alike.
	fleet := aFleet(float64(now.Unix()%86400) / 3600)
	random := rand.New(rand.NewPCG(1, 2))
	for _, w := range fleet {
		if !w.stored {
			continue
		}
		r := w.asks(now, now, random)
		if _, err := s.Targets().SetTargetSpec(t.Context(), &setpointv1.SetTargetSpecRequest{Name: r.GetTarget(), TargetSpec: &setpointv1.TargetSpec{Spec: w.spec}}); err != nil {
			t.Fatal(err)
		}
	}
	ask := func(at time.Time) {
		requests := make([]*setpointv1.RecommendRequest, len(fleet))
		for i, w := range fleet {
			requests[i] = w.asks(at, now, random)
		}
		answers, err := s.Recommendations().BatchRecommend(t.Context(), &setpointv1.BatchRecommendRequest{Requests: requests})
		if err != nil {
			t.Error(err)
			return
		}
		for i, r := range answers.GetResults() {
			if r.GetResponse() == nil {
				t.Errorf("%s: %v", fleet[i].name, r.GetError())
				return
			}
			fleet[i].replicas = r.GetResponse().GetDesiredReplicas()
		}
	}
	for at := now.Add(-90 * time.Minute); at.Before(now); at = at.Add(15 * time.Second) {
		ask(at)
	}
	return s
}
