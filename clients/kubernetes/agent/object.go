package agent

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"google.golang.org/protobuf/proto"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	"k8s.io/apimachinery/pkg/api/equality"
	"sigs.k8s.io/controller-runtime/pkg/client"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/clients/agent"
	"github.com/setpoint-dev/setpoint/clients/agent/pace"
	"github.com/setpoint-dev/setpoint/clients/kubernetes"
	v1 "github.com/setpoint-dev/setpoint/clients/kubernetes/autoscaling/v1"
	"github.com/setpoint-dev/setpoint/internal/document"
)

// The annotations of a HorizontalPodAutoscaler that the agent reads.
const (
	// SyncPeriodAnnotation is a duration, "1s" to "1h", in place of --sync-period.
	SyncPeriodAnnotation = "autoscaling.setpoint.dev/sync-period"
	// ShadowAnnotation is "true" to make the object a shadow, else "false".
	ShadowAnnotation = "autoscaling.setpoint.dev/shadow"
)

// object is an autoscaler of either source.
type object struct {
	key Key
	// autoscaler is the object in the form of autoscaling/v2, with metadata, spec and status.
	// Shared with the cache: it must not be changed.
	autoscaler *autoscalingv2.HorizontalPodAutoscaler
	// stored is the object in its API form. Shared with the cache.
	stored client.Object
	period time.Duration
	shadow bool
	// own reports whether the status belongs to this agent although the object is a shadow:
	// true for an Autoscaler with spec.shadow.
	own     bool
	options *setpointv1.RecommendOptions
	stages  *setpointv1.Stages
	// fleet is the name of the fleet that decides; empty: none.
	fleet string
	// warning is a problem of the object that does not keep it from being scaled; problem is
	// one that does.
	warning, problem error
}

// sameAs reports whether nothing changed that decisions depend on.
func (o *object) sameAs(other *object) bool {
	return other != nil && o.autoscaler.UID == other.autoscaler.UID &&
		o.period == other.period && o.shadow == other.shadow && proto.Equal(o.options, other.options) && proto.Equal(o.stages, other.stages) && o.fleet == other.fleet &&
		fmt.Sprint(o.problem) == fmt.Sprint(other.problem) && equality.Semantic.DeepEqual(&o.autoscaler.Spec, &other.autoscaler.Spec)
}

// Same implements agent.Revision.
func (o *object) Same(as agent.Revision) bool {
	other, ok := as.(*object)
	return ok && o.sameAs(other)
}

// isNew reports whether the object was never evaluated. A shadow's status does not show that,
// so its age decides.
func (o *object) isNew() bool {
	if o.shadow {
		return time.Since(o.autoscaler.CreationTimestamp.Time) < 2*o.period
	}
	s := &o.autoscaler.Status
	// A hold written by this agent is no evaluation.
	unheld := slices.DeleteFunc(slices.Clone(s.Conditions), func(c autoscalingv2.HorizontalPodAutoscalerCondition) bool { return agent.IsHold(c.Reason) })
	return len(unheld) == 0 && s.LastScaleTime == nil && s.DesiredReplicas == 0 && len(s.CurrentMetrics) == 0
}

// settings are the agent's settings that an object may override.
type settings struct {
	period time.Duration
	// periods are the periods of objects by their profile.
	periods map[string]time.Duration
	shadow  bool
}

// periodBy is the period of objects that name a profile and set no period.
func (s *settings) periodBy(profile string) time.Duration {
	if period, ok := s.periods[profile]; ok {
		return period
	}
	return s.period
}

