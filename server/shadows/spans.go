package shadows

import (
	"time"
)

const (
	// maxSpans limits the spans of a shadow.
	maxSpans = 32
	// leastSpan is how long a span is at least, and longest how far they reach back, in milliseconds.
	leastSpan = int64(time.Minute / time.Millisecond)
	longest   = int64(30 * 24 * time.Hour / time.Millisecond)
	// mostBetween is for how long a decision counts at most if none follows, in milliseconds.
	mostBetween = int64(15 * time.Minute / time.Millisecond)
	// numbers is how many a span is encoded as.
	numbers = 8
)

// span is the comparisons of some time. Instants and times are in milliseconds.
type span struct {
	from, to            int64
	compared, different int64
	// observed is how long decisions were in force, and live and shadow what they add up to, replicas times
	// milliseconds.
	observed, live, shadow int64
	// largest is the largest difference, the shadow's replicas less the decision's.
	largest int64
}

// replicaSeconds are live and shadow in whole seconds.
func (o span) replicaSeconds() (live, shadow int64) {
	return (o.live + 500) / 1000, (o.shadow + 500) / 1000
}

// spans are in the order of time, the longer the older they are.
type spans []span

func spansOf(encoded []int64) (s spans) {
	at := int64(0)
	for ; len(encoded) >= numbers && len(s) < maxSpans; encoded = encoded[numbers:] {
		e := encoded
		from := at + e[0]
		at = from + e[1]
		s = append(s, span{from, at, e[2], e[3], e[4], e[5], e[5] + e[6], e[7]})
	}
	return s
}

func (s spans) encode() []int64 {
	out, at := make([]int64, 0, numbers*len(s)), int64(0)
	for _, o := range s {
		out = append(out, o.from-at, o.to-o.from, o.compared, o.different, o.observed, o.live, o.shadow-o.live, o.largest)
		at = o.to
	}
	return out
}

// add adds an instant at which decisions are compared, and the time since the last one if the two of then are known.
func (s *spans) add(now, last int64, live, shadow int32, known bool) {
	for i := range *s { // the clock may have been ahead
		of := &(*s)[i]
		of.from, of.to = min(of.from, now), min(of.to, now)
	}
	for len(*s) > 0 && (*s)[0].to <= now-longest {
		*s = (*s)[1:]
	}
	if n := len(*s); n == 0 || now-(*s)[n-1].from > leastSpan {
		from := now
		if n > 0 {
			from = max((*s)[n-1].to, now-mostBetween)
		}
		*s = append(*s, span{from: from, to: now})
	}
	of := &(*s)[len(*s)-1]
	of.to = max(of.to, now)
	if passed := min(now-last, mostBetween); known && last > 0 && passed > 0 {
		of.observed += passed
		of.live += passed * int64(live)
		of.shadow += passed * int64(shadow)
	}
	for len(*s) > maxSpans {
		s.merge(now)
	}
}

// compare compares two decisions at the instant that was added last.
func (s spans) compare(live, shadow int32) {
	of, difference := &s[len(s)-1], int64(shadow)-int64(live)
	of.compared++
	if difference != 0 {
		of.different++
	}
	of.largest = larger(of.largest, difference)
}

func larger(a, b int64) int64 {
	if max(b, -b) > max(a, -a) {
		return b
	}
	return a
}

// merge makes one of the two neighbors that are shortest for their age.
func (s *spans) merge(now int64) {
	best, least := 0, 0.0
	for i := range len(*s) - 1 {
		a, b := (*s)[i], (*s)[i+1]
		if part := float64(b.to-a.from) / float64(now-b.to+leastSpan); i == 0 || part < least {
			best, least = i, part
		}
	}
	(*s)[best] = sum((*s)[best], (*s)[best+1])
	*s = append((*s)[:best+1], (*s)[best+2:]...)
}

func sum(a, b span) span {
	return span{
		min(a.from, b.from), max(a.to, b.to), a.compared + b.compared, a.different + b.different,
		a.observed + b.observed, a.live + b.live, a.shadow + b.shadow, larger(a.largest, b.largest),
	}
}

// since returns the comparisons since an instant: of a span that it parts, in proportion.
func (s spans) since(instant int64) (all span) {
	first := true
	for _, o := range s {
		if o.to < instant {
			continue
		}
		if o.from < instant {
			part := func(n int64) int64 { return int64(float64(n) * float64(o.to-instant) / float64(o.to-o.from)) }
			o.compared, o.different = part(o.compared), part(o.different)
			o.observed, o.live, o.shadow, o.from = part(o.observed), part(o.live), part(o.shadow), instant
		}
		if first {
			all, first = o, false
			continue
		}
		all = sum(all, o)
	}
	return all
}
