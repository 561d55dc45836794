package nomad

import (
	"maps"
	"math"
	"slices"
	"strconv"
	"time"

	"github.com/hashicorp/nomad/api"
	"google.golang.org/protobuf/types/known/timestamppb"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
)

// A client takes a new sample each second, but measures CPU and processes only every 5 s. So a
// sample's measurement began at most twice that before its timestamp.
const (
	cpuInterval = 5 * time.Second
	window      = 2 * cpuInterval
)

// unmeasured is how long a task's CPU may read 0 because nothing was measured yet: two
// intervals, 7 to 11 s in observations, and one more for a busy client.
const unmeasured = 3 * cpuInterval

// Usage returns the sample of an allocation, nil if there is none. A task without a reading of
// a resource appears without that resource, so that the allocation counts as missing for it,
// not as idle.
func Usage(a *Allocation, statistics *api.AllocResourceUsage) *setpointv1.PodMetrics {
	// Before the first sample and after the end the sum has no time, though tasks may keep
	// their last sample.
	if a.ClientStatus != clientRunning || statistics == nil || statistics.Timestamp == 0 {
		return nil
	}
	out := &setpointv1.PodMetrics{Pod: a.ID, WindowSeconds: window.Seconds()}
	var oldest time.Time
	for _, name := range slices.Sorted(maps.Keys(a.TaskStates)) {
		state := a.TaskStates[name]
		if state.State != taskRunning || !a.stays(name) {
			continue
		}
		container := &setpointv1.ContainerMetrics{Name: name}
		// A sample from before the start belongs to the task before its restart.
		if task := statistics.Tasks[name]; task != nil && task.ResourceUsage != nil && task.Timestamp >= state.StartedAt.UnixNano() {
			taken := time.Unix(0, task.Timestamp)
			if oldest.IsZero() || taken.Before(oldest) {
				oldest = taken
			}
			container.Usage = usage(task.ResourceUsage, taken.Sub(state.StartedAt))
		}
		out.Containers = append(out.Containers, container)
	}
	if oldest.IsZero() {
		return nil
	}
	out.Timestamp = timestamppb.New(oldest)
	return out
}

// usage returns the usage of a task, given its age.
func usage(u *api.ResourceUsage, age time.Duration) map[string]string {
	out := map[string]string{}
	if cpu := u.CpuStats; cpu != nil && len(cpu.Measured) > 0 && valid(cpu.TotalTicks) && (cpu.TotalTicks > 0 || age > unmeasured) {
		out["cpu"] = strconv.FormatInt(int64(math.Round(1000*cpu.TotalTicks)), 10) + "m"
	}
	if memory := u.MemoryStats; memory != nil {
		// 0 is no reading: where the kernel does not account memory, drivers say that they measured that.
		switch {
		case slices.Contains(memory.Measured, "RSS") && memory.RSS > 0:
			out["memory"] = strconv.FormatUint(memory.RSS, 10)
		case slices.Contains(memory.Measured, "Usage") && memory.Usage > 0:
			out["memory"] = strconv.FormatUint(memory.Usage, 10)
		}
	}
	return out
}

// valid reports whether a number of MHz is valid.
func valid(ticks float64) bool { return ticks >= 0 && ticks < 1e12 }
