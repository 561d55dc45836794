package telemetry

import (
	"math"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"google.golang.org/grpc/codes"
)

// Totals are the totals since the start: of calls to the service's own methods, and of messages
// of streams, each of which requests one decision.
type Totals struct {
	// Calls counts all with a response, including errors; Refused those that met a
	// limit.
	Calls, Refused float64
	// took counts unary calls and messages by duration: at most the bound with the same index
	// in durations; the last one is unbounded.
	took [numDurations + 1]float64
}

// Totals returns the current totals. It takes some tenths of a millisecond.
func (c *Calls) Totals() Totals {
	var t Totals
	for _, m := range c.methods {
		if !strings.HasPrefix(m.Name, "setpoint.") {
			continue // health checks of load balancers would hide the rest
		}
		for code, counter := range m.codes {
			n := counted(counter)
			t.Calls += n
			if codes.Code(code) == codes.ResourceExhausted {
				t.Refused += n
			}
		}
		if h, ok := m.seconds.(prometheus.Metric); ok {
			t.add(h)
		}
	}
	t.Calls += t.add(c.messageSeconds)
	return t
}

func counted(m prometheus.Metric) float64 {
	var read dto.Metric
	if m.Write(&read) != nil {
		return 0
	}
	return read.GetCounter().GetValue()
}

// add adds the counts of a histogram, and returns their number.
func (t *Totals) add(m prometheus.Metric) float64 {
	var read dto.Metric
	if m.Write(&read) != nil {
		return 0
	}
	before := 0.0
	h := read.GetHistogram()
	for i, bucket := range h.GetBucket() {
		upTo := float64(bucket.GetCumulativeCount())
		t.took[i] += upTo - before
		before = upTo
	}
	all := float64(h.GetSampleCount())
	t.took[len(t.took)-1] += all - before
	return all
}

// Since returns the difference from earlier totals.
func (t Totals) Since(earlier Totals) Totals {
	t.Calls -= earlier.Calls
	t.Refused -= earlier.Refused
	for i := range t.took {
		t.took[i] -= earlier.took[i]
	}
	return t
}

// Quantile returns the q-quantile, 0 to 1, of the durations of calls, approximated by
// buckets. false without calls.
func (t Totals) Quantile(part float64) (time.Duration, bool) {
	all := 0.0
	for _, n := range t.took {
		all += n
	}
	if all <= 0 {
		return 0, false
	}
	rank, below := part*all, 0.0
	i := slices.IndexFunc(t.took[:], func(n float64) bool {
		if below+n >= rank && n > 0 {
			return true
		}
		below += n
		return false
	})
	if i < 0 || i >= len(durations) {
		i = len(durations) - 1 // the longest known bound
		return time.Duration(durations[i] * float64(time.Second)), true
	}
	low := 0.0
	if i > 0 {
		low = durations[i-1]
	}
	seconds := low + (durations[i]-low)*(rank-below)/t.took[i]
	return time.Duration(math.Round(seconds * float64(time.Second))), true
}
