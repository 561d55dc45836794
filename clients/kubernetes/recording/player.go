package recording

import (
	"fmt"

	"google.golang.org/protobuf/types/known/timestamppb"
	autoscalingv2 "k8s.io/api/autoscaling/v2"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/clients/kubernetes"
	v1 "github.com/setpoint-dev/setpoint/clients/kubernetes/autoscaling/v1"
)

// Player is the cluster of a scenario: it applies the steps' changes to the autoscaler. Take
// each step once, in order.
type Player struct {
	scenario *Scenario
	// autoscaler is the current one, nil while it is deleted.
	autoscaler *autoscalingv2.HorizontalPodAutoscaler
	// spec replaces the recording's, if set, stages its stages, and own those of its options that it sets.
	spec   *autoscalingv2.HorizontalPodAutoscalerSpec
	stages *setpointv1.Stages
	own    *setpointv1.RecommendOptions
	// options are the same in every step.
	options *setpointv1.RecommendOptions
}

// NewPlayer returns a player at the beginning of the scenario, which it does not change.
func NewPlayer(scenario *Scenario) *Player {
	return &Player{
		scenario:   scenario,
		autoscaler: scenario.HPA.DeepCopy(),
		options:    scenario.Config.Options(),
	}
}

// WithSpec makes the player use spec instead of the recording's in every step, and returns the
// player. Call it before the first step. The recording's expectations are still those of its
// own spec. A spec without a scaleTargetRef has the recorded one. stages replace the recording's, too;
// nil: there are none. own, which may be nil, has the options that the spec brings: those that it sets replace the recorded
// ones, the others stay, since they are the controller's.
func (p *Player) WithSpec(spec *autoscalingv2.HorizontalPodAutoscalerSpec, stages *setpointv1.Stages, own *setpointv1.RecommendOptions) *Player {
	p.spec, p.stages, p.own = spec, stages, own
	p.options = replaced(p.options, own)
	if p.autoscaler != nil {
		p.use(spec)
	}
	return p
}

// use sets the spec of the autoscaler.
func (p *Player) use(spec *autoscalingv2.HorizontalPodAutoscalerSpec) {
	recorded := p.autoscaler.Spec.ScaleTargetRef
	p.autoscaler.Spec = *spec.DeepCopy()
	if spec.ScaleTargetRef.Kind == "" {
		p.autoscaler.Spec.ScaleTargetRef = recorded
	}
}

// Request advances to the step and returns the request of its evaluation, for the autoscaler as
// a target of cluster and with the step's time. It is nil if the step has no autoscaler: then
// delete the target with its history.
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
	if request.Stages = p.stages; p.spec == nil {
		if request.Stages, err = v1.AnnotatedStages(p.autoscaler.Annotations); err != nil {
			return nil, fmt.Errorf("%s: %w", p.scenario.Name, err)
		}
	}
	return request, nil
}

// Snapshot advances to the step and returns the input of its evaluation; nil if there is no
// autoscaler, or if only the request was recorded.
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

// advance applies the step's changes to the autoscaler.
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
	p.autoscaler.Annotations = step.HPA.Annotations
	p.use(&step.HPA.Spec)
	if p.spec != nil {
		p.use(p.spec)
	}
	p.autoscaler.Generation = step.HPA.Generation
}
