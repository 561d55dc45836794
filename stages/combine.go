package stages

import (
	"math"
	"math/bits"
	"slices"
	"strconv"

	"github.com/setpoint-dev/setpoint/recommender"
)

// Method is how proposals become one.
type Method uint8

// The methods.
const (
	Max Method = iota
	Min
	Quorum
	Weighted
	Sum
)

var methodNames = [...]string{Max: "MAX", Min: "MIN", Quorum: "QUORUM", Weighted: "WEIGHTED", Sum: "SUM"}

// String returns the API's word for the method.
func (m Method) String() string { return methodNames[m] }

// Combine is how the metrics' proposals become one.
type Combine struct {
	Method Method
	// Quorum is how many metrics must want as much: 1 to the number of metrics.
	Quorum int
	// Weights are by metric, in a common unit, at least 0 and not all 0, with a sum below 2^63.
	Weights []int64
}

// maxListed is how many proposals an adjustment lists.
const maxListed = 8

// combine makes one proposal of all, within the caps. A failed metric counts as an unknown number of
// replicas: the combined value is taken if it is the current count or more whatever that number is, and
// else the count is held. For the largest proposal that is the engine's own rule, and without caps below
// it nothing is touched.
func (r *run) combine(c *recommender.Combining) {
	o := outcome{current: c.Current}
	failed := 0
	for i := range c.Metrics {
		if e := &c.Metrics[i]; !e.Ignored {
			o.counted++
			if e.Failure != nil {
				failed++
			}
		}
	}
	if failed == o.counted { // nothing to combine: the count is held
		r.failedForecast()
		return
	}
	o.failed = failed > 0
	of := c
	if r.hasLeast { // which is not combined, and nothing that is needed
		rest := *c
		rest.Metrics = slices.Concat(c.Metrics[:len(c.Metrics)-len(r.voters)], r.voters[1:])
		of = &rest
		o.counted--
	}
	value := largestOf(of.Metrics)
	if p := r.plan.Combine; p != nil && p.Method != Max {
		if combined, ok := p.of(of.Metrics, o.counted, r.order(of)); ok {
			o.partly = p.Method == Weighted && r.isPartly(of)
			r.tellCombined(of, &o, value, combined)
			c.Edited = of.Edited
			if value = combined; o.holds(combined) && !o.failed {
				value = c.Current
			}
			o.partly = false
			c.Combined, c.Name = true, string(p.appendTo(make([]byte, 0, 64), o.counted))
		}
	}
	if r.plan.Forecast != nil {
		r.noteProposal(value, !o.failed && r.external == "" && r.others == "")
	}
	if r.hasLeast {
		value = r.atLeast(c, &o, value)
	}
	value = r.forecast(c, &o, value)
	if l := r.smallestCap(); l != nil && l.replicas < value {
		c.Edited = true
		a := recommender.Adjustment{Stage: l.stage, Rule: l.rule, Before: o.of(value), After: o.of(l.replicas), Until: l.until}
		if a.Before != a.After {
			if l.message != nil {
				if a.Message = l.message(a.Before); o.holds(l.replicas) {
					a.Message += "; held at " + itoa(a.After) + becauseFailed
				}
			}
			r.tell(a)
		}
		value = l.replicas
		c.Combined, c.Name, c.Limited = true, l.rule, true
	}
	if c.Combined {
		c.Replicas, c.Held = value, o.holds(value)
	}
}

// atLeast returns the combined value, or the paced minimum where that is above it.
func (r *run) atLeast(c *recommender.Combining, o *outcome, value int32) int32 {
	least, v := r.voters[0].Proposal, &r.votes[0]
	switch {
	case least <= value:
		return value
	case r.plan.Combine == nil || r.plan.Combine.Method == Max: // which is the engine's choice already
		return least
	}
	r.tell(recommender.Adjustment{
		Stage: v.stage, Rule: v.rule, Before: o.of(value), After: o.of(least), Until: v.until,
		Message: v.title + " of " + itoa(least) + " is above the combined " + itoa(value),
	})
	c.Edited, c.Combined, c.Name = true, true, v.rule
	return least
}

