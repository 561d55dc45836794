package agent

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/setpoint-dev/setpoint/clients/agent/pace"
	"github.com/setpoint-dev/setpoint/clients/agent/shadow"
	"github.com/setpoint-dev/setpoint/internal/target"
)

// Loop reconciles all objects. It is safe for concurrent use, but reconciles of one object
// must not overlap.
type Loop struct {
	options     Options
	queue       QueueOptions
	platform    *guarded
	recommender Recommender
	asker       *asker
	presence    *presence
	states      *states
	metrics     *metrics
	shadows     *shadow.Ledger
	log         *zap.Logger
	once        once
	rivals      *rivals
	// rival is when another caller of a target was last seen, in nanoseconds since 1970; 0: never.
	rival atomic.Int64
}

// New returns a loop over the objects of a platform, which may also be a Teller. It connects
// to nothing.
func New(p Platform, service Service, options Options, queue QueueOptions) (*Loop, error) {
	options, err := options.withDefaults()
	if err == nil {
		queue, err = queue.withDefaults()
	}
	if err != nil {
		return nil, err
	}
	if service.Calls == nil {
		return nil, errors.New("no recommender")
	}
	shadows := shadow.NewLedger()
	m, err := newMetrics(options.Registerer, options.Sources, shadows.Divergent)
	if err != nil {
		return nil, err
	}
	l := &Loop{
		options: options, queue: queue, recommender: service.Calls,
		asker:  &asker{stream: service.Stream, calls: service.Calls, timeout: options.RequestTimeout, metrics: m},
		states: newStates(m), metrics: m, rivals: newRivals(service.Announce, &options, m), shadows: shadows, log: options.Log,
	}
	l.platform = &guarded{Platform: p, timeout: 3 * options.RequestTimeout, log: options.Log, once: &l.once}
	l.platform.teller, _ = p.(Teller)
	l.presence = newPresence(func(keys ...Key) {
		l.states.makeDue(keys)
		queue.Wake(keys...)
	}, service.Redial, m, l.log, &l.once)
	return l, nil
}

// Probe asks the service once a second while it is away, until the context ends. It must run
// while Reconcile is called.
func (l *Loop) Probe(ctx context.Context) { l.presence.run(ctx) }

// Shadows reports how far the decisions of shadows agree with the acting controllers.
func (l *Loop) Shadows() *shadow.Report { return l.shadows.Report(time.Now().UTC()) }

// SetClusterUID sets Options.ClusterUID if it was not known before, before the first reconcile.
func (l *Loop) SetClusterUID(uid string) { l.options.ClusterUID = uid }

// rivalSeen is how long another caller of a target counts after it was last seen.
const rivalSeen = 5 * time.Minute

// Rival says that another agent acts on the same platform, or another caller asks about the same
// targets; empty: none is known.
func (l *Loop) Rival() string {
	if problem := l.rivals.problem(); problem != "" {
		return problem
	}
	at := l.rival.Load()
	if ago := time.Since(time.Unix(0, at)); at != 0 && ago >= 0 && ago < rivalSeen {
		return fmt.Sprintf("another caller asks the service about the same targets, last seen %s ago: of two agents each undoes the counts of the other; keep one", ago.Round(time.Second))
	}
	return ""
}

// Objects returns the objects with state, ordered by namespace, name and kind.
func (l *Loop) Objects() []Key { return l.states.keys() }

// Reconcile reconciles the object if it is due, and returns the wait until it is due again; false:
// the object no longer exists. It never fails: the platform and the log report problems.
func (l *Loop) Reconcile(ctx context.Context, key Key) (wait time.Duration, again bool) {
	// A reconcile that has begun also finishes when the agent stops: an applied count is
	// reported.
	ctx = context.WithoutCancel(ctx)
	st := l.states.of(key)
	o, err := l.platform.Object(ctx, key, st.last)
	if errors.Is(err, ErrGone) {
		return l.deleted(ctx, key, st)
	}
	if err != nil {
		return l.unread(ctx, key, st, err), true
	}
	now := time.Now()
	st.unread, st.unforgotten = 0, 0
	if st.uid != nil && *st.uid != o.UID {
		// A new object under this name: the state belongs to the deleted one.
		l.once.say(l.log, zapcore.InfoLevel, "another object of this name: its history begins anew", "", zap.Stringer("object", key))
		l.forget(ctx, key, st)
		st = l.states.replace(key, st)
	}
	st.last, st.uid = o, &o.UID
	o = l.withDefaults(o)
	if wait := l.awaitFirst(st, o, now); wait > 0 {
		return wait, true
	}
	due := l.states.begin(st)
	if wait := due.Sub(now); wait > 0 {
		if !o.sameAs(st.seen) {
			wait = min(wait, st.notBefore(o.Period).Sub(now))
		}
		if wait > 0 {
			return wait, true
		}
	}
	if due.IsZero() || now.Before(due) {
		st.outOfTurn = true
	} else {
		l.metrics.lag.Observe(now.Sub(due).Seconds())
	}
	if !o.Shadow && o.Hold == nil { // of what is held it may not be known whether it is one, as for a moment with a misspelled label
		l.shadows.Forget(key)
	}
	next := l.reconcile(ctx, o, st)
	// The clock is read again, so that a long reconcile is not followed by one at once.
	return max(time.Millisecond, time.Until(l.states.end(st, next))), true
}

