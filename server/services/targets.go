package services

import (
	"context"
	"errors"
	"runtime"

	"google.golang.org/grpc"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/server/apierror"
	"github.com/setpoint-dev/setpoint/server/conversion"
	"github.com/setpoint-dev/setpoint/server/decision"
	"github.com/setpoint-dev/setpoint/server/fleets"
	"github.com/setpoint-dev/setpoint/server/pagetoken"
	"github.com/setpoint-dev/setpoint/server/requests"
	"github.com/setpoint-dev/setpoint/server/shadows"
	"github.com/setpoint-dev/setpoint/server/stored"
	"github.com/setpoint-dev/setpoint/server/watches"
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
	targets  *decision.Targets
	requests *requests.Reader
	log      store.Log
	pages    *pagetoken.Tokens
	stored   *stored.Targets
	fleets   *fleets.Fleets
	sources  stored.Sources
	watches  *watches.Watches
	// outlooks is a semaphore for long ones.
	outlooks chan struct{}
}

// NewTargets returns the service, with the targets of the recommendations' service.
func NewTargets(r *Recommendations, engine store.Engine, log store.Log, watch watches.Options) *Targets {
	pages := pagetoken.New(engine)
	return &Targets{
		targets: r.targets, requests: r.requests, log: log, pages: pages, stored: r.stored, fleets: r.fleets, sources: r.sources, watches: watches.New(watch, pages),
		outlooks: make(chan struct{}, outlooksAtOnce*runtime.GOMAXPROCS(0)),
	}
}

// GetTarget returns one target, with what comes next.
func (s *Targets) GetTarget(ctx context.Context, req *setpointv1.GetTargetRequest) (*setpointv1.GetTargetResponse, error) {
	if err := apierror.OfStructure(req); err != nil {
		return nil, err
	}
	known, err := s.targets.Record(ctx, req.GetName())
	if err != nil {
		return nil, s.withoutHistory(ctx, req.GetName(), err)
	}
	target := conversion.Target(req.GetName(), known, true)
	target.SpecInUse, target.Shadows = decision.SpecInUse(known), shadows.States(known.Shadows)
	if target.TargetSpec, err = s.specOf(ctx, req.GetName()); err != nil {
		return nil, err
	}
	s.tell(ctx, target, known)
	return &setpointv1.GetTargetResponse{Target: target}, nil
}

// specOf returns the stored spec; nil if there is none.
func (s *Targets) specOf(ctx context.Context, name string) (*setpointv1.TargetSpec, error) {
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
	response := &setpointv1.ListTargetsResponse{}
	room := pageRoom
	var err error
	response.NextPageToken, err = s.list(ctx, setpointv1.TargetService_ListTargets_FullMethodName, s.targets.Store(), req, func(keys []store.Key) (kept int, full bool, err error) {
		kept, err = s.appendTargets(ctx, response, req, keys, &room)
		return kept, room <= 0, err
	})
	if err != nil {
		return nil, err
	}
	return response, nil
}

// WatchDecisions streams decisions, see package watches.
func (s *Targets) WatchDecisions(req *setpointv1.WatchDecisionsRequest, stream grpc.ServerStreamingServer[setpointv1.WatchDecisionsResponse]) error {
	return s.watches.Decisions(req, stream)
}

// DeleteTarget deletes a target and its history.
func (s *Targets) DeleteTarget(ctx context.Context, req *setpointv1.DeleteTargetRequest) (*setpointv1.DeleteTargetResponse, error) {
	if err := apierror.OfStructure(req); err != nil {
		return nil, err
	}
	// Of a fleet, or of a member without a history of its own, nothing is deleted: its decisions are the fleet's.
	if records, errs := s.targets.Load(ctx, []store.Key{decision.ParseTarget(req.GetName())}); errs == nil && !records[0].Exists() {
		unknown := apierror.UnknownTarget(req.GetName())
		if err := s.withoutHistory(ctx, req.GetName(), unknown); !errors.Is(err, unknown) {
			return nil, err
		}
	}
	if err := s.targets.Delete(ctx, req); err != nil {
		return nil, err
	}
	return &setpointv1.DeleteTargetResponse{}, nil
}
