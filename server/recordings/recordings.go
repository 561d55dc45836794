package recordings

import (
	"context"
	"fmt"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/setpoint-dev/setpoint/internal/printable"
	"github.com/setpoint-dev/setpoint/server/decisionlog"
	"github.com/setpoint-dev/setpoint/server/truth"
	"github.com/setpoint-dev/setpoint/store"
)

// Options say how much is kept of what targets are asked.
type Options struct {
	// Bytes limits what is kept of a target; 0: nothing is. Age is how long it is kept.
	Bytes int
	Age   time.Duration
	// Total limits what is kept of all targets, in bytes, each counted with Bytes; 0: only the shares of clusters
	// limit it. Where there are more targets than fit, some of each cluster are kept: always the same ones.
	Total int
	// Buffer limits the memory of what is not yet written, in bytes. Of targets beyond it nothing is kept.
	Buffer int
}

// Defaults of Options; DayBytes are the Bytes of a day of decisions every 15 s, of two metrics, which serve keeps
// by default. LeastBytes is the fewest Bytes but 0.
const (
	DayBytes      = 150_000
	DefaultAge    = 24 * time.Hour
	DefaultTotal  = 128 << 20
	DefaultBuffer = 64 << 20
	LeastBytes    = chunksEach * 128
)

const (
	// chunksEach is how many chunks a target has: one is for a part of Options.Age.
	chunksEach = 144
	// leastChunkTime is the least time that a chunk is for.
	leastChunkTime = time.Minute
	// stateAgain is after how long a chunk has the target's record and the text of its spec again.
	stateAgain = time.Hour
	// shardsOfTails spread targets over locks.
	shardsOfTails = 64
	// tailOverhead is about the memory of a tail beside its encoder.
	tailOverhead = 384
	// mostOfBuffer is the part of the buffer that one cluster may use: one in so many.
	mostOfBuffer = 2
	// flushTime limits how long a stop writes what is not yet written.
	flushTime = 5 * time.Second
	// countTime limits how long targets are counted.
	countTime = 5 * time.Second
	// mostRead limits what is read at once, in bytes: a client of gRPC takes 4 MiB unless it is told otherwise.
	mostRead = 3 << 20
)

// Recordings keeps what targets are asked, in memory for some minutes and then in the background in the store: never in
// the way of an answer. Nil keeps nothing.
type Recordings struct {
	options Options
	chunks  store.ChunkLog
	log     *decisionlog.Log
	// place is the length of a place of the log, and time how long a chunk is for.
	place  int
	time   time.Duration
	shards [shardsOfTails]shard
	room   room
	used   atomic.Int64 // memory of all tails
	// clusters counts the tails, all of them and by cluster.
	clusters struct {
		mu  sync.Mutex
		all int64
		of  map[string]int64
	}
	// full is told when there are more tails than the room is for.
	full    chan struct{}
	dropped prometheus.Counter
	stop    chan struct{}
	stopped chan struct{}
	closed  sync.Once
}

type shard struct {
	mu    sync.Mutex
	tails map[store.Key]*tail
	used  map[string]int // memory by cluster
}

// tail is what is not yet written of a target.
type tail struct {
	encoder truth.Encoder
	// last is the instant of the last decision, and state that of the one before which the record was kept.
	last, state int64
	// spec is the spec whose text the log has since state.
	spec uint64
	// until is when the chunk ends.
	until time.Time
	size  int
	// most is the cluster's share of the store by the last decision, in bytes: 0 unlimited, below 0 unknown.
	most int64
	// pace bounds how often the target is recorded.
	pace pace
	// gone reports whether it is no longer that of its target.
	gone bool
}

// New returns it for an engine; nil if that keeps no chunks, or Bytes is 0. Close stops it. log writes the chunks.
func New(o Options, engine store.Store, newLog func(store.Log) *decisionlog.Log) *Recordings {
	engines, ok := engine.(store.Chunks)
	if !ok || o.Bytes <= 0 {
		return nil
	}
	chunks := Written(engines, &o)
	r := &Recordings{
		options: o, chunks: chunks, log: newLog(chunks), place: o.Bytes / chunksEach, time: max(leastChunkTime, o.Age/chunksEach),
		dropped: newDropped(),
		full:    make(chan struct{}, 1),
		stop:    make(chan struct{}), stopped: make(chan struct{}),
	}
	r.room.engine, _ = engine.(store.Usages)
	for i := range r.shards {
		r.shards[i].tails, r.shards[i].used = make(map[store.Key]*tail), make(map[string]int)
	}
	r.clusters.of = make(map[string]int64)
	go r.run()
	return r
}

