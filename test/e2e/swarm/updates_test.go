//go:build linux

package swarm

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/setpoint-dev/setpoint/internal/fatal"
	"github.com/setpoint-dev/setpoint/test/e2e/kit"
)

// Rolling updates of tests replace a task every stepOfUpdate, and go on for ten seconds after the
// last one, in which Swarm watches it.
const stepOfUpdate = 5 * time.Second

// roll starts a rolling update, which the test names.
func (s *workload) roll(t *testing.T, name string) {
	t.Helper()
	s.must(t, 1, "service", "update", "--quiet", "--detach", "--no-resolve-image", "--update-parallelism=1",
		"--update-delay="+stepOfUpdate.String(), "--update-monitor=10s", "--env-add=UPDATE="+name, s.name)
	kit.Eventually(t, patience, "the update "+name, func() error { return s.isIn("updating") })
}

// isIn returns an error unless an update of the service has that state.
func (s *workload) isIn(state string) error {
	if got := s.updateState(); got != state {
		return fmt.Errorf("its state is %q", got)
	}
	return nil
}

// rollingUpdate: while tasks are replaced under load, no count is written, and the hold says which
// would be; the recommendations of that time hold the count after it, as those of a
// HorizontalPodAutoscaler do; and with the label a service scales up meanwhile.
func rollingUpdate(t *testing.T, w *world) {
	const (
		least  = 3
		window = 40 * time.Second
	)
	s := w.create(t, "rolling", "burn:1", least, "setpoint.min=3", "setpoint.behavior="+strings.Replace(behavior, "stabilizationWindowSeconds: 6", "stabilizationWindowSeconds: 40", 1))
	defer s.remove(t)
	s.use(t, idle)
	s.decided(t)

	s.roll(t, "held")
	s.use(t, much)
	kit.Eventually(t, patience, "a hold that says what the count would be", func() error {
		o, err := s.agent.Object(s.name)
		if err != nil || o.Hold == nil || o.Hold.Reason != "Updating" || !strings.Contains(o.Hold.Message, "; it would be scaled from 3 to 5: ") {
			return fmt.Errorf("%+v, %w", o, err)
		}
		return nil
	})
	fatal.If(t, s.isIn("updating"))
	if n := s.replicas(t); n != least {
		t.Errorf("%d replicas while the update runs", n)
	}
	states := s.statesWhenScaled(t)
	s.becomes(t, most)
	if got := <-states; got != "completed" {
		t.Errorf("it was scaled when its update was %s", got)
	}

	// All recommendations from before this update are older than the window when the load ends.
	s.roll(t, "window")
	began := time.Now()
	kit.Eventually(t, patience, "an update that has replaced all tasks", func() error {
		switch n := s.updated(t, "window"); {
		case n < most:
			return fmt.Errorf("%d are replaced", n)
		case time.Since(began) < window+2*time.Second:
			return errors.New("it is shorter than the window")
		}
		return nil
	})
	fatal.If(t, s.isIn("updating"))
	s.use(t, idle)
	off := time.Now()
	kit.Eventually(t, patience, "the end of the update", func() error { return s.isIn("completed") })
	if late := time.Since(off); late > window-5*time.Second {
		t.Fatalf("the update ended %s after the load, too late to see whether the window holds", late)
	}
	if held := s.watch(t, least)[1].at.Sub(off); held < window-2*time.Second {
		t.Errorf("the count fell %s after the load, before the window of %s: the recommendations during the update are missing", held, window)
	} else {
		t.Logf("the count fell %s after the load", held)
	}

	s.label(t, "setpoint.scaleUpInUpdates", "true")
	s.roll(t, "scaled")
	states = s.statesWhenScaled(t)
	s.use(t, much)
	seen := s.watch(t, most)
	if slices.ContainsFunc(seen, func(c change) bool { return c.to < least }) {
		t.Errorf("it was scaled down: %s", trajectory(seen))
	}
	if got := <-states; got != "updating" {
		t.Errorf("it was scaled up when its update was %s", got)
	}
}

// statesWhenScaled are the states of the service's update each time that the agent writes a count,
// which resets them.
func (s *workload) statesWhenScaled(t *testing.T) <-chan string {
	t.Helper()
	states := make(chan string, 100)
	s.gate.set(func(r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "/update") {
			states <- s.updateState()
		}
	}, nil)
	t.Cleanup(func() { s.gate.set(nil, nil) })
	return states
}

// updateState is the state of the service's last update, or an error's text.
func (s *workload) updateState() string {
	state, err := s.docker(1, "service", "inspect", "--format={{if .UpdateStatus}}{{.UpdateStatus.State}}{{end}}", s.name)
	if err != nil {
		return err.Error()
	}
	return state
}

// updated is how many tasks run that a rolling update has made.
func (s *workload) updated(t *testing.T, update string) int {
	t.Helper()
	ids := strings.Fields(s.must(t, 1, "service", "ps", "--quiet", "--no-trunc", "--filter=desired-state=running", s.name))
	tasks := s.must(t, 1, append([]string{"inspect", "--type=task", "--format={{.Spec.ContainerSpec.Env}} {{.Status.State}}"}, ids...)...)
	return strings.Count(tasks, "UPDATE="+update+"] running")
}
