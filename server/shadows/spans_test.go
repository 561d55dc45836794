package shadows

import (
	"testing"
	"time"
)

// Spans are bounded, whatever comes, lose nothing of 30 days, and are fine where they are new.
func TestSpansAreBounded(t *testing.T) {
	const step = int64(15 * time.Second / time.Millisecond)
	var s spans
	at := int64(1_700_000_000_000)
	const days = 40
	steps := int64(days * 24 * 240)
	for i := range steps {
		at += step
		s.add(at, at-step, 10, 12, i > 0)
		s.compare(10, 10+int32(i%2)*2)
		if len(s) > maxSpans {
			t.Fatalf("%d spans", len(s))
		}
	}
	for _, back := range []time.Duration{5 * time.Minute, time.Hour, 24 * time.Hour, 7 * 24 * time.Hour, 30 * 24 * time.Hour} {
		got := s.since(at - back.Milliseconds())
		want := back.Milliseconds() / step
		if near := float64(got.compared) / float64(want); near < 0.9 || near > 1.1 {
			t.Errorf("over %s: %d compared, want about %d", back, got.compared, want)
		}
		if share := float64(got.different) / float64(got.compared); share < 0.45 || share > 0.55 {
			t.Errorf("over %s: %.3f differ", back, share)
		}
		if got.live*12/10 != got.shadow || got.observed < back.Milliseconds()*9/10 || got.largest != 2 {
			t.Errorf("over %s: %+v", back, got)
		}
	}
	decoded := spansOf(s.encode())
	if len(decoded) != len(s) {
		t.Fatalf("decoded %d of %d", len(decoded), len(s))
	}
	for i := range s {
		if s[i] != decoded[i] {
			t.Errorf("span %d: %+v, decoded %+v", i, s[i], decoded[i])
		}
	}
	if all := s.since(0); at-all.from > longest+longest/2 {
		t.Errorf("they reach back %s", time.Duration(at-all.from)*time.Millisecond)
	}
}

// A decision that none follows counts for a quarter of an hour; the time before the first one does not.
func TestADecisionStandsForAWhile(t *testing.T) {
	hour := time.Hour.Milliseconds()
	var s spans
	s.add(hour, 0, 0, 0, false)
	s.compare(4, 5)
	s.add(11*hour, hour, 4, 5, true)
	s.compare(4, 1)
	got := s.since(0)
	if got.observed != mostBetween || got.live != 4*mostBetween || got.shadow != 5*mostBetween || got.compared != 2 || got.different != 2 || got.largest != -3 {
		t.Errorf("got %+v", got)
	}
	if s := spansOf([]int64{1, 2, 3}); len(s) != 0 {
		t.Errorf("of too few numbers: %v", s)
	}
}

// What was compared under a clock that was ahead becomes old as everything else does.
func TestComparisonsOfTheFutureBecomeOld(t *testing.T) {
	minute, day := time.Minute.Milliseconds(), 24*time.Hour.Milliseconds()
	var s spans
	start := 20_000 * day
	s.add(start+365*day, 0, 0, 0, false)
	s.compare(4, 5)
	for at := start; at <= start+10*day; at += minute {
		s.add(at, at-minute, 4, 4, at > start)
		s.compare(4, 4)
	}
	if got := s.since(start + 3*day); got.different != 0 || got.observed > 7*day+day/2 || s.since(0).to > start+10*day {
		t.Errorf("of the last 7 days: %+v, observed for %s", got, time.Duration(got.observed)*time.Millisecond)
	}
}
