package server

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/url"
	"sync/atomic"
	"time"
	"unicode/utf8"

	"github.com/grpc-ecosystem/grpc-gateway/v2/runtime"
	"google.golang.org/grpc"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"

	"github.com/setpoint-dev/setpoint/server/apierror"
	"github.com/setpoint-dev/setpoint/server/connections"
	"github.com/setpoint-dev/setpoint/server/limit"
	"github.com/setpoint-dev/setpoint/server/restjson"
	"github.com/setpoint-dev/setpoint/server/unfinished"
)

const (
	// leastUnfinished bounds what callers have sent of messages that are not complete, in
	// bytes, where the largest message is smaller than a quarter of it.
	leastUnfinished = 64 << 20
	// waitingFactor is how many more calls may wait for their messages than may be in
	// flight; beyond them a connection may have fairWaiting of them.
	waitingFactor = 2
	fairWaiting   = 16
	// busyWaiting is how many a connection may have while calls are refused for overload. What
	// more of them send would lie before the bodies of those that are let in.
	busyWaiting = 4
	// Who has more answers to read than mostUnsent, in bytes, may not ask on; while calls are
	// refused for overload, than fewUnsent: those that can't be sent in time are in vain.
	mostUnsent = 16 << 20
	fewUnsent  = 256 << 10
	// leastUnread bounds what all callers together have to read of answers, in bytes, where the
	// largest message is smaller than half of it. Beyond it the connection goes that has the most.
	leastUnread = 32 << 20
	// firstBody is what is made room for before any of a REST call's body has come, in bytes.
	firstBody = 4 << 10
)

func (s *Server) newUnfinished() {
	options := unfinished.Options{
		Bytes:   max(leastUnfinished, 4*int64(s.options.MaxRequestBytes)),
		Answers: max(leastUnread, 2*int64(s.options.MaxRequestBytes)),
		Streams: max(unfinished.DefaultStreams, 2*s.options.MaxCallsPerConnection),
	}
	if s.limiter != nil {
		options.Bodies = waitingFactor * s.options.Limits.InFlight
	}
	s.unfinished = unfinished.New(options)
}

// connOf returns the connection of a call, nil for the gateway's.
func connOf(ctx context.Context) *unfinished.Conn {
	if p, ok := peer.FromContext(ctx); ok {
		return unfinished.ConnOf(p.Addr)
	}
	return nil
}

// clogged says why no more calls are taken from a connection: too many calls wait for their
// messages, and many of them on this one, or it has too many answers that nobody reads.
func (s *Server) clogged(ctx context.Context) limit.Reason {
	conn := connOf(ctx)
	if conn == nil {
		return 0
	}
	switch unsent := conn.Unsent(); {
	case unsent > mostUnsent, unsent > fewUnsent && s.limiter.Shedding():
		return limit.Unread
	case conn.Waiting() >= busyWaiting && s.limiter.Shedding():
		return limit.Overload
	case s.limiter.Waiting() >= waitingFactor*s.options.Limits.InFlight && conn.Waiting() >= fairWaiting:
		return limit.Unfinished
	}
	return 0
}

// receiving reads a call's message. While it waits for it, it holds nothing; the ticket
// may be nil.
func (s *Server) receiving(ctx context.Context, ticket *limit.Ticket, decode func(any) error) func(any) error {
	return func(v any) error {
		conn := connOf(ctx)
		if ticket != nil {
			ticket.Wait()
		}
		if conn != nil {
			conn.Wait()
		}
		err := decodeInto(v, decode)
		if conn != nil {
			conn.Arrived()
		}
		if err != nil {
			return err
		}
		if ticket == nil {
			return nil
		}
		connectionOf(ctx).Know()
		if refusal := ticket.Arrived(); refusal.Refused() {
			if m, ok := v.(*message); ok {
				m.free()
			}
			return refusal.Err()
		}
		return nil
	}
}

// decodeInto reads a message. Of one that does not parse gRPC says INTERNAL, as if that
// were the server's fault, and at once; so the codec tells it of none.
func decodeInto(v any, decode func(any) error) error {
	if _, encoded := v.(*message); encoded {
		return decode(v)
	}
	p := &parsed{into: v}
	if err := decode(p); err != nil {
		return err
	}
	if p.err != nil {
		return apierror.Undecodable()
	}
	return nil
}

