package nomad

import (
	"errors"
	"maps"
	"math"
	"slices"

	"github.com/hashicorp/nomad/api"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/clients/agent"
	"github.com/setpoint-dev/setpoint/clients/agent/settings"
	"github.com/setpoint-dev/setpoint/internal/document"
	"github.com/setpoint-dev/setpoint/internal/typed"
)

// Key is the key in a policy block that contains all settings of Setpoint.
const Key = "setpoint"

// autoscalerKey makes a policy one of the Nomad Autoscaler: it acts on enabled policies with
// checks, and refuses those without.
const autoscalerKey = "check"

const inScaling = "belongs to the scaling block: set min and max there"

// form is how a policy writes settings: Nomad refuses a count outside of min and max of the
// scaling block, so they are there.
var form = settings.Form{
	Prefix: Key + ".", Measured: settings.Usage(true),
	Without: map[string]string{"min": inScaling, "max": inScaling, "minReplicas": inScaling, "maxReplicas": inScaling, "spec": "", "scaleUpInUpdates": ""},
}

// Rows describes all keys for Setpoint in a scaling block: its own keys, and those under Key.
func Rows() []settings.Row {
	return append([]settings.Row{
		{Key: "scaling.enabled", Value: "`true` or `false`", Default: "`true`", Meaning: "`false` leaves the group alone."},
		{Key: "scaling.min", Value: "allocations, from 0", Default: "the group's `count`", Meaning: "Lower bound. 0 needs a `metric` that is known without allocations."},
		{Key: "scaling.max", Value: "allocations", Meaning: "Upper bound. Nomad requires it."},
	}, form.Rows()...)
}

// Policy is the settings of a task group.
type Policy struct {
	settings.Settings
	// Options are those of requests. Nil: none.
	Options *setpointv1.RecommendOptions
	// Ignored are the keys of the policy beside Key, such as those of another autoscaler.
	Ignored []string
}

// optsIn reports whether a group with that scaling block, which may be nil, is Setpoint's.
func optsIn(scaling *api.ScalingPolicy) bool {
	return scaling != nil && scaling.Policy[Key] != nil && (scaling.Enabled == nil || *scaling.Enabled)
}

// ParsePolicy parses the policy of a task group. Both results are nil for a group that Setpoint
// does not scale: it has no block under Key, or its scaling block is disabled, as for a stopped
// job. A Hold says why a group of Setpoint's can't be scaled, with all problems.
func ParsePolicy(scaling *api.ScalingPolicy) (*Policy, *agent.Hold) {
	if !optsIn(scaling) {
		return nil, nil
	}
	if _, theirs := scaling.Policy[autoscalerKey]; theirs {
		return nil, &agent.Hold{
			Reason:  agent.ReasonConflictingAutoscaler,
			Message: "the policy has check blocks as well, on which the Nomad Autoscaler acts: remove those, or the block " + Key,
		}
	}
	out := &Policy{}
	for _, key := range slices.Sorted(maps.Keys(scaling.Policy)) {
		if key != Key {
			out.Ignored = append(out.Ignored, key)
		}
	}
	var p typed.Problems
	minimum, maximum := bounds(&p, scaling)
	read, err := form.Read(keysOf(scaling.Policy[Key], &p))
	if wrong, ok := errors.AsType[*typed.Error](err); ok {
		p.Under("", wrong.Problems)
	} else {
		out.Settings = *read
		out.Spec.MinReplicas, out.Spec.MaxReplicas = &minimum, maximum
		out.scaleToZero(&p)
	}
	if err := p.Err(); err != nil {
		return nil, &agent.Hold{Reason: agent.ReasonInvalidObject, Message: err.Error()}
	}
	return out, nil
}

// keysOf returns the keys of the block. A text, as from a heredoc, is parsed as YAML or JSON.
func keysOf(own any, p *typed.Problems) map[string]any {
	if text, ok := own.(string); ok {
		var err error
		if own, err = typed.Document(text, document.MaxBytes); err != nil {
			p.Add(Key, "as a text, in YAML or JSON: %v", err)
			return nil
		}
	}
	keys, ok := typed.Keys(own)
	if blocks, list := own.([]any); list && len(blocks) > 1 {
		p.Add(Key, "stands %d times: write one block with all keys", len(blocks))
	} else if !ok {
		p.Add(Key, "must be one block with keys, or a text with them, in YAML or JSON")
	}
	return keys
}

// bounds reads min and max of the scaling block.
func bounds(p *typed.Problems, scaling *api.ScalingPolicy) (minimum, maximum int32) {
	read := func(key string, value *int64) int32 {
		switch {
		case value == nil:
			p.Add("scaling."+key, "is missing")
		case *value < 0 || *value > math.MaxInt32:
			p.Add("scaling."+key, "must be between 0 and 2^31-1")
		default:
			return int32(*value)
		}
		return 0
	}
	return read("min", scaling.Min), read("max", scaling.Max)
}

// scaleToZero allows a min of 0 if a metric has values without allocations.
func (out *Policy) scaleToZero(p *typed.Problems) {
	if out.Spec.GetMinReplicas() != 0 {
		return
	}
	if !slices.ContainsFunc(out.Spec.GetMetrics(), func(m *setpointv1.MetricSpec) bool { return m.GetType() == "External" }) {
		p.Add("scaling.min", "is 0, or missing with a count of 0, from which only a block metric \"NAME\" {…} without values of allocations leads up again")
		return
	}
	out.Options = &setpointv1.RecommendOptions{ScaleToZero: new(true)}
}
