package gate

import (
	"math"
	"runtime"
	"runtime/debug"
)

// The messages in progress of a process may take roomPerProcessor each, but at most a twelfth of the
// collector's memory limit and at least leastRoom, in bytes.
const (
	roomPerProcessor, leastRoom = 32 << 20, 16 << 20
	partOfMemory                = 12
)

// OfProcess returns a gate with the usual memory, for which that many large messages may wait.
func OfProcess(waiting int) *Gate {
	processors := runtime.GOMAXPROCS(0)
	room := int64(roomPerProcessor) * int64(processors)
	if limit := debug.SetMemoryLimit(-1); limit != math.MaxInt64 {
		room = max(leastRoom, min(room, limit/partOfMemory))
	}
	return New(Options{Bytes: room, Readers: processors, Waiting: waiting})
}
