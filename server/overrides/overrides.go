package overrides

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"github.com/setpoint-dev/setpoint/internal/target"
	"github.com/setpoint-dev/setpoint/stages"
	"github.com/setpoint-dev/setpoint/store"
)

const (
	// period is the time between two reads of the cached clusters.
	period = time.Second
	// patience is how long a decision waits for overrides, at most, and how long none on that cluster does after a
	// read that took that long in vain. Versions get a part of it, for a shard that does not respond must leave the
	// others time to be read. See store.Patience.
	usualPatience, usualVersionPatience = time.Second, 600 * time.Millisecond
	// staleAfter is from which age on what was read is read again before a decision: the process was stopped, or
	// the store away.
	staleAfter = 2 * period
	// triesShare is for how many times as long as a read took in vain no decision waits for another one.
	triesShare = 10
	// readAtOnce limits the clusters whose versions are read in one round trip, and loadedAtOnce those whose lists
	// are, which may be MostBytes each.
	readAtOnce, loadedAtOnce = 256, 16
	// idlePeriods is after how many periods without a decision a cluster without overrides leaves the cache.
	idlePeriods = 600
	// emptyPeriods is after how many periods an empty record that no longer says who deleted what is deleted: until then
	// it tells the instances that its overrides were deleted, and not lost.
	emptyPeriods = 600
	// mostLost limits the names of overrides in a line of the log about lost data.
	mostLost = 20
	// mostTold limits the lines of the log about lists that can't be read.
	mostTold = 20
)

// Options are the settings of Overrides.
type Options struct {
	// Clock tells the time by which overrides begin and end, that of the store. Nil: time.Now.
	Clock func() time.Time
	// Log may be nil.
	Log *zap.Logger
	// Life ends when a stop waits no longer. Nil: never.
	Life context.Context
}

// Overrides are the overrides of all clusters. It is safe for concurrent use.
type Overrides struct {
	records store.PartStore
	clock   func() time.Time
	log     *zap.Logger
	life    context.Context
	cache   cache
	losses  *prometheus.CounterVec
	// patience and versionPatience are the usual ones for this store.
	patience, versionPatience time.Duration
	// logged reports whether the log has that reads fail. told are clusters whose list it has named as unreadable since.
	logged atomic.Bool
	toldMu sync.Mutex
	told   map[string]bool // guarded by toldMu
	// queues are the changes that wait.
	queues queues
	// refused are records of which changes were refused.
	refused refused
}

// New returns the overrides in an engine.
func New(engine store.Engine, o Options) (*Overrides, error) {
	records, err := engine.Part(store.Overrides, Kept)
	if err != nil {
		return nil, err
	}
	if o.Clock == nil {
		o.Clock = time.Now
	}
	o.Log = cmp.Or(o.Log, zap.NewNop())
	if o.Life == nil {
		o.Life = context.Background()
	}
	return &Overrides{records: records, clock: o.Clock, log: o.Log, life: o.Life, cache: newCache(), losses: newLosses(),
		patience: store.Patience(engine, usualPatience), versionPatience: store.Patience(engine, usualVersionPatience),
		told: map[string]bool{}, queues: queues{of: map[string]*queue{}}, refused: refused{of: map[string]store.Record{}}}, nil
}

// For returns the overrides for a target that may be in force, in no order; the caller must not change them.
// known is false where they have never been read. It waits no longer than the context.
func (o *Overrides) For(ctx context.Context, key store.Key) (all []stages.Override, known bool) {
	c := o.cache.get(key.Cluster)
	if c.due(time.Now()) {
		o.await(ctx, []*cluster{c})
	}
	return c.of(key)
}

// Known is For right after Due or Await said that the cluster is not due: it waits for nothing.
func (o *Overrides) Known(key store.Key) (all []stages.Override, known bool) {
	return o.cache.get(key.Cluster).of(key)
}

// Problem is why For knows nothing of a cluster: an error of the store, or the answer for whoever asked for a decision there.
func (o *Overrides) Problem(cluster string) error {
	problem := store.ErrUnavailable // or the read has not ended
	if c := o.cache.find(cluster); c != nil {
		if failure := c.failure.Load(); failure != nil {
			problem = *failure
		}
	}
	if list := new(UnreadableError); errors.As(problem, &list) {
		return list.answer()
	}
	return fmt.Errorf("the overrides of cluster %q can't be read: %w", cluster, problem)
}

// Deleted says who deleted an override of a target, its namespace or its cluster that was created at an instant, and
// when; known is false if it was not deleted, or not lately.
func (o *Overrides) Deleted(key store.Key, level stages.Level, id string, created time.Time) (by string, at time.Time, known bool) {
	c := o.cache.find(key.Cluster)
	if c == nil {
		return "", time.Time{}, false
	}
	k := c.known.Load()
	if k == nil {
		return "", time.Time{}, false
	}
	place := target.Place{Cluster: key.Cluster}
	if level > stages.OfCluster {
		place.Namespace = key.Namespace
	}
	if level == stages.OfTarget {
		place.Target = key.Target
	}
	d := k.deletedAs(place.Override(id), created)
	if d == nil {
		return "", time.Time{}, false
	}
	return d.GetBy(), d.GetDeleteTime().AsTime(), true
}

