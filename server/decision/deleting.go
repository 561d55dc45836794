package decision

import (
	"context"
	"errors"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/recommender"
	"github.com/setpoint-dev/setpoint/recommender/encoding"
	"github.com/setpoint-dev/setpoint/server/apierror"
	"github.com/setpoint-dev/setpoint/store"
)

// History loads a target's history; NOT_FOUND if there is none.
func (t *Targets) History(ctx context.Context, target string) (*recommender.History, error) {
	record, err := t.store.Load(ctx, ParseTarget(target))
	switch {
	case err != nil:
		return nil, apierror.OfStore(ctx, target, err)
	case !record.Exists():
		return nil, apierror.UnknownTarget(target)
	}
	history, err := encoding.DecodeHistory(record.Value)
	if err != nil {
		return nil, apierror.OfHistory(target, err)
	}
	return &history, nil
}

// mayDelete returns NOT_FOUND if the target's history is another incarnation's, and
// OTHER_CLUSTER if it is another cluster's. A new incarnation may appear between this
// check and the deletion; its history is not yet worth a lock. An unreadable history
// belongs to no cluster.
func (t *Targets) mayDelete(ctx context.Context, req *setpointv1.DeleteTargetRequest) error {
	incarnation, cluster := recommender.Incarnation(req.GetTargetUid()), recommender.Cluster(req.GetClusterUid())
	if incarnation == 0 && cluster == 0 {
		return nil
	}
	target, key := req.GetName(), ParseTarget(req.GetName())
	record, err := t.store.Load(ctx, key)
	if err != nil && !errors.Is(err, store.ErrUnreadable) {
		return apierror.OfStore(ctx, target, err)
	}
	for _, value := range [][]byte{record.Value, t.outage.valueOf(key)} {
		history, err := encoding.DecodeHistory(value)
		switch {
		case err != nil:
		case !history.IsOfCluster(cluster):
			return apierror.OtherCluster(target)
		case !history.IsOf(incarnation):
			return apierror.UnknownTarget(target)
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
	if !existed {
		return apierror.UnknownTarget(req.GetName())
	}
	t.shares.Leave(key.Cluster)
	if t.Metrics.targets != nil {
		t.Metrics.targets.Forget(key)
	}
	return nil
}
