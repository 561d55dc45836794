package services

import (
	"context"
	"errors"
	"slices"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/server/access"
	"github.com/setpoint-dev/setpoint/server/apierror"
	"github.com/setpoint-dev/setpoint/server/auth/policy"
	"github.com/setpoint-dev/setpoint/server/conversion"
	"github.com/setpoint-dev/setpoint/server/decision"
	"github.com/setpoint-dev/setpoint/server/stored"
	"github.com/setpoint-dev/setpoint/store"
)

// Default page sizes.
const (
	defaultTargetsPage   = 100
	defaultDecisionsPage = 50
)

// Targets reads and deletes targets and their stored specs.
type Targets struct {
	setpointv1.UnimplementedTargetServiceServer
	targets *decision.Targets
	log     store.Log
	pages   *pageTokens
	stored  *stored.Targets // nil: the store has no specs
	watches *watches
}

// NewTargets returns the service, with the targets of the recommendations' service.
func NewTargets(r *Recommendations, engine store.Store, log store.Log, watch WatchOptions) *Targets {
	pages := newPageTokens(engine)
	return &Targets{targets: r.targets, log: log, pages: pages, stored: r.stored, watches: newWatches(watch, pages)}
}

// GetTarget returns one target.
func (s *Targets) GetTarget(ctx context.Context, req *setpointv1.GetTargetRequest) (*setpointv1.GetTargetResponse, error) {
	if err := decision.CheckStructure(req); err != nil {
		return nil, err
	}
	if err := access.CallerOf(ctx).Check(policy.Read, decision.ParseTarget(req.GetName())); err != nil {
		return nil, err
	}
	history, err := s.targets.History(ctx, req.GetName())
	if err != nil {
		return nil, err
	}
	target := conversion.Target(req.GetName(), history, true)
	if target.TargetSpec, err = s.specOf(ctx, req.GetName()); err != nil {
		return nil, err
	}
	return &setpointv1.GetTargetResponse{Target: target}, nil
}

// specOf returns the stored spec; nil if there is none.
func (s *Targets) specOf(ctx context.Context, name string) (*setpointv1.TargetSpec, error) {
	if s.stored == nil {
		return nil, nil
	}
	spec, err := s.stored.Spec(ctx, decision.ParseTarget(name))
	switch {
	case errors.Is(err, stored.ErrNoSpec):
		return nil, nil
	case err != nil:
		return nil, apierror.OfStored(ctx, name, err)
	}
	return spec, nil
}

// ListTargets returns a page of the targets that the caller may read.
func (s *Targets) ListTargets(ctx context.Context, req *setpointv1.ListTargetsRequest) (*setpointv1.ListTargetsResponse, error) {
	if err := decision.CheckStructure(req); err != nil {
		return nil, err
	}
	size := pageSize(req.GetPageSize(), defaultTargetsPage)
	filter := decision.ParseParent(req.GetParent())
	scope, err := access.CallerOf(ctx).Within(policy.Read, filter)
	if err != nil {
		return nil, err
	}
	list := listOf(ctx, listTargetsMethod, req.GetParent(), scope)
	position, err := s.pages.position(ctx, list, req.GetPageToken())
	if err != nil {
		return nil, err
	}
	after, err := keyAt(position)
	if err != nil {
		return nil, err
	}
	keys, next, err := s.targets.Visible(ctx, filter, scope, after, size)
	if err != nil {
		return nil, apierror.OfStore(ctx, req.GetParent(), err)
	}
	response := &setpointv1.ListTargetsResponse{}
	if next != (store.Key{}) {
		if response.NextPageToken, err = s.pages.next(ctx, list, positionOf(next)); err != nil {
			return nil, err
		}
	}
	for some := range slices.Chunk(keys, decision.ListedAtOnce) {
		if err := s.targets.AppendTargets(ctx, response, req.GetParent(), some); err != nil {
			return nil, err
		}
	}
	return response, nil
}

func pageSize(asked int32, fallback int) int {
	if asked == 0 {
		return fallback
	}
	return int(asked)
}

// DeleteTarget deletes a target and its history.
func (s *Targets) DeleteTarget(ctx context.Context, req *setpointv1.DeleteTargetRequest) (*setpointv1.DeleteTargetResponse, error) {
	if err := decision.CheckStructure(req); err != nil {
		return nil, err
	}
	if err := access.CallerOf(ctx).Check(policy.Delete, decision.ParseTarget(req.GetName())); err != nil {
		return nil, err
	}
	if err := access.CallerOf(ctx).CheckChange(policy.Delete, decision.ParseTarget(req.GetName())); err != nil {
		return nil, err
	}
	if err := s.targets.Delete(ctx, req); err != nil {
		return nil, err
	}
	return &setpointv1.DeleteTargetResponse{}, nil
}