// Due reports whether a decision on a cluster waits for its overrides.
func (o *Overrides) Due(name string) bool { return o.cache.get(name).due(time.Now()) }

// Await waits for the overrides of clusters that are due, all together no longer than For does for one. A batch
// calls it before its decisions, which would wait one after the other.
func (o *Overrides) Await(ctx context.Context, names []string) {
	some := make([]*cluster, len(names))
	for i, name := range names {
		some[i] = o.cache.get(name)
	}
	o.await(ctx, some)
}

// await reads those clusters that nobody reads, and waits for all, until the context ends. After a read that failed no
// decision on that cluster waits for a while.
func (o *Overrides) await(ctx context.Context, some []*cluster) {
	began := time.Now()
	var mine []*cluster
	var reads []<-chan struct{}
	done := make(chan struct{})
	for _, c := range some {
		switch reading := c.beginWait(done); reading {
		case nil:
			mine = append(mine, c)
		case done: // named twice
		default:
			reads = append(reads, reading)
		}
	}
	if mine != nil {
		reads = append(reads, done)
		go func() {
			o.read(o.life, mine)
			for _, c := range mine {
				c.endWait()
			}
			close(done)
		}()
	}
	timer := time.NewTimer(o.patience)
	defer timer.Stop()
	for _, read := range reads {
		select {
		case <-read:
			continue
		case <-ctx.Done(): // which says nothing of the read, for which others wait
			return
		case <-timer.C:
		}
		break
	}
	now := time.Now()
	for _, c := range some {
		if !c.fresh(now) {
			c.skip.Store(now.Add(min(o.patience, triesShare*now.Sub(began))).UnixNano())
		}
	}
}

// reading is a read of a cluster.
type reading struct {
	*cluster
	key store.Key
	// number is which of the cluster's reads it is.
	number int
	began  time.Time
}

// read reads clusters within patience, and tells whether that succeeded: their versions, and the lists of those
// that have changed. A single one that is unknown is read at once.
func (o *Overrides) read(ctx context.Context, some []*cluster) (ok bool) {
	ctx, cancel := context.WithTimeout(ctx, o.patience)
	defer cancel()
	all, now := make([]reading, len(some)), time.Now()
	for i, c := range some {
		c.mu.Lock()
		c.reads++
		all[i] = reading{c, keyOf(c.name), c.reads, now}
		c.mu.Unlock()
	}
	ok = true
	if len(all) > 1 || all[0].known.Load() != nil {
		all, ok = o.changedOf(ctx, all)
	}
	for part := range slices.Chunk(all, loadedAtOnce) {
		ok = o.load(ctx, part) && ok
	}
	return ok
}

// changedOf returns those whose records are others than the known ones.
func (o *Overrides) changedOf(ctx context.Context, all []reading) (changed []reading, ok bool) {
	ctx, cancel := context.WithTimeout(ctx, o.versionPatience)
	defer cancel()
	var versions []store.Version
	err := o.each(all, func(keys []store.Key) (err error) {
		versions, err = o.records.LoadVersions(ctx, keys)
		return err
	}, func(i int, r reading) error {
		switch k := r.known.Load(); {
		case k == nil && versions[i] == "":
			r.learn(noOverrides)
		case k != nil && k.version == versions[i]:
			r.confirm()
		default:
			changed = append(changed, r)
		}
		return nil
	})
	return changed, err == nil
}

// load loads the lists of clusters.
func (o *Overrides) load(ctx context.Context, some []reading) (ok bool) {
	now := o.clock()
	var records []store.Record
	var lost, back []string
	err := o.each(some, func(keys []store.Key) (err error) {
		records, err = o.records.LoadBatch(ctx, keys)
		return err
	}, func(i int, r reading) error {
		next, err := read(r.name, records[i], now)
		if err != nil {
			return err
		}
		before := r.readAt.Load()
		// After a long time without a read the list no longer says what was deleted.
		asleep := before != 0 && records[i].Exists() && r.began.UnixNano()-before >= int64(deletedFor)
		if old := r.learn(next); old != nil && !asleep {
			lost, back = append(lost, old.lostIn(next, now)...), append(back, old.backIn(next)...)
		}
		o.cache.trim(r.cluster)
		return nil
	})
	o.lost(lost)
	o.wentBack("deletion", "overrides that were deleted are in the store again: it has lost data; they count again, so delete them again where they are not wanted", back)
	return err == nil
}

// lost records that overrides have vanished, with their record, which a deletion leaves, or out of it.
func (o *Overrides) lost(names []string) {
	o.wentBack("override", "overrides are gone from the store before their end, which nobody deleted: it has lost data; they are no longer in force, so create them again where they are needed", names)
}

// wentBack records what a store that has lost data did to overrides, if any: lost is a value of that label.
func (o *Overrides) wentBack(lost, message string, names []string) {
	if len(names) == 0 {
		return
	}
	o.losses.WithLabelValues(lost).Add(float64(len(names)))
	slices.Sort(names)
	o.log.Warn(message, zap.Int("count", len(names)), zap.Strings("overrides", names[:min(len(names), mostLost)]))
}

