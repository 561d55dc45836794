package load_test

import (
	"errors"
	"testing"
	"time"

	"github.com/setpoint-dev/setpoint/bench/load"
)

func TestResultsAdd(t *testing.T) {
	t.Parallel()
	a, b := load.NewResult(), load.NewResult()
	a.Elapsed, b.Elapsed = time.Second, time.Second
	for range 30 {
		a.Record(time.Millisecond, nil)
	}
	first := errors.New("first")
	b.Record(3*time.Millisecond, nil)
	b.Record(0, first)
	a.Add(b)
	if a.Done != 31 || a.Failed != 1 || !errors.Is(a.Err, first) {
		t.Errorf("%d done, %d failed with %v; want 31, 1 and the first error", a.Done, a.Failed, a.Err)
	}
	if got := a.Rate(); got != 15.5 {
		t.Errorf("%v/s, want 31 in 2 s: 15.5/s", got)
	}
	if got := a.Quantile(1); got < 3*time.Millisecond {
		t.Errorf("the slowest took %v, want 3 ms", got)
	}
}

func TestTimesBeyondTheHistogramCount(t *testing.T) {
	t.Parallel()
	r := load.NewResult()
	r.Record(time.Hour, nil)
	r.Record(-time.Second, nil)
	if r.Done != 2 || r.Quantile(1) < 59*time.Second {
		t.Errorf("%d done, the slowest in %v; want 2 and the histogram's end", r.Done, r.Quantile(1))
	}
}
