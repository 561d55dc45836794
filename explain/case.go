package explain

import (
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/internal/target"
	"github.com/setpoint-dev/setpoint/recommender"
)

// Paths through the controller, in the trace's words.
var (
	pathMetrics          = recommender.PathMetrics.String()
	pathMetricsFailed    = recommender.PathMetricsFailed.String()
	pathSelectorFailed   = recommender.PathSelectorFailed.String()
	pathScaleUnavailable = recommender.PathScaleUnavailable.String()
	pathScalingDisabled  = recommender.PathScalingDisabled.String()
	pathAboveMax         = recommender.PathAboveMax.String()
	pathBelowMin         = recommender.PathBelowMin.String()
)

// Directions, in the trace's words.
const (
	up   = "Up"
	down = "Down"
)

// oneCase is one request, its answer, and values derived from both.
type oneCase struct {
	req  *setpointv1.RecommendRequest
	resp *setpointv1.RecommendResponse
	// trace is nil if the answer has none.
	trace *setpointv1.Explanation
	// missing says why; empty: explain was not set.
	missing string
	// unasked is Options.Unasked.
	unasked bool
	habits  habits
	clock   clock
	metrics []*metric
	// current and desired are the replicas before and after what the controller's steps decide; final is
	// the count that is recommended, which stages after these may have replaced.
	current, desired, final int32
}

func newCase(req *setpointv1.RecommendRequest, resp *setpointv1.RecommendResponse, zone *time.Location) *oneCase {
	if zone == nil {
		zone = time.UTC
	}
	at := resp.GetEvaluationTime()
	if at == nil {
		at = resp.GetExplanation().GetEvaluationTime()
	}
	c := &oneCase{
		req: req, resp: resp, trace: resp.GetExplanation(),
		clock:   clock{now: at.AsTime(), zone: zone},
		current: resp.GetCurrentReplicas(), final: resp.GetDesiredReplicas(),
	}
	if resp.GetFleet() != nil { // its explanation is of the fleet's count, and not of this one, which is a share
		c.trace = nil
	}
	c.desired = decidedBefore(resp)
	c.habits = habitsOf[c.trace.GetProfile()]
	for i := range c.trace.GetMetrics() {
		c.metrics = append(c.metrics, c.newMetric(i))
	}
	c.tellApart()
	return c
}

// target is "namespace/target", empty without a request.
func (c *oneCase) target() string {
	if name, ok := target.Parse(c.req.GetTarget()); ok {
		return name.Namespace + "/" + name.Target
	}
	return clean(c.req.GetTarget())
}

func (c *oneCase) cluster() string {
	name, _ := target.Parse(c.req.GetTarget())
	return name.Cluster
}

// workload is "Deployment web", empty where that is not known.
func (c *oneCase) workload() string {
	ref := c.req.GetSpec().GetScaleTargetRef()
	if ref.GetKind() == "" {
		return ""
	}
	return clean(ref.GetKind()) + nbsp + clean(ref.GetName())
}

// condition returns the condition of that type, nil if absent.
func (c *oneCase) condition(kind string) *setpointv1.HorizontalPodAutoscalerCondition {
	for _, cond := range c.resp.GetStatus().GetConditions() {
		if cond.GetType() == kind {
			return cond
		}
	}
	return nil
}

// winner is the metric with the winning proposal, nil if there is none.
func (c *oneCase) winner() *metric {
	p := c.trace.GetProposal()
	if p == nil || p.MetricIndex == nil || uint(p.GetMetricIndex()) >= uint(len(c.metrics)) { // of a server that may be wrong
		return nil
	}
	return c.metrics[p.GetMetricIndex()]
}

// window returns the stabilization window of a direction, nil if none applied.
func (c *oneCase) window(direction string) *setpointv1.WindowExplanation {
	for _, w := range c.trace.GetStabilization().GetWindows() {
		if w.GetDirection() == direction {
			return w
		}
	}
	return nil
}

// hasBehavior reports whether metrics were decided by a behavior of the spec: then policies
// limit a change, in place of the growth of one evaluation.
func (c *oneCase) hasBehavior() bool {
	r := c.trace.GetRateLimit()
	return r != nil && !c.habits.delays && (r.GetSelectPolicy() != "" || r.Limit == nil)
}

// profile is the name of the version that decided.
func (c *oneCase) profile() string { return clean(c.trace.GetProfile()) }

// observed is the number of observed replicas, if it is known.
func (c *oneCase) observed() (replicas int32, ok bool) {
	scale := c.req.GetScale()
	if scale == nil {
		return 0, false
	}
	if scale.StatusReplicas != nil {
		return scale.GetStatusReplicas(), true
	}
	return scale.GetSpecReplicas(), true
}

// youngHistory reports whether a running controller may know more than is known here.
func (c *oneCase) youngHistory() bool { return c.trace.GetHistory().GetYoungerThanWindow() }

// noHistory reports whether there was no history.
func (c *oneCase) noHistory() bool {
	h := c.trace.GetHistory()
	return h.GetRecommendations() == 0 && h.GetScaleUps() == 0 && h.GetScaleDowns() == 0
}

func sameInstant(a, b *timestamppb.Timestamp) bool {
	return a != nil && b != nil && a.AsTime().Equal(b.AsTime())
}