// isPartly reports whether of a metric that has a proposal only a part is known: what it adds to a mean may be more. Other methods
// take it only where it is above the current count, and then more of it leads to no other count below that.
func (r *run) isPartly(c *recommender.Combining) bool {
	for i := range r.plan.Metrics {
		if r.least(i) == 0 {
			continue
		}
		if e := r.evaluationOf(c, i); e != nil && e.Failure == nil && !e.Ignored && e.Instead == "" {
			return true
		}
	}
	return false
}

const (
	becauseFailed = " because a metric failed"
	becausePartly = " because only a part of a metric is known"
)

// outcome is what becomes of a combined value before windows.
type outcome struct {
	current int32
	counted int
	failed  bool
	// partly reports whether it may be more, since only a part of a metric is known.
	partly bool
}

// holds reports whether what is not known holds the count, because it would fall.
func (o *outcome) holds(value int32) bool { return (o.failed || o.partly) && value < o.current }

func (o *outcome) of(value int32) int32 {
	if o.holds(value) {
		return o.current
	}
	return max(0, value)
}

// smallestCap returns the smallest of the caps, the first of those; nil: there is none.
func (r *run) smallestCap() *limit {
	var least *limit
	for i := range r.caps {
		if l := &r.caps[i]; least == nil || l.replicas < least.replicas {
			least = l
		}
	}
	return least
}

// largestOf is the engine's choice: upstream takes 0 for none yet, so that a later proposal below it wins.
func largestOf(metrics []recommender.MetricEvaluation) int32 {
	var largest int32
	for i := range metrics {
		e := &metrics[i]
		if !e.Ignored && e.Failure == nil && (largest == 0 || e.Proposal > largest) {
			largest = e.Proposal
		}
	}
	return largest
}

// of returns the combined value, with failed metrics at 0. It is not ok where the metrics that are left
// have no weight. order is as run.order returns it.
func (p *Combine) of(metrics []recommender.MetricEvaluation, counted int, order []int) (value int32, ok bool) {
	var room [16]int32
	proposals := room[:0]
	for i := range metrics {
		if e := &metrics[i]; !e.Ignored {
			proposals = append(proposals, proposalOf(e))
		}
	}
	switch p.Method {
	case Min:
		return slices.Min(proposals), true
	case Quorum:
		slices.Sort(proposals)
		return proposals[counted-min(max(p.Quorum, 1), counted)], true
	case Sum:
		var sum int64
		for _, v := range proposals {
			sum += int64(v)
		}
		return int32(min(sum, math.MaxInt32)), true
	case Weighted:
		return p.weighted(metrics, order)
	}
	return largestOf(metrics), true
}

// proposalOf is what a metric proposes, at least 0. A failed one is unknown, and 0 the least it can be.
func proposalOf(e *recommender.MetricEvaluation) int32 {
	if e.Failure != nil {
		return 0
	}
	return max(0, e.Proposal)
}

// weighted returns the weighted mean, rounded up. Proposals that are no metric's have no weight: the
// largest of them counts where it is above the mean.
func (p *Combine) weighted(metrics []recommender.MetricEvaluation, order []int) (value int32, ok bool) {
	var high, low, weights uint64 // 128 bits: a proposal has 31, and the weights together 63
	var others int32
	for i := range metrics {
		e, at := &metrics[i], i
		if order != nil {
			at = order[i]
		}
		switch {
		case e.Ignored:
		case at < 0 || at >= len(p.Weights):
			others = max(others, proposalOf(e))
		default:
			w := uint64(p.Weights[at])
			h, l := bits.Mul64(w, uint64(proposalOf(e)))
			var carry uint64
			low, carry = bits.Add64(low, l, 0)
			high += h + carry
			weights += w
		}
	}
	if weights == 0 {
		return 0, false
	}
	mean, rest := bits.Div64(high, low, weights) // a mean of int32 is one
	if rest > 0 {
		mean++
	}
	return max(int32(mean), others), true
}

