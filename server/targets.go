package server

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"go.uber.org/zap"

	"github.com/setpoint-dev/setpoint/recommender"
	"github.com/setpoint-dev/setpoint/server/apierror"
	"github.com/setpoint-dev/setpoint/server/calls"
	"github.com/setpoint-dev/setpoint/server/conversion"
	"github.com/setpoint-dev/setpoint/server/decisionlog"
	"github.com/setpoint-dev/setpoint/server/gate"
	"github.com/setpoint-dev/setpoint/server/limit"
	"github.com/setpoint-dev/setpoint/server/wire"
	"github.com/setpoint-dev/setpoint/store"
)

// maxStoredExplanation bounds what an explanation adds to a stored answer.
const maxStoredExplanation = 16 << 10

// maxHistoryBytes bounds what is stored of one target. A usual history is smaller
// by three orders of magnitude.
const maxHistoryBytes = 512 << 10

// targets makes decisions on targets whose histories are in a store: take what is
// remembered of the record or load it, decide, compare-and-swap, and on a lost race
// decide again from what stands in the store. So any instance serves any target.
type targets struct {
	store store.Store
	// deletions are those that the store knows of, nil: it does not.
	deletions store.Deletions
	clock     *clock
	cache     *cache
	outage    *outage
	// shares bound what clusters may take of the store.
	shares  *shares
	metrics *metrics
	// observer logs what is asked over streams.
	observer *calls.Observer
	log      *zap.Logger
	options  *Options
	decoder  *wire.Decoder
	// gate bounds the memory of requests that are worked on; limiter counts what it refuses,
	// nil: nobody does.
	gate    *gate.Gate
	limiter *limit.Limiter
	// lists has a place for each part of a list that is loaded.
	lists chan struct{}
	// decisions is the log for people; it has no say in anything.
	decisions *decisionlog.Log
	// life ends when a stop waits no longer.
	life context.Context
}

// newID returns an id that no other recommendation has: the time, so that ids
// sort, and 80 random bits.
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

// usualGrowth is how much longer a value may well be than the one before it, in bytes.
const usualGrowth = 256

// decide decides on what is stored of the target and returns the value to store,
// unless the job is done then. The value begins where the room does, if there is enough.
func (t *targets) decide(j *job, record store.Record, room []byte) []byte {
	j.attempts++
	j.concluded = j.concluded[:0]
	var history recommender.History
	if record.Exists() {
		var err error
		if history, err = recommender.DecodeHistory(record.Value); err != nil {
			t.log.Error("stored history unreadable", zap.String("target", j.target), zap.Error(err))
			j.err = apierror.OfHistory(j.target, err)
			return nil
		}
	}
	if !history.IsOfCluster(j.input.Cluster) {
		j.err = apierror.OtherCluster(j.target)
		return nil
	}
	// Of a namesake that was deleted nothing counts, its answers included.
	history = history.Of(j.input.Incarnation)
	if j.err = t.clock.problem(); j.err != nil {
		return nil
	}
	if t.fromTheFuture(j, &history) {
		if err := t.clock.judges(t.life, j.now); err != nil {
			if j.err = t.clock.problem(); j.err == nil {
				j.err = apierror.OfStore(t.life, j.target, err)
			}
			return nil
		}
		t.clock.future.Inc()
		t.log.Error("records from the future corrected: a clock was wrong", zap.String("target", j.target), zap.Time("newest", history.Updated))
		history = history.WithoutFuture(j.now)
	}
	requestID := j.answerID()
	if requestID != "" {
		if a := history.AnswerFor(requestID); a != nil && j.now.UnixNano()-a.At <= int64(t.options.AnswerRetention) {
			if j.response, j.err = conversion.Answer(a); j.err == nil {
				j.response.RequestId = new(j.requestID) // a's may be the caller's own, see answerID
			}
			return nil
		}
	}
	if j.timed && !j.input.Again && j.now.Before(history.Updated) {
		j.err = apierror.EvaluationTimePast(j.target, j.now, history.Updated)
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
			t.log.Warn("explanation not kept", zap.String("target", j.target), zap.Error(err))
		}
		next = next.WithAnswer(recommender.NewAnswer(requestID, &j.decision, explanation), t.options.answers())
	} else {
		next = next.WithinLimits(j.decision.At.UnixNano(), t.options.answers())
	}
	if usual := len(record.Value) + usualGrowth; len(room) < usual {
		room = make([]byte, usual)
	}
	value := next.AppendBinary(room[:0])
	if len(value) > maxHistoryBytes {
		j.err = apierror.OverLimit("maxHistoryBytes", maxHistoryBytes, fmt.Sprintf("the target's history would take %d bytes: its status quotes too many names or selectors of the spec that are too long", len(value)))
		return nil
	}
	if !record.Exists() && j.placed == 0 {
		if j.err = t.shares.place(t.life, j.key.Cluster, len(value), j.caller); j.err != nil {
			return nil
		}
		j.placed = len(value)
	}
	return value
}

