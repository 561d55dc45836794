package decision

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/setpoint-dev/setpoint/internal/printable"
	"github.com/setpoint-dev/setpoint/server/apierror"
	"github.com/setpoint-dev/setpoint/store"
)

const (
	// storeCheckPeriod is the interval of pinging the store.
	storeCheckPeriod = time.Second
	// storeCheckTimeout limits one ping, including the one before serving begins: a
	// store that stalls for less counts as reachable, and one that hangs delays the
	// start no longer than this. See store.Patience.
	storeCheckTimeout = 2 * time.Second
	// storeCheckPause is the pause after a check in which failed operations cause no other one:
	// the check's own may fail while pings succeed.
	storeCheckPause = 100 * time.Millisecond
)

// storeWatch pings the store periodically, so that readiness follows it, and writes the unwritten
// histories once it is back.
type storeWatch struct {
	targets   *Targets
	tellReady func(bool)
	engine    store.Store
	Away      atomic.Bool
	// state is what Ready returns.
	state atomic.Pointer[readiness]
	// logged reports whether the log says that the store is unreachable. told are the causes
	// that it has named since.
	logged bool
	told   printable.Causes
	// unwritten reports whether the log says that decisions of the outage are not written.
	unwritten bool
	// wentBack is how many histories that went back the log has told of.
	wentBack uint64
	// nudge requests an immediate check.
	nudge chan struct{}
}

func newStoreWatch(t *Targets, ready func(bool), engine store.Store) *storeWatch {
	w := &storeWatch{targets: t, tellReady: ready, engine: engine, nudge: make(chan struct{}, 1)}
	w.set(errUnasked)
	return w
}

// errUnasked is the state before the first check.
var errUnasked = errors.New("not asked yet")

// readiness is whether calls may be sent here, and why in plain words.
type readiness struct {
	ready bool
	why   string
}

// Ready reports whether calls may be sent to this instance, and why, in words without
// addresses, names and secrets: anybody may ask.
func (w *storeWatch) Ready() (ready bool, why string) {
	now := w.state.Load()
	return now.ready, now.why
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
	defer func() { _ = apierror.Recovered(w.targets.Log, "check of the store", recover(), nil) }()
	ctx, cancel := context.WithTimeout(ctx, store.Patience(w.engine, storeCheckTimeout))
	defer cancel()
	err := w.targets.store.Ping(ctx)
	if err == nil {
		w.targets.clock.measure(ctx)
	}
	if changed := w.set(err); changed || !w.logged {
		w.logged, w.told = true, printable.Causes{}
		if err == nil {
			w.targets.Log.Info("store answers: ready")
		}
	}
	w.tell(err)
	if n := w.targets.wentBack.Load(); n != w.wentBack {
		w.targets.Log.Warn("histories were older in the store than here: it has lost data; what is more than 15 s older goes on from what is known here, but stored specs may be older as well, or deleted ones be back",
			zap.Uint64("targets", n-w.wentBack))
		w.wentBack = n
	}
	if err != nil {
		return
	}
	if n := w.targets.countMissing(ctx); n > 0 {
		w.wentBack += uint64(n)
		w.targets.Log.Warn("histories, or pasts of forecasts, that were known here are gone from the store, and nobody deleted their targets: it has lost data, or evicts keys; their windows and policy periods, or forecasts, start anew",
			zap.Int("targets", n))
	}
	if n := w.targets.outage.pending(); n > 0 {
		if err := w.targets.outage.writeBack(ctx); err != nil {
			if !w.unwritten {
				w.unwritten = true
				w.targets.Log.Warn("decisions of the outage not all written yet", zap.Int("targets", w.targets.outage.pending()), zap.Error(err))
			}
			return
		}
		w.targets.Log.Info("decisions of the outage written", zap.Int("targets", n))
	}
	w.unwritten = false
	w.targets.hideDeleted(ctx)
}

// tell logs why the store is away, each cause once per outage: a store that comes back under another
// certificate first refuses connections, and then is no longer trusted.
func (w *storeWatch) tell(err error) {
	if err == nil || !w.told.New(apierror.LastStoreError(err).Error()) {
		return
	}
	message := "store away: not ready"
	if ready, _ := w.Ready(); ready {
		message = "store away: ready for known targets, which are held down"
	}
	w.targets.Log.Error(message, zap.Error(err))
}

// set records whether the store is unreachable, nil: it is not, and reports whether that changed.
func (w *storeWatch) set(err error) bool {
	away, state := err != nil, w.readiness(err)
	w.state.Store(&state)
	w.tellReady(state.ready)
	w.targets.Metrics.storeUp.Set(map[bool]float64{true: 0, false: 1}[away])
	return w.Away.Swap(away) != away
}

// readiness returns whether calls may be sent here. With HoldDown that is so also while the store is
// away: a load balancer that took all instances out would keep everybody from the answers that
// they can give. An instance that knows no target has none to give.
func (w *storeWatch) readiness(err error) readiness {
	why := apierror.StoreAwayBecause(err)
	switch t := w.targets; {
	case t.clock.wrong.Load():
		return readiness{false, "this instance's clock differs from the history store's"}
	case err == nil:
		if some, is := w.engine.(store.Sharded); is {
			if lacking := some.Lacking(); lacking != nil {
				return readiness{true, "ok, but in part " + apierror.StoreAwayBecause(lacking)}
			}
		}
		return readiness{true, "ok"}
	case t.Options.HoldDown && (t.outage.pending() > 0 || !t.cache.empty()):
		return readiness{true, "ok, but " + why + "; known targets are answered, and held down"}
	}
	return readiness{false, why}
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
