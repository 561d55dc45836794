package forecasts

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
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
	// after it could not be read. See store.Patience.
	pastTimeout, pastAgain = time.Second, 5 * time.Second
	// ringTimeout limits one write, and ringFlushTime how long a stop writes what is not yet written.
	ringTimeout, ringFlushTime = 10 * time.Second, 5 * time.Second
)

// Rings are what targets with a forecast needed in the last weeks, a record for each, which a decision reads once
// in a quarter of an hour. It is written in the background, when a decision has closed a quarter of an hour. Of two
// instances that write the same record the second one adds to what the first one wrote: by compare-and-swap, and of two
// values of the same quarter the larger one stays. No decision fails for it. Nil keeps nothing.
type Rings struct {
	records store.PartStore
	shares  *shares.Shares
	options Options
	// patience limits how long decisions wait.
	patience time.Duration

	mu       sync.Mutex
	outlooks map[store.Key]outlook
	// notBefore is when the store is asked again after it could not answer.
	notBefore time.Time

	closed  chan closedBucket
	stop    func() // ends run, once
	ends    chan struct{}
	stopped chan struct{}
	// life ends when a stop waits no longer.
	life    context.Context
	die     context.CancelFunc
	dropped prometheus.Counter
}

// Options configure Rings.
type Options struct {
	// Shares limit clusters like those of their records, and have the clock and the log.
	Shares shares.Options
	// Away reports that the store does not answer.
	Away *atomic.Bool
	// Missed is called with a target whose past is missing that was there at that time of the clock, and counted for days to
	// come: the store has lost it, or somebody deleted the target. Nil: nobody cares.
	Missed func(key store.Key, read time.Time)
}

// outlook is what a ring says in one bucket, by these settings and that basis.
type outlook struct {
	bucket   int64
	basis    uint32
	settings forecast.Settings
	// read is when the past was read, in nanoseconds since the Unix epoch; 0: there was none, or one that may have expired since.
	read int64
	forecast.Outlook
}

// expiringAfter is how many buckets without a new value the past of a target may expire: half of those that it is kept for.
const expiringAfter = int64(14 * 24 * time.Hour / forecast.Length)

// Closed is a quarter of an hour of a target that is over, to be added to its ring.
type Closed struct {
	Key    store.Key
	Bucket forecast.Closed
	Basis  forecast.Basis
	Season forecast.Season
	Bounds shares.Bounds
}

// closedBucket is one that waits. With done it is none: it tells when those before it are written.
type closedBucket struct {
	Closed
	done chan struct{}
}

// New returns the rings in records; counted are the same records for the counts of shares. Close stops it.
func New(records, counted store.PartStore, options Options) *Rings {
	f := &Rings{
		records: records, shares: shares.New(counted, options.Shares, nil), options: options, outlooks: make(map[store.Key]outlook),
		patience: store.Patience(counted, pastTimeout),
		closed:   make(chan closedBucket, mostClosed), ends: make(chan struct{}), stopped: make(chan struct{}), dropped: newLostBuckets(),
	}
	f.life, f.die = context.WithCancel(context.Background())
	f.stop = sync.OnceFunc(func() { close(f.ends) })
	go f.run()
	return f
}

func newLostBuckets() prometheus.Counter {
	return prometheus.NewCounter(prometheus.CounterOpts{
		Name: "setpoint_forecast_lost_buckets_total", Help: "Quarters of an hour of targets with a forecast that were not written to the store, and so count as missing.",
	})
}

// Collectors returns its metrics, which exist without forecasts, too.
func (f *Rings) Collectors() []prometheus.Collector {
	if f == nil {
		return []prometheus.Collector{newLostBuckets()}
	}
	return []prometheus.Collector{f.dropped}
}

// Asked is a target with a forecast whose past a decision needs, at the instant of the decision. Past has its basis,
// and gets the outlook, or why there is none.
type Asked struct {
	Key  store.Key
	Now  time.Time
	Of   *stages.Forecast
	Past *stages.Past
}

// Recall gives targets their past; those that are not in memory are read by one round trip. Nil knows none.
func (f *Rings) Recall(ctx context.Context, all []Asked) {
	var unknown []*Asked
	for i := range all {
		if a := &all[i]; f == nil {
			a.Past.Problem = "this server's store keeps no past of targets"
		} else if !f.remember(a, true) {
			unknown = append(unknown, a)
		}
	}
	if len(unknown) > 0 {
		f.load(ctx, unknown)
	}
}

// remember gives a target the outlook that is in memory, and reports whether it did. An exact one is of the decision's own
// quarter of an hour.
func (f *Rings) remember(j *Asked, exact bool) bool {
	bucket, past, of := forecast.BucketOf(j.Now), j.Past, j.Of
	f.mu.Lock()
	defer f.mu.Unlock()
	o, ok := f.outlooks[j.Key]
	if !ok || exact && o.bucket != bucket || !o.Covers(bucket) || o.basis != past.Basis.Hash() || !o.settings.Same(&of.Settings) {
		return false
	}
	past.Outlook = o.Outlook
	return true
}

