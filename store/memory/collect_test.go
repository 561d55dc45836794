package memory

import (
	"fmt"
	"runtime"
	"runtime/metrics"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/setpoint-dev/setpoint/internal/fatal"
	"github.com/setpoint-dev/setpoint/internal/process"
	"github.com/setpoint-dev/setpoint/store"
)

// BenchmarkCollection has ten thousand and a hundred thousand targets live, and reports the processor
// time that a collection of garbage takes, what lives, and how long a load and a swap together
// take while one collection follows the other.
func BenchmarkCollection(b *testing.B) {
	for _, keys := range []int{10_000, 100_000} {
		if testing.Short() && keys > 10_000 {
			continue
		}
		b.Run(fmt.Sprintf("keys=%d", keys), func(b *testing.B) { benchmarkCollection(b, keys) })
	}
}

func benchmarkCollection(b *testing.B, keys int) {
	s := New(Options{TTL: 24 * time.Hour})
	defer s.Close()
	value := make([]byte, 300)
	key := func(i int) store.Key {
		return store.Key{Cluster: "cluster", Namespace: "namespace", Target: "target-" + strconv.Itoa(i)}
	}
	for i := range keys {
		if _, err := s.CompareAndSwap(b.Context(), store.Swap{Key: key(i), Value: value}); err != nil {
			b.Fatal(err)
		}
	}
	runtime.GC()
	b.Run("collections", func(b *testing.B) {
		began := process.Own()
		for b.Loop() {
			runtime.GC()
		}
		b.ReportMetric((process.Own()-began).Seconds()*1000/float64(b.N), "cpu-ms/gc")
		b.ReportMetric(float64(living())/float64(keys), "B/key")
	})
	b.Run("calls-meanwhile", func(b *testing.B) {
		stop, stopped := make(chan struct{}), make(chan struct{})
		go func() {
			defer close(stopped)
			for {
				select {
				case <-stop:
					return
				default:
					runtime.GC()
				}
			}
		}()
		took := make([]time.Duration, 0, 1<<20)
		for i := 0; b.Loop(); i++ {
			begun := time.Now()
			k := key(i * 7919 % keys)
			rec, err := s.Load(b.Context(), k)
			if err == nil {
				_, err = s.CompareAndSwap(b.Context(), store.Swap{Key: k, Old: rec.Version, Value: value})
			}
			fatal.If(b, err)
			took = append(took, time.Since(begun))
		}
		close(stop)
		<-stopped
		slices.Sort(took)
		b.ReportMetric(float64(took[len(took)*99/100].Nanoseconds()), "p99-ns")
		b.ReportMetric(float64(took[len(took)*999/1000].Nanoseconds()), "p99.9-ns")
	})
}

// living is how much the last collection found to live, in bytes.
func living() uint64 {
	read := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	metrics.Read(read)
	return read[0].Value.Uint64()
}
