// Package daemon has the common parts of long-running programs: the log, the admin address,
// notification of the supervisor, and the use of a memory limit.
package daemon

import (
	"math"
	"os"
	"runtime/debug"
)

// KeepWithin makes the collector stay within a share, in percent, of the user's memory limit
// (GOMEMLIMIT), if set. The collector runs concurrently with allocation, so that under load the
// resident memory exceeds its limit, also by the program's own pages; and if a container has
// that limit, exceeding it kills the process. The larger the live part of the heap, the larger
// the share must be, or the collector runs all the time.
func KeepWithin(share int64) {
	if os.Getenv("GOMEMLIMIT") == "" {
		return
	}
	if limit := debug.SetMemoryLimit(-1); limit != math.MaxInt64 {
		debug.SetMemoryLimit(shareOf(limit, share))
	}
}

// shareOf is a percentage of a limit in bytes.
func shareOf(limit, percent int64) int64 {
	return limit/100*percent + limit%100*percent/100
}
