package differential

import (
	"fmt"
	"testing"
	"time"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	customv1beta2 "k8s.io/metrics/pkg/apis/custom_metrics/v1beta2"
	externalv1beta1 "k8s.io/metrics/pkg/apis/external_metrics/v1beta1"
	metricsv1beta1 "k8s.io/metrics/pkg/apis/metrics/v1beta1"

	"github.com/setpoint-dev/setpoint/clients/kubernetes/recording"
	"github.com/setpoint-dev/setpoint/internal/fatal"
	"github.com/setpoint-dev/setpoint/recommender"
	"github.com/setpoint-dev/setpoint/simulation"
	"github.com/setpoint-dev/setpoint/simulation/simulationtest"
)

// The real controller in the engine's place gives the same simulation, step by step: it is
// shown what the engine is shown, and as long as both decide the same the world goes on the
// same. So one question about all steps answers for the whole loop.
func TestSimulationsAreTheSameWithTheRealController(t *testing.T) {
	if testing.Short() {
		t.Skip("builds a controller")
	}
	const simulations, evaluations = 200, 30
	program, err := Versions()[0].Build(t.Context(), "..", t.TempDir(), false)
	fatal.If(t, err)
	oracle, err := StartOracle(program, "")
	fatal.If(t, err)
	defer func() {
		if err := oracle.Close(); err != nil {
			t.Error(err)
		}
	}()
	steps, scaled := 0, 0
	for seed := range uint64(simulations) {
		s, a := simulationtest.Random(seed, evaluations)
		for i := range s.Events {
			// A scenario's error of a resource is one of all resources.
			if s.Events[i].Kind == simulation.MetricsGone {
				s.Events[i].Metric = ""
			}
		}
		film := newFilm(seed, a)
		if _, err := simulation.RunWith(s, a, film, nil); err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		expects, err := oracle.Ask(film.scenario, 1)
		if err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		for i := range expects {
			steps++
			if expects[i].Scaled {
				scaled++
			}
			if got, want := film.decided[i], outcomeOf(&expects[i]); got != want {
				t.Errorf("seed %d, step %d: decided %s, the real controller %s", seed, i+1, got, want)
				break // the world goes on otherwise from here on
			}
		}
	}
	if steps != simulations*evaluations || scaled < simulations {
		t.Errorf("%d steps and %d changes were compared, want %d and at least %d", steps, scaled, simulations*evaluations, simulations)
	}
	t.Logf("%d steps, %d of which change the count", steps, scaled)
}

// outcomeOf is the compared part of a step: the written count, and the reason.
func outcomeOf(e *recording.Expect) string {
	text := "no change"
	if e.Scaled {
		text = fmt.Sprintf("%d", e.ScaledTo)
	}
	for _, c := range e.Conditions {
		if c.Type != recommender.AbleToScale { // that of a change depends on how writing went
			text += fmt.Sprintf(", %s %s %s", c.Type, c.Status, c.Reason)
		}
	}
	return text
}

// film is the production engine, and records what it is shown as a scenario.
type film struct {
	simulation.Engine
	scenario *recording.Scenario
	decided  []string
}

func newFilm(seed uint64, a *simulation.Autoscaler) *film {
	o := &a.Options
	f := &film{Engine: simulation.NewEngine(a.Namespace), scenario: &recording.Scenario{
		Name: fmt.Sprintf("simulation/%d", seed),
		Config: recording.Config{
			Tolerance: o.Tolerance, CPUInitializationPeriodSeconds: o.CPUInitializationPeriod.Seconds(),
			InitialReadinessDelaySeconds: o.InitialReadinessDelay.Seconds(), DownscaleStabilizationSeconds: o.DownscaleStabilization.Seconds(),
		},
		HPA: &autoscalingv2.HorizontalPodAutoscaler{ObjectMeta: metav1.ObjectMeta{Name: "web", Namespace: a.Namespace}, Spec: specOf(&a.Spec)},
	}}
	return f
}

// Recommend implements simulation.Engine.
func (f *film) Recommend(now time.Time, in *recommender.Input) (recommender.Decision, error) {
	f.scenario.Steps = append(f.scenario.Steps, stepOf(now, in))
	d, err := f.Engine.Recommend(now, in)
	text := "no change"
	if d.Changes() {
		text = fmt.Sprintf("%d", d.Desired)
	}
	for _, c := range d.Status.Conditions {
		if c.Type != recommender.AbleToScale {
			text += fmt.Sprintf(", %s %s %s", c.Type, c.Status, c.Reason)
		}
	}
	f.decided = append(f.decided, text)
	return d, err
}

