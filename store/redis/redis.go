package redis

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	goredis "github.com/redis/go-redis/v9"
	"github.com/sony/gobreaker/v2"

	"github.com/setpoint-dev/setpoint/store"
)

// Store keeps records and logs in Redis. It copies values on their way in and out
// and shares no memory with its callers. Create it by New.
type Store struct {
	options Options
	client  goredis.UniversalClient
	layout  *layout
	ttl     any // TTL of records in milliseconds, as text; "0": for ever
	stats   *counters
	sweeper sweeper
	// coalescers share the buckets in equal ranges.
	coalescers []coalescer

	breakersMu sync.Mutex
	breakers   map[string]*gobreaker.TwoStepCircuitBreaker[struct{}] // by node, guarded by breakersMu

	partsMu sync.Mutex
	parts   map[store.Part]*Store // guarded by partsMu; nil in the store of a part

	lacking atomic.Pointer[error] // see Lacking

	closeOnce sync.Once
	closed    chan struct{}
}

var (
	_ store.Store = (*Store)(nil)
	_ store.Log   = (*Store)(nil)

	_ store.Secrets   = (*Store)(nil)
	_ store.Deletions = (*Store)(nil)
	_ store.Clock     = (*Store)(nil)
	_ store.Parts     = (*Store)(nil)
	_ store.Feed      = (*Store)(nil)
	_ store.Remote    = (*Store)(nil)
	_ store.Sharded   = (*Store)(nil)
)

// New returns a store on the server of the options. It does not wait for the server to
// be available; use Ping for that.
func New(o Options) (*Store, error) {
	if err := o.Validate(); err != nil {
		return nil, fmt.Errorf("redis: %w", err)
	}
	o = o.withDefaults()
	s := newStore(o, newLayout(o.KeyPrefix), new(counters), make(chan struct{}))
	s.breakers = make(map[string]*gobreaker.TwoStepCircuitBreaker[struct{}])
	s.parts = make(map[store.Part]*Store)
	s.client = goredis.NewUniversalClient(o.universal())
	if cluster, ok := s.client.(*goredis.ClusterClient); ok {
		cluster.OnNewNode(func(node *goredis.Client) { node.AddHook(s.newNodeHook(node.Options().Addr, node.PoolStats)) })
	} else {
		s.client.AddHook(s.newNodeHook(cmp.Or(o.MasterName, o.Addresses[0]), s.client.PoolStats))
	}
	s.sweeper.start(s)
	return s, nil
}

// newStore returns a store without a client.
func newStore(o Options, l *layout, stats *counters, closed chan struct{}) *Store {
	s := &Store{options: o, layout: l, ttl: "0", stats: stats, closed: closed, coalescers: make([]coalescer, 1)}
	if o.Cluster {
		s.coalescers = make([]coalescer, clusterCoalescers)
	}
	if o.TTL > 0 {
		s.ttl = strconv.FormatInt(max(1, o.TTL.Milliseconds()), 10)
	}
	return s
}

// begin fails if the store is closed or the context is over.
func (s *Store) begin(ctx context.Context, operation string) error {
	select {
	case <-s.closed:
		return fmt.Errorf("%s: %w", operation, store.ErrClosed)
	default:
	}
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("%s: %w", operation, err)
	}
	return nil
}

// Timeout implements store.Remote.
func (s *Store) Timeout() time.Duration { return s.options.Timeout }

// Load implements store.Store.
func (s *Store) Load(ctx context.Context, key store.Key) (store.Record, error) {
	records, errs, err := s.load(ctx, []store.Key{key})
	if err == nil {
		err = joined(errs)
	}
	if err != nil {
		return store.Record{}, err
	}
	return records[0], nil
}

// LoadBatch implements store.Store.
func (s *Store) LoadBatch(ctx context.Context, keys []store.Key) ([]store.Record, error) {
	records, errs, err := s.load(ctx, keys)
	if err != nil {
		return nil, err
	}
	if errs != nil {
		return records, store.BatchError(errs)
	}
	return records, nil
}

