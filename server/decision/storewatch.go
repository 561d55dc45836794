package decision

import (
	"context"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/setpoint-dev/setpoint/server/calls"
	"github.com/setpoint-dev/setpoint/server/health"
)

const (
	// storeCheckPeriod is the interval of pinging the store.
	storeCheckPeriod = time.Second
	// storeCheckTimeout limits one ping, including the one before serving begins: a
	// store that stalls for less counts as reachable, and one that hangs delays the
	// start no longer than this.
	storeCheckTimeout = 2 * time.Second
	// storeCheckPause is the pause after a check in which failed operations cause no other one:
	// the check's own may fail while pings succeed.
	storeCheckPause = 100 * time.Millisecond
)

// storeWatch pings the store periodically, so that readiness follows it, and writes the unwritten
// histories once it is back.
type storeWatch struct {
	targets *Targets
	health  *health.Server
	Away    atomic.Bool
	// logged reports whether the log says that the store is unreachable.
	logged bool
	// nudge requests an immediate check.
	nudge chan struct{}
}

func newStoreWatch(t *Targets, h *health.Server) *storeWatch {
	w := &storeWatch{targets: t, health: h, nudge: make(chan struct{}, 1)}
	w.set(true)
	return w
}

// failed records a failed operation, which causes an immediate check, unless there has just been
// one.
func (w *storeWatch) failed() {
	select {
	case w.nudge <- struct{}{}:
	default:
	}
}

// Check pings once. A panic is logged, as in a call: the next check tries again.
func (w *storeWatch) Check(ctx context.Context) {
	defer func() { _ = calls.Recovered(w.targets.Log, "check of the store", recover(), nil) }()
	ctx, cancel := context.WithTimeout(ctx, storeCheckTimeout)
	defer cancel()
	err := w.targets.store.Ping(ctx)
	if err == nil {
		w.targets.clock.measure(ctx)
	}
	if changed := w.set(err != nil); changed || !w.logged {
		w.logged = true
		if err != nil {
			w.targets.Log.Error("store away: not ready", zap.Error(err))
		} else {
			w.targets.Log.Info("store answers: ready")
		}
	}
	if err != nil {
		return
	}
	if n := w.targets.outage.pending(); n > 0 {
		if err := w.targets.outage.writeBack(ctx); err != nil {
			w.targets.Log.Warn("decisions of the outage not all written yet", zap.Int("targets", w.targets.outage.pending()), zap.Error(err))
			return
		}
		w.targets.Log.Info("decisions of the outage written", zap.Int("targets", n))
	}
}

// set records whether the store is unreachable, and reports whether that changed.
func (w *storeWatch) set(away bool) bool {
	w.health.Set(!away && !w.targets.clock.wrong.Load())
	w.targets.Metrics.storeUp.Set(map[bool]float64{true: 0, false: 1}[away])
	return w.Away.Swap(away) != away
}

// Run checks until the context ends.
func (w *storeWatch) Run(ctx context.Context) {
	ticker := time.NewTicker(storeCheckPeriod)
	defer ticker.Stop()
	var checked time.Time
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		case <-w.nudge:
			if time.Since(checked) < storeCheckPause {
				continue
			}
		}
		w.Check(ctx)
		checked = time.Now()
	}
}
