//go:build !js

package conversion

import (
	"google.golang.org/protobuf/proto"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/recommender"
	"github.com/setpoint-dev/setpoint/server/record"
)

// Answer converts a stored answer. The explanation is what EncodeExplanation returned.
func Answer(a *record.Answer) (*setpointv1.RecommendResponse, error) {
	d := record.DecisionOf(a)
	out := Response(&d)
	if len(a.Explanation) == 0 {
		return out, nil
	}
	out.Explanation = &setpointv1.Explanation{}
	return out, proto.Unmarshal(a.Explanation, out.Explanation)
}

// EncodeExplanation encodes a decision's explanation for its stored answer, nil if it
// has none. One of more than limit bytes loses the pods' details, and if necessary
// warnings and metrics, and is marked as truncated.
func EncodeExplanation(d *recommender.Decision, limit int) ([]byte, error) {
	e := explanation(d)
	if e == nil {
		return nil, nil
	}
	for _, shorten := range []func(){
		func() {
			for _, m := range e.GetMetrics() {
				m.Pods = nil
			}
		},
		func() { e.Warnings = nil },
		func() { e.Metrics = nil },
	} {
		if proto.Size(e) <= limit {
			break
		}
		e.Truncated = true
		shorten()
	}
	return proto.Marshal(e)
}
