package v1

import (
	"encoding/json"
	"fmt"
	"reflect"
	"regexp"
	"strconv"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/internal/typed"
)

// Duration is a number of seconds and its unit: "300s".
//
// +kubebuilder:validation:Pattern=`^[0-9]{1,9}(\.[0-9]{1,9})?s$`
type Duration string

// Stages are what a HorizontalPodAutoscaler does not have. Each is off unless it is set. Metrics
// are named by type and name, such as External:queue, Resource:cpu or ContainerResource:cpu:web.
// The JSON is that of the service's Stages; the service checks what this schema does not.
type Stages struct {
	// freshness leaves out old samples.
	// +optional
	Freshness *Freshness `json:"freshness,omitempty"`
	// fallbacks are what metrics that fail propose, at most one a metric.
	// +optional
	// +kubebuilder:validation:MaxItems=16
	// +listType=atomic
	Fallbacks []MetricFallback `json:"fallbacks,omitempty"`
	// zeroGuards are falls to zero that are not believed at once, at most one a metric.
	// +optional
	// +kubebuilder:validation:MaxItems=16
	// +listType=atomic
	ZeroGuards []ZeroGuard `json:"zeroGuards,omitempty"`
	// combine is how the metrics' proposals become one. Absent: the largest counts.
	// +optional
	Combine *Combine `json:"combine,omitempty"`
	// schedules are bounds by the clock.
	// +optional
	// +kubebuilder:validation:MaxItems=64
	// +listType=atomic
	Schedules []Schedule `json:"schedules,omitempty"`
	// forecast is what was needed at this time of earlier days.
	// +optional
	Forecast *Forecast `json:"forecast,omitempty"`
	// idle is when the workload has no replicas. It needs minReplicas 0 and
	// options.scaleToZero.
	// +optional
	Idle *IdleScaling `json:"idle,omitempty"`
	// guards limit changes.
	// +optional
	Guards *Guards `json:"guards,omitempty"`
	// windowThroughFailures makes the stabilization window remember the replicas while
	// metrics fail, so that the first value after an outage is not obeyed at once.
	// +optional
	WindowThroughFailures bool `json:"windowThroughFailures,omitempty"`
}

// Freshness is which samples are too old to count.
type Freshness struct {
	// maxSampleAge is the greatest age of a sample, inclusive: "1s" to "3600s".
	// +required
	MaxSampleAge Duration `json:"maxSampleAge"`
	// futureTolerance is how far ahead of the evaluation a sample may be: "0s" to "300s".
	// Absent: "10s".
	// +optional
	FutureTolerance *Duration `json:"futureTolerance,omitempty"`
}

// MetricFallback is what counts in place of a metric that has failed for a while. Exactly one
// of replicas, lastGood and ignore is set.
type MetricFallback struct {
	// metric is the metric.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=512
	Metric string `json:"metric"`
	// failureDuration is for how long it must have failed without a success: "0s" to
	// "3600s". Absent: "180s".
	// +optional
	FailureDuration *Duration `json:"failureDuration,omitempty"`
	// replicas is the proposal.
	// +optional
	// +kubebuilder:validation:Minimum=1
	Replicas *int32 `json:"replicas,omitempty"`
	// lastGood makes the metric's last proposal count.
	// +optional
	LastGood *LastGood `json:"lastGood,omitempty"`
	// ignore makes the others decide.
	// +optional
	Ignore bool `json:"ignore,omitempty"`
	// direction is UP_ONLY if the current replicas count where the proposal is below them.
	// Absent: BOTH.
	// +optional
	// +kubebuilder:validation:Enum=BOTH;UP_ONLY
	Direction string `json:"direction,omitempty"`
}

// LastGood is the last proposal of a metric that could be computed.
type LastGood struct {
	// maxAge is the age from which it does not count any more: "1s" to "86400s".
	// +required
	MaxAge Duration `json:"maxAge"`
}

// ZeroGuard is a fall of an Object or External metric that is not believed at once. Until it is,
// the metric fails.
type ZeroGuard struct {
	// metric is the metric.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=512
	Metric string `json:"metric"`
	// dropPercent is by how many per cent at least the value must fall, 50 to 100. Absent:
	// 100, only to zero.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=100
	DropPercent int32 `json:"dropPercent,omitempty"`
	// confirm is for how long the fall must last to be believed: "1s" to "3600s". Absent:
	// "300s".
	// +optional
	Confirm *Duration `json:"confirm,omitempty"`
}

