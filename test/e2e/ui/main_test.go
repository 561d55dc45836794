//go:build linux

package ui

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc/metadata"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
)

func TestMain(m *testing.M) {
	// Services have the playground's engine only if it is there when they are built.
	engine := exec.Command("scripts/wasm.sh", "bin/engine", "web/engine")
	engine.Dir, engine.Stderr = "../../..", os.Stderr
	if err := engine.Run(); err != nil {
		fmt.Fprintln(os.Stderr, "scripts/wasm.sh:", err)
		os.Exit(1)
	}
	code := m.Run()
	endBrowser()
	os.Exit(code)
}

// feed has recommendations made for so many targets, web-00 and so on in the cluster demo and
// the namespace shop, twice a second each with another load, until the test ends or the function
// that it returns is called. token may be "".
func (s *siteOf) feed(t *testing.T, targets int, token string) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	if token != "" {
		ctx = metadata.AppendToOutgoingContext(ctx, "authorization", "Bearer "+token)
	}
	first := make(chan struct{})
	var fed sync.WaitGroup
	fed.Go(func() {
		tick := time.NewTicker(500 * time.Millisecond)
		defer tick.Stop()
		for round := 0; ; round++ {
			for i := range targets {
				// The service may be away: some tests are about that.
				_, _ = s.Recommendations().Recommend(ctx, request(fmt.Sprintf("web-%02d", i), "queue", 10+(round*7+i*13)%90))
			}
			if round == 0 {
				close(first)
			}
			select {
			case <-tick.C:
			case <-ctx.Done():
				return
			}
		}
	})
	var once sync.Once
	stop = func() { once.Do(func() { cancel(); fed.Wait() }) }
	t.Cleanup(stop)
	<-first
	return stop
}

// request requests a target in cluster demo and namespace shop that scales by a metric.
func request(target, metric string, load int) *setpointv1.RecommendRequest {
	one := "10"
	identifier := &setpointv1.MetricIdentifier{Name: metric}
	return &setpointv1.RecommendRequest{
		Target: "clusters/demo/namespaces/shop/targets/" + target,
		Spec: &setpointv1.HorizontalPodAutoscalerSpec{
			MaxReplicas: 12,
			Metrics: []*setpointv1.MetricSpec{{Type: "External", External: &setpointv1.ExternalMetricSource{
				Metric: identifier, Target: &setpointv1.MetricTarget{Type: "AverageValue", AverageValue: &one},
			}}},
		},
		Scale:           &setpointv1.Scale{SpecReplicas: 3},
		ExternalMetrics: []*setpointv1.ExternalMetric{{Metric: identifier, Value: fmt.Sprint(load)}},
	}
}
