//go:build linux

package edge

import (
	"context"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc/codes"

	"github.com/setpoint-dev/setpoint/internal/testlength"
	"github.com/setpoint-dev/setpoint/test/e2e/edge/load"
	"github.com/setpoint-dev/setpoint/test/e2e/hostile"
)

// Bounds of attacks.
const (
	// mostMemory is in MiB.
	mostMemory = 600
	// goalShare is the share of throughput that honest callers must keep if the attack is not
	// regular work for the service. Callers, service and other processes share the processors,
	// so that it applies with -goals only; servedShare means that honest callers are not
	// starved, as they are without a defence.
	goalShare, servedShare = .8, .15
	// attackTries: the machine may be busy with something else.
	attackTries = 10
)

// attack is what a hostile caller does.
type attack struct {
	name string
	// sends says how much.
	sends string
	// run attacks until ctx is done.
	run func(ctx context.Context, p *instance, met *hostile.Tally)
	// seconds is how long it takes at least before it is measured, and while it is.
	settle, seconds float64
	// goal is the honest callers' required share with -goals, least without; 0: goalShare and
	// servedShare.
	goal, least float64
	// check checks the results of the attack.
	check func(met *hostile.Tally) error
}

// honestErrors are the errors that honest callers may get. They are told to retry while the
// processors can't keep up with both.
var honestErrors = []codes.Code{codes.ResourceExhausted}

// Each attack has the same process, with default settings.
func TestHostileCallers(t *testing.T) { holdAgainst(t, "attack", attacks()) }

// holdAgainst makes attacks on one process, one after the other, while honest callers call, and
// fails where these are shut out, or the process is gone or keeps too much memory.
func holdAgainst(t *testing.T, kind string, all []*attack) {
	t.Helper()
	p := startAs(t, launch{cpu: -1, measured: true})
	config := load.Config{Address: p.grpc, Connections: 2, TimeoutMillis: 10_000, Phases: []load.Phase{{Name: "honest", Workers: 4}}}
	for i := range 100 {
		config.Requests = append(config.Requests, encode(t, requestFor(fmt.Sprintf("clusters/honest/namespaces/shop/targets/t%d", i)))...)
	}
	honest := startCallers(t, -1, config)
	time.Sleep(time.Second) // until both are warm
	if halfAsLong() {
		t.Log("each attack is measured half as long as with FULL=1")
	}
	rows := table{{kind, "sends", "before/s", "during/s", "share", "p99 before", "p99 during", "MiB before", "peak MiB", "honest errors", "met"}}
	defer func() { t.Logf("on %d processors:\n%s", runtime.NumCPU(), rows) }()
	for _, a := range all {
		t.Run(a.name, func(t *testing.T) {
			for try := 1; ; try++ {
				row, share := a.measure(t, p, honest)
				enough := share >= a.leastShare()
				if enough || try == attackTries || t.Failed() {
					rows = append(rows, row)
					if !enough {
						t.Errorf("in %d tries honest callers kept %.0f %% of their throughput, want %.0f %%", try, 100*share, 100*a.leastShare())
					}
					return
				}
				t.Logf("%.0f %% kept; once more", 100*share)
			}
		})
	}
	if !p.Alive() {
		t.Fatal("the service is gone")
	}
	if rest := p.memory(); rest > mostMemory {
		t.Errorf("%.0f MiB after all", rest)
	}
}

// halfAsLong reports whether attacks are measured half as long: some eight hundred calls a
// second suffice to see who is starved. Shares, for -goals, need the whole time.
func halfAsLong() bool { return !*goals && !testlength.Full() }

func (a *attack) leastShare() float64 {
	switch {
	case !*goals && a.least > 0:
		return a.least
	case !*goals:
		return servedShare
	case a.goal > 0:
		return a.goal
	}
	return goalShare
}

// awaitCheck checks the attack's results until they are as expected: on a busy machine that
// takes longer than the measurement.
func (a *attack) awaitCheck(seen *hostile.Tally) (met string, problem error) {
	const most, every = 3 * time.Minute, 100 * time.Millisecond
	for waited := time.Duration(0); ; waited += every {
		if a.check != nil {
			problem = a.check(seen)
		}
		if problem == nil || waited >= most {
			return seen.String(), problem
		}
		time.Sleep(every)
	}
}