// load reads the rings of targets. Where that fails, an older outlook counts, or none.
func (f *Rings) load(ctx context.Context, all []*Asked) {
	const away = "the store does not answer"
	fail := func(j *Asked, why string) {
		if !f.remember(j, false) {
			j.Past.Problem = why
		}
	}
	f.mu.Lock()
	waits := f.options.Shares.Clock().Before(f.notBefore)
	f.mu.Unlock()
	if waits || f.options.Away.Load() {
		for _, j := range all {
			fail(j, away)
		}
		return
	}
	keys := make([]store.Key, len(all))
	for i, j := range all {
		keys[i] = j.Key
	}
	own, cancel := context.WithTimeout(ctx, f.patience)
	defer cancel()
	records, err := f.records.LoadBatch(own, keys)
	errs := store.ByItem(err, len(keys), len(records))
	for i, j := range all {
		if errs != nil && errs[i] != nil && !errors.Is(errs[i], store.ErrUnreadable) {
			if ctx.Err() == nil { // else only this caller waits no longer, and others' targets have their past
				f.mu.Lock()
				f.notBefore = f.options.Shares.Clock().Add(pastAgain)
				f.mu.Unlock()
			}
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
		past, of, now := j.Past, j.Of, f.options.Shares.Clock()
		o := outlook{bucket: forecast.BucketOf(j.Now), basis: past.Basis.Hash(), settings: of.Settings}
		if forecast.BucketOf(now)-ring.Newest() < expiringAfter {
			o.read = now.UnixNano()
		} else if !records[i].Exists() {
			f.missed(j.Key)
		}
		ring.Rebase(&past.Basis)
		o.Outlook = ring.Outlook(&of.Settings, o.bucket)
		past.Outlook = o.Outlook
		f.keep(j.Key, o)
	}
}

// missed tells of a past that is missing, if it was there when it was last read.
func (f *Rings) missed(key store.Key) {
	f.mu.Lock()
	read := f.outlooks[key].read
	f.mu.Unlock()
	if read != 0 && f.options.Missed != nil {
		f.options.Missed(key, time.Unix(0, read))
	}
}

// keep keeps an outlook in memory, in place of any other one if there are too many.
func (f *Rings) keep(key store.Key, o outlook) {
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

// Add queues a bucket that a recorded decision closed. Nil keeps nothing.
func (f *Rings) Add(c Closed) {
	if f == nil {
		return
	}
	select {
	case f.closed <- closedBucket{Closed: c}:
	default:
		f.dropped.Inc()
	}
}

// run writes what is queued, at the end all of it.
func (f *Rings) run() {
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
func (f *Rings) writeFrom(c closedBucket) {
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
func (f *Rings) write(batch []closedBucket) {
	ctx, cancel := context.WithTimeout(f.life, ringTimeout)
	defer cancel()
	byKey := make(map[store.Key]*ringOf, len(batch))
	var rings []*ringOf
	var keys []store.Key
	for _, c := range batch {
		switch r := byKey[c.Key]; {
		case c.done != nil:
			defer close(c.done)
		case r != nil:
			r.more = append(r.more, c)
		default:
			r = &ringOf{closedBucket: c}
			byKey[c.Key] = r
			rings, keys = append(rings, r), append(keys, c.Key)
		}
	}
	if len(rings) == 0 {
		return
	}
	records, err := f.records.LoadBatch(ctx, keys)
	errs := store.ByItem(err, len(keys), len(records))
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
		left = f.swap(ctx, left)
	}
	for _, r := range left {
		f.lose(r, store.ErrContended)
	}
}

// lose counts buckets that are not written.
func (f *Rings) lose(r *ringOf, err error) {
	f.dropped.Add(float64(1 + len(r.more)))
	f.options.Shares.Log.Debug("what a target with a forecast needed is not written", zap.Stringer("target", r.Key), zap.Error(err))
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
	ring.Add(r.Bucket, &r.Basis, r.Season)
	for i := range r.more {
		ring.Add(r.more[i].Bucket, &r.more[i].Basis, r.more[i].Season)
	}
	return ring.Append(nil), nil
}

// swap tries to write rings, and returns those that others were in the way of.
func (f *Rings) swap(ctx context.Context, rings []*ringOf) (left []*ringOf) {
	var swaps []store.Swap
	var swapping []*ringOf
	for _, r := range rings {
		value, err := r.value()
		if err == nil {
			if r.room = (store.Usage{Bytes: max(0, int64(len(value)-len(r.old.Value)))}); !r.old.Exists() {
				r.room.Keys = 1
			}
			err = f.shares.Place(ctx, r.Key.Cluster, r.room, r.Bounds)
		}
		if err != nil {
			f.lose(r, err)
			continue
		}
		swaps, swapping = append(swaps, store.Swap{Key: r.Key, Old: r.old.Version, Value: value}), append(swapping, r)
	}
	if len(swaps) == 0 {
		return nil
	}
	results, err := f.records.CompareAndSwapBatch(ctx, swaps)
	errs := store.ByItem(err, len(swaps), len(results))
	for i, r := range swapping {
		failed := errs != nil && errs[i] != nil
		f.shares.Settle(r.Key.Cluster, r.room, failed || results[i].Swapped)
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
func (f *Rings) flush(ctx context.Context) error {
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

// Delete deletes a target's ring.
func (f *Rings) Delete(ctx context.Context, key store.Key) error {
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
func (f *Rings) Close() {
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
	f.die()
}
