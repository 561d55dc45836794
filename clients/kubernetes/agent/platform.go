package agent

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"go.uber.org/zap"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/tools/record"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/setpoint-dev/setpoint/clients/agent"
	"github.com/setpoint-dev/setpoint/clients/agent/shadow"
	"github.com/setpoint-dev/setpoint/clients/kubernetes"
	"github.com/setpoint-dev/setpoint/clients/kubernetes/cluster"
)

// reconciler reconciles the objects of a loop as the controller's queue hands them out; the queue
// never hands out an object twice at once.
type reconciler struct{ loop *agent.Loop }

// Reconcile implements reconcile.TypedReconciler. It never fails: the object's conditions and the
// log report problems.
func (r reconciler) Reconcile(ctx context.Context, key Key) (reconcile.Result, error) {
	wait, again := r.loop.Reconcile(ctx, key)
	if !again {
		return reconcile.Result{}, nil
	}
	return reconcile.Result{RequeueAfter: wait, Priority: &usualPriority}, nil
}

// usualPriority is the priority of all objects. The library begins those that were there at the start below those that came
// later, and would leave them there: under load they would wait for all others.
var usualPriority = 0

// platform is the adapter for the loop. It implements agent.Platform and agent.Teller.
type platform struct {
	cluster   string
	objects   objects
	reader    reader
	shadowing reader // reads for shadows, which must not count as rivals of acting objects
	events    record.EventRecorder
	metrics   *metrics
	rivals    *rivals
	named     NamedMetrics // may be nil
	timeout   time.Duration
	// unread says that what is known of a namespace is out of date; nil: it is not.
	unread func(namespace string) error
	log    *zap.Logger
}

var (
	_ agent.Platform = (*platform)(nil)
	_ agent.Teller   = (*platform)(nil)
)

// kept is the memory of an object. Reconciles of one object never overlap.
type kept struct {
	// rivalry is the state of another controller that writes the object's status.
	rivalry rivalry
	// written is the object returned by the last write of its status, and the resourceVersion
	// that it replaced; while the cache still has that version, written is newer.
	written client.Object
	over    string
}

// forget drops what is known of an object that is gone, or whose name another one has; before is
// nil if nothing is.
func (p *platform) forget(before *agent.Object) {
	if before != nil {
		p.leave(seenOf(before).object, false)
		p.rivals.forget(seenOf(before).kept)
	}
}

// leave makes the readers forget an object, but for the one that reads it if it is read, so that it
// no longer conflicts with others.
func (p *platform) leave(o *object, isRead bool) {
	for _, from := range []reader{p.reader, p.shadowing} {
		if !isRead || from != p.readerOf(o.shadow) {
			from.Forget(o.key.Namespace, o.key.Name, o.autoscaler.UID)
		}
	}
}

func (p *platform) readerOf(shadow bool) reader {
	if shadow {
		return p.shadowing
	}
	return p.reader
}

// seen is an object with its kept state.
type seen struct {
	*object
	*kept
}

// seenOf returns what Object attached.
func seenOf(o *agent.Object) seen { return o.Native.(seen) }

// stored returns the newest known version of the object: the last written one until the cache
// has seen it.
func (s seen) stored() client.Object {
	if s.written != nil && s.over == s.object.stored.GetResourceVersion() {
		return s.written
	}
	s.written = nil
	return s.object.stored
}

