package decision

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"go.uber.org/zap"

	"github.com/setpoint-dev/setpoint/internal/arena"
	"github.com/setpoint-dev/setpoint/recommender"
	"github.com/setpoint-dev/setpoint/server/apierror"
	"github.com/setpoint-dev/setpoint/server/conversion"
	"github.com/setpoint-dev/setpoint/server/decisionlog"
	"github.com/setpoint-dev/setpoint/server/record"
	"github.com/setpoint-dev/setpoint/server/recordings"
	"github.com/setpoint-dev/setpoint/server/shadows"
	"github.com/setpoint-dev/setpoint/server/tracing"
	"github.com/setpoint-dev/setpoint/stages"
	"github.com/setpoint-dev/setpoint/store"
)

// Job is a decision in progress: a change of a target's record. A Job may be used again, see Reset.
type Job struct {
	Request
	Outcome

	targets *Targets
	// ctx is of the call that waits for it.
	ctx       context.Context
	room      *room
	concluded []decisionlog.Entry
	// history is the target's, shared with the target's other jobs in a batch; nil without
	// other jobs.
	history *decoded
	// overrides are those in force.
	overrides []stages.Override
	// overridesAt is the instant by which they are in force.
	overridesAt time.Time
	// asked is what Recordings keeps of the record before.
	asked recordings.Asked
	// beside are the shadows that decided, nil: none did.
	beside *shadows.Set
	// shadows are those of the stored spec, for a target without a record.
	shadows []byte
	// awaited reports whether the batch has just waited for the overrides.
	awaited bool
	// guessed reports whether the decision is based on a cached record, doubtful whether it is
	// unknown if it was recorded.
	guessed, doubtful bool
	// placed is the length of a new target's first history, while it is being stored;
	// else 0.
	placed int
}

// room is memory for deciding one job after the other: those of a batch, or those that use the same
// Job.
type room struct {
	record record.Memory
	// known is the record that was decided on last, and next the one after that.
	known, next record.Record
	decision    reusedDecisions
	recordings  recordings.Memory
	// value is the encoded history to store; engines copy it.
	value []byte
}

// mostRoomForValue limits the values that a room keeps, in bytes.
const mostRoomForValue = 4 << 10

// empty keeps only the memory.
func (r *room) empty() {
	r.record.Empty()
	r.known, r.next = record.Record{}, record.Record{}
	r.decision.Clear()
	r.recordings.Empty()
}

// Reset empties the job for another request, and keeps its memory: nothing of the decision may be
// used afterwards.
func (j *Job) Reset() {
	room, concluded := j.room, j.concluded[:cap(j.concluded)]
	clear(concluded)
	*j = Job{} // a literal with these would be a temporary that is copied
	if j.concluded = concluded[:0]; room != nil {
		room.empty()
		j.room = room
	}
}

// next implements change.
func (j *Job) next(stored store.Record, guessed bool, room []byte) []byte {
	j.guessed = guessed
	if room != nil {
		return j.decide(stored, room)
	}
	value := j.decide(stored, j.room.value)
	if cap(value) <= mostRoomForValue && cap(value) > len(j.room.value) {
		j.room.value = value[:cap(value)]
	}
	return value
}

// ended implements change.
func (j *Job) ended() bool { return j.done() }

// undoGuess implements change. A job that ends without a swap is not confirmed by one.
func (j *Job) undoGuess() bool {
	if !j.guessed {
		return false
	}
	j.Decided, j.Earlier, j.Err, j.guessed = false, nil, nil, false
	return true
}

// swapped implements change.
func (j *Job) swapped(result store.SwapResult, _ []byte) {
	t := j.targets
	j.guessed = false
	j.unplaced(result.Swapped)
	if result.Swapped {
		j.history.stored(result.Record.Version)
		j.recorded()
		return
	}
	j.conflicted()
	if j.Attempts >= t.Options.MaxAttempts {
		j.Err = apierror.Contended(j.Target, j.Attempts)
	}
}

// fail implements change. The value being swapped may be stored; a retry with the same
// request id finds out.
func (j *Job) fail(ctx context.Context, err error, swapping bool) {
	j.doubtful = j.doubtful || swapping
	j.withoutStore(ctx, err)
}

// usualGrowth is how much longer a value usually is than the previous one, in bytes.
const usualGrowth = 256

