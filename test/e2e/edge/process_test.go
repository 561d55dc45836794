//go:build linux

package edge

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/setpoint-dev/setpoint/internal/fatal"
	"github.com/setpoint-dev/setpoint/internal/process"
	"github.com/setpoint-dev/setpoint/test/e2e/service"
)

func generatorProgram() (string, error) { return process.Build("test/e2e/edge/load/generator", false) }

// run runs the program to its end.
func run(t testing.TB, environment []string, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	path, err := service.Program()
	fatal.If(t, err)
	cmd := exec.CommandContext(t.Context(), path, args...)
	cmd.Env = append(process.Environ(), environment...)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	var exit *exec.ExitError
	if err := cmd.Run(); err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return cmd.ProcessState.ExitCode(), out.String(), errs.String()
}

// start starts a service as it is shipped, and waits until it is ready.
func start(t testing.TB, flags ...string) *service.Instance {
	t.Helper()
	return startWith(t, service.Settings{Flags: flags, Shipped: true})
}

func startWith(t testing.TB, settings service.Settings) *service.Instance {
	t.Helper()
	p := service.New(t, settings)
	p.Restart()
	return p
}

// scheduled is a process' scheduling: processor time, and the time that its threads waited for
// a busy processor.
type scheduled struct {
	at           time.Time
	ran, waiting time.Duration
}

func scheduledOf(pid int) scheduled {
	now := scheduled{at: time.Now()}
	files, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/schedstat", pid))
	if err != nil {
		return now
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			continue // a thread that has ended
		}
		var ran, waited int64
		if _, err := fmt.Sscan(string(text), &ran, &waited); err == nil {
			now.ran += time.Duration(ran)
			now.waiting += time.Duration(waited)
		}
	}
	return now
}

// watched is a process' scheduling over time.
type watched struct {
	mu      sync.Mutex
	samples []scheduled // guarded by mu
}

// watch observes a process until the test ends.
func watch(t testing.TB, pid int) *watched {
	w := &watched{}
	ctx := t.Context()
	go func() {
		for ctx.Err() == nil {
			now := scheduledOf(pid)
			w.mu.Lock()
			w.samples = append(w.samples, now)
			w.mu.Unlock()
			time.Sleep(50 * time.Millisecond)
		}
	}()
	return w
}

// between returns the shares of the time in which a process on one processor ran, and in
// which it could have run but for other processes. Its threads wait for each other, too.
func (w *watched) between(from, to time.Time) (ran, heldBack float64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	first, last := scheduled{}, scheduled{}
	for _, s := range w.samples {
		if first.at.IsZero() || !s.at.After(from) {
			first = s
		}
		if !s.at.After(to) {
			last = s
		}
	}
	if wall := float64(last.at.Sub(first.at)); wall > 0 {
		ran = float64(last.ran-first.ran) / wall
		return ran, max(0, min(float64(last.waiting-first.waiting)/wall, 1-ran))
	}
	return 0, 0
}
