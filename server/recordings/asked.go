package recordings

import (
	"slices"
	"time"

	"google.golang.org/protobuf/proto"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/fleet"
	"github.com/setpoint-dev/setpoint/internal/codec"
	"github.com/setpoint-dev/setpoint/recommender"
	"github.com/setpoint-dev/setpoint/server/conversion"
	"github.com/setpoint-dev/setpoint/server/record"
	"github.com/setpoint-dev/setpoint/server/truth"
	"github.com/setpoint-dev/setpoint/stages"
	"github.com/setpoint-dev/setpoint/store"
)

// Call is a call for a decision. Note needs it without the decision, and Keep with it.
type Call struct {
	Key   *store.Key
	Input *recommender.Input
	// Spec returns the spec, nil: it has no text. SpecHash identifies it.
	Spec     interface{ SpecInUse() *setpointv1.SpecInUse }
	SpecHash uint64
	Now      time.Time
	// Past is what the decision was told of the target's past; nil: nothing.
	Past *stages.Past
	// Proposals are the caller's.
	Proposals []stages.Proposal
	// Most is the cluster's share of the store, in bytes: 0 unlimited, below 0 unknown.
	Most     int64
	Decision *recommender.Decision
}

// Memory is for keeping one decision after the other.
type Memory struct {
	step truth.Step
	// sums are free ones: a batch decides many before it keeps the first.
	sums []*recommender.Sums
}

// mostSumsKept limits the metrics of the sums that a Memory keeps.
const mostSumsKept = 16

// take returns free sums, which give takes back.
func (m *Memory) take() *recommender.Sums {
	n := len(m.sums) - 1
	if n < 0 {
		return new(recommender.Sums)
	}
	taken := m.sums[n]
	m.sums = m.sums[:n]
	return taken
}

func (m *Memory) give(s *recommender.Sums) {
	if cap(s.Metrics) <= mostSumsKept {
		clear(s.Metrics) // keep no references to the input
		m.sums = append(m.sums, s)
	}
}

// Empty keeps only the memory.
func (m *Memory) Empty() {
	clear(m.step.Metrics[:cap(m.step.Metrics)])
	m.step = truth.Step{Metrics: m.step.Metrics[:0]}
}

// Asked is what a decision notes of its record before it is made.
type Asked struct {
	// keeps reports whether the decision is kept.
	keeps  bool
	before int64
	state  []byte
	text   []byte
	// tail is the target's, if it had one, and shard the one that it is in.
	tail  *tail
	shard *shard
	// sums are those of the decision, if it has summed up; else nil.
	sums *recommender.Sums
}

// Begin begins an attempt to decide. It is kept unless it recorded nothing, or was made without the store, or its profile
// can't decide on sums, or there is no room for the target.
func (r *Recordings) Begin(a *Asked, key *store.Key, in *recommender.Input, dryRun bool) {
	keeps := r != nil && !dryRun && !in.HoldDown && in.Options.Profile.AddsUp() && r.room.keeps(key)
	*a = Asked{keeps: keeps, sums: a.sums} // which may be those of an attempt that was in vain
}

// SumsOf are for the decision on an input, nil: it is not kept.
func (a *Asked) SumsOf(in *recommender.Input, m *Memory) *recommender.Sums {
	if !a.keeps {
		return nil
	}
	if a.sums == nil {
		a.sums = m.take()
	}
	a.sums.ResetFor(in)
	return a.sums
}

// Note notes what is kept of the record before the decision; moved reports whether its history is not that of the
// decision before.
func (r *Recordings) Note(a *Asked, c *Call, known *record.Record, moved bool) {
	if !a.keeps {
		if c.Input.HoldDown {
			r.anew(c.Key)
		}
		return
	}
	if known.Seen {
		a.before = known.Updated.UnixNano()
	}
	state, text := a.due(r, c.Key, c.SpecHash, c.Now.UnixNano())
	if a.shard == nil {
		return
	}
	if state || moved {
		before := record.Record{History: known.History, Frame: codec.Frame{
			Stages: known.Stages, Adjusted: known.Adjusted, Turns: known.Turns, LastChange: known.LastChange,
		}}
		if previous := c.Input.PreviousStatus; !known.Seen && previous != nil {
			before.Status = *previous
		}
		a.state = record.Append(nil, &before)
	}
	if text && c.Spec != nil {
		use := proto.CloneOf(c.Spec.SpecInUse())
		use.Options = conversion.Options(&c.Input.Options) // the server's own, too
		if b, err := proto.Marshal(use); err == nil {
			a.text = b
		}
	}
}