// Combine is how the proposals of metrics become one.
type Combine struct {
	// method is how. Absent: MAX.
	// +optional
	// +kubebuilder:validation:Enum=MAX;MIN;QUORUM;WEIGHTED;SUM
	Method string `json:"method,omitempty"`
	// quorum is how many metrics must want as much, with QUORUM.
	// +optional
	// +kubebuilder:validation:Minimum=0
	Quorum int32 `json:"quorum,omitempty"`
	// weights are decimal numbers by metric, with WEIGHTED.
	// +optional
	// +kubebuilder:validation:MaxProperties=64
	Weights map[string]string `json:"weights,omitempty"`
}

// Forecast is what the metrics needed at this time of earlier days or weeks.
type Forecast struct {
	// mode is FORECAST_ONLY if the forecast is only told, FLOOR if it is one more proposal
	// beside the metrics' while its own errors are small. Absent: FORECAST_ONLY.
	// +optional
	// +kubebuilder:validation:Enum=FORECAST_ONLY;FLOOR
	Mode string `json:"mode,omitempty"`
	// season is DAILY for this time of 14 days, WEEKLY for this time of this day of 4 weeks.
	// Absent: DAILY.
	// +optional
	// +kubebuilder:validation:Enum=DAILY;WEEKLY
	Season string `json:"season,omitempty"`
	// lead is how far ahead it looks: "0s" to "3600s". Absent: "300s".
	// +optional
	Lead *Duration `json:"lead,omitempty"`
	// quantilePercent is which of the values counts, 50 to 100. Absent: 90.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=100
	QuantilePercent int32 `json:"quantilePercent,omitempty"`
	// maxPercentOfMax is the share of maxReplicas that it is never above, in per cent, 1 to
	// 100. Absent: 80.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=100
	MaxPercentOfMax int32 `json:"maxPercentOfMax,omitempty"`
	// timeZone is that of "this time", one of the IANA database, such as Europe/Berlin.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	TimeZone string `json:"timeZone"`
}

