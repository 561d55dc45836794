// Command go asks a running server how many replicas a workload should have.
//
//	go run ./go [host:port]
package main

import (
	"context"
	"fmt"
	"log"
	"os"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/clients/setpoint"
)

const target = "clusters/demo/namespaces/shop/targets/go"

func main() {
	log.SetFlags(0)
	address := "127.0.0.1:9090"
	if len(os.Args) > 1 {
		address = os.Args[1]
	}
	if err := run(address); err != nil {
		for _, v := range setpoint.Violations(err) {
			log.Printf("%s: %s", v.Field, v.Description)
		}
		log.Fatalf("%v\n(is the server running: make run?)", err)
	}
}

func run(address string) error {
	client, err := setpoint.New(address, setpoint.WithInsecure(), setpoint.WithUserAgent("example-go"))
	if err != nil {
		return err
	}
	defer client.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()

	// The client fills in a request id, so that a retry counts once.
	request := &setpointv1.RecommendRequest{
		Target: target,
		Spec: &setpointv1.HorizontalPodAutoscalerSpec{
			MinReplicas: new(int32(2)), MaxReplicas: 20,
			Metrics: []*setpointv1.MetricSpec{{Type: "Resource", Resource: &setpointv1.ResourceMetricSource{
				Name: "cpu", Target: &setpointv1.MetricTarget{Type: "Utilization", AverageUtilization: new(int32(60))},
			}}},
			Behavior: &setpointv1.HorizontalPodAutoscalerBehavior{
				ScaleDown: &setpointv1.HPAScalingRules{StabilizationWindowSeconds: new(int32(120))},
			},
		},
		Scale:      &setpointv1.Scale{SpecReplicas: 3, StatusReplicas: new(int32(3))},
		Pods:       []*setpointv1.Pod{pod("web-a"), pod("web-b"), pod("web-c")},
		PodMetrics: []*setpointv1.PodMetrics{usage("web-a"), usage("web-b"), usage("web-c")},
		Explain:    true,
	}
	answer, err := client.Recommend(ctx, request)
	if err != nil {
		return err // hold the count
	}
	// What lost a field on its way reads as zero replicas.
	if err := setpoint.CheckAnswer(setpoint.Asked{Request: request}, answer); err != nil {
		return err // hold the count
	}
	fmt.Printf("%s: %d → %d replicas\n", answer.GetAction(), answer.GetCurrentReplicas(), answer.GetDesiredReplicas())
	fmt.Println("because:", answer.GetReason())
	for _, metric := range answer.GetExplanation().GetMetrics() {
		fmt.Printf("%s: ratio %v, asks for %d\n", metric.GetName(), metric.GetUsageRatio(), metric.GetProposal())
	}
	if answer.GetAction() == "NONE" {
		return nil
	}

	// Here the workload is scaled. Then:
	report, err := client.ReportScale(ctx, &setpointv1.ReportScaleRequest{
		Target: target, RecommendationId: answer.GetRecommendationId(), Outcome: "APPLIED",
	})
	if err != nil {
		return err
	}
	for _, condition := range report.GetStatus().GetConditions() {
		if condition.GetType() == "AbleToScale" {
			fmt.Println("reported:", condition.GetReason())
		}
	}
	// A program that goes on sleeps for its period now. With a ticker the next question
	// might come less than a period after this change, and would be held back by it.
	return nil
}

// pod is a pod that has long been ready.
func pod(name string) *setpointv1.Pod {
	start := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	return &setpointv1.Pod{
		Name: name, Phase: "Running", StartTime: timestamppb.New(start),
		Ready:      &setpointv1.PodReadyCondition{Status: "True", LastTransitionTime: timestamppb.New(start.Add(20 * time.Second))},
		Containers: []*setpointv1.Container{{Name: "app", Requests: map[string]string{"cpu": "500m"}}},
	}
}

// usage is what a pod uses: 90 % of its request.
func usage(name string) *setpointv1.PodMetrics {
	return &setpointv1.PodMetrics{
		Pod: name, Timestamp: timestamppb.New(time.Date(2026, 1, 1, 1, 0, 0, 0, time.UTC)), WindowSeconds: 30,
		Containers: []*setpointv1.ContainerMetrics{{Name: "app", Usage: map[string]string{"cpu": "450m"}}},
	}
}
