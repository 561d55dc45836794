package stages

import (
	"fmt"
	"time"

	"github.com/setpoint-dev/setpoint/recommender"
)

// vote is what is told of a voter.
type vote struct {
	title, rule string
	stage       recommender.Stage
	until       time.Time
}

// vote adds a proposal beside the metrics', as an External metric would make whose target is 1.
func (r *run) vote(title, rule string, stage recommender.Stage, until time.Time, replicas int32) {
	one := int64(1000)
	r.voters = append(r.voters, recommender.MetricEvaluation{
		Spec: &recommender.MetricSpec{
			Type: recommender.ExternalMetric, Metric: recommender.MetricIdentifier{Name: rule},
			Target: recommender.MetricTarget{Type: recommender.AverageValueTarget, AverageValue: &one},
		},
		Calculation: recommender.AverageValueCalculation, Rule: recommender.Proportional, Proposal: replicas,
		Instead: rule,
	})
	r.votes = append(r.votes, vote{title, rule, stage, until})
}

// propose adds the proposals of callers and of paced schedules.
func (r *run) propose(c *recommender.Combining) {
	if len(r.voters) == 0 {
		return
	}
	c.Edited = true
	largest := int32(-1)
	for i := range c.Metrics {
		if e := &c.Metrics[i]; !e.Ignored && e.Failure == nil {
			largest = max(largest, e.Proposal)
		}
	}
	combined := r.plan.Combine != nil && r.plan.Combine.Method != Max
	for i := range r.voters {
		e, v := &r.voters[i], &r.votes[i]
		if e.Proposal <= largest && !combined || combined && r.hasLeast && i == 0 {
			continue
		}
		message := fmt.Sprintf("%s of %d is above the metrics' %d", v.title, e.Proposal, largest)
		switch {
		case combined && r.plan.Combine.Method == Weighted:
			message = fmt.Sprintf("%s of %d has no weight: it counts where it is above the mean", v.title, e.Proposal)
		case combined:
			message = fmt.Sprintf("%s of %d counts as that of one more metric", v.title, e.Proposal)
		case largest < 0:
			message = fmt.Sprintf("%s of %d counts; no metric has a proposal", v.title, e.Proposal)
		}
		r.tell(recommender.Adjustment{Stage: v.stage, Rule: v.rule, Before: largest, After: e.Proposal, Message: message, Until: v.until})
	}
	c.Metrics = append(c.Metrics, r.voters...)
}