// fromTheFuture reports whether the history has records that only a wrong clock can
// have made. Where requests choose their instants, it may have them on purpose.
func (t *targets) fromTheFuture(j *job, history *recommender.History) bool {
	lead := t.clock.lead()
	return lead > 0 && !j.anyTime && !j.input.Again && history.Updated.After(j.now.Add(lead))
}

// tidied returns the value of a history without answers that it need not remember any
// more, nil if it has none such. It is all that a dry run may write: nothing of its own,
// and for its sake nobody moves what is of no use to anybody.
func (t *targets) tidied(j *job, history *recommender.History) []byte {
	tidy := history.WithinLimits(j.now.UnixNano(), t.options.answers())
	if j.timed || len(tidy.Answers) == len(history.Answers) {
		return nil
	}
	return tidy.AppendBinary(nil)
}

// conclude notes the decisions that are final with this one: a change before it
// that was still pending, and this one if it changes nothing. Where it says something
// new, the log must show what was said before.
func (t *targets) conclude(j *job, before *recommender.History) {
	repeated := decisionlog.Repeats(&j.decision, before)
	if !repeated && before.Last.At != 0 && before.Last.Outcome == recommender.NotChanged {
		j.concluded = append(j.concluded, decisionlog.OfFirst(before))
	}
	if settled := j.decision.SettledBefore; settled.ID != (recommender.ID{}) {
		j.concluded = append(j.concluded, decisionlog.OfSettled(before, &before.Status, settled.Outcome))
	}
	if !j.decision.Changes() && t.decisions.Takes(before, repeated) {
		j.concluded = append(j.concluded, decisionlog.OfDecision(&j.decision, j.requestID))
	}
}

// recorded ends a job whose value is in the store.
func (t *targets) recorded(j *job) {
	j.decided = true
	t.decisions.Append(j.key, j.concluded...)
}

// recommend runs one job to its end.
func (t *targets) recommend(ctx context.Context, j *job) {
	if j.done() {
		return
	}
	if t.outage.has(j.key) {
		if err := t.outage.writeBack(ctx, j.key); err != nil {
			t.withoutStore(ctx, j, err)
			return
		}
	}
	j.targets = t
	record, guessed := t.recall(j)
	t.change(ctx, j.key, j, record, guessed)
}

// recall returns what is remembered of a job's record; false: nothing. What decides
// nothing asks the store, for nothing else would tell whether it is right.
func (t *targets) recall(j *job) (store.Record, bool) {
	if j.dryRun {
		return store.Record{}, false
	}
	record, ok := t.cache.get(j.key)
	if ok {
		t.metrics.cacheHits.Inc()
	} else {
		t.metrics.cacheMisses.Inc()
	}
	return record, ok
}

// unplaced ends what there was to make room for.
func (t *targets) unplaced(j *job, stored bool) {
	if j.placed > 0 {
		t.shares.settle(j.key.Cluster, j.placed, stored)
		j.placed = 0
	}
}

// withoutStore ends a job that the store failed: with a decision on what this
// instance last knew where that is wanted and the store is away, else by refusing.
func (t *targets) withoutStore(ctx context.Context, j *job, err error) {
	t.unplaced(j, true) // it may be stored: the next count tells
	away := errors.Is(err, store.ErrUnavailable) || errors.Is(err, context.DeadlineExceeded)
	if t.options.HoldDown && away && apierror.CallerGone(ctx) == nil && !j.dryRun && t.outage.decide(j) {
		return
	}
	j.err = apierror.OfStore(ctx, j.target, err)
}

// detach returns a context for what is to be finished although the caller hangs
// up: it ends with a timeout of its own, or when a stop waits no longer.
func (t *targets) detach(ctx context.Context) (context.Context, context.CancelFunc) {
	life, cancel := context.WithTimeout(t.life, t.options.RequestTimeout)
	return &detached{life, ctx}, cancel
}

// detached is a context with the values of another one.
type detached struct {
	context.Context
	values context.Context
}

// Value implements context.Context. Package context finds out by it what its own
// contexts descend from.
func (d *detached) Value(key any) any {
	if v := d.Context.Value(key); v != nil {
		return v
	}
	return d.values.Value(key)
}
