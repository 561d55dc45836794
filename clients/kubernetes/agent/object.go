package agent

import (
	"fmt"
	"strconv"
	"time"

	"google.golang.org/protobuf/proto"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	"k8s.io/apimachinery/pkg/api/equality"
	"sigs.k8s.io/controller-runtime/pkg/client"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/clients/kubernetes"
	v1 "github.com/setpoint-dev/setpoint/clients/kubernetes/autoscaling/v1"
)

// The annotations of a HorizontalPodAutoscaler that the agent reads.
const (
	// SyncPeriodAnnotation is a duration, "1s" to "1h", in place of --sync-period.
	SyncPeriodAnnotation = "autoscaling.setpoint.dev/sync-period"
	// ShadowAnnotation is "true" where the agent is only to watch, else "false".
	ShadowAnnotation = "autoscaling.setpoint.dev/shadow"
)

// object is an autoscaler of either source, as the agent goes by it.
type object struct {
	key Key
	// autoscaler is the object in the form of autoscaling/v2, with metadata, spec and
	// status. Shared with the cache: not to be changed.
	autoscaler *autoscalingv2.HorizontalPodAutoscaler
	// stored is the object as it is in the API. Shared with the cache.
	stored  client.Object
	period  time.Duration
	shadow  bool
	options *setpointv1.RecommendOptions
	// warning is something that is wrong with the object and kept from nothing; problem
	// keeps it from being scaled.
	warning, problem error
}

// sameAs tells whether nothing changed that a decision goes by.
func (o *object) sameAs(other *object) bool {
	return other != nil && o.autoscaler.UID == other.autoscaler.UID &&
		o.period == other.period && o.shadow == other.shadow && proto.Equal(o.options, other.options) &&
		equality.Semantic.DeepEqual(&o.autoscaler.Spec, &other.autoscaler.Spec)
}

// settings are an agent's that an object may set itself.
type settings struct {
	period time.Duration
	shadow bool
}

// objectOfHPA reads a HorizontalPodAutoscaler.
func objectOfHPA(hpa *autoscalingv2.HorizontalPodAutoscaler, s settings) *object {
	o := &object{
		key: Key{HPA, hpa.Namespace, hpa.Name}, autoscaler: hpa, stored: hpa,
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
			// Who wrote this may have meant that nothing is to be scaled.
			o.problem = fmt.Errorf(`annotation %s: %q is neither "true" nor "false"`, ShadowAnnotation, text)
		}
		o.shadow = o.shadow || shadow
	}
	return o
}

func readPeriod(text string) (time.Duration, error) {
	period, err := time.ParseDuration(text)
	if err != nil {
		return 0, fmt.Errorf("%q is no duration such as \"5s\"", text)
	}
	if period < minSyncPeriod || period > maxSyncPeriod {
		return 0, fmt.Errorf("%q is not from %s to %s", text, minSyncPeriod, maxSyncPeriod)
	}
	return period, nil
}

// target is the object's name at the service. Kubernetes names have no underscore, so
// that a shadow never meets an object.
func (o *object) target(cluster string) string {
	name := o.key.Name
	if o.shadow {
		name += "_shadow"
	}
	return "clusters/" + cluster + "/namespaces/" + o.key.Namespace + "/targets/" + name
}

// objectOfAutoscaler reads an Autoscaler. What the API server should have refused, but
// did not, is the object's problem.
func objectOfAutoscaler(a *v1.Autoscaler, s settings) *object {
	o := &object{
		key: Key{Autoscaler, a.Namespace, a.Name}, autoscaler: a.HorizontalPodAutoscaler(), stored: a,
		period: a.Spec.SyncPeriod(s.period), shadow: s.shadow || a.Spec.Shadow,
	}
	if o.period < minSyncPeriod || o.period > maxSyncPeriod {
		o.warning = fmt.Errorf("spec.syncPeriodSeconds: %s is not from %s to %s; the agent's own of %s is used", o.period, minSyncPeriod, maxSyncPeriod, s.period)
		o.period = s.period
	}
	o.options = a.Spec.Options.ToProto()
	if a.Spec.Unreadable != "" {
		o.problem = fmt.Errorf("spec: %s", a.Spec.Unreadable)
		return o
	}
	o.problem = kubernetes.Validate(o.autoscaler).ToAggregate()
	kubernetes.Defaults(o.autoscaler)
	return o
}
