package limit_test

import (
	"strconv"
	"testing"

	"github.com/setpoint-dev/setpoint/server/limit"
)

// BenchmarkAdmit measures letting a call in, its beginning and its end.
func BenchmarkAdmit(b *testing.B) {
	for _, bench := range []struct {
		name   string
		limits limit.Limits
	}{
		{"limits=none", limit.Limits{}},
		{"limits=inflight", limit.Limits{InFlight: 1000}},
		{"limits=inflight+rate", limit.Limits{InFlight: 1000, Rate: 1e9}},
	} {
		b.Run(bench.name, func(b *testing.B) {
			options := limit.DefaultOptions()
			options.Identity = bench.limits
			l := newLimiter(b, options)
			var t limit.Ticket
			b.ReportAllocs()
			for b.Loop() {
				if l.Admit(&t, "agent-7", 1).Refused() {
					b.Fatal("refused")
				}
				t.Begin()
				t.Release()
			}
		})
	}
	b.Run("limits=none/parallel", func(b *testing.B) {
		l := newLimiter(b, limit.DefaultOptions())
		b.ReportAllocs()
		b.RunParallel(func(pb *testing.PB) {
			var t limit.Ticket
			for pb.Next() {
				l.Admit(&t, "agent-7", 1)
				t.Begin()
				t.Release()
			}
		})
	})
	b.Run("identities=many", func(b *testing.B) {
		options := limit.DefaultOptions()
		options.Identity = limit.Limits{InFlight: 1000, Rate: 1000}
		l := newLimiter(b, options)
		names := make([]string, 4*options.MaxIdentities)
		for i := range names {
			names[i] = "agent-" + strconv.Itoa(i)
		}
		b.ReportAllocs()
		for i := 0; b.Loop(); i++ {
			var t limit.Ticket
			l.Admit(&t, names[i%len(names)], 1)
			t.Release()
		}
	})
}

// BenchmarkRefuse measures refusing a call and making its error.
func BenchmarkRefuse(b *testing.B) {
	options := limit.DefaultOptions()
	options.InFlight = 1
	l := newLimiter(b, options)
	var held limit.Ticket
	l.Enter(&held, nil)
	b.ReportAllocs()
	for b.Loop() {
		var t limit.Ticket
		if err := l.Enter(&t, nil).Err(); err == nil {
			b.Fatal("let in")
		}
	}
}