// objectOfHPA reads a HorizontalPodAutoscaler.
func objectOfHPA(hpa *autoscalingv2.HorizontalPodAutoscaler, s settings) *object {
	o := &object{
		key: HPA.Key(hpa.Namespace, hpa.Name), autoscaler: hpa, stored: hpa,
		period: s.period, shadow: s.shadow,
	}
	if text, ok := hpa.Annotations[SyncPeriodAnnotation]; ok {
		if period, err := readPeriod(text); err != nil {
			o.warning = fmt.Errorf("annotation %s: %w; the agent's own of %s is used", SyncPeriodAnnotation, err, s.period)
		} else {
			o.period = period
		}
	}
	if text, ok := hpa.Annotations[ShadowAnnotation]; ok {
		shadow, err := strconv.ParseBool(text)
		if err != nil {
			// The author may have meant that nothing is to be scaled.
			o.problem = fmt.Errorf(`annotation %s: %q is neither "true" nor "false"`, ShadowAnnotation, text)
		}
		o.shadow = o.shadow || shadow
	}
	var err error
	if o.stages, err = StagesOf(hpa); err != nil {
		o.problem = both(o.problem, err)
	}
	if o.fleet, err = FleetOf(hpa); err != nil {
		o.problem = both(o.problem, err)
	}
	return o
}

// both are two problems, of which either may be nil, as one.
func both(first, second error) error {
	if first != nil && second != nil {
		return fmt.Errorf("%w; %w", first, second)
	}
	return cmp.Or(first, second)
}

// StagesOf returns the stages of an autoscaler of either kind; nil: none.
func StagesOf(stored client.Object) (*setpointv1.Stages, error) {
	if own, ok := stored.(*v1.Autoscaler); ok {
		return own.Spec.Stages.ToProto()
	}
	return v1.AnnotatedStages(stored.GetAnnotations())
}

// FleetOf returns the name of the fleet of an autoscaler of either kind; empty: it is in none.
func FleetOf(stored client.Object) (string, error) {
	if own, ok := stored.(*v1.Autoscaler); ok {
		return own.Spec.FleetName()
	}
	return v1.AnnotatedFleet(stored.GetAnnotations())
}

// TargetOf is the name at the service of an autoscaler that has that one if it is no shadow.
func TargetOf(name string, stored client.Object) string {
	if o := objectOf(stored); o != nil && o.shadow {
		return strings.TrimSuffix(name, o.key.Name) + o.target() + agent.ShadowSuffix
	}
	return name
}

func readPeriod(text string) (time.Duration, error) {
	period, err := time.ParseDuration(text)
	if err != nil {
		return 0, fmt.Errorf("%q is not a duration such as \"5s\"%s", text, document.WithUnit(text))
	}
	if period < pace.MinPeriod || period > pace.MaxPeriod {
		return 0, fmt.Errorf("%q is not from %s to %s", text, pace.MinPeriod, pace.MaxPeriod)
	}
	return period, nil
}

// target is the object's name at the service, within its namespace. Of two acting objects of one
// name and of both kinds one gives way; but two shadows have no rivals, and need two names.
func (o *object) target() string {
	if o.shadow && sourceOf(o.key) == Autoscaler {
		return o.key.Name + ".-autoscaler" // which no name in Kubernetes has
	}
	return o.key.Name
}

// objectOfAutoscaler reads an Autoscaler. A value that the API server should have refused is
// the object's problem.
func objectOfAutoscaler(a *v1.Autoscaler, s settings) *object {
	usual := s.period
	if a.Spec.Options != nil {
		usual = s.periodBy(a.Spec.Options.Profile)
	}
	o := &object{
		key: Autoscaler.Key(a.Namespace, a.Name), autoscaler: a.HorizontalPodAutoscaler(), stored: a,
		period: a.Spec.SyncPeriod(usual), shadow: s.shadow || a.Spec.Shadow, own: a.Spec.Shadow && !s.shadow,
	}
	if o.period < pace.MinPeriod || o.period > pace.MaxPeriod {
		o.warning = fmt.Errorf("spec.syncPeriodSeconds: %s is not from %s to %s; the agent's own of %s is used", o.period, pace.MinPeriod, pace.MaxPeriod, usual)
		o.period = usual
	}
	o.options = a.Spec.Options.ToProto()
	if a.Spec.Unreadable != "" {
		o.problem = fmt.Errorf("spec: %s", a.Spec.Unreadable)
		return o
	}
	var err error
	if o.stages, err = StagesOf(a); err != nil {
		o.problem = err
	}
	if o.fleet, err = FleetOf(a); err != nil {
		o.problem = both(o.problem, err)
	}
	o.problem = both(kubernetes.Validate(o.autoscaler).ToAggregate(), o.problem)
	kubernetes.Defaults(o.autoscaler)
	return o
}
