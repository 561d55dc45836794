//go:build linux

package process_test

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/setpoint-dev/setpoint/internal/fatal"
	"github.com/setpoint-dev/setpoint/internal/process"
)

func TestProcessorTimeIsThatOfTheProcess(t *testing.T) {
	t.Parallel()
	before, err := process.Processor(os.Getpid())
	fatal.If(t, err)
	const work = 100 * time.Millisecond
	began, took, sum := time.Now(), time.Duration(0), 0
	for took < work && time.Since(began) < time.Minute { // others may have the processors
		for i := range 1_000_000 {
			sum += i
		}
		after, err := process.Processor(os.Getpid())
		fatal.If(t, err)
		took = after - before
	}
	if wall := time.Since(began); took < work || took > wall*time.Duration(2*runtime.NumCPU()) {
		t.Errorf("%v of processor time in %v of work (%d)", took, wall, sum)
	}
	if _, err := process.Processor(-1); err == nil {
		t.Error("an invalid process id has processor time")
	}
}

func command(t *testing.T, script string) process.Command {
	return process.Command{Name: "sh", Program: "sh", Args: []string{"-c", script}, Log: filepath.Join(t.TempDir(), "log")}
}

func start(t *testing.T, command process.Command) *process.Process {
	t.Helper()
	p, err := process.Start(command)
	fatal.If(t, err)
	t.Cleanup(p.Kill)
	return p
}

// began waits until a script has said so.
func began(t *testing.T, p *process.Process) {
	t.Helper()
	err := p.Await("begun", process.Patience, func() error {
		if !strings.Contains(p.Log(), "begun") {
			return errors.New("it says nothing")
		}
		return nil
	})
	fatal.If(t, err)
}

func TestStopWantsExitCodeZero(t *testing.T) {
	t.Parallel()
	for script, fails := range map[string]bool{
		"trap 'exit 0' TERM; echo begun; while :; do sleep .01; done": false,
		"trap 'exit 3' TERM; echo begun; while :; do sleep .01; done": true,
		"echo begun; exec sleep 600":                                  true, // ended by the signal
	} {
		p := start(t, command(t, script))
		began(t, p)
		if err := p.Stop(); (err != nil) != fails {
			t.Errorf("%s: Stop returns %v", script, err)
		}
		if err := p.Stop(); err != nil {
			t.Errorf("%s: the second Stop returns %v", script, err)
		}
		if p.Alive() || syscall.Kill(p.PID(), 0) == nil {
			t.Errorf("%s: it runs on", script)
		}
	}
}

func TestAProgramThatEndsByItselfIsReported(t *testing.T) {
	t.Parallel()
	p := start(t, command(t, "echo the reason >&2; exit 3"))
	err := p.Await("ready", process.Patience, func() error { return os.ErrNotExist })
	if err == nil || !strings.Contains(err.Error(), "the reason") {
		t.Errorf("Await returns %v, want what the program said", err)
	}
	if err := p.Stop(); err == nil || !strings.Contains(err.Error(), "the reason") {
		t.Errorf("Stop returns %v, want what the program said", err)
	}
}

func TestTheTestersSettingsAreLeftOut(t *testing.T) {
	t.Setenv("SETPOINT_LOG_LEVEL", "debug")
	t.Setenv("GOGC", "1")
	c := command(t, "env; exec sleep 600")
	c.Env = []string{"GOMEMLIMIT=1GiB", "LAST=begun"}
	p := start(t, c)
	began(t, p)
	if log := p.Log(); strings.Contains(log, "SETPOINT_") || strings.Contains(log, "GOGC") || !strings.Contains(log, "GOMEMLIMIT=1GiB") {
		t.Errorf("the environment is\n%s", log)
	}
}

func TestReservedPortsAreExclusive(t *testing.T) {
	t.Parallel()
	seen := make(map[string]bool)
	for range 20 {
		ports, err := process.Reserve(3)
		fatal.If(t, err)
		defer ports.Release()
		for i := range 3 {
			if seen[ports.Number(i)] {
				t.Errorf("port %s twice", ports.Number(i))
			}
			seen[ports.Number(i)] = true
		}
	}
}
