package decision

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"github.com/setpoint-dev/setpoint/server/shares"
	"github.com/setpoint-dev/setpoint/stages"
	"github.com/setpoint-dev/setpoint/stages/forecast"
	"github.com/setpoint-dev/setpoint/store"
)

const (
	// mostOutlooks limits the targets whose outlook is in memory, some 400 bytes each. Others cost a read a decision.
	mostOutlooks = 100_000
	// mostClosed limits the buckets that wait to be written, and closedAtOnce how many are written in one round trip.
	mostClosed, closedAtOnce = 8192, 256
	// maxRingSwaps limits the attempts to write a ring while other instances do.
	maxRingSwaps = 4
	// pastTimeout limits how long decisions wait for the past of their targets, and pastAgain is how long they do not,
	// after it could not be read.
	pastTimeout, pastAgain = time.Second, 5 * time.Second
	// ringTimeout limits one write, and ringFlushTime how long a stop writes what is not yet written.
	ringTimeout, ringFlushTime = 10 * time.Second, 5 * time.Second
)

// Forecasts keeps what targets with a forecast needed in the last weeks, a record for each, which a decision reads once
// in a quarter of an hour. It is written in the background, when a decision has closed a quarter of an hour. Of two
// instances that write the same record the second one adds to what the first one wrote: by compare-and-swap, and of two
// values of the same quarter the larger one stays. No decision fails for it. Nil keeps nothing.
type Forecasts struct {
	targets *Targets
	records store.PartStore
	shares  *shares.Shares

	mu       sync.Mutex
	outlooks map[store.Key]outlook
	// notBefore is when the store is asked again after it could not answer.
	notBefore time.Time

	closed  chan closedBucket
	stop    func() // ends run, once
	ends    chan struct{}
	stopped chan struct{}
	dropped prometheus.Counter
}

// outlook is what a ring says in one bucket, by these settings and that basis.
type outlook struct {
	bucket   int64
	basis    uint32
	settings forecast.Settings
	forecast.Outlook
}

// closedBucket is to be added to a target's ring. With done it is none: it tells when those before it are written.
type closedBucket struct {
	key    store.Key
	bucket forecast.Closed
	basis  forecast.Basis
	season forecast.Season
	bounds shares.Bounds
	done   chan struct{}
}

// NewForecasts returns the forecasts of targets, limited by cluster like their records; nil if the engine keeps no
// parts. Close stops it.
func NewForecasts(t *Targets, engine store.Store) (*Forecasts, error) {
	parts, ok := engine.(store.Parts)
	if !ok {
		return nil, nil
	}
	counted, err := parts.Part(store.Forecasts, t.Options.HistoryTTL)
	if err != nil {
		return nil, err
	}
	records, err := t.store.(store.Parts).Part(store.Forecasts, t.Options.HistoryTTL)
	if err != nil {
		return nil, err
	}
	f := &Forecasts{
		targets: t, records: records, shares: shares.New(counted, t.Options.Shares(), nil), outlooks: make(map[store.Key]outlook),
		closed: make(chan closedBucket, mostClosed), ends: make(chan struct{}), stopped: make(chan struct{}), dropped: newLostBuckets(),
	}
	f.stop = sync.OnceFunc(func() { close(f.ends) })
	go f.run()
	return f, nil
}

func newLostBuckets() prometheus.Counter {
	return prometheus.NewCounter(prometheus.CounterOpts{
		Name: "setpoint_forecast_lost_buckets_total", Help: "Quarters of an hour of targets with a forecast that were not written to the store, and so count as missing.",
	})
}

// Collectors returns its metrics, which exist without forecasts, too.
func (f *Forecasts) Collectors() []prometheus.Collector {
	if f == nil {
		return []prometheus.Collector{newLostBuckets()}
	}
	return []prometheus.Collector{f.dropped}
}

// foresees reports whether a decision has a forecast.
func (j *Job) foresees() bool { return j.Around.Plan != nil && j.Around.Plan.Forecast != nil }

// lookBack gives the jobs that have a forecast the past of their targets, those that are not in memory by one round trip.
func (t *Targets) lookBack(ctx context.Context, jobs ...*Job) {
	var unknown []*Job
	for _, j := range jobs {
		if !j.foresees() || j.done() {
			continue
		}
		j.Around.Past = &stages.Past{Basis: j.Around.Plan.Forecast.Basis.For(j.Owner.Incarnation)}
		if t.Forecasts == nil {
			j.Around.Past.Problem = "this server's store keeps no past of targets"
		} else if !t.Forecasts.remember(j, true) {
			unknown = append(unknown, j)
		}
	}
	if len(unknown) > 0 {
		t.Forecasts.load(ctx, unknown)
	}
}

