//go:build linux

package process

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"
)

// tick is the unit of processor time in /proc, which Linux tells all programs (USER_HZ).
const tick = 10 * time.Millisecond

// Processor returns the processor time that a process has taken so far, of all its threads.
// It must run.
func Processor(pid int) (time.Duration, error) {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, err
	}
	// The name, in parentheses, may hold anything; what counts comes after it.
	fields := strings.Fields(string(stat[strings.LastIndexByte(string(stat), ')')+1:]))
	const user, system = 14 - 3, 15 - 3 // as proc(5) numbers them, from the third on
	if len(fields) <= system {
		return 0, fmt.Errorf("no times in the stat of process %d", pid)
	}
	var ticks int64
	for _, field := range []string{fields[user], fields[system]} {
		n, err := strconv.ParseInt(field, 10, 64)
		if err != nil {
			return 0, fmt.Errorf("the stat of process %d: %w", pid, err)
		}
		ticks += n
	}
	return time.Duration(ticks) * tick, nil
}

// Resident returns the memory that a process has resident, bytes. It must run.
func Resident(pid int) (int64, error) { return memory(pid, "VmRSS") }

// PeakResident returns the most memory that a process has had resident so far, bytes. It must
// run.
func PeakResident(pid int) (int64, error) { return memory(pid, "VmHWM") }

// memory reads a line of /proc/PID/status that is in kB.
func memory(pid int, name string) (int64, error) {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(status)) {
		if value, ok := strings.CutPrefix(line, name+":"); ok {
			kib, err := strconv.ParseInt(strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(value), "kB")), 10, 64)
			return kib << 10, err
		}
	}
	return 0, fmt.Errorf("no %s in the status of process %d", name, pid)
}
