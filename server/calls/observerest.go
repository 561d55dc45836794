package calls

import (
	"context"
	"net/http"
	"sync/atomic"
	"time"

	"go.uber.org/zap"
	"google.golang.org/grpc/codes"

	"github.com/setpoint-dev/setpoint/server/apierror"
)

// restCall is the state of a REST call.
type restCall struct {
	// peer is the address of its connection.
	peer string
	// isRPC reports that it became a gRPC call, which is logged there.
	isRPC atomic.Bool
	// identity is the caller, and err the refusal, once they are known. The call's
	// goroutine sets them.
	identity string
	err      error
}

type restCallKey struct{}

// REST observes REST calls: each gets an id, is counted by its HTTP status, and is
// logged here if it never becomes a gRPC call.
func (o *Observer) REST(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		start := time.Now()
		id := requestIDOf(r)
		w.Header().Set(RequestIDHeader, id)
		c := &restCall{peer: r.RemoteAddr}
		answer := &restAnswer{ResponseWriter: w, code: http.StatusOK}
		next.ServeHTTP(answer, r.WithContext(context.WithValue(r.Context(), restCallKey{}, c)))
		o.Calls.REST(answer.code)
		if c.isRPC.Load() {
			return
		}
		code := codeOfHTTP(answer.code)
		blame := code // of a client's mistake, whatever the error is, the server has none
		if c.err != nil {
			if code = apierror.CodeOf(c.err); blame != codes.InvalidArgument {
				blame = code
			}
		}
		if line := o.check(o.level("", false, blame), blame); line != nil {
			fields := append(make([]zap.Field, 0, 16),
				zap.String("requestId", id), zap.String("transport", "rest"), zap.String("method", r.Method+" "+apierror.Clip(r.URL.Path)),
				zap.String("peer", c.peer), zap.String("identity", c.identity), zap.Int("httpCode", answer.code), zap.Duration("duration", time.Since(start)),
				zap.Int64("requestBytes", max(0, r.ContentLength)), zap.Int("responseBytes", answer.bytes))
			if c.err != nil {
				fields = append(fields, zap.Stringer("code", code))
			}
			line.Write(o.rare(r.Context(), fields, c.err)...)
		}
	})
}

// codeOfHTTP is the code that determines the level of the log line.
func codeOfHTTP(code int) codes.Code {
	switch {
	case code >= 500 && code != http.StatusServiceUnavailable:
		return codes.Internal
	case code >= 400:
		return codes.InvalidArgument
	}
	return codes.OK
}

// NoteRPC records that a REST call became a gRPC call, which is logged as such.
func NoteRPC(ctx context.Context) {
	if c, ok := ctx.Value(restCallKey{}).(*restCall); ok {
		c.isRPC.Store(true)
	}
}

// NoteRESTCaller records the caller of a REST call, as soon as it is known.
func NoteRESTCaller(ctx context.Context, name string) {
	if c, ok := ctx.Value(restCallKey{}).(*restCall); ok {
		c.identity = name
	}
}

// NoteRESTError records why a REST call is refused before it becomes a gRPC call.
func NoteRESTError(ctx context.Context, err error) {
	if c, ok := ctx.Value(restCallKey{}).(*restCall); ok {
		c.err = err
	}
}

// restAnswer records the response.
type restAnswer struct {
	http.ResponseWriter
	code, bytes int
}

// WriteHeader implements http.ResponseWriter, as does Write.
func (a *restAnswer) WriteHeader(code int) {
	if code >= http.StatusOK {
		a.code = code
	}
	a.ResponseWriter.WriteHeader(code)
}

// Write counts the written bytes.
func (a *restAnswer) Write(b []byte) (int, error) {
	n, err := a.ResponseWriter.Write(b)
	a.bytes += n
	return n, err
}

// Flush implements http.Flusher, which the gateway asks for.
func (a *restAnswer) Flush() { _ = http.NewResponseController(a.ResponseWriter).Flush() }

// Unwrap is for http.ResponseController.
func (a *restAnswer) Unwrap() http.ResponseWriter { return a.ResponseWriter }
