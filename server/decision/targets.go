package decision

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/setpoint-dev/setpoint/internal/deadline"
	"github.com/setpoint-dev/setpoint/server/decisionlog"
	"github.com/setpoint-dev/setpoint/server/forecasts"
	"github.com/setpoint-dev/setpoint/server/recordings"
	"github.com/setpoint-dev/setpoint/server/shares"
	"github.com/setpoint-dev/setpoint/stages"
	"github.com/setpoint-dev/setpoint/store"
)

// maxStoredExplanation limits the explanation in a stored answer.
const maxStoredExplanation = 16 << 10

// maxHistoryBytes limits the stored history of one target. A usual history is a
// thousand times smaller.
const maxHistoryBytes = 512 << 10

// Targets makes decisions on targets whose histories are in a store: it takes the record from the
// cache or loads it, decides, compares and swaps, and after a lost race decides again on the
// stored record. Any instance can therefore serve any target.
type Targets struct {
	store store.Store
	// deletions has the deletions that the store keeps, nil: it keeps none.
	deletions store.Deletions
	// chunks is the store, nil: it has no logs of chunks.
	chunks store.Chunks
	clock  *clock
	cache  *cache
	outage *outage
	// Watch tracks whether the store is reachable.
	Watch *storeWatch
	// Shares limit each cluster's part of the store.
	Shares *shares.Shares
	// Overrides tells what overrides there are for a target, and whether they are known; nil: there are none
	// at all.
	Overrides interface {
		For(context.Context, store.Key) (all []stages.Override, known bool)
		// Known is For without a wait.
		Known(store.Key) (all []stages.Override, known bool)
		// Due reports whether For would wait for a cluster's. Await waits for several at once.
		Due(cluster string) bool
		Await(ctx context.Context, clusters []string)
		// Problem is why For knows nothing of a cluster's.
		Problem(cluster string) error
		// Deleted says who deleted one, as far as it is known.
		Deleted(key store.Key, level stages.Level, id string, created time.Time) (by string, at time.Time, known bool)
	}
	// Fleets answers requests with a fleet; nil: the store keeps none.
	Fleets interface {
		// Call answers jobs of one fleet, as if each came after the one before.
		Call(ctx context.Context, jobs []*Job)
		// Are reports which of the targets are fleets, and what records keep of the shadows of their stored
		// specs; the errors are by target, nil for none.
		Are(ctx context.Context, keys []store.Key) (are []bool, beside [][]byte, errs []error)
	}
	Metrics *metrics
	Log     *zap.Logger
	Options *Options
	// Decisions is the log for people. No decision depends on it.
	Decisions *decisionlog.Log
	// Forecasts keep the past of targets with a forecast; nil: the store can't.
	Forecasts *forecasts.Rings
	// Recordings keeps what targets are asked; nil: nothing does.
	Recordings *recordings.Recordings
	// wentBack counts the histories that were older in the store than here, or missing, as pasts of forecasts. missing are those of which the next
	// check of the store asks whether they were deleted, with their Since.
	wentBack  atomic.Uint64
	missingMu sync.Mutex
	missing   map[store.Key]int64 // guarded by missingMu
	// life ends when a stop waits no longer.
	life context.Context
}

// Recommend runs one job to its end.
func (t *Targets) Recommend(ctx context.Context, j *Job) {
	if j.done() {
		return
	}
	if j.Fleet != nil {
		t.askFleet(ctx, j)
		return
	}
	if j.targets, j.ctx = t, ctx; j.room == nil {
		j.room = new(room)
	}
	if j.foresees() {
		t.lookBack(ctx, j)
	}
	if t.outage.has(j.Key) {
		if err := t.outage.writeBack(ctx, j.Key); err != nil {
			j.withoutStore(ctx, err)
			return
		}
	}
	to := ofGet.Get().(*recordBuffer)
	record, guessed := t.cachedRecord(to, j)
	t.change(ctx, j.Key, j, record, guessed)
	to.empty()
	ofGet.Put(to)
}

// cachedRecord returns the cached record of a job, and whether there is one. A job that records
// nothing reads the store, because no swap would verify the cached version.
func (t *Targets) cachedRecord(to *recordBuffer, j *Job) (store.Record, bool) {
	if j.DryRun {
		return store.Record{}, false
	}
	record, ok := t.cache.appendGet(to, j.Key)
	if ok {
		t.Metrics.cacheHits.Inc()
	} else {
		t.Metrics.cacheMisses.Inc()
	}
	return record, ok
}

