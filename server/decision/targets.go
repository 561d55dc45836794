package decision

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"time"

	"go.uber.org/zap"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/setpoint-dev/setpoint/internal/deadline"
	"github.com/setpoint-dev/setpoint/recommender"
	"github.com/setpoint-dev/setpoint/recommender/encoding"
	"github.com/setpoint-dev/setpoint/server/apierror"
	"github.com/setpoint-dev/setpoint/server/calls"
	"github.com/setpoint-dev/setpoint/server/conversion"
	"github.com/setpoint-dev/setpoint/server/decisionlog"
	"github.com/setpoint-dev/setpoint/server/gate"
	"github.com/setpoint-dev/setpoint/server/health"
	"github.com/setpoint-dev/setpoint/server/limit"
	"github.com/setpoint-dev/setpoint/server/shares"
	"github.com/setpoint-dev/setpoint/server/telemetry"
	"github.com/setpoint-dev/setpoint/server/wire"
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
	clock     *clock
	cache     *cache
	outage    *outage
	// Watch tracks whether the store is reachable.
	Watch *storeWatch
	// shares limit each cluster's part of the store.
	shares  *shares.Shares
	Metrics *metrics
	// Observer logs requests of streams.
	Observer *calls.Observer
	Log      *zap.Logger
	Options  *Options
	decoder  *wire.Decoder
	// Gate limits the memory of requests in progress; limiter counts what it refuses, nil:
	// none.
	Gate    *gate.Gate
	Limiter *limit.Limiter
	// lists is a semaphore for loading the parts of lists.
	lists chan struct{}
	// Decisions is the log for people. No decision depends on it.
	Decisions *decisionlog.Log
	// life ends when a stop waits no longer.
	life context.Context
}

// newID returns a unique id of a recommendation: the time, so that ids sort, and 80
// random bits.
func newID(now time.Time) recommender.ID {
	var id recommender.ID
	ms := uint64(now.UnixMilli())
	for i := range 6 {
		id[i] = byte(ms >> (8 * (5 - i)))
	}
	random := rand.Uint64()
	for i := range 8 {
		id[6+i] = byte(random >> (8 * i))
	}
	random = rand.Uint64()
	id[14], id[15] = byte(random), byte(random>>8)
	return id
}

// usualGrowth is how much longer a value usually is than the previous one, in bytes.
const usualGrowth = 256

// decide decides on the target's record and returns the value to store, unless the job
// is done without a swap. The value is built in room if that is large enough.
func (t *Targets) decide(j *Job, record store.Record, room []byte) []byte {
	j.attempts++
	j.concluded = j.concluded[:0]
	var history recommender.History
	if record.Exists() {
		var err error
		if history, err = j.history.of(&record, &j.room.history); err != nil {
			t.Log.Error("stored history unreadable", zap.String("target", j.Target), zap.Error(err))
			j.Err = apierror.OfHistory(j.Target, err)
			return nil
		}
	}
	if !history.IsOfCluster(j.input.Cluster) {
		j.Err = apierror.OtherCluster(j.Target)
		return nil
	}
	// Nothing of a deleted target of the same name counts, including its answers.
	history = history.Of(j.input.Incarnation)
	if j.Err = t.clock.problem(); j.Err != nil {
		return nil
	}
	if t.fromTheFuture(j, &history) {
		if err := t.clock.judges(t.life, j.now); err != nil {
			if j.Err = t.clock.problem(); j.Err == nil {
				j.Err = apierror.OfStore(t.life, j.Target, err)
			}
			return nil
		}
		t.clock.future.Inc()
		t.Log.Error("records from the future corrected: a clock was wrong", zap.String("target", j.Target), zap.Time("newest", history.Updated))
		history = history.WithoutFuture(j.now)
	}
	requestID := j.answerID()
	if requestID != "" {
		if a := history.AnswerFor(requestID); a != nil && j.now.UnixNano()-a.At <= int64(t.Options.AnswerRetention) {
			if j.response, j.Err = conversion.Answer(a); j.Err == nil {
				j.response.RequestId = new(j.requestID) // a's may be the caller's own key, see answerID
			}
			return nil
		}
	}
	if j.timed && !j.input.Again && j.now.Before(history.Updated) {
		j.Err = apierror.EvaluationTimePast(j.Target, j.now, history.Updated)
		return nil
	}
	next := j.evaluate(&history)
	j.decision.RequestID = j.requestID
	if j.dryRun {
		j.decision.ID = recommender.ID{}
		j.decided = true
		return t.tidied(j, &history)
	}
	t.conclude(j, &history)
	if requestID != "" {
		explanation, err := conversion.EncodeExplanation(&j.decision, maxStoredExplanation)
		if err != nil {
			t.Log.Warn("explanation not kept", zap.String("target", j.Target), zap.Error(err))
		}
		next = next.WithAnswer(recommender.NewAnswer(requestID, &j.decision, explanation), t.Options.answers())
	} else {
		next = next.WithinLimits(j.decision.At.UnixNano(), t.Options.answers())
	}
	if usual := len(record.Value) + usualGrowth; len(room) < usual {
		room = make([]byte, usual)
	}
	value := encoding.AppendHistory(room[:0], &next)
	j.history.storing(&next)
	if len(value) > maxHistoryBytes {
		j.Err = apierror.OverLimit("maxHistoryBytes", maxHistoryBytes, fmt.Sprintf("the target's history would take %d bytes: its status quotes too many names or selectors of the spec that are too long", len(value)))
		return nil
	}
	if !record.Exists() && j.placed == 0 {
		if j.Err = t.shares.Place(t.life, j.key.Cluster, store.Usage{Keys: 1, Bytes: int64(len(value))}, j.caller); j.Err != nil {
			return nil
		}
		j.placed = len(value)
	}
	return value
}