// Object implements agent.Platform.
func (p *platform) Object(ctx context.Context, key Key, before *agent.Object) (*agent.Object, error) {
	o, err := p.objects.get(ctx, key)
	if apierrors.IsNotFound(err) {
		p.forget(before)
		return nil, agent.ErrGone
	}
	if err != nil {
		return nil, err
	}
	if err := p.unread(key.Namespace); err != nil {
		return nil, err
	}
	s := seen{o, &kept{}}
	if before.Is(string(o.autoscaler.UID)) {
		s.kept = seenOf(before).kept
	} else {
		p.forget(before)
	}
	p.rivals.notice(s)
	hold, err := p.hold(ctx, s)
	if err != nil {
		return nil, fmt.Errorf("other autoscalers: %w", err)
	}
	p.leave(o, hold == nil)
	read := &agent.Object{
		Key: key, UID: string(o.autoscaler.UID), Target: o.target(), New: o.isNew(),
		Period: o.period, Shadow: o.shadow, Options: o.options, Stages: o.stages, Fleet: o.fleet, Spec: kubernetes.SpecToProto(&o.autoscaler.Spec),
		Revision: o, Hold: hold, Native: s,
	}
	if warning := both(o.warning, o.problem); warning != nil {
		read.Warning = warning.Error()
	}
	if !o.shadow { // the status of a shadow is the other controller's
		read.LastChange = &time.Time{}
		if at := statusOf(s.stored()).LastScaleTime; at != nil {
			read.LastChange = &at.Time
		}
	}
	if c := conditionOf(statusOf(s.stored()), autoscalingv2.AbleToScale); c != nil && c.Status == corev1.ConditionFalse {
		read.Held = c.Reason
	}
	return read, nil
}

// hold returns why an object must not be scaled; nil: it is scaled.
func (p *platform) hold(ctx context.Context, s seen) (*agent.Hold, error) {
	if s.rivalry.certain && !p.rivals.keepOn {
		// Another controller acts on it, whatever is wrong with it: a condition of its own and an occasional log line say so.
		return &agent.Hold{Outcome: agent.OutcomeGaveWay, Reason: agent.ReasonStatusWrittenByAnother, Message: p.rivals.message(s), Silent: true}, nil
	}
	if s.problem != nil {
		return &agent.Hold{Outcome: agent.OutcomeInvalid, Reason: agent.ReasonInvalidObject, Message: s.problem.Error()}, nil
	}
	if s.shadow {
		return nil, nil // it has no rivals
	}
	rival, err := p.objects.rival(ctx, s.object)
	if err != nil {
		return nil, err
	}
	if rival != "" {
		return &agent.Hold{Outcome: agent.OutcomeConflict, Reason: agent.ReasonConflictingAutoscaler, Message: rival}, nil
	}
	return nil, nil
}

// Observe implements agent.Platform.
func (p *platform) Observe(ctx context.Context, read *agent.Object) (*agent.Observation, error) {
	o := seenOf(read).object
	snapshot, err := snapshotFor(ctx, p.readerOf(read.Shadow), o, p.named, p.timeout)
	if err != nil {
		return nil, err
	}
	// The loop fills in the names of the target.
	request, err := snapshot.Request(p.cluster)
	if err != nil {
		return nil, err
	}
	observation := &agent.Observation{Request: request, Native: snapshot}
	if read.Shadow {
		p.compareWith(ctx, o, observation)
	}
	return observation, nil
}

// compareWith fills in the decision of the acting controller.
func (p *platform) compareWith(ctx context.Context, o *object, observation *agent.Observation) {
	native, err := p.objects.native(ctx, o)
	if err != nil {
		p.log.Error("autoscaler in charge not read", zap.Stringer("object", o.key), zap.Error(err))
		return
	}
	var side shadow.Side
	observation.Against, side = sideInCharge(native, snapshotOf(observation), o)
	observation.InCharge = &side
	if native != nil && native.Status.LastScaleTime != nil {
		observation.LastScale = native.Status.LastScaleTime.Time
	}
}

// snapshotOf returns what Observe attached.
func snapshotOf(observation *agent.Observation) *kubernetes.Snapshot {
	return observation.Native.(*kubernetes.Snapshot)
}

// Apply implements agent.Platform.
func (p *platform) Apply(ctx context.Context, _ *agent.Object, seen *agent.Observation, change agent.Change) error {
	snapshot := snapshotOf(seen)
	_, err := p.reader.Apply(ctx, snapshot, change.To)
	if _, ok := errors.AsType[*cluster.MovedError](err); ok {
		return fmt.Errorf("%w: %w", agent.ErrMoved, err)
	}
	if unsure(err) {
		return agent.Written(change.To, err, func() (int32, error) { return p.reader.Replicas(ctx, snapshot) })
	}
	return err
}

// unsure reports whether a write that failed may have been made: the API server did not answer, or failed after it.
func unsure(err error) bool {
	said, ok := errors.AsType[*apierrors.StatusError](err)
	return err != nil && (!ok || said.Status().Code >= http.StatusInternalServerError)
}
