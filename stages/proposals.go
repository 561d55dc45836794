package stages

import "github.com/setpoint-dev/setpoint/recommender"

// propose adds the proposals of callers and of paced schedules.
func (r *run) propose(c *recommender.Combining) { c.Metrics = append(c.Metrics, r.voters...) }
