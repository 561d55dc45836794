package rest

import (
	"net/http"
	"strings"
	"sync"
	"time"

	grpcruntime "github.com/grpc-ecosystem/grpc-gateway/v2/runtime"
)

// streamWrite limits the time to write a part of a streamed response: a caller that
// reads nothing for so long is cut off.
const streamWrite = time.Minute

// isStreamed reports whether the response is streamed, for as long as that takes.
func isStreamed(r *http.Request) bool {
	return strings.HasSuffix(r.URL.Path, "/decisions:watch") || r.URL.Path == "/v1/simulations:run"
}

// drainWrite limits the same once the server begins to stop, and with it how long the stop
// waits for such a caller.
const drainWrite = time.Second

// serve has the gateway serve a call with a body of that size. A streamed response has no time
// limits but that of each part. The request has already been read.
func (g *Gateway) serve(next *grpcruntime.ServeMux, w http.ResponseWriter, r *http.Request, size int) {
	if code := misdirected(r); code != 0 {
		_, marshaler := grpcruntime.MarshalerForRequest(next, r)
		answerRoutingError(r.Context(), next, marshaler, w, r, code)
		return
	}
	if !isStreamed(r) {
		g.translations.serve(next, w, r, size)
		return
	}
	s := &streamedWriter{ResponseWriter: w, control: http.NewResponseController(w)}
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
	g.translations.serve(next, s, r, size)
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
