package recommender

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/setpoint-dev/setpoint/internal/fatal"
	"github.com/setpoint-dev/setpoint/internal/testpages"
)

// longHistory is what evaluations at one a second leave behind under a window of an
// hour: instants of a real clock, counts that go up and down.
func longHistory(entries int) History {
	random := rand.New(rand.NewPCG(1, 2))
	h := benchmarkHistory(benchmarkInput(10))
	h.Recommendations = nil
	for i := range entries {
		at := benchmarkNow.Add(time.Duration(i-entries)*time.Second + time.Duration(random.Int64N(int64(5*time.Millisecond))))
		h.Recommendations = append(h.Recommendations, TimedRecommendation{Replicas: int32(10 + random.IntN(20)), At: at.UnixNano()})
	}
	return h
}

// The bytes of long histories are those that the page on Redis tells.
func TestBytesOfALongHistory(t *testing.T) {
	t.Parallel()
	const page = "../docs/operate/redis.md"
	size := func(entries int) float64 {
		h := longHistory(entries)
		return float64(len(Encode(&h)))
	}
	testpages.Figure(t, page, "A stored recommendation takes some # bytes", size(3600)/3600, 0.1)
	testpages.Figure(t, page, "keeps 3,600 of them: # kB encoded", size(3600)/1e3, 0.02)
	testpages.Figure(t, page, "(4,096) bounds the record at some # kB", size(4096)/1e3, 0.05)
}

// BenchmarkHistoryLength measures a call by the recommendations in its record: decode, decide and encode, of a
// list, and in steps as the service makes them, which leaves long lists packed.
func BenchmarkHistoryLength(b *testing.B) {
	for _, entries := range []int{0, 20, 240, 3600} {
		h := longHistory(entries)
		in := benchmarkInput(10)
		in.Spec.Metrics = []MetricSpec{{Type: ResourceMetric, Resource: "cpu", Target: MetricTarget{Type: UtilizationTarget, AverageUtilization: new(int32(60))}}}
		in.Options.DownscaleStabilization = time.Hour
		value := Encode(&h)
		name := fmt.Sprintf("recommendations=%d", entries)
		b.Run("decode/"+name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := Decode(value); err != nil {
					b.Fatal(err)
				}
			}
		})
		b.Run("decide/"+name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				Recommend(benchmarkNow, in, &h)
			}
		})
		b.Run("encode/"+name, func(b *testing.B) {
			room := make([]byte, 0, 2*len(value))
			b.ReportAllocs()
			for b.Loop() {
				room = AppendEncoded(room[:0], &h)
			}
			b.ReportMetric(float64(len(room)), "bytes")
		})
		b.Run("step/"+name, func(b *testing.B) {
			decode, encode := NewPacked()
			at, reused, value, room := benchmarkNow, new(memory), append(make([]byte, 0, 2*len(value)), value...), make([]byte, 0, 2*len(value))
			in.Options.DownscaleStabilization = time.Duration(entries) * time.Second
			b.ReportAllocs()
			for b.Loop() {
				known, err := decode(value)
				fatal.If(b, err)
				at = at.Add(time.Second + time.Duration(at.Nanosecond()%1000)*3*time.Microsecond)
				_, next := RecommendIn(reused, at, in, &known)
				value, room = encode(room[:0], &next), value
			}
			b.ReportMetric(float64(len(value)), "bytes")
		})
	}
}
