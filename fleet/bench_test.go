package fleet

import (
	"testing"

	"github.com/setpoint-dev/setpoint/internal/fatal"
	"github.com/setpoint-dev/setpoint/recommender"
)

// A call that decides, and one that does not, with the record decoded and encoded.
func BenchmarkStep(b *testing.B) {
	for _, size := range []struct {
		name    string
		members int
	}{{"members=8", 8}, {"members=64", MaxMembers}} {
		spec, record, digests := largest(b, size.members, 4)
		spec.Scopes = nil
		value := AppendRecord(nil, &record)
		call := &Call{Member: spec.Members[0].Name, Digest: digests[0], ID: recommender.ID{1}}
		for _, kind := range []string{"decides", "does not decide", "decides, survives"} {
			b.Run(size.name+"/"+kind, func(b *testing.B) {
				spec := *spec
				spec.SurviveOne = kind == "decides, survives"
				at := t0.Add(100 * spec.Period)
				if kind != "does not decide" {
					at = at.Add(spec.Period)
				}
				var out []byte
				b.ReportAllocs()
				for b.Loop() {
					decoded, err := DecodeRecord(value)
					fatal.If(b, err)
					next, answer, err := Step(at, &spec, &decoded, call)
					if err != nil || (answer.Decision != nil) != (kind != "does not decide") {
						b.Fatal(err, answer)
					}
					out = AppendRecord(out[:0], &next)
				}
			})
		}
	}
}

func BenchmarkSplit(b *testing.B) {
	r := newRandom(16)
	seats := make([]Seat, MaxMembers)
	for i := range seats {
		seats[i] = Seat{Weight: int32(r.between(1, MaxWeight)), Cap: 10_000}
	}
	settled := append([]Seat(nil), seats...)
	follow(settled, Split(seats, 10_000, 0).Of)
	for _, bm := range []struct {
		name  string
		seats []Seat
		total int32
	}{{"from nothing", seats, 10_000}, {"one more", settled, 10_001}, {"half", settled, 5_000}} {
		b.Run(bm.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				Split(bm.seats, bm.total, 0)
			}
		})
	}
	b.Run("surviving", func(b *testing.B) {
		for b.Loop() {
			SplitSurviving(settled, 10_000, 20_000, 0)
		}
	})
}

func BenchmarkNewDigest(b *testing.B) {
	r := newRandom(17)
	spec := r.spec(2)
	spec.Engine.Metrics = []recommender.MetricSpec{utilization(60), resourceAverage("memory", 300*mebi)}
	in := r.input(spec, t0, 100)
	for len(in.Pods) < 100 {
		in.Pods = append(in.Pods, r.pod("web-"+string(rune('A'+len(in.Pods))), t0))
		in.PodMetrics = append(in.PodMetrics, r.podMetrics(in.Pods[len(in.Pods)-1].Name, t0))
	}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := NewDigest(t0, in, "west", 1); err != nil {
			b.Fatal(err)
		}
	}
}