// fromTheFuture reports whether the history has records that only a wrong clock can
// have made. If requests may set their instants, it may have them on purpose.
func (t *Targets) fromTheFuture(j *Job, history *recommender.History) bool {
	lead := t.clock.lead()
	return lead > 0 && !j.anyTime && !j.input.Again && history.Updated.After(j.now.Add(lead))
}

// tidied returns the value of a history without expired answers, nil if it has none. A
// dry run may write only this, and a dry run alone is not a reason to rewrite a record.
func (t *Targets) tidied(j *Job, history *recommender.History) []byte {
	tidy := history.WithinLimits(j.now.UnixNano(), t.Options.answers())
	if j.timed || len(tidy.Answers) == len(history.Answers) {
		return nil
	}
	return encoding.AppendHistory(nil, &tidy)
}

// conclude logs the decisions that this one makes final: an earlier change that was still pending,
// and this one if it changes nothing. If it differs from the previous decision, the log must have
// that one, too.
func (t *Targets) conclude(j *Job, before *recommender.History) {
	repeated := decisionlog.Repeats(&j.decision, before)
	if !repeated && before.Last.At != 0 && before.Last.Outcome == recommender.NotChanged {
		j.concluded = append(j.concluded, decisionlog.OfFirst(before))
	}
	if settled := j.decision.SettledBefore; settled.ID != (recommender.ID{}) {
		j.concluded = append(j.concluded, t.Decisions.OfSettled(before, &before.Status, settled.Outcome))
	}
	if !j.decision.Changes() && t.Decisions.Takes(j.key, before, repeated) {
		j.concluded = append(j.concluded, decisionlog.OfDecision(&j.decision, j.requestID))
	}
	if j.decision.Changes() && t.Decisions.Feeds() {
		j.concluded = append(j.concluded, decisionlog.OfPending(&j.decision, j.requestID))
	}
}

// recorded ends a job whose value is stored.
func (t *Targets) recorded(j *Job) {
	j.decided = true
	if !j.dryRun && j.decision.Changes() {
		t.Decisions.Recommended(&j.decision)
	}
	t.Decisions.Append(j.key, j.concluded...)
}

// Recommend runs one job to its end.
func (t *Targets) Recommend(ctx context.Context, j *Job) {
	if j.done() {
		return
	}
	if t.outage.has(j.key) {
		if err := t.outage.writeBack(ctx, j.key); err != nil {
			t.withoutStore(ctx, j, err)
			return
		}
	}
	if j.targets = t; j.room == nil {
		j.room = new(room)
	}
	record, guessed := t.cachedRecord(j)
	t.change(ctx, j.key, j, record, guessed)
}

// cachedRecord returns the cached record of a job, and whether there is one. A job that records
// nothing reads the store, because no swap would verify the cached version.
func (t *Targets) cachedRecord(j *Job) (store.Record, bool) {
	if j.dryRun {
		return store.Record{}, false
	}
	record, ok := t.cache.get(j.key)
	if ok {
		t.Metrics.cacheHits.Inc()
	} else {
		t.Metrics.cacheMisses.Inc()
	}
	return record, ok
}

// unplaced ends the reservation of space for a new target.
func (t *Targets) unplaced(j *Job, stored bool) {
	if j.placed > 0 {
		t.shares.Settle(j.key.Cluster, store.Usage{Keys: 1, Bytes: int64(j.placed)}, stored)
		j.placed = 0
	}
}

// withoutStore ends a job after an error of the store: with a decision on the last known history
// if HoldDown is set and the store is unreachable, otherwise with the error.
func (t *Targets) withoutStore(ctx context.Context, j *Job, err error) {
	t.unplaced(j, true) // it may be stored: the next count shows
	away := errors.Is(err, store.ErrUnavailable) || errors.Is(err, context.DeadlineExceeded)
	if t.Options.HoldDown && away && apierror.CallerGone(ctx) == nil && !j.dryRun && t.outage.decide(j) {
		return
	}
	j.Err = apierror.OfStore(ctx, j.Target, err)
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

// New returns the targets of a store. From then on the options' clock follows the engine's. h gets
// the health of the engine. life ends when a stop waits no longer. Set Decisions before the first
// call, and Limiter and Observer if there are any.
func New(engine store.Store, options *Options, calls *telemetry.Calls, h *health.Server, life context.Context) *Targets {
	clock := newClock(engine, options)
	options.Clock = clock.now
	observed := observe(engine, newMetrics(options, calls), options.Log)
	observed.tracing = options.Tracing
	t := &Targets{
		store: observed, cache: newCache(options.CacheBytes), Metrics: observed.metrics,
		Log: options.Log, Options: options, life: life, clock: clock, decoder: wire.NewDecoder(options.Recommend),
		Gate: NewGate(mostWaiting), lists: make(chan struct{}, listsAtOnce*runtime.GOMAXPROCS(0)),
	}
	t.deletions, _ = engine.(store.Deletions)
	t.outage = newOutage(t)
	t.shares = shares.New(engine, options.shares(), t.refuseShare)
	t.Watch = newStoreWatch(t, h)
	observed.failed = t.Watch.failed
	return t
}

// refuseShare counts a target that is refused for its cluster's limits.
func (t *Targets) refuseShare(reason limit.Reason) {
	if t.Limiter != nil {
		t.Limiter.Refuse(reason)
	}
}

// Collectors returns the metrics.
func (t *Targets) Collectors() []prometheus.Collector {
	return append(t.Metrics.collectors(t.outage), t.clock.skew, t.clock.future)
}

// Finish writes the unwritten histories, after the last call, and frees memory.
func (t *Targets) Finish() {
	t.outage.finish()
	t.cache.close()
}
