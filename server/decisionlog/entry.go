package decisionlog

import (
	"encoding/binary"
	"slices"
	"strings"
	"time"

	"google.golang.org/protobuf/proto"

	storedv1 "github.com/setpoint-dev/setpoint/api/setpoint/stored/v1"
	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/recommender"
	"github.com/setpoint-dev/setpoint/server/apierror"
	"github.com/setpoint-dev/setpoint/server/conversion"
	"github.com/setpoint-dev/setpoint/server/record"
	"github.com/setpoint-dev/setpoint/server/states"
	"github.com/setpoint-dev/setpoint/server/truth"
	"github.com/setpoint-dev/setpoint/store"
)

// Entry is a decision on its way to the log and the feed. It becomes a message only when it is
// written, for which no caller waits.
type Entry struct {
	// Repeat reports whether the log need not keep the decision for long, see Spare.
	Repeat bool

	// decision is the decision, encoded like the record of a target that has no history: that is
	// small, and has a checksum and a version. As an API message it would be four times as large.
	decision []byte
	// fed is what the feed gets in place of it; nil: the same.
	fed   []byte
	basis recommender.Basis
	// first reports whether it is logged only if the log has no other entry.
	first bool
	// changes reports whether the decision changes the count, unsettled that it is not final:
	// the latter goes to the feed only.
	changes, unsettled bool
	// missed stands for one that nobody has: watchers are told that they may miss something.
	missed bool

	// chunk is in place of all this in a log of chunks, see OfChunk.
	chunk *Chunk
}

// Size is its approximate size, in bytes.
func (l *Entry) Size() int {
	n := len(l.decision) + len(l.fed)
	if l.chunk != nil {
		n += cap(l.chunk.Bytes)
	}
	return n
}

// Final reports whether the log keeps the decision for long, if it gets it.
func (l *Entry) Final() bool { return !l.Repeat && !l.unsettled }

// OfMissed returns an entry in place of one that may be missing: a change whose report the store may have, or not.
func OfMissed() Entry { return Entry{missed: true} }

// Chunk is what a target was asked in the course of some minutes.
type Chunk struct {
	// Last is the instant of its last decision, in nanoseconds since the Unix epoch.
	Last int64
	// Bytes are what a truth.Encoder has taken; the log has them sealed.
	Bytes []byte
	// Place is the length of a place of the log, in bytes: a longer chunk takes several.
	Place int
}

// OfChunk returns the entry of a chunk.
func OfChunk(c *Chunk) Entry { return Entry{chunk: c} }

// chunkHeader is the length of what precedes a chunk in the log: Last, so that a reader need not open it.
const chunkHeader = 8

// appendTo appends the entries of the log: the chunk, and then an empty one for each further place that it takes. So the
// chunk goes when the first of its places is needed, and a log of so many places has so many bytes at most.
func (c *Chunk) appendTo(entries []store.LogEntry, key store.Key) []store.LogEntry {
	value := append(binary.BigEndian.AppendUint64(nil, uint64(c.Last)), truth.Seal(c.Bytes)...)
	entries = append(entries, store.LogEntry{Key: key, Value: value})
	for range (len(value) - 1) / c.Place {
		entries = append(entries, store.LogEntry{Key: key})
	}
	return entries
}

// ReadChunk reads an entry of a log of chunks: when its last decision was, and the sealed chunk; nil for one that
// only takes a place, and for what is none.
func ReadChunk(value []byte) (last int64, sealed []byte) {
	if len(value) <= chunkHeader {
		return 0, nil
	}
	return int64(binary.BigEndian.Uint64(value)), value[chunkHeader:]
}

func logDecision(status *recommender.Status, decision *recommender.LastDecision, requestID string, spec uint64, adjusted *recommender.Adjusted, basis *recommender.Basis) Entry {
	h := record.Record{History: recommender.History{Updated: time.Unix(0, decision.At).UTC(), Status: *status, Last: *decision}}
	h.LastRequest, h.Spec.Hash, h.Adjusted = requestID, spec, adjusted
	entry := Entry{decision: record.Append(nil, &h), basis: *basis, changes: decision.From != decision.To}
	if len(entry.decision) > maxLoggedBytes {
		h.Status.CurrentMetrics = nil
		h.Status.Conditions = slices.Clone(h.Status.Conditions)
		for i := range h.Status.Conditions {
			c := &h.Status.Conditions[i]
			c.Reason, c.Message = apierror.ClipMarked(c.Reason), apierror.ClipMarked(c.Message)
		}
		h.Last.Reason, h.Last.Error = apierror.ClipMarked(h.Last.Reason), apierror.ClipMarked(h.Last.Error)
		entry.decision = record.Append(entry.decision[:0], &h)
	}
	if len(entry.decision) > maxLoggedBytes {
		h.Adjusted = overridesOnly(h.Adjusted, recommender.MaxAdjustmentText)
		entry.decision = record.Append(entry.decision[:0], &h)
	}
	if len(entry.decision) > maxFedBytes {
		entry.fed = forFeed(&h)
	}
	return entry
}