// Written is what an engine has of all targets: others may keep some where this instance keeps nothing, or have kept it.
func Written(engine store.Chunks, o *Options) store.ChunkLog {
	return engine.Chunks(chunksEach, o.Age)
}

func newDropped() prometheus.Counter {
	return prometheus.NewCounter(prometheus.CounterOpts{
		Name: "setpoint_recording_dropped_decisions_total", Help: "Decisions whose readings are not kept, because the buffer (--recording-buffer-bytes) was full, or the target is asked more than once a second for minutes.",
	})
}

// Collectors returns its metrics, which exist where nothing is kept, too.
func (r *Recordings) Collectors() []prometheus.Collector {
	dropped := newDropped()
	if r != nil {
		dropped = r.dropped
	}
	or0 := func(value func() float64) func() float64 {
		if r == nil {
			return func() float64 { return 0 }
		}
		return value
	}
	return []prometheus.Collector{
		dropped,
		prometheus.NewCounterFunc(prometheus.CounterOpts{
			Name: "setpoint_recording_lost_chunks_total", Help: "Chunks of recorded decisions that were not written to the store.",
		}, or0(func() float64 { return float64(r.log.Lost()) })),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "setpoint_recording_buffer_bytes", Help: "Memory of recorded decisions that are not yet written to the store, bytes.",
		}, or0(func() float64 { return float64(r.used.Load()) })),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "setpoint_recording_kept_ratio", Help: "Part of the targets whose decisions are kept, in the cluster of which the least are; 1: all fit into --recording-total-bytes.",
		}, or0(func() float64 { return r.room.least() })),
	}
}

// run writes the chunks that have come to their end.
func (r *Recordings) run() {
	defer close(r.stopped)
	tick := time.NewTicker(max(time.Second, r.time/40))
	defer tick.Stop()
	const ticksOfDivision = 4 // sooner than the first chunks end
	for n := 1; ; n++ {
		select {
		case <-r.stop:
			return
		case <-r.full:
			r.divide(r.sealDue(time.Now()))
			r.shed()
			select { // new targets come by the thousand: count them once a second
			case <-r.stop:
				return
			case <-time.After(time.Second):
			}
		case now := <-tick.C:
			clusters := r.sealDue(now)
			if n%ticksOfDivision == 0 {
				r.divide(clusters)
			}
		}
	}
}

// within counts a new tail of a cluster, and reports whether there is room for it. Of a cluster that was counted there
// are as many as fit; so one that chooses its names takes no room of others'. Before that, there are as many of all.
func (r *Recordings) within(cluster string) bool {
	c := &r.clusters
	c.mu.Lock()
	defer c.mu.Unlock()
	if most, counted := r.room.most(cluster); counted {
		if c.of[cluster] >= most {
			return false
		}
	} else if c.all >= r.fits() {
		select {
		case r.full <- struct{}{}:
		default:
		}
		if r.room.parts.Load() == nil || c.all >= 2*r.fits() {
			return false
		}
	}
	c.all++
	c.of[cluster]++
	return true
}

// without counts a tail of a cluster less.
func (r *Recordings) without(cluster string) {
	c := &r.clusters
	c.mu.Lock()
	defer c.mu.Unlock()
	c.all--
	if c.of[cluster]--; c.of[cluster] <= 0 {
		delete(c.of, cluster)
	}
}

// fits is how many tails there are before targets are counted.
func (r *Recordings) fits() int64 {
	if r.options.Total <= 0 {
		return math.MaxInt64 / 4
	}
	return int64(r.options.Total / r.options.Bytes)
}

// shed forgets what there is no room for.
func (r *Recordings) shed() {
	for i := range r.shards {
		s := &r.shards[i]
		s.mu.Lock()
		for key, tail := range s.tails {
			if !r.room.keeps(&key) || r.beyond(key.Cluster) {
				r.dropped.Add(float64(tail.encoder.Items()))
				r.remove(s, key, tail)
			}
		}
		s.mu.Unlock()
	}
}

// beyond reports whether a cluster has more tails than it may.
func (r *Recordings) beyond(cluster string) bool {
	r.clusters.mu.Lock()
	defer r.clusters.mu.Unlock()
	most, counted := r.room.most(cluster)
	return counted && r.clusters.of[cluster] > most
}

