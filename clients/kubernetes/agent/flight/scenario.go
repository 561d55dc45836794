package flight

import (
	"cmp"
	"slices"
	"strconv"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/clients/agent"
	"github.com/setpoint-dev/setpoint/clients/kubernetes"
	"github.com/setpoint-dev/setpoint/clients/kubernetes/recording"
)

// scenario is one that is not complete.
type scenario struct {
	*recording.Scenario
	// spec is that of the last step.
	spec *autoscalingv2.HorizontalPodAutoscalerSpec
	// bytes it takes in memory, roughly.
	bytes int
}

// begin returns a scenario without steps. It gets what the object is like from its
// first step.
func begin(status *autoscalingv2.HorizontalPodAutoscalerStatus, history *recording.History) *scenario {
	s := &scenario{Scenario: &recording.Scenario{Source: "agent", History: history, HPA: &autoscalingv2.HorizontalPodAutoscaler{}}}
	s.HPA.Status = *status
	return s
}

// add adds a decision; an error says that it does not fit, and the scenario is as it
// was.
func (s *scenario) add(d *agent.Decision) error {
	step, err := stepOf(d)
	if err != nil {
		return err
	}
	a := snapshotOf(d).Autoscaler
	config, others, kinds := configOf(d.Request.GetOptions()), rivals(snapshotOf(d)), kindsOf(d)
	if len(s.Steps) > 0 && (!equality.Semantic.DeepEqual(config, s.Config) || !slices.Equal(others, s.OtherHPAs) || !slices.Equal(kinds, s.Kinds)) {
		return errUnlike
	}
	alone := *s.Scenario
	alone.Config, alone.OtherHPAs, alone.Kinds = config, others, kinds
	if err := verify(&alone, step, d); err != nil {
		return err
	}
	if len(s.Steps) == 0 {
		s.Config, s.OtherHPAs, s.Kinds = config, others, kinds
		s.Name = d.Key.String() + " " + d.At.UTC().Format(time.RFC3339Nano)
		s.HPA.ObjectMeta = metav1.ObjectMeta{Namespace: a.Namespace, Name: a.Name}
		s.HPA.Spec = a.Spec
	} else if !equality.Semantic.DeepEqual(s.spec, &a.Spec) {
		step.HPA = &autoscalingv2.HorizontalPodAutoscaler{ObjectMeta: s.HPA.ObjectMeta, Spec: a.Spec}
	}
	s.spec = &a.Spec
	s.Steps = append(s.Steps, *step)
	s.bytes += size(step)
	return nil
}

// size is how many bytes a step takes in memory, roughly; pods are mostly shared by
// steps.
func size(step *recording.Step) int {
	return 2000 + 100*len(step.Pods) + 500*len(step.PodMetrics) + 500*len(step.CustomMetrics) + 500*len(step.ExternalMetrics)
}

// kindsOf is the scaled kind, if recordings don't know it anyway and the cluster does.
func kindsOf(d *agent.Decision) []string {
	kind := kindOf(snapshotOf(d).Autoscaler)
	if kind == "" || d.Request.GetScaleError() != nil && d.Request.GetScaleError().GetReason() != string(kubernetes.FailedGet) {
		return nil
	}
	return []string{kind}
}

// configOf are the settings that a request is decided with: its options, and else the
// service's defaults, which are upstream's.
func configOf(o *setpointv1.RecommendOptions) recording.Config {
	c := recording.Config{
		Profile: cmp.Or(o.GetProfile(), "v1.36"), Tolerance: 0.1, CPUInitializationPeriodSeconds: 300,
		InitialReadinessDelaySeconds: 30, DownscaleStabilizationSeconds: 300, ScaleToZero: o.GetProfile() == "v1.37",
	}
	if t, err := strconv.ParseFloat(o.GetTolerance(), 64); err == nil {
		c.Tolerance = t
	}
	if o.GetCpuInitializationPeriod() != nil {
		c.CPUInitializationPeriodSeconds = o.GetCpuInitializationPeriod().AsDuration().Seconds()
	}
	if o.GetInitialReadinessDelay() != nil {
		c.InitialReadinessDelaySeconds = o.GetInitialReadinessDelay().AsDuration().Seconds()
	}
	if o.GetDownscaleStabilization() != nil {
		c.DownscaleStabilizationSeconds = o.GetDownscaleStabilization().AsDuration().Seconds()
	}
	c.UpscaleDelaySeconds, c.DownscaleDelaySeconds = delayOf(o.GetUpscaleDelay()), delayOf(o.GetDownscaleDelay())
	if o != nil && o.ScaleToZero != nil {
		c.ScaleToZero = o.GetScaleToZero()
	}
	return c
}

// delayOf is a delay in seconds, nil for none that is named.
func delayOf(d *durationpb.Duration) *float64 {
	if d == nil {
		return nil
	}
	delay := d.AsDuration().Seconds()
	return &delay
}

// historyOf is what the service has of a target.
func historyOf(h *setpointv1.History) *recording.History {
	out := &recording.History{ScaleUps: eventsOf(h.GetScaleUps()), ScaleDowns: eventsOf(h.GetScaleDowns())}
	for _, r := range h.GetRecommendations() {
		out.Recommendations = append(out.Recommendations, recording.Recommendation{Replicas: r.GetReplicas(), Time: r.GetTime().AsTime()})
	}
	return out
}

func eventsOf(events []*setpointv1.ScaleEvent) []recording.ScaleEvent {
	var out []recording.ScaleEvent
	for _, e := range events {
		out = append(out, recording.ScaleEvent{Change: e.GetReplicaChange(), Time: e.GetTime().AsTime(), Outdated: e.GetOutdated()})
	}
	return out
}
