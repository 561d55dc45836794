package nodes

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/client"
)

// maxIntervals is how many intervals a window may have: as many as usage counts for by itself, so that a lost sample has no
// effect.
const maxIntervals = 3

// Labels of containers of tasks.
const (
	taskLabel = "com.docker.swarm.task.id"
	nodeLabel = "com.docker.swarm.node.id"
)

// Sampler reads the usage of a node's tasks from the node's engine. It is not safe for
// concurrent use.
type Sampler struct {
	open    func() (*client.Client, error)
	engine  *client.Client
	options SamplerOptions
	// clock is this process', by which the time between two reads is known whatever the node's is set to.
	clock func() time.Time
	// readings are the last ones, by container.
	readings map[string]reading
	// rounds counts samples since the node's id was read.
	rounds int
	node   string
	// windows: the engine's containers are those of Windows.
	windows bool
}

// reading is a container's counters at an instant.
type reading struct {
	task string
	made int64 // creation of the container, seconds since 1970
	at   time.Time
	// The read began and ended then, by the sampler's clock.
	began, ended time.Time
	cpu          uint64 // nanoseconds since its start
	memory       int64  // 0: not accounted
}

// SamplerOptions are the settings of a sampler. All are required.
type SamplerOptions struct {
	// Interval is the time between two samples.
	Interval time.Duration
	// Timeout bounds a request to the engine.
	Timeout time.Duration
}

// NewSampler returns a sampler of the containers of the engine that open returns a client of, which does not connect.
func NewSampler(open func() (*client.Client, error), options SamplerOptions) (*Sampler, error) {
	s := &Sampler{open: open, options: options, clock: time.Now, readings: map[string]reading{}}
	return s, s.reopen()
}

// reopen forgets the version of the API that was negotiated: an engine that was away may be a newer one, which takes old
// versions no more.
func (s *Sampler) reopen() error {
	engine, err := s.open()
	if err != nil {
		return err
	}
	s.Close()
	s.engine = engine
	return nil
}

// Close closes idle connections.
func (s *Sampler) Close() {
	if s.engine != nil {
		_ = s.engine.Close()
	}
}

// atOnce bounds the containers read concurrently: some engines take a second for each.
const atOnce = 16

// maxStatsBytes bounds the statistics of a container.
const maxStatsBytes = 1 << 20

// idEvery is the number of reports after which the node's id is read again: a node that leaves
// a swarm and rejoins gets another one.
const idEvery = 20

// Sample reads the containers of all tasks, and returns the usage of those that were read
// before. failed is the number of failed reads.
func (s *Sampler) Sample(ctx context.Context) (report *Report, failed int, err error) {
	defer func() {
		if err != nil {
			_ = s.reopen() // else the next one fails as well
		}
	}()
	if err := s.identify(ctx); err != nil {
		return nil, 0, err
	}
	listing, listed := context.WithTimeout(ctx, s.options.Timeout)
	found, err := s.engine.ContainerList(listing, client.ContainerListOptions{Filters: client.Filters{}.Add("label", nodeLabel+"="+s.node)})
	listed()
	if err != nil {
		return nil, 0, fmt.Errorf("containers: %w", err)
	}
	var wait sync.WaitGroup
	var mu sync.Mutex
	now := make(map[string]reading, len(found.Items))
	turns := make(chan struct{}, atOnce)
	for i := range min(len(found.Items), maxReportTasks) {
		one := &found.Items[i]
		task := one.Labels[taskLabel]
		if !isID(task) {
			continue
		}
		turns <- struct{}{}
		wait.Go(func() {
			defer func() { <-turns }()
			r, err := s.read(ctx, one.ID)
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				failed++ // including containers that just ended
				return
			}
			r.task, r.made = task, one.Created
			now[one.ID] = r
		})
	}
	wait.Wait()
	report = &Report{Node: s.node, Tasks: []TaskUsage{}}
	for _, id := range newest(now) {
		if used, ok := usageBetween(s.readings[id], now[id], s.longest()); ok {
			report.Tasks = append(report.Tasks, used)
		}
	}
	s.readings = now
	report.At = time.Now().UTC()
	return report, failed, nil
}