// unread returns when to retry an object that could not be read.
func (l *Loop) unread(ctx context.Context, key Key, st *state, err error) time.Duration {
	l.once.say(l.log, l.queue.LogLevel(zapcore.ErrorLevel, err), "object not read", causeOf(err.Error()), zap.Stringer("object", key), zap.Error(err))
	if o := st.seen; o != nil && l.of(o, st).isBlind() {
		r := l.of(o, st)
		r.lost()
		if admitted, _, _ := l.presence.admit(key); admitted {
			if told, err := r.tellBlind(ctx, err); err != nil {
				r.telling.Outcome = r.failed(ctx, told, err)
				l.platform.Tell(ctx, r.telling)
			}
		}
	} else {
		l.presence.pass(key)
	}
	now := time.Now()
	st.unread++
	return pace.RetryAt(now, st.unread, l.options.Period, key.Namespace).Sub(now)
}

// withDefaults returns an object with the defaults of the loop.
func (l *Loop) withDefaults(o *Object) *Object {
	filled := *o
	filled.Period = cmp.Or(filled.Period, l.options.Period)
	filled.Shadow = o.Shadow || l.options.Shadow
	filled.Target = cmp.Or(filled.Target, o.Key.Name)
	if filled.Shadow {
		filled.Target += ShadowSuffix
		if most := target.MaxSegment; len(filled.Target) > most {
			filled.Hold = &Hold{Reason: ReasonInvalidObject, Message: fmt.Sprintf("its name is too long for a shadow: the service takes %d characters of %s", most, filled.Target)}
		}
		if filled.Fleet != "" {
			filled.Hold = &Hold{Reason: ReasonInvalidObject, Message: "a member of a fleet can't be a shadow: one decision is for all members, and " +
				"the fleet has no second one; remove one of the two"}
		}
	}
	return &filled
}

// awaitFirst returns how long a new object waits for its first reconcile: a period from when
// it was first seen, as with Kubernetes' built-in controller, because its workload may be new,
// too, and have no pods or metrics yet. A change of its spec does not shorten that.
func (l *Loop) awaitFirst(st *state, o *Object, now time.Time) time.Duration {
	if st.seen != nil || l.options.FirstWait < 0 {
		return 0
	}
	if st.sighted.IsZero() {
		st.sighted = now
	}
	wait := min(o.Period, l.options.FirstWait)
	if !o.New {
		return l.awaitChanged(st, o, now, wait)
	}
	due, stray := pace.Next(st.sighted, st.sighted.Add(wait), wait, o.Key.Namespace, true)
	st.outOfTurn = stray
	if wait := l.states.end(st, due).Sub(now); wait > 0 {
		return wait
	}
	return 0
}

// awaitChanged returns how long an object waits for its first reconcile after another agent
// changed its count: until a period after that change, as that agent would have waited. The
// wait ends at most a period after the object was first seen, so that further changes can't
// delay it forever, and so that a clock skew between both agents does not matter.
func (l *Loop) awaitChanged(st *state, o *Object, now time.Time, most time.Duration) time.Duration {
	if o.LastChange == nil || o.LastChange.IsZero() {
		return 0
	}
	due := st.sighted.Add(most)
	if after := o.LastChange.Add(o.Period); after.Before(due) {
		due = after
	}
	return max(0, due.Sub(now))
}

// of is a reconcile of an object.
func (l *Loop) of(o *Object, st *state) *reconcile {
	return &reconcile{
		Loop: l, o: o, st: st, log: l.log.WithLazy(zap.Stringer("object", o.Key)),
		telling: &Telling{Object: o, Dry: l.options.Shadow, loop: l},
	}
}

// reconcile runs one reconcile and returns when the next is due.
func (l *Loop) reconcile(ctx context.Context, o *Object, st *state) time.Time {
	began := time.Now()
	r := l.of(o, st)
	r.telling.Outcome = r.run(ctx)
	l.platform.Tell(ctx, r.telling)
	l.metrics.reconciles.WithLabelValues(string(r.telling.Outcome)).Inc()
	l.metrics.reconcileTime.Observe(time.Since(began).Seconds())
	if l.states.saw(st, o) && l.queue.ShortestPeriod != nil {
		l.queue.ShortestPeriod(l.states.shortestPeriod())
	}
	if r.retry {
		st.failures++
		st.outOfTurn = true
		return pace.RetryAt(time.Now(), st.failures, o.Period, o.Key.Namespace)
	}
	st.failures = 0
	st.settled = r.settled
	if r.settled.IsZero() {
		st.settled = time.Now()
	}
	var next time.Time
	next, st.outOfTurn = pace.Next(st.settled, st.soonestAfter(st.settled, o.Period), o.Period, o.Key.Namespace, st.outOfTurn)
	return next
}

// maxForgetAttempts bounds the attempts to delete a deleted object's target at the service;
// after that the history expires, and the first reconcile of a recreated object deletes it.
const maxForgetAttempts = 8

// deleted drops the state of an object that no longer exists.
func (l *Loop) deleted(ctx context.Context, key Key, st *state) (wait time.Duration, again bool) {
	st.last = nil
	if l.forget(ctx, key, st) {
		return 0, false
	}
	if st.unforgotten++; st.unforgotten >= maxForgetAttempts {
		l.states.drop(key)
		return 0, false
	}
	return pace.FirstBackoff << st.unforgotten, true
}

// forget removes an object from the service and the agent; false: the service could not be
// reached.
func (l *Loop) forget(ctx context.Context, key Key, st *state) bool {
	l.presence.forget(key)
	l.shadows.Forget(key)
	for _, observer := range l.options.Observers {
		observer.Forget(key)
	}
	for _, gone := range []map[string]string{st.stale, st.targets} {
		if err := l.deleteTargets(ctx, gone); err != nil {
			l.once.say(l.log, zapcore.WarnLevel, "target of a deleted object not deleted at the recommender", causeOf(err.Error()), zap.Stringer("object", key), zap.Error(err))
			return false
		}
	}
	l.states.drop(key)
	return true
}
