//go:build !js

package conversion

import (
	"google.golang.org/protobuf/proto"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/recommender"
)

// Answer prints an answer that was given before. The explanation is what
// EncodeExplanation kept.
func Answer(a *recommender.Answer) (*setpointv1.RecommendResponse, error) {
	d := a.Decision()
	out := Response(&d)
	if len(a.Explanation) == 0 {
		return out, nil
	}
	out.Explanation = &setpointv1.Explanation{}
	return out, proto.Unmarshal(a.Explanation, out.Explanation)
}

// EncodeExplanation encodes a decision's explanation to be kept with its answer,
// nil if it has none. One that takes more than limit bytes goes without the pods'
// details, if need be without warnings and metrics, and says so.
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
