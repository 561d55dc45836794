package simulation

import (
	"math"
	"slices"

	"github.com/setpoint-dev/setpoint/fleet"
	"github.com/setpoint-dev/setpoint/recommender"
)

// federated is a model of what Karmada's FederatedHPA does by its sources (pkg/controllers/federatedhpa at 1625f447,
// shares since v1.16), with static weights and without failover:
//
//   - The pods and replicas of clusters that can't be reached are left out. Calibration is the replicas of the
//     others over those of the template, and what a metric proposes is divided by it.
//   - Windows, policies and bounds are HPA's, on the template's count.
//   - The count is divided by the static weights, by Webster's method. Members have no bounds, and what is
//     assigned to a cluster that can't be reached stays assigned.
//
// It is a model, not Karmada: it reacts at once where Karmada's parts react one after the other.
type federated struct {
	engine Engine
	// template is the count that the clusters share, shares what each is to have.
	template int32
	shares   []int32
	seats    []fleet.Seat
	metrics  recommender.Input
	rest     recommender.Input
}

// mostReplicas is the largest count that there is.
const mostReplicas = 1<<31 - 1

func newFederated(s *Scenario, a *Autoscaler) federated {
	k := federated{engine: NewEngine(a.Namespace), shares: s.Fleet.replicas(s, a), seats: s.Fleet.seats()}
	for i := range k.shares {
		k.template += k.shares[i]
		k.seats[i].Floor, k.seats[i].Cap = 0, mostReplicas
	}
	k.metrics = recommender.Input{Namespace: a.Namespace, Spec: a.Spec, Options: a.Options, Explain: true, ExplainLimit: recommender.ExplainNoPods}
	k.metrics.Spec.MinReplicas, k.metrics.Spec.MaxReplicas = 1, mostReplicas
	// The calibrated proposal goes through the rest of HPA as a total that asks for exactly that count.
	one := int64(1000)
	k.rest = recommender.Input{Namespace: a.Namespace, Spec: a.Spec, Options: a.Options, Explain: true, ExplainLimit: recommender.ExplainNoPods}
	k.rest.Options.Tolerance = 0
	if b := a.Spec.Behavior; b != nil {
		exact := *b
		exact.ScaleUp.Tolerance, exact.ScaleDown.Tolerance = nil, nil
		k.rest.Spec.Behavior = &exact
	}
	k.rest.Spec.Metrics = []recommender.MetricSpec{{
		Type: recommender.ExternalMetric, Metric: recommender.MetricIdentifier{Name: "calibrated"},
		Target: recommender.MetricTarget{Type: recommender.AverageValueTarget, AverageValue: &one},
	}}
	return k
}

// federate decides as Karmada documents it, and tells the clusters that it can reach.
func (f *fleetRun) federate() error {
	k := &f.federated
	now := f.whole.scenario.Start.Add(f.whole.now)
	in := &k.metrics
	in.Scale, in.Pods, in.PodMetrics, in.Readings = recommender.Scale{}, in.Pods[:0], in.PodMetrics[:0], nil
	for _, m := range f.members {
		if m.unheard() {
			continue
		}
		own := m.seen()
		in.Scale.SpecReplicas += own.Scale.SpecReplicas
		in.Scale.StatusReplicas += own.Scale.StatusReplicas
		in.Pods, in.PodMetrics = append(in.Pods, own.Pods...), append(in.PodMetrics, own.PodMetrics...)
		if in.Readings == nil {
			in.Readings = make([]recommender.Readings, len(own.Readings))
		}
		for i := range own.Readings {
			in.Readings[i].Values = append(in.Readings[i].Values, own.Readings[i].Values...)
		}
		for i := range own.Readings { // a cluster whose metrics fail is left out
			if own.Readings[i].Error != "" && len(in.Readings[i].Values) == 0 {
				in.Readings[i].Error = own.Readings[i].Error
			} else if len(in.Readings[i].Values) > 0 {
				in.Readings[i].Error = ""
			}
		}
	}
	if in.Scale.SpecReplicas == 0 { // "possibly because all of clusters are not ready"
		return nil
	}
	d, _ := recommender.Recommend(now, in, &recommender.History{})
	proposal, failed := calibrated(&d, k.template, float64(in.Scale.SpecReplicas)/float64(k.template))
	k.rest.Scale = recommender.Scale{SpecReplicas: k.template, StatusReplicas: k.template}
	k.rest.Readings = []recommender.Readings{{Values: []recommender.Value{{Milli: 1000 * int64(proposal)}}, Error: failed}}
	f.ids++
	k.rest.ID = recommender.ID{15: byte(f.ids), 14: byte(f.ids >> 8), 13: byte(f.ids >> 16)}
	decision, err := k.engine.Recommend(now, &k.rest)
	if err != nil {
		return err
	}
	if decision.Desired > decision.Current && decision.Reason != "" {
		decision.Reason = "the calibrated proposal is above the count"
	}
	f.decide(&decision)
	if decision.Changes() {
		k.template = decision.Desired
		k.shares = slices.Clone(fleet.Split(k.seats, k.template, 0).Of)
		if err := k.engine.Settle(decision.ID, recommender.Applied, ""); err != nil {
			return err
		}
	}
	for i, m := range f.members {
		if !m.unheard() {
			f.limit(m)
			if err := m.tell(k.shares[i]); err != nil {
				return err
			}
		}
	}
	return nil
}

// calibrated is the largest proposal of the metrics, each divided by the calibration; failed is why there is
// none.
func calibrated(d *recommender.Decision, template int32, calibration float64) (proposal int32, failed string) {
	proposal = -1
	for i := range d.Explanation.Metrics {
		m := &d.Explanation.Metrics[i]
		own := template
		switch {
		case m.Failure != nil:
			failed = m.Failure.Inner
			continue
		case m.Rule == recommender.Proportional || m.Rule == recommender.Saturated:
			ratio := m.UsageRatio
			if m.Dampened {
				ratio = m.DampenedRatio
			}
			own = int32(min(math.Ceil(mul(ratio, float64(m.Base))/calibration), mostReplicas))
		}
		proposal = max(proposal, own)
	}
	if proposal >= template {
		failed = ""
	}
	return max(0, proposal), failed
}
