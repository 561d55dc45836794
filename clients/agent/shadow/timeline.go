package shadow

import (
	"cmp"
	"time"
)

// The maximum number of spans in an object's timeline, and their initial length. When all spans
// are full, pairs are merged.
const (
	maxSpans  = 24
	firstSpan = time.Minute
)

// Span is the agreement in one part of the timeline.
type Span struct {
	From     time.Time `json:"from"`
	To       time.Time `json:"to"`
	Agreed   int       `json:"agreed"`
	Diverged int       `json:"diverged"`
}

// timeline is agreement over time, in spans of equal length. The zero value is empty.
type timeline struct {
	length time.Duration
	spans  []Span
}

// add counts a reconcile; reconciles must come in the order of time.
func (t *timeline) add(at time.Time, agreed bool) {
	t.length = cmp.Or(t.length, firstSpan)
	n := len(t.spans)
	for n > 0 && n == maxSpans && !at.Before(t.spans[n-1].To) {
		t.halve()
		n = len(t.spans)
	}
	if n == 0 || !at.Before(t.spans[n-1].To) {
		from := at.Truncate(t.length)
		t.spans = append(t.spans, Span{From: from, To: from.Add(t.length)})
		n++
	}
	if agreed {
		t.spans[n-1].Agreed++
	} else {
		t.spans[n-1].Diverged++
	}
}

// halve doubles the length of spans and merges pairs.
func (t *timeline) halve() {
	t.length *= 2
	joined := t.spans[:0]
	for _, s := range t.spans {
		from := s.From.Truncate(t.length)
		if n := len(joined); n > 0 && joined[n-1].From.Equal(from) {
			joined[n-1].Agreed += s.Agreed
			joined[n-1].Diverged += s.Diverged
			continue
		}
		s.From, s.To = from, from.Add(t.length)
		joined = append(joined, s)
	}
	t.spans = joined
}
