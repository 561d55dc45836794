package server

import (
	"context"
	"errors"
	"io"
	"sync"

	"google.golang.org/grpc/status"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
)

// recommendationService answers the calls of callers that scale.
type recommendationService struct {
	setpointv1.UnimplementedRecommendationServiceServer
	targets *targets
	// draining is closed when the server begins to stop.
	draining <-chan struct{}
}

func (s *recommendationService) Recommend(ctx context.Context, req *setpointv1.RecommendRequest) (*setpointv1.RecommendResponse, error) {
	j := s.targets.newJob(req)
	s.targets.recommend(ctx, j)
	return j.response, j.err
}

func (s *recommendationService) ReportScale(ctx context.Context, req *setpointv1.ReportScaleRequest) (*setpointv1.ReportScaleResponse, error) {
	if err := check(req); err != nil {
		return nil, err
	}
	return s.targets.report(ctx, req)
}

func (s *recommendationService) BatchRecommend(ctx context.Context, req *setpointv1.BatchRecommendRequest) (*setpointv1.BatchRecommendResponse, error) {
	if n, limit := len(req.GetRequests()), s.targets.options.MaxBatch; n > limit {
		return nil, overLimit("maxBatch", limit, "the batch has more requests than this server takes at once")
	}
	jobs := make([]*job, len(req.GetRequests()))
	for i, r := range req.GetRequests() {
		jobs[i] = s.targets.newJob(r)
	}
	s.targets.recommendAll(ctx, jobs)
	response := &setpointv1.BatchRecommendResponse{Results: make([]*setpointv1.BatchRecommendResult, len(jobs))}
	for i, j := range jobs {
		result := &setpointv1.BatchRecommendResult{}
		if j.err != nil {
			result.Result = &setpointv1.BatchRecommendResult_Error{Error: status.Convert(j.err).Proto()}
		} else {
			result.Result = &setpointv1.BatchRecommendResult_Response{Response: j.response}
		}
		response.Results[i] = result
	}
	return response, nil
}

// StreamRecommend answers each request in a goroutine of its own. It reads no
// further while too many are unanswered, so that a caller's sends block.
func (s *recommendationService) StreamRecommend(stream setpointv1.RecommendationService_StreamRecommendServer) error {
	requests, failed := s.receive(stream)
	answers := answerer{stream: stream}
	places := make(chan struct{}, s.targets.options.MaxStreamInFlight)
	defer answers.wait()
	for {
		select {
		case <-s.draining:
			return shuttingDown()
		case err := <-failed:
			if errors.Is(err, io.EOF) {
				return nil
			}
			return err
		case req := <-requests:
			select {
			case places <- struct{}{}:
			case <-stream.Context().Done():
				return status.FromContextError(stream.Context().Err()).Err()
			}
			answers.add(func() *setpointv1.StreamRecommendResponse {
				defer func() { <-places }()
				return s.protected(stream.Context(), req)
			})
		}
	}
}

// receive reads the stream until it ends, in a goroutine that the stream's
// context ends, so that a stop need not wait for the next request.
func (s *recommendationService) receive(stream setpointv1.RecommendationService_StreamRecommendServer) (<-chan *setpointv1.StreamRecommendRequest, <-chan error) {
	requests, failed := make(chan *setpointv1.StreamRecommendRequest), make(chan error, 1)
	go func() {
		for {
			req, err := stream.Recv()
			if err != nil {
				failed <- err
				return
			}
			select {
			case requests <- req:
			case <-stream.Context().Done():
				return
			}
		}
	}()
	return requests, failed
}

// protected answers with INTERNAL where answering panics; the stream goes on.
func (s *recommendationService) protected(ctx context.Context, req *setpointv1.StreamRecommendRequest) (response *setpointv1.StreamRecommendResponse) {
	defer func() {
		if err := recovered(s.targets.log, setpointv1.RecommendationService_StreamRecommend_FullMethodName, recover(), nil); err != nil {
			response = &setpointv1.StreamRecommendResponse{
				Id:     req.GetId(),
				Result: &setpointv1.StreamRecommendResponse_Error{Error: status.Convert(err).Proto()},
			}
		}
	}()
	return s.answer(ctx, req)
}

func (s *recommendationService) answer(ctx context.Context, req *setpointv1.StreamRecommendRequest) *setpointv1.StreamRecommendResponse {
	response := &setpointv1.StreamRecommendResponse{Id: req.GetId()}
	var j *job
	switch {
	case req.GetId() == "":
		j = &job{err: invalidField("id", "Required value: answers are matched to requests by it")}
	case len(req.GetId()) > 128:
		j = &job{err: invalidField("id", "Too long: must have at most 128 bytes")}
	case req.GetRequest() == nil:
		j = &job{err: invalidField("request", "Required value")}
	default:
		ctx, cancel := context.WithTimeout(ctx, s.targets.options.RequestTimeout)
		defer cancel()
		j = s.targets.newJob(req.GetRequest())
		s.targets.recommend(ctx, j)
	}
	if j.err != nil {
		response.Result = &setpointv1.StreamRecommendResponse_Error{Error: status.Convert(j.err).Proto()}
	} else {
		response.Result = &setpointv1.StreamRecommendResponse_Response{Response: j.response}
	}
	return response
}

// answerer sends answers on a stream as they get ready, one at a time.
type answerer struct {
	stream  setpointv1.RecommendationService_StreamRecommendServer
	running sync.WaitGroup
	mu      sync.Mutex // guards stream.Send
}

func (a *answerer) add(answer func() *setpointv1.StreamRecommendResponse) {
	a.running.Go(func() {
		response := answer()
		a.mu.Lock()
		defer a.mu.Unlock()
		// A stream that has ended takes no answers; its reader knows.
		_ = a.stream.Send(response)
	})
}

func (a *answerer) wait() { a.running.Wait() }