// each makes one call for all of them, and then do for each that did not fail. It returns an error if any failed.
func (o *Overrides) each(all []reading, call func([]store.Key) error, do func(int, reading) error) error {
	keys := make([]store.Key, len(all))
	for i, r := range all {
		keys[i] = r.key
	}
	err := call(keys)
	var each store.BatchError
	if err != nil && !errors.As(err, &each) {
		each = slices.Repeat(store.BatchError{err}, len(all))
	}
	for i, r := range all {
		var problem error
		if each != nil {
			problem = each[i]
		}
		if problem == nil {
			problem = do(i, r)
		}
		if problem == nil {
			r.failure.Store(nil)
			continue
		}
		problem = unreadable(r.name, problem)
		r.failure.Store(&problem)
		o.failing(problem)
		err = problem
	}
	return err
}

// failing records a failed read. What is known stays in force.
func (o *Overrides) failing(err error) {
	if errors.Is(err, context.Canceled) || o.life.Err() != nil {
		return // the server stops
	}
	first := !o.logged.Swap(true)
	if list := new(UnreadableError); errors.As(err, &list) { // among those that can be read
		o.toldMu.Lock()
		first = !o.told[list.Cluster] && len(o.told) < mostTold
		if first {
			o.told[list.Cluster] = true
		}
		o.toldMu.Unlock()
	}
	if first {
		o.log.Warn("overrides can't be read: those that are known stay in force until they expire, and clusters of which none are known are not decided", zap.Error(err))
	}
}

// changed is called after this instance has changed a cluster's overrides: its decisions take it into account at once.
// It has happened, even if the caller is gone meanwhile. The cluster is read from now on even if this instance has decided
// nothing there, so that somebody warns if the store loses what was acknowledged.
func (o *Overrides) changed(name string) {
	c := o.cache.get(name)
	c.mu.Lock()
	c.least = c.reads + 1
	c.readAt.Store(0) // if the read below fails, the next decision reads again
	c.mu.Unlock()
	o.read(o.life, []*cluster{c})
}

// Run reads the cached clusters once a period, until the context ends.
func (o *Overrides) Run(ctx context.Context) {
	ticker := time.NewTicker(period)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			o.refresh(ctx)
		}
	}
}

// refresh reads the cached clusters, and drops those that nobody asks about. Those whose last read failed are read
// apart, so that a shard that does not respond does not delay the others.
func (o *Overrides) refresh(ctx context.Context) {
	now := o.clock()
	var well, ill []*cluster
	var empty []store.Swap
	for _, c := range o.cache.all() {
		if c.idle++; c.used.Swap(false) {
			c.idle = 0
		}
		k := c.known.Load()
		if k != nil {
			c.known.CompareAndSwap(k, k.without(now))
		}
		if c.empty++; k == nil || k.version == "" || !k.ends.IsZero() || slices.ContainsFunc(k.deleted, lately(now)) {
			c.empty = 0
		}
		if c.empty > emptyPeriods && len(empty) < loadedAtOnce {
			empty = append(empty, store.Swap{Key: keyOf(c.name), Old: k.version}) // known may be another list soon
		}
		switch {
		case c.idle > idlePeriods && (k == nil || k.version == "") && o.cache.drop(c):
		case c.failure.Load() != nil:
			ill = append(ill, c)
		default:
			well = append(well, c)
		}
	}
	var apart sync.WaitGroup
	illOK := true
	if ill != nil {
		apart.Go(func() { illOK = o.readAll(ctx, ill) })
	}
	if empty != nil {
		apart.Go(func() { o.tidy(ctx, empty) })
	}
	ok := o.readAll(ctx, well)
	if apart.Wait(); ok && illOK && o.logged.Swap(false) {
		o.toldMu.Lock()
		clear(o.told)
		o.toldMu.Unlock()
		o.log.Info("overrides read again")
	}
}

// readAll reads clusters, some in each round trip.
func (o *Overrides) readAll(ctx context.Context, all []*cluster) (ok bool) {
	ok = true
	for some := range slices.Chunk(all, readAtOnce) {
		ok = o.read(ctx, some) && ok
	}
	return ok
}

// tidy deletes empty records, of their old versions, within patience. One that can't be deleted stays until the next period.
func (o *Overrides) tidy(ctx context.Context, empty []store.Swap) {
	ctx, cancel := context.WithTimeout(ctx, o.patience)
	defer cancel()
	for _, one := range empty {
		if _, err := o.records.DeleteVersion(ctx, one.Key, one.Old); err != nil {
			return
		}
	}
}

// inForce calls do for each known override in force.
func (o *Overrides) inForce(now time.Time, do func(*stages.Override)) {
	for _, c := range o.cache.all() {
		if k := c.known.Load(); k != nil {
			k.each(func(one *stages.Override) {
				if one.InForce(now) {
					do(one)
				}
			})
		}
	}
}
