package server

import (
	"context"
	"errors"
	"io"
	"slices"
	"sync"
	"time"
	"unicode/utf8"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protowire"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/server/access"
	"github.com/setpoint-dev/setpoint/server/apierror"
	"github.com/setpoint-dev/setpoint/server/calls"
	"github.com/setpoint-dev/setpoint/server/decision"
	"github.com/setpoint-dev/setpoint/server/limit"
	"github.com/setpoint-dev/setpoint/server/unfinished"
	"github.com/setpoint-dev/setpoint/server/validation"
	"github.com/setpoint-dev/setpoint/server/wire"
)

// streamEncoded serves StreamRecommend. It answers each request in a goroutine of its
// own, and reads no further while too many are unanswered, so that a caller's sends
// block.
func (s *recommendationService) streamEncoded(stream grpc.ServerStream) error {
	requests, failed := s.receive(stream)
	answers := answerer{stream: stream, conn: connOf(stream.Context())}
	places := make(chan struct{}, s.streamInFlight)
	defer answers.wait()
	for {
		select {
		case <-s.draining:
			return apierror.ShuttingDown()
		case <-stream.Context().Done(): // receive may have ended without a word
			return status.FromContextError(stream.Context().Err()).Err()
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
			if err := answers.caughtUp(); err != nil {
				req.free()
				return status.FromContextError(err).Err()
			}
			req.began = time.Now()
			s.admitStreamed(stream.Context(), req)
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
	began   time.Time      // it may have waited since
	caller  *access.Caller // as of this message
	ticket  limit.Ticket
	refused error
}

// admitStreamed looks at who sends a message, and lets it in. It holds no place while an
// issuer is asked.
func (s *recommendationService) admitStreamed(ctx context.Context, req *streamed) {
	if open := access.SessionOf(ctx); open != nil {
		if req.caller, req.refused = s.renewed(ctx, open); req.refused != nil {
			return
		}
	}
	req.refused = s.admit(ctx, &req.ticket, req.caller.Name())
}

func (s *recommendationService) renewed(ctx context.Context, open *access.Session) (*access.Caller, error) {
	if c := open.Now.Load(); s.counts(c) {
		return c, nil // without a context of its own, which takes memory
	}
	ctx, cancel := context.WithTimeout(ctx, s.targets.Options.RequestTimeout)
	defer cancel()
	return s.renew(ctx, open)
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
		if err := calls.Recovered(s.targets.Log, setpointv1.RecommendationService_StreamRecommend_FullMethodName, recover(), nil); err != nil {
			s.targets.Metrics.Decisions.Refused(codes.Internal)
			failed := decision.Job{Err: err}
			answer = &message{data: failed.Streamed(nil, id)}
		}
	}()
	return s.answerStreamed(ctx, req, &id)
}

// answerStreamed answers one message of a stream. It tells the request's id as soon
// as it is known.
func (s *recommendationService) answerStreamed(ctx context.Context, req *streamed, id *string) *message {
	var j decision.Job
	var request []byte
	ctx = s.targets.TraceMessage(ctx, &j)
	defer j.AbandonTrace()
	*id, request, j.Err = readStreamed(req.data)
	if j.Err == nil {
		ctx, cancel := apierror.WithOwnDeadline(ctx, s.targets.Options.RequestTimeout)
		defer cancel()
		if j.Err = req.refused; j.Err == nil && unsent(ctx) > 2*mostUnsent {
			j.Err = s.targets.Refuse(limit.Unread)
		}
		if j.Err == nil {
			s.targets.ReadEncoded(ctx, req.caller, &j, request, &req.ticket, &req.pass)
			defer j.Release()
			s.targets.Recommend(ctx, &j)
		}
	}
	s.targets.MessageAnswered(ctx, &j, req.began)
	answer := newAnswer()
	answer.data = j.Streamed(answer.data, *id)
	return answer
}

// readStreamed reads an encoded StreamRecommendRequest: its id and the encoded request,
// of which nothing is made.
func readStreamed(data []byte) (id string, request []byte, err error) {
	if id, request, ok := wire.StreamRequest(data); ok {
		return id, request, nil
	}
	const idField, requestField = 1, 2
	parts := 0
	ok := eachField(data, func(number protowire.Number, value []byte) bool {
		switch number {
		case idField:
			id = string(value)
		case requestField:
			// Of several, the fields of all count, as in any message.
			if parts++; parts == 1 {
				request = value // can't grow into what comes after it
			} else {
				request = append(request, value...)
			}
		}
		return number != idField || utf8.Valid(value)
	})
	if !ok {
		return "", nil, apierror.Undecodable()
	}
	// The rules of its own fields only: those of the request are looked at later.
	broken := validation.Structure(&setpointv1.StreamRecommendRequest{Id: id})
	broken = slices.DeleteFunc(broken, func(v validation.Violation) bool { return v.Field == "request" && parts > 0 })
	return id, request, apierror.Invalid(broken)
}

// findRequests finds the encoded requests of an encoded BatchRecommendRequest, of which
// nothing is made. Of more than most it returns one more.
func findRequests(data []byte, most int) ([][]byte, bool) {
	if requests, ok := wire.BatchRequests(data, most); ok {
		return requests, true
	}
	var requests [][]byte
	ok := eachField(data, func(number protowire.Number, value []byte) bool {
		if number == 1 && len(requests) <= most {
			requests = append(requests, value)
		}
		return true
	})
	return requests, ok
}

// eachField visits the fields of an encoded message that have a length. False: it is
// none, or the visit ended.
func eachField(data []byte, visit func(protowire.Number, []byte) bool) bool {
	for len(data) > 0 {
		number, kind, n := protowire.ConsumeTag(data)
		if n < 0 {
			return false
		}
		length := protowire.ConsumeFieldValue(number, kind, data[n:])
		if length < 0 {
			return false
		}
		if value := data[n : n+length]; kind == protowire.BytesType {
			value, _ = protowire.ConsumeBytes(value)
			if !visit(number, value[:len(value):len(value)]) {
				return false
			}
		}
		data = data[n+length:]
	}
	return true
}

// answerer sends answers on a stream as they get ready, one at a time.
type answerer struct {
	stream  grpc.ServerStream
	conn    *unfinished.Conn // nil: not counted
	running sync.WaitGroup
	mu      sync.Mutex // guards stream.SendMsg
}

func (a *answerer) add(answer func() *message) {
	a.running.Go(func() {
		m := answer()
		defer m.free()
		if a.conn != nil { // before its turn to be sent comes
			m.count(a.conn.Answers())
		}
		a.mu.Lock()
		defer a.mu.Unlock()
		// A stream that has ended takes no answers; its reader knows.
		_ = a.stream.SendMsg(m)
	})
}

func (a *answerer) wait() { a.running.Wait() }

// caughtUp waits until the caller has read most of what it was answered: who does not read
// is read no further.
func (a *answerer) caughtUp() error {
	if a.conn == nil {
		return nil
	}
	return a.conn.Answers().Below(a.stream.Context(), mostUnsent)
}

// unsent returns how many bytes of answers a call's connection has to send.
func unsent(ctx context.Context) int64 {
	if conn := connOf(ctx); conn != nil {
		return conn.Unsent()
	}
	return 0
}
