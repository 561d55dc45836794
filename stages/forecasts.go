package stages

import (
	"fmt"
	"hash/fnv"
	"math"
	"time"

	"github.com/setpoint-dev/setpoint/recommender"
	"github.com/setpoint-dev/setpoint/stages/forecast"
)

// Forecast is a floor by what was needed at this time of earlier days or weeks.
type Forecast struct {
	forecast.Settings
	// Basis is that of the spec's metrics, for a target without incarnation.
	Basis forecast.Basis
	// Floor makes it a proposal beside the metrics', while its own errors are small. Otherwise it only tells.
	Floor bool
	// MostPercent is the share of maxReplicas that it is never above, in per cent: 1 to 100; 0: maxReplicas alone limit it.
	MostPercent int32
}

// Past is what is known of the past of a target with a forecast, for one decision.
type Past struct {
	// Basis is that of the target.
	Basis forecast.Basis
	// Outlook is what the past says; Problem is why that is not known, empty: it is.
	Outlook forecast.Outlook
	Problem string
	// Said is what the past says at this decision. A recording and the decision beside which a shadow decides give it:
	// then Given is set, and neither Outlook nor Problem counts.
	Said  forecast.Said
	Given bool
	// Closed is the bucket that this decision closes, if HasClosed: it belongs into the target's ring.
	Closed    forecast.Closed
	HasClosed bool
}

// The rules of adjustments by forecasts.
const (
	// forecastFloor: it is above the metrics' proposal; forecastBelow: it is not.
	forecastFloor = "floor"
	forecastBelow = "below"
	// forecastOnly: it does not act, as its mode says; forecastClosed: its errors are too large to act.
	forecastOnly   = "only"
	forecastClosed = "closed"
	// forecastNone: there is none, because the past is too short or not known.
	forecastNone = "none"
)

// forecast returns the combined proposal of this decision, or the forecast where that acts and is above it.
func (r *run) forecast(c *recommender.Combining, o *outcome, value int32) int32 {
	f := r.plan.Forecast
	if f == nil {
		return value
	}
	replicas, what := r.foretell(f)
	if most := f.Most(r.in.Spec.MaxReplicas); replicas > most {
		replicas = most
		what += fmt.Sprintf(", limited to %d (%d %% of maxReplicas %d)", most, f.MostPercent, r.in.Spec.MaxReplicas)
	}
	a := recommender.Adjustment{Stage: recommender.StageForecast, Before: -1, After: -1}
	switch problem := r.Past.problem(); {
	case replicas < 0:
		a.Rule, a.Message = forecastNone, what
	case !f.Floor:
		a.Rule, a.Message = forecastOnly, fmt.Sprintf("%s; it only tells, the metrics' %d counts%s", what, value, r.Past.errors())
	case problem != "":
		a.Rule, a.Message = forecastClosed, fmt.Sprintf("forecast %d not used: %s; the metrics' %d counts", replicas, problem, value)
	case replicas <= value:
		a.Rule, a.Message = forecastBelow, fmt.Sprintf("%s is not above the metrics' %d", what, value)
	default:
		a.Rule, a.Message = forecastFloor, fmt.Sprintf("%s is above the metrics' %d", what, value)
		a.Before, a.After = o.of(value), o.of(replicas)
		c.Edited, c.Combined, c.Name = true, true, "forecast"
		value = replicas
	}
	r.tell(a)
	return value
}

// Most is the largest count that the forecast may have.
func (f *Forecast) Most(maxReplicas int32) int32 {
	if f.MostPercent == 0 {
		return math.MaxInt32
	}
	return int32(int64(maxReplicas) * int64(f.MostPercent) / 100)
}

// foretell returns the forecast, and what is told of it: "forecast 14 for 08:15 (90 % of 14 days)"; below 0 there is none.
func (r *run) foretell(f *Forecast) (replicas int32, what string) {
	said := forecast.Said{Replicas: -1, Problem: unknownPast}
	if r.Past != nil {
		said = r.Past.Said
	}
	switch {
	case said.Problem != "":
		return -1, "no forecast: " + said.Problem
	case said.Replicas < 0:
		return -1, "no forecast yet: it needs this time of " + f.Needs()
	}
	return said.Replicas, fmt.Sprintf("forecast %d for %s (%s)", said.Replicas, r.now.In(f.Zone).Format("15:04"), f.Told(said.Seasons))
}

const unknownPast = "nothing is known here of what the target needed before"

// begin begins a decision, and says what the past says at its instant.
func (p *Past) begin(f *Forecast, now time.Time) {
	if p.HasClosed = false; p.Given || f == nil {
		return
	}
	p.Said = forecast.Said{Replicas: -1, Problem: p.Problem}
	switch {
	case p.Problem != "":
	case !p.Outlook.Covers(forecast.BucketOf(now)):
		p.Said.Problem = unknownPast
	default:
		p.Said.Replicas, p.Said.Seasons = p.Outlook.At(&f.Settings, now)
		p.Said.Back = p.Outlook.Back
	}
}

