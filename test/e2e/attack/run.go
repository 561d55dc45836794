//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/setpoint-dev/setpoint/internal/process"
	"github.com/setpoint-dev/setpoint/test/e2e/hostile"
)

// outcome is the result of a step.
type outcome struct {
	Attack, Step string
	Item         string `json:",omitempty"`
	Requests     int64
	Bytes        int64
	// BeforeMiB and PeakMiB are resident memory, MemoryMiB its bound.
	BeforeMiB, PeakMiB, MemoryMiB int64
	// Processor is the processor time of the attack, without honest callers; ProcessorBound its
	// bound; Idle the time until the processors were idle again.
	Processor, ProcessorBound, Idle time.Duration
	Took                            time.Duration
	Quiet, Honest                   honestly
	Met                             string
	// Missed are the exceeded bounds; none: the step passed.
	Missed []string
	// LeftMiB is the heap in use once all had recovered, or had not in time; of a step that missed
	// a bound Heap is the file with its profile, for go tool pprof.
	LeftMiB int64
	Heap    string `json:",omitempty"`
	// busy reports whether all that was missed may be due to a busy machine: collections of
	// garbage come late on it, too, and connections are not made in time.
	busy bool
}

const (
	// quietTime is how long the service is observed before the attack.
	quietTime = 700 * time.Millisecond
	// recoveredWithin is when all must be as before.
	recoveredWithin = time.Minute
	// idleWithin is when processors must be at rest again after the callers have left, or
	// how much they may still do, where others have them: for that is looked so long.
	idleWithin, restWithin = 3 * time.Second, time.Minute
	// moreProcessor is the allowed excess over the quiet time's share of a processor.
	moreProcessor = .25
	// moreFiles and moreGoroutines are allowed leftovers: connections that honest callers and
	// the store have opened meanwhile.
	moreFiles, moreGoroutines = 40, 60
	// tries bounds the attempts of a step that fails in a way that a busy machine could cause.
	tries = 3
)

// runner runs attacks.
type runner struct {
	program string
	times   int
	say     func(format string, args ...any)
}

// run throws the steps that are wanted at one process.
func (r *runner) run(ctx context.Context, a *attack, wanted func(*step) bool) (outcomes []*outcome, err error) {
	var s *site
	var h *honest
	begin := func() error {
		if s, err = newSite(r.program, a); err != nil {
			return err
		}
		if h, err = startHonest(s); err != nil {
			return err
		}
		return h.answered()
	}
	finish := func() error {
		var problem error
		if h != nil {
			h.end()
		}
		if s != nil {
			problem = s.end()
		}
		s, h = nil, nil
		return problem
	}
	defer func() {
		problem := finish()
		if problem != nil && len(outcomes) > 0 && err == nil {
			outcomes[len(outcomes)-1].miss("end: %v", problem)
			return
		}
		err = errors.Join(err, problem)
	}()
	if err := begin(); err != nil {
		return nil, err
	}
	last := len(a.steps) - 1
	for ; last > 0 && !wanted(&a.steps[last]); last-- {
	}
	for i := range a.steps {
		step := &a.steps[i]
		if !wanted(step) {
			continue
		}
		o := r.throw(ctx, s, h, a, step)
		for try := 1; len(o.Missed) > 0 && o.busy && try < tries && ctx.Err() == nil; try++ {
			r.say("%s/%s: %s; once more, the machine may be busy", a.name, step.name, strings.Join(o.Missed, "; "))
			// The failure may persist: the next attempt uses another process. The end of this
			// one counts.
			if problem := finish(); problem != nil {
				o.miss("end: %v", problem)
				if err := begin(); err != nil {
					return outcomes, err
				}
				break
			}
			if err := begin(); err != nil {
				return outcomes, err
			}
			o = r.throw(ctx, s, h, a, step)
		}
		outcomes = append(outcomes, o)
		if len(o.Missed) == 0 || i == last {
			continue
		}
		// The next step needs a healthy service; and the end of this one is part of its result.
		if problem := finish(); problem != nil {
			o.miss("end: %v", problem)
		}
		if err := begin(); err != nil {
			return outcomes, err
		}
	}
	return outcomes, nil
}

// answered waits for the first answers.
func (h *honest) answered() error {
	for deadline := time.Now().Add(process.Patience); ; time.Sleep(10 * time.Millisecond) {
		if met := h.between(time.Time{}, time.Now()); met.Calls-met.Failed >= 8 {
			return nil
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("honest callers got no answers: %v", h.between(time.Time{}, time.Now()).Results)
		}
	}
}

func (o *outcome) miss(format string, args ...any) {
	o.Missed = append(o.Missed, fmt.Sprintf(format, args...))
}