// due notes the tail of a target, and reports whether the next step is to have its record, and whether the text of its
// spec. It notes nothing of a target that is asked too often.
func (a *Asked) due(r *Recordings, key *store.Key, spec uint64, at int64) (state, text bool) {
	s := r.shard(key)
	s.mu.Lock()
	defer s.mu.Unlock()
	tail := s.tails[*key]
	if tail == nil {
		a.shard = s
		return true, true
	}
	if !tail.pace.allows(at) {
		r.dropped.Inc()
		tail.state = 0 // what comes next begins anew
		return false, false
	}
	a.shard, a.tail = s, tail
	state = tail.state == 0 || max(at-tail.state, tail.state-at) >= int64(stateAgain)
	return state, state || tail.spec != spec
}

// anew makes the next step of a target have its record, because a decision is not kept.
func (r *Recordings) anew(key *store.Key) {
	s := r.shard(key)
	s.mu.Lock()
	defer s.mu.Unlock()
	if tail := s.tails[*key]; tail != nil {
		tail.state = 0
	}
}

// Keep keeps what was asked and decided, once that is stored.
func (r *Recordings) Keep(a *Asked, c *Call, m *Memory) {
	s := a.shard
	if s == nil { // Note found nothing to keep
		return
	}
	step := m.stepOf(a, c)
	s.mu.Lock()
	defer s.mu.Unlock()
	tail := a.tail
	if tail == nil || tail.gone {
		tail = r.tail(s, c.Key)
	}
	if tail == nil || !tail.encoder.Step(step) {
		r.dropped.Inc()
		return
	}
	if others := time.Duration(step.Before - tail.last); tail.last > 0 && others > 0 {
		// Other instances decided meanwhile: of so many chunks at a time each is for as much longer.
		tail.until = tail.until.Add(min(others, r.time))
	}
	tail.last, tail.most = max(tail.last, step.At), c.Most
	if len(step.State) > 0 {
		tail.state = step.At
	}
	if len(step.SpecText) > 0 {
		tail.spec = step.Spec
	}
	r.kept(s, c.Key, tail)
}

// allSummed reports whether the decision has the sums of all metrics of pods: not if it did not get so far.
func allSummed(s *recommender.Sums, in *recommender.Input) bool {
	for i := range in.Spec.Metrics {
		if !s.Metrics[i].Sampled && !fleet.IsTotal(&in.Spec.Metrics[i]) {
			return false
		}
	}
	return len(s.Metrics) == len(in.Spec.Metrics)
}

// stepOf returns what is kept of a call. It is valid until the next one.
func (m *Memory) stepOf(a *Asked, c *Call) *truth.Step {
	d, in := c.Decision, c.Input
	s := &m.step
	metrics, others := s.Metrics, s.Problem.Others[:0]
	*s = truth.Step{
		At: d.At.UnixNano(), Before: a.before, Spec: c.SpecHash, SpecText: a.text, State: a.state,
		Scale: in.Scale, Generation: -1,
		Current: d.Current, Desired: d.Desired, StatusCurrent: d.Status.CurrentReplicas, StatusDesired: d.Status.DesiredReplicas, Basis: d.Basis, Reason: d.Reason, Error: d.Error, Conditions: d.Status.Conditions,
		Proposed: c.Proposals,
	}
	if c.Past != nil {
		s.Said = c.Past.Said
	}
	if in.HasGeneration {
		s.Generation = in.Generation
	}
	switch {
	case in.ScaleError != nil:
		s.Problem = truth.Problem{Kind: truth.ScaleProblem, Code: uint8(in.ScaleError.Reason), Message: in.ScaleError.Message}
	case in.SelectorProblem != nil:
		p := in.SelectorProblem
		s.Problem = truth.Problem{Kind: truth.SelectorProblem, Reason: string(p.Reason), Message: p.Message, Selector: p.Selector, Others: append(others, p.Autoscalers...)}
	}
	sums := a.sums
	if a.sums = nil; sums == nil {
		sums = m.take()
		in.SumsIn(sums, d.At, "")
	} else if !allSummed(sums, in) {
		in.SumsIn(sums, d.At, "")
	}
	defer m.give(sums)
	s.Pods, s.Ready = int32(sums.Pods), int32(sums.Ready)
	n := len(in.Spec.Metrics)
	s.Metrics = slices.Grow(metrics[:0], n)[:n]
	for i := range s.Metrics {
		m := &s.Metrics[i]
		*m = fleet.MetricDigest{Sums: sums.Metrics[i]}
		if i >= len(in.Readings) {
			continue
		}
		readings := &in.Readings[i]
		m.Error, m.SelectorError = readings.Error, readings.SelectorError
		if fleet.IsTotal(&in.Spec.Metrics[i]) {
			m.Total = fleet.TotalOf(readings.Values)
		}
	}
	return s
}
