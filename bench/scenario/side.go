package scenario

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/setpoint-dev/setpoint/bench/load"
	"github.com/setpoint-dev/setpoint/bench/process"
)

// side is one of the compared programs.
type side struct {
	name string
	// recommendations per call.
	recommendations int
	drive           func(ctx context.Context, duration time.Duration) *load.Result
	// parts are processes by name, whose processor time is reported besides the
	// client's, which is this process.
	parts map[string]int
	// service is nil for other programs.
	service *process.Service
}

const clientPart = "client"

// run is the result of one run of a side.
type run struct {
	*load.Result
	// rate is recommendations per second.
	rate float64
	// micros is the processor time per recommendation by part, in microseconds.
	micros map[string]float64
	// Of the service: allocations per recommendation, and the share of its processor
	// time, from 0 to 1, used by garbage collection.
	mallocs, collecting float64
}

// compare measures the sides in turns, so that other work on the machine affects all of
// them, and in changing order. It returns the runs by side.
func (s *stage) compare(sides []side, slice time.Duration) ([][]run, error) {
	all := make([][]run, len(sides))
	for n := range s.Runs {
		runs, err := s.compareOnce(n, sides, slice)
		if err != nil {
			return nil, err
		}
		for i := range sides {
			all[i] = append(all[i], runs[i])
		}
	}
	return all, nil
}

// compareOnce makes the nth run.
func (s *stage) compareOnce(n int, sides []side, slice time.Duration) ([]run, error) {
	measuring := make([]*measuring, len(sides))
	for i := range sides {
		measuring[i] = begin(&sides[i])
	}
	slices := max(1, int(s.Duration/slice))
	for turn := range slices {
		for k := range sides {
			i := k
			if (turn+n)%2 == 1 {
				i = len(sides) - 1 - k
			}
			s.take(measuring[i], min(slice, s.Duration))
		}
	}
	runs := make([]run, len(sides))
	for i := range sides {
		var err error
		if runs[i], err = measuring[i].end(); err != nil {
			return nil, fmt.Errorf("%s: %w", sides[i].name, err)
		}
		s.Log("%s: run %d: %-32s %9.0f/s, p99 %v", s.name, n+1, sides[i].name, runs[i].rate, runs[i].Quantile(.99))
	}
	return runs, s.ctx.Err()
}

// measuring is a run in progress.
type measuring struct {
	side   *side
	total  *load.Result
	cpu    map[string]time.Duration
	before garbage
}

// garbage is what the service has allocated and collected so far.
type garbage struct {
	mallocs         float64
	collecting, cpu time.Duration
	err             error
}

func garbageOf(service *process.Service) (g garbage) {
	if service != nil {
		g.mallocs, g.err = service.Mallocs()
		g.collecting, _ = service.Collecting()
		g.cpu = process.CPU(service.PID())
	}
	return g
}

func begin(s *side) *measuring {
	return &measuring{side: s, total: load.NewResult(), cpu: map[string]time.Duration{}, before: garbageOf(s.service)}
}

// used returns the processor time of all parts so far.
func (m *measuring) used() map[string]time.Duration {
	used := map[string]time.Duration{clientPart: process.CPU(os.Getpid())}
	for part, pid := range m.side.parts {
		used[part] = process.CPU(pid)
	}
	return used
}

func (s *stage) take(m *measuring, slice time.Duration) {
	before := m.used()
	m.total.Add(m.side.drive(s.ctx, slice))
	for part, used := range m.used() {
		m.cpu[part] += used - before[part]
	}
}

// Calls that may fail without invalidating the measurement: a number, because a busy
// machine makes the service refuse calls, and a share.
const someFailures, allowedFailures = 5, .01

func (m *measuring) end() (run, error) {
	r := run{Result: m.total, micros: map[string]float64{}}
	if m.total.Done == 0 || float64(m.total.Failed) > max(someFailures, allowedFailures*float64(m.total.Done)) {
		return r, fmt.Errorf("%d calls failed and %d did not, the first with: %w", m.total.Failed, m.total.Done, m.total.Err)
	}
	recommendations := float64(m.total.Done * m.side.recommendations)
	r.rate = m.total.Rate() * float64(m.side.recommendations)
	for part, used := range m.cpu {
		r.micros[part] = float64(used.Nanoseconds()) / 1e3 / recommendations
	}
	after := garbageOf(m.side.service)
	if after.err != nil {
		return r, after.err
	}
	r.mallocs = (after.mallocs - m.before.mallocs) / recommendations
	if cpu := after.cpu - m.before.cpu; cpu > 0 {
		r.collecting = float64(after.collecting-m.before.collecting) / float64(cpu)
	}
	return r, nil
}
