package decision

import (
	"context"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/protobuf/proto"

	"github.com/setpoint-dev/setpoint/fleet"
	"github.com/setpoint-dev/setpoint/internal/codec"
	"github.com/setpoint-dev/setpoint/recommender"
	"github.com/setpoint-dev/setpoint/server/conversion"
	"github.com/setpoint-dev/setpoint/server/decisionlog"
	"github.com/setpoint-dev/setpoint/server/record"
	"github.com/setpoint-dev/setpoint/server/truth"
	"github.com/setpoint-dev/setpoint/store"
)

// TruthOptions say how much is kept of what targets are asked.
type TruthOptions struct {
	// Bytes limits what is kept of a target; 0: nothing is. Age is how long it is kept.
	Bytes int
	Age   time.Duration
	// Total limits what is kept of all targets, in bytes, each counted with Bytes; 0: only the shares of clusters
	// limit it. Where there are more targets than fit, some of each cluster are kept: always the same ones.
	Total int
	// Buffer limits the memory of what is not yet written, in bytes. Of targets beyond it nothing is kept.
	Buffer int
}

// Defaults of TruthOptions; DayOfTruth are the Bytes of a day of decisions every 15 s, of two metrics, which serve keeps
// by default. LeastTruthBytes is the fewest Bytes but 0.
const (
	DayOfTruth         = 150_000
	DefaultTruthAge    = 24 * time.Hour
	DefaultTruthTotal  = 128 << 20
	DefaultTruthBuffer = 64 << 20
	LeastTruthBytes    = truthChunks * 128
)

const (
	// truthChunks is how many chunks a target has: one is for a part of TruthOptions.Age.
	truthChunks = 144
	// leastChunkTime is the least time that a chunk is for.
	leastChunkTime = time.Minute
	// stateAgain is after how long a chunk has the target's record and the text of its spec again.
	stateAgain = time.Hour
	// truthShards spread targets over locks.
	truthShards = 64
	// tailOverhead is about the memory of a tail beside its encoder.
	tailOverhead = 384
	// mostOfBuffer is the part of the buffer that one cluster may use: one in so many.
	mostOfBuffer = 2
	// truthFlushTime limits how long a stop writes what is not yet written.
	truthFlushTime = 5 * time.Second
	// truthCountTime limits how long targets are counted.
	truthCountTime = 5 * time.Second
)

// Truth keeps what targets are asked, in memory for some minutes and then in the background in the store: never in
// the way of an answer. Nil keeps nothing.
type Truth struct {
	options TruthOptions
	chunks  store.ChunkLog
	log     *decisionlog.Log
	// place is the length of a place of the log, and time how long a chunk is for.
	place  int
	time   time.Duration
	shards [truthShards]truthShard
	room   truthRoom
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

type truthShard struct {
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
	// most is the cluster's share of the store, in bytes: 0 unlimited, below 0 unknown.
	most int64
	// pace bounds how often the target is recorded.
	pace pace
	// gone reports whether it is no longer that of its target.
	gone bool
}

// NewTruth returns it for an engine; nil if that keeps no chunks, or Bytes is 0. Close stops it. log writes the chunks.
func NewTruth(o TruthOptions, engine store.Store, newLog func(store.Log) *decisionlog.Log) *Truth {
	engines, ok := engine.(store.Chunks)
	if !ok || o.Bytes <= 0 {
		return nil
	}
	chunks := engines.Chunks(truthChunks, o.Age)
	t := &Truth{
		options: o, chunks: chunks, log: newLog(chunks), place: o.Bytes / truthChunks, time: max(leastChunkTime, o.Age/truthChunks),
		dropped: newDropped(),
		full:    make(chan struct{}, 1),
		stop:    make(chan struct{}), stopped: make(chan struct{}),
	}
	t.room.engine, _ = engine.(store.Usages)
	for i := range t.shards {
		t.shards[i].tails, t.shards[i].used = make(map[store.Key]*tail), make(map[string]int)
	}
	t.clusters.of = make(map[string]int64)
	go t.run()
	return t
}

func newDropped() prometheus.Counter {
	return prometheus.NewCounter(prometheus.CounterOpts{
		Name: "setpoint_recording_dropped_decisions_total", Help: "Decisions whose readings are not kept, because the buffer (--recording-buffer-bytes) was full, or the target is asked more than once a second for minutes.",
	})
}

// Collectors returns its metrics, which exist where nothing is kept, too.
func (t *Truth) Collectors() []prometheus.Collector {
	dropped := newDropped()
	if t != nil {
		dropped = t.dropped
	}
	return []prometheus.Collector{
		dropped,
		prometheus.NewCounterFunc(prometheus.CounterOpts{
			Name: "setpoint_recording_lost_chunks_total", Help: "Chunks of recorded decisions that were not written to the store.",
		}, func() float64 {
			if t == nil {
				return 0
			}
			return float64(t.log.Lost())
		}),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "setpoint_recording_buffer_bytes", Help: "Memory of recorded decisions that are not yet written to the store, bytes.",
		}, func() float64 {
			if t == nil {
				return 0
			}
			return float64(t.used.Load())
		}),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "setpoint_recording_kept_ratio", Help: "Part of the targets whose decisions are kept, in the cluster of which the least are; 1: all fit into --recording-total-bytes.",
		}, func() float64 {
			if t == nil {
				return 0
			}
			return t.room.least()
		}),
	}
}

