package cluster

import (
	"encoding/json"
	"errors"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/setpoint-dev/setpoint/conformance/oracle"
)

// Cluster is the controller's environment: the API server, the metrics APIs and the
// cache of pods. It shows one step at a time, and stores the controller's writes.
//
// Its clients replace the fake ones of client-go, which don't pass on the selector of a
// custom metric, and keep every call.
type Cluster struct {
	// state is nil between scenarios, without pods.
	state *State
	// reverse lists pods in the reverse order. A cache lists them in any order.
	reverse bool

	// The controller's writes since the step began.
	scaledTo *int32
	events   []oracle.Event
}

// Begin starts a step; nil: none. It drops the controller's earlier writes.
func (c *Cluster) Begin(s *State) { c.state, c.scaledTo, c.events = s, nil, nil }

// Shown returns the cluster itself, for a Controller that embeds it.
func (c *Cluster) Shown() *Cluster { return c }

// ReadScale returns the scale of the target, for any name.
func (c *Cluster) ReadScale() (*autoscalingv1.Scale, error) {
	if c.state.ScaleGetError != "" {
		return nil, errors.New(c.state.ScaleGetError)
	}
	return c.state.Scale.DeepCopy(), nil // the controller changes it
}

// WriteScale writes the scale of the target.
func (c *Cluster) WriteScale(updated *autoscalingv1.Scale) (*autoscalingv1.Scale, error) {
	if c.state.ScaleUpdateError != "" {
		return nil, errors.New(c.state.ScaleUpdateError)
	}
	replicas := updated.Spec.Replicas
	if may := c.state.ScaleUpdates; may != nil && (replicas < may.Least || replicas > may.Most) {
		return nil, errors.New(RefusedUpdate)
	}
	c.scaledTo = &replicas
	return updated, nil
}

// outcome is the outcome of the current step, with the HPA's status after it and the
// error of the reconcile.
func (c *Cluster) outcome(status any, failure error) (oracle.Outcome, error) {
	text, err := json.Marshal(status)
	if err != nil {
		return oracle.Outcome{}, err
	}
	var out oracle.Outcome // it has the fields of a status, and others
	if err := json.Unmarshal(text, &out); err != nil {
		return oracle.Outcome{}, err
	}
	if out.Conditions == nil {
		out.Conditions = []oracle.Condition{}
	}
	if out.CurrentMetrics == nil {
		out.CurrentMetrics = []json.RawMessage{}
	}
	out.KnowAll()
	out.Events = append([]oracle.Event{}, c.events...)
	if c.scaledTo != nil {
		out.Scaled, out.ScaledTo = true, *c.scaledTo
	}
	if failure != nil {
		out.Error = &oracle.Text{Value: failure.Error()}
	}
	return out, nil
}

// NewMapper maps the scale targets of scenarios.
func NewMapper() meta.RESTMapper {
	apps, core := schema.GroupVersion{Group: "apps", Version: "v1"}, schema.GroupVersion{Version: "v1"}
	mapper := meta.NewDefaultRESTMapper([]schema.GroupVersion{apps, core})
	for _, kind := range []string{"Deployment", "StatefulSet", "ReplicaSet"} {
		mapper.Add(apps.WithKind(kind), meta.RESTScopeNamespace)
	}
	mapper.Add(core.WithKind("ReplicationController"), meta.RESTScopeNamespace)
	return mapper
}