// decide decides on the target's record and returns the value to store, unless the job
// is done without a swap. The value is built in room if that is large enough.
func (j *Job) decide(stored store.Record, room []byte) []byte {
	t := j.targets
	j.Attempts++
	j.concluded = j.concluded[:0]
	known, next := &j.room.known, &j.room.next
	if !stored.Exists() {
		*known = record.Record{}
		known.Shadows = j.shadows
	} else {
		if err := j.history.of(&stored, &j.room.record, known); err != nil {
			t.Log.Error("stored history unreadable", zap.String("target", j.Target), zap.Error(err))
			j.Err = apierror.OfHistory(j.Target, err)
			return nil
		}
	}
	if !known.IsOfCluster(j.Owner.Cluster) {
		j.Err = apierror.OtherCluster(j.Target)
		return nil
	}
	// Nothing of a deleted target of the same name counts, including its answers.
	if !known.IsOf(j.Owner.Incarnation) {
		kept := shadows.WithoutHistories(known.Shadows) // its spec, which stays, has them
		*known = known.Of(j.Owner.Incarnation)
		known.Shadows = kept
	}
	if j.Err = t.clock.problem(); j.Err != nil {
		return nil
	}
	var tidy []byte
	if j.DryRun { // before the decision changes what is known: a dry run records none of that
		tidy = j.tidied(known)
	}
	if j.fromTheFuture(&known.History) {
		if err := t.clock.judges(t.life, j.Now); err != nil {
			if j.Err = t.clock.problem(); j.Err == nil {
				j.Err = apierror.OfDecisionsStore(t.life, j.Target, err)
			}
			return nil
		}
		t.clock.future.Inc()
		t.Log.Error("records from the future corrected: a clock was wrong", zap.String("target", j.Target), zap.Time("newest", known.Updated))
		*known = known.WithoutFuture(j.Now)
	}
	if a := j.answerFor(known); a != nil {
		if j.Earlier, j.Err = conversion.Answer(a); j.Err == nil && j.RequestID != "" {
			j.Earlier.RequestId = new(j.RequestID) // a has the key
		}
		return nil
	}
	if j.Timed && !j.Input.Again && j.Now.Before(known.Updated) {
		j.Err = apierror.EvaluationTimePast(j.Target, j.Now, known.Updated)
		return nil
	}
	if !j.findOverrides() {
		return nil
	}
	if j.Poll.Spec != "" { // who stored the spec may have been stopped before it wrote them into the record
		known.Shadows, _ = shadows.WithSpecs(known.Shadows, j.Poll.Shadows)
	}
	restarted := j.RestartAfterPause && known.RestartAfterPause(&known.History, j.Now, j.Input)
	basis := known
	var beside *shadows.Set
	if len(known.Shadows) > 0 {
		known.Unpack() // they keep histories
		beside = j.openShadows(*known)
		basis = &beside.Basis
	}
	t.Recordings.Begin(&j.asked, &j.Key, j.Input, j.DryRun)
	staged := j.evaluate(basis, &next.History)
	if t.Recordings != nil {
		call := j.toRecord()
		t.Recordings.Note(&j.asked, &call, basis, restarted || beside != nil && beside.Moved)
	}
	known.NextIn(next, j.Owner)
	next.Stages, next.Adjusted = staged, j.Decision.Adjusted
	next.Spec = j.specAfter(known)
	if j.DryRun {
		j.Decision.ID = recommender.ID{}
		j.Decided = true
		return tidy
	}
	if j.beside = beside; beside != nil {
		next.Shadows = j.besides(beside, known)
	}
	if t.Metrics.Targets != nil {
		j.Interval, j.Turns = next.Interval, slices.Clone(next.TurnTimes()) // the record's are the room's
		if j.Shadows = nil; beside != nil {
			j.Shadows = beside.Shown
		}
	}
	j.conclude(known)
	if j.AnswerKey != "" {
		explanation, err := conversion.EncodeExplanation(&j.Decision, maxStoredExplanation)
		if err != nil {
			t.Log.Warn("explanation not kept", zap.String("target", j.Target), zap.Error(err))
		}
		*next = next.WithAnswer(record.NewAnswer(j.AnswerKey, &j.Decision, explanation), t.Options.answers())
	} else if len(next.Answers) > 0 {
		*next = next.WithinLimits(j.Decision.At.UnixNano(), t.Options.answers())
	}
	next.LastPoll = j.Poll.Spec
	if usual := len(stored.Value) + usualGrowth; len(room) < usual {
		room = make([]byte, usual)
	}
	value := j.room.record.Append(room[:0], next)
	j.history.storing(next)
	if len(value) > maxHistoryBytes {
		j.Err = apierror.OverLimit("maxHistoryBytes", maxHistoryBytes, fmt.Sprintf("the target's history would take %d bytes: its status quotes too many names or selectors of the spec that are too long", len(value)))
		return nil
	}
	if !stored.Exists() && j.placed == 0 {
		if j.Err = t.Shares.Place(t.life, j.Key.Cluster, store.Usage{Keys: 1, Bytes: int64(len(value))}, j.Bounds); j.Err != nil {
			return nil
		}
		j.placed = len(value)
	}
	return value
}

