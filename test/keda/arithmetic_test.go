//go:build linux

package keda

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	v2 "k8s.io/api/autoscaling/v2"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/setpoint-dev/setpoint/internal/testlength"
	"github.com/setpoint-dev/setpoint/test/e2e/service"
)

// told is KEDA's client's view of the answers for a target.
type told struct {
	specs  []v2.MetricSpec
	milli  int64
	active bool
	err    error
}

// All counts are told such that KEDA's HPA ends at exactly them, whatever it is at: KEDA's
// client asks for each count, and the real HorizontalController of Kubernetes v1.36 decides on
// what the client made of the answer, at each count. To zero and from zero KEDA itself scales,
// by whether the scaler is active.
func TestAllCountsLandExactly(t *testing.T) {
	ask := oracle(t)
	s := service.Start(t)
	answers := make([]told, most+1)
	for n := range answers {
		want(t, s, fmt.Sprint("t", n), n)
	}
	for n := range answers {
		scaler := external(t, scaledObject(s.GRPCAddr(), fmt.Sprint("t", n)))
		a := &answers[n]
		a.specs = scaler.GetMetricSpecForScaling(t.Context())
		a.milli, a.active, a.err = count(t, scaler)
	}
	for n, a := range answers {
		if a.err != nil || len(a.specs) != 1 || a.specs[0].Type != v2.ExternalMetricSourceType || a.specs[0].External.Metric.Name != metricName {
			t.Fatalf("for %d replicas KEDA has %+v", n, a)
		}
		if a.active != (n > 0) {
			t.Errorf("for %d replicas active is %v", n, a.active)
		}
	}
	if t.Failed() {
		return
	}
	steps, every := 0, 1
	if !testlength.Full() {
		every = 7
		t.Logf("one of %d counts is asked for, from each other: FULL=1 asks for all", every)
	}
	for wanted := 1; wanted <= most; wanted += every {
		a := &answers[wanted]
		scenario := scenarioOf(a, most)
		outcomes := ask(scenario)
		if len(outcomes) != most {
			t.Fatalf("the controller answers %d of %d steps", len(outcomes), most)
		}
		for i, o := range outcomes {
			current := i + 1
			if got := o.ends(current); got != wanted {
				t.Errorf("from %d replicas to %d: the HPA ends at %d: %s", current, wanted, got, o.conditions())
			}
			steps++
		}
		if t.Failed() {
			return
		}
	}
	t.Logf("%d decisions of the controller", steps)
}

// step and scenario are in the format of recordings; see conformance/cluster.
type step struct {
	Time            time.Time        `json:"time"`
	Scale           map[string]any   `json:"scale"`
	ExternalMetrics []map[string]any `json:"externalMetrics"`
	Pods            []any            `json:"pods"`
}

type scenario struct {
	Config map[string]any              `json:"config"`
	HPA    *v2.HorizontalPodAutoscaler `json:"hpa"`
	Steps  []step                      `json:"steps"`
}

// scenarioOf is KEDA's HPA with the behavior of docs/guides/keda.md and the API server's
// defaults, at each count from one up.
func scenarioOf(a *told, most int) *scenario {
	zero, least, largest, none := int32(0), int32(1), v2.MaxChangePolicySelect, resource.MustParse("0")
	began := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	out := &scenario{
		Config: map[string]any{"tolerance": 0.1, "cpuInitializationPeriodSeconds": 300, "initialReadinessDelaySeconds": 30, "downscaleStabilizationSeconds": 300, "scaleToZero": false},
		HPA: &v2.HorizontalPodAutoscaler{
			ObjectMeta: metav1.ObjectMeta{Name: "keda-hpa-web", Namespace: "shop"},
			Spec: v2.HorizontalPodAutoscalerSpec{
				ScaleTargetRef: v2.CrossVersionObjectReference{Kind: "Deployment", Name: "web", APIVersion: "apps/v1"},
				MinReplicas:    &least, MaxReplicas: int32(most), Metrics: a.specs,
				Behavior: &v2.HorizontalPodAutoscalerBehavior{
					ScaleUp: &v2.HPAScalingRules{SelectPolicy: &largest, Tolerance: &none, StabilizationWindowSeconds: &zero,
						Policies: []v2.HPAScalingPolicy{{Type: v2.PodsScalingPolicy, Value: 1_000_000, PeriodSeconds: 15}}},
					ScaleDown: &v2.HPAScalingRules{SelectPolicy: &largest, Tolerance: &none, StabilizationWindowSeconds: &zero,
						Policies: []v2.HPAScalingPolicy{{Type: v2.PercentScalingPolicy, Value: 100, PeriodSeconds: 15}}},
				},
			},
		},
	}
	for current := 1; current <= most; current++ {
		at := began.Add(time.Duration(current) * 20 * time.Second)
		out.Steps = append(out.Steps, step{
			Time: at, Pods: []any{},
			Scale:           map[string]any{"spec": map[string]any{"replicas": current}, "status": map[string]any{"replicas": current, "selector": "app=web"}},
			ExternalMetrics: []map[string]any{{"metricName": metricName, "timestamp": at, "value": fmt.Sprintf("%dm", a.milli)}},
		})
	}
	return out
}

// outcome is the controller's result of a step.
type outcome struct {
	Scaled     bool            `json:"scaled"`
	ScaledTo   int             `json:"scaledTo"`
	Conditions json.RawMessage `json:"conditions"`
}

func (o *outcome) ends(current int) int {
	if o.Scaled {
		return o.ScaledTo
	}
	return current
}

func (o *outcome) conditions() string { return string(o.Conditions) }

// oracle starts the real controller of Kubernetes v1.36, and returns how to ask it.
func oracle(t *testing.T) func(*scenario) []outcome {
	t.Helper()
	program := filepath.Join(t.TempDir(), "v1.36.test")
	build := exec.CommandContext(t.Context(), "go", "test", "-c", "-o", program, "./v1.36")
	build.Dir = filepath.Join("..", "..", "conformance")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build the controller: %v\n%s", err, out)
	}
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	process := exec.CommandContext(t.Context(), program, "-test.run=^TestOracle$", "-test.timeout=0", "-oracle.serve")
	process.ExtraFiles = []*os.File{write}
	in, err := process.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := process.Start(); err != nil {
		t.Fatal(err)
	}
	_ = write.Close()
	t.Cleanup(func() {
		_ = in.Close()
		_ = process.Wait()
		_ = read.Close()
	})
	answers := bufio.NewReaderSize(read, 1<<20)
	return func(s *scenario) []outcome {
		t.Helper()
		request, err := json.Marshal(map[string]any{"runs": 1, "scenario": s})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := in.Write(append(request, '\n')); err != nil {
			t.Fatal(err)
		}
		line, err := answers.ReadBytes('\n')
		if err != nil {
			t.Fatalf("the controller: %v", err)
		}
		var answer struct {
			Steps []outcome `json:"steps"`
			Error string    `json:"error"`
		}
		if err := json.Unmarshal(line, &answer); err != nil || answer.Error != "" {
			t.Fatalf("the controller: %v %s", err, answer.Error)
		}
		return answer.Steps
	}
}
