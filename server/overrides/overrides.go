package overrides

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/setpoint-dev/setpoint/stages"
	"github.com/setpoint-dev/setpoint/store"
)

const (
	// period is the time between two reads of the cached clusters.
	period = time.Second
	// patience is how long a decision waits for overrides, at most, and how long none does after a read that
	// took that long in vain.
	patience = time.Second
	// staleAfter is from which age on what was read is read again before a decision: the process was stopped, or
	// the store away.
	staleAfter = 2 * period
	// triesShare is for how many times as long as a read took in vain no decision waits for another one.
	triesShare = 10
	// mostCached limits the clusters in the cache, and readAtOnce those of one round trip.
	mostCached, readAtOnce = 4096, 256
	// idlePeriods is after how many periods without a decision a cluster without overrides leaves the cache.
	idlePeriods = 600
)

// Options are the settings of Overrides.
type Options struct {
	// Clock tells the time of decisions. Nil: time.Now.
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

	// clusters is the cache. The map does not change: a cluster is added to a copy of it, with mu held.
	clusters atomic.Pointer[map[string]*cluster]
	mu       sync.Mutex
	// skip is until when no decision waits, because a read has just failed; in nanoseconds since the Unix epoch.
	skip atomic.Int64
	// logged reports whether the log has that reads fail.
	logged atomic.Bool
}

// cluster is one of the cache.
type cluster struct {
	name string
	// known is nil until the store was read.
	known atomic.Pointer[known]
	// readAt is when the last read began that succeeded, in nanoseconds since the Unix epoch.
	readAt atomic.Int64
	// used reports whether there was a decision since the last period. idle is how many periods ago the last one
	// was; only Run has it.
	used atomic.Bool
	idle int

	mu sync.Mutex
	// changes counts what this instance has changed. A read that began before the last of them is of no use.
	// Guarded by mu.
	changes int
	// reading is closed when the read ends for which decisions wait, nil: there is none. Guarded by mu.
	reading chan struct{}
}

// New returns the overrides in an engine; nil if it keeps no parts.
func New(engine store.Store, o Options) (*Overrides, error) {
	parts, ok := engine.(store.Parts)
	if !ok {
		return nil, nil
	}
	records, err := parts.Part(store.Overrides, Kept)
	if err != nil {
		return nil, err
	}
	if o.Clock == nil {
		o.Clock = time.Now
	}
	if o.Log == nil {
		o.Log = zap.NewNop()
	}
	if o.Life == nil {
		o.Life = context.Background()
	}
	all := &Overrides{records: records, clock: o.Clock, log: o.Log, life: o.Life}
	all.clusters.Store(&map[string]*cluster{})
	return all, nil
}

// For returns the overrides for a target that may be in force, in no order; the caller must not change them.
// known is false where they have never been read.
func (o *Overrides) For(key store.Key) (all []stages.Override, known bool) {
	c := (*o.clusters.Load())[key.Cluster]
	if c == nil {
		c = o.add(key.Cluster)
	}
	if !c.used.Load() {
		c.used.Store(true)
	}
	k := c.known.Load()
	if now := time.Now().UnixNano(); k == nil || now-c.readAt.Load() > int64(staleAfter) {
		if now >= o.skip.Load() {
			o.await(c)
		}
		if k = c.known.Load(); k == nil {
			return nil, false
		}
	}
	return k.of(key), true
}

// add adds a cluster to the cache.
func (o *Overrides) add(name string) *cluster {
	o.mu.Lock()
	defer o.mu.Unlock()
	now := *o.clusters.Load()
	if c := now[name]; c != nil {
		return c
	}
	next := make(map[string]*cluster, len(now)+1)
	for name, c := range now {
		next[name] = c
	}
	for name := range next {
		if len(next) < mostCached {
			break
		}
		delete(next, name) // any: it is read again with its next decision
	}
	c := &cluster{name: o.own(name)}
	c.used.Store(true)
	next[c.name] = c
	o.clusters.Store(&next)
	return c
}

// own returns a copy of a name, which may be part of a message.
func (*Overrides) own(name string) string { return string([]byte(name)) }

// await reads a cluster's overrides and waits for that, or for a read that has begun. After one that failed no
// decision waits for a while: those of a batch share the wait.
func (o *Overrides) await(c *cluster) {
	c.mu.Lock()
	done := c.reading
	if done == nil {
		done = make(chan struct{})
		c.reading = done
		go func() {
			ctx, cancel := context.WithTimeout(o.life, patience)
			defer cancel()
			o.read(ctx, []*cluster{c})
			c.mu.Lock()
			c.reading = nil
			c.mu.Unlock()
			close(done)
		}()
	}
	c.mu.Unlock()
	began := time.Now()
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case <-done:
	case <-timer.C:
	}
	if now := time.Now(); now.UnixNano()-c.readAt.Load() > int64(staleAfter) {
		o.skip.Store(now.Add(min(patience, triesShare*now.Sub(began))).UnixNano())
	}
}