// sealDue passes the chunks that have come to their end to the log, and forgets targets that had none. It returns the
// clusters with their shares of the store: 0 unlimited, below 0 unknown.
func (r *Recordings) sealDue(now time.Time) (clusters map[string]int64) {
	clusters = make(map[string]int64)
	for i := range r.shards {
		s := &r.shards[i]
		s.mu.Lock()
		for key, tail := range s.tails {
			if known, ok := clusters[key.Cluster]; !ok || known != 0 && (tail.most == 0 || tail.most > known) {
				clusters[key.Cluster] = tail.most
			}
			switch {
			case now.Before(tail.until):
			case tail.encoder.Items() == 0:
				r.remove(s, key, tail)
			default:
				r.seal(s, key, tail, now)
			}
		}
		s.mu.Unlock()
	}
	return clusters
}

// divide sees which targets there is room for.
func (r *Recordings) divide(clusters map[string]int64) {
	ctx, cancel := context.WithTimeout(context.Background(), countTime)
	defer cancel()
	r.room.divide(ctx, int64(r.options.Bytes), int64(r.options.Total), clusters)
}

// Close writes what is not yet written, for some seconds at most.
func (r *Recordings) Close() {
	if r != nil {
		r.closed.Do(r.close)
	}
}

func (r *Recordings) close() {
	close(r.stop)
	<-r.stopped
	ctx, cancel := context.WithTimeout(context.Background(), flushTime)
	defer cancel()
	const atOnce = 1000 // the log has room for more
	n := 0
	for i := range r.shards {
		s := &r.shards[i]
		s.mu.Lock()
		for key, tail := range s.tails {
			if tail.encoder.Items() == 0 {
				continue
			}
			if ctx.Err() != nil {
				r.dropped.Add(float64(tail.encoder.Items()))
				continue
			}
			r.log.Append(key, decisionlog.OfChunk(r.chunk(tail)))
			if n++; n%atOnce == 0 {
				_ = r.log.Flush(ctx, key)
			}
		}
		s.mu.Unlock()
	}
	r.log.Close()
}

func (r *Recordings) shard(key *store.Key) *shard { return &r.shards[hashOf(key)%shardsOfTails] }

// hashOf is the same on all instances.
func hashOf(key *store.Key) uint32 {
	const prime = 16777619 // FNV-1a
	hash := uint32(2166136261)
	for _, text := range [...]string{key.Namespace, key.Target} {
		for i := range len(text) {
			hash = (hash ^ uint32(text[i])) * prime
		}
	}
	return hash
}

// chunk takes the chunk of a tail.
func (r *Recordings) chunk(tail *tail) *decisionlog.Chunk {
	return &decisionlog.Chunk{Last: tail.last, Bytes: tail.encoder.Take(), Place: r.place}
}

// seal passes the chunk of a tail to the log and begins the next one.
func (r *Recordings) seal(s *shard, key store.Key, tail *tail, now time.Time) {
	r.log.Append(key, decisionlog.OfChunk(r.chunk(tail)))
	tail.until = now.Add(r.time)
	r.resize(s, &key, tail)
}

// resize counts the memory of a tail.
func (r *Recordings) resize(s *shard, key *store.Key, tail *tail) {
	size := tailOverhead + tail.encoder.Size()
	if more := size - tail.size; more != 0 {
		tail.size = size
		r.used.Add(int64(more))
		s.used[key.Cluster] += more
	}
}

// remove forgets a tail.
func (r *Recordings) remove(s *shard, key store.Key, tail *tail) {
	delete(s.tails, key)
	tail.gone = true
	r.without(key.Cluster)
	r.used.Add(-int64(tail.size))
	if s.used[key.Cluster] -= tail.size; s.used[key.Cluster] <= 0 {
		delete(s.used, key.Cluster)
	}
}

// tail returns that of a key, a new one if there is none; nil if there is no room. The caller has locked the shard.
func (r *Recordings) tail(s *shard, key *store.Key) *tail {
	if known := s.tails[*key]; known != nil {
		return known
	}
	const least = 2 * tailOverhead
	if r.used.Load()+least > int64(r.options.Buffer) || s.used[key.Cluster]+least > r.options.Buffer/shardsOfTails/mostOfBuffer {
		return nil
	}
	// The job may have been told that it is kept before the room was divided, of which shed has gone through this shard.
	if !r.room.keeps(key) {
		return nil
	}
	if !r.within(key.Cluster) {
		return nil
	}
	// The first chunk is shorter, by how many there are: so not all of them end at once.
	part := r.time / 2
	part += time.Duration(len(s.tails)%16) * r.time / 32
	made := &tail{until: time.Now().Add(part), most: -1}
	s.tails[*key] = made
	r.resize(s, key, made)
	return made
}