// measure attacks once.
func (a *attack) measure(t *testing.T, p *instance, honest *callers) (row []string, share float64) {
	t.Helper()
	baseline := time.Second
	if halfAsLong() {
		baseline /= 2
	}
	began, memory := time.Now(), p.memory()
	time.Sleep(baseline)
	before := honest.between(began, time.Now())

	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	seen := hostile.NewTally()
	var attacking sync.WaitGroup
	attacking.Go(func() { a.run(ctx, p, seen) })
	var peak atomic.Int64
	attacking.Go(func() {
		for ctx.Err() == nil {
			peak.Store(max(peak.Load(), int64(p.memory())))
			time.Sleep(10 * time.Millisecond)
		}
	})
	settle, seconds := a.settle, a.seconds
	if settle == 0 {
		settle = .5
	}
	if seconds == 0 {
		seconds = 1.5 * baseline.Seconds()
	}
	time.Sleep(time.Duration(settle * float64(time.Second)))
	began = time.Now()
	time.Sleep(time.Duration(seconds * float64(time.Second)))
	during := honest.between(began, time.Now())
	met, problem := a.awaitCheck(seen)
	cancel()
	attacking.Wait()

	share = during.rate() / before.rate()
	row = []string{
		a.name, a.sends, fmt.Sprintf("%.0f", before.rate()), fmt.Sprintf("%.0f", during.rate()), fmt.Sprintf("%.0f %%", 100*share),
		brief(before.quantile(.99)), brief(during.quantile(.99)), fmt.Sprintf("%.0f", memory), fmt.Sprint(peak.Load()), during.unsuccessful(), met,
	}
	if !p.Alive() {
		t.Fatal("the service is gone")
	}
	if peak.Load() > mostMemory {
		t.Errorf("%d MiB of memory, want at most %d", peak.Load(), mostMemory)
	}
	if other := during.unsuccessful(honestErrors...); other != "" {
		t.Errorf("honest callers got %s", other)
	}
	if problem != nil {
		t.Errorf("%v; the attack met %s", problem, met)
	}
	// Wait for the initial state before the next one. Other processes may have started
	// meanwhile.
	eventually(t, 2*time.Minute, "honest callers as before", func() error {
		since := time.Now()
		time.Sleep(300 * time.Millisecond)
		if after := honest.between(since, time.Now()); after.rate() < before.rate()/8 {
			return fmt.Errorf("%.0f calls a second, was %.0f", after.rate(), before.rate())
		}
		return nil
	})
	return row, share
}

// brief is a duration for people.
func brief(d time.Duration) string {
	if d > 10*time.Millisecond {
		return d.Round(time.Millisecond).String()
	}
	return d.Round(10 * time.Microsecond).String()
}

// Callers without credentials take nothing from others: neither a slot of a call that waits for
// its body, nor its memory.
func TestUnknownCallersTakeNothing(t *testing.T) {
	f := newFolder(t)
	token, entry := newToken(t, "honest")
	for _, attack := range []struct {
		name string
		run  func(context.Context, *instance, *hostile.Tally)
	}{
		{"calls without bodies", callsWithoutBodies("")},
		{"calls without bodies with a wrong token", callsWithoutBodies("sp_unknown")},
		{"streams that nobody speaks on", unknownStreams},
		{"very many slow bodies", slowBodies(5000)},
		{"withheld giants over REST", withheldREST},
		{"withheld giants over gRPC", withheldGRPC},
	} {
		t.Run(attack.name, func(t *testing.T) {
			p := start(t, "--auth-tokens-file="+f.write("tokens.yaml", []byte("tokens:\n"+entry)))
			c := newCaller(t, p, nil, token)
			c.expect(codes.OK, targetIn("honest"), "before")
			memory := p.memory()
			ctx, cancel := context.WithCancel(t.Context())
			met := hostile.NewTally()
			var attacking sync.WaitGroup
			attacking.Go(func() { attack.run(ctx, p, met) })
			time.Sleep(2 * time.Second)
			for range 20 {
				c.served(targetIn("honest"))
			}
			grown := p.memory() - memory
			if grown > 200 {
				t.Errorf("%.0f MiB more memory", grown)
			}
			cancel()
			attacking.Wait()
			t.Logf("%.0f MiB more memory; the attack met %s", grown, met)
		})
	}
}