// run writes the chunks that have come to their end.
func (t *Truth) run() {
	defer close(t.stopped)
	tick := time.NewTicker(max(time.Second, t.time/40))
	defer tick.Stop()
	const ticksOfDivision = 4 // sooner than the first chunks end
	for n := 1; ; n++ {
		select {
		case <-t.stop:
			return
		case <-t.full:
			t.divide(t.sealDue(time.Now()))
			t.shed()
			select { // new targets come by the thousand: count them once a second
			case <-t.stop:
				return
			case <-time.After(time.Second):
			}
		case now := <-tick.C:
			clusters := t.sealDue(now)
			if n%ticksOfDivision == 0 {
				t.divide(clusters)
			}
		}
	}
}

// within counts a new tail of a cluster, and reports whether there is room for it. Of a cluster that was counted there
// are as many as are to be kept of it, with some more, because which ones are kept is decided by their names; so one
// that chooses its names takes no room of others'. Before that, there are as many of all.
func (t *Truth) within(cluster string) bool {
	c := &t.clusters
	c.mu.Lock()
	defer c.mu.Unlock()
	if most, counted := t.room.most(cluster); counted {
		if c.of[cluster] >= most {
			return false
		}
	} else if c.all >= t.fits() {
		select {
		case t.full <- struct{}{}:
		default:
		}
		if t.room.parts.Load() == nil || c.all >= 2*t.fits() {
			return false
		}
	}
	c.all++
	c.of[cluster]++
	return true
}

// without counts a tail of a cluster less.
func (t *Truth) without(cluster string) {
	c := &t.clusters
	c.mu.Lock()
	defer c.mu.Unlock()
	c.all--
	if c.of[cluster]--; c.of[cluster] <= 0 {
		delete(c.of, cluster)
	}
}

// fits is how many tails there are before targets are counted.
func (t *Truth) fits() int64 {
	if t.options.Total <= 0 {
		return math.MaxInt64 / 4
	}
	return withSome(int64(t.options.Total / t.options.Bytes))
}

// withSome is a number and some more.
func withSome(n int64) int64 { return n + n/4 + 16 }

// shed forgets what there is no room for.
func (t *Truth) shed() {
	for i := range t.shards {
		s := &t.shards[i]
		s.mu.Lock()
		for key, tail := range s.tails {
			if !t.room.keeps(&key) || t.beyond(key.Cluster) {
				t.dropped.Add(float64(tail.encoder.Items()))
				t.remove(s, key, tail)
			}
		}
		s.mu.Unlock()
	}
}

// beyond reports whether a cluster has more tails than it may.
func (t *Truth) beyond(cluster string) bool {
	t.clusters.mu.Lock()
	defer t.clusters.mu.Unlock()
	most, counted := t.room.most(cluster)
	return counted && t.clusters.of[cluster] > most
}

// sealDue passes the chunks that have come to their end to the log, and forgets targets that had none. It returns the
// clusters with their shares of the store: 0 unlimited, below 0 unknown.
func (t *Truth) sealDue(now time.Time) (clusters map[string]int64) {
	clusters = make(map[string]int64)
	for i := range t.shards {
		s := &t.shards[i]
		s.mu.Lock()
		for key, tail := range s.tails {
			if known, ok := clusters[key.Cluster]; !ok || known != 0 && (tail.most == 0 || tail.most > known) {
				clusters[key.Cluster] = tail.most
			}
			switch {
			case now.Before(tail.until):
			case tail.encoder.Items() == 0:
				t.remove(s, key, tail)
			default:
				t.seal(s, key, tail, now)
			}
		}
		s.mu.Unlock()
	}
	return clusters
}