// Schedule is bounds that apply at certain times, within those of the spec.
type Schedule struct {
	// name is unique in the list.
	// +required
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`
	Name string `json:"name"`
	// timeZone is one of the IANA database, such as Europe/Berlin.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	TimeZone string `json:"timeZone"`
	// cron is when it starts: minute, hour, day of month, month and day of week. Exactly one
	// of cron and at is set.
	// +optional
	// +kubebuilder:validation:MaxLength=256
	Cron string `json:"cron,omitempty"`
	// at is when it starts, once.
	// +optional
	At *metav1.Time `json:"at,omitempty"`
	// duration is how long it lasts: "60s" to "2678400s". Exactly one of duration and
	// endCron is set.
	// +optional
	Duration *Duration `json:"duration,omitempty"`
	// endCron is when it ends, as cron.
	// +optional
	// +kubebuilder:validation:MaxLength=256
	EndCron string `json:"endCron,omitempty"`
	// minReplicas is the minimum while it is active. This or maxReplicas is set.
	// +optional
	// +kubebuilder:validation:Minimum=0
	MinReplicas *int32 `json:"minReplicas,omitempty"`
	// maxReplicas is the maximum while it is active.
	// +optional
	// +kubebuilder:validation:Minimum=1
	MaxReplicas *int32 `json:"maxReplicas,omitempty"`
	// rampUp is the time before the start in which the minimum rises evenly: "0s" to
	// "21600s".
	// +optional
	RampUp *Duration `json:"rampUp,omitempty"`
	// rampDown is the time after the end in which the minimum falls evenly: "0s" to
	// "21600s".
	// +optional
	RampDown *Duration `json:"rampDown,omitempty"`
	// minPace is AT_ONCE if the minimum acts past windows and policies, PACED if they limit
	// it. Absent: AT_ONCE.
	// +optional
	// +kubebuilder:validation:Enum=AT_ONCE;PACED
	MinPace string `json:"minPace,omitempty"`
	// maxPace is the same for the maximum. Absent: PACED.
	// +optional
	// +kubebuilder:validation:Enum=AT_ONCE;PACED
	MaxPace string `json:"maxPace,omitempty"`
	// suspended turns it off.
	// +optional
	Suspended bool `json:"suspended,omitempty"`
}

// IdleScaling is when a workload goes to zero and comes back.
type IdleScaling struct {
	// activation is by metric the quantity that its value must exceed to be active. Absent: 0
	// for each Object and External metric.
	// +optional
	// +kubebuilder:validation:MaxProperties=64
	Activation map[string]string `json:"activation,omitempty"`
	// cooldown is for how long a workload at one replica must be inactive to go to zero: "0s"
	// to "86400s". Absent: "300s".
	// +optional
	Cooldown *Duration `json:"cooldown,omitempty"`
	// initialCooldown is the same for a workload that is seen for the first time. Absent: as
	// cooldown.
	// +optional
	InitialCooldown *Duration `json:"initialCooldown,omitempty"`
}

// Guards are limits on changes.
type Guards struct {
	// reversals holds scale-downs of a workload whose count goes up and down.
	// +optional
	Reversals *ReversalBudget `json:"reversals,omitempty"`
	// ignoreSurge makes pods that a rollout adds not count.
	// +optional
	IgnoreSurge bool `json:"ignoreSurge,omitempty"`
}

// ReversalBudget is how often a count may change its direction.
type ReversalBudget struct {
	// count is how many reversals in the period hold no scale-down, 1 to 15.
	// +required
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=15
	Count int32 `json:"count"`
	// period is "60s" to "86400s".
	// +required
	Period Duration `json:"period"`
	// hold is for how long, from the last reversal: "60s" to "86400s". Absent: "600s".
	// +optional
	Hold *Duration `json:"hold,omitempty"`
}

// ToProto returns the stages of a request; nil for nil. The error names the fields that the
// schema should have refused.
func (s *Stages) ToProto() (*setpointv1.Stages, error) {
	if s == nil {
		return nil, nil
	}
	text, err := json.Marshal(s)
	if err != nil {
		return nil, err
	}
	var p typed.Problems
	notSeconds(&p, "spec.stages", reflect.ValueOf(s))
	if err := p.Err(); err != nil {
		return nil, err
	}
	return readStages("spec.stages", string(text))
}

// inSeconds is the schema's pattern of durations. An annotation may have others.
var inSeconds = regexp.MustCompile(`^[0-9]{1,9}(\.[0-9]{1,9})?s$`)

// notSeconds finds durations that the schema refuses, below a field.
func notSeconds(p *typed.Problems, field string, v reflect.Value) {
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() {
			notSeconds(p, field, v.Elem())
		}
	case reflect.Slice:
		for i := range v.Len() {
			notSeconds(p, field+"["+strconv.Itoa(i)+"]", v.Index(i))
		}
	case reflect.Struct:
		if v.Type() == reflect.TypeFor[metav1.Time]() {
			return
		}
		for i := range v.NumField() {
			name, _, _ := strings.Cut(v.Type().Field(i).Tag.Get("json"), ",")
			notSeconds(p, typed.Within(field, name), v.Field(i))
		}
	case reflect.String:
		if v.Type() == reflect.TypeFor[Duration]() && v.String() != "" && !inSeconds.MatchString(v.String()) {
			p.Add(field, "must be a number of seconds, such as %q, is %q", "300s", typed.Shorten(v.String(), 64))
		}
	}
}

// StagesAnnotation is the stages of a HorizontalPodAutoscaler: the service's message Stages as
// JSON.
const StagesAnnotation = "setpoint.dev/stages"

// maxStages bounds the annotation, bytes.
const maxStages = 64 << 10

// misnamed are what StagesAnnotation may be taken for, beside the names of the agent's other
// annotations: without its stages an object would be scaled otherwise than its author said.
var misnamed = []string{"autoscaling.setpoint.dev/stages", "autoscaling.setpoint.dev/stage", "setpoint.dev/stage"}

// AnnotatedStages returns the stages of a HorizontalPodAutoscaler with these annotations; nil:
// it has none. The error says where they are wrong.
func AnnotatedStages(annotations map[string]string) (*setpointv1.Stages, error) {
	for _, name := range misnamed {
		if _, ok := annotations[name]; ok {
			return nil, fmt.Errorf("annotation %s: is not read; did you mean %s?", name, StagesAnnotation)
		}
	}
	text, ok := annotations[StagesAnnotation]
	if !ok {
		return nil, nil
	}
	out, err := readStages("", text)
	if err != nil {
		return nil, fmt.Errorf("annotation %s: %w", StagesAnnotation, err)
	}
	return out, nil
}

func readStages(field, text string) (*setpointv1.Stages, error) {
	var p typed.Problems
	from, err := typed.Document(text, maxStages)
	if err != nil {
		p.Add(field, "%v", err)
		return nil, p.Err()
	}
	out := &setpointv1.Stages{}
	p.FillMessage(field, from, out)
	if err := p.Err(); err != nil {
		return nil, err
	}
	return out, nil
}
