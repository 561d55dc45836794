// Package daemon is what the programs that go on running have in common: the log, the admin
// address, the word to the supervisor, and how much of a memory limit is used.
package daemon

import (
	"math"
	"os"
	"runtime/debug"
)

// KeepWithin makes the collector keep within a share, in percent, of the memory limit that the
// user has set (GOMEMLIMIT), if any. The collector runs beside what makes
// garbage, so that what is resident goes beyond a limit under load, by the program's own pages
// too; and where a container has the limit, going beyond it ends the process. The more of a
// process' memory lives, the larger the share must be, or it collects all the time.
func KeepWithin(share int64) {
	if os.Getenv("GOMEMLIMIT") == "" {
		return
	}
	if limit := debug.SetMemoryLimit(-1); limit != math.MaxInt64 {
		debug.SetMemoryLimit(shareOf(limit, share))
	}
}

// shareOf is so many percent of a limit in bytes.
func shareOf(limit, percent int64) int64 {
	return limit/100*percent + limit%100*percent/100
}
