package load

import (
	"context"
	"time"
)

// Conversation is an open stream of requests, with responses in any order.
type Conversation interface {
	// Send sends a request identified by its slot, from 0.
	Send(slot int) error
	// Receive returns the slot of a response; err is the response's if answered, else
	// the stream's.
	Receive() (slot int, answered bool, err error)
	// End ends the requests, and waits for the end of the stream.
	End() error
}

// Streams keeps that many requests in flight on each conversation for the duration.
// Those in flight at the end are finished and count.
func Streams(ctx context.Context, streams, inFlight int, duration time.Duration, open func(ctx context.Context, stream int) (Conversation, error)) *Result {
	began := time.Now()
	return Callers(streams, func(n int, r *Result) {
		open := func(ctx context.Context) (Conversation, error) { return open(ctx, n) }
		if err := converse(ctx, inFlight, began.Add(duration), open, r); err != nil {
			r.fail(err)
		}
	})
}

func converse(ctx context.Context, inFlight int, until time.Time, open func(context.Context) (Conversation, error), r *Result) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stream, err := open(ctx)
	if err != nil {
		return err
	}
	sent := make([]time.Time, inFlight)
	for slot := range sent {
		sent[slot] = time.Now()
		if err := stream.Send(slot); err != nil {
			return err
		}
	}
	for waiting := inFlight; waiting > 0; {
		slot, answered, err := stream.Receive()
		if !answered {
			return err
		}
		now := time.Now()
		r.Record(now.Sub(sent[slot]), err)
		if now.After(until) {
			waiting--
			continue
		}
		sent[slot] = now
		if err := stream.Send(slot); err != nil {
			return err
		}
	}
	return stream.End()
}
