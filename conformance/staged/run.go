package staged

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/setpoint-dev/setpoint/conformance/differential"
)

// Plan is a comparison with one version.
type Plan struct {
	Version differential.Version
	// Root is the folder of the conformance module, Work one for built programs.
	Root, Work string
	// Stages are the names of those to compare.
	Stages []string
	// Seed is the first seed of each stage, Steps how many steps of each to compare, at least.
	Seed  uint64
	Steps int
	// Workers is the number of concurrent oracles, at least 1.
	Workers int
}

// Result is the result of a plan.
type Result struct {
	Plan Plan
	// Counts are by stage; those of a mixture, too.
	Counts   map[string]*Counts
	Elapsed  map[string]time.Duration
	Findings []*Finding
	// Refusals are examples of scenarios that the service refused.
	Refusals []string
}

// epoch is the clock of the service when it starts: before all scenarios, so that overrides can be created
// for their times.
var epoch = time.Date(2025, 12, 31, 0, 0, 0, 0, time.UTC)

// Profiles are those of the controllers that are compared with stages.
var Profiles = []string{"v1.36", "v1.37"}

// Run executes a plan with several versions at a time.
func Run(ctx context.Context, versions []differential.Version, p Plan) (*Report, error) {
	r := &Report{Results: make([]*Result, len(versions))}
	errs := make([]error, len(versions))
	var all sync.WaitGroup
	for i, version := range versions {
		of := p
		of.Version = version
		all.Go(func() { r.Results[i], errs[i] = of.Run(ctx) })
	}
	all.Wait()
	return r, errors.Join(errs...)
}

// Run executes a plan.
func (p Plan) Run(ctx context.Context) (*Result, error) {
	r := &Result{Plan: p, Counts: map[string]*Counts{}, Elapsed: map[string]time.Duration{}}
	builds := []func(context.Context, string, string) (string, error){
		func(ctx context.Context, root, into string) (string, error) {
			return p.Version.Build(ctx, root, into, false)
		},
		p.Version.BuildSaturating, p.Version.BuildIgnoringSurge, p.Version.BuildSaturatingIgnoringSurge,
	}
	programs := make([]string, len(builds))
	for i, build := range builds {
		var err error
		if programs[i], err = build(ctx, p.Root, p.Work); err != nil {
			return nil, err
		}
	}
	began := time.Now()
	service, err := differential.StartServiceAt(func() time.Time { return epoch.Add(time.Since(began)) })
	if err != nil {
		return nil, err
	}
	defer service.Close()
	for _, stage := range p.Stages {
		start := time.Now()
		if err := p.stage(ctx, service, programs, stage, r); err != nil {
			return nil, err
		}
		r.Elapsed[stage] = time.Since(start)
	}
	return r, nil
}

// stage compares one stage.
func (p Plan) stage(ctx context.Context, service *differential.Service, programs []string, stage string, r *Result) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var mu sync.Mutex
	next, counts, found := p.Seed, &Counts{Differences: map[string]int{}}, false
	r.Counts[stage] = counts
	var workers sync.WaitGroup
	for range max(1, p.Workers) {
		workers.Go(func() {
			c, closing, err := p.comparer(service, programs)
			if err != nil {
				cancel(err)
				return
			}
			defer func() {
				if err := closing(); err != nil {
					cancel(err)
				}
			}()
			for ctx.Err() == nil {
				mu.Lock()
				seed, done := next, counts.Steps >= p.Steps || found
				next++
				mu.Unlock()
				if done {
					return
				}
				mine := &Counts{Differences: map[string]int{}}
				finding, err := c.Random(ctx, stage, seed, mine)
				mu.Lock()
				counts.add(mine)
				if errors.Is(err, differential.ErrRefused) {
					if len(r.Refusals) < 5 {
						r.Refusals = append(r.Refusals, err.Error())
					}
					err = nil
				}
				if finding != nil {
					found = true
					r.Findings = append(r.Findings, finding)
				}
				mu.Unlock()
				if err != nil {
					cancel(fmt.Errorf("%s, %s, seed %d: %w", p.Version.Profile, stage, seed, err))
					return
				}
			}
		})
	}
	workers.Wait()
	return context.Cause(ctx)
}

// comparer starts the oracles of one worker.
func (p Plan) comparer(service *differential.Service, programs []string) (*Comparer, func() error, error) {
	oracles := make([]*differential.Oracle, 0, len(programs))
	closing := func() error {
		var err error
		for _, o := range oracles {
			err = errors.Join(err, o.Close())
		}
		return err
	}
	for _, program := range programs {
		o, err := differential.StartOracle(program, "")
		if err != nil {
			return nil, nil, errors.Join(err, closing())
		}
		oracles = append(oracles, o)
	}
	return &Comparer{p.Version, service, [2]*differential.Oracle(oracles[:2]), [2]*differential.Oracle(oracles[2:])}, closing, nil
}
