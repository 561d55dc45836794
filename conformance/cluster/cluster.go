package cluster

import (
	"encoding/json"
	"errors"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/setpoint-dev/setpoint/conformance/oracle"
)

// Cluster is what a controller talks to: the API server, the metrics APIs and the
// cache of pods. It shows one step at a time, and keeps what the controller writes.
//
// Its clients stand in for the fake ones of client-go: those don't pass on the
// selector of a custom metric, and keep every call they have seen.
type Cluster struct {
	// state is nil between scenarios: there are no pods then.
	state *State
	// reverse has pods listed in the reverse order. A cache lists them in any order.
	reverse bool

	// What the controller did since the step began.
	scaledTo *int32
	events   []oracle.Event
}

// Begin shows a step; nil: none. What the controller did before is forgotten.
func (c *Cluster) Begin(s *State) { c.state, c.scaledTo, c.events = s, nil, nil }

// Shown returns the cluster itself, for a Controller that embeds it.
func (c *Cluster) Shown() *Cluster { return c }

// ReadScale reads the scale of the target, whatever its name is.
func (c *Cluster) ReadScale() (*autoscalingv1.Scale, error) {
	if c.state.ScaleGetError != "" {
		return nil, errors.New(c.state.ScaleGetError)
	}
	return c.state.Scale.DeepCopy(), nil // the controller writes into it
}

// WriteScale writes the scale of the target.
func (c *Cluster) WriteScale(updated *autoscalingv1.Scale) (*autoscalingv1.Scale, error) {
	if c.state.ScaleUpdateError != "" {
		return nil, errors.New(c.state.ScaleUpdateError)
	}
	replicas := updated.Spec.Replicas
	c.scaledTo = &replicas
	return updated, nil
}

// outcome is what came of the step that was begun last, with the HPA's status after
// it and the error of the reconcile.
func (c *Cluster) outcome(status any, failure error) (oracle.Outcome, error) {
	text, err := json.Marshal(status)
	if err != nil {
		return oracle.Outcome{}, err
	}
	var out oracle.Outcome // which has the fields of a status, and others beside them
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

// NewMapper knows the scale targets of scenarios.
func NewMapper() meta.RESTMapper {
	apps, core := schema.GroupVersion{Group: "apps", Version: "v1"}, schema.GroupVersion{Version: "v1"}
	mapper := meta.NewDefaultRESTMapper([]schema.GroupVersion{apps, core})
	for _, kind := range []string{"Deployment", "StatefulSet", "ReplicaSet"} {
		mapper.Add(apps.WithKind(kind), meta.RESTScopeNamespace)
	}
	mapper.Add(core.WithKind("ReplicationController"), meta.RESTScopeNamespace)
	return mapper
}
