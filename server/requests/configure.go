package requests

import (
	"fmt"

	"google.golang.org/protobuf/proto"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/recommender"
	"github.com/setpoint-dev/setpoint/server/validation"
)

// configure applies the policy's options to a request: it may change the request, and returns the
// defaults of its options, and sentences about its changes.
func (j *Job) configure(req *setpointv1.RecommendRequest, defaults recommender.Options) (configured recommender.Options, notes []string) {
	set := j.caller.Options(j.Key)
	configured = set.Over(defaults)
	if set.AllowEvaluationTime != nil {
		j.AnyTime = *set.AllowEvaluationTime
	}
	if set.DryRunOnly != nil && *set.DryRunOnly && !req.GetDryRun() {
		j.DryRun = true
		notes = append(notes, "the operator's policy allows dry runs only: nothing is recorded")
	}
	spec := req.GetSpec()
	if spec == nil || j.Poll.Spec != "" {
		return configured, notes
	}
	j.Least, j.Most = set.MinReplicas, set.MaxReplicas
	if limit := set.MaxReplicas; limit != nil && spec.GetMaxReplicas() > *limit {
		notes = append(notes, fmt.Sprintf("maxReplicas is %d instead of %d, by the operator's policy", *limit, spec.GetMaxReplicas()))
		spec.MaxReplicas = *limit
		if spec.GetMinReplicas() > *limit {
			notes = append(notes, fmt.Sprintf("minReplicas is %d instead of %d, by the operator's policy", *limit, spec.GetMinReplicas()))
			spec.MinReplicas = proto.Int32(*limit)
		}
	}
	if floor := set.MinReplicas; floor != nil {
		asked := validation.MinReplicas(spec)
		if least := min(*floor, spec.GetMaxReplicas()); asked < least {
			notes = append(notes, fmt.Sprintf("minReplicas is %d instead of %d, by the operator's policy", least, asked))
			spec.MinReplicas = proto.Int32(least)
		}
	}
	return configured, notes
}