// longest is the longest window: an older reading begins none, as after an engine that did not answer for a while. The usage
// of now would vanish in such a mean, and the agent refuses the report, for usage counts no longer than that by itself.
func (s *Sampler) longest() time.Duration { return min(maxIntervals*s.options.Interval, maxWindow) }

// newest returns the newest container of each task.
func newest(readings map[string]reading) []string {
	ids := slices.SortedFunc(maps.Keys(readings), func(a, b string) int {
		one, other := readings[a], readings[b]
		return cmp.Or(cmp.Compare(one.task, other.task), cmp.Compare(other.made, one.made), cmp.Compare(a, b))
	})
	return slices.CompactFunc(ids, func(a, b string) bool { return readings[a].task == readings[b].task })
}

// identify reads the node's id and system.
func (s *Sampler) identify(ctx context.Context) error {
	if s.rounds++; s.node != "" && s.rounds%idEvery != 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, s.options.Timeout)
	defer cancel()
	info, err := s.engine.Info(ctx, client.InfoOptions{})
	if err != nil {
		return fmt.Errorf("the node's engine: %w", err)
	}
	s.windows = info.Info.OSType == "windows"
	if s.node = info.Info.Swarm.NodeID; s.node == "" {
		return errors.New("the node's engine is not in a swarm")
	}
	return nil
}

// read reads the counters of a container.
func (s *Sampler) read(ctx context.Context, id string) (reading, error) {
	ctx, cancel := context.WithTimeout(ctx, s.options.Timeout)
	defer cancel()
	began := s.clock()
	answer, err := s.engine.ContainerStats(ctx, id, client.ContainerStatsOptions{})
	if err != nil {
		return reading{}, err
	}
	defer func() { _ = answer.Body.Close() }()
	var stats container.StatsResponse
	if err := json.NewDecoder(io.LimitReader(answer.Body, maxStatsBytes)).Decode(&stats); err != nil {
		return reading{}, err
	}
	if stats.Read.IsZero() || stats.CPUStats.CPUUsage.TotalUsage == 0 {
		return reading{}, errors.New("the container is not running")
	}
	out := reading{at: stats.Read, began: began, ended: s.clock(), cpu: stats.CPUStats.CPUUsage.TotalUsage, memory: workingSet(&stats.MemoryStats)}
	if s.windows { // cpu is in units of 100 ns
		out.cpu, out.memory = 100*out.cpu, int64(min(stats.MemoryStats.PrivateWorkingSet, math.MaxInt64))
	}
	return out, nil
}

// workingSet is the memory that can't be reclaimed at will, as Kubernetes counts it: all but
// files that were not used lately, for version 1 or 2 of control groups. It is 0 only where the
// kernel does not account memory.
func workingSet(m *container.MemoryStats) int64 {
	if m.Usage == 0 {
		return 0
	}
	inactive, there := m.Stats["total_inactive_file"]
	if !there {
		inactive = m.Stats["inactive_file"]
	}
	if inactive >= m.Usage {
		return 1
	}
	return int64(min(m.Usage-inactive, math.MaxInt64))
}

// usageBetween is the usage between two readings of a container; false: they are not of one
// run, too far apart, or the node's clock was set in between, so that nobody knows the time between them.
func usageBetween(before, after reading, longest time.Duration) (TaskUsage, bool) {
	window := after.at.Sub(before.at)
	least, most := after.began.Sub(before.ended)-leastSkew, after.ended.Sub(before.began)+leastSkew
	if before.at.IsZero() || window <= 0 || window > longest || window < least || window > most || after.cpu < before.cpu {
		return TaskUsage{}, false
	}
	cores := float64(after.cpu-before.cpu) / window.Seconds() // in billionths
	if cores >= math.MaxInt64 {
		return TaskUsage{}, false
	}
	return TaskUsage{Task: after.task, At: after.at, Window: window.Seconds(), CPU: int64(cores), Memory: after.memory}, true
}
