package serve

import (
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"sync"
	"time"
)

// The heap may grow by headroom before garbage collection, within these bounds in percent of
// the live heap. The live heap is small and a request leaves much garbage, so that collecting
// rarely saves more time than it costs memory; but with a large live heap, as under attack, the
// same percentage would be far too much.
const (
	headroom     = 128 << 20
	leastPercent = 50
	mostPercent  = 1000
)

// serveMemoryShare is the share of a memory limit that the service's collector keeps to.
const serveMemoryShare = 75

var tuneOnce sync.Once

// tuneCollector sets the rate of garbage collection, now and after each collection, unless the
// user has set it.
func tuneCollector() {
	if os.Getenv("GOGC") != "" {
		return
	}
	tuneOnce.Do(func() {
		debug.SetGCPercent(mostPercent)
		tuneAgain(&tuner{percent: mostPercent})
	})
}

// releaseAfterStart gives the memory back that only the start needed, some ten megabytes, in a moment: an idle service
// would keep it until its heap has grown by headroom.
func releaseAfterStart() *time.Timer { return time.AfterFunc(time.Second, debug.FreeOSMemory) }

// tuner is tuned again when it is found to be garbage: after a collection.
type tuner struct {
	percent int
	_       *tuner // with a pointer it is no part of a block with others
}

func tuneAgain(t *tuner) {
	runtime.AddCleanup(t, func(percent int) {
		if want := percentFor(liveBytes()); want != percent {
			debug.SetGCPercent(want)
			percent = want
		}
		tuneAgain(&tuner{percent: percent})
	}, t.percent)
}

// percentFor is the allowed growth, in percent, of a heap with so many live bytes.
func percentFor(live uint64) int {
	return int(min(mostPercent, max(leastPercent, 100*headroom/max(live, 1))))
}

// liveBytes is the live heap after the last collection.
func liveBytes() uint64 {
	sample := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	metrics.Read(sample)
	if sample[0].Value.Kind() != metrics.KindUint64 {
		return 0
	}
	return sample[0].Value.Uint64()
}
