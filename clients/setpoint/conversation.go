package setpoint

import (
	"cmp"
	"context"
	"errors"
	"io"
	"slices"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/internal/deadline"
)

// run opens a stream whenever there is something to send and none is open.
func (s *Stream) run() {
	defer close(s.ended)
	defer s.failAll(true, errClosed)
	failures := 0 // in a row
	ctx := spread(s.life)
	for s.await() {
		accepted, again, err := s.converse(ctx)
		if s.life.Err() != nil {
			return
		}
		if accepted {
			failures = 0
			usedBy(ctx).keepLast()
		}
		failures++
		least, ok := mayPass(err)
		if !ok && !again && !s.tooLarge(err) {
			failures = 0
			s.failAll(false, err)
			continue
		}
		delay := s.client.retries.delay(failures, least)
		if !s.requeue(err, delay) {
			failures = 0 // a new request starts at zero
		} else if !s.client.retries.budget.withdraw() || !deadline.Sleep(s.life, delay) {
			s.failAll(false, err)
		}
	}
}

// await waits until there is something to send; false: the stream is closed.
func (s *Stream) await() bool {
	for {
		s.mu.Lock()
		n := len(s.queue)
		s.mu.Unlock()
		if n > 0 {
			return s.life.Err() == nil
		}
		select {
		case <-s.wake:
		case <-s.life.Done():
			return false
		}
	}
}

// errSilent is the cause when a stream ends because no answer came in time.
var errSilent = status.Error(codes.Unavailable, "the server did not answer in time on a stream")

// converse opens a stream, sends the queue and receives answers until the stream ends, or one
// says that its credentials no longer count: they are those it was opened with. It returns
// whether any answer arrived before, why the stream ended, and whether another one presents
// credentials that may count: those now, after ones that did or a certificate that was replaced.
func (s *Stream) converse(ctx context.Context) (accepted, again bool, err error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	stream, err := s.client.recommendations.StreamRecommend(ctx, grpc.ForceCodecV2(newStreamCodec()))
	if err != nil {
		s.tried()
		return false, false, err
	}
	silence := newSilenceTimer(s.client.config.retry.AttemptTimeout, func() { cancel(errSilent) })
	defer silence.stop()
	var sending sync.WaitGroup
	defer sending.Wait()
	defer cancel(nil)
	sending.Go(func() { s.send(ctx, stream, silence) })
	for {
		response, err := stream.Recv()
		if err == nil {
			silence.answered()
			if err = s.take(response); err == nil {
				accepted = true
				continue
			}
		}
		switch {
		case errors.Is(context.Cause(ctx), errSilent):
			err = errSilent
		case errors.Is(err, io.EOF):
			err = status.Error(codes.Unavailable, "the server ended the stream")
		case status.Code(err) == codes.Unauthenticated:
			over, _ := peer.FromContext(stream.Context())
			again = s.client.encrypted.renewed(err, over) || accepted
		}
		return accepted, again, err
	}
}

// send sends until the stream ends. Requests left unsent by a failure go over the next stream;
// the receiver knows why this one ended.
func (s *Stream) send(ctx context.Context, stream setpointv1.RecommendationService_StreamRecommendClient, silence *silenceTimer) {
	for {
		call := s.next()
		if call == nil {
			select {
			case <-s.wake:
				continue
			case <-ctx.Done():
				return
			}
		}
		silence.asked()
		if stream.Send(call.message) != nil {
			return
		}
	}
}

// tried counts an attempt of all waiting requests: no stream could be opened.
func (s *Stream) tried() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, call := range s.waiting {
		if !call.delayed {
			call.attempts++
		}
	}
}

// requeue queues the unanswered requests again, in their order. Those without attempts left, or
// without time for the delay, fail with the error that ended the stream. It reports whether any are
// queued.
func (s *Stream) requeue(err error, delay time.Duration) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.queue = nil
	for _, call := range s.waiting {
		switch {
		case call.delayed: // its timer queues it
		case call.attempts >= s.client.retries.policy.MaxAttempts, call.ends(delay):
			s.settleLocked(call, Result{Err: err})
		default:
			_ = call.told.by(err)
			s.enqueueLocked(call)
		}
	}
	slices.SortFunc(s.queue, func(a, b *streamCall) int { return cmp.Compare(a.number, b.number) })
	return len(s.queue) > 0
}

// tooLarge fails the largest of the requests that were sent, if the stream ended because one is larger than the server
// takes: gRPC does not say which one, and the others had no attempt.
func (s *Stream) tooLarge(err error) bool {
	if status.Code(err) != codes.ResourceExhausted || Reason(err) != "" {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	var largest *streamCall
	for _, call := range s.waiting {
		if call.attempts == 0 || call.delayed {
			continue
		}
		call.attempts--
		if largest == nil || proto.Size(call.message) > proto.Size(largest.message) {
			largest = call
		}
	}
	if largest != nil {
		s.settleLocked(largest, Result{Err: err})
	}
	return largest != nil
}

// failAll fails all waiting requests; for good if the stream is closed.
func (s *Stream) failAll(closed bool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = s.closed || closed
	for _, call := range s.waiting {
		s.settleLocked(call, Result{Err: err})
	}
	s.queue = nil
}

// silenceTimer detects a stream with unanswered requests on which no answers arrive.
type silenceTimer struct {
	limit time.Duration

	mu    sync.Mutex
	open  int         // guarded by mu; unanswered requests
	timer *time.Timer // guarded by mu; nil: no limit
}

func newSilenceTimer(limit time.Duration, tooLong func()) *silenceTimer {
	w := &silenceTimer{limit: limit}
	if limit > 0 {
		w.timer = time.AfterFunc(limit, tooLong)
		w.timer.Stop()
	}
	return w
}

// asked records a sent request: the time starts with the first one.
func (w *silenceTimer) asked() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.open++; w.open == 1 && w.timer != nil {
		w.timer.Reset(w.limit)
	}
}

// answered records an answer: the time restarts if more are expected.
func (w *silenceTimer) answered() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.open = max(w.open-1, 0) // a server may answer twice
	if w.timer == nil {
		return
	}
	if w.open > 0 {
		w.timer.Reset(w.limit)
	} else {
		w.timer.Stop()
	}
}

func (w *silenceTimer) stop() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.timer != nil {
		w.timer.Stop()
	}
}