func (s *Store) load(ctx context.Context, keys []store.Key) ([]store.Record, []error, error) {
	if err := s.begin(ctx, "load"); err != nil {
		return nil, nil, err
	}
	records, errs := s.loadFrom(ctx, len(keys), 0, func(i int) place { return s.layout.place(keys[i]) })
	return records, errs, nil
}

// loadFrom loads the records of n places, without values of more than most bytes; 0: with all.
func (s *Store) loadFrom(ctx context.Context, n, most int, of func(i int) place) ([]store.Record, []error) {
	records := make([]store.Record, n)
	return records, s.perform(ctx, n, &exchange{
		operation: "load",
		durable:   true, // else it could return a record that a failover then loses
		args: func(i int, _ bool) []any {
			if most > 0 { // and one byte more, which tells that there is more
				return []any{"getrange", of(i).record(), 0, versionLength + most}
			}
			return []any{"get", of(i).record()}
		},
		take: func(i int, reply any, _ bool) (err error) {
			raw, _ := reply.(string)
			if reply == nil || most > 0 && raw == "" { // GETRANGE has no nil
				return nil
			}
			if records[i], err = decodeRecord(raw); most > 0 && len(records[i].Value) > most {
				records[i].Value, records[i].Cut = nil, true
			}
			return err
		},
	})
}

// Delete implements store.Store.
func (s *Store) Delete(ctx context.Context, key store.Key) (bool, error) {
	if err := s.begin(ctx, "delete"); err != nil {
		return false, err
	}
	p := s.layout.place(key)
	var mark []any // by the script that deletes
	switch err := s.markDeletion(ctx, p); {
	case isFull(err):
		mark = []any{s.deletionTTL()}
	case err != nil:
		return false, err
	}
	existed := false
	errs := s.perform(ctx, 1, &exchange{
		operation: "delete",
		durable:   true,
		args: func(_ int, whole bool) []any {
			return deleteScript.args(whole, []string{p.record(), p.log(), p.kept(), p.deletion()}, mark...)
		},
		take: func(_ int, reply any, doubtful bool) error {
			existed = reply == int64(1)
			if !existed && doubtful {
				return errOvertaken
			}
			return nil
		},
	})
	s.purge(ctx, []store.Key{key})
	return existed && errs == nil, joined(errs)
}

// markDeletion stores when the record is deleted, which it does not do itself: if the deletion
// then fails, its caller hears so.
func (s *Store) markDeletion(ctx context.Context, p place) error {
	if s.layout.part != "" {
		return nil // only deletions of histories are looked up
	}
	return joined(s.perform(ctx, 1, &exchange{
		operation: "delete",
		durable:   true,
		args: func(_ int, whole bool) []any {
			return markDeletionScript.args(whole, []string{p.record(), p.deletion()}, s.deletionTTL())
		},
		take: func(int, any, bool) error { return nil },
	}))
}

// endlessDeletionTTL is how long deletions are kept where records live for ever.
const endlessDeletionTTL = 24 * time.Hour

func (s *Store) deletionTTL() any {
	if s.options.TTL > 0 {
		return s.ttl
	}
	return endlessDeletionTTL.Milliseconds()
}

// DeletedAt implements store.Deletions.
func (s *Store) DeletedAt(ctx context.Context, keys []store.Key) ([]time.Time, error) {
	if err := s.begin(ctx, "load deletions"); err != nil {
		return nil, err
	}
	at := make([]time.Time, len(keys))
	errs := s.perform(ctx, len(keys), &exchange{
		operation: "load deletions",
		args:      func(i int, _ bool) []any { return []any{"get", s.layout.place(keys[i]).deletion()} },
		take: func(i int, reply any, _ bool) error {
			if text, deleted := reply.(string); deleted {
				if nanos, err := strconv.ParseInt(text, 10, 64); err == nil { // else another program wrote it
					at[i] = time.Unix(0, nanos).UTC()
				}
			}
			return nil
		},
	})
	return at, joined(errs)
}

