package flight

import (
	"cmp"
	"io"
	"slices"
	"strconv"
	"time"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/clients/agent"
	"github.com/setpoint-dev/setpoint/clients/agent/flight"
	"github.com/setpoint-dev/setpoint/clients/kubernetes"
	v1 "github.com/setpoint-dev/setpoint/clients/kubernetes/autoscaling/v1"
	"github.com/setpoint-dev/setpoint/clients/kubernetes/recording"
)

// Format creates scenarios from decisions of the Kubernetes agent.
var Format flight.Format = format{}

type format struct{}

// Begin implements flight.Format. The first step adds the object to the scenario.
func (format) Begin(target *setpointv1.Target) (flight.Scenario, error) {
	s := &scenario{Scenario: &recording.Scenario{Source: "agent", HPA: &autoscalingv2.HorizontalPodAutoscaler{}}}
	if target == nil {
		return s, nil
	}
	status, err := kubernetes.StatusFromProto(target.GetStatus())
	if err != nil {
		return nil, err
	}
	s.HPA.Status, s.History = *status, recording.HistoryOf(target.GetHistory())
	return s, nil
}

// scenario is an incomplete scenario. It implements flight.Scenario.
type scenario struct {
	*recording.Scenario
	// spec is the spec of the last step, and stages are its stages.
	spec   *autoscalingv2.HorizontalPodAutoscalerSpec
	stages *setpointv1.Stages
	// bytes is the approximate memory of the scenario.
	bytes int
}

// Steps implements flight.Scenario.
func (s *scenario) Steps() int { return len(s.Scenario.Steps) }

// Bytes implements flight.Scenario.
func (s *scenario) Bytes() int { return s.bytes }

// Write implements flight.Scenario.
func (s *scenario) Write(w io.Writer) error { return recording.NewWriter(w).Write(s.Scenario) }

// Add implements flight.Scenario.
func (s *scenario) Add(d *agent.Decision) error {
	step, err := stepOf(d)
	if err != nil {
		return err
	}
	a := snapshotOf(d).Autoscaler
	annotations, err := annotationsOf(d.Request.GetStages())
	if err != nil {
		return err
	}
	config, others, kinds := configOf(d.Request.GetOptions()), rivals(snapshotOf(d)), kindsOf(d)
	if len(s.Scenario.Steps) > 0 && (!equality.Semantic.DeepEqual(config, s.Config) || !slices.Equal(others, s.OtherHPAs) || !slices.Equal(kinds, s.Kinds)) {
		return errUnlike
	}
	alone := *s.Scenario
	alone.Config, alone.OtherHPAs, alone.Kinds = config, others, kinds
	if err := verify(&alone, step, d); err != nil {
		return err
	}
	if len(s.Scenario.Steps) == 0 {
		s.Config, s.OtherHPAs, s.Kinds = config, others, kinds
		s.Name = d.Key.String() + " " + d.At.UTC().Format(time.RFC3339Nano)
		s.HPA.ObjectMeta = metav1.ObjectMeta{Namespace: a.Namespace, Name: a.Name, Annotations: annotations}
		s.HPA.Spec = a.Spec
	} else if !equality.Semantic.DeepEqual(s.spec, &a.Spec) || !proto.Equal(s.stages, d.Request.GetStages()) {
		step.HPA = &autoscalingv2.HorizontalPodAutoscaler{ObjectMeta: *s.HPA.ObjectMeta.DeepCopy(), Spec: a.Spec}
		step.HPA.Annotations = annotations
		s.bytes += len(annotations[v1.StagesAnnotation])
	}
	s.spec, s.stages = &a.Spec, d.Request.GetStages()
	s.Scenario.Steps = append(s.Scenario.Steps, *step)
	s.bytes += size(step)
	return nil
}

// annotationsOf are the annotations of an object with these stages, whatever kind of object they come from.
func annotationsOf(stages *setpointv1.Stages) (map[string]string, error) {
	if stages == nil {
		return nil, nil
	}
	text, err := protojson.Marshal(stages)
	return map[string]string{v1.StagesAnnotation: string(text)}, err
}

// size is the approximate memory of a step, in bytes; steps mostly share their pods.
func size(step *recording.Step) int {
	return 2000 + 100*len(step.Pods) + 500*len(step.PodMetrics) + 500*len(step.CustomMetrics) + 500*len(step.ExternalMetrics)
}

// kindsOf is the scaled kind if the cluster knows it and recordings don't by default.
func kindsOf(d *agent.Decision) []string {
	kind := kindOf(snapshotOf(d).Autoscaler)
	if kind == "" || d.Request.GetScaleError() != nil && d.Request.GetScaleError().GetReason() != string(kubernetes.FailedGet) {
		return nil
	}
	return []string{kind}
}

// configOf are the settings of a request: its options, and otherwise the service's defaults,
// which are upstream's.
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

// delayOf is a delay in seconds, nil if unset.
func delayOf(d *durationpb.Duration) *float64 {
	if d == nil {
		return nil
	}
	delay := d.AsDuration().Seconds()
	return &delay
}