// throw runs one step and measures its effects.
func (r *runner) throw(ctx context.Context, s *site, h *honest, a *attack, step *step) *outcome {
	b := step.withDefaults()
	o := &outcome{Attack: a.name, Step: step.name, Item: a.item, busy: true}
	began, processor := time.Now(), s.processor()
	time.Sleep(quietTime)
	share := float64(s.processor()-processor) / float64(time.Since(began))
	o.Quiet = h.between(began, time.Now())
	files, heap := s.files(), int64(0)
	goroutines, err := s.goroutines()
	if err == nil {
		heap, _, err = s.heap()
	}
	if err != nil {
		o.miss("admin: %v", err)
		o.busy = s.service.Alive()
		return o
	}
	o.BeforeMiB = s.resident() >> 20
	if err := s.resetPeak(); err != nil {
		o.miss("peak: %v", err)
	}

	c := &scene{site: s, met: hostile.NewTally(), times: r.times}
	began, processor = time.Now(), s.processor()
	during, cancel := context.WithTimeout(ctx, b.limit)
	problem := step.run(during, c)
	if problem == nil {
		problem = step.answered(c.met)
	}
	cancel()
	c.end()
	ended := time.Now()
	o.Took = ended.Sub(began)
	o.Idle = s.idle(share)
	all := time.Since(began)
	o.Processor = max(0, s.processor()-processor-time.Duration(share*float64(all)))
	o.PeakMiB = s.peak() >> 20
	o.Requests, o.Bytes = c.requests.load(), c.bytes.load()
	o.Honest = h.settled(began, ended)
	o.Met = c.met.String()
	if problem != nil {
		o.miss("%v", problem)
	}
	r.judge(o, b, c)
	if !s.service.Alive() {
		o.miss("the service ended: %s", s.service.Log())
		o.busy = false
		return o
	}
	missed, left, profile := s.recovered(files, goroutines, heap, b.keeps<<20)
	o.Missed = append(o.Missed, missed...)
	o.LeftMiB = left >> 20
	if len(o.Missed) > 0 {
		o.Heap = filepath.Join(os.TempDir(), "setpoint-attack-"+a.name+"-"+strings.ReplaceAll(step.name, "/", "-")+".heap")
		if err := os.WriteFile(o.Heap, []byte(profile), 0o600); err != nil {
			o.miss("heap profile: %v", err)
		}
	}
	return o
}

// judge compares an outcome with the bounds.
func (r *runner) judge(o *outcome, b bounds, c *scene) {
	o.MemoryMiB = b.memory
	if b.property {
		o.MemoryMiB = min(o.MemoryMiB, o.BeforeMiB+memoryFactor*c.together.load()>>20+memoryRest+uncollected)
	}
	if o.PeakMiB > o.MemoryMiB {
		o.miss("memory: %d MiB, want at most %d", o.PeakMiB, o.MemoryMiB)
	}
	o.ProcessorBound = b.processor
	if b.processor == 0 {
		o.ProcessorBound = time.Duration(o.Requests)*processorCall + time.Duration(o.Bytes*int64(processorPer16MB)/bytes16MB)
	}
	if o.Processor > o.ProcessorBound {
		o.miss("processor: %v, want at most %v", o.Processor.Round(time.Millisecond), o.ProcessorBound.Round(time.Millisecond))
	}
	if o.Idle > idleWithin {
		o.miss("processor: still busy %v after the callers had left", o.Idle.Round(100*time.Millisecond))
	}
	if b.steady && (len(o.Honest.Turned) > 0 || o.Honest.Failed == o.Honest.Calls) {
		o.miss("honest: told %v at first, %d of %d calls failed", o.Honest.Turned, o.Honest.Failed, o.Honest.Calls)
	}
	if !b.deaf {
		met, quiet := o.Honest, o.Quiet
		stood := met.Stood + quiet.Stood
		if most := max(1, int(mostFailures*float64(met.Calls))); met.Failed > most {
			o.miss("honest: %d of %d calls failed %v", met.Failed, met.Calls, met.Results)
		}
		if most := max(time.Second, 10*quiet.P50) + stood; met.P50 > most/2 {
			o.miss("honest: median %v, want at most %v", met.P50.Round(time.Millisecond), (most / 2).Round(time.Millisecond))
		}
		if most := b.worst + stood; met.Worst > most {
			o.miss("honest: worst %v, want at most %v", met.Worst.Round(time.Millisecond), most.Round(time.Millisecond))
		}
	}
}

// settled returns the honest callers' results in that time, once their calls have ended.
func (h *honest) settled(from, to time.Time) honestly {
	h.awaitLater(to)
	return h.between(from, to)
}

// awaitLater waits until calls that began after that time are answered, and so the others,
// or too late.
func (h *honest) awaitLater(to time.Time) {
	for deadline := time.Now().Add(honestTimeout + time.Second); time.Now().Before(deadline); time.Sleep(10 * time.Millisecond) {
		if h.between(to, time.Now()).Calls > 10 {
			return
		}
	}
}

// idle returns the time until the processors were idle except for that share, which honest
// callers need, or their use before, if that is less; or more than allowed.
func (s *site) idle(share float64) time.Duration {
	const look = 100 * time.Millisecond
	began, before := time.Now(), s.processor()
	for {
		from, processor := time.Now(), s.processor()
		busy := min(from.Sub(began), processor-before)
		time.Sleep(look)
		if float64(s.processor()-processor)/float64(time.Since(from)) < share+moreProcessor {
			return busy
		}
		if busy > 2*idleWithin || time.Since(began) > restWithin || !s.service.Alive() {
			return max(busy, idleWithin+look)
		}
	}
}

// recovered waits until little more than before remains, and returns the leftovers, the heap in
// use, and its profile.
func (s *site) recovered(files, goroutines int, heap, keeps int64) (missed []string, used int64, profile string) {
	for deadline := time.Now().Add(recoveredWithin); ; time.Sleep(200 * time.Millisecond) {
		missed = nil
		if now := s.files(); now > files+moreFiles {
			missed = append(missed, fmt.Sprintf("left: %d open files, were %d", now, files))
		}
		now, err := s.goroutines()
		if err != nil {
			return []string{fmt.Sprintf("admin: %v", err)}, 0, ""
		}
		if now > goroutines+moreGoroutines {
			missed = append(missed, fmt.Sprintf("left: %d goroutines, were %d", now, goroutines))
		}
		if used, profile, err = s.heap(); err != nil {
			return []string{fmt.Sprintf("admin: %v", err)}, 0, ""
		}
		if used > heap+keeps {
			missed = append(missed, fmt.Sprintf("left: %d MiB of heap, were %d", used>>20, heap>>20))
		}
		if len(missed) == 0 || time.Now().After(deadline) {
			return missed, used, profile
		}
	}
}