// pace is how often a target may be recorded: once in truth.Pace, and truth.Burst times at once. One that is asked more often
// than that is not recorded until all of the burst is there again, so that what is recorded of it is without gaps for a
// while. No target needs a decision that often; a caller that asks in a loop would fill the store, and pay for it.
// The algorithm is the generic cell rate algorithm (ITU-T I.371).
type pace struct {
	next   int64 // when a step would come, if all came in time: nanoseconds since the Unix epoch
	paused bool
}

// allows takes a step at an instant, and reports whether it may be recorded.
func (p *pace) allows(at int64) bool {
	ahead := p.next - at
	switch {
	case ahead <= 0, ahead > 2*truth.Burst*truth.Pace: // the burst is there again, or the clock went back
		*p = pace{next: at}
	case p.paused:
		return false
	case ahead > truth.Burst*truth.Pace:
		p.paused = true
		return false
	}
	p.next += truth.Pace
	return true
}

// kept ends a chunk that is long enough. Compressed it is about half as long.
func (r *Recordings) kept(s *shard, key *store.Key, tail *tail) {
	if tail.encoder.Full() || tail.encoder.Len() >= 2*r.place {
		r.seal(s, *key, tail, time.Now())
		return
	}
	r.resize(s, key, tail)
}

// Report keeps what was reported of the change that was decided at an instant.
func (r *Recordings) Report(key *store.Key, of int64, failed bool, message string) {
	if r == nil || !r.room.keeps(key) {
		return
	}
	s := r.shard(key)
	s.mu.Lock()
	defer s.mu.Unlock()
	tail := r.tail(s, key)
	if tail == nil || !tail.encoder.Report(&truth.Report{Of: of, Failed: failed, Message: message}) {
		r.dropped.Inc()
		return
	}
	tail.last = max(tail.last, of)
	r.kept(s, key, tail)
}

// Absence is why nothing is kept of a target whose last decision was at an instant, in a sentence; empty: it is not known.
func (r *Recordings) Absence(key *store.Key, last, now time.Time) string {
	switch {
	case now.Sub(last) > r.options.Age:
		return fmt.Sprintf("its last decision, of %s, has expired: they are kept for %s (--recording-age)", last.UTC().Format(time.RFC3339), printable.Duration(r.options.Age))
	case !r.room.keeps(key):
		return "there is no room for this target: some of each cluster are kept, as many as fit into --recording-total-bytes and the cluster's share of the store"
	}
	return ""
}

// Delete deletes what is kept of a target.
func (r *Recordings) Delete(ctx context.Context, key store.Key) error {
	s := r.shard(&key)
	s.mu.Lock()
	if tail := s.tails[key]; tail != nil {
		r.remove(s, key, tail)
	}
	s.mu.Unlock()
	if err := r.log.Flush(ctx, key); err != nil {
		return err
	}
	_, err := r.chunks.Delete(ctx, key)
	return err
}

// Read returns a page of the chunks of a target with decisions since an instant (in nanoseconds since the Unix
// epoch), newest first: up to limit of those that are written, fewer if they are long, and on the first page what this instance has not yet
// written. next is the position of the next page; empty: there is none.
func (r *Recordings) Read(ctx context.Context, key store.Key, position string, since int64, limit int) (chunks [][]byte, next string, err error) {
	if position == "" {
		if err := r.log.Flush(ctx, key); err != nil {
			return nil, "", err
		}
		s := r.shard(&key)
		s.mu.Lock()
		if tail := s.tails[key]; tail != nil && tail.encoder.Items() > 0 {
			chunks = append(chunks, tail.encoder.Copy())
		}
		s.mu.Unlock()
		for i := range chunks {
			chunks[i] = truth.Seal(chunks[i])
		}
	}
	values, next, err := r.chunks.ReadLog(ctx, key, position, limit)
	if fit := fitting(values); err == nil && fit < len(values) { // the log knows the position after a whole page only
		values, next, err = r.chunks.ReadLog(ctx, key, position, fit)
	}
	if err != nil {
		return nil, "", err
	}
	for _, value := range values {
		last, sealed := decisionlog.ReadChunk(value)
		if sealed == nil {
			continue
		}
		switch {
		case last >= since:
			chunks = append(chunks, sealed)
		case last < since-2*int64(r.time): // and so are those before: a chunk is written soon after its time
			return chunks, "", nil
		}
	}
	return chunks, next, nil
}

// fitting is how many values have no more than mostRead bytes together, but at least one.
func fitting(values [][]byte) int {
	bytes := 0
	for i := range values {
		if bytes += len(values[i]); bytes > mostRead && i > 0 {
			return i
		}
	}
	return len(values)
}