// Settle implements simulation.Engine. A write that fails is one of the last step.
func (f *film) Settle(id recommender.ID, outcome recommender.Outcome, message string) error {
	if outcome == recommender.Failed {
		last := &f.scenario.Steps[len(f.scenario.Steps)-1]
		last.ScaleUpdateError = message
		// The count was desired and not written.
		f.decided[len(f.decided)-1] = "no change" + f.decided[len(f.decided)-1][len(leading(f.decided[len(f.decided)-1])):]
	}
	return f.Engine.Settle(id, outcome, message)
}

// leading is a text up to its first comma.
func leading(text string) string {
	for i := range text {
		if text[i] == ',' {
			return text[:i]
		}
	}
	return text
}

var selected = map[string]string{"app": "web"}

func milliQuantity(v int64) resource.Quantity {
	return *resource.NewMilliQuantity(v, resource.DecimalSI)
}

func stepOf(now time.Time, in *recommender.Input) recording.Step {
	step := recording.Step{Time: now, Scale: &autoscalingv1.Scale{
		ObjectMeta: metav1.ObjectMeta{Name: "web", Namespace: in.Namespace},
		Spec:       autoscalingv1.ScaleSpec{Replicas: in.Scale.SpecReplicas},
		Status:     autoscalingv1.ScaleStatus{Replicas: in.Scale.StatusReplicas, Selector: "app=web"},
	}}
	for i := range in.Pods {
		step.Pods = append(step.Pods, podOf(now, &in.Pods[i]))
	}
	for i := range in.PodMetrics {
		m := &in.PodMetrics[i]
		out := metricsv1beta1.PodMetrics{
			ObjectMeta: metav1.ObjectMeta{Name: m.Pod, Labels: selected}, Timestamp: metav1.Time{Time: m.Timestamp}, Window: metav1.Duration{Duration: m.Window},
		}
		for _, c := range m.Containers {
			usage := corev1.ResourceList{}
			for _, u := range c.Usage {
				usage[corev1.ResourceName(u.Resource)] = milliQuantity(u.Milli)
			}
			out.Containers = append(out.Containers, metricsv1beta1.ContainerMetrics{Name: c.Name, Usage: usage})
		}
		step.PodMetrics = append(step.PodMetrics, out)
	}
	fail := func(key, message string) {
		if step.Errors == nil {
			step.Errors = map[string]string{}
		}
		step.Errors[key] = message
	}
	for i := range in.Spec.Metrics {
		m, readings := &in.Spec.Metrics[i], &in.Readings[i]
		at := metav1.Time{Time: now.Truncate(time.Second)}
		switch m.Type {
		case recommender.PodsMetric, recommender.ObjectMetric:
			if readings.Error != "" {
				fail("custom:"+m.Metric.Name, readings.Error)
			}
			for _, v := range readings.Values {
				object := corev1.ObjectReference{Kind: "Pod", Name: v.Pod, APIVersion: "v1"}
				if m.Type == recommender.ObjectMetric {
					object = corev1.ObjectReference{Kind: m.DescribedObject.Kind, Name: m.DescribedObject.Name, APIVersion: m.DescribedObject.APIVersion}
				}
				step.CustomMetrics = append(step.CustomMetrics, customv1beta2.MetricValue{
					DescribedObject: object, Metric: customv1beta2.MetricIdentifier{Name: m.Metric.Name}, Timestamp: at, Value: milliQuantity(v.Milli),
				})
			}
		case recommender.ExternalMetric:
			if readings.Error != "" {
				fail("external:"+m.Metric.Name, readings.Error)
			}
			for _, v := range readings.Values {
				step.ExternalMetrics = append(step.ExternalMetrics, externalv1beta1.ExternalMetricValue{MetricName: m.Metric.Name, Timestamp: at, Value: milliQuantity(v.Milli)})
			}
		default:
			if readings.Error != "" {
				fail("resource", readings.Error)
			}
		}
	}
	return step
}