// remember gives a job the outlook that is in memory, and reports whether it did. An exact one is of the job's own
// quarter of an hour.
func (f *Forecasts) remember(j *Job, exact bool) bool {
	bucket, past, of := forecast.BucketOf(j.Now), j.Around.Past, j.Around.Plan.Forecast
	f.mu.Lock()
	defer f.mu.Unlock()
	o, ok := f.outlooks[j.Key]
	if !ok || exact && o.bucket != bucket || !o.Covers(bucket) || o.basis != past.Basis.Hash() || !o.settings.Same(&of.Settings) {
		return false
	}
	past.Outlook = o.Outlook
	return true
}

// load reads the rings of jobs. Where that fails, an older outlook counts, or none.
func (f *Forecasts) load(ctx context.Context, jobs []*Job) {
	const away = "the store does not answer"
	fail := func(j *Job, why string) {
		if !f.remember(j, false) {
			j.Around.Past.Problem = why
		}
	}
	f.mu.Lock()
	waits := f.targets.Options.Clock().Before(f.notBefore)
	f.mu.Unlock()
	if waits || f.targets.Watch.Away.Load() {
		for _, j := range jobs {
			fail(j, away)
		}
		return
	}
	keys := make([]store.Key, len(jobs))
	for i, j := range jobs {
		keys[i] = j.Key
	}
	ctx, cancel := context.WithTimeout(ctx, pastTimeout)
	defer cancel()
	records, err := f.records.LoadBatch(ctx, keys)
	errs := ByItem(err, len(keys), len(records))
	for i, j := range jobs {
		if errs != nil && errs[i] != nil && !errors.Is(errs[i], store.ErrUnreadable) {
			f.mu.Lock()
			f.notBefore = f.targets.Options.Clock().Add(pastAgain)
			f.mu.Unlock()
			fail(j, away)
			continue
		}
		var ring *forecast.Ring
		if errs == nil || errs[i] == nil {
			ring, err = forecast.Decode(records[i].Value)
		} else {
			err = errs[i]
		}
		if err != nil {
			fail(j, "what is stored of its past can't be read: "+err.Error())
			continue
		}
		past, of := j.Around.Past, j.Around.Plan.Forecast
		ring.Rebase(&past.Basis)
		o := outlook{bucket: forecast.BucketOf(j.Now), basis: past.Basis.Hash(), settings: of.Settings}
		o.Outlook = ring.Outlook(&of.Settings, o.bucket)
		past.Outlook = o.Outlook
		f.keep(j.Key, o)
	}
}

// keep keeps an outlook in memory, in place of any other one if there are too many.
func (f *Forecasts) keep(key store.Key, o outlook) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if _, known := f.outlooks[key]; !known && len(f.outlooks) >= mostOutlooks {
		for other := range f.outlooks {
			delete(f.outlooks, other)
			break
		}
	}
	f.outlooks[key] = o
}

// closeBucket queues the bucket that a recorded decision closed.
func (j *Job) closeBucket() {
	past, f := j.Around.Past, j.targets.Forecasts
	if past == nil || !past.HasClosed || j.DryRun || f == nil {
		return
	}
	select {
	case f.closed <- closedBucket{key: j.Key, bucket: past.Closed, basis: past.Basis, season: j.Around.Plan.Forecast.Season, bounds: j.Bounds}:
	default:
		f.dropped.Inc()
	}
}

// run writes what is queued, at the end all of it.
func (f *Forecasts) run() {
	defer close(f.stopped)
	for {
		select {
		case c := <-f.closed:
			f.writeFrom(c)
			continue
		case <-f.ends:
		}
		select {
		case c := <-f.closed:
			f.writeFrom(c)
		default:
			return
		}
	}
}

// writeFrom writes a bucket, with those that are queued after it.
func (f *Forecasts) writeFrom(c closedBucket) {
	batch := append(make([]closedBucket, 0, closedAtOnce), c)
	for len(batch) < closedAtOnce {
		select {
		case c := <-f.closed:
			batch = append(batch, c)
			continue
		default:
		}
		break
	}
	f.write(batch)
}

// ringOf is a ring to write.
type ringOf struct {
	closedBucket
	more []closedBucket // of the same target
	old  store.Record
	room store.Usage
}

