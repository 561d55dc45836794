package decision

import (
	"context"
	"errors"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/server/apierror"
	"github.com/setpoint-dev/setpoint/server/record"
	"github.com/setpoint-dev/setpoint/server/recordings"
	"github.com/setpoint-dev/setpoint/store"
)

// Record loads a target's record; NOT_FOUND if there is none.
func (t *Targets) Record(ctx context.Context, target string) (*record.Record, error) {
	stored, err := t.store.Load(ctx, ParseTarget(target))
	switch {
	case err != nil:
		return nil, apierror.OfStore(ctx, target, err)
	case !stored.Exists():
		return nil, apierror.UnknownTarget(target)
	}
	known, err := record.Decode(stored.Value)
	if err != nil {
		return nil, apierror.OfHistory(target, err)
	}
	return &known, nil
}

// Load loads the records of targets. The errors are by target, nil for none.
func (t *Targets) Load(ctx context.Context, keys []store.Key) (records []store.Record, errs []error) {
	records, err := t.store.LoadBatch(ctx, keys)
	return records, store.ByItem(err, len(keys), len(records))
}

// mayDelete returns NOT_FOUND if the target's history is another incarnation's, and
// OTHER_CLUSTER if it is another cluster's. A new incarnation may appear between this
// check and the deletion; its history is not yet worth a lock. An unreadable history
// belongs to no cluster.
func (t *Targets) mayDelete(ctx context.Context, req *setpointv1.DeleteTargetRequest) error {
	owner := record.OwnerOf(req.GetTargetUid(), req.GetClusterUid())
	if owner == (record.Owner{}) {
		return nil
	}
	target, key := req.GetName(), ParseTarget(req.GetName())
	stored, err := t.store.Load(ctx, key)
	if err != nil && !errors.Is(err, store.ErrUnreadable) {
		return apierror.OfStore(ctx, target, err)
	}
	for _, value := range [][]byte{stored.Value, t.outage.valueOf(key)} {
		known, err := record.Decode(value)
		switch {
		case err != nil:
		case !known.IsOfCluster(owner.Cluster):
			return apierror.OtherCluster(target)
		case !known.IsOf(owner.Incarnation):
			return apierror.OtherIncarnation(target)
		}
	}
	return nil
}

// forget drops what this instance keeps of a deleted target: otherwise the next outage
// would restore its history. It also drops decisions made without the store during the
// deletion.
func (t *Targets) forget(key store.Key) {
	t.outage.drop(key)
	t.cache.forget(key)
}

// Delete deletes a target's records; NOT_FOUND if there are none.
func (t *Targets) Delete(ctx context.Context, req *setpointv1.DeleteTargetRequest) error {
	key := ParseTarget(req.GetName())
	// Otherwise queued decisions would be written after the deletion.
	if err := t.Decisions.Flush(ctx, key); err != nil {
		return apierror.OfStore(ctx, req.GetName(), err)
	}
	if err := t.mayDelete(ctx, req); err != nil {
		return err
	}
	defer t.outage.beginDelete(key)()
	unwritten := t.outage.drop(key)
	existed, err := t.store.Delete(ctx, key)
	if err != nil {
		t.outage.restore(key, unwritten)
		return apierror.OfStore(ctx, req.GetName(), err)
	}
	t.forget(key)
	if t.Metrics.Targets != nil {
		t.Metrics.Targets.Deleted(key, t.clock.now())
	}
	// Even without a record: an earlier deletion may have failed halfway.
	if err := t.Forecasts.Delete(ctx, key); err != nil {
		return apierror.OfStore(ctx, req.GetName(), err)
	}
	if err := t.deleteRecording(ctx, key); err != nil {
		return apierror.OfStore(ctx, req.GetName(), err)
	}
	if !existed {
		return apierror.UnknownTarget(req.GetName())
	}
	t.Shares.Leave(key.Cluster)
	return nil
}

// quietTargets limits the targets of which one check of the store sees whether they were deleted.
const quietTargets = 100

// hideDeleted ends the metrics of targets that another instance has deleted: they would show for an hour what no longer
// is, and as the newest, because nobody decides any more. A failure is the next minute's matter.
func (t *Targets) hideDeleted(ctx context.Context) {
	if t.Metrics.Targets == nil || t.deletions == nil {
		return
	}
	keys := t.Metrics.Targets.Quiet(quietTargets)
	if len(keys) == 0 {
		return
	}
	deleted, err := t.deletions.DeletedAt(ctx, keys)
	if err != nil {
		return
	}
	for i, key := range keys {
		t.Metrics.Targets.Deleted(key, deleted[i])
	}
}

// deleteRecording deletes what is kept of a target: also where this instance keeps nothing, which others may do, or have done.
func (t *Targets) deleteRecording(ctx context.Context, key store.Key) error {
	if t.Recordings != nil {
		return t.Recordings.Delete(ctx, key)
	}
	if t.chunks == nil {
		return nil
	}
	_, err := recordings.Written(t.chunks, &t.Options.Recordings).Delete(ctx, key)
	return err
}