// maxKeptBytes limits a decision that the log keeps longer: a larger one is the feed's.
const maxKeptBytes = 2 << 10

func (l *Entry) logged(key store.Key) store.LogEntry {
	decision := l.decision
	if !l.Repeat && len(decision) > maxKeptBytes {
		decision = l.fed
	}
	return store.LogEntry{Key: key, Value: l.value(decision), First: l.first, Kept: !l.Repeat}
}

// value returns an entry of the log with a decision and the basis.
func (l *Entry) value(decision []byte) []byte {
	value, err := proto.Marshal(&storedv1.LogEntry{Decision: decision, Basis: basisOf(&l.basis)})
	if err != nil {
		panic(err) // there is no text in it
	}
	return value
}

// Read decodes an entry of the log; nil if it is invalid.
func Read(value []byte) *setpointv1.Decision {
	entry := &storedv1.LogEntry{Decision: value}
	isMessage := len(value) > 0 && value[0] >= leastTag
	if isMessage && proto.Unmarshal(value, entry) != nil {
		return nil
	}
	h, err := record.Decode(entry.GetDecision())
	if err != nil {
		return nil
	}
	d := conversion.LastDecision(&h)
	if d == nil {
		return nil
	}
	if d.Basis = entry.GetBasis(); !isMessage {
		d.Basis = hiddenBasis(&h.History)
	}
	d.States = states.OfDecision(d).Words()
	return d
}

// leastTag is the least first byte of a message. The formats of records are smaller.
const leastTag = 1 << 3

// forFeed encodes a decision in no more than maxFedBytes: without readings, and if it must be
// without conditions and with shortened texts.
func forFeed(h *record.Record) []byte {
	short := *h
	short.Status.CurrentMetrics = nil
	value := record.Append(nil, &short)
	if len(value) <= maxFedBytes {
		return value
	}
	if h.Adjusted != nil && len(h.Adjusted.Overrides) > 0 {
		short.Status.Conditions, short.Adjusted = nil, overridesOnly(h.Adjusted, recommender.MaxAdjustmentText)
		if value = record.Append(value[:0], &short); len(value) <= maxFedBytes {
			return value
		}
	}
	short.Status.Conditions, short.Adjusted = nil, overridesOnly(h.Adjusted, mostFedOverride)
	short.Last.Reason, short.Last.Error = clipped(short.Last.Reason), clipped(short.Last.Error)
	return record.Append(value[:0], &short)
}

// mostFedOverride limits the text of an override in the smallest form of a decision, in bytes.
const mostFedOverride = 48

// overridesOnly leaves of what stages made of a decision the overrides that begin or end, in texts of so many bytes:
// no later decision tells of them.
func overridesOnly(a *recommender.Adjusted, most int) *recommender.Adjusted {
	if a == nil || len(a.Overrides) == 0 {
		return nil
	}
	only := &recommender.Adjusted{Plain: a.Plain, Overrides: slices.Clone(a.Overrides)}
	for i := range only.Overrides {
		if text := &only.Overrides[i].Message; len(*text) > most {
			*text = strings.ToValidUTF8((*text)[:most], "") + "..."
		}
	}
	return only
}

// clipped shortens a text of the feed.
func clipped(text string) string {
	const most = 256
	if len(text) <= most {
		return text
	}
	return strings.ToValidUTF8(text[:most], "") + "..."
}

// OfDecision returns the entry of a decision just made.
func OfDecision(d *recommender.Decision, requestID string, spec uint64) Entry {
	return logDecision(&d.Status, &recommender.LastDecision{
		ID: d.ID, At: d.At.UnixNano(), From: d.Current, To: d.Desired, Reason: d.Reason, Error: d.Error,
	}, requestID, spec, d.Adjusted, &d.Basis)
}

// OfPending returns the entry of a change just recommended, for watchers: the log gets
// it when it is settled.
func OfPending(d *recommender.Decision, requestID string, spec uint64) Entry {
	l := logDecision(&d.Status, &recommender.LastDecision{
		ID: d.ID, At: d.At.UnixNano(), From: d.Current, To: d.Desired, Reason: d.Reason, Error: d.Error,
		Outcome: recommender.Undecided,
	}, requestID, spec, d.Adjusted, &d.Basis)
	l.unsettled = true
	return l
}

