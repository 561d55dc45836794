package process

import (
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/setpoint-dev/setpoint/internal/process"
)

// tick is the unit of /proc's processor times (USER_HZ).
const tick = 10 * time.Millisecond

// CPU returns the processor time that a process has used so far, user and system; 0 if
// there is no such process.
func CPU(pid int) time.Duration {
	took, _ := process.Processor(pid)
	return took
}

// Resident returns the resident memory of a process, in bytes; 0 if there is no such
// process.
func Resident(pid int) float64 {
	bytes, _ := process.Resident(pid)
	return float64(bytes)
}

func ticks(field string) time.Duration {
	n, _ := strconv.ParseInt(field, 10, 64)
	return time.Duration(n) * tick
}

// Busy returns the processor time that the whole machine has used so far, and how much
// the hypervisor gave to others meanwhile.
func Busy() (busy, stolen time.Duration) {
	text, err := os.ReadFile("/proc/stat")
	if err != nil {
		return 0, 0
	}
	line, _, _ := strings.Cut(string(text), "\n")
	const idle, wait, steal = 4, 5, 8
	for i, field := range strings.Fields(line) {
		switch {
		case i == 0 || i == idle || i == wait || i > steal:
		case i == steal:
			stolen = ticks(field)
		default:
			busy += ticks(field)
		}
	}
	return busy, stolen
}

// CPUOfChildren returns the processor time of finished child processes.
func CPUOfChildren() time.Duration {
	var used unix.Rusage
	if unix.Getrusage(unix.RUSAGE_CHILDREN, &used) != nil {
		return 0
	}
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}
