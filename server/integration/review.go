package integration

import (
	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/server/validation"
	"github.com/setpoint-dev/setpoint/store"
)

// review has the fields used of the envelope that Agones and the General Pod Autoscaler
// share: a request beside a response that is null.
type review struct {
	Request struct {
		UID       string `json:"uid"`
		Name      string `json:"name"`
		Namespace string `json:"namespace"`
		// Status is sent by Agones.
		Status struct {
			Replicas *int32 `json:"replicas"`
		} `json:"status"`
		// CurrentReplicas and Parameters are sent by the General Pod Autoscaler.
		CurrentReplicas *int32 `json:"currentReplicas"`
		Parameters      struct {
			Target *string `json:"target"`
		} `json:"parameters"`
	} `json:"request"`
}

// reviewed is the envelope of a response. Agones requires a response field in every body;
// neither caller reads the body of an error.
type reviewed struct {
	Response verdict `json:"response"`
	// Error is the reason, for people who inspect the traffic.
	Error string `json:"error,omitempty"`
}

type verdict struct {
	UID string `json:"uid"`
	// Scale reports whether the replicas count.
	Scale    bool  `json:"scale"`
	Replicas int32 `json:"replicas"`
}

// read reads an envelope.
func (r *review) read(cluster string, body []byte) (Question, []validation.Violation) {
	if violations := decode(body, r); violations != nil {
		return Question{}, violations
	}
	return Question{uid: r.Request.UID, Key: store.Key{Cluster: cluster, Namespace: r.Request.Namespace, Target: r.Request.Name}},
		names(
			place{"cluster", cluster, "must be the cluster of the target, in the address"},
			place{"request.namespace", r.Request.Namespace, "must be the target's namespace"},
		)
}

// answered returns a response. Scale is always true: otherwise Agones uses the fleet's current
// size instead, which may differ from the one it sent.
func answered(q Question, r *setpointv1.Recommendation) any {
	return reviewed{Response: verdict{UID: q.uid, Scale: true, Replicas: r.GetDesiredReplicas()}}
}

func refused(q *Question, p Problem) (int, any) {
	answer := reviewed{Error: p.Message}
	if q != nil {
		answer.Response.UID = q.uid
		if q.Current != nil {
			answer.Response.Replicas = *q.Current
		}
	}
	return p.Status, answer
}

// agones is the contract of a FleetAutoscaler's webhook (FleetAutoscaleReview). The target has
// the fleet's name.
type agones struct{}

// Read implements Contract, as do those below.
func (agones) Read(cluster string, body []byte) (Question, []validation.Violation) {
	var r review
	q, violations := r.read(cluster, body)
	if violations != nil {
		return q, violations
	}
	violations = names(place{"request.name", q.Key.Target, "must be the fleet's name"})
	var wrong []validation.Violation
	q.Current, wrong = count("request.status.replicas", r.Request.Status.Replicas)
	return q, append(violations, wrong...)
}

func (agones) Answer(q Question, r *setpointv1.Recommendation) any { return answered(q, r) }

// Refuse answers an error.
func (agones) Refuse(q *Question, p Problem) (int, any) { return refused(q, p) }

// gpa is the contract of the General Pod Autoscaler's webhook mode (AutoscaleReview). The
// target has the workload's name, unless the parameter "target" has another one.
type gpa struct{}

// Read implements Contract, as do those below.
func (gpa) Read(cluster string, body []byte) (Question, []validation.Violation) {
	var r review
	q, violations := r.read(cluster, body)
	if violations != nil {
		return q, violations
	}
	field := "request.name"
	if r.Request.Parameters.Target != nil {
		field = "request.parameters.target"
	}
	q.Key.Target = named(r.Request.Parameters.Target, r.Request.Name)
	violations = names(place{field, q.Key.Target, "must be the target's name"})
	var wrong []validation.Violation
	q.Current, wrong = count("request.currentReplicas", r.Request.CurrentReplicas)
	return q, append(violations, wrong...)
}

func (gpa) Answer(q Question, r *setpointv1.Recommendation) any { return answered(q, r) }

// Refuse answers an error.
func (gpa) Refuse(q *Question, p Problem) (int, any) { return refused(q, p) }
