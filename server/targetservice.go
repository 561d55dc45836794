package server

import (
	"context"
	"encoding/base64"
	"errors"
	"slices"
	"strings"

	"google.golang.org/grpc"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/recommender"
	"github.com/setpoint-dev/setpoint/server/auth/policy"
	"github.com/setpoint-dev/setpoint/server/conversion"
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
}

func (s *targetService) GetTarget(ctx context.Context, req *setpointv1.GetTargetRequest) (*setpointv1.GetTargetResponse, error) {
	if err := check(req); err != nil {
		return nil, err
	}
	if err := callerOf(ctx).check(policy.Read, parseTarget(req.GetName())); err != nil {
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
		return nil, storeError(ctx, target, err)
	case !record.Exists():
		return nil, unknownTarget(target)
	}
	history, err := recommender.DecodeHistory(record.Value)
	if err != nil {
		return nil, historyError(target, err)
	}
	return &history, nil
}

func (s *targetService) ListTargets(ctx context.Context, req *setpointv1.ListTargetsRequest) (*setpointv1.ListTargetsResponse, error) {
	if err := check(req); err != nil {
		return nil, err
	}
	after, err := readTargetsToken(req.GetPageToken())
	if err != nil {
		return nil, err
	}
	size := pageSize(req.GetPageSize(), defaultTargetsPage)
	filter := parseParent(req.GetParent())
	scope, err := callerOf(ctx).within(policy.Read, filter)
	if err != nil {
		return nil, err
	}
	keys, err := s.targets.store.List(ctx, filter, after, size)
	if err != nil {
		return nil, storeError(ctx, req.GetParent(), err)
	}
	response := &setpointv1.ListTargetsResponse{}
	if len(keys) == size {
		response.NextPageToken = targetsToken(keys[size-1])
	}
	if scope != nil {
		// Of another's targets not even the names; so a page may be short, or empty.
		keys = slices.DeleteFunc(keys, func(k store.Key) bool { return !scope.Contains(k.Cluster, k.Namespace) })
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
			return nil, storeError(ctx, req.GetParent(), errs[i])
		case !records[i].Exists():
			continue // forgotten since it was listed
		}
		if history, err := recommender.DecodeHistory(records[i].Value); err == nil {
			target = conversion.Target(target.GetName(), &history, false)
		}
		response.Targets = append(response.Targets, target)
	}
	return response, nil
}

func pageSize(asked int32, fallback int) int {
	if asked == 0 {
		return fallback
	}
	return int(asked)
}

// targetsToken is the last key of a page: callers must not rely on its form.
func targetsToken(last store.Key) string {
	return base64.RawURLEncoding.EncodeToString([]byte(last.Cluster + "/" + last.Namespace + "/" + last.Target))
}

func readTargetsToken(token string) (store.Key, error) {
	if token == "" {
		return store.Key{}, nil
	}
	raw, err := base64.RawURLEncoding.DecodeString(token)
	parts := strings.Split(string(raw), "/")
	if err != nil || len(parts) != 3 {
		return store.Key{}, badPageToken()
	}
	return store.Key{Cluster: parts[0], Namespace: parts[1], Target: parts[2]}, nil
}

func badPageToken() error {
	return invalidField("pageToken", "Invalid value: must be the nextPageToken of the page before")
}

func (s *targetService) DeleteTarget(ctx context.Context, req *setpointv1.DeleteTargetRequest) (*setpointv1.DeleteTargetResponse, error) {
	if err := check(req); err != nil {
		return nil, err
	}
	if err := callerOf(ctx).check(policy.Delete, parseTarget(req.GetName())); err != nil {
		return nil, err
	}
	// Decisions that wait to be written would come back after the delete.
	if err := s.targets.decisions.flush(ctx); err != nil {
		return nil, storeError(ctx, req.GetName(), err)
	}
	key := parseTarget(req.GetName())
	unwritten := s.targets.outage.drop(key)
	existed, err := s.targets.store.Delete(ctx, key)
	switch {
	case err != nil:
		s.targets.outage.restore(key, unwritten)
		return nil, storeError(ctx, req.GetName(), err)
	case !existed:
		return nil, unknownTarget(req.GetName())
	}
	if s.targets.metrics.targets != nil {
		s.targets.metrics.targets.Forget(key)
	}
	return &setpointv1.DeleteTargetResponse{}, nil
}

// WatchDecisions is not served yet; who may not is told that first.
func (s *targetService) WatchDecisions(req *setpointv1.WatchDecisionsRequest, stream grpc.ServerStreamingServer[setpointv1.WatchDecisionsResponse]) error {
	if err := check(req); err != nil {
		return err
	}
	if err := callerOf(stream.Context()).check(policy.Read, parseTarget(req.GetParent())); err != nil {
		return err
	}
	return s.UnimplementedTargetServiceServer.WatchDecisions(req, stream)
}