// divide sees which targets there is room for.
func (t *Truth) divide(clusters map[string]int64) {
	ctx, cancel := context.WithTimeout(context.Background(), truthCountTime)
	defer cancel()
	t.room.divide(ctx, int64(t.options.Bytes), int64(t.options.Total), clusters)
}

// Close writes what is not yet written, for some seconds at most.
func (t *Truth) Close() {
	if t != nil {
		t.closed.Do(t.close)
	}
}

func (t *Truth) close() {
	close(t.stop)
	<-t.stopped
	ctx, cancel := context.WithTimeout(context.Background(), truthFlushTime)
	defer cancel()
	const atOnce = 1000 // the log has room for more
	n := 0
	for i := range t.shards {
		s := &t.shards[i]
		s.mu.Lock()
		for key, tail := range s.tails {
			if tail.encoder.Items() == 0 {
				continue
			}
			if ctx.Err() != nil {
				t.dropped.Add(float64(tail.encoder.Items()))
				continue
			}
			t.log.Append(key, decisionlog.OfChunk(t.chunk(tail)))
			if n++; n%atOnce == 0 {
				_ = t.log.Flush(ctx, key)
			}
		}
		s.mu.Unlock()
	}
	t.log.Close()
}

// shard is the shard of a key.
func (t *Truth) shard(key *store.Key) *truthShard { return &t.shards[truthHash(key)%truthShards] }

