package admission

import (
	"context"

	"google.golang.org/grpc"
	"google.golang.org/grpc/peer"

	"github.com/setpoint-dev/setpoint/server/connections"
	"github.com/setpoint-dev/setpoint/server/encoded"
	"github.com/setpoint-dev/setpoint/server/limit"
	"github.com/setpoint-dev/setpoint/server/unfinished"
)

const (
	// leastUnfinished limits the bytes of incomplete messages if the largest message is smaller
	// than a quarter of it.
	leastUnfinished = 64 << 20
	// waitingFactor times the limit of calls in flight may wait for their messages; beyond
	// that each connection may have fairWaiting of them.
	waitingFactor = 2
	fairWaiting   = 16
	// busyWaiting is how many waiting calls a connection may have under overload. More
	// bodies would delay those of admitted calls on the connection.
	busyWaiting = 4
	// MostUnsent is how many bytes of unread responses a caller may have before further calls are
	// refused, and fewUnsent how many during overload: late responses are useless.
	MostUnsent = 16 << 20
	fewUnsent  = 256 << 10
	// leastUnread limits the bytes of all unread responses if the largest message is smaller
	// than half of it. Beyond it the connection with the most is closed.
	leastUnread = 32 << 20
	// firstBody is the first buffer for a REST call's body, in bytes.
	firstBody = 4 << 10
)

func (g *Guard) newUnfinished() {
	options := unfinished.Options{
		Bytes:   max(leastUnfinished, 4*int64(g.options.MaxRequestBytes)),
		Answers: max(leastUnread, 2*int64(g.options.MaxRequestBytes)),
		Streams: max(unfinished.DefaultStreams, 2*g.options.MaxCallsPerConnection),
	}
	if g.Limiter != nil {
		options.Bodies = waitingFactor * g.options.Limits.InFlight
	}
	g.Unfinished = unfinished.New(options)
}

// ConnOf returns the connection of a call, nil for the gateway's calls.
func ConnOf(ctx context.Context) *unfinished.Conn {
	if p, ok := peer.FromContext(ctx); ok {
		return unfinished.ConnOf(p.Addr)
	}
	return nil
}

// receiving reads the message of a call with an authenticated caller; the ticket may be
// nil.
func (g *Guard) receiving(ctx context.Context, ticket *limit.Ticket, decode func(any) error) func(any) error {
	receive := receive(ctx, ticket, decode)
	return func(v any) error {
		err := receive(v)
		if err == nil && ticket != nil {
			connectionOf(ctx).Know()
		}
		return err
	}
}

// receive reads a call's message. The call releases its place while it waits; the ticket may be
// nil.
func receive(ctx context.Context, ticket *limit.Ticket, decode func(any) error) func(any) error {
	return func(v any) error {
		conn := ConnOf(ctx)
		if ticket != nil {
			ticket.Wait()
		}
		if conn != nil {
			conn.Wait()
		}
		err := encoded.Decode(v, decode)
		if conn != nil {
			conn.Arrived()
		}
		if err != nil {
			return err
		}
		if ticket == nil {
			return nil
		}
		if refusal := ticket.Arrived(); refusal.Refused() {
			if m, ok := v.(*encoded.Message); ok {
				m.Free()
			}
			return refusal.Err()
		}
		return nil
	}
}

// counting returns a stream that marks its connection as known once it has received a message, and
// that counts responses until they are sent.
func counting(stream grpc.ServerStream) grpc.ServerStream {
	if conn := ConnOf(stream.Context()); conn != nil {
		return countedStream{stream, conn, connectionOf(stream.Context())}
	}
	return stream
}

type countedStream struct {
	grpc.ServerStream
	conn       *unfinished.Conn
	connection *connections.Conn
}

// SendMsg implements grpc.ServerStream.
func (s countedStream) SendMsg(m any) error {
	return s.ServerStream.SendMsg(encoded.Counted(s.conn, m))
}

// RecvMsg implements grpc.ServerStream.
func (s countedStream) RecvMsg(m any) error {
	err := s.ServerStream.RecvMsg(m)
	if err == nil {
		s.connection.Know()
	}
	return err
}

// Unsent returns how many bytes of responses a call's connection has not sent yet.
func Unsent(ctx context.Context) int64 {
	if conn := ConnOf(ctx); conn != nil {
		return conn.Unsent()
	}
	return 0
}
