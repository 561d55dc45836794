package admission

import (
	"context"

	"google.golang.org/grpc"

	"github.com/setpoint-dev/setpoint/server/access"
	"github.com/setpoint-dev/setpoint/server/apierror"
	"github.com/setpoint-dev/setpoint/server/auth"
	"github.com/setpoint-dev/setpoint/server/calls"
	"github.com/setpoint-dev/setpoint/server/encoded"
	"github.com/setpoint-dev/setpoint/server/limit"
)

// MostTokenMessage limits messages that may contain the caller's token, in bytes.
const MostTokenMessage = 64 << 10

// mayHoldToken reports whether the caller has no other credentials, and the message of the
// call may contain its token.
func (g *Guard) mayHoldToken(ctx context.Context, method string) bool {
	if g.options.TokensIn[method] == nil || g.options.Access == nil || access.IsOpen(method) || calls.IsFromGateway(ctx) {
		return false
	}
	c := credentialsOf(ctx)
	return len(c.Authorization) == 0 && (c.TLS == nil || len(c.TLS.PeerCertificates) == 0)
}

// identifyByToken authenticates the caller by the token in its message, if there is one.
func (g *Guard) identifyByToken(ctx context.Context, method string, message []byte, ticket *limit.Ticket) identified {
	who := g.identifyBy(ctx, method, func(ctx context.Context) auth.Credentials {
		c := credentialsOf(ctx)
		if token := g.options.TokensIn[method](message); token != "" {
			c.Authorization = []string{"Bearer " + token}
		}
		return c
	}, ticket)
	if who.session != nil {
		connectionOf(ctx).Know()
	}
	return who
}

// readToken reads a message that may contain a token. The caller is still unknown: the
// call holds no place while it waits, and its connection does not count as known.
func readToken(ctx context.Context, ticket *limit.Ticket, decode func(any) error) (*encoded.Message, error) {
	message := new(encoded.Message)
	if err := receive(ctx, ticket, decode)(message); err != nil {
		return nil, err
	}
	if len(message.Data) > MostTokenMessage {
		message.Free()
		return nil, apierror.OverLimit("maxTokenMessageBytes", MostTokenMessage, "the message is larger than this server accepts from unknown callers")
	}
	return message, nil
}

// handOver passes on a message that was already read to its decoder.
func handOver(message *encoded.Message) func(any) error {
	return func(into any) error {
		in, ok := into.(*encoded.Message)
		if !ok {
			return apierror.Undecodable()
		}
		in.Take(message)
		return nil
	}
}

// answerByToken serves a call whose message is read before its caller is known.
func (g *Guard) answerByToken(ctx context.Context, method string, ticket *limit.Ticket, decode func(any) error, interceptor grpc.UnaryServerInterceptor,
	answer func(context.Context, func(any) error) (any, error)) (any, error) {
	message, err := readToken(ctx, ticket, decode)
	if err != nil {
		return nil, err
	}
	defer message.Free()
	a := admittedOf(ctx)
	if a == nil {
		a = &admitted{Context: ctx}
		ctx = a
	}
	a.who, a.looked = g.identifyByToken(ctx, method, message.Data, ticket), true
	if ticket != nil {
		if refusal := ticket.Arrived(); refusal.Refused() { // it may have waited for an issuer
			return nil, refusal.Err()
		}
	}
	if a.who.err != nil && a.who.session == nil {
		return interceptor(ctx, nil, &grpc.UnaryServerInfo{FullMethod: method}, notReached)
	}
	resp, err := answer(ctx, handOver(message))
	if conn := ConnOf(ctx); conn != nil && err == nil {
		resp = encoded.Counted(conn, resp)
	}
	return resp, err
}

// streamByToken reads the first message of a stream before its caller is known.
func (g *Guard) streamByToken(stream grpc.ServerStream, method string, ticket *limit.Ticket) (identified, grpc.ServerStream, error) {
	message, err := readToken(stream.Context(), ticket, stream.RecvMsg)
	if err != nil {
		return identified{}, nil, err
	}
	who := g.identifyByToken(stream.Context(), method, message.Data, ticket)
	if who.session == nil {
		message.Free()
		return who, stream, nil
	}
	return who, &begunStream{stream, message}, nil
}

// begunStream is a stream whose first message was already read.
type begunStream struct {
	grpc.ServerStream
	first *encoded.Message // nil: already received
}

// RecvMsg implements grpc.ServerStream.
func (s *begunStream) RecvMsg(into any) error {
	if s.first == nil {
		return s.ServerStream.RecvMsg(into)
	}
	first := s.first
	s.first = nil
	return handOver(first)(into)
}