// Time implements store.Clock.
func (s *Store) Time(ctx context.Context) (time.Time, error) {
	if err := s.begin(ctx, "time"); err != nil {
		return time.Time{}, err
	}
	clocks, err := s.clocks(ctx)
	times, errs := make([]time.Time, len(clocks)), make([]error, len(clocks))
	var asking sync.WaitGroup
	for i, of := range clocks {
		asking.Go(func() { times[i], errs[i] = of.Time(ctx).Result() })
	}
	asking.Wait()
	for i := len(clocks) - 1; i >= 0; i-- {
		if errs[i] != nil {
			err, times = errs[i], slices.Delete(times, i, i+1)
		}
	}
	if len(times) == 0 {
		return time.Time{}, s.operationError(ctx, "time", err)
	}
	slices.SortFunc(times, time.Time.Compare)
	return times[len(times)/2], nil
}

// clocks are the server, or in a Cluster some masters, as many as Ping writes keys at most. The error is why there are none.
func (s *Store) clocks(ctx context.Context) (all []goredis.Cmdable, err error) {
	cluster, is := s.client.(*goredis.ClusterClient)
	if !is {
		return []goredis.Cmdable{s.client}, nil
	}
	for i := range pingKeys {
		var master *goredis.Client
		if master, err = cluster.MasterForKey(ctx, s.layout.bases[i*bucketCount/pingKeys]); err == nil && !slices.Contains(all, goredis.Cmdable(master)) {
			all = append(all, master)
		}
	}
	return all, err
}

// pingKeys is how many keys Ping writes in a Cluster, spread over the slots.
const pingKeys = 16

// Ping implements store.Store. It writes, because a server that is full, read-only or
// without a quorum answers reads but is of no use, nor is one whose user lacks rights. A Cluster is up as long as any of
// its shards is: an instance can still serve those targets.
func (s *Store) Ping(ctx context.Context) error {
	if err := s.begin(ctx, "ping"); err != nil {
		return err
	}
	n := 2
	if s.options.Cluster {
		n = pingKeys
	}
	errs := s.perform(ctx, 2*n, &exchange{
		operation: "ping",
		durable:   true,
		args: func(i int, whole bool) []any {
			bucket, sent := i/2*bucketCount/n, i%2 == 1
			if !s.options.Cluster { // all slots are its own, or it is a node of a Cluster
				bucket, sent = i*bucketCount/(2*n), i > 0
			}
			keys := s.layout.pingKeys(bucket)
			if sent { // a server that lost its scripts is sent them
				return []any{"eval", "return 0", 1, keys[0]}
			}
			return pingScript.args(whole, keys)
		},
		take: func(_ int, reply any, _ bool) error { return s.lacks(reply) },
	})
	if errs == nil {
		s.lacking.Store(nil)
		return nil
	}
	nodes, lacking, some := make([]error, n), error(nil), false
	for i := range nodes {
		nodes[i] = cmp.Or(errs[2*i], errs[2*i+1])
		lacking, some = cmp.Or(lacking, nodes[i]), some || nodes[i] == nil
	}
	switch {
	case !s.options.Cluster:
		return lacking
	case some:
		s.lacking.Store(&lacking)
		return nil
	}
	return joined(nodes)
}

// Lacking implements store.Sharded.
func (s *Store) Lacking() error {
	if lacking := s.lacking.Load(); lacking != nil {
		return *lacking
	}
	return nil
}

// Close implements store.Store.
func (s *Store) Close() error {
	err := fmt.Errorf("close: %w", store.ErrClosed)
	s.closeOnce.Do(func() {
		close(s.closed)
		s.sweeper.wait()
		for _, part := range s.allParts() {
			part.sweeper.wait()
		}
		err = s.client.Close()
	})
	return err
}