// read reads clusters, in one round trip.
func (o *Overrides) read(ctx context.Context, some []*cluster) {
	began := time.Now().UnixNano()
	keys, changes := make([]store.Key, len(some)), make([]int, len(some))
	for i, c := range some {
		c.mu.Lock()
		keys[i], changes[i] = keyOf(c.name), c.changes
		c.mu.Unlock()
	}
	records, err := o.records.LoadBatch(ctx, keys)
	var each store.BatchError
	if err != nil && !errors.As(err, &each) {
		o.failing(err)
		return
	}
	now := o.clock()
	for i, c := range some {
		if each != nil && each[i] != nil {
			o.failing(each[i])
			continue
		}
		all, err := decode(c.name, records[i], now)
		if err != nil {
			o.failing(err)
			continue
		}
		c.learn(knownOf(all), changes[i], began)
	}
	if err == nil && o.logged.Swap(false) {
		o.log.Info("overrides read again")
	}
}

// failing records a failed read. What is known stays in force.
func (o *Overrides) failing(err error) {
	if errors.Is(err, context.Canceled) || o.life.Err() != nil {
		return // the server stops
	}
	if !o.logged.Swap(true) {
		o.log.Warn("overrides can't be read: those that are known stay in force until they expire, and clusters of which none are known are not decided", zap.Error(err))
	}
}

// learn takes what a read has found that began after that many changes.
func (c *cluster) learn(k *known, changes int, began int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.changes == changes {
		c.known.Store(k)
		c.readAt.Store(began)
	}
}

// changed is called after this instance has changed a cluster's overrides: its decisions take it into account at once.
// It has happened, even if the caller is gone meanwhile.
func (o *Overrides) changed(name string) {
	c := (*o.clusters.Load())[name]
	if c == nil {
		return
	}
	c.mu.Lock()
	c.changes++
	c.readAt.Store(0) // if the read below fails, the next decision reads again
	c.mu.Unlock()
	ctx, cancel := context.WithTimeout(o.life, patience)
	defer cancel()
	o.read(ctx, []*cluster{c})
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

// refresh reads the cached clusters, and drops those that nobody asks about.
func (o *Overrides) refresh(ctx context.Context) {
	now := o.clock()
	var idle []*cluster
	some := make([]*cluster, 0, readAtOnce)
	flush := func() {
		ctx, cancel := context.WithTimeout(ctx, patience)
		defer cancel()
		o.read(ctx, some)
		some = some[:0]
	}
	for _, c := range *o.clusters.Load() {
		if c.idle++; c.used.Swap(false) {
			c.idle = 0
		}
		if k := c.known.Load(); k != nil {
			c.known.CompareAndSwap(k, k.without(now))
			if c.idle > idlePeriods && k.ends.IsZero() {
				idle = append(idle, c)
				continue
			}
		}
		if some = append(some, c); len(some) == readAtOnce {
			flush()
		}
	}
	if len(some) > 0 {
		flush()
	}
	if len(idle) > 0 {
		o.drop(idle)
	}
}

// drop takes clusters out of the cache, unless there was a decision meanwhile.
func (o *Overrides) drop(idle []*cluster) {
	o.mu.Lock()
	defer o.mu.Unlock()
	now := *o.clusters.Load()
	next := make(map[string]*cluster, len(now))
	for name, c := range now {
		next[name] = c
	}
	for _, c := range idle {
		if !c.used.Load() {
			delete(next, c.name)
		}
	}
	o.clusters.Store(&next)
}

// Collectors returns the metrics.
func (o *Overrides) Collectors() []prometheus.Collector {
	gauge := func(name, help string, value func(now time.Time) float64) prometheus.Collector {
		return prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help}, func() float64 { return value(o.clock()) })
	}
	return []prometheus.Collector{
		gauge("setpoint_overrides", "Overrides in force, of the clusters that this instance decides for.", func(now time.Time) float64 {
			n := 0
			o.inForce(now, func(*stages.Override) { n++ })
			return float64(n)
		}),
		gauge("setpoint_overrides_oldest_start_timestamp_seconds", "Unix time at which the oldest override in force began; 0: none is in force.", func(now time.Time) float64 {
			var oldest time.Time
			o.inForce(now, func(one *stages.Override) {
				if oldest.IsZero() || one.Start.Before(oldest) {
					oldest = one.Start
				}
			})
			if oldest.IsZero() {
				return 0
			}
			return float64(oldest.UnixMilli()) / 1000
		}),
	}
}

// inForce calls do for each known override in force.
func (o *Overrides) inForce(now time.Time, do func(*stages.Override)) {
	for _, c := range *o.clusters.Load() {
		if k := c.known.Load(); k != nil {
			k.each(func(one *stages.Override) {
				if one.InForce(now) {
					do(one)
				}
			})
		}
	}
}
