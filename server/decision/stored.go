package decision

import (
	"context"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/server/access"
	"github.com/setpoint-dev/setpoint/server/stored"
	"github.com/setpoint-dev/setpoint/store"
)

// Stored returns what the engine keeps of specs and observations, nil if it keeps none.
// recommend decides on what is stored. What clusters may take of specs is bounded apart.
func (t *Targets) Stored(engine store.Store, recommend func(context.Context, *setpointv1.RecommendRequest) (*setpointv1.RecommendResponse, error)) *stored.Targets {
	parts, ok := engine.(store.Parts)
	if !ok {
		return nil
	}
	observed, ok := t.store.(*observedStore)
	if !ok {
		return nil
	}
	specs := newShares(parts.Part(store.Specs, 0), t.Options, t.shares.refused)
	return stored.New(observed, stored.Options{
		Recommend: recommend,
		Clock:     t.Options.Clock,
		Place: func(ctx context.Context, key store.Key, bytes int) (func(bool), error) {
			err := specs.place(ctx, key.Cluster, bytes, access.CallerOf(ctx))
			return func(kept bool) { specs.settle(key.Cluster, bytes, kept) }, err
		},
	})
}
