// Package record is what the store keeps of a target: the engine's history, and what the service
// adds to it: whose the target is, and the answers to requests that may be repeated. The engine
// knows none of that.
package record

import (
	"slices"
	"time"

	"github.com/setpoint-dev/setpoint/internal/codec"
	"github.com/setpoint-dev/setpoint/recommender"
)

// Record is a target's record. The zero value is that of a new target. It is immutable, as a
// History is: methods return new ones, which may share parts with it.
type Record struct {
	recommender.History
	codec.Frame
}

// SpecUse is which spec decided.
type SpecUse = codec.SpecUse

// PendingSpec is the hash of the spec of the pending change; 0: it is unknown, or nothing is pending.
func (r *Record) PendingSpec() uint64 {
	if r.Pending == nil || r.Pending.ID != r.Last.ID {
		return 0
	}
	return r.Spec.Hash
}

// PendingAdjusted is what stages made of the pending change; nil: nothing, or it is unknown.
func (r *Record) PendingAdjusted() *recommender.Adjusted {
	if r.Pending == nil || r.Pending.ID != r.Last.ID {
		return nil
	}
	return r.Adjusted
}

// Answer is an answer kept for retries with the same request id.
type Answer = codec.Answer

// Memory is what decoding one record after the other reuses: each overwrites the previous one. It is
// not safe for concurrent use.
type Memory struct {
	codec.Memory
	long codec.Long
}

// Empty keeps only the memory.
func (m *Memory) Empty() {
	m.Memory = codec.Memory{}
}

// Append appends the record's encoding to b.
func Append(b []byte, r *Record) []byte { return codec.Append(b, &r.History, &r.Frame) }

// Decode decodes what Append wrote. The result shares no memory with b.
func Decode(b []byte) (r Record, err error) {
	if err := new(codec.Memory).Decode(b, &r.History, &r.Frame); err != nil {
		return Record{}, err
	}
	return r, nil
}

// Decode is the function Decode. The record is valid until the next call; its texts stay valid.
func (m *Memory) Decode(b []byte) (r Record, err error) {
	if err := m.Memory.Decode(b, &r.History, &r.Frame); err != nil {
		return Record{}, err
	}
	return r, nil
}

// DecodePacked is Decode for a decision, into r: a long list of recommendations stays packed in b, see
// recommender.History.Packed. After an error r is of no use.
func (m *Memory) DecodePacked(b []byte, r *Record) error {
	return m.Memory.DecodePacked(b, &r.History, &r.Frame, &m.long)
}

// Append is the function Append, with the memory of the record that was decoded last.
func (m *Memory) Append(b []byte, r *Record) []byte { return m.long.Append(b, &r.History, &r.Frame) }

// AsStored returns the record as it is after Append and Decode: with long texts cut, and wall-clock
// instants. For long histories it is faster, because it shares the lists, which lose nothing, with r.
func AsStored(r *Record) (Record, error) {
	short := *r
	short.Recommendations, short.ScaleUps, short.ScaleDowns, short.Packed = nil, nil, nil, nil
	stored, err := Decode(Append(make([]byte, 0, 512), &short))
	if err != nil {
		return Record{}, err
	}
	stored.Recommendations, stored.ScaleUps, stored.ScaleDowns, stored.Packed = r.Recommendations, r.ScaleUps, r.ScaleDowns, r.Packed
	return stored, nil
}

// Next returns the record after a decision on it that was made for the owner: with the next history,
// and before its answer is added.
func (r *Record) Next(history recommender.History, o Owner) Record {
	next := Record{History: history}
	r.NextIn(&next, o)
	return next
}

// NextIn is Next in a record that has the next history.
func (r *Record) NextIn(next *Record, o Owner) {
	next.Frame = r.Frame
	history := &next.History
	next.LastPoll, next.Stages, next.Adjusted = "", nil, nil
	if next.LastRequest = ""; history.Pending == nil || r.Pending == nil || history.Pending.ID != r.Pending.ID {
		next.PendingRequest = ""
	}
	if o.Incarnation != 0 {
		next.Incarnation = o.Incarnation
	}
	if o.Cluster != 0 {
		next.Cluster = o.Cluster
	}
	next.pace(r)
}

// Settle is recommender.Settle for the record's change.
func (r *Record) Settle(namespace string, id recommender.ID, outcome recommender.Outcome, message string) (recommender.Settlement, Record, error) {
	settlement, history, err := recommender.Settle(r.History, namespace, id, outcome, message)
	next := Record{History: history, Frame: r.Frame}
	if history.Pending == nil {
		next.PendingRequest = ""
	}
	next.pace(r)
	return settlement, next, err
}

// WithoutFuture is the history's WithoutFuture; answers and a spec in use later than the instant get it, too, and later
// turns are left out. What stages remember they correct themselves.
func (r *Record) WithoutFuture(now time.Time) Record {
	if !r.Updated.After(now) {
		return *r
	}
	next := Record{History: r.History.WithoutFuture(now), Frame: r.Frame}
	next.Spec.Since = min(next.Spec.Since, now.UnixMilli())
	next.Turns = slices.DeleteFunc(slices.Clone(r.Turns), func(at int64) bool { return at > now.UnixMilli() })
	next.Answers = slices.Clone(next.Answers)
	for i := range next.Answers {
		a := &next.Answers[i]
		of := recommender.History{Updated: r.Updated, Status: a.Status}
		a.At, a.Status = min(a.At, now.UnixNano()), of.WithoutFuture(now).Status
	}
	return next
}

// Proposal returns what the metrics proposed at an instant, in nanoseconds since the Unix epoch; false
// if the history does not have it. The first evaluation also records the count, which no metric proposed.
func (r *Record) Proposal(at int64) (replicas int32, known bool) {
	r.AllAt(at, func(slot int, of int32) {
		if slot > 0 || at != r.Since {
			replicas, known = of, true
		}
	})
	return replicas, known
}
