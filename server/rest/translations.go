package rest

import (
	"net/http"
	"runtime"
	"strings"
	"sync"

	grpcruntime "github.com/grpc-ecosystem/grpc-gateway/v2/runtime"
	"google.golang.org/grpc/status"

	"github.com/setpoint-dev/setpoint/server/admission"
)

// translations limits the REST calls that the gateway transcodes at once, because their messages
// take several times the memory of their bytes.
type translations struct {
	// small and large are semaphores.
	small, large chan struct{}
}

const (
	// smallBody is the size of the largest small body, in bytes.
	smallBody = 4 << 10
	// smallTranslations and, per processor, largeTranslations are the limits.
	smallTranslations, largeTranslations = 256, 4
)

func newTranslations() translations {
	return translations{
		small: make(chan struct{}, smallTranslations),
		large: make(chan struct{}, largeTranslations*runtime.GOMAXPROCS(0)),
	}
}

// serve waits for a place for a body of that size, and has the gateway serve the call.
func (t *translations) serve(gateway *grpcruntime.ServeMux, w http.ResponseWriter, r *http.Request, size int) {
	places := t.small
	if size > smallBody || isList(r) {
		places = t.large
	}
	select {
	case places <- struct{}{}: // also for a call that has been given up: a client that has half-closed the connection still reads
	default:
		select {
		case places <- struct{}{}:
		case <-r.Context().Done():
			admission.AnswerStatus(gateway, w, r, status.FromContextError(r.Context().Err()))
			return
		}
	}
	leave := sync.OnceFunc(func() { <-places })
	defer leave()
	gateway.ServeHTTP(&translated{w, leave}, r)
}

// isList reports whether the response may be large although the call is not.
func isList(r *http.Request) bool {
	for _, list := range []string{"/targets", "/decisions", "/targetSpecs", "/spec"} {
		if strings.HasSuffix(r.URL.Path, list) {
			return true
		}
	}
	return false
}

// translated writes a response. The response is complete at its first byte, which releases the
// place, however slowly the caller reads.
type translated struct {
	http.ResponseWriter
	leave func()
}

// Write implements http.ResponseWriter.
func (t *translated) Write(b []byte) (int, error) {
	t.leave()
	return t.ResponseWriter.Write(b)
}

// Unwrap is for http.ResponseController.
func (t *translated) Unwrap() http.ResponseWriter { return t.ResponseWriter }

// Flush implements http.Flusher, which the gateway asks for.
func (t *translated) Flush() { _ = http.NewResponseController(t.ResponseWriter).Flush() }