// counting is a stream whose caller is known to have been heard out, and whose answers are
// counted until they are sent.
func counting(stream grpc.ServerStream) grpc.ServerStream {
	if conn := connOf(stream.Context()); conn != nil {
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
	return s.ServerStream.SendMsg(answered(s.conn, m))
}

// RecvMsg implements grpc.ServerStream.
func (s countedStream) RecvMsg(m any) error {
	err := s.ServerStream.RecvMsg(m)
	if err == nil {
		s.connection.Know()
	}
	return err
}

// received reads the body of a REST call before anything is done with it. While it waits
// for it, the call takes no place from others.
func (s *Server) received(next *runtime.ServeMux) http.Handler {
	short := s.newShortWay(next)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if field, bad := badText(r.URL); bad {
			answerStatus(next, w, r, status.Convert(apierror.InvalidField(field, "Invalid value: is not UTF-8")))
			return
		}
		if r.Body == nil || r.Body == http.NoBody {
			restConnectionOf(r).Know()
			s.translations.serve(next, w, r, 0)
			return
		}
		ticket := restTicketOf(r.Context())
		if ticket != nil {
			ticket.Wait()
		}
		data, err := s.readBody(w, r)
		switch {
		case err == nil:
			restConnectionOf(r).Know()
			r.Body = restjson.Whole(data)
		case errors.Is(err, errCut) && s.limiter != nil:
			hangUp(w)
			answerRefusal(next, w, r, s.limiter.Refuse(limit.Unfinished))
			return
		default:
			r.Body = io.NopCloser(failing{err}) // the answer to it is made where JSON is read
		}
		if ticket != nil {
			if refusal := ticket.Arrived(); refusal.Refused() {
				hangUp(w)
				answerRefusal(next, w, r, refusal)
				return
			}
		}
		if err != nil || !short.answer(w, r, data) {
			s.translations.serve(next, w, r, len(data))
		}
	})
}

// hangUp has the connection closed after the answer. Else that would wait for the rest of
// the body, as net/http has it.
func hangUp(w http.ResponseWriter) { w.Header().Set("Connection", "close") }

// badText returns the part of a URL that is not UTF-8, which no message can hold.
func badText(u *url.URL) (field string, bad bool) {
	if !utf8.ValidString(u.Path) {
		return "target", true
	}
	if u.RawQuery == "" {
		return "", false
	}
	for name, values := range u.Query() {
		if !utf8.ValidString(name) {
			return "query", true
		}
		for _, value := range values {
			if !utf8.ValidString(value) {
				return name, true
			}
		}
	}
	return "", false
}

// errCut is the error of a body that had to make way for others.
var errCut = errors.New("too much that was unfinished")

// readBody reads a body to its end, or up to the limit.
func (s *Server) readBody(w http.ResponseWriter, r *http.Request) ([]byte, error) {
	limit := s.maxBody(r)
	if r.ContentLength > limit {
		return nil, &http.MaxBytesError{Limit: limit}
	}
	var cut atomic.Bool
	holder := s.unfinished.Begin(func() {
		cut.Store(true)
		_ = http.NewResponseController(w).SetReadDeadline(time.Unix(1, 0))
	})
	defer holder.End()
	body := http.MaxBytesReader(w, r.Body, limit)
	data := make([]byte, 0, min(firstBody, max(512, r.ContentLength+1)))
	for {
		n, err := body.Read(data[len(data):cap(data)])
		data = data[:len(data)+n]
		if n > 0 {
			holder.Add(n)
		}
		switch {
		case errors.Is(err, io.EOF):
			return data, nil
		case cut.Load():
			return nil, errCut
		case err != nil:
			return nil, err
		}
		if len(data) == cap(data) {
			data = grown(data, r.ContentLength)
		}
	}
}

// grown makes room for more: twice as much, but no more than is announced.
func grown(data []byte, announced int64) []byte {
	size := 2 * cap(data)
	if announced >= int64(len(data)) && announced < int64(size) {
		size = int(announced) + 1 // one more, to find the end
	}
	if size <= len(data) {
		size = len(data) + 1
	}
	larger := make([]byte, len(data), size)
	copy(larger, data)
	return larger
}

// failing is a body that can't be read.
type failing struct{ err error }

// Read implements io.Reader.
func (f failing) Read([]byte) (int, error) { return 0, f.err }