// Beside is the past for another forecast of the same target by what was said for f; nil: that says nothing of it, since
// it is made in another way, or its metrics are others.
func (f *Forecast) Beside(said forecast.Said, other *Forecast) *Past {
	if !f.Same(&other.Settings) || said == (forecast.Said{}) {
		return nil
	}
	said, ok := said.Under(&f.Basis, &other.Basis)
	if !ok {
		return nil
	}
	return &Past{Basis: other.Basis, Said: said, Given: true}
}

func (p *Past) problem() string {
	if p == nil {
		return ""
	}
	return p.Said.Back.Problem()
}

// errors tells how the last forecasts were.
func (p *Past) errors() string {
	b := &p.Said.Back
	if b.Tested == 0 {
		return ""
	}
	return fmt.Sprintf("; missed %d %%, excess %d %% in 7 days", b.MissedPercent(), b.ExcessPercent())
}

// bucket is the quarter of an hour of the last decision that combined proposals.
type bucket struct {
	// index is its number, 0: there is none; largest the largest proposal in it, below 0: none.
	index   int64
	largest int32
	// basis is the hash of that of its proposals. void reports whether one of its decisions had a metric that failed or
	// was in fallback: then it does not count.
	basis uint32
	void  bool
}

// noteProposal notes a combined proposal, before bounds, caps and the forecast; whole reports whether all metrics have
// one of their own.
func (r *run) noteProposal(value int32, whole bool) {
	basis := &r.plan.Forecast.Basis
	if r.Past != nil {
		basis = &r.Past.Basis
	}
	b, index, hash := &r.state.bucket, forecast.BucketOf(r.now), basis.Hash()
	if b.index != index || b.basis != hash {
		if r.Past != nil && b.index > 0 && b.index < index && !b.void && b.largest >= 0 {
			r.Past.Closed, r.Past.HasClosed = forecast.Closed{Bucket: b.index, Replicas: b.largest, Of: b.basis}, true
		}
		*b = bucket{index: index, largest: -1, basis: hash}
	}
	if !whole {
		b.void = true
		return
	}
	b.largest = max(b.largest, value)
}

// failedForecast tells that no proposal was made, so that the quarter of an hour does not count, and makes no forecast:
// nothing could be above it.
func (r *run) failedForecast() {
	if r.plan.Forecast != nil {
		r.noteProposal(-1, false)
	}
}

// BasisOf returns what the proposals of a spec are measured by.
func BasisOf(s *recommender.Spec, combine *Combine) forecast.Basis {
	h := fnv.New32a()
	text := func(parts ...string) {
		for _, p := range parts {
			h.Write([]byte(p))
			h.Write([]byte{0})
		}
	}
	b := forecast.Basis{}
	for i := range s.Metrics[:min(len(s.Metrics), forecast.MaxTargets)] {
		m := &s.Metrics[i]
		o := &m.DescribedObject
		text(MetricName(m), m.Target.Type, fmt.Sprint(*o), selectorText(m.Metric.Selector))
		switch t := &m.Target; {
		case t.AverageUtilization != nil:
			text("utilization")
			b.Targets = append(b.Targets, int64(*t.AverageUtilization))
		case t.AverageValue != nil:
			text("average")
			b.Targets = append(b.Targets, *t.AverageValue)
		case t.Value != nil:
			text("value")
			b.Targets = append(b.Targets, *t.Value)
		}
	}
	if combine != nil && combine.Method != Max {
		text(combine.String(), fmt.Sprint(combine.Weights))
	}
	b.Shape = h.Sum32()
	return b
}

func selectorText(s *recommender.LabelSelector) string {
	if s == nil {
		return ""
	}
	return fmt.Sprint(*s)
}

// pastOf keeps the ring of a target where there is no record: in simulations and replays.
type pastOf struct {
	ring     forecast.Ring
	settings *Forecast
	past     Past
	known    bool
}

// before returns the past for a decision.
func (p *pastOf) before(f *Forecast, now time.Time) *Past {
	b := forecast.BucketOf(now)
	if !p.known || p.settings != f || !p.past.Outlook.Covers(b) || p.past.HasClosed {
		if p.settings != f {
			p.ring.Rebase(&f.Basis)
		}
		p.settings, p.known = f, true
		p.past = Past{Basis: f.Basis, Outlook: p.ring.Outlook(&f.Settings, b)}
	}
	return &p.past
}

// after adds the bucket that the decision closed.
func (p *pastOf) after() {
	if p.past.HasClosed {
		p.ring.Add(p.past.Closed, &p.past.Basis, p.settings.Season)
	}
}
