package setpoint_test

import (
	"context"
	"fmt"
	"log"
	"net"
	"time"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/clients/setpoint"
	"github.com/setpoint-dev/setpoint/server"
	"github.com/setpoint-dev/setpoint/store/memory"
)

// service starts a service, as setpoint serve does.
func service() (address string, stop func()) {
	engine := memory.New(memory.Options{})
	s, err := server.New(engine, engine, server.DefaultOptions())
	if err != nil {
		log.Fatal(err)
	}
	grpc, rest := loopback(), loopback()
	ctx, cancel := context.WithCancel(context.Background())
	served := make(chan error)
	go func() { served <- s.Serve(ctx, grpc, rest) }()
	return grpc.Addr().String(), func() {
		cancel()
		if err := <-served; err != nil {
			log.Fatal(err)
		}
	}
}

func loopback() net.Listener {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		log.Fatal(err)
	}
	return l
}

// A caller's loop; it repeats this 15 seconds after it is done.
func ExampleClient() {
	address, stop := service()
	defer stop()
	client, err := setpoint.New(address, setpoint.WithInsecure(), setpoint.WithUserAgent("example/1.0"))
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()

	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	const target = "clusters/demo/namespaces/shop/targets/worker"
	answer, err := client.Recommend(ctx, &setpointv1.RecommendRequest{
		Target: target,
		Spec: &setpointv1.HorizontalPodAutoscalerSpec{
			MaxReplicas: 20,
			Metrics: []*setpointv1.MetricSpec{{Type: "External", External: &setpointv1.ExternalMetricSource{
				Metric: &setpointv1.MetricIdentifier{Name: "queue-depth"},
				Target: &setpointv1.MetricTarget{Type: "AverageValue", AverageValue: new("100")},
			}}},
			// Without it, the count of an old peak can raise the count while the queue empties.
			Behavior: &setpointv1.HorizontalPodAutoscalerBehavior{},
		},
		Scale: &setpointv1.Scale{SpecReplicas: 3},
		ExternalMetrics: []*setpointv1.ExternalMetric{{
			Metric: &setpointv1.MetricIdentifier{Name: "queue-depth"}, Value: "450",
		}},
	})
	if err != nil {
		log.Fatal(err) // hold the count
	}
	fmt.Println(answer.GetAction(), answer.GetDesiredReplicas(), "because:", answer.GetReason())

	// Here the workload is scaled. Then:
	report, err := client.ReportScale(ctx, &setpointv1.ReportScaleRequest{
		Target: target, RecommendationId: answer.GetRecommendationId(), Outcome: "APPLIED",
	})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(report.GetStatus().GetConditions()[0].GetReason())
	// Output:
	// SCALE_UP 5 because: external metric queue-depth(nil) above target
	// SucceededRescale
}

func ExampleViolations() {
	address, stop := service()
	defer stop()
	client, err := setpoint.New(address, setpoint.WithInsecure())
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	_, err = client.Recommend(context.Background(), &setpointv1.RecommendRequest{
		Target: "clusters/demo/namespaces/shop/targets/worker",
		Spec:   &setpointv1.HorizontalPodAutoscalerSpec{MinReplicas: new(int32(3)), MaxReplicas: 2},
		Scale:  &setpointv1.Scale{SpecReplicas: 3},
	})
	for _, v := range setpoint.Violations(err) {
		fmt.Printf("%s: %s\n", v.Field, v.Description)
	}
	// Output:
	// spec.maxReplicas: Invalid value: 2: must be greater than or equal to `minReplicas`
}

func ExampleStream() {
	address, stop := service()
	defer stop()
	client, err := setpoint.New(address, setpoint.WithInsecure())
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	stream := client.Stream(setpoint.DefaultInFlight)
	defer stream.Close()
	answers := make(chan int32)
	for range 3 { // as many goroutines as there are targets
		go func() {
			answer, err := stream.Recommend(context.Background(), queue("clusters/demo/namespaces/shop/targets/worker", 3, 50))
			if err != nil {
				log.Fatal(err)
			}
			answers <- answer.GetDesiredReplicas()
		}()
	}
	fmt.Println(<-answers, <-answers, <-answers)
	// Output: 5 5 5
}
