package faults

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
)

// recommend makes a unary call and records the answer.
func (s *service) recommend(ctx context.Context, b *book, e *entry) error {
	answer, err := s.recommendations.Recommend(ctx, e.request)
	if err != nil {
		return err
	}
	return b.told(e, answer)
}

// batch sends one batch and records the answers. The errors are by entry.
func (s *service) batch(ctx context.Context, b *book, entries []*entry) []error {
	errs := make([]error, len(entries))
	req := &setpointv1.BatchRecommendRequest{}
	for _, e := range entries {
		req.Requests = append(req.Requests, e.request)
	}
	answer, err := s.recommendations.BatchRecommend(ctx, req)
	if err == nil && len(answer.GetResults()) != len(entries) {
		err = fmt.Errorf("%d results for %d requests", len(answer.GetResults()), len(entries))
	}
	for i, e := range entries {
		switch {
		case err != nil:
			errs[i] = err
		case answer.GetResults()[i].GetError() != nil:
			errs[i] = status.ErrorProto(answer.GetResults()[i].GetError())
		default:
			errs[i] = b.told(e, answer.GetResults()[i].GetResponse())
		}
	}
	return errs
}

// stream sends everything at once over one stream, and records the answers. The errors are by
// entry.
func (s *service) stream(ctx context.Context, b *book, entries []*entry) []error {
	errs := make([]error, len(entries))
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stream, err := s.recommendations.StreamRecommend(ctx)
	if err != nil {
		return same(errs, err)
	}
	left := make(map[string]int, len(entries))
	for i, e := range entries {
		id := fmt.Sprint("stream-", i)
		left[id] = i
		if err := stream.Send(&setpointv1.StreamRecommendRequest{Id: id, Request: e.request}); err != nil {
			return same(errs, err)
		}
	}
	if err := stream.CloseSend(); err != nil {
		return same(errs, err)
	}
	for {
		answer, err := stream.Recv()
		if errors.Is(err, io.EOF) && len(left) == 0 {
			return errs
		}
		if err != nil {
			for _, i := range left {
				errs[i] = err
			}
			return errs
		}
		i, known := left[answer.GetId()]
		if !known {
			return same(errs, fmt.Errorf("an answer to %q, which nobody waits for", answer.GetId()))
		}
		delete(left, answer.GetId())
		if answer.GetError() != nil {
			errs[i] = status.ErrorProto(answer.GetError())
			continue
		}
		errs[i] = b.told(entries[i], answer.GetResponse())
	}
}

func same(errs []error, err error) []error {
	for i := range errs {
		errs[i] = err
	}
	return errs
}

// report reports that a change was applied.
func (s *service) report(ctx context.Context, name, id string) error {
	_, err := s.recommendations.ReportScale(ctx, &setpointv1.ReportScaleRequest{Target: name, RecommendationId: id, Outcome: "APPLIED"})
	return err
}

// target gets a target.
func (s *service) target(ctx context.Context, name string) (*setpointv1.Target, error) {
	answer, err := s.targets.GetTarget(ctx, &setpointv1.GetTargetRequest{Name: name})
	return answer.GetTarget(), err
}

// remove deletes a target.
func (s *service) remove(ctx context.Context, name string) error {
	_, err := s.targets.DeleteTarget(ctx, &setpointv1.DeleteTargetRequest{Name: name})
	return err
}

// list lists the targets, all in one page.
func (s *service) list(ctx context.Context) ([]*setpointv1.Target, error) {
	answer, err := s.targets.ListTargets(ctx, &setpointv1.ListTargetsRequest{Parent: "clusters/demo/namespaces/shop", PageSize: 1000})
	return answer.GetTargets(), err
}

// decisions lists the logged decisions on a target.
func (s *service) decisions(ctx context.Context, name string) ([]*setpointv1.Decision, error) {
	answer, err := s.targets.ListDecisions(ctx, &setpointv1.ListDecisionsRequest{Parent: name, PageSize: 1000})
	return answer.GetDecisions(), err
}

// The reasons of errors.
const (
	unavailable = "STORE_UNAVAILABLE"
	unreadable  = "HISTORY_UNREADABLE"
	notFound    = "TARGET_NOT_FOUND"
)

var codeOf = map[string]codes.Code{unavailable: codes.Unavailable, unreadable: codes.Internal, notFound: codes.NotFound}

// secrets are texts of drivers and servers, and parts of addresses, that no caller
// may see.
var secrets = []string{
	"127.0.0.1", "dial", "tcp", "EOF", "i/o", "refused", "reset", "broken pipe", "redis", "Redis", "circuit", "breaker",
	"OOM", "READONLY", "BUSY", "MISCONF", "NOREPLICAS", "NOPERM", "NOAUTH", "WRONGPASS", "NOSCRIPT", "WRONGTYPE", "MASTERDOWN", "CLUSTERDOWN",
	"script", "x509", "tls", "certificate", "pool", "context",
}

// refusal returns nil if the error is a refusal for that reason that reveals nothing else, or
// else its problem.
func refusal(err error, reason string) error {
	got := status.Convert(err)
	if err == nil || got.Code() != codeOf[reason] {
		return fmt.Errorf("got %v %v, want %v %s", got.Code(), err, codeOf[reason], reason)
	}
	var info *errdetails.ErrorInfo
	for _, detail := range got.Details() {
		if i, ok := detail.(*errdetails.ErrorInfo); ok {
			info = i
		}
	}
	if info.GetReason() != reason || info.GetDomain() != "setpoint.dev" {
		return fmt.Errorf("the reason of %v is %v, want %s", err, info, reason)
	}
	for _, secret := range secrets {
		if strings.Contains(got.Message()+info.String(), secret) {
			return fmt.Errorf("the caller is told of %q: %s", secret, got.Message())
		}
	}
	return nil
}

// refused fails the test unless every error is a refusal for that reason.
func refused(t testing.TB, reason string, errs ...error) {
	t.Helper()
	for i, err := range errs {
		if problem := refusal(err, reason); problem != nil {
			t.Errorf("%d of %d: %v", i+1, len(errs), problem)
		}
	}
}

// asking is how a recommendation is asked for. The errors are by entry.
type asking struct {
	name string
	ask  func(ctx context.Context, s *service, b *book, entries []*entry) []error
}

var askings = []asking{
	{"Recommend", func(ctx context.Context, s *service, b *book, entries []*entry) []error {
		errs := make([]error, len(entries))
		for i, e := range entries {
			errs[i] = s.recommend(ctx, b, e)
		}
		return errs
	}},
	{"BatchRecommend", func(ctx context.Context, s *service, b *book, entries []*entry) []error {
		return s.batch(ctx, b, entries)
	}},
	{"StreamRecommend", func(ctx context.Context, s *service, b *book, entries []*entry) []error {
		return s.stream(ctx, b, entries)
	}},
}