// answerFor returns an earlier answer to the job; nil: there is none.
func (j *Job) answerFor(known *record.Record) *record.Answer {
	if j.DryRun {
		return nil
	}
	if j.AnswerKey != "" {
		if a := known.AnswerFor(j.AnswerKey); a != nil && j.Now.UnixNano()-a.At <= int64(j.targets.Options.AnswerRetention) {
			return a
		}
	}
	return known.AnswerTo(j.Poll)
}

// fromTheFuture reports whether the history has records that only a wrong clock can
// have made. If requests may set their instants, it may have them on purpose.
func (j *Job) fromTheFuture(history *recommender.History) bool {
	lead := j.targets.clock.lead()
	return lead > 0 && !j.AnyTime && !j.Input.Again && history.Updated.After(j.Now.Add(lead))
}

// tidied returns the value of a record without expired answers, nil if it has none. A
// dry run may write only this, and a dry run alone is not a reason to rewrite a record.
func (j *Job) tidied(known *record.Record) []byte {
	tidy := known.WithinLimits(j.Now.UnixNano(), j.targets.Options.answers())
	if j.Timed || len(tidy.Answers) == len(known.Answers) {
		return nil
	}
	return record.Append(nil, &tidy)
}

// conclude collects what this decision adds to the log.
func (j *Job) conclude(before *record.Record) {
	j.concluded = j.targets.Decisions.Concluded(j.concluded, j.Key, &j.Decision, before, j.RequestID, j.SpecHash)
}

// Repeats reports whether the decision says what another one of the same hour said, as changes do that nobody makes.
func (j *Job) Repeats() bool {
	return slices.ContainsFunc(j.concluded, func(e decisionlog.Entry) bool { return e.Repeat })
}

// recorded ends a job whose value is stored.
func (j *Job) recorded() {
	log := j.targets.Decisions
	j.Decided = true
	if !j.DryRun && j.Decision.Changes() {
		log.Recommended(&j.Decision)
	}
	log.Append(j.Key, j.concluded...)
	if j.beside != nil {
		j.targets.Metrics.shadows.count(j.beside)
	}
	if r := j.targets.Recordings; r != nil {
		call := j.toRecord()
		r.Keep(&j.asked, &call, &j.room.recordings)
	}
	j.closeBucket()
}

// toRecord is what Recordings has to know of the job.
func (j *Job) toRecord() recordings.Call {
	return recordings.Call{
		Key: &j.Key, Input: j.Input, Spec: j.Spec, SpecHash: j.SpecHash, Now: j.Now, Past: j.Around.Past, Proposals: j.Around.Proposals, Most: j.Bounds.Bytes(), Decision: &j.Decision,
	}
}

// unplaced ends the reservation of space for a new target.
func (j *Job) unplaced(stored bool) {
	if j.placed > 0 {
		j.targets.Shares.Settle(j.Key.Cluster, store.Usage{Keys: 1, Bytes: int64(j.placed)}, stored)
		j.placed = 0
	}
}

// withoutStore ends a job after an error of the store: with a decision on the last known history
// if HoldDown is set and the store is unreachable, otherwise with the error.
func (j *Job) withoutStore(ctx context.Context, err error) {
	t := j.targets
	j.unplaced(true) // it may be stored: the next count shows
	away := errors.Is(err, store.ErrUnavailable) || errors.Is(err, context.DeadlineExceeded)
	if t.Options.HoldDown && away && apierror.CallerGone(ctx) == nil && !j.DryRun && t.outage.decide(j) {
		return
	}
	j.Err = apierror.OfDecisionsStore(ctx, j.Target, err)
}