// truthHash is the same on all instances.
func truthHash(key *store.Key) uint32 {
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
func (t *Truth) chunk(tail *tail) *decisionlog.Chunk {
	return &decisionlog.Chunk{Last: tail.last, Bytes: tail.encoder.Take(), Place: t.place}
}

// seal passes the chunk of a tail to the log and begins the next one.
func (t *Truth) seal(s *truthShard, key store.Key, tail *tail, now time.Time) {
	t.log.Append(key, decisionlog.OfChunk(t.chunk(tail)))
	tail.until = now.Add(t.time)
	t.resize(s, &key, tail)
}

// resize counts the memory of a tail.
func (t *Truth) resize(s *truthShard, key *store.Key, tail *tail) {
	size := tailOverhead + tail.encoder.Size()
	if more := size - tail.size; more != 0 {
		tail.size = size
		t.used.Add(int64(more))
		s.used[key.Cluster] += more
	}
}

// remove forgets a tail.
func (t *Truth) remove(s *truthShard, key store.Key, tail *tail) {
	delete(s.tails, key)
	tail.gone = true
	t.without(key.Cluster)
	t.used.Add(-int64(tail.size))
	if s.used[key.Cluster] -= tail.size; s.used[key.Cluster] <= 0 {
		delete(s.used, key.Cluster)
	}
}

// tail returns that of a key, a new one if there is none, with that share of its cluster; nil if there is no room. The
// caller has locked the shard.
func (t *Truth) tail(s *truthShard, key *store.Key, most int64) *tail {
	if known := s.tails[*key]; known != nil {
		return known
	}
	const least = 2 * tailOverhead
	if t.used.Load()+least > int64(t.options.Buffer) || s.used[key.Cluster]+least > t.options.Buffer/truthShards/mostOfBuffer {
		return nil
	}
	// The job may have been told that it is kept before the room was divided, of which shed has gone through this shard.
	if !t.room.keeps(key) {
		return nil
	}
	if !t.within(key.Cluster) {
		return nil
	}
	// The first chunk is shorter, by what the name says: so not all of them end at once.
	part := t.time / 2
	part += time.Duration(len(s.tails)%16) * t.time / 32
	made := &tail{until: time.Now().Add(part), most: most}
	s.tails[*key] = made
	t.resize(s, key, made)
	return made
}

// asked is what a job notes of its record for Truth, before it decides.
type asked struct {
	// keeps is what keepsTruth said.
	keeps  bool
	before int64
	state  []byte
	text   []byte
	// tail is the target's, if it had one, and shard the one that it is in.
	tail  *tail
	shard *truthShard
}

// due notes the tail of a target, and reports whether the next step is to have its record, and whether the text of its
// spec. It notes nothing of a target that is asked too often.
func (a *asked) due(t *Truth, key *store.Key, spec uint64, at int64) (state, text bool) {
	s := t.shard(key)
	s.mu.Lock()
	defer s.mu.Unlock()
	tail := s.tails[*key]
	if tail == nil {
		a.shard = s
		return true, true
	}
	if !tail.pace.allows(at) {
		t.dropped.Inc()
		tail.state = 0 // what comes next begins anew
		return false, false
	}
	a.shard, a.tail = s, tail
	state = tail.state == 0 || max(at-tail.state, tail.state-at) >= int64(stateAgain)
	return state, state || tail.spec != spec
}

// anew makes the next step of a target have its record, because a decision is not kept.
func (t *Truth) anew(key *store.Key) {
	s := t.shard(key)
	s.mu.Lock()
	defer s.mu.Unlock()
	if tail := s.tails[*key]; tail != nil {
		tail.state = 0
	}
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

// keepsTruth reports whether the decision is kept: none that recorded nothing, or that was made without the store,
// none of a profile that can't decide on sums, and none of a target that there is no room for.
func (j *Job) keepsTruth() bool {
	t := j.targets.Truth
	return t != nil && !j.DryRun && !j.Input.HoldDown && j.Input.Options.Profile.AddsUp() && t.room.keeps(&j.Key)
}

// noteTruth notes what Truth keeps of the record before the decision; moved reports whether its history is not that
// of the decision before.
func (j *Job) noteTruth(known *record.Record, moved bool) {
	t := j.targets.Truth
	if !j.asked.keeps {
		if t != nil && j.Input.HoldDown {
			t.anew(&j.Key)
		}
		return
	}
	if known.Seen {
		j.asked.before = known.Updated.UnixNano()
	}
	state, text := j.asked.due(t, &j.Key, j.SpecHash, j.Now.UnixNano())
	if j.asked.shard == nil {
		return
	}
	if state || moved {
		before := record.Record{History: known.History, Frame: codec.Frame{
			Stages: known.Stages, Adjusted: known.Adjusted, Turns: known.Turns, LastChange: known.LastChange,
		}}
		if previous := j.Input.PreviousStatus; !known.Seen && previous != nil {
			before.Status = *previous
		}
		j.asked.state = record.Append(nil, &before)
	}
	if text && j.Spec != nil {
		use := proto.CloneOf(j.Spec.SpecInUse())
		use.Options = conversion.Options(&j.Input.Options) // the server's own, too
		if b, err := proto.Marshal(use); err == nil {
			j.asked.text = b
		}
	}
}

// keepTruth keeps what the job was asked and decided.
func (j *Job) keepTruth() {
	t, s := j.targets.Truth, j.asked.shard
	if s == nil { // noteTruth found nothing to keep
		return
	}
	step := j.room.step(j)
	s.mu.Lock()
	defer s.mu.Unlock()
	tail := j.asked.tail
	if tail == nil || tail.gone {
		tail = t.tail(s, &j.Key, j.Bounds.Bytes())
	}
	if tail == nil || !tail.encoder.Step(step) {
		t.dropped.Inc()
		return
	}
	tail.last = max(tail.last, step.At)
	if len(step.State) > 0 {
		tail.state = step.At
	}
	if len(step.SpecText) > 0 {
		tail.spec = step.Spec
	}
	t.kept(s, &j.Key, tail)
}

// kept ends a chunk that is long enough. Compressed it is about half as long.
func (t *Truth) kept(s *truthShard, key *store.Key, tail *tail) {
	if tail.encoder.Len() >= 2*t.place {
		t.seal(s, *key, tail, time.Now())
		return
	}
	t.resize(s, key, tail)
}

// report keeps what was reported of the change that was decided at an instant.
func (t *Truth) report(key *store.Key, of int64, failed bool, message string) {
	if t == nil || !t.room.keeps(key) {
		return
	}
	s := t.shard(key)
	s.mu.Lock()
	defer s.mu.Unlock()
	tail := t.tail(s, key, -1)
	if tail == nil || !tail.encoder.Report(&truth.Report{Of: of, Failed: failed, Message: message}) {
		t.dropped.Inc()
		return
	}
	tail.last = max(tail.last, of)
	t.kept(s, key, tail)
}

// delete deletes what is kept of a target.
func (t *Truth) delete(ctx context.Context, key store.Key) error {
	if t == nil {
		return nil
	}
	s := t.shard(&key)
	s.mu.Lock()
	if tail := s.tails[key]; tail != nil {
		t.remove(s, key, tail)
	}
	s.mu.Unlock()
	if err := t.log.Flush(ctx, key); err != nil {
		return err
	}
	_, err := t.chunks.Delete(ctx, key)
	return err
}

// Read returns a page of the chunks of a target with decisions since an instant (in nanoseconds since the Unix
// epoch), newest first: up to limit of those that are written, and on the first page what this instance has not yet
// written. next is the position of the next page; empty: there is none.
func (t *Truth) Read(ctx context.Context, target string, position string, since int64, limit int) (chunks [][]byte, next string, err error) {
	if t == nil {
		return nil, "", nil
	}
	key := ParseTarget(target)
	if position == "" {
		if err := t.log.Flush(ctx, key); err != nil {
			return nil, "", err
		}
		s := t.shard(&key)
		s.mu.Lock()
		if tail := s.tails[key]; tail != nil && tail.encoder.Items() > 0 {
			chunks = append(chunks, tail.encoder.Copy())
		}
		s.mu.Unlock()
		for i := range chunks {
			chunks[i] = truth.Seal(chunks[i])
		}
	}
	values, next, err := t.chunks.ReadLog(ctx, key, position, limit)
	if err != nil {
		return nil, "", err
	}
	for _, value := range values {
		last, sealed := decisionlog.ReadChunk(value)
		if sealed == nil {
			continue
		}
		if last < since { // and so are most of those before
			return chunks, "", nil
		}
		chunks = append(chunks, sealed)
	}
	return chunks, next, nil
}

// Age is how long chunks are kept.
func (t *Truth) Age() time.Duration {
	if t == nil {
		return 0
	}
	return t.options.Age
}

// allSummed reports whether the decision has the sums of all metrics of pods: not if it did not get so far.
func allSummed(s *recommender.Sums, in *recommender.Input) bool {
	for i := range in.Spec.Metrics {
		if !s.Metrics[i].Sampled && !fleet.IsTotal(&in.Spec.Metrics[i]) {
			return false
		}
	}
	return len(s.Metrics) == len(in.Spec.Metrics)
}

// step returns what is kept of a job. It is valid until the next call.
func (r *room) step(j *Job) *truth.Step {
	d, in := &j.Decision, j.Input
	s := &r.truth
	metrics, others := s.Metrics, s.Problem.Others[:0]
	*s = truth.Step{
		At: d.At.UnixNano(), Before: j.asked.before, Spec: j.SpecHash, SpecText: j.asked.text, State: j.asked.state,
		Scale: in.Scale, Generation: -1,
		Current: d.Current, Desired: d.Desired, StatusCurrent: d.Status.CurrentReplicas, StatusDesired: d.Status.DesiredReplicas, Basis: d.Basis, Reason: d.Reason, Error: d.Error, Conditions: d.Status.Conditions,
	}
	if past := j.Around.Past; past != nil {
		s.Said = past.Said
	}
	if in.HasGeneration {
		s.Generation = in.Generation
	}
	switch {
	case in.ScaleError != nil:
		s.Problem = truth.Problem{Kind: truth.ScaleProblem, Code: uint8(in.ScaleError.Reason), Message: in.ScaleError.Message}
	case in.SelectorProblem != nil:
		p := in.SelectorProblem
		s.Problem = truth.Problem{Kind: truth.SelectorProblem, Reason: string(p.Reason), Message: p.Message, Selector: p.Selector, Others: append(others, p.Autoscalers...)}
	}
	sums := j.sums
	if j.sums = nil; sums == nil {
		sums = r.takeSums()
		in.SumsIn(sums, d.At, "")
	} else if !allSummed(sums, in) {
		in.SumsIn(sums, d.At, "")
	}
	defer r.giveSums(sums)
	s.Pods, s.Ready = int32(sums.Pods), int32(sums.Ready)
	n := len(in.Spec.Metrics)
	s.Metrics = slices.Grow(metrics[:0], n)[:n]
	for i := range s.Metrics {
		m := &s.Metrics[i]
		*m = fleet.MetricDigest{Sums: sums.Metrics[i]}
		if i >= len(in.Readings) {
			continue
		}
		readings := &in.Readings[i]
		m.Error, m.SelectorError = readings.Error, readings.SelectorError
		if fleet.IsTotal(&in.Spec.Metrics[i]) {
			m.Total = fleet.TotalOf(readings.Values)
		}
	}
	return s
}