// write adds buckets to their rings.
func (f *Forecasts) write(batch []closedBucket) {
	ctx, cancel := context.WithTimeout(f.targets.life, ringTimeout)
	defer cancel()
	byKey := make(map[store.Key]*ringOf, len(batch))
	var rings []*ringOf
	var keys []store.Key
	for _, c := range batch {
		switch r := byKey[c.key]; {
		case c.done != nil:
			defer close(c.done)
		case r != nil:
			r.more = append(r.more, c)
		default:
			r = &ringOf{closedBucket: c}
			byKey[c.key] = r
			rings, keys = append(rings, r), append(keys, c.key)
		}
	}
	if len(rings) == 0 {
		return
	}
	records, err := f.records.LoadBatch(ctx, keys)
	errs := ByItem(err, len(keys), len(records))
	left := rings[:0]
	for i, r := range rings {
		if errs != nil && errs[i] != nil {
			f.lose(r, errs[i])
			continue
		}
		r.old = records[i]
		left = append(left, r)
	}
	for range maxRingSwaps {
		if left = f.swap(ctx, left); len(left) == 0 {
			return
		}
	}
	for _, r := range left {
		f.lose(r, store.ErrContended)
	}
}

// lose counts buckets that are not written.
func (f *Forecasts) lose(r *ringOf, err error) {
	f.dropped.Add(float64(1 + len(r.more)))
	f.targets.Log.Debug("what a target with a forecast needed is not written", zap.Stringer("target", r.key), zap.Error(err))
}

// value returns the ring's record with the buckets.
func (r *ringOf) value() ([]byte, error) {
	ring, err := forecast.Decode(r.old.Value)
	switch {
	case errors.Is(err, forecast.ErrCorrupt):
		ring = &forecast.Ring{}
	case err != nil: // a newer version's: that one adds to it
		return nil, err
	}
	ring.Add(r.bucket, &r.basis, r.season)
	for i := range r.more {
		ring.Add(r.more[i].bucket, &r.more[i].basis, r.more[i].season)
	}
	return ring.Append(nil), nil
}

// swap tries to write rings, and returns those that others were in the way of.
func (f *Forecasts) swap(ctx context.Context, rings []*ringOf) (left []*ringOf) {
	var swaps []store.Swap
	var swapping []*ringOf
	for _, r := range rings {
		value, err := r.value()
		if err == nil {
			if r.room = (store.Usage{Bytes: max(0, int64(len(value)-len(r.old.Value)))}); !r.old.Exists() {
				r.room.Keys = 1
			}
			err = f.shares.Place(ctx, r.key.Cluster, r.room, r.bounds)
		}
		if err != nil {
			f.lose(r, err)
			continue
		}
		swaps, swapping = append(swaps, store.Swap{Key: r.key, Old: r.old.Version, Value: value}), append(swapping, r)
	}
	if len(swaps) == 0 {
		return nil
	}
	results, err := f.records.CompareAndSwapBatch(ctx, swaps)
	errs := ByItem(err, len(swaps), len(results))
	for i, r := range swapping {
		failed := errs != nil && errs[i] != nil
		f.shares.Settle(r.key.Cluster, r.room, failed || results[i].Swapped)
		switch {
		case failed:
			f.lose(r, errs[i])
		case !results[i].Swapped:
			r.old = results[i].Record
			left = append(left, r)
		}
	}
	return left
}

// flush waits until what is queued is written.
func (f *Forecasts) flush(ctx context.Context) error {
	done := make(chan struct{})
	select {
	case f.closed <- closedBucket{done: done}:
	case <-ctx.Done():
		return ctx.Err()
	}
	select {
	case <-done:
	case <-f.stopped:
	case <-ctx.Done():
		return ctx.Err()
	}
	return nil
}

// delete deletes a target's ring.
func (f *Forecasts) delete(ctx context.Context, key store.Key) error {
	if f == nil {
		return nil
	}
	f.mu.Lock()
	_, known := f.outlooks[key]
	delete(f.outlooks, key)
	f.mu.Unlock()
	if known { // this instance may have queued some
		if err := f.flush(ctx); err != nil {
			return err
		}
	}
	existed, err := f.records.Delete(ctx, key)
	if existed {
		f.shares.Leave(key.Cluster)
	}
	return err
}

// Close writes what is queued, for some seconds at most. No decision may be made any more.
func (f *Forecasts) Close() {
	if f == nil {
		return
	}
	f.stop()
	timer := time.NewTimer(ringFlushTime)
	defer timer.Stop()
	select {
	case <-f.stopped:
	case <-timer.C:
	}
}
