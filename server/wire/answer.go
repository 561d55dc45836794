package wire

import (
	"encoding/hex"
	"math"
	"time"
	"unicode/utf8"

	"github.com/setpoint-dev/setpoint/recommender"
	"github.com/setpoint-dev/setpoint/server/conversion"
)

// AppendResponse appends the encoding of conversion.Response(d). ok is false for a
// decision that the long way is to encode, or to find unfit to be encoded; b is then
// returned as it was.
func AppendResponse(b []byte, d *recommender.Decision) (out []byte, ok bool) {
	w := writer{b: b}
	w.response(d)
	return w.end(b)
}

func (w *writer) response(d *recommender.Decision) {
	w.int32(1, d.Desired)
	w.int32(2, d.Current)
	w.string(3, conversion.Action(d.Current, d.Desired))
	w.id(4, d.ID)
	w.string(5, d.Reason)
	status := w.open(6)
	w.status(&d.Status)
	w.close(status)
	w.explanation(7, d)
	for i := range d.Events {
		e := &d.Events[i]
		event := w.open(8)
		w.string(1, e.Type)
		w.string(2, e.Reason)
		w.string(3, e.Message)
		w.close(event)
	}
	w.string(9, d.Error)
	w.time(10, d.At)
	w.string(11, d.RequestID)
}

// explanation encodes the trace the long way. It is large and seldom asked for.
func (w *writer) explanation(field int, d *recommender.Decision) {
	if d.Explanation == nil {
		return
	}
	e, err := conversion.EncodeExplanation(d, math.MaxInt)
	if err != nil {
		w.unfit = true
		return
	}
	w.b = appendField(w.b, field, e)
}

// writer appends fields, which have numbers below 16.
type writer struct {
	b []byte
	// unfit reports whether the long way is needed.
	unfit bool
}

// end returns what was written, or what was there before.
func (w *writer) end(before []byte) ([]byte, bool) {
	if w.unfit {
		return before, false
	}
	return w.b, true
}

// open begins a message and returns where its length belongs.
func (w *writer) open(field int) int {
	w.b = append(w.b, byte(field<<3|isBytes), 0)
	return len(w.b) - 1
}

// close ends a message. One byte was left for its length; a longer one makes what
// follows it move.
func (w *writer) close(at int) {
	n := len(w.b) - at - 1
	if n < 0x80 {
		w.b[at] = byte(n)
		return
	}
	var length [10]byte
	size := len(appendNumber(length[:0], uint64(n)))
	w.b = append(w.b, length[:size-1]...) // any bytes: room
	copy(w.b[at+size:], w.b[at+1:])
	copy(w.b[at:], length[:size])
}

func (w *writer) string(field int, s string) {
	if s != "" {
		w.text(field, s)
	}
}

// text appends a string field, also an empty one.
func (w *writer) text(field int, s string) {
	if !utf8.ValidString(s) {
		w.unfit = true
	}
	w.b = append(w.b, byte(field<<3|isBytes))
	w.b = appendNumber(w.b, uint64(len(s)))
	w.b = append(w.b, s...)
}

// int32 appends a field of that type, unless it is 0.
func (w *writer) int32(field int, n int32) {
	if n != 0 {
		w.number(field, int64(n))
	}
}

// number appends a field with a number, also 0.
func (w *writer) number(field int, n int64) {
	w.b = append(w.b, byte(field<<3|isVarint))
	w.b = appendNumber(w.b, uint64(n))
}

func (w *writer) id(field int, id recommender.ID) {
	if id == (recommender.ID{}) {
		return
	}
	w.b = append(w.b, byte(field<<3|isBytes), byte(hex.EncodedLen(len(id))))
	w.b = hex.AppendEncode(w.b, id[:])
}

// time appends an instant, also the zero time.
func (w *writer) time(field int, t time.Time) {
	at := w.open(field)
	if seconds := t.Unix(); seconds != 0 {
		w.number(1, seconds)
	}
	w.int32(2, int32(t.Nanosecond()))
	w.close(at)
}

// timeUnlessZero appends an instant, but not the zero time.
func (w *writer) timeUnlessZero(field int, t time.Time) {
	if !t.IsZero() {
		w.time(field, t)
	}
}
