package admission

import (
	"context"
	"fmt"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/setpoint-dev/setpoint/server/access"
	"github.com/setpoint-dev/setpoint/server/apierror"
	"github.com/setpoint-dev/setpoint/server/connections"
	"github.com/setpoint-dev/setpoint/server/cost"
	"github.com/setpoint-dev/setpoint/server/encoded"
	"github.com/setpoint-dev/setpoint/server/gate"
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
	// waitingToDecode is how many large messages wait for the memory to decode them, and longestTurn how
	// long.
	waitingToDecode, longestTurn = 8, 10 * time.Second
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

// receive reads a call's message, an encoded.Message. The call releases its place while it waits; the
// ticket may be nil.
func receive(ctx context.Context, ticket *limit.Ticket, decode func(any) error) func(any) error {
	return func(v any) error {
		conn := ConnOf(ctx)
		if ticket != nil {
			ticket.Wait()
		}
		if conn != nil {
			conn.Wait()
		}
		err := decode(v)
		if conn != nil {
			conn.Arrived()
		}
		if err != nil {
			return ofReceiving(err)
		}
		if ticket == nil {
			return nil
		}
		if refusal := ticket.Arrived(); refusal.Refused() {
			v.(*encoded.Message).Free()
			return refusal.Err()
		}
		return nil
	}
}

// ofReceiving is the error of a message that gRPC could not receive, to count and to log. gRPC has told the caller INTERNAL
// of one that is missing, half or one too many, but the fault is the caller's.
func ofReceiving(err error) error {
	if status.Code(err) != codes.Internal {
		return err
	}
	return apierror.InvalidField("", status.Convert(err).Message())
}

// received decodes the messages of one call.
type received struct {
	guard *Guard
	// most limits a message, in bytes; 0: no limit but the server's.
	most int
	// pass is that of large messages, which ends with the call.
	pass gate.Pass
}

// decode receives a message by means of receive, which gets an encoded.Message, and decodes it
// unless that is what the handler wants.
func (m *received) decode(ctx context.Context, v any, receive func(any) error) error {
	in, asIs := v.(*encoded.Message)
	if !asIs {
		in = new(encoded.Message)
		defer in.Free()
	}
	if err := receive(in); err != nil {
		return err
	}
	if m.most > 0 && len(in.Data) > m.most {
		in.Free()
		return apierror.OverLimit("maxMessageBytes", m.most, fmt.Sprintf("a message of this service has at most %d bytes", m.most))
	}
	if asIs {
		return nil
	}
	large := len(in.Data) > gate.Free
	if large {
		if err := m.enter(ctx); err != nil {
			return err
		}
	}
	var budget cost.Budget
	budget.Reset(len(in.Data))
	if err := encoded.Unmarshal(in.Data, m.guard.options.CostLimits, &budget, v.(proto.Message)); err != nil {
		return ChargeUnread(ctx, err)
	}
	if large {
		m.pass.Read(int64(budget.Made()))
	}
	return nil
}

// enter waits until there is memory to decode a large message.
func (m *received) enter(ctx context.Context) error {
	m.pass.Leave() // an earlier message of a stream
	turn, cancel := context.WithTimeout(ctx, longestTurn)
	defer cancel()
	switch err := m.guard.decoding.Enter(turn, &m.pass, access.CallerOf(ctx).Name(), true); {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return apierror.OfContext(ctx)
	}
	return m.guard.refuseLarge()
}

// refuseLarge refuses a call because others use the memory.
func (g *Guard) refuseLarge() error {
	if g.Limiter == nil {
		return limit.Refusal{Reason: limit.LargeRequests, RetryAfter: time.Second}.Err()
	}
	return g.Limiter.Refuse(limit.LargeRequests).Err()
}

// receivedStream decodes the messages of a stream.
type receivedStream struct {
	grpc.ServerStream
	received
}

// RecvMsg implements grpc.ServerStream.
func (s *receivedStream) RecvMsg(v any) error {
	return s.decode(s.Context(), v, func(v any) error { return ofReceiving(s.ServerStream.RecvMsg(v)) })
}

// counting returns a stream that counts responses until they are sent. It marks the connection as
// known once it has received a message; nil: it does not.
func counting(stream grpc.ServerStream, connection *connections.Conn) grpc.ServerStream {
	if conn := ConnOf(stream.Context()); conn != nil {
		return countedStream{stream, conn, connection}
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
