// Package scenario has the measurements: each scenario starts the programs that it
// needs, puts load on them, and returns figures.
//
// The service is the real program with default flags and two more: its addresses, and
// permission for callers to set the evaluation time. So a target is called every 15 s
// of its own time, however fast calls are, and its history is as long as in production.
package scenario

import (
	"context"
	"fmt"
	"os"
	"slices"
	"time"

	"google.golang.org/protobuf/proto"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/bench/bare"
	"github.com/setpoint-dev/setpoint/bench/client"
	"github.com/setpoint-dev/setpoint/bench/load"
	"github.com/setpoint-dev/setpoint/bench/process"
	"github.com/setpoint-dev/setpoint/bench/request"
	kit "github.com/setpoint-dev/setpoint/internal/process"
)

// Settings say how to measure.
type Settings struct {
	// Runs is how often each figure is measured, and Duration how long each side of a
	// comparison runs each time, in turns of Slice.
	Runs            int
	Duration, Slice time.Duration
	// Callers is the number of callers, each with one call at a time, on that many
	// Connections.
	Callers, Connections int
	// Targets are called in turn, at least LeastTargets. Stored is the number of stored targets
	// where that matters, and Rounds how often each is called before the measurement.
	Targets, Stored, Rounds int
	// Profiles is a folder for profiles of the service; empty: none.
	Profiles string
	// Root is the service's module, Program the service's program, Bare the command of that
	// package. Folder is for temporary files.
	Root, Program, Folder string
	Bare                  []string
	// Log logs the progress.
	Log func(format string, args ...any)
}

// LeastTargets is the maximum number of calls in flight: no two of them concern the same
// target.
const LeastTargets = max(openInFlight, streams*streamInFlight)

// stage is the environment of a scenario: everything it has started ends with it.
type stage struct {
	Settings
	ctx    context.Context
	name   string
	pids   []int
	ending []func()
}

func (s *stage) onEnd(f func()) { s.ending = append(s.ending, f) }

func (s *stage) end() {
	for _, f := range slices.Backward(s.ending) {
		f()
	}
}

func (s *stage) stopping(p *kit.Process, stop func() error) {
	s.pids = append(s.pids, p.PID())
	s.onEnd(func() {
		if err := stop(); err != nil {
			s.Log("%s: %v", s.name, err)
		}
	})
}

func (s *stage) redis() (*process.Redis, error) {
	r, err := process.StartRedis(s.ctx, s.Folder)
	if err != nil {
		return nil, err
	}
	s.stopping(r.Process, r.Stop)
	return r, nil
}

// cluster starts a Redis Cluster.
func (s *stage) cluster(masters int, replicated bool) (*process.Cluster, error) {
	c, err := process.StartCluster(s.ctx, func() (string, error) { return os.MkdirTemp(s.Folder, "node-") }, masters, replicated)
	if err != nil {
		return nil, err
	}
	for _, n := range c.Nodes() {
		s.stopping(n.Process, n.Stop)
	}
	return c, nil
}

// service starts the service; redis may be nil, for histories in memory.
func (s *stage) service(redis *process.Redis) (*process.Service, error) {
	if redis == nil {
		return s.serviceOn("")
	}
	return s.serviceOn(redis.URL())
}

// serviceOn starts the service on Redis at that URL; empty: histories in memory.
func (s *stage) serviceOn(url string) (*process.Service, error) {
	flags := []string{"--allow-evaluation-time"}
	if url != "" {
		flags = append(flags, "--redis="+url)
	}
	service, err := process.StartService(s.Program, s.Folder, flags...)
	if err != nil {
		return nil, err
	}
	s.stopping(service.Process, service.Stop)
	return service, nil
}

func (s *stage) bare(config bare.Config) (*process.Bare, error) {
	b, err := process.StartBare(s.Bare, s.Folder, config)
	if err != nil {
		return nil, err
	}
	s.stopping(b.Process, b.Stop)
	return b, nil
}

func (s *stage) dial(address string) (*client.Client, error) {
	c, err := client.Dial(address, s.Connections)
	if err != nil {
		return nil, err
	}
	s.onEnd(c.Close)
	return c, nil
}

// warmBatch is the batch size for filling histories.
const warmBatch, warmCallers = 500, 3

// usualPods is the default number of pods of a target.
const usualPods = 10

// warm calls for each target of the set until histories have their full length, and
// returns an encoded response.
func (s *stage) warm(c *client.Client, set *request.Set) ([]byte, error) {
	if err := s.fill(c, set, s.Rounds); err != nil {
		return nil, err
	}
	answer := &setpointv1.RecommendResponse{}
	req := request.For(0, usualPods, time.Now())
	req.DryRun = true
	if err := c.Ask(s.ctx, setpointv1.RecommendationService_Recommend_FullMethodName, req, answer); err != nil {
		return nil, fmt.Errorf("call once: %w", err)
	}
	return proto.Marshal(answer)
}

// fill calls for all targets of the set, about that often.
func (s *stage) fill(c *client.Client, set *request.Set, rounds int) error {
	return s.fillBy(c, set, rounds, warmCallers)
}

// fillBy does so by that many callers.
func (s *stage) fillBy(c *client.Client, set *request.Set, rounds, callers int) error {
	batch := max(1, min(warmBatch, set.Targets()/callers))
	call := c.Batch(set, callers, batch)
	batches := rounds * set.Targets() / batch / callers
	r := load.Callers(callers, func(caller int, r *load.Result) {
		for n := 0; n < batches && s.ctx.Err() == nil; n++ {
			start := time.Now()
			r.Record(time.Since(start), call(s.ctx, caller))
		}
	})
	if r.Failed > 0 {
		return fmt.Errorf("fill histories: %d of %d batches failed, the first with: %w", r.Failed, r.Failed+r.Done, r.Err)
	}
	return s.ctx.Err()
}
