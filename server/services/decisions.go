package services

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/recommender"
	"github.com/setpoint-dev/setpoint/server/apierror"
	"github.com/setpoint-dev/setpoint/server/conversion"
	"github.com/setpoint-dev/setpoint/server/decision"
	"github.com/setpoint-dev/setpoint/server/decisionlog"
	"github.com/setpoint-dev/setpoint/server/pagetoken"
	"github.com/setpoint-dev/setpoint/server/record"
	"github.com/setpoint-dev/setpoint/store"
)

// ListDecisions returns a page of a target's decisions, the newest first.
func (s *Targets) ListDecisions(ctx context.Context, req *setpointv1.ListDecisionsRequest) (*setpointv1.ListDecisionsResponse, error) {
	if err := apierror.OfStructure(req); err != nil {
		return nil, err
	}
	list := pagetoken.ListOf(ctx, setpointv1.TargetService_ListDecisions_FullMethodName, req.GetParent(), nil)
	position, err := s.pages.Position(ctx, list, req.GetPageToken())
	if err != nil {
		return nil, err
	}
	page, err := s.listDecisions(ctx, req, position)
	if err != nil {
		return nil, err
	}
	page.NextPageToken, err = s.pages.Next(ctx, list, page.GetNextPageToken())
	return page, err
}

// listDecisions returns the page at a position, "" for the first, with the position of the
// next instead of its token.
func (s *Targets) listDecisions(ctx context.Context, req *setpointv1.ListDecisionsRequest, position string) (*setpointv1.ListDecisionsResponse, error) {
	// Before the record is read, so that this instance has not logged newer decisions.
	if err := s.targets.Decisions.Flush(ctx, decision.ParseTarget(req.GetParent())); err != nil {
		return nil, apierror.OfStore(ctx, req.GetParent(), err)
	}
	known, err := s.decisionsOf(ctx, req.GetParent())
	if err != nil {
		return nil, err
	}
	size := cmp.Or(int(req.GetPageSize()), defaultDecisionsPage)
	first, shown := position == "", ""
	if id, ok := strings.CutPrefix(position, afterRecord); ok {
		position, shown = "", id
	}
	page, err := s.logPage(ctx, req.GetParent(), position, size)
	if err != nil {
		return nil, err
	}
	if first {
		return s.withRecord(ctx, req.GetParent(), known, page, size)
	}
	page.Decisions = slices.DeleteFunc(page.GetDecisions(), func(d *setpointv1.Decision) bool { return d.GetRecommendationId() == shown })
	return page, nil
}

// decisionsOf returns the record that has a target's last decisions: of a fleet its own, which is no target's, and of a member
// without one an empty one, since all of its decisions are logged at once.
func (s *Targets) decisionsOf(ctx context.Context, name string) (*record.Record, error) {
	known, none := s.targets.Record(ctx, name)
	if status.Code(none) != codes.NotFound {
		return known, none
	}
	key := decision.ParseTarget(name)
	known, err := s.fleets.Decisions(ctx, key)
	if err != nil {
		return nil, apierror.OfStore(ctx, name, err)
	}
	if known != nil {
		return known, nil
	}
	of, err := s.fleets.Of(ctx, key)
	switch {
	case err != nil:
		return nil, apierror.OfStore(ctx, name, err)
	case of == "":
		return nil, none
	}
	return &record.Record{}, nil
}

// afterRecord is the position after a page that has only the decision in the record. The
// decision's id follows, because it may be logged by then.
const afterRecord = "pending-"

// logPage reads a page of the log: fewer entries if they need more than pageRoom, but at least one. It skips invalid
// entries.
func (s *Targets) logPage(ctx context.Context, target, position string, size int) (*setpointv1.ListDecisionsResponse, error) {
	for {
		values, next, err := s.log.ReadLog(ctx, decision.ParseTarget(target), position, size)
		if err != nil {
			return nil, ofLog(ctx, target, err)
		}
		page, room, fit := &setpointv1.ListDecisionsResponse{NextPageToken: next}, pageRoom, 0
		for _, value := range values {
			d := decisionlog.Read(value)
			if room -= proto.Size(d) + bytesPerEntry*entriesOfStatus(d.GetCurrentMetrics()); room < 0 && fit > 0 {
				break
			}
			if fit++; d != nil {
				page.Decisions = append(page.Decisions, d)
			}
		}
		if fit == len(values) {
			return page, nil
		}
		size = fit // the log knows the position after a whole page only
	}
}

// withRecord puts the decision in the record before the first page of the log, unless the log has
// it: a change is logged when it is settled, and an unchanged decision only up to a rate.
func (s *Targets) withRecord(ctx context.Context, target string, known *record.Record, page *setpointv1.ListDecisionsResponse, size int) (*setpointv1.ListDecisionsResponse, error) {
	last := conversion.PendingDecision(known, recommender.Undecided)
	pending := last != nil
	if !pending {
		last = conversion.LastDecision(known)
	}
	if last == nil || !newerThan(last, page.GetDecisions(), pending) {
		return page, nil
	}
	front := []*setpointv1.Decision{last}
	if size == 1 {
		return &setpointv1.ListDecisionsResponse{Decisions: front, NextPageToken: afterRecord + last.GetRecommendationId()}, nil
	}
	if len(page.GetDecisions()) == size {
		var err error
		if page, err = s.logPage(ctx, target, "", size-1); err != nil {
			return nil, err
		}
	}
	page.Decisions = slices.Concat([]*setpointv1.Decision{last}, page.GetDecisions())
	return page, nil
}

// newerThan reports whether a decision precedes the logged ones, newest first: it is not among
// them, and pending or not older. Other instances may have logged since.
func newerThan(last *setpointv1.Decision, newest []*setpointv1.Decision, pending bool) bool {
	for _, d := range newest {
		if d.GetRecommendationId() == last.GetRecommendationId() {
			return false
		}
	}
	return pending || len(newest) == 0 || !newest[0].GetTime().AsTime().After(last.GetTime().AsTime())
}

// ofLog maps an error of a log that was read from a position.
func ofLog(ctx context.Context, target string, err error) error {
	if errors.Is(err, store.ErrInvalidPosition) {
		return pagetoken.Bad()
	}
	return apierror.OfStore(ctx, target, err)
}
