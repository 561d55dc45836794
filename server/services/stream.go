package services

import (
	"context"
	"errors"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/server/access"
	"github.com/setpoint-dev/setpoint/server/admission"
	"github.com/setpoint-dev/setpoint/server/apierror"
	"github.com/setpoint-dev/setpoint/server/encoded"
	"github.com/setpoint-dev/setpoint/server/limit"
	"github.com/setpoint-dev/setpoint/server/requests"
	"github.com/setpoint-dev/setpoint/server/streams"
	"github.com/setpoint-dev/setpoint/server/unfinished"
)

// streamEncoded serves StreamRecommend. It handles each request in its own goroutine, and stops
// reading while too many are unanswered, so that the caller's sends block.
func (s *Recommendations) streamEncoded(stream grpc.ServerStream) error {
	requests, failed := s.receive(stream)
	ctx := stream.Context()
	answers := &answerer{service: s, stream: stream, ctx: ctx, conn: admission.ConnOf(ctx), places: make(chan struct{}, s.streamInFlight)}
	defer answers.wait()
	for {
		select {
		case <-s.draining:
			return apierror.ShuttingDown()
		case <-ctx.Done(): // receive may have ended without a message
			return status.FromContextError(ctx.Err()).Err()
		case err := <-failed:
			if errors.Is(err, io.EOF) {
				return nil
			}
			return err
		case req := <-requests:
			if err := answers.room(); err != nil {
				req.Free()
				return err
			}
			req.began = time.Now()
			s.admitStreamed(ctx, req)
			refused := req.refused
			answers.add(req)
			if status.Code(refused) == codes.Unauthenticated {
				return refused // only a new stream can present other credentials
			}
		}
	}
}

// streamed is a message of a stream, with its ticket or its refusal.
type streamed struct {
	encoded.Message
	to      *answerer
	began   time.Time      // it may have waited since
	caller  *access.Caller // as of this message
	ticket  limit.Ticket
	refused error
}

// admitStreamed checks the caller of a message, and admits it. It holds no place while it waits
// for an issuer.
func (s *Recommendations) admitStreamed(ctx context.Context, req *streamed) {
	if open := access.SessionOf(ctx); open != nil {
		if req.caller, req.refused = s.renewed(ctx, open); req.refused != nil {
			return
		}
	}
	req.refused = s.admit(ctx, &req.ticket, req.caller.Name())
}

func (s *Recommendations) renewed(ctx context.Context, open *access.Session) (*access.Caller, error) {
	if c := open.Now.Load(); s.guard.Counts(c) {
		return c, nil // without its own context, which would be an allocation
	}
	ctx, cancel := context.WithTimeout(ctx, s.targets.Options.RequestTimeout)
	defer cancel()
	return s.guard.Renew(ctx, open)
}

// receive reads the stream until it ends, in a goroutine that the stream's context
// ends, so that a stop need not wait for the next request.
func (s *Recommendations) receive(stream grpc.ServerStream) (<-chan *streamed, <-chan error) {
	requests, failed := make(chan *streamed), make(chan error, 1)
	go func() {
		for {
			req := new(streamed)
			if err := stream.RecvMsg(&req.Message); err != nil {
				failed <- err
				return
			}
			select {
			case requests <- req:
			case <-stream.Context().Done():
				req.Free()
				return
			}
		}
	}()
	return requests, failed
}

// protected returns INTERNAL if the handler panics; the stream continues.
func (s *Recommendations) protected(ctx context.Context, req *streamed) (answer *encoded.Message) {
	var id string
	defer func() {
		if err := apierror.Recovered(s.targets.Log, setpointv1.RecommendationService_StreamRecommend_FullMethodName, recover(), nil); err != nil {
			s.requests.Metrics.Decisions.Refused(codes.Internal)
			var failed requests.Job
			failed.Err = err
			answer = &encoded.Message{Data: failed.Streamed(nil, id)}
		}
	}()
	return s.answerStreamed(ctx, req, &id)
}

