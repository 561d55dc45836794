package scenario

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/setpoint-dev/setpoint/bench/bare"
	"github.com/setpoint-dev/setpoint/bench/report"
	"github.com/setpoint-dev/setpoint/internal/fatal"
	kit "github.com/setpoint-dev/setpoint/internal/process"
	"github.com/setpoint-dev/setpoint/store/redis/redistest"
)

// bareCommand has the test's program do what package bare does.
const bareCommand = "bare"

func TestMain(m *testing.M) {
	if os.Args[len(os.Args)-1] != bareCommand {
		os.Exit(m.Run())
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	if err := bare.Serve(ctx, os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
}

// settings are the least that all scenarios can be played with.
func settings(t *testing.T) Settings {
	t.Helper()
	redistest.Require(t)
	root, err := kit.Repository()
	fatal.If(t, err)
	folder := t.TempDir()
	program, err := kit.Build("setpoint", false)
	fatal.If(t, err)
	self, err := os.Executable()
	fatal.If(t, err)
	return Settings{
		Runs: 1, Duration: 100 * time.Millisecond, Slice: 50 * time.Millisecond, Callers: 4, Connections: 1,
		Targets: LeastTargets, Stored: 2000, Rounds: 2, Root: root, Program: program, Folder: folder, Log: t.Logf,
		Bare: []string{self, bareCommand},
	}
}

// TestEachScenarioCanBePlayed plays all but the engine's, which builds Kubernetes: its
// figures come from TestEngineFigures. It looks at what they hold, not at how fast it is.
func TestEachScenarioCanBePlayed(t *testing.T) {
	s := settings(t)
	s.Profiles = filepath.Join(s.Folder, "profiles")
	fatal.If(t, os.Mkdir(s.Profiles, 0o755))
	profiled, idle, settling = time.Second, time.Second, 0
	for i := range All {
		scenario := &All[i]
		if scenario.Name == engine.Name {
			continue
		}
		t.Run(scenario.Name, func(t *testing.T) {
			for try := 1; ; try++ {
				err := playOnce(t, scenario, s)
				if err == nil {
					return
				}
				if try == playTries {
					t.Fatal(err)
				}
				t.Logf("once more: %v", err)
			}
		})
	}
	for _, name := range []string{"unary-memory.service", "unary-redis.service", "rest.REST", "stream-redis.service", "batch-redis.service"} {
		file := filepath.Join(s.Profiles, name+".cpu.pprof")
		if info, err := os.Stat(file); err != nil || info.Size() == 0 {
			t.Errorf("no profile %s: %v", name, err)
		}
	}
}

// playTries is how often a scenario is played at most: in so short a time as here a machine
// that stands still gets nothing done, or has the service refuse calls.
const playTries = 3

func playOnce(t *testing.T, scenario *Scenario, s Settings) error {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 4*time.Minute)
	defer cancel()
	played, err := scenario.Play(ctx, s)
	if err != nil {
		return err
	}
	return check(&played)
}

// check returns what a scenario's figures lack.
func check(played *report.Scenario) error {
	var problems []error
	lacks := func(format string, args ...any) { problems = append(problems, fmt.Errorf(format, args...)) }
	goals := 0
	for i := range played.Figures {
		f := &played.Figures[i]
		if f.Goal != nil {
			goals++
		}
		if len(f.Runs) == 0 {
			lacks("%q was not measured", f.Name)
		}
		if f.Unit == "/s" && slices.Min(f.Runs) <= 0 {
			lacks("%q: %v/s", f.Name, f.Runs)
		}
		if f.Name == "Redis memory" && f.Median() <= 0 {
			lacks("%q: %v", f.Name, f.Runs)
		}
	}
	if goals == 0 || played.Seconds <= 0 {
		lacks("%d figures have a goal, in %v s", goals, played.Seconds)
	}
	return errors.Join(problems...)
}

func TestAScenarioWhoseServiceRefusesFails(t *testing.T) {
	s := settings(t)
	script := filepath.Join(s.Folder, "refusing")
	// It takes no evaluation time: the later flag wins.
	text := fmt.Sprintf("#!/bin/sh\nexec %s \"$@\" --allow-evaluation-time=false\n", s.Program)
	fatal.If(t, os.WriteFile(script, []byte(text), 0o755))
	s.Program = script
	if _, err := unaryMemory.Play(t.Context(), s); err == nil {
		t.Error("a service that refuses all requests was measured")
	}
}

func TestEngineFigures(t *testing.T) {
	t.Parallel()
	const out = `goos: linux
cpu: A processor
BenchmarkCalculator/utilization/1000_pods/upstream-2         	     100	   1000000 ns/op	  700 B/op	     30 allocs/op
BenchmarkCalculator/utilization/1000_pods/upstream-2         	     100	   2000000 ns/op	  700 B/op	     30 allocs/op
BenchmarkCalculator/utilization/1000_pods/setpoint-2         	    3000	   40000.5 ns/op	   70 B/op	      2 allocs/op
BenchmarkCalculator/utilization/1000_pods/setpoint-2         	    3000	   40000 ns/op	   70 B/op	      3 allocs/op
PASS
`
	figures, err := engineFigures(out)
	fatal.If(t, err)
	if f := figures[0]; len(f.Runs) != 2 || f.Runs[1] != 50 || f.Runs[0] >= 25 {
		t.Errorf("%s: %v, want 25 × and 50 ×", f.Name, f.Runs)
	}
	if f := figures[1]; !slices.Equal(f.Runs, []float64{2, 3}) {
		t.Errorf("%s: %v, want 2 and 3", f.Name, f.Runs)
	}
	if _, err := engineFigures("PASS\n"); err == nil {
		t.Error("nothing was measured, and that is no error")
	}
}