// detach returns a context for work that must finish even if the caller hangs up: it ends with
// its own timeout, or when a stop waits no longer.
func (t *Targets) detach(ctx context.Context) *detached {
	d := &detached{values: ctx}
	d.Begin(t.life, time.Now().Add(t.Options.RequestTimeout), nil)
	return d
}

// detached is a context with the values of another one.
type detached struct {
	deadline.Context
	values context.Context
}

// Value implements context.Context. Package context uses it to find a context's
// ancestors.
func (d *detached) Value(key any) any {
	if v := d.Context.Value(key); v != nil {
		return v
	}
	return d.values.Value(key)
}

// New returns the targets of a store. From then on the options' clock follows the engine's. ready gets
// whether calls may be sent to this instance. life ends when a stop waits no longer. Set Decisions and
// Shares before the first call.
func New(engine store.Store, options *Options, ready func(bool), life context.Context) *Targets {
	clock := newClock(engine, options)
	options.Clock = clock.now
	observed := observe(engine, newMetrics(options), options.Log)
	observed.tracing = options.Tracing
	t := &Targets{
		store: observed, cache: newCache(options.CacheBytes), Metrics: observed.metrics,
		Log: options.Log, Options: options, life: life, clock: clock, missing: map[store.Key]int64{},
	}
	t.deletions, _ = engine.(store.Deletions)
	t.chunks, _ = engine.(store.Chunks)
	t.outage = newOutage(t)
	t.Watch = newStoreWatch(t, ready, engine)
	observed.failed = t.Watch.failed
	return t
}

// askFleet lets the fleet of jobs, one for all of them, answer.
func (t *Targets) askFleet(ctx context.Context, jobs ...*Job) {
	if t.Fleets == nil {
		for _, j := range jobs {
			j.Err = status.Error(codes.Unimplemented, "this server's store keeps no fleets")
		}
		return
	}
	t.Fleets.Call(ctx, jobs)
}

// Detach returns a context for a swap in progress, which must finish even if the caller hangs up.
func (t *Targets) Detach(ctx context.Context) (own context.Context, cancel context.CancelFunc) {
	d := t.detach(ctx)
	return d, d.Cancel
}

// WrongClock returns why this instance decides nothing, because its clock is wrong; nil: it decides.
func (t *Targets) WrongClock() error { return t.clock.problem() }

// InForce returns the overrides in force of a target, for a decision of that instant, and by what time that is;
// timed reports whether the request sets the instant. Where nobody knows whether there are any it fails.
func (t *Targets) InForce(ctx context.Context, key store.Key, now time.Time, timed bool) (inForce []stages.Override, at time.Time, err error) {
	if t.Overrides == nil {
		return nil, now, nil
	}
	all, known := t.Overrides.For(ctx, key)
	if !known {
		return nil, now, t.Overrides.Problem(key.Cluster)
	}
	if !timed { // they begin and end at the same instant on all instances
		now = t.clock.ofStore(now)
	}
	return stages.InForce(all, now), now, nil
}

// Deleted returns what stages.Around.Deleted is for a target.
func (t *Targets) Deleted(key store.Key) func(stages.Level, string, time.Time) (string, time.Time, bool) {
	if t.Overrides == nil {
		return nil
	}
	return func(level stages.Level, id string, created time.Time) (string, time.Time, bool) {
		return t.Overrides.Deleted(key, level, id, created)
	}
}

// Conflicted counts a decision that is repeated because another caller was faster.
func (t *Targets) Conflicted() { t.Metrics.conflicts.Inc() }

// StoreTime is the time by the clock of the store, which all instances share; without one it is the time of decisions.
func (t *Targets) StoreTime() time.Time { return t.clock.ofStore(t.clock.now()) }

// Store is the store, whose operations are timed, counted and traced.
func (t *Targets) Store() store.Store { return t.store }

// Collectors returns the metrics.
func (t *Targets) Collectors() []prometheus.Collector {
	return append(t.Metrics.collectors(t), t.clock.skew, t.clock.future)
}

// Finish writes the unwritten histories, after the last call, in what time the drain has left, and frees memory.
func (t *Targets) Finish(drain context.Context) {
	t.outage.finish(drain)
	t.cache.close()
}