// String is the method with its number: "QUORUM 2".
func (p *Combine) String() string { return string(p.append(nil)) }

func (p *Combine) append(b []byte) []byte {
	if b = append(b, p.Method.String()...); p.Method == Quorum {
		b = strconv.AppendInt(append(b, ' '), int64(p.Quorum), 10)
	}
	return b
}

// appendTo appends what is combined without a list: "QUORUM 2 of 3 proposals".
func (p *Combine) appendTo(b []byte, counted int) []byte {
	b = strconv.AppendInt(append(p.append(b), " of "...), int64(counted), 10)
	return append(b, " proposals"...)
}

// tellCombined tells the combined value where the largest would have led to something else.
func (r *run) tellCombined(c *recommender.Combining, o *outcome, largest, combined int32) {
	if largest == combined {
		return
	}
	c.Edited = true
	before, after := o.of(largest), o.of(combined)
	if before == after && o.holds(largest) == o.holds(combined) {
		return
	}
	p := r.plan.Combine
	result := func(b []byte) []byte {
		b = append(b, ": "...)
		if o.holds(combined) {
			b = append(appendInt(append(b, "at least "...), combined), ", held at "...)
			why := becauseFailed
			if !o.failed {
				why = becausePartly
			}
			b = append(appendInt(b, after), why...)
		} else {
			b = appendInt(b, after)
		}
		return appendInt(append(b, "; MAX would be "...), before)
	}
	var message []byte
	if o.counted <= maxListed {
		message = result(r.listed(c, append(p.append(make([]byte, 0, recommender.MaxAdjustmentText)), " of "...)))
	}
	if len(message) == 0 || len(message) > recommender.MaxAdjustmentText {
		message = result(p.appendTo(message[:0], o.counted))
	}
	r.tell(recommender.Adjustment{Stage: recommender.StageCombine, Rule: p.Method.String(), Before: before, After: after, Message: string(message)})
}

// listed appends what is combined: "Resource:cpu 8, External:queue failed".
func (r *run) listed(c *recommender.Combining, list []byte) []byte {
	before, order := len(list), r.order(c)
	for i := range c.Metrics {
		e := &c.Metrics[i]
		if e.Ignored {
			continue
		}
		if len(list) > before {
			list = append(list, ", "...)
		}
		at := i
		if order != nil {
			at = order[i]
		}
		if at >= 0 && at < len(r.plan.Metrics) {
			list = append(list, r.plan.Metrics[at]...)
		} else {
			list = append(list, e.Spec.Metric.Name...)
		}
		if e.Failure != nil {
			list = append(list, " failed"...)
			continue
		}
		list = appendInt(append(list, ' '), e.Proposal)
	}
	return list
}

// order are the indexes in the plan of what is evaluated, below 0 for what is no metric of it; nil: they are the same.
// Old versions of the controller have cpu last, and one cpu metric only.
func (r *run) order(c *recommender.Combining) []int {
	n := min(len(c.Metrics), len(r.in.Spec.Metrics))
	same := true
	for i := 0; same && i < n; i++ {
		same = c.Metrics[i].Spec == &r.in.Spec.Metrics[i]
	}
	if same {
		return nil
	}
	order := make([]int, len(c.Metrics))
	for i := range order {
		order[i] = -1
	}
	for at := range r.plan.Metrics {
		if e := r.evaluationOf(c, at); e != nil {
			for i := range c.Metrics {
				if &c.Metrics[i] == e {
					order[i] = at
				}
			}
		}
	}
	return order
}

// itoa is a count in a sentence. Sentences are put together: with fmt they would cost more than the stages.
func itoa(n int32) string { return strconv.Itoa(int(n)) }

func appendInt(b []byte, n int32) []byte { return strconv.AppendInt(b, int64(n), 10) }
