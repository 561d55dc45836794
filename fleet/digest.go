package fleet

import (
	"errors"
	"fmt"
	"math"
	"math/bits"
	"time"

	"github.com/setpoint-dev/setpoint/recommender"
)

// Digest is what a member's call tells the fleet: sums of integers in place of pods and series.
type Digest struct {
	// Version is that of the spec for which the sums were made.
	Version uint64
	// Scale has the member's own replicas.
	Scale recommender.Scale
	// Pods is how many pods there are, Ready how many of them run and are ready.
	Pods, Ready int32
	// Placed is how many pods have a place to run, and Unplaced how many wait for one.
	Placed, Unplaced int32
	// Min and Max are the bounds of the member's caller, and of overrides of the member, as far as they count for the
	// fleet; Max below 0: there is no such number. A Min above what the fleet lets the member have is an override's, and
	// counts; of an own minimum see OwnMin.
	Min, Max int32
	// Metrics belong to the metrics of the spec by index.
	Metrics []MetricDigest
}

// MetricDigest is one metric of a Digest.
type MetricDigest struct {
	// Sums are of metrics of pods.
	Sums recommender.MetricSums
	// Total is of Object and External metrics.
	Total Total
	// Error is the error of the metrics API, SelectorError why the metric's selector is malformed;
	// empty: there is none.
	Error, SelectorError string
}

// Total is the sum of a list of values in milli-units, with all that sums of several lists depend on.
type Total struct {
	// Series is how many values there are.
	Series int32
	// Sum may wrap. Low and High are the lowest and the highest sum of the first values, none or more,
	// at least the smallest and at most the largest number; Beyond is by how much it was above that.
	Sum, Low, High, Beyond int64
}

// ErrBlind means that a member could not see its own replicas or pods: it has called, but tells nothing.
var ErrBlind = errors.New("the member can't see its pods")

// MostPods limits the pods of a digest.
const MostPods = 1 << 20

// NewDigest reduces a member's input for that instant. The input's metrics and options are the fleet's.
// The digest has no bounds of the caller: it sets them who knows them. It returns ErrBlind if the scale could not be read, or the pods not selected.
func NewDigest(now time.Time, in *recommender.Input, member string, version uint64) (Digest, error) {
	switch {
	case in.ScaleError != nil:
		return Digest{}, fmt.Errorf("%w: %s", ErrBlind, in.ScaleError.Message)
	case in.SelectorProblem != nil:
		return Digest{}, fmt.Errorf("%w: %s", ErrBlind, in.SelectorProblem.Reason)
	case len(in.Pods) > MostPods:
		return Digest{}, fmt.Errorf("%d pods: a member can have %d", len(in.Pods), MostPods)
	}
	sums := in.SumsAt(now, member)
	d := Digest{
		Version: version, Scale: in.Scale, Pods: int32(sums.Pods), Ready: int32(sums.Ready), Max: -1,
		Metrics: make([]MetricDigest, len(in.Spec.Metrics)),
	}
	for i := range in.Pods {
		switch p := &in.Pods[i]; {
		case p.Deleting || p.Phase == recommender.PhaseFailed:
		case p.Phase == recommender.PhasePending && p.StartTime.IsZero():
			d.Unplaced++
		default:
			d.Placed++
		}
	}
	for i := range d.Metrics {
		m := &d.Metrics[i]
		m.Sums = sums.Metrics[i]
		if i >= len(in.Readings) {
			continue
		}
		readings := &in.Readings[i]
		m.Error, m.SelectorError = readings.Error, readings.SelectorError
		if IsTotal(&in.Spec.Metrics[i]) && m.Error == "" && m.SelectorError == "" {
			m.Total = TotalOf(readings.Values)
		}
	}
	return d, nil
}

// IsTotal reports whether the metric is read as a whole, without pods.
func IsTotal(m *recommender.MetricSpec) bool {
	return m.Type == recommender.ObjectMetric || m.Type == recommender.ExternalMetric
}

// TotalOf adds up values.
func TotalOf(values []recommender.Value) Total {
	t := Total{Series: int32(min(len(values), math.MaxInt32))}
	upper, lower := int64(0), uint64(0) // the sum, of 128 bits
	for i := range values {
		v := values[i].Milli
		t.Sum += v
		var carry uint64
		lower, carry = bits.Add64(lower, uint64(v), 0)
		upper += v>>63 + int64(carry)
		switch {
		case upper == int64(lower)>>63: // it fits
			t.Low, t.High = min(t.Low, int64(lower)), max(t.High, int64(lower))
		case upper < 0:
			t.Low = math.MinInt64
		default:
			beyond := min(lower-math.MaxInt64, math.MaxInt64)
			if upper > 0 {
				beyond = math.MaxInt64
			}
			t.High, t.Beyond = math.MaxInt64, max(t.Beyond, int64(beyond))
		}
	}
	return t
}

// Values appends values with the same sums as those of which the total is: down to the lowest one and back,
// up to the highest one and back, and then the sum.
func (t *Total) Values(list []recommender.Value) []recommender.Value {
	add := func(milli ...int64) {
		for _, v := range milli {
			list = append(list, recommender.Value{Milli: v})
		}
	}
	if t.Low < 0 && t.Low != t.Sum {
		add(t.Low, -t.Low)
	}
	switch {
	case t.Beyond > 0:
		add(t.High, t.Beyond, -t.Beyond, -t.High)
	case t.High > 0 && t.High != t.Sum:
		add(t.High, -t.High)
	}
	add(t.Sum)
	return list
}

// problem reports whether an Object or External metric has no value, for whatever reason.
func (m *MetricDigest) problem(spec *recommender.MetricSpec) bool {
	return m.Error != "" || m.SelectorError != "" || m.Total.Series == 0 ||
		spec.Type == recommender.ObjectMetric && m.Total.Series != 1
}
