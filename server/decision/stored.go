package decision

import (
	"context"
	"errors"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/server/access"
	"github.com/setpoint-dev/setpoint/server/limit"
	"github.com/setpoint-dev/setpoint/server/shares"
	"github.com/setpoint-dev/setpoint/server/stored"
	"github.com/setpoint-dev/setpoint/server/waits"
	"github.com/setpoint-dev/setpoint/store"
)

// Stored returns the specs and observations in the engine, nil if it does not support them.
// recommend decides on them, and room waits until that many bytes may be processed. The
// limits of clusters apply to specs and observations separately.
func (t *Targets) Stored(engine store.Store, recommend func(context.Context, *setpointv1.RecommendRequest) (*setpointv1.RecommendResponse, error),
	room func(context.Context, int) (func(), error)) (*stored.Targets, error) {
	parts, ok := engine.(store.Parts)
	if !ok {
		return nil, nil
	}
	observed, ok := t.store.(*observedStore)
	if !ok {
		return nil, nil
	}
	bounded := make(map[store.Part]*shares.Shares)
	for part, ttl := range stored.Lives {
		records, err := parts.Part(part, ttl)
		if err != nil {
			return nil, err
		}
		bounded[part] = shares.New(records, t.Options.shares(), t.refuseShare)
	}
	return stored.New(observed, stored.Options{
		Recommend: recommend,
		Clock:     t.Options.Clock,
		Room:      room,
		Sources:   t.sources(),
		Place: func(ctx context.Context, part store.Part, key store.Key, more store.Usage) (func(bool), error) {
			of := bounded[part]
			err := of.Place(ctx, key.Cluster, more, access.CallerOf(ctx))
			return func(kept bool) { of.Settle(key.Cluster, more, kept) }, err
		},
		Left: func(part store.Part, key store.Key) { bounded[part].Leave(key.Cluster) },
	})
}

// sources are those of the options. Too many fetches are refused like too many calls.
func (t *Targets) sources() stored.Sources {
	if t.Options.Sources == nil {
		return nil
	}
	return &refusingSources{t.Options.Sources, t.Refuse}
}

type refusingSources struct {
	stored.Sources
	refuse func(limit.Reason) error
}

// Fetch implements stored.Sources. A source may be slow: the call holds nothing that others need.
func (s *refusingSources) Fetch(ctx context.Context, key store.Key, spec *setpointv1.TargetSpec, pods []string) (fetched *stored.Fetched, err error) {
	err = waits.For(ctx, waits.Fetch, func() error {
		fetched, err = s.Sources.Fetch(ctx, key, spec, pods)
		return err
	})
	if errors.Is(err, stored.ErrBusy) {
		return nil, s.refuse(limit.Fetches)
	}
	return fetched, err
}
