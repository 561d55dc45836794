package server

import (
	"context"
	"errors"
	"io"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/server/limit"
	"github.com/setpoint-dev/setpoint/server/wire"
)

// streamEncoded serves StreamRecommend. It answers each request in a goroutine of its
// own, and reads no further while too many are unanswered, so that a caller's sends
// block.
func (s *recommendationService) streamEncoded(stream grpc.ServerStream) error {
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
				req.free()
				return status.FromContextError(stream.Context().Err()).Err()
			}
			req.began = time.Now()
			req.refused = s.admit(stream.Context(), &req.ticket, callerOf(stream.Context()).name())
			answers.add(func() *message {
				defer func() { <-places }()
				defer req.free()
				defer req.ticket.Release()
				return s.protected(stream.Context(), req)
			})
		}
	}
}

// streamed is a message of a stream, and its right to run or why it has none.
type streamed struct {
	message
	began   time.Time // it may have waited since
	ticket  limit.Ticket
	refused error
}

// receive reads the stream until it ends, in a goroutine that the stream's
// context ends, so that a stop need not wait for the next request.
func (s *recommendationService) receive(stream grpc.ServerStream) (<-chan *streamed, <-chan error) {
	requests, failed := make(chan *streamed), make(chan error, 1)
	go func() {
		for {
			req := new(streamed)
			if err := stream.RecvMsg(&req.message); err != nil {
				failed <- err
				return
			}
			select {
			case requests <- req:
			case <-stream.Context().Done():
				req.free()
				return
			}
		}
	}()
	return requests, failed
}

// protected answers with INTERNAL where answering panics; the stream goes on.
func (s *recommendationService) protected(ctx context.Context, req *streamed) (answer *message) {
	var id string
	defer func() {
		if err := recovered(s.targets.log, setpointv1.RecommendationService_StreamRecommend_FullMethodName, recover(), nil); err != nil {
			s.targets.metrics.decisions.Refused(codes.Internal)
			failed := job{err: err}
			answer = &message{data: failed.streamed(nil, id)}
		}
	}()
	return s.answerStreamed(ctx, req, &id)
}

// answerStreamed answers one message of a stream. It tells the request's id as soon
// as it is known.
func (s *recommendationService) answerStreamed(ctx context.Context, req *streamed, id *string) *message {
	var j job
	var request []byte
	ctx = s.targets.traceMessage(ctx, &j)
	defer j.abandonTrace()
	*id, request, j.err = readStreamed(req.data)
	if j.err == nil {
		ctx, cancel := withOwnDeadline(ctx, s.targets.options.RequestTimeout)
		defer cancel()
		if j.err = callerOf(ctx).renew(ctx, s.targets.options.Clock()); j.err == nil {
			j.err = req.refused
		}
		if j.err == nil {
			s.targets.readEncoded(ctx, &j, request)
			defer j.release()
			s.targets.recommend(ctx, &j)
		}
	}
	s.targets.messageAnswered(ctx, &j, req.began)
	answer := newAnswer()
	answer.data = j.streamed(answer.data, *id)
	return answer
}

// readStreamed reads an encoded StreamRecommendRequest: its id and the encoded request.
func readStreamed(data []byte) (id string, request []byte, err error) {
	if id, request, ok := wire.StreamRequest(data); ok {
		return id, request, nil
	}
	req := &setpointv1.StreamRecommendRequest{}
	switch err := proto.Unmarshal(data, req); {
	case err != nil:
		return "", nil, undecodable()
	case req.GetId() == "":
		return "", nil, invalidField("id", "Required value: answers are matched to requests by it")
	case len(req.GetId()) > 128:
		return req.GetId(), nil, invalidField("id", "Too long: must have at most 128 bytes")
	case req.GetRequest() == nil:
		return req.GetId(), nil, invalidField("request", "Required value")
	}
	request, err = proto.Marshal(req.GetRequest())
	return req.GetId(), request, err
}

// findRequests finds the encoded requests of an encoded BatchRecommendRequest.
func findRequests(data []byte) ([][]byte, bool) {
	if requests, ok := wire.BatchRequests(data, nil); ok {
		return requests, true
	}
	batch := &setpointv1.BatchRecommendRequest{}
	if err := proto.Unmarshal(data, batch); err != nil {
		return nil, false
	}
	requests := make([][]byte, len(batch.GetRequests()))
	for i, req := range batch.GetRequests() {
		var err error
		if requests[i], err = proto.Marshal(req); err != nil {
			return nil, false
		}
	}
	return requests, true
}

// answerer sends answers on a stream as they get ready, one at a time.
type answerer struct {
	stream  grpc.ServerStream
	running sync.WaitGroup
	mu      sync.Mutex // guards stream.SendMsg
}

func (a *answerer) add(answer func() *message) {
	a.running.Go(func() {
		m := answer()
		defer m.free()
		a.mu.Lock()
		defer a.mu.Unlock()
		// A stream that has ended takes no answers; its reader knows.
		_ = a.stream.SendMsg(m)
	})
}

func (a *answerer) wait() { a.running.Wait() }
