package server

import (
	"context"
	"errors"
	"slices"

	"google.golang.org/grpc"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/recommender"
	"github.com/setpoint-dev/setpoint/server/access"
	"github.com/setpoint-dev/setpoint/server/apierror"
	"github.com/setpoint-dev/setpoint/server/auth/policy"
	"github.com/setpoint-dev/setpoint/server/conversion"
	"github.com/setpoint-dev/setpoint/server/stored"
	"github.com/setpoint-dev/setpoint/store"
)

// Sizes of a page that asks for none.
const (
	defaultTargetsPage   = 100
	defaultDecisionsPage = 50
)

// targetService reads and forgets what is kept of targets.
type targetService struct {
	setpointv1.UnimplementedTargetServiceServer
	targets *targets
	log     store.Log
	pages   *pageTokens
	stored  *stored.Targets // nil: the store keeps no specs
}

func (s *targetService) GetTarget(ctx context.Context, req *setpointv1.GetTargetRequest) (*setpointv1.GetTargetResponse, error) {
	if err := check(req); err != nil {
		return nil, err
	}
	if err := access.CallerOf(ctx).Check(policy.Read, parseTarget(req.GetName())); err != nil {
		return nil, err
	}
	history, err := s.targets.history(ctx, req.GetName())
	if err != nil {
		return nil, err
	}
	return &setpointv1.GetTargetResponse{Target: conversion.Target(req.GetName(), history, true)}, nil
}

// history loads a target's history; NOT_FOUND if there is none.
func (t *targets) history(ctx context.Context, target string) (*recommender.History, error) {
	record, err := t.store.Load(ctx, parseTarget(target))
	switch {
	case err != nil:
		return nil, apierror.OfStore(ctx, target, err)
	case !record.Exists():
		return nil, apierror.UnknownTarget(target)
	}
	history, err := recommender.DecodeHistory(record.Value)
	if err != nil {
		return nil, apierror.OfHistory(target, err)
	}
	return &history, nil
}

// mayDelete is NOT_FOUND where what is known of a target is another incarnation's, and
// OTHER_CLUSTER where it is another cluster's. Between this and what is done then another
// one may come; it has no history yet that is worth a lock. A history that can't be read
// is nobody's.
func (t *targets) mayDelete(ctx context.Context, req *setpointv1.DeleteTargetRequest) error {
	incarnation, cluster := recommender.Incarnation(req.GetTargetUid()), recommender.Cluster(req.GetClusterUid())
	if incarnation == 0 && cluster == 0 {
		return nil
	}
	target, key := req.GetName(), parseTarget(req.GetName())
	record, err := t.store.Load(ctx, key)
	if err != nil && !errors.Is(err, store.ErrUnreadable) {
		return apierror.OfStore(ctx, target, err)
	}
	for _, value := range [][]byte{record.Value, t.outage.valueOf(key)} {
		history, err := recommender.DecodeHistory(value)
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

func (s *targetService) ListTargets(ctx context.Context, req *setpointv1.ListTargetsRequest) (*setpointv1.ListTargetsResponse, error) {
	if err := check(req); err != nil {
		return nil, err
	}
	size := pageSize(req.GetPageSize(), defaultTargetsPage)
	filter := parseParent(req.GetParent())
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
	keys, next, err := s.targets.visible(ctx, filter, scope, after, size)
	if err != nil {
		return nil, apierror.OfStore(ctx, req.GetParent(), err)
	}
	response := &setpointv1.ListTargetsResponse{}
	if next != (store.Key{}) {
		if response.NextPageToken, err = s.pages.next(ctx, list, positionOf(next)); err != nil {
			return nil, err
		}
	}
	for some := range slices.Chunk(keys, listedAtOnce) {
		if err := s.appendTargets(ctx, response, req.GetParent(), some); err != nil {
			return nil, err
		}
	}
	return response, nil
}

// listedAtOnce is how many records are loaded at once for a list, and listsAtOnce, for each
// processor, how often that is done at a time: records may be a thousand times as large as
// what a list says of them.
const listedAtOnce, listsAtOnce = 50, 2

// appendTargets adds those that exist to a list of a parent's.
func (s *targetService) appendTargets(ctx context.Context, response *setpointv1.ListTargetsResponse, parent string, keys []store.Key) error {
	select {
	case s.targets.lists <- struct{}{}:
		defer func() { <-s.targets.lists }()
	case <-ctx.Done():
		return apierror.OfContext(ctx)
	}
	records, err := s.targets.store.LoadBatch(ctx, keys)
	errs := byItem(err, len(keys), len(records))
	for i, key := range keys {
		target := &setpointv1.Target{Name: key.String()}
		switch {
		case errs != nil && errors.Is(errs[i], store.ErrUnreadable):
			// It is listed by its name, so that it can be deleted.
			response.Targets = append(response.Targets, target)
			continue
		case errs != nil && errs[i] != nil:
			return apierror.OfStore(ctx, parent, errs[i])
		case !records[i].Exists():
			continue // forgotten since it was listed
		}
		if history, err := recommender.DecodeHistory(records[i].Value); err == nil {
			target = conversion.Target(target.GetName(), &history, false)
		}
		response.Targets = append(response.Targets, target)
	}
	return nil
}

func pageSize(asked int32, fallback int) int {
	if asked == 0 {
		return fallback
	}
	return int(asked)
}

func (s *targetService) DeleteTarget(ctx context.Context, req *setpointv1.DeleteTargetRequest) (*setpointv1.DeleteTargetResponse, error) {
	if err := check(req); err != nil {
		return nil, err
	}
	if err := access.CallerOf(ctx).Check(policy.Delete, parseTarget(req.GetName())); err != nil {
		return nil, err
	}
	if err := access.CallerOf(ctx).CheckChange(policy.Delete, parseTarget(req.GetName())); err != nil {
		return nil, err
	}
	// Decisions that wait to be written would come back after the delete.
	if err := s.targets.decisions.Flush(ctx); err != nil {
		return nil, apierror.OfStore(ctx, req.GetName(), err)
	}
	key := parseTarget(req.GetName())
	if err := s.targets.mayDelete(ctx, req); err != nil {
		return nil, err
	}
	unwritten := s.targets.outage.drop(key)
	existed, err := s.targets.store.Delete(ctx, key)
	switch {
	case err != nil:
		s.targets.outage.restore(key, unwritten)
		return nil, apierror.OfStore(ctx, req.GetName(), err)
	}
	s.targets.forget(key)
	if !existed {
		return nil, apierror.UnknownTarget(req.GetName())
	}
	s.targets.shares.leave(key.Cluster)
	if s.targets.metrics.targets != nil {
		s.targets.metrics.targets.Forget(key)
	}
	return &setpointv1.DeleteTargetResponse{}, nil
}

// forget drops what this instance remembers of a target that is not in the store any more:
// else its history would come back with the next outage. What was decided without the
// store during the delete goes as well.
func (t *targets) forget(key store.Key) {
	t.outage.drop(key)
	t.cache.forget(key)
}

// WatchDecisions is not served yet; who may not is told that first.
func (s *targetService) WatchDecisions(req *setpointv1.WatchDecisionsRequest, stream grpc.ServerStreamingServer[setpointv1.WatchDecisionsResponse]) error {
	if err := check(req); err != nil {
		return err
	}
	if err := access.CallerOf(stream.Context()).Check(policy.Read, parseTarget(req.GetParent())); err != nil {
		return err
	}
	return s.UnimplementedTargetServiceServer.WatchDecisions(req, stream)
}
