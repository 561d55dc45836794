package recommender_test

import (
	"fmt"
	"time"

	"github.com/setpoint-dev/setpoint/recommender"
	"github.com/setpoint-dev/setpoint/recommender/encoding"
	"github.com/setpoint-dev/setpoint/recommender/quantity"
)

// Three pods use 90 % of the cpu that they request, and 60 % is wanted.
func ExampleRecommend() {
	now := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	utilization := int32(60)
	input := recommender.Input{
		ID:        recommender.ID{1},
		Namespace: "shop",
		Options:   recommender.DefaultOptions(),
		Spec: recommender.Spec{
			ScaleTargetRef: recommender.ObjectReference{Kind: "Deployment", Name: "web"},
			MinReplicas:    2, MaxReplicas: 20,
			Metrics: []recommender.MetricSpec{{
				Type: recommender.ResourceMetric, Resource: "cpu",
				Target: recommender.MetricTarget{Type: recommender.UtilizationTarget, AverageUtilization: &utilization},
			}},
		},
		Scale: recommender.Scale{SpecReplicas: 3, StatusReplicas: 3},
	}
	for _, name := range []string{"web-a", "web-b", "web-c"} {
		input.Pods = append(input.Pods, recommender.Pod{
			Name: name, Phase: recommender.PhaseRunning, StartTime: now.Add(-time.Hour),
			Ready: recommender.ReadyTrue, ReadyTransition: now.Add(-time.Hour),
			Containers: []recommender.Container{{
				Name: "app", Requests: []recommender.ResourceRequest{{Resource: "cpu", Quantity: quantity.FromMilli(500)}},
			}},
		})
		input.PodMetrics = append(input.PodMetrics, recommender.PodMetrics{
			Pod: name, Timestamp: now.Add(-10 * time.Second), Window: 30 * time.Second,
			Containers: []recommender.ContainerMetrics{{
				Name: "app", Usage: []recommender.ResourceUsage{{Resource: "cpu", Milli: 450}},
			}},
		})
	}

	// A target that was never seen has no history. Keep the one returned.
	decision, history := recommender.Recommend(now, &input, nil)
	fmt.Printf("%d to %d replicas: %s\n", decision.Current, decision.Desired, decision.Reason)

	// The change is pending until it is reported, or seen in the next input.
	settlement, history, err := recommender.Settle(history, "shop", decision.ID, recommender.Applied, "")
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, event := range settlement.Events {
		fmt.Println(event.Type, event.Reason, "-", event.Message)
	}

	// A minute later there is next to no load, but recommendations of the last five
	// minutes still count.
	input.ID = recommender.ID{2}
	input.Scale = recommender.Scale{SpecReplicas: decision.Desired, StatusReplicas: decision.Desired}
	for i := range input.PodMetrics {
		input.PodMetrics[i].Containers[0].Usage[0].Milli = 50
	}
	decision, _ = recommender.Recommend(now.Add(time.Minute), &input, &history)
	fmt.Printf("%d to %d replicas\n", decision.Current, decision.Desired)
	for _, condition := range decision.Status.Conditions {
		fmt.Println(condition.Type, condition.Status, condition.Reason)
	}

	// Output:
	// 3 to 5 replicas: cpu resource utilization (percentage of request) above target
	// Normal SuccessfulRescale - New size: 5; reason: cpu resource utilization (percentage of request) above target
	// 5 to 5 replicas
	// AbleToScale True ScaleDownStabilized
	// ScalingActive True ValidMetricFound
	// ScalingLimited False DesiredWithinRange
}

// What comes next if the load stays as it was at the last decision.
func ExampleHistory_Outlook() {
	start := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	perReplica, window := int64(1000), int32(300)
	input := recommender.Input{
		Namespace: "shop", Options: recommender.DefaultOptions(),
		Spec: recommender.Spec{
			MinReplicas: 2, MaxReplicas: 30,
			Metrics: []recommender.MetricSpec{{
				Type: recommender.ExternalMetric, Metric: recommender.MetricIdentifier{Name: "requests_per_second"},
				Target: recommender.MetricTarget{Type: recommender.AverageValueTarget, AverageValue: &perReplica},
			}},
			Behavior: &recommender.Behavior{
				ScaleUp: recommender.DefaultScaleUp(),
				ScaleDown: recommender.ScalingRules{
					StabilizationWindowSeconds: &window, SelectPolicy: recommender.MaxChange,
					Policies: []recommender.ScalingPolicy{{Type: recommender.PercentPolicy, Value: 20, PeriodSeconds: 60}},
				},
			},
		},
		Scale: recommender.Scale{SpecReplicas: 14, StatusReplicas: 14},
	}
	load := func(milli int64) {
		input.Readings = []recommender.Readings{{Values: []recommender.Value{{Milli: milli}}}}
	}
	load(14000)
	_, history := recommender.Recommend(start, &input, nil)
	load(5000)
	last, history := recommender.Recommend(start.Add(15*time.Second), &input, &history)

	outlook, _ := history.Outlook(&input, &last.Basis, start.Add(30*time.Second), 15*time.Second)
	fmt.Printf("%d replicas, the metrics ask for %d, a decision now can come to %d to %d\n",
		outlook.Replicas, outlook.Proposal, outlook.Lowest, outlook.Highest)
	fmt.Println(outlook.Hold.Reason, "until", time.Unix(0, outlook.Hold.Until).UTC().Format(time.TimeOnly))
	for _, change := range outlook.Changes {
		fmt.Printf("%s: %d %s\n", change.At.Format(time.TimeOnly), change.Replicas, change.Hold.Reason)
	}

	// Output:
	// 14 replicas, the metrics ask for 5, a decision now can come to 14 to 28
	// ScaleDownStabilized until 12:05:00
	// 12:05:00: 11 ScaleDownLimit
	// 12:06:00: 8 ScaleDownLimit
	// 12:07:00: 6 ScaleDownLimit
	// 12:08:00: 5
}

// A history is kept as bytes.
func Example_encoding() {
	history := recommender.History{Seen: true, Recommendations: []recommender.TimedRecommendation{{Replicas: 5, At: 1767268800e9}}}
	stored := encoding.AppendHistory(nil, &history)

	loaded, err := encoding.DecodeHistory(stored)
	fmt.Println(loaded.Recommendations[0].Replicas, err)

	_, err = encoding.DecodeHistory(stored[:len(stored)-1])
	fmt.Println(err)

	// Output:
	// 5 <nil>
	// corrupt history: its checksum is wrong
}
