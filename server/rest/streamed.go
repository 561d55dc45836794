package rest

import (
	"context"
	"net/http"
	"sync"
	"time"

	"github.com/grpc-ecosystem/grpc-gateway/v2/runtime"
	"google.golang.org/grpc/status"

	"github.com/setpoint-dev/setpoint/server/admission"
)

// streamWrite limits the time to write a part of a streamed response: a caller that
// reads nothing for so long is cut off.
const streamWrite = time.Minute

// drainWrite limits the same once the server begins to stop, and with it how long the stop
// waits for such a caller.
const drainWrite = time.Second

// serving returns how calls of a route are served once their body, of that size, is read.
func (g *Gateway) serving(route *route, mux *runtime.ServeMux) func(w http.ResponseWriter, r *http.Request, size int) {
	var next http.Handler = mux
	if route.contract != nil {
		next = asking(mux, g.conn, route.contract)
	}
	serve := func(w http.ResponseWriter, r *http.Request, size int) {
		g.translations.serve(mux, next, w, r, size > smallBody || route.kind == list)
	}
	if route.kind != streamed {
		return serve
	}
	return func(w http.ResponseWriter, r *http.Request, size int) { g.stream(serve, w, r, size) }
}

// stream serves a call with a streamed response, which has no time limits but that of each part. The
// request has already been read.
func (g *Gateway) stream(serve func(http.ResponseWriter, *http.Request, int), w http.ResponseWriter, r *http.Request, size int) {
	s := &streamedWriter{ResponseWriter: w, control: http.NewResponseController(w)}
	w.Header().Set("X-Accel-Buffering", "no")  // nginx would keep a quiet stream's first answers for minutes
	_ = s.control.SetReadDeadline(time.Time{}) // otherwise its expiry would look like a broken connection
	ended, hurried := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(hurried)
		select {
		case <-g.options.Draining:
			s.drain()
		case <-ended:
		}
	}()
	defer func() { close(ended); <-hurried }() // the connection is another call's then
	serve(s, r.WithContext(context.WithValue(r.Context(), streamedKey{}, s)), size)
}

type streamedKey struct{}

// streamError returns the status of an error that ends a streamed response. The gateway sends the response's headers after
// that, if the error is all of it: they tell when to retry, as those of other responses do.
func streamError(ctx context.Context, err error) *status.Status {
	s := runtime.DefaultStreamErrorHandler(ctx, err)
	if w, ok := ctx.Value(streamedKey{}).(*streamedWriter); ok {
		admission.TellWhenToRetry(w, s)
	}
	return s
}

type streamedWriter struct {
	http.ResponseWriter
	control *http.ResponseController

	mu       sync.Mutex
	draining bool // guarded by mu
}

// drain limits the part that is being written, and those to come.
func (s *streamedWriter) drain() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.draining = true
	_ = s.control.SetWriteDeadline(time.Now().Add(drainWrite))
}

// begin sets the limit of a part.
func (s *streamedWriter) begin() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.draining {
		_ = s.control.SetWriteDeadline(time.Now().Add(streamWrite))
	}
}

// Write implements http.ResponseWriter.
func (s *streamedWriter) Write(b []byte) (int, error) {
	s.begin()
	return s.ResponseWriter.Write(b)
}

// Unwrap is for http.ResponseController.
func (s *streamedWriter) Unwrap() http.ResponseWriter { return s.ResponseWriter }
