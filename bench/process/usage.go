package process

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// tick is the unit of /proc's processor times (USER_HZ).
const tick = 10 * time.Millisecond

// CPU returns the processor time that a process has had so far, by user and system; 0 if
// there is none of that id.
func CPU(pid int) time.Duration {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0
	}
	// The name, in parentheses, may hold anything.
	fields := strings.Fields(string(text[strings.LastIndexByte(string(text), ')')+1:]))
	const user, system = 11, 12 // utime and stime, counted from behind the name
	if len(fields) <= system {
		return 0
	}
	return ticks(fields[user]) + ticks(fields[system])
}

func ticks(field string) time.Duration {
	n, _ := strconv.ParseInt(field, 10, 64)
	return time.Duration(n) * tick
}

// Busy returns the processor time that the whole machine has spent on anything so far,
// and what the hypervisor has given to others meanwhile.
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

// Resident returns the memory that a process has, in bytes.
func Resident(pid int) float64 {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0
	}
	_, rest, _ := strings.Cut(string(text), "VmRSS:")
	kilobytes, _ := strconv.ParseFloat(strings.Fields(rest + " 0")[0], 64)
	return kilobytes * 1024
}

// CPUOfChildren returns the processor time that processes had which this one has started
// and which have ended.
func CPUOfChildren() time.Duration {
	var used unix.Rusage
	if unix.Getrusage(unix.RUSAGE_CHILDREN, &used) != nil {
		return 0
	}
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}
