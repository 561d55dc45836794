package codec

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"slices"
	"strings"
	"time"

	"github.com/setpoint-dev/setpoint/internal/packed"
	"github.com/setpoint-dev/setpoint/recommender"
)

// Format 1: the format's byte, the fields in the order of Append, and a CRC-32C of all that. Integers are varints, signed ones zigzag;
// instants are differences to the newest record, in lists differences to the previous
// one, and for recommendations, which come at regular intervals, differences of these
// differences; strings and lists are preceded by their length; words of a small
// vocabulary are indices. A history of twenty recommendations takes some 250 bytes.
// Texts are for people; they are cut to MaxText.
//
// Format 2 is for a history whose lists once exceeded the limit: it adds the instant up
// to which recommendations last, and the spans of scale events. All others use format
// 1, which older versions can read.
//
// Both may end with a tail, see tailBit: fields with a tag and a length, of which a version skips
// those that it does not know. A long list of recommendations has an index there, see indexBit, with
// which Memory.DecodePacked leaves the list as it is.
const (
	historyFormat = 1
	limitedFormat = 2
)

// Errors of Decode; test for them with errors.Is.
var (
	// ErrFormat: the value has a format that this version does not know, because a
	// newer version wrote it. With ErrCorrupt it is one of the two: the checksum is right, but the
	// fields do not add up here.
	ErrFormat = errors.New("unknown history format")
	// ErrCorrupt: the value is not a history.
	ErrCorrupt = errors.New("corrupt history")
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Bits of the first field.
const (
	seenBit = 1 << iota
	initializedBit
	pendingBit
	recordsEventBit
	keepsMetricsBit
	bareBit
	incarnationBit
	recommendationsLimitedBit // format 2 only
	eventsLimitedBit          // format 2 only
	tailBit                   // a tail follows the answers
)

// Tags of the tail's fields. A tag must keep its meaning for ever.
const (
	paceTag  = 1 // the interval in milliseconds, above two bits: of Frame.LastUp and LastDown
	turnsTag = 2 // differences to the newest record, then to the previous turn, in milliseconds
	specTag  = 3 // Frame.Spec: the hash, then what is known of Since and Kept

	stagesTag   = 4  // Frame.Stages
	adjustedTag = 5  // Frame.Adjusted
	outsideTag  = 6  // Pending.Outside, without a value
	answersTag  = 7  // Answer.Adjusted: the index of the answer, the length, the value
	shadowsTag  = 8  // Frame.Shadows
	pausedTag   = 9  // Frame.Paused, without a value
	textTag     = 10 // Frame.Spec.Text; empty: it was too long

	// The index of the recommendations, see package packed. It stays the last field, so that it is found without
	// the recommendations.
	indexTag = 1 << 20
)

// clusterShift is the position of the cluster in the first field, above its bits. pollBit is above
// the cluster: the text in the place of the last request is Frame.LastPoll. Older versions leave
// both out, and show that text as a request's id. indexBit says that the tail ends with an index.
const (
	clusterShift = 10
	pollBit      = 1 << (clusterShift + 32)
	indexBit     = pollBit << 1
)

// Frame is what the formats have places for around a history, for a service: whose the target is,
// and which requests it answered.
type Frame struct {
	// Incarnation is the incarnation that the history belongs to, from the last request with
	// one; 0: none had one.
	Incarnation uint64
	// Cluster is the cluster that owns the target, from the first request with one; 0: none
	// had one.
	Cluster uint32
	// LastRequest and PendingRequest are the request ids of History.Last and History.Pending,
	// for display; empty: none.
	LastRequest, PendingRequest string
	// LastPoll is the etag of the stored spec on which History.Last was decided, for all who poll;
	// empty: it was decided for the caller of LastRequest.
	LastPoll string
	// Answers are the latest answers to requests with a request id, oldest first.
	Answers []Answer
	// Interval is the usual time between two decisions, in milliseconds; 0: unknown.
	Interval int64
	// Paused reports whether the last gap between decisions was a pause, which Interval does not follow. Only
	// with an Interval.
	Paused bool
	// LastChange is the direction of the last change that was applied, 1 up and -1 down; 0: unknown.
	LastChange int8
	// Turns are when the count turned, up after down or down after up, newest first, in
	// milliseconds since the Unix epoch; at most MaxTurns.
	Turns []int64
	// Spec is the spec of the last decision.
	Spec SpecUse
	// Stages is what stages remember, opaque here; empty: nothing.
	Stages []byte
	// Adjusted is what stages made of the last decision; nil: there were none.
	Adjusted *recommender.Adjusted
	// Shadows is what other specs of the target decide beside it, opaque here; empty: there are none.
	Shadows []byte
}

// SpecUse is which spec decided.
type SpecUse struct {
	// Hash identifies the spec with its options; 0: unknown, and so is the rest.
	Hash uint64
	// Since is the first decision with it after one with another, in milliseconds since the Unix
	// epoch; 0: unknown.
	Since int64
	// Text is the spec, opaque here; empty: it is not kept. TooLong reports whether that is because of its length.
	Text    string
	TooLong bool
}

// MaxTurns limits Frame.Turns.
const MaxTurns = 16

// Answer is an answer kept for retries with the same request id.
type Answer struct {
	RequestID string
	ID        recommender.ID
	// At is the instant of the decision, in nanoseconds since the Unix epoch.
	At       int64
	From, To int32
	Reason   string
	Error    string
	Status   recommender.Status
	Events   []recommender.Event
	// Explanation is opaque here; empty: the request wanted none.
	Explanation []byte
	// Adjusted is as in Frame.
	Adjusted *recommender.Adjusted
}

// Append appends the encoding of a history and its frame to b.
func Append(b []byte, h *recommender.History, f *Frame) []byte {
	return new(Long).Append(b, h, f)
}

// Append is the function Append with memory.
func (m *Long) Append(b []byte, h *recommender.History, f *Frame) []byte {
	start := len(b)
	e := encoder{b: append(b, historyFormat), limited: isLimited(h), indexed: isIndexed(h)}
	if e.limited {
		e.b[start] = limitedFormat
	}
	bits := bitsOf(h, f)
	if e.indexed {
		bits |= indexBit | tailBit
	}
	e.uint(bits)
	if f.Incarnation != 0 {
		e.b = binary.LittleEndian.AppendUint64(e.b, f.Incarnation)
	}
	e.time(h.Updated)
	e.base = h.Updated.UnixNano()
	e.instant(h.Since)
	if e.limited {
		e.instant(h.LastingUntil)
	}
	e.recommendations(h, m)
	e.scaleEvents(h.ScaleUps)
	e.scaleEvents(h.ScaleDowns)
	e.status(&h.Status)
	if h.Pending != nil {
		e.pending(h.Pending, f.PendingRequest)
		if h.Pending.KeepsMetrics {
			e.metricStatuses(h.Pending.PreviousMetrics)
		}
	}
	e.uint(uint64(len(h.Settled)))
	for i := range h.Settled {
		e.b = append(append(e.b, h.Settled[i].ID[:]...), byte(h.Settled[i].Outcome))
	}
	e.object(&h.Target)
	e.last(&h.Last, cmp.Or(f.LastPoll, f.LastRequest))
	e.uint(uint64(len(f.Answers)))
	for i := range f.Answers {
		e.answer(&f.Answers[i])
	}
	if hasTail(h, f) {
		e.tail(h, f)
	}
	if e.indexed {
		m.index = packed.AppendIndex(m.index[:0], e.base, e.blocks)
		e.field(indexTag, m.index)
	}
	return binary.LittleEndian.AppendUint32(e.b, crc32.Checksum(e.b[start:], castagnoli))
}

// isIndexed reports whether the history's recommendations get an index: only those that are upstream's slots, for a
// decision rewrites all others.
func isIndexed(h *recommender.History) bool {
	if h.Packed != nil {
		return true
	}
	return len(h.Recommendations) >= packed.Least && !h.RecommendationsLimited &&
		!slices.ContainsFunc(h.Recommendations, func(r recommender.TimedRecommendation) bool { return !packed.Fits(r.At) })
}

// isLimited reports whether the history needs format 2.
func isLimited(h *recommender.History) bool { return h.RecommendationsLimited || h.EventsLimited }

func bitsOf(h *recommender.History, f *Frame) uint64 {
	var bits uint64
	set := func(bit uint64, on bool) {
		if on {
			bits |= bit
		}
	}
	set(seenBit, h.Seen)
	set(initializedBit, h.Initialized)
	set(recommendationsLimitedBit, h.RecommendationsLimited)
	set(eventsLimitedBit, h.EventsLimited)
	set(pendingBit, h.Pending != nil)
	set(incarnationBit, f.Incarnation != 0)
	set(pollBit, f.LastPoll != "")
	set(tailBit, hasTail(h, f))
	if p := h.Pending; p != nil {
		set(recordsEventBit, p.RecordsEvent)
		set(keepsMetricsBit, p.KeepsMetrics)
		set(bareBit, p.Bare)
	}
	return bits | uint64(f.Cluster)<<clusterShift
}

// Memory is what decoding one history after the other reuses: each overwrites the previous one. It
// is not safe for concurrent use.
type Memory struct{ parts historyParts }

// Long is memory for long lists that stay packed: for one list after the other. The zero value allocates with the
// first one.
type Long struct {
	room  *packed.Room
	index []byte
}

// Decode decodes what Append wrote. The result shares no memory with b. It is valid until the next
// call with the same memory; its texts stay valid.
func (m *Memory) Decode(b []byte, h *recommender.History, f *Frame) error {
	return m.decode(b, h, f, nil)
}

// DecodePacked is Decode that leaves a list of recommendations with an index packed: the result shares it with b.
func (m *Memory) DecodePacked(b []byte, h *recommender.History, f *Frame, memory *Long) error {
	return m.decode(b, h, f, memory)
}

func (m *Memory) decode(b []byte, h *recommender.History, f *Frame, long *Long) error {
	if len(b) == 0 {
		return fmt.Errorf("%w: it is empty", ErrCorrupt)
	}
	if b[0] != historyFormat && b[0] != limitedFormat {
		return fmt.Errorf("%w %d: this version reads formats %d and %d", ErrFormat, b[0], historyFormat, limitedFormat)
	}
	if len(b) < 5 {
		return fmt.Errorf("%w: it is cut short at %d bytes", ErrCorrupt, len(b))
	}
	body, sum := b[:len(b)-4], binary.LittleEndian.Uint32(b[len(b)-4:])
	if crc32.Checksum(body, castagnoli) != sum {
		return fmt.Errorf("%w: its checksum is wrong", ErrCorrupt)
	}
	parts := &m.parts
	parts.clear()
	d := decoder{b: body[1:], freeSlots: parts.slots[:], freeConditions: parts.conditions[:], freeMetrics: parts.metrics[:], limited: b[0] == limitedFormat, long: long}
	*h, *f = recommender.History{}, Frame{}
	if d.history(h, f); d.tailed {
		d.tail(h, f, parts)
	}
	if d.numbers != nil && h.Packed == nil {
		d.fail() // the bit says that there is an index
	}
	if d.failed || len(d.b) > 0 {
		return fmt.Errorf("%w, or %w: its checksum is right, its fields do not add up", ErrFormat, ErrCorrupt)
	}
	return nil
}

// Times returns a history's Updated and Since, in nanoseconds since the Unix epoch. It is much faster than Decode, and looks
// at nothing else, the checksum neither; false if they can't be read.
func Times(b []byte) (updated, since int64, ok bool) {
	if len(b) == 0 || b[0] != historyFormat && b[0] != limitedFormat {
		return 0, 0, false
	}
	d := decoder{b: b[1:]}
	var h recommender.History
	d.head(&h, new(Frame))
	return d.base, h.Since, !d.failed
}

// head decodes what a history begins with, and returns its bits.
func (d *decoder) head(h *recommender.History, f *Frame) uint64 {
	bits := d.uint()
	h.Seen, h.Initialized, f.Cluster = bits&seenBit != 0, bits&initializedBit != 0, uint32(bits>>clusterShift)
	d.tailed = bits&tailBit != 0
	if bits&incarnationBit != 0 {
		f.Incarnation = d.incarnation()
	}
	h.Updated = d.time()
	d.base = h.Updated.UnixNano()
	h.Since = d.instant()
	return bits
}

func (d *decoder) history(h *recommender.History, f *Frame) {
	bits := d.head(h, f)
	if d.limited {
		h.RecommendationsLimited, h.EventsLimited = bits&recommendationsLimitedBit != 0, bits&eventsLimitedBit != 0
		h.LastingUntil = d.instant()
		if !isLimited(h) {
			d.fail() // belongs in format 1
		}
	}
	if bits&indexBit != 0 && d.long != nil {
		d.skipRecommendations()
	} else {
		h.Recommendations = d.recommendations()
	}
	h.ScaleUps = d.scaleEvents()
	h.ScaleDowns = d.scaleEvents()
	d.status(&h.Status)
	if bits&pendingBit != 0 {
		h.Pending, f.PendingRequest = d.pending()
		h.Pending.RecordsEvent, h.Pending.Bare = bits&recordsEventBit != 0, bits&bareBit != 0
		if h.Pending.KeepsMetrics = bits&keepsMetricsBit != 0; h.Pending.KeepsMetrics {
			h.Pending.PreviousMetrics = d.metricStatuses()
		}
	}
	h.Settled = list(d, len(recommender.ID{})+1, func(s *recommender.Settled) {
		s.ID, s.Outcome = d.id(), recommender.Outcome(d.index(int(recommender.Dropped)+1))
	})
	d.object(&h.Target)
	if f.LastRequest = d.last(&h.Last); bits&pollBit != 0 {
		if f.LastPoll, f.LastRequest = f.LastRequest, ""; f.LastPoll == "" {
			d.fail() // the bit says that there is one
		}
	}
	f.Answers = list(d, len(recommender.ID{})+14, d.answer)
}

func (e *encoder) answer(a *Answer) {
	e.string(a.RequestID)
	e.b = append(e.b, a.ID[:]...)
	e.instant(a.At)
	e.int(int64(a.From))
	e.int(int64(a.To))
	e.string(a.Reason)
	e.string(a.Error)
	e.status(&a.Status)
	e.uint(uint64(len(a.Events)))
	for _, event := range a.Events {
		e.word(eventTypes, event.Type)
		e.string(event.Reason)
		e.string(event.Message)
	}
	e.uint(uint64(len(a.Explanation)))
	e.b = append(e.b, a.Explanation...)
}

func (d *decoder) answer(a *Answer) {
	*a = Answer{
		RequestID: d.string(), ID: d.id(), At: d.instant(), From: int32(d.int()), To: int32(d.int()),
		Reason: d.string(), Error: d.string(),
	}
	d.status(&a.Status)
	a.Events = list(d, 3, func(e *recommender.Event) {
		e.Type, e.Reason, e.Message = d.word(eventTypes), d.string(), d.string()
	})
	if explanation := d.string(); explanation != "" {
		a.Explanation = []byte(explanation)
	}
}

// There may be thousands of recommendations, so their numbers are written and read
// here, not one by one through the encoder and the decoder.
func (e *encoder) recommendations(h *recommender.History, m *Long) {
	switch slots := h.Recommendations; {
	case h.Packed != nil:
		e.uint(uint64(h.Packed.Len()))
		e.b, e.blocks = h.Packed.Append(e.b, e.base, m.open())
	case e.indexed:
		e.uint(uint64(len(slots)))
		e.b, e.blocks = packed.Pack(e.b, e.base, slots)
	default:
		e.uint(uint64(len(slots)))
		e.b = packed.Append(e.b, e.base, slots)
	}
}

func (m *Long) open() *packed.Room {
	if m.room == nil {
		m.room = new(packed.Room)
	}
	return m.room
}

func (d *decoder) recommendations() []recommender.TimedRecommendation {
	slots := makeList(d, 2, &d.freeSlots)
	rest, ok := packed.Take(d.b, d.base, slots)
	if !ok {
		d.fail()
		return nil
	}
	d.b = rest
	return slots
}

// skipRecommendations skips recommendations whose index is at the end.
func (d *decoder) skipRecommendations() {
	bytes, ok := packed.LengthIn(d.b)
	n := d.uint()
	if d.count = int(n); !ok || n > uint64(bytes/2) {
		d.fail()
		return
	}
	d.numbers = d.take(uint64(bytes))
}

// Bits beside a change.
const (
	outdatedBit = 1
	spanBit     = 2 // format 2 only: the span follows
)

func (e *encoder) scaleEvents(slots []recommender.ScaleEvent) {
	e.uint(uint64(len(slots)))
	before := e.base
	for _, s := range slots {
		e.int(s.At - before)
		bits, width := int64(0), 1
		if s.Outdated {
			bits |= outdatedBit
		}
		if e.limited {
			width = 2
			if s.Span != 0 {
				bits |= spanBit
			}
		}
		e.int(int64(s.Change)<<width | bits)
		if bits&spanBit != 0 {
			e.int(s.Span)
		}
		before = s.At
	}
}

func (d *decoder) scaleEvents() []recommender.ScaleEvent {
	before, width := d.base, 1
	if d.limited {
		width = 2
	}
	return list(d, 2, func(s *recommender.ScaleEvent) {
		s.At = before + d.int()
		change := d.int()
		s.Change, s.Outdated = int32(change>>width), change&outdatedBit != 0
		if d.limited && change&spanBit != 0 {
			s.Span = d.int()
		}
		before = s.At
	})
}

func (e *encoder) pending(p *recommender.Pending, requestID string) {
	e.b = append(e.b, p.ID[:]...)
	e.instant(p.At)
	e.int(int64(p.From))
	e.int(int64(p.To))
	e.int(int64(p.PreviousDesired))
	e.int(int64(p.LongestPeriod))
	e.b = append(e.b, byte(p.Zero))
	e.string(p.Reason)
	e.string(requestID)
	e.string(p.Error)
}

func (d *decoder) pending() (p *recommender.Pending, requestID string) {
	p = &recommender.Pending{
		ID: d.id(), At: d.instant(), From: int32(d.int()), To: int32(d.int()),
		PreviousDesired: int32(d.int()), LongestPeriod: int32(d.int()),
		Zero: recommender.ZeroTransition(d.index(int(recommender.ZeroUnknown) + 1)), Reason: d.string(),
	}
	requestID, p.Error = d.string(), d.string()
	return p, requestID
}

func (e *encoder) last(l *recommender.LastDecision, requestID string) {
	e.b = append(e.b, l.ID[:]...)
	e.string(requestID)
	e.instant(l.At)
	e.int(int64(l.From))
	e.int(int64(l.To))
	e.string(l.Reason)
	e.string(l.Error)
	e.b = append(e.b, byte(l.Outcome))
}

func (d *decoder) last(l *recommender.LastDecision) (requestID string) {
	l.ID, requestID = d.id(), d.string()
	*l = recommender.LastDecision{
		ID: l.ID, At: d.instant(), From: int32(d.int()), To: int32(d.int()),
		Reason: d.string(), Error: d.string(), Outcome: recommender.Outcome(d.index(int(recommender.Dropped) + 1)),
	}
	return requestID
}

// encoder appends to b.
type encoder struct {
	b []byte
	// base is the reference of instants, in nanoseconds since the Unix epoch.
	base int64
	// newest is the last time appended.
	newest time.Time
	// limited reports whether the format is 2, indexed whether there is an index: of blocks.
	limited, indexed bool
	blocks           []packed.Block
}

func (e *encoder) uint(v uint64) { e.b = binary.AppendUvarint(e.b, v) }
func (e *encoder) int(v int64)   { e.b = binary.AppendVarint(e.b, v) }

// string appends a text, or the beginning of one that is too long and how much is
// missing.
func (e *encoder) string(s string) {
	if len(s) > MaxText {
		s = clipStored(s)
	}
	e.uint(uint64(len(s)))
	e.b = append(e.b, s...)
}

// instant appends an instant in nanoseconds. Differences wrap around, so that every
// number survives.
func (e *encoder) instant(nanos int64) { e.int(nanos - e.base) }

// How a time is encoded.
const (
	sameTime  = iota // the previous one
	zeroTime         // the zero time
	otherTime        // seconds since the previous one, and nanoseconds
)

// time appends seconds and nanoseconds, because an instant may lie before 1678. Many
// equal the previous one: conditions change together.
func (e *encoder) time(t time.Time) {
	switch {
	case t.Equal(e.newest):
		e.b = append(e.b, sameTime)
		return
	case t.IsZero():
		e.b = append(e.b, zeroTime)
		return
	}
	e.b = append(e.b, otherTime)
	e.int(t.Unix() - e.newest.Unix())
	e.uint(uint64(t.Nanosecond()))
	e.newest = t
}

// historyParts is memory for most histories, in one allocation: recommendations of one
// downscale window, the conditions, and one metric.
type historyParts struct {
	slots      [24]recommender.TimedRecommendation
	conditions [4]recommender.Condition
	metrics    [1]recommender.MetricStatus
	turns      [MaxTurns]int64
}

// clear empties the memory for the next history; recommendations are overwritten.
func (p *historyParts) clear() {
	p.conditions = [len(p.conditions)]recommender.Condition{}
	p.metrics = [len(p.metrics)]recommender.MetricStatus{}
}

// decoder takes values from the front of b. After the first invalid value it has failed
// and returns zeros.
type decoder struct {
	b      []byte
	failed bool
	// Preallocated lists, nil once used, and the buffer for strings.
	freeSlots      []recommender.TimedRecommendation
	freeConditions []recommender.Condition
	freeMetrics    []recommender.MetricStatus
	texts          strings.Builder
	// base, newest and limited are the encoder's.
	base    int64
	newest  time.Time
	limited bool
	// tailed reports whether a tail follows.
	tailed bool
	// long is for recommendations that stay packed, nil: they do not. Then numbers has them, and count says how many
	// they are.
	long    *Long
	numbers []byte
	count   int
}

func (d *decoder) fail() { d.failed, d.b = true, nil }

func (d *decoder) uint() uint64 {
	v, n := binary.Uvarint(d.b)
	if n <= 0 {
		d.fail()
		return 0
	}
	d.b = d.b[n:]
	return v
}

func (d *decoder) int() int64 {
	v, n := binary.Varint(d.b)
	if n <= 0 {
		d.fail()
		return 0
	}
	d.b = d.b[n:]
	return v
}

func (d *decoder) take(n uint64) []byte {
	if n > uint64(len(d.b)) {
		d.fail()
		return nil
	}
	taken := d.b[:n]
	d.b = d.b[n:]
	return taken
}

func (d *decoder) string() string { return d.text(d.take(d.uint())) }

func (d *decoder) text(b []byte) string {
	if len(b) == 0 {
		return ""
	}
	from := d.room(len(b))
	d.texts.Write(b)
	return d.texts.String()[from:]
}

// usualMessages is about how many bytes a history's messages take beyond what is stored
// of them.
const usualMessages = 160

// room makes room for a text of that length and returns its offset. Texts share few
// buffers; bytes once written are never overwritten.
func (d *decoder) room(n int) (from int) {
	if d.texts.Cap()-d.texts.Len() < n {
		d.texts = strings.Builder{}
		d.texts.Grow(n + len(d.b) + usualMessages)
	}
	return d.texts.Len()
}

// around returns the text in which a string is embedded, both stored in short form.
func (d *decoder) around(begin, end string) string {
	b := d.take(d.uint())
	if len(b) == 0 && end == "" {
		return begin
	}
	from := d.room(len(begin) + len(b) + len(end))
	d.texts.WriteString(begin)
	d.texts.Write(b)
	d.texts.WriteString(end)
	return d.texts.String()[from:]
}

func (d *decoder) instant() int64 { return d.base + d.int() }

func (d *decoder) time() time.Time {
	switch d.index(otherTime + 1) {
	case sameTime:
		return d.newest
	case zeroTime:
		return time.Time{}
	}
	s, ns := d.newest.Unix()+d.int(), d.uint()
	if ns >= uint64(time.Second) {
		d.fail()
		return time.Time{}
	}
	d.newest = time.Unix(s, int64(ns)).UTC()
	return d.newest
}

func (d *decoder) id() (id recommender.ID) {
	copy(id[:], d.take(uint64(len(id))))
	return id
}

func (d *decoder) incarnation() uint64 {
	b := d.take(8)
	if len(b) == 0 {
		return 0
	}
	incarnation := binary.LittleEndian.Uint64(b)
	if incarnation == 0 {
		d.fail() // the bit says that there is one
	}
	return incarnation
}

// index takes a byte below n.
func (d *decoder) index(n int) int {
	b := d.take(1)
	if len(b) == 0 || int(b[0]) >= n {
		d.fail()
		return 0
	}
	return int(b[0])
}

// list takes a list whose elements take at least size bytes each, which bounds
// what a wrong length can allocate. An empty list is nil.
func list[T any](d *decoder, size int, take func(*T)) []T { return listIn(d, size, new([]T), take) }

// listIn is list, but uses the preallocated list if it is large enough.
func listIn[T any](d *decoder, size int, free *[]T, take func(*T)) []T {
	l := makeList(d, size, free)
	for i := range l {
		if d.failed {
			return nil
		}
		take(&l[i])
	}
	return l
}

// makeList takes the length of a list and allocates it, nil for an empty one.
func makeList[T any](d *decoder, size int, free *[]T) []T {
	n := d.uint()
	if n == 0 || n > uint64(len(d.b)/size) {
		if n != 0 {
			d.fail()
		}
		return nil
	}
	l := *free
	if n <= uint64(len(l)) {
		l, *free = l[:n:n], nil
		return l
	}
	return make([]T, n)
}