// answerStreamed handles one message of a stream. It sets id as soon as it has read it.
func (s *Recommendations) answerStreamed(ctx context.Context, req *streamed, id *string) *encoded.Message {
	j := requests.Lend()
	defer j.GiveBack()
	var request []byte
	ctx = s.requests.TraceMessage(ctx, j)
	defer j.AbandonTrace()
	*id, request, j.Err = readStreamed(req.Data)
	if j.Err == nil {
		ctx, cancel := apierror.WithOwnDeadline(ctx, s.targets.Options.RequestTimeout)
		defer cancel()
		if j.Err = req.refused; j.Err == nil && admission.Unsent(ctx) > 2*admission.MostUnsent {
			j.Err = s.requests.Refuse(limit.Unread)
		}
		if j.Err == nil {
			s.requests.Read(ctx, req.caller, j, request, &req.ticket, &req.Pass)
			s.targets.Recommend(ctx, &j.Job)
		}
	}
	s.requests.MessageAnswered(ctx, j, req.began)
	answer := encoded.NewAnswer()
	answer.Data = j.Streamed(answer.Data, *id)
	return answer
}

// answerer sends responses on a stream as they become ready, one at a time.
type answerer struct {
	service *Recommendations
	stream  grpc.ServerStream
	ctx     context.Context  // the stream's context
	conn    *unfinished.Conn // nil: not counted
	// places is a semaphore of unanswered messages.
	places  chan struct{}
	running sync.WaitGroup
	mu      sync.Mutex // guards stream.SendMsg
	// sends counts the beginnings and ends of sends: it is odd during one.
	sends atomic.Uint64
}

// add starts handling a message, which holds a place.
func (a *answerer) add(req *streamed) {
	req.to = a
	a.running.Add(1)
	a.service.workers.Do(req)
}

// Do implements workers.Task: it answers the message.
func (req *streamed) Do() {
	a := req.to
	defer a.running.Done()
	m := a.answer(req)
	defer m.Free()
	if a.conn != nil { // before it waits for its turn
		m.Count(a.conn.Answers())
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.sends.Add(1)
	defer a.sends.Add(1)
	// An ended stream takes no responses; its reader gets the error.
	_ = a.stream.SendMsg(m)
}

// answer returns the response to a message, and releases what the message holds.
func (a *answerer) answer(req *streamed) *encoded.Message {
	defer func() { <-a.places }()
	defer req.Free()
	defer req.ticket.Release()
	return a.service.protected(a.ctx, req)
}

// wait waits for the messages in progress. When the server stops, it does not wait for a caller that reads none of their
// responses: the blocked send fails when the stream ends.
func (a *answerer) wait() {
	answered := make(chan struct{})
	go func() {
		a.running.Wait()
		close(answered)
	}()
	select {
	case <-answered:
		return
	case <-a.service.draining:
	}
	look := time.NewTicker(streams.DrainPatience)
	defer look.Stop()
	for before := a.sends.Load(); ; {
		select {
		case <-answered:
			return
		case <-look.C:
		}
		now := a.sends.Load()
		if now == before && now%2 == 1 {
			return
		}
		before = now
	}
}

// room waits until another message may be answered: a place is free, and the caller has read most of its responses, so that
// the server does not read from callers that do not read.
func (a *answerer) room() error {
	select {
	case a.places <- struct{}{}:
	case <-a.service.draining:
		return apierror.ShuttingDown()
	case <-a.ctx.Done():
		return status.FromContextError(a.ctx.Err()).Err()
	}
	if a.conn == nil || a.conn.Unsent() <= admission.MostUnsent {
		return nil
	}
	ctx, cancel := context.WithCancel(a.ctx)
	defer cancel()
	go func() {
		select {
		case <-a.service.draining:
			cancel()
		case <-ctx.Done():
		}
	}()
	switch err := a.conn.Answers().Below(ctx, admission.MostUnsent); {
	case err == nil:
		return nil
	case a.ctx.Err() == nil:
		return apierror.ShuttingDown()
	}
	return status.FromContextError(a.ctx.Err()).Err()
}
