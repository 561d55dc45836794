package wire

import (
	"encoding/hex"
	"math"
	"time"
	"unicode/utf8"

	"github.com/setpoint-dev/setpoint/recommender"
	"github.com/setpoint-dev/setpoint/server/conversion"
)

// AppendResponse appends the encoding of conversion.Response(d) with that request id. ok is false for a
// decision that the slow path must encode, or find impossible to encode; b is then
// returned unchanged.
func AppendResponse(b []byte, d *recommender.Decision, requestID string) (out []byte, ok bool) {
	w := writer{b: b}
	w.response(d, requestID)
	return w.end(b)
}

func (w *writer) response(d *recommender.Decision, requestID string) {
	w.unfit = d.Adjusted != nil
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
	w.string(11, requestID)
}

// explanation encodes the trace on the slow path. It is large and rare.
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

// writer appends fields with numbers below 16.
type writer struct {
	b []byte
	// unfit reports whether the slow path is needed.
	unfit bool
}

// end returns the written bytes, or the original ones.
func (w *writer) end(before []byte) ([]byte, bool) {
	if w.unfit {
		return before, false
	}
	return w.b, true
}

// open begins a message and returns the position of its length.
func (w *writer) open(field int) int {
	w.b = append(w.b, byte(field<<3|isBytes), 0)
	return len(w.b) - 1
}

// close ends a message. One byte was reserved for its length; a longer length moves the
// message.
func (w *writer) close(at int) {
	n := len(w.b) - at - 1
	if n < 0x80 {
		w.b[at] = byte(n)
		return
	}
	var length [10]byte
	size := len(appendNumber(length[:0], uint64(n)))
	w.b = append(w.b, length[:size-1]...) // reserves the bytes
	copy(w.b[at+size:], w.b[at+1:])
	copy(w.b[at:], length[:size])
}

func (w *writer) string(field int, s string) {
	if s != "" {
		w.text(field, s)
	}
}

// text appends a string field, even an empty one.
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

// number appends a field with a number, even 0.
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

// time appends an instant, even the zero time.
func (w *writer) time(field int, t time.Time) {
	at := w.open(field)
	if seconds := t.Unix(); seconds != 0 {
		w.number(1, seconds)
	}
	w.int32(2, int32(t.Nanosecond()))
	w.close(at)
}

// timeUnlessZero appends an instant unless it is the zero time.
func (w *writer) timeUnlessZero(field int, t time.Time) {
	if !t.IsZero() {
		w.time(field, t)
	}
}