// evaluate decides, puts the history afterwards into next, and returns what stages remember. If the job's span records
// the steps, it requests an explanation, which does not change the response.
func (j *Job) evaluate(known *record.Record, next *recommender.History) (staged []byte) {
	if j.Seeder != nil && !known.Seen {
		j.Seeder.Seed()
	}
	if j.Span == nil {
		return j.recommend(known, next)
	}
	asked := j.Input.Explain
	j.Input.Explain = true
	staged = j.recommend(known, next)
	j.Input.Explain = asked
	j.Steps = j.Decision.Explanation
	if !asked {
		j.Decision.Explanation = nil
	}
	return staged
}

// openShadows opens the shadows of a record. It gets a copy, which goes to the heap, and so no other decision's does.
func (j *Job) openShadows(known record.Record) *shadows.Set {
	return shadows.Open(&known, j.SpecHash, j.call(&known))
}

// besides lets the shadows decide beside the job, and returns what the next record keeps of them.
func (j *Job) besides(of *shadows.Set, known *record.Record) []byte {
	if of.Moved { // what the log has to tell of is the change of the record before
		j.Decision.SettledBefore = of.Settled
	}
	c := j.call(known)
	c.Decision = &j.Decision
	return of.Decide(c)
}

// call is what shadows have to know of the job, all but its decision.
func (j *Job) call(known *record.Record) *shadows.Call {
	return &shadows.Call{
		Input: j.Input, Around: j.around(known), Now: j.Now, RestartAfterPause: j.RestartAfterPause,
		Options: j.Defaults, Least: j.Least, Most: j.Most, Budget: j.Budget,
	}
}

// around returns what is around the decision on a record.
func (j *Job) around(known *record.Record) stages.Around {
	around := j.Around
	around.Overrides, around.OverridesAt = j.overrides, j.overridesAt
	around.Turns, around.Deleted = known.TurnsAt(j.Input.Scale.SpecReplicas), j.targets.Deleted(j.Key)
	return around
}

// findOverrides finds the overrides in force. Where nobody knows whether there are any, nothing is decided,
// unless the decision is made without the store.
func (j *Job) findOverrides() bool {
	j.overrides = nil
	of := j.targets.Overrides
	if of == nil {
		return true
	}
	var all []stages.Override
	var known bool
	if j.awaited { // for the first attempt
		j.awaited = false
		all, known = of.Known(j.Key)
	}
	if !known { // perhaps others have displaced it, even those of the batch
		all, known = of.For(j.ctx, j.Key)
	}
	if !known && !j.Input.HoldDown {
		j.Err = apierror.OfDecisionsStore(j.targets.life, j.Target, of.Problem(j.Key.Cluster))
		return false
	}
	if len(all) == 0 {
		return true
	}
	j.overridesAt = j.Now
	if !j.Timed { // they begin and end at the same instant on all instances
		j.overridesAt = j.targets.clock.ofStore(j.Now)
	}
	j.overrides = stages.InForce(all, j.overridesAt)
	return true
}

func (j *Job) recommend(known *record.Record, next *recommender.History) (staged []byte) {
	reused := &j.room.decision
	if j.history != nil { // which keeps the next history for the target's next job
		reused = nil
	}
	if len(j.overrides) == 0 && j.Around.Alone(j.Input, &known.History, known.Stages, known.Adjusted != nil) {
		j.Input.Summed = j.asked.SumsOf(j.Input, &j.room.recordings)
		j.Decision, *next = recommender.RecommendIn(reused, j.Now, j.Input, &known.History)
		j.Input.Summed = nil
		return nil
	}
	return j.recommendInStages(reused, known, next)
}

// reusedDecisions is memory of decisions.
type reusedDecisions = arena.Decisions[recommender.Condition, recommender.MetricStatus, recommender.TimedRecommendation]

// recommendInStages is apart because what it passes on is allocated, which the usual decision does without.
func (j *Job) recommendInStages(reused *reusedDecisions, known *record.Record, next *recommender.History) (staged []byte) {
	around := j.around(known)
	j.Decision, *next, staged = around.RecommendIn(reused, j.Now, j.Input, &known.History, known.Stages)
	return staged
}

// conflicted records that another caller has changed the target meanwhile.
func (j *Job) conflicted() {
	j.targets.Metrics.conflicts.Inc()
	if j.Span != nil {
		tracing.Conflict(j.Span, j.Attempts)
	}
}