// OfSettled returns the entry of a change that was pending before and has that status now. It
// has the basis if Recommended kept it; otherwise only the proposal, from the history.
func (l *Log) OfSettled(before *record.Record, status *recommender.Status, outcome recommender.Outcome) Entry {
	p := before.Pending
	basis, known := l.pending.of(p.ID)
	if !known {
		basis = proposedAt(before, p.At)
	}
	return logDecision(status, &recommender.LastDecision{
		ID: p.ID, At: p.At, From: p.From, To: p.To, Reason: p.Reason, Error: p.Error, Outcome: outcome,
	}, before.PendingRequest, before.PendingSpec(), before.PendingAdjusted(), &basis)
}

// OfFirst returns the entry of the last decision of a history, which may never have
// been logged.
func OfFirst(before *record.Record) Entry {
	basis := proposedAt(before, before.Last.At)
	l := logDecision(&before.Status, &before.Last, before.LastRequest, before.Spec.Hash, before.Adjusted, &basis)
	l.first = true
	return l
}

// Repeats reports whether a decision repeats the previous one: the same counts for the
// same reason under the same conditions. Readings and the numbers in messages may
// differ.
func Repeats(d *recommender.Decision, before *recommender.History, adjusted *recommender.Adjusted) bool {
	last := &before.Last
	if d.Adjusted != nil && len(d.Adjusted.Overrides) > 0 || !sameAdjustments(d.Adjusted, adjusted) {
		return false
	}
	if last.At == 0 || last.From != d.Current || last.To != d.Desired || last.Reason != d.Reason || last.Error != d.Error {
		return false
	}
	return slices.EqualFunc(d.Status.Conditions, before.Status.Conditions, func(a, b recommender.Condition) bool {
		return a.Type == b.Type && a.Status == b.Status && a.Reason == b.Reason
	})
}

// sameAdjustments reports whether the same stages did something; their numbers and sentences may differ.
func sameAdjustments(a, b *recommender.Adjusted) bool {
	if a == nil || b == nil {
		return a == b
	}
	return slices.EqualFunc(a.Adjustments, b.Adjustments, func(a, b recommender.Adjustment) bool { return a.Stage == b.Stage && a.Rule == b.Rule })
}

// Spare reports whether the log need not keep a decision for long: another one of the same hour says the
// same. So a log has of each hour, beside what is new, one decision.
func Spare(repeats bool, at, other int64) bool {
	return repeats && at/int64(time.Hour) == other/int64(time.Hour)
}

// Concluded appends the entries of the decisions that this one, on the record before, makes final: an earlier
// change that was still pending, and this one if it changes nothing. If it differs from the previous decision, the
// log must have that one, too. Of decisions that repeat each other, also of changes that nobody makes, the log
// keeps few for long.
func (l *Log) Concluded(to []Entry, key store.Key, d *recommender.Decision, before *record.Record, requestID string, spec uint64) []Entry {
	repeated := Repeats(d, &before.History, before.Adjusted)
	spare := Spare(repeated, d.At.UnixNano(), before.Last.At)
	if !repeated && before.Last.At != 0 && before.Last.Outcome == recommender.NotChanged {
		to = append(to, OfFirst(before))
	}
	if settled := d.SettledBefore; settled.ID != (recommender.ID{}) {
		entry := l.OfSettled(before, &before.Status, settled.Outcome)
		entry.Repeat = spare && settled.Outcome == recommender.Dropped
		to = append(to, entry)
	}
	if !d.Changes() && l.Takes(key, &before.History, repeated) {
		entry := OfDecision(d, requestID, spec)
		entry.Repeat = spare
		to = append(to, entry)
	}
	if d.Changes() && l.Feeds() {
		to = append(to, OfPending(d, requestID, spec))
	}
	return to
}

// Shared appends the entries of a fleet's decision, on the record before. It is final when it is shared out: nobody
// reports it, and what the members do with their shares is the fleet's to know.
func (l *Log) Shared(to []Entry, key store.Key, d *recommender.Decision, before *record.Record, spec uint64) []Entry {
	repeated := Repeats(d, &before.History, before.Adjusted)
	if !repeated && before.Last.At != 0 && before.Last.Outcome == recommender.NotChanged {
		to = append(to, OfFirst(before))
	}
	if d.Changes() || l.Takes(key, &before.History, repeated) {
		entry := OfShare(d, spec)
		entry.Repeat = Spare(repeated, d.At.UnixNano(), before.Last.At)
		to = append(to, entry)
	}
	return to
}

// OfShare returns the entry of a share that a fleet's member was told. It is final, as the fleet's decision is.
func OfShare(d *recommender.Decision, spec uint64) Entry {
	outcome := recommender.NotChanged
	if d.Changes() {
		outcome = recommender.Applied
	}
	return logDecision(&d.Status, &recommender.LastDecision{
		ID: d.ID, At: d.At.UnixNano(), From: d.Current, To: d.Desired, Reason: d.Reason, Error: d.Error, Outcome: outcome,
	}, "", spec, d.Adjusted, &d.Basis)
}
