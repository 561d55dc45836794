package rest

import (
	"context"
	"net/http"
	"strings"
	"time"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/server/admission"
)

// streamWrite is how long a part of a streamed answer may take to be written: who reads
// nothing for so long is cut off.
const streamWrite = time.Minute

// isStreamed reports whether the answer comes in parts, for as long as it takes.
func isStreamed(r *http.Request) bool {
	return strings.HasSuffix(r.URL.Path, "/decisions:watch") || r.URL.Path == "/v1/simulations:run"
}

// streamed lifts the bounds of a call's time from one whose answer comes in parts: each part
// has its own. The request has been read by then.
func streamed(w http.ResponseWriter, r *http.Request) http.ResponseWriter {
	if !isStreamed(r) {
		return w
	}
	control := http.NewResponseController(w)
	_ = control.SetReadDeadline(time.Time{}) // or the connection counts as broken when it passes
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

// giveWay gives the place back of a call that mostly waits: it would be one that runs, which
// others are refused for.
func giveWay(ctx context.Context, method string) {
	if ticket := admission.RESTTicketOf(ctx); ticket != nil && method == setpointv1.TargetService_WatchDecisions_FullMethodName {
		ticket.Release()
	}
}
