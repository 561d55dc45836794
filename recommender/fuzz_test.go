package recommender

import (
	"bytes"
	"math"
	"math/rand/v2"
	"reflect"
	"testing"
	"time"
)

// byteSource draws from fuzzing's bytes, and then from a fixed sequence: a fuzzer's
// change at the front changes the whole case.
type byteSource struct {
	bytes []byte
	rest  rand.PCG
}

func (s *byteSource) Uint64() uint64 {
	if len(s.bytes) == 0 {
		return s.rest.Uint64()
	}
	v := uint64(s.bytes[0])
	s.bytes = s.bytes[1:]
	return v * 0x0101010101010101
}

// wild makes an input stranger than the API lets through: numbers from everywhere.
func (r random) wild(in *Input) {
	extreme := func() int64 {
		return oneOf(r, 0, 1, -1, math.MaxInt64, math.MinInt64, math.MaxInt32, math.MinInt32, int64(r.Uint64()))
	}
	for i := range in.Spec.Metrics {
		m := &in.Spec.Metrics[i]
		switch r.IntN(8) {
		case 0:
			m.Target.AverageValue = new(extreme())
		case 1:
			m.Target.Value = new(extreme())
		case 2:
			m.Target.AverageUtilization = new(int32(extreme()))
		case 3:
			m.Target = MetricTarget{}
		case 4:
			m.Type = oneOf(r, "Foo", "", ObjectMetric, ExternalMetric, PodsMetric, ResourceMetric)
		}
	}
	for i := range in.PodMetrics {
		if r.chance(10) {
			in.PodMetrics[i].Containers[0].Usage[0].Milli = extreme()
			in.PodMetrics[i].Window = time.Duration(extreme())
		}
		if r.chance(10) {
			in.PodMetrics[i].Containers = nil
		}
	}
	for i := range in.Pods {
		if r.chance(10) {
			in.Pods[i].Containers[0].Requests[0].Quantity = milliQuantity(extreme())
		}
	}
	for i := range in.Readings {
		for j := range in.Readings[i].Values {
			if r.chance(20) {
				in.Readings[i].Values[j].Milli = extreme()
			}
		}
	}
	if r.chance(20) {
		in.Readings = in.Readings[:r.IntN(len(in.Readings)+1)]
	}
	if r.chance(20) {
		in.Options.Tolerance = oneOf(r, 0, -1, math.NaN(), math.Inf(1), 1e300)
	}
	if r.chance(20) {
		in.Options.DownscaleStabilization, in.Options.CPUInitializationPeriod = time.Duration(extreme()), time.Duration(extreme())
	}
	in.Options.HistoryLimit = r.IntN(4)
	if b := in.Spec.Behavior; b != nil && r.chance(30) {
		policy := &b.ScaleUp.Policies[0]
		policy.Value, policy.PeriodSeconds = int32(extreme()), int32(extreme())
		b.ScaleDown.StabilizationWindowSeconds = oneOf(r, nil, new(int32(extreme())))
		b.ScaleDown.Policies = b.ScaleDown.Policies[:r.IntN(len(b.ScaleDown.Policies)+1)]
	}
}

// FuzzRecommend decides any sequence of workloads: no panic, the same again, a
// count within the bounds or the one there was, and a history that is bounded and
// survives its encoding.
func FuzzRecommend(f *testing.F) {
	f.Add([]byte(nil), uint64(0))
	for seed := range uint64(20) {
		f.Add([]byte{byte(seed), 0, 255, 7, 99, byte(seed) * 13}, seed)
	}
	f.Fuzz(func(t *testing.T, drawn []byte, seed uint64) {
		r := random{rand.New(&byteSource{drawn, *rand.NewPCG(seed, 1)})}
		var history History
		if r.chance(30) {
			history = r.history()
			history.Updated = oneOf(r, time.Time{}, t0)
		}
		now := t0
		for range 6 {
			now = now.Add(time.Duration(r.Int64N(int64(4 * time.Minute))))
			in := r.input()
			if r.chance(70) {
				r.wild(in)
			}
			d, next := Recommend(now, in, &history)
			again, nextAgain := Recommend(now, in, &history)
			if !reflect.DeepEqual(clone(&again), clone(&d)) || !reflect.DeepEqual(nextAgain, next) {
				t.Fatalf("not the same again: %+v, %+v", d, again)
			}
			if d.Desired < 0 && d.Path != PathScaleUnavailable {
				t.Fatalf("%d replicas", d.Desired)
			}
			if d.Desired != d.Current && (d.Desired < in.Spec.MinReplicas || d.Desired > in.Spec.MaxReplicas) {
				t.Fatalf("%d to %d replicas of %d to %d", d.Current, d.Desired, in.Spec.MinReplicas, in.Spec.MaxReplicas)
			}
			if limit := in.Options.historyLimit(); len(next.Recommendations) > limit || len(next.ScaleUps) > limit || len(next.ScaleDowns) > limit {
				t.Fatalf("a history of %d, %d, %d with a limit of %d", len(next.Recommendations), len(next.ScaleUps), len(next.ScaleDowns), limit)
			}
			decoded, err := Decode(Encode(&next))
			if err != nil || !bytes.Equal(Encode(&decoded), Encode(&next)) {
				t.Fatalf("the encoding loses something (%v):\n got %+v\nwant %+v", err, decoded, next)
			}
			if r.chance(60) {
				_, decoded = mustSettle(t, decoded, "ns", d.ID, oneOf(r, Applied, Failed), "conflict")
			}
			history = decoded
		}
	})
}
