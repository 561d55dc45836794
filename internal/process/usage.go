//go:build linux

package process

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"
)

// tick is the unit of processor time in /proc on Linux (USER_HZ).
const tick = 10 * time.Millisecond

// Processor returns the processor time that a running process has used so far, with all its
// threads.
func Processor(pid int) (time.Duration, error) {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, err
	}
	// The name, in parentheses, may contain anything; the fields follow it.
	fields := strings.Fields(string(stat[strings.LastIndexByte(string(stat), ')')+1:]))
	const user, system = 14 - 3, 15 - 3 // as numbered by proc(5), from the third on
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

// Resident returns the resident memory of a running process, in bytes.
func Resident(pid int) (int64, error) { return memory(pid, "VmRSS") }

// PeakResident returns the highest resident memory so far of a running process, in bytes.
func PeakResident(pid int) (int64, error) { return memory(pid, "VmHWM") }

// memory reads a value in kB of /proc/PID/status.
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
