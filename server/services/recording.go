package services

import (
	"context"
	"math"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/server/apierror"
	"github.com/setpoint-dev/setpoint/server/decision"
	"github.com/setpoint-dev/setpoint/server/pagetoken"
	"github.com/setpoint-dev/setpoint/server/validation"
)

// Pages of GetRecording: how many chunks.
const (
	defaultRecordingPage = 50
	mostRecordingPage    = 100
)

// GetRecording returns a page of what a target was asked, the newest first.
func (s *Targets) GetRecording(ctx context.Context, req *setpointv1.GetRecordingRequest) (*setpointv1.GetRecordingResponse, error) {
	if err := apierror.Invalid(append(validation.Structure(req), validation.Instant("startTime", req.GetStartTime())...)); err != nil {
		return nil, err
	}
	if s.targets.Recordings == nil {
		why := "its store can't"
		if s.targets.Options.Recordings.Bytes == 0 {
			why = "--recording-bytes is 0"
		}
		return nil, status.Error(codes.Unimplemented, "this server keeps nothing of what targets are asked: "+why)
	}
	list := pagetoken.ListOf(ctx, setpointv1.TargetService_GetRecording_FullMethodName, req.GetName(), nil)
	position, err := s.pages.Position(ctx, list, req.GetPageToken())
	if err != nil {
		return nil, err
	}
	known, err := s.targets.Record(ctx, req.GetName())
	if err != nil {
		return nil, s.withoutHistory(ctx, req.GetName(), err)
	}
	now := s.targets.Options.Clock()
	since := now.Add(-s.targets.Options.Recordings.Age)
	if start := req.GetStartTime(); start != nil && start.AsTime().After(since) {
		since = start.AsTime()
		if latest := time.Unix(0, math.MaxInt64); since.After(latest) {
			since = latest
		}
	}
	size := defaultRecordingPage
	if n := int(req.GetPageSize()); n > 0 {
		size = min(n, mostRecordingPage)
	}
	key := decision.ParseTarget(req.GetName())
	chunks, next, err := s.targets.Recordings.Read(ctx, key, position, since.UnixNano(), size)
	if err != nil {
		return nil, ofLog(ctx, req.GetName(), err)
	}
	page := &setpointv1.GetRecordingResponse{Chunks: chunks}
	if len(chunks) == 0 && position == "" && next == "" {
		page.EmptyReason = s.targets.Recordings.Absence(&key, known.Updated, now)
	}
	page.NextPageToken, err = s.pages.Next(ctx, list, next)
	return page, err
}
