package hpa_test

import (
	"context"
	"fmt"
	"log"
	"os"
	"strings"
	"time"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	externalv1beta1 "k8s.io/metrics/pkg/apis/external_metrics/v1beta1"

	"github.com/setpoint-dev/setpoint/clients/kubernetes"
	"github.com/setpoint-dev/setpoint/hpa"
	"github.com/setpoint-dev/setpoint/recommender"
	"github.com/setpoint-dev/setpoint/simulation"
	"github.com/setpoint-dev/setpoint/simulation/scenario"
	"github.com/setpoint-dev/setpoint/simulation/tune"
	"github.com/setpoint-dev/setpoint/stages"
)

// read is the spec and the world of examples/simulation.
func read() (*simulation.Autoscaler, *simulation.Scenario) {
	file, err := os.Open("../examples/simulation/hpa.yaml")
	if err != nil {
		log.Fatal(err)
	}
	defer file.Close()
	spec, err := hpa.ReadOne("hpa.yaml", file)
	if err != nil {
		log.Fatal(err)
	}
	autoscaler, err := spec.Engine(nil)
	if err != nil {
		log.Fatal(err)
	}
	data, err := os.ReadFile("../examples/simulation/web.yaml")
	if err != nil {
		log.Fatal(err)
	}
	world, err := scenario.Read(context.Background(), "web.yaml", data, nil, nil)
	if err != nil {
		log.Fatal(err)
	}
	return autoscaler, world
}

// A check for a pull request: how long would this spec leave a day's load short of capacity?
func Example_simulate() {
	autoscaler, world := read()
	result, err := simulation.Run(world, autoscaler, nil)
	if err != nil {
		log.Fatal(err)
	}
	f := result.Figures
	fmt.Printf("%d to %d replicas, short for %s, %d reversals\n", f.Least, f.Most, f.ShortTime.Round(time.Second), f.Reversals)
	// Output:
	// 2 to 50 replicas, short for 23s, 1 reversals
}

// The cheapest spec that is short for at most half a percent of the time, as autoscaling/v2.
func Example_tune() {
	autoscaler, world := read()
	result, err := tune.Run(context.Background(), world, autoscaler, tune.Goal{MaxShort: 0.005}, tune.Options{Candidates: 40})
	if err != nil || result.Best == nil {
		log.Fatal("no spec reaches the goal: ", err)
	}
	best := hpa.Spec(&result.Best.Spec)
	fmt.Printf("at least %d replicas, target %d %%\n", *best.MinReplicas, *best.Metrics[0].Resource.Target.AverageUtilization)
	// Output:
	// at least 2 replicas, target 60 %
}

// A controller of one's own: objects in, a count and the object's new status out. The program
// keeps the history, and what stages keep, from one evaluation to the next.
func ExampleAutoscaler_Input() {
	spec, err := hpa.ReadOne("queue.yaml", strings.NewReader(`
maxReplicas: 20
metrics: [{type: External, external: {metric: {name: queue}, target: {type: AverageValue, averageValue: 10}}}]
behavior: {}
`))
	if err != nil {
		log.Fatal(err)
	}
	snapshot := kubernetes.Snapshot{
		Scale: &autoscalingv1.Scale{Spec: autoscalingv1.ScaleSpec{Replicas: 2}, Status: autoscalingv1.ScaleStatus{Replicas: 2, Selector: "app=queue"}},
		ExternalMetrics: []kubernetes.ExternalMetric{{ExternalMetricValue: externalv1beta1.ExternalMetricValue{
			MetricName: "queue", Value: resource.MustParse("35"),
		}}},
	}
	input, plan, err := spec.Input(&snapshot, nil)
	if err != nil {
		log.Fatal(err)
	}
	input.ID = recommender.ID{1} // another one for each evaluation

	var kept stages.Kept // both are those of the evaluation before
	var history recommender.History
	decision, history := kept.Recommend(stages.Around{Plan: plan}, time.Now(), input, &history)
	fmt.Println(decision.Current, "to", decision.Desired, "replicas:", decision.Reason)

	// Here the workload is scaled. The outcome belongs to the history.
	settled, history, err := kept.Settle(history, input.Namespace, decision.ID, recommender.Applied, "")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(settled.Events[0].Message, "- recommendations kept:", len(history.Recommendations))

	status, err := hpa.Status(&decision.Status)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(status.DesiredReplicas, status.CurrentMetrics[0].External.Current.AverageValue)
	// Output:
	// 2 to 4 replicas: external metric queue(nil) above target
	// New size: 4; reason: external metric queue(nil) above target - recommendations kept: 2
	// 4 17500m
}

// The engine decides what it is given. Check a spec that the program has filled in.
func ExampleValidate() {
	err := hpa.Validate(&simulation.Autoscaler{
		Spec: recommender.Spec{MinReplicas: 1, MaxReplicas: 20, Metrics: []recommender.MetricSpec{{
			Type: recommender.ExternalMetric, Metric: recommender.MetricIdentifier{Name: "queue"},
			Target: recommender.MetricTarget{Type: recommender.AverageValueTarget},
		}}},
		Options: recommender.DefaultOptions(),
	})
	fmt.Println(err)
	// Output:
	// spec.metrics[0].external.target.averageValue: Required value: must set either a target value for metric or a per-pod target
}
