package rest

import (
	"context"
	"net/http"
	"strings"
	"time"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/server/admission"
)

// streamWrite limits the time to write a part of a streamed response: a caller that
// reads nothing for so long is cut off.
const streamWrite = time.Minute

// isStreamed reports whether the response is streamed, for as long as that takes.
func isStreamed(r *http.Request) bool {
	return strings.HasSuffix(r.URL.Path, "/decisions:watch") || r.URL.Path == "/v1/simulations:run"
}

// streamed removes the time limits of a call with a streamed response: each part has its own
// limit. The request has already been read.
func streamed(w http.ResponseWriter, r *http.Request) http.ResponseWriter {
	if !isStreamed(r) {
		return w
	}
	control := http.NewResponseController(w)
	_ = control.SetReadDeadline(time.Time{}) // otherwise its expiry would look like a broken connection
	return &streamedWriter{w, control}
}

type streamedWriter struct {
	http.ResponseWriter
	control *http.ResponseController
}

// Write implements http.ResponseWriter.
func (s *streamedWriter) Write(b []byte) (int, error) {
	_ = s.control.SetWriteDeadline(time.Now().Add(streamWrite))
	return s.ResponseWriter.Write(b)
}

// Unwrap is for http.ResponseController.
func (s *streamedWriter) Unwrap() http.ResponseWriter { return s.ResponseWriter }

// giveWay releases the place of a call that mostly waits: it would count as running, and
// cause others to be refused.
func giveWay(ctx context.Context, method string) {
	if ticket := admission.RESTTicketOf(ctx); ticket != nil && method == setpointv1.TargetService_WatchDecisions_FullMethodName {
		ticket.Release()
	}
}
