package agent

import (
	"context"
	"time"

	"go.uber.org/zap"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/tools/record"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/setpoint-dev/setpoint/clients/kubernetes/agent/shadow"
)

// loop has the rounds of all objects. One object's never overlap, which is the queue's
// doing.
type loop struct {
	cluster     string
	clusterUID  string // "": it is not known
	objects     objects
	reader      reader
	shadowing   reader // of shadows, which must not count as rivals of those that act
	recommender Recommender
	asker       *asker
	presence    *presence
	states      *states
	events      record.EventRecorder
	metrics     *metrics
	observers   []Observer
	shadows     *shadow.Ledger
	rivals      *rivals
	// syncPeriod is that of objects that set none.
	syncPeriod time.Duration
	// firstWait is how long a new object waits for its first round at most; 0: it does not.
	firstWait time.Duration
	log       *zap.Logger
	// outage knows whether the API server answers. Nil: it does.
	outage *outage
	// timeout bounds a call of the recommender, and a third of a round.
	timeout time.Duration
	// setMaxAge says how old a reading may be that rounds share. May be nil.
	setMaxAge func(time.Duration)
}

// maxReadingAge is how old a reading may be that rounds share, at most.
const maxReadingAge = time.Second

// Reconcile has a round of the object if one is due, and returns when the next one is.
// It never fails: what goes wrong is told in the object's conditions, and in the log.
func (l *loop) Reconcile(ctx context.Context, key Key) (reconcile.Result, error) {
	// What has begun is brought to its end when the agent is to stop: a count that was
	// written is reported.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 3*l.timeout)
	defer cancel()
	o, err := l.objects.get(ctx, key)
	if apierrors.IsNotFound(err) {
		return l.deleted(ctx, key), nil
	}
	if err != nil {
		l.log.Error("object not read", zap.Stringer("object", key), zap.Error(err))
		return reconcile.Result{RequeueAfter: firstBackoff}, nil
	}
	now, st := time.Now(), l.states.of(key)
	if st.seen != nil && st.seen.autoscaler.UID != o.autoscaler.UID {
		// Another object of the same name: what was kept is its namesake's.
		l.forget(ctx, key, st)
		st = l.states.replace(key, st)
	}
	l.rivals.notice(st, o)
	if wait := l.awaitFirst(st, o, now); wait > 0 {
		return reconcile.Result{RequeueAfter: wait}, nil
	}
	due := l.states.begin(st)
	if wait := due.Sub(now); wait > 0 && o.sameAs(st.seen) {
		return reconcile.Result{RequeueAfter: wait}, nil
	}
	if due.IsZero() || now.Before(due) {
		st.astray = true
	} else {
		l.metrics.lag.Observe(now.Sub(due).Seconds())
	}
	if !o.shadow && st.seen != nil && st.seen.shadow {
		l.shadows.Forget(shadowKey(key))
	}
	next := l.round(ctx, o, st)
	// The clock is read again: a round that took long is not followed by one at once.
	wait := max(time.Millisecond, time.Until(l.states.end(st, next)))
	return reconcile.Result{RequeueAfter: wait}, nil
}

// awaitFirst returns how long an object that nobody has evaluated yet waits for its
// first round: a period from when it was first seen, as with the built-in controller,
// for its workload may have been made with it, and have no pods or metrics yet. A change
// of its spec does not shorten that.
func (l *loop) awaitFirst(st *state, o *object, now time.Time) time.Duration {
	if st.seen != nil || l.firstWait == 0 || !o.isNew(now) {
		return 0
	}
	if st.sighted.IsZero() {
		st.sighted = now
	}
	due, stray := nextRound(st.sighted, min(o.period, l.firstWait), o.key.Namespace, true)
	st.astray = stray
	if wait := l.states.end(st, due).Sub(now); wait > 0 {
		return wait
	}
	return 0
}

// round has one round and returns when the next is due.
func (l *loop) round(ctx context.Context, o *object, st *state) time.Time {
	began := time.Now()
	r := &round{loop: l, o: o, st: st, log: l.log.With(zap.Stringer("object", o.key))}
	outcome := r.run(ctx)
	l.metrics.rounds.WithLabelValues(outcome).Inc()
	l.metrics.roundTime.Observe(time.Since(began).Seconds())
	if l.states.saw(st, o) && l.setMaxAge != nil {
		// A reading is never older than half of a period.
		l.setMaxAge(min(maxReadingAge, l.states.shortestPeriod(maxSyncPeriod)/2))
	}
	if r.retry {
		st.failures++
		st.astray = true
		return retryAt(time.Now(), st.failures, o.period, o.key.Namespace)
	}
	st.failures = 0
	if r.settled.IsZero() {
		r.settled = time.Now()
	}
	var next time.Time
	next, st.astray = nextRound(r.settled, o.period, o.key.Namespace, st.astray)
	return next
}

// maxForgetAttempts bounds how often the service is told that an object is gone; after
// that its history expires by itself, and a namesake's first round deletes it.
const maxForgetAttempts = 8

// deleted ends what there is of an object that is no more.
func (l *loop) deleted(ctx context.Context, key Key) reconcile.Result {
	st := l.states.find(key)
	if st == nil {
		return reconcile.Result{}
	}
	if l.forget(ctx, key, st) {
		return reconcile.Result{}
	}
	if st.failures++; st.failures >= maxForgetAttempts {
		l.states.drop(key)
		return reconcile.Result{}
	}
	return reconcile.Result{RequeueAfter: firstBackoff << st.failures}
}

// forget has the service, the reader and the agent forget an object; false: the service
// could not be told.
func (l *loop) forget(ctx context.Context, key Key, st *state) bool {
	l.reader.Forget(key.Namespace, key.Name)
	l.shadowing.Forget(key.Namespace, key.Name)
	l.presence.forget(key)
	l.rivals.forget(st)
	l.shadows.Forget(shadowKey(key))
	for _, observer := range l.observers {
		observer.Forget(key)
	}
	for _, gone := range []map[string]string{st.stale, st.targets} {
		if err := l.deleteTargets(ctx, gone); err != nil {
			l.log.Warn("recommender not told that an object is gone", zap.Stringer("object", key), zap.Error(err))
			return false
		}
	}
	l.states.drop(key)
	return true
}
