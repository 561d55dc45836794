package admission

import (
	"net/http"
	"time"

	"github.com/setpoint-dev/setpoint/server/unfinished"
)

// UnreadREST counts REST responses while they are written. When others need the memory, it closes
// the connections of callers that do not read.
func (g *Guard) UnreadREST(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		next.ServeHTTP(&unreadWriter{ResponseWriter: w, meter: g.Unfinished.Answers()}, r)
	})
}

type unreadWriter struct {
	http.ResponseWriter
	meter *unfinished.Meter
}

// restCopies is how many copies of a response exist while it is written: the text and the encoded
// one.
const restCopies = 2

// quickly is the size up to which the system's buffers take a response at once, in
// bytes.
const quickly = 16 << 10

// Write implements http.ResponseWriter.
func (u *unreadWriter) Write(b []byte) (int, error) {
	if len(b) <= quickly {
		return u.ResponseWriter.Write(b)
	}
	holder := u.meter.Begin(func() {
		_ = http.NewResponseController(u.ResponseWriter).SetWriteDeadline(time.Unix(1, 0))
	})
	defer holder.End()
	holder.Add(restCopies * len(b))
	return u.ResponseWriter.Write(b)
}

// Unwrap is for http.ResponseController.
func (u *unreadWriter) Unwrap() http.ResponseWriter { return u.ResponseWriter }

// Flush implements http.Flusher, which the gateway asks for.
func (u *unreadWriter) Flush() { _ = http.NewResponseController(u.ResponseWriter).Flush() }
