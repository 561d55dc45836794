package recording

import (
	"fmt"

	"google.golang.org/protobuf/types/known/timestamppb"
	autoscalingv2 "k8s.io/api/autoscaling/v2"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/clients/kubernetes"
)

// Player is the cluster of a scenario: it keeps the autoscaler as the steps change
// it. Steps are to be taken in their order, each once.
type Player struct {
	scenario *Scenario
	// autoscaler as it stands, nil while it is deleted.
	autoscaler *autoscalingv2.HorizontalPodAutoscaler
	// spec replaces that of the recording, if set.
	spec *autoscalingv2.HorizontalPodAutoscalerSpec
	// options are the same at every step.
	options *setpointv1.RecommendOptions
}

// NewPlayer returns a player at the beginning of the scenario, which it only reads.
func NewPlayer(scenario *Scenario) *Player {
	return &Player{
		scenario:   scenario,
		autoscaler: scenario.HPA.DeepCopy(),
		options:    scenario.Config.Options(),
	}
}

// WithSpec makes the player use spec in place of the recording's, at every step,
// and returns it. It is to be called before the first step. The outcome the
// recording expects is that of its own spec.
func (p *Player) WithSpec(spec *autoscalingv2.HorizontalPodAutoscalerSpec) *Player {
	p.spec = spec
	if p.autoscaler != nil {
		p.autoscaler.Spec = *spec.DeepCopy()
	}
	return p
}

// Request moves on to step and returns the request of its evaluation, for the
// autoscaler as a target of cluster and for the step's time. It is nil when there
// is no autoscaler at the step: then the target is to be deleted with its history.
func (p *Player) Request(step *Step, cluster string) (*setpointv1.RecommendRequest, error) {
	request, err := p.asked(step, cluster)
	if err != nil || request == nil {
		return nil, err
	}
	request.EvaluationTime = timestamppb.New(step.Time)
	return request, nil
}

// asked is the request of a step, without its time.
func (p *Player) asked(step *Step, cluster string) (*setpointv1.RecommendRequest, error) {
	if step.Request != nil {
		return p.called(step, cluster)
	}
	snapshot, err := p.Snapshot(step)
	if err != nil || snapshot == nil {
		return nil, err
	}
	request, err := snapshot.Request(cluster)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", p.scenario.Name, err)
	}
	request.Options = p.options
	return request, nil
}

// Snapshot moves on to step and returns what its evaluation sees, nil when there
// is no autoscaler, or nothing but what was asked is known.
func (p *Player) Snapshot(step *Step) (*kubernetes.Snapshot, error) {
	if step.Request != nil {
		return nil, nil
	}
	p.advance(step)
	if p.autoscaler == nil {
		return nil, nil
	}
	metricErrors, err := step.metricErrors()
	if err != nil {
		return nil, fmt.Errorf("%s: errors: %w", p.scenario.Name, err)
	}
	snapshot := &kubernetes.Snapshot{
		Autoscaler:    p.autoscaler,
		Scale:         step.Scale,
		Kinds:         p.scenario.knows,
		Pods:          step.Pods,
		PodMetrics:    step.PodMetrics,
		CustomMetrics: step.CustomMetrics,
		MetricErrors:  metricErrors,
	}
	if step.ScaleGetError != "" {
		snapshot.ScaleError = &kubernetes.ScaleError{Step: kubernetes.FailedGet, Message: step.ScaleGetError}
	}
	for _, series := range step.ExternalMetrics {
		snapshot.ExternalMetrics = append(snapshot.ExternalMetrics, kubernetes.ExternalMetric{ExternalMetricValue: series})
	}
	for _, other := range p.scenario.OtherHPAs {
		snapshot.Others = append(snapshot.Others, kubernetes.OtherAutoscaler{
			Namespace: other.Namespace, Name: other.Name, Selector: other.Selector,
		})
	}
	return snapshot, nil
}

// advance applies what the step does to the autoscaler.
func (p *Player) advance(step *Step) {
	if step.HPADeleted {
		p.autoscaler = nil
		return
	}
	if step.HPA == nil {
		return
	}
	if p.autoscaler == nil {
		p.autoscaler = &autoscalingv2.HorizontalPodAutoscaler{ObjectMeta: *p.scenario.HPA.ObjectMeta.DeepCopy()}
	}
	spec := &step.HPA.Spec
	if p.spec != nil {
		spec = p.spec
	}
	p.autoscaler.Spec = *spec.DeepCopy()
	p.autoscaler.Generation = step.HPA.Generation
}
