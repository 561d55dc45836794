package faults

import (
	"fmt"
	"testing"
	"time"

	"github.com/setpoint-dev/setpoint/internal/fatal"
	"github.com/setpoint-dev/setpoint/test/e2e/kit"
)

func TestAStopWhileTheStoreIsAwayLogsWhatIsLost(t *testing.T) {
	t.Parallel()
	for _, f := range aways[:4] {
		t.Run(f.name, func(t *testing.T) {
			t.Parallel()
			r := f.rig(t)
			s := r.start(t, holdDown, func(su *setup) { su.options.DrainTimeout = requestTimeout })
			b := newBook()
			names := []string{target("one"), target("two")}
			fatal.If(t, s.batch(t.Context(), b, b.requests(names...))...)
			end := f.begin(t, r)
			defer end()
			fatal.If(t, s.batch(t.Context(), b, b.requests(names...))...)
			start := time.Now()
			s.end(t)
			t.Logf("stopped within %v", brief(time.Since(start)))
			// The log of decisions has its own time, see server.
			if took := time.Since(start); took > 5*requestTimeout {
				t.Errorf("the stop took %v", took)
			}
			lines := s.logs.FilterMessage("decisions of an outage are lost with this instance").All()
			if len(lines) != 1 || fmt.Sprint(lines[0].ContextMap()["targets"]) != "2" {
				t.Errorf("logged is %v", lines)
			}
		})
	}
}

func TestAStopOnceTheStoreIsBackLosesNothing(t *testing.T) {
	t.Parallel()
	r := sharedRig(t)
	s := r.start(t, holdDown)
	b := newBook()
	names := []string{target("one"), target("two")}
	fatal.If(t, s.batch(t.Context(), b, b.requests(names...))...)
	r.proxy.disable()
	kit.Eventually(t, notice, "the breaker is open", func() error {
		fatal.If(t, s.batch(t.Context(), b, b.requests(names...))...)
		if stats := s.store.Stats(); stats.BreakersOpen == 0 {
			return fmt.Errorf("%+v", stats)
		}
		return nil
	})
	r.proxy.enable(t)
	s.end(t)
	b.check(t, r)
}
