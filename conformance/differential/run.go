package differential

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/setpoint-dev/setpoint/clients/kubernetes/recording"
)

// Plan is a comparison with one version.
type Plan struct {
	Version Version
	// Root is the folder of the conformance module, Work one for built programs.
	Root, Work string
	// Seed is the first seed; the next ones follow until Steps are compared.
	Seed  uint64
	Steps int
	// Saved scenarios are compared first.
	Saved []*recording.Scenario
	// Workers is the number of concurrent oracles, at least 1.
	Workers int
	// Coverage records which statements of the controller ran.
	Coverage bool
	// MaxFindings ends the comparison; 0 means 1.
	MaxFindings int
}

// Result is the result of a plan.
type Result struct {
	Plan     Plan
	Seeds    uint64
	Census   *Census
	Findings []*Finding
	Coverage *Coverage
	Elapsed  time.Duration
}

// maxScenarios limits a run that compares nothing.
const maxScenarios = 10_000_000

// Run executes a plan.
func (p Plan) Run(ctx context.Context) (*Result, error) {
	start := time.Now()
	program, err := p.Version.Build(ctx, p.Root, p.Work, p.Coverage)
	if err != nil {
		return nil, err
	}
	saturating, err := p.Version.BuildSaturating(ctx, p.Root, p.Work)
	if err != nil {
		return nil, err
	}
	service, err := StartService()
	if err != nil {
		return nil, err
	}
	r := &runner{plan: p, program: program, saturating: saturating, service: service, result: Result{Plan: p, Census: NewCensus()}}
	err = errors.Join(r.run(ctx), service.Close())
	if err != nil {
		return nil, err
	}
	if p.Coverage {
		if r.result.Coverage, err = ReadCoverage(r.coverage...); err != nil {
			return nil, err
		}
	}
	r.result.Elapsed = time.Since(start)
	return &r.result, nil
}

type runner struct {
	plan    Plan
	program string
	// saturating is the program of the saturating oracle.
	saturating string
	service    *Service

	next  atomic.Uint64 // the next scenario: saved ones, then seeds
	steps atomic.Int64

	mu       sync.Mutex
	result   Result
	coverage []string
}

func (r *runner) run(ctx context.Context) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var workers sync.WaitGroup
	for i := range max(1, r.plan.Workers) {
		workers.Go(func() {
			if err := r.work(ctx, i); err != nil {
				cancel(err)
			}
		})
	}
	workers.Wait()
	if n := r.next.Load(); n > uint64(len(r.plan.Saved)) {
		r.result.Seeds = n - uint64(len(r.plan.Saved))
	}
	return context.Cause(ctx)
}

// work compares scenarios, one after the other, with its own oracle.
func (r *runner) work(ctx context.Context, worker int) (err error) {
	coverage := ""
	if r.plan.Coverage {
		coverage = filepath.Join(r.plan.Work, fmt.Sprintf("%s-%d.cover", r.plan.Version.Profile, worker))
	}
	oracle, err := StartOracle(r.program, coverage)
	if err != nil {
		return err
	}
	saturating, err := StartOracle(r.saturating, "")
	if err != nil {
		return errors.Join(err, oracle.Close())
	}
	census := NewCensus()
	defer func() {
		err = errors.Join(err, oracle.Close(), saturating.Close())
		r.mu.Lock()
		defer r.mu.Unlock()
		r.result.Census.Merge(census)
		if coverage != "" {
			r.coverage = append(r.coverage, coverage)
		}
	}()
	c := NewComparer(r.plan.Version, r.service, oracle, saturating, census)
	for ctx.Err() == nil && r.wanted() {
		before := census.Steps
		finding, err := r.one(ctx, c)
		if err != nil {
			return err
		}
		r.steps.Add(int64(census.Steps - before))
		if finding == nil {
			continue
		}
		if finding, err = c.Shrink(ctx, finding); err != nil {
			return err
		}
		r.mu.Lock()
		r.result.Findings = append(r.result.Findings, finding)
		r.mu.Unlock()
	}
	return nil
}

// wanted reports whether there is more to compare.
func (r *runner) wanted() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	n := r.next.Load()
	if len(r.result.Findings) >= max(1, r.plan.MaxFindings) || n > maxScenarios {
		return false
	}
	return n < uint64(len(r.plan.Saved)) || r.steps.Load() < int64(r.plan.Steps)
}

// one compares the next scenario.
func (r *runner) one(ctx context.Context, c *Comparer) (*Finding, error) {
	n := r.next.Add(1) - 1
	if n < uint64(len(r.plan.Saved)) {
		return c.Known(ctx, r.plan.Saved[n])
	}
	return c.Random(ctx, r.plan.Seed+n-uint64(len(r.plan.Saved)))
}
