package decision

import (
	"context"
	"errors"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/recommender/encoding"
	"github.com/setpoint-dev/setpoint/server/apierror"
	"github.com/setpoint-dev/setpoint/server/auth/policy"
	"github.com/setpoint-dev/setpoint/server/conversion"
	"github.com/setpoint-dev/setpoint/server/waits"
	"github.com/setpoint-dev/setpoint/store"
)

// ListedAtOnce is how many records are loaded at once for a list, and listsAtOnce, per
// processor, how many such loads run at a time: records may be a thousand times as large as
// their entries in a list.
const ListedAtOnce, listsAtOnce = 50, 2

// EnterList waits until records may be loaded for a list: only a few lists load at a time.
// Call leave afterwards. The error is the context's.
func (t *Targets) EnterList(ctx context.Context) (leave func(), err error) {
	leave = func() { <-t.lists }
	select {
	case t.lists <- struct{}{}:
		return leave, nil
	default:
	}
	err = waits.For(ctx, waits.List, func() error {
		select {
		case t.lists <- struct{}{}:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	})
	return leave, err
}

// AppendTargets adds the existing targets to a list.
func (t *Targets) AppendTargets(ctx context.Context, response *setpointv1.ListTargetsResponse, parent string, keys []store.Key) error {
	leave, err := t.EnterList(ctx)
	if err != nil {
		return apierror.OfContext(ctx)
	}
	defer leave()
	records, err := t.store.LoadBatch(ctx, keys)
	errs := byItem(err, len(keys), len(records))
	for i, key := range keys {
		target := &setpointv1.Target{Name: key.String()}
		switch {
		case errs != nil && errors.Is(errs[i], store.ErrUnreadable):
			// An unreadable target is listed by name, so that it can be deleted.
			response.Targets = append(response.Targets, target)
			continue
		case errs != nil && errs[i] != nil:
			return apierror.OfStore(ctx, parent, errs[i])
		case !records[i].Exists():
			continue // deleted since it was listed
		}
		if history, err := encoding.DecodeHistory(records[i].Value); err == nil {
			target = conversion.Target(target.GetName(), &history, false)
		}
		response.Targets = append(response.Targets, target)
	}
	return nil
}

const (
	// maxListSteps limits the reads of the store for one page. Each step but the first
	// skips targets that the caller may not read, at least a namespace.
	maxListSteps = 32
	// probe is how many keys are requested after one that the caller may not read.
	probe = 16
)

// Visible returns up to size targets after a key that the caller may read, and the key to continue
// from; the zero key: there are no more. A page may be short although there are more: a call takes
// a bounded number of steps to skip targets that the caller may not read.
func (t *Targets) Visible(ctx context.Context, filter store.Filter, scope *policy.Scope, after store.Key, size int) (keys []store.Key, next store.Key, err error) {
	return Visible(ctx, t.store, filter, scope, after, size)
}

// Visible is Targets.Visible for any store.
func Visible(ctx context.Context, of store.Store, filter store.Filter, scope *policy.Scope, after store.Key, size int) (keys []store.Key, next store.Key, err error) {
	if scope == nil || scope.All() {
		keys, err = of.List(ctx, filter, after, size)
		if len(keys) == size {
			next = keys[size-1]
		}
		return keys, next, err
	}
	for step, limit := 0, size; step < maxListSteps; step++ {
		found, err := of.List(ctx, filter, after, limit)
		if err != nil {
			return nil, store.Key{}, err
		}
		foreign := false
		for _, key := range found {
			after = key
			if foreign = !scope.Contains(key.Cluster, key.Namespace); foreign {
				break
			}
			keys = append(keys, key)
		}
		if len(keys) == size {
			return keys, after, nil
		}
		if !foreign {
			if len(found) < limit {
				return keys, store.Key{}, nil
			}
			limit = size - len(keys)
			continue
		}
		cluster, namespace, more := scope.After(after.Cluster, after.Namespace)
		if !more {
			return keys, store.Key{}, nil
		}
		after = store.Key{Cluster: cluster, Namespace: namespace}
		limit = min(size-len(keys), probe)
	}
	return keys, after, nil
}
