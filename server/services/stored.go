package services

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

// newStored returns the specs and observations in the engine. The limits of clusters apply to specs and
// observations separately.
func (s *Recommendations) newStored(engine store.Engine) (*stored.Targets, error) {
	options := s.targets.Options.Shares()
	bounded := make(map[store.Part]*shares.Shares)
	for part, ttl := range stored.Lives {
		records, err := engine.Part(part, ttl)
		if err != nil {
			return nil, err
		}
		bounded[part] = shares.New(records, options, s.requests.RefuseShare)
	}
	return stored.New(s.targets.Store().(store.Engine), stored.Options{
		Recommend: s.recommendStored,
		Clock:     s.targets.Options.Clock,
		Turn:      s.guard.LoadInTurn,
		Room:      s.storedRoom,
		Sources:   s.refusing(),
		Place: func(ctx context.Context, part store.Part, key store.Key, more store.Usage) (func(bool), error) {
			return bounded[part].Room(ctx, key.Cluster, options.For(access.CallerOf(ctx)))(more)
		},
		Left: func(part store.Part, key store.Key) { bounded[part].Leave(key.Cluster) },
	})
}

// refusing are the sources of the options. Too many fetches are refused like too many calls.
func (s *Recommendations) refusing() stored.Sources {
	if s.sources == nil {
		return nil
	}
	return &refusingSources{s.sources, s.requests.Refuse}
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
