package setpoint

import (
	"context"
	"strconv"
	"sync"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
)

// DefaultInFlight bounds the unanswered requests of a stream: a server's default limit.
const DefaultInFlight = 64

// Stream sends requests over one stream, which costs both sides less than a call for each. It
// is safe for concurrent use: each goroutine may have a request in flight.
//
// It opens the stream with the first request. When the stream breaks, the server is silent
// for AttemptTimeout, or the server shuts down, it opens a new one, on another connection if
// there is one, and sends the unanswered requests again with the same request ids, in their
// order. So it does when the server no longer accepts the credentials that it accepted before:
// a new stream presents the current ones.
type Stream struct {
	client *Client
	places chan struct{}
	life   context.Context
	end    context.CancelFunc
	// ended is closed when all its goroutines have ended.
	ended chan struct{}
	// wake signals that there is something to send; one signal is enough.
	wake chan struct{}

	mu      sync.Mutex
	closed  bool                   // guarded by mu
	number  uint64                 // guarded by mu; of the last request
	waiting map[string]*streamCall // guarded by mu; unanswered requests
	queue   []*streamCall          // guarded by mu; requests to send, the next one first
}

// streamCall is a request in flight.
type streamCall struct {
	number uint64
	id     string
	// message is the encoded request; it shares no memory with the caller's.
	message  *setpointv1.StreamRecommendRequest
	deadline time.Time   // zero: none
	attempts int         // guarded by Stream.mu
	told     told        // guarded by Stream.mu
	delayed  bool        // guarded by Stream.mu; waits for its retry
	answer   chan Result // has room for one
}

// ends reports whether the call's time is over after a delay.
func (c *streamCall) ends(delay time.Duration) bool {
	return !c.deadline.IsZero() && time.Until(c.deadline) <= delay
}

// Stream returns a stream with at most inFlight unanswered requests; further ones wait. 0:
// DefaultInFlight. The stream ends with its Close or the client's.
func (c *Client) Stream(maxInFlight int) *Stream {
	if maxInFlight <= 0 {
		maxInFlight = DefaultInFlight
	}
	s := &Stream{
		client: c, places: make(chan struct{}, maxInFlight),
		ended: make(chan struct{}), wake: make(chan struct{}, 1), waiting: make(map[string]*streamCall),
	}
	s.life, s.end = context.WithCancel(c.life)
	c.running.Go(s.run)
	return s
}

// Recommend is Client.Recommend over the stream.
func (s *Stream) Recommend(ctx context.Context, req *setpointv1.RecommendRequest) (*setpointv1.RecommendResponse, error) {
	ctx, cancel := bounded(ctx, s.client.config.timeout)
	defer cancel()
	select {
	case s.places <- struct{}{}:
		defer func() { <-s.places }()
	case <-ctx.Done():
		return nil, status.FromContextError(ctx.Err()).Err()
	case <-s.life.Done():
		return nil, errClosed
	}
	call, err := s.add(ctx, req)
	if err != nil {
		return nil, err
	}
	s.client.retries.budget.deposit()
	select {
	case result := <-call.answer:
		return result.Response, result.Err
	case <-ctx.Done():
		return nil, s.forget(call, status.FromContextError(ctx.Err()).Err())
	}
}

// Close ends the stream. Unanswered requests fail with CANCELED.
func (s *Stream) Close() {
	s.end()
	<-s.ended
}

var errClosed = status.Error(codes.Canceled, "the stream is closed")

// add registers a request.
func (s *Stream) add(ctx context.Context, req *setpointv1.RecommendRequest) (*streamCall, error) {
	message, err := encoded(identified(req))
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, errClosed
	}
	s.number++
	call := &streamCall{number: s.number, id: strconv.FormatUint(s.number, 10), message: message, answer: make(chan Result, 1)}
	call.deadline, _ = ctx.Deadline()
	message.Id = call.id
	if size, most := proto.Size(message), s.client.config.maxSendBytes; size > most { // it would end the stream of all
		return nil, status.Errorf(codes.ResourceExhausted, "the request has %d bytes, more than the %d that may be sent", size, most)
	}
	s.waiting[call.id] = call
	s.enqueueLocked(call)
	return call, nil
}

// requestField is the number of StreamRecommendRequest.request.
const requestField = 2

// encoded returns a message with the request encoded as an unknown field: the stream may send
// it late, and more than once, while the caller has given up and changes the request.
func encoded(req *setpointv1.RecommendRequest) (*setpointv1.StreamRecommendRequest, error) {
	data, err := proto.Marshal(req)
	if err != nil {
		return nil, status.Errorf(codes.Internal, "encode the request: %v", err)
	}
	field := protowire.AppendTag(make([]byte, 0, len(data)+8), requestField, protowire.BytesType)
	message := &setpointv1.StreamRecommendRequest{}
	message.ProtoReflect().SetUnknown(protowire.AppendBytes(field, data))
	return message, nil
}

func (s *Stream) enqueueLocked(call *streamCall) {
	s.queue = append(s.queue, call)
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// next returns the next request to send; nil: none.
func (s *Stream) next() *streamCall {
	s.mu.Lock()
	defer s.mu.Unlock()
	for len(s.queue) > 0 {
		call := s.queue[0]
		s.queue[0] = nil
		s.queue = s.queue[1:]
		if s.waiting[call.id] == call {
			call.attempts++
			return call
		}
	}
	return nil
}

// forget drops a request whose caller has left, and returns the call's error.
func (s *Stream) forget(call *streamCall, err error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.waiting, call.id)
	return call.told.by(err)
}

// take handles an answer, or the error of one request, which it retries if it is transient. It
// returns an error of the stream: no request counts with the credentials it was opened with.
func (s *Stream) take(response *setpointv1.StreamRecommendResponse) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	call := s.waiting[response.GetId()]
	if call == nil {
		return nil // its caller has left
	}
	result, retries := resultOf(response), s.client.retries
	if status.Code(result.Err) == codes.Unauthenticated {
		return result.Err
	}
	least, again := retries.mayRepeat(s.life, call.attempts, result.Err)
	delay := retries.delay(call.attempts, least)
	if !again || call.ends(delay) || !retries.budget.withdraw() {
		s.settleLocked(call, result)
		return nil
	}
	_ = call.told.by(result.Err)
	call.delayed = true
	time.AfterFunc(delay, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if call.delayed = false; s.waiting[call.id] == call {
			s.enqueueLocked(call)
		}
	})
	return nil
}

func (s *Stream) settleLocked(call *streamCall, result Result) {
	delete(s.waiting, call.id)
	result.Err = call.told.by(result.Err)
	call.answer <- result
}