func podOf(now time.Time, p *recommender.Pod) *corev1.Pod {
	out := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: p.Name, Labels: selected}}
	for _, c := range p.Containers {
		requests := corev1.ResourceList{}
		for _, r := range c.Requests {
			requests[corev1.ResourceName(r.Resource)] = milliQuantity(r.Quantity.Milli())
		}
		out.Spec.Containers = append(out.Spec.Containers, corev1.Container{Name: c.Name, Resources: corev1.ResourceRequirements{Requests: requests}})
	}
	if p.Deleting {
		out.DeletionTimestamp = &metav1.Time{Time: now.Truncate(time.Second)}
	}
	out.Status.Phase = corev1.PodPending
	if p.Phase == recommender.PhaseRunning {
		out.Status.Phase = corev1.PodRunning
		out.Status.StartTime = &metav1.Time{Time: p.StartTime}
	}
	ready := corev1.PodCondition{Type: corev1.PodReady, Status: corev1.ConditionFalse, LastTransitionTime: metav1.Time{Time: p.ReadyTransition}}
	if p.Ready == recommender.ReadyTrue {
		ready.Status = corev1.ConditionTrue
	}
	out.Status.Conditions = []corev1.PodCondition{ready}
	return out
}

func specOf(s *recommender.Spec) autoscalingv2.HorizontalPodAutoscalerSpec {
	out := autoscalingv2.HorizontalPodAutoscalerSpec{
		ScaleTargetRef: autoscalingv2.CrossVersionObjectReference{Kind: s.ScaleTargetRef.Kind, Name: s.ScaleTargetRef.Name, APIVersion: s.ScaleTargetRef.APIVersion},
		MinReplicas:    &s.MinReplicas, MaxReplicas: s.MaxReplicas,
	}
	for i := range s.Metrics {
		m := &s.Metrics[i]
		target := autoscalingv2.MetricTarget{Type: autoscalingv2.MetricTargetType(m.Target.Type), AverageUtilization: m.Target.AverageUtilization}
		if v := m.Target.Value; v != nil {
			q := milliQuantity(*v)
			target.Value = &q
		}
		if v := m.Target.AverageValue; v != nil {
			q := milliQuantity(*v)
			target.AverageValue = &q
		}
		name := autoscalingv2.MetricIdentifier{Name: m.Metric.Name}
		metric := autoscalingv2.MetricSpec{Type: autoscalingv2.MetricSourceType(m.Type)}
		switch m.Type {
		case recommender.ResourceMetric:
			metric.Resource = &autoscalingv2.ResourceMetricSource{Name: corev1.ResourceName(m.Resource), Target: target}
		case recommender.ContainerResourceMetric:
			metric.ContainerResource = &autoscalingv2.ContainerResourceMetricSource{Name: corev1.ResourceName(m.Resource), Container: m.Container, Target: target}
		case recommender.PodsMetric:
			metric.Pods = &autoscalingv2.PodsMetricSource{Metric: name, Target: target}
		case recommender.ObjectMetric:
			o := m.DescribedObject
			metric.Object = &autoscalingv2.ObjectMetricSource{
				DescribedObject: autoscalingv2.CrossVersionObjectReference{Kind: o.Kind, Name: o.Name, APIVersion: o.APIVersion}, Metric: name, Target: target,
			}
		case recommender.ExternalMetric:
			metric.External = &autoscalingv2.ExternalMetricSource{Metric: name, Target: target}
		}
		out.Metrics = append(out.Metrics, metric)
	}
	if b := s.Behavior; b != nil {
		out.Behavior = &autoscalingv2.HorizontalPodAutoscalerBehavior{ScaleUp: rulesOf(&b.ScaleUp), ScaleDown: rulesOf(&b.ScaleDown)}
	}
	return out
}

func rulesOf(r *recommender.ScalingRules) *autoscalingv2.HPAScalingRules {
	selection := autoscalingv2.ScalingPolicySelect(r.SelectPolicy)
	out := &autoscalingv2.HPAScalingRules{StabilizationWindowSeconds: r.StabilizationWindowSeconds, SelectPolicy: &selection}
	for _, p := range r.Policies {
		out.Policies = append(out.Policies, autoscalingv2.HPAScalingPolicy{Type: autoscalingv2.HPAScalingPolicyType(p.Type), Value: p.Value, PeriodSeconds: p.PeriodSeconds})
	}
	if r.Tolerance != nil {
		q := resource.MustParse(fmt.Sprint(*r.Tolerance))
		out.Tolerance = &q
	}
	return out
}
